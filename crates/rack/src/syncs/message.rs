//! The parts of an UPDATE message (RFC 2136) and of its answer that the analysis of a trace needs.

/// Labels shorter than this are found everywhere.
const MIN_LABEL: usize = 4;

/// The most names of one update that are looked for.
const MAX_MARKS: usize = 4;

/// An UPDATE, or an answer to one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Update {
    pub id: u16,
    pub answer: bool,
    pub rcode: u8,
    /// The first labels of the names it changes, in lower case: what is looked for in files.
    pub marks: Vec<Vec<u8>>,
}

/// Reads a message; `None` where it is not one, or has another opcode.
pub(super) fn update(message: &[u8]) -> Option<Update> {
    let header: &[u8; 12] = message.first_chunk()?;
    let half = |at: usize| u16::from_be_bytes([header[at], header[at + 1]]);
    if header[2] >> 3 & 0xf != 5 {
        return None;
    }
    let mut update =
        Update { id: half(0), answer: header[2] & 0x80 != 0, rcode: header[3] & 0xf, marks: Vec::new() };
    if !update.answer {
        // A message that is cut off is read as far as it goes.
        let _ = marks(message, [half(4), half(6), half(8)], &mut update.marks);
    }
    Some(update)
}

fn marks(message: &[u8], counts: [u16; 3], marks: &mut Vec<Vec<u8>>) -> Option<()> {
    let mut at = 12;
    for _ in 0..counts[0] {
        at = after_name(message, at)? + 4;
    }
    for n in 0..u32::from(counts[1]) + u32::from(counts[2]) {
        let first = label(message, at)?;
        if n >= u32::from(counts[1]) && first.len() >= MIN_LABEL && marks.len() < MAX_MARKS {
            let first = first.to_ascii_lowercase();
            if !marks.contains(&first) {
                marks.push(first);
            }
        }
        at = after_name(message, at)? + 8;
        at += 2 + usize::from(u16::from_be_bytes([*message.get(at)?, *message.get(at + 1)?]));
    }
    Some(())
}

/// The first label of a name; empty: the root.
fn label(message: &[u8], mut at: usize) -> Option<&[u8]> {
    for _ in 0..16 {
        let len = usize::from(*message.get(at)?);
        if len < 64 {
            return message.get(at + 1..at + 1 + len);
        }
        at = (len & 0x3f) << 8 | usize::from(*message.get(at + 1)?);
    }
    None
}

fn after_name(message: &[u8], mut at: usize) -> Option<usize> {
    loop {
        match *message.get(at)? {
            0 => return Some(at + 1),
            len if len < 64 => at += 1 + usize::from(len),
            _ => return Some(at + 2),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_an_update_changes() {
        // As nsupdate sends it: add u000001.example. 60 A 192.0.2.9
        let message = b"\x8a\xad(\0\0\x01\0\0\0\x01\0\0\x07example\0\0\x06\0\x01\x07U000001\xc0\x0c\0\x01\0\x01\0\0\0<\0\x04\xc0\0\x02\t";
        let want = Update { id: 0x8aad, answer: false, rcode: 0, marks: vec![b"u000001".to_vec()] };
        assert_eq!(update(message), Some(want.clone()));
        // Cut off, and with a loop of pointers.
        assert_eq!(update(&message[..40]).unwrap().marks, want.marks);
        let mut looped = message.to_vec();
        looped[25..27].copy_from_slice(&[0xc0, 25]);
        assert!(update(&looped).unwrap().marks.is_empty());
        let answer = b"\x8a\xad\xa8\x05\0\x01\0\0\0\0\0\0\x07example\0\0\x06\0\x01";
        assert_eq!(update(answer), Some(Update { id: 0x8aad, answer: true, rcode: 5, marks: Vec::new() }));
        let query = b"\x8a\xad\x01\0\0\x01\0\0\0\0\0\0\x07example\0\0\x06\0\x01";
        assert_eq!(update(query), None);
    }
}
