//! The trials of an experiment, in order: a list that depends on the file alone.

use crate::measures::{self, ZoneChanges};
use crate::planned::{Trial, ZonePlan, zones};
use crate::sets::Sets;
use crate::{Experiment, Measure, Order};
use measure::Seed;
use results::TrialRecord;

/// One measurement on one zone, to be made of each server.
#[derive(Clone)]
struct Task {
    measure: Measure,
    rate: Option<f64>,
    updates: Option<f64>,
    variant: Option<String>,
    workers: Option<u32>,
}

fn tasks(e: &Experiment) -> Vec<Task> {
    let mut all = Vec::new();
    let workers: Vec<Option<u32>> = match e.workers.as_slice() {
        [] => vec![None],
        some => some.iter().copied().map(Some).collect(),
    };
    for &measure in &e.measure {
        let variants: Vec<Option<String>> = match e.variant.as_slice() {
            some @ [_, ..] if measures::of(measure).has_variants => {
                some.iter().map(|v| Some(v.name.clone())).collect()
            }
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
            let at_rates = matches!(measures::of(measure).changes, ZoneChanges::AtRates { .. });
            let updates: Vec<Option<f64>> =
                match at_rates && measures::is_distributed(e, measure, variant.as_deref()) {
                    true => e.updates.rates.iter().copied().map(Some).collect(),
                    false => vec![None],
                };
            for rate in rates {
                for (&updates, &workers) in updates.iter().flat_map(|u| workers.iter().map(move |w| (u, w))) {
                    all.push(Task { measure, rate, updates, variant: variant.clone(), workers });
                }
            }
        }
    }
    all
}

/// All trials in the order that the experiment asks for.
pub fn plan(e: &Experiment) -> Vec<Trial> {
    let (mut zones, tasks) = (zones(e), tasks(e));
    let trial = |zone: &ZonePlan, server: &String, task: &Task, repeat| {
        let Task { measure, rate, updates, variant, workers } = task.clone();
        let (zone, server) = (zone.clone(), server.clone());
        Trial { id: 0, zone, server, measure, rate, updates, workers, variant, repeat }
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

/// A set of hosts that waits, and the trial of the plan that it makes next: the first that is neither done nor being made, and that can
/// begin now. Where servers take turns, one set makes a whole turn.
pub fn next_trial<'a>(
    plan: &'a [Trial],
    order: Order,
    done: &[TrialRecord],
    sets: &Sets<'_>,
    can_begin: &dyn Fn(&Trial) -> bool,
) -> Option<(usize, &'a Trial)> {
    // Asked after each message of a set, mostly while all sets are busy.
    sets.idle().next()?;
    let at_work: Vec<(usize, &Trial)> = sets.trials().collect();
    let is_left = |t: &Trial| done.iter().all(|d| d.id != t.id) && at_work.iter().all(|(_, w)| w.id != t.id);
    let is_open = |t: &&Trial| is_left(t) && can_begin(t);
    let open: Vec<&Trial> = plan.iter().filter(is_open).collect();
    sets.idle().find_map(|(set, before)| {
        let trial = match order {
            Order::Blocked | Order::Random => open.first().copied(),
            Order::Interleaved => {
                let begun = |t: &&&Trial| before.is_some_and(|before| before.is_in_turn_of(t));
                let elsewhere = |t: &Trial| at_work.iter().any(|(n, w)| *n != set && w.is_in_turn_of(t));
                let own = open.iter().find(begun).or_else(|| open.iter().find(|t| !elsewhere(t)));
                own.copied()
            }
        };
        Some((set, trial?))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn experiment(sets: &[&str]) -> Experiment {
        crate::open_with("demo", sets).unwrap()
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
    fn only_the_measurements_named_have_secondaries_and_updates() {
        let sets = [
            "measure=latency,lag",
            "distribution.primary=bind",
            "distribution.secondaries=2",
            "updates.rates=8",
        ];
        let of = |more: &[&str]| {
            let e = experiment(&[&sets[..], more].concat());
            let servers = |t: &Trial| measures::labels(&e, t).len();
            plan(&e).iter().map(|t| (t.measure, t.updates, servers(t))).collect::<Vec<_>>()
        };
        let (latency, lag) = (Measure::Latency, Measure::Lag);
        assert!(of(&[]).iter().all(|(_, updates, servers)| (*updates, *servers) == (Some(8.0), 3)));
        let some = of(&["distribution.measures=lag"]);
        assert!(some.contains(&(latency, None, 1)) && some.contains(&(lag, Some(8.0), 3)), "{some:?}");
        assert!(!some.contains(&(latency, Some(8.0), 3)), "{some:?}");
    }

    #[test]
    fn a_plan_of_more_repeats_begins_with_one_of_fewer() {
        for (order, begins) in [("blocked", true), ("random", true), ("interleaved", false)] {
            let order = format!("order={order}");
            let of = |repeats| {
                experiment(&[
                    repeats,
                    "servers=nsd,knot",
                    "zone.delegations=1K,10K",
                    "latency.rates=500,5K",
                    &order,
                ])
            };
            let (few, many) = (of("repeats=2"), of("repeats=5"));
            assert_eq!(plan(&many).starts_with(&plan(&few)), begins, "{order}");
            assert_eq!(crate::repeats::can_grow(&many), begins, "{order}");
        }
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
}
