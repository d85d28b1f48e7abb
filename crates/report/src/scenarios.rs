//! Columns beside each other: the scenarios of a run, or several runs. Every figure of each server in the first column, and how it
//! differs in the others.

use crate::cells::Run;
use crate::compare::difference;
use crate::decision::{self, Decision, Slide};
use crate::format;
use comfy_table::{CellAlignment, ContentArrangement, Table, presets};
use measure::{metrics, params, units};
use results::RunDir;
use results::compare::{self, Cell, ComparedFigure, Comparison, Gates, Outcome, Side, Verdict};
use serde::Serialize;

/// Scenarios of a run, or several runs, each compared with the first.
pub(crate) struct Scenarios<'a> {
    /// The name of the one that the others are compared with.
    pub first: &'a str,
    /// The others, in the order in which they were measured or named.
    pub compared: Vec<(&'a str, Comparison)>,
}

/// All scenarios of a run, to be shown.
#[derive(Debug, Serialize)]
pub(crate) struct View {
    /// What each scenario but the first costs, question by question.
    pub decisions: Vec<Decision>,
    /// The most important figures.
    pub slide: Slide,
    /// All figures.
    pub figures: FigureTable,
}

/// Figures beside each other.
#[derive(Debug, Serialize)]
pub(crate) struct FigureTable {
    /// The names of the columns, the one first that the others are compared with.
    pub columns: Vec<String>,
    pub rows: Vec<Row>,
    pub about: Vec<String>,
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
fn names(run: &RunDir) -> Vec<&str> {
    let mut all: Vec<&str> = Vec::new();
    for trial in run.trials().iter().filter(|t| t.param(params::ZONE_MADE).is_some()) {
        let name = trial.param(params::FAMILY).unwrap_or_default();
        if !all.contains(&name) {
            all.push(name);
        }
    }
    all
}

impl<'a> Scenarios<'a> {
    /// Those of a run; none where there are fewer than two.
    pub fn of(run: &'a RunDir) -> Option<Self> {
        let names = names(run);
        let (first, others @ [_, ..]) = names.split_first()? else { return None };
        let side = |name| Side::with(run, params::FAMILY, name);
        let compare =
            |other: &&'a str| (*other, compare::compare(side(first), side(other), &Gates::default()));
        Some(Self { first, compared: others.iter().map(compare).collect() })
    }
}

/// The scenarios side by side; none where there are fewer than two.
pub(crate) fn view(run: &Run) -> Option<View> {
    let all = Scenarios::of(run.dir)?;
    let about = format!(
        "Medians of the valid trials on each zone, and below them the difference from {} with its interval at 95 %, of pairs of trials of \
         one repeat where enough are whole.",
        all.first
    );
    let figures = beside(&all, vec![about], title);
    let (decisions, slide) = (decision::decisions(run, &all), decision::slide(&all));
    (!figures.rows.is_empty()).then_some(View { decisions, slide, figures })
}

/// Several runs side by side, where they have measurements at the same parameters; none for a single run.
pub(crate) fn runs(dirs: &[RunDir]) -> Option<FigureTable> {
    let (first, others @ [_, ..]) = dirs.split_first()? else { return None };
    let name = |dir: &RunDir| {
        let last = |path: &std::path::Path| path.file_name().map(|n| n.to_string_lossy().into_owned());
        last(dir.dir()).unwrap_or_else(|| dir.dir().display().to_string())
    };
    let names: Vec<String> = others.iter().map(name).collect();
    let first_name = name(first);
    let compare =
        |dir: &RunDir| compare::compare(Side::new(first, None), Side::new(dir, None), &Gates::default());
    let compared: Vec<Comparison> = others.iter().map(compare).collect();
    let mut about = vec![format!(
        "Medians of the valid trials of each run, and below them the difference from {first_name} with its interval at 95 %. The runs were \
         made one after the other, so a difference may also be the machine's."
    )];
    for (name, c) in names.iter().zip(&compared).filter(|(_, c)| c.cells.is_empty()) {
        let keys: Vec<String> = c.apart.iter().map(|apart| apart.parameter.clone()).collect();
        about.push(match keys.is_empty() {
            true => format!("{name} has no measurement at the parameters of {first_name}."),
            false => format!(
                "{name} has no measurement in common with {first_name}: {} differ.",
                format::list(&keys)
            ),
        });
    }
    let compared = names.iter().map(String::as_str).zip(compared).collect();
    let all = Scenarios { first: &first_name, compared };
    Some(beside(&all, about, |cell, figure| {
        let size = units::count(param(cell, params::ZONE_SIZE)).map_or_else(|_| String::new(), units::short);
        let zone = [param(cell, params::FAMILY), &size].join(" ");
        format!("{}, {}", title(cell, figure), zone.trim())
    }))
}

/// Every figure that columns have in common with the first, with its differences.
fn beside(
    all: &Scenarios<'_>,
    about: Vec<String>,
    label: impl Fn(&Cell, &ComparedFigure) -> String,
) -> FigureTable {
    let mut rows: Vec<Row> = Vec::new();
    for (at, (_, comparison)) in all.compared.iter().enumerate() {
        for (cell, figure) in
            comparison.findings().filter(|(cell, figure)| is_shown(comparison, cell, figure))
        {
            let (title, server) = (label(cell, figure), server(cell));
            let row = match rows.iter().position(|r| r.figure == title && r.server == server) {
                Some(row) => &mut rows[row],
                None => {
                    let text = format::value(figure.a.median, figure.unit);
                    let mut cells = vec![Difference { text, difference: String::new(), word: "" }];
                    let none = || Difference { text: "–".into(), difference: String::new(), word: "" };
                    cells.extend(all.compared.iter().map(|_| none()));
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
    let others = all.compared.iter().map(|(name, _)| *name);
    FigureTable {
        columns: std::iter::once(all.first).chain(others).map(str::to_owned).collect(),
        rows,
        about,
    }
}

/// Memory and the time of the start are figures of every measurement: those of memory trials are shown, where there are any.
pub(crate) fn is_shown(c: &Comparison, cell: &Cell, figure: &ComparedFigure) -> bool {
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

pub(crate) fn param(cell: &Cell, parameter: measure::Parameter) -> &str {
    cell.params.get(parameter.name()).map_or("", String::as_str)
}

pub(crate) fn server(cell: &Cell) -> String {
    param(cell, params::SERVER).to_owned()
}

fn measure(cell: &Cell) -> &str {
    param(cell, params::MEASURE)
}

/// The figure, and the load that it is of.
pub(crate) fn title(cell: &Cell, figure: &ComparedFigure) -> String {
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

/// The table for a terminal, with what must be known to read it. Ends with a line break.
pub(crate) fn text(view: &FigureTable) -> String {
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
    let about: Vec<String> = view.about.iter().map(|line| format!("{line}\n")).collect();
    format!("{table}\n{}", about.concat())
}
