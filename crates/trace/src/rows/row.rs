//! A query and its answer until their row is made.

use crate::read::{ChecksumState, Message};
use measure::Nanos;
use std::net::SocketAddr;
use std::ops::Range;
use wire::header::{Header, LEN};
use wire::opt::{self, Opt};
use wire::question;

/// The parts of a message that rows have, where not all are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Parts {
    /// Answers are looked for.
    pub answer: bool,
    /// The name asked for.
    pub name: bool,
    /// The OPT record and its options.
    pub edns: bool,
}

impl Parts {
    /// Whole rows.
    pub const ALL: Self = Self { answer: true, name: true, edns: true };

    /// The parts that either has.
    pub fn and(self, other: Self) -> Self {
        Self {
            answer: self.answer || other.answer,
            name: self.name || other.name,
            edns: self.edns || other.edns,
        }
    }
}

/// A query, and its answer once that has come.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub from: SocketAddr,
    pub to: SocketAddr,
    pub tcp: bool,
    pub handshake: Option<Nanos>,
    /// Type and class of the question.
    pub question: Option<(u16, u16)>,
    pub query: Side,
    pub answer: Option<(Side, Nanos)>,
    /// The name asked for, the query's EDNS options, the answer's.
    octets: Vec<u8>,
    name: u8,
}

/// The fields of either of them.
#[derive(Clone, Debug)]
pub(crate) struct Side {
    pub at: Nanos,
    pub ttl: u8,
    /// Of UDP over IPv4.
    pub df: Option<bool>,
    /// Where it came in IP fragments, how many.
    pub fragments: Option<u64>,
    /// Of UDP.
    pub checksum: Option<ChecksumState>,
    pub len: usize,
    pub opt: Option<Opt>,
    header: [u8; LEN],
    /// Octets of EDNS options.
    options: u16,
}

impl Side {
    /// Of a message; its EDNS options are appended to `octets`.
    fn new(message: &Message<'_>, parts: Parts, octets: &mut Vec<u8>) -> Self {
        let before = octets.len();
        let opt = if parts.edns { opt::find(message.bytes) } else { None };
        if opt.is_some() {
            // As they are, up to the first that is not whole.
            let whole = |(_, data): &(u16, Range<usize>)| {
                message.bytes[data.start - 2..data.start] == (data.len() as u16).to_be_bytes()
            };
            let options = opt::options(message.bytes).take_while(whole);
            options.for_each(|(_, data)| octets.extend_from_slice(&message.bytes[data.start - 4..data.end]));
        }
        let udp = message.tcp.is_none();
        Self {
            at: message.at,
            ttl: message.ttl,
            df: (udp && message.from.is_ipv4()).then_some(message.df),
            fragments: (message.fragments > 1).then_some(message.fragments),
            checksum: udp.then_some(message.checksum),
            len: message.len,
            opt,
            header: *message.bytes.first_chunk().expect("a message has a header"),
            options: (octets.len() - before) as u16,
        }
    }

    pub fn header(&self) -> Header<'_> {
        Header::new(&self.header).expect("as long as a header")
    }
}

impl Row {
    /// The parts of a query.
    pub fn new(message: &Message<'_>, parts: Parts) -> Self {
        let question = question::parse(message.bytes);
        let name = question.filter(|_| parts.name).map_or(&[][..], |question| question.qname);
        let mut octets = Vec::with_capacity(name.len() + if parts.edns { 16 } else { 0 });
        octets.extend_from_slice(name);
        Self {
            from: message.from,
            to: message.to,
            tcp: message.tcp.is_some(),
            handshake: message.handshake,
            question: question.map(|q| (q.qtype, q.qclass)),
            query: Side::new(message, parts, &mut octets),
            answer: None,
            octets,
            name: name.len() as u8,
        }
    }

    /// Adds the answer, which came `latency` nanoseconds after the query.
    pub fn answer(&mut self, message: &Message<'_>, latency: Nanos, parts: Parts) {
        self.answer = Some((Side::new(message, parts, &mut self.octets), latency));
    }

    /// The answer's side.
    pub fn answered(&self) -> Option<&Side> {
        self.answer.as_ref().map(|(side, _)| side)
    }

    /// The name asked for, on the wire.
    pub fn name(&self) -> Option<&[u8]> {
        self.question.map(|_| &self.octets[..usize::from(self.name)])
    }

    /// Data of the query's EDNS option of this code; the first where there are several.
    pub fn option(&self, code: u16) -> Option<&[u8]> {
        self.options().find(|&(c, _)| c == code).map(|(_, data)| data)
    }

    /// The query's EDNS options.
    pub fn options(&self) -> impl Iterator<Item = (u16, &[u8])> {
        let start = usize::from(self.name);
        options(&self.octets[start..start + usize::from(self.query.options)])
    }

    /// The answer's EDNS options.
    pub fn answer_options(&self) -> impl Iterator<Item = (u16, &[u8])> {
        options(&self.octets[usize::from(self.name) + usize::from(self.query.options)..])
    }
}

/// Code and data of options that are whole.
fn options(mut octets: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let (head, rest) = octets.split_first_chunk::<4>()?;
        let (data, rest) = rest.split_at(usize::from(u16::from_be_bytes([head[2], head[3]])));
        octets = rest;
        Some((u16::from_be_bytes([head[0], head[1]]), data))
    })
}
