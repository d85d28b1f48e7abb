//! `dnsrack load run`

use super::flags::{DURATION, Flags, positive, rate};
use super::{failure, show, stop_flag};
use crate::output::{self, Common, Status};
use clap::Args;
use measure::clock::{self, SECOND};
use measure::{Arrivals, Event, Nanos, Pace, units};

/// The flags of `load run`.
#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("pace").required(true).args(["rate", "window", "flood"]))]
pub struct Run {
    #[command(flatten)]
    common: Flags,
    /// Queries per second, whatever the answers
    #[arg(long, value_parser = rate)]
    rate: Option<f64>,
    /// So many queries in flight: a closed loop, only to compare with dnsperf
    #[arg(long, value_name = "W")]
    window: Option<u32>,
    /// As fast as this machine can, whatever the answers
    #[arg(long)]
    flood: bool,
    /// For how long [default: 10s, or until --count]
    #[arg(long, value_parser = positive)]
    duration: Option<Nanos>,
    /// At most this many queries
    #[arg(long, value_name = "N", value_parser = units::count)]
    count: Option<u64>,
    /// Offer queries for so long before they count
    #[arg(long, default_value = "0", value_parser = units::duration)]
    warmup: Nanos,
}

/// Runs the load and tells what came of it.
pub fn run(args: &Run, common: &Common) -> output::Result {
    let pace = match (args.rate, args.window) {
        (Some(rate), _) => Pace::Open(Arrivals::Fixed { rate }),
        (None, Some(window)) => Pace::Closed { window },
        (None, None) => Pace::Flood,
    };
    let mut spec = args.common.spec(pace)?;
    spec.duration = args.duration.or(args.count.is_none().then_some(DURATION));
    (spec.count, spec.warmup) = (args.count, args.warmup);
    let stop = stop_flag()?;
    let result = ::load::run(&spec, || clock::now() + SECOND / 100, &stop, &mut |happened| {
        if common.events {
            // Nobody listens any more where this fails; the result is told all the same.
            let _ = output::event(&happened);
        }
        if let Event::Progress { second, values } = &happened {
            eprintln!("{}", show::second(*second, values));
        }
    })
    .map_err(failure)?;
    common.tell("load.run", &result, || show::run(&spec, &result))?;
    Ok(if result.validity.valid { Status::Done } else { Status::Differs })
}
