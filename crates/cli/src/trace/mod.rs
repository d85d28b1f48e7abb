//! `dnsrack trace`: captures as traces.

mod compare;
mod info;

use crate::output::{self, Common};
use clap::Subcommand;

/// What `dnsrack trace` can do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// What a trace is like: rates, types, failures, EDNS, TCP, truncation, sizes, latency, clients
    Info(info::Info),
    /// How much two traces differ, characteristic by characteristic
    Compare(compare::Compare),
}

/// Runs the command.
pub fn run(command: Command, common: &Common) -> output::Result {
    match command {
        Command::Info(args) => info::run(&args, common),
        Command::Compare(args) => compare::run(&args, common),
    }
}
