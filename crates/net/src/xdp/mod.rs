//! Packets written by ourselves and handed over through AF_XDP, past the host's IP stack: the fast transport.
//!
//! Sending: Ethernet, IP and UDP headers come from templates, checksums are computed here; a batch costs one system
//! call. Receiving: an XDP program takes UDP datagrams to our ports (those of the flows, no others), stamps them, and
//! puts them into a ring that is read without system calls. Where the driver reads and writes packets in our memory itself
//! (zero-copy), it does; every other driver has the kernel copy them.
//!
//! Differences from sockets: fragmented answers and such with IPv4 options or IPv6 extension headers go to the
//! host's stack and are lost to us; UDP checksums of answers are not verified (between virtual interfaces there are
//! none); a capture on the same interface does not see what is sent. One set of flows to an interface: it sends by the
//! first queue and has a socket for each queue that the interface receives on, because a socket gets what arrives at its
//! own queue only. Without copies a packet counts as sent once the driver can take it: it says no more of single packets. Needs
//! root.
#![allow(unsafe_code)] // in `ring`; each block says why it is sound

mod echo;
mod error;
mod flows;
mod packet;
mod program;
mod ring;

use crate::batch::Batch;
use crate::bpf::{Attach, Link};
use crate::sys::{MOST_WAITED, monotonic, wait_any_readable};
use crate::transport::{Incoming, Stamp, Transport, Troubles};
use crate::udp::Flow;
pub use echo::Echo;
pub use error::XdpError;
use error::refusal;
use flows::Table;
use ring::{Desc, HEADROOM, Socket};
use std::io;
use std::net::SocketAddr;
use std::ops::Range;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

/// Where in the receive path our program runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// In the driver where it can, otherwise behind it.
    #[default]
    Auto,
    /// In the driver only.
    Native,
    /// Behind the driver only, on socket buffers.
    Generic,
}

/// How to open the transport.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Queries in a batch, 1 to 1024.
    pub batch: usize,
    /// Packets that can wait to be read, all queues together, and half as many that can be on their way out; rounded up to
    /// a power of two. Each takes 2,048 octets (4,096 where the interface's packets are large) of memory that cannot be swapped out.
    pub frames: usize,
    /// Where the program runs.
    pub mode: Mode,
    /// Source ports for flows that do not say one.
    pub ports: Range<u16>,
}

impl Default for Options {
    fn default() -> Self {
        Self { batch: 64, frames: 8192, mode: Mode::Auto, ports: 20_000..60_000 }
    }
}

/// Flows over the AF_XDP sockets of one interface.
pub struct XdpFlows {
    /// Detached before the sockets close.
    _link: Link,
    _program: program::Redirect,
    /// Of the first queue: all packets leave by it.
    socket: Socket,
    /// Of the other queues, which only receive.
    others: Vec<Socket>,
    /// The one of all that is read first the next time.
    turn: usize,
    table: Table,
    attach: Attach,
    /// Tells what the interface itself has dropped; only where nothing is copied.
    missed: Option<Missed>,
    mtu: usize,
    /// Chunks that can be filled, the warmest last.
    free: Vec<u32>,
    batch: Batch,
    /// The frames of the batch that are in the ring now, in its order.
    put: Vec<u16>,
    /// Where the kernel has to stop being waited for: descriptors made void, with their chunks.
    void: Vec<(u32, u32)>,
    number: u16,
    troubles: Troubles,
    unstamped: u64,
}

/// The chunks for sending of a socket that does not send: a ring of none is refused.
const FEWEST: u32 = 64;

/// How often the kernel is asked again when it takes nothing.
const TRIES: u32 = 16;

/// For how long an interface may still be busy with who used it last: the kernel takes it apart in the background.
const PATIENCE: Duration = Duration::from_millis(500);

/// Tries again while the last user's things are being taken apart.
fn patiently<T>(mut f: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    let begun = Instant::now();
    loop {
        match f() {
            Err(e) if e.raw_os_error() == Some(libc::EBUSY) && begun.elapsed() < PATIENCE => {
                std::thread::sleep(Duration::from_millis(5));
            }
            result => return result,
        }
    }
}

fn attach(program: &crate::bpf::Program, interface: u32, mode: Mode) -> io::Result<(Link, Attach)> {
    let try_one = |attach| patiently(|| Link::attach(program, interface, attach)).map(|link| (link, attach));
    match mode {
        Mode::Native => try_one(Attach::Native),
        Mode::Generic => try_one(Attach::Generic),
        Mode::Auto => try_one(Attach::Native).or_else(|_| try_one(Attach::Generic)),
    }
}

impl XdpFlows {
    /// Opens a socket for each queue of the interface that leads to the flows' targets. A flow without source address gets
    /// the route's, one without source port gets one of `options.ports` that no other flow and no local socket has.
    ///
    /// # Errors
    /// As [`XdpError`] says.
    pub fn open(flows: &[Flow], options: &Options) -> Result<Self, XdpError> {
        let (table, way) =
            Table::new(flows, options.ports.clone(), &flows::busy_ports(), &mut flows::paths())?;
        let failed = |doing| refusal(doing, &way.interface);
        let queues = crate::link::receive_queues(&way.interface).unwrap_or(1);
        if queues as usize > MOST_WAITED {
            return Err(XdpError::Queues { interface: way.interface, queues, most: MOST_WAITED });
        }
        let frames = options.frames.clamp(64, 1 << 20).next_power_of_two() as u32;
        let (sending, receiving) = (frames / 2, (frames / queues).next_power_of_two().max(64));
        let mtu = way.mtu as usize;
        let chunk = if mtu + packet::ETHERNET + HEADROOM <= 2048 { 2048 } else { 4096 };
        let program = program::Redirect::new(table.rows.iter().map(|row| row.port))
            .map_err(failed("load an XDP program"))?;
        // Before the sockets are bound: where it can only run behind the driver, the driver must not have the packets.
        let (link, attach) =
            attach(&program.program, way.index, options.mode).map_err(failed("attach an XDP program"))?;
        let open = |queue: u32, sending: u32| -> Result<Socket, XdpError> {
            let mut socket =
                Socket::open(sending, receiving, chunk).map_err(failed("open an AF_XDP socket"))?;
            patiently(|| socket.bind(way.index, queue, attach == Attach::Generic))
                .map_err(failed("bind an AF_XDP socket"))?;
            program.set_socket(queue, socket.as_fd()).map_err(failed("load an XDP program"))?;
            Ok(socket)
        };
        let socket = open(0, sending)?;
        let others = (1..queues).map(|queue| open(queue, FEWEST)).collect::<Result<Vec<_>, _>>()?;
        let missed = socket.zero_copy.then(|| Missed::of(&way.interface));
        let batch = options.batch.clamp(1, 1024.min(sending as usize));
        Ok(Self {
            _link: link,
            _program: program,
            socket,
            others,
            turn: 0,
            table,
            attach,
            missed,
            mtu,
            free: (0..sending).rev().collect(),
            batch: Batch::new(batch),
            put: Vec::with_capacity(batch),
            void: Vec::with_capacity(sending as usize),
            number: 0,
            troubles: Troubles::default(),
            unstamped: 0,
        })
    }

    /// The source address and port of a flow.
    ///
    /// # Panics
    /// Where there is no such flow.
    pub fn source(&self, flow: u32) -> SocketAddr {
        self.table.source(flow)
    }

    /// How many datagrams came without the kernel's stamp and were stamped when they were read.
    pub fn unstamped(&self) -> u64 {
        self.unstamped
    }

    /// The socket of each queue.
    fn sockets(&self) -> impl Iterator<Item = &Socket> {
        std::iter::once(&self.socket).chain(&self.others)
    }

    /// Takes back the chunks of packets that have left.
    fn reclaim(&mut self) {
        let produced = self.socket.sent.produced();
        let sent = &mut self.socket.sent;
        while sent.at != produced {
            self.free.push((sent.get(sent.at) / self.socket.umem.chunk as u64) as u32);
            sent.at = sent.at.wrapping_add(1);
        }
        sent.release();
        let taken = self.socket.to_send.consumed();
        let free = &mut self.free;
        self.void.retain(|&(at, chunk)| {
            let passed = (taken.wrapping_sub(at) as i32) > 0;
            if passed {
                free.push(chunk);
            }
            !passed
        });
    }

    /// Writes frame `i` of the batch into a chunk and into the ring; false where it cannot be sent.
    fn put(&mut self, i: usize) -> bool {
        let frame = &self.batch.frames()[i];
        let row = self.table.rows[self.batch.flows()[i] as usize];
        let template = &self.table.templates[row.template as usize];
        let len = template.len() + frame.bytes.len();
        if len - packet::ETHERNET > self.mtu {
            (self.troubles.send_other, self.troubles.send_errno) =
                (self.troubles.send_other + 1, libc::EMSGSIZE);
            return false;
        }
        let Some(chunk) = self.free.pop() else {
            self.troubles.send_no_buffers += 1;
            return false;
        };
        self.number = self.number.wrapping_add(1);
        let addr = u64::from(chunk) * self.socket.umem.chunk as u64;
        let to = self.socket.umem.bytes_mut(addr, len);
        template.write(to, row.port, self.number, &frame.bytes, frame.df, frame.checksum);
        self.socket.to_send.push(Desc { addr, len: len as u32, options: 0 });
        true
    }

    /// Lets the driver take what is in the ring, and tells of each: from now on nobody can take it back.
    fn hand_to_driver(&mut self, done: &mut dyn FnMut(usize, Option<u64>)) {
        let at = monotonic();
        self.socket.to_send.publish();
        let woken = if self.socket.to_send.needs_wakeup() { self.socket.kick() } else { Ok(()) };
        // EAGAIN, EBUSY: the driver is at work already.
        let errno =
            woken.err().and_then(|e| e.raw_os_error()).filter(|&e| e != libc::EAGAIN && e != libc::EBUSY);
        if let Some(errno) = errno {
            (self.troubles.send_other, self.troubles.send_errno) =
                (self.troubles.send_other + self.put.len() as u64, errno);
        }
        self.put.iter().for_each(|&i| done(usize::from(i), errno.is_none().then_some(at)));
    }

    /// Has the kernel take what is in the ring from `from` on, and tells of each.
    fn hand_over(&mut self, from: u32, done: &mut dyn FnMut(usize, Option<u64>)) {
        let end = self.socket.to_send.at;
        self.socket.to_send.publish();
        let (mut taken, mut tries, mut next) = (from, 0, 0);
        let mut refusal = 0;
        while taken != end && tries < TRIES {
            let at = monotonic();
            let result = self.socket.kick();
            let before = taken;
            let seen = self.socket.to_send.consumed();
            if (seen.wrapping_sub(taken) as i32) > 0 {
                taken = seen;
            }
            let errno = result.err().and_then(|e| e.raw_os_error()).unwrap_or(0);
            // EBUSY: the last that was taken was dropped by the driver, and the ring may not yet show it.
            let dropped = errno == libc::EBUSY;
            if dropped && taken == before {
                taken = taken.wrapping_add(1);
            }
            for i in 0..taken.wrapping_sub(before) {
                let last = before.wrapping_add(i + 1) == taken;
                let refused = dropped && last;
                self.troubles.send_again += u64::from(refused);
                done(usize::from(self.put[next]), (!refused).then_some(at));
                next += 1;
            }
            if taken == before {
                (tries, refusal) = (tries + 1, errno);
                self.reclaim();
            } else {
                tries = 0;
            }
        }
        // Entries left over are made void: the kernel skips them.
        while taken != end {
            let mut desc = self.socket.to_send.get(taken);
            self.void.push((taken, (desc.addr / self.socket.umem.chunk as u64) as u32));
            desc.options = u32::MAX;
            self.socket.to_send.set(taken, desc);
            match refusal {
                libc::ENOBUFS | libc::ENOMEM => self.troubles.send_no_buffers += 1,
                0 | libc::EAGAIN => self.troubles.send_again += 1,
                errno => {
                    (self.troubles.send_other, self.troubles.send_errno) =
                        (self.troubles.send_other + 1, errno);
                }
            }
            done(usize::from(self.put[next]), None);
            (taken, next) = (taken.wrapping_add(1), next + 1);
        }
    }
}

/// Reads at most `max` received packets from a socket and passes those for our flows to `each`.
fn take(
    socket: &mut Socket,
    table: &Table,
    unstamped: &mut u64,
    max: usize,
    each: &mut dyn FnMut(&Incoming<'_>),
) -> usize {
    let ready = socket.received.produced().wrapping_sub(socket.received.at);
    let n = (ready as usize).min(max);
    if n == 0 {
        return 0;
    }
    let mut now = None;
    let mask = !(socket.umem.chunk as u64 - 1);
    for i in 0..n as u32 {
        let at = socket.received.at.wrapping_add(i);
        let desc = socket.received.get(at);
        let chunk = desc.addr & mask;
        let before = (desc.addr - chunk) as usize;
        let data = socket.umem.bytes(chunk, before + desc.len as usize);
        let (room, frame) = data.split_at(before);
        let stamp = room.last_chunk::<8>().map_or(0, |s| u64::from_ne_bytes(*s));
        if let Some(d) = packet::parse(frame)
            && let Some(flow) = table.find(d.to)
        {
            let stamp = if stamp == 0 {
                *unstamped += 1;
                *now.get_or_insert_with(monotonic)
            } else {
                stamp
            };
            each(&Incoming {
                flow,
                from: d.from,
                bytes: &d.payload[..d.len.min(Incoming::MAX)],
                len: d.len,
                stamp: Stamp::Monotonic(stamp),
            });
        }
        if before >= 8 {
            // A packet that comes without a stamp must not inherit this one.
            socket.umem.bytes_mut(desc.addr - 8, 8).fill(0);
        }
        socket.fill.push(chunk);
    }
    socket.received.at = socket.received.at.wrapping_add(n as u32);
    socket.received.release();
    socket.fill.publish();
    n
}

impl Transport for XdpFlows {
    fn flows(&self) -> u32 {
        self.table.rows.len() as u32
    }

    fn target(&self, flow: u32) -> SocketAddr {
        self.table.template(flow).target
    }

    fn batch(&mut self) -> &mut Batch {
        &mut self.batch
    }

    fn checksums(&self) -> (bool, bool) {
        (true, true)
    }

    fn flush(&mut self, done: &mut dyn FnMut(usize, Option<u64>)) -> io::Result<()> {
        if self.batch.flows().is_empty() {
            return Ok(());
        }
        // Each time, so that few chunks take turns and stay in the processor's caches.
        self.reclaim();
        // Void descriptors may still be in the ring.
        let room =
            self.socket.to_send.size() - self.socket.to_send.at.wrapping_sub(self.socket.to_send.consumed());
        let from = self.socket.to_send.at;
        self.put.clear();
        for i in 0..self.batch.flows().len() {
            if self.put.len() == room as usize {
                self.troubles.send_again += 1;
                done(i, None);
            } else if self.put(i) {
                self.put.push(i as u16);
            } else {
                done(i, None);
            }
        }
        if self.socket.zero_copy {
            self.hand_to_driver(done);
        } else {
            self.hand_over(from, done);
        }
        self.batch.clear();
        Ok(())
    }

    fn receive(&mut self, max: usize, each: &mut dyn FnMut(&Incoming<'_>)) -> io::Result<usize> {
        let sockets = 1 + self.others.len();
        let mut total = 0;
        for n in 0..sockets {
            let socket = match (self.turn + n) % sockets {
                0 => &mut self.socket,
                other => &mut self.others[other - 1],
            };
            total += take(socket, &self.table, &mut self.unstamped, max - total, each);
            if socket.zero_copy && socket.fill.needs_wakeup() {
                socket.wake_receiver();
            }
        }
        // A queue that is never empty must not keep us from the others.
        self.turn = (self.turn + 1) % sockets;
        Ok(total)
    }

    fn wait(&mut self, timeout: u64) -> io::Result<()> {
        wait_any_readable(self.sockets().map(AsFd::as_fd), timeout)
    }

    fn troubles(&mut self) -> Troubles {
        let missed = self.missed.as_ref().map_or(0, Missed::count);
        self.troubles.socket_drops =
            missed + self.sockets().map(|socket| socket.statistics().dropped).sum::<u64>();
        self.troubles
    }

    fn receive_buffer(&self) -> usize {
        self.sockets().map(|socket| socket.received.size() as usize * socket.umem.chunk).sum()
    }

    /// The kernel shares these packets.
    fn memory(&self) -> usize {
        let packets = self.sockets().map(|s| (s.received.size() + s.to_send.size()) as usize * s.umem.chunk);
        packets.sum::<usize>() + self.table.bytes() + self.batch.bytes()
    }

    fn backend(&self) -> &'static str {
        if self.sockets().all(|socket| socket.zero_copy) { "xdp-zero-copy" } else { self.attach.name() }
    }
}

/// Packets that an interface has dropped because it had no memory to receive them into.
struct Missed {
    file: String,
    before: u64,
}

impl Missed {
    /// From now on.
    fn of(interface: &str) -> Self {
        let mut missed =
            Self { file: format!("/sys/class/net/{interface}/statistics/rx_missed_errors"), before: 0 };
        missed.before = missed.count();
        missed
    }

    /// What the driver says; 0 where it does not tell.
    fn count(&self) -> u64 {
        let text = std::fs::read_to_string(&self.file).unwrap_or_default();
        text.trim().parse::<u64>().map_or(0, |now| now.saturating_sub(self.before))
    }
}
