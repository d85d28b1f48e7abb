//! A server's UDP sockets, seen from outside: how large their receive buffers are and what they dropped. The buffers can be made
//! larger.
//!
//! That takes no option of the server's, which some do not have, and no change to the system's default: the sockets are
//! fetched from the running process (`pidfd_getfd`, as a debugger would), which needs the right to trace it.

use crate::Error;
use rustix::net::sockopt;
use rustix::net::{AddressFamily, SocketType};
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;

/// The UDP sockets at which processes receive on one port.
#[derive(Debug)]
pub struct UdpSockets(Vec<OwnedFd>);

impl UdpSockets {
    /// Those of `pids` that are bound to `port`. A socket that several processes share is one.
    ///
    /// # Errors
    /// A process cannot be looked into: it has ended, or we may not trace it.
    pub fn of(pids: &[u32], port: u16) -> Result<Self, Error> {
        let (mut found, mut known) = (Vec::new(), BTreeSet::new());
        for &pid in pids {
            let path = format!("/proc/{pid}/fd");
            let refused = |e: std::io::Error| Error::Sample { path: path.clone(), message: e.to_string() };
            let process =
                Pid::from_raw(pid as i32).ok_or_else(|| refused(std::io::ErrorKind::NotFound.into()))?;
            let process = pidfd_open(process, PidfdFlags::empty()).map_err(|e| refused(e.into()))?;
            for entry in std::fs::read_dir(&path).map_err(refused)?.flatten() {
                let Ok(link) = std::fs::read_link(entry.path()) else { continue };
                let link = link.to_string_lossy().into_owned();
                let number = entry.file_name().to_str().and_then(|name| name.parse().ok());
                let (true, Some(number)) = (link.starts_with("socket:") && known.insert(link), number) else {
                    continue;
                };
                let fd =
                    pidfd_getfd(&process, number, PidfdGetfdFlags::empty()).map_err(|e| refused(e.into()))?;
                if receives_on(&fd, port) {
                    found.push(fd);
                }
            }
        }
        Ok(Self(found))
    }

    /// The receive buffer of each in bytes of the kernel's accounting, which counts a packet with its bookkeeping: some 768 bytes
    /// for a query, and twice what a program asks for.
    pub fn receive_buffers(&self) -> Vec<usize> {
        self.0.iter().filter_map(|fd| sockopt::socket_recv_buffer_size(fd).ok()).collect()
    }

    /// Gives each a receive buffer as if its program had asked for `bytes`.
    ///
    /// # Errors
    /// Without the privilege to go beyond the system's limit.
    pub fn set_receive_buffer(&self, bytes: usize) -> Result<(), Error> {
        let refused = |e: rustix::io::Errno| Error::Sample {
            path: format!("receive buffer of {bytes} bytes"),
            message: e.to_string(),
        };
        self.0
            .iter()
            .try_for_each(|fd| sockopt::set_socket_recv_buffer_size_force(fd, bytes))
            .map_err(refused)
    }
}

/// Whether it is a UDP socket that is bound to `port`.
fn receives_on(fd: &OwnedFd, port: u16) -> bool {
    let internet = matches!(sockopt::socket_domain(fd), Ok(AddressFamily::INET | AddressFamily::INET6));
    let datagrams = sockopt::socket_type(fd) == Ok(SocketType::DGRAM);
    let bound = || rustix::net::getsockname(fd).ok().and_then(|addr| SocketAddr::try_from(addr).ok());
    internet && datagrams && bound().is_some_and(|addr| addr.port() == port)
}

/// A UDP socket of a network stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Socket {
    /// The address that it is bound to. Several sockets may have the same (`SO_REUSEPORT`).
    pub address: SocketAddr,
    /// The kernel's number for it.
    pub inode: u64,
}

/// Datagrams that each UDP socket in the network stack of process `pid` dropped since it was opened: its receive buffer was full,
/// or the checksum was wrong.
///
/// # Errors
/// The process is gone, or the kernel's table has another shape.
pub fn dropped(pid: u32) -> Result<BTreeMap<Socket, u64>, Error> {
    let mut all = BTreeMap::new();
    for table in ["udp", "udp6"] {
        let path = format!("/proc/{pid}/net/{table}");
        let wrong = |message: String| Error::Sample { path: path.clone(), message };
        let text = std::fs::read_to_string(&path).map_err(|e| wrong(e.to_string()))?;
        for line in text.lines().skip(1) {
            let (socket, drops) = socket(line).ok_or_else(|| wrong(format!("unknown line '{line}'")))?;
            all.insert(socket, drops);
        }
    }
    Ok(all)
}

/// A line of `/proc/net/udp`: its second word is the local address, its tenth the inode, its thirteenth the count of drops.
fn socket(line: &str) -> Option<(Socket, u64)> {
    let words: Vec<&str> = line.split_ascii_whitespace().collect();
    let (address, port) = words.get(1)?.split_once(':')?;
    // Words of 32 bits in the machine's order, each of which holds four octets in the network's.
    let octets = |n: usize| Some(u32::from_str_radix(address.get(8 * n..8 * n + 8)?, 16).ok()?.to_ne_bytes());
    let address: IpAddr = match address.len() {
        8 => IpAddr::from(octets(0)?),
        32 => {
            let all = [octets(0)?, octets(1)?, octets(2)?, octets(3)?].concat();
            IpAddr::from(<[u8; 16]>::try_from(all).ok()?)
        }
        _ => return None,
    };
    let address = SocketAddr::new(address, u16::from_str_radix(port, 16).ok()?);
    Some((Socket { address, inode: words.get(9)?.parse().ok()? }, words.get(12)?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;

    #[test]
    fn drops_are_counted_for_each_socket() {
        for (at, kind) in [("127.0.0.1:0", "IPv4"), ("[::1]:0", "IPv6")] {
            let Ok(full) = UdpSocket::bind(at) else {
                eprintln!("SKIPPED: there is no {kind} on this machine");
                continue;
            };
            let empty = UdpSocket::bind(at).unwrap();
            let to = full.local_addr().unwrap();
            for _ in 0..20_000 {
                empty.send_to(&[0; 512], to).unwrap();
            }
            let all = dropped(std::process::id()).unwrap();
            let drops_of = |socket: &UdpSocket| {
                let address = socket.local_addr().unwrap();
                all.iter().find(|(at, _)| at.address == address).map(|(_, drops)| *drops)
            };
            assert!(drops_of(&full).unwrap() > 1000, "{all:?}");
            assert_eq!(drops_of(&empty), Some(0));
        }
    }

    #[test]
    fn a_line_that_is_cut_is_no_socket() {
        let line = " 12: 0200350A:0035 00000000:0000 07 00000000:00000000 00:00000000 00000000  0 0 4711 2 0000000000000000 99";
        let (socket, drops) = super::socket(line).unwrap();
        assert_eq!((socket.inode, drops), (4711, 99));
        assert_eq!(socket.address.port(), 53);
        for end in 0..line.len() - 2 {
            assert_eq!(super::socket(&line[..end]), None, "{}", &line[..end]);
        }
    }

    #[test]
    fn sockets_of_a_port_are_found_and_their_buffers_changed() {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let other = UdpSocket::bind("127.0.0.1:0").unwrap();
        let same = socket.try_clone().unwrap();
        let port = socket.local_addr().unwrap().port();
        let found = UdpSockets::of(&[std::process::id()], port).unwrap();
        let before = found.receive_buffers();
        assert_eq!(before.len(), 1, "two descriptors of one socket");
        assert_eq!(sockopt::socket_recv_buffer_size(&same), Ok(before[0]));
        if let Err(error) = found.set_receive_buffer(8 << 20) {
            eprintln!("SKIPPED: a larger receive buffer needs root: {error}");
            return;
        }
        assert_eq!(found.receive_buffers(), [16 << 20]);
        assert_eq!(sockopt::socket_recv_buffer_size(&other), Ok(before[0]));
        assert!(UdpSockets::of(&[u32::MAX - 1], port).is_err());
    }
}
