//! When queries are due: absolute deadlines, never sums of gaps.

use crate::clock::{Nanos, SECOND};
use serde::{Deserialize, Serialize};

/// How a load is paced.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub enum Pace {
    /// Open loop: queries are due at instants that do not depend on the answers.
    Open(Arrivals),
    /// A closed window of queries in flight, only to compare with queryperf and dnsperf.
    Closed {
        /// Queries in flight.
        window: u32,
    },
    /// As fast as the generator can, regardless of answers.
    Flood,
}

/// The arrival process of an open loop.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub enum Arrivals {
    /// Evenly spaced.
    Fixed {
        /// Queries per second.
        rate: f64,
    },
}

impl Arrivals {
    /// How many queries are due in `duration` from the start: those with `deadline(n) < duration`.
    pub fn count(&self, duration: Nanos) -> u64 {
        match self {
            Self::Fixed { rate } => (rate * duration as f64 / SECOND as f64).round().max(0.0) as u64,
        }
    }

    /// When query `n` (from 0) is due, in nanoseconds after the start.
    pub fn deadline(&self, n: u64) -> Nanos {
        match self {
            // From the index each time: an error cannot accumulate.
            Self::Fixed { rate } => (n as f64 * SECOND as f64 / rate) as Nanos,
        }
    }

    /// Queries per second, on average.
    pub fn rate(&self) -> f64 {
        match self {
            Self::Fixed { rate } => *rate,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn fixed_deadlines_never_drift(rate in 1u32..2_000_000, second in 1u64..3600) {
            let arrivals = Arrivals::Fixed { rate: f64::from(rate) };
            let n = u64::from(rate) * second;
            prop_assert!(arrivals.deadline(n).abs_diff(second * SECOND) <= 2);
            prop_assert_eq!(arrivals.count(second * SECOND), n);
            prop_assert!(arrivals.deadline(n - 1) < second * SECOND);
        }
    }
}
