//! `dnsrack zone info`.

use super::{facts, input};
use crate::output::{self, Common, Failure, Status};
use clap::Args;
use measure::units;
use serde::Serialize;
use std::path::PathBuf;
use zone::conformance::{self, Conformance, Published};
use zone::{Family, Profile};

/// `zone info`.
#[derive(Args)]
pub struct Info {
    /// Zone file (RFC 1035); '-' is standard input
    #[arg(value_name = "IN")]
    input: PathBuf,
    /// Compare it with a row of RZAIA's table 1.1 (rzaia:U-4-DS0:100K) or with a zone profile (COM, PT, ROOT or a file); exit status
    /// 3 if it is out of bounds
    #[arg(long, value_name = "rzaia:FAMILY:SIZE|PROFILE")]
    against: Option<String>,
}

/// The profile or table that a zone is compared with.
enum Against {
    Row(Published),
    Profile(Box<Profile>, String),
}

/// The facts, and how far they conform, where that was asked for.
#[derive(Serialize)]
struct Report<'a> {
    #[serde(flatten)]
    info: &'a zone::Info,
    #[serde(skip_serializing_if = "Option::is_none")]
    verdict: &'a Option<Conformance>,
}

/// Runs it.
pub fn run(args: &Info, common: &Common) -> output::Result {
    // Before the zone is read, which may take a while.
    let against = args.against.as_deref().map(against).transpose()?;
    let (path, size) = input(&args.input);
    let mut progress = common.progress(&format!("reading {}, octets", path.display()), size);
    let info = zone::info(&path, &mut |octets| progress.set(octets));
    progress.finish();
    let info = info?;
    let verdict = against.map(|against| match against {
        Against::Row(row) => conformance::published(&info, &row),
        Against::Profile(profile, name) => conformance::profile(&info, &profile, &name),
    });
    let text = || facts::describe(&info) + &verdict.as_ref().map_or_else(String::new, facts::conformance);
    common.tell("zone.info", &Report { info: &info, verdict: &verdict }, text)?;
    Ok(if verdict.is_none_or(|v| v.within) { Status::Done } else { Status::Differs })
}

/// Reads what `--against` says.
fn against(text: &str) -> Result<Against, Failure> {
    let Some(row) = text.strip_prefix("rzaia:") else {
        return Ok(Against::Profile(Box::new(Profile::load(text)?), text.to_owned()));
    };
    let usage = |why: String| Failure::usage(format!("--against {text}: {why}"));
    let (family, size) = row
        .split_once(':')
        .ok_or_else(|| usage("expected rzaia:FAMILY:SIZE, as in rzaia:U-4-DS0:100K".into()))?;
    let family: Family = family.parse().map_err(usage)?;
    let delegations = units::count(size).map_err(|e| usage(e.to_string()))?;
    let table =
        results::published::find("rzaia-1.1").ok_or_else(|| usage("table 1.1 is not built in".into()))?;
    let cell = |what: &str| {
        let cell = table.cell_at_size(&[family.name(), what], delegations);
        cell.and_then(|c| c.value).map(|v| v as u64).ok_or_else(|| {
            usage(format!("table 1.1 has {family} with {} TLDs: give one of these", table.columns.join(", ")))
        })
    };
    let records = [cell("NS RRs")?, cell("A RRs")?, cell("AAAA RRs")?, cell("DS RRs")?];
    Ok(Against::Row(Published { family, delegations, records, bytes: cell("File Size")? }))
}
