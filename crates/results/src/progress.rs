//! What a run is doing at this moment, for those who watch it: a file in its folder, there only while the run goes on.

use crate::Error;
use measure::{Nanos, aside};
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::Path;

const FILE: &str = "progress.json";

/// What a run is doing.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Progress {
    /// Trials of the plan, as far as it is known.
    pub trials: usize,
    /// Of them done, invalid ones and failed ones among them.
    pub done: usize,
    /// Seconds until the end of the plan, as the trials before took; none before the first of them.
    pub left_s: Option<f64>,
    /// What each set of hosts does; most runs have one.
    pub doing: Vec<Doing>,
}

/// What a set of hosts is doing.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Doing {
    /// The number of the set, from 1.
    pub set: u32,
    /// The trial in words.
    pub trial: String,
    /// Its number.
    pub id: u32,
    /// When it began: wall clock, nanoseconds since 1970.
    pub since: Nanos,
    /// What is done for it: `zone …: signing`, `4,999 answered/s, p99 120 µs`.
    pub now: String,
}

impl Progress {
    /// Writes it into a run directory. What was written last counts, so this is not made durable.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn write(&self, dir: &Path) -> Result<(), Error> {
        let file = dir.join(FILE);
        let text = serde_json::to_vec(self).map_err(|e| Error::corrupt(&file, e.to_string()))?;
        aside::write(&file, text).map_err(Error::io(&file))
    }

    /// Reads it; none where the run does nothing, or is not of this version of dnsrack.
    pub fn read(dir: &Path) -> Option<Self> {
        serde_json::from_slice(&fs::read(dir.join(FILE)).ok()?).ok()
    }

    /// Removes it, at the end of the run.
    pub fn remove(dir: &Path) {
        // It may not be there; and where it stays, the run's lock says that nobody is at it.
        let _ = fs::remove_file(dir.join(FILE));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_is_there_while_a_run_goes_on() {
        let folder = tempfile::tempdir().unwrap();
        let progress = Progress {
            trials: 8,
            done: 3,
            left_s: Some(61.5),
            doing: vec![Doing { set: 1, trial: "nsd \"<1>\"".into(), id: 4, since: 5, now: "ready".into() }],
        };
        assert_eq!(Progress::read(folder.path()), None);
        progress.write(folder.path()).unwrap();
        assert_eq!(Progress::read(folder.path()), Some(progress));
        Progress::remove(folder.path());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
