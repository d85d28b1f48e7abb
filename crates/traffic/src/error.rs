//! Errors of traffic.

use std::io;
use std::path::{Path, PathBuf};

/// An error of this room. Its sentence names the file, the line and the column, from 1.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A line of a file of queries or names that is neither, nor a comment, nor blank.
    #[error("{}:{line}:{column}: {what}", .path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: u64,
        /// The octet in the line, from 1.
        column: usize,
        /// The fault, and what would be right.
        what: String,
    },
    /// A profile that does not say what a profile says.
    #[error("{file}:{line}:{column}: {what}")]
    Profile {
        /// The file, or the name of a built-in profile.
        file: String,
        /// The line, from 1.
        line: usize,
        /// The character in the line, from 1.
        column: usize,
        /// The fault, and what would be right.
        what: String,
    },
    /// A fault in a list of names or addresses that a profile asks for.
    #[error("{said}: {source}")]
    List {
        /// Where the profile asks for it: file, line and column.
        said: String,
        /// The fault.
        source: Box<Error>,
    },
    /// Neither a built-in profile nor a file.
    #[error("no profile '{name}': give {known} or the path of a profile file")]
    NoProfile {
        /// The name that was asked for.
        name: String,
        /// The built-in profiles.
        known: String,
    },
    /// A file without a single query, name or address.
    #[error("{}: no {what} in it: every line is blank or a comment", .path.display())]
    Empty {
        /// The file.
        path: PathBuf,
        /// `query`, `name` or `address`.
        what: &'static str,
    },
    /// A file that must be read more than once, but is a pipe or a device.
    #[error("{}: not a regular file: queries are read again by every worker and at the end; write them to a file first", .path.display())]
    NotAFile {
        /// The file.
        path: PathBuf,
    },
    /// A specification that asks for what cannot be.
    #[error("{0}")]
    Spec(String),
    /// A file that cannot be read or written.
    #[error("{}: {source}", .path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A zone that cannot be read.
    #[error("cannot take names from the zone {}: {source}", .path.display())]
    Zone {
        /// The zone file.
        path: PathBuf,
        /// The zone room's own sentence.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

impl Error {
    /// The error with the place that asked for the file; empty where none did.
    pub(crate) fn asked_for_at(self, said: &str) -> Self {
        if said.is_empty() {
            return self;
        }
        Self::List { said: said.to_owned(), source: Box::new(self) }
    }

    /// An I/O error at a path.
    pub(crate) fn io(path: &Path) -> impl FnOnce(io::Error) -> Self + '_ {
        move |source| Self::Io { path: path.to_owned(), source }
    }
}
