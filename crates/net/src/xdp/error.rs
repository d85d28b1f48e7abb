//! Why AF_XDP cannot be had, in words that say what to do.

use crate::route;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::ops::Range;

/// Why there is no AF_XDP transport.
#[derive(Debug, thiserror::Error)]
pub enum XdpError {
    /// No flows were asked for.
    #[error("no flows: give at least one target")]
    NoFlows,
    /// No way to a target.
    #[error("{0}; use sockets instead")]
    Route(#[from] route::Error),
    /// Flows that leave by two interfaces.
    #[error("targets are reached by two interfaces, {0} and {1}: AF_XDP sends by one; use sockets instead")]
    Interfaces(String, String),
    /// An IPv4 source for an IPv6 target, or the other way round.
    #[error("source {0} and target {1} are of two families")]
    Families(IpAddr, SocketAddr),
    /// Two flows with one source address and port, whose answers could not be distinguished.
    #[error("two flows have the source {0}")]
    Twice(SocketAddr),
    /// More flows than ports.
    #[error("{address} has no source ports left from {} to {}; add source addresses", ports.start, ports.end.saturating_sub(1))]
    Ports {
        /// The source address.
        address: IpAddr,
        /// The ports that there are.
        ports: Range<u16>,
    },
    /// The interface spreads what it receives over too many queues.
    #[error(
        "interface {interface} has {queues} receive queues, and AF_XDP is used with {most} at most: \
         'ethtool -L {interface} combined {most}' (or 'rx {most}'), or use sockets"
    )]
    Queues {
        /// Its name.
        interface: String,
        /// How many.
        queues: u32,
        /// The most.
        most: usize,
    },
    /// Somebody else has an AF_XDP socket or an XDP program there.
    #[error(
        "interface {interface} is in use by another AF_XDP socket or XDP program; one worker to an interface: use one \
         core, or sockets; a program that nobody uses any more goes with 'ip link set dev {interface} xdp off'"
    )]
    Busy {
        /// Its name.
        interface: String,
    },
    /// An echo where there is no Ethernet, or not at one of our addresses.
    #[error(
        "no interface of this host but loopback has the address {0}: an XDP echo needs one; use sockets instead"
    )]
    NoInterface(IpAddr),
    /// No privilege.
    #[error(
        "{doing}: {source}; AF_XDP needs root (CAP_NET_ADMIN, CAP_NET_RAW and CAP_BPF): use sockets instead"
    )]
    Privilege {
        /// The request that was refused.
        doing: &'static str,
        /// The kernel's error.
        source: io::Error,
    },
    /// The kernel or the driver refuses for another reason.
    #[error("{doing} on interface {interface}: {source}; use sockets instead")]
    System {
        /// The operation that failed.
        doing: &'static str,
        /// The interface.
        interface: String,
        /// The kernel's error.
        source: io::Error,
    },
}

/// The error for a refusal by the kernel.
pub(super) fn refusal(doing: &'static str, interface: &str) -> impl FnOnce(io::Error) -> XdpError + use<> {
    let interface = interface.to_owned();
    move |source| match source.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => XdpError::Privilege { doing, source },
        Some(libc::EBUSY | libc::EEXIST) => XdpError::Busy { interface },
        _ => XdpError::System { doing, interface, source },
    }
}
