//! Names of a zone file, in one streaming pass, whatever the order of its records.

use super::reservoir::{List, Reservoir};
use super::set::Set;
use super::{Kind, NAMES_MAX, Names, Want};
use crate::Error;
use measure::Seed;
use std::path::Path;
use wire::{name, rtype};

/// Records between two words of progress.
const TELL: u64 = 1 << 16;

impl Names {
    /// Names of a zone file, in the file's order; `progress` hears now and then the octets read.
    ///
    /// The records may come in any order. In a zone of more than [`NAMES_MAX`] names a name whose records do not
    /// follow each other is as likely to be in the sample as several names.
    ///
    /// # Errors
    /// The scanner's error with line and column; a zone without any name.
    pub fn from_zone(
        path: &Path,
        seed: Seed,
        want: Want,
        progress: &mut dyn FnMut(u64),
    ) -> Result<Self, Error> {
        Self::from_zone_limited(path, seed, want, NAMES_MAX, progress)
    }

    pub(super) fn from_zone_limited(
        path: &Path,
        seed: Seed,
        want: Want,
        limit: usize,
        progress: &mut dyn FnMut(u64),
    ) -> Result<Self, Error> {
        let bad = |e: zone::Error| Error::Zone { path: path.to_owned(), source: Box::new(e) };
        let mut scanner = zone::Scanner::open(path).map_err(bad)?;
        let new = || Reservoir::new(seed, limit);
        let (mut records, mut cuts, mut others) = (new(), new(), new());
        let (mut apex, mut cut, mut last) = (Vec::new(), Vec::new(), Vec::new());
        let mut wildcard = false;
        for n in 0u64.. {
            if n.is_multiple_of(TELL) {
                progress(scanner.octets());
            }
            let Some(record) = scanner.next().map_err(bad)? else { break };
            let (owner, rtype) = (record.owner, record.rtype);
            if rtype == rtype::SOA {
                apex = owner.to_vec();
            }
            wildcard |= rtype == rtype::DNAME && owner.len() == apex.len()
                || owner.starts_with(b"\x01*") && owner.len() == apex.len() + 2;
            if want == Want::Records {
                let covered = record.rdata.first_chunk().map(|c| u16::from_be_bytes(*c));
                if rtype != rtype::NSEC3 && !(rtype == rtype::RRSIG && covered == Some(rtype::NSEC3)) {
                    records.push(owner, rtype);
                }
                continue;
            }
            // These types do not show that a name exists.
            if matches!(rtype, rtype::RRSIG | rtype::NSEC | rtype::NSEC3) {
                continue;
            }
            // Glue that follows its delegation is known already, and so is a delegation's next record.
            if !cut.is_empty() && name::is_under(owner, &cut) {
                continue;
            }
            if rtype == rtype::NS && owner.len() != apex.len() {
                cuts.push(owner, rtype);
                cut = owner.to_vec();
            } else if !name::equal(owner, &last) {
                others.push(owner, rtype);
                last = owner.to_vec();
            }
        }
        if want == Want::Records {
            let total = records.seen;
            return Self::build(
                path,
                records.finish(),
                Some(List::default()),
                Some(apex),
                Kind::Records,
                total,
                wildcard,
            );
        }
        let (mut cut_count, mut other_count) = (cuts.seen, others.seen);
        let (all_cuts, all_others) = (cut_count <= limit as u64, other_count <= limit as u64);
        let (mut cuts, mut others) = (cuts.finish(), others.finish());
        if all_cuts {
            let set = distinct(&mut cuts);
            if all_others {
                distinct(&mut others);
                other_count = others.starts.len() as u64;
            }
            cut_count = cuts.starts.len() as u64;
            other_count -= drop_at_or_below(&mut others, &cuts, &set, apex.len());
        }
        let (kind, names, total, rest) = if cut_count > 0 && cut_count >= other_count {
            (Kind::Delegations, cuts, cut_count, all_others.then_some(others))
        } else {
            (Kind::Owners, others, other_count, all_cuts.then_some(cuts))
        };
        Self::build(path, names, rest, Some(apex), kind, total, wildcard)
    }
}

/// Drops names that were there before: their records do not follow each other.
fn distinct(list: &mut List) -> Set {
    let mut twice = Vec::new();
    let set = Set::of_names(&list.bytes, &list.starts, |n| twice.push(n));
    let mut next = twice.into_iter().peekable();
    list.retain(|n, _| next.next_if_eq(&n).is_none());
    set
}

/// Drops names that came before the delegation that they are glue or other data of; returns how many.
fn drop_at_or_below(list: &mut List, cuts: &List, set: &Set, apex_len: usize) -> u64 {
    let before = list.starts.len();
    list.retain(|_, mut wire| {
        while wire.len() > apex_len && !set.contains(&cuts.bytes, wire) {
            wire = name::parent(wire);
        }
        wire.len() <= apex_len
    });
    (before - list.starts.len()) as u64
}
