//! Queries on run directories give what the run directories hold.

use crate::{ask, kept_runs, shipped, two_threads};
use query::shipped::ALL;
use results::RunDir;
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};

#[test]
fn every_query_on_runs_has_rows() {
    for query in ALL.iter().filter(|query| query.is_of_runs()) {
        assert!(!shipped(&[kept_runs()], &two_threads(), query.name).is_empty(), "@{}", query.name);
    }
}

#[test]
fn tables_have_all_that_a_run_directory_has() {
    let path = kept_runs().join("rzaia-latency-signed-1M");
    let run = RunDir::open(&path).unwrap();
    let count = |table: &str| {
        let sql = format!("SELECT count(*) AS n FROM {table}");
        ask(std::slice::from_ref(&path), &two_threads(), &sql, &[]).unwrap()[0]["n"].as_u64().unwrap()
            as usize
    };
    let sum = |of: fn(&results::TrialRecord) -> usize| run.trials().iter().map(of).sum::<usize>();
    assert_eq!(count("trials"), run.trials().len());
    assert_eq!(count("metrics"), sum(|t| t.outcome.metrics.len()));
    assert_eq!(count("series"), sum(|t| t.series.len()));
    assert_eq!(
        count("latency"),
        sum(|t| t.outcome.histograms.iter().map(|h| h.value.buckets().count()).sum())
    );
    assert_eq!(count("runs"), 1);
    assert_eq!(count("servers"), 2);
    assert_eq!(count("environment WHERE key = 'machine.cpus'"), 1);
}

#[test]
fn medians_are_those_of_the_report() {
    let path = kept_runs().join("rzaia-latency-signed-1M");
    let run = RunDir::open(&path).unwrap();
    let rows = shipped(&[path], &two_threads(), "figures");
    assert_eq!(rows.len(), 4, "two servers, two sizes");
    for row in rows {
        let of_cell = |t: &&results::TrialRecord| {
            t.is_valid()
                && t.param(measure::params::SERVER) == row["server"].as_str()
                && t.param(measure::params::ZONE_SIZE) == row["zone_size"].as_str()
        };
        let values: Vec<f64> = run
            .trials()
            .iter()
            .filter(of_cell)
            .filter_map(|t| t.outcome.metrics.iter().find(|m| m.name == "latency_p50"))
            .map(|m| m.value)
            .collect();
        assert_eq!(row["repeats"], json!(values.len()));
        assert_eq!(row["median"].as_f64(), stats::median(&values), "{row}");
    }
}

#[test]
fn several_runs_are_joined_by_their_names() {
    let runs = [kept_runs().join("demo"), kept_runs().join("rzaia-latency-signed-1M")];
    let sql = "SELECT DISTINCT run FROM metrics JOIN trials USING (run, trial) WHERE valid ORDER BY run";
    let rows = ask(&runs, &two_threads(), sql, &[]).unwrap();
    assert_eq!(rows, [json!({ "run": "demo" }), json!({ "run": "rzaia-latency-signed-1M" })]);
    // The same folder name twice: the folders above tell them apart.
    let folder = tempfile::tempdir().unwrap();
    let copies = ["a", "b"].map(|above| copy(&runs[0], &folder.path().join(above).join("run")));
    let rows = ask(&copies, &two_threads(), "SELECT run FROM runs ORDER BY run", &[]).unwrap();
    assert_eq!(rows, [json!({ "run": "a/run" }), json!({ "run": "b/run" })]);
}

/// The folder of a run directory's copy.
fn copy(run: &Path, to: &Path) -> PathBuf {
    fs::create_dir_all(to).unwrap();
    for file in fs::read_dir(run).unwrap() {
        let file = file.unwrap();
        fs::copy(file.path(), to.join(file.file_name())).unwrap();
    }
    to.into()
}

#[test]
fn figures_stand_beside_the_memory_of_their_machines_the_quickest_first() {
    let folder = tempfile::tempdir().unwrap();
    let with_memory = |name: &str, hardware: Value| {
        let copy = copy(&kept_runs().join("rzaia-latency-signed-1M"), &folder.path().join(name));
        let file = copy.join("environment.json");
        let mut environment: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
        environment["machine"]["hardware"] = hardware;
        fs::write(&file, environment.to_string()).unwrap();
        copy
    };
    let runs = [
        with_memory("slow", json!({ "memory_latency_ns": 140.25, "memory_bandwidth_mb_s": 9000.0 })),
        with_memory("quick", json!({ "memory_latency_ns": 70.5, "memory_bandwidth_mb_s": 30000.4 })),
        with_memory("unknown", Value::Null),
        with_memory("unsure", json!({ "memory_latency_ns": 99.0, "disturbed": "other programs ran" })),
    ];
    let query = query::shipped::Shipped::find("figures-by-memory").unwrap();
    let rows = ask(&runs, &two_threads(), query.sql, &[("metric", "latency_p50")]).unwrap();
    let memory: Vec<Value> = rows
        .iter()
        .map(|row| json!([row["run"], row["memory_latency_ns"], row["memory_bandwidth_mb_s"]]))
        .collect();
    let each = [
        json!(["quick", 70.5, 30000.0]),
        json!(["slow", 140.3, 9000.0]),
        json!(["unknown", null, null]),
        json!(["unsure", null, null]),
    ];
    assert_eq!(memory, [each.clone(), each.clone(), each.clone(), each].concat(), "two servers, two sizes");
}

#[test]
fn a_run_knows_when_it_began_and_where() {
    let rows = ask(
        &[kept_runs().join("rzaia-latency-signed-1M")],
        &two_threads(),
        "SELECT started, experiment, cpu, trials FROM runs",
        &[],
    )
    .unwrap();
    assert_eq!(rows[0]["experiment"], "rzaia-latency");
    assert_eq!(rows[0]["cpu"], "AMD EPYC");
    assert!(rows[0]["started"].as_str().unwrap().starts_with("2026-11-26T"), "{}", rows[0]);
    assert_ne!(rows[0]["trials"], Value::Null);
}
