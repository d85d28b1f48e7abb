//! The kernel's requests, answered from the tree.

use super::content::PAGE;
use super::tree::{Ino, Kind, Meta, Node, Result, Tree};
use fuser::{
    BsdFileFlags, Errno as Refusal, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation,
    INodeNo, KernelConfig, LockOwner, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData,
    ReplyDirectory, ReplyEmpty, ReplyEntry, ReplyOpen, ReplyStatfs, ReplyWrite, Request, TimeOrNow,
    WriteFlags,
};
use rustix::fs::{OFlags, fstatvfs};
use rustix::io::Errno;
use std::collections::{BTreeMap, HashMap};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

/// How long the kernel may trust what it was told: all changes come by way of it, so it is never wrong.
const TTL: Duration = Duration::from_secs(60);

/// The largest write of one request, in bytes.
const MAX_WRITE: u32 = 1 << 20;

const GENERATION: Generation = Generation(0);

/// The last eight decimal digits below 0o170000 say what kind a mode is of (inode(7)).
const S_IFMT: u32 = 0o170_000;

/// The contents of a folder when it was opened: number, kind and name.
type Listing = Vec<(Ino, FileType, OsString)>;

/// Answers requests until it is unmounted.
pub(super) struct Server {
    pub tree: Arc<Mutex<Tree>>,
    /// The backing folder, which tells how much room there is.
    pub backing: File,
    pub listings: Mutex<(u64, HashMap<u64, Listing>)>,
}

impl Server {
    /// Does something with the tree; after the power went, nothing can be done.
    fn with<T>(&self, f: impl FnOnce(&mut Tree) -> Result<T>) -> std::result::Result<T, Refusal> {
        let mut tree = super::locked(&self.tree);
        if tree.dead {
            return Err(Refusal::EIO);
        }
        f(&mut tree).map_err(|e| Refusal::from_i32(e.raw_os_error()))
    }

    /// Makes something, and gives its number to the kernel.
    fn make(&self, parent: INodeNo, name: &OsStr, kind: Kind, meta: Meta, reply: ReplyEntry) {
        let made = self.with(|tree| {
            let ino = tree.make(parent.0, name, kind, meta)?;
            tree.looked_up(ino);
            Ok(attr(ino, tree.node(ino)?))
        });
        match made {
            Ok(attr) => reply.entry(&TTL, &attr, GENERATION),
            Err(e) => reply.error(e),
        }
    }
}

fn attr(ino: Ino, node: &Node) -> FileAttr {
    let (kind, size, rdev) = match &node.kind {
        Kind::Folder { .. } => (FileType::Directory, PAGE, 0),
        Kind::File(content) => (FileType::RegularFile, content.size(), 0),
        Kind::Link(target) => (FileType::Symlink, target.as_os_str().len() as u64, 0),
        Kind::Special { mode, rdev } => (special(*mode), 0, *rdev),
    };
    FileAttr {
        ino: INodeNo(ino),
        size,
        blocks: size.div_ceil(512),
        atime: node.meta.atime,
        mtime: node.meta.mtime,
        ctime: node.meta.ctime,
        crtime: node.meta.ctime,
        kind,
        perm: node.meta.mode as u16,
        nlink: match (&node.kind, node.named) {
            (_, false) => 0,
            (Kind::Folder { .. }, true) => 2,
            _ => 1,
        },
        uid: node.meta.uid,
        gid: node.meta.gid,
        rdev,
        blksize: PAGE as u32,
        flags: 0,
    }
}

fn special(mode: u32) -> FileType {
    match mode & S_IFMT {
        0o010_000 => FileType::NamedPipe,
        0o020_000 => FileType::CharDevice,
        0o060_000 => FileType::BlockDevice,
        _ => FileType::Socket,
    }
}

fn time(given: TimeOrNow) -> SystemTime {
    match given {
        TimeOrNow::SpecificTime(time) => time,
        TimeOrNow::Now => SystemTime::now(),
    }
}

/// The answer of a request that gives nothing back.
fn done(result: std::result::Result<(), Refusal>, reply: ReplyEmpty) {
    match result {
        Ok(()) => reply.ok(),
        Err(e) => reply.error(e),
    }
}

impl Filesystem for Server {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        // Writes through the page cache arrive here at once: no FUSE_WRITEBACK_CACHE.
        config.set_max_write(MAX_WRITE).map(drop).map_err(|_| io::ErrorKind::InvalidInput.into())
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let found = self.with(|tree| {
            let ino = tree.find(parent.0, name)?;
            tree.looked_up(ino);
            Ok(attr(ino, tree.node(ino)?))
        });
        match found {
            Ok(attr) => reply.entry(&TTL, &attr, GENERATION),
            Err(e) => reply.error(e),
        }
    }

    fn forget(&self, _: &Request, ino: INodeNo, lookups: u64) {
        super::locked(&self.tree).forget(ino.0, lookups);
    }

    fn getattr(&self, _: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        match self.with(|tree| Ok(attr(ino.0, tree.node(ino.0)?))) {
            Ok(attr) => reply.attr(&TTL, &attr),
            Err(e) => reply.error(e),
        }
    }

    fn setattr(
        &self,
        _: &Request,
        ino: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        atime: Option<TimeOrNow>,
        mtime: Option<TimeOrNow>,
        _: Option<SystemTime>,
        _: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let changed = self.with(|tree| {
            if let Some(size) = size {
                tree.resize(ino.0, size)?;
            }
            if mode.is_some() || uid.is_some() || gid.is_some() || atime.is_some() || mtime.is_some() {
                tree.change(ino.0, |meta| {
                    meta.mode = mode.map_or(meta.mode, |mode| mode & 0o7777);
                    meta.uid = uid.unwrap_or(meta.uid);
                    meta.gid = gid.unwrap_or(meta.gid);
                    meta.atime = atime.map_or(meta.atime, time);
                    meta.mtime = mtime.map_or(meta.mtime, time);
                })?;
            }
            Ok(attr(ino.0, tree.node(ino.0)?))
        });
        match changed {
            Ok(attr) => reply.attr(&TTL, &attr),
            Err(e) => reply.error(e),
        }
    }

    fn readlink(&self, _: &Request, ino: INodeNo, reply: ReplyData) {
        match self.with(|tree| Ok(tree.link_target(ino.0)?.to_owned())) {
            Ok(target) => reply.data(target.as_os_str().as_encoded_bytes()),
            Err(e) => reply.error(e),
        }
    }

    fn mknod(
        &self,
        req: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _umask: u32,
        rdev: u32,
        reply: ReplyEntry,
    ) {
        let kind = match mode & S_IFMT {
            0 | 0o100_000 => Kind::File(Default::default()),
            _ => Kind::Special { mode, rdev },
        };
        self.make(parent, name, kind, Meta::new(mode, req.uid(), req.gid()), reply);
    }

    fn mkdir(&self, req: &Request, parent: INodeNo, name: &OsStr, mode: u32, _umask: u32, reply: ReplyEntry) {
        let kind = Kind::Folder { entries: BTreeMap::new(), parent: parent.0 };
        self.make(parent, name, kind, Meta::new(mode, req.uid(), req.gid()), reply);
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        done(self.with(|tree| tree.remove(parent.0, name, false)), reply);
    }

    fn rmdir(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        done(self.with(|tree| tree.remove(parent.0, name, true)), reply);
    }

    fn symlink(&self, req: &Request, parent: INodeNo, name: &OsStr, target: &Path, reply: ReplyEntry) {
        self.make(parent, name, Kind::Link(target.into()), Meta::new(0o777, req.uid(), req.gid()), reply);
    }

    fn rename(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        to: INodeNo,
        new: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        if flags.intersects(!RenameFlags::RENAME_NOREPLACE) {
            return reply.error(Refusal::EINVAL);
        }
        let replace = !flags.contains(RenameFlags::RENAME_NOREPLACE);
        done(self.with(|tree| tree.rename(parent.0, name, to.0, new, replace)), reply);
    }

    fn open(&self, _: &Request, ino: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        match self.with(|tree| tree.open(ino.0)) {
            Ok(()) => reply.opened(FileHandle(0), FopenFlags::FOPEN_KEEP_CACHE),
            Err(e) => reply.error(e),
        }
    }

    fn read(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        match self.with(|tree| tree.read(ino.0, offset, size.into())) {
            Ok(bytes) => reply.data(&bytes),
            Err(e) => reply.error(e),
        }
    }

    fn write(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        flags: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let written = self.with(|tree| {
            tree.write(ino.0, offset, data)?;
            // O_SYNC has the bit of O_DSYNC. For RWF_DSYNC and RWF_SYNC the kernel sets it too.
            if OFlags::from_bits_retain(flags.0 as u32).contains(OFlags::DSYNC) {
                tree.sync(ino.0)
            } else {
                Ok(())
            }
        });
        match written {
            Ok(()) => reply.written(data.len() as u32),
            Err(e) => reply.error(e),
        }
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        // close(2) makes nothing durable.
        done(self.with(|_| Ok(())), reply);
    }

    fn release(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        _: OpenFlags,
        _: Option<LockOwner>,
        _: bool,
        reply: ReplyEmpty,
    ) {
        super::locked(&self.tree).release(ino.0);
        reply.ok();
    }

    fn fsync(&self, _: &Request, ino: INodeNo, _: FileHandle, _datasync: bool, reply: ReplyEmpty) {
        done(self.with(|tree| tree.sync(ino.0)), reply);
    }

    fn fsyncdir(&self, _: &Request, ino: INodeNo, _: FileHandle, _datasync: bool, reply: ReplyEmpty) {
        done(self.with(|tree| tree.sync(ino.0)), reply);
    }

    fn opendir(&self, _: &Request, ino: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        let listing = self.with(|tree| {
            let parent = match tree.node(ino.0)?.kind {
                Kind::Folder { parent, .. } => parent,
                _ => return Err(Errno::NOTDIR),
            };
            let mut listing: Listing =
                vec![(ino.0, FileType::Directory, ".".into()), (parent, FileType::Directory, "..".into())];
            for (name, &entry) in tree.entries(ino.0)? {
                listing.push((entry, attr(entry, tree.node(entry)?).kind, name.clone()));
            }
            Ok(listing)
        });
        match listing {
            Ok(listing) => {
                let mut listings = super::locked(&self.listings);
                listings.0 += 1;
                let handle = listings.0;
                listings.1.insert(handle, listing);
                reply.opened(FileHandle(handle), FopenFlags::empty());
            }
            Err(e) => reply.error(e),
        }
    }

    fn readdir(&self, _: &Request, _: INodeNo, fh: FileHandle, offset: u64, mut reply: ReplyDirectory) {
        if let Err(e) = self.with(|_| Ok(())) {
            return reply.error(e);
        }
        let listings = super::locked(&self.listings);
        let listing = listings.1.get(&fh.0).map_or(&[][..], Vec::as_slice);
        for (at, (ino, kind, name)) in listing.iter().enumerate().skip(offset as usize) {
            if reply.add(INodeNo(*ino), at as u64 + 1, *kind, name) {
                break;
            }
        }
        reply.ok();
    }

    fn releasedir(&self, _: &Request, _: INodeNo, fh: FileHandle, _: OpenFlags, reply: ReplyEmpty) {
        super::locked(&self.listings).1.remove(&fh.0);
        reply.ok();
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        match self.with(|_| fstatvfs(&self.backing)) {
            Ok(s) => reply.statfs(
                s.f_blocks,
                s.f_bfree,
                s.f_bavail,
                s.f_files,
                s.f_ffree,
                s.f_bsize as u32,
                s.f_namemax as u32,
                s.f_frsize as u32,
            ),
            Err(e) => reply.error(e),
        }
    }

    fn create(
        &self,
        req: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _umask: u32,
        _flags: i32,
        reply: ReplyCreate,
    ) {
        let meta = Meta::new(mode, req.uid(), req.gid());
        let made = self.with(|tree| {
            let ino = tree.make(parent.0, name, Kind::File(Default::default()), meta)?;
            tree.looked_up(ino);
            tree.open(ino)?;
            Ok(attr(ino, tree.node(ino)?))
        });
        match made {
            Ok(attr) => {
                reply.created(&TTL, &attr, GENERATION, FileHandle(0), FopenFlags::FOPEN_KEEP_CACHE);
            }
            Err(e) => reply.error(e),
        }
    }

    fn fallocate(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        // Room is taken when it is written to. FALLOC_FL_KEEP_SIZE is 1; holes are not punched.
        let result = self.with(|tree| match mode {
            0 => match &tree.node(ino.0)?.kind {
                Kind::File(content) if content.size() < offset.saturating_add(length) => {
                    tree.resize(ino.0, offset.saturating_add(length))
                }
                _ => Ok(()),
            },
            1 => Ok(()),
            _ => Err(Errno::OPNOTSUPP),
        });
        done(result, reply);
    }
}
