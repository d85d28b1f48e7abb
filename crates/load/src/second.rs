//! The figures of one second, small enough to be handed over every second without disturbing the pace.

use measure::{Coarse, Nanos};
use serde_json::{Value, json};

/// One second of one worker, or of all.
#[derive(Clone, Default)]
pub(crate) struct Second {
    pub sent: u64,
    pub answered: u64,
    pub unsent: u64,
    pub lost: u64,
    pub truncated: u64,
    /// Of those answered, SERVFAIL and REFUSED: what a server says that has no zone to answer from.
    pub failed: u64,
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
        self.failed += other.failed;
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
        let mut values = json!({
            "sent_qps": self.sent as f64,
            "answered_qps": self.answered as f64,
            "unsent": self.unsent as f64,
            "lost": self.lost as f64,
            "offered_qps": self.offered as f64,
            "truncated": self.truncated as f64,
            "failed": self.failed as f64,
            "wrong": self.wrong as f64,
            "drops": self.drops as f64,
            "in_flight": self.in_flight as f64,
            "open": self.open as f64,
        });
        for (name, us) in measure::coarse::times(&self.latency, &self.pacing, self.stall) {
            values[name] = us.into();
        }
        values
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_second_has_zeroes() {
        assert_eq!(Second::default().values()["latency_p99"], 0.0);
    }
}
