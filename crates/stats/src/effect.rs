//! How much two distributions differ: effect sizes with their intervals.
//!
//! With millions of queries every test finds a difference, so the size of the difference is reported. Counts are resampled as
//! Poisson variables of their own mean (the Poisson bootstrap), which assumes that what was counted came independently; where
//! it came in clusters (many queries of one client), intervals are too narrow.

use measure::{Draw, Seed};

/// Resamples behind an interval.
const RESAMPLES: u64 = 400;

/// How much two distributions differ, from 0 (not at all) to 1 (nothing in common).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Effect {
    /// Of categories, the total variation distance: the least share of one that would have to be other to be as the other.
    /// Of numbers, the greatest difference of the shares at or below any of them (Kolmogorov and Smirnov).
    pub distance: f64,
    /// Lower end of its interval (basic bootstrap, 95 %); 0 where chance explains it.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// The distance that sampling alone stays below in 95 of 100 cases.
    pub by_chance: f64,
}

impl Effect {
    /// There is a difference that sampling alone does not make.
    pub fn is_shown(&self) -> bool {
        self.distance > self.by_chance
    }

    /// Whether two samples differ in how often they have each category; the counts are in the same order. None where a sample is empty.
    ///
    /// # Panics
    /// Where the categories are not the same.
    pub fn of_categories(a: &[u64], b: &[u64], seed: Seed) -> Option<Self> {
        Self::of(a, b, seed, total_variation)
    }

    /// The same of numbers in ascending order: how often each occurred.
    ///
    /// # Panics
    /// As above.
    pub fn of_numbers(a: &[u64], b: &[u64], seed: Seed) -> Option<Self> {
        Self::of(a, b, seed, kolmogorov_smirnov)
    }

    fn of(a: &[u64], b: &[u64], seed: Seed, distance: fn(&[f64], &[f64]) -> f64) -> Option<Self> {
        assert_eq!(a.len(), b.len(), "the same categories in the same order");
        let sum = |counts: &[u64]| counts.iter().sum::<u64>() as f64;
        let (all_a, all_b) = (sum(a), sum(b));
        if all_a == 0.0 || all_b == 0.0 {
            return None;
        }
        let means = |counts: &[u64]| counts.iter().map(|&n| n as f64).collect::<Vec<f64>>();
        let (a, b) = (means(a), means(b));
        let observed = distance(&a, &b);
        let pooled = |share: f64| a.iter().zip(&b).map(|(a, b)| (a + b) * share).collect::<Vec<f64>>();
        let null = [pooled(all_a / (all_a + all_b)), pooled(all_b / (all_a + all_b))];
        let resampled = |what: &str, a: &[f64], b: &[f64]| {
            let mut distances: Vec<f64> = (0..RESAMPLES)
                .map(|n| {
                    let mut draw = seed.draw(what, n);
                    let mut sample = |means: &[f64]| -> Vec<f64> {
                        means.iter().map(|&mean| poisson(mean, &mut draw)).collect()
                    };
                    distance(&sample(a), &sample(b))
                })
                .collect();
            distances.sort_by(f64::total_cmp);
            move |q: f64| distances[((RESAMPLES - 1) as f64 * q).round() as usize]
        };
        let own = resampled("own", &a, &b);
        let by_chance = resampled("chance", &null[0], &null[1])(0.95);
        let end = |q| (2.0 * observed - own(q)).clamp(0.0, 1.0);
        // A distance is never below 0, where the bootstrap is blind: what chance explains may be none.
        let low = if observed <= by_chance { 0.0 } else { end(0.975) };
        Some(Self { distance: observed, low, high: end(0.025).max(observed).max(by_chance), by_chance })
    }
}

fn total_variation(a: &[f64], b: &[f64]) -> f64 {
    let (all_a, all_b) = (a.iter().sum::<f64>().max(1.0), b.iter().sum::<f64>().max(1.0));
    a.iter().zip(b).map(|(a, b)| (a / all_a - b / all_b).abs()).sum::<f64>() / 2.0
}

fn kolmogorov_smirnov(a: &[f64], b: &[f64]) -> f64 {
    let (all_a, all_b) = (a.iter().sum::<f64>().max(1.0), b.iter().sum::<f64>().max(1.0));
    let (mut below, mut most) = (0.0, 0.0f64);
    for (a, b) in a.iter().zip(b) {
        below += a / all_a - b / all_b;
        most = most.max(below.abs());
    }
    most
}

/// A uniform number within (0, 1].
fn uniform(draw: &mut Draw) -> f64 {
    ((draw.bits() >> 11) + 1) as f64 / (1u64 << 53) as f64
}

/// A Poisson variable; beyond a mean of 50 a normal one with the same mean and variance.
fn poisson(mean: f64, draw: &mut Draw) -> f64 {
    if mean > 50.0 {
        // Box and Muller.
        let (one, two) = (uniform(draw), uniform(draw));
        let normal = (-2.0 * one.ln()).sqrt() * (2.0 * std::f64::consts::PI * two).cos();
        return (mean + mean.sqrt() * normal).round().max(0.0);
    }
    // Events within a unit of time, one exponential wait after the other.
    let (mut events, mut time) = (0.0, -uniform(draw).ln());
    while time < mean {
        events += 1.0;
        time -= uniform(draw).ln();
    }
    events
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A sample of `count` from shares, in categories.
    fn sample(shares: &[f64], count: f64, draw: &mut Draw) -> Vec<u64> {
        shares.iter().map(|share| poisson(share * count, draw) as u64).collect()
    }

    #[test]
    fn distances_are_as_by_hand() {
        let effect = Effect::of_categories(&[50, 50, 0], &[50, 25, 25], Seed(1)).unwrap();
        assert!((effect.distance - 0.25).abs() < 1e-12);
        let effect = Effect::of_numbers(&[50, 0, 50], &[0, 50, 50], Seed(1)).unwrap();
        assert!((effect.distance - 0.5).abs() < 1e-12 && effect.is_shown());
        assert_eq!(Effect::of_numbers(&[], &[], Seed(1)), None);
        assert_eq!(Effect::of_categories(&[0, 0], &[1, 0], Seed(1)), None);
        let same = Effect::of_categories(&[900, 100], &[900, 100], Seed(1)).unwrap();
        assert!(same.distance == 0.0 && same.low == 0.0 && same.high > 0.0 && !same.is_shown());
    }

    #[test]
    fn intervals_hold_what_they_say_and_chance_is_told_from_difference() {
        let shares = [0.55, 0.2, 0.1, 0.1, 0.03, 0.01, 0.005, 0.005];
        let mut other = shares;
        (other[0], other[3]) = (0.45, 0.2);
        for (truth, b) in [(0.0, shares), (0.1, other)] {
            for numbers in [false, true] {
                let (mut held, mut shown) = (0, 0);
                for n in 0..200 {
                    let mut draw = Seed(7).draw("test", n);
                    let (a, b) = (sample(&shares, 3000.0, &mut draw), sample(&b, 2000.0, &mut draw));
                    let of = if numbers { Effect::of_numbers } else { Effect::of_categories };
                    let effect = of(&a, &b, Seed(n)).unwrap();
                    held += u32::from(effect.low <= truth && truth <= effect.high);
                    shown += u32::from(effect.is_shown());
                }
                assert!(held >= 180, "{truth} {numbers}: {held} of 200 hold it");
                assert!(if truth == 0.0 { shown <= 20 } else { shown == 200 }, "{truth} {numbers}: {shown}");
            }
        }
    }

    #[test]
    fn poisson_variables_have_their_mean_and_variance() {
        for mean in [0.0, 0.3, 4.0, 49.0, 51.0, 4000.0] {
            let mut draw = Seed(1).draw("poisson", 0);
            let values: Vec<f64> = (0..20_000).map(|_| poisson(mean, &mut draw)).collect();
            let average = values.iter().sum::<f64>() / 20_000.0;
            let variance = values.iter().map(|v| (v - average).powi(2)).sum::<f64>() / 20_000.0;
            assert!((average - mean).abs() <= 5.0 * (mean / 20_000.0).sqrt() + 1e-12, "{mean}: {average}");
            assert!((variance - mean).abs() <= 0.06 * mean + 1e-12, "{mean}: {variance}");
        }
    }
}
