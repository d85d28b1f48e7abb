//! The specification of a sender's queries; it travels as JSON to the roles and stands in TOML files.

use crate::lists::one_or_many;
use crate::{Error, Kind, Lists, NameList, Profile, ProfileChanges, Queries, QuerySource, Synthesis};
use measure::files::Named;
use measure::{Files, Seed};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::sync::Arc;
use wire::query::Edns;

/// Where queries come from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
#[allow(clippy::large_enum_variant, reason = "one a run")]
pub enum SourceSpec {
    /// A file of queries.
    Queries(QueriesSpec),
    /// A profile over names.
    Profile(ProfileSpec),
}

/// A file in dnsperf's format: `name type` a line; `;` and `#` begin comments.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QueriesSpec {
    /// The file; a regular one, as it is read by every worker.
    pub path: PathBuf,
    /// The OPT record of every query; none where absent.
    #[serde(default)]
    pub edns: Option<EdnsSpec>,
    /// Begin again at the end of the file (the default); otherwise the source ends there.
    #[serde(default = "yes")]
    pub cycle: bool,
}

/// The fields of an OPT record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EdnsSpec {
    /// The largest UDP answer that is welcome, in octets.
    pub udp_size: u16,
    /// DO.
    #[serde(default)]
    pub do_bit: bool,
}

/// A profile over names.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProfileSpec {
    /// A built-in profile (`rzaia`, `isc`, `nominet`) or the path of a profile file.
    pub profile: String,
    /// Lists of names, see [`Self::lists`]; in JSON one alone or an array.
    #[serde(default, with = "one_or_many", skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<NameList>,
    /// The seed.
    #[serde(default = "one")]
    pub seed: Seed,
    /// Values that replace those of the profile.
    #[serde(default, skip_serializing_if = "ProfileChanges::is_empty")]
    pub changes: ProfileChanges,
}

fn yes() -> bool {
    true
}

fn one() -> Seed {
    Seed(1)
}

impl From<EdnsSpec> for Edns {
    fn from(e: EdnsSpec) -> Self {
        Self { udp_size: e.udp_size, do_bit: e.do_bit }
    }
}

impl Files for SourceSpec {
    fn files<E>(&mut self, visit: &mut dyn FnMut(Named<'_>) -> Result<(), E>) -> Result<(), E> {
        match self {
            Self::Queries(spec) => visit(Named::Read(&mut spec.path)),
            Self::Profile(spec) => {
                if !Profile::is_built_in(&spec.profile) {
                    let mut path = PathBuf::from(&spec.profile);
                    visit(Named::Read(&mut path))?;
                    spec.profile = path.to_string_lossy().into_owned();
                }
                spec.names.iter_mut().try_for_each(|list| visit(Named::Read(&mut list.file)))?;
                spec.changes.addresses.iter_mut().try_for_each(|file| visit(Named::Read(file)))
            }
        }
    }
}

impl SourceSpec {
    /// Reads everything once, so that nothing is wrong with it later.
    ///
    /// # Errors
    /// The first thing that is wrong: file, line and column.
    pub fn check(&self) -> Result<(), Error> {
        match self {
            Self::Queries(spec) => crate::check_queries_file(&spec.path).map(drop),
            Self::Profile(spec) => spec.load().map(drop),
        }
    }

    /// The source of worker `worker` of `workers`. To open several at once, use [`Self::open_all`]:
    /// a profile's names are then read once and shared.
    ///
    /// # Errors
    /// As [`Self::check`]; but a file of queries is not read through here.
    pub fn open(&self, worker: u32, workers: u32) -> Result<Box<dyn QuerySource + Send>, Error> {
        if worker >= workers {
            return Err(Error::Spec(format!("worker {worker} of {workers}: the first is 0")));
        }
        Ok(match self {
            Self::Queries(spec) => Box::new(Queries::open(spec, worker, workers)?),
            Self::Profile(spec) => {
                let (profile, names) = spec.load()?;
                Box::new(Synthesis::new(&profile, Arc::new(names), spec.seed, worker, workers)?)
            }
        })
    }

    /// The sources of all workers, in order.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn open_all(&self, workers: u32) -> Result<Vec<Box<dyn QuerySource + Send>>, Error> {
        let mut sources: Vec<Box<dyn QuerySource + Send>> = Vec::new();
        match self {
            Self::Queries(spec) => {
                for share in Queries::open_all(spec, workers)? {
                    sources.push(Box::new(share));
                }
            }
            Self::Profile(spec) => {
                let (profile, names) = spec.load()?;
                let source = Synthesis::new(&profile, Arc::new(names), spec.seed, 0, workers)?;
                for worker in 0..workers {
                    sources.push(Box::new(source.of_worker(worker)));
                }
            }
        }
        Ok(sources)
    }
}

impl ProfileSpec {
    /// The profile with its changes.
    ///
    /// # Errors
    /// As [`Profile::load`] and [`ProfileChanges::apply`].
    pub fn profile(&self) -> Result<Profile, Error> {
        let mut profile = Profile::load(&self.profile)?;
        self.changes.apply(&mut profile)?;
        Ok(profile)
    }

    /// Refuses changes that these names leave without effect.
    ///
    /// # Errors
    /// [`Error::Spec`]: labels below names that are not delegations.
    pub fn check_changes(&self, names: &Lists) -> Result<(), Error> {
        if self.changes.below.is_some() && names.existing().all(|l| l.names().kind() != Kind::Delegations) {
            let what = "below: labels can go before names of delegations alone, and these names are others";
            return Err(Error::Spec(what.into()));
        }
        Ok(())
    }

    /// Reads the names that are asked for; `progress` hears now and then the octets read of zones.
    ///
    /// # Errors
    /// As [`Lists::open`] and [`Self::check_changes`].
    pub fn names(&self, profile: &Profile, progress: &mut dyn FnMut(u64)) -> Result<Lists, Error> {
        let names = Lists::open(&self.lists(profile), self.seed, profile.want(), progress)?;
        self.check_changes(&names)?;
        Ok(names)
    }

    /// Its own lists of names that exist, where it has any, take the place of the profile's; the profile's
    /// lists of names that do not exist stay where it has none of those.
    pub fn lists(&self, profile: &Profile) -> Vec<NameList> {
        let own = |exist| self.names.iter().any(|list| list.exist == exist);
        let stay = profile.lists.iter().filter(|list| !own(list.exist));
        self.names.iter().chain(stay).cloned().collect()
    }

    fn load(&self) -> Result<(Profile, Lists), Error> {
        let profile = self.profile()?;
        let names = self.names(&profile, &mut |_| {})?;
        Ok((profile, names))
    }
}
