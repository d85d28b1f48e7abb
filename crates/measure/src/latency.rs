//! Percentiles of distributions, in microseconds, as results show them.

use crate::{Histogram, Nanos};
use serde::{Deserialize, Serialize};

/// Percentiles of a latency, in microseconds, zeroes where nothing was recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Latency {
    /// Median.
    pub p50: f64,
    /// 90 % are at or below.
    pub p90: f64,
    /// 99 % are at or below.
    pub p99: f64,
    /// 99.9 % are at or below.
    pub p999: f64,
    /// The greatest.
    pub max: f64,
}

/// Percentiles of the pacing error, in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PacingError {
    /// Median.
    pub p50: f64,
    /// 99 % are at or below.
    pub p99: f64,
    /// The greatest.
    pub max: f64,
}

fn us(n: Nanos) -> f64 {
    n as f64 / 1e3
}

impl Latency {
    /// The percentiles of a histogram.
    pub fn of(h: &Histogram) -> Self {
        Self {
            p50: us(h.quantile(0.5)),
            p90: us(h.quantile(0.9)),
            p99: us(h.quantile(0.99)),
            p999: us(h.quantile(0.999)),
            max: us(h.max()),
        }
    }
}

impl Latency {
    /// The percentiles of all queries sent, by [`Histogram::quantile_of_sent`]: of those answered and of `lost` ones, which count as
    /// slower than `deadline`.
    pub fn of_sent(answers: &Histogram, lost: u64, deadline: Nanos) -> Self {
        let sent = (answers.count() + lost) as f64;
        if sent == 0.0 {
            return Self::default();
        }
        let at = |q| answers.quantile_of_sent(sent, q, Some(deadline)).unwrap_or_default() / 1e3;
        Self { p50: at(0.5), p90: at(0.9), p99: at(0.99), p999: at(0.999), max: at(1.0) }
    }
}

impl PacingError {
    /// The percentiles of a histogram.
    pub fn of(h: &Histogram) -> Self {
        Self { p50: us(h.quantile(0.5)), p99: us(h.quantile(0.99)), max: us(h.max()) }
    }
}
