//! Sentences about a run: what it did, and how its results compare with the published ones.

use crate::cells::{Run, State};
use crate::format;
use crate::grid::Grid;
use measure::{metrics, params, units};
use results::TrialRecord;
use results::compare::sets::{self, OfSet};
use results::published::Relation;

/// The first sentences of a report: the experiment, its trials, and the machine.
pub(crate) fn sentences(run: &Run) -> Vec<String> {
    [Some(what_was_done(run)), scenarios(run), machine(run), sets(run)].into_iter().flatten().collect()
}

/// How the zones of scenarios were made.
fn scenarios(run: &Run) -> Option<String> {
    let mut made: Vec<String> = Vec::new();
    for trial in run.dir.trials() {
        if let (Some(name), Some(how)) = (trial.param(params::FAMILY), trial.param(params::ZONE_MADE)) {
            let words = format!("{name} is {how}");
            if !made.contains(&words) {
                made.push(words);
            }
        }
    }
    (!made.is_empty()).then(|| format!("Zones: {}.", made.join("; ")))
}

fn what_was_done(run: &Run) -> String {
    if crate::hardware::is(run) {
        return crate::hardware::what_was_done(run);
    }
    let mut zones: Vec<String> = Vec::new();
    let mut sizes: Vec<u64> = Vec::new();
    for key in run.cells.iter().map(|c| &c.key) {
        if !zones.contains(&key.family) {
            zones.push(key.family.clone());
        }
        sizes.extend(key.size);
    }
    sizes.sort_unstable();
    sizes.dedup();
    let sizes: Vec<String> = sizes.into_iter().map(units::short).collect();
    let size =
        if sizes.is_empty() { String::new() } else { format!(" with {} delegations", format::list(&sizes)) };
    let (valid, invalid, failed, skipped) = run.counts();
    let skipped = if skipped > 0 { format!(", {skipped} skipped") } else { String::new() };
    format!(
        "{} ({}) served {}{size}. Of {}, {valid} valid, {invalid} invalid, {failed} failed{skipped}.",
        format::plural(run.servers.len(), "server"),
        format::list(&run.servers),
        format::list(&zones),
        format::plural(run.dir.trials().len(), "trial"),
    )
}

/// True if the generator and the servers were on one machine; none if the run does not say.
fn is_co_located(run: &Run) -> Option<bool> {
    run.dir.environment().get("co_located")?.as_bool()
}

fn machine(run: &Run) -> Option<String> {
    match is_co_located(run)? {
        true => Some(
            "Generator and servers shared one machine (co-located): compare servers with each other by ratios; the \
             absolute figures hold for this machine and this placing only."
                .into(),
        ),
        false => Some("Generator and servers ran on different machines.".into()),
    }
}

/// Says whether the sets of hosts gave the same figures. If they were all on one machine, it says how long the servers waited for a core.
fn sets(run: &Run) -> Option<String> {
    let names = sets::names(run.dir);
    if names.len() < 2 {
        return None;
    }
    if is_co_located(run) == Some(true) {
        let waited = |t: &TrialRecord| t.outcome.metric(metrics::SERVERS_WAITED);
        let most = run.dir.trials().iter().filter(|t| t.is_valid()).filter_map(waited).reduce(f64::max)?;
        return Some(format!(
            "{} trials at the same time shared the cores of one machine: in the valid ones the servers waited for a core for at most \
             {most:.2} % of the time.",
            names.len()
        ));
    }
    let compared = sets::of_sets(run.dir);
    let made = format!("Trials were made by {} sets of hosts at the same time", names.len());
    if compared.is_empty() {
        return Some(format!(
            "{made}; too few cells were measured by more than one to say whether these differ."
        ));
    }
    let differ: Vec<String> = compared.iter().filter(|one| one.differs()).map(difference).collect();
    let many = format::plural(compared.len(), "comparison");
    Some(match differ.as_slice() {
        [] => format!("{made}; no difference between these is shown ({many}, adjusted for their number)."),
        some => format!("{made}, and these differ ({many}, adjusted for their number): {}.", some.join("; ")),
    })
}

fn difference(one: &OfSet) -> String {
    let percent = |share: f64| format!("{:+.1}", 100.0 * share);
    let (low, high) = one.interval;
    format!(
        "{} of set {} differs from that of the other sets by {} % ({} to {} %, {})",
        one.title,
        one.set,
        percent(one.difference),
        percent(low),
        percent(high),
        format::plural(one.cells, "cell")
    )
}

/// How the results compare with the published ones, as factors, grid by grid.
pub(crate) fn against_published(grids: &[Grid]) -> Option<String> {
    let parts: Vec<String> = grids.iter().filter_map(factors).collect();
    (!parts.is_empty()).then(|| {
        format!(
            "Measured over published (the papers had other hardware and other versions): {}.",
            parts.join("; ")
        )
    })
}

fn factors(grid: &Grid) -> Option<String> {
    let cells = || grid.rows.iter().flat_map(|r| &r.cells).filter(|c| c.state == State::Valid);
    let mut factors: Vec<f64> = cells().filter_map(|c| c.published.as_ref()?.factor).collect();
    factors.sort_by(f64::total_cmp);
    let beyond =
        cells().filter(|c| c.published.as_ref().is_some_and(|p| p.cell.relation == Relation::Above)).count();
    let places: Vec<String> =
        grid.sources.iter().map(|s| format!("{} {}", short_source(&s.id), table_name(&s.place))).collect();
    let (low, high) = (format::factor(*factors.first()?), format::factor(*factors.last()?));
    let by = if low == high { low } else { format!("{low} to {high}") };
    let title = grid.title.to_lowercase();
    let mut text =
        format!("{title} {by} ({}, {})", format::list(&places), format::plural(factors.len(), "cell"));
    if beyond > 0 {
        text += &format!(" and {} that the paper bounds from below only", format::plural(beyond, "cell"));
    }
    Some(text)
}

/// `RZAIA` of `rzaia-3.1`.
pub(crate) fn short_source(id: &str) -> String {
    id.split('-').next().unwrap_or(id).to_uppercase()
}

/// `table 3.1` of `Section 3.2.1, Table 3.1`.
pub(crate) fn table_name(place: &str) -> String {
    place.rsplit(", ").next().unwrap_or(place).replace("Table", "table").replace("Section", "section")
}
