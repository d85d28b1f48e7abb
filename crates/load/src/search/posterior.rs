//! Where the knee probably is: the posterior distribution over loads, by Bayes' rule from the full-length trials (as in PLRsearch, FD.io).
//!
//! A trial at load `r` loses more than the goal with probability `1 / (1 + (m / r)^(1/s))`: half of them do at `m`, and the spread `s`
//! says how fast that share rises with the load. A server that is steady has a small spread; one that pauses at random a large one. Before
//! the first trial each `m` and each `s` is equally likely on a logarithmic scale. Some trials, [`LAPSE`], are wrong whatever the load:
//! a single one never decides.

use super::{Goal, Trial};

/// The share of trials whose loss has nothing to do with the load, both ways.
const LAPSE: f64 = 0.02;

/// The spreads considered, relative to the load.
const SPREADS: [f64; 9] = [0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.4, 0.8];

/// The distance of neighbouring loads of the distribution, relative.
const STEP: f64 = 0.004;

/// How far beyond the loads allowed the knee may be: only so can it be said to be there.
const BEYOND: f64 = 4.0;

/// The knee's distribution.
#[derive(Clone, Debug)]
pub(super) struct Posterior {
    /// Logarithm of the smallest knee considered.
    least: f64,
    /// By knee, then by spread: logarithms of probabilities, which need not sum to 1.
    logs: Vec<[f64; SPREADS.len()]>,
    /// By knee, how probable it is that it is there or at a smaller load, in proportion to the last of them.
    sums: Vec<f64>,
    /// How many spreads the knee is above the load at which half of the trials lose too much, by the goal's exceed ratio.
    shift: f64,
}

impl Posterior {
    /// Before any trial, for knees between `min` and `max` queries per second, and some way beyond.
    pub fn new(goal: &Goal, min: u64, max: u64) -> Self {
        let ratio = goal.exceed_ratio.clamp(LAPSE, 1.0 - LAPSE);
        let (least, most) = ((min.max(1) as f64 / BEYOND).ln(), (max as f64 * BEYOND).ln());
        let steps = ((most - least) / STEP).ceil() as usize + 1;
        let logs = vec![[0.0; SPREADS.len()]; steps];
        Self { least, sums: sums(&logs), logs, shift: (ratio / (1.0 - ratio)).ln() }
    }

    /// Takes a full-length trial that is evidence.
    pub fn record(&mut self, goal: &Goal, trial: &Trial) {
        let (at, high) = (trial.rate.ln(), trial.loss_ratio > goal.loss_ratio);
        for (n, logs) in self.logs.iter_mut().enumerate() {
            let knee = self.least + n as f64 * STEP;
            for (log, spread) in logs.iter_mut().zip(SPREADS) {
                let share = 1.0 / (1.0 + (-(at - knee) / spread - self.shift).exp());
                let share = LAPSE + (1.0 - 2.0 * LAPSE) * share;
                *log += if high { share } else { 1.0 - share }.ln();
            }
        }
        self.sums = sums(&self.logs);
    }

    /// The load below which the knee is with this probability, in queries per second.
    pub fn quantile(&self, q: f64) -> f64 {
        let wanted = q * self.sums.last().copied().unwrap_or_default();
        let n = self.sums.partition_point(|sum| *sum < wanted);
        (self.least + n as f64 * STEP).exp()
    }
}

/// The running sums of the probabilities of all knees, in proportion.
fn sums(logs: &[[f64; SPREADS.len()]]) -> Vec<f64> {
    let most = logs.iter().flatten().copied().fold(f64::NEG_INFINITY, f64::max);
    let weights = logs.iter().map(|logs| logs.iter().map(|log| (log - most).exp()).sum::<f64>());
    weights
        .scan(0.0, |sum, weight| {
            *sum += weight;
            Some(*sum)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use measure::Seed;
    use measure::clock::SECOND;

    fn posterior(trials: &[(f64, bool)]) -> Posterior {
        let goal = Goal::default();
        let mut posterior = Posterior::new(&goal, 100, 1_000_000);
        for &(rate, high) in trials {
            let loss_ratio = if high { 0.5 } else { 0.0 };
            let trial =
                Trial { rate, duration: 2 * SECOND, loss_ratio, valid: true, disturbed: false, seen: None };
            posterior.record(&goal, &trial);
        }
        posterior
    }

    #[test]
    fn without_trials_each_knee_is_as_probable() {
        let posterior = posterior(&[]);
        // Between a quarter of the least and four times the most.
        assert!((posterior.quantile(0.5) / 10_000.0 - 1.0).abs() < 0.01);
        assert!((posterior.quantile(0.01) / 28.2 - 1.0).abs() < 0.02, "{}", posterior.quantile(0.01));
    }

    #[test]
    fn trials_that_agree_make_it_narrow() {
        let wide = posterior(&[(9_000.0, false), (11_000.0, true)]);
        let narrow = posterior(&[[(9_000.0, false), (11_000.0, true)]; 6].concat());
        let interval = |p: &Posterior| (p.quantile(0.05), p.quantile(0.95));
        let ((a, b), (c, d)) = (interval(&wide), interval(&narrow));
        assert!(a < 9_000.0 && b > 11_000.0, "two trials prove little: {a} to {b}");
        assert!(c >= 8_900.0 && d <= 11_200.0, "{c} to {d}");
    }

    #[test]
    fn trials_that_contradict_each_other_make_it_wide() {
        let unsteady = [
            (5_000.0, false),
            (7_000.0, true),
            (9_000.0, false),
            (11_000.0, true),
            (13_000.0, false),
            (20_000.0, true),
        ];
        let posterior = posterior(&unsteady);
        assert!(posterior.quantile(0.05) < 7_000.0 && posterior.quantile(0.95) > 13_000.0);
        // One that is wrong by accident does not.
        let steady = [[(9_000.0, false), (11_000.0, true)]; 8].concat();
        let accident = self::posterior(&[&steady[..], &[(2_000.0, true)]].concat());
        assert!(accident.quantile(0.05) > 8_000.0, "{}", accident.quantile(0.05));
    }

    #[test]
    fn the_exceed_ratio_moves_the_knee() {
        let knee = |exceed_ratio| {
            let goal = Goal { exceed_ratio, ..Goal::default() };
            let mut posterior = Posterior::new(&goal, 100, 1_000_000);
            for n in 0..40u32 {
                let rate = 5_000.0 + 250.0 * f64::from(n);
                // From 5,000 to 15,000 queries/s ever more trials lose too much.
                let high = Seed(5).draw("test", n.into()).share(f64::from(n) / 40.0);
                let loss_ratio = if high { 0.5 } else { 0.0 };
                let trial = Trial {
                    rate,
                    duration: 2 * SECOND,
                    loss_ratio,
                    valid: true,
                    disturbed: false,
                    seen: None,
                };
                posterior.record(&goal, &trial);
            }
            posterior.quantile(0.5)
        };
        let (strict, half, lenient) = (knee(0.1), knee(0.5), knee(0.9));
        assert!(strict < half * 0.9 && lenient > half * 1.1, "{strict} {half} {lenient}");
    }
}
