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

/// The loads that searches tried: offered queries per second and loss ratio.
pub(crate) fn tried(cell: &Cell) -> Vec<(f64, f64)> {
    let mut all = Vec::new();
    for trial in cell.used() {
        let loss = trial.series("search_loss_ratio");
        for (n, offered) in trial.series("search_offered_qps") {
            if let Some((_, loss)) = loss.iter().find(|(m, _)| *m == n) {
                all.push((offered, *loss));
            }
        }
    }
    all
}
