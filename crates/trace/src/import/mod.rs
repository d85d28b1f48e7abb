//! A trace as a table: Parquet files with a row for each query, beside its answer.
//!
//! A query without an answer has NULL in the answer's columns; an answer without a query has no row, but is counted
//! ([`Summary`]), as is everything else that gives none. Answers are found by [`crate::pair`].
//!
//! The columns have the names of ENTRADA's, SIDN Labs' warehouse of DNS traffic, where it has them: the schema
//! `src/main/resources/avro/dns-query.avsc` of its repository, SIDN/entrada (Wullink, Moura, Müller and Hesselman,
//! "ENTRADA: a high-performance network traffic data streaming warehouse", NOMS 2016). What differs:
//!
//! - `time` is a timestamp in microseconds where ENTRADA has milliseconds since 1970 in an integer; `time_ns` has the
//!   nanoseconds. `proc_time` and `tcp_hs_rtt` are ENTRADA's in milliseconds; `proc_time_ns` and `tcp_hs_rtt_ns` exact.
//! - `rcode` is NULL without an answer (there -1), and has the upper bits of the OPT record.
//! - `qdcount` is the query's (there the answer's where there is one).
//! - `labels` is NULL without a question (there 0). `req_ip_df` and `res_ip_df` are NULL where there is no such bit to be
//!   known: over IPv6 and over TCP.
//! - Left out, as a capture does not say them: `country`, `asn`, `asn_organisation` and the like of client subnets,
//!   `pub_resolver`, `server_location`; `domainname`, which wants the public suffix list of the day; `pcap_file`, as all
//!   captures are one trace; `edns_ping`, an option that never got a number.
//! - Ours alone: the columns that end in `_ns`, those of the answer that begin with `res_` but for `res_len` and
//!   `res_ip_df`, `req_checksum`, `edns_ext_error`.
//!
//! Integers are signed and timestamps in UTC, as Spark reads nothing else before 3.2. Rows are in the order in which their
//! answers came or were given up. The files are the same octets whatever the number of threads: one thread reads and
//! pairs, others encode a row group each, which are written in their order.

mod columns;
mod files;
mod row;

pub use columns::{Kind, columns};

use crate::pair::Pairs;
use crate::read::{self, Event, Message, Options, Reader, Skipped};
use files::Files;
use measure::Nanos;
use measure::clock::SECOND;
use row::Row;
use serde::Serialize;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

/// The name of the schema, under the key `dnsrack.schema` of the files' metadata.
pub const SCHEMA: &str = "dnsrack.trace.import/1";

/// How a trace is imported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spec {
    /// The servers' ports.
    pub ports: Vec<u16>,
    /// Rows of a row group; what is in memory grows with it.
    pub rows_per_group: usize,
    /// Rows of a file at most, rounded up to whole row groups.
    pub rows_per_file: u64,
    /// Threads that encode, beside the one that reads.
    pub threads: usize,
}

impl Default for Spec {
    /// Port 53; row groups of 131,072 rows, files of ten million; one thread.
    fn default() -> Self {
        Self { ports: vec![53], rows_per_group: 1 << 17, rows_per_file: 10_000_000, threads: 1 }
    }
}

/// Counts of an import.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Summary {
    /// Rows: one a query.
    pub rows: u64,
    /// Of them, those with an answer.
    pub answered: u64,
    /// Of them, those without one.
    pub unanswered: u64,
    /// Answers without their query: no row.
    pub unsolicited: u64,
    /// Files.
    pub files: u64,
    /// Octets of them.
    pub octets: u64,
    /// Packets that were read.
    pub packets: u64,
    /// Nanoseconds since 1970 of the earliest packet; `None` where there is none.
    pub start_ns: Option<Nanos>,
    /// From there to the latest packet, in seconds.
    pub duration_s: f64,
    /// Messages that the capture cut short: what lies behind the cut is NULL.
    pub cut_short: u64,
    /// ICMP errors about DNS: no row.
    pub icmp_errors: u64,
    /// TCP connections without a DNS message: no row.
    pub connections_without_dns: u64,
    /// Packets that were skipped, by reason.
    pub ignored: Skipped,
}

/// Why a trace cannot be imported.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A capture cannot be read.
    #[error(transparent)]
    Read(#[from] read::Error),
    /// A file or folder cannot be made or written.
    #[error("{}: {source}", .path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Rows cannot be encoded.
    #[error("{}: rows cannot be written as Parquet: {source}", .path.display())]
    Parquet {
        /// The file.
        path: PathBuf,
        /// Why.
        source: parquet::errors::ParquetError,
    },
    /// There is something at the place of the new folder.
    #[error("{}: {what}: give a folder that does not exist yet, or is empty", .path.display())]
    Occupied {
        /// The folder.
        path: PathBuf,
        /// A description of the file that is in the way.
        what: &'static str,
    },
}

/// Imports captures, read as one trace, into Parquet files in `folder`, which must not exist or be empty: the files are
/// written in a folder beside it, which takes its name when all are whole. `progress` hears the packets read so far.
///
/// # Errors
/// As the reader's; a folder that cannot be made or is occupied. Nothing is left then.
pub fn import(
    captures: &[PathBuf],
    folder: &Path,
    spec: &Spec,
    progress: &mut dyn FnMut(u64),
) -> Result<Summary, Error> {
    let mut files = Files::new(folder, spec.rows_per_file)?;
    let options = Options { ports: spec.ports.clone(), ..Options::default() };
    let mut reader = Reader::open(captures, &options)?;
    let seen = AtomicU64::new(0);
    let mut summary = thread::scope(|scope| {
        let mut encoders = Vec::new();
        let mut encoded = Vec::new();
        for _ in 0..spec.threads.max(1) {
            // Without room between them: of rows there are only those that are collected and those that are encoded.
            let (give, take) = sync_channel::<Vec<Row>>(0);
            let (done, groups) = sync_channel(0);
            scope.spawn(move || encode(&take, &done));
            encoders.push(give);
            encoded.push(groups);
        }
        let (reader, seen) = (&mut reader, &seen);
        let reading = scope.spawn(move || collect(reader, spec.rows_per_group, encoders, seen));
        // In turn, so that row groups are in order.
        for groups in encoded.iter().cycle() {
            let group = loop {
                match groups.recv_timeout(Duration::from_millis(20)) {
                    Ok(group) => break Some(group),
                    Err(RecvTimeoutError::Disconnected) => break None,
                    Err(RecvTimeoutError::Timeout) => progress(seen.load(Ordering::Relaxed)),
                }
            };
            let Some(group) = group else { break };
            let written = group.map_err(|e| files.failed(e)).and_then(|group| files.append(group));
            if let Err(error) = written {
                drop(encoded);
                return Err(error);
            }
        }
        let collected = reading.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        collected.map_err(Error::from)
    })?;
    (summary.files, summary.octets) = files.finish()?;
    Ok(summary)
}

/// Encodes row groups until there are no more, or nobody wants them.
fn encode(take: &Receiver<Vec<Row>>, done: &SyncSender<Result<files::Group, parquet::errors::ParquetError>>) {
    let mut encoder = files::Encoder::new();
    for rows in take {
        let group = encoder.as_mut().map_err(|e| parquet::errors::ParquetError::General(e.to_string()));
        if done.send(group.and_then(|encoder| encoder.encode(&rows))).is_err() {
            break;
        }
    }
}

/// The number of packets between two progress reports.
const STEP: u64 = 1 << 14;

/// Reads the trace, pairs, and gives rows to the encoders in turn. Where an encoder is gone it stops: somebody else knows
/// why.
fn collect(
    reader: &mut Reader,
    rows_per_group: usize,
    encoders: Vec<SyncSender<Vec<Row>>>,
    seen: &AtomicU64,
) -> Result<Summary, read::Error> {
    let mut rows = Rows { pairs: Pairs::default(), ready: Vec::new(), summary: Summary::default() };
    let mut turn = encoders.iter().cycle();
    let mut reported = 0;
    while let Some(event) = reader.next_event()? {
        if let Event::Message(message) = &event {
            rows.add(message);
        }
        if rows.ready.len() >= rows_per_group && !rows.hand_over(rows_per_group, &mut turn) {
            return Ok(rows.summary);
        }
        if reader.seen() >= reported + STEP {
            reported = reader.seen();
            seen.store(reported, Ordering::Relaxed);
        }
    }
    rows.give_up();
    while !rows.ready.is_empty() && rows.hand_over(rows_per_group, &mut turn) {}
    let (counts, mut summary) = (reader.counts(), rows.summary);
    summary.rows = summary.answered + summary.unanswered;
    summary.packets = counts.packets;
    summary.cut_short = counts.cut_short;
    summary.icmp_errors = counts.quotes;
    summary.connections_without_dns = counts.connections - counts.connections_with_dns;
    summary.ignored = reader.skipped().clone();
    if let Some((first, last)) = reader.span() {
        summary.start_ns = Some(first);
        summary.duration_s = (last - first) as f64 / SECOND as f64;
    }
    Ok(summary)
}

/// From messages to rows.
struct Rows {
    pairs: Pairs<Box<Row>>,
    /// Rows to which nothing is added any more.
    ready: Vec<Row>,
    summary: Summary,
}

impl Rows {
    fn add(&mut self, message: &Message<'_>) {
        if !message.header().qr() {
            let (ready, unanswered) = (&mut self.ready, &mut self.summary.unanswered);
            self.pairs.expire(message.at, |row| {
                ready.push(*row);
                *unanswered += 1;
            });
            self.pairs.query(message, Box::new(Row::new(message)));
        } else if let Some((mut row, latency)) = self.pairs.answer(message) {
            row.answer(message, latency);
            self.ready.push(*row);
            self.summary.answered += 1;
        } else {
            self.summary.unsolicited += 1;
        }
    }

    /// No more answers will come.
    fn give_up(&mut self) {
        let (ready, unanswered) = (&mut self.ready, &mut self.summary.unanswered);
        self.pairs.finish(|row| {
            ready.push(*row);
            *unanswered += 1;
        });
    }

    /// Gives a row group to the encoder whose turn it is; false where that is gone.
    fn hand_over<'a>(
        &mut self,
        count: usize,
        turn: &mut impl Iterator<Item = &'a SyncSender<Vec<Row>>>,
    ) -> bool {
        let rest = self.ready.split_off(count.clamp(1, self.ready.len()));
        let group = std::mem::replace(&mut self.ready, rest);
        turn.next().is_some_and(|encoder| encoder.send(group).is_ok())
    }
}
