//! What happened in one second, small enough to be handed over every second without disturbing the pace.

use measure::Nanos;
use serde_json::{Value, json};

/// Places in each doubling of the value: the relative error is at most 1/64.
const PER_OCTAVE: usize = 64;
const OCTAVES: usize = 38;

/// A coarse histogram of nanoseconds: relative error at most 1.6 %, 10 KB.
#[derive(Clone)]
pub(crate) struct Coarse {
    counts: Box<[u32]>,
    total: u64,
    max: Nanos,
}

impl Default for Coarse {
    fn default() -> Self {
        Self { counts: vec![0; PER_OCTAVE * OCTAVES].into(), total: 0, max: 0 }
    }
}

fn place(value: Nanos) -> usize {
    if value < PER_OCTAVE as u64 {
        return value as usize;
    }
    let octave = 63 - value.leading_zeros() as usize - 6;
    let within = (value >> octave) as usize - PER_OCTAVE;
    ((octave + 1) * PER_OCTAVE + within).min(PER_OCTAVE * OCTAVES - 1)
}

/// The greatest value of a place.
fn highest(place: usize) -> Nanos {
    let (octave, within) = (place / PER_OCTAVE, place % PER_OCTAVE);
    if octave == 0 {
        return within as u64;
    }
    (((PER_OCTAVE + within + 1) as u64) << (octave - 1)) - 1
}

impl Coarse {
    pub(crate) fn record(&mut self, value: Nanos) {
        self.counts[place(value)] += 1;
        self.total += 1;
        self.max = self.max.max(value);
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        self.counts.iter_mut().zip(&other.counts).for_each(|(a, b)| *a += b);
        self.total += other.total;
        self.max = self.max.max(other.max);
    }

    pub(crate) fn quantile(&self, q: f64) -> Nanos {
        let want = (q * self.total as f64).ceil().max(1.0) as u64;
        let mut seen = 0;
        for (i, &count) in self.counts.iter().enumerate() {
            seen += u64::from(count);
            if seen >= want {
                return highest(i).min(self.max);
            }
        }
        self.max
    }
}

/// One second of one worker, or of all.
#[derive(Clone, Default)]
pub(crate) struct Second {
    pub sent: u64,
    pub answered: u64,
    pub unsent: u64,
    pub lost: u64,
    pub truncated: u64,
    /// Mismatched, duplicate and unexpected.
    pub wrong: u64,
    /// Due in it.
    pub offered: u64,
    /// Dropped on our side.
    pub drops: u64,
    /// The longest time that the loop stood still.
    pub stall: Nanos,
    /// At its end: waiting for an answer, and TCP connections open.
    pub in_flight: u64,
    pub open: u64,
    pub latency: Coarse,
    pub pacing: Coarse,
}

impl Second {
    pub(crate) fn merge(&mut self, other: &Self) {
        self.sent += other.sent;
        self.answered += other.answered;
        self.unsent += other.unsent;
        self.lost += other.lost;
        self.truncated += other.truncated;
        self.wrong += other.wrong;
        self.offered += other.offered;
        self.drops += other.drops;
        self.stall = self.stall.max(other.stall);
        self.in_flight += other.in_flight;
        self.open += other.open;
        self.latency.merge(&other.latency);
        self.pacing.merge(&other.pacing);
    }

    /// By metric name: rates in 1/s, times in microseconds.
    pub(crate) fn values(&self) -> Value {
        let us = |n: Nanos| n as f64 / 1e3;
        json!({
            "sent_qps": self.sent as f64,
            "answered_qps": self.answered as f64,
            "unsent": self.unsent as f64,
            "lost": self.lost as f64,
            "offered_qps": self.offered as f64,
            "truncated": self.truncated as f64,
            "wrong": self.wrong as f64,
            "drops": self.drops as f64,
            "stall_max": us(self.stall),
            "in_flight": self.in_flight as f64,
            "open": self.open as f64,
            "latency_p50": us(self.latency.quantile(0.5)),
            "latency_p99": us(self.latency.quantile(0.99)),
            "latency_max": us(self.latency.max),
            "pacing_error_p99": us(self.pacing.quantile(0.99)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn quantiles_are_within_a_sixtieth(mut values in prop::collection::vec(0u64..10_000_000_000, 1..200)) {
            let mut a = Coarse::default();
            let mut b = Coarse::default();
            for (i, &v) in values.iter().enumerate() {
                if i % 2 == 0 { a.record(v) } else { b.record(v) }
            }
            a.merge(&b);
            values.sort_unstable();
            for q in [0.01, 0.5, 0.99, 1.0] {
                let exact = values[((q * values.len() as f64).ceil() as usize).max(1) - 1];
                let got = a.quantile(q);
                prop_assert!(got >= exact && got - exact <= exact / 60 + 1, "{q}: {got}, exactly {exact}");
            }
        }
    }

    #[test]
    fn an_empty_second_has_zeroes() {
        assert_eq!(Second::default().values()["latency_p99"], 0.0);
    }

    #[test]
    fn hours_fit() {
        let mut c = Coarse::default();
        c.record(u64::MAX);
        assert_eq!(c.quantile(0.5), highest(PER_OCTAVE * OCTAVES - 1));
    }
}
