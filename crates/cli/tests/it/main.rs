//! The program as a user meets it: arguments, output, exit status, what it leaves behind.

mod bad_input;
mod carried;
mod changes;
mod compare;
mod contract;
mod durable;
mod edit;
mod facts;
mod faults;
mod hardware;
mod help;
mod hosts;
mod impact;
mod import;
mod kill;
mod live;
mod load;
mod luck;
mod machines;
mod measures;
mod paths;
mod rack;
mod replay;
mod report;
mod run;
mod scenarios;
mod search;
mod serve;
mod sign;
mod slurm;
mod traces;
mod traffic;
mod transfer;
mod updates;
mod zones;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The program under test.
fn dnsrack(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_dnsrack"));
    command.args(args);
    command
}

/// The program under test, linked or copied into a folder.
fn linked(folder: &Path) -> PathBuf {
    let own = env!("CARGO_BIN_EXE_dnsrack");
    let there = folder.join("dnsrack");
    if std::fs::hard_link(own, &there).is_err() {
        std::fs::copy(own, &there).expect("a copy");
    }
    there
}

/// Runs it to its end.
fn output(args: &[&str]) -> Output {
    dnsrack(args).output().expect("the program starts")
}

/// Standard error as text.
fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Standard output as text.
fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Writes a file into a folder; gives its path.
fn write(folder: &tempfile::TempDir, name: &str, text: &str) -> String {
    let path = folder.path().join(name);
    std::fs::write(&path, text).expect("written");
    path.to_str().expect("a path").to_owned()
}

/// The program that `dnsrack query` starts; says loudly where it is not built.
pub fn query_program() -> Option<PathBuf> {
    let program = Path::new(env!("CARGO_BIN_EXE_dnsrack")).with_file_name("dnsrack-query");
    if !program.is_file() {
        eprintln!("SKIPPED: dnsrack-query is not built: cargo build --release --workspace");
        return None;
    }
    Some(program)
}

/// Whether a program is on this machine; says loudly where it is not.
fn has(program: &str) -> bool {
    let found = ["/usr/sbin", "/usr/bin", "/sbin", "/bin", "/usr/local/bin", "/usr/local/sbin"]
        .iter()
        .any(|folder| Path::new(folder).join(program).exists());
    if !found {
        eprintln!("SKIPPED: {program} is not installed");
    }
    found
}

/// An experiment of seconds, as a file of its own.
const TINY: &str = r#"
name = "tiny"
title = "A test of seconds"
measure = ["latency"]
servers = ["nsd"]
settle = "0s"

[zone]
families = ["U-4-DS0"]
delegations = [300]

[latency]
rates = [500]
duration = "1s"
warmup = "100ms"
deadline = "1s"
"#;
