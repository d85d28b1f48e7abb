//! Zone profiles: what a zone of delegations looks like, as shares and weights in a TOML file.
//!
//! A profile is made by hand or by `zone fit` from a real zone, and read by `zone generate --profile`
//! (a zone of any size like it) and `zone info --against`. The built-in ones in `profiles/` are the
//! documentation of the format.

mod check;
mod text;

use crate::error::{Error, Place};
use measure::line_column;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The most delegations that a zone may be asked for.
pub(crate) const MAX_DELEGATIONS: u64 = 1_000_000_000;

/// The built-in profiles: name and text.
pub const BUILT_IN: [(&str, &str); 3] = [
    ("COM", include_str!("../profiles/com.toml")),
    ("PT", include_str!("../profiles/pt.toml")),
    ("ROOT", include_str!("../profiles/root.toml")),
];

/// A profile of a zone of delegations. Shares are 0 to 1; weights are relative.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Profile {
    /// One sentence on what it is, and where its figures are from.
    pub about: String,
    /// Delegations where the command line gives no number.
    pub delegations: u64,
    /// The top of the zone.
    pub apex: Apex,
    /// Names of delegations.
    pub labels: Labels,
    /// Name servers per delegation.
    pub ns: NameServers,
    /// Where name servers' names lie, and how delegations share them.
    pub servers: Servers,
    /// Addresses of those servers whose names lie in the zone.
    pub glue: Glue,
    /// DS records of delegations.
    #[serde(default)]
    pub ds: Ds,
}

/// SOA and NS records at the apex.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Apex {
    /// The zone's name: `.`, `com.`.
    pub origin: String,
    /// The SOA's serial.
    pub serial: u32,
    /// Refresh, retry, expire and minimum, in seconds.
    pub timers: [u32; 4],
    /// TTL of the SOA, in seconds.
    pub soa_ttl: u32,
    /// TTL of the NS records, in seconds.
    pub ns_ttl: u32,
    /// The mailbox in the SOA as a name; `hostmaster` under the origin where it is not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mailbox: Option<String>,
    /// The zone's own servers; the first is the SOA's primary. Those in the zone get addresses.
    pub servers: Vec<String>,
}

/// How a delegation's label is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Model {
    /// Words with digits and hyphens between them: second-level domains.
    Words,
    /// Letters that follow each other as in words: top-level domains and other short names.
    Letters,
}

/// Names of delegations, one label below the apex.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Labels {
    /// How they are made.
    pub model: Model,
    /// Weights of lengths in octets (1 to 63), IDNs left out. Where there are not enough short names, longer ones
    /// are made instead; the longest made are 55 octets or a few more.
    pub lengths: BTreeMap<u8, f64>,
    /// Share of IDNs (A-labels, RFC 5890).
    #[serde(default)]
    pub idn: f64,
}

/// Name servers per delegation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct NameServers {
    /// Weights of their number.
    pub counts: BTreeMap<u32, f64>,
    /// TTL of delegations' NS records, in seconds.
    pub ttl: u32,
}

/// Where name servers' names lie. Each share is of the delegations' NS records; what `inside` and
/// `own` leave are servers of a provider, which other delegations may use too.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Servers {
    /// Share whose names lie in the delegation that they serve.
    pub inside: f64,
    /// Share whose names lie elsewhere, and serve this delegation alone.
    #[serde(default)]
    pub own: f64,
    /// Providers for each delegation: 0.05 is one for 20 delegations.
    #[serde(default)]
    pub providers: f64,
    /// How unevenly delegations choose providers: the k-th is chosen in proportion to k^-exponent.
    #[serde(default = "one")]
    pub exponent: f64,
    /// Under which names own and providers' servers lie, with weights. A name in the zone stands for a
    /// delegation that is there (`com.` in the root) and has their glue below it; the zone's own name
    /// stands for its delegations, any of them; a name out of the zone means no glue.
    #[serde(default)]
    pub under: BTreeMap<String, f64>,
}

/// Addresses of servers whose names lie in the zone.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Glue {
    /// Share with an A record. Those without one have an AAAA record.
    #[serde(default = "one")]
    pub a: f64,
    /// Share with an AAAA record.
    pub aaaa: f64,
    /// TTL, in seconds.
    pub ttl: u32,
}

/// DS records.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Ds {
    /// Share of the delegations that have any.
    pub share: f64,
    /// Weights of their number where there are any.
    pub counts: BTreeMap<u32, f64>,
    /// Weights of algorithm numbers.
    pub algorithms: BTreeMap<u8, f64>,
    /// Weights of digest types (1, 2 and 4).
    pub digests: BTreeMap<u8, f64>,
    /// TTL, in seconds.
    pub ttl: u32,
}

impl Profile {
    /// A built-in profile by its name (`COM`, `PT`, `ROOT`), or one from a file.
    ///
    /// # Errors
    /// As [`Self::parse`]; [`Error::NoProfile`] where there is no such file, [`Error::Read`] where it
    /// cannot be read.
    pub fn load(name: &str) -> Result<Self, Error> {
        if let Some((name, text)) = BUILT_IN.iter().find(|b| b.0.eq_ignore_ascii_case(name)) {
            return Self::parse(text, name);
        }
        match std::fs::read_to_string(name) {
            Ok(text) => Self::parse(&text, name),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
                let known = BUILT_IN.map(|b| b.0).join(", ");
                Err(Error::NoProfile { name: name.to_owned(), known })
            }
            Err(source) => Err(Error::Read { file: name.to_owned(), source }),
        }
    }

    /// Reads a profile; `file` is what errors call it.
    ///
    /// # Errors
    /// [`Error::Syntax`] with the place of the first fault: TOML that is none, an unknown key, a share
    /// outside 0 to 1, weights without a sum, a name that is none or that cannot stand where it does.
    pub fn parse(text: &str, file: &str) -> Result<Self, Error> {
        let fault = |at: usize, what: String| {
            let (line, column) = line_column(text, at);
            let place = Place { file: file.to_owned(), line: line as u64, column: column as u64 };
            Error::Syntax { place, what }
        };
        let profile: Self = toml::from_str(text).map_err(|e| {
            let what = e.message().lines().collect::<Vec<_>>().join("; ").replace("f64", "a number");
            fault(e.span().map_or(0, |s| s.start), what)
        })?;
        match profile.check() {
            Ok(()) => Ok(profile),
            Err(f) => Err(fault(text::position(text, &f.path), f.what)),
        }
    }

    /// Sees that every knob can be used, and that they go together.
    ///
    /// # Errors
    /// The first fault, and the key that it is at.
    pub fn check(&self) -> Result<(), Fault> {
        check::check(self)
    }

    /// The profile as TOML that [`Self::parse`] reads, with a comment on each part.
    pub fn to_toml(&self) -> String {
        text::write(self)
    }
}

/// A knob that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}: {what}", .path.join("."))]
pub struct Fault {
    /// The key, from the outermost table: `servers`, `under`, `com.`.
    pub path: Vec<String>,
    /// The fault, and what would be right.
    pub what: String,
}

impl Default for Ds {
    /// None at all.
    fn default() -> Self {
        Self { share: 0.0, counts: one_of(1), algorithms: one_of(13), digests: one_of(2), ttl: 86400 }
    }
}

fn one_of<K: Ord>(key: K) -> BTreeMap<K, f64> {
    BTreeMap::from([(key, 1.0)])
}

fn one() -> f64 {
    1.0
}
