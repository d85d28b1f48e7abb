//! Writing captures, streamed: [`Layout`] puts packets into a file, [`Writer`] makes a packet of a query.
//!
//! The packets are Ethernet, IPv4 or IPv6, UDP or TCP. Both addresses of a packet must be of one family. Addresses of Ethernet
//! are locally administered ones.

pub(crate) mod build;
mod file;
pub(crate) mod tcp;

use crate::read::Frame;
use build::IpFields;
pub use file::{ETHERNET, Format, Layout};
use measure::Nanos;
use std::io::{self, Write};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use traffic::Query;
use wire::Checksum;

/// The server's IPv4 address in what we write: one for documentation (RFC 5737).
pub const SERVER_V4: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 53);
/// The server's IPv6 address in what we write: one for documentation (RFC 3849).
pub const SERVER_V6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0x53);

/// The client's MAC address in what we write: a locally administered one.
pub const CLIENT_MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];
/// The server's.
pub const SERVER_MAC: [u8; 6] = [2, 0, 0, 0, 0, 2];

/// Why a packet could not be written.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file behind the capture.
    #[error("cannot write the capture: {0}")]
    Io(#[from] io::Error),
    /// A time that pcap's 32 bits of seconds cannot hold.
    #[error(
        "packet {packet} is due {seconds} s after 1970, beyond what pcap can say (2106): choose an earlier start or a shorter duration"
    )]
    Time {
        /// The packet, from 1.
        packet: u64,
        /// Seconds since 1970.
        seconds: u64,
    },
    /// A packet of another link type than those before it, in a pcap.
    #[error(
        "packet {packet} is of link type {link}, those before it of {first}, and a pcap has one: write pcapng (--format \
         pcapng), or give all packets Ethernet headers (--set-mac)"
    )]
    Links {
        /// The packet, from 1.
        packet: u64,
        /// The link type of the first packet, as tcpdump.org numbers it.
        first: u16,
        /// This one's.
        link: u16,
    },
    /// A packet that cannot be: one address of each family, or a message beyond 65,507 octets.
    #[error("packet {packet}: {what}")]
    Packet {
        /// The packet, from 1.
        packet: u64,
        /// The fault in it.
        what: String,
    },
}

/// The sender and the receiver of a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// The client.
    pub from: SocketAddr,
    /// The server.
    pub to: SocketAddr,
    /// The DNS message's ID.
    pub id: u16,
}

/// A capture of queries in the making.
pub struct Writer<W: Write> {
    out: W,
    layout: Layout,
    frame: Vec<u8>,
}

impl<W: Write> Writer<W> {
    /// Begins a capture.
    ///
    /// # Errors
    /// The writer's.
    pub fn new(mut out: W) -> Result<Self, Error> {
        // No packet is longer than IP's longest.
        let mut layout = Layout::new(Format::Pcap).with_snap(65_535);
        layout.finish(&mut out)?;
        Ok(Self { out, layout, frame: Vec::with_capacity(1024) })
    }

    /// Adds a query at a time: a packet, or a TCP connection of its own with both ends' segments, all at that time, in nanoseconds since 1970. DF counts over IPv4 only; a checksum is absent
    /// over IPv4 only, since IPv6 demands one (RFC 8200, section 8.1): there it is right.
    ///
    /// # Errors
    /// The writer's; a time or a packet that cannot be.
    pub fn write(&mut self, at: Nanos, route: Route, query: &Query) -> Result<(), Error> {
        if query.tcp {
            return self.connection(at, route, query);
        }
        let packet = self.packets() + 1;
        self.build(route, query, packet).map_err(|what| Error::Packet { packet, what })?;
        self.add(at)
    }

    fn add(&mut self, at: Nanos) -> Result<(), Error> {
        let frame = Frame { link: ETHERNET, bytes: &self.frame, len: self.frame.len() };
        self.layout.add(at, frame, &mut self.out)
    }

    /// A connection with one query.
    fn connection(&mut self, at: Nanos, route: Route, query: &Query) -> Result<(), Error> {
        let mut data = tcp::framed(&query.bytes);
        wire::header::set_id(&mut data[2..], route.id);
        let mut numbers = tcp::Numbers::new(self.packets());
        for part in tcp::HANDSHAKE.into_iter().chain(tcp::parts(false, &data)).chain(tcp::GOODBYE) {
            let packet = self.packets() + 1;
            let (from, to) = if part.0 { (route.to, route.from) } else { (route.from, route.to) };
            self.ethernet(part.0, from);
            let fields = IpFields { id: packet as u16, df: true, ttl: build::HOPS };
            build::tcp(&mut self.frame, numbers.segment(part, (from, to)), fields)
                .map_err(|what| Error::Packet { packet, what })?;
            self.add(at)?;
        }
        Ok(())
    }

    /// Begins a frame; `back`: from the server.
    fn ethernet(&mut self, back: bool, from: SocketAddr) {
        let (to_mac, from_mac) = if back { (CLIENT_MAC, SERVER_MAC) } else { (SERVER_MAC, CLIENT_MAC) };
        self.frame.clear();
        self.frame.extend_from_slice(&to_mac);
        self.frame.extend_from_slice(&from_mac);
        self.frame.extend_from_slice(&build::ether_type(from.ip()));
    }

    /// Builds the frame from Ethernet to the end of the message.
    fn build(&mut self, route: Route, query: &Query, packet: u64) -> Result<(), String> {
        let Route { from, to, id } = route;
        self.ethernet(false, from);
        let frame = &mut self.frame;
        let fields = IpFields { id: packet as u16, df: query.df, ttl: build::HOPS };
        let message = build::udp(frame, (from, to), fields, &query.bytes)?;
        // The ID is set before the checksum is computed.
        wire::header::set_id(&mut frame[message..], id);
        let right = build::udp_checksum(frame, (from.ip(), to.ip()), message);
        let checksum = match query.checksum {
            Checksum::Absent if from.is_ipv4() => 0,
            // One bit makes it wrong; but the result must not say "absent".
            Checksum::Bad if right == 1 => 3,
            Checksum::Bad => right ^ 1,
            _ => right,
        };
        frame[message - 2..message].copy_from_slice(&checksum.to_be_bytes());
        Ok(())
    }

    /// How many packets there are.
    pub fn packets(&self) -> u64 {
        self.layout.packets()
    }

    /// How long the capture is, in octets.
    pub fn octets(&self) -> u64 {
        self.layout.octets()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use measure::clock::SECOND;

    fn query() -> Query {
        let mut query = Query::default();
        wire::query::write(&mut query.bytes, 0, b"\x03com\0", 1, None);
        query
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let v4: SocketAddr = "10.0.0.1:1024".parse().unwrap();
        let (to4, to6) = ((SERVER_V4, 53).into(), (SERVER_V6, 53).into());
        let mut writer = Writer::new(Vec::new()).unwrap();
        let late = writer.write((1 << 32) * SECOND, Route { from: v4, to: to4, id: 1 }, &query());
        assert!(matches!(late, Err(Error::Time { packet: 1, seconds: 4_294_967_296 })));
        let mixed = writer.write(0, Route { from: v4, to: to6, id: 1 }, &query());
        assert!(mixed.unwrap_err().to_string().contains("not of one address family"));
        let long = Query { bytes: vec![0; 70_000], ..query() };
        let long = writer.write(0, Route { from: v4, to: to4, id: 1 }, &long);
        assert!(long.unwrap_err().to_string().contains("70000 octets"));
    }

    #[test]
    fn octets_are_counted() {
        let mut out = Vec::new();
        let mut writer = Writer::new(&mut out).unwrap();
        let route = Route { from: "10.0.0.1:1024".parse().unwrap(), to: (SERVER_V4, 53).into(), id: 1 };
        writer.write(1_500_000_001, route, &query()).unwrap();
        assert_eq!(writer.packets(), 1);
        let octets = writer.octets();
        drop(writer);
        assert_eq!(octets, out.len() as u64);
        assert_eq!(out[..4], 0xa1b2_3c4du32.to_le_bytes(), "nanoseconds, little-endian");
        assert_eq!(
            (&out[24..28], &out[28..32]),
            (&1u32.to_le_bytes()[..], &500_000_001u32.to_le_bytes()[..])
        );
    }
}
