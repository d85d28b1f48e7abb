//! `dnsrack report` as pictures, by a real browser.

use crate::kill::wait_until;
use crate::{dnsrack, has};
use rustix::process::{Pid, Signal, kill_process};
use std::path::Path;
use std::process::Stdio;

#[test]
fn ctrl_c_leaves_no_browser_and_no_file() {
    if !has("chromium") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let temporary = folder.path().join("temporary");
    std::fs::create_dir(&temporary).expect("a folder");
    let run = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/runs/root-p256");
    let page = folder.path().join("page.png");
    let mut command = dnsrack(&["report", "--format", "png", "-o", page.to_str().expect("a path")]);
    command.arg(run).env("TMPDIR", &temporary).stdout(Stdio::null()).stderr(Stdio::piped());
    let report = command.spawn().expect("the program starts");
    let in_use = temporary.to_str().expect("a path");
    wait_until("the browser", || browsers(in_use) > 0);
    kill_process(Pid::from_child(&report), Signal::INT).expect("it runs");
    let ended = report.wait_with_output().expect("its output");
    let said = String::from_utf8_lossy(&ended.stderr);
    assert!(
        ended.status.code() == Some(1) && said.contains("it was interrupted"),
        "{}: {said}",
        ended.status
    );
    assert_eq!(browsers(in_use), 0, "browsers that go on");
    let left: Vec<_> = std::fs::read_dir(&temporary).expect("a folder").collect();
    assert!(left.is_empty() && !page.exists(), "left: {left:?}");
}

/// How many Chromium processes have a path below `folder` in their command line.
fn browsers(folder: &str) -> usize {
    let processes = std::fs::read_dir("/proc").expect("/proc").flatten();
    let lines = processes.filter_map(|process| std::fs::read(process.path().join("cmdline")).ok());
    lines
        .filter(|line| {
            let line = String::from_utf8_lossy(line);
            line.contains("chromium") && line.contains(folder)
        })
        .count()
}
