//! `dnsrack zone grow`.

use crate::output::{self, Common, Failure, Status, write_output};
use clap::Args;
use measure::Seed;
use measure::units::grouped;
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use traffic::Names;
use zone::Size;

/// `zone grow`.
#[derive(Args)]
pub struct Grow {
    /// Zone file, unsigned, in any order
    #[arg(value_name = "IN")]
    input: PathBuf,
    /// Size of the new zone: 20x, or a number of delegations (K, M, G are powers of ten)
    #[arg(long, value_name = "N|20x")]
    to: Size,
    /// Zone file to write; '-' is standard output
    #[arg(short, long, value_name = "OUT")]
    output: PathBuf,
    /// Make no delegation that would have a name of this file (a name on each line); repeatable
    #[arg(long, value_name = "FILE")]
    not: Vec<PathBuf>,
    /// Make no delegation that would have a name which this capture asks for; repeatable
    #[arg(long, value_name = "CAPTURE")]
    trace: Vec<PathBuf>,
    /// Seed; the same seed adds the same delegations
    #[arg(long, value_name = "S", default_value_t = 1)]
    seed: u64,
}

/// Runs it.
pub fn run(args: &Grow, common: &Common) -> output::Result {
    common.no_two_outputs(&args.output)?;
    let listed = args.not.iter().map(|path| names(path)).collect::<Result<Vec<_>, _>>()?;
    let listed = listed.iter().flat_map(|names| (0..names.len()).map(|n| names.get(n)));
    let asked = if args.trace.is_empty() { HashSet::new() } else { asked_for(&args.trace, common)? };
    let avoid = listed.chain(asked.iter().map(Vec::as_slice));
    let mut progress = common.progress("delegations made", 0);
    let grown = write_output(&args.output, |out| {
        let mut heard = |made| progress.set(made);
        Ok(zone::grow(&args.input, args.to, avoid, Seed(args.seed), out, &mut heard)?)
    });
    progress.finish();
    let grown = grown?;
    eprintln!(
        "{}: {} delegations, {} of them added; {} records, {} of them added",
        args.output.display(),
        grouped(grown.before + grown.added),
        grouped(grown.added),
        grouped(grown.records),
        grouped(grown.records_added),
    );
    common.tell("zone.grow", &grown, String::new)?;
    Ok(Status::Done)
}

/// A list of names, all of which must be known.
fn names(path: &Path) -> Result<Names, Failure> {
    let names = Names::from_file(path, Seed(1))?;
    if names.is_sample() {
        let what =
            format!("--not: {} has too many names to know all of them: give a shorter list", path.display());
        return Err(Failure::usage(what));
    }
    Ok(names)
}

/// The names that captures ask for, as wire names, each once.
fn asked_for(captures: &[PathBuf], common: &Common) -> Result<HashSet<Vec<u8>>, Failure> {
    let mut progress = common.progress("packets of the captures", 0);
    let names = trace::names_asked_for(captures, &mut |packets| progress.set(packets));
    progress.finish();
    Ok(names?)
}
