//! Zones as an experiment names them: a family, perhaps signed in a certain way, perhaps a slice of it.
//!
//! `S-6-DS100` is signed with NSEC, as all S families are; `S-6-DS100+nsec3` and `+opt-out` deny with NSEC3 (RFC 5155);
//! `COM+signed` signs a family that is not; `COM#1/2` is the first half of a zone by its names, as `zone slice` cuts it, and
//! `COM#1/2+signed` that half, signed after it was cut.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::str::FromStr;
use zone::Family;
use zone::sign::{Nsec3, Options};

/// How a zone denies that a name exists.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Denial {
    /// NSEC.
    #[default]
    Nsec,
    /// NSEC3 for every name.
    Nsec3,
    /// NSEC3 that passes over unsigned delegations.
    OptOut,
}

impl Denial {
    /// NSEC3 as RFC 9276 wants it, without iterations and salt; none for NSEC.
    pub fn nsec3(self) -> Option<Nsec3> {
        let opt_out = self == Self::OptOut;
        (self != Self::Nsec).then(|| Nsec3 { opt_out, iterations: 0, salt: Vec::new() })
    }
}

/// How a zone is made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FamilySpec {
    /// Its family: how delegations look, and the share of them with DS records.
    pub family: Family,
    /// How it denies; none: it is not signed.
    pub signed: Option<Denial>,
    /// Part n of m.
    pub slice: Option<(u32, u32)>,
}

/// The most parts of a zone.
const PARTS_MAX: u32 = 64;

impl FromStr for FamilySpec {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (base, denial) = match text.split_once('+') {
            None => (text, None),
            Some((base, "signed")) => (base, Some(Denial::Nsec)),
            Some((base, "nsec3")) => (base, Some(Denial::Nsec3)),
            Some((base, "opt-out")) => (base, Some(Denial::OptOut)),
            Some((_, other)) => return Err(format!("'+{other}' is not +signed, +nsec3 or +opt-out")),
        };
        let (family, slice) = match base.split_once('#') {
            None => (base, None),
            Some((family, slice)) => {
                let part =
                    slice.split_once('/').and_then(|(n, of)| Some((n.parse().ok()?, of.parse().ok()?)));
                let sound = |&(n, of): &(u32, u32)| 1 <= n && n <= of && of <= PARTS_MAX;
                let expected = || {
                    format!("'#{slice}' is no slice: give #1/2 for the first half, up to {PARTS_MAX} parts")
                };
                (family, Some(part.filter(sound).ok_or_else(expected)?))
            }
        };
        let signed = denial.or_else(|| family.starts_with('S').then_some(Denial::Nsec));
        if slice.is_some() && family.starts_with('S') {
            return Err(format!(
                "'{text}': a slice of a signed zone is none; slice one that is not, and sign that"
            ));
        }
        Ok(Self { family: family.parse()?, signed, slice })
    }
}

impl FamilySpec {
    /// Options of signing, with the denial.
    pub fn sign(&self, options: Options) -> Options {
        Options { nsec3: self.signed.and_then(Denial::nsec3), ..options }
    }
}

/// Whether a family's zones are signed; false where the text names no family.
pub fn is_signed(family: &str) -> bool {
    family.parse::<FamilySpec>().is_ok_and(|family_spec| family_spec.signed.is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recipes_are_read_or_refused() {
        let parse = |text: &str| text.parse::<FamilySpec>();
        let family_spec = parse("S-6-DS100+opt-out").unwrap();
        assert_eq!((family_spec.family, family_spec.signed), (Family::S6Ds100, Some(Denial::OptOut)));
        assert_eq!(parse("COM#2/3").unwrap().slice, Some((2, 3)));
        let signed = parse("COM#2/3+signed").unwrap();
        assert_eq!((signed.slice, signed.signed), (Some((2, 3)), Some(Denial::Nsec)));
        assert_eq!(parse("U-4-DS0").unwrap().signed, None);
        assert!(is_signed("S-6-DS10") && is_signed("COM+signed") && !is_signed("COM"));
        for bad in [
            "U-5",
            "COM#0/2",
            "COM#3/2",
            "COM#1/999",
            "COM#x",
            "COM+nsec4",
            "COM+signed#1/2",
            "S-6-DS10#1/2",
            "",
        ] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }
}
