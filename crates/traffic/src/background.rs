//! Traffic beside the one that is measured: a flood of random labels ("random subdomains", "water torture").
//!
//! RZAIA (seed 003, section 3.3) fears directed attacks on servers with large signed zones. Each query of such a
//! flood is for another name, so that no cache helps: below the zone's own name the server has to deny it, below a
//! delegation to refer it. The good queries of a stream are the same with a flood among them as without it, but for
//! those in whose places the flood's are.

use crate::Profile;
use crate::pool::{Lists, Pick};
use crate::random::{Draws, Keys, Table, threshold};
use crate::synthesis::push_label;
use measure::Seed;
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

/// Draws the queries of a flood.
#[derive(Clone)]
pub(crate) struct Flood {
    keys: Keys,
    share: u64,
    under: Under,
    label: u8,
    types: Table<u16>,
}

impl Flood {
    /// `None` where the profile has none.
    pub(crate) fn new(profile: &Profile, seed: Seed) -> Option<Self> {
        let Background { share, under, label, types } = &profile.background;
        (*share > 0.0).then(|| Self {
            keys: Keys::new(seed, "background"),
            share: threshold(*share),
            under: under.clone(),
            label: *label,
            types: Table::new(types.iter().map(|(&t, &w)| (t, w))),
        })
    }

    /// Whether query `index` belongs to the flood: its type, and the draws for its label.
    pub(crate) fn draw(&mut self, index: u64) -> Option<(u16, Draws)> {
        let mut draws = self.keys.draws(index);
        let bits = draws.bits();
        (bits & 0xffff_ffff < self.share).then(|| (self.types.get((bits >> 32) as u32), draws))
    }

    /// Appends the name that is asked for; `pick` is what a good query would ask for.
    pub(crate) fn push_name(&self, draws: &mut Draws, names: &Lists, pick: Pick, out: &mut Vec<u8>) {
        push_label(out, draws, usize::from(self.label));
        out.extend_from_slice(match &self.under {
            Under::Apex => names.origin(pick),
            Under::Names => names.name(pick),
            Under::Name(name) => name.as_wire(),
        });
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
