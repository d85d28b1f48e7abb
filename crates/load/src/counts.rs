//! Counts of the queries of a load, or of a part of it, by their outcome.

use crate::Tally;
use measure::Nanos;
use measure::clock::SECOND;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// DNS payload in octets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bytes {
    /// Of all queries sent.
    pub sent: u64,
    /// Of all that arrived.
    pub received: u64,
    /// Of the referrals among the answers.
    #[serde(default)]
    pub referrals: u64,
}

/// Queries by outcome. `sent + unsent = offered` and `sent = answered + lost + in_flight` hold exactly.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Counts {
    /// Offered queries per second of the measured part.
    pub offered_qps: f64,
    /// Sent queries per second of the measured part.
    pub sent_qps: f64,
    /// Answered queries per second of the measured part.
    pub answered_qps: f64,
    /// Queries that were due in the measured part.
    pub offered: u64,
    /// Handed to the kernel.
    pub sent: u64,
    /// Those of them without a UDP checksum.
    #[serde(default)]
    pub no_checksum: u64,
    /// Those of them with a wrong UDP checksum: the server's host drops them.
    #[serde(default)]
    pub bad_checksum: u64,
    /// Due but not sent: overdue, without a free id, or refused by the kernel.
    pub unsent: u64,
    /// Answered within the deadline.
    pub answered: u64,
    /// Not answered within the deadline, late ones included.
    pub lost: u64,
    /// Answered after the deadline.
    pub late: u64,
    /// Still waiting when the run was cut short.
    pub in_flight: u64,
    /// Answers with TC.
    pub truncated: u64,
    /// Answers that are referrals: NOERROR without AA, no answer, and records in the authority section.
    #[serde(default)]
    pub referrals: u64,
    /// Answers by response code.
    pub rcodes: BTreeMap<String, u64>,
    /// Payload.
    pub bytes: Bytes,
}

impl Counts {
    /// The counts of a tally, over `length`.
    pub(crate) fn new(tally: &Tally, offered: u64, length: Nanos) -> Self {
        let rcodes = tally.rcodes.iter().enumerate().filter(|(_, n)| **n > 0);
        let mut counts = Self {
            offered,
            sent: tally.sent,
            no_checksum: tally.no_checksum,
            bad_checksum: tally.bad_checksum,
            unsent: tally.unsent(),
            answered: tally.answered,
            lost: tally.lost,
            late: tally.late,
            in_flight: tally.in_flight,
            truncated: tally.truncated,
            referrals: tally.referrals,
            rcodes: rcodes.map(|(code, n)| (wire::rcode::to_text(code as u8).into(), *n)).collect(),
            bytes: Bytes {
                sent: tally.bytes_sent,
                received: tally.bytes_received,
                referrals: tally.bytes_of_referrals,
            },
            ..Self::default()
        };
        counts.set_rates(length as f64 / SECOND as f64);
        counts
    }

    /// Adds others, but for the rates: [`Self::set_rates`] when all are added.
    pub(crate) fn merge(&mut self, other: Self) {
        // Every field by name: a new one must find its place here.
        let Self {
            offered_qps: _,
            sent_qps: _,
            answered_qps: _,
            offered,
            sent,
            no_checksum,
            bad_checksum,
            unsent,
            answered,
            lost,
            late,
            in_flight,
            truncated,
            referrals,
            rcodes,
            bytes,
        } = other;
        for (to, from) in [
            (&mut self.offered, offered),
            (&mut self.sent, sent),
            (&mut self.no_checksum, no_checksum),
            (&mut self.bad_checksum, bad_checksum),
            (&mut self.unsent, unsent),
            (&mut self.answered, answered),
            (&mut self.lost, lost),
            (&mut self.late, late),
            (&mut self.in_flight, in_flight),
            (&mut self.truncated, truncated),
            (&mut self.referrals, referrals),
            (&mut self.bytes.sent, bytes.sent),
            (&mut self.bytes.received, bytes.received),
            (&mut self.bytes.referrals, bytes.referrals),
        ] {
            *to += from;
        }
        add(&mut self.rcodes, rcodes);
    }

    /// Makes the rates those of the counts over so many seconds.
    pub(crate) fn set_rates(&mut self, seconds: f64) {
        let rate = |count: u64| if seconds > 0.0 { count as f64 / seconds } else { 0.0 };
        (self.offered_qps, self.sent_qps, self.answered_qps) =
            (rate(self.offered), rate(self.sent), rate(self.answered));
    }
}

/// Adds counts by name.
pub(crate) fn add(to: &mut BTreeMap<String, u64>, from: BTreeMap<String, u64>) {
    from.into_iter().for_each(|(name, n)| *to.entry(name).or_default() += n);
}
