//! The sample of a zone that a stream needs: some of its delegations in full, and names that it does not have.
//!
//! Two passes over the file. The first draws delegations, each as likely; the second collects what belongs to them, finds which
//! have servers that others use too, and strikes out names that exist. Memory is that of what was drawn.

use super::mix::shuffle;
use crate::Error;
use measure::Seed;
use measure::seed::Draw;
use std::collections::HashMap;
use std::path::Path;
use wire::name;
use wire::rtype;
use zone::Scanner;
use zone::scan::Record;

/// Delegations that lend their looks to added ones.
pub(super) const DONORS: usize = 256;

/// Records below a delegation beyond which it is left alone: servers of the whole zone are under it, as under NET.
const CROWD: usize = 64;

/// A record below a delegation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Glue {
    pub owner: Vec<u8>,
    pub rtype: u16,
    pub ttl: u32,
    pub rdata: Vec<u8>,
}

/// A delegation and all that belongs to it. Names are in wire format.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Delegation {
    pub owner: Vec<u8>,
    pub ns_ttl: u32,
    pub ns: Vec<Vec<u8>>,
    pub ds_ttl: u32,
    pub ds: Vec<Vec<u8>>,
    pub glue: Vec<Glue>,
    /// Others have servers inside it, so deleting it breaks them.
    pub depended: bool,
    /// More is below it than is kept.
    pub crowded: bool,
}

impl Delegation {
    /// Whether a name is its own or lies below it.
    pub fn holds(&self, wire: &[u8]) -> bool {
        name::is_under(wire, &self.owner)
    }
}

/// The sample.
#[derive(Debug, Default)]
pub(super) struct Sample {
    pub origin: Vec<u8>,
    pub serial: u32,
    pub signed: bool,
    /// Delegations of the zone, those below others not counted.
    pub delegations: u64,
    /// In random order.
    pub drawn: Vec<Delegation>,
    /// Names that the zone does not have, each with the delegation (its place among the donors) whose looks it is to have.
    pub new: Vec<(Vec<u8>, usize)>,
    pub donors: Vec<Delegation>,
}

/// Draws `want` delegations of a zone file (or all), and `new` names that it does not have.
pub(super) fn sample(
    path: &Path,
    seed: Seed,
    want: u64,
    new: u64,
    progress: &mut dyn FnMut(u64),
) -> Result<Sample, Error> {
    let mut sample = Sample::default();
    // A few more than needed: some cannot be deleted.
    let most = (want + want / 4).max(DONORS as u64) as usize + DONORS;
    let mut names = draw_names(path, seed.draw("update/sample", 0), most, &mut sample, progress)?;
    if names.is_empty() {
        return Err(Error::Spec(format!(
            "{}: no delegation in it: there is nothing to change",
            path.display()
        )));
    }
    shuffle(&mut names, &mut seed.draw("update/order", 0));
    let donors: Vec<&[u8]> = names.iter().take(DONORS).map(Vec::as_slice).collect();
    let candidates = make_names(&donors, seed.draw("update/names", 0), new);
    let read = path.metadata().map_or(0, |m| m.len());
    collect(path, names, candidates, &mut sample, &mut |octets| progress(read + octets))?;
    if sample.donors.is_empty() {
        let what = format!(
            "{}: very much is below each of its delegations: there is none to change",
            path.display()
        );
        return Err(Error::Spec(what));
    }
    if (sample.new.len() as u64) < new {
        let what = format!(
            "{}: cannot find {new} names that it does not have: give a smaller --count",
            path.display()
        );
        return Err(Error::Spec(what));
    }
    sample.new.truncate(new as usize);
    Ok(sample)
}

/// Draws at most `most` owners of delegations, each as likely (Vitter's algorithm R).
fn draw_names(
    path: &Path,
    mut draw: Draw,
    most: usize,
    sample: &mut Sample,
    progress: &mut dyn FnMut(u64),
) -> Result<Vec<Vec<u8>>, Error> {
    let mut scanner = Scanner::open(path)?;
    let mut names: Vec<Vec<u8>> = Vec::new();
    let (mut last, mut records) = (Vec::new(), 0u64);
    while let Some(record) = scanner.next()? {
        records += 1;
        let apex = record.owner.len() == sample.origin.len();
        match record.rtype {
            rtype::SOA => {
                sample.origin = record.owner.to_vec();
                sample.serial = zone::probe::soa_serial(record.rdata);
            }
            rtype::DNSKEY | rtype::RRSIG => sample.signed = true,
            // Names below the last delegation are part of it.
            rtype::NS if !apex && (last.is_empty() || !name::is_under(record.owner, &last)) => {
                last.clear();
                last.extend_from_slice(record.owner);
                let place = draw.below(sample.delegations + 1) as usize;
                sample.delegations += 1;
                if names.len() < most {
                    names.push(last.clone());
                } else if let Some(name) = names.get_mut(place) {
                    name.clone_from(&last);
                }
            }
            _ => {}
        }
        if records.is_multiple_of(65_536) {
            progress(scanner.octets());
        }
    }
    // A zone out of order may have the records of one delegation apart.
    let mut seen = std::collections::HashSet::new();
    names.retain(|name| seen.insert(lower(name)));
    Ok(names)
}

fn lower(wire: &[u8]) -> Vec<u8> {
    wire.to_ascii_lowercase()
}

/// Makes names beside those of `donors` that look like theirs, more than `count`, as some may exist.
fn make_names(donors: &[&[u8]], mut draw: Draw, count: u64) -> Vec<(Vec<u8>, usize)> {
    const CONSONANTS: &[u8] = b"bcdfghjklmnprstvwz";
    const VOWELS: &[u8] = b"aeiou";
    if count == 0 {
        return Vec::new();
    }
    let want = (count + count / 8) as usize + 64;
    let mut made = Vec::with_capacity(want);
    let mut seen = std::collections::HashSet::with_capacity(want);
    // Short labels may all be taken.
    let mut longer = 0;
    while made.len() < want {
        let donor = draw.below(donors.len() as u64) as usize;
        let length = (usize::from(donors[donor][0]).max(4) + longer).min(40);
        let mut wire = vec![length as u8];
        for n in 0..length {
            let letters = if n % 2 == 0 { CONSONANTS } else { VOWELS };
            wire.push(letters[draw.below(letters.len() as u64) as usize]);
        }
        wire.extend_from_slice(name::parent(donors[donor]));
        if wire.len() > 200 {
            continue;
        }
        if seen.insert(wire.clone()) {
            made.push((wire, donor));
        } else {
            longer = (longer + 1).min(8);
        }
    }
    made
}

/// Which of the names that are looked for a name is.
#[derive(Clone, Copy)]
enum Known {
    Drawn(usize),
    New(usize),
}

/// Finds what belongs to the drawn delegations, who else uses their servers, and which new names exist.
fn collect(
    path: &Path,
    names: Vec<Vec<u8>>,
    mut new: Vec<(Vec<u8>, usize)>,
    sample: &mut Sample,
    progress: &mut dyn FnMut(u64),
) -> Result<(), Error> {
    let mut known = HashMap::with_capacity(names.len() + new.len());
    known.extend(names.iter().enumerate().map(|(i, name)| (lower(name), Known::Drawn(i))));
    known.extend(new.iter().enumerate().map(|(i, (name, _))| (lower(name), Known::New(i))));
    let mut found: Vec<Delegation> =
        names.into_iter().map(|owner| Delegation { owner, ..Delegation::default() }).collect();
    // Below another that was drawn: part of that one.
    let mut nested = vec![false; found.len()];
    let mut exists = vec![false; new.len()];
    let mut scanner = Scanner::open(path)?;
    let (mut owner, mut place, mut records) = (Vec::new(), None, 0u64);
    while let Some(record) = scanner.next()? {
        records += 1;
        if record.owner != owner {
            owner.clear();
            owner.extend_from_slice(record.owner);
            place = None;
            each_above(&lower(&owner), &sample.origin, &known, &mut |known| match known {
                Known::New(n) => exists[n] = true,
                Known::Drawn(n) => {
                    // The uppermost counts.
                    if let Some(below) = place.replace(n) {
                        nested[below] = true;
                    }
                }
            });
        }
        if record.rtype == rtype::NS {
            each_above(&lower(record.rdata), &sample.origin, &known, &mut |known| {
                if let Known::Drawn(n) = known
                    && !found[n].holds(record.owner)
                {
                    found[n].depended = true;
                }
            });
        }
        if let Some(n) = place {
            take(&mut found[n], &record);
        }
        if records.is_multiple_of(65_536) {
            progress(scanner.octets());
        }
    }
    let mut free = exists.into_iter();
    new.retain(|_| !free.next().unwrap_or(true));
    sample.new = new;
    // One that is part of another has nothing of its own to lend.
    let whole = |d: &Delegation| !d.ns.is_empty() && !d.crowded;
    if let Some(any) = found.iter().find(|d| whole(d)) {
        let donor = |d: &Delegation| if !whole(d) { any.clone() } else { d.clone() };
        sample.donors = found.iter().take(DONORS).map(donor).collect();
    }
    let mut nested = nested.into_iter();
    found.retain(|d| !nested.next().unwrap_or(false) && whole(d));
    sample.drawn = found;
    Ok(())
}

/// Calls `each` for a name (small letters) and those above it, below the apex, that are known: the lowest first.
fn each_above(wire: &[u8], apex: &[u8], known: &HashMap<Vec<u8>, Known>, each: &mut dyn FnMut(Known)) {
    let mut at = wire;
    while at.len() > apex.len() {
        if let Some(&found) = known.get(at) {
            each(found);
        }
        at = name::parent(at);
    }
}

fn take(d: &mut Delegation, record: &Record<'_>) {
    let rdata = record.rdata.to_vec();
    let here = name::equal(record.owner, &d.owner);
    match record.rtype {
        rtype::NS if here => {
            d.ns_ttl = record.ttl;
            if !d.ns.iter().any(|ns| name::equal(ns, &rdata)) {
                d.ns.push(rdata);
            }
        }
        rtype::DS if here => {
            d.ds_ttl = record.ttl;
            if !d.ds.contains(&rdata) {
                d.ds.push(rdata);
            }
        }
        // Servers that sign make these themselves.
        rtype::RRSIG | rtype::NSEC | rtype::NSEC3 | rtype::NSEC3PARAM | rtype::DNSKEY | rtype::ZONEMD => {}
        _ if here => {}
        rtype => {
            if d.glue.len() == CROWD {
                (d.crowded, d.glue) = (true, Vec::new());
            }
            if d.crowded {
                return;
            }
            let glue = Glue { owner: record.owner.to_vec(), rtype, ttl: record.ttl, rdata };
            if !d.glue.contains(&glue) {
                d.glue.push(glue);
            }
        }
    }
}
