//! AF_XDP over a veth pair. Root only.

use crate::pair::{Pair, ip_here};
use net::transport::{Incoming, Stamp, Transport, Troubles};
use net::udp::{Flow, Responder};
use net::xdp::{Echo, Mode, Options, XdpError, XdpFlows};
use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};
use wire::Checksum;

fn addr(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

fn options(mode: Mode) -> Options {
    Options { mode, frames: 1024, ..Options::default() }
}

fn collect(flows: &mut XdpFlows, want: usize) -> Vec<(u32, SocketAddr, Vec<u8>, Stamp)> {
    let mut got = Vec::new();
    let begun = Instant::now();
    while got.len() < want && begun.elapsed() < Duration::from_secs(5) {
        flows
            .receive(64, &mut |m: &Incoming<'_>| got.push((m.flow, m.from, m.bytes.to_vec(), m.stamp)))
            .unwrap();
        flows.wait(10_000_000).unwrap();
    }
    got
}

fn there_and_back(queues: u32, mode: Mode, target: &str, backend: &str) {
    let Some(pair) = Pair::with_queues(queues) else { return };
    let target = addr(target);
    let mut responder = pair.there(|| Responder::open(target, 1 << 20).unwrap());
    let flows: Vec<Flow> = (0..300).map(|_| Flow::to(target)).collect();
    let mut flows = pair.here(|| XdpFlows::open(&flows, &options(mode)).unwrap());
    assert_eq!(flows.backend(), backend);
    let batch = flows.batch().size();
    let before = net_monotonic();
    let mut received = 0;
    for flow in 0..300u32 {
        let frame = flows.lend(flow).unwrap();
        frame.bytes.extend_from_slice(&flow.to_be_bytes());
        frame.bytes.resize(4 + flow as usize * 4, 7);
        if (flow as usize + 1).is_multiple_of(batch) || flow == 299 {
            let mut sent = 0;
            flows.flush(&mut |_, at| sent += usize::from(at.is_some_and(|at| at >= before))).unwrap();
            assert!(sent > 0 && flows.troubles() == Troubles::default(), "{sent} {:?}", flows.troubles());
            while responder.turn(&mut |m| Some(m.len())).unwrap().0 > 0 {}
        }
        received += 1;
    }
    while responder.turn(&mut |m| Some(m.len())).unwrap().0 > 0 {}
    let mut got = collect(&mut flows, received);
    assert_eq!(got.len(), 300, "{:?}", flows.troubles());
    got.sort();
    let now = net_monotonic();
    for (i, (flow, from, bytes, stamp)) in got.iter().enumerate() {
        assert_eq!((*flow, *from, bytes.len()), (i as u32, target, 4 + i * 4));
        assert_eq!(bytes[..4], flow.to_be_bytes());
        let Stamp::Monotonic(at) = *stamp else { panic!("{stamp:?}") };
        assert!((before..now).contains(&at), "stamped {at}, sent from {before} on, now {now}");
    }
    assert_eq!(flows.unstamped(), 0, "this kernel copies what the program writes before a packet");
    assert_eq!(flows.troubles(), Troubles::default());
}

fn net_monotonic() -> u64 {
    let text = std::fs::read_to_string("/proc/uptime").unwrap();
    // Boot time in hundredths of a second: as CLOCK_MONOTONIC on a machine that never slept.
    (text.split_whitespace().next().unwrap().parse::<f64>().unwrap() * 1e9) as u64
}

#[test]
fn there_and_back_native() {
    there_and_back(1, Mode::Auto, "10.0.0.2:53", "xdp-native");
}

#[test]
fn there_and_back_generic_over_ipv6() {
    there_and_back(1, Mode::Generic, "[fd00::2]:5353", "xdp-generic");
}

#[test]
fn there_and_back_native_over_ipv6() {
    there_and_back(1, Mode::Native, "[fd00::2]:53", "xdp-native");
}

/// A queue's answers come to the socket of this queue only, and the far kernel spreads flows over queues.
#[test]
fn there_and_back_over_four_queues() {
    there_and_back(4, Mode::Auto, "10.0.0.2:53", "xdp-native");
    let Some(pair) = Pair::with_queues(65) else { return };
    let many = pair.here(|| XdpFlows::open(&[Flow::to(addr("10.0.0.2:53"))], &options(Mode::Auto))).err();
    assert!(matches!(many, Some(XdpError::Queues { queues: 65, most: 64, .. })), "{many:?}");
}

#[test]
fn the_far_kernel_checks_checksums() {
    let Some(pair) = Pair::new() else { return };
    for target in ["10.0.0.2:53", "[fd00::2]:53"] {
        let target = addr(target);
        let socket = pair.there(|| UdpSocket::bind(target).unwrap());
        socket.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
        let mut flows = pair.here(|| XdpFlows::open(&[Flow::to(target)], &options(Mode::Auto)).unwrap());
        for (checksum, name) in
            [(Checksum::Bad, b"bad"), (Checksum::Absent, b"abs"), (Checksum::Right, b"yes")]
        {
            let frame = flows.lend(0).unwrap();
            frame.bytes.extend_from_slice(name);
            frame.checksum = checksum;
        }
        let mut sent = 0;
        flows.flush(&mut |_, at| sent += u32::from(at.is_some())).unwrap();
        assert_eq!(sent, 3);
        let mut seen = Vec::new();
        let mut room = [0; 16];
        while let Ok((n, from)) = socket.recv_from(&mut room) {
            assert_eq!(from, flows.source(0));
            seen.push(room[..n].to_vec());
        }
        // Bad ones do not arrive; without checksum is a datagram too, and IPv6 knows none without.
        assert_eq!(seen, [b"abs", b"yes"]);
    }
}

#[test]
fn answers_from_elsewhere_arrive_and_local_sockets_keep_theirs() {
    let Some(pair) = Pair::new() else { return };
    let target = addr("10.0.0.2:53");
    let (server, other) =
        pair.there(|| (UdpSocket::bind(target).unwrap(), UdpSocket::bind("10.0.0.2:0").unwrap()));
    let taken = pair.here(|| UdpSocket::bind("10.0.0.1:20000").unwrap());
    taken.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    let mut flows = pair.here(|| XdpFlows::open(&[Flow::to(target)], &options(Mode::Auto)).unwrap());
    assert_eq!(flows.source(0), addr("10.0.0.1:20001"), "20000 has a socket of this host");
    server.send_to(b"mine", "10.0.0.1:20000").unwrap();
    other.send_to(b"odd", flows.source(0)).unwrap();
    let got = collect(&mut flows, 1);
    assert_eq!((got[0].1, &got[0].2[..]), (other.local_addr().unwrap(), &b"odd"[..]));
    let mut room = [0; 16];
    assert_eq!(taken.recv(&mut room).unwrap(), 4);
}

#[test]
fn a_second_socket_on_an_interface_is_told_why_not() {
    let Some(pair) = Pair::new() else { return };
    let open = || pair.here(|| XdpFlows::open(&[Flow::to(addr("10.0.0.2:53"))], &options(Mode::Auto)));
    let first = open().unwrap();
    assert!(matches!(open(), Err(XdpError::Busy { interface }) if interface == "eth0"));
    drop(first);
    for _ in 0..3 {
        open().unwrap();
    }
}

#[test]
fn what_has_no_way_is_told_so() {
    let Some(pair) = Pair::new() else { return };
    let error = |target: &str| {
        let flow = Flow::to(addr(target));
        pair.here(|| XdpFlows::open(&[flow], &options(Mode::Auto))).err().unwrap().to_string()
    };
    let text = error("127.0.0.1:53");
    assert!(text.contains("loopback") && text.contains("sockets"), "{text}");
    let text = error("192.0.2.1:53");
    assert!(text.contains("no route to 192.0.2.1"), "{text}");
    let text = error("10.0.0.77:53");
    assert!(text.contains("10.0.0.77 does not answer on eth0"), "{text}");
    ip_here(&pair, "link set eth0 mtu 1400");
    ip_here(&pair, "route add 192.0.2.0/24 via 10.0.0.2");
    let mut flows =
        pair.here(|| XdpFlows::open(&[Flow::to(addr("192.0.2.1:53"))], &options(Mode::Auto)).unwrap());
    flows.lend(0).unwrap().bytes.resize(1400 - 28, 0);
    flows.lend(0).unwrap().bytes.resize(1400 - 27, 0);
    let mut sent = [None; 2];
    flows.flush(&mut |i, at| sent[i] = Some(at.is_some())).unwrap();
    assert_eq!(sent, [Some(true), Some(false)]);
    let troubles = flows.troubles();
    assert_eq!((troubles.send_other, troubles.refused()), (1, 1), "a query larger than the link's packets");
}

#[test]
fn a_full_ring_of_answers_is_counted() {
    let Some(pair) = Pair::new() else { return };
    let target = addr("10.0.0.2:53");
    let server = pair.there(|| UdpSocket::bind(target).unwrap());
    let small = Options { frames: 64, ..Options::default() };
    let mut flows = pair.here(|| XdpFlows::open(&[Flow::to(target)], &small).unwrap());
    for _ in 0..100 {
        server.send_to(b"answer", flows.source(0)).unwrap();
    }
    std::thread::sleep(Duration::from_millis(100));
    let dropped = flows.troubles().socket_drops;
    assert_eq!(collect(&mut flows, 100 - dropped as usize).len() as u64, 100 - dropped);
    assert_eq!(dropped, 36);
}

#[test]
fn an_echo_in_the_kernel_answers_queries_only() {
    let Some(pair) = Pair::new() else { return };
    for target in ["10.0.0.2:53", "[fd00::2]:53"] {
        let target = addr(target);
        let echo = pair.there(|| Echo::open(target, Mode::Auto).unwrap());
        let mut flows = pair.here(|| XdpFlows::open(&[Flow::to(target); 2], &options(Mode::Auto)).unwrap());
        let mut query = [0u8; 30];
        for i in 0..=255u8 {
            query[..2].copy_from_slice(&[1, i]);
            (query[12], query[13]) = (i, i.wrapping_mul(77));
            let frame = flows.lend(u32::from(i) % 2).unwrap();
            frame.bytes.extend_from_slice(&query[..if i == 255 { 11 } else { 30 }]);
            frame.bytes[2] |= if i == 254 { 0x80 } else { 0 };
            frame.checksum = if i % 5 == 0 { Checksum::Absent } else { Checksum::Right };
            if i % 32 == 31 {
                flows.flush(&mut |_, at| assert!(at.is_some())).unwrap();
            }
        }
        let mut got = collect(&mut flows, 254);
        got.sort_by_key(|g| g.2[1]);
        assert_eq!(got.len(), 254);
        for (i, (flow, from, bytes, _)) in got.iter().enumerate() {
            assert_eq!((*flow, *from, bytes[1], bytes[2]), (i as u32 % 2, target, i as u8, 0x80));
            assert_eq!((bytes.len(), bytes[12], bytes[13]), (30, i as u8, (i as u8).wrapping_mul(77)));
        }
        assert_eq!(echo.counts().unwrap(), (256, 254));
    }
    let lost = pair.here(|| Echo::open(addr("127.0.0.1:53"), Mode::Auto)).err().unwrap();
    assert!(matches!(lost, XdpError::NoInterface(_)), "{lost}");
}

/// What comes back to a kernel's own socket is thrown away unless its checksum is right.
#[test]
fn an_echo_in_the_kernel_keeps_checksums_right() {
    let Some(pair) = Pair::new() else { return };
    for (target, source) in [("10.0.0.2:53", "10.0.0.1:4000"), ("[fd00::2]:53", "[fd00::1]:4000")] {
        let (target, source) = (addr(target), addr(source));
        let _echo = pair.there(|| Echo::open(target, Mode::Auto).unwrap());
        // A veth receives what a program at its other end sends only where it has one too: any that lets the answers pass.
        let elsewhere = SocketAddr::new(source.ip(), 9);
        let _receives = pair.here(|| Echo::open(elsewhere, Mode::Native).unwrap());
        pair.here(|| net::link::set_transmit_checksums("eth0", false).unwrap());
        let socket = pair.here(|| UdpSocket::bind(source).unwrap());
        socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        let (mut query, mut room) = ([0u8; 40], [0u8; 64]);
        for i in 0..200u16 {
            query[..2].copy_from_slice(&i.to_be_bytes());
            query[20..22].copy_from_slice(&i.wrapping_mul(331).to_be_bytes());
            socket.send_to(&query, target).unwrap();
            let (n, from) = socket.recv_from(&mut room).unwrap();
            assert_eq!((n, from, room[2], &room[20..22]), (40, target, 0x80, &query[20..22]));
        }
    }
}
