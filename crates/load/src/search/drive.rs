//! A search over real loads, whoever offers them: this process, a role on a host, several of them.

use super::{Next, Search, SearchResult, Trial};
use crate::{LoadResult, LoadSpec};
use measure::{Arrivals, Pace};

/// Measures what the search asks for, with `spec` in all but rate and duration (a tenth of each trial is warm-up
/// besides), until it is done or a trial was cut short, which then does not count. `measure` offers a load; `each`
/// learns of every trial: its number from 1, the trial as it counts, and its result.
///
/// # Errors
/// Those of `measure`.
pub fn drive<E>(
    spec: &LoadSpec,
    mut search: Search,
    measure: &mut dyn FnMut(&LoadSpec) -> Result<LoadResult, E>,
    each: &mut dyn FnMut(usize, &Trial, &LoadResult),
) -> Result<SearchResult, E> {
    let mut number = 0;
    while let Next::Measure { rate, duration } = search.next() {
        let load = LoadSpec {
            pace: Pace::Open(Arrivals::Fixed { rate }),
            duration: Some(duration),
            count: None,
            warmup: duration / 10,
            pacing_limit: spec.pacing_limit.max(super::PACING_LIMIT),
            ..spec.clone()
        };
        let result = measure(&load)?;
        if result.cut_short {
            break;
        }
        number += 1;
        let trial = Trial::of(search.goal(), rate, duration, &result);
        each(number, &trial, &result);
        search.record(trial);
    }
    Ok(search.result())
}
