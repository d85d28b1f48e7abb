//! Records grouped into RRsets, as a stream.

use crate::error::Error;
use crate::scan::{Record, Scanner};
use wire::name;

/// An RRset, in buffers that the next one overwrites.
#[derive(Clone, Copy, Debug)]
pub struct Rrset<'a> {
    /// Owner, wire format, letters as written.
    pub owner: &'a [u8],
    /// Seconds: the lowest where records differ (RFC 2181 section 5.2).
    pub ttl: u32,
    /// 1 for IN.
    pub class: u16,
    /// As in [`wire::rtype`].
    pub rtype: u16,
    /// Line of the first record, from one; zero where there is no file.
    pub line: u64,
    /// Data of all records, one after the other.
    data: &'a [u8],
    /// Where each record's data end.
    ends: &'a [u32],
}

impl<'a> Rrset<'a> {
    /// The data of each record, uncompressed wire format, in the order of the file.
    pub fn rdatas(&self) -> impl ExactSizeIterator<Item = &'a [u8]> + use<'a> {
        let (data, ends) = (self.data, self.ends);
        (0..ends.len()).map(move |i| {
            let start = if i == 0 { 0 } else { ends[i - 1] as usize };
            &data[start..ends[i] as usize]
        })
    }
}

/// A stream of RRsets.
pub trait RrsetSource {
    /// The next RRset; `None` at the end.
    ///
    /// # Errors
    /// What the source met; do not go on after an error.
    fn next(&mut self) -> Result<Option<Rrset<'_>>, Error>;

    /// What messages call the source.
    fn file(&self) -> &str;

    /// Octets read so far.
    fn octets(&self) -> u64;
}

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

/// Groups consecutive records of one owner and type. An RRset whose records do not follow each other
/// comes in several pieces.
pub struct Rrsets<R = Scanner> {
    records: R,
    current: Buffer,
    ahead: Buffer,
    started: bool,
}

#[derive(Default)]
struct Buffer {
    owner: Vec<u8>,
    ttl: u32,
    class: u16,
    rtype: u16,
    line: u64,
    data: Vec<u8>,
    ends: Vec<u32>,
}

impl Buffer {
    fn begin(&mut self, record: &Record<'_>) {
        self.owner.clear();
        self.owner.extend_from_slice(record.owner);
        (self.ttl, self.class, self.rtype, self.line) = (record.ttl, record.class, record.rtype, record.line);
        self.data.clear();
        self.ends.clear();
        self.push(record);
    }

    fn push(&mut self, record: &Record<'_>) {
        self.ttl = self.ttl.min(record.ttl);
        self.data.extend_from_slice(record.rdata);
        self.ends.push(self.data.len() as u32);
    }
}

impl<R: RecordSource> Rrsets<R> {
    /// Groups the records of a source.
    pub fn new(records: R) -> Self {
        Self { records, current: Buffer::default(), ahead: Buffer::default(), started: false }
    }
}

impl<R: RecordSource> RrsetSource for Rrsets<R> {
    fn next(&mut self) -> Result<Option<Rrset<'_>>, Error> {
        if !self.started {
            self.started = true;
            if let Some(record) = self.records.next()? {
                self.ahead.begin(&record);
            }
        }
        if self.ahead.ends.is_empty() {
            return Ok(None);
        }
        std::mem::swap(&mut self.current, &mut self.ahead);
        self.ahead.ends.clear();
        while let Some(record) = self.records.next()? {
            let set = &mut self.current;
            if record.rtype != set.rtype || !name::equal(record.owner, &set.owner) {
                self.ahead.begin(&record);
                break;
            }
            set.push(&record);
        }
        let Buffer { owner, ttl, class, rtype, line, data, ends } = &self.current;
        Ok(Some(Rrset { owner, ttl: *ttl, class: *class, rtype: *rtype, line: *line, data, ends }))
    }

    fn file(&self) -> &str {
        self.records.file()
    }

    fn octets(&self) -> u64 {
        self.records.octets()
    }
}
