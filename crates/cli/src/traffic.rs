//! `dnsrack traffic`: query files and captures.

mod flags;
mod show;

use crate::output::{self, Common, Failure, Status};
use clap::{Args, Subcommand, ValueEnum};
pub use flags::{NamesFlags, Shape, law};
use measure::clock::SECOND;
use measure::{Nanos, Seed, units};
use serde::Serialize;
use show::{Summary, sentences, summaries};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use trace::write::{Route, SERVER_V4, SERVER_V6, Writer};
use traffic::clients::Clients;
use traffic::{Order, ProfileChanges, ProfileSpec, Query, QuerySource, Synthesis, Tally};

/// RZAIA's rate and duration (seed 003, section 3.1).
const RATE: f64 = 5000.0;
const DURATION: Nanos = 60 * SECOND;
/// When captures begin: 2009-03-30T00:00:00Z. Any constant would do; the same seed must give the same bytes.
const AT: u64 = 1_238_371_200;

/// The commands of `dnsrack traffic`.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Generate queries from a profile, for the names of a zone or of several lists
    Generate(Generate),
}

/// The flags of `traffic generate`.
#[derive(Debug, Args)]
pub struct Generate {
    /// Profile: rzaia, isc, nominet, or a profile file
    #[arg(value_name = "PROFILE")]
    profile: String,
    #[command(flatten)]
    names: NamesFlags,
    #[command(flatten)]
    shape: Shape,
    /// Share of queries with an OPT record [default: the profile's]
    #[arg(long, value_name = "SHARE")]
    edns: Option<f64>,
    /// Share of queries with the DO bit [default: the profile's]
    #[arg(long = "do", value_name = "SHARE")]
    do_bit: Option<f64>,
    /// Queries per second [default: the profile's, or 5K]
    #[arg(long, value_parser = rate)]
    rate: Option<f64>,
    /// How queries are spaced in a capture: even, poisson, or a file of quantiles of the gaps, one on each line [default: the
    /// profile's, or even]
    #[arg(long, value_name = "LAW")]
    arrivals: Option<String>,
    /// Length of time that the queries cover [default: 60s]
    #[arg(long, value_parser = duration, conflicts_with = "count")]
    duration: Option<Nanos>,
    /// Number of queries, instead of a duration [default for query files in the zone's order: each name once]
    #[arg(long, value_parser = count)]
    count: Option<u64>,
    /// File to write; - is standard output
    #[arg(short, long, value_name = "OUT")]
    output: PathBuf,
    /// Format: pcap, or queries (dnsperf's "name type" lines) [default: pcap if OUT ends in .pcap]
    #[arg(long, value_enum)]
    format: Option<Format>,
    /// Seed; the same seed gives the same bytes
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Time at which the capture begins, such as 2026-08-20T04:00:00Z [default: 2009-03-30T00:00:00Z]
    #[arg(long, value_name = "TIME", value_parser = zone::time::parse)]
    at: Option<u64>,
    /// Time at which the capture ends, instead of --duration
    #[arg(long, value_name = "TIME", value_parser = zone::time::parse, conflicts_with = "count")]
    end: Option<u64>,
}

/// The output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
enum Format {
    Pcap,
    Queries,
}

fn rate(text: &str) -> Result<f64, String> {
    match units::number(text)? {
        rate if rate > 0.0 => Ok(rate),
        _ => Err("a rate must be more than zero".into()),
    }
}

fn duration(text: &str) -> Result<Nanos, String> {
    match units::duration(text)? {
        0 => Err("a duration must be more than zero".into()),
        duration => Ok(duration),
    }
}

fn count(text: &str) -> Result<u64, String> {
    match units::count(text)? {
        0 => Err("at least one query must be asked for".into()),
        count => Ok(count),
    }
}

/// Runs the command.
pub fn run(command: Command, common: &Common) -> output::Result {
    let Command::Generate(args) = command;
    generate(&args, common)
}

fn generate(args: &Generate, common: &Common) -> output::Result {
    let format = format(args)?;
    common.no_two_outputs(&args.output)?;
    if format == Format::Queries {
        // Lines have no times: what only shapes times would be ignored silently.
        for (flag, given) in [
            ("--at", args.at.is_some()),
            ("--end", args.end.is_some()),
            ("--arrivals", args.arrivals.is_some()),
        ] {
            if given {
                return Err(Failure::usage(format!("{flag} is for captures: --format queries has no times")));
            }
        }
        if args.rate.is_some() && args.count.is_some() {
            return Err(Failure::usage("--rate with --count is for captures: --format queries has no times"));
        }
    }
    let seed = Seed(args.seed);
    let changes = ProfileChanges { edns: args.edns, do_bit: args.do_bit, ..args.shape.changes() };
    let names = args.names.lists(&args.profile)?;
    let spec = ProfileSpec { profile: args.profile.clone(), names, seed, changes };
    let profile = spec.profile()?;
    let inputs = spec.lists(&profile);
    let output = args.output.canonicalize().ok();
    if let Some(input) = inputs.iter().find(|i| output.is_some() && i.file.canonicalize().ok() == output) {
        let input = input.file.display();
        return Err(Failure::usage(format!(
            "--output is {input}, which names are read from: it would be overwritten"
        )));
    }
    let rate = args.rate.or(profile.rate()).unwrap_or(RATE);
    let arrivals = args.arrivals.as_deref().map_or(Ok(profile.law.clone()), law)?.arrivals(rate, seed);
    let (start, duration) = window(args)?;
    // Nominet's step: a line for each, where nothing else is asked for.
    let each_once = format == Format::Queries
        && profile.order == Order::Sequential
        && args.duration.is_none()
        && args.rate.is_none();
    let queries = args.count.unwrap_or_else(|| arrivals.count(duration));
    if queries == 0 {
        return Err(Failure::usage(
            "--duration is shorter than the time between two queries at --rate: no query",
        ));
    }
    // Where draws decide when queries are due, they decide how many are in time.
    let drawn = format == Format::Pcap && args.count.is_none() && !arrivals.is_even();

    let size = inputs.iter().map(|input| input.file.metadata().map_or(0, |m| m.len())).sum();
    let mut progress = common.progress("octets of the names' files", size);
    let names = Arc::new(spec.names(&profile, &mut |octets| progress.set(octets))?);
    progress.finish();
    let queries = if each_once && args.count.is_none() { names.round() } else { queries };
    let mut source = Synthesis::new(&profile, names.clone(), seed, 0, 1)?;
    let mut clients = Clients::new(&profile, seed)?;
    let mut progress = common.progress("queries", queries);
    let mut times = arrivals.times();
    let (tally, bytes) = output::write_output(&args.output, |out| {
        let mut tally = Tally::default();
        let mut query = Query::default();
        let mut advance = |tally: &mut Tally, query: &mut Query| -> Result<bool, Failure> {
            if tally.queries >= queries && !drawn || !source.next(query)? {
                return Ok(false);
            }
            tally.add(query);
            if tally.queries.is_multiple_of(1 << 16) {
                progress.set(tally.queries);
            }
            Ok(true)
        };
        let bytes = match format {
            Format::Pcap => {
                let mut capture = Writer::new(out)?;
                loop {
                    let at = times.next().expect("times have no end");
                    if drawn && at >= duration || !advance(&mut tally, &mut query)? {
                        break;
                    }
                    let (from, id) = clients.get(&query);
                    let server: IpAddr = if from.is_ipv4() { SERVER_V4.into() } else { SERVER_V6.into() };
                    let route = Route { from, to: (server, 53).into(), id };
                    capture.write(start + at, route, &query)?;
                }
                capture.octets()
            }
            Format::Queries => {
                let (mut line, mut bytes) = (Vec::new(), 0);
                while advance(&mut tally, &mut query)? {
                    traffic::write_line(&query, &mut line, out)?;
                    bytes += line.len() as u64;
                }
                bytes
            }
        };
        Ok((tally, bytes))
    })?;
    progress.finish();

    let timed = format == Format::Pcap;
    let lists = summaries(&names, &tally);
    let kind = lists[0].names_kind;
    let summary = Summary {
        profile: &args.profile,
        seed: args.seed,
        output: &args.output,
        format,
        bytes,
        rate: timed.then_some(rate),
        duration_s: timed.then(|| if drawn { duration as f64 / 1e9 } else { tally.queries as f64 / rate }),
        names: lists.iter().map(|list| list.names).sum(),
        names_total: lists.iter().map(|list| list.names_total).sum(),
        names_are_sample: lists.iter().any(|list| list.names_are_sample),
        names_kind: lists.iter().all(|list| list.names_kind == kind).then_some(kind),
        lists,
        popular_left_out: source.left_out(),
        tally,
    };
    if args.output != Path::new("-") {
        common.tell("traffic.generate", &summary, || sentences(&summary))?;
    }
    Ok(Status::Done)
}

/// When the capture begins, in nanoseconds since 1970, and how long it lasts.
fn window(args: &Generate) -> Result<(Nanos, Nanos), Failure> {
    let (at, end) = (args.at.map(|at| at * SECOND), args.end.map(|end| end * SECOND));
    Ok(match (at, end, args.duration) {
        (at, None, duration) => (at.unwrap_or(AT * SECOND), duration.unwrap_or(DURATION)),
        (Some(at), Some(end), None) if at < end => (at, end - at),
        (Some(_), Some(_), None) => return Err(Failure::usage("--end is not after --at: no query")),
        (Some(_), Some(_), Some(_)) => {
            return Err(Failure::usage("two of --at, --end and --duration say the third: leave one out"));
        }
        (None, Some(end), duration) => {
            let duration = duration.unwrap_or(DURATION);
            let at = end
                .checked_sub(duration)
                .ok_or_else(|| Failure::usage("--duration before --end is before 1970: give another one"))?;
            (at, duration)
        }
    })
}

fn format(args: &Generate) -> Result<Format, Failure> {
    let extension = args.output.extension().and_then(|e| e.to_str()).unwrap_or_default();
    match (args.format, extension) {
        (Some(format), _) => Ok(format),
        (None, "pcap") => Ok(Format::Pcap),
        (None, "pcapng") => Err(Failure::usage(
            "--output ends in .pcapng, which is not written: end it in .pcap, or say --format pcap or queries",
        )),
        (None, _) => Ok(Format::Queries),
    }
}
