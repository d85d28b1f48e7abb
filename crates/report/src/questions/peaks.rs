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
                let (low, high) = span(mine, |c| Some(c.metric("peak_qps")?.value))?;
                Some((high, format!("{server} {}", format::rate_range(low, high))))
            })
            .collect();
        all.sort_by(|a, b| b.0.total_cmp(&a.0));
        let all: Vec<String> = all.into_iter().map(|a| a.1).collect();
        let variants = run.cells.iter().any(|c| c.key.is("peak") && c.key.variant.is_some());
        let zones = format!("{} zones{}", zones.len(), if variants { " and kinds of traffic" } else { "" });
        return if all.is_empty() {
            Vec::new()
        } else {
            vec![format!("Peak query rate over {zones}: {}.", all.join("; "))]
        };
    }
    zones.into_iter().filter_map(|at| ranking(run, |k| zone(k) == at)).collect()
}

/// The servers by peak on one zone; those whose bounds overlap are not told apart.
fn ranking(run: &Run, on_zone: impl Fn(&Key) -> bool) -> Option<String> {
    let cells = run.cells.iter().filter(|c| c.key.is("peak") && on_zone(&c.key) && c.state() == State::Valid);
    let mut ranked: Vec<(f64, (f64, f64), &Cell)> = cells
        .filter_map(|c| {
            let value = c.metric("peak_qps")?.value;
            Some((value, peak::bounds(c).unwrap_or((value, value)), c))
        })
        .collect();
    ranked.sort_by(|a, b| b.0.total_cmp(&a.0));
    let first = ranked.first()?;
    let mut text = format!("Peak query rate on {}: ", first.2.key.zone());
    for (i, (value, bounds, cell)) in ranked.iter().enumerate() {
        if i > 0 {
            let tie = ranked[i - 1].1.0 <= bounds.1;
            text += if tie { ", not told apart from " } else { ", ahead of " };
        }
        text += &format!("{} {}", cell.key.server, format::rate(*value));
        if bounds.0 < bounds.1 {
            text += &format!(" ({})", format::rate_range(bounds.0, bounds.1).trim_end_matches("/s"));
        }
    }
    Some(text + ".")
}
