//! One trial, as it is kept.

use measure::metrics;
use measure::{Nanos, Outcome};
use serde::{Deserialize, Serialize};

/// One figure of one second of a trial.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SeriesRow {
    /// Seconds since the start of the measured part, from 1. For the metrics `search_offered_qps`,
    /// `search_loss_ratio` and `search_duration` of a peak search: the number of the load tried, from 1.
    pub second: u32,
    /// In snake case: `answered_qps`, `softirq_core0`.
    pub metric: String,
    /// As in [`measure::Metric`].
    pub unit: String,
    /// The figure.
    pub value: f64,
}

/// One measurement at fixed parameters, with all that it gave.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrialRecord {
    /// Its number in the run.
    pub id: u32,
    /// The fixed parameters, in the order of the experiment: `server`, `family`, `zone_size`, `rate` …
    pub params: Vec<(String, String)>,
    /// Which repeat of the same parameters this is, from 1.
    pub repeat: u32,
    /// The outcome, and whether it is valid.
    pub outcome: Outcome,
    /// Why the trial gave nothing, where it failed.
    pub error: Option<String>,
    /// Why it was not tried, where it was not: it could not fit.
    pub skipped: Option<String>,
    /// Figures by the second.
    pub series: Vec<SeriesRow>,
}

impl TrialRecord {
    /// A parameter by name, where the trial has it.
    pub fn param(&self, name: &str) -> Option<&str> {
        self.params.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// True where the trial was done, did not fail and nothing speaks against its figures.
    pub fn is_valid(&self) -> bool {
        self.error.is_none() && self.skipped.is_none() && self.outcome.validity.valid
    }

    /// The latency in nanoseconds, from the intended time, by [`Histogram::quantile_of_sent`](measure::Histogram::quantile_of_sent).
    /// None where the trial has no latencies, or where so many were not answered and there is no deadline.
    pub fn latency(&self, q: f64, deadline: Option<Nanos>) -> Option<f64> {
        let histogram = self.outcome.histogram("latency")?;
        let answered = histogram.count() as f64;
        // A trial without the metric counts its answers: there is nothing else to go by.
        let sent = self.outcome.metric(metrics::SENT).unwrap_or(answered).max(answered);
        histogram.quantile_of_sent(sent, q, deadline)
    }

    /// The values of one metric by the second, in order.
    pub fn series(&self, metric: &str) -> Vec<(u32, f64)> {
        self.series.iter().filter(|row| row.metric == metric).map(|row| (row.second, row.value)).collect()
    }
}
