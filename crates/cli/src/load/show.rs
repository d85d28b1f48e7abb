//! Results of loads as text: what an engineer must see at three in the morning, most important last.

use ::load::calibrate::{CalibrateSpec, Calibration, Delay};
use ::load::search::{Class, LatencyAt, SearchResult, WindowLoad};
use ::load::{Counts, Latency, LoadResult, LoadSpec};
use measure::clock::SECOND;
use measure::units::grouped;
use measure::{Definition, Nanos, Reason, Validity, metrics};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt::Write;

/// One second of a run, on one line.
pub fn second(second: u64, values: &Value) -> String {
    let count = |figure: Definition| grouped(figure.among(values).unwrap_or(0.0) as u64);
    format!(
        "{second:>5} s  sent {}/s  answered {}/s  p50 {} us  p99 {} us  max {} us  unsent {}",
        count(metrics::SENT_QPS),
        count(metrics::ANSWERED_QPS),
        count(metrics::LATENCY.p50),
        count(metrics::LATENCY.p99),
        count(metrics::LATENCY.max),
        count(metrics::UNSENT),
    )
}

/// One trial of a search, on one line.
pub fn trial(number: usize, rate: f64, duration: Nanos, result: &LoadResult) -> String {
    format!(
        "{number:>5}  offered {}/s for {} s  answered {}/s  lost {:.3} %  {}",
        grouped(rate as u64),
        duration as f64 / SECOND as f64,
        grouped(result.counts.answered_qps as u64),
        result.loss_ratio() * 100.0,
        result.validity.reasons.iter().map(|r| r.code.as_str()).reduce(|a, _| a).unwrap_or("valid"),
    )
}

/// A number of microseconds: digits that matter, and no more.
pub fn us(value: f64) -> String {
    if value < 10.0 {
        format!("{value:.2}")
    } else if value < 100.0 {
        format!("{value:.1}")
    } else {
        grouped(value.round() as u64)
    }
}

fn latency_row(out: &mut String, name: &str, l: &Latency, from: &str) {
    let [a, b, c, d, e] = [l.p50, l.p90, l.p99, l.p999, l.max].map(us);
    let _ = writeln!(out, "{name:<13}{a:>11}{b:>11}{c:>11}{d:>11}{e:>11}   {from}");
}

/// The sentences of a verdict; the last lines, where the eye ends.
fn verdict(out: &mut String, validity: &Validity) {
    let mut tell = |word: &str, reasons: &[Reason]| {
        for reason in reasons {
            let _ = writeln!(out, "{word}: {reason}");
        }
    };
    tell("warning", &validity.warnings);
    tell("INVALID", &validity.reasons);
    if validity.valid {
        out.push_str("valid: the generator offered what it claims, on time, and dropped nothing\n");
    }
}

/// The result of `load run`.
pub fn run(spec: &LoadSpec, r: &LoadResult) -> String {
    let mut out = String::new();
    let c = &r.counts;
    let targets: Vec<_> = spec.targets.iter().map(ToString::to_string).collect();
    let _ = writeln!(out, "{} for {:.3} s, deadline {} s", targets.join(" "), r.duration_s, r.deadline_s);
    for (name, count, qps, rest) in [
        ("offered", c.offered, c.offered_qps, String::new()),
        ("sent", c.sent, c.sent_qps, format!("   unsent {}", grouped(c.unsent))),
        ("answered", c.answered, c.answered_qps, answers(c)),
    ] {
        let _ = writeln!(out, "{name:<9}{:>15}{:>15}/s{rest}", grouped(count), grouped(qps.round() as u64));
    }
    let _ = writeln!(
        out,
        "{:<9}{:>15}{:>15} %   late {}, mismatched {}, duplicates {}, unexpected {}, truncated {}, ICMP errors {}",
        "lost",
        grouped(c.lost),
        format!("{:.3}", r.loss_ratio() * 100.0),
        grouped(c.late),
        grouped(r.mismatched),
        grouped(r.duplicates),
        grouped(r.unexpected),
        grouped(c.truncated),
        grouped(r.icmp),
    );
    if c.in_flight > 0 {
        let _ = writeln!(out, "{:<9}{:>15}", "waiting", grouped(c.in_flight));
    }
    let _ =
        writeln!(out, "\n{:<13}{:>11}{:>11}{:>11}{:>11}{:>11}", "us", "p50", "p90", "p99", "p99.9", "max");
    latency_row(&mut out, "latency", &r.latency_us, "from the intended time");
    latency_row(&mut out, "service", &r.service_latency_us, "from the send");
    if c.lost > 0 {
        latency_row(
            &mut out,
            "with lost",
            &r.latency_with_lost_us,
            "from the intended time, lost ones at the deadline",
        );
    }
    for (name, part) in [("background", &r.background), ("retried", &r.tcp_retries)] {
        if let Some(part) = part {
            let from = if name == "retried" { "from the truncated answer" } else { "from the intended time" };
            latency_row(&mut out, name, &part.latency_us, from);
        }
    }
    if let Some(tcp) = &r.tcp {
        latency_row(&mut out, "handshake", &tcp.handshake_us, "from the SYN");
    }
    if r.histograms.pacing_error.count() > 0 {
        let p = &r.pacing_error_us;
        let [a, b, c] = [p.p50, p.p99, p.max].map(us);
        let _ = writeln!(
            out,
            "{:<13}{a:>11}{:>11}{b:>11}{:>11}{c:>11}   sent after the intended time",
            "pacing error", "", ""
        );
    }
    beside(&mut out, r);
    let drops: Vec<_> = r
        .drops
        .iter()
        .filter(|(_, n)| **n > 0)
        .map(|(place, n)| format!("{place} {}", grouped(*n)))
        .collect();
    let _ = writeln!(
        out,
        "\ngenerator: {} worker{}{}, {} by {}{}, {} flows, bursts of at most {}{}, receive buffers of {} bytes, {} bytes of tables, \
         {} of transports; drops: {}",
        r.workers,
        if r.workers == 1 { "" } else { "s" },
        if spec.cpus.is_empty() { String::new() } else { format!(" on cpu {}", list(&spec.cpus)) },
        r.transport,
        r.backend,
        r.backend_note.as_ref().map_or(String::new(), |why| format!(" (no AF_XDP: {why})")),
        grouped(r.flows.into()),
        r.burst,
        if r.group > 1 { format!(", due {} at a time", r.group) } else { String::new() },
        grouped(r.recv_buffer),
        grouped(r.table_bytes),
        grouped(r.transport_bytes),
        if drops.is_empty() { "none".into() } else { drops.join(", ") },
    );
    for finding in &r.findings {
        let _ = writeln!(out, "finding: {finding}");
    }
    verdict(&mut out, &r.validity);
    out
}

/// The traffic beside the measured one, connections, and the check of answers.
fn beside(out: &mut String, r: &LoadResult) {
    for (name, part) in [("background", &r.background), ("retried over TCP", &r.tcp_retries)] {
        let Some(p) = part.as_ref().map(|part| &part.counts) else { continue };
        let _ = writeln!(
            out,
            "\n{name}: offered {} ({}/s), sent {}, answered {}, lost {}, truncated {}",
            grouped(p.offered),
            grouped(p.offered_qps.round() as u64),
            grouped(p.sent),
            grouped(p.answered),
            grouped(p.lost),
            grouped(p.truncated),
        );
    }
    if let Some(c) = r.tcp.as_ref().map(|tcp| &tcp.counts) {
        let _ = writeln!(
            out,
            "\nTCP: {} connections begun, {} established, at most {} open; refused {}, unreachable {}, reset {}, closed by \
             the server {}, by us {}; {} queries cut off, {} not opened for want of ports or descriptors",
            grouped(c.begun),
            grouped(c.established),
            grouped(c.open_max),
            grouped(c.refused),
            grouped(c.unreachable),
            grouped(c.reset),
            grouped(c.closed_by_server),
            grouped(c.closed_by_us),
            grouped(c.queries_cut_off),
            grouped(c.local_failures),
        );
    }
    if let Some(c) = &r.checked {
        let named = |counts: &BTreeMap<String, u64>| -> Vec<String> {
            counts.iter().map(|(name, n)| format!("{name} {}", grouped(*n))).collect()
        };
        let _ = write!(
            out,
            "\nanswers checked in full: {} of {} sampled ({}); {} signatures verified; right {}, WRONG {}",
            grouped(c.checked),
            grouped(c.sampled),
            named(&c.kinds).join(", "),
            grouped(c.signatures),
            grouped(c.right),
            grouped(c.checked - c.right),
        );
        for (word, counts) in [("faults", &c.wrong), ("odd", &c.odd), ("not compared", &c.unchecked)] {
            if !counts.is_empty() {
                let _ = write!(out, "; {word}: {}", named(counts).join(", "));
            }
        }
        out.push('\n');
        for e in c.examples.iter().take(5) {
            let _ = writeln!(
                out,
                "  {} at {}: {}: expected {}, got {}",
                e.question, e.target, e.fault, e.expected, e.got
            );
        }
    }
}

fn answers(c: &Counts) -> String {
    let codes: Vec<_> = c.rcodes.iter().map(|(code, n)| format!("{code} {}", grouped(*n))).collect();
    if codes.is_empty() { String::new() } else { format!("   {}", codes.join(", ")) }
}

fn list(cpus: &[usize]) -> String {
    cpus.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}

/// A search's goal and what it took, in a sentence.
pub fn goal(r: &SearchResult) -> String {
    let g = &r.goal;
    let s = |n: Nanos| n as f64 / SECOND as f64;
    format!(
        "goal (RFC 9971): loss ratio {}, exceed ratio {}, trials of {} s ({} s at first), {} s at a load, width {} % of the \
         upper bound; {:.1} s of {} s used",
        g.loss_ratio,
        g.exceed_ratio,
        s(g.final_trial),
        s(g.initial()),
        s(g.duration_sum),
        g.width * 100.0,
        r.spent_s,
        r.budget_s,
    )
}

/// The result of `load search`.
pub fn search(r: &SearchResult) -> String {
    let mut out = String::new();
    let rate = |r: Option<f64>| r.map_or("-".into(), |r| grouped(r.round() as u64));
    let _ = writeln!(out, "{:>12}  {:>7}  {:>12}  class", "load, 1/s", "trials", "worst loss");
    for (load, class) in &r.loads {
        let trials = r.trials.iter().filter(|t| t.rate == *load);
        let worst = trials.clone().map(|t| t.loss_ratio).fold(0.0, f64::max);
        let class = match class {
            Class::Lower => "lower bound",
            Class::Upper => "upper bound",
            Class::Undecided => "undecided",
            Class::Unusable => "the generator cannot offer it",
            Class::Disturbed => "disturbed by the machine each time",
        };
        let _ = writeln!(
            out,
            "{:>12}  {:>7}  {:>10.3} %  {class}",
            grouped(*load as u64),
            trials.count(),
            worst * 100.0
        );
    }
    out += &latencies(&r.latency_at);
    let _ = writeln!(out, "\n{}", goal(r));
    let _ = writeln!(
        out,
        "knee: {}",
        match (r.lower, r.proven_upper()) {
            (Some(low), Some(high)) => format!("between {}/s and {}/s", rate(Some(low)), rate(Some(high))),
            (Some(low), None) => format!("at least {}/s", rate(Some(low))),
            (None, Some(high)) => format!("below {}/s", rate(Some(high))),
            (None, None) => "not known".into(),
        }
    );
    if let Some((qps, (low, high), c)) = r.capacity.as_ref().and_then(|c| Some((c.qps?, c.range?, c))) {
        let _ = writeln!(
            out,
            "capacity: {}{}/s answered (loads {} to {}), {}",
            if c.at_least { "at least " } else { "" },
            rate(Some(qps)),
            rate(Some(low)),
            rate(Some(high)),
            if c.from_open_loads {
                "in open loads above the knee".into()
            } else {
                format!("with a window of {}", c.window)
            }
        );
    }
    let validity = r.validity();
    for (word, reasons) in [("warning", &validity.warnings), ("INVALID", &validity.reasons)] {
        for reason in reasons {
            let _ = writeln!(out, "{word}: {reason}");
        }
    }
    out
}

/// One line for a load with a window, while a search goes on.
pub fn window_load(number: usize, window: u32, seen: &WindowLoad) -> String {
    let why = seen.not_counted.as_ref().map_or(String::new(), |why| format!("; it does not count: {why}"));
    format!(
        "load {number}: window of {window}, answered {}/s over {}{why}",
        grouped(seen.sustained_qps.round() as u64),
        seen.backend
    )
}

/// The result of `load calibrate`.
pub fn calibration(spec: &CalibrateSpec, c: &Calibration) -> String {
    let mut out = String::new();
    let delay = |d: &Delay| format!("p50 {} us, p99 {} us, max {} us", us(d.p50), us(d.p99), us(d.max));
    let drops: Vec<_> =
        c.drops.iter().filter(|(_, n)| **n > 0).map(|(p, n)| format!("{p} {}", grouped(*n))).collect();
    let p = &c.pacing_error_5000_us;
    for (name, value) in [
        (
            "cores",
            format!(
                "{}, echo {}",
                list(&spec.cpus),
                match (spec.target, spec.echo_cpu) {
                    (Some(target), _) => format!("at {target}"),
                    (None, Some(cpu)) => format!("on {cpu}"),
                    (None, None) => "anywhere".into(),
                }
            ),
        ),
        ("clock", format!("{:.0} ns a reading", c.clock_ns)),
        ("wake-up", format!("{} late", delay(&c.wakeup_us))),
        ("gaps", format!("{}; {:.2} % of the time", delay(&c.gap_us), c.gap_share * 100.0)),
        ("flood", format!("{} queries/s sent, loopback, nobody answers", grouped(c.flood_qps as u64))),
        (
            "echo",
            match c.echo_qps {
                Some(qps) => format!(
                    "{} queries/s sent, answered and timed (pacing error p99 {} us)",
                    grouped(qps as u64),
                    us(c.pacing_error_us.p99)
                ),
                None => "no valid trial".into(),
            },
        ),
        (
            "at 5,000/s",
            format!(
                "pacing error p50 {} us, p99 {} us, max {} us; latency p50 {} us, p99 {} us",
                us(p.p50),
                us(p.p99),
                us(p.max),
                us(c.echo_latency_us.p50),
                us(c.echo_latency_us.p99)
            ),
        ),
        ("drops", if drops.is_empty() { "none".into() } else { drops.join(", ") }),
    ] {
        let _ = writeln!(out, "{name:<11}{value}");
    }
    for reason in c.echo_search.validity().warnings.iter().chain(&c.echo_search.validity().reasons) {
        let _ = writeln!(out, "note: {reason}");
    }
    out
}

/// The latency trials as a table: from the intended time, in microseconds.
fn latencies(trials: &[LatencyAt]) -> String {
    let mut out = String::new();
    if trials.is_empty() {
        return out;
    }
    let _ = writeln!(
        out,
        "\n{:>7}{:>15}{:>15}{:>10}{:>10}{:>10}{:>10}{:>11}  latency in us, from the intended time",
        "of peak", "offered, 1/s", "answered, 1/s", "lost", "p50", "p90", "p99", "p99.9"
    );
    for LatencyAt { fraction, rate, result } in trials {
        let l = &result.latency_us;
        let [p50, p90, p99, p999] = [l.p50, l.p90, l.p99, l.p999].map(us);
        let _ = writeln!(
            out,
            "{:>7}{:>15}{:>15}{:>10}{p50:>10}{p90:>10}{p99:>10}{p999:>11}  {}",
            format!("{:.0} %", fraction * 100.0),
            grouped(*rate as u64),
            grouped(result.counts.answered_qps.round() as u64),
            format!("{:.3} %", result.loss_ratio() * 100.0),
            result.validity.reasons.first().map_or("valid", |r| &r.code),
        );
    }
    out
}
