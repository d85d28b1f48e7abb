//! How long packets take: a constant, or a distribution given by its quantiles, drawn from with integers and exact
//! arithmetic alone, so that a seed gives the same delays on any machine.

use measure::{Draw, Nanos, Time};
use serde::de::{self, Deserializer, MapAccess, Visitor, value::MapAccessDeserializer};
use serde::{Deserialize, Serialize, Serializer};
use std::fmt;

/// The longest delay that can be asked for.
const LONGEST: Nanos = 60_000_000_000;

/// How long a packet takes, in one direction.
#[derive(Clone, Debug, PartialEq)]
pub enum Delay {
    /// Always as long: `"50ms"`.
    Constant(Nanos),
    /// Gauss's distribution, cut off at 4.5 standard deviations and at zero: `{ normal = ["50ms", "5ms"] }`.
    Normal {
        /// Its mean.
        mean: Nanos,
        /// Its standard deviation.
        deviation: Nanos,
    },
    /// A measured distribution: `{ quantiles = [[0, "20ms"], [0.5, "22ms"], [0.99, "150ms"], [1, "1s"]] }`: the share of packets
    /// that take no longer, and how long; evenly distributed between two neighbours.
    Quantiles(Vec<(f64, Nanos)>),
    /// A distribution that comes with the program: `{ like = "rzaia-5.6" }`, see [`BUILT_IN`].
    Like(String),
}

impl Default for Delay {
    fn default() -> Self {
        Self::Constant(0)
    }
}

/// Built-in distributions of one direction's delay in microseconds, by name.
///
/// `rzaia-5.6`: the real-world path of RZAIA's figure 5.6 (round trips of AXFR between two distant hosts), half of it for each
/// direction. Of the figure the text gives the median, 245 ms, and that "the real-world distribution has a long tail": the
/// median here is that; the rest, a floor 3.7 % below it and a tail to five times it, is ours and chosen for the look of
/// paths of that length. The same figure's NIST Net is Gaussian around the same median: `normal`.
pub const BUILT_IN: [(&str, &[(f64, u32)]); 1] = [(
    "rzaia-5.6",
    &[
        (0.0, 118_000),
        (0.05, 120_500),
        (0.25, 121_700),
        (0.5, 122_500),
        (0.75, 124_500),
        (0.9, 133_000),
        (0.95, 150_000),
        (0.99, 220_000),
        (0.999, 400_000),
        (1.0, 600_000),
    ],
)];

/// Quantiles of Gauss's distribution up to its median: share, standard deviations from the mean. Evenly distributed between
/// neighbours its standard deviation is 1.004.
const GAUSS: [(f64, f64); 21] = [
    (0.0, -4.5),
    (1e-05, -4.2649),
    (0.0001, -3.7190),
    (0.0005, -3.2905),
    (0.001, -3.0902),
    (0.002, -2.8782),
    (0.005, -2.5758),
    (0.01, -2.3263),
    (0.02, -2.0537),
    (0.035, -1.8119),
    (0.05, -1.6449),
    (0.075, -1.4395),
    (0.1, -1.2816),
    (0.15, -1.0364),
    (0.2, -0.8416),
    (0.25, -0.6745),
    (0.3, -0.5244),
    (0.35, -0.3853),
    (0.4, -0.2533),
    (0.45, -0.1257),
    (0.5, 0.0),
];

impl Delay {
    /// Its quantiles; the two ends alone where it is constant.
    pub fn quantiles(&self) -> Vec<(f64, Nanos)> {
        match self {
            Self::Constant(delay) => vec![(0.0, *delay), (1.0, *delay)],
            Self::Normal { mean, deviation } => {
                let at = |z: f64| (*mean as f64 + z * *deviation as f64).max(0.0).round() as Nanos;
                let low = GAUSS.iter().map(|&(share, z)| (share, at(z)));
                let high = GAUSS.iter().rev().skip(1).map(|&(share, z)| (1.0 - share, at(-z)));
                low.chain(high).collect()
            }
            Self::Quantiles(pairs) => pairs.clone(),
            Self::Like(name) => {
                let found =
                    BUILT_IN.iter().find(|(known, _)| known == name).map_or(&[][..], |(_, pairs)| pairs);
                found.iter().map(|&(share, us)| (share, Nanos::from(us) * 1000)).collect()
            }
        }
    }

    /// The shortest.
    pub fn least(&self) -> Nanos {
        self.quantiles().first().map_or(0, |q| q.1)
    }

    /// The median, or the next longer one that is given.
    pub fn median(&self) -> Nanos {
        self.quantiles().iter().find(|q| q.0 >= 0.5).map_or(0, |q| q.1)
    }

    /// The longest.
    pub fn greatest(&self) -> Nanos {
        self.quantiles().last().map_or(0, |q| q.1)
    }

    /// Whether it can be; says why not.
    pub(crate) fn check(&self) -> Result<(), String> {
        match self {
            Self::Like(name) if !BUILT_IN.iter().any(|(known, _)| known == name) => {
                let known: Vec<&str> = BUILT_IN.iter().map(|(known, _)| *known).collect();
                return Err(format!("delay: like = '{name}': there is {}", known.join(", ")));
            }
            Self::Quantiles(pairs) => {
                let ends = (pairs.first().map(|q| q.0), pairs.last().map(|q| q.0));
                if pairs.len() < 2 || ends != (Some(0.0), Some(1.0)) {
                    return Err("delay: quantiles begin with share 0 and end with share 1".into());
                }
                let wrong = pairs.windows(2).find(|w| !(w[0].0 < w[1].0 && w[0].1 <= w[1].1));
                if let Some(w) = wrong {
                    let (share, delay) = (w[1].0, Time(w[1].1));
                    return Err(format!("delay: quantiles must rise, and [{share}, \"{delay}\"] does not"));
                }
            }
            _ => {}
        }
        let longest = self.greatest();
        if longest > LONGEST {
            return Err(format!("delay: {} is too long, {} is the most", Time(longest), Time(LONGEST)));
        }
        Ok(())
    }
}

/// Draws delays.
#[derive(Clone, Debug)]
pub(crate) struct Sampler(Vec<(f64, Nanos)>);

impl Sampler {
    pub(crate) fn new(delay: &Delay) -> Self {
        Self(delay.quantiles())
    }

    /// The next delay: takes one draw, whatever the distribution.
    pub(crate) fn next(&self, draw: &mut Draw) -> Nanos {
        // 53 bits are what a double holds exactly.
        let share = (draw.bits() >> 11) as f64 / (1u64 << 53) as f64;
        let after = self.0.partition_point(|q| q.0 <= share).clamp(1, self.0.len() - 1);
        let [(p0, d0), (p1, d1)] = [self.0[after - 1], self.0[after]];
        d0 + ((d1 - d0) as f64 * ((share - p0) / (p1 - p0))) as Nanos
    }
}

/// A distribution as a table: exactly one of its keys.
#[derive(Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    #[serde(skip_serializing_if = "Option::is_none")]
    normal: Option<(Time, Time)>,
    #[serde(skip_serializing_if = "Option::is_none")]
    quantiles: Option<Vec<(f64, Time)>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    like: Option<String>,
}

impl Serialize for Delay {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        let table = match self {
            Self::Constant(delay) => return s.collect_str(&Time(*delay)),
            Self::Normal { mean, deviation } => {
                Table { normal: Some((Time(*mean), Time(*deviation))), ..Table::default() }
            }
            Self::Quantiles(pairs) => {
                let pairs = pairs.iter().map(|&(share, delay)| (share, Time(delay))).collect();
                Table { quantiles: Some(pairs), ..Table::default() }
            }
            Self::Like(name) => Table { like: Some(name.clone()), ..Table::default() },
        };
        table.serialize(s)
    }
}

impl<'de> Deserialize<'de> for Delay {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct Either;
        impl<'de> Visitor<'de> for Either {
            type Value = Delay;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(
                    "a duration such as \"50ms\", { normal = [MEAN, DEVIATION] }, { quantiles = [[SHARE, DELAY], ...] } \
                     or { like = NAME }",
                )
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Delay, E> {
                measure::units::duration(text).map(Delay::Constant).map_err(E::custom)
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Delay, A::Error> {
                let table = Table::deserialize(MapAccessDeserializer::new(map))?;
                match (table.normal, table.quantiles, table.like) {
                    (Some((mean, deviation)), None, None) => {
                        Ok(Delay::Normal { mean: mean.0, deviation: deviation.0 })
                    }
                    (None, Some(pairs), None) => Ok(Delay::Quantiles(
                        pairs.into_iter().map(|(share, delay)| (share, delay.0)).collect(),
                    )),
                    (None, None, Some(name)) => Ok(Delay::Like(name)),
                    _ => Err(de::Error::custom("delay: say one of 'normal', 'quantiles' and 'like'")),
                }
            }
        }
        d.deserialize_any(Either)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use measure::Seed;
    use proptest::prelude::*;

    fn sample(delay: &Delay, count: usize) -> Vec<Nanos> {
        delay.check().unwrap();
        let (sampler, mut draw) = (Sampler::new(delay), Seed(9).draw("delay", 0));
        let mut all: Vec<Nanos> = (0..count).map(|_| sampler.next(&mut draw)).collect();
        all.sort_unstable();
        all
    }

    #[test]
    fn gauss_has_its_mean_and_deviation() {
        let all = sample(&Delay::Normal { mean: 50_000_000, deviation: 5_000_000 }, 200_000);
        let mean = all.iter().map(|&d| d as f64).sum::<f64>() / all.len() as f64;
        let variance = all.iter().map(|&d| (d as f64 - mean).powi(2)).sum::<f64>() / all.len() as f64;
        assert!((mean - 5e7).abs() < 5e4, "{mean}");
        assert!((variance.sqrt() - 5e6).abs() < 5e4, "{}", variance.sqrt());
        // 15.87 % lie more than one deviation below the mean.
        let below = all.partition_point(|&d| d < 45_000_000) as f64 / all.len() as f64;
        assert!((below - 0.1587).abs() < 0.003, "{below}");
    }

    #[test]
    fn a_long_tail_is_drawn_as_it_is_given() {
        let delay = Delay::Like("rzaia-5.6".into());
        let all = sample(&delay, 100_000);
        for (share, expected) in delay.quantiles().into_iter().filter(|q| q.0 > 0.0 && q.0 < 0.995) {
            let got = all[(share * all.len() as f64) as usize] as f64 / expected as f64;
            assert!((got - 1.0).abs() < 0.03, "{share}: {got}");
        }
        assert_eq!(delay.quantiles()[3], (0.5, 122_500_000), "half of the text's median");
    }

    #[test]
    fn never_below_zero_and_never_more_than_one_draw() {
        let wide = Delay::Normal { mean: 1_000_000, deviation: 1_000_000 };
        assert_eq!(sample(&wide, 10_000)[0], 0);
        let (sampler, mut draw) = (Sampler::new(&wide), Seed(1).draw("d", 0));
        sampler.next(&mut draw);
        let mut other = Seed(1).draw("d", 0);
        Sampler::new(&Delay::Constant(7)).next(&mut other);
        assert_eq!(draw.bits(), other.bits());
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let refused = |delay: Delay| delay.check().unwrap_err();
        assert!(refused(Delay::Like("x".into())).contains("rzaia-5.6"));
        assert!(refused(Delay::Constant(LONGEST + 1)).contains("too long"));
        let pairs = |q: &[(f64, Nanos)]| refused(Delay::Quantiles(q.to_vec()));
        assert!(pairs(&[(0.0, 1)]).contains("begin with share 0"));
        assert!(pairs(&[(0.1, 1), (1.0, 2)]).contains("begin with share 0"));
        assert!(pairs(&[(0.0, 1), (0.5, 3), (0.5, 4), (1.0, 5)]).contains("must rise"));
        assert!(pairs(&[(0.0, 2_000_000), (1.0, 1_000_000)]).contains("\"1ms\""));
        assert!(pairs(&[(0.0, 1), (f64::NAN, 3), (1.0, 4)]).contains("must rise"));
    }

    proptest! {
        #[test]
        fn draws_stay_within_the_quantiles(
            mut delays in prop::collection::vec(0u64..LONGEST, 2..20), seed in any::<u64>(),
        ) {
            delays.sort_unstable();
            let last = (delays.len() - 1) as f64;
            let pairs: Vec<_> = delays.iter().enumerate().map(|(i, &d)| (i as f64 / last, d)).collect();
            let delay = Delay::Quantiles(pairs);
            delay.check().unwrap();
            let (sampler, mut draw) = (Sampler::new(&delay), Seed(seed).draw("d", 0));
            for _ in 0..100 {
                let got = sampler.next(&mut draw);
                prop_assert!((delay.least()..=delay.greatest()).contains(&got));
            }
        }
    }
}
