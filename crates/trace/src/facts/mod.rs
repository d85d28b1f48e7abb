//! The facts of a trace: ISC-TN-2008-1 section 5.1 and RZAIA sections 3.1, 3.2.6 and chapter 6, in one pass.
//!
//! [`collect`] reads captures with several threads, each of which has the packets of some pairs of addresses, and adds up
//! what they found: [`Facts`], the same whatever the number of threads. Its numbers are exact but for those of clients
//! and names where there are many, which say so.

mod clients;
mod collector;
mod read;
pub mod report;
mod retries;
pub mod rssac002;
mod series;
mod sizes;

pub use clients::{CLIENTS_MAX, Clients};
pub(crate) use clients::{key, number};
pub use collector::Collector;
pub(crate) use read::{Collect, in_parts};
pub use read::{collect, collect_rssac002};
pub use report::{Report, opcode_to_text};
pub use retries::RETRY_WINDOW;
pub(crate) use retries::Retries;
pub use rssac002::Rssac002;
pub use series::{Line, Series};
pub use sizes::Sizes;

use crate::read::{ChecksumState, Counts, Skipped};
use derive_more::{Add, AddAssign, Sum};
use measure::distinct::Distinct;
use measure::{Histogram, Nanos};
use std::collections::BTreeMap;

/// Class and type of a question; `None` where a message has none that can be read.
pub type Asked = Option<(u16, u16)>;

/// All that is known of a trace.
#[derive(Clone, Debug)]
pub struct Facts {
    /// The reader's counts.
    pub counts: Counts,
    /// Packets that it skipped, by reason.
    pub skipped: Skipped,
    /// When the earliest and the latest packet were captured, in nanoseconds since 1970.
    pub span: Option<(Nanos, Nanos)>,
    /// Queries.
    pub queries: Queries,
    /// Responses.
    pub responses: Responses,
    /// How queries were answered, by what they asked for.
    pub types: BTreeMap<Asked, Answered>,
    /// Queries with RD, and how they were answered.
    pub recursive: Answered,
    /// Answers that belong to no query of the trace.
    pub unsolicited: u64,
    /// From query to answer, in nanoseconds: over UDP, over TCP.
    pub latency: [Histogram; 2],
    /// Truncated answers and what became of them: to queries without EDNS, with EDNS but no DO, with DO.
    pub truncated: [Truncated; 3],
    /// TCP connections.
    pub tcp: Tcp,
    /// ICMP errors about DNS by IP version (4, 6), type and code.
    pub icmp: BTreeMap<(u8, u8, u8), u64>,
    /// Clients and their rates.
    pub clients: Clients,
    /// Different names asked for, in lower case.
    pub names: Distinct,
    /// Counts over time.
    pub series: Series,
}

/// How queries were answered.
#[derive(Add, AddAssign, Clone, Copy, Debug, Default, PartialEq, Eq, Sum)]
pub struct Answered {
    /// Queries.
    pub count: u64,
    /// Of them, those whose answer has another code than NOERROR.
    pub failed: u64,
    /// Of them, those without an answer in the trace.
    pub unanswered: u64,
}

/// Queries.
#[derive(Clone, Debug, Default)]
pub struct Queries {
    /// Over UDP, over TCP.
    pub transport: [u64; 2],
    /// Over IPv4, over IPv6.
    pub family: [u64; 2],
    /// By opcode.
    pub opcodes: [u64; 16],
    /// With an OPT record.
    pub edns: u64,
    /// With DO.
    pub do_bit: u64,
    /// By the UDP payload size of the OPT record, in octets: without DO, with it.
    pub edns_sizes: [BTreeMap<u16, u64>; 2],
    /// By EDNS version.
    pub edns_versions: BTreeMap<u8, u64>,
    /// Over UDP and IPv4 with "don't fragment".
    pub df: u64,
    /// UDP checksums.
    pub checksums: BTreeMap<ChecksumState, u64>,
    /// Octets of the DNS message: over UDP, over TCP.
    pub sizes: [Sizes; 2],
    /// Labels of the name, without the root's.
    pub labels: BTreeMap<u8, u64>,
    /// Octets of the name on the wire.
    pub name_octets: Sizes,
    /// For which one there is no source port but the server's: from port 53.
    pub from_server_port: u64,
}

/// Responses.
#[derive(Clone, Debug, Default)]
pub struct Responses {
    /// Over UDP, over TCP.
    pub transport: [u64; 2],
    /// By code, with the bits of the OPT record: octets of the DNS message.
    pub rcodes: BTreeMap<u16, Sizes>,
    /// Octets of the DNS message: over UDP, over TCP.
    pub sizes: [Sizes; 2],
    /// With AA.
    pub authoritative: u64,
    /// With TC.
    pub truncated: u64,
    /// With an OPT record.
    pub edns: u64,
    /// UDP checksums.
    pub checksums: BTreeMap<ChecksumState, u64>,
    /// Messages that came in IP fragments.
    pub fragmented: u64,
}

/// Truncated answers over UDP.
#[derive(Add, AddAssign, Clone, Copy, Debug, Default, PartialEq, Eq, Sum)]
pub struct Truncated {
    /// Answers over UDP.
    pub answers: u64,
    /// Of them, truncated.
    pub count: u64,
    /// Of those, asked for again over TCP by the same client at the same address within [`RETRY_WINDOW`].
    pub retried: u64,
    /// Of those, with DO over TCP.
    pub retried_with_do: u64,
}

/// TCP connections.
#[derive(Clone, Debug, Default)]
pub struct Tcp {
    /// SYN answered with SYN, or data seen.
    pub established: u64,
    /// Of them, those without an octet of data.
    pub no_op: u64,
    /// Never closed: no FIN of both ends and no RST in the trace.
    pub unclosed: u64,
    /// Ended with RST.
    pub reset: u64,
    /// Of those with DNS: from the first to the last segment, in nanoseconds.
    pub duration: Histogram,
    /// Connections by DNS messages that they carried, those with none left out.
    pub messages: BTreeMap<u64, u64>,
    /// From the server's SYN to the client's answer, in nanoseconds.
    pub handshake: Histogram,
}

fn add_all<K: Ord + Copy>(sum: &mut BTreeMap<K, u64>, other: &BTreeMap<K, u64>) {
    other.iter().for_each(|(&key, count)| *sum.entry(key).or_default() += count);
}

impl Facts {
    /// Of a trace whose first packet was captured at `origin`, in windows of `window` nanoseconds.
    pub(crate) fn new(origin: Nanos, window: Nanos) -> Self {
        Self {
            counts: Counts::default(),
            skipped: Skipped::default(),
            span: None,
            queries: Queries::default(),
            responses: Responses::default(),
            types: BTreeMap::new(),
            recursive: Answered::default(),
            unsolicited: 0,
            latency: Default::default(),
            truncated: Default::default(),
            tcp: Tcp::default(),
            icmp: BTreeMap::new(),
            clients: Clients::default(),
            names: Distinct::default(),
            series: Series::new(origin, window),
        }
    }

    /// Adds another part of the same trace.
    pub(crate) fn merge(&mut self, other: Self) {
        self.counts += other.counts;
        self.skipped.merge(&other.skipped);
        self.span = match (self.span, other.span) {
            (Some(a), Some(b)) => Some((a.0.min(b.0), a.1.max(b.1))),
            (a, b) => a.or(b),
        };
        self.queries.merge(&other.queries);
        self.responses.merge(&other.responses);
        for (&asked, answered) in &other.types {
            *self.types.entry(asked).or_default() += *answered;
        }
        self.recursive += other.recursive;
        self.unsolicited += other.unsolicited;
        self.latency.iter_mut().zip(&other.latency).for_each(|(sum, one)| sum.merge(one));
        self.truncated.iter_mut().zip(other.truncated).for_each(|(sum, one)| *sum += one);
        self.tcp.merge(&other.tcp);
        add_all(&mut self.icmp, &other.icmp);
        self.clients.merge(&other.clients);
        self.names.merge(&other.names);
        self.series.merge(other.series);
    }

    /// From the earliest to the latest packet, in seconds.
    pub fn seconds(&self) -> f64 {
        self.span.map_or(0.0, |(first, last)| (last - first) as f64 / measure::clock::SECOND as f64)
    }

    /// How all queries were answered.
    pub fn answered(&self) -> Answered {
        self.types.values().copied().sum()
    }

    /// Truncated answers to queries of all kinds.
    pub fn all_truncated(&self) -> Truncated {
        self.truncated.iter().copied().sum()
    }
}

impl Queries {
    fn merge(&mut self, other: &Self) {
        for n in 0..2 {
            self.transport[n] += other.transport[n];
            self.family[n] += other.family[n];
            add_all(&mut self.edns_sizes[n], &other.edns_sizes[n]);
            self.sizes[n].merge(&other.sizes[n]);
        }
        self.opcodes.iter_mut().zip(other.opcodes).for_each(|(sum, n)| *sum += n);
        self.edns += other.edns;
        self.do_bit += other.do_bit;
        add_all(&mut self.edns_versions, &other.edns_versions);
        self.df += other.df;
        add_all(&mut self.checksums, &other.checksums);
        add_all(&mut self.labels, &other.labels);
        self.name_octets.merge(&other.name_octets);
        self.from_server_port += other.from_server_port;
    }
}

impl Responses {
    fn merge(&mut self, other: &Self) {
        for n in 0..2 {
            self.transport[n] += other.transport[n];
            self.sizes[n].merge(&other.sizes[n]);
        }
        other.rcodes.iter().for_each(|(&code, sizes)| self.rcodes.entry(code).or_default().merge(sizes));
        self.authoritative += other.authoritative;
        self.truncated += other.truncated;
        self.edns += other.edns;
        add_all(&mut self.checksums, &other.checksums);
        self.fragmented += other.fragmented;
    }
}

impl Tcp {
    fn merge(&mut self, other: &Self) {
        self.established += other.established;
        self.no_op += other.no_op;
        self.unclosed += other.unclosed;
        self.reset += other.reset;
        self.duration.merge(&other.duration);
        add_all(&mut self.messages, &other.messages);
        self.handshake.merge(&other.handshake);
    }
}

/// Fuzz entry point: any octets as a capture, whose facts must not contradict each other, in one part or in several.
///
/// # Panics
/// Where they do: a bug.
pub fn fuzz_facts(bytes: &[u8]) {
    let part = |part: u32, parts: u32| {
        let options = crate::read::Options { part: (part, parts), ..Default::default() };
        let input = std::io::Cursor::new(bytes.to_vec());
        let mut reader =
            crate::read::Reader::from_read(std::path::Path::new("fuzz"), input, &options).ok()?;
        let mut collector = Collector::new(reader.origin().ok()?, measure::clock::SECOND);
        while let Some(event) = reader.next_event().ok()? {
            collector.add(&event);
        }
        Some(collector.finish(&reader))
    };
    let Some(whole) = part(0, 1) else { return };
    let all = whole.answered();
    assert_eq!(all.count, whole.counts.queries);
    assert!(all.failed + all.unanswered <= all.count, "{all:?}");
    assert_eq!(whole.responses.rcodes.values().map(Sizes::count).sum::<u64>(), whole.counts.responses);
    assert!(whole.all_truncated().retried <= whole.all_truncated().count);
    let (Some(mut one), Some(other)) = (part(0, 2), part(1, 2)) else {
        panic!("parts cannot be read, the whole can")
    };
    one.merge(other);
    assert_eq!(format!("{:?}", one.report()), format!("{:?}", whole.report()));
}
