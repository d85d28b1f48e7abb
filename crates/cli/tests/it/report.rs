//! `dnsrack report` as pictures, by a real browser.

use crate::kill::wait_until;
use crate::{dnsrack, has, output, stderr};
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

/// The figures in docs are what the kept runs give.
#[test]
fn the_page_of_figures_is_as_the_kept_runs_have_them() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let (runs, docs) = (format!("{root}/docs/runs"), format!("{root}/docs"));
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).to_str().expect("a path").to_owned();
    let files = |dir: &str| {
        let entries =
            std::fs::read_dir(dir).map(|all| all.flatten().map(|e| e.file_name()).collect::<Vec<_>>());
        let mut names: Vec<_> = entries.unwrap_or_default();
        names.sort();
        names
    };
    if std::env::var_os("UPDATE_DOCS").is_some() {
        let _ = std::fs::remove_dir_all(format!("{docs}/figures"));
        assert!(
            output(&["report", "--figures", &runs, "-o", &format!("{docs}/figures.md")]).status.success()
        );
    }
    let made = output(&["report", "--figures", &runs, "-o", &path("figures.md"), "--json"]);
    assert!(made.status.success(), "{}", stderr(&made));
    let names = files(&path("figures"));
    let json: serde_json::Value = serde_json::from_slice(&made.stdout).expect("JSON");
    assert_eq!(
        (json["schema"].as_str(), json["files"].as_u64()),
        (Some("dnsrack.report.figures/1"), Some(names.len() as u64 + 1))
    );
    assert_eq!(names, files(&format!("{docs}/figures")), "run this test with UPDATE_DOCS=1");
    for name in
        names.iter().map(|name| format!("figures/{}", name.display())).chain(["figures.md".to_owned()])
    {
        let (new, kept) =
            (std::fs::read_to_string(path(&name)), std::fs::read_to_string(format!("{docs}/{name}")));
        assert!(new.unwrap() == kept.unwrap(), "{name}: run this test with UPDATE_DOCS=1");
    }
    let page = path("figures.html");
    assert!(output(&["report", "--figures", &runs, "-o", &page]).status.success());
    let html = std::fs::read_to_string(&page).expect("the page");
    assert!(html.contains("id=\"rzaia-3.37\"") && !html.contains("http"), "nothing is from elsewhere");
    assert_eq!(output(&["report", "--figures", &runs, "-o", &path("figures.txt")]).status.code(), Some(2));
    assert_eq!(output(&["report", "--figures", &runs]).status.code(), Some(2));
}

/// What docs/coverage.md says is what the kept runs give.
#[test]
fn the_page_of_published_values_is_as_the_kept_runs_have_them() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let runs = format!("{root}/docs/runs");
    let values = format!("{root}/docs/values");
    let args = ["report", "--coverage", &runs, &values, "--memory", "24G"];
    let got = output(&args);
    assert!(got.status.success(), "{}", stderr(&got));
    let (page, file) = (String::from_utf8(got.stdout).unwrap(), format!("{root}/docs/coverage.md"));
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&file, &page).unwrap();
    }
    let kept = std::fs::read_to_string(&file).unwrap_or_default();
    assert!(page == kept, "run this test with UPDATE_DOCS=1");
    let got = output(&[&args[..], &["--json"]].concat());
    let json: serde_json::Value = serde_json::from_slice(&got.stdout).expect("JSON");
    assert_eq!(json["schema"], "dnsrack.report.coverage/1");
    let all: Vec<_> =
        json["tables"].as_array().unwrap().iter().flat_map(|t| t["values"].as_array().unwrap()).collect();
    assert_eq!(json["values"], all.len());
    let measured = all.iter().filter(|v| v["measured"]["repeats"].as_u64().is_some_and(|n| n >= 3)).count();
    assert_eq!(json["measured"], measured);
    assert!(
        all.iter()
            .all(|v| v["missing"].is_null() == v["measured"]["repeats"].as_u64().is_some_and(|n| n >= 3))
    );
    // A folder without runs is refused, and so is memory without a page to make.
    let got = output(&["report", "--coverage", &format!("{root}/docs/decisions")]);
    assert!(stderr(&got).contains("there is no run directory in it"), "{}", stderr(&got));
    assert_eq!(output(&["report", "x", "--memory", "24G"]).status.code(), Some(2));
}
