//! The counters.

use measure::coarse::times;
use measure::{Coarse, Histogram, Nanos, metrics, series};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// How many of something were sent, answered in time, and answered with NOERROR.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Passed {
    /// Handed to the kernel.
    pub sent: u64,
    /// Answered within the deadline, whatever the code.
    pub acknowledged: u64,
    /// Answered within the deadline with NOERROR.
    pub accepted: u64,
}

/// Over a whole run; in messages, markers not among them, but where it says otherwise.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Tally {
    pub offered: u64,
    pub sent: u64,
    pub acknowledged: u64,
    pub accepted: u64,
    pub lost: u64,
    pub late: u64,
    pub in_flight: u64,
    /// Datagrams, those of markers too.
    pub duplicates: u64,
    pub mismatched: u64,
    pub unexpected: u64,
    pub bad_tsig: u64,
    pub unsent_overdue: u64,
    pub unsent_ids: u64,
    pub unsent_refused: u64,
    pub retried: u64,
    pub applied_twice_possible: u64,
    pub superseded: u64,
    pub transactions: Passed,
    pub records: Passed,
    /// By response code, TSIG's among them.
    pub codes: [u64; 32],
    pub bytes_sent: u64,
    pub bytes_received: u64,
    pub latency: Histogram,
    pub service_latency: Histogram,
    pub pacing_error: Histogram,
}

impl Tally {
    /// Due, but not sent.
    pub fn unsent(&self) -> u64 {
        self.unsent_overdue + self.unsent_ids + self.unsent_refused
    }
}

/// One second.
#[derive(Clone, Debug, Default)]
pub(super) struct Second {
    pub offered: u64,
    pub sent: u64,
    pub acknowledged: u64,
    pub accepted: u64,
    pub unsent: u64,
    pub lost: u64,
    /// At its end.
    pub in_flight: u64,
    pub stall: Nanos,
    pub latency: Coarse,
    pub pacing: Coarse,
}

impl Second {
    /// Rates in 1/s, times in microseconds.
    pub fn values(&self) -> Value {
        let counts = [
            (metrics::OFFERED_UPS, self.offered),
            (metrics::SENT_UPS, self.sent),
            (metrics::ACKNOWLEDGED_UPS, self.acknowledged),
            (metrics::ACCEPTED_UPS, self.accepted),
            (metrics::UNSENT, self.unsent),
            (metrics::LOST, self.lost),
            (series::IN_FLIGHT, self.in_flight),
        ];
        let counts = counts.map(|(figure, count)| (figure, count as f64));
        series::values(counts.into_iter().chain(times(&self.latency, &self.pacing, self.stall)))
    }
}
