//! A search over real loads.

use super::{Next, Search, SearchResult};
use crate::{Error, LoadResult, LoadSpec};
use measure::{Arrivals, Nanos, Pace, clock};
use std::sync::atomic::{AtomicBool, Ordering};

/// Measures what the search asks for, with `spec` in all but rate and duration (a tenth of each trial is warm-up
/// besides), until it is done or `stop` is set. `each` learns of every trial: its number from 1, rate, duration, result.
///
/// # Errors
/// As [`crate::run`].
pub fn drive(
    spec: &LoadSpec,
    mut search: Search,
    stop: &AtomicBool,
    each: &mut dyn FnMut(usize, f64, Nanos, &LoadResult),
) -> Result<SearchResult, Error> {
    let mut number = 0;
    while let Next::Measure { rate, duration } = search.next() {
        let trial = LoadSpec {
            pace: Pace::Open(Arrivals::Fixed { rate }),
            duration: Some(duration),
            count: None,
            warmup: duration / 10,
            pacing_limit: spec.pacing_limit.max(super::PACING_LIMIT),
            ..spec.clone()
        };
        let result = crate::run(&trial, || clock::now() + 5_000_000, stop, &mut |_| ())?;
        if result.cut_short || stop.load(Ordering::Relaxed) {
            break;
        }
        number += 1;
        each(number, rate, duration, &result);
        search.report(rate, duration, result.loss_ratio(), result.validity.valid);
    }
    Ok(search.result())
}
