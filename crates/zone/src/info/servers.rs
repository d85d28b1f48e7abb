//! Server names: how many there are and how delegations share them, in bounded memory.
//!
//! Two sketches over the targets of delegations' NS records:
//!
//! - A *sample* of the names, by hash: a name is kept while its hash lies below a limit, with the number of its
//!   delegations. Where [`SAMPLE`] names are passed the limit is halved, and what lies above goes: until then all is
//!   exact. Whatever is kept was counted from its first record on, so that shares among the names
//!   kept estimate those among all, with a standard error of sqrt(p(1-p)/n) for n names kept, 32,768 and more.
//! - The *busiest* names beyond that: each hash falls into one of [`SLOTS`] slots, where the majority vote of Boyer
//!   and Moore finds the name that has most of the slot's records. Of a winner with c votes left among n records,
//!   the true count lies between c and (n + c) / 2.

use super::{Sharing, shown};
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use wire::name;

/// Names kept at most.
const SAMPLE: usize = 65_536;
/// Slots of the vote: a power of two.
const SLOTS: usize = 16_384;
/// How many of the busiest names are listed.
const BUSIEST: usize = 10;

/// Where the name of a server lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// At or below the delegation that it serves.
    Inside,
    /// Elsewhere in the zone.
    InZone,
    /// Out of the zone.
    OutOfZone,
}

/// Hashes that are keys already.
#[derive(Default)]
struct Keep(u64);

impl Hasher for Keep {
    fn finish(&self) -> u64 {
        // The table wants entropy at both ends, and those kept in the sample have none at the upper one.
        self.0 ^ self.0 << 40
    }
    fn write(&mut self, _: &[u8]) {
        unreachable!("keys are u64");
    }
    fn write_u64(&mut self, key: u64) {
        self.0 = key;
    }
}

type Table<V> = HashMap<u64, V, BuildHasherDefault<Keep>>;

/// A name in the sample.
struct Server {
    delegations: u32,
    /// Some delegation has it inside.
    inside: bool,
    /// Number of the name that it lies under.
    under: u32,
}

/// A slot of the vote.
#[derive(Clone, Copy, Default)]
struct Slot {
    winner: u64,
    votes: u32,
    records: u32,
}

/// One of the busiest names.
struct Busy {
    hash: u64,
    count: u32,
    name: Vec<u8>,
}

/// The sketches.
pub(super) struct Servers {
    sample: Table<Server>,
    /// Names are kept where their hash is at or below.
    limit: u64,
    slots: Vec<Slot>,
    top: Vec<Busy>,
    /// A count must be above to get among them.
    top_from: u32,
    /// Names that servers lie under, by number; their numbers by hash.
    under: Vec<Vec<u8>>,
    under_numbers: Table<u32>,
}

/// A hash of a name, ASCII case apart: the same on every machine.
fn hash(wire: &[u8]) -> u64 {
    const K: u64 = 0x9e37_79b9_7f4a_7c15;
    // Sets the bit of small letters; what else becomes the same in this way hardly occurs in names.
    const SMALL: u64 = 0x2020_2020_2020_2020;
    let mut h = wire.len() as u64;
    let (words, rest) = wire.as_chunks::<8>();
    for word in words {
        h = (h ^ (u64::from_le_bytes(*word) | SMALL)).wrapping_mul(K);
        h ^= h >> 29;
    }
    match wire.last_chunk::<8>() {
        // The last octets once more, instead of one by one.
        Some(last) if !rest.is_empty() => h = (h ^ (u64::from_le_bytes(*last) | SMALL)).wrapping_mul(K),
        Some(_) => {}
        None => rest.iter().for_each(|&b| h = (h ^ u64::from(b | 0x20)).wrapping_mul(K)),
    }
    h ^= h >> 32;
    h = h.wrapping_mul(K);
    h ^ h >> 29
}

impl Slot {
    /// Votes for a name; gives its votes if it wins.
    fn vote(&mut self, hash: u64) -> u32 {
        self.records = self.records.saturating_add(1);
        if self.winner == hash {
            self.votes += 1;
            return self.votes;
        }
        if self.votes > 0 {
            self.votes -= 1;
            return 0;
        }
        (self.winner, self.votes) = (hash, 1);
        1
    }
}

impl Servers {
    pub fn new() -> Self {
        Self {
            sample: Table::default(),
            limit: u64::MAX,
            slots: vec![Slot::default(); SLOTS],
            top: Vec::new(),
            top_from: 0,
            under: Vec::new(),
            under_numbers: Table::default(),
        }
    }

    fn exact(&self) -> bool {
        self.limit == u64::MAX
    }

    /// Counts an NS record of a delegation.
    pub fn add(&mut self, target: &[u8], place: Place, apex: &[u8]) {
        let hash = hash(target);
        let mut count = self.slots[hash as usize % SLOTS].vote(hash);
        if hash <= self.limit {
            let kept = self.keep(hash, target, place, apex);
            if self.exact() {
                count = kept;
            }
        }
        if count > self.top_from {
            self.rank(hash, count, target);
        }
    }

    /// Counts a name of the sample.
    fn keep(&mut self, hash: u64, target: &[u8], place: Place, apex: &[u8]) -> u32 {
        if let Some(server) = self.sample.get_mut(&hash) {
            server.delegations += 1;
            server.inside |= place == Place::Inside;
            return server.delegations;
        }
        let above = under(target, place, apex);
        let number = *self.under_numbers.entry(self::hash(above)).or_insert_with(|| {
            self.under.push(above.to_ascii_lowercase());
            self.under.len() as u32 - 1
        });
        let inside = place == Place::Inside;
        self.sample.insert(hash, Server { delegations: 1, inside, under: number });
        while self.sample.len() > SAMPLE {
            self.limit /= 2;
            let limit = self.limit;
            self.sample.retain(|&hash, _| hash <= limit);
        }
        1
    }

    /// Puts a name among the busiest.
    fn rank(&mut self, hash: u64, count: u32, target: &[u8]) {
        if let Some(known) = self.top.iter_mut().find(|t| t.hash == hash) {
            known.count = count;
            return;
        }
        self.top.push(Busy { hash, count, name: target.to_vec() });
        if self.top.len() > BUSIEST {
            let least = (0..self.top.len()).min_by_key(|&i| self.top[i].count).unwrap_or(0);
            self.top.swap_remove(least);
            self.top_from = self.top.iter().map(|t| t.count).min().unwrap_or(0);
        }
    }

    /// The estimates of the sketches.
    pub fn finish(self) -> Sharing {
        let exact = self.exact();
        let scale = if exact { 1.0 } else { u64::MAX as f64 / self.limit as f64 };
        let scaled = |n: u64| (n as f64 * scale).round() as u64;
        let kept = self.sample.len() as u64;
        let (mut all, mut elsewhere) = (Vec::new(), Vec::new());
        let mut under = vec![0u64; self.under.len()];
        for server in self.sample.values() {
            all.push(server.delegations);
            if !server.inside {
                elsewhere.push(server.delegations);
                under[server.under as usize] += 1;
            }
        }
        let [delegations_per_server, elsewhere] = [all, elsewhere].map(|mut degrees| {
            degrees.sort_unstable();
            degrees.chunk_by(|a, b| a == b).map(|same| (same[0], scaled(same.len() as u64))).collect()
        });
        let under = self.under.iter().zip(under).filter(|(_, n)| *n > 0);
        // Votes may have been lost since a name got here: what its slot says now holds.
        let busy = self.top.iter().filter_map(|t| {
            let slot = self.slots[t.hash as usize % SLOTS];
            match (exact, slot.winner == t.hash) {
                (true, _) => Some((t, t.count, 0)),
                (false, true) => Some((t, slot.votes, (slot.records - slot.votes) / 2)),
                (false, false) => None,
            }
        });
        Sharing {
            exact,
            sampled: kept,
            servers: scaled(kept),
            standard_error: if exact { 0.0 } else { 1.0 / (kept as f64).sqrt() },
            delegations_per_server,
            elsewhere,
            under: under.map(|(name, n)| (shown(name), scaled(n))).collect(),
            largest_error: busy.clone().map(|(.., error)| error.into()).max().unwrap_or(0),
            largest: busy.map(|(t, n, _)| (shown(&t.name), n.into())).collect(),
        }
    }
}

/// The name that a server is said to lie under: in the zone the one just below the apex, out of it the
/// top-level domain.
fn under<'a>(target: &'a [u8], place: Place, apex: &[u8]) -> &'a [u8] {
    let stop = if place == Place::OutOfZone { 1 } else { apex.len() };
    let mut at = target;
    loop {
        let up = name::parent(at);
        if up.len() <= stop || up.len() == at.len() {
            return at;
        }
        at = up;
    }
}
