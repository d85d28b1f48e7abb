//! Run directories on disk: what goes in comes out, and nothing that was not committed.

use measure::{Histogram, Metric, Named, Outcome, Reason, Validity};
use proptest::prelude::*;
use results::{Error, RunDir, SeriesRow, TrialRecord};
use serde_json::json;
use std::fs;
use std::path::Path;

const PLAN: &str = "name = \"demo\"\nseed = 1\n\n[trial]\nrate = 5000\nsizes = [1000, 10000]\n";

fn trial(id: u32) -> TrialRecord {
    let mut latency = Histogram::default();
    (0..1000u64).for_each(|i| latency.record(80_000 + i * i));
    let mut validity = Validity::default();
    validity.warn(Reason::new("co_located", "generator and server share a machine"));
    TrialRecord {
        id,
        params: vec![("server".into(), "nsd".into()), ("empty".into(), String::new())],
        repeat: 1,
        outcome: Outcome {
            metrics: vec![Metric::new("loss_ratio", "1", 0.1 + 0.2), Metric::new("odd", "1", f64::INFINITY)],
            histograms: vec![Named::new("latency", latency), Named::new("none", Histogram::default())],
            validity,
        },
        error: None,
        skipped: id.is_multiple_of(2).then(|| "needs 9 GB".into()),
        series: vec![SeriesRow { second: 1, metric: "sent_qps".into(), unit: "1/s".into(), value: 5000.0 }],
    }
}

fn new_run(folder: &Path) -> RunDir {
    RunDir::create(&folder.join("run"), PLAN, &json!({"kernel": "6.1", "co_located": true})).unwrap()
}

#[test]
fn what_is_appended_is_read_again() {
    let folder = tempfile::tempdir().unwrap();
    let mut run = new_run(folder.path());
    let failed =
        TrialRecord { id: 9, repeat: 2, error: Some("named: exit 1".into()), ..TrialRecord::default() };
    run.append(trial(3)).unwrap();
    run.append(failed.clone()).unwrap();
    let again = RunDir::open(run.dir()).unwrap();
    assert_eq!(again.trials(), [trial(3), failed]);
    assert_eq!(again.trials(), run.trials());
    assert_eq!((again.run_toml(), &again.environment()["kernel"]), (PLAN, &json!("6.1")));
    assert!(matches!(run.append(trial(3)), Err(Error::Duplicate { trial: 3, .. })));
    let mut names: Vec<String> =
        fs::read_dir(run.dir()).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    assert_eq!(
        names,
        ["environment.json", "latency.parquet", "run.toml", "series.parquet", "trials.parquet"]
    );
}

#[test]
fn a_new_run_overwrites_nothing() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("thesis.tex"), "x").unwrap();
    let error = RunDir::create(folder.path(), PLAN, &json!({})).unwrap_err();
    assert!(matches!(error, Error::NotEmpty { .. }));
    let text = error.to_string();
    assert!(text.contains("--resume") && text.contains("-o"), "{text}");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    fs::create_dir(folder.path().join("empty")).unwrap();
    assert!(RunDir::create(&folder.path().join("empty"), PLAN, &json!({})).is_ok());
}

#[test]
fn a_trial_that_was_not_committed_is_not_there() {
    let folder = tempfile::tempdir().unwrap();
    let mut run = new_run(folder.path());
    run.append(trial(1)).unwrap();
    let committed = fs::read(run.dir().join("trials.parquet")).unwrap();
    run.append(trial(2)).unwrap();
    // As if the run had been stopped before the last of the three renames.
    fs::write(run.dir().join("trials.parquet"), committed).unwrap();
    let path = run.dir().to_owned();
    drop(run);
    let mut again = RunDir::open(&path).unwrap();
    assert_eq!(again.trials(), [trial(1)]);
    again.append(trial(5)).unwrap();
    assert_eq!(RunDir::open(&path).unwrap().trials(), [trial(1), trial(5)]);
}

#[test]
fn two_runs_do_not_share_a_folder() {
    let folder = tempfile::tempdir().unwrap();
    let run = new_run(folder.path());
    let mut other = RunDir::open(run.dir()).unwrap();
    assert!(matches!(other.append(trial(1)), Err(Error::InUse { .. })));
    assert!(RunDir::is_at_work(run.dir()));
    let path = run.dir().to_owned();
    drop(run);
    assert!(!RunDir::is_at_work(&path));
    // Whoever only looks is not in the way.
    let looking = fs::File::open(&path).unwrap();
    looking.lock_shared().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(std::time::Duration::from_millis(30));
            drop(looking);
        });
        other.append(trial(1)).unwrap();
    });
}

#[test]
fn a_resumed_run_is_the_same_experiment() {
    let folder = tempfile::tempdir().unwrap();
    let run = new_run(folder.path());
    run.same_plan("# again\nseed = 1\nname = 'demo'\ntrial = { sizes = [1000, 10_000], rate = 5000 }\n")
        .unwrap();
    for (from, to, says) in [
        ("5000", "4000", "trial.rate was 5000, is 4000"),
        ("seed = 1\n", "", "seed is not given any more"),
        ("[trial]", "extra = 1\n[trial]", "extra was not given"),
    ] {
        let text = run.same_plan(&PLAN.replace(from, to)).unwrap_err().to_string();
        assert!(text.contains(says) && text.contains("run.toml"), "{text}");
    }
}

#[test]
fn a_resumed_run_may_have_more_repeats() {
    let folder = tempfile::tempdir().unwrap();
    let plan = |repeats: u32, seed: u32| format!("repeats = {repeats}\nseed = {seed}\n");
    let mut run = RunDir::create(&folder.path().join("run"), &plan(3, 1), &json!({"kernel": "6.1"})).unwrap();
    run.append(trial(1)).unwrap();
    for (repeats, seed) in [(2, 1), (3, 1), (5, 2)] {
        run.take_more_repeats(&plan(repeats, seed), "other").unwrap();
        assert_eq!((run.run_toml(), run.environment().get("command")), (&*plan(3, 1), None));
    }
    run.take_more_repeats(&plan(5, 1), "dnsrack run it").unwrap();
    run.same_plan(&plan(5, 1)).unwrap();
    let again = RunDir::open(run.dir()).unwrap();
    assert_eq!(again.run_toml(), plan(5, 1));
    assert_eq!(again.environment(), &json!({"kernel": "6.1", "command": "dnsrack run it"}));
    assert_eq!(again.trials(), [trial(1)]);
}

#[test]
fn broken_files_are_named() {
    let folder = tempfile::tempdir().unwrap();
    assert!(matches!(RunDir::open(&folder.path().join("none")), Err(Error::Io { .. })));
    assert!(matches!(RunDir::open(folder.path()), Err(Error::NotARun { .. })));
    let mut run = new_run(folder.path());
    run.append(trial(1)).unwrap();
    for name in ["trials.parquet", "latency.parquet", "series.parquet", "environment.json"] {
        let path = run.dir().join(name);
        let good = fs::read(&path).unwrap();
        let other = if name == "series.parquet" { "latency.parquet" } else { "series.parquet" };
        let other = fs::read(run.dir().join(other)).unwrap();
        for bad in [&good[..good.len() / 2], b"", &other] {
            fs::write(&path, bad).unwrap();
            let error = RunDir::open(run.dir()).unwrap_err();
            assert!(matches!(error, Error::Corrupt { .. }), "{name}: {error}");
            assert!(error.to_string().contains(name), "{error}");
        }
        fs::remove_file(&path).unwrap();
        assert!(RunDir::open(run.dir()).unwrap_err().to_string().contains(name));
        fs::write(&path, good).unwrap();
    }
    RunDir::open(run.dir()).unwrap();
}

#[test]
fn mutated_tables_give_errors_at_worst() {
    let folder = tempfile::tempdir().unwrap();
    let mut run = new_run(folder.path());
    run.append(trial(1)).unwrap();
    let mut draw = measure::Seed(5).draw("mutations", 0);
    for name in ["trials.parquet", "latency.parquet", "series.parquet"] {
        let good = fs::read(run.dir().join(name)).unwrap();
        results::fuzz_tables(folder.path(), &good);
        for _ in 0..300 {
            let mut bad = good.clone();
            for _ in 0..=draw.below(4) {
                let at = draw.below(bad.len() as u64) as usize;
                bad[at] = draw.below(256) as u8;
            }
            bad.truncate(bad.len() - draw.below(3) as usize * draw.below(20) as usize);
            results::fuzz_tables(folder.path(), &bad);
        }
    }
}

#[test]
fn the_tables_have_the_columns_that_readers_know() {
    let folder = tempfile::tempdir().unwrap();
    let mut run = new_run(folder.path());
    run.append(trial(1)).unwrap();
    let columns = |name: &str| {
        use parquet::file::reader::{FileReader, SerializedFileReader};
        let reader = SerializedFileReader::new(fs::File::open(run.dir().join(name)).unwrap()).unwrap();
        let schema = reader.metadata().file_metadata().schema_descr();
        let list: Vec<String> = schema
            .columns()
            .iter()
            .map(|c| {
                format!("{} {}{}", c.name(), c.physical_type(), if c.max_def_level() > 0 { "?" } else { "" })
            })
            .collect();
        list.join(", ")
    };
    insta::assert_snapshot!(
        ["trials.parquet", "latency.parquet", "series.parquet"].map(columns).join("\n"),
        @r"
    trial INT32, repeat INT32, kind BYTE_ARRAY, name BYTE_ARRAY, unit BYTE_ARRAY?, value DOUBLE?, text BYTE_ARRAY?
    trial INT32, histogram BYTE_ARRAY, low_ns INT64, high_ns INT64, count INT64
    trial INT32, second INT32, metric BYTE_ARRAY, unit BYTE_ARRAY, value DOUBLE
    "
    );
}

fn any_trial(id: u32) -> impl Strategy<Value = TrialRecord> {
    let text = "\\PC{0,20}";
    let metrics = prop::collection::vec((text, prop::num::f64::NORMAL | prop::num::f64::ZERO), 0..6);
    let histograms = prop::collection::vec(prop::collection::vec(any::<u64>(), 0..50), 0..3);
    let reasons = prop::collection::vec((text, text), 0..3);
    let series = prop::collection::vec((any::<u32>(), text, -1e12f64..1e12), 0..9);
    let params = prop::collection::vec((text, text), 0..4);
    let head = (1u32..4, any::<bool>(), prop::option::of(text));
    (params, metrics, histograms, reasons.clone(), reasons, series, head).prop_map(
        move |(params, metrics, histograms, reasons, warnings, series, (repeat, valid, error))| {
            let reason = |(code, text): (String, String)| Reason { code, text };
            let histogram = |(i, values): (usize, Vec<u64>)| {
                let mut h = Histogram::default();
                values.iter().for_each(|v| h.record(*v));
                Named::new(format!("h{i}"), h)
            };
            TrialRecord {
                id,
                params,
                repeat,
                outcome: Outcome {
                    metrics: metrics.into_iter().map(|(n, v)| Metric::new(n, "1", v)).collect(),
                    histograms: histograms.into_iter().enumerate().map(histogram).collect(),
                    validity: Validity {
                        valid,
                        warnings: warnings.into_iter().map(reason).collect(),
                        reasons: reasons.into_iter().map(reason).collect(),
                    },
                },
                skipped: None,
                error,
                series: series
                    .into_iter()
                    .map(|(second, metric, value)| SeriesRow { second, metric, unit: "1".into(), value })
                    .collect(),
            }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn any_trials_come_back_exactly(a in any_trial(1), b in any_trial(7)) {
        let folder = tempfile::tempdir().unwrap();
        let mut run = new_run(folder.path());
        run.append(a.clone()).unwrap();
        run.append(b.clone()).unwrap();
        let again = RunDir::open(run.dir()).unwrap();
        prop_assert_eq!(again.trials(), &[a, b][..]);
    }
}

/// The kept runs were written by many versions: whatever they have must be in the registry, in the same unit.
#[test]
fn every_metric_of_the_kept_runs_is_in_the_registry() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/runs");
    let mut seen = std::collections::BTreeSet::new();
    for run in fs::read_dir(folder).unwrap() {
        let run = RunDir::open(&run.unwrap().path()).unwrap();
        for metric in run.trials().iter().flat_map(|trial| &trial.outcome.metrics) {
            let (unit, _) = measure::metrics::describe(&metric.name)
                .unwrap_or_else(|| panic!("{}: {} is not in it", run.dir().display(), metric.name));
            assert_eq!(metric.unit, unit, "{}: {}", run.dir().display(), metric.name);
            seen.insert(metric.name.clone());
        }
    }
    assert!(seen.len() > 300, "the kept runs have only {} metrics", seen.len());
}
