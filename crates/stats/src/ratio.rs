//! The ratio of two samples of repeats, with an interval that holds its level for a handful of them.
//!
//! Repeats are few (three to twelve), so resampling them is far too sure of itself. What is compared are logarithms,
//! by Student's t: of differences where repeats were made pair by pair (n − 1 degrees of freedom), otherwise by
//! Welch's. With tails heavier than the normal distribution's the level is kept, at the price of wider intervals; the
//! tests prove both.

use crate::repeats::{mean, standard_deviation};
use statrs::function::beta::beta_reg;

/// With fewer repeats on a side, nothing is said.
pub const MIN_REPEATS: usize = 3;

/// The ratio of the figures of B to those of A.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ratio {
    /// Its natural logarithm, from means of logarithms.
    log: f64,
    /// The standard error of that.
    error: f64,
    /// Degrees of freedom behind the error.
    freedom: f64,
}

impl Ratio {
    /// From repeats that were made pair by pair, each (A, B): what disturbs both of a pair cancels.
    ///
    /// `noise` is the relative standard deviation that the way of measuring (rounding, steps) adds to each value; few
    /// repeats may agree by accident and not show it. None below [`MIN_REPEATS`] pairs, or where a value is not above zero.
    pub fn of_pairs(pairs: &[(f64, f64)], noise: f64) -> Option<Self> {
        let logs: Vec<f64> = pairs.iter().map(|(a, b)| (b / a).ln()).collect();
        let positive = pairs.iter().all(|(a, b)| *a > 0.0 && *b > 0.0);
        if pairs.len() < MIN_REPEATS || !positive {
            return None;
        }
        let n = logs.len() as f64;
        let variance = standard_deviation(&logs)?.powi(2) + 2.0 * noise * noise;
        Some(Self { log: mean(&logs)?, error: (variance / n).sqrt(), freedom: n - 1.0 })
    }

    /// From independent repeats of A and of B. `noise` and None as of [`Ratio::of_pairs`].
    pub fn of(a: &[f64], b: &[f64], noise: f64) -> Option<Self> {
        let side = |values: &[f64]| {
            let logs: Vec<f64> = values.iter().map(|v| v.ln()).collect();
            if values.len() < MIN_REPEATS || values.iter().any(|v| *v <= 0.0) {
                return None;
            }
            let n = logs.len() as f64;
            let variance = standard_deviation(&logs)?.powi(2) + noise * noise;
            Some((mean(&logs)?, variance / n, n - 1.0))
        };
        let ((mean_a, of_a, free_a), (mean_b, of_b, free_b)) = (side(a)?, side(b)?);
        let variance = of_a + of_b;
        // Welch and Satterthwaite; without any variance, as if it were equal.
        let freedom = variance.powi(2) / (of_a.powi(2) / free_a + of_b.powi(2) / free_b);
        let freedom = if freedom.is_finite() { freedom } else { free_a + free_b };
        Some(Self { log: mean_b - mean_a, error: variance.sqrt(), freedom })
    }

    /// From values of A and of B that scatter alike: one variance for both, so that few on one side say as much as they can. None as
    /// of [`Ratio::of_pairs`].
    pub fn of_alike(a: &[f64], b: &[f64]) -> Option<Self> {
        let side = |values: &[f64]| {
            let logs: Vec<f64> = values.iter().map(|v| v.ln()).collect();
            if values.len() < MIN_REPEATS || values.iter().any(|v| *v <= 0.0) {
                return None;
            }
            let n = logs.len() as f64;
            Some((mean(&logs)?, standard_deviation(&logs)?.powi(2) * (n - 1.0), n))
        };
        let ((mean_a, squares_a, n_a), (mean_b, squares_b, n_b)) = (side(a)?, side(b)?);
        let freedom = n_a + n_b - 2.0;
        let variance = (squares_a + squares_b) / freedom * (1.0 / n_a + 1.0 / n_b);
        Some(Self { log: mean_b - mean_a, error: variance.sqrt(), freedom })
    }

    /// The relative difference of B to A (−0.1: 10 % below).
    pub fn difference(&self) -> f64 {
        self.log.exp_m1()
    }

    /// The interval of that at `level` (0 to 1): low, high.
    pub fn interval(&self, level: f64) -> (f64, f64) {
        let half = self.error * quantile(level, self.freedom);
        ((self.log - half).exp_m1(), (self.log + half).exp_m1())
    }

    /// How often (0 to 1) chance alone makes such a difference or a greater one between equals.
    pub fn by_chance(&self) -> f64 {
        match (self.log == 0.0, self.error == 0.0) {
            (true, _) => 1.0,
            (false, true) => 0.0,
            _ => tails(self.log / self.error, self.freedom),
        }
    }

    /// How many repeats of each side would put the whole interval at `level` on one side of the share `limit`, about, from `repeats`
    /// that scatter so; none where no number up to 10,000 does.
    pub fn repeats_for(&self, repeats: usize, limit: f64, level: f64) -> Option<usize> {
        let away = (self.log - limit.ln_1p()).abs();
        let of_one = self.error * (repeats as f64).sqrt();
        // Degrees of freedom grow with the repeats, one or two for each.
        let free = |n: f64| (self.freedom * n / repeats as f64).max(1.0);
        let enough = |n: &usize| of_one / (*n as f64).sqrt() * quantile(level, free(*n as f64)) <= away;
        (repeats + 1..repeats + 20)
            .chain((1..).map(|step| repeats + 20 + step * (repeats / 4 + 5)).take_while(|n| *n <= 10_000))
            .find(enough)
    }

    /// The least true difference, as a share, that is shown at `level` four times in five.
    pub fn detectable(&self, level: f64) -> f64 {
        (self.error * (quantile(level, self.freedom) + quantile(0.6, self.freedom))).exp_m1()
    }
}

/// The probabilities of many comparisons, adjusted for their number (Benjamini and Hochberg). This controls the false
/// discovery rate: of those that come out at `x` or below, on average a share of at most `x` is chance. It does not
/// control the chance of any false one among them, but where nothing differs at all the two are the same.
pub fn adjusted(by_chance: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..by_chance.len()).collect();
    order.sort_by(|a, b| by_chance[*b].total_cmp(&by_chance[*a]));
    let mut all = vec![1.0; by_chance.len()];
    let mut least = 1.0f64;
    for (greater, &i) in order.iter().enumerate() {
        let rank = by_chance.len() - greater;
        least = least.min(by_chance[i] * by_chance.len() as f64 / rank as f64);
        all[i] = least;
    }
    all
}

/// P(|T| ≥ |t|) of Student's t.
fn tails(t: f64, freedom: f64) -> f64 {
    beta_reg(freedom / 2.0, 0.5, freedom / (freedom + t * t))
}

/// The t within which (on both sides of zero) the share `level` of Student's distribution lies.
fn quantile(level: f64, freedom: f64) -> f64 {
    let outside = 1.0 - level;
    let (mut low, mut high) = (0.0, 1.0);
    while tails(high, freedom) > outside && high < 1e12 {
        (low, high) = (high, high * 2.0);
    }
    for _ in 0..60 {
        let middle = f64::midpoint(low, high);
        if tails(middle, freedom) > outside { low = middle } else { high = middle }
    }
    high
}

/// Scatter as repeats have it, for tests.
#[cfg(test)]
pub(crate) mod noise {
    use measure::Draw;

    fn uniform(draw: &mut Draw) -> f64 {
        ((draw.bits() >> 11) + 1) as f64 / (1u64 << 53) as f64
    }

    pub fn normal(draw: &mut Draw) -> f64 {
        let (one, two) = (uniform(draw), uniform(draw));
        (-2.0 * one.ln()).sqrt() * (2.0 * std::f64::consts::PI * two).cos()
    }

    /// How repeats scatter: the name, and a draw of the relative error of one.
    pub type Noise = (&'static str, fn(&mut Draw) -> f64);

    /// Scatter as machines have it, and worse.
    pub const NOISES: [Noise; 5] = [
        ("normal, 2 %", |d| 0.02 * normal(d)),
        ("normal, 30 %", |d| 0.3 * normal(d)),
        // Student's t with 2 degrees: its variance does not exist.
        ("heavy tails", |d| 0.02 * normal(d) / (-uniform(d).ln()).sqrt()),
        ("one in eight a fifth slower", |d| 0.02 * normal(d) + if d.chance(1, 8) { 0.2 } else { 0.0 }),
        ("in steps of 2 %", |d| (normal(d) * 0.8).round() * 0.02),
    ];

    pub fn sample(n: usize, log: f64, noise: Noise, draw: &mut Draw) -> Vec<f64> {
        (0..n).map(|_| 5e4 * (log + noise.1(draw)).exp()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::noise::{NOISES, Noise, normal, sample};
    use super::*;
    use crate::LEVEL;
    use measure::Seed;

    #[test]
    fn student_s_distribution_is_as_in_tables() {
        for (level, freedom, want) in [
            (0.95, 1.0, 12.7062),
            (0.95, 2.0, 4.302_65),
            (0.95, 5.0, 2.570_58),
            (0.99, 10.0, 3.169_27),
            (0.998, 4.0, 7.173_18),
            (0.95, 1e6, 1.959_97),
            (0.6, 5.0, 0.919_544),
        ] {
            let got = quantile(level, freedom);
            assert!((got / want - 1.0).abs() < 1e-5, "{level} {freedom}: {got}, not {want}");
            assert!((tails(got, freedom) - (1.0 - level)).abs() < 1e-9);
        }
    }

    #[test]
    fn a_ratio_by_hand() {
        // ln(b/a): 0.1, 0.2, 0.3: mean 0.2, standard deviation 0.1, t(2) = 4.30265.
        let pairs = [0.1f64, 0.2, 0.3].map(|x| (200.0, 200.0 * x.exp()));
        let ratio = Ratio::of_pairs(&pairs, 0.0).unwrap();
        let (low, high) = ratio.interval(LEVEL);
        let half = 0.1 / 3f64.sqrt() * 4.302_65;
        assert!((ratio.difference() - 0.2f64.exp_m1()).abs() < 1e-12);
        assert!((low - (0.2 - half).exp_m1()).abs() < 1e-6 && (high - (0.2 + half).exp_m1()).abs() < 1e-6);
        assert!((ratio.by_chance() - 0.074_18).abs() < 1e-5, "{}", ratio.by_chance());
        // Welch: equal variances and sizes give 2(n − 1) degrees, t(4) = 2.77645.
        let a = [1.0f64, 1.1, 1.2].map(f64::exp);
        let b = [1.5f64, 1.6, 1.7].map(f64::exp);
        let ratio = Ratio::of(&a, &b, 0.0).unwrap();
        let half = 0.1 * (2.0f64 / 3.0).sqrt() * 2.776_45;
        assert!((ratio.interval(LEVEL).0 - (0.5 - half).exp_m1()).abs() < 1e-5);
    }

    #[test]
    fn too_few_or_no_figures_give_no_ratio() {
        assert_eq!(Ratio::of(&[1.0, 2.0], &[1.0, 2.0, 3.0], 0.01), None);
        assert_eq!(Ratio::of(&[1.0, 2.0, 0.0], &[1.0, 2.0, 3.0], 0.01), None);
        assert_eq!(Ratio::of_pairs(&[(1.0, 1.0); 2], 0.01), None);
        assert_eq!(Ratio::of_pairs(&[(1.0, f64::NAN); 3], 0.01), None);
        assert_eq!(Ratio::of(&[1.0, 1.0, f64::INFINITY], &[1.0; 3], 0.01), None);
    }

    #[test]
    fn repeats_that_agree_by_accident_prove_nothing() {
        let same = Ratio::of_pairs(&[(100.0, 100.0); 3], 0.005).unwrap();
        assert!(same.by_chance() == 1.0 && same.interval(LEVEL).0 < 0.0);
        let near = Ratio::of(&[100.0; 3], &[100.5; 3], 0.005).unwrap();
        assert!(near.by_chance() > 0.2, "{}", near.by_chance());
        // Without a least noise, no interval at all: that is what it is for.
        assert_eq!(Ratio::of(&[100.0; 3], &[100.5; 3], 0.0).unwrap().by_chance(), 0.0);
    }

    /// A against A: shown at 95 % in at most 5 % of cases (3 standard deviations of 3,000 rounds: 1.2 %), paired or not,
    /// whatever the noise; paired with a drift of the machine that is far greater than the noise.
    #[test]
    fn intervals_hold_their_level_for_a_handful_of_repeats() {
        let rounds = 3000;
        for noise in NOISES {
            for n in [3, 5, 8, 12] {
                let mut shown = [0; 2];
                for round in 0..rounds {
                    let mut draw = Seed(5).draw(noise.0, round * 100 + n as u64);
                    let (a, b) = (sample(n, 0.0, noise, &mut draw), sample(n, 0.0, noise, &mut draw));
                    let drifting = |(a, b): (&f64, &f64)| {
                        let drift = (0.3 * normal(&mut draw)).exp();
                        (a * drift, b * drift)
                    };
                    let pairs: Vec<(f64, f64)> = a.iter().zip(&b).map(drifting).collect();
                    let both = [Ratio::of(&a, &b, 0.005), Ratio::of_pairs(&pairs, 0.005)];
                    for (shown, ratio) in shown.iter_mut().zip(both) {
                        let (low, high) = ratio.unwrap().interval(LEVEL);
                        *shown += u32::from(low > 0.0 || high < 0.0);
                    }
                }
                let [apart, paired] = shown.map(|n| f64::from(n) / rounds as f64);
                assert!(apart <= 0.062 && paired <= 0.062, "{}, n = {n}: {apart} {paired}", noise.0);
                // Nor is the level kept by never saying anything.
                assert!(noise.0 != "normal, 30 %" || (apart > 0.02 && paired > 0.037), "{apart} {paired}");
            }
        }
    }

    /// Many figures at once, A against A: any of them is shown in at most 5 % of all comparisons.
    #[test]
    fn of_many_figures_none_is_shown_by_chance() {
        let rounds = 1500;
        for noise in NOISES {
            for (n, figures) in [(3, 24), (6, 24), (12, 8)] {
                let mut shown = 0;
                for round in 0..rounds {
                    let mut draw = Seed(6).draw(noise.0, round * 100 + n as u64);
                    let mut one = || {
                        let (a, b) = (sample(n, 0.0, noise, &mut draw), sample(n, 0.0, noise, &mut draw));
                        Ratio::of(&a, &b, 0.005).unwrap().by_chance()
                    };
                    let all: Vec<f64> = (0..figures).map(|_| one()).collect();
                    shown += u32::from(adjusted(&all).iter().any(|p| *p <= 0.05));
                }
                let share = f64::from(shown) / rounds as f64;
                assert!(share <= 0.067, "{}, n = {n}: {share} of {rounds}", noise.0);
            }
        }
    }

    /// One of 24 figures is 10 % lower, with a noise of 2 % and six repeats: it is shown, and as more than 5 %.
    #[test]
    fn a_slowdown_of_ten_percent_is_found() {
        let (rounds, noise) = (400, NOISES[0]);
        let (mut shown, mut certain) = ([0; 2], [0; 2]);
        for round in 0..rounds {
            let mut draw = Seed(7).draw("slow", round);
            let mut ratios = [Vec::new(), Vec::new()];
            for figure in 0..24 {
                let log = if figure == 11 { 0.9f64.ln() } else { 0.0 };
                let (a, b) = (sample(6, 0.0, noise, &mut draw), sample(6, log, noise, &mut draw));
                let pairs: Vec<(f64, f64)> = a.iter().copied().zip(b.iter().copied()).collect();
                ratios[0].push(Ratio::of(&a, &b, 0.005).unwrap());
                ratios[1].push(Ratio::of_pairs(&pairs, 0.005).unwrap());
            }
            for (i, ratios) in ratios.iter().enumerate() {
                let adjusted = adjusted(&ratios.iter().map(Ratio::by_chance).collect::<Vec<_>>());
                let found = adjusted[11] <= 0.05;
                shown[i] += u32::from(found);
                certain[i] += u32::from(found && ratios[11].interval(LEVEL).1 < -0.05);
            }
        }
        assert!(
            shown.iter().all(|n| *n >= 370) && certain.iter().all(|n| *n >= 350),
            "{shown:?} {certain:?}"
        );
    }

    /// Repeats end at the first of these looks at which the interval at 99 % is on one side of the threshold; the claim is made at
    /// 95 %. Where the truth is the threshold itself, each of the two claims is false, and may come in 2.5 % without looks.
    #[test]
    fn looks_on_the_way_leave_the_level_about_as_it_is() {
        let (rounds, limit) = (2000, -0.05f64);
        let (mut no_worse, mut worse) = (0, 0);
        for round in 0..rounds {
            let mut draw = Seed(9).draw("looks", round);
            let noise: Noise = ("normal, 5 %", |d| 0.05 * normal(d));
            let all: Vec<(f64, f64)> =
                sample(38, limit.ln_1p(), noise, &mut draw).into_iter().map(|b| (5e4, b)).collect();
            let mut last = None;
            for n in [6, 8, 10, 13, 17, 22, 29, 38] {
                let ratio = Ratio::of_pairs(&all[..n], 0.0).unwrap();
                let (low, high) = ratio.interval(0.99);
                last = Some(ratio);
                if low > limit || high < limit {
                    break;
                }
            }
            let (low, high) = last.unwrap().interval(LEVEL);
            no_worse += u32::from(low > limit);
            worse += u32::from(high < limit);
        }
        let [no_worse, worse] = [no_worse, worse].map(|n| f64::from(n) / rounds as f64);
        assert!(no_worse < 0.055 && worse < 0.055, "{no_worse} {worse}");
        // A look at 95 % each would be false in about one of ten.
        assert!(no_worse > 0.015 && worse > 0.015, "{no_worse} {worse}");
    }

    #[test]
    fn the_repeats_needed_are_about_those_that_decide() {
        // ln(b/a) with standard deviation 0.1 around 0.02 below, and a threshold of 5 % less.
        let logs = [0.1f64, -0.1, 0.1, -0.1, 0.1, -0.1].map(|x| x * (5.0f64 / 6.0).sqrt() - 0.02);
        let pairs: Vec<(f64, f64)> = logs.iter().map(|x| (1.0, x.exp())).collect();
        let ratio = Ratio::of_pairs(&pairs, 0.0).unwrap();
        let needed = ratio.repeats_for(6, -0.05, LEVEL).unwrap();
        // (1.96 · 0.1 / 0.0313)² is 39; Student's t asks for some more.
        assert!((38..48).contains(&needed), "{needed}");
        // A difference exactly at the threshold is never decided.
        let at = Ratio::of_pairs(&[(1.0, 0.94), (1.0, 0.95), (1.0, 0.9601)], 0.0).unwrap();
        assert_eq!(at.repeats_for(3, at.difference(), LEVEL), None);
    }

    #[test]
    fn what_can_be_seen_is_seen_four_times_in_five() {
        let (mut seen, rounds) = (0, 2000);
        let know = Ratio { log: 0.0, error: 0.02 * (2.0f64 / 6.0).sqrt(), freedom: 10.0 };
        let least = know.detectable(LEVEL).ln_1p();
        for round in 0..rounds {
            let mut draw = Seed(8).draw("detectable", round);
            let (a, b) = (sample(6, 0.0, NOISES[0], &mut draw), sample(6, least, NOISES[0], &mut draw));
            seen += u32::from(Ratio::of(&a, &b, 0.0).unwrap().interval(LEVEL).0 > 0.0);
        }
        let share = f64::from(seen) / rounds as f64;
        assert!((0.74..0.86).contains(&share), "{share}");
    }

    #[test]
    fn adjusted_as_by_hand() {
        let got = adjusted(&[0.01, 0.5, 0.02, 0.03, 0.9]);
        let want = [0.05, 0.625, 0.05, 0.05, 0.9];
        assert!(got.iter().zip(want).all(|(g, w)| (g - w).abs() < 1e-12), "{got:?}");
        assert_eq!(adjusted(&[]), Vec::<f64>::new());
    }
}
