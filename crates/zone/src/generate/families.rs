//! The families: the zones of the papers, by name.

use crate::Profile;
use crate::profile::{Apex, Ds, Glue, Labels, Model, NameServers, Servers};
use serde::Serialize;
use std::fmt;

/// A zone of the papers. The S families are written unsigned, as their published sizes are; signing is a step
/// of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Family {
    /// RZAIA (seed 003, table 1.1): primarily IPv4 glue, no DS.
    #[serde(rename = "U-4-DS0")]
    U4Ds0,
    /// RZAIA: IPv4 and IPv6 glue, no DS.
    #[serde(rename = "U-6-DS0")]
    U6Ds0,
    /// RZAIA: IPv4 and IPv6 glue, two DS for 10 % of the new TLDs.
    #[serde(rename = "S-6-DS10")]
    S6Ds10,
    /// RZAIA: IPv4 and IPv6 glue, two DS for 50 % of the new TLDs.
    #[serde(rename = "S-6-DS50")]
    S6Ds50,
    /// RZAIA: IPv4 and IPv6 glue, two DS for every new TLD.
    #[serde(rename = "S-6-DS100")]
    S6Ds100,
    /// COM as in 2006 and 2007 (seed 000): the built-in profile of that name.
    #[serde(rename = "COM")]
    Com,
    /// A small ccTLD as PT in 2007 (seed 000, section 3.3): the built-in profile of that name.
    #[serde(rename = "PT")]
    Pt,
    /// The root of August 2026: the built-in profile of that name.
    #[serde(rename = "ROOT")]
    Root,
    /// Nominet's A records (seed 004): no delegations.
    #[serde(rename = "NOMINET")]
    Nominet,
}

/// A new TLD's name servers in the RZAIA families: of 1,000, how many have 4, 5, … 13; 5.521 on average, and
/// shaped like the root's.
const RZAIA_NS: [u32; 10] = [330, 192, 298, 80, 55, 20, 12, 6, 4, 3];
/// Of these servers, how many in 5,521 lie inside their TLD: 1.2 of a TLD's, assumed after figure 1.1.
const RZAIA_INSIDE: f64 = 1200.0 / 5521.0;
/// Where the others lie: assumed after figure 1.1.
const RZAIA_UNDER: [(&str, f64); 3] = [("com.", 4.0), ("net.", 3.0), ("org.", 3.0)];
/// Lengths of the new TLDs, from 3 octets on: those of the root's generic TLDs of August 2026.
const RZAIA_LENGTHS: [u32; 13] = [216, 205, 155, 158, 123, 78, 41, 30, 21, 4, 2, 2, 3];
/// The serial of the RZAIA zones: the day of the report.
const RZAIA_SERIAL: u32 = 2_009_091_700;

impl Family {
    /// All families.
    pub const ALL: [Self; 9] = [
        Self::U4Ds0,
        Self::U6Ds0,
        Self::S6Ds10,
        Self::S6Ds50,
        Self::S6Ds100,
        Self::Com,
        Self::Pt,
        Self::Root,
        Self::Nominet,
    ];

    /// The families of the RZAIA study, in the order of table 1.1.
    pub const RZAIA: [Self; 5] = [Self::U4Ds0, Self::U6Ds0, Self::S6Ds10, Self::S6Ds50, Self::S6Ds100];

    /// The name on the command line; where there is one, the paper's.
    pub fn name(self) -> &'static str {
        match self {
            Self::U4Ds0 => "U-4-DS0",
            Self::U6Ds0 => "U-6-DS0",
            Self::S6Ds10 => "S-6-DS10",
            Self::S6Ds50 => "S-6-DS50",
            Self::S6Ds100 => "S-6-DS100",
            Self::Com => "COM",
            Self::Pt => "PT",
            Self::Root => "ROOT",
            Self::Nominet => "NOMINET",
        }
    }

    /// True for the families that the RZAIA study signed.
    pub fn is_signed(self) -> bool {
        self.ds_share() > 0.0
    }

    /// True for the families of the RZAIA study.
    pub fn is_rzaia(self) -> bool {
        Self::RZAIA.contains(&self)
    }

    /// Delegations where the command line gives no number; `None` in the RZAIA families, which have many sizes.
    /// NOMINET has records instead.
    pub fn delegations(self) -> Option<u64> {
        match self {
            Self::Nominet => Some(super::nominet::RECORDS),
            family if family.is_rzaia() => None,
            family => Some(family.profile(0)?.delegations),
        }
    }

    /// Signed TLDs among the new ones of an RZAIA family.
    fn ds_share(self) -> f64 {
        match self {
            Self::S6Ds10 => 0.1,
            Self::S6Ds50 => 0.5,
            Self::S6Ds100 => 1.0,
            _ => 0.0,
        }
    }

    /// New servers with IPv6 addresses in a million. The study's U-4 zones were drawn at 1 %; what each
    /// published zone came to is table 1.1's AAAA count less the base zone's 197, over the new servers, and
    /// between the published sizes the share is interpolated.
    fn aaaa_ppm(self, delegations: u64) -> u64 {
        const PUBLISHED: [(u64, u64); 5] =
            [(1_000, 9_057), (10_000, 9_876), (100_000, 10_310), (1_000_000, 9_950), (10_000_000, 10_005)];
        if self != Self::U4Ds0 {
            return 1_000_000;
        }
        let next = PUBLISHED.partition_point(|&(size, _)| size < delegations);
        match (next.checked_sub(1).map(|i| PUBLISHED[i]), PUBLISHED.get(next)) {
            (None, Some(&(_, ppm))) | (Some((_, ppm)), None) => ppm,
            (Some((size, a)), Some(&(next, b))) => {
                (a * (next - delegations) + b * (delegations - size)) / (next - size)
            }
            (None, None) => unreachable!("the table is not empty"),
        }
    }

    /// The profile of the family at a size; in the RZAIA families that of the new TLDs. `None` for NOMINET, which
    /// has no delegations.
    pub fn profile(self, delegations: u64) -> Option<Profile> {
        if self == Self::Nominet {
            return None;
        }
        if !self.is_rzaia() {
            return Some(Profile::load(self.name()).expect("a test reads every built-in profile"));
        }
        let weights = |from, weights: &'static [u32]| (from..).zip(weights.iter().map(|&w| f64::from(w)));
        Some(Profile {
            about: format!("{self}: RZAIA (DNS-OARC 2009), table 1.1"),
            delegations,
            apex: Apex {
                origin: ".".into(),
                serial: RZAIA_SERIAL,
                timers: [1800, 900, 604_800, 86_400],
                soa_ttl: 86_400,
                ns_ttl: 518_400,
                mailbox: Some("nstld.verisign-grs.com.".into()),
                servers: super::base::root_servers().iter().map(|s| s.name.to_string()).collect(),
            },
            labels: Labels {
                model: Model::Words,
                lengths: weights(3, &RZAIA_LENGTHS).map(|(l, w)| (l as u8, w)).collect(),
                idn: 0.0,
            },
            ns: NameServers { counts: weights(4, &RZAIA_NS).collect(), ttl: 172_800 },
            servers: Servers {
                inside: RZAIA_INSIDE,
                own: 1.0 - RZAIA_INSIDE,
                providers: 0.0,
                exponent: 1.0,
                under: RZAIA_UNDER.map(|(name, weight)| (name.to_owned(), weight)).into(),
            },
            glue: Glue { a: 1.0, aaaa: self.aaaa_ppm(delegations) as f64 / 1e6, ttl: 172_800 },
            // As in figure 1.1: algorithm 5, digest type 1.
            ds: Ds {
                share: self.ds_share(),
                counts: [(2, 1.0)].into(),
                algorithms: [(5, 1.0)].into(),
                digests: [(1, 1.0)].into(),
                ttl: 3600,
            },
        })
    }
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl std::str::FromStr for Family {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|f| f.name().eq_ignore_ascii_case(text));
        found.ok_or_else(|| {
            let [known @ .., last] = Self::ALL.map(Self::name);
            format!("'{text}' is no zone family: give {} or {last}", known.join(", "))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_have_their_names_and_profiles() {
        for family in Family::ALL {
            assert_eq!(family.name().to_lowercase().parse(), Ok(family));
            if let Some(profile) = family.profile(1000) {
                assert_eq!(profile.check(), Ok(()), "{family}");
            }
        }
        assert!("U-5".parse::<Family>().unwrap_err().contains("S-6-DS100"));
        assert_eq!(Family::U4Ds0.aaaa_ppm(100_000), 10_310);
        assert_eq!(Family::U4Ds0.aaaa_ppm(55_000), 10_093);
        assert_eq!(Family::U4Ds0.aaaa_ppm(100), 9_057);
        assert_eq!(Family::U4Ds0.aaaa_ppm(1 << 40), 10_005);
        assert_eq!((Family::Nominet.delegations(), Family::U6Ds0.delegations()), (Some(129_032), None));
    }
}
