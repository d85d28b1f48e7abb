//! TCP connections made anew around the messages that are kept: SYN, SYN and ACK, ACK, then segments with the right
//! numbers, and FIN of both ends where the connection was seen to end.

use super::Error;
use super::dropped::Drop;
use super::ends::Way;
use super::rewrite::Rewriter;
use super::sink::Sink;
use crate::read::{Connection, End, Message};
use crate::write::build::{HOPS, IpFields, Segment};
use measure::Nanos;
use std::collections::HashMap;
use std::net::SocketAddr;

/// Octets of data in a segment: fits into Ethernet's 1,500 with the headers of IPv6 and TCP.
const DATA_MAX: usize = 1400;
/// The option of SYN that says so (RFC 9293, section 3.7.1).
const SEGMENT_SIZE: [u8; 4] = [2, 4, (DATA_MAX >> 8) as u8, DATA_MAX as u8];

const FIN: u8 = 1;
const SYN: u8 = 2;
const PSH: u8 = 8;
const ACK: u8 = 16;

/// The connections that have begun and not ended: no more than the reader knows.
#[derive(Default)]
pub(super) struct Anew {
    known: HashMap<u64, Made>,
    /// Segments made, for IPv4's identification.
    made: u16,
}

/// A connection.
#[derive(Clone, Copy)]
struct Made {
    link: u16,
    client: SocketAddr,
    server: SocketAddr,
    /// What the client and the server send next.
    next: [u32; 2],
}

impl Made {
    /// Writes a segment at the next number of its direction.
    fn send(
        &mut self,
        (way, flags, data): (Way, u8, &[u8]),
        (at, id): (Nanos, u16),
        rewriter: &mut Rewriter,
        sink: &mut Sink<'_>,
    ) -> Result<Result<(), Drop>, Error> {
        let back = usize::from(way == Way::FromServer);
        let ends = if back == 0 { (self.client, self.server) } else { (self.server, self.client) };
        let begun = rewriter.begin(self.link, ends, way).and_then(|(link, from, to)| {
            let options: &[u8] = if flags & SYN != 0 { &SEGMENT_SIZE } else { &[] };
            let (seq, ack) = (self.next[back], if flags & ACK != 0 { self.next[1 - back] } else { 0 });
            let fields = IpFields { id, df: true, ttl: HOPS };
            rewriter.tcp(Segment { from, to, seq, ack, flags, options, data }, fields)?;
            Ok(link)
        });
        let link = match begun {
            Ok(link) => link,
            Err(reason) => return Ok(Err(reason)),
        };
        let numbers = data.len() as u32 + u32::from(flags & (SYN | FIN) != 0);
        self.next[back] = self.next[back].wrapping_add(numbers);
        sink.frame(at, link, &rewriter.out, rewriter.out.len()).map(Ok)
    }
}

impl Anew {
    fn id(&mut self) -> u16 {
        self.made = self.made.wrapping_add(1);
        self.made
    }

    /// Writes a message whose octets are now `bytes`, its connection first where it is the first.
    pub fn message(
        &mut self,
        message: &Message<'_>,
        bytes: &[u8],
        (link, way): (u16, Way),
        rewriter: &mut Rewriter,
        sink: &mut Sink<'_>,
    ) -> Result<Result<(), Drop>, Error> {
        let number = message.tcp.unwrap_or(0);
        let at = message.at;
        let known = self.known.get(&number).copied();
        let mut made = known.unwrap_or_else(|| {
            let (client, server) =
                if way == Way::FromClient { (message.from, message.to) } else { (message.to, message.from) };
            // Any numbers would do; these are the same each time.
            let first = (number as u32).wrapping_add(1).wrapping_mul(0x9e37_79b1);
            Made { link, client, server, next: [first, first.rotate_left(16)] }
        });
        if known.is_none() {
            let shakes = [(Way::FromClient, SYN), (Way::FromServer, SYN | ACK), (Way::FromClient, ACK)];
            for (way, flags) in shakes {
                if let Err(reason) = made.send((way, flags, &[]), (at, self.id()), rewriter, sink)? {
                    return Ok(Err(reason));
                }
            }
        }
        // Between servers' ports a response may go the other way than the first message says.
        let way = if message.from == made.client { Way::FromClient } else { Way::FromServer };
        let data = [&(bytes.len() as u16).to_be_bytes(), bytes].concat();
        let mut pieces = data.chunks(DATA_MAX).peekable();
        while let Some(piece) = pieces.next() {
            let flags = if pieces.peek().is_none() { PSH | ACK } else { ACK };
            if let Err(reason) = made.send((way, flags, piece), (at, self.id()), rewriter, sink)? {
                return Ok(Err(reason));
            }
        }
        self.known.insert(number, made);
        Ok(Ok(()))
    }

    /// A connection is over.
    pub fn end(
        &mut self,
        connection: &Connection,
        rewriter: &mut Rewriter,
        sink: &mut Sink<'_>,
    ) -> Result<Result<(), Drop>, Error> {
        let Some(mut made) = self.known.remove(&connection.number) else { return Ok(Err(Drop::Connection)) };
        if connection.end == End::Open {
            return Ok(Ok(()));
        }
        let ends = [(Way::FromClient, FIN | ACK), (Way::FromServer, FIN | ACK), (Way::FromClient, ACK)];
        for (way, flags) in ends {
            if let Err(reason) = made.send((way, flags, &[]), (connection.last, self.id()), rewriter, sink)? {
                return Ok(Err(reason));
            }
        }
        Ok(Ok(()))
    }
}
