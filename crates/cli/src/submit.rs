//! `dnsrack experiment submit`: an experiment as a Slurm job, followed to its end.

use crate::output::{self, Common, Failure, Status};
use ::experiment::Set;
use agent::slurm::{said, value};
use results::RunDir;
use serde_json::json;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The flags of `submit`.
#[derive(clap::Args)]
pub struct Submit {
    /// Name of a built-in experiment, or an experiment file
    name: String,
    /// Change a key: zone.file=root.zone, servers=bind,nsd, size=quick (repeatable)
    #[arg(long = "set", value_name = "KEY=VALUE")]
    sets: Vec<Set>,
    /// Write the run directory here, where the nodes see it, too [default: runs/NAME-TIME]
    #[arg(short, long)]
    output: Option<PathBuf>,
    /// Sets of hosts that make trials at the same time
    #[arg(long, value_name = "K", default_value_t = 1,
          value_parser = clap::value_parser!(u32).range(1..=i64::from(agent::MOST_SETS)))]
    parallel: u32,
    /// Nodes of the job [default: one for each host of the experiment, in each set]
    #[arg(long, value_name = "N")]
    hosts: Option<usize>,
    /// Partition of the job
    #[arg(long)]
    partition: Option<String>,
    /// Time limit of a job, as sbatch takes it. A further job goes on where one was cut off
    #[arg(long)]
    time: Option<String>,
    /// Submit so many jobs at most, one after the other, as long as trials are left and each job has done some
    #[arg(long, value_name = "N", default_value_t = 10)]
    jobs: u32,
    /// Further options of sbatch, after '--'
    #[arg(last = true, value_name = "OPTION")]
    sbatch: Vec<String>,
}

/// How often a job is looked at.
const LOOK: Duration = Duration::from_secs(1);

/// A job is told to end by SIGTERM so many seconds before its time limit, so that the trial at work is dropped in order.
const NOTICE: u32 = 60;

/// Submits jobs until the experiment is done.
pub fn run(submit: Submit, common: &Common) -> output::Result {
    let e = ::experiment::open(&submit.name, &submit.sets)?;
    let hosts = ::experiment::host_names(&e)?;
    let needed = hosts.len() * submit.parallel as usize;
    let nodes = submit.hosts.unwrap_or(needed);
    if nodes < needed {
        let (many, names) = (hosts.len(), hosts.join(", "));
        let sets = if submit.parallel > 1 { format!(", in {} sets", submit.parallel) } else { String::new() };
        return Err(Failure::usage(format!(
            "--hosts {nodes}: the experiment has {many} hosts: {names}{sets}"
        )));
    }
    let named = submit
        .output
        .clone()
        .unwrap_or_else(|| PathBuf::from(format!("runs/{}-{}", e.name, output::time_stamp())));
    let dir = std::path::absolute(named)?;
    let folder = dir.parent().unwrap_or(Path::new("/"));
    std::fs::create_dir_all(folder)?;
    let beside = |end: &str| folder.join(format!("{}.{end}", dir.file_name().unwrap_or_default().display()));
    let (script, log) = (beside("job"), beside("job.log"));
    let text = job(&submit, &dir)?;
    output::write_output(&script, |out| Ok(out.write_all(text.as_bytes())?))?;
    let stop = output::stop_flag()?;
    let done = || RunDir::open(&dir).map_or((0, true), |run| (run.trials().len(), run.undone() > 0));
    let mut seen = 0;
    for _ in 0..submit.jobs.max(1) {
        let before = done().0;
        let id = submitted(&submit, &e.name, nodes, &script, &log)?;
        eprintln!("job {id}: submitted");
        let ended = follow(&id, &log, &mut seen, &stop)?;
        let Some(ended) = ended else {
            eprintln!("dnsrack: the job goes on: scancel {id} ends it");
            return Ok(Status::CutShort);
        };
        let (trials, undone) = done();
        let cancelled = ended.starts_with("CANCELLED");
        eprintln!(
            "job {id}: {ended}; {trials} trials are done{}",
            if undone { ", some are left" } else { "" }
        );
        if !undone {
            let run = RunDir::open(&dir)?;
            let sound = run.trials().iter().all(|t| t.is_valid() || t.skipped.is_some());
            if common.json {
                output::json("experiment.submit", &json!({ "directory": dir, "job": id, "trials": trials }))?;
            } else {
                output::print(&format!("{}\n", ::report::terminal(&run)?))?;
            }
            return Ok(if sound { Status::Done } else { Status::Differs });
        }
        if cancelled {
            return Ok(Status::CutShort);
        }
        if trials == before {
            return Err(Failure {
                code: 1,
                message: format!("job {id} ended ({ended}) without a trial done: see {}", log.display()),
            });
        }
    }
    Ok(Status::CutShort)
}

/// The job's script: it goes on where the run directory ends.
fn job(submit: &Submit, dir: &Path) -> Result<String, Failure> {
    let program = std::env::current_exe()?;
    let file = Path::new(&submit.name);
    let name = if file.is_file() { std::path::absolute(file)? } else { file.to_owned() };
    let mut words: Vec<String> = vec![program.display().to_string(), "experiment".into(), "run".into()];
    words.push(name.display().to_string());
    words.extend(
        submit.sets.iter().flat_map(|set| ["--set".to_owned(), format!("{}={}", set.key, set.value)]),
    );
    let parallel = submit.parallel.to_string();
    words.extend(["--rack", "slurm", "--parallel", &parallel, "--resume", "-o"].map(String::from));
    words.push(dir.display().to_string());
    let line = shlex::try_join(words.iter().map(String::as_str));
    let line = line.map_err(|_| Failure::usage("a NUL in an argument"))?;
    Ok(format!("#!/bin/sh\nexec {line}\n"))
}

/// Submits the job; its number.
fn submitted(
    submit: &Submit,
    name: &str,
    nodes: usize,
    script: &Path,
    log: &Path,
) -> Result<String, Failure> {
    let mut sbatch = Command::new("sbatch");
    sbatch.args(["--parsable", "--ntasks-per-node=1", "--exclusive", "--open-mode=append"]);
    sbatch.arg(format!("--nodes={nodes}")).arg(format!("--job-name=dnsrack-{name}"));
    sbatch.arg(format!("--signal=B:TERM@{NOTICE}")).arg("--output").arg(log);
    sbatch.args(submit.partition.iter().map(|partition| format!("--partition={partition}")));
    sbatch.args(submit.time.iter().map(|time| format!("--time={time}")));
    let text = said(sbatch.args(&submit.sbatch).arg(script))?;
    // NUMBER, or NUMBER;CLUSTER.
    Ok(text.trim().split(';').next().unwrap_or_default().to_owned())
}

/// Follows a job, and shows what it says, until it has ended: how. None: we are to stop before.
fn follow(id: &str, log: &Path, seen: &mut u64, stop: &AtomicBool) -> Result<Option<String>, Failure> {
    let mut state = String::new();
    loop {
        let shown = said(Command::new("scontrol").args(["-o", "show", "job", id]))?;
        let now = value(&shown, "JobState=").unwrap_or("UNKNOWN").to_owned();
        if now != state {
            let reason = value(&shown, "Reason=").filter(|reason| *reason != "None");
            eprintln!("job {id}: {now}{}", reason.map_or_else(String::new, |reason| format!(" ({reason})")));
            state = now;
        }
        show(log, seen)?;
        if !["PENDING", "CONFIGURING", "RUNNING", "COMPLETING", "SUSPENDED", "REQUEUED"]
            .contains(&state.as_str())
        {
            return Ok(Some(state));
        }
        if stop.load(Ordering::Relaxed) {
            return Ok(None);
        }
        std::thread::sleep(LOOK);
    }
}

/// Shows what is new in a job's log.
fn show(log: &Path, seen: &mut u64) -> Result<(), Failure> {
    let Ok(mut file) = File::open(log) else { return Ok(()) };
    file.seek(SeekFrom::Start(*seen))?;
    let mut text = Vec::new();
    *seen += file.read_to_end(&mut text)? as u64;
    eprint!("{}", String::from_utf8_lossy(&text));
    Ok(())
}
