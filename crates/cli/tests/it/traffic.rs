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

#[test]
fn names_come_from_several_weighted_lists() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name);
    std::fs::write(path("a"), "a1.example\na2.example\n").expect("space");
    std::fs::write(path("b"), "b1.example\nb2.example\nb3.example\n").expect("space");
    let (a, b, queries) = (format!("{}=2", text(&path("a"))), path("b"), path("queries"));
    let b = text(&b);
    let made = json(&["traffic", "generate", "nominet", "--names", &a, "--names", b, "-o", text(&queries)]);
    // In turns, two to one, until each name was asked for.
    let expected = "a1 b1 a2 a1 b2 a2 a1 b3";
    let asked = std::fs::read_to_string(&queries).expect("the queries");
    let asked: Vec<&str> = asked.lines().map(|line| &line[..2]).collect();
    assert_eq!(asked.join(" "), expected);
    let list = |n: usize, key: &str| made["lists"][n][key].clone();
    assert_eq!((list(0, "queries"), list(0, "weight"), list(0, "names")), (5.into(), 2.0.into(), 2.into()));
    assert_eq!((list(1, "queries"), list(1, "weight"), list(1, "names")), (3.into(), 1.0.into(), 3.into()));
    assert_eq!((&made["names"], &made["names_total"]), (&5.into(), &5.into()));
    let refused = |args: &[&str], code: i32, word: &str| {
        let got = output(args);
        assert_eq!(got.status.code(), Some(code), "{args:?}: {}", stderr(&got));
        assert!(stderr(&got).contains(word), "{}", stderr(&got));
    };
    refused(&["traffic", "generate", "rzaia", "-o", text(&queries)], 2, "[[names.list]]");
    refused(
        &["traffic", "generate", "rzaia", "--names", "b=x", "-o", text(&queries)],
        2,
        "'x' is not a weight",
    );
    refused(&["traffic", "generate", "rzaia", "--names", &a, "--names", b, "-o", b], 2, "overwritten");
    let load = ["load", "run", "127.0.0.1:9", "--rate", "1"];
    refused(&[&load[..], &["--queries", text(&queries), "--names", b]].concat(), 2, "are for --profile");
    refused(&[&load[..], &["--profile", "rzaia"]].concat(), 2, "[[names.list]]");
}
