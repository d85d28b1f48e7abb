//! `dnsrack trace fit`.

use crate::output::{self, Common, Failure, Status, write_output};
use clap::Args;
use measure::units::grouped;
use measure::{Reason, Seed};
use serde::Serialize;
use std::path::{Path, PathBuf};
use trace::fit::{Fitted, Sample};
use traffic::{Names, Want};

/// The flags of `trace fit`.
#[derive(Debug, Args)]
pub struct Fit {
    /// Captures (pcap, pcapng; gzip, zstd, xz, lz4), merged by time; - is standard input
    #[arg(value_name = "CAPTURE", required = true)]
    captures: Vec<PathBuf>,
    /// Profile to write (TOML); - is standard output
    #[arg(short, long, value_name = "PROFILE")]
    output: PathBuf,
    /// Let this zone decide whether names exist, instead of the answers
    #[arg(long, value_name = "ZONE")]
    zone: Option<PathBuf>,
    /// Port of the servers; several are possible
    #[arg(long = "port", value_name = "PORT", default_value = "53")]
    ports: Vec<u16>,
}

/// The output of `--json`.
#[derive(Serialize)]
struct Summary<'a> {
    output: &'a Path,
    warnings: &'a [Reason],
    sample: &'a Sample,
    /// A share near a half is known to plus and minus so much, 19 times of 20.
    sampling_error: f64,
    /// As in the file.
    profile: serde_json::Value,
}

pub fn run(args: &Fit, common: &Common) -> output::Result {
    common.no_two_outputs(&args.output)?;
    let zone = args.zone.as_deref().map(|path| zone(path, common)).transpose()?;
    let names: Vec<String> = args.captures.iter().map(|path| path.display().to_string()).collect();
    let mut progress = common.progress("packets", 0);
    let fitted =
        trace::fit::fit(&args.captures, &args.ports, zone.as_ref(), &names.join(", "), &mut |packets| {
            progress.set(packets);
        });
    progress.finish();
    let fitted = fitted?;
    let text = fitted.to_toml();
    write_output(&args.output, |out| Ok(out.write_all(text.as_bytes())?))?;
    for warning in &fitted.warnings {
        eprintln!("warning: {warning}");
    }
    if args.output != Path::new("-") {
        let summary = Summary {
            output: &args.output,
            warnings: &fitted.warnings,
            sample: &fitted.sample,
            sampling_error: fitted.sample.error(),
            profile: toml::from_str(&text)?,
        };
        common.tell("trace.fit", &summary, || sentences(&args.output, &fitted))?;
    }
    Ok(Status::Done)
}

/// The zone's names, all of which must be known.
fn zone(path: &Path, common: &Common) -> Result<Names, Failure> {
    let size = path.metadata().map_or(0, |m| m.len());
    let mut progress = common.progress("octets of the zone", size);
    let names = Names::from_zone(path, Seed(1), Want::Names, &mut |octets| progress.set(octets));
    progress.finish();
    let names = names?;
    if !names.is_complete() {
        return Err(Failure::usage(format!(
            "--zone: {} has too many names to know all of them: let the answers tell, without --zone",
            path.display()
        )));
    }
    Ok(names)
}

fn sentences(output: &Path, fitted: &Fitted) -> String {
    let Fitted { profile, sample, .. } = fitted;
    let share = |part: u64, of: u64| format!("{:.1} %", part as f64 * 100.0 / of.max(1) as f64);
    let known = sample.hits + sample.misses;
    let hits = match known {
        0 => "whether names exist is not known".to_owned(),
        n => format!(
            "{} of the names do not exist, {} popular names that do and {} that do not",
            share(sample.misses, n),
            profile.popular.len(),
            profile.popular_nonexistent.len()
        ),
    };
    let retry = match profile.retry {
        Some(_) => format!(
            "; {} of {} truncated answers were asked again over TCP",
            grouped(sample.left_out.retries),
            grouped(sample.truncated)
        ),
        None => String::new(),
    };
    let rate = sample.rate.map_or_else(String::new, |rate| format!(", {rate:.1} a second"));
    format!(
        "{}: profile of {} queries{rate} (± {:.2} % of a share near a half)\n{} clients in {} classes; {hits}\n{} over TCP{retry}\n",
        output.display(),
        grouped(sample.queries),
        sample.error() * 100.0,
        grouped(sample.clients),
        sample.classes,
        share(sample.tcp, sample.queries),
    )
}
