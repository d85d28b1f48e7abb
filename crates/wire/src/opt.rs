//! The OPT record of a message (RFC 6891, section 6.1.2), found without parsing the rest.

use crate::header::Header;
use crate::question;

/// Type OPT.
const OPT: u16 = 41;

/// What an OPT record says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opt {
    /// The sender's UDP payload size, in octets.
    pub udp_size: u16,
    /// The upper eight bits of the response code.
    pub extended_rcode: u8,
    /// The EDNS version.
    pub version: u8,
    /// The flags, DO first.
    pub flags: u16,
}

impl Opt {
    /// DNSSEC records are wanted (RFC 3225).
    pub fn do_bit(self) -> bool {
        self.flags & 0x8000 != 0
    }
}

/// The end of the name at `at`; `None` where it runs out of the message.
fn skip_name(msg: &[u8], mut at: usize) -> Option<usize> {
    loop {
        match *msg.get(at)? {
            0 => return Some(at + 1),
            len @ 1..=63 => at += 1 + usize::from(len),
            192.. => return Some(at + 2),
            _ => return None,
        }
    }
}

/// The first OPT record of the additional section; `None` where there is none, or the message breaks off before it.
pub fn find(msg: &[u8]) -> Option<Opt> {
    let header = Header::new(msg)?;
    let before = usize::from(header.ancount()) + usize::from(header.nscount());
    let all = before + usize::from(header.arcount());
    let mut at = match header.qdcount() {
        0 => 12,
        1 => question::end(msg)?,
        _ => return None,
    };
    for n in 0..all {
        let owner = at;
        at = skip_name(msg, at)?;
        let fixed: &[u8; 10] = msg.get(at..)?.first_chunk()?;
        let word = |i: usize| u16::from_be_bytes([fixed[i], fixed[i + 1]]);
        if n >= before && word(0) == OPT && msg[owner] == 0 {
            return Some(Opt {
                udp_size: word(2),
                extended_rcode: fixed[4],
                version: fixed[5],
                flags: word(6),
            });
        }
        at += 10 + usize::from(word(8));
    }
    None
}

/// Fuzz entry point: any octets as a message.
pub fn fuzz_opt(msg: &[u8]) {
    if let Some(opt) = find(msg) {
        assert_eq!(opt.do_bit(), opt.flags >= 0x8000, "DO is the first flag");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::query::{Edns, write};
    use proptest::prelude::*;

    #[test]
    fn queries_have_the_opt_record_that_was_asked_for() {
        let mut msg = Vec::new();
        write(&mut msg, 7, b"\x07example\x00", 1, None);
        assert_eq!(find(&msg), None);
        for do_bit in [false, true] {
            write(&mut msg, 7, b"\x07example\x00", 1, Some(Edns { udp_size: 1400, do_bit }));
            let opt = find(&msg).unwrap();
            assert_eq!((opt.udp_size, opt.version, opt.extended_rcode, opt.do_bit()), (1400, 0, 0, do_bit));
            // Behind a record with a compressed owner.
            let mut answer = msg[..25].to_vec();
            answer[7] = 1;
            answer.extend_from_slice(&[0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 9, 0, 4, 1, 2, 3, 4]);
            answer.extend_from_slice(&msg[25..]);
            assert_eq!(find(&answer), Some(opt));
            (0..answer.len() - 2).for_each(|len| assert_eq!(find(&answer[..len]), None, "{len}"));
        }
    }

    proptest! {
        #[test]
        fn any_octets_are_a_message_or_not(msg in prop::collection::vec(any::<u8>(), 0..200)) {
            fuzz_opt(&msg);
        }
    }
}
