//! Reading captures: files in, DNS messages out.
//!
//! pcap and pcapng, plain or compressed; Ethernet with VLAN tags, raw IP, Linux cooked capture, BSD loopback; IPv4 and
//! IPv6 with extension headers, fragments put together; UDP, and TCP streams put together. One pass, without a copy
//! for UDP; memory is bounded whatever the capture holds: 64 MiB each for fragments and for TCP, and once more while
//! streams end. Nothing is skipped without being counted ([`Skipped`]).

mod capture;
mod connections;
pub(crate) mod files;
mod fragments;
mod input;
pub(crate) mod packet;
mod skipped;
mod stream;

use capture::Capture;
use connections::{Connections, Item, Whole};
use files::Files;
use fragments::Fragments;
use input::Input;
use measure::Nanos;
use serde::Serialize;
use std::io::{self, Cursor, Read};
use std::net::{IpAddr, SocketAddr};
use std::ops::Range;
use std::path::{Path, PathBuf};
use wire::header::{Header, LEN};

pub use connections::{Connection, End};
pub use packet::ChecksumState;
pub(crate) use skipped::Skip;
pub use skipped::{REASONS, Skipped};

/// Why a capture cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file cannot be opened, read or decompressed.
    #[error("{}: {source}", .path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It does not begin as a capture.
    #[error("{}: not a capture that can be read: {what}", .path.display())]
    NotACapture {
        /// The file.
        path: PathBuf,
        /// What it is instead.
        what: String,
    },
    /// It goes on as no capture can.
    #[error(
        "{}: damaged at octet {offset} (decompressed): {what}; what comes before can be saved with 'editcap IN OUT'",
        .path.display()
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Where, in its decompressed octets.
        offset: u64,
        /// What is there.
        what: String,
    },
}

impl Error {
    /// An I/O error at a path.
    fn io(path: &Path) -> impl FnOnce(io::Error) -> Self + '_ {
        move |source| Self::Io { path: path.to_owned(), source }
    }

    /// The file.
    pub fn path(&self) -> &Path {
        match self {
            Self::Io { path, .. } | Self::NotACapture { path, .. } | Self::Damaged { path, .. } => path,
        }
    }
}

/// What is taken for DNS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Packets from or to these ports, over UDP and TCP.
    pub ports: Vec<u16>,
    /// Which part of the trace this reader has, of how many: every packet is in one part, all packets between two
    /// addresses in the same. What readers of all parts count adds up to what one reader of the whole does.
    pub part: (u32, u32),
}

impl Default for Options {
    /// Port 53, all of it.
    fn default() -> Self {
        Self { ports: vec![53], part: (0, 1) }
    }
}

/// What a reader comes upon.
#[derive(Clone, Copy, Debug)]
pub enum Event<'a> {
    /// A DNS message.
    Message(Message<'a>),
    /// An ICMP error about one.
    Quote(Quote<'a>),
    /// A TCP connection of which there will be no more messages.
    Connection(Connection),
}

/// One DNS message, a query or a response, in buffers that the next one overwrites.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message<'a> {
    /// When it was captured, in nanoseconds since 1970; where it came in several packets, when the one came that made
    /// it whole.
    pub at: Nanos,
    /// Its sender.
    pub from: SocketAddr,
    /// Its receiver.
    pub to: SocketAddr,
    /// Over TCP: its connection's number, from 0 in the order of their first packets.
    pub tcp: Option<u64>,
    /// Over TCP: how long after the server's SYN the client's answer to it was captured, in nanoseconds; where the capture
    /// was made at the server, the time that a packet takes to the client and back.
    pub handshake: Option<Nanos>,
    /// The IPv4 header's "don't fragment" bit; false over TCP.
    pub df: bool,
    /// Time to live, or hop limit; over TCP, of the segment that made it whole.
    pub ttl: u8,
    /// Of how many IP fragments it was put together; 1 where it came in one packet.
    pub fragments: u64,
    /// The UDP checksum.
    pub checksum: ChecksumState,
    /// The message from its header on, at least 12 octets; not all of it where [`Self::len`] is more.
    pub bytes: &'a [u8],
    /// Its length in octets: more than there are in `bytes` where the capture cut the packet short.
    pub len: usize,
    /// The packet that holds it; `None` over TCP, and where it was put together.
    pub frame: Option<Frame<'a>>,
}

/// A packet as captured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    /// The link type's number as tcpdump.org registers it.
    pub link: u16,
    /// What was captured of it.
    pub bytes: &'a [u8],
    /// How long it was.
    pub len: usize,
}

/// An ICMP error that quotes a packet from or to a server's port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quote<'a> {
    /// When it was captured, in nanoseconds since 1970.
    pub at: Nanos,
    /// Who sent the error.
    pub from: IpAddr,
    /// To whom.
    pub to: IpAddr,
    /// ICMP's type (RFC 792), or ICMPv6's (RFC 4443) where `from` is of IPv6.
    pub kind: u8,
    /// Its code.
    pub code: u8,
    /// Who sent the packet that is quoted.
    pub quoted_from: SocketAddr,
    /// To whom.
    pub quoted_to: SocketAddr,
    /// The packet was of TCP.
    pub tcp: bool,
    /// What was quoted of the DNS message; none over TCP.
    pub message: &'a [u8],
}

impl<'a> Message<'a> {
    /// Its header.
    pub fn header(&self) -> Header<'a> {
        Header::new(self.bytes).expect("a message has a header")
    }

    /// All of it was captured.
    pub fn is_whole(&self) -> bool {
        self.bytes.len() == self.len
    }
}

/// What there was, apart from what was skipped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Packets in the files.
    pub packets: u64,
    /// Messages with QR clear.
    pub queries: u64,
    /// Messages with QR set.
    pub responses: u64,
    /// Of these messages, those over TCP.
    pub over_tcp: u64,
    /// Of these messages, those that the capture cut short.
    pub cut_short: u64,
    /// Of the packets, IP fragments.
    pub fragments: u64,
    /// TCP connections of which a SYN or data were seen.
    pub connections: u64,
    /// Of them, those of which there was a message.
    pub connections_with_dns: u64,
    /// TCP segments whose data were there before.
    pub retransmitted: u64,
    /// TCP segments from or to the ports.
    pub tcp_packets: u64,
    /// ICMP errors that quote a packet from or to the ports.
    pub quotes: u64,
    /// Packets that pcapng keeps without a time: they have the time of the packet before them.
    pub untimed: u64,
}

/// Reads captures as one trace.
pub struct Reader {
    files: Files,
    options: Options,
    fragments: Fragments,
    connections: Connections,
    counts: Counts,
    skipped: Skipped,
    /// When the packets were captured: the last, the earliest, the latest.
    at: Nanos,
    span: Option<(Nanos, Nanos)>,
    /// Packets of all parts.
    seen: u64,
    /// The packet in sight was not looked into yet.
    fresh: bool,
    over: bool,
}

/// Where the next event is.
pub(crate) enum Found {
    /// A message in the packet in sight.
    Packet(Datagram),
    /// A message in the packet that was put together last.
    Reassembled(Datagram),
    /// Among what TCP streams gave. In a box, as what is rare shall not make what is not larger.
    Stream(Box<Item>),
    /// An ICMP error in the packet in sight, or in the one that was put together.
    Quote(Box<QuoteAt>),
}

/// An ICMP error about DNS.
pub(crate) struct QuoteAt {
    from: IpAddr,
    to: IpAddr,
    error: packet::IcmpError,
    reassembled: bool,
}

/// A DNS message in a datagram.
pub(crate) struct Datagram {
    from: SocketAddr,
    to: SocketAddr,
    df: bool,
    ttl: u8,
    pieces: u64,
    checksum: ChecksumState,
    at: Range<usize>,
    length: usize,
}

impl Reader {
    /// Opens captures, which are read as one in the order of their packets' times; `-` is standard input.
    ///
    /// # Errors
    /// A file that cannot be opened, or does not begin as a capture.
    pub fn open(paths: &[PathBuf], options: &Options) -> Result<Self, Error> {
        Ok(Self::of(Files::open(paths)?, options))
    }

    /// Reads a capture from elsewhere; `name` stands for it in errors.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn from_read(
        name: &Path,
        from: impl Read + Send + 'static,
        options: &Options,
    ) -> Result<Self, Error> {
        let capture = Capture::open(Input::new(name, Box::new(from))?)?;
        Ok(Self::of(Files::of(capture), options))
    }

    fn of(files: Files, options: &Options) -> Self {
        Self {
            files,
            options: options.clone(),
            fragments: Fragments::default(),
            connections: Connections::default(),
            counts: Counts::default(),
            skipped: Skipped::default(),
            at: 0,
            span: None,
            seen: 0,
            fresh: false,
            over: false,
        }
    }

    /// What there was so far.
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// When the first packet of the trace was captured, also where this reader has a part; 0 where there is none. To be
    /// asked for before anything is read.
    ///
    /// # Errors
    /// As [`Self::next`].
    pub fn origin(&mut self) -> Result<Nanos, Error> {
        if self.seen == 0 {
            self.fresh = self.advance()?;
        }
        Ok(self.at)
    }

    /// Packets read so far, those of other parts included.
    pub fn seen(&self) -> u64 {
        self.seen
    }

    /// When the earliest and the latest packet so far were captured, of the whole trace also where this reader has a part;
    /// `None` where there was no packet.
    pub fn span(&self) -> Option<(Nanos, Nanos)> {
        self.span
    }

    /// What was skipped so far. At the end of the trace it is complete.
    pub fn skipped(&self) -> &Skipped {
        &self.skipped
    }

    /// The next message; `None` at the end.
    ///
    /// # Errors
    /// A file that cannot be read any further. A file that ends within a packet is no error: it is counted.
    #[allow(clippy::should_implement_trait, reason = "what it gives is lent")]
    pub fn next(&mut self) -> Result<Option<Message<'_>>, Error> {
        loop {
            match self.find()? {
                None => return Ok(None),
                Some(Found::Quote(_)) => {}
                Some(Found::Stream(item)) if matches!(*item, Item::Connection(_)) => {}
                Some(found) => {
                    let Event::Message(message) = self.show(found) else { unreachable!("a message") };
                    return Ok(Some(message));
                }
            }
        }
    }

    /// The next event; `None` at the end.
    ///
    /// # Errors
    /// As [`Self::next`].
    pub fn next_event(&mut self) -> Result<Option<Event<'_>>, Error> {
        Ok(self.find()?.map(|found| self.show(found)))
    }

    /// Goes on to the next event, and counts it.
    pub(crate) fn find(&mut self) -> Result<Option<Found>, Error> {
        loop {
            if let Some(item) = self.connections.ready.take() {
                if let Item::Message(whole) = &item {
                    let bytes = self.connections.ready.octets(whole);
                    self.counts.add(bytes, bytes.len(), true);
                }
                return Ok(Some(Found::Stream(Box::new(item))));
            }
            if self.over {
                return Ok(None);
            }
            if !std::mem::take(&mut self.fresh) && !self.advance()? {
                self.over = true;
                self.fragments.finish(&mut self.skipped);
                self.connections.finish(&mut self.skipped);
                self.counts.connections_with_dns = self.connections.with_dns;
                continue;
            }
            match self.look() {
                Ok(Some(found)) => {
                    match &found {
                        Found::Packet(d) => {
                            let bytes = &self.files.current().packet().bytes[d.at.clone()];
                            self.counts.add(bytes, d.length, false);
                        }
                        Found::Reassembled(d) => {
                            self.counts.add(&self.fragments.whole()[d.at.clone()], d.length, false);
                        }
                        Found::Quote(_) => self.counts.quotes += 1,
                        Found::Stream(_) => unreachable!("those are taken above"),
                    }
                    return Ok(Some(found));
                }
                Ok(None) => {}
                Err(reason) => self.skipped.add(reason),
            }
        }
    }

    /// Brings the next packet into sight.
    fn advance(&mut self) -> Result<bool, Error> {
        // What belongs to no packet is counted by the first part alone.
        let (counts, skipped) = match self.options.part.0 {
            0 => (&mut self.counts, &mut self.skipped),
            _ => (&mut Counts::default(), &mut Skipped::default()),
        };
        let here = self.files.advance(counts, skipped)?;
        if here {
            self.seen += 1;
            self.at = self.files.current().at;
            let (first, last) = self.span.unwrap_or((self.at, self.at));
            self.span = Some((first.min(self.at), last.max(self.at)));
        }
        Ok(here)
    }

    /// The link type of the packet in sight.
    pub(crate) fn link(&self) -> Option<u16> {
        self.files.link()
    }

    /// What was found.
    pub(crate) fn show(&self, found: Found) -> Event<'_> {
        let (datagram, bytes, frame) = match found {
            Found::Packet(datagram) => {
                let packet = self.files.current().packet();
                let frame = Frame { link: packet.link, bytes: packet.bytes, len: packet.len };
                (datagram, packet.bytes, Some(frame))
            }
            Found::Reassembled(datagram) => (datagram, self.fragments.whole(), None),
            Found::Stream(item) => {
                return match *item {
                    Item::Message(whole) => Event::Message(self.over_tcp(&whole)),
                    Item::Connection(connection) => Event::Connection(connection),
                };
            }
            Found::Quote(quote) => {
                let QuoteAt { from, to, error, reassembled } = *quote;
                let bytes =
                    if reassembled { self.fragments.whole() } else { self.files.current().packet().bytes };
                return Event::Quote(Quote {
                    at: self.at,
                    from,
                    to,
                    kind: error.kind,
                    code: error.code,
                    quoted_from: SocketAddr::new(error.quoted.from, error.ports.0),
                    quoted_to: SocketAddr::new(error.quoted.to, error.ports.1),
                    tcp: error.quoted.protocol == packet::TCP,
                    message: &bytes[error.message],
                });
            }
        };
        Event::Message(Message {
            at: self.at,
            from: datagram.from,
            to: datagram.to,
            tcp: None,
            handshake: None,
            df: datagram.df,
            ttl: datagram.ttl,
            fragments: datagram.pieces,
            checksum: datagram.checksum,
            bytes: &bytes[datagram.at],
            len: datagram.length,
            frame,
        })
    }

    fn over_tcp(&self, whole: &Whole) -> Message<'_> {
        let bytes = self.connections.ready.octets(whole);
        Message {
            at: self.at,
            from: whole.from,
            to: whole.to,
            tcp: Some(whole.connection),
            handshake: whole.handshake,
            df: false,
            ttl: whole.ttl,
            fragments: 1,
            checksum: ChecksumState::Unknown,
            bytes,
            len: bytes.len(),
            frame: None,
        }
    }

    /// This reader's part has the packets between these addresses.
    fn has(&self, ip: Option<&packet::Ip>) -> bool {
        let (part, parts) = self.options.part;
        if parts <= 1 {
            return true;
        }
        let fold = |address: IpAddr| match address {
            IpAddr::V4(a) => u64::from(a.to_bits()),
            IpAddr::V6(a) => (a.to_bits() >> 64) as u64 ^ (a.to_bits() as u64).rotate_left(29),
        };
        // The same either way; multiplied so that neighbours are apart.
        let mixed = ip.map_or(0, |ip| (fold(ip.from) ^ fold(ip.to)).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        (u128::from(mixed) * u128::from(parts)) >> 64 == u128::from(part)
    }

    /// Looks into the packet in sight; what it adds to a stream becomes ready there.
    fn look(&mut self) -> Result<Option<Found>, Skip> {
        let packet = self.files.current().packet();
        let mut bytes = packet.bytes;
        let ip = packet::ip_at(packet.link, bytes).and_then(|at| packet::ip(bytes, at));
        if !self.has(ip.as_ref().ok()) {
            return Ok(None);
        }
        self.counts.packets += 1;
        let mut ip = ip?;
        let reassembled = ip.fragment.is_some();
        if let Some(fragment) = ip.fragment {
            self.counts.fragments += 1;
            if ip.payload.len() < ip.length {
                return Err(Skip::CutPacket);
            }
            let payload = &bytes[ip.payload.clone()];
            match self.fragments.add(packet.at, &ip, fragment, payload, &mut self.skipped) {
                Some(whole) => ip = whole,
                None => return Ok(None),
            }
            bytes = self.fragments.whole();
        }
        let ports = &self.options.ports;
        let is_server = |port: u16| ports.contains(&port);
        match ip.protocol {
            packet::UDP => {
                let udp = packet::udp(bytes, &ip)?;
                if !is_server(udp.from.port()) && !is_server(udp.to.port()) {
                    return Err(Skip::Port);
                }
                if udp.payload.len() < LEN {
                    return Err(if udp.length < LEN { Skip::ShortUdp } else { Skip::CutPacket });
                }
                let datagram = Datagram {
                    from: udp.from,
                    to: udp.to,
                    df: ip.df,
                    ttl: ip.ttl,
                    pieces: ip.pieces,
                    checksum: udp.checksum,
                    at: udp.payload,
                    length: udp.length,
                };
                Ok(Some(if reassembled { Found::Reassembled(datagram) } else { Found::Packet(datagram) }))
            }
            packet::TCP => {
                let tcp = packet::tcp(bytes, &ip)?;
                if !is_server(tcp.from.port()) && !is_server(tcp.to.port()) {
                    return Err(Skip::Port);
                }
                self.counts.tcp_packets += 1;
                let data = &bytes[tcp.data.clone()];
                let (counts, skipped) = (&mut self.counts, &mut self.skipped);
                self.connections.add(packet.at, (&tcp, ip.ttl), data, is_server, counts, skipped);
                self.counts.connections_with_dns = self.connections.with_dns;
                Ok(None)
            }
            packet::ICMP | packet::ICMPV6 => {
                let error = packet::icmp_error(bytes, &ip);
                let error = error.filter(|e| is_server(e.ports.0) || is_server(e.ports.1));
                let error = error.ok_or(Skip::Icmp)?;
                let (from, to) = (ip.from, ip.to);
                Ok(Some(Found::Quote(Box::new(QuoteAt { from, to, error, reassembled }))))
            }
            _ => Err(Skip::Protocol),
        }
    }
}

impl Counts {
    /// Counts a message of `length` octets, of which these were captured.
    fn add(&mut self, bytes: &[u8], length: usize, tcp: bool) {
        let response = Header::new(bytes).expect("a message has a header").qr();
        *(if response { &mut self.responses } else { &mut self.queries }) += 1;
        self.over_tcp += u64::from(tcp);
        self.cut_short += u64::from(bytes.len() < length);
    }

    /// Adds what another part of the same trace counted.
    pub fn merge(&mut self, other: &Self) {
        let Self {
            packets,
            queries,
            responses,
            over_tcp,
            cut_short,
            fragments,
            connections,
            connections_with_dns,
            retransmitted,
            tcp_packets,
            quotes,
            untimed,
        } = other;
        self.packets += packets;
        self.queries += queries;
        self.responses += responses;
        self.over_tcp += over_tcp;
        self.cut_short += cut_short;
        self.fragments += fragments;
        self.connections += connections;
        self.connections_with_dns += connections_with_dns;
        self.retransmitted += retransmitted;
        self.tcp_packets += tcp_packets;
        self.quotes += quotes;
        self.untimed += untimed;
    }
}

/// Fuzz entry point: any octets as a capture file, compressed or not.
///
/// # Panics
/// Where what is read contradicts itself: a bug.
pub fn fuzz_capture(bytes: &[u8]) {
    let input = Cursor::new(bytes.to_vec());
    let Ok(mut reader) = Reader::from_read(Path::new("fuzz"), input, &Options::default()) else { return };
    let mut messages = 0;
    let (mut quotes, mut connections) = (0, 0);
    while let Ok(Some(event)) = reader.next_event() {
        match event {
            Event::Message(message) => {
                assert!(message.bytes.len() >= LEN && message.bytes.len() <= message.len);
                messages += 1;
            }
            Event::Quote(_) => quotes += 1,
            Event::Connection(connection) => {
                assert!(connection.first <= connection.last || connection.established);
                connections += 1;
            }
        }
    }
    let counts = reader.counts();
    assert_eq!(counts.queries + counts.responses, messages);
    // A file that cannot be read further leaves connections in sight.
    assert!(counts.quotes == quotes && counts.connections >= connections);
    let skipped: u64 = reader.skipped().iter().map(|(_, count)| count).sum();
    assert!(counts.packets > 0 || skipped <= 1, "{counts:?} {:?}", reader.skipped());
}

/// Fuzz entry point: any octets as packets of raw IP, so that fragments and streams are reached. Each packet is
/// preceded by an octet of which its length is a multiple of 8, cut at the end.
pub fn fuzz_packets(bytes: &[u8]) {
    let mut file = [&0xa1b2_3c4du32.to_be_bytes()[..], &[0; 16], &101u32.to_be_bytes()].concat();
    let mut rest = bytes;
    let mut at = 0u32;
    while let Some((&length, after)) = rest.split_first() {
        let (packet, after) = after.split_at((usize::from(length) * 8).min(after.len()));
        at += 1;
        file.extend_from_slice(
            &[at, 0, packet.len() as u32, packet.len() as u32].map(u32::to_be_bytes).concat(),
        );
        file.extend_from_slice(packet);
        rest = after;
    }
    fuzz_capture(&file);
}
