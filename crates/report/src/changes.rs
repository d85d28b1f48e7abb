//! Zones that change: how fast a primary takes updates, how soon secondaries serve them, what transfers carry.

use crate::cells::{Cell, Figure, Key, Run};
use crate::grid::{Grid, Shown, beside, grid, nothing, of_cell, repeats, software};
use crate::{batches, format, paths};
use results::published;
use std::collections::BTreeSet;

/// All grids of changes, where the run has their figures.
pub(crate) fn grids(run: &Run) -> Vec<Grid> {
    let mut all = Vec::new();
    all.extend(updates(run));
    all.extend(lag(run));
    all.extend(steps(run));
    all.extend(carried(run));
    all.extend(churn(run));
    all.extend(away(run));
    all.extend(transfer(run));
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
    let table = published::find("isc-6.3.2").filter(|t| run.wants(&t.id));
    grid(
        run,
        ("updates", "Dynamic updates taken per second".into(), about),
        |c| c.key.is("update"),
        |key, measured| {
            let (table, column) = (
                table?,
                match key.family.as_str() {
                    "COM#1/2" => "COM 1st half",
                    "COM#2/2" => "COM 2nd half",
                    _ => return None,
                },
            );
            let row = ["FreeBSD-7-RC2"];
            if key.kind != "bind" || key.signed {
                return None;
            }
            of_cell(table, &row, table.cell(&row, column)?, measured, "1/s")
        },
        |c| {
            let f = c.metric("update_accepted_ups")?;
            let text = per_second(f.value);
            let range = |a: f64, b: f64| format!("{}–{}", per_second(a), per_second(b));
            let mut details: Vec<String> = f.interval_text(&text, range).into_iter().collect();
            if let (Some(p50), Some(p99)) = (c.metric("update_latency_p50"), c.metric("update_latency_p99")) {
                details.push(format!("answered after {}, p99 {}", us(&p50), us(&p99)));
            }
            details.extend(refused(c));
            Some(Shown { text, details, compare: Some(f.value) })
        },
    )
}

/// Updates that were not taken, in words, with the codes that came for them.
fn refused(cell: &Cell) -> Option<String> {
    let of = |name: &str| cell.metric(name).map_or(0.0, |f| f.value);
    let (refused, lost) = (of("update_acknowledged") - of("update_accepted"), of("update_lost"));
    let metrics = cell.used().into_iter().flat_map(|t| &t.outcome.metrics);
    let codes: BTreeSet<&str> = metrics.filter_map(|m| m.name.strip_prefix("update_rcode_")).collect();
    let codes: Vec<&str> = codes.into_iter().filter(|code| *code != "NOERROR").collect();
    let named = if codes.is_empty() { String::new() } else { format!(" ({})", codes.join(", ")) };
    (refused + lost > 0.0).then(|| format!("{refused:.0} refused{named}, {lost:.0} without an answer"))
}

fn lag(run: &Run) -> Option<Grid> {
    let about = "From the sending of an update to the first answer that shows it, at the median over all secondaries and marker updates; \
                 below, the slowest 1 % and the slowest of all. A marker that had not come when the trial ended is lost.";
    grid(
        run,
        ("lag", "Lag of secondaries".into(), about.into()),
        |c| c.metric("lag_p50").is_some(),
        nothing,
        |c| {
            let f = c.metric("lag_p50")?;
            let mut details = Vec::new();
            if let (Some(p99), Some(max)) = (c.metric("lag_p99"), c.metric("lag_max")) {
                details.push(format!("p99 {}, at most {}", us(&p99), us(&max)));
            }
            if let Some(lost) = c.metric("markers_lost").filter(|f| f.value > 0.0) {
                details.push(format!("{:.0} of them lost", lost.value));
            }
            if let Some(back) = c.metric("serial_went_back").filter(|f| f.value > 0.0) {
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
    const STEPS: [(&str, &str); 4] = [
        ("lag_until_notify_mean", "NOTIFY"),
        ("lag_until_request_mean", "request"),
        ("lag_transfer_mean", "transfer"),
        ("lag_until_served_mean", "served"),
    ];
    grid(
        run,
        ("lag-steps", "Where the lag goes".into(), about.into()),
        |c| c.metric(STEPS[0].0).is_some(),
        nothing,
        |c| {
            let means: Vec<_> =
                STEPS.iter().filter_map(|(name, word)| Some((*word, c.metric(name)?.value))).collect();
            let text = format::latency(means.iter().map(|(_, us)| us).sum::<f64>() * 1e3);
            let part = |(word, us): &(&str, f64)| format!("{word} {}", format::latency(us * 1e3));
            let mut details = vec![means.iter().map(part).collect::<Vec<_>>().join(" + ")];
            if let Some(other) = c.metric("lags_unexplained").filter(|f| f.value > 0.0) {
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
        |c| c.metric("transfer_bytes_per_update").is_some(),
        nothing,
        |c| {
            let f = c.metric("transfer_bytes_per_update")?;
            let of = |name: &str| c.metric(name).map_or(0.0, |f| f.value);
            let mut details =
                vec![format!("{:.0} IXFR, {:.0} AXFR", of("ixfr_transfers"), of("axfr_transfers"))];
            details
                .extend(c.metric("versions_per_transfer").map(|f| format!("{:.1} versions each", f.value)));
            details.extend(cut(c));
            Some(Shown { text: format::value(f.value, "B"), details, compare: None })
        },
    )
}

/// Transfers that did not come to their end, in words.
pub(crate) fn cut(cell: &Cell) -> Option<String> {
    let broken = cell.metric("transfers_broken").filter(|f| f.value > 0.0)?;
    Some(format!("{:.0} transfers cut half way", broken.value))
}

/// The octets and the lag of each version of a real zone.
fn churn(run: &Run) -> Option<Grid> {
    let about = "Octets of TCP payload by which one secondary got one version, differences (IXFR) alone, the marker's two records with \
                 them; below, the records that this carried and that the versions differ by, what an IXFR of these takes as 'dnsrack zone \
                 diff' reckons it, and a transfer of the whole zone. Lags of every version at every secondary are in servers/*/versions.csv.";
    grid(
        run,
        ("churn", "What a version of the zone costs".into(), about.into()),
        |c| c.key.is("churn"),
        nothing,
        |c| {
            let of = |name: &str| c.metric(name).map(|f| f.value);
            let octets = |value: f64| format::value(value, "B");
            let text = of("ixfr_bytes_per_version").map_or_else(|| "no IXFR".into(), octets);
            let mut details = Vec::new();
            if let (Some(carried), Some(differ)) = (of("ixfr_records_per_version"), of("version_records")) {
                details.push(format!("{carried:.1} records carried, {differ:.1} differ"));
            }
            details.extend(of("version_ixfr_reckoned").map(|value| format!("reckoned {}", octets(value))));
            details.extend(of("axfr_bytes").map(|value| format!("whole zone {}", octets(value))));
            let (taken, all) = (of("versions_taken")?, of("versions")?);
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
        |c| c.metric("away_seconds").is_some(),
        nothing,
        |c| {
            let of = |name: &str| c.metric(name).map_or(0.0, |f| f.value);
            let text =
                c.metric("away_caught_up").map_or_else(|| "never".into(), |f| format::seconds(f.value));
            let by = format!("{:.0} IXFR, {:.0} AXFR", of("away_ixfr"), of("away_axfr"));
            let details = vec![
                format!("after {} away", format::seconds(of("away_seconds"))),
                format!("{by}, {}", format::value(of("away_bytes"), "B")),
            ];
            Some(Shown { text, details, compare: None })
        },
    )
}

fn transfer(run: &Run) -> Option<Grid> {
    let about = "All packets of the connection, both ways, without Ethernet headers (as RZAIA counted them, which does not say whether the \
                 secondary's acknowledgements are among them); below, DNS messages alone, and how all this lies to the zone file.";
    let table = published::find("rzaia-5.1").filter(|t| run.wants(&t.id));
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
            let f = c.metric("transfer_bytes")?;
            let mut details = Vec::new();
            details
                .extend(c.metric("transfer_dns_bytes").map(|f| format!("DNS {}", format::memory(f.value))));
            if let (Some(out), Some(back)) = (c.metric("transfer_bytes_out"), c.metric("transfer_bytes_back"))
            {
                details.push(format!(
                    "{} out, {} back",
                    format::memory(out.value),
                    format::memory(back.value)
                ));
            }
            details.extend(
                c.metric("transfer_to_file").map(|f| format!("{} of the file", format::percent(f.value))),
            );
            Some(Shown { text: format::memory(f.value), details, compare: Some(f.value) })
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
            let f = c.metric("transfer_seconds")?;
            let served = c.metric("transfer_served");
            let mut details: Vec<String> =
                served.iter().map(|f| format!("served after {}", format::seconds(f.value))).collect();
            details.extend(cut(c));
            Some(Shown { text: format::seconds(f.value), details, compare: None })
        },
    )
}
