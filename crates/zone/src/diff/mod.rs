//! The differences between two versions of a zone, and the contents of an IXFR with them (RFC 1995).
//!
//! Both versions are read once, side by side; nothing but one owner of each is in memory. A zone out of canonical
//! order is sorted outside memory first. A record is what RFC 1995 takes it for: with another TTL it is another one.
//! Names compare without regard to case, in the data too, as the canonical form has it.

mod churn;
mod each;
mod entries;
mod ixfr;
mod node;

pub use churn::{Churn, Mix, churn, days_between};
pub use each::{Change, Versions, each_change};
pub use entries::{ChangeCounts, ChangedIn};
pub use ixfr::Ixfr;

use crate::error::Error;
use crate::order::can_be_read_again;
use crate::probe::soa_serial;
use crate::sign::is_made_by_signing;
use entries::{Entries, Touched};
use ixfr::Transfer;
use node::{Differ, Nodes, Rr, soa};
use serde::Serialize;
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::path::Path;
use wire::name::{self, Name};
use wire::rtype;

/// A version of a zone.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Version {
    /// The file as it was named.
    pub file: String,
    /// The SOA's serial.
    pub serial: u32,
    /// Records.
    pub records: u64,
    /// Octets of all records in uncompressed wire format: what an AXFR carries, but for its second SOA.
    pub wire_bytes: u64,
    /// Owners, those of NSEC3 records alone not counted.
    pub names: u64,
    /// Delegations; those below another are part of it.
    pub delegations: u64,
}

/// Records by type that only one version has.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Records {
    /// Only in the old one.
    pub deleted: BTreeMap<String, u64>,
    /// Only in the new one.
    pub added: BTreeMap<String, u64>,
}

impl Records {
    /// How many are deleted and added.
    pub fn sums(&self) -> (u64, u64) {
        (self.deleted.values().sum(), self.added.values().sum())
    }
}

/// The differences between two versions.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Diff {
    /// The zone's name.
    pub origin: String,
    /// The version before.
    pub old: Version,
    /// The version after.
    pub new: Version,
    /// Records, the SOA and DNSSEC's apart.
    pub records: Records,
    /// RRSIG, NSEC, NSEC3, NSEC3PARAM, DNSKEY and ZONEMD records: re-signing changes them all.
    pub dnssec: Records,
    /// Names, by records other than the SOA and DNSSEC's.
    pub names: ChangeCounts,
    /// Delegations with all that is below them, by the same records.
    pub delegations: ChangeCounts,
    /// In what delegations changed.
    pub changed_in: ChangedIn,
    /// The contents of an IXFR.
    pub ixfr: Ixfr,
    /// The same without DNSSEC records.
    pub ixfr_without_dnssec: Ixfr,
}

impl Diff {
    /// Entries: delegations, or names where a zone has no delegations. How many the old version has, and their
    /// changes.
    pub fn entries(&self) -> (u64, ChangeCounts) {
        match self.old.delegations + self.new.delegations {
            0 => (self.old.names, self.names),
            _ => (self.old.delegations, self.delegations),
        }
    }

    /// True where the new serial is greater (RFC 1982): otherwise a secondary asks for no IXFR.
    pub fn is_newer(&self) -> bool {
        wire::transfer::is_newer(self.new.serial, self.old.serial)
    }
}

/// Compares two versions of a zone. `progress` hears how many octets of both are read.
///
/// # Errors
/// The scanner's; [`Error::Unable`] where they are not versions of one zone; [`Error::Spool`].
pub fn diff(old: &Path, new: &Path, progress: &mut dyn FnMut(u64)) -> Result<Diff, Error> {
    // Streamed as they are, until one turns out not to be in order.
    let mut sort = [old, new].map(|path| !can_be_read_again(path));
    loop {
        let files = [(old, sort[0]), (new, sort[1])];
        let found = compare([Nodes::open(old, sort[0])?, Nodes::open(new, sort[1])?], progress);
        let Err(Error::Unsorted { file, .. }) = &found else { return found };
        let again = files.map(|(path, sorted)| sorted || path.display().to_string() == *file);
        if again == sort {
            return found;
        }
        sort = again;
    }
}

fn compare([mut old, mut new]: [Nodes; 2], progress: &mut dyn FnMut(u64)) -> Result<Diff, Error> {
    let files = [&old, &new].map(|n| n.file().to_owned());
    let (mut old_left, mut new_left) = (old.advance()?, new.advance()?);
    let apex = old.node().owner.clone();
    let shown = |wire: &[u8]| Name::from_wire(wire).map(|n| n.to_string()).unwrap_or_default();
    if !name::equal(&apex, &new.node().owner) {
        return Err(Error::Unable(format!(
            "{} is the zone {}, {} is {}: expected versions of one zone",
            files[0],
            shown(&apex),
            files[1],
            shown(&new.node().owner)
        )));
    }
    let soas = [old.node(), new.node()].map(|n| soa(n).map(|rr| (rr.ttl, rr.rdata.to_vec())));
    let [Some(old_soa), Some(new_soa)] = soas else {
        return Err(Error::Unable("a zone without a SOA".to_owned()));
    };
    let [old_soa, new_soa] =
        [&old_soa, &new_soa].map(|(ttl, rdata)| Rr { rtype: rtype::SOA, ttl: *ttl, rdata });
    let mut all = Transfer::new(&apex, &old_soa, &new_soa);
    let mut plain = Transfer::new(&apex, &old_soa, &new_soa);
    let mut entries = Entries::new(&apex);
    let mut differ = Differ::default();
    // By type: plain and DNSSEC, deleted and added.
    let mut counts: [BTreeMap<u16, u64>; 4] = Default::default();
    for count in 0u64.. {
        if count.is_multiple_of(4096) {
            progress(old.octets() + new.octets());
        }
        let order = match (old_left, new_left) {
            (true, true) => name::canonical_cmp(&old.node().owner, &new.node().owner),
            (true, false) => Ordering::Less,
            (false, true) => Ordering::Greater,
            (false, false) => break,
        };
        let before = order.is_le().then(|| old.node());
        let after = order.is_ge().then(|| new.node());
        differ.compare(before, after);
        let mut touched = Touched::default();
        for (node, numbers, is_added) in [(before, &differ.deleted, false), (after, &differ.added, true)] {
            let Some(node) = node.filter(|_| !numbers.is_empty()) else { continue };
            let records: Vec<Rr<'_>> = node.records().collect();
            for rr in numbers.iter().map(|&n| &records[n]) {
                touched.by(rr.rtype);
                if rr.rtype == rtype::SOA {
                    continue;
                }
                let dnssec = is_made_by_signing(rr.rtype);
                let put = if is_added { Transfer::add } else { Transfer::delete };
                put(&mut all, &node.owner, rr);
                if !dnssec {
                    put(&mut plain, &node.owner, rr);
                }
                *counts[usize::from(dnssec) * 2 + usize::from(is_added)].entry(rr.rtype).or_default() += 1;
            }
        }
        entries.node(before, after, touched);
        if order.is_le() {
            old_left = old.advance()?;
        }
        if order.is_ge() {
            new_left = new.advance()?;
        }
    }
    entries.close();
    progress(old.octets() + new.octets());
    let [deleted, added, dnssec_deleted, dnssec_added] =
        counts.map(|c| c.into_iter().map(|(t, n)| (rtype::to_text(t), n)).collect());
    let version = |n: usize, file: &str, nodes: &Nodes, soa: &Rr<'_>| Version {
        file: file.to_owned(),
        serial: soa_serial(soa.rdata),
        records: nodes.records,
        wire_bytes: nodes.wire_bytes,
        names: entries.names_in[n],
        delegations: entries.delegations_in[n],
    };
    Ok(Diff {
        origin: shown(&apex),
        old: version(0, &files[0], &old, &old_soa),
        new: version(1, &files[1], &new, &new_soa),
        records: Records { deleted, added },
        dnssec: Records { deleted: dnssec_deleted, added: dnssec_added },
        names: entries.names,
        delegations: entries.delegations,
        changed_in: entries.changed_in,
        ixfr: all.finish(&apex, &new_soa),
        ixfr_without_dnssec: plain.finish(&apex, &new_soa),
    })
}
