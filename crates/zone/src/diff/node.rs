//! A zone as a stream of owners with all their records.

use crate::error::Error;
use crate::order::{self, Order};
use crate::scan::Record;
use crate::sign::canonical_rdata;
use crate::source::RecordSource;
use std::cmp::Ordering;
use std::path::Path;
use wire::rtype;

/// An owner and its records, in the order of the file.
#[derive(Default)]
pub(super) struct Node {
    pub owner: Vec<u8>,
    /// Class, type, TTL, length and data of each record.
    flat: Vec<u8>,
}

/// A record of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Rr<'a> {
    pub rtype: u16,
    pub ttl: u32,
    pub rdata: &'a [u8],
}

impl Node {
    fn begin(&mut self, record: &Record<'_>) {
        self.owner.clear();
        self.owner.extend_from_slice(record.owner);
        self.flat.clear();
        self.push(record);
    }

    fn push(&mut self, record: &Record<'_>) {
        self.flat.extend_from_slice(&record.rtype.to_be_bytes());
        self.flat.extend_from_slice(&record.ttl.to_be_bytes());
        self.flat.extend_from_slice(&(record.rdata.len() as u16).to_be_bytes());
        self.flat.extend_from_slice(record.rdata);
    }

    /// The records, in the order of the file.
    pub fn records(&self) -> impl Iterator<Item = Rr<'_>> {
        let mut rest = &self.flat[..];
        std::iter::from_fn(move || {
            let (&[a, b, c, d, e, f, g, h], tail) = rest.split_first_chunk::<8>()?;
            let (rdata, tail) = tail.split_at_checked(usize::from(u16::from_be_bytes([g, h])))?;
            rest = tail;
            Some(Rr { rtype: u16::from_be_bytes([a, b]), ttl: u32::from_be_bytes([c, d, e, f]), rdata })
        })
    }

    /// True where it has a record of a type.
    pub fn has(&self, rtype: u16) -> bool {
        self.records().any(|rr| rr.rtype == rtype)
    }

    /// True where both have the same records in the same order: most have.
    pub fn is_same(&self, other: &Self) -> bool {
        self.flat == other.flat
    }
}

/// The records of a node as a set: names in the data as small letters, in order, each once.
#[derive(Default)]
pub(super) struct Canonical {
    data: Vec<u8>,
    /// Type, TTL, and where the canonical data are; the number of the record in the node.
    order: Vec<(u16, u32, std::ops::Range<usize>, usize)>,
}

impl Canonical {
    fn of(&mut self, node: Option<&Node>) {
        self.data.clear();
        self.order.clear();
        for (i, rr) in node.into_iter().flat_map(Node::records).enumerate() {
            let start = self.data.len();
            canonical_rdata(rr.rtype, rr.rdata, &mut self.data);
            self.order.push((rr.rtype, rr.ttl, start..self.data.len(), i));
        }
        let data = &self.data;
        self.order.sort_by(|a, b| compare((a, data), (b, data)).then(a.3.cmp(&b.3)));
        self.order.dedup_by(|a, b| compare((a, data), (b, data)).is_eq());
    }
}

type Entry = (u16, u32, std::ops::Range<usize>, usize);

fn compare((a, a_data): (&Entry, &[u8]), (b, b_data): (&Entry, &[u8])) -> Ordering {
    (a.0, &a_data[a.2.clone()], a.1).cmp(&(b.0, &b_data[b.2.clone()], b.1))
}

/// Finds what one node has and the other has not.
#[derive(Default)]
pub(super) struct Differ {
    old: Canonical,
    new: Canonical,
    /// Numbers of records of the old node that the new one does not have, and the other way round.
    pub deleted: Vec<usize>,
    pub added: Vec<usize>,
}

impl Differ {
    /// Compares; either node may be missing.
    pub fn compare(&mut self, old: Option<&Node>, new: Option<&Node>) {
        self.deleted.clear();
        self.added.clear();
        if let (Some(old), Some(new)) = (old, new)
            && old.is_same(new)
        {
            return;
        }
        self.old.of(old);
        self.new.of(new);
        let (mut a, mut b) = (self.old.order.iter().peekable(), self.new.order.iter().peekable());
        loop {
            let order = match (a.peek(), b.peek()) {
                (Some(x), Some(y)) => compare((x, &self.old.data), (y, &self.new.data)),
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (None, None) => return,
            };
            if order.is_le()
                && let Some(x) = a.next().filter(|_| order.is_lt())
            {
                self.deleted.push(x.3);
            }
            if order.is_ge()
                && let Some(y) = b.next().filter(|_| order.is_gt())
            {
                self.added.push(y.3);
            }
        }
    }
}

/// Reads nodes in canonical order.
pub(super) struct Nodes {
    source: Box<dyn RecordSource + Send>,
    order: Order,
    node: Node,
    ahead: Node,
    started: bool,
    /// Records so far, and their octets in uncompressed wire format.
    pub records: u64,
    pub wire_bytes: u64,
}

impl Nodes {
    /// Opens a zone file; sorts it first where `sort` says so.
    pub fn open(path: &Path, sort: bool) -> Result<Self, Error> {
        let source = order::open(path, sort)?;
        let order = Order::of(&*source);
        let (node, ahead) = Default::default();
        Ok(Self { source, order, node, ahead, started: false, records: 0, wire_bytes: 0 })
    }

    /// Goes to the next node, the apex first; false at the end.
    pub fn advance(&mut self) -> Result<bool, Error> {
        std::mem::swap(&mut self.node, &mut self.ahead);
        self.ahead.owner.clear();
        while let Some(record) = self.source.next()? {
            self.records += 1;
            self.wire_bytes += (record.owner.len() + 10 + record.rdata.len()) as u64;
            let new = self.order.is_new(&record)?;
            if !self.started {
                self.started = true;
                self.node.begin(&record);
            } else if new {
                self.ahead.begin(&record);
                break;
            } else {
                self.node.push(&record);
            }
        }
        Ok(!self.node.owner.is_empty())
    }

    /// The node; empty at the end.
    pub fn node(&self) -> &Node {
        &self.node
    }

    /// Octets read so far.
    pub fn octets(&self) -> u64 {
        self.source.octets()
    }

    /// The zone's name in messages.
    pub fn file(&self) -> &str {
        self.source.file()
    }
}

/// The data of the SOA of an apex.
pub(super) fn soa(apex: &Node) -> Option<Rr<'_>> {
    apex.records().find(|rr| rr.rtype == rtype::SOA)
}
