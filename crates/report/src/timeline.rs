//! Second by second: rates, latency, CPU and memory while a trial ran.

use crate::cells::{Cell, Run};
use crate::plots::trim;
use crate::plots::{Entry, Figure};
use crate::svg::{self, Axis, Plot};
use crate::{format, svg::SIZE};
use measure::metrics::{self, Family, Scope};
use measure::{Definition, series};
use results::TrialRecord;

/// More points than this are averaged: the plot has no more pixels.
const POINTS: usize = 240;

/// The trial whose seconds are shown for a cell: the first that counts and has any.
fn shown<'a>(cell: &Cell<'a>) -> Option<&'a TrialRecord> {
    cell.used()
        .into_iter()
        .find(|t| t.series.iter().any(|row| !row.metric.starts_with(Scope::Search.prefix())))
}

/// A figure by the second, thinned by averaging.
fn points(all: &[(u32, f64)]) -> Vec<(f64, f64)> {
    let mean = |of: &[(u32, f64)]| {
        let n = of.len() as f64;
        (of.iter().map(|p| f64::from(p.0)).sum::<f64>() / n, of.iter().map(|p| p.1).sum::<f64>() / n)
    };
    all.chunks(all.len().div_ceil(POINTS).max(1)).map(mean).collect()
}

/// A line: style, class, legend, points.
type Line = (usize, &'static str, String, Vec<(f64, f64)>);

struct Sheet<'a> {
    id: String,
    title: &'a str,
    what: &'a str,
    trials: Vec<u32>,
}

/// The figures by the second of one zone at one rate, a line for each server.
pub(crate) fn figures(run: &Run, cells: &[&Cell], id: &str, what: &str) -> Vec<Figure> {
    let trials: Vec<(usize, &str, &TrialRecord)> = cells
        .iter()
        .filter_map(|c| Some((run.style(&c.key.server), c.key.server.as_str(), shown(c)?)))
        .collect();
    let ids: Vec<u32> = trials.iter().map(|t| t.2.id).collect();
    let lines = |figure: Definition, class: &'static str, word: &str| -> Vec<Line> {
        let line_of = |(style, server, trial): &(usize, &str, &TrialRecord)| {
            (*style, class, format!("{server}{word}"), points(&trial.series(figure)))
        };
        trials.iter().map(line_of).filter(|l| !l.3.is_empty()).collect()
    };
    let sheet = |kind: &str, title: &'static str| Sheet {
        id: format!("{id}-{kind}"),
        title,
        what,
        trials: ids.clone(),
    };
    let mut all = Vec::new();
    let mut rates = lines(metrics::ANSWERED_QPS, "", " answered");
    rates.extend(lines(metrics::SENT_QPS, "second", " sent"));
    all.extend(plot(&sheet("rates", "Queries sent and answered"), "queries/s", &rates, false, |v| {
        format::significant(v)
    }));
    all.extend(plot(
        &sheet("p99", "Latency of the slowest 1 %"),
        "latency",
        &lines(metrics::LATENCY.p99, "", ""),
        true,
        |us| format::latency(us * 1e3),
    ));
    let mut cpu = lines(series::SERVER.cpu, "", " server");
    cpu.extend(lines(series::GENERATOR.cpu, "second", " generator"));
    all.extend(plot(&sheet("cpu", "CPU time"), "% of one core", &cpu, false, |v| format!("{v:.0} %")));
    let mut memory = lines(series::SERVER.rss, "", "");
    let most = memory.iter().flat_map(|l| l.3.iter().map(|p| p.1)).fold(0.0, f64::max);
    // In the unit that gives round ticks.
    let (unit, bytes) = if most >= 1e9 { ("GiB", 1u64 << 30) } else { ("MiB", 1 << 20) };
    memory.iter_mut().flat_map(|l| &mut l.3).for_each(|p| p.1 /= bytes as f64);
    all.extend(plot(
        &sheet("memory", "Memory of the server (RSS)"),
        unit,
        &memory,
        false,
        format::significant,
    ));
    all.extend(trials.iter().filter_map(|(_, server, trial)| cores(trial, server, id, what)));
    all
}

fn plot(
    sheet: &Sheet,
    unit: &str,
    lines: &[Line],
    log: bool,
    label: impl Fn(f64) -> String,
) -> Option<Figure> {
    let (what, title) = (sheet.what, sheet.title);
    let ys = || lines.iter().flat_map(|l| l.3.iter().map(|p| p.1)).filter(|y| y.is_finite());
    let last = lines.iter().flat_map(|l| l.3.iter().map(|p| p.0)).fold(0.0, f64::max);
    let (low, high) = (ys().filter(|y| *y > 0.0).fold(f64::INFINITY, f64::min), ys().fold(0.0, f64::max));
    if lines.is_empty() || last <= 0.0 {
        return None;
    }
    let label = |v: f64| if v == 0.0 { "0".into() } else { trim(&label(v)) };
    let y = if log && low.is_finite() {
        Axis::log(unit, low, high, label)
    } else {
        Axis::linear(unit, high, label)
    };
    let mut drawn =
        Plot::with_height(Axis::linear("seconds", last, |v| trim(&format::significant(v))), y, SIZE.1 * 0.8);
    for (style, class, _, points) in lines {
        drawn.line(points, *style, class);
    }
    let names: Vec<String> = lines.iter().map(|l| l.2.clone()).collect();
    Some(Figure {
        id: sheet.id.clone(),
        caption: format!("{title}, second by second, {what}."),
        svg: drawn.finish(&format!("{title}, {what}"), &format!("By the second: {}.", format::list(&names))),
        legend: legend(lines),
        trials: sheet.trials.clone(),
    })
}

/// A line for each server; companion lines share one, since their colour says whose they are.
fn legend(lines: &[Line]) -> Vec<Entry> {
    let mut all: Vec<Entry> = Vec::new();
    for (style, class, text, _) in lines {
        let text = if class.is_empty() {
            text.clone()
        } else {
            format!("{} (dotted)", text.rsplit(' ').next().unwrap_or(text))
        };
        if !all.iter().any(|e| e.text == text) {
            // Grey: the companion of every server.
            all.push(Entry { swatch: svg::swatch(if class.is_empty() { *style } else { 6 }, class), text });
        }
    }
    all
}

/// The use of each core, one above the other: user, system, softirq, steal. A picture for each core that did
/// anything, in one figure.
fn cores(trial: &TrialRecord, server: &str, id: &str, what: &str) -> Option<Figure> {
    const PARTS: [(&str, Family); 4] = [
        ("user", series::USER_OF_CORE),
        ("system", series::SYSTEM_OF_CORE),
        ("softirq", series::SOFTIRQ_OF_CORE),
        ("steal", series::STEAL_OF_CORE),
    ];
    let number = |figure: &str| PARTS.iter().find_map(|(_, part)| part.which(figure)?.parse().ok());
    // A core that did next to nothing has nothing to show; on a machine with many that is most of them.
    let mut numbers: Vec<u32> =
        trial.series.iter().filter(|row| row.value >= 1.0).filter_map(|row| number(&row.metric)).collect();
    numbers.sort_unstable();
    numbers.dedup();
    let picture_of = |core: &u32| {
        let core_text = core.to_string();
        let of_core = |(_, part): &(&str, Family)| points(&trial.series_of(*part, &core_text));
        let parts: Vec<Vec<(f64, f64)>> = PARTS.iter().map(of_core).collect();
        let xs: Vec<f64> = parts.iter().max_by_key(|p| p.len())?.iter().map(|p| p.0).collect();
        let last = xs.last().copied().filter(|x| *x > 0.0)?;
        let mut plot = Plot::with_height(
            Axis::linear("seconds", last, |v| trim(&format::significant(v))),
            Axis::linear(&format!("core {core}"), 100.0, |v| format!("{v:.0} %")),
            SIZE.1 * 0.5,
        );
        let mut low = vec![0.0; xs.len()];
        for ((part, _), values) in PARTS.iter().zip(&parts) {
            // A part that was not recorded for this second adds nothing.
            let high: Vec<f64> =
                low.iter().enumerate().map(|(i, l)| l + values.get(i).map_or(0.0, |p| p.1)).collect();
            plot.band(&xs, &low, &high, part);
            low = high;
        }
        let title = format!("Core {core} while {server} served, {what}");
        Some(plot.finish(
            &title,
            "Share of the core by the second: user, system, softirq, steal, one above the other.",
        ))
    };
    let swatch = |part: &str| {
        format!(
            "<svg class=\"swatch\" viewBox=\"0 0 34 12\" aria-hidden=\"true\"><path class=\"band {part}\" \
             d=\"M6 0H28V12H6Z\"/></svg>"
        )
    };
    let pictures: Vec<String> = numbers.iter().filter_map(picture_of).collect();
    (!pictures.is_empty()).then(|| Figure {
        id: format!("{id}-{}-cores", trial.id),
        caption: format!("Cores while {server} served, second by second, {what}."),
        svg: pictures.concat(),
        legend: PARTS.iter().map(|(p, _)| Entry { swatch: swatch(p), text: (*p).to_owned() }).collect(),
        trials: vec![trial.id],
    })
}
