//! The network interfaces of the namespace we are in: which addresses are near.
#![allow(unsafe_code)] // each block says why it is sound

use crate::sys::{check, parse_addr};
use std::ffi::CStr;
use std::io;
use std::net::IpAddr;
use std::os::fd::AsRawFd;

/// One address of an interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InterfaceAddress {
    /// The interface.
    pub name: String,
    /// The kernel's name of its driver: `veth`, `bridge`, `dummy`, `virtio_net`; empty where it does not tell.
    pub driver: String,
    /// The address.
    pub addr: IpAddr,
    /// Bits of its network: 24 for 255.255.255.0.
    pub prefix: u8,
}

impl InterfaceAddress {
    /// Whether this interface reaches only namespaces of this machine.
    pub fn is_virtual(&self) -> bool {
        matches!(self.driver.as_str(), "veth" | "bridge" | "dummy") || self.addr.is_loopback()
    }

    /// Whether `ip` is in this address's network.
    pub fn on_link(&self, ip: IpAddr) -> bool {
        prefix_holds(self.addr, self.prefix, ip)
    }
}

/// Whether the first `prefix` bits of two addresses of one family agree.
pub fn prefix_holds(network: IpAddr, prefix: u8, ip: IpAddr) -> bool {
    let (a, b, width) = match (network, ip) {
        (IpAddr::V4(a), IpAddr::V4(b)) => (u128::from(a.to_bits()), u128::from(b.to_bits()), 32),
        (IpAddr::V6(a), IpAddr::V6(b)) => (a.to_bits(), b.to_bits(), 128),
        _ => return false,
    };
    let host_bits = width - u32::from(prefix).min(width);
    (a ^ b).checked_shr(host_bits).unwrap_or(0) == 0
}

/// The addresses of all interfaces of the current network namespace.
///
/// # Errors
/// From the system.
pub fn addresses() -> io::Result<Vec<InterfaceAddress>> {
    let mut list: *mut libc::ifaddrs = std::ptr::null_mut();
    // SAFETY: the pointer to be filled outlives the call; the list is freed below.
    check(unsafe { libc::getifaddrs(&raw mut list) })?;
    let mut found = Vec::new();
    let mut at = list;
    while !at.is_null() {
        // SAFETY: the list is as getifaddrs made it and not yet freed: each entry is valid, its name is a C string, and
        // its addresses are null or socket addresses of the size that belongs to their family (at least 16 bytes);
        // only as many bytes as the family has are copied into the larger storage.
        let (entry, name, addr, mask) = unsafe {
            let entry = &*at;
            (entry, CStr::from_ptr(entry.ifa_name), copy(entry.ifa_addr), copy(entry.ifa_netmask))
        };
        if let (Some(addr), Some(mask)) = (addr, mask) {
            let prefix = match mask {
                IpAddr::V4(m) => m.to_bits().count_ones(),
                IpAddr::V6(m) => m.to_bits().count_ones(),
            };
            let name = name.to_string_lossy().into_owned();
            let driver = driver(&name).unwrap_or_default();
            found.push(InterfaceAddress { name, driver, addr, prefix: prefix as u8 });
        }
        at = entry.ifa_next;
    }
    // SAFETY: the list came from getifaddrs and nothing borrows from it any more.
    unsafe { libc::freeifaddrs(list) };
    Ok(found)
}

/// # Safety
/// `addr` is null or points at a socket address of the size of its family.
unsafe fn copy(addr: *const libc::sockaddr) -> Option<IpAddr> {
    if addr.is_null() {
        return None;
    }
    let mut raw = crate::sys::RawAddr::empty();
    // SAFETY: the caller's promise; the family decides how much may be read.
    unsafe {
        let len = match libc::c_int::from((*addr).sa_family) {
            libc::AF_INET => size_of::<libc::sockaddr_in>(),
            libc::AF_INET6 => size_of::<libc::sockaddr_in6>(),
            _ => return None,
        };
        std::ptr::copy_nonoverlapping(addr.cast::<u8>(), (&raw mut raw.storage).cast::<u8>(), len);
    }
    parse_addr(&raw.storage).map(|a| a.ip())
}

/// The driver as ethtool names it: for virtual devices the kind of link.
pub(crate) fn driver(name: &str) -> io::Result<String> {
    const GDRVINFO: u32 = 3;
    /// `struct ethtool_drvinfo`
    #[repr(C)]
    struct Info {
        command: u32,
        driver: [u8; 32],
        rest: [u8; 160],
    }
    let mut info = Info { command: GDRVINFO, driver: [0; 32], rest: [0; 160] };
    ethtool(name, (&raw mut info).cast())?;
    let end = info.driver.iter().position(|&b| b == 0).unwrap_or(info.driver.len());
    Ok(String::from_utf8_lossy(&info.driver[..end]).into_owned())
}

/// The number of an interface.
///
/// # Errors
/// Where there is none of this name.
pub fn index(name: &str) -> io::Result<u32> {
    let name = std::ffi::CString::new(name)?;
    // SAFETY: a C string that outlives the call.
    match unsafe { libc::if_nametoindex(name.as_ptr()) } {
        0 => Err(io::Error::last_os_error()),
        index => Ok(index),
    }
}

/// How many queues an interface receives on; an error where the driver does not tell (it then has one).
///
/// # Errors
/// From the system.
pub fn receive_queues(name: &str) -> io::Result<u32> {
    const GCHANNELS: u32 = 0x3c;
    // `struct ethtool_channels`: command, then most receive, send, other and combined ones, then as many as there are.
    let mut channels = [GCHANNELS, 0, 0, 0, 0, 0, 0, 0, 0];
    ethtool(name, (&raw mut channels).cast())?;
    Ok((channels[5] + channels[8]).max(1))
}

/// Has UDP checksums of what is sent through an interface computed by the kernel (`hardware` false), or left to
/// hardware, which between virtual interfaces means to nobody.
///
/// # Errors
/// From the system.
pub fn set_transmit_checksums(name: &str, hardware: bool) -> io::Result<()> {
    const STXCSUM: u32 = 0x17;
    set_feature(name, STXCSUM, hardware)
}

/// Turns generic receive offload of an interface on or off. A veth device that has it can receive by NAPI (since Linux
/// 5.13); it does so only where the other end does not hand it segments to be cut up ([`set_segmentation`]).
///
/// # Errors
/// From the system.
pub fn set_receive_offload(name: &str, on: bool) -> io::Result<()> {
    const SGRO: u32 = 0x2c;
    set_feature(name, SGRO, on)
}

/// Turns TCP segmentation by an interface on or off.
///
/// # Errors
/// From the system.
pub fn set_segmentation(name: &str, on: bool) -> io::Result<()> {
    const STSO: u32 = 0x1f;
    set_feature(name, STSO, on)
}

/// Turns generic segmentation (by the kernel, just before the interface) of what is sent on or off.
///
/// # Errors
/// From the system.
pub fn set_generic_segmentation(name: &str, on: bool) -> io::Result<()> {
    const SGSO: u32 = 0x24;
    set_feature(name, SGSO, on)
}

/// `struct ethtool_value`
fn set_feature(name: &str, command: u32, on: bool) -> io::Result<()> {
    let mut value = [command, u32::from(on)];
    ethtool(name, (&raw mut value).cast())
}

/// Asks about an interface with a command whose structure is so many numbers, the command first.
pub(crate) fn ethtool_numbers<const N: usize>(name: &str, mut numbers: [u32; N]) -> io::Result<[u32; N]> {
    // The longest that any of these commands writes.
    let mut whole = [0u32; 16];
    whole[..N].copy_from_slice(&numbers);
    ethtool(name, (&raw mut whole).cast())?;
    numbers.copy_from_slice(&whole[..N]);
    Ok(numbers)
}

/// The largest packet of an interface, in bytes, without the Ethernet header.
pub(crate) fn mtu(name: &str) -> io::Result<u32> {
    let socket = std::net::UdpSocket::bind("0.0.0.0:0")?;
    let mut request = request(name);
    // SAFETY: the request outlives the call, which writes a number into it.
    check(unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCGIFMTU, &raw mut request) })?;
    // SAFETY: the kernel has written this field of the union.
    Ok(unsafe { request.ifr_ifru.ifru_mtu } as u32)
}

/// A request about an interface.
fn request(name: &str) -> libc::ifreq {
    // SAFETY: ifreq is a plain C structure for which all zeroes is valid.
    let mut request: libc::ifreq = unsafe { std::mem::MaybeUninit::zeroed().assume_init() };
    for (to, from) in request.ifr_name[..libc::IFNAMSIZ - 1].iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    request
}

/// Asks `SIOCETHTOOL` about an interface; `data` must point at the structure that its command wants.
fn ethtool(name: &str, data: *mut libc::c_char) -> io::Result<()> {
    let socket = std::net::UdpSocket::bind("0.0.0.0:0")?;
    let mut request = request(name);
    request.ifr_ifru.ifru_data = data;
    // SAFETY: the request outlives the call; the callers, all in this file, pass whole structures that do so too.
    check(unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCETHTOOL, &raw mut request) }).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_is_there() {
        let all = addresses().unwrap();
        let lo = all.iter().find(|a| a.addr.to_string() == "127.0.0.1").expect("a loopback address");
        assert_eq!((lo.name.as_str(), lo.prefix, lo.is_virtual()), ("lo", 8, true));
        assert!(lo.on_link("127.9.9.9".parse().unwrap()));
        assert!(!lo.on_link("128.0.0.1".parse().unwrap()));
        assert!(!lo.on_link("::1".parse().unwrap()));
    }

    #[test]
    fn prefixes_end_anywhere() {
        let holds = |n: &str, p, ip: &str| prefix_holds(n.parse().unwrap(), p, ip.parse().unwrap());
        assert!(holds("10.53.0.0", 24, "10.53.0.255") && !holds("10.53.0.0", 24, "10.53.1.0"));
        assert!(holds("fd53::", 64, "fd53::1:2:3:4") && !holds("fd53::", 64, "fd53:0:0:1::"));
        assert!(holds("0.0.0.0", 0, "8.8.8.8") && holds("::", 0, "2001:db8::1"));
        assert!(holds("10.0.0.1", 32, "10.0.0.1") && !holds("10.0.0.1", 32, "10.0.0.0"));
        assert!(holds("::1", 128, "::1") && !holds("::1", 128, "::"));
    }
}
