//! The outcome of a trial: metrics, histograms, validity.

use crate::metrics::Scope;
use crate::{Definition, Histogram, Validity};
use serde::{Deserialize, Serialize};

/// One figure with its unit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Metric {
    /// In snake case, the same word everywhere: `answered_qps`.
    pub name: String,
    /// `1/s`, `us`, `B`, `s`, `%`, or `1` for counts and ratios.
    pub unit: String,
    /// The figure.
    pub value: f64,
}

impl Metric {
    /// A metric from its parts.
    pub fn new(name: impl Into<String>, unit: &str, value: f64) -> Self {
        Self { name: name.into(), unit: unit.into(), value }
    }

    /// A time or a rate, by its unit: a figure that depends on how long something had to wait.
    pub fn is_time_or_rate(&self) -> bool {
        ["ns", "us", "s", "1/s", "MB/s", "Mbit/s"].contains(&self.unit.as_str())
    }

    /// The same figure of a part of the trial.
    #[must_use]
    pub fn within(self, scope: Scope) -> Self {
        Self { name: format!("{}{}", scope.prefix(), self.name), ..self }
    }
}

/// Something with a name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Named<T> {
    /// In snake case.
    pub name: String,
    /// The thing.
    pub value: T,
}

impl<T> Named<T> {
    /// Gives a thing its name.
    pub fn new(name: impl Into<String>, value: T) -> Self {
        Self { name: name.into(), value }
    }
}

/// The outcome of one trial.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// Figures over the whole trial.
    pub metrics: Vec<Metric>,
    /// Latency distributions, in nanoseconds.
    pub histograms: Vec<Named<Histogram>>,
    /// Whether all this may be believed.
    pub validity: Validity,
}

impl Outcome {
    /// The value of a metric, where the trial has it.
    pub fn metric(&self, which: Definition) -> Option<f64> {
        self.metrics.iter().find(|m| which.is(&m.name)).map(|m| m.value)
    }

    /// The value of the metric of a name that a document or one of a [`metrics::Family`](crate::metrics::Family) has.
    pub fn metric_named(&self, name: &str) -> Option<f64> {
        self.metrics.iter().find(|m| m.name == name).map(|m| m.value)
    }

    /// Leaves out all times and rates, and the distributions of times.
    pub fn leave_out_times(&mut self) {
        self.metrics.retain(|metric| !metric.is_time_or_rate());
        self.histograms.clear();
    }

    /// A histogram by name, where the trial has it.
    pub fn histogram(&self, name: &str) -> Option<&Histogram> {
        self.histograms.iter().find(|h| h.name == name).map(|h| &h.value)
    }
}
