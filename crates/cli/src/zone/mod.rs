//! `dnsrack zone`: one file a verb.

mod diff;
mod facts;
mod fit;
mod generate;
mod grow;
mod info;
mod sign;
mod slice;
mod strip;

use crate::output::{self, Common};
use std::path::{Path, PathBuf};

/// The commands of `dnsrack zone`.
#[derive(clap::Subcommand)]
pub enum Command {
    /// Generate a zone of any size
    Generate(generate::Generate),
    /// Sign a zone file
    Sign(sign::Sign),
    /// Show what is in a zone file, and compare it with a published row or a profile
    Info(info::Info),
    /// Show what changed between versions of a zone, and what an IXFR would carry
    Diff(diff::Diff),
    /// Cut a zone into several by its names; glue stays with the names that need it
    Slice(slice::Slice),
    /// Make a zone larger: its records stay, and delegations like its own are added
    Grow(grow::Grow),
    /// Take DNSSEC out of a signed zone
    Strip(strip::Strip),
    /// Derive a zone profile from a zone file
    Fit(fit::Fit),
}

/// Runs one of them.
pub fn run(command: Command, common: &Common) -> output::Result {
    match command {
        Command::Generate(g) => generate::run(&g, common),
        Command::Sign(s) => sign::run(&s, common),
        Command::Info(i) => info::run(&i, common),
        Command::Diff(d) => diff::run(&d, common),
        Command::Slice(s) => slice::run(&s, common),
        Command::Grow(g) => grow::run(&g, common),
        Command::Strip(s) => strip::run(&s, common),
        Command::Fit(f) => fit::run(&f, common),
    }
}

/// A file to read, and its size for the progress bar; `-` is standard input.
fn input(path: &Path) -> (PathBuf, u64) {
    let path = if path == Path::new("-") { Path::new("/dev/stdin") } else { path };
    (path.to_path_buf(), path.metadata().map_or(0, |m| m.len()))
}
