//! The verdict on one answer: see the module's documentation.

use super::files::{Files, Span};
use super::report::{Basis, Missing, SyncVerdict};
use std::collections::{BTreeMap, HashSet};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

/// An update that waits for its answer.
pub(super) struct Pending {
    /// The line on which the call that received it ended.
    pub received: u64,
    /// When, in nanoseconds since 1970.
    pub time: u64,
    /// The octets that are looked for in files.
    pub marks: Vec<Vec<u8>>,
    /// Updates that were received before it and not answered then.
    pub before: HashSet<(SocketAddr, u16)>,
    /// The line on which the next one was received.
    pub next: Option<u64>,
    /// The first write to each file that holds one of the marks (later ones may be another's that rewrites the page);
    /// `None`: it was synced at once.
    pub marked: BTreeMap<PathBuf, Option<Span>>,
}

impl Pending {
    /// The verdict on the answer that thread `sender` began to send on line `sent`.
    pub fn verdict(&self, files: &Files, sent: u64, sender: u32) -> (Basis, SyncVerdict) {
        let received = self.received;
        let shared = !self.before.is_empty() || self.next.is_some_and(|next| next < sent);
        let (basis, writes): (Basis, Vec<(PathBuf, Span)>) = if !shared {
            // Other writes, such as a dump of the zone before this update, are no part of it.
            let own = |path: &Path| self.marked.is_empty() || self.marked.contains_key(path);
            (Basis::All, owned(files.last_writes(received, sent).filter(|(path, _)| own(path))))
        } else if !self.marked.is_empty() {
            let marked = self.marked.iter().filter_map(|(path, span)| Some((path.clone(), (*span)?)));
            (Basis::Names, marked.collect())
        } else {
            (Basis::Order, owned(files.first_writes(received, sent)))
        };
        let not = |file: &Path, missing| SyncVerdict::NotCovered { file: file.into(), missing };
        if let Some((path, write)) =
            writes.iter().find(|(path, write)| !files.is_synced(path, write.end, sent))
        {
            let failed = files.failed_to_sync(path, write.end, sent);
            return (basis, not(path, if failed { Missing::SyncFailed } else { Missing::Sync }));
        }
        let by = shared.then_some(sender);
        if let Some(path) = files.open_rename(received, sent, by) {
            return (basis, not(path, Missing::Name));
        }
        let any = !writes.is_empty()
            || !self.marked.is_empty()
            || files.any_rename(received, sent, by)
            || files.wrote_synced(received, sent);
        let verdict = match files.first_map() {
            _ if any => SyncVerdict::Covered,
            None => SyncVerdict::NothingWritten,
            Some(_) if files.map_synced(received, sent) => SyncVerdict::Covered,
            Some(path) => not(path, Missing::Map),
        };
        (basis, verdict)
    }
}

fn owned<'a>(writes: impl Iterator<Item = (&'a Path, Span)>) -> Vec<(PathBuf, Span)> {
    writes.map(|(path, span)| (path.into(), span)).collect()
}
