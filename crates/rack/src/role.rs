//! A role: this same program on another host, specified by one JSON line and heard through events.

use crate::{Cmd, Error, Host, Input, Launcher, Local, Output, Process, StandingRack};
use measure::{Event, Nanos};
use serde::Serialize;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::ChildStdin;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// A role at work; killed when dropped.
#[derive(Debug)]
pub struct Role {
    name: String,
    host: String,
    process: Process,
    stdin: Option<ChildStdin>,
    events: Receiver<String>,
    log: PathBuf,
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
        let cmd = Cmd::new(this_program(name, &host.name)?).args(["role", name]).cpus(cpus);
        Self::begin(launcher, host, cmd, name, &host.name, spec, log)
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
        let program = this_program(name, host)?;
        // The one way in, with root and without: the program becomes the other one.
        let cmd = Cmd::new(&program)
            .args(["rack", "exec", "--rack", &rack.name, host])
            .arg(&program)
            .args(["role", name]);
        Self::begin(&Local, &Host::loopback(), cmd, name, host, spec, log)
    }

    fn begin(
        launcher: &dyn Launcher,
        on: &Host,
        cmd: Cmd,
        name: &str,
        host: &str,
        spec: &impl Serialize,
        log: &Path,
    ) -> Result<Self, Error> {
        let cmd = cmd.stdin(Input::Pipe).stdout(Output::Pipe).stderr(Output::File(log.to_owned()));
        let mut process = launcher.spawn(on, &cmd)?;
        let stdout = process.take_stdout().expect("stdout was asked for as a pipe");
        let (sender, events) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        let stdin = process.take_stdin();
        let mut role =
            Self { name: name.into(), host: host.into(), process, stdin, events, log: log.to_owned() };
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

    /// Names the absolute instant (wall clock) at which every role starts.
    ///
    /// # Errors
    /// [`Error::Role`] where it is gone.
    pub fn start_at(&mut self, wall: Nanos) -> Result<(), Error> {
        self.say(&format!("{{\"start_at\":{wall}}}"))
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
        self.stdin = None;
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.process.pid()
    }

    fn say(&mut self, line: &str) -> Result<(), Error> {
        let said = self.stdin.as_mut().map(|stdin| writeln!(stdin, "{line}"));
        if matches!(said, Some(Ok(()))) { Ok(()) } else { Err(self.gone()) }
    }

    /// The error for a role that ended without a word.
    fn gone(&mut self) -> Error {
        let end = Instant::now() + Duration::from_secs(1);
        let mut status = self.process.try_wait().ok().flatten();
        while status.is_none() && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(5));
            status = self.process.try_wait().ok().flatten();
        }
        let said = std::fs::read_to_string(&self.log).unwrap_or_default();
        let how = status.map_or_else(|| "closed its output".into(), |s| format!("ended with {s}"));
        self.failed(if said.trim().is_empty() { how } else { format!("{how}: {}", said.trim()) })
    }

    pub(crate) fn failed(&self, message: impl Into<String>) -> Error {
        Error::Role { role: self.name.clone(), host: self.host.clone(), message: message.into() }
    }
}

/// The program that every role is: the one that runs now.
fn this_program(role: &str, host: &str) -> Result<PathBuf, Error> {
    std::env::current_exe().map_err(|e| Error::Role {
        role: role.into(),
        host: host.into(),
        message: format!("cannot find the running program: {e}"),
    })
}
