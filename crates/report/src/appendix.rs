//! All trials, a row each.

use crate::cells::Run;
use crate::format;
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
const KEY_METRICS: &[(&str, &str)] = &[
    ("offered_qps", "offered"),
    ("answered_qps", "answered"),
    ("sent", "sent"),
    ("unsent", "unsent"),
    ("answered", "answered in time"),
    ("lost", "lost"),
    ("late", "late"),
    ("mismatched", "mismatched"),
    ("truncated", "truncated"),
    ("latency_p50", "p50"),
    ("latency_p99", "p99"),
    ("latency_max", "max"),
    ("service_latency_p99", "p99 from sending"),
    ("pacing_error_p99", "pacing error p99"),
    ("capacity_qps", "capacity"),
    ("peak_qps", "knee"),
    ("peak_lower", "lower bound"),
    ("peak_upper", "upper bound"),
    ("server_ready", "ready after"),
    ("server_pss", "PSS"),
    ("server_rss", "RSS"),
    ("server_cpu", "server CPU"),
    ("server_counted_queries", "queries that the server counted"),
    ("server_counted_answers", "answers that it counted"),
    ("server_counted_truncated", "truncated ones"),
    ("server_counted_dropped", "queries that it dropped"),
];

/// A row for each trial, in the order in which they finished.
pub(crate) fn rows(run: &Run) -> Vec<TrialView> {
    let of = |t: &results::TrialRecord| {
        let figure = |(metric, word): &(&str, &str)| {
            let m = t.outcome.metrics.iter().find(|m| m.name == *metric)?;
            Some(((*word).to_owned(), format::value(m.value, &m.unit)))
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
        let same = t.param("kind") == t.param("server");
        let told = |k: &str| k == "published" || k == "experiment" || (k == "kind" && same);
        let params = t.params.iter().filter(|(k, _)| !told(k));
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
    run.dir.trials().iter().map(of).collect()
}
