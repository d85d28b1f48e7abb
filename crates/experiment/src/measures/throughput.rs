//! Queries answered per second where each generator keeps a window of them waiting, as queryperf does (ISC 3.3 and 6.3.1, Nominet).

use super::{Measurement, Part, Ready, Run, ZoneChanges, load_params};
use crate::{Error, RunEvent};
use load::search::IDLE_LIMIT;
use measure::metrics;
use measure::units::grouped;
use measure::{Pace, Reason, params};
use results::TrialRecord;

pub const MEASUREMENT: Measurement = Measurement {
    part: Part::Any,
    changes: ZoneChanges::AtRates { alone: false },
    has_variants: true,
    params: |e, _| {
        let mut params = vec![(params::WINDOW, e.throughput.window.to_string())];
        params.extend(e.throughput.count.map(|count| (params::COUNT, count.to_string())));
        params.extend(load_params(e.throughput.duration, e.throughput.deadline));
        params
    },
    seconds: |e, _, of| of.check(e) + e.throughput.warmup.as_seconds() + e.throughput.duration.as_seconds(),
    known_by: Some((metrics::ANSWERED_QPS, |precision| precision.rate)),
    run: Run::Ready(run),
};

fn run(ready: &mut Ready<'_>, record: &mut TrialRecord, tell: &mut dyn FnMut(RunEvent)) -> Result<(), Error> {
    let sut = &ready.sut;
    let given = &sut.context.experiment.throughput;
    // Where all secondaries are asked, each has the whole window.
    let generators = if sut.beside.is_empty() { sut.traffic.generators } else { 1 };
    let window = given.window.saturating_mul(generators);
    let mut load = sut.load(Pace::Closed { window }, given.duration.0)?;
    load.warmup = given.warmup.0;
    load.deadline = given.deadline.0;
    load.count = given.count;
    sut.one_load(&load, None, &mut ready.server, record, tell)?;
    let offered = record.outcome.metric(metrics::OFFERED).unwrap_or_default();
    if let Some(count) = given.count.filter(|count| offered < *count as f64) {
        record.outcome.validity.reject(Reason::new(
            "cut_short",
            format!(
                "{} of {} queries were asked within {}: set throughput.duration higher",
                grouped(offered as u64),
                grouped(count),
                given.duration
            ),
        ));
    }
    let idle = record.outcome.metric(metrics::SERVER_IDLE);
    load::search::forgive_preemption(&mut record.outcome.validity, idle.map(|percent| percent / 100.0));
    let idle = idle.unwrap_or_default();
    if idle > 100.0 * IDLE_LIMIT {
        record.outcome.validity.warn(Reason::new(
            "server_not_busy",
            format!(
                "the server's cores had nothing to do for {idle:.0} % of the time: the window, or the generator, is the \
                 limit; try a larger throughput.window, or more generators"
            ),
        ));
    }
    Ok(())
}
