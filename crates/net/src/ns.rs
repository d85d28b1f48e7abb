//! Linux namespaces, and how a child process is put into one.
//!
//! The kernel keeps the network and mount namespace per *thread*: whoever only wants to look around in another
//! namespace does so on a thread of its own ([`in_net_namespace`]) and leaves the rest of the process where it
//! is. User and PID namespaces are kept per process and can only be changed while it has a single thread.
#![allow(unsafe_code)] // each block says why it is sound

use std::ffi::CString;
use std::fs::File;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

/// A set of namespace kinds, joined with `|`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Namespaces(libc::c_int);

impl Namespaces {
    /// User and group ids, capabilities.
    pub const USER: Self = Self(libc::CLONE_NEWUSER);
    /// Process ids; takes effect for children.
    pub const PID: Self = Self(libc::CLONE_NEWPID);
    /// Mounts.
    pub const MOUNT: Self = Self(libc::CLONE_NEWNS);
    /// Network devices, addresses, routes, sockets.
    pub const NET: Self = Self(libc::CLONE_NEWNET);
    /// System V IPC and POSIX message queues.
    pub const IPC: Self = Self(libc::CLONE_NEWIPC);
}

impl std::ops::BitOr for Namespaces {
    type Output = Self;
    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// Turns the `-1` of a system call into the error it stands for.
fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result == -1 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// Moves the calling thread (for `USER` and `PID`: the process) into new namespaces.
///
/// Errors: `EPERM` without the privilege, `EINVAL` for `USER` in a process with several threads, `ENOSPC` or
/// `EUSERS` at the limits of `/proc/sys/user`.
pub fn unshare(kinds: Namespaces) -> io::Result<()> {
    // SAFETY: takes no pointers; the flags accepted by `Namespaces` do not touch memory or file descriptors.
    check(unsafe { libc::unshare(kinds.0) }).map(drop)
}

/// Moves the calling thread into the namespace behind `fd`, which must be of that kind.
pub fn enter(fd: BorrowedFd<'_>, kind: Namespaces) -> io::Result<()> {
    // SAFETY: the descriptor is open for the length of the call; no pointers.
    check(unsafe { libc::setns(fd.as_raw_fd(), kind.0) }).map(drop)
}

/// Makes a new network namespace; it lives as long as the descriptor, a socket or a process in it.
pub fn new_net_namespace() -> io::Result<OwnedFd> {
    on_thread(|| {
        unshare(Namespaces::NET)?;
        current_net_namespace()
    })
}

/// The network namespace of the calling thread.
pub fn current_net_namespace() -> io::Result<OwnedFd> {
    File::open("/proc/thread-self/ns/net").map(OwnedFd::from)
}

/// Runs `f` on a fresh thread inside the network namespace behind `fd`; a panic in `f` is passed on.
///
/// Sockets made by `f` stay in that namespace wherever they are used afterwards.
pub fn in_net_namespace<T: Send>(fd: BorrowedFd<'_>, f: impl FnOnce() -> T + Send) -> io::Result<T> {
    on_thread(|| {
        enter(fd, Namespaces::NET)?;
        Ok(f())
    })
}

fn on_thread<T: Send>(f: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name("namespace".into()).spawn_scoped(scope, f)?;
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// What becomes of a child between fork and exec.
#[derive(Debug, Default)]
pub struct Entry {
    /// The user namespace it moves into, before the network namespace.
    pub user: Option<OwnedFd>,
    /// The network namespace it moves into.
    pub net: Option<OwnedFd>,
    /// The CPUs it may run on; empty: as the parent.
    pub cpus: Vec<usize>,
    /// Whether it leads a session (and so a process group) of its own.
    pub session: bool,
    /// Whether it is killed when the *thread* that spawned it ends. A program that changes its user id or has
    /// file capabilities loses this (prctl(2)).
    pub die_with_parent: bool,
}

/// Arranges for `command`'s child to be prepared as `entry` says.
///
/// Errors: a CPU number beyond what the kernel's mask holds (1024).
pub fn prepare(command: &mut Command, entry: Entry) -> io::Result<()> {
    // SAFETY: an all-zero cpu_set_t is the empty set.
    let mut set: libc::cpu_set_t = unsafe { MaybeUninit::zeroed().assume_init() };
    for &cpu in &entry.cpus {
        if cpu >= libc::CPU_SETSIZE as usize {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, format!("no such CPU: {cpu}")));
        }
        // SAFETY: the index was checked against the size of the set.
        unsafe { libc::CPU_SET(cpu, &mut set) };
    }
    let pinned = !entry.cpus.is_empty();
    // SAFETY: getpid cannot fail.
    let parent = unsafe { libc::getpid() };
    let before_exec = move || {
        if entry.session {
            // SAFETY: no arguments. Fails only for a group leader, which a fresh child is not.
            check(unsafe { libc::setsid() })?;
        }
        if entry.die_with_parent {
            die_with_parent()?;
            // SAFETY: cannot fail. The parent may have died before the line above.
            if unsafe { libc::getppid() } != parent {
                return Err(io::Error::from_raw_os_error(libc::ECHILD));
            }
        }
        if let Some(fd) = &entry.user {
            // SAFETY: the descriptor is owned by this closure; no pointers.
            check(unsafe { libc::setns(fd.as_raw_fd(), libc::CLONE_NEWUSER) })?;
        }
        if let Some(fd) = &entry.net {
            // SAFETY: as above.
            check(unsafe { libc::setns(fd.as_raw_fd(), libc::CLONE_NEWNET) })?;
        }
        if pinned {
            // SAFETY: the set lives in this closure and has the size that is passed.
            check(unsafe { libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &set) })?;
        }
        Ok(())
    };
    // SAFETY: the closure makes plain system calls only: no allocation, no locks, so it may run between fork and
    // exec in a process with several threads.
    unsafe { command.pre_exec(before_exec) };
    Ok(())
}

/// Has the calling process killed (SIGKILL) when the thread that is its parent ends.
pub fn die_with_parent() -> io::Result<()> {
    // SAFETY: an integer option with an integer argument.
    check(unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL as libc::c_ulong) }).map(drop)
}

fn c_path(path: &Path) -> io::Result<CString> {
    CString::new(path.as_os_str().as_bytes()).map_err(|e| io::Error::new(io::ErrorKind::InvalidInput, e))
}
