//! A server on an agent's host: started, waited for, asked and ended there.

use crate::agent::Number;
use crate::peak::{EndPeak, StartPeak};
use crate::request::{At, Request};
use crate::{Agent, Error, durability};
use measure::{Metric, metrics};
use rack::memory::{self, Map};
use rack::resource_counters::{self, Processes};
use rack::syncs::Scope;
use rack::{Local, UdpSockets};
use serde::{Deserialize, Serialize};
use server::{Replication, ServerSpec};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use zone::Probe;

/// How long a server's process may take to end while its memory is read: it gives back gigabytes after a transfer or a reload.
const ENDING: Duration = Duration::from_secs(10);

/// A server as an agent started it. On drop it is killed, with all its processes.
pub struct Server {
    at: Number,
    spec: ServerSpec,
    started: Started,
    urged: u32,
}

/// What is known of a server from its start on.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Started {
    number: u64,
    targets: Vec<SocketAddr>,
    version: String,
}

/// The maps of a server's processes, and what these have spent.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Mapped {
    /// Map by map.
    pub maps: Vec<Map>,
    /// How many processes.
    pub processes: u64,
    /// Their CPU time.
    pub cpu: Duration,
}

impl Server {
    /// Starts a server on an agent's host, with everything it writes in `dir`: see [`server::start_heeding`].
    ///
    /// # Errors
    /// As there.
    pub fn start(agent: &Agent, spec: &ServerSpec, dir: &Path) -> Result<Self, Error> {
        Self::start_with(agent, spec, dir, None)
    }

    /// The same under strace; once it has ended, [`Agent::judge_syncs`] says what is in `trace`.
    ///
    /// # Errors
    /// As [`Self::start`].
    pub fn start_traced(agent: &Agent, spec: &ServerSpec, dir: &Path, trace: &Path) -> Result<Self, Error> {
        Self::start_with(agent, spec, dir, Some(agent.place(trace)?))
    }

    fn start_with(
        agent: &Agent,
        spec: &ServerSpec,
        dir: &Path,
        trace: Option<PathBuf>,
    ) -> Result<Self, Error> {
        let there = agent.carry(spec)?;
        let distribution = there.distribution.clone();
        let started = agent.ask(Start { spec: there, distribution, dir: agent.place(dir)?, trace })?;
        Ok(Self { at: Number::new(agent, started.number), spec: spec.clone(), started, urged: 0 })
    }

    /// Its label.
    pub fn label(&self) -> &str {
        &self.spec.label
    }

    /// Whether it was started: an external server was not, and has no processes here.
    pub fn is_ours(&self) -> bool {
        self.spec.external.is_none()
    }

    /// The addresses and ports at which it answers.
    pub fn targets(&self) -> &[SocketAddr] {
        &self.started.targets
    }

    /// Its version, as its program says itself; `external` where there is none to ask.
    pub fn version(&self) -> &str {
        &self.started.version
    }

    /// How often [`Self::ready`] had to tell it to ask its primary for the zone.
    pub fn urged(&self) -> u32 {
        self.urged
    }

    /// The agent of its host.
    pub fn agent(&self) -> &Agent {
        &self.at.agent
    }

    /// Its number at its agent.
    pub(crate) fn number(&self) -> u64 {
        self.at.number
    }

    /// Waits until it serves its zone: see [`server::Server::ready`].
    ///
    /// # Errors
    /// As there.
    pub fn ready(&mut self, probe: &Probe, timeout: Duration) -> Result<Duration, Error> {
        let (took, urged) =
            self.at.agent.ask(Ready { server: self.number(), probe: probe.clone(), timeout })?;
        self.urged = urged;
        Ok(took)
    }

    /// Waits until it serves any version of its zone: see [`server::Server::back`].
    ///
    /// # Errors
    /// As there.
    pub fn back(&mut self, timeout: Duration) -> Result<(Duration, u32), Error> {
        self.at.agent.ask(Back { server: self.number(), timeout })
    }

    /// Whether it still lives: see [`server::Server::alive`].
    ///
    /// # Errors
    /// As there.
    pub fn alive(&mut self) -> Result<(), Error> {
        self.at.agent.ask(Alive { server: self.number() })
    }

    /// Has it read its zone file, which may be another one by now, again: see [`server::Server::reload`].
    ///
    /// # Errors
    /// As there.
    pub fn reload(&mut self) -> Result<(), Error> {
        self.at.agent.carry(&self.spec)?;
        self.at.agent.ask(Reload { server: self.number() })
    }

    /// Its own counters, as it tells them: see [`server::Server::stats`].
    ///
    /// # Errors
    /// As there.
    pub fn stats(&mut self) -> Result<String, Error> {
        self.at.agent.ask(Stats { server: self.number() })
    }

    /// Kills it with all its processes: see [`server::Server::kill`].
    ///
    /// # Errors
    /// As there.
    pub fn kill(&mut self) -> Result<(), Error> {
        self.at.agent.ask(Kill { server: self.number() })
    }

    /// Asks it to end, so that it can be started again: see [`server::Server::end`].
    ///
    /// # Errors
    /// As there.
    pub fn end(&mut self) -> Result<(), Error> {
        self.at.agent.ask(End { server: self.number() })
    }

    /// Starts it again where it was: see [`server::Server::start_again`].
    ///
    /// # Errors
    /// As there.
    pub fn start_again(&mut self) -> Result<(), Error> {
        self.at.agent.ask(StartAgain { server: self.number() })
    }

    /// Asks it to end, for good: see [`server::Server::stop`].
    ///
    /// # Errors
    /// As there.
    pub fn stop(self) -> Result<(), Error> {
        self.at.agent.ask(Stop { server: self.number() })
    }

    /// What its processes take now: resident, virtual and proportional memory, and the CPU time since their start. Nothing of an
    /// external server, nor of processes that have ended.
    ///
    /// # Errors
    /// Where its agent has no such server.
    pub fn memory(&self) -> Result<Vec<Metric>, Error> {
        self.at.agent.ask(Memory { server: self.number() })
    }

    /// The proportional memory (PSS) of its processes, in bytes.
    ///
    /// # Errors
    /// Where it cannot be read.
    pub fn pss(&self) -> Result<u64, Error> {
        self.at.agent.ask(Pss { server: self.number() })
    }

    /// The maps of its processes.
    ///
    /// # Errors
    /// Where they cannot be read.
    pub fn maps(&self) -> Result<Mapped, Error> {
        self.at.agent.ask(Maps { server: self.number() })
    }

    /// The smallest receive buffer of its UDP sockets, in bytes of the kernel's accounting; none where it has none. With
    /// `wanted` (bytes) all are made so large first.
    ///
    /// # Errors
    /// Those of [`UdpSockets`].
    pub fn receive_buffer(&self, wanted: Option<usize>) -> Result<Option<usize>, Error> {
        self.at.agent.ask(ReceiveBuffer { server: self.number(), wanted })
    }

    /// Which of its files must be durable.
    ///
    /// # Errors
    /// Where its agent has no such server.
    pub fn durable(&self) -> Result<Scope, Error> {
        self.at.agent.ask(Durable { server: self.number() })
    }

    /// Does something with it; and the greatest proportional memory of its processes meanwhile, in bytes.
    ///
    /// # Errors
    /// Where its agent has no such server.
    pub fn while_watching<T>(&mut self, act: impl FnOnce(&mut Self) -> T) -> Result<(T, u64), Error> {
        let agent = self.at.agent.clone();
        let watch = agent.ask(StartPeak { server: self.number() })?;
        let done = act(self);
        Ok((done, agent.ask(EndPeak { watch })?))
    }
}

/// Starts a server.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Start {
    spec: ServerSpec,
    /// Of the specification, which does not write it: it has a secret.
    distribution: Option<Replication>,
    dir: PathBuf,
    /// Where the trace of its system calls goes; none: it is not traced.
    trace: Option<PathBuf>,
}

impl Request for Start {
    const NAME: &'static str = "Start";
    type Answer = Started;

    fn act(self, at: &At<'_>) -> Result<Started, Error> {
        let spec = ServerSpec { distribution: self.distribution, ..self.spec };
        let server = match &self.trace {
            Some(trace) => durability::start_traced(at, &spec, &self.dir, trace)?,
            None => server::start_heeding(Some(Arc::clone(at.stop)), Local, at.host, &spec, &self.dir)?,
        };
        let (targets, version) = (server.targets().to_vec(), server.version().to_owned());
        Ok(Started { number: at.here.keep(server), targets, version })
    }
}

/// Requests to a server that was started: what they need besides its number, what they give, and what they do.
macro_rules! requests {
    ($($(#[$doc:meta])* $name:ident { $($field:ident: $kind:ty),* } -> $answer:ty: |$server:ident| $act:expr;)*) => {$(
        $(#[$doc])*
        #[derive(Debug, Serialize, Deserialize)]
        pub(crate) struct $name {
            server: u64,
            $($field: $kind,)*
        }

        impl Request for $name {
            const NAME: &'static str = stringify!($name);
            type Answer = $answer;

            fn act(self, at: &At<'_>) -> Result<$answer, Error> {
                let Self { server, $($field,)* } = self;
                at.here.with(server, |$server: &mut server::Server| -> Result<$answer, Error> { $act })?
            }
        }
    )*};
}

requests! {
    /// Waits until it serves its zone: how long that took, and how often it was told to ask its primary.
    Ready { probe: Probe, timeout: Duration } -> (Duration, u32): |server| {
        let took = server.ready(&probe, timeout)?;
        Ok((took, server.urged()))
    };
    /// Waits until it serves any version of its zone.
    Back { timeout: Duration } -> (Duration, u32): |server| Ok(server.back(timeout)?);
    /// Whether it lives.
    Alive {} -> (): |server| Ok(server.alive()?);
    /// Which of its files must be durable.
    Durable {} -> Scope: |server| Ok(durability::scope_of(server));
    /// Has it read its zone file again.
    Reload {} -> (): |server| Ok(server.reload()?);
    /// Its own counters.
    Stats {} -> String: |server| Ok(server.stats()?);
    /// Kills it.
    Kill {} -> (): |server| Ok(server.kill()?);
    /// Asks it to end for a while.
    End {} -> (): |server| Ok(server.end()?);
    /// Starts it again.
    StartAgain {} -> (): |server| Ok(server.start_again()?);
    /// What its processes take.
    Memory {} -> Vec<Metric>: |server| Ok(memory_of(server));
    /// Its proportional memory.
    Pss {} -> u64: |server| Ok(resource_counters::pss(ENDING, || server.pids())?);
    /// Its maps.
    Maps {} -> Mapped: |server| {
        let pids = server.pids();
        let cpu = Processes::now()?.usage(&pids).cpu();
        Ok(Mapped { maps: memory::maps(&pids)?, processes: pids.len() as u64, cpu })
    };
    /// The smallest receive buffer of its sockets.
    ReceiveBuffer { wanted: Option<usize> } -> Option<usize>: |server| {
        let Some(port) = server.targets().first().map(SocketAddr::port) else { return Ok(None) };
        let pids = Processes::now()?.tree(&server.pids());
        let sockets = UdpSockets::of(&pids, port)?;
        if let Some(bytes) = wanted {
            sockets.set_receive_buffer(bytes)?;
        }
        Ok(sockets.receive_buffers().into_iter().min())
    };
}

/// Asks a server to end, for good.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Stop {
    server: u64,
}

impl Request for Stop {
    const NAME: &'static str = "Stop";
    type Answer = ();

    fn act(self, at: &At<'_>) -> Result<(), Error> {
        Ok(at.here.take::<server::Server>(self.server)?.stop()?)
    }
}

fn memory_of(server: &server::Server) -> Vec<Metric> {
    let mut all = Vec::new();
    let pids = server.pids();
    if let (false, Ok(processes)) = (pids.is_empty(), Processes::now()) {
        let usage = processes.usage(&pids);
        all.push(metrics::SERVER_RSS.of(usage.rss as f64));
        all.push(metrics::SERVER_VIRTUAL.of(usage.virtual_size as f64));
        all.push(metrics::SERVER_CPU.of(usage.cpu().as_secs_f64()));
        if let Ok(pss) = resource_counters::pss(ENDING, || server.pids()) {
            all.push(metrics::SERVER_PSS.of(pss as f64));
        }
    }
    all
}
