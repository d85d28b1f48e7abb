//! Namespaces of their own for everything that a run starts, so that nothing can outlive it.
//!
//! [`confine`] turns the program into three processes:
//!
//! - *outer*: stays where it was started, passes signals on, waits, and ends with the same status;
//! - *init*: process 1 of a new PID namespace (but see below), with mounts, network and IPC of its own (and, without root, a
//!   user namespace in which we are root); reaps what others leave behind;
//! - *inner*: process 2, where [`confine`] returns and the program goes on.
//!
//! The kernel kills a PID namespace with its process 1. Init ends when inner does, and is killed (PDEATHSIG)
//! when outer ends. So SIGKILL of any of them ends every process; with the last process go the namespaces and
//! their links, as nothing is pinned in the file system. Servers are not needed for any of this: a program that
//! drops privileges loses its own PDEATHSIG, but never leaves the PID namespace.
//!
//! A container's engine may hide parts of /proc, and the kernel then lets nobody mount another one without the engine's privileges. Without
//! a /proc of its own a PID namespace is of no use, since process ids in it would be looked up among others. There outer and init are the
//! reapers of what is left behind instead (PR_SET_CHILD_SUBREAPER), and kill it when the process below them has ended. Everything still ends
//! when any one of the three ends, also by SIGKILL.

use crate::Error;
use crate::resource_counters::Processes;
use net::ns::{self, Namespaces, Received};
use rustix::process::{
    Pid, Signal, WaitOptions, WaitStatus, getpid, kill_process, set_child_subreaper,
    set_parent_process_death_signal, wait,
};
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::process::exit;
use std::time::Duration;

/// How the process was confined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Confinement {
    /// Whether a user namespace had to be made: then only one user id exists in it (ours, seen as root), and
    /// a server cannot change to another user.
    pub user_namespace: bool,
}

/// Signals that are passed on, besides the end of a child.
const PASSED_ON: [Signal; 6] =
    [Signal::INT, Signal::TERM, Signal::HUP, Signal::QUIT, Signal::USR1, Signal::USR2];

/// Confines the program: returns in *inner*; *outer* and *init* never return but exit with inner's status,
/// or with 128 + n when it was ended by signal n.
///
/// Must be called before the process starts any thread. A key such as Ctrl-C reaches inner directly
/// (all three are in one process group) and is not passed on again; one sent to the whole group by a program
/// may reach inner twice.
///
/// Errors: no privilege to make namespaces, or several threads. What fails later than that, in init, is
/// written to standard error and ends the program with status 1.
pub fn confine() -> Result<Confinement, Error> {
    confine_with(Some(Namespaces::NET))
}

/// As [`confine`], but in the network that we are in: for what is done on a host of its own.
///
/// # Errors
/// As there.
pub fn confine_processes() -> Result<Confinement, Error> {
    confine_with(None)
}

/// `network`: [`Namespaces::NET`], where the network is apart, too.
fn confine_with(network: Option<Namespaces>) -> Result<Confinement, Error> {
    // From a namespace of our own the machine-wide ones cannot be read.
    crate::environment::remember_sysctls();
    crate::resource_counters::remember_processes();
    let keep = if pid_namespace_is_of_use() { Keep::Namespace } else { Keep::Reapers(descendants()) };
    let user_namespace = unshare_privileged(match keep {
        Keep::Namespace => Namespaces::PID,
        // Init makes another one: this is for the privilege alone.
        Keep::Reapers(_) => Namespaces::IPC,
    })?;
    let failed = |doing| move |source| Error::Confine { doing, source };
    if let Keep::Reapers(_) = keep {
        reap_descendants()?;
    }
    // Init watches the reading end: its end of file says that outer is gone.
    let (watch, alive) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)
        .map_err(|e| failed("make a pipe")(e.into()))?;
    let signals = signals();
    let mask = ns::block_signals(&signals).map_err(failed("block signals"))?;
    match ns::fork() {
        Err(source) => {
            let _ = mask.restore();
            Err(Error::Confine { doing: "fork", source })
        }
        Ok(Some(init)) => {
            drop(watch);
            outer(init, &signals, alive, &keep)
        }
        Ok(None) => {
            drop(alive);
            if let Err(error) = become_init(&watch, network, &keep) {
                say(format_args!("dnsrack: {error}"));
                exit(1);
            }
            match ns::fork() {
                Ok(Some(inner)) => init(inner, &signals, &keep),
                Ok(None) => {
                    if let Keep::Reapers(_) = keep {
                        ns::die_with_parent().map_err(failed("ask to be killed with the parent"))?;
                    }
                    mask.restore().map_err(failed("unblock signals"))?;
                    Ok(Confinement { user_namespace })
                }
                Err(e) => {
                    say(format_args!("dnsrack: {}", failed("fork")(e)));
                    exit(1);
                }
            }
        }
    }
}

/// The way in which all processes of a run end when the run does.
enum Keep {
    /// A PID namespace, which ends with its process 1.
    Namespace,
    /// Outer and init, which reap and kill what is left below them. The processes in the list were below outer before, and are spared.
    Reapers(Vec<u32>),
}

impl Keep {
    /// Kills what is left below us.
    fn end(&self) {
        let Self::Reapers(before) = self else { return };
        loop {
            while reap(None).is_some() {}
            let left: Vec<u32> = descendants().into_iter().filter(|pid| !before.contains(pid)).collect();
            if left.is_empty() {
                return;
            }
            for pid in left.into_iter().filter_map(|pid| Pid::from_raw(pid as i32)) {
                let _ = kill_process(pid, Signal::KILL);
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// The processes below us; none where they cannot be seen.
fn descendants() -> Vec<u32> {
    let own = std::process::id();
    let all = Processes::now().map(|all| all.tree(&[own])).unwrap_or_default();
    all.into_iter().filter(|pid| *pid != own).collect()
}

/// Whether we can make a PID namespace and mount a /proc that shows its processes. A child tries it, because a process cannot leave such a
/// namespace. The answer is also true where the child cannot try: the steps that follow fail then, with the right error.
fn pid_namespace_is_of_use() -> bool {
    let mount_proc = || {
        let apart = ns::unshare(Namespaces::MOUNT).and_then(|()| ns::make_mounts_private());
        apart.and_then(|()| ns::mount_proc()).is_ok()
    };
    child_says(|| unshare_privileged(Namespaces::PID).is_err() || child_says(mount_proc))
}

/// Runs `find` in a child and gives its answer. True where no child can be made.
fn child_says(find: impl FnOnce() -> bool) -> bool {
    match ns::fork() {
        Ok(None) => exit(i32::from(!find())),
        Ok(Some(child)) => {
            let ended = rustix::process::waitpid(Pid::from_raw(child as i32), WaitOptions::empty());
            ended.ok().flatten().is_some_and(|(_, status)| status.exit_status() == Some(0))
        }
        Err(_) => true,
    }
}

/// Makes a process below us our child when its parent ends, so that we can find it and kill it.
fn reap_descendants() -> Result<(), Error> {
    let doing = "reap what is left behind";
    set_child_subreaper(Some(getpid())).map_err(|e| Error::Confine { doing, source: e.into() })
}

/// Unshares `kinds` with the privilege that root has, or else in a new user namespace in which we are root
/// (returns true).
pub(crate) fn unshare_privileged(kinds: Namespaces) -> Result<bool, Error> {
    let failed = |doing| move |source| Error::Confine { doing, source };
    let (uid, gid) = (rustix::process::geteuid(), rustix::process::getegid());
    // Root in a container may lack the privilege too.
    if uid.is_root() && ns::unshare(kinds).is_ok() {
        return Ok(false);
    }
    ns::unshare(Namespaces::USER).map_err(failed("unshare the user namespace"))?;
    let maps = [
        // The order is the kernel's: unless setgroups is denied, an unprivileged gid_map is refused.
        ("setgroups", "deny".to_owned()),
        ("uid_map", format!("0 {} 1", uid.as_raw())),
        ("gid_map", format!("0 {} 1", gid.as_raw())),
    ];
    for (file, text) in maps {
        fs::write(format!("/proc/self/{file}"), text).map_err(failed("write the user namespace's maps"))?;
    }
    ns::unshare(kinds).map_err(failed("unshare the PID, mount or network namespace"))?;
    Ok(true)
}

fn signals() -> Vec<i32> {
    let mut all: Vec<i32> = PASSED_ON.iter().map(|s| s.as_raw()).collect();
    all.push(Signal::CHILD.as_raw());
    all
}

/// Sends on what a process sent to us. What a terminal's key sent, it sent to the others too; but the terminal's
/// end is signalled to the leader of its session alone, which may be us.
fn pass_on(received: Received, to: Pid) {
    if let Some(signal) = Signal::from_named_raw(received.signal)
        && signal != Signal::CHILD
        && (received.by_process || signal == Signal::HUP)
    {
        let _ = kill_process(to, signal);
    }
}

fn outer(init: u32, signals: &[i32], alive: OwnedFd, keep: &Keep) -> ! {
    let pid = Pid::from_raw(init as i32).expect("a child's process id is positive");
    loop {
        if let Some((_, status)) = reap(Some(pid)) {
            drop(alive);
            keep.end();
            if let Some(signal) = status.terminating_signal() {
                say(format_args!("dnsrack: the run was ended by signal {signal} ({})", signal_name(signal)));
                exit(128 + signal);
            }
            exit(status.exit_status().unwrap_or(1));
        }
        if let Ok(received) = ns::wait_signal(signals) {
            pass_on(received, pid);
        }
    }
}

fn become_init(watch: &OwnedFd, network: Option<Namespaces>, keep: &Keep) -> Result<(), Error> {
    let failed = |doing| move |source| Error::Confine { doing, source };
    let with_parent = match keep {
        Keep::Namespace => Signal::KILL,
        // A signal that is passed on, so that inner ends before us and nothing is left.
        Keep::Reapers(_) => Signal::TERM,
    };
    set_parent_process_death_signal(Some(with_parent))
        .map_err(|e| failed("ask to be killed with the parent")(e.into()))?;
    // Outer may have died before that line; its process id may be hidden from us, but its pipe is not.
    let mut watched = [rustix::event::PollFd::new(watch, rustix::event::PollFlags::IN)];
    let none = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
    if rustix::event::poll(&mut watched, Some(&none)).is_ok_and(|ready| ready > 0) {
        return Err(failed("the parent is gone")(io::Error::from_raw_os_error(
            rustix::io::Errno::SRCH.raw_os_error(),
        )));
    }
    let apart = Namespaces::MOUNT | Namespaces::IPC;
    ns::unshare(network.map_or(apart, |network| apart | network))
        .map_err(failed("unshare the mount, network and IPC namespaces"))?;
    ns::make_mounts_private().map_err(failed("make the mounts private"))?;
    match keep {
        Keep::Namespace => ns::mount_proc().map_err(failed("mount /proc"))?,
        Keep::Reapers(_) => reap_descendants()?,
    }
    if network.is_none() {
        return Ok(());
    }
    ns::loopback_up().map_err(failed("set the loopback device up"))
}

/// Passes signals on to inner, reaps all, ends with inner.
fn init(inner: u32, signals: &[i32], keep: &Keep) -> ! {
    let pid = Pid::from_raw(inner as i32).expect("a child's process id is positive");
    loop {
        while let Some((ended, status)) = reap(None) {
            if ended != pid {
                continue; // an orphan
            }
            keep.end();
            if let Some(signal) = status.terminating_signal() {
                say(format_args!("dnsrack: the run was ended by signal {signal} ({})", signal_name(signal)));
                exit(128 + signal);
            }
            exit(status.exit_status().unwrap_or(1));
        }
        if let Ok(received) = ns::wait_signal(signals) {
            pass_on(received, pid);
        }
    }
}

/// The last word of outer or init, which nobody else can say; the terminal may be gone.
fn say(message: std::fmt::Arguments<'_>) {
    use std::io::Write;
    let _ = writeln!(io::stderr(), "{message}");
}

/// A child (this one or any) that has ended.
fn reap(pid: Option<Pid>) -> Option<(Pid, WaitStatus)> {
    match pid {
        None => wait(WaitOptions::NOHANG).ok().flatten(),
        Some(_) => rustix::process::waitpid(pid, WaitOptions::NOHANG).ok().flatten(),
    }
}

fn signal_name(signal: i32) -> &'static str {
    match Signal::from_named_raw(signal) {
        Some(Signal::KILL) => "SIGKILL: killed, or out of memory",
        Some(Signal::SEGV) => "SIGSEGV",
        Some(Signal::ABORT) => "SIGABRT",
        Some(Signal::BUS) => "SIGBUS",
        Some(Signal::ILL) => "SIGILL",
        Some(Signal::TERM) => "SIGTERM",
        Some(Signal::INT) => "SIGINT",
        Some(Signal::HUP) => "SIGHUP",
        Some(Signal::QUIT) => "SIGQUIT",
        Some(Signal::PIPE) => "SIGPIPE",
        _ => "see signal(7)",
    }
}
