//! The intervals between queries.

use measure::clock::SECOND;
use measure::{Histogram, Nanos};
use traffic::Law;

/// Quantiles of the intervals that a profile has: from 0 % to 100 % in steps of 1 %.
const STEPS: usize = 100;

/// Intervals, as queries come.
#[derive(Default)]
pub(super) struct Intervals {
    lengths: Histogram,
    sum: f64,
    last: Option<Nanos>,
}

impl Intervals {
    pub fn add(&mut self, at: Nanos) {
        if let Some(last) = self.last {
            let length = at.saturating_sub(last);
            self.lengths.record(length);
            self.sum += length as f64;
        }
        // Captured in disorder: the next interval begins at the later.
        self.last = self.last.max(Some(at));
    }

    /// Queries per second; `None` where there are no two at different times.
    pub fn rate(&self) -> Option<f64> {
        (self.sum > 0.0).then(|| self.lengths.count() as f64 * SECOND as f64 / self.sum)
    }

    /// The law, and the rate where the law does not say it.
    pub fn law(&self) -> (Law, Option<f64>) {
        let Some(rate) = self.rate() else { return (Law::Even, None) };
        let n = self.lengths.count() as f64;
        let mean = self.sum / n;
        let quantile = |step: usize| self.lengths.quantile(step as f64 / STEPS as f64) as f64;
        // The histogram knows them to 0.1 %.
        if quantile(1) > 0.98 * mean && quantile(STEPS - 1) < 1.02 * mean {
            return (Law::Even, Some(rate));
        }
        let off = |step: usize| (1.0 - (-quantile(step) / mean).exp() - step as f64 / STEPS as f64).abs();
        // No further off than draws are (Kolmogorov and Smirnov, about six standard deviations of the middle).
        if (1..STEPS).map(off).fold(0.0, f64::max) < 3.0 / n.sqrt() + 0.002 {
            return (Law::Poisson, Some(rate));
        }
        let mut quantiles: Vec<f64> = (0..STEPS).map(quantile).collect();
        // The last so that the mean is right, where straight lines would make the few longest intervals more than they are.
        let inner: f64 = quantiles.windows(2).map(|w| (w[0] + w[1]) / 2.0).sum();
        let most = quantiles[STEPS - 1];
        quantiles.push((2.0 * (mean * STEPS as f64 - inner) - most).max(most));
        let rounded = |length: f64| length.round() / 1000.0;
        (Law::Intervals(quantiles.into_iter().map(rounded).collect()), None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use measure::{Arrivals, Seed};

    fn of(arrivals: &Arrivals, count: usize) -> Intervals {
        let mut intervals = Intervals::default();
        arrivals.times().take(count).for_each(|at| intervals.add(at));
        intervals
    }

    #[test]
    fn laws_come_back() {
        let even = of(&Arrivals::Fixed { rate: 5000.0 }, 10_000);
        assert!(matches!(even.law(), (Law::Even, Some(rate)) if (rate - 5000.0).abs() < 1.0));
        for seed in 1..20 {
            let poisson = of(&Arrivals::Poisson { rate: 300.0, seed: Seed(seed) }, 20_000);
            assert!(matches!(poisson.law(), (Law::Poisson, Some(rate)) if (rate - 300.0).abs() < 15.0));
        }
        let quantiles = vec![1.0, 2.0, 2.0, 50.0];
        let gaps = of(&Arrivals::Gaps { rate: 1000.0, quantiles, seed: Seed(1) }, 100_000);
        let (law, None) = gaps.law() else { panic!("{:?}", gaps.law()) };
        assert!((law.rate().unwrap() / gaps.rate().unwrap() - 1.0).abs() < 0.001);
        let Law::Intervals(found) = &law else { panic!("{law:?}") };
        assert_eq!(found.len(), 101);
        // Of a mean of 9.83: the median is 2.
        assert!((found[50] / (2.0 / (59.0 / 6.0) * 1000.0) - 1.0).abs() < 0.01, "{found:?}");
        let again = of(&law.arrivals(law.rate().unwrap(), Seed(2)), 100_000);
        let (Law::Intervals(again), None) = again.law() else { panic!() };
        for step in [10, 50, 90] {
            assert!(
                (found[step] / again[step] - 1.0).abs() < 0.05,
                "{step}: {} {}",
                found[step],
                again[step]
            );
        }
    }

    #[test]
    fn disorder_and_standstill_are_no_fault() {
        let mut intervals = Intervals::default();
        [5, 3, 9].into_iter().for_each(|at| intervals.add(at * SECOND));
        assert_eq!(intervals.rate(), Some(0.5));
        let mut same = Intervals::default();
        [5, 5, 5].into_iter().for_each(|at| same.add(at));
        assert_eq!(same.law(), (Law::Even, None));
        assert_eq!(Intervals::default().law(), (Law::Even, None));
    }
}
