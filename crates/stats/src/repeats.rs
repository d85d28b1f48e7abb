//! From repeats to a figure: medians with distribution-free intervals, and what they differ by.
//!
//! A few repeats say little about a distribution's shape, so nothing here assumes one.

/// The level that tables use where nothing else is said.
pub const LEVEL: f64 = 0.95;

/// Where an [`Interval`] comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Basis {
    /// Two order statistics whose exact binomial coverage reaches the level asked for.
    OrderStatistics,
    /// Smallest and greatest value: too few values to reach the level asked for.
    Range,
}

/// An interval for the median.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// Lower end, in the unit of the values.
    pub low: f64,
    /// Upper end, in the unit of the values.
    pub high: f64,
    /// The coverage reached (0 to 1), exact for independent values of any continuous distribution.
    pub level: f64,
    /// How it was made.
    pub basis: Basis,
}

impl Interval {
    /// Half the width as a share of `centre`; none where the centre is zero.
    pub fn relative_half_width(&self, centre: f64) -> Option<f64> {
        (centre != 0.0).then(|| (self.high - self.low) / 2.0 / centre.abs())
    }
}

/// Sorted values; none where there are none or one is not finite.
fn sorted(values: &[f64]) -> Option<Vec<f64>> {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    (!values.is_empty() && values.iter().all(|v| v.is_finite())).then_some(values)
}

fn middle(sorted: &[f64]) -> f64 {
    let n = sorted.len();
    if n % 2 == 1 { sorted[n / 2] } else { f64::midpoint(sorted[n / 2 - 1], sorted[n / 2]) }
}

/// The interval of a share (0 to 1) that was seen among so many independent draws, `z` standard deviations to each side
/// (1.96: 95 %), by Wilson's score, which holds for shares near 0 and 1 and for few draws, too. All of it where there were none.
pub fn share_interval(share: f64, draws: f64, z: f64) -> (f64, f64) {
    if draws <= 0.0 {
        return (0.0, 1.0);
    }
    let square = z * z / draws;
    let centre = (share + square / 2.0) / (1.0 + square);
    let half = z * (share * (1.0 - share) / draws + square / draws / 4.0).max(0.0).sqrt() / (1.0 + square);
    // A value on the edge itself is within, despite rounding of its last digit.
    let low = if share <= 0.0 { 0.0 } else { (centre - half).max(0.0) };
    let high = if share >= 1.0 { 1.0 } else { (centre + half).min(1.0) };
    (low, high)
}

/// The median (mean of the two middle values for an even count); none where there are no values or one
/// is not finite.
pub fn median(values: &[f64]) -> Option<f64> {
    sorted(values).map(|v| middle(&v))
}

/// The narrowest symmetric pair of order statistics that covers the median with at least `level` (0 to 1),
/// or the range where even that does not reach it (at 95 %: fewer than six values).
///
/// The pair (k-th smallest, k-th greatest) of n values covers the median with probability
/// 1 − 2·P(B < k), B binomial with n trials of one half. `None` where there is no [`median`].
pub fn interval(values: &[f64], level: f64) -> Option<Interval> {
    let values = sorted(values)?;
    let n = values.len();
    let mut best =
        Interval { low: values[0], high: values[n - 1], level: coverage(n, 1), basis: Basis::Range };
    for k in 1..=n / 2 {
        let reached = coverage(n, k);
        if reached < level {
            break;
        }
        best = Interval {
            low: values[k - 1],
            high: values[n - k],
            level: reached,
            basis: Basis::OrderStatistics,
        };
    }
    Some(best)
}

/// 1 − 2·P(B < k) for B ~ Bin(n, 1/2); in logarithms, since 2^-n leaves the range of f64.
fn coverage(n: usize, k: usize) -> f64 {
    let mut ln_p = -(n as f64) * std::f64::consts::LN_2;
    let mut below = 0.0;
    for i in 0..k {
        below += ln_p.exp();
        ln_p += ((n - i) as f64 / (i + 1) as f64).ln();
    }
    (1.0 - 2.0 * below).max(0.0)
}

/// The arithmetic mean; none where there are no values or one is not finite.
pub fn mean(values: &[f64]) -> Option<f64> {
    sorted(values).map(|v| v.iter().sum::<f64>() / v.len() as f64)
}

/// The geometric mean; none where there are no values, or one is not finite and above zero.
pub fn geometric_mean(values: &[f64]) -> Option<f64> {
    let logs: Vec<f64> = values.iter().map(|v| v.ln()).collect();
    mean(&logs).map(f64::exp)
}

/// The standard deviation of a sample (n − 1); none for fewer than two values or one not finite.
pub fn standard_deviation(values: &[f64]) -> Option<f64> {
    let mean = mean(values)?;
    let squares: f64 = values.iter().map(|v| (v - mean).powi(2)).sum();
    (values.len() > 1).then(|| (squares / (values.len() - 1) as f64).sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;
    use measure::Seed;
    use proptest::prelude::*;

    #[test]
    fn the_interval_of_a_share_is_wilsons() {
        // Newcombe (1998), table I: 81 of 263, 15 of 148, 0 of 20, 1 of 29.
        for (seen, of, low, high) in [
            (81.0, 263.0, 0.2553, 0.3662),
            (15.0, 148.0, 0.0624, 0.1605),
            (0.0, 20.0, 0.0, 0.1611),
            (1.0, 29.0, 0.0061, 0.1718),
        ] {
            let (a, b) = share_interval(seen / of, of, 1.96);
            assert!((a - low).abs() < 1e-4 && (b - high).abs() < 1e-4, "{seen} of {of}: {a} to {b}");
        }
        assert_eq!(share_interval(0.0, 0.0, 1.96), (0.0, 1.0));
        assert_eq!(share_interval(1.0, 5.0, 1.96).1, 1.0);
    }

    #[test]
    fn six_values_are_the_first_to_reach_95_percent() {
        let five = interval(&[1.0, 2.0, 3.0, 4.0, 5.0], LEVEL).unwrap();
        assert_eq!((five.low, five.high, five.level, five.basis), (1.0, 5.0, 0.9375, Basis::Range));
        let six = interval(&[6.0, 1.0, 2.0, 3.0, 4.0, 5.0], LEVEL).unwrap();
        assert_eq!((six.low, six.high, six.level), (1.0, 6.0, 1.0 - 2.0 / 64.0));
        assert_eq!(six.basis, Basis::OrderStatistics);
    }

    #[test]
    fn coverage_agrees_with_the_tables_of_textbooks() {
        // n = 20: the 6th smallest and greatest cover with 95.86 %; n = 100: the 40th with 96.48 %.
        let values: Vec<f64> = (1..=20).map(f64::from).collect();
        let i = interval(&values, LEVEL).unwrap();
        assert_eq!((i.low, i.high), (6.0, 15.0));
        assert!((i.level - 0.958_61).abs() < 1e-5, "{}", i.level);
        let values: Vec<f64> = (1..=100).map(f64::from).collect();
        let i = interval(&values, LEVEL).unwrap();
        assert_eq!((i.low, i.high), (40.0, 61.0));
        assert!((i.level - 0.964_80).abs() < 1e-5, "{}", i.level);
        // Thousands of values: 2^-n is below the smallest f64, the coverage must not be lost.
        let i = interval(&(1..=5000).map(f64::from).collect::<Vec<_>>(), LEVEL).unwrap();
        assert!((0.95..0.953).contains(&i.level), "{}", i.level);
    }

    #[test]
    fn the_interval_covers_as_often_as_it_says() {
        let mut covered = 0;
        let rounds = 4000;
        for round in 0..rounds {
            let mut draw = Seed(11).draw("coverage", round);
            let values: Vec<f64> = (0..9).map(|_| (draw.below(1_000_000) as f64 / 1e6).powi(3)).collect();
            let i = interval(&values, LEVEL).unwrap();
            covered += u32::from((i.low..=i.high).contains(&0.125));
        }
        let share = f64::from(covered) / rounds as f64;
        assert!((share - 0.9609).abs() < 0.012, "{share}");
    }

    #[test]
    fn nothing_comes_of_nothing() {
        assert_eq!(median(&[]), None);
        assert_eq!(interval(&[f64::NAN, 1.0], LEVEL), None);
        assert_eq!(standard_deviation(&[1.0]), None);
    }

    #[test]
    fn spread_and_mean_of_a_known_sample() {
        let values = [2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0];
        assert_eq!(mean(&values), Some(5.0));
        assert!((standard_deviation(&values).unwrap() - (32.0f64 / 7.0).sqrt()).abs() < 1e-12);
    }

    proptest! {
        #[test]
        fn the_interval_holds_the_median(values in prop::collection::vec(-1e9f64..1e9, 1..60)) {
            let (m, i) = (median(&values).unwrap(), interval(&values, LEVEL).unwrap());
            prop_assert!(i.low <= m && m <= i.high);
            prop_assert_eq!(i.basis == Basis::OrderStatistics, values.len() >= 6);
            if i.basis == Basis::OrderStatistics {
                prop_assert!(i.level >= LEVEL);
            }
            let below = values.iter().filter(|v| **v < m).count();
            let above = values.iter().filter(|v| **v > m).count();
            prop_assert!(below * 2 <= values.len() && above * 2 <= values.len());
        }
    }
}
