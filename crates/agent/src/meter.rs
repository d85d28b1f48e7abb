//! The server's machine while one load is measured, from its first measured query to its last.

use crate::Error;
use crate::agent::Number;
use crate::readings::{Readings, Sources};
use crate::request::{At, Request};
use measure::{Nanos, clock};
use rack::core_watch::Seen;
use rack::resource_counters::{self, Counters};
use rack::server_watch::{OtherPrograms, Snapshot};
use rack::{CoreWatch, HardwareCounters, hardware_counters};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// How often drops are counted while a load goes on, in nanoseconds.
const EVERY: Nanos = 100_000_000;

/// Longer loads are counted this often at most.
const MOST: u64 = 2000;

/// Losses of the last moments are counted this much later, in nanoseconds.
pub const LATER: Nanos = 20_000_000;

/// A load that is metered; dropped, that ends.
pub struct Meter(Number);

impl Meter {
    /// Begins to meter a load whose first query is due at `base` (our wall clock), for `length`.
    ///
    /// # Errors
    /// Where the agent is gone.
    pub fn start(readings: &Readings, base: Nanos, length: Nanos) -> Result<Self, Error> {
        let Number { agent, number } = readings.number();
        let base = agent.clock()?.there(base);
        Ok(Self(Number::new(agent, agent.ask(StartMeter { sources: *number, base, length })?)))
    }

    /// Ends it, and gives what it read.
    ///
    /// # Errors
    /// Where the agent is gone.
    pub fn end(self) -> Result<Metered, Error> {
        self.0.agent.ask(EndMeter { meter: self.0.number })
    }
}

/// The readings of one load.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Metered {
    /// When its first query was due, on the machine's monotonic clock.
    pub base: Nanos,
    /// What the server and its cores did in the measured part; none where the server is elsewhere, or the load ended before.
    pub server: Option<ServerTime>,
    /// Drops at several instants, in order.
    pub counted: Vec<Counted>,
    /// The addresses of the server's sockets that dropped datagrams, and how many.
    pub sockets: Vec<(SocketAddr, u64)>,
    /// Instructions and cycles of the server's threads, where the machine counts them.
    pub hardware: Option<hardware_counters::Counted>,
    /// The watch on the server's cores.
    pub watch: Seen,
    /// The queries that arrived at the server's host in the measured part; none where they cannot be counted.
    pub arrived: Option<Arrived>,
}

/// Queries that arrived at a host in some time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Arrived {
    /// Their number.
    pub queries: u64,
    /// The delay with which the count began, in nanoseconds.
    pub late: Nanos,
}

/// What a server and its cores did in some time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ServerTime {
    /// The time, of all its cores together.
    pub whole: Duration,
    /// Time that these cores were idle.
    pub idle: Duration,
    /// Time that the server's threads were on a core.
    pub ran: Duration,
    /// The share of the server's cores that other programs took.
    pub others: OtherPrograms,
}

/// Drops counted at one instant.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct Counted {
    /// When, in nanoseconds after the first query was due.
    pub at: Nanos,
    /// Of the server's host.
    pub server: Counters,
    /// Packets that the whole machine dropped since a core's backlog was full.
    pub backlog: u64,
    /// Time that the server's threads were on a core since they began.
    pub ran: Duration,
}

/// A thread that meters.
struct Metering {
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<Metered>>,
}

impl Metering {
    fn end(mut self) -> Metered {
        self.over.store(true, Ordering::Relaxed);
        let thread = self.thread.take().expect("it is joined once");
        thread.join().expect("reading /proc does not panic")
    }
}

impl Drop for Metering {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
    }
}

/// Begins to meter a load.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct StartMeter {
    sources: u64,
    /// Wall clock.
    base: Nanos,
    length: Nanos,
}

impl Request for StartMeter {
    const NAME: &'static str = "StartMeter";
    type Answer = u64;

    fn act(self, at: &At<'_>) -> Result<u64, Error> {
        let sources = Sources::at(at, self.sources)?;
        let base = clock::Wall::read().to_monotonic(self.base);
        let over = Arc::new(AtomicBool::new(false));
        let heeded = Arc::clone(&over);
        let thread = Some(std::thread::spawn(move || meter(&sources, base, self.length, &heeded)));
        Ok(at.here.keep(Metering { over, thread }))
    }
}

/// Ends a meter.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct EndMeter {
    meter: u64,
}

impl Request for EndMeter {
    const NAME: &'static str = "EndMeter";
    type Answer = Metered;

    fn act(self, at: &At<'_>) -> Result<Metered, Error> {
        Ok(at.here.take::<Metering>(self.meter)?.end())
    }
}

/// Reads at `base` (monotonic), at `base + length`, and in between, until then or until `stop`.
fn meter(sources: &Sources, base: Nanos, length: Nanos, stop: &AtomicBool) -> Metered {
    // A generator sees its own stalls: a watch there would only take time from it.
    let watch = CoreWatch::start(if sources.server_is_here() { &sources.server_cpus } else { &[] });
    let every = EVERY.max(length / MOST);
    let mut metered = Metered { base, ..Metered::default() };
    let mut before = BTreeMap::new();
    let mut arrived = None;
    if wait(base, stop) {
        arrived = sources.queries().map(|count| (count, clock::now().saturating_sub(base)));
        let first = sources.server();
        before = sources.socket_drops();
        let pids = first.as_ref().map_or(&[][..], Snapshot::pids);
        let mut counters = HardwareCounters::begin(pids);
        let mut at = base;
        while at < base + length && wait(at, stop) {
            metered.counted.push(Counted { ran: resource_counters::ran(pids), ..count(sources, base) });
            at += every;
        }
        wait(base + length, stop);
        metered.hardware = counters.as_mut().and_then(HardwareCounters::read);
        metered.server = first.zip(sources.server()).map(|(first, last)| {
            let spent = last.since(&first);
            ServerTime {
                whole: spent.passed * sources.server_cpus.len() as u32,
                idle: spent.cores.idle,
                ran: spent.ran,
                others: OtherPrograms::between(&first, &last, sources.own()),
            }
        });
    }
    wait(base + length + LATER, stop);
    metered.counted.push(count(sources, base));
    metered.arrived =
        arrived.zip(sources.queries()).map(|((before, late), now)| Arrived { queries: now - before, late });
    let grown = sources.socket_drops().into_iter().map(|(socket, drops)| {
        (socket.address, drops.saturating_sub(before.get(&socket).copied().unwrap_or_default()))
    });
    metered.sockets = grown.filter(|(_, drops)| *drops > 0).collect();
    metered.watch = watch.end();
    metered
}

/// Sleeps until `at`; false where it was told to stop before.
fn wait(at: Nanos, stop: &AtomicBool) -> bool {
    while !stop.load(Ordering::Relaxed) {
        let left = at.saturating_sub(clock::now());
        if left == 0 {
            return true;
        }
        std::thread::sleep(Duration::from_nanos(left.min(EVERY)));
    }
    false
}

fn count(sources: &Sources, base: Nanos) -> Counted {
    let at = clock::now().saturating_sub(base);
    Counted {
        at,
        server: sources.server_counters(),
        backlog: resource_counters::backlog_dropped(),
        ran: Duration::ZERO,
    }
}
