//! Figures over the zone's size, or over the CPUs of the server: a line for each server on one type of zone, and the paper's own,
//! dashed, beside it.

use crate::cells::{self, Cell, Key, Run, State};
use crate::hardware::nanoseconds;
use crate::past::{self, Past};
use crate::plots::{self, Entry, Figure, Group, trim};
use crate::svg::{self, Axis, Plot};
use crate::{costs, format};
use measure::metrics::{self, Definition};
use measure::{hardware, units};
use results::published::{Relation, Table};

/// A published table and the heading of one of its rows, for a kind of server and the zone of a cell.
type Published = Box<dyn Fn(&str, &Key) -> Option<(&'static Table, Vec<String>)>>;

/// What a figure is drawn over.
struct Over {
    id: &'static str,
    /// `over the zone’s size`.
    title: &'static str,
    /// The axis.
    axis: &'static str,
    /// The place of a cell on it.
    of: fn(&Key) -> Option<u64>,
    /// The cells of one plot have this in common.
    row: fn(&Key) -> String,
}

const SIZE: Over = Over {
    id: "over",
    title: "over the zone’s size",
    axis: "delegations",
    of: |key| key.size,
    row: Key::row,
};

const CPUS: Over = Over {
    id: "cpus",
    title: "over the CPUs of the server",
    axis: "CPUs",
    of: |key| key.workers,
    // Zones of different sizes are in plots of their own.
    row: Key::zone,
};

const OCTETS: Over = Over {
    id: "octets",
    title: "over the memory that is used",
    axis: "octets",
    of: |key| key.size,
    row: |_| String::new(),
};

const THREADS: Over = Over {
    id: "threads",
    title: "over the threads",
    axis: "threads",
    of: |key| key.workers,
    row: |_| String::new(),
};

impl Over {
    fn logarithmic(&self, lines: &[Line]) -> Option<Axis> {
        let (first, last) = plots::ends(lines.iter().flat_map(Line::xs))?;
        Some(Axis::log(self.axis, first, last, |v| units::short(v as u64)))
    }
}

/// Something that may change as the zone grows.
struct Quantity {
    id: String,
    /// `Memory (PSS)`.
    title: String,
    /// As figures have it: `B`, `s`, `ns`, `%`, `1/s`.
    unit: &'static str,
    /// The divisor of the figures at an axis, so that its ticks are round.
    scale: f64,
    /// A value at an axis, divided.
    tick: fn(f64) -> String,
    /// How a published figure differs from ours, where it is not of the same thing.
    remark: &'static str,
    /// The published table of a kind of server, for the zones of a cell, and the row's heading.
    table: Published,
}

/// What a line is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Measured,
    Published,
    /// Estimated from what was measured.
    Model,
}

impl Kind {
    /// The class of its style.
    fn class(self) -> &'static str {
        match self {
            Self::Measured => "solid",
            Self::Published => "past",
            Self::Model => "second",
        }
    }
}

/// A line of a plot: its points, those of trials that are not valid, and those of which only a bound is known.
pub(crate) struct Line {
    name: String,
    style: usize,
    kind: Kind,
    pub points: Vec<(f64, f64)>,
    /// At a size: low and high.
    pub intervals: Vec<(f64, f64, f64)>,
    invalid: Vec<(f64, f64)>,
    /// At a size: the bound, and whether the value is above it.
    bounds: Vec<(f64, f64, bool)>,
}

impl Line {
    pub fn new(name: String, style: usize) -> Self {
        let (points, intervals) = (Vec::new(), Vec::new());
        Self { name, style, kind: Kind::Measured, points, intervals, invalid: Vec::new(), bounds: Vec::new() }
    }

    pub fn of_past(past: &Past, style: usize) -> Self {
        let mut line = Self { kind: Kind::Published, ..Self::new(past.name.clone(), style) };
        for (size, value, relation) in &past.points {
            match relation {
                Relation::Above => line.bounds.push((*size, *value, true)),
                Relation::Below => line.bounds.push((*size, *value, false)),
                Relation::Exactly | Relation::About | Relation::Missing => line.points.push((*size, *value)),
            }
        }
        line
    }

    /// All values that must be on the axis.
    pub fn ys(&self) -> impl Iterator<Item = f64> {
        let intervals = self.intervals.iter().flat_map(|i| [i.1, i.2]);
        let single = self.points.iter().chain(&self.invalid).map(|p| p.1);
        single.chain(self.bounds.iter().map(|b| b.1)).chain(intervals)
    }

    /// What a model says beyond the points of another line.
    pub fn of_model(name: String, style: usize, points: Vec<(f64, f64)>) -> Self {
        Self { kind: Kind::Model, points, ..Self::new(name, style) }
    }

    pub fn divided(mut self, by: f64) -> Self {
        self.points.iter_mut().chain(&mut self.invalid).for_each(|p| p.1 /= by);
        self.intervals.iter_mut().for_each(|i| (i.1, i.2) = (i.1 / by, i.2 / by));
        self.bounds.iter_mut().for_each(|b| b.1 /= by);
        self
    }

    pub fn xs(&self) -> impl Iterator<Item = f64> {
        self.points.iter().chain(&self.invalid).map(|p| p.0).chain(self.bounds.iter().map(|b| b.0))
    }
}

/// A group of figures for each quantity that the run has at two sizes or more.
pub(crate) fn groups(run: &Run) -> Vec<Group> {
    let by_family = |bind: &'static str, nsd: &'static str| {
        move |kind: &str, key: &Key| Some((costs::table(bind, nsd, kind)?, vec![key.family.clone()]))
    };
    let selection = |measure: &'static str, metric: Definition| {
        (move |c: &Cell| c.key.is(measure), move |c: &Cell| c.metric(metric))
    };
    let memory = |id: &str, title: &str, remark| Quantity {
        id: id.into(),
        title: title.into(),
        unit: "B",
        scale: (1u64 << 30) as f64,
        tick: |v| format!("{} GiB", plots::tick_number(&format::significant(v))),
        remark,
        table: Box::new(by_family("rzaia-2.1", "rzaia-2.2")),
    };
    let time = |id: &str, title: &str, bind, nsd| Quantity {
        id: id.into(),
        title: title.into(),
        unit: "s",
        scale: 1.0,
        tick: |v| trim(&format::seconds(v)),
        remark: "",
        table: Box::new(by_family(bind, nsd)),
    };
    let mut all = Vec::new();
    let pss = memory("pss", "Memory (PSS)", "virtual size");
    let (keep, value) = selection("memory", metrics::SERVER_PSS);
    all.extend(group(run, &pss, &SIZE, keep, value));
    all.extend(relative(run, &pss, keep, value));
    let (keep, value) = selection("memory", metrics::SERVER_VIRTUAL);
    all.extend(group(run, &memory("virtual", "Virtual size", ""), &SIZE, keep, value));
    let start = time("start", "Time from the start to the first right answer", "rzaia-4.1", "rzaia-4.3");
    let (keep, value) = selection("load", metrics::SERVER_READY);
    all.extend(group(run, &start, &SIZE, keep, value));
    all.extend(relative(run, &start, keep, value));
    let reload = time("reloading", "Time to reload", "rzaia-4.2", "rzaia-4.4");
    let (keep, value) = selection("load", metrics::RELOAD_SECONDS);
    all.extend(group(run, &reload, &SIZE, keep, value));
    all.extend(relative(run, &reload, keep, value));
    for rate in run.distinct("latency", |k| k.rate.clone()).into_iter().flatten() {
        all.extend(latency(run, &rate));
    }
    let peak = Quantity {
        id: "peak".into(),
        title: "Capacity".into(),
        unit: "1/s",
        scale: 1.0,
        tick: plots::count_tick,
        remark: "",
        table: Box::new(|_, _| None),
    };
    let proven = |c: &Cell| crate::peak::proven(c).map(|(figure, _)| figure);
    all.extend(group(run, &peak, &SIZE, |c| c.key.is("peak"), proven));
    all.extend(group(run, &peak, &CPUS, |c| c.key.is("peak"), proven));
    let answered =
        Quantity { id: "answered".into(), title: "Answers per second with a window".into(), ..peak };
    let (keep, value) = selection("throughput", metrics::ANSWERED_QPS);
    all.extend(group(run, &answered, &CPUS, keep, value));
    all.extend(machine(run));
    all
}

/// The plots of a machine without a server.
fn machine(run: &Run) -> Vec<Group> {
    let quantity = |id: &str, title: &str, unit, tick| Quantity {
        id: id.into(),
        title: title.into(),
        unit,
        scale: 1.0,
        tick,
        remark: "",
        table: Box::new(|_, _| None),
    };
    let of_test = |test: &'static str, metric: Definition| {
        (
            move |c: &Cell| c.key.is(hardware::MEASURE) && c.key.family == test,
            move |c: &Cell| c.metric(metric),
        )
    };
    let gigaoctets = |v: f64| trim(&format!("{} GB/s", format::significant(v / 1e3)));
    let mut all = Vec::new();
    let (keep, value) = of_test(hardware::LATENCY, metrics::OPERATION_TIME);
    all.extend(group(
        run,
        &quantity("memory-latency", "Memory latency", "ns", |v| trim(&nanoseconds(v))),
        &OCTETS,
        keep,
        value,
    ));
    let (keep, value) = of_test(hardware::COPY, metrics::BANDWIDTH);
    all.extend(group(run, &quantity("copy", "Copies of memory", "MB/s", gigaoctets), &OCTETS, keep, value));
    let (keep, value) = of_test(hardware::STREAM, metrics::BANDWIDTH);
    all.extend(group(
        run,
        &quantity("stream", "Memory bandwidth (STREAM)", "MB/s", gigaoctets),
        &THREADS,
        keep,
        value,
    ));
    all
}

fn latency(run: &Run, rate: &str) -> Option<Group> {
    let qps = rate.parse::<f64>();
    // As in the tables: the paper's rate is the condition for its cells to stand beside.
    let table = run.published_table("rzaia-3.1").filter(|_| qps == Ok(5000.0));
    let heading = |kind: &str, key: &Key| {
        let signed = if key.signed { "signed" } else { "unsigned" };
        Some(vec![crate::grid::software(kind)?.to_owned(), signed.to_owned()])
    };
    let quantity = Quantity {
        id: format!("median-{rate}"),
        title: format!("Median latency at {}", qps.as_ref().map_or(rate.to_owned(), |r| format::rate(*r))),
        unit: "ns",
        scale: 1.0,
        tick: plots::tick,
        remark: "",
        table: Box::new(move |kind, key| Some((table?, heading(kind, key)?))),
    };
    let keep = |c: &Cell| c.key.is("latency") && c.key.rate.as_deref() == Some(rate);
    group(run, &quantity, &SIZE, keep, |c| c.latency(0.5, run.deadline))
}

/// Different kinds of zones among cells, in order of appearance.
fn rows(cells: &[&Cell], over: &Over) -> Vec<String> {
    cells::distinct(cells.iter().copied(), |c| (over.row)(&c.key))
}

/// A quantity's figures over something, one for each type of zone that was measured at two places or more.
fn group(
    run: &Run,
    quantity: &Quantity,
    over: &Over,
    keep: impl Fn(&Cell) -> bool,
    value: impl Fn(&Cell) -> Option<cells::Figure>,
) -> Option<Group> {
    let cells: Vec<&Cell> = run.cells.iter().filter(|c| keep(c)).collect();
    let figures = rows(&cells, over).into_iter().enumerate().filter_map(|(n, row)| {
        let of_row: Vec<&Cell> = cells.iter().filter(|c| (over.row)(&c.key) == row).copied().collect();
        let mut lines: Vec<Line> =
            run.servers.iter().filter_map(|s| measured(run, quantity, over, s, &of_row, &value)).collect();
        if !grows(&lines) {
            return None;
        }
        let mut notes = Vec::new();
        for (i, kind) in past::KINDS.iter().enumerate() {
            let Some((table, heading)) = (quantity.table)(kind, &of_row[0].key) else { continue };
            let heading: Vec<&str> = heading.iter().map(String::as_str).collect();
            if let Some(past) = past::past(table, kind, &heading, quantity.unit) {
                let style = run.kinds().position(|of| of == *kind).unwrap_or(run.servers.len() + i);
                lines.push(Line::of_past(&past, style));
                notes.extend(past.notes);
            }
        }
        let lines: Vec<Line> = lines.into_iter().map(|l| l.divided(quantity.scale)).collect();
        let of_what = if row.is_empty() { row } else { format!(", {row}") };
        let what = format!("{} {}{of_what}", quantity.title, over.title);
        let (low, high) = plots::ends(lines.iter().flat_map(Line::ys))?;
        let y = Axis::log(&quantity.title, low, high, quantity.tick);
        let trials = of_row.iter().flat_map(|c| c.used().into_iter().map(|t| t.id)).collect();
        let id = format!("{}-{}-{n}", over.id, quantity.id);
        draw(&id, &what, quantity.remark, (over.logarithmic(&lines)?, y), &lines, &notes, trials)
    });
    let main: Vec<Figure> = figures.collect();
    let title = format!("{} {}", quantity.title, over.title);
    (!main.is_empty()).then(|| Group {
        id: format!("{}-{}", over.id, quantity.id),
        title,
        main,
        seconds: Vec::new(),
    })
}

/// Whether anything was measured at two sizes.
fn grows(lines: &[Line]) -> bool {
    let mut sizes: Vec<f64> = lines.iter().flat_map(Line::xs).collect();
    sizes.sort_by(f64::total_cmp);
    sizes.dedup();
    sizes.len() > 1
}

/// A server's line on one type of zone.
fn measured(
    run: &Run,
    quantity: &Quantity,
    over: &Over,
    server: &str,
    cells: &[&Cell],
    value: impl Fn(&Cell) -> Option<cells::Figure>,
) -> Option<Line> {
    let mut line = Line::new(server.to_owned(), run.style(server));
    let mut mine: Vec<&&Cell> = cells.iter().filter(|c| c.key.server == server).collect();
    mine.sort_by_key(|c| (over.of)(&c.key));
    for cell in mine {
        let (Some(size), Some(figure)) = ((over.of)(&cell.key), value(cell)) else { continue };
        let (size, deadline) = (size as f64, run.deadline as f64);
        if cell.state() != State::Valid {
            line.invalid.push((size, figure.value));
        } else if quantity.unit == "ns" && figure.value > deadline {
            line.bounds.push((size, deadline, true));
        } else {
            line.points.push((size, figure.value));
            line.intervals.extend(figure.interval.map(|i| (size, i.low, i.high)));
        }
    }
    let any = line.xs().next().is_some();
    any.then_some(line)
}

/// RZAIA's figures 2.3, 2.5, 4.2 and 4.4 to 4.6: each type of zone relative to the first one, server by server.
fn relative(
    run: &Run,
    quantity: &Quantity,
    keep: impl Fn(&Cell) -> bool,
    value: impl Fn(&Cell) -> Option<cells::Figure>,
) -> Option<Group> {
    let cells: Vec<&Cell> = run.cells.iter().filter(|c| keep(c)).collect();
    let families = rows(&cells, &SIZE);
    let base = families.iter().position(|f| f == costs::BASE)?;
    let figures = run.servers.iter().enumerate().filter_map(|(n, server)| {
        let (mut lines, mut notes) = (Vec::new(), Vec::new());
        let of_family = |family: &str| {
            let mine: Vec<&Cell> = cells.iter().filter(|c| c.key.row() == family).copied().collect();
            Some((measured(run, quantity, &SIZE, server, &mine, &value)?, mine[0]))
        };
        let (of_base, _) = of_family(&families[base])?;
        let over = |points: &[(f64, f64)], base: &[(f64, f64)]| -> Vec<(f64, f64)> {
            let at = |size: f64| base.iter().find(|p| p.0 == size).map(|p| p.1);
            points.iter().filter_map(|p| Some((p.0, p.1 / at(p.0)?))).collect()
        };
        let kind = run.kinds().nth(n)?;
        let published = |key: &Key| {
            let (table, heading) = (quantity.table)(kind, key)?;
            let heading: Vec<&str> = heading.iter().map(String::as_str).collect();
            past::past(table, kind, &heading, quantity.unit)
        };
        for (style, family) in families.iter().enumerate().filter(|(i, _)| *i != base) {
            let Some((line, cell)) = of_family(family) else { continue };
            let points = over(&line.points, &of_base.points);
            lines.push(Line { points, ..Line::new(family.clone(), style) });
            let key = Key { family: costs::BASE.into(), ..cell.key.clone() };
            if let (Some(past), Some(base)) = (published(&cell.key), published(&key)) {
                let (line, base) = (Line::of_past(&past, style), Line::of_past(&base, style));
                let points = over(&line.points, &base.points);
                let name = format!("{family}, {}", past.name);
                lines.push(Line { points, kind: Kind::Published, ..Line::new(name, style) });
                notes.extend(past.notes.iter().map(|note| format!("{family}, {note}")));
            }
        }
        lines.retain(|l| !l.points.is_empty());
        if !grows(&lines) {
            return None;
        }
        let what = format!("{} of {server} relative to {}", quantity.title, costs::BASE);
        let high = lines.iter().flat_map(Line::ys).fold(1.0, f64::max);
        let y =
            Axis::linear(&format!("times that of {}", costs::BASE), high, |v| trim(&format::significant(v)));
        let trials = cells.iter().filter(|c| c.key.server == *server);
        let trials = trials.flat_map(|c| c.used().into_iter().map(|t| t.id)).collect();
        let id = format!("relative-{}-{n}", quantity.id);
        draw(&id, &what, quantity.remark, (SIZE.logarithmic(&lines)?, y), &lines, &notes, trials)
    });
    let main: Vec<Figure> = figures.collect();
    let title = format!("{} relative to {}", quantity.title, costs::BASE);
    (!main.is_empty()).then(|| Group {
        id: format!("relative-{}", quantity.id),
        title,
        main,
        seconds: Vec::new(),
    })
}

/// Draws lines; published ones are dashed.
pub(crate) fn draw(
    id: &str,
    what: &str,
    remark: &str,
    (x, y): (Axis, Axis),
    lines: &[Line],
    notes: &[String],
    trials: Vec<u32>,
) -> Option<Figure> {
    let about = format!(
        "By {}{}, for {}.",
        x.title,
        if x.log { " (logarithmic)" } else { "" },
        format::list(&names(lines))
    );
    let mut plot = Plot::new(x, y);
    // Measured values are drawn last, so that they lie on top.
    let of = |kind| lines.iter().filter(move |line: &&Line| line.kind == kind);
    for line in of(Kind::Published).chain(of(Kind::Model)).chain(of(Kind::Measured)) {
        let class = line.kind.class();
        line.intervals.iter().for_each(|(x, low, high)| plot.interval(*x, *low, *high, line.style));
        line.bounds.iter().for_each(|(x, y, above)| plot.bound(*x, *y, line.style, *above, class));
        line.invalid.iter().for_each(|(x, y)| plot.point(*x, *y, line.style, true));
        plot.curve(&line.points, line.style, class);
    }
    let mut caption = format!("{what}.");
    if of(Kind::Published).next().is_some() {
        let remark = if remark.is_empty() { String::new() } else { format!(", {remark}") };
        caption += &format!(" Dashed: published{remark}, on that time’s hardware.");
    }
    if lines.iter().any(|l| !l.bounds.is_empty()) {
        caption += " An arrow stands where only a bound is known.";
    }
    if lines.iter().any(|l| !l.invalid.is_empty()) {
        caption += " Faint: no valid trial.";
    }
    if !notes.is_empty() {
        caption += &format!(" Published without a figure that could be drawn: {}.", notes.join("; "));
    }
    let legend = |l: &Line| Entry { swatch: svg::swatch(l.style, l.kind.class()), text: l.name.clone() };
    Some(Figure {
        id: id.to_owned(),
        svg: plot.finish(what, &about),
        caption,
        legend: lines.iter().map(legend).collect(),
        trials,
    })
}

fn names(lines: &[Line]) -> Vec<String> {
    lines.iter().map(|l| l.name.clone()).collect()
}
