//! A server under strace, and its trace.

use super::{Analysis, Answer, Report, Scope};
use crate::{Cmd, Error};
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// The system calls that are traced: files, then sockets, then what cannot be looked into.
const CALLS: &str = "open,openat,openat2,creat,write,pwrite64,writev,pwritev,pwritev2,ftruncate,truncate,fallocate,\
                     fsync,fdatasync,sync,syncfs,msync,mmap,rename,renameat,renameat2,unlink,unlinkat,\
                     recvmsg,recvmmsg,recvfrom,read,readv,sendmsg,sendmmsg,sendto,io_uring_setup";

/// How much of each buffer is kept: enough for the largest message and for what databases write at once.
const BUFFER: &str = "131072";

/// A line may be this long: strace writes up to four characters an octet. What is beyond is skipped.
const MAX_LINE: u64 = 8 << 20;

/// The command that runs `cmd` under strace, with the trace in the file `trace`. The process started is the program's own:
/// signals and its end are as without. Output, environment, folder and CPUs stay; strace runs on the same CPUs.
pub fn traced(cmd: &Cmd, trace: &Path) -> Cmd {
    let mut args: Vec<std::ffi::OsString> = [
        // A tracer in a session of its own, so that it outlives the server it is told to kill, and writes to the end.
        "-DDD",
        "-f",
        "--seccomp-bpf",
        "-qq",
        "--absolute-timestamps=format:unix,precision:ns",
        "--syscall-times=ns",
        "-yy",
        "-s",
        BUFFER,
        "-e",
    ]
    .map(Into::into)
    .into();
    args.push(format!("trace={CALLS}").into());
    args.push("-o".into());
    args.push(whole(trace).into());
    args.push("--".into());
    args.push(cmd.program.clone().into());
    args.extend(cmd.args.iter().cloned());
    Cmd { program: "strace".into(), args, ..cmd.clone() }
}

/// A path that means the same in the command's folder, which is not ours.
fn whole(trace: &Path) -> PathBuf {
    std::path::absolute(trace).unwrap_or_else(|_| trace.into())
}

/// Whether strace is here and may trace: it is tried on a program that does nothing.
///
/// # Errors
/// [`Error::Syncs`], which says what to do.
pub fn check() -> Result<(), Error> {
    let failed = |message| Error::Syncs { path: "of a trial".into(), message };
    let words = ["-f", "-qq", "--seccomp-bpf", "-e", "trace=fsync", "-o", "/dev/null", "--", "true"];
    match Command::new("strace").args(words).output() {
        Ok(tried) if tried.status.success() => Ok(()),
        Ok(tried) => {
            let said = String::from_utf8_lossy(&tried.stderr).trim().to_owned();
            Err(failed(format!("strace cannot trace here ({}; {said}): is ptrace(2) allowed?", tried.status)))
        }
        Err(e) => Err(failed(format!("strace cannot be started ({e}): apt-get install strace"))),
    }
}

/// Waits until strace has written a trace to its end, which is after the end of all processes of the server.
///
/// # Errors
/// [`Error::Syncs`]: strace still runs after `patience`, or left no trace.
pub fn settle(trace: &Path, patience: Duration) -> Result<(), Error> {
    let failed = |message: &str| Error::Syncs { path: trace.into(), message: message.into() };
    let (until, written) = (Instant::now() + patience, whole(trace));
    let writes_it = || {
        procfs::process::all_processes().into_iter().flatten().flatten().any(|process| {
            process.cmdline().is_ok_and(|words| {
                words.first().is_some_and(|program| program.ends_with("strace"))
                    && words.iter().any(|word| Path::new(word) == written)
            })
        })
    };
    while writes_it() {
        if Instant::now() > until {
            return Err(failed("strace still writes it: a process of the server is alive"));
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    if trace.exists() {
        Ok(())
    } else {
        Err(failed("is not there: is strace installed (apt-get install strace)?"))
    }
}

/// Judges a trace file as a stream; `each` is given every answer.
///
/// # Errors
/// [`Error::Syncs`]: it cannot be read.
pub fn analyse(trace: &Path, scope: &Scope, mut each: impl FnMut(Answer)) -> Result<Report, Error> {
    let failed = |e: std::io::Error| Error::Syncs { path: trace.into(), message: e.to_string() };
    let mut input = BufReader::with_capacity(1 << 20, File::open(trace).map_err(failed)?);
    let mut analysis = Analysis::new(scope.clone());
    let mut line = Vec::new();
    loop {
        line.clear();
        if input.by_ref().take(MAX_LINE).read_until(b'\n', &mut line).map_err(failed)? == 0 {
            return Ok(analysis.finish());
        }
        if line.last() == Some(&b'\n') {
            line.pop();
        } else if line.len() as u64 == MAX_LINE {
            input.skip_until(b'\n').map_err(failed)?;
        }
        analysis.line(&line, &mut each);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Host, Launcher, Local};

    #[test]
    fn a_trace_is_where_it_is_named_though_the_command_runs_elsewhere() {
        if let Err(e) = check() {
            eprintln!("SKIPPED: {e}");
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let here = std::env::current_dir().unwrap();
        let up: PathBuf = here.components().skip(1).map(|_| "..").collect();
        let trace = up.join(folder.path().strip_prefix("/").unwrap()).join("trace");
        let cmd = traced(&Cmd::new("true").cwd("/"), &trace);
        Local.spawn(&Host::loopback(), &cmd).unwrap().wait_timeout(Duration::from_secs(20)).unwrap().unwrap();
        settle(&trace, Duration::from_secs(20)).unwrap();
        let text = std::fs::read_to_string(folder.path().join("trace")).unwrap();
        assert!(text.contains("openat(") && text.ends_with('\n'), "{text}");
    }
}
