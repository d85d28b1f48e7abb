//! Experiments whose hosts are other machines, each with an agent: hosts of a rack that stands, reached by a command and by ssh.

use crate::rack::User;
use crate::{TINY, has, stderr, write};
use measure::params;
use results::RunDir;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

const THREE: &str = "[[hosts]]\nname = \"server\"\ncpus = [0]\n[[hosts]]\nname = \"generator\"\ncpus = [1]\n\
                     [[hosts]]\nname = \"primary\"\ncpus = [0]\n[[hosts]]\nname = \"control\"\n";

/// Runs an experiment on the machines of a rack file, from the rack's host `control`.
fn run(user: &User, dir: &Path, text: &str, sets: &[&str], rack: &str, path: Option<&str>) -> Output {
    let experiment = write(&user.folder, "experiment.toml", text);
    let program = user.program_path();
    let dir = dir.display().to_string();
    let mut args = vec!["rack", "exec", "--rack", &user.name, "control"];
    let search = path.map(|path| format!("PATH={path}:{}", std::env::var("PATH").unwrap_or_default()));
    args.extend(search.iter().flat_map(|search| ["env", search.as_str()]));
    args.extend([program.as_str(), "experiment", "run", &experiment, "--rack", rack, "-o", &dir]);
    args.extend(sets.iter().flat_map(|set| ["--set", set]));
    user.program(&args).output().expect("it runs")
}

/// The rack file: each host by a command that enters it.
fn by_command(user: &User, folder: &Path) -> String {
    let (program, name) = (user.program_path(), &user.name);
    let host = |host: &str, n: u32, cpu: u32| {
        format!(
            "[[hosts]]\nname = \"{host}\"\ncommand = [\"{program}\", \"rack\", \"exec\", \"--rack\", \"{name}\", \"{host}\"]\n\
             addresses = [\"10.53.0.{n}\", \"fd53::{n}\"]\ncpus = [{cpu}]\nfolder = \"{}\"\n",
            folder.join(host).display()
        )
    };
    let text = host("server", 1, 0) + &host("generator", 2, 1) + &host("primary", 3, 0);
    write(&user.folder, "machines.toml", &text)
}

/// A folder that the user of a test may write to.
fn open_folder() -> tempfile::TempDir {
    tempfile::Builder::new().permissions(std::fs::Permissions::from_mode(0o777)).tempdir_in("/tmp").unwrap()
}

fn root() -> bool {
    let root = rustix::process::geteuid().is_root();
    if !root {
        eprintln!("SKIPPED: it needs root");
    }
    root
}

fn two_cores() -> bool {
    let enough = std::thread::available_parallelism().is_ok_and(|n| n.get() >= 2);
    if !enough {
        eprintln!("SKIPPED: it needs two cores");
    }
    enough
}

/// The files of agents: nothing of a run is left, only what was copied.
fn assert_tidy(folder: &Path) {
    for host in ["server", "generator"] {
        let names = std::fs::read_dir(folder.join(host)).expect("its folder").map(|e| e.unwrap().file_name());
        let names: Vec<String> = names.map(|name| name.to_string_lossy().into_owned()).collect();
        assert!(names.iter().all(|n| n == "files" || n.starts_with("dnsrack-")), "{names:?}");
        assert!(names.len() == 2, "{names:?}");
    }
}

#[test]
fn hosts_by_a_command_measure_the_same() {
    if !root() || !has("nsd") || !two_cores() {
        return;
    }
    // As another user we could not enter the rack's hosts from inside one of them.
    let user = User::all("c").remove(0);
    user.up_with(THREE);
    let (runs, files) = (open_folder(), open_folder());
    let rack = by_command(&user, files.path());
    let dir = runs.path().join("run");
    let sets = [
        "measure=memory,load,latency",
        "latency.witness=true",
        "zone.sign=ECDSAP256SHA256",
        "zone.families=S-6-DS100",
    ];
    let got = run(&user, &dir, TINY, &sets, &rack, None);
    let said = stderr(&got);
    assert!(matches!(got.status.code(), Some(0 | 3)), "{said}");
    assert!(said.contains("its clock"), "{said}");
    let kept = RunDir::open(&dir).expect("the run directory is whole");
    assert_eq!(kept.trials().len(), 3, "{said}");
    for trial in kept.trials() {
        assert_eq!(trial.error, None, "{said}");
        let metric = |name: &str| trial.outcome.metric_named(name);
        assert!(metric("server_pss").is_some_and(|b| b > 1e6), "{:?}", trial.outcome.metrics);
        match trial.param(params::MEASURE) {
            Some("latency") => {
                assert_eq!(metric("offered"), Some(500.0));
                assert_eq!(metric("sent").unwrap() + metric("unsent").unwrap(), 500.0);
                assert!(metric("answered").unwrap() > 0.0 && metric("mismatched") == Some(0.0));
                // The capture at the server has the same queries, read by another clock.
                let queries = metric("witness_queries").expect("a witness");
                assert!((queries - metric("sent").unwrap()).abs() <= 5.0, "{queries}");
                assert!(trial.series.iter().any(|row| row.metric == "server_cpu"), "{:?}", trial.series);
                if has("delv") {
                    assert_eq!(metric("answers_not_validated"), Some(0.0), "{:?}", trial.outcome.validity);
                }
            }
            Some("load") => assert!(metric("reload_seconds").is_some(), "{:?}", trial.outcome),
            _ => {}
        }
        let log = dir.join("servers").join(trial.id.to_string());
        assert!(std::fs::read_dir(&log).is_ok_and(|mut files| files.next().is_some()), "no logs in {log:?}");
    }
    let environment = kept.environment();
    assert_eq!(environment["co_located"], false);
    assert_eq!(environment["machines"].as_array().map(Vec::len), Some(2), "{environment}");
    assert_tidy(files.path());
    // What is not there is said before anything starts.
    let text = std::fs::read_to_string(&rack).unwrap().replace("10.53.0.1\"", "10.53.0.77\"");
    let wrong = write(&user.folder, "wrong.toml", &text.replace("fd53::2", "fd53::78"));
    let got = run(&user, &runs.path().join("none"), TINY, &[], &wrong, None);
    let said = stderr(&got);
    assert_eq!(got.status.code(), Some(1), "{said}");
    assert!(said.contains("host server: no interface of") && said.contains("10.53.0.77"), "{said}");
    assert!(said.contains("host generator: no interface of") && said.contains("fd53::78"), "{said}");
    assert!(!runs.path().join("none").exists());
}

/// An sshd on a host of the rack; ended when it is dropped.
struct Sshd(Child);

impl Drop for Sshd {
    fn drop(&mut self) {
        let _ = self.0.kill().and_then(|()| self.0.wait());
    }
}

/// Keys, and the options of ssh; each host's sshd.
fn ssh(user: &User, hosts: &[(&str, u32)]) -> Option<(String, Vec<Sshd>)> {
    let folder = user.folder.path();
    let key = |name: &str| {
        let file = folder.join(name);
        let made =
            Command::new("ssh-keygen").args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(&file).status();
        assert!(made.expect("ssh-keygen").success());
        file.display().to_string()
    };
    let (own, of_hosts) = (key("id"), key("host"));
    std::fs::create_dir_all("/run/sshd").ok()?;
    let started = hosts.iter().map(|(host, n)| {
        let mut args =
            vec!["exec", "--rack", user.name.as_str(), host, "/usr/sbin/sshd", "-D", "-e", "-f", "/dev/null"];
        let keys = format!("AuthorizedKeysFile={own}.pub");
        let at = format!("ListenAddress=10.53.0.{n}");
        args.extend(["-h", &of_hosts, "-o", &keys, "-o", &at, "-o", "StrictModes=no", "-o", "PidFile=none"]);
        Sshd(user.command(&args).stderr(Stdio::null()).spawn().expect("sshd"))
    });
    let started = started.collect();
    // As a user has it in ~/.ssh/config.
    let config = format!(
        "Host *\nIdentityFile {own}\nStrictHostKeyChecking no\nUserKnownHostsFile {}\nUser root\n",
        folder.join("known").display()
    );
    let config = write(&user.folder, "ssh_config", &config);
    let bin = folder.join("bin");
    std::fs::create_dir(&bin).unwrap();
    let wrapper = bin.join("ssh");
    std::fs::write(&wrapper, format!("#!/bin/sh\nexec /usr/bin/ssh -F {config} \"$@\"\n")).unwrap();
    std::fs::set_permissions(&wrapper, std::fs::Permissions::from_mode(0o755)).unwrap();
    Some((bin.display().to_string(), started))
}

#[test]
fn hosts_by_ssh_carry_updates_to_a_secondary() {
    if !root() || !["sshd", "nsd", "named"].iter().all(|p| has(p)) || !two_cores() {
        return;
    }
    let user = User::all("s").remove(0);
    user.up_with(THREE);
    let hosts = [("server", 1), ("generator", 2), ("primary", 3)];
    let Some((bin, _sshds)) = ssh(&user, &hosts) else {
        eprintln!("SKIPPED: /run/sshd cannot be made");
        return;
    };
    let (runs, files) = (open_folder(), open_folder());
    let cpus = [0, 1, 0];
    let host = |((name, n), cpu): (&(&str, u32), u32)| {
        format!(
            "[[hosts]]\nname = \"{name}\"\nssh = \"root@10.53.0.{n}\"\naddresses = [\"10.53.0.{n}\", \"fd53::{n}\"]\n\
             cpus = [{cpu}]\nfolder = \"{}\"\n",
            files.path().join(name).display()
        )
    };
    let text: String = hosts.iter().zip(cpus).map(host).collect();
    let rack = write(&user.folder, "machines.toml", &text);
    let sets = [
        "measure=transfer,lag",
        "distribution.primary=bind",
        "distribution.secondaries=1",
        "updates.rates=4",
        "updates.duration=3s",
    ];
    let until = Instant::now() + Duration::from_secs(20);
    let dir = runs.path().join("run");
    let got = loop {
        let got = run(&user, &dir, TINY, &sets, &rack, Some(&bin));
        // The daemons may need a moment.
        if !stderr(&got).contains("refused") || Instant::now() > until {
            break got;
        }
    };
    let said = stderr(&got);
    assert!(matches!(got.status.code(), Some(0 | 3)), "{said}");
    let kept = RunDir::open(&dir).expect("the run directory is whole");
    assert_eq!(kept.trials().len(), 2, "{said}");
    for trial in kept.trials() {
        assert_eq!(trial.error, None, "{said}");
        let metric = |name: &str| trial.outcome.metric_named(name);
        if trial.param(params::MEASURE) == Some("lag") {
            assert!(metric("markers_seen").is_some_and(|n| n > 0.0), "{:?}", trial.outcome);
            assert!(metric("ixfr_transfers").is_some_and(|n| n > 0.0), "{:?}", trial.outcome);
        } else {
            assert!(metric("transfer_records").is_some_and(|n| n > 300.0), "{:?}", trial.outcome);
        }
    }
    assert_tidy(files.path());
    // A key that is not taken is said, and nothing waits for a password.
    std::fs::remove_file(user.folder.path().join("id.pub")).unwrap();
    let got = run(&user, &runs.path().join("none"), TINY, &sets, &rack, Some(&bin));
    assert_eq!(got.status.code(), Some(1));
    assert!(stderr(&got).contains("Permission denied"), "{}", stderr(&got));
}
