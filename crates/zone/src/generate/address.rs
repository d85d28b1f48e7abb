//! Addresses that look like servers' addresses.

use std::net::{Ipv4Addr, Ipv6Addr};

/// A unicast IPv4 address from random bits; none of the private or reserved blocks.
pub(super) fn v4(bits: u64) -> Ipv4Addr {
    let [a, b, c, d, ..] = bits.to_le_bytes();
    // 24 to 215: below multicast, above 10/8.
    let first = 24 + (u32::from(a) * 192 / 256) as u8;
    let second = match (first, b) {
        (100, 64..=127) | (198, 18..=51) => b / 64 + 4,
        (169, 254) | (192, 168) => 7,
        (172, 16..=31) => b + 64,
        (192, 0) | (203, 0) | (192, 88) => 9,
        _ => b,
    };
    let first = if first == 127 { 64 } else { first };
    Ipv4Addr::new(first, second, c, 1 + (u32::from(d) * 254 / 256) as u8)
}

/// A global IPv6 address in the manner of figure 1.1: `2001:838:37:2::ac`.
pub(crate) fn v6(bits: u64) -> Ipv6Addr {
    let field = |shift: u32, n: u64| ((((bits >> shift) & 0xffff) * n) >> 16) as u16;
    // From 2001:400 on: below that are special-purpose blocks. Never in 2001:db8.
    let block = match 0x400 + field(0, 0xb00) {
        0xdb8 => 0x838,
        block => block,
    };
    Ipv6Addr::new(0x2001, block, 1 + field(16, 0xfffe), 1 + field(32, 15), 0, 0, 0, 1 + field(48, 0xff))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn addresses_are_unicast(bits in any::<u64>()) {
            let a = v4(bits);
            prop_assert!(!a.is_private() && !a.is_loopback() && !a.is_link_local() && !a.is_multicast(), "{}", a);
            prop_assert!(!a.is_documentation() && a.octets()[0] > 23 && a.octets()[3] > 0, "{}", a);
            let b = v6(bits);
            prop_assert!(b.segments()[0] == 0x2001 && (0x400..0xf00).contains(&b.segments()[1]), "{}", b);
        }
    }
}
