//! What a coordinator and an agent elsewhere say to each other: a line of JSON each.

use rack::Host;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::path::PathBuf;

/// What a coordinator says.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Order {
    /// A host is on this machine: further orders may name it.
    Host {
        /// The host.
        host: Host,
    },
    /// Act on a request.
    Act {
        /// The answer has the same.
        number: u64,
        /// The flag that is heeded.
        stop: u64,
        /// The host.
        host: String,
        /// The request's name.
        name: String,
        /// The request.
        request: Value,
    },
    /// The coordinator is still there.
    Alive,
    /// Set a flag: what heeds it is given up.
    Stop {
        /// Its number.
        stop: u64,
    },
}

/// What an agent says.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Word {
    /// The shell there says whether it has the program: where not, it waits for it.
    Program {
        /// It has it.
        there: bool,
        /// The processor, as `uname -m` calls it.
        processor: String,
    },
    /// It is there.
    Hello {
        /// Of dnsrack.
        version: String,
        /// The identifier of its source tree; empty for an ordinary build.
        build: String,
        /// The SHA-256 of its program.
        program: String,
        /// Where it keeps files for this coordinator.
        folder: PathBuf,
    },
    /// What came of a request.
    Answer {
        /// The request's.
        number: u64,
        /// The answer.
        answer: Value,
    },
    /// A request failed.
    Failed {
        /// The request's.
        number: u64,
        /// Why.
        message: String,
        /// A server said that it refuses its zone.
        zone_refused: bool,
    },
    /// A role said a line, or nothing more.
    Role {
        /// Its number, which the coordinator chose.
        role: u64,
        /// The line; none: there are no more.
        line: Option<String>,
    },
}
