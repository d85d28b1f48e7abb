//! A lane: one transport, and the recorder of all that goes over it.

use crate::recorder::{AnswerKind, Class, Received, Recorder, Unsent};
use measure::clock::Wall;
use measure::schedule::Due;
use measure::{Nanos, Pace};
use net::transport::{Incoming, Stamp, Transport};
use std::io;
use std::net::SocketAddr;
use traffic::Query;
use wire::Checksum;

/// A query in the batch that is not flushed yet.
struct Pending {
    flow: u32,
    id: u16,
    len: u32,
    checksum: Checksum,
}

/// Queries whose UDP checksum is not, or should not have been, the right one; those of the warm-up included.
#[derive(Clone, Copy, Debug, Default, derive_more::AddAssign)]
pub(crate) struct Checksums {
    /// They should have had none or a wrong one, and were sent with the right one.
    pub right: u64,
    /// They were sent with a wrong one.
    pub bad: u64,
}

/// One transport with its recorder.
pub(crate) struct Lane {
    pub transport: Box<dyn Transport + Send>,
    pub recorder: Recorder,
    targets: Vec<SocketAddr>,
    /// The flows over IPv4 and those over IPv6.
    families: [Vec<u32>; 2],
    /// Where queries of no client in particular go, until the batch is flushed.
    flow: u32,
    pending: Vec<Pending>,
    /// When the last query of the measured traffic was sent.
    pub last: Nanos,
    pub checksums: Checksums,
    /// A window waits for answers: a query that no server answers, for its checksum is wrong, would take a place in it
    /// until the deadline, and with time all of them. It is sent with the right one.
    window: bool,
}

impl Lane {
    pub(crate) fn new(mut transport: Box<dyn Transport + Send>, recorder: Recorder, pace: &Pace) -> Self {
        let targets: Vec<_> = (0..transport.flows()).map(|f| transport.target(f)).collect();
        let family =
            |v6: bool| (0..transport.flows()).filter(|&f| targets[f as usize].is_ipv6() == v6).collect();
        let families = [family(false), family(true)];
        let pending = Vec::with_capacity(transport.batch().size());
        let window = matches!(pace, Pace::Closed { .. });
        Self {
            transport,
            recorder,
            targets,
            families,
            flow: 0,
            pending,
            last: 0,
            checksums: Checksums::default(),
            window,
        }
    }

    fn flows(&self) -> u32 {
        self.targets.len() as u32
    }

    /// Takes an id: on the client's own flow; without a client on this one or the next (of the query's family) that has a
    /// free one. Queries keep to one flow until the batch is flushed: neighbours on one flow go in one sendmmsg.
    fn claim(&mut self, query: &Query, hash: u64, due: Due, class: Class) -> Option<(u32, u16)> {
        let Self { recorder, families, .. } = self;
        let list = query.ipv6.map(|v6| &families[usize::from(v6)]).filter(|list| !list.is_empty());
        let all = self.targets.len();
        let place = |n: u32| match list {
            Some(list) => list[n as usize % list.len()],
            None => (n as usize % all) as u32,
        };
        let mut try_one =
            |flow| recorder.claim(flow, due.intended, hash, due.quiet, class).map(|id| (flow, id));
        if let Some(client) = query.client {
            return try_one(place(client));
        }
        for _ in 0..all {
            if let Some(taken) = try_one(place(self.flow)) {
                return Some(taken);
            }
            self.flow = (self.flow + 1) % all as u32;
        }
        None
    }

    /// Puts a query into the batch, which is flushed where it is full; false where no id is free.
    pub(crate) fn put(&mut self, query: &Query, hash: u64, due: Due, class: Class) -> io::Result<bool> {
        let Some((flow, id)) = self.claim(query, hash, due, class) else { return Ok(false) };
        if self.pending.len() == self.transport.batch().size() {
            let at = self.flow;
            self.flush()?;
            self.flow = at;
        }
        let checksum = self.checksum(query.checksum, flow);
        let frame = self.transport.lend(flow).expect("the batch is flushed when it is full");
        frame.bytes.extend_from_slice(&query.bytes);
        wire::header::set_id(&mut frame.bytes, id);
        frame.df = query.df;
        frame.checksum = checksum;
        self.checksums.right += u64::from(checksum != query.checksum);
        self.pending.push(Pending { flow, id, len: query.bytes.len() as u32, checksum });
        Ok(true)
    }

    /// The checksum with which a query is sent on a flow: as `wanted`, or the right one where that cannot be.
    fn checksum(&self, wanted: Checksum, flow: u32) -> Checksum {
        let can = match wanted {
            Checksum::Right => true,
            // RFC 8200, section 8.1: a packet of IPv6 without one would be thrown away.
            Checksum::Absent => self.transport.checksums().0 && self.targets[flow as usize].is_ipv4(),
            Checksum::Bad => self.transport.checksums().1 && !self.window,
        };
        if can { wanted } else { Checksum::Right }
    }

    /// Sends the batch, and goes on to the next flow.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        let Self { recorder, pending, last, checksums, .. } = self;
        if !pending.is_empty() {
            self.transport.flush(&mut |i, at| {
                let p = &pending[i];
                match at {
                    Some(at) => {
                        *last = at;
                        checksums.bad += u64::from(p.checksum == Checksum::Bad);
                        recorder.sent(p.flow, p.id, at, p.len as usize, p.checksum);
                    }
                    None => recorder.refused(p.flow, p.id),
                }
            })?;
            self.pending.clear();
            self.flow = (self.flow + 1) % self.flows();
        }
        Ok(())
    }

    /// Receives what is there, at most about `most`; `each` sees every datagram and what it turned out to be.
    pub(crate) fn receive(
        &mut self,
        most: usize,
        wall: Wall,
        each: &mut dyn FnMut(&Incoming<'_>, SocketAddr, Nanos, AnswerKind),
    ) -> io::Result<usize> {
        let (recorder, targets) = (&mut self.recorder, &self.targets);
        self.transport.receive(most, &mut |m| {
            let target = targets[m.flow as usize];
            let at = match m.stamp {
                Stamp::Wall(at) => wall.to_monotonic(at),
                Stamp::Monotonic(at) => at,
            };
            let verdict = recorder.received(Received {
                flow: m.flow,
                from_target: m.from.ip() == target.ip() && m.from.port() == target.port(),
                bytes: m.bytes,
                len: m.len,
                at,
            });
            each(m, target, at, verdict);
        })
    }

    /// Notes queries that were due but not sent.
    pub(crate) fn unsent(&mut self, why: Unsent, class: Class) {
        self.recorder.unsent(why, 1, class);
    }
}
