//! Whether a server's answers to updates follow a sync that covers them (RFC 2136, 3.5), by a trace of its system calls.
//!
//! 1. [`traced`] puts a server's command under `strace`, which must be installed. The server is the process that is started;
//!    strace leaves a trace file and ends after it: [`settle`] waits for that. A caller that starts servers by a launcher gives it
//!    a [`crate::Substitute`]; of several starts of one program (to ask for its version first) the last one's trace stays.
//! 2. [`analyse`] (or [`Analysis`], line by line) reads the trace and gives each update's [`Answer`], and a [`Report`].
//! 3. [`calibrate()`] measures how many syncs a second the disk can do: one client that waits for each answer cannot be
//!    acknowledged faster by a server that syncs ([`Calibration::beyond`]). That is how ISC-TN-2008-1 found FreeBSD 6.2.
//!
//! # What decides
//!
//! The order of events is that of strace's lines: a call that ended on an earlier line ended before. Between the receive of
//! an UPDATE and the send of the answer with its id to its address, files below [`Scope::folders`] are written. The answer is
//! *covered* where each of them was synced (fsync, fdatasync, msync with MS_SYNC, sync, syncfs; begun after the write, over
//! before the send, without an error) or written with O_SYNC, O_DSYNC or RWF_DSYNC. A rename or removal is covered by any
//! such sync that follows it, as in ext4's journal.
//!
//! * One update at a time: all writes in between count, of the files to which a name that it changes was written; of all
//!   files, where there is no such ([`Basis::All`]). A database that commits by another file than its data is not seen then.
//! * Where another update was under way, the writes that hold a name of this one count, the first to each file
//!   ([`Basis::Names`]): servers that commit many updates with one sync are covered by that one. Renames and removals count
//!   where the thread did them that sends the answer.
//! * Where no write holds the name, the first write after the request counts ([`Basis::Order`]), which may be another's:
//!   a server that syncs some updates and not others could pass here. Send one update at a time to be sure.
//! * Where nothing is written, but a file is mapped shared and writable, that must have been synced.
//!
//! Only answers with NOERROR are analysed; others acknowledge nothing.
//!
//! # What it cannot see
//!
//! Writes through a mapping: it sees only that there is one. Reads and writes by io_uring ([`Report::blind`] says that there are some).
//! Descriptors that were opened before strace came, or with O_DSYNC and then copied (dup). Whether a disk obeys. Updates over
//! TLS. The server is several times slower meanwhile, so measure rates without strace; syncs per answer are right. The power cut ([`crate::disk`]) sees none of this, and what was lost.

mod analysis;
mod calibrate;
mod files;
mod line;
mod message;
mod report;
mod run;
mod verdict;

pub use analysis::Analysis;
pub use calibrate::{Calibration, Way, calibrate};
pub use report::{Answer, Basis, FileCount, Missing, Report, SyncVerdict};
pub use run::{analyse, check, settle, traced};

use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// Which files count.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Scope {
    /// The folders in which a server keeps what must be durable; absolute.
    pub folders: Vec<PathBuf>,
    /// Files in them that need not be: logs. LMDB's `lock.mdb` and SQLite's `-shm` never are.
    pub except: Vec<PathBuf>,
}

impl Scope {
    fn holds(&self, path: &Path) -> bool {
        let name = path.file_name().unwrap_or_default().as_encoded_bytes();
        self.folders.iter().any(|folder| path.starts_with(folder))
            && !self.except.iter().any(|file| file == path)
            && name != b"lock.mdb"
            && !name.ends_with(b"-shm")
    }
}

/// Fuzz target: any bytes as a trace.
pub fn fuzz_trace(bytes: &[u8]) {
    let scope = Scope { folders: vec!["/".into()], except: Vec::new() };
    let mut analysis = Analysis::new(scope);
    let mut answers = 0_u64;
    for line in bytes.split(|&b| b == b'\n') {
        analysis.line(line, &mut |_| answers += 1);
    }
    let report = analysis.finish();
    assert_eq!(report.covered + report.not_covered + report.nothing_written + report.refused, answers);
}
