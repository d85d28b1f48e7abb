//! The server's machine while one load is measured: its figures, and what they say of the load's losses.

use crate::losses::{GAP, Losses, Observed};
use agent::{Counted, Metered};
use load::LoadResult;
use measure::calm::{CALM, quantile};
use measure::limits::AWAY_INSTANTS_LIMIT;
use measure::metrics;
use measure::{Metric, Nanos, Reason, Timeline, Validity};
use rack::core_watch::Absence;
use rack::hardware_counters;

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

/// Explains the losses of the load that gave `result`, of which the share `allowed` may be lost.
pub fn explain(metered: Metered, result: &LoadResult, allowed: f64) -> Machine {
    let Metered { base, server, counted, sockets, hardware, watch, arrived: _ } = metered;
    let length = (result.duration_s * 1e9) as Nanos;
    let during = |away: &Absence| away.to > base && away.from < base + length;
    let away = watch.away.iter().filter(|away| during(away));
    // Without real-time priority the watch cannot tell an absence from another program: nothing is explained by it.
    let away = away.filter(|_| watch.first).map(|away| (*away, away.from.saturating_sub(base))).collect();
    let mut observed = Observed { away, counted, length, ..Observed::default() };
    let mut seen = (None, None, None);
    if let Some(time) = server {
        (observed.waited, observed.others) = (time.others.waited, time.others.used);
        observed.taken = time.others.disturbed();
        // Idle time is exact where ticks are not: for the rest of the time a core was busy.
        let whole = time.whole.as_secs_f64();
        let idle = (time.idle.as_secs_f64() / whole).clamp(0.0, 1.0);
        seen = (Some(idle), Some(time.ran.as_secs_f64()), Some((1.0 - idle) * whole));
    }
    let calm_per_query = quantile(per_query(&observed.counted, &result.timeline), CALM);
    let bursts = result.timeline.bursts(GAP);
    let losses = Losses { sockets, ..observed.explain(bursts, result.counts.sent, allowed) };
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
    /// Rejects a trial that another program disturbed, or one with a pace during which cores were away too often; says where queries were
    /// lost and when cores were away.
    pub fn note(&self, paced: bool, validity: &mut Validity) {
        if self.observed.taken {
            let text = format!("{}; run it again while nothing else does", self.observed.taken_text());
            validity.reject(Reason::new("server_core_shared", text));
        }
        let away = self.observed.away_instants();
        if paced && away > AWAY_INSTANTS_LIMIT {
            let text = format!(
                "at {:.1} % of the instants looked at, a core of the server's was away for a millisecond or more, so high percentiles of \
                 the latency are the machine's: {}; run it again on a quieter machine, or with --set idle=poll",
                100.0 * away,
                self.observed.away_text()
            );
            validity.reject(Reason::new("server_core_away", text));
        }
        validity.warn_for(self.losses.sentence());
    }

    /// For the trial's record: where queries were dropped, each place by itself, and what the server's cores did.
    pub fn metrics(&self) -> Vec<Metric> {
        let mut metrics = self.losses.metrics();
        let o = &self.observed;
        metrics.push(metrics::CORE_AWAY_SHARE.of(100.0 * o.away_share()));
        metrics.push(metrics::CORE_AWAY_INSTANTS.of(100.0 * o.away_instants()));
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
