//! Paths between servers: what delay and loss make of a transfer, and whether the emulator did what it was asked.

use crate::cells::{Cell, Key, Run, State};
use crate::format;
use crate::grid::{Grid, Shown, grid, nothing, of_cell, repeats};
use measure::metrics::{self, Definition};

/// All grids of paths, where the run has their figures.
pub(crate) fn grids(run: &Run) -> Vec<Grid> {
    let mut all = Vec::new();
    all.extend(rate(run));
    all.extend(slowdown(run));
    all.extend(round_trip(run));
    all.extend(measured(run));
    all
}

/// A transfer over a path.
fn over_a_path(cell: &Cell) -> bool {
    cell.key.is("transfer") && cell.metric(metrics::PATH_PACKETS).is_some()
}

/// The one transfer of which the paper's text has figures.
fn is_the_seeds(key: &Key) -> bool {
    let bind = Some("bind");
    key.kind == "bind"
        && key.carried.primary.as_deref() == bind
        && key.family == "U-4-DS0"
        && key.size == Some(100_000)
}

/// The transfer over the same way without loss.
pub(crate) fn without_loss<'a>(run: &'a Run<'a>, key: &Key) -> Option<&'a Cell<'a>> {
    let same = |other: &Key| {
        let (a, b) = (&key.carried, &other.carried);
        (&key.server, &key.family, key.size, &key.measure)
            == (&other.server, &other.family, other.size, &other.measure)
            && (&a.primary, &a.timers, &a.rtt_ms) == (&b.primary, &b.timers, &b.rtt_ms)
    };
    // An invalid trial gives nothing to compare with.
    let good = |c: &&Cell| c.state() == State::Valid && c.key.carried.lost() == Some(0.0);
    run.cells.iter().find(|c| good(c) && same(&c.key))
}

/// The factor by which a transfer takes longer than without loss.
pub(crate) fn longer(run: &Run, cell: &Cell) -> Option<f64> {
    let plain = without_loss(run, &cell.key)?.metric(metrics::TRANSFER_SECONDS)?.value;
    Some(cell.metric(metrics::TRANSFER_SECONDS)?.value / plain).filter(|factor| factor.is_finite())
}

fn rate(run: &Run) -> Option<Grid> {
    let about = format!(
        "Octets of DNS over the time from the question for the zone to the last message of it (the paper's effective bandwidth); {}. \
         Published are rates of 100K U-4-DS0 alone, over paths without loss.",
        repeats(run, "transfer")
    );
    let table = run.published_table("rzaia-text-path");
    grid(
        run,
        ("path-rate", "Rate of a whole transfer over a path".into(), about),
        over_a_path,
        |key, measured| {
            let table = table.filter(|_| is_the_seeds(key) && key.carried.lost() == Some(0.0))?;
            let row = format!("{} ms", key.carried.rtt_ms.as_deref()?);
            of_cell(table, &[row.as_str()], table.cell(&[row.as_str()], "Bandwidth")?, measured, "Mbit/s")
        },
        |c| {
            let f = c.metric(metrics::TRANSFER_RATE)?;
            let text = format!("{} Mbit/s", format::significant(f.value));
            let range = |a, b| format!("{}–{} Mbit/s", format::significant(a), format::significant(b));
            let mut details: Vec<String> = f.interval_text(&text, range).into_iter().collect();
            details.extend(c.metric(metrics::TRANSFER_SECONDS).map(|f| format::seconds(f.value)));
            Some(Shown { text, details, compare: Some(f) })
        },
    )
}

fn slowdown(run: &Run) -> Option<Grid> {
    let about =
        "The time of a whole transfer over that over the same path without loss (figures 5.4 and 5.5).";
    let table = run.published_table("rzaia-text-loss");
    grid(
        run,
        ("path-loss", "What loss costs a whole transfer".into(), about.into()),
        |c| over_a_path(c) && c.key.carried.lost().is_some_and(|lost| lost > 0.0),
        |key, measured| {
            let table = table.filter(|_| is_the_seeds(key))?;
            let loss = format!("{} %", 100.0 * key.carried.lost()?);
            let latency = format!("{} ms", key.carried.rtt_ms.as_deref()?);
            let row = [loss.as_str(), latency.as_str()];
            of_cell(table, &row, table.cell(&row, "5.5")?, measured, "1")
        },
        |c| {
            let factor = longer(run, c)?;
            let taken = c.metric(metrics::TRANSFER_SECONDS)?;
            let details = vec![format::seconds(taken.value)];
            Some(Shown { text: format::factor(factor), details, compare: Some(taken.and(factor)) })
        },
    )
}

fn round_trip(run: &Run) -> Option<Grid> {
    let about = "From the primary's answer to a SYN to the end of that handshake, as the router saw it, at the median over all connections. \
                 Published is the median of figure 5.6's two paths.";
    let table = run.published_table("rzaia-text-tail");
    grid(
        run,
        ("path-rtt", "Round trip of the paths".into(), about.into()),
        |c| c.metric(metrics::PATH_RTT).is_some(),
        |key, measured| {
            let row = match key.variant.as_deref()? {
                "long tail" => "Internet",
                "NIST Net" => "NIST Net",
                _ => return None,
            };
            of_cell(table?, &[row], table?.cell(&[row], "Median")?, measured, "us")
        },
        |c| {
            let f = c.metric(metrics::PATH_RTT)?;
            Some(Shown { text: format::latency(f.value * 1e3), details: Vec::new(), compare: Some(f) })
        },
    )
}

fn measured(run: &Run) -> Option<Grid> {
    let about = "Packets that the emulator lost of all that it was given, both ways; below, the 95 % interval of that share, what was \
                 asked for, and how late packets left (99 % no later).";
    grid(
        run,
        ("path", "What the paths did".into(), about.into()),
        |c| c.metric(metrics::PATH_LOSS).is_some(),
        nothing,
        |c| {
            let value_of = |which: Definition| c.metric(which).map_or(0.0, |f| f.value);
            let percent = |which: Definition| format::percent(value_of(which));
            let mut details = vec![
                format!(
                    "{} to {}, asked {}",
                    percent(metrics::PATH_LOSS_LOW),
                    percent(metrics::PATH_LOSS_HIGH),
                    percent(metrics::PATH_LOSS_ASKED)
                ),
                format!("{:.0} packets", value_of(metrics::PATH_PACKETS)),
                format!("late by {}", format::latency(value_of(metrics::PATH_DELAY_ERROR_P99) * 1e3)),
            ];
            for (which, word) in [
                (metrics::PATH_DUPLICATED, "twice"),
                (metrics::PATH_CORRUPTED, "corrupted"),
                (metrics::PATH_QUEUE_DROPPED, "dropped at a full queue"),
            ] {
                details.extend(
                    c.metric(which).filter(|f| f.value > 0.0).map(|f| format!("{:.0} {word}", f.value)),
                );
            }
            Some(Shown { text: percent(metrics::PATH_LOSS), details, compare: None })
        },
    )
}
