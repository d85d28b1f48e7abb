//! Files of names: one a line, or with its type where they are records.

use super::reservoir::{List, Reservoir};
use super::{Kind, NAMES_MAX, Names};
use crate::Error;
use crate::lines::Lines;
use measure::Seed;
use std::io::{self, Write};
use std::path::Path;
use wire::{name, rtype};

/// The first words of a file of names that we wrote; a comment to everybody else.
pub(super) const HEADER: &str = "; dnsrack-names";

impl Names {
    /// One name a line, with or without the last dot; `;` and `#` begin comments. In a file that
    /// [`Self::write`] wrote, the first line says what the names are; others are taken for the
    /// delegations of one zone whose name is all that they have in common at their end.
    ///
    /// # Errors
    /// A bad line with its column; a file without a name.
    pub fn from_file(path: &Path, seed: Seed) -> Result<Self, Error> {
        Self::from_file_limited(path, seed, NAMES_MAX)
    }

    pub(super) fn from_file_limited(path: &Path, seed: Seed, limit: usize) -> Result<Self, Error> {
        let mut lines = Lines::open(path)?;
        let mut header =
            Header { kind: Kind::Delegations, of: 0, origin: None, wildcard: false, known: true };
        if let Some(first) = lines.next_raw()?
            && let Some(rest) = first.strip_prefix(HEADER.as_bytes())
        {
            let parsed = Header::parse(rest);
            header = parsed.map_err(|what| lines.error(HEADER.len() + 1, what))?;
        }
        lines.rewind()?;
        let mut names = Reservoir::new(seed, limit);
        let mut wire = Vec::new();
        while let Some((text, column)) = lines.next()? {
            match parse_line(text, header.kind, &mut wire) {
                Ok(rtype) => names.push(&wire, rtype),
                Err((at, what)) => return Err(lines.error(column + at, what)),
            }
        }
        let total = header.of.max(names.seen);
        let rest = header.known.then(List::default);
        Self::build(path, names.finish(), rest, header.origin, header.kind, total, header.wildcard)
    }

    /// Writes a file of names that [`Self::from_file`] reads as the same names.
    ///
    /// # Errors
    /// The writer's.
    pub fn write(&self, out: &mut (impl Write + ?Sized)) -> io::Result<()> {
        let kind = match self.kind {
            Kind::Delegations => "delegations",
            Kind::Owners => "owners",
            Kind::Records => "records",
        };
        let wildcard = if self.wildcard { " wildcard=yes" } else { "" };
        let known = if self.known.is_some() && self.alone { "" } else { " known=no" };
        let mut text =
            format!("{HEADER} kind={kind} of={}{wildcard}{known} origin=", self.total).into_bytes();
        name::write_text(&self.origin, &mut text);
        text.push(b'\n');
        for n in 0..self.len() {
            name::write_text(self.get(n), &mut text);
            if let Some(rtype) = self.rtype(n) {
                write!(text, " {}", rtype::to_text(rtype))?;
            }
            text.push(b'\n');
            if text.len() > 1 << 16 {
                out.write_all(&text)?;
                text.clear();
            }
        }
        out.write_all(&text)
    }
}

/// Reads a name into `wire`; its type where it has one, otherwise 0. Or the offset of the fault and what it is.
fn parse_line(text: &[u8], kind: Kind, wire: &mut Vec<u8>) -> Result<u16, (usize, String)> {
    if kind == Kind::Records {
        return crate::queries::parse_line(text, wire);
    }
    let blank = text.iter().position(u8::is_ascii_whitespace);
    wire.clear();
    name::parse_into(&text[..blank.unwrap_or(text.len())], Some(name::ROOT), wire)
        .map_err(|e| (e.offset(), e.to_string()))?;
    match blank {
        Some(at) => Err((at, "more than a name: expected one name a line".to_owned())),
        None => Ok(0),
    }
}

/// The first line of our own files.
struct Header {
    kind: Kind,
    of: u64,
    origin: Option<Vec<u8>>,
    /// Every name below the apex exists.
    wildcard: bool,
    /// Where these are all, the zone has no others.
    known: bool,
}

impl Header {
    fn parse(text: &[u8]) -> Result<Self, String> {
        let wrong = || {
            "expected 'kind=delegations|owners|records of=NUMBER origin=NAME' after 'dnsrack-names'"
                .to_owned()
        };
        let text = std::str::from_utf8(text).map_err(|_| wrong())?;
        let (mut kind, mut of, mut origin) = (None, None, None);
        let (mut wildcard, mut known) = (false, true);
        for word in text.split_ascii_whitespace() {
            match word.split_once('=').ok_or_else(wrong)? {
                ("kind", "delegations") => kind = Some(Kind::Delegations),
                ("kind", "owners") => kind = Some(Kind::Owners),
                ("kind", "records") => kind = Some(Kind::Records),
                ("of", n) => of = Some(n.parse().map_err(|_| wrong())?),
                ("wildcard", "yes") => wildcard = true,
                ("known", "no") => known = false,
                ("origin", n) => {
                    let name = name::Name::parse_text(n, Some(name::ROOT)).map_err(|e| e.to_string())?;
                    origin = Some(name.as_wire().to_vec());
                }
                _ => return Err(wrong()),
            }
        }
        match (kind, of, origin) {
            (Some(kind), Some(of), Some(origin)) => {
                Ok(Self { kind, of, origin: Some(origin), wildcard, known })
            }
            _ => Err(wrong()),
        }
    }
}

/// Fuzz entry point: any octets as the first line and as a later line of a file of names.
///
/// # Panics
/// Where something is read that is not a name, or a fault lies outside the line: a bug.
pub fn fuzz_names(text: &[u8]) {
    if let Ok(Header { origin: Some(origin), .. }) = Header::parse(text) {
        assert_eq!(name::wire_len(&origin), Some(origin.len()));
    }
    let mut wire = Vec::new();
    for kind in [Kind::Delegations, Kind::Records] {
        match parse_line(text, kind, &mut wire) {
            Ok(_) => assert_eq!(name::wire_len(&wire), Some(wire.len())),
            Err((at, what)) => assert!(at <= text.len() && !what.is_empty()),
        }
    }
}
