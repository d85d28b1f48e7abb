//! `dnsrack impact`: a zone today against the same zone tomorrow.

use crate::compare::Deciding;
use crate::experiment as experiments;
use crate::output::{self, Common, Failure, write_output};
use ::experiment::{Set, resources};
use clap::Args;
use measure::units;
use std::path::{Path, PathBuf};
use zone::Size;

/// The experiment of the catalogue.
const IMPACT: &str = "impact";
/// How many times the rate of today the servers are asked for, too.
const TIMES: f64 = 10.0;
/// Servers that have the zone from the primary: the one measured, and another of its kind.
const SECONDARIES: u32 = 2;

/// The flags of `impact`.
#[derive(Args)]
pub struct Command {
    /// Zone file as it is served today
    #[arg(long, value_name = "FILE")]
    zone: PathBuf,
    /// Measure it signed, too: 'rzaia', or an algorithm such as ECDSAP256SHA256
    #[arg(long, value_name = "ALGORITHM|rzaia")]
    sign: Option<String>,
    /// With --sign: deny with NSEC3 instead of NSEC
    #[arg(long, requires = "sign")]
    nsec3: bool,
    /// With --nsec3: leave unsigned delegations out of the NSEC3 chain
    #[arg(long, requires = "nsec3")]
    opt_out: bool,
    /// Measure it larger, too: 20x, or a number of delegations. Its records stay, and delegations like its own are added
    #[arg(long, value_name = "20x|N")]
    grow: Option<Size>,
    /// Servers
    #[arg(long, value_name = "LABEL,…", default_value = "bind,nsd")]
    servers: String,
    /// Capture of your traffic: the queries are made after a profile that is fitted to it, at its rate and at ten times that
    #[arg(long, value_name = "CAPTURE", conflicts_with = "queries", requires = "output")]
    trace: Option<PathBuf>,
    /// Queries to send, in dnsperf's format
    #[arg(long, value_name = "FILE")]
    queries: Option<PathBuf>,
    /// Queries per second; ten times as many are sent, too [default: the capture's rate, otherwise 500]
    #[arg(long, value_name = "RATE", value_parser = units::number)]
    rate: Option<f64>,
    /// Change the zone as often as this, in updates per second, too: what a secondary transfers, how soon it serves each update
    #[arg(long, value_name = "RATE", value_parser = units::number)]
    updates: Option<f64>,
    /// With --updates: the server of the primary, which takes the updates and signs them
    #[arg(long, value_name = "LABEL", default_value = "bind", requires = "updates")]
    primary: String,
    /// Take ten to fifteen minutes for two servers, instead of hours
    #[arg(long)]
    quick: bool,
    /// Change another key of the experiment 'impact' (repeatable)
    #[arg(long = "set", value_name = "KEY=VALUE")]
    sets: Vec<Set>,
    /// Write the run directory here [default: runs/impact-TIME]
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
    /// Continue in a run directory whose run was cut off
    #[arg(long, requires = "output")]
    resume: bool,
}

/// Runs it.
pub fn run(command: Command, common: &Common) -> output::Result {
    // Before any thread exists: reading the zone starts some.
    ::rack::confine()?;
    let mut sets = scenarios(&command)?;
    let fitted = match (&command.trace, &command.output) {
        (Some(trace), Some(output)) => Some(profile(trace, &command.zone, output, common)?),
        _ => None,
    };
    if let Some((path, _)) = &fitted {
        sets.push(set("traffic.profile", quoted(path)));
    }
    if let Some(queries) = &command.queries {
        sets.push(set("traffic.queries", quoted(queries)));
    }
    let of_trace = fitted.and_then(|(_, rate)| rate);
    if let Some(rate) = command.rate.or(of_trace) {
        sets.push(set("latency.rates", format!("{rate},{}", rate * TIMES)));
    }
    if let Some(rate) = command.updates {
        sets.extend(changing(rate, &command.primary));
    }
    sets.push(set("servers", command.servers.clone()));
    if command.quick {
        sets.insert(0, set("size", "quick".into()));
    }
    sets.extend(command.sets);
    announce(&::experiment::open(IMPACT, &sets)?)?;
    let mut run = experiments::Run::of(IMPACT, sets, command.output, command.resume, Deciding::default());
    run.confined = true;
    experiments::execute(run, &crate::compare::Forms::default(), common)
}

/// The servers as secondaries of a primary whose zone changes: the first transfer, and the lag at a rate of updates.
fn changing(rate: f64, primary: &str) -> [Set; 5] {
    [
        set("measure", "memory,load,latency,peak,transfer,lag".into()),
        set("distribution.primary", primary.into()),
        set("distribution.secondaries", SECONDARIES.to_string()),
        set("distribution.measures", "transfer,lag".into()),
        set("updates.rates", rate.to_string()),
    ]
}

fn set(key: &str, value: String) -> Set {
    Set { key: key.into(), value }
}

/// A path as a text: it may look like a number.
fn quoted(path: &Path) -> String {
    format!("\"{}\"", path.display())
}

/// The zones of the experiment.
fn scenarios(command: &Command) -> Result<Vec<Set>, Failure> {
    let today = zone::probe(&command.zone)?;
    let is_signed = today.signed;
    if zone::is_signed_in_part(today.signatures, today.denials) {
        return Err(Failure::usage(format!(
            "{}: the zone is signed only in part, with {} for {} NSEC or NSEC3 records, so its servers would not answer as they do \
             today: give it whole, or take the signatures out ('dnsrack zone strip') and sign it with today's algorithm ('dnsrack \
             zone sign')",
            command.zone.display(),
            units::counted(today.signatures, "signature"),
            units::grouped(today.denials),
        )));
    }
    if command.sign.is_none() && command.grow.is_none() {
        return Err(Failure::usage("nothing changes: give --sign, --grow, or both"));
    }
    if is_signed && command.sign.is_none() {
        return Err(Failure::usage(format!(
            "{}: the zone is signed, so it must be signed again when it is larger: add --sign ALGORITHM",
            command.zone.display()
        )));
    }
    if is_signed && command.updates.is_some() {
        return Err(Failure::usage(format!(
            "{}: the zone is signed, and the primary would need its keys to sign updates: give it without \
             ('dnsrack zone strip'), or leave --updates out",
            command.zone.display()
        )));
    }
    let mut sets = vec![set("zone.file", quoted(&command.zone)), set("zone.today.strip", "false".into())];
    let mut scenario = |name: &str, signed: bool, size: Option<Size>| {
        let mut key = |key: &str, value: String| sets.push(set(&format!("zone.{name}.{key}"), value));
        key("strip", is_signed.to_string());
        match size {
            Some(Size::Times(times)) => key("grow", format!("{times}x")),
            Some(Size::Delegations(n)) => key("grow", format!("\"{n}\"")),
            None => {}
        }
        if signed {
            key("sign", "true".into());
            key("nsec3", command.nsec3.to_string());
            key("opt-out", command.opt_out.to_string());
        }
    };
    if command.sign.is_some() {
        scenario("signed", true, None);
    }
    // A zone that is signed today is never measured without.
    if let Some(size) = command.grow.filter(|_| !is_signed) {
        scenario("grown", false, Some(size));
    }
    if let (Some(size), Some(_)) = (command.grow, &command.sign) {
        scenario("grown-signed", true, Some(size));
    }
    if let Some(algorithm) = &command.sign {
        sets.push(set("zone.sign", algorithm.clone()));
    }
    Ok(sets)
}

/// Fits a profile to a capture, and writes it beside the run directory. Gives its path and the capture's queries per second.
fn profile(
    trace: &Path,
    zone: &Path,
    output: &Path,
    common: &Common,
) -> Result<(PathBuf, Option<f64>), Failure> {
    let names = traffic::Names::from_zone(zone, measure::Seed(1), traffic::Want::Names, &mut |_| {})?;
    let names = Some(&names).filter(|names| names.is_complete());
    let mut progress = common.progress("packets of the capture", 0);
    let shown = trace.display().to_string();
    let fitted =
        ::trace::fit::fit(&[trace.to_owned()], &[53], names, &shown, &mut |packets| progress.set(packets));
    progress.finish();
    let fitted = fitted?;
    for warning in &fitted.warnings {
        eprintln!("warning: {warning}");
    }
    let mut name = output.as_os_str().to_owned();
    name.push(".profile.toml");
    let path = PathBuf::from(name);
    let text = fitted.to_toml();
    write_output(&path, |out| Ok(out.write_all(text.as_bytes())?))?;
    Ok((path, fitted.sample.rate))
}

/// Says what is going to be done, and what it takes.
fn announce(e: &::experiment::Experiment) -> Result<(), Failure> {
    for (name, how) in e.scenarios() {
        eprintln!("{name}: {how}");
    }
    let needs = resources::needs(e)?;
    eprintln!(
        "{} trials of {}, about {} min; {:.1} GB of memory, {:.1} GB of zones",
        needs.trials,
        e.servers.join(", "),
        needs.seconds.div_ceil(60),
        needs.memory as f64 / 1e9,
        needs.disk as f64 / 1e9
    );
    eprintln!("{}", needs.placement);
    if let Some(precision) = &e.precision {
        eprintln!(
            "then further repeats until rates are known within {:.0} % and median latencies within {:.0} %, begun in the first {:.0} min of the run",
            100.0 * precision.rate,
            100.0 * precision.latency,
            precision.budget.0 as f64 / 60e9
        );
    }
    if needs.skipped > 0 {
        eprintln!("warning: {} trials do not fit into this machine's memory, and are skipped", needs.skipped);
    }
    Ok(())
}
