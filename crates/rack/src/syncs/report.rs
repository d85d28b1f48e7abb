//! The report on a trace.

use measure::{Histogram, Nanos};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Whether an answer follows a sync that covers its update.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "verdict")]
pub enum SyncVerdict {
    /// All that was written for it was synced before.
    Covered,
    /// Something was not.
    NotCovered {
        /// The file.
        file: PathBuf,
        /// The missing step.
        missing: Missing,
    },
    /// No file was written between request and answer.
    NothingWritten,
    /// The answer is no acknowledgement.
    Refused,
}

/// The step that is missing between an update and its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Missing {
    /// It was written, and not synced between that and the answer.
    Sync,
    /// It was written; its sync came, but failed.
    SyncFailed,
    /// It was renamed or removed, and nothing was synced between that and the answer.
    Name,
    /// It is mapped shared and writable, nothing else was written, and it was not synced between request and answer.
    Map,
}

/// The sign by which the writes of an update were recognised.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Basis {
    /// No other update was under way: all to the files that hold a name that it changes (to all files, where none does).
    All,
    /// They hold a name that it changes.
    Names,
    /// They came after it.
    Order,
}

/// The answer to an update.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    /// The sender of the update.
    pub client: SocketAddr,
    /// Its message id.
    pub id: u16,
    /// The answer's code; 0: NOERROR.
    pub rcode: u8,
    /// The first label of the first name it changes, where it has four octets or more.
    pub name: String,
    /// The trace's lines, from 1, of the receive's end and the send's begin.
    pub lines: (u64, u64),
    /// From the one to the other.
    pub took: Nanos,
    /// How its writes were recognised.
    pub basis: Basis,
    /// The finding of the trace.
    #[serde(flatten)]
    pub verdict: SyncVerdict,
}

/// Counts of the calls on one file while updates came.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileCount {
    /// Writes.
    pub writes: u64,
    /// Of them with O_SYNC or O_DSYNC.
    pub synced_writes: u64,
    /// Syncs that were completed.
    pub syncs: u64,
}

/// The report on a whole trace. All counts begin with the first update.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Report {
    /// UPDATE messages received; one sent again counts again.
    pub updates: u64,
    /// Answers with NOERROR that are covered.
    pub covered: u64,
    /// Answers with NOERROR that are not.
    pub not_covered: u64,
    /// Answers with NOERROR before which nothing was written: no change, or nothing that this method sees.
    pub nothing_written: u64,
    /// Answers with another code.
    pub refused: u64,
    /// Updates without an answer.
    pub unanswered: u64,
    /// Answers decided by [`Basis::Order`], the weakest.
    pub by_order: u64,
    /// The first answer that is not covered.
    pub first_not_covered: Option<Answer>,
    /// Syncs completed of files that count, writes with O_SYNC or O_DSYNC among them.
    pub syncs: u64,
    /// Syncs that failed.
    pub syncs_failed: u64,
    /// How long each sync took, under strace.
    pub sync_latency: Histogram,
    /// From the first update's receive to the last answer's send.
    pub span: Nanos,
    /// Each file that counts, up to 1,000 of them.
    pub files: BTreeMap<PathBuf, FileCount>,
    /// Ways of writing that were used and are not seen.
    pub blind: Vec<String>,
    /// Lines that were not understood.
    pub foreign_lines: u64,
    /// Messages or buffers that strace had cut off.
    pub cut_off: u64,
}

impl Report {
    /// Syncs for each answer with NOERROR; none: there was no such answer.
    pub fn syncs_per_answer(&self) -> Option<f64> {
        let answers = self.covered + self.not_covered + self.nothing_written;
        (answers > 0).then(|| self.syncs as f64 / answers as f64)
    }
}
