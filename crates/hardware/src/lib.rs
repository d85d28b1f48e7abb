//! Measures a machine without a name server. Section 2 of ISC-TN-2008-1 chose its hardware by the latency and bandwidth of memory; these are
//! measured here, and with them what else decides a name server's speed today: system calls, datagrams, context switches, wake-ups,
//! signatures and syncs.
//!
//! All tests run once in each repeat, and allocate their memory again each time. A test gives several points, and each point is a trial of the
//! run directory ([`measure::params::TEST`] and its neighbours say which), so reports and queries read them as any others. What
//! cannot be measured here is left out, and the reason is given.
//!
//! The machine has to be quiet: a test during which other programs, or the hypervisor, took more than a few percent of its cores is
//! invalid.

mod crypto;
mod disk;
mod facts;
mod memory;
mod network;
mod quiet;
mod short;
mod system;

pub use facts::{Cache, Facts};
pub use short::{Short, environment, short};

use measure::hardware::{
    COPY, CRYPTO, DATAGRAMS, DISK, LATENCY, MEASURE, STREAM, SWITCHES, SYSTEM, WAKE_UPS,
};
use measure::metrics::Definition;
use measure::{Metric, Reason, params};
use net::scheduling::settle;
use quiet::Quiet;
use results::TrialRecord;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

/// How the machine is to be measured.
#[derive(Clone, Debug)]
pub struct Options {
    /// The number of times that each test runs.
    pub repeats: u32,
    /// The CPUs, one of each core: threads are kept on them in this order.
    pub cpus: Vec<usize>,
    /// A folder on the disk that is measured.
    pub folder: PathBuf,
}

/// An error that ends the measurement.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The user interrupted it.
    #[error("stopped: {done} of {of} repeats were measured")]
    Stopped {
        /// Repeats that are whole.
        done: u32,
        /// Repeats that were asked for.
        of: u32,
    },
}

/// A figure that a test measured.
#[derive(Clone, Debug, PartialEq)]
struct Point {
    /// Which of the test's cases: `4 KB pages`, `triad`.
    case: String,
    /// Octets that it works on.
    working_set: Option<u64>,
    /// Threads that do it at the same time.
    threads: usize,
    value: Metric,
}

impl Point {
    fn new(case: impl Into<String>, metric: Definition, value: f64) -> Self {
        Self { case: case.into(), working_set: None, threads: 1, value: metric.of(value) }
    }

    fn of(self, working_set: u64) -> Self {
        Self { working_set: Some(working_set), ..self }
    }

    fn threads(self, threads: usize) -> Self {
        Self { threads, ..self }
    }
}

/// The result of a test: its points, and the reasons why others are missing.
#[derive(Debug, Default)]
struct Measured {
    points: Vec<Point>,
    left_out: Vec<String>,
}

/// The input of all tests.
struct Bench<'a> {
    options: &'a Options,
    facts: &'a Facts,
    /// Only what the short form has.
    brief: bool,
}

/// Runs a test on the first core alone; without it, `what` is left out.
fn on_first_core(bench: &Bench<'_>, what: &str, test: impl FnOnce(&mut Measured)) -> Measured {
    let mut measured = Measured::default();
    match settle(bench.options.cpus.first().copied()) {
        Ok(()) => test(&mut measured),
        Err(why) => measured.left_out.push(format!("{what}: {why}")),
    }
    measured
}

/// A test, and its name in the trials.
type Test = (&'static str, fn(&Bench<'_>) -> Measured);

/// All tests, in the order in which they are made.
const TESTS: &[Test] = &[
    (LATENCY, memory::latency),
    (COPY, memory::copy),
    (STREAM, memory::stream),
    (SYSTEM, system::calls),
    (SWITCHES, system::switches),
    (WAKE_UPS, system::wake_ups),
    (DATAGRAMS, network::datagrams),
    (CRYPTO, crypto::operations),
    (DISK, disk::syncs),
];

/// The progress of a measurement.
#[derive(Debug)]
pub enum Event<'a> {
    /// A test begins.
    Test {
        /// Its name.
        name: &'a str,
        /// From 1.
        repeat: u32,
    },
    /// Something is not measured.
    LeftOut {
        /// What, and why.
        why: &'a str,
    },
}

/// Measures the machine, and gives the trials of each repeat to `keep`, numbered from 1, as soon as it is whole.
///
/// # Errors
/// [`Error`]; those of `keep`.
pub fn measure<E: From<Error>>(
    options: &Options,
    stop: &AtomicBool,
    tell: &mut dyn FnMut(Event<'_>),
    keep: &mut dyn FnMut(Vec<TrialRecord>) -> Result<(), E>,
) -> Result<(), E> {
    let facts = Facts::read();
    let bench = Bench { options, facts: &facts, brief: false };
    let mut id = 0;
    for repeat in 1..=options.repeats {
        let mut trials = Vec::new();
        for (name, test) in TESTS {
            if stop.load(Ordering::Relaxed) {
                return Err(Error::Stopped { done: repeat - 1, of: options.repeats }.into());
            }
            tell(Event::Test { name, repeat });
            let quiet = Quiet::begin(&options.cpus);
            // Each on a thread of its own, so that none is left on the core of the one before.
            let measured = std::thread::scope(|scope| scope.spawn(|| test(&bench)).join());
            let measured = measured.expect("a test does not panic");
            let disturbed = quiet.disturbed();
            if repeat == 1 {
                measured.left_out.iter().for_each(|why| tell(Event::LeftOut { why }));
            }
            for point in measured.points {
                id += 1;
                trials.push(trial(id, repeat, name, point, disturbed.clone()));
            }
        }
        keep(trials)?;
    }
    Ok(())
}

fn trial(id: u32, repeat: u32, test: &str, point: Point, disturbed: Option<Reason>) -> TrialRecord {
    let mut record = TrialRecord { id, repeat, ..TrialRecord::default() };
    record.add_param(params::MEASURE, MEASURE);
    record.add_param(params::TEST, test);
    record.add_param(params::CASE, point.case);
    if let Some(octets) = point.working_set {
        record.add_param(params::WORKING_SET, octets.to_string());
    }
    record.add_param(params::THREADS, point.threads.to_string());
    record.outcome.metrics.push(point.value);
    record.outcome.validity.reject_for(disturbed);
    record
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every test gives figures that can be, on whatever machine this is; nothing is said of how large they are.
    #[test]
    fn each_test_gives_its_figures_or_says_why_not() {
        let folder = std::env::temp_dir();
        let options = Options { repeats: 1, cpus: rack::allowed_cpus(), folder };
        let facts = Facts { last_cache: Some(1 << 20), ..Facts::read() };
        let bench = Bench { options: &options, facts: &facts, brief: false };
        for (name, test) in TESTS {
            let Measured { points, left_out } = test(&bench);
            assert!(!points.is_empty() || !left_out.is_empty(), "{name}");
            for point in &points {
                assert!(point.value.value.is_finite() && point.value.value > 0.0, "{name}: {point:?}");
            }
            for why in left_out {
                eprintln!("left out of {name}: {why}");
            }
            let mut keys: Vec<_> = points.iter().map(|p| (&p.case, p.working_set, p.threads)).collect();
            keys.sort();
            keys.dedup();
            assert_eq!(keys.len(), points.len(), "{name}: two figures of one point");
        }
    }

    #[test]
    fn trials_are_numbered_and_kept_by_the_repeat() {
        let stop = AtomicBool::new(true);
        let options = Options { repeats: 2, cpus: vec![0], folder: "/".into() };
        let ended = measure::<Error>(&options, &stop, &mut |_| (), &mut |_| panic!("nothing was measured"));
        assert_eq!(ended.unwrap_err().to_string(), "stopped: 0 of 2 repeats were measured");
        let point = Point::new("triad", measure::metrics::BANDWIDTH, 5.0).of(64).threads(2);
        let record = trial(7, 2, STREAM, point, Some(Reason::new("busy", "no")));
        assert_eq!((record.param(params::TEST), record.param(params::THREADS)), (Some("STREAM"), Some("2")));
        assert_eq!(record.outcome.metric(measure::metrics::BANDWIDTH), Some(5.0));
        assert!(!record.is_valid());
    }
}
