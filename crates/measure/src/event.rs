//! Events of a role that works: JSON lines on its standard output.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// One line of a role's events (also `--events`).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "lowercase")]
pub enum Event {
    /// Everything is prepared; the role waits for the start instant.
    Ready,
    /// The measured part began.
    Started {
        /// Wall clock, nanoseconds since 1970.
        at: u64,
    },
    /// Once a second: what happened in that second.
    Progress {
        /// Seconds since the start, from 1.
        second: u64,
        /// Figures of that second, by metric name.
        values: Value,
    },
    /// The end: the role's result, in the shape that its room defines.
    Done {
        /// The result.
        result: Value,
    },
    /// The role gave up.
    Error {
        /// A sentence: what happened, where, and what to do.
        message: String,
    },
}
