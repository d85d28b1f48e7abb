//! How many of the changes add, delete and modify.

use measure::seed::Draw;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// The kind of a change to a delegation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Add,
    Delete,
    Modify,
}

/// Parts of additions, deletions and modifications.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Mix {
    /// Delegations that are added.
    pub add: u32,
    /// Delegations that are deleted.
    pub delete: u32,
    /// Delegations whose servers change.
    pub modify: u32,
}

/// The most that the parts may be together.
const MOST: u32 = 10_000;

impl Mix {
    /// ISC-TN-2008-1, section 1.1, task 4: a third each of NS changes, additions and deletions.
    pub const ISC: Self = Self { add: 1, delete: 1, modify: 1 };
    /// RZAIA, chapter 5.2: each batch 10 % additions, 10 % deletions, 80 % modifications.
    pub const RZAIA: Self = Self { add: 1, delete: 1, modify: 8 };

    /// Changes in a transaction where nothing is said: one, as ISC's `nsupdate` sent them; RZAIA's ten, so that each transaction has
    /// the whole mix and about 60 records (it sent around 100 at once, chapter 5.3).
    pub fn batch(self) -> u32 {
        if self == Self::RZAIA { 10 } else { 1 }
    }

    fn sum(self) -> u32 {
        self.add + self.delete + self.modify
    }

    /// How many of the first `count` changes are at most of a kind: what must be at hand for them.
    pub(super) fn at_most(self, kinds: &[Kind], count: u64) -> u64 {
        let part = |kind: &Kind| match kind {
            Kind::Add => self.add,
            Kind::Delete => self.delete,
            Kind::Modify => self.modify,
        };
        let parts = u64::from(kinds.iter().map(part).sum::<u32>());
        let sum = u64::from(self.sum());
        (count / sum * parts + (count % sum).min(parts)).min(count)
    }
}

/// Kinds of change, one after the other: exactly the mix in each stretch as long as its parts together, shuffled within it.
pub(super) struct Kinds {
    mix: Mix,
    draw: Draw,
    left: Vec<Kind>,
}

impl Kinds {
    pub fn new(mix: Mix, draw: Draw) -> Self {
        Self { mix, draw, left: Vec::new() }
    }

    pub fn next(&mut self) -> Kind {
        if self.left.is_empty() {
            for (kind, parts) in
                [(Kind::Add, self.mix.add), (Kind::Delete, self.mix.delete), (Kind::Modify, self.mix.modify)]
            {
                self.left.extend(std::iter::repeat_n(kind, parts as usize));
            }
            shuffle(&mut self.left, &mut self.draw);
        }
        self.left.pop().expect("a mix has parts")
    }
}

/// Any order is as likely.
pub(super) fn shuffle<T>(items: &mut [T], draw: &mut Draw) {
    for n in (1..items.len()).rev() {
        items.swap(n, draw.below(n as u64 + 1) as usize);
    }
}

impl FromStr for Mix {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!("'{text}' is not a mix: give isc, rzaia, or three parts ADD:DELETE:MODIFY such as 1:1:8")
        };
        let mix = match text {
            "isc" => Self::ISC,
            "rzaia" => Self::RZAIA,
            _ => {
                let parts: Vec<u32> =
                    text.split(':').map(str::parse).collect::<Result<_, _>>().map_err(|_| wrong())?;
                let &[add, delete, modify] = &parts[..] else { return Err(wrong()) };
                if parts.iter().any(|&part| part > MOST) {
                    return Err(format!("'{text}': parts of at most {MOST}"));
                }
                let gcd = [add, delete, modify].into_iter().fold(0, gcd);
                if gcd == 0 {
                    return Err(wrong());
                }
                Self { add: add / gcd, delete: delete / gcd, modify: modify / gcd }
            }
        };
        Ok(mix)
    }
}

fn gcd(a: u32, b: u32) -> u32 {
    if b == 0 { a } else { gcd(b, a % b) }
}

impl fmt::Display for Mix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::ISC => f.write_str("isc"),
            Self::RZAIA => f.write_str("rzaia"),
            Self { add, delete, modify } => write!(f, "{add}:{delete}:{modify}"),
        }
    }
}

impl TryFrom<String> for Mix {
    type Error = String;
    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<Mix> for String {
    fn from(mix: Mix) -> Self {
        mix.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use measure::Seed;

    #[test]
    fn each_stretch_has_the_mix() {
        let mut kinds = Kinds::new(Mix::RZAIA, Seed(1).draw("test", 0));
        let mut orders = std::collections::HashSet::new();
        for _ in 0..50 {
            let ten: Vec<_> = (0..10).map(|_| kinds.next()).collect();
            let count = |kind| ten.iter().filter(|k| **k == kind).count();
            assert_eq!((count(Kind::Add), count(Kind::Delete), count(Kind::Modify)), (1, 1, 8));
            orders.insert(format!("{ten:?}"));
        }
        assert!(orders.len() > 20, "in {} orders", orders.len());
    }

    #[test]
    fn people_type_mixes() {
        for (text, want) in
            [("isc", "isc"), ("rzaia", "rzaia"), ("10:10:80", "rzaia"), ("5:5:5", "isc"), ("0:0:3", "0:0:1")]
        {
            assert_eq!(text.parse::<Mix>().unwrap().to_string(), want);
        }
        for bad in ["", "1:2", "1:2:3:4", "a:b:c", "0:0:0", "-1:1:1", "1:1:99999"] {
            assert!(bad.parse::<Mix>().is_err(), "{bad}");
        }
        let mix = Mix::RZAIA;
        assert_eq!(mix.at_most(&[Kind::Add], 100), 10);
        assert_eq!(mix.at_most(&[Kind::Add], 5), 1);
        assert_eq!(mix.at_most(&[Kind::Delete, Kind::Modify], 25), 23);
    }
}
