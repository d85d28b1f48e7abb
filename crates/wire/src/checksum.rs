//! The Internet checksum (RFC 1071), and the UDP checksum as a property of queries.

use std::net::IpAddr;

/// The UDP checksum that a query is to carry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Checksum {
    /// As computed.
    #[default]
    Right,
    /// Zero: none was computed (RFC 768; IPv4 only, as RFC 8200 section 8.1 forbids it).
    Absent,
    /// One that does not match. Only who writes the packet himself can send it: captures and AF_XDP.
    Bad,
}

/// The ones' complement sum of the 16-bit words in network order, folded to 16 bits (RFC 1071). An odd octet is padded with zero.
/// `bytes` has less than four gigabytes.
///
/// Sums of parts that begin at even offsets may be added and given to [`fold`].
pub fn sum(bytes: &[u8]) -> u64 {
    // In the machine's own order, eight octets at a time, in two sums that do not wait for each other: the order of octets
    // and of additions makes no difference to a sum with end-around carry (RFC 1071, section 2).
    let (words, rest) = bytes.as_chunks::<8>();
    let (mut even, mut odd) = (0u64, 0u64);
    for word in words {
        let word = u64::from_ne_bytes(*word);
        even += word & 0xffff_ffff;
        odd += word >> 32;
    }
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    let last = u64::from_ne_bytes(last);
    let sum = even + odd + (last & 0xffff_ffff) + (last >> 32);
    u16::from_be(fold(sum)).into()
}

/// Folds a sum to 16 bits; its complement is the checksum.
pub fn fold(sum: u64) -> u16 {
    let sum = (sum >> 32) + (sum & 0xffff_ffff);
    let sum = (sum >> 32) + (sum & 0xffff_ffff);
    let sum = (sum >> 16) + (sum & 0xffff);
    let sum = (sum >> 16) + (sum & 0xffff);
    ((sum >> 16) + (sum & 0xffff)) as u16
}

/// The sum of the pseudo-header that the checksums of UDP and TCP cover (RFC 768; RFC 8200, section 8.1). `length` is in octets, from
/// the header of UDP or TCP on.
pub fn pseudo_header(from: IpAddr, to: IpAddr, protocol: u8, length: usize) -> u64 {
    let address = |address| match address {
        IpAddr::V4(a) => u64::from(a.to_bits()),
        IpAddr::V6(a) => sum(&a.octets()),
    };
    address(from) + address(to) + u64::from(protocol) + length as u64
}

#[cfg(test)]
mod tests {
    use super::{fold, sum};
    use proptest::prelude::*;

    /// The rule as RFC 1071 states it, one pair of octets at a time.
    fn by_pairs(bytes: &[u8]) -> u16 {
        bytes.chunks(2).fold(0u16, |sum, pair| {
            let word = u16::from_be_bytes([pair[0], *pair.get(1).unwrap_or(&0)]);
            let (sum, carry) = sum.overflowing_add(word);
            sum + u16::from(carry)
        })
    }

    proptest! {
        #[test]
        fn a_sum_is_that_of_the_pairs_and_of_its_parts(bytes in prop::collection::vec(any::<u8>(), 0..200), cut in 0usize..100) {
            prop_assert_eq!(fold(sum(&bytes)), by_pairs(&bytes));
            let (head, tail) = bytes.split_at((2 * cut).min(bytes.len()));
            prop_assert_eq!(fold(sum(head) + sum(tail)), by_pairs(&bytes));
        }
    }

    #[test]
    fn every_carry_is_folded() {
        assert_eq!(fold(u64::MAX), 0xffff);
        assert_eq!(fold(0xffff_0001), 1, "0xffff is ones' complement's other zero");
        assert_eq!(fold(sum(&[0xff; 65_535])), by_pairs(&[0xff; 65_535]));
    }
}
