//! The way to a target, asked of the kernel over netlink: interface, next hop, their hardware addresses, and the
//! source address that the kernel would choose. For packets that we write ourselves, which no routing helps.
#![allow(unsafe_code)] // each block says why it is sound

use crate::sys::check;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::time::{Duration, Instant};

/// An Ethernet address.
pub type Mac = [u8; 6];

/// How packets get to a target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Path {
    /// The interface's number.
    pub index: u32,
    /// The interface's name.
    pub interface: String,
    /// Its largest packet in octets, without the Ethernet header.
    pub mtu: u32,
    /// Its own address.
    pub mac: Mac,
    /// The router, or the target where it is on link.
    pub next_hop: IpAddr,
    /// The next hop's address.
    pub next_mac: Mac,
    /// The route's preferred source address.
    pub source: IpAddr,
}

/// Why there is no way to a target.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The kernel has none.
    #[error("no route to {0}: {1}")]
    NoRoute(IpAddr, io::Error),
    /// The target is this machine itself.
    #[error("{0} is an address of this host, reached over loopback, where there are no Ethernet packets")]
    Loopback(IpAddr),
    /// The interface has no Ethernet addresses.
    #[error("interface {0} is no Ethernet interface")]
    NotEthernet(String),
    /// The next hop does not answer ARP or neighbour solicitation.
    #[error("{next_hop} does not answer on {interface}: its hardware address is not known after {waited:?}")]
    Neighbour {
        /// The destination of the request.
        next_hop: IpAddr,
        /// On which interface.
        interface: String,
        /// For how long.
        waited: Duration,
    },
    /// Netlink did not work.
    #[error("{doing}: {source}")]
    System {
        /// The request that failed.
        doing: &'static str,
        /// Its error.
        source: io::Error,
    },
}

/// How long a next hop may take to tell its hardware address.
const PATIENCE: Duration = Duration::from_secs(3);

// linux/rtnetlink.h, linux/neighbour.h, linux/if_link.h: attributes.
const RTA_DST: u16 = 1;
const RTA_OIF: u16 = 4;
const RTA_GATEWAY: u16 = 5;
const RTA_PREFSRC: u16 = 7;
const RTA_VIA: u16 = 18;
const IFLA_ADDRESS: u16 = 1;
const IFLA_IFNAME: u16 = 3;
const IFLA_MTU: u16 = 4;
const NDA_DST: u16 = 1;
const NDA_LLADDR: u16 = 2;
/// Reachable, stale, delay, probe, no ARP, permanent: the address can be used.
const NUD_VALID: u16 = 0x02 | 0x04 | 0x08 | 0x10 | 0x40 | 0x80;
/// Resolve now (linux/neighbour.h).
const NTF_USE: u8 = 1;

/// Asks for the way to `target`; where the next hop's hardware address is not yet known, asks for that too and waits
/// for it (at most 3 seconds).
///
/// # Errors
/// As [`Error`] says.
pub fn path_to(target: IpAddr) -> Result<Path, Error> {
    let mut netlink = Netlink::open().map_err(|source| Error::System { doing: "open netlink", source })?;
    let mut header = [0u8; 12]; // struct rtmsg
    header[0] = family(target);
    header[1] = if target.is_ipv4() { 32 } else { 128 };
    let reply = netlink
        .ask(libc::RTM_GETROUTE, 0, &header, &[(RTA_DST, &octets(target))])
        .map_err(|e| Error::NoRoute(target, e))?;
    let bad = |doing| move || Error::System { doing, source: io::ErrorKind::InvalidData.into() };
    let kind = *reply.get(7).ok_or_else(bad("read a route"))?;
    if kind == libc::RTN_LOCAL {
        return Err(Error::Loopback(target));
    }
    let (mut index, mut next_hop, mut source) = (None, target, None);
    for (name, value) in attributes(&reply[12..]) {
        match name {
            RTA_OIF => index = value.first_chunk().map(|v| u32::from_ne_bytes(*v)),
            RTA_GATEWAY => next_hop = address(value).unwrap_or(next_hop),
            RTA_VIA if value.len() > 2 => next_hop = address(&value[2..]).unwrap_or(next_hop),
            RTA_PREFSRC => source = address(value),
            _ => (),
        }
    }
    let index = index.ok_or_else(bad("read a route's interface"))?;
    let source = source.ok_or_else(bad("read a route's source address"))?;

    let mut header = [0u8; 16]; // struct ifinfomsg
    header[4..8].copy_from_slice(&index.to_ne_bytes());
    let reply = netlink
        .ask(libc::RTM_GETLINK, 0, &header, &[])
        .map_err(|source| Error::System { doing: "ask for an interface", source })?;
    let (mut mac, mut interface, mut mtu) = (None, String::new(), 0);
    for (name, value) in attributes(reply.get(16..).unwrap_or_default()) {
        match name {
            IFLA_ADDRESS => mac = Mac::try_from(value).ok(),
            IFLA_IFNAME => interface = String::from_utf8_lossy(value).trim_end_matches('\0').to_owned(),
            IFLA_MTU => mtu = value.first_chunk().map_or(0, |v| u32::from_ne_bytes(*v)),
            _ => (),
        }
    }
    let Some(mac) = mac else { return Err(Error::NotEthernet(interface)) };
    let begun = Instant::now();
    let mut asked = false;
    let next_mac = loop {
        match netlink.neighbour(index, next_hop) {
            Ok(Some(mac)) => break mac,
            Ok(None) => (),
            Err(source) => return Err(Error::System { doing: "ask for a neighbour", source }),
        }
        if !asked {
            asked = true;
            netlink
                .resolve(index, next_hop)
                .map_err(|source| Error::System { doing: "have a neighbour resolved", source })?;
        }
        let waited = begun.elapsed();
        if waited > PATIENCE {
            return Err(Error::Neighbour { next_hop, interface, waited });
        }
        std::thread::sleep(Duration::from_millis(2));
    };
    Ok(Path { index, interface, mtu, mac, next_hop, next_mac, source })
}

fn family(ip: IpAddr) -> u8 {
    (if ip.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 }) as u8
}

fn octets(ip: IpAddr) -> Vec<u8> {
    match ip {
        IpAddr::V4(ip) => ip.octets().to_vec(),
        IpAddr::V6(ip) => ip.octets().to_vec(),
    }
}

fn address(octets: &[u8]) -> Option<IpAddr> {
    match octets.len() {
        4 => Some(Ipv4Addr::from(<[u8; 4]>::try_from(octets).ok()?).into()),
        16 => Some(Ipv6Addr::from(<[u8; 16]>::try_from(octets).ok()?).into()),
        _ => None,
    }
}

/// The attributes of a message: each a length and a type of 16 bits, then the value, padded to 4 octets.
fn attributes(mut rest: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let [a, b, c, d] = *rest.first_chunk::<4>()?;
        let len = usize::from(u16::from_ne_bytes([a, b]));
        let value = rest.get(4..len)?;
        rest = rest.get(len.next_multiple_of(4)..).unwrap_or_default();
        Some((u16::from_ne_bytes([c, d]) & 0x3fff, value))
    })
}

struct Netlink {
    socket: OwnedFd,
    sequence: u32,
}

impl Netlink {
    fn open() -> io::Result<Self> {
        let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC;
        // SAFETY: takes no pointers; the descriptor that it returns belongs to nobody else.
        let socket = unsafe {
            OwnedFd::from_raw_fd(check(libc::socket(libc::AF_NETLINK, kind, libc::NETLINK_ROUTE))?)
        };
        Ok(Self { socket, sequence: 0 })
    }

    /// Sends one request and returns the body of the one answer to it; empty where it is a bare acknowledgement.
    fn ask(&mut self, kind: u16, flags: i32, header: &[u8], attrs: &[(u16, &[u8])]) -> io::Result<Vec<u8>> {
        self.sequence += 1;
        let mut message = vec![0u8; 16];
        message.extend_from_slice(header);
        for (name, value) in attrs {
            message.extend_from_slice(&(value.len() as u16 + 4).to_ne_bytes());
            message.extend_from_slice(&name.to_ne_bytes());
            message.extend_from_slice(value);
            message.resize(message.len().next_multiple_of(4), 0);
        }
        let len = message.len() as u32;
        message[0..4].copy_from_slice(&len.to_ne_bytes());
        message[4..6].copy_from_slice(&kind.to_ne_bytes());
        message[6..8].copy_from_slice(&((libc::NLM_F_REQUEST | flags) as u16).to_ne_bytes());
        message[8..12].copy_from_slice(&self.sequence.to_ne_bytes());
        let fd = self.socket.as_raw_fd();
        // SAFETY: the message outlives the call; an unconnected netlink socket sends to the kernel.
        if unsafe { libc::send(fd, message.as_ptr().cast(), message.len(), 0) } < 0 {
            return Err(io::Error::last_os_error());
        }
        let mut reply = vec![0u8; 32 << 10];
        // SAFETY: the buffer has the length stated and outlives the call.
        let n = unsafe { libc::recv(fd, reply.as_mut_ptr().cast(), reply.len(), 0) };
        if n < 0 {
            return Err(io::Error::last_os_error());
        }
        reply.truncate(n as usize);
        let short = || io::Error::from(io::ErrorKind::UnexpectedEof);
        let word = |at: usize| reply.get(at..at + 4).and_then(|w| w.first_chunk().copied()).ok_or_else(short);
        let kind = u16::from_ne_bytes([word(4)?[0], word(4)?[1]]);
        if i32::from(kind) == libc::NLMSG_ERROR {
            return match i32::from_ne_bytes(word(16)?) {
                0 => Ok(Vec::new()),
                errno => Err(io::Error::from_raw_os_error(-errno)),
            };
        }
        let len = u32::from_ne_bytes(word(0)?) as usize;
        reply.get(16..len).map(<[u8]>::to_vec).ok_or_else(short)
    }

    /// The hardware address of a neighbour, if the kernel knows one that can be used.
    fn neighbour(&mut self, index: u32, ip: IpAddr) -> io::Result<Option<Mac>> {
        let reply = match self.ask(libc::RTM_GETNEIGH, 0, &ndmsg(index, ip, 0, 0), &[(NDA_DST, &octets(ip))])
        {
            Err(e) if e.raw_os_error() == Some(libc::ENOENT) => return Ok(None),
            other => other?,
        };
        if reply.len() < 12 || u16::from_ne_bytes([reply[8], reply[9]]) & NUD_VALID == 0 {
            return Ok(None);
        }
        Ok(attributes(&reply[12..])
            .find(|(name, _)| *name == NDA_LLADDR)
            .and_then(|(_, value)| Mac::try_from(value).ok()))
    }

    /// Has the kernel send ARP requests or neighbour solicitations.
    fn resolve(&mut self, index: u32, ip: IpAddr) -> io::Result<()> {
        let flags = libc::NLM_F_ACK | libc::NLM_F_CREATE | libc::NLM_F_REPLACE;
        self.ask(libc::RTM_NEWNEIGH, flags, &ndmsg(index, ip, 0, NTF_USE), &[(NDA_DST, &octets(ip))])
            .map(drop)
    }
}

/// `struct ndmsg`
fn ndmsg(index: u32, ip: IpAddr, state: u16, flags: u8) -> [u8; 12] {
    let mut header = [0u8; 12];
    header[0] = family(ip);
    header[4..8].copy_from_slice(&index.to_ne_bytes());
    header[8..10].copy_from_slice(&state.to_ne_bytes());
    header[10] = flags;
    header
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_host_is_reached_over_loopback() {
        assert!(matches!(path_to("127.0.0.1".parse().unwrap()), Err(Error::Loopback(_))));
    }

    #[test]
    fn attributes_that_lie_about_their_length_end_the_list() {
        let good = [8, 0, 4, 0, 1, 2, 3, 4, 5, 0, 1, 0, 9, 0, 0, 0];
        let seen: Vec<_> = attributes(&good).collect();
        assert_eq!(seen, [(4, &good[4..8]), (1, &good[12..13])]);
        assert_eq!(attributes(&[200, 0, 1, 0, 1]).count(), 0);
        assert_eq!(attributes(&[0, 0, 1, 0, 1]).count(), 0);
        assert_eq!(attributes(&[8, 0]).count(), 0);
    }
}
