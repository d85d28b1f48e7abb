//! The XDP programs: which packets an AF_XDP socket gets.

use crate::bpf::{Assembler, Helper, If, Label, Map, Op, Program, Reg::*, Width, Xdp};
use std::io;
use std::net::{IpAddr, SocketAddr};

/// Octets of the map that has a bit for each port.
const PORT_MAP: usize = 65536 / 8;

// Offsets of `struct xdp_md`.
const DATA: i16 = 0;
const DATA_END: i16 = 4;
const DATA_META: i16 = 8;
const QUEUE: i16 = 16;

/// How the program finds words of the network in the machine's order.
fn network(word: u16) -> i32 {
    i32::from(u16::from_ne_bytes(word.to_be_bytes()))
}

/// Sends packets for our ports to our socket.
#[derive(Debug)]
pub(super) struct Redirect {
    sockets: Map,
    _ports: Map,
    pub program: Program,
}

impl Redirect {
    /// A program that takes whole UDP datagrams (IPv4 without options, IPv6 without extension headers) to one of
    /// `ports`, stamps them with the monotonic time, and gives them to the socket of their queue. All else goes its
    /// way.
    pub fn new(ports: impl Iterator<Item = u16>) -> io::Result<Self> {
        let mut bits = vec![0u8; PORT_MAP];
        ports.for_each(|port| bits[usize::from(port / 8)] |= 1 << (port % 8));
        let map = Map::value(PORT_MAP as u32)?;
        map.set(0, &bits)?;
        let sockets = Map::xsk(crate::sys::MOST_WAITED as u32)?;
        let program = Program::load(&redirect(&sockets, &map))?;
        Ok(Self { sockets, _ports: map, program })
    }

    /// The socket that gets what arrives at a queue.
    pub fn set_socket(&self, queue: u32, socket: std::os::fd::BorrowedFd<'_>) -> io::Result<()> {
        self.sockets.set_socket(queue, socket)
    }
}

/// Jumps to `no` where the packet (from `R2`, to `R3`) has fewer than `len` octets.
fn has(a: &mut Assembler, len: i32, no: Label) {
    a.op(Op::Mov, R4, R2);
    a.op_imm(Op::Add, R4, len);
    a.jump(If::Gt, R4, R3, no);
}

/// Finds a UDP header: `v4` and `v6` are jumped to with all octets up to its end checked (packet from `R2`), `no` for
/// all else.
fn find_udp(a: &mut Assembler, v4: Label, v6: Label, no: Label) {
    let six = a.label();
    has(a, 14 + 20 + 8, no);
    a.load(Width::U16, R5, R2, 12);
    a.jump_imm(If::Eq, R5, network(0x86dd), six);
    a.jump_imm(If::Ne, R5, network(0x0800), no);
    a.load(Width::U8, R5, R2, 14);
    a.jump_imm(If::Ne, R5, 0x45, no);
    a.load(Width::U8, R5, R2, 14 + 9);
    a.jump_imm(If::Ne, R5, 17, no);
    a.load(Width::U16, R5, R2, 14 + 6);
    a.op_imm(Op::And, R5, network(0x3fff));
    a.jump_imm(If::Ne, R5, 0, no);
    a.goto(v4);
    a.place(six);
    has(a, 14 + 40 + 8, no);
    a.load(Width::U8, R5, R2, 14 + 6);
    a.jump_imm(If::Ne, R5, 17, no);
    a.goto(v6);
}

fn redirect(sockets: &Map, ports: &Map) -> Vec<u64> {
    let mut a = Assembler::default();
    let (v4, v6, port, go, pass) = (a.label(), a.label(), a.label(), a.label(), a.label());
    a.op(Op::Mov, R6, R1);
    a.load(Width::U32, R2, R6, DATA);
    a.load(Width::U32, R3, R6, DATA_END);
    find_udp(&mut a, v4, v6, pass);
    a.place(v4);
    a.load(Width::U16, R5, R2, 14 + 20 + 2);
    a.goto(port);
    a.place(v6);
    a.load(Width::U16, R5, R2, 14 + 40 + 2);
    a.place(port);
    a.swap_network_u16(R5);
    a.op(Op::Mov, R4, R5);
    a.op_imm(Op::Rsh, R4, 3);
    a.map_value(R0, ports);
    a.op(Op::Add, R0, R4);
    a.load(Width::U8, R0, R0, 0);
    a.op_imm(Op::And, R5, 7);
    a.op(Op::Rsh, R0, R5);
    a.op_imm(Op::And, R0, 1);
    a.jump_imm(If::Eq, R0, 0, pass);
    // The stamp goes before the packet, where there is room; the socket's memory gets it with the packet.
    a.op(Op::Mov, R1, R6);
    a.op_imm(Op::Mov, R2, -8);
    a.call(Helper::XdpAdjustMeta);
    a.jump_imm(If::Ne, R0, 0, go);
    a.call(Helper::KtimeGetNs);
    a.load(Width::U32, R2, R6, DATA_META);
    a.load(Width::U32, R3, R6, DATA);
    has(&mut a, 8, go);
    a.store(Width::U64, R2, 0, R0);
    a.place(go);
    a.load(Width::U32, R2, R6, QUEUE);
    a.map(R1, sockets);
    a.op_imm(Op::Mov, R3, Xdp::Pass as i32);
    a.call(Helper::RedirectMap);
    a.exit_r0();
    a.place(pass);
    a.exit(Xdp::Pass);
    a.finish()
}

// What the echo counts, by the offset in its map's value.
const RECEIVED: i16 = 0;
const ANSWERED: i16 = 8;

/// Answers queries with themselves.
#[derive(Debug)]
pub(super) struct Answer {
    counts: Map,
    pub program: Program,
}

impl Answer {
    /// A program that sends back every DNS query to `addr` (an answer left alone, so that two echoes cannot feed each
    /// other for ever), with QR set and the checksum made to match. All else goes its way.
    pub fn new(addr: SocketAddr) -> io::Result<Self> {
        let counts = Map::value(16)?;
        let program = Program::load(&answer(&counts, addr))?;
        Ok(Self { counts, program })
    }

    /// How many datagrams came to the address, and how many were sent back.
    pub fn counts(&self) -> io::Result<(u64, u64)> {
        self.counts.get::<2>(0).map(|[received, answered]| (received, answered))
    }
}

/// Exchanges the words at two places of the packet.
fn swap(a: &mut Assembler, width: Width, one: i16, other: i16) {
    a.load(width, R4, R2, one);
    a.load(width, R5, R2, other);
    a.store(width, R2, one, R5);
    a.store(width, R2, other, R4);
}

fn answer(counts: &Map, addr: SocketAddr) -> Vec<u64> {
    let mut a = Assembler::default();
    let (v4, v6, pass) = (a.label(), a.label(), a.label());
    a.op(Op::Mov, R6, R1);
    a.op_imm(Op::Mov, R8, 1);
    a.map_value(R9, counts);
    a.load(Width::U32, R2, R6, DATA);
    a.load(Width::U32, R3, R6, DATA_END);
    find_udp(&mut a, v4, v6, pass);
    for (label, v6) in [(v4, false), (v6, true)] {
        a.place(label);
        if addr.is_ipv6() != v6 {
            a.goto(pass);
            continue;
        }
        let (octets, source) = match addr.ip() {
            IpAddr::V4(ip) => (ip.octets().to_vec(), 14 + 12),
            IpAddr::V6(ip) => (ip.octets().to_vec(), 14 + 8),
        };
        let (target, udp) = (source + octets.len() as i16, source + 2 * octets.len() as i16);
        for (i, word) in octets.as_chunks::<4>().0.iter().enumerate() {
            a.load(Width::U32, R5, R2, target + 4 * i as i16);
            a.jump_imm32(If::Ne, R5, i32::from_ne_bytes(*word), pass);
        }
        a.load(Width::U16, R5, R2, udp + 2);
        a.jump_imm(If::Ne, R5, network(addr.port()), pass);
        a.add_atomic(R9, RECEIVED, R8);
        // Shorter than a DNS header, or an answer: nothing for us.
        a.load(Width::U16, R5, R2, udp + 4);
        a.swap_network_u16(R5);
        a.jump_imm(If::Lt, R5, 8 + 12, pass);
        has(&mut a, i32::from(udp) + 8 + 12, pass);
        a.load(Width::U8, R5, R2, udp + 8 + 2);
        a.op(Op::Mov, R4, R5);
        a.op_imm(Op::And, R4, 0x80);
        a.jump_imm(If::Ne, R4, 0, pass);
        a.op_imm(Op::Or, R5, 0x80);
        a.store(Width::U8, R2, udp + 8 + 2, R5);
        // RFC 1624: the word with QR has grown by 0x8000; exchanges do not change the sum.
        let whole = a.label();
        a.load(Width::U16, R5, R2, udp + 6);
        a.jump_imm(If::Eq, R5, 0, whole);
        a.op_imm(Op::Xor, R5, 0xffff);
        a.op_imm(Op::Add, R5, network(0x8000));
        a.op(Op::Mov, R4, R5);
        a.op_imm(Op::Rsh, R4, 16);
        a.op(Op::Add, R5, R4);
        a.op_imm(Op::Xor, R5, 0xffff);
        a.op_imm(Op::And, R5, 0xffff);
        let written = a.label();
        a.jump_imm(If::Ne, R5, 0, written);
        a.op_imm(Op::Mov, R5, 0xffff);
        a.place(written);
        a.store(Width::U16, R2, udp + 6, R5);
        a.place(whole);
        swap(&mut a, Width::U32, 0, 6);
        swap(&mut a, Width::U16, 4, 10);
        (0..octets.len() as i16 / 4).for_each(|i| swap(&mut a, Width::U32, source + 4 * i, target + 4 * i));
        swap(&mut a, Width::U16, udp, udp + 2);
        a.add_atomic(R9, ANSWERED, R8);
        a.exit(Xdp::Tx);
    }
    a.place(pass);
    a.exit(Xdp::Pass);
    a.finish()
}
