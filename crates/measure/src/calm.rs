//! The calm stretches of a load: those in which the machine disturbed the server least.
//!
//! Whatever else happens on a machine can only make a server slower: a core that is away, programs of other guests that push its
//! data out of a shared cache. So a load is cut into stretches, and the tenth of them that went best says most about the server,
//! and repeats best. The figures of the whole load say what a client sees there.

use crate::{Coarse, Nanos};
use serde::{Deserialize, Serialize};

/// The length of a stretch, in nanoseconds.
pub const STRETCH: Nanos = 100_000_000;

/// The share of the stretches that are called calm.
pub const CALM: f64 = 0.1;

/// A stretch goes on until it has so many answers, so that its 99th percentile means something.
const LEAST: u64 = 200;

/// The most stretches that are kept. When there are so many, every second one goes, and further ones are twice as long.
const MOST: usize = 4096;

/// The value that the share `q` (0 to 1) of the values stays at or below, with linear interpolation between the two nearest; none of
/// nothing.
pub fn quantile(mut values: Vec<f64>, q: f64) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let at = q * values.len().checked_sub(1)? as f64;
    let (low, high) = (values[at.floor() as usize], values[at.ceil() as usize]);
    Some(low + at.fract() * (high - low))
}

/// How long answers took, stretch by stretch: of each the median and the 99th percentile, in nanoseconds, with the relative error of
/// [`Coarse`].
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(from = "Vec<[Nanos; 2]>", into = "Vec<[Nanos; 2]>")]
pub struct StretchLatencies {
    done: Vec<[Nanos; 2]>,
    /// The stretch that goes on, and the time of its end.
    current: Coarse,
    ends: Nanos,
    length: Nanos,
}

impl Default for StretchLatencies {
    fn default() -> Self {
        Self { done: Vec::new(), current: Coarse::default(), ends: STRETCH, length: STRETCH }
    }
}

impl StretchLatencies {
    /// An answer that arrived at `at` took `latency`, both in nanoseconds. Times go forward, but for little.
    pub fn record(&mut self, at: Nanos, latency: Nanos) {
        if at >= self.ends && self.current.total() >= LEAST {
            self.done.push([0.5, 0.99].map(|q| self.current.quantile(q)));
            self.current = Coarse::default();
            if self.done.len() == MOST {
                let mut keep = false;
                self.done.retain(|_| {
                    keep = !keep;
                    keep
                });
                self.length *= 2;
            }
            self.ends = at - at % STRETCH + self.length;
        }
        self.current.record(latency);
    }

    /// Adds the stretches of another sender. Each is of the answers that one sender got.
    pub fn merge(&mut self, other: Self) {
        self.done.extend(other.done);
    }

    /// The median and the 99th percentile, each as a tenth of the stretches stayed at or below it, in nanoseconds; none where no
    /// stretch was over.
    pub fn calm(&self) -> Option<[f64; 2]> {
        let rate_of = |n: usize| quantile(self.done.iter().map(|stretch| stretch[n] as f64).collect(), CALM);
        Some([rate_of(0)?, rate_of(1)?])
    }
}

/// Two are equal if their completed stretches are; the current stretch does not count.
impl PartialEq for StretchLatencies {
    fn eq(&self, other: &Self) -> bool {
        self.done == other.done
    }
}

impl Eq for StretchLatencies {}

impl From<Vec<[Nanos; 2]>> for StretchLatencies {
    fn from(done: Vec<[Nanos; 2]>) -> Self {
        Self { done, ..Self::default() }
    }
}

impl From<StretchLatencies> for Vec<[Nanos; 2]> {
    fn from(latencies: StretchLatencies) -> Self {
        latencies.done
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Nanos = 1_000_000;

    #[test]
    fn quantiles_lie_between_the_nearest_values() {
        assert_eq!(quantile(vec![3.0, 1.0, 2.0], 0.5), Some(2.0));
        assert_eq!(quantile(vec![1.0, 2.0], 0.1), Some(1.1));
        assert_eq!(quantile(vec![], 0.5), None);
    }

    /// 4,000 answers a second for two seconds; 100 µs each, but 5 ms for all in one second and a half.
    #[test]
    fn a_machine_that_is_disturbed_most_of_the_time_leaves_calm_stretches() {
        let mut latencies = StretchLatencies::default();
        for n in 0..8000u64 {
            let at = n * MS / 4;
            let disturbed = at < 1500 * MS;
            latencies.record(at, if disturbed { 5 * MS } else { MS / 10 });
        }
        // The last stretch is not over.
        assert_eq!(latencies.done.len(), 19);
        let [p50, p99] = latencies.calm().unwrap();
        assert!((p50 / 1e5 - 1.0).abs() < 0.02 && (p99 / 1e5 - 1.0).abs() < 0.02, "{p50} {p99}");
        let again: StretchLatencies =
            serde_json::from_str(&serde_json::to_string(&latencies).unwrap()).unwrap();
        assert_eq!(again, latencies);
    }

    #[test]
    fn a_slow_load_has_longer_stretches_and_a_short_one_has_none() {
        let mut latencies = StretchLatencies::default();
        (0..1000u64).for_each(|n| latencies.record(n * MS, MS));
        assert_eq!(latencies.done.len(), 4);
        assert_eq!(StretchLatencies::default().calm(), None);
    }

    #[test]
    fn a_load_of_any_length_keeps_a_bounded_number() {
        let mut latencies = StretchLatencies::default();
        (0..LEAST * 20_000).for_each(|n| latencies.record(n * STRETCH / LEAST, MS));
        assert!((MOST / 2..MOST).contains(&latencies.done.len()), "{}", latencies.done.len());
    }
}
