//! A role: this same program on another host, specified by one JSON line and heard through events.

use crate::{Cmd, Error, Host, Input, Launcher, Local, Output, Process, StandingRack};
use measure::{Event, Nanos};
use serde::Serialize;
use std::fmt::Debug;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, ChildStdout};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

/// A role at work; killed when dropped.
#[derive(Debug)]
pub struct Role {
    name: String,
    host: String,
    link: Box<dyn Link>,
    events: Receiver<String>,
}

/// What joins a coordinator with a role.
pub trait Link: Debug + Send {
    /// The role's process id, on its machine.
    fn pid(&self) -> u32;

    /// Says a line to it. False: it is gone.
    fn say(&mut self, line: &str) -> bool;

    /// Ends its input, which asks it to stop.
    fn close(&mut self);

    /// By how many nanoseconds the wall clock of its machine is ahead of ours.
    ///
    /// # Errors
    /// Why that cannot be measured.
    fn ahead(&mut self) -> Result<i64, String> {
        Ok(0)
    }

    /// How it ended, with what it wrote to its log. Waits a little for its end.
    fn last_words(&mut self) -> String;
}

/// A role as a process of this machine; killed when dropped.
#[derive(Debug)]
pub struct RoleProcess {
    process: Process,
    stdin: Option<ChildStdin>,
    log: PathBuf,
}

impl RoleProcess {
    /// Starts this program in role `name` on a host, and gives its output; its standard error goes to `log`.
    ///
    /// # Errors
    /// The errors of the launcher, [`Error::Role`].
    pub fn start(
        launcher: &dyn Launcher,
        host: &Host,
        name: &str,
        cpus: &[usize],
        log: &Path,
    ) -> Result<(Self, ChildStdout), Error> {
        let cmd = Cmd::new(this_program()).args(["role", name]).cpus(cpus);
        Self::spawn(launcher, host, cmd, log)
    }

    fn spawn(
        launcher: &dyn Launcher,
        host: &Host,
        cmd: Cmd,
        log: &Path,
    ) -> Result<(Self, ChildStdout), Error> {
        let cmd = cmd.stdin(Input::Pipe).stdout(Output::Pipe).stderr(Output::File(log.to_owned()));
        let mut process = launcher.spawn(host, &cmd)?;
        let stdout = process.take_stdout().expect("stdout was asked for as a pipe");
        let stdin = process.take_stdin();
        Ok((Self { process, stdin, log: log.to_owned() }, stdout))
    }
}

impl Link for RoleProcess {
    fn pid(&self) -> u32 {
        self.process.pid()
    }

    fn say(&mut self, line: &str) -> bool {
        matches!(self.stdin.as_mut().map(|stdin| writeln!(stdin, "{line}")), Some(Ok(())))
    }

    fn close(&mut self) {
        self.stdin = None;
    }

    fn last_words(&mut self) -> String {
        let status = self.process.wait_timeout(Duration::from_secs(1)).ok().flatten();
        let said = std::fs::read_to_string(&self.log).unwrap_or_default();
        let how = status.map_or_else(|| "closed its output".into(), |s| format!("ended with {s}"));
        if said.trim().is_empty() { how } else { format!("{how}: {}", said.trim()) }
    }
}

impl Role {
    /// Starts role `name` on a host; its standard error goes to `log`.
    ///
    /// # Errors
    /// The errors of the launcher, [`Error::Role`].
    pub fn start(
        launcher: &dyn Launcher,
        host: &Host,
        name: &str,
        spec: &impl Serialize,
        cpus: &[usize],
        log: &Path,
    ) -> Result<Self, Error> {
        let (process, output) = RoleProcess::start(launcher, host, name, cpus, log)?;
        Self::begin(name, &host.name, spec, process, output)
    }

    /// As [`Self::start`], on a host of a rack that is kept, and on that host's CPUs.
    ///
    /// # Errors
    /// [`Error::NoHost`], [`Error::Role`].
    pub fn start_kept(
        rack: &StandingRack,
        host: &str,
        name: &str,
        spec: &impl Serialize,
        log: &Path,
    ) -> Result<Self, Error> {
        if !rack.hosts.iter().any(|h| h.name == host) {
            let hosts = rack.hosts.iter().map(|h| h.name.clone()).collect();
            return Err(Error::NoHost { rack: rack.name.clone(), host: host.into(), hosts });
        }
        let program = this_program();
        // The one way in, with root and without: the program becomes the other one.
        let cmd = Cmd::new(&program)
            .args(["rack", "exec", "--rack", &rack.name, host])
            .arg(&program)
            .args(["role", name]);
        let (process, output) = RoleProcess::spawn(&Local, &Host::loopback(), cmd, log)?;
        Self::begin(name, host, spec, process, output)
    }

    fn begin(
        name: &str,
        host: &str,
        spec: &impl Serialize,
        process: RoleProcess,
        output: ChildStdout,
    ) -> Result<Self, Error> {
        let (sender, events) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        Self::join(name, host, spec, Box::new(process), events)
    }

    /// A role that was started elsewhere, and whose lines come in `events`: gives it its specification.
    ///
    /// # Errors
    /// [`Error::Role`] where it is gone.
    pub fn join(
        name: &str,
        host: &str,
        spec: &impl Serialize,
        link: Box<dyn Link>,
        events: Receiver<String>,
    ) -> Result<Self, Error> {
        let mut role = Self { name: name.into(), host: host.into(), link, events };
        let line = serde_json::to_string(spec).map_err(|e| role.failed(e.to_string()))?;
        role.say(&line)?;
        Ok(role)
    }

    /// Waits until the role is prepared.
    ///
    /// # Errors
    /// [`Error::Role`] where it gives up or stays silent.
    pub fn ready(&mut self, patience: Duration) -> Result<(), Error> {
        match self.next(patience)? {
            Some(Event::Ready) => Ok(()),
            Some(other) => Err(self.failed(format!("said {other:?} before it was ready"))),
            None => Err(self.failed(format!("not ready after {} s", patience.as_secs()))),
        }
    }

    /// Names the absolute instant (our wall clock) at which every role starts. Each is given it in its own machine's wall clock.
    ///
    /// # Errors
    /// [`Error::Role`] where it is gone.
    pub fn start_at(&mut self, wall: Nanos) -> Result<(), Error> {
        let ahead = self.link.ahead().map_err(|why| self.failed(why))?;
        self.say(&format!("{{\"start_at\":{}}}", wall.saturating_add_signed(ahead)))
    }

    /// The next event within `patience`; none where it stayed silent for that long.
    ///
    /// # Errors
    /// [`Error::Role`] where the role gave up or is gone.
    pub fn next(&mut self, patience: Duration) -> Result<Option<Event>, Error> {
        match self.events.recv_timeout(patience) {
            Ok(line) => match serde_json::from_str(&line) {
                Ok(Event::Error { message }) => Err(self.failed(message)),
                Ok(event) => Ok(Some(event)),
                Err(e) => Err(self.failed(format!("said what is no event ({e}): {line}"))),
            },
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => Err(self.gone()),
        }
    }

    /// Asks the role to stop: the end of its input.
    pub fn stop(&mut self) {
        self.link.close();
    }

    /// Its process id, on its machine.
    pub fn pid(&self) -> u32 {
        self.link.pid()
    }

    /// Says a further line to it, where it takes any.
    ///
    /// # Errors
    /// [`Error::Role`] where it is gone.
    pub fn tell(&mut self, line: &str) -> Result<(), Error> {
        self.say(line)
    }

    fn say(&mut self, line: &str) -> Result<(), Error> {
        if self.link.say(line) { Ok(()) } else { Err(self.gone()) }
    }

    /// The error for a role that ended without a word.
    fn gone(&mut self) -> Error {
        let words = self.link.last_words();
        self.failed(words)
    }

    pub(crate) fn failed(&self, message: impl Into<String>) -> Error {
        Error::Role { role: self.name.clone(), host: self.host.clone(), message: message.into() }
    }
}

/// The program that every role is: the one that runs now. Its path gives the process its name; a program that was
/// replaced by a new build or release since it began has none, but its file is still there.
fn this_program() -> PathBuf {
    let path = std::env::current_exe().ok().filter(|path| path.is_file());
    path.unwrap_or_else(|| "/proc/self/exe".into())
}
