//! Paths between real hosts: everything is accounted for, and what arrives is what was asked for.

use crate::confined::{As, json_of, paths, ways_with_paths};
use rack::path::{Bursts, Counts, Delay, Loss, Queue, Rate, Report};
use rack::{PathSpec, ROUTER};
use serde_json::{Value, json};

const MS: u64 = 1_000_000;

fn run(who: As, mode: &str, spec: Value) -> Value {
    let text = spec.to_string();
    let args = [mode, &text];
    json_of(&mut paths(who, &args), who, &args)
}

/// The report of a run, which must be valid, and balanced with nothing left; with what was done from a to b and back.
fn report(seen: &Value) -> (Counts, Counts) {
    let report: Report = serde_json::from_value(seen["report"].clone()).unwrap();
    assert!(report.validity.valid, "{:?}", report.validity);
    assert!(report.directions.iter().all(Counts::balanced), "{report:?}");
    let [there, back] =
        [("a", "b"), ("b", "a")].map(|(from, to)| report.direction(from, to).unwrap().clone());
    (there, back)
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value} is no count"))
}

/// Whether a share lies within the 99 % interval of the one asked for, which is `wider` than that of independent trials.
fn within(count: u64, of: u64, share: f64, wider: f64) -> bool {
    let half = 2.576 * (share * (1.0 - share) / of as f64).sqrt() * wider;
    (count as f64 / of as f64 - share).abs() < half
}

#[test]
fn everything_is_accounted_for_over_ipv4_and_ipv6() {
    for who in ways_with_paths() {
        for v6 in [false, true] {
            let path = PathSpec {
                delay: Delay::Constant(5 * MS),
                loss: Loss::Random(0.05),
                duplicate: 0.02,
                ..PathSpec::between("a", "b")
            };
            let spec = json!({"paths": [path], "count": 3000, "octets": 100, "gap_us": 200, "v6": v6});
            let seen = run(who, "udp", spec);
            let (there, back) = report(&seen);
            assert_eq!((there.packets_in, there.queue_dropped, there.held), (3000, 0, 0), "{seen}");
            let header = if v6 { 48 } else { 28 };
            assert_eq!(there.bytes_in, 3000 * (100 + header), "without Ethernet headers");
            assert_eq!(there.bytes_delivered, there.delivered * (100 + header));
            assert!(within(there.lost, 3000, 0.05, 1.0), "{there:?}");
            assert!(within(there.duplicated, 3000 - there.lost, 0.02, 1.0), "{there:?}");
            assert_eq!((back.packets_in, back.delivered), (0, 0), "{back:?}");
            let got = &seen["seen"];
            assert_eq!(number(&got["received"]) + number(&got["unread"]), there.delivered, "{seen}");
            assert_eq!((number(&got["out_of_order"]), there.reordered), (0, 0));
            assert_eq!(number(&got["different"]), 3000 - there.lost);
            assert!(got["took_us"][0].as_f64() >= Some(5000.0), "a packet came early: {got}");
            let emulation = &seen["emulation"];
            assert_eq!(
                (&emulation["method"], &emulation["hosts"]),
                (&"user space".into(), &json!(["a", "b"]))
            );
        }
    }
}

#[test]
fn bursts_of_loss_have_the_length_asked_for() {
    let (share, burst) = (0.1, 5.0);
    let path = PathSpec { loss: Loss::Bursts(Bursts { share, burst }), ..PathSpec::one_way("a", "b") };
    let seen = run(As::Us, "udp", json!({"paths": [path], "count": 20_000, "octets": 20, "gap_us": 100}));
    let (there, _) = report(&seen);
    let correlation: f64 = 1.0 - 1.0 / burst - share / (1.0 - share) / burst;
    assert!(
        within(there.lost, 20_000, share, ((1.0 + correlation) / (1.0 - correlation)).sqrt()),
        "{there:?}"
    );
    let got = &seen["seen"];
    assert_eq!(number(&got["different"]) + there.lost, 20_000, "{seen}");
    let runs = number(&got["lost_runs"]) as f64;
    let mean = there.lost as f64 / runs;
    assert!((mean - burst).abs() < 2.576 * (burst * (burst - 1.0) / runs).sqrt(), "mean length {mean}");
}

#[test]
fn delays_are_distributed_as_asked_and_reorder_only_where_asked() {
    let path = PathSpec {
        delay: Delay::Normal { mean: 40 * MS, deviation: 5 * MS },
        jitter_reorders: true,
        ..PathSpec::between("a", "b")
    };
    let order_over = |path: &PathSpec| {
        let seen = run(As::Us, "udp", json!({"paths": [path], "count": 4000, "octets": 20, "gap_us": 250}));
        let (there, _) = report(&seen);
        (number(&seen["seen"]["out_of_order"]), there.reordered, seen["seen"]["took_us"].clone())
    };
    let (out_of_order, reordered, took) = order_over(&path);
    assert!(out_of_order > 500 && reordered > 500, "{out_of_order} {reordered}");
    let took: Vec<f64> = took.as_array().unwrap().iter().map(|t| t.as_f64().unwrap() / 1e3).collect();
    // Shares 1, 10, 50, 90 and 99 %: deviations from the mean, less what 4000 draws may lie below.
    for (got, z) in took[1..6].iter().zip([-2.326, -1.282, 0.0, 1.282, 2.326]) {
        let asked = 40.0 + 5.0 * z;
        assert!(*got > asked - 1.0 && *got < asked + 20.0, "{asked} ms asked for: {took:?}");
    }
    assert!(took[5] - took[1] > 20.0, "99 % - 1 %: 23.3 ms asked for: {took:?}");
    let (out_of_order, reordered, _) = order_over(&PathSpec { jitter_reorders: false, ..path });
    assert_eq!((out_of_order, reordered), (0, 0));
    let some = PathSpec { delay: Delay::Constant(20 * MS), reorder: 0.05, ..PathSpec::between("a", "b") };
    let (out_of_order, reordered, _) = order_over(&some);
    // Those that leave in a row overtake together.
    assert!(within(reordered, 4000, 0.05, 1.0) && out_of_order <= reordered, "{out_of_order} {reordered}");
}

#[test]
fn a_full_queue_drops_apart_from_loss() {
    let path = PathSpec {
        loss: Loss::Random(0.1),
        rate: Some(Rate(1_000_000)),
        queue: Some(Queue::Octets(10_000)),
        ..PathSpec::one_way("a", "b")
    };
    // 4 Mbit/s into 1 Mbit/s.
    let seen = run(As::Us, "udp", json!({"paths": [path], "count": 500, "octets": 972, "gap_us": 2000}));
    let (there, _) = report(&seen);
    assert_eq!((there.packets_in, there.held), (500, 0));
    assert!(there.lost > 20 && there.queue_dropped > 100, "{there:?}");
    assert_eq!(there.delivered, 500 - there.lost - there.queue_dropped);
    // A packet of 1000 octets takes 8 ms; ten wait at most.
    let slowest = seen["seen"]["took_us"][6].as_f64().unwrap();
    assert!(slowest > 40_000.0, "they wait for each other: {slowest}");
}

#[test]
fn a_stream_through_loss_arrives_whole() {
    for who in ways_with_paths() {
        for (v6, loss, octets) in [(false, 0.01, 4 << 20), (true, 0.01, 4 << 20), (false, 0.3, 40 << 10)] {
            let path = PathSpec {
                delay: Delay::Constant(MS),
                loss: Loss::Random(loss),
                ..PathSpec::between("a", "b")
            };
            let seen = run(who, "tcp", json!({"paths": [path], "octets": octets, "v6": v6}));
            let (there, back) = report(&seen);
            assert_eq!(
                (&seen["seen"]["whole"], &seen["seen"]["cubic"]),
                (&true.into(), &true.into()),
                "{seen}"
            );
            assert!(there.lost > 0 && back.packets_in > 0, "{there:?}");
            assert!(there.bytes_in > octets, "with its headers, and what is sent again");
        }
    }
}

#[test]
fn captures_at_the_router_see_both_sides_of_a_path() {
    if std::process::Command::new("tcpdump").arg("--version").output().is_err() {
        eprintln!("SKIPPED: no tcpdump");
        return;
    }
    for v6 in [false, true] {
        let path = PathSpec { loss: Loss::Random(0.3), ..PathSpec::between("a", "*") };
        let spec = json!({"paths": [path], "count": 1000, "octets": 40, "gap_us": 500, "v6": v6});
        let seen = run(As::Us, "capture", spec);
        let (there, _) = report(&seen);
        let captured = seen["captured"].as_array().unwrap();
        assert!(captured.iter().all(|c| c["dropped"] == 0), "{seen}");
        let [before, after] = [0, 1].map(|i| number(&captured[i]["packets"]));
        assert_eq!((before, after), (there.packets_in, there.delivered), "{seen}");
    }
}

#[test]
fn what_a_capture_saw_before_its_filter_was_set_is_not_missing() {
    if std::process::Command::new("tcpdump").arg("--version").output().is_err() {
        eprintln!("SKIPPED: no tcpdump");
        return;
    }
    let seen = run(As::Us, "busy", json!({"paths": [], "count": 8}));
    let captures = seen.as_array().unwrap();
    assert_eq!(captures.len(), 8);
    for captured in captures {
        assert_eq!((&captured["packets"], &captured["dropped"]), (&3.into(), &0.into()), "{seen}");
    }
}

#[test]
fn what_a_capture_has_no_room_for_is_counted_and_one_that_died_says_so() {
    if std::process::Command::new("tcpdump").arg("--version").output().is_err() {
        eprintln!("SKIPPED: no tcpdump");
        return;
    }
    // Of the ring of 64 MiB each datagram takes its octets and more.
    let (count, octets) = (80_000, 1_400);
    let seen = run(As::Us, "overflow", json!({"paths": [], "count": count, "octets": octets}));
    let [packets, dropped] = ["packets", "dropped"].map(|name| seen[name].as_u64().unwrap());
    assert!(packets > 0 && dropped > 0, "{seen}");
    assert_eq!(packets + dropped, count, "{seen}");
    let killed = seen["killed"].as_str().unwrap();
    assert!(killed.contains("tcpdump ended with signal: 9"), "{killed}");
}

#[test]
fn where_tcp_would_remember_a_path_there_is_none() {
    let spec = json!({"paths": [PathSpec::between("a", "b")]}).to_string();
    let got = paths(As::Contained, &["elsewhere", &spec]).output().unwrap();
    let said = String::from_utf8_lossy(&got.stderr);
    assert!(!got.status.success(), "{said}");
    assert!(said.contains("sysctl net/ipv4/tcp_no_metrics_save: Read-only file system"), "{said}");
}

#[test]
fn a_path_is_cut_without_its_emulator_and_others_are_not() {
    for who in ways_with_paths() {
        let seen = run(who, "elsewhere", json!({"paths": [PathSpec::between("a", "b")]}));
        let [cut, open, again, elsewhere] =
            ["cut", "open", "cut_again", "elsewhere"].map(|key| seen[key].as_bool());
        // They say whether a datagram arrived.
        assert_eq!([cut, open, again, elsewhere], [false, true, false, true].map(Some), "{who:?}: {seen}");
        assert!(seen["other"].as_str().unwrap().contains("make another rack"), "{seen}");
    }
    assert_eq!(ROUTER, "router");
}
