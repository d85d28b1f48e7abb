//! Writing captures: one query a packet, streamed.
//!
//! Classic pcap with nanoseconds, little-endian on every machine; Ethernet, IPv4 or IPv6, UDP. Both
//! addresses of a packet must be of one family. Addresses of Ethernet are locally administered ones.

use etherparse::{EtherType, Ethernet2Header, IpNumber, Ipv4Header, Ipv6FlowLabel, Ipv6Header, UdpHeader};
use measure::Nanos;
use measure::clock::SECOND;
use pcap_file::pcap::{PcapHeader, PcapPacket, PcapWriter};
use pcap_file::{DataLink, Endianness, PcapError, TsResolution};
use std::io::{self, Write};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;
use traffic::Query;
use wire::Checksum;

/// The server's IPv4 address in what we write: one for documentation (RFC 5737).
pub const SERVER_V4: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 53);
/// The server's IPv6 address in what we write: one for documentation (RFC 3849).
pub const SERVER_V6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0x53);

const CLIENT_MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];
const SERVER_MAC: [u8; 6] = [2, 0, 0, 0, 0, 2];
const HOPS: u8 = 64;

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
    /// A packet that cannot be: one address of each family, or a message beyond 65,507 octets.
    #[error("packet {packet}: {what}")]
    Packet {
        /// The packet, from 1.
        packet: u64,
        /// What is wrong with it.
        what: String,
    },
}

/// Between whom a query travels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// The client.
    pub from: SocketAddr,
    /// The server.
    pub to: SocketAddr,
    /// The DNS message's ID.
    pub id: u16,
}

/// A capture in the making.
pub struct Writer<W: Write> {
    out: PcapWriter<W>,
    frame: Vec<u8>,
    packets: u64,
    octets: u64,
}

impl<W: Write> Writer<W> {
    /// Begins a capture.
    ///
    /// # Errors
    /// The writer's.
    pub fn new(out: W) -> Result<Self, Error> {
        let header = PcapHeader {
            datalink: DataLink::ETHERNET,
            ts_resolution: TsResolution::NanoSecond,
            endianness: Endianness::Little,
            snaplen: 65_535,
            ..PcapHeader::default()
        };
        let out = PcapWriter::with_header(out, header).map_err(from_pcap)?;
        Ok(Self { out, frame: Vec::with_capacity(1024), packets: 0, octets: 24 })
    }

    /// Adds a query at a time, in nanoseconds since 1970. DF counts over IPv4 only; a checksum is absent
    /// over IPv4 only, since IPv6 demands one (RFC 8200, section 8.1): there it is right.
    ///
    /// # Errors
    /// The writer's; a time or a packet that cannot be.
    pub fn write(&mut self, at: Nanos, route: Route, query: &Query) -> Result<(), Error> {
        self.packets += 1;
        let seconds = at / SECOND;
        if seconds > u64::from(u32::MAX) {
            return Err(Error::Time { packet: self.packets, seconds });
        }
        self.build(route, query).map_err(|what| Error::Packet { packet: self.packets, what })?;
        let packet = PcapPacket::new(Duration::from_nanos(at), self.frame.len() as u32, &self.frame);
        self.out.write_packet(&packet).map_err(from_pcap)?;
        self.octets += 16 + self.frame.len() as u64;
        Ok(())
    }

    /// Builds the frame from Ethernet to the end of the message.
    fn build(&mut self, route: Route, query: &Query) -> Result<(), String> {
        let Route { from, to, id } = route;
        let message = &query.bytes[..];
        self.frame.clear();
        let ether_type = if from.is_ipv4() { EtherType::IPV4 } else { EtherType::IPV6 };
        let ethernet = Ethernet2Header { source: CLIENT_MAC, destination: SERVER_MAC, ether_type };
        self.frame.extend_from_slice(&ethernet.to_bytes());
        let length = UdpHeader::LEN + message.len();
        let Ok(payload) = u16::try_from(length) else {
            return Err(format!("a message of {} octets does not fit into a UDP packet", message.len()));
        };
        // The ID is set before the checksum is computed.
        let message_at = self.frame.len()
            + UdpHeader::LEN
            + if from.is_ipv4() { Ipv4Header::MIN_LEN } else { Ipv6Header::LEN };
        let udp =
            UdpHeader { source_port: from.port(), destination_port: to.port(), length: payload, checksum: 0 };
        let right = match (from, to) {
            (SocketAddr::V4(from), SocketAddr::V4(to)) => {
                let (source, destination) = (from.ip().octets(), to.ip().octets());
                let mut ip = Ipv4Header::new(payload, HOPS, IpNumber::UDP, source, destination)
                    .map_err(|e| e.to_string())?;
                ip.dont_fragment = query.df;
                ip.identification = self.packets as u16;
                ip.header_checksum = ip.calc_header_checksum();
                self.frame.extend_from_slice(&ip.to_bytes());
                self.push_datagram(&udp, message, id);
                udp.calc_checksum_ipv4_raw(source, destination, &self.frame[message_at..])
            }
            (SocketAddr::V6(from), SocketAddr::V6(to)) => {
                let (source, destination) = (from.ip().octets(), to.ip().octets());
                let ip = Ipv6Header {
                    traffic_class: 0,
                    flow_label: Ipv6FlowLabel::ZERO,
                    payload_length: payload,
                    next_header: IpNumber::UDP,
                    hop_limit: HOPS,
                    source,
                    destination,
                };
                self.frame.extend_from_slice(&ip.to_bytes());
                self.push_datagram(&udp, message, id);
                udp.calc_checksum_ipv6_raw(source, destination, &self.frame[message_at..])
            }
            _ => return Err(format!("{from} and {to} are not of one address family")),
        };
        let right = right.map_err(|e| e.to_string())?;
        let checksum = match query.checksum {
            Checksum::Absent if from.is_ipv4() => 0,
            // One bit makes it wrong; but the result must not say "absent".
            Checksum::Bad if right == 1 => 3,
            Checksum::Bad => right ^ 1,
            _ => right,
        };
        self.frame[message_at - 2..message_at].copy_from_slice(&checksum.to_be_bytes());
        Ok(())
    }

    fn push_datagram(&mut self, udp: &UdpHeader, message: &[u8], id: u16) {
        self.frame.extend_from_slice(&udp.to_bytes());
        let at = self.frame.len();
        self.frame.extend_from_slice(message);
        wire::header::set_id(&mut self.frame[at..], id);
    }

    /// How many packets there are.
    pub fn packets(&self) -> u64 {
        self.packets
    }

    /// How long the capture is, in octets.
    pub fn octets(&self) -> u64 {
        self.octets
    }
}

fn from_pcap(error: PcapError) -> Error {
    match error {
        PcapError::IoError(e) => Error::Io(e),
        other => Error::Io(io::Error::other(other.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
