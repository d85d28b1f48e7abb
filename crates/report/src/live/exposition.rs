//! The figures as Prometheus reads them: its text format 0.0.4, and OpenMetrics 1.0, which it asks for.

use super::model::Live;
use measure::clock::SECOND;
use measure::{Cumulative, Nanos};
use std::fmt::Write;

/// The format of the figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Prometheus's text format 0.0.4.
    Text,
    /// OpenMetrics 1.0.
    OpenMetrics,
}

impl Format {
    /// The format for a request with this `Accept`: OpenMetrics where it is asked for.
    pub fn accepted(accept: &str) -> Self {
        match accept.contains("application/openmetrics-text") {
            true => Self::OpenMetrics,
            false => Self::Text,
        }
    }

    /// Its media type.
    pub fn media_type(self) -> &'static str {
        match self {
            Self::Text => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

/// One family of samples: name, type, help, and each sample's labels and value.
type Samples = Vec<(String, f64)>;

fn family(out: &mut String, format: Format, name: &str, kind: &str, help: &str, samples: Samples) {
    if samples.is_empty() {
        return;
    }
    // A counter of OpenMetrics is named without the ending of its samples.
    let of_family = match format {
        Format::OpenMetrics => name.strip_suffix("_total").unwrap_or(name),
        Format::Text => name,
    };
    let _ = writeln!(out, "# HELP {of_family} {help}\n# TYPE {of_family} {kind}");
    for (labels, value) in samples {
        let _ = match labels.is_empty() {
            true => writeln!(out, "{name} {value}"),
            false => writeln!(out, "{name}{{{labels}}} {value}"),
        };
    }
}

/// A label's value, in quotes.
fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n"))
}

fn one(value: f64) -> Samples {
    vec![(String::new(), value)]
}

fn option(value: Option<f64>) -> Samples {
    value.map(one).unwrap_or_default()
}

/// Answers by latency since the start, as a histogram.
fn histogram(out: &mut String, name: &str, help: &str, all: &Cumulative) {
    let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} histogram");
    for (below, bound) in all.below.iter().zip(Cumulative::bounds()) {
        let _ = writeln!(out, "{name}_bucket{{le=\"{}\"}} {below}", bound as f64 / 1e9);
    }
    let _ = writeln!(
        out,
        "{name}_bucket{{le=\"+Inf\"}} {}\n{name}_sum {}\n{name}_count {}",
        all.count,
        all.sum as f64 / 1e9,
        all.count
    );
}

/// The text at the wall-clock instant `now` (nanoseconds since 1970): rates and latencies of the last second (of a
/// search: trial), totals, what the cores did, validity so far.
pub fn exposition(live: &Live, now: Nanos, format: Format) -> String {
    let mut out = String::new();
    let mut gauge = |name: &str, help: &str, samples| {
        family(&mut out, format, &format!("dnsrack_{name}"), "gauge", help, samples);
    };
    let about = &live.about;
    let labels = format!(
        "command={},targets={},pace={}",
        quoted(&about.title),
        quoted(&about.targets.join(" ")),
        quoted(&about.pace)
    );
    gauge("load_info", "What runs.", vec![(labels, 1.0)]);
    gauge(
        "load_elapsed_seconds",
        "Time since the first query that counts was due; of a search: spent in trials.",
        option(live.elapsed(now)),
    );
    let planned = about.duration.map(|d| d as f64 / SECOND as f64);
    gauge(
        "load_planned_seconds",
        "For how long queries are offered; of a search: its budget.",
        option(planned),
    );
    if let Some(f) = live.last() {
        gauge("load_offered_queries_per_second", "Queries due in the last second.", one(f.offered()));
        gauge("load_sent_queries_per_second", "Queries sent in the last second.", one(f.sent_qps));
        gauge("load_answered_queries_per_second", "Answers in the last second.", one(f.answered_qps));
        gauge("load_lost_queries_per_second", "Queries given up in the last second.", one(f.lost));
        gauge("load_in_flight_queries", "Queries that wait for their answers.", option(f.in_flight));
        gauge("load_tcp_connections", "TCP connections open.", option(f.open));
        let quantiles = [("0.5", f.latency_p50), ("0.99", f.latency_p99), ("1", f.latency_max)];
        let quantiles = quantiles.map(|(q, us)| (format!("quantile=\"{q}\""), us / 1e6)).into();
        gauge("load_latency_seconds", "From the intended time to the answer, in the last second.", quantiles);
        let pacing = vec![("quantile=\"0.99\"".to_owned(), f.pacing_error_p99 / 1e6)];
        gauge("load_pacing_error_seconds", "How late queries were sent in the last second.", pacing);
        let stall = f.stall_max.map(|us| us / 1e6);
        gauge(
            "load_stall_seconds",
            "The longest that the generator stood still in the last second.",
            option(stall),
        );
    }
    if about.search {
        gauge("search_lower_bound_queries_per_second", "Relevant lower bound so far.", option(live.bounds.0));
        gauge("search_upper_bound_queries_per_second", "Relevant upper bound so far.", option(live.bounds.1));
    }
    let verdict = live.validity();
    gauge("load_valid", "1 where nothing speaks against the figures so far.", one(f64::from(verdict.valid)));
    let code = |code: &str| (format!("code={}", quoted(code)), 1.0);
    let mut codes: Samples = verdict.reasons.iter().map(|r| code(&r.code)).collect();
    codes.dedup();
    gauge("load_invalid", "What speaks against them.", codes);
    let mut cores = Samples::new();
    for c in &live.machine.cores {
        let role = if about.generator.contains(&c.core) { "generator" } else { "other" };
        for (mode, percent) in
            [("user", c.user), ("system", c.system), ("softirq", c.softirq), ("steal", c.steal)]
        {
            cores.push((format!("core=\"{}\",role=\"{role}\",mode=\"{mode}\"", c.core), percent / 100.0));
        }
    }
    gauge("core_ratio", "Share of the last second that a core spent, by mode.", cores);

    let mut counter = |name: &str, help: &str, samples| {
        family(&mut out, format, &format!("dnsrack_{name}_total"), "counter", help, samples);
    };
    let t = &live.totals;
    counter("load_offered_queries", "Queries due.", one(t.offered));
    counter("load_sent_queries", "Queries sent.", one(t.sent));
    counter("load_unsent_queries", "Queries due but not sent.", one(t.unsent));
    counter("load_answered_queries", "Queries answered within the deadline.", one(t.answered));
    counter("load_lost_queries", "Queries not answered within the deadline.", one(t.lost));
    counter("load_truncated_answers", "Answers with TC.", one(t.truncated));
    counter("load_wrong_answers", "Mismatched, duplicate and unexpected answers.", one(t.wrong));
    counter("load_dropped_datagrams", "Datagrams that our own receive buffers dropped.", one(t.drops));
    if about.search {
        counter("search_trials", "Trials so far.", one(live.trials_told as f64));
    }
    let places =
        live.machine.drops.iter().map(|(p, n)| (format!("place={}", quoted(p)), *n as f64)).collect();
    counter("machine_dropped_packets", "Packets dropped since the load began, whoever's they were.", places);
    if let Some(all) = &t.latency {
        let help = "From the intended time to the answer, of all answers since the warm-up.";
        histogram(&mut out, "dnsrack_load_answer_latency_seconds", help, all);
    }
    if format == Format::OpenMetrics {
        out += "# EOF\n";
    }
    out
}
