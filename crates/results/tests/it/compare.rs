//! Matching of cells and verdicts on runs with known, made-up figures.

use measure::{Histogram, Metric, Named, Outcome, Reason, Validity, params};
use results::compare::{self, Comparison, FIGURES, Gates, Side, Verdict, compare};
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

fn by(threshold: f64) -> Gates {
    Gates::new(&[], Some(threshold)).unwrap()
}

fn two(a: Vec<TrialRecord>, b: Vec<TrialRecord>) -> Comparison {
    let folder = tempfile::tempdir().unwrap();
    let (a, b) = (run(&folder, "a", a), run(&folder, "b", b));
    compare(Side::new(&a, None), Side::new(&b, None), &by(0.05))
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
        .figures()
        .map(|(cell, f)| (cell.params["family"].as_str(), f.name, f.verdict, f.regression))
        .collect();
    assert_eq!(
        found,
        [("U-4-DS0", "server_pss", Verdict::Worse, true), ("COM", "server_pss", Verdict::None, false)]
    );
    let alone: Vec<_> = c.alone.iter().map(|a| (a.params["server"].as_str(), a.reason.as_str())).collect();
    assert_eq!(alone, [("knot", "only the base has it"), ("bind", "only the candidate has it")]);
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
    let side = |server| Side::new(&run, Some(server));
    let c = compare(side("old"), side("new"), &by(0.05));
    let figure = &c.cells[0].figures[0];
    assert_eq!((figure.pairs, figure.verdict, figure.regression), (Some(4), Verdict::Worse, true));
    assert_eq!((figure.a.repeats, figure.b.repeats, figure.b.trials, c.b.invalid), (5, 4, 5, 1));
    // The same threshold lower down: worse, but not certainly by so much; and the other way round it is better.
    assert_eq!(compare(side("old"), side("new"), &by(0.08)).regressions(), 0);
    assert_eq!(compare(side("new"), side("old"), &by(0.05)).with(Verdict::Better), 1);
}

#[test]
fn two_zones_of_one_run_are_compared_for_each_server() {
    let zone = |server: &str, name: &str, size: &str, values: &[f64]| {
        memory(
            server,
            &[("family", name), ("zone_size", size), ("zone_made", name), ("measure", "memory")],
            values,
        )
    };
    let mut trials = zone("nsd", "today", "1438", &[100.0, 101.0, 99.0, 100.0]);
    trials.extend(zone("nsd", "larger", "28760", &[200.0, 201.0, 199.0, 201.0]));
    trials.extend(zone("knot", "today", "1438", &[50.0, 51.0, 49.0, 50.0]));
    trials.extend(zone("knot", "larger", "28760", &[50.0, 51.0, 49.5, 50.0]));
    let folder = tempfile::tempdir().unwrap();
    let run = run(&folder, "zones", trials);
    let side = |zone| Side::with(&run, params::FAMILY, zone);
    let c = compare(side("today"), side("larger"), &by(0.05));
    let verdicts: Vec<_> =
        c.cells.iter().map(|c| (c.params["server"].as_str(), c.figures[0].verdict)).collect();
    assert_eq!(verdicts, [("nsd", Verdict::Worse), ("knot", Verdict::None)]);
    assert_eq!((c.a.value.as_deref(), c.a.server.as_deref(), c.a.trials), (Some("today"), None, 8));
}

#[test]
fn sizes_of_two_families_are_not_mixed() {
    let zone = |name: &str, size: &str, values: &[f64]| {
        memory("nsd", &[("family", name), ("zone_size", size), ("measure", "memory")], values)
    };
    let mut trials = zone("U-4-DS0", "1000", &[10.0, 10.1, 9.9]);
    trials.extend(zone("U-4-DS0", "10000", &[100.0, 101.0, 99.0]));
    trials.extend(zone("S-6-DS100", "1000", &[20.0, 20.1, 19.9]));
    trials.extend(zone("S-6-DS100", "10000", &[200.0, 201.0, 199.0]));
    let folder = tempfile::tempdir().unwrap();
    let run = run(&folder, "sizes", trials);
    let side = |family| Side::with(&run, params::FAMILY, family);
    let c = compare(side("U-4-DS0"), side("S-6-DS100"), &by(0.05));
    let cells: Vec<_> =
        c.cells.iter().map(|c| (c.params["zone_size"].as_str(), c.figures[0].a.repeats)).collect();
    assert_eq!(cells, [("1000", 3), ("10000", 3)]);
    let ratio = |at: usize| c.cells[at].figures[0].change.unwrap().value;
    assert!((ratio(0) - 1.0).abs() < 0.05 && (ratio(1) - 1.0).abs() < 0.05);
}

#[test]
fn where_nothing_fits_the_parameters_that_differ_are_named() {
    let other: &[(&str, &str)] = &[
        ("family", "COM"),
        ("zone_size", "1000"),
        ("measure", "latency"),
        ("rate", "5000"),
        ("deadline", "4s"),
    ];
    let c = two(memory("nsd", LATENCY, &[1.0; 3]), memory("nsd", other, &[1.0; 3]));
    let apart: Vec<_> = c.apart.iter().map(|apart| (apart.parameter.as_str(), apart.b.join(","))).collect();
    assert_eq!(apart, [("family", "COM".to_owned())]);
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
    assert_eq!((c.b.valid, c.b.invalid, c.b.failed, c.compared(), c.lost()), (2, 1, 1, 0, 0));
    // Nothing valid on one side, for two reasons.
    spoilt(&mut b, &[0, 1], true);
    let c = two(a.clone(), b.clone());
    assert_eq!(
        (c.alone[0].reason.as_str(), c.lost()),
        ("no valid trial of the candidate (1 invalid, 3 failed)", 0)
    );
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
    let value_of = |t: &TrialRecord, name: &str| FIGURES.iter().find(|f| f.name == name).unwrap().of(t);
    let near = |name: &str, want: f64| {
        let got = value_of(&t, name).unwrap();
        assert!((got / want - 1.0).abs() < 0.002, "{name}: {got}, not {want}");
    };
    near("latency_p50", 100.0);
    near("latency_p90", 100.0);
    // One in fifty was not answered: of all that were sent, 99 % were not answered within the deadline.
    near("latency_p99", 4_000_000.0);
    near("answered_in_deadline_share", 98.0);
    near("server_cpu_per_query", 100.0);
    near("server_rss", 4096.0);
    assert_eq!(value_of(&t, "peak_qps"), None);
    // In a search, latencies are those of loads that the server chose.
    let searched: Vec<_> = t.params.iter().filter(|(k, _)| k != "measure").cloned().collect();
    t.params = searched.into_iter().chain([("measure".into(), "peak".into())]).collect();
    assert_eq!((value_of(&t, "latency_p50"), value_of(&t, "server_rss")), (None, Some(4096.0)));
}

/// A comparison of two servers of one run, with repeats in pairs.
fn turns(trials: Vec<TrialRecord>, gates: &Gates) -> Comparison {
    let folder = tempfile::tempdir().unwrap();
    let run = run(&folder, "ab", trials);
    let side = |server| Side::new(&run, Some(server));
    compare(side("old"), side("new"), gates)
}

const WINDOW: &[(&str, &str)] = &[("family", "U-4-DS0"), ("zone_size", "1000"), ("measure", "throughput")];

/// Six repeats of a metric by each server: base × factor, scattered by this share.
fn scattered(metric: &str, factor: f64, scatter: f64) -> Vec<TrialRecord> {
    let one = |server: &str, n: u32, value: f64| trial(server, n, WINDOW, &[(metric, value)]);
    let noise = |n: u32| 1.0 + scatter * [0.0, 1.0, -1.0, 0.5, -0.5, 0.2][n as usize % 6];
    (1..=6).flat_map(|n| [one("old", n, 1000.0), one("new", n, 1000.0 * factor * noise(n))]).collect()
}

#[test]
fn a_figure_is_no_worse_worse_better_or_not_known() {
    let outcome = |factor, scatter| {
        let c = turns(scattered("answered_qps", factor, scatter), &Gates::default());
        let needed = c.cells[0].figures[0].repeats_needed;
        assert_eq!(c.cells[0].figures[0].outcome, c.outcome());
        (c.outcome(), needed)
    };
    assert_eq!(outcome(1.0, 0.01), (compare::Outcome::NoWorse, None));
    // A difference that is shown, and that the threshold allows.
    assert_eq!(outcome(0.97, 0.005), (compare::Outcome::NoWorse, None));
    assert_eq!(outcome(0.8, 0.02), (compare::Outcome::Worse, None));
    assert_eq!(outcome(1.2, 0.02), (compare::Outcome::Better, None));
    // An interval that holds the threshold proves nothing, and says how many repeats would.
    let (not_known, needed) = outcome(0.98, 0.1);
    assert_eq!(not_known, compare::Outcome::NotKnown);
    assert!((20..80).contains(&needed.unwrap()), "{needed:?}");
    // What does not gate does not decide.
    let pss = Gates::new(&[("pss".into(), None)], None).unwrap();
    let c = turns(scattered("answered_qps", 0.8, 0.02), &pss);
    assert_eq!(
        (c.regressions(), c.outcome()),
        (1, compare::Outcome::NotKnown),
        "nothing that gates was measured"
    );
}

#[test]
fn the_difference_is_that_of_the_geometric_means_shown() {
    let mut trials = scattered("answered_qps", 0.8, 0.1);
    trials[3].outcome.validity.reject(Reason::new("late", "for a test"));
    let c = turns(trials, &Gates::default());
    let f = &c.cells[0].figures[0];
    let ratio = f.b.geometric_mean.unwrap() / f.a.geometric_mean.unwrap();
    assert!((ratio - 1.0 - f.change.unwrap().value).abs() < 1e-9, "{ratio} {:?}", f.change);
    assert!((f.b.geometric_mean.unwrap() / f.b.median - 1.0).abs() > 1e-4, "they are not the medians");
}

#[test]
fn cpu_time_with_a_window_is_throughput_once_more() {
    let rate = |params, qps: f64, cpu: f64| {
        let one = move |server: &str, n: u32, by: f64| {
            let scatter = 1.0 + 0.002 * f64::from(n % 3);
            let metrics =
                [("answered_qps", qps * by * scatter), ("server_cpu_per_query", cpu / by * scatter)];
            trial(server, n, params, &metrics)
        };
        (1..=6).flat_map(move |n| [one("old", n, 1.0), one("new", n, 0.8)]).collect::<Vec<_>>()
    };
    let c = turns(rate(WINDOW, 9e4, 10.0), &Gates::default());
    assert_eq!((c.compared(), c.with(Verdict::Worse), c.regressions(), c.gating().count()), (1, 1, 1, 1));
    let cpu = c.cells[0].figures.iter().find(|f| f.name == "server_cpu_per_query").unwrap();
    assert_eq!((cpu.same_as, cpu.verdict, cpu.gates), (Some("answered_qps"), Verdict::Worse, false));
    // At a rate that is given it is a finding of its own.
    let c = turns(rate(LATENCY, 5e3, 10.0), &Gates::default());
    assert_eq!((c.compared(), c.with(Verdict::Worse), c.gating().count()), (1, 1, 1));
}

#[test]
fn starts_before_different_loads_are_one_figure_with_all_repeats() {
    let starts = |params| {
        let one = move |server: &str, n: u32, v: f64| {
            trial(server, n, params, &[("server_ready", v * (1.0 + 0.01 * f64::from(n % 3)))])
        };
        (1..=4).flat_map(move |n| [one("old", n, 1.0), one("new", n, 1.02)]).collect::<Vec<_>>()
    };
    let c = turns([starts(WINDOW), starts(LATENCY)].concat(), &Gates::default());
    let all: Vec<_> =
        c.figures().map(|(cell, f)| (f.name, f.pairs, f.a.trials, cell.params.get("measure"))).collect();
    assert_eq!(all, [("server_ready", Some(8), 8, None)]);
    assert_eq!(c.cells.iter().map(|cell| cell.trials.len()).collect::<Vec<_>>(), [8, 8, 16]);
    assert_eq!(c.outcome(), compare::Outcome::NoWorse);
}

#[test]
fn a_candidate_that_fails_is_no_figure() {
    let mut trials = scattered("answered_qps", 1.0, 0.01);
    trials[5].error = Some("nsd ended with signal 11".into());
    let c = turns(trials.clone(), &Gates::default());
    assert_eq!((c.outcome(), c.candidate_failed, c.lost()), (compare::Outcome::CandidateFailed, 1, 0));
    assert_eq!(c.candidate_error.as_deref(), Some("nsd ended with signal 11"));
    // Where the base fails too, the candidate is not to blame.
    trials[2].error = Some("the disk is full".into());
    assert_eq!(turns(trials.clone(), &Gates::default()).outcome(), compare::Outcome::NoWorse);
    // A candidate whose answers are wrong fails, too; where the base's are as wrong, both are compared.
    let mut lies = scattered("answered_qps", 1.0, 0.01);
    let wrong = measure::Reason::new(measure::validity::WRONG_ANSWERS, "9 of 1000 answers are wrong");
    lies[5].outcome.validity.warn(wrong.clone());
    let c = turns(lies.clone(), &Gates::default());
    assert_eq!((c.outcome(), c.candidate_failed), (compare::Outcome::CandidateFailed, 1));
    assert_eq!(c.candidate_error.as_deref(), Some("9 of 1000 answers are wrong"));
    lies[2].outcome.validity.warn(wrong);
    assert_eq!(turns(lies, &Gates::default()).outcome(), compare::Outcome::NoWorse);
    // And a base that never works leaves nothing to compare with.
    trials.iter_mut().step_by(2).for_each(|t| t.error = Some("no".into()));
    assert_eq!(turns(trials, &Gates::default()).outcome(), compare::Outcome::NotKnown);
}
