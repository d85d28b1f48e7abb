//! `dnsrack load search`

use super::flags::{Flags, positive, rate};
use super::hosts::Hosts;
use super::live::{self, Show, Teller};
use super::show;
use crate::output::{self, Common, Failure, Status};
use ::load::search::{
    self, CapacityGoal, Fractions, Goal, LatencyAt, Offered, SearchResult, Trial, capacity, drive, latency_at,
};
use ::load::{LoadResult, LoadSpec};
use ::report::live::About;
use clap::Args;
use measure::clock::SECOND;
use measure::metrics::{self, Scope};
use measure::units;
use measure::{Arrivals, Event, Nanos, Outcome, Pace, series};
use report::{RatePoint, SearchPlot, search_html, search_svg};
use std::path::{Path, PathBuf};

/// The flags of `load search`.
#[derive(Debug, Args)]
pub struct Search {
    #[command(flatten)]
    common: Flags,
    #[command(flatten)]
    hosts: Hosts,
    #[command(flatten)]
    show: Show,
    /// Loss goal: the largest share of queries that may be lost at the knee
    #[arg(long, default_value_t = 0.001, help_heading = "Search")]
    loss: f64,
    /// Spend at most this time on trials
    #[arg(long, default_value = "60s", value_parser = positive, help_heading = "Search")]
    budget: Nanos,
    /// Length of a full trial
    #[arg(long, default_value = "2s", value_parser = positive, help_heading = "Search", hide_short_help = true)]
    trial: Nanos,
    /// Length of the first, short trial at a rate
    #[arg(long, default_value = "500ms", value_parser = positive, help_heading = "Search", hide_short_help = true)]
    initial: Nanos,
    /// Time of trials after which the class of a rate is decided (goal duration sum of RFC 9971)
    #[arg(long, default_value = "4s", value_parser = positive, help_heading = "Search", hide_short_help = true)]
    duration_sum: Nanos,
    /// Share of a rate's trials, by time, that may exceed the loss goal (exceed ratio of RFC 9971)
    #[arg(long, default_value_t = 0.5, help_heading = "Search", hide_short_help = true)]
    exceed: f64,
    /// Stop when the bounds are this close, relative to the upper one
    #[arg(long, default_value_t = 0.02, help_heading = "Search")]
    width: f64,
    /// Lowest rate to try
    #[arg(long, default_value = "100", value_parser = rate, help_heading = "Search", hide_short_help = true)]
    min: f64,
    /// Highest rate to try; 'load calibrate' says what the generator can offer
    #[arg(long, default_value = "10M", value_parser = rate, help_heading = "Search", hide_short_help = true)]
    max: f64,
    /// First rate of the search [default: 1.5 times the capacity, or 20K]
    #[arg(long, value_parser = rate, help_heading = "Search", hide_short_help = true)]
    start: Option<f64>,
    /// Measure the capacity first, with this many queries waiting; 0: do not
    #[arg(long, default_value_t = 250, help_heading = "Search")]
    window: u32,
    /// Length of each of the six loads that measure the capacity
    #[arg(long, default_value = "1s", value_parser = positive, help_heading = "Search", hide_short_help = true)]
    window_load: Nanos,
    /// Then measure latency at these percentages of the knee [bare: 10,20,30,40,50,60,70,80,90]
    #[arg(long, value_name = "PERCENTS", value_parser = percents, num_args = 0..=1,
          default_missing_value = "10,20,30,40,50,60,70,80,90", help_heading = "Search")]
    latency_at: Option<Percents>,
    /// Length of each of these latency trials
    #[arg(long, default_value = "5s", value_parser = positive, requires = "latency_at", help_heading = "Search", hide_short_help = true)]
    latency_trial: Nanos,
    /// Send for this long before each of them
    #[arg(long, default_value = "1s", value_parser = units::duration, requires = "latency_at", help_heading = "Search", hide_short_help = true)]
    latency_warmup: Nanos,
    /// Draw latency and answered rate against offered rate: FILE.svg, or FILE.html with tables
    #[arg(long, value_name = "FILE", value_parser = picture)]
    plot: Option<PathBuf>,
}

/// The first load where nothing is known of the server, in queries per second.
const START: f64 = 20_000.0;

/// Tells of one trial, on standard error and as an event; a latency trial is at a fraction of the peak. `found` is what is
/// known after it.
fn tell(
    common: &Common,
    teller: &mut Teller,
    (number, trial, result): (usize, &Trial, &LoadResult),
    fraction: Option<f64>,
    found: &SearchResult,
) {
    if common.events {
        let mut values = series::values([
            (metrics::OFFERED_QPS.within(Scope::Search), trial.rate),
            (series::SEARCH_DURATION, trial.duration as f64 / SECOND as f64),
            (metrics::LOSS_RATIO.within(Scope::Search), trial.loss_ratio),
        ]);
        values[series::SEARCH_VALID.stem()] = trial.valid.into();
        if let Some(fraction) = fraction {
            values[series::SEARCH_PEAK_FRACTION.stem()] = fraction.into();
        }
        // Nobody reads the lines any more where this fails; the result is still reported.
        let _ = output::event(&Event::Progress { second: number as u64, values });
    }
    let shown = ::report::live::Trial {
        number,
        rate: trial.rate,
        duration: trial.duration,
        outcome: result.outcome(),
    };
    teller.trial(
        &show::trial(number, trial.rate, trial.duration, result),
        &shown,
        (found.lower, found.upper),
    );
}

/// A file that a picture can be written to, by its ending.
fn picture(text: &str) -> Result<PathBuf, String> {
    match Path::new(text).extension().and_then(|e| e.to_str()) {
        Some("svg" | "html") => Ok(text.into()),
        _ => Err(format!("'{text}' ends neither with .svg nor with .html")),
    }
}

/// Draws what was found.
fn draw(path: &Path, spec: &LoadSpec, found: &SearchResult) -> Result<(), Failure> {
    let point = |trial: &Trial, fraction: Option<f64>| {
        let seen = trial.seen.unwrap_or_default();
        let l = seen.latency_us;
        RatePoint {
            offered_qps: trial.rate,
            answered_qps: seen.answered_qps,
            loss_ratio: trial.loss_ratio,
            latency_us: [l.p50, l.p90, l.p99, l.p999],
            valid: trial.valid,
            fraction,
        }
    };
    let below = found.latency_at.iter().map(|at| {
        let trial = Trial::of(&found.goal, at.rate, 0, &at.result);
        RatePoint { valid: at.result.validity.valid, ..point(&trial, Some(at.fraction)) }
    });
    let targets: Vec<_> = spec.targets.iter().map(ToString::to_string).collect();
    let validity = found.validity();
    let verdict = validity.reasons.iter().chain(&validity.warnings).map(ToString::to_string);
    let plot = SearchPlot {
        title: format!("Peak query rate of {}", targets.join(", ")),
        points: found.trials.iter().map(|t| point(t, None)).chain(below).collect(),
        peak: found.peak_qps,
        lower: found.lower,
        upper: found.upper,
        notes: std::iter::once(show::goal(found)).chain(verdict).collect(),
    };
    let text = match path.extension().and_then(|e| e.to_str()) {
        Some("html") => search_html(&plot)?,
        _ => search_svg(&plot),
    };
    output::write_output(path, |out| Ok(out.write_all(text.as_bytes())?))
}

/// Shares of the peak, as fractions of 1.
#[derive(Clone, Debug, PartialEq)]
struct Percents(Vec<f64>);

fn percents(text: &str) -> Result<Percents, String> {
    let one = |part: &str| match part.trim().trim_end_matches('%').trim_end().parse::<f64>() {
        Ok(percent) if percent > 0.0 && percent <= 200.0 => Ok(percent / 100.0),
        _ => Err(format!(
            "'{part}' is no percentage of the peak: give numbers above 0 and up to 200 with commas, such as 10,50,90"
        )),
    };
    Ok(Percents(text.split(',').map(one).collect::<Result<_, _>>()?))
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
    let spec = args.common.spec(Pace::Open(Arrivals::Fixed { rate: args.start.unwrap_or(START) }))?;
    let stop = output::stop_flag()?;
    let place = args.hosts.place()?;
    let mut measure =
        |load: &LoadSpec| -> Result<LoadResult, Failure> { place.run(load, &stop, &mut |_| ()) };
    let mut offer = |load: &LoadSpec| -> Result<Offered, Failure> { measure(load).map(Offered::from) };
    let goal_words = format!("at most {} % lost", args.loss * 100.0);
    let about = About {
        search: true,
        pace: goal_words,
        duration: Some(args.budget),
        ..live::about("load search", &spec)
    };
    let mut teller = args.show.start(about, common)?;
    let found = if args.window == 0 {
        None
    } else {
        let goal = CapacityGoal { window: args.window, load: args.window_load, ..CapacityGoal::default() };
        let mut number = 0;
        Some(capacity(&spec, &goal, &mut offer, &mut |seen, _| {
            number += 1;
            teller.line(&show::window_load(number, args.window, seen));
        })?)
    };
    let mut known_capacity = found;
    let after_capacity = known_capacity.as_ref().and_then(|c| c.qps).map(|qps| 1.5 * qps);
    let start = args.start.or(after_capacity).unwrap_or(START);
    let plan = search::Search::new(goal, args.budget).range(args.min, args.max).start(start);
    // Learns the same as the search, and so knows its bounds.
    let mut known = plan.clone();
    let mut found = drive(&spec, plan, &mut offer, &mut |number, trial, result| {
        known.record(*trial);
        tell(common, &mut teller, (number, trial, result), None, &known.result());
    })?;
    if let Some(capacity) = &mut known_capacity {
        capacity.take_open(&found.trials);
    }
    found.capacity = known_capacity;
    // Below the knee; where that is not proven, below what is.
    if let (Some(at), Some(peak)) = (&args.latency_at, found.peak_qps.or(found.lower)) {
        let at =
            Fractions { fractions: at.0.clone(), duration: args.latency_trial, warmup: args.latency_warmup };
        let mut number = found.trials.len();
        found.latency_at =
            latency_at(&spec, peak, &at, &mut measure, &mut |LatencyAt { fraction, rate, result }| {
                number += 1;
                let trial = Trial::of(&found.goal, *rate, at.duration, result);
                tell(common, &mut teller, (number, &trial, result), Some(*fraction), &found);
            })?;
    }
    if let Some(path) = &args.plot {
        draw(path, &spec, &found)?;
    }
    let validity = found.validity();
    teller.end(&Outcome { validity: validity.clone(), ..Outcome::default() });
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percents_are_fractions() {
        assert_eq!(percents("10, 50%,120").unwrap(), Percents(vec![0.1, 0.5, 1.2]));
        for bad in ["", "10,", "0", "-5", "201", "half", "nan", "127.0.0.1"] {
            assert!(percents(bad).unwrap_err().contains("10,50,90"), "{bad}");
        }
    }
}
