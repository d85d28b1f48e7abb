//! The traffic beside the one that is measured, as a profile states it: a flood of random labels.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::str::FromStr;
use wire::name::Name;

/// Octets of the random label where nothing is said: sixty random bits, which hit no name that exists.
pub(crate) const LABEL: u8 = 12;

/// A flood of random labels.
#[derive(Clone, Debug, PartialEq)]
pub struct Background {
    /// Its share of all queries, 0 to 1: each query belongs to it with this probability.
    pub share: f64,
    /// Before which name the label goes.
    pub under: Under,
    /// The label's length in octets, 1 to 63.
    pub label: u8,
    /// Types with their weights.
    pub types: BTreeMap<u16, f64>,
}

/// Before which name a flood's random label goes; as text `apex`, `names`, or a name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Under {
    /// The zone's own.
    #[default]
    Apex,
    /// Names that exist, drawn as those of good queries: of a zone of delegations, all its children are hit.
    Names,
    /// This one: one victim.
    Name(Name),
}

impl Default for Background {
    fn default() -> Self {
        Self { share: 0.0, under: Under::Apex, label: LABEL, types: [(wire::rtype::A, 1.0)].into() }
    }
}

impl FromStr for Under {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "apex" => Ok(Self::Apex),
            "names" => Ok(Self::Names),
            _ => Name::parse_text(text, Some(wire::name::ROOT))
                .map(Self::Name)
                .map_err(|e| format!("'{text}' is not apex, names or a name: {e}")),
        }
    }
}

impl TryFrom<String> for Under {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<Under> for String {
    fn from(under: Under) -> Self {
        match under {
            Under::Apex => "apex".into(),
            Under::Names => "names".into(),
            Under::Name(name) => name.to_string(),
        }
    }
}
