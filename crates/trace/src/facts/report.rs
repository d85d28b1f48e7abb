//! Facts as `trace info --json` gives them.

use super::{Answered, Asked, Facts, RETRY_WINDOW, Series, Sizes, Truncated};
use crate::read::{ChecksumState, Skipped};
use measure::clock::SECOND;
use measure::distinct::Distinct;
use measure::{Histogram, Nanos};
use serde::Serialize;
use std::collections::BTreeMap;
use std::net::IpAddr;
use wire::{class, rcode, rtype};

/// Clients that are listed one by one.
const TOP: usize = 20;

/// The output of `trace info --json`. Shares are of 1; times in seconds where not said otherwise.
#[derive(Clone, Debug, Serialize)]
#[allow(missing_docs, reason = "each is what its name says, as in Facts")]
pub struct Report {
    pub packets: u64,
    pub queries: u64,
    pub responses: u64,
    /// Nanoseconds since 1970 of the earliest packet; null where there is none.
    pub start_ns: Option<Nanos>,
    pub duration_s: f64,
    pub rate: Rate,
    /// By type, with the class where that is not IN; `none` without a question.
    pub types: BTreeMap<String, Outcome>,
    pub rcodes: BTreeMap<String, u64>,
    /// Of queries.
    pub opcodes: BTreeMap<String, u64>,
    pub recursive: Outcome,
    pub authoritative: u64,
    pub failed: u64,
    pub unanswered: u64,
    /// Answers without their query in the trace.
    pub unsolicited: u64,
    pub edns: Edns,
    /// Queries.
    pub transport: Transport,
    /// Queries.
    pub family: Family,
    /// Queries over UDP and IPv4 with "don't fragment".
    pub df: u64,
    /// UDP checksums.
    pub checksums: Checksums,
    pub tcp: Tcp,
    /// Responses with TC.
    pub truncated: u64,
    /// Of those that answer a query over UDP in the trace, those asked for again over TCP.
    pub truncated_then_tcp: u64,
    pub truncation: Truncation,
    pub query_size: BTreeMap<&'static str, Summary>,
    pub response_size: ResponseSize,
    pub latency_us: Latency,
    /// Labels of the names asked for, without the root's.
    pub labels: BTreeMap<u8, u64>,
    pub name_octets: Summary,
    /// Different names asked for, in lower case; an estimate.
    pub names: u64,
    pub clients: u64,
    /// The number of clients is an estimate, and what they sent may be too low.
    pub clients_are_sketch: bool,
    /// By how much the queries of a client may be too low.
    pub clients_error: u64,
    /// The standard error of estimated numbers of names and clients, as a share.
    pub sketch_error: f64,
    /// The fewest clients that send half of the queries; null where they are not known.
    pub clients_half: Option<u64>,
    pub top_clients: Vec<Client>,
    /// ICMP errors about DNS: by version, type and code.
    pub icmp: BTreeMap<String, u64>,
    /// Packets of which something could not be read, by reason.
    pub ignored: Skipped,
    /// Messages that the capture cut short, and IP fragments.
    pub cut_short: u64,
    pub fragments: u64,
}

/// Queries per second.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Rate {
    /// Over the trace; null where it has no duration.
    pub mean: Option<f64>,
    /// The 95th percentile and the maximum over windows of `window_s` that were over when the trace ended; null where none
    /// was.
    pub p95: Option<f64>,
    /// As above.
    pub max: Option<f64>,
    /// The window, in seconds.
    pub window_s: f64,
}

/// How queries were answered.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Outcome {
    /// Queries.
    pub count: u64,
    /// Answered with another code than NOERROR.
    pub failed: u64,
    /// Without an answer in the trace.
    pub unanswered: u64,
}

/// EDNS of queries.
#[derive(Clone, Debug, Serialize)]
#[allow(missing_docs, reason = "each is what its name says")]
pub struct Edns {
    pub present: u64,
    #[serde(rename = "do")]
    pub do_bit: u64,
    pub sizes: BTreeMap<u16, u64>,
    /// Of queries with DO.
    pub sizes_do: BTreeMap<u16, u64>,
    pub versions: BTreeMap<u8, u64>,
    /// Responses with an OPT record.
    pub responses: u64,
}

/// Over UDP, over TCP.
#[derive(Clone, Copy, Debug, Serialize)]
#[allow(missing_docs, reason = "each is what its name says")]
pub struct Transport {
    pub udp: u64,
    pub tcp: u64,
}

/// Over IPv4, over IPv6.
#[derive(Clone, Copy, Debug, Serialize)]
#[allow(missing_docs, reason = "each is what its name says")]
pub struct Family {
    pub ipv4: u64,
    pub ipv6: u64,
}

/// UDP checksums by what they are.
#[derive(Clone, Debug, Serialize)]
#[allow(missing_docs, reason = "each is what its name says")]
pub struct Checksums {
    pub queries: BTreeMap<ChecksumState, u64>,
    pub responses: BTreeMap<ChecksumState, u64>,
}

/// TCP.
#[derive(Clone, Debug, Serialize)]
pub struct Tcp {
    /// Segments.
    pub packets: u64,
    /// Connections of which a SYN or data were seen.
    pub connections: u64,
    /// SYN answered with SYN, or data seen.
    pub established: u64,
    /// Established, without an octet of data.
    pub no_op: u64,
    /// With a DNS message.
    pub with_dns: u64,
    /// Neither closed by both ends nor reset.
    pub unclosed: u64,
    /// Reset.
    pub reset: u64,
    /// Segments that were there before.
    pub retransmitted: u64,
    /// DNS messages of a connection, with how many connections had so many.
    pub messages: BTreeMap<u64, u64>,
    /// How long connections with DNS lasted, in microseconds.
    pub duration_us: Quantiles,
    /// From the server's SYN to the client's answer, in microseconds.
    pub handshake_us: Quantiles,
}

/// Truncated answers over UDP by the query's EDNS.
#[derive(Clone, Copy, Debug, Serialize)]
#[allow(missing_docs, reason = "each is what its name says")]
pub struct Truncation {
    pub without_edns: TruncatedOf,
    pub edns: TruncatedOf,
    #[serde(rename = "do")]
    pub with_do: TruncatedOf,
    /// Within how many seconds a query over TCP counts as a retry.
    pub window_s: f64,
}

/// Truncated answers over UDP.
#[derive(Clone, Copy, Debug, Serialize)]
#[allow(missing_docs, reason = "each is what its name says")]
pub struct TruncatedOf {
    pub answers: u64,
    pub truncated: u64,
    pub retried: u64,
    pub retried_with_do: u64,
}

/// Sizes in octets.
#[derive(Clone, Copy, Debug, Serialize)]
#[allow(missing_docs, reason = "each is what its name says")]
pub struct Summary {
    pub count: u64,
    pub mean: f64,
    pub p50: u16,
    pub p90: u16,
    pub p99: u16,
    pub max: u16,
}

/// Sizes of responses, in octets of DNS.
#[derive(Clone, Debug, Serialize)]
#[allow(missing_docs, reason = "each is what its name says")]
pub struct ResponseSize {
    pub udp: Summary,
    pub tcp: Summary,
    pub rcodes: BTreeMap<String, Summary>,
    /// Responses over UDP with more than 512, 1232 and 1452 octets.
    pub udp_above: BTreeMap<u16, u64>,
}

/// Times in microseconds.
#[derive(Clone, Copy, Debug, Serialize)]
#[allow(missing_docs, reason = "each is what its name says")]
pub struct Quantiles {
    pub count: u64,
    pub mean: f64,
    pub p50: f64,
    pub p90: f64,
    pub p99: f64,
    pub p999: f64,
    pub max: f64,
}

/// From query to answer, as captured.
#[derive(Clone, Copy, Debug, Serialize)]
#[allow(missing_docs, reason = "each is what its name says")]
pub struct Latency {
    #[serde(flatten)]
    pub all: Quantiles,
    pub udp: Quantiles,
    pub tcp: Quantiles,
}

/// A client.
#[derive(Clone, Copy, Debug, Serialize)]
#[allow(missing_docs, reason = "each is what its name says")]
pub struct Client {
    pub address: IpAddr,
    pub queries: u64,
    pub share: f64,
}

/// The name of a type, with that of its class where it is not IN; `none` without a question.
pub fn asked_to_text(asked: Asked) -> String {
    match asked {
        None => "none".into(),
        Some((class::IN, kind)) => rtype::to_text(kind),
        Some((other, kind)) => format!("{} {}", rtype::to_text(kind), class::to_text(other)),
    }
}

/// The name of an opcode (IANA's registry).
pub fn opcode_to_text(opcode: u8) -> String {
    match opcode {
        0 => "QUERY".into(),
        1 => "IQUERY".into(),
        2 => "STATUS".into(),
        4 => "NOTIFY".into(),
        5 => "UPDATE".into(),
        6 => "DSO".into(),
        n => format!("OPCODE{n}"),
    }
}

/// The meaning of an ICMP error (RFC 792, RFC 4443), with its numbers.
pub fn icmp_to_text((version, kind, code): (u8, u8, u8)) -> String {
    let what = match (version, kind, code) {
        (4, 3, 0) => "net unreachable",
        (4, 3, 1) => "host unreachable",
        (4, 3, 3) | (6, 1, 4) => "port unreachable",
        (4, 3, 4) => "fragmentation needed",
        (4, 3, 9 | 10 | 13) | (6, 1, 1) => "administratively prohibited",
        (4, 3, _) | (6, 1, _) => "destination unreachable",
        (4, 4, _) => "source quench",
        (4, 5, _) => "redirect",
        (4, 11, 1) | (6, 3, 1) => "reassembly time exceeded",
        (4, 11, _) | (6, 3, _) => "time exceeded",
        (6, 2, _) => "packet too big",
        _ => "parameter problem",
    };
    format!("ICMPv{version} {kind}/{code} {what}")
}

impl From<&Answered> for Outcome {
    fn from(a: &Answered) -> Self {
        Self { count: a.count, failed: a.failed, unanswered: a.unanswered }
    }
}

impl From<&Sizes> for Summary {
    fn from(s: &Sizes) -> Self {
        let [p50, p90, p99] = [0.5, 0.9, 0.99].map(|q| s.quantile(q));
        Self { count: s.count(), mean: s.mean(), p50, p90, p99, max: s.max() }
    }
}

impl From<&Histogram> for Quantiles {
    fn from(h: &Histogram) -> Self {
        let [p50, p90, p99, p999] = [0.5, 0.9, 0.99, 0.999].map(|q| h.quantile(q) as f64 / 1e3);
        Self { count: h.count(), mean: h.mean() / 1e3, p50, p90, p99, p999, max: h.max() as f64 / 1e3 }
    }
}

impl From<&Truncated> for TruncatedOf {
    fn from(t: &Truncated) -> Self {
        let Truncated { answers, count, retried, retried_with_do } = *t;
        Self { answers, truncated: count, retried, retried_with_do }
    }
}

impl Rate {
    fn of(series: &Series, queries: u64, span: Option<(Nanos, Nanos)>, seconds: f64) -> Self {
        let mut windows = series.queries(span.map_or(0, |(_, last)| last));
        windows.sort_unstable();
        let window_s = series.window() as f64 / SECOND as f64;
        let at = (windows.len() as f64 * 0.95).ceil() as usize;
        Self {
            mean: (seconds > 0.0).then(|| queries as f64 / seconds),
            p95: at.checked_sub(1).map(|at| windows[at] as f64 / window_s),
            max: windows.last().map(|&most| most as f64 / window_s),
            window_s,
        }
    }
}

impl Facts {
    /// The facts as `trace info --json` gives them.
    pub fn report(&self) -> Report {
        let (q, r) = (&self.queries, &self.responses);
        let answered = self.answered();
        let mut latency = self.latency[0].clone();
        latency.merge(&self.latency[1]);
        let mut edns_sizes = q.edns_sizes[0].clone();
        super::add_all(&mut edns_sizes, &q.edns_sizes[1]);
        let asked = self.clients.queries();
        let named = |asked: u64| {
            move |(address, queries): (IpAddr, u64)| Client {
                address,
                queries,
                share: queries as f64 / asked.max(1) as f64,
            }
        };
        let transports =
            |sizes: &[Sizes; 2]| [("udp", Summary::from(&sizes[0])), ("tcp", (&sizes[1]).into())];
        Report {
            packets: self.counts.packets,
            queries: self.counts.queries,
            responses: self.counts.responses,
            start_ns: self.span.map(|(first, _)| first),
            duration_s: self.seconds(),
            rate: Rate::of(&self.series, self.counts.queries, self.span, self.seconds()),
            types: self.types.iter().map(|(&asked, a)| (asked_to_text(asked), a.into())).collect(),
            rcodes: r.rcodes.iter().map(|(&code, s)| (rcode::extended_to_text(code), s.count())).collect(),
            opcodes: (0..16u8)
                .filter(|&n| q.opcodes[usize::from(n)] > 0)
                .map(|n| (opcode_to_text(n), q.opcodes[usize::from(n)]))
                .collect(),
            recursive: (&self.recursive).into(),
            authoritative: r.authoritative,
            failed: answered.failed,
            unanswered: answered.unanswered,
            unsolicited: self.unsolicited,
            edns: Edns {
                present: q.edns,
                do_bit: q.do_bit,
                sizes: edns_sizes,
                sizes_do: q.edns_sizes[1].clone(),
                versions: q.edns_versions.clone(),
                responses: r.edns,
            },
            transport: Transport { udp: q.transport[0], tcp: q.transport[1] },
            family: Family { ipv4: q.family[0], ipv6: q.family[1] },
            df: q.df,
            checksums: Checksums { queries: q.checksums.clone(), responses: r.checksums.clone() },
            tcp: Tcp {
                packets: self.counts.tcp_packets,
                connections: self.counts.connections,
                established: self.tcp.established,
                no_op: self.tcp.no_op,
                with_dns: self.counts.connections_with_dns,
                unclosed: self.tcp.unclosed,
                reset: self.tcp.reset,
                retransmitted: self.counts.retransmitted,
                messages: self.tcp.messages.clone(),
                duration_us: (&self.tcp.duration).into(),
                handshake_us: (&self.tcp.handshake).into(),
            },
            truncated: r.truncated,
            truncated_then_tcp: self.all_truncated().retried,
            truncation: Truncation {
                without_edns: (&self.truncated[0]).into(),
                edns: (&self.truncated[1]).into(),
                with_do: (&self.truncated[2]).into(),
                window_s: RETRY_WINDOW as f64 / SECOND as f64,
            },
            query_size: transports(&q.sizes).into(),
            response_size: ResponseSize {
                udp: (&r.sizes[0]).into(),
                tcp: (&r.sizes[1]).into(),
                rcodes: r.rcodes.iter().map(|(&c, s)| (rcode::extended_to_text(c), s.into())).collect(),
                udp_above: [512, 1232, 1452].map(|size| (size, r.sizes[0].above(size))).into(),
            },
            latency_us: Latency {
                all: (&latency).into(),
                udp: (&self.latency[0]).into(),
                tcp: (&self.latency[1]).into(),
            },
            labels: q.labels.clone(),
            name_octets: (&q.name_octets).into(),
            names: self.names.count(),
            clients: self.clients.count(),
            clients_are_sketch: self.clients.is_sketch(),
            clients_error: self.clients.error(),
            sketch_error: Distinct::ERROR,
            clients_half: self.clients.half(),
            top_clients: self.clients.top(TOP).into_iter().map(named(asked)).collect(),
            icmp: self.icmp.iter().map(|(&key, &n)| (icmp_to_text(key), n)).collect(),
            ignored: self.skipped.clone(),
            cut_short: self.counts.cut_short,
            fragments: self.counts.fragments,
        }
    }
}
