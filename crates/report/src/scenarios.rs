//! The scenarios of a run beside each other: every figure of each server on the first zone, and how it differs on the others.

use crate::cells::Run;
use crate::compare::{difference, size_text};
use crate::format;
use comfy_table::{CellAlignment, ContentArrangement, Table, presets};
use measure::{metrics, params, units};
use results::RunDir;
use results::compare::{self, Cell, ComparedFigure, Comparison, Gates, Outcome, Side, Verdict};
use serde::Serialize;

/// All scenarios of a run.
#[derive(Debug, Serialize)]
pub(crate) struct View {
    /// A sentence for each scenario but the first.
    pub sentences: Vec<String>,
    /// Their names, the one first that the others are compared with.
    pub columns: Vec<String>,
    pub rows: Vec<Row>,
    pub about: String,
}

/// A figure of a server on each zone.
#[derive(Debug, Serialize)]
pub(crate) struct Row {
    /// `latency of 99 % at 5,000/s`.
    pub figure: String,
    pub server: String,
    /// The row before is of another figure.
    pub first: bool,
    pub cells: Vec<Difference>,
}

/// A figure on one zone, with its difference from the first.
#[derive(Debug, Serialize)]
pub(crate) struct Difference {
    /// The median.
    pub text: String,
    /// `-9.1 % (-23 to +7.3 %)`; empty for the first zone.
    pub difference: String,
    /// For the page's style: `worse`, `better`, `not_known` or `no_worse`.
    pub word: &'static str,
}

/// The names of a run's scenarios, in the order in which they were measured.
fn names(run: &RunDir) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for trial in run.trials().iter().filter(|t| t.param(params::ZONE_MADE).is_some()) {
        let name = trial.param(params::FAMILY).unwrap_or_default();
        if !all.iter().any(|known| known == name) {
            all.push(name.to_owned());
        }
    }
    all
}

/// The scenarios side by side; none where there are fewer than two.
pub(crate) fn view(run: &Run) -> Option<View> {
    let names = names(run.dir);
    let (first, others @ [_, ..]) = names.split_first()? else { return None };
    let side = |name| Side::with(run.dir, params::FAMILY, name);
    let compared: Vec<Comparison> =
        others.iter().map(|other| compare::compare(side(first), side(other), &Gates::default())).collect();
    let mut rows: Vec<Row> = Vec::new();
    for (at, comparison) in compared.iter().enumerate() {
        for (cell, figure) in
            comparison.findings().filter(|(cell, figure)| is_shown(comparison, cell, figure))
        {
            let (title, server) = (title(cell, figure), server(cell));
            let row = match rows.iter().position(|r| r.figure == title && r.server == server) {
                Some(row) => &mut rows[row],
                None => {
                    let text = format::value(figure.a.median, figure.unit);
                    let mut cells = vec![Difference { text, difference: String::new(), word: "" }];
                    let none = || Difference { text: "–".into(), difference: String::new(), word: "" };
                    cells.extend(others.iter().map(|_| none()));
                    rows.push(Row { figure: title, server, first: false, cells });
                    rows.last_mut().expect("it was just added")
                }
            };
            row.cells[at + 1] = Difference {
                text: format::value(figure.b.median, figure.unit),
                difference: figure.change.map_or("too few repeats".into(), |change| difference(&change)),
                word: word(figure),
            };
        }
    }
    let mut titles: Vec<String> = Vec::new();
    for row in &rows {
        if !titles.contains(&row.figure) {
            titles.push(row.figure.clone());
        }
    }
    rows.sort_by_key(|row| titles.iter().position(|title| *title == row.figure));
    let mut before = String::new();
    for row in &mut rows {
        row.first = std::mem::replace(&mut before, row.figure.clone()) != row.figure;
    }
    let sentences = others.iter().zip(&compared).map(|(name, c)| sentence(first, name, c)).collect();
    let about = format!(
        "Medians of the valid trials on each zone, and below them the difference from {first} with its interval at 95 %, of pairs of trials of \
         one repeat where enough are whole."
    );
    (!rows.is_empty()).then_some(View { sentences, columns: names, rows, about })
}

/// Memory and the time of the start are figures of every measurement: those of memory trials are shown, where there are any.
fn is_shown(c: &Comparison, cell: &Cell, figure: &ComparedFigure) -> bool {
    let of_every_trial = [metrics::SERVER_PSS, metrics::SERVER_RSS, metrics::SERVER_READY];
    if !of_every_trial.iter().any(|metric| metric.stem() == figure.name) {
        return true;
    }
    let has = |other: &Cell| other.figures.iter().any(|f| f.name == figure.name);
    let same = |other: &&Cell| server(other) == server(cell) && has(other);
    let of_memory = |other: &&Cell| measure(other) == "memory";
    let mut all = c.cells.iter().filter(same);
    let shown = all.clone().find(of_memory).or_else(|| all.next());
    shown.is_some_and(|shown| shown.params == cell.params)
}

fn param(cell: &Cell, parameter: measure::Parameter) -> &str {
    cell.params.get(parameter.name()).map_or("", String::as_str)
}

fn server(cell: &Cell) -> String {
    param(cell, params::SERVER).to_owned()
}

fn measure(cell: &Cell) -> &str {
    param(cell, params::MEASURE)
}

/// The figure, and the load that it is of.
fn title(cell: &Cell, figure: &ComparedFigure) -> String {
    let mut title = figure.figure().title.to_owned();
    // Of a start or a reload the rate says only what was asked meanwhile.
    let rate = Some(param(cell, params::RATE)).filter(|_| measure(cell) == "latency");
    if let Some(rate) = rate.and_then(|rate| rate.parse::<f64>().ok()) {
        title += &format!(" at {}", format::rate(rate));
    }
    if let Ok(updates) = units::number(param(cell, params::UPDATES)) {
        title += &format!(" under {updates} updates/s");
    }
    if !param(cell, params::VARIANT).is_empty() {
        title += &format!(" ({})", param(cell, params::VARIANT));
    }
    title
}

fn word(figure: &ComparedFigure) -> &'static str {
    match figure.verdict {
        Verdict::Worse => "worse",
        Verdict::Better => "better",
        _ if figure.outcome == Outcome::NoWorse => "no_worse",
        _ => "not_known",
    }
}

/// What a scenario costs, figure by figure, in one sentence.
fn sentence(first: &str, name: &str, c: &Comparison) -> String {
    let mut parts: Vec<(String, Vec<String>)> = Vec::new();
    for (cell, figure) in c.gating().filter(|(cell, figure)| is_shown(c, cell, figure)) {
        let of = match (figure.verdict, figure.change) {
            (Verdict::Worse | Verdict::Better, Some(change)) => {
                format!("{} {}", server(cell), size_text(&change))
            }
            _ if figure.outcome == Outcome::NoWorse => format!("{} no worse", server(cell)),
            (_, Some(change)) => format!("{} not known ({})", server(cell), difference(&change)),
            (_, None) => format!("{} not known (too few repeats)", server(cell)),
        };
        let title = title(cell, figure);
        match parts.iter_mut().find(|(known, _)| *known == title) {
            Some((_, servers)) => servers.push(of),
            None => parts.push((title, vec![of])),
        }
    }
    let parts: Vec<String> =
        parts.into_iter().map(|(title, servers)| format!("{title}: {}", servers.join(", "))).collect();
    match parts.is_empty() {
        true => format!("{name} against {first}: nothing was measured on both."),
        false => format!("{name} against {first}. {}.", parts.join("; ")),
    }
}

/// The table for a terminal, with what must be known to read it. Ends with a line break.
pub(crate) fn text(view: &View) -> String {
    let mut table = Table::new();
    table.load_preset(presets::UTF8_FULL_CONDENSED).set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(
        ["figure".to_owned(), "server".to_owned()].into_iter().chain(view.columns.iter().cloned()),
    );
    for row in &view.rows {
        let figure = if row.first { row.figure.clone() } else { String::new() };
        let cells = row.cells.iter().map(|cell| match cell.difference.is_empty() {
            true => cell.text.clone(),
            false => format!("{}\n{}", cell.text, cell.difference),
        });
        table.add_row([figure, row.server.clone()].into_iter().chain(cells));
    }
    for column in table.column_iter_mut().skip(2) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    format!("{table}\n{}\n", view.about)
}
