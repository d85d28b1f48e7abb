//! A fair sample of a stream of names, in the stream's order (Vitter's algorithm R).

use super::set::name_at;
use crate::random::Keys;
use measure::Seed;

/// Names one after the other, where each starts, and the type that came with each.
#[derive(Default)]
pub(super) struct List {
    pub(super) bytes: Vec<u8>,
    pub(super) starts: Vec<u32>,
    pub(super) types: Vec<u16>,
}

impl List {
    /// Keeps the names for which `keep` says so, called with number and name of each.
    pub(super) fn retain(&mut self, mut keep: impl FnMut(usize, &[u8]) -> bool) {
        let mut left = 0;
        for n in 0..self.starts.len() {
            if keep(n, name_at(&self.bytes, self.starts[n])) {
                (self.starts[left], self.types[left]) = (self.starts[n], self.types[n]);
                left += 1;
            }
        }
        self.starts.truncate(left);
        self.types.truncate(left);
    }
}

/// Keeps at most `limit` names.
pub(super) struct Reservoir {
    keys: Keys,
    limit: usize,
    /// Names offered.
    pub(super) seen: u64,
    bytes: Vec<u8>,
    /// Each kept name: its number in the stream, its start in `bytes`, its type, its length.
    kept: Vec<(u64, u32, u16, u8)>,
    live: usize,
}

impl Reservoir {
    pub(super) fn new(seed: Seed, limit: usize) -> Self {
        let keys = Keys::new(seed, "names");
        Self { keys, limit, seen: 0, bytes: Vec::new(), kept: Vec::new(), live: 0 }
    }

    pub(super) fn push(&mut self, wire: &[u8], rtype: u16) {
        let n = self.seen;
        self.seen += 1;
        let slot = if self.kept.len() < self.limit {
            self.kept.push((n, 0, 0, 0));
            self.kept.len() - 1
        } else {
            let slot = self.keys.draws(n).below(self.seen);
            if slot >= self.limit as u64 {
                return;
            }
            slot as usize
        };
        self.live = self.live - usize::from(self.kept[slot].3) + wire.len();
        // A name is at most 255 octets: its length fits.
        self.kept[slot] = (n, self.bytes.len() as u32, rtype, wire.len() as u8);
        self.bytes.extend_from_slice(wire);
        if self.bytes.len() > 2 * self.live + (1 << 20) {
            self.compact();
        }
    }

    fn compact(&mut self) {
        let mut bytes = Vec::with_capacity(self.live + self.live / 2);
        for (_, start, _, len) in &mut self.kept {
            let old = *start as usize;
            *start = bytes.len() as u32;
            bytes.extend_from_slice(&self.bytes[old..old + usize::from(*len)]);
        }
        self.bytes = bytes;
    }

    /// The names that were kept, in the stream's order.
    pub(super) fn finish(mut self) -> List {
        self.kept.sort_unstable_by_key(|k| k.0);
        self.compact();
        self.bytes.shrink_to_fit();
        List {
            bytes: self.bytes,
            starts: self.kept.iter().map(|k| k.1).collect(),
            types: self.kept.iter().map(|k| k.2).collect(),
        }
    }
}
