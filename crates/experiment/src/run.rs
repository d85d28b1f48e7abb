//! One execution of an experiment: zones, rack, trials, run directory.

use crate::config::{Idle, SourceKind};
use crate::hosts::{Hosts, SERVER};
use crate::placement::Placement;
use crate::plan;
use crate::planned::{Trial, ZonePlan};
use crate::resources::{Memory, Sums};
use crate::run_context::RunContext;
use crate::sets::{Place, Sets, Word};
use crate::shared_cores::{Share, SharedCores};
use crate::teller::Teller;
use crate::time_left::TimeLeft;
use crate::zones::{self, Prepared};
use crate::{Error, Experiment, Measure, RunEvent, check, repeats, trial};
use agent::{Agent, Installed, PollWhenIdle, RackSource, Settle};
use measure::{Aside, Reason, params};
use rack::Rack;
use results::{RunDir, TrialRecord};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use trace::{ReplaySpec, Survey};

/// Where and how to run.
#[derive(Clone, Debug)]
pub struct Options {
    /// The run directory.
    pub dir: PathBuf,
    /// Go on in a run directory that exists.
    pub resume: bool,
    /// Where the hosts are, if they are other machines.
    pub rack: Option<RackSource>,
    /// The number of sets of hosts. Each set makes its own trials, all at the same time.
    pub parallel: u32,
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
    let captures = preflight(e, options.rack.is_some())?;
    let sums = Sums::of(e)?;
    let hosts = Hosts::up(e, options.rack.as_ref(), options.parallel, &options.dir, stop)?;
    hosts.iter().try_for_each(|hosts| check::durability::on(e, &hosts.server))?;
    hosts.iter().flat_map(Hosts::remarks).for_each(|text| tell(RunEvent::Remark { text }));
    // An external server takes no memory here. Asked once: a trial whose zone was not counted is not tried later.
    let memory: Vec<Memory> =
        if e.is_external()? { Vec::new() } else { hosts.iter().flat_map(Hosts::memory).collect() };
    let resumes = options.resume && options.dir.join("run.toml").exists();
    let admission = Admission { sums: &sums, hosts: &hosts, memory };
    let tried: Vec<&Trial> = plan.iter().filter(|trial| admission.refused(trial).is_none()).collect();
    if tried.is_empty()
        && !resumes
        && let Some((trial, reason)) = plan.first().and_then(|t| Some((t, admission.refused(t)?)))
    {
        return Err(e.refuse(format!("no trial can be made here: {}: {reason}", trial.words())));
    }
    disk(e, &sums, options, &tried, &hosts)?;
    let shared = (options.parallel > 1 && options.rack.is_none()).then(|| SharedCores::new(hosts.len()));
    let context_of = |(set, hosts)| {
        let shared = shared.as_ref().map(|shared| shared.share(set));
        context(e, hosts, &captures, shared, stop)
    };
    let contexts: Vec<RunContext> = hosts.iter().enumerate().map(context_of).collect();
    if e.idle == Idle::Poll {
        contexts.iter().flat_map(RunContext::agents).try_for_each(|agent| agent.ask(PollWhenIdle {}))?;
    }
    let (run_toml, zones_dir) = (e.to_toml()?, options.dir.join("zones"));
    let environment = environment(e, options, &hosts)?;
    let mut run_dir = if resumes {
        let mut run_dir = RunDir::resume(&options.dir)?;
        if repeats::can_grow(e) {
            run_dir.take_more_repeats(&run_toml, &options.command)?;
        }
        run_dir.same_plan(&run_toml)?;
        run_dir.go_on_in(&environment);
        zones::sweep(&zones_dir);
        run_dir
    } else {
        RunDir::create(&options.dir, &run_toml, &environment)?
    };
    let mut teller = Teller::new(options.dir.clone(), run_dir.trials().len(), plan.len(), tell);
    // A run that goes on had its added repeats too.
    while plan.len() < run_dir.trials().len() && repeats::go_on(e, &mut plan, &run_dir) {}
    let place = Place { dir: options.dir.clone(), zones: Mutex::new(zones_dir.clone()) };
    std::thread::scope(|scope| {
        let sets = Sets::start(scope, &contexts, &place);
        // An error ends the trials of all sets.
        trials(e, sets, &mut plan, &mut run_dir, &admission, stop, &mut teller)
            .inspect_err(|_| stop.store(true, Ordering::Relaxed))
    })?;
    let undone = undone(&plan, &run_dir);
    if undone == 0 && !e.zone.keep && zones_dir.exists() {
        std::fs::remove_dir_all(&zones_dir).map_err(Error::io(&zones_dir))?;
    }
    let count = |of: fn(&TrialRecord) -> bool| run_dir.trials().iter().filter(|t| of(t)).count();
    let failed = count(|t| t.error.is_some());
    let (valid, skipped) = (count(TrialRecord::is_valid), count(|t| t.skipped.is_some()));
    Ok(Summary { valid, failed, skipped, invalid: run_dir.trials().len() - valid - failed - skipped, undone })
}

/// The number of trials that are not done.
fn undone(plan: &[Trial], run_dir: &RunDir) -> usize {
    plan.len().saturating_sub(run_dir.trials().len())
}

/// Everything that the trials of one set of hosts share.
fn context<'a>(
    e: &'a Experiment,
    hosts: &'a Hosts,
    captures: &'a [(PathBuf, Survey)],
    shared_cores: Option<Share<'a>>,
    stop: &'a Arc<AtomicBool>,
) -> RunContext<'a> {
    RunContext {
        experiment: e,
        server: &hosts.server,
        generators: &hosts.generators,
        peers: &hosts.peers,
        rack: hosts.rack.as_ref(),
        captures,
        monitor_cpus: if hosts.cpus.monitor.is_empty() { &hosts.cpus.server } else { &hosts.cpus.monitor },
        shared_cores,
        stop,
    }
}

/// Which trials can be made on the hosts of a run, and when.
struct Admission<'a> {
    sums: &'a Sums<'a>,
    hosts: &'a [Hosts],
    memory: Vec<Memory>,
}

impl Admission<'_> {
    /// Why a trial is not tried.
    fn refused(&self, trial: &Trial) -> Option<String> {
        let too_few = self.hosts.iter().find_map(|hosts| hosts.cpus.refused(trial));
        too_few.or_else(|| self.sums.refused(trial, &self.memory))
    }

    /// Whether a trial can begin while others are running. A refused trial can always begin, because nothing is started for it.
    fn can_begin(&self, trial: &Trial, sets: &Sets<'_>) -> bool {
        !sets.are_busy()
            || self.refused(trial).is_some()
            || self.sums.fits_beside(trial, sets.at_work(), &self.memory)
    }
}

/// Gives the trials of the plan to the sets of hosts, and keeps the results, until all are done or the run is to stop.
fn trials(
    e: &Experiment,
    mut sets: Sets<'_>,
    plan: &mut Vec<Trial>,
    run_dir: &mut RunDir,
    admission: &Admission<'_>,
    stop: &AtomicBool,
    teller: &mut Teller<'_>,
) -> Result<(), Error> {
    let (began, several) = (Instant::now(), sets.idle().count() > 1);
    let in_time = Duration::from_nanos(repeats::budget(e).0);
    let mut time_left = TimeLeft::new(began);
    run_dir.note_undone(undone(plan, run_dir))?;
    loop {
        if !stop.load(Ordering::Relaxed) {
            let can_begin = |trial: &Trial| admission.can_begin(trial, &sets);
            if let Some((set, trial)) = plan::next_trial(plan, e.order, run_dir.trials(), &sets, &can_begin) {
                let trial = trial.clone();
                if let Some(reason) = admission.refused(&trial) {
                    teller.tell(RunEvent::Skipped { trial: trial.clone(), reason: reason.clone() });
                    run_dir.append(trial::skipped(e, &trial, reason))?;
                    continue;
                }
                let now = Instant::now();
                let left = time_left.left(undone(plan, run_dir), now);
                time_left.begins(set, now);
                teller.tell(of_set(
                    several,
                    set,
                    RunEvent::Trial { trial: trial.clone(), of: plan.len(), left },
                ));
                let servers = run_dir.servers_dir(trial.id);
                sets.give(set, trial, servers);
                continue;
            }
            if !sets.are_busy() && began.elapsed() < in_time && repeats::go_on(e, plan, run_dir) {
                continue;
            }
        }
        if !sets.are_busy() {
            break;
        }
        let at_work: Vec<u32> = sets.at_work().map(|trial| trial.id).collect();
        if let Some((set, event)) = teller.reminder(&at_work, Instant::now()) {
            teller.tell(of_set(several, set, event));
        }
        let Some((set, word)) = sets.next() else { continue };
        if !matches!(word, Word::Event(_)) {
            time_left.ends(set, matches!(word, Word::Record(_)), Instant::now());
        }
        match (set, word) {
            (set, Word::Event(event)) => teller.tell(of_set(several, set, event)),
            (set, Word::Record(mut record)) => {
                if several {
                    record.add_param(params::SET, (set + 1).to_string());
                }
                let kept = run_dir.append(*record.clone());
                kept.map_err(|e| ends(format!("trial {} is lost: {e}", record.id), run_dir))?;
                teller.tell(of_set(several, set, RunEvent::Done { record }));
            }
            (_, Word::Dropped) => {}
            (set, Word::Lost(error)) if sets.are_left() => {
                let text = format!("warning: set {} is lost, the others make its trials: {error}", set + 1);
                teller.tell(RunEvent::Remark { text });
            }
            (_, Word::Lost(error)) => return Err(ends(error.to_string(), run_dir)),
        }
    }
    Ok(run_dir.note_undone(undone(plan, run_dir))?)
}

/// The error that ends a run.
fn ends(why: String, run_dir: &RunDir) -> Error {
    Error::Machine(format!(
        "{why}; the trials before it are kept: mend that, and go on with --resume -o {}",
        run_dir.dir().display()
    ))
}

/// An event of a set, which is named where there are several.
fn of_set(several: bool, set: usize, event: RunEvent) -> RunEvent {
    match several {
        true => RunEvent::OfSet { set: set as u32 + 1, event: Box::new(event) },
        false => event,
    }
}

/// Why nothing can be written into the run directory now, where that is so: then a trial that failed says nothing about its
/// server.
pub fn unwritable(dir: &Path) -> Option<String> {
    let write = || {
        // Never finished, so nothing stays. What a kill leaves is removed when the run goes on.
        let mut probe = Aside::create(&dir.join("probe"))?;
        probe.write_all(&[0; 1 << 20])?;
        probe.file().sync_data()
    };
    write().err().map(|e| format!("{}: {e}", dir.display()))
}

/// Does a trial, again where the generator was disturbed: validity is about us, so a further attempt says nothing else
/// about the server. What was wrong with the attempts before stays with the record as a warning, and their logs beside
/// the trial's.
pub fn attempts(
    context: &RunContext,
    trial: &Trial,
    zone: &Prepared,
    dir: &Path,
    tell: &mut dyn FnMut(RunEvent),
) -> Result<TrialRecord, Error> {
    let e = context.experiment;
    let mut before: Vec<Reason> = Vec::new();
    for attempt in 1.. {
        // Files of an attempt that was cut off are not part of the next attempt.
        if dir.exists() {
            std::fs::remove_dir_all(dir).map_err(Error::io(dir))?;
        }
        std::fs::create_dir_all(dir).map_err(Error::io(dir))?;
        let unsettled = settle(e, context)?;
        context.may_set_up()?;
        let mut record = trial::run(context, trial, zone, dir, tell);
        unsettled.into_iter().for_each(|reason| record.outcome.validity.warn(reason));
        for agent in context.agents() {
            agent.collect(dir)?;
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

/// Waits on all machines at once until the cores of the server and the generators are quiet: why some are not. Cores on which other
/// trials are made meanwhile never are.
fn settle(e: &Experiment, context: &RunContext) -> Result<Vec<Reason>, Error> {
    if context.shared_cores.is_some() {
        return Ok(Vec::new());
    }
    let waiting = |agent: &Agent| {
        let measured = std::iter::once(context.server).chain(context.generators);
        let cores =
            measured.filter(|one| one.is_beside(agent)).flat_map(|one| one.host.cpus.clone()).collect();
        agent.ask(Settle { cores, patience: e.settle.0 })
    };
    let waiting = &waiting;
    let reasons: Result<Vec<_>, _> = std::thread::scope(|scope| {
        let wait = |agent| scope.spawn(move || waiting(agent));
        let threads: Vec<_> = context.agents().into_iter().map(wait).collect();
        threads.into_iter().map(|thread| thread.join().expect("it returns its errors")).collect()
    });
    Ok(reasons?.into_iter().flatten().collect())
}

/// Everything that can be known to be wrong before anything is started or written. Gives what is in the captures that are
/// replayed: reading through one may take as long as a trial.
fn preflight(e: &Experiment, is_elsewhere: bool) -> Result<Vec<(PathBuf, Survey)>, Error> {
    let mut captures: Vec<(PathBuf, Survey)> = Vec::new();
    for label in e.labels() {
        let (server, program) = (e.server(label)?, e.program(label)?);
        // On other machines their agents look.
        if !is_elsewhere
            && program.kind != server::Kind::EXTERNAL
            && let Err(why) = server::found(&program)
        {
            let kind = program.kind;
            return Err(Error::Machine(format!(
                "server '{label}': {} (--set server.{label}.kind={kind} --set server.{label}.program=PATH), or leave it out with \
                 --set servers=…",
                why.problem
            )));
        }
        if let Some(path) = server.config.iter().find(|p| !p.is_file()) {
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

/// The zones of all trials that are tried are kept until the run is done; they must fit.
fn disk(
    e: &Experiment,
    sums: &Sums<'_>,
    options: &Options,
    tried: &[&Trial],
    sets: &[Hosts],
) -> Result<(), Error> {
    let mut zones: Vec<&ZonePlan> = tried.iter().map(|t| &t.zone).collect();
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
    let least = sets.iter().filter_map(Hosts::least_disk).min_by_key(|(_, free)| *free);
    if let Some((machine, free)) = least.filter(|(_, free)| need > *free) {
        return Err(e.refuse(format!(
            "its zones take about {:.1} GB and {machine} has {:.1} GB free for its agent: give it another folder in the rack file, or \
             fewer delegations",
            need as f64 / 1e9,
            free as f64 / 1e9
        )));
    }
    Ok(())
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
fn environment(e: &Experiment, options: &Options, sets: &[Hosts]) -> Result<serde_json::Value, Error> {
    // Sets are equal.
    let hosts = &sets[0];
    let Hosts { cpus, rack, machines, .. } = hosts;
    let rack = rack.as_ref();
    let servers: Vec<serde_json::Value> = e
        .servers
        .iter()
        .map(|label| {
            let server = e.server(label)?;
            let found = hosts.server.ask(Installed { servers: vec![e.program(label)?] })?;
            let found = found.into_iter().next().and_then(Result::ok);
            let version = found.as_ref().map(|found| &found.version);
            let release = found.as_ref().and_then(|found| found.release.as_ref());
            Ok(serde_json::json!({ "label": label, "kind": server.kind, "version": version,
                "program": server.program, "root": server.root, "release": release,
                "config": server.config, "workers": server.workers }))
        })
        .collect::<Result<_, Error>>()?;
    // Of several machines it is the server's that stands for all.
    let machine = match machines.as_ref().and_then(|all| all.of(SERVER)) {
        Some(machine) => machine.described.environment.clone(),
        None => hardware::environment(&rack::environment(rack.map_or(&[], Rack::steering))),
    };
    let cores_shared = machines.is_none() && cpus.server.iter().any(|c| cpus.generators.concat().contains(c));
    let mut environment = serde_json::json!({
        "dnsrack": env!("CARGO_PKG_VERSION"),
        "command": options.command,
        "seed": e.seed,
        "machine": machine,
        "co_located": rack.is_some(),
        "server_cpus": cpus.server,
        "generator_cpus": cpus.generators.concat(),
        "placement": cpus,
        "sharing": hosts.shared(),
        "trials_at_once": sets.len(),
        "emulation": rack.and_then(Rack::emulation),
        "router_cpus": rack.and_then(Rack::router).map(|router| &router.cpus),
        "cores_shared": cores_shared,
        "idle_cores": e.idle,
        "wake_ups": wake_ups(e, cpus, rack.is_some()),
        "servers": servers,
    });
    let all: Vec<_> =
        sets.iter().flat_map(|hosts| &hosts.machines).flat_map(|machines| &machines.all).collect();
    if !all.is_empty() {
        environment["machines"] = serde_json::json!(all);
    }
    Ok(environment)
}
