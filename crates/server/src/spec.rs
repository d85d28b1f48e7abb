//! The specification of a server.

use crate::kind::Kind;
use crate::replication::Replication;
use measure::Files;
use measure::files::Named;
use rack::Host;
use serde::{Deserialize, Serialize};
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

/// The cap on UDP answers, in octets, that all servers have by default now (DNS flag day 2020).
pub const DEFAULT_UDP_SIZE: u16 = 1232;

/// The zone that a server is to serve.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ZoneRef {
    /// Its name in presentation format: `.` or `com.`
    pub origin: String,
    /// Its zone file. It is served from there, not copied.
    pub file: PathBuf,
    /// Whether it has RRSIGs: PowerDNS's configuration must say so.
    pub signed: bool,
}

/// A name server to be started.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServerSpec {
    /// Its name in results and errors, such as `bind` or `nsd-4.10`.
    pub label: String,
    /// Its kind.
    pub kind: Kind,
    /// The program, where it is not the one on PATH (or in an sbin folder). Its tools (`rndc`, `nsd-control` ...)
    /// are looked for beside it first.
    #[serde(default)]
    pub program: Option<PathBuf>,
    /// The root folder of another distribution that its program, tools and libraries are taken from: see [`rack::Root`].
    #[serde(default)]
    pub root: Option<PathBuf>,
    /// Extra configuration in the server's own syntax; where it goes: see the table of this crate.
    #[serde(default)]
    pub config: Option<String>,
    /// Threads or processes that answer queries, from 1.
    pub workers: u32,
    /// The cap on UDP answers in octets, from 512.
    pub udp_size: u16,
    /// The UDP and TCP port.
    pub port: u16,
    /// The addresses it listens on; empty: the host's IPv4 and IPv6 address.
    #[serde(default)]
    pub addresses: Vec<IpAddr>,
    /// The zone.
    pub zone: ZoneRef,
    /// The CPUs it may use; empty: any.
    #[serde(default)]
    pub cpus: Vec<usize>,
    /// Environment variables of the server, beside those that it inherits; its tools do not have them.
    #[serde(default)]
    pub env: Vec<(String, String)>,
    /// The address and port at which an external server ([`Kind::EXTERNAL`]) answers.
    #[serde(default)]
    pub external: Option<SocketAddr>,
    /// Its part where the zone changes. It has a secret, so it is in no file.
    #[serde(skip)]
    pub distribution: Option<Replication>,
}

/// The zone and its keys. The program is not among them: it is that of the host.
impl Files for ServerSpec {
    fn files<E>(&mut self, visit: &mut dyn FnMut(Named<'_>) -> Result<(), E>) -> Result<(), E> {
        if self.distribution.as_ref().is_none_or(|part| !part.is_secondary()) {
            visit(Named::Read(&mut self.zone.file))?;
        }
        let keys = self.distribution.iter_mut().filter_map(|part| part.keys.as_mut());
        keys.into_iter().try_for_each(|keys| visit(Named::Read(keys)))
    }
}

impl ServerSpec {
    /// A server of this kind with one worker on port 53 of its host's addresses, labelled as its kind.
    pub fn new(kind: Kind, zone: ZoneRef) -> Self {
        ServerSpec {
            label: kind.name().into(),
            kind,
            program: None,
            root: None,
            config: None,
            workers: 1,
            udp_size: DEFAULT_UDP_SIZE,
            port: 53,
            addresses: Vec::new(),
            zone,
            cpus: Vec::new(),
            env: Vec::new(),
            external: None,
            distribution: None,
        }
    }

    /// The addresses and ports at which it answers, when on `host`.
    pub fn targets(&self, host: &Host) -> Vec<SocketAddr> {
        match (self.kind, self.external) {
            (Kind::EXTERNAL, address) => address.into_iter().collect(),
            _ if self.addresses.is_empty() => {
                let first =
                    [host.v4.into(), host.v6.into()].into_iter().filter(|ip: &IpAddr| !ip.is_unspecified());
                first.map(|ip| SocketAddr::new(ip, self.port)).collect()
            }
            _ => self.addresses.iter().map(|&address| SocketAddr::new(address, self.port)).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(kind: Kind) -> ServerSpec {
        ServerSpec::new(kind, ZoneRef { origin: ".".into(), file: "/z/root.zone".into(), signed: false })
    }

    #[test]
    fn an_empty_list_of_addresses_means_the_hosts() {
        let host = Host::loopback();
        assert_eq!(
            spec(Kind::BIND).targets(&host),
            ["127.0.0.1:53".parse().unwrap(), "[::1]:53".parse().unwrap()]
        );
        let external = ServerSpec { external: Some(([192, 0, 2, 1], 5353).into()), ..spec(Kind::EXTERNAL) };
        assert_eq!(external.targets(&host), ["192.0.2.1:5353".parse().unwrap()]);
    }
}
