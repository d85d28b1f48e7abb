//! Helpers that the other files share: results of system calls, socket addresses, socket options, the clock.
#![allow(unsafe_code)] // each block says why it is sound

use std::io;
use std::mem::{MaybeUninit, size_of};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsRawFd, BorrowedFd};

/// Turns the `-1` of a system call into the error it stands for.
pub(crate) fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result == -1 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// A socket address as the kernel takes it.
#[derive(Clone, Copy)]
pub(crate) struct RawAddr {
    pub storage: libc::sockaddr_storage,
    pub len: libc::socklen_t,
}

impl RawAddr {
    pub(crate) fn empty() -> Self {
        // SAFETY: sockaddr_storage is a plain C structure for which all zeroes is valid.
        let storage = unsafe { MaybeUninit::zeroed().assume_init() };
        Self { storage, len: size_of::<libc::sockaddr_storage>() as libc::socklen_t }
    }
}

impl From<SocketAddr> for RawAddr {
    fn from(addr: SocketAddr) -> Self {
        let mut raw = Self::empty();
        match addr {
            SocketAddr::V4(a) => {
                let sin = libc::sockaddr_in {
                    sin_family: libc::AF_INET as libc::sa_family_t,
                    sin_port: a.port().to_be(),
                    sin_addr: libc::in_addr { s_addr: u32::from_ne_bytes(a.ip().octets()) },
                    sin_zero: [0; 8],
                };
                raw.len = size_of::<libc::sockaddr_in>() as libc::socklen_t;
                // SAFETY: sockaddr_storage is at least as large and as aligned as any socket address.
                unsafe { (&raw mut raw.storage).cast::<libc::sockaddr_in>().write(sin) };
            }
            SocketAddr::V6(a) => {
                let sin6 = libc::sockaddr_in6 {
                    sin6_family: libc::AF_INET6 as libc::sa_family_t,
                    sin6_port: a.port().to_be(),
                    sin6_flowinfo: a.flowinfo(),
                    sin6_addr: libc::in6_addr { s6_addr: a.ip().octets() },
                    sin6_scope_id: a.scope_id(),
                };
                raw.len = size_of::<libc::sockaddr_in6>() as libc::socklen_t;
                // SAFETY: as above.
                unsafe { (&raw mut raw.storage).cast::<libc::sockaddr_in6>().write(sin6) };
            }
        }
        raw
    }
}

/// Reads a socket address that the kernel or the C library wrote; `None` where it is of another family.
pub(crate) fn parse_addr(storage: &libc::sockaddr_storage) -> Option<SocketAddr> {
    match libc::c_int::from(storage.ss_family) {
        libc::AF_INET => {
            // SAFETY: the family says that it is a sockaddr_in, and the storage is large enough for one.
            let sin = unsafe { &*std::ptr::from_ref(storage).cast::<libc::sockaddr_in>() };
            let ip = Ipv4Addr::from(sin.sin_addr.s_addr.to_ne_bytes());
            Some(SocketAddr::new(IpAddr::V4(ip), u16::from_be(sin.sin_port)))
        }
        libc::AF_INET6 => {
            // SAFETY: as above, for sockaddr_in6.
            let sin6 = unsafe { &*std::ptr::from_ref(storage).cast::<libc::sockaddr_in6>() };
            let ip = Ipv6Addr::from(sin6.sin6_addr.s6_addr);
            Some(SocketAddr::new(IpAddr::V6(ip), u16::from_be(sin6.sin6_port)))
        }
        _ => None,
    }
}

/// Sets a socket option of integer type.
pub(crate) fn set_option(
    fd: BorrowedFd<'_>,
    level: libc::c_int,
    name: libc::c_int,
    value: libc::c_int,
) -> io::Result<()> {
    // SAFETY: the value outlives the call and has the size that is stated.
    check(unsafe {
        libc::setsockopt(
            fd.as_raw_fd(),
            level,
            name,
            (&raw const value).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    })
    .map(drop)
}

/// Reads a socket option made of 32-bit numbers; what the kernel does not fill stays zero.
pub(crate) fn get_option<const N: usize>(
    fd: BorrowedFd<'_>,
    level: libc::c_int,
    name: libc::c_int,
) -> io::Result<[u32; N]> {
    let mut value = [0u32; N];
    let mut len = size_of::<[u32; N]>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `len` bytes into the array, for which any bits are valid.
    check(unsafe { libc::getsockopt(fd.as_raw_fd(), level, name, value.as_mut_ptr().cast(), &raw mut len) })?;
    Ok(value)
}

fn clock(id: libc::clockid_t) -> u64 {
    let mut t = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the structure outlives the call; both clocks always exist on Linux.
    unsafe { libc::clock_gettime(id, &raw mut t) };
    nanos(t)
}

/// Nanoseconds of a time that is not negative.
pub(crate) fn nanos(t: libc::timespec) -> u64 {
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}

/// CLOCK_MONOTONIC in nanoseconds.
pub(crate) fn monotonic() -> u64 {
    clock(libc::CLOCK_MONOTONIC)
}

/// CLOCK_REALTIME in nanoseconds since 1970.
pub(crate) fn wall() -> u64 {
    clock(libc::CLOCK_REALTIME)
}

/// Waits until `fd` can be read or `timeout` nanoseconds have passed; a signal ends it too.
pub(crate) fn wait_readable(fd: BorrowedFd<'_>, timeout: u64) -> io::Result<()> {
    wait_any_readable(std::iter::once(fd), timeout)
}

/// The most that [`wait_any_readable`] waits for.
pub(crate) const MOST_WAITED: usize = 64;

/// The same for the first of several, [`MOST_WAITED`] at most.
pub(crate) fn wait_any_readable<'a>(
    fds: impl Iterator<Item = BorrowedFd<'a>>,
    timeout: u64,
) -> io::Result<()> {
    let mut polls = [libc::pollfd { fd: -1, events: libc::POLLIN, revents: 0 }; MOST_WAITED];
    let mut n = 0;
    for (poll, fd) in polls.iter_mut().zip(fds) {
        poll.fd = fd.as_raw_fd();
        n += 1;
    }
    poll(&mut polls[..n], timeout)
}

/// Waits until `fd` has room for what is sent or `timeout` nanoseconds have passed; a signal ends it too.
pub(crate) fn wait_writable(fd: BorrowedFd<'_>, timeout: u64) -> io::Result<()> {
    poll(&mut [libc::pollfd { fd: fd.as_raw_fd(), events: libc::POLLOUT, revents: 0 }], timeout)
}

fn poll(polls: &mut [libc::pollfd], timeout: u64) -> io::Result<()> {
    let timeout = libc::timespec {
        tv_sec: (timeout / 1_000_000_000) as libc::time_t,
        tv_nsec: (timeout % 1_000_000_000) as libc::c_long,
    };
    // SAFETY: the pollfds and the timespec outlive the call; no signal mask.
    match check(unsafe {
        libc::ppoll(polls.as_mut_ptr(), polls.len() as libc::nfds_t, &raw const timeout, std::ptr::null())
    }) {
        Err(e) if e.kind() != io::ErrorKind::Interrupted => Err(e),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_go_there_and_back() {
        for text in ["127.0.0.1:53", "[fd53::1]:5353", "255.255.255.255:65535"] {
            let addr: SocketAddr = text.parse().unwrap();
            assert_eq!(parse_addr(&RawAddr::from(addr).storage), Some(addr));
        }
        assert_eq!(parse_addr(&RawAddr::empty().storage), None);
    }
}
