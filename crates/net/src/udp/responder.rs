//! The other end of UDP flows.

use super::{BATCH, open, reports_the_past};
use crate::mmsg::Receiver;
use crate::sys::{set_option, wait_readable};
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};

/// The other end: receives batches of datagrams and sends answers back to where they came from.
pub struct Responder {
    socket: OwnedFd,
    receiver: Receiver,
}

impl Responder {
    /// Binds a responder. An answer's source is the address that was asked, also where `bind` is unspecified.
    ///
    /// # Errors
    /// From the system: address in use or not available.
    pub fn open(bind: SocketAddr, receive_buffer: usize) -> io::Result<Self> {
        let socket = open(bind, receive_buffer)?;
        let (level, name) = match bind {
            SocketAddr::V4(_) => (libc::IPPROTO_IP, libc::IP_PKTINFO),
            SocketAddr::V6(_) => (libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO),
        };
        set_option(socket.as_fd(), level, name, 1)?;
        Ok(Self { socket, receiver: Receiver::new(BATCH) })
    }

    /// The address that it is bound to, the port that the kernel chose included.
    ///
    /// # Errors
    /// From the system.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        let socket = std::net::UdpSocket::from(self.socket.try_clone()?);
        socket.local_addr()
    }

    /// Receives a batch where there is one, lets `answer` turn each datagram into its answer in place and say how
    /// long that is, at most as long as what came (none: no answer), and sends the answers: how many were received and how
    /// many answered. Never waits.
    ///
    /// # Errors
    /// Only where nothing can be received any more. Answers that the kernel refuses are not answered.
    pub fn turn(&mut self, answer: &mut dyn FnMut(&mut [u8]) -> Option<usize>) -> io::Result<(usize, usize)> {
        let fd = self.socket.as_fd();
        let n = match self.receiver.receive(fd, BATCH) {
            Ok(n) => n,
            Err(e) if e.kind() == io::ErrorKind::WouldBlock || reports_the_past(&e) => return Ok((0, 0)),
            Err(e) => return Err(e),
        };
        let mut lengths = [None; BATCH];
        for (i, length) in lengths.iter_mut().enumerate().take(n) {
            *length = answer(self.receiver.bytes_mut(i));
        }
        let sent = self.receiver.send_back(fd, n, |i| lengths[i]).unwrap_or(0);
        Ok((n, sent))
    }

    /// Waits until something can be received, or `timeout` nanoseconds have passed.
    ///
    /// # Errors
    /// Only where waiting is impossible; a signal just ends it.
    pub fn wait(&self, timeout: u64) -> io::Result<()> {
        wait_readable(self.socket.as_fd(), timeout)
    }

    /// How many datagrams the kernel has dropped because the receive buffer was full.
    pub fn drops(&self) -> u64 {
        super::drops(&self.socket)
    }
}
