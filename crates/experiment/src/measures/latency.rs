//! Response latency at a fixed rate, or as a capture has its queries (RZAIA 3.2).

use super::{Measurement, Part, Ready, Run, ZoneChanges, load_params};
use crate::{Error, RunEvent};
use measure::metrics;
use measure::{Arrivals, Pace, params};
use results::TrialRecord;

pub const MEASUREMENT: Measurement = Measurement {
    part: Part::Any,
    changes: ZoneChanges::AtRates { alone: false },
    has_variants: true,
    params: |e, trial| {
        let rate = trial.rate.map_or_else(|| "recorded".into(), |rate| rate.to_string());
        let mut params = vec![(params::RATE, rate)];
        params.extend(load_params(e.latency.duration, e.latency.deadline));
        params
    },
    seconds: |e, _, of| of.check(e) + e.latency.warmup.as_seconds() + e.latency.duration.as_seconds(),
    known_by: Some((metrics::LATENCY.p50, |precision| precision.latency)),
    run: Run::Ready(run),
};

fn run(ready: &mut Ready<'_>, record: &mut TrialRecord, tell: &mut dyn FnMut(RunEvent)) -> Result<(), Error> {
    let sut = &ready.sut;
    let given = &sut.context.experiment.latency;
    let pace = Pace::Open(Arrivals::Fixed { rate: ready.trial.rate.unwrap_or(1.0) });
    let mut load = sut.load(pace, given.duration.0)?;
    // A recorded stream is replayed whole: no warm-up may be left out of it.
    if sut.traffic.trace.is_none() {
        load.warmup = given.warmup.0;
    }
    load.deadline = given.deadline.0;
    load.pacing_limit = given.pacing.0;
    let witness = sut.witness(record);
    sut.one_load(&load, witness, &mut ready.server, record, tell)
}
