//! Errors of the server of pages.

use std::net::SocketAddr;
use std::path::PathBuf;

/// Why pages cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// An address that other machines reach.
    #[error(
        "{at} is an address that other machines may reach: add --allow-external, and everybody who is to read the pages needs the token \
         that is printed then; or leave out --address"
    )]
    External {
        /// The address.
        at: SocketAddr,
    },
    /// The address cannot be listened on.
    #[error("cannot listen on {at}: {source}; name another port with --port")]
    Listen {
        /// The address.
        at: SocketAddr,
        /// The system's reason.
        source: std::io::Error,
    },
    /// A folder that cannot be read.
    #[error("{}: {source}; name a folder of run directories, or a run directory", path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
}
