//! Addresses anonymised with a key, prefixes preserved: Crypto-PAn.
//!
//! J. Xu, J. Fan, M. H. Ammar, S. B. Moon: "Prefix-Preserving IP Address Anonymization: Measurement-Based Security
//! Evaluation and a New Cryptography-Based Scheme", ICNP 2002. Two addresses that share their first n bits share
//! exactly the first n bits afterwards; the same key gives the same addresses in every capture, so that traces that
//! were anonymised apart can be compared. An attacker who knows some pairs (the servers' addresses are public) knows the
//! prefixes that others share with them: that is the price of keeping the structure.

use aws_lc_rs::cipher::{AES_128, EncryptingKey, UnboundCipherKey};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::Range;

/// Addresses that are remembered, as powers of two: 8 MiB for each family.
const CACHE_V4: u32 = 20;
const CACHE_V6: u32 = 18;
/// Prefixes that are remembered of each length, likewise: 2 MiB.
const CACHE_PREFIXES: u32 = 16;
/// Which bits addresses of one network have in common: two of IPv4, two of IPv6.
const PREFIXES: [Range<u32>; 4] = [0..16, 16..24, 0..32, 32..64];

/// 32 octets: a key of AES-128, then what the padding is made of.
#[derive(Clone, PartialEq, Eq)]
pub struct Key([u8; 32]);

/// Why a text is not a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a key: expected 64 hexadecimal digits (32 octets)")]
pub struct KeyError;

impl Key {
    /// A key of these octets.
    pub fn new(octets: [u8; 32]) -> Self {
        Self(octets)
    }

    /// A new key from the system's random numbers.
    pub fn random() -> Self {
        let mut octets = [0; 32];
        aws_lc_rs::rand::fill(&mut octets).expect("the system has random numbers");
        Self(octets)
    }

    /// 64 hexadecimal digits: what [`std::str::FromStr`] reads.
    pub fn to_hex(&self) -> String {
        self.0.iter().map(|octet| format!("{octet:02x}")).collect()
    }
}

impl fmt::Debug for Key {
    /// Says nothing of the key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(..)")
    }
}

impl std::str::FromStr for Key {
    type Err = KeyError;
    /// Reads 64 hexadecimal digits, white space around them.
    fn from_str(text: &str) -> Result<Self, KeyError> {
        let digits = text.trim().as_bytes();
        if digits.len() != 64 {
            return Err(KeyError);
        }
        let mut octets = [0; 32];
        for (octet, pair) in octets.iter_mut().zip(digits.chunks_exact(2)) {
            let digit = |b: u8| char::from(b).to_digit(16).ok_or(KeyError);
            *octet = (digit(pair[0])? * 16 + digit(pair[1])?) as u8;
        }
        Ok(Self(octets))
    }
}

/// Not cryptographic: tells a place.
fn hash(bits: u128) -> u64 {
    ((bits >> 64) as u64 ^ (bits as u64).rotate_left(29)).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// Gives addresses for addresses, and remembers many of them.
pub struct Anonymizer {
    cipher: EncryptingKey,
    pad: u128,
    /// The address that zero becomes; zero stands for an empty place below.
    zero: (u32, u128),
    /// Pairs by a hash of the first: a later one takes the place of an earlier one.
    v4: Vec<(u32, u32)>,
    v6: Vec<(u128, u128)>,
    /// Of [`PREFIXES`]: the bits before the last one, and one more than they are; what is flipped.
    prefixes: [Vec<(u128, u64)>; 4],
}

impl Anonymizer {
    /// Begins with a key.
    pub fn new(key: &Key) -> Self {
        let (cipher, pad) = key.0.split_at(16);
        let cipher = UnboundCipherKey::new(&AES_128, cipher).and_then(EncryptingKey::ecb);
        let cipher = cipher.expect("sixteen octets are a key of AES-128");
        // Zeros cost no memory before they are written.
        let (v4, v6) = (vec![(0, 0); 1 << CACHE_V4], vec![(0, 0); 1 << CACHE_V6]);
        let prefixes = [(); 4].map(|()| vec![(0, 0); 1 << CACHE_PREFIXES]);
        let mut all = Self { cipher, pad: 0, zero: (0, 0), v4, v6, prefixes };
        let mut block: [u8; 16] = pad.try_into().expect("half a key");
        all.encrypt(&mut block);
        all.pad = u128::from_be_bytes(block);
        all.zero = (all.flips_v4(0), all.flips_v6(0));
        all
    }

    fn encrypt(&self, blocks: &mut [u8]) {
        self.cipher.encrypt(blocks).expect("whole blocks are encrypted");
    }

    /// The algorithm of the paper: bit n is flipped by the first bit of what AES makes of the n bits before it, filled up
    /// with padding. Gives the flips of some bits; the address is the upper bits.
    fn compute(&self, address: u128, bits: Range<u32>) -> u128 {
        let mut blocks = [0; 16 * 64];
        let blocks = &mut blocks[..16 * bits.len()];
        for (n, block) in bits.zip(blocks.chunks_exact_mut(16)) {
            let kept = !(u128::MAX >> n);
            block.copy_from_slice(&(address & kept | self.pad & !kept).to_be_bytes());
        }
        self.encrypt(blocks);
        blocks.chunks_exact(16).fold(0, |flips, block| flips << 1 | u128::from(block[0] >> 7))
    }

    /// The flips of one of [`PREFIXES`], which many addresses share.
    fn prefix(&mut self, which: usize, address: u128) -> u128 {
        let bits = PREFIXES[which].clone();
        let key = (address >> (129 - bits.end)) + 1;
        let place = (hash(key) >> (64 - CACHE_PREFIXES)) as usize;
        if self.prefixes[which][place].0 != key {
            self.prefixes[which][place] = (key, self.compute(address, bits) as u64);
        }
        self.prefixes[which][place].1.into()
    }

    fn flips_v4(&mut self, address: u32) -> u32 {
        let address = u128::from(address) << 96;
        (self.prefix(0, address) << 16 | self.prefix(1, address) << 8 | self.compute(address, 24..32)) as u32
    }

    fn flips_v6(&mut self, address: u128) -> u128 {
        self.prefix(2, address) << 96 | self.prefix(3, address) << 64 | self.compute(address, 64..128)
    }

    /// The address for an IPv4 address.
    pub fn v4(&mut self, address: Ipv4Addr) -> Ipv4Addr {
        let bits = address.to_bits();
        if bits == 0 {
            return self.zero.0.into();
        }
        let place = (bits.wrapping_mul(0x9e37_79b1) >> (32 - CACHE_V4)) as usize;
        if self.v4[place].0 != bits {
            self.v4[place] = (bits, bits ^ self.flips_v4(bits));
        }
        self.v4[place].1.into()
    }

    /// The address for an IPv6 address.
    pub fn v6(&mut self, address: Ipv6Addr) -> Ipv6Addr {
        let bits = address.to_bits();
        if bits == 0 {
            return self.zero.1.into();
        }
        let place = (hash(bits) >> (64 - CACHE_V6)) as usize;
        if self.v6[place].0 != bits {
            self.v6[place] = (bits, bits ^ self.flips_v6(bits));
        }
        self.v6[place].1.into()
    }

    /// The address for an address of either family.
    pub fn ip(&mut self, address: IpAddr) -> IpAddr {
        match address {
            IpAddr::V4(address) => self.v4(address).into(),
            IpAddr::V6(address) => self.v6(address).into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The key of the sample in Crypto-PAn 1.0, the authors' implementation
    /// (<https://web.archive.org/web/20180908092841/https://www.cc.gatech.edu/computing/Telecomm/projects/cryptopan/>).
    const SAMPLE: [u8; 32] = [
        21, 34, 23, 141, 51, 164, 207, 128, 19, 10, 91, 22, 73, 144, 125, 16, 216, 152, 143, 131, 121, 121,
        101, 39, 98, 87, 76, 45, 42, 132, 34, 2,
    ];

    #[test]
    fn addresses_are_those_of_the_reference() {
        let mut all = Anonymizer::new(&Key::new(SAMPLE));
        // From the sample's sample_trace_raw.dat and sample_trace_sanitized.dat.
        for (raw, sanitized) in [
            ("128.11.68.132", "135.242.180.132"),
            ("129.118.74.4", "134.136.186.123"),
            ("130.132.252.244", "133.68.164.234"),
            ("141.223.7.43", "141.167.8.160"),
            ("141.233.145.108", "141.129.237.235"),
            ("152.163.225.39", "151.140.114.167"),
            ("156.29.3.236", "147.225.12.42"),
            ("165.247.96.84", "162.9.99.234"),
            ("192.102.249.13", "252.138.62.131"),
            ("198.51.77.238", "249.18.186.254"),
            ("203.12.160.252", "244.248.163.4"),
            ("4.3.88.225", "124.60.155.63"),
            ("64.39.15.238", "0.219.7.41"),
            // What other implementations agree on for 128 bits, of which the authors' has none (Yawning's cryptopan).
            ("::1", "78ff:f001:9fc0:20df:8380:b1f1:704:ed"),
            ("::2", "78ff:f001:9fc0:20df:8380:b1f1:704:ef"),
            ("::ffff", "78ff:f001:9fc0:20df:8380:b1f1:704:f838"),
            ("2001:db8::1", "4401:2bc:603f:d91d:27f:ff8e:e6f1:dc1e"),
            ("2001:db8::2", "4401:2bc:603f:d91d:27f:ff8e:e6f1:dc1c"),
        ] {
            let (raw, sanitized): (IpAddr, IpAddr) = (raw.parse().unwrap(), sanitized.parse().unwrap());
            // The second time it is remembered.
            assert_eq!([all.ip(raw), all.ip(raw)], [sanitized; 2], "{raw}");
        }
    }

    #[test]
    fn keys_are_digits_and_tell_nothing() {
        let key = Key::random();
        assert_eq!(format!(" {}\n", key.to_hex()).parse(), Ok(key.clone()));
        assert_ne!(key, Key::random());
        assert_eq!(format!("{key:?}"), "Key(..)");
        for bad in ["", "00", &"0".repeat(63), &"g".repeat(64), &"é".repeat(32)] {
            assert_eq!(bad.parse::<Key>(), Err(KeyError));
        }
    }

    proptest! {
        // Each has tables of its own.
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn common_prefixes_keep_their_length(key: [u8; 32], a: u32, b: u32, n in 0u32..33) {
            let b = if n == 0 { b } else { a & !(u32::MAX.checked_shr(n).unwrap_or(0)) | b & u32::MAX.checked_shr(n).unwrap_or(0) };
            let mut all = Anonymizer::new(&Key::new(key));
            let common = |a: Ipv4Addr, b: Ipv4Addr| (a.to_bits() ^ b.to_bits()).leading_zeros();
            let (a, b) = (Ipv4Addr::from(a), Ipv4Addr::from(b));
            let (x, y) = (all.v4(a), all.v4(b));
            prop_assert_eq!(common(x, y), common(a, b));
        }

        #[test]
        fn common_prefixes_of_128_bits_keep_their_length(key: [u8; 32], a: u128, b: u128, n in 1u32..128) {
            let b = a & !(u128::MAX >> n) | b & (u128::MAX >> n);
            let mut all = Anonymizer::new(&Key::new(key));
            let common = |a: Ipv6Addr, b: Ipv6Addr| (a.to_bits() ^ b.to_bits()).leading_zeros();
            let (a, b) = (Ipv6Addr::from(a), Ipv6Addr::from(b));
            let (x, y) = (all.v6(a), all.v6(b));
            prop_assert_eq!(common(x, y), common(a, b));
        }
    }
}
