//! Distinct labels in canonical order, each computed from its rank alone.
//!
//! A label is a walk over words, syllables, letters, digits and hyphens. At every step the `n` labels below
//! the current prefix are divided among the continuations in fixed proportions, rounded by an offset that
//! a hash of the prefix gives; at most one of them ends there. Continuations of a step never start
//! with each other, so ranks are in canonical order and labels are distinct by construction; any rank
//! costs a few divisions, and no range of ranks needs another.

use super::vocabulary::{Kind, SLOT_BITS, SLOTS, Vocabulary};
use measure::Seed;

/// From this length in octets on, labels that must go on do so by a syllable, so as to stay below 64.
const LONG: usize = 46;
/// From this length on, letters that make no word end soon.
const FEW: usize = 5;
/// Labels of this length and more end where they can.
const LONGEST: usize = 55;
/// Shares of labels that end are in steps of 2^-24.
const END_BITS: u32 = 24;
/// Labels looked at to see how long they come out, and how often.
const SAMPLES: u64 = 2048;
const ROUNDS: usize = 10;

/// Weights of lengths in octets.
pub(super) type Lengths = [f64; 64];

/// The lengths of second-level names: assumed, a mean of 13 octets.
pub(super) fn second_level() -> Lengths {
    let mut lengths = [0.0; 64];
    let weights = [1, 4, 12, 25, 42, 58, 72, 83, 90, 92, 90, 84, 76, 66, 56, 46, 37, 29, 23, 17, 13, 9, 7, 5];
    for (length, weight) in (2..).zip(weights) {
        lengths[length] = f64::from(weight);
    }
    lengths
}

/// `count` distinct labels in canonical order.
pub(super) struct Labels<'a> {
    vocabulary: &'a Vocabulary,
    count: u64,
    key: u64,
    /// By length: how likely one label is to end there.
    ends: [u32; 64],
    /// Hashes of the prefixes that are labels taken already, sorted.
    taken: Vec<u64>,
}

impl<'a> Labels<'a> {
    /// `what` names the set among those of a seed; `taken` are labels that must not be among them.
    pub fn new<'t>(
        vocabulary: &'a Vocabulary,
        count: u64,
        lengths: &Lengths,
        taken: impl IntoIterator<Item = &'t [u8]>,
        seed: Seed,
        what: &str,
    ) -> Self {
        let key = seed.draw(what, 0).bits();
        let mut labels = Self { vocabulary, count, key, ends: [0; 64], taken: Vec::new() };
        labels.taken = taken.into_iter().filter_map(|label| labels.hash_of(label)).collect();
        labels.taken.sort_unstable();
        labels.fit(lengths);
        labels
    }

    /// The hash of a label as a prefix; `None` where no walk leads there.
    fn hash_of(&self, label: &[u8]) -> Option<u64> {
        let (mut hash, mut last, mut len) = (self.key, Kind::Start, 0);
        while len < label.len() {
            let table = self.vocabulary.table(last, hash, &label[..len], len >= LONG);
            let c =
                table.tokens.iter().position(|t| label[len..].starts_with(&t.text[..usize::from(t.len)]))?;
            hash = mix(hash ^ (c as u64 + 1));
            (last, len) = (table.tokens[c].kind, len + usize::from(table.tokens[c].len));
        }
        Some(hash)
    }

    /// Finds shares of labels that end at each length, so that lengths come out as they should: from what
    /// the lengths alone say, corrected by how the labels do come out. Additions, multiplications and divisions
    /// alone, so the same everywhere.
    fn fit(&mut self, lengths: &Lengths) {
        // No step that may follow leads beyond 63 octets.
        let longest = lengths.iter().rposition(|&w| w > 0.0).unwrap_or(63).min(LONGEST);
        let whole = f64::from(1u32 << END_BITS);
        let mut left = [0.0; 65];
        for length in (0..64).rev() {
            left[length] = left[length + 1] + lengths[length];
        }
        let mut shares: [f64; 64] =
            std::array::from_fn(|l| if l >= longest { 1.0 } else { lengths[l] / left[l] });
        let samples = self.count.min(SAMPLES);
        for round in 0..=ROUNDS {
            self.ends = shares.map(|s| (s * whole) as u32);
            if round == ROUNDS || samples == 0 {
                return;
            }
            let mut ended = [0.0; 64];
            let mut text = Vec::new();
            let mut from = 0;
            for sample in 1..=samples {
                // Anywhere in its part of the ranks: even steps would meet the first label of each prefix.
                let to = (u128::from(sample) * u128::from(self.count) / u128::from(samples)) as u64;
                let rank = from + mix(self.key ^ sample) % (to - from);
                from = to;
                text.clear();
                self.write(rank, &mut text);
                ended[text.len()] += 1.0;
            }
            let mut rest = samples as f64;
            for l in 1..longest {
                let wanted = lengths[l] / left[l] * rest;
                if lengths[l] > 0.0 {
                    // Half a label stands for none, so that a share can rise from nothing.
                    let change = wanted / f64::max(ended[l], 0.5);
                    shares[l] = (shares[l] * change.clamp(0.25, 4.0)).clamp(1.0 / whole, 1.0);
                }
                rest -= ended[l];
            }
        }
    }

    /// How likely one label is to end at a length, in steps of 2^-24.
    #[inline]
    fn ends_at(&self, len: usize, last: Kind) -> u32 {
        match last {
            // Nobody registers twelve letters that make no word: half of them end at each length.
            Kind::Letter if len >= FEW => 1 << (END_BITS - 1),
            _ => self.ends[len.min(63)],
        }
    }

    pub fn count(&self) -> u64 {
        self.count
    }

    /// Appends the label of `rank` (below the count).
    pub fn write(&self, rank: u64, out: &mut Vec<u8>) {
        let start = out.len();
        let (mut n, mut r, mut hash) = (self.count, rank, self.key);
        let mut last = Kind::Start;
        loop {
            let len = out.len() - start;
            if last.may_end(len)
                && n * u64::from(self.ends_at(len, last)) > hash >> (64 - END_BITS)
                && self.taken.binary_search(&hash).is_err()
            {
                if r == 0 {
                    return;
                }
                (n, r) = (n - 1, r - 1);
            }
            let table = self.vocabulary.table(last, hash, &out[start..], len >= LONG);
            // Continuation c has the ranks from (n * first[c] + offset) / SLOTS on.
            let offset = hash >> 20 & (SLOTS - 1);
            let slot = (((r + 1) << SLOT_BITS) - offset - 1) / n;
            let c = usize::from(table.token_of_slot[slot as usize]);
            let from = (n * u64::from(table.first[c]) + offset) >> SLOT_BITS;
            let to = (n * u64::from(table.first[c + 1]) + offset) >> SLOT_BITS;
            (n, r) = (to - from, r - from);
            let token = &table.tokens[c];
            out.extend_from_slice(&token.text[..usize::from(token.len)]);
            hash = mix(hash ^ (c as u64 + 1));
            last = token.kind;
        }
    }

    /// The rank of the first label that comes after `label`, and whether `label` itself is none of them.
    pub fn rank_after(&self, label: &[u8]) -> u64 {
        let (mut low, mut high) = (0, self.count);
        let mut text = Vec::new();
        while low < high {
            let middle = low + (high - low) / 2;
            text.clear();
            self.write(middle, &mut text);
            if &text[..] <= label { low = middle + 1 } else { high = middle }
        }
        low
    }
}

/// Scrambles 64 bits: multiplication and folding, our own constants, pinned by the golden zones.
pub(super) fn mix(x: u64) -> u64 {
    let x = (x ^ x >> 32).wrapping_mul(0xd6e8_feb8_6659_fd93);
    let x = (x ^ x >> 29).wrapping_mul(0xa24b_aed4_963e_e407);
    x ^ x >> 32
}

#[cfg(test)]
mod tests {
    use super::super::vocabulary::Style;
    use super::*;
    use proptest::prelude::*;

    fn labels_of(vocabulary: &Vocabulary, count: u64, seed: u64) -> Labels<'_> {
        Labels::new(vocabulary, count, &second_level(), [], Seed(seed), "test")
    }

    fn all(vocabulary: &Vocabulary, count: u64, seed: u64) -> Vec<String> {
        let labels = labels_of(vocabulary, count, seed);
        let label = |rank| {
            let mut text = Vec::new();
            labels.write(rank, &mut text);
            String::from_utf8(text).unwrap()
        };
        (0..count).map(label).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(40))]
        #[test]
        fn labels_are_sorted_distinct_and_well_formed(count in 1u64..30_000, seed in any::<u64>()) {
            for style in [Style::Tld, Style::SecondLevel, Style::Letters] {
                let vocabulary = Vocabulary::new(style);
                let labels = all(&vocabulary, count, seed);
                prop_assert!(labels.windows(2).all(|w| w[0] < w[1]));
                for label in &labels {
                    prop_assert!(label.len() <= 45 && !label.starts_with('-') && !label.ends_with('-'), "{}", label);
                    prop_assert!(!label.contains("--") && label.bytes().any(|b| b.is_ascii_alphabetic()), "{}", label);
                }
            }
        }
    }

    #[test]
    fn a_rank_is_found_again() {
        let vocabulary = Vocabulary::new(Style::SecondLevel);
        let labels = all(&vocabulary, 5000, 3);
        let set = labels_of(&vocabulary, 5000, 3);
        for rank in [0, 1, 77, 4999] {
            assert_eq!(set.rank_after(labels[rank].as_bytes()), rank as u64 + 1);
        }
        assert_eq!((set.rank_after(b"!"), set.rank_after(b"~")), (0, 5000));
    }

    /// Half the sum of the differences from the shares that were wanted.
    fn distance(labels: &[String], wanted: &Lengths) -> f64 {
        let sum: f64 = wanted.iter().sum();
        let share =
            |l: usize| labels.iter().filter(|label| label.len() == l).count() as f64 / labels.len() as f64;
        (0..64).map(|l| (share(l) - wanted[l] / sum).abs()).sum::<f64>() / 2.0
    }

    #[test]
    fn lengths_come_out_as_wanted() {
        let vocabulary = Vocabulary::new(Style::SecondLevel);
        for (count, bound) in [(2_000, 0.08), (50_000, 0.08)] {
            let labels = all(&vocabulary, count, 1);
            let distance = distance(&labels, &second_level());
            assert!(distance < bound, "{count}: {distance}");
        }
        // Longer names where the short ones are used up.
        let mut short = [0.0; 64];
        (short[2], short[3], short[4]) = (1.0, 1.0, 1.0);
        let vocabulary = Vocabulary::new(Style::Letters);
        let labels_of = |count: u64| {
            let labels = Labels::new(&vocabulary, count, &short, [], Seed(1), "test");
            (0..count)
                .map(|rank| {
                    let mut text = Vec::new();
                    labels.write(rank, &mut text);
                    String::from_utf8(text).unwrap()
                })
                .collect::<Vec<_>>()
        };
        let few = labels_of(500);
        assert!(
            distance(&few, &short) < 0.1 && few.iter().all(|l| l.len() <= 6),
            "{}",
            distance(&few, &short)
        );
        let many = labels_of(100_000);
        assert!(many.iter().filter(|l| l.len() == 2).count() <= 676 && many.iter().any(|l| l.len() > 4));
    }

    #[test]
    fn a_label_that_is_taken_is_none_of_them() {
        let vocabulary = Vocabulary::new(Style::Letters);
        let before = all(&vocabulary, 3000, 9);
        let taken: Vec<Vec<u8>> = before.iter().step_by(10).map(|l| l.as_bytes().to_vec()).collect();
        let labels =
            Labels::new(&vocabulary, 3000, &second_level(), taken.iter().map(Vec::as_slice), Seed(9), "test");
        let mut text = Vec::new();
        for rank in 0..3000 {
            text.clear();
            labels.write(rank, &mut text);
            assert!(!taken.contains(&text), "{}", String::from_utf8_lossy(&text));
        }
    }
}
