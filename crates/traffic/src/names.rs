//! The names that a profile asks for: all of a zone's, or a fair sample in bounded memory.

mod file;
mod reservoir;
mod set;
mod zone_file;

use crate::Error;
use crate::lines::Lines;
use measure::Seed;
use reservoir::List;
use serde::Serialize;
use set::{Set, name_at};
use std::path::Path;
use wire::name;

pub use file::fuzz_names;

/// The most names kept; of more, a sample. About 25 octets each.
pub const NAMES_MAX: usize = 1 << 20;

/// Which names are taken from a zone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Want {
    /// Every name that queries can be asked for, once: the delegations, or where they are fewer the owners of
    /// authoritative data.
    #[default]
    Names,
    /// Every record's owner with its type, as a zone transfer lists them (Nominet's `awk '{print $1 " " $4}'`,
    /// seed 004), but for the SOA that ends the transfer, and for NSEC3 records and their signatures: a query finds
    /// no name there (RFC 5155 section 7.2.8).
    Records,
}

/// The kind of the names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Owners of NS records below the apex: what lies below them is answered by a referral.
    Delegations,
    /// Owners of authoritative data.
    Owners,
    /// Owners of records, each with the record's type; a name as often as it has records.
    Records,
}

/// Names in the order of their file, in one compact piece of memory.
pub struct Names {
    bytes: Vec<u8>,
    starts: Vec<u32>,
    origin: Vec<u8>,
    kind: Kind,
    total: u64,
    known: Option<Set>,
    wildcard: bool,
    /// The zone has no names beside these but its own.
    alone: bool,
    /// Of [`Kind::Records`] each name's type, otherwise empty.
    types: Vec<u16>,
    /// Where the delegations begin that a zone of [`Kind::Owners`] has too, ascending.
    cuts: Vec<u32>,
}

/// The records that a zone has, or lacks, at a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    /// The number of octets at the name's end that are the delegation that it is at or below, or the first name above it that does
    /// not exist; otherwise all.
    pub octets: usize,
    /// The name exists, or an answer leads to it.
    pub exists: bool,
    /// Labels that go before these octets change nothing.
    pub cut: bool,
}

impl Names {
    /// Names of a zone file or of a file of names. A file of names has one word a line, a zone never
    /// has (a record has more, and a `$` begins a directive): the first significant line decides, where no
    /// first line of ours says what it is.
    ///
    /// # Errors
    /// As [`Self::from_zone`] and [`Self::from_file`].
    pub fn open(path: &Path, seed: Seed, want: Want) -> Result<Self, Error> {
        Self::open_limited(path, seed, want, NAMES_MAX, &mut |_| {})
    }

    /// The same, of which at most `limit` names are kept; `progress` hears now and then the octets read of a zone.
    pub(crate) fn open_limited(
        path: &Path,
        seed: Seed,
        want: Want,
        limit: usize,
        progress: &mut dyn FnMut(u64),
    ) -> Result<Self, Error> {
        let mut lines = Lines::open(path)?;
        let ours = lines.next_raw()?.is_some_and(|line| line.starts_with(file::HEADER.as_bytes()));
        lines.rewind()?;
        let is_zone = !ours
            && lines.next()?.is_some_and(|(line, _)| {
                line.starts_with(b"$") || line.iter().any(|b| b.is_ascii_whitespace() || *b == b'(')
            });
        if is_zone {
            Self::from_zone_limited(path, seed, want, limit, progress)
        } else {
            Self::from_file_limited(path, seed, limit)
        }
    }

    /// Puts together what was read. `rest` are names that are there too but are not asked for, as many as
    /// there are; `None` where not all were kept. `total` counts the names of which `names` may be a sample.
    fn build(
        path: &Path,
        names: List,
        rest: Option<List>,
        origin: Option<Vec<u8>>,
        kind: Kind,
        total: u64,
        wildcard: bool,
    ) -> Result<Self, Error> {
        let List { mut bytes, starts, types } = names;
        if starts.is_empty() {
            return Err(Error::Empty { path: path.to_owned(), what: "name" });
        }
        let origin = origin.unwrap_or_else(|| common_end(&bytes, &starts));
        let alone = rest
            .as_ref()
            .is_some_and(|rest| rest.starts.iter().all(|&at| name::equal(name_at(&rest.bytes, at), &origin)));
        let mut cuts = Vec::new();
        let known = rest.filter(|_| total == starts.len() as u64).map(|rest| {
            let base = bytes.len() as u32;
            bytes.extend_from_slice(&rest.bytes);
            if kind == Kind::Owners {
                cuts = rest.starts.iter().map(|s| s + base).collect();
            }
            let all: Vec<u32> = starts.iter().copied().chain(rest.starts.iter().map(|s| s + base)).collect();
            Set::new(&bytes, &all, origin.len())
        });
        let types = if kind == Kind::Records { types } else { Vec::new() };
        let mut names = Self { bytes, starts, origin, kind, total, known, wildcard, alone, types, cuts };
        names.wildcard |= names.contains(&[&b"\x01*"[..], names.origin()].concat()) == Some(true);
        Ok(names)
    }

    /// How many names are kept; never zero.
    #[allow(clippy::len_without_is_empty, reason = "never empty")]
    pub fn len(&self) -> usize {
        self.starts.len()
    }

    /// How many names there were.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// True where not all names are kept: each was as likely to be.
    pub fn is_sample(&self) -> bool {
        self.total > self.starts.len() as u64
    }

    /// The kind of the names.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// The zone's name in wire format.
    pub fn origin(&self) -> &[u8] {
        &self.origin
    }

    /// Name `n` in wire format.
    ///
    /// # Panics
    /// Where there is no such name.
    pub fn get(&self, n: usize) -> &[u8] {
        let bytes = &self.bytes[self.starts[n] as usize..];
        let mut end = 0;
        while bytes[end] != 0 {
            end += 1 + usize::from(bytes[end]);
        }
        &bytes[..=end]
    }

    /// Name `n` as text, with its last dot.
    ///
    /// # Panics
    /// Where there is no such name.
    pub fn text(&self, n: usize) -> String {
        let mut text = Vec::new();
        name::write_text(self.get(n), &mut text);
        text.into_iter().map(char::from).collect()
    }

    /// The type of the record that name `n` is the owner of, where the names are [`Kind::Records`].
    pub fn rtype(&self, n: usize) -> Option<u16> {
        self.types.get(n).copied()
    }

    /// True where a wildcard or a DNAME at the apex leaves no name that does not exist.
    pub fn has_apex_wildcard(&self) -> bool {
        self.wildcard
    }

    /// Where name `n` begins.
    pub(crate) fn start(&self, n: u32) -> u32 {
        self.starts[n as usize]
    }

    /// The first octet of the name that begins there.
    pub(crate) fn octet(&self, start: u32) -> u8 {
        self.bytes[start as usize]
    }

    /// True where every name of the zone is known, so that [`Self::contains`] can tell.
    pub fn is_complete(&self) -> bool {
        self.known.is_some()
    }

    /// The number of the name among these, where all names are known and it is one; of several records' the first.
    pub(crate) fn find(&self, wire: &[u8]) -> Option<u32> {
        let at = self.known.as_ref()?.find_at(&self.bytes, wire)?;
        // Names lie in memory in their order.
        self.starts.binary_search(&at).ok().map(|n| n as u32)
    }

    /// The records at a name, case apart; `None` where the name is not of the zone, or only a sample is known.
    pub fn locate(&self, wire: &[u8]) -> Option<Found> {
        let known = self.known.as_ref().filter(|_| name::is_under(wire, &self.origin))?;
        let is_cut = |name: &[u8]| {
            let cuts = if self.kind == Kind::Owners { &self.cuts } else { &self.starts };
            self.kind != Kind::Records
                && known.find_at(&self.bytes, name).is_some_and(|at| cuts.binary_search(&at).is_ok())
        };
        // From the zone's own name downwards.
        for labels in name::label_count(&self.origin) + 1..=name::label_count(wire) {
            let above = (labels..name::label_count(wire)).fold(wire, |name, _| name::parent(name));
            let exists = known.contains(&self.bytes, above);
            if !exists || is_cut(above) {
                return Some(Found { octets: above.len(), exists, cut: true });
            }
        }
        Some(Found { octets: wire.len(), exists: true, cut: false })
    }

    /// Whether the name is one of the zone, or above one (an empty non-terminal exists, RFC 8020), case
    /// apart; `None` where only a sample is known.
    pub fn contains(&self, wire: &[u8]) -> Option<bool> {
        self.known.as_ref().map(|set| set.contains(&self.bytes, wire))
    }
}

/// The longest name that all names are at or below; of a single name its parent.
fn common_end(bytes: &[u8], starts: &[u32]) -> Vec<u8> {
    let at = |start| name_at(bytes, start);
    let mut common = if starts.len() == 1 { name::parent(at(starts[0])) } else { at(starts[0]) };
    for &start in starts {
        while !name::is_under(at(start), common) {
            common = name::parent(common);
        }
    }
    common.to_vec()
}

#[cfg(test)]
mod tests;
