//! A launcher that starts one program otherwise than it was asked to, and all others as asked.

use crate::{Cmd, Error, Host, Launcher, Process};
use std::path::Path;

/// Starts a program of this name by another command: under strace ([`crate::syncs::traced`]), or with a library in front
/// (`cmd.clone().env("LD_PRELOAD", "libeatmydata.so")`). The tools around it are started as they are.
pub struct Substitute<L: Launcher, F: Fn(&Cmd) -> Cmd + Send + Sync> {
    /// Starts both.
    pub launcher: L,
    /// The program's file name, such as `named`.
    pub program: String,
    /// Its command, made of the one that was asked for.
    pub with: F,
}

impl<L: Launcher, F: Fn(&Cmd) -> Cmd + Send + Sync> Launcher for Substitute<L, F> {
    fn spawn(&self, host: &Host, cmd: &Cmd) -> Result<Process, Error> {
        let meant = cmd.program.file_name() == Path::new(&self.program).file_name();
        if meant { self.launcher.spawn(host, &(self.with)(cmd)) } else { self.launcher.spawn(host, cmd) }
    }
}
