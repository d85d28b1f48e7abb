//! Canonical order of owners (RFC 4034, section 6.1): is a zone in it, and a zone file read in it.

use crate::error::Error;
use crate::scan::{Record, Scanner};
use crate::sort::{self, Records};
use crate::source::RecordSource;
use std::path::Path;
use wire::name::{self, Name};

/// Sees to it that owners come in canonical order.
pub(crate) struct Order {
    file: String,
    last: Vec<u8>,
}

impl Order {
    /// For the records of a file.
    pub fn of(source: &(impl RecordSource + ?Sized)) -> Self {
        Self { file: source.file().to_owned(), last: Vec::new() }
    }

    /// True where the record's owner is not that of the record before.
    ///
    /// # Errors
    /// [`Error::Unsorted`].
    #[inline]
    pub fn is_new(&mut self, record: &Record<'_>) -> Result<bool, Error> {
        if !self.last.is_empty() {
            if name::equal(record.owner, &self.last) {
                return Ok(false);
            }
            if name::canonical_cmp(record.owner, &self.last).is_lt() {
                return Err(self.unsorted(record));
            }
        }
        self.last.clear();
        self.last.extend_from_slice(record.owner);
        Ok(true)
    }

    #[cold]
    fn unsorted(&self, record: &Record<'_>) -> Error {
        let [name, after] = [record.owner, &self.last]
            .map(|wire| Name::from_wire(wire).map(|n| n.to_string()).unwrap_or_default());
        Error::Unsorted { file: self.file.clone(), line: record.line, name, after }
    }
}

/// Opens a zone file: streamed, or sorted outside memory where `sort` asks for it or it cannot be read twice.
pub(crate) fn open(path: &Path, sort: bool) -> Result<Box<dyn RecordSource + Send>, Error> {
    let scanner = Scanner::open(path)?;
    if sort || !can_be_read_again(path) {
        return Ok(Box::new(sort::sorted(scanner, &mut |_| {})?));
    }
    Ok(Box::new(scanner))
}

/// True for regular files.
pub fn can_be_read_again(path: &Path) -> bool {
    path.metadata().is_ok_and(|m| m.is_file())
}

/// True where a zone streams as it is: owners in canonical order, and each RRset in one piece. One pass, which ends at the first record out
/// of order.
///
/// # Errors
/// The source's.
pub fn is_sorted(source: &mut impl RecordSource) -> Result<bool, Error> {
    let (mut order, mut types) = (Order::of(source), Vec::new());
    while let Some(record) = source.next()? {
        match order.is_new(&record) {
            Ok(true) => types.clear(),
            Ok(false) if types.last() == Some(&record.rtype) => continue,
            Ok(false) if types.contains(&record.rtype) => return Ok(false),
            Ok(false) => {}
            Err(Error::Unsorted { .. }) => return Ok(false),
            Err(error) => return Err(error),
        }
        types.push(record.rtype);
    }
    Ok(true)
}

/// The records of a zone in canonical order.
// One of a kind in a program: its size does not matter.
#[allow(clippy::large_enum_variant)]
pub enum Canonical {
    /// The file has them so: a stream of it.
    Stream(Scanner),
    /// They were sorted.
    Sorted(Records),
}

/// Opens a zone file in canonical order: a regular file in order is streamed (after one pass to
/// see that it is), anything else is sorted. `progress` hears how many octets of the first pass are read.
///
/// # Errors
/// As [`sort::sorted`].
pub fn canonical(path: &Path, progress: &mut dyn FnMut(u64)) -> Result<Canonical, Error> {
    if can_be_read_again(path) && is_sorted(&mut Scanner::open(path)?)? {
        return Ok(Canonical::Stream(Scanner::open(path)?));
    }
    Ok(Canonical::Sorted(sort::sorted(Scanner::open(path)?, progress)?))
}

impl RecordSource for Canonical {
    fn next(&mut self) -> Result<Option<Record<'_>>, Error> {
        match self {
            Self::Stream(s) => s.next(),
            Self::Sorted(s) => s.next(),
        }
    }

    fn file(&self) -> &str {
        match self {
            Self::Stream(s) => s.file(),
            Self::Sorted(s) => s.file(),
        }
    }

    fn octets(&self) -> u64 {
        match self {
            Self::Stream(s) => s.octets(),
            Self::Sorted(s) => s.octets(),
        }
    }
}
