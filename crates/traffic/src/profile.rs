//! Profiles: what queries look like, as shares and distributions in a TOML file.
//!
//! The built-in ones lie in `profiles/` and are the documentation of the format: each figure there says
//! which seed it is from, or that it is an assumption.

mod file;

use crate::background::Background;
use crate::clients::Port;
use crate::{Error, NameList, Want};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

pub use file::fuzz_profile;

/// The built-in profiles: name and text.
pub const BUILT_IN: [(&str, &str); 3] = [
    ("rzaia", include_str!("../profiles/rzaia.toml")),
    ("isc", include_str!("../profiles/isc.toml")),
    ("nominet", include_str!("../profiles/nominet.toml")),
];

/// The most labels below a name that a profile can ask for.
pub(crate) const BELOW_MAX: usize = 8;

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

/// What queries look like. Shares are 0 to 1, of all queries; weights are relative.
#[derive(Clone, Debug, PartialEq)]
pub struct Profile {
    /// One sentence on what it is.
    pub about: String,
    /// Share of queries with an OPT record.
    pub edns: f64,
    /// Share of queries with DO; each has an OPT record.
    pub do_bit: f64,
    /// UDP payload sizes of the OPT records, in octets, with their weights.
    pub edns_sizes: BTreeMap<u16, f64>,
    /// The same for queries with DO; empty: as those without.
    pub edns_sizes_do: BTreeMap<u16, f64>,
    /// In which order names that exist are asked for.
    pub order: Order,
    /// Share of queries for names that do not exist.
    pub nonexistent: f64,
    /// Lists of names, where no others are given.
    pub lists: Vec<NameList>,
    /// Weights of 0, 1, 2, … labels below a delegation that exists; not used for other owners.
    pub below: Vec<f64>,
    /// The same for names that do not exist.
    pub below_nonexistent: Vec<f64>,
    /// Records of the zone are asked for, each name with the type that it has there ([`Want::Records`]).
    pub types_of_zone: bool,
    /// Types with their weights; where [`Self::types_of_zone`], only used over a file of names, which has none.
    pub types: BTreeMap<u16, f64>,
    /// Share of queries with the IPv4 header's "don't fragment" bit.
    pub df: f64,
    /// Share of queries without a UDP checksum; where we write the packets (captures, AF_XDP).
    pub no_checksum: f64,
    /// Share of queries with a wrong UDP checksum; where we write the packets.
    pub bad_checksum: f64,
    /// How many clients there are, at most.
    pub clients: u32,
    /// Client `n`, from 1, sends as often as 1/n to this power; 0: all alike.
    pub zipf: f64,
    /// Kinds of source ports with their weights, by client; empty: all random.
    pub ports: BTreeMap<Port, f64>,
    /// Share of queries over IPv6. Senders are free to choose where it is 0.
    pub ipv6: f64,
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

    /// What a zone must be read for.
    pub fn want(&self) -> Want {
        if self.types_of_zone { Want::Records } else { Want::Names }
    }

    /// What is wrong where more queries have DO than have an OPT record.
    pub(crate) fn do_without_edns(&self) -> Option<String> {
        (self.do_bit > self.edns).then(|| {
            format!(
                "'do' is {}, but only {} of the queries have EDNS: DO needs an OPT record",
                self.do_bit, self.edns
            )
        })
    }
}
