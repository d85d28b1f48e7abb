//! Files and folders as processes see them, and what is not durable yet.

use super::Options;
use super::content::Content;
use super::journal::Op;
use rustix::io::Errno;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// A file's or folder's number.
pub(super) type Ino = u64;

/// The number of the topmost folder, which FUSE fixes.
pub(super) const ROOT: Ino = 1;

/// The size that a change of names or attributes counts for while it is not durable, in bytes.
const OP_BYTES: u64 = 256;

/// A file, by its kind.
#[derive(Debug)]
pub(super) enum Kind {
    Folder {
        entries: BTreeMap<OsString, Ino>,
        parent: Ino,
    },
    File(Content),
    Link(PathBuf),
    /// A socket, pipe or device: of this life alone, never durable.
    Special {
        mode: u32,
        rdev: u32,
    },
}

/// Permissions, owner and times.
#[derive(Clone, Debug)]
pub(super) struct Meta {
    pub mode: u32,
    pub uid: u32,
    pub gid: u32,
    pub atime: SystemTime,
    pub mtime: SystemTime,
    pub ctime: SystemTime,
}

impl Meta {
    pub fn new(mode: u32, uid: u32, gid: u32) -> Self {
        let now = SystemTime::now();
        Self { mode: mode & 0o7777, uid, gid, atime: now, mtime: now, ctime: now }
    }
}

#[derive(Debug)]
pub(super) struct Node {
    pub kind: Kind,
    pub meta: Meta,
    /// Whether it still has a name.
    pub named: bool,
    /// How often the kernel was given its number, less what it gave back.
    pub lookups: u64,
    pub handles: u32,
    /// Folder and name under which it is durable.
    pub durable: Option<(Ino, OsString)>,
    /// Its durable part, while that is open.
    pub backing: Option<File>,
}

impl Node {
    pub fn new(kind: Kind, meta: Meta) -> Self {
        Self { kind, meta, named: true, lookups: 0, handles: 0, durable: None, backing: None }
    }

    pub fn is_folder(&self) -> bool {
        matches!(self.kind, Kind::Folder { .. })
    }

    fn touch(&mut self) {
        let now = SystemTime::now();
        (self.meta.mtime, self.meta.ctime) = (now, now);
    }
}

/// The whole file system.
#[derive(Debug)]
pub(super) struct Tree {
    pub nodes: HashMap<Ino, Node>,
    /// Changes of names and attributes in their order, since the last sync of anything.
    pub journal: VecDeque<Op>,
    /// The pages in memory of all files.
    pub pages: u64,
    /// The most that may be volatile, in bytes.
    pub limit: u64,
    /// Whether a rename over another file flushes the contents of what is renamed.
    pub replace_by_rename: bool,
    /// The power is off.
    pub dead: bool,
    /// How many syncs there were.
    pub syncs: u64,
    next: Ino,
}

pub(super) type Result<T> = std::result::Result<T, Errno>;

impl Tree {
    pub fn new(root: Node, options: Options) -> Self {
        let Options { limit, replace_by_rename, .. } = options;
        let nodes = HashMap::from([(ROOT, root)]);
        Self {
            nodes,
            journal: VecDeque::new(),
            pages: 0,
            limit,
            replace_by_rename,
            dead: false,
            syncs: 0,
            next: ROOT + 1,
        }
    }

    /// Puts a node into the tree under a name that is free.
    pub fn insert(&mut self, parent: Ino, name: OsString, node: Node) -> Ino {
        let ino = self.next;
        self.next += 1;
        self.nodes.insert(ino, node);
        if let Some(Node { kind: Kind::Folder { entries, .. }, .. }) = self.nodes.get_mut(&parent) {
            entries.insert(name, ino);
        }
        ino
    }

    pub fn node(&self, ino: Ino) -> Result<&Node> {
        self.nodes.get(&ino).ok_or(Errno::NOENT)
    }

    pub fn node_mut(&mut self, ino: Ino) -> Result<&mut Node> {
        self.nodes.get_mut(&ino).ok_or(Errno::NOENT)
    }

    pub fn entries(&self, folder: Ino) -> Result<&BTreeMap<OsString, Ino>> {
        match &self.node(folder)?.kind {
            Kind::Folder { entries, .. } => Ok(entries),
            _ => Err(Errno::NOTDIR),
        }
    }

    fn entries_mut(&mut self, folder: Ino) -> Result<&mut BTreeMap<OsString, Ino>> {
        let node = self.node_mut(folder)?;
        node.touch();
        match &mut node.kind {
            Kind::Folder { entries, .. } => Ok(entries),
            _ => Err(Errno::NOTDIR),
        }
    }

    pub fn find(&self, parent: Ino, name: &OsStr) -> Result<Ino> {
        self.entries(parent)?.get(name).copied().ok_or(Errno::NOENT)
    }

    /// The kernel was given the number of a file.
    pub fn looked_up(&mut self, ino: Ino) {
        if let Some(node) = self.nodes.get_mut(&ino) {
            node.lookups += 1;
        }
    }

    pub fn forget(&mut self, ino: Ino, lookups: u64) {
        if let Some(node) = self.nodes.get_mut(&ino) {
            node.lookups = node.lookups.saturating_sub(lookups);
        }
        self.collect(ino);
    }

    pub fn open(&mut self, ino: Ino) -> Result<()> {
        self.node_mut(ino)?.handles += 1;
        Ok(())
    }

    pub fn release(&mut self, ino: Ino) {
        if let Some(node) = self.nodes.get_mut(&ino) {
            node.handles = node.handles.saturating_sub(1);
            // Opened again by its durable name when it is wanted. Folders' are kept: names are looked up in them.
            if node.handles == 0 && node.durable.is_some() && !node.is_folder() {
                node.backing = None;
            }
        }
        self.collect(ino);
    }

    /// Forgets a file that has no name, no user and nothing to be done.
    fn collect(&mut self, ino: Ino) {
        let gone = |node: &Node| !node.named && node.lookups == 0 && node.handles == 0;
        if self.journal.is_empty() && self.nodes.get(&ino).is_some_and(gone) {
            self.drop_node(ino);
        }
    }

    /// The same for all, after the journal was committed.
    pub fn collect_all(&mut self) {
        let gone: Vec<Ino> = self
            .nodes
            .iter()
            .filter(|(_, node)| !node.named && node.lookups == 0 && node.handles == 0)
            .map(|(&ino, _)| ino)
            .collect();
        gone.into_iter().for_each(|ino| self.drop_node(ino));
    }

    fn drop_node(&mut self, ino: Ino) {
        if let Some(Node { kind: Kind::File(content), .. }) = self.nodes.remove(&ino) {
            self.pages -= content.volatile();
        }
    }

    /// The size of its volatile part, in bytes.
    pub fn volatile(&self) -> u64 {
        self.pages * super::PAGE + self.journal.len() as u64 * OP_BYTES
    }

    fn room(&self, more: u64) -> Result<()> {
        if self.volatile() + more > self.limit { Err(Errno::NOSPC) } else { Ok(()) }
    }

    pub fn make(&mut self, parent: Ino, name: &OsStr, kind: Kind, meta: Meta) -> Result<Ino> {
        self.room(OP_BYTES)?;
        if self.entries(parent)?.contains_key(name) {
            return Err(Errno::EXIST);
        }
        if !self.node(parent)?.named {
            return Err(Errno::NOENT);
        }
        let special = matches!(kind, Kind::Special { .. });
        self.node_mut(parent)?.touch();
        let ino = self.insert(parent, name.into(), Node::new(kind, meta));
        if !special {
            self.journal.push_back(Op::Make { ino, parent, name: name.into() });
        }
        Ok(ino)
    }

    pub fn remove(&mut self, parent: Ino, name: &OsStr, folder: bool) -> Result<()> {
        let ino = self.find(parent, name)?;
        let node = self.node(ino)?;
        match (&node.kind, folder) {
            (Kind::Folder { entries, .. }, true) if !entries.is_empty() => return Err(Errno::NOTEMPTY),
            (Kind::Folder { .. }, false) => return Err(Errno::ISDIR),
            (Kind::Folder { .. }, true) => (),
            (_, true) => return Err(Errno::NOTDIR),
            _ => (),
        }
        self.entries_mut(parent)?.remove(name);
        self.unname(ino);
        self.journal.push_back(Op::Remove { ino });
        Ok(())
    }

    fn unname(&mut self, ino: Ino) {
        if let Some(node) = self.nodes.get_mut(&ino) {
            node.named = false;
            node.meta.ctime = SystemTime::now();
        }
    }

    pub fn rename(&mut self, from: Ino, name: &OsStr, to: Ino, new: &OsStr, replace: bool) -> Result<()> {
        let ino = self.find(from, name)?;
        let replaced = self.entries(to)?.get(new).copied();
        if replaced == Some(ino) {
            return Ok(());
        }
        if let Some(there) = replaced {
            if !replace {
                return Err(Errno::EXIST);
            }
            match (&self.node(there)?.kind, self.node(ino)?.is_folder()) {
                (Kind::Folder { entries, .. }, true) if !entries.is_empty() => return Err(Errno::NOTEMPTY),
                (Kind::Folder { .. }, false) => return Err(Errno::ISDIR),
                (Kind::Folder { .. }, true) => (),
                (_, true) => return Err(Errno::NOTDIR),
                _ => (),
            }
        }
        if self.below(to, ino) {
            return Err(Errno::INVAL);
        }
        self.entries_mut(from)?.remove(name);
        self.entries_mut(to)?.insert(new.into(), ino);
        replaced.into_iter().for_each(|there| self.unname(there));
        let node = self.node_mut(ino)?;
        node.meta.ctime = SystemTime::now();
        if let Kind::Folder { parent, .. } = &mut node.kind {
            *parent = to;
        }
        let flush = self.replace_by_rename && replaced.is_some();
        self.journal.push_back(Op::Move { ino, to, new: new.into(), replaced, flush });
        Ok(())
    }

    /// Whether `folder` is `ancestor` or lies below it.
    fn below(&self, mut folder: Ino, ancestor: Ino) -> bool {
        loop {
            if folder == ancestor {
                return true;
            }
            match self.nodes.get(&folder).map(|node| &node.kind) {
                Some(Kind::Folder { parent, .. }) if folder != ROOT => folder = *parent,
                _ => return false,
            }
        }
    }

    pub fn read(&mut self, ino: Ino, offset: u64, len: u64) -> Result<Vec<u8>> {
        self.reach(ino)?;
        let node = self.node(ino)?;
        match &node.kind {
            Kind::File(content) => content.read(node.backing.as_ref(), offset, len).map_err(errno),
            Kind::Folder { .. } => Err(Errno::ISDIR),
            _ => Err(Errno::INVAL),
        }
    }

    pub fn write(&mut self, ino: Ino, offset: u64, data: &[u8]) -> Result<()> {
        offset.checked_add(data.len() as u64).filter(|&end| end <= i64::MAX as u64).ok_or(Errno::FBIG)?;
        self.reach(ino)?;
        let Kind::File(content) = &self.node(ino)?.kind else { return Err(Errno::INVAL) };
        let more = content.would_add(offset, data.len() as u64);
        self.room(more * super::PAGE)?;
        let node = self.node_mut(ino)?;
        node.touch();
        let Node { kind: Kind::File(content), backing, .. } = node else { return Err(Errno::INVAL) };
        let before = content.volatile();
        let written = content.write(backing.as_ref(), offset, data);
        let added = content.volatile() - before;
        self.pages += added;
        written.map_err(errno)
    }

    pub fn resize(&mut self, ino: Ino, size: u64) -> Result<()> {
        if size > i64::MAX as u64 {
            return Err(Errno::FBIG);
        }
        self.reach(ino)?;
        let node = self.node_mut(ino)?;
        let Kind::File(content) = &mut node.kind else { return Err(Errno::INVAL) };
        if content.size() != size {
            let before = content.volatile();
            content.resize(size);
            let dropped = before - content.volatile();
            self.pages -= dropped;
            self.journal.push_back(Op::Size { ino, size });
        }
        self.node_mut(ino)?.touch();
        Ok(())
    }

    /// Changes permissions, owner or times.
    pub fn change(&mut self, ino: Ino, change: impl FnOnce(&mut Meta)) -> Result<()> {
        let meta = &mut self.node_mut(ino)?.meta;
        change(meta);
        meta.ctime = SystemTime::now();
        self.journal.push_back(Op::Meta { ino });
        Ok(())
    }

    pub fn link_target(&self, ino: Ino) -> Result<&Path> {
        match &self.node(ino)?.kind {
            Kind::Link(target) => Ok(target),
            _ => Err(Errno::INVAL),
        }
    }
}

/// The error number of an I/O error.
pub(super) fn errno(e: std::io::Error) -> Errno {
    Errno::from_io_error(&e).unwrap_or(Errno::IO)
}
