//! One worker: a thread on a core of its own that sends its share of the schedule and receives the answers.
//!
//! A turn sends what is due, and receives as much as there is time for before the next deadline. When nothing is due for longer than [`LoadSpec::spin`], the
//! worker sleeps until that long before the next deadline; in the last stretch it polls, as a sleeping thread wakes tens
//! of microseconds late. Answers may wait meanwhile: the kernel has stamped them.

use crate::check::Sampler;
use crate::health::Scheduling;
use crate::lane::Lane;
use crate::recorder::{Class, Tally, Unsent, Verdict};
use crate::retry::Retries;
use crate::schedule::{Due, Schedule, Span, Step};
use crate::second::Second;
use crate::{Error, LoadSpec, Transport};
use measure::clock::{self, SECOND, Wall};
use measure::{Histogram, Nanos, Pace};
use net::transport::{Connections, Incoming, Troubles};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use traffic::{Query, QuerySource};

/// For how long a worker sleeps without looking for answers: what arrives meanwhile fits into the receive buffers, and to be
/// woken by each answer would cost more than the answer itself.
const BLIND: Nanos = 1_000_000;

/// Datagrams looked at in one turn, so that a flood of answers cannot keep us from sending.
const RECEIVE_MAX: usize = 256;

/// What it takes at most to receive a datagram; and to look for one. A deadline that is nearer is waited for first.
const RECEIVE_COST: Nanos = 2_500;
const LOOK_COST: Nanos = 10_000;

/// Where deadlines are never further apart, answers are looked for as often as this all the same.
const LOOK_EVERY: Nanos = 50_000;

/// No sleep is longer, so that Ctrl-C and the seconds are noticed.
const LONGEST_SLEEP: Nanos = 20_000_000;

/// How long a worker listens for duplicates after the last answer, and for answers when it is told to stop.
const LINGER: Nanos = 50_000_000;
const LAST_CHANCE: Nanos = 200_000_000;

/// Flows whose drop counters are read once a second; with more of them only at the end.
const WATCHED_FLOWS: u32 = 256;

/// Where the loop stood still for the longest time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Stall {
    /// When it began, monotonic.
    pub at: Nanos,
    pub length: Nanos,
}

/// What one worker did.
pub(crate) struct Report {
    /// By [`Class`].
    pub tallies: [Tally; Class::COUNT],
    /// By [`Class`]; retries are offered by the answers.
    pub offered: [u64; Class::COUNT],
    pub scheduling: Scheduling,
    pub stall: Stall,
    /// The greatest step of the wall clock between two readings, in nanoseconds.
    pub clock_step: i64,
    pub troubles: Troubles,
    pub connections: Option<Connections>,
    pub handshakes: Histogram,
    /// How often an unpaced load had to wait for an id.
    pub id_waits: u64,
    /// Queries with another checksum than they should have had.
    pub checksums: u64,
    pub cut_short: bool,
    /// How long the measured part of the schedule was; without a pace until the last query was sent.
    pub length: Nanos,
    pub backend: &'static str,
    pub receive_buffer: usize,
    pub table_bytes: usize,
    pub samples: Option<Sampler>,
}

/// All that a worker works with.
pub(crate) struct Worker<'a> {
    pub number: u32,
    pub workers: u32,
    pub spec: &'a LoadSpec,
    pub burst: u32,
    pub span: Span,
    pub main: Lane,
    /// Over TCP beside UDP.
    pub tcp: Option<Lane>,
    pub source: Box<dyn QuerySource + Send>,
    pub stop: &'a AtomicBool,
    pub abort: &'a AtomicBool,
    pub seconds: &'a Mutex<Vec<(u64, Second)>>,
}

/// A worker at work.
struct Work<'a> {
    w: Worker<'a>,
    /// The next query, made ready while there is time.
    query: Query,
    hash: u64,
    ready: bool,
    retries: Retries,
    sampler: Option<Sampler>,
    handshakes: Histogram,
    /// When the measured part begins.
    base: Nanos,
    next_second: u64,
    /// What of the second that runs is not the recorder's.
    second: Second,
    drops: u64,
    wall: Wall,
    wall_at: Nanos,
    clock_step: i64,
    /// When the next turn is expected at the earliest.
    expected: Nanos,
    /// When answers were last looked for.
    looked: Nanos,
    stall: Stall,
    offered: [u64; Class::COUNT],
    id_waits: u64,
    cut_short: bool,
}

/// Pins the calling thread and makes its timers exact.
pub(crate) fn settle(cpu: Option<usize>) -> Result<(), Error> {
    if let Some(cpu) = cpu {
        let refuse = |error: rustix::io::Errno| Error::Pin { cpu, error: error.into() };
        if cpu >= rustix::thread::CpuSet::MAX_CPU {
            return Err(refuse(rustix::io::Errno::INVAL));
        }
        let mut set = rustix::thread::CpuSet::new();
        set.set(cpu);
        rustix::thread::sched_setaffinity(None, &set).map_err(refuse)?;
    }
    // The kernel may otherwise delay a wake-up by 50 us to join it with others.
    let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
    Ok(())
}

impl Worker<'_> {
    /// Sends the whole share from the instant `start` on.
    pub(crate) fn run(self, start: Nanos) -> Result<Report, Error> {
        let base = start + self.spec.warmup;
        let mut work = Work {
            query: Query::default(),
            hash: 0,
            ready: false,
            retries: Retries::new(self.spec, self.number),
            sampler: self.spec.check.as_ref().map(|check| check.sampler(self.number)),
            handshakes: Histogram::default(),
            base,
            next_second: 0,
            second: Second::default(),
            drops: 0,
            wall: Wall::read(),
            wall_at: start,
            clock_step: 0,
            expected: start,
            looked: start,
            stall: Stall::default(),
            offered: [0; Class::COUNT],
            id_waits: 0,
            cut_short: false,
            w: self,
        };
        work.prepare()?;
        while clock::now() < start.saturating_sub(crate::SPIN) && !work.stopped() {
            clock::sleep_until((start - crate::SPIN).min(clock::now() + LONGEST_SLEEP));
        }
        let before = Scheduling::read();
        let (share, span, burst) = ((work.w.number, work.w.workers), work.w.span, work.w.burst);
        let length = match work.w.spec.pace.clone() {
            Pace::Open(arrivals) => {
                let group = work.w.spec.group;
                work.open(Schedule::arrivals(&arrivals, group, start, span, share, burst))?
            }
            Pace::Recorded { speed } => work.open(Schedule::recording(speed, start, span, burst))?,
            Pace::Closed { window } => work.unpaced(part(window.into(), share) as u32)?,
            Pace::Flood => work.unpaced(u32::MAX)?,
        };
        let scheduling = Scheduling::read().since(before);
        work.drain()?;
        Ok(work.report(scheduling, length))
    }
}

/// The part of worker `share.0` of `share.1`.
pub(crate) fn part(count: u64, share: (u32, u32)) -> u64 {
    let (worker, workers) = (u64::from(share.0), u64::from(share.1));
    count / workers + u64::from(worker < count % workers)
}

impl Work<'_> {
    fn broken(&self) -> impl Fn(std::io::Error) -> Error + use<> {
        let worker = self.w.number;
        move |error| Error::Transport { worker, error }
    }

    fn stopped(&self) -> bool {
        self.w.stop.load(Ordering::Relaxed) || self.w.abort.load(Ordering::Relaxed)
    }

    /// Begins a turn: notices stalls, looks after the clock and the seconds. The time of its begin.
    fn begin(&mut self) -> Nanos {
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
            let wall = Wall::read();
            let step = self.wall.drift(wall);
            if step.abs() > self.clock_step.abs() {
                self.clock_step = step;
            }
            (self.wall, self.wall_at) = (wall, now);
        }
        if now < self.base {
            return;
        }
        let lanes = std::iter::once(&mut self.w.main).chain(&mut self.w.tcp);
        lanes.for_each(|lane| lane.recorder.start_measuring());
        while now >= self.base + (self.next_second + 1) * SECOND {
            self.end_second(now);
        }
    }

    /// Hands over what happened in the second that ends.
    fn end_second(&mut self, now: Nanos) {
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

    fn receive(&mut self, most: usize) -> Result<(), Error> {
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

    /// Sleeps until `until` or a datagram.
    fn sleep(&mut self, now: Nanos, until: Nanos) -> Result<(), Error> {
        let mut until = until.min(now + LONGEST_SLEEP);
        if self.w.tcp.is_some() {
            // Only one of the two transports can be waited for.
            until = until.min(now + BLIND);
        }
        self.expected = until;
        self.w.main.transport.wait(until.saturating_sub(now)).map_err(self.broken())
    }

    /// Makes the next query ready; false where there are no more.
    fn prepare(&mut self) -> Result<bool, Error> {
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

    /// Open loop: what the schedule says, when it says it. How long the schedule was.
    fn open(&mut self, mut schedule: Schedule) -> Result<Nanos, Error> {
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

    /// Receives until `until` comes near, and sleeps where that is far.
    fn rest(&mut self, until: Nanos) -> Result<(), Error> {
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

    /// Closed window or flood: as much as fits into `window`, until the time or the count is over. How long it took.
    fn unpaced(&mut self, window: u32) -> Result<Nanos, Error> {
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

    fn in_flight(&self) -> u64 {
        let tcp = self.w.tcp.as_ref().map_or(0, |lane| lane.recorder.in_flight());
        self.w.main.recorder.in_flight() + tcp + self.retries.waiting()
    }

    /// Receives until every query is answered or past its deadline.
    fn drain(&mut self) -> Result<(), Error> {
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
            let end = (last(self) + self.w.spec.deadline + LINGER).min(chance);
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

    fn report(mut self, scheduling: Scheduling, length: Nanos) -> Report {
        let now = clock::now();
        // The last, incomplete second; its answers may have come after the last query.
        self.end_second(now);
        let mut report = Report {
            tallies: Default::default(),
            offered: self.offered,
            scheduling,
            stall: self.stall,
            clock_step: self.clock_step,
            troubles: Troubles::default(),
            connections: None,
            handshakes: self.handshakes,
            id_waits: self.id_waits,
            checksums: 0,
            cut_short: self.cut_short,
            length,
            backend: self.w.main.transport.backend(),
            receive_buffer: self.w.main.transport.receive_buffer(),
            table_bytes: 0,
            samples: self.sampler,
        };
        for mut lane in std::iter::once(self.w.main).chain(self.w.tcp) {
            report.checksums += lane.checksums;
            report.table_bytes += lane.recorder.table_bytes();
            report.troubles.merge(&lane.transport.troubles());
            if let Some(connections) = lane.transport.connections() {
                report.connections.get_or_insert_default().merge(&connections);
            }
            for (sum, tally) in report.tallies.iter_mut().zip(lane.recorder.finish(now)) {
                sum.merge(&tally);
            }
        }
        report
    }
}

fn class(query: &Query) -> Class {
    if query.background { Class::Background } else { Class::Measured }
}
