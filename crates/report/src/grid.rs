//! The tables of a report: server × zone type down, zone size across, a cell each.

use crate::cells::{self, Cell, Column, Figure, Key, Run, State};
use results::published::{self, Relation, Table};

/// A table of figures.
#[derive(Debug)]
pub(crate) struct Grid {
    /// For links: `latency-5000`.
    pub id: String,
    pub title: String,
    /// A sentence or two about the figures and how they were made.
    pub about: String,
    /// The heads of the rows' own columns: `server` and `zone`.
    pub heads: [&'static str; 2],
    /// Zone sizes, or scenarios.
    pub columns: Vec<String>,
    pub rows: Vec<Row>,
    /// The published tables whose cells stand beside.
    pub sources: Vec<&'static Table>,
}

/// A row: a server on a zone type.
#[derive(Debug)]
pub(crate) struct Row {
    pub server: String,
    pub zone: String,
    pub cells: Vec<GridCell>,
}

/// A figure and all that belongs to it.
#[derive(Debug)]
pub(crate) struct GridCell {
    pub text: String,
    pub details: Vec<String>,
    pub state: State,
    /// Trials by id, with whether each is valid.
    pub trials: Vec<(u32, bool)>,
    /// The number of trials that the figure beside a published one comes from.
    pub repeats: usize,
    pub published: Option<Beside>,
}

/// A published cell beside a measured one.
#[derive(Clone, Debug)]
pub(crate) struct Beside {
    /// With its unit, as printed.
    pub text: String,
    /// Measured over published, where both are numbers.
    pub factor: Option<f64>,
    /// Where it is from.
    pub table: &'static Table,
    /// The cell itself.
    pub cell: &'static published::Cell,
    /// Other cells that the same trials have values for.
    pub more: Vec<Further>,
}

/// Another published cell.
#[derive(Clone, Debug)]
pub(crate) struct Further {
    pub table: &'static Table,
    pub cell: &'static published::Cell,
    /// The measured value, where it is not the one that the first cell has.
    pub measured: Option<f64>,
}

/// A cell in a grid: its text, its details, and the figure to compare with a published one, in the unit that
/// [`beside`] is given.
pub(crate) struct Shown {
    pub text: String,
    pub details: Vec<String>,
    pub compare: Option<Figure>,
}

/// The rows of RZAIA's tables by kind of server.
pub(crate) fn software(kind: &str) -> Option<&'static str> {
    match kind {
        "bind" => Some("BIND"),
        "nsd" => Some("NSD"),
        _ => None,
    }
}

/// Where nothing was published.
pub(crate) fn nothing(_: &Key, _: Option<f64>) -> Option<Beside> {
    None
}

/// The published cell for a measurement in `unit`, from `table`, at the row heading that `heading` gives. A table of
/// something else than what was measured has none.
pub(crate) fn beside(
    table: Option<&'static Table>,
    key: &Key,
    heading: impl Fn(&Key) -> Option<Vec<String>>,
    measured: Option<f64>,
    unit: &str,
) -> Option<Beside> {
    let (table, size, heading) = (table?, key.size?, heading(key)?);
    let heading: Vec<&str> = heading.iter().map(String::as_str).collect();
    of_cell(table, &heading, table.cell_at_size(&heading, size)?, measured, unit)
}

/// A published cell of a row, for a measurement in `unit`; none where it is of something else.
pub(crate) fn of_cell(
    table: &'static Table,
    heading: &[&str],
    cell: &'static published::Cell,
    measured: Option<f64>,
    unit: &str,
) -> Option<Beside> {
    let printed = table.unit_of(heading);
    let scale = published::conversion(unit, printed)?;
    let unit = if cell.value.is_some() { format!(" {printed}") } else { String::new() };
    let factor = match (cell.relation, cell.value, measured) {
        (Relation::Exactly, Some(published), Some(measured)) if published > 0.0 => {
            Some(measured * scale / published)
        }
        _ => None,
    };
    // What is printed in several places is one figure.
    let printings = table.rows.iter().filter(|row| table.column_title == "Printed in" && row.key == heading);
    let others =
        printings.flat_map(|row| &row.cells).filter(|c| c.value.is_some() && !std::ptr::eq(*c, cell));
    let more = others.map(|cell| Further { table, cell, measured: None }).collect();
    Some(Beside { text: format!("{}{unit}", cell.text), factor, table, cell, more })
}

/// A column of a table by operating systems, for Linux, which is what our servers run on: its cells there, with their rows.
pub(crate) fn of_linux(
    table: &'static Table,
    column: &str,
) -> impl Iterator<Item = (&'static published::Row, &'static published::Cell)> {
    let at = table.columns.iter().position(|c| c == column);
    let rows = table.rows.iter().filter(|row| row.key[0].starts_with("Linux"));
    rows.filter_map(move |row| Some((row, row.cells.get(at?)?)))
}

/// The published figures of Linux in such columns: the first one, and the others with it.
pub(crate) fn on_linux(
    columns: &[(&'static Table, &str)],
    measured: Option<f64>,
    unit: &str,
) -> Option<Beside> {
    let mut all = columns
        .iter()
        .flat_map(|&(table, column)| of_linux(table, column).map(move |(row, cell)| (table, row, cell)));
    let (table, row, cell) = all.next()?;
    let key: Vec<&str> = row.key.iter().map(String::as_str).collect();
    let first = of_cell(table, &key, cell, measured, unit)?;
    let more = all.map(|(table, _, cell)| Further { table, cell, measured: None }).collect();
    Some(Beside { more, ..first })
}

/// One grid from the cells that `keep` keeps; none where there are none.
pub(crate) fn grid(
    run: &Run,
    (id, title, about): (&str, String, String),
    keep: impl Fn(&Cell) -> bool,
    published: impl Fn(&Key, Option<f64>) -> Option<Beside>,
    show: impl Fn(&Cell) -> Option<Shown>,
) -> Option<Grid> {
    let kept: Vec<&Cell> = run.cells.iter().filter(|c| keep(c)).collect();
    let mut columns = cells::distinct(kept.iter().copied(), |c| c.key.column());
    // Scenarios are in the order of the experiment.
    if !columns.iter().any(|column| matches!(column, Column::Scenario(_))) {
        columns.sort_unstable();
    }
    let mut rows = Vec::new();
    for zone in cells::distinct(kept.iter().copied(), |c| c.key.row()) {
        for server in &run.servers {
            let of_row = |c: &&&Cell| c.key.row() == zone && c.key.server == *server;
            if kept.iter().filter(of_row).count() == 0 {
                continue;
            }
            let cells = columns.iter().map(|column| {
                let all: Vec<&Cell> =
                    kept.iter().filter(of_row).filter(|c| c.key.column() == *column).copied().collect();
                filled(&all, &published, &show)
            });
            rows.push(Row { server: server.clone(), zone: zone.clone(), cells: cells.collect() });
        }
    }
    let any = rows.iter().flat_map(|r| &r.cells).any(|c| c.state != State::Absent && c.text != "–");
    let mut sources: Vec<&'static Table> = Vec::new();
    for beside in rows.iter().flat_map(|r| &r.cells).filter_map(|c| c.published.as_ref()) {
        if !sources.iter().any(|s| s.id == beside.table.id) {
            sources.push(beside.table);
        }
    }
    any.then(|| Grid {
        id: id.to_owned(),
        title,
        about,
        heads: ["server", "zone"],
        columns: columns.iter().map(Column::name).collect(),
        rows,
        sources,
    })
}

/// A grid's cell from the cells of the run that fall into it (several where measures share a figure).
fn filled(
    all: &[&Cell],
    published: &impl Fn(&Key, Option<f64>) -> Option<Beside>,
    show: &impl Fn(&Cell) -> Option<Shown>,
) -> GridCell {
    let Some(first) = all.first() else {
        let (text, state) = ("–".to_owned(), State::Absent);
        return GridCell {
            text,
            details: Vec::new(),
            state,
            trials: Vec::new(),
            repeats: 0,
            published: None,
        };
    };
    let cell =
        Cell { key: first.key.clone(), trials: all.iter().flat_map(|c| c.trials.iter().copied()).collect() };
    let trials = cell.trials.iter().map(|t| (t.id, t.is_valid())).collect();
    let shown = if matches!(cell.state(), State::Failed | State::Skipped) { None } else { show(&cell) };
    let (mut text, mut details, compare) = match shown {
        Some(s) => (s.text, s.details, s.compare),
        None if cell.state() == State::Failed => ("failed".into(), Vec::new(), None),
        None if cell.state() == State::Skipped => ("skipped".into(), Vec::new(), None),
        None => ("–".into(), Vec::new(), None),
    };
    if cell.state() == State::Invalid && text != "–" {
        text = format!("({text})");
    }
    let used = cell.used().len();
    let repeats = compare.map_or(used, |f| f.repeats);
    if repeats < used {
        details.push(format!("from {repeats} of {used} trials"));
    }
    details.extend(cell.remarks());
    // A ratio from an invalid trial would be quoted: it is not computed.
    let compare = compare.filter(|_| cell.state() == State::Valid).map(|f| f.value);
    let published = published(&cell.key, compare);
    GridCell { text, details, state: cell.state(), trials, repeats, published }
}

/// How many repeats figures stand on, in words.
pub(crate) fn repeats(run: &Run, measure: &str) -> String {
    let most = run.cells.iter().filter(|c| c.key.is(measure)).map(|c| c.trials.len()).max().unwrap_or(0);
    match most {
        0 | 1 => "one trial each, so there is no interval".into(),
        2..=5 => format!(
            "median of {most} trials, each with a fresh server, and their range (too few for an interval)"
        ),
        n => {
            let level = stats::interval(&vec![0.0; n], stats::LEVEL).map_or(0.0, |i| i.level * 100.0);
            format!(
                "median of {n} trials, each with a fresh server, and its {level:.1} % interval by order statistics"
            )
        }
    }
}
