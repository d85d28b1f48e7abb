//! The building blocks of labels: words, syllables, letters, digits and hyphens, with their weights.

use super::words;

/// Slots that a step's continuations share; a power of two.
pub(super) const SLOTS: u64 = 1 << SLOT_BITS;
pub(super) const SLOT_BITS: u32 = 12;

/// The style of a label.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Style {
    /// One word, more where the words are used up, perhaps a digit at the end, no hyphen: `along2`.
    Tld,
    /// Some words, with digits and hyphens here and there: `4feetpracticeskyways`; or a few letters.
    SecondLevel,
    /// Letters that follow each other as in the words: `tre`, `stona`.
    Letters,
}

#[derive(Clone, Copy)]
pub(super) struct Token {
    pub text: [u8; 12],
    pub len: u8,
    pub kind: Kind,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    Start,
    Word,
    Digit,
    Hyphen,
    /// Of a label that is made of letters from the start.
    Letter,
}

/// The continuations of a step: tokens in order, and which slots each has.
pub(super) struct Table {
    pub tokens: Vec<Token>,
    /// First slot of each token, and the number of slots at the end.
    pub first: Vec<u32>,
    pub token_of_slot: Vec<u16>,
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

impl Kind {
    /// True where a label of `len` octets may end after this: not empty, not on a hyphen, not a digit alone.
    pub fn may_end(self, len: usize) -> bool {
        match self {
            Self::Start | Self::Hyphen => false,
            Self::Digit => len > 1,
            Self::Word | Self::Letter => true,
        }
    }
}

/// The tables of a style; one set serves any number of [`super::labels::Labels`].
pub(super) struct Vocabulary {
    style: Style,
    start: Table,
    after_word: Table,
    /// Shorter than another word.
    syllables: Table,
    words: Table,
    /// For letters alone: by the last two, from 1, 0 where there is none.
    letters: Vec<Table>,
    /// For a few letters among words: by the last one.
    few: Vec<Table>,
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
            Style::SecondLevel => {
                let start = digits(3).chain(free_pairs(&words)).collect();
                (with(start), with(digits(4).chain([hyphen]).collect()))
            }
            Style::Tld | Style::Letters => (with(Vec::new()), with(digits(8).collect())),
        };
        let mut syllables: Vec<_> = digits(0).map(|(d, kind, _)| (d, kind, 2)).collect();
        for c in "bcdfghjklmnprstvwz".chars() {
            syllables.extend("aeiouy".chars().map(|v| (format!("{c}{v}"), Kind::Word, 1)));
        }
        let (letters, few) = match style {
            Style::Letters => (letters(), Vec::new()),
            Style::SecondLevel => (Vec::new(), few()),
            Style::Tld => (Vec::new(), Vec::new()),
        };
        Self {
            style,
            start,
            after_word,
            syllables: Table::new(syllables),
            words: with(Vec::new()),
            letters,
            few,
        }
    }

    /// How a label goes on that ends as `prefix`, of which `hash` is a hash; `long`: in small steps.
    #[inline]
    pub fn table(&self, last: Kind, hash: u64, prefix: &[u8], long: bool) -> &Table {
        if self.style == Style::Letters {
            return &self.letters[context(prefix)];
        }
        // In how many of eight places a syllable follows a word, not another word.
        let syllables = if self.style == Style::Tld { 5 } else { 2 };
        match last {
            Kind::Start => &self.start,
            _ if long => &self.syllables,
            // Which of the two is a property of the prefix.
            Kind::Word if hash % 8 < syllables => &self.syllables,
            Kind::Word => &self.after_word,
            Kind::Letter => &self.few[context(prefix) % 27],
            Kind::Digit | Kind::Hyphen => &self.words,
        }
    }
}

/// The last two letters as a number: 27 times the one before plus the last, each from 1.
fn context(text: &[u8]) -> usize {
    let index = |back: usize| text.len().checked_sub(back).map_or(0, |i| usize::from(text[i] - b'a') + 1);
    index(2) * 27 + index(1)
}

/// In the words, how often each letter follows one other, and two others; see [`context`].
fn counts() -> (Vec<[u32; 26]>, Vec<[u32; 26]>) {
    let (mut pairs, mut threes) = (vec![[0; 26]; 27], vec![[0; 26]; 27 * 27]);
    for word in words::all() {
        for (i, &letter) in word.as_bytes().iter().enumerate() {
            let context = context(&word.as_bytes()[..i]);
            pairs[context % 27][usize::from(letter - b'a')] += 1;
            threes[context][usize::from(letter - b'a')] += 1;
        }
    }
    (pairs, threes)
}

fn letter(i: usize) -> String {
    char::from(b'a' + i as u8).to_string()
}

/// The pairs of letters that no word starts with, so that a label may.
fn free_pairs(words: &[(String, Kind, u32)]) -> Vec<(String, Kind, u32)> {
    let pairs = (0..26 * 26).map(|i| letter(i / 26) + &letter(i % 26));
    let free = pairs.filter(|pair| !words.iter().any(|w| w.0.starts_with(pair)));
    // Each has a slot at least, which makes one label in ten of them: about as many as are short.
    free.map(|pair| (pair, Kind::Letter, 0)).collect()
}

/// How a few letters go on: by any letter, more often as in words; now and then a digit.
fn few() -> Vec<Table> {
    let table = |counts: &[u32; 26]| {
        let even = counts.iter().sum::<u32>() / 26 + 1;
        let letters = counts.iter().enumerate().map(|(i, n)| (letter(i), Kind::Letter, n + even));
        Table::new(letters.chain((0..10).map(|d| (d.to_string(), Kind::Digit, even / 4))).collect())
    };
    counts().0.iter().map(table).collect()
}

/// How often a letter follows two others in the words, and some of how often it follows one; every letter
/// can follow any.
fn letters() -> Vec<Table> {
    let (pairs, mut threes) = counts();
    for (at, counts) in threes.iter_mut().enumerate() {
        let pairs = &pairs[at % 27];
        let total: u32 = pairs.iter().sum();
        counts.iter_mut().zip(pairs).for_each(|(n, pairs)| *n = *n * 400 + pairs * 1000 / total.max(1));
        // Short names are any letters: their first is drawn evenly, half of the time, their second more rarely.
        if at / 27 == 0 {
            let even = counts.iter().sum::<u32>() / if at == 0 { 26 } else { 150 };
            counts.iter_mut().for_each(|n| *n += even);
        }
    }
    let letter = |(i, &n): (usize, &u32)| (letter(i), Kind::Word, n);
    threes.iter().map(|counts| Table::new(counts.iter().enumerate().map(letter).collect())).collect()
}
