//! Batched UDP sockets: the transport that works everywhere, and the responder at the other end.
//!
//! The sockets are bound but not connected, so that an answer from a wrong address or port arrives and can be told
//! apart; ICMP errors come through their error queues. A batch costs one sendmmsg (two where it mixes queries with
//! and without the don't-fragment bit), and a look at all flows costs one epoll_wait.
#![allow(unsafe_code)] // each block says why it is sound

use crate::batch::Batch;
use crate::mmsg::{Receiver, Sender, take_error};
use crate::sys::{RawAddr, check, get_option, monotonic, set_option, wait_readable};
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

struct Socket {
    fd: OwnedFd,
    target: SocketAddr,
    raw_target: RawAddr,
    /// What the socket's IP_MTU_DISCOVER says now.
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

    /// For floods: larger batches, in which datagrams of one size and flow are handed to the kernel as one, which cuts it up
    /// again (UDP GSO, Linux 4.18). They leave in one burst, so a paced load has no use for it.
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
            let at = monotonic();
            let (fd, to) = (socket.fd.as_fd(), &socket.raw_target);
            let sent = match self.segmenting {
                true => self.sender.send_segmented(fd, to, frames, rest),
                false => self.sender.send(fd, to, frames, rest),
            };
            match sent {
                Ok(sent) => {
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
        let drops = |s: &Socket| {
            get_option::<9>(s.fd.as_fd(), libc::SOL_SOCKET, SO_MEMINFO).map_or(0, |m| m[MEMINFO_DROPS])
        };
        self.troubles.socket_drops = self.sockets.iter().map(|s| u64::from(drops(s))).sum();
        self.troubles
    }

    fn receive_buffer(&self) -> usize {
        self.receive_buffer
    }

    fn backend(&self) -> &'static str {
        if self.segmenting { "socket+gso" } else { "socket" }
    }
}

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

    /// Receives a batch where there is one, lets `answer` turn each datagram into its answer in place (false: none),
    /// and sends the answers: how many were received and how many answered. Never waits.
    ///
    /// # Errors
    /// Only where nothing can be received any more. Answers that the kernel refuses are not answered.
    pub fn turn(&mut self, answer: &mut dyn FnMut(&mut [u8]) -> bool) -> io::Result<(usize, usize)> {
        let fd = self.socket.as_fd();
        let n = match self.receiver.receive(fd, BATCH) {
            Ok(n) => n,
            Err(e) if e.kind() == io::ErrorKind::WouldBlock || reports_the_past(&e) => return Ok((0, 0)),
            Err(e) => return Err(e),
        };
        let mut keep = 0u64;
        debug_assert!(self.receiver.size() <= 64, "one bit for each datagram of a batch");
        for i in 0..n {
            keep |= u64::from(answer(self.receiver.bytes_mut(i))) << i;
        }
        let sent = self.receiver.send_back(fd, n, |i| keep >> i & 1 == 1).unwrap_or(0);
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
        get_option::<9>(self.socket.as_fd(), libc::SOL_SOCKET, SO_MEMINFO)
            .map_or(0, |m| u64::from(m[MEMINFO_DROPS]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BUFFER: usize = 1 << 20;

    fn collect(flows: &mut UdpFlows, want: usize) -> Vec<(u32, SocketAddr, Vec<u8>, Stamp)> {
        let mut got = Vec::new();
        for _ in 0..200 {
            flows.receive(256, &mut |m| got.push((m.flow, m.from, m.bytes.to_vec(), m.stamp))).unwrap();
            if got.len() >= want {
                break;
            }
            flows.wait(10_000_000).unwrap();
        }
        got
    }

    fn echo_round(bind: &str) {
        let mut responder = Responder::open(bind.parse().unwrap(), BUFFER).unwrap();
        let target = responder.local_addr().unwrap();
        let mut flows = UdpFlows::open(&[Flow::to(target), Flow::to(target)], BUFFER).unwrap();
        assert!(flows.receive_buffer() > 0);
        for flow in 0..2u32 {
            for n in 0..20u8 {
                let frame = flows.lend(flow).unwrap();
                frame.bytes.extend_from_slice(&[flow as u8, n]);
                frame.df = n % 3 == 0;
            }
            let mut sent = [false; 20];
            flows.flush(&mut |i, at| sent[i] = at.is_some()).unwrap();
            assert_eq!(sent, [true; 20]);
        }
        let mut received = 0;
        while received < 40 {
            responder.wait(1_000_000_000).unwrap();
            let (n, _) = responder
                .turn(&mut |m| {
                    let keep = m[1] != 7;
                    m[1] += 100;
                    keep
                })
                .unwrap();
            assert!(n > 0, "loopback lost datagrams");
            received += n;
        }
        let mut got = collect(&mut flows, 38);
        assert_eq!(got.len(), 38, "one of 20 on each flow stays unanswered");
        got.sort();
        for (flow, from, bytes, stamp) in &got {
            assert_eq!((bytes[0], *from), (*flow as u8, target));
            assert!(
                matches!(stamp, Stamp::Wall(t) if t.abs_diff(crate::sys::wall()) < 60_000_000_000),
                "{stamp:?}"
            );
        }
        let ns: Vec<u8> = got.iter().take(19).map(|g| g.2[1]).collect();
        assert_eq!(ns, (100..120).filter(|n| *n != 107).collect::<Vec<u8>>());
        assert_eq!(flows.troubles(), Troubles::default());
    }

    #[test]
    fn batches_go_there_and_back() {
        echo_round("127.0.0.1:0");
    }

    #[test]
    fn batches_go_there_and_back_over_ipv6() {
        if std::net::UdpSocket::bind("[::1]:0").is_err() {
            eprintln!("SKIPPED: no IPv6 here");
            return;
        }
        echo_round("[::1]:0");
    }

    #[test]
    fn a_full_batch_lends_nothing_more() {
        let mut flows = UdpFlows::open(&[Flow::to("127.0.0.1:9".parse().unwrap())], BUFFER).unwrap();
        (0..BATCH).for_each(|_| assert!(flows.lend(0).is_some()));
        assert!(flows.lend(0).is_none());
    }

    #[test]
    fn a_flood_of_mixed_sizes_arrives_whole() {
        let responder = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        responder.set_read_timeout(Some(std::time::Duration::from_secs(2))).unwrap();
        let target = responder.local_addr().unwrap();
        let flows = UdpFlows::open(&[Flow::to(target), Flow::to(target)], BUFFER).unwrap();
        let mut flows = flows.for_floods();
        assert_eq!((flows.batch().size(), flows.backend()), (FLOOD_BATCH, "socket+gso"));
        let message = |n: usize| vec![n as u8; 20 + n * 7 % 31];
        for n in 0..200 {
            flows.lend(n as u32 / 150).unwrap().bytes.extend_from_slice(&message(n));
        }
        let mut sent = [false; 200];
        flows.flush(&mut |i, at| sent[i] = at.is_some()).unwrap();
        assert_eq!(sent, [true; 200]);
        let mut got = Vec::new();
        for _ in 0..200 {
            let mut bytes = [0; 100];
            let len = responder.recv(&mut bytes).expect("every datagram arrives");
            got.push(bytes[..len].to_vec());
        }
        got.sort();
        let mut want: Vec<_> = (0..200).map(message).collect();
        want.sort();
        assert_eq!(got, want);
        assert_eq!(flows.troubles(), Troubles::default());
    }

    #[test]
    fn a_closed_port_is_seen_through_icmp() {
        let closed = std::net::UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let mut flows = UdpFlows::open(&[Flow::to(closed)], BUFFER).unwrap();
        for _ in 0..5 {
            flows.lend(0).unwrap().bytes.extend_from_slice(b"x");
            flows
                .flush(&mut |_, at| assert!(at.is_some(), "an error of the past refused a new query"))
                .unwrap();
        }
        assert!(collect(&mut flows, 0).is_empty());
        assert!(flows.troubles().icmp >= 1);
        assert_eq!(flows.troubles().refused(), 0);
    }

    #[test]
    fn full_receive_buffers_are_counted() {
        let mut responder = Responder::open("127.0.0.1:0".parse().unwrap(), BUFFER).unwrap();
        let mut flows = UdpFlows::open(&[Flow::to(responder.local_addr().unwrap())], 0).unwrap();
        for _ in 0..BATCH {
            flows.lend(0).unwrap().bytes.extend_from_slice(&[0; 100]);
        }
        flows.flush(&mut |_, _| ()).unwrap();
        while responder.turn(&mut |_| true).unwrap().0 > 0 {}
        let dropped = flows.troubles().socket_drops;
        assert!(dropped > 0, "the smallest buffer held {BATCH} answers");
        assert_eq!(collect(&mut flows, BATCH).len() as u64 + dropped, BATCH as u64);
    }

    #[test]
    fn long_datagrams_keep_their_length() {
        let responder = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let mut flows = UdpFlows::open(&[Flow::to(responder.local_addr().unwrap())], BUFFER).unwrap();
        flows.lend(0).unwrap().bytes.push(1);
        flows.flush(&mut |_, _| ()).unwrap();
        let from = responder.recv_from(&mut [0; 10]).unwrap().1;
        responder.send_to(&[7; 9000], from).unwrap();
        let mut seen = None;
        flows.wait(1_000_000_000).unwrap();
        flows.receive(1, &mut |m| seen = Some((m.bytes.len(), m.len))).unwrap();
        assert_eq!(seen, Some((Incoming::MAX, 9000)));
    }
}
