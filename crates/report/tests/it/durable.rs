//! Tables and answers of durability, from a run with MADE-UP figures.

use measure::{Metric, Outcome};
use results::{RunDir, TrialRecord};
use serde_json::json;

/// A trial of Knot DNS on a small zone, where `params` say nothing else.
pub fn trial(
    id: u32,
    measure: &str,
    variant: &str,
    metrics: &[(&str, f64)],
    params: &[(&str, &str)],
) -> TrialRecord {
    let fixed = [
        ("server", "knot"),
        ("kind", "knot"),
        ("family", "U-4-DS0"),
        ("zone_size", "1000"),
        ("signed", "no"),
        ("measure", measure),
        ("variant", variant),
    ];
    let metrics = metrics.iter().map(|(name, value)| Metric::new(*name, "1", *value)).collect();
    TrialRecord {
        id,
        repeat: 1,
        params: params.iter().chain(&fixed).map(|(k, v)| ((*k).into(), (*v).into())).collect(),
        outcome: Outcome { metrics, ..Outcome::default() },
        ..TrialRecord::default()
    }
}

fn syncs(covered: f64, rate: f64, beyond: f64) -> Vec<(&'static str, f64)> {
    vec![
        ("traced", 120.0),
        ("traced_covered", covered),
        ("syncs_per_answer", 1.5),
        ("update_accepted_ups", rate),
        ("disk_syncs_before", 400.0),
        ("disk_syncs_after", 420.0),
        ("beyond_disk", beyond),
    ]
}

fn cuts(lost: f64, gone: f64, not_back: f64) -> Vec<(&'static str, f64)> {
    let with_loss = if lost > 0.0 { 5.0 } else { 0.0 };
    vec![
        ("cuts", 6.0),
        ("cut_acknowledged", 5000.0),
        ("cut_lost", lost),
        ("cut_gone_with_server", gone),
        ("cuts_with_loss", with_loss),
        ("cuts_not_back", not_back),
    ]
}

#[test]
fn who_keeps_its_word_is_told_from_who_does_not() {
    let folder = tempfile::tempdir().unwrap();
    let mut run = RunDir::create(&folder.path().join("run"), "name = \"made-up\"", &json!({})).unwrap();
    let lacked = ("first_not_covered", "u1: data.mdb lacked map");
    let back = ("not_back", "server 'knot' ended\nwith more lines");
    let kills = [
        ("kills", 6.0),
        ("kills_back", 6.0),
        ("serial_back_restarted", 2.0),
        ("serial_back_running", 0.0),
        ("serial_back_most", 34.0),
        ("pairs_asked", 900.0),
        ("mixed_by_query", 0.0),
        ("zones_transferred", 50.0),
        ("half_by_transfer", 0.0),
    ];
    for record in [
        trial(1, "syncs", "as it is", &syncs(120.0, 390.0, 0.0), &[]),
        trial(2, "syncs", "syncs off", &syncs(0.0, 3000.0, 7.2), &[lacked]),
        trial(3, "power-cut", "as it is", &cuts(0.0, 0.0, 0.0), &[]),
        trial(4, "power-cut", "syncs off", &cuts(4000.0, 500.0, 1.0), &[back]),
        trial(5, "kill", "as it is", &kills, &[]),
    ] {
        run.append(record).unwrap();
    }
    let text = report::terminal(&run).unwrap();
    for part in [
        "120 of 120",
        "0 of 120",
        "data.mdb lacked map",
        "none of 5,000",
        "4,500 of 5,000",
        "2 in 6 kills",
        "by 34 at most",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let page = report::html(&[run]).unwrap();
    for part in [
        "Does an acknowledged update survive a power cut?",
        "Yes, of knot (as it is); no, of knot (syncs off).",
        "each of 120 traced answers follows a sync that covers it",
        "7.2 times as many updates a second as the disk can sync",
        "4,500 of 5,000 acknowledged updates were lost, in 5 of 6 power cuts",
        "an older serial 2 times after a restart and 0 times while it ran; no half-applied change was in 50 transfers, no two versions were mixed in 900",
    ] {
        assert!(page.contains(part), "{part} is not on the page");
    }
    assert!(!text.contains("with more lines"), "one line of an error is enough in a table");
}
