//! Errors of agents.

/// An error of an agent.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A server could not be started or used.
    #[error(transparent)]
    Server(#[from] server::Error),
    /// A process, a capture or a counter of the host.
    #[error(transparent)]
    Rack(#[from] rack::Error),
    /// Something failed on another machine.
    #[error("{message}")]
    There {
        /// What its agent says.
        message: String,
        /// A server said that it refuses its zone.
        zone_refused: bool,
    },
    /// An agent is gone, or says what cannot be understood.
    #[error("the agent of host {host} is lost: {why}")]
    Lost {
        /// The host.
        host: String,
        /// What is known of it.
        why: String,
    },
    /// A file could not be sent, fetched, read or written.
    #[error("{path}: {source}")]
    File {
        /// The file, on the machine that says so.
        path: std::path::PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A rack file, or what it says is not so.
    #[error("{0}")]
    Machines(String),
    /// Something could not be done with updates: a transfer.
    #[error(transparent)]
    Update(#[from] update::Error),
    /// An order that an agent cannot read.
    #[error("an order is not of this version of dnsrack: {message}")]
    Order {
        /// What is wrong with it.
        message: String,
    },
    /// Something was asked of what has ended already, or of a host that is not on this machine: a fault of the program.
    #[error("there is no {what} {name} here")]
    Unknown {
        /// `server`, `capture`, `host` …
        what: &'static str,
        /// Its number or name.
        name: String,
    },
}

impl Error {
    /// Whether a server said that it refuses its zone.
    pub fn is_zone_refused(&self) -> bool {
        match self {
            Self::Server(e) => matches!(*e.problem, server::Problem::Refused { .. }),
            Self::There { zone_refused, .. } => *zone_refused,
            _ => false,
        }
    }
}
