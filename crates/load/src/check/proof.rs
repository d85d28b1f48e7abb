//! Whether the NSEC or NSEC3 records of an answer prove what they must (RFC 4035 section 3.1.3, RFC 5155 section 7.2).
//!
//! That the records are the zone's own is checked elsewhere.

use super::facts::{Facts, wildcard};
use super::message::{Answer, show_name};
use std::cmp::Ordering;
use wire::name;
use wire::rtype;
use zone::sign::verify::{Nsec3Data, NsecData};

/// A claim that a proof has to support.
#[derive(Clone, Copy, Debug)]
pub(super) enum Claim<'a> {
    /// There is no such name, and no wildcard at `closest`, the longest name above it that exists.
    NoName { name: &'a [u8], closest: &'a [u8] },
    /// There is no such RRset at an existing name.
    NoData { name: &'a [u8], rtype: u16 },
    /// There is no such name, and no such RRset at the wildcard of `closest`.
    NoDataAtWildcard { name: &'a [u8], closest: &'a [u8], rtype: u16 },
    /// There is no such name, so that the wildcard of `closest` answers for it.
    Expanded { name: &'a [u8], closest: &'a [u8] },
    /// A delegation without DS.
    Unsigned { cut: &'a [u8] },
}

/// The denial records of an answer.
pub(super) struct Proof<'a> {
    facts: &'a Facts,
    nsec: Vec<(&'a [u8], NsecData<'a>)>,
    nsec3: Vec<(Vec<u8>, Nsec3Data<'a>)>,
}

impl<'a> Proof<'a> {
    pub fn new(facts: &'a Facts, answer: &'a Answer) -> Self {
        let (mut nsec, mut nsec3) = (Vec::new(), Vec::new());
        for set in &answer.authority {
            for rdata in &set.rdatas {
                match set.kind.rtype {
                    rtype::NSEC => nsec.extend(NsecData::parse(rdata).map(|data| (&set.owner[..], data))),
                    rtype::NSEC3 => {
                        let hash = Nsec3Data::owner_hash(&set.owner);
                        nsec3.extend(hash.zip(Nsec3Data::parse(rdata)));
                    }
                    _ => {}
                }
            }
        }
        Self { facts, nsec, nsec3 }
    }

    /// Looks whether the records prove a claim; what is missing otherwise.
    pub fn proves(&self, claim: Claim<'_>) -> Result<(), String> {
        let apex = self.facts.node(&self.facts.apex);
        let has = |rtype| apex.is_some_and(|node| node.has(rtype));
        match (has(rtype::NSEC), has(rtype::NSEC3PARAM)) {
            // A zone on its way from one to the other may use either.
            (true, true) => self.by_nsec(claim).or_else(|_| self.by_nsec3(claim)),
            (true, false) => self.by_nsec(claim),
            (false, true) => self.by_nsec3(claim),
            // Nothing to prove it with.
            (false, false) => Ok(()),
        }
    }

    fn by_nsec(&self, claim: Claim<'_>) -> Result<(), String> {
        match claim {
            Claim::NoName { name, closest } => {
                self.covered(name)?;
                self.covered(&wildcard(closest))
            }
            Claim::NoData { name, rtype } => match self.at(name) {
                Some(types) => lacks(types, name, &[rtype, rtype::CNAME]),
                None => self.covered(name),
            },
            Claim::NoDataAtWildcard { name, closest, rtype } => {
                let star = wildcard(closest);
                self.covered(name)?;
                match self.at(&star) {
                    Some(types) => lacks(types, &star, &[rtype, rtype::CNAME]),
                    // The wildcard may be an empty non-terminal.
                    None => self.covered(&star),
                }
            }
            Claim::Expanded { name, .. } => self.covered(name),
            Claim::Unsigned { cut } => {
                let types = self.at(cut).ok_or_else(|| format!("NSEC at {}", show_name(cut)))?;
                delegates(types, cut)
            }
        }
    }

    /// The types in the NSEC record at a name.
    fn at(&self, name: &[u8]) -> Option<&[u16]> {
        self.nsec.iter().find(|(owner, _)| name::equal(owner, name)).map(|(_, data)| &data.types[..])
    }

    /// Succeeds where an NSEC record has the name in its gap.
    fn covered(&self, target: &[u8]) -> Result<(), String> {
        let covers = |(owner, data): &(&[u8], NsecData<'_>)| {
            // The last one of the zone leads back to the apex.
            name::canonical_cmp(owner, target) == Ordering::Less
                && (name::equal(data.next, &self.facts.apex)
                    || name::canonical_cmp(target, data.next) == Ordering::Less)
        };
        match self.nsec.iter().any(covers) {
            true => Ok(()),
            false => Err(format!("NSEC that covers {}", show_name(target))),
        }
    }

    fn by_nsec3(&self, claim: Claim<'_>) -> Result<(), String> {
        match claim {
            Claim::NoName { name, closest } => {
                let (closest, _) = self.closest(name, closest)?;
                self.covers_hash(&wildcard(closest)).map(drop)
            }
            Claim::NoData { name, rtype } => match self.at_hash(name) {
                Some(types) => lacks(types, name, &[rtype, rtype::CNAME]),
                // A DS record where the chain passes over the delegation (section 7.2.4), or an empty non-terminal
                // above such delegations only (errata 3441).
                None => self.opted_out(name),
            },
            Claim::NoDataAtWildcard { name, closest, rtype } => {
                let (closest, _) = self.closest(name, closest)?;
                let star = wildcard(closest);
                let types = self.at_hash(&star).ok_or_else(|| format!("NSEC3 of {}", show_name(&star)))?;
                lacks(types, &star, &[rtype, rtype::CNAME])
            }
            Claim::Expanded { name, closest } => self.covers_hash(next_closer(name, closest)).map(drop),
            Claim::Unsigned { cut } => match self.at_hash(cut) {
                Some(types) => delegates(types, cut),
                None => self.opted_out(cut),
            },
        }
    }

    /// The closest encloser proof (RFC 5155 section 8.3), whose closest encloser may lie above the one that the zone
    /// has where the chain passes over what is in between. Gives it, and whether opt-out covers the next closer name.
    fn closest<'n>(&self, name: &'n [u8], closest: &'n [u8]) -> Result<(&'n [u8], bool), String> {
        let mut up = closest;
        loop {
            if self.at_hash(up).is_some() {
                let opt_out = self.covers_hash(next_closer(name, up))?;
                return match opt_out || up.len() == closest.len() {
                    true => Ok((up, opt_out)),
                    false => Err(format!("NSEC3 of {}, the closest encloser", show_name(closest))),
                };
            }
            if up.len() <= self.facts.apex.len() {
                return Err(format!("NSEC3 of {}, the closest encloser", show_name(closest)));
            }
            up = name::parent(up);
        }
    }

    /// Succeeds where the chain passes over an existing name.
    fn opted_out(&self, name: &[u8]) -> Result<(), String> {
        let failed = || format!("NSEC3 of {}, or opt-out that covers it", show_name(name));
        if name.len() <= self.facts.apex.len() {
            return Err(failed());
        }
        let (_, opt_out) = self.closest(name, name::parent(name)).map_err(|_| failed())?;
        if opt_out { Ok(()) } else { Err(failed()) }
    }

    /// The types in the NSEC3 record of a name.
    fn at_hash(&self, name: &[u8]) -> Option<&[u16]> {
        let is_of_name =
            |(hash, data): &&(Vec<u8>, Nsec3Data<'_>)| data.parameters.hash(name)[..] == hash[..];
        self.nsec3.iter().find(is_of_name).map(|(_, data)| &data.types[..])
    }

    /// Succeeds where an NSEC3 record has the name's hash in its gap; true where it has the opt-out flag.
    fn covers_hash(&self, name: &[u8]) -> Result<bool, String> {
        let covers = |(owner, data): &&(Vec<u8>, Nsec3Data<'_>)| {
            let hash = data.parameters.hash(name);
            let (hash, owner) = (&hash[..], &owner[..]);
            match owner < data.next {
                true => owner < hash && hash < data.next,
                // The last one leads back to the first; a single one covers all but itself.
                false => owner < hash || hash < data.next,
            }
        };
        let found = self.nsec3.iter().find(covers);
        found
            .map(|(_, data)| data.parameters.opt_out)
            .ok_or_else(|| format!("NSEC3 that covers {}", show_name(name)))
    }
}

/// The name one label longer than `closest` on the way to `name`.
fn next_closer<'n>(name: &'n [u8], closest: &[u8]) -> &'n [u8] {
    let mut name = name;
    while name::parent(name).len() > closest.len() {
        name = name::parent(name);
    }
    name
}

fn lacks(types: &[u16], owner: &[u8], absent: &[u16]) -> Result<(), String> {
    match absent.iter().find(|t| types.contains(t)) {
        None => Ok(()),
        Some(t) => Err(format!("denial at {} without {}", show_name(owner), rtype::to_text(*t))),
    }
}

/// Succeeds where the types are those of an unsigned delegation, on the parent's side (RFC 6840 section 4.4).
fn delegates(types: &[u16], cut: &[u8]) -> Result<(), String> {
    if !types.contains(&rtype::NS) {
        return Err(format!("denial at {} with NS", show_name(cut)));
    }
    lacks(types, cut, &[rtype::DS, rtype::SOA])
}
