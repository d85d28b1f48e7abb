//! Horizontal bars.

use super::{Axis, SIZE, STYLES, open};
use crate::format::escape;
use std::fmt::Write;

/// A horizontal bar with bounds: name, value, lower and upper bound, the values of single trials.
#[derive(Clone, Debug)]
pub(crate) struct Bar {
    pub name: String,
    pub style: usize,
    pub value: f64,
    pub text: String,
    pub bounds: Option<(f64, f64)>,
    pub points: Vec<f64>,
    /// Added to the style: `invalid`, `past`, or nothing.
    pub class: &'static str,
}

/// Horizontal bars on one axis from zero.
pub(crate) fn bars(axis: &Axis, bars: &[Bar], title: &str, description: &str) -> String {
    const ROW: f64 = 34.0;
    let longest = bars.iter().map(|b| b.name.chars().count()).max().unwrap_or(0);
    // About seven units a letter; more than half of the picture is for bars.
    let (left, right, top) = ((longest as f64 * 7.0 + 14.0).clamp(104.0, 226.0), SIZE.0 - 74.0, 8.0);
    let bottom = top + ROW * bars.len() as f64;
    let height = bottom + 40.0;
    let px = |v: f64| left + axis.at(v) * (right - left);
    let mut out = open(height, title, description);
    for (value, text) in &axis.ticks {
        let x = px(*value);
        let _ = write!(
            out,
            "<path class=\"grid\" d=\"M{x:.1} {top}V{bottom}\"/><text x=\"{x:.1}\" y=\"{}\" \
             text-anchor=\"middle\">{}</text>",
            bottom + 16.0,
            escape(text)
        );
    }
    for (i, bar) in bars.iter().enumerate() {
        let y = top + ROW * i as f64;
        let middle = y + ROW / 2.0;
        let (style, end) = (bar.style % STYLES, px(bar.value));
        let class = bar.class;
        let _ = write!(
            out,
            "<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text><path class=\"bar s{style} {class}\" \
             d=\"M{left} {}H{end:.1}V{}H{left}Z\"/>",
            left - 8.0,
            middle + 4.0,
            escape(&bar.name),
            y + 7.0,
            y + ROW - 7.0
        );
        for point in &bar.points {
            let _ = write!(out, "<circle class=\"dot\" cx=\"{:.1}\" cy=\"{middle}\" r=\"2.6\"/>", px(*point));
        }
        let mut after = end;
        if let Some((low, high)) = bar.bounds {
            let (a, b) = (px(low), px(high));
            after = after.max(b);
            let _ = write!(
                out,
                "<path class=\"whisker\" d=\"M{a:.1} {middle}H{b:.1}M{a:.1} {}v10M{b:.1} {}v10\"/>",
                middle - 5.0,
                middle - 5.0
            );
        }
        let _ = write!(
            out,
            "<text class=\"value\" x=\"{:.1}\" y=\"{}\">{}</text>",
            after + 7.0,
            middle + 4.0,
            escape(&bar.text)
        );
    }
    let _ = write!(
        out,
        "<path class=\"axis\" d=\"M{left} {top}V{bottom}\"/><text class=\"title\" x=\"{right}\" y=\"{}\" \
         text-anchor=\"end\">{}</text></svg>",
        height - 6.0,
        escape(&axis.title)
    );
    out
}
