//! Zones as an experiment names them: a family, perhaps signed in a certain way, perhaps a slice of it.
//!
//! `S-6-DS100` is signed with NSEC, as all S families are; `S-6-DS100+nsec3` and `+opt-out` deny with NSEC3 (RFC 5155);
//! `COM+signed` signs a family that is not; `COM#1/2` is the first half of a zone by its names, as `zone slice` cuts it.

use std::str::FromStr;
use zone::Family;
use zone::sign::{Nsec3, Options};

/// How a zone denies that a name exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Denial {
    /// NSEC.
    Nsec,
    /// NSEC3 for every name.
    Nsec3,
    /// NSEC3 that passes over unsigned delegations.
    OptOut,
}

/// What a zone is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recipe {
    /// What it looks like.
    pub family: Family,
    /// How it denies; none: it is not signed.
    pub signed: Option<Denial>,
    /// Part n of m.
    pub slice: Option<(u32, u32)>,
}

/// The most parts of a zone.
const PARTS_MAX: u32 = 64;

impl FromStr for Recipe {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (rest, slice) = match text.split_once('#') {
            None => (text, None),
            Some((rest, slice)) => {
                let part =
                    slice.split_once('/').and_then(|(n, of)| Some((n.parse().ok()?, of.parse().ok()?)));
                let sound = |&(n, of): &(u32, u32)| 1 <= n && n <= of && of <= PARTS_MAX;
                let expected = || {
                    format!("'#{slice}' is no slice: give #1/2 for the first half, up to {PARTS_MAX} parts")
                };
                (rest, Some(part.filter(sound).ok_or_else(expected)?))
            }
        };
        let (family, denial) = match rest.split_once('+') {
            None => (rest, None),
            Some((family, "signed")) => (family, Some(Denial::Nsec)),
            Some((family, "nsec3")) => (family, Some(Denial::Nsec3)),
            Some((family, "opt-out")) => (family, Some(Denial::OptOut)),
            Some((_, other)) => return Err(format!("'+{other}' is not +signed, +nsec3 or +opt-out")),
        };
        let signed = denial.or_else(|| family.starts_with('S').then_some(Denial::Nsec));
        if signed.is_some() && slice.is_some() {
            return Err(format!("'{text}': a slice of a signed zone is none; slice it unsigned"));
        }
        Ok(Self { family: family.parse()?, signed, slice })
    }
}

impl Recipe {
    /// Options of signing, with the denial.
    pub fn sign(&self, options: Options) -> Options {
        let nsec3 = |opt_out| Some(Nsec3 { opt_out, iterations: 0, salt: Vec::new() });
        let nsec3 = match self.signed {
            Some(Denial::Nsec3) => nsec3(false),
            Some(Denial::OptOut) => nsec3(true),
            _ => None,
        };
        Options { nsec3, ..options }
    }
}

/// Whether a family's zones are signed; what is no recipe is not.
pub fn is_signed(family: &str) -> bool {
    family.parse::<Recipe>().is_ok_and(|recipe| recipe.signed.is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recipes_are_read_or_refused() {
        let parse = |text: &str| text.parse::<Recipe>();
        let recipe = parse("S-6-DS100+opt-out").unwrap();
        assert_eq!((recipe.family, recipe.signed), (Family::S6Ds100, Some(Denial::OptOut)));
        assert_eq!(parse("COM#2/3").unwrap().slice, Some((2, 3)));
        assert_eq!(parse("U-4-DS0").unwrap().signed, None);
        assert!(is_signed("S-6-DS10") && is_signed("COM+signed") && !is_signed("COM"));
        for bad in ["U-5", "COM#0/2", "COM#3/2", "COM#1/999", "COM#x", "COM+nsec4", "S-6-DS10#1/2", ""] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }
}
