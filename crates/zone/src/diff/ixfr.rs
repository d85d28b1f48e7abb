//! The size of an incremental transfer (RFC 1995), without making it.
//!
//! The records are settled by the two versions, and any server sends the same; the messages are not. Here they are filled
//! and compressed as far as they can be, records in canonical order: servers send more octets (BIND 9.18 28 % more for a large change).

use super::node::Rr;
use serde::Serialize;
use std::collections::HashSet;
use wire::name;
use wire::rtype;

/// Messages are filled up to here: what a compression pointer reaches (RFC 1035 section 4.1.4).
const MESSAGE: u64 = 1 << 14;
const HEADER: u64 = 12;
/// The length before each message on TCP.
const LENGTH: u64 = 2;

/// The records of an IXFR.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Ixfr {
    /// Records, the four SOA of the sequence among them.
    pub records: u64,
    /// Octets of all these records without compression.
    pub octets: u64,
    /// Messages on TCP, filled up to 16,384 octets.
    pub messages: u64,
    /// Their octets, names compressed, headers, question and the two octets of length before each included.
    pub message_octets: u64,
}

/// A transfer being measured. What is deleted comes before what is added, but both are found side by side: additions
/// wait, up to the size of a message; what comes after them is put in messages of its own.
pub(super) struct Transfer {
    /// Deletions, and what waited.
    first: Messages,
    waiting: Vec<(Vec<u8>, u16, u32, Vec<u8>)>,
    waiting_octets: u64,
    rest: Messages,
}

impl Transfer {
    /// Begins with the SOA of both versions.
    pub fn new(apex: &[u8], old: &Rr<'_>, new: &Rr<'_>) -> Self {
        let (first, rest) = Default::default();
        let mut transfer = Self { first, waiting: Vec::new(), waiting_octets: 0, rest };
        transfer.first.question(apex);
        transfer.first.put(apex, new);
        transfer.first.put(apex, old);
        transfer.add(apex, new);
        transfer
    }

    /// A record that is deleted.
    pub fn delete(&mut self, owner: &[u8], rr: &Rr<'_>) {
        self.first.put(owner, rr);
    }

    /// A record that is added.
    pub fn add(&mut self, owner: &[u8], rr: &Rr<'_>) {
        self.waiting_octets += (owner.len() + 10 + rr.rdata.len()) as u64;
        if self.waiting_octets <= MESSAGE {
            self.waiting.push((owner.to_vec(), rr.rtype, rr.ttl, rr.rdata.to_vec()));
        } else {
            self.rest.put(owner, rr);
        }
    }

    /// Ends with the new version's SOA.
    pub fn finish(mut self, apex: &[u8], new: &Rr<'_>) -> Ixfr {
        self.add(apex, new);
        for (owner, rtype, ttl, rdata) in &self.waiting {
            self.first.put(owner, &Rr { rtype: *rtype, ttl: *ttl, rdata });
        }
        let (a, b) = (self.first.so_far, self.rest.so_far);
        Ixfr {
            records: a.records + b.records,
            octets: a.octets + b.octets,
            messages: a.messages + b.messages,
            message_octets: a.message_octets + b.message_octets,
        }
    }
}

/// Messages being filled.
#[derive(Default)]
struct Messages {
    so_far: Ixfr,
    /// Octets of the message that is being filled; zero before the first.
    filled: u64,
    /// Names and ends of names in it, as small letters.
    known: HashSet<Vec<u8>>,
    /// The names of the record that is being put.
    fresh: Vec<Vec<u8>>,
}

impl Messages {
    fn open(&mut self) {
        self.known.clear();
        self.filled = HEADER;
        self.so_far.messages += 1;
        self.so_far.message_octets += LENGTH + HEADER;
    }

    fn question(&mut self, apex: &[u8]) {
        self.open();
        let octets = self.name(apex) + 4;
        self.keep(octets);
    }

    fn put(&mut self, owner: &[u8], rr: &Rr<'_>) {
        self.so_far.records += 1;
        self.so_far.octets += (owner.len() + 10 + rr.rdata.len()) as u64;
        if self.filled == 0 {
            self.open();
        }
        let mut octets = self.record(owner, rr);
        if self.filled + octets > MESSAGE && self.filled > HEADER {
            self.open();
            octets = self.record(owner, rr);
        }
        self.keep(octets);
    }

    fn keep(&mut self, octets: u64) {
        self.filled += octets;
        self.so_far.message_octets += octets;
        self.known.extend(self.fresh.drain(..));
    }

    /// Octets of a record in the message as it is.
    fn record(&mut self, owner: &[u8], rr: &Rr<'_>) -> u64 {
        self.fresh.clear();
        self.name(owner) + 10 + self.data(rr)
    }

    /// Octets of record data: names of the types of RFC 1035 are compressed, no others (RFC 3597 section 4).
    fn data(&mut self, rr: &Rr<'_>) -> u64 {
        let (skip, names) = match rr.rtype {
            rtype::NS | rtype::CNAME | rtype::PTR => (0, 1),
            rtype::SOA => (0, 2),
            rtype::MX => (2, 1),
            _ => (0, 0),
        };
        let mut rest = rr.rdata.get(skip..).unwrap_or_default();
        let mut octets = (rr.rdata.len() - rest.len()) as u64;
        for _ in 0..names {
            let Some(len) = name::wire_len(rest) else { break };
            octets += self.name(&rest[..len]);
            rest = &rest[len..];
        }
        octets + rest.len() as u64
    }

    /// Octets of a name: the longest end of it that is known is a pointer.
    fn name(&mut self, wire: &[u8]) -> u64 {
        let small = wire.to_ascii_lowercase();
        let (mut rest, mut octets) = (&small[..], 0);
        while rest.len() > 1 {
            if self.known.contains(rest) || self.fresh.iter().any(|known| known == rest) {
                return octets + 2;
            }
            self.fresh.push(rest.to_vec());
            octets += 1 + u64::from(rest[0]);
            rest = name::parent(rest);
        }
        octets + 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_compressed_as_in_a_message() {
        let soa = [&b"\x01a\x07example\0\x01b\x07EXAMPLE\0"[..], &[0; 20]].concat();
        let soa = Rr { rtype: rtype::SOA, ttl: 1, rdata: &soa };
        let transfer = Transfer::new(b"\x07example\0", &soa, &soa);
        let ixfr = transfer.finish(b"\x07example\0", &soa);
        // Length, header, question; each SOA; "a" and "b" are written out once.
        assert_eq!((ixfr.records, ixfr.messages, ixfr.message_octets), (4, 1, 2 + 12 + 13 + 4 * 36 + 4));
        assert_eq!(ixfr.octets, 4 * (9 + 10 + 11 + 11 + 20));
    }

    #[test]
    fn full_messages_are_followed_by_others() {
        let soa = [0; 22];
        let soa = Rr { rtype: rtype::SOA, ttl: 1, rdata: &soa };
        let mut transfer = Transfer::new(b"\0", &soa, &soa);
        let big = Rr { rtype: rtype::TXT, ttl: 1, rdata: &[0; 10_000] };
        (0..3).for_each(|_| transfer.add(b"\0", &big));
        let ixfr = transfer.finish(b"\0", &soa);
        assert_eq!((ixfr.messages, ixfr.message_octets), (3, 3 * 14 + 5 + 4 * 33 + 3 * 10_011));
        // Longer than a whole message: it goes alone.
        let huge = Rr { rtype: rtype::TXT, ttl: 1, rdata: &[0; 60_000] };
        let mut transfer = Transfer::new(b"\0", &soa, &soa);
        (0..2).for_each(|_| transfer.delete(b"\0", &huge));
        assert_eq!(transfer.finish(b"\0", &soa).messages, 1 + 2 + 1);
    }
}
