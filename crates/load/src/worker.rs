//! One worker: a thread on a core of its own that sends its share of the schedule and receives the answers.
//!
//! A turn receives what is there and sends what is due. When nothing is due for longer than [`SPIN`], the worker
//! sleeps until that long before the next deadline (or until an answer comes); in the last stretch it polls, as a
//! sleeping thread wakes tens of microseconds late. Answers may wait meanwhile: the kernel has stamped them.

use crate::health::Scheduling;
use crate::recorder::{Received, Recorder, Tally, Unsent};
use crate::schedule::{Due, Schedule, Turn};
use crate::second::Second;
use crate::{Error, LoadSpec};
use measure::clock::{self, SECOND, Wall};
use measure::{Nanos, Pace};
use net::transport::{Stamp, Transport, Troubles};
use std::net::SocketAddr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use traffic::{Query, QuerySource};

/// How long before a deadline a worker stops sleeping: longer than a virtual machine's cores usually take to wake, and
/// than the gaps at RZAIA's 5,000 queries/s, so that such a trial never sleeps while it sends.
pub const SPIN: Nanos = 250_000;

/// No sleep is longer, so that Ctrl-C and the seconds are noticed.
const LONGEST_SLEEP: Nanos = 20_000_000;

/// How long a worker listens for duplicates after the last answer, and for answers when it is told to stop.
const LINGER: Nanos = 50_000_000;
const LAST_CHANCE: Nanos = 200_000_000;

/// Datagrams looked at in one turn, so that a flood of answers cannot keep us from sending.
const RECEIVE_MAX: usize = 256;

/// Where the loop stood still for the longest time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Stall {
    /// When it began, monotonic.
    pub at: Nanos,
    pub length: Nanos,
}

/// What one worker did.
pub(crate) struct Report {
    pub tally: Tally,
    pub offered: u64,
    pub scheduling: Scheduling,
    pub stall: Stall,
    /// The greatest step of the wall clock between two readings, in nanoseconds.
    pub clock_step: i64,
    pub troubles: Troubles,
    /// How often an unpaced load had to wait for an id.
    pub id_waits: u64,
    pub cut_short: bool,
    /// When the last query was sent.
    pub last: Nanos,
    pub receive_buffer: usize,
    pub table_bytes: usize,
}

/// All that a worker works with.
pub(crate) struct Worker<'a, T> {
    pub number: u32,
    pub workers: u32,
    pub spec: &'a LoadSpec,
    pub burst: u32,
    pub transport: T,
    pub recorder: Recorder,
    pub source: Box<dyn QuerySource + Send>,
    pub stop: &'a AtomicBool,
    pub abort: &'a AtomicBool,
    pub seconds: &'a Mutex<Vec<(u64, Second)>>,
}

/// A worker at work.
struct Work<'a, T> {
    w: Worker<'a, T>,
    targets: Vec<SocketAddr>,
    flow: u32,
    /// The next query, made ready while there is time.
    query: Query,
    hash: u64,
    ready: bool,
    pending: Vec<(u16, usize)>,
    /// When the measured part begins.
    base: Nanos,
    next_second: u64,
    wall: Wall,
    wall_at: Nanos,
    clock_step: i64,
    /// When the next turn is expected at the earliest.
    expected: Nanos,
    stall: Stall,
    offered: u64,
    id_waits: u64,
    last: Nanos,
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

impl<'a, T: Transport> Worker<'a, T> {
    /// Sends the whole share, `total` queries of which those before `first_counted` are the warm-up where the loop is
    /// open, from the instant `start` on.
    pub(crate) fn run(self, start: Nanos, total: u64, first_counted: u64) -> Result<Report, Error> {
        let targets = (0..self.transport.flows()).map(|f| self.transport.target(f)).collect();
        let base = start + self.spec.warmup;
        let mut work = Work {
            targets,
            flow: 0,
            query: Query::default(),
            hash: 0,
            ready: false,
            pending: Vec::with_capacity(self.burst as usize),
            base,
            next_second: 0,
            wall: Wall::read(),
            wall_at: start,
            clock_step: 0,
            expected: start,
            stall: Stall::default(),
            offered: 0,
            id_waits: 0,
            last: base,
            cut_short: false,
            w: self,
        };
        work.prepare()?;
        while clock::now() < start.saturating_sub(SPIN) && !work.stopped() {
            let sleep = start.saturating_sub(clock::now() + SPIN).min(LONGEST_SLEEP);
            std::thread::sleep(std::time::Duration::from_nanos(sleep));
        }
        let before = Scheduling::read();
        match work.w.spec.pace.clone() {
            Pace::Open(arrivals) => {
                let share = (work.w.number, work.w.workers);
                work.open(Schedule::new(arrivals, start, total, first_counted, share, work.w.burst))?;
            }
            Pace::Closed { window } => {
                let (number, workers) = (work.w.number, work.w.workers);
                let share = window / workers + u32::from(number < window % workers);
                work.unpaced(share)?;
            }
            Pace::Flood => work.unpaced(u32::MAX)?,
        }
        let scheduling = Scheduling::read().since(before);
        work.drain()?;
        Ok(work.report(scheduling))
    }
}

impl<T: Transport> Work<'_, T> {
    fn broken(&self) -> impl Fn(std::io::Error) -> Error + use<T> {
        let worker = self.w.number;
        move |error| Error::Transport { worker, error }
    }

    fn stopped(&self) -> bool {
        self.w.stop.load(Ordering::Relaxed) || self.w.abort.load(Ordering::Relaxed)
    }

    /// Begins a turn: notices stalls, looks after the clock and the seconds, receives.
    fn begin(&mut self) -> Result<(), Error> {
        let now = clock::now();
        let stood = now.saturating_sub(self.expected);
        if stood > self.stall.length {
            self.stall = Stall { at: self.expected, length: stood };
        }
        self.expected = now;
        self.tick(now);
        self.receive()
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
        self.w.recorder.start_measuring();
        while now >= self.base + (self.next_second + 1) * SECOND {
            self.w.recorder.expire(now);
            let second = self.w.recorder.take_second();
            self.w.seconds.lock().expect("no one panics with it").push((self.next_second, second));
            self.next_second += 1;
        }
    }

    fn receive(&mut self) -> Result<(), Error> {
        let (recorder, targets, wall) = (&mut self.w.recorder, &self.targets, self.wall);
        self.w
            .transport
            .receive(RECEIVE_MAX, &mut |m| {
                let target = targets[m.flow as usize];
                recorder.received(Received {
                    flow: m.flow,
                    from_target: m.from.ip() == target.ip() && m.from.port() == target.port(),
                    bytes: m.bytes,
                    len: m.len,
                    at: match m.stamp {
                        Stamp::Wall(at) => wall.to_monotonic(at),
                        Stamp::Monotonic(at) => at,
                    },
                });
            })
            .map(drop)
            .map_err(self.broken())
    }

    /// Sleeps until `until` or a datagram.
    fn sleep(&mut self, now: Nanos, until: Nanos) -> Result<(), Error> {
        let until = until.min(now + LONGEST_SLEEP);
        self.expected = until;
        self.w.transport.wait(until.saturating_sub(now)).map_err(self.broken())
    }

    /// Makes the next query ready; false where there are no more.
    fn prepare(&mut self) -> Result<bool, Error> {
        if !self.ready && self.w.source.next(&mut self.query)? {
            self.hash = wire::question::hash(&self.query.bytes).unwrap_or(0);
            self.ready = true;
        }
        Ok(self.ready)
    }

    /// Takes an id on this flow, or on the next that has one; what was lent for another flow is sent first.
    fn claim(&mut self, due: Due) -> Result<Option<u16>, Error> {
        for _ in 0..self.targets.len() {
            if let Some(id) = self.w.recorder.claim(self.flow, due.intended, self.hash, due.quiet) {
                return Ok(Some(id));
            }
            self.flush()?;
        }
        Ok(None)
    }

    /// Sends what was lent, and goes on to the next flow.
    fn flush(&mut self) -> Result<(), Error> {
        let (recorder, pending, flow) = (&mut self.w.recorder, &self.pending, self.flow);
        if !pending.is_empty() {
            let last = &mut self.last;
            let done = &mut |i: usize, at: Option<Nanos>| {
                let (id, len) = pending[i];
                match at {
                    Some(at) => {
                        *last = at;
                        recorder.sent(flow, id, at, len);
                    }
                    None => recorder.refused(flow, id),
                }
            };
            let flushed = self.w.transport.flush(done);
            flushed.map_err(self.broken())?;
            self.pending.clear();
        }
        self.flow = (flow + 1) % self.targets.len() as u32;
        Ok(())
    }

    /// Puts the query that is ready into the batch.
    fn put(&mut self, id: u16) -> Result<(), Error> {
        if self.pending.len() == net::udp::BATCH {
            // The id is of this flow; come back to it for the rest.
            let flow = self.flow;
            self.flush()?;
            self.flow = flow;
        }
        let frame = self.w.transport.lend(self.flow).expect("the batch is flushed when it is full");
        frame.bytes.extend_from_slice(&self.query.bytes);
        wire::header::set_id(&mut frame.bytes, id);
        frame.df = self.query.df;
        self.pending.push((id, self.query.bytes.len()));
        self.ready = false;
        Ok(())
    }

    /// Open loop: what the schedule says, when it says it.
    fn open(&mut self, mut schedule: Schedule) -> Result<(), Error> {
        loop {
            self.begin()?;
            if self.stopped() {
                self.cut_short = true;
                return Ok(());
            }
            let now = clock::now();
            let (recorder, offered) = (&mut self.w.recorder, &mut self.offered);
            let turn = schedule.turn(now, &mut |quiet| {
                if !quiet {
                    *offered += 1;
                    recorder.unsent(Unsent::Overdue, 1);
                }
            });
            match turn {
                Turn::End => return Ok(()),
                Turn::Send(count) => {
                    for _ in 0..count {
                        if !self.prepare()? {
                            schedule.end();
                            break;
                        }
                        let due = schedule.take();
                        self.offered += u64::from(!due.quiet);
                        match self.claim(due)? {
                            Some(id) => self.put(id)?,
                            // The query is spent: the stream does not wait for ids.
                            None => {
                                self.ready = false;
                                self.w.recorder.unsent(Unsent::Ids, u64::from(!due.quiet));
                            }
                        }
                    }
                    self.flush()?;
                }
                Turn::Wait(until) => {
                    self.prepare()?;
                    let now = clock::now();
                    if until > now + SPIN {
                        self.sleep(now, until - SPIN)?;
                    } else {
                        std::hint::spin_loop();
                    }
                }
            }
        }
    }

    /// Closed window or flood: as much as fits into `window`, until the time or the count is over.
    fn unpaced(&mut self, window: u32) -> Result<(), Error> {
        let spec = self.w.spec;
        let end = self.base + spec.duration.unwrap_or(crate::spec::LONGEST - spec.warmup);
        let share = |count: u64| {
            let (number, workers) = (u64::from(self.w.number), u64::from(self.w.workers));
            count / workers + u64::from(number < count % workers)
        };
        let count = spec.count.map_or(u64::MAX, share);
        let mut next_expiry = 0;
        loop {
            self.begin()?;
            if self.stopped() {
                self.cut_short = true;
                return Ok(());
            }
            let now = clock::now();
            if now >= end || self.offered >= count {
                return Ok(());
            }
            let quiet = now < self.base;
            let room = u64::from(window).saturating_sub(self.w.recorder.in_flight());
            let mut want = room.min(self.w.burst.into());
            if !quiet {
                want = want.min(count - self.offered);
            }
            let mut blocked = want == 0;
            for _ in 0..want {
                if !self.prepare()? {
                    return self.flush();
                }
                let Some(id) = self.claim(Due { intended: now, quiet })? else {
                    self.id_waits += 1;
                    blocked = true;
                    break;
                };
                self.put(id)?;
                self.offered += u64::from(!quiet);
            }
            self.flush()?;
            if blocked {
                if now >= next_expiry {
                    self.w.recorder.expire(now);
                    next_expiry = now + SECOND / 1000;
                }
                self.prepare()?;
                self.sleep(now, now + SECOND / 1000)?;
            }
        }
    }

    /// Receives until every query is answered or past its deadline.
    fn drain(&mut self) -> Result<(), Error> {
        let mut end = self.last.max(self.base) + self.w.spec.deadline + LINGER;
        let mut told = self.cut_short;
        if told {
            end = end.min(clock::now() + LAST_CHANCE);
        }
        let mut quiet_since = None;
        loop {
            self.begin()?;
            let now = clock::now();
            if self.w.recorder.in_flight() == 0 {
                let since = *quiet_since.get_or_insert(now);
                if now >= since + LINGER {
                    return Ok(());
                }
            }
            if now >= end {
                return Ok(());
            }
            if !told && self.stopped() {
                (told, end) = (true, end.min(now + LAST_CHANCE));
            }
            self.sleep(now, end)?;
        }
    }

    fn report(mut self, scheduling: Scheduling) -> Report {
        // The last, incomplete second; its answers may have come after the last query.
        let second = self.w.recorder.take_second();
        self.w.seconds.lock().expect("no one panics with it").push((self.next_second, second));
        let table_bytes = self.w.recorder.table_bytes();
        Report {
            tally: self.w.recorder.finish(clock::now()),
            offered: self.offered,
            scheduling,
            stall: self.stall,
            clock_step: self.clock_step,
            troubles: self.w.transport.troubles(),
            id_waits: self.id_waits,
            cut_short: self.cut_short,
            last: self.last,
            receive_buffer: self.w.transport.receive_buffer(),
            table_bytes,
        }
    }
}
