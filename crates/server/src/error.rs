//! Errors of servers, with enough detail that their own log need not be looked for.

use crate::kind::Kind;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A server and its problem.
#[derive(Debug, thiserror::Error)]
#[error("server '{label}': {problem}")]
pub struct Error {
    /// The server's label.
    pub label: String,
    /// The problem. Boxed: a `Result` stays small.
    pub problem: Box<Problem>,
}

/// A problem with a server.
#[derive(Debug, thiserror::Error)]
pub enum Problem {
    /// A specification that cannot be met.
    #[error("{field}: {why}")]
    Spec {
        /// The field of [`crate::ServerSpec`].
        field: &'static str,
        /// The fault, and what would be right.
        why: String,
    },
    /// The program, or one of its tools, is not installed.
    #[error(
        "{kind} needs the program '{program}', which is not {looked}; install it (apt-get install {package}) or \
         name its path"
    )]
    Missing {
        /// The kind of server.
        kind: Kind,
        /// The program or path tried.
        program: PathBuf,
        /// Where it was looked for.
        looked: String,
        /// Debian's package that has it.
        package: &'static str,
    },
    /// The zone file cannot be read.
    #[error("cannot read the zone file {}: {source}", path.display())]
    Zone {
        /// The zone file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Somebody else has the port.
    #[error(
        "{transport} port {address} is occupied on host '{host}'; stop what uses it (ss -lnp shows it) or choose \
         another port"
    )]
    PortInUse {
        /// `UDP` or `TCP`.
        transport: &'static str,
        /// The address and port.
        address: SocketAddr,
        /// The host.
        host: String,
    },
    /// The address is not the host's, or the port is not for us.
    #[error(
        "cannot listen on {address} on host '{host}': {source}; is the address the host's, the port allowed?"
    )]
    Address {
        /// The address and port.
        address: SocketAddr,
        /// The host.
        host: String,
        /// Why.
        source: io::Error,
    },
    /// The server's folder is already in use.
    #[error("the folder {} is not empty; every start needs a fresh one", .0.display())]
    DirectoryNotEmpty(PathBuf),
    /// A file of ours cannot be written or read.
    #[error("cannot {doing} {}: {source}", path.display())]
    File {
        /// The operation that failed.
        doing: &'static str,
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The server's own checker refuses the configuration.
    #[error("{checker} refuses the configuration {}:{}", path.display(), indented(said))]
    Config {
        /// The checker's command line.
        checker: String,
        /// The configuration.
        path: PathBuf,
        /// The checker's words.
        said: String,
    },
    /// A tool of the server failed.
    #[error("{command} failed ({status}):{}", indented(said))]
    Tool {
        /// Its command line.
        command: String,
        /// How it ended.
        status: String,
        /// Its words.
        said: String,
    },
    /// The launcher could not start a program, or lost it.
    #[error("{0}")]
    Rack(#[from] rack::Error),
    /// It answers, but with another version of the zone.
    #[error(
        "{address} serves zone {origin} with serial {got}, not {expected}: the wrong zone file, or an old one"
    )]
    WrongSerial {
        /// The address that answered.
        address: SocketAddr,
        /// The zone.
        origin: String,
        /// The zone file's serial.
        expected: u32,
        /// The serial served.
        got: u32,
    },
    /// It answers, but not what the zone says.
    #[error("{address} answers {question} wrongly: {why}")]
    WrongAnswer {
        /// The address that answered.
        address: SocketAddr,
        /// The question: name and type.
        question: String,
        /// How the answer differs from the zone.
        why: String,
    },
    /// No right answer in time.
    #[error("not ready after {:.1} s: {last}{}", after.as_secs_f64(), because(cause))]
    NotReady {
        /// How long was waited.
        after: Duration,
        /// The last observation.
        last: String,
        /// The cause, by its log.
        cause: Cause,
    },
    /// The wait for it was given up.
    #[error("not waited for: the run was stopped")]
    Stopped,
    /// It runs, but has refused the zone: it will never be ready.
    #[error("it runs, but refused the zone{}", because(cause))]
    Refused {
        /// Its own words.
        cause: Cause,
    },
    /// The process has ended.
    #[error("died ({status}){}{}", starved(*killed), because(cause))]
    Died {
        /// How it ended: exit status or signal.
        status: String,
        /// Processes of this machine that the kernel killed for want of memory since the server's start.
        killed: u64,
        /// The cause, by its log.
        cause: Cause,
    },
    /// An external server does not answer any more.
    #[error("{address} does not answer: {last}; nothing was started there, so look at it by hand")]
    Silent {
        /// Where it should.
        address: SocketAddr,
        /// The last observation.
        last: String,
    },
    /// This kind of server cannot do that.
    #[error("{kind} cannot {what}")]
    Unsupported {
        /// The kind.
        kind: Kind,
        /// The request.
        what: &'static str,
    },
}

impl Error {
    pub(crate) fn new(label: &str, problem: impl Into<Problem>) -> Self {
        Error { label: label.into(), problem: Box::new(problem.into()) }
    }

    pub(crate) fn file(label: &str, doing: &'static str, path: &Path, source: io::Error) -> Self {
        Error::new(label, Problem::File { doing, path: path.into(), source })
    }

    /// The same with a secret struck out of a tool's command line and words.
    pub(crate) fn hiding(mut self, secret: &str) -> Self {
        if let (Problem::Tool { command, said, .. }, false) = (&mut *self.problem, secret.is_empty()) {
            (*command, *said) = (command.replace(secret, "…"), said.replace(secret, "…"));
        }
        self
    }
}

/// The lines of a server's log that say why.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cause {
    /// The log.
    pub file: PathBuf,
    /// The lines, at most [`Cause::MAX_LINES`], in order.
    pub lines: Vec<String>,
    /// Whether they are errors; else the log names none, and they are its last lines.
    pub errors: bool,
}

impl Cause {
    /// The most lines that are quoted.
    pub const MAX_LINES: usize = 5;
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.lines.is_empty(), self.errors) {
            (true, _) => write!(f, "its log {} is empty", self.file.display()),
            (_, true) => {
                write!(f, "its log {} says:{}", self.file.display(), indented(&self.lines.join("\n")))
            }
            (_, false) => {
                write!(f, "its log {} ends:{}", self.file.display(), indented(&self.lines.join("\n")))
            }
        }
    }
}

fn starved(killed: u64) -> String {
    match killed {
        0 => String::new(),
        1 => "; meanwhile the kernel killed a process as no memory was left: take a smaller zone".into(),
        n => {
            format!("; meanwhile the kernel killed {n} processes as no memory was left: take a smaller zone")
        }
    }
}

fn because(cause: &Cause) -> String {
    if cause.file.as_os_str().is_empty() { String::new() } else { format!("; {cause}") }
}

/// Somebody else's words, each line on its own and set in.
fn indented(text: &str) -> String {
    text.lines().map(|line| format!("\n    {line}")).collect()
}
