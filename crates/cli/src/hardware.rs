//! `dnsrack hardware`: what this machine does apart from any name server.

use crate::output::{self, Common, Failure, Status};
use ::hardware::{Event, Facts, Options};
use results::RunDir;
use serde_json::json;
use std::path::PathBuf;

/// The flags of `hardware`.
#[derive(clap::Args)]
pub struct Command {
    /// Write the run directory here [default: runs/hardware-TIME]
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
    /// Measure everything so often
    #[arg(long, value_name = "N", default_value = "5", value_parser = clap::value_parser!(u32).range(1..=1000))]
    repeats: u32,
    /// Measure the disk that holds this folder [default: the run directory's]
    #[arg(long, value_name = "DIR")]
    folder: Option<PathBuf>,
}

/// The plan of the run directory.
const PLAN: &str = r#"name = "hardware"
title = "Memory, kernel, network, signatures and disk of one machine (ISC-TN-2008-1 section 2)"
about = """
The note chose its computers by the latency and bandwidth of their memory, which decide a name server's speed as its authors had seen.
The same is measured here, and what else decides it today. The machine has to be quiet meanwhile."""
published = ["isc-2.2"]
"#;

/// Measures the machine into a run directory, writes its report and prints its tables.
pub fn run(command: &Command, common: &Common) -> output::Result {
    let dir =
        command.output.clone().unwrap_or_else(|| format!("runs/hardware-{}", output::time_stamp()).into());
    if dir.read_dir().is_ok_and(|mut entries| entries.next().is_some()) {
        let message = format!("{}: the folder is not empty: name another one with -o", dir.display());
        return Err(Failure { code: 1, message });
    }
    // The network between two hosts takes namespaces, which are made before any thread is there. Without them it is left out.
    let _ = ::rack::confine();
    let stop = output::stop_flag()?;
    let facts = Facts::read();
    let words: Vec<String> = ["dnsrack".to_owned()].into_iter().chain(std::env::args().skip(1)).collect();
    let environment = json!({
        "dnsrack": env!("CARGO_PKG_VERSION"),
        "command": shlex::try_join(words.iter().map(String::as_str)).expect("arguments have no NUL"),
        "machine": ::rack::environment(&[]),
        "hardware": facts.json(),
    });
    if let Some(folder) = command.folder.as_ref().filter(|folder| !folder.is_dir()) {
        return Err(Failure::usage(format!("--folder {}: no such folder", folder.display())));
    }
    let mut run_dir = RunDir::create(&dir, &format!("{PLAN}repeats = {}\n", command.repeats), &environment)?;
    let folder = command.folder.clone().unwrap_or_else(|| dir.clone());
    // One hardware thread of each core.
    let cpus = ::rack::topology::cores().iter().map(|core| core.cpus[0]).collect();
    let options = Options { repeats: command.repeats, cpus, folder };
    let (events, mut left_out) = (common.events, Vec::new());
    let mut tell = |event: Event<'_>| match event {
        Event::Test { name, repeat } if events => {
            let _ = output::print(
                &(json!({ "event": "test", "test": name, "repeat": repeat }).to_string() + "\n"),
            );
        }
        Event::Test { name, repeat } => eprintln!("repeat {repeat}/{}: {name}", command.repeats),
        Event::LeftOut { why } => {
            eprintln!("left out: {why}");
            left_out.push(why.to_owned());
        }
    };
    let measured = ::hardware::measure(&options, &stop, &mut tell, &mut |trials| -> Result<(), Failure> {
        Ok(run_dir.append_all(trials)?)
    });
    // What is whole is kept.
    let html = crate::report::write_page(&run_dir)?;
    measured?;
    if common.json {
        let invalid = run_dir.trials().iter().filter(|trial| !trial.is_valid()).count();
        let (valid, report) = (run_dir.trials().len() - invalid, &html);
        output::json(
            "hardware",
            &json!({ "directory": dir, "report": report, "valid": valid, "invalid": invalid, "left_out": left_out }),
        )?;
    } else if !events {
        let missing: String = left_out.iter().map(|why| format!("left out: {why}\n")).collect();
        output::print(&format!("{}\n{missing}report: {}\n", ::report::terminal(&run_dir)?, html.display()))?;
    }
    let sound = run_dir.trials().iter().all(results::TrialRecord::is_valid);
    Ok(if sound { Status::Done } else { Status::Differs })
}
