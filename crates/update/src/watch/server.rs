//! One server as the watcher sees it: what was asked, and what the answers show. No sockets, no clock.

use super::{Forwards, ServerResult};
use measure::Nanos;
use wire::header::Header;
use wire::record::Records;
use wire::transfer::{is_newer, soa_serial};
use wire::{question, rtype};

/// Questions that can wait for answers; a power of two.
pub(super) const SLOTS: usize = 4096;
/// How far the clocks of sends and of receipts may be apart: the wall clock is slewed by at most 0.5 ms in the second between
/// two looks at it.
const CLOCKS: Nanos = 1_000_000;

/// A question that waits.
#[derive(Clone, Copy, Debug)]
struct Asked {
    id: u16,
    at: Nanos,
    what: Forwards,
}

/// The change of a growing value that an answer shows. Instants are monotonic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// The value of before, or an older one in an answer that was overtaken.
    Nothing,
    /// The first value.
    First(u64),
    /// A greater value; when the last question was sent whose answer had the one before.
    Grown { before: u64, now: u64, hidden: Nanos },
    /// An older value in an answer to a question that was sent after a newer one had been received.
    Back { before: u64, now: u64 },
}

/// A value that should only grow.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Growing {
    pub value: Option<u64>,
    /// When the first answer with it was received.
    seen: Nanos,
    /// When the last question was sent whose answer had it.
    asked: Nanos,
}

impl Growing {
    fn take(&mut self, asked: Nanos, seen: Nanos, now: u64, newer: fn(u64, u64) -> bool) -> Change {
        let Some(before) = self.value else {
            *self = Self { value: Some(now), seen, asked };
            return Change::First(now);
        };
        if before == now {
            self.asked = self.asked.max(asked);
            return Change::Nothing;
        }
        let hidden = self.asked;
        let change = if newer(now, before) {
            Change::Grown { before, now, hidden }
        } else if asked > self.seen + CLOCKS {
            Change::Back { before, now }
        } else {
            return Change::Nothing;
        };
        *self = Self { value: Some(now), seen, asked };
        change
    }
}

pub(super) struct Server {
    slots: Box<[Option<Asked>]>,
    next: u16,
    pub marker: Growing,
    pub serial: Growing,
    /// When the last question was sent, and when one was that came too long after the one before.
    pub last_sent: Option<Nanos>,
    pub stalled: Option<Nanos>,
    pub counts: ServerResult,
    data: Vec<u8>,
}

impl Server {
    pub fn new(name: &str) -> Self {
        Self {
            slots: vec![None; SLOTS].into(),
            next: 0,
            marker: Growing::default(),
            serial: Growing::default(),
            last_sent: None,
            stalled: None,
            counts: ServerResult { name: name.to_owned(), ..ServerResult::default() },
            data: Vec::new(),
        }
    }

    /// The id of the next question.
    pub fn id(&mut self) -> u16 {
        self.next = self.next.wrapping_add(1);
        self.next
    }

    /// A question was sent.
    pub fn asked(&mut self, id: u16, what: Forwards, at: Nanos, limit: Nanos) {
        self.counts.sent += 1;
        self.slots[usize::from(id) % SLOTS] = Some(Asked { id, at, what });
        if self.last_sent.is_some_and(|last| at.saturating_sub(last) > limit) {
            self.counts.stalls += 1;
            self.stalled = Some(at);
        }
        self.last_sent = Some(at);
    }

    /// Questions wait that were sent at `since` or later.
    pub fn waits(&self, since: Nanos) -> bool {
        self.slots.iter().flatten().any(|asked| asked.at >= since)
    }

    /// An answer, received at `seen`, to one of the two `questions` (marker, serial: whole messages); what it tells, and how
    /// long it took. None where it is no answer of ours, or too late.
    pub fn answer(
        &mut self,
        msg: &[u8],
        seen: Nanos,
        deadline: Nanos,
        questions: [&[u8]; 2],
    ) -> Option<(Forwards, Change, Nanos)> {
        let header = Header::new(msg);
        let slot = header.map(|header| &mut self.slots[usize::from(header.id()) % SLOTS]);
        let ours = |asked: &Asked| {
            let asks = questions[usize::from(asked.what == Forwards::Serial)];
            let section = |msg| question::end(msg).map(|end| &msg[wire::header::LEN..end]);
            header.is_some_and(|h| h.qr() && h.id() == asked.id) && section(msg) == section(asks)
        };
        let Some((header, asked)) = header.zip(slot.and_then(|slot| slot.take_if(|asked| ours(asked))))
        else {
            self.counts.mismatched += 1;
            return None;
        };
        let took = seen.saturating_sub(asked.at);
        if took > deadline {
            self.counts.late += 1;
            return None;
        }
        self.counts.answered += 1;
        let value = match (header.rcode(), asked.what) {
            (0 | 3, Forwards::Marker) => marker(msg),
            (0, Forwards::Serial) => self.soa(msg),
            _ => None,
        };
        let Some(value) = value else {
            self.counts.failed += 1;
            return Some((asked.what, Change::Nothing, took));
        };
        let change = match asked.what {
            Forwards::Marker => self.marker.take(asked.at, seen, value, |a, b| a > b),
            Forwards::Serial => self.serial.take(asked.at, seen, value, |a, b| is_newer(a as u32, b as u32)),
        };
        let counts = &mut self.counts;
        match (asked.what, change) {
            (Forwards::Marker, Change::Back { .. }) => counts.marker_went_back += 1,
            (Forwards::Serial, Change::Back { .. }) => counts.serial_went_back += 1,
            (Forwards::Marker, Change::First(value)) => counts.marker_first = Some(value),
            (Forwards::Serial, Change::First(value)) => counts.serial_first = Some(value as u32),
            _ => {}
        }
        Some((asked.what, change, took))
    }

    fn soa(&mut self, msg: &[u8]) -> Option<u64> {
        let record = Records::of(msg, 0).ok()?.map_while(Result::ok).find(|r| r.rtype == rtype::SOA)?;
        record.data(&mut self.data).ok()?;
        soa_serial(&self.data).map(u64::from)
    }
}

/// The counter that an answer shows; 0 where there is no record.
fn marker(msg: &[u8]) -> Option<u64> {
    let mut records = Records::of(msg, 0).ok()?.map_while(Result::ok);
    let Some(record) = records.find(|record| record.rtype == rtype::TXT) else { return Some(0) };
    let (&length, text) = record.raw_data().split_first()?;
    let text = std::str::from_utf8(text.get(..usize::from(length))?).ok()?;
    text.parse().ok()
}

/// Fuzz entry point: any octets as an answer to a question that waits.
///
/// # Panics
/// Where something is counted twice, or not at all: a bug.
pub fn fuzz_answer(bytes: &[u8]) {
    let mut questions = [Vec::new(), Vec::new()];
    for (question, qtype) in questions.iter_mut().zip([rtype::TXT, rtype::SOA]) {
        wire::query::write(question, 0, b"\x01a\0", qtype, None);
    }
    let mut server = Server::new("fuzzed");
    let id = Header::new(bytes).map_or(1, Header::id);
    for what in [Forwards::Marker, Forwards::Serial] {
        server.asked(id, what, 1000, 5000);
        let got = server.answer(bytes, 2000, 100_000, [&questions[0], &questions[1]]);
        assert!(got.is_none_or(|(change, _, took)| change == what && took == 1000));
    }
    let counts = &server.counts;
    assert_eq!(counts.sent, counts.answered + counts.mismatched);
    assert!(counts.failed <= counts.answered);
}

#[cfg(test)]
mod tests;
