//! Files of queries in dnsperf's format: `name type` a line.

use crate::lines::Lines;
use crate::spec::QueriesSpec;
use crate::{Error, Query, QuerySource};
use std::collections::HashSet;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use wire::query::Edns;
use wire::{name, rtype};

/// Files up to this size, in octets, are read once and kept; larger ones are read again in each cycle.
const LOADED_MAX: u64 = 64 << 20;

/// A file of queries in memory: for each its type, the length of its name, and the name in wire format.
#[derive(Clone)]
struct Loaded(Arc<[u8]>);

/// Where queries come from.
enum From {
    Lines(Lines),
    Loaded { all: Loaded, at: usize },
}

/// Queries from a file: kept in memory where it is small, streamed where it is not, so that memory does not grow with it.
pub struct Queries {
    from: From,
    path: PathBuf,
    edns: Option<Edns>,
    cycle: bool,
    worker: u64,
    workers: u64,
    index: u64,
    at_start: u64,
    qname: Vec<u8>,
}

impl Queries {
    /// Opens the file for worker `worker` of `workers`. Where it is streamed, lines are checked as they come; read the
    /// file with [`check_queries_file`] before. To open several, use [`Self::open_all`].
    ///
    /// # Errors
    /// Where the file cannot be read, or is not a regular file.
    pub fn open(spec: &QueriesSpec, worker: u32, workers: u32) -> Result<Self, Error> {
        let from = match load(spec)? {
            Some(all) => From::Loaded { all, at: 0 },
            None => From::Lines(Lines::open(&spec.path)?),
        };
        Ok(Self::new(spec, from, worker, workers))
    }

    /// Opens the file for all workers, in order.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn open_all(spec: &QueriesSpec, workers: u32) -> Result<Vec<Self>, Error> {
        let loaded = load(spec)?;
        let from = || match &loaded {
            Some(all) => Ok(From::Loaded { all: all.clone(), at: 0 }),
            None => Lines::open(&spec.path).map(From::Lines),
        };
        (0..workers).map(|worker| Ok(Self::new(spec, from()?, worker, workers))).collect()
    }

    fn new(spec: &QueriesSpec, from: From, worker: u32, workers: u32) -> Self {
        Self {
            from,
            path: spec.path.clone(),
            edns: spec.edns.map(Edns::from),
            cycle: spec.cycle,
            worker: u64::from(worker),
            workers: u64::from(workers.max(1)),
            index: 0,
            at_start: 0,
            qname: Vec::with_capacity(name::MAX_NAME),
        }
    }

    /// Goes back to the beginning where that is wanted; false where the source ends here.
    fn begin_again(&mut self) -> Result<bool, Error> {
        if !self.cycle {
            return Ok(false);
        }
        if self.index == self.at_start {
            return Err(Error::Empty { path: self.path.clone(), what: "query" });
        }
        self.at_start = self.index;
        match &mut self.from {
            From::Lines(lines) => lines.rewind()?,
            From::Loaded { at, .. } => *at = 0,
        }
        Ok(true)
    }
}

/// The file in memory; `None` where it is too large.
fn load(spec: &QueriesSpec) -> Result<Option<Loaded>, Error> {
    let mut lines = Lines::open(&spec.path)?;
    if lines.size()? > LOADED_MAX {
        return Ok(None);
    }
    let (mut all, mut qname) = (Vec::new(), Vec::new());
    while let Some((text, column)) = lines.next()? {
        match parse_line(text, &mut qname) {
            Ok(qtype) => {
                all.extend_from_slice(&qtype.to_be_bytes());
                all.push(qname.len() as u8); // at most 255: RFC 1035, section 2.3.4
                all.extend_from_slice(&qname);
            }
            Err((at, what)) => return Err(lines.error(column + at, what)),
        }
    }
    Ok(Some(Loaded(all.into())))
}

impl QuerySource for Queries {
    fn next(&mut self, query: &mut Query) -> Result<bool, Error> {
        loop {
            let mine = self.index % self.workers == self.worker;
            let (qname, qtype) = match &mut self.from {
                From::Loaded { all, at } => {
                    let Some(([a, b, len], rest)) = all.0[*at..].split_first_chunk() else {
                        if !self.begin_again()? {
                            return Ok(false);
                        }
                        continue;
                    };
                    *at += 3 + usize::from(*len);
                    (&rest[..usize::from(*len)], u16::from_be_bytes([*a, *b]))
                }
                From::Lines(lines) => {
                    let Some((text, column)) = lines.next()? else {
                        if !self.begin_again()? {
                            return Ok(false);
                        }
                        continue;
                    };
                    if !mine {
                        self.index += 1;
                        continue;
                    }
                    match parse_line(text, &mut self.qname) {
                        Ok(qtype) => (&self.qname[..], qtype),
                        Err((at, what)) => return Err(lines.error(column + at, what)),
                    }
                }
            };
            query.index = self.index;
            self.index += 1;
            if !mine {
                continue;
            }
            wire::query::write(&mut query.bytes, 0, qname, qtype, self.edns);
            (query.df, query.checksum, query.nonexistent) = (false, wire::Checksum::Right, false);
            return Ok(true);
        }
    }
}

/// Reads `name type`: the name in wire format into `qname`, the type returned; or the offset of the
/// fault and what it is. Names are absolute with or without their last dot, as for dnsperf.
pub(crate) fn parse_line(text: &[u8], qname: &mut Vec<u8>) -> Result<u16, (usize, String)> {
    let blank = |b: &u8| b.is_ascii_whitespace();
    let split = text.iter().position(blank).unwrap_or(text.len());
    let (owner, rest) = text.split_at(split);
    qname.clear();
    name::parse_into(owner, Some(name::ROOT), qname).map_err(|e| (e.offset(), e.to_string()))?;
    let Some(gap) = rest.iter().position(|b| !blank(b)) else {
        return Err((split, "a name without a type: expected 'name type', such as 'example.com A'".into()));
    };
    let rest = &rest[gap..];
    let end = rest.iter().position(blank).unwrap_or(rest.len());
    let Some(qtype) = rtype::from_text(&rest[..end]) else {
        let shown = String::from_utf8_lossy(&rest[..end.min(40)]);
        return Err((
            split + gap,
            format!("'{shown}' is not a type: give a name such as AAAA, or TYPE and a number"),
        ));
    };
    if end < rest.len() {
        let extra = end + rest[end..].iter().take_while(|b| blank(b)).count();
        return Err((split + gap + extra, "more than a name and a type: expected 'name type'".into()));
    }
    Ok(qtype)
}

/// Reads a file of queries through and returns how many there are.
///
/// # Errors
/// The first bad line with its column; a file without a query; one that cannot be read or is a pipe.
pub fn check_queries_file(path: &Path) -> Result<u64, Error> {
    let mut count = 0;
    each_name(path, |_| count += 1)?;
    if count == 0 { Err(Error::Empty { path: path.to_owned(), what: "query" }) } else { Ok(count) }
}

/// The names that a file of queries asks for, as wire names in lower case, each once, in no order. They are kept in memory.
///
/// # Errors
/// The first bad line with its column; a file that cannot be read or is a pipe.
pub fn names_asked_for(path: &Path) -> Result<HashSet<Vec<u8>>, Error> {
    let mut names = HashSet::new();
    each_name(path, |qname| {
        let lower = qname.to_ascii_lowercase();
        names.insert(lower);
    })?;
    Ok(names)
}

/// Hands out the name of each line of a file of queries.
fn each_name(path: &Path, mut each: impl FnMut(&[u8])) -> Result<(), Error> {
    let mut lines = Lines::open(path)?;
    let mut qname = Vec::new();
    while let Some((text, column)) = lines.next()? {
        if let Err((at, what)) = parse_line(text, &mut qname) {
            return Err(lines.error(column + at, what));
        }
        each(&qname);
    }
    Ok(())
}

/// Writes a query as a line of such a file; nothing where the message has no question. What the
/// format cannot say (EDNS, DF) is lost.
///
/// # Errors
/// The writer's.
pub fn write_line(query: &Query, line: &mut Vec<u8>, out: &mut (impl Write + ?Sized)) -> io::Result<()> {
    let Some(question) = wire::question::parse(&query.bytes) else { return Ok(()) };
    line.clear();
    name::write_text(question.qname, line);
    line.push(b' ');
    match rtype::name(question.qtype) {
        Some(text) => line.extend_from_slice(text.as_bytes()),
        None => write!(line, "TYPE{}", question.qtype)?,
    }
    line.push(b'\n');
    out.write_all(line)
}

/// Fuzz entry point: any octets as a line; what is read must be a whole name.
///
/// # Panics
/// Where it is not: a bug.
pub fn fuzz_line(text: &[u8]) {
    let mut qname = Vec::new();
    match parse_line(text, &mut qname) {
        Ok(_) => assert_eq!(name::wire_len(&qname), Some(qname.len())),
        Err((at, what)) => assert!(at <= text.len() && !what.is_empty()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_line_is_read_or_refused(text in prop::collection::vec(any::<u8>(), 0..300)) {
            fuzz_line(&text);
        }

        #[test]
        fn lines_go_there_and_back(label in prop::collection::vec(any::<u8>(), 1..20), qtype: u16) {
            let wire_name = [&[label.len() as u8], &label[..], b"\x03net\0"].concat();
            let mut query = Query::default();
            wire::query::write(&mut query.bytes, 0, &wire_name, qtype, None);
            let (mut line, mut out, mut qname) = (Vec::new(), Vec::new(), Vec::new());
            write_line(&query, &mut line, &mut out).unwrap();
            prop_assert_eq!(parse_line(out.trim_ascii(), &mut qname), Ok(qtype));
            prop_assert_eq!(qname, wire_name);
        }
    }
}
