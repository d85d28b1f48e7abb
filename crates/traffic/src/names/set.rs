//! Which names there are: a hash table of offsets into the names' own memory.

use wire::name::{MAX_NAME, wire_len};
use wire::question::hash_octets;

const FREE: u32 = u32::MAX;

/// Names and everything above them down to the origin, by open addressing at most half full.
pub(super) struct Set {
    table: Vec<u32>,
    used: usize,
}

impl Set {
    /// Takes the names of `bytes` that begin at `starts`, and the names above them that are longer
    /// than `origin_len` octets: in wire format a name above is the end of the name.
    pub(super) fn new(bytes: &[u8], starts: &[u32], origin_len: usize) -> Self {
        let mut set = Self { table: vec![FREE; (starts.len() * 2).next_power_of_two().max(16)], used: 0 };
        for &start in starts {
            let mut at = start;
            while name_at(bytes, at).len() > origin_len.max(1) {
                if !set.insert(bytes, at) {
                    break; // The names above it went in with its first copy.
                }
                at += 1 + u32::from(bytes[at as usize]);
            }
        }
        set
    }

    fn insert(&mut self, bytes: &[u8], at: u32) -> bool {
        if self.used * 2 >= self.table.len() {
            let old = std::mem::take(&mut self.table);
            self.table = vec![FREE; old.len() * 2];
            for entry in old.into_iter().filter(|&e| e != FREE) {
                let slot = self.find(bytes, name_at(bytes, entry));
                self.table[slot] = entry;
            }
        }
        let slot = self.find(bytes, name_at(bytes, at));
        if self.table[slot] != FREE {
            return false;
        }
        self.table[slot] = at;
        self.used += 1;
        true
    }

    /// The slot of the name, or the free slot where it would be.
    fn find(&self, bytes: &[u8], wire: &[u8]) -> usize {
        let mut lower = [0; MAX_NAME];
        let lower = &mut lower[..wire.len()];
        lower.copy_from_slice(wire);
        lower.make_ascii_lowercase();
        let mask = self.table.len() - 1;
        let mut slot = hash_octets(lower) as usize & mask;
        while self.table[slot] != FREE && !name_at(bytes, self.table[slot]).eq_ignore_ascii_case(lower) {
            slot = (slot + 1) & mask;
        }
        slot
    }

    pub(super) fn contains(&self, bytes: &[u8], wire: &[u8]) -> bool {
        wire.len() <= MAX_NAME && self.table[self.find(bytes, wire)] != FREE
    }
}

fn name_at(bytes: &[u8], at: u32) -> &[u8] {
    let rest = &bytes[at as usize..];
    &rest[..wire_len(rest).unwrap_or(0)]
}
