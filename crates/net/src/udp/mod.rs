//! Batched UDP sockets: the transport that works everywhere, and the responder at the other end.
//!
//! The sockets are bound but not connected, so that an answer from a wrong address or port arrives and can be told
//! apart; ICMP errors come through their error queues. A batch costs one sendmmsg (two where it mixes queries with
//! and without the don't-fragment bit), and a look at all flows costs one epoll_wait.
#![allow(unsafe_code)] // each block says why it is sound

mod responder;

pub use responder::Responder;

use crate::batch::Batch;
use crate::mmsg::{Receiver, Sender, take_error};
use crate::sys::{RawAddr, check, get_option, set_option, wait_readable};
use crate::transport::{Incoming, Outgoing, Stamp, Transport, Troubles};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};

/// Datagrams in one batch.
pub const BATCH: usize = 64;

/// Datagrams in one batch of a flood.
pub const FLOOD_BATCH: usize = 512;

/// `SO_MEMINFO` (Linux 4.12) and its place of the drop counter (linux/sock_diag.h).
const SO_MEMINFO: libc::c_int = 55;
const MEMINFO_DROPS: usize = 8;

/// One flow: whence and whereto.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flow {
    /// The local address; an unspecified address or port 0 leaves the choice to the kernel.
    pub source: SocketAddr,
    /// The server.
    pub target: SocketAddr,
}

impl Flow {
    /// A flow to `target` from an address and port that the kernel chooses.
    pub fn to(target: SocketAddr) -> Self {
        Self { source: unspecified(target), target }
    }
}

fn unspecified(like: SocketAddr) -> SocketAddr {
    let ip: IpAddr = match like {
        SocketAddr::V4(_) => std::net::Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => std::net::Ipv6Addr::UNSPECIFIED.into(),
    };
    SocketAddr::new(ip, 0)
}

/// A bound, non-blocking UDP socket.
fn open(bind: SocketAddr, receive_buffer: usize) -> io::Result<OwnedFd> {
    let family = if bind.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 };
    let kind = libc::SOCK_DGRAM | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    // SAFETY: takes no pointers; the descriptor that it returns belongs to nobody else.
    let socket = unsafe { OwnedFd::from_raw_fd(check(libc::socket(family, kind, 0))?) };
    let fd = socket.as_fd();
    if bind.is_ipv6() {
        set_option(fd, libc::IPPROTO_IPV6, libc::IPV6_V6ONLY, 1)?;
    }
    // The kernel doubles what it is asked for, to pay for its own bookkeeping. FORCE passes rmem_max, but wants
    // CAP_NET_ADMIN in the first user namespace; without it the kernel grants up to rmem_max.
    let half = libc::c_int::try_from(receive_buffer / 2).unwrap_or(libc::c_int::MAX / 2);
    if set_option(fd, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, half).is_err() {
        set_option(fd, libc::SOL_SOCKET, libc::SO_RCVBUF, half)?;
    }
    let addr = RawAddr::from(bind);
    // SAFETY: the address outlives the call and has the length that is stated.
    check(unsafe { libc::bind(fd.as_raw_fd(), (&raw const addr.storage).cast(), addr.len) })?;
    Ok(socket)
}

fn granted(socket: &OwnedFd) -> io::Result<usize> {
    get_option::<1>(socket.as_fd(), libc::SOL_SOCKET, libc::SO_RCVBUF).map(|v| v[0] as usize)
}

/// How many datagrams the kernel has dropped because the receive buffer was full.
fn drops(socket: &OwnedFd) -> u64 {
    get_option::<9>(socket.as_fd(), libc::SOL_SOCKET, SO_MEMINFO).map_or(0, |m| u64::from(m[MEMINFO_DROPS]))
}

struct Socket {
    fd: OwnedFd,
    target: SocketAddr,
    raw_target: RawAddr,
    /// The socket's current IP_MTU_DISCOVER.
    df: bool,
}

/// Flows over UDP sockets, one socket each.
pub struct UdpFlows {
    sockets: Vec<Socket>,
    epoll: OwnedFd,
    batch: Batch,
    order: Vec<u16>,
    sender: Sender,
    /// Datagrams of one size on one flow go as one (UDP GSO).
    segmenting: bool,
    receiver: Receiver,
    events: Box<[libc::epoll_event]>,
    troubles: Troubles,
    receive_buffer: usize,
}

impl UdpFlows {
    /// Opens a socket for each flow. `receive_buffer` is what each may hold, in bytes of the kernel's accounting (a
    /// small answer costs about 800); what was granted: [`Transport::receive_buffer`].
    ///
    /// # Errors
    /// From the system: address not available, no descriptors left, no memory.
    pub fn open(flows: &[Flow], receive_buffer: usize) -> io::Result<Self> {
        // SAFETY: takes no pointers; the descriptor that it returns belongs to nobody else.
        let epoll = unsafe { OwnedFd::from_raw_fd(check(libc::epoll_create1(libc::EPOLL_CLOEXEC))?) };
        let mut sockets = Vec::with_capacity(flows.len());
        let mut least = usize::MAX;
        for (i, flow) in flows.iter().enumerate() {
            let fd = open(flow.source, receive_buffer)?;
            set_option(fd.as_fd(), libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, 1)?;
            let (level, name) = match flow.target {
                SocketAddr::V4(_) => (libc::IPPROTO_IP, libc::IP_RECVERR),
                SocketAddr::V6(_) => (libc::IPPROTO_IPV6, libc::IPV6_RECVERR),
            };
            set_option(fd.as_fd(), level, name, 1)?;
            let mut socket =
                Socket { fd, target: flow.target, raw_target: RawAddr::from(flow.target), df: true };
            set_df(&mut socket, false)?;
            let mut event = libc::epoll_event { events: libc::EPOLLIN as u32, u64: i as u64 };
            // SAFETY: both descriptors are open; the event outlives the call.
            check(unsafe {
                libc::epoll_ctl(epoll.as_raw_fd(), libc::EPOLL_CTL_ADD, socket.fd.as_raw_fd(), &raw mut event)
            })?;
            least = least.min(granted(&socket.fd)?);
            sockets.push(socket);
        }
        Ok(Self {
            sockets,
            epoll,
            batch: Batch::new(BATCH),
            order: Vec::with_capacity(BATCH),
            sender: Sender::new(BATCH),
            segmenting: false,
            receiver: Receiver::new(BATCH),
            events: vec![libc::epoll_event { events: 0, u64: 0 }; BATCH].into(),
            troubles: Troubles::default(),
            receive_buffer: least,
        })
    }

    /// With this type of service, or traffic class, in every datagram.
    ///
    /// # Errors
    /// From the system.
    pub fn with_class(self, class: u8) -> io::Result<Self> {
        for socket in &self.sockets {
            match socket.target {
                SocketAddr::V4(_) => rustix::net::sockopt::set_ip_tos(&socket.fd, class)?,
                SocketAddr::V6(_) => rustix::net::sockopt::set_ipv6_tclass(&socket.fd, class.into())?,
            }
        }
        Ok(self)
    }

    /// For floods: larger batches, in which datagrams of one size and flow are handed to the kernel as one, which cuts
    /// it up again (UDP GSO, Linux 4.18). They leave in one burst, so a paced load has no use for it.
    #[must_use]
    pub fn for_floods(mut self) -> Self {
        self.batch = Batch::new(FLOOD_BATCH);
        self.sender = Sender::new(FLOOD_BATCH);
        self.segmenting = true;
        self
    }

    /// Sends a run of `frames` that go on one flow.
    fn flush_flow(
        &mut self,
        flow: usize,
        frames: &[Outgoing],
        run: Range<usize>,
        done: &mut dyn FnMut(usize, Option<u64>),
    ) -> io::Result<()> {
        let now = self.sockets[flow].df;
        let v6 = self.sockets[flow].target.is_ipv6();
        // First those for which the socket is set right, so that a batch changes it once at most.
        for df in [now, !now] {
            let wanted = |i: &usize| if v6 { df == now } else { frames[*i].df == df };
            self.order.clear();
            self.order.extend(run.clone().filter(wanted).map(|i| i as u16));
            if self.segmenting {
                self.order.sort_unstable_by_key(|&i| frames[usize::from(i)].bytes.len());
            }
            self.send(flow, frames, df, done)?;
        }
        Ok(())
    }

    /// Sends the `frames` of `self.order` on a flow, all with the same `df`.
    fn send(
        &mut self,
        flow: usize,
        frames: &[Outgoing],
        df: bool,
        done: &mut dyn FnMut(usize, Option<u64>),
    ) -> io::Result<()> {
        if self.order.is_empty() {
            return Ok(());
        }
        let socket = &mut self.sockets[flow];
        set_df(socket, df)?;
        let (mut from, mut tries) = (0, 0);
        while from < self.order.len() {
            let rest = &self.order[from..];
            let (fd, to) = (socket.fd.as_fd(), &socket.raw_target);
            let sent = match self.segmenting {
                true => self.sender.send_segmented(fd, to, frames, rest),
                false => self.sender.send(fd, to, frames, rest),
            };
            match sent {
                Ok((sent, at)) => {
                    rest[..sent].iter().for_each(|&i| done(usize::from(i), Some(at)));
                    (from, tries) = (from + sent, 0);
                }
                // The device of the route cannot have its datagrams cut up.
                Err(e) if self.segmenting && matches!(e.raw_os_error(), Some(libc::EIO | libc::EINVAL)) => {
                    self.segmenting = false;
                }
                // A send may report an ICMP error that an earlier one caused, and by that clears it.
                Err(e) if tries < 3 && reports_the_past(&e) => tries += 1,
                Err(e) => {
                    match e.raw_os_error().unwrap_or(0) {
                        libc::ENOBUFS | libc::ENOMEM => self.troubles.send_no_buffers += 1,
                        libc::EAGAIN => self.troubles.send_again += 1,
                        errno => {
                            self.troubles.send_other += 1;
                            self.troubles.send_errno = errno;
                        }
                    }
                    // Skip the one refused; the next may go.
                    done(usize::from(rest[0]), None);
                    (from, tries) = (from + 1, 0);
                }
            }
        }
        Ok(())
    }
}

fn reports_the_past(e: &io::Error) -> bool {
    let errors = [
        libc::ECONNREFUSED,
        libc::EHOSTUNREACH,
        libc::ENETUNREACH,
        libc::EACCES,
        libc::EPROTO,
        libc::EMSGSIZE,
        libc::EINTR,
    ];
    e.raw_os_error().is_some_and(|errno| errors.contains(&errno))
}

/// Sets whether what an IPv4 socket sends carries the don't-fragment bit. `PROBE` sets it without letting the path
/// MTU that the kernel has learnt interfere.
fn set_df(socket: &mut Socket, df: bool) -> io::Result<()> {
    if socket.df != df && socket.target.is_ipv4() {
        let value = if df { libc::IP_PMTUDISC_PROBE } else { libc::IP_PMTUDISC_DONT };
        set_option(socket.fd.as_fd(), libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, value)?;
        socket.df = df;
    }
    Ok(())
}

impl Transport for UdpFlows {
    fn flows(&self) -> u32 {
        self.sockets.len() as u32
    }

    fn target(&self, flow: u32) -> SocketAddr {
        self.sockets[flow as usize].target
    }

    fn batch(&mut self) -> &mut Batch {
        &mut self.batch
    }

    fn flush(&mut self, done: &mut dyn FnMut(usize, Option<u64>)) -> io::Result<()> {
        let mut batch = std::mem::take(&mut self.batch);
        let result = batch
            .runs()
            .try_for_each(|(flow, run)| self.flush_flow(flow as usize, batch.frames(), run, done));
        batch.clear();
        self.batch = batch;
        result
    }

    fn receive(&mut self, max: usize, each: &mut dyn FnMut(&Incoming<'_>)) -> io::Result<usize> {
        let room = (max / 4).clamp(1, self.events.len());
        // SAFETY: the array has room for that many events and outlives the call; timeout 0 returns at once.
        let ready = check(unsafe {
            libc::epoll_wait(self.epoll.as_raw_fd(), self.events.as_mut_ptr(), room as libc::c_int, 0)
        });
        let ready = match ready {
            Err(e) if e.kind() == io::ErrorKind::Interrupted => 0,
            other => other? as usize,
        };
        let mut total = 0;
        for event in &self.events[..ready] {
            let (events, flow) = (event.events, event.u64);
            let socket = &self.sockets[flow as usize];
            if events & libc::EPOLLERR as u32 != 0 {
                // Bounded, so that a storm of ICMP errors cannot keep us from sending.
                for _ in 0..BATCH {
                    if !take_error(socket.fd.as_fd()) {
                        break;
                    }
                    self.troubles.icmp += 1;
                }
            }
            let n = match self.receiver.receive(socket.fd.as_fd(), max - total) {
                Ok(n) => n,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock || reports_the_past(&e) => 0,
                Err(e) => return Err(e),
            };
            for i in 0..n {
                let Some(from) = self.receiver.from(i) else { continue };
                each(&Incoming {
                    flow: flow as u32,
                    from,
                    bytes: self.receiver.bytes(i),
                    len: self.receiver.len(i),
                    stamp: Stamp::Wall(self.receiver.stamp(i)),
                });
            }
            total += n;
            if total >= max {
                break;
            }
        }
        Ok(total)
    }

    fn wait(&mut self, timeout: u64) -> io::Result<()> {
        wait_readable(self.epoll.as_fd(), timeout)
    }

    fn troubles(&mut self) -> Troubles {
        self.troubles.socket_drops = self.sockets.iter().map(|s| drops(&s.fd)).sum();
        self.troubles
    }

    fn receive_buffer(&self) -> usize {
        self.receive_buffer
    }

    fn memory(&self) -> usize {
        self.sockets.len() * size_of::<Socket>() + self.batch.bytes() + self.receiver.size() * Incoming::MAX
    }

    fn backend(&self) -> &'static str {
        if self.segmenting { "socket+gso" } else { "socket" }
    }
}

#[cfg(test)]
mod tests;
