//! Captures of queries and answers, as a server's own interface would see them.

use etherparse::PacketBuilder;
use measure::Seed;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path;
use wire::query::Edns;

/// From this second on, a query each 37 ms: two days have some.
const START: u64 = 1_238_543_960;

const SERVER: [IpAddr; 2] =
    [IpAddr::V4(Ipv4Addr::new(192, 0, 2, 53)), IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0x53))];

/// Packets with their times.
#[derive(Default)]
struct Packets(Vec<(u64, Vec<u8>)>);

impl Packets {
    /// A pcap of them in order of time: nanoseconds, raw IP.
    fn pcap(mut self) -> Vec<u8> {
        self.0.sort();
        let head = [0xa1b2_3c4d_u32, 0x0002_0004, 0, 0, 65_535, 101];
        let mut file: Vec<u8> = head.iter().flat_map(|n| n.to_be_bytes()).collect();
        for (at, packet) in self.0 {
            let length = packet.len() as u32;
            let head = [(at / 1_000_000_000) as u32, (at % 1_000_000_000) as u32, length, length];
            file.extend(head.iter().flat_map(|n| n.to_be_bytes()));
            file.extend(packet);
        }
        file
    }

    fn udp(&mut self, at: u64, from: (IpAddr, u16), to: (IpAddr, u16), payload: &[u8]) {
        let mut packet = Vec::new();
        let builder = match (from.0, to.0) {
            (IpAddr::V4(a), IpAddr::V4(b)) => PacketBuilder::ipv4(a.octets(), b.octets(), 57),
            (IpAddr::V6(a), IpAddr::V6(b)) => PacketBuilder::ipv6(a.octets(), b.octets(), 57),
            _ => unreachable!("one family"),
        };
        builder.udp(from.1, to.1).write(&mut packet, payload).expect("memory takes it");
        self.0.push((at, packet));
    }

    /// A segment of `client`'s connection: up, or down.
    fn segment(&mut self, at: u64, client: (Ipv4Addr, u16), up: bool, seq: u32, syn: bool, payload: &[u8]) {
        let IpAddr::V4(server) = SERVER[0] else { unreachable!("it is of IPv4") };
        let (from, to) = if up { (client, (server, 53)) } else { ((server, 53), client) };
        let builder = PacketBuilder::ipv4(from.0.octets(), to.0.octets(), 57).tcp(from.1, to.1, seq, 65_000);
        let builder = if syn { builder.syn() } else { builder };
        let builder = if up && syn { builder } else { builder.ack(1) };
        let mut packet = Vec::new();
        builder.write(&mut packet, payload).expect("memory takes it");
        self.0.push((at, packet));
    }
}

/// The answer to a query: its response code, whether it is truncated, and octets behind the question.
fn answer(query: &[u8], rcode: u8, tc: bool, more: usize) -> Vec<u8> {
    let mut bytes = query.to_vec();
    wire::header::set_qr(&mut bytes);
    bytes[2] |= 4 | if tc { 2 } else { 0 };
    bytes[3] |= rcode;
    if bytes[11] == 0 && more > 0 {
        // A record of TXT, as long as is wanted.
        bytes[7] = 1;
        bytes.extend([0, 0, 16, 0, 1, 0, 0, 0, 0]);
        bytes.extend((more as u16).to_be_bytes());
        bytes.extend(std::iter::repeat_n(0, more));
    }
    bytes
}

/// Writes a capture of `count` queries, with all that the shipped queries tell apart.
pub fn write(path: &Path, count: u32, seed: u64) {
    let mut draw = Seed(seed).draw("capture", 0);
    let mut packets = Packets::default();
    let names: [&[u8]; 6] = [
        b"\x03www\x07example\x03com\0",
        b"\x03COM\0",
        b"\0",
        b"\x04some\x04host\x05local\0",
        b"\x07example\x02se\0",
        b"\x03a,b\x04\"q\".\x03org\0",
    ];
    for n in 0..count {
        let at = START * 1_000_000_000 + u64::from(n) * 37_000_000 + draw.below(1_000_000);
        let v6 = draw.below(4) == 0;
        let host = draw.below(40) as u8;
        let client: IpAddr = match v6 {
            true => Ipv6Addr::new(0x2001, 0xdb8, 1, u16::from(host) / 8, 0, 0, 0, host.into()).into(),
            false => Ipv4Addr::new(198, 51, 100 + host / 20, host).into(),
        };
        let from = (client, 1024 + draw.below(60_000) as u16);
        let server = (SERVER[usize::from(v6)], 53);
        let name = names[draw.below(names.len() as u64) as usize];
        let qtype = [1, 28, 2, 15, 43, 65_280][draw.below(6) as usize];
        let edns = match draw.below(4) {
            0 => None,
            1 => Some(Edns { udp_size: 512, do_bit: true }),
            2 => Some(Edns { udp_size: 4096, do_bit: false }),
            _ => Some(Edns { udp_size: 1232, do_bit: true }),
        };
        let mut query = Vec::new();
        wire::query::write(&mut query, n as u16, name, qtype, edns);
        if draw.below(50) == 0 {
            // Of another class, or without a question at all.
            match draw.below(2) {
                0 => query[12 + name.len() + 3] = 3,
                _ => (query.truncate(12), query[4..12].fill(0)).1,
            }
        }
        packets.udp(at, from, server, &query);
        let latency = 20_000 + draw.below(3_000_000);
        let tc = draw.below(12) == 0;
        match draw.below(20) {
            0 => continue,
            fate => {
                let rcode = if fate < 6 { 3 } else { u8::from(fate == 7) * 5 };
                let more = if tc { 0 } else { draw.below(1500) as usize };
                packets.udp(at + latency, server, from, &answer(&query, rcode, tc, more));
            }
        }
        if draw.below(60) == 0 {
            packets.udp(at + latency + 1, server, from, &answer(&query, 0, false, 0));
        }
        let IpAddr::V4(client) = client else { continue };
        if tc && draw.below(3) > 0 {
            // Again over TCP, sometimes too late to count.
            let late = if draw.below(5) == 0 { 11_000_000_000 } else { 0 };
            let at = at + latency + 10_000 + late;
            let client = (client, 1024 + (n % 60_000) as u16);
            let framed = |message: &[u8]| [&(message.len() as u16).to_be_bytes()[..], message].concat();
            packets.segment(at, client, true, 100, true, &[]);
            packets.segment(at + 1_000, client, false, 700, true, &[]);
            packets.segment(at + 40_000, client, true, 101, false, &framed(&query));
            packets.segment(at + 90_000, client, false, 701, false, &framed(&answer(&query, 0, false, 900)));
        }
    }
    std::fs::write(path, packets.pcap()).expect("a folder that can be written");
}
