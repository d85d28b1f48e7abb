//! The result of a search, and whether it is valid.

use super::{Capacity, Class, Goal, LatencyAt, Trial};
use measure::metrics;
use measure::{Metric, Reason, Validity};
use serde::{Deserialize, Serialize};

/// Why a search ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum End {
    /// It goes on.
    Unfinished,
    /// The bounds are within the goal's width.
    Width,
    /// The time budget.
    Budget,
    /// The greatest load allowed is a lower bound.
    MaxLoad,
    /// The smallest load allowed is no lower bound.
    MinLoad,
    /// Too many trials: the server is too unsteady for this goal.
    Trials,
}

/// Whose limit the upper bound is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UpperBound {
    /// The server lost more than the goal allows.
    Server,
    /// The generator was not able to offer the load: nothing is known of the server there.
    Generator,
    /// The machine disturbed server or generator in most trials at the load: nothing is known of the server there.
    Machine,
}

/// The result of a search.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SearchResult {
    /// The knee: the conditional throughput of the lower bound, in answered queries per second. None where it is not proven:
    /// the search ended before its bounds were within the goal's width, or the upper bound is not the server's.
    pub peak_qps: Option<f64>,
    /// Offered queries per second that the knee is above with a probability of 95 %.
    pub lower: Option<f64>,
    /// Offered queries per second that the knee is below with a probability of 95 %; or, where `upper_is_ours`, that we cannot offer.
    pub upper: Option<f64>,
    /// The upper bound is the generator's: the server's peak is above `lower`, how far is not known.
    pub upper_is_ours: bool,
    /// Whose limit the upper bound is.
    #[serde(default)]
    pub upper_by: Option<UpperBound>,
    /// Why the search ended.
    pub ended: End,
    /// The goal, in full.
    pub goal: Goal,
    /// The time budget for trials, in seconds.
    pub budget_s: f64,
    /// The time spent in trials, in seconds.
    pub spent_s: f64,
    /// The smallest and greatest loads allowed, in queries per second.
    pub range: (f64, f64),
    /// Every trial, in order.
    pub trials: Vec<Trial>,
    /// Every load and its class by RFC 9971.
    pub loads: Vec<(f64, Class)>,
    /// Latency trials at fractions of the peak, where they were asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub latency_at: Vec<LatencyAt>,
    /// The capacity, where it was measured.
    #[serde(default)]
    pub capacity: Option<Capacity>,
    /// Trials that the machine disturbed, by number from 1, and how.
    #[serde(default)]
    pub disturbances: Vec<(usize, String)>,
}

impl SearchResult {
    /// The server's own upper bound, in queries per second: none where the generator or the machine was the limit.
    pub fn proven_upper(&self) -> Option<f64> {
        let ours = self.upper_is_ours || self.upper_by.is_some_and(|by| by != UpperBound::Server);
        self.upper.filter(|_| !ours)
    }

    /// The metrics that exist: `peak_qps`, `peak_lower`, `peak_upper` of the knee, proven bounds alone; `capacity_qps` with
    /// `capacity_low` and `capacity_high`, the least and the most of its loads, and `capacity_at_least` (1: the generator was
    /// the limit).
    pub fn metrics(&self) -> Vec<Metric> {
        let capacity = self.capacity.as_ref();
        let range = capacity.and_then(|c| c.range);
        let rates = [
            (metrics::PEAK_QPS, self.peak_qps),
            (metrics::PEAK_LOWER, self.lower),
            (metrics::PEAK_UPPER, self.proven_upper()),
            (metrics::CAPACITY_QPS, capacity.and_then(|c| c.qps)),
            (metrics::CAPACITY_MEDIAN, capacity.and_then(|c| c.median_qps)),
            (metrics::CAPACITY_LOW, range.map(|r| r.0)),
            (metrics::CAPACITY_HIGH, range.map(|r| r.1)),
        ];
        let limited = capacity.filter(|c| c.at_least).map(|_| metrics::CAPACITY_AT_LEAST.of(1.0));
        rates.into_iter().filter_map(|(metric, value)| value.map(|v| metric.of(v))).chain(limited).collect()
    }

    /// Whether the result may be believed: a search without a lower bound and without a capacity has found nothing; one whose
    /// upper bound is not the server's, or that ended before its width, or with a latency trial that is not valid, says so.
    pub fn validity(&self) -> Validity {
        let mut v = Validity::default();
        let rate = |r: Option<f64>| r.map_or("none".into(), |r| format!("{r:.0}/s"));
        let capacity = self.capacity.as_ref();
        v.warn_for(capacity.and_then(Capacity::warning));
        if self.lower.is_none() {
            let text = match (self.ended, self.upper, self.upper_by) {
                (_, Some(u), Some(UpperBound::Generator)) => {
                    format!("no knee: the generator cannot offer even {u:.0}/s; give it a core of its own")
                }
                (_, Some(u), Some(UpperBound::Machine)) => {
                    format!("no knee: the machine disturbed server or generator in most loads at {u:.0}/s")
                }
                (End::MinLoad, ..) => format!(
                    "no knee: more than {} % is lost even at the smallest load allowed, {:.0}/s",
                    self.goal.loss_ratio * 100.0,
                    self.range.0
                ),
                _ => format!(
                    "no knee: no load is known to be within the goal after {} s (upper bound {}); give a larger budget",
                    self.budget_s,
                    rate(self.proven_upper())
                ),
            };
            let reason = Reason::new("no_lower_bound", text);
            match capacity.and_then(|c| c.qps) {
                Some(_) => v.warn(reason),
                None => v.reject(reason),
            }
            return v;
        }
        match self.upper_by {
            Some(UpperBound::Generator) => v.warn(Reason::new(
                "limited_by_generator",
                format!(
                    "limited by the generator: it cannot offer {}, so the server's knee is at least {} and may be higher; \
                     give it more cores",
                    rate(self.upper),
                    rate(self.lower)
                ),
            )),
            Some(UpperBound::Machine) => v.warn(Reason::new(
                "limited_by_machine",
                format!(
                    "the machine disturbed server or generator in most loads at {}, so the server's knee is at least {} and may be \
                     higher; run it again on a quieter machine",
                    rate(self.upper),
                    rate(self.lower)
                ),
            )),
            Some(UpperBound::Server) | None => {}
        }
        if let Some((_, first)) = self.disturbances.first() {
            v.warn(Reason::new(
                "loads_disturbed",
                format!(
                    "the machine disturbed {} of {} loads of the search, which were done again; the first: {first}",
                    self.disturbances.len(),
                    self.trials.len()
                ),
            ));
        }
        match self.ended {
            End::MaxLoad => v.warn(Reason::new(
                "limited_by_max_load",
                format!(
                    "the server can do the greatest load allowed, {:.0}/s: its knee may be higher",
                    self.range.1
                ),
            )),
            End::Budget | End::Trials | End::Unfinished => v.warn(Reason::new(
                "search_unfinished",
                format!(
                    "the search ended {} with bounds {} and {} where a width of {} % was the goal",
                    match self.ended {
                        End::Budget => format!("with its budget of {} s", self.budget_s),
                        End::Trials => format!("after {} trials", self.trials.len()),
                        _ => "early".into(),
                    },
                    rate(self.lower),
                    rate(self.upper),
                    self.goal.width * 100.0
                ),
            )),
            End::Width | End::MinLoad => {}
        }
        for trial in self.latency_at.iter().filter(|t| !t.result.validity.valid) {
            let why: Vec<_> = trial.result.validity.reasons.iter().map(|r| r.code.as_str()).collect();
            v.warn(Reason::new(
                "latency_trial_invalid",
                format!(
                    "the latency trial at {:.0} % of the peak, {:.0}/s, is not valid ({}): the peak is, the latencies there \
                     are not",
                    trial.fraction * 100.0,
                    trial.rate,
                    why.join(", ")
                ),
            ));
        }
        v
    }
}
