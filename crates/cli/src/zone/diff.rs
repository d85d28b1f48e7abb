//! `dnsrack zone diff`.

use super::input;
use crate::output::{self, Common, Failure, Status, write_output};
use clap::Args;
use measure::clock::SECOND;
use measure::units::{self, grouped};
use serde::Serialize;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use zone::diff::{ChangeCounts, Churn, Ixfr, Mix, Records, churn, days_between};

/// `zone diff`. Exit status 0 whether versions differ or not: this measures.
#[derive(Args)]
#[command(after_help = "Zones that differ are no failure: the exit status is 0.")]
pub struct Diff {
    /// Versions of one zone, oldest first; each may be in any order; '-' is standard input
    #[arg(required = true, num_args = 2.., value_name = "OLD NEW")]
    versions: Vec<PathBuf>,
    /// Time between versions [default: from the dates in the serials, YYYYMMDDnn]
    #[arg(long, value_name = "DURATION", value_parser = units::duration)]
    interval: Option<u64>,
    /// Draw the differences as SVG
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,
}

/// A figure over the steps.
#[derive(Serialize)]
struct Spread {
    sum: u64,
    median: f64,
    /// Nearest rank.
    p90: u64,
    max: u64,
}

impl Spread {
    fn of(steps: &[zone::Diff], figure: impl Fn(&zone::Diff) -> u64) -> Self {
        let mut values: Vec<u64> = steps.iter().map(figure).collect();
        values.sort_unstable();
        let rank = (values.len() * 9).div_ceil(10).max(1);
        Self {
            sum: values.iter().sum(),
            median: stats::median(&values.iter().map(|&v| v as f64).collect::<Vec<_>>()).unwrap_or(0.0),
            p90: values.get(rank - 1).copied().unwrap_or(0),
            max: values.last().copied().unwrap_or(0),
        }
    }
}

/// Figures over the steps.
#[derive(Serialize)]
struct Spreads {
    /// Records deleted and added, the SOA and DNSSEC's apart.
    records: Spread,
    /// All that an IXFR carries.
    ixfr_records: Spread,
    ixfr_octets: Spread,
    ixfr_message_octets: Spread,
}

/// All that is said.
#[derive(Serialize)]
struct Said<'a> {
    origin: &'a str,
    steps: &'a [zone::Diff],
    spread: &'a Spreads,
    churn: &'a Churn,
}

fn records(step: &zone::Diff) -> u64 {
    let (deleted, added) = step.records.sums();
    deleted + added
}

/// Runs it.
pub fn run(d: &Diff, common: &Common) -> output::Result {
    if let Some(path) = &d.plot {
        common.no_two_outputs(path)?;
    }
    if d.versions.iter().filter(|v| *v == Path::new("-")).count() > 1 {
        return Err(Failure::usage("'-' is standard input, and that is one version only"));
    }
    if d.versions.len() > 2 && d.versions[1..d.versions.len() - 1].iter().any(|v| v == Path::new("-")) {
        return Err(Failure::usage("standard input can only be the first or the last of several versions"));
    }
    let mut steps = Vec::new();
    for pair in d.versions.windows(2) {
        let ((old, a), (new, b)) = (input(&pair[0]), input(&pair[1]));
        let mut progress = common.progress(&format!("comparing {}, octets", new.display()), a + b);
        let step = zone::diff(&old, &new, &mut |n| progress.set(n));
        progress.finish();
        steps.push(step?);
    }
    let serial = |version: Option<&zone::diff::Version>| version.map_or(0, |v| v.serial);
    let ends = (serial(steps.first().map(|s| &s.old)), serial(steps.last().map(|s| &s.new)));
    let days = match d.interval {
        Some(interval) => Some(interval as f64 * steps.len() as f64 / SECOND as f64 / 86_400.0),
        None => days_between(ends.0, ends.1),
    };
    let churn = churn(&steps, days);
    let spreads = Spreads {
        records: Spread::of(&steps, records),
        ixfr_records: Spread::of(&steps, |s| s.ixfr.records),
        ixfr_octets: Spread::of(&steps, |s| s.ixfr.octets),
        ixfr_message_octets: Spread::of(&steps, |s| s.ixfr.message_octets),
    };
    for step in steps.iter().filter(|s| !s.is_newer()) {
        eprintln!(
            "{}: serial {} is not newer than {}, that of {} (RFC 1982): a secondary would ask for no IXFR",
            step.new.file, step.new.serial, step.old.serial, step.old.file
        );
    }
    if let Some(path) = &d.plot {
        let svg = plot(&steps);
        write_output(path, |out| Ok(out.write_all(svg.as_bytes())?))?;
    }
    let said = Said { origin: &steps[0].origin, steps: &steps, spread: &spreads, churn: &churn };
    common.tell("zone.diff", &said, || describe_all(&said))?;
    Ok(Status::Done)
}

fn plot(steps: &[zone::Diff]) -> String {
    let label = |serial: u32| match days_between(1_970_010_100, serial) {
        Some(_) => format!("{:02}-{:02}", serial / 10_000 % 100, serial / 100 % 100),
        None => serial.to_string(),
    };
    let step = |d: &zone::Diff| {
        let (deleted, added) = d.records.sums();
        report::ChurnStep {
            label: label(d.new.serial),
            deleted,
            added,
            entries: d.entries().1.sum(),
            octets: d.ixfr.message_octets,
        }
    };
    let ends = steps.first().zip(steps.last());
    let title = ends.map_or(String::new(), |(first, last)| {
        format!("Zone {}, serial {} to {}", first.origin, first.old.serial, last.new.serial)
    });
    report::churn(&title, &steps.iter().map(step).collect::<Vec<_>>())
}

fn describe_all(said: &Said<'_>) -> String {
    let mut text = match said.steps {
        [step] => describe(step),
        steps => table(steps, said.spread),
    };
    describe_churn(said.churn, said.steps.len(), &mut text);
    text
}

/// One step for people.
fn describe(d: &zone::Diff) -> String {
    let mut text = String::new();
    let mut line = |name: &str, value: String| {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{name:<18} {value}");
    };
    line("zone", format!("{}, serial {} to {}", d.origin, d.old.serial, d.new.serial));
    line("records", format!("{} to {}", grouped(d.old.records), grouped(d.new.records)));
    line("deleted, added", by_type(&d.records));
    line("DNSSEC apart", by_type(&d.dnssec));
    line("names", changes(&d.names, d.old.names));
    if d.old.delegations + d.new.delegations > 0 {
        line("delegations", changes(&d.delegations, d.old.delegations));
        let c = &d.changed_in;
        line("  changed in", format!("NS {}, DS {}, glue {}", grouped(c.ns), grouped(c.ds), grouped(c.glue)));
    }
    line("IXFR", ixfr(&d.ixfr));
    line("  without DNSSEC", ixfr(&d.ixfr_without_dnssec));
    let share = 100.0 * d.ixfr.octets as f64 / d.new.wire_bytes.max(1) as f64;
    line("AXFR", format!("{} octets; the IXFR is {share:.3} % of it", grouped(d.new.wire_bytes)));
    text
}

fn by_type(records: &Records) -> String {
    let (deleted, added) = records.sums();
    if deleted + added == 0 {
        return "none".to_owned();
    }
    let mut types: Vec<&String> = records.deleted.keys().chain(records.added.keys()).collect();
    types.sort();
    types.dedup();
    let sentence = |t: &String| {
        let [d, a] = [&records.deleted, &records.added].map(|m| m.get(t).copied().unwrap_or(0));
        format!("{t} -{} +{}", grouped(d), grouped(a))
    };
    let types: Vec<String> = types.into_iter().map(sentence).collect();
    format!("{}, {}: {}", grouped(deleted), grouped(added), types.join(", "))
}

fn changes(c: &ChangeCounts, of: u64) -> String {
    format!(
        "{} added, {} deleted, {} changed, of {}",
        grouped(c.added),
        grouped(c.deleted),
        grouped(c.changed),
        grouped(of)
    )
}

fn ixfr(i: &Ixfr) -> String {
    format!(
        "{} records, {} octets; fully compressed, in {} message{}: {} octets",
        grouped(i.records),
        grouped(i.octets),
        grouped(i.messages),
        if i.messages == 1 { "" } else { "s" },
        grouped(i.message_octets)
    )
}

/// A line a step, and the figures over all.
fn table(steps: &[zone::Diff], spreads: &Spreads) -> String {
    let mut text = format!("zone {}, {} steps; DNSSEC records apart\n\n", steps[0].origin, steps.len());
    let mut row = |first: &str, cells: [String; 9]| {
        let _ = write!(text, "{first:<12}");
        for cell in cells {
            let _ = write!(text, " {cell:>9}");
        }
        text.push('\n');
    };
    let head = ["-RR", "+RR", "-DNSSEC", "+DNSSEC", "+entries", "-entries", "~entries", "IXFR", "on TCP"];
    row("to serial", head.map(str::to_owned));
    for s in steps {
        let ((deleted, added), (dnssec_deleted, dnssec_added)) = (s.records.sums(), s.dnssec.sums());
        let c = s.entries().1;
        let cells = [
            deleted,
            added,
            dnssec_deleted,
            dnssec_added,
            c.added,
            c.deleted,
            c.changed,
            s.ixfr.octets,
            s.ixfr.message_octets,
        ];
        row(&s.new.serial.to_string(), cells.map(grouped));
    }
    let names = if steps.iter().any(|s| s.old.delegations + s.new.delegations > 0) {
        "delegations with what is below them"
    } else {
        "names"
    };
    let _ = writeln!(
        text,
        "\nentries are {names}; IXFR is in octets without compression, on TCP compressed with all headers\n"
    );
    let _ = writeln!(text, "{:<24} {:>12} {:>12} {:>12} {:>12}", "a step", "median", "90 %", "most", "sum");
    for (name, s) in [
        ("records, no DNSSEC", &spreads.records),
        ("IXFR, records", &spreads.ixfr_records),
        ("IXFR, octets", &spreads.ixfr_octets),
        ("IXFR, octets on TCP", &spreads.ixfr_message_octets),
    ] {
        let [p90, max, sum] = [s.p90, s.max, s.sum].map(grouped);
        let _ = writeln!(text, "{name:<24} {:>12} {p90:>12} {max:>12} {sum:>12}", s.median);
    }
    text.push('\n');
    text
}

fn describe_churn(c: &Churn, steps: usize, text: &mut String) {
    let mut line = |name: &str, value: String| {
        let _ = writeln!(text, "{name:<18} {value}");
    };
    let Some(days) = c.days else {
        line("churn", "unknown: the serials' dates do not tell the time between; give --interval".into());
        return;
    };
    line("time", format!("{days} days in {steps} step{}", if steps == 1 { "" } else { "s" }));
    let percent = |share: Option<f64>| share.map_or("-".to_owned(), |s| format!("{:.4} %", s * 100.0));
    let mix = |mix: &Option<Mix>| {
        mix.map_or("no changes".to_owned(), |m| {
            let [a, d, c] = [m.added, m.deleted, m.changed].map(|s| s * 100.0);
            format!("{a:.0} % added, {d:.0} % deleted, {c:.0} % changed")
        })
    };
    line(
        "churn as RZAIA",
        format!(
            "{} of the entries a day ({}); its tests: 1 % and 10 %, 10/10/80",
            percent(c.share_a_day),
            mix(&c.mix)
        ),
    );
    if c.isc.is_some() {
        line(
            "churn as ISC",
            format!(
                "{} of the delegations a day ({}), {:.2e} a second; its low rate 1 %, medium 3 %, thirds; COM 2 to 4 a \
                 second",
                percent(c.isc_share_a_day),
                mix(&c.isc_mix),
                c.isc_a_second.unwrap_or(0.0)
            ),
        );
    }
}
