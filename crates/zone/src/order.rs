//! Zone files for those who need their owners in canonical order.

use crate::error::Error;
use crate::scan::{Record, Scanner};
use crate::sort;
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
pub(crate) fn can_be_read_again(path: &Path) -> bool {
    path.metadata().is_ok_and(|m| m.is_file())
}
