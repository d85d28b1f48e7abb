//! The summary of `traffic generate`.

use super::Format;
use measure::units;
use serde::Serialize;
use std::path::Path;
use traffic::{Kind, LeftOut, Lists, Tally};

/// `traffic generate --json`.
#[derive(Serialize)]
pub struct Summary<'a> {
    pub profile: &'a str,
    pub seed: u64,
    pub output: &'a Path,
    pub format: Format,
    /// Octets written.
    pub bytes: u64,
    /// Queries per second, and how long they last; null where lines without times were counted.
    pub rate: Option<f64>,
    pub duration_s: Option<f64>,
    /// Names kept of the names there are.
    pub names: usize,
    pub names_total: u64,
    pub names_are_sample: bool,
    /// The kind of the names: owners of delegations, of authoritative data, or of records (one name a record); null where
    /// lists differ.
    pub names_kind: Option<Kind>,
    pub lists: Vec<ListSummary<'a>>,
    /// The profile's popular names that were not asked for.
    pub popular_left_out: &'a [LeftOut],
    #[serde(flatten)]
    pub tally: Tally,
}

/// A list of names, and how often it was asked for.
#[derive(Serialize)]
pub struct ListSummary<'a> {
    pub file: &'a Path,
    pub weight: f64,
    pub exist: bool,
    /// Names kept of the names there are.
    pub names: usize,
    pub names_total: u64,
    pub names_are_sample: bool,
    pub names_kind: Kind,
    /// Queries for its names.
    pub queries: u64,
}

pub fn summaries<'a>(lists: &'a Lists, tally: &Tally) -> Vec<ListSummary<'a>> {
    let one = |(n, list): (usize, &'a traffic::List)| {
        let (spec, names) = (list.spec(), list.names());
        ListSummary {
            file: &spec.file,
            weight: spec.weight,
            exist: spec.exist,
            names: names.len(),
            names_total: names.total(),
            names_are_sample: names.is_sample(),
            names_kind: names.kind(),
            queries: tally.lists.get(n).copied().unwrap_or(0),
        }
    };
    lists.lists().iter().enumerate().map(one).collect()
}

pub fn sentences(s: &Summary<'_>) -> String {
    let t = &s.tally;
    let good = t.queries - t.background;
    let share = |n: u64| format!("{:.1} %", n as f64 * 100.0 / good.max(1) as f64);
    let mut types: Vec<_> = t.types.iter().collect();
    types.sort_by_key(|&(_, n)| std::cmp::Reverse(n));
    let types: Vec<String> = types
        .iter()
        .take(6)
        .map(|&(&kind, &n)| format!("{} {}", wire::rtype::to_text(kind), share(n)))
        .collect();
    let what = if s.format == Format::Pcap { "capture" } else { "query file" };
    // One list needs no share: it has all names that were not made.
    let lists: String =
        s.lists.iter().filter(|_| s.lists.len() > 1).map(|l| list_line(l, share(l.queries))).collect();
    let kind = s.names_kind.map_or("several kinds", kind_of_names);
    let sample = if s.names_are_sample { ", a sample" } else { "" };
    let flood = match t.background {
        0 => String::new(),
        n => format!(
            "{} of them are a flood of random labels; of the {} others:\n",
            units::grouped(n),
            units::grouped(good)
        ),
    };
    format!(
        "{}: {what} of {} queries, {} octets (profile {}, seed {})\n{flood}\
         names of {kind}: {} of {}{sample}; {} of the queries are for names that do not exist\n{lists}\
         EDNS {}, DO {}, RD {}, DF {}; types {}\n{}",
        s.output.display(),
        units::grouped(t.queries),
        units::grouped(s.bytes),
        s.profile,
        s.seed,
        units::grouped(s.names as u64),
        units::grouped(s.names_total),
        share(t.nonexistent),
        share(t.edns),
        share(t.do_bit),
        share(t.rd),
        share(t.df),
        types.join(", "),
        left_out(s.popular_left_out),
    )
}

fn kind_of_names(kind: Kind) -> &'static str {
    match kind {
        Kind::Delegations => "delegations",
        Kind::Owners => "authoritative data",
        Kind::Records => "records",
    }
}

fn list_line(l: &ListSummary<'_>, share: String) -> String {
    format!(
        "  {}: {share} of the queries (weight {}{}); {} of {} names of {}\n",
        l.file.display(),
        l.weight,
        if l.exist { "" } else { " of those that do not exist" },
        units::grouped(l.names as u64),
        units::grouped(l.names_total),
        kind_of_names(l.names_kind),
    )
}

/// The popular names of the profile that are not in the queries, and why.
fn left_out(left: &[LeftOut]) -> String {
    let part = |exist: bool, what: &str, which: &str| {
        let names: Vec<&LeftOut> = left.iter().filter(|left| left.exist == exist).collect();
        let Some(most) = names.iter().max_by(|a, b| a.share.total_cmp(&b.share)) else {
            return String::new();
        };
        let share: f64 = names.iter().map(|left| left.share).sum();
        format!(
            "{} popular names {what}: left out, with {:.1} % of the queries for names that {which}, which went to others; \
             the most popular of them is {}\n",
            units::grouped(names.len() as u64),
            share * 100.0,
            most.name,
        )
    };
    part(true, "that are not in the zone", "exist")
        + &part(false, "that are in the zone, or in another", "do not exist")
}
