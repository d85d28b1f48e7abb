//! Answers that are wrong, late, repeated or missing are counted apart. What a server does never makes a trial invalid.

use crate::child::{Server, signal};
use crate::support::{Faulty, MS, brief, only_noise_besides, run, spec};
use load::LoadSpec;
use measure::Pace;
use measure::clock::SECOND;
use rustix::process::Signal;
use std::collections::VecDeque;
use std::time::{Duration, Instant};

#[test]
fn answers_to_an_earlier_question_of_an_id_are_mismatched() {
    let dir = tempfile::tempdir().unwrap();
    const COUNT: u64 = 70_000;
    // One flow uses each id again after 65,536 queries; the server then answers the earlier question first.
    let mut earlier: Vec<Option<Vec<u8>>> = vec![None; 1 << 16];
    let server = Faulty::start(move |socket, _, msg, from| {
        let place = &mut earlier[usize::from(u16::from_be_bytes([msg[0], msg[1]]))];
        if let Some(stale) = place.take() {
            assert_ne!(stale, msg, "the queries file holds 5000 questions, which 65,536 is no multiple of");
            let _ = socket.send_to(&stale, from);
        }
        let _ = socket.send_to(msg, from);
        *place = Some(msg.to_vec());
    });
    let r = run(&LoadSpec {
        flows: 1,
        pace: Pace::Closed { window: 16 },
        duration: None,
        count: Some(COUNT),
        ..spec(&dir, server.addr, 1.0, SECOND)
    });
    assert_eq!(
        (r.counts.sent, r.counts.answered, r.counts.lost, r.duplicates),
        (COUNT, COUNT, 0, 0),
        "{}",
        brief(&r)
    );
    // What is sent in the last moment before the start uses ids too.
    assert!((COUNT - (1 << 16)..=COUNT - (1 << 16) + 16).contains(&r.mismatched), "{}", brief(&r));
    assert_eq!(r.unexpected, 0);
}

#[test]
fn messages_of_wrong_sizes_are_told_apart() {
    let dir = tempfile::tempdir().unwrap();
    let server = Faulty::start(|socket, n, msg, from| {
        let mut long = msg.to_vec();
        long.resize(9000, 0);
        let _ = socket.send_to(
            match n % 5 {
                0 => &[],
                1 => &msg[..1],
                2 => &msg[..11],
                3 => &long,
                _ => msg,
            },
            from,
        );
    });
    let r = run(&spec(&dir, server.addr, 1000.0, 500 * MS));
    let queries_with = |rest: u64| r.counts.sent / 5 + u64::from(rest < r.counts.sent % 5);
    assert_eq!(r.unexpected, queries_with(0) + queries_with(1), "without an id: {}", brief(&r));
    assert_eq!(r.mismatched, queries_with(2), "with an id, but no header");
    assert_eq!(
        (r.counts.answered, r.counts.lost),
        (queries_with(3) + queries_with(4), queries_with(0) + queries_with(1) + queries_with(2))
    );
    let whole = r.counts.bytes.received - queries_with(1) - 11 * queries_with(2) - 9000 * queries_with(3);
    assert!(
        whole > 12 * queries_with(4) && whole < 512 * queries_with(4),
        "true lengths are counted: {:?}",
        r.counts.bytes
    );
    only_noise_besides(&r, &[]);
}

#[test]
fn corrupted_questions_are_mismatched_in_every_part() {
    let dir = tempfile::tempdir().unwrap();
    let server = Faulty::start(|socket, n, msg, from| {
        let end = msg.len();
        match n % 8 {
            0 => msg[13] ^= 0x08,           // a letter of the name
            1 => msg[12] += 1,              // the length of its first label
            2 => msg[end - 3] ^= 1,         // the type
            3 => msg[end - 1] ^= 2,         // the class
            4 => msg[5] = 0,                // no question although the rcode is NOERROR
            5 => (msg[5], msg[3]) = (0, 1), // no question, which FORMERR may leave out
            6 => msg[13] ^= 0x20,           // the case of a letter, which a server must echo
            _ => {}
        }
        let _ = socket.send_to(if n % 8 == 7 { &msg[..end - 1] } else { msg }, from);
    });
    let r = run(&spec(&dir, server.addr, 1000.0, 400 * MS));
    let queries_with = |rest: u64| r.counts.sent / 8 + u64::from(rest < r.counts.sent % 8);
    assert_eq!(r.counts.answered, queries_with(5), "{}", brief(&r));
    assert_eq!((r.mismatched, r.unexpected), (r.counts.sent - r.counts.answered, 0));
    assert_eq!(r.counts.rcodes["FORMERR"], queries_with(5));
    only_noise_besides(&r, &[]);
}

#[test]
fn loss_and_delay_are_measured_as_they_are() {
    let dir = tempfile::tempdir().unwrap();
    // Of five: one is dropped, one answered after 600 ms, the others after 30 ms. A thread for each delay, in order.
    let delayed = |delay: Duration| {
        let (queue_in, queue) = std::sync::mpsc::channel::<(Instant, Vec<u8>, _, std::net::UdpSocket)>();
        std::thread::spawn(move || {
            for (came, msg, from, socket) in queue {
                std::thread::sleep((came + delay).saturating_duration_since(Instant::now()));
                let _ = socket.send_to(&msg, from);
            }
        });
        queue_in
    };
    let (soon, later) = (delayed(Duration::from_millis(30)), delayed(Duration::from_millis(600)));
    let server = Faulty::start(move |socket, n, msg, from| {
        let queue = match n % 5 {
            0 => return,
            1 => &later,
            _ => &soon,
        };
        let _ = queue.send((Instant::now(), msg.to_vec(), from, socket.try_clone().unwrap()));
    });
    let r = run(&LoadSpec { deadline: 400 * MS, ..spec(&dir, server.addr, 500.0, SECOND) });
    let queries_with = |rest: u64| r.counts.sent / 5 + u64::from(rest < r.counts.sent % 5);
    assert_eq!(r.counts.answered, queries_with(2) + queries_with(3) + queries_with(4), "{}", brief(&r));
    assert_eq!(r.counts.lost, queries_with(0) + queries_with(1));
    // It stops listening 50 ms after the last deadline: the late answers of the last 150 ms are only lost.
    assert!((queries_with(1) / 2..=queries_with(1)).contains(&r.counts.late), "{}", brief(&r));
    let quickest = r.histograms.service_latency.quantile(0.0);
    assert!(quickest >= 29 * MS, "an answer within {quickest} ns of a server that waits 30 ms");
    assert!(r.latency_us.max < 401_000.0, "late ones are not among the answered");
    only_noise_besides(&r, &[]);
}

#[test]
fn a_server_killed_in_mid_trial_is_loss_and_icmp() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start();
    let spec = spec(&dir, server.addr, 1000.0, 2 * SECOND);
    let killer = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_secs(1));
        drop(server);
    });
    let r = run(&spec);
    killer.join().unwrap();
    assert!(
        (r.counts.sent / 5..r.counts.sent * 4 / 5).contains(&r.counts.answered),
        "killed in the middle: {}",
        brief(&r)
    );
    assert_eq!(r.counts.answered + r.counts.lost, r.counts.sent);
    assert!(r.icmp > 0 && r.drops["socket"] == 0 && r.drops["send_other"] == 0, "{}", brief(&r));
    only_noise_besides(&r, &[]);
}

#[test]
fn a_server_that_stands_still_shows_in_both_latencies() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start();
    let pid = server.pid();
    let spec = spec(&dir, server.addr, 1000.0, 2 * SECOND);
    let stopper = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(800));
        signal(pid, Signal::STOP);
        std::thread::sleep(Duration::from_millis(200));
        signal(pid, Signal::CONT);
    });
    let r = run(&spec);
    stopper.join().unwrap();
    assert_eq!(
        (r.counts.answered, r.counts.lost),
        (r.counts.sent, 0),
        "its socket holds 200 queries: {}",
        brief(&r)
    );
    // Those of its first 100 ms wait for at least 100 ms.
    for histogram in [&r.histograms.latency, &r.histograms.service_latency] {
        let waited = histogram.count() as f64 * (1.0 - histogram.share_below(100 * MS));
        assert!((50.0..=400.0).contains(&waited), "{waited} answers took 100 ms: {}", brief(&r));
    }
    only_noise_besides(&r, &[]);
}

#[test]
fn answers_out_of_order_are_all_found() {
    let dir = tempfile::tempdir().unwrap();
    // The last 50 in reverse.
    let mut held = VecDeque::new();
    let server = Faulty::start(move |socket, _, msg, from| {
        held.push_back((msg.to_vec(), from));
        if held.len() == 50 {
            while let Some((msg, from)) = held.pop_back() {
                let _ = socket.send_to(&msg, from);
            }
        }
    });
    let r = run(&spec(&dir, server.addr, 2000.0, 500 * MS));
    assert_eq!(
        (r.counts.answered, r.mismatched + r.unexpected + r.duplicates),
        (r.counts.sent / 50 * 50, 0),
        "{}",
        brief(&r)
    );
    only_noise_besides(&r, &[]);
}
