//! The servers of a distribution: a primary and its secondaries, of which one is measured.

use crate::config::{Distribution, Signing};
use crate::hosts::PRIMARY;
use crate::run_context::{self, RunContext};
use crate::zones::{self, Prepared};
use crate::{Error, Experiment, Measure, Trial};
use agent::{Agent, Server};
use measure::clock::SECOND;
use measure::{Metric, Outcome, Pace, Reason};
use rack::Host;
use server::Replication;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;
use update::generate;
use update::send::SendSpec;

/// Names of the hosts of a distribution beside that of the server measured, in the order of their part: the primary's first.
pub fn hosts(plan: &Distribution) -> Vec<String> {
    let first = if plan.primary.is_some() { 2 } else { 1 };
    let primary = plan.primary.iter().map(|_| PRIMARY.to_owned());
    primary.chain((first..=plan.secondaries).map(|n| format!("secondary-{n}"))).collect()
}

/// The hosts of a distribution beside the server's, of all variants.
pub fn peer_names(e: &Experiment) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for name in e.distributions().into_iter().flat_map(hosts) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

/// Everything that all servers of one trial have in common.
pub struct Fleet<'a> {
    context: &'a RunContext<'a>,
    plan: &'a Distribution,
    zone: &'a Prepared,
    dir: &'a Path,
    /// Made for this trial alone; of an external server its own.
    pub key: update::TsigKey,
    /// The address of an external primary.
    external: Option<SocketAddr>,
    patience: Duration,
    /// The primary's label.
    primary: String,
    /// Its zone changes; else the primary has it as it is, already signed or not.
    changes: bool,
}

/// The servers beside the one that is measured.
#[derive(Default)]
pub struct OtherServers {
    /// Where the server measured is a secondary.
    pub primary: Option<Server>,
    /// In order.
    pub secondaries: Vec<Server>,
}

impl<'a> Fleet<'a> {
    /// A distribution whose servers write into folders of `dir`.
    ///
    /// # Errors
    /// [`Error::Update`] where no key can be made.
    pub fn new(
        context: &'a RunContext<'a>,
        trial: &Trial,
        zone: &'a Prepared,
        dir: &'a Path,
    ) -> Result<Self, Error> {
        let plan = context.experiment.distribution_of(trial.variant.as_deref());
        let patience = context.patience(zone);
        let primary = plan.primary.clone().unwrap_or_else(|| trial.server.clone());
        let server = context.experiment.server(&primary)?;
        let key = match &server.tsig {
            Some(file) => update::TsigKey::load(file)?,
            None => update::TsigKey::random("rack")?,
        };
        let changes = trial.measure != Measure::Transfer;
        let external = server.address;
        Ok(Self { context, plan, zone, dir, key, external, patience, primary, changes })
    }

    /// Who signs what changes in a signed zone.
    pub fn signing(&self) -> Signing {
        self.context.experiment.signing_of(self.plan, &self.primary)
    }

    /// How what changes is signed where that comes with the updates; none: the primary does, or the zone is not signed.
    pub fn signed_by_sender(&self) -> Option<generate::Signing> {
        let keys = self.zone.keys.clone()?;
        let sent = self.signing() == Signing::Sent;
        let now = (measure::clock::wall() / SECOND) as u32;
        sent.then(|| generate::Signing { keys, inception: now - 3600, validity: zones::VALIDITY })
    }

    /// The addresses of the secondaries, that of the server measured first where it is one.
    pub fn secondaries(&self) -> Vec<(String, SocketAddr)> {
        let measured = self.plan.primary.as_ref().map(|_| self.context.server);
        let all = measured.into_iter().chain(self.other_secondaries());
        all.take(self.plan.secondaries as usize).map(|a| (a.host.name.clone(), address(a))).collect()
    }

    /// The hosts of the secondaries that are not measured.
    fn other_secondaries(&self) -> impl Iterator<Item = &'a Agent> {
        self.context.peers.iter().filter(|peer| peer.host.name != PRIMARY)
    }

    /// The hosts of the secondaries beside the one that is measured.
    pub fn beside(&self) -> Vec<&'a Host> {
        let first = usize::from(self.plan.primary.is_some());
        let others = self.other_secondaries().take((self.plan.secondaries as usize).saturating_sub(first));
        others.map(|agent| &agent.host).collect()
    }

    /// The labels of the secondaries' servers, in the same order; `measured` is that of the server measured.
    pub fn labels(&self, measured: &str) -> Vec<String> {
        self.plan.labels(measured)
    }

    /// The address at which the primary answers.
    pub fn primary_address(&self) -> SocketAddr {
        self.external.unwrap_or_else(|| address(self.primary()))
    }

    /// The updates of a file for the primary, signed with the key.
    pub fn sending(&self, file: impl Into<PathBuf>, pace: Pace) -> SendSpec {
        SendSpec {
            key: Some(self.key.clone()),
            allowed: self.context.allowed(),
            allow_external: self.external.is_some_and(|at| !at.ip().is_loopback()),
            ..SendSpec::new(self.primary_address(), file, pace)
        }
    }

    /// Where the primary is.
    pub fn primary(&self) -> &'a Agent {
        match self.plan.primary {
            Some(_) => self.context.peers.iter().find(|p| p.host.name == PRIMARY).expect("the rack has one"),
            None => self.context.server,
        }
    }

    /// The role of the primary, or of the secondary at this place, where that is a server of this kind.
    fn part(&self, kind: server::Kind, secondary: Option<usize>) -> Replication {
        let plan = self.plan;
        let all: Vec<SocketAddr> = self.secondaries().into_iter().map(|(_, at)| at).collect();
        let direct = all.len() - (plan.chained as usize).min(all.len());
        let mut part = Replication {
            ixfr: plan.ixfr,
            timers: plan.timers.into(),
            journal: plan.journal,
            ..Replication::new(self.key.clone())
        };
        match secondary {
            None => {
                part.secondaries = all[..direct].to_vec();
                let can = server::driver(kind).facts().can;
                let online = self.signed_by_sender().is_none();
                part.updates = self.changes && can.update;
                part.keys = self.zone.keys.clone().filter(|_| self.changes && online && can.signs);
            }
            Some(n) => {
                part.dump = plan.dump;
                part.primaries = vec![if n < direct { address(self.primary()) } else { all[0] }];
                if n == 0 {
                    part.secondaries = all[direct..].to_vec();
                }
            }
        }
        part
    }

    /// The primary of each secondary.
    pub fn plan(&self) -> &'a Distribution {
        self.plan
    }

    /// The part of the server that is measured.
    pub fn measured(&self, kind: server::Kind) -> Replication {
        self.part(kind, self.plan.primary.as_ref().map(|_| 0))
    }

    /// Starts the primary, where that is not the server measured, and waits until it serves the zone.
    ///
    /// # Errors
    /// The errors of its start.
    pub fn start_primary(&self) -> Result<Option<Server>, Error> {
        let Some(label) = &self.plan.primary else { return Ok(None) };
        let mut server = self.start(label, self.primary(), None)?;
        server.ready(&self.zone.probe, self.patience)?;
        Ok(Some(server))
    }

    /// Starts the secondaries that are not measured, and waits until all serve the zone.
    ///
    /// # Errors
    /// The errors of a start.
    pub fn start_secondaries(&self, measured: &str) -> Result<Vec<Server>, Error> {
        let mut servers = self.begin_secondaries(measured)?;
        self.wait_for(&mut servers)?;
        Ok(servers)
    }

    /// Starts the secondaries that are not measured.
    ///
    /// # Errors
    /// The errors of a start.
    pub fn begin_secondaries(&self, measured: &str) -> Result<Vec<Server>, Error> {
        let first = usize::from(self.plan.primary.is_some());
        let labels = self.labels(measured);
        let mut servers = Vec::new();
        for (n, label) in labels.iter().enumerate().skip(first) {
            let agent = self.other_secondaries().nth(n - first).expect("the rack has as many hosts");
            servers.push(self.start(label, agent, Some(n))?);
            self.context.goes_on()?;
        }
        Ok(servers)
    }

    /// Waits until all of these servers serve the zone.
    ///
    /// # Errors
    /// The errors of a start.
    pub fn wait_for(&self, servers: &mut [Server]) -> Result<(), Error> {
        for server in servers {
            server.ready(&self.zone.probe, self.patience)?;
        }
        Ok(())
    }

    fn start(&self, label: &str, agent: &Agent, secondary: Option<usize>) -> Result<Server, Error> {
        let mut spec = run_context::server_spec(self.context, &agent.host, label, self.zone)?;
        spec.distribution = Some(self.part(spec.kind, secondary));
        Ok(Server::start(agent, &spec, &self.dir.join(&agent.host.name))?)
    }
}

impl OtherServers {
    /// The memory of all of them together.
    ///
    /// # Errors
    /// The agents'.
    pub fn memory(&self) -> Result<Vec<Metric>, Error> {
        let mut all: Vec<Metric> = Vec::new();
        for server in self.primary.iter().chain(&self.secondaries) {
            for metric in server.memory()? {
                let name = metric.name.replace("server_", "others_");
                match all.iter_mut().find(|sum| sum.name == name) {
                    Some(sum) => sum.value += metric.value,
                    None => all.push(Metric { name, ..metric }),
                }
            }
        }
        Ok(all)
    }

    /// Whether all of them live.
    ///
    /// # Errors
    /// The error for a server that has died, with its log's cause.
    pub fn alive(&mut self) -> Result<(), Error> {
        for server in self.primary.iter_mut().chain(&mut self.secondaries) {
            server.alive()?;
        }
        Ok(())
    }

    /// Stops them; that one had died is an error.
    pub fn stop(self) -> Result<(), Error> {
        for server in self.secondaries.into_iter().chain(self.primary) {
            server.stop()?;
        }
        Ok(())
    }
}

/// Notes that a secondary had to be told to ask for its zone.
pub fn note_urged(server: &Server, outcome: &mut Outcome) {
    if server.urged() > 0 {
        let text = format!(
            "secondary '{}' did not ask its primary for the zone by itself, and was asked to do so {} times (docs/servers.md)",
            server.label(),
            server.urged()
        );
        outcome.validity.warn(Reason::new("secondary_urged", text));
    }
}

/// Where a server of a distribution answers.
fn address(agent: &Agent) -> SocketAddr {
    SocketAddr::new(agent.host.v4.into(), run_context::PORT)
}
