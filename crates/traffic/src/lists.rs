//! Lists of names with their weights, as profiles, command lines and specifications give them.

use crate::Error;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::str::FromStr;

/// The most lists of one source.
pub const LISTS_MAX: usize = 256;

/// The heaviest list's weight at most: no sum overflows.
const WEIGHT_MAX: f64 = 1e15;

/// A list of names: a zone file or a file of names ([`crate::Names::open`]) and how often it is asked for. As text
/// `FILE` or `FILE=WEIGHT`; in JSON the file alone where nothing else is said.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(from = "Form", into = "Form")]
pub struct NameList {
    /// The file.
    pub file: PathBuf,
    /// How often it is asked for, against the others that exist (or do not, as this one): above 0, up to 1e15.
    pub weight: f64,
    /// The names exist; otherwise those queries are for them that are to be for names that do not exist.
    pub exist: bool,
    /// Where a profile asks for it: `file:line:column`, otherwise empty.
    pub said: String,
}

impl NameList {
    /// A list of names that exist, with the weight 1.
    pub fn new(file: impl Into<PathBuf>) -> Self {
        Self { file: file.into(), weight: 1.0, exist: true, said: String::new() }
    }

    /// The fault of a weight, if it has one.
    pub(crate) fn wrong_weight(weight: f64) -> Option<String> {
        let right = weight > 0.0 && weight <= WEIGHT_MAX;
        (!right).then(|| format!("{weight} is not a list's weight: give a number above 0, up to 1e15"))
    }

    /// An error with the place that asked for the list.
    pub(crate) fn error(&self, source: Error) -> Error {
        source.asked_for_at(&self.said)
    }
}

impl FromStr for NameList {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let Some((file, weight)) = text.rsplit_once('=') else { return Ok(Self::new(text)) };
        let weight: f64 = weight.trim().parse().map_err(|_| {
            format!("'{weight}' is not a weight: give FILE=WEIGHT (after a name with '=' in it, write =1)")
        })?;
        match Self::wrong_weight(weight) {
            Some(what) => Err(what),
            None => Ok(Self { weight, ..Self::new(file) }),
        }
    }
}

/// A list in JSON and TOML.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Form {
    File(PathBuf),
    Full(Full),
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Full {
    file: PathBuf,
    #[serde(default = "one")]
    weight: f64,
    #[serde(default = "yes")]
    exist: bool,
}

fn one() -> f64 {
    1.0
}

fn yes() -> bool {
    true
}

impl From<Form> for NameList {
    fn from(form: Form) -> Self {
        match form {
            Form::File(file) => Self::new(file),
            Form::Full(Full { file, weight, exist }) => Self { weight, exist, ..Self::new(file) },
        }
    }
}

impl From<NameList> for Form {
    fn from(list: NameList) -> Self {
        let NameList { file, weight, exist, .. } = list;
        if weight == 1.0 && exist { Self::File(file) } else { Self::Full(Full { file, weight, exist }) }
    }
}

/// One list stands alone in a specification, several in an array.
pub(crate) mod one_or_many {
    use super::{Deserialize, NameList, Serialize};
    use serde::{Deserializer, Serializer};

    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Lists {
        One(NameList),
        Many(Vec<NameList>),
    }

    pub fn serialize<S: Serializer>(lists: &[NameList], s: S) -> Result<S::Ok, S::Error> {
        match lists {
            [one] => one.serialize(s),
            many => many.serialize(s),
        }
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<Vec<NameList>, D::Error> {
        Ok(match Lists::deserialize(d)? {
            Lists::One(one) => vec![one],
            Lists::Many(many) => many,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_files_with_a_weight() {
        let read = |text: &str| text.parse::<NameList>().map(|l| (l.file, l.weight, l.exist));
        assert_eq!(read("a/b.txt").unwrap(), ("a/b.txt".into(), 1.0, true));
        assert_eq!(read("b.txt=2.5").unwrap(), ("b.txt".into(), 2.5, true));
        assert_eq!(read("date=2026/b.txt=1").unwrap(), ("date=2026/b.txt".into(), 1.0, true));
        for bad in ["b.txt=", "b.txt=x", "b.txt=0", "b.txt=-1", "b.txt=nan", "b.txt=inf", "b.txt=1e16"] {
            assert!(read(bad).unwrap_err().contains("weight"), "{bad}");
        }
    }
}
