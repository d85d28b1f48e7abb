//! DNS messages that arrive at a host, counted by its kernel.

use crate::agent::Number;
use crate::request::{At, Request};
use crate::{Agent, Error};
use serde::{Deserialize, Serialize};

/// Opcode of queries.
pub const QUERY: u8 = 0;

/// Opcode of updates (RFC 2136).
pub const UPDATE: u8 = 5;

/// The port at which messages are counted: hosts of the rack have servers at no other.
const PORT: u16 = 53;

/// A count that goes on; dropped, it ends.
pub struct Arrivals(Number);

impl Arrivals {
    /// Begins to count the messages with an opcode that arrive at the agent's host over UDP.
    ///
    /// # Errors
    /// Where packets cannot be counted there: it needs the privilege to capture.
    pub fn count(agent: &Agent, opcode: u8) -> Result<Self, Error> {
        Ok(Self(Number::new(agent, agent.ask(CountArrivals { opcode })?)))
    }

    /// How many came since.
    ///
    /// # Errors
    /// Where the agent is gone.
    pub fn so_far(&self) -> Result<u64, Error> {
        self.0.agent.ask(Arrived { count: self.0.number })
    }
}

/// Begins a count.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct CountArrivals {
    opcode: u8,
}

/// Opens a count of messages at a host.
pub(crate) fn open(host: &rack::Host, opcode: u8) -> Result<net::arrivals::Arrivals, Error> {
    let opened = host.run_in(|| net::arrivals::Arrivals::open(&host.device, PORT, opcode))?;
    opened.map_err(|source| Error::File { path: host.device.clone().into(), source })
}

impl Request for CountArrivals {
    const NAME: &'static str = "CountArrivals";
    type Answer = u64;

    fn act(self, at: &At<'_>) -> Result<u64, Error> {
        Ok(at.here.keep(open(at.host, self.opcode)?))
    }
}

/// Reads a count.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Arrived {
    count: u64,
}

impl Request for Arrived {
    const NAME: &'static str = "Arrived";
    type Answer = u64;

    fn act(self, at: &At<'_>) -> Result<u64, Error> {
        let read = |arrivals: &mut net::arrivals::Arrivals| arrivals.count();
        let device = || at.host.device.clone().into();
        at.here.with(self.count, read)?.map_err(|source| Error::File { path: device(), source })
    }
}
