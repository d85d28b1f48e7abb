//! How a load is spread over workers, flows, ids and time: derived from its specification, which is checked by it.

use crate::source::SourceFacts;
use crate::{Backend, Error, LONGEST, LoadSpec, Transport};
use measure::clock::SECOND;
use measure::schedule::Span;
use measure::{Nanos, Pace};
use std::net::{IpAddr, SocketAddr};

/// The most workers, and the most flows of one worker.
const MOST_WORKERS: u32 = 256;
const MOST_FLOWS: u32 = 262_144;

/// The most ids of one worker: 6.4 GB of tables.
const MOST_IDS: u64 = 1 << 28;

/// Queries per second and worker for which id windows are made where the pace does not say.
const CLOSED_RATE: f64 = 250_000.0;
const FLOOD_RATE: f64 = 2_000_000.0;

/// Connections of a worker where nothing is said.
const CONNECTIONS: u32 = 64;

/// Flows and connections of all workers where clients were recorded, each of which keeps to one of them.
const RECORDED_FLOWS: u32 = 1024;
const OWN_CONNECTIONS: u32 = 4096;

/// Queries in one flood batch over sockets: those of one size and flow go in one system call (UDP GSO).
const FLOOD_BURST: u32 = net::udp::FLOOD_BATCH as u32;

/// How a load is spread: derived from its specification.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Plan {
    pub workers: u32,
    pub flows_per_worker: u32,
    /// Ids of each flow's window.
    pub slots: usize,
    /// TCP connections of each worker beside its UDP flows, and the ids of each.
    pub connections: Option<(u32, usize)>,
    pub burst: u32,
    pub span: Span,
    /// The rate that each worker must be able to send, in queries per second.
    pub rate: f64,
}

impl LoadSpec {
    /// Checks all that can be checked without touching the world, and derives the plan. `recorded` is what the source
    /// says of itself where it was recorded.
    pub(crate) fn plan(&self, nature: &SourceFacts) -> Result<Plan, Error> {
        let recorded = nature.recorded.as_ref();
        let refuse = |text: String| Err(Error::Spec(text));
        self.check_numbers()?;
        let workers = match self.workers {
            0 => (self.cpus.len() as u32).max(1),
            n => n,
        };
        if workers > MOST_WORKERS {
            return refuse(format!("{workers} workers: at most {MOST_WORKERS}"));
        }
        let rate = self.worker_rate(recorded, workers)?;
        // Twice what is sent within a deadline, so that an id is never needed again too soon.
        let ids = 2.0 * rate * self.deadline as f64 / SECOND as f64;
        let tcp = self.transport == Transport::Tcp;
        let flows_per_worker = match (self.flows, self.connections.most) {
            (0, 0) if tcp => CONNECTIONS.max((ids / 65_536.0).ceil() as u32),
            (0, most) if tcp => most,
            (0, _) if recorded.is_some() => RECORDED_FLOWS.div_ceil(workers),
            (0, _) => ((ids / 65_536.0).ceil() as u32).max(16).next_multiple_of(self.targets.len() as u32),
            (n, _) => n.div_ceil(workers),
        };
        let slots =
            |flows: u32| ((ids / f64::from(flows)).ceil().min(65_536.0) as usize).next_power_of_two().max(64);
        // Each client that asks over TCP has connections of its own, as far as there are that many.
        let own_tcp = nature.tcp.min(u64::from(OWN_CONNECTIONS)) as u32;
        let beside = self.transport.retries() || self.transport == Transport::Udp && own_tcp > 0;
        let connections = beside.then(|| {
            let most = match self.connections.most {
                0 => CONNECTIONS.max(own_tcp.div_ceil(workers)),
                most => most,
            };
            (most, slots(most))
        });
        for flows in [Some(flows_per_worker), connections.map(|c| c.0)].into_iter().flatten() {
            let in_flight = u64::from(flows) * slots(flows) as u64;
            if flows > MOST_FLOWS || in_flight > MOST_IDS {
                return refuse(format!(
                    "{flows} flows for each worker and room for {in_flight} queries in flight, where {MOST_FLOWS} and \
                     {MOST_IDS} are the most: give a shorter --deadline, a lower rate, or more --workers"
                ));
            }
        }
        let burst = self.worker_burst(rate)?;
        let until = (self.warmup + self.duration.unwrap_or(LONGEST)).min(LONGEST);
        let span = Span { warmup: self.warmup, until, most: self.count.unwrap_or(u64::MAX) };
        Ok(Plan { workers, flows_per_worker, slots: slots(flows_per_worker), connections, burst, span, rate })
    }

    /// The rate that each worker must be able to send, in queries per second.
    fn worker_rate(&self, recorded: Option<&trace::Survey>, workers: u32) -> Result<f64, Error> {
        let refuse = |text: String| Err(Error::Spec(text));
        Ok(match &self.pace {
            Pace::Open(arrivals) => {
                arrivals.check().map_err(Error::Spec)?;
                if arrivals.count(self.warmup + self.duration.unwrap_or(LONGEST - self.warmup)) == 0 {
                    return refuse(format!(
                        "{} queries/s for {} s are no query at all",
                        arrivals.peak(),
                        secs(self.duration.unwrap_or(0))
                    ));
                }
                arrivals.peak() / f64::from(workers)
            }
            Pace::Recorded { speed } if !(speed.is_finite() && *speed > 0.0) => {
                return refuse(format!("a speed of {speed}: it must be above zero"));
            }
            Pace::Recorded { speed } => match recorded {
                Some(survey) => survey.second_max.max(1) as f64 * speed / f64::from(workers),
                None => {
                    return refuse(
                        "only a capture has times of its own: give --rate for other queries".into(),
                    );
                }
            },
            Pace::Closed { window: 0 } => {
                return refuse("a window of 0 sends nothing: give at least 1".into());
            }
            Pace::Closed { .. } => CLOSED_RATE,
            Pace::Flood => FLOOD_RATE,
        })
    }

    /// The most queries that a worker sends at once, at so many per second.
    fn worker_burst(&self, rate: f64) -> Result<u32, Error> {
        let refuse = |text: String| Err(Error::Spec(text));
        Ok(match (self.burst, &self.pace) {
            (0, Pace::Open(_) | Pace::Recorded { .. }) => {
                ((rate / 1000.0).clamp(1.0, 32.0) as u32).max(self.group)
            }
            (0, Pace::Closed { .. }) => 32,
            (0, Pace::Flood) => FLOOD_BURST,
            (n, _) if n < self.group => {
                return refuse(format!(
                    "{} queries due together, but at most {n} sent at once: give a greater --burst",
                    self.group
                ));
            }
            (n, _) => n,
        })
    }

    /// Refuses what cannot be by itself.
    pub(crate) fn check_numbers(&self) -> Result<(), Error> {
        let refuse = |text: String| Err(Error::Spec(text));
        if self.targets.is_empty() {
            return refuse("a load needs a target: give an address such as 127.0.0.1:53".into());
        }
        if self.duration.is_none() && self.count.is_none() && !matches!(self.pace, Pace::Recorded { .. }) {
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
        if let Some(retry) = self.retry.filter(|retry| !(0.0..=1.0).contains(retry)) {
            return refuse(format!("{retry} of the truncated answers asked again: give a share from 0 to 1"));
        }
        if self.transport == Transport::Tcp && self.backend == Backend::Xdp {
            return refuse("TCP goes over sockets only: leave --backend out".into());
        }
        for target in &self.targets {
            if !self.sources.is_empty() && !self.sources.iter().any(|s| s.ip.is_ipv4() == target.is_ipv4()) {
                return refuse(format!(
                    "no source address of {target}'s family: add one or leave sources out"
                ));
            }
        }
        Ok(())
    }

    /// The local address of flow `n`, in the family of its target; none: whichever the system takes.
    pub(crate) fn source_of(&self, n: u32, target: SocketAddr) -> Option<IpAddr> {
        let fitting = || self.sources.iter().filter(|s| s.ip.is_ipv4() == target.is_ipv4());
        let all: u64 = fitting().fold(0, |sum, s| sum.saturating_add(s.hosts()));
        if all == 0 {
            return None;
        }
        // Each source serves every target before the next one's turn.
        let mut at = u64::from(n) / self.targets.len() as u64 % all;
        for source in fitting() {
            match at.checked_sub(source.hosts()) {
                Some(rest) => at = rest,
                None => return Some(source.host(at)),
            }
        }
        unreachable!("the place is below the sum")
    }
}

fn secs(n: Nanos) -> f64 {
    n as f64 / SECOND as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Source;
    use measure::Arrivals;

    fn spec(rate: f64) -> LoadSpec {
        let source: Source = serde_json::from_str(r#"{"traffic": {"queries": {"path": "q"}}}"#).unwrap();
        let pace = Pace::Open(Arrivals::Fixed { rate });
        LoadSpec::new(vec!["127.0.0.1:53".parse().unwrap()], source, pace, 60 * SECOND)
    }

    #[test]
    fn ids_suffice_for_any_rate() {
        for rate in [1.0, 5000.0, 100_000.0, 1_000_000.0] {
            for workers in [1, 3] {
                let plan = LoadSpec { workers, ..spec(rate) }.plan(&SourceFacts::default()).unwrap();
                let ids = plan.slots as f64 * f64::from(plan.flows_per_worker * plan.workers);
                assert!(ids >= 2.0 * rate * 4.0, "{rate}: {plan:?}");
                assert!(plan.flows_per_worker >= 16 && plan.slots <= 65_536);
            }
        }
        assert_eq!(spec(5000.0).plan(&SourceFacts::default()).unwrap().burst, 5);
        assert_eq!(spec(5.0).plan(&SourceFacts::default()).unwrap().burst, 1);
    }

    #[test]
    fn the_warm_up_comes_before_the_duration() {
        let plan = LoadSpec { warmup: SECOND, ..spec(100.0) }.plan(&SourceFacts::default()).unwrap();
        assert_eq!(plan.span, Span { warmup: SECOND, until: 61 * SECOND, most: u64::MAX });
        let plan = LoadSpec { duration: None, count: Some(u64::MAX), ..spec(100.0) }
            .plan(&SourceFacts::default())
            .unwrap();
        assert_eq!(plan.span.until, LONGEST, "the hard cap");
    }

    #[test]
    fn sources_take_turns_behind_the_targets() {
        let targets = vec!["127.0.0.1:53".parse().unwrap(), "[::1]:53".parse().unwrap()];
        let sources = ["127.0.1.0/30", "::2", "127.0.9.9"].map(|s| s.parse().unwrap()).into();
        let spec = LoadSpec { targets, sources, ..spec(1.0) };
        let got: Vec<_> =
            (0..8).map(|n| spec.source_of(n, spec.targets[n as usize % 2]).unwrap().to_string()).collect();
        assert_eq!(got, ["127.0.1.1", "::2", "127.0.1.2", "::2", "127.0.9.9", "::2", "127.0.1.1", "::2"]);
        assert_eq!(LoadSpec { sources: vec![], ..spec.clone() }.source_of(0, spec.targets[0]), None);
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
            (LoadSpec { duration: Some(1), ..spec(0.001) }, "no query"),
            (LoadSpec { pace: Pace::Recorded { speed: 1.0 }, ..spec(1.0) }, "--rate"),
            (LoadSpec { pace: Pace::Recorded { speed: 0.0 }, ..spec(1.0) }, "speed"),
            (LoadSpec { group: 9, burst: 8, ..spec(1.0) }, "--burst"),
            (LoadSpec { retry: Some(1.5), ..spec(1.0) }, "share"),
            (LoadSpec { deadline: 3600 * SECOND, ..spec(1e6) }, "--deadline"),
        ] {
            let error = bad.plan(&SourceFacts::default()).unwrap_err().to_string();
            assert!(error.contains(word), "{error}");
        }
    }
}
