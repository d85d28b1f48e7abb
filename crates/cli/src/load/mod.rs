//! `dnsrack load`: queries at servers, and what came back. One file a verb.

mod calibrate;
mod echo;
mod flags;
mod hosts;
mod live;
mod replay;
mod run;
mod search;
mod show;

pub use ::load::parse_target;
pub use flags::{positive, rate};
pub use show::us;

use crate::output::{self, Common, Failure};
use ::load::Error;
use clap::Subcommand;
use net::target::Refused;

/// The commands of `dnsrack load`.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Send queries at a rate, by a window or as a flood, and time every answer
    Run(Box<run::Run>),
    /// Send the queries of a capture, at their own times or faster
    Replay(Box<replay::Replay>),
    /// Find the capacity and the knee of a server (RFC 9971)
    Search(Box<search::Search>),
    /// Measure the limits of this machine: send and echo rates, clock, jitter, drops
    Calibrate(calibrate::Calibrate),
    /// Answer every query with itself, as the other end of a calibration
    Echo(echo::Echo),
}

/// Wrong flags are wrong usage; everything else failed.
fn failure(error: Error) -> Failure {
    match error {
        Error::Spec(_) | Error::Target(Refused::External(_)) => Failure::usage(error.to_string()),
        other => other.into(),
    }
}

/// Runs the command.
pub fn run(command: Command, common: &Common) -> output::Result {
    match command {
        Command::Run(args) => run::run(&args, common),
        Command::Replay(args) => replay::run(&args, common),
        Command::Search(args) => search::run(&args, common),
        Command::Calibrate(args) => calibrate::run(&args, common),
        Command::Echo(args) => echo::run(&args, common),
    }
}
