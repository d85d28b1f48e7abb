//! `dnsrack experiment`: the catalogue, and running it.

use crate::output::{self, Common, Failure, Status};
use ::experiment::room::{self, Needs};
use ::experiment::{Experiment, Happening, Options, Set};
use clap::Subcommand;
use serde_json::json;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Experiments: plans of trials over servers, zones and rates.
#[derive(Subcommand)]
pub enum Command {
    /// The catalogue: the seeds' experiments
    List,
    /// Print an experiment's file, as it would be executed
    Show {
        /// An experiment of the catalogue, or a file
        name: String,
        /// Change a key: zone.file=root.zone, servers=bind,nsd, size=quick (repeatable)
        #[arg(long = "set", value_name = "KEY=VALUE")]
        sets: Vec<Set>,
    },
    /// Execute an experiment on this machine
    Run(Run),
}

/// What `run` takes.
#[derive(clap::Args)]
pub struct Run {
    /// An experiment of the catalogue, or a file
    name: String,
    /// Change a key: zone.file=root.zone, servers=bind,nsd, size=quick (repeatable)
    #[arg(long = "set", value_name = "KEY=VALUE")]
    sets: Vec<Set>,
    /// The run directory [default: runs/NAME-TIME]
    #[arg(short, long)]
    output: Option<PathBuf>,
    /// Go on in a run directory that was cut off
    #[arg(long, requires = "output")]
    resume: bool,
    /// Is the experiment's one server slower than this one? Trials of both are interleaved, and the difference is told
    #[arg(long, value_name = "SERVER")]
    against: Option<String>,
    /// Of zones and traffic [default: the experiment's]
    #[arg(long)]
    seed: Option<u64>,
}

/// Runs the noun.
pub fn run(command: Command, common: &Common) -> output::Result {
    match command {
        Command::List => list(common),
        Command::Show { name, sets } => {
            let (path, text) = ::experiment::named(&name)?;
            let e = ::experiment::load(&path, &text, &sets)?;
            if common.json {
                output::json("experiment.show", &e)?;
            } else {
                output::print(&e.to_toml()?)?;
            }
            Ok(Status::Done)
        }
        Command::Run(run) => execute(run, common),
    }
}

/// A size of an experiment, and what it needs.
type Size = (&'static str, Needs);

fn list(common: &Common) -> output::Result {
    let mut rows: Vec<(&str, Experiment, Vec<Size>)> = Vec::new();
    for (name, text) in ::experiment::CATALOGUE {
        let full = ::experiment::load(name, text, &[])?;
        let mut sizes = vec![("full", room::needs(&full)?)];
        // What has no quick size is quick.
        if let Ok(quick) =
            ::experiment::load(name, text, &[Set { key: "size".into(), value: "quick".into() }])
        {
            sizes.push(("quick", room::needs(&quick)?));
        }
        rows.push((name, full, sizes));
    }
    if common.json {
        let rows: Vec<_> = rows
            .iter()
            .map(|(name, e, sizes)| {
                let sizes: serde_json::Map<_, _> =
                    sizes.iter().map(|(size, needs)| ((*size).to_owned(), json!(needs))).collect();
                json!({ "name": name, "title": e.title, "published": e.published, "sizes": sizes })
            })
            .collect();
        output::json("experiment.list", &json!({ "experiments": rows }))?;
        return Ok(Status::Done);
    }
    let mut text = String::new();
    for (name, e, sizes) in rows {
        text += &format!("{name:<17} {}\n", e.title);
        for (size, needs) in &sizes {
            let mut line = format!(
                "{size}: {} trials, about {}, {:.1} GB of memory, {:.1} GB of zones",
                needs.trials,
                time(needs.seconds as f64),
                needs.memory as f64 / 1e9,
                needs.disk as f64 / 1e9
            );
            if needs.skipped > 0 {
                line += &format!("; {} trials do not fit here", needs.skipped);
            }
            text += &format!("{:<17} {line}\n", "");
        }
        let missing = &sizes[0].1.missing;
        if !missing.is_empty() {
            text += &format!("{:<17} not installed here: {}\n", "", missing.join(", "));
        }
        if !e.published.is_empty() {
            text += &format!("{:<17} published: {}\n", "", e.published.join(", "));
        }
    }
    output::print(&text)?;
    Ok(Status::Done)
}

fn execute(run: Run, common: &Common) -> output::Result {
    let (path, text) = ::experiment::named(&run.name)?;
    let mut sets = run.sets;
    sets.extend(run.seed.map(|seed| Set { key: "seed".into(), value: seed.to_string() }));
    let mut e = ::experiment::load(&path, &text, &sets)?;
    if let Some(against) = &run.against {
        sets.extend(interleaved(&e, against)?);
        e = ::experiment::load(&path, &text, &sets)?;
    }
    let dir =
        run.output.unwrap_or_else(|| PathBuf::from(format!("runs/{}-{}", e.name, output::time_stamp())));
    // Before any thread exists. Servers outside the rack are reached over the network we are in.
    if !e.is_external()? {
        ::rack::confine()?;
    }
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register(signal, stop.clone())?;
    }
    // Whoever repeats it has the program somewhere else.
    let command: Vec<String> = ["dnsrack".to_owned()].into_iter().chain(std::env::args().skip(1)).collect();
    let options = Options { dir: dir.clone(), resume: run.resume, command: command.join(" ") };
    let events = common.events;
    let summary = ::experiment::run(&e, &options, &stop, &mut |happening| {
        if events {
            let _ = output::print(&(event(&happening).to_string() + "\n"));
        } else {
            tell(&happening);
        }
    })?;
    let kept = results::RunDir::open(&dir)?;
    let html = dir.join("report.html");
    let page = ::report::html(std::slice::from_ref(&kept))?;
    output::write_output(&html, |out| Ok(out.write_all(page.as_bytes())?))?;
    let between = run.against.map(|against| (against, e.servers[0].clone()));
    if common.json && between.is_none() {
        output::json(
            "experiment.run",
            &json!({ "directory": dir, "report": html, "valid": summary.valid,
            "invalid": summary.invalid, "failed": summary.failed, "skipped": summary.skipped,
            "undone": summary.undone }),
        )?;
    } else if !events && !common.json {
        output::print(&::report::terminal(&kept)?)?;
        output::print(&format!("\nreport: {}\n", html.display()))?;
    }
    if summary.undone > 0 {
        eprintln!(
            "dnsrack: cut short: {} trials undone; go on with: dnsrack experiment run {} --resume -o {}",
            summary.undone,
            run.name,
            dir.display()
        );
    }
    if let Some(between) = between.filter(|_| summary.undone == 0 && !events) {
        // With --json this is the one object.
        return crate::compare::against(dir, between, common);
    }
    let sound = summary.invalid + summary.failed + summary.undone == 0;
    Ok(if sound { Status::Done } else { Status::Differs })
}

/// Fewer restarts of each server show a difference of a tenth by luck alone.
const RESTARTS: u32 = 6;

/// What makes an experiment a comparison of its one server with another.
fn interleaved(e: &Experiment, against: &str) -> Result<Vec<Set>, Failure> {
    let [server] = e.servers.as_slice() else {
        return Err(Failure::usage(format!(
            "--against compares two servers, and the experiment has {}: name the new one with --set servers=LABEL",
            e.servers.len()
        )));
    };
    if server == against {
        return Err(Failure::usage(format!(
            "--against {against}: that is the experiment's own server; to compare it with itself give it two labels \
             (--set server.again.kind={against} --against again)"
        )));
    }
    let mut sets = vec![
        Set { key: "servers".into(), value: format!("{server},{against}") },
        Set { key: "order".into(), value: "interleaved".into() },
    ];
    if e.repeats < RESTARTS {
        sets.push(Set { key: "repeats".into(), value: RESTARTS.to_string() });
    }
    Ok(sets)
}

/// One line on standard error for what happens.
fn tell(happening: &Happening) {
    match happening {
        Happening::Zone { label, doing } => eprintln!("zone {label}: {doing}"),
        Happening::Trial { trial, of, left } => {
            let left = left.map_or_else(String::new, |s| format!(" (about {} left)", time(s)));
            eprintln!("trial {}/{of}: {}{left}", trial.id, trial.words());
        }
        Happening::Skipped { trial, reason } => {
            eprintln!("trial {} skipped: {}: {reason}", trial.id, trial.words())
        }
        Happening::Ready { seconds } => eprintln!("  ready after {seconds:.2} s"),
        Happening::Second { text } => eprintln!("  {text}"),
        Happening::Again { reason } => eprintln!("  again: {reason}"),
        Happening::Done { record } => {
            if let Some(error) = &record.error {
                eprintln!("  FAILED: {error}");
            }
            for reason in &record.outcome.validity.reasons {
                eprintln!("  INVALID: {reason}");
            }
        }
    }
}

/// A time in words, to two figures.
fn time(seconds: f64) -> String {
    match seconds {
        s if s < 100.0 => format!("{s:.0} s"),
        s if s < 5_400.0 => format!("{:.0} min", s / 60.0),
        s => format!("{:.1} h", s / 3_600.0),
    }
}

/// The same as a JSON line.
fn event(happening: &Happening) -> serde_json::Value {
    match happening {
        Happening::Zone { label, doing } => json!({ "event": "zone", "zone": label, "doing": doing }),
        Happening::Trial { trial, of, left } => {
            json!({ "event": "trial", "trial": trial.id, "of": of, "server": trial.server, "zone": trial.zone.label(),
            "measure": trial.measure, "rate": trial.rate, "variant": trial.variant, "repeat": trial.repeat, "left_s": left })
        }
        Happening::Skipped { trial, reason } => {
            json!({ "event": "skipped", "trial": trial.id, "what": trial.words(), "reason": reason })
        }
        Happening::Ready { seconds } => json!({ "event": "ready", "seconds": seconds }),
        Happening::Second { text } => json!({ "event": "second", "text": text }),
        Happening::Again { reason } => json!({ "event": "again", "reason": reason }),
        Happening::Done { record } => {
            let params: serde_json::Map<String, serde_json::Value> =
                record.params.iter().map(|(key, value)| (key.clone(), value.clone().into())).collect();
            json!({ "event": "done", "trial": record.id, "params": params, "error": record.error,
                "valid": record.is_valid(), "metrics": record.outcome.metrics })
        }
    }
}
