//! TCP connections rebuilt around the messages that are kept: SYN, SYN and ACK, ACK, then segments with the right
//! numbers, and FIN of both ends where the connection was seen to end.

use super::Error;
use super::dropped::Drop;
use super::ends::Direction;
use super::rewrite::Rewriter;
use super::sink::Sink;
use crate::read::{Connection, End, Message};
use crate::write::build::{HOPS, IpFields};
use crate::write::tcp::{GOODBYE, HANDSHAKE, Numbers, Part, framed, parts};
use measure::Nanos;
use std::collections::HashMap;
use std::net::SocketAddr;

/// The connections that have begun and not ended: no more than the reader knows.
#[derive(Default)]
pub(super) struct Rebuilt {
    known: HashMap<u64, RebuiltConnection>,
    /// Segments made, for IPv4's identification.
    made: u16,
}

/// A connection.
#[derive(Clone, Copy)]
struct RebuiltConnection {
    link: u16,
    client: SocketAddr,
    server: SocketAddr,
    numbers: Numbers,
}

impl RebuiltConnection {
    /// Writes a segment at the next number of its direction.
    fn send(
        &mut self,
        part: Part<'_>,
        (at, id): (Nanos, u16),
        rewriter: &mut Rewriter,
        sink: &mut Sink<'_>,
    ) -> Result<Result<(), Drop>, Error> {
        let (way, ends) = match part.0 {
            false => (Direction::FromClient, (self.client, self.server)),
            true => (Direction::FromServer, (self.server, self.client)),
        };
        let begun = rewriter.begin(self.link, ends, way).and_then(|(link, from, to)| {
            let fields = IpFields { id, df: true, ttl: HOPS };
            rewriter.tcp(self.numbers.segment(part, (from, to)), fields)?;
            Ok(link)
        });
        match begun {
            Ok(link) => sink.frame(at, link, &rewriter.out, rewriter.out.len()).map(Ok),
            Err(reason) => Ok(Err(reason)),
        }
    }
}

impl Rebuilt {
    fn id(&mut self) -> u16 {
        self.made = self.made.wrapping_add(1);
        self.made
    }

    /// Writes a message whose octets are now `bytes`, its connection first where it is the first.
    pub fn message(
        &mut self,
        message: &Message<'_>,
        bytes: &[u8],
        (link, way): (u16, Direction),
        rewriter: &mut Rewriter,
        sink: &mut Sink<'_>,
    ) -> Result<Result<(), Drop>, Error> {
        let number = message.tcp.unwrap_or(0);
        let at = message.at;
        let known = self.known.get(&number).copied();
        let mut made = known.unwrap_or_else(|| {
            let (client, server) = if way == Direction::FromClient {
                (message.from, message.to)
            } else {
                (message.to, message.from)
            };
            RebuiltConnection { link, client, server, numbers: Numbers::new(number) }
        });
        if known.is_none() {
            for part in HANDSHAKE {
                if let Err(reason) = made.send(part, (at, self.id()), rewriter, sink)? {
                    return Ok(Err(reason));
                }
            }
        }
        // Between servers' ports a response may go the other way than the first message says.
        let back = message.from != made.client;
        for part in parts(back, &framed(bytes)) {
            if let Err(reason) = made.send(part, (at, self.id()), rewriter, sink)? {
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
        for part in GOODBYE {
            if let Err(reason) = made.send(part, (connection.last, self.id()), rewriter, sink)? {
                return Ok(Err(reason));
            }
        }
        Ok(Ok(()))
    }
}
