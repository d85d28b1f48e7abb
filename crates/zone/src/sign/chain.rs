//! From a stream of RRsets to batches for the workers: what is authoritative, what lies below a
//! delegation, and the NSEC chain through the former.

use super::set::{Set, Signer, encode_unsigned};
use crate::codec;
use crate::error::Error;
use crate::ordered::Feed;
use crate::probe::strictly_under;
use crate::rrset::{Rrset, RrsetSource};
use std::fs::File;
use std::io::{BufReader, Read, Seek, SeekFrom, Write};
use wire::name::{self, Name};
use wire::rtype;

/// Work for one worker at a time.
#[derive(Default)]
pub(super) struct Batch {
    /// RRsets, see [`super::set`].
    pub flat: Vec<u8>,
    signatures: usize,
    /// Octets of the source read so far.
    pub octets: u64,
}

/// A batch is handed on when it has so many octets or signatures.
const BATCH_OCTETS: usize = 64 << 10;
const BATCH_SIGNATURES: usize = 64;
/// What lies below a delegation waits for the next name of the chain: so much of it in memory.
const WAITING_OCTETS: usize = 8 << 20;

/// Counts of the walk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Walked {
    pub delegations: u64,
    pub dropped: u64,
}

/// Records that are made anew and never taken from the input.
pub(crate) fn is_dropped(rtype: u16) -> bool {
    matches!(
        rtype,
        rtype::RRSIG | rtype::NSEC | rtype::NSEC3 | rtype::NSEC3PARAM | rtype::DNSKEY | rtype::ZONEMD
    )
}

/// An owner of authoritative data or a delegation, whose NSEC waits for the next one.
#[derive(Default)]
struct Node {
    owner: Vec<u8>,
    sets: Vec<Set>,
    is_cut: bool,
}

pub(super) struct Walk<'f> {
    apex: Vec<u8>,
    nsec_ttl: u32,
    dnskeys: Set,
    feed: &'f mut Feed<Batch>,
    batch: Batch,
    node: Node,
    /// The name below which nothing is authoritative: a delegation's or a DNAME's.
    hidden: Vec<u8>,
    below: Below,
    pub walked: Walked,
}

/// What is below the current delegation, in memory up to a bound and in a temporary file beyond.
#[derive(Default)]
struct Below {
    flat: Vec<u8>,
    spool: Option<File>,
}

/// The workers are gone: the consumer has met an error, which counts.
pub(super) struct Closed;

/// Why a walk ended early.
pub(super) enum Stop {
    Closed(Closed),
    Failed(Error),
}

impl From<Error> for Stop {
    fn from(e: Error) -> Self {
        Self::Failed(e)
    }
}

impl From<Closed> for Stop {
    fn from(c: Closed) -> Self {
        Self::Closed(c)
    }
}

impl<'f> Walk<'f> {
    /// Starts at the SOA.
    pub fn new(soa_owner: &[u8], soa: Set, dnskeys: Set, feed: &'f mut Feed<Batch>) -> Self {
        // The NSEC TTL is the lesser of SOA's TTL and minimum (RFC 9077).
        let minimum = soa.rdatas[0].last_chunk::<4>().map_or(soa.ttl, |m| u32::from_be_bytes(*m));
        Self {
            apex: soa_owner.to_vec(),
            nsec_ttl: soa.ttl.min(minimum),
            dnskeys,
            feed,
            batch: Batch::default(),
            node: Node { owner: soa_owner.to_vec(), sets: vec![soa], is_cut: false },
            hidden: Vec::new(),
            below: Below::default(),
            walked: Walked::default(),
        }
    }

    /// Takes all that follows the SOA.
    pub fn run(&mut self, source: &mut impl RrsetSource) -> Result<(), Stop> {
        let mut last = self.apex.clone();
        loop {
            self.batch.octets = source.octets();
            let Some(set) = source.next()? else { break };
            if is_dropped(set.rtype) {
                self.walked.dropped += set.rdatas().len() as u64;
                continue;
            }
            if !name::equal(set.owner, &last) {
                if name::canonical_cmp(&last, set.owner).is_gt() {
                    let [name, after] = [set.owner, &last]
                        .map(|n| Name::from_wire(n).map_or_else(|e| e.to_string(), |n| n.to_string()));
                    let line = set.line;
                    return Err(Error::Unsorted { file: source.file().to_owned(), line, name, after }.into());
                }
                last.clear();
                last.extend_from_slice(set.owner);
            }
            self.take(&set)?;
        }
        self.batch.octets = source.octets();
        let apex = self.apex.clone();
        self.close_node(&apex)?;
        self.push()?;
        Ok(())
    }

    fn take(&mut self, set: &Rrset<'_>) -> Result<(), Stop> {
        if !self.hidden.is_empty() && strictly_under(set.owner, &self.hidden) {
            encode_unsigned(set, &mut self.below.flat);
            if self.below.flat.len() > WAITING_OCTETS {
                self.below.spill().map_err(|source| Error::Spool { source })?;
            }
            return Ok(());
        }
        if !name::equal(set.owner, &self.node.owner) {
            self.close_node(set.owner)?;
            self.node = Node { owner: set.owner.to_vec(), ..Node::default() };
        }
        let at_apex = self.node.owner.len() == self.apex.len();
        let starts_cut = set.rtype == rtype::NS && !at_apex;
        if starts_cut && !self.node.is_cut {
            self.node.is_cut = true;
            self.walked.delegations += 1;
        }
        if starts_cut || set.rtype == rtype::DNAME {
            self.hidden.clone_from(&self.node.owner);
        }
        match self.node.sets.iter_mut().find(|s| s.rtype == set.rtype) {
            // Pieces of one RRset that did not follow each other.
            Some(same) => {
                same.ttl = same.ttl.min(set.ttl);
                same.rdatas.extend(set.rdatas().map(<[u8]>::to_vec));
            }
            None => self.node.sets.push(Set::of(set)),
        }
        Ok(())
    }

    /// Hands on the node that waited, now that the next name is known, and what lies below it.
    fn close_node(&mut self, next: &[u8]) -> Result<(), Stop> {
        let mut node = std::mem::take(&mut self.node);
        if node.owner.len() == self.apex.len() {
            node.sets.push(self.dnskeys.clone());
        }
        let mut types = vec![rtype::RRSIG, rtype::NSEC];
        for set in &node.sets {
            // At a delegation only these two are of this zone; addresses there are glue.
            let signer = match set.rtype {
                rtype::DNSKEY => Signer::KeySigningKey,
                rtype::DS => Signer::ZoneKey,
                _ if node.is_cut => Signer::Nobody,
                _ => Signer::ZoneKey,
            };
            if signer != Signer::Nobody || set.rtype == rtype::NS {
                types.push(set.rtype);
            }
            set.encode(&node.owner, signer, &mut self.batch.flat);
            self.batch.signatures += usize::from(signer != Signer::Nobody);
        }
        types.sort_unstable();
        let mut rdata = next.to_vec();
        codec::write_bitmap(&types, &mut rdata);
        let class = self.dnskeys.class;
        let nsec = Set { ttl: self.nsec_ttl, class, rtype: rtype::NSEC, rdatas: vec![rdata] };
        nsec.encode(&node.owner, Signer::ZoneKey, &mut self.batch.flat);
        self.batch.signatures += 1;
        self.close_below()?;
        if self.batch.flat.len() > BATCH_OCTETS || self.batch.signatures >= BATCH_SIGNATURES {
            self.push()?;
        }
        Ok(())
    }

    fn close_below(&mut self) -> Result<(), Stop> {
        if let Some(mut spool) = self.below.spool.take() {
            let failed = |source| Error::Spool { source };
            spool.seek(SeekFrom::Start(0)).map_err(failed)?;
            let mut spool = BufReader::with_capacity(1 << 20, spool);
            let mut len = [0; 4];
            while spool.read_exact(&mut len).is_ok() {
                self.push()?;
                self.batch.flat.resize(u32::from_be_bytes(len) as usize, 0);
                spool.read_exact(&mut self.batch.flat).map_err(failed)?;
            }
            self.push()?;
        }
        self.batch.flat.append(&mut self.below.flat);
        Ok(())
    }

    fn push(&mut self) -> Result<(), Closed> {
        let octets = self.batch.octets;
        if self.batch.flat.is_empty() {
            return Ok(());
        }
        let batch = std::mem::replace(&mut self.batch, Batch { octets, ..Batch::default() });
        if self.feed.push(batch) { Ok(()) } else { Err(Closed) }
    }
}

impl Below {
    /// Moves what waits to the temporary file, its length first.
    fn spill(&mut self) -> std::io::Result<()> {
        let spool = match &mut self.spool {
            Some(spool) => spool,
            none => none.insert(tempfile::tempfile()?),
        };
        spool.write_all(&(self.flat.len() as u32).to_be_bytes())?;
        spool.write_all(&self.flat)?;
        self.flat.clear();
        Ok(())
    }
}
