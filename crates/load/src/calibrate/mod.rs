//! The limits of this machine: how fast it can send, how fast it can send and receive, how exact its clock and
//! timers are. Every figure is for one worker per core given; over sockets on loopback, and over sockets and AF_XDP
//! between two hosts of a rack.

mod ceiling;

use crate::counts;
use crate::echo::{Echo, EchoSpec};
use crate::run::run_from;
use crate::search::{self, Goal, Search, SearchResult};
use crate::{Backend, Error, LoadResult, LoadSpec};
pub use ceiling::Ceiling;
use measure::clock::{self, SECOND};
use measure::{Arrivals, Histogram, Nanos, Pace};
use net::scheduling::settle;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use traffic::{Query, QuerySource, SourceSpec};

/// Which limits to measure, and for how long.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CalibrateSpec {
    /// An echo that already runs (`load echo`); none: one of our own, on loopback.
    pub target: Option<SocketAddr>,
    /// Cores of the generator; none: one worker, not pinned.
    pub cpus: Vec<usize>,
    /// The core of our own echo; none: not pinned.
    pub echo_cpu: Option<usize>,
    /// Length of each trial, in nanoseconds.
    pub trial: Nanos,
    /// The most time for the trials of the echo search, in nanoseconds.
    pub budget: Nanos,
    /// Targets beyond this machine are meant.
    pub allow_external: bool,
    /// Also between two hosts of a rack, which needs root.
    #[serde(default)]
    pub rack: bool,
}

impl Default for CalibrateSpec {
    fn default() -> Self {
        Self {
            target: None,
            cpus: Vec::new(),
            echo_cpu: None,
            trial: SECOND,
            budget: 30 * SECOND,
            allow_external: false,
            rack: false,
        }
    }
}

/// Percentiles of a delay, in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Delay {
    /// Median.
    pub p50: f64,
    /// 99 % are at or below.
    pub p99: f64,
    /// The greatest.
    pub max: f64,
}

impl Delay {
    fn of(h: &Histogram) -> Self {
        let us = |n: Nanos| n as f64 / 1e3;
        Self { p50: us(h.quantile(0.5)), p99: us(h.quantile(0.99)), max: us(h.max()) }
    }
}

/// The limits of this machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Calibration {
    /// Reading the clock once, in nanoseconds.
    pub clock_ns: f64,
    /// How much too late a thread wakes from a sleep of 200 us.
    pub wakeup_us: Delay,
    /// Gaps above 10 us in a loop that only reads the clock: interrupts, other work, the hypervisor.
    pub gap_us: Delay,
    /// The share of time lost in such gaps, 0 to 1.
    pub gap_share: f64,
    /// Queries per second sent in a flood at a socket that nobody reads.
    pub flood_qps: f64,
    /// Queries per second sent and answered by the echo within 0.1 % loss, in valid trials: the greatest rate that a
    /// trial on this machine can claim. None where no trial was valid.
    pub echo_qps: Option<f64>,
    /// The search behind it.
    pub echo_search: SearchResult,
    /// Pacing error in the best trial.
    pub pacing_error_us: crate::PacingError,
    /// Pacing error at 5,000 queries/s, the rate of RZAIA's latency trials.
    pub pacing_error_5000_us: crate::PacingError,
    /// Latency of the echo at 5,000 queries/s: what every latency measured here contains.
    pub echo_latency_us: crate::Latency,
    /// Datagrams dropped on our side over all trials, by place.
    pub drops: BTreeMap<String, u64>,
    /// The ceilings between two hosts of a rack, one for each way of sending; empty where they were not asked for.
    #[serde(default)]
    pub rack: Vec<Ceiling>,
    /// Why there is no (further) such figure.
    #[serde(default)]
    pub rack_note: Option<String>,
}

/// Queries of one size and many names, made in memory.
struct Plain(u64);

impl QuerySource for Plain {
    fn next(&mut self, query: &mut Query) -> Result<bool, traffic::Error> {
        let name = self.0 % 1_000_000;
        let mut label = *b"\x0bcal00000000\x00";
        for (i, digit) in label[4..12].iter_mut().rev().enumerate() {
            *digit = b'0' + (name / 10u64.pow(i as u32) % 10) as u8;
        }
        wire::query::write(&mut query.bytes, 0, &label, 1, None);
        query.index = self.0;
        self.0 += 1;
        Ok(true)
    }
}

/// Calibrates; `progress` gets a sentence now and then.
///
/// # Errors
/// As [`crate::run`] and [`Echo::open`].
pub fn calibrate(
    spec: &CalibrateSpec,
    stop: &AtomicBool,
    progress: &mut dyn FnMut(&str),
) -> Result<Calibration, Error> {
    let cpu = spec.cpus.first().copied();
    let (clock_ns, wakeup, (gaps, gap_share)) = std::thread::scope(|scope| {
        let timing = scope.spawn(move || {
            settle(cpu)?;
            Ok::<_, Error>((clock_cost(), wakeups(), gaps()))
        });
        timing.join().expect("timing does not panic")
    })?;
    progress("clock and timers done");

    let system = |error| Error::System { what: "cannot open a socket on loopback", error };
    let hole = UdpSocket::bind("127.0.0.1:0").map_err(system)?;
    let way = SendingMethod { spec, backend: Backend::Socket, stop };
    let flood = way.flood(hole.local_addr().map_err(system)?)?;
    drop(hole);
    progress(&format!("flood: {:.0} queries/s", flood.counts.sent_qps));

    let own = match spec.target {
        Some(_) => None,
        None => {
            let addr = SocketAddr::from(([127, 0, 0, 1], 0));
            Some(Echo::open(&EchoSpec { cpu: spec.echo_cpu, ..EchoSpec::new(addr) })?)
        }
    };
    let target = own.as_ref().map(Echo::addr).or(spec.target).expect("one of them is there");
    let echo_stop = AtomicBool::new(false);
    let mut calibration = std::thread::scope(|scope| {
        let echo = own.map(|echo| scope.spawn(|| echo.run(&echo_stop, &mut |_| ())));
        let result = way.with_echo(target, progress);
        echo_stop.store(true, Ordering::Relaxed);
        if let Some(echo) = echo {
            echo.join().expect("an echo does not panic")?;
        }
        let (found, best, steady) = result?;
        Ok::<_, Error>(Calibration {
            clock_ns,
            wakeup_us: Delay::of(&wakeup),
            gap_us: Delay::of(&gaps),
            gap_share,
            flood_qps: flood.counts.sent_qps,
            echo_qps: proven_or_best(&found, &best),
            echo_search: found,
            pacing_error_us: best.pacing_error_us,
            pacing_error_5000_us: steady.pacing_error_us,
            echo_latency_us: steady.latency_us,
            drops: dropped([&flood, &best, &steady]),
            rack: Vec::new(),
            rack_note: None,
        })
    })?;
    if spec.rack {
        let note = ceiling::measure(spec, &mut calibration.rack, stop, progress);
        calibration.rack_note = note.err().map(|e| e.to_string());
    }
    Ok(calibration)
}

/// The datagrams dropped in three loads, by place.
fn dropped(loads: [&LoadResult; 3]) -> BTreeMap<String, u64> {
    let mut sum = BTreeMap::new();
    loads.into_iter().for_each(|load| counts::add(&mut sum, load.drops.clone()));
    sum
}

/// A way of sending, for the trials of a calibration.
struct SendingMethod<'a> {
    spec: &'a CalibrateSpec,
    backend: Backend,
    stop: &'a AtomicBool,
}

impl SendingMethod<'_> {
    /// A load of plain queries.
    fn plain(&self, target: SocketAddr, pace: Pace, duration: Nanos) -> LoadSpec {
        let nothing =
            SourceSpec::Queries(traffic::QueriesSpec { path: "/dev/null".into(), edns: None, cycle: true });
        LoadSpec {
            cpus: self.spec.cpus.clone(),
            deadline: SECOND,
            warmup: duration / 10,
            pacing_limit: search::PACING_LIMIT,
            allow_external: self.spec.allow_external,
            backend: self.backend,
            ..LoadSpec::new(vec![target], nothing, pace, duration)
        }
    }

    /// Offers such a load.
    fn run(&self, load: &LoadSpec) -> Result<LoadResult, Error> {
        let sources = (0..load.cpus.len().max(1) as u64)
            .map(|w| Box::new(Plain(w * 100_000)) as Box<dyn QuerySource + Send>)
            .collect();
        run_from(load, sources, || clock::now() + 5_000_000, self.stop, &mut |_| ())
    }

    /// A flood at a socket that nobody reads.
    fn flood(&self, target: SocketAddr) -> Result<LoadResult, Error> {
        self.run(&self.plain(target, Pace::Flood, self.spec.trial))
    }

    /// The search over an echo, its best valid trial, and a trial at 5,000 queries/s.
    fn with_echo(
        &self,
        target: SocketAddr,
        progress: &mut dyn FnMut(&str),
    ) -> Result<(SearchResult, LoadResult, LoadResult), Error> {
        let trial = self.spec.trial;
        let load = self.plain(target, Pace::Open(Arrivals::Fixed { rate: 5000.0 }), 2 * trial);
        let steady = self.run(&load)?;
        let goal =
            Goal { initial_trial: trial / 4, final_trial: trial, duration_sum: 2 * trial, ..Goal::default() };
        let (allowed, mut best) = (goal.loss_ratio, LoadResult::default());
        let search = Search::new(goal, self.spec.budget).start(100_000.0);
        let found =
            search::drive(&load, search, &mut |load| self.run(load).map(Into::into), &mut |_, trial, r| {
                progress(&format!(
                    "echo at {:.0}/s: {:.0}/s answered, {}",
                    trial.rate,
                    r.counts.answered_qps,
                    r.validity.reasons.first().map_or("valid", |r| &r.code)
                ));
                let better = r.counts.answered_qps > best.counts.answered_qps;
                if better && trial.valid && trial.loss_ratio <= allowed {
                    best = r.clone();
                }
            })?;
        Ok((found, best, steady))
    }
}

/// The rate that the search proved; where its budget ended before, that of its best valid trial.
fn proven_or_best(found: &SearchResult, best: &LoadResult) -> Option<f64> {
    found.peak_qps.or(found.lower).or_else(|| Some(best.counts.answered_qps).filter(|qps| *qps > 0.0))
}

/// Nanoseconds of one reading.
fn clock_cost() -> f64 {
    const READINGS: u32 = 200_000;
    let start = clock::now();
    for _ in 0..READINGS {
        std::hint::black_box(clock::now());
    }
    (clock::now() - start) as f64 / f64::from(READINGS)
}

/// How late a thread wakes.
fn wakeups() -> Histogram {
    const SLEEP: Nanos = 200_000;
    let mut late = Histogram::default();
    for _ in 0..2000 {
        let until = clock::now() + SLEEP;
        std::thread::sleep(Duration::from_nanos(SLEEP));
        late.record(clock::now().saturating_sub(until));
    }
    late
}

/// Gaps in half a second of reading the clock, and the share of time in them.
fn gaps() -> (Histogram, f64) {
    const LEAST: Nanos = 10_000;
    let (mut gaps, mut lost) = (Histogram::default(), 0);
    let start = clock::now();
    let mut last = start;
    while last < start + SECOND / 2 {
        let now = clock::now();
        if now - last > LEAST {
            gaps.record(now - last);
            lost += now - last;
        }
        last = now;
    }
    (gaps, lost as f64 / (last - start) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_calibration_fills_every_figure() {
        let spec = CalibrateSpec { trial: SECOND / 20, budget: SECOND, ..CalibrateSpec::default() };
        let mut said = 0;
        let c = calibrate(&spec, &AtomicBool::new(false), &mut |_| said += 1).unwrap();
        assert!(c.clock_ns > 0.0 && c.wakeup_us.max > 0.0 && c.flood_qps > 0.0, "{c:?}");
        assert!(!c.echo_search.trials.is_empty() && said > 2);
        let text = serde_json::to_string(&c).unwrap();
        assert!(serde_json::from_str::<Calibration>(&text).is_ok());
    }

    #[test]
    fn plain_queries_are_queries() {
        let (mut source, mut a, mut b) = (Plain(123), Query::default(), Query::default());
        assert!(source.next(&mut a).unwrap() && source.next(&mut b).unwrap());
        let name = |q: &Query| wire::question::parse(&q.bytes).unwrap().qname.to_vec();
        assert_eq!(name(&a), b"\x0bcal00000123\x00");
        assert_ne!(name(&a), name(&b));
    }
}
