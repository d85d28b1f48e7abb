//! `dnsrack query`: starts `dnsrack-query`, a program of its own, so that this one is built without an engine of SQL.

use crate::output::{Common, Failure, Result};
use clap::Args;
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

const PROGRAM: &str = "dnsrack-query";

/// The arguments of `query`, which `dnsrack-query` reads.
#[derive(Debug, Args)]
#[command(disable_help_flag = true)]
pub struct Query {
    /// SQL or @NAME, then sources; --help tells all
    #[arg(value_name = "ARGUMENT", trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<OsString>,
}

/// Becomes `dnsrack-query`: the one beside this program, otherwise the one on the PATH.
pub fn run(query: &Query, common: &Common) -> Result {
    if common.events {
        return Err(Failure::usage("--events: query has no events; --json prints one object"));
    }
    let beside = std::env::current_exe().ok().and_then(|own| Some(own.parent()?.join(PROGRAM)));
    let program = beside.filter(|path| path.is_file()).unwrap_or_else(|| PathBuf::from(PROGRAM));
    let error = Command::new(&program).args(common.json.then_some("--json")).args(&query.arguments).exec();
    let code = 1;
    if error.kind() == std::io::ErrorKind::NotFound && program == Path::new(PROGRAM) {
        let message = format!(
            "query: {PROGRAM} is neither beside this program nor on the PATH: build it with 'cargo build --release --package {PROGRAM}'"
        );
        return Err(Failure { code, message });
    }
    Err(Failure { code, message: format!("{}: {error}", program.display()) })
}
