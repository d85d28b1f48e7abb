//! One execution of an experiment: zones, rack, trials, run directory.

use crate::config::{MANY, SourceKind};
use crate::placement::{Parts, Placement};
use crate::plan;
use crate::planned::{Trial, ZonePlan};
use crate::replication::{fleet, paths};
use crate::resources::{self, Sums};
use crate::run_context::RunContext;
use crate::zones::{self, Prepared};
use crate::{Error, Experiment, Measure, RunEvent, check, measures, repeats, settle, trial};
use agent::{Agent, Here};
use measure::Reason;
use rack::{Host, HostSpec, Rack, RackSpec, RouterSpec};
use results::{RunDir, TrialRecord};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use trace::{ReplaySpec, Survey};

/// Where and how to run.
#[derive(Clone, Debug)]
pub struct Options {
    /// The run directory.
    pub dir: PathBuf,
    /// Go on in a run directory that exists.
    pub resume: bool,
    /// The command that repeats the run, for `environment.json`.
    pub command: String,
}

/// How a run ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Valid trials.
    pub valid: usize,
    /// Trials whose figures must not be used.
    pub invalid: usize,
    /// Trials that gave nothing.
    pub failed: usize,
    /// Trials that could not fit.
    pub skipped: usize,
    /// Trials left undone because the run was cut short.
    pub undone: usize,
}

/// Executes an experiment, or what is left of it. Each finished trial is kept before the next begins.
///
/// # Errors
/// Whatever is wrong with the plan, the machine or the input is refused before anything is started. During the
/// run only a run directory that cannot be written ends it; a server that fails is a failed trial.
pub fn run(
    e: &Experiment,
    options: &Options,
    stop: &Arc<AtomicBool>,
    tell: &mut dyn FnMut(RunEvent),
) -> Result<Summary, Error> {
    let mut plan = plan::plan(e);
    // An external server takes no memory here. Asked once: a trial whose zone was not counted is not tried later.
    let memory = if e.is_external()? { u64::MAX } else { resources::available() };
    let captures = preflight(e)?;
    let sums = Sums::of(e)?;
    disk(e, &sums, options, &plan, memory)?;
    let cpus = placement(e)?;
    let run_toml = e.to_toml()?;
    let rack = if e.is_external()? { None } else { Some(Rack::up(&rack_of(e, &cpus))?) };
    let here = Arc::new(Here::default());
    // An external server is outside any rack of ours: it is measured from the machine's own network.
    let agent = |name: &str| {
        let host = match &rack {
            Some(rack) => rack.host(name).expect("it was just made").clone(),
            None => {
                let mut host = Host::loopback();
                host.name = name.into();
                host.cpus = cpus.generators.concat();
                host
            }
        };
        Agent::new(&here, host, stop)
    };
    let mut run_dir = if options.resume && options.dir.join("run.toml").exists() {
        let run_dir = RunDir::resume(&options.dir)?;
        run_dir.same_plan(&run_toml)?;
        zones::sweep(&options.dir.join("zones"));
        run_dir
    } else {
        RunDir::create(&options.dir, &run_toml, &environment(e, options, &cpus, rack.as_ref())?)?
    };
    let zones_dir = options.dir.join("zones");
    let generators: Vec<Agent> = generator_names(e).iter().map(|name| agent(name)).collect();
    let peers: Vec<Agent> = fleet::peer_names(e).iter().map(|name| agent(name)).collect();
    let context = RunContext {
        experiment: e,
        server: &agent("server"),
        generators: &generators,
        peers: &peers,
        rack: rack.as_ref(),
        captures: &captures,
        monitor_cpus: if cpus.monitor.is_empty() { &cpus.server } else { &cpus.monitor },
        stop,
    };
    let mut zone: Option<(ZonePlan, Prepared)> = None;
    let began = Instant::now();
    let budget = repeats::budget(e).0;
    // Trials done here, and the time that they took: by these the rest is estimated.
    let mut here = 0u32;
    // A run that goes on had its added repeats too.
    while plan.len() < run_dir.trials().len() && repeats::go_on(e, &mut plan, &run_dir) {}
    run_dir.note_undone(plan.len().saturating_sub(run_dir.trials().len()))?;
    loop {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let in_time = began.elapsed() < Duration::from_nanos(budget);
        let Some(trial) = plan::next_trial(&plan, run_dir.trials()).cloned() else {
            if in_time && repeats::go_on(e, &mut plan, &run_dir) {
                continue;
            }
            break;
        };
        let trial = &trial;
        if let Some(reason) = sums.refused(trial, memory) {
            tell(RunEvent::Skipped { trial: trial.clone(), reason: reason.clone() });
            run_dir.append(trial::skipped(e, trial, reason))?;
            continue;
        }
        if zone.as_ref().is_none_or(|(at, _)| *at != trial.zone) {
            let made = zones::prepare(e, &trial.zone, measures::zones_change(e), &zones_dir, stop, tell);
            if stop.load(Ordering::Relaxed) {
                break;
            }
            let lost = |why| lost(format!("zone {} cannot be made", trial.zone.label()), &options.dir, why);
            zone = Some((trial.zone.clone(), made.map_err(|e| lost(e.to_string()))?));
        }
        let (_, prepared) = zone.as_ref().expect("it was just prepared");
        let todo = plan.len().saturating_sub(run_dir.trials().len());
        let left = (here > 0).then(|| began.elapsed().as_secs_f64() / f64::from(here) * todo as f64);
        tell(RunEvent::Trial { trial: trial.clone(), of: plan.len(), left });
        here += 1;
        let what = format!("trial {} ({}) is lost", trial.id, trial.words());
        let lost = |why| lost(what.clone(), &options.dir, why);
        let record = attempts(e, &context, trial, prepared, &run_dir.servers_dir(trial.id), tell)
            .map_err(|e| lost(e.to_string()))?;
        if stop.load(Ordering::Relaxed) {
            break;
        }
        if let Some(why) = record.error.as_ref().and_then(|_| unwritable(&options.dir)) {
            let error = record.error.unwrap_or_default();
            return Err(lost(format!("{why} ({error})")));
        }
        run_dir.append(record.clone()).map_err(|e| lost(e.to_string()))?;
        tell(RunEvent::Done { record: Box::new(record) });
    }
    let undone = plan.len().saturating_sub(run_dir.trials().len());
    run_dir.note_undone(undone)?;
    if undone == 0 && !e.zone.keep && zones_dir.exists() {
        std::fs::remove_dir_all(&zones_dir).map_err(Error::io(&zones_dir))?;
    }
    let count = |of: fn(&TrialRecord) -> bool| run_dir.trials().iter().filter(|t| of(t)).count();
    let failed = count(|t| t.error.is_some());
    let (valid, skipped) = (count(TrialRecord::is_valid), count(|t| t.skipped.is_some()));
    Ok(Summary { valid, failed, skipped, invalid: run_dir.trials().len() - valid - failed - skipped, undone })
}

/// Why nothing can be written into the run directory now, where that is so: then a trial that failed says nothing about its
/// server.
fn unwritable(dir: &Path) -> Option<String> {
    let write = || {
        let mut file = tempfile::NamedTempFile::new_in(dir)?;
        file.write_all(&[0; 1 << 20])?;
        file.as_file().sync_data()
    };
    write().err().map(|e| format!("{}: {e}", dir.display()))
}

/// The error that ends a run: a trial that cannot be kept, or a zone that cannot be made.
fn lost(what: String, dir: &Path, why: String) -> Error {
    Error::Machine(format!(
        "{what}: {why}; the trials before it are kept: mend that, and go on with --resume -o {}",
        dir.display()
    ))
}

/// Does a trial, again where the generator was disturbed: validity is about us, so a further attempt says nothing else
/// about the server. What was wrong with the attempts before stays with the record as a warning, and their logs beside
/// the trial's.
fn attempts(
    e: &Experiment,
    context: &RunContext,
    trial: &Trial,
    zone: &Prepared,
    dir: &Path,
    tell: &mut dyn FnMut(RunEvent),
) -> Result<TrialRecord, Error> {
    let mut before: Vec<Reason> = Vec::new();
    for attempt in 1.. {
        // Files of an attempt that was cut off are not part of the next attempt.
        if dir.exists() {
            std::fs::remove_dir_all(dir).map_err(Error::io(dir))?;
        }
        std::fs::create_dir_all(dir).map_err(Error::io(dir))?;
        let agents = std::iter::once(context.server).chain(context.generators);
        let cores: Vec<usize> = agents.flat_map(|agent| agent.host.cpus.iter().copied()).collect();
        let unsettled = settle::wait(&cores, e.settle.0, context.stop);
        let mut record = trial::run(context, trial, zone, dir, tell);
        if let Some(reason) = unsettled {
            record.outcome.validity.warn(reason);
        }
        let again = record.error.is_none() && !record.is_valid() && attempt < e.attempts;
        if !again || context.stop.load(Ordering::Relaxed) {
            for reason in before {
                record.outcome.validity.warn(reason);
            }
            return Ok(record);
        }
        let reasons = record.outcome.validity.reasons;
        let text: Vec<&str> = reasons.iter().map(|r| r.text.as_str()).collect();
        let reason = Reason::new("repeated", format!("attempt {attempt} was invalid: {}", text.join("; ")));
        tell(RunEvent::Again { reason: reason.text.clone() });
        before.push(reason);
        let aside = dir.with_file_name(format!("{}-invalid-{attempt}", trial.id));
        std::fs::rename(dir, &aside).map_err(Error::io(dir))?;
    }
    unreachable!("the last attempt returns")
}

/// Everything that can be known to be wrong before anything is started or written. Gives what is in the captures that are
/// replayed: reading through one may take as long as a trial.
fn preflight(e: &Experiment) -> Result<Vec<(PathBuf, Survey)>, Error> {
    let mut captures: Vec<(PathBuf, Survey)> = Vec::new();
    for label in e.labels() {
        let (server, kind) = (e.server(label)?, e.kind(label)?);
        if kind != server::Kind::EXTERNAL && server.program.is_none() && server::installed(kind).is_none() {
            return Err(Error::Machine(format!(
                "server '{label}': no {kind} on this machine: apt-get install {}, or name a program with --set \
                 server.{label}.kind={kind} --set server.{label}.program=PATH, or leave it out with --set servers=…",
                server::package(kind)
            )));
        }
        if let Some(path) = [&server.program, &server.config].into_iter().flatten().find(|p| !p.is_file()) {
            return Err(Error::Machine(format!("server '{label}': {}: no such file", path.display())));
        }
    }
    for v in &e.variant {
        let needed = match v.source {
            Some(SourceKind::Trace) if e.traffic.trace.is_none() => "a capture: --set traffic.trace=FILE",
            Some(SourceKind::Queries) if e.traffic.queries.is_none() => {
                "a file of queries: --set traffic.queries=FILE"
            }
            _ => continue,
        };
        return Err(e.refuse(format!("its variant '{}' needs {needed}", v.name)));
    }
    check::durability::here(e)?;
    for traffic in e.traffics() {
        if let Some(queries) = &traffic.queries {
            traffic::check_queries_file(queries)?;
        }
        if let Some(trace) =
            traffic.trace.as_ref().filter(|trace| captures.iter().all(|(path, _)| path != *trace))
        {
            let spec = ReplaySpec { paths: vec![trace.clone()], ports: Vec::new(), to: Vec::new() };
            captures.push((trace.clone(), spec.check()?));
        }
        if traffic.queries.is_none() && traffic.trace.is_none() {
            let mut profile = traffic::Profile::load(&traffic.profile)?;
            traffic.changes.apply(&mut profile)?;
        }
    }
    check::versions::check(e)?;
    let files = e.zone.scenarios.values().filter_map(|s| s.file.as_ref());
    for file in e.zone.file.iter().chain(files) {
        // A whole pass: a zone that does not parse is refused here, with its line, and not by four servers.
        zone::probe(file)?;
    }
    Ok(captures)
}

/// All zones of a run are kept until it is done; they must fit. Those of trials that do not fit into memory are not made.
fn disk(
    e: &Experiment,
    sums: &Sums<'_>,
    options: &Options,
    plan: &[Trial],
    memory: u64,
) -> Result<(), Error> {
    let tried = plan.iter().filter(|t| sums.refused(t, memory).is_none());
    let mut zones: Vec<&ZonePlan> = tried.map(|t| &t.zone).collect();
    zones.dedup();
    let mut need = 0;
    for (i, zone) in zones.iter().enumerate() {
        let made = !matches!(zone, ZonePlan::File(_));
        if made && !zones[..i].contains(zone) {
            need += sums.bytes(zone);
        }
    }
    let place = options.dir.ancestors().find(|p| p.is_dir()).unwrap_or(Path::new("."));
    let free = rack::environment::disk_available(place)?;
    if need > free {
        return Err(e.refuse(format!(
            "its zones take about {:.1} GB and {} has {:.1} GB free: choose another -o, or fewer delegations",
            need as f64 / 1e9,
            place.display(),
            free as f64 / 1e9
        )));
    }
    Ok(())
}

/// The hosts that ask: as many as any traffic has.
fn generator_names(e: &Experiment) -> Vec<String> {
    match e.traffics().iter().map(|t| t.generators).max() {
        None | Some(0 | 1) => vec!["generator".into()],
        Some(many) => (1..=many).map(|n| format!("generator-{n}")).collect(),
    }
}

/// The server's host, with as many addresses as any traffic has, and those that ask.
fn rack_of(e: &Experiment, cpus: &Placement) -> RackSpec {
    let mut hosts = vec![HostSpec::new("server", &cpus.server)];
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
///
/// # Errors
/// [`Error::Plan`] where a core that is given may not be used.
fn placement(e: &Experiment) -> Result<Placement, Error> {
    let placed = here(e);
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
pub fn here(e: &Experiment) -> Placement {
    let peers = fleet::peer_names(e);
    let parts = Parts {
        others: peers.len(),
        generators: generator_names(e).len(),
        router: !paths::of_rack(e, &peers).is_empty(),
        monitor: !peers.is_empty() || e.measure.contains(&Measure::Latency) && e.latency.witness,
    };
    Placement::of(&rack::topology::cores(), parts, &e.cpus)
}

/// At this rate and below a server sleeps for half a millisecond and longer between two queries.
const SLEEPY: f64 = 2_000.0;

/// Measures how soon a thread on the server's core runs after it is woken from the generator's core, where the experiment has a low rate.
fn wake_ups(e: &Experiment, cpus: &Placement, on_rack: bool) -> Option<Vec<rack::wake_up::WakeUp>> {
    let rates = e.variant.iter().filter_map(|v| v.rates.as_ref()).chain([&e.latency.rates]);
    let sleepy = e.measure.contains(&Measure::Latency) && rates.flatten().any(|rate| *rate <= SLEEPY);
    let (server, generator) = (*cpus.server.first()?, *cpus.generators.first()?.first()?);
    // A figure that cannot be measured is left out of the report.
    (sleepy && on_rack && server != generator).then(|| rack::wake_up::wake_ups(server, generator).ok())?
}

/// `environment.json`: the machine, the software, who shares what.
fn environment(
    e: &Experiment,
    options: &Options,
    cpus: &Placement,
    rack: Option<&Rack>,
) -> Result<serde_json::Value, Error> {
    let servers: Vec<serde_json::Value> = e
        .servers
        .iter()
        .map(|label| {
            let server = e.server(label)?;
            let kind = server::Kind::from_str(&server.kind).map_err(|m| e.refuse(m.to_string()))?;
            let version = server::found(kind, server.program.as_deref()).map(|found| found.version);
            Ok(serde_json::json!({ "label": label, "kind": server.kind, "version": version,
                "program": server.program, "config": server.config, "workers": server.workers }))
        })
        .collect::<Result<_, Error>>()?;
    Ok(serde_json::json!({
        "dnsrack": env!("CARGO_PKG_VERSION"),
        "command": options.command,
        "seed": e.seed,
        "machine": rack::environment(rack.map_or(&[], Rack::steering)),
        "co_located": rack.is_some(),
        "server_cpus": cpus.server,
        "generator_cpus": cpus.generators.concat(),
        "placement": cpus,
        "sharing": cpus.shared(),
        "emulation": rack.and_then(Rack::emulation),
        "router_cpus": rack.and_then(Rack::router).map(|router| &router.cpus),
        "cores_shared": cpus.server.iter().any(|c| cpus.generators.concat().contains(c)),
        "wake_ups": wake_ups(e, cpus, rack.is_some()),
        "servers": servers,
    }))
}
