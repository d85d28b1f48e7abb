//! The zone as the stream has changed it, as far as it touches it.

use super::mix::shuffle;
use super::sample::{Delegation, Glue, Sample};
use super::write::Writer;
use crate::Error;
use measure::seed::Draw;
use wire::{name, rtype};

/// The most servers of others that replace one.
const SERVERS: usize = 1024;

/// The delegations of a zone, and their state along the stream.
pub(super) struct State {
    /// Untouched so far; taken from the end.
    drawn: Vec<Delegation>,
    /// How many untouched ones the zone has, those that were not drawn among them.
    untouched: u64,
    /// Changed or added by the stream, and still there; with a number each.
    touched: Vec<(u64, Delegation)>,
    donors: Vec<Delegation>,
    /// Names for additions; taken from the end.
    new: Vec<(Vec<u8>, usize)>,
    /// Servers outside their delegations.
    servers: Vec<Vec<u8>>,
    next: u64,
    draw: Draw,
    /// Numbers of the delegations that the open transaction changes, where no other change of it may.
    busy: Option<Vec<u64>>,
    /// Delegations that could not be deleted because others use their servers.
    pub kept: u64,
}

/// Why there is nothing to change.
pub(super) struct NoneLeft;

impl State {
    pub fn new(sample: Sample, mut draw: Draw, once_a_transaction: bool) -> Self {
        let Sample { drawn, delegations, donors, mut new, .. } = sample;
        let mut servers: Vec<Vec<u8>> =
            donors.iter().flat_map(|d| d.ns.iter().filter(|ns| !d.holds(ns)).cloned()).collect();
        servers.sort();
        servers.dedup();
        shuffle(&mut servers, &mut draw);
        servers.truncate(SERVERS);
        new.reverse();
        let busy = once_a_transaction.then(Vec::new);
        Self {
            drawn,
            untouched: delegations,
            touched: Vec::new(),
            donors,
            new,
            servers,
            next: 0,
            draw,
            busy,
            kept: 0,
        }
    }

    /// The transaction ends.
    pub fn sent(&mut self) {
        if let Some(busy) = &mut self.busy {
            busy.clear();
        }
    }

    /// Whether the open transaction leaves this one alone.
    fn is_free(&self, number: u64) -> bool {
        self.busy.as_ref().is_none_or(|busy| !busy.contains(&number))
    }

    fn occupy(&mut self, number: u64) {
        if let Some(busy) = &mut self.busy {
            busy.push(number);
        }
    }

    /// Takes out a delegation for which `fits`, each of those that there are as likely, as far as enough were drawn.
    fn pick(&mut self, fits: &dyn Fn(&Delegation) -> bool) -> Option<(u64, Delegation)> {
        let alive = self.untouched + self.touched.len() as u64;
        if alive > 0
            && self.draw.below(alive) < self.untouched
            && let Some(found) = self.pick_untouched(fits)
        {
            return Some(found);
        }
        self.pick_touched(fits).or_else(|| self.pick_untouched(fits))
    }

    fn pick_untouched(&mut self, fits: &dyn Fn(&Delegation) -> bool) -> Option<(u64, Delegation)> {
        while let Some(delegation) = self.drawn.pop() {
            self.untouched -= 1;
            let number = self.next;
            self.next += 1;
            if fits(&delegation) {
                return Some((number, delegation));
            }
            self.kept += u64::from(delegation.depended);
            self.touched.push((number, delegation));
        }
        None
    }

    fn pick_touched(&mut self, fits: &dyn Fn(&Delegation) -> bool) -> Option<(u64, Delegation)> {
        let count = self.touched.len();
        if count == 0 {
            return None;
        }
        // From a random place on: nearly always the first one fits.
        let start = self.draw.below(count as u64) as usize;
        let at = (0..count).map(|n| (start + n) % count).find(|&n| {
            let (number, delegation) = &self.touched[n];
            self.is_free(*number) && fits(delegation)
        })?;
        Some(self.touched.swap_remove(at))
    }

    /// Adds a delegation that looks like one of the zone's.
    pub fn add(&mut self, out: &mut Writer<'_>, prerequisites: bool) -> Result<(), Error> {
        let (owner, donor) = self.new.pop().expect("as many names as additions were made");
        let donor = &self.donors[donor];
        // Names below the donor become names below the new delegation.
        let moved = |wire: &[u8]| {
            let inside = donor.holds(wire);
            let end = if inside { wire.len() - donor.owner.len() } else { wire.len() };
            let mut name = wire[..end].to_vec();
            if inside {
                name.extend_from_slice(&owner);
            }
            name
        };
        let mut new = Delegation {
            ns_ttl: donor.ns_ttl,
            ns: donor.ns.iter().map(|ns| moved(ns)).collect(),
            ds_ttl: donor.ds_ttl,
            ..Delegation::default()
        };
        for glue in donor.glue.iter().filter(|g| matches!(g.rtype, rtype::A | rtype::AAAA)) {
            let rdata = address(glue.rtype, &mut self.draw);
            new.glue.push(Glue { owner: moved(&glue.owner), rdata, ..*glue });
        }
        for ds in &donor.ds {
            let mut ds = ds.clone();
            // Key tag and digest are others'; algorithm and digest type stay (RFC 4034, section 5.1).
            for (_, octet) in ds.iter_mut().enumerate().filter(|(i, _)| !matches!(i, 2 | 3)) {
                *octet = self.draw.below(256) as u8;
            }
            new.ds.push(ds);
        }
        new.owner = owner;
        if prerequisites {
            out.absent(&new.owner)?;
        }
        for ns in &new.ns {
            out.add(&new.owner, new.ns_ttl, rtype::NS, ns)?;
        }
        for ds in &new.ds {
            out.add(&new.owner, new.ds_ttl, rtype::DS, ds)?;
        }
        for glue in &new.glue {
            out.add(&glue.owner, glue.ttl, glue.rtype, &glue.rdata)?;
        }
        out.added(&new);
        let number = self.next;
        self.next += 1;
        self.occupy(number);
        self.touched.push((number, new));
        Ok(())
    }

    /// Deletes a delegation with all that belongs to it.
    pub fn delete(
        &mut self,
        out: &mut Writer<'_>,
        prerequisites: bool,
    ) -> Result<Result<(), NoneLeft>, Error> {
        let Some((number, old)) = self.pick(&|d| !d.depended) else { return Ok(Err(NoneLeft)) };
        self.occupy(number);
        if prerequisites {
            out.present(&old.owner, rtype::NS)?;
        }
        out.delete_all(&old.owner, rtype::NS)?;
        if !old.ds.is_empty() {
            out.delete_all(&old.owner, rtype::DS)?;
        }
        let mut done: Vec<(&[u8], u16)> = Vec::new();
        for glue in &old.glue {
            if !done.iter().any(|(owner, rtype)| *rtype == glue.rtype && name::equal(owner, &glue.owner)) {
                out.delete_all(&glue.owner, glue.rtype)?;
                done.push((&glue.owner, glue.rtype));
            }
        }
        out.deleted(&old.owner);
        Ok(Ok(()))
    }

    /// Replaces one server of a delegation.
    pub fn modify(
        &mut self,
        out: &mut Writer<'_>,
        prerequisites: bool,
    ) -> Result<Result<(), NoneLeft>, Error> {
        let Some((number, mut d)) = self.pick(&|d| !d.ns.is_empty()) else { return Ok(Err(NoneLeft)) };
        self.occupy(number);
        if prerequisites {
            for ns in &d.ns {
                out.exactly(&d.owner, rtype::NS, ns)?;
            }
        }
        let at = self.draw.below(d.ns.len() as u64) as usize;
        let old = d.ns[at].clone();
        let inside = d.holds(&old);
        let elsewhere = (!inside).then(|| self.server_beside(&d)).flatten();
        let new = elsewhere.clone().unwrap_or_else(|| server_inside(&d));
        out.delete(&d.owner, rtype::NS, &old)?;
        out.add(&d.owner, d.ns_ttl, rtype::NS, &new)?;
        d.ns[at].clone_from(&new);
        if elsewhere.is_none() {
            let mut types: Vec<(u16, u32)> = if inside {
                d.glue.iter().filter(|g| name::equal(&g.owner, &old)).map(|g| (g.rtype, g.ttl)).collect()
            } else {
                vec![(rtype::A, d.ns_ttl)]
            };
            types.retain(|(rtype, _)| matches!(*rtype, rtype::A | rtype::AAAA));
            types.dedup();
            // Others may use the old one.
            if inside && !d.depended {
                let mut gone: Vec<u16> = Vec::new();
                for glue in d.glue.iter().filter(|g| name::equal(&g.owner, &old)) {
                    if !gone.contains(&glue.rtype) {
                        out.delete_all(&glue.owner, glue.rtype)?;
                        gone.push(glue.rtype);
                    }
                }
                d.glue.retain(|g| !name::equal(&g.owner, &old));
            }
            for (rtype, ttl) in types {
                let glue = Glue { owner: new.clone(), rtype, ttl, rdata: address(rtype, &mut self.draw) };
                out.add(&glue.owner, glue.ttl, glue.rtype, &glue.rdata)?;
                d.glue.push(glue);
            }
        }
        self.touched.push((number, d));
        Ok(Ok(()))
    }

    /// A server of others that a delegation does not have yet.
    fn server_beside(&mut self, d: &Delegation) -> Option<Vec<u8>> {
        for _ in 0..8.min(self.servers.len()) {
            let server = &self.servers[self.draw.below(self.servers.len() as u64) as usize];
            if !d.holds(server) && !d.ns.iter().any(|ns| name::equal(ns, server)) {
                return Some(server.clone());
            }
        }
        None
    }
}

/// A name for a server inside a delegation that nothing there has yet.
fn server_inside(d: &Delegation) -> Vec<u8> {
    let taken = |wire: &[u8]| {
        d.ns.iter().any(|ns| name::equal(ns, wire)) || d.glue.iter().any(|g| name::equal(&g.owner, wire))
    };
    for n in 1u32.. {
        let label = format!("ns{n}");
        let wire = [&[label.len() as u8], label.as_bytes(), &d.owner[..]].concat();
        if !taken(&wire) {
            return wire;
        }
    }
    unreachable!("a delegation does not have all numbers")
}

/// A random address: 10.0.0.0/8, or 2001:db8::/32.
fn address(rtype: u16, draw: &mut Draw) -> Vec<u8> {
    let bits = draw.bits().to_be_bytes();
    match rtype {
        rtype::A => [&[10], &bits[..3]].concat(),
        _ => [&[0x20, 0x01, 0x0d, 0xb8], &bits[..4], &[0; 4], &bits[4..]].concat(),
    }
}
