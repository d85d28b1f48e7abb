//! Latencies: an HDR histogram of nanoseconds, to three significant digits, up to one hour.

use crate::clock::Nanos;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The highest value kept; anything above is counted there.
const HIGHEST: Nanos = 3600 * 1_000_000_000;

/// A histogram of nanoseconds with a relative error of at most 0.1 %, in bounded memory.
#[derive(Clone, Debug, PartialEq)]
pub struct Histogram(hdrhistogram::Histogram<u64>);

impl Default for Histogram {
    fn default() -> Self {
        Self(hdrhistogram::Histogram::new_with_bounds(1, HIGHEST, 3).expect("constant bounds are valid"))
    }
}

impl Histogram {
    /// Adds one value.
    pub fn record(&mut self, value: Nanos) {
        self.0.saturating_record(value);
    }

    /// Adds `count` equal values.
    pub fn record_n(&mut self, value: Nanos, count: u64) {
        // The crate takes a value that comes zero times for the greatest.
        if count > 0 {
            self.0.saturating_record_n(value, count);
        }
    }

    /// Adds all values of another histogram.
    pub fn merge(&mut self, other: &Self) {
        self.0.add(&other.0).expect("all histograms have the same bounds");
    }

    /// How many values were added.
    pub fn count(&self) -> u64 {
        self.0.len()
    }

    /// The value below or at which the share `q` (0 to 1) of values lies; zero where empty.
    pub fn quantile(&self, q: f64) -> Nanos {
        if self.0.is_empty() { 0 } else { self.0.value_at_quantile(q) }
    }

    /// The value in nanoseconds at or below which the share `q` (0 to 1) of all queries *sent* was answered, where the values are the
    /// latencies of answers; just above `deadline` where so many were not: a server must not gain by losing its slow queries. None
    /// where so many were not answered and there is no deadline.
    pub fn quantile_of_sent(&self, sent: f64, q: f64, deadline: Option<Nanos>) -> Option<f64> {
        let answered = self.count() as f64;
        let beyond = deadline.map(|d| d as f64 + 1.0);
        let rank = q * sent;
        if answered == 0.0 || rank > answered {
            return beyond;
        }
        let nanos = self.quantile(rank / answered) as f64;
        Some(beyond.map_or(nanos, |b| nanos.min(b)))
    }

    /// The greatest value added (to the histogram's precision); zero where empty.
    pub fn max(&self) -> Nanos {
        self.0.max()
    }

    /// The mean, in nanoseconds.
    pub fn mean(&self) -> f64 {
        self.0.mean()
    }

    /// The share (0 to 1) of values at or below `value`; one where empty.
    pub fn share_below(&self, value: Nanos) -> f64 {
        if self.0.is_empty() { 1.0 } else { self.0.count_between(0, value) as f64 / self.0.len() as f64 }
    }

    /// The non-empty buckets in order: lowest value, highest value, count.
    pub fn buckets(&self) -> impl Iterator<Item = (Nanos, Nanos, u64)> + '_ {
        self.0.iter_recorded().map(|v| {
            let at = v.value_iterated_to();
            (self.0.lowest_equivalent(at), self.0.highest_equivalent(at), v.count_at_value())
        })
    }
}

/// As `[[value, count], …]` of the non-empty buckets: exact, readable, and independent of the crate.
impl Serialize for Histogram {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_seq(self.buckets().map(|(_, high, count)| (high, count)))
    }
}

impl<'de> Deserialize<'de> for Histogram {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let mut histogram = Self::default();
        for (value, count) in Vec::<(Nanos, u64)>::deserialize(d)? {
            let total = histogram.count().checked_add(count);
            if total.is_none() {
                return Err(D::Error::custom("more values than a histogram can count"));
            }
            histogram.record_n(value, count);
        }
        Ok(histogram)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_value_that_comes_zero_times_is_not_the_greatest() {
        let mut h = Histogram::default();
        h.record(5);
        h.record_n(1_000_000, 0);
        assert_eq!((h.max(), h.count()), (5, 1));
    }

    proptest! {
        #[test]
        fn quantiles_are_within_a_thousandth(mut values in prop::collection::vec(1u64..4_000_000_000, 1..300)) {
            let mut h = Histogram::default();
            values.iter().for_each(|&v| h.record(v));
            values.sort_unstable();
            let exact = values[values.len() - 1];
            prop_assert!(h.max().abs_diff(exact) as f64 <= exact as f64 * 0.001 + 1.0);
            let again: Histogram = serde_json::from_str(&serde_json::to_string(&h).unwrap()).unwrap();
            for q in [0.0, 0.5, 0.99, 1.0] {
                prop_assert_eq!(again.quantile(q), h.quantile(q));
            }
        }
    }
}
