//! Tables of a server's costs: time until it answers, at the start and after a reload, and memory.

use crate::cells::{Cell, Figure, Key, Run, State};
use crate::format;
use crate::grid::{Grid, Shown, beside, grid, nothing};
use measure::metrics::{self, Definition, Phase};
use results::published::{self, Table};

/// All grids of costs, where the run has their figures.
pub(crate) fn grids(run: &Run) -> Vec<Grid> {
    let mut all = Vec::new();
    all.extend(ready(run));
    all.extend(reload(run));
    all.extend(meanwhile(run));
    all.extend(memory(run));
    all.extend(maps(run));
    all.extend(peak_memory(run));
    all
}

/// BIND's and NSD's rows are tables of their own in the paper.
pub(crate) fn table(bind: &str, nsd: &str, kind: &str) -> Option<&'static Table> {
    match kind {
        "bind" => published::find(bind),
        "nsd" => published::find(nsd),
        _ => None,
    }
}

fn of_family(key: &Key) -> Option<Vec<String>> {
    Some(vec![key.family.clone()])
}

/// Seconds with their interval.
fn seconds(f: &Figure) -> Shown {
    let ends = |a: f64, b: f64| format::latency_range(a * 1e9, b * 1e9);
    let text = format::seconds(f.value);
    Shown { details: f.interval_text(&text, ends).into_iter().collect(), text, compare: Some(*f) }
}

/// Bytes with their interval.
fn bytes(f: &Figure) -> Shown {
    let text = format::memory(f.value);
    let details = f.interval_text(&text, format::memory_range).into_iter().collect();
    Shown { text, details, compare: Some(*f) }
}

fn ready(run: &Run) -> Option<Grid> {
    let about =
        "From the start of the program to the first right answer for the record at the end of the zone.";
    // The paper's servers loaded a file. A secondary waits for a transfer.
    let loads_a_file = |k: &Key| k.carried.primary.is_none();
    grid(
        run,
        ("ready", "Time until a server answers".into(), about.into()),
        |c| c.metric(metrics::SERVER_READY).is_some() || c.state() == State::Skipped,
        |k, m| {
            let published = table("rzaia-4.1", "rzaia-4.3", &k.kind).filter(|_| loads_a_file(k));
            beside(published, k, of_family, m, "s")
        },
        |c| Some(seconds(&c.metric(metrics::SERVER_READY)?)),
    )
}

fn reload(run: &Run) -> Option<Grid> {
    let unable = |c: &Cell| {
        let warnings = c.used().into_iter().flat_map(|t| &t.outcome.validity.warnings);
        warnings.into_iter().any(|reason| reason.code == "unable_to_reload")
    };
    let about = "From the command to reload a zone with another serial and another last record to the first right answer.";
    grid(
        run,
        ("reload", "Time until a reloaded zone is served".into(), about.into()),
        |c| c.key.is("load"),
        |k, m| beside(table("rzaia-4.2", "rzaia-4.4", &k.kind), k, of_family, m, "s"),
        |c| match c.metric(metrics::RELOAD_SECONDS) {
            Some(f) => Some(seconds(&f)),
            None if unable(c) => {
                Some(Shown { text: "unable to reload".into(), details: Vec::new(), compare: None })
            }
            None => None,
        },
    )
}

/// Queries that were answered while a zone was reloaded.
fn meanwhile(run: &Run) -> Option<Grid> {
    let about = "Of the queries in the seconds that the reload touched, how many were answered within a second, with neither \
                 SERVFAIL nor REFUSED; below, the longest time of whole seconds without such an answer, and the slowest second's 99th percentile beside the one \
                 of the second before.";
    grid(
        run,
        ("meanwhile", "Queries answered while the zone was reloaded".into(), about.into()),
        |c| c.key.is("load") && c.metric(metrics::RELOADING.answered_share).is_some(),
        nothing,
        |c| {
            let share = c.metric(metrics::RELOADING.answered_share)?.value;
            let mut details = Vec::new();
            if let Some(silent) = c.metric(metrics::RELOADING.silent).filter(|f| f.value > 0.0) {
                details.push(format!("silent for {} s", silent.value));
            }
            if let Some(failed) = c.metric(metrics::RELOADING.failed_share).filter(|f| f.value > 0.0) {
                details.push(format!("{} SERVFAIL or REFUSED", format::percent(failed.value)));
            }
            let p99 = |phase: Phase| c.metric(phase.latency_p99_worst).map(|f| f.value * 1e3);
            if let (Some(during), Some(before)) = (p99(metrics::RELOADING), p99(metrics::SERVED)) {
                details.push(format!("p99 {} after {}", format::latency(during), format::latency(before)));
            }
            Some(Shown { text: format::percent(share), details, compare: None })
        },
    )
}

/// The unsigned family with sparse glue, which the paper relates the others to.
pub(crate) const BASE: &str = "U-4-DS0";

/// A figure in proportion to that of the unsigned family with sparse glue, of the same server and size, over the cells that `keep`
/// keeps.
fn relative(run: &Run, cell: &Cell, metric: Definition, keep: impl Fn(&Cell) -> bool) -> Option<String> {
    if cell.key.family == BASE {
        return None;
    }
    let place = |k: &Key| (k.server.clone(), k.size, k.variant.clone(), k.updates.clone());
    let base = |c: &&Cell| c.key.family == BASE && place(&c.key) == place(&cell.key) && keep(c);
    let trials = run.cells.iter().filter(base).filter(|c| c.state() == State::Valid).flat_map(Cell::used);
    let base = Figure::of(&trials.filter_map(|t| t.outcome.metric(metric)).collect::<Vec<_>>())?;
    Some(format!("{} of {BASE}", format::factor(cell.metric(metric)?.value / base.value)))
}

/// The measure that says how much memory a server takes before any real load, where the run has one. Of the two that do, the one
/// that waits until memory has settled comes first.
fn of_memory(run: &Run) -> Option<&'static str> {
    ["memory", "load"].into_iter().find(|measure| run.cells.iter().any(|c| c.key.is(measure)))
}

fn memory(run: &Run) -> Option<Grid> {
    let has = |which: Definition| run.cells.iter().any(|c| c.metric(which).is_some());
    let (metric, what) = match has(metrics::SERVER_PSS) {
        true => (metrics::SERVER_PSS, "Proportional set size (PSS)"),
        false => (metrics::SERVER_RSS, "Resident set size (RSS)"),
    };
    // A server keeps what a load made it take: figures after different loads are not of one kind.
    let after = match of_memory(run) {
        Some(measure) => measure.to_owned(),
        None => run.cells.iter().find(|c| c.metric(metric).is_some())?.key.measure.clone(),
    };
    let keep = |c: &Cell| c.key.is(&after) && c.metric(metric).is_some();
    let about = match after.as_str() {
        "memory" => {
            let beside = match run.cells.iter().any(|c| c.key.family == BASE) {
                true => ", beside that of the unsigned zone with sparse glue",
                false => "",
            };
            format!(
                "{what} of all its processes once it has settled, before any load{beside}; below, what a delegation takes. \
                 After a load it is more: what a load made a server take, it keeps."
            )
        }
        "load" => format!(
            "{what} of all its processes when it has answered from the whole zone for two seconds, before the reload."
        ),
        _ => format!("{what} of all its processes at the end of the trials of '{after}'."),
    };
    grid(
        run,
        ("memory", "Memory of the server".into(), about),
        |c| keep(c) || (c.key.is("memory") && c.state() == State::Skipped),
        nothing,
        |c| {
            let mut shown = bytes(&c.metric(metric)?);
            shown.details.extend(relative(run, c, metric, keep));
            shown.details.extend(
                c.metric(metrics::PSS_PER_DELEGATION)
                    .map(|f| format!("{:.1} kB a delegation", f.value / 1e3)),
            );
            Some(shown)
        },
    )
}

/// RZAIA's virtual sizes, and which maps have how much of what is resident.
fn maps(run: &Run) -> Option<Grid> {
    let measure = of_memory(run)?;
    let by_kind = match measure {
        "memory" => ", and the kinds of maps that have most of the proportional one",
        _ => "",
    };
    let about = format!(
        "All addresses that its processes have mapped, with memory behind them or not, as pmap adds them up: what the \
         paper's tables show, in GB of 2³⁰ bytes. Below, the resident set{by_kind}."
    );
    grid(
        run,
        ("virtual", "Virtual size of the server".into(), about),
        |c| c.key.is(measure),
        |k, m| beside(table("rzaia-2.1", "rzaia-2.2", &k.kind), k, of_family, m, "B"),
        |c| {
            let mut shown = bytes(&c.metric(metrics::SERVER_VIRTUAL)?);
            shown
                .details
                .extend(c.metric(metrics::SERVER_RSS).map(|f| format!("RSS {}", format::memory(f.value))));
            let kind =
                |word: &&'static str| Some((*word, c.metric_named(&metrics::PSS_OF_MAPS.name(word))?.value));
            let mut kinds: Vec<_> =
                ["heap", "anonymous", "program", "file", "stack", "other"].iter().filter_map(kind).collect();
            kinds.sort_by(|a, b| b.1.total_cmp(&a.1));
            let most = kinds.iter().take(2).filter(|k| k.1 > 0.0);
            shown.details.extend(most.map(|(word, value)| format!("{word} {}", format::memory(*value))));
            Some(shown)
        },
    )
}

fn peak_memory(run: &Run) -> Option<Grid> {
    let about = "The most that was seen of PSS, looked at five times a second: while it started, and while it had the old zone and \
                 made the new one.";
    grid(
        run,
        ("peak-memory", "Memory while a server loads and reloads".into(), about.into()),
        |c| c.key.is("load"),
        nothing,
        |c| {
            let loading = format::memory(c.metric(metrics::LOADING_PEAK_PSS)?.value);
            let reloading =
                c.metric(metrics::RELOADING_PEAK_PSS).map(|f| format!("reload {}", format::memory(f.value)));
            Some(Shown { text: loading, details: reloading.into_iter().collect(), compare: None })
        },
    )
}
