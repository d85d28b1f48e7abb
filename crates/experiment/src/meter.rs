//! Watches the machine while one load is measured, from its first measured query to its last.

use crate::losses::{Counted, GAP, Losses, Observed};
use crate::sampling::Sources;
use load::LoadResult;
use measure::calm::{CALM, quantile};
use measure::metrics;
use measure::{Metric, Nanos, Reason, Timeline, Validity, clock};
use rack::core_watch::{Absence, Seen};
use rack::resource_counters;
use rack::server_watch::{Others, Snapshot};
use rack::sockets::Socket;
use rack::{CoreWatch, HardwareCounters, hardware_counters};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How often drops are counted while a load goes on, in nanoseconds.
const EVERY: Nanos = 100_000_000;

/// Longer loads are counted this often at most.
const MOST: u64 = 2000;

/// The readings of one load.
pub struct Metered {
    /// The server and its cores at the beginning and at the end of the measured part.
    ends: Option<(Snapshot, Snapshot)>,
    counted: Vec<Counted>,
    /// Drops of each of the server's sockets, read at the beginning and at the end.
    sockets: [BTreeMap<Socket, u64>; 2],
    hardware: Option<hardware_counters::Counted>,
    watch: Seen,
    base: Nanos,
}

/// Reads at `base` (monotonic), at `base + length`, and in between, until then or until `stop`.
pub fn meter(sources: &Sources, base: Nanos, length: Nanos, stop: &AtomicBool) -> Metered {
    // A generator sees its own stalls: a watch there would only take time from it.
    let watch = CoreWatch::start(if sources.server_is_here() { &sources.server_cpus } else { &[] });
    let every = EVERY.max(length / MOST);
    let mut counted = Vec::new();
    let mut ends = None;
    let mut before = BTreeMap::new();
    let mut hardware = None;
    if wait(base, stop) {
        let first = sources.server();
        before = sources.socket_drops();
        let pids = first.as_ref().map_or(&[][..], Snapshot::pids);
        let mut counters = HardwareCounters::begin(pids);
        let mut at = base;
        while at < base + length && wait(at, stop) {
            counted.push(Counted { ran: resource_counters::ran(pids), ..count(sources, base) });
            at += every;
        }
        wait(base + length, stop);
        hardware = counters.as_mut().and_then(HardwareCounters::read);
        ends = first.zip(sources.server());
    }
    // Losses of the last moments are counted a little later.
    wait(base + length + GAP, stop);
    counted.push(count(sources, base));
    Metered { ends, counted, sockets: [before, sources.socket_drops()], hardware, watch: watch.end(), base }
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

/// The server's machine during one load.
pub struct Machine {
    /// The share (0 to 1) of the time that the server's cores had nothing to do; none where they cannot be seen.
    pub server_idle: Option<f64>,
    /// Seconds of CPU time that the server's threads took.
    pub server_ran: Option<f64>,
    /// Seconds that the server's cores were busy, interrupts included.
    pub server_busy: Option<f64>,
    /// CPU time in seconds that the server's threads took for a query, as a tenth of the stretches stayed at or below it.
    pub calm_per_query: Option<f64>,
    /// Instructions and cycles of the server's threads, where the machine counts them.
    pub hardware: Option<hardware_counters::Counted>,
    /// The losses, explained.
    pub losses: Losses,
    /// The observations behind it.
    pub observed: Observed,
    /// The core watch had real-time priority.
    pub watch_first: bool,
    /// The share of a core that the watch took.
    pub watch_cost: f64,
}

impl Metered {
    /// Explains the losses of the load that gave `result`, of which the share `allowed` may be lost.
    pub fn explain(self, sources: &Sources, result: &LoadResult, allowed: f64) -> Machine {
        let Self { ends, counted, sockets: [before, after], hardware, watch, base } = self;
        let length = (result.duration_s * 1e9) as Nanos;
        let cores = &sources.server_cpus;
        let mine = |away: &Absence| cores.contains(&away.core) && away.to > base && away.from < base + length;
        let away = watch.away.iter().filter(|away| mine(away));
        // Without real-time priority the watch cannot tell an absence from another program: nothing is explained by it.
        let away = away.filter(|_| watch.first).map(|away| (*away, away.from.saturating_sub(base))).collect();
        let mut observed = Observed { away, counted, length, ..Observed::default() };
        let mut seen = (None, None, None);
        if let Some((first, last)) = ends {
            let (spent, others) = (last.since(&first), Others::between(&first, &last, sources.own()));
            (observed.waited, observed.others) = (others.waited, others.used);
            observed.taken = others.disturbed();
            // Idle time is exact where ticks are not: for the rest of the time a core was busy.
            let whole = spent.passed.as_secs_f64() * cores.len() as f64;
            let idle = (spent.cores.idle.as_secs_f64() / whole).clamp(0.0, 1.0);
            seen = (Some(idle), Some(spent.ran.as_secs_f64()), Some((1.0 - idle) * whole));
        }
        let calm_per_query = quantile(per_query(&observed.counted, &result.timeline), CALM);
        let bursts = result.timeline.bursts(GAP);
        let mut losses = observed.explain(bursts, result.counts.sent, allowed);
        let grown = after.into_iter().map(|(socket, drops)| {
            (socket.address, drops.saturating_sub(before.get(&socket).copied().unwrap_or_default()))
        });
        losses.sockets = grown.filter(|(_, drops)| *drops > 0).collect();
        Machine {
            server_idle: seen.0,
            server_ran: seen.1,
            server_busy: seen.2,
            calm_per_query,
            hardware,
            losses,
            observed,
            watch_first: watch.first,
            watch_cost: watch.cost,
        }
    }
}

/// CPU time in seconds that a server took for each query sent, in each stretch between two instants.
fn per_query(counted: &[Counted], timeline: &Timeline) -> Vec<f64> {
    let point = |pair: &[Counted]| {
        let [from, to] = pair else { return None };
        let qps = timeline.sent_qps(from.at, to.at).filter(|qps| *qps > 0.0)?;
        // A thread that ended takes its time with it.
        let ran = to.ran.checked_sub(from.ran).filter(|ran| !ran.is_zero())?;
        Some(ran.as_secs_f64() * 1e9 / (to.at - from.at) as f64 / qps)
    };
    counted.windows(2).filter_map(point).collect()
}

impl Machine {
    /// Rejects a trial that another program disturbed, and says where queries were lost and when cores were away.
    pub fn note(&self, validity: &mut Validity) {
        if self.observed.taken {
            let text = format!("{}; run it again while nothing else does", self.observed.taken_text());
            validity.reject(Reason::new("server_core_shared", text));
        }
        validity.warn_for(self.losses.sentence());
    }

    /// For the trial's record: where queries were dropped, each place by itself, and what the server's cores did.
    pub fn metrics(&self) -> Vec<Metric> {
        let mut metrics = self.losses.metrics();
        let o = &self.observed;
        metrics.push(metrics::CORE_AWAY_SHARE.of(100.0 * o.away_share()));
        metrics.push(metrics::CORE_AWAY_LONGEST.of(o.away_longest() as f64 / 1e3));
        metrics.push(metrics::CORE_WATCH_COST.of(100.0 * self.watch_cost));
        metrics.push(metrics::CORE_WATCH_FIRST.of(f64::from(u8::from(self.watch_first))));
        if let Some(idle) = self.server_idle {
            metrics.push(metrics::SERVER_IDLE.of(100.0 * idle));
            metrics.push(metrics::SERVER_WAITED.of(100.0 * o.waited));
            metrics.push(metrics::SERVER_CORES_OTHERS.of(100.0 * o.others));
        }
        metrics
    }
}
