//! The plot of what changes from version to version of a zone.

use crate::format;
use crate::svg::{self, Axis, Plot, SIZE};
use std::fmt::Write;

/// A step from one version of a zone to the next.
#[derive(Clone, Debug, PartialEq)]
pub struct ChurnStep {
    /// The version it leads to, short enough for an axis: `08-20`.
    pub label: String,
    /// Records deleted, the SOA and DNSSEC's apart.
    pub deleted: u64,
    /// Records added, counted alike.
    pub added: u64,
    /// Entries (delegations, or names) added, deleted or changed.
    pub entries: u64,
    /// Octets of the IXFR as messages on TCP, DNSSEC included.
    pub octets: u64,
}

/// A figure of a step to be drawn.
type Figure = fn(&ChurnStep) -> u64;

/// Height of the title and the legend.
const HEAD: f64 = 44.0;

/// Two plots as one SVG file that needs no other: records and entries that change in each step, and the size of the
/// IXFR.
pub fn churn(title: &str, steps: &[ChurnStep]) -> String {
    let series: [(&str, Figure); 3] = [
        ("records deleted", |s| s.deleted),
        ("records added", |s| s.added),
        ("entries changed", |s| s.entries),
    ];
    let most = steps.iter().map(|s| s.deleted.max(s.added).max(s.entries)).max().unwrap_or(0);
    let whole = |v: f64| if v.fract() == 0.0 { measure::units::grouped(v as u64) } else { String::new() };
    let x = || Axis {
        title: "version".into(),
        low: 0.5,
        high: steps.len().max(1) as f64 + 0.5,
        log: false,
        ticks: ticks(steps),
    };
    let y = Axis::linear("in each step, DNSSEC apart", most.max(4) as f64, whole);
    let mut changes = Plot::new(x(), y);
    let mut legend = String::new();
    for (style, (name, of)) in series.iter().enumerate() {
        // Side by side, so that equal counts do not hide each other.
        let shift = (style as f64 - 1.0) * 0.24;
        for (n, value) in steps.iter().zip(1u32..).map(|(s, n)| (f64::from(n) + shift, of(s) as f64)) {
            if value > 0.0 {
                changes.line(&[(n, 0.0), (n, value)], style, "steps");
                changes.point(n, value, style, false);
            }
        }
        let at = 70.0 + 136.0 * style as f64;
        let _ = write!(
            legend,
            "{}<text x=\"{}\" y=\"{}\">{name}</text>",
            svg::marker(at, HEAD - 12.0, style),
            at + 9.0,
            HEAD - 8.0
        );
    }
    let largest = steps.iter().map(|s| s.octets).max().unwrap_or(0) as f64;
    let mut size = Plot::with_height(
        x(),
        Axis::linear("octets of the IXFR on TCP, DNSSEC included", largest, whole),
        230.0,
    );
    let points: Vec<(f64, f64)> =
        steps.iter().zip(1u32..).map(|(s, n)| (f64::from(n), s.octets as f64)).collect();
    size.line(&points, 3, "steps");
    for (n, value) in points {
        size.point(n, value, 3, false);
    }
    let head = format!(
        "<text class=\"title\" x=\"2\" y=\"16\" font-weight=\"600\">{}</text>{legend}",
        format::escape(title)
    );
    let changes = changes.finish("changes", "Records deleted and added and entries changed, by step");
    let size = size.finish("size", "Octets of the incremental transfer, by step");
    svg::standalone(title, &[(head, HEAD), (changes, SIZE.1), (size, 230.0)])
}

/// Where the label changes, at most eight times.
fn ticks(steps: &[ChurnStep]) -> Vec<(f64, String)> {
    let is_new = |n: usize| n == 0 || steps[n].label != steps[n - 1].label;
    let all: Vec<usize> = (0..steps.len()).filter(|&n| is_new(n)).collect();
    let every = all.len().div_ceil(8).max(1);
    all.into_iter().step_by(every).map(|n| (n as f64 + 1.0, steps[n].label.clone())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plot_holds_every_step_and_stands_alone() {
        let step = |label: &str, added| ChurnStep {
            label: label.into(),
            deleted: 0,
            added,
            entries: 1,
            octets: 955,
        };
        let svg = churn("a < b", &[step("08-09", 0), step("08-10", 3), step("08-10", 0)]);
        assert!(svg.starts_with("<svg xmlns=") && svg.contains("a &lt; b") && !svg.contains("var("));
        // A marker in the legend for each series; one for each added record's step, entries and sizes.
        assert_eq!(svg.matches("class=\"mark s1\"").count(), 1 + 1);
        assert_eq!(svg.matches("class=\"mark s2\"").count(), 1 + 3);
        assert_eq!(svg.matches("class=\"mark s3\"").count(), 3);
        assert_eq!(svg.matches(">08-10<").count(), 2, "one tick a plot");
        assert!(!churn("none", &[]).contains("NaN"));
    }
}
