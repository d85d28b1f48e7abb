//! The trace tells servers that sync from those that do not.

use super::sender::{self, Sent};
use super::setting::{Kind, Place, Setting, Way, prepare};
use super::{TIMEOUT, free_port};
use rack::syncs::{self, Answer, Basis, Missing, Report, Scope, SyncVerdict};
use rack::{Host, Launcher, Local};
use std::path::Path;
use std::sync::atomic::AtomicBool;

/// Runs a server under strace with updates that come one at a time, then many at a time.
fn analysed(setting: Setting, window: usize) -> Option<(Sent, Report, Vec<Answer>)> {
    if !setting.there() {
        return None;
    }
    if std::process::Command::new("strace").arg("--version").output().is_err() {
        eprintln!("SKIPPED: strace is not installed (apt-get install strace)");
        return None;
    }
    let dir = tempfile::tempdir().unwrap();
    let [data, rest] = ["data", "rest"].map(|name| dir.path().join(name));
    [&data, &rest].iter().for_each(|folder| std::fs::create_dir(folder).unwrap());
    let place = Place { made_in: data.clone(), data: data.clone(), rest: rest.clone(), port: free_port() };
    let server = ([127, 0, 0, 1], place.port).into();
    let trace = rest.join("trace");
    let cmd = syncs::traced(&prepare(setting, &place), &trace);
    let mut process = Local.spawn(&Host::loopback(), &cmd).unwrap();
    let started = sender::ready(server, TIMEOUT);
    assert!(started.is_some(), "{setting:?}: {}", log(&rest));
    let sent = sender::updates(server, 1, 60, window, &AtomicBool::new(false));
    process.terminate(TIMEOUT).unwrap();
    syncs::settle(&trace, TIMEOUT).unwrap();
    let scope = Scope { folders: vec![data.canonicalize().unwrap()], except: Vec::new() };
    let mut answers = Vec::new();
    let report = syncs::analyse(&trace, &scope, |answer| answers.push(answer)).unwrap();
    if std::env::var_os("DNSRACK_KEEP").is_some() {
        eprintln!("{setting:?}, window {window}: {}", dir.keep().display());
        eprintln!("{report:#?}");
    }
    // A thread that is killed while strace writes its line may leave half of one.
    assert!(report.foreign_lines <= 1, "{report:?}");
    assert_eq!((report.blind.len(), report.cut_off), (0, 0), "{report:?}");
    assert_eq!(sent.acknowledged.len() as u64, report.covered + report.not_covered + report.nothing_written);
    assert!(answers.iter().all(|answer| answer.name == sender::name(answer.id.into())));
    let others = answers.iter().filter(|answer| answer.basis != Basis::All).count();
    assert!(window > 1 || others == 0);
    Some((sent, report, answers))
}

fn log(rest: &Path) -> String {
    ["named.log", "knot.log", "output.log"]
        .iter()
        .filter_map(|f| std::fs::read_to_string(rest.join(f)).ok())
        .collect()
}

fn is_honest(setting: Setting) {
    for window in [1, 16] {
        let Some((sent, report, _)) = analysed(setting, window) else { return };
        assert!(sent.acknowledged.len() >= 50, "{sent:?}");
        assert_eq!(
            (report.not_covered, report.nothing_written),
            (0, 0),
            "{setting:?}, {window}: {report:#?}"
        );
        assert!(report.syncs > 0 && report.sync_latency.count() > 0);
        assert_eq!(report.by_order, 0, "{report:#?}");
    }
}

fn is_found(setting: Setting, missing: Missing) {
    for window in [1, 16] {
        let Some((sent, report, answers)) = analysed(setting, window) else { return };
        assert!(sent.acknowledged.len() >= 50, "{sent:?}");
        assert_eq!((report.covered, report.nothing_written), (0, 0), "{setting:?}, {window}: {report:#?}");
        // The first also makes the files.
        match &answers.last().unwrap().verdict {
            SyncVerdict::NotCovered { missing: seen, .. } => assert_eq!(*seen, missing),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn bind_syncs() {
    is_honest(Setting::new(Kind::Bind, Way::Default));
}

#[test]
fn knot_syncs() {
    is_honest(Setting::new(Kind::Knot, Way::Default));
    is_honest(Setting { more: "    zonefile-sync: 0\n", ..Setting::new(Kind::Knot, Way::Default) });
}

#[test]
fn powerdns_syncs() {
    is_honest(Setting::new(Kind::Powerdns, Way::Default));
}

#[test]
fn yadifa_syncs() {
    is_honest(Setting::new(Kind::Yadifa, Way::Default));
}

#[test]
fn bind_without_syncs_is_found() {
    is_found(Setting::new(Kind::Bind, Way::Preload), Missing::Sync);
}

#[test]
fn knot_without_syncs_is_found() {
    is_found(Setting::new(Kind::Knot, Way::Configured), Missing::Map);
    is_found(Setting::new(Kind::Knot, Way::Preload), Missing::Sync);
}

#[test]
fn powerdns_without_syncs_is_found() {
    is_found(Setting::new(Kind::Powerdns, Way::Configured), Missing::Sync);
    is_found(Setting::new(Kind::Powerdns, Way::Preload), Missing::Sync);
}

#[test]
fn yadifa_without_syncs_is_found() {
    is_found(Setting::new(Kind::Yadifa, Way::Preload), Missing::Sync);
}

/// SQLite commits with the removal of its journal, and syncs the folder only with `synchronous=EXTRA`.
#[test]
fn a_removal_that_nobody_synced_is_found() {
    let delete = Setting {
        more: "gsqlite3-pragma-journal-mode=delete\n",
        ..Setting::new(Kind::Powerdns, Way::Default)
    };
    is_found(delete, Missing::Name);
}
