//! The state of a load while it runs.

use super::validity::{self, Limits};
use measure::clock::SECOND;
use measure::metrics::{self, Definition};
use measure::{Cumulative, Event, Nanos, Outcome, Validity};
use serde::Deserialize;
use std::collections::VecDeque;

/// The number of seconds (of a search: trials) that are kept for the plots.
pub(super) const HISTORY: usize = 60;

/// The part of the state that does not change while a load runs.
#[derive(Clone, Debug, Default)]
pub struct About {
    /// The command: `load run`.
    pub title: String,
    /// Whither the queries go.
    pub targets: Vec<String>,
    /// The pace in words: `open loop, 50,000/s`.
    pub pace: String,
    /// For how long queries are offered, in nanoseconds; none: until they have all been sent. Of a search: its budget.
    pub duration: Option<Nanos>,
    /// How many queries are offered at most.
    pub count: Option<u64>,
    /// Cores that the generator is pinned to; none: it is not.
    pub generator: Vec<usize>,
    /// The limits of the validity so far.
    pub limits: Limits,
    /// Queries are due at fixed times: late ones speak against the load.
    pub paced: bool,
    /// The trials of a search come instead of seconds.
    pub search: bool,
}

/// One second of a load, or one trial of a search: what `Progress` events say, by the same names. Rates in 1/s, times in
/// microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Figures {
    /// Due in it.
    pub offered_qps: Option<f64>,
    /// Handed to the kernel.
    pub sent_qps: f64,
    /// Answered in time.
    pub answered_qps: f64,
    /// Due but not sent.
    pub unsent: f64,
    /// Given up in it.
    pub lost: f64,
    /// Waiting for answers at its end.
    pub in_flight: Option<f64>,
    /// Answers with TC.
    pub truncated: Option<f64>,
    /// Mismatched, duplicate and unexpected answers.
    pub wrong: Option<f64>,
    /// Dropped by our own receive buffers.
    pub drops: Option<f64>,
    /// TCP connections at its end.
    pub open: Option<f64>,
    /// The longest that the generator stood still.
    pub stall_max: Option<f64>,
    /// Median, from the intended time to the answer.
    pub latency_p50: f64,
    /// 99 % are at or below.
    pub latency_p99: f64,
    /// The greatest.
    pub latency_max: f64,
    /// 99 % were sent at most so late.
    pub pacing_error_p99: f64,
    /// Answers of it by latency.
    pub latency_cumulative: Option<Cumulative>,
}

impl Figures {
    /// The offered rate: as reported, otherwise what was sent and what was not.
    pub fn offered(&self) -> f64 {
        self.offered_qps.unwrap_or(self.sent_qps + self.unsent)
    }

    /// Of a whole trial. Counts become those of a second of it, so that they stand beside the rates.
    fn of(outcome: &Outcome) -> Self {
        let get = |which: Definition| outcome.metric(which).unwrap_or(0.0);
        let seconds =
            if get(metrics::SENT_QPS) > 0.0 { get(metrics::SENT) / get(metrics::SENT_QPS) } else { 1.0 };
        Self {
            offered_qps: outcome.metric(metrics::OFFERED_QPS),
            sent_qps: get(metrics::SENT_QPS),
            answered_qps: get(metrics::ANSWERED_QPS),
            unsent: get(metrics::UNSENT) / seconds,
            lost: get(metrics::LOST) / seconds,
            in_flight: None,
            truncated: Some(get(metrics::TRUNCATED) / seconds),
            wrong: Some(
                (get(metrics::MISMATCHED) + get(metrics::DUPLICATES) + get(metrics::UNEXPECTED)) / seconds,
            ),
            drops: Some(outcome.metric_named(&metrics::DROPS.name("socket")).unwrap_or(0.0) / seconds),
            open: None,
            stall_max: None,
            latency_p50: get(metrics::LATENCY.p50),
            latency_p99: get(metrics::LATENCY.p99),
            latency_max: get(metrics::LATENCY.max),
            pacing_error_p99: get(metrics::PACING_ERROR_P99),
            latency_cumulative: None,
        }
    }
}

/// Counts since the start, the warm-up excluded.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Totals {
    pub offered: f64,
    pub sent: f64,
    pub answered: f64,
    pub unsent: f64,
    pub lost: f64,
    pub truncated: f64,
    pub wrong: f64,
    pub drops: f64,
    /// Answers by latency, where seconds have them.
    pub latency: Option<Cumulative>,
}

impl Totals {
    fn add(&mut self, f: &Figures, seconds: f64) {
        if let Some(second) = &f.latency_cumulative {
            self.latency.get_or_insert_default().add(second);
        }
        for (sum, rate) in [
            (&mut self.offered, f.offered()),
            (&mut self.sent, f.sent_qps),
            (&mut self.answered, f.answered_qps),
            (&mut self.unsent, f.unsent),
            (&mut self.lost, f.lost),
            (&mut self.truncated, f.truncated.unwrap_or(0.0)),
            (&mut self.wrong, f.wrong.unwrap_or(0.0)),
            (&mut self.drops, f.drops.unwrap_or(0.0)),
        ] {
            *sum += rate * seconds;
        }
    }

    /// The share (0 to 1) of the sent queries that was lost.
    pub fn loss_ratio(&self) -> f64 {
        if self.sent > 0.0 { self.lost / self.sent } else { 0.0 }
    }
}

/// The use of one core in the last second, in per cent of it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CoreUse {
    /// Its number.
    pub core: usize,
    /// In programs.
    pub user: f64,
    /// In the kernel, for programs.
    pub system: f64,
    /// In the kernel, for interrupts and packets received.
    pub softirq: f64,
    /// Taken by the hypervisor.
    pub steal: f64,
}

impl CoreUse {
    /// All but idle.
    pub fn busy(&self) -> f64 {
        self.user + self.system + self.softirq + self.steal
    }
}

/// The machine in the last second, and its drops since the load began.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Machine {
    /// Core by core.
    pub cores: Vec<CoreUse>,
    /// Packets dropped since the load began, of all programs, by place: `receive_backlog`.
    pub drops: Vec<(&'static str, u64)>,
}

/// One trial of a search.
#[derive(Clone, Debug, PartialEq)]
pub struct Trial {
    /// From 1.
    pub number: usize,
    /// Queries offered per second.
    pub rate: f64,
    /// Nanoseconds.
    pub duration: Nanos,
    /// Its result.
    pub outcome: Outcome,
}

/// A trial as the view keeps it.
#[derive(Clone, Debug)]
pub(super) struct TrialLine {
    pub number: usize,
    pub rate: f64,
    pub duration: Nanos,
    pub answered_qps: f64,
    pub loss_ratio: f64,
    /// The code of what made it invalid.
    pub invalid: Option<String>,
}

/// A load while it runs.
#[derive(Clone, Debug, Default)]
pub struct Live {
    pub(super) about: About,
    /// Wall clock, nanoseconds since 1970: the first query that counts is due.
    pub(super) started: Option<Nanos>,
    /// Seconds reported so far.
    pub(super) last_second: u64,
    pub(super) history: VecDeque<Figures>,
    pub(super) totals: Totals,
    pub(super) worst: validity::Worst,
    pub(super) machine: Machine,
    pub(super) trials: VecDeque<TrialLine>,
    pub(super) trials_told: usize,
    /// Of a search: nanoseconds spent in trials; its relevant bounds so far.
    pub(super) spent: Nanos,
    pub(super) bounds: (Option<f64>, Option<f64>),
    /// The final verdict.
    pub(super) end: Option<Validity>,
    /// Where Prometheus finds the figures.
    pub(super) metrics_at: Option<String>,
}

impl Live {
    /// A load of which nothing has happened yet.
    pub fn new(about: About) -> Self {
        Self { about, ..Self::default() }
    }

    /// Says where the figures are served.
    pub fn served_at(&mut self, url: String) {
        self.metrics_at = Some(url);
    }

    /// Takes an event in.
    pub fn event(&mut self, event: &Event) {
        match event {
            Event::Started { at } => self.started = Some(*at),
            Event::Progress { second, values } => {
                // Whatever is not a figure of a load is nothing to show.
                if let Ok(figures) = Figures::deserialize(values) {
                    self.last_second = *second;
                    self.push(figures, 1.0);
                }
            }
            Event::Ready | Event::Done { .. } | Event::Error { .. } => {}
        }
    }

    fn push(&mut self, figures: Figures, seconds: f64) {
        self.totals.add(&figures, seconds);
        self.worst.take(&figures, &self.about.limits);
        self.history.push_back(figures);
        if self.history.len() > HISTORY {
            self.history.pop_front();
        }
    }

    /// Takes in what the machine did.
    pub fn machine(&mut self, machine: Machine) {
        if let Some(steal) = validity::steal(&machine, &self.about.generator) {
            self.worst.steal(steal);
        }
        self.machine = machine;
    }

    /// Takes in a trial of a search, and the relevant bounds (lower, upper; offered queries per second) after it.
    pub fn trial(&mut self, trial: &Trial, bounds: (Option<f64>, Option<f64>)) {
        let outcome = &trial.outcome;
        self.push(Figures::of(outcome), trial.duration as f64 / SECOND as f64);
        self.spent += trial.duration;
        self.bounds = bounds;
        self.trials_told += 1;
        self.trials.push_back(TrialLine {
            number: trial.number,
            rate: trial.rate,
            duration: trial.duration,
            answered_qps: outcome.metric(metrics::ANSWERED_QPS).unwrap_or(0.0),
            loss_ratio: outcome.metric(metrics::LOSS_RATIO).unwrap_or(0.0),
            invalid: outcome.validity.reasons.first().map(|reason| reason.code.clone()),
        });
        if self.trials.len() > HISTORY {
            self.trials.pop_front();
        }
    }

    /// The load is over: its counts and its validity, in full.
    pub fn end(&mut self, outcome: &Outcome) {
        if !self.about.search {
            let t = &mut self.totals;
            for (sum, which) in [
                (&mut t.offered, metrics::OFFERED),
                (&mut t.sent, metrics::SENT),
                (&mut t.answered, metrics::ANSWERED),
                (&mut t.unsent, metrics::UNSENT),
                (&mut t.lost, metrics::LOST),
                (&mut t.truncated, metrics::TRUNCATED),
            ] {
                *sum = outcome.metric(which).unwrap_or(*sum);
            }
        }
        self.end = Some(outcome.validity.clone());
    }

    /// Whether what is known so far may be believed; after the end, the verdict.
    pub fn validity(&self) -> Validity {
        match &self.end {
            Some(verdict) => verdict.clone(),
            // Each trial of a search has a verdict of its own.
            None if self.about.search => Validity::default(),
            None => validity::so_far(self),
        }
    }

    /// Seconds since the first query that counts was due, at the wall-clock instant `now`: below zero in the warm-up.
    /// Of a search: seconds spent in trials.
    pub(super) fn elapsed(&self, now: Nanos) -> Option<f64> {
        if self.about.search {
            return Some(self.spent as f64 / SECOND as f64);
        }
        self.started.map(|at| (i128::from(now) - i128::from(at)) as f64 / SECOND as f64)
    }

    /// The last second (or trial).
    pub(super) fn last(&self) -> Option<&Figures> {
        self.history.back()
    }
}
