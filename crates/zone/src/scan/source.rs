//! One open file: its buffer, and the entries (logical lines) in it.

use crate::error::{Error, Place};
use std::io::{ErrorKind, Read};
use std::ops::Range;
use std::path::PathBuf;

/// How much is read at once.
const CHUNK: usize = 64 << 10;
/// The longest entry: above any record's text (65,535 octets as hexadecimal, with room for spaces).
const MAX_ENTRY: usize = 1 << 20;

/// Octets that the search for an entry's end must look at.
const SPECIAL: [bool; 256] = {
    let mut table = [false; 256];
    let mut b = 0;
    while b < 32 {
        table[b] = b != b'\t' as usize && b != b'\r' as usize;
        b += 1;
    }
    table[b';' as usize] = true;
    table[b'"' as usize] = true;
    table[b'(' as usize] = true;
    table[b')' as usize] = true;
    table[b'\\' as usize] = true;
    table
};

/// An entry that was found.
pub(super) struct Found<'a> {
    pub text: &'a [u8],
    /// The same with what follows it in the buffer where it is plain.
    pub ahead: &'a [u8],
    /// Words and spaces alone, on one line: nothing quoted, escaped, in parentheses or a comment.
    pub plain: bool,
}

/// How many octets at the start of `text` are not [`SPECIAL`], line ends allowed.
fn plain_len(text: &[u8]) -> usize {
    const BLOCK: usize = 64;
    let marks = |b: u8| {
        let control = (b < b' ') & (b != b'\t') & (b != b'\r') & (b != b'\n');
        control | (b == b';') | (b == b'"') | (b == b'(') | (b == b')') | (b == b'\\')
    };
    // A block at once without a branch: the compiler makes vector instructions of it.
    let blocks = text.chunks_exact(BLOCK);
    let clean = blocks.take_while(|block| !block.iter().fold(false, |any, &b| any | marks(b))).count();
    let rest = &text[clean * BLOCK..];
    clean * BLOCK + rest.iter().position(|&b| marks(b)).unwrap_or(rest.len())
}

/// A file (or stream) that is being scanned.
pub(super) struct Source {
    pub file: String,
    /// The folder that $INCLUDE is relative to.
    pub folder: PathBuf,
    pub origin: Option<Vec<u8>>,
    /// The including file's last owner, restored at the end of this one.
    pub outer_owner: Vec<u8>,
    reader: Box<dyn Read + Send>,
    buf: Vec<u8>,
    start: usize,
    end: usize,
    /// Where the current entry is.
    entry: Range<usize>,
    /// Up to here nothing is [`SPECIAL`] but line ends.
    plain: usize,
    eof: bool,
    /// Line of the next entry's start.
    next_line: u64,
    /// Line of the current entry's start.
    pub line: u64,
    /// Octets read so far.
    pub octets: u64,
}

impl Source {
    pub fn new(file: String, folder: PathBuf, reader: Box<dyn Read + Send>, origin: Option<Vec<u8>>) -> Self {
        Self {
            file,
            folder,
            origin,
            outer_owner: Vec::new(),
            reader,
            buf: vec![0; CHUNK],
            start: 0,
            end: 0,
            entry: 0..0,
            plain: 0,
            eof: false,
            next_line: 1,
            line: 1,
            octets: 0,
        }
    }

    /// The entry that [`Source::entry`] stepped to.
    #[inline]
    pub fn found(&self) -> Found<'_> {
        let (text, plain) = (&self.buf[self.entry.clone()], self.entry.end < self.plain);
        let ahead = if plain { &self.buf[self.entry.start..self.plain] } else { text };
        Found { text, ahead, plain }
    }

    /// Line and column of an octet of the current entry.
    pub fn place(&self, entry: &[u8], at: usize) -> Place {
        let before = &entry[..at.min(entry.len())];
        let lines = before.iter().filter(|&&b| b == b'\n').count() as u64;
        let column = before.iter().rev().take_while(|&&b| b != b'\n').count() as u64 + 1;
        Place { file: self.file.clone(), line: self.line + lines, column }
    }

    fn bad(&self, at: usize, what: impl Into<String>) -> Error {
        Error::Syntax {
            place: self.place(&self.buf[self.start..self.end], at - self.start),
            what: what.into(),
        }
    }

    /// Steps to the next entry: up to the end of its line, parentheses and quotes considered. False where
    /// there is none.
    #[inline]
    pub fn entry(&mut self) -> Result<bool, Error> {
        self.line = self.next_line;
        if self.plain <= self.start {
            self.plain = self.start + plain_len(&self.buf[self.start..self.end]);
        }
        if let Some(n) = memchr::memchr(b'\n', &self.buf[self.start..self.plain]) {
            self.entry = self.start..self.start + n;
            self.start += n + 1;
            self.next_line += 1;
            return Ok(true);
        }
        let found = self.careful_entry()?;
        self.plain = 0;
        Ok(found.map(|range| self.entry = range).is_some())
    }

    /// As [`Source::entry`], octet by octet.
    fn careful_entry(&mut self) -> Result<Option<Range<usize>>, Error> {
        // State of the search, kept over refills; offsets are relative to `start`.
        let (mut i, mut depth, mut open, mut quote) = (0, 0u32, 0, None);
        let (mut comment, mut content) = (false, false);
        loop {
            let buf = &self.buf[..self.end];
            let mut at = self.start + i;
            'search: while at < buf.len() {
                if comment {
                    match buf[at..].iter().position(|&b| b == b'\n') {
                        Some(n) => at += n,
                        None => {
                            at = buf.len();
                            break 'search;
                        }
                    }
                    comment = false;
                }
                let b = buf[at];
                if !SPECIAL[usize::from(b)] {
                    at += 1;
                    continue;
                }
                match b {
                    b'\n' => {
                        if let Some(q) = quote {
                            return Err(self.bad(self.start + q, "a string without its closing quote"));
                        }
                        self.next_line += 1;
                        if depth == 0 {
                            let entry = self.start..at;
                            self.start = at + 1;
                            return Ok(Some(entry));
                        }
                    }
                    b'"' => {
                        quote = if quote.is_some() { None } else { Some(at - self.start) };
                        content = true;
                    }
                    b'\\' => {
                        content = true;
                        if at + 1 == buf.len() && !self.eof {
                            break 'search;
                        }
                        // An escaped line end would hide the end of the entry: no name needs one.
                        if buf.get(at + 1).is_some_and(|&next| next >= b' ') {
                            at += 1;
                        }
                    }
                    b';' if quote.is_none() => comment = true,
                    b'(' if quote.is_none() => {
                        if depth == 0 {
                            open = at - self.start;
                        }
                        depth += 1;
                        content = true;
                    }
                    b')' if quote.is_none() => match depth.checked_sub(1) {
                        Some(less) => depth = less,
                        None => return Err(self.bad(at, "a closing parenthesis without an opening one")),
                    },
                    b';' | b'(' | b')' => {}
                    _ => return Err(self.binary(at)),
                }
                at += 1;
            }
            i = at - self.start;
            if self.eof {
                return self.rest(content, depth, open);
            }
            self.fill()?;
        }
    }

    /// The rest of a file that ends without a line end.
    fn rest(&mut self, content: bool, depth: u32, open: usize) -> Result<Option<Range<usize>>, Error> {
        if depth > 0 {
            return Err(self.bad(self.start + open, "a parenthesis that is not closed before the file ends"));
        }
        let left = &self.buf[self.start..self.end];
        let text = left.split(|&b| b == b';').next().unwrap_or_default();
        if content || !text.trim_ascii().is_empty() {
            return Err(self.bad(
                self.end,
                "the file ends within a line: it seems cut off (end the line if it is complete)",
            ));
        }
        self.start = self.end;
        Ok(None)
    }

    fn binary(&self, at: usize) -> Error {
        let known = match self.buf[..self.end.min(8)] {
            [0xfd, b'7', b'z', b'X', b'Z', ..] => "compressed with xz: unpack it with `xz -d` first",
            [0x1f, 0x8b, ..] => "compressed with gzip: unpack it with `gunzip` first",
            [0x28, 0xb5, 0x2f, 0xfd, ..] => "compressed with zstd: unpack it with `unzstd` first",
            _ => "expected a zone in text form (RFC 1035 section 5)",
        };
        self.bad(at, format!("octet {} is not text: {known}", self.buf[at]))
    }

    /// Reads more behind what is there; the entry begun stays whole.
    fn fill(&mut self) -> Result<(), Error> {
        if self.start > 0 {
            self.buf.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            (self.start, self.plain) = (0, 0);
        }
        if self.end > MAX_ENTRY {
            return Err(self.bad(0, "an entry of more than a million octets: expected a zone in text form"));
        }
        if self.buf.len() < self.end + CHUNK {
            self.buf.resize(self.end + CHUNK, 0);
        }
        loop {
            match self.reader.read(&mut self.buf[self.end..]) {
                Ok(n) => {
                    self.eof = n == 0;
                    self.end += n;
                    self.octets += n as u64;
                    return Ok(());
                }
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(source) => return Err(Error::Read { file: self.file.clone(), source }),
            }
        }
    }
}
