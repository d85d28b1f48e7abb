//! An agent finds out in three ways whether a server syncs: it counts the disk's own syncs, it starts the server under strace and judges
//! the trace, and it cuts the power of the server's disk.

use crate::agent::Number;
use crate::request::{At, Request};
use crate::{Agent, Error};
use rack::disk::{Cut, Options};
use rack::syncs::{self, Calibration, Report, Scope, SyncVerdict, Way};
use rack::{Cmd, Local, Substitute};
use serde::{Deserialize, Serialize};
use server::ServerSpec;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// strace must end within this time after its server.
const SETTLE: Duration = Duration::from_secs(60);

/// At most so many answers without a sync are kept.
const EXAMPLES: usize = 10;

/// Each line of a trace that is kept as evidence is cut after so many octets.
const WIDTH: usize = 300;

/// At most so many lines are kept as evidence.
const LINES: usize = 200;

/// An ability that a machine may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Ability {
    /// A server's system calls are traced (strace).
    TraceSyncs,
    /// A disk whose power can be cut is mounted (FUSE).
    CutPower,
    /// A library is put in front of a server that takes its syncs away (eatmydata).
    TakeSyncsAway,
}

/// The library that takes syncs away.
pub const PRELOAD: &str = "libeatmydata.so";

/// Tries whether the machine has an ability.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Try {
    /// The ability.
    pub ability: Ability,
}

impl Request for Try {
    const NAME: &'static str = "Try";
    /// Why it has it not, and what to do; none: it has it.
    type Answer = Option<String>;

    fn act(self, _: &At<'_>) -> Result<Option<String>, Error> {
        Ok(match self.ability {
            Ability::TraceSyncs => syncs::check().err().map(|e| e.to_string()),
            Ability::CutPower => rack::disk::check().err().map(|e| e.to_string()),
            Ability::TakeSyncsAway => preload_fails(),
        })
    }
}

/// Why the library cannot be loaded; the loader only says so where not, and goes on.
fn preload_fails() -> Option<String> {
    let tried = Command::new("true").env("LD_PRELOAD", PRELOAD).output();
    let said = tried.map_or_else(|e| e.to_string(), |o| String::from_utf8_lossy(&o.stderr).into_owned());
    let said = said.trim();
    (!said.is_empty())
        .then(|| format!("{PRELOAD} cannot be put in front of a server ({said}): apt-get install eatmydata"))
}

/// Counts how often the disk of a folder syncs, by one thread that writes and syncs (fdatasync).
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct CountSyncs {
    folder: PathBuf,
    duration: Duration,
}

impl Request for CountSyncs {
    const NAME: &'static str = "CountSyncs";
    type Answer = Calibration;

    fn act(self, _: &At<'_>) -> Result<Calibration, Error> {
        fs::create_dir_all(&self.folder).map_err(failed(&self.folder))?;
        Ok(syncs::calibrate(&self.folder, Way::Fdatasync, self.duration, 1)?)
    }
}

impl Agent {
    /// Counts for so long how often the disk syncs on which its machine has a folder of ours.
    ///
    /// # Errors
    /// Where the folder cannot be written to.
    pub fn count_syncs(&self, folder: &Path, duration: Duration) -> Result<Calibration, Error> {
        self.ask(CountSyncs { folder: self.place(folder)?, duration })
    }

    /// Waits until the trace of a server that has ended is whole, judges it, and removes it. `trace` is as at its start.
    ///
    /// # Errors
    /// Where strace does not end, or there is no trace.
    pub fn judge_syncs(&self, trace: &Path, scope: Scope) -> Result<Judged, Error> {
        self.ask(JudgeSyncs { trace: self.place(trace)?, scope })
    }
}

/// Starts a server under strace. A trace each of the program that is asked for its version, that checks its configuration, and last
/// of the server: `trace` with `-1`, `-2` … at its end.
pub(crate) fn start_traced(
    at: &At<'_>,
    spec: &ServerSpec,
    dir: &Path,
    trace: &Path,
) -> Result<server::Server, Error> {
    let (starts, trace) = (AtomicU32::new(0), trace.to_owned());
    let with =
        move |cmd: &Cmd| syncs::traced(cmd, &numbered(&trace, starts.fetch_add(1, Ordering::Relaxed) + 1));
    let program = spec.program.clone().unwrap_or_else(|| server::driver(spec.kind).facts().program.into());
    let program = program.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let launcher = Substitute { launcher: Local, program, with };
    Ok(server::start_heeding(Some(Arc::clone(at.stop)), launcher, at.host, spec, dir)?)
}

/// The trace of a start.
fn numbered(trace: &Path, start: u32) -> PathBuf {
    let mut name = trace.as_os_str().to_owned();
    name.push(format!("-{start}"));
    name.into()
}

/// Which files of a server count: all in its folder but its logs, which need not be durable.
pub(crate) fn scope_of(server: &server::Server) -> Scope {
    let logs = vec![server.log_path(), server.dir().join("output.log")];
    Scope { folders: vec![server.dir().to_owned()], except: logs }
}

/// The result of judging a server's trace.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Judged {
    /// Its counts.
    pub report: Report,
    /// The first ten answers that no sync covers.
    pub not_covered: Vec<syncs::Answer>,
    /// The lines of the trace from the update to the answer of the first of them, shortened; empty: there is none.
    pub evidence: String,
}

/// Judges the trace of a server that has ended.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct JudgeSyncs {
    trace: PathBuf,
    scope: Scope,
}

impl Request for JudgeSyncs {
    const NAME: &'static str = "JudgeSyncs";
    type Answer = Judged;

    fn act(self, _: &At<'_>) -> Result<Judged, Error> {
        let traces: Vec<PathBuf> =
            (1..).map(|start| numbered(&self.trace, start)).take_while(|trace| trace.exists()).collect();
        let of_server = traces.last().cloned().unwrap_or_else(|| numbered(&self.trace, 1));
        syncs::settle(&of_server, SETTLE)?;
        let mut not_covered = Vec::new();
        let report = syncs::analyse(&of_server, &self.scope, |answer| {
            if not_covered.len() < EXAMPLES
                && !matches!(answer.verdict, SyncVerdict::Covered | SyncVerdict::Refused)
            {
                not_covered.push(answer);
            }
        })?;
        let evidence = match not_covered.first() {
            Some(first) => evidence(&of_server, first.lines).map_err(failed(&of_server))?,
            None => String::new(),
        };
        traces.iter().try_for_each(|trace| fs::remove_file(trace).map_err(failed(trace)))?;
        Ok(Judged { report, not_covered, evidence })
    }
}

/// A trace's lines between two, shortened: from the update to its answer.
fn evidence(trace: &Path, (from, to): (u64, u64)) -> io::Result<String> {
    let skip = from.saturating_sub(1) as usize;
    let lines = BufReader::new(File::open(trace)?).split(b'\n').skip(skip);
    let mut kept = String::new();
    for line in lines.take((to.saturating_sub(from) as usize + 1).min(LINES)) {
        let line = line?;
        kept += &String::from_utf8_lossy(&line[..line.len().min(WIDTH)]);
        kept += if line.len() > WIDTH { "...\n" } else { "\n" };
    }
    Ok(kept)
}

/// A disk whose power can be cut, on an agent's machine: see [`rack::disk`]. On drop it is unmounted.
pub struct Disk {
    at: Number,
}

impl Disk {
    /// Mounts a disk at the place of a folder of ours; what is durable is at that of `backing`. Both are made.
    ///
    /// # Errors
    /// Those of [`rack::disk::Disk::mount`].
    pub fn mount(agent: &Agent, backing: &Path, mounted: &Path, options: Options) -> Result<Self, Error> {
        let (backing, mounted) = (agent.place(backing)?, agent.place(mounted)?);
        Ok(Self { at: Number::new(agent, agent.ask(MountDisk { backing, mounted, options })?) })
    }

    fn disk(&self) -> (&Agent, u64) {
        (&self.at.agent, self.at.number)
    }

    /// Makes everything on it durable.
    ///
    /// # Errors
    /// Where a file cannot be synced.
    pub fn sync(&self) -> Result<(), Error> {
        let (agent, disk) = self.disk();
        agent.ask(SyncDisk { disk })
    }

    /// Cuts its power; the instant is by the wall clock of its machine.
    ///
    /// # Errors
    /// Those of [`rack::disk::Disk::cut`].
    pub fn cut(&self) -> Result<Cut, Error> {
        let (agent, disk) = self.disk();
        agent.ask(CutDisk { disk })
    }

    /// Mounts it again on what is durable.
    ///
    /// # Errors
    /// Those of [`rack::disk::Disk::remount`].
    pub fn remount(&self) -> Result<(), Error> {
        let (agent, disk) = self.disk();
        agent.ask(RemountDisk { disk })
    }

    /// Unmounts it, and removes what is durable but logs and configurations: databases and journals of many megabytes.
    ///
    /// # Errors
    /// Those of [`rack::disk::Disk::unmount`]; a file that cannot be removed.
    pub fn put_away(self) -> Result<(), Error> {
        let (agent, disk) = self.disk();
        agent.ask(PutDiskAway { disk })
    }
}

/// Mounts a disk.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct MountDisk {
    backing: PathBuf,
    mounted: PathBuf,
    options: Options,
}

impl Request for MountDisk {
    const NAME: &'static str = "MountDisk";
    type Answer = u64;

    fn act(self, at: &At<'_>) -> Result<u64, Error> {
        let folders = [&self.backing, &self.mounted];
        folders.into_iter().try_for_each(|folder| fs::create_dir_all(folder).map_err(failed(folder)))?;
        Ok(at.here.keep(rack::disk::Disk::mount(&self.backing, &self.mounted, self.options)?))
    }
}

/// Requests to a disk that is mounted: what they give, and what they do.
macro_rules! requests {
    ($($(#[$doc:meta])* $name:ident -> $answer:ty: |$disk:ident| $act:expr;)*) => {$(
        $(#[$doc])*
        #[derive(Debug, Serialize, Deserialize)]
        pub(crate) struct $name {
            disk: u64,
        }

        impl Request for $name {
            const NAME: &'static str = stringify!($name);
            type Answer = $answer;

            fn act(self, at: &At<'_>) -> Result<$answer, Error> {
                at.here.with(self.disk, |$disk: &mut rack::disk::Disk| -> Result<$answer, Error> { $act })?
            }
        }
    )*};
}

requests! {
    /// Makes everything on it durable.
    SyncDisk -> (): |disk| sync_all(disk.path()).map_err(failed(disk.path()));
    /// Cuts its power.
    CutDisk -> Cut: |disk| Ok(disk.cut()?);
    /// Mounts it again.
    RemountDisk -> (): |disk| Ok(disk.remount()?);
}

/// Unmounts a disk for good.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct PutDiskAway {
    disk: u64,
}

impl Request for PutDiskAway {
    const NAME: &'static str = "PutDiskAway";
    type Answer = ();

    fn act(self, at: &At<'_>) -> Result<(), Error> {
        let disk = at.here.take::<rack::disk::Disk>(self.disk)?;
        let (backing, mounted) = (disk.backing().to_owned(), disk.path().to_owned());
        disk.unmount()?;
        // Only where it is empty.
        let _ = fs::remove_dir(mounted);
        keep_texts(&backing).map_err(failed(&backing))
    }
}

/// Syncs every file below a folder.
fn sync_all(folder: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let kind = match path.symlink_metadata() {
            Ok(meta) => meta.file_type(),
            // Servers' temporary files come and go.
            Err(e) if e.kind() == io::ErrorKind::NotFound => continue,
            Err(e) => return Err(e),
        };
        if kind.is_dir() {
            sync_all(&path)?;
        } else if kind.is_file() {
            match File::open(&path) {
                Ok(file) => file.sync_all()?,
                Err(e) if e.kind() == io::ErrorKind::NotFound => {}
                Err(e) => return Err(e),
            }
        }
    }
    File::open(folder)?.sync_all()
}

/// Removes all files but logs and configurations.
fn keep_texts(folder: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            keep_texts(&path)?;
            // Only where it is empty.
            let _ = fs::remove_dir(&path);
        } else if !path.extension().is_some_and(|ext| ext == "log" || ext == "conf") {
            fs::remove_file(&path)?;
        }
    }
    Ok(())
}

fn failed(path: &Path) -> impl FnOnce(io::Error) -> Error {
    let path = path.to_owned();
    move |source| Error::File { path, source }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn evidence_is_the_lines_between() {
        let folder = tempfile::tempdir().unwrap();
        let trace = folder.path().join("trace");
        let long = "x".repeat(2 * WIDTH);
        std::fs::write(&trace, format!("one\ntwo\n{long}\nfour\nfive\n")).unwrap();
        assert_eq!(evidence(&trace, (2, 4)).unwrap(), format!("two\n{}...\nfour\n", "x".repeat(WIDTH)));
    }

    #[test]
    fn a_report_passes_to_another_machine_and_back() {
        let answer = syncs::Answer {
            client: "192.0.2.1:53".parse().unwrap(),
            id: 7,
            rcode: 0,
            name: "dnsrack-00000001-a".into(),
            lines: (3, 9),
            took: 12,
            basis: syncs::Basis::Names,
            verdict: SyncVerdict::NotCovered { file: "journal".into(), missing: syncs::Missing::Name },
        };
        let report = Report { covered: 3, first_not_covered: Some(answer.clone()), ..Report::default() };
        let judged = Judged { report, not_covered: vec![answer.clone()], evidence: "one\n".into() };
        let text = serde_json::to_string(&judged).unwrap();
        let again: Judged = serde_json::from_value(serde_json::from_str(&text).unwrap()).unwrap();
        assert_eq!((again.report.covered, &again.not_covered), (3, &vec![answer]));
        assert_eq!(serde_json::to_string(&again).unwrap(), text);
    }

    #[test]
    fn logs_and_configurations_stay() {
        let folder = tempfile::tempdir().unwrap();
        let (inner, file) = (folder.path().join("db"), |name: &str| folder.path().join(name));
        fs::create_dir(&inner).unwrap();
        for name in ["a.log", "b.conf", "c.jnl", "db/data.mdb"] {
            fs::write(file(name), "x").unwrap();
        }
        keep_texts(folder.path()).unwrap();
        let kept: Vec<bool> =
            ["a.log", "b.conf", "c.jnl", "db"].iter().map(|name| file(name).exists()).collect();
        assert_eq!(kept, [true, true, false, false]);
    }
}
