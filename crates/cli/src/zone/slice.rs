//! `dnsrack zone slice`.

use super::input;
use super::sign::Signing;
use crate::output::{self, Common, Failure, Status};
use clap::{ArgGroup, Args};
use measure::units::grouped;
use serde::Serialize;
use serde_json::json;
use std::fs::{self, File};
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};
use tempfile::TempDir;
use traffic::CutQueries;
use wire::ranges::Partition;
use zone::Scanner;
use zone::sign::Options;
use zone::slice::{Cut, Plan};

/// `zone slice`.
#[derive(Args)]
#[command(group = ArgGroup::new("cut").required(true))]
pub struct Slice {
    /// Zone file, in any order; '-' is standard input
    #[arg(value_name = "IN")]
    input: PathBuf,
    /// Cut into this many parts with equally many records; the files are called 1-of-N.zone and so on
    #[arg(long, value_name = "N", group = "cut", value_parser = clap::value_parser!(u32).range(1..=256))]
    parts: Option<u32>,
    /// Cut by the label below the apex: a-f,g-n,o-z (first letters; digits go with a) or ..google,google..mango,mango..
    #[arg(long, value_name = "LIST", group = "cut")]
    ranges: Option<Partition>,
    /// Write the slices to this folder, which is made if necessary
    #[arg(short, long, value_name = "DIR")]
    output: PathBuf,
    /// Also cut a file of queries ("name type" lines) by the same ranges, to SLICE.queries beside SLICE.zone
    #[arg(long, value_name = "FILE")]
    queries: Option<PathBuf>,
    /// Leave out the DNSSEC records of a signed zone
    #[arg(long, conflicts_with = "sign")]
    unsigned: bool,
    /// Sign each slice: 'rzaia', or an algorithm such as ECDSAP256SHA256; old signatures are replaced
    #[arg(long, value_name = "ALGORITHM|rzaia", num_args = 0..=1, default_missing_value = "rzaia")]
    sign: Option<String>,
    #[command(flatten)]
    signing: Signing,
}

/// A slice and its files.
#[derive(Serialize)]
struct Written {
    /// The file's name without its ending.
    name: String,
    zone: PathBuf,
    #[serde(flatten)]
    slice: zone::slice::Slice,
    /// Queries in its range.
    queries: Option<u64>,
    signatures: Option<u64>,
}

/// Runs it.
pub fn run(s: &Slice, common: &Common) -> output::Result {
    let options = signing(s)?;
    let cut = match (&s.ranges, s.parts) {
        (Some(partition), _) => Cut::Ranges(partition.clone()),
        (None, n) => Cut::Parts(n.unwrap_or(1) as usize),
    };
    let (path, size) = input(&s.input);
    let mut progress = common.progress(&format!("reading {}, octets", s.input.display()), 2 * size);
    let plan = zone::slice::plan(&path, cut, s.unsigned || options.is_some(), &mut |n| progress.set(n));
    progress.finish();
    let plan = plan?;
    if let Some(queries) = &s.queries {
        traffic::check_queries_file(queries)?;
    }
    let (origin, serial) = (plan.origin.clone(), plan.serial);
    let made = Folder::make(&s.output)?;
    let (written, outside) = write(s, common, plan, options, size)?;
    made.keep();
    for w in &written {
        let mut line = format!(
            "{}: {} records, {} delegations, {} addresses copied in, range {}",
            w.zone.display(),
            grouped(w.slice.records),
            grouped(w.slice.delegations),
            grouped(w.slice.copied),
            w.slice.range
        );
        if let Some(n) = w.queries {
            line += &format!("; queries: {}", grouped(n));
        }
        if let Some(n) = w.signatures {
            line += &format!("; signatures: {}", grouped(n));
        }
        eprintln!("{line}");
    }
    if let Some(n) = outside.filter(|&n| n > 0) {
        eprintln!("left out {} queries for names outside of {origin}", grouped(n));
    }
    let origin = origin.to_string();
    let all = json!({ "origin": origin, "serial": serial, "slices": written, "queries_outside": outside });
    common.tell("zone.slice", &all, String::new)?;
    Ok(Status::Done)
}

fn signing(s: &Slice) -> Result<Option<Options>, Failure> {
    match s.sign.as_deref() {
        None if s.signing.is_used() => Err(Failure::usage("flags of the signer need --sign")),
        None => Ok(None),
        Some(text) => {
            s.signing.options(text).map(Some).map_err(|why| Failure::usage(format!("--sign: {why}")))
        }
    }
}

/// A folder that is taken away again where we made it and nothing came of it.
struct Folder {
    path: PathBuf,
    made: bool,
}

impl Folder {
    fn make(path: &Path) -> Result<Self, Failure> {
        let made = !path.exists();
        fs::create_dir_all(path).map_err(|e| at(path, &e))?;
        Ok(Self { path: path.to_owned(), made })
    }

    fn keep(mut self) {
        self.made = false;
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if self.made {
            // Not empty or gone: then it is not ours to remove.
            let _ = fs::remove_dir(&self.path);
        }
    }
}

fn at(path: &Path, e: &std::io::Error) -> Failure {
    Failure { code: 1, message: format!("{}: {e}", path.display()) }
}

/// Writes all files aside, and renames them when all are whole. Gives the slices, and how many queries are in none.
fn write(
    s: &Slice,
    common: &Common,
    plan: Plan,
    options: Option<Options>,
    size: u64,
) -> Result<(Vec<Written>, Option<u64>), Failure> {
    let aside = measure::aside::folder_in(&s.output).map_err(|e| at(&s.output, &e))?;
    let ranges = plan.partition.ranges();
    let names: Vec<String> = ranges
        .iter()
        .enumerate()
        .map(|(i, r)| r.short().map_or_else(|| format!("{}-of-{}", i + 1, ranges.len()), str::to_owned))
        .collect();
    let create = |ending: &str| -> Result<Vec<BufWriter<File>>, Failure> {
        let file = |name: &String| {
            let path = aside.path().join(format!("{name}.{ending}"));
            File::create(&path).map(|f| BufWriter::with_capacity(1 << 17, f)).map_err(|e| at(&path, &e))
        };
        names.iter().map(file).collect()
    };
    let cut = match &s.queries {
        Some(path) => {
            let mut outputs = create("queries")?;
            Some(traffic::cut_queries(path, plan.origin.as_wire(), &plan.partition, &mut outputs)?)
        }
        None => None,
    };
    let mut outputs = create("zone")?;
    let mut progress = common.progress(&format!("slicing {}, octets", s.input.display()), size);
    let slices = plan.write(&mut outputs, &mut |n| progress.set(n));
    progress.finish();
    let mut slices = slices?;
    let signatures = match options {
        Some(options) => Some(sign(s, common, &aside, &names, options, &mut slices)?),
        None => None,
    };
    for name in &names {
        for ending in ["zone", "queries"] {
            let (from, to) = (aside.path().join(name), s.output.join(name));
            let [from, to] = [from, to].map(|p| PathBuf::from(format!("{}.{ending}", p.display())));
            if ending == "zone" || cut.is_some() {
                fs::rename(&from, &to).map_err(|e| at(&to, &e))?;
            }
        }
    }
    let queries_of = |n: usize| cut.as_ref().map(|c: &CutQueries| c.queries[n]);
    let written = names.into_iter().zip(slices).enumerate().map(|(n, (name, slice))| Written {
        zone: s.output.join(format!("{name}.zone")),
        name,
        slice,
        queries: queries_of(n),
        signatures: signatures.as_ref().map(|all| all[n]),
    });
    Ok((written.collect(), cut.as_ref().map(|c| c.outside)))
}

/// Signs the slices where they lie, all with the same keys; gives their numbers of signatures.
fn sign(
    s: &Slice,
    common: &Common,
    aside: &TempDir,
    names: &[String],
    mut options: Options,
    slices: &mut [zone::slice::Slice],
) -> Result<Vec<u64>, Failure> {
    if options.keys.is_none() {
        let keys = aside.path().join("keys");
        fs::create_dir(&keys).map_err(|e| at(&keys, &e))?;
        options.keys = Some(keys);
    }
    let mut signatures = Vec::new();
    for (name, slice) in names.iter().zip(slices) {
        let (from, to) = (aside.path().join(format!("{name}.zone")), aside.path().join("signed"));
        let mut out = BufWriter::with_capacity(1 << 20, File::create(&to).map_err(|e| at(&to, &e))?);
        let mut source = Scanner::open(&from)?;
        let mut progress = common.progress(&format!("signing {name}, octets"), slice.bytes);
        let signed = zone::sign(&mut source, &options, &mut out, &mut |n| progress.set(n));
        progress.finish();
        let signed = signed?;
        out.flush().and_then(|()| fs::rename(&to, &from)).map_err(|e| at(&to, &e))?;
        (slice.records, slice.bytes) = (signed.records, signed.bytes);
        signatures.push(signed.signatures);
        if signatures.len() == names.len() {
            // The same for all.
            s.signing.write_anchor(&signed)?;
            eprintln!("{}", signed.ds);
        }
    }
    Ok(signatures)
}
