//! `dnsrack compare`: is the second run slower or worse than the first?

use crate::output::{self, Common, Failure, Status};
use crate::trace::share;
use ::report::compare as words;
use results::RunDir;
use results::compare::{Comparison, Side, Verdict, compare};
use serde::Serialize;
use std::path::PathBuf;

/// From which change for the worse on it is a regression, where nobody says otherwise.
const THRESHOLD: f64 = 0.05;

/// What `compare` takes.
#[derive(clap::Args)]
pub struct Command {
    /// A run directory (A), and another one (B) that is compared with it; of one alone, two of its servers are compared
    #[arg(required = true, num_args = 1..=2, value_name = "DIR")]
    dirs: Vec<PathBuf>,
    /// The labels of two servers, A's and B's [default: all of two runs, each by its label; of one run its only two, A the one that
    /// --against named]
    #[arg(long, value_name = "A,B", value_parser = labels)]
    between: Option<(String, String)>,
    /// From which share (0 to 1) on a change for the worse is a regression; of lost queries a fiftieth of it
    #[arg(long, value_name = "SHARE", default_value_t = THRESHOLD, value_parser = share)]
    threshold: f64,
}

fn labels(text: &str) -> Result<(String, String), String> {
    match text.split(',').collect::<Vec<_>>()[..] {
        [a, b] if !a.is_empty() && !b.is_empty() => Ok((a.to_owned(), b.to_owned())),
        _ => Err("give two servers' labels, as in nsd,nsd-new".into()),
    }
}

/// `compare --json`.
#[derive(Serialize)]
struct Compared<'a> {
    answer: String,
    figures: usize,
    worse: usize,
    better: usize,
    too_few: usize,
    regressions: usize,
    lost_cells: usize,
    detectable: Option<f64>,
    #[serde(flatten)]
    comparison: &'a Comparison,
}

/// Compares a run's two servers, as `experiment run --against` wants it.
pub fn against(dir: PathBuf, between: (String, String), common: &Common) -> output::Result {
    run(Command { dirs: vec![dir], between: Some(between), threshold: THRESHOLD }, common)
}

/// Runs the command.
pub fn run(command: Command, common: &Common) -> output::Result {
    let runs = command.dirs.iter().map(|dir| RunDir::open(dir)).collect::<Result<Vec<_>, _>>()?;
    let (a, b) = (&runs[0], &runs[runs.len() - 1]);
    let same = command.dirs.iter().map(std::fs::canonicalize).collect::<Result<Vec<_>, _>>()?;
    let one = same[0] == same[same.len() - 1];
    // A run that is named twice is one run.
    let b = if one { a } else { b };
    let between = match (command.between, one) {
        (None, true) => Some(only_two(a)?),
        (between, _) => between,
    };
    if let Some((label_a, label_b)) = &between {
        if one && label_a == label_b {
            return Err(Failure::usage(format!(
                "--between {label_a},{label_b}: a server cannot differ from itself"
            )));
        }
        for (run, label) in [(a, label_a), (b, label_b)] {
            if !servers(run).contains(label) {
                let known = servers(run).join(", ");
                let at = run.dir().display();
                return Err(Failure::usage(format!(
                    "--between: no server '{label}' in {at}: it has {known}"
                )));
            }
        }
    }
    let (of_a, of_b) = between.as_ref().map_or((None, None), |(a, b)| (Some(a.as_str()), Some(b.as_str())));
    let comparison = compare(Side { run: a, server: of_a }, Side { run: b, server: of_b }, command.threshold);
    let result = Compared {
        answer: words::answer(&comparison),
        figures: comparison.judged().count(),
        worse: comparison.with(Verdict::Worse),
        better: comparison.with(Verdict::Better),
        too_few: comparison.with(Verdict::TooFew),
        regressions: comparison.regressions(),
        lost_cells: comparison.lost(),
        detectable: comparison.detectable(),
        comparison: &comparison,
    };
    common.tell("compare", &result, || words::comparison(&comparison))?;
    let sound = result.regressions + result.lost_cells == 0 && comparison.told() > 0;
    Ok(if sound { Status::Done } else { Status::Differs })
}

/// The labels of a run's servers, in order of appearance.
fn servers(run: &RunDir) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for label in run.trials().iter().filter_map(|t| t.param("server")) {
        if !all.iter().any(|known| known == label) {
            all.push(label.to_owned());
        }
    }
    all
}

/// The two servers of a run: the one that another was set against first, otherwise in order of appearance.
fn only_two(run: &RunDir) -> Result<(String, String), Failure> {
    let command = run.environment()["command"].as_str().unwrap_or_default();
    let against = command
        .split_once("--against")
        .and_then(|(_, rest)| rest.strip_prefix('=').unwrap_or(rest).split_whitespace().next());
    match &servers(run)[..] {
        [a, b] if against == Some(b) => Ok((b.clone(), a.clone())),
        [a, b] => Ok((a.clone(), b.clone())),
        all => Err(Failure::usage(format!(
            "{}: one run with {} servers ({}): name another run, or two of them with --between A,B",
            run.dir().display(),
            all.len(),
            all.join(", ")
        ))),
    }
}
