//! Platforms ranked by the rate at which they answer one stream, as section 3.3 of ISC-TN-2008-1 ranked operating systems: the servers of one
//! run or of several (each on its own machine, kernel, release or configuration), with the published ranking beside.

use crate::cells::{Run, State};
use crate::format;
use comfy_table::{CellAlignment, ContentArrangement, Table, presets};
use measure::metrics;
use results::published;
use serde::Serialize;
use std::fmt::Write;

/// The published ranking.
const PUBLISHED: &str = "isc-3.3";

/// A ranking on one zone with one traffic.
#[derive(Debug, Serialize)]
pub(crate) struct Ranking {
    /// The zone and the traffic, or where it was published.
    pub title: String,
    pub rows: Vec<Row>,
}

/// A platform.
#[derive(Debug, Serialize)]
pub(crate) struct Row {
    /// From 1; those whose intervals overlap with each other's may have the same.
    pub place: usize,
    pub platform: String,
    pub rate: String,
    /// Empty where there is none.
    pub interval: String,
    /// The rate as a multiple of the slowest one's.
    pub times: String,
}

/// What a reader has to know of the places.
pub(crate) const ABOUT: &str = "Queries answered per second with queryperf’s window: the median of the valid trials and its interval. A platform’s \
                                place is one more than the number of those whose whole interval lies above its own, so those that are not told \
                                apart share a place. × is the rate over the slowest one’s. Runs of different machines differ by these, too.";

/// The rankings of the runs, and the published one after them; none where no run is to be set beside it, or has fewer than two platforms.
pub(crate) fn rankings(runs: &[Run]) -> Vec<Ranking> {
    let runs: Vec<&Run> = runs.iter().filter(|run| run.wants(PUBLISHED)).collect();
    let mut all: Vec<(String, Vec<Platform>)> = Vec::new();
    for run in &runs {
        for cell in run.cells.iter().filter(|c| c.key.is("throughput") && c.state() == State::Valid) {
            let Some(figure) = cell.metric(metrics::ANSWERED_QPS) else { continue };
            let ends = figure.interval.map_or((figure.value, figure.value), |i| (i.low, i.high));
            let wrong = cell.used().iter().any(|trial| trial.wrong_answers().is_some());
            let wrong = if wrong { ", gives wrong answers" } else { "" };
            let name = name(run, &cell.key.server, runs.len() > 1) + wrong;
            let platform = Platform { name, rate: figure.value, ends };
            let title = cell.key.zone();
            match all.iter_mut().find(|(known, _)| *known == title) {
                Some((_, platforms)) => platforms.push(platform),
                None => all.push((title, vec![platform])),
            }
        }
    }
    all.retain(|(_, platforms)| platforms.len() > 1);
    if all.is_empty() {
        return Vec::new();
    }
    let measured = all.into_iter().map(|(title, platforms)| Ranking { title, rows: ranked(platforms) });
    measured.chain(as_published()).collect()
}

struct Platform {
    name: String,
    rate: f64,
    /// The interval, or the rate twice.
    ends: (f64, f64),
}

fn ranked(mut platforms: Vec<Platform>) -> Vec<Row> {
    platforms.sort_by(|a, b| b.rate.total_cmp(&a.rate));
    let slowest = platforms.last().map_or(1.0, |platform| platform.rate);
    let row = |platform: &Platform| {
        let rate = format::rate(platform.rate);
        let interval = format::rate_range(platform.ends.0, platform.ends.1);
        Row {
            place: 1 + platforms.iter().filter(|other| other.ends.0 > platform.ends.1).count(),
            platform: platform.name.clone(),
            interval: if interval == rate { String::new() } else { interval },
            rate,
            times: format::factor(platform.rate / slowest),
        }
    };
    platforms.iter().map(row).collect()
}

fn as_published() -> Option<Ranking> {
    let table = published::find(PUBLISHED)?;
    let platform = |row: &published::Row| {
        let rate = row.cells[0].value?;
        Some(Platform { name: row.key.join(", "), rate, ends: (rate, rate) })
    };
    let platforms = table.rows.iter().filter_map(platform).collect();
    let title = format!("Published: {}, {}, {}", table.short_source(), table.place, table.software);
    Some(Ranking { title, rows: ranked(platforms) })
}

/// A server with its version, and the release that it ran on; with several runs also the run.
fn name(run: &Run, label: &str, several: bool) -> String {
    let environment = run.dir.environment();
    let servers = environment["servers"].as_array();
    let server = servers.into_iter().flatten().find(|server| server["label"] == label);
    let text = |key: &str| server.and_then(|server| server[key].as_str()).map(str::to_owned);
    let release = text("release").or_else(|| environment.pointer("/machine/os")?.as_str().map(str::to_owned));
    let folder =
        run.dir.dir().file_name().filter(|_| several).map(|name| name.to_string_lossy().into_owned());
    let parts = [Some(label.to_owned()), text("version"), release, folder];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// For a terminal; empty where there is none.
pub(crate) fn text(rankings: &[Ranking]) -> String {
    let mut out = String::new();
    for ranking in rankings {
        let mut table = Table::new();
        table.load_preset(presets::UTF8_FULL_CONDENSED).set_content_arrangement(ContentArrangement::Disabled);
        table.set_header(["place", "platform", "answered", "interval", "×"]);
        for row in &ranking.rows {
            table.add_row([&row.place.to_string(), &row.platform, &row.rate, &row.interval, &row.times]);
        }
        for column in table.column_iter_mut().skip(2) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        let _ = write!(out, "\n{}\n{table}\n", ranking.title);
    }
    if out.is_empty() { out } else { format!("\nPlatforms ranked\n{out}{ABOUT}\n") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn platforms_that_are_not_told_apart_share_a_place() {
        let platform = |name: &str, rate, ends| Platform { name: name.into(), rate, ends };
        let rows = ranked(vec![
            platform("slow", 20_000.0, (19_000.0, 21_000.0)),
            platform("a", 90_000.0, (85_000.0, 95_000.0)),
            platform("b", 84_000.0, (80_000.0, 88_000.0)),
            platform("c", 60_000.0, (60_000.0, 60_000.0)),
        ]);
        let places: Vec<(usize, &str, &str)> =
            rows.iter().map(|r| (r.place, r.platform.as_str(), r.times.as_str())).collect();
        assert_eq!(places, [(1, "a", "×4.5"), (1, "b", "×4.2"), (3, "c", "×3.0"), (4, "slow", "×1.0")]);
        let published = as_published().unwrap();
        assert_eq!((published.rows.len(), published.rows[0].place, published.rows[9].place), (10, 1, 10));
    }
}
