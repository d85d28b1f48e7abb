//! The validity so far: what would speak against the load if it ended now.
//!
//! The verdict at the end knows every query; this knows the figures of each second. It uses the same limits and codes,
//! and says `so far`.

use super::model::{Figures, Live, Machine};
use crate::format;
use measure::units::grouped;
use measure::{Nanos, Reason, Validity};

/// The limits that make a load invalid: the verdict's own.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// The share (0 to 1) of the offered queries that may stay unsent.
    pub unsent: f64,
    /// The pacing error allowed at the 99th percentile, in nanoseconds.
    pub pacing: Nanos,
    /// How long the generator may stand still, in nanoseconds.
    pub stall: Nanos,
    /// The share (0 to 1) of stolen time that is worth a warning.
    pub steal: f64,
}

impl Default for Limits {
    /// There is no reason against the load.
    fn default() -> Self {
        Self { unsent: 1.0, pacing: Nanos::MAX, stall: Nanos::MAX, steal: 1.0 }
    }
}

/// The worst of all seconds.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Worst {
    /// Microseconds.
    pub latency_p50: f64,
    pub latency_p99: f64,
    pub latency_max: f64,
    /// Microseconds.
    pub pacing: f64,
    /// Seconds whose pacing error was above the limit, and seconds in all.
    late_seconds: u64,
    seconds: u64,
    /// Microseconds.
    stall: f64,
    /// Per cent, the sum over readings, and how many they are.
    steal: (f64, u32),
}

impl Worst {
    pub fn take(&mut self, f: &Figures, limits: &Limits) {
        self.latency_p50 = self.latency_p50.max(f.latency_p50);
        self.latency_p99 = self.latency_p99.max(f.latency_p99);
        self.latency_max = self.latency_max.max(f.latency_max);
        self.pacing = self.pacing.max(f.pacing_error_p99);
        self.late_seconds += u64::from(f.pacing_error_p99 * 1e3 > limits.pacing as f64);
        self.seconds += 1;
        self.stall = self.stall.max(f.stall_max.unwrap_or(0.0));
    }

    pub fn steal(&mut self, percent: f64) {
        self.steal.0 += percent;
        self.steal.1 += 1;
    }
}

/// Stolen time of the generator's cores (of all where it is not pinned), in per cent.
pub(super) fn steal(machine: &Machine, generator: &[usize]) -> Option<f64> {
    let ours = machine.cores.iter().filter(|c| generator.is_empty() || generator.contains(&c.core));
    let (sum, count) = ours.fold((0.0, 0), |(sum, n), c| (sum + c.steal, n + 1));
    (count > 0).then(|| sum / f64::from(count))
}

/// Judges a load that still runs.
pub(super) fn so_far(live: &Live) -> Validity {
    let (t, w, limits) = (&live.totals, &live.worst, &live.about.limits);
    let mut v = Validity::default();
    let unsent = if t.offered > 0.0 { t.unsent / t.offered } else { 0.0 };
    if unsent > limits.unsent {
        let text = format!(
            "so far {} of {} queries ({}, at most {} is valid) were not sent",
            grouped(t.unsent as u64),
            grouped(t.offered as u64),
            format::percent(unsent * 100.0),
            format::percent(limits.unsent * 100.0)
        );
        v.reject(Reason::new("unsent", text));
    }
    if live.about.paced && w.late_seconds > 0 {
        let text = format!(
            "in {} of {} seconds 1 % of the queries left more than {} late (the worst second: {})",
            w.late_seconds,
            w.seconds,
            format::latency(limits.pacing as f64),
            format::latency(w.pacing * 1e3)
        );
        let reason = Reason::new("pacing_error", text);
        // Whether it is 1 % of all queries is known at the end; where most seconds had it, it will be.
        if 2 * w.late_seconds > w.seconds { v.reject(reason) } else { v.warn(reason) }
    }
    if w.stall * 1e3 > limits.stall as f64 {
        let text = format!(
            "the generator stood still for {} (more than {} is not valid)",
            format::latency(w.stall * 1e3),
            format::latency(limits.stall as f64)
        );
        v.reject(Reason::new("generator_stalled", text));
    }
    if t.drops > 0.0 {
        let text = format!(
            "our own receive buffers were full and dropped {} datagrams: they look like losses of the server",
            grouped(t.drops as u64)
        );
        v.reject(Reason::new("socket_buffer_too_small", text));
    }
    let stolen = if w.steal.1 > 0 { w.steal.0 / f64::from(w.steal.1) } else { 0.0 };
    if stolen > limits.steal * 100.0 {
        let text = format!("the hypervisor took {stolen:.1} % of the generator's cores for others");
        v.warn(Reason::new("steal", text));
    }
    v
}
