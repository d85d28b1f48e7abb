use super::*;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const MS: u64 = 1_000_000;

/// A responder on a thread; gone when dropped.
struct Server {
    addr: SocketAddr,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<(u64, usize)>>,
}

impl Server {
    fn start(bind: &str, mut answer: impl FnMut(&[u8], &mut Vec<u8>) -> bool + Send + 'static) -> Self {
        let mut responder = Responder::open(bind.parse().unwrap()).unwrap();
        let (addr, stop) = (responder.local_addr().unwrap(), Arc::new(AtomicBool::new(false)));
        let stopped = stop.clone();
        let thread = std::thread::spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                responder.wait(20 * MS).unwrap();
                responder.turn(&mut answer).unwrap();
            }
            responder.connections()
        });
        Self { addr, stop, thread: Some(thread) }
    }

    fn echo(bind: &str) -> Self {
        Self::start(bind, |query, out| {
            out.extend_from_slice(query);
            true
        })
    }

    /// Ends it: connections taken, and open at the end.
    fn end(mut self) -> (u64, usize) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

fn open(addr: SocketAddr, flows: usize, options: Options) -> TcpFlows {
    TcpFlows::open(&vec![Flow::to(addr); flows], &options).unwrap()
}

/// Sends messages of two octets, the flow and a number; whether each was taken.
fn ask(flows: &mut TcpFlows, flow: u32, numbers: impl Iterator<Item = u8>) -> Vec<bool> {
    let mut sent = Vec::new();
    for n in numbers {
        flows.lend(flow).unwrap().bytes.extend_from_slice(&[flow as u8, n]);
        sent.push(false);
    }
    let before = monotonic();
    flows
        .flush(&mut |i, at| {
            assert!(at.is_none_or(|at| (before..=monotonic()).contains(&at)));
            sent[i] = at.is_some();
        })
        .unwrap();
    sent
}

/// Turns the transport until `done` says that it has what it wants; fails after ten seconds.
fn until(
    flows: &mut TcpFlows,
    mut done: impl FnMut(&TcpFlows, &[(u32, Vec<u8>)]) -> bool,
) -> Vec<(u32, Vec<u8>)> {
    let (mut got, end) = (Vec::new(), Instant::now() + Duration::from_secs(10));
    loop {
        flows.receive(256, &mut |m| got.push((m.flow, m.bytes.to_vec()))).unwrap();
        if done(flows, &got) {
            return got;
        }
        assert!(Instant::now() < end, "never came: {:?}, {} messages", flows.table.counts, got.len());
        flows.wait(10 * MS).unwrap();
    }
}

fn answers(flows: &mut TcpFlows, want: usize) -> Vec<(u32, Vec<u8>)> {
    until(flows, |_, got| got.len() >= want)
}

fn echo_round(bind: &str) {
    let server = Server::echo(bind);
    let mut flows = open(server.addr, 3, Options::default());
    for flow in 0..3 {
        assert_eq!(ask(&mut flows, flow, 0..20), [true; 20]);
    }
    let mut got = answers(&mut flows, 60);
    got.sort();
    let want: Vec<_> = (0..3u8).flat_map(|f| (0..20).map(move |n| (u32::from(f), vec![f, n]))).collect();
    assert_eq!(got, want);
    let counts = flows.connections().unwrap();
    let three = Connections { begun: 3, established: 3, open_max: 3, ..Connections::default() };
    assert_eq!((counts, flows.open_connections()), (three, 3));
    let mut handshakes = 0;
    flows.handshakes(&mut |ns| {
        assert!(ns > 0);
        handshakes += 1;
    });
    flows.handshakes(&mut |_| panic!("told twice"));
    assert_eq!((handshakes, flows.troubles()), (3, Troubles::default()));
    assert_eq!((flows.backend(), flows.flows(), flows.target(2)), ("tcp", 3, server.addr));
    assert_eq!(server.end().0, 3);
}

#[test]
fn queries_go_there_and_back() {
    echo_round("127.0.0.1:0");
}

#[test]
fn queries_go_there_and_back_over_ipv6() {
    if std::net::UdpSocket::bind("[::1]:0").is_err() {
        eprintln!("SKIPPED: no IPv6 here");
        return;
    }
    echo_round("[::1]:0");
}

#[test]
fn stamps_are_the_kernels() {
    let server = Server::echo("127.0.0.1:0");
    let mut flows = open(server.addr, 1, Options::default());
    ask(&mut flows, 0, 0..1);
    answers(&mut flows, 1);
    let stamp_of_answer = |flows: &mut TcpFlows, n: u8| {
        let asked = crate::sys::wall();
        ask(flows, 0, n..n + 1);
        std::thread::sleep(Duration::from_millis(60));
        let mut stamp = None;
        flows.receive(1, &mut |m| stamp = Some((m.stamp, m.from))).unwrap();
        let (stamp, from) = stamp.expect("an answer within 60 ms");
        (asked, stamp, from)
    };
    // The kernel begins to stamp packets a while after the first socket of the machine has asked for it.
    let begun = (1..100).find(|&n| matches!(stamp_of_answer(&mut flows, n).1, Stamp::Wall(_)));
    let (asked, stamp, from) = stamp_of_answer(&mut flows, begun.expect("the kernel stamps") + 1);
    let Stamp::Wall(at) = stamp else { panic!("{stamp:?} is no stamp of the kernel's") };
    assert_eq!(from, server.addr);
    assert!(
        (asked..asked + 50 * MS).contains(&at),
        "read 60 ms later, stamped {} ns after asking",
        at - asked
    );
}

#[test]
fn a_stream_in_single_octets_is_read() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut flows = open(listener.local_addr().unwrap(), 1, Options::default());
    ask(&mut flows, 0, 0..3);
    let server = std::thread::spawn(move || {
        let mut stream = listener.accept().unwrap().0;
        stream.set_nodelay(true).unwrap();
        let mut queries = [0; 12];
        stream.read_exact(&mut queries).unwrap();
        assert_eq!(queries, [0, 2, 0, 0, 0, 2, 0, 1, 0, 2, 0, 2]);
        // The last first.
        for octet in [0, 2, 0, 2, 0, 2, 0, 1, 0, 2, 0, 0] {
            stream.write_all(&[octet]).unwrap();
            std::thread::sleep(Duration::from_millis(2));
        }
        stream
    });
    let got: Vec<_> = answers(&mut flows, 3).into_iter().map(|m| m.1).collect();
    assert_eq!(got, [[0, 2], [0, 1], [0, 0]]);
    server.join().unwrap();
}

#[test]
fn messages_of_any_size_pass() {
    let server = Server::start("127.0.0.1:0", |query, out| {
        out.resize(out.len() + 65_535, query[1]);
        true
    });
    let mut flows = open(server.addr, 1, Options { read_chunk: 1000, ..Options::default() });
    ask(&mut flows, 0, 0..5);
    let mut seen = Vec::new();
    while seen.len() < 5 {
        flows.wait(1000 * MS).unwrap();
        flows.receive(10, &mut |m| seen.push((m.bytes[0], m.bytes.len(), m.len))).unwrap();
    }
    assert_eq!(seen, (0..5).map(|n| (n, Incoming::MAX, 65_535)).collect::<Vec<_>>());
    // A query may be as long, but not longer.
    flows.lend(0).unwrap().bytes.resize(65_535, 9);
    flows.lend(0).unwrap().bytes.resize(65_536, 9);
    let mut taken = Vec::new();
    flows.flush(&mut |_, at| taken.push(at.is_some())).unwrap();
    assert_eq!((taken, flows.troubles().send_errno), (vec![true, false], libc::EMSGSIZE));
    let got = answers(&mut flows, 1);
    assert_eq!(got[0].1, vec![9; Incoming::MAX]);
}

#[test]
fn what_the_server_does_not_read_is_written_later() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let options = Options { pipeline: 1000, ..Options::default() };
    let mut flows = open(listener.local_addr().unwrap(), 1, options);
    const COUNT: usize = 400;
    for n in 0..COUNT {
        flows.lend(0).unwrap().bytes.resize(60_000, n as u8);
        flows.flush(&mut |_, at| assert!(at.is_some())).unwrap();
        flows.receive(1, &mut |_| panic!("no answers yet")).unwrap();
    }
    let mut stream = listener.accept().unwrap().0;
    until(&mut flows, |f, _| f.table.counts.established == 1);
    assert!(flows.memory() > 1 << 20, "24 MB fit into socket buffers");
    let server = std::thread::spawn(move || {
        let mut all = vec![0; COUNT * 60_002];
        stream.read_exact(&mut all).unwrap();
        stream.write_all(&[0, 2, 7, 7]).unwrap();
        for (n, message) in all.chunks(60_002).enumerate() {
            assert!(message[..2] == 60_000u16.to_be_bytes() && message[2..].iter().all(|o| *o == n as u8));
        }
        stream
    });
    assert_eq!(answers(&mut flows, 1)[0].1, [7, 7]);
    server.join().unwrap();
    assert!(flows.memory() < 1 << 20, "{} octets kept", flows.memory());
}

#[test]
fn a_connection_is_spent_by_its_queries() {
    let server = Server::echo("127.0.0.1:0");
    let mut flows = open(server.addr, 1, Options { queries: 4, ..Options::default() });
    assert_eq!(ask(&mut flows, 0, 0..10), [true; 10]);
    assert_eq!(answers(&mut flows, 10).len(), 10);
    let counts = flows.connections().unwrap();
    assert_eq!((counts.begun, counts.closed_by_us, flows.open_connections(), counts.open_max), (3, 2, 1, 3));
    // The third has two left.
    ask(&mut flows, 0, 0..2);
    answers(&mut flows, 2);
    assert_eq!(flows.connections().unwrap().closed_by_us, 3);
    assert_eq!((flows.existing(), flows.connections().unwrap().queries_cut_off), (0, 0));
}

#[test]
fn idle_connections_are_closed_and_opened_again() {
    let server = Server::echo("127.0.0.1:0");
    let mut flows = open(server.addr, 1, Options { idle: 50 * MS, ..Options::default() });
    for round in 1..=2 {
        ask(&mut flows, 0, 0..1);
        answers(&mut flows, 1);
        assert_eq!(flows.open_connections(), 1);
        let asked = Instant::now();
        until(&mut flows, |f, _| f.table.counts.closed_by_us == round);
        assert!(asked.elapsed() > Duration::from_millis(40), "closed before its time");
    }
    assert_eq!(flows.connections().unwrap().established, 2);
}

#[test]
fn a_close_by_the_server_cuts_off_and_the_next_query_reopens() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut flows = open(listener.local_addr().unwrap(), 1, Options { pipeline: 4, ..Options::default() });
    // Four are asked, two wait.
    ask(&mut flows, 0, 0..6);
    let mut stream = listener.accept().unwrap().0;
    until(&mut flows, |f, _| f.table.counts.established == 1);
    let mut queries = [0; 16];
    stream.read_exact(&mut queries).unwrap();
    stream.write_all(&queries[..4]).unwrap();
    drop(stream);
    // One is answered, a fifth asked; at most four of it are lost, and what was never asked goes to the next
    // connection.
    until(&mut flows, |f, _| {
        f.table.counts.closed_by_server + f.table.counts.reset == 1 && f.table.open == 1
    });
    let mut stream = listener.accept().unwrap().0;
    let mut queries = [0; 4];
    stream.read_exact(&mut queries).unwrap();
    stream.write_all(&queries).unwrap();
    assert_eq!(answers(&mut flows, 1)[0].1, [0, queries[3]]);
    let counts = flows.connections().unwrap();
    assert!((3..=4).contains(&counts.queries_cut_off), "{counts:?}");
    assert_eq!((counts.begun, counts.closed_by_us), (2, 0));
}

#[test]
fn a_reset_is_not_a_close() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut flows = open(listener.local_addr().unwrap(), 1, Options::default());
    ask(&mut flows, 0, 0..3);
    let stream = listener.accept().unwrap().0;
    until(&mut flows, |f, _| f.table.counts.established == 1);
    std::thread::sleep(Duration::from_millis(20));
    drop(stream); // with queries unread: RST
    until(&mut flows, |f, _| f.table.counts.reset == 1);
    let counts = flows.connections().unwrap();
    assert_eq!((counts.queries_cut_off, counts.closed_by_server, flows.open_connections()), (3, 0, 0));
}

#[test]
fn a_reset_that_comes_before_the_handshake_is_seen_is_of_an_established_connection() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut flows = open(listener.local_addr().unwrap(), 1, Options::default());
    ask(&mut flows, 0, 0..1);
    let stream = listener.accept().unwrap().0;
    socket::close_by_reset(stream.as_fd());
    drop(stream);
    until(&mut flows, |f, _| f.table.counts.reset == 1);
    let counts = flows.connections().unwrap();
    assert_eq!((counts.established, counts.queries_cut_off, flows.open_connections()), (1, 1, 0));
    let mut handshakes = 0;
    flows.handshakes(&mut |_| handshakes += 1);
    assert_eq!(handshakes, 1);
}

#[test]
fn a_closed_port_refuses() {
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let mut flows = open(closed, 1, Options { pipeline: 2, ..Options::default() });
    for round in 1..=2 {
        assert_eq!(ask(&mut flows, 0, 0..3), [true; 3]);
        until(&mut flows, |f, _| f.table.counts.refused == round);
    }
    let counts = flows.connections().unwrap();
    let want = Connections { begun: 2, refused: 2, queries_cut_off: 6, ..Connections::default() };
    assert_eq!((counts, flows.troubles().refused()), (want, 0));
}

#[test]
fn a_server_that_does_not_take_connections_is_unreachable() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    #[allow(unsafe_code)]
    // SAFETY: takes no pointers. A second listen only makes the backlog as short as can be.
    let listened = unsafe { libc::listen(listener.as_raw_fd(), 0) };
    assert_eq!(listened, 0);
    let addr = listener.local_addr().unwrap();
    let _full = TcpStream::connect(addr).unwrap();
    let mut flows = open(addr, 1, Options { connect_timeout: 100 * MS, ..Options::default() });
    let asked = Instant::now();
    ask(&mut flows, 0, 0..5);
    until(&mut flows, |f, _| f.table.counts.unreachable == 1);
    assert!(asked.elapsed() > Duration::from_millis(90), "gave up before its time");
    let want = Connections { begun: 1, unreachable: 1, queries_cut_off: 5, ..Connections::default() };
    assert_eq!((flows.connections().unwrap(), flows.existing()), (want, 0));
}

#[test]
fn addresses_that_are_not_ours_are_local_failures() {
    let flow = Flow { source: "192.0.2.7:0".parse().unwrap(), target: "127.0.0.1:9".parse().unwrap() };
    let mut flows = TcpFlows::open(&[flow], &Options::default()).unwrap();
    assert_eq!(ask(&mut flows, 0, 0..2), [false; 2]);
    let troubles = flows.troubles();
    assert_eq!((troubles.send_other, troubles.send_errno), (2, libc::EADDRNOTAVAIL));
    let counts = flows.connections().unwrap();
    assert_eq!((counts.local_failures, counts.begun, counts.queries_cut_off), (2, 0, 0));
}

#[test]
fn the_pipeline_and_what_waits_are_bounded() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let options = Options { pipeline: 2, waiting: 3, ..Options::default() };
    let mut flows = open(listener.local_addr().unwrap(), 1, options);
    let sent = ask(&mut flows, 0, 0..7);
    assert_eq!(sent, [true, true, true, true, true, false, false]);
    assert_eq!(flows.troubles().send_again, 2);
    let mut stream = listener.accept().unwrap().0;
    stream.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
    let mut asked = Vec::new();
    for (round, want) in [(0, 2), (1, 1), (2, 1), (3, 1), (4, 0)] {
        until(&mut flows, |f, got| f.table.open == 1 && (round == 0 || !got.is_empty()));
        let mut query = [0; 4];
        for _ in 0..want {
            stream.read_exact(&mut query).unwrap();
            asked.push(query[3]);
        }
        assert!(stream.read_exact(&mut query).is_err(), "more than the pipeline holds in round {round}");
        stream.write_all(&[0, 1, 0]).unwrap();
    }
    assert_eq!(asked, [0, 1, 2, 3, 4]);
}

#[test]
fn a_silent_server_loses_its_connection() {
    let server = Server::start("127.0.0.1:0", |query, out| {
        out.extend_from_slice(query);
        query[1] != 0
    });
    for queries in [0, 1] {
        let mut flows =
            open(server.addr, 1, Options { patience: 60 * MS, pipeline: 1, queries, ..Options::default() });
        // The first is never answered; without patience the second would wait for ever, or the connection stay.
        ask(&mut flows, 0, 0..2);
        assert_eq!(answers(&mut flows, 1)[0].1, [0, 1]);
        until(&mut flows, |f, _| f.table.counts.closed_by_us == 1 + u64::from(queries));
        assert_eq!(flows.connections().unwrap().begun, 2);
    }
}

#[test]
fn a_fixed_port_is_used_again_after_a_reset() {
    let server = Server::echo("127.0.0.1:0");
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let options = Options { queries: 1, reset: true, ..Options::default() };
    let mut flows = TcpFlows::open(&[Flow { source: port, target: server.addr }], &options).unwrap();
    for n in 0..20 {
        assert_eq!(ask(&mut flows, 0, n..n + 1), [true]);
        answers(&mut flows, 1);
    }
    let counts = flows.connections().unwrap();
    assert_eq!((counts.established, counts.closed_by_us, counts.local_failures), (20, 20, 0));
}

#[test]
fn every_connection_is_accounted_for() {
    // Answers some, drops some; connections of three queries, more than there are numbers for at a time.
    let server = Server::start("127.0.0.1:0", |query, out| {
        out.extend_from_slice(query);
        query[1] % 50 != 7
    });
    let options = Options { queries: 3, patience: 100 * MS, reset: true, ..Options::default() };
    let mut flows = open(server.addr, 10, options);
    let mut got = 0;
    for round in 0..300u32 {
        ask(&mut flows, round % 10, (0..20).map(|n| (round % 10) as u8 * 20 + n));
        flows.receive(1000, &mut |_| got += 1).unwrap();
    }
    until(&mut flows, |f, seen| got + seen.len() >= 300 * 20 - 30 * 4 && f.existing() == 0);
    let c = flows.connections().unwrap();
    assert_eq!((c.begun, c.established, flows.open_connections()), (2000, 2000, 0));
    assert_eq!(c.established, c.closed_by_us + c.closed_by_server + c.reset);
    assert!(flows.table.len() < 2000, "numbers are not used again");
    assert_eq!(server.end().0, 2000);
}
