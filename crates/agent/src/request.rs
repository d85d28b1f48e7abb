//! Something that is done on a host, as plain data: what is needed for it, and what comes of it.

use crate::{Error, Here};
use rack::Host;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Something that is done on a host.
pub trait Request: Serialize + DeserializeOwned {
    /// Its name where it goes to another machine.
    const NAME: &'static str;
    /// What comes of it.
    type Answer: Serialize + DeserializeOwned;

    /// Does it.
    ///
    /// # Errors
    /// Those of what is done.
    fn act(self, at: &At<'_>) -> Result<Self::Answer, Error>;
}

/// Where a request is acted on.
pub struct At<'a> {
    /// The machine.
    pub here: &'a Here,
    /// The host.
    pub host: &'a Host,
    /// Ends what waits, once it is set.
    pub stop: &'a Arc<AtomicBool>,
}

/// Ends what has this number; nothing where it has ended.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Forget {
    pub number: u64,
}

impl Request for Forget {
    const NAME: &'static str = "Forget";
    type Answer = ();

    fn act(self, at: &At<'_>) -> Result<(), Error> {
        at.here.forget(self.number);
        Ok(())
    }
}
