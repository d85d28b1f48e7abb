//! Answered rates with a closed window: queryperf's way, as ISC and Nominet measured.

use crate::cells::{Cell, Key, Run, State};
use crate::format;
use crate::grid::{Beside, Further, Grid, Shown, grid, of_cell, repeats};
use measure::{metrics, params};
use results::published::{self, Table};

const MEASURE: &str = "throughput";

/// The table of answered rates, beside those of the papers that were measured so.
pub(crate) fn throughput_grid(run: &Run) -> Option<Grid> {
    let window = run.planned("throughput.window").unwrap_or_default();
    let duration = run.planned("throughput.duration").unwrap_or_default();
    let length = run
        .planned("throughput.count")
        .map_or_else(|| format!("for {duration}"), |count| format!("until {count} were asked"));
    let about = format!(
        "Each generator keeps {window} queries waiting for their answers, {length}: a rate that follows the server, as \
         queryperf's. A slow answer delays the queries after it, so latencies of such a load say little; {}.",
        repeats(run, MEASURE)
    );
    let nominet = published::find("nominet-qps").filter(|t| run.wants(&t.id));
    let halves = published::find("isc-6.3.1").filter(|t| run.wants(&t.id));
    let beside = |key: &Key, measured: Option<f64>| {
        if key.kind != "bind" {
            return None;
        }
        let of_clients = |table: &'static Table| {
            let cell = run.cells.iter().find(|c| c.key == *key)?;
            let trial = cell.trials.first()?;
            let param = |parameter| trial.param(parameter).unwrap_or("1");
            let (clients, addresses) = (param(params::GENERATORS), param(params::ADDRESSES));
            let keys = ["9.4.0a5", "9.3.2"].map(|version| [version, clients, addresses]);
            let mut beside = keys.iter().find_map(|key| total(table, key, "Total", measured))?;
            // Both versions were asked by as many clients, and what each of these was answered stands in the row, too.
            let of_client = |n: usize| metrics::ANSWERED_BY_GENERATOR.name(&format!("generator-{n}"));
            let rows = table.rows.iter().filter(|row| keys.iter().any(|key| row.key == key));
            let cells = rows.flat_map(|row| row.cells.iter().zip(&table.columns).zip(1..));
            beside.more = cells
                .filter(|((printed, _), _)| printed.value.is_some() && !std::ptr::eq(*printed, beside.cell))
                .filter_map(|((printed, column), n)| {
                    let all = if column == "Total" || clients == "1" { measured } else { None };
                    let each = || cell.metric_named(&of_client(n)).map(|f| f.value);
                    Some(Further { cell: printed, measured: Some(all.or_else(each)?) })
                })
                .collect();
            Some(beside)
        };
        let of_half = |table: &'static Table| {
            let column = match key.family.as_str() {
                "COM#1/2" => "COM 1st half",
                "COM#2/2" => "COM 2nd half",
                _ => return None,
            };
            total(table, &["Linux-Fedora"], column, measured)
        };
        nominet.and_then(of_clients).or_else(|| halves.and_then(of_half))
    };
    grid(
        run,
        (MEASURE, "Queries answered per second with a window".into(), about),
        |c| c.key.is(MEASURE),
        beside,
        |c| {
            let f = c.metric(metrics::ANSWERED_QPS)?;
            let mut details: Vec<String> = Vec::new();
            details.extend(f.interval_text(&format::rate(f.value), format::rate_range));
            let each: Vec<f64> = (1..)
                .map_while(|n| {
                    Some(
                        c.metric_named(&metrics::ANSWERED_BY_GENERATOR.name(&format!("generator-{n}")))?
                            .value,
                    )
                })
                .collect();
            if let (Some(least), Some(most)) =
                (each.iter().copied().reduce(f64::min), each.iter().copied().reduce(f64::max))
            {
                details.push(format!("{} generators, each {}", each.len(), format::rate_range(least, most)));
            }
            if c.trials.iter().any(|t| t.param(params::COUNT).is_some()) {
                details.extend(
                    c.metric(metrics::LOAD_SECONDS)
                        .map(|took| format!("the stream took {}", format::seconds(took.value))),
                );
            }
            let sustained = c.metric(metrics::SUSTAINED_QPS);
            details.extend(sustained.map(|s| format!("sustained {}", format::rate(s.value))));
            Some(Shown { text: format::rate(f.value), details, compare: Some(f.value) })
        },
    )
}

/// A published number, by its row and column.
fn total(table: &'static Table, row: &[&str], column: &str, measured: Option<f64>) -> Option<Beside> {
    of_cell(table, row, table.cell(row, column)?, measured, "1/s")
}

/// The servers by answered rate on each zone, fastest first.
pub(crate) fn sentences(run: &Run) -> Vec<String> {
    let rows = run.distinct(MEASURE, |k| (k.row(), k.size));
    let sentence = |at: &(String, Option<u64>)| {
        let here =
            |c: &&Cell| c.key.is(MEASURE) && (c.key.row(), c.key.size) == *at && c.state() == State::Valid;
        let zone = run.cells.iter().find(here)?.key.zone();
        let mut all: Vec<(f64, &str)> = run
            .cells
            .iter()
            .filter(here)
            .filter_map(|c| Some((c.metric(metrics::ANSWERED_QPS)?.value, c.key.server.as_str())))
            .collect();
        all.sort_by(|a, b| b.0.total_cmp(&a.0));
        let texts: Vec<String> =
            all.iter().map(|(qps, server)| format!("{server} {}", format::rate(*qps))).collect();
        (!texts.is_empty()).then(|| format!("{zone}: {}", texts.join(", ")))
    };
    let parts: Vec<String> = rows.iter().filter_map(sentence).collect();
    match parts.len() {
        0 => Vec::new(),
        _ => vec![format!("Answered with a window of queries, {}.", parts.join("; "))],
    }
}
