//! `dnsrack update generate`

use super::failure;
use crate::output::{self, Common, Failure, Status, write_output};
use ::update::generate::{Made, Mix, SeriesSpec, Signing, Spec, generate, series};
use clap::Args;
use measure::Seed;
use measure::units::{self, grouped};
use std::path::PathBuf;

/// The flags of `update generate`.
#[derive(Debug, Args)]
pub struct Generate {
    /// Zone file that the updates are for
    #[arg(value_name = "ZONE")]
    zone: PathBuf,
    /// Mix of changes: isc (a third each of added and deleted delegations and NS changes), rzaia (10 % added, 10 % deleted, 80
    /// % modified), or ADD:DELETE:MODIFY such as 1:1:8
    #[arg(long, value_name = "MIX", required_unless_present = "to", conflicts_with = "to")]
    mix: Option<Mix>,
    /// Number of changes; K and M are powers of ten
    #[arg(long, value_name = "N", value_parser = units::count, required_unless_present = "to", conflicts_with = "to")]
    count: Option<u64>,
    /// Instead of a mix: the changes that turn ZONE into this version of it, and that into the next. SOA and DNSSEC records are
    /// left to the server
    #[arg(long, value_name = "NEW", num_args = 1..)]
    to: Vec<PathBuf>,
    /// With --to: make each version one transaction, with its SOA
    #[arg(long, requires = "to", conflicts_with = "batch")]
    whole: bool,
    /// With --to: include the DNSSEC records of the versions, for a primary that does not sign; implies --whole
    #[arg(long, requires = "to", conflicts_with = "batch")]
    dnssec: bool,
    /// File to write; '-' is standard output
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// Number of changes in each transaction [default: 1; rzaia: 10]
    #[arg(long, value_name = "K", default_value_t = 0, hide_default_value = true)]
    batch: u32,
    /// Seed; the same seed gives the same updates
    #[arg(long, value_name = "S", default_value_t = 1, conflicts_with = "to")]
    seed: u64,
    /// For a zone signed with NSEC: put signatures and denials among the changes, made with the keys in this folder (BIND's
    /// K*.key and K*.private), for a server that does not sign. They are valid for 30 days from an hour ago
    #[arg(long, value_name = "KEYS", conflicts_with = "to")]
    sign: Option<PathBuf>,
    /// Add prerequisites to each transaction: added names must not exist, deleted and modified RRsets must
    #[arg(long)]
    prerequisites: bool,
}

/// Runs it.
pub fn run(args: &Generate, common: &Common) -> output::Result {
    common.no_two_outputs(&args.output)?;
    let (batch, prerequisites) = (args.batch, args.prerequisites);
    let made = match (args.mix, args.count) {
        (Some(mix), Some(count)) => {
            let octets = 2 * args.zone.metadata().map_or(0, |m| m.len());
            let mut progress = common.progress("octets of the zone, twice", octets);
            let now = (measure::clock::wall() / measure::clock::SECOND) as u32;
            let sign =
                args.sign.clone().map(|keys| Signing { keys, inception: now - 3600, validity: 30 * 86_400 });
            let seed = Seed(args.seed);
            let spec = Spec { zone: args.zone.clone(), mix, count, batch, prerequisites, seed, sign };
            let made = write(args, &mut |out| generate(&spec, out, &mut |n| progress.set(n)));
            progress.finish();
            made?
        }
        _ => {
            let mut progress = common.progress("names that change", 0);
            let (whole, dnssec) = (args.whole, args.dnssec);
            let spec = SeriesSpec {
                batch,
                prerequisites,
                whole,
                dnssec,
                ..SeriesSpec::new(&args.zone, args.to.clone())
            };
            let made = write(args, &mut |out| series(&spec, out, &mut |n| progress.set(n)));
            progress.finish();
            made?
        }
    };
    eprintln!(
        "{}: {} added, {} deleted, {} modified, in {} transactions with {} records{}",
        args.output.display(),
        grouped(made.adds),
        grouped(made.deletes),
        grouped(made.modifies),
        grouped(made.transactions),
        grouped(made.records),
        if made.signed && args.sign.is_none() {
            "; the zone is signed: unsigned data alone are changed, and the server must sign"
        } else {
            ""
        }
    );
    if made.kept > 0 {
        eprintln!("{} delegations were not deleted: others use servers inside them", grouped(made.kept));
    }
    common.tell("update.generate", &made, String::new)?;
    Ok(Status::Done)
}

/// Writes the output with the library's writer.
fn write(
    args: &Generate,
    make: &mut dyn FnMut(&mut dyn std::io::Write) -> Result<Made, ::update::Error>,
) -> Result<Made, Failure> {
    write_output(&args.output, |out| make(out).map_err(failure))
}
