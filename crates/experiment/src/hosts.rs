//! The hosts of a run: namespaces of this machine, machines of a rack file, or this machine beside a server that answers elsewhere.

use crate::config::{Cpus, MANY};
use crate::placement::{Parts, Placement};
use crate::replication::{fleet, paths};
use crate::resources::Memory;
use crate::{Error, Experiment, Measure};
use agent::{Agent, Here, Machines, NeededHost, RackSource};
use rack::{Host, HostSpec, Rack, RackSpec, RouterSpec};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// The name of the host of the server measured.
pub const SERVER: &str = "server";

/// The name of the host of a primary that is not measured.
pub const PRIMARY: &str = "primary";

/// The hosts of a run, each with its agent.
pub struct Hosts {
    /// The host of the server measured.
    pub server: Agent,
    /// The hosts that ask.
    pub generators: Vec<Agent>,
    /// The other servers of a distribution: the primary first, where it is not the server measured.
    pub peers: Vec<Agent>,
    /// The CPUs of each.
    pub cpus: Placement,
    /// Where the hosts are on this machine; none also where the server answers elsewhere.
    pub rack: Option<Rack>,
    /// Where they are machines.
    pub machines: Option<Machines>,
}

impl Hosts {
    /// Makes the given number of sets of an experiment's hosts on this machine, or reaches them on other machines, where files of the
    /// run below `dir` have counterparts.
    ///
    /// # Errors
    /// [`Error::Plan`] where a core that is given may not be used, or something asked for cannot be measured there, or not in several
    /// trials at the same time; those of the rack and of the agents, of all sets together.
    pub fn up(
        e: &Experiment,
        file: Option<&RackSource>,
        sets: u32,
        dir: &Path,
        stop: &Arc<AtomicBool>,
    ) -> Result<Vec<Self>, Error> {
        let Some(file) = file else {
            if sets > 1 {
                refuse_what_needs_a_core(e)?;
            }
            return (0..sets).map(|_| Self::here(e, stop)).collect();
        };
        refuse_what_needs_this_machine(e)?;
        let all = Machines::open(file, &needed(e)?, sets, dir, stop)?;
        all.into_iter().map(|machines| Self::on(e, machines)).collect()
    }

    fn here(e: &Experiment, stop: &Arc<AtomicBool>) -> Result<Self, Error> {
        let cpus = allowed(e)?;
        let rack = if e.is_external()? { None } else { Some(Rack::up(&rack_of(e, &cpus))?) };
        let here = Arc::new(Here::default());
        // An external server is outside any rack of ours: it is measured from the machine's own network.
        let agent = |name: &String| {
            let host = match &rack {
                Some(rack) => rack.host(name).expect("it was just made").clone(),
                None => {
                    let mut host = Host::loopback();
                    host.name = name.clone();
                    host.cpus = cpus.generators.concat();
                    host
                }
            };
            Agent::new(&here, host, stop)
        };
        let server = agent(&SERVER.to_owned());
        let generators = generator_names(e).iter().map(agent).collect();
        let peers = fleet::peer_names(e).iter().map(agent).collect();
        Ok(Self { server, generators, peers, cpus, rack, machines: None })
    }

    /// The hosts of one set of machines.
    fn on(e: &Experiment, machines: Machines) -> Result<Self, Error> {
        let agent = |name: &String| machines.agent(name).expect("it was just reached").clone();
        let server = agent(&SERVER.to_owned());
        let generators: Vec<Agent> = generator_names(e).iter().map(agent).collect();
        let peers: Vec<Agent> = fleet::peer_names(e).iter().map(agent).collect();
        let of = |all: &[Agent]| all.iter().map(|a| a.host.cpus.clone()).collect();
        let cpus = Placement {
            server: server.host.cpus.clone(),
            others: of(&peers),
            generators: of(&generators),
            router: Vec::new(),
            monitor: Vec::new(),
        };
        if let Some(many) =
            e.traffics().iter().map(|t| t.addresses as usize).find(|n| *n > server.host.addresses().len())
        {
            return Err(
                e.refuse(format!("traffic.addresses: the rack file gives host server fewer than {many}"))
            );
        }
        Ok(Self { server, generators, peers, cpus, rack: None, machines: Some(machines) })
    }

    /// What should be known of the machines before a run.
    pub fn remarks(&self) -> Vec<String> {
        let all = self.machines.as_ref().map_or(&[][..], |machines| &machines.all);
        let mut remarks = Vec::new();
        for machine in all {
            let (hosts, name, clock) = (machine.hosts.join(", "), &machine.name, machine.clock);
            remarks.push(format!(
                "{hosts}: on {name}, Linux {}, its clock {:+.3} ms from ours, known within {:.0} µs",
                machine.described.kernel,
                clock.ahead as f64 / 1e6,
                clock.bound as f64 / 1e3
            ));
        }
        if all.windows(2).any(|pair| pair[0].described.kernel != pair[1].described.kernel) {
            remarks.push("warning: the machines have different kernels".into());
        }
        remarks
    }

    /// The memory of each machine that these hosts may use.
    pub fn memory(&self) -> Vec<Memory> {
        let of = |machine: &agent::Machine| Memory {
            name: Some(machine.name.clone()),
            hosts: Some(machine.hosts.clone()),
            available: machine.described.memory_available,
        };
        self.machines.as_ref().map_or_else(|| vec![Memory::here()], |all| all.all.iter().map(of).collect())
    }

    /// The machine on which an agent can write the fewest bytes, and how many.
    pub fn least_disk(&self) -> Option<(&str, u64)> {
        let all = self.machines.as_ref()?.all.iter().map(|m| (m.name.as_str(), m.described.disk_available));
        all.min_by_key(|(_, free)| *free)
    }

    /// The parts that share CPUs with others, each pair in words.
    pub fn shared(&self) -> Vec<String> {
        // CPUs of different machines have the same numbers.
        if self.machines.is_some() { Vec::new() } else { self.cpus.shared() }
    }
}

/// The hosts that ask: as many as any traffic has.
fn generator_names(e: &Experiment) -> Vec<String> {
    match e.traffics().iter().map(|t| t.generators).max() {
        None | Some(0 | 1) => vec!["generator".into()],
        Some(many) => (1..=many).map(|n| format!("generator-{n}")).collect(),
    }
}

/// The names of the hosts of an experiment: the server's first.
///
/// # Errors
/// [`Error::Plan`] where a label is no server.
pub fn host_names(e: &Experiment) -> Result<Vec<String>, Error> {
    Ok(needed(e)?.into_iter().map(|host| host.name).collect())
}

/// The hosts of an experiment, each with the servers that it may have to run.
///
/// # Errors
/// [`Error::Plan`] where a label is no server.
fn needed(e: &Experiment) -> Result<Vec<NeededHost>, Error> {
    let program = |label: &String| e.program(label);
    let measured = e.servers.iter().map(program).collect::<Result<Vec<_>, _>>()?;
    let all = e.labels().into_iter().map(program).collect::<Result<Vec<_>, _>>()?;
    let mut hosts = vec![NeededHost { name: SERVER.into(), servers: measured }];
    hosts.extend(generator_names(e).into_iter().map(|name| NeededHost { name, servers: Vec::new() }));
    hosts.extend(fleet::peer_names(e).into_iter().map(|name| NeededHost { name, servers: all.clone() }));
    Ok(hosts)
}

/// Several sets of hosts on this machine share its cores.
fn refuse_what_needs_a_core(e: &Experiment) -> Result<(), Error> {
    if e.waits_for_timers() && !e.is_external()? {
        return Ok(());
    }
    Err(e.refuse(
        "--parallel: without --rack its trials would share this machine's cores, and its figures depend on them. Only 'batches' with default \
         timers (distribution.timers) spend nearly all of their time waiting. Leave out --parallel, or give other machines with --rack",
    ))
}

/// What is emulated is made on this machine alone.
fn refuse_what_needs_this_machine(e: &Experiment) -> Result<(), Error> {
    if e.distributions().iter().any(|d| !d.path.is_empty()) {
        return Err(e.refuse(
            "distribution.path: paths are emulated between the hosts of one machine alone: leave out --rack, or the paths with \
             --set distribution.path=[]",
        ));
    }
    if e.cpus != Cpus::default() {
        return Err(e.refuse("cpus: with --rack they are given in the rack file, host by host"));
    }
    if e.is_external()? {
        return Err(e.refuse("its servers answer elsewhere already: leave out --rack"));
    }
    Ok(())
}

/// The server's host, with as many addresses as any traffic has, and those that ask.
fn rack_of(e: &Experiment, cpus: &Placement) -> RackSpec {
    let mut hosts = vec![HostSpec::new(SERVER, &cpus.server)];
    let named = |(name, cpus): (&String, &Vec<usize>)| HostSpec::new(name, cpus);
    hosts.extend(generator_names(e).iter().zip(&cpus.generators).map(named));
    let peers = fleet::peer_names(e);
    hosts.extend(peers.iter().zip(&cpus.others).map(named));
    let mut spec = RackSpec::new(hosts);
    // Octets between servers are counted with the headers that a cable would carry.
    spec.whole_frames = e.distributions().iter().any(|d| d.secondaries > 0);
    spec.paths = paths::of_rack(e, &peers);
    let router = || RouterSpec { cpus: cpus.router.clone(), ..RouterSpec::default() };
    spec.router = (!spec.paths.is_empty()).then(router);
    let addresses = e.traffics().iter().map(|t| t.addresses).max().unwrap_or(1);
    // Above those of the hosts.
    spec.hosts[0].extra_addrs =
        (1..addresses).filter_map(|n| spec.subnet.host(u128::from(MANY + 1 + n))).collect();
    spec
}

/// The cores of each part of an experiment, checked.
fn allowed(e: &Experiment) -> Result<Placement, Error> {
    let placed = placement(e);
    let allowed = rack::allowed_cpus();
    let missing = placed.all().find(|cpu| !allowed.contains(cpu));
    match missing {
        Some(missing) => {
            Err(e.refuse(format!("cpus: this process may not use core {missing}, only {allowed:?}")))
        }
        None => Ok(placed),
    }
}

/// The cores that each part of an experiment gets on this machine.
pub fn placement(e: &Experiment) -> Placement {
    let peers = fleet::peer_names(e);
    let parts = Parts {
        others: peers.len(),
        generators: generator_names(e).len(),
        router: !paths::of_rack(e, &peers).is_empty(),
        monitor: !peers.is_empty() || e.measure.contains(&Measure::Latency) && e.latency.witness,
    };
    Placement::of(&rack::topology::cores(), parts, &e.cpus)
}
