//! `dnsrack serve`: pages over run directories.

use crate::output::{self, Common, Failure, Status};
use ::serve::{Error, Options};
use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;

/// The port where none is named.
const PORT: u16 = 5380;

/// Show run directories as web pages: all runs, one run while it goes on, the history of a figure, comparisons
///
/// Pages are on this machine alone (a loopback address) and change nothing. They follow the folders: a run that begins is shown.
#[derive(clap::Args)]
pub struct Command {
    /// Folders of run directories, and run directories [default: runs]
    #[arg(value_name = "DIR")]
    dirs: Vec<PathBuf>,
    /// Port to listen on; 0: any that is free
    #[arg(long, value_name = "PORT", default_value_t = PORT)]
    port: u16,
    /// Address to listen on [default: 127.0.0.1]
    #[arg(long, value_name = "ADDR")]
    address: Option<IpAddr>,
    /// The address may be one that other machines reach. The pages need a token then, which is made anew each time and printed once
    #[arg(long, requires = "address")]
    allow_external: bool,
}

/// Serves until it is interrupted.
pub fn run(command: &Command, common: &Common) -> output::Result {
    if common.events {
        return Err(Failure::usage("--events: serve has no events; --json prints the address as one object"));
    }
    let dirs = if command.dirs.is_empty() { vec![PathBuf::from("runs")] } else { command.dirs.clone() };
    let address = command.address.unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST));
    let at = (address, command.port).into();
    let options = Options { dirs, at, allow_external: command.allow_external };
    let ready = |page: &str| {
        // Whoever closed our output does not want to know.
        let _ = match common.json {
            true => output::json("serve", &serde_json::json!({ "page": page })),
            false => output::print(&format!("pages: {page}\n")),
        };
    };
    ::serve::serve(&options, ready, &output::stop_flag()?).map_err(|error| match error {
        Error::External { .. } | Error::Folder { .. } => Failure::usage(error.to_string()),
        Error::Listen { .. } => Failure { code: 1, message: error.to_string() },
    })?;
    Ok(Status::Done)
}
