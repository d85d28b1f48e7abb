//! Text files of one thing a line, streamed.

use crate::Error;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Seek};
use std::path::{Path, PathBuf};

/// The longest line: four times the longest name with every octet escaped.
const LINE_MAX: usize = 4096;

/// The significant lines of a file: not blank, no comment (`;` or `#` first).
pub(crate) struct Lines {
    reader: BufReader<File>,
    pub(crate) path: PathBuf,
    /// The number of the line in `text`, from 1.
    pub(crate) number: u64,
    text: Vec<u8>,
}

impl Lines {
    /// Opens a regular file.
    pub(crate) fn open(path: &Path) -> Result<Self, Error> {
        // Asked by path first: opening a pipe would wait for its writer.
        if !path.metadata().map_err(Error::io(path))?.is_file() {
            return Err(Error::NotAFile { path: path.to_owned() });
        }
        let file = File::open(path).map_err(Error::io(path))?;
        let reader = BufReader::with_capacity(1 << 18, file);
        Ok(Self { reader, path: path.to_owned(), number: 0, text: Vec::new() })
    }

    /// Octets of the file.
    pub(crate) fn size(&self) -> Result<u64, Error> {
        Ok(self.reader.get_ref().metadata().map_err(Error::io(&self.path))?.len())
    }

    /// The next significant line, without white space around it; the column of its first octet, from 1.
    pub(crate) fn next(&mut self) -> Result<Option<(&[u8], usize)>, Error> {
        loop {
            match self.next_raw()? {
                None => return Ok(None),
                Some(line) if matches!(line.trim_ascii().first(), None | Some(b';' | b'#')) => {}
                Some(_) => break,
            }
        }
        let indent = self.text.len() - self.text.trim_ascii_start().len();
        Ok(Some((self.text.trim_ascii(), indent + 1)))
    }

    /// The next line as it is.
    pub(crate) fn next_raw(&mut self) -> Result<Option<&[u8]>, Error> {
        self.text.clear();
        let mut limited = self.reader.by_ref().take(LINE_MAX as u64 + 1);
        limited.read_until(b'\n', &mut self.text).map_err(Error::io(&self.path))?;
        if self.text.is_empty() {
            return Ok(None);
        }
        self.number += 1;
        if self.text.len() > LINE_MAX {
            return Err(
                self.error(LINE_MAX, format!("a line of more than {LINE_MAX} octets: is this a text file?"))
            );
        }
        Ok(Some(&self.text))
    }

    /// Back to the beginning.
    pub(crate) fn rewind(&mut self) -> Result<(), Error> {
        self.number = 0;
        self.reader.rewind().map_err(Error::io(&self.path))
    }

    /// An error in the current line.
    pub(crate) fn error(&self, column: usize, what: impl Into<String>) -> Error {
        Error::Line { path: self.path.clone(), line: self.number, column, what: what.into() }
    }
}
