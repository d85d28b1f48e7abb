//! `dnsrack experiment`: the catalogue, and running it.

use crate::compare::{Deciding, Forms};
use crate::output::{self, Common, Failure, Status};
use crate::submit::{self, Submit};
use ::experiment::resources::{self, Needs};
use ::experiment::{Experiment, Options, RunEvent, Set};
use agent::RackSource;
use clap::Subcommand;
use serde_json::json;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Experiments: plans of trials over servers, zones and rates.
#[derive(Subcommand)]
pub enum Command {
    /// List the built-in experiments
    List,
    /// Print an experiment file as it would be run
    Show {
        /// Name of a built-in experiment, or an experiment file
        #[arg(required_unless_present = "keys")]
        name: Option<String>,
        /// Change a key: zone.file=root.zone, servers=bind,nsd, size=quick (repeatable)
        #[arg(long = "set", value_name = "KEY=VALUE")]
        sets: Vec<Set>,
        /// Print all keys that an experiment file can have instead, with type, default and meaning
        #[arg(long, conflicts_with_all = ["name", "sets"])]
        keys: bool,
    },
    /// Run an experiment on this machine, or on the machines of a rack file
    Run(Run),
    /// Run an experiment as a Slurm job, a node for each host, and follow it; a further job goes on where one was cut off
    Submit(Submit),
}

/// The flags of `run`.
#[derive(clap::Args)]
pub struct Run {
    /// Name of a built-in experiment, or an experiment file
    name: String,
    /// Change a key: zone.file=root.zone, servers=bind,nsd, size=quick (repeatable)
    #[arg(long = "set", value_name = "KEY=VALUE")]
    sets: Vec<Set>,
    /// Write the run directory here [default: runs/NAME-TIME]
    #[arg(short, long)]
    output: Option<PathBuf>,
    /// Continue in a run directory: one whose run was cut off, or that is to have more repeats
    #[arg(long, requires = "output")]
    resume: bool,
    /// Compare with the server LABEL in interleaved trials [default: with --candidate, the experiment's one server]
    #[arg(long, value_name = "LABEL", visible_alias = "against")]
    base: Option<String>,
    /// Label of the server that is compared with the base [default: with --base, the experiment's one server]
    #[arg(long, value_name = "LABEL")]
    candidate: Option<String>,
    #[command(flatten)]
    deciding: Deciding,
    /// Rack file: the experiment's hosts are these machines, reached by ssh, instead of this one; 'slurm': the nodes of the job
    /// that this runs in
    #[arg(long, value_name = "FILE|slurm")]
    rack: Option<PathBuf>,
    /// Sets of hosts that make trials at the same time: as the rack file has them, or K times as many nodes of the job; on this machine only
    /// for trials that wait for timers
    #[arg(long, value_name = "K", default_value_t = 1,
          value_parser = clap::value_parser!(u32).range(1..=i64::from(agent::MOST_SETS)))]
    parallel: u32,
    /// Seed of zones and traffic [default: the experiment's]
    #[arg(long)]
    seed: Option<u64>,
    /// The program is confined already ([`rack::confine`]).
    #[arg(skip)]
    pub confined: bool,
}

impl Run {
    /// An experiment of the catalogue, as another command runs it.
    pub fn of(name: &str, sets: Vec<Set>, output: Option<PathBuf>, resume: bool, deciding: Deciding) -> Self {
        Self {
            name: name.into(),
            sets,
            output,
            resume,
            base: None,
            candidate: None,
            deciding,
            rack: None,
            parallel: 1,
            seed: None,
            confined: false,
        }
    }
}

/// Runs the noun.
pub fn run(command: Command, common: &Common) -> output::Result {
    match command {
        Command::List => list(common),
        Command::Show { keys: true, .. } => keys(common),
        Command::Show { name, sets, keys: false } => {
            let e = ::experiment::open(&name.unwrap_or_default(), &sets)?;
            if common.json {
                output::json("experiment.show", &e)?;
            } else {
                output::print(&e.to_toml()?)?;
            }
            Ok(Status::Done)
        }
        Command::Run(run) => execute(run, &Forms::default(), common),
        Command::Submit(submit) => submit::run(submit, common),
    }
}

/// Prints every key of experiment files.
fn keys(common: &Common) -> output::Result {
    let sections = ::experiment::keys::sections();
    if common.json {
        output::json("experiment.keys", &json!({ "tables": sections }))?;
        return Ok(Status::Done);
    }
    let mut text = String::new();
    for section in sections {
        text += format!("{} {}\n", section.table, section.about).trim_start();
        for key in section.keys {
            let default = match (&key.default, key.required) {
                (_, true) => ", must be given".into(),
                (Some(value), _) if !value.is_empty() => format!(", default {value}"),
                _ => String::new(),
            };
            text += &format!("  {}: {}{default}\n      {}\n", key.name, key.kind, key.about);
        }
        text.push('\n');
    }
    output::print(&text)?;
    Ok(Status::Done)
}

/// A size of an experiment, and what it needs.
type Size = (&'static str, Needs);

fn list(common: &Common) -> output::Result {
    let mut rows: Vec<(&str, Experiment, Vec<Size>)> = Vec::new();
    for (name, text) in ::experiment::CATALOGUE {
        let full = ::experiment::load(name, text, &[])?;
        let mut sizes = vec![("full", resources::needs(&full)?)];
        // An experiment without a quick size is quick as it is.
        if let Ok(quick) =
            ::experiment::load(name, text, &[Set { key: "size".into(), value: "quick".into() }])
        {
            sizes.push(("quick", resources::needs(&quick)?));
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
        let sharing = &sizes[0].1.sharing;
        if !sharing.is_empty() {
            text += &format!("{:<17} share cores here: {}\n", "", sharing.join("; "));
        }
        if !e.published.is_empty() {
            text += &format!("{:<17} published: {}\n", "", e.published.join(", "));
        }
    }
    output::print(&text)?;
    Ok(Status::Done)
}

/// Executes an experiment; a comparison is printed as Markdown where that is wanted.
pub fn execute(run: Run, forms: &Forms, common: &Common) -> output::Result {
    // Read once: the file may be a pipe.
    let (path, text) = ::experiment::named(&run.name)?;
    let mut sets = run.sets;
    sets.extend(run.seed.map(|seed| Set { key: "seed".into(), value: seed.to_string() }));
    let mut e = ::experiment::load(&path, &text, &sets)?;
    if run.base.is_some() || run.candidate.is_some() {
        let (more, said) = interleaved(&e, run.base.as_deref(), run.candidate.as_deref())?;
        if let Some(said) = said {
            eprintln!("{said}");
        }
        sets.extend(more);
        e = ::experiment::load(&path, &text, &sets)?;
    }
    match (&mut e.comparison, run.deciding.gates()?) {
        (Some(comparison), Some(gates)) => comparison.gates = gates,
        (None, Some(_)) => {
            return Err(Failure::usage(
                "--gate, --threshold: they are of a comparison: add --base or --candidate",
            ));
        }
        (_, None) => {}
    }
    let dir =
        run.output.unwrap_or_else(|| PathBuf::from(format!("runs/{}-{}", e.name, output::time_stamp())));
    let rack = run.rack.as_deref().map(RackSource::load).transpose()?;
    // Before any thread exists. Servers and machines outside are reached over the network we are in.
    if !run.confined && !e.is_external()? && rack.is_none() {
        ::rack::confine()?;
    }
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register(signal, stop.clone())?;
    }
    // Whoever repeats it has the program somewhere else.
    let command: Vec<String> = ["dnsrack".to_owned()].into_iter().chain(std::env::args().skip(1)).collect();
    let command = shlex::try_join(command.iter().map(String::as_str)).expect("arguments have no NUL");
    let options = Options { dir: dir.clone(), resume: run.resume, rack, parallel: run.parallel, command };
    let events = common.events;
    let summary = ::experiment::run(&e, &options, &stop, &mut |run_event| {
        if events {
            let _ = output::print(&(event(&run_event).to_string() + "\n"));
        } else {
            tell(&run_event);
        }
    })?;
    let run_dir = results::RunDir::open(&dir)?;
    let html = crate::report::write_page(&run_dir)?;
    let compares = e.comparison.is_some();
    if common.json && !compares {
        output::json(
            "experiment.run",
            &json!({ "directory": dir, "report": html, "valid": summary.valid,
            "invalid": summary.invalid, "failed": summary.failed, "skipped": summary.skipped,
            "undone": summary.undone }),
        )?;
    } else if !events && !common.json {
        let place = format!("report: {}", html.display());
        if compares {
            // The comparison has standard output to itself.
            eprintln!("{place}");
        } else {
            output::print(&format!("{}\n{place}\n", ::report::terminal(&run_dir)?))?;
        }
    }
    if summary.undone == 0 && !e.zone.keep && e.zone.file.is_none() {
        eprintln!("zones: removed; --set zone.keep=true keeps them in {}", dir.join("zones").display());
    }
    if let Some(comparison) = e.comparison.as_ref().filter(|c| e.repeats < c.repeats) {
        said_repeats(&e, comparison, &run_dir);
    }
    if summary.undone > 0 {
        eprintln!(
            "dnsrack: cut short: {} trials undone; go on with: dnsrack experiment run {} --resume -o {}",
            summary.undone,
            dir.join("run.toml").display(),
            dir.display()
        );
    }
    if compares {
        // With --json this is the one object.
        return crate::compare::of_run(&dir, forms, common);
    }
    if summary.undone > 0 {
        return Ok(Status::CutShort);
    }
    let sound = summary.invalid + summary.failed == 0;
    Ok(if sound { Status::Done } else { Status::Differs })
}

/// Fewer restarts of each server show a difference of a tenth by luck alone.
const RESTARTS: u32 = 6;

/// Makes an experiment a comparison of two servers, and returns a remark about it: without one of them it is the
/// experiment's one server.
fn interleaved(
    e: &Experiment,
    base: Option<&str>,
    candidate: Option<&str>,
) -> Result<(Vec<Set>, Option<String>), Failure> {
    let only = || match e.servers.as_slice() {
        [server] => Ok(server.clone()),
        all => Err(Failure::usage(format!(
            "--base and --candidate: the experiment has {} servers: name both, or one of them with --set servers=LABEL",
            all.len()
        ))),
    };
    let named_or_only = |label: Option<&str>| label.map_or_else(only, |label| Ok(label.to_owned()));
    let (base, candidate) = (named_or_only(base)?, named_or_only(candidate)?);
    if base == candidate {
        return Err(Failure::usage(format!(
            "--base {base} --candidate {candidate}: they are one server; to compare it with itself give it two labels \
             (--set server.again.kind={base} --candidate again)"
        )));
    }
    let set = |key: &str, value: String| Set { key: key.into(), value };
    let mut sets = vec![
        set("servers", format!("{base},{candidate}")),
        set("order", "interleaved".into()),
        // Quoted: a label may look like a number.
        set("comparison.base", format!("\"{base}\"")),
        set("comparison.candidate", format!("\"{candidate}\"")),
    ];
    let mut said = None;
    if e.repeats < RESTARTS {
        sets.push(set("repeats", RESTARTS.to_string()));
        said = Some(format!(
            "repeats: {RESTARTS} of each server instead of {}: with fewer a difference of a tenth comes by luck alone",
            e.repeats
        ));
    }
    Ok((sets, said))
}

/// Says where there were more repeats than the least, and why.
fn said_repeats(e: &Experiment, c: &::experiment::Comparison, run_dir: &results::RunDir) {
    let most = run_dir.trials().iter().map(|t| t.repeat).max().unwrap_or(0);
    if most > e.repeats {
        eprintln!(
            "repeats: up to {most} of each server, from {} on until each figure that decides was known (at most {}, begun \
             within {})",
            e.repeats, c.repeats, c.budget
        );
    }
}

/// Prints an event on standard error.
fn tell(run_event: &RunEvent) {
    for line in lines(run_event) {
        eprintln!("{line}");
    }
}

/// The lines that tell the user about an event.
fn lines(run_event: &RunEvent) -> Vec<String> {
    match run_event {
        // The lines of several sets are mixed.
        RunEvent::OfSet { event, .. } if matches!(**event, RunEvent::Second { .. }) => Vec::new(),
        RunEvent::OfSet { set, event } => {
            let mut all = lines(event);
            if let RunEvent::Done { record } = &**event {
                all.push(format!("trial {} is done", record.id));
            }
            all.into_iter().map(|line| format!("set {set}: {line}")).collect()
        }
        RunEvent::Remark { text } => vec![text.clone()],
        RunEvent::Trial { trial, of, left } => {
            let left = left.map_or_else(String::new, |s| format!(" (about {} left)", time(s)));
            vec![format!("trial {}/{of}: {}{left}", trial.id, trial.words())]
        }
        RunEvent::Skipped { trial, reason } => {
            vec![format!("trial {} skipped: {}: {reason}", trial.id, trial.words())]
        }
        RunEvent::Still { trial, seconds, doing } => {
            vec![format!("  trial {trial} after {}: {doing}", time(*seconds))]
        }
        RunEvent::Zone { .. } => run_event.doing().into_iter().collect(),
        RunEvent::Starting { .. }
        | RunEvent::Ready { .. }
        | RunEvent::Second { .. }
        | RunEvent::Again { .. } => run_event.doing().map(|doing| format!("  {doing}")).into_iter().collect(),
        RunEvent::Done { record } => {
            let failed = record.error.iter().map(|error| format!("  FAILED: {error}"));
            let invalid = record.outcome.validity.reasons.iter().map(|reason| format!("  INVALID: {reason}"));
            failed.chain(invalid).collect()
        }
    }
}

/// A time in words, to two figures.
pub fn time(seconds: f64) -> String {
    match seconds {
        s if s < 100.0 => format!("{s:.0} s"),
        s if s < 5_400.0 => format!("{:.0} min", s / 60.0),
        s => format!("{:.1} h", s / 3_600.0),
    }
}

/// The same as a JSON line.
fn event(run_event: &RunEvent) -> serde_json::Value {
    match run_event {
        RunEvent::OfSet { set, event: of_set } => {
            let mut of_set = event(of_set);
            of_set["set"] = json!(set);
            of_set
        }
        RunEvent::Remark { text } => json!({ "event": "remark", "text": text }),
        RunEvent::Zone { label, doing } => json!({ "event": "zone", "zone": label, "doing": doing }),
        RunEvent::Trial { trial, of, left } => {
            json!({ "event": "trial", "trial": trial.id, "of": of, "server": trial.server, "zone": trial.zone.label(),
            "measure": trial.measure, "rate": trial.rate, "variant": trial.variant, "repeat": trial.repeat, "left_s": left })
        }
        RunEvent::Skipped { trial, reason } => {
            json!({ "event": "skipped", "trial": trial.id, "what": trial.words(), "reason": reason })
        }
        RunEvent::Starting { servers } => json!({ "event": "starting", "servers": servers }),
        RunEvent::Ready { seconds } => json!({ "event": "ready", "seconds": seconds }),
        RunEvent::Second { text } => json!({ "event": "second", "text": text }),
        RunEvent::Still { trial, seconds, doing } => {
            json!({ "event": "still", "trial": trial, "after_s": seconds, "doing": doing })
        }
        RunEvent::Again { reason } => json!({ "event": "again", "reason": reason }),
        RunEvent::Done { record } => {
            let params: serde_json::Map<String, serde_json::Value> =
                record.params.iter().map(|(key, value)| (key.clone(), value.clone().into())).collect();
            json!({ "event": "done", "trial": record.id, "params": params, "error": record.error,
                "valid": record.is_valid(), "metrics": record.outcome.metrics })
        }
    }
}
