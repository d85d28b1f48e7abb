//! The trials of an experiment, in order: a list that depends on the file alone, and the repeats that are added to it
//! until figures are known well enough, which depend on what is done.

use crate::updating::Timers;
use crate::{Experiment, Measure, Order, recipe};
use measure::Seed;
use measure::clock::SECOND;
use results::{TrialRecord, stats};
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
    /// What is measured.
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

/// What is done on a zone, for each server.
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
    let of = |text: &str| measure::units::duration(text).unwrap_or(0) as f64 / SECOND as f64;
    let trial = |t: &Trial| {
        let starts = 1.0 + weight(&t.zone) as f64 / 5e7;
        let starts = starts * f64::from(e.servers_of(t.measure, t.variant.as_deref()));
        starts
            + match t.measure {
                Measure::Latency => of(&e.latency.warmup) + of(&e.latency.duration),
                Measure::Throughput => of(&e.throughput.warmup) + of(&e.throughput.duration),
                Measure::Peak => of(&e.peak.budget),
                Measure::Memory => of(&e.memory.settle),
                Measure::Load => 4.0 + starts,
                Measure::Lag => of(&e.updates.duration) + 2.0,
                Measure::Churn => of(&e.updates.every) * e.updates.series.len() as f64 + 2.0,
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
        ZonePlan::Family { family, .. } => recipe::is_signed(family),
        ZonePlan::File(_) => e.zone.sign_file,
    };
    let zone = |z: &ZonePlan| weight(z) as f64 / if signed(z) { 5e6 } else { 2e8 };
    (plan(e).iter().map(trial).sum::<f64>() + zones(e).iter().map(zone).sum::<f64>()).ceil() as u64
}

/// Bytes of a zone file, about: at 100K U-4-DS0 takes 360 a delegation, signed S-6-DS100 1,300.
pub fn weight(zone: &ZonePlan) -> u64 {
    match zone {
        ZonePlan::Family { family, delegations } if recipe::is_signed(family) => delegations * 1_500,
        ZonePlan::Family { delegations, .. } => delegations * 600,
        ZonePlan::File(path) => path.metadata().map_or(0, |m| m.len()),
    }
}

/// The first trial of the plan that is not done yet.
pub fn next_trial<'a>(plan: &'a [Trial], done: &[TrialRecord]) -> Option<&'a Trial> {
    plan.iter().find(|t| done.iter().all(|d| d.id != t.id))
}

/// The figure by which a cell's repeats are judged, and how well it must be known.
fn goal(e: &Experiment, measure: Measure) -> Option<(&'static str, f64)> {
    let precision = e.precision.as_ref()?;
    Some(match measure {
        Measure::Latency => ("latency_p50", precision.latency),
        Measure::Throughput => ("answered_qps", precision.rate),
        Measure::Peak => ("peak_qps", precision.rate),
        Measure::Memory => ("server_pss", precision.rate),
        Measure::Load => ("server_ready", precision.rate),
        Measure::Update => ("acknowledged_ups", precision.rate),
        Measure::Lag | Measure::Churn => ("lag_p50", precision.latency),
        Measure::Transfer => ("transfer_seconds", precision.rate),
        Measure::Batches => ("batches_seconds", precision.rate),
        Measure::Syncs => ("update_accepted_ups", precision.rate),
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

/// Whether the interval of a metric's median is narrow enough, by enough valid repeats to have one.
fn known(records: &[&TrialRecord], metric: &str, most: f64) -> bool {
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
    use measure::Metric;

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
                record.outcome.metrics.push(Metric::new("peak_qps", "1/s", value));
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
}
