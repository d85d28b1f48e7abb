//! Do the sets of hosts that made a run's trials measure alike?

use super::{FIGURES, Figure, Side, gather};
use crate::{RunDir, TrialRecord};
use measure::params;
use serde::Serialize;
use stats::ratio::{Ratio, adjusted};
use std::collections::BTreeSet;

/// A figure of one set of hosts beside that of the others.
#[derive(Clone, Debug, Serialize)]
pub struct OfSet {
    /// The set's number.
    pub set: String,
    /// The name of the figure.
    pub name: &'static str,
    /// The same for people.
    pub title: &'static str,
    /// Cells of which both the set and others made trials; each counts once.
    pub cells: usize,
    /// How much the set's figure is above that of the others, as a share, over these cells.
    pub difference: f64,
    /// The interval of that at 95 %.
    pub interval: (f64, f64),
    /// How often chance alone makes such a difference or a greater one, adjusted for all comparisons of the run.
    pub by_chance_of_all: f64,
}

impl OfSet {
    /// Whether the set differs from the others in this figure.
    pub fn differs(&self) -> bool {
        self.by_chance_of_all < 1.0 - stats::LEVEL
    }
}

/// The sets of hosts by number; empty where one set made all trials.
pub fn names(run: &RunDir) -> Vec<String> {
    let all: BTreeSet<&str> = run.trials().iter().filter_map(|t| t.param(params::SET)).collect();
    all.into_iter().map(str::to_owned).collect()
}

/// Each figure of each set beside those of the others, where both made trials of three cells at least. Of two sets only the second is
/// compared.
pub fn of_sets(run: &RunDir) -> Vec<OfSet> {
    let (cells, sets) = (gather(Side::new(run, None), &[]), names(run));
    let compared = if sets.len() == 2 { &sets[1..] } else { &sets[..] };
    let mut all = Vec::new();
    for figure in FIGURES {
        for set in compared {
            let pairs: Vec<(f64, f64)> =
                cells.iter().filter_map(|(_, trials)| pair(figure, set, trials)).collect();
            let Some(ratio) = Ratio::of_pairs(&pairs, figure.tolerance) else { continue };
            all.push((
                OfSet {
                    set: set.clone(),
                    name: figure.name,
                    title: figure.title,
                    cells: pairs.len(),
                    difference: ratio.difference(),
                    interval: ratio.interval(stats::LEVEL),
                    by_chance_of_all: 1.0,
                },
                ratio.by_chance(),
            ));
        }
    }
    let chances: Vec<f64> = all.iter().map(|(_, chance)| *chance).collect();
    let of_all = adjusted(&chances);
    all.into_iter().zip(of_all).map(|((one, _), chance)| OfSet { by_chance_of_all: chance, ..one }).collect()
}

/// A figure of a cell by the other sets, and by this one.
fn pair(figure: &Figure, set: &str, trials: &[&TrialRecord]) -> Option<(f64, f64)> {
    let mean = |of_set: bool| {
        let mine = trials.iter().filter(|t| t.is_valid() && (t.param(params::SET) == Some(set)) == of_set);
        stats::geometric_mean(&mine.filter_map(|t| figure.of(t)).collect::<Vec<_>>())
    };
    Some((mean(false)?, mean(true)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use measure::metrics;

    /// A run of five cells, each twice on each of two sets, of which the second is slower by `by`.
    fn run(by: f64) -> (tempfile::TempDir, RunDir) {
        let folder = tempfile::tempdir().unwrap();
        let mut run = RunDir::create(&folder.path().join("run"), "", &serde_json::Value::Null).unwrap();
        let mut id = 0;
        for cell in 0..5u32 {
            for set in 1..=2u32 {
                for repeat in 1..=2 {
                    id += 1;
                    let mut trial = TrialRecord { id, repeat, ..TrialRecord::default() };
                    trial.add_param(params::MEASURE, "memory");
                    trial.add_param(params::SERVER, "nsd");
                    trial.add_param(params::ZONE_SIZE, (1000 << cell).to_string());
                    trial.add_param(params::SET, set.to_string());
                    // Repeats scatter by a few per cent.
                    let noise = 1.0 + 0.02 * f64::from((id * 7919) % 5) / 5.0;
                    let slower = if set == 2 { 1.0 + by } else { 1.0 };
                    let value = 1e8 * f64::from(1 << cell) * noise * slower;
                    trial.outcome.metrics.push(metrics::SERVER_PSS.of(value));
                    run.append(trial).unwrap();
                }
            }
        }
        (folder, run)
    }

    #[test]
    fn a_set_that_differs_is_found_and_one_that_does_not_is_not() {
        let (_folder, alike) = run(0.0);
        let found = of_sets(&alike);
        assert_eq!((found.len(), found[0].cells, found[0].set.as_str()), (1, 5, "2"), "{found:?}");
        assert!(!found[0].differs(), "{found:?}");
        let (_folder, apart) = run(0.1);
        let found = of_sets(&apart);
        assert!(found[0].differs() && (0.07..0.13).contains(&found[0].difference), "{found:?}");
        assert_eq!(names(&apart), ["1", "2"]);
    }
}
