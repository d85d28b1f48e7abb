//! Reading captures: files in, DNS messages out.
//!
//! pcap and pcapng, plain or compressed; Ethernet with VLAN tags, raw IP, Linux cooked capture, BSD loopback; IPv4 and
//! IPv6 with extension headers, fragments put together; UDP, and TCP streams put together. One pass, without a copy
//! for UDP; memory is bounded whatever the capture holds: 64 MiB each for fragments and for TCP, and once more while
//! streams end. Nothing is skipped without being counted ([`Skipped`]).

mod capture;
mod connections;
mod files;
mod fragments;
mod input;
mod packet;
mod skipped;
mod stream;

use capture::Capture;
use connections::{Connections, Whole};
use files::Files;
use fragments::Fragments;
use input::Input;
use measure::Nanos;
use serde::Serialize;
use std::io::{self, Cursor, Read};
use std::net::SocketAddr;
use std::ops::Range;
use std::path::{Path, PathBuf};
use wire::header::{Header, LEN};

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
}

impl Default for Options {
    /// Port 53.
    fn default() -> Self {
        Self { ports: vec![53] }
    }
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
    /// The IPv4 header's "don't fragment" bit; false over TCP.
    pub df: bool,
    /// False where a UDP checksum is absent (zero).
    pub checksum: bool,
    /// The message from its header on, at least 12 octets; not all of it where [`Self::len`] is more.
    pub bytes: &'a [u8],
    /// Its length in octets: more than there are in `bytes` where the capture cut the packet short.
    pub len: usize,
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
    /// Packets that pcapng keeps without a time: they have the time of the packet before them.
    pub untimed: u64,
}

/// Reads captures as one trace.
pub struct Reader {
    files: Files,
    ports: Vec<u16>,
    fragments: Fragments,
    connections: Connections,
    counts: Counts,
    skipped: Skipped,
    /// When the last packet was captured.
    at: Nanos,
    over: bool,
}

/// Where the next message is.
enum Found {
    /// In the packet in sight.
    Packet(Datagram),
    /// In the packet that was put together last.
    Reassembled(Datagram),
    /// Among what TCP streams gave.
    Stream(Whole),
}

/// A DNS message in a datagram.
struct Datagram {
    from: SocketAddr,
    to: SocketAddr,
    df: bool,
    checksum: bool,
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
            ports: options.ports.clone(),
            fragments: Fragments::default(),
            connections: Connections::default(),
            counts: Counts::default(),
            skipped: Skipped::default(),
            at: 0,
            over: false,
        }
    }

    /// What there was so far.
    pub fn counts(&self) -> &Counts {
        &self.counts
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
        let found = loop {
            if let Some(whole) = self.connections.ready.take() {
                break Found::Stream(whole);
            }
            if self.over {
                return Ok(None);
            }
            if !self.files.advance(&mut self.counts, &mut self.skipped)? {
                self.over = true;
                self.fragments.finish(&mut self.skipped);
                self.connections.finish(&mut self.skipped);
                self.counts.connections_with_dns = self.connections.with_dns;
                continue;
            }
            self.counts.packets += 1;
            match self.look() {
                Ok(Some(found)) => break found,
                Ok(None) => {}
                Err(reason) => self.skipped.add(reason),
            }
        };
        let (datagram, bytes) = match found {
            Found::Packet(datagram) => (datagram, self.files.current().packet().bytes),
            Found::Reassembled(datagram) => (datagram, self.fragments.whole()),
            Found::Stream(whole) => {
                let bytes = self.connections.ready.octets(&whole);
                let message = Message {
                    at: self.at,
                    from: whole.from,
                    to: whole.to,
                    tcp: Some(whole.connection),
                    df: false,
                    checksum: true,
                    bytes,
                    len: bytes.len(),
                };
                self.counts.add(&message);
                return Ok(Some(message));
            }
        };
        let message = Message {
            at: self.at,
            from: datagram.from,
            to: datagram.to,
            tcp: None,
            df: datagram.df,
            checksum: datagram.checksum,
            bytes: &bytes[datagram.at],
            len: datagram.length,
        };
        self.counts.add(&message);
        Ok(Some(message))
    }

    /// Looks into the packet in sight; what it adds to a stream becomes ready there.
    fn look(&mut self) -> Result<Option<Found>, Skip> {
        let packet = self.files.current().packet();
        self.at = packet.at;
        let mut bytes = packet.bytes;
        let mut ip = packet::ip(bytes, packet::ip_at(packet.link, bytes)?)?;
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
        let ports = &self.ports;
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
                let data = &bytes[tcp.data.clone()];
                self.connections.add(packet.at, &tcp, data, is_server, &mut self.counts, &mut self.skipped);
                self.counts.connections_with_dns = self.connections.with_dns;
                Ok(self.connections.ready.take().map(Found::Stream))
            }
            1 | 58 => Err(Skip::Icmp),
            _ => Err(Skip::Protocol),
        }
    }
}

impl Counts {
    fn add(&mut self, message: &Message<'_>) {
        *(if message.header().qr() { &mut self.responses } else { &mut self.queries }) += 1;
        self.over_tcp += u64::from(message.tcp.is_some());
        self.cut_short += u64::from(!message.is_whole());
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
    while let Ok(Some(message)) = reader.next() {
        assert!(message.bytes.len() >= LEN && message.bytes.len() <= message.len);
        messages += 1;
    }
    let counts = reader.counts();
    assert_eq!(counts.queries + counts.responses, messages);
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
