//! The launcher: processes on a host, or without a rack.

use crate::confined::{As, json, ways};
use rack::{Cmd, Error, Host, Input, Launcher, Local, Output, Process, Substitute};
use std::io::{Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::time::{Duration, Instant};

fn spawn(cmd: &Cmd) -> Process {
    Local.spawn(&Host::loopback(), cmd).unwrap()
}

fn sh(script: &str) -> Cmd {
    Cmd::new("sh").args(["-c", script])
}

const LONG: Duration = Duration::from_secs(10);

#[test]
fn a_process_on_a_host_sees_its_device_and_is_pinned() {
    for who in ways() {
        let seen = json(who, &["run"]);
        let out = seen["out"].as_str().unwrap();
        let cpu = seen["cpus"][0].as_u64().unwrap();
        assert!(out.contains(&format!("Cpus_allowed_list:\t{cpu}\n")), "{out}");
        assert!(out.contains("eth0:"), "{out}");
        assert_eq!(seen["err"], "to-stderr\n");
        assert_eq!(seen["status"], 0);
        assert_eq!(seen["extra"], true, "the further address can be bound");
        assert!(!seen["here"].as_str().unwrap().contains("eth0:"), "our own namespace has lo alone");
    }
}

#[test]
fn pipes_files_environment_and_folder() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let cmd = sh("cat; echo $WORD; pwd; echo oops >&2")
        .env("WORD", "delegation")
        .cwd(folder.path())
        .stdin(Input::Pipe)
        .stdout(Output::Pipe)
        .stderr(Output::File(log.clone()));
    let mut process = spawn(&cmd);
    process.take_stdin().unwrap().write_all(b"one\n").unwrap();
    let mut out = String::new();
    process.take_stdout().unwrap().read_to_string(&mut out).unwrap();
    assert_eq!(out, format!("one\ndelegation\n{}\n", folder.path().canonicalize().unwrap().display()));
    assert!(process.wait_timeout(LONG).unwrap().unwrap().success());
    assert_eq!(std::fs::read_to_string(log).unwrap(), "oops\n");
}

#[test]
fn terminate_asks_first_and_kills_after_the_grace() {
    let mut polite = spawn(&Cmd::new("sleep").arg("100"));
    assert_eq!(polite.try_wait().unwrap(), None);
    assert_eq!(polite.wait_timeout(Duration::from_millis(10)).unwrap(), None);
    assert_eq!(polite.terminate(LONG).unwrap().signal(), Some(15));
    let mut stubborn = spawn(&sh("trap '' TERM; echo; sleep 100; sleep 100").stdout(Output::Pipe));
    stubborn.take_stdout().unwrap().read_exact(&mut [0]).unwrap(); // the trap is set
    assert_eq!(stubborn.terminate(Duration::from_millis(50)).unwrap().signal(), Some(9));
    assert_eq!(stubborn.try_wait().unwrap().unwrap().signal(), Some(9), "the end stays known");
}

#[test]
fn dropping_or_ending_takes_the_whole_group() {
    let child_of = |process: &mut Process| -> u32 {
        let mut line = [0; 32];
        let n = process.take_stdout().unwrap().read(&mut line).unwrap();
        std::str::from_utf8(&line[..n]).unwrap().trim().parse().unwrap()
    };
    let gone = |pid: u32| {
        let until = Instant::now() + LONG;
        let state = || {
            let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
            stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next())
        };
        while !matches!(state(), None | Some('Z')) {
            assert!(Instant::now() < until, "process {pid} is still there");
            std::thread::sleep(Duration::from_millis(5));
        }
    };
    let mut dropped = spawn(&sh("sleep 100 & echo $!; wait").stdout(Output::Pipe));
    let child = child_of(&mut dropped);
    drop(dropped);
    gone(child);
    let mut ended = spawn(&sh("sleep 100 & echo $!").stdout(Output::Pipe));
    let child = child_of(&mut ended);
    assert!(ended.wait_timeout(LONG).unwrap().unwrap().success());
    gone(child);
}

#[test]
fn processes_outlive_the_thread_that_asked_for_them() {
    let mut process = std::thread::spawn(|| spawn(&Cmd::new("sleep").arg("100"))).join().unwrap();
    assert_eq!(process.wait_timeout(Duration::from_millis(100)).unwrap(), None);
    assert_eq!(process.terminate(LONG).unwrap().signal(), Some(15));
}

#[test]
fn errors_name_program_host_and_what_is_missing() {
    let fails = |cmd: &Cmd| Local.spawn(&Host::loopback(), cmd).unwrap_err();
    let missing = fails(&Cmd::new("no-such-server"));
    assert!(matches!(missing, Error::NoProgram { .. }), "{missing}");
    let text = missing.to_string();
    assert!(text.contains("no-such-server") && text.contains("host loopback"), "{text}");
    let folder = fails(&Cmd::new("true").cwd("/no/such/folder"));
    assert!(folder.to_string().contains("/no/such/folder"), "{folder}");
    let file = fails(&Cmd::new("true").stdout(Output::File("/no/such/log".into())));
    assert!(file.to_string().contains("/no/such/log"), "{file}");
    let cpu = fails(&Cmd::new("true").cpus(&[1000]));
    assert!(matches!(cpu, Error::Cpu { cpu: 1000, .. }), "{cpu}");
    let text_file = tempfile::NamedTempFile::new().unwrap();
    assert!(matches!(fails(&Cmd::new(text_file.path())), Error::NoProgram { .. }));
}

#[test]
fn each_datagram_of_a_flood_is_counted_where_it_ended() {
    for who in ways() {
        let seen = json(who, &["flood"]);
        let n = |key: &str| seen[key].as_u64().unwrap();
        // Packets that the kernel sends by itself on a new interface (neighbour discovery, multicast reports) are dropped there, too.
        let all = n("offered")..=n("offered") + 10;
        // The ring of a veth that receives by NAPI may be full: the sender is told.
        assert!(all.contains(&(n("sent") + n("not_sent"))), "{who:?}: {seen}");
        assert_eq!(n("received"), n("read"), "{who:?}: {seen}");
        assert!(n("buffer_full") > 0, "{who:?}: {seen}");
        let ended = n("read") + n("buffer_full") + n("backlog_full") + n("not_sent");
        assert!(all.contains(&ended), "{who:?}: {seen}");
        // As root, receive packet steering has the receiver's own core do the work (where there are two).
        if rustix::process::geteuid().is_root() && who == As::Us && seen["cpus"][0] != seen["cpus"][1] {
            assert!(n("taken_in_by_core_of_b") + n("backlog_full") >= n("sent"), "{seen}");
        }
    }
}

#[test]
fn one_program_is_started_otherwise() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let instead = Substitute {
        launcher: Local,
        program: "sh".into(),
        with: |cmd: &Cmd| cmd.clone().env("WORD", "instead"),
    };
    for program in ["/bin/sh", "/usr/bin/env"] {
        let arguments: &[&str] =
            if program == "/bin/sh" { &["-c", "echo $WORD"] } else { &["echo", "as asked"] };
        let cmd = Cmd::new(program).args(arguments).stdout(Output::File(log.clone()));
        instead.spawn(&Host::loopback(), &cmd).unwrap().wait_timeout(LONG).unwrap().unwrap();
    }
    assert_eq!(std::fs::read_to_string(log).unwrap(), "instead\nas asked\n");
}
