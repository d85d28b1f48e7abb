//! Non-blocking stream sockets and the epoll that watches them.
#![allow(unsafe_code)] // each block says why it is sound

use crate::mmsg::stamp_of;
use crate::sys::{RawAddr, check, parse_addr, set_option};
use crate::transport::Stamp;
use crate::udp::Flow;
use std::io;
use std::mem::size_of;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

pub(crate) const IN: u32 = libc::EPOLLIN as u32;
pub(crate) const OUT: u32 = libc::EPOLLOUT as u32;
pub(crate) const BROKEN: u32 = (libc::EPOLLERR | libc::EPOLLHUP) as u32;

/// A new stream socket of the family of `like` that never makes its caller wait.
pub(crate) fn stream(like: SocketAddr) -> io::Result<OwnedFd> {
    let family = if like.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 };
    let kind = libc::SOCK_STREAM | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    // SAFETY: takes no pointers; the descriptor that it returns belongs to nobody else.
    Ok(unsafe { OwnedFd::from_raw_fd(check(libc::socket(family, kind, 0))?) })
}

/// Binds a socket.
pub(crate) fn bind(fd: BorrowedFd<'_>, addr: SocketAddr) -> io::Result<()> {
    let raw = RawAddr::from(addr);
    // SAFETY: the address outlives the call and has the length that is stated.
    check(unsafe { libc::bind(fd.as_raw_fd(), (&raw const raw.storage).cast(), raw.len) }).map(drop)
}

/// Begins a connection; epoll reports its success or failure; an error of the peer's is returned at once.
pub(crate) fn connect(flow: &Flow) -> (Option<OwnedFd>, io::Result<()>) {
    let bound = || {
        let socket = stream(flow.target)?;
        let fd = socket.as_fd();
        set_option(fd, libc::IPPROTO_TCP, libc::TCP_NODELAY, 1)?;
        set_option(fd, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, 1)?;
        if flow.source.port() != 0 {
            set_option(fd, libc::SOL_SOCKET, libc::SO_REUSEADDR, 1)?;
            bind(fd, flow.source)?;
        } else if !flow.source.ip().is_unspecified() {
            // The port is chosen when the target is known: each target may have all of them.
            set_option(fd, libc::IPPROTO_IP, libc::IP_BIND_ADDRESS_NO_PORT, 1)?;
            bind(fd, flow.source)?;
        }
        Ok(socket)
    };
    let socket = match bound() {
        Ok(socket) => socket,
        Err(e) => return (None, Err(e)),
    };
    let raw = RawAddr::from(flow.target);
    // SAFETY: as in `bind`.
    let result =
        check(unsafe { libc::connect(socket.as_raw_fd(), (&raw const raw.storage).cast(), raw.len) });
    let result = match result {
        Err(e) if e.raw_os_error() == Some(libc::EINPROGRESS) => Ok(()),
        other => other.map(drop),
    };
    // Where nobody listens at one of our own ports, the kernel may choose that very port for us and connect us to
    // ourselves: a refusal by another name.
    let result = match result {
        Ok(()) if local(socket.as_fd()) == Some(flow.target) => {
            Err(io::Error::from_raw_os_error(libc::ECONNREFUSED))
        }
        other => other,
    };
    (Some(socket), result)
}

/// A socket's own address.
fn local(fd: BorrowedFd<'_>) -> Option<SocketAddr> {
    let mut raw = RawAddr::empty();
    let mut len = size_of::<libc::sockaddr_storage>() as libc::socklen_t;
    // SAFETY: storage and length outlive the call; the kernel writes at most `len` octets.
    check(unsafe { libc::getsockname(fd.as_raw_fd(), (&raw mut raw.storage).cast(), &raw mut len) }).ok()?;
    parse_addr(&raw.storage)
}

/// Makes closing send RST instead of FIN, so that the port is free at once instead of after TIME_WAIT.
pub(crate) fn close_by_reset(fd: BorrowedFd<'_>) {
    let linger = libc::linger { l_onoff: 1, l_linger: 0 };
    // SAFETY: the value outlives the call and has the size that is stated. Failing changes nothing but the manners.
    let _ = unsafe {
        libc::setsockopt(
            fd.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_LINGER,
            (&raw const linger).cast(),
            size_of::<libc::linger>() as libc::socklen_t,
        )
    };
}

/// Writes what the kernel takes: how many octets.
pub(crate) fn send(fd: BorrowedFd<'_>, bytes: &[u8]) -> io::Result<usize> {
    let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
    // SAFETY: the buffer outlives the call and has the length that is stated.
    let n = unsafe { libc::send(fd.as_raw_fd(), bytes.as_ptr().cast(), bytes.len(), flags) };
    if n < 0 { Err(io::Error::last_os_error()) } else { Ok(n as usize) }
}

/// Reads what is there: how many octets (0: the peer has closed), and when the kernel received the last of them.
pub(crate) fn receive(fd: BorrowedFd<'_>, buffer: &mut [u8]) -> io::Result<(usize, Option<Stamp>)> {
    let mut control = [0u64; 8];
    let mut vector = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    // SAFETY: msghdr is a plain C structure of integers and pointers, for which all zeroes is valid.
    let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
    header.msg_iov = &raw mut vector;
    header.msg_iovlen = 1;
    header.msg_control = control.as_mut_ptr().cast();
    header.msg_controllen = size_of::<[u64; 8]>();
    // SAFETY: the vector and the control buffer have the sizes stated and outlive the call.
    let n = unsafe { libc::recvmsg(fd.as_raw_fd(), &raw mut header, libc::MSG_DONTWAIT) };
    if n < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has filled the control buffer, which is still there, and set its length.
    let stamp = unsafe { stamp_of(&header) };
    Ok((n as usize, stamp.map(Stamp::Wall)))
}

/// The error that a socket has waiting; `None` where there is none.
pub(crate) fn pending_error(fd: BorrowedFd<'_>) -> Option<i32> {
    let error = crate::sys::get_option::<1>(fd, libc::SOL_SOCKET, libc::SO_ERROR).map_or(0, |v| v[0] as i32);
    (error != 0).then_some(error)
}

/// Many sockets watched at once; each is known by a number.
pub(crate) struct Epoll {
    fd: OwnedFd,
    events: Box<[libc::epoll_event]>,
}

impl Epoll {
    pub(crate) fn new(events: usize) -> io::Result<Self> {
        // SAFETY: takes no pointers; the descriptor that it returns belongs to nobody else.
        let fd = unsafe { OwnedFd::from_raw_fd(check(libc::epoll_create1(libc::EPOLL_CLOEXEC))?) };
        Ok(Self { fd, events: vec![libc::epoll_event { events: 0, u64: 0 }; events].into() })
    }

    fn control(&self, what: libc::c_int, fd: BorrowedFd<'_>, events: u32, number: u64) -> io::Result<()> {
        let mut event = libc::epoll_event { events, u64: number };
        // SAFETY: both descriptors are open; the event outlives the call.
        check(unsafe { libc::epoll_ctl(self.fd.as_raw_fd(), what, fd.as_raw_fd(), &raw mut event) }).map(drop)
    }

    /// Watches one more socket; closing it ends that.
    pub(crate) fn add(&self, fd: BorrowedFd<'_>, events: u32, number: u64) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_ADD, fd, events, number)
    }

    /// Watches a socket for something else.
    pub(crate) fn change(&self, fd: BorrowedFd<'_>, events: u32, number: u64) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_MOD, fd, events, number)
    }

    /// Looks which sockets have something to do, without waiting: how many.
    pub(crate) fn look(&mut self) -> io::Result<usize> {
        let room = self.events.len() as libc::c_int;
        // SAFETY: the array has room for that many events and outlives the call; timeout 0 returns at once.
        match check(unsafe { libc::epoll_wait(self.fd.as_raw_fd(), self.events.as_mut_ptr(), room, 0) }) {
            Err(e) if e.kind() == io::ErrorKind::Interrupted => Ok(0),
            other => Ok(other? as usize),
        }
    }

    /// The events and the number that the last look found in place `i`.
    pub(crate) fn found(&self, i: usize) -> (u32, u64) {
        (self.events[i].events, self.events[i].u64)
    }

    /// Waits until a socket has something to do, or `timeout` nanoseconds have passed; a signal ends it too.
    pub(crate) fn wait(&self, timeout: u64) -> io::Result<()> {
        crate::sys::wait_readable(self.fd.as_fd(), timeout)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_would_be_connected_to_itself_is_refused() {
        // A port that is ours: to connect from it to itself is what the kernel does where it draws that port.
        let port = {
            let probe = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
            probe.local_addr().unwrap()
        };
        let (_socket, result) = connect(&Flow { source: port, target: port });
        assert_eq!(result.unwrap_err().raw_os_error(), Some(libc::ECONNREFUSED));
    }
}
