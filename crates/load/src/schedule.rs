//! When a worker sends which query, and which it gives up: the rule against bursts.
//!
//! Query `n` is due at an absolute instant; worker `w` of `W` sends those with `n mod W = w`. In any stretch of time a
//! worker sends at most `burst` queries plus twice its share of the rate: after a stall it first sends a burst of at
//! most that size, then catches up at no more than double speed. A query overdue by more than [`LATE_LIMIT`] is not
//! sent any more but counted as unsent. So sent + unsent = offered, always.

use measure::clock::SECOND;
use measure::{Arrivals, Nanos};

/// How long after its intended time a query may still be sent.
pub const LATE_LIMIT: Nanos = 10_000_000;

/// How much faster than planned a worker may catch up.
const CATCH_UP: f64 = 2.0;

/// What a worker is to do now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// Send this many queries, at least one.
    Send(u32),
    /// Nothing before this instant.
    Wait(Nanos),
    /// The schedule has ended.
    End,
}

/// The share of one worker in an open-loop schedule.
#[derive(Clone, Debug)]
pub(crate) struct Schedule {
    arrivals: Arrivals,
    start: Nanos,
    next: u64,
    step: u64,
    total: u64,
    first_counted: u64,
    burst: f64,
    /// Queries that may be sent now, by the rule against bursts.
    credit: f64,
    /// How much credit a nanosecond brings.
    refill: f64,
    /// When the credit was last brought up to date.
    at: Nanos,
    /// When the next query is due.
    due: Nanos,
}

/// A query that is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Due {
    pub intended: Nanos,
    /// Part of the warm-up.
    pub quiet: bool,
}

impl Schedule {
    /// The share of worker `worker` of `workers` in `total` queries, of which those before `first_counted` are the
    /// warm-up.
    pub(crate) fn new(
        arrivals: Arrivals,
        start: Nanos,
        total: u64,
        first_counted: u64,
        (worker, workers): (u32, u32),
        burst: u32,
    ) -> Self {
        let refill = CATCH_UP * arrivals.rate() / f64::from(workers) / SECOND as f64;
        let due = start + arrivals.deadline(u64::from(worker));
        Self {
            arrivals,
            start,
            next: worker.into(),
            step: workers.into(),
            total,
            first_counted,
            burst: burst.into(),
            credit: burst.into(),
            refill,
            at: start,
            due,
        }
    }

    fn pop(&mut self) -> Due {
        let due = Due { intended: self.due, quiet: self.next < self.first_counted };
        self.next += self.step;
        self.due = self.start + self.arrivals.deadline(self.next);
        due
    }

    /// What to do at `now`; `unsent` learns of each query that is given up (true: part of the warm-up).
    pub(crate) fn turn(&mut self, now: Nanos, unsent: &mut impl FnMut(bool)) -> Turn {
        while self.next < self.total && self.due + LATE_LIMIT < now {
            unsent(self.pop().quiet);
        }
        if self.next >= self.total {
            return Turn::End;
        }
        if self.due > now {
            return Turn::Wait(self.due);
        }
        self.credit = (self.credit + now.saturating_sub(self.at) as f64 * self.refill).min(self.burst);
        self.at = self.at.max(now);
        if self.credit < 1.0 {
            return Turn::Wait(now + ((1.0 - self.credit) / self.refill).ceil() as Nanos);
        }
        let mut count = 0;
        // Look ahead on a copy: the queries are taken one by one by `take`.
        let (mut n, mut due) = (self.next, self.due);
        while n < self.total && due <= now && f64::from(count + 1) <= self.credit {
            count += 1;
            n += self.step;
            due = self.start + self.arrivals.deadline(n);
        }
        Turn::Send(count)
    }

    /// Takes the next query, which [`Self::turn`] said to send.
    pub(crate) fn take(&mut self) -> Due {
        self.credit -= 1.0;
        self.pop()
    }

    /// Ends the schedule before its next query.
    pub(crate) fn end(&mut self) {
        self.total = self.next;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MS: Nanos = 1_000_000;

    fn schedule(rate: f64, total: u64, burst: u32) -> Schedule {
        Schedule::new(Arrivals::Fixed { rate }, 0, total, 0, (0, 1), burst)
    }

    /// Goes through the schedule with the clock at the instants that `clock` gives: (time, sent in that turn) and unsent.
    fn drive(s: &mut Schedule, mut clock: impl FnMut(Nanos) -> Nanos) -> (Vec<(Nanos, u32)>, u64) {
        let (mut sent, mut unsent, mut now) = (Vec::new(), 0, 0);
        loop {
            let mut skipped = 0;
            match s.turn(now, &mut |_| skipped += 1) {
                Turn::Send(n) => {
                    (0..n).for_each(|_| assert!(s.take().intended <= now));
                    sent.push((now, n));
                    now = clock(now);
                }
                Turn::Wait(until) => {
                    assert!(until > now);
                    now = clock(until);
                }
                Turn::End => return (sent, unsent + skipped),
            }
            unsent += skipped;
        }
    }

    #[test]
    fn on_time_every_query_goes_alone() {
        let (sent, unsent) = drive(&mut schedule(1000.0, 100, 4), |t| t);
        assert_eq!(unsent, 0);
        assert_eq!(sent, (0..100).map(|n| (n * MS, 1)).collect::<Vec<_>>());
    }

    #[test]
    fn after_a_stall_there_is_one_burst_and_then_double_speed() {
        let mut stalled = false;
        let (sent, unsent) = drive(&mut schedule(10_000.0, 10_000, 8), |t| {
            if t >= 100 * MS && !stalled {
                stalled = true;
                t + 200 * MS
            } else {
                t
            }
        });
        let total: u32 = sent.iter().map(|s| s.1).sum();
        assert_eq!(u64::from(total) + unsent, 10_000);
        assert!((1895..=1905).contains(&unsent), "{unsent}: 200 ms less the limit of 10 ms");
        assert_eq!(sent.iter().map(|s| s.1).max(), Some(8));
        assert_eq!(sent.iter().filter(|s| s.1 > 1).count(), 1, "one burst, then one by one");
    }

    proptest! {
        #[test]
        fn never_more_than_the_rule_allows(
            rate in 100u32..200_000, burst in 1u32..64, workers in 1u32..4, worker in 0u32..4,
            gaps in prop::collection::vec(0u64..30_000_000, 1..50),
        ) {
            let worker = worker % workers;
            let total = 3000;
            let arrivals = Arrivals::Fixed { rate: f64::from(rate) };
            let mut s = Schedule::new(arrivals, 0, total, 0, (worker, workers), burst);
            let mut gaps = gaps.into_iter().cycle().enumerate();
            let (sent, unsent) = drive(&mut s, |t| match gaps.next() {
                Some((i, gap)) if i % 7 == 0 => t + gap,
                _ => t + 500,
            });
            let count: u64 = sent.iter().map(|s| u64::from(s.1)).sum();
            let share = (total - u64::from(worker)).div_ceil(workers.into());
            prop_assert_eq!(count + unsent, share);
            let per_ns = 2.0 * f64::from(rate) / f64::from(workers) / 1e9;
            for (i, from) in sent.iter().enumerate().step_by(17) {
                let mut sum = 0;
                for to in &sent[i..] {
                    sum += to.1;
                    let allowed = f64::from(burst) + (to.0 - from.0) as f64 * per_ns;
                    prop_assert!(f64::from(sum) <= allowed + 1e-3, "{sum} sent, {allowed} allowed");
                }
            }
        }
    }
}
