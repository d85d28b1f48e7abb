//! Zones that an experiment makes by steps, served by a real server and judged by other programs.

use crate::measures::done;
use crate::{has, output, stderr, stdout, write};
use std::path::Path;
use std::process::Command;

const SCENARIOS: &str = r#"
name = "scenarios"
title = "A test of seconds"
measure = ["latency"]
servers = ["nsd"]
settle = "0s"
attempts = 1

[zone]
file = "ZONE"
sign = "ECDSAP256SHA256"
keep = true

[zone.today]

[zone.signed]
sign = true

[zone.opt-out]
sign = true
nsec3 = true
opt-out = true

[zone.larger]
grow = "3x"

[zone.changed]
ds = 0.0
glue = "aaaa"
ttl = 60

[zone.another]
family = "U-4-DS0"
delegations = 400

[latency]
rates = [300]
duration = "1s"
warmup = "100ms"
deadline = "1s"
"#;

/// The facts that `zone info` has of a zone.
fn facts(zone: &Path) -> serde_json::Value {
    let got = output(&["--json", "zone", "info", zone.to_str().expect("a path")]);
    assert!(got.status.success(), "{}", stderr(&got));
    serde_json::from_slice(&got.stdout).expect("one JSON object")
}

#[test]
fn each_scenario_is_made_by_its_steps_and_served() {
    if !has("nsd") || !has("ldns-verify-zone") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).to_str().expect("a path").to_owned();
    let (zone, run) = (path("my.zone"), path("run"));
    let made = output(&["zone", "generate", "--family", "ROOT", "--delegations", "300", "-o", &zone]);
    assert!(made.status.success(), "{}", stderr(&made));
    let file = write(&folder, "scenarios.toml", &SCENARIOS.replace("ZONE", &zone));
    let done = done(&file, &run);
    let of =
        |event: &serde_json::Value, name: &str| event["params"][name].as_str().unwrap_or_default().to_owned();
    let served: Vec<[String; 3]> =
        done.iter().map(|e| [of(e, "family"), of(e, "zone_size"), of(e, "signed")]).collect();
    let expected = [
        ["today", "300", "no"],
        ["signed", "300", "ECDSAP256SHA256"],
        ["opt-out", "300", "ECDSAP256SHA256"],
        ["larger", "900", "no"],
        ["changed", "300", "no"],
        ["another", "400", "no"],
    ];
    assert_eq!(served, expected, "in the order of the file");
    assert!(done.iter().all(|e| e["error"].is_null()), "{done:?}");
    let zones = Path::new(&run).join("zones");
    let [signed, opt_out] = ["signed.zone", "opt-out.zone"].map(|name| {
        let zone = zones.join(name);
        let checked = Command::new("ldns-verify-zone").arg(&zone).output().expect("it runs");
        assert!(checked.status.success(), "{name}: {}", String::from_utf8_lossy(&checked.stderr));
        facts(&zone)
    });
    assert!(signed["types"]["NSEC"].as_u64() > Some(0) && opt_out["types"]["NSEC3"].as_u64() > Some(0));
    let (before, changed) = (facts(Path::new(&zone)), facts(&zones.join("changed.zone")));
    assert!(before["types"]["DS"].as_u64() > Some(0) && changed["types"]["DS"].is_null());
    assert_eq!(changed["glue"]["names_with_aaaa"], changed["glue"]["names"]);
    assert_eq!(changed["apex"]["soa_ttl"], 60);
    let report = stdout(&output(&["report", &run]));
    let said = "larger is my.zone, grown to 3x; changed is my.zone, DS for 0 % of the delegations, AAAA records for all glue, TTL 60";
    assert!(report.contains(said), "{report}");
    // Queries ask for the names that the zone had before it grew.
    let names = |name: &str| std::fs::read_to_string(zones.join(format!("{name}.names"))).expect("names");
    assert_eq!(names("larger"), names("today"));
}

#[test]
fn a_scenario_that_makes_no_sense_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let zone = write(&folder, "zone", "example. 60 SOA a. b. 1 1 1 1 1\nexample. 60 NS a.\n");
    let file = write(&folder, "scenarios.toml", &SCENARIOS.replace("ZONE", &zone));
    for (set, wanted) in [
        ("zone.today.grow=0.5x", "zone.today: grow: '0.5x' is no size"),
        ("zone.today.nsec3=true", "need `sign = true`"),
        ("zone.opt-out.nsec3=false", "opt-out needs `nsec3 = true`"),
        ("zone.another.file=x", "not both"),
        ("zone.another.family=COM+signed", "neither signed nor cut"),
        ("zone.denial=nsec3", "zone.denial is of a zone file that is signed first"),
        ("zone.today.dss=1", "unknown key 'dss'; nearest: 'ds'"),
        ("zone.fiel=x", "unknown key 'fiel'; nearest: 'file'"),
    ] {
        let got = output(&["experiment", "show", &file, "--set", set]);
        assert!(!got.status.success() && stderr(&got).contains(wanted), "{set}: {}", stderr(&got));
    }
}
