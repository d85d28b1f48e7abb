//! Plots of a search: latency and answered rate against offered rate, with every trial and the bounds.

use crate::html::{STYLE, render};
use crate::svg::{self, Axis, Plot, SIZE};
use crate::{Error, format, plots};
use minijinja::context;
use minijinja::value::Serde;
use serde::Serialize;
use std::fmt::Write;

/// One trial: of the search, or of latency at a fraction of the peak.
#[derive(Clone, Debug, PartialEq)]
pub struct RatePoint {
    /// Offered queries per second.
    pub offered_qps: f64,
    /// Answered queries per second.
    pub answered_qps: f64,
    /// Share (0 to 1) of the queries that was lost.
    pub loss_ratio: f64,
    /// p50, p90, p99 and p99.9 from the intended time, in microseconds; zeroes where none was answered.
    pub latency_us: [f64; 4],
    /// Whether the generator could offer it.
    pub valid: bool,
    /// A latency trial's fraction of the peak; none: a trial of the search.
    pub fraction: Option<f64>,
}

/// A search, ready to be drawn.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SearchPlot {
    /// Its title: targets and traffic.
    pub title: String,
    /// Every trial.
    pub points: Vec<RatePoint>,
    /// The peak, in answered queries per second.
    pub peak: Option<f64>,
    /// The relevant lower bound, in offered queries per second.
    pub lower: Option<f64>,
    /// The relevant upper bound.
    pub upper: Option<f64>,
    /// Sentences below: the goal, the verdict.
    pub notes: Vec<String>,
}

const PERCENTILES: [&str; 4] = ["p50", "p90", "p99", "p99.9"];

/// Heights of the head and of the plots, in their own units.
const HEAD: f64 = 46.0;
const RATES: f64 = 260.0;

/// A plot with its words.
#[derive(Serialize)]
struct Figure {
    svg: String,
    caption: String,
    legend: Vec<(String, &'static str)>,
}

impl SearchPlot {
    /// Latency trials, by rate; where there are none, those of the search that count and were answered.
    fn line(&self) -> Vec<&RatePoint> {
        let below = self.points.iter().any(|p| p.fraction.is_some());
        let fits = |p: &&RatePoint| {
            p.latency_us[0] > 0.0 && if below { p.fraction.is_some() } else { p.valid && p.loss_ratio < 0.5 }
        };
        let mut line: Vec<_> = self.drawn().into_iter().filter(fits).collect();
        line.sort_by(|a, b| a.offered_qps.total_cmp(&b.offered_qps));
        line
    }

    /// The axis of offered rates: to a little above all that belongs to the peak, where there is one. Probes far above
    /// it, which a search needs to find its way, would leave no room for the rest: they are left to the table.
    fn offered(&self) -> Axis {
        let most = self.points.iter().map(|p| p.offered_qps).fold(0.0, f64::max);
        let near = self.lower.map_or(most, |lower| self.upper.unwrap_or(lower) * 1.5);
        Axis::linear("offered queries/s", most.min(near), plots::count_tick)
    }

    /// The trials that the axis has room for.
    fn drawn(&self) -> Vec<&RatePoint> {
        let high = self.offered().high;
        self.points.iter().filter(|p| p.offered_qps <= high).collect()
    }

    fn bounds(&self, plot: &mut Plot) {
        match (self.lower, self.upper) {
            (Some(lower), Some(upper)) => {
                let text = format!("bounds {}", format::rate_range(lower, upper));
                plot.upright(&[lower, upper], &text);
            }
            (Some(lower), None) => plot.upright(&[lower], &format!("lower bound {}", format::rate(lower))),
            (None, Some(upper)) => plot.upright(&[upper], &format!("upper bound {}", format::rate(upper))),
            (None, None) => {}
        }
    }

    fn latency(&self) -> Option<Figure> {
        let line = self.line();
        let trials: Vec<_> = self.drawn().into_iter().filter(|p| p.latency_us[0] > 0.0).collect();
        let all = || trials.iter().flat_map(|p| p.latency_us).filter(|us| *us > 0.0);
        let (low, high) = (all().fold(f64::INFINITY, f64::min), all().fold(0.0, f64::max));
        if high <= 0.0 {
            return None;
        }
        let y = Axis::log("latency", low * 1e3, high * 1e3, plots::tick);
        let mut plot = Plot::new(self.offered(), y);
        self.bounds(&mut plot);
        for (style, _) in PERCENTILES.iter().enumerate() {
            for p in &trials {
                let drawn = line.iter().any(|l| std::ptr::eq(*l, *p));
                plot.point(p.offered_qps, p.latency_us[style] * 1e3, style, !drawn || !p.valid);
            }
            // The points carry the markers: a line with its own would show trials that there were not.
            let points: Vec<_> = line.iter().map(|p| (p.offered_qps, p.latency_us[style] * 1e3)).collect();
            plot.line(&points, style, "plain");
        }
        let rest = if line.len() == trials.len() {
            ""
        } else {
            " Lines: the latency trials; faint: the search's own, shorter ones."
        };
        let about =
            format!("{} trials: latency (logarithmic) by offered rate, four percentiles.", trials.len());
        Some(Figure {
            svg: plot.finish("Latency by offered rate", &about),
            caption: format!("Latency from the intended time to the answer, of answered queries.{rest}"),
            legend: (0..4).map(|style| (svg::swatch(style, ""), PERCENTILES[style])).collect(),
        })
    }

    fn answered(&self) -> Figure {
        let x = self.offered();
        let drawn = self.drawn();
        let most = drawn.iter().map(|p| p.answered_qps).fold(0.0, f64::max);
        let y = Axis::linear("answered queries/s", most.max(self.peak.unwrap_or(0.0)), plots::count_tick);
        let end = x.high.min(y.high);
        let mut plot = Plot::with_height(x, y, RATES);
        plot.line(&[(0.0, 0.0), (end, end)], 6, "second");
        self.bounds(&mut plot);
        for p in &drawn {
            plot.point(p.offered_qps, p.answered_qps, if p.fraction.is_some() { 0 } else { 2 }, !p.valid);
        }
        let mut legend =
            vec![(svg::swatch(6, "second"), "all answered"), (svg::key(2), "trial of the search")];
        if self.points.iter().any(|p| p.fraction.is_some()) {
            legend.push((svg::key(0), "latency trial"));
        }
        let faint = if self.points.iter().all(|p| p.valid) { "" } else { " Faint: not valid." };
        let beyond = match self.points.len() - drawn.len() {
            0 => String::new(),
            n => format!(" Beyond the axis, and only in the table: {}.", format::plural(n, "trial")),
        };
        let about = format!("{} trials: answered by offered rate.", drawn.len());
        Figure {
            svg: plot.finish("Answered by offered rate", &about),
            caption: format!("Answered against offered rate.{faint}{beyond}"),
            legend,
        }
    }
}

/// A legend's entries beside each other, for a picture without a page.
fn keys(legend: &[(String, &str)], y: f64) -> String {
    let mut out = String::new();
    let mut x = 70.0;
    for (swatch, text) in legend {
        let swatch = swatch.replacen(
            "<svg ",
            &format!("<svg x=\"{x}\" y=\"{}\" width=\"34\" height=\"12\" ", y - 10.0),
            1,
        );
        let _ = write!(out, "{swatch}<text x=\"{}\" y=\"{y}\">{text}</text>", x + 39.0);
        x += 56.0 + 6.6 * text.len() as f64;
    }
    out
}

/// Both plots as one SVG file that needs no other.
pub fn search_svg(found: &SearchPlot) -> String {
    let mut parts = Vec::new();
    let peak = found.peak.map_or("no peak found".into(), |p| format!("peak {} answered", format::rate(p)));
    let latency = found.latency();
    let title = |legend: &str| {
        format!(
            "<text class=\"title\" x=\"2\" y=\"16\" font-weight=\"600\">{}: {peak}</text>{legend}",
            format::escape(&found.title)
        )
    };
    match latency {
        Some(figure) => {
            parts.push((title(&keys(&figure.legend, 38.0)), HEAD));
            parts.push((figure.svg, SIZE.1));
        }
        None => parts.push((title(""), 24.0)),
    }
    let answered = found.answered();
    parts.push((keys(&answered.legend, 14.0), 22.0));
    parts.push((answered.svg, RATES));
    svg::standalone(&found.title, &parts)
}

/// A row of the table.
#[derive(Serialize)]
struct Row {
    what: String,
    offered: String,
    answered: String,
    loss: String,
    latency: Vec<String>,
    state: &'static str,
}

/// Plots and table as one page that needs nothing else: no scripts, no external resources.
///
/// # Errors
/// [`Error::Template`]: a fault of this program.
pub fn search_html(found: &SearchPlot) -> Result<String, Error> {
    let whole = |v: f64| measure::units::grouped(v.round() as u64);
    let row = |p: &RatePoint| Row {
        what: p.fraction.map_or("search".into(), |f| format!("{:.0} % of the peak", f * 100.0)),
        offered: whole(p.offered_qps),
        answered: whole(p.answered_qps),
        loss: format!("{:.3} %", p.loss_ratio * 100.0),
        latency: p
            .latency_us
            .iter()
            .map(|us| if *us > 0.0 { format::latency(us * 1e3) } else { "–".into() })
            .collect(),
        state: if p.valid { "valid" } else { "invalid" },
    };
    let (below, search): (Vec<_>, Vec<_>) = found.points.iter().partition(|p| p.fraction.is_some());
    let tables = [("Latency below the peak", below), ("Trials of the search, in order", search)];
    let tables: Vec<(&str, Vec<Row>)> = tables
        .into_iter()
        .filter(|(_, points)| !points.is_empty())
        .map(|(name, points)| (name, points.into_iter().map(row).collect()))
        .collect();
    let figures: Vec<Figure> = found.latency().into_iter().chain([found.answered()]).collect();
    let values = context! {
        style => STYLE,
        title => &found.title,
        peak => found.peak.map(format::rate),
        bounds => found.lower.zip(found.upper).map(|(l, u)| format::rate_range(l, u)),
        notes => &found.notes,
        percentiles => PERCENTILES,
        figures => Serde(figures),
        tables => Serde(tables),
    };
    render("search.html", include_str!("../templates/search.html"), values)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(offered: f64, fraction: Option<f64>, valid: bool) -> RatePoint {
        let answered_qps = offered.min(100_000.0);
        let us = 80.0 + offered / 1000.0;
        RatePoint {
            offered_qps: offered,
            answered_qps,
            loss_ratio: 1.0 - answered_qps / offered,
            latency_us: [us, us * 1.5, us * 3.0, us * 9.0],
            valid,
            fraction,
        }
    }

    fn found() -> SearchPlot {
        SearchPlot {
            title: "10.53.0.1 <nsd>".into(),
            points: vec![
                point(20_000.0, None, true),
                point(640_000.0, None, true),
                point(99_000.0, None, true),
                point(101_000.0, None, false),
                point(10_000.0, Some(0.1), true),
                point(50_000.0, Some(0.5), true),
            ],
            peak: Some(99_000.0),
            lower: Some(99_000.0),
            upper: Some(101_000.0),
            notes: vec!["goal: 0.1 % & more".into()],
        }
    }

    #[test]
    fn a_picture_holds_the_trials_near_the_peak_and_stands_alone() {
        let svg = search_svg(&found());
        assert!(
            svg.starts_with("<svg xmlns=") && svg.contains("10.53.0.1 &lt;nsd&gt;") && !svg.contains("var(")
        );
        assert!(!svg.contains("NaN") && !svg.contains("inf"));
        // A marker for each trial but the probe far above, and one in the legend; answered rates have p50's style.
        assert_eq!(svg.matches("class=\"mark s1\"").count(), 5 + 1);
        assert_eq!(svg.matches("class=\"mark s0\"").count(), 5 + 1 + 2 + 1);
        assert_eq!(svg.matches("bounds 99,000").count(), 2, "in both plots");
    }

    #[test]
    fn nothing_found_is_drawn_as_such() {
        let svg = search_svg(&SearchPlot { title: "x".into(), ..SearchPlot::default() });
        assert!(svg.contains("no peak found") && !svg.contains("NaN") && !svg.contains("inf"));
        let lost = RatePoint { answered_qps: 0.0, latency_us: [0.0; 4], ..point(100.0, None, true) };
        let svg = search_svg(&SearchPlot { points: vec![lost], upper: Some(100.0), ..SearchPlot::default() });
        assert!(svg.contains("upper bound") && !svg.contains("NaN"));
    }

    #[test]
    fn a_page_has_plots_and_tables() {
        let page = search_html(&found()).unwrap();
        assert!(page.starts_with("<!doctype html>") && page.matches("<svg viewBox").count() >= 2);
        assert!(page.contains("only in the table: 1 trial."));
        assert!(page.contains("50 % of the peak") && page.contains("640,000") && page.contains("invalid"));
        assert!(page.contains("0.1 % &amp; more") && !page.contains("<nsd>") && !page.contains("<script"));
    }
}
