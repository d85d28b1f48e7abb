//! The agent of one host.

use crate::connection::{Connection, Ends};
use crate::message::Order;
use crate::program::Program;
use crate::request::{At, Forget, Request};
use crate::role::{FarRole, StartRole};
use crate::{Error, Here};
use measure::Files;
use rack::{Host, Local, Role};
use serde::Serialize;
use std::io::{Read, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Does what is to be done on one host: a coordinator has an agent for each.
#[derive(Clone)]
pub struct Agent {
    /// The host.
    pub host: Host,
    machine: Machine,
    stop: Arc<AtomicBool>,
    /// The number of `stop` on another machine.
    flag: u64,
}

/// The machine that a host is on.
#[derive(Clone)]
enum Machine {
    /// This machine: the caller acts on its requests itself.
    Here(Arc<Here>),
    /// Another machine: requests are sent to the agent there.
    There(Arc<Connection>),
}

impl Agent {
    /// For a host of this machine. What is waited for there is given up once `stop` is set.
    pub fn new(here: &Arc<Here>, host: Host, stop: &Arc<AtomicBool>) -> Self {
        here.add_host(&host);
        Self { host, machine: Machine::Here(Arc::clone(here)), stop: Arc::clone(stop), flag: 0 }
    }

    /// For a host of another machine, where an agent was started ([`crate::serve()`]) that takes `orders` and says `words`. Files of
    /// ours below `root` have counterparts there.
    ///
    /// # Errors
    /// [`Error::Lost`] where it does not say that it is there, or is another program.
    pub fn connect(
        orders: impl Write + Send + 'static,
        words: impl Read + Send + 'static,
        root: &Path,
        host: Host,
        stop: &Arc<AtomicBool>,
    ) -> Result<Self, Error> {
        let ends = Ends { orders: Box::new(orders), words: Box::new(words), process: None };
        let connection = Connection::open(&host.name, root, &[Program::ours()?], ends)?;
        Self::over(&Arc::new(connection), host, stop)
    }

    /// For a host of another machine, with whose agent there is a connection.
    ///
    /// # Errors
    /// [`Error::Lost`] where it is gone.
    pub(crate) fn over(
        connection: &Arc<Connection>,
        host: Host,
        stop: &Arc<AtomicBool>,
    ) -> Result<Self, Error> {
        connection.say(&Order::Host { host: host.clone() })?;
        let (machine, flag) = (Machine::There(Arc::clone(connection)), connection.number());
        Ok(Self { host, machine, stop: Arc::clone(stop), flag })
    }

    /// The connection to the agent of another machine; none: it is this one.
    pub(crate) fn connection(&self) -> Option<&Connection> {
        match &self.machine {
            Machine::Here(_) => None,
            Machine::There(there) => Some(there),
        }
    }

    /// Whether its host is on another machine.
    pub fn is_elsewhere(&self) -> bool {
        self.connection().is_some()
    }

    /// The same agent, which heeds another flag.
    pub fn heeding(&self, stop: &Arc<AtomicBool>) -> Self {
        let flag = match &self.machine {
            Machine::Here(_) => 0,
            Machine::There(there) => there.number(),
        };
        Self { stop: Arc::clone(stop), flag, ..self.clone() }
    }

    /// Ends the orders to an agent on another machine: it ends everything that it started, for whichever host.
    pub fn hang_up(&self) {
        if let Machine::There(there) = &self.machine {
            there.hang_up();
        }
    }

    /// For another host of the same machine, or for the same host with other CPUs.
    ///
    /// # Errors
    /// [`Error::Lost`] where the agent is gone.
    pub fn on(&self, host: &Host) -> Result<Self, Error> {
        match &self.machine {
            Machine::Here(here) => here.add_host(host),
            Machine::There(there) => there.say(&Order::Host { host: host.clone() })?,
        }
        Ok(Self { host: host.clone(), ..self.clone() })
    }

    /// Whether the other agent's host is on the same machine.
    pub fn is_beside(&self, other: &Self) -> bool {
        match (&self.machine, &other.machine) {
            (Machine::Here(one), Machine::Here(other)) => Arc::ptr_eq(one, other),
            (Machine::There(one), Machine::There(other)) => Arc::ptr_eq(one, other),
            _ => false,
        }
    }

    /// Has something done.
    ///
    /// # Errors
    /// Those of what is done.
    pub fn ask<R: Request>(&self, request: R) -> Result<R::Answer, Error> {
        match &self.machine {
            Machine::Here(here) => request.act(&At { here, host: &self.host, stop: &self.stop }),
            Machine::There(there) => there.ask(&self.host.name, (&self.stop, self.flag), &request),
        }
    }

    /// Starts this program in a role, with the files that its specification names; its standard error goes to `log`.
    ///
    /// # Errors
    /// Those of [`Role::start`].
    pub fn role(
        &self,
        name: &str,
        spec: &(impl Serialize + Files + Clone),
        cpus: &[usize],
        log: &Path,
    ) -> Result<Role, rack::Error> {
        let there = match &self.machine {
            Machine::Here(_) => return Role::start(&Local, &self.host, name, spec, cpus, log),
            Machine::There(there) => there,
        };
        let failed = |e: Error| {
            let (role, host) = (name.to_owned(), self.host.name.clone());
            rack::Error::Role { role, host, message: e.to_string() }
        };
        let (spec, log) = (self.carry(spec).map_err(failed)?, self.place(log).map_err(failed)?);
        let lines = there.number();
        let events = there.lines_of(lines);
        let start = StartRole { lines, name: name.into(), cpus: cpus.to_vec(), log };
        let started = self.ask(start).map_err(failed)?;
        Role::join(name, &self.host.name, &spec, Box::new(FarRole::new(self, started)), events)
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
