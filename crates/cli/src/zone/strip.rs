//! `dnsrack zone strip`.

use super::input;
use crate::output::{self, Common, Status, write_output};
use clap::Args;
use measure::units::grouped;
use std::path::PathBuf;
use zone::Scanner;

/// `zone strip`.
#[derive(Args)]
pub struct Strip {
    /// Zone file, in any order; '-' is standard input
    #[arg(value_name = "IN")]
    input: PathBuf,
    /// Zone file to write; '-' is standard output
    #[arg(short, long, value_name = "OUT")]
    output: PathBuf,
    /// Leave out the DS records of delegations, too
    #[arg(long)]
    ds: bool,
}

/// Runs it.
pub fn run(args: &Strip, common: &Common) -> output::Result {
    common.no_two_outputs(&args.output)?;
    let (path, size) = input(&args.input);
    let mut progress = common.progress(&format!("reading {}, octets", args.input.display()), size);
    let mut source = Scanner::open(&path)?;
    let stripped = write_output(&args.output, |out| {
        Ok(zone::strip(&mut source, args.ds, out, &mut |octets| progress.set(octets))?)
    });
    progress.finish();
    let stripped = stripped?;
    eprintln!(
        "{}: {} records; left out {} DNSSEC records",
        args.output.display(),
        grouped(stripped.records),
        grouped(stripped.left_out)
    );
    common.tell("zone.strip", &stripped, String::new)?;
    Ok(Status::Done)
}
