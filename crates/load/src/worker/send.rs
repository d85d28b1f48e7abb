//! Sends a worker's queries: by its schedule, or as many as a window takes.

use super::turn::RECEIVE_MAX;
use super::{Work, part};
use crate::Error;
use crate::recorder::{Class, Unsent};
use measure::Nanos;
use measure::clock::SECOND;
use measure::schedule::{Due, Schedule, Step};
use traffic::Query;

impl Work<'_> {
    /// Open loop: what the schedule says, when it says it. How long the schedule was.
    pub(super) fn open(&mut self, mut schedule: Schedule) -> Result<Nanos, Error> {
        loop {
            let now = self.begin();
            if self.stopped() {
                self.cut_short = true;
                return Ok(schedule.length());
            }
            let mut put = 0;
            let wait = loop {
                match schedule.step(now) {
                    Step::Tell => match self.prepare()? {
                        true => schedule.recorded(self.query.at.unwrap_or(0)),
                        false => schedule.end(),
                    },
                    Step::Skip => {
                        let due = schedule.take(false);
                        // A recorded query goes with its time; one of a stream without times is not used up.
                        let class = if schedule.is_recorded() { class(&self.query) } else { Class::Measured };
                        self.ready &= !schedule.is_recorded();
                        self.count_offered(due, class);
                        if !due.quiet {
                            self.w.main.unsent(Unsent::Overdue, class);
                        }
                    }
                    Step::Send => {
                        if !self.prepare()? {
                            schedule.end();
                            continue;
                        }
                        let due = schedule.take(true);
                        let class = class(&self.query);
                        self.count_offered(due, class);
                        // Where no id is free the query is spent: the stream does not wait for ids.
                        if !self.put(due)? && !due.quiet {
                            self.w.main.unsent(Unsent::Ids, class);
                        }
                        self.ready = false;
                        put += 1;
                        if put >= self.w.burst {
                            break None;
                        }
                    }
                    Step::Wait(until) => break Some(until),
                    Step::End => {
                        self.flush()?;
                        return Ok(schedule.length());
                    }
                }
            };
            if put > 0 {
                self.flush()?;
            }
            self.prepare()?;
            self.rest(wait.unwrap_or(now))?;
        }
    }

    /// Closed window or flood: as much as fits into `window`, until the time or the count is over. How long it took.
    pub(super) fn unpaced(&mut self, window: u32) -> Result<Nanos, Error> {
        let end = self.base - self.w.span.warmup + self.w.span.until;
        let count = match self.w.span.most {
            u64::MAX => u64::MAX,
            most => part(most, (self.w.number, self.w.workers)),
        };
        let mut next_expiry = 0;
        loop {
            let now = self.begin();
            self.receive(RECEIVE_MAX)?;
            if now < self.base - self.w.span.warmup {
                continue;
            }
            let length = now.max(self.base) - self.base;
            if self.stopped() {
                self.cut_short = true;
                return Ok(length);
            }
            let offered: u64 = self.offered[..=Class::Background as usize].iter().sum();
            if now >= end || offered >= count {
                return Ok(self.w.main.last.max(self.base) - self.base);
            }
            let quiet = now < self.base;
            let room = u64::from(window).saturating_sub(self.w.main.recorder.in_flight());
            let mut want = room.min(self.w.burst.into());
            if !quiet {
                want = want.min(count - offered);
            }
            let mut blocked = want == 0;
            for _ in 0..want {
                if !self.prepare()? {
                    self.flush()?;
                    return Ok(length);
                }
                let due = Due { intended: now, quiet };
                if !self.put(due)? {
                    self.id_waits += 1;
                    blocked = true;
                    break;
                }
                self.count_offered(due, class(&self.query));
                self.ready = false;
            }
            self.flush()?;
            if blocked {
                if now >= next_expiry {
                    self.w.main.recorder.expire(now);
                    next_expiry = now + SECOND / 1000;
                }
                self.prepare()?;
                self.sleep(now, now + SECOND / 1000)?;
            }
        }
    }

    /// Makes the next query ready; false where there are no more.
    pub(super) fn prepare(&mut self) -> Result<bool, Error> {
        if !self.ready && self.w.source.next(&mut self.query)? {
            self.hash = wire::question::hash(&self.query.bytes).unwrap_or(0);
            self.ready = true;
        }
        Ok(self.ready)
    }

    /// Counts the query that is ready as offered, and puts it on its lane; false where no id was free.
    fn put(&mut self, due: Due) -> Result<bool, Error> {
        let class = class(&self.query);
        let lane = match &mut self.w.tcp {
            Some(tcp) if self.query.tcp => tcp,
            _ => &mut self.w.main,
        };
        let put = lane.put(&self.query, self.hash, due, class);
        put.map_err(self.broken())
    }

    fn flush(&mut self) -> Result<(), Error> {
        let broken = self.broken();
        self.w.main.flush().map_err(&broken)?;
        match &mut self.w.tcp {
            Some(tcp) => tcp.flush().map_err(broken),
            None => Ok(()),
        }
    }

    fn count_offered(&mut self, due: Due, class: Class) {
        self.offered[class as usize] += u64::from(!due.quiet);
        self.second.offered += u64::from(!due.quiet && class == Class::Measured);
    }
}

fn class(query: &Query) -> Class {
    if query.background { Class::Background } else { Class::Measured }
}
