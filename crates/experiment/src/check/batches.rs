//! Do the batches of an experiment make sense?

use crate::config::Timers;
use crate::{Error, Experiment, Measure};

/// Whether what it says of batches makes sense.
pub fn check(e: &Experiment) -> Result<(), Error> {
    if !e.measure.contains(&Measure::Batches) {
        return Ok(());
    }
    if e.distributions().iter().any(|d| d.primary.is_none()) {
        return Err(e.refuse("measure batches: it needs distribution.primary, which the updates are sent to"));
    }
    let of_variants = e.variant.iter().filter_map(|v| v.batches.as_ref());
    for b in of_variants.chain([&e.batches]) {
        if !(b.share > 0.0 && b.share <= 1.0) {
            return Err(e.refuse("batches.share: above 0 and at most 1, such as 0.1"));
        }
        if b.count == 0 || b.message == 0 {
            return Err(e.refuse("batches: count and message from 1"));
        }
        if !(b.rate.is_finite() && (0.0..=1e6).contains(&b.rate)) {
            return Err(e.refuse("batches.rate: queries per second, from 0 to 1M"));
        }
    }
    if !e.batch_times && e.distributions().iter().any(|d| d.timers != Timers::Default) {
        return Err(e.refuse(
            "batch_times = false: how many transfers carry a batch depends on how busy the cores are, unless the servers wait before they \
             tell of a change: give default timers (distribution.timers), or record times",
        ));
    }
    if !e.batch_times && e.precision.is_some() {
        return Err(e.refuse(
            "precision: batches are repeated until their time is known, and batch_times = false records none",
        ));
    }
    if !e.updates.series.is_empty() {
        return Err(
            e.refuse("measure batches: changes are drawn by updates.mix, not taken from updates.series")
        );
    }
    Ok(())
}
