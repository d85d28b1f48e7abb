//! Errors of zones.

use std::fmt;
use std::io;

/// A place in a zone file; lines and columns count from one, columns in octets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The file as it was named.
    pub file: String,
    /// Line.
    pub line: u64,
    /// Column.
    pub column: u64,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.file, self.line, self.column)
    }
}

/// An error of this room: what happened, where, what to do.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The zone file breaks the rules of RFC 1035 section 5, or a zone profile its own.
    #[error("{place}: {what}")]
    Syntax {
        /// Where.
        place: Place,
        /// The fault, and what would be right.
        what: String,
    },
    /// A file could not be opened or read.
    #[error("{file}: {source}")]
    Read {
        /// The file as it was named.
        file: String,
        /// The system's reason.
        source: io::Error,
    },
    /// The zone could not be written.
    #[error("cannot write the zone: {0}")]
    Write(io::Error),
    /// A part of the work that goes through temporary storage failed there.
    #[error("temporary storage in {}: {source}", std::env::temp_dir().display())]
    Spool {
        /// The system's reason.
        source: io::Error,
    },
    /// Names that are not in canonical order where the order is needed.
    #[error(
        "{file}:{line}: {name} comes after {after}, out of canonical order (RFC 4034 section 6.1): \
         sort the zone first (`dnsrack zone sign` does so by itself)"
    )]
    Unsorted {
        /// The file as it was named.
        file: String,
        /// The line of the later name.
        line: u64,
        /// The later name.
        name: String,
        /// The earlier name, greater in order.
        after: String,
    },
    /// The zone cannot be signed or made as asked.
    #[error("{0}")]
    Unable(String),
    /// Neither a built-in zone profile nor a file.
    #[error("no zone profile '{name}': give {known} or the path of a profile file")]
    NoProfile {
        /// The name that was asked for.
        name: String,
        /// The built-in profiles.
        known: String,
    },
    /// A key file or a key is not as it should be.
    #[error("{file}: {what}")]
    Key {
        /// The key file, or what stands for it.
        file: String,
        /// The fault, and what to do.
        what: String,
    },
}
