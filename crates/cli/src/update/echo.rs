//! `dnsrack update echo`

use super::failure;
use crate::load::positive;
use crate::output::{self, Common, Status};
use ::load::parse_target;
use ::update::TsigKey;
use ::update::echo::{DEFAULT_DURATION, Echo as Responder, EchoResult, EchoSpec};
use clap::Args;
use measure::clock::SECOND;
use measure::{Nanos, units};
use std::net::SocketAddr;
use std::path::PathBuf;

/// The flags of `update echo`.
#[derive(Debug, Args)]
pub struct Echo {
    /// Address to answer at, over UDP and TCP: ADDR, ADDR:PORT or [V6]:PORT
    #[arg(value_name = "ADDR", value_parser = parse_target)]
    addr: SocketAddr,
    /// Sign the answers to signed updates with the key in this file
    #[arg(long, value_name = "KEYFILE")]
    tsig: Option<PathBuf>,
    /// Stop after this time [default: 1h]
    #[arg(long, value_parser = positive)]
    duration: Option<Nanos>,
    /// Run on this core
    #[arg(long)]
    cpu: Option<usize>,
}

/// Answers until it is told to stop.
pub fn run(args: &Echo, common: &Common) -> output::Result {
    let duration = args.duration.unwrap_or(DEFAULT_DURATION);
    let key = args.tsig.as_deref().map(TsigKey::load).transpose().map_err(failure)?;
    let spec = EchoSpec { duration, key, cpu: args.cpu, ..EchoSpec::new(args.addr) };
    let stop = output::stop_flag()?;
    let echo = Responder::open(&spec).map_err(failure)?;
    eprintln!("acknowledging at {} for {} s; Ctrl-C ends it", echo.addr(), duration as f64 / SECOND as f64);
    let mut before = EchoResult::default();
    let progress = &mut |now: &EchoResult| {
        if now.received > before.received {
            let per_second = now.acknowledged - before.acknowledged;
            let (now, all) = (units::grouped(per_second), units::grouped(now.acknowledged));
            eprintln!("{now} acknowledged in a second, {all} in all");
        }
        before = *now;
    };
    let result = echo.run(&stop, progress).map_err(failure)?;
    common.tell("update.echo", &result, || {
        format!(
            "received {}, acknowledged {}, ignored {}, dropped by the kernel {}\n",
            units::grouped(result.received),
            units::grouped(result.acknowledged),
            units::grouped(result.ignored),
            units::grouped(result.drops),
        )
    })?;
    Ok(Status::Done)
}
