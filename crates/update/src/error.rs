//! Errors of updates and transfers.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

/// An error of this room.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file that cannot be read or written.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// A file that is not what it should be.
    #[error("{file}:{line}:{column}: {message}")]
    Parse {
        /// The file.
        file: String,
        /// From 1.
        line: usize,
        /// From 1.
        column: usize,
        /// The fault, and what to do.
        message: String,
    },
    /// A specification that cannot be met.
    #[error("{0}")]
    Spec(String),
    /// The system gives no random numbers.
    #[error("cannot make a secret: {0}")]
    Random(io::Error),
    /// A zone file, or what is in it.
    #[error(transparent)]
    Zone(#[from] zone::Error),
    /// A stream that cannot be written.
    #[error("cannot write the updates: {0}")]
    Write(io::Error),
    /// A target that may not be loaded.
    #[error(transparent)]
    Target(#[from] net::target::Refused),
    /// The sockets could not be opened.
    #[error(
        "cannot open {clients} sockets to {target}: {error}; give fewer --clients, or raise the limit of open files (ulimit -n)"
    )]
    Open {
        /// How many were asked for.
        clients: u32,
        /// The server.
        target: SocketAddr,
        /// The system's reason.
        error: io::Error,
    },
    /// The core cannot be had.
    #[error("--cpu: {0}")]
    Pin(#[from] net::scheduling::Unpinned),
    /// An address where nothing can be answered.
    #[error("cannot answer at {addr}: {error}")]
    Echo {
        /// The address.
        addr: SocketAddr,
        /// The system's reason.
        error: io::Error,
    },
    /// Something that the system refused, with what was tried.
    #[error("{what}: {error}")]
    System {
        /// The operation that failed.
        what: &'static str,
        /// The system's reason.
        error: io::Error,
    },
}

impl Error {
    /// For `map_err`.
    pub(crate) fn io(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io { path, source }
    }
}
