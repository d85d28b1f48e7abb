//! A capture on an agent's host.

use crate::agent::Number;
use crate::request::{At, Request};
use crate::{Agent, Error};
use rack::{Captured, Local};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Begins to write what a device of the host receives and sends to a file: see [`rack::Capture::start_on`].
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct StartCapture {
    /// The device.
    pub device: String,
    /// Which packets are captured, in libpcap's syntax.
    pub filter: String,
    /// The CPUs that it may use.
    pub cpus: Vec<usize>,
    /// The file that the packets are written to.
    pub file: PathBuf,
    /// The file for the standard error of `tcpdump`.
    pub said: PathBuf,
}

/// A capture at work; ended when it is dropped.
pub struct Capture(Number);

impl Capture {
    /// Begins to capture on an agent's host.
    ///
    /// # Errors
    /// Those of [`rack::Capture::start_on`].
    pub fn start(agent: &Agent, what: StartCapture) -> Result<Self, Error> {
        Ok(Self(Number::new(agent, agent.ask(what)?)))
    }

    /// Ends it, the file complete.
    ///
    /// # Errors
    /// Those of [`rack::Capture::finish`].
    pub fn finish(self) -> Result<Captured, Error> {
        self.0.agent.ask(FinishCapture { capture: self.0.number })
    }
}

impl Request for StartCapture {
    const NAME: &'static str = "StartCapture";
    type Answer = u64;

    fn act(self, at: &At<'_>) -> Result<u64, Error> {
        let Self { device, filter, cpus, file, said } = self;
        let capture = rack::Capture::start_on(&Local, at.host, &device, &filter, &cpus, &file, &said)?;
        Ok(at.here.keep(capture))
    }
}

/// Ends a capture.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct FinishCapture {
    capture: u64,
}

impl Request for FinishCapture {
    const NAME: &'static str = "FinishCapture";
    type Answer = Captured;

    fn act(self, at: &At<'_>) -> Result<Captured, Error> {
        Ok(at.here.take::<rack::Capture>(self.capture)?.finish()?)
    }
}
