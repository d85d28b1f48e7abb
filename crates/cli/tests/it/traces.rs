//! `dnsrack trace` on captures of known content, made in a rack.

use crate::rack::User;
use crate::{dnsrack, has, output, stderr, stdout, write};
use serde_json::Value;
use std::fs::File;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const TWO: &str = "[[hosts]]\nname = \"server\"\n[[hosts]]\nname = \"client\"\n";

/// What runs on a host of the rack until this is dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // Not SIGKILL: a capture is to be written to its end.
        let pid = rustix::process::Pid::from_child(&self.0);
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        let _ = self.0.wait();
    }
}

fn nsd(user: &User) -> Running {
    let folder = user.folder.path().display();
    let text = |octets: usize| format!("\"{}\" ", "x".repeat(250)).repeat(octets / 250);
    let zone = format!(
        "$ORIGIN example.\n@ 60 SOA ns.example. h.example. 1 60 60 60 60\n@ 60 NS ns\nns 60 A 10.53.0.1\n\
         a 60 A 192.0.2.1\nlarge 60 TXT {}\n",
        text(2000)
    );
    write(&user.folder, "zone", &zone);
    let config = format!(
        "server:\n username: \"\"\n database: \"\"\n zonesdir: \"{folder}\"\n pidfile: \"\"\n xfrdfile: \"\"\n \
         zonelistfile: \"\"\n ip-address: 10.53.0.1\n server-count: 1\n ipv4-edns-size: 4096\n rrl-ratelimit: 0\n\
         remote-control:\n control-enable: no\nzone:\n name: \"example.\"\n zonefile: \"zone\"\n"
    );
    let config = write(&user.folder, "nsd.conf", &config);
    let args = ["exec", "--rack", &user.name, "server", "nsd", "-d", "-c", &config];
    let child = user.command(&args).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts");
    Running(child)
}

/// Sends queries and gives the load's result.
fn load(user: &User, queries: &str, count: &str, more: &[&str]) -> Value {
    let queries = write(&user.folder, "queries", queries);
    let program = user.folder.path().join("dnsrack");
    let mut command = user.command(&["exec", "--rack", &user.name, "client", program.to_str().unwrap()]);
    command.args(["--json", "load", "run", "10.53.0.1", "--queries", &queries, "--rate", "500"]);
    command.args(["--count", count, "--deadline", "2s"]).args(more);
    let got = command.output().expect("it runs");
    let said = String::from_utf8_lossy(&got.stderr);
    serde_json::from_slice(&got.stdout).unwrap_or_else(|e| panic!("{e}: {said}"))
}

fn until(what: &str, mut ready: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(30);
    while !ready() {
        assert!(Instant::now() < end, "{what} in vain");
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// Sends queries of several kinds while dumpcap captures them; none where some were not sent.
fn sent_and_captured(user: &User, attempt: u32) -> Option<(std::path::PathBuf, Running, Value, Value)> {
    // On all interfaces: Linux cooked capture. To standard output, as the folder is not everybody's.
    let path = user.folder.path().join(format!("capture-{attempt}"));
    let args = ["exec", "--rack", &user.name, "server", "dumpcap", "-q", "-p", "-i", "any", "-w", "-"];
    let out = File::create(&path).expect("a file");
    let dumpcap = user.command(&args).stdout(out).stderr(Stdio::null()).spawn().expect("it starts");
    let dumpcap = Running(dumpcap);
    until("dumpcap begins", || path.metadata().is_ok_and(|m| m.len() > 0));
    std::thread::sleep(Duration::from_millis(500));
    // Half of them exist; without EDNS, so that the large one is truncated and asked for again.
    let names = "a.example. A\nno.example. AAAA\nlarge.example. TXT\nnone.example. A\n";
    let sent = load(user, names, "400", &["--transport", "udp+tcp"]);
    // 2,000 octets over UDP: two fragments each.
    let large = load(user, "large.example. TXT\n", "50", &["--edns", "4096", "--do"]);
    if sent["unsent"] != 0 || large["unsent"] != 0 {
        return None;
    }
    assert_eq!((&sent["answered"], &sent["truncated"]), (&Value::from(400), &Value::from(100)), "{sent}");
    assert_eq!((&large["answered"], &large["truncated"]), (&Value::from(50), &Value::from(0)), "{large}");
    Some((path, dumpcap, sent, large))
}

#[test]
fn a_capture_tells_what_was_sent() {
    if !has("nsd") || !has("dumpcap") {
        return;
    }
    for user in User::all("t") {
        user.up_with(TWO);
        let nsd = nsd(&user);
        until("NSD answers", || load(&user, "example. SOA\n", "5", &[])["answered"] == 5);

        // On a busy machine the generator leaves out what is overdue: then it is done again.
        let mut attempts = (1..=5).filter_map(|attempt| sent_and_captured(&user, attempt));
        let (path, dumpcap, sent, large) =
            attempts.next().expect("all queries are sent in one of five attempts");
        // Connections without a word.
        let knock = "for n in 1 2 3 4 5 6 7; do exec 3<>/dev/tcp/10.53.0.1/53; exec 3>&-; done";
        let args = ["exec", "--rack", &user.name, "client", "bash", "-c", knock];
        assert!(user.command(&args).status().expect("it runs").success());
        // A port that nobody listens to makes the server's host send an ICMP error, which is not about DNS.
        until("all is captured", || {
            std::thread::sleep(Duration::from_millis(500));
            let info = info(path.to_str().unwrap());
            info["tcp"]["no_op"] == 7 && info["queries"] == 550
        });
        drop((dumpcap, nsd));

        let info = info(path.to_str().unwrap());
        let count_at = |pointer: &str| info.pointer(pointer).and_then(Value::as_u64).unwrap_or(0);
        let all = [
            ("/transport/udp", 450),
            ("/transport/tcp", 100),
            ("/responses", 550),
            ("/types/A/count", 200),
            ("/types/A/failed", 100),
            ("/types/AAAA/failed", 100),
            ("/types/TXT/count", 250),
            ("/types/TXT/failed", 0),
            ("/rcodes/NXDOMAIN", 200),
            ("/unanswered", 0),
            ("/unsolicited", 0),
            ("/edns/present", 50),
            ("/edns/do", 50),
            ("/edns/sizes/4096", 50),
            ("/truncated", 100),
            ("/truncated_then_tcp", 100),
            ("/truncation/without_edns/retried", 100),
            ("/truncation/do/truncated", 0),
            ("/fragments", 100),
            ("/tcp/no_op", 7),
            ("/latency_us/count", 550),
            ("/clients", 1),
        ];
        for (pointer, count) in all {
            assert_eq!(count_at(pointer), count, "{pointer} of {info}");
        }
        assert_eq!(
            count_at("/tcp/with_dns") + count_at("/tcp/no_op"),
            count_at("/tcp/connections"),
            "{info}"
        );
        let rcodes = [&sent, &large].map(|r| r["rcodes"]["NOERROR"].as_u64().unwrap());
        assert_eq!(
            count_at("/rcodes/NOERROR"),
            rcodes.iter().sum::<u64>() + 100,
            "the retries are answered too"
        );
    }
}

fn info(path: &str) -> Value {
    let got = output(&["--json", "trace", "info", path]);
    assert!(got.status.success(), "{}", stderr(&got));
    serde_json::from_slice(&got.stdout).expect("JSON")
}

/// A capture of queries, from a profile over a list of names.
fn generated(folder: &tempfile::TempDir, name: &str, profile: &str, seed: &str) -> String {
    let names = write(folder, "names", "com\nnet\norg\nexample\n");
    let path = folder.path().join(name).to_str().unwrap().to_owned();
    let args =
        ["traffic", "generate", profile, "--names", &names, "--count", "20K", "--seed", seed, "-o", &path];
    let got = output(&args);
    assert!(got.status.success(), "{}", stderr(&got));
    path
}

#[test]
fn what_was_generated_is_found_again_and_compared() {
    let folder = tempfile::tempdir().expect("a folder");
    let (a, b) = (generated(&folder, "a.pcap", "rzaia", "1"), generated(&folder, "b.pcap", "rzaia", "2"));
    let other = generated(&folder, "c.pcap", "isc", "1");
    let found = info(&a);
    let share = |name: &str| found.pointer(name).unwrap().as_u64().unwrap() as f64 / 20_000.0;
    for (name, expected) in [("/edns/present", 0.75), ("/edns/do", 0.70), ("/df", 0.77)] {
        let error = 6.0 * (expected * (1.0 - expected) / 20_000.0f64).sqrt();
        assert!((share(name) - expected).abs() <= error, "{name}: {}", share(name));
    }
    assert_eq!((&found["queries"], &found["unanswered"]), (&20_000.into(), &20_000.into()));
    let same = output(&["--json", "trace", "compare", &a, &b]);
    assert_eq!(same.status.code(), Some(0), "{}", stdout(&same));
    let differs = output(&["--json", "trace", "compare", &a, &other]);
    assert_eq!(differs.status.code(), Some(3));
    let differs: Value = serde_json::from_slice(&differs.stdout).expect("JSON");
    assert!(differs["different"].as_array().unwrap().contains(&"EDNS".into()), "{differs}");
    let text = stdout(&output(&["trace", "compare", &a, &other, "--full"]));
    assert!(text.contains("different by more than 5.00 %") && text.contains("p90, octets"), "{text}");
}

#[test]
fn a_trace_comes_through_a_pipe_and_cut_short() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = generated(&folder, "a.pcap", "rzaia", "1");
    let piped = Command::new(env!("CARGO_BIN_EXE_dnsrack"))
        .args(["--json", "trace", "info", "-"])
        .stdin(File::open(&path).unwrap())
        .output()
        .expect("the program starts");
    let piped: Value = serde_json::from_slice(&piped.stdout).expect("JSON");
    assert_eq!(piped, info(&path));
    let bytes = std::fs::read(&path).unwrap();
    let cut = folder.path().join("cut.pcap");
    std::fs::write(&cut, &bytes[..bytes.len() - 7]).unwrap();
    let cut = info(cut.to_str().unwrap());
    assert_eq!(
        (&cut["packets"], &cut["ignored"]["files that end within a packet"]),
        (&19_999.into(), &1.into())
    );
}

#[test]
fn plots_go_into_a_new_folder_only() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = generated(&folder, "a.pcap", "rzaia", "1");
    let plots = folder.path().join("plots").to_str().unwrap().to_owned();
    assert!(output(&["trace", "info", &path, "--plot", &plots]).status.success());
    let queries = std::fs::read_to_string(format!("{plots}/queries.svg")).expect("a plot");
    assert!(queries.starts_with("<svg") && queries.contains("per second"));
    let series = std::fs::read_to_string(format!("{plots}/series.csv")).expect("a table");
    let sum: u64 = series.lines().skip(1).map(|l| l.split(',').nth(2).unwrap().parse::<u64>().unwrap()).sum();
    assert_eq!(sum, 20_000);
    // Two captures apart have a line each.
    let (other, apart) = (generated(&folder, "b.pcap", "rzaia", "2"), folder.path().join("apart"));
    let apart = apart.to_str().unwrap();
    assert!(output(&["trace", "info", &path, &other, "--plot", apart, "--apart"]).status.success());
    let both = std::fs::read_to_string(format!("{apart}/queries.svg")).expect("a plot");
    assert!(both.contains(">a.pcap, UDP<") && both.contains(">b.pcap, UDP<"), "{both}");
    let again = output(&["trace", "info", &path, "--plot", &plots]);
    assert_eq!(again.status.code(), Some(1));
    assert!(stderr(&again).contains("give a new folder"), "{}", stderr(&again));
    let none = output(&["trace", "info", "/nonexistent.pcap"]);
    assert!(none.status.code() == Some(1) && stderr(&none).contains("/nonexistent.pcap: No such file"));
    let wrong = dnsrack(&["trace", "compare", &path, &path, "--threshold", "2"]).output().unwrap();
    assert_eq!(wrong.status.code(), Some(2));
}
