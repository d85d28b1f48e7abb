//! TCP connections: which stream a segment belongs to, in bounded memory.

use super::packet::Tcp;
use super::stream::{Role, Stream};
use super::{Counts, Skip, Skipped};
use measure::Nanos;
use std::collections::HashMap;
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::ops::Range;
use wire::header;

/// Connections that are known at once. Where there are more, the quarter that was silent for longest is forgotten.
const CONNECTIONS_MAX: usize = 65_536;
/// Octets of messages that are not whole yet, over all connections; where there are more, likewise.
const HELD_MAX: usize = 64 << 20;

/// A message that waits to be given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Whole {
    pub connection: u64,
    pub from: SocketAddr,
    pub to: SocketAddr,
    /// Where it is among the octets.
    pub at: Range<usize>,
}

/// All connections, and the messages that the last segment made whole.
#[derive(Default)]
pub(super) struct Connections {
    known: HashMap<(SocketAddr, SocketAddr), Connection>,
    begun: u64,
    held: usize,
    /// Connections of which there was a message.
    pub with_dns: u64,
    pub ready: Ready,
}

/// Messages in order.
#[derive(Default)]
pub(super) struct Ready {
    queue: VecDeque<Whole>,
    octets: Vec<u8>,
}

struct Connection {
    number: u64,
    /// From the lower address and port of the key, and to it.
    streams: [Stream; 2],
    last: Nanos,
    /// Closed or reset; remembered, so that what is sent again is known for what it is.
    over: bool,
    /// It had a message.
    spoke: bool,
}

/// Where a stream puts its messages.
pub(super) struct Sink<'a> {
    ready: &'a mut Ready,
    pub skipped: &'a mut Skipped,
    connection: u64,
    from: SocketAddr,
    to: SocketAddr,
}

impl Sink<'_> {
    /// A whole message, without its length.
    pub fn push(&mut self, message: &[u8]) {
        if message.len() < header::LEN {
            self.skipped.add(Skip::ShortTcp);
            return;
        }
        let octets = &mut self.ready.octets;
        let at = octets.len()..octets.len() + message.len();
        octets.extend_from_slice(message);
        let (connection, from, to) = (self.connection, self.from, self.to);
        self.ready.queue.push_back(Whole { connection, from, to, at });
    }
}

impl Ready {
    /// Takes the next message; its octets stay until there is none left.
    pub fn take(&mut self) -> Option<Whole> {
        let whole = self.queue.pop_front();
        if whole.is_none() {
            self.octets.clear();
        }
        whole
    }

    pub fn octets(&self, whole: &Whole) -> &[u8] {
        &self.octets[whole.at.clone()]
    }
}

impl Connections {
    /// Takes a segment; `data` is what was captured of its data.
    pub fn add(
        &mut self,
        at: Nanos,
        tcp: &Tcp,
        data: &[u8],
        is_server: impl Fn(u16) -> bool,
        counts: &mut Counts,
        skipped: &mut Skipped,
    ) {
        let upward = tcp.from <= tcp.to;
        let key = if upward { (tcp.from, tcp.to) } else { (tcp.to, tcp.from) };
        let way = usize::from(!upward);
        let opens = tcp.syn && tcp.ack.is_none();
        if opens && self.known.get(&key).is_some_and(|c| c.is_older_than(way, tcp.seq)) {
            self.forget(key, skipped);
        }
        if !self.known.contains_key(&key) {
            if tcp.rst || (tcp.length == 0 && !tcp.syn) {
                // Nothing can come of it.
                return;
            }
            if self.known.len() == CONNECTIONS_MAX {
                self.forget_a_quarter(skipped);
            }
            let role = |from: SocketAddr, to: SocketAddr| match (is_server(from.port()), is_server(to.port()))
            {
                (false, true) => Role::Queries,
                (true, false) => Role::Responses,
                _ => Role::Either,
            };
            let streams = [Stream::new(role(key.0, key.1)), Stream::new(role(key.1, key.0))];
            let number = self.begun;
            self.begun += 1;
            counts.connections += 1;
            self.known.insert(key, Connection { number, streams, last: at, over: false, spoke: false });
        }
        let connection = self.known.get_mut(&key).expect("there now");
        connection.last = at;
        let before = (connection.held(), self.ready.queue.len());
        let [there, back] = &mut connection.streams;
        let (stream, other) = if upward { (there, back) } else { (back, there) };
        let (ready, connection_number) = (&mut self.ready, connection.number);
        let sink = &mut Sink { ready, skipped, connection: connection_number, from: tcp.from, to: tcp.to };

        if tcp.syn && stream.first.is_none() && stream.next.is_none() {
            stream.begin(tcp.seq);
        }
        // SYN takes a number.
        let seq = tcp.seq.wrapping_add(tcp.syn.into());
        if tcp.length > 0 && !tcp.rst && !connection.over {
            if data.len() < tcp.length {
                sink.skipped.add(Skip::CutPacket);
            }
            counts.retransmitted += u64::from(!stream.data(seq, data, tcp.length, sink));
        }
        if let Some(ack) = tcp.ack.filter(|_| !connection.over) {
            (sink.from, sink.to) = (tcp.to, tcp.from);
            other.acknowledged(at, ack, sink);
        }
        if tcp.fin {
            stream.ends(seq.wrapping_add(tcp.length as u32));
        }
        if tcp.rst || (stream.has_ended() && other.has_ended()) {
            connection.finish(key, &mut self.ready, skipped);
        }
        self.held = self.held - before.0 + connection.held();
        self.with_dns += connection.speaks(self.ready.queue.len() > before.1);
        while self.held > HELD_MAX && !self.known.is_empty() {
            self.forget_a_quarter(skipped);
        }
    }

    /// Forgets a connection; what can still be made of it is ready then.
    fn forget(&mut self, key: (SocketAddr, SocketAddr), skipped: &mut Skipped) {
        if let Some(mut connection) = self.known.remove(&key) {
            self.held -= connection.held();
            let before = self.ready.queue.len();
            connection.finish(key, &mut self.ready, skipped);
            self.with_dns += connection.speaks(self.ready.queue.len() > before);
        }
    }

    /// Forgets those that were silent for longest.
    fn forget_a_quarter(&mut self, skipped: &mut Skipped) {
        let mut silent: Vec<_> = self.known.iter().map(|(key, c)| (c.last, c.number, *key)).collect();
        let quarter = silent.len() / 4;
        if !silent.is_empty() {
            silent.select_nth_unstable(quarter);
        }
        silent.truncate(quarter + 1);
        silent.sort_unstable();
        silent.into_iter().for_each(|(_, _, key)| self.forget(key, skipped));
    }

    /// The trace is over: gives what can still be given, connection by connection.
    pub fn finish(&mut self, skipped: &mut Skipped) {
        let mut all: Vec<_> = self.known.iter().map(|(key, c)| (c.number, *key)).collect();
        all.sort_unstable();
        all.into_iter().for_each(|(_, key)| self.forget(key, skipped));
    }
}

impl Connection {
    fn held(&self) -> usize {
        self.streams.iter().map(Stream::held).sum()
    }

    /// Notes whether it had a message; 1 where that was its first.
    fn speaks(&mut self, message: bool) -> u64 {
        let first = message && !self.spoke;
        self.spoke |= message;
        first.into()
    }

    /// Whether a SYN with this number in direction `way` opens another connection between the same ports.
    fn is_older_than(&self, way: usize, seq: u32) -> bool {
        match self.streams[way].first {
            Some(first) => first != seq,
            // Unless the answer to this SYN was captured before it.
            None => self.over || self.streams[way].next.is_some() || self.streams[1 - way].first.is_none(),
        }
    }

    fn finish(&mut self, key: (SocketAddr, SocketAddr), ready: &mut Ready, skipped: &mut Skipped) {
        for (stream, (from, to)) in self.streams.iter_mut().zip([(key.0, key.1), (key.1, key.0)]) {
            let sink = &mut Sink { ready, skipped, connection: self.number, from, to };
            stream.finish(sink);
        }
        self.over = true;
    }
}
