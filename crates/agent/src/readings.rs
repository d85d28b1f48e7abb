//! The counters of a machine while a load goes on: of a server's processes, of the generators', of their hosts and of the cores.

use crate::agent::Number;
use crate::request::{At, Request};
use crate::running_server::Server;
use crate::{Agent, Error, arrivals, lock};
use measure::{Nanos, clock};
use rack::resource_counters::{self, Core, Counters, HostCounters, Processes, Usage};
use rack::server_watch::Snapshot;
use rack::sockets::{self, Socket};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// What is watched on one machine.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Watched {
    /// The server's number at the machine's agent, its host and its cores; none where the server is elsewhere.
    server: Option<(u64, String, Vec<usize>)>,
    /// Whether to count the queries that arrive at the server's host.
    counts: bool,
    /// The generators' hosts and cores.
    generator_hosts: Vec<(String, Vec<usize>)>,
    /// The generators' processes.
    generators: Vec<u32>,
}

impl Watched {
    /// With a server, and a count of the queries that arrive at its host where `counts` says so. An external one has no processes and no
    /// host here.
    pub fn server(&mut self, server: &Server, counts: bool) {
        self.counts = counts;
        if server.is_ours() {
            let host = &server.agent().host;
            self.server = Some((server.number(), host.name.clone(), host.cpus.clone()));
        }
    }

    /// With a generator's host and its processes.
    pub fn generator(&mut self, agent: &Agent, pids: impl IntoIterator<Item = u32>) {
        self.generator_hosts.push((agent.host.name.clone(), agent.host.cpus.clone()));
        self.generators.extend(pids);
    }
}

/// The counters of a machine, opened.
pub struct Readings(Number);

/// One reading of a machine's counters.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Reading {
    /// When, on the machine's monotonic clock.
    pub at: Nanos,
    /// Of every core.
    pub cores: Vec<Core>,
    /// Packets that the whole machine dropped since a core's backlog was full.
    pub backlog: u64,
    /// Of the agent's own process.
    pub own: Usage,
    /// Of the server; none where it is elsewhere.
    pub server: Option<Side>,
    /// Of the generators together.
    pub generators: Side,
}

/// One side of a load.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct Side {
    /// Its processes.
    pub usage: Usage,
    /// Its hosts, since they are there.
    pub hosts: Counters,
}

impl Readings {
    /// Opens the counters of an agent's machine.
    ///
    /// # Errors
    /// Where it has no such server or host.
    pub fn open(agent: &Agent, watched: Watched) -> Result<Self, Error> {
        Ok(Self(Number::new(agent, agent.ask(watched)?)))
    }

    /// Reads them.
    ///
    /// # Errors
    /// Where the agent is gone.
    pub fn read(&self) -> Result<Reading, Error> {
        self.0.agent.ask(Read { sources: self.0.number })
    }

    /// Takes a snapshot of the server's processes and cores; none where they cannot be seen.
    ///
    /// # Errors
    /// Where the agent is gone.
    pub fn server(&self) -> Result<Option<Snapshot>, Error> {
        self.0.agent.ask(TakeSnapshot { sources: self.0.number })
    }

    /// Where they are.
    pub(crate) fn number(&self) -> &Number {
        &self.0
    }
}

impl Request for Watched {
    const NAME: &'static str = "Watched";
    type Answer = u64;

    fn act(self, at: &At<'_>) -> Result<u64, Error> {
        Ok(at.here.keep(Arc::new(Sources::open(self, at)?)))
    }
}

/// Reads the counters.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Read {
    sources: u64,
}

impl Request for Read {
    const NAME: &'static str = "Read";
    type Answer = Reading;

    fn act(self, at: &At<'_>) -> Result<Reading, Error> {
        Ok(Sources::at(at, self.sources)?.read())
    }
}

/// Takes a snapshot of the server's processes and cores.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct TakeSnapshot {
    sources: u64,
}

impl Request for TakeSnapshot {
    const NAME: &'static str = "TakeSnapshot";
    type Answer = Option<Snapshot>;

    fn act(self, at: &At<'_>) -> Result<Option<Snapshot>, Error> {
        Ok(Sources::at(at, self.sources)?.server())
    }
}

/// The files to read while a load goes on.
pub(crate) struct Sources {
    server: Vec<u32>,
    server_host: Option<HostCounters>,
    /// The server's cores.
    pub server_cpus: Vec<usize>,
    /// The queries that arrive at the server's host, where they are counted.
    queries: Option<Mutex<net::arrivals::Arrivals>>,
    generators: Vec<u32>,
    generator_hosts: Vec<HostCounters>,
    /// Generators may use the server's cores.
    shared: bool,
}

impl Sources {
    /// A host's file that cannot be read here gives zeros: the trial's figures do not depend on it.
    fn open(watched: Watched, at: &At<'_>) -> Result<Self, Error> {
        let open = |name: &str| Ok::<_, Error>(HostCounters::open(&at.here.host(name)?).ok());
        let mut queries = None;
        let (server, server_host, server_cpus) = match watched.server {
            Some((number, host, cpus)) => {
                let of = |server: &mut server::Server| (server.pids(), server.spec().port);
                let (pids, port) = at.here.with(number, of)?;
                if watched.counts {
                    let count = arrivals::open(&at.here.host(&host)?, port, arrivals::QUERY)?;
                    queries = Some(Mutex::new(count));
                }
                (pids, open(&host)?, cpus)
            }
            None => (Vec::new(), None, Vec::new()),
        };
        let mut generator_hosts = Vec::new();
        for (name, _) in &watched.generator_hosts {
            generator_hosts.extend(open(name)?);
        }
        let ask_on = |core: &usize| watched.generator_hosts.iter().any(|(_, cpus)| cpus.contains(core));
        Ok(Self {
            server,
            server_host,
            shared: server_cpus.iter().any(ask_on),
            server_cpus,
            queries,
            generators: watched.generators,
            generator_hosts,
        })
    }

    /// Those with this number.
    pub fn at(at: &At<'_>, number: u64) -> Result<Arc<Self>, Error> {
        at.here.with(number, |sources: &mut Arc<Self>| Arc::clone(sources))
    }

    /// Whether the server runs on this machine.
    pub fn server_is_here(&self) -> bool {
        !self.server.is_empty()
    }

    /// The server's processes and cores as they are; none where it is elsewhere.
    pub fn server(&self) -> Option<Snapshot> {
        let mut ours = self.generators.clone();
        ours.push(std::process::id());
        let here = self.server_is_here().then(|| Snapshot::of(&self.server, &self.server_cpus, &ours).ok());
        here.flatten()
    }

    /// Time of programs of ours on the server's cores: of the generators, where they share them, since they are there.
    pub fn own(&self) -> Duration {
        if !self.shared {
            return Duration::ZERO;
        }
        Processes::now().map(|all| all.usage(&self.generators).user).unwrap_or_default()
    }

    /// Datagrams that each socket in the server's network stack dropped since it was opened.
    pub fn socket_drops(&self) -> BTreeMap<Socket, u64> {
        self.server.first().and_then(|&pid| sockets::dropped(pid).ok()).unwrap_or_default()
    }

    /// The queries that arrived at the server's host since these files were opened; none where they cannot be counted.
    pub fn queries(&self) -> Option<u64> {
        lock(self.queries.as_ref()?).count().ok()
    }

    /// The counters of the server's host, since it was made.
    pub fn server_counters(&self) -> Counters {
        self.server_host.as_ref().and_then(|host| host.read().ok()).unwrap_or_default()
    }

    fn read(&self) -> Reading {
        let all = Processes::now().ok();
        let usage = |roots: &[u32]| all.as_ref().map(|all| all.usage(roots)).unwrap_or_default();
        let of_hosts = self.generator_hosts.iter().filter_map(|host| host.read().ok());
        Reading {
            at: clock::now(),
            cores: resource_counters::cores().unwrap_or_default(),
            backlog: resource_counters::backlog_dropped(),
            own: all.as_ref().map(|all| all.usage_of_one(std::process::id())).unwrap_or_default(),
            server: self
                .server_is_here()
                .then(|| Side { usage: usage(&self.server), hosts: self.server_counters() }),
            generators: Side { usage: usage(&self.generators), hosts: of_hosts.sum() },
        }
    }
}
