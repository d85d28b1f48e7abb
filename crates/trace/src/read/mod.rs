//! Reading captures: files in, DNS messages out.
//!
//! pcap and pcapng, plain or compressed; Ethernet with VLAN tags, raw IP, Linux cooked capture, BSD loopback; IPv4 and
//! IPv6 with extension headers, fragments put together; UDP, and TCP streams put together. One pass, without a copy
//! for UDP; memory is bounded whatever the capture holds: 64 MiB each for fragments and for TCP, and once more while
//! streams end. Nothing is skipped without being counted ([`Skipped`]).

mod capture;
mod connections;
mod counts;
mod error;
mod event;
pub(crate) mod files;
mod fragments;
mod fuzz;
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
use std::io::Read;
use std::net::{IpAddr, SocketAddr};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use wire::header::LEN;
use wire::{question, rtype};

pub use connections::{Connection, End, Traffic};
pub use counts::Counts;
pub use error::Error;
pub use event::{Event, Frame, Message, Quote};
pub use fuzz::{fuzz_capture, fuzz_packets};
pub use input::{Local, Place};
pub use packet::ChecksumState;
pub(crate) use skipped::Skip;
pub use skipped::{REASONS, Skipped};

/// Which packets are taken for DNS.
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
    /// Opens captures of this machine, which are read as one in the order of their packets' times; `-` is standard input.
    ///
    /// # Errors
    /// A file that cannot be opened, or does not begin as a capture.
    pub fn open(paths: &[PathBuf], options: &Options) -> Result<Self, Error> {
        Self::open_at(Arc::new(Local), paths, options)
    }

    /// Opens captures that may be elsewhere.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn open_at(place: Arc<dyn Place>, paths: &[PathBuf], options: &Options) -> Result<Self, Error> {
        Ok(Self::of(Files::open_at(place, paths)?, options))
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

    /// The counts so far.
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

    /// The traffic of a connection on which a zone transfer was asked for or came. Ask for it at the end of the trace.
    pub fn traffic(&self, connection: u64) -> Option<Traffic> {
        self.connections.traffic.get(&connection).copied()
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

    /// The packets skipped so far. At the end of the trace it is complete.
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
        match self.find()? {
            Some(found) => Ok(Some(self.show(found))),
            None => Ok(None),
        }
    }

    /// Goes on to the next event, and counts it.
    pub(crate) fn find(&mut self) -> Result<Option<Found>, Error> {
        loop {
            if let Some(item) = self.connections.ready.take() {
                if let Item::Message(whole) = &item {
                    let bytes = self.connections.ready.octets(whole);
                    self.counts.add(bytes, bytes.len(), true);
                    let qtype = question::parse(bytes).map(|question| question.qtype);
                    if matches!(qtype, Some(rtype::AXFR | rtype::IXFR)) {
                        self.connections.follow(whole);
                    }
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
        // Octets that belong to no packet are counted by the first part alone.
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

    /// The event for an item that was found.
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
                let octets = ip.header as u64 * ip.pieces + ip.length as u64;
                self.connections.add(packet.at, (&tcp, ip.ttl, octets), data, is_server, counts, skipped);
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
