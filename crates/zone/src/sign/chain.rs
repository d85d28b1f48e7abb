//! From a stream of records to batches for the workers: what is authoritative, what lies below a
//! delegation, and the chain of names through the former.

use super::Zone;
use super::node::{Kind, Nodes};
use crate::error::Error;
use crate::ordered::Feed;
use crate::probe::strictly_under;
use crate::scan::Record;
use crate::source::RecordSource;
use std::fs::File;
use std::io::{BufReader, Read, Seek, SeekFrom, Write};
use wire::name::{self, Name};
use wire::rtype;

/// Work for one worker at a time.
#[derive(Default)]
pub(super) struct Batch {
    /// See [`Nodes`].
    pub flat: Vec<u8>,
    /// Octets of the source read so far.
    pub octets: u64,
}

/// A batch is handed on when it has so many octets or signatures.
pub(super) const BATCH_OCTETS: usize = 96 << 10;
pub(super) const BATCH_SIGNATURES: usize = 256;
/// Records below a delegation wait for the next name of an NSEC chain: so many batches in memory.
const WAITING: usize = 128;

/// Counts of the walk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Walked {
    pub delegations: u64,
    pub dropped: u64,
}

/// Records that signing makes, never taken from the input.
pub(crate) fn is_dropped(rtype: u16) -> bool {
    matches!(
        rtype,
        rtype::RRSIG | rtype::NSEC | rtype::NSEC3 | rtype::NSEC3PARAM | rtype::DNSKEY | rtype::ZONEMD
    )
}

pub(super) struct Walk<'f> {
    zone: &'f Zone,
    feed: &'f mut Feed<Batch>,
    octets: u64,
    /// The last owner, of whatever kind.
    owner: Vec<u8>,
    /// The nodes that are ready for the workers, with the node of the chain that is open.
    nodes: Nodes,
    signatures: usize,
    open: bool,
    open_owner: Vec<u8>,
    types: Vec<u16>,
    is_cut: bool,
    /// The last owner of the chain, for NSEC3's empty non-terminals.
    last: Vec<u8>,
    /// The name below which nothing is authoritative: a delegation's or a DNAME's.
    hidden: Vec<u8>,
    /// The open node, if it is below that name.
    under: bool,
    below: Below,
    pub walked: Walked,
}

/// The records that wait below the current delegation, in memory up to a bound and in a temporary file beyond.
#[derive(Default)]
struct Below {
    nodes: Nodes,
    batches: Vec<Vec<u8>>,
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
    pub fn new(zone: &'f Zone, feed: &'f mut Feed<Batch>) -> Self {
        let mut walk = Self {
            zone,
            feed,
            octets: 0,
            owner: zone.apex.clone(),
            nodes: Nodes::default(),
            signatures: 0,
            open: false,
            open_owner: Vec::new(),
            types: Vec::new(),
            is_cut: false,
            last: zone.apex.clone(),
            hidden: Vec::new(),
            under: false,
            below: Below::default(),
            walked: Walked::default(),
        };
        walk.begin(&zone.apex);
        walk.types.push(rtype::SOA);
        walk.nodes.record(zone.soa_ttl, rtype::SOA, &zone.soa);
        walk
    }

    /// Takes all that follows the SOA.
    pub fn run(&mut self, source: &mut impl RecordSource) -> Result<(), Stop> {
        loop {
            self.octets = source.octets();
            let Some(record) = source.next()? else { break };
            if is_dropped(record.rtype) {
                self.walked.dropped += 1;
                continue;
            }
            if !name::equal(record.owner, &self.owner) {
                if name::canonical_cmp(&self.owner, record.owner).is_gt() {
                    let [name, after] = [record.owner, &self.owner]
                        .map(|n| Name::from_wire(n).map_or_else(|e| e.to_string(), |n| n.to_string()));
                    let line = record.line;
                    return Err(Error::Unsorted { file: source.file().to_owned(), line, name, after }.into());
                }
                self.next_owner(record.owner)?;
            }
            self.take(&record);
        }
        self.octets = source.octets();
        self.end_under()?;
        self.close(&self.zone.apex.clone())?;
        self.push()?;
        Ok(())
    }

    fn begin(&mut self, owner: &[u8]) {
        self.nodes.begin(owner);
        self.open_owner.clear();
        self.open_owner.extend_from_slice(owner);
        self.types.clear();
        (self.open, self.is_cut) = (true, false);
    }

    fn next_owner(&mut self, owner: &[u8]) -> Result<(), Stop> {
        self.end_under()?;
        self.under = !self.hidden.is_empty() && strictly_under(owner, &self.hidden);
        if !self.under {
            self.close(owner)?;
            self.begin(owner);
        } else if self.zone.nsec3.is_some() {
            // The chain does not go by this order: nothing has to wait for the next name.
            self.close(&[])?;
            self.nodes.begin(owner);
        } else {
            self.below.nodes.begin(owner);
        }
        self.owner.clear();
        self.owner.extend_from_slice(owner);
        Ok(())
    }

    fn take(&mut self, record: &Record<'_>) {
        let waits = self.under && self.zone.nsec3.is_none();
        let nodes = if waits { &mut self.below.nodes } else { &mut self.nodes };
        nodes.record(record.ttl, record.rtype, record.rdata);
        if self.under {
            return;
        }
        if !self.types.contains(&record.rtype) {
            self.types.push(record.rtype);
        }
        let starts_cut = record.rtype == rtype::NS && self.open_owner.len() > self.zone.apex.len();
        if starts_cut && !self.is_cut {
            self.is_cut = true;
            self.walked.delegations += 1;
        }
        if starts_cut || record.rtype == rtype::DNAME {
            self.hidden.clone_from(&self.open_owner);
        }
    }

    /// Ends the open node below a delegation, if there is one.
    fn end_under(&mut self) -> Result<(), Stop> {
        if !std::mem::take(&mut self.under) {
            return Ok(());
        }
        if self.zone.nsec3.is_some() {
            self.nodes.end(Kind::Below, &[]);
            return Ok(self.push_full()?);
        }
        self.below.nodes.end(Kind::Below, &[]);
        self.below.keep().map_err(|source| Error::Spool { source }.into())
    }

    /// Ends the node of the chain, now that the next name is known, and hands on what lies below it.
    fn close(&mut self, next: &[u8]) -> Result<(), Stop> {
        if !std::mem::take(&mut self.open) {
            return Ok(());
        }
        if self.open_owner.len() == self.zone.apex.len() {
            for (rtype, ttl, rdatas) in self.zone.at_apex() {
                rdatas.iter().for_each(|rdata| self.nodes.record(ttl, rtype, rdata));
                self.types.push(rtype);
            }
        }
        let secure = self.types.contains(&rtype::DS);
        let opt_out = self.zone.nsec3.as_ref().is_some_and(|n| n.opt_out);
        let kind = match self.is_cut {
            true if opt_out && !secure => Kind::OptedOut,
            true => Kind::Cut,
            false => Kind::Data,
        };
        self.signatures += if self.is_cut { usize::from(secure) } else { self.types.len() };
        if self.zone.nsec3.is_some() {
            self.nodes.end(kind, &[]);
            if kind != Kind::OptedOut {
                self.empty_non_terminals();
            }
        } else {
            self.nodes.end(kind, next);
            self.signatures += 1;
            self.hand_on_below()?;
        }
        Ok(self.push_full()?)
    }

    /// Names above the last node that have no records, and that no node before it had above it.
    fn empty_non_terminals(&mut self) {
        let mut up = name::parent(&self.open_owner);
        while up.len() > self.zone.apex.len() && !name::is_under(&self.last, up) {
            self.nodes.begin(up);
            self.nodes.end(Kind::EmptyNonTerminal, &[]);
            up = name::parent(up);
        }
        std::mem::swap(&mut self.last, &mut self.open_owner);
    }

    fn hand_on_below(&mut self) -> Result<(), Stop> {
        if let Some(mut spool) = self.below.spool.take() {
            let failed = |source| Error::Spool { source };
            spool.seek(SeekFrom::Start(0)).map_err(failed)?;
            let mut spool = BufReader::with_capacity(1 << 20, spool);
            let mut len = [0; 4];
            while spool.read_exact(&mut len).is_ok() {
                let mut flat = vec![0; u32::from_be_bytes(len) as usize];
                spool.read_exact(&mut flat).map_err(failed)?;
                self.hand_on(flat)?;
            }
        }
        for flat in std::mem::take(&mut self.below.batches) {
            self.hand_on(flat)?;
        }
        self.nodes.append(self.below.nodes.as_slice());
        self.below.nodes.clear();
        Ok(())
    }

    fn hand_on(&mut self, flat: Vec<u8>) -> Result<(), Closed> {
        self.push()?;
        if self.feed.push(Batch { flat, octets: self.octets }) { Ok(()) } else { Err(Closed) }
    }

    fn push_full(&mut self) -> Result<(), Closed> {
        if self.nodes.len() > BATCH_OCTETS || self.signatures >= BATCH_SIGNATURES {
            self.push()?;
        }
        Ok(())
    }

    fn push(&mut self) -> Result<(), Closed> {
        self.signatures = 0;
        let batch = Batch { flat: self.nodes.take(), octets: self.octets };
        if batch.flat.is_empty() || self.feed.push(batch) { Ok(()) } else { Err(Closed) }
    }
}

impl Below {
    /// Puts a full batch aside, and many of them into the temporary file, each with its length first.
    fn keep(&mut self) -> std::io::Result<()> {
        if self.nodes.len() < BATCH_OCTETS {
            return Ok(());
        }
        self.batches.push(self.nodes.take());
        if self.batches.len() < WAITING {
            return Ok(());
        }
        let spool = match &mut self.spool {
            Some(spool) => spool,
            none => none.insert(tempfile::tempfile()?),
        };
        for batch in self.batches.drain(..) {
            spool.write_all(&(batch.len() as u32).to_be_bytes())?;
            spool.write_all(&batch)?;
        }
        Ok(())
    }
}
