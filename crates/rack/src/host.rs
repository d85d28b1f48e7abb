//! A host: one network stack with its own addresses.

use crate::Error;
use serde::{Deserialize, Serialize};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

/// The name of a host's device, where we make it.
pub const DEVICE: &str = "eth0";

/// One network stack. On this machine: a network namespace, which lives as long as this (or a clone of it, or
/// a process in it) does.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Host {
    /// Its name, unique in its rack.
    pub name: String,
    /// Its first IPv4 address; unspecified where it has none.
    pub v4: Ipv4Addr,
    /// Its first IPv6 address; unspecified where it has none.
    pub v6: Ipv6Addr,
    /// Further addresses on the same link.
    pub extra_addrs: Vec<IpAddr>,
    /// The CPUs its programs and its receive path are meant to use; empty: any.
    pub cpus: Vec<usize>,
    /// The network device that has its addresses.
    pub device: String,
    /// Its namespace; none: the one that the calling process is in.
    #[serde(skip)]
    pub(crate) netns: Option<Arc<OwnedFd>>,
}

impl Host {
    /// No rack: the network namespace we are in, 127.0.0.1 and ::1.
    pub fn loopback() -> Self {
        Self {
            name: "loopback".into(),
            v4: Ipv4Addr::LOCALHOST,
            v6: Ipv6Addr::LOCALHOST,
            extra_addrs: Vec::new(),
            cpus: Vec::new(),
            device: "lo".into(),
            netns: None,
        }
    }

    /// All its addresses: the two first ones, then the further ones.
    pub fn addresses(&self) -> Vec<IpAddr> {
        let first = [IpAddr::V4(self.v4), IpAddr::V6(self.v6)].into_iter().filter(|ip| !ip.is_unspecified());
        first.chain(self.extra_addrs.iter().copied()).collect()
    }

    /// Runs `f` on a thread inside the host's network namespace, and waits for it. Sockets that `f` makes
    /// belong to the host wherever they are used afterwards; threads that `f` starts run in it too.
    pub fn run_in<T: Send>(&self, f: impl FnOnce() -> T + Send) -> Result<T, Error> {
        match &self.netns {
            None => Ok(f()),
            Some(fd) => net::ns::in_net_namespace(fd.as_fd(), f)
                .map_err(|source| self.error("enter its network namespace", source)),
        }
    }

    /// A UDP socket of this host, bound to `bind`.
    pub fn udp_socket(&self, bind: SocketAddr) -> Result<UdpSocket, Error> {
        self.run_in(|| UdpSocket::bind(bind))?
            .map_err(|source| self.error(&format!("bind a UDP socket to {bind}"), source))
    }

    pub(crate) fn error(&self, doing: &str, source: io::Error) -> Error {
        Error::Host { host: self.name.clone(), doing: doing.into(), source }
    }
}
