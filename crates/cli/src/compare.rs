//! `dnsrack compare`: is the candidate slower or worse than the base?

use crate::experiment as experiments;
use crate::output::{self, Common, Failure, Status};
use ::experiment::Set;
use ::report::compare as words;
use measure::{Parameter, params};
use results::RunDir;
use results::compare::{self, Comparison, Gates, Outcome, Side, Verdict};
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// The experiment of the catalogue that compares two builds.
const BUILDS: &str = "compare-builds";

/// The flags of `compare`.
#[derive(clap::Args)]
pub struct Command {
    /// Run directory of the base, and that of the candidate. With one directory, two of its servers are compared
    #[arg(num_args = 1..=2, value_name = "DIR", required_unless_present = "build", conflicts_with = "build")]
    dirs: Vec<PathBuf>,
    /// Label of the server, or value of --across, that is the base [default: with one directory the one that its run names, otherwise the first of two
    /// servers; with two directories each server is compared with itself]
    #[arg(long, value_name = "LABEL", requires = "candidate")]
    base: Option<String>,
    /// Label of the server, or value of --across, that is the candidate
    #[arg(long, value_name = "LABEL", requires = "base")]
    candidate: Option<String>,
    /// Compare two values of this parameter instead of two servers, such as family: give them as --base and --candidate, which two
    /// directories do not need. docs/metrics.md lists the parameters
    #[arg(long, value_name = "PARAMETER", conflicts_with = "build", value_parser = parameter)]
    across: Option<Parameter>,
    /// Same as --base A --candidate B
    #[arg(long, value_name = "A,B", value_parser = labels, conflicts_with_all = ["base", "candidate"])]
    between: Option<(String, String)>,
    /// Program of a server, or the folder that it is installed under. Give it twice, the base first: both are measured in turn on a
    /// small zone and compared
    #[arg(long, value_name = "PROGRAM")]
    build: Vec<PathBuf>,
    /// Kind of the servers: bind, nsd, knot, powerdns or yadifa [default: by the name of the program]
    #[arg(long, value_name = "KIND", requires = "build")]
    kind: Option<String>,
    /// With --build: change a key of the experiment compare-builds (repeatable)
    #[arg(long = "set", value_name = "KEY=VALUE", requires = "build")]
    sets: Vec<Set>,
    /// With --build: begin no further repeat after this time [default: 3m]
    #[arg(long, value_name = "TIME", requires = "build")]
    budget: Option<String>,
    /// With --build: write the run directory here [default: runs/compare-builds-TIME]
    #[arg(short, long, value_name = "DIR", requires = "build")]
    output: Option<PathBuf>,
    #[command(flatten)]
    deciding: Deciding,
    #[command(flatten)]
    forms: Forms,
}

/// The forms of a comparison.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct Forms {
    /// Print Markdown instead of a table for a terminal
    #[arg(long)]
    markdown: bool,
    /// Write the comparison here too, as JUnit's XML: a test case for each figure that decides
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
    /// Write the outcome here too, as a line for a badge: JSON as shields.io reads it
    #[arg(long, value_name = "FILE")]
    badge: Option<PathBuf>,
}

/// The figures that decide about the outcome of a comparison, and their thresholds.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct Deciding {
    /// Figures that decide, each with the largest change for the worse that is allowed [default:
    /// throughput=5%,cpu=5%,pss=3%,start=10%,latency=15%,answered=1%, and where measured instructions=3%,reload=10%,transfer=10%]
    #[arg(long, value_name = "FIGURE[=SHARE],…", value_delimiter = ',', value_parser = gate)]
    gate: Vec<(String, Option<f64>)>,
    /// One threshold for all figures for which --gate says none, as a share (0 to 1) or in per cent; of lost queries a fiftieth
    /// of it [default: each its own]
    #[arg(long, value_name = "SHARE", value_parser = share)]
    threshold: Option<f64>,
}

impl Deciding {
    /// The gates; none where nothing was said.
    pub fn gates(&self) -> Result<Option<Gates>, Failure> {
        if self.gate.is_empty() && self.threshold.is_none() {
            return Ok(None);
        }
        let gates = Gates::new(&self.gate, self.threshold);
        Ok(Some(gates.map_err(|m| Failure::usage(format!("--gate, --threshold: {m}")))?))
    }
}

fn parameter(text: &str) -> Result<Parameter, String> {
    params::find(text).ok_or_else(|| format!("there is no parameter '{text}': docs/metrics.md lists them"))
}

fn labels(text: &str) -> Result<(String, String), String> {
    match text.split(',').collect::<Vec<_>>()[..] {
        [a, b] if !a.is_empty() && !b.is_empty() => Ok((a.to_owned(), b.to_owned())),
        _ => Err("give two servers' labels, as in nsd,nsd-new".into()),
    }
}

fn gate(text: &str) -> Result<(String, Option<f64>), String> {
    match text.split_once('=') {
        Some((name, value)) => Ok((name.trim().to_owned(), Some(share(value.trim())?))),
        None => Ok((text.trim().to_owned(), None)),
    }
}

/// `5%` or `0.05`.
fn share(text: &str) -> Result<f64, String> {
    let (number, by) = text.strip_suffix('%').map_or((text, 1.0), |number| (number, 100.0));
    match number.trim().parse::<f64>() {
        Ok(value) if value.is_finite() && value > 0.0 && value / by < 1.0 => Ok(value / by),
        _ => Err(format!("'{text}' is no share above 0 and below 1, such as 0.05 or 5%")),
    }
}

/// `compare --json`.
#[derive(Serialize)]
struct Compared<'a> {
    outcome: Outcome,
    answer: String,
    figures: usize,
    worse: usize,
    better: usize,
    too_few: usize,
    not_known: usize,
    regressions: usize,
    lost_cells: usize,
    detectable: Option<f64>,
    base: &'a compare::Tried,
    candidate: &'a compare::Tried,
    #[serde(flatten)]
    comparison: &'a Comparison,
}

/// Tells a comparison, and what its exit status is.
fn tell(c: &Comparison, forms: &Forms, common: &Common) -> output::Result {
    let files = [(&forms.junit, ::report::junit as fn(&_) -> _), (&forms.badge, ::report::badge)];
    for (file, text) in files.into_iter().filter_map(|(file, text)| Some((file.as_ref()?, text(c)))) {
        output::write_output(file, |out| Ok(out.write_all(text.as_bytes())?))?;
    }
    let result = Compared {
        outcome: c.outcome(),
        answer: words::answer(c),
        figures: c.findings().count(),
        worse: c.with(Verdict::Worse),
        better: c.with(Verdict::Better),
        too_few: c.with(Verdict::TooFew),
        not_known: c.gating().filter(|(_, f)| f.outcome == Outcome::NotKnown).count(),
        regressions: c.regressions(),
        lost_cells: c.lost(),
        detectable: c.detectable(),
        base: &c.a,
        candidate: &c.b,
        comparison: c,
    };
    let text = || if forms.markdown { words::markdown(c) } else { words::comparison(c) };
    common.tell("compare", &result, text)?;
    Ok(match result.outcome {
        Outcome::NoWorse | Outcome::Better => Status::Done,
        Outcome::Worse => Status::Differs,
        Outcome::NotKnown => Status::NotKnown,
        Outcome::CandidateFailed => Status::CandidateFailed,
        Outcome::CutShort => Status::CutShort,
    })
}

/// Compares a run's base and candidate, where it was made for that, and tells it.
pub fn of_run(dir: &Path, forms: &Forms, common: &Common) -> output::Result {
    match words::of_run(&RunDir::open(dir)?) {
        Some(c) => tell(&c, forms, common),
        None => Err(Failure::usage(format!("{}: this run compares nothing", dir.display()))),
    }
}

/// Runs the command.
pub fn run(command: Command, common: &Common) -> output::Result {
    if command.forms.markdown && (common.json || common.events) {
        return Err(Failure::usage(
            "--markdown, --json and --events all want standard output: give one of them",
        ));
    }
    if !command.build.is_empty() {
        return builds(command, common);
    }
    let runs = command.dirs.iter().map(|dir| RunDir::open(dir)).collect::<Result<Vec<_>, _>>()?;
    let (a, b) = (&runs[0], &runs[runs.len() - 1]);
    let same = command.dirs.iter().map(std::fs::canonicalize).collect::<Result<Vec<_>, _>>()?;
    let one = same[0] == same[same.len() - 1];
    // A run that is named twice is one run.
    let b = if one { a } else { b };
    let across = command.across.unwrap_or(params::SERVER);
    let named = compare::named(a).filter(|_| one && command.across.is_none());
    let between = match (command.base.zip(command.candidate).or(command.between), one) {
        (None, true) => Some(match &named {
            Some(named) => (named.base.clone(), named.candidate.clone()),
            None => only_two(a, across)?,
        }),
        (None, false) if command.across.is_some() => Some((only_one(a, across)?, only_one(b, across)?)),
        (between, _) => between,
    };
    if let Some((value_a, value_b)) = &between {
        if one && value_a == value_b {
            return Err(Failure::usage(format!(
                "base {value_a}, candidate {value_b}: a {} cannot differ from itself",
                across.name()
            )));
        }
        for (run, value) in [(a, value_a), (b, value_b)] {
            let known = values(run, across);
            if !known.contains(value) {
                let (known, at) = (known.join(", "), run.dir().display());
                return Err(Failure::usage(format!(
                    "no {} '{value}' in {at}: it has {known}",
                    across.name()
                )));
            }
        }
    }
    let gates = command.deciding.gates()?.or(named.map(|named| named.gates)).unwrap_or_default();
    let (side_a, side_b) = match &between {
        Some((of_a, of_b)) => (Side::with(a, across, of_a), Side::with(b, across, of_b)),
        None => (Side::new(a, None), Side::new(b, None)),
    };
    let comparison = compare::compare(side_a, side_b, &gates);
    tell(&comparison, &command.forms, common)
}

/// Measures two builds in turn, and compares them.
fn builds(command: Command, common: &Common) -> output::Result {
    let [base, candidate] = &command.build[..] else {
        return Err(Failure::usage("--build: give it twice: the base first, then the candidate"));
    };
    let kind = match &command.kind {
        Some(kind) => server::Kind::from_str(kind).map_err(|m| Failure::usage(format!("--kind: {m}")))?,
        None => kind_of(base)
            .filter(|kind| Some(*kind) == kind_of(candidate) || candidate.is_dir())
            .ok_or_else(|| {
                let kinds: Vec<&str> = server::Kind::ours().map(server::Kind::name).collect();
                Failure::usage(format!(
                    "--build: the programs' names do not say what they are: add --kind with one of {}",
                    kinds.join(", ")
                ))
            })?,
    };
    let set = |key: &str, value: String| Set { key: key.into(), value };
    let mut sets = Vec::new();
    for (label, build) in [("base", base), ("candidate", candidate)] {
        sets.push(set(&format!("server.{label}.kind"), kind.name().into()));
        // Quoted: a path may look like a number.
        let quoted = |path: &Path| format!("\"{}\"", path.display());
        if let Ok(root) = ::rack::Root::new(build) {
            sets.push(set(&format!("server.{label}.root"), quoted(root.path())));
            continue;
        }
        let program = server::program_in(kind, build).ok_or_else(|| {
            Failure::usage(format!(
                "--build {}: no program of {kind} that can be run is there",
                build.display()
            ))
        })?;
        sets.push(set(&format!("server.{label}.program"), quoted(&program)));
    }
    sets.extend(command.budget.map(|budget| set("comparison.budget", budget)));
    sets.extend(command.sets);
    let run = experiments::Run::of(BUILDS, sets, command.output, false, command.deciding);
    experiments::execute(run, &command.forms, common)
}

/// The kind of server, by the name of a program.
fn kind_of(program: &Path) -> Option<server::Kind> {
    let name = program.file_name()?.to_str()?;
    server::Kind::ours().find(|kind| name.starts_with(server::driver(*kind).facts().program))
}

/// The values of a parameter in a run, in order of appearance.
fn values(run: &RunDir, parameter: Parameter) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for value in run.trials().iter().filter_map(|t| t.param(parameter)) {
        if !all.iter().any(|known| known == value) {
            all.push(value.to_owned());
        }
    }
    all
}

/// The two values of a run that does not say which is which, in order of appearance.
fn only_two(run: &RunDir, parameter: Parameter) -> Result<(String, String), Failure> {
    match &values(run, parameter)[..] {
        [a, b] => Ok((a.clone(), b.clone())),
        all => Err(Failure::usage(format!(
            "{}: one run with {} ({}): name another run, or two of them with --base A --candidate B",
            run.dir().display(),
            match all.len() {
                1 => format!("1 {}", parameter.name()),
                n => format!("{n} values of {}", parameter.name()),
            },
            all.join(", ")
        ))),
    }
}

/// The value of a run that has one.
fn only_one(run: &RunDir, parameter: Parameter) -> Result<String, Failure> {
    match &values(run, parameter)[..] {
        [one] => Ok(one.clone()),
        all => Err(Failure::usage(format!(
            "{}: several values of {} ({}): say which with --base A --candidate B",
            run.dir().display(),
            parameter.name(),
            all.join(", ")
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_written_in_two_ways() {
        assert_eq!(gate("cpu=5%"), Ok(("cpu".into(), Some(0.05))));
        assert_eq!(gate("cpu = 0.05"), Ok(("cpu ".trim().into(), Some(0.05))));
        assert_eq!(gate("latency"), Ok(("latency".into(), None)));
        for wrong in ["cpu=5", "cpu=0", "cpu=-1%", "cpu=x", "cpu=100%"] {
            assert!(gate(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_program_s_name_says_what_it_is() {
        let kind = |path: &str| kind_of(Path::new(path)).map(server::Kind::name);
        assert_eq!(kind("/opt/new/sbin/nsd"), Some("nsd"));
        assert_eq!(kind("named-9.20"), Some("bind"));
        assert_eq!(kind("/opt/knot/sbin/knotd"), Some("knot"));
        assert_eq!(kind("/opt/new/server"), None);
    }
}
