//! The trials of an experiment, in order: a list that depends on the file alone.

use crate::{Experiment, Measure};
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
                // No comma in the name of a file.
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
    /// Queries per second; none where the rate is what is searched for.
    pub rate: Option<f64>,
    /// From 1.
    pub repeat: u32,
}

/// All trials in order. Servers change fastest and repeats slowest, so that a drift of the machine
/// falls on all servers alike.
pub fn plan(e: &Experiment) -> Vec<Trial> {
    let zones: Vec<ZonePlan> = match &e.zone.file {
        Some(file) => vec![ZonePlan::File(file.clone())],
        None => e
            .zone
            .delegations
            .iter()
            .flat_map(|&delegations| {
                e.zone.families.iter().map(move |f| ZonePlan::Family { family: f.clone(), delegations })
            })
            .collect(),
    };
    let mut trials = Vec::new();
    for repeat in 1..=e.repeats {
        for zone in &zones {
            for &measure in &e.measure {
                let rates: Vec<Option<f64>> = match measure {
                    Measure::Latency => e.latency.rates.iter().copied().map(Some).collect(),
                    Measure::Peak => vec![None],
                };
                for rate in rates {
                    for server in &e.servers {
                        trials.push(Trial {
                            id: trials.len() as u32 + 1,
                            zone: zone.clone(),
                            server: server.clone(),
                            measure,
                            rate,
                            repeat,
                        });
                    }
                }
            }
        }
    }
    trials
}

/// Seconds of load in a plan, at most: the length of its trials, without starting servers and making zones.
pub fn seconds(e: &Experiment) -> u64 {
    let of = |text: &str| measure::units::duration(text).unwrap_or(0);
    let nanos: u64 = plan(e)
        .iter()
        .map(|t| match t.measure {
            Measure::Latency => of(&e.latency.warmup) + of(&e.latency.duration),
            Measure::Peak => of(&e.peak.budget),
        })
        .sum();
    nanos.div_ceil(measure::clock::SECOND)
}

/// The first trial of the plan that is not done yet.
pub fn next_trial<'a>(plan: &'a [Trial], done: &[results::TrialRecord]) -> Option<&'a Trial> {
    plan.iter().find(|t| done.iter().all(|d| d.id != t.id))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_plan_is_the_matrix_with_servers_fastest() {
        let (path, text) = crate::named("demo").unwrap();
        let sets = ["repeats=2", "zone.delegations=1K", "latency.rates=500,5K", "servers=nsd,knot"];
        let e = crate::load(&path, &text, &sets.map(|s| s.parse().unwrap())).unwrap();
        let trials = plan(&e);
        // 2 repeats × 2 families × (2 rates + 1 peak) × 2 servers
        assert_eq!(trials.len(), 24);
        assert_eq!(trials.iter().map(|t| t.id).collect::<Vec<_>>(), (1..=24).collect::<Vec<_>>());
        assert_eq!((trials[0].server.as_str(), trials[1].server.as_str()), ("nsd", "knot"));
        assert_eq!((trials[0].repeat, trials[23].repeat), (1, 2));
        assert_eq!(trials[0].zone.label(), "U-4-DS0-1K");
        assert_eq!(trials.iter().filter(|t| t.measure == Measure::Peak).count(), 8);
    }
}
