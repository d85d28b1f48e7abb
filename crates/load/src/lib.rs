//! The load engine: pace, queries and transport into a recorder; search, echo, calibration.
//!
//! [`run`] drives a load from a [`LoadSpec`] to a [`LoadResult`]. Worker threads, each on a core of its own, share the
//! flows and the schedule; each has a [`Recorder`] that decides the fate of every query, and their [`Tally`]s add.
//! Memory is sized before the start by rate and deadline (the ids in flight) and does not grow with the run.

pub mod calibrate;
pub mod check;
mod counts;
pub mod echo;
mod error;
mod findings;
pub mod hosts;
mod lane;
mod merge;
mod plan;
mod recorder;
mod result;
mod retry;
mod run;
pub mod search;
mod second;
mod signs;
mod source;
mod spec;
mod validity;
mod worker;

pub use counts::{Bytes, Counts};
pub use error::Error;
pub use measure::limits::*;
pub use measure::schedule::LATE_LIMIT;
pub use measure::{Latency, PacingError};
pub use net::target::{Prefix, parse_target};
pub use recorder::{AnswerKind, Class, Received, Recorder, Tally, Unsent};
pub use result::{AnswerSizes, Histograms, LoadResult, Part, TcpResult};
pub use run::run;
pub use signs::{Gather, Pause, Signs};
pub use source::Source;
pub use spec::{Backend, Connections, LONGEST, LoadSpec, Transport};
