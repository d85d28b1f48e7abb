//! How many queries a second: the servers ranked.

use super::{Question, question, span};
use crate::cells::{Cell, Key, Run, State};
use crate::{format, peak};

pub(super) fn questions(run: &Run) -> Option<Question> {
    let answers = crate::throughput::sentences(run).into_iter().chain(ranked(run)).collect();
    question("How many queries a second does a server answer?", answers)
}

/// The ranking on each zone; for more than two zones, each server's span over all of them.
fn ranked(run: &Run) -> Vec<String> {
    let zone = |k: &Key| (k.row(), k.size);
    let zones = run.distinct("peak", zone);
    if zones.len() > 2 {
        let mut all: Vec<(f64, String)> = run
            .servers
            .iter()
            .filter_map(|server| {
                let mine = run.cells.iter().filter(|c| c.key.is("peak") && c.key.server == *server);
                let cells: Vec<&Cell> = mine.collect();
                let (low, high) = span(cells.iter().copied(), |c| Some(peak::proven(c)?.0.value))?;
                let known = cells.iter().filter(|c| peak::proven(c).is_some()).count();
                let rest = match cells.len() - known {
                    0 => String::new(),
                    n => format!(" (not proven for {n} of {})", cells.len()),
                };
                Some((high, format!("{server} {}{rest}", format::rate_range(low, high))))
            })
            .collect();
        all.sort_by(|a, b| b.0.total_cmp(&a.0));
        let all: Vec<String> = all.into_iter().map(|a| a.1).collect();
        let variants = run.cells.iter().any(|c| c.key.is("peak") && c.key.variant.is_some());
        let zones = format!("{} zones{}", zones.len(), if variants { " and kinds of traffic" } else { "" });
        return if all.is_empty() {
            Vec::new()
        } else {
            vec![format!("{} over {zones}: {}.", title(run), all.join("; "))]
        };
    }
    zones.into_iter().filter_map(|at| ranking(run, |k| zone(k) == at)).collect()
}

/// The name of the figure.
fn title(run: &Run) -> &'static str {
    let capacity = run.cells.iter().any(|c| peak::Capacity::of(c).is_some());
    if capacity { "Capacity" } else { "Highest rate within the loss goal" }
}

/// The servers by capacity on one zone; those whose loads overlap are shown as equal. What is not proven comes last, as what it
/// is.
fn ranking(run: &Run, on_zone: impl Fn(&Key) -> bool) -> Option<String> {
    let cells = run.cells.iter().filter(|c| c.key.is("peak") && on_zone(&c.key) && c.state() == State::Valid);
    let cells: Vec<&Cell> = cells.collect();
    let mut ranked: Vec<(f64, (f64, f64), &Cell)> = cells
        .iter()
        .filter_map(|c| peak::proven(c).map(|(figure, range)| (figure.value, range, *c)))
        .collect();
    ranked.sort_by(|a, b| b.0.total_cmp(&a.0));
    let mut text = format!("{} on {}: ", title(run), cells.first()?.key.zone());
    for (i, (value, range, cell)) in ranked.iter().enumerate() {
        if i > 0 {
            let tie = ranked[i - 1].1.0 <= range.1;
            text += if tie { ", about the same as " } else { ", ahead of " };
        }
        text += &format!("{} {}", cell.key.server, format::rate(*value));
        if range.0 < range.1 {
            text += &format!(" ({})", format::rate_range(range.0, range.1).trim_end_matches("/s"));
        }
    }
    for cell in cells.iter().filter(|c| peak::proven(c).is_none()) {
        text += if text.ends_with(": ") { "" } else { "; " };
        text += &format!("{} {}", cell.key.server, peak::words(cell));
    }
    Some(text + ".")
}
