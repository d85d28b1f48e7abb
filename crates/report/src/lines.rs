//! Lines over a common axis as an SVG file that stands alone: what happened over time, cumulative distributions.

use crate::svg::{self, Axis, Plot, SIZE};

/// Lines to be drawn.
#[derive(Clone, Debug, PartialEq)]
pub struct LinePlot {
    /// Its title.
    pub title: String,
    /// The x axis, with its unit.
    pub x: String,
    /// The x axis is logarithmic: only what is above zero is drawn.
    pub log_x: bool,
    /// The y axis, with its unit; it begins at zero.
    pub y: String,
    /// Each line's name and its points, in order.
    pub lines: Vec<(String, Vec<(f64, f64)>)>,
}

fn number(v: f64) -> String {
    if v.abs() >= 1e4 && v.fract() == 0.0 {
        return measure::units::grouped(v as u64);
    }
    // Ticks are round: six digits tell them from what adding them up left.
    let text = format!("{v:.6}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// The lines as one SVG file that needs no other.
pub fn lines(plot: &LinePlot) -> String {
    let points = || plot.lines.iter().flat_map(|(_, points)| points).filter(|p| !plot.log_x || p.0 > 0.0);
    let (mut low, mut high, mut top) = (f64::INFINITY, 0.0f64, 0.0f64);
    for &(x, y) in points() {
        (low, high, top) = (low.min(x), high.max(x), top.max(y));
    }
    let x = if plot.log_x && high > 0.0 {
        Axis::log(&plot.x, low, high, number)
    } else {
        Axis::linear(&plot.x, high, number)
    };
    // An axis ends where its data do: time has no round end.
    let x = if plot.log_x || high <= 0.0 {
        x
    } else {
        Axis { high, ticks: x.ticks.into_iter().filter(|t| t.0 <= high).collect(), ..x }
    };
    let mut picture = Plot::new(x, Axis::linear(&plot.y, top, number));
    for (style, (_, points)) in plot.lines.iter().enumerate() {
        let drawn: Vec<(f64, f64)> = points.iter().copied().filter(|p| !plot.log_x || p.0 > 0.0).collect();
        picture.line(&drawn, style, "");
    }
    let legend = |(style, (name, _)): (usize, &(String, _))| (svg::swatch(style, ""), name.clone());
    let head = svg::head(&plot.title, &plot.lines.iter().enumerate().map(legend).collect::<Vec<_>>());
    let body = picture.finish(&plot.title, &format!("{} by {}", plot.y, plot.x));
    svg::standalone(&plot.title, &[head, (body, SIZE.1)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_named_and_stand_alone() {
        let mut plot = LinePlot {
            title: "rates < all".into(),
            x: "seconds".into(),
            log_x: false,
            y: "queries per second".into(),
            lines: vec![
                ("UDP".into(), vec![(0.0, 10.0), (59.98, 30.0)]),
                ("TCP".into(), vec![(0.0, 0.0), (59.98, 0.0)]),
            ],
        };
        let svg = lines(&plot);
        assert!(svg.starts_with("<svg xmlns=") && svg.contains("rates &lt; all") && !svg.contains("var("));
        assert!(svg.contains(">UDP<") && svg.contains(">TCP<") && !svg.contains("NaN"));
        plot.log_x = true;
        assert!(!lines(&plot).contains("NaN"), "zero has no logarithm");
        plot.lines.clear();
        assert!(!lines(&plot).contains("NaN") && !lines(&plot).contains("inf"));
    }

    #[test]
    fn numbers_are_short() {
        assert_eq!([0.0, 0.25, 30.0, 1e6, 0.1 + 0.2].map(number).join(" "), "0 0.25 30 1,000,000 0.3");
    }
}
