//! The report in a few sentences, made of the run's own numbers.

use crate::cells::{Cell, Key, Run, State};
use crate::grid::Grid;
use crate::{format, peak};
use measure::units;
use results::published::Relation;

/// The sentences, most important first.
pub(crate) fn sentences(run: &Run, grids: &[Grid]) -> Vec<String> {
    let mut all = vec![what_was_done(run)];
    all.extend(machine(run));
    for rate in run.distinct("latency", |k| k.rate.clone()) {
        all.extend(latencies(run, &rate.unwrap_or_default()));
    }
    all.extend(losses(run));
    all.extend(memory(run));
    all.extend(loading(run));
    all.extend(truncation(run));
    all.extend(crate::throughput::sentences(run));
    all.extend(peaks(run));
    all.extend(against_published(grids));
    all
}

fn what_was_done(run: &Run) -> String {
    let mut zones: Vec<String> = Vec::new();
    let mut sizes: Vec<u64> = Vec::new();
    for key in run.cells.iter().map(|c| &c.key) {
        if !zones.contains(&key.family) {
            zones.push(key.family.clone());
        }
        sizes.extend(key.size);
    }
    sizes.sort_unstable();
    sizes.dedup();
    let sizes: Vec<String> = sizes.into_iter().map(units::short).collect();
    let size =
        if sizes.is_empty() { String::new() } else { format!(" with {} delegations", format::list(&sizes)) };
    let (valid, invalid, failed, skipped) = run.counts();
    let skipped = if skipped > 0 { format!(", {skipped} skipped") } else { String::new() };
    format!(
        "{} ({}) served {}{size}. Of {}, {valid} valid, {invalid} invalid, {failed} failed{skipped}.",
        format::plural(run.servers.len(), "server"),
        format::list(&run.servers),
        format::list(&zones),
        format::plural(run.dir.trials().len(), "trial"),
    )
}

fn machine(run: &Run) -> Option<String> {
    match run.dir.environment().get("co_located")?.as_bool()? {
        true => Some(
            "Generator and servers shared one machine (co-located): compare servers with each other by ratios; the \
             absolute figures hold for this machine and this placing only."
                .into(),
        ),
        false => Some("Generator and servers ran on different machines.".into()),
    }
}

/// The least and greatest value of a figure over a server's cells.
fn span<'a>(
    cells: impl Iterator<Item = &'a Cell<'a>>,
    of: impl Fn(&Cell) -> Option<f64>,
) -> Option<(f64, f64)> {
    let values: Vec<f64> = cells.filter(|c| c.state() == State::Valid).filter_map(of).collect();
    let low = values.iter().copied().min_by(f64::total_cmp)?;
    Some((low, values.iter().copied().max_by(f64::total_cmp)?))
}

fn latencies(run: &Run, rate: &str) -> Option<String> {
    let deadline = run.deadline;
    let text = |(low, high): (f64, f64)| {
        let limit = format!(">{}", format::duration(deadline));
        match (low > deadline as f64, high > deadline as f64) {
            (true, _) => limit,
            (false, true) => format!("{} to {limit}", format::latency(low)),
            _ => format::latency_range(low, high),
        }
    };
    let of = |server: &String| {
        let cells = || {
            let mine = |c: &&Cell| c.key.server == *server && c.key.rate.as_deref() == Some(rate);
            run.cells.iter().filter(mine)
        };
        let quantile = |q: f64| span(cells(), |c| Some(c.latency(q, deadline)?.value)).map(text);
        Some(format!("{server} {} (99 % within {})", quantile(0.5)?, quantile(0.99)?))
    };
    let all: Vec<String> = run.servers.iter().filter_map(of).collect();
    let qps = rate.parse::<f64>().map_or_else(|_| rate.to_owned(), |r| units::grouped(r as u64));
    let zones = if run.distinct("latency", |k| (k.family.clone(), k.size)).len() > 1 {
        " over the zones"
    } else {
        ""
    };
    (!all.is_empty()).then(|| format!("Median latency at {qps} queries/s{zones}: {}.", all.join("; ")))
}

fn losses(run: &Run) -> Option<String> {
    let valid = || run.cells.iter().filter(|c| c.key.is("latency") && c.state() == State::Valid);
    let loss = |c: &Cell| Some(100.0 - c.metric("answered_in_deadline_share")?.value);
    let counted = valid().filter(|c| loss(c).is_some()).count();
    let mut worst: Vec<String> = Vec::new();
    for server in &run.servers {
        let mine = valid().filter(|c| c.key.server == *server);
        let most = mine.filter_map(|c| Some((loss(c)?, c))).max_by(|a, b| a.0.total_cmp(&b.0));
        if let Some((most, cell)) = most.filter(|(most, _)| *most > 0.0) {
            worst.push(format!("{server} {} ({})", format::percent(most), cell.key.zone()));
        }
    }
    match (counted, worst.is_empty()) {
        (0, _) => None,
        (_, true) => Some("At these rates no query was lost or answered late in a valid trial.".into()),
        _ => Some(format!("Lost or late at these rates, at most: {}.", worst.join("; "))),
    }
}

/// What each server takes on the largest zones: how much more than for the unsigned zone with sparse glue.
fn memory(run: &Run) -> Option<String> {
    let cells = || run.cells.iter().filter(|c| c.key.is("memory") && c.state() == State::Valid);
    let size = cells().map(|c| c.key.size).max()?;
    let of = |server: &String| {
        let mine: Vec<(&Cell, f64)> = cells()
            .filter(|c| c.key.server == *server && c.key.size == size)
            .filter_map(|c| Some((c, c.metric("server_pss")?.value)))
            .collect();
        let least = mine.iter().min_by(|a, b| a.1.total_cmp(&b.1))?;
        let most = mine.iter().max_by(|a, b| a.1.total_cmp(&b.1))?;
        Some(match least.0.key.family == most.0.key.family {
            true => format!("{server} {}", format::memory(least.1)),
            false => format!(
                "{server} {} ({}) to {} ({}, {})",
                format::memory(least.1),
                least.0.key.family,
                format::memory(most.1),
                most.0.key.family,
                format::factor(most.1 / least.1)
            ),
        })
    };
    let all: Vec<String> = run.servers.iter().filter_map(of).collect();
    let zone = size.map_or_else(String::new, |n| format!(" with {} delegations", units::short(n)));
    (!all.is_empty()).then(|| format!("Memory (PSS) of a server{zone}: {}.", all.join("; ")))
}

/// How long each server takes on the largest zones, and what its clients see of a reload.
fn loading(run: &Run) -> Option<String> {
    let cells = || run.cells.iter().filter(|c| c.key.is("load") && c.state() == State::Valid);
    let size = cells().map(|c| c.key.size).max()?;
    let of = |server: &String| {
        let mine = || cells().filter(|c| c.key.server == *server && c.key.size == size);
        let (_, start) = span(mine(), |c| Some(c.metric("server_ready")?.value))?;
        let reload = match span(mine(), |c| Some(c.metric("reload_seconds")?.value)) {
            Some((_, slowest)) => format!("reload {}", format::seconds(slowest)),
            None => "no reload".into(),
        };
        let least = span(mine(), |c| Some(c.metric("reloading_answered_share")?.value));
        let answered = least.map_or_else(String::new, |(least, _)| {
            format!(", at least {} answered meanwhile", format::percent(least))
        });
        Some(format!("{server} start {}, {reload}{answered}", format::seconds(start)))
    };
    let all: Vec<String> = run.servers.iter().filter_map(of).collect();
    let zone = size.map_or_else(String::new, |n| format!(" with {} delegations", units::short(n)));
    (!all.is_empty()).then(|| format!("At most, on the zones{zone}: {}.", all.join("; ")))
}

/// How many answers are truncated, where that is what the run is about.
fn truncation(run: &Run) -> Option<String> {
    if !run.dir.trials().iter().any(|t| t.param("transport") == Some("udp+tcp")) {
        return None;
    }
    let share = |c: &Cell| Some(100.0 * c.metric("truncated")?.value / c.metric("answered")?.value.max(1.0));
    let mut rows: Vec<String> = run.cells.iter().map(|c| c.key.row()).collect();
    rows.dedup();
    let mut seen: Vec<String> = Vec::new();
    let of = |row: String| {
        if seen.contains(&row) {
            return None;
        }
        seen.push(row.clone());
        let (low, high) = span(run.cells.iter().filter(|c| c.key.row() == row), share)?;
        let (low, high) = (format::percent(low), format::percent(high));
        Some(if low == high { format!("{row} {low}") } else { format!("{row} {low} to {high}") })
    };
    let all: Vec<String> = rows.into_iter().filter_map(of).collect();
    (!all.is_empty()).then(|| format!("Truncated answers over UDP, by zone and cap: {}.", all.join("; ")))
}

/// The ranking on each zone; for more than two zones, each server's span over all of them.
fn peaks(run: &Run) -> Vec<String> {
    let zone = |k: &Key| (k.family.clone(), k.size);
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
        let zones = zones.len();
        return if all.is_empty() {
            Vec::new()
        } else {
            vec![format!("Peak query rate over {zones} zones: {}.", all.join("; "))]
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

/// How the measured figures lie to the published ones, by factor, grid by grid.
fn against_published(grids: &[Grid]) -> Option<String> {
    let parts: Vec<String> = grids.iter().filter_map(factors).collect();
    (!parts.is_empty()).then(|| {
        format!(
            "Measured over published, on other hardware and with other versions than the seeds had: {}.",
            parts.join("; ")
        )
    })
}

fn factors(grid: &Grid) -> Option<String> {
    let cells = || grid.rows.iter().flat_map(|r| &r.cells).filter(|c| c.state == State::Valid);
    let mut factors: Vec<f64> = cells().filter_map(|c| c.published.as_ref()?.factor).collect();
    factors.sort_by(f64::total_cmp);
    let beyond =
        cells().filter(|c| c.published.as_ref().is_some_and(|p| p.cell.relation == Relation::Above)).count();
    let places: Vec<String> =
        grid.sources.iter().map(|s| format!("{} {}", short_source(&s.id), table_name(&s.place))).collect();
    let (low, high) = (format::factor(*factors.first()?), format::factor(*factors.last()?));
    let by = if low == high { low } else { format!("{low} to {high}") };
    let title = grid.title.to_lowercase();
    let mut text =
        format!("{title} {by} ({}, {})", format::list(&places), format::plural(factors.len(), "cell"));
    if beyond > 0 {
        text += &format!(" and {} that the seed bounds from below only", format::plural(beyond, "cell"));
    }
    Some(text)
}

/// `RZAIA` of `rzaia-3.1`.
pub(crate) fn short_source(id: &str) -> String {
    id.split('-').next().unwrap_or(id).to_uppercase()
}

/// `table 3.1` of `Section 3.2.1, Table 3.1`.
pub(crate) fn table_name(place: &str) -> String {
    place.rsplit(", ").next().unwrap_or(place).replace("Table", "table").replace("Section", "section")
}
