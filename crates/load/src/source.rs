//! Where a load's queries come from: made, read from a file, or recorded.

use crate::Error;
use measure::Files;
use measure::files::Named;
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

impl Files for Source {
    fn files<E>(&mut self, visit: &mut dyn FnMut(Named<'_>) -> Result<(), E>) -> Result<(), E> {
        match self {
            Self::Traffic(spec) => spec.files(visit),
            Self::Trace(spec) => spec.paths.iter_mut().try_for_each(|path| visit(Named::Read(path))),
        }
    }
}

/// Facts about queries that are known before they are sent.
#[derive(Clone, Debug, Default)]
pub struct SourceFacts {
    /// A survey of the capture, where they come from one.
    pub recorded: Option<Survey>,
    /// Clients that ask over TCP, at most; 0: none does.
    pub tcp: u64,
    /// The share of truncated answers that is asked again, where it is said.
    pub retry: Option<f64>,
}

impl Source {
    /// Reads through what is read while it runs, so that nothing is wrong with it later; what it says of itself.
    ///
    /// # Errors
    /// The first thing that is wrong: file, line and column.
    pub fn check(&self) -> Result<SourceFacts, Error> {
        match self {
            // The names are read when the source is opened.
            Self::Traffic(SourceSpec::Profile(spec)) => {
                let profile = spec.profile()?;
                let over_tcp = profile.classes.iter().filter(|class| class.tcp > 0.0);
                let tcp = over_tcp.map(|class| u64::from(class.clients)).sum();
                Ok(SourceFacts { tcp, retry: profile.retry, ..SourceFacts::default() })
            }
            Self::Traffic(spec) => Ok(spec.check().map(|()| SourceFacts::default())?),
            Self::Trace(spec) => {
                let survey = spec.check()?;
                Ok(SourceFacts { tcp: survey.tcp, recorded: Some(survey), ..SourceFacts::default() })
            }
        }
    }

    /// Returns this source for the `nth` load at one server. A profile gets another seed, because a load that repeated the queries
    /// of the one before would find its answers in a server's packet cache. A file or a capture is unchanged.
    #[must_use]
    pub fn nth(&self, nth: u64) -> Self {
        let mut source = self.clone();
        if let Self::Traffic(SourceSpec::Profile(spec)) = &mut source {
            spec.seed = spec.seed.nth(nth);
        }
        source
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
