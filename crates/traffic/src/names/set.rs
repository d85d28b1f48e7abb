//! A set of names: a hash table of offsets into the names' own memory.

use wire::name::{MAX_NAME, wire_len};

const FREE: Entry = Entry { tag: 0, at: u32::MAX };

/// Half of a name's hash, so that a look at another name's octets is rare, and where the name is.
#[derive(Clone, Copy, PartialEq)]
struct Entry {
    tag: u32,
    at: u32,
}

/// Names and everything above them down to the origin, by open addressing at most half full.
pub(super) struct Set {
    table: Vec<Entry>,
    used: usize,
    /// A bit for each tag there is, eight bits to a slot of the table: most names that are not there
    /// are decided by this alone, which stays in a cache where the table of a million names does not.
    filter: Vec<u64>,
}

impl Set {
    /// Takes the names of a list alone; calls `twice` with the number of each that was there before.
    pub(super) fn of_names(bytes: &[u8], starts: &[u32], mut twice: impl FnMut(usize)) -> Self {
        let mut set = Self::with_room(starts.len());
        for (n, &start) in starts.iter().enumerate() {
            if !set.insert(bytes, start) {
                twice(n);
            }
        }
        set
    }

    fn with_room(names: usize) -> Self {
        let slots = (names * 2).next_power_of_two().max(16);
        Self { table: vec![FREE; slots], used: 0, filter: vec![0; slots / 8] }
    }

    /// Takes the names of `bytes` that begin at `starts`, and the names above them that are longer
    /// than `origin_len` octets: in wire format a name above is the end of the name.
    pub(super) fn new(bytes: &[u8], starts: &[u32], origin_len: usize) -> Self {
        let mut set = Self::with_room(starts.len());
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
            self.filter = vec![0; self.table.len() / 8];
            for entry in old.into_iter().filter(|&e| e != FREE) {
                let (slot, _) = self.find(bytes, name_at(bytes, entry.at));
                self.put(slot, entry);
            }
        }
        let (slot, tag) = self.find(bytes, name_at(bytes, at));
        if self.table[slot] != FREE {
            return false;
        }
        self.put(slot, Entry { tag, at });
        self.used += 1;
        true
    }

    fn put(&mut self, slot: usize, entry: Entry) {
        let (word, bit) = self.bit(entry.tag);
        self.filter[word] |= bit;
        self.table[slot] = entry;
    }

    /// Where the filter says whether a tag is there.
    fn bit(&self, tag: u32) -> (usize, u64) {
        (tag as usize >> 6 & (self.filter.len() - 1), 1 << (tag & 63))
    }

    /// The slot of the name, or the free slot where it would be; and its tag.
    fn find(&self, bytes: &[u8], wire: &[u8]) -> (usize, u32) {
        let hash = hash(wire);
        let (mut slot, tag) = (hash as usize & (self.table.len() - 1), (hash >> 32) as u32);
        loop {
            let entry = self.table[slot];
            let same =
                entry.tag == tag && entry != FREE && name_at(bytes, entry.at).eq_ignore_ascii_case(wire);
            if same || entry == FREE {
                return (slot, tag);
            }
            slot = (slot + 1) & (self.table.len() - 1);
        }
    }

    /// Where the name is that was there first, or that a longer name was there first with.
    pub(super) fn find_at(&self, bytes: &[u8], wire: &[u8]) -> Option<u32> {
        self.contains(bytes, wire).then(|| self.table[self.find(bytes, wire).0].at)
    }

    /// Whether the name is there.
    pub(super) fn contains(&self, bytes: &[u8], wire: &[u8]) -> bool {
        if wire.len() > MAX_NAME {
            return false;
        }
        let (word, bit) = self.bit((hash(wire) >> 32) as u32);
        self.filter[word] & bit != 0 && self.table[self.find(bytes, wire).0] != FREE
    }
}

/// Of the name in small letters.
fn hash(wire: &[u8]) -> u64 {
    // Odd constants with well-spread bits: the fractions of sqrt(2) and sqrt(3).
    const STATE: u64 = 0x6a09_e667_f3bc_c909;
    const FACTOR: u64 = 0xbb67_ae85_84ca_a73b;
    let fold = |state: u64, word: u64| {
        let product = u128::from(state ^ word) * u128::from(FACTOR);
        (product as u64) ^ (product >> 64) as u64
    };
    let mut state = STATE ^ wire.len() as u64;
    let mut chunks = wire.chunks_exact(8);
    for chunk in &mut chunks {
        state = fold(state, small(u64::from_le_bytes(chunk.try_into().expect("chunks of eight"))));
    }
    let rest = chunks.remainder().iter().rev().fold(0, |word, &octet| word << 8 | u64::from(octet));
    // Once more at the end: the last word must reach every bit too.
    fold(fold(state, small(rest)), STATE)
}

/// Eight octets in small letters, all at once. Octets above 127 are no letters, as in `make_ascii_lowercase`.
fn small(word: u64) -> u64 {
    const ONES: u64 = 0x0101_0101_0101_0101;
    let low = word & (0x7f * ONES);
    // The highest bit of each octet: at least 'A', above 'Z', below 128.
    let (from_a, above_z) = (low + (0x80 - 0x41) * ONES, low + (0x80 - 0x5b) * ONES);
    let capital = from_a & !above_z & !word & (0x80 * ONES);
    word | capital >> 2
}

/// The name that begins there.
pub(super) fn name_at(bytes: &[u8], at: u32) -> &[u8] {
    let rest = &bytes[at as usize..];
    &rest[..wire_len(rest).unwrap_or(0)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn eight_octets_become_small_as_one_does() {
        for octet in 0..=255u8 {
            for at in 0..8 {
                let mut octets = *b"Az@[`{Z9";
                octets[at] = octet;
                let got = small(u64::from_le_bytes(octets)).to_le_bytes();
                assert_eq!(got, octets.map(|o| o.to_ascii_lowercase()), "{octets:?}");
            }
        }
    }
}
