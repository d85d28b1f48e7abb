//! The events of a reader: messages, ICMP errors about them, TCP connections.

use super::connections::Connection;
use super::packet::ChecksumState;
use measure::Nanos;
use std::net::{IpAddr, SocketAddr};
use wire::header::Header;

/// An event of a reader.
#[derive(Clone, Copy, Debug)]
pub enum Event<'a> {
    /// A DNS message.
    Message(Message<'a>),
    /// An ICMP error about one.
    Quote(Quote<'a>),
    /// A TCP connection of which there will be no more messages.
    Connection(Connection),
}

/// One DNS message, a query or a response, in buffers that the next one overwrites.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message<'a> {
    /// When it was captured, in nanoseconds since 1970; where it came in several packets, when the one came that made
    /// it whole.
    pub at: Nanos,
    /// Its sender.
    pub from: SocketAddr,
    /// Its receiver.
    pub to: SocketAddr,
    /// Over TCP: its connection's number, from 0 in the order of their first packets.
    pub tcp: Option<u64>,
    /// Over TCP: how long after the server's SYN the client's answer to it was captured, in nanoseconds; where the capture
    /// was made at the server, the time that a packet takes to the client and back.
    pub handshake: Option<Nanos>,
    /// The IPv4 header's "don't fragment" bit; false over TCP.
    pub df: bool,
    /// Time to live, or hop limit; over TCP, of the segment that made it whole.
    pub ttl: u8,
    /// Of how many IP fragments it was put together; 1 where it came in one packet.
    pub fragments: u64,
    /// The UDP checksum.
    pub checksum: ChecksumState,
    /// The message from its header on, at least 12 octets; not all of it where [`Self::len`] is more.
    pub bytes: &'a [u8],
    /// Its length in octets: more than there are in `bytes` where the capture cut the packet short.
    pub len: usize,
    /// The packet that holds it; `None` over TCP, and where it was put together.
    pub frame: Option<Frame<'a>>,
}

#[cfg(test)]
impl<'a> Message<'a> {
    /// A whole message in one UDP packet, for tests.
    pub(crate) fn over_udp(at: Nanos, from: SocketAddr, to: SocketAddr, bytes: &'a [u8]) -> Self {
        Self {
            at,
            from,
            to,
            tcp: None,
            handshake: None,
            df: false,
            ttl: 64,
            fragments: 1,
            checksum: ChecksumState::Right,
            bytes,
            len: bytes.len(),
            frame: None,
        }
    }
}

/// A packet as captured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    /// The link type's number as tcpdump.org registers it.
    pub link: u16,
    /// Its captured octets.
    pub bytes: &'a [u8],
    /// How long it was.
    pub len: usize,
}

/// An ICMP error that quotes a packet from or to a server's port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quote<'a> {
    /// When it was captured, in nanoseconds since 1970.
    pub at: Nanos,
    /// The sender of the error.
    pub from: IpAddr,
    /// Its destination.
    pub to: IpAddr,
    /// ICMP's type (RFC 792), or ICMPv6's (RFC 4443) where `from` is of IPv6.
    pub kind: u8,
    /// Its code.
    pub code: u8,
    /// The sender of the packet that is quoted.
    pub quoted_from: SocketAddr,
    /// Its destination.
    pub quoted_to: SocketAddr,
    /// The packet was of TCP.
    pub tcp: bool,
    /// The part of the DNS message that was quoted; none over TCP.
    pub message: &'a [u8],
}

impl<'a> Message<'a> {
    /// Its header.
    pub fn header(&self) -> Header<'a> {
        Header::new(self.bytes).expect("a message has a header")
    }

    /// All of it was captured.
    pub fn is_whole(&self) -> bool {
        self.bytes.len() == self.len
    }
}
