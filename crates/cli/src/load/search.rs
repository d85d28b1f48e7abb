//! `dnsrack load search`

use super::flags::{Flags, positive, rate};
use super::{failure, show, stop_flag};
use crate::output::{self, Common, Failure, Status};
use ::load::search::{self, Goal, drive};
use clap::Args;
use measure::clock::SECOND;
use measure::{Arrivals, Event, Nanos, Pace};

/// The flags of `load search`.
#[derive(Debug, Args)]
pub struct Search {
    #[command(flatten)]
    common: Flags,
    /// A trial that loses more than this share of its queries is a high-loss trial
    #[arg(long, default_value_t = 0.001)]
    loss: f64,
    /// The most time for trials
    #[arg(long, default_value = "60s", value_parser = positive)]
    budget: Nanos,
    /// Length of a full trial
    #[arg(long, default_value = "2s", value_parser = positive)]
    trial: Nanos,
    /// Length of a first look at a load
    #[arg(long, default_value = "500ms", value_parser = positive)]
    initial: Nanos,
    /// Enough time at one load
    #[arg(long, default_value = "4s", value_parser = positive)]
    duration_sum: Nanos,
    /// The share of high-loss time that a lower bound may have
    #[arg(long, default_value_t = 0.5)]
    exceed: f64,
    /// Done when the bounds are this near, relative to the upper one
    #[arg(long, default_value_t = 0.02)]
    width: f64,
    /// The smallest load
    #[arg(long, default_value = "100", value_parser = rate)]
    min: f64,
    /// The greatest load: what the generator can offer, by 'load calibrate'
    #[arg(long, default_value = "10M", value_parser = rate)]
    max: f64,
    /// The first load
    #[arg(long, default_value = "20K", value_parser = rate)]
    start: f64,
}

/// Runs the search and tells what it found.
pub fn run(args: &Search, common: &Common) -> output::Result {
    let goal = Goal {
        loss_ratio: args.loss,
        exceed_ratio: args.exceed,
        initial_trial: args.initial,
        final_trial: args.trial,
        duration_sum: args.duration_sum,
        width: args.width,
    };
    goal.check().map_err(Failure::usage)?;
    if args.min > args.max {
        return Err(Failure::usage(format!("--min {} is above --max {}", args.min, args.max)));
    }
    let spec = args.common.spec(Pace::Open(Arrivals::Fixed { rate: args.start }))?;
    let stop = stop_flag()?;
    let plan = search::Search::new(goal, args.budget).range(args.min, args.max).start(args.start);
    let found = drive(&spec, plan, &stop, &mut |number, rate, duration, result| {
        if common.events {
            let values = serde_json::json!({
                "search_offered_qps": rate, "search_duration": duration as f64 / SECOND as f64,
                "search_loss_ratio": result.loss_ratio(), "search_valid": result.validity.valid,
            });
            let _ = output::event(&Event::Progress { second: number as u64, values });
        }
        eprintln!("{}", show::trial(number, rate, duration, result));
    })
    .map_err(failure)?;
    let validity = found.validity();
    if common.events {
        output::event(&Event::Done { result: serde_json::to_value(&found)? })?;
    } else if common.json {
        let mut value = serde_json::to_value(&found)?;
        value["validity"] = serde_json::to_value(&validity)?;
        output::json("load.search", &value)?;
    } else {
        output::print(&show::search(&found))?;
    }
    Ok(if validity.valid { Status::Done } else { Status::Differs })
}
