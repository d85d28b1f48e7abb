//! Everything that the trials of a run share, and how a server is started in one.

use crate::shared_cores::Share;
use crate::zones::Prepared;
use crate::{Error, Experiment};
use agent::{Agent, Server};
use measure::{Metric, Nanos};
use net::target::Prefix;
use rack::{Host, Rack};
use server::{ServerSpec, ZoneRef};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use trace::Survey;

/// How long from now roles start on this machine: time for every one to have read the instant.
const START_DELAY: Nanos = 20_000_000;

/// The same on other machines, each of whose clocks is read first.
const FAR_START_DELAY: Nanos = 300_000_000;

/// Everything that all trials of a run share.
pub struct RunContext<'a> {
    pub experiment: &'a Experiment,
    pub server: &'a Agent,
    /// The most that any traffic has.
    pub generators: &'a [Agent],
    /// The other servers of a distribution: the primary first, where it is not the server measured.
    pub peers: &'a [Agent],
    /// None where the server answers elsewhere.
    pub rack: Option<&'a Rack>,
    /// The captures that are replayed, each with what a first reading of it said.
    pub captures: &'a [(PathBuf, Survey)],
    /// The cores on which captures run during a load.
    pub monitor_cpus: &'a [usize],
    /// Set if the run makes other trials on the same cores at the same time.
    pub shared_cores: Option<Share<'a>>,
    pub stop: &'a Arc<AtomicBool>,
}

impl<'a> RunContext<'a> {
    /// Waits, as long as the run goes on.
    ///
    /// # Errors
    /// As [`Self::goes_on`], within a twentieth of a second.
    pub fn pause(&self, length: Duration) -> Result<(), Error> {
        let end = Instant::now() + length;
        loop {
            self.goes_on()?;
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            std::thread::sleep(left.min(Duration::from_millis(50)));
        }
    }

    /// The agent of the server's host with the first `cpus` of its CPUs alone. What the host receives is handled there, too, where it is
    /// one of this machine's; the interface of another machine is as its user set it.
    ///
    /// # Errors
    /// Where its agent is gone, or the host's receive path cannot be set.
    pub fn server_on(&self, cpus: u32) -> Result<Agent, Error> {
        let mut host = self.server.host.clone();
        host.cpus.truncate(cpus as usize);
        if let Some(rack) = self.rack {
            rack.steer(&host)?;
        }
        Ok(self.server.on(&host)?)
    }

    /// The time that a server has until its first right answer: the experiment's `patience`, and a second more for each megabyte of
    /// zone. (The slowest servers of the papers took 5 s per megabyte on machines of 2009.) If K trials start their servers at the
    /// same time on the same cores, each server has K times as long.
    pub fn patience(&self, zone: &Prepared) -> Duration {
        let alone =
            Duration::from(self.experiment.patience) + Duration::from_secs(zone.probe.bytes / 1_000_000);
        alone * self.shared_cores.map_or(1, |share| share.sets())
    }

    /// Before a trial is set up: waits until no other one is timed on the same cores.
    ///
    /// # Errors
    /// As [`Self::goes_on`].
    pub fn may_set_up(&self) -> Result<(), Error> {
        self.shared_cores.map_or(Ok(()), |share| share.set_up(&|| self.goes_on()))
    }

    /// Before a trial is timed: waits until no other one is set up on the same cores, and for its own moment to begin.
    ///
    /// # Errors
    /// As [`Self::goes_on`].
    pub fn may_time(&self) -> Result<(), Error> {
        let Some(share) = self.shared_cores else { return Ok(()) };
        let later = share.timed(&|| self.goes_on())?;
        self.pause(later)
    }

    /// How long from now roles start.
    pub fn start_delay(&self) -> Nanos {
        let agents = self.generators.iter().chain([self.server]);
        if agents.into_iter().any(Agent::is_elsewhere) { FAR_START_DELAY } else { START_DELAY }
    }

    /// An instant of our wall clock by that of the first generator's machine, which watches and sends updates.
    ///
    /// # Errors
    /// Where its agent is gone.
    pub fn at_generator(&self, wall: Nanos) -> Result<Nanos, Error> {
        Ok(self.generators[0].clock()?.there(wall))
    }

    /// The agents of all hosts, the server's first.
    fn hosts(&self) -> impl Iterator<Item = &'a Agent> {
        std::iter::once(self.server).chain(self.generators).chain(self.peers)
    }

    /// Networks that may be loaded because agents of other machines hold their addresses.
    pub fn allowed(&self) -> Vec<Prefix> {
        let elsewhere = self.hosts().filter(|agent| agent.is_elsewhere());
        elsewhere.flat_map(|agent| agent.host.addresses()).map(Prefix::from).collect()
    }

    /// An agent of each machine.
    pub fn agents(&self) -> Vec<&'a Agent> {
        let mut all: Vec<&Agent> = Vec::new();
        for agent in self.hosts() {
            if !all.iter().any(|one| one.is_beside(agent)) {
                all.push(agent);
            }
        }
        all
    }

    /// The names of the peers.
    pub fn peer_names(&self) -> Vec<String> {
        self.peers.iter().map(|peer| peer.host.name.clone()).collect()
    }

    /// An error once the run is to stop: the trial is dropped then, and its server killed.
    pub fn goes_on(&self) -> Result<(), Error> {
        if self.stop.load(Ordering::Relaxed) {
            return Err(Error::Machine("the run was stopped".into()));
        }
        Ok(())
    }
}

/// Port that servers listen on: hosts are ours alone, so it is DNS's own.
pub const PORT: u16 = 53;

/// Keeps the server's own counters, and stops it; what it counted.
pub fn end(
    context: &RunContext,
    mut server: Server,
    spec: &ServerSpec,
    measured: Result<(), Error>,
) -> Result<Vec<Metric>, Error> {
    // A server that died explains a role's odd end better than the role does.
    server.alive()?;
    measured?;
    context.goes_on()?;
    let driver = server::driver(spec.kind);
    let counted = match spec.external.is_none() && driver.facts().can.stats {
        true => driver.counted(&server.stats()?),
        false => server::Counted::default(),
    };
    server.stop()?;
    Ok(counted.metrics().collect())
}

/// The server of a label on a host, as one that serves its file.
pub fn server_spec(
    context: &RunContext,
    host: &Host,
    label: &str,
    zone: &Prepared,
) -> Result<ServerSpec, Error> {
    let e = context.experiment;
    let given = e.server(label)?;
    let config = match &given.config {
        Some(path) => Some(std::fs::read_to_string(path).map_err(Error::io(path))?),
        None => None,
    };
    Ok(ServerSpec {
        label: label.into(),
        kind: e.kind(label)?,
        program: given.program,
        root: given.root,
        config,
        workers: given.workers.unwrap_or(host.cpus.len() as u32),
        udp_size: e.udp_size,
        port: PORT,
        addresses: if context.server.host.extra_addrs.is_empty() {
            Vec::new()
        } else {
            context.server.host.addresses()
        },
        zone: ZoneRef { origin: zone.origin.clone(), file: zone.file.clone(), signed: zone.signed.is_some() },
        cpus: host.cpus.clone(),
        env: Vec::new(),
        external: given.address,
        distribution: None,
    })
}
