//! A trace as a table: Parquet files with a row for each query, beside its answer.
//!
//! The rows and columns are those of [`crate::rows`]. What gives no row is counted ([`Summary`]).
//!
//! Integers are signed and timestamps in UTC, as Spark reads nothing else before 3.2. Rows are in the order in which their
//! answers came or were given up. The files are the same octets whatever the number of threads: one thread reads and
//! pairs, others encode a row group each, which are written in their order.

pub mod apart;
mod files;

use crate::read::{self, Event, Options, Reader, Skipped};
use crate::rows::row::{Parts, Row};
use crate::rows::{Filter, Rows};
use files::Files;
use measure::Nanos;
use measure::clock::SECOND;
use serde::{Deserialize, Serialize};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

/// The name of the schema, under the key `dnsrack.schema` of the files' metadata.
pub const SCHEMA: &str = "dnsrack.trace.import/1";

/// How a trace is imported.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
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
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
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

impl Summary {
    /// Adds another trace's counts.
    pub fn add(&mut self, other: &Self) {
        for (sum, count) in [
            (&mut self.rows, other.rows),
            (&mut self.answered, other.answered),
            (&mut self.unanswered, other.unanswered),
            (&mut self.unsolicited, other.unsolicited),
            (&mut self.files, other.files),
            (&mut self.octets, other.octets),
            (&mut self.packets, other.packets),
            (&mut self.cut_short, other.cut_short),
            (&mut self.icmp_errors, other.icmp_errors),
            (&mut self.connections_without_dns, other.connections_without_dns),
        ] {
            *sum += count;
        }
        let end = |s: &Self| s.start_ns.map(|start| start as f64 + s.duration_s * SECOND as f64);
        let end = [end(self), end(other)].into_iter().flatten().reduce(f64::max);
        self.start_ns = [self.start_ns, other.start_ns].into_iter().flatten().min();
        if let (Some(start), Some(end)) = (self.start_ns, end) {
            self.duration_s = (end - start as f64) / SECOND as f64;
        }
        self.ignored.merge(&other.ignored);
    }
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
    /// It was told to stop.
    #[error("stopped before all was imported")]
    Stopped,
    /// Something is wrong with an import of captures apart.
    #[error(transparent)]
    Apart(#[from] apart::Fault),
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
    import_unless(&AtomicBool::new(false), captures, folder, spec, progress)
}

/// The same, until `stop` is set.
fn import_unless(
    stop: &AtomicBool,
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
                    Err(RecvTimeoutError::Timeout) if stop.load(Ordering::Relaxed) => {
                        drop(encoded);
                        return Err(Error::Stopped);
                    }
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
    let mut rows = Rows::new(Parts::ALL, Filter::default());
    let mut turn = encoders.iter().cycle();
    let mut reported = 0;
    while let Some(event) = reader.next_event()? {
        if let Event::Message(message) = &event {
            rows.add(message);
        }
        if rows.ready.len() >= rows_per_group && !hand_over(&mut rows.ready, rows_per_group, &mut turn) {
            return Ok(Summary::default());
        }
        if reader.seen() >= reported + STEP {
            reported = reader.seen();
            seen.store(reported, Ordering::Relaxed);
        }
    }
    rows.give_up();
    while !rows.ready.is_empty() && hand_over(&mut rows.ready, rows_per_group, &mut turn) {}
    let (counts, span) = (reader.counts(), reader.span());
    Ok(Summary {
        rows: rows.answered + rows.unanswered,
        answered: rows.answered,
        unanswered: rows.unanswered,
        unsolicited: rows.unsolicited,
        packets: counts.packets,
        start_ns: span.map(|(first, _)| first),
        duration_s: span.map_or(0.0, |(first, last)| (last - first) as f64 / SECOND as f64),
        cut_short: counts.cut_short,
        icmp_errors: counts.quotes,
        connections_without_dns: counts.connections - counts.connections_with_dns,
        ignored: reader.skipped().clone(),
        ..Summary::default()
    })
}

/// Gives a row group to the encoder whose turn it is; false where that is gone.
fn hand_over<'a>(
    ready: &mut Vec<Row>,
    count: usize,
    turn: &mut impl Iterator<Item = &'a SyncSender<Vec<Row>>>,
) -> bool {
    let rest = ready.split_off(count.clamp(1, ready.len()));
    let group = std::mem::replace(ready, rest);
    turn.next().is_some_and(|encoder| encoder.send(group).is_ok())
}
