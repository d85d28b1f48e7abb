//! The runs below some folders, as they are now.
//!
//! A run is read again when one of its files is another one; its histograms and series are read when its report is asked for. Files of a
//! run directory are replaced whole, so a run that is read while it goes on is whole.

use crate::Error;
use results::{Progress, RunDir};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How deep below a folder runs are looked for.
const DEEPEST: usize = 8;

/// How many folders are looked into at most.
const MOST: usize = 100_000;

/// How long what was found holds.
const FRESH: Duration = Duration::from_secs(1);

/// A run, without histograms and series.
pub struct Run {
    /// Its folder below the folder that was named.
    pub name: String,
    /// Its folder.
    pub folder: PathBuf,
    /// Its trials; or why it cannot be read.
    pub dir: Result<RunDir, String>,
    /// How many trials are not done.
    pub undone: usize,
}

impl Run {
    /// What it does now; none where nobody is at it.
    pub fn progress(&self) -> Option<Progress> {
        RunDir::is_at_work(&self.folder).then(|| Progress::read(&self.folder).unwrap_or_default())
    }
}

/// Which files a run consists of: device, number, length and time of each.
type Stamp = Vec<Option<(u64, u64, u64, i64, i64)>>;

struct Known {
    stamp: Stamp,
    run: Arc<Run>,
}

/// All runs.
pub struct Store {
    roots: Vec<(String, PathBuf)>,
    found: Mutex<(Option<Instant>, BTreeMap<String, Known>)>,
}

impl Store {
    /// Of these folders, which must be there. Where there are several, the names of their runs begin with the folder's.
    ///
    /// # Errors
    /// [`Error::Folder`].
    pub fn new(dirs: &[PathBuf]) -> Result<Self, Error> {
        let mut roots: Vec<(String, PathBuf)> = Vec::new();
        for dir in dirs {
            let path = dir.canonicalize().map_err(|source| Error::Folder { path: dir.clone(), source })?;
            fs::read_dir(&path).map_err(|source| Error::Folder { path: dir.clone(), source })?;
            let own = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let same = |name: &str| roots.iter().any(|(known, _)| known == name);
            let name = match (dirs.len(), is_run(&path)) {
                (1, false) => String::new(),
                _ if !same(&own) => own,
                _ => (2..).map(|n| format!("{own}-{n}")).find(|name| !same(name)).unwrap_or(own),
            };
            roots.push((name, path));
        }
        Ok(Self { roots, found: Mutex::default() })
    }

    /// All runs, by name.
    pub fn runs(&self) -> Vec<Arc<Run>> {
        let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        let (looked, known) = &mut *found;
        if looked.is_none_or(|at| at.elapsed() > FRESH) {
            let mut folders = BTreeMap::new();
            let mut left = MOST;
            for (name, path) in &self.roots {
                look(path, name, DEEPEST, &mut left, &mut folders);
            }
            known.retain(|name, _| folders.contains_key(name));
            for (name, folder) in folders {
                let stamp = stamp(&folder);
                if known.get(&name).is_none_or(|known| known.stamp != stamp) {
                    let dir = RunDir::open_figures(&folder).map_err(|e| e.to_string());
                    let undone = dir.as_ref().map_or(0, RunDir::undone);
                    let run = Arc::new(Run { name: name.clone(), folder, dir, undone });
                    known.insert(name, Known { stamp, run });
                }
            }
            *looked = Some(Instant::now());
        }
        known.values().map(|known| Arc::clone(&known.run)).collect()
    }

    /// The run of this name.
    pub fn run(&self, name: &str) -> Option<Arc<Run>> {
        self.runs().into_iter().find(|run| run.name == name)
    }

    /// Its folder.
    pub fn folder(&self, name: &str) -> Option<PathBuf> {
        self.run(name).map(|run| run.folder.clone())
    }
}

fn is_run(folder: &Path) -> bool {
    folder.join("run.toml").is_file()
}

/// Finds runs. Nothing is looked for in a run, nor in a hidden folder, nor behind a symbolic link.
fn look(folder: &Path, name: &str, deeper: usize, left: &mut usize, found: &mut BTreeMap<String, PathBuf>) {
    if is_run(folder) {
        found.insert(name.to_owned(), folder.to_owned());
        return;
    }
    // A folder that cannot be read has no run that could be shown.
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    for entry in entries {
        if deeper == 0 || *left == 0 {
            return;
        }
        let own = entry.file_name().to_string_lossy().into_owned();
        if own.starts_with('.') || !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            continue;
        }
        *left -= 1;
        let name = if name.is_empty() { own } else { format!("{name}/{own}") };
        look(&entry.path(), &name, deeper - 1, left, found);
    }
}

/// Which files a run consists of now.
fn stamp(folder: &Path) -> Stamp {
    let of = |name: &str| {
        let m = fs::metadata(folder.join(name)).ok()?;
        Some((m.dev(), m.ino(), m.len(), m.mtime(), m.mtime_nsec()))
    };
    ["run.toml", "environment.json", "trials.parquet", "undone"].iter().map(|name| of(name)).collect()
}
