//! Experiments in which zones change: updates to a primary, secondaries that follow, transfers, with real servers in a rack.

use crate::kill::{kill, processes, wait_until};
use crate::measures::{done, metric};
use crate::{dnsrack, has, output, stderr, stdout, write};
use std::process::Stdio;

/// What all of them have.
const COMMON: &str = r#"
title = "Of seconds"
settle = "0s"
attempts = 1

[zone]
families = ["U-4-DS0"]
delegations = [300]
validate = 0

[latency]
rates = [300]
duration = "3s"
warmup = "100ms"

[updates]
rates = [5]
count = 50
duration = "3s"
marker = "500ms"
"#;

/// The trials of an experiment that begins with these lines.
fn run(head: &str) -> Vec<serde_json::Value> {
    run_of(&format!("{head}{COMMON}"))
}

fn run_of(text: &str) -> Vec<serde_json::Value> {
    let folder = tempfile::tempdir().expect("a folder");
    let file = write(&folder, "changes.toml", text);
    let dir = folder.path().join("run");
    let all = done(&file, dir.to_str().expect("a path"));
    assert!(all.iter().all(|e| e["error"].is_null()), "{all:?}");
    all
}

#[test]
fn updates_are_taken_and_counted() {
    if !(has("named") && has("knotd")) {
        return;
    }
    let all = run("name = \"taken\"\nmeasure = [\"update\"]\nservers = [\"bind\", \"knot\"]\n");
    assert_eq!(all.len(), 2);
    for event in &all {
        assert_eq!(metric(event, "update_accepted"), Some(50.0), "{event}");
        assert_eq!(metric(event, "update_lost"), Some(0.0));
        assert!(metric(event, "update_accepted_ups") > Some(0.0));
    }
}

#[test]
fn signed_zones_change_whoever_signs() {
    if !(has("named") && has("knotd")) {
        return;
    }
    let head = "name = \"signed\"\nmeasure = [\"update\"]\nservers = [\"bind\", \"knot\", \"other\"]\n";
    let other = "\n[server.other]\nkind = \"knot\"\nsigning = \"sent\"\n";
    let all = run_of(&format!("{head}{}{other}", COMMON.replace("U-4-DS0", "COM#1/2+signed")));
    let signing: Vec<&str> = all.iter().filter_map(|e| e["params"]["signing"].as_str()).collect();
    assert_eq!(signing, ["online", "online", "sent"], "{all:?}");
    for event in &all {
        assert_eq!(event["params"]["signed"], "rzaia", "{event}");
        assert_eq!(metric(event, "update_accepted"), Some(50.0), "{event}");
    }
}

#[test]
fn secondaries_follow_while_queries_are_answered() {
    if !(has("named") && has("knotd")) {
        return;
    }
    let head = "name = \"followed\"\nmeasure = [\"lag\", \"latency\"]\nservers = [\"knot\"]\ndistribution = { primary = \"bind\", \
                secondaries = 2, timers = \"tuned\" }\n";
    let all = run(head);
    assert_eq!(all.len(), 2);
    for event in &all {
        assert_eq!(event["params"]["updates"], "5", "{event}");
        // Two secondaries, and a marker each half second for about three.
        let seen = metric(event, "markers_seen").expect("markers");
        assert!(seen >= 4.0, "{event}");
        assert_eq!(metric(event, "markers_lost"), Some(0.0), "{event}");
        assert!(metric(event, "lag_p50") > Some(0.0));
        // Each lag is known to have gone by a transfer from the primary, and its steps add up to at most the longest.
        assert_eq!(metric(event, "lags_unexplained"), Some(0.0), "{event}");
        let step = |name: &str| metric(event, &format!("lag_{name}_mean")).expect("a step");
        let mean = step("until_notify") + step("until_request") + step("transfer") + step("until_served");
        assert!(mean > 0.0 && Some(mean) <= metric(event, "lag_max").map(|max| max * 1.01), "{event}");
        // Each version is carried by differences alone.
        assert!(metric(event, "ixfr_transfers") >= Some(2.0), "{event}");
        assert_eq!(metric(event, "axfr_transfers"), Some(0.0), "{event}");
    }
    assert!(all.iter().any(|e| metric(e, "answered").is_some_and(|n| n > 0.0)), "queries beside updates");
}

#[test]
fn a_first_transfer_is_counted() {
    if !(has("nsd") && has("knotd")) {
        return;
    }
    let head = "name = \"carried\"\nmeasure = [\"transfer\"]\nservers = [\"nsd\"]\ndistribution = { secondaries = 1, others = \
                [\"knot\"] }\n";
    let all = run(head);
    assert_eq!(all.len(), 1);
    let value_of = |name: &str| metric(&all[0], name).unwrap_or_else(|| panic!("no {name}: {}", all[0]));
    // Two octets of length before each message, and headers around all.
    assert_eq!(
        value_of("transfer_tcp_bytes"),
        value_of("transfer_dns_bytes") + 2.0 * value_of("transfer_messages")
    );
    // A header for each frame that a cable would carry (1,448 octets with TCP's timestamps), not one for 64 KiB.
    let frames = (value_of("transfer_tcp_bytes") / 1448.0).ceil();
    assert!(value_of("transfer_bytes") >= value_of("transfer_tcp_bytes") + frames * 52.0, "{}", all[0]);
    assert!(value_of("transfer_records") > 300.0);
}

/// Nothing changes, so it is no matter that BIND takes no signatures with updates and has no keys.
#[test]
fn a_signed_zone_is_carried_by_whoever_could_not_change_it() {
    if !(has("named") && has("knotd")) {
        return;
    }
    let head = "name = \"signed\"\nmeasure = [\"transfer\"]\nservers = [\"bind\"]\ndistribution = { secondaries = 1, others = \
                [\"knot\"] }\n";
    let all = run_of(&format!("{head}{COMMON}").replace("U-4-DS0", "S-6-DS100"));
    assert!(metric(&all[0], "transfer_records") > Some(1200.0), "{}", all[0]);
}

#[test]
fn a_secondary_that_was_away_catches_up_by_differences_or_by_the_zone() {
    if !has("knotd") {
        return;
    }
    // At a hundred updates a second what it misses is more than the zone itself: BIND sends that then (max-ixfr-ratio), and Knot
    // differences as ever. YADIFA's journal has room for some 180 updates here, and the secondary misses 400.
    for (primary, program, journal, whole) in [
        ("knot", "knotd", "", false),
        ("bind", "named", "", true),
        ("yadifa", "yadifad", ", journal = 65536", true),
    ] {
        if !has(program) {
            continue;
        }
        let common = COMMON
            .replace("rates = [5]", "rates = [100]")
            .replace("duration = \"3s\"\nmarker", "duration = \"8s\"\nmarker");
        let head = format!(
            "name = \"away\"\nmeasure = [\"lag\"]\nservers = [\"knot\"]\ndistribution = {{ primary = \"{primary}\", secondaries = 2, \
             timers = \"tuned\", dump = true, away = \"4s\"{journal} }}\n"
        );
        let all = run_of(&format!("{head}{common}"));
        assert_eq!((all.len(), &all[0]["params"]["away"]), (1, &"4s".into()), "{all:?}");
        let value_of = |name: &str| metric(&all[0], name);
        assert!(
            value_of("away_seconds") >= Some(4.0) && value_of("away_markers_missed") >= Some(4.0),
            "{}",
            all[0]
        );
        assert!(value_of("away_caught_up") > Some(0.0) && value_of("away_bytes") > Some(0.0), "{}", all[0]);
        assert_eq!(value_of("away_axfr") > Some(0.0), whole, "{}", all[0]);
        assert!(whole || value_of("away_ixfr") > Some(0.0), "{}", all[0]);
        // The one that stayed lost nothing.
        assert_eq!(value_of("markers_lost"), Some(0.0), "{}", all[0]);
    }
}

#[test]
fn a_full_journal_is_told() {
    if !has("knotd") {
        return;
    }
    // The smallest that Knot DNS allows; what it cannot put together any more to make room it refuses.
    let head =
        "name = \"full\"\nmeasure = [\"update\"]\nservers = [\"knot\"]\ndistribution = { journal = 40960 }\n";
    let folder = tempfile::tempdir().expect("a folder");
    let text = format!("{head}{}", COMMON.replace("count = 50", "count = 1500\nwindow = 16"));
    let (file, dir) = (write(&folder, "full.toml", &text), folder.path().join("run"));
    let all = done(&file, dir.to_str().expect("a path"));
    let value_of = |name: &str| metric(&all[0], name).unwrap_or_else(|| panic!("no {name}: {}", all[0]));
    assert!(value_of("update_accepted") > 0.0 && value_of("update_rcode_SERVFAIL") > 100.0, "{}", all[0]);
    assert_eq!(
        value_of("update_accepted") + value_of("update_rcode_SERVFAIL") + value_of("update_lost"),
        1500.0,
        "{}",
        all[0]
    );
    let report = stdout(&output(&["report", dir.to_str().expect("a path")]));
    assert!(report.contains("refused (SERVFAIL)"), "{report}");
}

#[test]
fn a_primary_that_dies_under_updates_costs_its_trial_alone() {
    if !(has("named") && has("knotd")) {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let head = "name = \"dies\"\nmeasure = [\"lag\"]\nservers = [\"knot\"]\nrepeats = 2\ndistribution = { primary = \"bind\", \
                secondaries = 1, timers = \"tuned\" }\n";
    let file = write(&folder, "dies.toml", &format!("{head}{COMMON}"));
    let dir = folder.path().join("run");
    let run = dnsrack(&["experiment", "run", &file, "-o", dir.to_str().expect("a path"), "--events"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("the program starts");
    let find = |part: &str| processes(folder.path()).into_iter().find(|(_, line)| line.contains(part));
    wait_until("updates under way", || find(" role update").is_some());
    let (primary, _) = find("/servers/1/primary/named.conf").expect("the primary");
    kill(primary);
    let ran = run.wait_with_output().expect("it ends");
    assert_eq!(ran.status.code(), Some(3), "{}", stdout(&ran));
    let told = stdout(&ran);
    let events =
        told.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).expect("JSON lines"));
    let done: Vec<_> = events.filter(|e| e["event"] == "done").collect();
    assert_eq!(done.len(), 2, "{told}");
    let why = done[0]["error"].as_str().expect("an error");
    assert!(why.contains("server 'bind'") && why.contains("SIGKILL"), "{why}");
    assert!(done[1]["error"].is_null() && metric(&done[1], "markers_seen") > Some(0.0), "{}", done[1]);
    wait_until("the end of all processes", || processes(folder.path()).is_empty());
}

/// Versions of a zone: delegations come, go and change, and every one is signed with what nobody could verify.
fn versions(folder: &tempfile::TempDir, count: u32) -> Vec<String> {
    let version = |n: u32| {
        let serial = 2_026_080_900 + n;
        let mut text = format!(
            "zz. 60 IN SOA a.zz. b.zz. {serial} 1800 900 604800 60\nzz. 60 IN NS a.zz.\na.zz. 60 IN A 192.0.2.1\n\
             zz. 60 IN ZONEMD {serial} 1 1 {}\n",
            format!("{n:02x}").repeat(48)
        );
        for d in n..n + 200 {
            text += &format!(
                "d{d:03}.zz. 60 IN NS ns.d{d:03}.zz.\nns.d{d:03}.zz. 60 IN A 10.0.{n}.{}\n\
                 d{d:03}.zz. 60 IN NSEC d{:03}.zz. NS NSEC\n",
                d % 250,
                d + 1
            );
        }
        write(folder, &format!("zz-{serial}.zone"), &text)
    };
    (0..count).map(version).collect()
}

#[test]
fn versions_of_a_zone_reach_the_secondaries_as_they_are() {
    if !(has("knotd") && has("nsd") && has("named")) {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let files = versions(&folder, 4);
    let dir = folder.path().join("run");
    let sets = [format!("zone.file={}", files[0]), format!("updates.series={}", files[1..].join(","))];
    let mut args = vec!["experiment", "run", "root-churn", "-o", dir.to_str().expect("a path"), "--events"];
    for set in ["size=quick", "settle=0s", "attempts=1"].into_iter().chain(sets.iter().map(String::as_str)) {
        args.extend(["--set", set]);
    }
    let ran = output(&args);
    assert!(matches!(ran.status.code(), Some(0 | 3)), "{}\n{}", stderr(&ran), stdout(&ran));
    let events = stdout(&ran);
    let mut events =
        events.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).expect("JSON"));
    let event = events.find(|e| e["event"] == "done").expect("a trial");
    assert!(event["error"].is_null(), "{event}");
    let value_of = |name: &str| metric(&event, name).unwrap_or_else(|| panic!("no {name}: {event}"));
    assert_eq!((value_of("versions"), value_of("versions_taken")), (3.0, 3.0), "{event}");
    // Of each version all 199 addresses are others', one delegation of three records went and one came.
    let records = value_of("version_records");
    assert!(records > 400.0, "{event}");
    // The marker is one record more at first, and two then.
    let carried = value_of("ixfr_records_per_version");
    assert!(carried > records && carried <= records + 2.0, "{event}");
    assert_eq!(value_of("ixfr_secondaries"), 3.0, "{event}");
    assert!(value_of("ixfr_bytes_per_version") > 0.9 * value_of("version_ixfr_reckoned"), "{event}");
    assert_eq!((value_of("markers_seen"), value_of("markers_lost")), (9.0, 0.0), "{event}");
    assert!(value_of("axfr_bytes") > 0.0 && value_of("lag_of_nsd_p50") > 0.0);
    let table = std::fs::read_to_string(dir.join("servers/1/versions.csv")).expect("the lags");
    assert_eq!(table.lines().count(), 1 + 3 * 3, "{table}");
    assert!(table.contains("2026080903,"), "{table}");
    let report = stdout(&output(&["report", dir.to_str().expect("a path")]));
    assert!(
        report.contains("What a version of the zone costs") && report.contains("3 of 3 versions taken"),
        "{report}"
    );
}

#[test]
fn who_has_no_versions_is_told_which_keys_to_give() {
    let folder = tempfile::tempdir().expect("a folder");
    let dir = folder.path().join("run");
    let ran = output(&["experiment", "run", "root-churn", "-o", dir.to_str().expect("a path")]);
    assert!(!ran.status.success());
    let said = stderr(&ran);
    assert!(said.contains("zone.file=FIRST") && said.contains("updates.series=SECOND"), "{said}");
    assert!(!dir.exists(), "nothing is begun");
}
