//! How zones were carried, by a capture: every transfer (AXFR, RFC 5936; IXFR, RFC 1995) with its bytes, the NOTIFYs
//! (RFC 1996) and the refresh queries for the SOA before it.
//!
//! IXFR and AXFR in its place are distinguished by the records, and differences are counted. Bytes are counted thrice: DNS messages; TCP
//! payload; and, as RZAIA does, all packets of the connection in both directions without Ethernet headers. A capture made
//! where network cards cut segments has fewer IP headers than the wire had.

mod collector;

pub use collector::Collector;

use crate::facts::{self, Facts, in_parts};
use crate::read::{Error, Reader};
use measure::Nanos;
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;
use std::path::PathBuf;
use wire::transfer::{Asked, Kind};

/// Transfers, NOTIFYs and SOA queries that are kept, each.
pub const KEPT_MAX: usize = 1 << 18;

/// One transfer. Times are wall clock, nanoseconds since 1970.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ZoneTransfer {
    /// The client.
    pub client: SocketAddr,
    /// The server.
    pub server: SocketAddr,
    /// The zone.
    pub zone: String,
    /// It came over TCP.
    pub tcp: bool,
    /// The question; the serial is null where the question was not captured.
    pub asked: Asked,
    /// The kind of the answer; null where that is not known.
    pub kind: Option<Kind>,
    /// It came to its end.
    pub complete: bool,
    /// The fault: the server refused, records were out of order.
    pub fault: Option<String>,
    /// The serial that the differences begin with.
    pub serial_from: Option<u32>,
    /// The serial of the server's version.
    pub serial_to: Option<u32>,
    /// The question, or the first message where that was not captured.
    pub start_ns: Nanos,
    /// The first message was complete.
    pub first_ns: Option<Nanos>,
    /// The last message was complete.
    pub end_ns: Option<Nanos>,
    /// DNS messages.
    pub messages: u64,
    /// Octets of them.
    pub dns_bytes: u64,
    /// The same with the two of length before each.
    pub tcp_bytes: u64,
    /// Records, all SOA included.
    pub records: u64,
    /// Differences, complete ones.
    pub deltas: u64,
    /// Records that they delete, SOA not counted.
    pub deletions: u64,
    /// Records that they add, likewise.
    pub additions: u64,
    /// Packets of its TCP connection, both ways.
    pub packets: Option<u64>,
    /// Octets of these packets without Ethernet headers.
    pub ip_bytes: Option<u64>,
    /// The number of transfers on this connection, which its packets belong to together.
    pub on_connection: u64,
}

/// A NOTIFY, or a query for the SOA.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exchange {
    /// When it was sent: wall clock, nanoseconds since 1970.
    pub at_ns: Nanos,
    /// The sender.
    pub from: SocketAddr,
    /// Its destination.
    pub to: SocketAddr,
    /// The zone.
    pub zone: String,
    /// Over TCP.
    pub tcp: bool,
    /// Of a NOTIFY, the serial that it tells, if any; of a query, the one that was answered.
    pub serial: Option<u32>,
    /// How long after it the answer came, in nanoseconds; null without one.
    pub answered_after_ns: Option<Nanos>,
    /// The answer's code.
    pub rcode: Option<u8>,
}

/// The zone transfers in a trace, and what announces them, each in order of time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Transfers {
    /// Zone transfers.
    pub transfers: Vec<ZoneTransfer>,
    /// NOTIFYs.
    pub notifies: Vec<Exchange>,
    /// Queries for a SOA.
    pub refreshes: Vec<Exchange>,
    /// TCP segments that the capture misses: transfers may be broken by that.
    pub holes: u64,
    /// How many there were beyond [`KEPT_MAX`] of a kind.
    pub not_kept: u64,
}

impl Transfers {
    /// True where there is nothing of the kind.
    pub fn is_empty(&self) -> bool {
        self.transfers.is_empty() && self.notifies.is_empty() && self.refreshes.is_empty()
    }

    /// Adds another part of the same trace.
    pub fn merge(&mut self, other: Self) {
        self.transfers.extend(other.transfers);
        self.notifies.extend(other.notifies);
        self.refreshes.extend(other.refreshes);
        self.holes += other.holes;
        self.not_kept += other.not_kept;
        self.sort();
    }

    fn sort(&mut self) {
        self.transfers.sort_by_key(|t| (t.start_ns, t.client, t.server));
        self.notifies.sort_by_key(|e| (e.at_ns, e.from, e.to));
        self.refreshes.sort_by_key(|e| (e.at_ns, e.from, e.to));
    }
}

/// Finds the transfers in captures, read as one trace by up to `threads` threads; `ports` are the servers'. `progress` hears the
/// packets read so far.
///
/// # Errors
/// As the reader's.
pub fn collect(
    paths: &[PathBuf],
    ports: &[u16],
    threads: u32,
    progress: &mut dyn FnMut(u64),
) -> Result<Transfers, Error> {
    in_parts(paths, ports, threads, progress, |_| Ok(Collector::default()))
}

/// As [`collect`], with the facts of the trace in the same pass, as [`crate::facts::collect`] gives them.
///
/// # Errors
/// As the reader's.
pub fn collect_with_facts(
    paths: &[PathBuf],
    ports: &[u16],
    window: Nanos,
    threads: u32,
    progress: &mut dyn FnMut(u64),
) -> Result<(Facts, Transfers), Error> {
    let new =
        |reader: &mut Reader| Ok((facts::Collector::new(reader.origin()?, window), Collector::default()));
    in_parts(paths, ports, threads, progress, new)
}

/// Fuzz entry point: any octets as a capture, whose transfers must not contradict what the reader counts.
///
/// # Panics
/// Where they do: a bug.
pub fn fuzz_transfers(bytes: &[u8]) {
    let input = std::io::Cursor::new(bytes.to_vec());
    let options = crate::read::Options::default();
    let Ok(mut reader) = crate::read::Reader::from_read(std::path::Path::new("fuzz"), input, &options) else {
        return;
    };
    let mut collector = Collector::default();
    while let Ok(Some(event)) = reader.next_event() {
        collector.add(&event);
    }
    let counts = *reader.counts();
    let found = collector.finish(&reader);
    let messages: u64 = found.transfers.iter().map(|t| t.messages).sum();
    assert!(messages <= counts.responses);
    assert!((found.notifies.len() + found.refreshes.len()) as u64 <= counts.queries);
    for transfer in &found.transfers {
        assert!(!transfer.complete || (transfer.kind.is_some() && transfer.fault.is_none()));
        assert_eq!(transfer.tcp_bytes, transfer.dns_bytes + 2 * transfer.messages * u64::from(transfer.tcp));
        assert!(transfer.packets.is_none_or(|n| n <= counts.tcp_packets));
    }
}
