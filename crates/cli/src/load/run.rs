//! `dnsrack load run`

use super::flags::{DURATION, Flags, positive, rate};
use super::hosts::Hosts;
use super::live::{self, Show};
use super::show;
use crate::output::{self, Common, Failure, Status};
use clap::Args;
use measure::{Arrivals, Nanos, Pace, units};
use traffic::{Law, Profile};

/// The flags of `load run`.
#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("pace").required(true).args(["rate", "ramp", "steps", "window", "flood"]))]
pub struct Run {
    #[command(flatten)]
    common: Flags,
    #[command(flatten)]
    hosts: Hosts,
    #[command(flatten)]
    show: Show,
    /// Send at this rate, in queries per second, whatever the server answers (open loop)
    #[arg(long, value_parser = rate, help_heading = "Pace")]
    rate: Option<f64>,
    /// Raise the rate evenly from one to the other over the duration
    #[arg(long, value_name = "FROM:TO", value_parser = ramp, help_heading = "Pace", hide_short_help = true)]
    ramp: Option<(f64, f64)>,
    /// Send at one rate after the other, each for an equal part of the duration
    #[arg(long, value_name = "RATE,…", value_delimiter = ',', value_parser = rate, help_heading = "Pace", hide_short_help = true)]
    steps: Vec<f64>,
    /// With --rate, how queries are spaced: even, poisson, profile (the profile's [arrivals]), or a file of quantiles of the gaps,
    /// one on each line
    #[arg(
        long,
        value_name = "LAW",
        default_value = "even",
        requires = "rate",
        help_heading = "Pace",
        hide_short_help = true
    )]
    arrivals: String,
    /// Keep this many queries waiting for their answers (closed loop), as dnsperf does
    #[arg(long, value_name = "W", help_heading = "Pace")]
    window: Option<u32>,
    /// Send as fast as this machine can
    #[arg(long, help_heading = "Pace")]
    flood: bool,
    /// Send for this long [default: 10s, or until --count]
    #[arg(long, value_parser = positive, help_heading = "Pace")]
    duration: Option<Nanos>,
    /// Send at most this many queries
    #[arg(long, value_name = "N", value_parser = units::count, help_heading = "Pace", hide_short_help = true)]
    count: Option<u64>,
    /// Send for this long before queries count
    #[arg(long, default_value = "0", value_parser = units::duration, help_heading = "Pace", hide_short_help = true)]
    warmup: Nanos,
}

fn ramp(text: &str) -> Result<(f64, f64), String> {
    let (from, to) = text.split_once(':').ok_or("give two rates, as in 1K:20K")?;
    Ok((rate(from)?, rate(to)?))
}

/// The pace that the flags ask for.
fn pace(args: &Run, duration: Option<Nanos>) -> Result<Pace, Failure> {
    let timed = |flag: &str| {
        let what = format!("{flag} needs to know how long it is: give --duration");
        duration.map(|d| d + args.warmup).ok_or_else(|| Failure::usage(what))
    };
    Ok(match (args.rate, args.ramp, args.window) {
        (Some(rate), ..) => Pace::Open(law(args)?.arrivals(rate, args.common.seed())),
        (_, Some((from, to)), _) => Pace::Open(Arrivals::Ramp { from, to, over: timed("--ramp")? }),
        (.., Some(window)) => Pace::Closed { window },
        _ if !args.steps.is_empty() => {
            let each = timed("--steps")? / args.steps.len() as u64;
            Pace::Open(Arrivals::Steps { rates: args.steps.clone(), each })
        }
        _ => Pace::Flood,
    })
}

/// The law of --arrivals.
fn law(args: &Run) -> Result<Law, Failure> {
    if args.arrivals != "profile" {
        return crate::traffic::law(&args.arrivals);
    }
    let profile = args.common.profile().ok_or_else(|| {
        Failure::usage("--arrivals profile: the queries of --queries have no profile; give even or poisson")
    })?;
    Ok(Profile::load(profile)?.law)
}

/// Runs the load and tells what came of it.
pub fn run(args: &Run, common: &Common) -> output::Result {
    let duration = args.duration.or(args.count.is_none().then_some(DURATION));
    let mut spec = args.common.spec(pace(args, duration)?)?;
    (spec.duration, spec.count, spec.warmup) = (duration, args.count, args.warmup);
    let stop = output::stop_flag()?;
    let place = args.hosts.place()?;
    let mut teller = args.show.start(live::about("load run", &spec), common)?;
    let result = place.run(&spec, &stop, &mut |happened| teller.event(&happened))?;
    teller.end(&result.outcome());
    common.tell("load.run", &result, || show::run(&spec, &result))?;
    let right = result.checked.as_ref().is_none_or(|c| c.is_right());
    Ok(if result.validity.valid && right { Status::Done } else { Status::Differs })
}
