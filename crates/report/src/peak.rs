//! How many queries a second: the capacity, the knee, and the loads that a search tried.

use crate::cells::{Cell, Figure, Run};
use crate::format;
use crate::grid::{Grid, Shown, grid, repeats};
use measure::metrics::{self, Definition, Scope};
use measure::series;

/// The search's goal in words, from the plan.
pub(crate) fn goal(run: &Run) -> String {
    let Some(loss) = run.planned("peak.loss").and_then(|l| l.parse::<f64>().ok()) else {
        return "Goal as given in the plan below".into();
    };
    let mut text =
        format!("Highest rate with a loss of at most {} (RFC 9971)", format::percent(loss * 100.0));
    if let Some(trial) = run.planned("peak.trial") {
        text += &format!(", in short trials of {trial} (the RFC's goal is 60 s)");
    }
    if let Some(width) = run.planned("peak.width").and_then(|w| w.parse::<f64>().ok()) {
        text += &format!(", bounds {} apart at most", format::percent(width * 100.0));
    }
    if let Some(budget) = run.planned("peak.budget") {
        text += &format!(", {budget} for a search");
    }
    text
}

/// The capacity of a cell, in answered queries per second.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Capacity {
    /// Over the repeats.
    pub figure: Figure,
    /// The generator was the limit in at least one repeat: the server may answer more.
    pub at_least: bool,
    /// The least and the most of all loads.
    pub range: (f64, f64),
}

impl Capacity {
    /// None where no trial measured it: before it was measured, runs had the knee alone.
    pub fn of(cell: &Cell) -> Option<Self> {
        let figure = cell.metric(metrics::CAPACITY_QPS)?;
        let all = |which: Definition| {
            cell.used().iter().filter_map(|t| t.outcome.metric(which)).collect::<Vec<_>>()
        };
        let low = all(metrics::CAPACITY_LOW).into_iter().fold(figure.value, f64::min);
        let high = all(metrics::CAPACITY_HIGH).into_iter().fold(figure.value, f64::max);
        Some(Self { figure, at_least: !all(metrics::CAPACITY_AT_LEAST).is_empty(), range: (low, high) })
    }

    /// `45,600/s` or `at least 45,600/s`.
    pub fn text(&self) -> String {
        let rate = format::rate(self.figure.value);
        if self.at_least { format!("at least {rate}") } else { rate }
    }
}

/// The proven bounds of a cell's knee: the highest offered rate within the loss goal lies between these, in queries per second.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Knee {
    /// The least lower bound over the repeats.
    pub low: Option<f64>,
    /// The greatest upper bound over the repeats; none where a repeat has none of the server's own.
    pub high: Option<f64>,
}

/// Warnings of a search whose upper bound is not the server's.
const NOT_THE_SERVERS: [&str; 3] = ["limited_by_generator", "limited_by_machine", "limited_by_max_load"];

impl Knee {
    pub fn of(cell: &Cell) -> Self {
        let used = cell.used();
        let all = |which: Definition| used.iter().map(|t| t.outcome.metric(which)).collect::<Vec<_>>();
        let mut warnings = used.iter().flat_map(|t| &t.outcome.validity.warnings);
        let limited = warnings.any(|w| NOT_THE_SERVERS.contains(&w.code.as_str()));
        let low = all(metrics::PEAK_LOWER).into_iter().collect::<Option<Vec<_>>>();
        let high = all(metrics::PEAK_UPPER).into_iter().collect::<Option<Vec<_>>>();
        Self {
            low: low.and_then(|all| all.into_iter().min_by(f64::total_cmp)),
            high: high.filter(|_| !limited).and_then(|all| all.into_iter().max_by(f64::total_cmp)),
        }
    }

    /// Both bounds, where both are proven.
    pub fn bounds(&self) -> Option<(f64, f64)> {
        self.low.zip(self.high)
    }

    /// `30,100 to 41,000/s`, `at least 30,100/s`, `below 41,000/s` or `not known`.
    pub fn text(&self) -> String {
        match (self.low, self.high) {
            (Some(low), Some(high)) => format::rate_range(low, high),
            (Some(low), None) => format!("at least {}", format::rate(low)),
            (None, Some(high)) => format!("below {}", format::rate(high)),
            (None, None) => "not known".into(),
        }
    }
}

/// The figure by which servers are ranked and drawn: the capacity; in a run without one the search's peak, where both of its
/// bounds are proven. None where neither is proven.
pub(crate) fn proven(cell: &Cell) -> Option<(Figure, (f64, f64))> {
    match Capacity::of(cell) {
        Some(capacity) => (!capacity.at_least).then_some((capacity.figure, capacity.range)),
        None => cell.metric(metrics::PEAK_QPS).zip(Knee::of(cell).bounds()),
    }
}

/// The same figure of each repeat.
pub(crate) fn each(cell: &Cell) -> Vec<f64> {
    let which = if Capacity::of(cell).is_some() { metrics::CAPACITY_QPS } else { metrics::PEAK_QPS };
    cell.used().iter().filter_map(|t| t.outcome.metric(which)).collect()
}

/// A cell's rate in words: the capacity, or the knee where that was not measured.
pub(crate) fn words(cell: &Cell) -> String {
    Capacity::of(cell).map_or_else(|| Knee::of(cell).text(), |capacity| capacity.text())
}

/// A load that a search tried.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tried {
    /// Queries per second.
    pub offered: f64,
    /// Loss ratio, 0 to 1.
    pub loss: f64,
    /// Answered queries per second, where the run has them.
    pub answered: Option<f64>,
    /// Whether it is evidence about the server: the generator offered it, and the machine did not disturb it.
    pub valid: bool,
}

/// The loads that the searches of a cell tried.
pub(crate) fn tried(cell: &Cell) -> Vec<Tried> {
    let mut all = Vec::new();
    for trial in cell.used() {
        let (loss, valid) =
            (trial.series(metrics::LOSS_RATIO.within(Scope::Search)), trial.series(series::SEARCH_VALID));
        let (answered, disturbed) = (
            trial.series(metrics::ANSWERED_QPS.within(Scope::Search)),
            trial.series(series::SEARCH_DISTURBED),
        );
        let at = |of: &[(u32, f64)], n: u32| of.iter().find(|(m, _)| *m == n).map(|(_, v)| *v);
        for (n, offered) in trial.series(metrics::OFFERED_QPS.within(Scope::Search)) {
            if let Some(loss) = at(&loss, n) {
                let undisturbed = at(&disturbed, n).is_none_or(|v| v == 0.0);
                let valid = at(&valid, n).is_none_or(|v| v != 0.0) && undisturbed;
                all.push(Tried { offered, loss, answered: at(&answered, n), valid });
            }
        }
    }
    all
}

/// The table of capacities.
pub(crate) fn capacity_grid(run: &Run) -> Option<Grid> {
    let about = format!(
        "Most queries answered per second with {} waiting for their answers: what a tenth of the stretches of 100 ms \
         reached or exceeded, in {} loads of {}, as all that a machine does besides can only make a server slower. Below it are the \
         median stretch and the range of the loads; {}.",
        run.planned("peak.window").unwrap_or_else(|| "a window of queries".into()),
        run.planned("peak.window_loads").unwrap_or_else(|| "some".into()),
        run.planned("peak.window_load").unwrap_or_else(|| "equal length".into()),
        repeats(run, "peak")
    );
    grid(
        run,
        ("capacity-qps", "Capacity".into(), about),
        |c| c.key.is("peak"),
        |_, _| None,
        |c| {
            let capacity = Capacity::of(c)?;
            let rate = format::rate(capacity.figure.value);
            let mut details: Vec<String> =
                capacity.figure.interval_text(&rate, format::rate_range).into_iter().collect();
            let (low, high) = capacity.range;
            let median =
                c.metric(metrics::CAPACITY_MEDIAN).map(|m| format!("median {}", format::rate(m.value)));
            details.extend(median);
            details.push(format!("loads {}", format::rate_range(low, high)));
            Some(Shown { text: capacity.text(), details, compare: None })
        },
    )
}

/// The table of knees.
pub(crate) fn knee_grid(run: &Run) -> Option<Grid> {
    let about = format!(
        "{}; {}. The knee is above the first rate with a probability of 95 %, and below the second with one of 95 %, in each valid \
         trial. A bound that is not known so well is not given.",
        goal(run),
        repeats(run, "peak")
    );
    grid(
        run,
        ("peak", "Knee: highest rate within the loss goal".into(), about),
        |c| c.key.is("peak"),
        |_, _| None,
        |c| {
            let knee = Knee::of(c);
            let known = knee != Knee::default() || Capacity::of(c).is_some();
            let text = knee.text();
            let details = why_not_proven(c).into_iter().collect();
            known.then_some(Shown { text, details, compare: None })
        },
    )
}

/// Why a bound of a knee is missing.
fn why_not_proven(cell: &Cell) -> Option<String> {
    let mut warnings = cell.used().into_iter().flat_map(|t| &t.outcome.validity.warnings);
    let word = |code: &str| match code {
        "limited_by_generator" => Some("the generator was the limit"),
        "limited_by_machine" => Some("the machine disturbed the loads above"),
        "limited_by_max_load" => Some("no greater load was allowed"),
        "search_unfinished" => Some("the time ended before the bounds were near"),
        "no_lower_bound" => Some("no rate was known to be within the goal in time"),
        _ => None,
    };
    warnings.find_map(|w| word(&w.code)).map(str::to_owned)
}
