//! The specification of a server.

use crate::distribution::{self, Distribution};
use crate::error::{Error, Problem};
use crate::servers::Kind;
use rack::Host;
use serde::{Deserialize, Serialize};
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

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
    /// Where an [`Kind::External`] server answers.
    #[serde(default)]
    pub external: Option<SocketAddr>,
    /// Its part where the zone changes. It has a secret, so it is in no file.
    #[serde(skip)]
    pub distribution: Option<Distribution>,
}

impl ServerSpec {
    /// A server of this kind with one worker on port 53 of its host's addresses, labelled as its kind.
    pub fn new(kind: Kind, zone: ZoneRef) -> Self {
        ServerSpec {
            label: kind.name().into(),
            kind,
            program: None,
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
            (Kind::External, address) => address.into_iter().collect(),
            _ if self.addresses.is_empty() => {
                vec![SocketAddr::new(host.v4.into(), self.port), SocketAddr::new(host.v6.into(), self.port)]
            }
            _ => self.addresses.iter().map(|&address| SocketAddr::new(address, self.port)).collect(),
        }
    }

    /// Checks what can be checked without looking outside.
    ///
    /// # Errors
    /// [`Problem::Spec`], naming the field.
    pub fn check(&self) -> Result<(), Error> {
        let refuse = |field, why: String| Err(Error::new(&self.label, Problem::Spec { field, why }));
        if self.kind == Kind::External {
            return match self.external {
                Some(_) => Ok(()),
                None => refuse("external", "name the ADDRESS:PORT at which the server answers".into()),
            };
        }
        if self.external.is_some() {
            return refuse("external", format!("an address is for kind external, not {}", self.kind));
        }
        if self.workers == 0 {
            return refuse("workers", "a server needs at least 1".into());
        }
        if self.port == 0 {
            return refuse("port", "0 is no port to serve on: give 1 to 65535".into());
        }
        if self.udp_size < 512 {
            return refuse("udp_size", format!("{} is less than the 512 octets of RFC 1035", self.udp_size));
        }
        if let Err(e) = wire::name::Name::parse_text(&self.zone.origin, None) {
            return refuse("zone.origin", format!("'{}' is no domain name: {e}", self.zone.origin));
        }
        // Names and paths are put between quotes in five syntaxes that escape differently.
        if unquotable(&self.zone.origin) || self.zone.origin.contains(' ') {
            return refuse("zone.origin", format!("'{}' has quotes, escapes or blanks", self.zone.origin));
        }
        distribution::check(self)
    }
}

/// Whether a server's configuration cannot be trusted to hold this text between quotes.
pub(crate) fn unquotable(text: &str) -> bool {
    text.chars().any(|c| c.is_control() || matches!(c, '"' | '\\' | '\''))
}

/// A path as text that every server's configuration can hold.
pub(crate) fn quotable<'a>(label: &str, field: &'static str, path: &'a Path) -> Result<&'a str, Error> {
    match path.to_str() {
        Some(text) if !unquotable(text) => Ok(text),
        _ => {
            let why = format!(
                "the path '{}' has characters (quotes, backslashes, control characters, not UTF-8) that \
                 servers' configurations cannot hold: rename it",
                path.display()
            );
            Err(Error::new(label, Problem::Spec { field, why }))
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
    fn kinds_are_named_as_in_experiments() {
        for kind in Kind::ALL {
            assert_eq!(kind.name().parse::<Kind>().unwrap(), kind);
        }
        assert!(
            "named".parse::<Kind>().unwrap_err().contains("bind, nsd, knot, powerdns, yadifa or external")
        );
    }

    #[test]
    fn what_is_wrong_is_named() {
        let field = |spec: &ServerSpec| match *spec.check().unwrap_err().problem {
            Problem::Spec { field, .. } => field,
            other => panic!("{other:?}"),
        };
        assert!(spec(Kind::Bind).check().is_ok());
        assert_eq!(field(&spec(Kind::External)), "external");
        assert_eq!(field(&ServerSpec { workers: 0, ..spec(Kind::Nsd) }), "workers");
        assert_eq!(field(&ServerSpec { port: 0, ..spec(Kind::Nsd) }), "port");
        assert_eq!(field(&ServerSpec { udp_size: 100, ..spec(Kind::Nsd) }), "udp_size");
        assert_eq!(
            field(&ServerSpec { external: Some(([127, 0, 0, 1], 53).into()), ..spec(Kind::Nsd) }),
            "external"
        );
        for origin in ["a\"b.", "a..b", "a b.", ".\n"] {
            let mut spec = spec(Kind::Knot);
            spec.zone.origin = origin.into();
            assert_eq!(field(&spec), "zone.origin", "{origin:?}");
        }
    }

    #[test]
    fn an_empty_list_of_addresses_means_the_hosts() {
        let host = Host::loopback();
        assert_eq!(
            spec(Kind::Bind).targets(&host),
            ["127.0.0.1:53".parse().unwrap(), "[::1]:53".parse().unwrap()]
        );
        let external = ServerSpec { external: Some(([192, 0, 2, 1], 5353).into()), ..spec(Kind::External) };
        assert_eq!(external.targets(&host), ["192.0.2.1:5353".parse().unwrap()]);
    }
}
