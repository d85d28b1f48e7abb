//! One direction of a TCP connection: octets put into order, and cut into messages (RFC 1035, section 4.2.2).

use super::Skip;
use super::connections::Sink;
use measure::Nanos;
use wire::header::{Header, LEN};

/// Octets that wait behind a hole; with more of them the hole is given up.
const WAITING_MAX: usize = 256 << 10;
/// Segments that wait behind a hole.
const SEGMENTS_MAX: usize = 512;
/// How long after the receiver acknowledged what a hole misses it is given up: captures reorder packets a little.
const PATIENCE: Nanos = 100_000_000;

/// The role of a direction, as far as its ports tell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Role {
    /// Queries: it goes to a server's port.
    Queries,
    /// Responses.
    Responses,
    /// Both ends are servers' ports.
    #[default]
    Either,
}

/// One direction.
#[derive(Debug, Default)]
pub(super) struct Stream {
    pub role: Role,
    /// Of its SYN.
    pub first: Option<u32>,
    /// The sequence number that is expected.
    pub next: Option<u32>,
    /// The next octet that is expected begins a message, or goes on with the one in `part`.
    aligned: bool,
    /// A message with its length before it, as far as it is there.
    part: Vec<u8>,
    /// Segments that came too early, by sequence number.
    waiting: Vec<(u32, Vec<u8>)>,
    waiting_octets: usize,
    /// The time since when the receiver has had what the capture misses.
    missed: Option<Nanos>,
    /// The sequence number of FIN.
    fin: Option<u32>,
}

/// How far `to` is after `from`, modulo 2^32 (RFC 9293, section 3.4).
fn distance(from: u32, to: u32) -> i32 {
    to.wrapping_sub(from) as i32
}

impl Stream {
    /// A direction that has shown nothing yet.
    pub fn new(role: Role) -> Self {
        Self { role, ..Self::default() }
    }

    /// The SYN: the octet after it begins a message.
    pub fn begin(&mut self, seq: u32) {
        self.first = Some(seq);
        self.next = Some(seq.wrapping_add(1));
        self.aligned = true;
    }

    /// Octets kept.
    pub fn held(&self) -> usize {
        self.part.len() + self.waiting_octets
    }

    /// Takes data, of which `length` octets were sent and `data` were captured. Returns false where all of it was
    /// there before: a retransmission.
    pub fn data(&mut self, seq: u32, data: &[u8], length: usize, sink: &mut Sink<'_>) -> bool {
        let next = *self.next.get_or_insert(seq);
        let ahead = distance(next, seq);
        if ahead > 0 {
            return self.wait(seq, data, sink);
        }
        let known = ahead.unsigned_abs() as usize;
        if known >= length {
            return false;
        }
        // Bytes that the capture cut off are a hole in the stream.
        self.deliver(data.get(known..).unwrap_or_default(), sink);
        self.next = Some(seq.wrapping_add(data.len().max(known) as u32));
        self.catch_up(sink);
        true
    }

    /// Keeps what came too early.
    fn wait(&mut self, seq: u32, data: &[u8], sink: &mut Sink<'_>) -> bool {
        let next = self.next.unwrap_or(seq);
        let place = self.waiting.partition_point(|(s, _)| distance(next, *s) < distance(next, seq));
        if self.waiting.get(place).is_some_and(|(s, d)| *s == seq && d.len() >= data.len()) {
            return false;
        }
        self.waiting_octets += data.len();
        self.waiting.insert(place, (seq, data.to_vec()));
        if self.waiting.len() > SEGMENTS_MAX || self.waiting_octets > WAITING_MAX {
            self.jump(sink);
        }
        true
    }

    /// Delivers what has waited and is due now.
    fn catch_up(&mut self, sink: &mut Sink<'_>) {
        while let (Some(next), Some(&(seq, _))) = (self.next, self.waiting.first()) {
            let ahead = distance(next, seq);
            if ahead > 0 {
                return;
            }
            let (_, data) = self.waiting.remove(0);
            self.waiting_octets -= data.len();
            let known = ahead.unsigned_abs() as usize;
            if known < data.len() {
                self.deliver(&data[known..], sink);
                self.next = Some(seq.wrapping_add(data.len() as u32));
            }
        }
        self.missed = None;
    }

    /// Gives up a hole: what was being put together is lost, and the next message has to be found.
    fn jump(&mut self, sink: &mut Sink<'_>) {
        let Some(&(seq, _)) = self.waiting.first() else { return };
        sink.skipped.add(Skip::TcpHole);
        self.drop_part(sink);
        (self.aligned, self.next, self.missed) = (false, Some(seq), None);
        self.catch_up(sink);
    }

    fn drop_part(&mut self, sink: &mut Sink<'_>) {
        if !self.part.is_empty() {
            sink.skipped.add(Skip::TcpPart);
            self.part = Vec::new();
        }
    }

    /// The receiver has everything before `ack`: what we miss of it will not come again.
    pub fn acknowledged(&mut self, at: Nanos, ack: u32, sink: &mut Sink<'_>) {
        while let Some(&(seq, _)) = self.waiting.first() {
            if distance(seq, ack) < 0 || at.saturating_sub(*self.missed.get_or_insert(at)) < PATIENCE {
                return;
            }
            self.jump(sink);
        }
    }

    /// The sender will send nothing from `seq` on.
    pub fn ends(&mut self, seq: u32) {
        self.next.get_or_insert(seq);
        self.fin.get_or_insert(seq);
    }

    /// FIN was seen.
    pub fn has_fin(&self) -> bool {
        self.fin.is_some()
    }

    /// Everything up to FIN is there.
    pub fn has_ended(&self) -> bool {
        matches!((self.fin, self.next), (Some(fin), Some(next)) if distance(next, fin) <= 0)
    }

    /// The connection is over, or is looked at no longer: gives what can still be given.
    pub fn finish(&mut self, sink: &mut Sink<'_>) {
        while !self.waiting.is_empty() {
            self.jump(sink);
        }
        self.drop_part(sink);
    }

    /// Cuts octets that are in order into messages.
    fn deliver(&mut self, mut data: &[u8], sink: &mut Sink<'_>) {
        if data.is_empty() {
            return;
        }
        if !self.aligned {
            if !begins_message(data, self.role) {
                sink.skipped.add(Skip::TcpBoundary);
                return;
            }
            self.aligned = true;
        }
        while !data.is_empty() {
            if self.part.is_empty()
                && let Some(&[high, low]) = data.first_chunk()
                && let end = 2 + usize::from(u16::from_be_bytes([high, low]))
                && data.len() >= end
            {
                sink.push(&data[2..end]);
                data = &data[end..];
                continue;
            }
            let whole = |part: &[u8]| {
                part.first_chunk().map_or(2, |&length| 2 + usize::from(u16::from_be_bytes(length)))
            };
            let take = (whole(&self.part) - self.part.len()).min(data.len());
            self.part.extend_from_slice(&data[..take]);
            data = &data[take..];
            if self.part.len() >= 2 && self.part.len() == whole(&self.part) {
                sink.push(&self.part[2..]);
                // Most connections are idle most of the time.
                self.part = Vec::new();
            }
        }
    }
}

/// Whether a segment looks as if a message began with it: most programs write a message with its length at once.
fn begins_message(data: &[u8], role: Role) -> bool {
    let Some((length, message)) = data.split_first_chunk() else { return false };
    let Some(header) = Header::new(message) else { return false };
    let length = usize::from(u16::from_be_bytes(*length));
    let way = match role {
        Role::Queries => !header.qr(),
        Role::Responses => header.qr(),
        Role::Either => true,
    };
    // The bit between RA and AD is always zero.
    let reserved = message[3] & 0x40 != 0;
    way && length >= LEN
        && header.opcode() <= 6
        && !reserved
        && header.qdcount() <= 1
        && header.counts_fit(length)
        && !(role == Role::Queries && header.opcode() == 0 && header.rcode() != 0)
}
