//! `dnsrack zone fit`.

use super::input;
use crate::output::{self, Common, Failure, Status, write_output};
use clap::Args;
use serde::Serialize;
use std::path::PathBuf;

/// `zone fit`.
#[derive(Args)]
pub struct Fit {
    /// Zone file (RFC 1035), signed or not; '-' is standard input
    #[arg(value_name = "IN")]
    input: PathBuf,
    /// Profile to write (TOML); '-' is standard output
    #[arg(short, long, value_name = "PROFILE")]
    output: PathBuf,
}

/// The output of `--json`.
#[derive(Serialize)]
struct Fitted<'a> {
    output: String,
    profile: &'a zone::Profile,
}

/// Runs it.
pub fn run(args: &Fit, common: &Common) -> output::Result {
    common.no_two_outputs(&args.output)?;
    let (path, size) = input(&args.input);
    let mut progress = common.progress(&format!("reading {}, octets", path.display()), size);
    let info = zone::info(&path, &mut |octets| progress.set(octets));
    progress.finish();
    let info = info?;
    let profile = zone::fit(&info).ok_or_else(|| Failure {
        code: 1,
        message: format!(
            "{}: the zone {} has no delegations: a zone profile says how delegations look",
            path.display(),
            info.origin
        ),
    })?;
    write_output(&args.output, |out| Ok(out.write_all(profile.to_toml().as_bytes())?))?;
    let fitted = Fitted { output: args.output.display().to_string(), profile: &profile };
    common.tell("zone.fit", &fitted, String::new)?;
    Ok(Status::Done)
}
