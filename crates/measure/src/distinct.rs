//! How many different things there were: a sketch of 16 KiB whatever their number.
//!
//! HyperLogLog with 2^14 registers and the estimator of O. Ertl, "New cardinality estimation algorithms for HyperLogLog
//! sketches" (2017), algorithm 6, which needs no tables and is right for small numbers too.

use crate::seed::mix;

/// Bits that choose a register.
const BITS: u32 = 14;
/// Registers.
const REGISTERS: usize = 1 << BITS;
/// The greatest value of a register, less one.
const RANK_MAX: usize = 64 - BITS as usize;

/// Counts different things by their hashes.
#[derive(Clone, PartialEq, Eq)]
pub struct Distinct(Vec<u8>);

impl Default for Distinct {
    fn default() -> Self {
        Self(vec![0; REGISTERS])
    }
}

impl std::fmt::Debug for Distinct {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Distinct(about {})", self.count())
    }
}

impl Distinct {
    /// The standard error of [`Self::count`], as a share of it.
    pub const ERROR: f64 = 0.0081;

    /// Adds a thing by a 64-bit number of its own; the same number is the same thing.
    pub fn add(&mut self, thing: u64) {
        let hash = mix(thing);
        let register = (hash >> (64 - BITS)) as usize;
        let rank = ((hash << BITS) | 1 << (BITS - 1)).leading_zeros() as u8 + 1;
        self.0[register] = self.0[register].max(rank);
    }

    /// Adds all things of another sketch.
    pub fn merge(&mut self, other: &Self) {
        self.0.iter_mut().zip(&other.0).for_each(|(mine, theirs)| *mine = (*mine).max(*theirs));
    }

    /// How many there were, with a standard error of [`Self::ERROR`].
    pub fn count(&self) -> u64 {
        let mut of_rank = [0u32; RANK_MAX + 2];
        self.0.iter().for_each(|&rank| of_rank[usize::from(rank)] += 1);
        let registers = REGISTERS as f64;
        let share = |rank: usize| f64::from(of_rank[rank]) / registers;
        let mut sum = registers * tau(1.0 - share(RANK_MAX + 1));
        for &count in of_rank[1..=RANK_MAX].iter().rev() {
            sum = 0.5 * (sum + f64::from(count));
        }
        sum += registers * sigma(share(0));
        (registers * registers / (2.0 * std::f64::consts::LN_2) / sum).round() as u64
    }
}

fn sigma(mut x: f64) -> f64 {
    if x == 1.0 {
        return f64::INFINITY;
    }
    let (mut y, mut sum) = (1.0, x);
    loop {
        x *= x;
        let before = sum;
        sum += x * y;
        y += y;
        if sum == before {
            return sum;
        }
    }
}

fn tau(mut x: f64) -> f64 {
    if x == 0.0 || x == 1.0 {
        return 0.0;
    }
    let (mut y, mut sum) = (1.0, 1.0 - x);
    loop {
        x = x.sqrt();
        let before = sum;
        y *= 0.5;
        sum -= (1.0 - x).powi(2) * y;
        if sum == before {
            return sum / 3.0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_within_four_standard_errors() {
        let mut seen = Distinct::default();
        let mut next = 0;
        for count in [0u64, 1, 2, 10, 100, 1000, 10_000, 50_000, 200_000, 1_000_000, 5_000_000] {
            while next < count {
                // Neighbours, each twice.
                seen.add(next);
                seen.add(next);
                next += 1;
            }
            let error = seen.count().abs_diff(count) as f64;
            assert!(error <= 4.0 * Distinct::ERROR * count as f64 + 0.5, "{count}: {}", seen.count());
        }
    }

    #[test]
    fn parts_make_the_whole() {
        let (mut whole, mut parts) = (Distinct::default(), [Distinct::default(), Distinct::default()]);
        for n in 0..50_000u64 {
            whole.add(n * n);
            parts[usize::from(n % 3 == 0)].add(n * n);
            parts[0].add(n * n % 7);
            whole.add(n * n % 7);
        }
        let [mut one, other] = parts;
        one.merge(&other);
        assert!(one == whole);
    }
}
