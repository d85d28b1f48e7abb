//! Is the second run slower or worse than the first? Two runs, or two servers of one, cell by cell and figure by figure.
//!
//! Trials belong to one cell where their parameters agree. Only valid ones are used; repeats (fresh starts) are the unit.
//! Where A and B are servers of one run, their trials with the same repeat number were made one after the other: they are
//! compared pair by pair. Otherwise the repeats of a run are independent of those of the other, and what changed on the
//! machine between the runs cannot be told from what changed in the server.

mod figures;
mod machine;

pub use figures::{FIGURES, Figure};
pub use machine::Differing;

use crate::ratio::{self, Ratio};
use crate::{RunDir, TrialRecord, stats};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// One side of a comparison: a run, or one server of it.
#[derive(Clone, Copy, Debug)]
pub struct Side<'a> {
    /// The run.
    pub run: &'a RunDir,
    /// The label of the only server that counts; none: all, each against the one of its name.
    pub server: Option<&'a str>,
}

/// What a comparison came to. `a` and `b` of each thing are the two sides.
#[derive(Clone, Debug, Serialize)]
pub struct Comparison {
    /// What A was.
    pub a: Tried,
    /// What B was.
    pub b: Tried,
    /// Whether A and B are servers of one run, so that their repeats are pairs.
    pub interleaved: bool,
    /// The level of every interval, and what is left of it the share of chance among the differences shown.
    pub level: f64,
    /// From which share on a change for the worse is a regression.
    pub threshold: f64,
    /// Cells that both sides have, in A's order.
    pub cells: Vec<Cell>,
    /// What has no counterpart.
    pub alone: Vec<Alone>,
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
    /// Every server's kind and version, as it said itself.
    pub versions: Vec<String>,
    /// Trials.
    pub trials: usize,
    /// Those that are used.
    pub valid: usize,
    /// Those whose figures must not be used.
    pub invalid: usize,
    /// Those that gave nothing.
    pub failed: usize,
    /// Those that were not tried: they could not fit.
    pub skipped: usize,
}

/// A measurement at the same parameters on both sides.
#[derive(Clone, Debug, Serialize)]
pub struct Cell {
    /// What was measured.
    pub params: BTreeMap<String, String>,
    /// What both sides have, in the order of [`FIGURES`].
    pub figures: Vec<Judged>,
}

/// One figure of a cell, compared.
#[derive(Clone, Debug, Serialize)]
pub struct Judged {
    /// A [`Figure`]'s name.
    pub name: &'static str,
    /// Its unit.
    pub unit: &'static str,
    /// The valid repeats of A.
    pub a: Repeats,
    /// Those of B.
    pub b: Repeats,
    /// How many pairs were compared; none where repeats are no pairs, or too few of them have both halves.
    pub pairs: Option<usize>,
    #[serde(skip)]
    ratio: Option<Ratio>,
    /// None where there are too few repeats.
    pub change: Option<Change>,
    /// What is said of it.
    pub verdict: Verdict,
    /// Worse, and beyond the threshold for certain.
    pub regression: bool,
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

/// What can be said of a figure.
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

/// A cell or figure that only one side has.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Alone {
    /// The cell.
    pub params: BTreeMap<String, String>,
    /// The figure; none: the whole cell.
    pub figure: Option<&'static str>,
    /// Why nothing can be compared: `only A has it`, `no valid trial in B (2 invalid, 1 failed)`.
    pub reason: String,
    /// A has valid trials of this cell, and B failed in every one of its own: worse than any figure.
    pub lost: bool,
}

/// Parameters that do not say what was measured: names of things, and what follows from them.
const NAMES: [&str; 6] = ["experiment", "published", "kind", "version", "program", "zone_bytes"];

/// Compares B with A; `threshold`: from which share (0 to 1) on a change for the worse is a regression.
pub fn compare(a: Side, b: Side, threshold: f64) -> Comparison {
    let interleaved = a.run.dir() == b.run.dir();
    let by_label = a.server.is_none() && b.server.is_none();
    let (in_a, in_b) = (gather(a, by_label), gather(b, by_label));
    let (mut cells, mut alone) = (Vec::new(), Vec::new());
    for (params, trials) in &in_a {
        match in_b.iter().find(|(other, _)| other == params) {
            Some((_, others)) => cells.extend(cell(params, trials, others, interleaved, &mut alone)),
            None => alone.push(Alone::cell(params, "only A has it")),
        }
    }
    for (params, _) in in_b.iter().filter(|(params, _)| in_a.iter().all(|(other, _)| other != params)) {
        alone.push(Alone::cell(params, "only B has it"));
    }
    let labels: BTreeSet<(&str, &str)> = match (a.server, b.server) {
        (Some(a), Some(b)) => [(a, b)].into(),
        _ => cells.iter().filter_map(|c| c.params.get("server")).map(|s| (s.as_str(), s.as_str())).collect(),
    };
    let environment = machine::differing(a.run.environment(), b.run.environment(), &labels);
    let mut comparison = Comparison {
        a: tried(a),
        b: tried(b),
        interleaved,
        level: stats::LEVEL,
        threshold,
        cells,
        alone,
        environment,
    };
    comparison.judge();
    comparison
}

impl Comparison {
    /// Every figure that was compared, with its cell.
    pub fn judged(&self) -> impl Iterator<Item = (&Cell, &Judged)> {
        self.cells.iter().flat_map(|c| c.figures.iter().map(move |f| (c, f)))
    }

    /// Figures with a verdict.
    pub fn with(&self, verdict: Verdict) -> usize {
        self.judged().filter(|(_, f)| f.verdict == verdict).count()
    }

    /// Figures that are worse beyond the threshold for certain.
    pub fn regressions(&self) -> usize {
        self.judged().filter(|(_, f)| f.regression).count()
    }

    /// Cells in which B failed in every trial, and A did not.
    pub fn lost(&self) -> usize {
        self.alone.iter().filter(|a| a.lost).count()
    }

    /// Figures for which there were enough repeats.
    pub fn told(&self) -> usize {
        self.judged().filter(|(_, f)| f.change.is_some()).count()
    }

    /// The difference that would have been shown in half of the figures, four times in five.
    pub fn detectable(&self) -> Option<f64> {
        let all: Vec<f64> = self.judged().filter_map(|(_, f)| Some(f.change?.detectable)).collect();
        stats::median(&all)
    }

    /// Verdicts, when all figures are known.
    fn judge(&mut self) {
        let all: Vec<f64> = self.judged().filter_map(|(_, f)| Some(f.ratio?.by_chance())).collect();
        let mut adjusted = ratio::adjusted(&all).into_iter();
        let chance = 1.0 - self.level;
        let (level, threshold) = (self.level, self.threshold);
        for judged in self.cells.iter_mut().flat_map(|c| &mut c.figures) {
            let (figure, Some(ratio)) = (judged.figure(), judged.ratio) else { continue };
            let (low, high) = ratio.interval(level);
            let by_chance_of_all = adjusted.next().expect("one of each");
            let worse = figure.more_is_worse == (ratio.difference() > 0.0);
            judged.verdict = match (by_chance_of_all <= chance, worse) {
                (false, _) => Verdict::None,
                (true, true) => Verdict::Worse,
                (true, false) => Verdict::Better,
            };
            let limit = threshold * figure.weight;
            let beyond = if figure.more_is_worse { low > limit } else { high < -limit };
            judged.regression = judged.verdict == Verdict::Worse && beyond;
            judged.change = Some(Change {
                value: ratio.difference(),
                low,
                high,
                by_chance: ratio.by_chance(),
                by_chance_of_all,
                detectable: ratio.detectable(1.0 - chance / all.len() as f64),
            });
        }
    }
}

impl Judged {
    /// What it is a figure of.
    pub fn figure(&self) -> &'static Figure {
        FIGURES.iter().find(|f| f.name == self.name).expect("made from one of them")
    }
}

impl Alone {
    fn cell(params: &Params, reason: &str) -> Self {
        Self { params: params.clone(), figure: None, reason: reason.to_owned(), lost: false }
    }
}

type Params = BTreeMap<String, String>;
type Trials<'a> = Vec<&'a TrialRecord>;

/// A side's trials by cell, in order of appearance.
fn gather(side: Side, by_label: bool) -> Vec<(Params, Trials)> {
    let mut all: Vec<(Params, Trials)> = Vec::new();
    for trial in of(side) {
        let matters = |name: &str| !NAMES.contains(&name) && (by_label || name != "server");
        let params = trial.params.iter().filter(|(name, _)| matters(name));
        // A file is the same wherever it lies.
        let tail = |value: &str| value.rsplit('/').next().unwrap_or_default().to_owned();
        let params: Params = params.map(|(name, value)| (name.clone(), tail(value))).collect();
        match all.iter_mut().find(|(known, _)| *known == params) {
            Some((_, trials)) => trials.push(trial),
            None => all.push((params, vec![trial])),
        }
    }
    all
}

/// The trials that count.
fn of(side: Side<'_>) -> impl Iterator<Item = &'_ TrialRecord> {
    side.run.trials().iter().filter(move |t| side.server.is_none() || t.param("server") == side.server)
}

fn tried(side: Side) -> Tried {
    let mut tried = Tried {
        directory: side.run.dir().to_owned(),
        server: side.server.map(str::to_owned),
        ..Tried::default()
    };
    for trial in of(side) {
        tried.trials += 1;
        tried.valid += usize::from(trial.is_valid());
        tried.failed += usize::from(trial.error.is_some());
        tried.skipped += usize::from(trial.skipped.is_some());
        if let (Some(kind), Some(version)) = (trial.param("kind"), trial.param("version")) {
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
    for (side, trials) in [("A", a), ("B", b)].into_iter().filter(|(_, trials)| valid(trials) == 0) {
        let failed = failed(trials);
        let skipped = trials.iter().filter(|t| t.skipped.is_some()).count();
        let invalid = trials.len() - failed - skipped;
        let lost = side == "B" && valid(a) > 0 && failed == trials.len();
        let skipped = if skipped > 0 { format!(", {skipped} skipped") } else { String::new() };
        let reason = format!("no valid trial in {side} ({invalid} invalid, {failed} failed{skipped})");
        alone.push(Alone { lost, ..Alone::cell(params, &reason) });
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
            (false, true) => lone(figure.name, "only A has it"),
            (true, false) => lone(figure.name, "only B has it"),
            (false, false) => figures.push(judged(figure, [a, b], [&in_a, &in_b], interleaved)),
        }
    }
    Some(Cell { params: params.clone(), figures })
}

/// The valid trials that have a figure, with it.
fn values<'a>(figure: &Figure, trials: &Trials<'a>) -> Vec<(&'a TrialRecord, f64)> {
    trials.iter().filter(|t| t.is_valid()).filter_map(|t| Some((*t, figure.of(t)?))).collect()
}

fn judged(
    figure: &'static Figure,
    trials: [&Trials; 2],
    [a, b]: [&Vec<(&TrialRecord, f64)>; 2],
    interleaved: bool,
) -> Judged {
    let noise = figure.noise(&a.iter().chain(b).map(|(t, _)| *t).collect::<Vec<_>>());
    let plain = |of: &[(&TrialRecord, f64)]| of.iter().map(|(_, v)| *v).collect::<Vec<_>>();
    let (in_a, in_b) = (plain(a), plain(b));
    let pairs: Option<Vec<(f64, f64)>> = interleaved.then(|| {
        let other = |t: &TrialRecord| b.iter().find(|(o, _)| o.repeat == t.repeat).map(|(_, v)| *v);
        a.iter().filter_map(|(t, v)| Some((*v, other(t)?))).collect()
    });
    // Where invalid trials break up too many pairs, the halves that are left still are repeats.
    let pairs = pairs.filter(|pairs| pairs.len() >= ratio::MIN_REPEATS);
    let repeats = |values: &[f64], trials: &Trials| Repeats {
        repeats: values.len(),
        trials: trials.len(),
        median: stats::median(values).expect("there are values, all finite"),
    };
    Judged {
        name: figure.name,
        unit: figure.unit,
        a: repeats(&in_a, trials[0]),
        b: repeats(&in_b, trials[1]),
        pairs: pairs.as_ref().map(Vec::len),
        ratio: match &pairs {
            Some(pairs) => Ratio::of_pairs(pairs, noise),
            None => Ratio::of(&in_a, &in_b, noise),
        },
        change: None,
        verdict: Verdict::TooFew,
        regression: false,
    }
}
