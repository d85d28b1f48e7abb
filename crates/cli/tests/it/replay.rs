//! `load replay` as a user meets it: a capture sent again, at its speed and at another.

use crate::{dnsrack, output, stderr};
use serde_json::Value;
use std::net::{TcpListener, UdpSocket};
use std::path::Path;
use std::process::{Child, Stdio};

/// An echo on loopback, which ends with this.
struct Echo(Child, String);

impl Echo {
    fn start(address: &str) -> Self {
        let free = UdpSocket::bind((address, 0)).expect("a free port");
        let target = free.local_addr().expect("an address").to_string();
        drop(free);
        let mut echo = dnsrack(&["load", "echo", &target, "--duration", "60s"]);
        let child = echo.stderr(Stdio::null()).stdout(Stdio::null()).spawn().expect("the program starts");
        let probe = UdpSocket::bind((address, 0)).expect("a free port");
        probe.set_read_timeout(Some(std::time::Duration::from_millis(50))).expect("a time-out");
        let mut query = Vec::new();
        wire::query::write(&mut query, 7, b"\0", 2, None);
        let answers =
            (0..200).any(|_| probe.send_to(&query, &target).is_ok() && probe.recv(&mut [0; 512]).is_ok());
        assert!(answers, "no answer from {target}");
        Self(child, target)
    }
}

impl Drop for Echo {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Runs it; its JSON object and what it said. On a busy machine a load may be invalid, which is not what is tested here.
fn json(args: &[&str]) -> (Value, String) {
    let got = output(&[&["--json"], args].concat());
    assert!(matches!(got.status.code(), Some(0 | 3)), "{args:?}: {}", stderr(&got));
    (serde_json::from_slice(&got.stdout).expect("JSON"), stderr(&got))
}

fn capture(folder: &Path) -> String {
    let (names, path) = (folder.join("names"), folder.join("trace.pcap"));
    std::fs::write(&names, "com\nnet\norg\n").expect("written");
    let path = path.to_str().expect("a path").to_owned();
    let names = names.to_str().expect("a path");
    json(&["traffic", "generate", "isc", "--names", names, "--rate", "1K", "--count", "1K", "-o", &path]);
    path
}

#[test]
fn a_capture_is_replayed_at_its_speed_and_at_another() {
    let folder = tempfile::tempdir().expect("a folder");
    let (path, echo) = (capture(folder.path()), Echo::start("127.0.0.1"));
    for (speed, seconds) in [("1", 0.999), ("4", 0.999 / 4.0), ("0.5", 0.999 * 2.0)] {
        let (got, said) = json(&["load", "replay", &echo.1, "--trace", &path, "--speed", speed]);
        assert_eq!(got["schema"], "dnsrack.load.replay/1");
        assert_eq!((&got["trace"]["queries"], &got["offered"]), (&Value::from(1000), &Value::from(1000)));
        assert_eq!(got["sent"].as_u64().unwrap() + got["unsent"].as_u64().unwrap(), 1000);
        assert!((got["duration_s"].as_f64().unwrap() - seconds).abs() < 0.05, "{}", got["duration_s"]);
        assert!(
            said.contains("1,000 queries (0 over TCP, 0 over IPv6) captured in 0.999 s: 1000/s"),
            "{said}"
        );
    }
}

#[test]
fn what_is_left_out_is_said_and_a_replay_can_be_cut() {
    let folder = tempfile::tempdir().expect("a folder");
    let (path, echo) = (capture(folder.path()), Echo::start("127.0.0.1"));
    let (got, _) = json(&["load", "replay", &echo.1, "--trace", &path, "--count", "100"]);
    assert_eq!(got["offered"], 100);
    let got = output(&["load", "replay", &echo.1, "--trace", &path, "--to", "192.0.2.54"]);
    assert_eq!(got.status.code(), Some(1));
    let said = stderr(&got);
    assert!(
        said.contains("no query to replay: there are 0 responses, 1000 queries to other ports or addresses"),
        "{said}"
    );
    let got = output(&["load", "replay", &echo.1, "--trace", &path, "--speed", "0"]);
    assert_eq!(got.status.code(), Some(2));
    let got = output(&["load", "replay", &echo.1, "--trace", "/nonexistent.pcap"]);
    assert_eq!(got.status.code(), Some(1));
    assert!(stderr(&got).contains("/nonexistent.pcap: No such file"), "{}", stderr(&got));
}

#[test]
fn a_live_capture_keeps_its_families_and_its_connections() {
    let live = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/captures/nsd-live.pcap.xz");
    if !live.exists() {
        eprintln!("SKIPPED: there is no {}", live.display());
        return;
    }
    let v4 = Echo::start("127.0.0.1");
    // Something that accepts connections and reads, at the same port.
    let listener = TcpListener::bind(&v4.1).expect("the port is free for TCP");
    std::thread::spawn(move || {
        let mut open = Vec::new();
        while let Ok((stream, _)) = listener.accept() {
            open.push(stream);
        }
    });
    let mut targets = vec![v4.1.clone()];
    let v6 = std::fs::exists("/proc/net/if_inet6").unwrap_or(false).then(|| Echo::start("::1"));
    targets.extend(v6.iter().map(|e| e.1.clone()));
    let targets: Vec<&str> = targets.iter().map(String::as_str).collect();
    let trace = ["--trace", live.to_str().expect("a path"), "--speed", "40", "--deadline", "200ms"];
    let (got, said) = json(&[&["load", "replay"][..], &targets, &trace].concat());
    assert_eq!((&got["trace"]["queries"], &got["offered"]), (&Value::from(10_432), &Value::from(10_432)));
    assert_eq!((&got["trace"]["tcp"], &got["trace"]["ipv6"]), (&Value::from(106), &Value::from(1_161)));
    assert!(said.contains("left out: 37 ICMP packets"), "{said}");
    let begun = got["tcp"]["begun"].as_u64().unwrap_or_else(|| panic!("no connections: {got}"));
    // A connection for each of the capture; one whose query could not be sent in time has none.
    let unsent = got["unsent"].as_u64().unwrap_or_else(|| panic!("{got}"));
    assert!((1..=106).contains(&begun) && begun + unsent >= 106, "{begun} begun, {unsent} unsent");
}
