//! One trial, as it is kept.

use measure::metrics::{self, Family};
use measure::validity::WRONG_ANSWERS;
use measure::{Definition, Metric, Nanos, Outcome, Parameter, Reason, params};
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

impl SeriesRow {
    /// A figure of a second.
    pub fn new(second: u32, figure: Metric) -> Self {
        Self { second, metric: figure.name, unit: figure.unit, value: figure.value }
    }
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
    /// A parameter, where the trial has it.
    pub fn param(&self, parameter: Parameter) -> Option<&str> {
        self.params.iter().find(|(name, _)| parameter.is(name)).map(|(_, value)| value.as_str())
    }

    /// Adds a parameter.
    pub fn add_param(&mut self, parameter: Parameter, value: impl Into<String>) {
        self.params.push((parameter.name().to_owned(), value.into()));
    }

    /// True where its server has the kind as its label. That is the machine's own server, where a run compares several of a kind, such as
    /// those of two releases.
    pub fn is_of_own_server(&self) -> bool {
        self.param(params::SERVER) == self.param(params::KIND)
    }

    /// True where the trial was done, did not fail and nothing speaks against its figures.
    pub fn is_valid(&self) -> bool {
        self.error.is_none() && self.skipped.is_none() && self.outcome.validity.valid
    }

    /// What is wrong with the answers that were compared with the zone; none where all were right, or none was compared.
    pub fn wrong_answers(&self) -> Option<&Reason> {
        self.outcome.validity.warnings.iter().find(|warning| warning.code == WRONG_ANSWERS)
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

    /// The values of one figure by the second, in order.
    pub fn series(&self, figure: Definition) -> Vec<(u32, f64)> {
        self.series.iter().filter(|row| figure.is(&row.metric)).map(|row| (row.second, row.value)).collect()
    }

    /// The values of one figure of a family by the second, in order: of a core, by its number.
    pub fn series_of(&self, family: Family, which: &str) -> Vec<(u32, f64)> {
        let name = family.name(which);
        self.series.iter().filter(|row| row.metric == name).map(|row| (row.second, row.value)).collect()
    }
}
