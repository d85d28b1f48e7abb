//! The figures that two runs are compared by, and what a trial says of each.

use crate::TrialRecord;
use measure::metrics::{self, Definition};
use measure::{params, series, units};

/// One figure that a server can be better or worse in.
#[derive(Debug)]
pub struct Figure {
    /// The metric that it is of.
    pub metric: Definition,
    /// The metric's name, in snake case.
    pub name: &'static str,
    /// For people: `peak query rate`.
    pub title: &'static str,
    /// As in [`measure::Metric`].
    pub unit: &'static str,
    /// Which direction is worse.
    pub more_is_worse: bool,
    /// The verb for a server that is worse in it, and for one that is better: `is slower`, `is faster`.
    pub words: [&'static str; 2],
    /// The relative standard deviation that the way of measuring adds to a trial's value, unseen where repeats agree by
    /// accident: rounding, pages, ticks.
    pub tolerance: f64,
    /// Where the threshold for a regression is this multiple of that for others.
    pub weight: f64,
    of: fn(&TrialRecord) -> Option<f64>,
}

const SPEED: [&str; 2] = ["is slower", "is faster"];
const MEMORY: [&str; 2] = ["takes more memory", "takes less memory"];

/// Every figure, in the order of tables. A trial that does not have one does not take part in it.
pub const FIGURES: &[Figure] = &[
    // Where the generator was the limit, the figure is a bound, which cannot be compared.
    rate(metrics::CAPACITY_QPS, "capacity", |t| {
        t.outcome
            .metric(metrics::CAPACITY_QPS)
            .filter(|_| t.outcome.metric(metrics::CAPACITY_AT_LEAST).is_none())
    }),
    // And the search's own width, see `noise`.
    rate(metrics::PEAK_QPS, "peak query rate", |t| t.outcome.metric(metrics::PEAK_QPS)),
    rate(metrics::SUSTAINED_QPS, "throughput", |t| t.outcome.metric(metrics::SUSTAINED_QPS)),
    // The mean, of trials that do not have the sustained rate: of runs made before there was one, and of `load run`.
    rate(metrics::ANSWERED_QPS, "mean throughput", |t| {
        let is_mean = t.param(params::MEASURE) == Some("throughput")
            && t.outcome.metric(metrics::SUSTAINED_QPS).is_none();
        t.outcome.metric(metrics::ANSWERED_QPS).filter(|_| is_mean)
    }),
    latency(metrics::CALM_LATENCY_P50, "median latency", |t| {
        fixed_rate(t)?.outcome.metric(metrics::CALM_LATENCY_P50)
    }),
    latency(metrics::CALM_LATENCY_P99, "latency of 99 %", |t| {
        fixed_rate(t)?.outcome.metric(metrics::CALM_LATENCY_P99)
    }),
    // Of the whole load, the machine's pauses included: the median only where there are no calm stretches, of older runs.
    latency(metrics::LATENCY.p50, "median latency", |t| {
        quantile(t, 0.5).filter(|_| t.outcome.metric(metrics::CALM_LATENCY_P50).is_none())
    }),
    latency(metrics::LATENCY.p90, "latency of 90 % in the whole load", |t| quantile(t, 0.9)),
    latency(metrics::LATENCY.p99, "latency of 99 % in the whole load", |t| quantile(t, 0.99)),
    share(metrics::ANSWERED_IN_DEADLINE_SHARE, "answered in time", |t| {
        fixed_rate(t)?.outcome.metric(metrics::ANSWERED_IN_DEADLINE_SHARE)
    }),
    cpu(metrics::CALM_SERVER_CPU_PER_QUERY, calm_cpu),
    cpu(metrics::SERVER_CPU_PER_QUERY, |t| cpu_per_query(t).filter(|_| calm_cpu(t).is_none())),
    Figure {
        metric: metrics::SERVER_INSTRUCTIONS_PER_QUERY,
        name: metrics::SERVER_INSTRUCTIONS_PER_QUERY.stem(),
        title: "instructions a query",
        unit: "1",
        more_is_worse: true,
        words: ["takes more instructions", "takes fewer instructions"],
        tolerance: 0.002,
        weight: 1.0,
        of: |t| fixed_rate(t)?.outcome.metric(metrics::SERVER_INSTRUCTIONS_PER_QUERY),
    },
    memory(metrics::SERVER_PSS, "memory (PSS)", |t| t.outcome.metric(metrics::SERVER_PSS)),
    memory(metrics::SERVER_RSS, "memory (RSS)", |t| t.outcome.metric(metrics::SERVER_RSS)),
    duration(metrics::SERVER_READY, "start to right answer", |t| t.outcome.metric(metrics::SERVER_READY)),
    memory(metrics::LOADING_PEAK_PSS, "peak memory of the start", |t| {
        t.outcome.metric(metrics::LOADING_PEAK_PSS)
    }),
    duration(metrics::RELOAD_SECONDS, "reload", |t| t.outcome.metric(metrics::RELOAD_SECONDS)),
    memory(metrics::RELOADING_PEAK_PSS, "peak memory of a reload", |t| {
        t.outcome.metric(metrics::RELOADING_PEAK_PSS)
    }),
    share(metrics::RELOADING.answered_share, "answered during a reload", |t| {
        t.outcome.metric(metrics::RELOADING.answered_share)
    }),
    duration(metrics::TRANSFER_SECONDS, "transfer of the zone", |t| {
        t.outcome.metric(metrics::TRANSFER_SECONDS)
    }),
    octets(metrics::TRANSFER_TCP_BYTES, "octets of a whole transfer", |t| {
        t.outcome.metric(metrics::TRANSFER_TCP_BYTES)
    }),
    duration(metrics::BATCHES_SECONDS, "time of all batches", |t| t.outcome.metric(metrics::BATCHES_SECONDS)),
    // A marker is due once in each second, and waits for a timer of up to 5 s: means of few markers scatter much less than medians.
    latency(metrics::LAG_MEAN, "mean lag of secondaries", |t| t.outcome.metric(metrics::LAG_MEAN)),
    // The median of older runs, which do not tell the mean.
    latency(metrics::LAG.p50, "median lag of secondaries", |t| {
        t.outcome.metric(metrics::LAG.p50).filter(|_| t.outcome.metric(metrics::LAG_MEAN).is_none())
    }),
    latency(metrics::LAG.p99, "lag of secondaries, 99 %", |t| t.outcome.metric(metrics::LAG.p99)),
    octets(metrics::TRANSFER_BYTES_PER_UPDATE, "octets of transfers for each update", |t| {
        t.outcome.metric(metrics::TRANSFER_BYTES_PER_UPDATE)
    }),
];

type Of = fn(&TrialRecord) -> Option<f64>;

const fn rate(metric: Definition, title: &'static str, of: Of) -> Figure {
    Figure {
        metric,
        name: metric.stem(),
        title,
        unit: metric.unit,
        more_is_worse: false,
        words: SPEED,
        tolerance: 0.002,
        weight: 1.0,
        of,
    }
}

const fn latency(metric: Definition, title: &'static str, of: Of) -> Figure {
    Figure {
        metric,
        name: metric.stem(),
        title,
        unit: metric.unit,
        more_is_worse: true,
        words: SPEED,
        tolerance: 0.005,
        weight: 1.0,
        of,
    }
}

const fn memory(metric: Definition, title: &'static str, of: Of) -> Figure {
    Figure {
        metric,
        name: metric.stem(),
        title,
        unit: metric.unit,
        more_is_worse: true,
        words: MEMORY,
        tolerance: 0.002,
        weight: 1.0,
        of,
    }
}

const fn cpu(metric: Definition, of: Of) -> Figure {
    let words = ["takes more CPU time", "takes less CPU time"];
    Figure {
        metric,
        name: metric.stem(),
        title: "CPU time a query",
        unit: metric.unit,
        more_is_worse: true,
        words,
        tolerance: 0.005,
        weight: 1.0,
        of,
    }
}

const fn duration(metric: Definition, title: &'static str, of: Of) -> Figure {
    Figure {
        metric,
        name: metric.stem(),
        title,
        unit: metric.unit,
        more_is_worse: true,
        words: SPEED,
        tolerance: 0.01,
        weight: 1.0,
        of,
    }
}

const fn octets(metric: Definition, title: &'static str, of: Of) -> Figure {
    Figure {
        words: ["takes more octets", "takes fewer octets"],
        tolerance: 0.001,
        ..memory(metric, title, of)
    }
}

const fn share(metric: Definition, title: &'static str, of: Of) -> Figure {
    let words = ["loses more queries", "loses fewer queries"];
    // At a threshold of 5 %, one query in a thousand counts.
    Figure {
        metric,
        name: metric.stem(),
        title,
        unit: metric.unit,
        more_is_worse: false,
        words,
        tolerance: 0.000_05,
        weight: 0.02,
        of,
    }
}

impl Figure {
    /// The figure of a trial, in its unit. Of shares, nothing is taken for one in a million: it has no logarithm.
    pub fn of(&self, trial: &TrialRecord) -> Option<f64> {
        let least = if self.unit == "%" { 1e-4 } else { f64::NEG_INFINITY };
        (self.of)(trial).filter(|v| v.is_finite()).map(|v| v.max(least))
    }

    /// The least noise of these trials, as [`stats::Ratio`] takes it: the tolerance, and of a rate that was searched
    /// for that it lies anywhere between its bounds.
    pub(crate) fn noise(&self, trials: &[&TrialRecord]) -> f64 {
        if self.metric != metrics::PEAK_QPS {
            return self.tolerance;
        }
        let width = |t: &&TrialRecord| {
            let bounds = t.outcome.metric(metrics::PEAK_UPPER)? / t.outcome.metric(metrics::PEAK_LOWER)?;
            Some(bounds.ln()).filter(|w| w.is_finite() && *w > 0.0)
        };
        let widths: Vec<f64> = trials.iter().filter_map(width).collect();
        // The standard deviation of what is anywhere within a width is that width over √12.
        self.tolerance.max(stats::median(&widths).unwrap_or(0.0) / 12f64.sqrt())
    }
}

/// Whether a trial's rate was searched for.
fn is_search(trial: &TrialRecord) -> bool {
    trial.param(params::MEASURE) == Some("peak") || trial.outcome.metric(metrics::PEAK_QPS).is_some()
}

/// The trial, where its load had a rate that was given: that of a search, and with a window, is the server's own.
fn fixed_rate(trial: &TrialRecord) -> Option<&TrialRecord> {
    (!is_search(trial) && trial.param(params::MEASURE) != Some("throughput")).then_some(trial)
}

/// The latency in µs of [`TrialRecord::latency`], where the rate was given.
fn quantile(trial: &TrialRecord, q: f64) -> Option<f64> {
    let deadline = trial.param(params::DEADLINE).and_then(|d| units::duration(d).ok());
    fixed_rate(trial)?.latency(q, deadline).map(|nanos| nanos / 1e3)
}

/// The server's own CPU time for each query, in µs, in the calm stretches of the load.
fn calm_cpu(trial: &TrialRecord) -> Option<f64> {
    trial.outcome.metric(metrics::CALM_SERVER_CPU_PER_QUERY).filter(|_| !is_search(trial))
}

/// The server's own CPU time for each query, in µs, over the seconds of the load (as the trial tells, otherwise for each query
/// answered, from its series): not that of its start, nor that of the kernel's receiving.
fn cpu_per_query(trial: &TrialRecord) -> Option<f64> {
    if is_search(trial) {
        return None;
    }
    if let Some(measured) = trial.outcome.metric(metrics::SERVER_CPU_PER_QUERY) {
        return Some(measured);
    }
    let sum = |figure: Definition| trial.series(figure).iter().map(|(_, value)| value).sum::<f64>();
    let (percent, answered) = (sum(series::SERVER.cpu), sum(metrics::ANSWERED_QPS));
    (percent > 0.0 && answered > 0.0).then_some(percent / 100.0 * 1e6 / answered)
}
