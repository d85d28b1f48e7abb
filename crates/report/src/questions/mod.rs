//! The questions that open RZAIA's chapters, and the answers that a run's own numbers give.

use crate::cells::{Cell, Figure, Run, State, distinct};
use crate::format;
use crate::grid::Grid;
use results::TrialRecord;
use serde::Serialize;
use stats::Ratio;
use stats::ratio::MIN_REPEATS;

mod answers;
mod costs;
mod durable;
mod latency;
mod peaks;
mod replication;

/// A question that an operator has, with what the run says to it.
#[derive(Debug, Serialize)]
pub(crate) struct Question {
    pub question: String,
    /// A sentence or a list each, the most direct one first.
    pub answers: Vec<String>,
}

/// None where there is no answer.
fn question(question: impl Into<String>, answers: Vec<String>) -> Option<Question> {
    (!answers.is_empty()).then(|| Question { question: question.into(), answers })
}

/// All that the run can answer: memory, truncation and floods, latency, loading; then peaks, and how all this compares with
/// what the papers published.
pub(crate) fn all(run: &Run, grids: &[Grid]) -> Vec<Question> {
    let mut all = costs::memory(run);
    // A run that has them was made for them.
    all.extend(answers::questions(run));
    all.extend(latency::questions(run));
    all.extend(costs::loading(run));
    all.extend(durable::questions(run));
    all.extend(peaks::questions(run));
    all.extend(replication::questions(run));
    all.extend(question(
        "How do the results compare with the published ones?",
        crate::summary::against_published(grids).into_iter().collect(),
    ));
    all
}

/// How a figure changes from one cell to another.
#[derive(Clone, Copy, Debug)]
struct Change {
    from: Figure,
    to: Figure,
    /// The ratio, with the interval at 95 % where there are repeats enough for one.
    factor: f64,
    interval: Option<(f64, f64)>,
}

impl Change {
    /// Of the figure that `of` gives of each trial; `noise` as in [`Ratio::of`].
    fn between(from: &Cell, to: &Cell, noise: f64, of: impl Fn(&TrialRecord) -> Option<f64>) -> Option<Self> {
        if from.state() != State::Valid || to.state() != State::Valid {
            return None;
        }
        let values = |c: &Cell| c.used().into_iter().filter_map(&of).collect::<Vec<f64>>();
        let (a, b) = (values(from), values(to));
        let (from, to) = (Figure::of(&a)?, Figure::of(&b)?);
        let ratio = Ratio::of(&a, &b, noise);
        let interval = ratio.map(|r| r.interval(stats::LEVEL)).map(|(low, high)| (1.0 + low, 1.0 + high));
        let factor = ratio.map_or(to.value / from.value, |r| 1.0 + r.difference());
        factor.is_finite().then_some(Self { from, to, factor, interval })
    }

    /// Whether the interval shows it to be more, or less; none where it shows neither, or there is none.
    fn shown(&self) -> Option<bool> {
        let (low, high) = self.interval?;
        if low > 1.0 { Some(true) } else { (high < 1.0).then_some(false) }
    }

    /// `118 µs to 131 µs, ×1.11 (1.05 to 1.17)`.
    fn text(&self, value: impl Fn(f64) -> String) -> String {
        let text = format!("{} to {}, {}", value(self.from.value), value(self.to.value), times(self.factor));
        match self.interval {
            Some((low, high)) if self.shown().is_some() => format!("{text} ({low:.2} to {high:.2})"),
            Some((low, high)) => format!("{text} (no difference shown: {low:.2} to {high:.2})"),
            None => text,
        }
    }
}

/// A factor with two digits after the point where it is near one.
fn times(x: f64) -> String {
    if x < 10.0 { format!("×{x:.2}") } else { format::factor(x) }
}

/// The changes in one sentence; `more` and `less` are the words for more and for less: `slower`, `faster`.
fn verdict(changes: &[Change], more: &str, less: &str) -> Option<String> {
    let all = changes.len();
    if all == 0 {
        return None;
    }
    let with =
        |way: Option<bool>| changes.iter().filter(|c| c.interval.is_some() && c.shown() == way).count();
    let known = changes.iter().filter(|c| c.interval.is_some()).count();
    if known == 0 {
        return Some(format!(
            "Not known: with fewer than {MIN_REPEATS} repeats a difference may be chance. The medians:"
        ));
    }
    let counts = [(with(Some(true)), more), (with(Some(false)), less), (with(None), "no difference shown")];
    let counts: Vec<String> =
        counts.iter().filter(|(n, _)| *n > 0).map(|(n, word)| format!("{word} in {n} of {known}")).collect();
    Some(format!("{} (by 95 % intervals of the ratio of repeats).", first_upper(&counts.join(", "))))
}

fn first_upper(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |c| c.to_uppercase().chain(letters).collect())
}

/// The least and greatest value of a figure over valid cells.
fn span<'a>(
    cells: impl Iterator<Item = &'a Cell<'a>>,
    of: impl Fn(&Cell) -> Option<f64>,
) -> Option<(f64, f64)> {
    let values: Vec<f64> = cells.filter(|c| c.state() == State::Valid).filter_map(of).collect();
    let low = values.iter().copied().min_by(f64::total_cmp)?;
    Some((low, values.iter().copied().max_by(f64::total_cmp)?))
}

/// The sentences of all servers, in their order, joined; none where there are none.
fn each_server(run: &Run, of: impl Fn(&str) -> Option<String>) -> Option<String> {
    let all: Vec<String> = run.servers.iter().filter_map(|s| of(s)).collect();
    (!all.is_empty()).then(|| all.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(factor: f64, interval: Option<(f64, f64)>) -> Change {
        let figure = |value| Figure { value, interval: None, repeats: 1 };
        Change { from: figure(100.0), to: figure(100.0 * factor), factor, interval }
    }

    #[test]
    fn a_difference_is_claimed_only_where_the_interval_shows_one() {
        let slower = change(1.2, Some((1.1, 1.31)));
        let same = change(1.02, Some((0.95, 1.09)));
        let single = change(1.5, None);
        assert_eq!((slower.shown(), same.shown(), single.shown()), (Some(true), None, None));
        let text = |c: &Change| c.text(|v| format!("{v:.0}"));
        assert_eq!(text(&slower), "100 to 120, ×1.20 (1.10 to 1.31)");
        assert_eq!(text(&same), "100 to 102, ×1.02 (no difference shown: 0.95 to 1.09)");
        assert_eq!(text(&single), "100 to 150, ×1.50");
        assert_eq!(
            verdict(&[slower, same, slower], "slower", "faster").unwrap(),
            "Slower in 2 of 3, no difference shown in 1 of 3 (by 95 % intervals of the ratio of repeats)."
        );
        assert!(verdict(&[single], "slower", "faster").unwrap().starts_with("Not known: with"));
        assert_eq!(verdict(&[], "slower", "faster"), None);
    }
}
