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
        matches!(self, Self::Server(e) if matches!(*e.problem, server::Problem::Refused { .. }))
    }
}
