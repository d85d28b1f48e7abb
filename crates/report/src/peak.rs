//! Peak searches: goal, bounds, ranking.

use crate::cells::{Cell, Run};
use crate::format;

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
    if let Some(sum) = run.planned("peak.duration_sum") {
        text += &format!(", {sum} of them at the bounds");
    }
    if let Some(width) = run.planned("peak.width").and_then(|w| w.parse::<f64>().ok()) {
        text += &format!(", bounds {} apart at most", format::percent(width * 100.0));
    }
    if let Some(budget) = run.planned("peak.budget") {
        text += &format!(", {budget} for a search");
    }
    text
}

/// The lowest lower and the highest upper bound of a cell's trials, in queries per second.
pub(crate) fn bounds(cell: &Cell) -> Option<(f64, f64)> {
    let all = |name: &str| cell.used().iter().filter_map(|t| t.outcome.metric(name)).collect::<Vec<_>>();
    let low = all("peak_lower").into_iter().min_by(f64::total_cmp)?;
    let high = all("peak_upper").into_iter().max_by(f64::total_cmp)?;
    Some((low, high))
}

/// A load that a search tried.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tried {
    /// Queries per second.
    pub offered: f64,
    /// Loss ratio, 0 to 1.
    pub loss: f64,
    /// Whether the generator could offer it.
    pub valid: bool,
}

/// The loads that the searches of a cell tried.
pub(crate) fn tried(cell: &Cell) -> Vec<Tried> {
    let mut all = Vec::new();
    for trial in cell.used() {
        let (loss, valid) = (trial.series("search_loss_ratio"), trial.series("search_valid"));
        let at = |of: &[(u32, f64)], n: u32| of.iter().find(|(m, _)| *m == n).map(|(_, v)| *v);
        for (n, offered) in trial.series("search_offered_qps") {
            if let Some(loss) = at(&loss, n) {
                all.push(Tried { offered, loss, valid: at(&valid, n).is_none_or(|v| v != 0.0) });
            }
        }
    }
    all
}
