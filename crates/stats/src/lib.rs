//! Statistics of repeats and of distributions: medians and means with their intervals, ratios of two samples, changes over time, effect sizes, models of growth.
//!
//! Pure functions of numbers; every random draw has a seed.

pub mod change;
pub mod effect;
pub mod model;
pub mod ratio;
mod repeats;

pub use effect::Effect;
pub use ratio::Ratio;
pub use repeats::{
    Basis, Interval, LEVEL, geometric_mean, interval, mean, median, share_interval, standard_deviation,
};
