//! Owners with their RRsets, as the walk hands them to the workers: one flat buffer.

use std::ops::Range;
use wire::name;

/// The treatment of an owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Kind {
    /// Authoritative data: all is signed, and the owner is in the chain.
    Data,
    /// A delegation: only DS is signed, and the owner is in the chain.
    Cut,
    /// An unsigned delegation that the chain passes over (RFC 5155 section 6).
    OptedOut,
    /// Glue or occluded data: nothing is signed.
    Below,
    /// No records, but records below it (RFC 5155 section 7.1, step 2).
    EmptyNonTerminal,
    /// A record that the signer made: signed, and not in the chain.
    Made,
}

impl Kind {
    const ALL: [Self; 6] =
        [Self::Data, Self::Cut, Self::OptedOut, Self::Below, Self::EmptyNonTerminal, Self::Made];
}

/// Octets of a set's TTL, type, and number of octets that follow.
const HEAD: usize = 10;

/// Nodes in a row; the last may be open.
#[derive(Default)]
pub(super) struct Nodes {
    flat: Vec<u8>,
    /// Start of the open node, and where its number of sets stands.
    open: usize,
    count_at: usize,
    sets: u32,
    /// TTL and type of the last set, and where its number of octets stands.
    set: (u32, u16),
    set_at: usize,
}

impl Nodes {
    pub fn len(&self) -> usize {
        self.flat.len()
    }

    /// Begins a node.
    pub fn begin(&mut self, owner: &[u8]) {
        self.open = self.flat.len();
        self.flat.push(0);
        self.flat.extend_from_slice(owner);
        self.count_at = self.flat.len();
        self.sets = 0;
        self.flat.extend_from_slice(&[0; 4]);
    }

    /// Adds a record to the open node. Records of one type that do not follow each other are an RRset in pieces.
    pub fn record(&mut self, ttl: u32, rtype: u16, rdata: &[u8]) {
        if self.set == (ttl, rtype) && self.sets > 0 {
            let octets = self.number_at(self.set_at) + 2 + rdata.len() as u32;
            self.put_number(self.set_at, octets);
        } else {
            self.sets += 1;
            self.set = (ttl, rtype);
            let [a, b, c, d] = ttl.to_be_bytes();
            let [e, f] = rtype.to_be_bytes();
            let [g, h, i, j] = (2 + rdata.len() as u32).to_be_bytes();
            self.set_at = self.flat.len() + 6;
            self.flat.extend_from_slice(&[a, b, c, d, e, f, g, h, i, j]);
        }
        self.flat.extend_from_slice(&(rdata.len() as u16).to_be_bytes());
        self.flat.extend_from_slice(rdata);
    }

    fn number_at(&self, at: usize) -> u32 {
        self.flat[at..at + 4].iter().fold(0, |n, &b| n << 8 | u32::from(b))
    }

    fn put_number(&mut self, at: usize, n: u32) {
        self.flat[at..at + 4].copy_from_slice(&n.to_be_bytes());
    }

    /// Ends the open node; `next` is the next owner of the chain, nothing where that does not matter.
    pub fn end(&mut self, kind: Kind, next: &[u8]) {
        self.flat[self.open] = kind as u8;
        self.put_number(self.count_at, self.sets);
        self.flat.push(next.len() as u8);
        self.flat.extend_from_slice(next);
    }

    /// Appends nodes, none of them open.
    pub fn append(&mut self, nodes: &[u8]) {
        self.flat.extend_from_slice(nodes);
    }

    /// All nodes, none of them open.
    pub fn take(&mut self) -> Vec<u8> {
        // The next ones will be about as much.
        let next = Vec::with_capacity(self.flat.len());
        std::mem::replace(&mut self.flat, next)
    }

    pub fn as_slice(&self) -> &[u8] {
        &self.flat
    }

    pub fn clear(&mut self) {
        self.flat.clear();
    }
}

/// An RRset of a [`View`].
#[derive(Clone)]
pub(super) struct Set {
    pub ttl: u32,
    pub rtype: u16,
    /// Where its records stand in [`View::rdatas`].
    pub records: Range<usize>,
}

/// A node in a flat buffer.
pub(super) struct View<'a> {
    pub kind: Kind,
    pub owner: &'a [u8],
    /// The next owner of the chain, or nothing.
    pub next: &'a [u8],
    /// By type, each type once.
    pub sets: Vec<Set>,
    pub rdatas: Vec<&'a [u8]>,
}

impl<'a> View<'a> {
    pub fn new() -> Self {
        Self { kind: Kind::Data, owner: &[], next: &[], sets: Vec::new(), rdatas: Vec::new() }
    }

    /// Takes the next node off a flat buffer; `None` at its end.
    pub fn read(&mut self, flat: &mut &'a [u8]) -> Option<()> {
        let (&kind, rest) = flat.split_first()?;
        self.kind = *Kind::ALL.get(usize::from(kind))?;
        let (owner, rest) = rest.split_at(name::wire_len(rest)?);
        self.owner = owner;
        let (count, mut rest) = rest.split_first_chunk::<4>()?;
        self.sets.clear();
        self.rdatas.clear();
        let mut ordered = true;
        for _ in 0..u32::from_be_bytes(*count) {
            let (head, data) = rest.split_first_chunk::<HEAD>()?;
            let word = |at: usize| u32::from_be_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
            let (mut data, tail) = data.split_at_checked(word(6) as usize)?;
            let start = self.rdatas.len();
            while let Some((len, more)) = data.split_first_chunk::<2>() {
                let (rdata, more) = more.split_at_checked(usize::from(u16::from_be_bytes(*len)))?;
                self.rdatas.push(rdata);
                data = more;
            }
            let rtype = u16::from_be_bytes([head[4], head[5]]);
            ordered = ordered && self.sets.last().is_none_or(|last| last.rtype < rtype);
            self.sets.push(Set { ttl: word(0), rtype, records: start..self.rdatas.len() });
            rest = tail;
        }
        let (&next, rest) = rest.split_first()?;
        (self.next, *flat) = rest.split_at_checked(usize::from(next))?;
        if !ordered {
            self.join();
        }
        Some(())
    }

    /// Puts the sets in order of type, and pieces of one RRset together; the lowest TTL is the set's
    /// (RFC 2181 section 5.2).
    fn join(&mut self) {
        self.sets.sort_by_key(|set| set.rtype);
        let (mut sets, mut rdatas): (Vec<Set>, Vec<&'a [u8]>) = (Vec::new(), Vec::new());
        for set in &self.sets {
            let start = rdatas.len();
            rdatas.extend_from_slice(&self.rdatas[set.records.clone()]);
            match sets.last_mut().filter(|last| last.rtype == set.rtype) {
                Some(last) => {
                    last.ttl = last.ttl.min(set.ttl);
                    last.records.end = rdatas.len();
                }
                None => sets.push(Set { records: start..rdatas.len(), ..set.clone() }),
            }
        }
        (self.sets, self.rdatas) = (sets, rdatas);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_of_an_rrset_are_joined() {
        let mut nodes = Nodes::default();
        nodes.begin(b"\x01a\0");
        for (ttl, rtype, data) in [(9, 28, "six"), (5, 1, "one"), (7, 28, "seven"), (4, 28, "eight")] {
            nodes.record(ttl, rtype, data.as_bytes());
        }
        nodes.end(Kind::Cut, b"\x01b\0");
        nodes.begin(b"\0");
        nodes.end(Kind::Below, b"");
        let flat = nodes.take();
        let (mut rest, mut view) = (&flat[..], View::new());
        view.read(&mut rest).unwrap();
        let sets: Vec<_> =
            view.sets.iter().map(|s| (s.ttl, s.rtype, view.rdatas[s.records.clone()].concat())).collect();
        assert_eq!(sets, [(5, 1, b"one".to_vec()), (4, 28, b"sixseveneight".to_vec())]);
        assert_eq!((view.kind, view.owner, view.next), (Kind::Cut, &b"\x01a\0"[..], &b"\x01b\0"[..]));
        view.read(&mut rest).unwrap();
        assert!(view.kind == Kind::Below && view.sets.is_empty() && view.next.is_empty());
        assert!(view.read(&mut rest).is_none());
    }
}
