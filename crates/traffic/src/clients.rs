//! Where the queries of a capture come from: addresses and ports, seeded.
//!
//! IPv4 clients are in 10.0.0.0/8, IPv6 clients in fd53:c11e::/96. A few send most: the number of a
//! client's queries falls as one over its rank (the octave of the rank is drawn first, then the rank in
//! it), and the ranks are scattered over the range. Ports are uniform
//! over 1024 to 65535, IDs over all numbers.

use crate::Profile;
use crate::random::{Keys, threshold};
use measure::Seed;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// The most clients of a profile: those of 10.0.0.0/8 without its first address.
pub const CLIENTS_MAX: u32 = (1 << 24) - 1;

/// Draws clients.
#[derive(Clone, Debug)]
pub struct Clients {
    keys: Keys,
    count: u64,
    octaves: u64,
    ipv6: u64,
}

impl Clients {
    /// The clients of a profile.
    pub fn new(profile: &Profile, seed: Seed) -> Self {
        let count = u64::from(profile.clients.clamp(1, CLIENTS_MAX));
        let octaves = u64::from(count.ilog2()) + 1;
        Self { keys: Keys::new(seed, "clients"), count, octaves, ipv6: threshold(profile.ipv6) }
    }

    /// The client of query `index`, and the ID that it gives its query.
    pub fn get(&mut self, index: u64) -> (SocketAddr, u16) {
        let mut draws = self.keys.draws(index);
        let first = 1u64 << draws.below(self.octaves);
        // The last octave may be cut short by the count.
        let rank = first + draws.below(first.min(self.count + 1 - first));
        // An odd factor permutes the numbers below 2^24 and keeps zero where it is.
        let host = (rank * 0x9e_3779) as u32 & CLIENTS_MAX;
        let bits = draws.bits();
        let port = 1024 + (((bits >> 32) * 64_512) >> 32) as u16;
        let address = if bits & 0xffff_ffff < self.ipv6 {
            IpAddr::V6(Ipv6Addr::from_bits(0xfd53_c11e << 96 | u128::from(host)))
        } else {
            IpAddr::V4(Ipv4Addr::from_bits(10 << 24 | host))
        };
        (SocketAddr::new(address, port), draws.bits() as u16)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    #[test]
    fn few_clients_send_most() {
        let mut profile = Profile::load("rzaia").unwrap();
        (profile.clients, profile.ipv6) = (10_000, 0.25);
        let mut clients = Clients::new(&profile, Seed(1));
        let mut hits: HashMap<IpAddr, u32> = HashMap::new();
        let mut v6 = 0;
        for index in 0..100_000 {
            let (client, _) = clients.get(index);
            assert!(client.port() >= 1024);
            match client.ip() {
                IpAddr::V4(a) => assert_eq!(a.octets()[0], 10),
                IpAddr::V6(a) => {
                    assert_eq!(a.segments()[..6], [0xfd53, 0xc11e, 0, 0, 0, 0]);
                    v6 += 1;
                }
            }
            *hits.entry(client.ip()).or_default() += 1;
        }
        assert!((24_200..25_800).contains(&v6), "{v6}");
        let mut counts: Vec<u32> = hits.into_values().collect();
        counts.sort_unstable_by(|a, b| b.cmp(a));
        let top: u32 = counts[..100].iter().sum();
        assert!(counts.len() > 5_000 && top > 40_000, "{} clients, top 100 send {top}", counts.len());
    }

    #[test]
    fn one_client_is_one() {
        let mut profile = Profile::load("nominet").unwrap();
        profile.clients = 1;
        let mut clients = Clients::new(&profile, Seed(1));
        let first = clients.get(0).0.ip();
        assert!((0..1000).all(|i| clients.get(i).0.ip() == first));
    }
}
