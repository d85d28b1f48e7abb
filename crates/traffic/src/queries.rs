//! Files of queries in dnsperf's format: `name type` a line.

use crate::lines::Lines;
use crate::spec::QueriesSpec;
use crate::{Error, Query, QuerySource};
use std::io::{self, Write};
use std::path::Path;
use wire::query::Edns;
use wire::{name, rtype};

/// Queries from a file, streamed: memory does not grow with the file.
pub struct Queries {
    lines: Lines,
    edns: Option<Edns>,
    cycle: bool,
    worker: u64,
    workers: u64,
    index: u64,
    at_start: u64,
    qname: Vec<u8>,
}

impl Queries {
    /// Opens the file for worker `worker` of `workers`. Lines are judged as they come; read the file
    /// with [`check_queries_file`] before.
    ///
    /// # Errors
    /// Where the file cannot be read, or is not a regular file.
    pub fn open(spec: &QueriesSpec, worker: u32, workers: u32) -> Result<Self, Error> {
        Ok(Self {
            lines: Lines::open(&spec.path)?,
            edns: spec.edns.map(Edns::from),
            cycle: spec.cycle,
            worker: u64::from(worker),
            workers: u64::from(workers.max(1)),
            index: 0,
            at_start: 0,
            qname: Vec::with_capacity(name::MAX_NAME),
        })
    }
}

impl QuerySource for Queries {
    fn next(&mut self, query: &mut Query) -> Result<bool, Error> {
        loop {
            let Some((text, column)) = self.lines.next()? else {
                if !self.cycle {
                    return Ok(false);
                }
                if self.index == self.at_start {
                    return Err(Error::Empty { path: self.lines.path.clone(), what: "query" });
                }
                self.at_start = self.index;
                self.lines.rewind()?;
                continue;
            };
            let index = self.index;
            self.index += 1;
            if index % self.workers != self.worker {
                continue;
            }
            let qtype = match parse_line(text, &mut self.qname) {
                Ok(qtype) => qtype,
                Err((at, what)) => return Err(self.lines.error(column + at, what)),
            };
            wire::query::write(&mut query.bytes, 0, &self.qname, qtype, self.edns);
            *query = Query { index, bytes: std::mem::take(&mut query.bytes), ..Query::default() };
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
    let mut lines = Lines::open(path)?;
    let mut qname = Vec::new();
    let mut count = 0;
    while let Some((text, column)) = lines.next()? {
        if let Err((at, what)) = parse_line(text, &mut qname) {
            return Err(lines.error(column + at, what));
        }
        count += 1;
    }
    if count == 0 { Err(Error::Empty { path: path.to_owned(), what: "query" }) } else { Ok(count) }
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
