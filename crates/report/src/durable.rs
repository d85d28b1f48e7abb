//! Durability: answers and syncs, the disk beside the rate, power cuts, killed secondaries. Counts are sums over repeats.

use crate::cells::{Cell, Run};
use crate::format;
use crate::grid::{Grid, Shown, grid, nothing};
use measure::metrics::{self, Definition, Scope};
use measure::units::grouped;
use measure::{Parameter, params};

/// All grids of durability, where the run has their figures.
pub(crate) fn grids(run: &Run) -> Vec<Grid> {
    [traced(run), beside_the_disk(run), cuts(run), kills(run)].into_iter().flatten().collect()
}

/// A count over all repeats; none where no trial has it.
pub(crate) fn sum(cell: &Cell, which: Definition) -> Option<f64> {
    let values: Vec<f64> = cell.used().iter().filter_map(|t| t.outcome.metric(which)).collect();
    (!values.is_empty()).then(|| values.iter().sum())
}

/// A count as it is read.
pub(crate) fn whole(count: f64) -> String {
    grouped(count as u64)
}

/// The words that trials have for it, the first one's.
fn said<'a>(cell: &Cell<'a>, parameter: Parameter) -> Option<&'a str> {
    cell.used().into_iter().find_map(|t| t.param(parameter))
}

/// The first words of a server's error that has many lines.
fn short(text: &str) -> String {
    const MAX: usize = 160;
    // A first line that ends so leads to the words of a log: the last of them say it.
    let first = text.lines().next().unwrap_or_default();
    let line = if first.ends_with(':') { text.lines().last().unwrap_or_default().trim() } else { first };
    match line.char_indices().nth(MAX) {
        Some((at, _)) => format!("{}…", &line[..at]),
        None => line.to_owned(),
    }
}

/// Answers that follow no sync that covers them, of how many, where a trace was analysed.
pub(crate) fn uncovered(cell: &Cell) -> Option<(f64, f64)> {
    let all = sum(cell, metrics::TRACED)?;
    Some((all - sum(cell, metrics::TRACED_COVERED)?, all))
}

/// Acknowledged updates that are gone, of how many, where the power was cut.
pub(crate) fn gone(cell: &Cell) -> Option<(f64, f64)> {
    let all = sum(cell, metrics::CUT_ACKNOWLEDGED)?;
    Some((sum(cell, metrics::CUT_LOST)? + sum(cell, metrics::CUT_GONE_WITH_SERVER)?, all))
}

/// How many times above the disk's own syncs a second the rate of updates is, where that tells that it does not sync.
pub(crate) fn beyond(cell: &Cell) -> Option<f64> {
    cell.metric(metrics::BEYOND_DISK).map(|f| f.value).filter(|times| *times > 0.0)
}

fn traced(run: &Run) -> Option<Grid> {
    let about = "Answers that acknowledge an update, and before which all that was written for it was synced (a trace of the server's \
                 system calls; RFC 2136, section 3.5), one update at a time and many at a time; below, syncs for each answer, and what \
                 the first answer that is not covered lacked.";
    grid(
        run,
        ("synced", "Answers that follow a sync".into(), about.into()),
        |c| c.key.is("syncs"),
        nothing,
        |c| {
            let (not, all) = uncovered(c)?;
            let mut details = Vec::new();
            details.extend(
                c.metric(metrics::SYNCS_PER_ANSWER)
                    .map(|f| format!("{} syncs an answer", format::significant(f.value))),
            );
            details.extend(said(c, params::FIRST_NOT_COVERED).map(short));
            let text = format!("{} of {}", whole(all - not), whole(all));
            Some(Shown { text, details, compare: None })
        },
    )
}

fn beside_the_disk(run: &Run) -> Option<Grid> {
    let about = "Updates acknowledged a second, each sent when the one before was answered, without a trace; below, how often the disk \
                 syncs 4 KiB, measured right before and right after. A rate more than twice as high as both names itself: no server \
                 reaches it with a sync before each answer (this is how the published test found FreeBSD 6.2). A lower one proves nothing.";
    grid(
        run,
        ("beside-disk", "Updates a second beside the disk's own syncs".into(), about.into()),
        |c| c.key.is("syncs"),
        nothing,
        |c| {
            let rate = c.metric(metrics::ACCEPTED_UPS.within(Scope::Updates))?.value;
            let mut details = Vec::new();
            if let (Some(before), Some(after)) =
                (c.metric(metrics::DISK_SYNCS_BEFORE), c.metric(metrics::DISK_SYNCS_AFTER))
            {
                let range = format::rate_range(before.value.min(after.value), before.value.max(after.value));
                details.push(format!("disk {range}"));
            }
            details.extend(
                beyond(c).map(|times| format!("{} the disk's: it does not sync", format::factor(times))),
            );
            Some(Shown { text: format::rate(rate), details, compare: None })
        },
    )
}

fn cuts(run: &Run) -> Option<Grid> {
    let about = "Updates acknowledged before a power cut under full load, at random, and gone after it: the server's files are on a disk \
                 (FUSE) that drops what was not synced, in half of the cuts all of it, otherwise at random pages. A server that does not \
                 come back has lost what it acknowledged before that cut.";
    grid(
        run,
        ("power-cuts", "Acknowledged updates lost in power cuts".into(), about.into()),
        |c| c.key.is("power-cut"),
        nothing,
        |c| {
            let (gone, all) = gone(c)?;
            let value_of = |which: Definition| sum(c, which).unwrap_or(0.0);
            let mut details = vec![format!(
                "{} of {} cuts lost some",
                whole(value_of(metrics::CUTS_WITH_LOSS)),
                whole(value_of(metrics::CUTS))
            )];
            if value_of(metrics::CUTS_NOT_BACK) > 0.0 {
                let why = said(c, params::NOT_BACK).map_or_else(String::new, |w| format!(": {}", short(w)));
                details.push(format!(
                    "not served again after {} of them{why}",
                    whole(value_of(metrics::CUTS_NOT_BACK))
                ));
            }
            if value_of(metrics::CUT_HALF) > 0.0 {
                details.push(format!("{} updates half there", whole(value_of(metrics::CUT_HALF))));
            }
            let text = match gone > 0.0 {
                true => format!("{} of {}", whole(gone), whole(all)),
                false => format!("none of {}", whole(all)),
            };
            Some(Shown { text, details, compare: None })
        },
    )
}

fn kills(run: &Run) -> Option<Grid> {
    let about = "Times that a secondary served an older serial than it had served before, over restarts after SIGKILL; below, the same \
                 while it ran; zones transferred in which half of an update was: two names that every update changes alike had \
                 different values; and the same seen by single queries, where it may also be two versions served at once.";
    grid(
        run,
        ("kills", "Serials that went back after SIGKILL".into(), about.into()),
        |c| c.key.is("kill"),
        nothing,
        |c| {
            let value_of = |which: Definition| sum(c, which).unwrap_or(0.0);
            let mut details = Vec::new();
            if let Some(most) = c.metric(metrics::SERIAL_BACK_MOST).filter(|f| f.value > 0.0) {
                details.push(format!("by {} at most", whole(most.value)));
            }
            if value_of(metrics::SERIAL_BACK_RUNNING) > 0.0 {
                details.push(format!("{} times while it ran", whole(value_of(metrics::SERIAL_BACK_RUNNING))));
            }
            details.push(format!(
                "half-applied in {} of {} transfers",
                whole(value_of(metrics::HALF_BY_TRANSFER)),
                whole(value_of(metrics::ZONES_TRANSFERRED))
            ));
            details.push(format!(
                "versions mixed in {} of {} query checks",
                whole(value_of(metrics::MIXED_BY_QUERY)),
                whole(value_of(metrics::PAIRS_ASKED))
            ));
            if value_of(metrics::KILLS_BACK) < value_of(metrics::KILLS) {
                let why = said(c, params::NOT_BACK).map_or_else(String::new, |w| format!(": {}", short(w)));
                details.push(format!("did not come back{why}"));
            }
            let text = format!(
                "{} in {} kills",
                whole(sum(c, metrics::SERIAL_BACK_RESTARTED)?),
                whole(value_of(metrics::KILLS))
            );
            Some(Shown { text, details, compare: None })
        },
    )
}
