//! The data of the page's template: text that is ready to be shown.

use crate::appendix::{self, TrialView};
use crate::cells::{Cell, Run};
use crate::grid::{Grid, GridCell};
use crate::plots::{self, Group};
use crate::questions::{self, Question};
use crate::{answers, format, grids, growth, summary, terminal, timeline};
use results::published::{self, Table};
use serde::Serialize;
use serde_json::Value;

/// One run of the page.
#[derive(Serialize)]
pub(crate) struct Chapter {
    /// Prefix of all its anchors.
    pub anchor: String,
    pub name: String,
    pub title: String,
    pub about: String,
    pub folder: String,
    /// Where the run was made to compare two servers.
    pub comparison: Option<crate::compare::View>,
    pub summary: Vec<String>,
    /// Zones made by steps, beside each other.
    scenarios: Option<crate::scenarios::View>,
    pub questions: Vec<Question>,
    pub counts: [usize; 3],
    pub grids: Vec<GridView>,
    pub groups: Vec<Group>,
    pub invalid: Vec<Problem>,
    pub failed: Vec<Problem>,
    pub warnings: Vec<Problem>,
    pub environment: Vec<(String, String)>,
    pub servers: Vec<(String, String, String)>,
    pub command: String,
    pub seed: String,
    pub plan: String,
    pub published: Vec<PublishedView>,
    pub trials: Vec<TrialView>,
}

/// A table of figures.
#[derive(Serialize)]
pub(crate) struct GridView {
    id: String,
    title: String,
    about: String,
    heads: [&'static str; 2],
    columns: Vec<String>,
    /// Whether each column has a published one beside it.
    beside: Vec<bool>,
    any_beside: bool,
    rows: Vec<RowView>,
    sources: Vec<SourceView>,
}

#[derive(Serialize)]
struct RowView {
    server: String,
    zone: String,
    first_of_zone: bool,
    cells: Vec<CellView>,
}

#[derive(Serialize)]
struct CellView {
    text: String,
    details: Vec<String>,
    state: &'static str,
    trials: Vec<(u32, bool)>,
    published: Option<String>,
    factor: Option<String>,
    beside: bool,
}

/// Where published cells come from, with all that is to be known about them.
#[derive(Serialize)]
pub(crate) struct SourceView {
    id: String,
    short: String,
    source: String,
    place: String,
    setup: String,
    notes: Vec<String>,
}

/// Something to know about trials.
#[derive(Serialize)]
pub(crate) struct Problem {
    what: String,
    text: String,
    trials: Vec<u32>,
    /// Every trial of the run has it.
    everywhere: bool,
}

/// A published table in full.
#[derive(Serialize)]
pub(crate) struct PublishedView {
    title: String,
    unit: String,
    head: Vec<String>,
    rows: Vec<(Vec<String>, Vec<String>)>,
    source: SourceView,
}

/// Everything of a run, in words and pictures.
pub(crate) fn chapter(run: &Run, index: usize) -> Chapter {
    let grids = grids::of(run);
    let (valid, invalid, failed, _) = run.counts();
    let environment = run.dir.environment();
    let text = |key: &str| environment.get(key).map(plain).unwrap_or_default();
    let trials = run.dir.trials();
    let failures = trials.iter().filter_map(|t| {
        Some(Problem { what: name(run, t.id), text: t.error.clone()?, trials: vec![t.id], everywhere: false })
    });
    Chapter {
        anchor: format!("r{index}"),
        name: run.planned("name").unwrap_or_else(|| "run".into()),
        title: run.planned("title").unwrap_or_else(|| "Report of a run".into()),
        // The file's line breaks are for the file.
        about: run
            .planned("about")
            .map(|t| t.split_whitespace().collect::<Vec<_>>().join(" "))
            .unwrap_or_default(),
        // Its name alone: where the run lay is nobody's business who gets the page.
        folder: run.dir.dir().file_name().unwrap_or(run.dir.dir().as_os_str()).to_string_lossy().into_owned(),
        comparison: crate::compare::of_run(run.dir).as_ref().map(crate::compare::View::of),
        summary: summary::sentences(run),
        scenarios: crate::scenarios::view(run),
        questions: questions::all(run, &grids),
        counts: [valid, invalid, failed],
        groups: growth::groups(run).into_iter().chain(groups(run)).collect(),
        invalid: trials
            .iter()
            .filter(|t| t.error.is_none())
            .flat_map(|t| t.outcome.validity.reasons.iter().map(move |r| (t.id, r.to_string())))
            .map(|(id, text)| Problem { what: name(run, id), text, trials: vec![id], everywhere: false })
            .collect(),
        failed: failures.collect(),
        warnings: terminal::warnings(run)
            .into_iter()
            .map(|(code, text, of)| Problem {
                what: code,
                text,
                everywhere: of.len() == trials.len(),
                trials: of,
            })
            .collect(),
        environment: machine(environment),
        servers: servers(environment),
        command: text("command"),
        seed: text("seed"),
        plan: run.dir.run_toml().to_owned(),
        published: published_tables(run, &grids),
        trials: appendix::rows(run),
        grids: grids.iter().map(grid_view).collect(),
    }
}

/// A trial in words: server, zone, measure.
fn name(run: &Run, id: u32) -> String {
    let cell = run.cells.iter().find(|c| c.trials.iter().any(|t| t.id == id));
    cell.map_or_else(String::new, |c| format!("{} on {}, {}", c.key.server, c.key.zone(), c.key.measure))
}

fn grid_view(grid: &Grid) -> GridView {
    let beside: Vec<bool> =
        (0..grid.columns.len()).map(|i| grid.rows.iter().any(|r| r.cells[i].published.is_some())).collect();
    let cell = |(i, c): (usize, &GridCell)| CellView {
        text: c.text.clone(),
        details: c.details.clone(),
        state: terminal::word(c.state),
        trials: c.trials.clone(),
        published: c.published.as_ref().map(|p| p.text.clone()),
        factor: c.published.as_ref().and_then(|p| p.factor).map(format::factor),
        beside: beside[i],
    };
    let rows = grid.rows.iter().enumerate().map(|(n, row)| RowView {
        server: row.server.clone(),
        zone: row.zone.clone(),
        first_of_zone: n > 0 && grid.rows[n - 1].zone != row.zone,
        cells: row.cells.iter().enumerate().map(cell).collect(),
    });
    GridView {
        id: grid.id.clone(),
        title: grid.title.clone(),
        about: grid.about.clone(),
        heads: grid.heads,
        columns: grid.columns.clone(),
        rows: rows.collect(),
        any_beside: beside.contains(&true),
        sources: grid.sources.iter().map(|t| source(t)).collect(),
        beside,
    }
}

fn source(table: &Table) -> SourceView {
    let marks = table.footnotes.iter().map(|(mark, note)| format!("{mark} {note}"));
    SourceView {
        id: table.id.clone(),
        short: format!("{} {}", summary::short_source(&table.id), summary::table_name(&table.place)),
        source: table.source.clone(),
        place: table.place.clone(),
        setup: format!("{}. {}. {}.", table.hardware, table.software, table.conditions),
        notes: marks.chain(table.notes.iter().cloned()).collect(),
    }
}

/// The published tables that no grid shows cell by cell, in full.
fn published_tables(run: &Run, grids: &[Grid]) -> Vec<PublishedView> {
    let shown = |id: &str| grids.iter().any(|g| g.sources.iter().any(|s| s.id == id));
    let wanted = run.published();
    let tables = published::all().iter().filter(|t| {
        let variant = t.variant_of.as_ref().is_some_and(|v| wanted.contains(v));
        (wanted.contains(&t.id) || variant) && !shown(&t.id)
    });
    let view = |t: &Table| PublishedView {
        title: t.title.clone(),
        unit: t.unit.clone(),
        head: t.row_titles.iter().chain(&t.columns).cloned().collect(),
        rows: t
            .rows
            .iter()
            .map(|r| (r.key.clone(), r.cells.iter().map(|c| c.text.clone()).collect()))
            .collect(),
        source: source(t),
    };
    tables.map(view).collect()
}

/// The figures, a group for each zone: distributions, peaks, then second by second.
fn groups(run: &Run) -> Vec<Group> {
    let mut zones: Vec<String> = Vec::new();
    for cell in &run.cells {
        let zone = cell.key.zone();
        if !zones.contains(&zone) {
            zones.push(zone);
        }
    }
    zones
        .into_iter()
        .enumerate()
        .map(|(n, zone)| {
            let id = format!("z{n}");
            let of_zone = |c: &&Cell| c.key.zone() == zone;
            let cells: Vec<&Cell> = run.cells.iter().filter(of_zone).collect();
            let title = cells[0].key.zone();
            let (mut main, mut seconds) = (Vec::new(), Vec::new());
            for (i, rate) in run.distinct("latency", |k| k.rate.clone()).into_iter().enumerate() {
                let of_rate: Vec<&Cell> =
                    cells.iter().filter(|c| c.key.is("latency") && c.key.rate == rate).copied().collect();
                let qps = rate.as_deref().and_then(|r| r.parse::<f64>().ok());
                let qps = qps.map_or_else(String::new, |r| format!(" at {}", format::rate(r)));
                let what = format!("{title}{qps}");
                let series = plots::series(run, &of_rate);
                main.extend(plots::distributions(run, &series, &format!("{id}-{i}"), &what));
                // They do not depend on the rate.
                if i == 0 && answers::sizes_matter(run) {
                    main.extend(plots::answer_sizes(run, &of_rate, &id, &title));
                }
                seconds.extend(timeline::figures(run, &of_rate, &format!("{id}-{i}"), &what));
            }
            let peaks: Vec<&Cell> = cells.iter().filter(|c| c.key.is("peak")).copied().collect();
            main.extend(plots::response(run, &peaks, &id, &title));
            main.extend(plots::searches(run, &peaks, &id, &title));
            // The paper's figures belong to no zone of ours: once is enough.
            main.extend(plots::peaks(run, &peaks, &id, &title, n == 0));
            Group { id, title, main, seconds }
        })
        .filter(|g| !g.main.is_empty() || !g.seconds.is_empty())
        .collect()
}

/// A JSON value in words.
fn plain(value: &Value) -> String {
    match value {
        Value::Null => "unknown".into(),
        Value::Bool(true) => "yes".into(),
        Value::Bool(false) => "no".into(),
        Value::String(text) => text.clone(),
        Value::Array(all) => all.iter().map(plain).collect::<Vec<_>>().join(", "),
        Value::Object(all) => {
            all.iter().map(|(k, v)| format!("{k} {}", plain(v))).collect::<Vec<_>>().join(", ")
        }
        Value::Number(n) => n.to_string(),
    }
}

/// The environment as rows: nested keys joined, what other places show left out.
fn machine(environment: &Value) -> Vec<(String, String)> {
    let mut rows = Vec::new();
    for (key, value) in environment.as_object().into_iter().flatten() {
        match (key.as_str(), value) {
            ("command" | "seed" | "servers", _) => {}
            // Trials that run at the same time may share cores, too: "trials at once" is a row of its own.
            ("cores_shared", shared) => rows.push(("server and generator share cores".into(), plain(shared))),
            ("machines", Value::Array(all)) => rows.extend(all.iter().map(one_of_several)),
            (_, Value::Object(inner)) => {
                let lead = if key == "machine" { String::new() } else { format!("{key}: ") };
                rows.extend(inner.iter().map(|(k, v)| match (k.strip_suffix("_bytes"), v.as_f64()) {
                    (Some(name), Some(bytes)) => {
                        (format!("{lead}{}", name.replace('_', " ")), format::memory(bytes))
                    }
                    (None, Some(bytes)) if k.starts_with("memory") => {
                        (format!("{lead}{}", k.replace('_', " ")), format::memory(bytes))
                    }
                    _ => (format!("{lead}{}", k.replace('_', " ")), plain(v)),
                }));
            }
            _ => rows.push((key.replace('_', " "), plain(value))),
        }
    }
    rows
}

/// One of several machines: its hosts, and what it is.
fn one_of_several(machine: &Value) -> (String, String) {
    let text = |path: &str| machine.pointer(path).map(plain).unwrap_or_default();
    let ms = |path: &str| machine.pointer(path).and_then(Value::as_f64).unwrap_or_default() / 1e6;
    let what = format!(
        "{}: {}, CPUs {}, Linux {}, interfaces {}; its clock was {:+.3} ms from the coordinator's, known within {:.3} ms",
        text("/name"),
        text("/described/environment/cpu_model"),
        text("/described/cpus"),
        text("/described/kernel"),
        text("/described/interfaces"),
        ms("/clock/ahead"),
        ms("/clock/bound")
    );
    (format!("machine of {}", text("/hosts")), what)
}

/// Label, version and the rest of each server in `environment.json`.
fn servers(environment: &Value) -> Vec<(String, String, String)> {
    let all = environment.get("servers").and_then(Value::as_array);
    let event_row = |s: &Value| {
        let text = |key: &str| s.get(key).map(plain).unwrap_or_default();
        let rest = s
            .as_object()
            .into_iter()
            .flatten()
            .filter(|(k, v)| !matches!(k.as_str(), "label" | "version") && !v.is_null());
        (
            text("label"),
            text("version"),
            rest.map(|(k, v)| format!("{k} {}", plain(v))).collect::<Vec<_>>().join(", "),
        )
    };
    all.into_iter().flatten().map(event_row).collect()
}
