//! Plots as SVG that takes its colours from the page: axes, lines, bars, areas.
//!
//! One size for all: 480 × 330 units, so that the text is readable at the width of a phone and two
//! plots stand side by side on a desktop. Series differ by colour, dash pattern and marker.

use crate::format::escape;
use std::fmt::Write;

mod bars;

pub(crate) use bars::{Bar, bars};

/// Width and height of a plot, in its own units.
pub(crate) const SIZE: (f64, f64) = (480.0, 330.0);
/// Left, top, right and bottom margins.
const MARGIN: (f64, f64, f64, f64) = (66.0, 24.0, 14.0, 44.0);
/// How many styles the page defines.
pub(crate) const STYLES: usize = 8;

/// One direction of a plot.
#[derive(Clone, Debug)]
pub(crate) struct Axis {
    pub title: String,
    pub low: f64,
    pub high: f64,
    pub log: bool,
    /// Where a tick stands, and its text.
    pub ticks: Vec<(f64, String)>,
}

impl Axis {
    /// A linear axis from zero to at least `high`, with round ticks whose text `label` writes.
    pub fn linear(title: &str, high: f64, label: impl Fn(f64) -> String) -> Self {
        let high = if high > 0.0 && high.is_finite() { high } else { 1.0 };
        let step = round_step(high / 4.0);
        let count = (high / step * 0.999_999).ceil();
        let ticks = (0..=count as u32).map(|i| (f64::from(i) * step, label(f64::from(i) * step))).collect();
        Self { title: title.into(), low: 0.0, high: count * step, log: false, ticks }
    }

    /// A linear axis that holds `low` to `high`, with round ticks, and does not begin at zero.
    pub fn between(title: &str, low: f64, high: f64, label: impl Fn(f64) -> String) -> Self {
        let span = if high > low { high - low } else { low.abs().max(1.0) * 0.1 };
        let step = round_step(span / 4.0);
        let first = (low / step - 1e-9).floor();
        let last = ((high / step + 1e-9).ceil()).max(first + 1.0);
        let ticks = (0..=(last - first) as u32).map(|i| (first + f64::from(i)) * step);
        let ticks = ticks.map(|value| (value, label(value))).collect();
        Self { title: title.into(), low: first * step, high: last * step, log: false, ticks }
    }

    /// A logarithmic axis that holds `low` to `high` (both above zero) and ends at 1, 2 or 5 times a power of
    /// ten, with a tick at each of these, or at powers of ten alone where it spans two or more.
    pub fn log(title: &str, low: f64, high: f64, label: impl Fn(f64) -> String) -> Self {
        let marks: Vec<f64> = (low.log10().floor() as i32 - 1..=high.log10().ceil() as i32 + 1)
            .flat_map(|power| [1.0, 2.0, 5.0].map(|step| step * 10f64.powi(power)))
            .collect();
        let first = marks.iter().rposition(|m| *m <= low * 1.000_001).unwrap_or(0);
        let last = marks.iter().position(|m| *m >= high * 0.999_999).unwrap_or(marks.len() - 1);
        let last = last.max(first + 1).min(marks.len() - 1);
        // Marks come in threes, a power of ten first.
        let all = marks[last] / marks[first] < 150.0;
        let ticks =
            (first..=last).filter(|i| all || i % 3 == 0).map(|i| (marks[i], label(marks[i]))).collect();
        Self { title: title.into(), low: marks[first], high: marks[last], log: true, ticks }
    }

    /// Where a value lies, 0 to 1, held inside the axis.
    fn at(&self, value: f64) -> f64 {
        let share = if self.log {
            (value.max(f64::MIN_POSITIVE) / self.low).ln() / (self.high / self.low).ln()
        } else {
            (value - self.low) / (self.high - self.low)
        };
        share.clamp(0.0, 1.0)
    }
}

/// The next step of round ticks: 1, 2, 2.5 or 5 times a power of ten.
fn round_step(raw: f64) -> f64 {
    let power = 10f64.powf(raw.log10().floor());
    [1.0, 2.0, 2.5, 5.0, 10.0].map(|m| m * power).into_iter().find(|s| *s >= raw * 0.999).unwrap_or(raw)
}

/// A plot being drawn.
pub(crate) struct Plot {
    x: Axis,
    y: Axis,
    height: f64,
    body: String,
}

impl Plot {
    pub fn new(x: Axis, y: Axis) -> Self {
        Self::with_height(x, y, SIZE.1)
    }

    /// A plot of another height than usual.
    pub fn with_height(x: Axis, y: Axis, height: f64) -> Self {
        Self { x, y, height, body: String::new() }
    }

    fn px(&self, x: f64) -> f64 {
        MARGIN.0 + self.x.at(x) * (SIZE.0 - MARGIN.0 - MARGIN.2)
    }

    fn py(&self, y: f64) -> f64 {
        self.height - MARGIN.3 - self.y.at(y) * (self.height - MARGIN.1 - MARGIN.3)
    }

    /// A line through points in the style of a series, with its marker at some of them. `class` adds
    /// to the style (`second` for a companion line).
    pub fn line(&mut self, points: &[(f64, f64)], style: usize, class: &str) {
        let at: Vec<(f64, f64)> = points.iter().map(|(x, y)| (self.px(*x), self.py(*y))).collect();
        let mut path = String::new();
        for (i, (x, y)) in at.iter().enumerate() {
            let _ = write!(path, "{}{x:.1} {y:.1}", if i == 0 { "M" } else { "L" });
        }
        let _ = write!(self.body, "<path class=\"line s{} {class}\" d=\"{path}\"/>", style % STYLES);
        if class.is_empty() {
            // Markers of different series sit at different places, so that lines on top of each other can be distinguished.
            let step = 78.0;
            let mut next = MARGIN.0 + 12.0 + step * style as f64 / STYLES as f64 * 1.6 % step;
            for pair in at.windows(2) {
                while pair[1].0 > pair[0].0 && (pair[0].0..pair[1].0).contains(&next) {
                    let t = (next - pair[0].0) / (pair[1].0 - pair[0].0);
                    self.body += &marker(next, pair[0].1 + t * (pair[1].1 - pair[0].1), style);
                    next += step;
                }
                if next < pair[0].0 {
                    next += step;
                }
            }
        }
    }

    /// A line through points in the style of a series, with a marker at each of them; `class` adds to the style of both.
    pub fn curve(&mut self, points: &[(f64, f64)], style: usize, class: &str) {
        if points.len() > 1 {
            self.line(points, style, class);
        }
        for (x, y) in points {
            self.body += &marked(self.px(*x), self.py(*y), style, class);
        }
    }

    /// The interval of a series' value at a point.
    pub fn interval(&mut self, x: f64, low: f64, high: f64, style: usize) {
        let (x, low, high) = (self.px(x), self.py(low), self.py(high));
        let _ = write!(
            self.body,
            "<path class=\"range s{}\" d=\"M{:.1} {low:.1}h6m-3 0V{high:.1}m-3 0h6\"/>",
            style % STYLES,
            x - 3.0
        );
    }

    /// An arrow from a bound: what is known is only that the value lies above it, or below.
    pub fn bound(&mut self, x: f64, y: f64, style: usize, above: bool, class: &str) {
        let (x, y) = (self.px(x), self.py(y));
        let sign = if above { -1.0 } else { 1.0 };
        let _ = write!(
            self.body,
            "<path class=\"range s{} {class}\" d=\"M{:.1} {y:.1}h8m-4 0v{}m-3.5 {}l3.5 {}l3.5 {}\"/>",
            style % STYLES,
            x - 4.0,
            12.0 * sign,
            -5.0 * sign,
            5.0 * sign,
            -5.0 * sign
        );
    }

    /// The marker of a series at a point, perhaps faint.
    pub fn point(&mut self, x: f64, y: f64, style: usize, faint: bool) {
        let mark = marker(self.px(x), self.py(y), style);
        self.body += &if faint { format!("<g class=\"faint\">{mark}</g>") } else { mark };
    }

    /// A filled band between two curves over the same x (`class` names its colour).
    pub fn band(&mut self, xs: &[f64], low: &[f64], high: &[f64], class: &str) {
        let mut path = String::new();
        for (i, (x, y)) in xs.iter().zip(high).enumerate() {
            let _ = write!(path, "{}{:.1} {:.1}", if i == 0 { "M" } else { "L" }, self.px(*x), self.py(*y));
        }
        for (x, y) in xs.iter().zip(low).rev() {
            let _ = write!(path, "L{:.1} {:.1}", self.px(*x), self.py(*y));
        }
        let _ = write!(self.body, "<path class=\"band {class}\" d=\"{path}Z\"/>");
    }

    /// A line across at `y` with its name.
    pub fn level(&mut self, y: f64, name: &str) {
        let (left, right, py) = (MARGIN.0, SIZE.0 - MARGIN.2, self.py(y));
        // Above the line, but not above the plot.
        let text = if py < MARGIN.1 + 16.0 { py + 15.0 } else { py - 4.0 };
        let _ = write!(
            self.body,
            "<path class=\"level\" d=\"M{left} {py:.1}H{right}\"/><text class=\"note\" x=\"{right}\" y=\"{:.1}\" \
             text-anchor=\"end\">{}</text>",
            text,
            escape(name)
        );
    }

    /// Upright lines at some `x` with one name, at the side where there is room for it.
    pub fn upright(&mut self, xs: &[f64], name: &str) {
        let (top, bottom) = (MARGIN.1, self.height - MARGIN.3);
        let at: Vec<f64> = xs.iter().map(|x| self.px(*x)).collect();
        for x in &at {
            let _ = write!(self.body, "<path class=\"level\" d=\"M{x:.1} {top}V{bottom}\"/>");
        }
        let (first, last) = (at.first().copied().unwrap_or(0.0), at.last().copied().unwrap_or(0.0));
        let left = first - MARGIN.0 > SIZE.0 - MARGIN.2 - last;
        let (x, anchor) = if left { (first - 5.0, "end") } else { (last + 5.0, "start") };
        let _ = write!(
            self.body,
            "<text class=\"note\" x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"{anchor}\">{}</text>",
            top + 12.0,
            escape(name)
        );
    }

    /// The whole picture, with its title and its description for those who do not see it.
    pub fn finish(self, title: &str, description: &str) -> String {
        let (width, height) = (SIZE.0, self.height);
        let (left, right, top, bottom) = (MARGIN.0, width - MARGIN.2, MARGIN.1, height - MARGIN.3);
        let mut out = open(height, title, description);
        for (value, text) in &self.y.ticks {
            let y = self.py(*value);
            let _ = write!(
                out,
                "<path class=\"grid\" d=\"M{left} {y:.1}H{right}\"/><text x=\"{}\" y=\"{:.1}\" \
                 text-anchor=\"end\">{}</text>",
                left - 6.0,
                y + 4.0,
                escape(text)
            );
        }
        for (i, (value, text)) in self.x.ticks.iter().enumerate() {
            let x = self.px(*value);
            // The outermost labels stay inside the picture.
            let anchor = if i + 1 == self.x.ticks.len() && x > right - 12.0 { "end" } else { "middle" };
            let _ = write!(
                out,
                "<path class=\"grid\" d=\"M{x:.1} {top}V{bottom}\"/><text x=\"{:.1}\" y=\"{}\" \
                 text-anchor=\"{anchor}\">{}</text>",
                if anchor == "end" { right + 8.0 } else { x },
                bottom + 17.0,
                escape(text)
            );
        }
        let _ = write!(
            out,
            "<path class=\"axis\" d=\"M{left} {top}V{bottom}H{right}\"/>{}<text class=\"title\" x=\"2\" \
             y=\"13\">{}</text><text class=\"title\" x=\"{right}\" y=\"{}\" text-anchor=\"end\">{}</text></svg>",
            self.body,
            escape(&self.y.title),
            height - 6.0,
            escape(&self.x.title)
        );
        out
    }
}

fn open(height: f64, title: &str, description: &str) -> String {
    format!(
        "<svg viewBox=\"0 0 {} {height}\" role=\"img\"><title>{}</title><desc>{}</desc>",
        SIZE.0,
        escape(title),
        escape(description)
    )
}

/// The marker of a style, centred.
pub(crate) fn marker(x: f64, y: f64, style: usize) -> String {
    marked(x, y, style, "")
}

/// The same, with another class.
fn marked(x: f64, y: f64, style: usize, class: &str) -> String {
    let style = style % STYLES;
    let d = match style {
        0 => format!("M{:.1} {y:.1}a3.6 3.6 0 1 0 7.2 0a3.6 3.6 0 1 0 -7.2 0Z", x - 3.6),
        1 => format!("M{:.1} {:.1}h6.6v6.6h-6.6Z", x - 3.3, y - 3.3),
        2 => format!("M{x:.1} {:.1}l4.2 7.2h-8.4Z", y - 4.4),
        3 => format!("M{x:.1} {:.1}l4.4 4.4l-4.4 4.4l-4.4 -4.4Z", y - 4.4),
        4 => format!("M{x:.1} {:.1}l4.2 -7.2h-8.4Z", y + 4.4),
        5 => format!("M{:.1} {y:.1}h8M{x:.1} {:.1}v8", x - 4.0, y - 4.0),
        6 => format!("M{:.1} {:.1}l7 7m0 -7l-7 7", x - 3.5, y - 3.5),
        _ => format!("M{:.1} {y:.1}h8", x - 4.0),
    };
    let class = if class.is_empty() { String::new() } else { format!(" {class}") };
    format!("<path class=\"mark s{style}{class}\" d=\"{d}\"/>")
}

/// A marker of a style for a legend.
pub(crate) fn key(style: usize) -> String {
    let mark = marker(17.0, 6.0, style);
    format!(
        "<svg class=\"swatch\" width=\"34\" height=\"12\" viewBox=\"0 0 34 12\" aria-hidden=\"true\">{mark}</svg>"
    )
}

/// A sample of a style for a legend: a bit of its line with its marker, which lines of the second row do not have.
pub(crate) fn swatch(style: usize, class: &str) -> String {
    let mark = if class == "second" { String::new() } else { marked(17.0, 6.0, style, class) };
    format!(
        "<svg class=\"swatch\" width=\"34\" height=\"12\" viewBox=\"0 0 34 12\" aria-hidden=\"true\"><path class=\"line s{} {class}\" d=\"M1 6H33\"/>{mark}</svg>",
        style % STYLES
    )
}

/// The head of a picture that stands alone: its title, wrapped, and its legend, with as many names in a row as there is room for.
pub(crate) fn head(title: &str, legend: &[(String, String)]) -> (String, f64) {
    // About six units a letter of the legend, seven of the title.
    const ROW: f64 = 18.0;
    let (mut out, mut y) = (String::new(), 16.0);
    for line in wrapped(title, (SIZE.0 / 7.0) as usize) {
        let _ = write!(
            out,
            "<text class=\"title\" x=\"2\" y=\"{y}\" font-weight=\"600\">{}</text>",
            escape(&line)
        );
        y += ROW;
    }
    let longest = legend.iter().map(|(_, name)| name.chars().count()).max().unwrap_or(0);
    let width = 48.0 + 6.8 * longest as f64;
    let in_row = ((SIZE.0 / width) as usize).max(1);
    for (n, (swatch, name)) in legend.iter().enumerate() {
        let (x, y) = (2.0 + width * (n % in_row) as f64, y + ROW * (n / in_row) as f64);
        let swatch = swatch.replacen("<svg ", &format!("<svg x=\"{x:.1}\" y=\"{:.1}\" ", y - 10.0), 1);
        let _ = write!(out, "{swatch}<text x=\"{:.1}\" y=\"{y:.1}\">{}</text>", x + 40.0, escape(name));
    }
    (out, y + ROW * legend.len().div_ceil(in_row) as f64 - 8.0)
}

/// Words in lines of at most so many letters, where no word is longer.
fn wrapped(text: &str, letters: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ') {
        match lines.last_mut().filter(|line| line.chars().count() + 1 + word.chars().count() <= letters) {
            Some(line) => *line += &format!(" {word}"),
            None => lines.push(word.to_owned()),
        }
    }
    lines
}

/// The height of a picture, in its own units.
pub(crate) fn height(svg: &str) -> f64 {
    let view = svg.split_once("viewBox=\"").and_then(|(_, rest)| rest.split_once('"'));
    view.and_then(|(view, _)| view.rsplit(' ').next()?.parse().ok()).unwrap_or(SIZE.1)
}

/// Pictures below each other, each with its height, as one SVG file: with its own colours and without a page's.
pub(crate) fn standalone(title: &str, parts: &[(String, f64)]) -> String {
    let height: f64 = parts.iter().map(|p| p.1).sum();
    let css = include_str!("../templates/style.css");
    // Not every program that shows SVG knows variables: the light colours are put in.
    let colours = css.split_once('}').map_or("", |(root, _)| root);
    let mut style: String = css
        .lines()
        .filter(|l| l.starts_with("svg "))
        .flat_map(|l| [l.trim_start_matches("svg "), "\n"])
        .collect();
    style = style.replace(" svg .", " .");
    for variable in colours.split(['{', ';']) {
        if let Some((name, value)) = variable.split_once(':') {
            style = style.replace(&format!("var({})", name.trim()), value.trim());
        }
    }
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {height}\" width=\"{1}\" height=\"{2}\" role=\"img\">\
         <title>{3}</title><style>{style}</style><rect width=\"{0}\" height=\"{height}\" fill=\"#fff\"/>",
        SIZE.0,
        SIZE.0 * 2.0,
        height * 2.0,
        escape(title)
    );
    let mut y = 0.0;
    for (part, height) in parts {
        let _ = write!(
            out,
            "<svg y=\"{y}\" width=\"{0}\" height=\"{height}\" viewBox=\"0 0 {0} {height}\">{part}</svg>",
            SIZE.0
        );
        y += height;
    }
    out + "</svg>\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_hold_their_values_and_have_round_ticks() {
        let a = Axis::linear("x", 93.0, |v| v.to_string());
        assert_eq!((a.low, a.high), (0.0, 100.0));
        assert_eq!(a.ticks.iter().map(|t| t.0).collect::<Vec<_>>(), [0.0, 25.0, 50.0, 75.0, 100.0]);
        let a = Axis::log("x", 80e3, 4e9, |v| v.to_string());
        assert_eq!((a.low, a.high), (5e4, 5e9));
        assert_eq!(a.ticks.iter().map(|t| t.0).collect::<Vec<_>>(), [1e5, 1e6, 1e7, 1e8, 1e9]);
        let a = Axis::log("x", 80.0, 300.0, |v| v.to_string());
        assert_eq!(a.ticks.iter().map(|t| t.0).collect::<Vec<_>>(), [50.0, 100.0, 200.0, 500.0]);
        // Neither nothing nor the same value twice may break the axis.
        assert!(Axis::linear("x", 0.0, |v| v.to_string()).high > 0.0);
        let a = Axis::log("x", 100.0, 100.0, |v| v.to_string());
        assert!(a.low < a.high && (0.0..=1.0).contains(&a.at(100.0)));
    }

    #[test]
    fn pictures_escape_what_they_are_given() {
        let mut plot =
            Plot::new(Axis::linear("<x>", 1.0, |v| v.to_string()), Axis::linear("y", 1.0, |v| v.to_string()));
        plot.line(&[(0.0, 0.0), (1.0, 1.0)], 9, "");
        let svg = plot.finish("a < b", "\"quoted\"");
        assert!(svg.contains("&lt;x&gt;") && svg.contains("a &lt; b") && !svg.contains("<x>"));
        assert!(svg.starts_with("<svg viewBox") && svg.ends_with("</svg>"));
        assert!(svg.contains("class=\"line s1 \"") && svg.matches("class=\"mark").count() >= 4);
    }
}
