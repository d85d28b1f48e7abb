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

    /// Each with its name.
    pub fn named(&self) -> [(&'static str, f64); 5] {
        [("p50", self.p50), ("p90", self.p90), ("p99", self.p99), ("p999", self.p999), ("max", self.max)]
    }
}

impl PacingError {
    /// The percentiles of a histogram.
    pub fn of(h: &Histogram) -> Self {
        Self { p50: us(h.quantile(0.5)), p99: us(h.quantile(0.99)), max: us(h.max()) }
    }
}
