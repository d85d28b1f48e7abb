//! `dnsrack load`: what is refused, and what an interrupted run still tells.

use crate::{dnsrack, output, stderr, write};
use serde_json::Value;
use std::io::{BufRead, BufReader, Read};
use std::net::UdpSocket;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

/// A server on loopback that sends every datagram back as an answer, for as long as the tests run.
fn server() -> String {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let addr = socket.local_addr().expect("an address").to_string();
    std::thread::spawn(move || {
        let mut buf = [0; 512];
        while let Ok((len, from)) = socket.recv_from(&mut buf) {
            buf[2] |= 0x80;
            let _ = socket.send_to(&buf[..len], from);
        }
    });
    addr
}

fn queries(folder: &tempfile::TempDir) -> String {
    let lines: String = (0..100).map(|n| format!("name{n}.example. A\n")).collect();
    write(folder, "queries", &lines)
}

fn interrupt(child: &Child) {
    let pid = rustix::process::Pid::from_child(child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).expect("it is there");
}

/// A load of a minute that is at work: its first second has been told.
fn at_work(more: &[&str], folder: &tempfile::TempDir) -> (Child, std::thread::JoinHandle<String>) {
    let (addr, queries) = (server(), queries(folder));
    let mut child = dnsrack(&["--json", "load", "run", &addr, "--queries", &queries, "--duration", "60s"])
        .args(more)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let mut lines = BufReader::new(child.stderr.take().expect("piped"));
    let mut said = String::new();
    lines.read_line(&mut said).expect("text");
    assert!(!said.is_empty(), "it ended before its first second");
    let rest = std::thread::spawn(move || {
        let _ = lines.read_to_string(&mut said);
        said
    });
    (child, rest)
}

#[test]
fn ctrl_c_gives_the_result_so_far_marked_as_cut_short() {
    for pace in [&["--rate", "500", "--deadline", "1s"][..], &["--window", "4", "--deadline", "1s"]] {
        let folder = tempfile::tempdir().expect("a folder");
        let (mut child, rest) = at_work(pace, &folder);
        let (asked, mut text) = (Instant::now(), String::new());
        interrupt(&child);
        child.stdout.take().expect("piped").read_to_string(&mut text).expect("text");
        let status = child.wait().expect("its end");
        let said = rest.join().expect("text");
        assert!(asked.elapsed() < Duration::from_secs(10), "it went on for {:?}", asked.elapsed());
        assert!(matches!(status.code(), Some(0 | 3)), "{status}: {said}");
        let result: Value = serde_json::from_str(&text).expect("one object");
        assert_eq!((&result["schema"], &result["cut_short"]), (&"dnsrack.load.run/1".into(), &true.into()));
        let warned = |code: &str| {
            let list = result["validity"]["warnings"].as_array().expect("a list");
            list.iter().any(|w| w["code"] == code)
        };
        assert!(warned("cut_short"), "{}", result["validity"]);
        let count = |name: &str| result[name].as_u64().expect(name);
        assert!(count("answered") > 0 && count("offered") < 60 * 500 || pace[0] == "--window");
        assert_eq!(count("sent") + count("unsent"), count("offered"));
        assert_eq!(count("sent"), count("answered") + count("lost") + count("in_flight"));
    }
}

#[test]
fn a_second_ctrl_c_ends_at_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let (mut child, rest) = at_work(&["--rate", "500", "--deadline", "4s"], &folder);
    interrupt(&child);
    // The second finds it gone, or on its last moments.
    std::thread::sleep(Duration::from_millis(20));
    interrupt(&child);
    let status = child.wait().expect("its end");
    rest.join().expect("text");
    assert!(matches!(status.code(), Some(130 | 0 | 3)), "{status}");
}

#[test]
fn targets_elsewhere_are_refused_without_the_flag() {
    let folder = tempfile::tempdir().expect("a folder");
    let queries = queries(&folder);
    for target in ["192.0.2.1", "192.0.2.1:5300", "[2001:db8::1]:53", "8.8.8.8"] {
        for verb in [&["run", "--rate", "10", "--duration", "1s"][..], &["search"]] {
            let args = [&["load", verb[0], target, "--queries", &queries], &verb[1..]].concat();
            let got = output(&args);
            assert!(!got.status.success() && got.stdout.is_empty(), "{args:?} went through");
            let said = stderr(&got);
            assert!(
                said.contains("--allow-external")
                    && said.contains(
                        target.trim_end_matches(":5300").trim_matches(['[', ']']).trim_end_matches("]:53")
                    ),
                "{said}"
            );
        }
    }
}
