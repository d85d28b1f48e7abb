//! Streams of records.

use crate::error::Error;
use crate::scan::{Record, Scanner};
use std::io::{BufWriter, Write};
use std::thread;

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

/// Hands the zone that `make` writes, on a thread of its own, to `use_it` as it comes. `label` names it in messages.
///
/// # Errors
/// Those of both; [`Error::Spool`] where there is no pipe.
pub(crate) fn piped<T: Send, U>(
    label: &str,
    make: impl FnOnce(&mut dyn Write) -> Result<T, Error> + Send,
    use_it: impl FnOnce(&mut Scanner) -> Result<U, Error>,
) -> Result<(T, U), Error> {
    let (reader, writer) = std::io::pipe().map_err(|source| Error::Spool { source })?;
    thread::scope(|scope| {
        let maker = scope.spawn(move || {
            let mut writer = BufWriter::with_capacity(64 << 10, writer);
            let made = make(&mut writer)?;
            writer.flush().map_err(Error::Write)?;
            Ok(made)
        });
        let mut source = Scanner::new(reader, label);
        let used = use_it(&mut source);
        // Closing the pipe ends the maker where the user gave up.
        drop(source);
        let made: Result<T, Error> = maker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        match (used, made) {
            (Ok(used), made) => Ok((made?, used)),
            // The maker's failure comes first, unless it is only the closed pipe.
            (Err(_), Err(e)) if !matches!(e, Error::Write(_)) => Err(e),
            (Err(e), _) => Err(e),
        }
    })
}
