//! Errors of the rack, each with where it happened and what to do.

use std::io;
use std::path::PathBuf;

/// An error of the rack.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No such program, looked up as execvp(3) does.
    #[error("{program} on host {host}: no such program on PATH; install it or give its full path")]
    NoProgram {
        /// The program as it was asked for.
        program: String,
        /// The host's name.
        host: String,
    },
    /// A process could not be started.
    #[error("{program} on host {host}: cannot start: {source}")]
    Start {
        /// The program as it was asked for.
        program: String,
        /// The host's name.
        host: String,
        /// The system's reason.
        source: io::Error,
    },
    /// A file or folder that a process was to use.
    #[error("{program} on host {host}: {}: {source}", path.display())]
    File {
        /// The program as it was asked for.
        program: String,
        /// The host's name.
        host: String,
        /// Its output file or working folder.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// A process was to be pinned to CPUs that are not there for us.
    #[error("{program} on host {host}: cannot run on CPU {cpu}; this process may use {allowed:?}")]
    Cpu {
        /// The program, or what else was to be pinned.
        program: String,
        /// The host's name.
        host: String,
        /// The first CPU that is missing.
        cpu: usize,
        /// The CPUs that are there.
        allowed: Vec<usize>,
    },
    /// A process that runs could not be waited for or signalled.
    #[error("{program} (process {pid}) on host {host}: {doing}: {source}")]
    Process {
        /// The program as it was asked for.
        program: String,
        /// Its process id.
        pid: u32,
        /// The host's name.
        host: String,
        /// The operation that failed.
        doing: &'static str,
        /// The system's reason.
        source: io::Error,
    },
    /// Something that is done inside a host's namespace failed.
    #[error("host {host}: {doing}: {source}")]
    Host {
        /// The host's name.
        host: String,
        /// The operation that failed.
        doing: String,
        /// The system's reason.
        source: io::Error,
    },
    /// The run's own namespaces could not be made.
    #[error("cannot make the namespaces of the run: {doing}: {source}{}", hint(source))]
    Confine {
        /// The operation that failed.
        doing: &'static str,
        /// The system's reason.
        source: io::Error,
    },
    /// A rack that cannot be: a bad name, address or CPU.
    #[error("rack: {0}")]
    Spec(String),
    /// A rack file that is not TOML, or has a key or value that is not known.
    #[error("{file}:{line}:{column}: {message}")]
    Parse {
        /// The file's name.
        file: String,
        /// Counted from 1.
        line: usize,
        /// Counted from 1, in characters.
        column: usize,
        /// The fault there.
        message: String,
    },
    /// A switch or a link could not be made.
    #[error("rack: {doing}: {message}{hint}")]
    Link {
        /// The operation that failed, with the names of the host and its device.
        doing: String,
        /// The kernel's reason.
        message: String,
        /// Advice, or nothing.
        hint: &'static str,
    },
    /// A file below /proc could not be read or has an unknown shape.
    #[error("{path}: {message}")]
    Sample {
        /// The file.
        path: String,
        /// The fault in it.
        message: String,
    },
    /// No kept rack of this name, or none at all.
    #[error("no rack {name}is up; `dnsrack rack list` shows which are")]
    NoRack {
        /// Its name and a space; empty: whichever.
        name: String,
    },
    /// A kept rack of this name is there already.
    #[error("rack {name} is up already; `dnsrack rack down {name}` removes it, --name gives another name")]
    Taken {
        /// Its name.
        name: String,
    },
    /// Several racks are up and none was named.
    #[error("several racks are up ({}); name one", names.join(", "))]
    Ambiguous {
        /// Their names.
        names: Vec<String>,
    },
    /// A kept rack has no such host.
    #[error("rack {rack} has no host {host}, only {}", hosts.join(", "))]
    NoHost {
        /// The rack's name.
        rack: String,
        /// The host that was asked for.
        host: String,
        /// The hosts that there are.
        hosts: Vec<String>,
    },
    /// A role on a host failed.
    #[error("{role} on host {host}: {message}")]
    Role {
        /// The role.
        role: String,
        /// Where it ran.
        host: String,
        /// Its last words, or how it ended.
        message: String,
    },
    /// A capture on a host failed.
    #[error("capture on host {host}: {message}; is tcpdump installed (apt-get install tcpdump)?")]
    Capture {
        /// Where it was made.
        host: String,
        /// The last words of `tcpdump`, or how it ended.
        message: String,
    },
    /// A disk whose power can be cut could not be made or used.
    #[error("disk at {}: {doing}: {source}{hint}", at.display())]
    Disk {
        /// Where it is, or was to be, mounted.
        at: PathBuf,
        /// The operation that failed.
        doing: &'static str,
        /// The system's reason.
        source: io::Error,
        /// Advice, or nothing.
        hint: &'static str,
    },
    /// A folder whose programs cannot be run on this machine.
    #[error("root folder {}: {why}", path.display())]
    Root {
        /// The folder.
        path: PathBuf,
        /// Why not, and what would be right.
        why: String,
    },
    /// A trace of system calls could not be made or read.
    #[error("trace of system calls {}: {message}", path.display())]
    Syncs {
        /// The trace's file.
        path: PathBuf,
        /// The fault in it.
        message: String,
    },
    /// A rack could not be kept, entered or removed.
    #[error("rack {rack}: {doing}: {source}")]
    StandingRack {
        /// The rack's name.
        rack: String,
        /// The operation that failed.
        doing: String,
        /// The system's reason.
        source: io::Error,
    },
    /// The process that was to hold a rack says why it cannot.
    #[error("{0}")]
    Holder(String),
}

/// Advice where the kernel refuses to make namespaces.
pub(crate) fn hint(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::PermissionDenied => {
            "; run as root, or allow user namespaces (sysctl kernel.unprivileged_userns_clone=1, \
             kernel.apparmor_restrict_unprivileged_userns=0)"
        }
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            "; raise the limits in /proc/sys/user (max_user_namespaces and its neighbours)"
        }
        _ => "",
    }
}
