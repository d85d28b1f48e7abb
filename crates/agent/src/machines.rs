//! The machines of a rack: how each is reached, and an agent for each host.
//!
//! A rack file says where the hosts of an experiment are:
//!
//! ```toml
//! [[hosts]]
//! name = "server"                          # as the experiment calls it: server, generator, primary, secondary-2 …
//! ssh = "lab@ns1.example"                  # a destination of ssh; or `command`: words before which a shell's are put, such as
//!                                          # ["srun", "--overlap", "-N1", "-n1", "-w", "node1"]
//! addresses = ["192.0.2.1", "2001:db8::1"] # the first of each family is the host's own, the others are further ones
//! interface = "eth1"                       # that has them; without: the one that has the first address
//! cpus = [0, 1]                            # of its programs; without: all of the machine's
//! folder = "/var/tmp/dnsrack"              # for programs and files; without: ~/.cache/dnsrack
//! program = "/usr/bin/dnsrack"             # without: this one is copied there
//! set = 1                                  # the set that it belongs to; equal sets make trials at the same time
//! ```
//!
//! Hosts with the same `ssh` or `command`, `folder` and `program` are on one machine.

use crate::connection::{Connection, Ends};
use crate::describe::{Describe, Described, Installed};
use crate::program::Program;
use crate::{Agent, Error, Offset, slurm};
use measure::clock::SECOND;
use measure::line_column;
use rack::{Cmd, Host, Input, Launcher, Local, Output};
use serde::{Deserialize, Serialize};
use server::Kind;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Where the hosts of an experiment are.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RackFile {
    /// Its hosts.
    pub hosts: Vec<HostEntry>,
}

/// Where a host is.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostEntry {
    /// As the experiment calls it.
    pub name: String,
    /// How `ssh` reaches it.
    #[serde(default)]
    pub ssh: Option<String>,
    /// A command that runs the words after it there.
    #[serde(default)]
    pub command: Vec<String>,
    /// Its addresses.
    pub addresses: Vec<IpAddr>,
    /// The interface that has all of them; none: whichever has them.
    #[serde(default)]
    pub interface: Option<String>,
    /// The CPUs of its programs; empty: all of its machine's.
    #[serde(default)]
    pub cpus: Vec<usize>,
    /// For files of ours; none: in the user's cache there.
    #[serde(default)]
    pub folder: Option<String>,
    /// The program there; none: ours is copied.
    #[serde(default)]
    pub program: Option<PathBuf>,
    /// The set that the host belongs to, from 1.
    #[serde(default = "first_set")]
    pub set: u32,
}

/// The most sets of hosts.
pub const MOST_SETS: u32 = 64;

fn first_set() -> u32 {
    1
}

/// What says where the hosts of an experiment are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RackSource {
    /// A file.
    File(RackFile),
    /// The Slurm job that we are in: a node for each host.
    Slurm,
}

impl RackSource {
    /// `slurm`, or a rack file.
    ///
    /// # Errors
    /// As [`RackFile::load`].
    pub fn load(path: &Path) -> Result<Self, Error> {
        match path == Path::new("slurm") {
            true => Ok(Self::Slurm),
            false => RackFile::load(path).map(Self::File),
        }
    }

    /// Every host that there is, in one set; and the number of sets.
    ///
    /// # Errors
    /// [`Error::Machines`] where we are in no job of Slurm's.
    pub fn every_host(&self) -> Result<(Vec<NeededHost>, u32), Error> {
        let host = |name: String| NeededHost { name, servers: Vec::new() };
        Ok(match self {
            Self::File(file) => {
                let mut hosts: Vec<NeededHost> = Vec::new();
                for entry in &file.hosts {
                    if hosts.iter().all(|host| host.name != entry.name) {
                        hosts.push(host(entry.name.clone()));
                    }
                }
                (hosts, file.sets())
            }
            Self::Slurm => ((1..=slurm::nodes()?.len()).map(|n| host(format!("node-{n}"))).collect(), 1),
        })
    }

    /// The hosts of a set.
    fn hosts(&self, needed: &[NeededHost], set: u32) -> Result<Vec<HostEntry>, Error> {
        match self {
            Self::File(file) => Ok(file.hosts.iter().filter(|host| host.set == set).cloned().collect()),
            Self::Slurm => slurm::hosts(needed, set),
        }
    }
}

impl RackFile {
    /// The number of its sets of hosts.
    pub fn sets(&self) -> u32 {
        self.hosts.iter().map(|host| host.set).max().unwrap_or(1)
    }

    /// Reads and checks a rack file.
    ///
    /// # Errors
    /// [`Error::Machines`] with the file, the line and column or the host.
    pub fn load(path: &Path) -> Result<Self, Error> {
        let name = path.display();
        let text = std::fs::read_to_string(path).map_err(|e| Error::Machines(format!("{name}: {e}")))?;
        Self::parse(&text, &name.to_string())
    }

    /// The same of its text; `name` is for errors.
    ///
    /// # Errors
    /// As [`Self::load`].
    pub fn parse(text: &str, name: &str) -> Result<Self, Error> {
        let file: Self = toml::from_str(text).map_err(|e| {
            let (line, column) = line_column(text, e.span().map_or(0, |span| span.start));
            Error::Machines(format!("{name}:{line}:{column}: {}", e.message()))
        })?;
        match file.fault() {
            Some(fault) => Err(Error::Machines(format!("{name}: {fault}"))),
            None => Ok(file),
        }
    }

    fn fault(&self) -> Option<String> {
        let mut taken = BTreeMap::new();
        for (n, host) in self.hosts.iter().enumerate() {
            let name = &host.name;
            let fault = match (&host.ssh, host.command.as_slice()) {
                (None, []) => Some("say how it is reached: with ssh or command"),
                (Some(_), [_, ..]) => Some("ssh and command: give one of them"),
                (Some(to), []) if to.is_empty() || to.starts_with('-') => {
                    Some("ssh: give a destination such as user@host")
                }
                _ if host.addresses.is_empty() => Some("addresses: give one at least"),
                _ if !(1..=MOST_SETS).contains(&host.set) => Some("set: from 1 to 64"),
                _ if self.hosts[..n].iter().any(|h| (&h.name, h.set) == (name, host.set)) => {
                    Some("there is another host of this name")
                }
                _ if host.cpus.is_empty()
                    && self.hosts.iter().enumerate().any(|(m, h)| m != n && h.is_beside(host)) =>
                {
                    Some("several hosts are on its machine: give each its cpus")
                }
                _ => None,
            };
            if let Some(fault) = fault {
                return Some(format!("host {name}: {fault}"));
            }
            for address in &host.addresses {
                if let Some(other) = taken.insert(address, name) {
                    return Some(format!("host {name}: {address} is an address of {other}, too"));
                }
            }
        }
        None
    }
}

impl HostEntry {
    fn is_beside(&self, other: &Self) -> bool {
        let way = |h: &Self| (h.ssh.clone(), h.command.clone(), h.folder.clone(), h.program.clone());
        way(self) == way(other)
    }

    /// How a user calls its machine.
    fn machine(&self) -> String {
        self.ssh.clone().unwrap_or_else(|| self.command.join(" "))
    }

    fn host(&self, device: String, cpus: Vec<usize>) -> Host {
        let mut host = Host::loopback();
        let first = |v4: bool| self.addresses.iter().position(|a| a.is_ipv4() == v4);
        let (v4, v6) = (first(true), first(false));
        let address = |at: Option<usize>| at.map(|at| self.addresses[at]);
        host.v4 = match address(v4) {
            Some(IpAddr::V4(ip)) => ip,
            _ => Ipv4Addr::UNSPECIFIED,
        };
        host.v6 = match address(v6) {
            Some(IpAddr::V6(ip)) => ip,
            _ => Ipv6Addr::UNSPECIFIED,
        };
        let further = self.addresses.iter().enumerate().filter(|(n, _)| ![v4, v6].contains(&Some(*n)));
        host.extra_addrs = further.map(|(_, ip)| *ip).collect();
        (host.name, host.device, host.cpus) = (self.name.clone(), device, cpus);
        host
    }
}

/// A host that an experiment has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NeededHost {
    /// As the experiment calls it.
    pub name: String,
    /// The servers that it may have to run.
    pub servers: Vec<server::Program>,
}

/// A machine with hosts of the rack.
#[derive(Clone, Debug, Serialize)]
pub struct Machine {
    /// How a user calls it.
    pub name: String,
    /// The set that its hosts belong to, from 1.
    pub set: u32,
    /// The names of its hosts.
    pub hosts: Vec<String>,
    /// What it is.
    pub described: Described,
    /// Its wall clock.
    pub clock: Offset,
}

/// The machines of a set of hosts, each with its agent at work.
pub struct Machines {
    agents: BTreeMap<String, Agent>,
    /// What they are, in the order of the file.
    pub all: Vec<Machine>,
}

impl Machines {
    /// Reaches the machines of these hosts in the given number of sets, all at once, and describes them. Files of ours below `root` have
    /// counterparts there.
    ///
    /// # Errors
    /// [`Error::Machines`]: every host that is missing, cannot be reached, or has not what it needs.
    pub fn open(
        source: &RackSource,
        needed: &[NeededHost],
        sets: u32,
        root: &Path,
        stop: &Arc<AtomicBool>,
    ) -> Result<Vec<Self>, Error> {
        let hosts: Vec<Vec<HostEntry>> =
            (1..=sets).map(|set| source.hosts(needed, set)).collect::<Result<_, _>>()?;
        let mut groups: Vec<Vec<&HostEntry>> = Vec::new();
        let mut faults = Vec::new();
        for (set, hosts) in (1..).zip(&hosts) {
            let first = groups.len();
            for NeededHost { name, .. } in needed {
                let Some(entry) = hosts.iter().find(|h| h.name == *name) else {
                    let of_set = of_set(set);
                    faults.push(format!(
                        "host {name}{of_set}: it is needed, and the rack file has no such host"
                    ));
                    continue;
                };
                // Each set has agents of its own.
                match groups[first..].iter_mut().find(|group| group[0].is_beside(entry)) {
                    Some(group) => group.push(entry),
                    None => groups.push(vec![entry]),
                }
            }
        }
        if !faults.is_empty() {
            return Err(Error::Machines(faults.join("\n")));
        }
        let programs = Program::all()?;
        let reach = |group: &[&HostEntry]| reach(group, needed, &programs, root, stop);
        let reached: Vec<Result<_, Vec<String>>> = std::thread::scope(|scope| {
            let threads: Vec<_> = groups.iter().map(|group| scope.spawn(|| reach(group))).collect();
            threads.into_iter().map(|t| t.join().expect("it returns its errors")).collect()
        });
        let mut all: Vec<Self> =
            hosts.iter().map(|_| Self { agents: BTreeMap::new(), all: Vec::new() }).collect();
        for one in reached {
            match one {
                Ok((machine, agents)) => {
                    let set = &mut all[machine.set as usize - 1];
                    set.agents.extend(agents.into_iter().map(|a| (a.host.name.clone(), a)));
                    set.all.push(machine);
                }
                Err(more) => faults.extend(more),
            }
        }
        if faults.is_empty() { Ok(all) } else { Err(Error::Machines(faults.join("\n"))) }
    }

    /// The agents of all hosts.
    pub fn agents(&self) -> impl Iterator<Item = &Agent> {
        self.agents.values()
    }

    /// The agent of a host.
    pub fn agent(&self, name: &str) -> Option<&Agent> {
        self.agents.get(name)
    }

    /// The machine of a host.
    pub fn of(&self, host: &str) -> Option<&Machine> {
        self.all.iter().find(|machine| machine.hosts.iter().any(|name| name == host))
    }
}

/// The set of a host, for errors: the first one is not named.
fn of_set(set: u32) -> String {
    if set > 1 { format!(" of set {set}") } else { String::new() }
}

/// Clocks of machines may differ by so many nanoseconds: what is measured does not depend on it, what is signed does.
const CLOCK: u64 = 60 * SECOND;

/// Reaches the machine of some hosts.
fn reach(
    group: &[&HostEntry],
    needed: &[NeededHost],
    programs: &[Program],
    root: &Path,
    stop: &Arc<AtomicBool>,
) -> Result<(Machine, Vec<Agent>), Vec<String>> {
    let first = group[0];
    let (name, hosts) = (first.machine(), group.iter().map(|h| h.name.clone()).collect::<Vec<_>>());
    let who = format!("host {}{}", hosts.join(", "), of_set(first.set));
    let failed = |e: Error| vec![format!("{who}: {e}")];
    let connection = started(first, programs)
        .and_then(|ends| Connection::open(&name, root, programs, ends))
        .map_err(failed)?;
    let connection = Arc::new(connection);
    let any = Agent::over(&connection, Host::loopback(), stop).map_err(failed)?;
    let servers: Vec<_> =
        needed.iter().filter(|n| hosts.contains(&n.name)).flat_map(|n| n.servers.clone()).collect();
    let addresses: Vec<IpAddr> = group.iter().flat_map(|host| host.addresses.clone()).collect();
    let described = any.ask(Describe { addresses: addresses.clone() }).map_err(failed)?;
    let found = any.ask(Installed { servers: servers.clone() }).map_err(failed)?;
    let clock = any.clock().map_err(failed)?;
    let mut faults = Vec::new();
    if clock.ahead.unsigned_abs() > CLOCK {
        faults.push(format!(
            "{who}: the clock of {name} is {:+.0} s from ours, and signatures and TSIG depend on it: set it right",
            clock.ahead as f64 / SECOND as f64
        ));
    }
    let wanted = group.iter().flat_map(|host| host.addresses.iter().map(|_| host.interface.as_deref()));
    for ((address, device), wanted) in addresses.iter().zip(&described.devices).zip(wanted) {
        match (device.as_deref(), wanted) {
            (None, _) => faults.push(format!("{who}: no interface of {name} has the address {address}")),
            (Some(device), Some(wanted)) if device != wanted => {
                faults.push(format!(
                    "{who}: the interface {wanted} of {name} has not the address {address}: {device} has it"
                ));
            }
            _ => {}
        }
    }
    for (server, found) in servers.iter().zip(found) {
        if let (Err(why), true) = (found, server.kind != Kind::EXTERNAL) {
            faults.push(format!("{who}: {name}: {why}"));
        }
    }
    let mut agents = Vec::new();
    for entry in group {
        if let Some(cpu) = entry.cpus.iter().find(|cpu| !described.cpus.contains(cpu)) {
            let of = &entry.name;
            faults.push(format!(
                "host {of}: programs on {name} may not use CPU {cpu}, only {:?}",
                described.cpus
            ));
        }
        let at = addresses.iter().position(|a| *a == entry.addresses[0]);
        let device = at.and_then(|at| described.devices[at].clone()).unwrap_or_default();
        let cpus = if entry.cpus.is_empty() { described.cpus.clone() } else { entry.cpus.clone() };
        agents.push(Agent::over(&connection, entry.host(device, cpus), stop).map_err(failed)?);
    }
    faults.sort();
    faults.dedup();
    if faults.is_empty() {
        Ok((Machine { name, set: first.set, hosts, described, clock }, agents))
    } else {
        Err(faults)
    }
}

/// Takes its words and starts the program; where it is not there, asks for it first. Its arguments: the folder (empty: the usual
/// one), the program (empty: a copy of ours), and the processor, length and SHA-256 of each build that we have.
const SCRIPT: &str = r#"set -eu
folder=${1:-${XDG_CACHE_HOME:-$HOME/.cache}/dnsrack}
mkdir -p "$folder"
program=$2
shift 2
if [ -z "$program" ]; then
    processor=$(uname -m)
    while [ $# -ge 3 ] && [ "$1" != "$processor" ]; do shift 3; done
    if [ $# -lt 3 ]; then
        echo "its processor is $processor: put a build for it beside the dnsrack that you run, as dnsrack-$processor (scripts/static.sh $processor)" >&2
        exit 1
    fi
    program=$folder/dnsrack-$3
    if [ -x "$program" ]; then
        echo "{\"program\":{\"there\":true,\"processor\":\"$processor\"}}"
    else
        echo "{\"program\":{\"there\":false,\"processor\":\"$processor\"}}"
        umask 077
        aside=$(mktemp "$program.XXXXXXXX")
        trap 'rm -f "$aside"' EXIT
        head -c "$2" >"$aside"
        [ "$(wc -c <"$aside")" -eq "$2" ]
        chmod 700 "$aside"
        if ! "$aside" --version </dev/null >/dev/null; then
            echo "the dnsrack that you run does not start there, as where the C library is another: run a static build of it (scripts/static.sh)" >&2
            exit 1
        fi
        # Another agent of this folder, which machines may share, may run the program by now: it is not replaced.
        ln "$aside" "$program" 2>/dev/null || [ -x "$program" ] || mv "$aside" "$program"
        rm -f "$aside"
    fi
fi
exec "$program" role host --folder "$folder""#;

/// Starts an agent on the machine of a host.
fn started(entry: &HostEntry, programs: &[Program]) -> Result<Ends, Error> {
    let folder = entry.folder.clone().unwrap_or_default();
    let program = entry.program.as_ref().map_or_else(String::new, |p| p.display().to_string());
    let mut words: Vec<String> = ["sh", "-c", SCRIPT, "sh", &folder, &program].map(String::from).to_vec();
    for Program { processor, octets, sha256, .. } in programs {
        words.extend([(*processor).to_owned(), octets.to_string(), sha256.clone()]);
    }
    let argv: Vec<String> = match &entry.ssh {
        Some(to) => {
            // The user's shell there reads them.
            let line = shlex::try_join(words.iter().map(String::as_str));
            let line = line.map_err(|_| {
                Error::Machines(format!("host {}: a NUL in its folder or program", entry.name))
            })?;
            let options =
                ["ssh", "-T", "-o", "BatchMode=yes", "-o", "ServerAliveInterval=15", "--", to, &line];
            options.map(String::from).to_vec()
        }
        None => entry.command.iter().cloned().chain(words).collect(),
    };
    let (program, args) = argv.split_first().expect("there is a program");
    let cmd = Cmd::new(program).args(args).stdin(Input::Pipe).stdout(Output::Pipe).stderr(Output::Pipe);
    let mut process = Local.spawn(&Host::loopback(), &cmd)?;
    let pipe = "it was asked for";
    let (orders, words) = (process.take_stdin().expect(pipe), process.take_stdout().expect(pipe));
    let error = process.take_stderr().expect(pipe);
    Ok(Ends { orders: Box::new(orders), words: Box::new(words), process: Some((process, Box::new(error))) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::io::{BufRead, BufReader, Write};
    use std::process::{Command, Stdio};

    fn fault(text: &str) -> String {
        RackFile::parse(text, "rack.toml").unwrap_err().to_string()
    }

    #[test]
    fn faults_name_the_host() {
        let host = |name: &str, rest: &str| format!("[[hosts]]\nname = \"{name}\"\n{rest}\n");
        let at = |ip: &str| format!("ssh = \"a@b\"\naddresses = [\"{ip}\"]");
        let ok = RackFile::parse(&host("server", &at("192.0.2.1")), "rack.toml").unwrap();
        assert_eq!(
            ok.hosts[0].host("eth1".into(), vec![3]).addresses(),
            ["192.0.2.1".parse::<IpAddr>().unwrap()]
        );
        assert_eq!(
            fault(&host("server", "addresses = [\"192.0.2.1\"]")),
            "rack.toml: host server: say how it is reached: with ssh or command"
        );
        assert!(
            fault(&host("server", "ssh = \"-oProxyCommand=x\"\naddresses = [\"::1\"]")).contains("user@host")
        );
        assert!(fault(&host("server", "shh = \"a@b\"")).starts_with("rack.toml:3:1: unknown field `shh`"));
        let two = host("server", &at("192.0.2.1")) + &host("generator", &at("192.0.2.2"));
        assert!(fault(&two).ends_with("host server: several hosts are on its machine: give each its cpus"));
        let two = host("server", &at("192.0.2.1")) + &host("server", &at("192.0.2.2").replace("a@b", "a@c"));
        assert!(fault(&two).ends_with("host server: there is another host of this name"));
        let two =
            host("server", &at("192.0.2.1")) + &host("generator", &at("192.0.2.1").replace("a@b", "a@c"));
        assert!(fault(&two).ends_with("host generator: 192.0.2.1 is an address of server, too"));
        let far = at("192.0.2.2").replace("a@b", "a@c") + "\nset = 2";
        let two = RackFile::parse(&(host("server", &at("192.0.2.1")) + &host("server", &far)), "rack.toml");
        assert_eq!(two.unwrap().sets(), 2);
        assert!(
            fault(&host("server", &(at("::1") + "\nset = 0"))).ends_with("host server: set: from 1 to 64")
        );
    }

    /// Nodes of a cluster share a home. Each of two agents gets the program before the other one has it: the second must not replace
    /// the file that the first one runs and starts roles from.
    #[test]
    fn agents_of_one_folder_run_the_same_file() {
        let folder = tempfile::tempdir().unwrap();
        let program = "#!/bin/sh\n[ \"$1\" = --version ] || stat -c %i \"$0\"\n";
        let (at, octets) = (folder.path().display().to_string(), program.len().to_string());
        let mut agents: Vec<_> = std::iter::repeat_with(|| {
            let mut agent = Command::new("sh")
                .args(["-c", SCRIPT, "sh", &at, "", std::env::consts::ARCH, &octets, "0123"])
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .spawn()
                .unwrap();
            let mut words = BufReader::new(agent.stdout.take().unwrap()).lines();
            assert!(words.next().unwrap().unwrap().contains("\"there\":false"));
            (agent, words)
        })
        .take(2)
        .collect();
        let files: Vec<String> = agents
            .iter_mut()
            .map(|(agent, words)| {
                agent.stdin.take().unwrap().write_all(program.as_bytes()).unwrap();
                let file = words.next().expect("it runs").unwrap();
                assert!(agent.wait().unwrap().success());
                file
            })
            .collect();
        assert_eq!(files[0], files[1]);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "what was written aside is removed");
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "\\PC{0,200}") {
            let _ = RackFile::parse(&text, "rack.toml");
        }
    }
}
