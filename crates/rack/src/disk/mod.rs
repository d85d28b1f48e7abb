//! A disk whose power can be cut: a file system (FUSE) that keeps what was synced, and nothing else.
//!
//! Killing a server says nothing about durability, as what it wrote stays in the kernel's cache. On this disk it does not:
//! [`Disk::cut`] drops all that no sync covered and refuses everything from then on (EIO). The server is killed, the disk is
//! mounted again on what is left, and the server is started on it.
//!
//! # What is durable
//!
//! The *backing folder* holds what is durable, as ordinary files: it can be looked at whenever the disk is cut or unmounted.
//! Everything newer is in memory, up to [`Options::limit`]; beyond that writes fail with ENOSPC, so a server that never
//! syncs ends there: nothing is written back by itself.
//!
//! * fsync, fdatasync, msync with MS_SYNC, and each write to what was opened with O_SYNC or O_DSYNC (or written with
//!   RWF_SYNC, RWF_DSYNC) make the contents and size of *that file* durable, before they return.
//! * Any of them, of any file or folder, first makes durable all earlier changes of *names and attributes*, of whatever
//!   files and in their order: creation, removal, rename, truncation, mode, owner and times. So does ext4 (data=ordered),
//!   with its one journal. A new file that was not synced itself has a name afterwards, and no contents; but see
//!   [`Options::replace_by_rename`].
//! * close, sync_file_range, sync and syncfs make nothing durable: the kernel does not tell FUSE of the latter two.
//! * A sync is done when the backing folder's file system has the data; that is not synced itself, as the power that is cut
//!   is not the machine's. How long a sync takes here is no figure of a disk.
//!
//! With [`Options::survivors`], what was not synced survives in part, as on a disk that wrote some of it in its own order:
//! some first part of the changes of names, and each page of 4 KiB with probability one half, both drawn by a seed.
//!
//! Folders, files, symbolic links and mapped files (shared and writable, too) are there; flock and fcntl locks are the
//! kernel's. Sockets, pipes and devices can be made, and are gone after a cut. There are no hard links (EPERM), extended
//! attributes (ENOTSUP) and holes to be punched (EOPNOTSUPP).
//!
//! It needs /dev/fuse and the right to mount, which is root's.

mod content;
mod fuse;
mod journal;
mod tree;

pub use content::PAGE;
pub use journal::Cut;

use crate::Error;
use fuser::{BackgroundSession, Config, MountOption, Session, SessionACL};
use measure::{Nanos, Seed, clock};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tree::Tree;

/// Errors that mean that the disk is unmounted.
const UNMOUNTED: [Option<rustix::io::Errno>; 2] =
    [Some(rustix::io::Errno::CONNABORTED), Some(rustix::io::Errno::NODEV)];

/// How long the last user of a disk may take to let go of it.
const PATIENCE: Duration = Duration::from_secs(10);

/// How a disk behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Options {
    /// The most that may be volatile, in bytes of memory.
    pub limit: u64,
    /// Whether a rename over another file makes the contents of what is renamed durable together with the new name, as ext4
    /// does by default (`auto_da_alloc`) and btrfs; without, a file that was not synced is empty under its new name, as POSIX
    /// and XFS allow.
    pub replace_by_rename: bool,
    /// Draws what survives a cut though it was not synced; none: nothing does.
    pub survivors: Option<Seed>,
}

impl Default for Options {
    /// 1 GiB, renames as ext4 has them, and no survivors.
    fn default() -> Self {
        Self { limit: 1 << 30, replace_by_rename: true, survivors: None }
    }
}

/// A disk that is mounted; unmounted when dropped.
pub struct Disk {
    backing: PathBuf,
    at: PathBuf,
    options: Options,
    tree: Arc<Mutex<Tree>>,
    session: Option<BackgroundSession>,
}

impl std::fmt::Debug for Disk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Disk").field("backing", &self.backing).field("at", &self.at).finish_non_exhaustive()
    }
}

/// Whether a disk can be mounted here: one is, for a moment.
///
/// # Errors
/// [`Error::Disk`], which says what to do.
pub fn check() -> Result<(), Error> {
    let place = std::env::temp_dir();
    let made = || {
        let folder = tempfile::tempdir_in(&place)?;
        let [backing, at] = ["backing", "at"].map(|name| folder.path().join(name));
        std::fs::create_dir(&backing)?;
        std::fs::create_dir(&at)?;
        Ok::<_, io::Error>((folder, backing, at))
    };
    let (_folder, backing, at) = made().map_err(|e| failed(&place, "make a folder to try it in", e))?;
    Disk::mount(&backing, &at, Options::default())?.unmount()
}

/// The part of a disk that a cut would take now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Volatile {
    /// Pages of 4 KiB.
    pub pages: u64,
    /// Changes of names and attributes.
    pub names: u64,
    /// Syncs that were completed so far.
    pub syncs: u64,
}

impl Disk {
    /// Mounts what is in the folder `backing` at the folder `at`. Neither may lie in the other.
    ///
    /// # Errors
    /// [`Error::Disk`]: no right to mount, no FUSE, a folder that is not there.
    pub fn mount(backing: &Path, at: &Path, options: Options) -> Result<Self, Error> {
        let failed = |doing, source| failed(at, doing, source);
        let backing = backing.canonicalize().map_err(|e| failed("find its backing folder", e))?;
        let place = at.canonicalize().map_err(|e| failed("find the folder to mount it at", e))?;
        if backing.starts_with(&place) || place.starts_with(&backing) {
            let e = io::Error::new(io::ErrorKind::InvalidInput, "one of them lies in the other");
            return Err(failed("mount it with its backing folder", e));
        }
        let tree = journal::load(&backing, options).map_err(|e| failed("read its backing folder", e))?;
        let mut disk = Self { backing, at: place, options, tree: Arc::new(Mutex::new(tree)), session: None };
        disk.attach()?;
        Ok(disk)
    }

    fn attach(&mut self) -> Result<(), Error> {
        let backing = File::open(&self.backing).map_err(|e| self.failed("open its backing folder", e))?;
        let server =
            fuse::Server { tree: self.tree.clone(), backing, listings: Mutex::new((0, HashMap::new())) };
        let mut config = Config::default();
        config.mount_options = vec![
            MountOption::FSName("dnsrack".into()),
            MountOption::DefaultPermissions,
            MountOption::NoAtime,
        ];
        config.acl = SessionACL::All;
        let session = Session::new(server, &self.at, &config).and_then(Session::spawn);
        self.session = Some(session.map_err(|e| self.failed("mount it", e))?);
        Ok(())
    }

    /// Where it is mounted.
    pub fn path(&self) -> &Path {
        &self.at
    }

    /// The folder with what is durable.
    pub fn backing(&self) -> &Path {
        &self.backing
    }

    /// The part that a cut would take now.
    pub fn volatile(&self) -> Volatile {
        let tree = locked(&self.tree);
        Volatile { pages: tree.pages, names: tree.journal.len() as u64, syncs: tree.syncs }
    }

    /// Cuts the power: at once nothing volatile is left, and every operation fails (EIO) until [`Disk::remount`]. A sync has
    /// returned before this, or it never will.
    ///
    /// # Errors
    /// [`Error::Disk`]: what was to survive by [`Options::survivors`] could not be written.
    pub fn cut(&self) -> Result<Cut, Error> {
        let at: Nanos = clock::wall();
        let cut = locked(&self.tree).cut(self.options.survivors);
        cut.map(|cut| Cut { at, ..cut }).map_err(|e| self.failed("write what survives", e))
    }

    /// Mounts it again on what is durable. Nobody may use it any more: kill the server before.
    ///
    /// # Errors
    /// [`Error::Disk`], also where it is still in use after 10 s.
    pub fn remount(&mut self) -> Result<(), Error> {
        self.detach()?;
        let tree = journal::load(&self.backing, self.options);
        self.tree = Arc::new(Mutex::new(tree.map_err(|e| self.failed("read its backing folder", e))?));
        self.attach()
    }

    /// Unmounts it. What was not synced is gone, as with a cut.
    ///
    /// # Errors
    /// As [`Disk::remount`].
    pub fn unmount(mut self) -> Result<(), Error> {
        self.detach()
    }

    fn detach(&mut self) -> Result<(), Error> {
        let Some(session) = self.session.take() else { return Ok(()) };
        // Whoever holds a file of it keeps it alive, detached: so it is not in the way of the next.
        net::ns::unmount(&self.at).map_err(|e| self.failed("unmount it", e))?;
        let until = Instant::now() + PATIENCE;
        while !session.guard.is_finished() {
            if Instant::now() > until {
                let e = io::Error::new(
                    io::ErrorKind::ResourceBusy,
                    "a process still has a file of it open, or works in it",
                );
                return Err(self.failed("wait for its last user", e));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        match session.join() {
            // The kernel gives one of these to a service that was reading its next request while the disk was unmounted.
            Err(e) if UNMOUNTED.contains(&rustix::io::Errno::from_io_error(&e)) => Ok(()),
            ended => ended.map_err(|e| self.failed("end its service", e)),
        }
    }

    fn failed(&self, doing: &'static str, source: io::Error) -> Error {
        failed(&self.at, doing, source)
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // There is nobody to tell of a failure.
        let _ = self.detach();
    }
}

fn failed(at: &Path, doing: &'static str, source: io::Error) -> Error {
    let hint = match source.kind() {
        io::ErrorKind::PermissionDenied => "; mounting it takes root, not only the root of a user namespace",
        io::ErrorKind::NotFound => "; is FUSE there (modprobe fuse)?",
        _ => "",
    };
    Error::Disk { at: at.into(), doing, source, hint }
}

/// A lock, also where a thread panicked that held it: requests leave the tree whole.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
