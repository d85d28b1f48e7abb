//! Batches of updates, each sent when the secondary serves the one before (RZAIA 5.3): octets, times, and queries meanwhile.

use crate::cells::{Cell, Key, Run};
use crate::format;
use crate::grid::{Beside, Grid, Shown, beside, grid, nothing, repeats, software};
use crate::replication::cut;
use measure::metrics::{self, Definition};
use measure::units;
use results::published::Table;

/// All grids of batches, where the run has their figures.
pub(crate) fn grids(run: &Run) -> Vec<Grid> {
    let mut all = Vec::new();
    all.extend(octets(run));
    all.extend(durations(run));
    all.extend(each(run));
    all.extend(meanwhile(run));
    all
}

fn is_of_batches(cell: &Cell) -> bool {
    cell.key.is("batches")
}

/// The cell of RZAIA's table for 10 % or 1 % of the zone.
fn published(
    run: &Run,
    (ten, one): (&str, &str),
    key: &Key,
    measured: Option<f64>,
    unit: &str,
) -> Option<Beside> {
    let share: f64 = key.carried.share.as_ref()?.parse().ok()?;
    let id = [(0.1, ten), (0.01, one)].into_iter().find(|(of, _)| *of == share)?.1;
    let table: &'static Table = run.published_table(id)?;
    beside(Some(table), key, heading, measured, unit)
}

/// Master, slave, updates, zone type. The paper had no path between them.
fn heading(key: &Key) -> Option<Vec<String>> {
    let updates = match key.carried.batches.as_deref()? {
        "288" => "5min",
        "24" => "1hour",
        _ => return None,
    };
    let idle = key.carried.rtt_ms.as_deref().is_none_or(|ms| ms == "0")
        && key.carried.lost().is_none_or(|l| l == 0.0);
    let master = software(key.carried.primary.as_deref()?)?;
    idle.then_some(vec![
        master.to_owned(),
        software(&key.kind)?.to_owned(),
        updates.to_owned(),
        key.family.clone(),
    ])
}

/// The octets of the zone's transfer, where the run has it.
fn whole(run: &Run, key: &Key) -> Option<f64> {
    let same = |c: &&Cell| {
        c.key.is("transfer")
            && (&c.key.server, &c.key.family, c.key.size) == (&key.server, &key.family, key.size)
    };
    run.cells.iter().filter(same).find_map(|c| c.metric(metrics::TRANSFER_BYTES)).map(|f| f.value)
}

fn octets(run: &Run) -> Option<Grid> {
    let timed = run.cells.iter().any(|c| is_of_batches(c) && c.metric(metrics::BATCH.p50).is_some());
    let untimed = " The run recorded no times of single batches (batch_times = false), so a trial is valid however long its servers waited for a core.";
    let about = format!(
        "All packets between primary and secondary from the first batch on, both ways, without Ethernet headers (as RZAIA counted); \
         below, each way, and what carried them; {}.{}",
        repeats(run, "batches"),
        if timed { "" } else { untimed }
    );
    grid(
        run,
        ("batches-octets", "Octets that carried all batches".into(), about),
        is_of_batches,
        |key, measured| published(run, ("rzaia-5.2", "rzaia-5.4"), key, measured, "B"),
        |c| {
            let Some(f) = c.metric(metrics::BATCHES_BYTES) else {
                let details = vec!["not all changes were served".into()];
                return Some(Shown { text: "–".into(), details, compare: None });
            };
            let value_of = |which: Definition| c.metric(which).map_or(0.0, |f| f.value);
            let text = format::memory(f.value);
            let mut details: Vec<String> = f.interval_text(&text, format::memory_range).into_iter().collect();
            details.push(format!(
                "{} out, {} back",
                format::memory(value_of(metrics::BATCHES_BYTES_OUT)),
                format::memory(value_of(metrics::BATCHES_BYTES_BACK))
            ));
            details.extend(
                c.metric(metrics::BATCH_BYTES_P50).map(|f| format!("{} a batch", format::memory(f.value))),
            );
            // The text sets the one beside the other (12 to 15 % where a tenth changes).
            if let Some(whole) = whole(run, &c.key) {
                details.push(format!("{} of a whole transfer", format::percent(100.0 * f.value / whole)));
            }
            details.push(format!(
                "{:.0} IXFR, {:.0} AXFR",
                value_of(metrics::IXFR_TRANSFERS),
                value_of(metrics::AXFR_TRANSFERS)
            ));
            details.extend(cut(c));
            Some(Shown { text, details, compare: Some(f) })
        },
    )
}

fn durations(run: &Run) -> Option<Grid> {
    let about = "From the sending of the first batch until the secondary served the last. With default timers that is mostly their \
                 waiting, batch by batch: 5 s with BIND, which delays its NOTIFY so, and in the paper 9 s with an NSD secondary. With batch_times = false \
                 the time is given only where BIND's delay explains at least 99 % of it.";
    grid(
        run,
        ("batches-time", "Time of all batches".into(), about.into()),
        is_of_batches,
        |key, measured| {
            // The paper's timers were those of its day.
            let default = key.carried.timers.as_deref() == Some("default");
            published(run, ("rzaia-5.3", "rzaia-5.5"), key, measured.filter(|_| default), "s")
        },
        |c| {
            let f = c.metric(metrics::BATCHES_SECONDS)?;
            // Of trials without times of single batches only quick ones have it, so a median over some of them would be too short.
            if c.metric(metrics::BATCH.p50).is_none() && f.repeats < c.used().len() {
                return None;
            }
            let value_of = |which: Definition| c.metric(which).map_or(0.0, |f| f.value);
            let text = format::seconds(f.value);
            let range = |a: f64, b: f64| format::latency_range(a * 1e9, b * 1e9);
            let mut details: Vec<String> = f.interval_text(&text, range).into_iter().collect();
            details.push(format!(
                "{:.0} of {:.0} batches served",
                value_of(metrics::BATCHES_SERVED),
                value_of(metrics::BATCHES)
            ));
            details.push(units::counted(value_of(metrics::BATCHES_RECORDS) as u64, "record"));
            Some(Shown { text, details, compare: Some(f) })
        },
    )
}

fn each(run: &Run) -> Option<Grid> {
    let about = "From the sending of a batch's first update to the first answer of the secondary that shows its last, at the median; \
                 below, the slowest, and how long the primary took to acknowledge a batch.";
    grid(
        run,
        ("batch-time", "Time until a batch is served".into(), about.into()),
        is_of_batches,
        nothing,
        |c| {
            let f = c.metric(metrics::BATCH.p50)?;
            let mut details: Vec<String> = Vec::new();
            details.extend(
                c.metric(metrics::BATCH.max).map(|f| format!("at most {}", format::latency(f.value * 1e3))),
            );
            details.extend(
                c.metric(metrics::BATCH_TAKEN.p50)
                    .map(|f| format!("taken after {}", format::latency(f.value * 1e3))),
            );
            let late = c.metric(metrics::BATCHES_LOST).filter(|f| f.value > 0.0);
            details.extend(late.map(|f| format!("{:.0} not served in time", f.value)));
            Some(Shown { text: format::latency(f.value * 1e3), details, compare: None })
        },
    )
}

fn meanwhile(run: &Run) -> Option<Grid> {
    let about = "Queries at the secondary while it took the batches: those answered within the deadline, and how long that took.";
    grid(
        run,
        ("batches-queries", "Queries while batches arrive".into(), about.into()),
        is_of_batches,
        nothing,
        |c| {
            let f = c.metric(metrics::ANSWERED_IN_DEADLINE_SHARE)?;
            let value_of = |which: Definition| Some(format::latency(c.metric(which)?.value * 1e3));
            let mut details = Vec::new();
            details.extend(value_of(metrics::LATENCY.p50).map(|t| format!("median {t}")));
            details.extend(value_of(metrics::LATENCY.p99).map(|t| format!("p99 {t}")));
            details.extend(value_of(metrics::LATENCY.max).map(|t| format!("at most {t}")));
            Some(Shown { text: format::percent(f.value), details, compare: None })
        },
    )
}
