//! How soon each secondary serves an update.

use super::{Measurement, Part, Ready, Run, ZoneChanges};
use crate::{Error, RunEvent};
use measure::metrics;
use measure::{Time, params};
use results::TrialRecord;
use std::time::Duration;

pub const MEASUREMENT: Measurement = Measurement {
    part: Part::OneOfSeveral,
    changes: ZoneChanges::AtRates { alone: true },
    has_variants: true,
    params: |e, _| {
        vec![(params::DURATION, e.updates.duration.to_string()), (params::MIX, e.updates.mix.clone())]
    },
    seconds: |e, _, _| e.updates.duration.as_seconds() + 2.0,
    known_by: Some((metrics::LAG_MEAN, |precision| precision.latency)),
    run: Run::Ready(run),
};

fn run(ready: &mut Ready<'_>, _: &mut TrialRecord, _: &mut dyn FnMut(RunEvent)) -> Result<(), Error> {
    let length = ready.sut.context.experiment.updates.duration;
    wait(ready, length)
}

/// Waits while changes go on; in the middle of them the last secondary is stopped for as long as is asked.
pub fn wait(ready: &mut Ready<'_>, length: Time) -> Result<(), Error> {
    let distribution = ready.sut.context.experiment.distribution_of(ready.trial.variant.as_deref());
    let away = distribution.away.map(Duration::from);
    // They begin after this time, and are to go on for the whole length.
    ready.sut.context.pause(Duration::from_nanos(ready.sut.context.start_delay()))?;
    ready.absence = ready.sut.go_on(length.into(), away, &mut ready.others)?;
    Ok(())
}
