//! Experiments in which zones change: updates to a primary, secondaries that follow, transfers, with real servers in a rack.

use crate::measures::{done, metric};
use crate::{has, write};

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
    let of = |name: &str| metric(&all[0], name).unwrap_or_else(|| panic!("no {name}: {}", all[0]));
    // Two octets of length before each message, and headers around all.
    assert_eq!(of("transfer_tcp_bytes"), of("transfer_dns_bytes") + 2.0 * of("transfer_messages"));
    // A header for each frame that a cable would carry (1,448 octets with TCP's timestamps), not one for 64 KiB.
    let frames = (of("transfer_tcp_bytes") / 1448.0).ceil();
    assert!(of("transfer_bytes") >= of("transfer_tcp_bytes") + frames * 52.0, "{}", all[0]);
    assert!(of("transfer_records") > 300.0);
}
