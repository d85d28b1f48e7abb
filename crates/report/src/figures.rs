//! The papers' figures (`results::published::figures`), drawn of the runs that have their values: as a page, or as Markdown with a picture
//! each.
//!
//! Each line is of the run that has most to say of it: the one with the longest load, and of those with as long ones the one with most valid
//! trials. What no run has is named, with the command that measures it.

use crate::cells::{Figure as Value, Sample};
use crate::growth::{self, Line};
use crate::html::render;
use crate::plots::{self, Entry, Figure as Picture, Series, Sizes};
use crate::svg::{self, Axis, Bar, Plot};
use crate::{Error, cells, format, page, past};
use measure::clock::SECOND;
use measure::{Nanos, metrics, params, units};
use minijinja::context;
use minijinja::value::Serde;
use results::published::figures::{self, Curve, Draw, Figure, Log, Relative};
use results::{RunDir, TrialRecord, published};
use serde::Serialize;
use std::fmt::Write;

/// All figures of the papers, drawn as far as there are values.
#[derive(Debug, Serialize)]
pub struct Gallery {
    figures: Vec<Drawn>,
}

/// A figure.
#[derive(Debug, Serialize)]
struct Drawn {
    id: String,
    /// `RZAIA figure 3.2`.
    place: String,
    title: String,
    note: String,
    /// None where it is not drawn.
    pictures: Vec<Picture>,
    /// What each line is of.
    sources: Vec<String>,
    /// The lines that no run has.
    missing: Vec<String>,
    /// The command that measures these.
    command: Option<String>,
    /// It is a plot of measured values.
    plot: bool,
}

/// The trials of a line, of one run.
struct Found<'a> {
    run: &'a RunDir,
    trials: Vec<&'a TrialRecord>,
}

impl Found<'_> {
    /// `3 trials of 60 s of rzaia-latency`.
    fn words(&self) -> String {
        let length = self.length();
        let length = if length > 0 { format!(" of {}", format::duration(length)) } else { String::new() };
        format!("{}{length} of `{}`", format::plural(self.trials.len(), "trial"), folder(self.run))
    }

    fn length(&self) -> Nanos {
        self.trials.first().and_then(|t| cells::duration(t, params::DURATION)).unwrap_or(0)
    }

    fn ids(&self) -> Vec<u32> {
        self.trials.iter().map(|t| t.id).collect()
    }
}

fn folder(run: &RunDir) -> String {
    run.dir().file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// Draws every figure of the papers of these runs.
pub fn gallery(runs: &[RunDir]) -> Gallery {
    Gallery { figures: figures::all().iter().map(|figure| drawn(figure, runs)).collect() }
}

fn drawn(figure: &Figure, runs: &[RunDir]) -> Drawn {
    let (pictures, found) = pictures(figure, runs);
    let absent = |line: &usize| !found.iter().any(|(of, _)| of == line);
    let missing: Vec<usize> = (0..figure.lines.len()).filter(absent).collect();
    let mut sources: Vec<(String, Vec<String>)> = Vec::new();
    for (line, words) in &found {
        match sources.iter_mut().find(|(known, _)| known == words) {
            Some((_, lines)) => lines.push(figure.name(*line)),
            None => sources.push((words.clone(), vec![figure.name(*line)])),
        }
    }
    Drawn {
        id: figure.id.clone(),
        place: figure.place(),
        title: figure.title.clone(),
        note: figure.note.clone(),
        pictures,
        sources: sources.into_iter().map(|(words, lines)| format!("{}: {words}", lines.join(", "))).collect(),
        command: (!missing.is_empty()).then(|| command(figure, &missing)).flatten(),
        missing: missing.into_iter().map(|line| figure.name(line)).collect(),
        plot: figure.draw != Draw::Not,
    }
}

/// The command that measures some lines of a figure.
fn command(figure: &Figure, lines: &[usize]) -> Option<String> {
    const KEYS: [(&str, &str); 6] = [
        ("kind", "servers"),
        ("family", "zone.families"),
        ("zone_size", "zone.delegations"),
        ("rate", "latency.rates"),
        ("variant", "variants"),
        ("udp_size", "udp_size"),
    ];
    let mut words = format!("dnsrack run {}", figure.experiment.as_ref()?);
    for (parameter, key) in KEYS {
        let mut values: Vec<&str> = Vec::new();
        let of_lines = figure.by.iter().position(|name| name == parameter);
        let each = lines.iter().filter_map(|line| Some(figure.lines[*line][of_lines?].as_str()));
        let only = figure.only.get(parameter).into_iter().flatten().map(String::as_str);
        for value in each.chain(only).filter(|value| !value.is_empty()) {
            if !values.contains(&value) {
                values.push(value);
            }
        }
        let set = match (key, values.as_slice()) {
            (_, []) => continue,
            ("variants", several @ [_, _, ..]) => {
                let quoted: Vec<String> = several.iter().map(|value| format!("\"{value}\"")).collect();
                format!("{key}=[{}]", quoted.join(", "))
            }
            _ => format!("{key}={}", values.join(",")),
        };
        let plain = set.bytes().all(|b| b.is_ascii_alphanumeric() || b"=.,-+:#/".contains(&b));
        let _ = if plain { write!(words, " --set {set}") } else { write!(words, " --set '{set}'") };
    }
    Some(words)
}

/// The valid trials of a line for which `has` holds, run by run.
fn of_line<'a>(
    figure: &Figure,
    line: usize,
    runs: &'a [RunDir],
    has: impl Fn(&TrialRecord) -> bool,
) -> Vec<Found<'a>> {
    let belongs = |trial: &&TrialRecord| {
        // A parameter that a trial does not have is an empty one.
        let param = |name: &str| {
            let parameter = params::find(name)?;
            Some(trial.param(parameter).unwrap_or_default().to_owned())
        };
        trial.is_valid() && has(trial) && figure.line_of(&param) == Some(line)
    };
    let of_run = |run: &'a RunDir| {
        let trials = of_one_server(run.trials().iter().filter(belongs).collect());
        (!trials.is_empty()).then_some(Found { run, trials })
    };
    runs.iter().filter_map(of_run).collect()
}

/// The trials of one server, where a run compares several of a kind: of the machine's own, or else of the one whose label comes first.
fn of_one_server(trials: Vec<&TrialRecord>) -> Vec<&TrialRecord> {
    if trials.iter().any(|trial| trial.is_of_own_server()) {
        return trials.into_iter().filter(|trial| trial.is_of_own_server()).collect();
    }
    let first = trials.iter().map(|trial| trial.param(params::SERVER)).min();
    trials.into_iter().filter(|trial| Some(trial.param(params::SERVER)) == first).collect()
}

/// The run that has most to say.
fn best(found: Vec<Found<'_>>) -> Option<Found<'_>> {
    found.into_iter().max_by_key(|found| (found.length(), found.trials.len()))
}

/// The pictures of a figure, and for each line that was found what it is of.
fn pictures(figure: &Figure, runs: &[RunDir]) -> (Vec<Picture>, Vec<(usize, String)>) {
    let all = |has: &dyn Fn(&TrialRecord) -> bool| -> Vec<(usize, Found<'_>)> {
        let lines = 0..figure.lines.len();
        lines.filter_map(|line| Some((line, best(of_line(figure, line, runs, has))?))).collect()
    };
    let words = |found: &[(usize, Found<'_>)]| found.iter().map(|(line, f)| (*line, f.words())).collect();
    match &figure.draw {
        Draw::Latency { apart } => {
            let found = all(&|t| Sample::of(t).is_some());
            (latencies(figure, &found, *apart), words(&found))
        }
        Draw::Sizes => {
            let found = all(&|t| t.outcome.histogram("answer_size").is_some());
            let line = |(line, found): &(usize, Found<'_>)| {
                let sizes = plots::sizes(&found.trials)?;
                Some(Sizes { style: *line, label: figure.name(*line), sizes, trials: found.ids() })
            };
            let lines: Vec<Sizes> = found.iter().filter_map(line).collect();
            let picture = plots::size_distribution(&lines, &figure.id, "from a signed root zone");
            (picture.into_iter().collect(), words(&found))
        }
        Draw::Time { of, over } => {
            let found = all(&|t| t.series.iter().any(|row| row.metric == *of));
            (over_time(figure, &found, of, over).into_iter().collect(), words(&found))
        }
        Draw::Bars { metric } => {
            let found = all(&|t| t.outcome.metric_named(metric).is_some());
            (bars(figure, &found, metric).into_iter().collect(), words(&found))
        }
        Draw::Curve(curve) => curves(figure, curve, runs),
        Draw::Not => (Vec::new(), Vec::new()),
    }
}

/// The actual and the cumulative distribution of latencies.
fn latencies(figure: &Figure, found: &[(usize, Found<'_>)], apart: bool) -> Vec<Picture> {
    let mut lines: Vec<Series> = Vec::new();
    for (line, found) in found {
        let parts: Vec<Vec<&TrialRecord>> = match apart {
            true => found.trials.iter().map(|trial| vec![*trial]).collect(),
            false => vec![found.trials.clone()],
        };
        for (n, trials) in parts.iter().enumerate() {
            let Some(sample) = Sample::of_all(trials) else { continue };
            let name = figure.name(*line);
            let label = if apart { format!("{name}, replay {}", n + 1) } else { name };
            let style = if apart { lines.len() } else { *line };
            lines.push(Series { style, label, sample, trials: trials.iter().map(|t| t.id).collect() });
        }
    }
    let deadline = found.iter().flat_map(|(_, found)| &found.trials);
    let deadline = deadline.filter_map(|t| cells::duration(t, params::DEADLINE)).max().unwrap_or(4 * SECOND);
    let both = [plots::actual(&lines, &figure.place()), plots::cumulative(deadline, &lines, &figure.place())];
    let picture = |(n, (caption, svg)): (usize, (String, String))| Picture {
        id: format!("{}-{n}", figure.id),
        caption,
        svg,
        legend: plots::legend(&lines),
        trials: plots::trials(&lines),
    };
    both.into_iter().flatten().enumerate().map(picture).collect()
}

/// A measured line of a figure.
struct Measured {
    /// Its place among the figure's lines.
    of: usize,
    line: Line,
    /// The runs and the numbers of trials that its points come from.
    words: String,
    /// The trials of its points.
    ids: Vec<u32>,
}

/// The measured lines of a metric over a parameter. A point is of one run.
fn measured_lines<'a>(figure: &Figure, curve: &Curve, runs: &'a [RunDir]) -> Vec<Measured> {
    let Some(parameter) = params::find(&curve.x) else { return Vec::new() };
    let at = |trial: &TrialRecord| {
        let text = trial.param(parameter)?;
        units::count(text).ok().map(|n| n as f64).or_else(|| text.parse().ok())
    };
    let value = |trial: &TrialRecord| trial.outcome.metric_named(&curve.y);
    let of_line = |n: usize| of_line(figure, n, runs, |t| value(t).is_some() && at(t).is_some());
    let part = |found: &Found<'a>, x: f64| {
        let trials: Vec<_> = found.trials.iter().copied().filter(|t| at(t) == Some(x)).collect();
        (!trials.is_empty()).then_some(Found { run: found.run, trials })
    };
    let measured =
        |found: &Found<'a>| Value::of(&found.trials.iter().filter_map(|t| value(t)).collect::<Vec<f64>>());
    let bases = curve.relative.map_or(Vec::new(), |_| of_line(0));
    let mut lines = Vec::new();
    for n in 0..figure.lines.len() {
        let of_runs = of_line(n);
        let mut xs: Vec<f64> = of_runs.iter().flat_map(|f| &f.trials).filter_map(|t| at(t)).collect();
        xs.sort_by(f64::total_cmp);
        xs.dedup();
        // What a run's value at x is divided by is of the same run: other runs are of other machines.
        let base = |run: &RunDir, x: f64| {
            let (of, x) = match curve.relative {
                None => return Some(1.0),
                Some(Relative::Line) => (&bases, x),
                Some(Relative::Start) => (&of_runs, *xs.first()?),
            };
            let found = of.iter().find(|f| std::ptr::eq(f.run, run))?;
            Some(measured(&part(found, x)?)?.value)
        };
        let (mut line, mut ids) = (Line::new(figure.name(n), n), Vec::new());
        let mut used: Vec<String> = Vec::new();
        for &x in &xs {
            let here = of_runs.iter().filter_map(|f| part(f, x)).filter(|f| base(f.run, x).is_some());
            let Some(here) = best(here.collect()) else { continue };
            let (Some(figure), Some(base)) = (measured(&here), base(here.run, x)) else { continue };
            line.points.push((x, figure.value / base));
            let interval = figure.interval.filter(|_| curve.relative.is_none());
            line.intervals.extend(interval.map(|i| (x, i.low, i.high)));
            ids.extend(here.ids());
            let words = here.words();
            if !used.contains(&words) {
                used.push(words);
            }
        }
        if !line.points.is_empty() {
            lines.push(Measured { of: n, line, words: used.join(", "), ids });
        }
    }
    lines
}

/// A metric over a parameter: measured, published, and as a model has it.
fn curves(figure: &Figure, curve: &Curve, runs: &[RunDir]) -> (Vec<Picture>, Vec<(usize, String)>) {
    let unit = metrics::describe(&curve.y).map_or("1", |(unit, _)| unit);
    let (mut lines, mut found, mut ids) = (Vec::new(), Vec::new(), Vec::new());
    for measured in measured_lines(figure, curve, runs) {
        lines.push((measured.of, measured.line));
        found.push((measured.of, measured.words));
        ids.extend(measured.ids);
    }
    let mut published = as_published(figure, curve, unit);
    let (models, notes) = models(figure, curve, &lines, &published);
    if let Some(relative) = curve.relative {
        make_relative(&mut published, relative);
    }
    let mut all: Vec<Line> = lines.into_iter().chain(published).chain(models).map(|(_, line)| line).collect();
    all.retain(|line| !line.points.is_empty());
    let picture = axes(curve, unit, &mut all)
        .and_then(|axes| growth::draw(&figure.id, &figure.place(), "", axes, &all, &[], ids))
        .map(|mut picture| {
            if !notes.is_empty() {
                picture.caption += &format!(
                    " Dotted: a model, not measured: a constant and so much for each delegation. From the smaller sizes it predicts the \
                     largest measured one to within: {}.",
                    notes.join(", ")
                );
            }
            picture
        });
    (picture.into_iter().collect(), found)
}

/// The published lines beside those of a figure.
fn as_published(figure: &Figure, curve: &Curve, unit: &str) -> Vec<(usize, Line)> {
    let Some(table) = curve.table.as_deref().and_then(published::find) else { return Vec::new() };
    let kind = figure.only.get("kind").and_then(|kinds| kinds.first()).map_or("", String::as_str);
    let of_line = |n: usize| {
        let past = match figure.by.as_slice() {
            [name] if name == "family" => past::past(table, kind, &[&figure.lines[n][0]], unit),
            _ => past::by_row(table, unit),
        };
        let mut past = past?;
        past.name = format!("{}, {}", figure.name(n), table.short_source());
        Some((n, Line::of_past(&past, n)))
    };
    (0..figure.lines.len()).filter_map(of_line).collect()
}

/// What models say between the greatest measured x and the greatest published one, and how far they may be off.
fn models(
    figure: &Figure,
    curve: &Curve,
    lines: &[(usize, Line)],
    published: &[(usize, Line)],
) -> (Vec<(usize, Line)>, Vec<String>) {
    let Some(to) = published.iter().flat_map(|(_, line)| line.xs()).max_by(f64::total_cmp) else {
        return Default::default();
    };
    let (mut all, mut notes) = (Vec::new(), Vec::new());
    for (n, line) in lines.iter().filter(|_| curve.model) {
        let Some(last) = line.points.last().filter(|last| last.0 < to) else { continue };
        let Some(model) = stats::model::Line::through(&line.points) else { continue };
        let name = figure.name(*n);
        notes.push(format!("{name} {}", format::percent(100.0 * model.error)));
        let points = vec![(last.0, model.at(last.0)), (to, model.at(to))];
        all.push((*n, Line::of_model(format!("{name}, model"), *n, points)));
    }
    (all, notes)
}

/// Divides published lines by what they are compared with.
fn make_relative(lines: &mut [(usize, Line)], relative: Relative) {
    let base: Vec<(f64, f64)> = match relative {
        Relative::Line => {
            lines.iter().find(|(n, _)| *n == 0).map(|(_, l)| l.points.clone()).unwrap_or_default()
        }
        Relative::Start => Vec::new(),
    };
    for (_, line) in lines {
        let first = line.points.first().map(|p| p.1);
        let of = |x: f64| match relative {
            Relative::Line => base.iter().find(|p| p.0 == x).map(|p| p.1),
            Relative::Start => first,
        };
        line.points = line.points.iter().filter_map(|(x, y)| Some((*x, y / of(*x)?))).collect();
    }
}

/// The axes of a curve; its lines are divided where their unit has another step than ten.
fn axes(curve: &Curve, unit: &str, lines: &mut Vec<Line>) -> Option<(Axis, Axis)> {
    let gibibytes = unit == "B" && curve.relative.is_none();
    if gibibytes {
        let divided = std::mem::take(lines).into_iter().map(|line| line.divided((1u64 << 30) as f64));
        *lines = divided.collect();
    }
    let (first, last) = plots::ends(lines.iter().flat_map(Line::xs))?;
    let (low, high) = plots::ends(lines.iter().flat_map(Line::ys))?;
    let share = curve.x == params::PATH_LOSS.name();
    let x = match curve.log {
        Log::Both | Log::X => Axis::log(&curve.x_title, first, last, plots::count_tick),
        Log::None if share => {
            Axis::linear(&curve.x_title, last, |v| format!("{} %", plots::count_tick(100.0 * v)))
        }
        Log::None => Axis::linear(&curve.x_title, last, plots::count_tick),
    };
    let label = |v: f64| match unit {
        _ if curve.relative.is_some() => plots::tick_number(&format::significant(v)),
        _ if gibibytes => format!("{} GiB", plots::tick_number(&format::significant(v))),
        "1/s" => plots::count_tick(v),
        "1" | "Mbit/s" => {
            format!("{} {}", plots::tick_number(&format::significant(v)), if unit == "1" { "" } else { unit })
        }
        _ => plots::trim(&format::value(v, unit)),
    };
    let y = match curve.log {
        Log::Both => Axis::log(&curve.y_title, low, high, label),
        Log::X | Log::None => Axis::linear(&curve.y_title, high, label),
    };
    Some((x, y))
}

/// A count by the second as a share of another: of the first trial of each line.
fn over_time(figure: &Figure, found: &[(usize, Found<'_>)], of: &str, over: &str) -> Option<Picture> {
    let points = |trial: &TrialRecord| -> Vec<(f64, f64)> {
        let at = |second: u32, name: &str| {
            trial.series.iter().find(|row| row.second == second && row.metric == name).map(|row| row.value)
        };
        let seconds = trial.series.iter().filter(|row| row.metric == of).map(|row| row.second);
        let share = |second: u32| {
            let whole = at(second, over).filter(|whole| *whole > 0.0)?;
            Some((f64::from(second), 100.0 * at(second, of)? / whole))
        };
        seconds.filter_map(share).collect()
    };
    let (mut lines, mut ids) = (Vec::new(), Vec::new());
    for (line, found) in found {
        let trial = found.trials.first()?;
        lines.push((*line, points(trial)));
        ids.push(trial.id);
    }
    let all = || lines.iter().flat_map(|(_, points)| points);
    let (last, high) = (all().map(|p| p.0).fold(0.0, f64::max), all().map(|p| p.1).fold(0.0, f64::max));
    if last <= 0.0 {
        return None;
    }
    let label = |v: f64| plots::tick_number(&format::significant(v));
    let mut plot = Plot::new(
        Axis::linear("seconds", last, label),
        Axis::linear("share of answers", high, |v| format!("{} %", label(v))),
    );
    for (style, points) in &lines {
        plot.line(points, *style, "");
    }
    let entry = |(line, _): &(usize, _)| Entry { swatch: svg::swatch(*line, ""), text: figure.name(*line) };
    Some(Picture {
        id: figure.id.clone(),
        caption: format!("{}: by the second.", figure.place()),
        svg: plot.finish(&figure.place(), "Share of the answers by the second."),
        legend: lines.iter().map(entry).collect(),
        trials: ids,
    })
}

/// A bar for each line.
fn bars(figure: &Figure, found: &[(usize, Found<'_>)], metric: &str) -> Option<Picture> {
    let unit = metrics::describe(metric).map_or("1", |(unit, _)| unit);
    let bar = |(line, found): &(usize, Found<'_>)| {
        let values: Vec<f64> = found.trials.iter().filter_map(|t| t.outcome.metric_named(metric)).collect();
        let value = Value::of(&values)?;
        Some(Bar {
            name: figure.name(*line),
            // Those of one server look alike.
            style: figure.lines.iter().position(|other| other[0] == figure.lines[*line][0])?,
            value: value.value,
            text: format::value(value.value, unit),
            bounds: value.interval.map(|i| (i.low, i.high)),
            points: if values.len() > 1 { values } else { Vec::new() },
            class: "",
        })
    };
    let all: Vec<Bar> = found.iter().filter_map(bar).collect();
    let (_, high) = plots::ends(all.iter().flat_map(|b| [b.value, b.bounds.map_or(0.0, |x| x.1)]))?;
    let about: Vec<String> = all.iter().map(|b| format!("{}: {}", b.name, b.text)).collect();
    let axis = Axis::linear(&figure.title, high, plots::count_tick);
    Some(Picture {
        id: figure.id.clone(),
        caption: format!("{}. Whiskers: the interval of the median; dots: single trials.", figure.place()),
        svg: svg::bars(&axis, &all, &figure.place(), &about.join("; ")),
        legend: Vec::new(),
        trials: found.iter().flat_map(|(_, found)| found.ids()).collect(),
    })
}

impl Drawn {
    /// Its pictures as one SVG file; none where there are none.
    fn file(&self) -> Option<String> {
        let mut legend: Vec<(String, String)> = Vec::new();
        for entry in self.pictures.iter().flat_map(|picture| &picture.legend) {
            let entry = (entry.swatch.clone(), entry.text.clone());
            if !legend.contains(&entry) {
                legend.push(entry);
            }
        }
        let mut parts = vec![svg::head(&format!("{}: {}", self.place, self.title), &legend)];
        parts.extend(self.pictures.iter().map(|picture| (picture.svg.clone(), svg::height(&picture.svg))));
        (!self.pictures.is_empty()).then(|| svg::standalone(&self.title, &parts))
    }
}

impl Gallery {
    /// How many of the figures that are plots are drawn, and how many of these have all of their lines.
    fn counts(&self) -> [usize; 3] {
        let plots = || self.figures.iter().filter(|f| f.plot);
        let drawn = || plots().filter(|f| !f.pictures.is_empty());
        [plots().count(), drawn().count(), drawn().filter(|f| f.missing.is_empty()).count()]
    }

    fn about(&self) -> String {
        let [plots, drawn, whole] = self.counts();
        format!(
            "The figures of the papers, drawn of measured values with the same axes and the same lines: {drawn} of {plots} that are plots, \
             {whole} of them with every line. Dashed lines are the papers' own values, where these print them; hardware and versions are of \
             today. Each line is of the run with the longest load."
        )
    }

    /// As one page without anything from elsewhere.
    ///
    /// # Errors
    /// [`Error::Template`].
    pub fn html(&self) -> Result<String, Error> {
        let style = include_str!("../templates/style.css");
        let values = context! { style, about => self.about(), figures => Serde(&self.figures) };
        render("figures.html", include_str!("../templates/figures.html"), values)
    }

    /// The pictures, each with its file name.
    pub fn pictures(&self) -> Vec<(String, String)> {
        let file = |f: &Drawn| Some((format!("{}.svg", f.id), f.file()?));
        self.figures.iter().filter_map(file).collect()
    }

    /// As Markdown, which shows the pictures that lie in `folder`.
    pub fn markdown(&self, folder: &str) -> String {
        let mut out = format!("# The papers’ figures\n\n{}\n", page::escape(&self.about()));
        for figure in &self.figures {
            let title = page::escape(&figure.title);
            let _ = write!(out, "\n## {}\n\n", figure.place);
            if figure.pictures.is_empty() {
                let _ = writeln!(out, "{title}.");
            } else {
                let _ = writeln!(out, "![{title}]({folder}/{}.svg)", figure.id);
                for picture in &figure.pictures {
                    let _ = writeln!(out, "\n{}", page::escape(&picture.caption));
                }
            }
            if !figure.note.is_empty() {
                let _ = writeln!(out, "\n{}", figure.note);
            }
            if !figure.sources.is_empty() {
                let _ = writeln!(out, "\n{}.", figure.sources.join("; "));
            }
            if !figure.missing.is_empty() {
                let command = figure.command.as_ref().map_or_else(String::new, |c| format!(": `{c}`"));
                let _ = writeln!(out, "\nNot measured yet: {}{command}", figure.missing.join(", "));
            }
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// A run of starts: of each its family, its size and its seconds.
    fn starts(dir: &std::path::Path, starts: &[(&str, &str, f64)]) -> RunDir {
        let mut run = RunDir::create(dir, "", &json!({})).unwrap();
        for (id, (family, size, seconds)) in starts.iter().enumerate() {
            let mut trial = TrialRecord { id: id as u32, ..TrialRecord::default() };
            trial.add_param(params::MEASURE, "load");
            trial.add_param(params::KIND, "bind");
            trial.add_param(params::SERVER, "bind");
            trial.add_param(params::FAMILY, *family);
            trial.add_param(params::ZONE_SIZE, *size);
            trial.outcome.metrics.push(metrics::SERVER_READY.of(*seconds));
            run.append(trial).unwrap();
        }
        run
    }

    #[test]
    fn a_value_is_divided_by_one_of_the_same_run() {
        let dir = tempfile::tempdir().unwrap();
        let here = [("U-4-DS0", "1K", 10.0), ("S-6-DS10", "1K", 20.0), ("U-4-DS0", "10K", 100.0)];
        // Another machine, with more trials, and with a size that has nothing to be divided by there.
        let there = [("S-6-DS10", "1K", 300.0), ("S-6-DS10", "1K", 300.0), ("S-6-DS10", "10K", 3000.0)];
        let runs = [starts(&dir.path().join("here"), &here), starts(&dir.path().join("there"), &there)];
        let figure = figures::all().iter().find(|figure| figure.id == "rzaia-4.2").unwrap();
        let Draw::Curve(curve) = &figure.draw else { panic!("{:?}", figure.draw) };
        let lines = measured_lines(figure, curve, &runs);
        let points: Vec<_> = lines.iter().map(|m| (figure.name(m.of), m.line.points.clone())).collect();
        let expected =
            [("U-4-DS0".to_owned(), vec![(1e3, 1.0), (1e4, 1.0)]), ("S-6-DS10".to_owned(), vec![(1e3, 2.0)])];
        assert_eq!(points, expected);
        assert_eq!(lines[1].words, "1 trial of `here`");
    }

    #[test]
    fn a_point_is_of_one_server_also_where_a_run_has_several_releases_of_it() {
        let trials = |labels: &[&str]| -> Vec<TrialRecord> {
            let trial = |label: &&str| {
                let mut trial = TrialRecord::default();
                trial.add_param(params::SERVER, *label);
                trial.add_param(params::KIND, "nsd");
                trial
            };
            labels.iter().map(trial).collect()
        };
        let kept = |labels: &[&str]| -> Vec<String> {
            let trials = trials(labels);
            let kept = of_one_server(trials.iter().collect());
            kept.iter().map(|trial| trial.param(params::SERVER).unwrap().to_owned()).collect()
        };
        assert_eq!(kept(&["nsd-13", "nsd", "nsd-14", "nsd"]), ["nsd", "nsd"]);
        assert_eq!(kept(&["tuned", "nsd-13", "tuned", "nsd-13"]), ["nsd-13", "nsd-13"]);
        assert_eq!(kept(&["tuned"]), ["tuned"]);
        assert!(kept(&[]).is_empty());
    }
}
