//! Zones that change: how fast a primary takes updates, how soon secondaries serve them, what transfers carry.

use crate::cells::{Cell, Figure, Key, Run};
use crate::grid::{Grid, Shown, beside, grid, nothing, of_cell, on_linux, repeats, software};
use crate::{batches, format, paths};
use measure::metrics::{self, Definition, Scope};
use results::published;
use std::collections::BTreeSet;

/// All grids of changes, where the run has their figures.
pub(crate) fn grids(run: &Run) -> Vec<Grid> {
    let mut all = Vec::new();
    all.extend(updates(run));
    all.extend(together(run));
    all.extend(lag(run));
    all.extend(steps(run));
    all.extend(carried(run));
    all.extend(churn(run));
    all.extend(away(run));
    all.extend(transfer(run));
    all.extend(transfer_to_file(run));
    all.extend(transfer_to_unsigned_file(run));
    all.extend(transfer_time(run));
    all.extend(batches::grids(run));
    all.extend(paths::grids(run));
    all
}

/// The median of a latency in microseconds, as text.
fn us(f: &Figure) -> String {
    format::latency(f.value * 1e3)
}

/// A rate of whole updates, with a digit where there are few.
fn per_second(value: f64) -> String {
    if value < 100.0 { format!("{value:.1}/s") } else { format::rate(value) }
}

fn updates(run: &Run) -> Option<Grid> {
    let window = run.planned("updates.window").unwrap_or_default();
    let about = format!(
        "Updates acknowledged with NOERROR over the time from the first to the last, {window} waiting at once; an acknowledgement may \
         follow a sync of the disk alone (RFC 2136, section 3.5); {}.",
        repeats(run, "update")
    );
    // The talk has the note's figures.
    let tables = run.published_table("isc-6.3.2").zip(published::find("isc-6.3.2-talk"));
    grid(
        run,
        ("updates", "Dynamic updates taken per second".into(), about),
        |c| c.key.is("update"),
        |key, measured| {
            let ((note, talk), columns) = (
                tables?,
                match key.family.as_str() {
                    "COM#1/2" => ["COM 1st half", "Slice 1"],
                    "COM#2/2" => ["COM 2nd half", "Slice 2"],
                    _ => return None,
                },
            );
            if key.kind != "bind" || key.signed {
                return None;
            }
            on_linux(&[(note, columns[0]), (talk, columns[1])], measured, "1/s")
        },
        |c| {
            let f = c.metric(metrics::ACCEPTED_UPS.within(Scope::Updates))?;
            let text = per_second(f.value);
            let range = |a: f64, b: f64| format!("{}–{}", per_second(a), per_second(b));
            let mut details: Vec<String> = f.interval_text(&text, range).into_iter().collect();
            if let (Some(p50), Some(p99)) = (
                c.metric(metrics::LATENCY.p50.within(Scope::Updates)),
                c.metric(metrics::LATENCY.p99.within(Scope::Updates)),
            ) {
                details.push(format!("answered after {}, p99 {}", us(&p50), us(&p99)));
            }
            details.extend(refused(c));
            Some(Shown { text, details, compare: Some(f) })
        },
    )
}

/// Updates that were not taken, in words, with the codes that came for them.
fn refused(cell: &Cell) -> Option<String> {
    let value_of = |which: Definition| cell.metric(which).map_or(0.0, |f| f.value);
    let (refused, lost) = (
        value_of(metrics::ACKNOWLEDGED.within(Scope::Updates))
            - value_of(metrics::ACCEPTED.within(Scope::Updates)),
        value_of(metrics::LOST.within(Scope::Updates)),
    );
    let metrics = cell.used().into_iter().flat_map(|t| &t.outcome.metrics);
    let codes: BTreeSet<&str> = metrics.filter_map(|m| m.name.strip_prefix("update_rcode_")).collect();
    let codes: Vec<&str> = codes.into_iter().filter(|code| *code != "NOERROR").collect();
    let named = if codes.is_empty() { String::new() } else { format!(" ({})", codes.join(", ")) };
    (refused + lost > 0.0).then(|| format!("{refused:.0} refused{named}, {lost:.0} without an answer"))
}

/// The answers of all secondaries, where all were asked.
fn together(run: &Run) -> Option<Grid> {
    let about = "Answers per second of all secondaries together, each with the load that the measured one has; below, the least and the \
                 most of one secondary, and the DNS octets of all answers as a rate. Other tables are of the measured one.";
    grid(
        run,
        ("together", "Answered by all secondaries together".into(), about.into()),
        |c| c.metric(metrics::ALL_ANSWERED_QPS).is_some(),
        nothing,
        |c| {
            let f = c.metric(metrics::ALL_ANSWERED_QPS)?;
            let mut details: Vec<String> = Vec::new();
            details.extend(f.interval_text(&format::rate(f.value), format::rate_range));
            let one = |n: usize| {
                let host = if n == 1 { "server".to_owned() } else { format!("secondary-{n}") };
                Some(c.metric_named(&metrics::ANSWERED_BY_SECONDARY.name(&host))?.value)
            };
            let each: Vec<f64> = (1..).map_while(one).collect();
            let (least, most) =
                (each.iter().copied().reduce(f64::min), each.iter().copied().reduce(f64::max));
            if let Some((least, most)) = least.zip(most) {
                details.push(format!("{} secondaries, each {}", each.len(), format::rate_range(least, most)));
            }
            let rate = c.metric(metrics::ALL_ANSWER_RATE);
            details.extend(rate.map(|rate| format!("{:.1} Mbit/s of answers", rate.value)));
            Some(Shown { text: format::rate(f.value), details, compare: None })
        },
    )
}

fn lag(run: &Run) -> Option<Grid> {
    let about = "From the sending of an update to the first answer that shows it, at the median over all secondaries and marker updates; \
                 below, the mean, the slowest 1 % and the slowest of all. A marker that had not come when the trial ended is lost.";
    grid(
        run,
        ("lag", "Lag of secondaries".into(), about.into()),
        |c| c.metric(metrics::LAG.p50).is_some(),
        nothing,
        |c| {
            let f = c.metric(metrics::LAG.p50)?;
            let mut details = Vec::new();
            if let Some(mean) = c.metric(metrics::LAG_MEAN) {
                details.push(format!("mean {}", us(&mean)));
            }
            if let (Some(p99), Some(max)) = (c.metric(metrics::LAG.p99), c.metric(metrics::LAG.max)) {
                details.push(format!("p99 {}, at most {}", us(&p99), us(&max)));
            }
            if let Some(lost) = c.metric(metrics::MARKERS_LOST).filter(|f| f.value > 0.0) {
                details.push(format!("{:.0} of them lost", lost.value));
            }
            if let Some(back) = c.metric(metrics::SERIAL_WENT_BACK).filter(|f| f.value > 0.0) {
                details.push(format!("{:.0} times an older serial", back.value));
            }
            Some(Shown { text: us(&f), details, compare: None })
        },
    )
}

/// Where a lag goes.
fn steps(run: &Run) -> Option<Grid> {
    let about = "Means over all secondaries and marker updates, which add up to the mean lag, as a capture at the primary tells them: until \
                 the primary sends a NOTIFY; until the secondary asks; until the last message of the transfer; until the first answer that \
                 shows it. The first is a timer by default (BIND waits up to 5 s), the second and the fourth may be (NSD reloads once a second).";
    const STEPS: [(Definition, &str); 4] = [
        (metrics::LAG_UNTIL_NOTIFY_MEAN, "NOTIFY"),
        (metrics::LAG_UNTIL_REQUEST_MEAN, "request"),
        (metrics::LAG_TRANSFER_MEAN, "transfer"),
        (metrics::LAG_UNTIL_SERVED_MEAN, "served"),
    ];
    grid(
        run,
        ("lag-steps", "Where the lag goes".into(), about.into()),
        |c| c.metric(STEPS[0].0).is_some(),
        nothing,
        |c| {
            let means: Vec<_> =
                STEPS.iter().filter_map(|(which, word)| Some((*word, c.metric(*which)?.value))).collect();
            let text = format::latency(means.iter().map(|(_, us)| us).sum::<f64>() * 1e3);
            let part = |(word, us): &(&str, f64)| format!("{word} {}", format::latency(us * 1e3));
            let mut details = vec![means.iter().map(part).collect::<Vec<_>>().join(" + ")];
            if let Some(other) = c.metric(metrics::LAGS_UNEXPLAINED).filter(|f| f.value > 0.0) {
                details.push(format!("{:.0} lags without a transfer from the primary", other.value));
            }
            Some(Shown { text, details, compare: None })
        },
    )
}

/// The transfers that carried the changes.
fn carried(run: &Run) -> Option<Grid> {
    let about = "Octets between the primary and its secondaries for each update that was taken, TCP and IP headers included and Ethernet's \
                 not (as RZAIA counted); below, incremental transfers and whole ones, and changes of the serial that went with one transfer.";
    grid(
        run,
        ("carried", "What carried the updates".into(), about.into()),
        |c| c.metric(metrics::TRANSFER_BYTES_PER_UPDATE).is_some(),
        nothing,
        |c| {
            let f = c.metric(metrics::TRANSFER_BYTES_PER_UPDATE)?;
            let value_of = |which: Definition| c.metric(which).map_or(0.0, |f| f.value);
            let mut details = vec![format!(
                "{:.0} IXFR, {:.0} AXFR",
                value_of(metrics::IXFR_TRANSFERS),
                value_of(metrics::AXFR_TRANSFERS)
            )];
            details.extend(
                c.metric(metrics::VERSIONS_PER_TRANSFER).map(|f| format!("{:.1} versions each", f.value)),
            );
            details.extend(cut(c));
            Some(Shown { text: format::value(f.value, "B"), details, compare: None })
        },
    )
}

/// Transfers that did not come to their end, in words.
pub(crate) fn cut(cell: &Cell) -> Option<String> {
    let broken = cell.metric(metrics::TRANSFERS_BROKEN).filter(|f| f.value > 0.0)?;
    Some(format!("{:.0} transfers cut half way", broken.value))
}

/// The octets and the lag of each version of a real zone.
fn churn(run: &Run) -> Option<Grid> {
    let about = "Octets of TCP payload by which one secondary got one version, differences (IXFR) alone, the marker's two records with \
                 them; below, the records that this carried and that the versions differ by, what an IXFR of these takes as 'dnsrack zone \
                 diff' calculates it, and a transfer of the whole zone. Lags of every version at every secondary are in servers/*/versions.csv.";
    grid(
        run,
        ("churn", "What a version of the zone costs".into(), about.into()),
        |c| c.key.is("churn"),
        nothing,
        |c| {
            let value_of = |which: Definition| c.metric(which).map(|f| f.value);
            let octets = |value: f64| format::value(value, "B");
            let text = value_of(metrics::IXFR_BYTES_PER_VERSION).map_or_else(|| "no IXFR".into(), octets);
            let mut details = Vec::new();
            if let (Some(carried), Some(differ)) =
                (value_of(metrics::IXFR_RECORDS_PER_VERSION), value_of(metrics::VERSION_RECORDS))
            {
                details.push(format!("{carried:.1} records carried, {differ:.1} differ"));
            }
            details.extend(
                value_of(metrics::VERSION_IXFR_RECKONED).map(|value| format!("calculated {}", octets(value))),
            );
            details
                .extend(value_of(metrics::AXFR_BYTES).map(|value| format!("whole zone {}", octets(value))));
            let (taken, all) = (value_of(metrics::VERSIONS_TAKEN)?, value_of(metrics::VERSIONS)?);
            details.push(format!("{taken:.0} of {all:.0} versions taken"));
            Some(Shown { text, details, compare: None })
        },
    )
}

/// A secondary that was away.
fn away(run: &Run) -> Option<Grid> {
    let about = "The last secondary was stopped in the middle of the changes and started again on what it had written: from that start to \
                 the first answer with all that it had missed; below, by what it caught up. Its lags are not among those of the others.";
    grid(
        run,
        ("away", "A secondary that was away".into(), about.into()),
        |c| c.metric(metrics::AWAY_SECONDS).is_some(),
        nothing,
        |c| {
            let value_of = |which: Definition| c.metric(which).map_or(0.0, |f| f.value);
            let text = c
                .metric(metrics::AWAY_CAUGHT_UP)
                .map_or_else(|| "never".into(), |f| format::seconds(f.value));
            let by =
                format!("{:.0} IXFR, {:.0} AXFR", value_of(metrics::AWAY_IXFR), value_of(metrics::AWAY_AXFR));
            let details = vec![
                format!("after {} away", format::seconds(value_of(metrics::AWAY_SECONDS))),
                format!("{by}, {}", format::value(value_of(metrics::AWAY_BYTES), "B")),
            ];
            Some(Shown { text, details, compare: None })
        },
    )
}

fn transfer(run: &Run) -> Option<Grid> {
    let about = "All packets of the connection, both ways, without Ethernet headers (as RZAIA counted them, which does not say whether the \
                 secondary's acknowledgements are among them); below, DNS messages alone.";
    let table = run.published_table("rzaia-5.1");
    let heading = |key: &Key| {
        let to = key.variant.as_deref()?.strip_prefix("to ")?;
        Some(vec![software(&key.kind)?.to_owned(), software(to)?.to_owned(), key.family.clone()])
    };
    grid(
        run,
        ("transfer", "Octets of a whole transfer".into(), about.into()),
        |c| c.key.is("transfer"),
        |key, measured| beside(table, key, heading, measured, "B"),
        |c| {
            let f = c.metric(metrics::TRANSFER_BYTES)?;
            let mut details = Vec::new();
            details.extend(
                c.metric(metrics::TRANSFER_DNS_BYTES).map(|f| format!("DNS {}", format::memory(f.value))),
            );
            if let (Some(out), Some(back)) =
                (c.metric(metrics::TRANSFER_BYTES_OUT), c.metric(metrics::TRANSFER_BYTES_BACK))
            {
                details.push(format!(
                    "{} out, {} back",
                    format::memory(out.value),
                    format::memory(back.value)
                ));
            }
            Some(Shown { text: format::memory(f.value), details, compare: Some(f) })
        },
    )
}

fn transfer_to_file(run: &Run) -> Option<Grid> {
    let title = "A whole transfer as a share of the zone file";
    let about = "The octets of the table above, divided by those of the zone file that the primary loads.";
    share_of_file(run, ("transfer-to-file", title, about), metrics::TRANSFER_TO_FILE, |family| family)
}

fn transfer_to_unsigned_file(run: &Run) -> Option<Grid> {
    let title = "A whole transfer as a share of the zone file before it was signed";
    let about =
        "The same octets, divided by those that the zone file had before it was signed, as RZAIA divided.";
    // RZAIA gives one share for all its zones with DS records.
    let row: fn(&str) -> &str = |family| match family {
        "S-6-DS10" | "S-6-DS50" | "S-6-DS100" => "S-6-DS10 to S-6-DS100",
        other => other,
    };
    share_of_file(run, ("transfer-to-unsigned-file", title, about), metrics::TRANSFER_TO_UNSIGNED_FILE, row)
}

/// A share of a zone file, beside RZAIA's in the row that `row` gives for a family.
fn share_of_file(
    run: &Run,
    (id, title, about): (&str, &str, &str),
    share: Definition,
    row: fn(&str) -> &str,
) -> Option<Grid> {
    let table = run.published_table("rzaia-text-axfr");
    grid(
        run,
        (id, title.into(), about.into()),
        |c| c.metric(share).is_some(),
        |key, measured| {
            let heading = [software(&key.kind)?, row(&key.family)];
            of_cell(table?, &heading, table?.cell(&heading, "Share")?, measured, "%")
        },
        |c| {
            let f = c.metric(share)?;
            Some(Shown { text: format::percent(f.value), details: Vec::new(), compare: Some(f) })
        },
    )
}

fn transfer_time(run: &Run) -> Option<Grid> {
    let about = "From the question for the zone to the last message of it; below, from the secondary's start to its first right answer.";
    grid(
        run,
        ("transfer-time", "Time of a whole transfer".into(), about.into()),
        |c| c.key.is("transfer"),
        nothing,
        |c| {
            let f = c.metric(metrics::TRANSFER_SECONDS)?;
            let served = c.metric(metrics::TRANSFER_SERVED);
            let mut details: Vec<String> =
                served.iter().map(|f| format!("served after {}", format::seconds(f.value))).collect();
            details.extend(cut(c));
            Some(Shown { text: format::seconds(f.value), details, compare: None })
        },
    )
}
