//! The plots of latencies and peaks: one line or bar for each server, from the trials that count.

use crate::cells::{Cell, Run, Sample, State};
use crate::svg::{self, Axis, Bar, Plot};
use crate::{format, past, peak, summary};
use measure::{Histogram, Nanos};
use results::TrialRecord;
use serde::Serialize;

/// Figures that belong together: of one zone, or of one quantity over zones.
#[derive(Serialize)]
pub(crate) struct Group {
    pub id: String,
    pub title: String,
    pub main: Vec<Figure>,
    pub seconds: Vec<Figure>,
}

/// A figure of the page.
#[derive(Debug, Serialize)]
pub(crate) struct Figure {
    /// For links.
    pub id: String,
    pub caption: String,
    pub svg: String,
    pub legend: Vec<Entry>,
    /// Trials by id.
    pub trials: Vec<u32>,
}

/// A line of a legend.
#[derive(Debug, Serialize)]
pub(crate) struct Entry {
    pub swatch: String,
    pub text: String,
}

/// A line of latencies: its style, its label with what limits it, and the trials that it is of.
pub(crate) struct Series {
    pub style: usize,
    pub label: String,
    pub sample: Sample,
    pub trials: Vec<u32>,
}

/// The cells of one latency plot: those of one zone and rate.
pub(crate) fn series(run: &Run, cells: &[&Cell]) -> Vec<Series> {
    let series_of = |cell: &&Cell| {
        let mut label = cell.key.server.clone();
        if cell.state() == State::Invalid {
            label += " (invalid)";
        }
        let trials = cell.used().into_iter().map(|t| t.id).collect();
        Some(Series { style: run.style(&cell.key.server), label, sample: cell.sample()?, trials })
    };
    cells.iter().filter_map(series_of).collect()
}

pub(crate) fn legend(all: &[Series]) -> Vec<Entry> {
    all.iter().map(|s| Entry { swatch: svg::swatch(s.style, ""), text: s.label.clone() }).collect()
}

pub(crate) fn trials(all: &[Series]) -> Vec<u32> {
    all.iter().flat_map(|s| s.trials.iter().copied()).collect()
}

fn names(all: &[Series]) -> String {
    format::list(&all.iter().map(|s| s.label.clone()).collect::<Vec<_>>())
}

pub(crate) fn tick(ns: f64) -> String {
    let text = format::latency(ns);
    let (number, unit) = text.split_once(' ').unwrap_or((&text, ""));
    let number =
        if number.contains('.') { number.trim_end_matches('0').trim_end_matches('.') } else { number };
    format!("{number} {unit}")
}

/// Least and greatest of some positive values.
pub(crate) fn ends(values: impl Iterator<Item = f64>) -> Option<(f64, f64)> {
    values.filter(|v| *v > 0.0).fold(None, |ends, v| match ends {
        None => Some((v, v)),
        Some((low, high)) => Some((v.min(low), v.max(high))),
    })
}

/// The distribution plots of one zone at one rate: slowest percentiles, cumulative, actual.
pub(crate) fn distributions(run: &Run, all: &[Series], id: &str, what: &str) -> Vec<Figure> {
    [percentiles(run.deadline, all, what), cumulative(run.deadline, all, what), actual(all, what)]
        .into_iter()
        .flatten()
        .zip(["percentiles", "cumulative", "actual"])
        .map(|((caption, svg), kind)| Figure {
            id: format!("{id}-{kind}"),
            caption,
            svg,
            legend: legend(all),
            trials: trials(all),
        })
        .collect()
}

/// The logarithmic percentile plot: what the slowest share of all queries sent had to wait for.
fn percentiles(limit: Nanos, all: &[Series], what: &str) -> Option<(String, String)> {
    // Ten queries in the slowest share drawn: beyond that it is single queries.
    let most = all.iter().map(|s| s.sample.sent).fold(0.0, f64::max);
    let last = (10.0 / most).clamp(1e-6, 0.1);
    let steps = (-last.log10() * 30.0).ceil() as i32;
    let shares: Vec<f64> = (0..=steps).map(|i| 10f64.powf(-f64::from(i) / 30.0).max(last)).collect();
    let deadline = limit as f64;
    let lines: Vec<Vec<(f64, f64)>> = all
        .iter()
        .map(|s| {
            let at = |share: &f64| Some((1.0 / share, s.sample.quantile(1.0 - share, limit)?.min(deadline)));
            shares.iter().filter(|share| **share * s.sample.sent >= 9.99).filter_map(at).collect()
        })
        .collect();
    let (low, high) = ends(lines.iter().flatten().map(|p| p.1))?;
    let percent = |x: f64| format::percent(100.0 / x);
    let decades =
        (0..=(-last.log10()).ceil() as i32).map(|p| 10f64.powi(p)).map(|x| (x, percent(x))).collect();
    let x = Axis {
        title: "slowest share of queries".into(),
        low: 1.0,
        high: 1.0 / last,
        log: true,
        ticks: decades,
    };
    let x = Axis { ticks: x.ticks.iter().filter(|t| t.0 <= x.high * 1.001).cloned().collect(), ..x };
    let mut plot = Plot::new(x, Axis::log("latency", low, high, tick));
    if high >= deadline {
        plot.level(deadline, &format!("deadline {}: not answered", format::duration(limit)));
    }
    for (s, line) in all.iter().zip(&lines) {
        plot.line(line, s.style, "");
    }
    let title = format!("Latency of the slowest queries, {what}");
    let about = format!(
        "For {}: latency (logarithmic, {} to {}) of the slowest share of queries, from all of them down to {}.",
        names(all),
        format::latency(low),
        format::latency(high),
        format::percent(last * 100.0)
    );
    let caption = format!(
        "Logarithmic percentiles, {what}: the slowest 1 % of all queries sent waited at least this long."
    );
    Some((caption, plot.finish(&title, &about)))
}

/// The cumulative distribution over all queries sent: it ends below 100 % where queries were lost.
pub(crate) fn cumulative(limit: Nanos, all: &[Series], what: &str) -> Option<(String, String)> {
    let (low, high) = ends(all.iter().flat_map(|s| {
        [s.sample.quantile(0.0005, limit).unwrap_or(0.0), s.sample.histogram.max().min(limit) as f64]
    }))?;
    let x = Axis::log("latency", low, high, tick);
    let y = Axis::linear("share of queries answered", 100.0, |v| format!("{v:.0} %"));
    let steps = 160;
    let at = |i: i32| x.low * (x.high / x.low).powf(f64::from(i) / f64::from(steps));
    let xs: Vec<f64> = (0..=steps).map(at).collect();
    let mut plot = Plot::new(x, y);
    for s in all {
        let point = |x: &f64| (*x, s.sample.share_within((*x as Nanos).min(limit)) * 100.0);
        plot.line(&xs.iter().map(point).collect::<Vec<_>>(), s.style, "");
    }
    let title = format!("Cumulative distribution of latency, {what}");
    let about = format!(
        "For {}: share of all queries sent that were answered within the latency on the x axis (logarithmic).",
        names(all)
    );
    Some((format!("Cumulative distribution over all queries sent, {what}."), plot.finish(&title, &about)))
}

/// The cumulative distribution of the sizes of answers of each server; none where no trial has it.
pub(crate) fn answer_sizes(run: &Run, cells: &[&Cell], id: &str, what: &str) -> Option<Figure> {
    let sizes_of = |cell: &&Cell| {
        let used = cell.used();
        Some(Sizes {
            style: run.style(&cell.key.server),
            label: cell.key.server.clone(),
            sizes: sizes(&used)?,
            trials: used.iter().map(|t| t.id).collect(),
        })
    };
    size_distribution(&cells.iter().filter_map(sizes_of).collect::<Vec<_>>(), &format!("{id}-sizes"), what)
}

/// A line of sizes of answers.
pub(crate) struct Sizes {
    pub style: usize,
    pub label: String,
    /// In octets.
    pub sizes: Histogram,
    pub trials: Vec<u32>,
}

/// The sizes of the answers of some trials together; none where one does not have them.
pub(crate) fn sizes(trials: &[&TrialRecord]) -> Option<Histogram> {
    let mut all = Histogram::default();
    for trial in trials {
        all.merge(trial.outcome.histogram("answer_size")?);
    }
    (all.count() > 0).then_some(all)
}

/// The cumulative distribution of sizes of answers, as in RZAIA's figure 6.10.
pub(crate) fn size_distribution(all: &[Sizes], id: &str, what: &str) -> Option<Figure> {
    let longest = all.iter().map(|s| s.sizes.max()).max()?;
    let x = Axis::linear("octets of the answer", longest as f64, |v| format!("{v:.0}"));
    let steps = 240;
    let xs: Vec<f64> = (0..=steps).map(|i| x.high * f64::from(i) / f64::from(steps)).collect();
    let mut plot = Plot::new(x, Axis::linear("share of answers", 100.0, |v| format!("{v:.0} %")));
    for line in all {
        let points: Vec<_> = xs.iter().map(|x| (*x, 100.0 * line.sizes.share_below(*x as Nanos))).collect();
        plot.line(&points, line.style, "");
    }
    let names: Vec<String> = all.iter().map(|line| line.label.clone()).collect();
    let about = format!(
        "For {}: share of the answers that are at most as long as the number of octets on the x axis, up to {longest}.",
        format::list(&names)
    );
    let entry = |line: &Sizes| Entry { swatch: svg::swatch(line.style, ""), text: line.label.clone() };
    Some(Figure {
        id: id.to_owned(),
        caption: format!("Sizes of the answers, {what}: the share that is at most as long."),
        svg: plot.finish(&format!("Sizes of the answers, {what}"), &about),
        legend: all.iter().map(entry).collect(),
        trials: all.iter().flat_map(|line| line.trials.iter().copied()).collect(),
    })
}

/// RZAIA's "actual distribution": the share of queries at each latency.
pub(crate) fn actual(all: &[Series], what: &str) -> Option<(String, String)> {
    const BINS: i32 = 75;
    let quantiles = |q: f64| {
        all.iter()
            .filter(|s| s.sample.histogram.count() > 0)
            .map(move |s| s.sample.histogram.quantile(q) as f64)
    };
    let (fastest, _) = ends(quantiles(0.5))?;
    let (_, slowest) = ends(quantiles(0.99))?;
    let (first, _) = ends(quantiles(0.001))?;
    // As the paper does: a logarithmic axis where the servers are far apart.
    let log = slowest / fastest > 12.0;
    let x = if log {
        Axis::log("latency", first, slowest * 1.2, tick)
    } else {
        let (_, wide) = ends(quantiles(0.99)).unwrap_or((0.0, 1e6));
        let unit = if wide < 1e6 { (1e3, "µs") } else { (1e6, "ms") };
        let mut axis =
            Axis::linear(&format!("latency ({})", unit.1), wide * 1.1 / unit.0, format::significant);
        axis.high *= unit.0;
        axis.ticks.iter_mut().for_each(|t| t.0 *= unit.0);
        axis.ticks.iter_mut().for_each(|t| t.1 = tick_number(&t.1));
        axis
    };
    let edge = |i: i32| {
        let t = f64::from(i) / f64::from(BINS);
        if log { x.low * (x.high / x.low).powf(t) } else { x.high * t }
    };
    let lines: Vec<Vec<(f64, f64)>> = all
        .iter()
        .map(|s| {
            (0..BINS)
                .flat_map(|i| {
                    let within = |e: f64| if e <= 0.0 { 0.0 } else { s.sample.share_within(e as Nanos) };
                    let share = (within(edge(i + 1)) - within(edge(i))) * 100.0;
                    [(edge(i), share), (edge(i + 1), share)]
                })
                .collect()
        })
        .collect();
    let (_, high) = ends(lines.iter().flatten().map(|p| p.1))?;
    let mut plot = Plot::new(
        x.clone(),
        Axis::linear("share of queries", high, |v| format!("{} %", tick_number(&format::significant(v)))),
    );
    for (s, line) in all.iter().zip(&lines) {
        plot.line(line, s.style, "steps");
        // One marker, at the most frequent latency: elsewhere it would sit on the axis.
        if let Some(top) = line.chunks(2).max_by(|a, b| a[0].1.total_cmp(&b[0].1)) {
            plot.point(f64::midpoint(top[0].0, top[1].0), top[0].1, s.style, false);
        }
    }
    let beyond: Vec<String> = all
        .iter()
        .map(|s| (s, 100.0 * (1.0 - s.sample.share_within(x.high as Nanos))))
        .filter(|(_, rest)| *rest > 0.0)
        .map(|(s, rest)| format!("{} {}", s.label, format::percent(rest)))
        .collect();
    let outside = if beyond.is_empty() {
        String::new()
    } else {
        format!(" Slower than the axis, or lost: {}.", beyond.join(", "))
    };
    let width = if log {
        "75 bins of equal ratio".to_owned()
    } else {
        format!("bins of {}", format::latency(x.high / f64::from(BINS)))
    };
    let title = format!("Actual distribution of latency, {what}");
    let about = format!("For {}: share of all queries sent in each bin of latency.", names(all));
    Some((format!("Actual distribution, {what}, in {width}.{outside}"), plot.finish(&title, &about)))
}

/// A number without zeros at its end.
pub(crate) fn tick_number(text: &str) -> String {
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        text.to_owned()
    }
}

/// A count or a rate on an axis: `250 K`, `10 M`.
pub(crate) fn count_tick(v: f64) -> String {
    if v >= 1e9 {
        format!("{} G", tick_number(&format::significant(v / 1e9)))
    } else if v >= 1e6 {
        format!("{} M", tick_number(&format::significant(v / 1e6)))
    } else if v >= 1e3 {
        format!("{} K", tick_number(&format::significant(v / 1e3)))
    } else {
        tick_number(&format::significant(v))
    }
}

/// Bars of the capacities on one zone, with the span of their loads; of runs that have none, of the searches' peaks. What is not
/// proven has no bar. Below them the published ones, where `with_past` asks for it.
pub(crate) fn peaks(run: &Run, cells: &[&Cell], id: &str, what: &str, with_past: bool) -> Option<Figure> {
    let capacity = cells.iter().any(|c| peak::Capacity::of(c).is_some());
    let mut bars: Vec<Bar> = cells
        .iter()
        .filter_map(|cell| {
            let (figure, range) = peak::proven(cell)?;
            let value = figure.value;
            let invalid = cell.state() == State::Invalid;
            let points = peak::each(cell);
            Some(Bar {
                name: cell.key.server.clone(),
                style: run.style(&cell.key.server),
                value,
                text: format!("{}{}", format::significant(value), if invalid { " invalid" } else { "" }),
                bounds: Some(range),
                points: if points.len() > 1 { points } else { Vec::new() },
                class: if invalid { "invalid" } else { "" },
            })
        })
        .collect();
    bars.sort_by(|a, b| b.value.total_cmp(&a.value));
    if bars.is_empty() {
        return None;
    }
    let (past, tables) = if with_past { past::peaks(run) } else { Default::default() };
    bars.extend(past);
    let (_, high) = ends(bars.iter().flat_map(|b| [b.value, b.bounds.map_or(0.0, |x| x.1)]))?;
    let axis = Axis::linear("queries/s", high, count_tick);
    let about = bars
        .iter()
        .map(|b| format!("{}: {} queries per second", b.name, b.text))
        .collect::<Vec<_>>()
        .join("; ");
    let title = if capacity { "Capacity" } else { "Highest rate within the loss goal" };
    let svg = svg::bars(&axis, &bars, &format!("{title}, {what}"), &about);
    let trials = cells.iter().flat_map(|c| c.used().into_iter().map(|t| t.id)).collect();
    let dots = if bars.iter().any(|b| !b.points.is_empty()) { "; dots: single trials" } else { "" };
    let whiskers = if capacity {
        "the least and the most of the loads"
    } else {
        "the searches’ lower and upper bounds"
    };
    let unknown: Vec<String> = cells
        .iter()
        .filter(|c| peak::proven(c).is_none())
        .map(|c| format!("{} {}", c.key.server, peak::words(c)))
        .collect();
    let unknown = if unknown.is_empty() {
        String::new()
    } else {
        format!(" Not proven, and so without a bar: {}.", unknown.join("; "))
    };
    let mut caption = format!("{title}, {what}. Whiskers: {whiskers}{dots}.{unknown}");
    for table in tables {
        let software = table.software.split([',', ';']).next().unwrap_or_default();
        let dots = match table.column_title.to_lowercase() {
            title if title.is_empty() => String::new(),
            title => format!("; dots: its {title}s"),
        };
        let (source, by) = (table.short_source(), table.row_titles.join(" and "));
        caption +=
            &format!(" Hollow: {source}, {} ({software}), by {by}{dots}.", summary::table_name(&table.place));
    }
    Some(Figure { id: format!("{id}-peak"), caption, svg, legend: Vec::new(), trials })
}

/// The response curve: answered against offered rate, for every load that the searches tried.
pub(crate) fn response(run: &Run, cells: &[&Cell], id: &str, what: &str) -> Option<Figure> {
    /// Offered and answered queries per second, and whether the load is evidence.
    type Load = (f64, f64, bool);
    let all: Vec<(&&Cell, Vec<Load>)> = cells
        .iter()
        .map(|c| {
            let tried = peak::tried(c).into_iter();
            let mut points: Vec<_> = tried.filter_map(|t| Some((t.offered, t.answered?, t.valid))).collect();
            points.sort_by(|a, b| a.0.total_cmp(&b.0));
            (c, points)
        })
        .filter(|(_, points)| !points.is_empty())
        .collect();
    let points = || all.iter().flat_map(|(_, points)| points);
    let (_, high) = ends(points().map(|p| p.0))?;
    let (_, most) = ends(points().map(|p| p.1))?;
    let (x, y) = (
        Axis::linear("offered queries/s", high, count_tick),
        Axis::linear("answered queries/s", most, count_tick),
    );
    let end = x.high.min(y.high);
    let mut plot = Plot::new(x, y);
    plot.line(&[(0.0, 0.0), (end, end)], 6, "second");
    for (cell, points) in &all {
        let style = run.style(&cell.key.server);
        let line: Vec<_> = points.iter().filter(|p| p.2).map(|p| (p.0, p.1)).collect();
        plot.line(&line, style, "plain");
        points.iter().for_each(|p| plot.point(p.0, p.1, style, !p.2));
    }
    let faint = if points().any(|p| !p.2) { " Faint: not sound, or disturbed by the machine." } else { "" };
    let mut legend = vec![Entry { swatch: svg::swatch(6, "second"), text: "all answered".into() }];
    legend.extend(all.iter().map(|(c, _)| Entry {
        swatch: svg::swatch(run.style(&c.key.server), ""),
        text: c.key.server.clone(),
    }));
    let about = format!("{} loads: answered by offered rate.", points().count());
    let svg = plot.finish(&format!("Response curve, {what}"), &about);
    Some(Figure {
        id: format!("{id}-response"),
        caption: format!("Response curve, {what}: answered against offered rate.{faint}"),
        svg,
        legend,
        trials: all.iter().flat_map(|(c, _)| c.used().into_iter().map(|t| t.id)).collect(),
    })
}

/// Offered rate against loss for every load that the searches tried.
pub(crate) fn searches(run: &Run, cells: &[&Cell], id: &str, what: &str) -> Option<Figure> {
    const FLOOR: f64 = 1e-5;
    let all: Vec<(&&Cell, Vec<peak::Tried>)> = cells.iter().map(|c| (c, peak::tried(c))).collect();
    let (_, high) = ends(all.iter().flat_map(|(_, p)| p).map(|p| p.offered))?;
    let ticks =
        [(FLOOR, "none"), (1e-4, "0.01 %"), (1e-3, "0.1 %"), (1e-2, "1 %"), (1e-1, "10 %"), (1.0, "100 %")];
    let ticks = ticks.map(|(v, t)| (v, t.to_owned())).to_vec();
    let y = Axis { title: "loss".into(), low: FLOOR / 2.0, high: 1.0, log: true, ticks };
    let mut plot = Plot::new(Axis::linear("offered queries/s", high, count_tick), y);
    if let Some(goal) = run.planned("peak.loss").and_then(|l| l.parse::<f64>().ok()).filter(|g| *g > FLOOR) {
        plot.level(goal, "goal");
    }
    for (cell, points) in &all {
        let style = run.style(&cell.key.server);
        points.iter().for_each(|p| plot.point(p.offered, p.loss.max(FLOOR), style, !p.valid));
    }
    let unsound = all.iter().any(|(_, p)| p.iter().any(|p| !p.valid));
    let faint = if unsound {
        " Faint: the generator was not able to offer it soundly, or the machine disturbed it."
    } else {
        ""
    };
    let shown: Vec<&&Cell> = all.iter().filter(|(_, p)| !p.is_empty()).map(|(c, _)| *c).collect();
    let legend = shown
        .iter()
        .map(|c| Entry { swatch: svg::swatch(run.style(&c.key.server), ""), text: c.key.server.clone() })
        .collect();
    let tried: usize = all.iter().map(|(_, p)| p.len()).sum();
    let about = format!(
        "{tried} loads tried: offered rate against loss ratio (logarithmic; 'none' is no loss at all)."
    );
    let caption = format!("Loads tried by the searches, {what}: offered rate against loss.{faint}");
    let svg = plot.finish(&format!("Offered rate against loss, {what}"), &about);
    Some(Figure {
        id: format!("{id}-searches"),
        caption,
        svg,
        legend,
        trials: shown.iter().flat_map(|c| c.used().into_iter().map(|t| t.id)).collect(),
    })
}

/// `1.00 GiB` as `1 GiB`.
pub(crate) fn trim(text: &str) -> String {
    let (number, rest) = text.split_once(' ').map_or((text, ""), |(n, r)| (n, r));
    let number = tick_number(number);
    if rest.is_empty() { number } else { format!("{number} {rest}") }
}
