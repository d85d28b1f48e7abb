//! Rates and latencies of the last minute as two plots beside each other, in Braille: two by four dots a character.

use super::canvas::{Canvas, Colour, Line};
use super::model::{Figures, HISTORY, Live};
use super::render::{self, ANSWERED, MAX, OFFERED, P50, P99, SENT};
use crate::format;

/// A name, its colour, and what it is of a second.
type Curve = (&'static str, Colour, fn(&Figures) -> f64);

const RATES: [Curve; 3] = [
    ("offered", OFFERED, Figures::offered),
    ("sent", SENT, |f| f.sent_qps),
    ("answered", ANSWERED, |f| f.answered_qps),
];

const LATENCIES: [Curve; 3] =
    [("max", MAX, |f| f.latency_max), ("p99", P99, |f| f.latency_p99), ("p50", P50, |f| f.latency_p50)];

const LATENCY: &str = "latency";

/// One plot: what is drawn, and on what scale.
struct Plot<'a> {
    title: &'a str,
    curves: &'a [Curve],
    /// Where a value lies between bottom (0) and top (1).
    scale: &'a dyn Fn(f64) -> f64,
    /// Labels at their heights (0 to 1).
    labels: Vec<(f64, String)>,
}

/// Adds both, `height` rows.
pub(super) fn draw(live: &Live, canvas: &mut Canvas, height: usize) {
    let y = canvas.rows.len();
    (0..height).for_each(|_| canvas.line(&Line::default()));
    let half = (canvas.width - 2) / 2;
    let top = round_up(render::top(live, |f| f.offered().max(f.sent_qps).max(f.answered_qps)));
    let labels = [0.0, 0.5, 1.0].map(|at| (at, format::significant(at * top)));
    let rates =
        Plot { title: "queries per second", curves: &RATES, scale: &|v| v / top, labels: labels.into() };
    rates.draw(live, canvas, [0, y, half, height]);

    let least = live.history.iter().map(|f| f.latency_p50).filter(|v| *v > 0.0).fold(f64::MAX, f64::min);
    let most = render::top(live, |f| f.latency_max);
    if most > 0.0 && least < f64::MAX {
        // Whole decades around what is there.
        let low = least.clamp(0.1, 1e9).log10().floor();
        let high = most.clamp(0.1, 1e10).log10().ceil().max(low + 1.0);
        let decades = (high - low) as u32;
        let label = |d| {
            let ns = 10f64.powf(low + f64::from(d)) * 1e3;
            (f64::from(d) / f64::from(decades), format::duration(ns.round() as u64))
        };
        let latencies = Plot {
            title: LATENCY,
            curves: &LATENCIES,
            scale: &|v| (v.max(1e-3).log10() - low) / (high - low),
            labels: (0..=decades).map(label).collect(),
        };
        latencies.draw(live, canvas, [half + 2, y, half, height]);
    }
}

impl Plot<'_> {
    /// Draws into a rectangle: its left column, top row, columns and rows.
    fn draw(&self, live: &Live, canvas: &mut Canvas, [x, y, width, height]: [usize; 4]) {
        let mut title = Line::bold(self.title);
        for (name, colour, _) in self.curves {
            title = title.and(format!("  {name}"), *colour);
        }
        canvas.write(x, y, &title);
        let margin = self.labels.iter().map(|(_, l)| l.chars().count()).max().unwrap_or(0) + 1;
        let (left, columns, rows) = (x + margin + 1, width.saturating_sub(margin + 1), height - 3);
        for row in 0..rows {
            canvas.write(left - 1, y + 1 + row, &Line::coloured("│", Colour::Grey));
        }
        canvas.write(
            left - 1,
            y + 1 + rows,
            &Line::coloured(format!("└{}", "─".repeat(columns)), Colour::Grey),
        );
        for (at, label) in &self.labels {
            let row = ((1.0 - at) * (rows - 1) as f64).round() as usize;
            let text = format!("{label:>width$}", width = margin - 1);
            canvas.write(x, y + 1 + row, &Line::coloured(text, Colour::Grey));
        }
        let past = HISTORY - 1;
        let (then, now) = if live.about.search {
            (format!("{past} trials before"), "last")
        } else {
            (format!("{past} s ago"), "now")
        };
        canvas.write(left - 1, y + 2 + rows, &Line::coloured(then, Colour::Grey));
        let at = (left + columns).saturating_sub(now.len());
        canvas.write(at, y + 2 + rows, &Line::coloured(now, Colour::Grey));

        let mut dots = Dots::new(columns, rows);
        for (_, colour, of) in self.curves {
            let mut before = None;
            for (i, figures) in live.history.iter().enumerate() {
                let value = of(figures);
                // Nothing was answered: there is no latency, and no line to it.
                let here = (value > 0.0 || self.title != LATENCY).then(|| {
                    let ago = (live.history.len() - 1 - i) as f64 / past as f64;
                    (1.0 - ago, (self.scale)(value))
                });
                if let Some(here) = here {
                    dots.line(before.unwrap_or(here), here, *colour);
                }
                before = here;
            }
        }
        for (row, cells) in dots.cells.chunks(columns.max(1)).enumerate() {
            for (column, (bits, colour)) in cells.iter().enumerate().filter(|(_, (bits, _))| *bits != 0) {
                let symbol = char::from_u32(0x2800 + u32::from(*bits)).unwrap_or(' ');
                canvas.write(left + column, y + 1 + row, &Line::coloured(symbol, *colour));
            }
        }
    }
}

/// Characters of two by four dots, each with the colour of the curve that was there last.
struct Dots {
    columns: usize,
    rows: usize,
    cells: Vec<(u8, Colour)>,
}

impl Dots {
    fn new(columns: usize, rows: usize) -> Self {
        Self { columns, rows, cells: vec![(0, Colour::Plain); columns * rows] }
    }

    /// A straight line; coordinates are 0 to 1, from the left and from the bottom.
    fn line(&mut self, from: (f64, f64), to: (f64, f64), colour: Colour) {
        let place = |(x, y): (f64, f64)| {
            let (wide, high) = (2 * self.columns.max(1) - 1, 4 * self.rows.max(1) - 1);
            (x.clamp(0.0, 1.0) * wide as f64, (1.0 - y.clamp(0.0, 1.0)) * high as f64)
        };
        let (from, to) = (place(from), place(to));
        let steps = (to.0 - from.0).abs().max((to.1 - from.1).abs()).ceil().max(1.0) as usize;
        for step in 0..=steps {
            let t = step as f64 / steps as f64;
            let x = (from.0 + (to.0 - from.0) * t).round() as usize;
            let y = (from.1 + (to.1 - from.1) * t).round() as usize;
            if let Some(cell) = self.cells.get_mut(y / 4 * self.columns + x / 2) {
                // Unicode, block U+2800: dots 1 to 3 and 7 on the left, 4 to 6 and 8 on the right.
                cell.0 |= [[0x01, 0x08], [0x02, 0x10], [0x04, 0x20], [0x40, 0x80]][y % 4][x % 2];
                cell.1 = colour;
            }
        }
    }
}

/// The next 1, 2 or 5 times a power of ten, so that the axis stays while the rate wavers.
fn round_up(value: f64) -> f64 {
    if value <= 0.0 {
        return 1.0;
    }
    let decade = 10f64.powf(value.log10().floor());
    [1.0, 2.0, 5.0, 10.0].into_iter().map(|step| step * decade).find(|top| *top >= value).unwrap_or(value)
}
