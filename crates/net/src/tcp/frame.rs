//! DNS messages in a stream of octets: a length of two octets before each (RFC 1035 section 4.2.2).

use crate::transport::Incoming;

/// Buffers that are lent to connections only while these have something to keep, so that an idle one has none.
#[derive(Default)]
pub(crate) struct Pool(Vec<Vec<u8>>);

impl Pool {
    /// The most buffers that are kept, and the most octets that one may hold to be kept.
    const KEPT: usize = 256;
    const LARGEST: usize = 16 << 10;

    pub(crate) fn take(&mut self) -> Vec<u8> {
        self.0.pop().unwrap_or_else(|| Vec::with_capacity(512))
    }

    pub(crate) fn give(&mut self, mut buffer: Vec<u8>) {
        if self.0.len() < Self::KEPT && (1..=Self::LARGEST).contains(&buffer.capacity()) {
            buffer.clear();
            self.0.push(buffer);
        }
    }

    /// The octets that the buffers at rest hold.
    pub(crate) fn bytes(&self) -> usize {
        self.0.iter().map(Vec::capacity).sum()
    }
}

/// Appends a message with its length; false where it is too long for one.
pub(crate) fn append(out: &mut Vec<u8>, message: &[u8]) -> bool {
    let Ok(len) = u16::try_from(message.len()) else { return false };
    out.extend_from_slice(&len.to_be_bytes());
    out.extend_from_slice(message);
    true
}

/// Splits the first message, without its length, off a stream; `None` where it is not all there.
pub fn split(stream: &[u8]) -> Option<(&[u8], &[u8])> {
    let (len, rest) = stream.split_first_chunk()?;
    rest.split_at_checked(usize::from(u16::from_be_bytes(*len)))
}

/// Finds the messages in a stream that comes in pieces. Keeps at most [`Incoming::MAX`] octets of a message and the
/// two of its length.
#[derive(Default)]
pub(crate) struct Deframer {
    /// A message that is not complete: its length and what came of its beginning.
    partial: Vec<u8>,
    /// How many octets beyond those that are kept have come.
    skipped: usize,
}

impl Deframer {
    /// Takes the next piece; `each` sees every message that it completes: the octets kept, and the true length.
    pub(crate) fn feed(&mut self, mut piece: &[u8], pool: &mut Pool, each: &mut dyn FnMut(&[u8], usize)) {
        while !piece.is_empty() {
            if self.partial.is_empty() {
                if let Some((message, rest)) = split(piece) {
                    each(&message[..message.len().min(Incoming::MAX)], message.len());
                    piece = rest;
                    continue;
                }
                if self.partial.capacity() == 0 {
                    self.partial = pool.take();
                }
            }
            self.fill(2, &mut piece);
            let Some(len) = self.partial.first_chunk() else { return };
            let len = usize::from(u16::from_be_bytes(*len));
            let kept = len.min(Incoming::MAX);
            self.fill(2 + kept, &mut piece);
            let skip = (len - kept - self.skipped).min(piece.len());
            self.skipped += skip;
            piece = &piece[skip..];
            if self.partial.len() == 2 + kept && self.skipped == len - kept {
                each(&self.partial[2..], len);
                self.partial.clear();
                self.skipped = 0;
            }
        }
        if self.partial.is_empty() {
            self.give_back(pool);
        }
    }

    /// Moves octets from the piece until `partial` has as many as `until`.
    fn fill(&mut self, until: usize, piece: &mut &[u8]) {
        let n = until.saturating_sub(self.partial.len()).min(piece.len());
        let (now, rest) = piece.split_at(n);
        self.partial.extend_from_slice(now);
        *piece = rest;
    }

    /// Forgets an incomplete message and its buffer.
    pub(crate) fn give_back(&mut self, pool: &mut Pool) {
        pool.give(std::mem::take(&mut self.partial));
        self.skipped = 0;
    }

    /// The octets that its buffer holds.
    pub(crate) fn bytes(&self) -> usize {
        self.partial.capacity()
    }
}

/// Fuzz entry point: the same stream cut into pieces at any places gives the same messages. The first octet says how
/// long the pieces are.
///
/// # Panics
/// Where it does not.
pub fn fuzz_frames(bytes: &[u8]) {
    let Some((&size, stream)) = bytes.split_first() else { return };
    let mut pool = Pool::default();
    let mut whole = Vec::new();
    let mut rest = stream;
    while let Some((message, after)) = split(rest) {
        whole.push((message[..message.len().min(Incoming::MAX)].to_vec(), message.len()));
        rest = after;
    }
    for size in [usize::from(size) + 1, (usize::from(size) + 1) * 97] {
        let (mut deframer, mut seen) = (Deframer::default(), Vec::new());
        for piece in stream.chunks(size) {
            deframer.feed(piece, &mut pool, &mut |kept, len| seen.push((kept.to_vec(), len)));
        }
        assert!(seen == whole, "pieces of {size} octets give other messages");
        assert!(deframer.partial.len() <= 2 + Incoming::MAX, "more is kept than is shown");
        assert_eq!(deframer.partial.is_empty(), rest.is_empty(), "what is incomplete is kept");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_message_beyond_what_is_kept_has_its_length() {
        let mut stream = Vec::new();
        assert!(append(&mut stream, &[7; 65_535]) && append(&mut stream, &[]) && append(&mut stream, b"end"));
        assert!(!append(&mut stream, &[0; 65_536]));
        let (mut deframer, mut pool, mut seen) = (Deframer::default(), Pool::default(), Vec::new());
        for piece in stream.chunks(1000) {
            deframer.feed(piece, &mut pool, &mut |kept, len| seen.push((kept.len(), len)));
        }
        assert_eq!(seen, [(Incoming::MAX, 65_535), (0, 0), (3, 3)]);
        assert_eq!(deframer.bytes(), 0, "its buffer went back");
        assert!(pool.bytes() > 0);
    }

    proptest! {
        #[test]
        fn pieces_do_not_matter(
            messages in prop::collection::vec((0usize..6000, any::<u8>()), 0..8),
            tail in prop::collection::vec(any::<u8>(), 0..20),
            size in any::<u8>(),
        ) {
            let mut stream = vec![size];
            for (len, fill) in &messages {
                append(&mut stream, &vec![*fill; *len]);
            }
            stream.extend_from_slice(&tail);
            fuzz_frames(&stream);
            let mut seen = 0;
            let mut rest = &stream[1..];
            while let Some((_, after)) = split(rest) {
                rest = after;
                seen += 1;
            }
            prop_assert!(seen >= messages.len());
        }

        #[test]
        fn any_octets_are_a_stream(bytes in prop::collection::vec(any::<u8>(), 0..9000)) {
            fuzz_frames(&bytes);
        }
    }
}
