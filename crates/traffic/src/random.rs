//! Random draws at the speed of a flood, reproducible for ever.
//!
//! One ChaCha8 stream for every query would cost more than the query. So [`measure::Seed`] keys a
//! block of [`BLOCK`] queries, and a query mixes its index into the block's key and counts on from
//! there (the finaliser is Stafford's variant 13, as in SplitMix64). Integers only; golden hashes pin it.

use measure::Seed;
use measure::seed::{STEP, mix};

/// Queries that share a key.
const BLOCK: u64 = 4096;

/// The keys of the blocks of one stream.
#[derive(Clone, Debug)]
pub(crate) struct Keys {
    seed: Seed,
    what: &'static str,
    block: u64,
    key: [u64; 2],
}

impl Keys {
    pub(crate) fn new(seed: Seed, what: &'static str) -> Self {
        let mut keys = Self { seed, what, block: 0, key: [0; 2] };
        keys.load(0);
        keys
    }

    fn load(&mut self, block: u64) {
        let mut draw = self.seed.draw(self.what, block);
        (self.block, self.key) = (block, [draw.bits(), draw.bits()]);
    }

    /// The draws of item `index`.
    pub(crate) fn draws(&mut self, index: u64) -> Draws {
        if index / BLOCK != self.block {
            self.load(index / BLOCK);
        }
        Draws(mix(self.key[0] ^ mix(self.key[1].wrapping_add(index.wrapping_mul(STEP)))))
    }
}

/// The draws of one item.
#[derive(Clone, Copy, Default)]
pub(crate) struct Draws(u64);

impl Draws {
    pub(crate) fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(STEP);
        mix(self.0)
    }

    pub(crate) fn below(&mut self, n: u64) -> u64 {
        ((u128::from(self.bits()) * u128::from(n)) >> 64) as u64
    }
}

/// A share as a threshold for 32 random bits.
pub(crate) fn threshold(share: f64) -> u64 {
    (share.clamp(0.0, 1.0) * 4_294_967_296.0).round() as u64
}

/// Values with weights, drawn by 32 random bits: the first bound above them.
#[derive(Clone, Debug)]
pub(crate) struct Table<T> {
    bounds: Vec<(u64, T)>,
    /// For each value of the highest eight bits where the search begins. It mostly ends there too, and a branch that is
    /// always the same costs nothing, where one for each value on the way costs more than all else of a draw.
    first: [u16; 256],
}

impl<T: Copy> Table<T> {
    /// At most 65,536 values; weights must have a positive sum.
    pub(crate) fn new(values: impl IntoIterator<Item = (T, f64)>) -> Self {
        let mut values: Vec<(T, f64)> = values.into_iter().filter(|v| v.1 > 0.0).collect();
        values.sort_by(|a, b| b.1.total_cmp(&a.1));
        let total: f64 = values.iter().map(|v| v.1).sum();
        let mut sum = 0.0;
        let mut bounds: Vec<(u64, T)> = values
            .into_iter()
            .map(|(value, weight)| {
                sum += weight;
                (threshold(sum / total), value)
            })
            .collect();
        if let Some(last) = bounds.last_mut() {
            last.0 = 1 << 32;
        }
        let first = std::array::from_fn(|high| bounds.partition_point(|b| b.0 <= (high as u64) << 24) as u16);
        Self { bounds, first }
    }

    pub(crate) fn get(&self, bits: u32) -> T {
        let mut n = usize::from(self.first[(bits >> 24) as usize]);
        // The last bound is above all.
        while self.bounds[n].0 <= u64::from(bits) {
            n += 1;
        }
        self.bounds[n].1
    }
}

/// Numbers from 0 with weights, drawn in two steps however many there are (Walker's aliases, made as Vose does).
#[derive(Clone, Debug)]
pub(crate) struct Alias {
    /// For each number: below how many of 2^32 it is drawn, and what is drawn otherwise.
    cells: Vec<(u32, u32)>,
}

impl Alias {
    /// At most 2^32 - 1 weights, each at least zero, with a positive sum.
    pub(crate) fn new(weights: &[f64]) -> Self {
        let count = weights.len();
        let mean = weights.iter().sum::<f64>() / count as f64;
        let mut left: Vec<f64> = weights.iter().map(|w| w / mean).collect();
        let mut cells: Vec<(u32, u32)> = (0..count as u32).map(|n| (u32::MAX, n)).collect();
        let (mut poor, mut rich): (Vec<usize>, Vec<usize>) = (0..count).partition(|&n| left[n] < 1.0);
        while let (Some(n), Some(&giver)) = (poor.pop(), rich.last()) {
            cells[n] = (threshold(left[n]).min(u64::from(u32::MAX)) as u32, giver as u32);
            left[giver] -= 1.0 - left[n];
            if left[giver] < 1.0 {
                rich.pop();
                poor.push(giver);
            }
        }
        Self { cells }
    }

    pub(crate) fn get(&self, bits: u64) -> u32 {
        let n = ((u128::from(bits) * self.cells.len() as u128) >> 64) as u32;
        let (below, other) = self.cells[n as usize];
        // The low bits of the product: as good as new random bits for fewer than 2^32 numbers.
        let rest = bits.wrapping_mul(self.cells.len() as u64) >> 32;
        if rest < u64::from(below) { n } else { other }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn golden_draws_never_change() {
        let mut keys = Keys::new(Seed(1), "test");
        let got: Vec<u64> = [0, 1, 4096, 1].iter().map(|&i| keys.draws(i).below(1_000_000)).collect();
        assert_eq!(got, GOLDEN);
    }

    const GOLDEN: [u64; 4] = [241_067, 151_070, 117_308, 151_070];

    #[test]
    fn neighbours_are_independent() {
        // Bits of the first draws of successive items: each set half of the time, and unlike the next item's.
        let mut keys = Keys::new(Seed(7), "test");
        let (mut set, mut flipped, mut before) = ([0u32; 64], [0u32; 64], 0u64);
        for i in 0..100_000 {
            let bits = keys.draws(i).bits();
            for bit in 0..64 {
                set[bit] += (bits >> bit & 1) as u32;
                flipped[bit] += ((bits ^ before) >> bit & 1) as u32;
            }
            before = bits;
        }
        // Six standard deviations.
        assert!(set.iter().chain(&flipped).all(|n| n.abs_diff(50_000) < 950), "{set:?} {flipped:?}");
    }

    #[test]
    fn tables_keep_weights() {
        let table = Table::new([('a', 1.0), ('b', 0.0), ('c', 3.0)]);
        let mut keys = Keys::new(Seed(2), "test");
        let a = (0..100_000).filter(|&i| table.get(keys.draws(i).bits() as u32) == 'a').count();
        assert!((24_200..25_800).contains(&a), "{a}");
        assert_eq!((table.get(0), table.get(u32::MAX)), ('c', 'a'));
    }

    #[test]
    fn aliases_keep_weights() {
        const COUNT: usize = 1_000_000;
        let weights: Vec<f64> =
            (0..1000).map(|n| if n % 10 == 0 { 0.0 } else { 1.0 / (1.0 + n as f64) }).collect();
        let total: f64 = weights.iter().sum();
        let alias = Alias::new(&weights);
        let mut keys = Keys::new(Seed(2), "test");
        let mut hits = vec![0u64; weights.len()];
        (0..COUNT as u64).for_each(|i| hits[alias.get(keys.draws(i).bits()) as usize] += 1);
        for (n, (&hits, weight)) in hits.iter().zip(&weights).enumerate() {
            let share = weight / total;
            let deviation = (COUNT as f64 * share * (1.0 - share)).sqrt();
            let off = (hits as f64 - COUNT as f64 * share).abs();
            assert!(off <= 6.0 * deviation, "{n}: {hits} of {COUNT}, expected {share}");
        }
        assert_eq!((Alias::new(&[3.0]).get(0), Alias::new(&[0.5]).get(u64::MAX)), (0, 0));
    }

    #[test]
    fn tables_find_what_a_search_from_the_beginning_finds() {
        let mut draws = Keys::new(Seed(3), "test").draws(0);
        for count in [1, 2, 3, 18, 600] {
            // Some bounds lie at a multiple of 2^24 exactly, most do not.
            let table = Table::new((0..count).map(|n| (n, 1.0 + (n % 4) as f64)));
            let search = |bits: u32| table.bounds.iter().find(|b| u64::from(bits) < b.0).map(|b| b.1);
            let edges: Vec<u32> =
                table.bounds.iter().flat_map(|b| [b.0 - 1, b.0]).filter_map(|b| b.try_into().ok()).collect();
            for bits in (0..10_000).map(|_| draws.bits() as u32).chain(edges).chain([0, u32::MAX]) {
                assert_eq!(Some(table.get(bits)), search(bits), "{count} {bits}");
            }
        }
    }
}
