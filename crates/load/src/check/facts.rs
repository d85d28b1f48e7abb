//! Facts of the zone file about the names in the sampled answers: one pass, whatever the order of its
//! records; memory goes with the sample, not with the zone.

use super::message::{Answer, Kind, Set, add, find};
use std::collections::HashMap;
use std::path::Path;
use wire::name;
use wire::rtype;
use zone::{Error, Scanner};

/// The facts about one name.
#[derive(Debug, Default)]
pub(super) struct Node {
    /// Its records, owners left empty.
    sets: Vec<Set>,
    /// There are records below it.
    below: bool,
}

/// The facts that the sampled answers are checked against.
#[derive(Debug)]
pub(super) struct Facts {
    /// Small letters.
    pub apex: Vec<u8>,
    pub class: u16,
    pub serial: u32,
    /// By name in small letters.
    names: HashMap<Box<[u8]>, Node>,
}

impl Facts {
    /// Reads what the zone file says about the names in these answers.
    pub fn read<'a>(path: &Path, answers: impl Iterator<Item = &'a Answer>) -> Result<Self, Error> {
        let mut scanner = Scanner::open(path)?;
        let Some(soa) = scanner.next()? else {
            return Err(Error::Unable(format!("{}: no record", path.display())));
        };
        let (class, serial) = (soa.class, serial(soa.rdata));
        let mut facts = Self { apex: soa.owner.to_ascii_lowercase(), class, serial, names: HashMap::new() };
        let apex = facts.apex.clone();
        facts.want(&apex);
        answers.for_each(|answer| facts.want_all(answer));
        facts.take(&apex, soa.rtype, soa.ttl, soa.rdata);
        let (mut owner, mut at) = (Vec::new(), Vec::new());
        while let Some(record) = scanner.next()? {
            if record.owner != owner {
                owner.clear();
                owner.extend_from_slice(record.owner);
                at.clear();
                at.extend_from_slice(record.owner);
                name::lowercase(&mut at);
                facts.mark_above(&at);
            }
            facts.take(&at, record.rtype, record.ttl, record.rdata);
        }
        Ok(facts)
    }

    fn want(&mut self, name: &[u8]) {
        if name::is_under(name, &self.apex) && !self.names.contains_key(name) {
            self.names.insert(name.into(), Node::default());
        }
    }

    /// The name, those above it, and the wildcards beside them.
    fn want_with_those_above(&mut self, name: &[u8]) {
        if !name::is_under(name, &self.apex) {
            return;
        }
        let mut name = name;
        self.want(name);
        while name.len() > self.apex.len() {
            name = name::parent(name);
            self.want(name);
            self.want(&wildcard(name));
        }
    }

    fn want_all(&mut self, answer: &Answer) {
        self.want_with_those_above(&answer.qname);
        for set in answer.sets() {
            self.want(&set.owner);
            for rdata in &set.rdatas {
                match set.kind.rtype {
                    rtype::CNAME => self.want_with_those_above(rdata),
                    rtype::NS => self.want(rdata),
                    _ => {}
                }
            }
        }
    }

    fn mark_above(&mut self, owner: &[u8]) {
        let mut up = owner;
        while up.len() > self.apex.len() {
            up = name::parent(up);
            if let Some(node) = self.names.get_mut(up) {
                node.below = true;
            }
        }
    }

    fn take(&mut self, owner: &[u8], rtype: u16, ttl: u32, rdata: &[u8]) {
        if let Some(node) = self.names.get_mut(owner) {
            add(&mut node.sets, Vec::new(), rtype, ttl, rdata);
        }
    }

    /// The facts about a name (small letters); `None` where no sampled answer is about it.
    pub fn node(&self, name: &[u8]) -> Option<&Node> {
        self.names.get(name)
    }

    /// A name's RRset; `None` where the zone has none, or nobody asked for the name.
    pub fn set(&self, name: &[u8], kind: Kind) -> Option<&Set> {
        self.node(name)?.set(kind)
    }

    /// True where the apex has signatures of its SOA and of what denies existence. Zones from which signatures were
    /// taken away, all but a few, count as unsigned: servers differ in what they make of them.
    pub fn is_signed(&self) -> bool {
        let signed = |rtype| self.set(&self.apex, Kind::rrsig(rtype)).is_some();
        signed(rtype::SOA) && (signed(rtype::NSEC) || signed(rtype::NSEC3PARAM))
    }

    /// The DNSKEY data of the apex.
    pub fn keys(&self) -> Vec<&[u8]> {
        let set = self.set(&self.apex, Kind::plain(rtype::DNSKEY));
        set.map_or(Vec::new(), |set| set.rdatas.iter().map(|r| &r[..]).collect())
    }
}

impl Node {
    pub fn set(&self, kind: Kind) -> Option<&Set> {
        find(&self.sets, &[], kind)
    }

    pub fn has(&self, rtype: u16) -> bool {
        self.set(Kind::plain(rtype)).is_some()
    }

    /// True where the name exists: with records of its own, or below it (an empty non-terminal, RFC 4592 section
    /// 2.2.2). Owners of NSEC3 records do not exist by them (RFC 5155 section 7.2.8).
    pub fn exists(&self) -> bool {
        let counts = |set: &Set| !matches!(set.kind.rtype, rtype::NSEC3 | rtype::RRSIG);
        self.below || self.sets.iter().any(counts)
    }
}

/// The wildcard below a name.
pub(super) fn wildcard(name: &[u8]) -> Vec<u8> {
    [b"\x01*", name].concat()
}

/// The serial in SOA data; zero where they are cut.
pub(super) fn serial(rdata: &[u8]) -> u32 {
    rdata.last_chunk::<20>().map_or(0, |n| u32::from_be_bytes([n[0], n[1], n[2], n[3]]))
}
