//! What a load shows while it runs: the live view, and the page for Prometheus.

use crate::{dnsrack, has, output, stderr, write};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpStream, UdpSocket};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// `load echo`, gone when dropped.
struct Echo {
    child: Child,
    target: String,
}

impl Echo {
    fn start() -> Self {
        let port = UdpSocket::bind("127.0.0.1:0").and_then(|s| s.local_addr()).expect("a port").port();
        let target = format!("127.0.0.1:{port}");
        let child = dnsrack(&["load", "echo", &target, "--duration", "60s"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("it starts");
        let echo = Self { child, target };
        let end = Instant::now() + Duration::from_secs(10);
        while UdpSocket::bind(&echo.target).is_ok() {
            assert!(Instant::now() < end, "the echo never bound {}", echo.target);
            std::thread::sleep(Duration::from_millis(10));
        }
        echo
    }
}

impl Drop for Echo {
    fn drop(&mut self) {
        let _ = self.child.kill().and_then(|()| self.child.wait());
    }
}

/// What a server answers to a request with this line and these further headers, head and body.
fn http(at: &str, line: &str, headers: &str) -> std::io::Result<(String, String)> {
    let mut stream = TcpStream::connect(at)?;
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    write!(stream, "{line}\r\nConnection: close\r\n{headers}\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head and a body");
    Ok((head.to_owned(), body.to_owned()))
}

fn value(page: &str, name: &str) -> Option<f64> {
    page.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok())
}

#[test]
fn prometheus_finds_the_figures_while_a_load_runs_and_not_afterwards() {
    let folder = tempfile::tempdir().expect("a folder");
    let queries = write(&folder, "q", "example.com A\n");
    let echo = Echo::start();
    let args = ["load", "run", &echo.target, "--queries", &queries, "--rate", "1K", "--duration", "60s"];
    let mut load = dnsrack(&[&args[..], &["--prometheus", "127.0.0.1:0"]].concat())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut lines = BufReader::new(load.stderr.take().expect("a pipe")).lines().map_while(Result::ok);
    let at = lines
        .find_map(|line| Some(line.strip_prefix("metrics at http://")?.strip_suffix("/metrics")?.to_owned()))
        .expect("it says where");
    // A second has been told: then there is something to find.
    lines.find(|line| line.contains("  sent ")).expect("a second");
    let host = format!("Host: {at}\r\n");
    let (head, page) = http(&at, "GET /metrics HTTP/1.1", &host).expect("a page");
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
    assert!(head.contains("content-type: text/plain; version=0.0.4"), "{head}");
    assert!(head.contains(&format!("content-length: {}\r\n", page.len())), "{head}");
    let sent = value(&page, "dnsrack_load_sent_queries_total").expect("a counter");
    assert!(page.contains(&format!("targets=\"{}\"", echo.target)), "{page}");
    // As many as were due until then, less those that a busy machine left unsent.
    let elapsed = value(&page, "dnsrack_load_elapsed_seconds").expect("a time");
    assert!(elapsed >= 1.0 && sent > 0.0 && sent <= 1000.0 * elapsed, "{page}");
    lines.find(|line| line.contains("  sent ")).expect("another second");
    let (_, later) = http(&at, "GET /metrics HTTP/1.0", &host).expect("a page");
    assert!(value(&later, "dnsrack_load_sent_queries_total").is_some_and(|n| n > sent), "{later}");
    assert!(later.contains("dnsrack_core_ratio{core=\"0\",role=\"other\",mode=\"softirq\"}"), "{later}");

    let accept = format!("{host}Accept: application/openmetrics-text\r\n");
    judged(&http(&at, "GET /metrics HTTP/1.1", &accept).expect("a page"));
    let status = |line: &str, host: &str| {
        http(&at, line, host).expect("an answer").0.lines().next().expect("a status").to_owned()
    };
    assert_eq!(status("GET / HTTP/1.1", &host), "HTTP/1.1 404 Not Found");
    assert_eq!(status("POST /metrics HTTP/1.1", &host), "HTTP/1.1 405 Method Not Allowed");
    assert_eq!(status("nonsense", &host), "HTTP/1.1 400 Bad Request");
    // A page of another site that calls this machine by a name of its own reads nothing.
    assert_eq!(status("GET /metrics HTTP/1.1", "Host: evil.example\r\n"), "HTTP/1.1 403 Forbidden");
    let (head, body) = http(&at, "HEAD /metrics HTTP/1.1", &host).expect("a head");
    assert!(head.starts_with("HTTP/1.1 200 OK") && body.is_empty(), "{head}{body}");
    // Whoever says nothing does not keep the load from its end.
    let silent = TcpStream::connect(&at).expect("a connection");
    let pid = rustix::process::Pid::from_child(&load);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).expect("Ctrl-C");
    lines.for_each(drop);
    let done = load.wait_with_output().expect("it ends");
    assert!(matches!(done.status.code(), Some(0 | 3)), "{:?}", done.status);
    drop(silent);
    assert!(TcpStream::connect(&at).is_err(), "nobody serves figures of a load that has ended");
}

/// Has Prometheus's own parser of OpenMetrics (Debian's python3-prometheus-client) read a page.
fn judged((head, page): &(String, String)) {
    assert!(head.contains("content-type: application/openmetrics-text; version=1.0.0"), "{head}");
    const JUDGE: &str = "import sys\nfrom prometheus_client.openmetrics.parser import text_string_to_metric_families as read\n\
                         for family in read(sys.stdin.read()): print(family.type, family.name, len(family.samples))\n";
    let python = |code: &str| {
        let mut python = Command::new("/usr/bin/python3");
        python.args(["-c", code]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        python.spawn()
    };
    if !python("import prometheus_client")
        .and_then(|child| child.wait_with_output())
        .is_ok_and(|o| o.status.success())
    {
        eprintln!("SKIPPED: Prometheus's parser is not installed (python3-prometheus-client)");
        return;
    }
    let mut child = python(JUDGE).expect("python");
    child.stdin.take().expect("a pipe").write_all(page.as_bytes()).expect("written");
    let said = child.wait_with_output().expect("it ends");
    assert!(said.status.success(), "{}{page}", stderr(&said));
    let families = String::from_utf8_lossy(&said.stdout).into_owned();
    assert!(families.contains("histogram dnsrack_load_answer_latency_seconds 21\n"), "{families}");
    assert!(families.contains("counter dnsrack_load_sent_queries 1\n"), "{families}");
}

#[test]
fn figures_are_served_on_loopback_only_and_a_port_that_is_taken_is_said() {
    let folder = tempfile::tempdir().expect("a folder");
    let queries = write(&folder, "q", "example.com A\n");
    let run = |at: &str| {
        let args = ["load", "run", "127.0.0.1:9", "--queries", &queries, "--rate", "1", "--duration", "1s"];
        output(&[&args[..], &["--prometheus", at]].concat())
    };
    let refused = run("0.0.0.0:0");
    assert_eq!(refused.status.code(), Some(2), "{}", stderr(&refused));
    assert!(
        stderr(&refused).contains("--prometheus 0.0.0.0:0: 0.0.0.0:0 is not a loopback"),
        "{}",
        stderr(&refused)
    );
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let at = taken.local_addr().expect("an address").to_string();
    let refused = run(&at);
    assert_eq!(refused.status.code(), Some(2), "{}", stderr(&refused));
    assert!(stderr(&refused).contains(&format!("--prometheus {at}: ")), "{}", stderr(&refused));
}

#[test]
fn the_view_comes_on_wish_and_leaves_its_last_frame() {
    let folder = tempfile::tempdir().expect("a folder");
    let queries = write(&folder, "q", "example.com A\n");
    let echo = Echo::start();
    let run = |more: &[&str]| {
        let args = ["load", "run", &echo.target, "--queries", &queries, "--rate", "1K", "--duration", "2s"];
        let got = dnsrack(&[&args[..], more].concat())
            .env("COLUMNS", "100")
            .env("LINES", "30")
            .output()
            .expect("it starts");
        assert!(matches!(got.status.code(), Some(0 | 3)), "{}", stderr(&got));
        stderr(&got)
    };
    let plain = run(&[]);
    assert!(plain.contains("    1 s  sent ") && !plain.contains('\x1b'), "not a terminal: {plain}");
    let view = run(&["--live", "always", "--json"]);
    let frames: Vec<&str> = view.split("\x1b[J").collect();
    // The piece after the last erasure is what follows the view.
    let [.., last, ""] = frames[..] else { panic!("frames, and nothing after them: {view:?}") };
    assert!(frames.len() > 3 && last.contains("ended") && last.contains("2,000"), "{last:?}");
    assert!(last.starts_with("\r\x1b[") && !view.contains("\x1b[?"), "no mode is changed: {view:?}");
}

#[test]
fn on_a_terminal_the_view_is_there_and_an_interrupted_load_ends_with_its_result() {
    if !has("script") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let queries = write(&folder, "q", "example.com A\n");
    let echo = Echo::start();
    let command = format!(
        "stty rows 40 cols 120; {} load run {} --queries {queries} --rate 1K --duration 60s",
        env!("CARGO_BIN_EXE_dnsrack"),
        echo.target
    );
    let mut terminal = Command::new("script")
        .args(["--quiet", "--flush", "--return", "--command", &command, "/dev/null"])
        .env("TERM", "xterm")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut keyboard = terminal.stdin.take().expect("a pipe");
    let mut screen = terminal.stdout.take().expect("a pipe");
    let (mut seen, mut chunk, mut interrupted) = (String::new(), [0; 4096], false);
    while let Ok(n @ 1..) = screen.read(&mut chunk) {
        seen += &String::from_utf8_lossy(&chunk[..n]);
        // The plots come with the second second.
        if !interrupted && seen.contains("queries per second") && seen.contains("now") {
            keyboard.write_all(b"\x03").expect("the keyboard");
            interrupted = true;
        }
    }
    terminal.wait().expect("it ends");
    assert!(interrupted, "{seen}");
    assert!(seen.contains("cut_short") && !seen.contains("\x1b[?"), "{seen}");
    let after = seen.rsplit("\x1b[J").next().expect("something");
    assert!(
        after.contains("offered") && after.contains("pacing error"),
        "the result follows the view: {seen}"
    );
}
