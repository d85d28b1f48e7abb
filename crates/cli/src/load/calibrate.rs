//! `dnsrack load calibrate`

use super::flags::{Cpus, cpu_list, positive};
use super::{failure, show, stop_flag};
use crate::output::{self, Common, Status};
use ::load::calibrate::{CalibrateSpec, calibrate};
use ::load::parse_target;
use clap::Args;
use measure::Nanos;
use std::net::SocketAddr;

/// The flags of `load calibrate`.
#[derive(Debug, Args)]
pub struct Calibrate {
    /// An echo that already runs ('load echo'); none: one of our own, on loopback
    #[arg(value_name = "TARGET", value_parser = parse_target)]
    target: Option<SocketAddr>,
    /// Cores of the generator [default: the last]
    #[arg(long, value_name = "LIST", value_parser = cpu_list)]
    cpus: Option<Cpus>,
    /// Core of our own echo [default: the first]
    #[arg(long, value_name = "CPU")]
    echo_cpu: Option<usize>,
    /// Length of each trial
    #[arg(long, default_value = "1s", value_parser = positive)]
    trial: Nanos,
    /// The most time for the search of the echo's rate
    #[arg(long, default_value = "30s", value_parser = positive)]
    budget: Nanos,
    /// The target is not on this machine, and yours to load
    #[arg(long)]
    allow_external: bool,
}

/// Calibrates and tells what this machine can claim.
pub fn run(args: &Calibrate, common: &Common) -> output::Result {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let cpus = args.cpus.clone().map_or_else(|| vec![cores - 1], |c| c.0);
    let spec = CalibrateSpec {
        target: args.target,
        echo_cpu: args.echo_cpu.or(Some(0)),
        cpus,
        trial: args.trial,
        budget: args.budget,
        allow_external: args.allow_external,
    };
    let stop = stop_flag()?;
    let found = calibrate(&spec, &stop, &mut |text| eprintln!("{text}")).map_err(failure)?;
    if common.json {
        output::json("load.calibrate", &found)?;
    } else {
        output::print(&show::calibration(&spec, &found))?;
    }
    Ok(if found.echo_qps.is_some() { Status::Done } else { Status::Differs })
}
