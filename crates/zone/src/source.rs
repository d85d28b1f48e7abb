//! Streams of records.

use crate::error::Error;
use crate::scan::{Record, Scanner};

/// A stream of records.
pub trait RecordSource {
    /// The next record; `None` at the end.
    ///
    /// # Errors
    /// What the source met; do not go on after an error.
    fn next(&mut self) -> Result<Option<Record<'_>>, Error>;

    /// What messages call the source.
    fn file(&self) -> &str;

    /// Octets read so far.
    fn octets(&self) -> u64;
}

impl RecordSource for Scanner {
    #[inline]
    fn next(&mut self) -> Result<Option<Record<'_>>, Error> {
        Scanner::next(self)
    }

    fn file(&self) -> &str {
        Scanner::file(self)
    }

    fn octets(&self) -> u64 {
        Scanner::octets(self)
    }
}
