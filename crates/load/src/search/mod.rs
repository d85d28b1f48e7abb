//! The knee by RFC 9971 (Multiple Loss Ratio Search) with one goal: the greatest rate that a server can do.
//!
//! One short trial proves little, and by chance a greater load may lose less. The result is therefore an interval: the *lower bound* is
//! the greatest load measured that the knee is above with a probability of 95 %, the *upper bound* the smallest that it is below. The
//! probabilities follow from all trials (module `posterior`). The RFC's class of each load, by its own trials alone ([`goal`]), stands
//! beside them: it takes two trials for a bound, which is far too sure of servers that pause at random. The search first looks for
//! the neighbourhood with short trials, each led by the rate that the one before forwarded, then measures there in full length
//! until the bounds are within the goal's width, or the time budget ends: whichever it was, the result says.
//!
//! [`Search`] is pure: it says what to measure next and takes the result.

mod capacity;
mod drive;
pub mod goal;
mod latency;
mod offered;
mod posterior;
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
use posterior::Posterior;
use std::collections::BTreeMap;

/// Looks at most this often for the neighbourhood.
const MOST_PROBES: usize = 24;

/// No search measures more often than this.
const MOST_TRIALS: usize = 300;

/// How sure each bound is: the knee is beyond it with this probability.
const CONFIDENCE: f64 = 0.95;

/// Loads are chosen where the knee is below with this probability, and above with it.
const SIDE: f64 = 0.1;

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
    /// Two neighbouring loads were within the goal's width, one of which seemed possible and the other not.
    located: bool,
    /// Where the knee is, by the full-length trials.
    posterior: Posterior,
    ended: End,
    /// Trials that the machine disturbed, by number from 1, and how.
    disturbances: Vec<(usize, String)>,
}

impl Search {
    /// A search with a time budget for its trials, between 100 and 10 million queries/s, beginning at 20,000.
    pub fn new(goal: Goal, budget: Nanos) -> Self {
        let (min, max) = (100, 10_000_000);
        let posterior = Posterior::new(&goal, min, max);
        Self {
            goal,
            budget,
            min,
            max,
            start: 20_000,
            trials: Vec::new(),
            by_load: BTreeMap::new(),
            spent: 0,
            hint: (None, None),
            probing: true,
            located: false,
            posterior,
            ended: End::Unfinished,
            disturbances: Vec::new(),
        }
    }

    /// Searches between these loads only, in queries per second: what the generator can offer, by its calibration.
    #[must_use]
    pub fn range(mut self, min: f64, max: f64) -> Self {
        (self.min, self.max) = ((min.round() as u64).max(1), (max.round() as u64).max(1));
        self.start = self.start.clamp(self.min, self.max);
        self.posterior = Posterior::new(&self.goal, self.min, self.max);
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
        Next::Measure { rate: load as f64, duration }
    }

    /// Takes the trial that [`Self::next`] asked for.
    pub fn record(&mut self, trial: Trial) {
        self.spent += trial.duration;
        self.trials.push(trial);
        let load = trial.rate.round() as u64;
        self.by_load.entry(load).or_default().push(trial);
        if trial.is_evidence() && trial.duration >= self.goal.final_trial {
            self.posterior.record(&self.goal, &trial);
        }
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

    /// The loads with full-length trials that say something about the server, in ascending order.
    fn loads(&self) -> impl DoubleEndedIterator<Item = u64> {
        let tells = |load: &u64| self.full_trials(*load, true) + self.full_trials(*load, false) > 0;
        self.by_load.keys().copied().filter(tells)
    }

    /// The loads measured between which the knee is, each with a probability of [`CONFIDENCE`], and whose the upper one is: the greatest
    /// load of all is the generator's limit, or the machine's, where nothing can be known of it. At a lower bound a trial was within the
    /// loss goal, at an upper bound one was not: a load whose own trials all say the opposite is no bound, whatever the others say.
    fn bounds(&self) -> (Option<u64>, Option<(u64, UpperBound)>) {
        let (low, high) = (self.posterior.quantile(1.0 - CONFIDENCE), self.posterior.quantile(CONFIDENCE));
        let lower = self.loads().rev().find(|load| *load as f64 <= low && self.full_trials(*load, false) > 0);
        let upper = self.loads().find(|load| *load as f64 >= high && self.full_trials(*load, true) > 0);
        (lower, upper.map(|load| (load, UpperBound::Server)).or(self.wall()))
    }

    /// How many full-length trials at this load are evidence and lost more than the goal allows (`high`), or not more.
    fn full_trials(&self, load: u64, high: bool) -> usize {
        let counts = |t: &&Trial| {
            t.is_evidence()
                && t.duration >= self.goal.final_trial
                && (t.loss_ratio > self.goal.loss_ratio) == high
        };
        self.by_load[&load].iter().filter(counts).count()
    }

    /// The smallest load above all that were offered, of which nothing can be known, and why.
    fn wall(&self) -> Option<(u64, UpperBound)> {
        let above = self.loads().next_back().map_or(0, |load| load + 1);
        self.by_load.range(above..).find_map(|(&load, _)| match self.class(load) {
            Class::Unusable => Some((load, self.unusable(load))),
            Class::Disturbed => Some((load, UpperBound::Machine)),
            _ => None,
        })
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
        let near =
            |low: u64, high: u64| (high - low) as f64 <= self.goal.width * high as f64 || high - low <= 1;
        match self.bounds() {
            (Some(lower), _) if lower >= self.max => return self.end(End::MaxLoad),
            (_, Some((upper, _))) if upper <= self.min => return self.end(End::MinLoad),
            (Some(lower), Some((upper, _))) if near(lower, upper) => return self.end(End::Width),
            _ => {}
        }
        let full = self.goal.final_trial;
        let wall = self.wall().map(|(load, _)| load);
        let (low, high) = self.split();
        let load = match (low, high.or(wall)) {
            (None, None) => self.hint.0.or(self.hint.1).unwrap_or(self.start),
            (Some(low), None) => self.above(low),
            (None, Some(high)) => self.below(high),
            (Some(low), Some(high)) if !self.located && !near(low, high) => {
                (low as f64 * high as f64).sqrt().round() as u64
            }
            (Some(low), Some(high)) => {
                self.located = true;
                let load = self.posterior.quantile(self.side()).round() as u64;
                // Beyond what can be offered there is nothing to measure.
                let load =
                    if wall.is_some_and(|wall| load >= wall) { low } else { load.clamp(low / 2, high * 2) };
                // A load that was measured already says more with one more trial than two loads next to each other.
                let same = |known: &u64| load.abs_diff(*known) as f64 <= self.goal.width / 4.0 * load as f64;
                self.loads().find(same).unwrap_or(load)
            }
        };
        Some((load.clamp(self.min, self.max), full))
    }

    /// With which probability the knee is to be below the next load: as much as a bound needs that is missing, otherwise from one side of the
    /// knee and from the other in turn.
    fn side(&self) -> f64 {
        match self.bounds() {
            (None, Some(_)) => 1.0 - CONFIDENCE,
            (Some(_), None) => CONFIDENCE,
            _ if self.trials.len().is_multiple_of(2) => SIDE,
            _ => 1.0 - SIDE,
        }
    }

    /// The two neighbouring loads between which the knee seems to be: those for which the fewest trials at smaller loads lose too much, and
    /// at greater ones do not. Of several such pairs the one with the smallest loads.
    fn split(&self) -> (Option<u64>, Option<u64>) {
        let loads: Vec<u64> = self.loads().collect();
        let wrong = |at: &usize| -> usize {
            let below: usize = loads[..*at].iter().map(|load| self.full_trials(*load, true)).sum();
            below + loads[*at..].iter().map(|load| self.full_trials(*load, false)).sum::<usize>()
        };
        let at = (0..=loads.len()).min_by_key(wrong).unwrap_or(0);
        (at.checked_sub(1).map(|i| loads[i]), loads.get(at).copied())
    }

    fn end(&mut self, why: End) -> Option<(u64, Nanos)> {
        self.ended = why;
        None
    }

    /// Where nothing seems impossible yet: the hint, or twice as much.
    fn above(&self, low: u64) -> u64 {
        let near = low as f64 * (1.0 + self.goal.width);
        self.hint.1.filter(|&high| high as f64 > near).unwrap_or(low * 2)
    }

    /// Where nothing seems possible yet: the hint, or half as much.
    fn below(&self, high: u64) -> u64 {
        let near = high as f64 * (1.0 - self.goal.width);
        self.hint.0.filter(|&low| (low as f64) < near).unwrap_or(high / 2)
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
        let peak = lower.filter(|_| proven);
        SearchResult {
            peak_qps: peak.map(|load| conditional_throughput(&self.goal, load as f64, &self.by_load[&load])),
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
