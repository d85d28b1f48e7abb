//! `dnsrack load echo`

use super::failure;
use super::flags::positive;
use crate::output::{self, Common, Status};
use ::load::echo::{DEFAULT_DURATION, EchoResult, EchoSpec};
use ::load::parse_target;
use clap::{Args, ValueEnum};
use measure::clock::SECOND;
use measure::{Nanos, units};
use std::net::SocketAddr;

/// The flags of `load echo`.
#[derive(Debug, Args)]
pub struct Echo {
    /// Where to answer: ADDR, ADDR:PORT or [V6]:PORT
    #[arg(value_name = "ADDR", value_parser = parse_target)]
    addr: SocketAddr,
    /// For how long [default: 1h]
    #[arg(long, value_parser = positive)]
    duration: Option<Nanos>,
    /// Answer with a thread and a socket, or with an XDP program in the kernel (root; on a veth, its other end needs an XDP
    /// program too, which a generator with '--backend xdp' has)
    #[arg(long, value_enum, default_value_t = Backend::Socket)]
    backend: Backend,
    /// Pin it to this core
    #[arg(long)]
    cpu: Option<usize>,
}

/// The backends that can answer.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Backend {
    Socket,
    Xdp,
}

/// Answers until it is told to stop.
pub fn run(args: &Echo, common: &Common) -> output::Result {
    let duration = args.duration.unwrap_or(DEFAULT_DURATION);
    let backend = match args.backend {
        Backend::Socket => ::load::Backend::Socket,
        Backend::Xdp => ::load::Backend::Xdp,
    };
    let spec = EchoSpec { duration, cpu: args.cpu, backend, ..EchoSpec::new(args.addr) };
    let stop = output::stop_flag()?;
    let echo = ::load::echo::Echo::open(&spec).map_err(failure)?;
    eprintln!(
        "answering at {} ({}) for {} s; Ctrl-C ends it",
        echo.addr(),
        echo.backend(),
        duration as f64 / SECOND as f64
    );
    let mut before = EchoResult::default();
    let result = echo
        .run(&stop, &mut |now| {
            if now.received > before.received {
                let per_second = now.answered - before.answered;
                eprintln!(
                    "{} answered in a second, {} in all",
                    units::grouped(per_second),
                    units::grouped(now.answered)
                );
            }
            before = *now;
        })
        .map_err(failure)?;
    if common.json {
        output::json("load.echo", &result)?;
    } else {
        output::print(&format!(
            "received {}, answered {}, ignored {}, dropped by the kernel {}\n",
            units::grouped(result.received),
            units::grouped(result.answered),
            units::grouped(result.ignored),
            units::grouped(result.drops),
        ))?;
    }
    Ok(Status::Done)
}
