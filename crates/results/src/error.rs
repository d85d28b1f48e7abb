//! Errors of run directories.

use std::io;
use std::path::{Path, PathBuf};

/// Why a run directory could not be made, read or added to.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Reading or writing failed.
    #[error("{}: {cause}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// The system's reason.
        cause: io::Error,
    },
    /// A new run would overwrite something.
    #[error("{}: the folder is not empty; go on with that run by --resume, or name another one with -o", path.display())]
    NotEmpty {
        /// The folder.
        path: PathBuf,
    },
    /// Not a run directory.
    #[error("{}: no run.toml in it, so this is not a run directory; name one that 'experiment run' made", path.display())]
    NotARun {
        /// The folder.
        path: PathBuf,
    },
    /// A file of the run directory cannot be understood.
    #[error("{}: {what}; restore the file from a copy, or run the experiment again elsewhere", path.display())]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// The fault in it.
        what: String,
    },
    /// The run directory belongs to another plan.
    #[error("{}: this run was another experiment ({difference}); give the same settings, or name another folder with -o", path.display())]
    OtherPlan {
        /// The run's `run.toml`.
        path: PathBuf,
        /// The first key that differs, and both values.
        difference: String,
    },
    /// Another process adds trials to the same run directory.
    #[error("{}: another dnsrack is writing to this run; wait for its end, or name another folder with -o", path.display())]
    InUse {
        /// The folder.
        path: PathBuf,
    },
    /// The trial is there already.
    #[error("{}: trial {trial} is there already", path.display())]
    Duplicate {
        /// The folder.
        path: PathBuf,
        /// The trial's id.
        trial: u32,
    },
}

impl Error {
    pub(crate) fn io(path: &Path) -> impl FnOnce(io::Error) -> Self + '_ {
        move |cause| Self::Io { path: path.to_owned(), cause }
    }

    pub(crate) fn corrupt(path: &Path, what: impl Into<String>) -> Self {
        Self::Corrupt { path: path.to_owned(), what: what.into() }
    }
}
