//! Errors before or during a load.

use std::io;
use std::net::SocketAddr;

/// Why a load could not run.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A specification that contradicts itself or has no end.
    #[error("{0}")]
    Spec(String),
    /// A target that may not be loaded.
    #[error(transparent)]
    Target(#[from] net::target::Refused),
    /// The queries.
    #[error(transparent)]
    Source(#[from] traffic::Error),
    /// The zone that answers are checked against.
    #[error(transparent)]
    Zone(#[from] zone::Error),
    /// The sockets could not be opened.
    #[error("cannot open {flows} sockets from {source_address} to {target}: {error}{}", way_out(error))]
    Open {
        /// How many were asked for.
        flows: u32,
        /// The source address of the one that failed.
        source_address: SocketAddr,
        /// Its target.
        target: SocketAddr,
        /// The system's reason.
        error: io::Error,
    },
    /// No AF_XDP or XDP program, which was asked for.
    #[error("--backend xdp: {0}")]
    Xdp(#[source] net::xdp::XdpError),
    /// The transport broke while it ran.
    #[error("worker {worker}: the sockets cannot be used any more: {error}")]
    Transport {
        /// The worker, from 0.
        worker: u32,
        /// The system's reason.
        error: io::Error,
    },
    /// A worker could not have its core.
    #[error("--cpus: {0}")]
    Pin(#[from] net::scheduling::Unpinned),
    /// The hosts of a calibration could not be made.
    #[error(transparent)]
    Rack(#[from] rack::Error),
    /// An echo that could not listen.
    #[error("cannot answer at {addr}: {error}")]
    Echo {
        /// Where.
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

/// Advice for the case that sockets run out.
fn way_out(error: &io::Error) -> &'static str {
    match rustix::io::Errno::from_io_error(error) {
        Some(rustix::io::Errno::MFILE) => {
            "; raise the hard limit of open files (ulimit -Hn), or use --backend xdp, whose flows need none"
        }
        Some(rustix::io::Errno::ADDRINUSE | rustix::io::Errno::AGAIN) => {
            "; a source address has about 28,000 ports: give more of them (--source)"
        }
        _ => "",
    }
}
