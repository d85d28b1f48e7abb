//! Truncated answers asked again over TCP, with a given probability (RZAIA 6.4).
//!
//! The query is made from the truncated answer: its question, and an OPT record with the answer's DO bit where the
//! answer has one (a server repeats both: RFC 1035 section 4.1.1, RFC 3225 section 3).

use crate::LoadSpec;
use crate::lane::Lane;
use crate::recorder::{Class, Unsent};
use measure::schedule::Due;
use measure::seed::Draw;
use measure::{Nanos, Seed};
use std::collections::VecDeque;
use std::io;
use traffic::Query;
use wire::header::Header;
use wire::query::Edns;

/// The UDP size in an OPT record over TCP, where it means nothing to the answer: what most send.
const UDP_SIZE: u16 = 1232;

/// Retries that wait to be sent; one beyond is unsent. They go out in the turn in which they came.
const WAITING_MAX: usize = 4096;

/// The retries of one worker.
pub(crate) struct Retries {
    share: f64,
    draw: Draw,
    waiting: VecDeque<(Query, Nanos)>,
    /// Queries to fill again.
    spare: Vec<Query>,
    overflow: u64,
}

impl Retries {
    pub(crate) fn new(spec: &LoadSpec, worker: u32) -> Self {
        let share = if spec.transport.retries() { spec.retry.unwrap_or(1.0) } else { 0.0 };
        let draw = Seed(spec.seed.0).draw("load/retry", worker.into());
        Self { share, draw, waiting: VecDeque::new(), spare: Vec::new(), overflow: 0 }
    }

    /// How many wait to be sent.
    pub(crate) fn waiting(&self) -> u64 {
        self.waiting.len() as u64
    }

    /// Looks at an answer that arrived at `at`.
    pub(crate) fn offer(&mut self, answer: &[u8], at: Nanos) {
        if self.share == 0.0 || !Header::new(answer).is_some_and(|h| h.tc()) || !self.draw.share(self.share) {
            return;
        }
        if self.waiting.len() == WAITING_MAX {
            self.overflow += 1;
            return;
        }
        let Some(question) = wire::question::parse(answer) else { return };
        let edns = wire::opt::find(answer).map(|opt| Edns { udp_size: UDP_SIZE, do_bit: opt.do_bit() });
        let mut query = self.spare.pop().unwrap_or_default();
        wire::query::write(&mut query.bytes, 0, question.qname, question.qtype, edns);
        self.waiting.push_back((query, at));
    }

    /// Sends what waits; how many were offered.
    pub(crate) fn send(&mut self, lane: &mut Lane, quiet: bool) -> io::Result<u64> {
        let count = self.waiting.len() as u64 + std::mem::take(&mut self.overflow);
        if count == 0 {
            return Ok(0);
        }
        if !quiet {
            (self.waiting.len() as u64..count).for_each(|_| lane.unsent(Unsent::Overdue, Class::Retry));
        }
        while let Some((query, intended)) = self.waiting.pop_front() {
            let hash = wire::question::hash(&query.bytes).unwrap_or(0);
            if !lane.put(&query, hash, Due { intended, quiet }, Class::Retry)? && !quiet {
                lane.unsent(Unsent::Ids, Class::Retry);
            }
            self.spare.push(query);
        }
        lane.flush()?;
        Ok(if quiet { 0 } else { count })
    }
}
