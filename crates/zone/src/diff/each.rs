//! Every change between two versions, owner by owner, for those who carry it elsewhere.

use super::node::{Differ, Node, Nodes, soa};
use crate::error::Error;
use crate::order;
use crate::probe::soa_serial;
use crate::scan::{Record, Scanner};
use crate::sign::is_made_by_signing;
use std::cmp::Ordering;
use std::path::Path;
use wire::name::{self, Name};
use wire::rtype;

/// The changes at one owner, the SOA left out, and where it is not asked for so are DNSSEC's records (RRSIG, NSEC, NSEC3,
/// NSEC3PARAM, DNSKEY, ZONEMD). A record with another TTL is deleted and added.
#[derive(Debug)]
pub struct Change<'a> {
    /// Wire format.
    pub owner: &'a [u8],
    /// Either version has NS records here, and it is not the apex.
    pub delegation: bool,
    /// The old version has records here.
    pub was_there: bool,
    /// Records that only the old version has.
    pub deleted: Vec<Record<'a>>,
    /// Records that only the new version has.
    pub added: Vec<Record<'a>>,
}

/// The versions between which [`each_change`] went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Versions {
    /// The zone's name.
    pub origin: Name,
    /// The serials, old and new.
    pub serials: [u32; 2],
    /// TTL and data of the new version's SOA.
    pub soa: (u32, Vec<u8>),
}

/// Shows every change from the zone file `old` to the zone file `new` in canonical order of owners, the apex first; before
/// the first, `begin` learns which versions they are. DNSSEC's records are among them where `dnssec` is set. Memory does not grow with the zones: those out of order are sorted
/// outside it.
///
/// # Errors
/// The scanner's; [`Error::Unable`] where they are not versions of one zone or cannot be read twice; [`Error::Spool`]; those
/// of `begin` and `each`.
pub fn each_change<E: From<Error>>(
    old: &Path,
    new: &Path,
    dnssec: bool,
    begin: &mut dyn FnMut(&Versions) -> Result<(), E>,
    each: &mut dyn FnMut(&Change<'_>) -> Result<(), E>,
) -> Result<(), E> {
    let (mut old, mut new) = (Nodes::open(old, !is_sorted(old)?)?, Nodes::open(new, !is_sorted(new)?)?);
    let (mut old_left, mut new_left) = (old.advance()?, new.advance()?);
    let apex = old.node().owner.clone();
    let named = |wire: &[u8]| Name::from_wire(wire).map_err(|e| Error::Unable(e.to_string()));
    if !name::equal(&apex, &new.node().owner) {
        let what = format!(
            "{} is the zone {}, {} is {}: expected versions of one zone",
            old.file(),
            named(&apex)?,
            new.file(),
            named(&new.node().owner)?
        );
        return Err(Error::Unable(what).into());
    }
    let serials = [old.node(), new.node()].map(|n| soa(n).map_or(0, |rr| soa_serial(rr.rdata)));
    let soa = soa(new.node()).map_or_else(Default::default, |rr| (rr.ttl, rr.rdata.to_vec()));
    begin(&Versions { origin: named(&apex)?, serials, soa })?;
    let mut differ = Differ::default();
    let shown = |rtype: u16| rtype != rtype::SOA && (dnssec || !is_made_by_signing(rtype));
    loop {
        let order = match (old_left, new_left) {
            (true, true) => name::canonical_cmp(&old.node().owner, &new.node().owner),
            (true, false) => Ordering::Less,
            (false, true) => Ordering::Greater,
            (false, false) => return Ok(()),
        };
        let before = order.is_le().then(|| old.node());
        let after = order.is_ge().then(|| new.node());
        differ.compare(before, after);
        if !differ.deleted.is_empty() || !differ.added.is_empty() {
            let deleted = before.map_or_else(Vec::new, |node| records(node, &differ.deleted, &shown));
            let added = after.map_or_else(Vec::new, |node| records(node, &differ.added, &shown));
            if !deleted.is_empty() || !added.is_empty() {
                let both = || before.into_iter().chain(after);
                let owner = &both().next().expect("one of them is there").owner;
                each(&Change {
                    owner,
                    delegation: !name::equal(owner, &apex) && both().any(|n| n.has(rtype::NS)),
                    was_there: before
                        .is_some_and(|n| n.records().any(|rr| dnssec || !is_made_by_signing(rr.rtype))),
                    deleted,
                    added,
                })?;
            }
        }
        if order.is_le() {
            old_left = old.advance()?;
        }
        if order.is_ge() {
            new_left = new.advance()?;
        }
    }
}

/// The records of a node with these numbers whose types are to be shown.
fn records<'a>(node: &'a Node, numbers: &[usize], shown: &dyn Fn(u16) -> bool) -> Vec<Record<'a>> {
    let all: Vec<_> = if numbers.is_empty() { Vec::new() } else { node.records().collect() };
    let record = |&n: &usize| {
        let rr = all[n];
        Record { owner: &node.owner, ttl: rr.ttl, class: 1, rtype: rr.rtype, rdata: rr.rdata, line: 0 }
    };
    numbers.iter().map(record).filter(|r| shown(r.rtype)).collect()
}

/// Whether a zone file is in canonical order already.
fn is_sorted(path: &Path) -> Result<bool, Error> {
    if !order::can_be_read_again(path) {
        let what = format!("{}: it is read twice: give a regular file", path.display());
        return Err(Error::Unable(what));
    }
    order::is_sorted(&mut Scanner::open(path)?)
}
