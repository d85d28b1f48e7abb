//! `dnsrack load replay`

use super::flags::{Sending, positive};
use super::live::{self, Show};
use super::{failure, show};
use crate::output::{self, Common, Status};
use ::load::{LONGEST, LoadResult};
use clap::Args;
use measure::clock::{self, SECOND};
use measure::units::{self, grouped};
use measure::{Nanos, Pace};
use serde::Serialize;
use std::fmt::Write;
use std::net::IpAddr;
use std::path::PathBuf;
use trace::{ReplaySpec, Survey};

/// The flags of `load replay`.
#[derive(Debug, Args)]
pub struct Replay {
    #[command(flatten)]
    sending: Sending,
    #[command(flatten)]
    show: Show,
    /// Send the queries of this capture: pcap or pcapng, plain or compressed (gzip, zstd, xz, lz4). Several are merged by time
    #[arg(long, value_name = "CAPTURE", required = true, help_heading = "Queries")]
    trace: Vec<PathBuf>,
    /// Replay this many times as fast as captured, such as 2 or 0.1
    #[arg(long, value_name = "X", default_value = "1", value_parser = speed, help_heading = "Pace")]
    speed: f64,
    /// Replay only queries that were sent to these addresses [default: any]
    #[arg(
        long,
        value_name = "ADDR",
        value_delimiter = ',',
        help_heading = "Queries",
        hide_short_help = true
    )]
    to: Vec<IpAddr>,
    /// Replay only queries that were sent to these ports [default: 53]
    #[arg(
        long,
        value_name = "PORT",
        value_delimiter = ',',
        help_heading = "Queries",
        hide_short_help = true
    )]
    ports: Vec<u16>,
    /// Stop after this time [default: at the end of the trace]
    #[arg(long, value_parser = positive, help_heading = "Pace")]
    duration: Option<Nanos>,
    /// Stop after this many queries
    #[arg(long, value_name = "N", value_parser = units::count, help_heading = "Pace", hide_short_help = true)]
    count: Option<u64>,
    /// Send this much of it before queries count
    #[arg(long, default_value = "0", value_parser = units::duration, help_heading = "Pace", hide_short_help = true)]
    warmup: Nanos,
}

fn speed(text: &str) -> Result<f64, String> {
    match units::number(text)? {
        speed if speed > 0.0 => Ok(speed),
        _ => Err("a speed must be more than zero".into()),
    }
}

/// The replay and its result.
#[derive(Serialize)]
struct Replayed<'a> {
    /// The queries of the captures.
    trace: &'a Survey,
    speed: f64,
    #[serde(flatten)]
    result: &'a LoadResult,
}

/// Sends the queries of the trace at their times, and tells what came of it.
pub fn run(args: &Replay, common: &Common) -> output::Result {
    let trace = ReplaySpec { paths: args.trace.clone(), ports: args.ports.clone(), to: args.to.clone() };
    // Read once more by the engine before it starts; here it says what is to come.
    let survey = trace.check()?;
    eprint!("{}", sentences(&survey, args.speed));
    let mut spec = args.sending.spec(trace, Pace::Recorded { speed: args.speed });
    let rest = survey
        .length(args.speed)
        .saturating_sub(args.warmup)
        .clamp(1, LONGEST - args.warmup.min(LONGEST - 1));
    spec.duration = Some(args.duration.unwrap_or(rest).min(rest));
    (spec.count, spec.warmup) = (args.count, args.warmup);
    if spec.connections.queries == 0 {
        spec.connections.queries = survey.queries_per_connection();
    }
    let stop = output::stop_flag()?;
    let mut teller = args.show.start(live::about("load replay", &spec), common)?;
    let result =
        ::load::run(&spec, || clock::now() + SECOND / 100, &stop, &mut |happened| teller.event(&happened))
            .map_err(failure)?;
    teller.end(&result.outcome());
    let replayed = Replayed { trace: &survey, speed: args.speed, result: &result };
    common.tell("load.replay", &replayed, || show::run(&spec, &result))?;
    let right = result.checked.as_ref().is_none_or(|c| c.is_right());
    Ok(if result.validity.valid && right { Status::Done } else { Status::Differs })
}

/// The trace in words, and which parts of the captures are left out.
fn sentences(s: &Survey, speed: f64) -> String {
    let mut out = format!(
        "{} queries ({} over TCP, {} over IPv6) captured in {:.3} s: {:.0}/s, at most {} in a second; at speed {speed}\n",
        grouped(s.queries),
        grouped(s.tcp),
        grouped(s.ipv6),
        s.duration as f64 / SECOND as f64,
        s.rate(),
        grouped(s.second_max),
    );
    let own =
        [("queries to other addresses or ports", s.elsewhere), ("queries not captured in full", s.cut_short)];
    for (what, count) in own.into_iter().filter(|&(_, count)| count > 0).chain(s.skipped.iter()) {
        let _ = writeln!(out, "left out: {} {what}", grouped(count));
    }
    if s.disordered > 0 {
        let _ = writeln!(
            out,
            "{} queries were captured before the one before them: both are sent together",
            grouped(s.disordered)
        );
    }
    out
}
