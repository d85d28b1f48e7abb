//! The tables of a run for a terminal.

use crate::cells::{Run, State};
use crate::decision::{Answer, Decision};
use crate::grid::{Grid, GridCell};
use crate::questions::{self, Question};
use crate::{Error, grids, ranking, scenarios, summary};
use comfy_table::{CellAlignment, ContentArrangement, Table, presets};
use indexmap::IndexMap;
use measure::Reason;
use results::RunDir;
use std::fmt::Write;

/// A run's tables as text: what was measured with the published cell beside it, what is invalid, what
/// failed and why. Ends with a line break.
///
/// # Errors
/// Where `run.toml` is not TOML.
pub fn terminal(dir: &RunDir) -> Result<String, Error> {
    let run = Run::new(dir)?;
    let grids = grids::of(&run);
    let name = run.planned("name").unwrap_or_else(|| dir.dir().display().to_string());
    let title = run.planned("title").map_or_else(String::new, |t| format!(": {t}"));
    let mut out = format!("{name}{title}\n");
    if let Some(c) = crate::compare::of_run(dir) {
        let _ = writeln!(out, "\n{}: {}", crate::compare::outcome(&c), crate::compare::comparison(&c));
    }
    for sentence in summary::sentences(&run) {
        let _ = writeln!(out, "{sentence}");
    }
    let scenarios = scenarios::view(&run);
    if let Some(view) = &scenarios {
        for Decision { scenario, made, answers } in &view.decisions {
            let _ = writeln!(out, "\n{scenario} against {}: {made}", view.figures.columns[0]);
            for Answer { topic, text } in answers {
                let _ = writeln!(out, "  {topic}: {text}");
            }
        }
    }
    for Question { question, answers } in questions::all(&run, &grids) {
        let _ = writeln!(out, "\n{question}");
        for answer in answers {
            let _ = writeln!(out, "  {answer}");
        }
    }
    if let Some(view) = &scenarios {
        let _ = write!(out, "\nScenarios beside each other\n{}", scenarios::text(&view.figures));
    }
    out += &ranking::text(&ranking::rankings(std::slice::from_ref(&run)));
    for grid in &grids {
        let _ = write!(out, "\n{}\n{}\n", grid.title, table(grid));
        let _ = writeln!(out, "{}", grid.about);
        for source in &grid.sources {
            let _ = writeln!(out, "[{}] {}, {}", source.id, source.source, source.place);
            let marks = grid
                .rows
                .iter()
                .flat_map(|r| &r.cells)
                .filter_map(|c| c.published.as_ref()?.cell.mark.clone());
            let mut marks: Vec<String> = marks.collect();
            marks.sort();
            marks.dedup();
            for mark in marks {
                if let Some(note) = source.footnotes.get(&mark) {
                    let _ = writeln!(out, "  {mark} {note}");
                }
            }
        }
    }
    out += &problems(&run);
    Ok(out)
}

/// Several runs side by side, for a terminal, and their platforms ranked; empty for one.
///
/// # Errors
/// As [`terminal`].
pub fn side_by_side(dirs: &[RunDir]) -> Result<String, Error> {
    let beside = match scenarios::runs(dirs) {
        Some(figures) if figures.rows.is_empty() => figures.about[1..].join("\n") + "\n",
        Some(figures) => format!("Runs side by side\n{}", scenarios::text(&figures)),
        None => return Ok(String::new()),
    };
    let runs = dirs.iter().map(Run::new).collect::<Result<Vec<_>, _>>()?;
    Ok(beside + &ranking::text(&ranking::rankings(&runs)))
}

fn table(grid: &Grid) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::UTF8_FULL_CONDENSED).set_content_arrangement(ContentArrangement::Disabled);
    let head = grid.heads.into_iter().map(str::to_owned).chain(grid.columns.iter().cloned());
    table.set_header(head);
    for row in &grid.rows {
        let cells = row.cells.iter().map(cell_text);
        table.add_row([row.server.clone(), row.zone.clone()].into_iter().chain(cells));
    }
    for column in table.column_iter_mut().skip(2) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

/// Figure, interval, remarks, published cell: a line each.
fn cell_text(cell: &GridCell) -> String {
    let mut lines = vec![cell.text.clone()];
    lines.extend(cell.details.iter().cloned());
    if let Some(beside) = &cell.published {
        lines.push(format!("[{} {}]", beside.table.id, beside.text));
    }
    lines.join("\n")
}

/// Invalid trials and failed ones, each with its cause; warnings with how often they came.
fn problems(run: &Run) -> String {
    let mut out = String::new();
    let name = |id: u32| {
        let has_trial = |c: &&crate::cells::Cell| c.trials.iter().any(|t| t.id == id);
        run.cells
            .iter()
            .find(has_trial)
            .map_or_else(String::new, |c| format!("{}, {}, {}", c.key.server, c.key.zone(), c.key.measure))
    };
    for trial in run.dir.trials().iter().filter(|t| !t.is_valid()) {
        if let Some(skipped) = &trial.skipped {
            let _ = writeln!(out, "trial {} ({}) skipped: {skipped}", trial.id, name(trial.id));
            continue;
        }
        match &trial.error {
            Some(error) => {
                let _ = writeln!(out, "trial {} ({}) FAILED: {error}", trial.id, name(trial.id));
            }
            None => {
                for reason in &trial.outcome.validity.reasons {
                    let _ = writeln!(out, "trial {} ({}) INVALID: {reason}", trial.id, name(trial.id));
                }
            }
        }
    }
    for (code, text, trials) in warnings(run) {
        let _ = writeln!(out, "note, {}: {text} ({code})", trials_text(&trials, run.dir.trials().len()));
    }
    if out.is_empty() { out } else { format!("\n{out}") }
}

/// `all trials`, `trials 3, 5 and 9`, or how many where they are more than six.
fn trials_text(trials: &[u32], of: usize) -> String {
    match trials {
        [one] => format!("trial {one}"),
        all if all.len() == of => format!("all {of} trials"),
        few if few.len() <= 6 => {
            let ids: Vec<String> = few.iter().map(u32::to_string).collect();
            format!("trials {}", crate::format::list(&ids))
        }
        [first, ..] => format!("{} trials (trial {first} and others)", trials.len()),
        [] => "no trial".into(),
    }
}

/// Warnings by code, in order of appearance: code, text, trials. Where the texts of the trials differ, the text is that of the first, and names it.
pub(crate) fn warnings(run: &Run) -> Vec<(String, String, Vec<u32>)> {
    let trials = run.dir.trials().iter();
    by_code(trials.flat_map(|t| t.outcome.validity.warnings.iter().map(|reason| (t.id, reason))))
}

/// Reasons by code, with the trials that have them.
fn by_code<'a>(reasons: impl Iterator<Item = (u32, &'a Reason)>) -> Vec<(String, String, Vec<u32>)> {
    let mut all: IndexMap<&str, Vec<(u32, &str)>> = IndexMap::new();
    for (trial, reason) in reasons {
        all.entry(&reason.code).or_default().push((trial, &reason.text));
    }
    let warning = |(code, texts): (&str, Vec<(u32, &str)>)| {
        let (first, text) = texts[0];
        let alike = texts.iter().all(|(_, other)| *other == text);
        let text = if alike { text.to_owned() } else { format!("in trial {first}, {text}") };
        let mut trials: Vec<u32> = texts.iter().map(|(trial, _)| *trial).collect();
        trials.dedup();
        (code.to_owned(), text, trials)
    };
    all.into_iter().map(warning).collect()
}

/// The word for a state, for tables that show nothing else.
pub(crate) fn word(state: State) -> &'static str {
    match state {
        State::Valid => "valid",
        State::Invalid => "invalid",
        State::Failed => "failed",
        State::Skipped => "skipped",
        State::Absent => "absent",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_warning_that_differs_from_trial_to_trial_names_the_trial_that_it_quotes() {
        let reasons = [
            (6, Reason::new("wrong_answers", "386 of 1000 answers are wrong")),
            (6, Reason::new("co_located", "compare by ratios only")),
            (15, Reason::new("wrong_answers", "617 of 1000 answers are wrong")),
            (15, Reason::new("co_located", "compare by ratios only")),
        ];
        let shown = by_code(reasons.iter().map(|(trial, reason)| (*trial, reason)));
        let expected = [
            ("wrong_answers", "in trial 6, 386 of 1000 answers are wrong"),
            ("co_located", "compare by ratios only"),
        ];
        assert_eq!(shown, expected.map(|(code, text)| (code.into(), text.into(), vec![6, 15])));
    }
}
