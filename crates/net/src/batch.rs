//! The batch that a transport lends and sends: the same for all of them.

use crate::transport::Outgoing;
use std::ops::Range;
use wire::Checksum;

/// Buffers that are lent one after the other, each for a query on a flow, until they are sent together.
#[derive(Debug, Default)]
pub struct Batch {
    frames: Box<[Outgoing]>,
    /// The flow of each frame that is lent.
    flows: Vec<u32>,
}

impl Batch {
    /// A batch of `size` buffers, none of them lent.
    pub(crate) fn new(size: usize) -> Self {
        let frame = || Outgoing { bytes: Vec::with_capacity(512), ..Outgoing::default() };
        Self { frames: std::iter::repeat_with(frame).take(size).collect(), flows: Vec::with_capacity(size) }
    }

    /// How many buffers it has.
    pub fn size(&self) -> usize {
        self.frames.len()
    }

    /// Octets of memory that its buffers have.
    pub(crate) fn bytes(&self) -> usize {
        self.frames.iter().map(|f| size_of::<Outgoing>() + f.bytes.capacity()).sum()
    }

    /// The next free buffer, emptied, for a query on `flow`; `None` where all are lent.
    pub(crate) fn lend(&mut self, flow: u32) -> Option<&mut Outgoing> {
        let frame = self.frames.get_mut(self.flows.len())?;
        self.flows.push(flow);
        frame.bytes.clear();
        (frame.df, frame.checksum) = (false, Checksum::Right);
        Some(frame)
    }

    /// All its buffers, the lent ones first, in the order of lending.
    pub(crate) fn frames(&self) -> &[Outgoing] {
        &self.frames
    }

    /// The flow of each lent buffer.
    pub(crate) fn flows(&self) -> &[u32] {
        &self.flows
    }

    /// The lent buffers by runs of one flow: the flow, and which buffers.
    pub(crate) fn runs(&self) -> impl Iterator<Item = (u32, Range<usize>)> {
        let mut end = 0;
        self.flows.chunk_by(|a, b| a == b).map(move |run| {
            end += run.len();
            (run[0], end - run.len()..end)
        })
    }

    /// Takes back what was lent.
    pub(crate) fn clear(&mut self) {
        self.flows.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_lent_until_none_is_left_and_come_back_empty() {
        let mut batch = Batch::new(4);
        for flow in [7, 7, 1, 7] {
            let frame = batch.lend(flow).unwrap();
            frame.bytes.push(flow as u8);
            (frame.df, frame.checksum) = (true, Checksum::Bad);
        }
        assert!(batch.lend(7).is_none());
        assert_eq!(batch.runs().collect::<Vec<_>>(), [(7, 0..2), (1, 2..3), (7, 3..4)]);
        batch.clear();
        assert_eq!(batch.runs().count(), 0);
        let frame = batch.lend(2).unwrap();
        assert_eq!((frame.bytes.len(), frame.df, frame.checksum), (0, false, Checksum::Right));
        assert_eq!((batch.flows(), batch.size()), (&[2][..], 4));
    }
}
