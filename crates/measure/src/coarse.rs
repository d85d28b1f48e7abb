//! A histogram that is small enough to be handed over every second without disturbing a pace.

use crate::metrics::{LATENCY, PACING_ERROR_P99};
use crate::{Definition, Nanos, series};
use serde::{Deserialize, Serialize};

/// Places in each doubling of the value: the relative error is at most 1/64.
const PER_OCTAVE: usize = 64;
const OCTAVES: usize = 38;

/// The bounds of [`Cumulative`] are these powers of two: 16 µs to 2.1 s. Coarse histograms are exact there.
const POWERS: std::ops::RangeInclusive<u32> = 14..=31;
const BOUNDS: usize = 18;

/// A coarse histogram of nanoseconds: relative error at most 1.6 %, 10 KB.
#[derive(Clone, Debug)]
pub struct Coarse {
    counts: Box<[u32]>,
    total: u64,
    max: Nanos,
    sum: u64,
}

/// How many of some values are at or below each of 18 bounds, exactly: what a histogram of Prometheus has. Progress events have one by
/// the name of [`Cumulative::NAME`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cumulative {
    /// At or below each of [`Cumulative::bounds`].
    pub below: [u64; BOUNDS],
    /// All of them.
    pub count: u64,
    /// Their sum, in nanoseconds.
    pub sum: u64,
}

impl Cumulative {
    /// Its name among the figures of a second.
    pub const NAME: &str = "latency_cumulative";

    /// The bounds in nanoseconds: a power of two less one.
    pub fn bounds() -> impl Iterator<Item = Nanos> {
        POWERS.map(|power| (1 << power) - 1)
    }

    /// Adds the counts of other values.
    pub fn add(&mut self, other: &Self) {
        self.below.iter_mut().zip(other.below).for_each(|(a, b)| *a += b);
        self.count += other.count;
        self.sum += other.sum;
    }
}

impl Default for Coarse {
    fn default() -> Self {
        Self { counts: vec![0; PER_OCTAVE * OCTAVES].into(), total: 0, max: 0, sum: 0 }
    }
}

fn place(value: Nanos) -> usize {
    if value < PER_OCTAVE as u64 {
        return value as usize;
    }
    let octave = 63 - value.leading_zeros() as usize - 6;
    let within = (value >> octave) as usize - PER_OCTAVE;
    ((octave + 1) * PER_OCTAVE + within).min(PER_OCTAVE * OCTAVES - 1)
}

/// The greatest value of a place.
fn highest(place: usize) -> Nanos {
    let (octave, within) = (place / PER_OCTAVE, place % PER_OCTAVE);
    if octave == 0 {
        return within as u64;
    }
    (((PER_OCTAVE + within + 1) as u64) << (octave - 1)) - 1
}

impl Coarse {
    /// Adds one value.
    pub fn record(&mut self, value: Nanos) {
        self.counts[place(value)] += 1;
        self.total += 1;
        self.max = self.max.max(value);
        self.sum = self.sum.saturating_add(value);
    }

    /// Adds all values of another one.
    pub fn merge(&mut self, other: &Self) {
        self.counts.iter_mut().zip(&other.counts).for_each(|(a, b)| *a += b);
        self.total += other.total;
        self.max = self.max.max(other.max);
        self.sum = self.sum.saturating_add(other.sum);
    }

    /// The value below or at which the share `q` (0 to 1) of values lies; zero where empty.
    pub fn quantile(&self, q: f64) -> Nanos {
        let want = (q * self.total as f64).ceil().max(1.0) as u64;
        let mut seen = 0;
        for (i, &count) in self.counts.iter().enumerate() {
            seen += u64::from(count);
            if seen >= want {
                return highest(i).min(self.max);
            }
        }
        self.max
    }

    /// How many values are at or below some bounds.
    pub fn cumulative(&self) -> Cumulative {
        let mut all = Cumulative { count: self.total, sum: self.sum, ..Cumulative::default() };
        for (below, bound) in all.below.iter_mut().zip(Cumulative::bounds()) {
            *below = self.counts[..=place(bound)].iter().map(|&count| u64::from(count)).sum();
        }
        all
    }

    /// How many values were added.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// The greatest value, exactly; zero where empty.
    pub fn max(&self) -> Nanos {
        self.max
    }
}

/// The times of one second in microseconds, as progress events have them: how long answers took, what left late,
/// and the longest time that the sender stood still.
pub fn times(latency: &Coarse, pacing: &Coarse, stall: Nanos) -> [(Definition, f64); 5] {
    [
        (series::STALL_MAX, stall),
        (LATENCY.p50, latency.quantile(0.5)),
        (LATENCY.p99, latency.quantile(0.99)),
        (LATENCY.max, latency.max()),
        (PACING_ERROR_P99, pacing.quantile(0.99)),
    ]
    .map(|(figure, ns)| (figure, ns as f64 / 1e3))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn cumulative_counts_are_exact(values in prop::collection::vec(0u64..5_000_000_000, 0..200)) {
            let mut coarse = Coarse::default();
            values.iter().for_each(|&v| coarse.record(v));
            let all = coarse.cumulative();
            for (below, bound) in all.below.into_iter().zip(Cumulative::bounds()) {
                prop_assert_eq!(below, values.iter().filter(|v| **v <= bound).count() as u64);
            }
            prop_assert_eq!((all.count, all.sum), (values.len() as u64, values.iter().sum()));
        }

        #[test]
        fn quantiles_are_within_a_sixtieth(mut values in prop::collection::vec(0u64..10_000_000_000, 1..200)) {
            let mut a = Coarse::default();
            let mut b = Coarse::default();
            for (i, &v) in values.iter().enumerate() {
                if i % 2 == 0 { a.record(v) } else { b.record(v) }
            }
            a.merge(&b);
            values.sort_unstable();
            for q in [0.01, 0.5, 0.99, 1.0] {
                let exact = values[((q * values.len() as f64).ceil() as usize).max(1) - 1];
                let got = a.quantile(q);
                prop_assert!(got >= exact && got - exact <= exact / 60 + 1, "{q}: {got}, exactly {exact}");
            }
        }
    }

    #[test]
    fn hours_fit() {
        let mut c = Coarse::default();
        c.record(u64::MAX);
        assert_eq!(c.quantile(0.5), highest(PER_OCTAVE * OCTAVES - 1));
    }
}
