//! When queries are due: absolute deadlines, never sums of what was late.

use crate::clock::{Nanos, SECOND};
use crate::seed::{Draw, Seed};
use serde::{Deserialize, Serialize};

/// How a load is paced.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub enum Pace {
    /// Open loop: queries are due at instants that do not depend on the answers.
    Open(Arrivals),
    /// Open loop at the instants that the queries bring with them, those of a capture.
    Recorded {
        /// How many times as fast as recorded: 0.1 and 0.01 are RZAIA's.
        speed: f64,
    },
    /// A closed window of queries in flight, only to compare with queryperf and dnsperf.
    Closed {
        /// Queries in flight.
        window: u32,
    },
    /// As fast as the generator can, regardless of answers.
    Flood,
}

/// The arrival process of an open loop. Rates are queries per second.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub enum Arrivals {
    /// Evenly spaced.
    Fixed {
        /// Queries per second.
        rate: f64,
    },
    /// A rate that rises or falls evenly, and then stays.
    Ramp {
        /// At the start.
        from: f64,
        /// At the end of the ramp, and after it.
        to: f64,
        /// How long the ramp is, in nanoseconds.
        over: Nanos,
    },
    /// One rate after the other; the last stays.
    Steps {
        /// The rates in order.
        rates: Vec<f64>,
        /// How long each is offered, in nanoseconds.
        each: Nanos,
    },
    /// Independent arrivals: exponential gaps.
    Poisson {
        /// Queries per second, on average.
        rate: f64,
        /// The same seed gives the same instants, whatever the number of workers.
        #[serde(default)]
        seed: Seed,
    },
    /// Independent gaps with a distribution that was fitted or measured.
    Gaps {
        /// Queries per second, on average: the gaps are scaled to it.
        rate: f64,
        /// Relative gaps at evenly spaced quantiles, ascending, at least two; straight lines lie between them.
        quantiles: Vec<f64>,
        /// As in [`Self::Poisson`].
        #[serde(default)]
        seed: Seed,
    },
}

impl Arrivals {
    /// Refuses a pace that cannot be kept.
    ///
    /// # Errors
    /// A sentence.
    pub fn check(&self) -> Result<(), String> {
        let positive = |rate: f64| {
            if rate.is_finite() && rate > 0.0 {
                Ok(())
            } else {
                Err(format!("a rate of {rate} queries/s: it must be above zero"))
            }
        };
        match self {
            Self::Fixed { rate } | Self::Poisson { rate, .. } => positive(*rate),
            Self::Ramp { from, to, over } => {
                positive(*from).and(positive(*to))?;
                if *over == 0 { Err("a ramp that takes no time: give it a duration".into()) } else { Ok(()) }
            }
            Self::Steps { rates, each } => {
                rates.iter().try_for_each(|r| positive(*r))?;
                if rates.is_empty() || *each == 0 {
                    return Err("steps need at least one rate, and a duration for each".into());
                }
                Ok(())
            }
            Self::Gaps { rate, quantiles, .. } => {
                positive(*rate)?;
                let ascending = quantiles.windows(2).all(|w| w[0] <= w[1]);
                let finite = quantiles.iter().all(|q| q.is_finite() && *q >= 0.0);
                if quantiles.len() < 2 || !ascending || !finite || quantiles.last() == Some(&0.0) {
                    return Err(
                        "gaps need at least two quantiles, ascending, not below zero and not all zero".into(),
                    );
                }
                Ok(())
            }
        }
    }

    /// When query `n` (from 0) is due, in nanoseconds after the start; `None` where that depends on draws.
    fn deadline(&self, n: u64) -> Option<Nanos> {
        // From the index each time: an error cannot accumulate.
        let second = SECOND as f64;
        let n = n as f64;
        let at = match self {
            Self::Fixed { rate } => n / rate * second,
            Self::Ramp { from, to, over } => {
                let over = *over as f64 / second;
                let in_ramp = (from + to) / 2.0 * over;
                if n <= in_ramp {
                    // from t + slope t^2 / 2 = n, in the form that has no difference of near numbers.
                    let slope = (to - from) / over;
                    let root = (from * from + 2.0 * n * slope).max(0.0).sqrt();
                    2.0 * n / (from + root) * second
                } else {
                    (over + (n - in_ramp) / to) * second
                }
            }
            Self::Steps { rates, each } => {
                let each = *each as f64 / second;
                let (mut left, mut at) = (n, 0.0);
                let mut rates = rates.iter().peekable();
                loop {
                    let rate = rates.next()?;
                    if left < rate * each || rates.peek().is_none() {
                        break (at + left / rate) * second;
                    }
                    left -= rate * each;
                    at += each;
                }
            }
            Self::Poisson { .. } | Self::Gaps { .. } => return None,
        };
        Some(at.round() as Nanos)
    }

    /// How many queries are due in `duration` from the start: exactly where no draw decides, otherwise on average.
    pub fn count(&self, duration: Nanos) -> u64 {
        let seconds = duration as f64 / SECOND as f64;
        let expected = match self {
            Self::Fixed { rate } | Self::Poisson { rate, .. } | Self::Gaps { rate, .. } => rate * seconds,
            Self::Ramp { from, to, over } => {
                let over = *over as f64 / SECOND as f64;
                let t = seconds.min(over);
                from * t + (to - from) / over * t * t / 2.0 + (seconds - t) * to
            }
            Self::Steps { rates, each } => {
                let each = *each as f64 / SECOND as f64;
                let last = rates.len() - 1;
                let time = |i: usize| {
                    let left = (seconds - each * i as f64).max(0.0);
                    if i == last { left } else { left.min(each) }
                };
                rates.iter().enumerate().map(|(i, rate)| rate * time(i)).sum()
            }
        };
        expected.round().max(0.0) as u64
    }

    /// The greatest number of queries per second over a stretch of time: what must be possible to send.
    pub fn peak(&self) -> f64 {
        match self {
            Self::Fixed { rate } | Self::Poisson { rate, .. } | Self::Gaps { rate, .. } => *rate,
            Self::Ramp { from, to, .. } => from.max(*to),
            Self::Steps { rates, .. } => rates.iter().copied().fold(0.0, f64::max),
        }
    }

    /// The rate at an instant after the start, in queries per second.
    pub fn rate_at(&self, at: Nanos) -> f64 {
        match self {
            Self::Fixed { rate } | Self::Poisson { rate, .. } | Self::Gaps { rate, .. } => *rate,
            Self::Ramp { from, to, over } => from + (to - from) * (at.min(*over) as f64 / *over as f64),
            Self::Steps { rates, each } => rates[((at / each) as usize).min(rates.len() - 1)],
        }
    }

    /// Whether the distances of neighbours are even: no two queries are due together.
    pub fn is_even(&self) -> bool {
        !matches!(self, Self::Poisson { .. } | Self::Gaps { .. })
    }

    /// The instants one after the other, without end.
    pub fn times(&self) -> Times {
        let (draw, mean) = match self {
            Self::Poisson { rate, seed } => (Some(seed.draw("pace/poisson", 0)), SECOND as f64 / rate),
            Self::Gaps { rate, quantiles, seed } => {
                let parts = (quantiles.len() - 1) as f64;
                let mean = quantiles.windows(2).map(|w| (w[0] + w[1]) / 2.0).sum::<f64>() / parts;
                (Some(seed.draw("pace/gaps", 0)), SECOND as f64 / rate / mean)
            }
            _ => (None, 0.0),
        };
        Times { arrivals: self.clone(), n: 0, at: 0.0, draw, scale: mean }
    }
}

/// The instants at which queries are due, in nanoseconds after the start: an iterator without end.
#[derive(Clone, Debug)]
pub struct Times {
    arrivals: Arrivals,
    n: u64,
    /// The last instant, where it is drawn.
    at: f64,
    draw: Option<Draw>,
    /// Nanoseconds of a gap of 1.
    scale: f64,
}

impl Iterator for Times {
    type Item = Nanos;

    fn next(&mut self) -> Option<Nanos> {
        let n = self.n;
        self.n += 1;
        let Some(draw) = &mut self.draw else { return self.arrivals.deadline(n) };
        // In (0, 1], so that its logarithm is finite.
        let u = ((draw.bits() >> 11) + 1) as f64 / (1u64 << 53) as f64;
        let gap = match &self.arrivals {
            Arrivals::Gaps { quantiles, .. } => {
                let at = (1.0 - u) * (quantiles.len() - 1) as f64;
                let i = (at as usize).min(quantiles.len() - 2);
                quantiles[i] + (quantiles[i + 1] - quantiles[i]) * (at - i as f64)
            }
            _ => -u.ln(),
        };
        // A double keeps a day of nanoseconds to a hundredth of one.
        self.at += gap * self.scale;
        Some(self.at as Nanos)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn any_arrivals() -> impl Strategy<Value = Arrivals> {
        let rate = 10.0..100_000.0;
        prop_oneof![
            rate.clone().prop_map(|rate| Arrivals::Fixed { rate }),
            (rate.clone(), rate.clone(), 1u64..3000).prop_map(|(from, to, ms)| Arrivals::Ramp {
                from,
                to,
                over: ms * 1_000_000
            }),
            (prop::collection::vec(rate.clone(), 1..5), 1u64..2000)
                .prop_map(|(rates, ms)| Arrivals::Steps { rates, each: ms * 1_000_000 }),
            (rate.clone(), any::<u64>()).prop_map(|(rate, s)| Arrivals::Poisson { rate, seed: Seed(s) }),
            (rate, prop::collection::vec(0.01..10.0f64, 2..20), any::<u64>()).prop_map(|(rate, mut q, s)| {
                q.sort_by(f64::total_cmp);
                Arrivals::Gaps { rate, quantiles: q, seed: Seed(s) }
            }),
        ]
    }

    proptest! {
        #[test]
        fn fixed_deadlines_never_drift(rate in 1u32..2_000_000, second in 1u64..3600) {
            let arrivals = Arrivals::Fixed { rate: f64::from(rate) };
            let n = u64::from(rate) * second;
            prop_assert!(arrivals.deadline(n).unwrap().abs_diff(second * SECOND) <= 1);
            prop_assert_eq!(arrivals.count(second * SECOND), n);
            prop_assert!(arrivals.deadline(n - 1).unwrap() < second * SECOND);
        }

        #[test]
        fn times_go_up_and_are_as_many_as_counted(arrivals in any_arrivals(), ms in 100u64..2000) {
            arrivals.check().unwrap();
            let until = ms * 1_000_000;
            let times: Vec<_> = arrivals.times().take_while(|&t| t < until).collect();
            prop_assert!(times.is_sorted());
            let (got, want) = (times.len() as f64, arrivals.count(until) as f64);
            // Draws: six standard deviations; the gaps here are less spread than exponential ones or little more.
            let slack = if arrivals.is_even() { 2.0 } else { 10.0 * want.sqrt() + 20.0 };
            prop_assert!((got - want).abs() <= slack, "{got} times, {want} expected");
            prop_assert!(want <= arrivals.peak() * until as f64 / 1e9 + 1.0);
        }
    }

    #[test]
    fn poisson_gaps_are_exponential() {
        let arrivals = Arrivals::Poisson { rate: 1000.0, seed: Seed(7) };
        let times: Vec<_> = arrivals.times().take(200_001).collect();
        let gaps: Vec<f64> = times.windows(2).map(|w| (w[1] - w[0]) as f64 / 1e6).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        assert!((mean - 1.0).abs() < 0.01, "{mean} ms");
        let above = |ms: f64| gaps.iter().filter(|g| **g > ms).count() as f64 / gaps.len() as f64;
        for ms in [0.5f64, 1.0, 3.0] {
            assert!((above(ms) - (-ms).exp()).abs() < 0.005, "{} above {ms} ms", above(ms));
        }
    }

    #[test]
    fn gaps_keep_their_distribution_and_their_rate() {
        let arrivals = Arrivals::Gaps { rate: 100.0, quantiles: vec![1.0, 1.0, 8.0], seed: Seed(1) };
        let times: Vec<_> = arrivals.times().take(100_001).collect();
        let last = *times.last().unwrap() as f64 / 1e9;
        assert!((last - 1000.0).abs() < 10.0, "{last} s for 100,000");
        let shortest = times.windows(2).map(|w| w[1] - w[0]).min().unwrap() as f64;
        // Half of the gaps are 1 of a mean of 2.75.
        assert!((shortest - 1e7 / 2.75).abs() < 2.0, "{shortest} ns");
    }

    #[test]
    fn steps_and_ramps_have_the_rates_that_they_say() {
        let steps = Arrivals::Steps { rates: vec![10.0, 1000.0, 100.0], each: SECOND };
        let in_second = |a: &Arrivals, s: u64| {
            a.times().skip_while(|t| *t < s * SECOND).take_while(|t| *t < (s + 1) * SECOND).count()
        };
        assert_eq!([0, 1, 2, 3].map(|s| in_second(&steps, s)), [10, 1000, 100, 100]);
        assert_eq!((steps.rate_at(1_500_000_000), steps.peak()), (1000.0, 1000.0));
        let ramp = Arrivals::Ramp { from: 100.0, to: 300.0, over: 2 * SECOND };
        assert_eq!([0, 1, 2].map(|s| in_second(&ramp, s)), [150, 250, 300]);
        assert_eq!(ramp.rate_at(SECOND), 200.0);
        for bad in [
            Arrivals::Ramp { from: 0.0, to: 1.0, over: 1 },
            Arrivals::Steps { rates: vec![], each: 1 },
            Arrivals::Gaps { rate: 1.0, quantiles: vec![2.0, 1.0], seed: Seed(0) },
            Arrivals::Fixed { rate: f64::NAN },
        ] {
            assert!(bad.check().is_err(), "{bad:?}");
        }
    }
}
