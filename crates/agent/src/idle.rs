//! Idle cores are kept awake.

use crate::Error;
use crate::request::{At, Request};
use rack::IdlePolling;
use serde::{Deserialize, Serialize};

/// From now on the machine's idle cores poll instead of sleeping, until the agent ends.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct PollWhenIdle {}

impl Request for PollWhenIdle {
    const NAME: &'static str = "PollWhenIdle";
    type Answer = ();

    fn act(self, at: &At<'_>) -> Result<(), Error> {
        at.here.keep(IdlePolling::start()?);
        Ok(())
    }
}
