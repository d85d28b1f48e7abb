//! The wall clocks of other machines, beside ours.

use crate::request::{At, Request};
use crate::{Agent, Error};
use measure::{Nanos, clock};
use serde::{Deserialize, Serialize};

/// How often a clock is read; the quickest reading counts, as it is the most exact.
const READINGS: usize = 8;

/// The wall clock of a machine, beside ours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Offset {
    /// By how many nanoseconds it is ahead of ours.
    pub ahead: i64,
    /// By how many nanoseconds `ahead` may be wrong.
    pub bound: Nanos,
}

impl Offset {
    /// An instant of our wall clock by that one.
    pub fn there(self, wall: Nanos) -> Nanos {
        wall.saturating_add_signed(self.ahead)
    }

    /// The offset by one reading: the other clock showed `there` at some time between `before` and `after` of ours.
    fn of(before: Nanos, there: Nanos, after: Nanos) -> Self {
        let half = after.saturating_sub(before) / 2;
        Self { ahead: there.wrapping_sub(before + half) as i64, bound: half }
    }
}

impl Agent {
    /// Reads the wall clock of its machine, beside ours.
    ///
    /// # Errors
    /// Where the agent is gone.
    pub fn clock(&self) -> Result<Offset, Error> {
        if self.connection().is_none() {
            return Ok(Offset::default());
        }
        let mut best: Option<Offset> = None;
        for _ in 0..READINGS {
            let before = clock::wall();
            let there = self.ask(ReadClock {})?;
            let offset = Offset::of(before, there, clock::wall());
            best = Some(best.filter(|best| best.bound <= offset.bound).unwrap_or(offset));
        }
        Ok(best.unwrap_or_default())
    }
}

impl Agent {
    /// By how many nanoseconds instants of its machine's and of another's clock may be wrong beside each other.
    ///
    /// # Errors
    /// Where an agent is gone.
    pub fn clock_error(&self, other: &Self) -> Result<Nanos, Error> {
        match self.is_beside(other) {
            true => Ok(0),
            false => Ok(self.clock()?.bound + other.clock()?.bound),
        }
    }
}

/// Reads the wall clock.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct ReadClock {}

impl Request for ReadClock {
    const NAME: &'static str = "ReadClock";
    type Answer = Nanos;

    fn act(self, _: &At<'_>) -> Result<Nanos, Error> {
        Ok(clock::wall())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reading_bounds_the_offset() {
        assert_eq!(Offset::of(1_000, 5_100, 1_200), Offset { ahead: 4_000, bound: 100 });
        let behind = Offset::of(5_000, 1_050, 5_100);
        assert_eq!((behind, behind.there(9_000)), (Offset { ahead: -4_000, bound: 50 }, 5_000));
    }
}
