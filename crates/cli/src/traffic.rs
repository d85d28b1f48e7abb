//! `dnsrack traffic`: query files and captures.

mod flags;

use crate::output::{self, Common, Failure, Status};
use clap::{Args, Subcommand, ValueEnum};
pub use flags::{NamesFlags, Shape};
use measure::clock::SECOND;
use measure::{Arrivals, Nanos, Seed, units};
use serde::Serialize;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use trace::write::{Route, SERVER_V4, SERVER_V6, Writer};
use traffic::clients::Clients;
use traffic::{Changes, Kind, Lists, Order, ProfileSpec, Query, QuerySource, Synthesis, Tally};

/// RZAIA's rate and duration (seed 003, section 3.1).
const RATE: f64 = 5000.0;
const DURATION: Nanos = 60 * SECOND;
/// When captures begin: 2009-03-30T00:00:00Z. Any constant would do; the same seed must give the same bytes.
const AT: u64 = 1_238_371_200;

/// What `dnsrack traffic` can do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Make queries from a profile over the names of a zone, or of several lists
    Generate(Generate),
}

/// The flags of `traffic generate`.
#[derive(Debug, Args)]
pub struct Generate {
    /// rzaia, isc, nominet, or the path of a profile file
    #[arg(value_name = "PROFILE")]
    profile: String,
    #[command(flatten)]
    names: NamesFlags,
    #[command(flatten)]
    shape: Shape,
    /// Share of queries with an OPT record, instead of the profile's
    #[arg(long, value_name = "SHARE")]
    edns: Option<f64>,
    /// Share of queries with DO, instead of the profile's
    #[arg(long = "do", value_name = "SHARE")]
    do_bit: Option<f64>,
    /// Queries per second [default: 5K]
    #[arg(long, value_parser = rate)]
    rate: Option<f64>,
    /// How long the queries last [default: 60s]
    #[arg(long, value_parser = duration, conflicts_with = "count")]
    duration: Option<Nanos>,
    /// How many queries, instead of a duration [default of query files in the zone's order: each name once]
    #[arg(long, value_parser = count)]
    count: Option<u64>,
    /// Where to write; - is standard output
    #[arg(short, long, value_name = "OUT")]
    output: PathBuf,
    /// pcap, or queries: dnsperf's "name type" lines [default: pcap where OUT ends in .pcap]
    #[arg(long, value_enum)]
    format: Option<Format>,
    /// The same seed gives the same bytes
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// When the capture begins, such as 2026-08-20T04:00:00Z [default: 2009-03-30T00:00:00Z]
    #[arg(long, value_name = "TIME", value_parser = zone::time::parse)]
    at: Option<u64>,
}

/// What is written.
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

/// `traffic generate --json`.
#[derive(Serialize)]
struct Summary<'a> {
    profile: &'a str,
    seed: u64,
    output: &'a Path,
    format: Format,
    /// Octets written.
    bytes: u64,
    /// Queries per second, and how long they last; null where lines without times were counted.
    rate: Option<f64>,
    duration_s: Option<f64>,
    /// Names kept of the names there are.
    names: usize,
    names_total: u64,
    names_are_sample: bool,
    /// What the names are: owners of delegations, of authoritative data, or of records (one name a record); null where
    /// lists differ.
    names_kind: Option<Kind>,
    lists: Vec<ListSummary<'a>>,
    #[serde(flatten)]
    tally: Tally,
}

/// A list of names, and how often it was asked for.
#[derive(Serialize)]
struct ListSummary<'a> {
    file: &'a Path,
    weight: f64,
    exist: bool,
    /// Names kept of the names there are.
    names: usize,
    names_total: u64,
    names_are_sample: bool,
    names_kind: Kind,
    /// Queries for its names.
    queries: u64,
}

fn summaries<'a>(lists: &'a Lists, tally: &Tally) -> Vec<ListSummary<'a>> {
    let one = |(n, list): (usize, &'a traffic::List)| {
        let (spec, names) = (list.spec(), list.names());
        ListSummary {
            file: &spec.file,
            weight: spec.weight,
            exist: spec.exist,
            names: names.len(),
            names_total: names.total(),
            names_are_sample: names.is_sample(),
            names_kind: names.kind(),
            queries: tally.lists.get(n).copied().unwrap_or(0),
        }
    };
    lists.lists().iter().enumerate().map(one).collect()
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
        if args.at.is_some() {
            return Err(Failure::usage("--at is for captures: --format queries has no times"));
        }
        if args.rate.is_some() && args.count.is_some() {
            return Err(Failure::usage("--rate with --count is for captures: --format queries has no times"));
        }
    }
    let seed = Seed(args.seed);
    let changes = Changes { edns: args.edns, do_bit: args.do_bit, ..args.shape.changes() };
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
    let rate = args.rate.unwrap_or(RATE);
    let arrivals = Arrivals::Fixed { rate };
    // Nominet's step: a line for each, where nothing else is asked for.
    let each_once = format == Format::Queries
        && profile.order == Order::Sequential
        && args.duration.is_none()
        && args.rate.is_none();
    let queries = args.count.unwrap_or_else(|| arrivals.count(args.duration.unwrap_or(DURATION)));
    if queries == 0 {
        return Err(Failure::usage(
            "--duration is shorter than the time between two queries at --rate: no query",
        ));
    }

    let size = inputs.iter().map(|input| input.file.metadata().map_or(0, |m| m.len())).sum();
    let mut progress = common.progress("octets of the names' files", size);
    let names = Arc::new(spec.names(&profile, &mut |octets| progress.set(octets))?);
    progress.finish();
    let queries = if each_once && args.count.is_none() { names.round() } else { queries };
    let mut source = Synthesis::new(&profile, names.clone(), seed, 0, 1)?;
    let mut clients = Clients::new(&profile, seed);
    let mut progress = common.progress("queries", queries);
    let start = args.at.unwrap_or(AT) * SECOND;
    let mut times = arrivals.times();
    let (tally, bytes) = output::write_output(&args.output, |out| {
        let mut tally = Tally::default();
        let mut query = Query::default();
        let mut advance = |tally: &mut Tally, query: &mut Query| -> Result<bool, Failure> {
            if tally.queries >= queries || !source.next(query)? {
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
                while advance(&mut tally, &mut query)? {
                    let (from, id) = clients.get(query.index);
                    let server: IpAddr = if from.is_ipv4() { SERVER_V4.into() } else { SERVER_V6.into() };
                    let route = Route { from, to: (server, 53).into(), id };
                    capture.write(start + times.next().expect("times have no end"), route, &query)?;
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
        duration_s: timed.then(|| tally.queries as f64 / rate),
        names: lists.iter().map(|list| list.names).sum(),
        names_total: lists.iter().map(|list| list.names_total).sum(),
        names_are_sample: lists.iter().any(|list| list.names_are_sample),
        names_kind: lists.iter().all(|list| list.names_kind == kind).then_some(kind),
        lists,
        tally,
    };
    if args.output != Path::new("-") {
        common.tell("traffic.generate", &summary, || sentences(&summary))?;
    }
    Ok(Status::Done)
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

fn sentences(s: &Summary<'_>) -> String {
    let t = &s.tally;
    let good = t.queries - t.background;
    let share = |n: u64| format!("{:.1} %", n as f64 * 100.0 / good.max(1) as f64);
    let mut types: Vec<_> = t.types.iter().collect();
    types.sort_by_key(|&(_, n)| std::cmp::Reverse(n));
    let types: Vec<String> = types
        .iter()
        .take(6)
        .map(|&(&kind, &n)| format!("{} {}", wire::rtype::to_text(kind), share(n)))
        .collect();
    let what = if s.format == Format::Pcap { "capture" } else { "query file" };
    // One list needs no share: it has all names that were not made.
    let lists: String =
        s.lists.iter().filter(|_| s.lists.len() > 1).map(|l| list_line(l, share(l.queries))).collect();
    let kind = s.names_kind.map_or("several kinds", kind_of_names);
    let sample = if s.names_are_sample { ", a sample" } else { "" };
    let flood = match t.background {
        0 => String::new(),
        n => format!(
            "{} of them are a flood of random labels; of the {} others:\n",
            units::grouped(n),
            units::grouped(good)
        ),
    };
    format!(
        "{}: {what} of {} queries, {} octets (profile {}, seed {})\n{flood}\
         names of {kind}: {} of {}{sample}; {} of the queries are for names that do not exist\n{lists}\
         EDNS {}, DO {}, DF {}; types {}\n",
        s.output.display(),
        units::grouped(t.queries),
        units::grouped(s.bytes),
        s.profile,
        s.seed,
        units::grouped(s.names as u64),
        units::grouped(s.names_total),
        share(t.nonexistent),
        share(t.edns),
        share(t.do_bit),
        share(t.df),
        types.join(", "),
    )
}

fn kind_of_names(kind: Kind) -> &'static str {
    match kind {
        Kind::Delegations => "delegations",
        Kind::Owners => "authoritative data",
        Kind::Records => "records",
    }
}

fn list_line(l: &ListSummary<'_>, share: String) -> String {
    format!(
        "  {}: {share} of the queries (weight {}{}); {} of {} names of {}\n",
        l.file.display(),
        l.weight,
        if l.exist { "" } else { " of those that do not exist" },
        units::grouped(l.names as u64),
        units::grouped(l.names_total),
        kind_of_names(l.names_kind),
    )
}
