//! Is the candidate slower or worse than the base? Two runs, or two servers of one, cell by cell and figure by figure. A is
//! the base, B the candidate.
//!
//! Trials belong to one cell where their parameters agree. Only valid ones are used; repeats (fresh starts) are the unit.
//! Where A and B are servers of one run, their trials with the same repeat number were made one after the other: they are
//! compared pair by pair. Otherwise the repeats of a run are independent of those of the other, and what changed on the
//! machine between the runs cannot be distinguished from changes in the server.

mod figures;
mod gates;
mod machine;
mod named;
pub mod sets;
mod starts;

pub use figures::{FIGURES, Figure};
pub use gates::{GROUPS, Gates};
pub use machine::Differing;
pub use named::{Named, named};

use crate::{RunDir, TrialRecord};
use measure::{Parameter, metrics, params};
use serde::Serialize;
use stats::ratio::{self, Ratio};
use std::collections::{BTreeMap, BTreeSet};

/// One side of a comparison: a run, or what it has of one server, of one zone, or of another parameter's value.
#[derive(Clone, Copy, Debug)]
pub struct Side<'a> {
    /// The run.
    pub run: &'a RunDir,
    /// The parameter across which the sides are compared, and its value on this side; none: all trials count, each against those
    /// with the same parameters.
    pub of: Option<(Parameter, &'a str)>,
    /// Of the run only the trials up to this number; none: all.
    pub upto: Option<u32>,
}

impl<'a> Side<'a> {
    /// All that a run has of a server, or of all its servers.
    pub fn new(run: &'a RunDir, server: Option<&'a str>) -> Self {
        Self { run, of: server.map(|label| (params::SERVER, label)), upto: None }
    }

    /// All that a run has with this value of a parameter.
    pub fn with(run: &'a RunDir, parameter: Parameter, value: &'a str) -> Self {
        Self { run, of: Some((parameter, value)), upto: None }
    }

    /// The label of the server, where one counts alone.
    fn server(&self) -> Option<&'a str> {
        self.of.filter(|(parameter, _)| *parameter == params::SERVER).map(|(_, label)| label)
    }
}

/// The result of a comparison. `a` and `b` of each item are the two sides.
#[derive(Clone, Debug, Serialize)]
pub struct Comparison {
    /// The base.
    pub a: Tried,
    /// The candidate.
    pub b: Tried,
    /// Whether A and B are servers of one run, so that their repeats are pairs.
    pub interleaved: bool,
    /// The level of every interval; the rest of it is the false discovery rate of the differences shown.
    pub level: f64,
    /// From which share on a change for the worse is a regression, of figures that no gate names.
    pub threshold: f64,
    /// The figures that decide about the outcome, by name or group, each with its threshold.
    pub gates: Gates,
    /// Trials that were not done, as a run was ended before.
    pub undone: usize,
    /// Trials that failed for the candidate, or in which it gave wrong answers, in cells where the base did neither.
    pub candidate_failed: usize,
    /// The error of the first of them, or what was wrong with its answers.
    pub candidate_error: Option<String>,
    /// Cells that both sides have, in A's order.
    pub cells: Vec<Cell>,
    /// Cells and figures that only one side has.
    pub alone: Vec<Alone>,
    /// Where no cell is on both sides: the parameters that have no value in common.
    pub apart: Vec<Apart>,
    /// In what the environments differ.
    pub environment: Vec<Differing>,
}

/// How many trials a side has.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Tried {
    /// The run directory.
    pub directory: std::path::PathBuf,
    /// The server's label, where only one counts.
    pub server: Option<String>,
    /// The value of another parameter, where the sides are compared across that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// Every server's kind and version, as it said itself.
    pub versions: Vec<String>,
    /// Trials.
    pub trials: usize,
    /// Valid trials, which are used.
    pub valid: usize,
    /// Invalid trials, whose figures must not be used.
    pub invalid: usize,
    /// Trials that failed.
    pub failed: usize,
    /// Trials that were not tried: they could not fit.
    pub skipped: usize,
}

/// A measurement at the same parameters on both sides.
#[derive(Clone, Debug, Serialize)]
pub struct Cell {
    /// The parameters of its trials.
    pub params: BTreeMap<String, String>,
    /// The figures that both sides have, in the order of [`FIGURES`].
    pub figures: Vec<ComparedFigure>,
    /// The trials of both sides, by number.
    #[serde(skip)]
    pub trials: Vec<u32>,
}

/// One figure of a cell, compared.
#[derive(Clone, Debug, Serialize)]
pub struct ComparedFigure {
    /// A [`Figure`]'s name.
    pub name: &'static str,
    /// Its unit.
    pub unit: &'static str,
    /// The valid repeats of A.
    pub a: Repeats,
    /// The trials of B.
    pub b: Repeats,
    /// How many pairs were compared; none where repeats are no pairs, or too few of them have both halves.
    pub pairs: Option<usize>,
    #[serde(skip)]
    ratio: Option<Ratio>,
    /// None where there are too few repeats.
    pub change: Option<Change>,
    /// Whether a difference is shown.
    pub verdict: Verdict,
    /// Worse, and beyond the threshold for certain.
    pub regression: bool,
    /// The share of change that it is compared by.
    pub threshold: f64,
    /// Whether it decides about the outcome of the comparison.
    pub gates: bool,
    /// How it stands to its threshold: `no_worse`, `worse`, `better` or `not_known`.
    pub outcome: Outcome,
    /// Where it is not known: how many repeats of each side would tell, about, if they scatter as those so far.
    pub repeats_needed: Option<usize>,
    /// The figure of the same cell that says the same: with a window, CPU time a query is throughput once more. Such a
    /// figure is not counted and does not decide.
    pub same_as: Option<&'static str>,
}

/// The valid repeats of one side.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Repeats {
    /// How many.
    pub repeats: usize,
    /// Of how many trials.
    pub trials: usize,
    /// Their median, in the figure's unit.
    pub median: f64,
    /// The geometric mean of those that the difference is of: where pairs are compared, of the whole pairs.
    pub geometric_mean: Option<f64>,
}

/// By how much B differs from A, as shares of A (−0.1: 10 % less): of geometric means, which an interval belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Change {
    /// The estimate.
    pub value: f64,
    /// Lower end of its interval.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// How often chance alone makes as much, where nothing differs.
    pub by_chance: f64,
    /// The same when it is one of all the figures compared ([`ratio::adjusted`]): a difference is shown by this one.
    pub by_chance_of_all: f64,
    /// The least true difference that would be shown, four times in five, if it were the only one.
    pub detectable: f64,
}

/// The verdict on a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// No difference can be shown.
    None,
    /// B is worse.
    Worse,
    /// B is better.
    Better,
    /// There are fewer than [`ratio::MIN_REPEATS`] valid repeats, or one is zero.
    TooFew,
}

/// How a figure stands to its threshold, and what a comparison came to as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The candidate is no worse than the threshold: its interval ends within it.
    NoWorse,
    /// The candidate is worse by more than the threshold: a difference is shown, and its interval begins beyond it.
    Worse,
    /// The candidate is better by more than the threshold, in the same way.
    Better,
    /// The interval holds the threshold, or there are too few repeats for one.
    NotKnown,
    /// The candidate failed where the base did not. Of comparisons only.
    CandidateFailed,
    /// A run was ended before all of its trials were done. Of comparisons only.
    CutShort,
}

impl Outcome {
    /// The word in JSON.
    pub fn word(self) -> &'static str {
        match self {
            Self::NoWorse => "no_worse",
            Self::Worse => "worse",
            Self::Better => "better",
            Self::NotKnown => "not_known",
            Self::CandidateFailed => "candidate_failed",
            Self::CutShort => "cut_short",
        }
    }
}

/// A parameter whose values on one side are none of the other's.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Apart {
    /// Its name.
    pub parameter: String,
    /// Its values on side A.
    pub a: Vec<String>,
    /// Its values on side B.
    pub b: Vec<String>,
}

/// A cell or figure that only one side has.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Alone {
    /// The cell.
    pub params: BTreeMap<String, String>,
    /// The figure; none: the whole cell.
    pub figure: Option<&'static str>,
    /// Why nothing can be compared: `only the base has it`, `no valid trial of the candidate (2 invalid, 1 failed)`.
    pub reason: String,
    /// A has valid trials of this cell, and B failed in every one of its own: worse than any figure.
    pub lost: bool,
    /// Both sides tried this cell, and one of them has no valid trial: it is not known.
    pub unknown: bool,
}

/// Parameters that do not say what was measured: names of things, and what follows from them.
const NAMES: [Parameter; 7] = [
    params::EXPERIMENT,
    params::SET,
    params::PUBLISHED,
    params::KIND,
    params::VERSION,
    params::PROGRAM,
    params::ZONE_BYTES,
];

/// What follows from a zone, and differs where two zones are compared.
const OF_ZONE: [Parameter; 5] =
    [params::FAMILY, params::ZONE_SIZE, params::SIGNED, params::ZONE_MADE, params::SIGNING];

/// Compares the candidate B with the base A by these gates.
pub fn compare(a: Side, b: Side, gates: &Gates) -> Comparison {
    let interleaved = a.run.dir() == b.run.dir();
    let ignored = ignored(a, b);
    let (in_a, in_b) = (gather(a, &ignored), gather(b, &ignored));
    let (mut cells, mut alone) = (Vec::new(), Vec::new());
    let mut failed: Vec<&TrialRecord> = Vec::new();
    for (params, trials) in &in_a {
        match in_b.iter().find(|(other, _)| other == params) {
            Some((_, others)) => {
                let sound = trials.iter().all(|t| t.error.is_none()) && trials.iter().any(|t| t.is_valid());
                let right = trials.iter().all(|t| t.wrong_answers().is_none());
                failed.extend(
                    others
                        .iter()
                        .filter(|t| sound && (t.error.is_some() || right && t.wrong_answers().is_some())),
                );
                cells.extend(cell(params, trials, others, interleaved, &mut alone));
            }
            None => alone.push(Alone::cell(params, "only the base has it")),
        }
    }
    for (params, _) in in_b.iter().filter(|(params, _)| in_a.iter().all(|(other, _)| other != params)) {
        alone.push(Alone::cell(params, "only the candidate has it"));
    }
    starts::pool(&mut cells, &in_a, &in_b, interleaved);
    let apart = if cells.is_empty() { apart(&in_a, &in_b) } else { Vec::new() };
    let labels: BTreeSet<(&str, &str)> = match (a.server(), b.server()) {
        (Some(a), Some(b)) => [(a, b)].into(),
        _ => cells
            .iter()
            .filter_map(|c| c.params.get(params::SERVER.name()))
            .map(|s| (s.as_str(), s.as_str()))
            .collect(),
    };
    let environment = machine::differing(a.run.environment(), b.run.environment(), &labels);
    let mut comparison = Comparison {
        a: tried(a),
        b: tried(b),
        interleaved,
        level: stats::LEVEL,
        threshold: gates.threshold(),
        gates: gates.clone(),
        undone: a.run.undone() + if interleaved { 0 } else { b.run.undone() },
        candidate_failed: failed.len(),
        candidate_error: failed
            .first()
            .and_then(|t| t.error.clone().or_else(|| Some(t.wrong_answers()?.text.clone()))),
        cells,
        alone,
        apart,
        environment,
    };
    comparison.decide();
    comparison
}

impl Comparison {
    /// Every figure that was compared, with its cell.
    pub fn figures(&self) -> impl Iterator<Item = (&Cell, &ComparedFigure)> {
        self.cells.iter().flat_map(|c| c.figures.iter().map(move |f| (c, f)))
    }

    /// Every figure that was compared and says something that no other of its cell says.
    pub fn findings(&self) -> impl Iterator<Item = (&Cell, &ComparedFigure)> {
        self.figures().filter(|(_, f)| f.same_as.is_none())
    }

    /// Figures with a verdict.
    pub fn with(&self, verdict: Verdict) -> usize {
        self.findings().filter(|(_, f)| f.verdict == verdict).count()
    }

    /// Figures that are worse beyond the threshold for certain.
    pub fn regressions(&self) -> usize {
        self.findings().filter(|(_, f)| f.regression).count()
    }

    /// The figures that decide, with their cells.
    pub fn gating(&self) -> impl Iterator<Item = (&Cell, &ComparedFigure)> {
        self.findings().filter(|(_, f)| f.gates)
    }

    /// The outcome of the comparison.
    pub fn outcome(&self) -> Outcome {
        if self.undone > 0 { Outcome::CutShort } else { self.outcome_so_far() }
    }

    /// The same of the trials that are done.
    pub fn outcome_so_far(&self) -> Outcome {
        let any = |outcome| self.gating().any(|(_, f)| f.outcome == outcome);
        if self.candidate_failed > 0 {
            Outcome::CandidateFailed
        } else if any(Outcome::Worse) {
            Outcome::Worse
        } else if any(Outcome::NotKnown)
            || self.gating().next().is_none()
            || self.alone.iter().any(|a| a.unknown)
        {
            Outcome::NotKnown
        } else if any(Outcome::Better) {
            Outcome::Better
        } else {
            Outcome::NoWorse
        }
    }

    /// Cells in which B failed in every trial, and A did not.
    pub fn lost(&self) -> usize {
        self.alone.iter().filter(|a| a.lost).count()
    }

    /// Figures for which there were enough repeats.
    pub fn compared(&self) -> usize {
        self.findings().filter(|(_, f)| f.change.is_some()).count()
    }

    /// The difference that would have been shown in half of the figures, four times in five.
    pub fn detectable(&self) -> Option<f64> {
        let all: Vec<f64> = self.findings().filter_map(|(_, f)| Some(f.change?.detectable)).collect();
        stats::median(&all)
    }

    /// Verdicts, when all figures are known.
    fn decide(&mut self) {
        let all: Vec<f64> = self.findings().filter_map(|(_, f)| Some(f.ratio?.by_chance())).collect();
        let mut adjusted = ratio::adjusted(&all).into_iter();
        let mut rules = Rules { level: self.level, figures: all.len().max(1), gates: self.gates.clone() };
        for cell in &mut self.cells {
            let has_capacity = cell.figures.iter().any(|f| f.name == metrics::CAPACITY_QPS.stem());
            for compared in &mut cell.figures {
                let other = has_capacity && compared.name == metrics::PEAK_QPS.stem();
                compared.gates =
                    compared.same_as.is_none() && !other && self.gates.of(compared.figure()).is_some();
                compared.threshold = self.gates.limit(compared.figure());
            }
            for compared in cell.figures.iter_mut().filter(|f| f.same_as.is_none() && f.ratio.is_some()) {
                rules.apply(compared, adjusted.next().expect("one of each"));
            }
            // No finding of its own: it is shown where what it repeats is shown, and it itself would be.
            let shown: Vec<(&str, f64)> =
                cell.figures.iter().filter_map(|f| Some((f.name, f.change?.by_chance_of_all))).collect();
            for compared in cell.figures.iter_mut() {
                let (Some(same), Some(ratio)) = (compared.same_as, compared.ratio) else { continue };
                let of_all = shown.iter().find(|(name, _)| *name == same).map_or(1.0, |(_, p)| *p);
                rules.apply(compared, of_all.max(ratio.by_chance()));
            }
        }
    }
}

/// The rules that all figures are compared by.
struct Rules {
    level: f64,
    figures: usize,
    gates: Gates,
}

impl Rules {
    /// Judges a figure that has a ratio.
    fn apply(&mut self, compared: &mut ComparedFigure, by_chance_of_all: f64) {
        let (figure, Some(ratio)) = (compared.figure(), compared.ratio) else { return };
        let chance = 1.0 - self.level;
        let (low, high) = ratio.interval(self.level);
        let worse = figure.more_is_worse == (ratio.difference() > 0.0);
        compared.verdict = match (by_chance_of_all <= chance, worse) {
            (false, _) => Verdict::None,
            (true, true) => Verdict::Worse,
            (true, false) => Verdict::Better,
        };
        let limit = self.gates.limit(figure);
        // The ends of the interval, on the side of the better and of the worse.
        let (best, worst) = if figure.more_is_worse { (low, high) } else { (-high, -low) };
        compared.regression = compared.verdict == Verdict::Worse && best > limit;
        compared.outcome = if compared.regression {
            Outcome::Worse
        } else if compared.verdict == Verdict::Better && worst < -limit {
            Outcome::Better
        } else if worst <= limit {
            Outcome::NoWorse
        } else {
            Outcome::NotKnown
        };
        if compared.outcome == Outcome::NotKnown {
            let limit = if figure.more_is_worse { limit } else { -limit };
            let repeats = compared.pairs.unwrap_or(compared.a.repeats.min(compared.b.repeats));
            compared.repeats_needed = ratio.repeats_for(repeats, limit, self.level);
        }
        compared.change = Some(Change {
            value: ratio.difference(),
            low,
            high,
            by_chance: ratio.by_chance(),
            by_chance_of_all,
            detectable: ratio.detectable(1.0 - chance / self.figures as f64),
        });
    }
}

impl ComparedFigure {
    /// Whether its interval at `level` does not hold its threshold: several looks need a higher level than that of
    /// the comparison.
    pub fn is_decided(&self, level: f64) -> bool {
        let limit = if self.figure().more_is_worse { self.threshold } else { -self.threshold };
        self.ratio.map(|ratio| ratio.interval(level)).is_some_and(|(low, high)| low > limit || high < limit)
    }

    /// The figure that is compared.
    pub fn figure(&self) -> &'static Figure {
        FIGURES.iter().find(|f| f.name == self.name).expect("made from one of them")
    }
}

impl Alone {
    fn cell(params: &Params, reason: &str) -> Self {
        Self { params: params.clone(), figure: None, reason: reason.to_owned(), lost: false, unknown: false }
    }
}

type Params = BTreeMap<String, String>;
type Trials<'a> = Vec<&'a TrialRecord>;

/// The parameter across which the sides are compared. Where that is of a zone, also those that follow from the zone: each side has one
/// value of them. Where a side has several, such as two sizes of a family, they tell cells apart.
fn ignored(a: Side<'_>, b: Side<'_>) -> Vec<Parameter> {
    let Some((across, _)) = a.of.or(b.of) else { return Vec::new() };
    let one =
        |side, parameter: Parameter| of(side).map(|t| t.param(parameter)).collect::<BTreeSet<_>>().len() <= 1;
    let follows = |parameter: &Parameter| {
        OF_ZONE.contains(&across) && *parameter != across && one(a, *parameter) && one(b, *parameter)
    };
    std::iter::once(across).chain(OF_ZONE.into_iter().filter(follows)).collect()
}

/// The parameters that say what a trial measured, without names of things and what follows from them: trials with the same are
/// repeats of one measurement.
pub fn cell_of(trial: &TrialRecord) -> BTreeMap<String, String> {
    measured(trial, &[])
}

/// The same without the parameters `ignored`.
fn measured(trial: &TrialRecord, ignored: &[Parameter]) -> Params {
    let matters = |name: &str| !NAMES.iter().chain(ignored).any(|p| p.is(name));
    let params = trial.params.iter().filter(|(name, _)| matters(name));
    // A file is the same wherever it lies.
    let tail = |value: &str| value.rsplit('/').next().unwrap_or_default().to_owned();
    params.map(|(name, value)| (name.clone(), tail(value))).collect()
}

/// A side's trials by cell, in order of appearance.
fn gather<'a>(side: Side<'a>, ignored: &[Parameter]) -> Vec<(Params, Trials<'a>)> {
    let mut all: Vec<(Params, Trials)> = Vec::new();
    for trial in of(side) {
        let params = measured(trial, ignored);
        match all.iter_mut().find(|(known, _)| *known == params) {
            Some((_, trials)) => trials.push(trial),
            None => all.push((params, vec![trial])),
        }
    }
    all
}

/// The parameters that have no value in common on both sides.
fn apart(in_a: &[(Params, Trials)], in_b: &[(Params, Trials)]) -> Vec<Apart> {
    let names: BTreeSet<&String> = in_a.iter().chain(in_b).flat_map(|(params, _)| params.keys()).collect();
    let values = |side: &[(Params, Trials)], name: &String| -> BTreeSet<String> {
        side.iter().map(|(params, _)| params.get(name).cloned().unwrap_or_else(|| "none".into())).collect()
    };
    let one = |name: &String| {
        let (a, b) = (values(in_a, name), values(in_b, name));
        let apart = a.is_disjoint(&b) && !a.is_empty() && !b.is_empty();
        apart.then(|| Apart {
            parameter: name.clone(),
            a: a.into_iter().collect(),
            b: b.into_iter().collect(),
        })
    };
    names.into_iter().filter_map(one).collect()
}

/// The trials that count.
fn of(side: Side<'_>) -> impl Iterator<Item = &'_ TrialRecord> {
    let counts = move |t: &&TrialRecord| {
        side.of.is_none_or(|(parameter, value)| t.param(parameter) == Some(value))
            && side.upto.is_none_or(|last| t.id <= last)
    };
    side.run.trials().iter().filter(counts)
}

fn tried(side: Side) -> Tried {
    let mut tried = Tried {
        directory: side.run.dir().to_owned(),
        server: side.server().map(str::to_owned),
        value: side.of.filter(|_| side.server().is_none()).map(|(_, value)| value.to_owned()),
        ..Tried::default()
    };
    for trial in of(side) {
        tried.trials += 1;
        tried.valid += usize::from(trial.is_valid());
        tried.failed += usize::from(trial.error.is_some());
        tried.skipped += usize::from(trial.skipped.is_some());
        if let (Some(kind), Some(version)) = (trial.param(params::KIND), trial.param(params::VERSION)) {
            let version = format!("{kind} {version}");
            if !tried.versions.contains(&version) {
                tried.versions.push(version);
            }
        }
    }
    tried.invalid = tried.trials - tried.valid - tried.failed - tried.skipped;
    tried
}

/// The figures of a cell that both sides have; what only one has goes to `alone`. None where a side has no valid trial.
fn cell(params: &Params, a: &Trials, b: &Trials, interleaved: bool, alone: &mut Vec<Alone>) -> Option<Cell> {
    let valid = |trials: &Trials<'_>| trials.iter().filter(|t| t.is_valid()).count();
    let failed = |trials: &Trials<'_>| trials.iter().filter(|t| t.error.is_some()).count();
    let skipped_of = |trials: &Trials<'_>| trials.iter().filter(|t| t.skipped.is_some()).count();
    for (side, trials) in
        [("the base", a), ("the candidate", b)].into_iter().filter(|(_, trials)| valid(trials) == 0)
    {
        let failed = failed(trials);
        let skipped = skipped_of(trials);
        let invalid = trials.len() - failed - skipped;
        let lost = side == "the candidate" && valid(a) > 0 && failed == trials.len();
        let skipped = if skipped > 0 { format!(", {skipped} skipped") } else { String::new() };
        let reason = format!("no valid trial of {side} ({invalid} invalid, {failed} failed{skipped})");
        let unknown = skipped.is_empty() || skipped_of(trials) < trials.len();
        alone.push(Alone { lost, unknown, ..Alone::cell(params, &reason) });
    }
    if valid(a) == 0 || valid(b) == 0 {
        return None;
    }
    let mut lone = |name, reason| alone.push(Alone { figure: Some(name), ..Alone::cell(params, reason) });
    let mut figures = Vec::new();
    for figure in FIGURES {
        let (in_a, in_b) = (values(figure, a), values(figure, b));
        match (in_a.is_empty(), in_b.is_empty()) {
            (true, true) => {}
            (false, true) => lone(figure.name, "only the base has it"),
            (true, false) => lone(figure.name, "only the candidate has it"),
            (false, false) => {
                figures.push(compare_figure(figure, [a.len(), b.len()], [&in_a, &in_b], interleaved))
            }
        }
    }
    // With a window the server has all that its cores give: what a query takes of them is the rate once more.
    let rate = figures
        .iter()
        .map(|f| f.name)
        .find(|name| [metrics::SUSTAINED_QPS, metrics::ANSWERED_QPS].iter().any(|m| m.is(name)));
    if rate.is_some() && params.get(params::MEASURE.name()).is_some_and(|m| m == "throughput") {
        let cpu = figures.iter_mut().filter(|f| f.name.ends_with(metrics::SERVER_CPU_PER_QUERY.stem()));
        cpu.for_each(|f| f.same_as = rate);
    }
    Some(Cell { params: params.clone(), figures, trials: a.iter().chain(b).map(|t| t.id).collect() })
}

/// The valid trials that have a figure, with it.
fn values<'a>(figure: &Figure, trials: &Trials<'a>) -> Vec<(&'a TrialRecord, f64)> {
    trials.iter().filter(|t| t.is_valid()).filter_map(|t| Some((*t, figure.of(t)?))).collect()
}

fn compare_figure(
    figure: &'static Figure,
    trials: [usize; 2],
    [a, b]: [&[(&TrialRecord, f64)]; 2],
    interleaved: bool,
) -> ComparedFigure {
    let pairs = interleaved.then(|| pairs(a, b));
    compare_trials(figure, trials, [a, b], pairs)
}

/// The repeats that both sides have.
fn pairs(a: &[(&TrialRecord, f64)], b: &[(&TrialRecord, f64)]) -> Vec<(f64, f64)> {
    let other = |t: &TrialRecord| b.iter().find(|(o, _)| o.repeat == t.repeat).map(|(_, v)| *v);
    a.iter().filter_map(|(t, v)| Some((*v, other(t)?))).collect()
}

/// A figure of both sides, `trials` of each, by its pairs where there are enough whole ones.
fn compare_trials(
    figure: &'static Figure,
    trials: [usize; 2],
    [a, b]: [&[(&TrialRecord, f64)]; 2],
    pairs: Option<Vec<(f64, f64)>>,
) -> ComparedFigure {
    let noise = figure.noise(&a.iter().chain(b).map(|(t, _)| *t).collect::<Vec<_>>());
    let plain = |of: &[(&TrialRecord, f64)]| of.iter().map(|(_, v)| *v).collect::<Vec<_>>();
    let (in_a, in_b) = (plain(a), plain(b));
    // Where invalid trials break up too many pairs, the halves that are left still are repeats.
    let pairs = pairs.filter(|pairs| pairs.len() >= ratio::MIN_REPEATS);
    let (used_a, used_b) = match &pairs {
        Some(pairs) => pairs.iter().copied().unzip(),
        None => (in_a.clone(), in_b.clone()),
    };
    let repeats = |values: &[f64], used: &[f64], trials: usize| Repeats {
        repeats: values.len(),
        trials,
        median: stats::median(values).expect("there are values, all finite"),
        geometric_mean: stats::geometric_mean(used),
    };
    ComparedFigure {
        name: figure.name,
        unit: figure.unit,
        a: repeats(&in_a, &used_a, trials[0]),
        b: repeats(&in_b, &used_b, trials[1]),
        pairs: pairs.as_ref().map(Vec::len),
        ratio: match &pairs {
            Some(pairs) => Ratio::of_pairs(pairs, noise),
            None => Ratio::of(&in_a, &in_b, noise),
        },
        change: None,
        verdict: Verdict::TooFew,
        regression: false,
        threshold: 0.0,
        gates: false,
        outcome: Outcome::NotKnown,
        repeats_needed: None,
        same_as: None,
    }
}
