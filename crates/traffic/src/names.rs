//! The names that a profile asks for: all of a zone's, or a fair sample in bounded memory.

mod reservoir;
mod set;

use crate::Error;
use crate::lines::Lines;
use measure::Seed;
use reservoir::Reservoir;
use set::Set;
use std::io::{self, Write};
use std::path::Path;
use wire::name;
use wire::rtype;

/// The most names kept; of more, a sample. About 25 octets each.
pub const NAMES_MAX: usize = 1 << 20;

/// The first words of a file of names that we wrote; a comment to everybody else.
const HEADER: &str = "; dnsrack-names";

/// What the names are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Owners of NS records below the apex: what lies below them is answered by a referral.
    Delegations,
    /// Owners of authoritative data.
    Owners,
}

/// Names in the order of their file, in one compact piece of memory.
pub struct Names {
    bytes: Vec<u8>,
    starts: Vec<u32>,
    origin: Vec<u8>,
    kind: Kind,
    total: u64,
    known: Option<Set>,
}

impl Names {
    /// Names of a zone file or of a file of names. A file of names has one word a line, a zone never
    /// has (a record has more, and a `$` begins a directive); the first significant line decides.
    ///
    /// # Errors
    /// As [`Self::from_zone`] and [`Self::from_file`].
    pub fn open(path: &Path, seed: Seed) -> Result<Self, Error> {
        let mut lines = Lines::open(path)?;
        let is_zone = lines.next()?.is_some_and(|(line, _)| {
            line.starts_with(b"$") || line.iter().any(|b| b.is_ascii_whitespace() || *b == b'(')
        });
        if is_zone { Self::from_zone(path, seed) } else { Self::from_file(path, seed) }
    }

    /// The delegations of a zone, or all owners of data where it has none; one streaming pass.
    ///
    /// # Errors
    /// The scanner's error with line and column; a zone without any name.
    pub fn from_zone(path: &Path, seed: Seed) -> Result<Self, Error> {
        Self::from_zone_with(path, seed, &mut |_| {})
    }

    /// As [`Self::from_zone`], calling `progress` now and then with the octets read.
    ///
    /// # Errors
    /// As [`Self::from_zone`].
    pub fn from_zone_with(path: &Path, seed: Seed, progress: &mut dyn FnMut(u64)) -> Result<Self, Error> {
        Self::from_zone_limited(path, seed, NAMES_MAX, progress)
    }

    fn from_zone_limited(
        path: &Path,
        seed: Seed,
        limit: usize,
        progress: &mut dyn FnMut(u64),
    ) -> Result<Self, Error> {
        let bad = |e: zone::Error| Error::Zone { path: path.to_owned(), source: Box::new(e) };
        let mut scanner = zone::Scanner::open(path).map_err(bad)?;
        let mut cuts = Reservoir::new(seed, limit);
        let mut others = Reservoir::new(seed, limit);
        let (mut apex, mut cut, mut last) = (Vec::new(), Vec::new(), Vec::new());
        for records in 0u64.. {
            if records.is_multiple_of(1 << 16) {
                progress(scanner.octets());
            }
            let Some(record) = scanner.next().map_err(bad)? else { break };
            let owner = record.owner;
            match record.rtype {
                rtype::SOA => apex = owner.to_vec(),
                // What these say about a name is not that it exists.
                rtype::RRSIG | rtype::NSEC | rtype::NSEC3 => continue,
                rtype::NS if owner.len() != apex.len() => {
                    if !name::equal(owner, &cut) {
                        cuts.push(owner);
                        cut = owner.to_vec();
                    }
                    continue;
                }
                _ => {}
            }
            // Glue follows its delegation: the name above it is known already.
            if !name::equal(owner, &last) && (cut.is_empty() || !name::is_under(owner, &cut)) {
                others.push(owner);
                last = owner.to_vec();
            }
        }
        let (kind, names, rest) = if cuts.seen > 0 {
            (Kind::Delegations, cuts, Some(others))
        } else {
            (Kind::Owners, others, None)
        };
        Self::build(path, names, rest, Some(apex), kind, None)
    }

    /// One name a line, with or without the last dot; `;` and `#` begin comments. In a file that
    /// [`Self::write`] wrote, the first line says what the names are; others are taken for the
    /// delegations of one zone whose name is all that they have in common at their end.
    ///
    /// # Errors
    /// A bad line with its column; a file without a name.
    pub fn from_file(path: &Path, seed: Seed) -> Result<Self, Error> {
        let mut lines = Lines::open(path)?;
        let mut header = None;
        if let Some(first) = lines.next_raw()?
            && let Some(rest) = first.strip_prefix(HEADER.as_bytes())
        {
            let parsed = Header::parse(rest);
            header = Some(parsed.map_err(|what| lines.error(HEADER.len() + 1, what))?);
        }
        lines.rewind()?;
        let mut names = Reservoir::new(seed, NAMES_MAX);
        let mut wire = Vec::new();
        loop {
            let Some((text, column)) = lines.next()? else { break };
            wire.clear();
            let blank = text.iter().position(u8::is_ascii_whitespace);
            let fault =
                match name::parse_into(&text[..blank.unwrap_or(text.len())], Some(name::ROOT), &mut wire) {
                    Err(e) => Some((e.offset(), e.to_string())),
                    Ok(()) => blank.map(|at| (at, "more than a name: expected one name a line".to_owned())),
                };
            if let Some((at, what)) = fault {
                return Err(lines.error(column + at, what));
            }
            names.push(&wire);
        }
        let (kind, origin, of) = match header {
            Some(h) => (h.kind, Some(h.origin), Some(h.of)),
            None => (Kind::Delegations, None, None),
        };
        Self::build(path, names, None, origin, kind, of)
    }

    fn build(
        path: &Path,
        names: Reservoir,
        rest: Option<Reservoir>,
        origin: Option<Vec<u8>>,
        kind: Kind,
        of: Option<u64>,
    ) -> Result<Self, Error> {
        let total = of.unwrap_or(0).max(names.seen);
        if names.seen == 0 {
            return Err(Error::Empty { path: path.to_owned(), what: "name" });
        }
        let (mut bytes, starts) = names.finish();
        let origin = origin.unwrap_or_else(|| common_end(&bytes, &starts));
        let mut known = None;
        let others = rest.map(|r| (r.seen, r.finish()));
        let complete = others.as_ref().is_none_or(|(seen, kept)| *seen == kept.1.len() as u64);
        if total == starts.len() as u64 && complete {
            let base = bytes.len() as u32;
            let mut all = starts.clone();
            if let Some((_, (more, more_starts))) = others {
                bytes.extend_from_slice(&more);
                all.extend(more_starts.iter().map(|s| s + base));
            }
            known = Some(Set::new(&bytes, &all, origin.len()));
        }
        Ok(Self { bytes, starts, origin, kind, total, known })
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

    /// What the names are.
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

    /// Reads the beginning of some names, so that they are in the cache when they are wanted.
    pub(crate) fn bring_near<const N: usize>(&self, which: [u32; N]) {
        let starts = which.map(|n| self.starts[n as usize]);
        std::hint::black_box(starts.map(|start| self.bytes[start as usize]));
    }

    /// True where every name of the zone is known, so that [`Self::contains`] can tell.
    pub fn is_complete(&self) -> bool {
        self.known.is_some()
    }

    /// Whether the name is one of the zone, or above one (an empty non-terminal exists, RFC 8020), case
    /// apart; `None` where only a sample is known.
    pub fn contains(&self, wire: &[u8]) -> Option<bool> {
        self.known.as_ref().map(|set| set.contains(&self.bytes, wire))
    }

    /// Writes a file of names that [`Self::from_file`] reads as the same names.
    ///
    /// # Errors
    /// The writer's.
    pub fn write(&self, out: &mut (impl Write + ?Sized)) -> io::Result<()> {
        let kind = match self.kind {
            Kind::Delegations => "delegations",
            Kind::Owners => "owners",
        };
        // A zone with more owners than are kept beside its delegations is not known completely either.
        let of = if self.known.is_some() { self.total } else { self.total.max(self.len() as u64 + 1) };
        let mut text = format!("{HEADER} kind={kind} of={of} origin=").into_bytes();
        name::write_text(&self.origin, &mut text);
        text.push(b'\n');
        for n in 0..self.len() {
            name::write_text(self.get(n), &mut text);
            text.push(b'\n');
            if text.len() > 1 << 16 {
                out.write_all(&text)?;
                text.clear();
            }
        }
        out.write_all(&text)
    }
}

/// What the first line of our own files says.
struct Header {
    kind: Kind,
    of: u64,
    origin: Vec<u8>,
}

impl Header {
    fn parse(text: &[u8]) -> Result<Self, String> {
        let wrong =
            || "expected 'kind=delegations|owners of=NUMBER origin=NAME' after 'dnsrack-names'".to_owned();
        let text = std::str::from_utf8(text).map_err(|_| wrong())?;
        let (mut kind, mut of, mut origin) = (None, None, None);
        for word in text.split_ascii_whitespace() {
            match word.split_once('=').ok_or_else(wrong)? {
                ("kind", "delegations") => kind = Some(Kind::Delegations),
                ("kind", "owners") => kind = Some(Kind::Owners),
                ("of", n) => of = Some(n.parse().map_err(|_| wrong())?),
                ("origin", n) => {
                    let name = name::Name::parse_text(n, Some(name::ROOT)).map_err(|e| e.to_string())?;
                    origin = Some(name.as_wire().to_vec());
                }
                _ => return Err(wrong()),
            }
        }
        match (kind, of, origin) {
            (Some(kind), Some(of), Some(origin)) => Ok(Self { kind, of, origin }),
            _ => Err(wrong()),
        }
    }
}

/// The longest name that all names are at or below; of a single name its parent.
fn common_end(bytes: &[u8], starts: &[u32]) -> Vec<u8> {
    let at = |start: u32| {
        let rest = &bytes[start as usize..];
        &rest[..name::wire_len(rest).unwrap_or(1)]
    };
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
