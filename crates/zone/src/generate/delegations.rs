//! The names of a zone's delegations, by number.

use super::fixed::Fixed;
use super::idn;
use super::labels::{Labels, Lengths, mix};
use super::vocabulary::Vocabulary;
use crate::Profile;
use measure::Seed;
use std::collections::HashSet;
use wire::name;

/// How many letters are tried for an IDN that must not be one of those that are taken.
const IDN_TRIES: u32 = 1000;

/// All delegations: made ones by rank in canonical order, then those whose names are given.
pub(super) struct Delegations<'a> {
    plain: Labels<'a>,
    idn: Labels<'a>,
    /// IDNs that none of them is.
    taken_idns: HashSet<Vec<u8>>,
    /// The rank of the first IDN.
    cut: u64,
    /// The text of labels that are given, by number.
    given: Vec<Vec<u8>>,
    /// The end of each name after the label: `.` in the root, `.com.` in COM.
    pub suffix: Vec<u8>,
    key: u64,
}

/// The vocabularies of a zone's labels.
pub(super) struct Vocabularies {
    pub delegations: Vocabulary,
    pub idn: Vocabulary,
    pub second_level: Vocabulary,
}

impl<'a> Delegations<'a> {
    /// `count` made names besides those of `fixed`.
    pub fn new(p: &Profile, count: u64, fixed: &Fixed, words: &'a Vocabularies, seed: Seed) -> Self {
        let mut lengths: Lengths = [0.0; 64];
        p.labels.lengths.iter().for_each(|(&l, &w)| lengths[usize::from(l)] = w);
        // `xn--`, and the letter with its hyphen: the word in between is not shorter than three.
        let mut idn_lengths: Lengths = [0.0; 64];
        p.labels.lengths.iter().for_each(|(&l, &w)| idn_lengths[usize::from(l).clamp(3, 40)] += w);
        let idns = (p.labels.idn * count as f64).round() as u64;
        let taken = fixed.items.iter().map(|i| &i.label[..]).chain(fixed.taken.plain());
        let plain = Labels::new(&words.delegations, count - idns, &lengths, taken, seed, "delegations");
        let cut = plain.rank_after(idn::PREFIX);
        // Given IDNs are not made of these words; their being so by chance is not worth a search.
        let idn = Labels::new(&words.idn, idns, &idn_lengths, [], seed, "IDNs");
        let given = fixed.items.iter().filter(|i| i.number.is_some()).map(|i| shown(&i.label)).collect();
        let suffix = fixed.suffix.clone();
        let taken_idns = fixed.taken.idns.clone();
        Self { plain, idn, taken_idns, cut, given, suffix, key: seed.draw("IDNs", 1).bits() }
    }

    /// Made names.
    pub fn made(&self) -> u64 {
        self.plain.count() + self.idn.count()
    }

    /// Appends the absolute name of the delegation of this number.
    pub fn write(&self, number: u64, out: &mut Vec<u8>) {
        self.write_label(number, out);
        out.extend_from_slice(&self.suffix);
    }

    fn write_label(&self, number: u64, out: &mut Vec<u8>) {
        match number.checked_sub(self.cut) {
            None => self.plain.write(number, out),
            Some(rank) if rank < self.idn.count() => {
                let (start, mut bits) = (out.len(), mix(self.key ^ rank));
                // Another letter in the same word comes in the same place of the order.
                for _ in 0..IDN_TRIES {
                    out.truncate(start);
                    self.idn.write(rank, out);
                    idn::a_label(out, start, bits);
                    if !self.taken_idns.contains(&out[start..]) {
                        break;
                    }
                    bits = mix(bits ^ 1);
                }
            }
            Some(_) if number < self.made() => self.plain.write(number - self.idn.count(), out),
            Some(_) => out.extend_from_slice(&self.given[(number - self.made()) as usize]),
        }
    }

    /// The rank of the first made name that comes after `label`.
    pub fn rank_after(&self, label: &[u8]) -> u64 {
        let (mut low, mut high) = (0, self.made());
        let mut text = Vec::new();
        while low < high {
            let middle = low + (high - low) / 2;
            text.clear();
            self.write_label(middle, &mut text);
            if &text[..] <= label { low = middle + 1 } else { high = middle }
        }
        low
    }
}

/// A label as text, with what must be escaped.
fn shown(label: &[u8]) -> Vec<u8> {
    let wire = [&[label.len() as u8], label, &[0]].concat();
    let mut text = Vec::new();
    name::write_text(&wire, &mut text);
    text.pop();
    text
}
