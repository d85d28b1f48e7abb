//! The OPT record of a message (RFC 6891, section 6.1.2), found without parsing the rest.

use crate::header::Header;
use crate::question;
use crate::record::skip_name;

/// Type OPT.
const OPT: u16 = 41;

/// The fields of an OPT record.
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

/// Where the first OPT record of the additional section goes on after its owner, the root: its type, class (the UDP
/// size), TTL, length and data. The fixed part, ten octets, is whole. `None` where there is none, or the message breaks
/// off before it.
pub fn locate(msg: &[u8]) -> Option<usize> {
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
            return Some(at);
        }
        at += 10 + usize::from(word(8));
    }
    None
}

/// The first OPT record of the additional section; `None` where there is none, or the message breaks off before it.
pub fn find(msg: &[u8]) -> Option<Opt> {
    let fixed: &[u8; 10] = msg.get(locate(msg)?..)?.first_chunk()?;
    let word = |i: usize| u16::from_be_bytes([fixed[i], fixed[i + 1]]);
    Some(Opt { udp_size: word(2), extended_rcode: fixed[4], version: fixed[5], flags: word(6) })
}

/// Where the options of the first OPT record are (RFC 6891, section 6.1.2), by code and place of their data; the last
/// may break off with the message.
pub fn options(msg: &[u8]) -> impl Iterator<Item = (u16, std::ops::Range<usize>)> + '_ {
    let word = |at: usize| Some(u16::from_be_bytes(*msg.get(at..)?.first_chunk()?));
    let (mut at, end) = locate(msg).map_or((0, 0), |at| {
        let length = usize::from(word(at + 8).unwrap_or(0));
        (at + 10, (at + 10 + length).min(msg.len()))
    });
    std::iter::from_fn(move || {
        let (code, length) = (word(at)?, usize::from(word(at + 2)?));
        let data = at + 4..(at + 4 + length).min(end);
        if data.start > end {
            return None;
        }
        at = data.end;
        Some((code, data))
    })
}

/// Writes the UDP size into the first OPT record; false where there is none.
pub fn set_udp_size(msg: &mut [u8], size: u16) -> bool {
    let Some(at) = locate(msg) else { return false };
    msg[at + 2..at + 4].copy_from_slice(&size.to_be_bytes());
    true
}

/// Fuzz entry point: any octets as a message.
///
/// # Panics
/// Where its views contradict each other: a bug.
pub fn fuzz_opt(msg: &[u8]) {
    for (_, data) in options(msg) {
        assert!(data.start <= data.end && data.end <= msg.len());
    }
    if let Some(opt) = find(msg) {
        assert_eq!(opt.do_bit(), opt.flags >= 0x8000, "DO is the first flag");
        let mut other = msg.to_vec();
        assert!(set_udp_size(&mut other, !opt.udp_size));
        assert_eq!(find(&other), Some(Opt { udp_size: !opt.udp_size, ..opt }));
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

    #[test]
    fn options_are_found_where_they_are() {
        let mut msg = Vec::new();
        write(&mut msg, 7, b"\0", 1, Some(Edns { udp_size: 512, do_bit: true }));
        assert_eq!(options(&msg).count(), 0);
        msg.extend_from_slice(&[0, 10, 0, 2, 1, 2, 0, 8, 0, 7, 0, 1, 24, 0, 192, 0, 2, 9, 9]);
        let length = msg.len();
        msg[27] = 17;
        assert_eq!(options(&msg).collect::<Vec<_>>(), [(10, 32..34), (8, 38..45)]);
        // Octets after the record are none of its options; an option that breaks off is given as far as it is there.
        assert_eq!((length, options(&msg[..41]).last()), (47, Some((8, 38..41))));
        assert_eq!(options(&msg[..35]).collect::<Vec<_>>(), [(10, 32..34)]);
        assert!(set_udp_size(&mut msg, 65_535));
        assert_eq!(find(&msg).unwrap().udp_size, 65_535);
        assert!(!set_udp_size(&mut msg[..20], 1));
    }

    proptest! {
        #[test]
        fn any_octets_are_a_message_or_not(msg in prop::collection::vec(any::<u8>(), 0..200)) {
            fuzz_opt(&msg);
        }
    }
}
