//! Answered rates with a closed window: queryperf's way, as ISC and Nominet measured.

use crate::cells::{Cell, Key, Run, State};
use crate::format;
use crate::grid::{Beside, Further, Grid, Shown, grid, of_cell, of_linux, on_linux, repeats};
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
    // The talk has variants of the note's tables.
    let with_talk = |id: &str| Some((run.published_table(id)?, published::find(&format!("{id}-talk"))?));
    let (platforms, halves) = (with_talk("isc-3.3"), with_talk("isc-6.3.1"));
    let nominet = run.published_table("nominet-qps");
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
                    Some(Further { table, cell: printed, measured: Some(all.or_else(each)?) })
                })
                .collect();
            Some(beside)
        };
        // The stream as it was, to a zone of a TLD.
        let of_platform = |(note, talk): (&'static Table, &'static Table)| {
            let as_it_was = key.family == "COM" && key.variant.as_deref().is_none_or(|v| v == "as it is");
            let column = "Queries/second";
            if as_it_was { on_linux(&[(note, column), (talk, column)], measured, "1/s") } else { None }
        };
        let of_half = |(note, talk): (&'static Table, &'static Table)| {
            let (column, other) = match key.family.as_str() {
                "COM#1/2" => ("COM 1st half", "COM#2/2"),
                "COM#2/2" => ("COM 2nd half", "COM#1/2"),
                _ => return None,
            };
            let mut beside = on_linux(&[(note, column)], measured, "1/s")?;
            // The talk has the means of both halves.
            let other = Key { family: other.to_owned(), ..key.clone() };
            let other = run.cells.iter().find(|c| c.key == other && c.state() == State::Valid);
            let other = other.and_then(|cell| cell.metric(metrics::ANSWERED_QPS));
            if let Some((one, other)) = measured.zip(other) {
                let measured = Some((one + other.value) / 2.0);
                let means = of_linux(talk, "Queries/sec");
                beside.more.extend(means.map(|(_, cell)| Further { table: talk, cell, measured }));
            }
            Some(beside)
        };
        let isc = || platforms.and_then(of_platform).or_else(|| halves.and_then(of_half));
        nominet.and_then(of_clients).or_else(isc)
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
            Some(Shown { text: format::rate(f.value), details, compare: Some(f) })
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
