//! What a search found, and whether it may be believed.

use super::{Class, Goal, LatencyAt, Trial};
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

/// What was found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SearchResult {
    /// The conditional throughput of the lower bound, in answered queries per second; none without a lower bound.
    pub peak_qps: Option<f64>,
    /// The relevant lower bound: offered queries per second that the server can do.
    pub lower: Option<f64>,
    /// The relevant upper bound: the smallest load that it cannot do; or, where `upper_is_ours`, that we cannot offer.
    pub upper: Option<f64>,
    /// The upper bound is the generator's: the server's peak is above `lower`, how far is not known.
    pub upper_is_ours: bool,
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
    /// Every load and what it turned out to be.
    pub loads: Vec<(f64, Class)>,
    /// Latency trials at fractions of the peak, where they were asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub latency_at: Vec<LatencyAt>,
}

impl SearchResult {
    /// The metrics `peak_qps`, `peak_lower`, `peak_upper`, those that exist.
    pub fn metrics(&self) -> Vec<Metric> {
        [("peak_qps", self.peak_qps), ("peak_lower", self.lower), ("peak_upper", self.upper)]
            .into_iter()
            .filter_map(|(name, value)| value.map(|v| Metric::new(name, "1/s", v)))
            .collect()
    }

    /// Whether the result may be believed: a search without a lower bound has found nothing; one whose upper bound is
    /// ours, or that ended before its width, or with a latency trial that is not valid, says so.
    pub fn validity(&self) -> Validity {
        let mut v = Validity::default();
        let rate = |r: Option<f64>| r.map_or("none".into(), |r| format!("{r:.0}/s"));
        if self.lower.is_none() {
            let text = match (self.ended, self.upper, self.upper_is_ours) {
                (_, Some(u), true) => {
                    format!("no peak: the generator cannot offer even {u:.0}/s; give it a core of its own")
                }
                (End::MinLoad, ..) => format!(
                    "no peak: more than {} % is lost even at the smallest load allowed, {:.0}/s",
                    self.goal.loss_ratio * 100.0,
                    self.range.0
                ),
                _ => format!(
                    "no peak: no load was proven within the budget of {} s (upper bound {}); give a larger budget",
                    self.budget_s,
                    rate(self.upper)
                ),
            };
            v.reject(Reason::new("no_lower_bound", text));
            return v;
        }
        if self.upper_is_ours {
            v.warn(Reason::new(
                "limited_by_generator",
                format!(
                    "limited by the generator: it cannot offer {}, so the server's peak is at least {} and may be higher; \
                     give it more cores",
                    rate(self.upper),
                    rate(self.lower)
                ),
            ));
        }
        match self.ended {
            End::MaxLoad => v.warn(Reason::new(
                "limited_by_max_load",
                format!(
                    "the server can do the greatest load allowed, {:.0}/s: its peak may be higher",
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
