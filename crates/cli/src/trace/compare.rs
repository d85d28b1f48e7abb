//! `dnsrack trace compare`.

use super::info::threads;
use crate::output::{self, Common, Failure, Status};
use clap::Args;
use measure::units::{self, grouped};
use measure::{Nanos, Seed};
use serde::Serialize;
use std::path::{Path, PathBuf};
use trace::compare::{Comparison, Distribution, compare};
use trace::facts::{self, Facts};

/// The flags of `trace compare`.
#[derive(Debug, Args)]
pub struct Compare {
    /// Capture that the other is compared with
    #[arg(value_name = "A")]
    a: PathBuf,
    /// Capture that is compared
    #[arg(value_name = "B")]
    b: PathBuf,
    /// Smallest distance that counts as a difference, as a share (0 to 1); exit status 3 if one is certainly larger
    #[arg(long, value_name = "SHARE", default_value_t = 0.05, value_parser = share)]
    threshold: f64,
    /// Show both distributions, not only their distance
    #[arg(long)]
    full: bool,
    /// Length of the windows in which rates are counted
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = units::duration)]
    window: Nanos,
    /// Port of the servers; several are possible
    #[arg(long = "port", value_name = "PORT", default_value = "53")]
    ports: Vec<u16>,
    /// Seed of the resampling that gives the intervals
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// A share, for flags.
fn share(text: &str) -> Result<f64, String> {
    let share = units::number(text)?;
    if (0.0..=1.0).contains(&share) { Ok(share) } else { Err("give a share from 0 to 1".into()) }
}

/// `trace compare --json`.
#[derive(Serialize)]
struct Compared<'a> {
    a: &'a Path,
    b: &'a Path,
    #[serde(flatten)]
    comparison: &'a Comparison,
}

pub fn run(args: &Compare, common: &Common) -> output::Result {
    let read = |path: &PathBuf| -> Result<Facts, Failure> {
        let mut progress = common.progress(&format!("packets of {}", path.display()), 0);
        let paths = std::slice::from_ref(path);
        let facts = facts::collect(paths, &args.ports, args.window.max(1), threads(None), &mut |packets| {
            progress.set(packets);
        })?;
        progress.finish();
        if facts.counts.queries + facts.counts.responses == 0 {
            return Err(Failure { code: 1, message: format!("{}: no DNS in it", path.display()) });
        }
        Ok(facts)
    };
    let (a, b) = (read(&args.a)?, read(&args.b)?);
    let comparison = compare(&a, &b, args.threshold, Seed(args.seed));
    let result = Compared { a: &args.a, b: &args.b, comparison: &comparison };
    common.tell("trace.compare", &result, || text(args, [&a, &b], &comparison))?;
    Ok(if comparison.different.is_empty() { Status::Done } else { Status::Differs })
}

fn text(args: &Compare, facts: [&Facts; 2], c: &Comparison) -> String {
    let mut out = String::new();
    for (name, path, f) in [("A", &args.a, facts[0]), ("B", &args.b, facts[1])] {
        let (queries, responses) = (grouped(f.counts.queries), grouped(f.counts.responses));
        out += &format!(
            "{name}: {}: {queries} queries, {responses} responses, {:.1} s\n",
            path.display(),
            f.seconds()
        );
    }
    let percent = |share: f64| format!("{:.2} %", share * 100.0);
    out += &format!("\n{:<28} {:>8} {:>8}  in words\n", "characteristic", "distance", "chance");
    for c in &c.characteristics {
        let [distance, chance] =
            c.effect.map_or([(); 2].map(|()| "-".into()), |e| [percent(e.distance), percent(e.by_chance)]);
        out += &format!("{:<28} {distance:>8} {chance:>8}  {}\n", c.name, c.sentence);
        if args.full {
            let mut both = |what: &str, a: String, b: String| {
                out += &format!("{:>40}  A {a:>12}  B {b:>12}\n", what);
            };
            match &c.distribution {
                Distribution::Categories(all) => {
                    all.iter().for_each(|(key, [a, b])| both(key, percent(*a), percent(*b)));
                }
                Distribution::Numbers { unit, quantiles } => {
                    let key = |name: &str| format!("{name}, {unit}");
                    let number = |n: f64| format!("{n:.1}");
                    quantiles.iter().for_each(|(name, [a, b])| both(&key(name), number(*a), number(*b)));
                }
            }
        }
    }
    out += "\ndistance: the share that would have to be other for A to be as B (of numbers: the greatest difference of shares \
            at or below one); chance: what sampling alone stays below 95 times of 100, if queries are independent\n";
    let threshold = percent(c.threshold);
    out += &match c.different.len() {
        0 => format!("no characteristic differs by more than {threshold} for certain\n"),
        _ => format!("different by more than {threshold}: {}\n", c.different.join(", ")),
    };
    out
}
