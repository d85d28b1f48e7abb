//! Why captures cannot be read.

use std::io;
use std::path::{Path, PathBuf};

/// Why a capture cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file cannot be opened, read or decompressed.
    #[error("{}: {source}", .path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It does not begin as a capture.
    #[error("{}: not a capture that can be read: {what}", .path.display())]
    NotACapture {
        /// The file.
        path: PathBuf,
        /// A description of the file.
        what: String,
    },
    /// It goes on as no capture can.
    #[error(
        "{}: damaged at octet {offset} (decompressed): {what}; what comes before can be saved with 'editcap IN OUT'",
        .path.display()
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Where, in its decompressed octets.
        offset: u64,
        /// A description of the packet.
        what: String,
    },
}

impl Error {
    /// An I/O error at a path.
    pub(super) fn io(path: &Path) -> impl FnOnce(io::Error) -> Self + '_ {
        move |source| Self::Io { path: path.to_owned(), source }
    }

    /// The file.
    pub fn path(&self) -> &Path {
        match self {
            Self::Io { path, .. } | Self::NotACapture { path, .. } | Self::Damaged { path, .. } => path,
        }
    }
}
