//! DNS messages that arrive at a host, counted by its kernel.

use crate::agent::Number;
use crate::request::{At, Request};
use crate::{Agent, Error};
use serde::{Deserialize, Serialize};

/// Opcode of queries.
pub const QUERY: u8 = 0;

/// Opcode of updates (RFC 2136).
pub const UPDATE: u8 = 5;

/// A count that goes on; dropped, it ends.
pub struct Arrivals(Number);

impl Arrivals {
    /// Begins to count the messages with an opcode that arrive at a port of the agent's host over UDP.
    ///
    /// # Errors
    /// The agent may not capture packets there.
    pub fn count(agent: &Agent, port: u16, opcode: u8) -> Result<Self, Error> {
        Ok(Self(Number::new(agent, agent.ask(CountArrivals { port, opcode })?)))
    }

    /// The number of messages that have arrived since the count began.
    ///
    /// # Errors
    /// The agent is gone.
    pub fn so_far(&self) -> Result<u64, Error> {
        self.0.agent.ask(ReadArrivals { count: self.0.number })
    }
}

/// Begins a count.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct CountArrivals {
    port: u16,
    opcode: u8,
}

/// Opens a count of messages at a host.
pub(crate) fn open(host: &rack::Host, port: u16, opcode: u8) -> Result<net::arrivals::Arrivals, Error> {
    let opened = host.run_in(|| net::arrivals::Arrivals::open(&host.device, port, opcode))?;
    opened.map_err(|source| Error::File { path: host.device.clone().into(), source })
}

impl Request for CountArrivals {
    const NAME: &'static str = "CountArrivals";
    type Answer = u64;

    fn act(self, at: &At<'_>) -> Result<u64, Error> {
        Ok(at.here.keep(open(at.host, self.port, self.opcode)?))
    }
}

/// Reads a count.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct ReadArrivals {
    count: u64,
}

impl Request for ReadArrivals {
    const NAME: &'static str = "ReadArrivals";
    type Answer = u64;

    fn act(self, at: &At<'_>) -> Result<u64, Error> {
        let read = |arrivals: &mut net::arrivals::Arrivals| arrivals.count();
        let device = || at.host.device.clone().into();
        at.here.with(self.count, read)?.map_err(|source| Error::File { path: device(), source })
    }
}
