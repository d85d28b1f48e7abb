//! The entries of a zone that changed: names, and delegations with all that is below them.

use super::node::Node;
use crate::probe::strictly_under;
use crate::sign::is_made_by_signing;
use serde::Serialize;
use std::ops::AddAssign;
use wire::{name, rtype};

/// Entries that came, went, or stayed and changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ChangeCounts {
    /// Only in the new version.
    pub added: u64,
    /// Only in the old version.
    pub deleted: u64,
    /// In both, with other records.
    pub changed: u64,
}

impl ChangeCounts {
    /// All of them.
    pub fn sum(&self) -> u64 {
        self.added + self.deleted + self.changed
    }
}

impl AddAssign for ChangeCounts {
    fn add_assign(&mut self, other: Self) {
        self.added += other.added;
        self.deleted += other.deleted;
        self.changed += other.changed;
    }
}

/// In what delegations changed that stayed; one may count several times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ChangedIn {
    /// NS records.
    pub ns: u64,
    /// DS records.
    pub ds: u64,
    /// Records below the delegation: glue.
    pub glue: u64,
}

/// A delegation with what is below it.
#[derive(Default)]
struct Delegation {
    owner: Vec<u8>,
    in_old: bool,
    in_new: bool,
    ns: bool,
    ds: bool,
    glue: bool,
    other: bool,
}

/// The difference at an owner, DNSSEC and SOA apart.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Touched {
    pub ns: bool,
    pub ds: bool,
    pub other: bool,
}

impl Touched {
    /// Takes note of a record that only one version has.
    pub fn by(&mut self, rtype: u16) {
        match rtype {
            rtype::NS => self.ns = true,
            rtype::DS => self.ds = true,
            rtype::SOA => {}
            t if is_made_by_signing(t) => {}
            _ => self.other = true,
        }
    }
}

/// Counts entries while owners of both versions come in canonical order, the apex first.
#[derive(Default)]
pub(super) struct Entries {
    apex: Vec<u8>,
    open: Option<Delegation>,
    pub names: ChangeCounts,
    pub delegations: ChangeCounts,
    pub changed_in: ChangedIn,
    /// Delegations and names in the old and in the new version.
    pub delegations_in: [u64; 2],
    pub names_in: [u64; 2],
}

impl Entries {
    /// For the zone of this name.
    pub fn new(apex: &[u8]) -> Self {
        Self { apex: apex.to_vec(), ..Self::default() }
    }

    /// The next owner: its node in the versions that have it, and what differs.
    pub fn node(&mut self, old: Option<&Node>, new: Option<&Node>, touched: Touched) {
        let Some(owner) = old.or(new).map(|n| &n.owner[..]) else { return };
        // Owners of nothing but NSEC3 and its signature are not names of the zone.
        let real = |n: &Node| n.records().any(|rr| !is_made_by_signing(rr.rtype));
        let [in_old, in_new] = [old, new].map(|n| n.is_some_and(real));
        let any = touched.ns || touched.ds || touched.other;
        count(&mut self.names, in_old, in_new, any);
        self.names_in[0] += u64::from(in_old);
        self.names_in[1] += u64::from(in_new);
        if let Some(open) = self.open.as_mut().filter(|open| strictly_under(owner, &open.owner)) {
            open.glue |= any;
            return;
        }
        self.close();
        let cut = |n: &Node| n.has(rtype::NS);
        let [in_old, in_new] = [old, new].map(|n| n.is_some_and(cut));
        if (in_old || in_new) && !name::equal(owner, &self.apex) {
            let Touched { ns, ds, other } = touched;
            self.delegations_in[0] += u64::from(in_old);
            self.delegations_in[1] += u64::from(in_new);
            self.open =
                Some(Delegation { owner: owner.to_vec(), in_old, in_new, ns, ds, glue: false, other });
        }
    }

    /// Counts the delegation that is open; at the end of the zone too.
    pub fn close(&mut self) {
        let Some(d) = self.open.take() else { return };
        count(&mut self.delegations, d.in_old, d.in_new, d.ns || d.ds || d.glue || d.other);
        if d.in_old && d.in_new {
            self.changed_in.ns += u64::from(d.ns);
            self.changed_in.ds += u64::from(d.ds);
            self.changed_in.glue += u64::from(d.glue);
        }
    }
}

fn count(changes: &mut ChangeCounts, in_old: bool, in_new: bool, touched: bool) {
    match (in_old, in_new) {
        (true, false) => changes.deleted += 1,
        (false, true) => changes.added += 1,
        (true, true) => changes.changed += u64::from(touched),
        (false, false) => {}
    }
}
