//! The streaming scanner of master files (RFC 1035 section 5, RFC 2308 section 4, RFC 3597).
//!
//! One pass, records in reused buffers, memory that does not grow with the zone. The first record
//! must be the zone's SOA: it names the origin that all other owners lie under.

mod rdata;
mod source;
mod token;

use crate::error::{Error, Place};
use rdata::Reader;
use source::Source;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use token::{Bad, Tokens};
use wire::{name, rtype};

/// Files may include files this deep.
const MAX_INCLUDES: usize = 16;

/// One record, in buffers that the next one overwrites.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// Owner, wire format, letters as written.
    pub owner: &'a [u8],
    /// Seconds.
    pub ttl: u32,
    /// 1 for IN.
    pub class: u16,
    /// As in [`wire::rtype`].
    pub rtype: u16,
    /// Uncompressed wire format.
    pub rdata: &'a [u8],
    /// Line of the record's start in its file, from one.
    pub line: u64,
}

/// Reads a zone file record by record.
pub struct Scanner {
    stack: Vec<Source>,
    state: State,
    octets: u64,
    finished: bool,
}

/// The state that outlives an entry.
#[derive(Default)]
struct State {
    owner: Vec<u8>,
    rdata: Vec<u8>,
    /// $TTL.
    default_ttl: Option<u32>,
    last_ttl: Option<u32>,
    /// Owner, class and place of the SOA.
    apex: Option<(Vec<u8>, u16, Place)>,
    /// Of the current record.
    ttl: u32,
    rtype: u16,
}

/// An entry, by its kind.
enum Entry {
    Nothing,
    /// A record, in the state.
    Record,
    Directive(Box<Directive>),
}

/// The directive of an entry with a `$`.
enum Directive {
    Origin(Vec<u8>),
    /// A file, its origin, and where in the entry its name stands.
    Include(PathBuf, Option<Vec<u8>>, usize),
}

impl Scanner {
    /// Opens a zone file.
    ///
    /// # Errors
    /// [`Error::Read`] where it cannot be opened.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let shown = path.display().to_string();
        let file = open_file(path).map_err(|source| Error::Read { file: shown.clone(), source })?;
        let mut scanner = Self::new(file, &shown);
        scanner.stack[0].folder = path.parent().unwrap_or(Path::new("")).to_path_buf();
        Ok(scanner)
    }

    /// Scans a stream; `label` is what messages call it. $INCLUDE is relative to the current folder.
    pub fn new(reader: impl Read + Send + 'static, label: &str) -> Self {
        let source = Source::new(label.to_owned(), PathBuf::new(), Box::new(reader), None);
        Self { stack: vec![source], state: State::default(), octets: 0, finished: false }
    }

    /// The origin to complete relative names with until the file gives its own.
    #[must_use]
    pub fn with_origin(mut self, origin: &[u8]) -> Self {
        self.stack[0].origin = Some(origin.to_vec());
        self
    }

    /// The zone's name (owner of the SOA, wire format), once the first record was read.
    pub fn apex(&self) -> Option<&[u8]> {
        self.state.apex.as_ref().map(|(apex, ..)| &apex[..])
    }

    /// Octets read from all files so far.
    pub fn octets(&self) -> u64 {
        self.octets + self.stack.iter().map(|s| s.octets).sum::<u64>()
    }

    /// The file that is being read.
    pub fn file(&self) -> &str {
        self.stack.last().map_or("", |s| &s.file)
    }

    /// The next record; `None` at the end of the zone.
    ///
    /// # Errors
    /// [`Error::Syntax`] with file, line and column, or [`Error::Read`]. Do not go on after an error.
    // An iterator cannot lend its item.
    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self) -> Result<Option<Record<'_>>, Error> {
        if self.finished {
            return Ok(None);
        }
        let line = loop {
            let depth = self.stack.len();
            let Some(source) = self.stack.last_mut() else { return Ok(None) };
            if !source.entry()? {
                if depth == 1 {
                    self.finished = true;
                    if self.state.apex.is_none() {
                        let what = "the file holds no record: expected a zone, its SOA first".to_owned();
                        return Err(Error::Syntax { place: source.place(&[], 0), what });
                    }
                    return Ok(None);
                }
                self.octets += source.octets;
                std::mem::swap(&mut self.state.owner, &mut source.outer_owner);
                self.stack.pop();
                continue;
            }
            let found = source.found();
            let text = found.text;
            let entry = match entry(Tokens::new(&found), text, source, &mut self.state) {
                Ok(entry) => entry,
                Err(bad) => {
                    let (at, what) = bad.parts();
                    return Err(Error::Syntax { place: source.place(text, at), what });
                }
            };
            match entry {
                Entry::Record => break source.line,
                Entry::Nothing => {}
                Entry::Directive(directive) => match *directive {
                    Directive::Origin(origin) => source.origin = Some(origin),
                    Directive::Include(path, origin, at) => {
                        let place = source.place(text, at);
                        let origin = origin.or_else(|| source.origin.clone());
                        let path = source.folder.join(path);
                        self.include(path, origin, place)?;
                    }
                },
            }
        };
        let State { owner, rdata, ttl, rtype, apex, .. } = &self.state;
        let class = apex.as_ref().map_or(1, |(_, class, _)| *class);
        Ok(Some(Record { owner, ttl: *ttl, class, rtype: *rtype, rdata, line }))
    }

    fn include(&mut self, path: PathBuf, origin: Option<Vec<u8>>, place: Place) -> Result<(), Error> {
        if self.stack.len() > MAX_INCLUDES {
            let what =
                format!("$INCLUDE nested more than {MAX_INCLUDES} deep: do the files include each other?");
            return Err(Error::Syntax { place, what });
        }
        let shown = path.display().to_string();
        let file = open_file(&path).map_err(|e| Error::Syntax {
            place,
            what: format!("cannot include {shown}: {e}; the name is relative to the file that includes it"),
        })?;
        let folder = path.parent().unwrap_or(Path::new("")).to_path_buf();
        let mut source = Source::new(shown, folder, Box::new(file), origin);
        source.outer_owner = self.state.owner.clone();
        self.stack.push(source);
        Ok(())
    }
}

/// Opens a file for reading; a folder opens too on Linux, and would fail only at the first read.
fn open_file(path: &Path) -> std::io::Result<File> {
    let file = File::open(path)?;
    if file.metadata()?.is_dir() {
        return Err(std::io::ErrorKind::IsADirectory.into());
    }
    Ok(file)
}

/// Reads one entry into `state`.
fn entry(mut tokens: Tokens<'_>, text: &[u8], source: &Source, state: &mut State) -> Result<Entry, Bad> {
    let origin = source.origin.as_deref();
    let mut new_owner = false;
    if !tokens.starts_with_space() {
        let Some(t) = tokens.next() else { return Ok(Entry::Nothing) };
        if t.text.first() == Some(&b'$') && !t.quoted {
            return directive(t, tokens, origin, state);
        }
        state.owner.clear();
        name::parse_into(t.text, origin, &mut state.owner)
            .map_err(|e| Bad::new(t.at + e.offset(), format!("the owner: {e}")))?;
        new_owner = true;
    }
    let (mut ttl, mut class) = (None, None);
    let (rtype, at) = loop {
        let Some(t) = tokens.next() else {
            if !new_owner && ttl.is_none() && class.is_none() {
                return Ok(Entry::Nothing);
            }
            return Err(tokens.missing("a TTL, a class or a record type"));
        };
        if ttl.is_none()
            && t.text.first().is_some_and(u8::is_ascii_digit)
            && let Some(seconds) = rdata::ttl(t.text)
        {
            ttl = Some(seconds);
        } else if class.is_none()
            && let Some(c) = class_of(t.text)
        {
            class = Some(c);
        } else if let Some(code) = rtype::from_text(t.text) {
            break (code, t.at);
        } else {
            return Err(t.bad(format!("'{}': expected a TTL, a class or a record type", t.shown())));
        }
    };
    if state.owner.is_empty() {
        return Err(Bad::new(
            0,
            "a record without an owner, and none before it: expected a name in column 1",
        ));
    }
    state.rdata.clear();
    let generic = tokens.skip_generic_mark();
    let mut reader = Reader { tokens: &mut tokens, origin, out: &mut state.rdata };
    if generic {
        reader.generic()?
    } else {
        reader.rdata(rtype)?
    }
    tokens.end()?;
    if state.rdata.len() > 65535 {
        return Err(Bad::new(at, format!("{} octets of data: at most 65535 fit", state.rdata.len())));
    }
    place_in_zone(source, state, text, (rtype, at), class, new_owner)?;
    if let Some(ttl) = ttl {
        state.last_ttl = Some(ttl);
    }
    let ttl = ttl.or(state.default_ttl).or(state.last_ttl).or_else(|| {
        // RFC 1035 wants a TTL; as BIND does, a first SOA lends its minimum.
        let minimum = state.rdata.last_chunk::<4>().filter(|_| rtype == rtype::SOA);
        minimum.map(|m| u32::from_be_bytes(*m))
    });
    let ttl = ttl.ok_or_else(|| Bad::new(at, "no TTL is known here: give one, or $TTL at the start"))?;
    state.last_ttl.get_or_insert(ttl);
    (state.ttl, state.rtype) = (ttl, rtype);
    Ok(Entry::Record)
}

/// Checks that a record belongs to the zone.
#[inline]
fn place_in_zone(
    source: &Source,
    state: &mut State,
    text: &[u8],
    (rtype, at): (u16, usize),
    class: Option<u16>,
    new_owner: bool,
) -> Result<(), Bad> {
    match &state.apex {
        Some((apex, zone_class, _))
            if rtype != rtype::SOA
                && class.is_none_or(|c| c == *zone_class)
                && (!new_owner || apex.len() == 1 || name::is_under(&state.owner, apex)) =>
        {
            Ok(())
        }
        Some(apex) => Err(misplaced(&state.owner, apex, (rtype, at), class)),
        None if rtype == rtype::SOA => {
            state.apex = Some((state.owner.clone(), class.unwrap_or(1), source.place(text, 0)));
            Ok(())
        }
        None => {
            let what =
                format!("the first record is of type {}: expected the zone's SOA", rtype::to_text(rtype));
            Err(Bad::new(at, what))
        }
    }
}

/// Why a record does not belong to the zone.
#[cold]
fn misplaced(
    owner: &[u8],
    (apex, zone_class, first): &(Vec<u8>, u16, Place),
    (rtype, at): (u16, usize),
    class: Option<u16>,
) -> Bad {
    if rtype == rtype::SOA {
        return Bad::new(at, format!("a second SOA: a zone has one, and {first} is it"));
    }
    if class.is_some_and(|c| c != *zone_class) {
        return Bad::new(at, format!("a class other than the SOA's, at {first}"));
    }
    let [owner, zone] = [owner, apex].map(|wire| {
        let mut text = Vec::new();
        name::write_text(wire, &mut text);
        String::from_utf8_lossy(&text).into_owned()
    });
    Bad::new(0, format!("{owner} is out of the zone {zone}"))
}

#[inline]
fn class_of(text: &[u8]) -> Option<u16> {
    if text == b"IN" {
        return Some(1);
    }
    if text.len() < 2 || !matches!(text[0] | 0x20, b'i' | b'c' | b'h') {
        return None;
    }
    if text.eq_ignore_ascii_case(b"IN") {
        return Some(1);
    }
    if text.eq_ignore_ascii_case(b"CH") {
        return Some(3);
    }
    if text.eq_ignore_ascii_case(b"HS") {
        return Some(4);
    }
    let (head, digits) = text.split_at_checked(5)?;
    head.eq_ignore_ascii_case(b"CLASS").then(|| rdata::decimal(digits, 65535).map(|n| n as u16))?
}

fn directive(
    t: token::Token<'_>,
    mut tokens: Tokens<'_>,
    origin: Option<&[u8]>,
    state: &mut State,
) -> Result<Entry, Bad> {
    let parse_name = |t: token::Token<'_>| {
        let mut wire = Vec::new();
        match name::parse_into(t.text, origin, &mut wire) {
            Ok(()) => Ok(wire),
            Err(e) => Err(Bad::new(t.at + e.offset(), e.to_string())),
        }
    };
    let directive = if t.text.eq_ignore_ascii_case(b"$ORIGIN") {
        Directive::Origin(parse_name(tokens.need("a domain name")?)?)
    } else if t.text.eq_ignore_ascii_case(b"$TTL") {
        let t = tokens.need("a TTL")?;
        let seconds = rdata::ttl(t.text);
        state.default_ttl =
            Some(seconds.ok_or_else(|| t.bad("expected a TTL: seconds, or a time such as 1h30m"))?);
        tokens.end()?;
        return Ok(Entry::Nothing);
    } else if t.text.eq_ignore_ascii_case(b"$INCLUDE") {
        let file = tokens.need("a file name")?;
        let path = std::str::from_utf8(file.text).map_err(|_| file.bad("a file name that is not UTF-8"))?;
        let origin = tokens.next().map(parse_name).transpose()?;
        Directive::Include(PathBuf::from(path), origin, file.at)
    } else {
        return Err(t.bad(format!("'{}': expected $ORIGIN, $TTL or $INCLUDE", t.shown())));
    };
    tokens.end()?;
    Ok(Entry::Directive(Box::new(directive)))
}

/// Reads one record's data of type `rtype` in presentation format, or in the generic form of RFC 3597, to the end of `text`,
/// and appends its uncompressed wire format; names are absolute where there is no `origin`.
///
/// # Errors
/// Where in `text` (octets from its start), and what is wrong.
pub fn record_data(
    text: &[u8],
    rtype: u16,
    origin: Option<&[u8]>,
    out: &mut Vec<u8>,
) -> Result<(), (usize, String)> {
    let mut tokens = Tokens::new(&source::Found { text, ahead: text, plain: false });
    let generic = tokens.skip_generic_mark();
    let mut reader = Reader { tokens: &mut tokens, origin, out };
    if generic { reader.generic() } else { reader.rdata(rtype) }
        .and_then(|()| tokens.end())
        .map_err(Bad::parts)
}

/// A TTL: seconds, or numbers with units as in `1h30m`; at most 2^31-1 (RFC 2181, section 8).
pub fn ttl(text: &[u8]) -> Option<u32> {
    rdata::ttl(text)
}

/// Fuzz entry: any octets are a zone or an error, and what is read can be printed and read again.
pub fn fuzz_scan(bytes: &[u8]) {
    let mut scanner = Scanner::new(std::io::Cursor::new(bytes.to_vec()), "fuzz");
    let mut line = Vec::new();
    while let Ok(Some(record)) = scanner.next() {
        line.clear();
        crate::text::write_record(&record, &mut line);
        if record.rtype == rtype::SOA {
            assert_reads_back(&record, &line);
        }
    }
}

fn assert_reads_back(record: &Record<'_>, line: &[u8]) {
    let mut again = Scanner::new(std::io::Cursor::new(line.to_vec()), "printed");
    let read = again.next().ok().flatten();
    assert!(
        read.is_some_and(|r| r.owner == record.owner && r.ttl == record.ttl && r.rdata == record.rdata),
        "{} reads back as something else",
        String::from_utf8_lossy(line)
    );
}
