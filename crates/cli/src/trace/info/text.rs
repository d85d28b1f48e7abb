//! `trace info` for people: the lines of ISC-TN-2008-1 section 5.1, then what RZAIA counted.

use crate::output;
use measure::units::grouped;
use std::fmt::Write;
use trace::facts::report::{Outcome, Quantiles, Report, Summary, TruncatedOf};

/// Rows of a table that are shown at most.
const ROWS: usize = 24;

fn share(part: u64, of: u64) -> String {
    match of {
        0 => "-".into(),
        of => percent(part as f64 / of as f64),
    }
}

/// Enough digits to tell small shares from none.
fn percent(share: f64) -> String {
    let percent = share * 100.0;
    if percent >= 0.1 || percent == 0.0 { format!("{percent:.1} %") } else { format!("{percent:.4} %") }
}

/// RFC 3339, UTC, to the microsecond.
pub fn time(nanos: u64) -> String {
    output::time(nanos).strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string()
}

/// Writing to a string cannot fail.
macro_rules! line {
    ($out:expr, $($arg:tt)*) => { let _ = writeln!($out, $($arg)*); };
}

pub fn report(r: &Report) -> String {
    let mut out = String::new();
    head(&mut out, r);
    types(&mut out, r);
    codes(&mut out, r);
    if r.queries > 0 {
        queries(&mut out, r);
    }
    if r.responses > 0 {
        responses(&mut out, r);
    }
    tcp(&mut out, r);
    clients(&mut out, r);
    skipped(&mut out, r);
    out
}

fn head(out: &mut String, r: &Report) {
    let start = r.start_ns.map_or_else(|| "never".into(), time);
    line!(out, "Start: {start}, duration: {:.6} s, {} packets", r.duration_s, grouped(r.packets));
    let failed = if r.responses == 0 {
        "no answers in this trace".into()
    } else {
        format!("{} failed, {} unanswered", share(r.failed, r.queries), share(r.unanswered, r.queries))
    };
    line!(out, "{} requests ({failed}), {} responses", grouped(r.queries), grouped(r.responses));
    let rate = |rate: Option<f64>| rate.map_or_else(|| "-".into(), |rate| format!("{rate:.1}"));
    line!(
        out,
        "Requests/s: mean {}, 95th percentile {}, maximum {} (windows of {} s{})",
        rate(r.rate.mean),
        rate(r.rate.p95),
        rate(r.rate.max),
        r.rate.window_s,
        if r.rate.max.is_none() { ", of which none was over: see --window" } else { "" }
    );
    let of_answers = if r.responses == 0 {
        String::new()
    } else {
        format!(" ({} failed)", share(r.recursive.failed, r.recursive.count))
    };
    line!(
        out,
        "{} recursive queries{of_answers}; {} authoritative replies",
        grouped(r.recursive.count),
        grouped(r.authoritative)
    );
    if r.unsolicited > 0 {
        line!(out, "{} responses without their query in the trace", grouped(r.unsolicited));
    }
}

fn types(out: &mut String, r: &Report) {
    let mut all: Vec<(&String, &Outcome)> = r.types.iter().collect();
    all.sort_by_key(|(name, o)| (std::cmp::Reverse(o.count), *name));
    line!(out, "\nQueries by type (with the class where it is not IN):");
    for (name, o) in all.iter().take(ROWS) {
        let count = grouped(o.count);
        let _ = write!(out, "{count:>15} {:>9}  {name:<12}", share(o.count, r.queries));
        if r.responses > 0 {
            let _ = write!(out, " {:>13} failed {:>9}", grouped(o.failed), share(o.failed, o.count));
            if o.unanswered > 0 {
                let _ = write!(out, "  {:>9} unanswered", grouped(o.unanswered));
            }
        }
        out.push('\n');
    }
    if let Some(rest) = all.get(ROWS..).filter(|rest| !rest.is_empty()) {
        let sum: u64 = rest.iter().map(|(_, o)| o.count).sum();
        line!(
            out,
            "{:>15} {:>9}  {} more types: --json has them",
            grouped(sum),
            share(sum, r.queries),
            rest.len()
        );
    }
}

fn codes(out: &mut String, r: &Report) {
    let table = |out: &mut String, title: &str, counts: &std::collections::BTreeMap<String, u64>, of: u64| {
        if counts.is_empty() {
            return;
        }
        line!(out, "\n{title}:");
        let mut all: Vec<_> = counts.iter().collect();
        all.sort_by_key(|&(name, n)| (std::cmp::Reverse(n), name));
        all.iter().for_each(|&(name, &n)| {
            line!(out, "{:>15} {:>9}  {name}", grouped(n), share(n, of));
        });
    };
    table(out, "Response codes", &r.rcodes, r.responses);
    table(out, "Opcodes of queries", &r.opcodes, r.queries);
    table(out, "ICMP errors about DNS", &r.icmp, r.icmp.values().sum());
}

fn queries(out: &mut String, r: &Report) {
    let q = r.queries;
    line!(
        out,
        "\nQueries: {} names in lower case (estimate, standard error {})",
        grouped(r.names),
        percent(r.sketch_error)
    );
    line!(
        out,
        "  UDP {}, TCP {}; IPv4 {}, IPv6 {}",
        share(r.transport.udp, q),
        share(r.transport.tcp, q),
        share(r.family.ipv4, q),
        share(r.family.ipv6, q)
    );
    line!(
        out,
        "  EDNS {}, DO {}; DF {} of those over UDP",
        share(r.edns.present, q),
        share(r.edns.do_bit, q),
        share(r.df, r.transport.udp)
    );
    let mut sizes: Vec<_> = r.edns.sizes.iter().collect();
    sizes.sort_by_key(|&(size, n)| (std::cmp::Reverse(n), size));
    let sizes: Vec<String> = sizes
        .iter()
        .take(8)
        .map(|&(size, &n)| {
            let with_do = r.edns.sizes_do.get(size).copied().unwrap_or(0);
            format!("{size}: {} (DO {})", share(n, r.edns.present), share(with_do, n))
        })
        .collect();
    if !sizes.is_empty() {
        line!(out, "  UDP sizes of those with EDNS: {}", sizes.join(", "));
    }
    let sums = |counts: &std::collections::BTreeMap<trace::ChecksumState, u64>, of: u64| {
        let all: Vec<_> = counts
            .iter()
            .map(|(state, &n)| format!("{} {}", format!("{state:?}").to_lowercase(), share(n, of)))
            .collect();
        all.join(", ")
    };
    if r.transport.udp > 0 {
        line!(out, "  UDP checksums of queries: {}", sums(&r.checksums.queries, r.transport.udp));
    }
    let answers: u64 = r.checksums.responses.values().sum();
    if answers > 0 {
        line!(out, "  UDP checksums of responses: {}", sums(&r.checksums.responses, answers));
    }
    for (name, s) in &r.query_size {
        size(out, &format!("Queries over {}", name.to_uppercase()), s);
    }
}

fn size(out: &mut String, name: &str, s: &Summary) {
    if s.count > 0 {
        let Summary { mean, p50, p90, p99, max, .. } = s;
        line!(
            out,
            "  {name}: {mean:.1} octets of DNS on average, median {p50}, 90 % {p90}, 99 % {p99}, most {max}"
        );
    }
}

fn responses(out: &mut String, r: &Report) {
    line!(out, "\nResponses:");
    size(out, "Over UDP", &r.response_size.udp);
    size(out, "Over TCP", &r.response_size.tcp);
    for (code, s) in &r.response_size.rcodes {
        size(out, code, s);
    }
    let above: Vec<String> = r
        .response_size
        .udp_above
        .iter()
        .map(|(size, &n)| format!("more than {size} octets {}", share(n, r.response_size.udp.count)))
        .collect();
    line!(out, "  Over UDP: {}", above.join(", "));
    line!(out, "  Truncated: {} ({} of all)", grouped(r.truncated), share(r.truncated, r.responses));
    let mut kind = |name: &str, t: &TruncatedOf| {
        if t.truncated > 0 {
            line!(
                out,
                "    to queries {name}: {} of {} answers over UDP ({}); {} asked for again over TCP ({}), {} of them with DO",
                grouped(t.truncated),
                grouped(t.answers),
                share(t.truncated, t.answers),
                grouped(t.retried),
                share(t.retried, t.truncated),
                grouped(t.retried_with_do)
            );
        }
    };
    kind("without EDNS", &r.truncation.without_edns);
    kind("with EDNS, no DO", &r.truncation.edns);
    kind("with DO", &r.truncation.with_do);
    let mut latency = |name: &str, q: &Quantiles| {
        if q.count > 0 {
            line!(
                out,
                "  Latency over {name}, as captured: median {:.1} µs, 90 % {:.1}, 99 % {:.1}, 99.9 % {:.1}, most {:.1}",
                q.p50,
                q.p90,
                q.p99,
                q.p999,
                q.max
            );
        }
    };
    latency("UDP", &r.latency_us.udp);
    latency("TCP", &r.latency_us.tcp);
}

fn tcp(out: &mut String, r: &Report) {
    let t = &r.tcp;
    if t.packets == 0 {
        return;
    }
    line!(
        out,
        "\nTCP: {} packets ({} of all) in {} connections; {} established, {} with DNS, {} no-op (not an octet of data)",
        grouped(t.packets),
        share(t.packets, r.packets),
        grouped(t.connections),
        grouped(t.established),
        grouped(t.with_dns),
        grouped(t.no_op)
    );
    line!(
        out,
        "  {} never closed, {} reset; {} segments sent again",
        grouped(t.unclosed),
        grouped(t.reset),
        grouped(t.retransmitted)
    );
    if t.handshake_us.count > 0 {
        line!(
            out,
            "  Server's SYN to client's answer: median {:.1} µs, 90 % {:.1}",
            t.handshake_us.p50,
            t.handshake_us.p90
        );
    }
}

fn clients(out: &mut String, r: &Report) {
    if r.clients == 0 {
        return;
    }
    let about = if r.clients_are_sketch { "about " } else { "" };
    let _ = write!(out, "\nClients: {about}{}", grouped(r.clients));
    if let Some(half) = r.clients_half {
        let _ = write!(out, "; {} of them send half of the queries", grouped(half));
    }
    out.push('\n');
    for c in r.top_clients.iter().take(10) {
        line!(out, "{:>15} {:>9}  {}", grouped(c.queries), percent(c.share), c.address);
    }
    if r.clients_error > 0 {
        line!(out, "  counts of clients may be too low by up to {}", grouped(r.clients_error));
    }
}

fn skipped(out: &mut String, r: &Report) {
    if r.ignored.is_empty() && r.cut_short + r.fragments == 0 {
        return;
    }
    line!(out, "\nNot read as DNS, or not whole:");
    for (reason, n) in r.ignored.iter() {
        line!(out, "{:>15}  {reason}", grouped(n));
    }
    if r.cut_short > 0 {
        line!(out, "{:>15}  messages cut short by the capture (counted above)", grouped(r.cut_short));
    }
    if r.fragments > 0 {
        line!(out, "{:>15}  IP fragments, of which packets were put together", grouped(r.fragments));
    }
}
