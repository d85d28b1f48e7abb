//! An experiment: file + what is done → next trial → run directory; and the catalogue of the papers'.
//!
//! [`Experiment`] is the plan as a person writes it, [`plan`] its trials in order, [`run()`] does them:
//! it makes the zones, raises the rack, starts a fresh server for every trial, drives the generator as a
//! role on its own host, samples both sides, and hands each finished trial to the run directory before
//! the next begins, so that a run cut off goes on where it was.

mod anchor;
mod answer_check;
mod check;
mod config;
mod event;
mod family_spec;
mod hosts;
pub mod keys;
mod losses;
mod measures;
mod meter;
mod placement;
mod plan;
mod planned;
mod read;
mod repeats;
mod replication;
pub mod resources;
mod run;
mod run_context;
mod sampling;
mod second_count;
mod sets;
mod shared_cores;
mod system_under_test;
mod teller;
mod time_left;
mod trial;
mod witness;
mod zones;

pub use config::{Comparison, Experiment, Measure, Order, Server, Variant};
pub use event::RunEvent;
pub use hosts::host_names;
pub use plan::plan;
pub use planned::{Trial, ZonePlan};
#[cfg(test)]
pub(crate) use read::open_with;
pub use read::{CATALOGUE, Set, load, named, open};
pub use run::{Options, Summary, run};
pub use trial::planned_params;

use std::path::PathBuf;

/// Why an experiment could not be read or run.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file cannot be read.
    #[error("{path}: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The file is not an experiment.
    #[error("{path}:{line}:{column}: {message}")]
    Syntax {
        /// The file, or the catalogue's name for it.
        path: String,
        /// From 1.
        line: usize,
        /// From 1.
        column: usize,
        /// The text that would be right here.
        message: String,
    },
    /// A `--set` that does not fit.
    #[error("--set {key}={value}: {message}")]
    Set {
        /// The dotted key.
        key: String,
        /// The value given.
        value: String,
        /// The text that would be right here.
        message: String,
    },
    /// The plan contradicts itself or asks for what cannot be.
    #[error("experiment {name}: {message}")]
    Plan {
        /// The experiment.
        name: String,
        /// The contradiction, and how to resolve it.
        message: String,
    },
    /// No such experiment.
    #[error("no experiment '{0}' in the catalogue and no such file: see 'dnsrack experiment list'")]
    Unknown(String),
    /// This machine cannot do what the plan asks.
    #[error("{0}")]
    Machine(String),
    /// A server could not be started or used.
    #[error(transparent)]
    Server(#[from] server::Error),
    /// Something could not be done on a host: a server could not be started or used, a capture could not be made.
    #[error(transparent)]
    Agent(#[from] agent::Error),
    /// The rack could not be raised.
    #[error(transparent)]
    Rack(#[from] rack::Error),
    /// A zone could not be made or read.
    #[error(transparent)]
    Zone(#[from] zone::Error),
    /// The traffic could not be made or read.
    #[error(transparent)]
    Traffic(#[from] traffic::Error),
    /// Updates could not be made or sent.
    #[error(transparent)]
    Update(#[from] update::Error),
    /// A capture could not be read.
    #[error(transparent)]
    Trace(#[from] trace::read::Error),
    /// The run directory could not be written.
    #[error(transparent)]
    Results(#[from] results::Error),
    /// The search could not be done.
    #[error(transparent)]
    Load(#[from] load::Error),
    /// A file of the run could not be written.
    #[error("{path}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
}

impl Error {
    fn io(path: impl Into<PathBuf>) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io { path, source }
    }
}
