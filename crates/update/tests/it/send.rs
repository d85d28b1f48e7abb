//! The sender against responders on loopback.

use crate::support::{MS, brief, only_noise, rate, send, updates};
use measure::Pace;
use measure::clock::SECOND;
use std::collections::HashMap;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;
use update::echo::{Echo, EchoResult, EchoSpec};
use update::{MarkerSpec, SendSpec, SendTransport, TsigKey};

/// An echo on a thread of its own.
struct Acknowledging {
    addr: SocketAddr,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<EchoResult>>,
}

impl Acknowledging {
    fn start(key: Option<TsigKey>) -> Self {
        let echo = Echo::open(&EchoSpec { key, ..EchoSpec::new("127.0.0.1:0".parse().unwrap()) }).unwrap();
        let (addr, stop) = (echo.addr(), Arc::new(AtomicBool::new(false)));
        let stopped = stop.clone();
        let thread = Some(std::thread::spawn(move || echo.run(&stopped, &mut |_| ()).unwrap()));
        Self { addr, stop, thread }
    }

    fn end(mut self) -> EchoResult {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap()
    }
}

/// A server with a fault: a closure says for each datagram what goes back.
struct Faulty {
    addr: SocketAddr,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Faulty {
    fn start(mut reply: impl FnMut(u64, &mut [u8]) -> Vec<Vec<u8>> + Send + 'static) -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
        let (addr, stop) = (socket.local_addr().unwrap(), Arc::new(AtomicBool::new(false)));
        let stopped = stop.clone();
        let thread = std::thread::spawn(move || {
            let (mut buffer, mut n) = ([0; 4096], 0);
            while !stopped.load(Ordering::Relaxed) {
                if let Ok((len, from)) = socket.recv_from(&mut buffer) {
                    wire::header::set_qr(&mut buffer[..len]);
                    for answer in reply(n, &mut buffer[..len]) {
                        let _ = socket.send_to(&answer, from);
                    }
                    n += 1;
                }
            }
        });
        Self { addr, stop, thread: Some(thread) }
    }
}

impl Drop for Faulty {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let _ = self.thread.take().unwrap().join();
    }
}

#[test]
fn every_update_is_acknowledged_over_udp_and_tcp_signed_and_not() {
    let dir = tempfile::tempdir().unwrap();
    let file = updates(dir.path(), 2000);
    let key = TsigKey::random("lab").unwrap();
    for transport in [SendTransport::Udp, SendTransport::Tcp] {
        for key in [None, Some(key.clone())] {
            for (pace, clients) in
                [(Pace::Closed { window: 20 }, 1), (Pace::Closed { window: 64 }, 5), (rate(4000.0), 3)]
            {
                let echo = Acknowledging::start(key.clone());
                let latencies = dir.path().join("latencies");
                let spec = SendSpec {
                    key: key.clone(),
                    transport,
                    clients,
                    latencies: Some(latencies.clone()),
                    ..SendSpec::new(echo.addr, &file, pace)
                };
                let r = send(&spec);
                only_noise(&r);
                assert_eq!(
                    (r.sent, r.accepted, r.lost, r.bad_tsig, r.mismatched),
                    (2000, 2000, 0, 0, 0),
                    "{r:?}"
                );
                assert_eq!((r.clients, r.signed, r.file.transactions), (clients, key.is_some(), 2000));
                let lines = std::fs::read_to_string(&latencies).unwrap();
                assert_eq!(lines.lines().count(), 2001);
                assert!(
                    lines.lines().skip(1).all(|l| l.split(',').count() == 10 && l.contains(",NOERROR,1,1,1"))
                );
                let echoed = echo.end();
                assert_eq!((echoed.received, echoed.acknowledged, echoed.ignored), (2000, 2000, 0));
            }
        }
    }
}

#[test]
fn transactions_are_merged_into_messages() {
    let dir = tempfile::tempdir().unwrap();
    let echo = Acknowledging::start(None);
    let spec = SendSpec {
        merge: 16,
        ..SendSpec::new(echo.addr, updates(dir.path(), 1000), Pace::Closed { window: 4 })
    };
    let r = send(&spec);
    assert_eq!((r.sent, r.transactions.accepted, r.records.accepted), (63, 1000, 1000));
    assert_eq!(echo.end().received, 63);
}

#[test]
fn a_flood_ends_and_keeps_its_books() {
    let dir = tempfile::tempdir().unwrap();
    let key = Some(TsigKey::random("lab").unwrap());
    let echo = Acknowledging::start(key.clone());
    let spec = SendSpec {
        key,
        deadline: SECOND,
        ..SendSpec::new(echo.addr, updates(dir.path(), 30_000), Pace::Flood)
    };
    let r = send(&spec);
    // The other end may not have kept up; what it took it has answered.
    let echoed = echo.end();
    assert_eq!((r.sent, r.bad_tsig), (30_000, 0));
    assert!(r.acknowledged > 0 && r.acknowledged + r.late <= echoed.acknowledged, "{} {echoed:?}", brief(&r));
}

#[test]
fn bounds_hold() {
    let dir = tempfile::tempdir().unwrap();
    let echo = Acknowledging::start(None);
    let file = updates(dir.path(), 1000);
    let spec = SendSpec { count: Some(100), ..SendSpec::new(echo.addr, &file, Pace::Closed { window: 3 }) };
    assert_eq!(send(&spec).sent, 100);
    let spec = SendSpec { duration: Some(SECOND / 2), ..SendSpec::new(echo.addr, &file, rate(200.0)) };
    let r = send(&spec);
    assert_eq!((r.offered, r.duration_s), (100, 0.5));
}

#[test]
fn updates_of_a_name_stay_in_order_and_with_their_client() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("updates");
    let text: String =
        (0..3000).map(|n| format!("update add n{}.example. {} A 10.0.0.1\nsend\n", n % 50, n + 1)).collect();
    std::fs::write(&path, format!("zone example.\n{text}")).unwrap();
    let (sender, received) = std::sync::mpsc::channel();
    let server = Faulty::start(move |_, message| {
        let owner = message[25..].split(|b| *b == 0xc0).next().unwrap().to_vec();
        let ttl_at = 25 + owner.len() + 2 + 4;
        let ttl = u32::from_be_bytes(message[ttl_at..ttl_at + 4].try_into().unwrap());
        sender.send((owner, ttl)).unwrap();
        vec![message.to_vec()]
    });
    let r = send(&SendSpec { clients: 4, ..SendSpec::new(server.addr, &path, Pace::Closed { window: 30 }) });
    assert_eq!(r.accepted, 3000);
    let mut last: HashMap<Vec<u8>, u32> = HashMap::new();
    for (owner, ttl) in received.try_iter() {
        assert!(last.insert(owner, ttl).is_none_or(|before| before < ttl), "out of order");
    }
    assert_eq!(last.len(), 50);
}

#[test]
fn lost_answers_are_asked_for_again_only_where_that_is_safe() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("updates");
    let plain: String = (0..40).map(|n| format!("update add n{n}.example. 60 A 10.0.0.1\nsend\n")).collect();
    let careful: String = (0..40)
        .map(|n| format!("prereq nxdomain c{n}.example.\nupdate add c{n}.example. 60 A 10.0.0.1\nsend\n"))
        .collect();
    std::fs::write(&path, format!("zone example.\n{plain}{careful}")).unwrap();
    // The first copy of each message is not answered; a second one is, where it is the same to the octet.
    let mut seen: HashMap<Vec<u8>, u32> = HashMap::new();
    let server = Faulty::start(move |_, message| {
        let copies = seen.entry(message.to_vec()).or_default();
        *copies += 1;
        if *copies == 2 { vec![message.to_vec()] } else { Vec::new() }
    });
    let spec = SendSpec { retries: 2, deadline: 300 * MS, ..SendSpec::new(server.addr, &path, rate(400.0)) };
    let r = send(&spec);
    assert_eq!((r.sent, r.acknowledged, r.lost), (80, 40, 40), "{}", brief(&r));
    assert_eq!((r.retried, r.applied_twice_possible, r.superseded), (40, 40, 0));
    assert_eq!(r.file.repeatable, 40);
    assert!(r.service_latency_us.p50 >= 100_000.0, "an answer to the second copy is timed from the first");
}

#[test]
fn faults_of_answers_have_their_names() {
    let dir = tempfile::tempdir().unwrap();
    let file = updates(dir.path(), 50);
    let run = |server: &Faulty, key: Option<TsigKey>| {
        send(&SendSpec { key, deadline: 200 * MS, ..SendSpec::new(server.addr, &file, rate(1000.0)) })
    };
    let twice = Faulty::start(|_, m| vec![m.to_vec(), m.to_vec()]);
    let r = run(&twice, None);
    assert_eq!((r.accepted, r.duplicates), (50, 50));
    let query = Faulty::start(|_, m| {
        m[2] = 0x80;
        vec![m.to_vec()]
    });
    let r = run(&query, None);
    assert_eq!((r.lost, r.mismatched), (50, 50));
    let refusing = Faulty::start(|_, m| {
        m[3] |= 5;
        vec![
            m[..12]
                .iter()
                .copied()
                .enumerate()
                .map(|(i, b)| if (4..12).contains(&i) { 0 } else { b })
                .collect(),
        ]
    });
    let r = run(&refusing, None);
    assert_eq!((r.acknowledged, r.accepted, r.rcodes["REFUSED"]), (50, 0, 50));
    let key = || Some(TsigKey::random("lab").unwrap());
    // An error without a signature is reported. A success without one is not believed.
    let r = run(&refusing, key());
    assert_eq!((r.rcodes["REFUSED"], r.bad_tsig, r.tsig_faults["missing"]), (50, 50, 50));
    let unsigned = Faulty::start(|_, m| {
        let end = wire::question::end(m).unwrap();
        let mut answer = m[..end].to_vec();
        answer[6..12].fill(0);
        vec![answer]
    });
    let r = run(&unsigned, key());
    assert_eq!((r.acknowledged, r.lost, r.bad_tsig), (0, 50, 50));
    // The request's own signature is none of the answer's.
    let mirror = Faulty::start(|_, m| vec![m.to_vec()]);
    let r = run(&mirror, key());
    assert_eq!((r.lost, r.tsig_faults["wrong_signature"]), (50, 50));
}

#[test]
fn a_silent_server_does_not_hold_a_window_for_ever() {
    let dir = tempfile::tempdir().unwrap();
    let hole = UdpSocket::bind("127.0.0.1:0").unwrap();
    let spec = SendSpec {
        deadline: 100 * MS,
        patience: 300 * MS,
        ..SendSpec::new(hole.local_addr().unwrap(), updates(dir.path(), 1000), Pace::Closed { window: 2 })
    };
    let began = std::time::Instant::now();
    let r = send(&spec);
    assert!(r.cut_short && r.lost + r.in_flight == r.sent && r.sent < 20, "{}", brief(&r));
    assert!(r.validity.warnings.iter().any(|w| w.code == "server_silent"), "{:?}", r.validity);
    assert!(began.elapsed() < Duration::from_secs(5));
    // Answers without a valid signature are none (YADIFA 3.0.2 sends such).
    let mirror = Faulty::start(|_, m| vec![m.to_vec()]);
    let r = send(&SendSpec { target: mirror.addr, key: Some(TsigKey::random("lab").unwrap()), ..spec });
    assert!(r.cut_short && r.bad_tsig == r.sent && r.sent < 20, "{}", brief(&r));
}

#[test]
fn markers_count_up_between_the_updates() {
    let dir = tempfile::tempdir().unwrap();
    let echo = Acknowledging::start(None);
    let marker = Some(MarkerSpec { name: None, every: 100 * MS, first: 5, scattered: None });
    let spec = SendSpec { marker, ..SendSpec::new(echo.addr, updates(dir.path(), 100), rate(200.0)) };
    let r = send(&spec);
    assert_eq!((r.sent, r.accepted, r.marker_name.as_deref()), (100, 100, Some("_dnsrack.example.")));
    // Half a second of updates, and one after them all.
    assert!((3..=7).contains(&r.markers.len()), "{:?}", r.markers);
    for (n, m) in r.markers.iter().enumerate() {
        assert_eq!((m.number, m.rcode.as_deref()), (5 + n as u64, Some("NOERROR")));
        let (sent, acknowledged) = (m.sent.unwrap(), m.acknowledged.unwrap());
        assert!(m.intended <= sent && acknowledged + MS >= sent, "{m:?}");
        assert!(m.intended.abs_diff(measure::clock::wall()) < 60 * SECOND);
    }
    assert_eq!(echo.end().received, 100 + r.markers.len() as u64);
}

#[test]
fn what_cannot_be_is_refused_before_anything_is_sent() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("bad");
    std::fs::write(&path, "zone example.\nupdate add a.example. 60 A 10.0.0.300\nsend\n").unwrap();
    let target = "127.0.0.1:5".parse().unwrap();
    let error = |spec: &SendSpec| {
        update::send::run(spec, || panic!("it starts"), &AtomicBool::new(false), &mut |_| ())
            .unwrap_err()
            .to_string()
    };
    let bad = SendSpec::new(target, &path, rate(1.0));
    assert!(error(&bad).contains("bad:2:28: '10.0.0.300'"), "{}", error(&bad));
    let far = SendSpec { target: "192.0.2.1:53".parse().unwrap(), ..bad.clone() };
    assert!(error(&far).contains("--allow-external"));
    assert!(error(&SendSpec { file: dir.path().join("none"), ..bad }).contains("none: "));
}
