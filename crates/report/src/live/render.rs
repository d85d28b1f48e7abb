//! A load on a terminal: rows of text with bars beside them, plots where there is room.
//!
//! Parts that do not fit are left out, least important first; the validity is always there, last, where the eye ends.

use super::canvas::{Canvas, Colour, Line};
use super::model::{CoreUse, Figures, HISTORY, Live};
use super::plot;
use crate::format;
use measure::clock::SECOND;
use measure::units::grouped;
use measure::{Nanos, Reason};

/// The column where bars begin, and the least columns that are worth a bar.
const COLUMN: usize = 41;
const LEAST_BARS: usize = 12;
/// Plots have at least so many rows and columns, and at most so many rows.
const PLOT: (usize, usize) = (8, 76);
const MOST_PLOT: usize = 14;
/// The most sentences of a verdict that are shown.
const SENTENCES: usize = 4;

pub(super) const OFFERED: Colour = Colour::Plain;
pub(super) const SENT: Colour = Colour::Cyan;
pub(super) const ANSWERED: Colour = Colour::Green;
pub(super) const LOST: Colour = Colour::Red;
pub(super) const P50: Colour = Colour::Blue;
pub(super) const P99: Colour = Colour::Magenta;
pub(super) const MAX: Colour = Colour::Yellow;

/// One row of the view. Rows with the greatest `priority` go first where there is no room.
struct Row {
    priority: u8,
    line: Line,
}

impl Row {
    fn new(priority: u8, line: impl Into<Line>) -> Self {
        Self { priority, line: line.into() }
    }

    fn heading(priority: u8, text: String) -> Self {
        Self::new(priority, Line::bold(text))
    }
}

/// The columns that bars have beside the text; none where they are too few.
fn room(width: usize) -> usize {
    if width >= COLUMN + LEAST_BARS { width - COLUMN } else { 0 }
}

/// Draws the load at the wall-clock instant `now` (nanoseconds since 1970) in at most so many columns and rows.
pub(super) fn render(live: &Live, now: Nanos, width: usize, height: usize) -> Canvas {
    let mut top = header(live, now, width);
    top.extend(rates(live, width));
    top.extend(latencies(live, width));
    if live.about.search {
        top.extend(trials(live));
    }
    let mut bottom = cores(live, width);
    bottom.push(drops(live));
    bottom.extend(validity(live, width));
    while top.len() + bottom.len() > height {
        let worst = |rows: &[Row]| rows.iter().map(|r| r.priority).max();
        let from = if worst(&bottom) >= worst(&top) { &mut bottom } else { &mut top };
        let Some(last) = worst(from).and_then(|p| from.iter().rposition(|r| r.priority == p)) else { break };
        from.remove(last);
    }
    let spare = height - (top.len() + bottom.len());
    let mut canvas = Canvas::new(width);
    top.iter().for_each(|row| canvas.line(&row.line));
    if spare > PLOT.0 && width >= PLOT.1 && live.history.len() > 1 {
        canvas.line(&Line::default());
        plot::draw(live, &mut canvas, (spare - 1).min(MOST_PLOT));
    }
    bottom.iter().for_each(|row| canvas.line(&row.line));
    canvas
}

/// Text, and beside it a bar of 0 to 1 for each second, the last at the end.
fn with_bars(text: &str, values: &[Option<f64>], colour: Colour, width: usize) -> Line {
    let shown = &values[values.len().saturating_sub(room(width))..];
    // In eighths of a row; what is not quite nothing is not nothing.
    let bar = |v: &Option<f64>| match v {
        Some(v) if *v > 0.0 => BAR[((v * 8.0).round() as usize).clamp(1, 8) - 1],
        _ => ' ',
    };
    let bars = if room(width) > 0 { shown.iter().map(bar).collect() } else { String::new() };
    Line::from(format!("{text:<COLUMN$}")).and(bars, colour)
}

const BAR: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// `1 min 05 s`, `12 s`.
fn time(seconds: f64) -> String {
    let s = seconds.max(0.0) as u64;
    match (s / 3600, s / 60 % 60, s % 60) {
        (0, 0, s) => format!("{s} s"),
        (0, m, s) => format!("{m} min {s:02} s"),
        (h, m, _) => format!("{h} h {m:02} min"),
    }
}

/// The progress as a share (where that is known) and in words.
fn progress(live: &Live, now: Nanos) -> (Option<f64>, String) {
    let planned = live.about.duration.map(|d| d as f64 / SECOND as f64);
    let Some(elapsed) = live.elapsed(now) else { return (None, "preparing".into()) };
    if live.end.is_some() {
        return (Some(1.0), "ended".into());
    }
    match planned {
        _ if elapsed < 0.0 => (Some(0.0), format!("warming up, {} left", time((-elapsed).ceil()))),
        Some(all) if live.about.search => {
            (Some(elapsed / all), format!("{elapsed:.0} s of {all:.0} s budget, {} trials", live.trials_told))
        }
        Some(all) if elapsed < all => {
            let words = format!("{} of {}, {} left", time(elapsed), time(all), time((all - elapsed).ceil()));
            (Some(elapsed / all), words)
        }
        Some(_) => (Some(1.0), "waiting for the last answers".into()),
        None => match live.about.count {
            Some(count) => {
                let offered = live.totals.offered;
                let words = format!("{} of {} queries", grouped(offered as u64), grouped(count));
                (Some(offered / count as f64), words)
            }
            None => (None, time(elapsed)),
        },
    }
}

fn header(live: &Live, now: Nanos, width: usize) -> Vec<Row> {
    let about = &live.about;
    let (share, words) = progress(live, now);
    let mut name = Line::bold(format!("{} {}", about.title, about.targets.join(" ")));
    let left = width.saturating_sub(words.chars().count() + 2);
    let with_pace = name.clone().and(format!("  {}", about.pace), Colour::Plain);
    if with_pace.width() <= left {
        name = with_pace;
    }
    let mut rows = Vec::new();
    if name.width() <= left {
        let gap = " ".repeat(left - name.width() + 2);
        rows.push(Row::new(0, name.and(gap + &words, Colour::Plain)));
    } else {
        rows.extend([Row::new(0, name), Row::new(1, words)]);
    }
    let full = share.map_or(0, |s| (s.clamp(0.0, 1.0) * width as f64).round() as usize);
    let bar = Line::default().and("━".repeat(full), ANSWERED).and("─".repeat(width - full), Colour::Grey);
    rows.push(Row::new(6, bar));
    rows
}

/// The figures of the last minute, scaled by `scale`; oldest first.
fn series(live: &Live, of: impl Fn(&Figures) -> Option<f64>, scale: impl Fn(f64) -> f64) -> Vec<Option<f64>> {
    live.history.iter().map(|f| of(f).map(|v| scale(v).clamp(0.0, 1.0))).collect()
}

/// The greatest of some figures in the last minute.
pub(super) fn top(live: &Live, of: impl Fn(&Figures) -> f64) -> f64 {
    live.history.iter().map(of).fold(0.0, f64::max)
}

/// The scale of the bars: `last 12 s, up to 50,000`.
fn span(live: &Live, width: usize, top: &str) -> String {
    let shown = live.history.len().min(room(width)).min(HISTORY);
    if shown == 0 {
        return String::new();
    }
    let unit = if live.about.search { "trials" } else { "s" };
    format!("last {shown} {unit}, {top}")
}

fn rates(live: &Live, width: usize) -> Vec<Row> {
    let Some(last) = live.last() else {
        return vec![Row::new(3, Line::coloured("no second is over yet", Colour::Grey))];
    };
    let totals = &live.totals;
    let highest = top(live, |f| f.offered().max(f.sent_qps).max(f.answered_qps));
    let scale = |v: f64| if highest > 0.0 { v / highest } else { 0.0 };
    let count = |v: f64| grouped(v.round() as u64);
    let row = |priority, name: &str, now: f64, all: f64, of: fn(&Figures) -> f64, colour| {
        let text = format!("{name:<13}{:>11}{:>15}", count(now), count(all));
        Row::new(priority, with_bars(&text, &series(live, |f| Some(of(f)), scale), colour, width))
    };
    let heading = format!("{:<13}{:>11}{:>15}", "queries", "per second", "in all");
    let note = span(live, width, &format!("up to {}/s", count(highest)));
    let mut rows = vec![
        Row::heading(4, format!("{heading:<COLUMN$}{note}")),
        row(2, "offered", last.offered(), totals.offered, Figures::offered, OFFERED),
        row(2, "sent", last.sent_qps, totals.sent, |f| f.sent_qps, SENT),
        row(1, "answered", last.answered_qps, totals.answered, |f| f.answered_qps, ANSWERED),
        row(1, "lost", last.lost, totals.lost, |f| f.lost, LOST),
    ];
    let mut others = vec![format!("loss {}", format::percent(totals.loss_ratio() * 100.0))];
    others.push(format!("unsent {}", count(totals.unsent)));
    others.extend(last.in_flight.filter(|_| live.end.is_none()).map(|n| format!("in flight {}", count(n))));
    others.extend(last.truncated.map(|_| format!("truncated {}", count(totals.truncated))));
    others.extend(last.wrong.map(|_| format!("wrong {}", count(totals.wrong))));
    others.extend(last.open.filter(|n| *n > 0.0).map(|n| format!("TCP connections {}", count(n))));
    rows.extend(wrap(&others.join("   "), width).into_iter().map(|line| Row::new(3, line)));
    rows
}

/// On a logarithmic scale from 1 us to `top`.
fn logarithmic(us: f64, top: f64) -> f64 {
    if top > 1.0 { us.max(1.0).ln() / top.ln() } else { 1.0 }
}

fn latencies(live: &Live, width: usize) -> Vec<Row> {
    let Some(last) = live.last() else { return Vec::new() };
    let highest = top(live, |f| f.latency_max.max(f.pacing_error_p99));
    let us = |v: f64| if v > 0.0 { format::latency(v * 1e3) } else { "–".into() };
    let row = |priority, name: &str, now: f64, worst: f64, of: fn(&Figures) -> f64, colour| {
        let values = series(live, |f| Some(of(f)).filter(|v| *v > 0.0), |v| logarithmic(v, highest));
        let text = format!("{name:<13}{:>11}{:>15}", us(now), us(worst));
        Row::new(priority, with_bars(&text, &values, colour, width))
    };
    let (w, unit) = (&live.worst, if live.about.search { "last trial" } else { "last second" });
    let heading = format!("{:<13}{:>11}{:>15}", "latency", unit, "worst");
    let note = span(live, width, &format!("1 µs to {} (log)", us(highest)));
    vec![
        Row::heading(4, format!("{heading:<COLUMN$}{note}")),
        row(2, "p50", last.latency_p50, w.latency_p50, |f| f.latency_p50, P50),
        row(1, "p99", last.latency_p99, w.latency_p99, |f| f.latency_p99, P99),
        row(2, "max", last.latency_max, w.latency_max, |f| f.latency_max, MAX),
        row(3, "sent late p99", last.pacing_error_p99, w.pacing, |f| f.pacing_error_p99, OFFERED),
    ]
}

fn trials(live: &Live) -> Vec<Row> {
    let qps = |q: Option<f64>| q.map_or("none yet".into(), |q| format!("{}/s", grouped(q as u64)));
    let bounds = format!("lower bound {}, upper bound {}", qps(live.bounds.0), qps(live.bounds.1));
    let heading =
        format!("{:>5}{:>13}{:>9}{:>13}{:>11}  ", "trial", "offered/s", "for", "answered/s", "lost");
    let mut rows = vec![Row::heading(0, bounds), Row::heading(4, heading)];
    let shown = live.trials.iter().rev().take(8).collect::<Vec<_>>();
    for (age, t) in shown.iter().enumerate().rev() {
        let text = format!(
            "{:>5}{:>13}{:>9}{:>13}{:>11}  ",
            t.number,
            grouped(t.rate as u64),
            format::duration(t.duration),
            grouped(t.answered_qps as u64),
            format::percent(t.loss_ratio * 100.0)
        );
        let (verdict, colour) = t.invalid.as_deref().map_or(("valid", ANSWERED), |code| (code, LOST));
        rows.push(Row::new(2 + age.min(5) as u8, Line::from(text).and(verdict, colour)));
    }
    rows
}

const PARTS: [(char, Colour); 5] = [
    ('█', Colour::Green),
    ('▓', Colour::Blue),
    ('▒', Colour::Magenta),
    ('x', Colour::Red),
    ('·', Colour::Grey),
];

fn cores(live: &Live, width: usize) -> Vec<Row> {
    let all = &live.machine.cores;
    if all.is_empty() {
        return Vec::new();
    }
    let ours = |c: &CoreUse| live.about.generator.contains(&c.core);
    let heading = format!("{:<13}{:>5}{:>7}{:>8}{:>7}", "core, %", "user", "system", "softirq", "steal");
    let mut heading = Line::bold(format!("{heading:<COLUMN$}"));
    if room(width) > 0 {
        for ((symbol, colour), name) in PARTS.iter().zip(["user", "system", "softirq", "steal"]) {
            heading = heading.and(format!("{symbol} "), *colour).and(format!("{name} "), Colour::Plain);
        }
    }
    let mut rows = vec![Row::new(4, heading)];
    // The generator's first; where not all have room, the idlest are left out.
    let mut order: Vec<&CoreUse> = all.iter().collect();
    order.sort_by(|a, b| (ours(b), b.busy()).partial_cmp(&(ours(a), a.busy())).expect("finite"));
    let shown: Vec<usize> = order.iter().take(if all.len() > 8 { 7 } else { 8 }).map(|c| c.core).collect();
    for c in all.iter().filter(|c| shown.contains(&c.core)) {
        let name = if ours(c) { format!("{} generator", c.core) } else { c.core.to_string() };
        let text = format!("{name:<13}{:>5.0}{:>7.0}{:>8.0}{:>7.0}", c.user, c.system, c.softirq, c.steal);
        let line = Line::from(format!("{text:<COLUMN$}"));
        rows.push(Row::new(3, stack(c, room(width).min(HISTORY), line)));
    }
    let rest = all.len() - shown.len();
    if rest > 0 {
        let busy: f64 = all.iter().filter(|c| !shown.contains(&c.core)).map(CoreUse::busy).sum();
        let text = format!("{rest} more, {:.0} % busy on average", busy / rest as f64);
        rows.push(Row::new(5, Line::coloured(text, Colour::Grey)));
    }
    rows
}

/// Adds one core's second as a stacked bar of `width` columns.
fn stack(c: &CoreUse, width: usize, mut line: Line) -> Line {
    let (mut sum, mut at) = (0.0, 0);
    for (part, (symbol, colour)) in [c.user, c.system, c.softirq, c.steal, 100.0].iter().zip(PARTS) {
        sum = f64::min(sum + part, 100.0);
        let to = (sum / 100.0 * width as f64).round() as usize;
        line = line.and(String::from_iter(std::iter::repeat_n(symbol, to.saturating_sub(at))), colour);
        at = to.max(at);
    }
    line
}

fn drops(live: &Live) -> Row {
    let generator = [("generator_receive_buffers", live.totals.drops as u64)];
    let places = generator.iter().chain(&live.machine.drops).filter(|(_, n)| *n > 0);
    let text: Vec<_> = places.map(|(place, n)| format!("{place} {}", grouped(*n))).collect();
    match text.is_empty() {
        true => Row::new(2, "dropped on our side: nothing"),
        false => Row::new(1, Line::coloured(format!("dropped on our side: {}", text.join(", ")), LOST)),
    }
}

fn validity(live: &Live, width: usize) -> Vec<Row> {
    let v = live.validity();
    let mut rows = Vec::new();
    if let Some(url) = &live.metrics_at {
        rows.push(Row::new(5, Line::coloured(format!("metrics at {url}"), Colour::Grey)));
    }
    let mut tell = |reasons: &[Reason], word: &str, colour| {
        for (n, reason) in reasons.iter().take(SENTENCES).enumerate() {
            for (i, line) in wrap(&format!("{word}: {reason}"), width).into_iter().enumerate() {
                // The first line says what it is; the rest of it and further reasons are read later, too.
                let priority = u8::from(n > 0) + 2 * u8::from(i > 0);
                rows.push(Row::new(priority, Line::coloured(line, colour)));
            }
        }
    };
    tell(&v.warnings, "warning", MAX);
    tell(&v.reasons, "INVALID", LOST);
    if v.valid && !(live.about.search && live.end.is_none()) {
        let text = if live.end.is_some() { "valid" } else { "valid so far" };
        rows.push(Row::new(0, Line::coloured(text, ANSWERED)));
    }
    rows
}

/// Words into lines of at most `width` columns; a longer word is cut.
fn wrap(text: &str, width: usize) -> Vec<String> {
    let width = width.max(1);
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let line = lines.last_mut().expect("there is always one");
        if line.is_empty() {
            line.push_str(word);
        } else if line.chars().count() + 1 + word.chars().count() <= width {
            line.push(' ');
            line.push_str(word);
        } else {
            lines.push(word.to_owned());
        }
    }
    lines
}
