//! `dnsrack experiment`: the catalogue, and running it.

use crate::output::{self, Common, Status};
use ::experiment::{Happening, Options, Set};
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

fn list(common: &Common) -> output::Result {
    let mut rows = Vec::new();
    for (name, text) in ::experiment::CATALOGUE {
        let e = ::experiment::load(name, text, &[])?;
        let trials = ::experiment::plan::plan(&e).len();
        let seconds = ::experiment::plan::seconds(&e);
        rows.push((name, e.title, trials, seconds, e.published));
    }
    if common.json {
        let rows: Vec<_> = rows
            .iter()
            .map(|(name, title, trials, seconds, published)| {
                json!({ "name": name, "title": title, "trials": trials, "load_seconds": seconds, "published": published })
            })
            .collect();
        output::json("experiment.list", &json!({ "experiments": rows }))?;
        return Ok(Status::Done);
    }
    let mut text = String::new();
    for (name, title, trials, seconds, _) in rows {
        text += &format!(
            "{name:<15} {title}\n{:<15} {trials} trials, at most {} min of load\n",
            "",
            seconds.div_ceil(60)
        );
    }
    output::print(&text)?;
    Ok(Status::Done)
}

fn execute(run: Run, common: &Common) -> output::Result {
    let (path, text) = ::experiment::named(&run.name)?;
    let mut sets = run.sets;
    sets.extend(run.seed.map(|seed| Set { key: "seed".into(), value: seed.to_string() }));
    let e = ::experiment::load(&path, &text, &sets)?;
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
    let command: Vec<String> = std::env::args().collect();
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
    if common.json {
        output::json(
            "experiment.run",
            &json!({ "directory": dir, "report": html, "valid": summary.valid,
            "invalid": summary.invalid, "failed": summary.failed, "undone": summary.undone }),
        )?;
    } else if !events {
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
    let sound = summary.invalid + summary.failed + summary.undone == 0;
    Ok(if sound { Status::Done } else { Status::Differs })
}

/// One line on standard error for what happens.
fn tell(happening: &Happening) {
    match happening {
        Happening::Zone { label, doing } => eprintln!("zone {label}: {doing}"),
        Happening::Trial { trial, of } => {
            let rate = trial.rate.map_or_else(String::new, |r| format!(" at {r} queries/s"));
            eprintln!(
                "trial {}/{of}: {} on {}, {}{rate}, repeat {}",
                trial.id,
                trial.server,
                trial.zone.label(),
                trial.measure.word(),
                trial.repeat
            );
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

/// The same as a JSON line.
fn event(happening: &Happening) -> serde_json::Value {
    match happening {
        Happening::Zone { label, doing } => json!({ "event": "zone", "zone": label, "doing": doing }),
        Happening::Trial { trial, of } => {
            json!({ "event": "trial", "trial": trial.id, "of": of, "server": trial.server,
            "zone": trial.zone.label(), "measure": trial.measure, "rate": trial.rate, "repeat": trial.repeat })
        }
        Happening::Ready { seconds } => json!({ "event": "ready", "seconds": seconds }),
        Happening::Second { text } => json!({ "event": "second", "text": text }),
        Happening::Again { reason } => json!({ "event": "again", "reason": reason }),
        Happening::Done { record } => json!({ "event": "done", "trial": record.id, "error": record.error,
            "valid": record.is_valid(), "metrics": record.outcome.metrics }),
    }
}
