//! A zone made larger: every record stays as it is, and more delegations that are like its own are added.

use crate::error::Error;
use crate::generate::{Taken, generate_more};
use crate::order::{can_be_read_again, canonical};
use crate::scan::{Record, Scanner};
use crate::source::{RecordSource, piped};
use crate::strip::must_be_unsigned;
use crate::{fit, info, text};
use measure::{Seed, units};
use serde::Serialize;
use std::cmp::Ordering;
use std::io::Write;
use std::path::Path;
use std::str::FromStr;
use wire::name::{self, Name};
use wire::rtype;

/// How large a zone becomes. As text `20x`, or a number of delegations (K, M and G are powers of ten).
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Size {
    /// As many times as many delegations.
    Times(f64),
    /// So many delegations.
    Delegations(u64),
}

impl FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let Some(times) = text.strip_suffix(['x', '×']) else {
            return units::count(text).map(Self::Delegations);
        };
        match times.trim().parse() {
            Ok(times) if times >= 1.0 && f64::is_finite(times) => Ok(Self::Times(times)),
            _ => Err(format!("'{text}' is no size: give 20x, 1.5x or a number of delegations")),
        }
    }
}

impl Size {
    /// Delegations of a zone that has `now` of them.
    fn of(self, now: u64) -> u64 {
        match self {
            Self::Times(times) => (now as f64 * times).round() as u64,
            Self::Delegations(n) => n,
        }
    }
}

/// Counts of a zone that was grown.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Grown {
    /// The zone's name.
    pub origin: String,
    /// Delegations before.
    pub before: u64,
    /// Delegations that were added.
    pub added: u64,
    /// Records written.
    pub records: u64,
    /// Records among them that were added.
    pub records_added: u64,
    /// Octets of text written.
    pub bytes: u64,
}

/// Writes a zone in canonical order with as many more delegations as make it `size`. They are made after the profile that
/// [`fit()`] derives from it, with name servers, glue and DS records in the zone's proportions. None of them has a name that the zone has,
/// has names below, or that `avoid` has or has names below; these are wire names. `progress` hears how many delegations are made.
///
/// # Errors
/// The zone's; [`Error::Unable`] for a signed zone, one without delegations, one that is larger already, and one that cannot be read
/// more than once; [`Error::Write`].
pub fn grow<'a>(
    path: &Path,
    size: Size,
    avoid: impl IntoIterator<Item = &'a [u8]>,
    seed: Seed,
    out: &mut dyn Write,
    progress: &mut (dyn FnMut(u64) + Send),
) -> Result<Grown, Error> {
    let shown = path.display();
    if !can_be_read_again(path) {
        return Err(Error::Unable(format!(
            "{shown}: give a regular file: a zone that grows is read three times"
        )));
    }
    let facts = info(path, &mut |_| {})?;
    let Some(profile) = fit(&facts) else {
        return Err(Error::Unable(format!(
            "{shown}: it has no delegations, and only zones of delegations can grow"
        )));
    };
    let wanted = size.of(facts.delegations);
    let Some(added) = wanted.checked_sub(facts.delegations).filter(|&n| n > 0) else {
        return Err(Error::Unable(format!(
            "{shown}: it has {} delegations: give a size above that",
            units::grouped(facts.delegations)
        )));
    };
    let apex: Name =
        facts.origin.parse().map_err(|e| Error::Unable(format!("{shown}: {}: {e}", facts.origin)))?;
    let taken = taken(path, apex.as_wire(), avoid)?;
    let made = |out: &mut dyn Write| generate_more(&profile, added, taken, seed, out, progress);
    let merged = |more: &mut Scanner| {
        let mut merge = Merge { out, line: Vec::new(), grown: Grown::default() };
        merge.run(&mut canonical(path, &mut |_| {})?, more)?;
        Ok(merge.grown)
    };
    let (_, grown) = piped("the added delegations", made, merged)?;
    Ok(Grown { origin: facts.origin, before: facts.delegations, ..grown })
}

/// The labels just below the apex that no added delegation may have.
fn taken<'a>(path: &Path, apex: &[u8], avoid: impl IntoIterator<Item = &'a [u8]>) -> Result<Taken, Error> {
    let (mut taken, mut last) = (Taken::default(), Vec::new());
    let mut add = |owner: &[u8]| {
        let Some(label) = below(apex, owner).filter(|label| **label != last) else { return };
        taken.push(label);
        last = label.to_vec();
    };
    let mut scanner = Scanner::open(path)?;
    while let Some(record) = scanner.next()? {
        must_be_unsigned(path, &record)?;
        add(record.owner);
    }
    avoid.into_iter().for_each(add);
    Ok(taken)
}

/// The label just below the apex of a name that is below it.
fn below<'a>(apex: &[u8], owner: &'a [u8]) -> Option<&'a [u8]> {
    let up = name::label_count(owner).checked_sub(name::label_count(apex) + 1)?;
    name::is_under(owner, apex).then(|| name::labels(owner).nth(up)).flatten()
}

struct Merge<'a> {
    out: &'a mut dyn Write,
    line: Vec<u8>,
    grown: Grown,
}

impl Merge<'_> {
    /// Writes both in canonical order. Of a name that the zone has, what is added is left out.
    fn run(&mut self, zone: &mut impl RecordSource, more: &mut impl RecordSource) -> Result<(), Error> {
        let mut last = Vec::new();
        let (mut old, mut new) = (zone.next()?, more.next()?);
        loop {
            let order = match (&old, &new) {
                (None, None) => return Ok(()),
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (Some(old), Some(new)) => name::canonical_cmp(old.owner, new.owner),
            };
            match order {
                Ordering::Less => {
                    let record = old.as_ref().expect("it comes first");
                    self.write(record)?;
                    old = zone.next()?;
                }
                Ordering::Equal => new = more.next()?,
                Ordering::Greater => {
                    let record = new.as_ref().expect("it comes first");
                    self.write(record)?;
                    self.grown.records_added += 1;
                    if record.rtype == rtype::NS && last != record.owner {
                        self.grown.added += 1;
                        last = record.owner.to_vec();
                    }
                    new = more.next()?;
                }
            }
        }
    }

    fn write(&mut self, record: &Record<'_>) -> Result<(), Error> {
        self.line.clear();
        text::write_record(record, &mut self.line);
        self.out.write_all(&self.line).map_err(Error::Write)?;
        self.grown.records += 1;
        self.grown.bytes += self.line.len() as u64;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Shape, generate};
    use std::collections::BTreeSet;

    fn zone(profile: &str, delegations: u64, path: &Path) {
        let shape = Shape::from(crate::Profile::load(profile).unwrap());
        let mut text = Vec::new();
        generate(shape, delegations, Seed(5), &mut text, &mut |_| {}).unwrap();
        std::fs::write(path, text).unwrap();
    }

    fn grown(path: &Path, size: &str, avoid: &[&[u8]]) -> Result<(Grown, String), Error> {
        let mut out = Vec::new();
        let size = size.parse().unwrap();
        let grown = grow(path, size, avoid.iter().copied(), Seed(1), &mut out, &mut |_| {})?;
        Ok((grown, String::from_utf8(out).unwrap()))
    }

    fn lines(path: &Path) -> BTreeSet<String> {
        let (mut lines, mut scanner) = (BTreeSet::new(), Scanner::open(path).unwrap());
        while let Some(record) = scanner.next().unwrap() {
            let mut line = Vec::new();
            text::write_record(&record, &mut line);
            lines.insert(String::from_utf8(line).unwrap().trim_end().to_owned());
        }
        lines
    }

    #[test]
    fn every_record_stays_and_the_rest_is_alike() {
        let folder = tempfile::tempdir().unwrap();
        for (profile, before, size, after) in [("ROOT", 1438, "20x", 28_760), ("COM", 3000, "10K", 10_000)] {
            let (path, larger) = (folder.path().join(profile), folder.path().join("larger"));
            zone(profile, before, &path);
            let (grown, text) = grown(&path, size, &[]).unwrap();
            assert_eq!((grown.before, grown.before + grown.added), (before, after));
            std::fs::write(&larger, &text).unwrap();
            let (old, new) = (lines(&path), lines(&larger));
            assert!(old.is_subset(&new));
            assert_eq!(grown.records, new.len() as u64);
            assert_eq!(grown.records_added, (new.len() - old.len()) as u64);
            // In canonical order, so that it can be signed as it is.
            assert!(crate::order::is_sorted(&mut Scanner::open(&larger).unwrap()).unwrap());
            let of = |path: &Path| info(path, &mut |_| {}).unwrap();
            let (old, new) = (of(&path), of(&larger));
            assert_eq!(new.delegations, after);
            let share = |info: &crate::Info, rtype: &str| {
                info.types.get(rtype).copied().unwrap_or(0) as f64 / info.delegations as f64
            };
            for rtype in ["NS", "DS", "A", "AAAA"] {
                let (old, new) = (share(&old, rtype), share(&new, rtype));
                assert!((new - old).abs() <= 0.05 * old.max(0.1), "{profile} {rtype}: {old} and {new}");
            }
            let sharing = |info: &crate::Info| info.servers.sharing.servers as f64 / info.delegations as f64;
            assert!(
                (sharing(&new) / sharing(&old) - 1.0).abs() < 0.15,
                "{} {}",
                sharing(&old),
                sharing(&new)
            );
        }
    }

    #[test]
    fn names_that_are_to_be_avoided_are_not_made() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("zone");
        zone("ROOT", 300, &path);
        let names = |text: &str| -> BTreeSet<String> {
            text.lines()
                .filter(|l| l.contains("\tNS\t"))
                .map(|l| l.split('\t').next().unwrap().to_owned())
                .collect()
        };
        let first = names(&grown(&path, "600", &[]).unwrap().1);
        let existing: BTreeSet<String> =
            lines(&path).iter().map(|l| l.split('\t').next().unwrap().to_owned()).collect();
        let made: Vec<&String> = first.iter().filter(|n| !existing.contains(*n)).collect();
        assert_eq!(made.len(), 300);
        let wires: Vec<Vec<u8>> = made
            .iter()
            .map(|n| Name::parse_text(format!("WWW.{}", n.to_uppercase()), None).unwrap().as_wire().to_vec())
            .collect();
        let wires: Vec<&[u8]> = wires.iter().map(Vec::as_slice).collect();
        let second = names(&grown(&path, "600", &wires).unwrap().1);
        assert!(made.iter().all(|name| !second.contains(*name)));
    }

    #[test]
    fn what_cannot_grow_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("zone");
        let soa = "example. 60 SOA ns.example. root.example. 5 1 1 1 1\nexample. 60 NS ns.other.\n";
        let signed = "b.example. 60 NS ns.other.\nb.example. 60 NSEC example. NS NSEC\n";
        for (more, size, wanted) in [
            ("", "2x", "no delegations"),
            ("b.example. 60 NS ns.other.\n", "1", "give a size above"),
            (signed, "2x", "zone:4: the zone is signed"),
        ] {
            std::fs::write(&path, format!("{soa}{more}")).unwrap();
            let error = grown(&path, size, &[]).unwrap_err().to_string();
            assert!(error.contains(wanted), "{error}");
        }
        assert!("0.5x".parse::<Size>().is_err() && "x".parse::<Size>().is_err());
        assert_eq!("20x".parse(), Ok(Size::Times(20.0)));
        assert_eq!("2K".parse(), Ok(Size::Delegations(2000)));
    }
}
