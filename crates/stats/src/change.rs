//! Where a figure changed over runs that were made one after the other.
//!
//! A value of each run is enough: runs scatter more than the repeats of one run do. A change is marked only where it is certain. For
//! every place with three runs or more on both sides, Student's t of logarithms says how often chance alone makes such a difference, with
//! one variance for both sides; the least of these probabilities, times the number of places, must be below one in a thousand. Each side of
//! a change is then looked at in the same way. So a single run that is out of line is no change, nor is a slow drift within the scatter.

use crate::Ratio;
use crate::ratio::MIN_REPEATS;

/// How often a change is marked where there is none, in a history without changes.
pub const BY_CHANCE: f64 = 0.001;

/// A change of a figure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Change {
    /// The first run after it, from 0.
    pub at: usize,
    /// The runs that show it: from here up to the run before the change …
    pub from: usize,
    /// … and from the change up to the run before this one.
    pub to: usize,
    /// The figures after it beside those before it.
    pub ratio: Ratio,
    /// How often chance alone makes as much at any of the places that were looked at.
    pub by_chance: f64,
}

/// The changes in the values of runs in their order, the earliest first. There are none where a value is not above zero, or
/// there are fewer than six.
pub fn changes(values: &[f64]) -> Vec<Change> {
    let mut places = Vec::new();
    split(values, 0, values.len(), &mut places);
    places.sort_unstable();
    // Each place again, between its neighbours: a split that another one made needless goes.
    loop {
        let ends = |i: usize| {
            let from = if i == 0 { 0 } else { places[i - 1] };
            (from, places.get(i + 1).copied().unwrap_or(values.len()))
        };
        let found: Vec<Option<Change>> = (0..places.len())
            .map(|i| {
                let (from, to) = ends(i);
                at_most_certain(values, from, to)
            })
            .collect();
        let kept: Vec<Change> = found.into_iter().flatten().collect();
        let again: Vec<usize> = kept.iter().map(|change| change.at).collect();
        if again == places || again.is_empty() {
            return kept;
        }
        // Fewer places, or other ones: a bound on their number keeps this from going on for ever.
        if again.len() == places.len() && again.iter().zip(&places).all(|(a, b)| a.abs_diff(*b) <= 1) {
            return kept;
        }
        places = again;
    }
}

fn split(values: &[f64], from: usize, to: usize, places: &mut Vec<usize>) {
    if let Some(change) = at_most_certain(values, from, to) {
        places.push(change.at);
        split(values, from, change.at, places);
        split(values, change.at, to, places);
    }
}

/// The change that is most certain among these runs, where one is certain.
fn at_most_certain(values: &[f64], from: usize, to: usize) -> Option<Change> {
    let places = from + MIN_REPEATS..(to + 1).saturating_sub(MIN_REPEATS);
    let count = places.len() as f64;
    let changes = places.filter_map(|at| {
        let ratio = Ratio::of_alike(&values[from..at], &values[at..to])?;
        let by_chance = (ratio.by_chance() * count).min(1.0);
        Some(Change { at, from, to, ratio, by_chance })
    });
    let best = changes.min_by(|a, b| a.by_chance.total_cmp(&b.by_chance))?;
    (best.by_chance < BY_CHANCE).then_some(best)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ratio::noise::{NOISES, sample};
    use measure::Seed;

    #[test]
    fn a_change_is_found_where_it_is_and_its_size_is_told() {
        let mut draw = Seed(3).draw("change", 0);
        let mut found = 0;
        for _ in 0..200 {
            let mut values = sample(20, 0.0, NOISES[0], &mut draw);
            values.extend(sample(6, 0.9f64.ln(), NOISES[0], &mut draw));
            let all = changes(&values);
            found += usize::from(all.len() == 1);
            let Some(change) = all.first() else { continue };
            assert!(change.at.abs_diff(20) <= 1, "{change:?}");
            let (low, high) = change.ratio.interval(0.999);
            assert!(low < -0.1 && -0.1 < high, "{low} {high}");
        }
        assert!(found >= 198, "{found} of 200");
    }

    #[test]
    fn two_changes_are_two() {
        let mut draw = Seed(4).draw("change", 0);
        let levels = [0.0, 0.3, -0.2f64];
        let values: Vec<f64> =
            levels.into_iter().flat_map(|log| sample(8, log, NOISES[0], &mut draw)).collect();
        assert_eq!(changes(&values).iter().map(|c| c.at).collect::<Vec<_>>(), [8, 16]);
    }

    #[test]
    fn noise_is_no_change() {
        for noise in NOISES {
            let mut draw = Seed(5).draw(noise.0, 0);
            let marked =
                (0..2000).filter(|_| !changes(&sample(20, 0.0, noise, &mut draw)).is_empty()).count();
            // Where one run in eight is out of line, three in a row at an end are rare, and cannot be told from a change.
            assert!(marked <= 12, "{}: {marked} of 2000", noise.0);
        }
    }

    #[test]
    fn one_run_out_of_line_is_none_and_few_runs_say_nothing() {
        let mut values = vec![100.0, 101.0, 99.0, 100.5, 99.5, 100.0, 101.0, 99.0];
        values.push(50.0);
        assert_eq!(changes(&values), []);
        assert_eq!(changes(&[1.0, 1.0, 1.0, 2.0, 2.0]), []);
        assert_eq!(changes(&[0.0, 1.0, 1.0, 2.0, 2.0, 2.0]), []);
        assert_eq!(changes(&[]), []);
    }
}
