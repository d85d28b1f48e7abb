//! One worker: a thread on a core of its own that sends its share of the schedule and receives the answers.
//!
//! A turn sends what is due ([`send`]), and receives as much as there is time for before the next deadline ([`turn`]).
//! When nothing is due for longer than [`LoadSpec::spin`], the worker sleeps until that long before the next deadline;
//! in the last stretch it polls, as a sleeping thread wakes tens of microseconds late. Answers may wait meanwhile: the
//! kernel has stamped them.

mod send;
mod turn;

use crate::check::Sampler;
use crate::lane::Lane;
use crate::recorder::{Class, Tally};
use crate::retry::Retries;
use crate::second::Second;
use crate::{Error, LoadSpec};
use measure::clock::{self, Wall};
use measure::schedule::{Schedule, Span};
use measure::{Histogram, Nanos, Pace, Timeline};
use net::own::Scheduling;
use net::transport::{Connections, Troubles};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use traffic::{Query, QuerySource};
use turn::LONGEST_SLEEP;

/// Where the loop stood still for the longest time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Stall {
    /// When it began, monotonic.
    pub at: Nanos,
    pub length: Nanos,
}

/// The report of one worker.
pub(crate) struct Report {
    /// By [`Class`].
    pub tallies: [Tally; Class::COUNT],
    /// By [`Class`]; retries are offered by the answers.
    pub offered: [u64; Class::COUNT],
    pub scheduling: Scheduling,
    /// Processor time of the thread while the schedule went on, in nanoseconds.
    pub computed: Nanos,
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
    pub transport_bytes: usize,
    pub samples: Option<Sampler>,
    /// Of the measured traffic.
    pub timeline: Timeline,
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
    /// The figures of the current second that the recorder does not have.
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
    /// Memory of the transports when the last query had been sent, in bytes.
    transport_bytes: usize,
    cut_short: bool,
    /// Where the schedule has ended: how long it was. Only answers are waited for then.
    ended: Option<Nanos>,
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
            transport_bytes: 0,
            cut_short: false,
            ended: None,
            w: self,
        };
        let lanes = std::iter::once(&mut work.w.main).chain(&mut work.w.tcp);
        lanes.for_each(|lane| lane.recorder.begins_at(base));
        work.prepare()?;
        while clock::now() < start.saturating_sub(crate::SPIN) && !work.stopped() {
            clock::sleep_until((start - crate::SPIN).min(clock::now() + LONGEST_SLEEP));
        }
        let (before, cpu) = (Scheduling::read(), clock::cpu());
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
        let (scheduling, computed) = (Scheduling::read().since(before), clock::cpu() - cpu);
        let lanes = std::iter::once(&work.w.main).chain(&work.w.tcp);
        work.transport_bytes = lanes.map(|lane| lane.transport.memory()).sum();
        work.ended = Some(length);
        work.drain()?;
        Ok(work.report((scheduling, computed), length))
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

    fn report(mut self, (scheduling, computed): (Scheduling, Nanos), length: Nanos) -> Report {
        let now = clock::now();
        self.watch_clock(now);
        // The last, incomplete second; its answers may have come after the last query.
        self.end_second(now);
        // Without a pace nobody waits for the whole deadline ([`Work::patience`]): what has no answer by now is lost.
        let until = if self.w.spec.is_paced() || self.cut_short { now } else { Nanos::MAX };
        let mut report = Report {
            tallies: Default::default(),
            offered: self.offered,
            scheduling,
            computed,
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
            transport_bytes: self.transport_bytes,
            samples: self.sampler,
            timeline: Timeline::default(),
        };
        for mut lane in std::iter::once(self.w.main).chain(self.w.tcp) {
            report.checksums += lane.checksums;
            report.table_bytes += lane.recorder.table_bytes();
            report.troubles.merge(&lane.transport.troubles());
            if let Some(connections) = lane.transport.connections() {
                report.connections.get_or_insert_default().merge(&connections);
            }
            let (tallies, timeline) = lane.recorder.finish(until);
            report.tallies.iter_mut().zip(tallies).for_each(|(sum, tally)| sum.merge(&tally));
            report.timeline.merge(timeline);
        }
        report
    }
}
