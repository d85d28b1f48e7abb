//! Profiles: what queries look like, as shares and distributions in a TOML file.
//!
//! The built-in ones lie in `profiles/` and are the documentation of the format: each figure there says
//! which seed it is from, or that it is an assumption.

mod background;
mod class;
mod file;
mod law;
mod parts;
mod port;
mod shape;
mod values;
mod write;

use crate::{Error, NameList, Want};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use wire::name::Name;

pub use background::{Background, Under};
pub use class::{AddressFile, Class};
pub use file::fuzz_profile;
pub use law::Law;
pub use port::{Port, Ports};
pub use shape::Shape;

/// The built-in profiles: name and text.
pub const BUILT_IN: [(&str, &str); 3] = [
    ("rzaia", include_str!("../profiles/rzaia.toml")),
    ("isc", include_str!("../profiles/isc.toml")),
    ("nominet", include_str!("../profiles/nominet.toml")),
];

/// The most labels below a name that a profile can ask for.
pub const BELOW_MAX: usize = 40;

/// The most clients of a profile: those of 10.0.0.0/8 without its first address.
pub const CLIENTS_MAX: u32 = (1 << 24) - 1;

/// The greatest exponent: beyond, the first client sends all but a thousandth.
pub const ZIPF_MAX: f64 = 10.0;

/// The most classes of clients.
pub const CLASSES_MAX: usize = 256;

/// The most shapes of names, of those that exist and of those that do not.
pub const SHAPES_MAX: usize = 10_000;

/// The most popular names, of those that exist and of those that do not.
pub const POPULAR_MAX: usize = 10_000;

/// In which order names are asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Order {
    /// Each query's name is drawn, every name as likely.
    #[default]
    Uniform,
    /// As in the zone or file, and again from the beginning. Of several lists each goes round by itself, and they take
    /// turns as their weights say (rounded to 1/4096 where these are no small whole numbers).
    Sequential,
}

impl std::str::FromStr for Order {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "uniform" => Ok(Self::Uniform),
            "sequential" => Ok(Self::Sequential),
            _ => Err(format!("'{text}' is no order: give uniform or sequential")),
        }
    }
}

/// A profile of queries. Shares are 0 to 1, of all queries; weights are relative.
#[derive(Clone, Debug, PartialEq)]
pub struct Profile {
    /// One sentence on what it is.
    pub about: String,
    /// The classes of clients: at least one. A file without `[[class]]` has one.
    pub classes: Vec<Class>,
    /// In which order names that exist are asked for.
    pub order: Order,
    /// Lists of names, where no others are given.
    pub lists: Vec<NameList>,
    /// Names that exist, with their shares of the queries for such names, together at most 1. The others are of the lists.
    pub popular: BTreeMap<Name, f64>,
    /// The same of names that do not exist: labels below go before them as before made ones.
    pub popular_nonexistent: BTreeMap<Name, f64>,
    /// Lengths of made labels, in octets, with their weights; empty: as seen at a root server.
    pub lengths: BTreeMap<u8, f64>,
    /// Weights of 0, 1, 2, … labels below a delegation that exists; not used for other owners.
    pub below: Vec<f64>,
    /// The same for names that do not exist.
    pub below_nonexistent: Vec<f64>,
    /// Lengths of the labels below a delegation that exists, with their weights, instead of [`Self::below`]; empty: as that
    /// says.
    pub shapes: BTreeMap<Shape, f64>,
    /// The same of names that do not exist, instead of [`Self::below_nonexistent`] and [`Self::lengths`]: the last length
    /// is that of the label that would have to exist first. A popular name is only asked for where that is as long as it.
    pub shapes_nonexistent: BTreeMap<Shape, f64>,
    /// Records of the zone are asked for, each name with the type that it has there ([`Want::Records`]).
    pub types_of_zone: bool,
    /// Types with their weights; where [`Self::types_of_zone`], only used over a file of names, which has none.
    pub types: BTreeMap<u16, f64>,
    /// The same of queries for names that exist without labels below: a zone's own name, its delegations themselves; empty:
    /// as those with labels below.
    pub types_itself: BTreeMap<u16, f64>,
    /// The same of queries for names that do not exist; empty: as those for names that do.
    pub types_nonexistent: BTreeMap<u16, f64>,
    /// Share of truncated answers that are asked again over TCP, where nobody asks for another; `None`: it is not said.
    pub retry: Option<f64>,
    /// Share of queries without a UDP checksum; where we write the packets (captures, AF_XDP).
    pub no_checksum: f64,
    /// Share of queries with a wrong UDP checksum; where we write the packets.
    pub bad_checksum: f64,
    /// Kinds of source ports with their weights, by client; empty: all random.
    pub ports: BTreeMap<Port, f64>,
    /// The intervals between queries, where nobody asks for others.
    pub law: Law,
    /// Queries per second, where nobody asks for others; `None`: as [`Self::law`] says, if it does.
    pub rate: Option<f64>,
    /// A flood among all this. EDNS, packets and clients of its queries are as those of others.
    pub background: Background,
}

impl Profile {
    /// A built-in profile by its name, or one from a file.
    ///
    /// # Errors
    /// As [`Self::parse`]; [`Error::NoProfile`] where there is no such file.
    pub fn load(name: &str) -> Result<Self, Error> {
        if let Some((_, text)) = BUILT_IN.iter().find(|b| b.0 == name) {
            return Self::parse(text, name);
        }
        match std::fs::read_to_string(name) {
            Ok(text) => Self::parse(&text, name),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
                let known = BUILT_IN.map(|b| b.0).join(", ");
                Err(Error::NoProfile { name: name.to_owned(), known })
            }
            Err(e) => Err(Error::io(name.as_ref())(e)),
        }
    }

    /// Whether a profile of this name is built in.
    pub fn is_built_in(name: &str) -> bool {
        BUILT_IN.iter().any(|b| b.0 == name)
    }

    /// Which names it needs of a zone.
    pub fn want(&self) -> Want {
        if self.types_of_zone { Want::Records } else { Want::Names }
    }

    /// The mean over all queries of what each class says, such as `|class| class.edns`.
    pub fn mean(&self, of: impl Fn(&Class) -> f64) -> f64 {
        let total: f64 = self.classes.iter().map(|class| class.share).sum();
        self.classes.iter().map(|class| class.share * of(class)).sum::<f64>() / total
    }

    /// Queries go over TCP, as those of some class do.
    pub fn has_tcp(&self) -> bool {
        self.classes.iter().any(|class| class.tcp > 0.0)
    }

    /// Names that do not exist are asked for.
    pub fn has_misses(&self) -> bool {
        self.classes.iter().any(|class| class.nonexistent > 0.0)
    }
}
