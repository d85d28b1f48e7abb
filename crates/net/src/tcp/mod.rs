//! DNS over TCP (RFC 7766): each flow is a slot for connections from one source to one target.
//!
//! A query on a flow without a connection opens one and is written when the handshake is done, so the handshake is
//! part of its time. Answers may come in any order. A connection that has carried all the queries that it may is
//! *spent*: it stays until its answers are here, and the next query opens another beside it. One that breaks is
//! opened again by the next query; what was unanswered on it stays so.

mod connection;
mod frame;
mod options;
mod responder;
mod socket;

pub use frame::{fuzz_frames, split};
pub use options::Options;
pub use responder::Responder;

use crate::batch::Batch;
use crate::sys::monotonic;
use crate::transport::{Connections, Incoming, Stamp, Transport, Troubles};
use crate::udp::{BATCH, Flow};
use connection::{End, Table};
use frame::{Pool, append};
use std::io;
use std::mem::size_of;
use std::net::SocketAddr;

/// Where the connections of a flow begin and end, and what waits for them.
struct Slot {
    flow: Flow,
    /// The connection that takes queries; spent ones stay beside it.
    current: Option<u32>,
    /// Queries that wait for room on a connection, each with its length before it.
    waiting: Vec<u8>,
    /// How far into `waiting` they have gone to a connection.
    gone: usize,
    count: u32,
}

/// Flows over TCP connections.
pub struct TcpFlows {
    options: Options,
    slots: Vec<Slot>,
    table: Table,
    batch: Batch,
    /// Connections that have got something to write in this run of frames.
    dirty: Vec<u32>,
    pool: Pool,
    buffer: Box<[u8]>,
    troubles: Troubles,
    handshakes: Vec<u64>,
    receive_buffer: usize,
    /// How often all connections are looked at for their times, where the next one to be looked at is, and when.
    period: u64,
    hand: usize,
    next_look: u64,
}

impl TcpFlows {
    /// Handshakes that are kept until somebody asks for them.
    const HANDSHAKES: usize = 1 << 20;
    /// Connections looked at for their times in one go.
    const LOOK: usize = 512;

    /// Makes a slot for each flow; connections are opened by queries. Each takes a file descriptor: raising their limit
    /// is the caller's.
    ///
    /// # Errors
    /// From the system: no descriptors left, no memory.
    pub fn open(flows: &[Flow], options: &Options) -> io::Result<Self> {
        let probe =
            socket::stream(flows.first().map_or(SocketAddr::from(([127, 0, 0, 1], 0)), |f| f.target))?;
        let granted =
            crate::sys::get_option::<1>(std::os::fd::AsFd::as_fd(&probe), libc::SOL_SOCKET, libc::SO_RCVBUF)?;
        let times = [options.idle, options.connect_timeout, options.patience];
        let shortest = times.into_iter().filter(|t| *t > 0).min();
        let slot = |flow: &Flow| Slot { flow: *flow, current: None, waiting: Vec::new(), gone: 0, count: 0 };
        Ok(Self {
            options: Options {
                pipeline: if options.pipeline == 0 { Options::IDS } else { options.pipeline },
                ..*options
            },
            slots: flows.iter().map(slot).collect(),
            table: Table::new(options.reset)?,
            batch: Batch::new(BATCH),
            dirty: Vec::with_capacity(BATCH),
            pool: Pool::default(),
            buffer: vec![0; options.read_chunk.max(512)].into(),
            troubles: Troubles::default(),
            handshakes: Vec::new(),
            receive_buffer: granted[0] as usize,
            period: shortest.map_or(u64::MAX, |t| (t / 8).clamp(1_000_000, 100_000_000)),
            hand: 0,
            next_look: 0,
        })
    }

    /// Connections that exist now, those in their handshake and spent ones included.
    pub fn existing(&self) -> usize {
        self.table.live()
    }

    /// Opens a connection for a flow; false where our side could not. A refusal that is known at once is the peer's.
    fn connect(&mut self, flow: u32) -> bool {
        let slot = &mut self.slots[flow as usize];
        match self.table.connect(flow, &slot.flow, monotonic()) {
            Ok(c) => {
                slot.current = c;
                if c.is_none() {
                    // Refused at once: what waited is lost with it.
                    self.table.counts.queries_cut_off += u64::from(slot.empty(&mut self.pool));
                }
                true
            }
            Err(e) => {
                match e.raw_os_error().unwrap_or(0) {
                    libc::ENOBUFS | libc::ENOMEM => self.troubles.send_no_buffers += 1,
                    errno => {
                        self.troubles.send_other += 1;
                        self.troubles.send_errno = errno;
                    }
                }
                self.table.counts.local_failures += 1;
                self.table.counts.queries_cut_off += u64::from(slot.empty(&mut self.pool));
                false
            }
        }
    }

    /// Whether the flow has a connection with room for one more query.
    fn room(&self, flow: u32) -> Option<u32> {
        let current = self.slots[flow as usize].current?;
        (self.table.get(current).unanswered < self.options.pipeline).then_some(current)
    }

    /// Puts a query on its way; false where it is refused. `opened` tells that a connection was begun.
    fn put(&mut self, flow: u32, query: &[u8], opened: &mut bool) -> bool {
        if query.len() > usize::from(u16::MAX) {
            self.troubles.send_other += 1;
            self.troubles.send_errno = libc::EMSGSIZE;
            return false;
        }
        if self.slots[flow as usize].current.is_none() {
            *opened = true;
            if !self.connect(flow) {
                return false;
            }
            if self.slots[flow as usize].current.is_none() {
                self.table.counts.queries_cut_off += 1;
                return true;
            }
        }
        let waits = self.slots[flow as usize].count;
        match self.room(flow) {
            Some(c) if waits == 0 => {
                let out = self.table.get_mut(c).out(&mut self.pool);
                append(out, query);
                self.took_one(flow, c);
            }
            _ if waits < self.options.waiting => {
                let slot = &mut self.slots[flow as usize];
                if slot.waiting.capacity() == 0 {
                    slot.waiting = self.pool.take();
                }
                append(&mut slot.waiting, query);
                slot.count += 1;
            }
            _ => {
                self.troubles.send_again += 1;
                return false;
            }
        }
        true
    }

    /// Accounts for a query that a connection has got: it may be spent by it.
    fn took_one(&mut self, flow: u32, c: u32) {
        let connection = self.table.get_mut(c);
        if connection.unanswered == 0 {
            connection.heard = monotonic();
        }
        connection.unanswered += 1;
        connection.asked += 1;
        if connection.asked == self.options.queries {
            connection.spent = true;
            self.slots[flow as usize].current = None;
        }
        if !connection.dirty {
            connection.dirty = true;
            self.dirty.push(c);
        }
    }

    /// Moves what waits in a slot to connections, as far as there is room, and opens one where there is none.
    fn refill(&mut self, flow: u32) {
        while self.slots[flow as usize].count > 0 {
            if self.slots[flow as usize].current.is_none() && !self.connect(flow) {
                return;
            }
            let Some(c) = self.room(flow) else { return };
            let slot = &mut self.slots[flow as usize];
            let Some((query, _)) = split(&slot.waiting[slot.gone..]) else {
                unreachable!("it was put whole")
            };
            append(self.table.get_mut(c).out(&mut self.pool), query);
            slot.gone += 2 + query.len();
            slot.count -= 1;
            if slot.count == 0 {
                slot.empty(&mut self.pool);
            } else if slot.gone > 4096 {
                slot.waiting.drain(..slot.gone);
                slot.gone = 0;
            }
            self.took_one(flow, c);
        }
    }

    /// Writes what the connections that were touched have to write.
    fn write_dirty(&mut self) {
        while let Some(c) = self.dirty.pop() {
            // One that has ended since is not dirty, nor is another in its place before it is touched.
            let connection = self.table.get_mut(c);
            if std::mem::take(&mut connection.dirty)
                && let Err(end) = self.table.write(c, &mut self.pool)
            {
                self.end(c, end);
            }
        }
    }

    /// Ends a connection. What waits in its slot goes to another, unless the server cannot be reached.
    fn end(&mut self, c: u32, end: End) {
        let connection = self.table.close(c, end, &mut self.pool);
        let slot = &mut self.slots[connection.flow as usize];
        if connection.spent {
            return;
        }
        slot.current = None;
        if matches!(end, End::Refused | End::Unreachable) {
            self.table.counts.queries_cut_off += u64::from(slot.empty(&mut self.pool));
        } else {
            self.refill(connection.flow);
        }
    }

    /// Looks at some connections for times that are over.
    fn look_after(&mut self, now: u64) {
        if now < self.next_look {
            return;
        }
        let until = (self.hand + Self::LOOK).min(self.table.len());
        for c in self.hand..until {
            if let Some(end) = self.table.overdue(c as u32, now, &self.options) {
                self.end(c as u32, end);
            }
        }
        self.hand = until;
        if until >= self.table.len() {
            (self.hand, self.next_look) = (0, now.saturating_add(self.period));
        }
    }

    /// Handles what epoll tells of a connection: how many messages came.
    fn turn(&mut self, c: u32, events: u32, each: &mut dyn FnMut(&Incoming<'_>)) -> usize {
        let (handshake, goes_on) = self.table.progress(c, events, &mut self.pool);
        if let Some(handshake) = handshake.filter(|_| self.handshakes.len() < Self::HANDSHAKES) {
            self.handshakes.push(handshake);
        }
        if let Err(end) = goes_on {
            self.end(c, end);
            return 0;
        }
        if events & (socket::IN | socket::BROKEN) == 0 {
            return 0;
        }
        let flow = self.table.get(c).flow;
        let from = self.slots[flow as usize].flow.target;
        let mut shown = 0;
        let mut show = |bytes: &[u8], len: usize, stamp: Stamp| {
            each(&Incoming { flow, from, bytes, len, stamp });
            shown += 1;
        };
        let end = self.table.read(c, &mut self.buffer, &mut self.pool, &mut show).err();
        let connection = self.table.get(c);
        match end {
            Some(end) => self.end(c, end),
            None if connection.spent && connection.unanswered == 0 => self.end(c, End::ByUs),
            None => self.refill(flow),
        }
        shown
    }
}

impl Slot {
    /// Forgets what waits: how many queries.
    fn empty(&mut self, pool: &mut Pool) -> u32 {
        pool.give(std::mem::take(&mut self.waiting));
        self.gone = 0;
        std::mem::take(&mut self.count)
    }
}

impl Transport for TcpFlows {
    fn flows(&self) -> u32 {
        self.slots.len() as u32
    }

    fn target(&self, flow: u32) -> SocketAddr {
        self.slots[flow as usize].flow.target
    }

    fn batch(&mut self) -> &mut Batch {
        &mut self.batch
    }

    /// Also opens connections. A query whose connection is not open yet counts as handed over now.
    fn flush(&mut self, done: &mut dyn FnMut(usize, Option<u64>)) -> io::Result<()> {
        let mut batch = std::mem::take(&mut self.batch);
        let mut accepted = [false; BATCH];
        for (flow, run) in batch.runs() {
            let (before, mut opened) = (monotonic(), false);
            for i in run.clone() {
                accepted[i] = self.put(flow, &batch.frames()[i].bytes, &mut opened);
            }
            let at = if opened { before } else { monotonic() };
            self.write_dirty();
            run.for_each(|i| done(i, accepted[i].then_some(at)));
        }
        batch.clear();
        self.batch = batch;
        Ok(())
    }

    /// Also ends handshakes, writes what could not be written at once, and closes what is to be closed.
    fn receive(&mut self, max: usize, each: &mut dyn FnMut(&Incoming<'_>)) -> io::Result<usize> {
        let ready = self.table.epoll.look()?;
        let mut total = 0;
        for i in 0..ready {
            let (events, number) = self.table.epoll.found(i);
            let Some(c) = self.table.find(number) else { continue };
            total += self.turn(c, events, each);
            if total >= max {
                break;
            }
        }
        self.look_after(monotonic());
        self.write_dirty();
        Ok(total)
    }

    fn wait(&mut self, timeout: u64) -> io::Result<()> {
        let look = if self.existing() == 0 { u64::MAX } else { self.next_look.saturating_sub(monotonic()) };
        self.table.epoll.wait(timeout.min(look))
    }

    fn troubles(&mut self) -> Troubles {
        self.troubles
    }

    fn receive_buffer(&self) -> usize {
        self.receive_buffer
    }

    /// A connection at rest costs about 150; what is written or waits adds to it, at most `pipeline` and `waiting` queries,
    /// and at most [`Incoming::MAX`] octets of an answer that is not complete. The kernel has about 2 KB more for each,
    /// and what its buffers hold.
    fn memory(&self) -> usize {
        let slots = self.slots.iter().map(|s| size_of::<Slot>() + s.waiting.capacity()).sum::<usize>();
        let buffers = self.pool.bytes() + self.buffer.len() + self.batch.bytes();
        slots + self.table.bytes() + buffers
    }

    fn backend(&self) -> &'static str {
        "tcp"
    }

    fn connections(&self) -> Option<Connections> {
        Some(self.table.counts)
    }

    fn open_connections(&self) -> u64 {
        self.table.open
    }

    fn handshakes(&mut self, each: &mut dyn FnMut(u64)) {
        self.handshakes.drain(..).for_each(each);
    }
}

#[cfg(test)]
mod tests;
