//! `dnsrack trace info`.

mod plots;
mod text;
mod transfers;

use crate::output::{self, Common, Failure, Status};
use clap::Args;
use measure::{Nanos, units};
use std::path::PathBuf;
use std::thread::available_parallelism;
use trace::facts;
use trace::transfers::collect_with_facts;

/// The flags of `trace info`.
#[derive(Debug, Args)]
pub struct Info {
    /// Captures (pcap, pcapng; gzip, zstd, xz, lz4), merged by time; - is standard input
    #[arg(value_name = "CAPTURE", required = true)]
    captures: Vec<PathBuf>,
    /// Also draw it: SVG files with an index.html, and the series as CSV, in this folder, which must be new or empty
    #[arg(long, value_name = "DIR")]
    plot: Option<PathBuf>,
    /// With --plot: a line for each capture, over one time, instead of all captures as one
    #[arg(long, requires = "plot", conflicts_with = "rssac002")]
    apart: bool,
    /// Print the RSSAC002 metrics of each UTC day as YAML, and nothing else
    #[arg(long, conflicts_with_all = ["plot", "window"])]
    rssac002: bool,
    /// Name of the service in the YAML
    #[arg(long, value_name = "NAME", default_value = "unnamed", requires = "rssac002")]
    service: String,
    /// Also find zone transfers, NOTIFYs and SOA queries
    #[arg(long, conflicts_with = "rssac002")]
    transfers: bool,
    /// Length of the windows in which rates are counted
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = window)]
    window: Nanos,
    /// Port of the servers; several are possible
    #[arg(long = "port", value_name = "PORT", default_value = "53")]
    ports: Vec<u16>,
    /// Number of reading threads [default: the number of cores]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=256))]
    threads: Option<u32>,
}

fn window(text: &str) -> Result<Nanos, String> {
    match units::duration(text)? {
        0 => Err("a window must be longer than zero".into()),
        window => Ok(window),
    }
}

/// Threads to read with where nothing else is asked for.
pub fn threads(asked: Option<u32>) -> u32 {
    asked.unwrap_or_else(|| available_parallelism().map_or(1, |n| n.get() as u32).min(16))
}

pub fn run(args: &Info, common: &Common) -> output::Result {
    if args.rssac002 {
        return rssac002(args, common);
    }
    if let Some(dir) = &args.plot {
        plots::check(dir)?;
    }
    if args.apart && args.captures.iter().any(|capture| capture.as_os_str() == "-") {
        return Err(Failure::usage(
            "--apart reads each capture twice, and standard input can be read once: name a file",
        ));
    }
    let mut progress = common.progress("packets", 0);
    let (threads, mut heard) = (threads(args.threads), |packets| progress.set(packets));
    let (facts, found) = match args.transfers {
        false => (facts::collect(&args.captures, &args.ports, args.window, threads, &mut heard)?, None),
        true => {
            let captures = &args.captures;
            let both = collect_with_facts(captures, &args.ports, args.window, threads, &mut heard)?;
            (both.0, Some(both.1))
        }
    };
    // The report is of all captures as one; where they are drawn apart, each is read once more.
    let mut each = Vec::new();
    for capture in args.captures.iter().filter(|_| args.apart) {
        let name = capture.file_name().unwrap_or(capture.as_os_str()).to_string_lossy().into_owned();
        each.push((
            name,
            facts::collect(std::slice::from_ref(capture), &args.ports, args.window, threads, &mut heard)?,
        ));
    }
    progress.finish();
    if facts.counts.packets == 0 && facts.skipped.is_empty() {
        return Err(Failure { code: 1, message: "the captures hold no packets".into() });
    }
    let report = facts.report();
    if let Some(dir) = &args.plot {
        plots::write(dir, &facts, &each)?;
    }
    match found {
        None => common.tell("trace.info", &report, || text::report(&report))?,
        Some(found) => {
            let text = || text::report(&report) + &transfers::text(&found);
            common.tell("trace.info", &transfers::With { report: &report, transfers: &found }, text)?;
        }
    }
    Ok(Status::Done)
}

fn rssac002(args: &Info, common: &Common) -> output::Result {
    if common.json || common.events {
        return Err(Failure::usage("--rssac002 prints YAML: leave out --json and --events"));
    }
    let mut progress = common.progress("packets", 0);
    let threads = threads(args.threads);
    let facts =
        facts::collect_rssac002(&args.captures, &args.ports, threads, &mut |packets| progress.set(packets))?;
    progress.finish();
    if facts.is_empty() {
        return Err(Failure { code: 1, message: "the captures hold no packets".into() });
    }
    output::print(&facts.yaml(&args.service))?;
    Ok(Status::Done)
}
