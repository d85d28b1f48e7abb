//! Blocks of addresses.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A block of addresses, such as 192.0.2.0/24 or 2001:db8::/32.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Net {
    address: IpAddr,
    length: u8,
}

/// Why a text is not a block of addresses.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NetError {
    /// Neither an address nor a block.
    #[error("'{0}' is not a block of addresses: give 192.0.2.0/24, 2001:db8::/32 or one address")]
    Form(String),
    /// Its address has bits behind the prefix.
    #[error("'{0}' has bits set behind its prefix: the block is {1}")]
    Bits(String, Net),
}

/// The address as the upper bits of 128.
fn bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(a) => u128::from(a.to_bits()) << 96,
        IpAddr::V6(a) => a.to_bits(),
    }
}

fn mask(length: u8) -> u128 {
    u128::MAX.checked_shl(128 - u32::from(length)).unwrap_or(0)
}

impl Net {
    /// The address is in the block.
    #[inline]
    pub fn contains(&self, address: IpAddr) -> bool {
        self.address.is_ipv4() == address.is_ipv4()
            && (bits(self.address) ^ bits(address)) & mask(self.length) == 0
    }

    /// It is of IPv4.
    pub fn is_ipv4(&self) -> bool {
        self.address.is_ipv4()
    }

    /// Bits of an address of its family.
    pub(super) fn width(&self) -> u8 {
        if self.is_ipv4() { 32 } else { 128 }
    }

    /// How many addresses clients can have: neither the first of a block (its own, RFC 4291's routers') nor the last of
    /// one of IPv4 (broadcast), where it has more than two.
    pub fn room(&self) -> u128 {
        match (self.width() - self.length, self.is_ipv4()) {
            (128, _) => u128::MAX,
            (free @ (0 | 1), _) => 1 << free,
            (free, true) => (1 << free) - 2,
            (free, false) => (1 << free) - 1,
        }
    }

    /// The address of client `n`, from 0.
    pub(super) fn client(&self, n: u64) -> IpAddr {
        let first = u128::from(self.width() - self.length > 1);
        let n = u128::from(n) % self.room() + first;
        match self.address {
            IpAddr::V4(a) => Ipv4Addr::from(a.to_bits() | n as u32).into(),
            IpAddr::V6(a) => Ipv6Addr::from(a.to_bits() | n).into(),
        }
    }

    /// The longest prefix of a block of this family with room for so many clients.
    pub(super) fn length_for(&self, clients: u64) -> u8 {
        let fits = |&length: &u8| Self { length, ..*self }.room() >= u128::from(clients);
        (0..=self.width()).rev().find(fits).unwrap_or(0)
    }
}

impl std::str::FromStr for Net {
    type Err = NetError;
    fn from_str(text: &str) -> Result<Self, NetError> {
        let form = || NetError::Form(text.to_owned());
        let (address, length) = match text.split_once('/') {
            Some((address, length)) => (address, Some(length)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| form())?;
        let width = if address.is_ipv4() { 32 } else { 128 };
        let length = match length {
            None => width,
            Some(length) => length.parse().ok().filter(|&l| l <= width).ok_or_else(form)?,
        };
        let own = bits(address) & mask(length);
        let own = match address {
            IpAddr::V4(_) => Ipv4Addr::from((own >> 96) as u32).into(),
            IpAddr::V6(_) => Ipv6Addr::from(own).into(),
        };
        let net = Self { address: own, length };
        if own == address { Ok(net) } else { Err(NetError::Bits(text.to_owned(), net)) }
    }
}

impl fmt::Display for Net {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn net(text: &str) -> Net {
        text.parse().unwrap()
    }

    #[test]
    fn blocks_hold_their_addresses() {
        let holds = |block: &str, address: &str| net(block).contains(address.parse().unwrap());
        assert!(holds("192.0.2.0/24", "192.0.2.255") && !holds("192.0.2.0/24", "192.0.3.0"));
        assert!(holds("2001:db8::/32", "2001:db8:ffff::1") && !holds("2001:db8::/32", "2001:db9::"));
        assert!(holds("0.0.0.0/0", "8.8.8.8") && !holds("0.0.0.0/0", "::") && holds("::/0", "ff::"));
        assert!(holds("192.0.2.1", "192.0.2.1") && !holds("192.0.2.1", "192.0.2.0"));
        for bad in ["", "x", "1.2.3", "1.2.3.4/33", "::/129", "1.2.3.4/", "1.2.3.4/-1", "/8"] {
            assert!(matches!(bad.parse::<Net>(), Err(NetError::Form(_))), "{bad}");
        }
        let error = "10.1.2.3/8".parse::<Net>().unwrap_err().to_string();
        assert!(error.ends_with("the block is 10.0.0.0/8"), "{error}");
    }

    #[test]
    fn clients_get_addresses_but_those_of_the_block_itself() {
        let all = |block: &str| -> Vec<String> {
            let net = net(block);
            (0..net.room().min(8) as u64).map(|n| net.client(n).to_string()).collect()
        };
        assert_eq!(all("192.0.2.4/30"), ["192.0.2.5", "192.0.2.6"]);
        assert_eq!(all("192.0.2.4/31"), ["192.0.2.4", "192.0.2.5"]);
        assert_eq!(all("192.0.2.4"), ["192.0.2.4"]);
        assert_eq!(all("2001:db8::/126"), ["2001:db8::1", "2001:db8::2", "2001:db8::3"]);
        assert_eq!(net("0.0.0.0/0").client(0).to_string(), "0.0.0.1");
        assert_eq!([1, 2, 3, 254, 255].map(|n| net("10.0.0.0/30").length_for(n)), [32, 31, 29, 24, 23]);
        assert_eq!(net("2001:db8::/64").room(), (1 << 64) - 1);
    }
}
