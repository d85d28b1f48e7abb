//! Queries on run directories give what the run directories hold.

use crate::{ask, kept_runs, shipped, two_threads};
use query::shipped::ALL;
use results::RunDir;
use serde_json::{Value, json};

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
    let copies: Vec<_> = ["a", "b"]
        .iter()
        .map(|above| {
            let copy = folder.path().join(above).join("run");
            std::fs::create_dir_all(&copy).unwrap();
            for file in std::fs::read_dir(&runs[0]).unwrap() {
                let file = file.unwrap();
                std::fs::copy(file.path(), copy.join(file.file_name())).unwrap();
            }
            copy
        })
        .collect();
    let rows = ask(&copies, &two_threads(), "SELECT run FROM runs ORDER BY run", &[]).unwrap();
    assert_eq!(rows, [json!({ "run": "a/run" }), json!({ "run": "b/run" })]);
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
