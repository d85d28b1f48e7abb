//! Running a server's tools to their end.

use crate::error::{Error, Problem};
use rack::{Cmd, Host, Launcher, Output, Root};
use std::io::Read;
use std::process::ExitStatus;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// The longest a tool may take: PowerDNS's reload answers when a zone of millions is loaded.
const LIMIT: Duration = Duration::from_secs(600);

/// The most of its output that is kept, in bytes.
const MAX_OUTPUT: u64 = 4 * 1024 * 1024;

/// How soon a tool is ended after a run was told to stop.
const LOOK: Duration = Duration::from_millis(100);

/// Where tools run, and for whom.
#[derive(Clone, Copy)]
pub(crate) struct Tools<'a> {
    pub launcher: &'a dyn Launcher,
    pub host: &'a Host,
    /// The server's, for errors.
    pub label: &'a str,
    /// Another distribution's, where they are taken from there.
    pub root: Option<&'a Root>,
    /// Set: no tool is waited for any more.
    pub stop: Option<&'a AtomicBool>,
}

impl Tools<'_> {
    /// How a tool ended, and what it wrote to standard output and error, in this order.
    pub fn outcome(&self, cmd: &Cmd) -> Result<(Option<ExitStatus>, String), Error> {
        self.outcome_within(LIMIT, cmd)
    }

    fn outcome_within(&self, limit: Duration, cmd: &Cmd) -> Result<(Option<ExitStatus>, String), Error> {
        let rack = |e| Error::new(self.label, Problem::Rack(e));
        let cmd = cmd.clone().root(self.root).stdout(Output::Pipe).stderr(Output::Pipe);
        let mut process = self.launcher.spawn(self.host, &cmd).map_err(rack)?;
        let (out, err) = (drain(process.take_stdout()), drain(process.take_stderr()));
        let until = Instant::now() + limit;
        let status = loop {
            let left = until.saturating_duration_since(Instant::now());
            match process.wait_timeout(left.min(LOOK)).map_err(rack)? {
                None if self.stop.is_some_and(|stop| stop.load(Ordering::Relaxed)) => {
                    return Err(Error::new(self.label, Problem::Stopped));
                }
                None if !left.is_zero() => {}
                status => break status,
            }
        };
        drop(process); // kills it, if it still runs, so that the pipes end
        let text = |handle: thread::JoinHandle<Vec<u8>>| {
            String::from_utf8_lossy(&handle.join().unwrap_or_default()).into_owned()
        };
        Ok((status, text(out) + &text(err)))
    }

    /// As [`Tools::outcome`], where anything but exit status 0 is an error that quotes the tool.
    pub fn run(&self, cmd: &Cmd) -> Result<String, Error> {
        self.run_within(LIMIT, cmd)
    }

    /// The same for a tool that has only so long.
    pub fn run_within(&self, limit: Duration, cmd: &Cmd) -> Result<String, Error> {
        match self.outcome_within(limit, cmd)? {
            (Some(status), said) if status.success() => Ok(said),
            (status, said) => {
                let status =
                    status.map_or(format!("still running after {} s", limit.as_secs()), |s| s.to_string());
                let problem = Problem::Tool { command: line(cmd), status, said: last_lines(&said) };
                Err(Error::new(self.label, problem))
            }
        }
    }
}

/// A command as it would be typed.
pub(crate) fn line(cmd: &Cmd) -> String {
    let words = std::iter::once(cmd.program.as_os_str()).chain(cmd.args.iter().map(|arg| arg.as_os_str()));
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

/// The last lines of what a tool said; the reason is seldom further up.
pub(crate) fn last_lines(said: &str) -> String {
    let lines: Vec<&str> = said.lines().filter(|line| !line.trim().is_empty()).collect();
    lines[lines.len().saturating_sub(8)..].join("\n")
}

fn drain(pipe: Option<impl Read + Send + 'static>) -> thread::JoinHandle<Vec<u8>> {
    thread::spawn(move || {
        let mut text = Vec::new();
        if let Some(mut pipe) = pipe {
            // Cut short, not blocked: what is over the limit is read and dropped.
            let _ = pipe.by_ref().take(MAX_OUTPUT).read_to_end(&mut text);
            let _ = std::io::copy(&mut pipe, &mut std::io::sink());
        }
        text
    })
}
