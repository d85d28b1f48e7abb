//! The figures of one second, small enough to be handed over every second without disturbing the pace.

use measure::coarse::times;
use measure::{Coarse, Cumulative, Nanos, metrics, series};
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

    /// Rates in 1/s, times in microseconds.
    pub(crate) fn values(&self) -> Value {
        let counts = [
            (metrics::SENT_QPS, self.sent),
            (metrics::ANSWERED_QPS, self.answered),
            (metrics::UNSENT, self.unsent),
            (metrics::LOST, self.lost),
            (metrics::OFFERED_QPS, self.offered),
            (metrics::TRUNCATED, self.truncated),
            (series::FAILED, self.failed),
            (series::WRONG, self.wrong),
            (series::DROPS, self.drops),
            (series::IN_FLIGHT, self.in_flight),
            (series::OPEN, self.open),
        ];
        let counts = counts.map(|(figure, count)| (figure, count as f64));
        let mut values =
            series::values(counts.into_iter().chain(times(&self.latency, &self.pacing, self.stall)));
        values[Cumulative::NAME] = json!(self.latency.cumulative());
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
