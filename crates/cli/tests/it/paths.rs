//! `dnsrack rack` with paths: they are open while the rack is up, told of, and gone with it; the role that emulates them.

use crate::rack::User;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

const PATH: &str = "[[hosts]]\nname = \"server\"\n[[hosts]]\nname = \"near\"\n[[hosts]]\nname = \"far\"\n\
                    [[paths]]\nbetween = [\"server\", \"far\"]\ndelay = \"30ms\"\n";

/// `load echo` on host server; killed when dropped.
struct Echo(Child);

impl Drop for Echo {
    fn drop(&mut self) {
        let _ = self.0.kill().and_then(|()| self.0.wait());
    }
}

impl Echo {
    fn start(user: &User) -> Self {
        let args = ["exec", "--rack", &user.name, "server"];
        let program = user.program_path();
        let mut command = user.command(&args);
        let command = command.args([&program, "load", "echo", "10.53.0.1:5300"]);
        Self(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
    }
}

/// A small load from a host to the echo: its result.
fn load(user: &User, host: &str) -> Value {
    let queries = crate::write(&user.folder, "queries", "example. NS\n");
    let program = user.program_path();
    let got = user
        .command(&["exec", "--rack", &user.name, host, &program])
        .args(["--json", "load", "run", "10.53.0.1:5300", "--queries", &queries])
        .args(["--rate", "100", "--duration", "500ms", "--deadline", "2s"])
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&got.stdout).into_owned();
    serde_json::from_str(&text)
        .unwrap_or_else(|e| panic!("{e}: {text}{}", String::from_utf8_lossy(&got.stderr)))
}

/// The rack's paths as `rack list --json` has them, as soon as `good` holds.
fn paths(user: &User, good: impl Fn(&Value) -> bool) -> Value {
    let until = Instant::now() + Duration::from_secs(10);
    loop {
        let paths = user.listed().expect("it is up")["paths"].clone();
        if good(&paths) || Instant::now() > until {
            assert!(good(&paths), "{paths}");
            return paths;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_path_is_open_while_its_rack_is_up() {
    for user in User::all("p") {
        user.up_with(PATH);
        let echo = Echo::start(&user);
        let until = Instant::now() + Duration::from_secs(20);
        while load(&user, "near")["answered"] == 0 {
            assert!(Instant::now() < until, "no answers");
        }
        // Who has no path is near; who has one is not.
        let far = load(&user, "far");
        assert_eq!(far["answered"], far["sent"], "{far}");
        let (p50, least) = (far["latency_us"]["p50"].as_f64().unwrap(), 60_000.0);
        assert!(p50 >= least, "there and back takes {p50} us");
        let sent = far["sent"].as_u64().unwrap();
        let seen = paths(&user, |p| p["report"]["directions"][0]["delivered"].as_u64() >= Some(sent));
        let directions = seen["report"]["directions"].as_array().unwrap();
        let names: Vec<_> = directions.iter().map(|d| (&d["from"], &d["to"])).collect();
        assert_eq!(names, [(&json!("server"), &json!("far")), (&json!("far"), &json!("server"))]);
        assert_eq!((&seen["open"], &seen["emulation"]["method"]), (&true.into(), &"user space".into()));
        let shown = user.good(&["list"]);
        assert!(shown.contains("router") && shown.contains("far → server"), "{shown}");

        // The router is a place for programs too.
        let ports = user.good(&["exec", "--rack", &user.name, "router", "cat", "/proc/net/dev"]);
        assert!(["server:", "near:", "far:"].iter().all(|port| ports.contains(port)), "{ports}");

        let pid = seen["emulator"]["pid"].as_i64().unwrap();
        kill_process(Pid::from_raw(pid as i32).unwrap(), Signal::KILL).unwrap();
        let gone = paths(&user, |p| p["open"] == false);
        assert_eq!(load(&user, "far")["answered"], 0, "{gone}");
        assert!(user.good(&["list"]).contains("the emulator is gone"));
        role(&user, &seen["paths"], || {
            let far = load(&user, "far");
            assert_eq!(far["answered"], far["sent"], "{far}");
        });
        drop(echo);
        user.good(&["down", &user.name]);
        user.assert_nothing_left();
    }
}

#[test]
fn taking_a_rack_down_ends_its_emulator() {
    for user in User::all("q") {
        user.up_with(PATH);
        let pid = paths(&user, |p| p["open"] == true)["emulator"]["pid"].as_u64().unwrap();
        user.good(&["down", &user.name]);
        user.assert_nothing_left();
        let line = fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        assert!(!line.contains("emulate"), "{line}");
    }
}

#[test]
fn killing_up_at_any_moment_leaves_no_emulator() {
    for user in User::all("w") {
        let file = user.file(PATH);
        for delay in [0, 5, 10, 20, 40, 80, 160, 320] {
            let mut up =
                user.command(&["up", &file, "--name", &user.name]).stdout(Stdio::null()).spawn().unwrap();
            std::thread::sleep(Duration::from_millis(delay));
            up.kill().unwrap();
            up.wait().unwrap();
            if user.listed().is_some() {
                user.good(&["down", &user.name]);
            }
            user.assert_nothing_left();
        }
    }
}

#[test]
fn a_path_that_cannot_be_is_refused_with_its_line_or_hosts() {
    for user in User::all("x") {
        let up = |paths: &str| {
            let file = format!("[[hosts]]\nname = \"a\"\n[[hosts]]\nname = \"b\"\n[[paths]]\n{paths}");
            user.fails(&["up", &user.file(&file), "--name", &user.name])
        };
        let key = up("between = [\"a\", \"b\"]\nlatency = \"1ms\"\n");
        assert!(key.contains("rack.toml:7:1: ") && key.contains("latency"), "{key}");
        assert!(up("between = [\"a\", \"d\"]\n").contains("no host 'd', only a, b"));
        assert!(up("between = [\"a\", \"b\"]\nloss = 2\n").contains("loss = 2"));
        user.assert_nothing_left();
    }
}

/// `role path` on the router of a rack whose emulator is gone.
fn role(user: &User, paths: &Value, works: impl FnOnce()) {
    let program = user.program_path();
    let plan = json!({"device": "switch", "mtu": 1500, "hosts": ["server", "near", "far"], "paths": paths});
    let mut child = user
        .command(&["exec", "--rack", &user.name, "router", &program, "role", "path"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    writeln!(stdin, "{plan}").unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut next = || -> Value { serde_json::from_str(&lines.next().expect("an event").unwrap()).unwrap() };
    assert_eq!(next(), json!({"event": "ready"}));
    works();
    let progress = next();
    assert_eq!((&progress["event"], &progress["second"]), (&"progress".into(), &1.into()));
    assert_eq!(progress["values"]["directions"][0]["from"], "server");
    drop(stdin);
    let done = loop {
        let event = next();
        if event["event"] != "progress" {
            break event;
        }
    };
    assert_eq!(done["event"], "done");
    let result = &done["result"];
    assert_eq!(result["validity"]["valid"], true, "{done}");
    assert!(result["directions"][1]["packets_in"].as_u64() > Some(0), "{done}");
    assert!(child.wait().unwrap().success());
}
