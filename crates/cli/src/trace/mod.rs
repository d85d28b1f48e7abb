//! `dnsrack trace`: captures as traces, one file a verb.

mod compare;
mod edit;
mod fit;
mod import;
mod import_apart;
mod info;

use crate::output::{self, Common};
use clap::Subcommand;

/// The commands of `dnsrack trace`.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Show what is in captures: rates, types, failures, EDNS, TCP, truncation, sizes, latency, clients
    Info(info::Info),
    /// Filter, cut, rewrite or anonymise captures
    Edit(Box<edit::EditFlags>),
    /// Show how much two captures differ, characteristic by characteristic
    Compare(compare::Compare),
    /// A profile of the queries, to generate others like them
    ///
    /// The profile says what the queries over UDP were like: classes of clients that use EDNS alike, each with its sizes, DO,
    /// hits and misses; types by hit and miss; labels; ports; intervals. Names exist, or do not, as their answers say.
    /// Clients' addresses are not in the profile, but the names that were asked for most are: look through them before
    /// you give it away.
    Fit(fit::Fit),
    /// Convert captures to Parquet, with a row for each query and its answer, for DuckDB, Spark and others
    Import(import::Import),
}

/// Runs the command.
pub fn run(command: Command, common: &Common) -> output::Result {
    match command {
        Command::Info(args) => info::run(&args, common),
        Command::Edit(args) => edit::run(&args, common),
        Command::Compare(args) => compare::run(&args, common),
        Command::Fit(args) => fit::run(&args, common),
        Command::Import(args) => import::run(&args, common),
    }
}
