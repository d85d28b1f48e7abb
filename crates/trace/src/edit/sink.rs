//! Where packets and lines go: one output, or one for each slot of time.

use super::{Error, Kind, Summary};
use crate::read::Frame;
use crate::write::Layout;
use measure::Nanos;
use serde::Serialize;
use std::collections::BTreeMap;
use std::io::{self, Write};
use traffic::Query;
use wire::header::Header;
use wire::question;

/// Slots that are open at once: captures are out of order by little.
const OPEN_MAX: usize = 8;

/// Where the result goes.
pub enum Output<'a> {
    /// All in one.
    One(&'a mut dyn Write),
    /// One for each slot in which there is something, aligned to multiples of its length since 1970.
    Slots {
        /// How long a slot is, in nanoseconds.
        length: Nanos,
        /// Opens the output of the slot that begins then; where the second is true, it was open before, and is gone
        /// on with at its end.
        open: &'a mut dyn FnMut(Nanos, bool) -> io::Result<Box<dyn Write>>,
    },
}

/// An output of a slot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Slot {
    /// When it begins, in nanoseconds since 1970.
    pub start: Nanos,
    /// Packets or lines.
    pub written: u64,
    /// Octets.
    pub bytes: u64,
}

/// Takes packets and lines.
pub(super) struct Sink<'a> {
    kind: Kind,
    output: Output<'a>,
    /// By when their slots begin; where there are no slots, at 0.
    parts: BTreeMap<Nanos, Part>,
    /// The open outputs of [`Output::Slots`].
    open: BTreeMap<Nanos, Box<dyn Write>>,
    query: Query,
    line: Vec<u8>,
    span: Option<(Nanos, Nanos)>,
}

/// A part of an output.
struct Part {
    layout: Layout,
    lines: u64,
    octets: u64,
}

impl Part {
    fn new(kind: Kind) -> Self {
        Self { layout: Layout::new(kind.format()), lines: 0, octets: 0 }
    }
}

impl<'a> Sink<'a> {
    pub fn new(kind: Kind, output: Output<'a>) -> Self {
        let parts = match output {
            Output::One(_) => BTreeMap::from([(0, Part::new(kind))]),
            Output::Slots { .. } => BTreeMap::new(),
        };
        let (open, query, line) = (BTreeMap::new(), Query::default(), Vec::new());
        Self { kind, output, parts, open, query, line, span: None }
    }

    /// Where something of this time goes.
    fn part(&mut self, at: Nanos) -> Result<(&mut Part, &mut dyn Write), Error> {
        let (first, last) = self.span.unwrap_or((at, at));
        self.span = Some((first.min(at), last.max(at)));
        let (start, open) = match &mut self.output {
            Output::One(out) => return Ok((self.parts.get_mut(&0).expect("the one"), *out)),
            Output::Slots { length, open } => (at - at % (*length).max(1), open),
        };
        if !self.open.contains_key(&start) {
            // The earliest is the least likely to be wanted again.
            if self.open.len() == OPEN_MAX
                && let Some((_, mut out)) = self.open.pop_first()
            {
                out.flush()?;
            }
            let again = self.parts.contains_key(&start);
            self.open.insert(start, open(start, again)?);
        }
        let part = self.parts.entry(start).or_insert_with(|| Part::new(self.kind));
        Ok((part, &mut **self.open.get_mut(&start).expect("open now")))
    }

    /// Adds a packet.
    pub fn frame(&mut self, at: Nanos, link: u16, bytes: &[u8], len: usize) -> Result<(), Error> {
        let (part, out) = self.part(at)?;
        Ok(part.layout.add(at, Frame { link, bytes, len }, out)?)
    }

    /// Adds a query as a line; false where it is not a query to be written: of another opcode or class, without a question.
    pub fn query(&mut self, at: Nanos, message: &[u8]) -> Result<bool, Error> {
        let header = Header::new(message);
        let question = question::parse(message);
        if header.is_none_or(|h| h.opcode() != 0) || question.is_none_or(|q| q.qclass != 1) {
            return Ok(false);
        }
        let (mut query, mut line) = (std::mem::take(&mut self.query), std::mem::take(&mut self.line));
        query.bytes.clear();
        query.bytes.extend_from_slice(message);
        let (part, out) = self.part(at)?;
        traffic::write_line(&query, &mut line, out)?;
        part.lines += 1;
        part.octets += line.len() as u64;
        (self.query, self.line) = (query, line);
        Ok(true)
    }

    /// Ends all outputs, and says what is in them.
    pub fn finish(mut self, summary: &mut Summary) -> Result<(), Error> {
        if let (Output::One(out), true) = (&mut self.output, self.kind != Kind::Queries) {
            self.parts.get_mut(&0).expect("the one").layout.finish(*out)?;
        }
        for out in self.open.values_mut() {
            out.flush()?;
        }
        for (&start, part) in &self.parts {
            let (written, bytes) = match self.kind {
                Kind::Queries => (part.lines, part.octets),
                _ => (part.layout.packets(), part.layout.octets()),
            };
            summary.written += written;
            summary.bytes += bytes;
            if let Output::Slots { .. } = self.output {
                summary.slots.push(Slot { start, written, bytes });
            }
        }
        (summary.first, summary.last) = (self.span.map(|s| s.0), self.span.map(|s| s.1));
        Ok(())
    }
}
