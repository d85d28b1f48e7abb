//! Distinct labels in canonical order, each computed from its rank alone.
//!
//! A label is a walk over words, syllables, digits and hyphens. At every step the `n` labels below the
//! current prefix are divided among the continuations in fixed proportions, rounded by an offset that
//! a hash of the prefix gives; at most one of them ends there. Continuations of a step never start
//! with each other, so ranks are in canonical order and labels are distinct by construction; any rank
//! costs a few divisions, and no range of ranks needs another.

use super::words;
use measure::Seed;

/// Slots that a step's continuations share; a power of two.
const SLOTS: u64 = 1 << SLOT_BITS;
const SLOT_BITS: u32 = 12;

/// What a label may look like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Style {
    /// One word, more where the words are used up, perhaps a digit at the end: `along2`.
    Tld,
    /// Some words, with digits and hyphens here and there: `4feetpracticeskyways`.
    SecondLevel,
}

#[derive(Clone, Copy)]
struct Token {
    text: [u8; 12],
    len: u8,
    kind: Kind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Start,
    Word,
    Digit,
    Hyphen,
}

/// The continuations of a step: tokens in order, and which slots each has.
struct Table {
    tokens: Vec<Token>,
    /// First slot of each token, and the number of slots at the end.
    first: Vec<u32>,
    token_of_slot: Vec<u16>,
}

impl Table {
    /// Slots in proportion to the weights, at least one for each.
    fn new(mut entries: Vec<(String, Kind, u32)>) -> Self {
        entries.sort();
        let total: u64 = entries.iter().map(|e| u64::from(e.2)).sum();
        let spare = SLOTS - entries.len() as u64;
        let (mut tokens, mut first, mut sum) = (Vec::new(), Vec::new(), 0u64);
        for (i, (text, kind, weight)) in entries.iter().enumerate() {
            first.push((i as u64 + sum * spare / total) as u32);
            sum += u64::from(*weight);
            let mut token = Token { text: [0; 12], len: text.len() as u8, kind: *kind };
            token.text[..text.len()].copy_from_slice(text.as_bytes());
            tokens.push(token);
        }
        first.push(SLOTS as u32);
        let mut token_of_slot = Vec::with_capacity(SLOTS as usize);
        for (i, pair) in first.windows(2).enumerate() {
            token_of_slot.extend((pair[0]..pair[1]).map(|_| i as u16));
        }
        Self { tokens, first, token_of_slot }
    }
}

impl PartialOrd for Kind {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Kind {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (*self as u8).cmp(&(*other as u8))
    }
}

/// The tables of a style; one set serves any number of [`Labels`].
pub(super) struct Vocabulary {
    style: Style,
    start: Table,
    after_word: Table,
    /// For TLDs, shorter than another word.
    syllables: Table,
    words: Table,
}

impl Vocabulary {
    pub fn new(style: Style) -> Self {
        let words: Vec<_> = words::prefix_free(style == Style::Tld)
            .into_iter()
            .map(|w| (w.to_owned(), Kind::Word, 40 / (w.len() as u32).max(3)))
            .collect();
        let total: u32 = words.iter().map(|w| w.2).sum();
        let digits =
            |percent: u32| (0..10).map(move |d| (d.to_string(), Kind::Digit, total * percent / 1000 + 1));
        let hyphen = ("-".to_owned(), Kind::Hyphen, total / 40);
        let with = |extra: Vec<(String, Kind, u32)>| Table::new([words.clone(), extra].concat());
        let (start, after_word) = match style {
            Style::Tld => (with(Vec::new()), with(digits(8).collect())),
            Style::SecondLevel => (with(digits(3).collect()), with(digits(4).chain([hyphen]).collect())),
        };
        let mut syllables: Vec<_> = digits(0).map(|(d, kind, _)| (d, kind, 2)).collect();
        for c in "bcdfghjklmnprstvwz".chars() {
            syllables.extend("aeiouy".chars().map(|v| (format!("{c}{v}"), Kind::Word, 1)));
        }
        Self { style, start, after_word, syllables: Table::new(syllables), words: with(Vec::new()) }
    }

    /// In 65,536ths: how likely one label is to end after `depth` steps.
    fn end_share(&self, depth: u32, last: Kind) -> u64 {
        match (self.style, depth, last) {
            (_, _, Kind::Start | Kind::Hyphen) => 0,
            // Not a digit alone.
            (Style::SecondLevel, 1, Kind::Digit) => 0,
            (Style::SecondLevel, 1, _) => 2_000,
            (Style::SecondLevel, 2, _) => 36_000,
            (Style::SecondLevel, 3, _) => 46_000,
            (Style::Tld, 1, _) => 48_000,
            (Style::Tld, 2, _) => 58_000,
            _ => 65_536,
        }
    }

    fn table(&self, last: Kind, hash: u64) -> &Table {
        match last {
            Kind::Start => &self.start,
            // Which of the two is a property of the prefix.
            Kind::Word if self.style == Style::Tld && hash % 8 < 5 => &self.syllables,
            Kind::Word => &self.after_word,
            Kind::Digit | Kind::Hyphen => &self.words,
        }
    }
}

/// `count` distinct labels in canonical order.
pub(super) struct Labels<'a> {
    vocabulary: &'a Vocabulary,
    count: u64,
    key: u64,
}

impl<'a> Labels<'a> {
    /// `what` names the set among those of a seed.
    pub fn new(vocabulary: &'a Vocabulary, count: u64, seed: Seed, what: &str) -> Self {
        Self { vocabulary, count, key: seed.draw(what, 0).bits() }
    }

    pub fn count(&self) -> u64 {
        self.count
    }

    /// Appends the label of `rank` (below the count).
    pub fn write(&self, rank: u64, out: &mut Vec<u8>) {
        let (mut n, mut r, mut hash) = (self.count, rank, self.key);
        let (mut depth, mut last) = (0, Kind::Start);
        loop {
            if n * self.vocabulary.end_share(depth, last) > hash >> 48 {
                if r == 0 {
                    return;
                }
                (n, r) = (n - 1, r - 1);
            }
            let table = self.vocabulary.table(last, hash);
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
            (depth, last) = (depth + 1, token.kind);
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
    use super::*;
    use proptest::prelude::*;

    fn all(vocabulary: &Vocabulary, count: u64, seed: u64) -> Vec<String> {
        let labels = Labels::new(vocabulary, count, Seed(seed), "test");
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
            for style in [Style::Tld, Style::SecondLevel] {
                let vocabulary = Vocabulary::new(style);
                let labels = all(&vocabulary, count, seed);
                prop_assert!(labels.windows(2).all(|w| w[0] < w[1]));
                for label in &labels {
                    prop_assert!(label.len() <= 45 && !label.starts_with('-') && !label.ends_with('-'), "{}", label);
                    prop_assert!(label.bytes().any(|b| b.is_ascii_alphabetic()), "{}", label);
                }
            }
        }
    }

    #[test]
    fn a_rank_is_found_again() {
        let vocabulary = Vocabulary::new(Style::SecondLevel);
        let labels = all(&vocabulary, 5000, 3);
        let set = Labels::new(&vocabulary, 5000, Seed(3), "test");
        for rank in [0, 1, 77, 4999] {
            assert_eq!(set.rank_after(labels[rank].as_bytes()), rank as u64 + 1);
        }
        assert_eq!((set.rank_after(b"!"), set.rank_after(b"~")), (0, 5000));
    }

    #[test]
    fn lengths_are_those_of_words() {
        let mean = |style, count| {
            let labels = all(&Vocabulary::new(style), count, 1);
            labels.iter().map(String::len).sum::<usize>() as f64 / count as f64
        };
        let small = mean(Style::Tld, 700);
        assert!((5.0..7.5).contains(&small), "{small}");
        let large = mean(Style::Tld, 300_000);
        assert!((6.0..11.0).contains(&large), "{large}");
        let second = mean(Style::SecondLevel, 100_000);
        assert!((9.0..16.0).contains(&second), "{second}");
    }

    #[test]
    fn no_label_is_a_generic_tld() {
        let vocabulary = Vocabulary::new(Style::Tld);
        let labels = all(&vocabulary, 400_000, 9);
        for tld in super::super::base::GENERIC {
            assert!(labels.binary_search_by(|l| l.as_str().cmp(tld)).is_err(), "{tld}");
        }
        assert!(labels.iter().all(|l| l.len() > 2), "two letters are for countries");
    }
}
