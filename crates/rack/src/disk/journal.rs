//! The durable part of a disk: the journal of names and attributes, and the backing folder that it is committed to.

use super::Options;
use super::content::Content;
use super::tree::{Ino, Kind, Meta, Node, ROOT, Result, Tree, errno};
use measure::Seed;
use rustix::fs::{
    AtFlags, Gid, Mode, OFlags, Timespec, Timestamps, Uid, fchmod, fchown, futimens, mkdirat, openat,
    renameat, symlinkat, unlinkat,
};
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A change of names or attributes.
#[derive(Debug)]
pub(super) enum Op {
    /// A file, folder or symbolic link got its first name.
    Make { ino: Ino, parent: Ino, name: OsString },
    /// It lost its name.
    Remove { ino: Ino },
    /// It got another name, which something else may have lost by it; before that its contents are made durable, where
    /// they are to be.
    Move { ino: Ino, to: Ino, new: OsString, replaced: Option<Ino>, flush: bool },
    /// It was cut off or grew.
    Size { ino: Ino, size: u64 },
    /// Its permissions, owner or times changed.
    Meta { ino: Ino },
}

/// The pages and changes that the power cut took, and those that it left.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Cut {
    /// When it was asked for, by the wall clock in nanoseconds: what was acknowledged before is meant to be durable.
    pub at: u64,
    /// Syncs that the disk completed before, of files and folders.
    pub syncs: u64,
    /// Pages of 4 KiB that were dropped, of files that have a durable name and others.
    pub lost_pages: u64,
    /// Pages that were not synced, and survived nevertheless.
    pub saved_pages: u64,
    /// Changes of names, sizes and attributes that were dropped.
    pub lost_names: u64,
    /// Changes of the same kind that nobody synced, and which survived nevertheless.
    pub saved_names: u64,
}

/// Reads a backing folder.
pub(super) fn load(backing: &Path, options: Options) -> io::Result<Tree> {
    let folder = |path: &Path, meta: &fs::Metadata, parent: Ino| -> io::Result<Node> {
        let mut node = Node::new(Kind::Folder { entries: BTreeMap::new(), parent }, meta_of(meta));
        node.backing = Some(File::open(path)?);
        Ok(node)
    };
    let root = folder(backing, &fs::metadata(backing)?, ROOT)?;
    let mut tree = Tree::new(root, options);
    let mut todo = vec![(ROOT, backing.to_owned())];
    while let Some((parent, path)) = todo.pop() {
        for entry in fs::read_dir(&path)? {
            let entry = entry?;
            let (meta, path) = (entry.metadata()?, entry.path());
            let mut node = if meta.is_dir() {
                folder(&path, &meta, parent)?
            } else if meta.is_file() {
                Node::new(Kind::File(Content::durable(meta.len())), meta_of(&meta))
            } else if meta.is_symlink() {
                Node::new(Kind::Link(fs::read_link(&path)?), meta_of(&meta))
            } else {
                continue; // sockets and devices are nobody's data
            };
            node.durable = Some((parent, entry.file_name()));
            let is_folder = node.is_folder();
            let ino = tree.insert(parent, entry.file_name(), node);
            if is_folder {
                todo.push((ino, path));
            }
        }
    }
    Ok(tree)
}

fn meta_of(meta: &fs::Metadata) -> Meta {
    let time = |secs: i64, nanos: i64| UNIX_EPOCH + Duration::new(secs.max(0) as u64, nanos as u32);
    Meta {
        mode: meta.mode() & 0o7777,
        uid: meta.uid(),
        gid: meta.gid(),
        atime: time(meta.atime(), meta.atime_nsec()),
        mtime: time(meta.mtime(), meta.mtime_nsec()),
        ctime: time(meta.ctime(), meta.ctime_nsec()),
    }
}

impl Tree {
    /// Makes the contents of a file durable, and before them every change of names and attributes so far, of whatever file.
    pub fn sync(&mut self, ino: Ino) -> Result<()> {
        self.commit(usize::MAX)?;
        self.syncs += 1;
        self.flush(ino)
    }

    /// Makes the contents of a file durable, where its name is.
    fn flush(&mut self, ino: Ino) -> Result<()> {
        let node = self.node(ino)?;
        // A file without a name is lost with the power, even if it was synced.
        if !matches!(node.kind, Kind::File(_)) || node.durable.is_none() {
            return Ok(());
        }
        self.reach(ino)?;
        let node = self.node_mut(ino)?;
        let (Kind::File(content), Some(backing)) = (&mut node.kind, &node.backing) else { return Ok(()) };
        let before = content.volatile();
        content.flush(backing).map_err(errno)?;
        let gone = before - content.volatile();
        set_meta(backing, &node.meta)?;
        if node.handles == 0 {
            node.backing = None;
        }
        self.pages -= gone;
        Ok(())
    }

    /// Makes the first `count` changes of names and attributes durable, in their order.
    pub fn commit(&mut self, count: usize) -> Result<()> {
        let mut left = count;
        while left > 0
            && let Some(op) = self.journal.pop_front()
        {
            if let Err(e) = self.apply(&op) {
                self.journal.push_front(op);
                return Err(e);
            }
            left -= 1;
        }
        if self.journal.is_empty() {
            self.collect_all();
        }
        Ok(())
    }

    fn apply(&mut self, op: &Op) -> Result<()> {
        match op {
            Op::Make { ino, parent, name } => self.apply_make(*ino, *parent, name),
            Op::Remove { ino } => self.apply_remove(*ino),
            Op::Move { ino, to, new, replaced, flush } => {
                if *flush {
                    self.flush(*ino)?;
                    // The durable contents are newer than these pages.
                    self.journal.retain(|op| !matches!(op, Op::Size { ino: other, .. } if other == ino));
                }
                if let Some(there) = replaced {
                    self.keep(*there)?;
                }
                if self.node(*ino)?.durable.is_none() {
                    // A socket took the place of a file.
                    return replaced.map_or(Ok(()), |there| self.apply_remove(there));
                }
                let (from, name) = self.node(*ino)?.durable.clone().expect("looked at above");
                renameat(self.folder(from)?, &name, self.folder(*to)?, new)?;
                if let Some(there) = replaced {
                    self.node_mut(*there)?.durable = None;
                }
                self.node_mut(*ino)?.durable = Some((*to, new.clone()));
                Ok(())
            }
            Op::Size { ino, size } => {
                if self.node(*ino)?.durable.is_none() {
                    return Ok(());
                }
                self.reach(*ino)?;
                let node = self.node_mut(*ino)?;
                if let Some(file) = &node.backing {
                    file.set_len(*size).map_err(errno)?;
                }
                Ok(())
            }
            Op::Meta { ino } => {
                let node = self.node(*ino)?;
                if node.durable.is_none() && *ino != ROOT || matches!(node.kind, Kind::Link(_)) {
                    return Ok(());
                }
                self.reach(*ino)?;
                let node = self.node(*ino)?;
                node.backing.as_ref().map_or(Ok(()), |file| set_meta(file, &node.meta))
            }
        }
    }

    fn apply_make(&mut self, ino: Ino, parent: Ino, name: &OsString) -> Result<()> {
        let folder = self.folder(parent)?;
        let node = self.node(ino)?;
        let new = Mode::RUSR | Mode::WUSR;
        let backing = match &node.kind {
            Kind::Folder { .. } => {
                mkdirat(folder, name, new | Mode::XUSR)?;
                Some(openat(
                    folder,
                    name,
                    OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC,
                    Mode::empty(),
                )?)
            }
            Kind::File(_) => {
                let flags = OFlags::CREATE | OFlags::EXCL | OFlags::RDWR | OFlags::CLOEXEC;
                Some(openat(folder, name, flags, new)?)
            }
            Kind::Link(target) => {
                symlinkat(target, folder, name)?;
                None
            }
            Kind::Special { .. } => return Ok(()),
        };
        let backing = backing.map(File::from);
        if let Some(file) = &backing {
            set_meta(file, &node.meta)?;
        }
        let node = self.node_mut(ino)?;
        node.durable = Some((parent, name.clone()));
        node.backing = backing.filter(|_| node.handles > 0 || node.is_folder());
        Ok(())
    }

    fn apply_remove(&mut self, ino: Ino) -> Result<()> {
        self.keep(ino)?;
        let Some((parent, name)) = self.node(ino)?.durable.clone() else { return Ok(()) };
        let flags = if self.node(ino)?.is_folder() { AtFlags::REMOVEDIR } else { AtFlags::empty() };
        unlinkat(self.folder(parent)?, &name, flags)?;
        self.node_mut(ino)?.durable = None;
        Ok(())
    }

    /// Before its durable name goes: what is open (or mapped) is still read.
    fn keep(&mut self, ino: Ino) -> Result<()> {
        let node = self.node(ino)?;
        if node.handles > 0 { self.reach(ino) } else { Ok(()) }
    }

    /// Opens what is durable of a file, where there is something and it is not open.
    pub fn reach(&mut self, ino: Ino) -> Result<()> {
        let node = self.node(ino)?;
        if node.backing.is_some() || !matches!(node.kind, Kind::File(_)) {
            return Ok(());
        }
        let Some((parent, name)) = node.durable.clone() else { return Ok(()) };
        let file = openat(self.folder(parent)?, &name, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
        self.node_mut(ino)?.backing = Some(file.into());
        Ok(())
    }

    fn folder(&self, ino: Ino) -> Result<&File> {
        self.node(ino)?.backing.as_ref().ok_or(Errno::IO)
    }

    /// Turns the power off. Nothing that was not synced survives; with a seed, what a disk may have written by itself does:
    /// some first part of the journal, and any of the pages, each with probability one half.
    pub fn cut(&mut self, survivors: Option<Seed>) -> io::Result<Cut> {
        let mut cut = Cut { syncs: self.syncs, ..Cut::default() };
        if std::mem::replace(&mut self.dead, true) {
            return Ok(cut);
        }
        if let Some(seed) = survivors {
            let mut draw = seed.draw("power cut", 0);
            let count = draw.below(self.journal.len() as u64 + 1) as usize;
            cut.saved_names = count as u64;
            self.commit(count)?;
            let mut files: Vec<Ino> = self.nodes.keys().copied().collect();
            files.sort_unstable();
            for ino in files {
                let node = self.node(ino)?;
                if !matches!(&node.kind, Kind::File(content) if content.volatile() > 0)
                    || node.durable.is_none()
                {
                    continue;
                }
                self.reach(ino)?;
                if let Node { kind: Kind::File(content), backing: Some(file), .. } = self.node(ino)? {
                    cut.saved_pages += content.salvage(file, || draw.chance(1, 2))?;
                }
            }
        }
        cut.lost_names = self.journal.len() as u64;
        cut.lost_pages = self.pages - cut.saved_pages;
        Ok(cut)
    }
}

fn set_meta(file: &File, meta: &Meta) -> Result<()> {
    fchown(file, Some(Uid::from_raw(meta.uid)), Some(Gid::from_raw(meta.gid)))?;
    fchmod(file, Mode::from_raw_mode(meta.mode))?;
    let times = Timestamps { last_access: timespec(meta.atime), last_modification: timespec(meta.mtime) };
    futimens(file, &times)
}

fn timespec(time: SystemTime) -> Timespec {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    Timespec { tv_sec: since.as_secs() as i64, tv_nsec: since.subsec_nanos().into() }
}
