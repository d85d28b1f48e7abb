//! Faults of our own side, in the same sentences for senders of queries and of updates.

use crate::limits::{
    CLOCK_LIMIT, PACING_COUNT, PREEMPTED_LIMIT, PREEMPTED_LIMIT_UNPACED, STALL_LIMIT, STEAL_LIMIT,
    UNSENT_LIMIT,
};
use crate::units::grouped;
use crate::{Histogram, Nanos, Reason};

/// The words for one kind of sender.
#[derive(Clone, Copy, Debug)]
pub struct SenderFaults {
    /// `generator`.
    pub name: &'static str,
    /// Its messages, in the plural: `queries`.
    pub sends: &'static str,
    /// The flag that gives it a core: `--cpus`.
    pub pin: &'static str,
}

/// Messages that were due and not sent.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unsent {
    /// Too late to be sent.
    pub overdue: u64,
    /// No id was free.
    pub ids: u64,
    /// The kernel refused it.
    pub refused: u64,
}

/// Microseconds, for sentences.
pub fn us(n: Nanos) -> String {
    format!("{:.0} us", n as f64 / 1e3)
}

/// Milliseconds, for sentences.
pub fn ms(n: Nanos) -> String {
    format!("{:.1} ms", n as f64 / 1e6)
}

/// A part of a whole, 0 to 1; none of nothing is 0.
pub fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

impl SenderFaults {
    /// More than [`UNSENT_LIMIT`] of what was offered was not sent.
    pub fn unsent(&self, unsent: Unsent, offered: u64) -> Option<Reason> {
        let Unsent { overdue, ids, refused } = unsent;
        let all = overdue + ids + refused;
        let part = share(all, offered);
        let text = || {
            format!(
                "{} of {} {} ({:.2} %, at most {} % is valid) were not sent when they were due: {} overdue by more than {}, {} without a \
                 free id, {} refused by the kernel; offer less, or give the {} cores of its own ({})",
                grouped(all),
                grouped(offered),
                self.sends,
                part * 100.0,
                UNSENT_LIMIT * 100.0,
                grouped(overdue),
                ms(crate::schedule::LATE_LIMIT),
                grouped(ids),
                grouped(refused),
                self.name,
                self.pin
            )
        };
        (part > UNSENT_LIMIT).then(|| Reason::new("unsent", text()))
    }

    /// At the 99th percentile it left later than `limit`.
    pub fn late(&self, errors: &Histogram, limit: Nanos) -> Option<Reason> {
        let p99 = errors.quantile(0.99);
        let late = errors.count() as f64 * (1.0 - errors.share_below(limit));
        let text = || {
            format!(
                "{} left late: 1 % by more than {} (at most {} is valid), the worst by {}; offer less, or give the {} a core of its own \
                 ({})",
                self.sends,
                us(p99),
                us(limit),
                us(errors.max()),
                self.name,
                self.pin
            )
        };
        (p99 > limit && late >= PACING_COUNT).then(|| Reason::new("pacing_error", text()))
    }

    /// Its loop stood still for longer than [`STALL_LIMIT`], so many seconds after its start.
    pub fn stalled(&self, length: Nanos, second: f64) -> Option<Reason> {
        let text = || {
            format!(
                "the {} stood still for {} at second {second:.1} (more than {} is not valid): it was stopped, or its core was; run it again",
                self.name,
                ms(length),
                ms(STALL_LIMIT)
            )
        };
        (length > STALL_LIMIT).then(|| Reason::new("generator_stalled", text()))
    }

    /// The share of the time that it may wait for its core.
    pub fn waiting_limit(paced: bool) -> f64 {
        if paced { PREEMPTED_LIMIT } else { PREEMPTED_LIMIT_UNPACED }
    }

    /// It waited for its core for this share of the time, and lost it so often.
    pub fn preempted(&self, waited: f64, paced: bool, times: u64) -> Option<Reason> {
        let limit = Self::waiting_limit(paced);
        let text = || {
            format!(
                "other work took the {0}'s core: the {0} waited for it for {1:.1} % of the time (at most {2} % is valid), and was \
                 interrupted {3} times; pin the {0} to a core that nothing else uses ({4})",
                self.name,
                waited * 100.0,
                limit * 100.0,
                grouped(times),
                self.pin
            )
        };
        (waited > limit).then(|| Reason::new("generator_preempted", text()))
    }

    /// A warning: the hypervisor took this share of its cores.
    pub fn stolen(&self, part: f64) -> Option<Reason> {
        let text = || {
            format!(
                "the hypervisor took {:.1} % of the {}'s cores for others: latencies contain that time",
                part * 100.0,
                self.name
            )
        };
        (part > STEAL_LIMIT).then(|| Reason::new("steal", text()))
    }

    /// The wall clock was set by so much within a second.
    pub fn clock_stepped(by: i64) -> Option<Reason> {
        let text = || {
            format!(
                "the wall clock was set by {} in a second, and the kernel's receive stamps with it: latencies around it are wrong; stop \
                 time synchronisation from stepping, and run it again",
                ms(by.unsigned_abs())
            )
        };
        (by.unsigned_abs() > CLOCK_LIMIT).then(|| Reason::new("clock_stepped", text()))
    }
}
