//! The versions of a real zone on their way to each secondary: octets and lag.

use super::{Measurement, Part, Run, ZoneChanges, lag};
use crate::Experiment;
use measure::metrics;
use measure::{Time, params};

pub const MEASUREMENT: Measurement = Measurement {
    part: Part::OneOfSeveral,
    changes: ZoneChanges::Versions,
    has_variants: true,
    params: |e, _| {
        vec![
            (params::VERSIONS, e.updates.series.len().to_string()),
            (params::EVERY, e.updates.every.to_string()),
        ]
    },
    seconds: |e, _, _| length(e).as_seconds() + 2.0,
    known_by: Some((metrics::LAG_MEAN, |precision| precision.latency)),
    run: Run::Ready(|ready, _, _| lag::wait(ready, length(ready.sut.context.experiment))),
};

/// How long the versions take.
fn length(e: &Experiment) -> Time {
    Time(e.updates.every.0 * e.updates.series.len() as u64)
}
