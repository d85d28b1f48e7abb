//! The specification of a rack: its hosts and their addresses. As a TOML file:
//!
//! ```toml
//! name = "lab"                 # how `rack exec` and `rack down` call it; without: the file's name
//! subnet = "10.53.0.0/24"      # the default
//! subnet6 = "fd53::/64"        # the default
//! mtu = 1500                   # bytes, 1280 to 65535; the default
//! whole_frames = true          # hosts send and receive TCP in frames as over a cable, and no segments of up to 64 KiB: where
//!                              # captures are to count octets; hosts with a path do so anyway. Without: false
//!
//! [[hosts]]
//! name = "server"              # letters, digits and '-', at most 15
//! cpus = [0]                   # the CPUs of its programs and of its receive path; without: any
//!
//! [[hosts]]
//! name = "generator"
//! cpus = [1]
//! extra_addrs = ["10.53.0.100", "fd53::100"]   # further addresses, inside the subnets
//!
//! [router]                     # where there are paths, and where the defaults will not do
//! cpus = [2]                   # of the emulator; without: any
//! spin = "50us"                # it waits busily for as long before a packet is due: for a core of its own
//! congestion_control = "cubic" # of TCP on hosts with a path; the default
//!
//! [[paths]]                    # what packets between two hosts meet with: see `path`
//! between = ["server", "generator"]   # both directions alike; '*': every other host. Or: from = ..., to = ...
//! delay = "50ms"               # or { normal = ["50ms", "5ms"] }, { quantiles = [[0, "20ms"], [0.5, "22ms"], [1, "1s"]] },
//!                              # { like = "rzaia-5.6" }
//! loss = 0.01                  # of packets, each by itself; or { share = 0.01, burst = 4 }: mean length in packets
//! duplicate = 0.001            # share that arrives twice
//! corrupt = 0.001              # share in which one bit is turned, which checksums find
//! reorder = 0.01               # share that is not delayed, and so overtakes
//! hold = "500ms"               # how long a delay stays before the next is drawn; without: for each packet
//! jitter_reorders = false      # whether shorter delays overtake; the default
//! rate = "10M"                 # bit/s
//! queue = "100ms"              # that waits for the rate at most, or octets; the default
//! seed = 1                     # the default is 0
//! ```
//!
//! A cable joins two hosts, and a switch (a bridge) more of them: on one machine a switch forwards on the sender's core, which
//! would be counted as the sender's work. The first host gets the first address of each subnet, and so on: here 10.53.0.1 and fd53::1, then 10.53.0.2
//! and fd53::2. Unknown keys are errors.

use crate::Error;
use crate::path::{Direction, PathSpec, directions};
use measure::{Nanos, Time};
use serde::{Deserialize, Serialize};
use std::collections::HashSet;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path;
use std::str::FromStr;

/// A network address and the length of its prefix in bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Subnet {
    /// The network's address; all bits after the prefix are 0.
    pub network: IpAddr,
    /// 0 to 32 or 128.
    pub prefix: u8,
}

fn bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(a) => a.to_bits().into(),
        IpAddr::V6(a) => a.to_bits(),
    }
}

impl Subnet {
    fn width(&self) -> u32 {
        if self.network.is_ipv4() { 32 } else { 128 }
    }

    /// How many addresses it has (at most `u128::MAX`).
    fn size(&self) -> u128 {
        1u128.checked_shl(self.width() - u32::from(self.prefix)).unwrap_or(u128::MAX)
    }

    /// Whether the address is in it.
    pub fn contains(&self, address: IpAddr) -> bool {
        address.is_ipv4() == self.network.is_ipv4()
            && bits(address).checked_sub(bits(self.network)).is_some_and(|n| n < self.size())
    }

    /// Its `n`th address (0 is the network's own), if a host may have it.
    pub fn host(&self, n: u128) -> Option<IpAddr> {
        let usable = if self.network.is_ipv4() { self.size().saturating_sub(1) } else { self.size() };
        let address = bits(self.network) + n;
        (n > 0 && n < usable).then(|| match self.network {
            IpAddr::V4(_) => Ipv4Addr::from_bits(address as u32).into(),
            IpAddr::V6(_) => Ipv6Addr::from_bits(address).into(),
        })
    }
}

impl FromStr for Subnet {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = |why: &str| format!("'{text}' is not a subnet such as 10.53.0.0/24: {why}");
        let (address, prefix) = text.split_once('/').ok_or_else(|| wrong("no '/'"))?;
        let network: IpAddr = address.parse().map_err(|_| wrong("not an address before the '/'"))?;
        let prefix: u8 = prefix.parse().map_err(|_| wrong("not a number after the '/'"))?;
        let subnet = Self { network, prefix };
        if u32::from(prefix) > subnet.width() {
            return Err(wrong("the prefix is too long"));
        }
        if !bits(network).is_multiple_of(subnet.size()) && prefix > 0 {
            return Err(wrong("the address has bits set after the prefix"));
        }
        Ok(subnet)
    }
}

impl TryFrom<String> for Subnet {
    type Error = String;
    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<Subnet> for String {
    fn from(subnet: Subnet) -> Self {
        subnet.to_string()
    }
}

impl fmt::Display for Subnet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.network, self.prefix)
    }
}

/// A host of a rack that is to be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostSpec {
    /// Letters, digits and `-`, at most 15: also the name of its device at the switch.
    pub name: String,
    /// The CPUs of its programs and of its receive path; empty: any.
    #[serde(default)]
    pub cpus: Vec<usize>,
    /// Further addresses, inside the rack's subnets.
    #[serde(default)]
    pub extra_addrs: Vec<IpAddr>,
}

impl HostSpec {
    /// A host with these CPUs (empty: any) and no further addresses.
    pub fn new(name: impl Into<String>, cpus: &[usize]) -> Self {
        Self { name: name.into(), cpus: cpus.to_vec(), extra_addrs: Vec::new() }
    }
}

/// The host between those that have paths.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RouterSpec {
    /// The CPUs of the path emulator; empty: any.
    #[serde(default)]
    pub cpus: Vec<usize>,
    /// For how long before a packet is due it waits busily, in nanoseconds, at most 1 ms.
    #[serde(default, with = "crate::path::nanos")]
    pub spin: Nanos,
    /// TCP's congestion control on hosts with a path; the servers on them cannot choose another.
    #[serde(default = "default_congestion_control")]
    pub congestion_control: String,
}

impl Default for RouterSpec {
    fn default() -> Self {
        Self { cpus: Vec::new(), spin: 0, congestion_control: default_congestion_control() }
    }
}

fn default_congestion_control() -> String {
    "cubic".into()
}

/// A rack that is to be: two hosts joined by a cable, or any other number of them by a switch; paths lead through the switch
/// to the router.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RackSpec {
    /// Its name, where it is kept under one (`rack up`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The IPv4 subnet.
    #[serde(default = "default_subnet")]
    pub subnet: Subnet,
    /// The IPv6 subnet.
    #[serde(default = "default_subnet6")]
    pub subnet6: Subnet,
    /// The links' largest packet in bytes, without the Ethernet header.
    #[serde(default = "default_mtu")]
    pub mtu: u32,
    /// Hosts send and receive TCP in frames no larger than that (TSO, GSO and GRO off), so that captures have as many headers as
    /// a cable would carry; otherwise the kernel passes segments of up to 64 KiB from host to host, which costs less.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub whole_frames: bool,
    /// The router, where there are paths.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub router: Option<RouterSpec>,
    /// The hosts, in the order of their addresses.
    pub hosts: Vec<HostSpec>,
    /// The delays, losses and queues between hosts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub paths: Vec<PathSpec>,
}

fn default_subnet() -> Subnet {
    Subnet { network: Ipv4Addr::new(10, 53, 0, 0).into(), prefix: 24 }
}

fn default_subnet6() -> Subnet {
    Subnet { network: Ipv6Addr::new(0xfd53, 0, 0, 0, 0, 0, 0, 0).into(), prefix: 64 }
}

fn default_mtu() -> u32 {
    1500
}

impl RackSpec {
    /// These hosts in the default subnets, MTU 1500.
    pub fn new(hosts: Vec<HostSpec>) -> Self {
        Self {
            name: None,
            subnet: default_subnet(),
            subnet6: default_subnet6(),
            mtu: default_mtu(),
            whole_frames: false,
            router: None,
            hosts,
            paths: Vec::new(),
        }
    }

    /// Reads and checks a rack file; `name` (for errors) is its path.
    pub fn parse(text: &str, name: &str) -> Result<Self, Error> {
        let spec: Self = toml::from_str(text).map_err(|e| {
            let (line, column) = measure::line_column(text, e.span().map_or(0, |span| span.start));
            Error::Parse { file: name.into(), line, column, message: e.message().into() }
        })?;
        spec.check().map_err(|e| match e {
            Error::Spec(text) => Error::Spec(format!("{name}: {text}")),
            other => other,
        })?;
        Ok(spec)
    }

    /// Reads and checks a rack file.
    pub fn load(path: &Path) -> Result<Self, Error> {
        let name = path.display().to_string();
        let text = std::fs::read_to_string(path).map_err(|e| Error::Spec(format!("{name}: {e}")))?;
        Self::parse(&text, &name)
    }

    /// Whether such a rack can be; says what is wrong with which host.
    pub fn check(&self) -> Result<(), Error> {
        let wrong = |text: String| Err(Error::Spec(text));
        if let Some(name) = &self.name {
            check_name("rack", name)?;
        }
        if !self.subnet.network.is_ipv4() || !self.subnet6.network.is_ipv6() {
            return wrong("subnet must be IPv4 and subnet6 must be IPv6".into());
        }
        if !(1280..=65535).contains(&self.mtu) {
            return wrong(format!("mtu = {}: must be 1280 (the least for IPv6) to 65535", self.mtu));
        }
        if self.hosts.is_empty() {
            return wrong("no host: add at least one [[hosts]]".into());
        }
        let (mut names, mut addresses) = (HashSet::new(), HashSet::new());
        for (index, host) in self.hosts.iter().enumerate() {
            check_name("host", &host.name)?;
            if [SWITCH, ROUTER, "lo"].contains(&host.name.as_str()) {
                return wrong(format!("host '{}': the name is taken", host.name));
            }
            if !names.insert(&host.name) {
                return wrong(format!("host '{}' is there twice", host.name));
            }
            let (v4, v6) = self.addresses(index)?;
            addresses.extend([IpAddr::from(v4), v6.into()]);
        }
        for host in &self.hosts {
            for &address in &host.extra_addrs {
                if !self.subnet.contains(address) && !self.subnet6.contains(address) {
                    return wrong(format!(
                        "host '{}': {address} is outside {} and {}; widen the subnet",
                        host.name, self.subnet, self.subnet6
                    ));
                }
                if !addresses.insert(address) {
                    return wrong(format!("host '{}': {address} is there twice", host.name));
                }
            }
        }
        match &self.router {
            Some(_) if self.paths.is_empty() => {
                return wrong("router: there are no paths; add [[paths]]".into());
            }
            Some(router) if router.spin > 1_000_000 => {
                return wrong(format!("router: spin = {}: must be 1ms at most", Time(router.spin)));
            }
            _ => {}
        }
        self.directions().map(drop)
    }

    /// The directions that lead through the router.
    pub(crate) fn directions(&self) -> Result<Vec<Direction>, Error> {
        let names: Vec<&str> = self.hosts.iter().map(|host| host.name.as_str()).collect();
        directions(&names, &self.paths)
    }

    /// The first addresses of the host with this index.
    pub(crate) fn addresses(&self, index: usize) -> Result<(Ipv4Addr, Ipv6Addr), Error> {
        let n = index as u128 + 1;
        match (self.subnet.host(n), self.subnet6.host(n)) {
            (Some(IpAddr::V4(v4)), Some(IpAddr::V6(v6))) => Ok((v4, v6)),
            _ => Err(Error::Spec(format!(
                "{} and {} have no address for host {n}; widen them",
                self.subnet, self.subnet6
            ))),
        }
    }

    /// The address with the length of its subnet's prefix.
    pub(crate) fn prefix(&self, address: IpAddr) -> u8 {
        if address.is_ipv4() { self.subnet.prefix } else { self.subnet6.prefix }
    }
}

/// The name of the switch's device.
pub(crate) const SWITCH: &str = "switch";

/// The name of the router, which is where the switch is, in a rack with paths.
pub const ROUTER: &str = "router";

/// Names of racks and hosts become names of devices and files.
pub(crate) fn check_name(what: &str, name: &str) -> Result<(), Error> {
    let good = |c: char| c.is_ascii_alphanumeric() || c == '-';
    if name.is_empty() || name.len() > 15 || !name.chars().all(good) || name.starts_with('-') {
        return Err(Error::Spec(format!("{what} '{name}': a name has 1 to 15 letters, digits and '-'")));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(text: &str) -> String {
        RackSpec::parse(text, "rack.toml").unwrap_err().to_string()
    }

    #[test]
    fn the_shortest_file_has_the_defaults() {
        let spec = RackSpec::parse("[[hosts]]\nname = \"a\"\n[[hosts]]\nname = \"b\"", "x").unwrap();
        assert_eq!(spec.addresses(1).unwrap(), ("10.53.0.2".parse().unwrap(), "fd53::2".parse().unwrap()));
        assert_eq!((spec.mtu, spec.subnet.to_string().as_str()), (1500, "10.53.0.0/24"));
        assert_eq!(toml::from_str::<RackSpec>(&toml::to_string(&spec).unwrap()).unwrap(), spec);
    }

    #[test]
    fn paths_are_read_and_written_again() {
        let file = "[router]\nspin = \"50us\"\n[[hosts]]\nname = \"a\"\n[[hosts]]\nname = \"b\"\n\
                    [[paths]]\nbetween = [\"a\", \"*\"]\ndelay = { normal = [\"50ms\", \"5ms\"] }\nloss = { share = 0.1, burst = 3 }";
        let spec = RackSpec::parse(file, "x").unwrap();
        let router = spec.router.clone().unwrap();
        assert_eq!((router.spin, router.congestion_control.as_str(), spec.paths.len()), (50_000, "cubic", 1));
        assert_eq!(spec.directions().unwrap().len(), 2);
        assert_eq!(toml::from_str::<RackSpec>(&toml::to_string(&spec).unwrap()).unwrap(), spec);
        assert_eq!(serde_json::from_str::<RackSpec>(&serde_json::to_string(&spec).unwrap()).unwrap(), spec);
    }

    #[test]
    fn the_examples_can_be() {
        let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
        let (lab, paths) = (examples.join("rack.toml"), examples.join("paths.toml"));
        assert_eq!(RackSpec::load(&lab).unwrap().directions().unwrap(), []);
        assert_eq!(RackSpec::load(&paths).unwrap().directions().unwrap().len(), 4);
    }

    #[test]
    fn an_unknown_key_is_named_with_line_and_column() {
        let text = error("name = \"lab\"\n\n[[hosts]]\nname = \"a\"\n  cpu = [1]\n");
        assert!(text.starts_with("rack.toml:5:3: "), "{text}");
        assert!(text.contains("cpu"), "{text}");
    }

    #[test]
    fn what_cannot_be_is_refused_with_the_reason() {
        for (file, reason) in [
            ("hosts = []", "no host"),
            ("[[hosts]]\nname = \"router\"", "taken"),
            ("[router]\n[[hosts]]\nname = \"a\"", "no paths"),
            (
                "[router]\nspin = \"2ms\"\n[[hosts]]\nname = \"a\"\n[[hosts]]\nname = \"b\"\n[[paths]]\nbetween = [\"a\", \"b\"]",
                "spin = 2ms",
            ),
            ("[[hosts]]\nname = \"a\"\n[[paths]]\nbetween = [\"a\", \"b\"]", "no host 'b'"),
            ("[[hosts]]\nname = \"a\"\n[[paths]]\nbetween = [\"a\", \"*\"]\nlos = 1", "los"),
            ("[[hosts]]\nname = \"a b\"", "'a b'"),
            ("[[hosts]]\nname = \"switch\"", "taken"),
            ("[[hosts]]\nname = \"a\"\n[[hosts]]\nname = \"a\"", "twice"),
            ("[[hosts]]\nname = \"a\"\nextra_addrs = [\"192.0.2.1\"]", "outside"),
            ("[[hosts]]\nname = \"a\"\nextra_addrs = [\"10.53.0.1\"]", "twice"),
            ("mtu = 1000\n[[hosts]]\nname = \"a\"", "1280"),
            ("subnet = \"10.0.0.1/24\"\n[[hosts]]\nname = \"a\"", "bits set"),
            ("subnet = \"10.0.0.0/33\"\n[[hosts]]\nname = \"a\"", "too long"),
            (
                "subnet = \"10.0.0.0/30\"\n[[hosts]]\nname=\"a\"\n[[hosts]]\nname=\"b\"\n[[hosts]]\nname=\"c\"",
                "widen",
            ),
        ] {
            assert!(error(file).contains(reason), "{file}: {}", error(file));
        }
    }
}
