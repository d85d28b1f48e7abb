//! The façade of every way to send queries and receive answers.
//!
//! A transport owns *flows* (one source address and port, one target, numbered from 0) and lends buffers: the
//! engine fills outgoing ones in place and looks at incoming ones in place, so that nothing is copied twice and
//! nothing is allocated per query. One transport belongs to one worker.

use std::io;
use std::net::SocketAddr;

/// A buffer lent to be filled with one query.
#[derive(Debug, Default)]
pub struct Outgoing {
    /// The DNS message; empty when lent, its capacity is kept.
    pub bytes: Vec<u8>,
    /// Send with the don't-fragment bit (IPv4; IPv6 routers never fragment).
    pub df: bool,
}

/// One received datagram, lent while it is looked at.
#[derive(Clone, Copy, Debug)]
pub struct Incoming<'a> {
    /// The flow at which it arrived.
    pub flow: u32,
    /// Whence it came.
    pub from: SocketAddr,
    /// The payload, at most [`Incoming::MAX`] octets of it.
    pub bytes: &'a [u8],
    /// The payload's true length in octets.
    pub len: usize,
    /// When the kernel received it: wall clock, nanoseconds since 1970.
    pub stamp: u64,
}

impl Incoming<'_> {
    /// How many octets of a payload are kept.
    pub const MAX: usize = 4096;
}

/// What went wrong on our own side so far, added over all flows. Counts only grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Troubles {
    /// Answers that the kernel dropped because our receive buffers were full.
    pub socket_drops: u64,
    /// Datagrams that the kernel refused to send for want of buffers (`ENOBUFS`, `ENOMEM`).
    pub send_no_buffers: u64,
    /// Datagrams that the kernel refused to send because a send buffer was full (`EAGAIN`).
    pub send_again: u64,
    /// Datagrams that the kernel refused to send for any other reason.
    pub send_other: u64,
    /// The error number of the last refusal for any other reason; 0 where there was none.
    pub send_errno: i32,
    /// ICMP and ICMPv6 errors that came back for what was sent: the peer's or the path's doing.
    pub icmp: u64,
}

impl Troubles {
    /// How many datagrams the kernel refused to send.
    pub fn refused(&self) -> u64 {
        self.send_no_buffers + self.send_again + self.send_other
    }
}

/// A way to send queries and receive answers.
pub trait Transport {
    /// How many flows there are.
    fn flows(&self) -> u32;

    /// The target of a flow.
    ///
    /// # Panics
    /// Where there is no such flow.
    fn target(&self, flow: u32) -> SocketAddr;

    /// Lends the next free buffer of the batch; `None` where the batch is full: flush it first.
    fn lend(&mut self) -> Option<&mut Outgoing>;

    /// Sends the batch on one flow and empties it. For each buffer, by its place in the order of lending, `done`
    /// learns when it was handed to the kernel (monotonic nanoseconds, read just before the system call), or
    /// `None` where the kernel refused it. Refusals are counted in [`Transport::troubles`].
    ///
    /// # Errors
    /// Only where the flow cannot be used at all.
    fn flush(&mut self, flow: u32, done: &mut dyn FnMut(usize, Option<u64>)) -> io::Result<()>;

    /// Shows each datagram that is there, up to about `max` of them; returns how many there were. Never waits.
    ///
    /// # Errors
    /// Only where nothing can be received any more.
    fn receive(&mut self, max: usize, each: &mut dyn FnMut(&Incoming<'_>)) -> io::Result<usize>;

    /// Waits until something can be received, or `timeout` nanoseconds have passed.
    ///
    /// # Errors
    /// Only where waiting is impossible; a signal just ends it.
    fn wait(&mut self, timeout: u64) -> io::Result<()>;

    /// What went wrong on our side so far.
    fn troubles(&mut self) -> Troubles;

    /// The receive buffer of each flow as the kernel granted it, in bytes of its accounting.
    fn receive_buffer(&self) -> usize;
}
