//! What the server does is the outcome, and leaves the trial valid.

use crate::support::{Faulty, MS, black_hole, check_sums, only_noise_besides, reasons, run, spec};
use load::LoadSpec;
use measure::clock::SECOND;
use measure::{Event, Pace};
use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, Ordering};

#[test]
fn a_good_server_answers_everything() {
    let dir = tempfile::tempdir().unwrap();
    let server = Faulty::good();
    let r = run(&spec(&dir, server.addr, 2000.0, SECOND));
    assert_eq!(
        (r.counts.offered, r.counts.lost, r.mismatched, r.duplicates, r.unexpected),
        (2000, 0, 0, 0, 0),
        "{r:?}"
    );
    assert_eq!(r.counts.answered, r.counts.sent);
    assert_eq!(r.counts.rcodes.keys().collect::<Vec<_>>(), ["NOERROR"]);
    assert_eq!((r.counts.bytes.sent, r.counts.offered_qps), (r.counts.bytes.received, 2000.0));
    assert!(r.latency_us.p50 >= r.service_latency_us.p50 && r.latency_us.max >= r.latency_us.p50);
    only_noise_besides(&r, &[]);
    let again: load::LoadResult = serde_json::from_str(&serde_json::to_string(&r).unwrap()).unwrap();
    assert_eq!((again.histograms, again.validity, again.drops), (r.histograms, r.validity, r.drops));
}

#[test]
fn the_warm_up_is_offered_but_not_counted() {
    let dir = tempfile::tempdir().unwrap();
    let seen = std::sync::Arc::new(std::sync::atomic::AtomicU64::new(0));
    let counter = seen.clone();
    let server = Faulty::start(move |socket, _, msg, from| {
        counter.fetch_add(1, Ordering::Relaxed);
        let _ = socket.send_to(msg, from);
    });
    let r = run(&LoadSpec { warmup: 300 * MS, ..spec(&dir, server.addr, 1000.0, 500 * MS) });
    assert_eq!(r.counts.offered, 500);
    assert!(seen.load(Ordering::Relaxed) > r.counts.sent, "no query came before the measured part");
}

#[test]
fn every_tenth_query_dropped_is_loss_and_valid() {
    let dir = tempfile::tempdir().unwrap();
    let server = Faulty::start(|socket, n, msg, from| {
        if n % 10 != 9 {
            let _ = socket.send_to(msg, from);
        }
    });
    let r = run(&spec(&dir, server.addr, 2000.0, SECOND));
    assert_eq!((r.counts.lost, r.counts.late), (r.counts.sent / 10, 0), "{r:?}");
    only_noise_besides(&r, &[]);
    assert!((r.latency_with_lost_us.p99 - 500_000.0).abs() < 5000.0, "{:?}", r.latency_with_lost_us);
}

#[test]
fn late_answers_are_lost_and_late() {
    let dir = tempfile::tempdir().unwrap();
    // Answers each query when the 100th after it comes: 200 ms later, where 100 ms are allowed.
    let mut queue = std::collections::VecDeque::new();
    let server = Faulty::start(move |socket, _, msg, from| {
        queue.push_back((msg.to_vec(), from));
        if queue.len() > 100 {
            let (msg, from) = queue.pop_front().unwrap();
            let _ = socket.send_to(&msg, from);
        }
    });
    let r = run(&LoadSpec { deadline: 100 * MS, ..spec(&dir, server.addr, 500.0, SECOND) });
    assert!(r.counts.late >= 300, "{r:?}");
    assert_eq!((r.counts.answered, r.counts.lost), (0, r.counts.sent));
    only_noise_besides(&r, &[]);
}

#[test]
fn garbage_is_mismatched() {
    let dir = tempfile::tempdir().unwrap();
    let server = Faulty::start(|socket, n, msg, from| {
        match n % 4 {
            0 => msg[0] ^= 0x40,
            1 => msg[14] ^= 1,
            2 => msg[2] &= 0x7f,
            _ => {}
        }
        let _ = socket.send_to(if n % 4 == 3 { &msg[..13] } else { msg }, from);
    });
    let r = run(&spec(&dir, server.addr, 1000.0, 400 * MS));
    assert_eq!((r.counts.answered, r.counts.lost), (0, r.counts.sent));
    // A wrong id is that of no query, or of another query.
    assert_eq!(r.mismatched + r.unexpected, r.counts.sent);
    assert!(r.mismatched >= r.counts.sent / 4 * 3, "{r:?}");
    only_noise_besides(&r, &[]);
}

#[test]
fn duplicates_are_counted_apart() {
    let dir = tempfile::tempdir().unwrap();
    let server = Faulty::start(|socket, _, msg, from| {
        (0..3).for_each(|_| drop(socket.send_to(msg, from)));
    });
    let r = run(&spec(&dir, server.addr, 500.0, 400 * MS));
    assert_eq!((r.counts.answered, r.duplicates), (r.counts.sent, 2 * r.counts.sent), "{r:?}");
}

#[test]
fn answers_from_elsewhere_are_mismatched() {
    let dir = tempfile::tempdir().unwrap();
    let other_port = UdpSocket::bind("127.0.0.1:0").unwrap();
    let other_addr = UdpSocket::bind("127.0.0.2:0").unwrap();
    let server = Faulty::start(move |_, n, msg, from| {
        let _ = if n % 2 == 0 { &other_port } else { &other_addr }.send_to(msg, from);
    });
    let r = run(&spec(&dir, server.addr, 500.0, 400 * MS));
    assert_eq!((r.counts.answered, r.mismatched, r.counts.lost), (0, r.counts.sent, r.counts.sent), "{r:?}");
    only_noise_besides(&r, &[]);
}

#[test]
fn truncation_and_rcodes_are_exact() {
    let dir = tempfile::tempdir().unwrap();
    let server = Faulty::start(|socket, n, msg, from| {
        match n % 4 {
            0 => msg[2] |= 2,
            1 => msg[3] |= 3,
            2 => msg[3] |= 5,
            _ => {}
        }
        let _ = socket.send_to(msg, from);
    });
    let r = run(&spec(&dir, server.addr, 1000.0, 400 * MS));
    let quarter = r.counts.sent / 4;
    assert!(
        r.counts.truncated.abs_diff(quarter) <= 1 && r.counts.rcodes["NXDOMAIN"].abs_diff(quarter) <= 1,
        "{r:?}"
    );
    assert!(r.counts.rcodes["REFUSED"].abs_diff(quarter) <= 1);
}

#[test]
fn a_closed_port_is_icmp_and_loss() {
    let dir = tempfile::tempdir().unwrap();
    let closed = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let r = run(&spec(&dir, closed, 500.0, 200 * MS));
    assert_eq!((r.counts.lost, r.counts.answered), (r.counts.sent, 0));
    assert!(r.icmp > 0 && r.drops["send_other"] == 0, "{r:?}");
    only_noise_besides(&r, &[]);
}

#[test]
fn several_targets_and_workers_add_up() {
    let dir = tempfile::tempdir().unwrap();
    let servers = [Faulty::good(), Faulty::good(), Faulty::good()];
    let mut s = spec(&dir, servers[0].addr, 2000.0, 500 * MS);
    s.targets = servers.iter().map(|s| s.addr).collect();
    let r = run(&LoadSpec { workers: 2, sources: vec!["127.0.0.1".parse().unwrap()], ..s });
    assert_eq!((r.counts.offered, r.workers, r.flows % 3), (1000, 2, 0));
    assert_eq!(r.counts.answered, r.counts.sent);
}

#[test]
fn ipv6_works_too() {
    let Ok(socket) = UdpSocket::bind("[::1]:0") else {
        eprintln!("SKIPPED: no IPv6 here");
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let r = run(&spec(&dir, socket.local_addr().unwrap(), 500.0, 100 * MS));
    assert_eq!((r.counts.sent, r.counts.lost), (50 - r.counts.unsent, r.counts.sent));
}

#[test]
fn a_closed_window_is_never_exceeded() {
    let dir = tempfile::tempdir().unwrap();
    let server = Faulty::good();
    let r = run(&LoadSpec {
        pace: Pace::Closed { window: 10 },
        duration: None,
        count: Some(3000),
        ..spec(&dir, server.addr, 1.0, SECOND)
    });
    assert_eq!((r.counts.offered, r.counts.sent, r.counts.answered), (3000, 3000, 3000), "{r:?}");
    assert_eq!(r.histograms.pacing_error.count(), 0);
    // Nothing comes back: the window stays closed until the deadline frees it.
    let hole = black_hole();
    let r = run(&LoadSpec {
        pace: Pace::Closed { window: 10 },
        deadline: 200 * MS,
        ..spec(&dir, hole.local_addr().unwrap(), 1.0, 500 * MS)
    });
    assert!((10..=40).contains(&r.counts.sent), "{r:?}");
}

#[test]
fn a_flood_ends_in_time() {
    let dir = tempfile::tempdir().unwrap();
    let hole = black_hole();
    let s = spec(&dir, hole.local_addr().unwrap(), 1.0, 300 * MS);
    let r = run(&LoadSpec { pace: Pace::Flood, deadline: 100 * MS, ..s });
    assert!(r.counts.sent > 1000 && r.duration_s < 5.0, "{r:?}");
}

#[test]
fn a_run_that_is_stopped_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let server = Faulty::good();
    let s = spec(&dir, server.addr, 1000.0, 60 * SECOND);
    let stop = AtomicBool::new(false);
    let mut seconds = Vec::new();
    let r = load::run(&s, measure::clock::now, &stop, &mut |event| {
        if let Event::Progress { second, values } = event {
            seconds.push((second, values["sent_qps"].as_f64().unwrap()));
            stop.store(second == 2, Ordering::Relaxed);
        }
    })
    .unwrap();
    check_sums(&r);
    assert!(r.cut_short && r.counts.offered < 10_000, "{r:?}");
    assert_eq!(seconds.iter().map(|s| s.0).collect::<Vec<_>>(), [1, 2]);
    assert!(seconds.iter().all(|s| s.1 > 0.0));
    assert!(r.validity.warnings.iter().any(|w| w.code == "cut_short"));
}

#[test]
fn the_wait_for_the_last_answers_is_no_second() {
    let dir = tempfile::tempdir().unwrap();
    let server = Faulty::good();
    let s = spec(&dir, server.addr, 500.0, SECOND);
    // The last look at the seconds and the end of the wait are 50 ms after the last query, both: each may come first.
    for _ in 0..3 {
        let mut seconds = Vec::new();
        load::run(&s, measure::clock::now, &AtomicBool::new(false), &mut |event| {
            if let Event::Progress { values, .. } = event {
                seconds.push(values["answered_qps"].as_f64().unwrap());
            }
        })
        .unwrap();
        assert!(matches!(seconds[..], [answered] if answered > 0.0), "{seconds:?}");
    }
}

#[test]
fn a_source_that_ends_ends_the_run() {
    let dir = tempfile::tempdir().unwrap();
    let server = Faulty::good();
    let mut s = spec(&dir, server.addr, 1000.0, SECOND);
    let path = dir.path().join("few");
    std::fs::write(&path, "a.example A\nb.example A\n").unwrap();
    s.source =
        serde_json::from_value(serde_json::json!({"traffic": {"queries": {"path": path, "cycle": false}}}))
            .unwrap();
    let r = run(&s);
    assert_eq!((r.counts.offered, r.counts.answered), (2, 2));
}

#[test]
fn what_is_wrong_is_said_before_anything_is_sent() {
    let dir = tempfile::tempdir().unwrap();
    let hole = black_hole();
    let good = spec(&dir, hole.local_addr().unwrap(), 1000.0, SECOND);
    let refused = |s: &LoadSpec| {
        load::run(s, || panic!("it started"), &AtomicBool::new(false), &mut |_| ()).unwrap_err().to_string()
    };
    let outside = LoadSpec { targets: vec!["192.0.2.1:53".parse().unwrap()], ..good.clone() };
    assert!(refused(&outside).contains("--allow-external"));
    let path = dir.path().join("bad");
    std::fs::write(&path, "a.example A\nb.example NOSUCHTYPE\n").unwrap();
    let mut bad = good.clone();
    bad.source = serde_json::from_value(serde_json::json!({"traffic": {"queries": {"path": path}}})).unwrap();
    assert!(refused(&bad).contains(":2:"), "{}", refused(&bad));
    let nowhere = LoadSpec { sources: vec!["192.0.2.77".parse().unwrap()], ..good.clone() };
    assert!(refused(&nowhere).contains("192.0.2.77"));
    let pinned = LoadSpec { cpus: vec![1000], ..good };
    assert!(refused(&pinned).contains("--cpus"));
    assert_eq!(reasons(&load::LoadResult::default()), [""; 0]);
}
