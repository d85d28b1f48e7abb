//! A role on another machine: its agent starts it, and passes lines on in both directions.

use crate::agent::Number;
use crate::request::{At, Request};
use crate::{Agent, Error};
use rack::{Link, Local, RoleProcess};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;

/// What joins a coordinator with a role on another machine.
pub(crate) struct FarRole {
    at: Number,
    pid: u32,
}

impl FarRole {
    pub fn new(agent: &Agent, (number, pid): (u64, u32)) -> Self {
        Self { at: Number::new(agent, number), pid }
    }
}

impl fmt::Debug for FarRole {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FarRole({} on {})", self.pid, self.at.agent.host.name)
    }
}

impl Link for FarRole {
    fn pid(&self) -> u32 {
        self.pid
    }

    fn say(&mut self, line: &str) -> bool {
        self.at.agent.ask(Say { role: self.at.number, line: line.into() }).unwrap_or(false)
    }

    fn close(&mut self) {
        // Where that fails, the agent is gone, and the role with it.
        let _ = self.at.agent.ask(Close { role: self.at.number });
    }

    fn ahead(&mut self) -> Result<i64, String> {
        self.at.agent.clock().map(|offset| offset.ahead).map_err(|e| e.to_string())
    }

    fn last_words(&mut self) -> String {
        self.at.agent.ask(LastWords { role: self.at.number }).unwrap_or_else(|e| e.to_string())
    }
}

/// Starts this program in a role: its number and process id.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct StartRole {
    /// Its lines come with this number.
    pub lines: u64,
    pub name: String,
    pub cpus: Vec<usize>,
    pub log: PathBuf,
}

impl Request for StartRole {
    const NAME: &'static str = "StartRole";
    type Answer = (u64, u32);

    fn act(self, at: &At<'_>) -> Result<(u64, u32), Error> {
        let Self { lines, name, cpus, log } = self;
        let (process, output) = RoleProcess::start(&Local, at.host, &name, &cpus, &log)?;
        let tell = at.here.lines();
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                tell(lines, Some(line));
            }
            tell(lines, None);
        });
        let pid = process.pid();
        Ok((at.here.keep(process), pid))
    }
}

/// Says a line to a role. False: it is gone.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Say {
    role: u64,
    line: String,
}

impl Request for Say {
    const NAME: &'static str = "Say";
    type Answer = bool;

    fn act(self, at: &At<'_>) -> Result<bool, Error> {
        at.here.with(self.role, |role: &mut RoleProcess| role.say(&self.line))
    }
}

/// Ends a role's input.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Close {
    role: u64,
}

impl Request for Close {
    const NAME: &'static str = "Close";
    type Answer = ();

    fn act(self, at: &At<'_>) -> Result<(), Error> {
        at.here.with(self.role, |role: &mut RoleProcess| role.close())
    }
}

/// How a role ended.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct LastWords {
    role: u64,
}

impl Request for LastWords {
    const NAME: &'static str = "LastWords";
    type Answer = String;

    fn act(self, at: &At<'_>) -> Result<String, Error> {
        at.here.with(self.role, |role: &mut RoleProcess| role.last_words())
    }
}
