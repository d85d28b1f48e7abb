//! A second count of the messages that a generator counts as sent: by the kernel of the host at which they arrive.

use crate::run_context::PORT;
use crate::{Error, Experiment};
use agent::{Agent, Arrivals};
use load::{Counts, LoadResult, Transport};
use measure::metrics::{self, Scope};
use measure::units::grouped;
use measure::{Outcome, Reason, Validity};
use update::send::SendResult;

/// Messages that the counts may differ by, and the same as a share of them: those at the ends of the time that is counted.
const AT_THE_ENDS: f64 = 5.0;
const SHARE_AT_THE_ENDS: f64 = 1e-4;

/// The counts of both sides.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SecondCount {
    /// Messages that were sent; one that was sent again counts again.
    pub sent: u64,
    /// Messages that were answered.
    pub answered: u64,
    /// Messages that arrived.
    pub arrived: u64,
    /// Messages that were sent before the count began, because it began late.
    pub missed: f64,
    /// No other part of the rack asks there.
    pub alone: bool,
}

impl SecondCount {
    /// Of a load; none where it is not of UDP alone, or nothing could be counted.
    pub fn of_load(
        result: &LoadResult,
        arrived: Option<agent::Arrived>,
        transport: Transport,
        alone: bool,
    ) -> Option<Self> {
        let arrived = arrived.filter(|_| transport != Transport::Tcp)?;
        let beside = result.background.as_ref().map(|part| part.counts.clone()).unwrap_or_default();
        Some(Self {
            sent: result.counts.sent + beside.sent,
            answered: result.counts.answered + beside.answered,
            arrived: arrived.queries,
            missed: (result.counts.sent_qps + beside.sent_qps) * arrived.late as f64 / 1e9,
            alone,
        })
    }

    /// Why the counts cannot be of the same messages; none where they can. `what`: `queries`, `updates`.
    pub fn fault(&self, what: &str) -> Option<Reason> {
        let margin = AT_THE_ENDS + SHARE_AT_THE_ENDS * self.sent as f64 + self.missed;
        let (sent, arrived) = (grouped(self.sent), grouped(self.arrived));
        if self.alone && self.arrived as f64 > self.sent as f64 + margin {
            let text = format!(
                "the generator sent {sent} {what}, and {arrived} arrived at the server: somebody else sends there, too"
            );
            return Some(Reason::new("others_ask", text));
        }
        ((self.arrived as f64) < self.answered as f64 - margin).then(|| {
            let answered = grouped(self.answered);
            let text = format!("the generator has {answered} answers to its {what}, and only {arrived} of these arrived at the server");
            Reason::new("counts_differ", text)
        })
    }

    /// Adds the count of queries, and rejects figures that it contradicts.
    pub fn note(&self, outcome: &mut Outcome) {
        outcome.metrics.push(metrics::ARRIVED.count(self.arrived));
        self.reject("queries", &mut outcome.validity);
    }

    /// Rejects figures that the count contradicts. `what`: `queries`, `updates`.
    pub fn reject(&self, what: &str, validity: &mut Validity) {
        self.fault(what).into_iter().for_each(|fault| validity.reject(fault));
    }
}

/// A count of the messages that arrive at a host while something is sent there; by default there is none.
#[derive(Default)]
pub struct Counting(Option<Arrivals>);

impl Counting {
    /// Begins to count queries, where the experiment asks for it.
    ///
    /// # Errors
    /// The agent may not capture packets there.
    pub fn queries(e: &Experiment, at: &Agent) -> Result<Self, Error> {
        Self::of(e, at, agent::QUERY)
    }

    /// The same of updates.
    ///
    /// # Errors
    /// As [`Self::queries`].
    pub fn updates(e: &Experiment, at: &Agent) -> Result<Self, Error> {
        Self::of(e, at, agent::UPDATE)
    }

    fn of(e: &Experiment, at: &Agent, opcode: u8) -> Result<Self, Error> {
        Ok(Self(e.second_count.then(|| Arrivals::count(at, PORT, opcode)).transpose()?))
    }

    /// Ends a count of queries, and adds it to the generator's own. `alone`: no other part of the rack asks there.
    ///
    /// # Errors
    /// The agent is gone.
    pub fn end_of_queries(self, counts: &Counts, alone: bool, outcome: &mut Outcome) -> Result<(), Error> {
        if let Some(count) = self.end(counts.sent, counts.answered, alone)? {
            count.note(outcome);
        }
        Ok(())
    }

    /// Ends a count of updates, and adds it to the sender's own.
    ///
    /// # Errors
    /// The agent is gone.
    pub fn end_of_updates(self, result: &SendResult, outcome: &mut Outcome) -> Result<(), Error> {
        if let Some(count) = self.end(result.sent + result.retried, result.acknowledged, true)? {
            outcome.metrics.push(metrics::ARRIVED.within(Scope::Updates).count(count.arrived));
            count.reject("updates", &mut outcome.validity);
        }
        Ok(())
    }

    fn end(self, sent: u64, answered: u64, alone: bool) -> Result<Option<SecondCount>, Error> {
        let Some(arrivals) = self.0 else { return Ok(None) };
        Ok(Some(SecondCount { sent, answered, arrived: arrivals.so_far()?, missed: 0.0, alone }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_that_cannot_be_of_the_same_messages_are_told() {
        let code = |sent, answered, arrived, alone| {
            let count = SecondCount { sent, answered, arrived, missed: 0.0, alone };
            count.fault("queries").map(|fault| fault.code)
        };
        assert_eq!(code(1000, 990, 1000, true), None);
        // Lost on the way.
        assert_eq!(code(1000, 400, 500, true), None);
        assert_eq!(code(1000, 1000, 1006, true).as_deref(), Some("others_ask"));
        assert_eq!(code(1000, 1000, 1006, false), None);
        assert_eq!(code(1000, 1000, 993, false).as_deref(), Some("counts_differ"));
        assert_eq!(code(1_000_000, 1_000_000, 999_900, true), None);
        let late = SecondCount { sent: 1000, answered: 1000, arrived: 960, missed: 50.0, alone: true };
        assert_eq!(late.fault("queries"), None);
    }
}
