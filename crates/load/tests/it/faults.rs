//! Faults of our own side, made for real: each must be found and named.

use crate::child::signal;
use crate::support::{Faulty, MS, black_hole, check_sums, is_noise, only_noise_besides, reasons, run, spec};
use load::{LoadResult, LoadSpec};
use measure::clock::SECOND;
use measure::{Arrivals, Nanos, Pace};
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

#[test]
fn too_few_flows_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let hole = black_hole();
    // 65,536 ids, none of which comes back within the deadline; four times as many are offered as a quiet machine would
    // need, as a busy one sends the fewest of them.
    let s = LoadSpec {
        flows: 1,
        deadline: 5 * SECOND,
        ..spec(&dir, hole.local_addr().unwrap(), 200_000.0, 4 * SECOND)
    };
    let r = run(&s);
    assert!(reasons(&r).contains(&"flows_too_few"), "{:?}", r.validity);
    assert!(!r.validity.valid && r.flows == 1 && r.counts.sent <= 65_536);
    let text = &r.validity.reasons.iter().find(|r| r.code == "flows_too_few").unwrap().text;
    assert!(text.contains("--flows") && text.contains("65,536"), "{text}");
}

#[test]
fn a_small_receive_buffer_is_named() {
    let dir = tempfile::tempdir().unwrap();
    // Holds its answers back and sends them in one go: more than the smallest buffer holds.
    let mut held = Vec::new();
    let server = Faulty::start(move |socket, _, msg, from| {
        held.push((msg.to_vec(), from));
        if held.len() == 100 {
            held.drain(..).for_each(|(msg, from)| drop(socket.send_to(&msg, from)));
        }
    });
    let r = run(&LoadSpec { recv_buffer: 0, flows: 1, ..spec(&dir, server.addr, 4000.0, SECOND) });
    assert!(reasons(&r).contains(&"socket_buffer_too_small"), "{:?}", r.validity);
    assert!(r.drops["socket"] > 0 && r.counts.lost >= r.drops["socket"], "{r:?}");
    only_noise_besides(&r, &["socket_buffer_too_small"]);
}

/// Not a test: the generator in a process of its own, which the tests below disturb.
#[test]
#[ignore = "the generator of other tests, run by them"]
fn child() {
    let Ok(text) = std::env::var("DNSRACK_TEST_SPEC") else { return };
    let spec: LoadSpec = serde_json::from_str(&text).unwrap();
    let started = || {
        println!("\nSTARTS");
        std::io::stdout().flush().unwrap();
        measure::clock::now() + 20 * MS
    };
    let result = load::run(&spec, started, &AtomicBool::new(false), &mut |_| ()).unwrap();
    let used = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    println!("\nCPU {}", used.tv_sec as u64 * SECOND + used.tv_nsec as u64);
    println!("RESULT {}", serde_json::to_string(&result).unwrap());
}

/// Runs a load in a child process; `disturb` gets its process id when it starts.
fn in_child(spec: &LoadSpec, disturb: impl FnOnce(u32)) -> LoadResult {
    in_child_with_cpu(spec, disturb).0
}

/// The same, with the processor time that the child used.
fn in_child_with_cpu(spec: &LoadSpec, disturb: impl FnOnce(u32)) -> (LoadResult, Nanos) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "faults::child", "--ignored", "--nocapture", "--test-threads=1"])
        .env("DNSRACK_TEST_SPEC", serde_json::to_string(spec).unwrap())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
    assert!(lines.any(|l| l == "STARTS"), "the child did not start");
    disturb(child.id());
    let cpu = lines.find_map(|l| l.strip_prefix("CPU ").map(|n| n.parse().unwrap()));
    let result = lines.find_map(|l| l.strip_prefix("RESULT ").map(|j| serde_json::from_str(j).unwrap()));
    assert!(child.wait().unwrap().success());
    let result = result.expect("a result");
    check_sums(&result);
    (result, cpu.expect("its processor time"))
}

#[test]
fn a_stopped_generator_is_named_and_does_not_burst() {
    let dir = tempfile::tempdir().unwrap();
    // The server notes when queries come, by its own clock.
    let (times_in, times) = std::sync::mpsc::channel();
    let server = Faulty::start(move |socket, _, msg, from| {
        let _ = times_in.send(measure::clock::now());
        let _ = socket.send_to(msg, from);
    });
    let s = LoadSpec { burst: 4, ..spec(&dir, server.addr, 2000.0, 2 * SECOND) };
    let r = in_child(&s, |pid| {
        std::thread::sleep(Duration::from_millis(800));
        signal(pid, rustix::process::Signal::STOP);
        std::thread::sleep(Duration::from_millis(200));
        signal(pid, rustix::process::Signal::CONT);
    });
    assert!(
        reasons(&r).contains(&"generator_stalled") && reasons(&r).contains(&"unsent"),
        "{:?}",
        r.validity
    );
    let text = &r.validity.reasons.iter().find(|r| r.code == "generator_stalled").unwrap().text;
    assert!(text.contains(" ms at second "), "{text}");
    // 200 ms less the 10 ms that may be made good: 380 queries, more where the machine was slow.
    assert!(r.counts.unsent >= 300, "{r:?}");
    // What was due in the last 10 ms was sent late. It counts from when it was intended; the server was quick.
    let slow = |h: &measure::Histogram| h.count() as f64 * (1.0 - h.share_below(4 * MS));
    let (intended, service) = (slow(&r.histograms.latency), slow(&r.histograms.service_latency));
    assert!(intended >= service + 8.0, "{intended} of the intended and {service} of the service latencies");
    assert!(slow(&r.histograms.pacing_error) >= 8.0, "{r:?}");
    only_noise_besides(&r, &["generator_stalled", "unsent"]);
    drop(server);
    // No query is sent later than the limit: a burst would be 500 queries, the rule allows 20 and a few.
    let times: Vec<u64> = times.iter().collect();
    let gap = times.windows(2).map(|w| w[1] - w[0]).enumerate().max_by_key(|g| g.1).unwrap();
    assert!(gap.1 > 180 * MS, "the stall is not seen at the server: {gap:?}");
    let after = times[gap.0 + 1..].iter().take_while(|t| **t < times[gap.0 + 1] + 10 * MS).count();
    assert!(after <= 4 + 2 * 20 + 20, "{after} queries within 10 ms of the stall");
}

/// The result of a load from a core on which two other processes compute all the time.
fn from_a_taken_core(pace: Pace) -> LoadResult {
    let dir = tempfile::tempdir().unwrap();
    let server = Faulty::good();
    let cpu = 0;
    let s = LoadSpec { pace, cpus: vec![cpu], ..spec(&dir, server.addr, 5000.0, 2 * SECOND) };
    let hogs: Vec<_> = (0..2)
        .map(|_| {
            Command::new("taskset")
                .args(["-c", &cpu.to_string(), "sh", "-c", "while :; do :; done"])
                .spawn()
                .expect("taskset of util-linux")
        })
        .collect();
    let r = in_child(&s, |_| ());
    for mut hog in hogs {
        let _ = hog.kill();
        let _ = hog.wait();
    }
    r
}

#[test]
fn a_taken_core_is_named_with_a_pace_and_with_a_window() {
    for pace in [Pace::Open(Arrivals::Fixed { rate: 5000.0 }), Pace::Closed { window: 20 }] {
        let r = from_a_taken_core(pace);
        assert!(reasons(&r).contains(&"generator_preempted"), "{:?}", r.validity);
        let text = &r.validity.reasons.iter().find(|r| r.code == "generator_preempted").unwrap().text;
        assert!(text.contains("--cpus"), "{text}");
        assert!(reasons(&r).iter().all(|c| is_noise(c)));
    }
}

#[test]
fn a_worker_that_does_not_poll_leaves_its_core_to_others() {
    let dir = tempfile::tempdir().unwrap();
    let server = Faulty::good();
    let cost = |spin| {
        let s = LoadSpec { spin: Some(spin), group: 4, ..spec(&dir, server.addr, 2000.0, SECOND) };
        let (r, cpu) = in_child_with_cpu(&s, |_| ());
        assert_eq!((r.counts.offered, r.spin_us), (2000, spin as f64 / 1e3));
        only_noise_besides(&r, &[]);
        cpu
    };
    // Groups are due every 2 ms: who polls for so long is never idle.
    let (polling, sleeping) = (cost(2 * MS), cost(0));
    assert!(sleeping * 2 < polling, "{sleeping} of {polling} ns of processor time");
}

#[test]
fn queries_that_cannot_be_sent_are_named() {
    let dir = tempfile::tempdir().unwrap();
    // A source address on loopback cannot reach a target that is not on this machine: the kernel refuses each query.
    let mut s = spec(&dir, "192.0.2.1:53".parse().unwrap(), 500.0, 200 * MS);
    s.sources = vec!["127.0.0.1".parse().unwrap()];
    s.allow_external = true;
    let r = run(&s);
    assert_eq!((r.counts.sent, r.counts.unsent), (0, 100), "{r:?}");
    assert!(reasons(&r).contains(&"send_errors") && reasons(&r).contains(&"unsent"), "{:?}", r.validity);
    // On a busy machine some are overdue before they are tried.
    assert!((1..=100).contains(&r.drops["send_other"]), "{r:?}");
}

#[test]
fn the_stop_flag_ends_a_generator_that_waits_for_its_start() {
    let dir = tempfile::tempdir().unwrap();
    let hole = black_hole();
    let s = spec(&dir, hole.local_addr().unwrap(), 100.0, SECOND);
    let stop = AtomicBool::new(false);
    let start = || {
        stop.store(true, Ordering::Relaxed);
        measure::clock::now() + 600 * SECOND
    };
    let r = load::run(&s, start, &stop, &mut |_| ()).unwrap();
    assert_eq!((r.counts.sent, r.counts.offered, r.cut_short), (0, 0, true));
}
