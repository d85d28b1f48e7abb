//! All trials, a row each.

use crate::cells::Run;
use crate::format;
use measure::metrics::{self, Definition};
use measure::params;
use serde::Serialize;

/// A trial's row in the appendix.
#[derive(Serialize)]
pub(crate) struct TrialView {
    id: u32,
    repeat: u32,
    state: &'static str,
    params: String,
    figures: Vec<(String, String)>,
    remarks: Vec<String>,
    logs: String,
}

/// Metrics of the appendix, where a trial has them.
const KEY_METRICS: &[(Definition, &str)] = &[
    (metrics::OFFERED_QPS, "offered"),
    (metrics::ANSWERED_QPS, "answered"),
    (metrics::SENT, "sent"),
    (metrics::UNSENT, "unsent"),
    (metrics::ANSWERED, "answered in time"),
    (metrics::LOST, "lost"),
    (metrics::LATE, "late"),
    (metrics::MISMATCHED, "mismatched"),
    (metrics::TRUNCATED, "truncated"),
    (metrics::LATENCY.p50, "p50"),
    (metrics::LATENCY.p99, "p99"),
    (metrics::LATENCY.max, "max"),
    (metrics::SERVICE_LATENCY.p99, "p99 from sending"),
    (metrics::PACING_ERROR_P99, "pacing error p99"),
    (metrics::CAPACITY_QPS, "capacity"),
    (metrics::PEAK_QPS, "knee"),
    (metrics::PEAK_LOWER, "lower bound"),
    (metrics::PEAK_UPPER, "upper bound"),
    (metrics::SERVER_READY, "ready after"),
    (metrics::SERVER_PSS, "PSS"),
    (metrics::SERVER_RSS, "RSS"),
    (metrics::SERVER_CPU, "server CPU"),
    (metrics::SERVER_COUNTED_QUERIES, "queries that the server counted"),
    (metrics::SERVER_COUNTED_ANSWERS, "answers that it counted"),
    (metrics::SERVER_COUNTED_TRUNCATED, "truncated ones"),
    (metrics::SERVER_COUNTED_DROPPED, "queries that it dropped"),
];

/// A row for each trial, in the order in which they finished.
pub(crate) fn rows(run: &Run) -> Vec<TrialView> {
    let view_of = |t: &results::TrialRecord| {
        let figure = |(which, word): &(Definition, &str)| {
            Some(((*word).to_owned(), format::value(t.outcome.metric(*which)?, which.unit)))
        };
        let validity = &t.outcome.validity;
        let mut remarks: Vec<String> = t.error.iter().map(|e| format!("failed: {e}")).collect();
        remarks.extend(validity.reasons.iter().map(|r| format!("invalid: {r}")));
        // Their sentences are in the section on validity, once.
        let mut codes: Vec<String> = validity.warnings.iter().map(|r| r.code.clone()).collect();
        codes.dedup();
        remarks.extend(codes);
        remarks.extend(t.skipped.iter().map(|s| format!("skipped: {s}")));
        let state = if t.error.is_some() {
            "failed"
        } else if t.skipped.is_some() {
            "skipped"
        } else if validity.valid {
            "valid"
        } else {
            "invalid"
        };
        let same = t.param(params::KIND) == t.param(params::SERVER);
        let is_elsewhere =
            |k: &str| params::PUBLISHED.is(k) || params::EXPERIMENT.is(k) || (params::KIND.is(k) && same);
        let params = t.params.iter().filter(|(k, _)| !is_elsewhere(k));
        let folder = run.dir.servers_dir(t.id);
        TrialView {
            id: t.id,
            repeat: t.repeat,
            state,
            params: params.map(|(k, v)| format!("{k} {v}")).collect::<Vec<_>>().join(", "),
            figures: KEY_METRICS.iter().filter_map(figure).collect(),
            remarks,
            logs: folder.strip_prefix(run.dir.dir()).unwrap_or(&folder).display().to_string() + "/",
        }
    };
    run.dir.trials().iter().map(view_of).collect()
}
