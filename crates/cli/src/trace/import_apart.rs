//! `dnsrack trace import --apart`: processes on this machine, or on those of a rack file, import a capture each at a time.

use super::import::{self, Import};
use crate::output::{self, Common, Failure, Status};
use agent::{Agent, Here, Machines, RackSource};
use measure::Event;
use rack::{Host, allowed_cpus};
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use trace::import::apart::{self, Folder, Outcome, Worker};
use trace::import::{Spec, Summary};

/// The result that is printed.
#[derive(Serialize)]
struct Printed {
    /// Of all captures in the folder.
    #[serde(flatten)]
    summary: Summary,
    /// The number of all captures in the folder.
    captures: usize,
    /// What this command did.
    #[serde(flatten)]
    outcome: Outcome,
}

/// Imports the captures that are not done.
pub fn run(args: &Import, spec: &Spec, common: &Common) -> output::Result {
    for capture in &args.captures {
        if capture == Path::new("-") {
            return Err(Failure::usage(
                "--apart: standard input has no name and can be read once: name a file",
            ));
        }
        let kind = capture.metadata().map_err(|e| named(capture, &e.to_string()))?;
        if !kind.is_file() {
            return Err(named(capture, "it is no file"));
        }
    }
    let stop = output::stop_flag()?;
    let logs = tempfile::tempdir()?;
    let agents = agents(args.rack.as_deref(), logs.path(), &stop)?;
    let mut folder = Folder::open(&args.output, spec, args.resume)?;
    let tasks = folder.tasks(&args.captures)?;
    let mut workers = Vec::new();
    for agent in agents {
        let cores = if agent.host.cpus.is_empty() { allowed_cpus().len() } else { agent.host.cpus.len() };
        for _ in 0..args.jobs.map_or(cores / 2, |jobs| jobs as usize).max(1) {
            let log = logs.path().join(format!("import-{}.log", workers.len()));
            workers.push(worker(agent.clone(), log, &stop));
        }
    }
    let mut progress = common.progress("packets", 0);
    let outcome = folder.work(tasks, workers, &stop, &mut |event| match event {
        apart::Event::Progress { packets } => progress.set(packets),
        apart::Event::Failed { why, .. } | apart::Event::Lost { why } => eprintln!("dnsrack: {why}"),
    })?;
    progress.finish();
    let mut summary = Summary::default();
    folder.done().for_each(|done| summary.add(&done.summary));
    let result = Printed { summary, captures: folder.done().count(), outcome };
    common.tell("trace.import", &result, || {
        format!(
            "{}, {} of them imported now\n{}",
            captures(result.captures),
            result.outcome.imported,
            import::text(&result.summary, &args.output)
        )
    })?;
    let Outcome { failed, undone, .. } = &result.outcome;
    let rest = format!("{} undone; go on with the same command and --resume", captures(*undone));
    match (failed.len(), *undone) {
        (0, 0) => Ok(Status::Done),
        (0, _) if stop.load(Ordering::Relaxed) => {
            eprintln!("dnsrack: cut short: {rest}");
            Ok(Status::CutShort)
        }
        (0, _) => Err(Failure { code: 1, message: format!("nothing is left that could import: {rest}") }),
        (n, undone) => {
            let more = if undone > 0 { format!(", {rest}") } else { String::new() };
            let message = format!("{} could not be imported (see above){more}", captures(n));
            Err(Failure { code: 1, message })
        }
    }
}

fn captures(count: usize) -> String {
    if count == 1 { "1 capture".into() } else { format!("{count} captures") }
}

fn named(capture: &Path, what: &str) -> Failure {
    Failure { code: 1, message: format!("{}: {what}", capture.display()) }
}

/// Agents of the machines: of this one where there is no rack file.
fn agents(rack: Option<&Path>, root: &Path, stop: &Arc<AtomicBool>) -> Result<Vec<Agent>, Failure> {
    let Some(rack) = rack else {
        return Ok(vec![Agent::new(&Arc::new(Here::default()), Host::loopback(), stop)]);
    };
    let source = RackSource::load(rack)?;
    let (hosts, sets) = source.every_host()?;
    let sets = Machines::open(&source, &hosts, sets, root, stop)?;
    Ok(sets.iter().flat_map(Machines::agents).cloned().collect())
}

/// How long a role may say nothing before the flag is looked at.
const LOOK: Duration = Duration::from_millis(100);

/// How long it may take to end when it is told to.
const END: Duration = Duration::from_secs(5);

/// A process of an agent's machine for each capture.
fn worker<'a>(agent: Agent, log: PathBuf, stop: &'a AtomicBool) -> Box<Worker<'a>> {
    Box::new(move |task, progress| {
        let text = |e: rack::Error| e.to_string();
        let mut role = agent.role("import", task, &agent.host.cpus, &log).map_err(text)?;
        let mut stopped: Option<Instant> = None;
        loop {
            match role.next(LOOK).map_err(text)? {
                Some(Event::Progress { values, .. }) => {
                    progress(values["packets"].as_u64().unwrap_or_default())
                }
                Some(Event::Done { result }) => {
                    return serde_json::from_value(result)
                        .map_err(|e| format!("host {}: {e}", agent.host.name));
                }
                _ => {}
            }
            if stopped.is_some_and(|since| since.elapsed() > END) {
                return Ok(Err("it did not stop".into()));
            }
            if stopped.is_none() && stop.load(Ordering::Relaxed) {
                role.stop();
                stopped = Some(Instant::now());
            }
        }
    })
}
