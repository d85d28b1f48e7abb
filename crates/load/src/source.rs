//! Where a load's queries come from: made, read from a file, or recorded.

use crate::Error;
use serde::{Deserialize, Serialize};
use trace::{ReplaySpec, Survey};
use traffic::{QuerySource, SourceSpec};

/// The queries of a load; travels as JSON to the role that sends them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
#[allow(clippy::large_enum_variant, reason = "one a run")]
pub enum Source {
    /// A file of queries, or a profile over names.
    Traffic(SourceSpec),
    /// The queries of a capture, with their times, clients and transports.
    Trace(ReplaySpec),
}

impl From<SourceSpec> for Source {
    fn from(spec: SourceSpec) -> Self {
        Self::Traffic(spec)
    }
}

impl From<ReplaySpec> for Source {
    fn from(spec: ReplaySpec) -> Self {
        Self::Trace(spec)
    }
}

impl Source {
    /// Reads through what is read while it runs, so that nothing is wrong with it later; what a capture holds.
    ///
    /// # Errors
    /// The first thing that is wrong: file, line and column.
    pub fn check(&self) -> Result<Option<Survey>, Error> {
        match self {
            // A profile and its names are read when the source is opened.
            Self::Traffic(SourceSpec::Profile(_)) => Ok(None),
            Self::Traffic(spec) => Ok(spec.check().map(|()| None)?),
            Self::Trace(spec) => Ok(spec.check().map(Some)?),
        }
    }

    /// The sources of all workers, in order.
    ///
    /// # Errors
    /// As [`Self::check`].
    pub fn open_all(&self, workers: u32) -> Result<Vec<Box<dyn QuerySource + Send>>, Error> {
        match self {
            Self::Traffic(spec) => Ok(spec.open_all(workers)?),
            Self::Trace(spec) => {
                let sources = spec.open_all(workers)?.into_iter();
                Ok(sources.map(|s| Box::new(s) as Box<dyn QuerySource + Send>).collect())
            }
        }
    }
}
