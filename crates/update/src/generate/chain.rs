//! Signatures and denials that go with changes of a signed zone, where the server does not make them itself (RFC 4035, section 2;
//! RFC 4034, section 4).
//!
//! Of the chain of NSEC records those names are kept whose records may change: the neighbours of each name that the stream adds, and
//! of each that it may delete. So memory is that of what the stream touches. What replaces what is worked out at the end of each
//! transaction, whose SOA record has the next serial.

use super::Signing;
use super::sample::{Delegation, Sample};
use super::write::Writer;
use crate::Error;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use wire::name::{self, Name};
use wire::rtype;
use zone::sign::verify::{NsecData, Rrsig};
use zone::sign::{RrsetSigner, nsec};
use zone::{Scanner, scan::Record};

/// A name with an NSEC record, as the server has it now.
#[derive(Clone, Debug, Default)]
struct Link {
    owner: Vec<u8>,
    nsec: Vec<u8>,
    /// The RRSIG over that.
    rrsig: Vec<u8>,
}

/// The place of a name in the chain: compares as RFC 4034, section 6.1, wants it.
type Place = Vec<u8>;

fn place(wire: &[u8]) -> Place {
    let mut key = Vec::with_capacity(wire.len() + 1);
    name::sort_key(wire, &mut key);
    key
}

/// The part of a zone's chain that a stream changes.
#[derive(Debug)]
pub(super) struct Chain {
    signer: RrsetSigner,
    apex: Vec<u8>,
    soa: Vec<u8>,
    soa_ttl: u32,
    soa_rrsig: Vec<u8>,
    nsec_ttl: u32,
    links: BTreeMap<Place, Link>,
    /// Of the open transaction: names that came, with TTL and data of their DS records; names that were there and went.
    added: BTreeMap<Place, (u32, Vec<Vec<u8>>)>,
    deleted: BTreeMap<Place, Vec<u8>>,
}

impl Chain {
    /// Reads what of the chain a stream over `sample` may change. The zone's file must be in canonical order, as signers write it.
    pub fn read(path: &Path, sample: &Sample, signing: &Signing) -> Result<Self, Error> {
        let origin = Name::from_wire(&sample.origin).map_err(|e| Error::Spec(e.to_string()))?;
        let signer = RrsetSigner::load(&signing.keys, &origin, signing.inception, signing.validity)?;
        let drawn = sample.drawn.iter().map(|d| &d.owner);
        let touched = drawn.chain(sample.new.iter().map(|(name, _)| name)).map(|name| place(name));
        let mut chain = Self {
            signer,
            apex: sample.origin.clone(),
            soa: Vec::new(),
            soa_ttl: 0,
            soa_rrsig: Vec::new(),
            nsec_ttl: 0,
            links: BTreeMap::new(),
            added: BTreeMap::new(),
            deleted: BTreeMap::new(),
        };
        chain.walk(path, touched.collect())?;
        if chain.links.is_empty() || chain.soa_rrsig.is_empty() {
            return Err(Error::Spec(format!(
                "{}: it has no NSEC records or no signature over its SOA: sign it with NSEC, as 'zone sign' does by default",
                path.display()
            )));
        }
        Ok(chain)
    }

    /// Keeps the links beside each of the places, and those at them.
    fn walk(&mut self, path: &Path, touched: BTreeSet<Place>) -> Result<(), Error> {
        let mut touched = touched.into_iter().peekable();
        let mut last: Option<(Place, Link)> = None;
        let mut keep_next = true;
        let mut take = |link: Link, links: &mut BTreeMap<Place, Link>| -> Result<(), Error> {
            let here = place(&link.owner);
            if last.as_ref().is_some_and(|(before, _)| *before >= here) {
                return Err(Error::Spec(format!(
                    "{}: its NSEC records are not in canonical order: sign it with 'zone sign'",
                    path.display()
                )));
            }
            let mut keep = std::mem::take(&mut keep_next);
            while touched.peek().is_some_and(|t| *t <= here) {
                keep_next |= touched.next().as_ref() == Some(&here);
                keep = true;
            }
            if keep && let Some((place, link)) = last.take() {
                links.insert(place, link);
            }
            if keep {
                links.insert(here.clone(), link.clone());
            }
            last = Some((here, link));
            Ok(())
        };
        let mut scanner = Scanner::open(path)?;
        let mut link = Link::default();
        while let Some(record) = scanner.next()? {
            if record.owner != link.owner {
                let done =
                    std::mem::replace(&mut link, Link { owner: record.owner.to_vec(), ..Link::default() });
                if !done.nsec.is_empty() {
                    take(done, &mut self.links)?;
                }
            }
            self.look(&record, &mut link);
        }
        if !link.nsec.is_empty() {
            take(link, &mut self.links)?;
        }
        // The link after the last name is its neighbour.
        if let Some((place, link)) = last {
            self.links.insert(place, link);
        }
        Ok(())
    }

    fn look(&mut self, record: &Record<'_>, link: &mut Link) {
        match record.rtype {
            rtype::SOA => (self.soa, self.soa_ttl) = (record.rdata.to_vec(), record.ttl),
            rtype::NSEC => (link.nsec, self.nsec_ttl) = (record.rdata.to_vec(), record.ttl),
            rtype::RRSIG => match Rrsig::parse(record.rdata).map(|rrsig| rrsig.covered) {
                Some(rtype::NSEC) => link.rrsig = record.rdata.to_vec(),
                Some(rtype::SOA) => self.soa_rrsig = record.rdata.to_vec(),
                _ => {}
            },
            _ => {}
        }
    }

    /// The open transaction adds this delegation.
    pub fn added(&mut self, new: &Delegation) {
        let here = place(&new.owner);
        self.links.insert(here.clone(), Link { owner: new.owner.clone(), ..Link::default() });
        self.added.insert(here, (new.ds_ttl, new.ds.clone()));
    }

    /// The open transaction deletes this delegation.
    pub fn deleted(&mut self, owner: &[u8]) {
        let here = place(owner);
        self.links.remove(&here);
        if self.added.remove(&here).is_none() {
            self.deleted.insert(here, owner.to_vec());
        }
    }

    /// The place before one; the chain is a ring.
    fn before(&self, at: &Place) -> Place {
        let before = self.links.range(..at.clone()).next_back();
        before.or_else(|| self.links.last_key_value()).expect("the apex is in it").0.clone()
    }

    /// The name after one that is there.
    fn after(&self, at: &Place) -> Vec<u8> {
        let after = (std::ops::Bound::Excluded(at.clone()), std::ops::Bound::Unbounded);
        self.links.range(after).next().map_or_else(|| self.apex.clone(), |(_, link)| link.owner.clone())
    }

    /// Writes what else the open transaction changes: denials, signatures, and the SOA record with the next serial.
    pub fn close(&mut self, out: &mut Writer<'_>) -> Result<(), Error> {
        let (added, deleted) = (std::mem::take(&mut self.added), std::mem::take(&mut self.deleted));
        for owner in deleted.values() {
            out.delete_all(owner, rtype::NSEC)?;
            out.delete_all(owner, rtype::RRSIG)?;
        }
        let neighbours: BTreeSet<Place> =
            added.keys().chain(deleted.keys()).map(|at| self.before(at)).collect();
        for at in neighbours.iter().filter(|at| !added.contains_key(*at)) {
            let link = &self.links[at];
            let types = NsecData::parse(&link.nsec).map(|data| data.types).unwrap_or_default();
            out.delete(&link.owner, rtype::NSEC, &link.nsec)?;
            out.delete(&link.owner, rtype::RRSIG, &link.rrsig)?;
            self.deny(at, &types, out)?;
        }
        for (at, (ds_ttl, ds)) in &added {
            let mut types = vec![rtype::NS, rtype::RRSIG, rtype::NSEC];
            if !ds.is_empty() {
                types.push(rtype::DS);
                let owner = &self.links[at].owner;
                let rdatas: Vec<&[u8]> = ds.iter().map(Vec::as_slice).collect();
                out.add(
                    owner,
                    *ds_ttl,
                    rtype::RRSIG,
                    &self.signer.rrsig(owner, rtype::DS, *ds_ttl, &rdatas)?,
                )?;
            }
            self.deny(at, &types, out)?;
        }
        self.next_serial(out)
    }

    /// Adds the NSEC record of a name, and its signature.
    fn deny(&mut self, at: &Place, types: &[u16], out: &mut Writer<'_>) -> Result<(), Error> {
        let rdata = nsec(&self.after(at), types);
        let link = self.links.get_mut(at).expect("it is in the chain");
        link.rrsig = self.signer.rrsig(&link.owner, rtype::NSEC, self.nsec_ttl, &[&rdata])?;
        link.nsec = rdata;
        out.add(&link.owner, self.nsec_ttl, rtype::NSEC, &link.nsec)?;
        out.add(&link.owner, self.nsec_ttl, rtype::RRSIG, &link.rrsig)
    }

    fn next_serial(&mut self, out: &mut Writer<'_>) -> Result<(), Error> {
        out.delete(&self.apex, rtype::RRSIG, &self.soa_rrsig)?;
        // Serial, refresh, retry, expire and minimum end the data.
        let at = self.soa.len() - 20;
        let serial = zone::probe::soa_serial(&self.soa).wrapping_add(1);
        self.soa[at..at + 4].copy_from_slice(&serial.to_be_bytes());
        self.soa_rrsig = self.signer.rrsig(&self.apex, rtype::SOA, self.soa_ttl, &[&self.soa])?;
        out.add(&self.apex, self.soa_ttl, rtype::SOA, &self.soa)?;
        out.add(&self.apex, self.soa_ttl, rtype::RRSIG, &self.soa_rrsig)
    }
}
