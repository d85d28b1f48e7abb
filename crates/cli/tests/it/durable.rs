//! Durability with real servers. The trace and power cuts show every time which servers sync and which do not. Other tests look at
//! what secondaries serve after they were killed.

use crate::measures::{done, metric};
use crate::{has, output, stderr, write};
use serde_json::Value;
use std::path::Path;
use std::process::Command;

/// What all of them have.
pub const COMMON: &str = r#"
title = "Of seconds"
settle = "0s"
attempts = 1
patience = "20s"

[zone]
families = ["U-4-DS0"]
delegations = [300]
validate = 0

[durability]
updates = 40
window = 8
timed = "500ms"
calibrate = "200ms"
cuts = 4
kills = 4
life = "600ms"
"#;

/// The servers that take updates, as far as they and what finds out about them are there.
pub fn servers() -> Vec<&'static str> {
    let disk = rustix::process::geteuid().is_root() && Path::new("/dev/fuse").exists();
    if !disk {
        eprintln!("SKIPPED: a disk whose power can be cut takes root and FUSE");
        return Vec::new();
    }
    let preload = Command::new("true").env("LD_PRELOAD", "libeatmydata.so").output().expect("true");
    if !preload.stderr.is_empty() {
        eprintln!("SKIPPED: eatmydata is not installed");
        return Vec::new();
    }
    if !(has("strace") && has("tcpdump")) {
        return Vec::new();
    }
    let all = [("bind", "named"), ("knot", "knotd"), ("yadifa", "yadifad"), ("powerdns", "pdns_server")];
    let there = |(kind, program): &(&str, &str)| has(program) && (*kind != "powerdns" || has("sqlite3"));
    all.into_iter().filter(there).map(|(kind, _)| kind).collect()
}

/// The trials of an experiment that begins with these lines.
fn run(head: &str) -> Vec<Value> {
    let folder = tempfile::tempdir().expect("a folder");
    let file = write(&folder, "durable.toml", &format!("{head}{COMMON}"));
    let dir = folder.path().join("run");
    let all = done(&file, dir.to_str().expect("a path"));
    assert!(all.iter().all(|e| e["error"].is_null()), "{all:?}");
    all
}

/// The trials of a measure, with syncs as they are or off.
fn trials(measure: &str, syncs: &str) -> Vec<Value> {
    let names: Vec<String> = servers().iter().map(|s| format!("\"{s}\"")).collect();
    if names.is_empty() {
        return Vec::new();
    }
    let head = format!(
        "name = \"durable\"\nmeasure = [\"{measure}\"]\nservers = [{}]\nvariant = [{{ name = \"it\", syncs = \"{syncs}\" }}]\n",
        names.join(", ")
    );
    let all = run(&head);
    assert_eq!(all.len(), names.len());
    assert!(all.iter().all(|e| e["params"]["syncs"] == syncs), "{all:?}");
    all
}

#[test]
fn answers_of_honest_servers_follow_a_sync() {
    for event in trials("syncs", "on") {
        let value_of = |name: &str| metric(&event, name).unwrap_or_else(|| panic!("no {name}: {event}"));
        assert!(value_of("traced") >= 60.0 && value_of("traced") == value_of("traced_covered"), "{event}");
        assert!(value_of("disk_syncs_before") > 0.0 && value_of("disk_syncs_after") > 0.0);
        assert!(value_of("update_accepted") > 0.0 && value_of("beyond_disk") == 0.0, "{event}");
        assert!(event["params"]["first_not_covered"].is_null(), "{event}");
    }
}

#[test]
fn answers_of_servers_without_syncs_are_found() {
    for event in trials("syncs", "off") {
        let value_of = |name: &str| metric(&event, name).unwrap_or_else(|| panic!("no {name}: {event}"));
        assert!(value_of("traced") >= 60.0 && value_of("traced_covered") == 0.0, "{event}");
        assert!(
            event["params"]["first_not_covered"].as_str().is_some_and(|t| t.contains(" lacked ")),
            "{event}"
        );
    }
}

#[test]
fn honest_servers_lose_nothing_in_power_cuts() {
    for event in trials("power-cut", "on") {
        let value_of = |name: &str| metric(&event, name).unwrap_or_else(|| panic!("no {name}: {event}"));
        assert_eq!((value_of("cuts"), value_of("cuts_with_survivors")), (4.0, 2.0));
        assert!(value_of("cut_acknowledged") > 0.0, "{event}");
        assert_eq!(value_of("cut_half"), 0.0, "{event}");
        // Who syncs what it acknowledges may still be unable to read its journal after a cut (docs/durability.md). Then the server
        // has no zone any more, or YADIFA the zone as it was before all updates.
        let unreadable = match event["params"]["kind"].as_str().expect("a kind") {
            "yadifa" => "CIRCULAR_FILE_",
            "bind" => "journal corrupt: empty transaction",
            _ => "",
        };
        let accounted = value_of("cut_found") + value_of("cut_lost") + value_of("cut_gone_with_server");
        assert_eq!(accounted, value_of("cut_acknowledged"), "{event}");
        if value_of("cuts_not_back") > 0.0 {
            let why = event["params"]["not_back"].as_str().expect("why it is not back");
            assert!(!unreadable.is_empty() && why.contains("jnl:") && why.contains(unreadable), "{why}");
        } else {
            assert_eq!(value_of("cut_gone_with_server"), 0.0, "{event}");
        }
        assert!(value_of("cut_lost") == 0.0 || unreadable.starts_with("CIRCULAR"), "{event}");
    }
}

#[test]
fn servers_without_syncs_lose_in_power_cuts() {
    for event in trials("power-cut", "off") {
        let value_of = |name: &str| metric(&event, name).unwrap_or_else(|| panic!("no {name}: {event}"));
        assert!(value_of("cut_acknowledged") > 0.0, "{event}");
        assert!(value_of("cut_lost") + value_of("cut_gone_with_server") > 0.0, "{event}");
        assert!(value_of("cuts_with_loss") >= 1.0, "{event}");
    }
}

#[test]
fn killed_secondaries_serve_whole_zones() {
    if !(has("named") && has("knotd") && has("tcpdump")) {
        return;
    }
    let head = "name = \"killed\"\nmeasure = [\"kill\"]\nservers = [\"bind\", \"knot\"]\ndistribution = { primary = \"bind\", \
                secondaries = 1, timers = \"tuned\", dump = true }\n";
    for event in run(head) {
        let value_of = |name: &str| metric(&event, name).unwrap_or_else(|| panic!("no {name}: {event}"));
        assert_eq!(
            (value_of("kills"), value_of("kills_back"), value_of("caught_up")),
            (4.0, 4.0, 1.0),
            "{event}"
        );
        assert!(value_of("pairs_asked") > 0.0 && value_of("zones_transferred") > 0.0, "{event}");
        assert_eq!((value_of("mixed_by_query"), value_of("half_by_transfer")), (0.0, 0.0), "{event}");
        assert_eq!(
            (value_of("serial_back_running"), value_of("serial_back_restarted")),
            (0.0, 0.0),
            "{event}"
        );
        assert!(value_of("ixfr_transfers") > 0.0, "{event}");
    }
}

#[test]
fn what_is_missing_is_said_before_anything_starts() {
    if !has("named") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let head = "name = \"missing\"\nmeasure = [\"syncs\"]\nservers = [\"bind\"]\n";
    let file = write(&folder, "missing.toml", &format!("{head}{COMMON}"));
    let dir = folder.path().join("run");
    let args = ["experiment", "run", &file, "-o", dir.to_str().expect("a path")];
    // Without strace on the path.
    let ran = crate::dnsrack(&args).env("PATH", folder.path()).output().expect("the program starts");
    assert_eq!(ran.status.code(), Some(1), "{}", stderr(&ran));
    assert!(stderr(&ran).contains("apt-get install strace"), "{}", stderr(&ran));
    assert!(!dir.exists());
    let ran = output(&[
        "experiment",
        "run",
        "isc-durability",
        "--set",
        "servers=nsd",
        "-o",
        dir.to_str().expect("a path"),
    ]);
    assert!(stderr(&ran).contains("nsd takes no updates"), "{}", stderr(&ran));
}
