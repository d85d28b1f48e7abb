//! Streams of records.

use crate::error::Error;
use crate::scan::{Record, Scanner};

/// A stream of records.
pub trait RecordSource {
    /// The next record; `None` at the end.
    ///
    /// # Errors
    /// The source's error; do not go on after one.
    fn next(&mut self) -> Result<Option<Record<'_>>, Error>;

    /// The source's name in messages.
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
