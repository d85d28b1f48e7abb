//! Linux namespaces, and how a child process is put into one.
//!
//! The kernel keeps the network and mount namespace per *thread*: a thread that only wants to look around in another
//! namespace does so on a thread of its own ([`in_net_namespace`]) and leaves the rest of the process where it
//! is. User and PID namespaces are kept per process and can only be changed while it has a single thread.
#![allow(unsafe_code)] // each block says why it is sound

use std::ffi::{CStr, CString};
use std::fs::File;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
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

/// The settings of a child between fork and exec.
#[derive(Debug, Default)]
pub struct Entry {
    /// New namespaces it makes for itself, before all else.
    pub unshare: Option<Namespaces>,
    /// The user namespace it moves into, before the network namespace.
    pub user: Option<OwnedFd>,
    /// The network namespace it moves into.
    pub net: Option<OwnedFd>,
    /// Folders that it sees in the place of others: what it sees, and where. They are mounted in a mount namespace of its own.
    pub binds: Vec<(PathBuf, PathBuf)>,
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
/// Errors: a CPU number beyond what the kernel's mask holds (1024), a path with a zero octet.
pub fn prepare(command: &mut Command, entry: Entry) -> io::Result<()> {
    let paths = |(seen, place): &(PathBuf, PathBuf)| Ok((c_path(seen)?, c_path(place)?));
    let binds = entry.binds.iter().map(paths).collect::<io::Result<Vec<_>>>()?;
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
        if let Some(kinds) = entry.unshare {
            // SAFETY: no pointers, see `unshare`.
            check(unsafe { libc::unshare(kinds.0) })?;
        }
        if let Some(fd) = &entry.user {
            // SAFETY: the descriptor is owned by this closure; no pointers.
            check(unsafe { libc::setns(fd.as_raw_fd(), libc::CLONE_NEWUSER) })?;
        }
        if let Some(fd) = &entry.net {
            // SAFETY: as above.
            check(unsafe { libc::setns(fd.as_raw_fd(), libc::CLONE_NEWNET) })?;
        }
        if !binds.is_empty() {
            // SAFETY: no pointers, see `unshare`.
            check(unsafe { libc::unshare(libc::CLONE_NEWNS) })?;
            mount_raw(None, c"/", None, libc::MS_REC | libc::MS_PRIVATE)?;
        }
        for (seen, place) in &binds {
            mount_raw(Some(seen), place, None, libc::MS_BIND | libc::MS_REC)?;
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

/// Forks. Returns the child's process id, and `None` in the child.
///
/// Errors: refused in a process with several threads, where the child could meet locks that nobody will ever
/// release.
pub fn fork() -> io::Result<Option<u32>> {
    if std::fs::read_dir("/proc/self/task")?.count() != 1 {
        return Err(io::Error::other("cannot fork a process that already has several threads"));
    }
    // SAFETY: there is one thread only, so the child is a full copy of a consistent process.
    let pid = check(unsafe { libc::fork() })?;
    Ok((pid != 0).then_some(pid as u32))
}

/// Makes every mount private to this mount namespace: nothing that is mounted here shows elsewhere.
pub fn make_mounts_private() -> io::Result<()> {
    mount(None, Path::new("/"), None, libc::MS_REC | libc::MS_PRIVATE)
}

/// Mounts a fresh /proc of the current PID namespace.
pub fn mount_proc() -> io::Result<()> {
    let flags = libc::MS_NOSUID | libc::MS_NODEV | libc::MS_NOEXEC;
    mount(Some(Path::new("proc")), Path::new("/proc"), Some("proc"), flags)
}

/// Mounts a fresh /sys of the current network namespace.
pub fn mount_sysfs() -> io::Result<()> {
    let flags = libc::MS_NOSUID | libc::MS_NODEV | libc::MS_NOEXEC;
    mount(Some(Path::new("sysfs")), Path::new("/sys"), Some("sysfs"), flags)
}

/// Mounts the existing file `from` over the existing file `to`; so a namespace's file is kept alive (pinned).
pub fn bind_mount(from: &Path, to: &Path) -> io::Result<()> {
    mount(Some(from), to, None, libc::MS_BIND)
}

/// Takes away what is mounted on `path`, at once even if it is still in use (its users keep it).
pub fn unmount(path: &Path) -> io::Result<()> {
    let path = c_path(path)?;
    // SAFETY: the path is a C string that outlives the call.
    check(unsafe { libc::umount2(path.as_ptr(), libc::MNT_DETACH) }).map(drop)
}

fn mount(from: Option<&Path>, to: &Path, kind: Option<&str>, flags: libc::c_ulong) -> io::Result<()> {
    let from = from.map(c_path).transpose()?;
    let to = c_path(to)?;
    let kind = kind.map(|k| c_path(Path::new(k))).transpose()?;
    mount_raw(from.as_deref(), &to, kind.as_deref(), flags)
}

/// mount(2) alone, without an allocation: between fork and exec.
fn mount_raw(from: Option<&CStr>, to: &CStr, kind: Option<&CStr>, flags: libc::c_ulong) -> io::Result<()> {
    let pointer = |s: Option<&CStr>| s.map_or(std::ptr::null(), CStr::as_ptr);
    // SAFETY: each pointer is null where mount(2) allows it, or a C string that outlives the call.
    check(unsafe { libc::mount(pointer(from), to.as_ptr(), pointer(kind), flags, std::ptr::null()) })
        .map(drop)
}

/// Sets the loopback device of the current network namespace up.
pub fn loopback_up() -> io::Result<()> {
    let socket = std::net::UdpSocket::bind("0.0.0.0:0")?;
    let mut request = interface_request("lo")?;
    request.ifr_ifru.ifru_flags = (libc::IFF_UP | libc::IFF_RUNNING) as libc::c_short;
    // SAFETY: the request is a whole ifreq that outlives the call; the kernel only reads it.
    check(unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS, &raw const request) }).map(drop)
}

fn interface_request(device: &str) -> io::Result<libc::ifreq> {
    // SAFETY: ifreq is a plain C structure for which all zeroes is valid.
    let mut request: libc::ifreq = unsafe { MaybeUninit::zeroed().assume_init() };
    if device.len() >= request.ifr_name.len() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "device name is too long"));
    }
    for (to, &from) in request.ifr_name.iter_mut().zip(device.as_bytes()) {
        *to = from as libc::c_char;
    }
    Ok(request)
}

/// Opens an AF_XDP socket and closes it again; the error says why there is none.
pub fn try_xdp_socket() -> io::Result<()> {
    // SAFETY: integers only; a returned descriptor is new and ours alone.
    let fd = check(unsafe { libc::socket(libc::AF_XDP, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) })?;
    // SAFETY: see above.
    drop(unsafe { OwnedFd::from_raw_fd(fd) });
    Ok(())
}

/// The signals that were blocked before [`block_signals`].
pub struct SignalMask(libc::sigset_t);

/// A signal as [`wait_signal`] received it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received {
    /// Its number.
    pub signal: i32,
    /// Whether a process sent it; otherwise the kernel did (a child ended, Ctrl-C on the terminal: which
    /// the whole foreground process group gets).
    pub by_process: bool,
}

fn signal_set(signals: &[i32]) -> libc::sigset_t {
    // SAFETY: the set is initialised by sigemptyset before it is used; sigaddset ignores bad numbers.
    unsafe {
        let mut set = MaybeUninit::uninit();
        libc::sigemptyset(set.as_mut_ptr());
        let mut set = set.assume_init();
        for &signal in signals {
            libc::sigaddset(&mut set, signal);
        }
        set
    }
}

/// Blocks `signals` in the calling thread, so that [`wait_signal`] gets them.
pub fn block_signals(signals: &[i32]) -> io::Result<SignalMask> {
    let set = signal_set(signals);
    let mut old = MaybeUninit::uninit();
    // SAFETY: both sets outlive the call; `old` is initialised when it succeeds.
    unsafe {
        check(libc::sigprocmask(libc::SIG_BLOCK, &set, old.as_mut_ptr()))?;
        Ok(SignalMask(old.assume_init()))
    }
}

impl SignalMask {
    /// Blocks these signals in the calling thread, and no others.
    pub fn restore(&self) -> io::Result<()> {
        // SAFETY: an initialised set that outlives the call.
        check(unsafe { libc::sigprocmask(libc::SIG_SETMASK, &self.0, std::ptr::null_mut()) }).map(drop)
    }
}

/// Waits for one of `signals`, which must be blocked.
pub fn wait_signal(signals: &[i32]) -> io::Result<Received> {
    let set = signal_set(signals);
    let mut info = MaybeUninit::<libc::siginfo_t>::uninit();
    loop {
        // SAFETY: both outlive the call; `info` is initialised when it succeeds.
        match check(unsafe { libc::sigwaitinfo(&set, info.as_mut_ptr()) }) {
            Ok(signal) => {
                // SAFETY: see above.
                let code = unsafe { info.assume_init_ref() }.si_code;
                return Ok(Received { signal, by_process: code <= 0 });
            }
            Err(e) if e.kind() == io::ErrorKind::Interrupted => (),
            Err(e) => return Err(e),
        }
    }
}

fn c_path(path: &Path) -> io::Result<CString> {
    CString::new(path.as_os_str().as_bytes()).map_err(|e| io::Error::new(io::ErrorKind::InvalidInput, e))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forking_with_several_threads_is_refused() {
        // The test harness runs each test on a thread of its own.
        assert!(fork().is_err());
    }

    #[test]
    fn a_closure_sees_the_other_namespace_and_its_thread_only() {
        let Ok(other) = new_net_namespace() else {
            eprintln!("SKIPPED: no privilege to make a network namespace");
            return;
        };
        let seen = || std::fs::read_link("/proc/thread-self/ns/net").unwrap();
        let (here, there) = (seen(), in_net_namespace(std::os::fd::AsFd::as_fd(&other), seen).unwrap());
        assert_ne!(here, there);
        assert_eq!(here, seen());
        in_net_namespace(std::os::fd::AsFd::as_fd(&other), || {
            loopback_up().unwrap();
            std::net::UdpSocket::bind("127.0.0.1:53").unwrap();
        })
        .unwrap();
    }

    #[test]
    fn a_cpu_beyond_the_mask_is_an_error() {
        let entry = Entry { cpus: vec![5000], ..Entry::default() };
        assert!(prepare(&mut Command::new("true"), entry).is_err());
    }
}
