//! Starting programs on a host of this machine, and ending them.

use crate::{Cmd, Error, Host, Input, Output, Root};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, kill_process, kill_process_group, pidfd_open, waitid,
};
use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Sender, SyncSender, channel, sync_channel};
use std::sync::{Mutex, OnceLock};
use std::time::{Duration, Instant};

/// Starts processes on a host; launchers differ only in how.
pub trait Launcher: Send + Sync {
    /// Starts `cmd` on `host`. The error names program and host.
    fn spawn(&self, host: &Host, cmd: &Cmd) -> Result<Process, Error>;
}

/// Starts processes on this machine: in the host's network namespace and no other (so that /sys and /proc stay
/// as they are), pinned, in a session of their own.
#[derive(Clone, Copy, Debug, Default)]
pub struct Local;

impl Launcher for Local {
    fn spawn(&self, host: &Host, cmd: &Cmd) -> Result<Process, Error> {
        let program = cmd.program.display().to_string();
        let start = |source| Error::Start { program: program.clone(), host: host.name.clone(), source };
        let file = |path: &Path, source| Error::File {
            program: program.clone(),
            host: host.name.clone(),
            path: path.into(),
            source,
        };
        check_cpus(&program, host, &cmd.cpus)?;
        let mut command = Command::new(&cmd.program);
        command.args(&cmd.args).envs(cmd.env.iter().map(|(k, v)| (k, v)));
        if let Some(folder) = &cmd.cwd {
            // Looked at here, as the error of exec does not say which of the two paths was missing.
            if !folder.metadata().map_err(|e| file(folder, e))?.is_dir() {
                return Err(file(folder, io::Error::from(io::ErrorKind::NotADirectory)));
            }
            command.current_dir(folder);
        }
        let path = cmd.env.iter().rev().find(|(k, _)| k == "PATH").map(|(_, v)| v.clone());
        let seen = cmd.root.as_ref().map_or_else(|| cmd.program.clone(), |root| root.find(&cmd.program));
        if !found(&seen, cmd.cwd.as_deref().unwrap_or(Path::new(".")), path) {
            return Err(Error::NoProgram { program, host: host.name.clone() });
        }
        command.stdin(match cmd.stdin {
            Input::Null => Stdio::null(),
            Input::Pipe => Stdio::piped(),
        });
        let output = |to: &Output| match to {
            Output::Null => Ok(Stdio::null()),
            Output::Pipe => Ok(Stdio::piped()),
            Output::Inherit => Ok(Stdio::inherit()),
            Output::File(path) => {
                let opened = File::options().create(true).append(true).open(path);
                opened.map(Stdio::from).map_err(|e| file(path, e))
            }
        };
        command.stdout(output(&cmd.stdout)?).stderr(output(&cmd.stderr)?);
        let net = host.netns.as_ref().map(|fd| fd.try_clone()).transpose().map_err(start)?;
        let entry = net::ns::Entry {
            net,
            binds: cmd.root.as_ref().map(Root::binds).unwrap_or_default(),
            cpus: cmd.cpus.clone(),
            session: true,
            die_with_parent: true,
            ..Default::default()
        };
        net::ns::prepare(&mut command, entry).map_err(start)?;
        let child = spawn(command).map_err(start)?;
        let pid = Pid::from_child(&child);
        // The child cannot have been reaped yet, so its id is surely its own.
        let pidfd = pidfd_open(pid, PidfdFlags::empty()).ok();
        Ok(Process { child, pid, pidfd, program, host: host.name.clone(), status: None })
    }
}

/// The kernel sends PR_SET_PDEATHSIG when the *thread* that forked ends: so one thread, which lives as long as
/// the process, forks for all.
fn spawn(command: Command) -> io::Result<Child> {
    type Job = (Command, SyncSender<io::Result<Child>>);
    static SPAWNER: OnceLock<Mutex<Option<Sender<Job>>>> = OnceLock::new();
    let (reply, answer) = sync_channel(1);
    let spawner = SPAWNER.get_or_init(|| Mutex::new(None));
    {
        let mut jobs = spawner.lock().unwrap_or_else(|e| e.into_inner());
        if jobs.is_none() {
            let (sender, receiver) = channel::<Job>();
            std::thread::Builder::new().name("spawner".into()).spawn(move || {
                for (mut command, reply) in receiver {
                    let _ = reply.send(command.spawn());
                }
            })?;
            *jobs = Some(sender);
        }
        let jobs = jobs.as_ref().expect("set above");
        jobs.send((command, reply)).map_err(|_| io::Error::other("the spawner thread has ended"))?;
    }
    answer.recv().map_err(|_| io::Error::other("the spawner thread has ended"))?
}

/// Fails when one of `cpus` is not among those that this process may use.
pub(crate) fn check_cpus(program: &str, host: &Host, cpus: &[usize]) -> Result<(), Error> {
    if cpus.is_empty() {
        return Ok(());
    }
    let allowed = allowed_cpus();
    match cpus.iter().find(|cpu| !allowed.contains(cpu)) {
        None => Ok(()),
        Some(&cpu) => Err(Error::Cpu { program: program.into(), host: host.name.clone(), cpu, allowed }),
    }
}

/// The CPUs that this process may use, ascending: also those that [`stay_off`] leaves to others.
pub fn allowed_cpus() -> Vec<usize> {
    ALLOWED.get().cloned().unwrap_or_else(affinity)
}

/// What the process may use, from the time when it began to use less.
static ALLOWED: OnceLock<Vec<usize>> = OnceLock::new();

/// The CPUs that the calling thread may run on, ascending.
fn affinity() -> Vec<usize> {
    let set = rustix::thread::sched_getaffinity(None).unwrap_or_else(|_| rustix::thread::CpuSet::new());
    (0..rustix::thread::CpuSet::MAX_CPU).filter(|&cpu| set.is_set(cpu)).collect()
}

/// Has the calling thread, and what it starts from now on, run on CPUs other than `taken` where the process may use any; a process
/// that is started with CPUs of its own has these.
///
/// # Errors
/// From the system.
pub fn stay_off(taken: &[usize]) -> std::io::Result<()> {
    let allowed = ALLOWED.get_or_init(affinity);
    let mut set = rustix::thread::CpuSet::new();
    let free: Vec<usize> = allowed.iter().copied().filter(|cpu| !taken.contains(cpu)).collect();
    let chosen = if free.is_empty() { allowed } else { &free };
    chosen.iter().for_each(|&cpu| set.set(cpu));
    Ok(rustix::thread::sched_setaffinity(None, &set)?)
}

/// Whether exec would find the program, relative to `folder`, on `path` or else on our own PATH: a lookup of our
/// own, so that its absence has an error of its own.
pub(crate) fn found(program: &Path, folder: &Path, path: Option<OsString>) -> bool {
    let runs =
        |path: &Path| path.metadata().is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0);
    if program.as_os_str().as_bytes().contains(&b'/') {
        return runs(&folder.join(program));
    }
    let path = path.or_else(|| std::env::var_os("PATH")).unwrap_or_else(|| "/bin:/usr/bin".into());
    std::env::split_paths(&path).any(|folder| runs(&folder.join(program)))
}

/// A process on a host, leader of its own process group. On drop the group is killed and the process reaped.
#[derive(Debug)]
pub struct Process {
    child: Child,
    pid: Pid,
    pidfd: Option<OwnedFd>,
    program: String,
    host: String,
    status: Option<ExitStatus>,
}

impl Process {
    /// Its process id, which is its process group's too.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The program as it was asked for.
    pub fn program(&self) -> &str {
        &self.program
    }

    /// The name of the host it runs on.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The writing end of its standard input, once, if it was asked for with [`Input::Pipe`].
    pub fn take_stdin(&mut self) -> Option<ChildStdin> {
        self.child.stdin.take()
    }

    /// The reading end of its standard output, once, if it was asked for with [`Output::Pipe`].
    pub fn take_stdout(&mut self) -> Option<ChildStdout> {
        self.child.stdout.take()
    }

    /// The reading end of its standard error, once, if it was asked for with [`Output::Pipe`].
    pub fn take_stderr(&mut self) -> Option<ChildStderr> {
        self.child.stderr.take()
    }

    /// How it ended, if it has; whatever is left of its process group is killed then.
    pub fn try_wait(&mut self) -> Result<Option<ExitStatus>, Error> {
        if self.status.is_none() {
            let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
            match waitid(WaitId::Pid(self.pid), options) {
                Ok(None) => return Ok(None),
                // A zombie still owns its id: the moment to kill what is left of the group, and no other.
                Ok(Some(_)) => drop(kill_process_group(self.pid, Signal::KILL)),
                Err(e) => return Err(self.error("wait for it", e.into())),
            }
            self.status = Some(self.child.wait().map_err(|e| self.error("wait for it", e))?);
        }
        Ok(self.status)
    }

    /// Waits until it has ended, at most `timeout`; `None`: it still runs.
    pub fn wait_timeout(&mut self, timeout: Duration) -> Result<Option<ExitStatus>, Error> {
        let until = Instant::now() + timeout;
        loop {
            if let Some(status) = self.try_wait()? {
                return Ok(Some(status));
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(None);
            }
            match &self.pidfd {
                Some(pidfd) => {
                    let time =
                        Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() };
                    match poll(&mut [PollFd::new(pidfd, PollFlags::IN)], Some(&time)) {
                        Ok(_) | Err(rustix::io::Errno::INTR) => (),
                        Err(e) => return Err(self.error("wait for it", e.into())),
                    }
                }
                None => std::thread::sleep(left.min(Duration::from_millis(5))), // no pidfd: out of descriptors
            }
        }
    }

    /// Sends a signal to it, not to its group. After its end: does nothing.
    pub fn signal(&mut self, signal: Signal) -> Result<(), Error> {
        if self.try_wait()?.is_some() {
            return Ok(());
        }
        kill_process(self.pid, signal).map_err(|e| self.error("send it a signal", e.into()))
    }

    /// Asks it to end (SIGTERM) and kills its group after `grace`; returns how it ended.
    pub fn terminate(&mut self, grace: Duration) -> Result<ExitStatus, Error> {
        self.signal(Signal::TERM)?;
        if let Some(status) = self.wait_timeout(grace)? {
            return Ok(status);
        }
        self.kill()
    }

    /// Kills it and its group; returns how it ended.
    pub fn kill(&mut self) -> Result<ExitStatus, Error> {
        loop {
            if let Some(status) = self.try_wait()? {
                return Ok(status);
            }
            kill_process_group(self.pid, Signal::KILL).map_err(|e| self.error("kill it", e.into()))?;
            if let Some(status) = self.wait_timeout(Duration::from_secs(60))? {
                return Ok(status);
            }
        }
    }

    fn error(&self, doing: &'static str, source: io::Error) -> Error {
        Error::Process {
            program: self.program.clone(),
            pid: self.pid(),
            host: self.host.clone(),
            doing,
            source,
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.kill();
    }
}
