//! The `dnsrack` program: arguments to one call into a library.

mod compare;
mod doctor;
mod experiment;
mod load;
mod output;
mod rack;
mod report;
mod role;
mod trace;
mod traffic;
mod transfer;
mod update;
mod zone;

use clap::{Parser, Subcommand};
use output::{Common, Status};
use std::process::ExitCode;

/// The name-server test rack: real servers, very large zones, figures that can be defended
#[derive(Parser)]
#[command(name = "dnsrack", version, propagate_version = true)]
struct Cli {
    #[command(subcommand)]
    noun: Noun,
    #[command(flatten)]
    common: Common,
}

#[derive(Subcommand)]
#[allow(clippy::large_enum_variant, reason = "one a run")]
enum Noun {
    /// Zones: generate, sign, slice, compare, look into
    #[command(subcommand)]
    Zone(zone::Command),
    /// Traffic: query files and captures from a profile
    #[command(subcommand)]
    Traffic(traffic::Command),
    /// Traces: look into captures, edit them
    #[command(subcommand)]
    Trace(trace::Command),
    /// Load: queries at a server, answers checked and timed
    #[command(subcommand)]
    Load(Box<load::Command>),
    /// Updates: streams of changes to a zone, how fast a server takes them, when each server shows them
    #[command(subcommand)]
    Update(update::Command),
    /// Transfer a zone from a server (AXFR), or what changed in it (IXFR), and say what that took
    Transfer(transfer::Command),
    /// A lab of hosts on this machine, by hand
    #[command(subcommand)]
    Rack(rack::Command),
    /// Experiments: plans of trials over servers, zones and rates
    #[command(subcommand)]
    Experiment(experiment::Command),
    /// The same as 'experiment run'
    #[command(hide = true)]
    Run(experiment::Run),
    /// Tables and report.html of run directories
    Report(report::Command),
    /// Whether a run is slower or worse than another, or a server than another of the same run
    ///
    /// Exit status 3: a figure is worse beyond the threshold for certain, B failed where A did not, or there are too few
    /// valid trials to tell anything.
    Compare(compare::Command),
    /// What this machine can and cannot do
    Doctor,
    /// What runs on a host other than the coordinator's
    #[command(hide = true)]
    Role {
        /// load, update, watch, path
        name: String,
    },
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let events = cli.common.events;
    match run(cli) {
        Ok(Status::Done) => ExitCode::SUCCESS,
        Ok(Status::Differs) => ExitCode::from(3),
        Err(failure) => {
            eprintln!("dnsrack: {}", failure.message);
            if events {
                // Said already where this fails.
                let _ = output::event(&measure::Event::Error { message: failure.message });
            }
            ExitCode::from(failure.code)
        }
    }
}

fn run(cli: Cli) -> output::Result {
    let common = &cli.common;
    match cli.noun {
        Noun::Zone(command) => zone::run(command, common),
        Noun::Traffic(command) => traffic::run(command, common),
        Noun::Trace(command) => trace::run(command, common),
        Noun::Load(command) => load::run(*command, common),
        Noun::Update(command) => update::run(command, common),
        Noun::Transfer(command) => transfer::run(&command, common),
        Noun::Rack(command) => rack::run(command, common),
        Noun::Experiment(command) => experiment::run(command, common),
        Noun::Run(run) => experiment::run(experiment::Command::Run(run), common),
        Noun::Report(command) => report::run(command, common),
        Noun::Compare(command) => compare::run(command, common),
        Noun::Doctor => doctor::run(common),
        Noun::Role { name } => role::run(&name),
    }
}
