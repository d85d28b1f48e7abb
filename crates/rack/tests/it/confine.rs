//! Confinement: nothing outlives a run, whoever is killed; signals and exit status pass through.

use crate::confined::{As, command, json, ways};
use rustix::process::{Pid, Signal, kill_process};
use std::collections::HashSet;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ExitStatus};
use std::time::{Duration, Instant};

#[test]
fn two_hosts_reach_each_other_at_once_over_ipv4_and_ipv6() {
    for who in ways() {
        let seen = json(who, &["ping"]);
        assert_eq!(seen["pings"], serde_json::json!(["10.53.0.2", "fd53::2"]), "{who:?}");
        let privileged = who == As::Us && rustix::process::geteuid().is_root();
        assert_eq!(seen["user_namespace"], !privileged, "{who:?}");
        for steering in seen["steering"].as_array().unwrap() {
            let method = if privileged { "rps" } else { "threaded-napi" };
            assert_eq!(steering["method"], method, "{who:?}: {steering}");
            assert_eq!(steering["notes"].as_array().unwrap().is_empty(), privileged, "{who:?}: {steering}");
        }
    }
}

#[test]
fn three_hosts_are_joined_by_a_switch() {
    for who in ways() {
        let seen = json(who, &["switch"]);
        assert_eq!(seen, serde_json::json!({"switch": true, "pings": ["10.53.0.3", "fd53::3"]}), "{who:?}");
    }
}

#[test]
fn status_and_signals_pass_through() {
    for who in ways() {
        assert_eq!(command(who, &["exit", "3"]).status().unwrap().code(), Some(3));
        let killed = command(who, &["signal", "9"]).output().unwrap();
        assert_eq!(killed.status.code(), Some(137));
        assert!(String::from_utf8_lossy(&killed.stderr).contains("signal 9 (SIGKILL"), "{killed:?}");
        for (signal, code) in [(Signal::TERM, 143), (Signal::INT, 130), (Signal::HUP, 129)] {
            let mut child = command(who, &["sleep"]).spawn().unwrap();
            first_line(&mut child);
            kill_process(Pid::from_child(&child), signal).unwrap();
            assert_eq!(end(&mut child).code(), Some(code), "{who:?} {signal:?}");
        }
    }
}

#[test]
fn orphans_are_reaped() {
    for who in ways() {
        assert_eq!(json(who, &["orphans"])["zombies"], 0, "{who:?}");
    }
}

#[test]
fn killing_any_of_its_processes_leaves_nothing() {
    for who in ways() {
        for victim in ["outer", "init", "inner"] {
            let mark = format!("k{}-{}{}", std::process::id() % 100_000, &victim[..3], who as u8);
            let mut child = command(who, &["hold", &mark]).spawn().unwrap();
            let line: serde_json::Value = serde_json::from_str(&first_line(&mut child)).unwrap();
            let namespaces = new_namespaces(&line);
            let all = if who == As::Contained { 5 } else { 6 };
            assert_eq!(namespaces.len(), all, "{who:?}: each namespace is a new one: {namespaces:?}");
            let outer = child.id();
            let init = only_child(outer);
            let inner = only_child(init);
            let until = Instant::now() + Duration::from_secs(10);
            let mut before = holders(&namespaces);
            while before.len() < 4 && Instant::now() < until {
                std::thread::sleep(Duration::from_millis(5));
                before = holders(&namespaces);
            }
            assert!(before.len() >= 4, "init, inner and two servers: {before:?}");
            let victim_pid = match victim {
                "outer" => outer,
                "init" => init,
                _ => inner,
            };
            kill_process(Pid::from_raw(victim_pid as i32).unwrap(), Signal::KILL).unwrap();
            let status = end(&mut child);
            if victim != "outer" {
                assert_eq!(status.code(), Some(137), "{victim}");
            }
            let left = || {
                let pids = before.iter().filter_map(|h| h.split(' ').next()?.parse::<u32>().ok());
                let environ =
                    |pid: &u32| fs::read_to_string(format!("/proc/{pid}/environ")).unwrap_or_default();
                let lives =
                    pids.filter(|pid| environ(pid).contains(&mark)).map(|pid| format!("process {pid}"));
                let links = fs::read_dir("/sys/class/net").unwrap().flatten();
                let links = links.map(|link| link.file_name().into_string().unwrap());
                let links = links.filter(|name| name.starts_with(&mark));
                holders(&namespaces).into_iter().chain(lives).chain(links).collect()
            };
            assert_eq!(soon_none(left), Vec::<String>::new(), "{who:?}: outlives {victim}");
        }
    }
}

#[test]
fn killing_a_server_leaves_the_run_and_its_end_leaves_nothing() {
    for who in ways() {
        let mark = format!("s{}{}", std::process::id() % 100_000, who as u8);
        let mut child = command(who, &["hold", &mark]).spawn().unwrap();
        let line: serde_json::Value = serde_json::from_str(&first_line(&mut child)).unwrap();
        let namespaces = new_namespaces(&line);
        let inner = only_child(only_child(child.id()));
        let server = only_child(inner);
        kill_process(Pid::from_raw(server as i32).unwrap(), Signal::KILL).unwrap();
        std::thread::sleep(Duration::from_millis(100));
        assert!(child.try_wait().unwrap().is_none(), "the run goes on");
        kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
        assert_eq!(end(&mut child).code(), Some(143));
        assert_eq!(soon_none(|| holders(&namespaces)), Vec::<String>::new(), "{who:?}");
    }
}

/// The namespaces that a program names, but those that we are in.
fn new_namespaces(line: &serde_json::Value) -> HashSet<String> {
    let all = line["namespaces"].as_array().unwrap().iter().map(|n| n.as_str().unwrap().to_owned());
    let own = ["net", "pid", "mnt", "ipc"]
        .map(|kind| fs::read_link(format!("/proc/self/ns/{kind}")).unwrap().display().to_string());
    all.filter(|namespace| !own.contains(namespace)).collect()
}

/// What is still there when it should have gone: the kernel takes its time, on a busy machine seconds.
fn soon_none(left: impl Fn() -> Vec<String>) -> Vec<String> {
    let until = Instant::now() + Duration::from_secs(30);
    loop {
        let now = left();
        if now.is_empty() || Instant::now() > until {
            return now;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Whatever keeps one of these namespaces: a process in it, an open descriptor, a mount.
fn holders(namespaces: &HashSet<String>) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let Ok(pid) = entry.file_name().into_string().unwrap_or_default().parse::<u32>() else { continue };
        let mut kept = HashSet::new();
        for folder in ["ns", "fd"] {
            for link in fs::read_dir(entry.path().join(folder)).into_iter().flatten().flatten() {
                if let Ok(target) = fs::read_link(link.path()) {
                    kept.insert(target.display().to_string());
                }
            }
        }
        let mounts = fs::read_to_string(entry.path().join("mountinfo")).unwrap_or_default();
        if let Some(name) = namespaces.iter().find(|n| kept.contains(*n) || mounts.contains(n.as_str())) {
            found.push(format!("{pid} {name}"));
        }
    }
    found
}

fn only_child(pid: u32) -> u32 {
    let stat = |pid: u32| fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let parent =
        |pid: u32| -> Option<u32> { stat(pid).rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok() };
    let all = fs::read_dir("/proc").unwrap().flatten();
    let mut children =
        all.filter_map(|e| e.file_name().to_str()?.parse().ok()).filter(|&p| parent(p) == Some(pid));
    children.next().unwrap_or_else(|| panic!("process {pid} has no child"))
}

fn first_line(child: &mut Child) -> String {
    let mut line = String::new();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    out.read_line(&mut line).unwrap();
    if line.is_empty() {
        let mut errors = String::new();
        child.stderr.take().unwrap().read_to_string(&mut errors).unwrap();
        panic!("it ended: {errors}");
    }
    line
}

fn end(child: &mut Child) -> ExitStatus {
    let until = Instant::now() + Duration::from_secs(10);
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status;
        }
        assert!(Instant::now() < until, "process {} does not end", child.id());
        std::thread::sleep(Duration::from_millis(10));
    }
}
