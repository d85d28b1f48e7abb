//! A turn of a worker: what every one begins with, what it receives, and how it rests until the next.

use super::{Stall, Work};
use crate::recorder::{Class, Verdict};
use crate::{Error, Transport};
use measure::Nanos;
use measure::clock::{self, SECOND, Wall};
use net::transport::Incoming;

/// For how long a worker sleeps without looking for answers: what arrives meanwhile fits into the receive buffers, and
/// to be woken by each answer would cost more than the answer itself.
const BLIND: Nanos = 1_000_000;

/// Datagrams looked at in one turn, so that a flood of answers cannot keep us from sending.
pub(super) const RECEIVE_MAX: usize = 256;

/// The time that receiving a datagram takes at most, or looking for one. A deadline that is nearer is waited for first.
const RECEIVE_COST: Nanos = 2_500;
const LOOK_COST: Nanos = 10_000;

/// Where deadlines are never further apart, answers are looked for as often as this all the same.
const LOOK_EVERY: Nanos = 50_000;

/// No sleep is longer, so that Ctrl-C and the seconds are noticed.
pub(super) const LONGEST_SLEEP: Nanos = 20_000_000;

/// How long a worker listens for duplicates after the last answer, and for answers when it is told to stop.
const LINGER: Nanos = 50_000_000;
const LAST_CHANCE: Nanos = 200_000_000;

/// Flows whose drop counters are read once a second; with more of them only at the end.
const WATCHED_FLOWS: u32 = 256;

impl Work<'_> {
    /// Begins a turn: notices stalls, looks after the clock and the seconds. The time of its begin.
    pub(super) fn begin(&mut self) -> Nanos {
        let now = clock::now();
        let stood = now.saturating_sub(self.expected);
        if stood > self.second.stall {
            self.second.stall = stood;
            if stood > self.stall.length {
                self.stall = Stall { at: self.expected, length: stood };
            }
        }
        self.expected = now;
        self.tick(now);
        now
    }

    fn tick(&mut self, now: Nanos) {
        if now >= self.wall_at + SECOND {
            self.watch_clock(now);
        }
        if now < self.base {
            return;
        }
        let lanes = std::iter::once(&mut self.w.main).chain(&mut self.w.tcp);
        lanes.for_each(|lane| lane.recorder.start_measuring());
        // The wait for the last answers is no part of the load.
        let seconds = self.ended.map_or(u64::MAX, |length| length.div_ceil(SECOND));
        while self.next_second < seconds && now >= self.base + (self.next_second + 1) * SECOND {
            self.end_second(now);
        }
    }

    /// Notices where the wall clock was set since the last look.
    pub(super) fn watch_clock(&mut self, now: Nanos) {
        let wall = Wall::read();
        let step = self.wall.drift(wall);
        if step.abs() > self.clock_step.abs() {
            self.clock_step = step;
        }
        (self.wall, self.wall_at) = (wall, now);
    }

    /// Hands over what happened in the second that ends.
    pub(super) fn end_second(&mut self, now: Nanos) {
        let mut second = std::mem::take(&mut self.second);
        let mut drops = 0;
        for lane in std::iter::once(&mut self.w.main).chain(&mut self.w.tcp) {
            lane.recorder.expire(now);
            second.merge(&lane.recorder.take_second());
            second.in_flight += lane.recorder.in_flight();
            second.open += lane.transport.open_connections();
            lane.transport.handshakes(&mut |t| self.handshakes.record(t));
            if lane.transport.flows() <= WATCHED_FLOWS {
                drops += lane.transport.troubles().socket_drops;
            }
        }
        second.drops = drops.saturating_sub(self.drops);
        self.drops = drops;
        self.w.seconds.lock().expect("no one panics with it").push((self.next_second, second));
        self.next_second += 1;
    }

    pub(super) fn receive(&mut self, most: usize) -> Result<(), Error> {
        let broken = self.broken();
        let (retries, sampler, wall) = (&mut self.retries, &mut self.sampler, self.wall);
        let mut check = |m: &Incoming<'_>, target, at| {
            if let Some(sampler) = sampler {
                sampler.offer(target, m.bytes, m.len, at);
            }
        };
        self.w
            .main
            .receive(most, wall, &mut |m, target, at, verdict| {
                if verdict == Verdict::Answered {
                    retries.offer(m.bytes, at);
                    check(m, target, at);
                }
            })
            .map_err(&broken)?;
        if let Some(tcp) = &mut self.w.tcp {
            tcp.receive(most, wall, &mut |m, target, at, verdict| {
                if verdict == Verdict::Answered {
                    check(m, target, at);
                }
            })
            .map_err(&broken)?;
            let quiet = self.expected < self.base;
            self.offered[Class::Retry as usize] += retries.send(tcp, quiet).map_err(&broken)?;
        }
        Ok(())
    }

    /// Receives until `until` comes near, and sleeps where that is far.
    pub(super) fn rest(&mut self, until: Nanos) -> Result<(), Error> {
        let mut now = clock::now();
        let time = until.saturating_sub(now);
        if time > LOOK_COST || now > self.looked + LOOK_EVERY {
            self.receive((time / RECEIVE_COST).clamp(8, RECEIVE_MAX as u64) as usize)?;
            now = clock::now();
            self.looked = now;
        }
        let wake = until.saturating_sub(self.w.spec.spin);
        if wake <= now {
            std::hint::spin_loop();
        } else if wake > now + BLIND || self.w.spec.transport != Transport::Udp {
            self.sleep(now, wake)?;
        } else {
            self.expected = wake;
            clock::sleep_until(wake);
        }
        Ok(())
    }

    /// Sleeps until `until` or a datagram.
    pub(super) fn sleep(&mut self, now: Nanos, until: Nanos) -> Result<(), Error> {
        let mut until = until.min(now + LONGEST_SLEEP);
        if self.w.tcp.is_some() {
            // Only one of the two transports can be waited for.
            until = until.min(now + BLIND);
        }
        self.expected = until;
        self.w.main.transport.wait(until.saturating_sub(now)).map_err(self.broken())
    }

    fn in_flight(&self) -> u64 {
        let tcp = self.w.tcp.as_ref().map_or(0, |lane| lane.recorder.in_flight());
        self.w.main.recorder.in_flight() + tcp + self.retries.waiting()
    }

    /// How long after the last query answers are waited for, in nanoseconds: the deadline. A window or a flood is not judged by
    /// late answers, so there it is twice the longest time that any answer took, where that is less.
    fn patience(&self) -> Nanos {
        let deadline = self.w.spec.deadline;
        if self.w.spec.is_paced() {
            return deadline;
        }
        let lanes = std::iter::once(&self.w.main).chain(&self.w.tcp);
        let longest = lanes.map(|lane| lane.recorder.latency_max()).max().unwrap_or(deadline);
        (2 * longest).max(SECOND / 2).min(deadline)
    }

    /// Receives until every query is answered or past its deadline.
    pub(super) fn drain(&mut self) -> Result<(), Error> {
        let last = |work: &Self| {
            work.w.main.last.max(work.w.tcp.as_ref().map_or(0, |lane| lane.last)).max(work.base)
        };
        let mut chance = Nanos::MAX;
        if self.cut_short {
            chance = clock::now() + LAST_CHANCE;
        }
        let mut quiet_since = None;
        loop {
            let now = self.begin();
            self.receive(RECEIVE_MAX)?;
            // A retry may go out late.
            let end = (last(self) + self.patience() + LINGER).min(chance);
            if self.in_flight() == 0 {
                let since = *quiet_since.get_or_insert(now);
                if now >= since + LINGER {
                    return Ok(());
                }
            }
            if now >= end {
                return Ok(());
            }
            if chance == Nanos::MAX && self.stopped() {
                chance = now + LAST_CHANCE;
            }
            self.sleep(now, end)?;
        }
    }
}
