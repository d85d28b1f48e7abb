//! `dnsrack trace import`.

use super::{import_apart, info};
use crate::output::{self, Common, Failure, Status};
use clap::Args;
use measure::units::{count, grouped};
use std::fmt::Write;
use std::path::{Path, PathBuf};
use trace::import::{self, Spec, Summary};

/// The flags of `trace import`.
#[derive(Debug, Args)]
pub struct Import {
    /// Captures (pcap, pcapng; gzip, zstd, xz, lz4), merged by time; - is standard input
    #[arg(value_name = "CAPTURE", required = true)]
    pub captures: Vec<PathBuf>,
    /// Folder for the Parquet files, part-00000.parquet and so on; it must be new or empty
    #[arg(short, long, value_name = "DIR")]
    pub output: PathBuf,
    /// Most rows of a file, in whole row groups of 131,072
    #[arg(long, value_name = "N", default_value = "10M", value_parser = rows)]
    rows_per_file: u64,
    /// Port of the servers; several are possible
    #[arg(long = "port", value_name = "PORT", default_value = "53")]
    ports: Vec<u16>,
    /// Number of encoding threads, beside the one that reads [default: the number of cores; with
    /// --apart 2 for each capture]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=256))]
    threads: Option<u32>,
    /// Import each capture as a trace of its own, into a folder of its own in DIR. A manifest says
    /// what is done
    #[arg(long)]
    apart: bool,
    /// With --apart: go on with an import that was cut off, or add captures to it
    #[arg(long, requires = "apart")]
    pub resume: bool,
    /// With --apart: the captures are read on the machines of this rack file, which see them and DIR
    /// at the same paths; 'slurm': on the nodes of the job that this runs in
    #[arg(long, value_name = "FILE|slurm", requires = "apart")]
    pub rack: Option<PathBuf>,
    /// With --apart: so many captures are read on a machine at the same time [default: half the
    /// number of its cores]
    #[arg(long, value_name = "N", requires = "apart", value_parser = clap::value_parser!(u32).range(1..=256))]
    pub jobs: Option<u32>,
}

fn rows(text: &str) -> Result<u64, String> {
    match count(text)? {
        0 => Err("a file needs a row".into()),
        rows => Ok(rows),
    }
}

pub fn run(args: &Import, common: &Common) -> output::Result {
    if args.output == Path::new("-") {
        return Err(Failure::usage("--output: Parquet files need a folder: give the name of a new one"));
    }
    let spec = Spec {
        ports: args.ports.clone(),
        rows_per_file: args.rows_per_file,
        threads: info::threads(args.threads.or(args.apart.then_some(2))) as usize,
        ..Spec::default()
    };
    if args.apart {
        return import_apart::run(args, &spec, common);
    }
    let mut progress = common.progress("packets", 0);
    let summary = import::import(&args.captures, &args.output, &spec, &mut |packets| progress.set(packets))?;
    progress.finish();
    common.tell("trace.import", &summary, || text(&summary, &args.output))?;
    Ok(Status::Done)
}

/// The counts for people.
pub fn text(s: &Summary, folder: &Path) -> String {
    let mut out = format!(
        "{} rows in {} {}, {} octets: {}\n",
        grouped(s.rows),
        grouped(s.files),
        if s.files == 1 { "file" } else { "files" },
        grouped(s.octets),
        folder.display()
    );
    let skipped = [
        ("queries without an answer: NULL in its columns", s.unanswered),
        ("answers without a query: no row", s.unsolicited),
        ("messages cut short by the capture: NULL behind the cut", s.cut_short),
        ("ICMP errors about DNS: no row", s.icmp_errors),
        ("TCP connections without DNS: no row", s.connections_without_dns),
    ];
    for (what, n) in skipped.into_iter().chain(s.ignored.iter()).filter(|&(_, n)| n > 0) {
        let _ = writeln!(out, "{:>14}  {what}", grouped(n));
    }
    out
}
