//! Editing traces: captures in, chosen packets or messages out, rewritten.
//!
//! Two ways, chosen by what is asked for. Where only times, clients, addresses and anonymising are asked for, every packet
//! is taken as it is and rewritten in place: TCP handshakes, ICMP, fragments, packets that are not DNS. Where it is
//! about DNS messages (names, EDNS, every n-th query), the trace is read as messages: a UDP message that came in one
//! packet keeps that packet, one that came in fragments goes out in one packet, and TCP connections are rebuilt
//! around the messages that are kept. What is not kept is counted by reason ([`Dropped`]).
//!
//! The client of a packet is the end whose port is not a server's; of an ICMP error, that of the packet it quotes. Of
//! what has no ports (later fragments, pings), it is the end that was not seen as a server before.
//!
//! Memory does not grow with the trace, but for `set_src_nets`: 10 to 20 octets for each IPv4 client, 25 to 50 for each
//! IPv6 client.

mod clients;
mod dropped;
mod ends;
mod filter;
mod messages;
mod net;
mod packets;
mod rebuilt;
mod rewrite;
mod scrub;
mod sink;

pub use dropped::{DROPPED, Dropped};
pub use net::{Net, NetError};
pub use sink::{Output, Slot};

use crate::anonymize::Key;
use crate::read::{self, Skipped};
use crate::write::{self, Format};
use measure::Nanos;
use serde::Serialize;
use std::io::{self, Read};
use std::net::{Ipv4Addr, Ipv6Addr};
use std::path::PathBuf;
use wire::name::Name;
use wire::ranges::Range;

/// Why a trace could not be edited.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A capture that cannot be read.
    #[error(transparent)]
    Read(#[from] read::Error),
    /// An output that cannot be written.
    #[error(transparent)]
    Write(#[from] write::Error),
    /// More clients than the block of addresses for them has.
    #[error(
        "{net} has addresses for {room} clients, and the trace has {clients}: a block of /{length} or larger has \
         enough"
    )]
    TooManyClients {
        /// The block.
        net: Net,
        /// Addresses for clients in it.
        room: u128,
        /// Clients of its family.
        clients: u64,
        /// The length of a prefix that has room for them.
        length: u8,
    },
}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Self {
        Self::Write(error.into())
    }
}

/// A point in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// Nanoseconds since 1970.
    At(Nanos),
    /// Nanoseconds after the first packet.
    After(Nanos),
}

/// The format of the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Packets in a classic pcap.
    Pcap,
    /// Packets in a pcapng.
    Pcapng,
    /// Queries as dnsperf's "name type" lines.
    Queries,
}

impl Kind {
    fn format(self) -> Format {
        if self == Self::Pcapng { Format::Pcapng } else { Format::Pcap }
    }
}

/// Which packets to keep and what to change in them; by default everything stays as it is, but wrong checksums.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edit {
    /// The format of the output.
    pub kind: Kind,
    /// Servers' ports.
    pub ports: Vec<u16>,
    /// Only queries. With `if_response`: messages of both kinds.
    pub if_query: bool,
    /// Only responses.
    pub if_response: bool,
    /// Only messages whose question is for a name at or below this one.
    pub if_under: Option<Name>,
    /// Only those of which the label directly below `if_under` (or below the root) is in one of these ranges.
    pub if_names: Vec<Range>,
    /// Only queries with this EDNS UDP size, and their responses.
    pub if_edns_size: Option<u16>,
    /// Only queries with DO, and their responses.
    pub if_do: bool,
    /// Only clients in one of these blocks.
    pub if_clients: Vec<Net>,
    /// No clients in one of these blocks.
    pub not_clients: Vec<Net>,
    /// Drops packets before this time.
    pub from: Option<When>,
    /// Drops packets from this time on.
    pub to: Option<When>,
    /// The first of every so many queries that all other filters keep, and their responses.
    pub every: Option<u64>,
    /// The servers' IPv4 address. All servers become one: what a client sent from one port to several looks like one flow.
    pub set_dst_v4: Option<Ipv4Addr>,
    /// The servers' IPv6 address.
    pub set_dst_v6: Option<Ipv6Addr>,
    /// Where clients get their addresses from: at most one block of each family.
    pub set_src_nets: Vec<Net>,
    /// The clients' MAC address and the servers'.
    pub set_mac: Option<([u8; 6], [u8; 6])>,
    /// The EDNS UDP size of queries that have one.
    pub set_edns_size: Option<u16>,
    /// Addresses are anonymised with this key, but those that are set.
    pub anonymize: Option<Key>,
    /// Wrong checksums stay wrong.
    pub keep_checksums: bool,
}

impl Default for Edit {
    fn default() -> Self {
        Self {
            kind: Kind::Pcap,
            ports: vec![53],
            if_query: false,
            if_response: false,
            if_under: None,
            if_names: Vec::new(),
            if_edns_size: None,
            if_do: false,
            if_clients: Vec::new(),
            not_clients: Vec::new(),
            from: None,
            to: None,
            every: None,
            set_dst_v4: None,
            set_dst_v6: None,
            set_src_nets: Vec::new(),
            set_mac: None,
            set_edns_size: None,
            anonymize: None,
            keep_checksums: false,
        }
    }
}

/// Where captures come from.
pub enum Input<'a> {
    /// Files, read as one in the order of their packets' times; `-` is standard input.
    Files(&'a [PathBuf]),
    /// One capture from elsewhere.
    From(Box<dyn Read + Send>),
}

/// Counts of an edit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Summary {
    /// Packets read.
    pub read: u64,
    /// The trace was read as messages, not packet by packet.
    pub by_message: bool,
    /// DNS messages among what was read, where it was read as messages.
    pub messages: u64,
    /// Packets or lines written.
    pub written: u64,
    /// Octets written.
    pub bytes: u64,
    /// Messages that are kept, where the trace was read as messages.
    pub kept: u64,
    /// When the first and the last packet that was kept were captured, in nanoseconds since 1970.
    pub first: Option<Nanos>,
    /// See `first`.
    pub last: Option<Nanos>,
    /// Clients that got an address from a block.
    pub clients: u64,
    /// UDP, TCP and ICMP packets with a wrong checksum that was made right.
    pub checksums_made_right: u64,
    /// Client subnets (RFC 7871) that were anonymised.
    pub subnets: u64,
    /// EDNS sizes that were set.
    pub edns_sizes_set: u64,
    /// Packets or messages that were not kept, by reason.
    pub dropped: Dropped,
    /// Packets that could not be read, by reason.
    pub ignored: Skipped,
    /// The outputs, where there is one for each slot.
    pub slots: Vec<Slot>,
}

impl Edit {
    /// The trace is to be read as messages.
    pub fn is_by_message(&self) -> bool {
        self.kind == Kind::Queries
            || self.if_query
            || self.if_response
            || self.if_under.is_some()
            || !self.if_names.is_empty()
            || self.if_edns_size.is_some()
            || self.if_do
            || self.every.is_some()
            || self.set_edns_size.is_some()
    }

    /// Reads captures and writes what is asked for. `progress` hears now and then how many packets were read.
    ///
    /// # Errors
    /// A capture that cannot be read, an output that cannot be written, too many clients. What is in the output then
    /// is of no use.
    pub fn run(
        &self,
        input: Input<'_>,
        output: Output<'_>,
        progress: &mut dyn FnMut(u64),
    ) -> Result<Summary, Error> {
        let sink = sink::Sink::new(self.kind, output);
        if self.is_by_message() {
            messages::run(self, input, sink, progress)
        } else {
            packets::run(self, input, sink, progress)
        }
    }
}

/// From when to when.
struct Times {
    from: When,
    to: When,
    bounds: Option<(Nanos, Nanos)>,
}

impl Times {
    fn new(edit: &Edit) -> Self {
        Self {
            from: edit.from.unwrap_or(When::At(0)),
            to: edit.to.unwrap_or(When::At(Nanos::MAX)),
            bounds: None,
        }
    }

    /// Whether a time is wanted; `first` is when the first packet was captured.
    fn has(&mut self, at: Nanos, first: Nanos) -> bool {
        let fix = |when| match when {
            When::At(at) => at,
            When::After(after) => first.saturating_add(after),
        };
        let (from, to) = *self.bounds.get_or_insert_with(|| (fix(self.from), fix(self.to)));
        from <= at && at < to
    }
}

/// Fuzz entry point: any octets as a capture, edited in several ways; what comes out can be read again.
///
/// # Panics
/// Where it cannot, or says something else than what went in: a bug.
pub fn fuzz_edit(bytes: &[u8]) {
    let net = |text: &str| text.parse().expect("a block");
    let plain = Edit::default();
    let readdressed = Edit {
        set_dst_v4: Some(Ipv4Addr::new(192, 0, 2, 53)),
        set_dst_v6: Some(Ipv6Addr::LOCALHOST),
        set_src_nets: vec![net("10.0.0.0/8"), net("fd00::/64")],
        set_mac: Some(([2; 6], [4; 6])),
        ..Edit::default()
    };
    let anonymous = Edit { anonymize: Some(Key::new([9; 32])), kind: Kind::Pcapng, ..Edit::default() };
    for edit in [plain, readdressed, anonymous] {
        for by_message in [false, true] {
            let edit = Edit { if_query: by_message, if_response: by_message, ..edit.clone() };
            let mut out = Vec::new();
            let input = Input::From(Box::new(io::Cursor::new(bytes.to_vec())));
            let Ok(summary) = edit.run(input, Output::One(&mut out), &mut |_| {}) else { continue };
            assert_eq!(summary.bytes, out.len() as u64);
            let options = read::Options { ports: edit.ports.clone(), ..read::Options::default() };
            let again =
                read::Reader::from_read(std::path::Path::new("again"), io::Cursor::new(out), &options);
            let mut again = again.expect("what is written begins as a capture");
            let mut messages = 0;
            while let Some(_message) = again.next().expect("what is written can be read") {
                messages += 1;
            }
            assert_eq!(again.counts().packets, summary.written);
            // Servers that become one may make one connection of two.
            let whole = by_message && edit.set_dst_v4.is_none();
            assert!(!whole || messages == summary.kept, "{messages} {summary:?}");
        }
    }
}
