//! The `dnsrack` program: arguments to one call into a library.

mod output;

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
enum Noun {}

fn main() -> ExitCode {
    let cli = Cli::parse();
    match run(cli) {
        Ok(Status::Done) => ExitCode::SUCCESS,
        Ok(Status::Differs) => ExitCode::from(3),
        Err(failure) => {
            eprintln!("dnsrack: {}", failure.message);
            ExitCode::from(failure.code)
        }
    }
}

fn run(cli: Cli) -> output::Result {
    match cli.noun {}
}
