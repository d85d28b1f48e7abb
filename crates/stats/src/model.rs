//! A model of how a quantity grows, from few measured points.

/// A quantity that grows as `base + slope × x`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Line {
    /// At zero.
    pub base: f64,
    /// For each one more of x.
    pub slope: f64,
    /// How far the value at the greatest x lies from what the other points predict of it, as a share of it (0.1: 10 %): what an
    /// extrapolation of as many times the range may be off by.
    pub error: f64,
}

impl Line {
    /// The line through points (x, y) with y above zero whose relative deviations have the least squares. None with fewer than three points, as
    /// nothing is left then to see its error by, and where it does not grow.
    pub fn through(points: &[(f64, f64)]) -> Option<Self> {
        let mut points = points.to_vec();
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        let (last, others) = points.split_last().filter(|(_, others)| others.len() > 1)?;
        let (base, slope) = least_squares(others)?;
        let error = ((base + slope * last.0) / last.1 - 1.0).abs();
        let (base, slope) = least_squares(&points)?;
        (slope > 0.0).then_some(Self { base, slope, error })
    }

    /// What it says for an x.
    pub fn at(&self, x: f64) -> f64 {
        self.base + self.slope * x
    }
}

/// Base and slope that make the sum of ((base + slope × x) / y − 1)² least.
fn least_squares(points: &[(f64, f64)]) -> Option<(f64, f64)> {
    let sum = |of: fn(f64, f64) -> f64| points.iter().map(|&(x, y)| of(x, y)).sum::<f64>();
    let (w, wx, wxx) = (sum(|_, y| 1.0 / (y * y)), sum(|x, y| x / (y * y)), sum(|x, y| x * x / (y * y)));
    let (wy, wxy) = (sum(|_, y| 1.0 / y), sum(|x, y| x / y));
    let determinant = w * wxx - wx * wx;
    let line = ((wy * wxx - wx * wxy) / determinant, (w * wxy - wx * wy) / determinant);
    (line.0.is_finite() && line.1.is_finite()).then_some(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_found_again_and_its_error_told() {
        let exact = [(1e3, 103.0), (1e4, 130.0), (1e5, 400.0), (1e6, 3100.0)];
        let line = Line::through(&exact).unwrap();
        assert!((line.base - 100.0).abs() < 1e-6 && (line.slope - 0.003).abs() < 1e-12, "{line:?}");
        assert!(line.error < 1e-9 && (line.at(1e7) - 30_100.0).abs() < 1e-6, "{line:?}");
        // The greatest is a third more than the others predict.
        let bent = [exact[0], exact[1], exact[2], (1e6, 3100.0 * 4.0 / 3.0)];
        let line = Line::through(&bent).unwrap();
        assert!((line.error - 0.25).abs() < 1e-6, "{line:?}");
        assert_eq!(Line::through(&exact[..2]), None, "two points say nothing of the error");
        assert_eq!(Line::through(&[(1.0, 5.0), (2.0, 5.0), (3.0, 5.0)]), None, "it does not grow");
        assert_eq!(Line::through(&[(1.0, 5.0), (1.0, 5.0), (1.0, 5.0)]), None);
    }
}
