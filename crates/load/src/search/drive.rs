//! A search over real loads, offered by this process, by a role on a host, or by several of them.

use super::{Next, Offered, Search, SearchResult, Trial};
use crate::{LoadResult, LoadSpec};
use measure::{Arrivals, Pace};

/// The number of the first trial's queries: those below are for the loads with a window.
const OWN_QUERIES: u64 = 1 << 16;

/// Measures what the search asks for, with `spec` in all but rate and duration (a tenth of each trial is warm-up
/// besides), until it is done or a trial was cut short, which then does not count. `measure` offers a load; `each`
/// sees every trial: its number from 1, the trial as it counts, and its result. Each trial has queries of its own
/// ([`crate::Source::nth`]).
///
/// Where the generator could not offer a load over sockets, that load and greater ones are offered over AF_XDP, if that can be
/// had.
///
/// # Errors
/// The errors of `measure`.
pub fn drive<E>(
    spec: &LoadSpec,
    mut search: Search,
    measure: &mut dyn FnMut(&LoadSpec) -> Result<Offered, E>,
    each: &mut dyn FnMut(usize, &Trial, &LoadResult),
) -> Result<SearchResult, E> {
    let mut number = 0;
    let mut too_fast_for_sockets = f64::INFINITY;
    while let Next::Measure { rate, duration } = search.next() {
        let load = LoadSpec {
            source: spec.source.nth(number as u64 + OWN_QUERIES),
            pace: Pace::Open(Arrivals::Fixed { rate }),
            duration: Some(duration),
            count: None,
            warmup: duration / 10,
            pacing_limit: spec.pacing_limit.max(super::PACING_LIMIT),
            prefer_xdp: spec.prefer_xdp || rate >= too_fast_for_sockets,
            ..spec.clone()
        };
        let Offered { result, disturbed, .. } = measure(&load)?;
        if result.cut_short {
            break;
        }
        number += 1;
        let mut trial = Trial::of(search.goal(), rate, duration, &result);
        trial.disturbed = disturbed.is_some();
        if !trial.valid && result.backend.starts_with("socket") && load.can_go_past_sockets() {
            too_fast_for_sockets = too_fast_for_sockets.min(rate);
        }
        each(number, &trial, &result);
        search.record(trial);
        if let Some(text) = disturbed {
            search.disturbances.push((number, text));
        }
    }
    Ok(search.result())
}
