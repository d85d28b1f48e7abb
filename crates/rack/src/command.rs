//! A command to start on a host.

use crate::Root;
use std::ffi::OsString;
use std::path::PathBuf;

/// Where a program's standard input comes from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Input {
    /// Nowhere: it reads end of file.
    #[default]
    Null,
    /// [`crate::Process::take_stdin`].
    Pipe,
}

/// Where a program's standard output or error goes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Output {
    /// Nowhere.
    #[default]
    Null,
    /// [`crate::Process::take_stdout`] or [`crate::Process::take_stderr`]; who asks must read.
    Pipe,
    /// To the end of this file, which is made if it is missing; both outputs may share one.
    File(PathBuf),
    /// Where ours goes.
    Inherit,
}

/// How a program is started on a host.
#[derive(Clone, Debug)]
pub struct Cmd {
    /// The program; without a slash it is looked up on PATH.
    pub program: PathBuf,
    /// Its arguments.
    pub args: Vec<OsString>,
    /// Environment variables set beside those it inherits.
    pub env: Vec<(OsString, OsString)>,
    /// Its working folder; none: ours.
    pub cwd: Option<PathBuf>,
    /// Standard input.
    pub stdin: Input,
    /// Standard output.
    pub stdout: Output,
    /// Standard error.
    pub stderr: Output,
    /// The CPUs it may use; empty: any.
    pub cpus: Vec<usize>,
    /// Another distribution's folder that program and libraries are taken from; none: this machine's.
    pub root: Option<Root>,
}

impl Cmd {
    /// A program without arguments, its standard input empty and its outputs discarded.
    pub fn new(program: impl Into<PathBuf>) -> Self {
        Self {
            program: program.into(),
            args: Vec::new(),
            env: Vec::new(),
            cwd: None,
            stdin: Input::Null,
            stdout: Output::Null,
            stderr: Output::Null,
            cpus: Vec::new(),
            root: None,
        }
    }

    /// Adds an argument.
    pub fn arg(mut self, arg: impl Into<OsString>) -> Self {
        self.args.push(arg.into());
        self
    }

    /// Adds arguments.
    pub fn args(mut self, args: impl IntoIterator<Item = impl Into<OsString>>) -> Self {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    /// Sets an environment variable.
    pub fn env(mut self, key: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.env.push((key.into(), value.into()));
        self
    }

    /// Sets the working folder.
    pub fn cwd(mut self, folder: impl Into<PathBuf>) -> Self {
        self.cwd = Some(folder.into());
        self
    }

    /// Pins it to these CPUs.
    pub fn cpus(mut self, cpus: &[usize]) -> Self {
        self.cpus = cpus.to_vec();
        self
    }

    /// Takes program and libraries from another distribution's folder.
    pub fn root(mut self, root: Option<&Root>) -> Self {
        self.root = root.cloned();
        self
    }

    /// Sets where standard input comes from.
    pub fn stdin(mut self, from: Input) -> Self {
        self.stdin = from;
        self
    }

    /// Sets where standard output goes.
    pub fn stdout(mut self, to: Output) -> Self {
        self.stdout = to;
        self
    }

    /// Sets where standard error goes.
    pub fn stderr(mut self, to: Output) -> Self {
        self.stderr = to;
        self
    }
}
