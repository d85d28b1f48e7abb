//! RZAIA, chapters 2 and 4: memory; starting and reloading.

use super::{Change, Question, distinct, each_server, question, span, times};
use crate::cells::{Cell, Run, State};
use crate::format;
use measure::metrics::{self, Definition};
use measure::units;

/// The share of queries, in per cent, that a server must answer to be there.
const ANSWERED: f64 = 99.0;

/// The relative error of a size by its pages, and of a time by the period of probes.
const NOISE: (f64, f64) = (0.002, 0.01);

fn of<'a>(run: &'a Run<'a>, measure: &'static str) -> impl Iterator<Item = &'a Cell<'a>> {
    run.cells.iter().filter(move |c| c.key.is(measure))
}

/// Sizes of valid cells, in order.
fn sizes(run: &Run, measure: &'static str) -> Vec<u64> {
    let mut sizes: Vec<u64> =
        of(run, measure).filter(|c| c.state() == State::Valid).filter_map(|c| c.key.size).collect();
    sizes.sort_unstable();
    sizes.dedup();
    sizes
}

/// How a metric grows with the zone from one size to another, of each server on the family that has most of it.
fn growth(run: &Run, measure: &'static str, metric: Definition, noise: f64) -> Option<String> {
    let sizes = sizes(run, measure);
    let (&first, &last) = (sizes.first()?, sizes.last()?);
    if first == last {
        return None;
    }
    let all = each_server(run, |server| {
        let at =
            |size: u64| of(run, measure).filter(move |c| c.key.server == server && c.key.size == Some(size));
        let value = |c: &Cell| c.metric(metric).map(|f| f.value);
        let valid = |c: &&Cell| c.state() == State::Valid && value(c).is_some();
        let most = at(last)
            .filter(valid)
            .max_by(|a, b| value(a).partial_cmp(&value(b)).expect("both are numbers"))?;
        let from = at(first).find(|c| c.key.row() == most.key.row())?;
        let change = Change::between(from, most, noise, |t| t.outcome.metric(metric))?;
        Some(format!("{server} {} ({})", times(change.factor), most.key.family_and_row()))
    })?;
    let (by, first, last) = (last as f64 / first as f64, units::short(first), units::short(last));
    Some(format!("From {first} to {last}, {} the delegations: {all}.", format::factor(by)))
}

/// How many delegations a machine's memory holds, and the cost of signing.
pub(super) fn memory(run: &Run) -> Vec<Question> {
    let sizes = sizes(run, "memory");
    let Some(&last) = sizes.last() else { return Vec::new() };
    let at = units::short(last);
    let pss = |c: &Cell| c.metric(metrics::SERVER_PSS).map(|f| f.value);
    let here = || of(run, "memory").filter(|c| c.state() == State::Valid && c.key.size == Some(last));
    let machine = run.dir.environment().pointer("/machine/memory").and_then(|m| m.as_f64());
    let mut all = Vec::new();
    let mut answers = Vec::new();
    let taken = each_server(run, |server| {
        let mine = || here().filter(|c| c.key.server == server).filter_map(|c| Some((c, pss(c)?)));
        let least = mine().min_by(|a, b| a.1.total_cmp(&b.1))?;
        let most = mine().max_by(|a, b| a.1.total_cmp(&b.1))?;
        let text = |of: (&Cell, f64)| format!("{} ({})", format::memory(of.1), of.0.key.family_and_row());
        Some(if least.1 == most.1 {
            format!("{server} {}", text(most))
        } else {
            format!("{server} {} to {}, {}", text(least), text(most), times(most.1 / least.1))
        })
    });
    let beyond: Vec<&Cell> = of(run, "memory").filter(|c| c.state() == State::Skipped).collect();
    let failed = of(run, "memory").filter(|c| c.state() == State::Failed).count();
    if let Some(taken) = taken {
        let verdict = match (beyond.is_empty() && failed == 0, machine) {
            (true, Some(m)) => format!("Yes, all of them do, into {}", format::memory(m)),
            (true, None) => "Yes, all of them do".to_owned(),
            (false, _) => "Not all of them".to_owned(),
        };
        answers.push(format!("{verdict}. PSS at {at}: {taken}."));
    }
    let named = distinct(beyond.iter().copied(), |c| format!("{} {}", c.key.server, c.key.zone()));
    if !named.is_empty() {
        let reason = beyond[0].trials.iter().find_map(|t| t.skipped.clone()).unwrap_or_default();
        let more = if named.len() > 4 { format!(" and {} more", named.len() - 4) } else { String::new() };
        let named = named.into_iter().take(4).collect::<Vec<_>>().join("; ");
        answers.push(format!("Not tried, for it could not fit: {named}{more} (the first: {reason})."));
    }
    answers.extend(machine.and_then(|m| largest(run, &sizes, m)));
    let signed = if here().any(|c| c.key.signed) { ", signed and not" } else { "" };
    let asked = match sizes.len() {
        1 => format!("Do the servers fit into memory with a zone of {at} delegations{signed}?"),
        _ => format!("Do the servers still fit into memory when the zone grows to {at} delegations{signed}?"),
    };
    all.extend(question(asked, answers));
    all.extend(question(
        "Does memory grow in proportion to the zone?",
        growth(run, "memory", metrics::SERVER_PSS, NOISE.0).into_iter().collect(),
    ));
    let plain = here().filter(|c| !c.key.signed).last().map(|c| c.key.row());
    let signed = here().filter(|c| c.key.signed && !c.key.family.contains('+')).last().map(|c| c.key.row());
    if let (Some(plain), Some(signed)) = (plain, signed) {
        let costs = each_server(run, |server| {
            let row = |row: &str| here().find(|c| c.key.server == server && c.key.row() == row);
            let change = Change::between(row(&plain)?, row(&signed)?, NOISE.0, |t| {
                t.outcome.metric(metrics::SERVER_PSS)
            })?;
            Some(format!("{server} {}", change.text(format::memory)))
        });
        let costs = costs.map(|c| format!("{plain} to {signed} at {at}: {c}."));
        all.extend(question("What does signing cost in memory?", costs.into_iter().collect()));
    }
    all
}

/// How many delegations a machine's memory would hold, by the growth between the two largest sizes measured.
fn largest(run: &Run, sizes: &[u64], machine: f64) -> Option<String> {
    let [.., before, last] = *sizes else { return None };
    let pss = |server: &str, row: &str, size: u64| {
        let mut cells = of(run, "memory").filter(|c| c.state() == State::Valid && c.key.size == Some(size));
        cells
            .find(|c| c.key.server == server && c.key.row() == row)?
            .metric(metrics::SERVER_PSS)
            .map(|f| f.value)
    };
    let row = of(run, "memory")
        .filter(|c| c.state() == State::Valid && c.key.size == Some(last) && !c.key.family.contains('+'))
        .last()?
        .key
        .row();
    let all = each_server(run, |server| {
        let (small, large) = (pss(server, &row, before)?, pss(server, &row, last)?);
        let each = (large - small) / (last - before) as f64;
        if each <= 0.0 {
            return None;
        }
        let fits = last as f64 + (machine - large) / each;
        // Two digits: it is a line through two points.
        let fits: f64 = format!("{fits:.1e}").parse().ok()?;
        Some(format!("{server} {} ({} each)", units::short(fits as u64), format::memory(each)))
    })?;
    let machine = format::memory(machine);
    let (before, last) = (units::short(before), units::short(last));
    Some(format!(
        "By the growth from {before} to {last}, {machine} would hold about so many delegations of {row} (estimated, not \
         measured): {all}."
    ))
}

/// How long servers are away, and what clients see of it.
pub(super) fn loading(run: &Run) -> Vec<Question> {
    let sizes = sizes(run, "load");
    let Some(&last) = sizes.last() else { return Vec::new() };
    let at = units::short(last);
    let here = |server: &str| {
        let server = server.to_owned();
        of(run, "load").filter(move |c| c.key.server == server && c.key.size == Some(last))
    };
    let unable = |server: &str| {
        let warnings = here(server).flat_map(|c| c.used()).flat_map(|t| &t.outcome.validity.warnings);
        warnings.into_iter().any(|w| w.code == "unable_to_reload")
    };
    let seconds = |server: &str, metric: Definition| {
        let (low, high) = span(here(server), |c| Some(c.metric(metric)?.value))?;
        Some(format::latency_range(low * 1e9, high * 1e9))
    };
    let times = each_server(run, |server| {
        let start = seconds(server, metrics::SERVER_READY)?;
        let mut text = format!("{server} start {start}");
        if let Some(reload) = seconds(server, metrics::RELOAD_SECONDS) {
            text += &format!(", reload {reload}");
        }
        if unable(server) {
            text += ", unable to reload in some trials";
        }
        Some(text)
    });
    let mut all = Vec::new();
    let times = times.map(|t| format!("Until the first right answer, over the zones of {at}: {t}."));
    let grown = growth(run, "load", metrics::SERVER_READY, NOISE.1)
        .map(|g| format!("The start takes longer with the zone. {g}"));
    all.extend(question(
        "How long is a server away when it starts or reloads?",
        times.into_iter().chain(grown).collect(),
    ));
    let meanwhile = each_server(run, |server| {
        let (least, _) = span(here(server), |c| Some(c.metric(metrics::RELOADING.answered_share)?.value))?;
        let silent =
            span(here(server), |c| Some(c.metric(metrics::RELOADING.silent)?.value)).map_or(0.0, |s| s.1);
        let silent = if silent > 0.0 { format!(", silent for up to {silent} s") } else { String::new() };
        let worst = span(here(server), |c| Some(c.metric(metrics::RELOADING.latency_p99_worst)?.value));
        let worst =
            worst.map_or_else(String::new, |w| format!(", 99 % within {}", format::latency(w.1 * 1e3)));
        let all = if least < 100.0 { format!("at least {}", format::percent(least)) } else { "all".into() };
        Some(format!("{server} {all}{silent}{worst}"))
    });
    let answered: Vec<(&String, f64)> = run
        .servers
        .iter()
        .filter_map(|s| {
            Some((s, span(here(s), |c| Some(c.metric(metrics::RELOADING.answered_share)?.value))?.0))
        })
        .collect();
    let silent: Vec<String> = answered.iter().filter(|a| a.1 < ANSWERED).map(|a| a.0.clone()).collect();
    let of = format!("{ANSWERED} % of the queries, on the zones of {at}");
    let verdict = match silent.as_slice() {
        [] => format!("Yes: at least {of}"),
        some if some.len() == answered.len() => format!("Not all: less than {of}"),
        some => format!("Not all with {}: less than {of}", format::list(some)),
    };
    let meanwhile = meanwhile.map(|m| format!("{verdict}. In the seconds of a reload: {m}."));
    all.extend(question("Does it answer while it reloads?", meanwhile.into_iter().collect()));
    let memory = each_server(run, |server| {
        let (_, high) = span(here(server), |c| {
            Some(c.metric(metrics::RELOADING_PEAK_PSS)?.value / c.metric(metrics::SERVER_PSS)?.value)
        })?;
        let (_, bytes) = span(here(server), |c| Some(c.metric(metrics::RELOADING_PEAK_PSS)?.value))?;
        Some(format!("{server} up to {} ({})", super::times(high), format::memory(bytes)))
    });
    let memory =
        memory.map(|m| format!("At its peak, over what it takes to serve, on the zones of {at}: {m}."));
    all.extend(question("How much memory does a reload need?", memory.into_iter().collect()));
    all
}
