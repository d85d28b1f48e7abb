//! Keyed permutations, even shares and apportionment: integer tables that make every part of a zone
//! computable on its own.

use super::labels::mix;

/// A keyed permutation of `0..n`, both ways.
#[derive(Clone)]
pub(super) struct Permutation {
    n: u64,
    mask: u64,
    shift: u32,
    /// Odd multiplier, its inverse, and addend of each round.
    rounds: [(u64, u64, u64); 3],
}

impl Permutation {
    pub fn new(n: u64, key: u64) -> Self {
        let bits = (64 - n.saturating_sub(1).leading_zeros()).max(2);
        let mut state = key;
        let mut next = || {
            state = mix(state.wrapping_add(0x9e37_79b9_7f4a_7c15));
            state
        };
        let rounds = std::array::from_fn(|_| {
            let factor = next() | 1;
            (factor, inverse(factor), next())
        });
        Self { n, mask: u64::MAX >> (64 - bits), shift: bits.div_ceil(2), rounds }
    }

    /// Where `x` goes. Every round is a bijection on `0..=mask`; what falls outside goes round again.
    pub fn apply(&self, mut x: u64) -> u64 {
        loop {
            for (factor, _, addend) in self.rounds {
                x = x.wrapping_mul(factor).wrapping_add(addend) & self.mask;
                x ^= x >> self.shift;
            }
            if x < self.n {
                return x;
            }
        }
    }

    /// The number that goes to `x`.
    pub fn invert(&self, mut x: u64) -> u64 {
        loop {
            for (_, inverse, addend) in self.rounds.into_iter().rev() {
                // The shift is half the bits or more: folding undoes itself.
                x ^= x >> self.shift;
                x = x.wrapping_sub(addend).wrapping_mul(inverse) & self.mask;
            }
            if x < self.n {
                return x;
            }
        }
    }
}

/// The inverse of an odd number modulo 2^64, by Newton's iteration.
fn inverse(odd: u64) -> u64 {
    let mut x = odd;
    for _ in 0..5 {
        x = x.wrapping_mul(2u64.wrapping_sub(odd.wrapping_mul(x)));
    }
    x
}

/// Chooses `ppm` in a million of the indices, evenly: of any run of indices the share is met to one, so
/// that counts do not wander with the seed.
#[derive(Clone, Copy)]
pub(super) struct Share {
    ppm: u64,
    offset: u64,
}

impl Share {
    /// `key` says where in the million the indices start.
    pub fn new(ppm: u64, key: u64) -> Self {
        Self { ppm, offset: key % 1_000_000 }
    }

    fn up_to(self, index: u64) -> u64 {
        (index + self.offset) * self.ppm / 1_000_000
    }

    /// True where the index is chosen.
    pub fn has(self, index: u64) -> bool {
        self.up_to(index + 1) != self.up_to(index)
    }

    /// How many indices before this one are not chosen.
    pub fn passed(self, index: u64) -> u64 {
        index - (self.up_to(index) - self.up_to(0))
    }
}

/// Divides `total` in proportion to `weights`, by the largest remainders; the sum is `total`.
pub(super) fn apportion(weights: impl IntoIterator<Item = f64>, total: u64) -> Vec<u64> {
    let weights: Vec<f64> = weights.into_iter().collect();
    let sum: f64 = weights.iter().sum();
    if sum <= 0.0 {
        return vec![0; weights.len()];
    }
    let exact: Vec<f64> = weights.iter().map(|w| w / sum * total as f64).collect();
    let mut parts: Vec<u64> = exact.iter().map(|e| e.floor() as u64).collect();
    let mut order: Vec<usize> = (0..parts.len()).filter(|&i| weights[i] > 0.0).collect();
    order.sort_by(|&a, &b| (exact[b] - exact[b].floor()).total_cmp(&(exact[a] - exact[a].floor())));
    let mut missing = total.saturating_sub(parts.iter().sum());
    for &i in order.iter().cycle() {
        if missing == 0 {
            break;
        }
        parts[i] += 1;
        missing -= 1;
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_permutation_meets_every_number_once(n in 1u64..5000, key in any::<u64>()) {
            let p = Permutation::new(n, key);
            let mut seen = vec![false; n as usize];
            for x in 0..n {
                let y = p.apply(x);
                prop_assert!(!std::mem::replace(&mut seen[y as usize], true));
                prop_assert_eq!(p.invert(y), x);
            }
        }

        #[test]
        fn shares_are_met_evenly(key in any::<u64>(), ppm in 0u64..=1_000_000, from in 0u64..1 << 33, n in 1u64..3000) {
            let share = Share::new(ppm, key);
            let hits = (from..from + n).filter(|&i| share.has(i)).count() as u64;
            prop_assert!((hits as f64 - n as f64 * ppm as f64 / 1e6).abs() <= 1.0);
            prop_assert_eq!(share.passed(from + n) - share.passed(from), n - hits);
        }

        #[test]
        fn parts_are_whole_and_near(weights in prop::collection::vec(0.0f64..100.0, 1..20), total in 0u64..100_000) {
            let sum: f64 = weights.iter().sum();
            prop_assume!(sum > 0.0);
            let parts = apportion(weights.clone(), total);
            prop_assert_eq!(parts.iter().sum::<u64>(), total);
            for (part, weight) in parts.iter().zip(&weights) {
                prop_assert!((*part as f64 - weight / sum * total as f64).abs() <= 1.0);
            }
        }
    }
}
