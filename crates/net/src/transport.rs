//! The façade of every way to send queries and receive answers.
//!
//! A transport owns *flows* (one source address and port, one target, numbered from 0) and lends buffers: the
//! engine fills outgoing ones in place and looks at incoming ones in place, so that nothing is copied twice and
//! nothing is allocated per query. One transport belongs to one worker.

use crate::batch::Batch;
use derive_more::AddAssign;
use serde::{Deserialize, Serialize};
use std::io;
use std::net::SocketAddr;
use wire::Checksum;

/// A buffer lent to be filled with one query.
#[derive(Debug, Default)]
pub struct Outgoing {
    /// The DNS message; empty when lent, its capacity is kept.
    pub bytes: Vec<u8>,
    /// Send with the don't-fragment bit (IPv4; IPv6 routers never fragment); false when lent.
    pub df: bool,
    /// The checksum, as far as the transport can ([`Transport::checksums`]); right when lent.
    pub checksum: Checksum,
}

/// When something was received, and by which clock: nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stamp {
    /// CLOCK_REALTIME, since 1970: the kernel's stamps on sockets.
    Wall(u64),
    /// CLOCK_MONOTONIC.
    Monotonic(u64),
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
    /// When the kernel received it.
    pub stamp: Stamp,
}

impl Incoming<'_> {
    /// How many octets of a payload are kept.
    pub const MAX: usize = 4096;
}

/// Faults on our own side so far, added over all flows. Counts only grow.
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
    /// Adds what went wrong elsewhere on our side.
    pub fn merge(&mut self, other: &Self) {
        self.socket_drops += other.socket_drops;
        self.send_no_buffers += other.send_no_buffers;
        self.send_again += other.send_again;
        self.send_other += other.send_other;
        self.icmp += other.icmp;
        self.send_errno = self.send_errno.max(other.send_errno);
    }

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

    /// Lends the next free buffer of the batch for a query on `flow`; `None` where the batch is full: flush it first.
    ///
    /// # Panics
    /// Where there is no such flow.
    fn lend(&mut self, flow: u32) -> Option<&mut Outgoing> {
        assert!(flow < self.flows(), "no flow {flow}");
        self.batch().lend(flow)
    }

    /// The batch that is lent from.
    fn batch(&mut self) -> &mut Batch;

    /// Whether other checksums than right ones can be sent: absent ones, bad ones.
    fn checksums(&self) -> (bool, bool) {
        (false, false)
    }

    /// Sends the batch and empties it. For each buffer, by its place in the order of lending (but in any order), `done`
    /// learns when it was handed to the kernel (monotonic nanoseconds, read just before the system call), or
    /// `None` where the kernel refused it. Refusals are counted in [`Transport::troubles`].
    ///
    /// # Errors
    /// Only where a flow cannot be used at all.
    fn flush(&mut self, done: &mut dyn FnMut(usize, Option<u64>)) -> io::Result<()>;

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

    /// Faults on our own side so far.
    fn troubles(&mut self) -> Troubles;

    /// The receive buffer of each flow as the kernel granted it, in bytes of its accounting.
    fn receive_buffer(&self) -> usize;

    /// Octets of memory that it keeps now, for packets, flows and connections. The kernel's buffers come on top.
    fn memory(&self) -> usize;

    /// How packets go: `socket`, `socket+gso`, `xdp-native`, `xdp-generic`, `xdp-zero-copy`, `tcp`.
    fn backend(&self) -> &'static str;

    /// Connections by outcome so far; `None` where there are none.
    fn connections(&self) -> Option<Connections> {
        None
    }

    /// Connections that are open now.
    fn open_connections(&self) -> u64 {
        0
    }

    /// Shows how long each handshake took that ended since the last call, in nanoseconds.
    fn handshakes(&mut self, _each: &mut dyn FnMut(u64)) {}
}

/// Connections by outcome. Counts only grow.
#[derive(AddAssign, Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Connections {
    /// SYNs: connections begun.
    pub begun: u64,
    /// Handshakes that ended well.
    pub established: u64,
    /// Answered with RST instead of SYN and ACK (ECONNREFUSED).
    pub refused: u64,
    /// No answer to the SYN in time, or unreachable by ICMP.
    pub unreachable: u64,
    /// Established ones that the server reset (RST).
    pub reset: u64,
    /// Established ones that the server closed first (FIN).
    pub closed_by_server: u64,
    /// Established ones that we closed: their queries were spent, or they were idle or silent for too long.
    pub closed_by_us: u64,
    /// Queries that were waiting for an answer when their connection was reset or closed by the server, or for a
    /// connection that could not be opened.
    pub queries_cut_off: u64,
    /// Connections that could not be opened for want of local ports, descriptors or memory.
    pub local_failures: u64,
    /// The most that were open at once; of several transports the sum of that, perhaps at different times.
    pub open_max: u64,
}
