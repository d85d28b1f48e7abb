//! Repeats that are added to a plan until the figures of its cells are known well enough.

use crate::config::{Comparison, Order};
use crate::{Experiment, Measure, Trial, measures};
use measure::{Definition, Time};
use results::compare::{self, Outcome, Side};
use results::{RunDir, TrialRecord};

/// The figure by which a cell's repeats are compared, and how well it must be known.
fn goal(e: &Experiment, measure: Measure) -> Option<(Definition, f64)> {
    let precision = e.precision.as_ref()?;
    measures::of(measure).known_by.map(|(metric, most)| (metric, most(precision)))
}

/// One more repeat of a cell that is not known well enough, where all of the plan is done: of those with the fewest
/// repeats the first. The list grows by it.
pub fn add_repeat(e: &Experiment, plan: &mut Vec<Trial>, done: &[TrialRecord]) -> bool {
    let Some(precision) = &e.precision else { return false };
    let mut cells: Vec<(Trial, u32)> = Vec::new();
    for trial in plan.iter() {
        match cells.iter_mut().find(|(cell, _)| cell.is_like(trial)) {
            Some((_, repeats)) => *repeats = trial.repeat.max(*repeats),
            None => cells.push((trial.clone(), trial.repeat)),
        }
    }
    let open = |(cell, repeats): &&(Trial, u32)| {
        let Some((metric, most)) = goal(e, cell.measure) else { return false };
        let of_cell = plan.iter().filter(|t| t.is_like(cell));
        let records: Vec<&TrialRecord> = of_cell.filter_map(|t| done.iter().find(|d| d.id == t.id)).collect();
        // A cell that failed or was skipped is not measured again.
        let given = records.iter().filter(|r| r.error.is_none() && r.skipped.is_none()).count();
        *repeats < precision.repeats && given > 0 && !known(&records, metric, most)
    };
    let Some((cell, repeats)) = cells.iter().filter(open).min_by_key(|(_, repeats)| *repeats) else {
        return false;
    };
    let id = plan.iter().map(|t| t.id).max().unwrap_or(0) + 1;
    plan.push(Trial { id, repeat: repeats + 1, ..cell.clone() });
    true
}

/// One more repeat, or pair of repeats, of a cell that is not known well enough, where all of the plan is done.
pub fn go_on(e: &Experiment, plan: &mut Vec<Trial>, run_dir: &RunDir) -> bool {
    match &e.comparison {
        Some(comparison) => add_pair(e, comparison, plan, run_dir),
        None => add_repeat(e, plan, run_dir.trials()),
    }
}

/// Whether a plan of more repeats begins with the trials of a plan of fewer, so that a run can be given more of them later.
pub fn can_grow(e: &Experiment) -> bool {
    e.order != Order::Interleaved && e.precision.is_none() && e.comparison.is_none()
}

/// How long further repeats are begun.
pub fn budget(e: &Experiment) -> Time {
    let of_comparison = e.comparison.as_ref().map(|c| c.budget);
    of_comparison.or(e.precision.as_ref().map(|p| p.budget)).unwrap_or_default()
}

/// The level of intervals at which further repeats end. With it the looks on the way leave the comparison's level of 95 % about
/// as it is (`looks_on_the_way_leave_the_level_about_as_it_is` in `results::ratio`).
const SURE: f64 = 0.99;

/// A repeat of base and candidate more, of the cell with the fewest repeats among those in which a figure that decides is not
/// known. What a cell says is looked at after `repeats` repeats, and after each third more, and by a higher level than the
/// comparison's own: frequent looks find by chance what is not there.
fn add_pair(e: &Experiment, c: &Comparison, plan: &mut Vec<Trial>, run_dir: &RunDir) -> bool {
    // Only what the plan has: a run that goes on decides as it did before it was ended.
    let last = plan.iter().map(|t| t.id).max().unwrap_or(0);
    let side = |label| Side { upto: Some(last), ..Side::new(run_dir, Some(label)) };
    let found = compare::compare(side(&c.base), side(&c.candidate), &c.gates);
    if found.outcome_so_far() == Outcome::CandidateFailed {
        return false;
    }
    let unknown: Vec<u32> = found
        .gating()
        .filter(|(_, f)| f.outcome == Outcome::NotKnown || !f.is_decided(SURE))
        .flat_map(|(cell, _)| cell.trials.iter().copied())
        .collect();
    let mut cells: Vec<(Trial, u32, bool)> = Vec::new();
    for trial in plan.iter().filter(|t| t.server == c.base) {
        let open = unknown.contains(&trial.id);
        match cells.iter_mut().find(|(cell, ..)| cell.is_like(trial)) {
            Some((_, repeats, known)) => (*repeats, *known) = (trial.repeat.max(*repeats), open || *known),
            None => cells.push((trial.clone(), trial.repeat, open)),
        }
    }
    let open = |(_, repeats, unknown): &&(Trial, u32, bool)| {
        *repeats < c.repeats && (*unknown || !is_look(e.repeats, *repeats))
    };
    let Some((cell, repeats, _)) = cells.iter().filter(open).min_by_key(|(_, repeats, _)| *repeats) else {
        return false;
    };
    let repeat = repeats + 1;
    let mut turn = [&c.base, &c.candidate];
    if repeat % 2 == 0 {
        turn.reverse();
    }
    for (id, server) in (last + 1..).zip(turn) {
        plan.push(Trial { id, repeat, server: server.clone(), ..cell.clone() });
    }
    true
}

/// Whether a cell of so many repeats is looked at: at the first `least`, and at each third more.
fn is_look(least: u32, repeats: u32) -> bool {
    let mut at = least;
    while at < repeats {
        at += (at / 3).max(1);
    }
    at == repeats || repeats < least
}

/// Whether the interval of a metric's median is narrow enough, by enough valid repeats to have one.
fn known(records: &[&TrialRecord], metric: Definition, most: f64) -> bool {
    let valid = records.iter().filter(|r| r.is_valid());
    let values: Vec<f64> = valid.filter_map(|r| r.outcome.metric(metric)).collect();
    let (Some(interval), Some(median)) = (stats::interval(&values, stats::LEVEL), stats::median(&values))
    else {
        return false;
    };
    interval.basis == stats::Basis::OrderStatistics
        && interval.relative_half_width(median).is_none_or(|half| half <= most)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::plan;
    use measure::{metrics, params};

    fn experiment(sets: &[&str]) -> Experiment {
        crate::open_with("demo", sets).unwrap()
    }

    #[test]
    fn repeats_are_added_until_the_figure_is_known() {
        let sets = ["servers=nsd,knot", "measure=peak", "zone.families=U-4-DS0", "zone.delegations=1K"];
        let e = experiment(&[&sets[..], &["precision.rate=0.05", "precision.repeats=9"]].concat());
        let mut trials = plan(&e);
        let mut done = Vec::new();
        loop {
            for trial in &trials[done.len()..] {
                let mut record = TrialRecord { id: trial.id, ..TrialRecord::default() };
                let noise = if trial.server == "nsd" { 0.01 } else { 0.5 };
                let value = 1000.0 * (1.0 + noise * f64::from(trial.repeat % 3));
                record.outcome.metrics.push(metrics::CAPACITY_QPS.of(value));
                done.push(record);
            }
            if !add_repeat(&e, &mut trials, &done) {
                break;
            }
        }
        let count = |server: &str| trials.iter().filter(|t| t.server == server).count();
        // Six are the fewest with an interval at 95 %; the other never gets there.
        assert_eq!((count("nsd"), count("knot")), (6, 9));
        done.iter_mut().for_each(|record| record.error = Some("no".into()));
        assert!(!add_repeat(&e, &mut trials, &done));
    }

    /// The metric that repeats are compared by is one that trials of the measure really keep: the kept runs have them.
    #[test]
    fn repeats_are_compared_by_a_metric_that_trials_have() {
        let e = experiment(&["precision.rate=0.05"]);
        let all = [
            Measure::Latency,
            Measure::Throughput,
            Measure::Peak,
            Measure::Memory,
            Measure::Load,
            Measure::Update,
            Measure::Lag,
            Measure::Churn,
            Measure::Transfer,
            Measure::Batches,
            Measure::Syncs,
        ];
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/runs");
        let mut seen = std::collections::BTreeSet::new();
        for run in std::fs::read_dir(folder).unwrap() {
            let run = results::RunDir::open(&run.unwrap().path()).unwrap();
            let plan = std::fs::read_to_string(run.dir().join("run.toml")).unwrap();
            for trial in run.trials().iter().filter(|t| t.is_valid()) {
                let word = trial.param(params::MEASURE).unwrap();
                let Some(measure) = all.iter().find(|m| m.word() == word) else { continue };
                let (metric, _) = goal(&e, *measure).unwrap();
                // Runs from before the capacity was measured have the knee alone.
                let knee = trial.outcome.metric(metrics::PEAK_LOWER).filter(|_| *measure == Measure::Peak);
                // Older runs of lag have the median, and no mean.
                let lag = trial.outcome.metric(metrics::LAG.p50).filter(|_| metric == metrics::LAG_MEAN);
                // Batches without times, for which precision is refused, have their octets.
                let octets = trial.outcome.metric(metrics::BATCHES_BYTES);
                let octets = octets.filter(|_| plan.contains("batch_times = false"));
                let has = trial.outcome.metric(metric).or(knee).or(lag).or(octets).is_some();
                assert!(has, "{}: no {}", run.dir().display(), metric.name());
                seen.insert(word.to_owned());
            }
        }
        assert_eq!(seen.len(), all.len(), "only {seen:?} are measured by kept runs");
    }

    /// A comparison of `nsd` with `knot` on one cell: the figures of the candidate by the repeat, from those of the base.
    fn compared(
        sets: &[&str],
        candidate: impl Fn(u32) -> f64,
    ) -> (Vec<Trial>, tempfile::TempDir, Experiment) {
        let fixed = [
            "servers=nsd,knot",
            "measure=throughput",
            "zone.families=U-4-DS0",
            "zone.delegations=1K",
            "order=interleaved",
            "repeats=6",
            "comparison.base=nsd",
            "comparison.candidate=knot",
        ];
        let e = experiment(&[&fixed[..], sets].concat());
        let folder = tempfile::tempdir().unwrap();
        let mut run_dir = RunDir::create(&folder.path().join("run"), "", &serde_json::json!({})).unwrap();
        let mut trials = plan(&e);
        loop {
            for trial in &trials[run_dir.trials().len()..] {
                let factor = if trial.server == "nsd" { 1.0 } else { candidate(trial.repeat) };
                let mut record = TrialRecord { id: trial.id, repeat: trial.repeat, ..TrialRecord::default() };
                record.params =
                    vec![("server".into(), trial.server.clone()), ("measure".into(), "throughput".into())];
                if factor == 0.0 {
                    record.error = Some("it ended".into());
                }
                record.outcome.metrics.push(metrics::ANSWERED_QPS.of(1000.0 * factor));
                run_dir.append(record).unwrap();
            }
            if !go_on(&e, &mut trials, &run_dir) {
                return (trials, folder, e);
            }
        }
    }

    #[test]
    fn pairs_are_added_until_what_decides_is_decided() {
        let most = |(trials, ..): &(Vec<Trial>, tempfile::TempDir, Experiment)| {
            assert_eq!(trials.len() % 2, 0);
            trials.iter().map(|t| t.repeat).max().unwrap()
        };
        let scatter = |by: f64| move |n: u32| 1.0 + by * [0.0, 1.0, -1.0, 0.6, -0.6][n as usize % 5];
        assert_eq!(most(&compared(&[], scatter(0.01))), 6);
        let some = compared(&[], scatter(0.1));
        assert!([8, 10, 13, 17, 22, 29].contains(&most(&some)), "{}", most(&some));
        // No repeats are added within the threshold, or for figures that do not decide.
        assert_eq!(most(&compared(&["comparison.gates.throughput=0.2"], scatter(0.1))), 6);
        assert_eq!(most(&compared(&["comparison.gates.start=0.2"], scatter(0.1))), 6);
        // It ends somewhere, and where the candidate fails.
        assert_eq!(most(&compared(&["comparison.repeats=14"], scatter(0.5))), 14);
        assert_eq!(most(&compared(&[], |n| if n == 4 { 0.0 } else { scatter(0.1)(n) })), 6);
        // A turn begins with the other server than the one before.
        let added: Vec<(&str, u32)> = some.0[12..16].iter().map(|t| (t.server.as_str(), t.repeat)).collect();
        assert_eq!(added, [("nsd", 7), ("knot", 7), ("knot", 8), ("nsd", 8)]);
        // A run that goes on comes to the same plan from the first trials on.
        let run_dir = RunDir::open(&some.1.path().join("run")).unwrap();
        let mut again = plan(&some.2);
        while again.len() < run_dir.trials().len() && go_on(&some.2, &mut again, &run_dir) {}
        assert_eq!(again, some.0);
    }
}
