//! The JSON objects that scripts depend on: schema and fields of the contract.

use crate::{dnsrack, output, stderr, stdout, write};
use serde_json::Value;
use std::io::Write;
use std::process::Stdio;

/// Runs a command with `--json`; its one object.
fn json(args: &[&str]) -> Value {
    let got = output(&[&["--json"], args].concat());
    assert!(matches!(got.status.code(), Some(0 | 3)), "{args:?}: {}", stderr(&got));
    assert_eq!(
        got.stdout.iter().filter(|&&b| b == b'\n').count(),
        1,
        "{args:?}: exactly one object on one line"
    );
    serde_json::from_slice(&got.stdout).expect("JSON")
}

fn has_fields(object: &Value, fields: &[&str]) {
    for path in fields {
        let found = path.split('.').try_fold(object, |at, key| at.get(key));
        assert!(found.is_some(), "no {path} in {object}");
    }
}

#[test]
fn zone_and_traffic_say_what_they_made() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).to_str().expect("a path").to_owned();
    let (zone, queries) = (path("zone"), path("queries"));
    let made = output(&["zone", "generate", "--family", "U-6-DS0", "--delegations", "300", "-o", &zone]);
    assert!(made.status.success(), "{}", stderr(&made));
    let info = json(&["zone", "info", &zone]);
    assert_eq!(info["schema"], "dnsrack.zone.info/1");
    assert_eq!(info["delegations"], 300);
    has_fields(
        &info,
        &[
            "origin",
            "serial",
            "records",
            "types.NS",
            "types.A",
            "types.AAAA",
            "bytes",
            "wire_bytes",
            "label_length",
            "ns_per_delegation",
            "glue",
            "ds_share",
            "signed",
            "algorithms",
        ],
    );
    let traffic = ["traffic", "generate", "rzaia", "--zone", &zone, "--count", "500", "-o", &queries];
    assert_eq!(json(&traffic)["schema"], "dnsrack.traffic.generate/1");
    let lines = std::fs::read_to_string(&queries).expect("the queries");
    assert_eq!(lines.lines().filter(|l| !l.starts_with([';', '#'])).count(), 500);
}

#[test]
fn load_run_tells_all_of_the_contract() {
    let folder = tempfile::tempdir().expect("a folder");
    let queries = write(&folder, "q", "example.com A\nexample.net AAAA\n");
    let port = std::net::UdpSocket::bind("127.0.0.1:0").and_then(|s| s.local_addr()).expect("a port").port();
    let target = format!("127.0.0.1:{port}");
    let mut echo = dnsrack(&["load", "echo", &target, "--duration", "30s"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("it starts");
    let ready = std::time::Instant::now() + std::time::Duration::from_secs(10);
    while std::net::UdpSocket::bind(&target).is_ok() {
        assert!(std::time::Instant::now() < ready, "the echo never bound {target}");
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    let run = json(&["load", "run", &target, "--queries", &queries, "--rate", "1K", "--duration", "1s"]);
    echo.kill().and_then(|()| echo.wait()).expect("it ends");
    assert_eq!(run["schema"], "dnsrack.load.run/1");
    let value_of = |name: &str| run[name].as_u64().unwrap_or_else(|| panic!("no count {name} in {run}"));
    assert_eq!(value_of("sent") + value_of("unsent"), 1000);
    assert_eq!(value_of("sent"), value_of("answered") + value_of("lost"));
    has_fields(
        &run,
        &[
            "offered_qps",
            "sent_qps",
            "answered_qps",
            "late",
            "mismatched",
            "duplicates",
            "rcodes",
            "truncated",
            "latency_us.p50",
            "latency_us.p90",
            "latency_us.p99",
            "latency_us.p999",
            "latency_us.max",
            "service_latency_us.p50",
            "pacing_error_us.p50",
            "pacing_error_us.p99",
            "pacing_error_us.max",
            "bytes.sent",
            "bytes.received",
            "drops",
            "validity.valid",
            "validity.warnings",
            "validity.reasons",
        ],
    );
}

#[test]
fn progress_is_told_in_lines_and_in_events() {
    let folder = tempfile::tempdir().expect("a folder");
    let zone = folder.path().join("zone");
    let made = dnsrack(&["zone", "generate", "--family", "U-4-DS0", "--delegations", "40K", "-o"])
        .arg(&zone)
        .output()
        .expect("the program starts");
    assert!(made.status.success(), "{}", stderr(&made));
    // An input that comes in two parts, with time between them for a line of either kind.
    let mut info = dnsrack(&["--events", "zone", "info", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let mut input = info.stdin.take().expect("a pipe");
    let text = std::fs::read(&zone).expect("the zone");
    let (first, second) = text.split_at(text.len() / 2);
    input.write_all(first).expect("it reads");
    std::thread::sleep(std::time::Duration::from_millis(2100));
    input.write_all(second).expect("it reads");
    drop(input);
    let got = info.wait_with_output().expect("it ends");
    assert!(got.status.success(), "{}", stderr(&got));
    let line = stderr(&got);
    assert!(line.starts_with("reading") && line.contains(" a second"), "{line}");
    let events: Vec<Value> =
        stdout(&got).lines().map(|l| serde_json::from_str(l).expect("JSON lines")).collect();
    let (done, progress) = events.split_last().expect("events");
    assert!(!progress.is_empty() && progress.iter().all(|e| e["event"] == "progress"), "{events:?}");
    has_fields(&progress[0], &["second", "values.what", "values.done", "values.total", "values.per_second"]);
    assert_eq!((&done["event"], &done["result"]["delegations"]), (&"done".into(), &40_000.into()));

    let failed = output(&["--events", "zone", "info", "/no/such/zone"]);
    let last: Value = serde_json::from_str(stdout(&failed).trim()).expect("one JSON line");
    assert_eq!((failed.status.code(), &last["event"]), (Some(1), &"error".into()));
    assert!(last["message"].as_str().is_some_and(|m| m.contains("/no/such/zone")), "{last}");
}

#[test]
fn query_is_a_program_of_its_own_which_is_named_where_it_is_missing() {
    let folder = tempfile::tempdir().expect("a folder");
    let alone = crate::linked(folder.path());
    let missing =
        std::process::Command::new(&alone).args(["query", "--list"]).env("PATH", "/nowhere").output();
    let missing = missing.expect("it runs");
    assert_eq!(missing.status.code(), Some(1));
    assert!(
        stderr(&missing).contains("cargo build --release --package dnsrack-query"),
        "{}",
        stderr(&missing)
    );
    if crate::query_program().is_none() {
        return;
    }
    let list = output(&["query", "--list"]);
    assert!(stdout(&list).contains("@tcp-retries"), "{}", stderr(&list));
    let folder = folder.path().join("pcap");
    std::fs::write(&folder, "no capture").expect("a file");
    let wrong = output(&["--json", "query", "SELECT 1", folder.to_str().expect("a path")]);
    assert_eq!(wrong.status.code(), Some(1));
    assert!(stderr(&wrong).starts_with("dnsrack query: ") && stderr(&wrong).contains("not a capture"));
}
