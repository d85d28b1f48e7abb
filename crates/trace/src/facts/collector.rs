//! From events to facts.

use super::retries::Retries;
use super::{Answered, Asked, Facts, Line};
use crate::pair::Pairs;
use crate::read::{ChecksumState, Connection, End, Event, Message, Quote, Reader};
use measure::Nanos;
use std::collections::BTreeMap;
use wire::{class, opt, question};

/// A query that waits for its answer.
struct Query {
    asked: Asked,
    recursive: bool,
    /// 0 without EDNS, 1 with it, 2 with DO.
    edns: u8,
}

/// Collects the facts of a trace, or of a part of it.
pub struct Collector {
    facts: Facts,
    pairs: Pairs<Query>,
    retries: Retries,
    /// [`Facts::types`] of class IN below 256, where most are.
    usual: Box<[Answered; 256]>,
    /// [`super::Queries::labels`].
    labels: [u64; 256],
    /// Checksums of queries and of responses, in the order of [`STATES`].
    checksums: [[u64; STATES.len()]; 2],
    name: Vec<u8>,
}

/// Every state of a checksum, in the order of its declaration.
const STATES: [ChecksumState; 5] = [
    ChecksumState::Right,
    ChecksumState::Absent,
    ChecksumState::Bad,
    ChecksumState::Offloaded,
    ChecksumState::Unknown,
];

/// Adds one to a count that is looked up. Few different keys make this short.
fn count<K: Ord>(counts: &mut BTreeMap<K, u64>, key: K) {
    *counts.entry(key).or_default() += 1;
}

impl Collector {
    /// For a trace whose first packet was captured at `origin`; what happens over time is counted in windows of `window`
    /// nanoseconds.
    pub fn new(origin: Nanos, window: Nanos) -> Self {
        Self {
            facts: Facts::new(origin, window),
            pairs: Pairs::default(),
            retries: Retries::default(),
            usual: Box::new([Answered::default(); 256]),
            labels: [0; 256],
            checksums: [[0; STATES.len()]; 2],
            name: Vec::new(),
        }
    }

    /// Takes the next event of the trace.
    pub fn add(&mut self, event: &Event<'_>) {
        match event {
            Event::Message(message) if message.header().qr() => self.response(message),
            Event::Message(message) => self.query(message),
            Event::Connection(connection) => self.connection(connection),
            Event::Quote(quote) => self.quote(quote),
        }
    }

    fn query(&mut self, message: &Message<'_>) {
        let header = message.header();
        let tcp = usize::from(message.tcp.is_some());
        let question = question::parse(message.bytes);
        let opt = opt::find(message.bytes);
        let queries = &mut self.facts.queries;

        queries.transport[tcp] += 1;
        queries.family[usize::from(message.from.is_ipv6())] += 1;
        queries.opcodes[usize::from(header.opcode())] += 1;
        queries.sizes[tcp].add(message.len);
        queries.from_server_port += u64::from(message.from.port() == message.to.port());
        if message.tcp.is_none() {
            queries.df += u64::from(message.df);
            self.checksums[0][message.checksum as usize] += 1;
        }
        if let Some(opt) = opt {
            queries.edns += 1;
            queries.do_bit += u64::from(opt.do_bit());
            count(&mut queries.edns_sizes[usize::from(opt.do_bit())], opt.udp_size);
            count(&mut queries.edns_versions, opt.version);
        }
        if let Some(question) = question {
            queries.name_octets.add(question.qname.len());
            self.labels[wire::name::label_count(question.qname) & 255] += 1;
            self.name.clear();
            self.name.extend_from_slice(question.qname);
            wire::name::lowercase(&mut self.name);
            self.facts.names.add(question::hash_octets(&self.name));
        }
        self.facts.clients.add(message.from.ip());
        self.facts.series.add(if message.tcp.is_some() { Line::Tcp } else { Line::Udp }, message.at);
        let do_bit = opt.is_some_and(opt::Opt::do_bit);
        if message.tcp.is_some()
            && let Some(kind) = self.retries.over_tcp(message)
        {
            self.facts.truncated[kind].retried += 1;
            self.facts.truncated[kind].retried_with_do += u64::from(do_bit);
            self.facts.series.add(Line::Retried, message.at);
        }

        let asked = question.map(|q| (q.qclass, q.qtype));
        let recursive = header.rd();
        self.answered(asked, recursive).for_each(|answered| answered.count += 1);
        self.expire(message.at);
        let edns = opt.map_or(0, |opt| 1 + u8::from(opt.do_bit()));
        self.pairs.query(message, Query { asked, recursive, edns });
    }

    /// The counts that a query belongs to.
    fn answered(&mut self, asked: Asked, recursive: bool) -> impl Iterator<Item = &mut Answered> {
        let of_type = match asked {
            Some((class::IN, rtype @ 0..256)) => &mut self.usual[usize::from(rtype)],
            _ => self.facts.types.entry(asked).or_default(),
        };
        [Some(of_type), recursive.then_some(&mut self.facts.recursive)].into_iter().flatten()
    }

    fn response(&mut self, message: &Message<'_>) {
        let header = message.header();
        let tcp = usize::from(message.tcp.is_some());
        let opt = opt::find(message.bytes);
        let rcode = u16::from(header.rcode()) | opt.map_or(0, |opt| u16::from(opt.extended_rcode) << 4);
        let responses = &mut self.facts.responses;

        responses.transport[tcp] += 1;
        responses.sizes[tcp].add(message.len);
        responses.rcodes.entry(rcode).or_default().add(message.len);
        responses.authoritative += u64::from(header.aa());
        responses.truncated += u64::from(header.tc());
        responses.edns += u64::from(opt.is_some());
        responses.fragmented += u64::from(message.fragments > 1);
        if message.tcp.is_none() {
            self.checksums[1][message.checksum as usize] += 1;
        }
        self.facts.series.add(Line::Responses, message.at);
        if rcode == 3 {
            self.facts.series.add(Line::Nxdomain, message.at);
        }
        if header.tc() {
            self.facts.series.add(Line::Truncated, message.at);
        }

        let Some((query, latency)) = self.pairs.answer(message) else {
            self.facts.unsolicited += 1;
            return;
        };
        self.facts.latency[tcp].record(latency);
        if rcode != 0 {
            self.answered(query.asked, query.recursive).for_each(|answered| answered.failed += 1);
        }
        if message.tcp.is_none() {
            let kind = usize::from(query.edns);
            self.facts.truncated[kind].answers += 1;
            if header.tc() {
                self.facts.truncated[kind].count += 1;
                self.retries.truncated(message, kind);
            }
        }
    }

    fn connection(&mut self, connection: &Connection) {
        let tcp = &mut self.facts.tcp;
        tcp.established += u64::from(connection.established);
        tcp.no_op += u64::from(connection.established && connection.octets == 0);
        tcp.unclosed += u64::from(connection.end == End::Open);
        tcp.reset += u64::from(connection.end == End::Reset);
        self.facts.series.add(Line::Connections, connection.first);
        if connection.messages > 0 {
            tcp.duration.record(connection.last.saturating_sub(connection.first));
            count(&mut tcp.messages, connection.messages);
            self.facts.series.add(Line::WithDns, connection.first);
        }
        if let Some(handshake) = connection.handshake {
            tcp.handshake.record(handshake);
        }
    }

    fn quote(&mut self, quote: &Quote<'_>) {
        let version = if quote.from.is_ipv4() { 4 } else { 6 };
        count(&mut self.facts.icmp, (version, quote.kind, quote.code));
    }

    /// Counts what was waited for in vain.
    fn expire(&mut self, now: Nanos) {
        let mut given_up = Vec::new();
        self.pairs.expire(now, |query| given_up.push(query));
        for query in given_up {
            self.unanswered(&query);
        }
    }

    fn unanswered(&mut self, query: &Query) {
        self.answered(query.asked, query.recursive).for_each(|answered| answered.unanswered += 1);
    }

    /// The facts, once the reader has come to its end.
    pub fn finish(mut self, reader: &Reader) -> Facts {
        let mut given_up = Vec::new();
        self.pairs.finish(|query| given_up.push(query));
        for query in given_up {
            self.unanswered(&query);
        }
        for (rtype, answered) in self.usual.iter().enumerate().filter(|(_, answered)| answered.count > 0) {
            self.facts.types.insert(Some((class::IN, rtype as u16)), *answered);
        }
        let labels = (0..=u8::MAX).zip(self.labels).filter(|&(_, n)| n > 0);
        self.facts.queries.labels = labels.collect();
        let [queries, responses] = self
            .checksums
            .map(|counts| STATES.into_iter().zip(counts).filter(|&(_, n)| n > 0).collect::<BTreeMap<_, _>>());
        (self.facts.queries.checksums, self.facts.responses.checksums) = (queries, responses);
        self.facts.clients.settle();
        self.facts.counts = *reader.counts();
        self.facts.skipped = reader.skipped().clone();
        self.facts.span = reader.span();
        self.facts.series.cover(reader.span().map_or(0, |(_, last)| last));
        self.facts
    }
}
