//! `dnsrack doctor`: what this machine can and cannot do, a line each, with what to do about it.

use crate::output::{self, Common, Status};
use ::rack::Host;
use agent::{Ability, Agent, Here, Installed, Machine, Machines, RackFile, RackSource, Try};
use serde::Serialize;
use server::{Kind, Program};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// One thing looked at.
#[derive(Serialize)]
struct Finding {
    what: String,
    verdict: Ready,
    found: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    advice: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Ready {
    Yes,
    Limited,
    No,
}

impl Finding {
    fn new(what: impl Into<String>, verdict: Ready, found: impl Into<String>, advice: &str) -> Self {
        let advice = (verdict != Ready::Yes && !advice.is_empty()).then(|| advice.to_owned());
        Self { what: what.into(), verdict, found: found.into(), advice }
    }
}

/// The flags of `doctor`.
#[derive(clap::Args)]
pub struct Command {
    /// Look at the machines of this rack file instead of at this one
    #[arg(long, value_name = "FILE")]
    rack: Option<PathBuf>,
}

/// Looks and prints; exit status 3 where no experiment could run.
pub fn run(command: &Command, common: &Common) -> output::Result {
    if let Some(rack) = &command.rack {
        return machines(&RackFile::load(rack)?, common);
    }
    let environment = ::rack::environment(&[]);
    let mut findings = servers();
    findings.extend(machine(&environment));
    let here = Agent::new(&Arc::new(Here::default()), Host::loopback(), &output::stop_flag()?);
    findings.extend(durability(&here)?);
    findings.push(scale(&environment));
    let able = findings.iter().all(|f| f.what != "rack" || f.verdict != Ready::No)
        && findings.iter().any(|f| f.what.starts_with("server") && f.verdict == Ready::Yes);
    if common.json {
        output::json(
            "doctor",
            &serde_json::json!({ "able": able, "findings": findings, "machine": environment }),
        )?;
    } else {
        print(&findings)?;
    }
    Ok(if able { Status::Done } else { Status::Differs })
}

fn print(findings: &[Finding]) -> Result<(), output::Failure> {
    for finding in findings {
        let mark = match finding.verdict {
            Ready::Yes => "yes    ",
            Ready::Limited => "limited",
            Ready::No => "no     ",
        };
        output::print(&format!("{mark} {:<18} {}\n", finding.what, finding.found))?;
        if let Some(advice) = &finding.advice {
            output::print(&format!("{:26} → {advice}\n", ""))?;
        }
    }
    Ok(())
}

/// Looks at the machines of a rack; exit status 3 where none of them has a server.
fn machines(rack: &RackFile, common: &Common) -> output::Result {
    let source = RackSource::File(rack.clone());
    let (needed, sets) = source.every_host()?;
    let sets = Machines::open(&source, &needed, sets, Path::new("."), &output::stop_flag()?)?;
    let mut all = Vec::new();
    for (machines, machine) in sets.iter().flat_map(|set| set.all.iter().map(move |machine| (set, machine))) {
        let agent = machines.agent(&machine.hosts[0]).expect("it was just reached");
        all.push((machine, of_machine(machine, agent)?));
    }
    let able = all.iter().flat_map(|(_, f)| f).any(|f| f.what == SERVERS && f.verdict == Ready::Yes);
    if common.json {
        let shown = |(machine, findings): &(&Machine, Vec<Finding>)| serde_json::json!({ "machine": machine, "findings": findings });
        let all: Vec<_> = all.iter().map(shown).collect();
        output::json("doctor.rack", &serde_json::json!({ "able": able, "machines": all }))?;
    } else {
        for (machine, findings) in &all {
            let set = if sets.len() > 1 { format!(", set {}", machine.set) } else { String::new() };
            output::print(&format!("{}: {}{set}\n", machine.hosts.join(", "), machine.name))?;
            print(findings)?;
        }
    }
    Ok(if able { Status::Done } else { Status::Differs })
}

const SERVERS: &str = "servers";

fn of_machine(machine: &Machine, agent: &Agent) -> Result<Vec<Finding>, agent::Error> {
    let d = &machine.described;
    let model = d.environment["cpu_model"].as_str().unwrap_or("model unknown");
    let found = agent.ask(Installed { servers: Kind::ours().map(Program::of).collect() })?;
    let found =
        Kind::ours().zip(found).filter_map(|(kind, found)| Some(format!("{kind} {}", found.ok()?.version)));
    let found: Vec<String> = found.collect();
    let mut findings = vec![
        Finding::new("machine", Ready::Yes, format!("{model}, CPUs {:?}, Linux {}", d.cpus, d.kernel), ""),
        Finding::new(
            "memory and disk",
            Ready::Yes,
            format!(
                "{:.1} GB available, {:.1} GB free",
                d.memory_available as f64 / 1e9,
                d.disk_available as f64 / 1e9
            ),
            "",
        ),
        Finding::new(
            "clock",
            if machine.clock.bound < 1_000_000 { Ready::Yes } else { Ready::Limited },
            format!(
                "{:+.3} ms from ours, known within {:.0} µs",
                machine.clock.ahead as f64 / 1e6,
                machine.clock.bound as f64 / 1e3
            ),
            "the way to it is slow: run dnsrack on a machine that is nearer",
        ),
    ];
    for interface in &d.interfaces {
        let mut words = vec![interface.driver.clone().unwrap_or_else(|| "driver unknown".into())];
        words.extend(interface.speed.map(|speed| format!("{speed} Mbit/s")));
        words.extend(interface.mtu.map(|mtu| format!("MTU {mtu}")));
        words.extend(interface.receive_queues.map(|n| measure::units::counted(n.into(), "receive queue")));
        words.extend(interface.rings.map(|(receive, send)| format!("rings of {receive} and {send} packets")));
        findings.push(Finding::new(
            format!("interface {}", interface.name),
            Ready::Yes,
            words.join(", "),
            "",
        ));
    }
    findings.push(match found.is_empty() {
        false => Finding::new(SERVERS, Ready::Yes, found.join(", "), ""),
        true => Finding::new(
            SERVERS,
            Ready::Limited,
            "none",
            "enough for a host that asks; others: apt-get install nsd",
        ),
    });
    findings.extend(durability(agent)?);
    Ok(findings)
}

/// Whether an agent's machine can do what experiments of durability need, by trying it.
fn durability(agent: &Agent) -> Result<Vec<Finding>, agent::Error> {
    let wanted = [
        ("syncs traced", Ability::TraceSyncs, "strace traces here"),
        ("power cut", Ability::CutPower, "a disk can be mounted (FUSE)"),
    ];
    let leave_out = "isc-durability leaves it out with --set measure=…";
    let tried = |(what, ability, found)| {
        Ok(match agent.ask(Try { ability })? {
            None => Finding::new(what, Ready::Yes, found, ""),
            Some(why) => Finding::new(what, Ready::No, why, leave_out),
        })
    };
    wanted.into_iter().map(tried).collect()
}

fn servers() -> Vec<Finding> {
    let finding_of = |kind: Kind| match server::installed(kind) {
        Some(found) => Finding::new(
            format!("server {kind}"),
            Ready::Yes,
            format!("{} ({})", found.version, found.path.display()),
            "",
        ),
        None => Finding::new(
            format!("server {kind}"),
            Ready::No,
            "not found",
            &format!(
                "apt-get install {}, or name a program with --set server.LABEL.program=PATH or another release's folder with \
                 --set server.LABEL.root=FOLDER (scripts/server-root.sh)",
                server::package(kind)
            ),
        ),
    };
    Kind::ours().map(finding_of).collect()
}

fn machine(e: &::rack::environment::Environment) -> Vec<Finding> {
    let ability = |a: &::rack::environment::Ability, or: Ready| if a.available { Ready::Yes } else { or };
    let can = &e.abilities;
    let rack = if can.root && can.network_namespaces.available {
        Finding::new("rack", Ready::Yes, "network namespaces, as root", "")
    } else {
        let verdict = ability(&can.user_namespaces, Ready::No);
        let found = format!("rootless, in a user namespace: {}", can.user_namespaces.detail);
        Finding::new(
            "rack",
            verdict,
            found,
            "run as root, or allow user namespaces (user.max_user_namespaces)",
        )
    };
    let jitter = ::rack::environment::jitter(Duration::from_millis(300));
    let cores = e.cpus_allowed.len();
    let backlog = e.sysctls.get("net.core.netdev_max_backlog").cloned().unwrap_or_else(|| "unknown".into());
    vec![
        rack,
        Finding::new(
            "cores",
            if cores >= 2 { Ready::Yes } else { Ready::Limited },
            format!("{cores}: {}{}", e.cpu_model.as_deref().unwrap_or("model unknown"), placement()),
            "server and generator share one core: figures are of both together, claim nothing from them",
        ),
        Finding::new(
            "timer",
            if jitter.p99_us < 100.0 { Ready::Yes } else { Ready::Limited },
            format!(
                "wakes late by {:.0} µs (median), {:.0} µs (p99), {:.0} µs (max of {} sleeps)",
                jitter.median_us, jitter.p99_us, jitter.max_us, jitter.rounds
            ),
            "above 100 µs paced trials lean on busy waiting: keep the generator's core free",
        ),
        Finding::new(
            "steal",
            if e.steal_percent < 1.0 { Ready::Yes } else { Ready::Limited },
            format!("{:.2} % of CPU time since boot went to other guests", e.steal_percent),
            "measure at another time or on another machine",
        ),
        Finding::new("AF_XDP", ability(&can.af_xdp, Ready::No), &can.af_xdp.detail, "loads use UDP sockets"),
        Finding::new(
            "netem",
            ability(&can.netem, Ready::No),
            &can.netem.detail,
            "not needed: a rack's paths are emulated in user space",
        ),
        Finding::new(
            "backlog",
            if backlog.parse::<u64>().is_ok_and(|n| n >= 1000) { Ready::Yes } else { Ready::Limited },
            format!("net.core.netdev_max_backlog = {backlog} packets a core"),
            "sysctl -w net.core.netdev_max_backlog=10000 keeps bursts from being dropped before the server",
        ),
    ]
}

/// The cores that the parts of the experiment 'demo' would get here, in words.
fn placement() -> String {
    let needs = ::experiment::open("demo", &[]).and_then(|e| ::experiment::resources::needs(&e));
    needs.map_or_else(|_| String::new(), |needs| format!(" (demo: {})", needs.placement))
}

/// The largest zone that fits into memory and disk, with any of the servers.
fn scale(e: &::rack::environment::Environment) -> Finding {
    let disk = ::rack::environment::disk_available(Path::new(".")).unwrap_or(0);
    let delegations = 1_000_000;
    let signing = zone::sign::Options {
        nsec3: Some(zone::sign::Nsec3 { opt_out: false, iterations: 0, salt: Vec::new() }),
        ..zone::sign::Options::rzaia(0)
    };
    let contents =
        zone::Contents::of_family(zone::Family::S6Ds100, delegations).unwrap_or_default().signed(&signing);
    let memory = Kind::ours().filter_map(|kind| server::driver(kind).facts().memory);
    let each = memory.map(|memory| memory.of(&contents) / delegations).max().unwrap_or_default().max(1);
    let by_memory = e.memory_available / each;
    let by_disk = disk / (contents.bytes / delegations).max(1);
    let fits = by_memory.min(by_disk);
    let verdict = if fits >= 1_000_000 { Ready::Yes } else { Ready::Limited };
    let found = format!(
        "about {} delegations of S-6-DS100, signed ({:.1} GB memory, {:.1} GB disk free)",
        measure::units::short(fits / 100_000 * 100_000),
        e.memory_available as f64 / 1e9,
        disk as f64 / 1e9
    );
    Finding::new(
        "zone size",
        verdict,
        found,
        "larger zones need more memory, or free disk where the run directory is",
    )
}
