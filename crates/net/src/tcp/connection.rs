//! Connections by number: how each begins, carries octets, and ends.

use super::Options;
use super::frame::{Deframer, Pool};
use super::socket::{self, BROKEN, Epoll, IN, OUT};
use crate::sys::monotonic;
use crate::transport::{Connections, Stamp};
use crate::udp::Flow;
use std::io;
use std::mem::size_of;
use std::os::fd::{AsFd, OwnedFd};

/// How a connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Refused,
    Unreachable,
    Reset,
    ByServer,
    ByUs,
}

/// The end that an error of a connection stands for.
fn end_of(errno: i32) -> End {
    match errno {
        libc::ECONNREFUSED => End::Refused,
        libc::ECONNRESET | libc::EPIPE | libc::ECONNABORTED => End::Reset,
        _ => End::Unreachable,
    }
}

fn broken(e: &io::Error) -> End {
    end_of(e.raw_os_error().unwrap_or(0))
}

/// One connection.
#[derive(Default)]
pub(crate) struct Connection {
    fd: Option<OwnedFd>,
    pub flow: u32,
    /// The count of connections that had this number before; a part of what epoll knows it by.
    generation: u32,
    established: bool,
    /// It takes no more queries, and is closed when it is answered.
    pub spent: bool,
    /// It is on the list of those that have something to write.
    pub dirty: bool,
    /// Epoll tells when it can be written.
    watched: bool,
    pub asked: u32,
    pub unanswered: u32,
    /// When it was begun; when something was heard last, or the first unanswered query was asked. Monotonic.
    begun: u64,
    pub heard: u64,
    /// Octets to write, and how many of them are written.
    out: Vec<u8>,
    written: usize,
    deframer: Deframer,
}

impl Connection {
    /// Where to put what is to be written.
    pub(crate) fn out(&mut self, pool: &mut Pool) -> &mut Vec<u8> {
        if self.out.capacity() == 0 {
            self.out = pool.take();
        }
        &mut self.out
    }
}

/// All connections of a transport.
pub(crate) struct Table {
    connections: Vec<Connection>,
    free: Vec<u32>,
    pub epoll: Epoll,
    pub counts: Connections,
    /// Connections that are open now.
    pub open: u64,
    reset: bool,
}

impl Table {
    /// Sockets that one look at epoll can find.
    const EVENTS: usize = 256;

    pub(crate) fn new(reset: bool) -> io::Result<Self> {
        let epoll = Epoll::new(Self::EVENTS)?;
        let counts = Connections::default();
        Ok(Self { connections: Vec::new(), free: Vec::new(), epoll, counts, open: 0, reset })
    }

    pub(crate) fn get(&self, c: u32) -> &Connection {
        &self.connections[c as usize]
    }

    pub(crate) fn get_mut(&mut self, c: u32) -> &mut Connection {
        &mut self.connections[c as usize]
    }

    /// Numbers in use or free.
    pub(crate) fn len(&self) -> usize {
        self.connections.len()
    }

    /// Connections that exist.
    pub(crate) fn live(&self) -> usize {
        self.connections.len() - self.free.len()
    }

    /// Memory in bytes.
    pub(crate) fn bytes(&self) -> usize {
        let buffers = self.connections.iter().map(|c| c.out.capacity() + c.deframer.bytes()).sum::<usize>();
        buffers
            + self.connections.capacity() * size_of::<Connection>()
            + self.free.capacity() * size_of::<u32>()
    }

    fn number(&self, c: u32) -> u64 {
        u64::from(self.get(c).generation) << 32 | u64::from(c)
    }

    /// The connection that epoll means; `None` where it has ended meanwhile.
    pub(crate) fn find(&self, number: u64) -> Option<u32> {
        let c = number as u32;
        let connection = self.get(c);
        (connection.fd.is_some() && self.number(c) == number).then_some(c)
    }

    /// Begins a connection; `None` where the peer refused it at once. Errors are our own side's.
    pub(crate) fn connect(&mut self, flow: u32, ends: &Flow, now: u64) -> io::Result<Option<u32>> {
        let (fd, result) = socket::connect(ends);
        match result {
            Err(e) if e.raw_os_error() == Some(libc::ECONNREFUSED) => {
                self.counts.begun += 1;
                self.counts.refused += 1;
                return Ok(None);
            }
            other => other?,
        }
        let Some(fd) = fd else { return Ok(None) };
        let c = self.free.last().copied().unwrap_or(self.connections.len() as u32);
        let generation = self.connections.get(c as usize).map_or(0, |c| c.generation.wrapping_add(1));
        self.epoll.add(fd.as_fd(), IN | OUT, u64::from(generation) << 32 | u64::from(c))?;
        if self.free.pop().is_none() {
            self.connections.push(Connection::default());
        }
        let connection = self.get_mut(c);
        *connection = Connection {
            fd: Some(fd),
            flow,
            generation,
            watched: true,
            begun: now,
            heard: now,
            // On the list from an earlier life: it is found there.
            dirty: connection.dirty,
            ..Connection::default()
        };
        self.counts.begun += 1;
        Ok(Some(c))
    }

    /// Ends a connection and counts how; what it was goes back, without its buffers.
    pub(crate) fn close(&mut self, c: u32, end: End, pool: &mut Pool) -> Connection {
        let connection = self.get_mut(c);
        let (generation, dirty) = (connection.generation, connection.dirty);
        let mut was = std::mem::take(connection);
        (connection.generation, connection.dirty) = (generation, dirty);
        self.free.push(c);
        pool.give(std::mem::take(&mut was.out));
        was.deframer.give_back(pool);
        let counts = &mut self.counts;
        match end {
            End::Refused => counts.refused += 1,
            End::Unreachable => counts.unreachable += 1,
            End::Reset => counts.reset += 1,
            End::ByServer => counts.closed_by_server += 1,
            End::ByUs => counts.closed_by_us += 1,
        }
        if end != End::ByUs {
            counts.queries_cut_off += u64::from(was.unanswered);
        }
        self.open -= u64::from(was.established);
        if let Some(fd) = was.fd.take()
            && end == End::ByUs
            && self.reset
        {
            socket::close_by_reset(fd.as_fd());
        }
        was
    }

    /// How a connection ends whose time is over; `None` where it is not.
    pub(crate) fn overdue(&self, c: u32, now: u64, options: &Options) -> Option<End> {
        let connection = self.get(c);
        connection.fd.as_ref()?;
        let over = |since: u64, limit: u64| limit > 0 && now.saturating_sub(since) >= limit;
        if !connection.established {
            over(connection.begun, options.connect_timeout).then_some(End::Unreachable)
        } else if connection.unanswered > 0 {
            over(connection.heard, options.patience).then_some(End::ByUs)
        } else {
            over(connection.heard, options.idle).then_some(End::ByUs)
        }
    }

    /// Handles epoll's events: how long the handshake took where it has ended, and whether the connection goes on.
    pub(crate) fn progress(
        &mut self,
        c: u32,
        events: u32,
        pool: &mut Pool,
    ) -> (Option<u64>, Result<(), End>) {
        let connection = self.get_mut(c);
        let Some(fd) = &connection.fd else { return (None, Ok(())) };
        let mut handshake = None;
        if !connection.established {
            let failed = (events & BROKEN != 0).then(|| socket::pending_error(fd.as_fd())).flatten();
            let end = failed.map(end_of);
            match end {
                // A refusal is another error (ECONNREFUSED). With this one the handshake had ended before epoll reported it.
                Some(End::Reset) => {}
                Some(end) => return (None, Err(end)),
                None if events & OUT == 0 => return (None, Ok(())),
                None => {}
            }
            connection.established = true;
            let now = monotonic();
            connection.heard = now;
            handshake = Some(now - connection.begun);
            self.open += 1;
            self.counts.established += 1;
            self.counts.open_max = self.counts.open_max.max(self.open);
            if let Some(end) = end {
                return (handshake, Err(end));
            }
        }
        (handshake, if events & OUT != 0 { self.write(c, pool) } else { Ok(()) })
    }

    /// Writes as much as the kernel takes; the rest is written when epoll says so.
    pub(crate) fn write(&mut self, c: u32, pool: &mut Pool) -> Result<(), End> {
        let connection = &mut self.connections[c as usize];
        let Some(fd) = connection.fd.as_ref().filter(|_| connection.established) else { return Ok(()) };
        while connection.written < connection.out.len() {
            match socket::send(fd.as_fd(), &connection.out[connection.written..]) {
                Ok(n) => connection.written += n,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => break,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(broken(&e)),
            }
        }
        let blocked = connection.written < connection.out.len();
        if !blocked && connection.out.capacity() > 0 {
            pool.give(std::mem::take(&mut connection.out));
            connection.written = 0;
        }
        if blocked != connection.watched {
            connection.watched = blocked;
            let number = u64::from(connection.generation) << 32 | u64::from(c);
            let events = if blocked { IN | OUT } else { IN };
            self.epoll.change(fd.as_fd(), events, number).map_err(|e| broken(&e))?;
        }
        Ok(())
    }

    /// Reads once what is there; `show` gets the octets kept of each message, its true length and its stamp.
    pub(crate) fn read(
        &mut self,
        c: u32,
        buffer: &mut [u8],
        pool: &mut Pool,
        show: &mut dyn FnMut(&[u8], usize, Stamp),
    ) -> Result<(), End> {
        let connection = self.get_mut(c);
        let Some(fd) = connection.fd.as_ref().filter(|_| connection.established) else { return Ok(()) };
        let (n, stamp) = match socket::receive(fd.as_fd(), buffer) {
            Ok((0, _)) => return Err(End::ByServer),
            Ok(read) => read,
            Err(e) if matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {
                return Ok(());
            }
            Err(e) => return Err(broken(&e)),
        };
        let now = monotonic();
        connection.heard = now;
        let stamp = stamp.unwrap_or(Stamp::Monotonic(now));
        let unanswered = &mut connection.unanswered;
        connection.deframer.feed(&buffer[..n], pool, &mut |bytes, len| {
            *unanswered = unanswered.saturating_sub(1);
            show(bytes, len, stamp);
        });
        Ok(())
    }
}
