//! `dnsrack update`: changes of zones. One file a verb.

mod echo;
mod generate;
mod send;
mod watch;

use crate::output::{self, Common, Failure};
use ::update::Error;
use clap::Subcommand;
use net::target::Refused;

/// The commands of `dnsrack update`.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Generate a stream of updates that fits a zone, in nsupdate's format
    Generate(generate::Generate),
    /// Send updates (RFC 2136) at a rate, by a window or as a flood, and time every answer
    Send(Box<send::Send>),
    /// Acknowledge every update without doing anything, to measure the sender
    Echo(echo::Echo),
    /// Watch when each server shows each marker (a counter in a TXT record), and which serial it has
    Watch(watch::Watch),
}

/// Wrong flags are wrong usage; everything else failed.
pub fn failure(error: Error) -> Failure {
    match error {
        Error::Spec(_) | Error::Target(Refused::External(_)) => Failure::usage(error.to_string()),
        other => other.into(),
    }
}

/// Runs the command.
pub fn run(command: Command, common: &Common) -> output::Result {
    match command {
        Command::Generate(args) => generate::run(&args, common),
        Command::Send(args) => send::run(&args, common),
        Command::Echo(args) => echo::run(&args, common),
        Command::Watch(args) => watch::run(&args, common),
    }
}
