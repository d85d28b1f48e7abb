//! What can go wrong.

use std::io;
use std::path::PathBuf;

/// An error of this room.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file that cannot be read or written.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system says.
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
        /// What is wrong, and what to do.
        message: String,
    },
    /// What was asked for cannot be.
    #[error("{0}")]
    Spec(String),
    /// Nothing can be drawn at random here.
    #[error("cannot make a secret: {0}")]
    Random(io::Error),
}

impl Error {
    /// For `map_err`.
    pub(crate) fn io(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io { path, source }
    }
}
