//! The result of a run of updates: the object that `update send --json` prints, a role sends back, and an experiment keeps.

use super::markers::Marker;
use super::stream::Contents;
use super::tally::{Passed, Tally};
use crate::tsig::code_name;
use measure::clock::SECOND;
use measure::metrics;
use measure::{Histogram, Latency, Metric, Named, Nanos, Outcome, PacingError, Validity};
use net::transport::Connections;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// DNS payload in octets, signatures among it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bytes {
    /// Of all messages sent, markers and retries among them.
    pub sent: u64,
    /// Of all that arrived.
    pub received: u64,
}

/// The distributions behind the percentiles, nanoseconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Histograms {
    /// From the intended time to the answer.
    pub latency: Histogram,
    /// From the first send to the answer.
    pub service_latency: Histogram,
    /// From the intended time to the send.
    pub pacing_error: Histogram,
}

/// The result of a run. Counts are messages, markers not among them, but where it says otherwise. `sent + unsent = offered` and
/// `sent = acknowledged + lost + in_flight` hold exactly.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SendResult {
    /// Offered messages per second.
    pub offered_ups: f64,
    /// Sent messages per second.
    pub sent_ups: f64,
    /// Messages answered in time per second, whatever the code.
    pub acknowledged_ups: f64,
    /// Messages answered in time with NOERROR per second.
    pub accepted_ups: f64,
    /// Transactions answered in time with NOERROR per second: what a server did, however they were merged.
    pub accepted_transactions_per_s: f64,
    /// Messages that were due.
    pub offered: u64,
    /// Handed to the kernel; each counts once, however often it was sent again.
    pub sent: u64,
    /// Due, but not sent: overdue, without a free id, or refused by the kernel. What was not sent for the first two reasons is
    /// sent when the next message is due: nothing is missing from the stream.
    pub unsent: u64,
    /// Answered within the deadline, whatever the code.
    pub acknowledged: u64,
    /// Answered within the deadline with NOERROR.
    pub accepted: u64,
    /// Not answered within the deadline, the late ones included. They may have been applied.
    pub lost: u64,
    /// Answered after the deadline.
    pub late: u64,
    /// Still waiting when the run was cut short.
    pub in_flight: u64,
    /// Answers by response code, TSIG's (BADSIG, BADKEY, BADTIME) among them.
    pub rcodes: BTreeMap<String, u64>,
    /// Datagrams with a message's id that are not its answer.
    pub mismatched: u64,
    /// Further answers to answered messages.
    pub duplicates: u64,
    /// Datagrams that belong to no message.
    pub unexpected: u64,
    /// Answers whose signature is missing or wrong. Those without an error code are taken for no answer (RFC 8945, section 5.3).
    pub bad_tsig: u64,
    /// The same by what is wrong: `missing`, `other_key`, `wrong_signature`, `wrong_time`, `damaged`, and the server's own word,
    /// `BADSIG`, `BADKEY`, `BADTIME`.
    pub tsig_faults: BTreeMap<String, u64>,
    /// Sends beyond the first.
    pub retried: u64,
    /// Messages that were sent more than once: the server may have applied them as often. Their content is such that this
    /// changes nothing (see the module's documentation).
    pub applied_twice_possible: u64,
    /// Messages that were not sent again although they were not answered, because a newer one of the same name was under way.
    pub superseded: u64,
    /// Transactions of the file.
    pub transactions: Passed,
    /// Records of update sections.
    pub records: Passed,
    /// The contents of the file.
    pub file: Contents,
    /// From the intended time to the answer; answered messages only.
    pub latency_us: Latency,
    /// From the first send to the answer; answered messages only.
    pub service_latency_us: Latency,
    /// How late messages were sent.
    pub pacing_error_us: PacingError,
    /// Payload.
    pub bytes: Bytes,
    /// ICMP errors that came back.
    pub icmp: u64,
    /// Datagrams dropped or refused on our own side, by place: `socket`, `send_no_buffers`, `send_again`, `send_other`.
    pub drops: BTreeMap<String, u64>,
    /// TCP connections, where there were any.
    pub tcp: Option<Connections>,
    /// The name that markers change.
    pub marker_name: Option<String>,
    /// The markers.
    pub markers: Vec<Marker>,
    /// Whether all this may be believed.
    pub validity: Validity,
    /// How long messages were offered, in seconds: by the schedule where the loop is open, otherwise until the last was sent.
    pub duration_s: f64,
    /// The deadline in seconds.
    pub deadline_s: f64,
    /// Sockets, or TCP connections.
    pub clients: u32,
    /// The most messages sent at once.
    pub burst: u32,
    /// `udp` or `tcp`.
    pub transport: String,
    /// How packets went: `socket`, `socket+gso`, `tcp`.
    pub backend: String,
    /// Messages were signed, and all answers' signatures checked.
    pub signed: bool,
    /// The receive buffer of each client as granted, in bytes of the kernel's accounting.
    pub recv_buffer: u64,
    /// Memory of the tables of messages in flight, in bytes.
    pub table_bytes: u64,
    /// The run was stopped before its end.
    pub cut_short: bool,
    /// The distributions.
    pub histograms: Histograms,
}

impl SendResult {
    /// The counts and distributions of a tally, over `length`.
    pub(super) fn new(tally: Tally, length: Nanos) -> Self {
        let seconds = length as f64 / SECOND as f64;
        let rate = |count: u64| if seconds > 0.0 { count as f64 / seconds } else { 0.0 };
        let codes = tally.codes.iter().enumerate().filter(|(_, n)| **n > 0);
        Self {
            offered_ups: rate(tally.offered),
            sent_ups: rate(tally.sent),
            acknowledged_ups: rate(tally.acknowledged),
            accepted_ups: rate(tally.accepted),
            accepted_transactions_per_s: rate(tally.transactions.accepted),
            offered: tally.offered,
            sent: tally.sent,
            unsent: tally.unsent(),
            acknowledged: tally.acknowledged,
            accepted: tally.accepted,
            lost: tally.lost,
            late: tally.late,
            in_flight: tally.in_flight,
            rcodes: codes.map(|(code, n)| (code_name(code as u16), *n)).collect(),
            mismatched: tally.mismatched,
            duplicates: tally.duplicates,
            unexpected: tally.unexpected,
            bad_tsig: tally.bad_tsig,
            retried: tally.retried,
            applied_twice_possible: tally.applied_twice_possible,
            superseded: tally.superseded,
            transactions: tally.transactions,
            records: tally.records,
            latency_us: Latency::of(&tally.latency),
            service_latency_us: Latency::of(&tally.service_latency),
            pacing_error_us: PacingError::of(&tally.pacing_error),
            bytes: Bytes { sent: tally.bytes_sent, received: tally.bytes_received },
            duration_s: seconds,
            histograms: Histograms {
                latency: tally.latency,
                service_latency: tally.service_latency,
                pacing_error: tally.pacing_error,
            },
            ..Self::default()
        }
    }

    /// The share (0 to 1) of the sent messages that was lost.
    pub fn loss_ratio(&self) -> f64 {
        if self.sent == 0 { 0.0 } else { self.lost as f64 / self.sent as f64 }
    }

    /// The trial's outcome: metrics by their names everywhere, distributions, validity.
    pub fn outcome(&self) -> Outcome {
        let mut metrics: Vec<Metric> = [
            (metrics::OFFERED_UPS, self.offered_ups),
            (metrics::SENT_UPS, self.sent_ups),
            (metrics::ACKNOWLEDGED_UPS, self.acknowledged_ups),
            (metrics::ACCEPTED_UPS, self.accepted_ups),
            (metrics::ACCEPTED_TRANSACTIONS_PER_S, self.accepted_transactions_per_s),
            (metrics::OFFERED, self.offered as f64),
            (metrics::SENT, self.sent as f64),
            (metrics::UNSENT, self.unsent as f64),
            (metrics::ACKNOWLEDGED, self.acknowledged as f64),
            (metrics::ACCEPTED, self.accepted as f64),
            (metrics::LOST, self.lost as f64),
            (metrics::LATE, self.late as f64),
            (metrics::BAD_TSIG, self.bad_tsig as f64),
            (metrics::RETRIED, self.retried as f64),
            (metrics::APPLIED_TWICE_POSSIBLE, self.applied_twice_possible as f64),
            (metrics::TRANSACTIONS_ACCEPTED, self.transactions.accepted as f64),
            (metrics::RECORDS_ACCEPTED, self.records.accepted as f64),
            (metrics::LOSS_RATIO, self.loss_ratio()),
            (metrics::BYTES_SENT, self.bytes.sent as f64),
            (metrics::BYTES_RECEIVED, self.bytes.received as f64),
            (metrics::PACING_ERROR_P99, self.pacing_error_us.p99),
        ]
        .map(|(metric, value)| metric.of(value))
        .into();
        metrics.extend(metrics::LATENCY.of(&self.latency_us));
        metrics.extend(metrics::SERVICE_LATENCY.of(&self.service_latency_us));
        metrics.extend(self.rcodes.iter().map(|(code, n)| metrics::RCODE.of(code, *n as f64)));
        let histograms = vec![
            Named::new("latency", self.histograms.latency.clone()),
            Named::new("service_latency", self.histograms.service_latency.clone()),
            Named::new("pacing_error", self.histograms.pacing_error.clone()),
        ];
        Outcome { metrics, histograms, validity: self.validity.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_goes_there_and_back() {
        let mut tally =
            Tally { offered: 9, sent: 8, acknowledged: 6, accepted: 5, lost: 2, ..Tally::default() };
        (tally.codes[0], tally.codes[17], tally.unsent_overdue) = (5, 1, 1);
        tally.transactions.accepted = 50;
        (1..=6).for_each(|n| tally.latency.record(n * 1000));
        let mut result = SendResult::new(tally, 2 * SECOND);
        result.markers.push(Marker { number: 3, ..Marker::default() });
        let text = serde_json::to_string(&result).unwrap();
        assert_eq!(serde_json::from_str::<SendResult>(&text).unwrap(), result);
        assert_eq!((result.rcodes["BADKEY"], result.rcodes["NOERROR"]), (1, 5));
        assert_eq!((result.offered_ups, result.accepted_transactions_per_s), (4.5, 25.0));
        let outcome = result.outcome();
        let mut names: Vec<_> = outcome.metrics.iter().map(|m| m.name.as_str()).collect();
        names.sort_unstable();
        let count = names.len();
        names.dedup();
        assert_eq!(names.len(), count, "each figure once");
        assert_eq!(outcome.metric(metrics::LOSS_RATIO), Some(0.25));
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        for name in [
            "offered",
            "sent",
            "unsent",
            "acknowledged",
            "rcodes",
            "lost",
            "late",
            "mismatched",
            "bad_tsig",
            "latency_us",
            "service_latency_us",
            "pacing_error_us",
            "bytes",
            "validity",
            "markers",
        ] {
            assert!(value.get(name).is_some(), "{name} is part of the contract");
        }
    }
}
