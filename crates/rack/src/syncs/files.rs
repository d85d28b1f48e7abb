//! Writes and syncs of each file, in the order of the trace's lines.

use std::collections::{BTreeMap, VecDeque};
use std::path::{Path, PathBuf};

/// The lines on which a call began and ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span {
    pub begin: u64,
    pub end: u64,
}

impl Span {
    /// Whether it lies between two lines.
    pub fn between(self, from: u64, to: u64) -> bool {
        self.begin > from && self.end < to
    }
}

/// The most calls that are kept of one kind and file: those of one update, which a full journal makes long.
const MAX_SPANS: usize = 100_000;

fn push(spans: &mut VecDeque<Span>, span: Span) {
    if spans.len() == MAX_SPANS {
        spans.pop_front();
    }
    spans.push_back(span);
}

/// One file, as far back as an update still waits for its answer.
#[derive(Debug, Default)]
pub(super) struct File {
    writes: VecDeque<Span>,
    /// Writes that were synced by themselves.
    synced_writes: VecDeque<Span>,
    syncs: VecDeque<Span>,
    failed: VecDeque<Span>,
}

impl File {
    fn forget(&mut self, before: u64) {
        for spans in [&mut self.writes, &mut self.synced_writes, &mut self.syncs, &mut self.failed] {
            while spans.front().is_some_and(|span| span.end < before) {
                spans.pop_front();
            }
        }
    }
}

/// A rename or removal.
#[derive(Debug)]
pub(super) struct Renamed {
    pub span: Span,
    pub pid: u32,
    pub file: PathBuf,
}

/// A file that is mapped shared and writable.
#[derive(Debug)]
struct Map {
    start: u64,
    len: u64,
    file: PathBuf,
}

/// All files that count.
#[derive(Debug, Default)]
pub(super) struct Files {
    files: BTreeMap<PathBuf, File>,
    /// Syncs of whatever file.
    syncs: VecDeque<Span>,
    renamed: VecDeque<Renamed>,
    maps: Vec<Map>,
}

/// Mappings that are kept; a new one of the same file takes the place of the old.
const MAX_MAPS: usize = 1000;

impl Files {
    fn file(&mut self, path: &Path) -> &mut File {
        if !self.files.contains_key(path) {
            self.files.insert(path.into(), File::default());
        }
        self.files.get_mut(path).expect("inserted above")
    }

    pub fn wrote(&mut self, path: &Path, span: Span, synced: bool) {
        let file = self.file(path);
        push(if synced { &mut file.synced_writes } else { &mut file.writes }, span);
    }

    pub fn synced(&mut self, path: &Path, span: Span, ok: bool) {
        let file = self.file(path);
        push(if ok { &mut file.syncs } else { &mut file.failed }, span);
        if ok {
            push(&mut self.syncs, span);
        }
    }

    /// sync(2) and syncfs(2).
    pub fn synced_all(&mut self, span: Span) {
        self.files.values_mut().for_each(|file| push(&mut file.syncs, span));
        push(&mut self.syncs, span);
    }

    pub fn renamed(&mut self, renamed: Renamed) {
        if self.renamed.len() == MAX_SPANS {
            self.renamed.pop_front();
        }
        self.renamed.push_back(renamed);
    }

    pub fn mapped(&mut self, start: u64, len: u64, file: &Path) {
        self.maps.retain(|map| map.file != file);
        if self.maps.len() < MAX_MAPS {
            self.maps.push(Map { start, len, file: file.into() });
        }
    }

    /// The mapped file at an address.
    pub fn at(&self, address: u64) -> Option<&Path> {
        let map = self
            .maps
            .iter()
            .rev()
            .find(|map| (map.start..map.start.saturating_add(map.len)).contains(&address));
        map.map(|map| &*map.file)
    }

    pub fn first_map(&self) -> Option<&Path> {
        self.maps.first().map(|map| &*map.file)
    }

    /// Whether a mapped file was synced between two lines.
    pub fn map_synced(&self, from: u64, to: u64) -> bool {
        self.maps.iter().any(|map| {
            self.files.get(&map.file).is_some_and(|file| file.syncs.iter().any(|sync| sync.between(from, to)))
        })
    }

    /// Each file's last write between two lines; of those that were only written with a sync at once, none.
    pub fn last_writes(&self, from: u64, to: u64) -> impl Iterator<Item = (&Path, Span)> {
        self.files.iter().filter_map(move |(path, file)| {
            file.writes.iter().rev().find(|write| write.between(from, to)).map(|write| (&**path, *write))
        })
    }

    /// Each file's first write between two lines.
    pub fn first_writes(&self, from: u64, to: u64) -> impl Iterator<Item = (&Path, Span)> {
        self.files.iter().filter_map(move |(path, file)| {
            file.writes.iter().find(|write| write.between(from, to)).map(|write| (&**path, *write))
        })
    }

    /// Whether anything was written with a sync at once.
    pub fn wrote_synced(&self, from: u64, to: u64) -> bool {
        self.files.values().any(|file| file.synced_writes.iter().any(|write| write.between(from, to)))
    }

    /// Whether a file was synced between a line and another.
    pub fn is_synced(&self, path: &Path, after: u64, before: u64) -> bool {
        self.files.get(path).is_some_and(|file| file.syncs.iter().any(|sync| sync.between(after, before)))
    }

    pub fn failed_to_sync(&self, path: &Path, after: u64, before: u64) -> bool {
        self.files.get(path).is_some_and(|file| file.failed.iter().any(|sync| sync.between(after, before)))
    }

    /// The first rename or removal between two lines (by this thread, where one is named) that no sync followed.
    pub fn open_rename(&self, from: u64, to: u64, pid: Option<u32>) -> Option<&Path> {
        let mut mine =
            self.renamed.iter().filter(|r| r.span.between(from, to) && pid.is_none_or(|pid| pid == r.pid));
        mine.find(|r| !self.syncs.iter().any(|sync| sync.between(r.span.end, to))).map(|r| &*r.file)
    }

    /// Whether anything was renamed or removed between two lines.
    pub fn any_rename(&self, from: u64, to: u64, pid: Option<u32>) -> bool {
        self.renamed.iter().any(|r| r.span.between(from, to) && pid.is_none_or(|pid| pid == r.pid))
    }

    /// Forgets what ended before a line.
    pub fn forget(&mut self, before: u64) {
        self.files.values_mut().for_each(|file| file.forget(before));
        while self.syncs.front().is_some_and(|span| span.end < before) {
            self.syncs.pop_front();
        }
        while self.renamed.front().is_some_and(|renamed| renamed.span.end < before) {
            self.renamed.pop_front();
        }
    }
}
