//! How delegations are laid out so that any of them can be made on its own.
//!
//! Delegations are numbered. A block of them always has the same composition: so many with 4 name
//! servers of their own and one DS record, and so on, apportioned from the profile; a permutation of
//! the block's own says which delegation is which. So shares are met to a few in a block, and whatever is
//! numbered through (servers inside, own groups, users of providers) follows from block and slot alone.

use super::labels::mix;
use super::permutation::{Permutation, apportion};
use crate::Profile;
use measure::{Draw, Seed};

/// Delegations in a block.
pub(super) const BLOCK: u64 = 8192;

/// How many of a new TLD's servers lie inside it, in turn, in the RZAIA families: 1.2 on average.
const RZAIA_INSIDE: [u64; 10] = [2, 1, 2, 0, 1, 2, 1, 2, 1, 0];

/// One delegation: numbers of its servers and DS records. What it has of a numbered thing starts at
/// `first_…` in its block.
#[derive(Clone, Copy, Default)]
pub(super) struct Slot {
    pub inside: u8,
    pub own: u8,
    pub shared: u8,
    pub ds: u8,
    pub first_inside: u64,
    pub first_group: u64,
    /// Its number among the users of providers, where `shared` is not zero.
    pub user: u64,
    /// Its number among those with servers inside, where `inside` is not zero.
    insider: u64,
    first_ds: u32,
}

/// The slots of a block.
struct Composition {
    slots: Vec<Slot>,
    inside: u64,
    /// Sizes of groups of own servers.
    groups: Vec<u8>,
    /// Slots with servers of a provider, and with servers inside.
    users: Vec<u32>,
    insiders: Vec<u32>,
    /// Algorithm and digest type of each DS record.
    ds: Vec<(u8, u8)>,
}

/// All delegations of a zone.
pub(super) struct Layout {
    pub count: u64,
    full: Composition,
    part: Composition,
    key: u64,
    /// Groups of own servers, users of providers, and delegations with servers inside.
    pub groups: u64,
    pub users: u64,
    pub insiders: u64,
}

impl Layout {
    /// `apart`: as in the RZAIA families, where every delegation has servers inside and elsewhere, and each
    /// own server is a group.
    pub fn new(profile: &Profile, count: u64, apart: bool, seed: Seed) -> Self {
        let (blocks, rest) = (count / BLOCK, count % BLOCK);
        let full =
            Composition::new(profile, if blocks > 0 { BLOCK } else { 0 }, apart, seed.draw("block", 0));
        let mut part = Composition::new(profile, rest, apart, seed.draw("block", 1));
        // The first user has as many servers of a provider as any: see `servers`.
        let most = full.slots.iter().map(|s| s.shared).max().filter(|&m| m > 0).unwrap_or(u8::MAX);
        part.slots.iter_mut().for_each(|s| s.shared = s.shared.min(most));
        let sum = |of: fn(&Composition) -> usize| of(&full) as u64 * blocks + of(&part) as u64;
        let (groups, users, insiders) =
            (sum(|c| c.groups.len()), sum(|c| c.users.len()), sum(|c| c.insiders.len()));
        Self { count, full, part, key: seed.draw("blocks", 0).bits(), groups, users, insiders }
    }

    fn composition(&self, block: u64) -> &Composition {
        if block < self.count / BLOCK { &self.full } else { &self.part }
    }

    fn permutation(&self, block: u64) -> Permutation {
        Permutation::new(self.composition(block).slots.len() as u64, mix(self.key ^ block))
    }

    /// The delegation of that number.
    pub fn slot(&self, number: u64) -> Slot {
        let block = number / BLOCK;
        self.at(block, self.permutation(block).apply(number % BLOCK))
    }

    fn at(&self, block: u64, slot: u64) -> Slot {
        let mut slot = self.composition(block).slots[slot as usize];
        slot.first_inside += block * self.full.inside;
        slot.first_group += block * self.full.groups.len() as u64;
        slot.user += block * self.full.users.len() as u64;
        slot.insider += block * self.full.insiders.len() as u64;
        slot
    }

    /// Algorithms and digest types of the DS records of a delegation.
    pub fn ds(&self, number: u64, slot: &Slot) -> &[(u8, u8)] {
        let from = slot.first_ds as usize;
        &self.composition(number / BLOCK).ds[from..from + usize::from(slot.ds)]
    }

    /// The number of servers in a group of own servers.
    pub fn group_size(&self, group: u64) -> u8 {
        let (block, at) = block_of(group, self.full.groups.len(), self.count);
        self.composition(block).groups[at]
    }

    /// How many servers of a provider a user has.
    pub fn user_size(&self, user: u64) -> u8 {
        let (block, at) = block_of(user, self.full.users.len(), self.count);
        let composition = self.composition(block);
        composition.slots[composition.users[at] as usize].shared
    }

    /// How many servers lie inside an insider.
    pub fn insider_size(&self, insider: u64) -> u8 {
        let (block, slot) = self.insider_slot(insider);
        self.composition(block).slots[slot as usize].inside
    }

    /// The number of the delegation that an insider is, and what it has.
    pub fn insider(&self, insider: u64) -> (u64, Slot) {
        let (block, slot) = self.insider_slot(insider);
        (block * BLOCK + self.permutation(block).invert(slot), self.at(block, slot))
    }

    fn insider_slot(&self, insider: u64) -> (u64, u64) {
        let (block, at) = block_of(insider, self.full.insiders.len(), self.count);
        (block, u64::from(self.composition(block).insiders[at]))
    }
}

/// The block that has the thing of this number, and its number there.
fn block_of(number: u64, per_block: usize, delegations: u64) -> (u64, usize) {
    let last = delegations / BLOCK;
    let block = number.checked_div(per_block as u64).map_or(last, |b| b.min(last));
    (block, (number - block * per_block as u64) as usize)
}

impl Composition {
    fn new(p: &Profile, n: u64, apart: bool, mut draw: Draw) -> Self {
        let counts = expand(&p.ns.counts, n);
        let total: u64 = counts.iter().map(|&c| u64::from(c)).sum();
        let mut slots = vec![Slot::default(); counts.len()];
        if apart {
            for ((slot, &count), inside) in
                slots.iter_mut().zip(&counts).zip(RZAIA_INSIDE.into_iter().cycle())
            {
                (slot.inside, slot.own) = (inside as u8, count as u8 - inside as u8);
            }
            shuffle(&mut draw, &mut slots);
        } else {
            deal(p, &counts, total, &mut slots, &mut draw);
        }
        let signed = (p.ds.share * n as f64).round() as u64;
        for (slot, count) in slots.iter_mut().zip(expand(&p.ds.counts, signed)) {
            slot.ds = count as u8;
        }
        // Dealt out in this order so far: now DS records go with any.
        let ds: Vec<u8> = {
            let mut ds: Vec<u8> = slots.iter().map(|s| s.ds).collect();
            shuffle(&mut draw, &mut ds);
            ds
        };
        slots.iter_mut().zip(ds).for_each(|(slot, ds)| slot.ds = ds);
        Self::numbered(p, slots, apart, &mut draw)
    }

    fn numbered(p: &Profile, mut slots: Vec<Slot>, apart: bool, draw: &mut Draw) -> Self {
        // The first user is one with the most.
        let most = (0..slots.len()).max_by_key(|&i| slots[i].shared);
        if let Some(most) = most {
            slots.swap(0, most);
        }
        let (mut inside, mut groups, mut users, mut insiders, mut records) =
            (0, Vec::new(), Vec::new(), Vec::new(), 0);
        for (i, slot) in slots.iter_mut().enumerate() {
            (slot.first_inside, slot.first_group) = (inside, groups.len() as u64);
            (slot.user, slot.insider, slot.first_ds) = (users.len() as u64, insiders.len() as u64, records);
            inside += u64::from(slot.inside);
            match slot.own {
                0 => {}
                own if apart => groups.extend(std::iter::repeat_n(1, usize::from(own))),
                own => groups.push(own),
            }
            if slot.shared > 0 {
                users.push(i as u32);
            }
            if slot.inside > 0 {
                insiders.push(i as u32);
            }
            records += u32::from(slot.ds);
        }
        let algorithms = dealt(&p.ds.algorithms, records, draw);
        let ds = algorithms.into_iter().zip(dealt(&p.ds.digests, records, draw)).collect();
        Self { slots, inside, groups, users, insiders, ds }
    }
}

/// Gives whole delegations to servers inside, own ones and providers until each has its share of the
/// records; one at each border is mixed.
fn deal(p: &Profile, counts: &[u32], total: u64, slots: &mut [Slot], draw: &mut Draw) {
    let s = &p.servers;
    let shared = (1.0 - s.inside - s.own).max(0.0);
    let quotas = apportion([s.inside, s.own, if shared > 1e-9 { shared } else { 0.0 }], total);
    let mut counts = counts.to_vec();
    shuffle(draw, &mut counts);
    let (mut kind, mut left) = (0, quotas[0]);
    for (slot, count) in slots.iter_mut().zip(counts) {
        let mut count = u64::from(count);
        while count > 0 {
            while left == 0 {
                kind += 1;
                left = quotas[kind];
            }
            let here = count.min(left);
            let field = match kind {
                0 => &mut slot.inside,
                1 => &mut slot.own,
                _ => &mut slot.shared,
            };
            *field = here as u8;
            (count, left) = (count - here, left - here);
        }
    }
}

/// Each key as often as its weight has of `n`, in order.
fn expand<K: Copy>(weights: &std::collections::BTreeMap<K, f64>, n: u64) -> Vec<K> {
    let parts = apportion(weights.values().copied(), n);
    weights.keys().zip(parts).flat_map(|(&k, n)| std::iter::repeat_n(k, n as usize)).collect()
}

fn dealt(weights: &std::collections::BTreeMap<u8, f64>, n: u32, draw: &mut Draw) -> Vec<u8> {
    let mut all = expand(weights, u64::from(n));
    shuffle(draw, &mut all);
    all
}

fn shuffle<T>(draw: &mut Draw, items: &mut [T]) {
    for i in (1..items.len()).rev() {
        items.swap(i, draw.below(i as u64 + 1) as usize);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_numbered_is_numbered_through() {
        for (name, apart) in [("ROOT", false), ("COM", false), ("ROOT", true)] {
            let mut profile = Profile::load(name).unwrap();
            if apart {
                profile.ns.counts = [(4, 1.0), (7, 1.0)].into();
            }
            for count in [1, 7, 1438, BLOCK, 2 * BLOCK + 77] {
                let layout = Layout::new(&profile, count, apart, Seed(3));
                let slots: Vec<Slot> = (0..count).map(|n| layout.slot(n)).collect();
                let mut insides: Vec<u64> =
                    slots.iter().flat_map(|s| (0..u64::from(s.inside)).map(|k| s.first_inside + k)).collect();
                insides.sort_unstable();
                assert!(insides.iter().enumerate().all(|(i, &n)| n == i as u64));
                let mut groups: Vec<(u64, u64)> =
                    slots.iter().filter(|s| s.own > 0).map(|s| (s.first_group, u64::from(s.own))).collect();
                groups.sort_unstable();
                let mut next = 0;
                for (first, own) in groups {
                    assert_eq!(first, next);
                    next += if apart { own } else { 1 };
                    assert_eq!(u64::from(layout.group_size(first)), if apart { 1 } else { own });
                }
                assert_eq!(next, layout.groups);
                let users = (0..count).filter(|&n| slots[n as usize].shared > 0);
                assert_eq!(users.clone().count() as u64, layout.users);
                for n in users {
                    let slot = slots[n as usize];
                    assert_eq!(layout.user_size(slot.user), slot.shared);
                    assert!(layout.user_size(0) >= slot.shared);
                }
                let insiders = (0..count).filter(|&n| slots[n as usize].inside > 0);
                assert_eq!(insiders.clone().count() as u64, layout.insiders);
                for n in insiders {
                    let slot = slots[n as usize];
                    let insider = (layout.insider(slot.insider).0, layout.insider_size(slot.insider));
                    assert_eq!(insider, (n, slot.inside));
                }
            }
        }
    }

    #[test]
    fn shares_are_those_of_the_profile() {
        let profile = Profile::load("ROOT").unwrap();
        let count = 3 * BLOCK + 1000;
        let layout = Layout::new(&profile, count, false, Seed(1));
        let slots: Vec<Slot> = (0..count).map(|n| layout.slot(n)).collect();
        let sum = |of: fn(&Slot) -> u64| slots.iter().map(of).sum::<u64>() as f64;
        let ns = sum(|s| u64::from(s.inside + s.own + s.shared));
        assert!((sum(|s| u64::from(s.inside)) / ns - 0.73).abs() < 1e-4);
        assert!((sum(|s| u64::from(s.own)) / ns - 0.032).abs() < 1e-4);
        assert!((sum(|s| u64::from(s.ds > 0)) / count as f64 - 0.939).abs() < 1e-4);
        let six = slots.iter().filter(|s| s.inside + s.own + s.shared == 6).count() as f64;
        assert!((six / count as f64 - 576.0 / 1438.0).abs() < 1e-3);
    }
}
