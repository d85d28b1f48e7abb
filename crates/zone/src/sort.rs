//! Sorting outside memory: entries of a key and a value, and with it the records of zones that are not in
//! canonical order (RFC 4034 section 6.1).
//!
//! Entries fill a buffer of [`BUFFER`] octets; full buffers are sorted and written, one after the other, to one
//! temporary file (in `TMPDIR`, otherwise /tmp; about the size of the zone), then all are merged. What fits the
//! buffer never touches a disk. While merging, each sorted part has a window of 64 KiB: 1/2048 of what is sorted.

use crate::error::Error;
use crate::scan::{Record, Scanner};
use crate::source::RecordSource;
use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;
use std::fs::File;
use std::io::{self, BufWriter, Write as _};
use std::ops::Range;
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;
use wire::{name, rtype};

/// Octets of entries and of their index in memory.
const BUFFER: usize = 128 << 20;
/// Octets of each sorted part in memory while merging.
const WINDOW: usize = 64 << 10;
/// Lengths of key (two octets) and value (four) before each entry.
const HEAD: usize = 6;

/// Takes entries in any order. Keys compare octet by octet; equal ones stay in the order of arrival.
pub(crate) struct Sorter {
    buffer: usize,
    entries: Vec<u8>,
    index: Vec<Indexed>,
    file: Option<File>,
    written: u64,
    parts: Vec<Range<u64>>,
}

#[derive(Clone, Copy)]
pub(crate) struct Indexed {
    /// The key's first octets, which settle most comparisons.
    prefix: u64,
    at: u32,
}

/// Key and value of the entry at the start of some octets.
fn split(entry: &[u8]) -> (&[u8], &[u8]) {
    let (key, value) = lengths(entry);
    (&entry[HEAD..HEAD + key], &entry[HEAD + key..HEAD + key + value])
}

fn lengths(entry: &[u8]) -> (usize, usize) {
    let key = u16::from_be_bytes([entry[0], entry[1]]);
    let value = u32::from_be_bytes([entry[2], entry[3], entry[4], entry[5]]);
    (usize::from(key), value as usize)
}

impl Sorter {
    /// With the usual memory.
    pub fn new() -> Self {
        Self::with_buffer(BUFFER)
    }

    /// With `buffer` octets of memory, below 4 GiB.
    fn with_buffer(buffer: usize) -> Self {
        Self { buffer, entries: Vec::new(), index: Vec::new(), file: None, written: 0, parts: Vec::new() }
    }

    /// Takes an entry; its key has at most 65,535 octets.
    pub fn push(&mut self, key: &[u8], value: &[u8]) -> io::Result<()> {
        let used = self.entries.len() + self.index.len() * size_of::<Indexed>();
        if !self.index.is_empty() && used + HEAD + key.len() + value.len() > self.buffer {
            self.spill()?;
        }
        let mut prefix = [0; 8];
        let n = key.len().min(8);
        prefix[..n].copy_from_slice(&key[..n]);
        self.index.push(Indexed { prefix: u64::from_be_bytes(prefix), at: self.entries.len() as u32 });
        self.entries.extend_from_slice(&(key.len() as u16).to_be_bytes());
        self.entries.extend_from_slice(&(value.len() as u32).to_be_bytes());
        self.entries.extend_from_slice(key);
        self.entries.extend_from_slice(value);
        Ok(())
    }

    fn sort(&mut self) {
        let key = |i: &Indexed| split(&self.entries[i.at as usize..]).0;
        let order = |a: &Indexed, b: &Indexed| {
            a.prefix.cmp(&b.prefix).then_with(|| key(a).cmp(key(b))).then(a.at.cmp(&b.at))
        };
        self.index.sort_unstable_by(order);
    }

    /// Writes the buffer, sorted, to the temporary file.
    fn spill(&mut self) -> io::Result<()> {
        self.sort();
        let file = match &mut self.file {
            Some(file) => file,
            none => none.insert(tempfile::tempfile()?),
        };
        let start = self.written;
        let mut out = BufWriter::with_capacity(1 << 20, file);
        for entry in &self.index {
            let entry = &self.entries[entry.at as usize..];
            let (key, value) = lengths(entry);
            out.write_all(&entry[..HEAD + key + value])?;
            self.written += (HEAD + key + value) as u64;
        }
        out.flush()?;
        self.parts.push(start..self.written);
        self.entries.clear();
        self.index.clear();
        Ok(())
    }

    /// All entries in order.
    pub fn finish(mut self) -> io::Result<Sorted> {
        if self.parts.is_empty() {
            self.sort();
            return Ok(Sorted::Memory { entries: self.entries, index: self.index, next: 0 });
        }
        if !self.index.is_empty() {
            self.spill()?;
        }
        // The buffer is not needed any more; the windows are.
        (self.entries, self.index) = (Vec::new(), Vec::new());
        let Some(file) = self.file.map(Arc::new) else { unreachable!("parts are in a file") };
        let mut heap = BinaryHeap::with_capacity(self.parts.len());
        for (number, range) in self.parts.into_iter().enumerate() {
            let mut part = Part { file: file.clone(), rest: range, window: Vec::new(), at: 0, number };
            part.fill()?;
            heap.push(part);
        }
        Ok(Sorted::Merge { heap, started: false })
    }
}

/// Entries in order.
pub(crate) enum Sorted {
    Memory { entries: Vec<u8>, index: Vec<Indexed>, next: usize },
    Merge { heap: BinaryHeap<Part>, started: bool },
}

impl Sorted {
    /// The next key and value; `None` at the end.
    pub fn next(&mut self) -> io::Result<Option<(&[u8], &[u8])>> {
        match self {
            Self::Memory { entries, index, next } => {
                let Some(entry) = index.get(*next) else { return Ok(None) };
                *next += 1;
                Ok(Some(split(&entries[entry.at as usize..])))
            }
            Self::Merge { heap, started } => {
                // The head that was given last time.
                if std::mem::replace(started, true)
                    && let Some(mut first) = heap.peek_mut()
                    && !first.advance()?
                {
                    PeekMut::pop(first);
                }
                Ok(heap.peek().map(|part| split(&part.window[part.at..])))
            }
        }
    }
}

/// A sorted part of the temporary file, with the entry that comes next at `window[at]`.
pub(crate) struct Part {
    file: Arc<File>,
    rest: Range<u64>,
    window: Vec<u8>,
    at: usize,
    number: usize,
}

impl Part {
    /// Goes to the next entry; false at the end.
    fn advance(&mut self) -> io::Result<bool> {
        let (key, value) = lengths(&self.window[self.at..]);
        self.at += HEAD + key + value;
        if self.at == self.window.len() && self.rest.is_empty() {
            return Ok(false);
        }
        self.fill()?;
        Ok(true)
    }

    /// Makes sure that the window holds the whole next entry.
    fn fill(&mut self) -> io::Result<()> {
        loop {
            let here = &self.window[self.at..];
            let need = if here.len() < HEAD {
                HEAD
            } else {
                let (key, value) = lengths(here);
                HEAD + key + value
            };
            if here.len() >= need {
                return Ok(());
            }
            self.window.drain(..self.at);
            self.at = 0;
            let held = self.window.len();
            let wanted = (need.max(WINDOW) - held) as u64;
            let take = wanted.min(self.rest.end - self.rest.start);
            if take == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            self.window.resize(held + take as usize, 0);
            self.file.read_exact_at(&mut self.window[held..], self.rest.start)?;
            self.rest.start += take;
        }
    }

    fn key(&self) -> &[u8] {
        split(&self.window[self.at..]).0
    }
}

// The heap gives the greatest: the part with the least key, and of equal ones the first.
impl Ord for Part {
    fn cmp(&self, other: &Self) -> Ordering {
        other.key().cmp(self.key()).then_with(|| other.number.cmp(&self.number))
    }
}

impl PartialOrd for Part {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Part {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Part {}

/// The records of a zone in canonical order of their owners, those of an owner by type with the SOA first, those
/// of an RRset as they came.
pub struct Records {
    sorted: Sorted,
    file: String,
    octets: u64,
}

/// Reads a zone to its end and gives its records in canonical order: RRsets in one piece, those of an owner by
/// type, the SOA first. `progress` hears how many octets are read.
///
/// # Errors
/// The scanner's, and [`Error::Spool`].
pub fn sorted(mut scanner: Scanner, progress: &mut dyn FnMut(u64)) -> Result<Records, Error> {
    let spool = |source| Error::Spool { source };
    let file = scanner.file().to_owned();
    let mut sorter = Sorter::new();
    let (mut key, mut value) = (Vec::new(), Vec::new());
    let (mut count, mut octets) = (0u64, 0);
    while let Some(record) = scanner.next()? {
        key.clear();
        name::sort_key(record.owner, &mut key);
        // No record is of type 0.
        let order = if record.rtype == rtype::SOA { 0 } else { record.rtype };
        key.extend_from_slice(&order.to_be_bytes());
        encode(&record, &mut value);
        sorter.push(&key, &value).map_err(spool)?;
        count += 1;
        if count.is_multiple_of(4096) {
            octets = scanner.octets();
            progress(octets);
        }
    }
    let octets = scanner.octets().max(octets);
    progress(octets);
    Ok(Records { sorted: sorter.finish().map_err(spool)?, file, octets })
}

fn encode(record: &Record<'_>, out: &mut Vec<u8>) {
    out.clear();
    out.extend_from_slice(&record.ttl.to_be_bytes());
    out.extend_from_slice(&record.class.to_be_bytes());
    out.extend_from_slice(&record.rtype.to_be_bytes());
    out.extend_from_slice(&record.line.to_be_bytes());
    out.extend_from_slice(record.owner);
    out.extend_from_slice(record.rdata);
}

fn decode(value: &[u8]) -> Option<Record<'_>> {
    let (&[a, b, c, d, e, f, g, h], rest) = value.split_first_chunk::<8>()?;
    let (line, rest) = rest.split_first_chunk::<8>()?;
    let (owner, rdata) = rest.split_at(name::wire_len(rest)?);
    let (ttl, class) = (u32::from_be_bytes([a, b, c, d]), u16::from_be_bytes([e, f]));
    let (rtype, line) = (u16::from_be_bytes([g, h]), u64::from_be_bytes(*line));
    Some(Record { owner, ttl, class, rtype, rdata, line })
}

impl RecordSource for Records {
    fn next(&mut self) -> Result<Option<Record<'_>>, Error> {
        let spool = |source| Error::Spool { source };
        match self.sorted.next().map_err(spool)? {
            None => Ok(None),
            Some((_, value)) => {
                let broken = || spool(io::ErrorKind::InvalidData.into());
                decode(value).map(Some).ok_or_else(broken)
            }
        }
    }

    fn file(&self) -> &str {
        &self.file
    }

    fn octets(&self) -> u64 {
        self.octets
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn entries_come_out_sorted_and_stable(
            keys in prop::collection::vec(prop::collection::vec(0u8..4, 0..12), 0..300),
            buffer in 1usize..5000,
        ) {
            let mut sorter = Sorter::with_buffer(buffer);
            for (i, key) in keys.iter().enumerate() {
                // Values of all sizes, beyond the window too.
                let value = [&i.to_be_bytes()[..], &vec![7; if i % 97 == 5 { 70_000 } else { i % 50 }]].concat();
                sorter.push(key, &value).unwrap();
            }
            let mut sorted = sorter.finish().unwrap();
            let mut got = Vec::new();
            while let Some((key, value)) = sorted.next().unwrap() {
                got.push((key.to_vec(), usize::from_be_bytes(*value.first_chunk().unwrap())));
            }
            let mut expected: Vec<(Vec<u8>, usize)> = keys.into_iter().zip(0..).collect();
            expected.sort();
            prop_assert_eq!(got, expected);
        }
    }
}
