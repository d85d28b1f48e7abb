//! How a zone of new TLDs is laid out so that any part of it can be made on its own.
//!
//! New TLDs are known by their rank in canonical order. Their name servers are numbered through:
//! a block of 1,000 TLDs always has the same number of servers, so the number of a TLD's first
//! server follows from its block alone. A keyed permutation sends the number of a server outside its TLD
//! to a rank among all such servers, in canonical order under COM, NET and ORG: the NS record
//! computes the server's name from that rank, and the glue, written rank by rank, meets the same name.

use super::Family;
use super::labels::{Labels, Vocabulary, mix};
use measure::{Draw, Seed};

/// TLDs in a block.
pub(super) const BLOCK: u64 = 1000;

/// Of 1,000 TLDs, how many have 4, 5, … 13 name servers: shaped like the root's, 5.521 on average.
const NS_SHARES: [usize; 10] = [330, 192, 298, 80, 55, 20, 12, 6, 4, 3];
/// How many of a TLD's servers lie inside it, in turn: 1.2 on average.
const INSIDE: [u64; 10] = [2, 1, 2, 0, 1, 2, 1, 2, 1, 0];
/// Where the others lie, in tenths.
const PARENTS: [(&str, u64); 3] = [("com", 4), ("net", 3), ("org", 3)];

/// Name servers of one TLD.
#[derive(Clone, Copy, Default)]
pub(super) struct Shape {
    pub inside: u64,
    pub outside: u64,
    /// Numbers of its first server inside and outside.
    pub first_inside: u64,
    pub first_outside: u64,
}

/// The layout of the new TLDs.
pub(super) struct Plan<'a> {
    pub family: Family,
    seed: Seed,
    /// New TLDs by rank.
    pub tlds: Labels<'a>,
    /// Second-level names under COM, NET and ORG by rank.
    pub parents: [(&'static str, Labels<'a>); 3],
    permutation: Permutation,
    keys: Keys,
    aaaa_ppm: u64,
}

struct Keys {
    inside: u64,
    outside: u64,
    ds: u64,
}

/// A new name server: its addresses and, outside its TLD, its host label.
pub(super) struct NewServer {
    pub host: &'static str,
    pub v4: std::net::Ipv4Addr,
    pub v6: Option<std::net::Ipv6Addr>,
}

impl<'a> Plan<'a> {
    pub fn new(
        family: Family,
        new_tlds: u64,
        seed: Seed,
        tld_words: &'a Vocabulary,
        second_words: &'a Vocabulary,
    ) -> Self {
        let outside = outside_servers(seed, new_tlds);
        let mut rest = outside;
        let parents = PARENTS.map(|(parent, tenths)| {
            let count = if parent == "org" { rest } else { outside * tenths / 10 };
            rest -= count;
            (parent, Labels::new(second_words, count, seed, parent))
        });
        let mut draw = seed.draw("servers", 0);
        Self {
            family,
            seed,
            tlds: Labels::new(tld_words, new_tlds, seed, "tlds"),
            parents,
            permutation: Permutation::new(outside, &mut draw),
            keys: Keys { inside: draw.bits(), outside: draw.bits(), ds: draw.bits() },
            aaaa_ppm: family.aaaa_ppm(new_tlds + super::base::TLDS),
        }
    }

    /// The shapes of the TLDs of a block, all [`BLOCK`] of them.
    pub fn shapes(&self, block: u64) -> Vec<Shape> {
        shapes(self.seed, block)
    }

    /// Where the server outside its TLD with this number lies: which parent, and its rank there.
    pub fn rank(&self, number: u64) -> (usize, u64) {
        let mut rank = self.permutation.apply(number);
        for (i, (_, labels)) in self.parents.iter().enumerate() {
            match rank.checked_sub(labels.count()) {
                Some(rest) => rank = rest,
                None => return (i, rank),
            }
        }
        unreachable!("the parents hold all servers")
    }

    /// The server inside its TLD with this number.
    pub fn inside(&self, number: u64) -> NewServer {
        self.server(self.keys.inside, number)
    }

    /// The server under a parent with this rank.
    pub fn outside(&self, parent: usize, rank: u64) -> NewServer {
        self.server(self.keys.outside ^ (parent as u64) << 60, rank)
    }

    /// The host label of a server under a parent.
    pub fn host(&self, parent: usize, rank: u64) -> &'static str {
        host(mix(self.keys.outside ^ (parent as u64) << 60 ^ rank))
    }

    fn server(&self, key: u64, index: u64) -> NewServer {
        let hash = mix(key ^ index);
        let more = mix(hash ^ key.rotate_left(32));
        let v6 = chosen(index, self.aaaa_ppm, key).then(|| super::address::v6(mix(more)));
        NewServer { host: host(hash), v4: super::address::v4(more), v6 }
    }

    /// The random bits of a TLD's DS records; `None` where it is not signed.
    pub fn ds(&self, rank: u64) -> Option<u64> {
        chosen(rank, self.family.ds_ppm(), self.keys.ds).then(|| mix(self.keys.ds ^ rank))
    }
}

fn host(hash: u64) -> &'static str {
    const HOSTS: [&str; 16] = [
        "ns1", "ns1", "ns1", "ns2", "ns2", "ns2", "ns3", "ns3", "ns4", "ns4", "ns", "dns1", "dns2", "dns5",
        "a.ns", "f.ns",
    ];
    HOSTS[(hash >> 60) as usize]
}

/// The shapes of a block's TLDs: always the same set, in an order of the block's own.
fn shapes(seed: Seed, block: u64) -> Vec<Shape> {
    let counts = NS_SHARES.iter().enumerate().flat_map(|(i, &n)| std::iter::repeat_n(i as u64 + 4, n));
    let mut all: Vec<Shape> = counts
        .zip(INSIDE.into_iter().cycle())
        .map(|(ns, inside)| Shape { inside, outside: ns - inside, ..Shape::default() })
        .collect();
    let (inside, outside) = all.iter().fold((0, 0), |(i, o), s| (i + s.inside, o + s.outside));
    let mut draw = seed.draw("name servers", block);
    for i in (1..all.len()).rev() {
        all.swap(i, draw.below(i as u64 + 1) as usize);
    }
    let (mut next_inside, mut next_outside) = (block * inside, block * outside);
    for shape in &mut all {
        (shape.first_inside, shape.first_outside) = (next_inside, next_outside);
        next_inside += shape.inside;
        next_outside += shape.outside;
    }
    all
}

/// Servers outside their TLDs, of that many new TLDs.
fn outside_servers(seed: Seed, new_tlds: u64) -> u64 {
    match new_tlds {
        0 => 0,
        n => {
            let last = shapes(seed, (n - 1) / BLOCK)[((n - 1) % BLOCK) as usize];
            last.first_outside + last.outside
        }
    }
}

/// True for `ppm` in a million of the indices, evenly: of any run of indices, to a thousand or so, the
/// share is met exactly, so that counts do not wander with the seed.
fn chosen(index: u64, ppm: u64, key: u64) -> bool {
    let scattered = index & !1023 | (index.wrapping_mul(key | 1) ^ key) & 1023;
    (scattered + 1) * ppm / 1_000_000 != scattered * ppm / 1_000_000
}

/// A keyed permutation of `0..n`.
struct Permutation {
    n: u64,
    mask: u64,
    shift: u32,
    keys: [u64; 6],
}

impl Permutation {
    fn new(n: u64, draw: &mut Draw) -> Self {
        let bits = (64 - n.saturating_sub(1).leading_zeros()).max(2);
        Self {
            n,
            mask: u64::MAX >> (64 - bits),
            shift: bits.div_ceil(2),
            keys: std::array::from_fn(|_| draw.bits()),
        }
    }

    /// Every step is a bijection on `0..=mask`; what falls outside goes round again.
    fn apply(&self, mut x: u64) -> u64 {
        loop {
            for pair in self.keys.chunks_exact(2) {
                x = x.wrapping_mul(pair[0] | 1).wrapping_add(pair[1]) & self.mask;
                x ^= x >> self.shift;
            }
            if x < self.n {
                return x;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_permutation_meets_every_number_once(n in 1u64..5000, seed in any::<u64>()) {
            let p = Permutation::new(n, &mut Seed(seed).draw("test", 0));
            let mut seen = vec![false; n as usize];
            for x in 0..n {
                let y = p.apply(x) as usize;
                prop_assert!(!std::mem::replace(&mut seen[y], true));
            }
        }

        #[test]
        fn shares_are_met_evenly(key in any::<u64>(), ppm in 0u64..=1_000_000, n in 1u64..30_000) {
            let hits = (0..n).filter(|&i| chosen(i, ppm, key)).count() as f64;
            let expected = n as f64 * ppm as f64 / 1e6;
            prop_assert!((hits - expected).abs() <= 1025.0 * (ppm as f64 / 1e6).min(1.0 - ppm as f64 / 1e6) + 1.0);
        }
    }

    #[test]
    fn a_block_has_its_number_of_servers() {
        assert_eq!(NS_SHARES.iter().sum::<usize>() as u64, BLOCK);
        for block in [0, 1, 9999] {
            let shapes = shapes(Seed(5), block);
            assert_eq!(shapes.len() as u64, BLOCK);
            assert_eq!(shapes.iter().map(|s| s.inside + s.outside).sum::<u64>(), 5521);
            assert!(shapes.windows(2).all(|w| w[0].first_outside + w[0].outside == w[1].first_outside));
            assert_eq!(shapes[0].first_outside, outside_servers(Seed(5), block * BLOCK));
        }
    }
}
