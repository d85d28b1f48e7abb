//! TCP connections: which stream a segment belongs to, in bounded memory.

use super::packet::Tcp;
use super::stream::{Role, Stream};
use super::{Counts, Skip, Skipped};
use measure::Nanos;
use serde::Serialize;
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
pub(crate) struct Whole {
    pub connection: u64,
    pub from: SocketAddr,
    pub to: SocketAddr,
    /// Of the segment that made it whole.
    pub ttl: u8,
    /// See [`super::Message::handshake`].
    pub handshake: Option<Nanos>,
    /// Where it is among the octets.
    pub at: Range<usize>,
}

/// How a TCP connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum End {
    /// Both ends sent FIN.
    Closed,
    /// One end sent RST.
    Reset,
    /// Neither, as far as the trace goes.
    Open,
}

/// A TCP connection to or from a server's port, as much as was seen of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Connection {
    /// Its number, as in [`super::Message::tcp`].
    pub number: u64,
    /// The end that opened it; where that was not seen, the end that is no server's by its port.
    pub client: SocketAddr,
    /// The other end.
    pub server: SocketAddr,
    /// When its first segment was captured.
    pub first: Nanos,
    /// When its last segment was captured.
    pub last: Nanos,
    /// SYN was answered with SYN, or there were data: it stood.
    pub established: bool,
    /// Octets of data seen, both ways, those sent again included.
    pub octets: u64,
    /// DNS messages, both ways.
    pub messages: u64,
    /// See [`super::Message::handshake`].
    pub handshake: Option<Nanos>,
    /// How it ended.
    pub end: End,
}

/// The octets and packets of a TCP connection, both ways, to its last packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Packets.
    pub packets: u64,
    /// Their octets from the IP header on: what RZAIA counts.
    pub ip_octets: u64,
}

/// All connections, and the messages that the last segment made whole.
#[derive(Default)]
pub(super) struct Connections {
    known: HashMap<(SocketAddr, SocketAddr), State>,
    begun: u64,
    held: usize,
    /// Connections of which there was a message.
    pub with_dns: u64,
    /// Of connections that were to be followed and are forgotten, by number.
    pub traffic: HashMap<u64, Traffic>,
    pub ready: Ready,
}

/// Messages, and connections that are over, in order.
#[derive(Default)]
pub(super) struct Ready {
    queue: VecDeque<Item>,
    octets: Vec<u8>,
    /// Messages that were ever ready.
    messages: u64,
}

/// An item that became ready.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Item {
    Message(Whole),
    Connection(Connection),
}

/// The state of a connection.
struct State {
    seen: Connection,
    /// When SYN was sent, and the answer to it.
    syn: [Option<Nanos>; 2],
    reset: bool,
    traffic: Traffic,
    /// Its traffic is wanted when it is forgotten.
    followed: bool,
    /// From the lower address and port of the key, and to it.
    streams: [Stream; 2],
    /// Closed or reset; remembered, so that what is sent again is known for what it is.
    over: bool,
}

/// Where a stream puts its messages.
pub(super) struct Sink<'a> {
    ready: &'a mut Ready,
    pub skipped: &'a mut Skipped,
    connection: u64,
    from: SocketAddr,
    to: SocketAddr,
    ttl: u8,
    handshake: Option<Nanos>,
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
        let Self { connection, from, to, ttl, handshake, .. } = *self;
        self.ready.queue.push_back(Item::Message(Whole { connection, from, to, ttl, handshake, at }));
        self.ready.messages += 1;
    }
}

impl Ready {
    /// Takes the next one; the octets of messages stay until there is none left.
    pub fn take(&mut self) -> Option<Item> {
        let item = self.queue.pop_front();
        if item.is_none() {
            self.octets.clear();
        }
        item
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
        (tcp, ttl, ip_octets): (&Tcp, u8, u64),
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
            counts.connections += 1;
            self.known.insert(key, State::new(self.begun, at, tcp, key, &is_server));
            self.begun += 1;
        }
        let connection = self.known.get_mut(&key).expect("there now");
        let before = (connection.held(), self.ready.messages);
        connection.look(at, tcp, way);
        connection.traffic.packets += 1;
        connection.traffic.ip_octets += ip_octets;
        let [there, back] = &mut connection.streams;
        let (stream, other) = if upward { (there, back) } else { (back, there) };
        let sink = &mut Sink {
            ready: &mut self.ready,
            skipped,
            connection: connection.seen.number,
            from: tcp.from,
            to: tcp.to,
            ttl,
            handshake: connection.seen.handshake,
        };

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
        let over = tcp.rst || (stream.has_ended() && other.has_ended());
        if over && !connection.over {
            connection.finish(key, &mut self.ready, skipped, &mut self.with_dns, before.1);
        } else {
            connection.speaks(&mut self.with_dns, self.ready.messages - before.1);
        }
        self.held = self.held - before.0 + connection.held();
        while self.held > HELD_MAX && !self.known.is_empty() {
            self.forget_a_quarter(skipped);
        }
    }

    /// Keeps the traffic of the connection that a message came on.
    pub fn follow(&mut self, whole: &Whole) {
        let key = if whole.from <= whole.to { (whole.from, whole.to) } else { (whole.to, whole.from) };
        if let Some(state) = self.known.get_mut(&key).filter(|state| state.seen.number == whole.connection) {
            state.followed = true;
        }
    }

    /// Forgets a connection; what can still be made of it is ready then.
    fn forget(&mut self, key: (SocketAddr, SocketAddr), skipped: &mut Skipped) {
        if let Some(mut connection) = self.known.remove(&key) {
            self.held -= connection.held();
            if connection.followed {
                self.traffic.insert(connection.seen.number, connection.traffic);
            }
            if !connection.over {
                let before = self.ready.messages;
                connection.finish(key, &mut self.ready, skipped, &mut self.with_dns, before);
            }
        }
    }

    /// Forgets those that were silent for longest.
    fn forget_a_quarter(&mut self, skipped: &mut Skipped) {
        let mut silent: Vec<_> =
            self.known.iter().map(|(key, c)| (c.seen.last, c.seen.number, *key)).collect();
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
        let mut all: Vec<_> = self.known.iter().map(|(key, c)| (c.seen.number, *key)).collect();
        all.sort_unstable();
        all.into_iter().for_each(|(_, key)| self.forget(key, skipped));
    }
}

impl State {
    fn new(
        number: u64,
        at: Nanos,
        tcp: &Tcp,
        key: (SocketAddr, SocketAddr),
        is_server: impl Fn(u16) -> bool,
    ) -> Self {
        let role = |from: SocketAddr, to: SocketAddr| match (is_server(from.port()), is_server(to.port())) {
            (false, true) => Role::Queries,
            (true, false) => Role::Responses,
            _ => Role::Either,
        };
        let opens = tcp.syn && tcp.ack.is_none();
        // Where both ports are servers', whoever spoke first without being asked.
        let up = opens || (!tcp.syn && role(tcp.from, tcp.to) != Role::Responses);
        let (client, server) = if up { (tcp.from, tcp.to) } else { (tcp.to, tcp.from) };
        let seen = Connection {
            number,
            client,
            server,
            first: at,
            last: at,
            established: false,
            octets: 0,
            messages: 0,
            handshake: None,
            end: End::Open,
        };
        let streams = [Stream::new(role(key.0, key.1)), Stream::new(role(key.1, key.0))];
        let traffic = Traffic::default();
        Self { seen, syn: [None; 2], reset: false, traffic, followed: false, streams, over: false }
    }

    /// Notes what a segment says of the connection as a whole.
    fn look(&mut self, at: Nanos, tcp: &Tcp, way: usize) {
        self.seen.last = at;
        self.seen.octets += tcp.length as u64;
        self.reset |= tcp.rst;
        if tcp.syn && !tcp.rst {
            self.syn[way].get_or_insert(at);
        }
        self.seen.established |= self.syn.iter().all(Option::is_some) || self.seen.octets > 0;
        // The client's acknowledgment of the server's SYN.
        if let [Some(one), Some(other)] = self.syn
            && !tcp.syn
            && tcp.ack.is_some()
            && tcp.from == self.seen.client
        {
            self.seen.handshake.get_or_insert(at.saturating_sub(one.max(other)));
        }
    }

    fn held(&self) -> usize {
        self.streams.iter().map(Stream::held).sum()
    }

    /// Notes messages.
    fn speaks(&mut self, with_dns: &mut u64, messages: u64) {
        *with_dns += u64::from(messages > 0 && self.seen.messages == 0);
        self.seen.messages += messages;
    }

    /// Whether a SYN with this number in direction `way` opens another connection between the same ports.
    fn is_older_than(&self, way: usize, seq: u32) -> bool {
        match self.streams[way].first {
            Some(first) => first != seq,
            // Unless the answer to this SYN was captured before it.
            None => self.over || self.streams[way].next.is_some() || self.streams[1 - way].first.is_none(),
        }
    }

    /// Ends it; `before` messages had been ready before its last segment.
    fn finish(
        &mut self,
        key: (SocketAddr, SocketAddr),
        ready: &mut Ready,
        skipped: &mut Skipped,
        with_dns: &mut u64,
        before: u64,
    ) {
        let (connection, handshake) = (self.seen.number, self.seen.handshake);
        let ended = self.streams.iter().all(Stream::has_fin);
        for (stream, (from, to)) in self.streams.iter_mut().zip([(key.0, key.1), (key.1, key.0)]) {
            stream.finish(&mut Sink { ready, skipped, connection, from, to, ttl: 0, handshake });
        }
        self.speaks(with_dns, ready.messages - before);
        self.over = true;
        self.seen.end = match (self.reset, ended) {
            (true, _) => End::Reset,
            (false, true) => End::Closed,
            (false, false) => End::Open,
        };
        ready.queue.push_back(Item::Connection(self.seen));
    }
}
