//! The `[zone]` section, and the `[zone.LABEL]` tables of scenarios.

use crate::family_spec::Denial;
use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::de::value::MapAccessDeserializer;
use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, Unexpected, Visitor};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::PathBuf;

/// Which zones are served: every family at every size, or the user's own file, or scenarios.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(default)]
pub struct Zone {
    /// Families: RZAIA's `U-4-DS0` … `S-6-DS100`, of which S are signed, and others; `+nsec3`, `+opt-out`, `+signed`
    /// say how one is signed, `#1/2` takes the first half of one.
    pub families: Vec<String>,
    /// Delegations of each family's zones.
    pub delegations: Vec<u64>,
    /// A zone file of one's own instead of families.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<PathBuf>,
    /// The keys that sign S families, scenarios and, with `sign_file`, the zone file: `rzaia` (RSASHA256, a KSK of 2,048 and a ZSK of 1,024
    /// bits), `rzaia-2009` (the same with the paper's RSASHA1) or an algorithm.
    pub sign: String,
    /// Sign the zone file first (any signatures in it are replaced).
    pub sign_file: bool,
    /// With `sign_file`: how the zone denies that a name exists: `nsec`, `nsec3` or `opt-out`.
    #[serde(skip_serializing_if = "is_nsec")]
    #[schemars(extend("default" = "nsec"))]
    pub denial: Denial,
    /// Ask `delv` to validate this many answers of each signed zone from its trust anchor.
    pub validate: u32,
    /// Keep the generated zones in the run directory when the run is done.
    pub keep: bool,
    /// Zones that are made by steps, by their names, instead of families and the file.
    #[serde(flatten)]
    pub scenarios: IndexMap<String, Scenario>,
}

impl Default for Zone {
    fn default() -> Self {
        Self {
            families: Vec::new(),
            delegations: Vec::new(),
            file: None,
            sign: "rzaia".into(),
            sign_file: false,
            denial: Denial::Nsec,
            validate: 12,
            keep: false,
            scenarios: IndexMap::new(),
        }
    }
}

/// A zone that is made from a file or a family. Its steps are done in this order, whatever their order in the file: `strip`,
/// `grow`, `ds`, `glue`, `ttl`, `sign`. What it does not say is as in `[zone]`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, rename_all = "kebab-case")]
pub struct Scenario {
    /// The zone file that it begins with [default: zone.file].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<PathBuf>,
    /// A family to begin with instead of a file: `U-4-DS0`, `COM`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub family: Option<String>,
    /// Delegations of the family.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delegations: Option<u64>,
    /// Take DNSSEC out; DS records stay.
    #[serde(skip_serializing_if = "is_false")]
    pub strip: bool,
    /// Make it larger, `20x` or a number of delegations, as `dnsrack zone grow` does. No name is added that the experiment's queries or
    /// trace ask for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grow: Option<String>,
    /// Generated queries ask for the names that were added, too; otherwise they ask for those that the zone had before.
    #[serde(skip_serializing_if = "is_false")]
    pub ask_for_added: bool,
    /// Share of the delegations with DS records, 0 to 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ds: Option<f64>,
    /// `aaaa`: every name server with an A record as glue has an AAAA record, too. `a`: none has.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub glue: Option<zone::Glue>,
    /// TTL of every record, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ttl: Option<u32>,
    /// Sign it.
    #[serde(skip_serializing_if = "is_false")]
    pub sign: bool,
    /// The algorithm [default: that of `zone.sign`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub algorithm: Option<String>,
    /// Deny with NSEC3 instead of NSEC.
    #[serde(skip_serializing_if = "is_false")]
    pub nsec3: bool,
    /// Leave unsigned delegations out of the NSEC3 chain.
    #[serde(skip_serializing_if = "is_false")]
    pub opt_out: bool,
}

#[allow(clippy::trivially_copy_pass_by_ref)] // serde's signature
fn is_false(value: &bool) -> bool {
    !value
}

#[allow(clippy::trivially_copy_pass_by_ref)] // serde's signature
fn is_nsec(denial: &Denial) -> bool {
    *denial == Denial::Nsec
}

impl Scenario {
    /// How it denies that a name exists, where it is signed.
    pub fn denial(&self) -> Denial {
        match (self.nsec3, self.opt_out) {
            (_, true) => Denial::OptOut,
            (true, false) => Denial::Nsec3,
            (false, false) => Denial::Nsec,
        }
    }

    /// Its steps in words: `root.zone, grown 20x, signed with NSEC3`.
    pub fn words(&self, zone: &Zone) -> String {
        let begin = match (&self.family, self.file.as_ref().or(zone.file.as_ref())) {
            (Some(family), _) => match self.delegations {
                Some(n) => format!("{family} of {} delegations", measure::units::grouped(n)),
                None => family.clone(),
            },
            (None, Some(file)) => file.file_name().unwrap_or_default().to_string_lossy().into_owned(),
            (None, None) => "no zone".into(),
        };
        let mut words = vec![begin];
        words.extend(self.strip.then(|| "without DNSSEC".into()));
        words.extend(self.grow.as_ref().map(|size| format!("grown to {size}")));
        words.extend(self.ds.map(|share| format!("DS for {:.0} % of the delegations", share * 100.0)));
        words.extend(self.glue.map(|glue| match glue {
            zone::Glue::A => "glue of A records alone".into(),
            zone::Glue::Aaaa => "AAAA records for all glue".into(),
        }));
        words.extend(self.ttl.map(|ttl| format!("TTL {ttl}")));
        words.extend(self.sign.then(|| {
            let denial = match self.denial() {
                Denial::OptOut => "NSEC3 with opt-out",
                Denial::Nsec3 => "NSEC3",
                Denial::Nsec => "NSEC",
            };
            format!("signed ({}, {denial})", self.algorithm.as_ref().unwrap_or(&zone.sign))
        }));
        words.join(", ")
    }
}

/// The keys of `[zone]` that are no scenario.
const KEYS: &[&str] = &["families", "delegations", "file", "sign", "sign_file", "denial", "validate", "keep"];

// By hand, as serde cannot refuse unknown keys beside a flattened map.
impl<'de> Deserialize<'de> for Zone {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct Keys;
        impl<'de> Visitor<'de> for Keys {
            type Value = Zone;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the table [zone]")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Zone, A::Error> {
                let mut zone = Zone::default();
                while let Some(key) = map.next_key::<String>()? {
                    match key.as_str() {
                        "families" => zone.families = map.next_value()?,
                        "delegations" => zone.delegations = map.next_value()?,
                        "file" => zone.file = map.next_value()?,
                        "sign" => zone.sign = map.next_value()?,
                        "sign_file" => zone.sign_file = map.next_value()?,
                        "denial" => zone.denial = map.next_value()?,
                        "validate" => zone.validate = map.next_value()?,
                        "keep" => zone.keep = map.next_value()?,
                        name => {
                            let scenario = map.next_value_seed(NamedScenario(name))?;
                            zone.scenarios.insert(key, scenario);
                        }
                    }
                }
                Ok(zone)
            }
        }
        d.deserialize_map(Keys)
    }
}

/// Reads a scenario; what is no table is a key that does not exist.
struct NamedScenario<'a>(&'a str);

impl<'de> DeserializeSeed<'de> for NamedScenario<'_> {
    type Value = Scenario;

    fn deserialize<D: Deserializer<'de>>(self, d: D) -> Result<Scenario, D::Error> {
        d.deserialize_any(self)
    }
}

macro_rules! is_no_table {
    ($($visit:ident: $type:ty),*) => {
        $(fn $visit<E: serde::de::Error>(self, _: $type) -> Result<Scenario, E> {
            Err(E::unknown_field(self.0, KEYS))
        })*
    };
}

impl<'de> Visitor<'de> for NamedScenario<'_> {
    type Value = Scenario;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the table [zone.{}]", self.0)
    }

    is_no_table!(visit_bool: bool, visit_i64: i64, visit_u64: u64, visit_f64: f64, visit_str: &str);

    fn visit_seq<A: serde::de::SeqAccess<'de>>(self, _: A) -> Result<Scenario, A::Error> {
        Err(A::Error::unknown_field(self.0, KEYS))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Scenario, A::Error> {
        // Its name becomes part of names of files.
        if self.0.is_empty() || !self.0.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b)) {
            let expected = "letters, digits, '-', '_' and '.'";
            return Err(A::Error::invalid_value(Unexpected::Str(self.0), &expected));
        }
        Scenario::deserialize(MapAccessDeserializer::new(map))
    }
}
