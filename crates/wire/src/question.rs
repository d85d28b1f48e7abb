//! The first question of a message (RFC 1035, section 4.1.2).
//!
//! A question comes first, so its name has nothing before it to point at: a compression pointer
//! there is not a question but an error, and gives `None`, as does a name beyond 255 octets.

use crate::header::{Header, LEN};

/// The longest name, in octets with its root label (RFC 1035, section 2.3.4).
const NAME_MAX: usize = 255;

/// A view over the first question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Question<'a> {
    /// The name in wire format, its case as it came.
    pub qname: &'a [u8],
    /// QTYPE.
    pub qtype: u16,
    /// QCLASS.
    pub qclass: u16,
}

/// The octet after the first question; `None` where there is none or it is damaged.
pub fn end(msg: &[u8]) -> Option<usize> {
    if Header::new(msg)?.qdcount() == 0 {
        return None;
    }
    let mut at = LEN;
    loop {
        match usize::from(*msg.get(at)?) {
            0 => break,
            label @ 1..=63 => at += 1 + label,
            _ => return None,
        }
        if at - LEN >= NAME_MAX {
            return None;
        }
    }
    let end = at + 5;
    (end <= msg.len()).then_some(end)
}

/// The first question; `None` where there is none or it is damaged.
pub fn parse(msg: &[u8]) -> Option<Question<'_>> {
    let end = end(msg)?;
    let (qname, rest) = msg[LEN..end].split_at(end - LEN - 4);
    Some(Question {
        qname,
        qtype: u16::from_be_bytes([rest[0], rest[1]]),
        qclass: u16::from_be_bytes([rest[2], rest[3]]),
    })
}

/// A 64-bit hash of the first question's octets as they are (the name keeps its case, which a server
/// must echo): to tell whether an answer belongs to a query. The same in every process of one build.
/// Not cryptographic: whoever chooses names can make collisions.
pub fn hash(msg: &[u8]) -> Option<u64> {
    Some(hash_octets(&msg[LEN..end(msg)?]))
}

/// The hash behind [`hash`], of any octets.
///
/// Eight at a time: xor into the state, multiply to 128 bits, fold both halves. The length goes in
/// first, so that padding the tail with zeros cannot make two inputs equal.
pub fn hash_octets(bytes: &[u8]) -> u64 {
    // Odd constants with well-spread bits: the fractions of sqrt(2) and sqrt(3).
    const STATE: u64 = 0x6a09_e667_f3bc_c909;
    const FACTOR: u64 = 0xbb67_ae85_84ca_a73b;
    let fold = |state: u64, word: u64| {
        let product = u128::from(state ^ word) * u128::from(FACTOR);
        (product as u64) ^ (product >> 64) as u64
    };
    let mut state = fold(STATE, bytes.len() as u64);
    let mut chunks = bytes.chunks_exact(8);
    for chunk in &mut chunks {
        state = fold(state, u64::from_le_bytes(chunk.try_into().expect("chunks of eight")));
    }
    let mut tail = [0; 8];
    let rest = chunks.remainder();
    tail[..rest.len()].copy_from_slice(rest);
    // Once more at the end: the last word must reach every bit too.
    fold(fold(state, u64::from_le_bytes(tail)), STATE)
}

/// Fuzz entry point: any octets through every view of a message, and the views must agree.
///
/// # Panics
/// Where they do not: a bug.
pub fn fuzz_message(msg: &[u8]) {
    let Some(header) = Header::new(msg) else {
        assert!(end(msg).is_none() && hash(msg).is_none(), "a question without a header");
        return;
    };
    assert!(header.opcode() < 16 && header.rcode() < 16);
    let (Some(end), Some(question)) = (end(msg), parse(msg)) else {
        assert!(end(msg).is_none() && parse(msg).is_none() && hash(msg).is_none());
        return;
    };
    assert!(end <= msg.len() && header.qdcount() > 0);
    assert!(question.qname.len() <= NAME_MAX && question.qname.last() == Some(&0));
    assert_eq!(LEN + question.qname.len() + 4, end);
    // Octets after the question, and the ID, must not matter.
    let mut other = msg[..end].to_vec();
    crate::header::set_id(&mut other, !header.id());
    assert_eq!(hash(&other), hash(msg));
    let mut again = Vec::new();
    crate::query::write(&mut again, 0, question.qname, question.qtype, None);
    assert_eq!(parse(&again).map(|q| (q.qname, q.qtype)), Some((question.qname, question.qtype)));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::query;
    use proptest::prelude::*;
    use std::collections::HashSet;

    fn sample() -> Vec<u8> {
        let mut msg = Vec::new();
        query::write(
            &mut msg,
            7,
            b"\x03www\x07example\x00",
            28,
            Some(query::Edns { udp_size: 1232, do_bit: true }),
        );
        msg
    }

    #[test]
    fn a_question_is_found() {
        let msg = sample();
        let question = parse(&msg).unwrap();
        assert_eq!(question, Question { qname: b"\x03www\x07example\x00", qtype: 28, qclass: 1 });
        assert_eq!(end(&msg), Some(12 + 13 + 4));
    }

    #[test]
    fn damaged_questions_are_refused() {
        let msg = sample();
        let question_end = end(&msg).unwrap();
        for cut in 0..question_end {
            assert_eq!(end(&msg[..cut]), None, "cut at {cut}");
        }
        for label in [0x40, 0x80, 0xc0] {
            let mut bad = msg.clone();
            bad[12] = label;
            assert_eq!(end(&bad), None, "label type {label:#x}");
        }
        let mut none = msg.clone();
        none[5] = 0;
        assert_eq!(end(&none), None, "no question");
        let mut long = msg[..12].to_vec();
        long.extend([[1, b'a']; 127].concat());
        long.extend([0, 0, 1, 0, 1]);
        assert_eq!(parse(&long).unwrap().qname.len(), 255, "the longest name");
        long.splice(12..12, [1, b'a']);
        assert_eq!(end(&long), None, "a name of 257 octets");
    }

    #[test]
    fn hashes_tell_questions_apart() {
        let mut seen = HashSet::new();
        let mut msg = Vec::new();
        for n in 0..200_000u32 {
            let label = format!("{n:06}");
            let name = [&[6], label.as_bytes(), b"\x00"].concat();
            query::write(&mut msg, n as u16, &name, 1 + (n % 3) as u16, None);
            assert!(seen.insert(hash(&msg).unwrap()), "two questions with one hash");
        }
        assert_ne!(hash_octets(b"a"), hash_octets(b"a\0"));
        assert_ne!(hash_octets(b"A"), hash_octets(b"a"));
    }

    #[test]
    fn mutated_messages_never_panic() {
        let msg = sample();
        let mut state = 1u64;
        let mut random = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as usize
        };
        for _ in 0..200_000 {
            let mut m = msg.clone();
            for _ in 0..1 + random() % 4 {
                let at = random() % m.len();
                m[at] = random() as u8;
            }
            m.truncate(random() % (m.len() + 1));
            fuzz_message(&m);
        }
    }

    proptest! {
        #[test]
        fn any_octets_are_safe(msg in prop::collection::vec(any::<u8>(), 0..600)) {
            fuzz_message(&msg);
        }
    }
}
