//! Facts of a zone and verdicts on them, for people.

use comfy_table::{CellAlignment, Table, presets};
use measure::units::grouped;
use std::collections::BTreeMap;
use std::fmt::{Display, Write as _};
use zone::conformance::Conformance;

/// Lines of a histogram.
const LINES: usize = 32;
/// Columns of its longest bar.
const BAR: f64 = 40.0;

/// The facts.
pub fn describe(info: &zone::Info) -> String {
    let mut text = String::new();
    table_row(info, &mut text);
    let mut line = |name: &str, value: String| {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{name:<18} {value}");
    };
    line("zone", format!("{}, serial {}", info.origin, info.serial));
    line("delegations", grouped(info.delegations));
    line("records", grouped(info.records));
    line("size", format!("{} octets, {} in wire format", grouped(info.bytes), grouped(info.wire_bytes)));
    let count = |rtype: &str| info.types.get(rtype).copied().unwrap_or(0);
    let (signatures, denials) = (count("RRSIG"), count("NSEC") + count("NSEC3"));
    let signed = match (info.signed, info.algorithms.is_empty()) {
        (false, _) => "no".to_owned(),
        (true, true) => "yes, but without signatures".to_owned(),
        (true, false) if zone::is_signed_in_part(signatures, denials) => format!(
            "partly: {} signatures for {} {} records",
            grouped(signatures),
            grouped(denials),
            info.denial
        ),
        (true, false) => format!("yes; denial with {}; signatures: {}", info.denial, pairs(&info.algorithms)),
    };
    line("signed", signed);
    if !info.in_order {
        line("order", "not canonical: what concerns delegations is counted run by run".to_owned());
    }
    types(info, &mut text);
    if info.delegations > 0 {
        delegations(info, &mut text);
    }
    text
}

/// The row of RZAIA's table 1.1.
fn table_row(info: &zone::Info, text: &mut String) {
    let mut row = |cells: [String; 5]| {
        let [ns, a, aaaa, ds, size] = cells;
        let _ = writeln!(text, "{ns:>14} {a:>14} {aaaa:>14} {ds:>14} {size:>16}");
    };
    row(["NS RRs", "A RRs", "AAAA RRs", "DS RRs", "File Size"].map(str::to_owned));
    let [ns, a, aaaa, ds] = ["NS", "A", "AAAA", "DS"].map(|t| grouped(info.count(t)));
    row([ns, a, aaaa, ds, grouped(info.bytes)]);
    let _ = writeln!(text, "(as in RZAIA's table 1.1)\n");
}

/// Records and TTLs of each type.
fn types(info: &zone::Info, text: &mut String) {
    let _ = writeln!(
        text,
        "\n{:<12} {:>14}   TTLs in seconds, and how many records have each",
        "type", "records"
    );
    let mut types: Vec<_> = info.types.iter().collect();
    types.sort_by(|a, b| b.1.cmp(a.1).then(a.0.cmp(b.0)));
    for (name, n) in types {
        let mut ttls: Vec<_> = info.ttl.get(name).into_iter().flatten().collect();
        ttls.sort_by(|a, b| b.1.cmp(a.1).then(a.0.cmp(b.0)));
        let more = ttls.len().saturating_sub(4);
        let shown: Vec<String> =
            ttls.iter().take(4).map(|(ttl, n)| format!("{ttl}: {}", grouped(**n))).collect();
        let more = if more > 0 { format!(", {more} more") } else { String::new() };
        let _ = writeln!(text, "{name:<12} {:>14}   {}{more}", grouped(*n), shown.join(", "));
    }
}

fn delegations(info: &zone::Info, text: &mut String) {
    let (s, sharing, g) = (&info.servers, &info.servers.sharing, &info.glue);
    let percent = |n: u64, of: u64| format!("{:.1} %", n as f64 / of.max(1) as f64 * 100.0);
    let idns: u64 = info.idn_label_length.values().sum();
    let _ = writeln!(text);
    histogram("label length, octets", &info.label_length, text);
    if idns > 0 {
        let _ = writeln!(text, "IDNs: {} ({})\n", grouped(idns), percent(idns, info.delegations));
        histogram("label length of IDNs, octets", &info.idn_label_length, text);
    }
    histogram("NS per delegation", &info.ns_per_delegation, text);

    let ns = s.inside + s.in_zone + s.out_of_zone;
    let _ = writeln!(text, "servers' names, of {} NS records of delegations:", grouped(ns));
    for (what, n) in [
        ("inside the delegation", s.inside),
        ("elsewhere in the zone", s.in_zone),
        ("out of the zone", s.out_of_zone),
    ] {
        let _ = writeln!(text, "  {what:<24} {:>14} {:>8}", grouped(n), percent(n, ns));
    }
    let about = match sharing.exact {
        true => String::new(),
        false => format!(
            "; from a sample of {}, standard error {:.2} %",
            grouped(sharing.sampled),
            sharing.standard_error * 100.0
        ),
    };
    let _ = writeln!(text, "distinct servers: {}{about}\n", grouped(sharing.servers));
    histogram("delegations per server", &sharing.delegations_per_server, text);
    let low = match sharing.largest_error {
        0 => String::new(),
        error => format!(" (these may be too low by up to {})", grouped(error)),
    };
    top(&format!("servers with the most delegations{low}"), &sharing.largest, text);
    top("servers that are inside no delegation of theirs, by name above", &sharing.under, text);

    let _ = writeln!(text, "glue: {} names, {} A, {} AAAA", grouped(g.names), grouped(g.a), grouped(g.aaaa));
    if g.names > 0 {
        let shares = (percent(g.names_with_a, g.names), percent(g.names_with_aaaa, g.names));
        let _ = writeln!(text, "  with A {}, with AAAA {}\n", shares.0, shares.1);
        top("most glue below", &g.most, text);
    }
    let _ = writeln!(text, "delegations with DS: {:.1} %", info.ds_share * 100.0);
    if info.ds_share > 0.0 {
        let _ = writeln!(text);
        histogram("DS per signed delegation", &info.ds_per_delegation, text);
        let by_name = |(&a, &n): (&u8, &u64)| (zone::codec::algorithm_name(a), n);
        bars("DS algorithm", &info.ds_algorithms.iter().map(by_name).collect(), text);
        bars("DS digest type", &info.ds_digests, text);
    }
}

/// Numbers with their mean.
fn histogram<K: Copy + Ord + Display + Into<u64>>(title: &str, counts: &BTreeMap<K, u64>, text: &mut String) {
    let (sum, n) = counts.iter().fold((0, 0), |(s, n), (&k, &c)| (s + k.into() * c, n + c));
    bars(&format!("{title}: mean {:.2}", sum as f64 / n.max(1) as f64), counts, text);
}

/// One line a value, with a bar.
fn bars<K: Display>(title: &str, counts: &BTreeMap<K, u64>, text: &mut String) {
    let (n, most) = (counts.values().sum::<u64>(), counts.values().max().copied().unwrap_or(1).max(1) as f64);
    let _ = writeln!(text, "{title}");
    let mut line = |key: &str, c: u64| {
        let bar = "#".repeat((c as f64 / most * BAR).ceil() as usize);
        let share = c as f64 / n.max(1) as f64 * 100.0;
        let _ = writeln!(text, "  {key:>15} {:>14} {share:>7.2} %  {bar}", grouped(c));
    };
    let shown = if counts.len() > LINES { LINES - 1 } else { counts.len() };
    counts.iter().take(shown).for_each(|(k, &c)| line(&k.to_string(), c));
    let rest: u64 = counts.values().skip(shown).sum();
    if rest > 0 {
        line("more", rest);
    }
    let _ = writeln!(text);
}

/// The ten most frequent.
fn top(title: &str, counts: &BTreeMap<String, u64>, text: &mut String) {
    if counts.is_empty() {
        return;
    }
    let mut most: Vec<_> = counts.iter().collect();
    most.sort_by(|a, b| b.1.cmp(a.1).then(a.0.cmp(b.0)));
    let _ = writeln!(text, "{title}:");
    for (name, n) in most.iter().take(10) {
        let _ = writeln!(text, "  {:>14}  {name}", grouped(**n));
    }
    if most.len() > 10 {
        let rest: u64 = most[10..].iter().map(|(_, n)| **n).sum();
        let _ = writeln!(text, "  {:>14}  under {} others", grouped(rest), most.len() - 10);
    }
    let _ = writeln!(text);
}

/// A verdict as a table.
pub fn conformance(verdict: &Conformance) -> String {
    let mut table = Table::new();
    table
        .load_preset(presets::NOTHING)
        .set_header(["", "expected", "found", "at least", "at most", "verdict", "bound"]);
    for column in table.column_iter_mut().skip(1).take(4) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    for f in &verdict.findings {
        let numbers = [f.expected, f.found, f.bound[0], f.bound[1]].map(number);
        let word = if f.within { "within" } else { "OUT OF BOUNDS" };
        let mut row = vec![f.what.clone()];
        row.extend(numbers);
        row.extend([word.to_owned(), f.basis.clone()]);
        table.add_row(row);
    }
    let out = verdict.findings.iter().filter(|f| !f.within).count();
    let sum = match out {
        0 => "all within their bounds".to_owned(),
        n => format!("{n} of {} out of bounds", verdict.findings.len()),
    };
    let notes: String = verdict.notes.iter().map(|n| format!("{n}\n")).collect();
    format!("\nagainst {}:\n{table}\n{notes}{sum}\n", verdict.against)
}

/// Counts whole, shares with four places.
fn number(n: f64) -> String {
    if n.fract() == 0.0 {
        grouped(n as u64)
    } else if n >= 100.0 {
        format!("{n:.1}")
    } else {
        format!("{n:.4}")
    }
}

fn pairs<K: Display>(counts: &BTreeMap<K, u64>) -> String {
    let pairs: Vec<String> = counts.iter().map(|(k, &n)| format!("{k}: {}", grouped(n))).collect();
    pairs.join(", ")
}
