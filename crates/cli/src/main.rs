//! The `dnsrack` program: arguments to one call into a library.

mod browser;
mod compare;
mod coverage;
mod doctor;
mod experiment;
mod hardware;
mod impact;
mod load;
mod output;
mod query;
mod rack;
mod report;
mod role;
mod serve;
mod submit;
mod trace;
mod traffic;
mod transfer;
mod update;
mod zone;

use clap::{Parser, Subcommand};
use output::Common;
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
    /// Generate, sign, slice, compare and inspect zones
    #[command(subcommand)]
    Zone(zone::Command),
    /// Generate queries from a profile
    #[command(subcommand)]
    Traffic(traffic::Command),
    /// Inspect, compare, edit and convert captures
    #[command(subcommand)]
    Trace(trace::Command),
    /// Send queries, and time and check the answers
    #[command(subcommand)]
    Load(Box<load::Command>),
    /// Generate and send dynamic updates, and watch when servers show them
    #[command(subcommand)]
    Update(update::Command),
    /// Transfer a zone from a server (AXFR), or its changes (IXFR), and measure that
    Transfer(transfer::Command),
    /// Set up hosts, links and paths on this machine, by hand
    #[command(subcommand)]
    Rack(rack::Command),
    /// List, show and run experiments over servers, zones and rates
    #[command(subcommand)]
    Experiment(Box<experiment::Command>),
    /// Same as 'experiment run'
    #[command(hide = true)]
    Run(experiment::Run),
    /// Measure servers on your zone as it is, and as it will be: signed, larger, or both
    Impact(Box<impact::Command>),
    /// Print the tables of run directories, and write report.html
    Report(report::Command),
    /// Ask run directories, imported traces and captures in SQL
    Query(query::Query),
    Serve(serve::Command),
    /// Tell whether a candidate is slower or worse than a base: two builds, two servers of a run, or two runs
    ///
    /// Exit status: 0 no worse than the threshold in every figure that decides, or better; 3 worse in one; 4 not known, as an
    /// interval is wider than the threshold; 5 the candidate failed where the base did not; 6 cut short.
    Compare(Box<compare::Command>),
    /// Show what this machine, or each machine of a rack, can and cannot do
    Doctor(doctor::Command),
    /// Measure this machine apart from any name server: memory, kernel, network, signatures, disk
    Hardware(hardware::Command),
    /// Run a role on a host (started by the coordinator)
    #[command(hide = true)]
    Role {
        /// host, load, update, watch, batches, pairs, path
        name: String,
        /// Of 'host': keep programs and files here
        #[arg(long)]
        folder: Option<std::path::PathBuf>,
    },
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let events = cli.common.events;
    match run(cli) {
        Ok(status) => ExitCode::from(status.code()),
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
        Noun::Experiment(command) => experiment::run(*command, common),
        Noun::Run(run) => experiment::run(experiment::Command::Run(run), common),
        Noun::Impact(command) => impact::run(*command, common),
        Noun::Report(command) => report::run(command, common),
        Noun::Query(query) => query::run(&query, common),
        Noun::Serve(command) => serve::run(&command, common),
        Noun::Compare(command) => compare::run(*command, common),
        Noun::Doctor(command) => doctor::run(&command, common),
        Noun::Hardware(command) => hardware::run(&command, common),
        Noun::Role { name, folder } => role::run(&name, folder.as_deref()),
    }
}
