//! Tables of latency at a fixed rate.

use crate::cells::{self, Cell, Figure, Key, Run, Sample};
use crate::format;
use crate::grid::{Beside, Grid, Shown, beside, grid, of_cell, repeats, software};
use measure::{metrics, params, units};
use results::published;
use results::published::Table;

/// The rate at which the papers measured: only there their values stand beside (RZAIA, tables 3.1 and 3.2).
const PUBLISHED_RATE: f64 = 5000.0;

/// The deadline of RZAIA's table 3.2, in nanoseconds.
const PUBLISHED_DEADLINE: u64 = 4_000_000_000;

/// The tables of one rate: the median, the slowest 1 %, the share answered in time, and, where the paper's text has it, the rest.
pub(crate) fn grids(run: &Run, rate: &str) -> Vec<Grid> {
    let at = AtRate::new(run, rate);
    let within = TIMES.iter().map(|time| at.within(time));
    [at.median(), at.slowest(), at.share(), at.lost()].into_iter().chain(within).flatten().collect()
}

/// A time of answers that RZAIA's text gives a share for.
struct Time {
    /// The heading of the published row.
    row: &'static str,
    /// In nanoseconds.
    limit: u64,
    /// The share is of the answers that took longer, rather than of the queries that were answered by then.
    after: bool,
}

/// The times of the published table rzaia-text-within.
const TIMES: [Time; 2] = [
    Time { row: "in 0.3 ms or less", limit: 300_000, after: false },
    Time { row: "after more than 100 ms", limit: 100_000_000, after: true },
];

/// The trials at one rate.
struct AtRate<'a> {
    run: &'a Run<'a>,
    rate: &'a str,
    /// The rate, for people.
    qps: String,
    /// How it was measured, in words.
    how: String,
}

impl<'a> AtRate<'a> {
    fn new(run: &'a Run, rate: &'a str) -> Self {
        let qps = rate.parse::<f64>().map_or_else(|_| rate.to_owned(), |r| units::grouped(r as u64));
        let of_rate = run.dir.trials().iter().filter(|t| t.param(params::RATE) == Some(rate));
        let time = of_rate.filter_map(|t| cells::duration(t, params::DURATION)).next();
        let time = time.map_or_else(String::new, |ns| format!(" for {}", format::duration(ns)));
        let how = format!("{qps} queries/s{time}, open loop; {}", repeats(run, "latency"));
        Self { run, rate, qps, how }
    }

    fn median(&self) -> Option<Grid> {
        let published = self.published("rzaia-3.1");
        let text = (
            &*format!("median-{}", self.rate),
            format!("Median latency at {} queries/s", self.qps),
            format!(
                "{}. From the intended time of sending, over all queries: one without an answer within {} counts as slower.",
                self.how,
                self.limit()
            ),
        );
        let beside = |key: &Key, measured| beside(published, key, heading, measured, "ns");
        grid(self.run, text, |c| self.has(c), beside, |c| self.quantile(c, 0.5))
    }

    fn slowest(&self) -> Option<Grid> {
        let text = (
            &*format!("p99-{}", self.rate),
            format!("Latency of the slowest 1 % at {} queries/s", self.qps),
            format!("{}. 99 % of all queries had their answer within this time.", self.how),
        );
        grid(self.run, text, |c| self.has(c), |_, _| None, |c| self.quantile(c, 0.99))
    }

    fn share(&self) -> Option<Grid> {
        let published = self.published("rzaia-3.2").filter(|_| self.run.deadline == PUBLISHED_DEADLINE);
        let text = (
            &*format!("share-{}", self.rate),
            format!("Queries answered within {} at {} queries/s", self.limit(), self.qps),
            format!("{}. Late answers count as lost.", self.how),
        );
        let beside = |key: &Key, measured| beside(published, key, heading, measured, "%");
        grid(self.run, text, |c| self.has(c), beside, answered_share)
    }

    /// The queries that were lost, beside what RZAIA's text says about 5,000 and 500 queries a second. Cells of which the text says nothing
    /// are left out: the table of answered queries has them.
    fn lost(&self) -> Option<Grid> {
        let table = self.of_text("rzaia-text-lost").filter(|_| self.run.deadline == PUBLISHED_DEADLINE)?;
        let text = (
            &*format!("lost-{}", self.rate),
            format!("Queries not answered within {} at {} queries/s", self.limit(), self.qps),
            format!("{}. What the share answered in time leaves.", self.how),
        );
        let beside = |key: &Key, measured| beside_size(table, key, &[self.rate], measured);
        let lost = |c: &Cell| {
            let answered = c.metric(metrics::ANSWERED_IN_DEADLINE_SHARE)?;
            let lost = answered.and(100.0 - answered.value);
            Some(Shown { text: format::percent(lost.value), details: Vec::new(), compare: Some(lost) })
        };
        grid(self.run, text, |c| self.has(c) && beside(&c.key, None).is_some(), beside, lost)
    }

    /// The share of the queries that were answered within a time, or of the answers that took longer, where RZAIA's text prints one
    /// for this rate.
    fn within(&self, time: &Time) -> Option<Grid> {
        let table = self.of_text("rzaia-text-within")?;
        let at_rate = |row: &&published::Row| row.key[3..] == [self.rate, time.row];
        table.rows.iter().find(at_rate)?;
        let words = format::duration(time.limit);
        let (title, of) = match time.after {
            true => (format!("Answers after more than {words}"), "answers"),
            false => (format!("Answers in {words} or less"), "queries sent"),
        };
        let text = (
            &*format!("within-{}-{}", time.limit, self.rate),
            format!("{title} at {} queries/s", self.qps),
            format!("{}. The share is of the {of}; from the intended time of sending.", self.how),
        );
        let beside = |key: &Key, measured| beside_size(table, key, &[self.rate, time.row], measured);
        let share = |sample: &Sample| match time.after {
            true => 100.0 * (1.0 - sample.histogram.share_below(time.limit)),
            false => 100.0 * sample.share_within(time.limit),
        };
        let show = |c: &Cell| {
            let shares: Vec<f64> = c.used().iter().filter_map(|t| Some(share(&Sample::of(t)?))).collect();
            Some(as_share(&Figure::of(&shares)?))
        };
        grid(self.run, text, |c| self.has(c), beside, show)
    }

    fn has(&self, cell: &Cell) -> bool {
        cell.key.is("latency") && cell.key.rate.as_deref() == Some(self.rate)
    }

    fn limit(&self) -> String {
        format::duration(self.run.deadline)
    }

    fn published(&self, id: &str) -> Option<&'static Table> {
        let same_rate = self.rate.parse() == Ok(PUBLISHED_RATE);
        self.run.published_table(id).filter(|_| same_rate)
    }

    /// A table of what RZAIA's text says about the trials of table 3.1. Runs that were kept earlier name table 3.1 alone.
    fn of_text(&self, id: &str) -> Option<&'static Table> {
        published::find(id).filter(|_| self.run.wants(id) || self.run.wants("rzaia-3.1"))
    }

    /// A quantile with its interval; beyond the deadline it is only known to be greater.
    fn quantile(&self, cell: &Cell, q: f64) -> Option<Shown> {
        let deadline = self.run.deadline;
        let text_of = |f: &Figure| match f.value > deadline as f64 {
            true => format!(">{}", self.limit()),
            false => format::latency(f.value),
        };
        let range = |low: f64, high: f64| match high > deadline as f64 {
            true => format!("{} to >{}", format::latency(low), self.limit()),
            false => format::latency_range(low, high),
        };
        let f = cell.latency(q, deadline)?;
        let details = f.interval_text(&text_of(&f), range).into_iter().collect();
        let compare = Some(f).filter(|f| f.value <= deadline as f64);
        Some(Shown { text: text_of(&f), details, compare })
    }
}

/// The column of a published table that a cell belongs to.
fn heading(key: &Key) -> Option<Vec<String>> {
    Some(vec![software(&key.kind)?.to_owned(), if key.signed { "signed" } else { "unsigned" }.to_owned()])
}

/// The published share in a row that continues with the zone's size and with `more`: the first that is printed.
fn beside_size(table: &'static Table, key: &Key, more: &[&str], measured: Option<f64>) -> Option<Beside> {
    let (mut heading, size) = (heading(key)?, units::short(key.size?));
    heading.push(size);
    let heading: Vec<&str> = heading.iter().map(String::as_str).chain(more.iter().copied()).collect();
    let row = table.rows.iter().find(|row| row.key == heading)?;
    of_cell(table, &heading, row.cells.iter().find(|cell| cell.value.is_some())?, measured, "%")
}

fn answered_share(cell: &Cell) -> Option<Shown> {
    Some(as_share(&cell.metric(metrics::ANSWERED_IN_DEADLINE_SHARE)?))
}

/// A figure in per cent, with its interval.
fn as_share(f: &Figure) -> Shown {
    let text = format::percent(f.value);
    let ends = |a: f64, b: f64| match a == b {
        true => format::percent(a),
        false => format!("{} to {}", format::percent(a), format::percent(b)),
    };
    let details = f.interval_text(&text, ends).into_iter().collect();
    Shown { text, details, compare: Some(*f) }
}
