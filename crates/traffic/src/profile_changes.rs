//! Changes to a profile: what a command line or an experiment says otherwise than the profile.

use crate::Error;
use crate::profile::{AddressFile, BELOW_MAX, CLIENTS_MAX, Class, Order, Ports, Profile, Under, ZIPF_MAX};
use crate::weights::{are_weights, weighted};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::str::FromStr;
use wire::rtype;

/// The UDP payload size of OPT records where a profile without any gets some by a change: 1232 octets (DNS flag
/// day 2020).
const UDP_SIZE: u16 = 1232;

/// Values that replace parts of a profile, in all of its classes of clients; `None` leaves the profile's own.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ProfileChanges {
    /// Share of queries for names that do not exist, 0 to 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nonexistent: Option<f64>,
    /// Weights of 0, 1, 2, … labels below a delegation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub below: Option<Vec<f64>>,
    /// Order of names: `uniform` or `sequential`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub order: Option<Order>,
    /// Types with their weights (`A=5,AAAA=2`), or `zone`: those of the zone.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub types: Option<Types>,
    /// Share of queries with an OPT record.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub edns: Option<f64>,
    /// Share of queries with DO.
    #[serde(rename = "do", skip_serializing_if = "Option::is_none")]
    pub do_bit: Option<f64>,
    /// Number of clients, and how unevenly they ask: `COUNT` or `COUNT:EXPONENT`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub clients: Option<Crowd>,
    /// File of the clients' addresses: `ADDRESS WEIGHT` on each line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub addresses: Option<PathBuf>,
    /// Source ports of the clients: `random=7,own=2,53=1`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub ports: Option<Ports>,
    /// Share of queries over IPv6.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ipv6: Option<f64>,
    /// Share of a random-label flood in all queries, 0 to 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub background: Option<f64>,
    /// Name that the labels of the flood are put below: `apex`, `names`, or a name.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub under: Option<Under>,
}

/// Which types are asked for; as text `zone`, or `A=5,AAAA=2`: types with their weights (1 where none is given).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Types {
    /// Records of the zone: each name with the type that it has there.
    Zone,
    /// Types with their weights, drawn independently of names.
    Weights(BTreeMap<u16, f64>),
}

/// How many clients there are, of all classes together, and how unlike they are; as text `COUNT` or `COUNT:EXPONENT`,
/// such as `10K:0.9`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Crowd {
    /// How many, at most.
    pub count: u32,
    /// The exponent of [`Class::zipf`]; `None` leaves the profile's.
    pub zipf: Option<f64>,
}

impl Crowd {
    /// Divides the clients among the classes as they were divided before, at least one to each.
    pub(crate) fn spread(self, classes: &mut [Class]) {
        let total: f64 = classes.iter().map(|class| f64::from(class.clients)).sum();
        let (mut sum, mut given) = (0.0, 0);
        for class in classes {
            sum += f64::from(class.clients);
            let to = (f64::from(self.count) * sum / total).round() as u32;
            class.clients = to.saturating_sub(given).max(1);
            given += class.clients;
            class.zipf = self.zipf.unwrap_or(class.zipf);
            class.addresses = None;
        }
    }
}

impl ProfileChanges {
    /// True where nothing is changed.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Changes the profile.
    ///
    /// # Errors
    /// [`Error::Spec`]: a share outside 0 to 1, weights without a sum, more DO than EDNS; one file of addresses for several
    /// classes of clients.
    pub fn apply(&self, profile: &mut Profile) -> Result<(), Error> {
        let spec = |what: String| Error::Spec(what);
        for (name, value) in [
            ("nonexistent", self.nonexistent),
            ("edns", self.edns),
            ("do", self.do_bit),
            ("ipv6", self.ipv6),
            ("background", self.background),
        ] {
            if let Some(value) = value.filter(|value| !(0.0..=1.0).contains(value)) {
                return Err(spec(format!("{name}: {value} is not a share: give a number from 0 to 1")));
            }
        }
        profile.background.share = self.background.unwrap_or(profile.background.share);
        for class in &mut profile.classes {
            class.nonexistent = self.nonexistent.unwrap_or(class.nonexistent);
            class.edns = self.edns.unwrap_or(class.edns);
            class.do_bit = self.do_bit.unwrap_or(class.do_bit);
            class.ipv6 = self.ipv6.unwrap_or(class.ipv6);
            if let Some(what) = class.do_without_edns() {
                return Err(spec(what + "; change both"));
            }
            if class.edns > 0.0 && class.edns_sizes.is_empty() {
                class.edns_sizes.insert(UDP_SIZE, 1.0);
            }
        }
        if let Some(below) = &self.below {
            if below.len() > BELOW_MAX + 1 || !are_weights(below.iter().copied()) {
                return Err(spec(format!(
                    "below: expected weights of 0, 1, 2, … labels (at most {BELOW_MAX}), not all zero"
                )));
            }
            profile.below.clone_from(below);
            profile.shapes.clear();
        }
        profile.order = self.order.unwrap_or(profile.order);
        if self.types.is_some() {
            (profile.types_itself, profile.types_nonexistent) = (BTreeMap::new(), BTreeMap::new());
        }
        match &self.types {
            Some(Types::Zone) => (profile.types_of_zone, profile.types) = (true, BTreeMap::new()),
            Some(Types::Weights(types)) => (profile.types_of_zone, profile.types) = (false, types.clone()),
            None => {}
        }
        if let Some(crowd) = self.clients {
            crowd.spread(&mut profile.classes);
        }
        if let Some(file) = &self.addresses {
            let [class] = &mut profile.classes[..] else {
                return Err(spec(format!(
                    "addresses for all, but the profile has {} classes of clients, each with addresses of its own: \
                     give them 'addresses' there",
                    profile.classes.len()
                )));
            };
            if self.clients.is_some() || self.ipv6.is_some() {
                let what = "addresses say how many clients there are and over which family they send: give no other \
                            number of clients, and no share of IPv6";
                return Err(spec(what.into()));
            }
            let addresses = Some(AddressFile { file: file.clone(), said: String::new() });
            let Class { clients, zipf, ipv6, .. } = Class::default();
            *class = Class { addresses, clients, zipf, ipv6, ..class.clone() };
        }
        if let Some(Ports(ports)) = &self.ports {
            profile.ports.clone_from(ports);
        }
        if let Some(under) = &self.under {
            if profile.background.share <= 0.0 {
                return Err(spec("the name of a flood, but no flood: give its share too".into()));
            }
            profile.background.under = under.clone();
        }
        Ok(())
    }
}

/// Reads a share of queries for names that do not exist: `0.3`, or a ratio `EXISTENT:NONEXISTENT` as RZAIA gives
/// them (seed 003, chapter 3, variable d: "10 (existent) : 1 (non-existent), 1:1, 1:10, 1:100, and 1:1000"), so
/// that `10:1` is 1/11 and `1:1000` is 1000/1001.
///
/// # Errors
/// A sentence on what was expected.
pub fn nonexistent(text: &str) -> Result<f64, String> {
    let wrong = || {
        format!(
            "'{text}': give a share from 0 to 1 or EXISTENT:NONEXISTENT, such as 10:1 for one miss in eleven"
        )
    };
    let number = |text: &str| text.trim().parse::<f64>().ok().filter(|n| (0.0..=1e15).contains(n));
    match text.split_once(':') {
        None => number(text).filter(|&share| share <= 1.0).ok_or_else(wrong),
        Some((hits, misses)) => {
            let (hits, misses) = (number(hits).ok_or_else(wrong)?, number(misses).ok_or_else(wrong)?);
            if hits + misses > 0.0 { Ok(misses / (hits + misses)) } else { Err(wrong()) }
        }
    }
}

impl FromStr for Types {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "zone" {
            return Ok(Self::Zone);
        }
        let rtype = |name: &str| {
            rtype::from_text(name)
                .ok_or_else(|| format!("'{name}' is not a type: give 'zone', or types such as A=5,AAAA=2"))
        };
        weighted(text, rtype).map(Self::Weights)
    }
}

impl TryFrom<String> for Types {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<Types> for String {
    fn from(types: Types) -> Self {
        match types {
            Types::Zone => "zone".into(),
            Types::Weights(types) => {
                let parts: Vec<String> =
                    types.iter().map(|(&t, w)| format!("{}={w}", rtype::to_text(t))).collect();
                parts.join(",")
            }
        }
    }
}

impl FromStr for Crowd {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (count, zipf) = text.split_once(':').map_or((text, None), |(count, zipf)| (count, Some(zipf)));
        let count = measure::units::count(count)?;
        if !(1..=u64::from(CLIENTS_MAX)).contains(&count) {
            return Err(format!("{count} clients: give 1 to {CLIENTS_MAX}"));
        }
        let zipf = zipf.map(|z| {
            let zipf = z.trim().parse().ok().filter(|zipf| (0.0..=ZIPF_MAX).contains(zipf));
            zipf.ok_or_else(|| {
                format!("'{z}' is no exponent: give a number from 0 (all alike) to {ZIPF_MAX}")
            })
        });
        Ok(Self { count: count as u32, zipf: zipf.transpose()? })
    }
}

impl TryFrom<String> for Crowd {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<Crowd> for String {
    fn from(crowd: Crowd) -> Self {
        crowd.zipf.map_or_else(|| crowd.count.to_string(), |zipf| format!("{}:{zipf}", crowd.count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_are_existent_to_nonexistent() {
        let ratios = ["10:1", "1:1", "1:1000", "0.3", "0:1", "1:0"].map(|t| nonexistent(t).unwrap());
        assert_eq!(ratios, [1.0 / 11.0, 0.5, 1000.0 / 1001.0, 0.3, 1.0, 0.0]);
        for bad in ["", "1.5", "-1", "0:0", "1:-1", "1:2:3", "ten", "nan", "30%"] {
            assert!(nonexistent(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn types_go_there_and_back() {
        for text in ["zone", "A=5,AAAA=2", "A=0.25,TYPE65000=1"] {
            assert_eq!(String::from(text.parse::<Types>().unwrap()), text);
        }
        assert_eq!("MX,A=3".parse::<Types>().unwrap(), "A=3,MX=1".parse().unwrap());
        for bad in ["", "A=", "A=-1", "A=0", "A,A", "B", "A=nan", "zone,A", "A=1e16"] {
            assert!(bad.parse::<Types>().is_err(), "{bad}");
        }
    }

    #[test]
    fn a_change_replaces_its_part_alone() {
        let rzaia = Profile::load("rzaia").unwrap();
        let mut changed = rzaia.clone();
        ProfileChanges::default().apply(&mut changed).unwrap();
        assert_eq!(changed, rzaia);
        let types = Some("A=1".parse().unwrap());
        ProfileChanges { nonexistent: Some(0.5), types, ..ProfileChanges::default() }
            .apply(&mut changed)
            .unwrap();
        let mut expected = Profile { types: [(1, 1.0)].into(), ..rzaia.clone() };
        expected.classes[0].nonexistent = 0.5;
        assert_eq!(changed, expected);
        for (bad, word) in [
            (
                ProfileChanges { edns: Some(0.5), ..ProfileChanges::default() },
                "only 0.5 of the queries have EDNS",
            ),
            (
                ProfileChanges { nonexistent: Some(2.0), ..ProfileChanges::default() },
                "nonexistent: 2 is not a share",
            ),
            (
                ProfileChanges { below: Some(vec![0.0]), ..ProfileChanges::default() },
                "below: expected weights",
            ),
        ] {
            let error = bad.apply(&mut rzaia.clone()).unwrap_err().to_string();
            assert!(error.contains(word), "{error}");
        }
    }

    #[test]
    fn texts_go_there_and_back() {
        for text in ["10000", "10000:0.9", "1:0"] {
            assert_eq!(String::from(text.parse::<Crowd>().unwrap()), text);
        }
        assert_eq!("10K:1".parse(), Ok(Crowd { count: 10_000, zipf: Some(1.0) }));
        for bad in ["", "0", "17M", "10:", "10:-1", "10:nan", "10:11", "x"] {
            assert!(bad.parse::<Crowd>().is_err(), "{bad}");
        }
        assert_eq!(String::from("53,own=2,random=0.5".parse::<Ports>().unwrap()), "random=0.5,own=2,53=1");
        for bad in ["", "0", "65536", "own=-1", "own,own", "any", "random=0"] {
            assert!(bad.parse::<Ports>().is_err(), "{bad}");
        }
    }
}
