//! Query files judged by others: servers with the zone, asked by dnsperf; BIND's own list of a zone's records.

use crate::{has, output, stderr};
use server::{Kind, ServerSpec, ZoneRef};
use std::collections::BTreeMap;
use std::net::{TcpListener, UdpSocket};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

fn text(path: &Path) -> &str {
    path.to_str().expect("a path")
}

/// Runs it; its JSON object.
fn json(args: &[&str]) -> serde_json::Value {
    let got = output(&[&["--json"], args].concat());
    assert!(got.status.success(), "{args:?}: {}", stderr(&got));
    serde_json::from_slice(&got.stdout).expect("JSON")
}

fn zone(path: &Path) {
    json(&["zone", "generate", "--family", "S-6-DS50", "--delegations", "400", "-o", text(path)]);
}

/// A port free for UDP and TCP, below those that the kernel gives to clients.
fn port() -> u16 {
    let free = |&port: &u16| {
        UdpSocket::bind(("127.0.0.1", port)).is_ok() && TcpListener::bind(("127.0.0.1", port)).is_ok()
    };
    (8_000..9_900).find(free).expect("a free port")
}

#[test]
fn servers_answer_with_the_hits_and_misses_that_were_asked_for() {
    let folder = tempfile::tempdir().expect("a folder");
    let (file, queries) = (folder.path().join("zone"), folder.path().join("queries"));
    zone(&file);
    let asked = ["traffic", "generate", "rzaia", "--zone", text(&file), "-o", text(&queries)];
    let changes = ["--nonexistent", "1:3", "--types", "A=3,AAAA=1,DS=1", "--below", "1,2", "--count", "4000"];
    let made = json(&[&asked[..], &changes].concat());
    let misses = made["nonexistent"].as_u64().expect("a count");
    assert!((2800..3200).contains(&misses), "{misses} of 4000, expected 3 in 4");
    if !has("dnsperf") {
        return;
    }
    let host = rack::Host::loopback();
    for (kind, program) in [(Kind::Nsd, "nsd"), (Kind::Knot, "knotd")] {
        if !has(program) {
            continue;
        }
        let zone = ZoneRef { origin: ".".into(), file: file.clone(), signed: false };
        let spec = ServerSpec { port: port(), ..ServerSpec::new(kind, zone) };
        let probe = zone::probe(&file).expect("a zone");
        let dir = folder.path().join(program);
        let mut server = server::start(&rack::Local, &host, &spec, &dir).unwrap_or_else(|e| panic!("{e}"));
        server.ready(&probe, Duration::from_secs(30)).unwrap_or_else(|e| panic!("{e}"));
        let got = Command::new("dnsperf")
            .args(["-s", "127.0.0.1", "-p", &spec.port.to_string(), "-n", "1", "-q", "20", "-d"])
            .arg(&queries)
            .output()
            .expect("dnsperf runs");
        server.stop().unwrap_or_else(|e| panic!("{e}"));
        let said = String::from_utf8_lossy(&got.stdout).into_owned();
        let codes = said.lines().find(|l| l.contains("Response codes:")).unwrap_or_else(|| panic!("{said}"));
        let expected = [format!("NOERROR {} (", 4000 - misses), format!("NXDOMAIN {misses} (")];
        assert!(expected.iter().all(|e| codes.contains(e)), "{program}: {codes}, expected {expected:?}");
    }
}

#[test]
fn nominets_step_lists_the_records_that_bind_lists() {
    if !has("named-compilezone") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let (file, queries) = (folder.path().join("zone"), folder.path().join("queries"));
    zone(&file);
    json(&["traffic", "generate", "nominet", "--zone", text(&file), "-o", text(&queries)]);
    let listed = Command::new("named-compilezone")
        .args(["-q", "-i", "none", "-k", "ignore", "-s", "full", "-o", "-", "."])
        .arg(&file)
        .output()
        .expect("named-compilezone runs");
    assert!(listed.status.success(), "{}", stderr(&listed));
    // The seed's awk '{ print $1 " " $4 }'; dnsperf takes names with and without their last dot.
    let count = |lines: &str, rtype: usize| {
        let mut counts: BTreeMap<String, u32> = BTreeMap::new();
        for line in lines.lines() {
            let words: Vec<&str> = line.split_ascii_whitespace().collect();
            let name = words[0].trim_end_matches('.').to_ascii_lowercase();
            *counts.entry(format!("{name} {}", words[rtype])).or_default() += 1;
        }
        counts
    };
    let ours = std::fs::read_to_string(&queries).expect("the queries");
    assert!(ours.lines().count() > 2000);
    assert_eq!(count(&ours, 1), count(&String::from_utf8_lossy(&listed.stdout), 3));
}
