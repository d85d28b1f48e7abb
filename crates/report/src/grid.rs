//! The tables of a report: server × zone type down, zone size across, a cell each.

use crate::cells::{self, Cell, Figure, Key, Run, State};
use crate::peak::{Capacity, Knee};
use crate::{answers, capacity, changes, costs, durable, format, throughput};
use measure::metrics;
use measure::units;
use results::published::{self, Relation, Table};

/// A table of figures.
#[derive(Debug)]
pub(crate) struct Grid {
    /// For links: `latency-5000`.
    pub id: String,
    pub title: String,
    /// A sentence or two about the figures and how they were made.
    pub about: String,
    /// Zone sizes.
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
}

/// A cell in a grid: its text, its details, and the figure to compare with a published one, in the unit that
/// [`beside`] is told.
pub(crate) struct Shown {
    pub text: String,
    pub details: Vec<String>,
    pub compare: Option<f64>,
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
    Some(Beside { text: format!("{}{unit}", cell.text), factor, table, cell })
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
    let mut sizes: Vec<Option<u64>> = kept.iter().map(|c| c.key.size).collect();
    sizes.sort_unstable();
    sizes.dedup();
    let mut rows = Vec::new();
    for zone in cells::distinct(kept.iter().copied(), |c| c.key.row()) {
        for server in &run.servers {
            let of_row = |c: &&&Cell| c.key.row() == zone && c.key.server == *server;
            if kept.iter().filter(of_row).count() == 0 {
                continue;
            }
            let cells = sizes.iter().map(|size| {
                let all: Vec<&Cell> =
                    kept.iter().filter(of_row).filter(|c| c.key.size == *size).copied().collect();
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
    let column = |size: &Option<u64>| size.map_or_else(|| "zone".into(), units::short);
    any.then(|| Grid {
        id: id.to_owned(),
        title,
        about,
        columns: sizes.iter().map(column).collect(),
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
        return GridCell { text, details: Vec::new(), state, trials: Vec::new(), published: None };
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
    details.extend(cell.remarks());
    // A ratio from an invalid trial would be quoted: it is not computed.
    let compare = compare.filter(|_| cell.state() == State::Valid);
    GridCell { text, details, state: cell.state(), trials, published: published(&cell.key, compare) }
}

/// All grids of a run, in the order in which they are shown.
pub(crate) fn grids(run: &Run) -> Vec<Grid> {
    let mut all = Vec::new();
    for rate in run.distinct("latency", |k| k.rate.clone()) {
        all.extend(latency_grids(run, rate.as_deref().unwrap_or_default()));
    }
    all.extend(throughput::throughput_grid(run));
    all.extend(capacity_grid(run));
    all.extend(knee_grid(run));
    all.extend(changes::grids(run));
    all.extend(durable::grids(run));
    all.extend(answers::grids(run));
    all.extend(capacity::grid(run));
    all.extend(costs::grids(run));
    all
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

fn latency_grids(run: &Run, rate: &str) -> Vec<Grid> {
    let deadline = run.deadline;
    let limit = format::duration(deadline);
    let qps = rate.parse::<f64>().map_or_else(|_| rate.to_owned(), |r| units::grouped(r as u64));
    let keep = |c: &Cell| c.key.is("latency") && c.key.rate.as_deref() == Some(rate);
    let of_rate = run.dir.trials().iter().filter(|t| t.param("rate") == Some(rate));
    let time = of_rate.filter_map(|t| cells::duration(t, "duration")).next();
    let time = time.map_or_else(String::new, |ns| format!(" for {}", format::duration(ns)));
    let how = format!("{qps} queries/s{time}, open loop; {}", repeats(run, "latency"));
    // The paper's rate is the condition for its cells to stand beside.
    let same_rate = rate.parse::<f64>() == Ok(5000.0);
    let table = |id: &str| published::find(id).filter(|_| same_rate && run.wants(id));
    let heading = |k: &Key| {
        Some(vec![software(&k.kind)?.to_owned(), if k.signed { "signed" } else { "unsigned" }.to_owned()])
    };
    let latency_text = |f: &Figure| {
        if f.value > deadline as f64 { format!(">{limit}") } else { format::latency(f.value) }
    };
    let range = |low: f64, high: f64| {
        if high > deadline as f64 {
            format!("{} to >{limit}", format::latency(low))
        } else {
            format::latency_range(low, high)
        }
    };
    let quantile = |q: f64| {
        move |c: &Cell| {
            let f = c.latency(q, deadline)?;
            let details = f.interval_text(&latency_text(&f), range).into_iter().collect();
            let compare = (f.value <= deadline as f64).then_some(f.value);
            Some(Shown { text: latency_text(&f), details, compare })
        }
    };
    let medians = table("rzaia-3.1");
    let shares = table("rzaia-3.2").filter(|_| deadline == 4_000_000_000);
    let mut all = Vec::new();
    all.extend(grid(
        run,
        (
            &format!("median-{rate}"),
            format!("Median latency at {qps} queries/s"),
            format!("{how}. From the intended time of sending, over all queries: one without an answer within {limit} counts as slower."),
        ),
        keep,
        |k, m| beside(medians, k, heading, m, "ns"),
        quantile(0.5),
    ));
    all.extend(grid(
        run,
        (
            &format!("p99-{rate}"),
            format!("Latency of the slowest 1 % at {qps} queries/s"),
            format!("{how}. 99 % of all queries had their answer within this time."),
        ),
        keep,
        |_, _| None,
        quantile(0.99),
    ));
    all.extend(grid(
        run,
        (
            &format!("share-{rate}"),
            format!("Queries answered within {limit} at {qps} queries/s"),
            format!("{how}. Late answers count as lost."),
        ),
        keep,
        |k, m| beside(shares, k, heading, m, "%"),
        |c| {
            let f = c.metric(metrics::ANSWERED_IN_DEADLINE_SHARE)?;
            let text = format::percent(f.value);
            let ends = |a: f64, b: f64| {
                if a == b {
                    format::percent(a)
                } else {
                    format!("{} to {}", format::percent(a), format::percent(b))
                }
            };
            let details = f.interval_text(&text, ends);
            Some(Shown { text, details: details.into_iter().collect(), compare: Some(f.value) })
        },
    ));
    all
}

fn capacity_grid(run: &Run) -> Option<Grid> {
    let about = format!(
        "Most queries answered per second with {} waiting for their answers: what a tenth of the stretches of 100 ms \
         reached or exceeded, in {} loads of {}, as all that a machine does besides can only make a server slower. Below it are the \
         median stretch and the range of the loads; {}.",
        run.planned("peak.window").unwrap_or_else(|| "a window of queries".into()),
        run.planned("peak.window_loads").unwrap_or_else(|| "some".into()),
        run.planned("peak.window_load").unwrap_or_else(|| "equal length".into()),
        repeats(run, "peak")
    );
    grid(
        run,
        ("capacity-qps", "Capacity".into(), about),
        |c| c.key.is("peak"),
        |_, _| None,
        |c| {
            let capacity = Capacity::of(c)?;
            let rate = format::rate(capacity.figure.value);
            let mut details: Vec<String> =
                capacity.figure.interval_text(&rate, format::rate_range).into_iter().collect();
            let (low, high) = capacity.range;
            let median =
                c.metric(metrics::CAPACITY_MEDIAN).map(|m| format!("median {}", format::rate(m.value)));
            details.extend(median);
            details.push(format!("loads {}", format::rate_range(low, high)));
            Some(Shown { text: capacity.text(), details, compare: None })
        },
    )
}

fn knee_grid(run: &Run) -> Option<Grid> {
    let about = format!(
        "{}; {}. The knee lies between the two: the highest rate that was proven to be within the goal, and the lowest that was \
         proven to be beyond it, over all valid trials. A bound that is not proven is not given.",
        crate::peak::goal(run),
        repeats(run, "peak")
    );
    grid(
        run,
        ("peak", "Knee: highest rate within the loss goal".into(), about),
        |c| c.key.is("peak"),
        |_, _| None,
        |c| {
            let knee = Knee::of(c);
            let known = knee != Knee::default() || Capacity::of(c).is_some();
            let text = knee.text();
            let details = why_not_proven(c).into_iter().collect();
            known.then_some(Shown { text, details, compare: None })
        },
    )
}

/// Why a bound of a knee is missing.
fn why_not_proven(cell: &Cell) -> Option<String> {
    let mut warnings = cell.used().into_iter().flat_map(|t| &t.outcome.validity.warnings);
    let word = |code: &str| match code {
        "limited_by_generator" => Some("the generator was the limit"),
        "limited_by_machine" => Some("the machine disturbed the loads above"),
        "limited_by_max_load" => Some("no greater load was allowed"),
        "search_unfinished" => Some("the time ended before the bounds were near"),
        "no_lower_bound" => Some("no load was proven within the time"),
        _ => None,
    };
    warnings.find_map(|w| word(&w.code)).map(str::to_owned)
}
