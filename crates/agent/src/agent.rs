//! The agent of one host.

use crate::request::{At, Forget, Request};
use crate::{Error, Here};
use rack::{Host, Local, Role};
use serde::Serialize;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Does what is to be done on one host: a coordinator has an agent for each.
#[derive(Clone)]
pub struct Agent {
    /// The host.
    pub host: Host,
    here: Arc<Here>,
    stop: Arc<AtomicBool>,
}

impl Agent {
    /// For a host of this machine. What is waited for there is given up once `stop` is set.
    pub fn new(here: &Arc<Here>, host: Host, stop: &Arc<AtomicBool>) -> Self {
        here.add_host(&host);
        Self { host, here: Arc::clone(here), stop: Arc::clone(stop) }
    }

    /// The same agent, which heeds another flag.
    pub fn heeding(&self, stop: &Arc<AtomicBool>) -> Self {
        Self { stop: Arc::clone(stop), ..self.clone() }
    }

    /// For another host of the same machine.
    pub fn on(&self, host: &Host) -> Self {
        Self::new(&self.here, host.clone(), &self.stop)
    }

    /// Whether both hosts are on one machine.
    pub fn is_beside(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.here, &other.here)
    }

    /// Has something done.
    ///
    /// # Errors
    /// Those of what is done.
    pub fn ask<R: Request>(&self, request: R) -> Result<R::Answer, Error> {
        request.act(&At { here: &self.here, host: &self.host, stop: &self.stop })
    }

    /// Starts this program in a role; its standard error goes to `log`.
    ///
    /// # Errors
    /// Those of [`Role::start`].
    pub fn role(
        &self,
        name: &str,
        spec: &impl Serialize,
        cpus: &[usize],
        log: &Path,
    ) -> Result<Role, rack::Error> {
        Role::start(&Local, &self.host, name, spec, cpus, log)
    }
}

/// The number of something that an agent has; ended when this is dropped.
pub(crate) struct Number {
    pub agent: Agent,
    pub number: u64,
}

impl Number {
    pub fn new(agent: &Agent, number: u64) -> Self {
        Self { agent: agent.clone(), number }
    }
}

impl Drop for Number {
    fn drop(&mut self) {
        // There is nobody to tell of a failure: an agent that is gone has ended everything.
        let _ = self.agent.ask(Forget { number: self.number });
    }
}
