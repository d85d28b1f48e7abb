//! SIGKILL of anything at any moment leaves no process, namespace or link.

use crate::{TINY, dnsrack, has};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

/// The processes whose command line names `folder`: everything of a run does.
pub fn processes(folder: &Path) -> Vec<(i32, String)> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").expect("/proc").flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|n| n.parse::<i32>().ok()) else { continue };
        let Ok(line) = std::fs::read(entry.path().join("cmdline")) else { continue };
        let line = String::from_utf8_lossy(&line).replace('\0', " ");
        let mine = line.contains(folder.to_str().expect("a path"));
        // A role's command line names nothing of the run; its working log does.
        let role = line.contains(" role ")
            && std::fs::read_link(entry.path().join("fd/2")).is_ok_and(|to| to.starts_with(folder));
        if mine || role {
            found.push((pid, line));
        }
    }
    found
}

/// The network namespaces and links that can be seen from here.
fn traces() -> BTreeSet<String> {
    let mut seen = BTreeSet::new();
    for entry in std::fs::read_dir("/proc").expect("/proc").flatten() {
        if let Ok(ns) = std::fs::read_link(entry.path().join("ns/net")) {
            seen.insert(ns.display().to_string());
        }
    }
    for entry in std::fs::read_dir("/sys/class/net").expect("links").flatten() {
        seen.insert(entry.file_name().to_string_lossy().into_owned());
    }
    seen
}

pub fn wait_until(what: &str, mut done: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(40);
    while !done() {
        assert!(Instant::now() < end, "never seen: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

struct Run {
    folder: tempfile::TempDir,
    child: Child,
    before: BTreeSet<String>,
}

impl Run {
    /// A run of a minute, waited for until its generator is at work.
    fn start() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("tiny.toml");
        std::fs::write(&file, TINY.replace("\"1s\"\nwarmup", "\"60s\"\nwarmup")).expect("written");
        let before = traces();
        let child = dnsrack(&["experiment", "run"])
            .arg(&file)
            .arg("-o")
            .arg(folder.path().join("run"))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("the program starts");
        let run = Self { folder, child, before };
        wait_until("server and generator at work", || {
            run.find("nsd").is_some() && run.find(" role ").is_some()
        });
        run
    }

    fn find(&self, part: &str) -> Option<i32> {
        processes(self.folder.path()).into_iter().find(|(_, line)| line.contains(part)).map(|(pid, _)| pid)
    }

    fn dir(&self) -> PathBuf {
        self.folder.path().join("run")
    }

    /// Nothing of the run is left.
    fn nothing_left(mut self) {
        let status = self.child.wait().expect("it ends");
        let folder = self.folder.path().to_owned();
        wait_until("the end of all processes", || processes(&folder).is_empty());
        let left = || traces().difference(&self.before).cloned().collect::<Vec<_>>();
        // Other tests of this binary have namespaces of their own; ours must go away.
        wait_until("the end of all namespaces and links", || {
            left().is_empty() || crate::kill::others(&folder)
        });
        assert!(!status.success() || self.dir().join("report.html").exists());
    }
}

/// Whether other runs are at work on this machine, whose namespaces are not ours.
fn others(folder: &Path) -> bool {
    std::fs::read_dir("/proc").expect("/proc").flatten().any(|entry| {
        std::fs::read(entry.path().join("cmdline")).is_ok_and(|line| {
            let line = String::from_utf8_lossy(&line).replace('\0', " ");
            line.contains("dnsrack")
                && line.contains("experiment run")
                && !line.contains(folder.to_str().expect("a path"))
        })
    })
}

pub fn kill(pid: i32) {
    assert!(
        std::process::Command::new("kill").args(["-9", &pid.to_string()]).status().expect("kill").success()
    );
}

#[test]
fn sigkill_of_the_coordinator_leaves_nothing() {
    if !has("nsd") {
        return;
    }
    let run = Run::start();
    kill(run.child.id() as i32);
    run.nothing_left();
}

#[test]
fn sigkill_of_the_inner_coordinator_leaves_nothing() {
    if !has("nsd") {
        return;
    }
    let run = Run::start();
    let outer = run.child.id();
    let inner = processes(run.folder.path())
        .into_iter()
        .find(|(pid, line)| *pid != outer as i32 && line.contains("experiment run"))
        .expect("the inner process");
    kill(inner.0);
    run.nothing_left();
}

#[test]
fn sigkill_of_a_server_fails_its_trial_and_the_run_ends() {
    if !has("nsd") {
        return;
    }
    let run = Run::start();
    // All of NSD's processes: its children would answer on for a while.
    for (pid, line) in processes(run.folder.path()) {
        if line.contains("nsd") && !line.contains("dnsrack") {
            let _ = std::process::Command::new("kill").args(["-9", &pid.to_string()]).status();
        }
    }
    let dir = run.dir();
    let folder = run.folder.path().to_owned();
    let mut run = run;
    let status = run.child.wait().expect("it ends");
    assert_eq!(status.code(), Some(3), "a failed trial is exit status 3");
    wait_until("the end of all processes", || processes(&folder).is_empty());
    let kept = results::RunDir::open(&dir).expect("the run directory is whole");
    let error = kept.trials()[0].error.clone().expect("the trial failed");
    assert!(error.contains("nsd"), "{error}");
}

#[test]
fn sigkill_of_the_generator_fails_its_trial_and_the_run_ends() {
    if !has("nsd") {
        return;
    }
    let mut run = Run::start();
    kill(run.find(" role ").expect("the generator"));
    let status = run.child.wait().expect("it ends");
    assert_eq!(status.code(), Some(3), "a failed trial is exit status 3");
    let kept = results::RunDir::open(&run.dir()).expect("the run directory is whole");
    let error = kept.trials()[0].error.clone().expect("the trial failed");
    assert!(error.contains("load on host generator"), "{error}");
    run.nothing_left();
}

#[test]
fn ctrl_c_ends_the_run_and_resume_goes_on() {
    if !has("nsd") {
        return;
    }
    let mut run = Run::start();
    let pid = run.child.id().to_string();
    assert!(std::process::Command::new("kill").args(["-INT", &pid]).status().expect("kill").success());
    let status = run.child.wait().expect("it ends");
    assert_eq!(status.code(), Some(6), "cut short is an exit status of its own");
    let dir = run.dir();
    let kept = results::RunDir::open(&dir).expect("the run directory is whole");
    assert_eq!(kept.trials().len(), 0, "a trial cut off is not a trial");
    // The same plan goes on; another is refused.
    let file = run.folder.path().join("tiny.toml");
    let resume = |file: &Path| {
        dnsrack(&["experiment", "run"])
            .arg(file)
            .arg("--resume")
            .arg("-o")
            .arg(&dir)
            .output()
            .expect("it starts")
    };
    let other = run.folder.path().join("other.toml");
    std::fs::write(&other, TINY).expect("written");
    let refused = resume(&other);
    assert_eq!(refused.status.code(), Some(1), "{}", crate::stderr(&refused));
    assert!(crate::stderr(&refused).contains("duration"), "{}", crate::stderr(&refused));
    let text = std::fs::read_to_string(dir.join("run.toml")).expect("the plan");
    std::fs::write(&file, text).expect("written");
    let mut again = dnsrack(&["experiment", "run"])
        .arg(&file)
        .arg("--resume")
        .arg("-o")
        .arg(&dir)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("it starts");
    wait_until("the generator at work again", || run.find(" role ").is_some());
    let _ = std::process::Command::new("kill").args(["-INT", &again.id().to_string()]).status();
    again.wait().expect("it ends");
    run.nothing_left();
}

#[test]
fn a_run_that_is_done_can_be_given_more_repeats() {
    if !has("nsd") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let (file, dir) = (folder.path().join("tiny.toml"), folder.path().join("run"));
    std::fs::write(&file, TINY).expect("written");
    let run = |repeats: &str, resume: &[&str]| {
        let mut command = dnsrack(&["experiment", "run"]);
        command.arg(&file).args(["--set", "attempts=1", "--set", repeats, "-o"]).arg(&dir).args(resume);
        let out = command.output().expect("it starts");
        // On a busy machine a trial can be invalid.
        assert!(matches!(out.status.code(), Some(0 | 3)), "{}", crate::stderr(&out));
    };
    run("repeats=1", &[]);
    // As if it had been made with another kernel.
    let environment = dir.join("environment.json");
    let text = std::fs::read_to_string(&environment).expect("the environment");
    let mut changed: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    changed["machine"]["kernel"] = "6.1-made-up".into();
    std::fs::write(&environment, changed.to_string()).expect("written");
    run("repeats=2", &["--resume"]);
    let kept = results::RunDir::open(&dir).expect("the run directory is whole");
    let repeats: Vec<u32> = kept.trials().iter().map(|t| t.repeat).collect();
    assert_eq!((repeats, kept.undone()), (vec![1, 2], 0));
    assert!(kept.run_toml().contains("repeats = 2"), "{}", kept.run_toml());
    assert!(kept.environment()["command"].as_str().is_some_and(|c| c.contains("repeats=2")));
    let warned =
        |n: usize| kept.trials()[n].outcome.validity.warnings.iter().find(|w| w.code == "machine_changed");
    assert!(warned(0).is_none());
    assert!(warned(1).expect("a warning").text.contains("the kernel was 6.1-made-up when the run began"));
}
