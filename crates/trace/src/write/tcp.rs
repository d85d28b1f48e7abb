//! TCP connections that are made: a handshake, segments with the right numbers, and an end of both sides.

use super::build::Segment;
use std::net::SocketAddr;

/// Octets of data in a segment: fits into Ethernet's 1,500 with the headers of IPv6 and TCP.
const DATA_MAX: usize = 1400;
/// The option of SYN that says so (RFC 9293, section 3.7.1).
const SEGMENT_SIZE: [u8; 4] = [2, 4, (DATA_MAX >> 8) as u8, DATA_MAX as u8];

const FIN: u8 = 1;
const SYN: u8 = 2;
const PSH: u8 = 8;
const ACK: u8 = 16;

/// A segment's content: whether it goes from the server to the client, its flags and its data.
pub(crate) type Part<'a> = (bool, u8, &'a [u8]);

/// How a connection begins.
pub(crate) const HANDSHAKE: [Part<'static>; 3] =
    [(false, SYN, &[]), (true, SYN | ACK, &[]), (false, ACK, &[])];
/// How it ends.
pub(crate) const GOODBYE: [Part<'static>; 3] =
    [(false, FIN | ACK, &[]), (true, FIN | ACK, &[]), (false, ACK, &[])];

/// A message as it goes over TCP, its length before it (RFC 1035, section 4.2.2).
pub(crate) fn framed(message: &[u8]) -> Vec<u8> {
    [&(message.len() as u16).to_be_bytes(), message].concat()
}

/// The segments of data in one direction.
pub(crate) fn parts(back: bool, data: &[u8]) -> impl Iterator<Item = Part<'_>> {
    let last = data.len().div_ceil(DATA_MAX).saturating_sub(1);
    let flags = move |n| if n == last { PSH | ACK } else { ACK };
    data.chunks(DATA_MAX).enumerate().map(move |(n, piece)| (back, flags(n), piece))
}

/// The next sequence numbers of the client and the server of a connection.
#[derive(Clone, Copy)]
pub(crate) struct Numbers([u32; 2]);

impl Numbers {
    /// Of a new connection: any numbers would do; these are the same each time.
    pub fn new(connection: u64) -> Self {
        let first = (connection as u32).wrapping_add(1).wrapping_mul(0x9e37_79b1);
        Self([first, first.rotate_left(16)])
    }

    /// The next segment, between these ends.
    pub fn segment<'a>(&mut self, part: Part<'a>, (from, to): (SocketAddr, SocketAddr)) -> Segment<'a> {
        let (back, flags, data) = part;
        let (own, other) = (usize::from(back), usize::from(!back));
        let seq = self.0[own];
        let ack = if flags & ACK != 0 { self.0[other] } else { 0 };
        self.0[own] = seq.wrapping_add(data.len() as u32 + u32::from(flags & (SYN | FIN) != 0));
        let options: &[u8] = if flags & SYN != 0 { &SEGMENT_SIZE } else { &[] };
        Segment { from, to, seq, ack, flags, options, data }
    }
}
