//! Loads over TCP connections, and truncated answers asked again over TCP.

use crate::child::Server;
use crate::support::{Faulty, MS, brief, check_sums, only_noise_besides, run, spec};
use load::{Connections, LoadResult, LoadSpec, Part, Transport};
use measure::Pace;
use measure::clock::SECOND;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// A server on loopback with a closure for each connection, which gets its number; gone when dropped.
struct Streams {
    addr: SocketAddr,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Streams {
    fn start(serve: impl Fn(TcpStream, u64) -> io::Result<()> + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        Self::at(listener, serve)
    }

    fn at(
        listener: TcpListener,
        serve: impl Fn(TcpStream, u64) -> io::Result<()> + Send + Sync + 'static,
    ) -> Self {
        let (addr, stop, serve) =
            (listener.local_addr().unwrap(), Arc::new(AtomicBool::new(false)), Arc::new(serve));
        listener.set_nonblocking(true).unwrap();
        let stopped = stop.clone();
        let thread = std::thread::spawn(move || {
            let mut number = 0;
            while !stopped.load(Ordering::Relaxed) {
                let Ok((stream, _)) = listener.accept() else {
                    std::thread::sleep(Duration::from_millis(1));
                    continue;
                };
                stream.set_nonblocking(false).unwrap();
                stream.set_nodelay(true).unwrap();
                let serve = serve.clone();
                // Ends when the other end closes.
                std::thread::spawn(move || drop(serve(stream, number)));
                number += 1;
            }
        });
        Self { addr, stop, thread: Some(thread) }
    }
}

impl Drop for Streams {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// The next query, with QR set: without its length.
fn next(stream: &mut TcpStream) -> io::Result<Vec<u8>> {
    let mut len = [0; 2];
    stream.read_exact(&mut len)?;
    let mut message = vec![0; usize::from(u16::from_be_bytes(len))];
    stream.read_exact(&mut message)?;
    wire::header::set_qr(&mut message);
    Ok(message)
}

fn framed(message: &[u8]) -> Vec<u8> {
    [&(message.len() as u16).to_be_bytes()[..], message].concat()
}

fn over_tcp(s: LoadSpec, connections: Connections) -> LoadSpec {
    LoadSpec { transport: Transport::Tcp, connections, ..s }
}

/// So many queries, each when an earlier one is answered or lost: the counts do not hang on a quiet machine.
fn closed(s: LoadSpec, window: u32, count: u64) -> LoadSpec {
    LoadSpec { pace: Pace::Closed { window }, duration: None, count: Some(count), ..s }
}

/// The connections of a result, which must add up where none is left in its handshake.
fn connections(r: &LoadResult) -> &net::transport::Connections {
    let tcp = r.tcp.as_ref().expect("it went over TCP");
    assert_eq!((r.transport.as_str(), r.backend.as_str()), ("tcp", "tcp"));
    assert_eq!(tcp.handshake.count(), tcp.counts.established);
    let tcp = &tcp.counts;
    assert!(tcp.begun >= tcp.established + tcp.refused + tcp.unreachable, "{}", brief(r));
    assert!(tcp.established >= tcp.reset + tcp.closed_by_server + tcp.closed_by_us, "{}", brief(r));
    tcp
}

#[test]
fn a_good_server_answers_everything_over_few_connections() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start();
    let s =
        over_tcp(spec(&dir, server.addr, 2000.0, SECOND), Connections { most: 8, ..Connections::default() });
    let r = run(&s);
    assert_eq!(
        (r.counts.answered, r.counts.lost, r.mismatched, r.duplicates),
        (r.counts.sent, 0, 0, 0),
        "{}",
        brief(&r)
    );
    let tcp = connections(&r);
    assert_eq!((tcp.begun, tcp.established, tcp.open_max, tcp.queries_cut_off), (8, 8, 8, 0));
    assert!(r.latency_us.p50 >= r.service_latency_us.p50 && r.tcp.as_ref().unwrap().handshake_us.p50 > 0.0);
    only_noise_besides(&r, &[]);
}

#[test]
fn answers_in_any_order_and_any_pieces_are_found() {
    let dir = tempfile::tempdir().unwrap();
    // Eight at a time, the last first, in writes of 7 octets.
    let server = Streams::start(|mut stream, _| {
        loop {
            let mut held = Vec::new();
            for _ in 0..8 {
                held.push(framed(&next(&mut stream)?));
            }
            let answers: Vec<u8> = held.into_iter().rev().flatten().collect();
            for piece in answers.chunks(7) {
                stream.write_all(piece)?;
            }
        }
    });
    let one = Connections { most: 1, ..Connections::default() };
    let r = run(&closed(over_tcp(spec(&dir, server.addr, 1.0, SECOND), one), 16, 800));
    assert_eq!(
        (r.counts.sent, r.counts.answered, r.mismatched, r.unexpected),
        (800, 800, 0, 0),
        "{}",
        brief(&r)
    );
    assert_eq!(connections(&r).begun, 1);
}

#[test]
fn connections_are_spent_by_their_queries() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start();
    let five = Connections { most: 4, queries: 5, ..Connections::default() };
    let r = run(&closed(over_tcp(spec(&dir, server.addr, 1.0, SECOND), five), 8, 1000));
    assert_eq!((r.counts.sent, r.counts.answered), (1000, 1000), "{}", brief(&r));
    let tcp = connections(&r);
    // What is sent in the last moment before the start is over connections too.
    assert!((200..=204).contains(&tcp.begun) && tcp.closed_by_us >= 196, "{}", brief(&r));
    assert_eq!((tcp.closed_by_server, tcp.reset, tcp.queries_cut_off), (0, 0, 0));
}

#[test]
fn closes_by_the_server_are_told_from_resets() {
    let dir = tempfile::tempdir().unwrap();
    // Answers nine queries of each connection, reads a tenth and closes.
    let closes = Streams::start(|mut stream, _| {
        for _ in 0..9 {
            let answer = framed(&next(&mut stream)?);
            stream.write_all(&answer)?;
        }
        next(&mut stream).map(drop)
    });
    let one = Connections { most: 1, pipeline: 1, ..Connections::default() };
    let s = over_tcp(LoadSpec { deadline: 100 * MS, ..spec(&dir, closes.addr, 1.0, SECOND) }, one);
    let r = run(&closed(s, 1, 100));
    let tcp = connections(&r);
    assert!(
        r.counts.lost.abs_diff(10) <= 1 && tcp.queries_cut_off.abs_diff(r.counts.lost) <= 1,
        "{}",
        brief(&r)
    );
    assert_eq!((tcp.closed_by_server.abs_diff(10) <= 1, tcp.reset), (true, 0));
    only_noise_besides(&r, &[]);
    // Closes with a query unread: the kernel sends RST.
    let resets = Streams::start(|stream, _| {
        stream.peek(&mut [0; 20])?;
        Ok(())
    });
    let s = over_tcp(LoadSpec { deadline: 100 * MS, ..spec(&dir, resets.addr, 1.0, SECOND) }, one);
    let r = run(&closed(s, 1, 10));
    let tcp = connections(&r);
    assert_eq!((r.counts.answered, r.counts.lost, tcp.closed_by_server), (0, 10, 0), "{}", brief(&r));
    assert!(tcp.reset >= 10 && tcp.queries_cut_off >= 10, "{}", brief(&r));
    only_noise_besides(&r, &[]);
}

#[test]
fn a_port_without_a_server_refuses() {
    let dir = tempfile::tempdir().unwrap();
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let r = run(&over_tcp(spec(&dir, nobody, 200.0, 300 * MS), Connections::default()));
    let tcp = connections(&r);
    assert_eq!((r.counts.answered, r.counts.lost, tcp.established), (0, r.counts.sent, 0), "{}", brief(&r));
    assert!(
        r.counts.sent > 0 && tcp.refused == tcp.begun && tcp.queries_cut_off >= r.counts.sent,
        "{}",
        brief(&r)
    );
    assert_eq!(r.drops["send_other"], 0);
    only_noise_besides(&r, &[]);
}

#[test]
fn a_server_that_never_reads_is_loss() {
    let dir = tempfile::tempdir().unwrap();
    let (go_in, go) = std::sync::mpsc::channel::<()>();
    let go = std::sync::Mutex::new(go);
    let server = Streams::start(move |_stream, _| {
        let _ = go.lock().unwrap().recv_timeout(Duration::from_secs(20));
        Ok(())
    });
    let one = Connections { most: 1, pipeline: 10, ..Connections::default() };
    let s = LoadSpec { deadline: 200 * MS, ..spec(&dir, server.addr, 500.0, 500 * MS) };
    let r = run(&over_tcp(s, one));
    let tcp = connections(&r);
    assert_eq!((r.counts.answered, r.counts.lost), (0, r.counts.sent), "{}", brief(&r));
    // Silent for as long as the deadline, each is given up for another.
    assert!(r.counts.sent > 0 && tcp.closed_by_us >= 1 && tcp.reset == 0, "{}", brief(&r));
    drop(go_in);
}

#[test]
fn a_server_killed_in_mid_trial_breaks_its_connections() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start();
    let four = Connections { most: 4, ..Connections::default() };
    let s = over_tcp(spec(&dir, server.addr, 1000.0, 2 * SECOND), four);
    let killer = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_secs(1));
        drop(server);
    });
    let r = run(&s);
    killer.join().unwrap();
    let tcp = connections(&r);
    assert!(
        (r.counts.sent / 5..r.counts.sent * 4 / 5).contains(&r.counts.answered),
        "killed in the middle: {}",
        brief(&r)
    );
    // Those four, and perhaps one or another that was opened in the moment of the kill.
    assert!((4..=8).contains(&(tcp.closed_by_server + tcp.reset)), "{}", brief(&r));
    assert!(tcp.refused > 0 && tcp.queries_cut_off + 5 >= r.counts.lost, "{}", brief(&r));
    only_noise_besides(&r, &[]);
}

#[test]
fn corrupted_streams_do_no_harm() {
    let dir = tempfile::tempdir().unwrap();
    let server = Streams::start(|mut stream, number| {
        let answer = next(&mut stream)?;
        match number % 4 {
            0 => stream.write_all(&[0, 0, 0, 0, 0, 1, 7])?, // messages of no octets, and of one
            1 => stream.write_all(&[0xff, 0xff, 1, 2, 3])?, // the rest never comes
            2 => stream.write_all(&framed(&answer[..13]))?, // within the question
            _ => stream.write_all(&framed(&answer))?,
        }
        Ok(())
    });
    let one = Connections { most: 1, queries: 1, ..Connections::default() };
    let s = over_tcp(LoadSpec { deadline: 100 * MS, ..spec(&dir, server.addr, 1.0, SECOND) }, one);
    let r = run(&closed(s, 1, 40));
    assert!(r.counts.answered.abs_diff(10) <= 1 && r.mismatched.abs_diff(10) <= 1, "{}", brief(&r));
    // A query is taken for answered by the first message on its connection, which is then closed.
    assert!((9..=33).contains(&r.unexpected), "{}", brief(&r));
    assert_eq!((r.counts.sent, r.duplicates), (40, 0));
    only_noise_besides(&r, &[]);
}

/// Truncates every answer over UDP, and answers over TCP at the same port.
fn truncating() -> (Faulty, Streams) {
    for _ in 0..20 {
        let udp = Faulty::start(|socket, _, msg, from| {
            msg[2] |= 2;
            let _ = socket.send_to(msg, from);
        });
        if let Ok(listener) = TcpListener::bind(udp.addr) {
            let tcp = Streams::at(listener, |mut stream, _| {
                loop {
                    let mut answer = next(&mut stream)?;
                    answer[3] |= 3; // NXDOMAIN, to be told from the others
                    stream.write_all(&framed(&answer))?;
                }
            });
            return (udp, tcp);
        }
    }
    panic!("no port is free for UDP and TCP");
}

#[test]
fn truncated_answers_are_asked_again_with_their_probability() {
    let dir = tempfile::tempdir().unwrap();
    let (udp, _tcp) = truncating();
    for (retry, share) in [(1.0, 1.0..=1.0), (0.3, 0.2..=0.4), (0.0, 0.0..=0.0)] {
        let s = LoadSpec { deadline: SECOND, ..spec(&dir, udp.addr, 1.0, SECOND) };
        let few = Connections { most: 4, ..Connections::default() };
        let s = LoadSpec { transport: Transport::UdpTcp, retry: Some(retry), connections: few, ..s };
        let r = run(&closed(s, 8, 1000));
        assert_eq!((r.counts.answered, r.counts.truncated), (1000, 1000), "{}", brief(&r));
        assert_eq!(r.counts.rcodes.get("NXDOMAIN"), None, "retries are counted by themselves");
        let part = r.tcp_retries.clone().unwrap_or_default();
        // Some answers to what was sent in the last moment before the start come after it: up to a window of them.
        let wanted = share.start() * 1000.0..=share.end() * 1008.0;
        assert!(wanted.contains(&(part.counts.offered as f64)), "{} of 1000", part.counts.offered);
        assert_eq!(
            (part.counts.sent, part.counts.answered),
            (part.counts.offered, part.counts.offered),
            "{part:?}"
        );
        let expected = if retry > 0.0 { 4 } else { 0 };
        assert_eq!(r.tcp.as_ref().map_or(0, |t| t.counts.established), expected);
        check_sums(&r);
        only_noise_besides(&r, &[]);
        assert!(retry > 0.0 || part == Part::default());
    }
}

#[test]
fn ten_thousand_connections_are_open_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start();
    const MOST: u64 = 10_000;
    // With RST, so that later tests find ports that are not in TIME_WAIT.
    let many = Connections { most: MOST as u32, idle: 0, reset: true, ..Connections::default() };
    let s =
        LoadSpec { burst: 1, deadline: 2 * SECOND, ..over_tcp(spec(&dir, server.addr, 1.0, SECOND), many) };
    let r = run(&closed(s, 64, 2 * MOST + MOST / 2));
    let tcp = connections(&r);
    assert_eq!(
        (tcp.begun, tcp.established, tcp.open_max, tcp.local_failures),
        (MOST, MOST, MOST, 0),
        "{}",
        brief(&r)
    );
    assert_eq!(
        (r.counts.answered, r.counts.lost, tcp.queries_cut_off),
        (r.counts.sent, 0, 0),
        "{}",
        brief(&r)
    );
    only_noise_besides(&r, &[]);
}
