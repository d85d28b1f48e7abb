//! `dnsrack load search`: the peak, latencies below it, and what is made of them.

use crate::{dnsrack, output, stderr, write};
use serde_json::Value;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

/// An echo on loopback; ended when dropped.
struct Echo {
    child: Child,
    target: String,
}

impl Echo {
    fn start() -> Self {
        let port =
            std::net::UdpSocket::bind("127.0.0.1:0").and_then(|s| s.local_addr()).expect("a port").port();
        let target = format!("127.0.0.1:{port}");
        let child = dnsrack(&["load", "echo", &target, "--duration", "120s"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("it starts");
        let ready = Instant::now() + Duration::from_secs(10);
        while std::net::UdpSocket::bind(&target).is_ok() {
            assert!(Instant::now() < ready, "the echo never bound {target}");
            std::thread::sleep(Duration::from_millis(10));
        }
        Self { child, target }
    }
}

impl Drop for Echo {
    fn drop(&mut self) {
        let _ = self.child.kill().and_then(|()| self.child.wait());
    }
}

/// A search of seconds with a low ceiling, so that a busy machine can do it.
const SMALL: [&str; 16] = [
    "--min",
    "100",
    "--max",
    "1K",
    "--start",
    "500",
    "--initial",
    "100ms",
    "--trial",
    "200ms",
    "--duration-sum",
    "400ms",
    "--budget",
    "20s",
    "--window-load",
    "300ms",
];

#[test]
fn latencies_are_measured_at_fractions_of_the_peak() {
    let echo = Echo::start();
    let folder = tempfile::tempdir().expect("a folder");
    let queries = write(&folder, "q", "example.com A\nexample.net AAAA\n");
    let mut args = vec!["--json", "load", "search", &echo.target, "--queries", &queries];
    args.extend(SMALL);
    args.extend(["--latency-at", "20,50", "--latency-trial", "300ms", "--latency-warmup", "50ms"]);
    let got = output(&args);
    assert!(matches!(got.status.code(), Some(0 | 3)), "{}", stderr(&got));
    let found: Value = serde_json::from_slice(&got.stdout).expect("JSON");
    assert_eq!(found["schema"], "dnsrack.load.search/1");
    // The greatest load allowed is a lower bound, so the peak itself is not proven.
    assert!(found["peak_qps"].is_null() || found["ended"] == "width", "{found}");
    let Some(peak) = found["peak_qps"].as_f64().or(found["lower"].as_f64()) else {
        // Other work on this machine: then every trial says so, and there is no peak to take fractions of.
        let told = stderr(&got);
        let disturbed = ["pacing_error", "generator_preempted", "generator_stalled", "unsent"];
        assert!(disturbed.iter().any(|code| told.contains(code)), "no peak: {told}");
        assert_eq!((got.status.code(), found.get("latency_at")), (Some(3), None));
        eprintln!("SKIPPED: fractions of the peak, as this machine is too busy to find one");
        return;
    };
    let trials = found["latency_at"].as_array().expect("latency trials");
    assert_eq!(trials.len(), 2);
    for (trial, fraction) in trials.iter().zip([0.2, 0.5]) {
        assert_eq!(trial["fraction"], fraction);
        assert_eq!(trial["rate"], (peak * fraction).round());
        let result = &trial["result"];
        // The warm-up does not count.
        let offered = (peak * fraction).round() * 0.3;
        assert!((result["offered"].as_f64().expect("a count") - offered).abs() <= 1.0, "{result}");
        assert!(result["validity"]["valid"].is_boolean() && result["latency_us"]["p99"].is_number());
    }
    let capacity = &found["capacity"];
    assert!(capacity["loads"].as_array().is_some_and(|loads| loads.len() >= 3), "{capacity}");
    let seen = &found["trials"][0]["seen"];
    assert!(seen["answered_qps"].is_number() && seen["latency_us"]["p50"].is_number(), "{seen}");
}

#[test]
fn no_fractions_no_latency_trials_and_wrong_ones_are_refused() {
    let refused = output(&["load", "search", "--latency-at", "127.0.0.1", "--queries", "q"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(stderr(&refused).contains("10,50,90"), "{}", stderr(&refused));
    let alone = output(&["load", "search", "127.0.0.1", "--queries", "q", "--latency-trial", "5s"]);
    assert_eq!(alone.status.code(), Some(2));
    assert!(stderr(&alone).contains("--latency-at"), "{}", stderr(&alone));
}
