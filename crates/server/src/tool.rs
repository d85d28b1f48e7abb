//! Running a server's tools to their end.

use crate::error::{Error, Problem};
use rack::{Cmd, Host, Launcher, Output};
use std::io::Read;
use std::process::ExitStatus;
use std::thread;
use std::time::Duration;

/// The longest a tool may take: PowerDNS's reload answers when a zone of millions is loaded.
const LIMIT: Duration = Duration::from_secs(600);

/// The most of its output that is kept, in bytes.
const MAX_OUTPUT: u64 = 4 * 1024 * 1024;

/// How a tool ended, and what it wrote to standard output and error, in this order.
pub(crate) fn outcome(
    launcher: &dyn Launcher,
    host: &Host,
    label: &str,
    cmd: &Cmd,
) -> Result<(Option<ExitStatus>, String), Error> {
    outcome_within(LIMIT, launcher, host, label, cmd)
}

fn outcome_within(
    limit: Duration,
    launcher: &dyn Launcher,
    host: &Host,
    label: &str,
    cmd: &Cmd,
) -> Result<(Option<ExitStatus>, String), Error> {
    let rack = |e| Error::new(label, Problem::Rack(e));
    let cmd = cmd.clone().stdout(Output::Pipe).stderr(Output::Pipe);
    let mut process = launcher.spawn(host, &cmd).map_err(rack)?;
    let (out, err) = (drain(process.take_stdout()), drain(process.take_stderr()));
    let status = process.wait_timeout(limit).map_err(rack)?;
    drop(process); // kills it, if it still runs, so that the pipes end
    let text = |handle: thread::JoinHandle<Vec<u8>>| {
        String::from_utf8_lossy(&handle.join().unwrap_or_default()).into_owned()
    };
    Ok((status, text(out) + &text(err)))
}

/// As [`outcome`], where anything but exit status 0 is an error that quotes the tool.
pub(crate) fn run(launcher: &dyn Launcher, host: &Host, label: &str, cmd: &Cmd) -> Result<String, Error> {
    run_within(LIMIT, launcher, host, label, cmd)
}

/// The same for a tool that has only so long.
pub(crate) fn run_within(
    limit: Duration,
    launcher: &dyn Launcher,
    host: &Host,
    label: &str,
    cmd: &Cmd,
) -> Result<String, Error> {
    match outcome_within(limit, launcher, host, label, cmd)? {
        (Some(status), said) if status.success() => Ok(said),
        (status, said) => {
            let status =
                status.map_or(format!("still running after {} s", limit.as_secs()), |s| s.to_string());
            Err(Error::new(label, Problem::Tool { command: line(cmd), status, said: last_lines(&said) }))
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
