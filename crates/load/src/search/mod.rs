//! The peak query rate by RFC 9971 (Multiple Loss Ratio Search) with one goal.
//!
//! Loss is not monotonic in the rate, and one short trial proves little. So each load is classified by all of its
//! trials ([`goal`]), and the result is an interval: the *relevant upper bound* is the smallest load that the server
//! cannot do, the *relevant lower bound* the greatest below it that it can. The search first looks for the
//! neighbourhood with short trials, each led by the rate that the one before forwarded, then measures there in full
//! length until the bounds are within the goal's width, or the time budget ends: whichever it was, the result says.
//!
//! [`Search`] is pure: it says what to measure next and takes the result.

mod capacity;
mod drive;
pub mod goal;
mod latency;
mod offered;
mod result;
#[cfg(test)]
mod tests;

pub use capacity::{
    Capacity, CapacityGoal, IDLE_LIMIT, WindowLoad, capacity, forgive_preemption, sustained_qps,
};
pub use drive::drive;
pub use goal::{
    Class, DISTURBED_TRIALS, Goal, INVALID_TRIALS, Seen, Trial, classify, conditional_throughput,
};
pub use latency::{Fractions, LatencyAt, latency_at};
pub use measure::limits::SEARCH_PACING_LIMIT as PACING_LIMIT;
pub use offered::Offered;
pub use result::{End, SearchResult, UpperBound};

use measure::Nanos;
use measure::clock::SECOND;
use std::collections::BTreeMap;

/// Looks at most this often for the neighbourhood.
const MOST_PROBES: usize = 24;

/// No search measures more often than this.
const MOST_TRIALS: usize = 300;

/// The next step of a search.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Next {
    /// Offer this rate for this long, and report what came of it.
    Measure {
        /// Queries per second.
        rate: f64,
        /// Nanoseconds.
        duration: Nanos,
    },
    /// The search is over.
    Done,
}

/// A search for the peak rate.
#[derive(Clone, Debug)]
pub struct Search {
    goal: Goal,
    budget: Nanos,
    min: u64,
    max: u64,
    start: u64,
    trials: Vec<Trial>,
    by_load: BTreeMap<u64, Vec<Trial>>,
    spent: Nanos,
    /// The greatest load that looked possible and the smallest that did not, while the neighbourhood is sought.
    hint: (Option<u64>, Option<u64>),
    probing: bool,
    /// The load that is measured until it is classified.
    focus: Option<u64>,
    /// How far to step where a bound is missing, relative.
    step: f64,
    ended: End,
    /// Trials that the machine disturbed, by number from 1, and how.
    disturbances: Vec<(usize, String)>,
}

impl Search {
    /// A search with a time budget for its trials, between 100 and 10 million queries/s, beginning at 20,000.
    pub fn new(goal: Goal, budget: Nanos) -> Self {
        let step = goal.width * 2.0;
        Self {
            goal,
            budget,
            min: 100,
            max: 10_000_000,
            start: 20_000,
            trials: Vec::new(),
            by_load: BTreeMap::new(),
            spent: 0,
            hint: (None, None),
            probing: true,
            focus: None,
            step,
            ended: End::Unfinished,
            disturbances: Vec::new(),
        }
    }

    /// Searches between these loads only, in queries per second: what the generator can offer, by its calibration.
    #[must_use]
    pub fn range(mut self, min: f64, max: f64) -> Self {
        (self.min, self.max) = ((min.round() as u64).max(1), (max.round() as u64).max(1));
        self.start = self.start.clamp(self.min, self.max);
        self
    }

    /// Begins at this load, in queries per second.
    #[must_use]
    pub fn start(mut self, rate: f64) -> Self {
        self.start = (rate.round() as u64).clamp(self.min, self.max);
        self
    }

    /// The next trial, or the end.
    #[allow(clippy::should_implement_trait)] // it takes each result in between
    pub fn next(&mut self) -> Next {
        if self.ended != End::Unfinished {
            return Next::Done;
        }
        let Some((load, duration)) = self.choose() else { return Next::Done };
        if self.trials.len() >= MOST_TRIALS {
            self.ended = End::Trials;
            return Next::Done;
        }
        if self.spent + duration > self.budget && !self.trials.is_empty() {
            self.ended = End::Budget;
            return Next::Done;
        }
        self.focus = Some(load);
        Next::Measure { rate: load as f64, duration }
    }

    /// Takes the trial that [`Self::next`] asked for.
    pub fn record(&mut self, trial: Trial) {
        self.spent += trial.duration;
        self.trials.push(trial);
        let load = trial.rate.round() as u64;
        self.by_load.entry(load).or_default().push(trial);
        if self.probing {
            self.probed(load, trial);
        }
    }

    /// Takes a probe's hint, and ends probing where it knows enough.
    fn probed(&mut self, load: u64, trial: Trial) {
        let edge = self.hint.0 == Some(self.max) || self.hint.1 == Some(self.min);
        if !trial.is_evidence()
            && self.tries(load) < INVALID_TRIALS
            && self.trials.len() < MOST_PROBES
            && !edge
        {
            return;
        }
        let (low, high) = &mut self.hint;
        if trial.valid && trial.loss_ratio <= self.goal.loss_ratio {
            *low = Some(low.map_or(load, |l| l.max(load)));
        } else {
            *high = Some(high.map_or(load, |h| h.min(load)));
        }
        // One contradicts the other: forget what the short trials said above the smaller one.
        if low.zip(*high).is_some_and(|(l, h)| l >= h) {
            *low = None;
        }
        let near = low.zip(*high).is_some_and(|(l, h)| (h - l) as f64 <= 0.15 * h as f64);
        let edge = *low == Some(self.max) || *high == Some(self.min);
        if near || edge || self.trials.len() >= MOST_PROBES {
            self.probing = false;
        }
    }

    fn tries(&self, load: u64) -> usize {
        self.by_load.get(&load).map_or(0, Vec::len)
    }

    /// The next probe: the same again where the last was invalid by chance; up by doubling; down to what the last probe
    /// forwarded; in between by halving.
    fn probe(&self) -> u64 {
        let last = self.trials.last();
        let disturbed = last.filter(|t| !t.is_evidence()).map(|t| t.rate.round() as u64);
        if let Some(load) = disturbed.filter(|&load| self.tries(load) < INVALID_TRIALS) {
            return load;
        }
        match self.hint {
            (None, None) => self.start,
            (Some(low), None) => (low * 2).min(self.max),
            (low, Some(high)) => {
                let floor = low.unwrap_or(self.min / 2);
                // What an overloaded server answers is often less than its peak: take a little more. An invalid trial
                // has no forwarded rate to speak of.
                let forwarded = last.filter(|t| t.is_evidence() && t.rate.round() as u64 == high);
                let hint = forwarded.map_or(0.0, |t| t.rate * (1.0 - t.loss_ratio) * (1.0 + self.goal.width));
                let mut middle = (floor as f64 * high as f64).sqrt();
                if low.is_none() {
                    // A load a little smaller may do, and nothing says how much.
                    middle = high as f64 / 2.0;
                }
                let load =
                    if hint > floor as f64 * 1.02 && hint < high as f64 * 0.98 { hint } else { middle };
                (load.round() as u64).clamp(self.min, (high - 1).max(self.min))
            }
        }
    }

    fn class(&self, load: u64) -> Class {
        self.by_load.get(&load).map_or(Class::Undecided, |t| classify(&self.goal, t))
    }

    /// The relevant bounds, and whose the upper one is.
    fn bounds(&self) -> (Option<u64>, Option<(u64, UpperBound)>) {
        let (mut lower, mut unknown) = (None, None);
        for &load in self.by_load.keys() {
            match self.class(load) {
                // What was offered above it shows that an unusable load was only disturbed.
                Class::Lower => (lower, unknown) = (Some(load), None),
                Class::Upper => return (lower, unknown.or(Some((load, UpperBound::Server)))),
                Class::Unusable => unknown = unknown.or(Some((load, self.unusable(load)))),
                Class::Disturbed => unknown = unknown.or(Some((load, UpperBound::Machine))),
                Class::Undecided => {}
            }
        }
        (lower, unknown)
    }

    /// Whose limit a load is whose trials were invalid: not the generator's where it offered as much, or more, in another trial.
    fn unusable(&self, load: u64) -> UpperBound {
        let offered = self.by_load.range(load..).flat_map(|(_, trials)| trials).any(|trial| trial.valid);
        if offered { UpperBound::Machine } else { UpperBound::Generator }
    }

    /// The next load and duration; none where the search has ended.
    fn choose(&mut self) -> Option<(u64, Nanos)> {
        if self.probing {
            return Some((self.probe(), self.goal.initial()));
        }
        let full = self.goal.final_trial;
        // A load that was begun in full length is measured until it is decided.
        if let Some(load) = self.focus {
            let begun = self.by_load.get(&load).is_some_and(|t| t.iter().any(|t| t.duration >= full));
            if begun && self.class(load) == Class::Undecided {
                return Some((load, full));
            }
        }
        let load = match self.bounds() {
            (None, None) => self.hint.0.or(self.hint.1).unwrap_or(self.start),
            (Some(lower), None) if lower >= self.max => return self.end(End::MaxLoad),
            (Some(lower), None) => self.above(lower),
            (None, Some((upper, _))) if upper <= self.min => return self.end(End::MinLoad),
            (None, Some((upper, _))) => self.below(upper),
            (Some(lower), Some((upper, _))) => {
                if (upper - lower) as f64 <= self.goal.width * upper as f64 || upper - lower <= 1 {
                    return self.end(End::Width);
                }
                (((lower as f64) * (upper as f64)).sqrt().round() as u64).clamp(lower + 1, upper - 1)
            }
        };
        Some((load, full))
    }

    fn end(&mut self, why: End) -> Option<(u64, Nanos)> {
        self.ended = why;
        None
    }

    /// Where no upper bound is known: the hint, or further up by growing steps.
    fn above(&mut self, lower: u64) -> u64 {
        let near = lower as f64 * (1.0 + self.goal.width);
        if let Some(high) = self.hint.1.filter(|&h| h as f64 > near && self.class(h) != Class::Lower) {
            return high;
        }
        let step = self.widen();
        ((lower as f64 * (1.0 + step)).round() as u64).clamp(lower + 1, self.max)
    }

    /// Where no lower bound is known: the hint, or further down by growing steps.
    fn below(&mut self, upper: u64) -> u64 {
        let near = upper as f64 * (1.0 - self.goal.width);
        if let Some(low) = self.hint.0.filter(|&l| (l as f64) < near && self.class(l) == Class::Undecided) {
            return low;
        }
        let step = self.widen();
        ((upper as f64 / (1.0 + step)).round() as u64).clamp(self.min, (upper - 1).max(self.min))
    }

    fn widen(&mut self) -> f64 {
        let step = self.step;
        self.step = (step * 2.0).min(1.0);
        step
    }

    /// The goal it searches for.
    pub fn goal(&self) -> &Goal {
        &self.goal
    }

    /// The result so far.
    pub fn result(&self) -> SearchResult {
        let (lower, upper) = self.bounds();
        // Without both bounds, and near each other, nothing is proven that could be written as one number.
        let proven = self.ended == End::Width && upper.is_some_and(|(_, by)| by == UpperBound::Server);
        let peak = lower.filter(|_| proven).and_then(|l| self.by_load.get(&l));
        SearchResult {
            peak_qps: peak.map(|t| conditional_throughput(&self.goal, t)),
            lower: lower.map(|l| l as f64),
            upper: upper.map(|(u, _)| u as f64),
            upper_is_ours: upper.is_some_and(|(_, by)| by == UpperBound::Generator),
            upper_by: upper.map(|(_, by)| by),
            ended: self.ended,
            goal: self.goal.clone(),
            budget_s: self.budget as f64 / SECOND as f64,
            spent_s: self.spent as f64 / SECOND as f64,
            range: (self.min as f64, self.max as f64),
            trials: self.trials.clone(),
            loads: self.by_load.keys().map(|&l| (l as f64, self.class(l))).collect(),
            latency_at: Vec::new(),
            capacity: None,
            disturbances: self.disturbances.clone(),
        }
    }
}
