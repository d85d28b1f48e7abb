//! Which targets may be loaded without --allow-external: those that cannot be anybody else's.

use crate::link::{self, InterfaceAddress};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

/// A network: `10.53.0.0/24`, `fd53::/64`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Prefix {
    /// An address in it.
    pub ip: IpAddr,
    /// How many bits all of its addresses share.
    pub bits: u8,
}

impl FromStr for Prefix {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let (ip, bits) = text.split_once('/').map_or((text, None), |(ip, bits)| (ip, Some(bits)));
        let parsed = ip.parse().ok().and_then(|ip: IpAddr| {
            let width = if ip.is_ipv4() { 32 } else { 128 };
            let bits = bits.map_or(Some(width), |bits| bits.parse().ok())?;
            (bits <= width).then_some(Self { ip, bits })
        });
        parsed.ok_or_else(|| {
            format!("'{text}' is not a network: give an address, or one with its bits as in 10.53.0.0/24")
        })
    }
}

impl From<IpAddr> for Prefix {
    fn from(ip: IpAddr) -> Self {
        Self { ip, bits: if ip.is_ipv4() { 32 } else { 128 } }
    }
}

impl Prefix {
    /// How many addresses a host of this network can have: all of them, but not IPv4's first and last where there are
    /// more than two.
    pub fn hosts(&self) -> u64 {
        match self.ip {
            IpAddr::V4(_) if self.bits >= 31 => 1 << (32 - self.bits),
            IpAddr::V4(_) => (1 << (32 - self.bits)) - 2,
            IpAddr::V6(_) => 1u64.checked_shl(128 - u32::from(self.bits)).unwrap_or(u64::MAX),
        }
    }

    /// Host address `n`, from 0; beyond [`Self::hosts`] from the beginning again. An address with all of its bits is
    /// itself.
    pub fn host(&self, n: u64) -> IpAddr {
        let n = n % self.hosts();
        match self.ip {
            IpAddr::V4(_) if self.bits == 32 => self.ip,
            IpAddr::V4(ip) => {
                let mask = u32::MAX.checked_shl(32 - u32::from(self.bits)).unwrap_or(0);
                let first = (ip.to_bits() & mask) + u32::from(self.bits < 31);
                IpAddr::V4((first + n as u32).into())
            }
            IpAddr::V6(ip) => {
                let mask = u128::MAX.checked_shl(128 - u32::from(self.bits)).unwrap_or(0);
                IpAddr::V6(((ip.to_bits() & mask) + u128::from(n)).into())
            }
        }
    }
}

impl TryFrom<String> for Prefix {
    type Error = String;
    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.ip, self.bits)
    }
}

impl From<Prefix> for String {
    fn from(prefix: Prefix) -> Self {
        prefix.to_string()
    }
}

/// A target that may not be loaded.
#[derive(Debug, thiserror::Error)]
pub enum Refused {
    /// It may be somebody else's.
    #[error(
        "{0} is neither on loopback nor on a virtual link of this machine: be sure that it is yours and give \
         --allow-external"
    )]
    External(SocketAddr),
    /// It is not known which addresses are on this machine.
    #[error("cannot list the network interfaces: {0}")]
    Interfaces(#[source] io::Error),
}

/// Refuses targets that are neither on this machine nor in an `allowed` network, unless `allow_external` is set.
///
/// # Errors
/// [`Refused`], with the first such target.
pub fn check(targets: &[SocketAddr], allowed: &[Prefix], allow_external: bool) -> Result<(), Refused> {
    if allow_external {
        return Ok(());
    }
    let here = link::addresses().map_err(Refused::Interfaces)?;
    let far = targets.iter().find(|t| !near(t.ip(), allowed, &here));
    far.map_or(Ok(()), |target| Err(Refused::External(*target)))
}

/// Loopback, an address of this machine, in a network of the rack, or on a virtual link.
fn near(ip: IpAddr, allowed: &[Prefix], here: &[InterfaceAddress]) -> bool {
    ip.is_loopback()
        || allowed.iter().any(|p| link::prefix_holds(p.ip, p.bits, ip))
        || here.iter().any(|a| a.addr == ip || (a.is_virtual() && a.on_link(ip)))
}

/// Reads a target as people type it: `ADDR`, `ADDR:PORT`, `V6` or `[V6]:PORT`; the port is 53 where it is left out.
///
/// # Errors
/// A sentence that says what was expected.
pub fn parse_target(text: &str) -> Result<SocketAddr, String> {
    let bare = text.strip_prefix('[').and_then(|t| t.strip_suffix(']')).unwrap_or(text);
    match (text.parse::<SocketAddr>(), bare.parse::<IpAddr>()) {
        (Ok(addr), _) if addr.port() != 0 => Ok(addr),
        (_, Ok(ip)) => Ok(SocketAddr::new(ip, 53)),
        _ => Err(format!(
            "'{text}' is not a target: give ADDR, ADDR:PORT or [V6]:PORT, with addresses as numbers"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_is_what_belongs_to_this_machine() {
        let at = |driver: &str, addr: &str, prefix| InterfaceAddress {
            name: "x".into(),
            driver: driver.into(),
            addr: addr.parse().unwrap(),
            prefix,
        };
        let here =
            [at("virtio_net", "192.0.2.7", 24), at("veth", "10.99.0.1", 24), at("bridge", "fd99::1", 64)];
        let allowed = ["10.53.0.0/24".parse().unwrap()];
        for (ip, want) in [
            ("127.1.2.3", true),
            ("::1", true),
            ("192.0.2.7", true),
            ("192.0.2.8", false),
            ("10.99.0.200", true),
            ("10.98.0.1", false),
            ("fd99::5", true),
            ("2001:db8::1", false),
            ("10.53.0.9", true),
            ("8.8.8.8", false),
        ] {
            assert_eq!(near(ip.parse().unwrap(), &allowed, &here), want, "{ip}");
        }
    }

    #[test]
    fn people_type_targets_and_networks() {
        for (text, want) in [
            ("127.0.0.1", "127.0.0.1:53"),
            ("127.0.0.1:5300", "127.0.0.1:5300"),
            ("::1", "[::1]:53"),
            ("[::1]", "[::1]:53"),
            ("[::1]:5300", "[::1]:5300"),
        ] {
            assert_eq!(parse_target(text).unwrap().to_string(), want);
        }
        for bad in ["", "localhost", "127.0.0.1:", "127.0.0.1:0", "127.0.0.1:99999", "[127.0.0.1", "1.2.3"] {
            assert!(parse_target(bad).is_err(), "{bad}");
        }
        assert_eq!("fd53::/64".parse::<Prefix>().unwrap().to_string(), "fd53::/64");
        assert_eq!("10.0.0.7".parse::<Prefix>().unwrap().to_string(), "10.0.0.7/32");
        for bad in ["10.0.0.0/", "10.0.0.0/33", "::/129", "x/8", "10.0.0.0/"] {
            assert!(bad.parse::<Prefix>().is_err(), "{bad}");
        }
    }

    #[test]
    fn networks_have_hosts() {
        let net = |text: &str| text.parse::<Prefix>().unwrap();
        assert_eq!(
            (net("10.1.2.77/24").hosts(), net("10.1.2.77").hosts(), net("::/0").hosts()),
            (254, 1, u64::MAX)
        );
        assert_eq!(net("10.1.2.77/24").host(0).to_string(), "10.1.2.1");
        assert_eq!(net("10.1.2.77/24").host(253).to_string(), "10.1.2.254");
        assert_eq!(net("10.1.2.77/24").host(254).to_string(), "10.1.2.1");
        assert_eq!(net("10.1.2.77").host(5).to_string(), "10.1.2.77");
        assert_eq!(net("10.1.2.76/31").host(1).to_string(), "10.1.2.77");
        assert_eq!(net("fd00::5/112").host(16).to_string(), "fd00::10");
        assert_eq!(net("fd00::5").host(16).to_string(), "fd00::5");
        assert_eq!(net("0.0.0.0/0").host(1).to_string(), "0.0.0.2");
    }
}
