//! What a load is to be; travels as JSON to the role that sends it.

use crate::Error;
use crate::targets::Prefix;
use measure::clock::SECOND;
use measure::{Arrivals, Nanos, Pace, Seed};
use serde::{Deserialize, Serialize};
use std::net::{IpAddr, SocketAddr};

/// No run sends for longer than this, whatever it was asked.
pub const LONGEST: Nanos = 24 * 3600 * SECOND;

/// The most workers, and the most flows of one worker.
const MOST_WORKERS: u32 = 256;
const MOST_FLOWS: u32 = 65_536;

/// Queries per second and worker for which id windows are made where the pace does not say: nothing here sends
/// more over sockets from one core.
const CLOSED_RATE: f64 = 250_000.0;
const FLOOD_RATE: f64 = 1_500_000.0;

/// A load. Durations are nanoseconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LoadSpec {
    /// The servers' addresses; the flows are spread over them evenly.
    pub targets: Vec<SocketAddr>,
    /// The queries.
    pub source: traffic::SourceSpec,
    /// When they are sent.
    pub pace: Pace,
    /// How long queries are offered, after the warm-up.
    #[serde(default)]
    pub duration: Option<Nanos>,
    /// How many queries are offered at most, after the warm-up.
    #[serde(default)]
    pub count: Option<u64>,
    /// For how long queries are offered before they count.
    #[serde(default)]
    pub warmup: Nanos,
    /// An answer later than this after its query was sent is late, and counts as lost.
    #[serde(default = "four_seconds")]
    pub deadline: Nanos,
    /// Flows (source addresses and ports); 0: as many as the ids in flight need, at least 16 for each worker.
    #[serde(default)]
    pub flows: u32,
    /// Local addresses to send from, in turn; none: whichever the system takes.
    #[serde(default)]
    pub sources: Vec<IpAddr>,
    /// Sending threads; 0: one for each of `cpus`, or one.
    #[serde(default)]
    pub workers: u32,
    /// Cores that the workers are pinned to, in turn; none: not pinned.
    #[serde(default)]
    pub cpus: Vec<usize>,
    /// The most queries that a worker sends at once; 0: what is due in a millisecond, 1 to 32 (flood: 64).
    #[serde(default)]
    pub burst: u32,
    /// Receive buffer of each flow in bytes of the kernel's accounting; the result says what was granted.
    #[serde(default = "buffer")]
    pub recv_buffer: usize,
    /// A pacing error above this at the 99th percentile makes the trial invalid, in nanoseconds: 100 us, or more where
    /// only rates and losses are judged ([`crate::search::PACING_LIMIT`]).
    #[serde(default = "pacing_limit")]
    pub pacing_limit: Nanos,
    /// For the ids; the queries have the seed of their source.
    #[serde(default)]
    pub seed: Seed,
    /// Networks that belong to the rack.
    #[serde(default)]
    pub allowed: Vec<Prefix>,
    /// Targets beyond this machine are meant.
    #[serde(default)]
    pub allow_external: bool,
}

fn four_seconds() -> Nanos {
    4 * SECOND
}

fn pacing_limit() -> Nanos {
    crate::PACING_LIMIT
}

fn buffer() -> usize {
    4 << 20
}

/// How a load is spread: derived from its specification.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    pub workers: u32,
    pub flows_per_worker: u32,
    /// Ids of each flow's window.
    pub slots: usize,
    pub burst: u32,
    /// Open loop: queries in all, the warm-up included, and the first that counts.
    pub total: u64,
    pub first_counted: u64,
}

impl LoadSpec {
    /// A load with defaults for everything else.
    pub fn new(targets: Vec<SocketAddr>, source: traffic::SourceSpec, pace: Pace, duration: Nanos) -> Self {
        Self {
            targets,
            source,
            pace,
            duration: Some(duration),
            count: None,
            warmup: 0,
            deadline: four_seconds(),
            flows: 0,
            sources: Vec::new(),
            workers: 0,
            cpus: Vec::new(),
            burst: 0,
            recv_buffer: buffer(),
            pacing_limit: pacing_limit(),
            seed: Seed::default(),
            allowed: Vec::new(),
            allow_external: false,
        }
    }

    /// Checks all that can be checked without touching the world, and derives the plan.
    pub(crate) fn plan(&self) -> Result<Plan, Error> {
        let refuse = |text: String| Err(Error::Spec(text));
        if self.targets.is_empty() {
            return refuse("a load needs a target: give an address such as 127.0.0.1:53".into());
        }
        if self.duration.is_none() && self.count.is_none() {
            return refuse("a load must end: give --duration or --count".into());
        }
        if self.duration == Some(0) || self.count == Some(0) {
            return refuse("a load of nothing: give a --duration and --count above zero".into());
        }
        if self.duration.unwrap_or(0).saturating_add(self.warmup) > LONGEST {
            return refuse(
                "warm-up and duration are longer than 24 hours together, the most of one run".into(),
            );
        }
        if self.deadline == 0 || self.deadline > 3600 * SECOND {
            return refuse(format!(
                "a deadline of {} s: it must be above 0 and at most an hour",
                secs(self.deadline)
            ));
        }
        for target in &self.targets {
            if !self.sources.is_empty() && !self.sources.iter().any(|s| s.is_ipv4() == target.is_ipv4()) {
                return refuse(format!(
                    "no source address of {target}'s family: add one or leave sources out"
                ));
            }
        }
        let workers = match self.workers {
            0 => (self.cpus.len() as u32).max(1),
            n => n,
        };
        if workers > MOST_WORKERS {
            return refuse(format!("{workers} workers: at most {MOST_WORKERS}"));
        }
        let (rate, total, first_counted) = match &self.pace {
            Pace::Open(arrivals) => {
                let rate = arrivals.rate();
                if !(rate.is_finite() && rate > 0.0) {
                    return refuse(format!("a rate of {rate} queries/s: it must be above zero"));
                }
                let (first, total) = self.counts(arrivals);
                if total == first {
                    return refuse(format!(
                        "{rate} queries/s for {} s are no query at all",
                        secs(self.duration.unwrap_or(0))
                    ));
                }
                (rate / f64::from(workers), total, first)
            }
            Pace::Closed { window: 0 } => {
                return refuse("a window of 0 sends nothing: give at least 1".into());
            }
            Pace::Closed { .. } => (CLOSED_RATE, 0, 0),
            Pace::Flood => (FLOOD_RATE, 0, 0),
        };
        // Twice what is sent within a deadline, so that an id is never needed again too soon.
        let ids = 2.0 * rate * self.deadline as f64 / SECOND as f64;
        let flows_per_worker = match self.flows {
            0 => ((ids / 65_536.0).ceil() as u32).max(16).next_multiple_of(self.targets.len() as u32),
            n => n.div_ceil(workers),
        };
        if flows_per_worker > MOST_FLOWS {
            return refuse(format!(
                "{flows_per_worker} flows for each worker, where {MOST_FLOWS} are the most: give a shorter --deadline, a \
                 lower rate, or more --workers"
            ));
        }
        let slots =
            ((ids / f64::from(flows_per_worker)).ceil().min(65_536.0) as usize).next_power_of_two().max(64);
        let burst = match (self.burst, &self.pace) {
            (0, Pace::Open(_)) => (rate / 1000.0).clamp(1.0, 32.0) as u32,
            (0, Pace::Closed { .. }) => 32,
            (0, Pace::Flood) => net::udp::BATCH as u32,
            (n, _) => n,
        };
        Ok(Plan { workers, flows_per_worker, slots, burst, total, first_counted })
    }

    /// The first query that counts and the number of all, in an open loop.
    fn counts(&self, arrivals: &Arrivals) -> (u64, u64) {
        let first = arrivals.count(self.warmup);
        let by_time = self.duration.map(|d| arrivals.count(self.warmup + d));
        let by_count = self.count.map(|c| first.saturating_add(c));
        // Both bound it, and the hard cap in any case.
        let cap = arrivals.count(LONGEST);
        (first.min(cap), by_time.unwrap_or(cap).min(by_count.unwrap_or(cap)).min(cap))
    }
}

fn secs(n: Nanos) -> f64 {
    n as f64 / SECOND as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(rate: f64) -> LoadSpec {
        let source = serde_json::from_str(r#"{"queries": {"path": "q"}}"#).unwrap();
        let pace = Pace::Open(Arrivals::Fixed { rate });
        LoadSpec::new(vec!["127.0.0.1:53".parse().unwrap()], source, pace, 60 * SECOND)
    }

    #[test]
    fn ids_suffice_for_any_rate() {
        for rate in [1.0, 5000.0, 100_000.0, 1_000_000.0] {
            for workers in [1, 3] {
                let plan = LoadSpec { workers, ..spec(rate) }.plan().unwrap();
                let ids = plan.slots as f64 * f64::from(plan.flows_per_worker * plan.workers);
                assert!(ids >= 2.0 * rate * 4.0, "{rate}: {plan:?}");
                assert!(plan.flows_per_worker >= 16 && plan.slots <= 65_536);
            }
        }
        assert_eq!(spec(5000.0).plan().unwrap().burst, 5);
        assert_eq!(spec(5.0).plan().unwrap().burst, 1);
    }

    #[test]
    fn the_warm_up_comes_before_the_duration() {
        let plan = LoadSpec { warmup: SECOND, ..spec(100.0) }.plan().unwrap();
        assert_eq!((plan.first_counted, plan.total), (100, 6100));
        let plan = LoadSpec { warmup: SECOND, count: Some(50), ..spec(100.0) }.plan().unwrap();
        assert_eq!((plan.first_counted, plan.total), (100, 150));
        let plan = LoadSpec { duration: None, count: Some(u64::MAX), ..spec(100.0) }.plan().unwrap();
        assert_eq!(plan.total, 100 * 24 * 3600, "the hard cap");
    }

    #[test]
    fn nonsense_is_refused_with_a_flag_to_change() {
        let v6 = vec!["::1".parse().unwrap()];
        for (bad, word) in [
            (LoadSpec { targets: vec![], ..spec(1.0) }, "target"),
            (LoadSpec { duration: None, ..spec(1.0) }, "--duration"),
            (LoadSpec { duration: Some(25 * 3600 * SECOND), ..spec(1.0) }, "24 hours"),
            (LoadSpec { deadline: 0, ..spec(1.0) }, "deadline"),
            (LoadSpec { sources: v6, ..spec(1.0) }, "source"),
            (LoadSpec { workers: 1000, ..spec(1.0) }, "workers"),
            (LoadSpec { pace: Pace::Closed { window: 0 }, ..spec(1.0) }, "window"),
            (spec(0.0), "rate"),
            (spec(f64::NAN), "rate"),
            (spec(0.001), "no query"),
            (LoadSpec { deadline: 3600 * SECOND, ..spec(1e6) }, "--deadline"),
        ] {
            let error = bad.plan().unwrap_err().to_string();
            assert!(error.contains(word), "{error}");
        }
    }

    #[test]
    fn a_specification_travels_as_json() {
        let spec = LoadSpec { allowed: vec!["10.53.0.0/24".parse().unwrap()], ..spec(5000.0) };
        let text = serde_json::to_string(&spec).unwrap();
        assert_eq!(serde_json::from_str::<LoadSpec>(&text).unwrap(), spec);
        let short = r#"{"targets": ["127.0.0.1:53"], "source": {"queries": {"path": "q"}}, "pace": "flood", "count": 5}"#;
        assert_eq!(serde_json::from_str::<LoadSpec>(short).unwrap().deadline, 4 * SECOND);
        assert!(serde_json::from_str::<LoadSpec>(&short.replace("count", "cuont")).is_err());
    }
}
