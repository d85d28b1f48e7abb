//! `dnsrack zone info`.

use super::input;
use crate::output::{self, Common, Status};
use clap::Args;
use measure::units::grouped;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;

/// `zone info`.
#[derive(Args)]
pub struct Info {
    /// Zone file (RFC 1035); '-' is standard input
    #[arg(value_name = "IN")]
    input: PathBuf,
}

/// Runs it.
pub fn run(args: &Info, common: &Common) -> output::Result {
    let (path, size) = input(&args.input);
    let mut progress = common.progress(&format!("reading {}, octets", path.display()), size);
    let info = zone::info(&path, &mut |octets| progress.set(octets));
    progress.finish();
    let info = info?;
    common.tell("zone.info", &info, || describe(&info))?;
    Ok(Status::Done)
}

/// The facts for people.
fn describe(info: &zone::Info) -> String {
    let mut text = String::new();
    let mut line = |name: &str, value: String| {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{name:<18} {value}");
    };
    line("zone", format!("{}, serial {}", info.origin, info.serial));
    line("delegations", grouped(info.delegations));
    line("records", grouped(info.records));
    line("size", format!("{} octets, {} in wire format", grouped(info.bytes), grouped(info.wire_bytes)));
    let signed = match (info.signed, info.algorithms.is_empty()) {
        (false, _) => "no".to_owned(),
        (true, true) => "yes, but without signatures".to_owned(),
        (true, false) => format!("yes; signatures: {}", pairs(&info.algorithms)),
    };
    line("signed", signed);
    line("types", pairs(&info.types));
    if info.delegations > 0 {
        let ns = &info.ns_per_delegation;
        line("NS a delegation", format!("mean {:.2}; {}", mean(ns), pairs(ns)));
        let lengths = &info.label_length;
        line("label length", format!("mean {:.2}; {}", mean(lengths), pairs(lengths)));
        line("with DS", format!("{:.1} %", info.ds_share * 100.0));
        let g = &info.glue;
        line("glue", format!("{} names, {} A, {} AAAA", grouped(g.names), grouped(g.a), grouped(g.aaaa)));
        let mut most: Vec<_> = g.most.iter().collect();
        most.sort_by(|a, b| b.1.cmp(a.1).then(a.0.cmp(b.0)));
        let most: Vec<String> = most.into_iter().map(|(cut, n)| format!("{cut} {}", grouped(*n))).collect();
        line("most glue below", most.join(", "));
    }
    let row = ["NS", "A", "AAAA", "DS"].map(|t| grouped(info.count(t)));
    let _ = writeln!(text, "\nas in RZAIA's table 1.1:");
    let _ = writeln!(
        text,
        "{:>14} {:>14} {:>14} {:>14} {:>16}",
        "NS RRs", "A RRs", "AAAA RRs", "DS RRs", "File Size"
    );
    let _ = writeln!(
        text,
        "{:>14} {:>14} {:>14} {:>14} {:>16}",
        row[0],
        row[1],
        row[2],
        row[3],
        grouped(info.bytes)
    );
    text
}

fn mean<K: Copy + Into<u64>>(counts: &BTreeMap<K, u64>) -> f64 {
    let (sum, n) = counts.iter().fold((0, 0), |(s, n), (&k, &c)| (s + k.into() * c, n + c));
    sum as f64 / n.max(1) as f64
}

fn pairs<K: std::fmt::Display>(counts: &BTreeMap<K, u64>) -> String {
    let pairs: Vec<String> = counts.iter().map(|(k, &n)| format!("{k}: {}", grouped(n))).collect();
    pairs.join(", ")
}
