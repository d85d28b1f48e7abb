//! Latency at fixed fractions of the peak: a server is not run at its peak, so latency is measured below it.

use crate::{LoadResult, LoadSpec};
use measure::clock::SECOND;
use measure::{Arrivals, Nanos, Pace};
use serde::{Deserialize, Serialize};

/// The fractions to measure at, and for how long.
#[derive(Clone, Debug, PartialEq)]
pub struct Fractions {
    /// Of the peak: 0.5 is half of it. Above 1 the server is overloaded.
    pub fractions: Vec<f64>,
    /// Length of each trial, in nanoseconds.
    pub duration: Nanos,
    /// For how long queries are offered before they count, in nanoseconds.
    pub warmup: Nanos,
}

impl Default for Fractions {
    /// 10 % to 90 % in steps of 10, 5 s each after a warm-up of 1 s.
    fn default() -> Self {
        let fractions = (1..=9).map(|n| f64::from(n) / 10.0).collect();
        Self { fractions, duration: 5 * SECOND, warmup: SECOND }
    }
}

/// A latency trial at a fraction of the peak.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LatencyAt {
    /// Of the peak.
    pub fraction: f64,
    /// Offered queries per second.
    pub rate: f64,
    /// Its result, with its validity.
    pub result: LoadResult,
}

/// Measures at each fraction of `peak_qps` in turn, with `spec` in all but rate and duration: its pacing limit too, as
/// these are trials of latency. Ends early, without the trial in question, where one was cut short. `each` learns of
/// every trial.
///
/// # Errors
/// The errors of `measure`.
pub fn latency_at<E>(
    spec: &LoadSpec,
    peak_qps: f64,
    at: &Fractions,
    measure: &mut dyn FnMut(&LoadSpec) -> Result<LoadResult, E>,
    each: &mut dyn FnMut(&LatencyAt),
) -> Result<Vec<LatencyAt>, E> {
    let mut all = Vec::new();
    for &fraction in &at.fractions {
        let rate = (peak_qps * fraction).round().max(1.0);
        let load = LoadSpec {
            pace: Pace::Open(Arrivals::Fixed { rate }),
            duration: Some(at.duration),
            count: None,
            warmup: at.warmup,
            ..spec.clone()
        };
        let result = measure(&load)?;
        if result.cut_short {
            break;
        }
        let trial = LatencyAt { fraction, rate, result };
        each(&trial);
        all.push(trial);
    }
    Ok(all)
}
