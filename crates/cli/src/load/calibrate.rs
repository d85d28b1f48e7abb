//! `dnsrack load calibrate`

use super::flags::{Cpus, cpu_list, positive};
use super::{failure, show};
use crate::output::{self, Common, Status};
use ::load::calibrate::{CalibrateSpec, Calibration, calibrate};
use ::load::parse_target;
use clap::Args;
use measure::Nanos;
use measure::units::grouped;
use std::fmt::Write as _;
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
    /// On loopback only, not also between two hosts of a rack of its own (which needs root)
    #[arg(long, conflicts_with = "target")]
    no_rack: bool,
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
        rack: args.target.is_none() && !args.no_rack,
    };
    let stop = output::stop_flag()?;
    let found = calibrate(&spec, &stop, &mut |text| eprintln!("{text}")).map_err(failure)?;
    if common.json {
        output::json("load.calibrate", &found)?;
    } else {
        output::print(&(show::calibration(&spec, &found) + &between_hosts(&found)))?;
    }
    Ok(if found.echo_qps.is_some() { Status::Done } else { Status::Differs })
}

/// A line for each way of sending between hosts.
fn between_hosts(found: &Calibration) -> String {
    let mut out = String::new();
    for c in &found.rack {
        let peak = c.echo_qps.map_or("no valid trial".into(), |qps| {
            format!("{} queries/s sent, answered ({}) and timed", grouped(qps as u64), c.echo)
        });
        let _ = writeln!(
            out,
            "{:<11}between hosts: flood {} queries/s; {peak}; at 5,000/s pacing error p99 {:.1} us, latency p50 {:.1} us, \
             p99 {:.1} us",
            c.backend,
            grouped(c.flood_qps as u64),
            c.pacing_error_5000_us.p99,
            c.echo_latency_us.p50,
            c.echo_latency_us.p99,
        );
        let drops: Vec<_> = c.drops.iter().filter(|d| *d.1 > 0).collect();
        if !drops.is_empty() {
            let list: Vec<_> = drops.iter().map(|(place, n)| format!("{place} {}", grouped(**n))).collect();
            let _ = writeln!(out, "{:<11}drops: {}", "", list.join(", "));
        }
    }
    if let Some(note) = &found.rack_note {
        let _ = writeln!(out, "note: not measured between hosts: {note}");
    }
    out
}
