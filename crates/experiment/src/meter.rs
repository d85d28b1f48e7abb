//! The server's machine while a load, updates, a start, a reload or a transfer is measured: its figures, and what they say of losses, rates and
//! times.

use crate::Error;
use crate::losses::{GAP, Losses, Observed};
use agent::{Agent, Counted, Meter, Metered, Readings, Server, Watched};
use load::{LONGEST, LoadResult};
use measure::calm::{CALM, quantile};
use measure::metrics;
use measure::{Metric, Nanos, Reason, Timeline, Validity, clock};
use rack::core_watch::Absence;
use rack::hardware_counters;
use rack::server_watch::OtherPrograms;
use std::net::SocketAddr;

/// A watch on the machine of a server that starts, reloads, or has a part in a transfer.
pub struct AtWork {
    meter: Meter,
    began: Nanos,
    is_alone: bool,
}

impl AtWork {
    /// Begins the watch on a server that has no other servers of the rack beside it. `asking` is the process of a generator, with its
    /// agent; it does not count as another program. A server that we did not start is not watched.
    ///
    /// # Errors
    /// The agent's.
    pub fn watch(server: &Server, asking: Option<(&Agent, u32)>) -> Result<Option<Self>, Error> {
        Self::begin(server, asking, true)
    }

    /// Begins the watch on a server that has other servers of the rack beside it. These do not count as other programs. In a container
    /// the two cannot be told apart, so there the watch does not look for other programs.
    ///
    /// # Errors
    /// The agent's.
    pub fn watch_one_of_several(server: &Server) -> Result<Option<Self>, Error> {
        Self::begin(server, None, false)
    }

    fn begin(server: &Server, asking: Option<(&Agent, u32)>, is_alone: bool) -> Result<Option<Self>, Error> {
        if !server.is_ours() {
            return Ok(None);
        }
        let mut watched = Watched::default();
        watched.server(server, false);
        if let Some((agent, pid)) = asking.filter(|(agent, _)| agent.is_beside(server.agent())) {
            watched.generator(agent, [pid]);
        }
        let readings = Readings::open(server.agent(), watched)?;
        let meter = Meter::start(&readings, clock::wall(), LONGEST)?;
        Ok(Some(Self { meter, began: clock::now(), is_alone }))
    }

    /// Ends the watch. The reason, if there is one, says why the time that the server took is wrong: see [`Machine::disturbed`].
    ///
    /// # Errors
    /// The agent's.
    pub fn end(self) -> Result<Option<Reason>, Error> {
        let length = clock::now() - self.began;
        let mut metered = self.meter.end()?;
        if let Some(time) = metered.server.as_mut().filter(|_| !self.is_alone) {
            time.others = time.others.beside_servers_of_the_rack();
        }
        Ok(Machine::new(metered, length).disturbed(false))
    }
}

/// Ends a watch, if there is one, and rejects the trial where its machine disturbed what the server did. `what` says what that was:
/// `start`.
///
/// # Errors
/// The agent's.
pub fn reject_disturbed(watch: Option<AtWork>, what: &str, validity: &mut Validity) -> Result<(), Error> {
    let why = watch.map(AtWork::end).transpose()?.flatten();
    validity.reject_for(why.map(|why| Reason::new(&why.code, format!("during the {what}, {}", why.text))));
    Ok(())
}

/// The server's machine in the measured part of a load.
pub struct Machine {
    /// The share (0 to 1) of the time that the server's cores had nothing to do; none where they cannot be seen.
    pub server_idle: Option<f64>,
    /// Seconds of CPU time that the server's threads took.
    pub server_ran: Option<f64>,
    /// Seconds that the server's cores were busy, interrupts included.
    pub server_busy: Option<f64>,
    /// Instructions and cycles of the server's threads, where the machine counts them.
    pub hardware: Option<hardware_counters::Counted>,
    observed: Observed,
    /// The addresses of the server's sockets that dropped datagrams, and how many.
    sockets: Vec<(SocketAddr, u64)>,
    /// The core watch had real-time priority.
    watch_first: bool,
    /// The share of a core that the watch took.
    watch_cost: f64,
}

impl Machine {
    /// Takes the readings of a meter. `length` is how long the measured part was, in nanoseconds.
    pub fn new(metered: Metered, length: Nanos) -> Self {
        let Metered { base, server, counted, sockets, hardware, watch, arrived: _ } = metered;
        let during = |away: &Absence| away.to > base && away.from < base + length;
        let away = watch.away.iter().filter(|away| during(away));
        // Without real-time priority the watch cannot tell an absence from another program: nothing is explained by it.
        let away = away.filter(|_| watch.first).map(|away| (*away, away.from.saturating_sub(base))).collect();
        let mut observed = Observed { away, counted, length, ..Observed::default() };
        let mut seen = (None, None, None);
        if let Some(time) = server {
            observed.others = time.others;
            // Idle time is exact where ticks are not: for the rest of the time a core was busy.
            let whole = time.whole.as_secs_f64();
            let idle = (time.idle.as_secs_f64() / whole).clamp(0.0, 1.0);
            seen = (Some(idle), Some(time.ran.as_secs_f64()), Some((1.0 - idle) * whole));
        }
        Self {
            server_idle: seen.0,
            server_ran: seen.1,
            server_busy: seen.2,
            hardware,
            observed,
            sockets,
            watch_first: watch.first,
            watch_cost: watch.cost,
        }
    }

    /// Explains the losses of the load that gave `result`, of which the share `allowed` may be lost.
    pub fn explain(&self, result: &LoadResult, allowed: f64) -> Losses {
        let bursts = result.timeline.bursts(GAP);
        let explained = self.observed.explain(bursts, result.counts.sent, allowed);
        Losses { sockets: self.sockets.clone(), ..explained }
    }

    /// CPU time in seconds that the server's threads took for a query, as a tenth of the stretches stayed at or below it.
    pub fn calm_per_query(&self, timeline: &Timeline) -> Option<f64> {
        quantile(per_query(&self.observed.counted, timeline), CALM)
    }

    /// Why what the server did, at a pace or as fast as it could, says little of it: another program held it up, or its cores were away
    /// too often.
    pub fn disturbed(&self, paced: bool) -> Option<Reason> {
        let o = &self.observed;
        held_up(&o.others).or_else(|| o.away_too_often(paced))
    }

    /// For the trial's record: what the server's cores did.
    pub fn metrics(&self) -> Vec<Metric> {
        let o = &self.observed;
        let mut metrics = vec![
            metrics::CORE_AWAY_SHARE.of(100.0 * o.away_share()),
            metrics::CORE_AWAY_INSTANTS.of(100.0 * o.away_instants()),
            metrics::CORE_AWAY_LONGEST.of(o.away_longest() as f64 / 1e3),
            metrics::CORE_WATCH_COST.of(100.0 * self.watch_cost),
            metrics::CORE_WATCH_FIRST.of(f64::from(u8::from(self.watch_first))),
        ];
        if let Some(idle) = self.server_idle {
            metrics.push(metrics::SERVER_IDLE.of(100.0 * idle));
            metrics.push(metrics::SERVER_WAITED.of(100.0 * o.others.waited));
            metrics.push(metrics::SERVER_CORES_OTHERS.of(100.0 * o.others.used));
        }
        metrics
    }
}

/// Why other programs make the time that a server took wrong, if they held it up.
pub fn held_up(others: &OtherPrograms) -> Option<Reason> {
    let text = || format!("{}; run it again while nothing else does", others.text());
    others.disturbed().then(|| Reason::new("server_core_shared", text()))
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
