//! The trials of an experiment, in order: a list that depends on the file alone, and the repeats that are added to it
//! until figures are known well enough, which depend on what is done.

use crate::file::Comparison;
use crate::updating::Timers;
use crate::{Experiment, Measure, Order, family_spec};
use measure::metrics::{self, Definition, Scope};
use measure::{Seed, Time};
use results::compare::{self, Outcome, Side};
use results::{RunDir, TrialRecord};
use std::path::PathBuf;

/// One zone of the plan.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ZonePlan {
    /// A generated zone.
    Family {
        /// `U-4-DS0` …
        family: String,
        /// Its size.
        delegations: u64,
    },
    /// The user's own zone file.
    File(PathBuf),
}

impl ZonePlan {
    /// A name for files, tables and messages: `U-4-DS0-10K`, or the file's.
    pub fn label(&self) -> String {
        match self {
            Self::Family { family, delegations } => {
                // No comma, no slash in the name of a file.
                let family = family.replace('/', "of");
                format!("{family}-{}", measure::units::short(*delegations).replace(',', ""))
            }
            Self::File(path) => {
                path.file_name().map_or_else(|| "zone".into(), |n| n.to_string_lossy().into_owned())
            }
        }
    }
}

/// One measurement at fixed parameters, with a fresh server.
#[derive(Clone, Debug, PartialEq)]
pub struct Trial {
    /// Its place in the plan, from 1; the key of resume.
    pub id: u32,
    /// The zone served.
    pub zone: ZonePlan,
    /// The server's label.
    pub server: String,
    /// The kind of measurement.
    pub measure: Measure,
    /// Queries per second; none where the rate is what is searched for, or a capture's.
    pub rate: Option<f64>,
    /// Updates per second; none where there are none, or where they are sent as fast as they are acknowledged.
    pub updates: Option<f64>,
    /// The traffic, where there are several.
    pub variant: Option<String>,
    /// From 1.
    pub repeat: u32,
}

impl Trial {
    /// Whether it is the same but for its repeat.
    fn is_like(&self, other: &Self) -> bool {
        let cell = |t: &Self| Self { id: 0, repeat: 0, ..t.clone() };
        cell(self) == cell(other)
    }

    /// In words: `nsd on U-4-DS0-10K, latency at 5000 queries/s, repeat 2`.
    pub fn words(&self) -> String {
        let mut rates: Vec<String> = self.rate.iter().map(|r| format!("{r} queries/s")).collect();
        rates.extend(self.updates.map(|u| format!("{u} updates/s")));
        let rate = if rates.is_empty() { String::new() } else { format!(" at {}", rates.join(" and ")) };
        let variant = self.variant.as_ref().map_or_else(String::new, |v| format!(" ({v})"));
        let Self { server, measure, repeat, .. } = self;
        format!("{server} on {}{variant}, {}{rate}, repeat {repeat}", self.zone.label(), measure.word())
    }
}

/// The zones of the plan, in the file's order.
pub fn zones(e: &Experiment) -> Vec<ZonePlan> {
    let of = |family: &String, delegations| ZonePlan::Family { family: family.clone(), delegations };
    match &e.zone.file {
        Some(file) => vec![ZonePlan::File(file.clone())],
        None => {
            let sizes = e.zone.delegations.iter();
            sizes.flat_map(|&n| e.zone.families.iter().map(move |f| of(f, n))).collect()
        }
    }
}

/// One measurement on one zone, to be made of each server.
#[derive(Clone)]
struct Task {
    measure: Measure,
    rate: Option<f64>,
    updates: Option<f64>,
    variant: Option<String>,
}

fn tasks(e: &Experiment) -> Vec<Task> {
    let mut all = Vec::new();
    for &measure in &e.measure {
        let variants: Vec<Option<String>> = match e.variant.as_slice() {
            some @ [_, ..] if measure.has_variants() => some.iter().map(|v| Some(v.name.clone())).collect(),
            _ => vec![None],
        };
        for variant in variants {
            let recorded = e.traffic_of(variant.as_deref()).0.trace.is_some();
            let of_variant = e.variant.iter().find(|v| Some(&v.name) == variant.as_ref());
            let rates = of_variant.and_then(|v| v.rates.as_ref()).unwrap_or(&e.latency.rates);
            let rates: Vec<Option<f64>> = match measure {
                Measure::Latency if !recorded => rates.iter().copied().map(Some).collect(),
                _ => vec![None],
            };
            let updates: Vec<Option<f64>> = match e.distribution_of(variant.as_deref()).secondaries {
                1.. if measure.is_under_updates() => e.updates.rates.iter().copied().map(Some).collect(),
                _ => vec![None],
            };
            for rate in rates {
                let task = |&updates: &Option<f64>| Task { measure, rate, updates, variant: variant.clone() };
                all.extend(updates.iter().map(task));
            }
        }
    }
    all
}

/// All trials in the order that the experiment asks for.
pub fn plan(e: &Experiment) -> Vec<Trial> {
    let (mut zones, tasks) = (zones(e), tasks(e));
    let trial = |zone: &ZonePlan, server: &String, task: &Task, repeat| {
        let Task { measure, rate, updates, variant } = task.clone();
        Trial { id: 0, zone: zone.clone(), server: server.clone(), measure, rate, updates, variant, repeat }
    };
    let mut trials = Vec::new();
    if e.order == Order::Interleaved {
        for zone in &zones {
            for task in &tasks {
                for repeat in 1..=e.repeats {
                    let mut turn: Vec<Trial> =
                        e.servers.iter().map(|server| trial(zone, server, task, repeat)).collect();
                    if repeat % 2 == 0 {
                        turn.reverse();
                    }
                    trials.extend(turn);
                }
            }
        }
    } else {
        for repeat in 1..=e.repeats {
            if e.order == Order::Random {
                shuffle(&mut zones, e.seed, "order of zones", repeat.into());
            }
            for (n, zone) in zones.iter().enumerate() {
                let on_zone =
                    tasks.iter().flat_map(|task| e.servers.iter().map(move |server| (task, server)));
                let mut of_zone: Vec<Trial> =
                    on_zone.map(|(task, server)| trial(zone, server, task, repeat)).collect();
                if e.order == Order::Random {
                    shuffle(&mut of_zone, e.seed, "order of trials", u64::from(repeat) << 32 | n as u64);
                }
                trials.extend(of_zone);
            }
        }
    }
    (1..).zip(&mut trials).for_each(|(id, trial)| trial.id = id);
    trials
}

/// Fisher and Yates'.
fn shuffle<T>(all: &mut [T], seed: u64, what: &str, n: u64) {
    let mut draw = Seed(seed).draw(what, n);
    for last in (1..all.len()).rev() {
        all.swap(last, draw.below(last as u64 + 1) as usize);
    }
}

/// Seconds of a plan, about: loads at their full length, and for each trial what a server takes to start and to end, and
/// for each zone what it takes to be made (from rates measured on one core of a machine of 2024).
pub fn seconds(e: &Experiment) -> u64 {
    let trial = |t: &Trial| {
        let starts = 1.0 + weight(&t.zone) as f64 / 5e7;
        let starts = starts * f64::from(e.servers_of(t.measure, t.variant.as_deref()));
        starts
            + match t.measure {
                Measure::Latency => e.latency.warmup.as_seconds() + e.latency.duration.as_seconds(),
                Measure::Throughput => e.throughput.warmup.as_seconds() + e.throughput.duration.as_seconds(),
                Measure::Peak => e.peak.budget.as_seconds(),
                Measure::Memory => e.memory.settle.as_seconds(),
                Measure::Load => 4.0 + starts,
                Measure::Lag => e.updates.duration.as_seconds() + 2.0,
                Measure::Churn => e.updates.every.as_seconds() * e.updates.series.len() as f64 + 2.0,
                // At some hundred a second.
                Measure::Update => e.updates.count as f64 / 500.0,
                Measure::Transfer => starts,
                Measure::Syncs | Measure::PowerCut | Measure::Kill => {
                    starts + e.durability.seconds(t.measure)
                }
                Measure::Batches => {
                    let variant = t.variant.as_deref();
                    let count = f64::from(e.batches_of(variant).count);
                    // BIND waits for 5 s before it tells of a change.
                    let waits = e.distribution_of(variant).timers == Timers::Default;
                    starts + count * if waits { 6.0 } else { 0.2 }
                }
            }
    };
    let signed = |zone: &ZonePlan| match zone {
        ZonePlan::Family { family, .. } => family_spec::is_signed(family),
        ZonePlan::File(_) => e.zone.sign_file,
    };
    let zone = |z: &ZonePlan| weight(z) as f64 / if signed(z) { 5e6 } else { 2e8 };
    (plan(e).iter().map(trial).sum::<f64>() + zones(e).iter().map(zone).sum::<f64>()).ceil() as u64
}

/// Bytes of a zone file, about: at 100K U-4-DS0 takes 360 a delegation, signed S-6-DS100 1,300.
pub fn weight(zone: &ZonePlan) -> u64 {
    match zone {
        ZonePlan::Family { family, delegations } if family_spec::is_signed(family) => delegations * 1_500,
        ZonePlan::Family { delegations, .. } => delegations * 600,
        ZonePlan::File(path) => path.metadata().map_or(0, |m| m.len()),
    }
}

/// The first trial of the plan that is not done yet.
pub fn next_trial<'a>(plan: &'a [Trial], done: &[TrialRecord]) -> Option<&'a Trial> {
    plan.iter().find(|t| done.iter().all(|d| d.id != t.id))
}

/// The figure by which a cell's repeats are judged, and how well it must be known.
fn goal(e: &Experiment, measure: Measure) -> Option<(Definition, f64)> {
    let precision = e.precision.as_ref()?;
    Some(match measure {
        Measure::Latency => (metrics::LATENCY.p50, precision.latency),
        Measure::Throughput => (metrics::ANSWERED_QPS, precision.rate),
        Measure::Peak => (metrics::CAPACITY_QPS, precision.rate),
        Measure::Memory => (metrics::SERVER_PSS, precision.rate),
        Measure::Load => (metrics::SERVER_READY, precision.rate),
        Measure::Update => (metrics::ACKNOWLEDGED_UPS.within(Scope::Updates), precision.rate),
        Measure::Lag | Measure::Churn => (metrics::LAG.p50, precision.latency),
        Measure::Transfer => (metrics::TRANSFER_SECONDS, precision.rate),
        Measure::Batches => (metrics::BATCHES_SECONDS, precision.rate),
        Measure::Syncs => (metrics::ACCEPTED_UPS.within(Scope::Updates), precision.rate),
        // What is counted there is not known better by repeats.
        Measure::PowerCut | Measure::Kill => return None,
    })
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
        // What cannot be measured, or was skipped, is not measured again.
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
pub fn go_on(e: &Experiment, plan: &mut Vec<Trial>, kept: &RunDir) -> bool {
    match &e.comparison {
        Some(comparison) => add_pair(e, comparison, plan, kept),
        None => add_repeat(e, plan, kept.trials()),
    }
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
/// comparison's own: whoever looks often sees by chance what is not there.
fn add_pair(e: &Experiment, c: &Comparison, plan: &mut Vec<Trial>, kept: &RunDir) -> bool {
    // Only what the plan has: a run that goes on decides as it did before it was ended.
    let last = plan.iter().map(|t| t.id).max().unwrap_or(0);
    let side = |label| Side { run: kept, server: Some(label), upto: Some(last) };
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

    fn experiment(sets: &[&str]) -> Experiment {
        let (path, text) = crate::named("demo").unwrap();
        crate::load(&path, &text, &sets.iter().map(|s| s.parse().unwrap()).collect::<Vec<_>>()).unwrap()
    }

    #[test]
    fn the_plan_is_the_matrix_with_servers_fastest() {
        let e = experiment(&["repeats=2", "zone.delegations=1K", "latency.rates=500,5K", "servers=nsd,knot"]);
        let trials = plan(&e);
        // 2 repeats × 2 families × (2 rates + 1 peak) × 2 servers
        assert_eq!(trials.len(), 24);
        assert_eq!(trials.iter().map(|t| t.id).collect::<Vec<_>>(), (1..=24).collect::<Vec<_>>());
        assert_eq!((trials[0].server.as_str(), trials[1].server.as_str()), ("nsd", "knot"));
        assert_eq!((trials[0].repeat, trials[23].repeat), (1, 2));
        assert_eq!(trials[0].zone.label(), "U-4-DS0-1K");
        assert_eq!(trials.iter().filter(|t| t.measure == Measure::Peak).count(), 8);
    }

    #[test]
    fn any_order_does_the_same_trials() {
        let sets = ["repeats=3", "servers=nsd,knot", "zone.delegations=1K"];
        let sorted = |order: &str| {
            let e = experiment(&[&sets[..], &[order]].concat());
            let mut words: Vec<String> = plan(&e).iter().map(Trial::words).collect();
            let in_order = words.clone();
            words.sort();
            (words, in_order)
        };
        let (blocked, first) = sorted("order=blocked");
        let (random, second) = sorted("order=random");
        let (interleaved, third) = sorted("order=interleaved");
        assert!(blocked == random && blocked == interleaved);
        assert!(first != second && second != third);
        // The second repeat goes back.
        assert!(third[0].starts_with("nsd") && third[1].starts_with("knot"), "{third:?}");
        assert!(third[2].starts_with("knot") && third[3].starts_with("nsd"), "{third:?}");
        assert_eq!(second, sorted("order=random").1, "drawn from the seed");
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

    /// The metric that repeats are judged by is one that trials of the measure really keep: the kept runs have them.
    #[test]
    fn repeats_are_judged_by_a_metric_that_trials_have() {
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
            for trial in run.trials().iter().filter(|t| t.is_valid()) {
                let word = trial.param("measure").unwrap();
                let Some(measure) = all.iter().find(|m| m.word() == word) else { continue };
                let (metric, _) = goal(&e, *measure).unwrap();
                // Runs from before the capacity was measured have the knee alone.
                let knee = trial.outcome.metric(metrics::PEAK_LOWER).filter(|_| *measure == Measure::Peak);
                let has = trial.outcome.metric(metric).or(knee).is_some();
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
        let mut kept = RunDir::create(&folder.path().join("run"), "", &serde_json::json!({})).unwrap();
        let mut trials = plan(&e);
        loop {
            for trial in &trials[kept.trials().len()..] {
                let factor = if trial.server == "nsd" { 1.0 } else { candidate(trial.repeat) };
                let mut record = TrialRecord { id: trial.id, repeat: trial.repeat, ..TrialRecord::default() };
                record.params =
                    vec![("server".into(), trial.server.clone()), ("measure".into(), "throughput".into())];
                if factor == 0.0 {
                    record.error = Some("it ended".into());
                }
                record.outcome.metrics.push(metrics::ANSWERED_QPS.of(1000.0 * factor));
                kept.append(record).unwrap();
            }
            if !go_on(&e, &mut trials, &kept) {
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
        // What the threshold allows needs no more; what nobody asks about is not looked at.
        assert_eq!(most(&compared(&["comparison.gates.throughput=0.2"], scatter(0.1))), 6);
        assert_eq!(most(&compared(&["comparison.gates.start=0.2"], scatter(0.1))), 6);
        // It ends somewhere, and where the candidate fails.
        assert_eq!(most(&compared(&["comparison.repeats=14"], scatter(0.5))), 14);
        assert_eq!(most(&compared(&[], |n| if n == 4 { 0.0 } else { scatter(0.1)(n) })), 6);
        // A turn begins with the other server than the one before.
        let added: Vec<(&str, u32)> = some.0[12..16].iter().map(|t| (t.server.as_str(), t.repeat)).collect();
        assert_eq!(added, [("nsd", 7), ("knot", 7), ("knot", 8), ("nsd", 8)]);
        // A run that goes on comes to the same plan from the first trials on.
        let kept = RunDir::open(&some.1.path().join("run")).unwrap();
        let mut again = plan(&some.2);
        while again.len() < kept.trials().len() && go_on(&some.2, &mut again, &kept) {}
        assert_eq!(again, some.0);
    }
}
