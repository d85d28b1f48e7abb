//! One worker: a thread on a core of its own that sends its share of the queries and receives the answers.
//!
//! The loop is the crate [`engine`]'s. Here is what it sends, and what becomes of the answers.

use crate::check::Sampler;
use crate::lane::{Checksums, Lane};
use crate::recorder::{AnswerKind, Class, Tally, Unsent};
use crate::retry::Retries;
use crate::second::Second;
use crate::{Error, LoadSpec, Transport};
use engine::{BLIND, Clocks, Engine, Exchange, LINGER, LONGEST_SLEEP, NotSent, Settings, Stall};
use measure::clock::{self, SECOND};
use measure::schedule::{Due, Schedule, Span};
use measure::{Histogram, Nanos, Pace, Timeline};
use net::scheduling::Scheduling;
use net::transport::{Connections, Incoming, Troubles};
use std::net::SocketAddr;
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;
use traffic::{Query, QuerySource};

/// Flows whose drop counters are read once a second; with more of them only at the end.
const WATCHED_FLOWS: u32 = 256;

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
    /// For how long it polled before each deadline at the end, in nanoseconds.
    pub spin: Nanos,
    /// The greatest step of the wall clock between two readings, in nanoseconds.
    pub clock_step: i64,
    pub troubles: Troubles,
    pub connections: Option<Connections>,
    pub handshakes: Histogram,
    /// How often an unpaced load had to wait for an id.
    pub id_waits: u64,
    pub checksums: Checksums,
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

/// The queries of a worker.
struct Queries<'a> {
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
    /// The figures of the current second that the recorder does not have.
    second: Second,
    /// Seconds with this number or a higher one are not reported: the last one is incomplete, and its rates would be wrong.
    told: u64,
    drops: u64,
    offered: [u64; Class::COUNT],
}

impl Worker<'_> {
    /// Sends the whole share from the instant `start` on.
    pub(crate) fn run(self, start: Nanos) -> Result<Report, Error> {
        let (spec, span, burst) = (self.spec, self.span, self.burst);
        let (share, base) = ((self.number, self.workers), start + spec.warmup);
        let (spin, longest_spin) = spec.spins();
        let settings = Settings { start, base, end: start + span.until, burst, spin, longest_spin };
        let mut engine = Engine::new(settings, vec![self.stop, self.abort]);
        let mut queries = Queries {
            query: Query::default(),
            hash: 0,
            ready: false,
            retries: Retries::new(spec, self.number),
            sampler: spec.check.as_ref().map(|check| check.sampler(self.number)),
            handshakes: Histogram::default(),
            base,
            second: Second::default(),
            told: u64::MAX,
            drops: 0,
            offered: [0; Class::COUNT],
            w: self,
        };
        queries.lanes().for_each(|lane| lane.recorder.begins_at(base));
        queries.prepare()?;
        engine.wait_for_start();
        let (before, cpu) = (Scheduling::read(), clock::cpu());
        let count = if span.most == u64::MAX { u64::MAX } else { part(span.most, share) };
        let length = match spec.pace.clone() {
            Pace::Open(arrivals) => {
                let schedule = Schedule::arrivals(&arrivals, spec.group, start, span, share, burst);
                engine.open(&mut queries, schedule)?
            }
            Pace::Recorded { speed } => {
                engine.open(&mut queries, Schedule::recording(speed, start, span, burst))?
            }
            Pace::Closed { window } => engine.unpaced(&mut queries, part(window.into(), share), count)?,
            Pace::Flood => engine.unpaced(&mut queries, u64::MAX, count)?,
        };
        let used = (Scheduling::read().since(before).without(engine.waking), clock::cpu() - cpu);
        let transport_bytes = queries.lanes().map(|lane| lane.transport.memory()).sum();
        engine.end_seconds_after(length);
        engine.drain(&mut queries)?;
        let now = clock::now();
        engine.watch_clock(now);
        // The last second is not a whole one. It is reported only where there is no other.
        queries.told = engine.seconds_ended().max(1);
        engine.end_second(&mut queries, now);
        Ok(queries.report(&engine, used, length, transport_bytes))
    }
}

/// The part of worker `share.0` of `share.1`.
pub(crate) fn part(count: u64, share: (u32, u32)) -> u64 {
    let (worker, workers) = (u64::from(share.0), u64::from(share.1));
    count / workers + u64::from(worker < count % workers)
}

impl Queries<'_> {
    fn lanes(&mut self) -> impl Iterator<Item = &mut Lane> {
        std::iter::once(&mut self.w.main).chain(&mut self.w.tcp)
    }

    fn broken(&self) -> impl Fn(std::io::Error) -> Error + use<> {
        let worker = self.w.number;
        move |error| Error::Transport { worker, error }
    }

    fn class(&self) -> Class {
        if self.query.background { Class::Background } else { Class::Measured }
    }

    fn count_offered(&mut self, due: Due, class: Class) {
        self.offered[class as usize] += u64::from(!due.quiet);
        self.second.offered += u64::from(!due.quiet && class == Class::Measured);
    }

    /// How long answers are waited for after the last query, in nanoseconds. With a pace this is the deadline. Late answers do not
    /// decide about a window or a flood, so the wait is shorter there: twice the longest time that any answer took, but at least
    /// half a second, or a fifth of the load if that is less, and never more than the deadline.
    fn patience(&self) -> Nanos {
        let deadline = self.w.spec.deadline;
        if self.w.spec.is_paced() {
            return deadline;
        }
        let lanes = std::iter::once(&self.w.main).chain(&self.w.tcp);
        let longest = lanes.map(|lane| lane.recorder.latency_max()).max().unwrap_or(deadline);
        let least = self.w.spec.duration.map_or(SECOND / 2, |duration| (duration / 5).min(SECOND / 2));
        (2 * longest).max(least).min(deadline)
    }

    fn report(
        self,
        engine: &Engine<'_>,
        (scheduling, computed): (Scheduling, Nanos),
        length: Nanos,
        transport_bytes: usize,
    ) -> Report {
        // Without a pace nobody waits for the whole deadline ([`Queries::patience`]): what has no answer by now is lost.
        let paced = self.w.spec.is_paced();
        let until = if paced || engine.cut_short { clock::now() } else { Nanos::MAX };
        let mut report = Report {
            tallies: Default::default(),
            offered: self.offered,
            scheduling,
            computed,
            stall: engine.stall,
            spin: engine.spin(),
            clock_step: engine.clock_step,
            troubles: Troubles::default(),
            connections: None,
            handshakes: self.handshakes,
            id_waits: engine.id_waits,
            checksums: Checksums::default(),
            cut_short: engine.cut_short,
            length,
            backend: self.w.main.transport.backend(),
            receive_buffer: self.w.main.transport.receive_buffer(),
            table_bytes: 0,
            transport_bytes,
            samples: self.sampler,
            timeline: Timeline::default(),
        };
        for mut lane in std::iter::once(self.w.main).chain(self.w.tcp) {
            report.checksums += lane.checksums;
            report.table_bytes += lane.recorder.table_bytes();
            report.troubles.merge(&lane.transport.troubles());
            if let Some(connections) = lane.transport.connections() {
                *report.connections.get_or_insert_default() += connections;
            }
            let (tallies, timeline) = lane.recorder.finish(until);
            report.tallies.iter_mut().zip(tallies).for_each(|(sum, tally)| sum.merge(&tally));
            report.timeline.merge(timeline);
        }
        report
    }
}

impl Exchange for Queries<'_> {
    type Error = Error;
    const RECEIVE_COST: Nanos = 2_500;

    fn prepare(&mut self) -> Result<bool, Error> {
        if !self.ready && self.w.source.next(&mut self.query)? {
            self.hash = wire::question::hash(&self.query.bytes).unwrap_or(0);
            self.ready = true;
        }
        Ok(self.ready)
    }

    fn recorded_at(&self) -> Nanos {
        self.query.at.unwrap_or(0)
    }

    fn put(&mut self, due: Due) -> Result<bool, Error> {
        let (class, broken) = (self.class(), self.broken());
        let lane = match &mut self.w.tcp {
            Some(tcp) if self.query.tcp => tcp,
            _ => &mut self.w.main,
        };
        let put = lane.put(&self.query, self.hash, due, class).map_err(broken)?;
        if put {
            self.count_offered(due, class);
            self.ready = false;
        }
        Ok(put)
    }

    fn not_sent(&mut self, due: Due, why: NotSent) {
        let (why, class, spent) = match why {
            // A recorded query goes with its time; one of a stream without times is not used up.
            NotSent::Overdue { recorded: false } => (Unsent::Overdue, Class::Measured, false),
            NotSent::Overdue { recorded: true } => (Unsent::Overdue, self.class(), true),
            // The stream does not wait for ids.
            NotSent::NoId => (Unsent::Ids, self.class(), true),
        };
        self.ready &= !spent;
        self.count_offered(due, class);
        if !due.quiet {
            self.w.main.unsent(why, class);
        }
    }

    fn flush(&mut self) -> Result<(), Error> {
        let broken = self.broken();
        self.lanes().try_for_each(Lane::flush).map_err(broken)
    }

    fn receive(&mut self, most: usize, clocks: Clocks) -> Result<(), Error> {
        let broken = self.broken();
        let (retries, sampler, wall) = (&mut self.retries, &mut self.sampler, clocks.wall);
        let mut check = |m: &Incoming<'_>, target: SocketAddr, at| {
            if let Some(sampler) = sampler {
                sampler.offer(target, m.bytes, m.len, at);
            }
        };
        self.w
            .main
            .receive(most, wall, &mut |m, target, at, verdict| {
                if verdict == AnswerKind::Answered {
                    retries.offer(m.bytes, at);
                    check(m, target, at);
                }
            })
            .map_err(&broken)?;
        if let Some(tcp) = &mut self.w.tcp {
            tcp.receive(most, wall, &mut |m, target, at, verdict| {
                if verdict == AnswerKind::Answered {
                    check(m, target, at);
                }
            })
            .map_err(&broken)?;
            let quiet = clocks.now < self.base;
            self.offered[Class::Retry as usize] += retries.send(tcp, quiet).map_err(&broken)?;
        }
        Ok(())
    }

    fn wait(&mut self, time: Nanos) -> Result<(), Error> {
        self.w.main.transport.wait(time).map_err(self.broken())
    }

    fn in_flight(&self) -> u64 {
        let tcp = self.w.tcp.as_ref().map_or(0, |lane| lane.recorder.in_flight());
        self.w.main.recorder.in_flight() + tcp + self.retries.waiting()
    }

    fn in_window(&self) -> u64 {
        self.w.main.recorder.in_flight()
    }

    fn expire(&mut self, now: Nanos) {
        self.lanes().for_each(|lane| lane.recorder.expire(now));
    }

    fn offered(&self) -> u64 {
        self.offered[..=Class::Background as usize].iter().sum()
    }

    fn last_sent(&self) -> Nanos {
        self.w.main.last
    }

    fn begin_turn(&mut self, clocks: Clocks) -> Result<(), Error> {
        if clocks.now >= self.base {
            self.lanes().for_each(|lane| lane.recorder.start_measuring());
        }
        Ok(())
    }

    fn longest_sleep(&self) -> Nanos {
        // Only one of the two transports can be waited for.
        if self.w.tcp.is_some() { BLIND } else { LONGEST_SLEEP }
    }

    fn must_listen(&self) -> bool {
        self.w.spec.transport != Transport::Udp
    }

    fn answers_until(&self) -> Nanos {
        let last = self.w.main.last.max(self.w.tcp.as_ref().map_or(0, |lane| lane.last));
        // A retry may go out late.
        last.max(self.base) + self.patience() + LINGER
    }

    fn end_second(&mut self, number: u64, stall: Nanos, now: Nanos) {
        let mut second = std::mem::take(&mut self.second);
        second.stall = stall;
        let mut drops = 0;
        let handshakes = &mut self.handshakes;
        for lane in std::iter::once(&mut self.w.main).chain(&mut self.w.tcp) {
            lane.recorder.expire(now);
            second.merge(&lane.recorder.take_second());
            second.in_flight += lane.recorder.in_flight();
            second.open += lane.transport.open_connections();
            lane.transport.handshakes(&mut |t| handshakes.record(t));
            if lane.transport.flows() <= WATCHED_FLOWS {
                drops += lane.transport.troubles().socket_drops;
            }
        }
        second.drops = drops.saturating_sub(self.drops);
        self.drops = drops;
        if number < self.told {
            self.w.seconds.lock().expect("no one panics with it").push((number, second));
        }
    }
}
