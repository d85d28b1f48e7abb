//! Random draws that make products (zones, traffic), reproducible for ever.
//!
//! A [`Draw`] is ChaCha8 keyed by (seed, what, index) and read through integer arithmetic of our
//! own, so that no dependency's update and no thread count changes a byte. Golden values pin it.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use serde::{Deserialize, Serialize};

/// The seed of a product.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Seed(pub u64);

impl Seed {
    /// The seed of the `nth` of several things that are alike and independent; that of the first is this one.
    #[must_use]
    pub fn nth(self, nth: u64) -> Self {
        if nth == 0 { self } else { Self(self.draw("nth", nth).bits()) }
    }

    /// The stream of draws for item `index` of the things called `what`.
    pub fn draw(self, what: &str, index: u64) -> Draw {
        let mut key = [0u8; 32];
        key[..8].copy_from_slice(&self.0.to_le_bytes());
        key[8..16].copy_from_slice(&index.to_le_bytes());
        key[16..24].copy_from_slice(&fnv1a(what.as_bytes()).to_le_bytes());
        Draw(ChaCha8Rng::from_seed(key))
    }
}

/// FNV-1a, 64 bits: names a stream in its key; not a hash for anything else.
fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |h, &b| (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3))
}

/// A stream of random draws.
#[derive(Clone, Debug)]
pub struct Draw(ChaCha8Rng);

impl Draw {
    /// 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// A number in `0..n`, each as likely (to 1 in 2^64; zero where `n` is zero).
    pub fn below(&mut self, n: u64) -> u64 {
        ((u128::from(self.bits()) * u128::from(n)) >> 64) as u64
    }

    /// True `parts` times out of `of`.
    pub fn chance(&mut self, parts: u64, of: u64) -> bool {
        self.below(of) < parts
    }

    /// True with probability `share` (0 to 1), in steps of 2^-32.
    pub fn share(&mut self, share: f64) -> bool {
        self.chance((share.clamp(0.0, 1.0) * 4_294_967_296.0) as u64, 1 << 32)
    }

    /// An index into `weights`, each as likely as its weight.
    ///
    /// # Panics
    /// Where all weights are zero.
    pub fn weighted(&mut self, weights: &[u32]) -> usize {
        let total: u64 = weights.iter().map(|&w| u64::from(w)).sum();
        let mut at = self.below(total);
        for (i, &w) in weights.iter().enumerate() {
            match at.checked_sub(u64::from(w)) {
                Some(rest) => at = rest,
                None => return i,
            }
        }
        panic!("no weight to draw from");
    }
}

/// The odd constant of SplitMix64, whose finalizer is [`mix`] (Steele, Lea, Flood, "Fast splittable pseudorandom number generators",
/// 2014).
pub const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// Spreads a number over all 64 bits: Stafford's variant 13 of MurmurHash3's finaliser, as in SplitMix64. The same on
/// every machine; not cryptographic.
#[inline]
pub fn mix(x: u64) -> u64 {
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn golden_draws_never_change() {
        let mut draw = Seed(1).draw("test", 7);
        let got: Vec<u64> = (0..4).map(|_| draw.below(1_000_000)).collect();
        assert_eq!(got, GOLDEN);
    }

    #[test]
    fn streams_differ_by_seed_what_and_index() {
        let first = |s: u64, w: &str, i: u64| Seed(s).draw(w, i).bits();
        let base = first(1, "a", 0);
        assert!([first(2, "a", 0), first(1, "b", 0), first(1, "a", 1)].iter().all(|&x| x != base));
    }

    #[test]
    fn weights_are_kept() {
        let mut draw = Seed(3).draw("weights", 0);
        let mut hits = [0u32; 3];
        for _ in 0..100_000 {
            hits[draw.weighted(&[1, 0, 3])] += 1;
        }
        assert_eq!(hits[1], 0);
        assert!((24_000..26_000).contains(&hits[0]), "{hits:?}");
    }

    const GOLDEN: [u64; 4] = [665_350, 246_012, 110_575, 605_695];
}
