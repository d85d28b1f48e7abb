//! Matching of cells and verdicts on runs with known, made-up figures.

use measure::{Histogram, Metric, Named, Outcome, Reason, Validity};
use results::compare::{Comparison, FIGURES, Side, Verdict, compare};
use results::{RunDir, SeriesRow, TrialRecord};
use serde_json::json;

const LATENCY: &[(&str, &str)] = &[
    ("family", "U-4-DS0"),
    ("zone_size", "1000"),
    ("measure", "latency"),
    ("rate", "5000"),
    ("deadline", "4s"),
];

fn trial(server: &str, repeat: u32, params: &[(&str, &str)], metrics: &[(&str, f64)]) -> TrialRecord {
    let named = [("experiment", "x"), ("server", server), ("kind", "nsd"), ("version", server)];
    let params = named.iter().chain(params).map(|(k, v)| ((*k).into(), (*v).into())).collect();
    let metrics = metrics.iter().map(|(name, value)| Metric::new(*name, "1", *value)).collect();
    TrialRecord {
        params,
        repeat,
        outcome: Outcome { metrics, validity: Validity::default(), histograms: Vec::new() },
        ..TrialRecord::default()
    }
}

fn run(folder: &tempfile::TempDir, name: &str, trials: Vec<TrialRecord>) -> RunDir {
    let mut run =
        RunDir::create(&folder.path().join(name), "", &json!({ "machine": { "kernel": name } })).unwrap();
    for (id, trial) in (1..).zip(trials) {
        run.append(TrialRecord { id, ..trial }).unwrap();
    }
    run
}

fn two(a: Vec<TrialRecord>, b: Vec<TrialRecord>) -> Comparison {
    let folder = tempfile::tempdir().unwrap();
    let (a, b) = (run(&folder, "a", a), run(&folder, "b", b));
    compare(Side { run: &a, server: None }, Side { run: &b, server: None }, 0.05)
}

/// Repeats with this memory each.
fn memory(server: &str, params: &[(&str, &str)], values: &[f64]) -> Vec<TrialRecord> {
    (1..).zip(values).map(|(n, v)| trial(server, n, params, &[("server_pss", *v)])).collect()
}

#[test]
fn cells_are_matched_by_what_was_measured() {
    let other: &[(&str, &str)] = &[("family", "COM"), ("measure", "latency"), ("traffic", "/home/a/queries")];
    let moved: &[(&str, &str)] =
        &[("traffic", "/srv/queries"), ("measure", "latency"), ("family", "COM"), ("zone_bytes", "7")];
    let mut a = memory("nsd", LATENCY, &[100.0, 101.0, 99.0]);
    a.extend(memory("nsd", other, &[50.0, 51.0, 52.0]));
    a.extend(memory("knot", LATENCY, &[10.0; 3]));
    let mut b = memory("nsd", moved, &[50.5, 51.5, 50.0]);
    b.extend(memory("nsd", LATENCY, &[130.0, 131.0, 129.0]));
    b.extend(memory("bind", LATENCY, &[10.0; 3]));
    let c = two(a, b);
    let found: Vec<_> = c
        .judged()
        .map(|(cell, f)| (cell.params["family"].as_str(), f.name, f.verdict, f.regression))
        .collect();
    assert_eq!(
        found,
        [("U-4-DS0", "server_pss", Verdict::Worse, true), ("COM", "server_pss", Verdict::None, false)]
    );
    let alone: Vec<_> = c.alone.iter().map(|a| (a.params["server"].as_str(), a.reason.as_str())).collect();
    assert_eq!(alone, [("knot", "only A has it"), ("bind", "only B has it")]);
    assert_eq!(c.environment.len(), 1);
    assert_eq!((c.environment[0].what.as_str(), &c.environment[0].b), ("machine.kernel", &json!("b")));
    let change = c.cells[0].figures[0].change.unwrap();
    assert!((change.value - 0.3).abs() < 0.001 && change.low > 0.27 && change.high < 0.33, "{change:?}");
}

#[test]
fn servers_of_one_run_are_compared_pair_by_pair() {
    // A drift of the machine far greater than the difference of 3 %.
    let drift = [1.0, 1.3, 0.8, 1.6, 1.1];
    let ready = |server: &str, factor: f64| -> Vec<TrialRecord> {
        let one = |(n, d): (u32, &f64)| {
            trial(server, n, LATENCY, &[("server_ready", d * factor * (1.0 + 0.002 * f64::from(n % 2)))])
        };
        (1..).zip(&drift).map(one).collect()
    };
    let mut trials = ready("old", 1.0);
    let mut new = ready("new", 1.08);
    new[4].outcome.validity.reject(Reason::new("late", "for a test"));
    trials.extend(new);
    let folder = tempfile::tempdir().unwrap();
    let run = run(&folder, "ab", trials);
    let side = |server| Side { run: &run, server: Some(server) };
    let c = compare(side("old"), side("new"), 0.05);
    let figure = &c.cells[0].figures[0];
    assert_eq!((figure.pairs, figure.verdict, figure.regression), (Some(4), Verdict::Worse, true));
    assert_eq!((figure.a.repeats, figure.b.repeats, figure.b.trials, c.b.invalid), (5, 4, 5, 1));
    // The same threshold lower down: worse, but not certainly by so much; and the other way round it is better.
    assert_eq!(compare(side("old"), side("new"), 0.08).regressions(), 0);
    assert_eq!(compare(side("new"), side("old"), 0.05).with(Verdict::Better), 1);
}

#[test]
fn what_is_not_valid_is_never_used_and_told() {
    let spoilt = |trials: &mut [TrialRecord], which: &[usize], failed: bool| {
        for &i in which {
            match failed {
                true => trials[i].error = Some("it fell over".into()),
                false => trials[i].outcome.validity.reject(Reason::new("late", "for a test")),
            }
        }
    };
    // The bad ones would make a difference.
    let a = memory("nsd", LATENCY, &[100.0, 100.0, 100.0, 100.0]);
    let mut b = memory("nsd", LATENCY, &[100.0, 100.0, 900.0, 900.0]);
    spoilt(&mut b, &[2], true);
    spoilt(&mut b, &[3], false);
    let c = two(a.clone(), b.clone());
    let f = &c.cells[0].figures[0];
    assert_eq!((f.b.repeats, f.b.trials, f.b.median, f.verdict), (2, 4, 100.0, Verdict::TooFew));
    assert_eq!((c.b.valid, c.b.invalid, c.b.failed, c.told(), c.lost()), (2, 1, 1, 0, 0));
    // Nothing valid on one side, for two reasons.
    spoilt(&mut b, &[0, 1], true);
    let c = two(a.clone(), b.clone());
    assert_eq!((c.alone[0].reason.as_str(), c.lost()), ("no valid trial in B (1 invalid, 3 failed)", 0));
    spoilt(&mut b, &[3], true);
    assert_eq!(two(a.clone(), b.clone()).lost(), 1);
    assert_eq!(two(b, a).lost(), 0);
}

#[test]
fn figures_are_what_their_names_say() {
    let mut histogram = Histogram::default();
    histogram.record_n(100_000, 900);
    histogram.record_n(2_000_000, 80);
    let metrics = [("sent", 1000.0), ("answered_in_deadline_share", 98.0), ("server_rss", 4096.0)];
    let mut t = trial("nsd", 1, LATENCY, &metrics);
    t.outcome.histograms.push(Named::new("latency", histogram));
    let row = |metric: &str, value| SeriesRow { second: 1, metric: metric.into(), unit: "1".into(), value };
    t.series = vec![row("server_cpu", 50.0), row("answered_qps", 5000.0)];
    let of = |t: &TrialRecord, name: &str| FIGURES.iter().find(|f| f.name == name).unwrap().of(t);
    let near = |name: &str, want: f64| {
        let got = of(&t, name).unwrap();
        assert!((got / want - 1.0).abs() < 0.002, "{name}: {got}, not {want}");
    };
    near("latency_p50", 100.0);
    near("latency_p90", 100.0);
    // One in fifty was not answered: of all that were sent, 99 % were not answered within the deadline.
    near("latency_p99", 4_000_000.0);
    near("answered_in_deadline_share", 98.0);
    near("server_cpu_per_query", 100.0);
    near("server_rss", 4096.0);
    assert_eq!(of(&t, "peak_qps"), None);
    // In a search, latencies are those of loads that the server chose.
    let searched: Vec<_> = t.params.iter().filter(|(k, _)| k != "measure").cloned().collect();
    t.params = searched.into_iter().chain([("measure".into(), "peak".into())]).collect();
    assert_eq!((of(&t, "latency_p50"), of(&t, "server_rss")), (None, Some(4096.0)));
}
