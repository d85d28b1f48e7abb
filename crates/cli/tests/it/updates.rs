//! Faults that a sender of updates meets: each is reported with what to do about it, the sender goes on, and nothing stays behind.

use crate::{dnsrack, output, stderr, stdout, write};
use rack::{Host, Local};
use serde_json::Value;
use server::{Kind, Replication, Server, ServerSpec, Timers, ZoneRef};
use std::collections::BTreeSet;
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::path::Path;
use std::process::Stdio;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;
use update::TsigKey;

const SECRET: &str = "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=";
const READY: Duration = Duration::from_secs(30);

/// A folder for a primary of `example.` and what is sent to it.
struct Lab {
    folder: tempfile::TempDir,
    host: Host,
}

impl Lab {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().expect("a folder"), host: Host::loopback() }
    }

    /// A primary that takes updates signed with the key where `updates` is set; none, said loudly, where it is not installed.
    fn primary(&self, kind: Kind, updates: bool) -> Option<Server> {
        if server::installed(kind).is_none() {
            eprintln!("SKIPPED: {kind} is not installed");
            return None;
        }
        let mut zone = "example. 60 IN SOA ns.example. host.example. 1 3600 600 86400 60\nexample. 60 IN NS ns.example.\n\
                        ns.example. 60 IN A 192.0.2.1\n"
            .to_owned();
        // Larger than what is changed of it: else a server may send it whole for that.
        zone.extend(
            (0..8000).map(|n| format!("rest-of-it-{n:05}.example. 60 IN TXT \"{}\"\n", "x".repeat(40))),
        );
        let zone = write(&self.folder, "zone", &zone);
        let key = TsigKey::sha256("lab", SECRET);
        let part = Replication { updates, timers: Timers::Tuned, ..Replication::new(key) };
        let origin = ZoneRef { origin: "example.".into(), file: zone.clone().into(), signed: false };
        let spec =
            ServerSpec { port: free_port(), distribution: Some(part), ..ServerSpec::new(kind, origin) };
        let mut server = server::start(Local, &self.host, &spec, &self.folder.path().join("server"))
            .unwrap_or_else(|e| panic!("{e}"));
        let probe = zone::probe(Path::new(&zone)).expect("a zone");
        server.ready(&probe, READY).unwrap_or_else(|e| panic!("{e}"));
        Some(server)
    }

    /// A key file with this name and secret.
    fn key(&self, name: &str, secret: &str) -> String {
        write(&self.folder, name, &format!("hmac-sha256:{name}:{secret}\n"))
    }
}

/// A UDP and TCP port that nobody uses on either loopback address; each once, as tests run side by side.
fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let start = 10_000 + (std::process::id() % 20_000) as u16;
    loop {
        let port = start + NEXT.fetch_add(1, Ordering::Relaxed) % 2_000;
        let free = ["127.0.0.1", "::1"].iter().all(|ip| {
            let address = SocketAddr::new(ip.parse().expect("an address"), port);
            UdpSocket::bind(address).is_ok() && TcpListener::bind(address).is_ok()
        });
        if free {
            return port;
        }
    }
}

fn at(server: &Server) -> String {
    let v4 = server.targets().iter().find(|target| target.is_ipv4());
    v4.expect("an address").to_string()
}

#[test]
fn what_a_server_does_not_take_is_told_with_what_to_do() {
    for kind in [Kind::BIND, Kind::KNOT] {
        let lab = Lab::new();
        let Some(server) = lab.primary(kind, true) else { continue };
        let key = lab.key("lab", SECRET);
        let stranger = lab.key("stranger", SECRET);
        let other = write(&lab.folder, "other-secret", &format!("hmac-sha256:lab:{}\n", "QUFBQQ=="));
        let updates = |name: &str, zone: &str| {
            write(&lab.folder, name, &format!("zone {zone}\nupdate add a.{zone} 60 A 10.0.0.1\nsend\n"))
        };
        let (ours, elsewhere) = (updates("ours", "example."), updates("elsewhere", "elsewhere."));
        let send = |file: &str, key: Option<&str>| {
            let target = at(&server);
            let mut args = vec!["update", "send", &target, file, "--window", "1"];
            args.extend(key.iter().flat_map(|key| ["--tsig", key]));
            let sent = output(&args);
            assert!(matches!(sent.status.code(), Some(0 | 3)), "{kind}: {}", stderr(&sent));
            stdout(&sent)
        };
        let taken = send(&ours, Some(&key));
        assert!(taken.contains("NOERROR 1") && !taken.contains("NOERROR:"), "{kind}: {taken}");
        let cases = [
            (send(&elsewhere, Some(&key)), "NOTAUTH: ", "is not the primary of this zone"),
            (send(&ours, Some(&stranger)), "BADKEY: ", "knows no key of this name"),
            (send(&ours, Some(&other)), "BADSIG: ", "another secret"),
        ];
        for (said, code, what) in cases {
            let told = said.lines().any(|line| line.starts_with(code) && line.contains(what));
            assert!(told, "{kind}: no '{code}…{what}' in {said}");
        }
        // Without a key; servers differ in the code.
        let none = send(&ours, None);
        assert!(none.contains("REFUSED: ") || none.contains("NOTAUTH: "), "{kind}: {none}");
        server.stop().unwrap_or_else(|e| panic!("{e}"));
        // And one that lets nobody.
        let lab = Lab::new();
        let Some(server) = lab.primary(kind, false) else { continue };
        let target = at(&server);
        let refused = output(&["update", "send", &target, &ours, "--window", "1", "--tsig", &key, "--json"]);
        let json: Value = serde_json::from_slice(&refused.stdout).expect("one JSON object");
        let codes = json["rcodes"].as_object().expect("rcodes");
        assert_eq!((codes.get("NOERROR"), codes.len()), (None, 1), "{kind}: {json}");
        server.stop().unwrap_or_else(|e| panic!("{e}"));
    }
}

/// What is served of a zone by `transfer`, as lines.
fn served(lab: &Lab, target: &str, key: &str) -> BTreeSet<String> {
    let file = lab.folder.path().join("served");
    let got = output(&["transfer", target, "example.", "--tsig", key, "-o", file.to_str().expect("a path")]);
    assert!(got.status.success(), "{}", stderr(&got));
    std::fs::read_to_string(file).expect("it was written").lines().map(str::to_owned).collect()
}

#[test]
fn a_primary_that_is_killed_and_comes_back_costs_what_was_under_way() {
    const PAIRS: usize = 300;
    for kind in [Kind::BIND, Kind::KNOT] {
        let lab = Lab::new();
        let Some(mut server) = lab.primary(kind, true) else { continue };
        let (key, target) = (lab.key("lab", SECRET), at(&server));
        // Each name comes and goes: an addition that is applied after its deletion would be seen.
        let pair = |n: usize| {
            format!("update add n{n}.example. 60 A 10.0.0.1\nsend\nupdate delete n{n}.example. A\nsend\n")
        };
        let text: String = (0..PAIRS).map(pair).collect();
        let file = write(&lab.folder, "updates", &format!("zone example.\n{text}"));
        let table = lab.folder.path().join("fates");
        let sending = dnsrack(&["update", "send", &target, &file, "--rate", "100", "--tsig", &key])
            .args(["--deadline", "600ms", "--retries", "3", "--latencies"])
            .arg(&table)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the program starts");
        std::thread::sleep(Duration::from_millis(1500));
        server.kill().unwrap_or_else(|e| panic!("{e}"));
        std::thread::sleep(Duration::from_millis(1500));
        server.start_again().unwrap_or_else(|e| panic!("{e}"));
        let done = sending.wait_with_output().expect("it ends");
        let said = stdout(&done);
        assert!(matches!(done.status.code(), Some(0 | 3)), "{kind}: {said}");
        let told =
            |line: &str| line.contains("messages had no answer") && line.contains("may have been applied");
        assert!(said.lines().any(told), "{kind}: {said}");
        let fates = std::fs::read_to_string(&table).expect("the fates");
        let fates: Vec<Vec<&str>> = fates.lines().skip(1).map(|line| line.split(',').collect()).collect();
        assert_eq!(fates.len(), 2 * PAIRS, "{kind}: every message was sent, before and after");
        let count = |what: &dyn Fn(&Vec<&str>) -> bool| fates.iter().filter(|f| what(f)).count();
        // How many depends on how fast the machine's disk syncs; some before and some after those that were lost.
        let taken = |f: &Vec<&str>| f[6] == "NOERROR";
        let lost = fates.iter().position(|f| f[6].is_empty()).expect("it was away for longer than all tries");
        assert!(fates[..lost].iter().any(taken) && fates[lost..].iter().any(taken), "{kind}: {said}");
        assert!(count(&|f| f[6].is_empty() && f[7] == "4") > 0, "{kind}: sent again three times: {said}");
        let rest = served(&lab, &target, &key);
        for fate in fates.iter().filter(|f| f[6] == "NOERROR") {
            let number: usize = fate[0].parse().expect("a number");
            if number % 2 == 1 {
                let name = format!("n{}.example.\t", number / 2);
                assert!(!rest.iter().any(|line| line.starts_with(&name)), "{kind}: {name} came again");
            }
        }
        server.stop().unwrap_or_else(|e| panic!("{e}"));
    }
}

#[test]
fn a_transfer_that_is_not_given_is_told_with_what_to_do() {
    for kind in [Kind::BIND, Kind::KNOT, Kind::NSD] {
        let lab = Lab::new();
        let Some(server) = lab.primary(kind, false) else { continue };
        let target = at(&server);
        let failed = |zone: &str, key: Option<&str>| {
            let mut args = vec!["transfer", &target, zone];
            args.extend(key.iter().flat_map(|key| ["--tsig", key]));
            let got = output(&args);
            assert_eq!(got.status.code(), Some(1), "{kind}: {}", stdout(&got));
            stderr(&got)
        };
        let (key, stranger) = (lab.key("lab", SECRET), lab.key("stranger", SECRET));
        let unsigned = failed("example.", None);
        assert!(unsigned.contains("--tsig"), "{kind}: {unsigned}");
        let unknown = failed("example.", Some(&stranger));
        assert!(unknown.contains("key"), "{kind}: {unknown}");
        let elsewhere = failed("elsewhere.", Some(&key));
        assert!(elsewhere.contains("the zone"), "{kind}: {elsewhere}");
        assert!(served(&lab, &target, &key).len() >= 3, "{kind}: with the key it is given");
        server.stop().unwrap_or_else(|e| panic!("{e}"));
        let gone = failed("example.", Some(&key));
        assert!(gone.contains("is the server running"), "{kind}: {gone}");
    }
}
