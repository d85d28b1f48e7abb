//! When a worker sends which query, and which it gives up: the rule against bursts.
//!
//! Query `n` is due at an absolute instant; worker `w` of `W` sends those with `n mod W = w`. Where the distances are
//! even, a worker sends at most `burst` queries plus twice its share of the rate in any stretch of time: after a stall
//! it first sends a burst of at most that size, then catches up at no more than double speed. Where they are not
//! (drawn, or recorded), the bursts of the schedule itself are sent as they are, and the rule holds for what is late by
//! more than 200 us. A query overdue by more than [`LATE_LIMIT`] is not sent any more but counted as unsent. So
//! sent + unsent = offered, always.

use crate::clock::SECOND;
use crate::pace::Times;
use crate::{Arrivals, Nanos};

/// How long after its intended time a query may still be sent.
pub const LATE_LIMIT: Nanos = 10_000_000;

/// How late a query of an uneven schedule may be and still be sent like one in time: less than a stall, more than a
/// turn.
const ON_TIME: Nanos = 200_000;

/// How much faster than planned a worker may catch up.
const CATCH_UP: f64 = 2.0;

/// A worker's next step with the next query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Say when the next query was recorded ([`Schedule::recorded`]), or that there is none ([`Schedule::end`]).
    Tell,
    /// Send it.
    Send,
    /// Give it up: it is overdue.
    Skip,
    /// Wait until this instant.
    Wait(Nanos),
    /// The schedule has ended.
    End,
}

/// A query that is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Due {
    /// When, monotonic.
    pub intended: Nanos,
    /// Part of the warm-up.
    pub quiet: bool,
}

/// Whence the instants come.
#[derive(Clone, Debug)]
enum Instants {
    /// From arrivals, `group` queries at each.
    Arrivals(Box<Stream>),
    /// From the queries, so many times as fast as recorded.
    Recorded { speed: f64 },
}

/// Arrivals, one after the other.
#[derive(Clone, Debug)]
struct Stream {
    arrivals: Arrivals,
    times: Times,
    group: u32,
    /// The number of the query that was looked at last, and when it is due.
    n: u64,
    at: Nanos,
}

/// How long a schedule is, in nanoseconds and queries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Before it counts.
    pub warmup: Nanos,
    /// The end, from the start on: the warm-up included.
    pub until: Nanos,
    /// Queries after the warm-up, of all workers.
    pub most: u64,
}

/// The share of one worker in an open-loop schedule.
#[derive(Clone, Debug)]
pub struct Schedule {
    instants: Instants,
    start: Nanos,
    span: Span,
    share: (u64, u64),
    burst: f64,
    /// Queries that may be sent now, by the rule against bursts.
    credit: f64,
    /// When the credit was last brought up to date.
    at: Nanos,
    /// When the next query is due, from the start on; none where a recorded one must be given first.
    next: Option<Nanos>,
    /// Queries after the warm-up before the next one, of all workers (of this one where they are recorded).
    counted: u64,
    /// When the last one that was taken was due, from the start on.
    last: Nanos,
    ended: bool,
}

impl Schedule {
    /// The share of worker `share.0` of `share.1` in arrivals of `group` queries at a time.
    pub fn arrivals(
        arrivals: &Arrivals,
        group: u32,
        start: Nanos,
        span: Span,
        share: (u32, u32),
        burst: u32,
    ) -> Self {
        let times = arrivals.times();
        let instants = Instants::Arrivals(Box::new(Stream {
            arrivals: arrivals.clone(),
            times,
            group: group.max(1),
            n: 0,
            at: 0,
        }));
        let mut schedule = Self::new(instants, start, span, share, burst);
        schedule.go_on(true);
        schedule
    }

    /// Queries that bring their instants with them; each worker's source gives its share only.
    pub fn recording(speed: f64, start: Nanos, span: Span, burst: u32) -> Self {
        Self::new(Instants::Recorded { speed }, start, span, (0, 1), burst)
    }

    fn new(instants: Instants, start: Nanos, span: Span, share: (u32, u32), burst: u32) -> Self {
        let share = (share.0.into(), share.1.into());
        let burst = burst.into();
        Self {
            instants,
            start,
            span,
            share,
            burst,
            credit: burst,
            at: start,
            next: None,
            counted: 0,
            last: 0,
            ended: false,
        }
    }

    /// Goes to the next query of this worker's share.
    fn go_on(&mut self, first: bool) {
        let Instants::Arrivals(stream) = &mut self.instants else {
            self.counted += u64::from(self.next.is_some_and(|t| t >= self.span.warmup));
            self.next = None;
            return;
        };
        let Stream { times, group, n, at, .. } = &mut **stream;
        let mut step = !first;
        loop {
            if step {
                self.counted += u64::from(*at >= self.span.warmup);
                *n += 1;
            }
            step = true;
            // A group is due when an evenly spaced stream would be due for its first.
            let place = *n % u64::from(*group);
            let time = times.next().expect("times have no end");
            if place == 0 {
                *at = time;
            }
            if *n % self.share.1 == self.share.0 {
                break;
            }
        }
        self.next = Some(*at);
    }

    /// The next query was recorded so long after the first.
    pub fn recorded(&mut self, at: Nanos) {
        if let Instants::Recorded { speed } = self.instants {
            self.next = Some((at as f64 / speed) as Nanos);
        }
    }

    fn refill(&self, now: Nanos) -> f64 {
        let rate = match &self.instants {
            Instants::Arrivals(stream) => stream.arrivals.rate_at(now.saturating_sub(self.start)),
            // Late queries go out one by one, a hundred a millisecond at most.
            Instants::Recorded { .. } => 50_000.0,
        };
        CATCH_UP * rate / self.share.1 as f64 / SECOND as f64
    }

    fn is_even(&self) -> bool {
        matches!(&self.instants, Instants::Arrivals(stream) if stream.arrivals.is_even())
    }

    /// The next step at `now`. After `Send` and `Skip` comes [`Self::take`].
    pub fn step(&mut self, now: Nanos) -> Step {
        if self.ended {
            return Step::End;
        }
        let Some(next) = self.next else { return Step::Tell };
        if next >= self.span.until || self.counted >= self.span.most {
            self.ended = true;
            return Step::End;
        }
        let due = self.start + next;
        if due > now {
            return Step::Wait(due);
        }
        if due + LATE_LIMIT < now {
            return Step::Skip;
        }
        if !self.is_even() && now <= due + ON_TIME {
            return Step::Send;
        }
        let refill = self.refill(now);
        self.credit = (self.credit + now.saturating_sub(self.at) as f64 * refill).min(self.burst);
        self.at = self.at.max(now);
        if self.credit < 1.0 {
            return Step::Wait(now + ((1.0 - self.credit) / refill).ceil() as Nanos);
        }
        Step::Send
    }

    /// Takes the next query: it is `sent`, or given up.
    ///
    /// # Panics
    /// Where [`Self::step`] said neither to send nor to skip.
    pub fn take(&mut self, sent: bool) -> Due {
        let next = self.next.expect("a step said what to do with it");
        self.last = next;
        if sent {
            self.credit = (self.credit - 1.0).max(0.0);
        }
        self.go_on(false);
        Due { intended: self.start + next, quiet: next < self.span.warmup }
    }

    /// Whether the queries bring their times with them.
    pub fn is_recorded(&self) -> bool {
        matches!(self.instants, Instants::Recorded { .. })
    }

    /// Ends the schedule before its next query.
    pub fn end(&mut self) {
        self.ended = true;
    }

    /// How long after the warm-up the schedule ends, as far as is known: at its end by time, or when the next query
    /// would have been due; where no next one is recorded, with the last.
    pub fn length(&self) -> Nanos {
        self.next.unwrap_or(self.last).min(self.span.until).saturating_sub(self.span.warmup)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MS: Nanos = 1_000_000;

    fn span(most: u64) -> Span {
        Span { warmup: 0, until: 3600 * SECOND, most }
    }

    fn schedule(rate: f64, total: u64, burst: u32) -> Schedule {
        Schedule::arrivals(&Arrivals::Fixed { rate }, 1, 0, span(total), (0, 1), burst)
    }

    /// Goes through the schedule with the clock at the instants that `clock` gives: (time, sent in that turn) and
    /// unsent.
    fn drive(s: &mut Schedule, mut clock: impl FnMut(Nanos) -> Nanos) -> (Vec<(Nanos, u32)>, u64) {
        let (mut sent, mut unsent, mut now) = (Vec::new(), 0, 0);
        loop {
            let mut burst = 0;
            let wait = loop {
                match s.step(now) {
                    Step::Send => {
                        assert!(s.take(true).intended <= now);
                        burst += 1;
                    }
                    Step::Skip => {
                        s.take(false);
                        unsent += 1;
                    }
                    Step::Wait(until) => {
                        assert!(until > now);
                        break Some(until);
                    }
                    Step::End => break None,
                    Step::Tell => unreachable!("nothing is recorded here"),
                }
            };
            if burst > 0 {
                sent.push((now, burst));
            }
            match wait {
                Some(until) => now = clock(until),
                None => return (sent, unsent),
            }
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
            let mut s = Schedule::arrivals(&arrivals, 1, 0, span(total), (worker, workers), burst);
            let mut gaps = gaps.into_iter().cycle().enumerate();
            let (sent, unsent) = drive(&mut s, |t| match gaps.next() {
                Some((i, gap)) if i % 7 == 0 => t + gap,
                _ => t,
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

    #[test]
    fn groups_are_due_together_and_the_rate_stays() {
        let mut s = Schedule::arrivals(&Arrivals::Fixed { rate: 1000.0 }, 4, 0, span(12), (0, 1), 8);
        let (sent, unsent) = drive(&mut s, |t| t);
        assert_eq!((sent, unsent), (vec![(0, 4), (4 * MS, 4), (8 * MS, 4)], 0));
        assert_eq!(s.length(), 12 * MS);
    }

    #[test]
    fn a_warm_up_is_quiet_and_not_counted() {
        let span = Span { warmup: 5 * MS, until: SECOND, most: 10 };
        let mut all = Vec::new();
        for worker in 0..3 {
            let mut s = Schedule::arrivals(&Arrivals::Fixed { rate: 1000.0 }, 1, 100, span, (worker, 3), 1);
            while let Step::Send | Step::Skip = s.step(SECOND) {
                all.push(s.take(true));
            }
        }
        all.sort_by_key(|d| d.intended);
        assert_eq!(all.len(), 15);
        assert_eq!(all.iter().filter(|d| d.quiet).count(), 5);
        assert_eq!(all.last().unwrap().intended, 100 + 14 * MS);
    }

    #[test]
    fn recorded_bursts_stay_but_what_is_late_goes_slowly() {
        let mut s = Schedule::recording(2.0, 0, span(u64::MAX), 4);
        assert_eq!(s.step(0), Step::Tell);
        // Twenty at one instant, recorded at 2 ms and played at twice the speed.
        for _ in 0..20 {
            s.recorded(2 * MS);
            assert_eq!(s.step(0), Step::Wait(MS));
            assert_eq!(s.step(MS + 1000), Step::Send);
            assert_eq!(s.take(true), Due { intended: MS, quiet: false });
        }
        // A stall of 5 ms: the burst, then a wait.
        let mut sent = 0;
        loop {
            s.recorded(4 * MS);
            match s.step(7 * MS) {
                Step::Send => sent += 1,
                Step::Wait(until) => break assert!(until > 7 * MS),
                other => panic!("{other:?}"),
            }
            s.take(true);
        }
        assert_eq!(sent, 4);
        s.recorded(4 * MS);
        assert_eq!(s.step(20 * MS), Step::Skip);
        s.take(false);
        s.end();
        assert_eq!((s.step(20 * MS), s.length()), (Step::End, 2 * MS));
    }
}
