//! The intervals between the queries of a profile.

use super::Profile;
use measure::{Arrivals, Seed};

/// The distribution of the intervals between queries.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Law {
    /// All the same.
    #[default]
    Even,
    /// Exponential: queries that know nothing of each other.
    Poisson,
    /// Quantiles from 0 % to 100 % in equal steps, in microseconds: at least two, ascending, not all zero. Straight
    /// lines lie between them.
    Intervals(Vec<f64>),
}

impl Law {
    /// Queries per second where the intervals are these, if they say so.
    pub fn rate(&self) -> Option<f64> {
        let Self::Intervals(quantiles) = self else { return None };
        let parts = (quantiles.len() - 1) as f64;
        let mean = quantiles.windows(2).map(|w| (w[0] + w[1]) / 2.0).sum::<f64>() / parts;
        Some(1e6 / mean)
    }

    /// The arrivals at a rate.
    pub fn arrivals(&self, rate: f64, seed: Seed) -> Arrivals {
        match self {
            Self::Even => Arrivals::Fixed { rate },
            Self::Poisson => Arrivals::Poisson { rate, seed },
            Self::Intervals(quantiles) => Arrivals::Gaps { rate, quantiles: quantiles.clone(), seed },
        }
    }
}

impl Profile {
    /// Queries per second, as far as the profile says.
    pub fn rate(&self) -> Option<f64> {
        self.rate.or_else(|| self.law.rate())
    }
}
