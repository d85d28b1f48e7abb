//! What a machine does apart from any name server: tables and plots of `dnsrack hardware`, with ISC-TN-2008-1's own figures beside.
//!
//! A test is where other runs have a zone, and its case where they have a server: see [`crate::cells::Key`].

use crate::cells::{Cell, Figure, Run};
use crate::format;
use crate::grid::{Beside, Grid, Shown, grid, nothing, of_cell};
use measure::hardware::{
    COPY, CRYPTO, DATAGRAMS, DISK, LATENCY, MEASURE, STREAM, SWITCHES, SYSTEM, WAKE_UPS,
};
use measure::metrics::{self, Definition};
use measure::units;
use results::published;

/// Whether the run is of a machine.
pub(crate) fn is(run: &Run) -> bool {
    run.cells.iter().any(|c| c.key.is(MEASURE))
}

/// The words at the heads of a table's first columns.
const HEADS: [&str; 2] = ["case", "test"];

/// The computer that the note's authors chose by these figures, as their table calls it.
const CHOSEN: &str = "HP 1";

/// All tables of a machine.
pub(crate) fn grids(run: &Run) -> Vec<Grid> {
    if !is(run) {
        return Vec::new();
    }
    let pages = if run.servers.iter().any(|case| case == "huge pages") { "huge pages" } else { "4 KB pages" };
    let largest = run.cells.iter().filter(|c| c.key.family == LATENCY).filter_map(|c| c.key.size).max();
    let repeats = run.cells.iter().map(|c| c.trials.len()).max().unwrap_or(0);
    let arrays = run.cells.iter().filter(|c| c.key.family == STREAM).find_map(|c| c.key.size);
    let arrays = arrays.map_or_else(String::new, octets);
    let median = format!(
        "Median of {}, each with memory of its own, and its range.",
        format::plural(repeats, "repeat")
    );
    let chosen = format!("Published: {CHOSEN}, the computer that the authors chose.");
    let mut all = Vec::new();
    all.extend(grid(
        run,
        (
            "memory-latency",
            "Memory latency".into(),
            format!(
                "A load whose address is the result of the one before, in random order, by the size of the memory that it goes through. \
                 With pages of 4 KB a load beyond the reach of the TLB also waits for the address of its page. {median} {chosen} Its latency is \
                 that of main memory by lmbench, which goes through memory in strides and so misses the TLB less often than a random order."
            ),
        ),
        // A fourth of the sizes that the plot has.
        |c| {
            let shown = |size: u64| Some(size) == largest || size.is_power_of_two() && size.trailing_zeros().is_multiple_of(2);
            c.key.family == LATENCY && c.key.size.is_some_and(shown)
        },
        |key, measured| {
            let main = key.size == largest && key.server == pages;
            main.then(|| of_the_note("lmbench latency", measured, "ns"))?
        },
        time,
    ));
    all.extend(grid(
        run,
        (
            "stream",
            "Memory bandwidth (STREAM)".into(),
            format!(
                "The four kernels of STREAM on three arrays of {arrays}, by the threads that share the work, each on a core of its own; \
                 octets are counted as STREAM counts them. {median} {chosen}"
            ),
        ),
        |c| c.key.family == STREAM,
        |key, measured| {
            let one = key.workers == Some(1);
            let mut name = key.server.clone();
            name[..1].make_ascii_uppercase();
            one.then(|| of_the_note(&format!("STREAM {name}"), measured, "MB/s"))?
        },
        |c| of_metric(c, metrics::BANDWIDTH, bandwidth, bandwidth_range),
    ));
    all.extend(grid(
        run,
        (
            "copy",
            "Copies of memory".into(),
            format!("Octets copied in a second, by the size of what is copied. {median}"),
        ),
        |c| c.key.family == COPY && c.key.size.is_some_and(|size| size.trailing_zeros().is_multiple_of(2)),
        nothing,
        |c| of_metric(c, metrics::BANDWIDTH, bandwidth, bandwidth_range),
    ));
    let operations = [SYSTEM, SWITCHES, WAKE_UPS, DATAGRAMS, CRYPTO, DISK];
    all.extend(grid(
        run,
        (
            "operations",
            "Operations".into(),
            format!("What one operation takes, or how much is done in a second. {median}"),
        ),
        |c| operations.contains(&c.key.family.as_str()),
        nothing,
        |c| {
            time(c)
                .or_else(|| of_metric(c, metrics::OPERATION_RATE, format::rate, format::rate_range))
                .or_else(|| of_metric(c, metrics::BANDWIDTH, bandwidth, bandwidth_range))
        },
    ));
    for grid in &mut all {
        grid.heads = HEADS;
    }
    all
}

/// A figure of the note's chosen computer.
fn of_the_note(row: &str, measured: Option<f64>, unit: &str) -> Option<Beside> {
    let table = published::find("isc-2.2")?;
    of_cell(table, &[row], table.cell(&[row], CHOSEN)?, measured, unit)
}

fn time(c: &Cell) -> Option<Shown> {
    of_metric(c, metrics::OPERATION_TIME, nanoseconds, |low, high| match high < 1000.0 {
        true => format!("{}–{} ns", format::significant(low), format::significant(high)),
        false => format::latency_range(low, high),
    })
}

fn of_metric(
    c: &Cell,
    metric: Definition,
    text: impl Fn(f64) -> String,
    range: impl Fn(f64, f64) -> String,
) -> Option<Shown> {
    let figure: Figure = c.metric(metric)?;
    let shown = text(figure.value);
    let details = figure.interval_text(&shown, range);
    Some(Shown { text: shown, details: details.into_iter().collect(), compare: Some(figure) })
}

/// `1.25 ns`, `31.5 µs`.
pub(crate) fn nanoseconds(ns: f64) -> String {
    if ns < 1000.0 { format!("{} ns", format::significant(ns)) } else { format::latency(ns) }
}

fn bandwidth(rate: f64) -> String {
    format!("{} MB/s", units::grouped(rate.round() as u64))
}

fn bandwidth_range(low: f64, high: f64) -> String {
    format!("{}–{} MB/s", units::grouped(low.round() as u64), units::grouped(high.round() as u64))
}

/// `4 KiB`, `1.5 MiB`.
pub(crate) fn octets(size: u64) -> String {
    let (unit, name) = if size >= 1 << 20 { (1_u64 << 20, "MiB") } else { (1 << 10, "KiB") };
    if size.is_multiple_of(unit) {
        format!("{} {name}", size / unit)
    } else {
        format!("{} {name}", format::significant(size as f64 / unit as f64))
    }
}

/// The sentence on what was done.
pub(crate) fn what_was_done(run: &Run) -> String {
    let (valid, invalid, ..) = run.counts();
    format!(
        "The machine alone, without a name server. Of {}, {valid} valid, {invalid} invalid.",
        format::plural(run.dir.trials().len(), "figure")
    )
}
