//! Does what was acknowledged stay, and what do secondaries serve after a crash?

use super::{Question, distinct, question};
use crate::cells::{Cell, Run, State};
use crate::durable::{beyond, gone, sum, uncovered, whole};
use crate::format;
use measure::metrics::{self, Definition};

pub(super) fn questions(run: &Run) -> Vec<Question> {
    [survives(run), killed(run)].into_iter().flatten().collect()
}

fn valid<'a>(run: &'a Run<'a>, measure: &'a str) -> impl Iterator<Item = &'a Cell<'a>> {
    run.cells.iter().filter(move |c| c.key.is(measure) && c.state() == State::Valid)
}

/// A server in a variant, in words.
fn who(cell: &Cell) -> String {
    match &cell.key.variant {
        Some(variant) => format!("{} ({variant})", cell.key.server),
        None => cell.key.server.clone(),
    }
}

/// The zone, of whichever variant.
fn zone(cell: &Cell) -> String {
    let size = cell.key.size.map_or_else(String::new, |size| format!(", {}", measure::units::short(size)));
    format!("{}{size}", cell.key.family)
}

/// The verdict of a cell of either measure: whether acknowledged updates stay, and in which words.
fn verdict(cell: &Cell) -> Option<(bool, String)> {
    if let Some((not, all)) = uncovered(cell).filter(|(_, all)| *all > 0.0) {
        let mut text = match not > 0.0 {
            false => format!("each of {} traced answers follows a sync that covers it", whole(all)),
            true => {
                format!("{} of {} traced answers follow no sync that covers them", whole(not), whole(all))
            }
        };
        if let Some(times) = beyond(cell) {
            text += &format!(", and it takes {times:.1} times as many updates a second as the disk can sync");
        }
        return Some((not == 0.0, text));
    }
    let (gone, all) = gone(cell).filter(|(_, all)| *all > 0.0)?;
    let cuts = sum(cell, metrics::CUTS)?;
    let text = match gone > 0.0 {
        false => {
            format!("none of {} acknowledged updates was lost in {} power cuts", whole(all), whole(cuts))
        }
        true => format!(
            "{} of {} acknowledged updates were lost, in {} of {} power cuts",
            whole(gone),
            whole(all),
            whole(sum(cell, metrics::CUTS_WITH_LOSS)?),
            whole(cuts)
        ),
    };
    Some((gone == 0.0, text))
}

fn survives(run: &Run) -> Option<Question> {
    let zones = distinct(valid(run, "syncs").chain(valid(run, "power-cut")), zone).len();
    let mut all: Vec<(String, Vec<bool>, Vec<String>)> = Vec::new();
    for cell in valid(run, "syncs").chain(valid(run, "power-cut")) {
        let Some((stays, text)) = verdict(cell) else { continue };
        let text = if zones > 1 { format!("{text} ({})", zone(cell)) } else { text };
        match all.iter_mut().find(|(name, ..)| *name == who(cell)) {
            Some((_, verdicts, texts)) => {
                verdicts.push(stays);
                texts.push(text);
            }
            None => all.push((who(cell), vec![stays], vec![text])),
        }
    }
    let named = |of: &dyn Fn(&[bool]) -> bool| -> Vec<String> {
        all.iter().filter(|(_, verdicts, _)| of(verdicts)).map(|(name, ..)| name.clone()).collect()
    };
    let (yes, no) = (named(&|v| v.iter().all(|s| *s)), named(&|v| v.iter().all(|s| !s)));
    let unclear = named(&|v| v.iter().any(|s| *s) && v.iter().any(|s| !s));
    let mut parts = Vec::new();
    for (names, words) in
        [(yes, "Yes, of"), (no, "no, of"), (unclear, "not always, or what was looked at differs, of")]
    {
        if !names.is_empty() {
            parts.push(format!("{words} {}", format::list(&names)));
        }
    }
    let mut answers = Vec::new();
    if !parts.is_empty() {
        answers.push(format!("{}.", super::first_upper(&parts.join("; "))));
    }
    answers.extend(all.iter().map(|(name, _, texts)| format!("{name}: {}.", texts.join("; "))));
    question("Does an acknowledged update survive a power cut?", answers)
}

fn killed(run: &Run) -> Option<Question> {
    let one = |cell: &Cell| {
        let value_of = |which: Definition| sum(cell, which).unwrap_or(0.0);
        let back = match (value_of(metrics::SERIAL_BACK_RESTARTED), value_of(metrics::SERIAL_BACK_RUNNING)) {
            (0.0, 0.0) => "no serial went back".to_owned(),
            (restarted, running) => format!(
                "an older serial {} times after a restart and {} times while it ran",
                whole(restarted),
                whole(running)
            ),
        };
        let half = match value_of(metrics::HALF_BY_TRANSFER) {
            0.0 => "no half-applied change was",
            _ => "half-applied changes were",
        };
        let mixed = match value_of(metrics::MIXED_BY_QUERY) {
            0.0 => "no two versions were mixed".to_owned(),
            // Of single queries a server with two versions at once looks like one with half a change.
            count => format!(
                "{} times versions were mixed (half a change, or two versions served at once)",
                whole(count)
            ),
        };
        Some(format!(
            "{} killed {} times: {back}; {half} in {} transfers, {mixed} in {} query checks",
            who(cell),
            whole(sum(cell, metrics::KILLS)?),
            whole(value_of(metrics::ZONES_TRANSFERRED)),
            whole(value_of(metrics::PAIRS_ASKED))
        ))
    };
    let all: Vec<String> = valid(run, "kill").filter_map(one).map(|text| format!("{text}.")).collect();
    question("What does a secondary serve that was killed while changes came?", all)
}
