//! `trace info --plot`: what happened over time as in ISC-TN-2008-1 section 5.2 and RZAIA's figures 6.1 to 6.11.

use super::text::time;
use crate::output::{Failure, write_output};
use measure::Histogram;
use measure::clock::SECOND;
use report::{LinePlot, lines};
use std::fmt::Write as _;
use std::path::Path;
use trace::facts::{Facts, Line, Sizes};
use wire::rcode;

/// Points of a line: more could not be distinguished.
const POINTS: usize = 400;

/// Refuses a folder that has something in it, before anything is read.
pub fn check(dir: &Path) -> Result<(), Failure> {
    let refuse =
        |what: String| Err(Failure { code: 1, message: format!("--plot {}: {what}", dir.display()) });
    match std::fs::read_dir(dir).map(|mut entries| entries.next().is_some()) {
        Ok(true) => refuse("there is something in it: give a new folder".into()),
        Ok(false) => Ok(()),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(e) => refuse(e.to_string()),
    }
}

/// Draws everything that the trace has; where there is something in `each`, a line for each capture of that name.
pub fn write(dir: &Path, facts: &Facts, each: &[(String, Facts)]) -> Result<(), Failure> {
    std::fs::create_dir_all(dir)
        .map_err(|e| Failure { code: 1, message: format!("--plot {}: {e}", dir.display()) })?;
    let put =
        |name: &str, text: &str| write_output(&dir.join(name), |out| Ok(out.write_all(text.as_bytes())?));
    let mut index = String::from(
        "<!doctype html><meta charset=\"utf-8\"><title>dnsrack trace info</title>\
         <style>body{font-family:sans-serif;margin:1em}img{width:min(100%,40em);margin:.5em}</style>\n",
    );
    let begins = time(facts.span.map_or(0, |(first, _)| first));
    let _ = writeln!(index, "<h1>Trace from {begins}, {:.1} s</h1>", facts.seconds());
    let plots = if each.is_empty() { all(facts, Time::of(facts)) } else { apart(each, Time::of(facts)) };
    for (name, plot) in plots {
        put(&format!("{name}.svg"), &lines(&plot))?;
        let _ = writeln!(index, "<img src=\"{name}.svg\" alt=\"{name}\">");
    }
    put("index.html", &index)?;
    put("series.csv", &csv(facts))
}

/// The plots of several captures as one of each kind, in which every line has the name of its capture.
fn apart(each: &[(String, Facts)], from: Time) -> Vec<(&'static str, LinePlot)> {
    let mut plots: Vec<(&str, LinePlot)> = Vec::new();
    for (capture, facts) in each.iter().filter(|(_, facts)| facts.counts.packets > 0) {
        for (name, mut plot) in all(facts, from) {
            let alone = plot.lines.len() == 1;
            for (line, _) in &mut plot.lines {
                *line = if alone { capture.clone() } else { format!("{capture}, {line}") };
            }
            match plots.iter_mut().find(|(known, _)| *known == name) {
                Some((_, all)) => all.lines.append(&mut plot.lines),
                None => plots.push((name, plot)),
            }
        }
    }
    plots
}

fn all(facts: &Facts, from: Time) -> Vec<(&'static str, LinePlot)> {
    let over = Over::new(facts, from);
    let mut plots = vec![(
        "queries",
        over.rates("Requests (ISC-TN-2008-1 section 5.2)", &[("UDP", Line::Udp), ("TCP", Line::Tcp)]),
    )];
    if facts.queries.transport[1] > 0 {
        plots
            .push(("tcp-queries", over.rates("DNS queries over TCP (RZAIA fig 6.1)", &[("TCP", Line::Tcp)])));
        let of = [Line::Udp, Line::Tcp];
        plots.push((
            "tcp-share",
            over.shares("Queries over TCP (RZAIA fig 6.2)", "% of the queries", &[("TCP", Line::Tcp)], &of),
        ));
    }
    if facts.counts.connections > 0 {
        plots.push((
            "tcp-connections",
            over.rates(
                "TCP connections (RZAIA fig 6.3)",
                &[("all", Line::Connections), ("with DNS", Line::WithDns)],
            ),
        ));
        plots.push((
            "tcp-with-dns",
            over.shares(
                "TCP connections with DNS (RZAIA fig 6.4)",
                "% of the connections",
                &[("with DNS", Line::WithDns)],
                &[Line::Connections],
            ),
        ));
    }
    if facts.counts.responses > 0 {
        plots.push((
            "rcodes",
            over.shares(
                "NXDOMAIN",
                "% of the responses",
                &[("NXDOMAIN", Line::Nxdomain)],
                &[Line::Responses],
            ),
        ));
        plots.push((
            "truncated",
            over.shares(
                "Truncated responses (RZAIA figs 6.5 to 6.9)",
                "% of the responses",
                &[("truncated", Line::Truncated)],
                &[Line::Responses],
            ),
        ));
        plots.push((
            "retries",
            over.rates(
                "Truncated, and asked for again over TCP (RZAIA fig 6.11)",
                &[("truncated", Line::Truncated), ("retried over TCP", Line::Retried)],
            ),
        ));
        plots.push(("response-sizes", sizes(facts)));
        plots.push(("latency", latency(facts)));
    }
    plots
}

/// Sizes by response code, cumulative.
fn sizes(facts: &Facts) -> LinePlot {
    let points = |sizes: &Sizes| {
        let mut below = 0;
        let mut points = vec![(0.0, 0.0)];
        for (size, n) in sizes.iter() {
            // A step: the share holds up to the next size.
            points.push((f64::from(size), below as f64 * 100.0 / sizes.count() as f64));
            below += n;
            points.push((f64::from(size), below as f64 * 100.0 / sizes.count() as f64));
        }
        points
    };
    let mut codes: Vec<_> = facts.responses.rcodes.iter().collect();
    codes.sort_by_key(|(_, sizes)| std::cmp::Reverse(sizes.count()));
    LinePlot {
        title: "Sizes of responses by code (RZAIA fig 6.10)".into(),
        x: "octets of DNS".into(),
        log_x: false,
        y: "% of the responses, at most so large".into(),
        lines: codes.into_iter().take(5).map(|(&c, s)| (rcode::extended_to_text(c), points(s))).collect(),
    }
}

fn latency(facts: &Facts) -> LinePlot {
    let points = |histogram: &Histogram| {
        let mut below = 0;
        let all = histogram.count().max(1) as f64;
        let mut points = Vec::new();
        for (_, high, n) in histogram.buckets() {
            below += n;
            points.push((high as f64 / 1e3, below as f64 * 100.0 / all));
        }
        points
    };
    let lines = ["UDP", "TCP"].into_iter().zip(&facts.latency).filter(|(_, h)| h.count() > 0);
    LinePlot {
        title: "From query to answer, as captured".into(),
        x: "microseconds".into(),
        log_x: true,
        y: "% of the answers, at most so late".into(),
        lines: lines.map(|(name, h)| (name.into(), points(h))).collect(),
    }
}

/// The axis of time.
#[derive(Clone, Copy)]
struct Time {
    /// Where it begins: wall clock, nanoseconds.
    begin: u64,
    /// Seconds in its unit, and that unit's name.
    unit: (f64, &'static str),
}

impl Time {
    fn of(facts: &Facts) -> Self {
        let unit = match facts.seconds() {
            s if s >= 3.0 * 86_400.0 => (86_400.0, "days"),
            s if s >= 3.0 * 3600.0 => (3600.0, "hours"),
            s if s >= 300.0 => (60.0, "minutes"),
            _ => (1.0, "seconds"),
        };
        Self { begin: facts.series.origin(), unit }
    }
}

/// The windows, several together where there are many.
struct Over<'a> {
    facts: &'a Facts,
    /// Windows of a point, and points.
    step: usize,
    points: usize,
    from: Time,
}

impl<'a> Over<'a> {
    fn new(facts: &'a Facts, from: Time) -> Self {
        let windows = facts.series.line(Line::Udp).count();
        let step = windows.div_ceil(POINTS).max(1);
        Self { facts, step, points: windows.div_ceil(step), from }
    }

    fn sums(&self, line: Line) -> Vec<u64> {
        let all: Vec<u32> = self.facts.series.line(line).collect();
        all.chunks(self.step).map(|part| part.iter().map(|&n| u64::from(n)).sum()).collect()
    }

    /// Seconds of a point.
    fn seconds(&self) -> f64 {
        self.facts.series.window() as f64 / SECOND as f64 * self.step as f64
    }

    fn x(&self) -> String {
        let start = time(self.from.begin);
        format!("{} since {} (points of {} s)", self.from.unit.1, &start[..19], self.seconds())
    }

    /// Where points are: what did not last as long as the others is left out, unless it is all.
    fn times(&self) -> impl Iterator<Item = f64> + use<'_> {
        let covered = (self.facts.seconds() / self.seconds()).floor() as usize;
        let most = if covered == 0 { self.points } else { self.points.min(covered) };
        let late = self.facts.series.origin().saturating_sub(self.from.begin) as f64 / SECOND as f64;
        (0..most).map(move |n| (late + (n as f64 + 0.5) * self.seconds()) / self.from.unit.0)
    }

    fn rates(&self, title: &str, which: &[(&str, Line)]) -> LinePlot {
        let line = |&(name, line): &(&str, Line)| {
            let rates = self.sums(line).into_iter().map(|n| n as f64 / self.seconds());
            (name.to_owned(), self.times().zip(rates).collect())
        };
        LinePlot {
            title: title.into(),
            x: self.x(),
            log_x: false,
            y: "per second".into(),
            lines: which.iter().map(line).collect(),
        }
    }

    fn shares(&self, title: &str, y: &str, which: &[(&str, Line)], of: &[Line]) -> LinePlot {
        let whole: Vec<Vec<u64>> = of.iter().map(|&line| self.sums(line)).collect();
        let all = |n: usize| whole.iter().map(|sums| sums[n]).sum::<u64>();
        let line = |&(name, line): &(&str, Line)| {
            let shares = self.sums(line).into_iter().enumerate();
            let points = self.times().zip(shares).filter(|(_, (n, _))| all(*n) > 0);
            (name.to_owned(), points.map(|(x, (n, part))| (x, part as f64 * 100.0 / all(n) as f64)).collect())
        };
        LinePlot {
            title: title.into(),
            x: self.x(),
            log_x: false,
            y: y.into(),
            lines: which.iter().map(line).collect(),
        }
    }
}

fn csv(facts: &Facts) -> String {
    const LINES: [(&str, Line); 8] = [
        ("queries_udp", Line::Udp),
        ("queries_tcp", Line::Tcp),
        ("responses", Line::Responses),
        ("nxdomain", Line::Nxdomain),
        ("truncated", Line::Truncated),
        ("retried_over_tcp", Line::Retried),
        ("connections", Line::Connections),
        ("connections_with_dns", Line::WithDns),
    ];
    let mut out = format!("start,window_s,{}\n", LINES.map(|(name, _)| name).join(","));
    let columns: Vec<Vec<u32>> = LINES.iter().map(|&(_, line)| facts.series.line(line).collect()).collect();
    let window = facts.series.window();
    for n in 0..columns[0].len() {
        let start = time(facts.series.origin() + n as u64 * window);
        let _ = write!(out, "{start},{}", window as f64 / SECOND as f64);
        columns.iter().for_each(|column| _ = write!(out, ",{}", column[n]));
        out.push('\n');
    }
    out
}
