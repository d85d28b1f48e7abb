//! Captures in memory, packet by packet.

use etherparse::PacketBuilder;
use std::io::Cursor;
use std::net::SocketAddr;
use std::path::Path;
use trace::{Counts, Options, Reader, Skipped};

pub const RAW_IP: u32 = 101;

/// A message as it was read, in memory of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owned {
    pub at: u64,
    pub from: SocketAddr,
    pub to: SocketAddr,
    pub tcp: Option<u64>,
    pub bytes: Vec<u8>,
    pub len: usize,
}

pub type Read = (Vec<Owned>, Counts, Skipped);

/// All that a reader gives.
pub fn drain(mut reader: Reader) -> Result<Read, trace::read::Error> {
    let mut all = Vec::new();
    while let Some(m) = reader.next()? {
        all.push(Owned { at: m.at, from: m.from, to: m.to, tcp: m.tcp, bytes: m.bytes.to_vec(), len: m.len });
    }
    Ok((all, *reader.counts(), reader.skipped().clone()))
}

/// Reads a capture in memory.
pub fn read(capture: &[u8]) -> Result<Read, trace::read::Error> {
    let cursor = Cursor::new(capture.to_vec());
    drain(Reader::from_read(Path::new("memory"), cursor, &Options::default())?)
}

/// A pcap of packets, the first at second 1, one each millisecond; nanoseconds, big-endian.
pub fn pcap(link: u32, packets: &[Vec<u8>]) -> Vec<u8> {
    let mut file = [&0xa1b2_3c4du32.to_be_bytes()[..], &[0, 2, 0, 4], &[0; 12], &link.to_be_bytes()].concat();
    for (n, packet) in packets.iter().enumerate() {
        let (n, length) = (n as u32, packet.len() as u32);
        let header = [1 + n / 1000, n % 1000 * 1_000_000, length, length];
        file.extend(header.iter().flat_map(|field| field.to_be_bytes()));
        file.extend_from_slice(packet);
    }
    file
}

/// A query or a response for `name`.com, with this ID.
pub fn message(id: u16, response: bool, name: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let qname = [&[name.len() as u8], name.as_bytes(), b"\x03com\0"].concat();
    wire::query::write(&mut bytes, id, &qname, 1, None);
    if response {
        wire::header::set_qr(&mut bytes);
    }
    bytes
}

/// A message with its length before it.
pub fn framed(message: &[u8]) -> Vec<u8> {
    [&(message.len() as u16).to_be_bytes()[..], message].concat()
}

pub const CLIENT: ([u8; 4], u16) = ([192, 0, 2, 1], 40_000);
pub const SERVER: ([u8; 4], u16) = ([192, 0, 2, 53], 53);

pub fn udp(payload: &[u8]) -> Vec<u8> {
    let builder = PacketBuilder::ipv4(CLIENT.0, SERVER.0, 64).udp(CLIENT.1, SERVER.1);
    let mut packet = Vec::new();
    builder.write(&mut packet, payload).unwrap();
    packet
}

pub fn udp6(payload: &[u8]) -> Vec<u8> {
    let address = |last: u8| {
        let mut address = [0; 16];
        (address[0], address[1], address[15]) = (0x20, 1, last);
        address
    };
    let builder = PacketBuilder::ipv6(address(1), address(0x53), 64).udp(CLIENT.1, SERVER.1);
    let mut packet = Vec::new();
    builder.write(&mut packet, payload).unwrap();
    packet
}

/// Flags of a segment: S, F, R; A with the number acknowledged.
pub fn tcp(up: bool, seq: u32, flags: &str, ack: u32, data: &[u8]) -> Vec<u8> {
    let (from, to) = if up { (CLIENT, SERVER) } else { (SERVER, CLIENT) };
    let mut builder = PacketBuilder::ipv4(from.0, to.0, 64).tcp(from.1, to.1, seq, 65_000);
    for flag in flags.chars() {
        builder = match flag {
            'S' => builder.syn(),
            'F' => builder.fin(),
            'R' => builder.rst(),
            _ => builder.ack(ack),
        };
    }
    let mut packet = Vec::new();
    builder.write(&mut packet, data).unwrap();
    packet
}
