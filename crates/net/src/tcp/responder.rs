//! The other end of connections: takes all that come, and answers each message on the connection that brought it.
#![allow(unsafe_code)] // each block says why it is sound

use super::frame::{Deframer, Pool};
use super::socket::{self, BROKEN, Epoll, IN, OUT};
use crate::sys::{check, set_option};
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};

/// Connections that wait to be taken (the kernel may allow fewer: net.core.somaxconn).
const BACKLOG: libc::c_int = 4096;
const LISTENER: u64 = u64::MAX;

struct Peer {
    fd: OwnedFd,
    deframer: Deframer,
    out: Vec<u8>,
    written: usize,
    /// It is watched for being able to take more, not for messages.
    blocked: bool,
}

/// A server of DNS messages over TCP. A peer that does not read its answers is read no further meanwhile.
pub struct Responder {
    listener: OwnedFd,
    epoll: Epoll,
    peers: Vec<Option<Peer>>,
    free: Vec<usize>,
    pool: Pool,
    buffer: Box<[u8]>,
    taken: u64,
}

impl Responder {
    /// Listens at an address.
    ///
    /// # Errors
    /// From the system: address in use or not available.
    pub fn open(addr: SocketAddr) -> io::Result<Self> {
        let listener = socket::stream(addr)?;
        set_option(listener.as_fd(), libc::SOL_SOCKET, libc::SO_REUSEADDR, 1)?;
        socket::bind(listener.as_fd(), addr)?;
        // SAFETY: takes no pointers.
        check(unsafe { libc::listen(listener.as_raw_fd(), BACKLOG) })?;
        let epoll = Epoll::new(256)?;
        epoll.add(listener.as_fd(), IN, LISTENER)?;
        Ok(Self {
            listener,
            epoll,
            peers: Vec::new(),
            free: Vec::new(),
            pool: Pool::default(),
            buffer: vec![0; 64 << 10].into(),
            taken: 0,
        })
    }

    /// The address at which it listens, the port that the kernel chose included.
    ///
    /// # Errors
    /// From the system.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        std::net::TcpListener::from(self.listener.try_clone()?).local_addr()
    }

    /// Connections taken so far, and those that are open now.
    pub fn connections(&self) -> (u64, usize) {
        (self.taken, self.peers.len() - self.free.len())
    }

    /// Takes connections and reads what is there; `answer` gets each message (at most the first
    /// [`crate::transport::Incoming::MAX`] octets of it) and appends its answer, of at most 65,535 octets (false:
    /// none). How many messages came. Never waits.
    ///
    /// # Errors
    /// Only where nothing can be received any more.
    pub fn turn(&mut self, answer: &mut dyn FnMut(&[u8], &mut Vec<u8>) -> bool) -> io::Result<usize> {
        let mut messages = 0;
        for i in 0..self.epoll.look()? {
            let (events, number) = self.epoll.found(i);
            if number == LISTENER {
                self.accept()?;
                continue;
            }
            let at = number as usize;
            // None: it has ended in this turn.
            let Some(mut peer) = self.peers[at].take() else { continue };
            match peer.turn(events, &mut self.buffer, &mut self.pool, answer) {
                Some(n) if peer.watch(&self.epoll, number, &mut self.pool) => {
                    messages += n;
                    self.peers[at] = Some(peer);
                }
                _ => self.free.push(at),
            }
        }
        Ok(messages)
    }

    fn accept(&mut self) -> io::Result<()> {
        // Bounded, so that those who connect cannot keep it from answering.
        for _ in 0..256 {
            let flags = libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
            let (none, fd) = (std::ptr::null_mut(), self.listener.as_raw_fd());
            // SAFETY: no address is asked for; the descriptor that it returns belongs to nobody else.
            let fd = match check(unsafe { libc::accept4(fd, none, std::ptr::null_mut(), flags) }) {
                // SAFETY: as above.
                Ok(fd) => unsafe { OwnedFd::from_raw_fd(fd) },
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(e) if matches!(e.raw_os_error(), Some(libc::ECONNABORTED | libc::EINTR)) => continue,
                Err(e) => return Err(e),
            };
            set_option(fd.as_fd(), libc::IPPROTO_TCP, libc::TCP_NODELAY, 1)?;
            let at = self.free.pop().unwrap_or(self.peers.len());
            if at == self.peers.len() {
                self.peers.push(None);
            }
            self.epoll.add(fd.as_fd(), IN, at as u64)?;
            let deframer = Deframer::default();
            self.peers[at] = Some(Peer { fd, deframer, out: Vec::new(), written: 0, blocked: false });
            self.taken += 1;
        }
        Ok(())
    }

    /// Waits until there is something to do, or `timeout` nanoseconds have passed.
    ///
    /// # Errors
    /// Only where waiting is impossible; a signal just ends it.
    pub fn wait(&self, timeout: u64) -> io::Result<()> {
        self.epoll.wait(timeout)
    }
}

impl Peer {
    /// Reads, answers and writes: how many messages came; `None` where the connection is over.
    fn turn(
        &mut self,
        events: u32,
        buffer: &mut [u8],
        pool: &mut Pool,
        answer: &mut dyn FnMut(&[u8], &mut Vec<u8>) -> bool,
    ) -> Option<usize> {
        let mut messages = 0;
        if self.out.is_empty() && events & (IN | BROKEN) != 0 {
            match socket::receive(self.fd.as_fd(), buffer) {
                Ok((0, _)) => return None,
                Ok((n, _)) => {
                    let mut out = pool.take();
                    self.deframer.feed(&buffer[..n], pool, &mut |message, _| {
                        messages += 1;
                        let at = out.len();
                        out.extend_from_slice(&[0; 2]);
                        match u16::try_from(if answer(message, &mut out) {
                            out.len() - at - 2
                        } else {
                            65_536
                        }) {
                            Ok(len) => out[at..at + 2].copy_from_slice(&len.to_be_bytes()),
                            Err(_) => out.truncate(at),
                        }
                    });
                    self.out = out;
                }
                Err(e) if matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
                Err(_) => return None,
            }
        }
        while self.written < self.out.len() {
            match socket::send(self.fd.as_fd(), &self.out[self.written..]) {
                Ok(n) => self.written += n,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => break,
                Err(_) => return None,
            }
        }
        Some(messages)
    }

    /// Has epoll tell what it waits for now; false where that is impossible.
    fn watch(&mut self, epoll: &Epoll, number: u64, pool: &mut Pool) -> bool {
        let blocked = self.written < self.out.len();
        let was_blocked = std::mem::replace(&mut self.blocked, blocked);
        if !blocked {
            pool.give(std::mem::take(&mut self.out));
            self.written = 0;
        }
        blocked == was_blocked
            || epoll.change(self.fd.as_fd(), if blocked { OUT } else { IN }, number).is_ok()
    }
}
