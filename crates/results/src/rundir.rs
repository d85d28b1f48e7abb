//! One execution of an experiment, in one folder.

use crate::machine_changed::machine_changed;
use crate::{Error, TrialRecord, tables};
use measure::Reason;
use measure::aside::{self, Aside};
use serde_json::Value;
use std::fs::{self, File, TryLockError};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

const RUN: &str = "run.toml";
const ENVIRONMENT: &str = "environment.json";
const TRIALS: &str = "trials.parquet";
const LATENCY: &str = "latency.parquet";
const SERIES: &str = "series.parquet";
/// How many trials are not done; there only while that is so.
const UNDONE: &str = "undone";

/// A run directory: `run.toml`, `environment.json`, three Parquet tables, `servers/`.
///
/// Trials are added one by one. The tables are written aside and renamed, `trials.parquet` last: a
/// trial is there when it is there, and whatever stopped the run before that left nothing of it.
#[derive(Debug)]
pub struct RunDir {
    dir: PathBuf,
    run_toml: String,
    environment: Value,
    trials: Vec<TrialRecord>,
    /// What is not as it was when the run began: a warning of the trials that are added.
    changed: Option<Reason>,
    /// Held from the first write to the end, so that two runs cannot share a folder.
    lock: Option<File>,
}

impl RunDir {
    /// Makes a run directory (and the folders above it) for the plan `run_toml` on the machine
    /// `environment`.
    ///
    /// # Errors
    /// Where the folder exists and is not empty, or cannot be written; then nothing is left of it.
    pub fn create(path: &Path, run_toml: &str, environment: &Value) -> Result<Self, Error> {
        let existed = path.exists();
        if existed && fs::read_dir(path).map_err(Error::io(path))?.next().is_some() {
            return Err(Error::NotEmpty { path: path.to_owned() });
        }
        fs::create_dir_all(path).map_err(Error::io(path))?;
        let mut run = Self {
            dir: path.to_owned(),
            run_toml: run_toml.to_owned(),
            environment: environment.clone(),
            trials: Vec::new(),
            changed: None,
            lock: Some(lock(path)?),
        };
        if let Err(error) = run.write_new() {
            // The first error is the one to tell; what remains is at most an empty folder.
            for name in [RUN, ENVIRONMENT, TRIALS, LATENCY, SERIES] {
                let _ = fs::remove_file(path.join(name));
            }
            if !existed {
                let _ = fs::remove_dir(path);
            }
            return Err(error);
        }
        Ok(run)
    }

    /// `run.toml` comes last: a folder that has it is a whole run directory.
    fn write_new(&mut self) -> Result<(), Error> {
        self.write_tables()?;
        self.write_plan()
    }

    fn write_plan(&self) -> Result<(), Error> {
        let json = format!("{:#}\n", self.environment);
        self.write_aside(ENVIRONMENT, |out| out.write_all(json.as_bytes()).map_err(|e| e.to_string()))?;
        self.write_aside(RUN, |out| out.write_all(self.run_toml.as_bytes()).map_err(|e| e.to_string()))
    }

    /// Reads a run directory.
    ///
    /// # Errors
    /// Where it is not a run directory, or a file in it is missing or cannot be understood; the error names the file.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let mut run = Self::open_figures(path)?;
        run.add_histograms()?;
        run.add_series()?;
        Ok(run)
    }

    /// Reads the histograms of its trials, which [`Self::open_figures`] leaves out.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn add_histograms(&mut self) -> Result<(), Error> {
        tables::add_histograms(&self.dir.join(LATENCY), &mut self.trials)
    }

    /// Reads the series of its trials, which [`Self::open_figures`] leaves out.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn add_series(&mut self) -> Result<(), Error> {
        tables::add_series(&self.dir.join(SERIES), &mut self.trials)
    }

    /// Reads a run directory without the histograms and the series of its trials, which are nearly all of it: what a list or a
    /// history of many runs needs.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn open_figures(path: &Path) -> Result<Self, Error> {
        let run = path.join(RUN);
        if !run.is_file() {
            // A wrong path should not read as a broken run.
            fs::read_dir(path).map_err(Error::io(path))?;
            return Err(Error::NotARun { path: path.to_owned() });
        }
        let run_toml = String::from_utf8(fs::read(&run).map_err(Error::io(&run))?)
            .map_err(|e| Error::corrupt(&run, format!("not UTF-8: {e}")))?;
        let file = path.join(ENVIRONMENT);
        let text = fs::read(&file).map_err(Error::io(&file))?;
        let environment =
            serde_json::from_slice(&text).map_err(|e| Error::corrupt(&file, format!("not JSON: {e}")))?;
        let trials = tables::read_trials(&path.join(TRIALS))?;
        Ok(Self { dir: path.to_owned(), run_toml, environment, trials, changed: None, lock: None })
    }

    /// Reads a run directory to go on with it: nobody else can from here on. What a process that was killed had half
    /// written is removed.
    ///
    /// # Errors
    /// As [`Self::open`]; [`Error::InUse`] where another process is at it.
    pub fn resume(path: &Path) -> Result<Self, Error> {
        // A folder that is no run is said to be none, and not locked.
        Self::open(path)?;
        let lock = lock(path)?;
        for entry in fs::read_dir(path).map_err(Error::io(path))? {
            let file = entry.map_err(Error::io(path))?.path();
            if file.file_name().is_some_and(aside::is_aside) {
                fs::remove_file(&file).map_err(Error::io(&file))?;
            }
        }
        Ok(Self { lock: Some(lock), ..Self::open(path)? })
    }

    /// Adds a trial; when this returns, it is kept. Rows of the tables that no trial claims are dropped.
    ///
    /// # Errors
    /// Where the trial's id is there already, another process writes to the run, or writing fails; then
    /// the run directory is as it was.
    pub fn append(&mut self, trial: TrialRecord) -> Result<(), Error> {
        self.append_all(vec![trial])
    }

    /// Adds several trials; when this returns, all are kept.
    ///
    /// # Errors
    /// As [`Self::append`]; then none of them is there.
    pub fn append_all(&mut self, trials: Vec<TrialRecord>) -> Result<(), Error> {
        if self.lock.is_none() {
            self.lock = Some(lock(&self.dir)?);
            // Read before the lock was held: others may have added trials since.
            self.trials = Self::open(&self.dir)?.trials;
        }
        let before = self.trials.len();
        for mut trial in trials {
            trial.outcome.validity.warn_for(self.changed.clone());
            if self.trials.iter().any(|t| t.id == trial.id) {
                self.trials.truncate(before);
                return Err(Error::Duplicate { path: self.dir.clone(), trial: trial.id });
            }
            self.trials.push(trial);
        }
        self.write_tables().inspect_err(|_| self.trials.truncate(before))
    }

    /// Notes how many trials of the plan are not done yet, so that a run that is ended before says so.
    ///
    /// # Errors
    /// Where that cannot be written.
    pub fn note_undone(&self, trials: usize) -> Result<(), Error> {
        let path = self.dir.join(UNDONE);
        match trials {
            0 if path.exists() => fs::remove_file(&path).map_err(Error::io(&path)),
            0 => Ok(()),
            n => self.write_aside(UNDONE, |out| writeln!(out, "{n}").map_err(|e| e.to_string())),
        }
    }

    /// How many trials were not done when the run was ended; 0 where all were, and of runs that do not say.
    pub fn undone(&self) -> usize {
        let text = fs::read_to_string(self.dir.join(UNDONE)).unwrap_or_default();
        text.trim().parse().unwrap_or(0)
    }

    /// Whether a process is at the run in this folder now.
    pub fn is_at_work(path: &Path) -> bool {
        // A shared lock, so that two who look do not take each other for the run.
        let tried = File::open(path).map(|file| file.try_lock_shared());
        matches!(tried, Ok(Err(TryLockError::WouldBlock)))
    }

    fn write_tables(&self) -> Result<(), Error> {
        self.write_aside(LATENCY, |out| tables::write_latency(&self.trials, out))?;
        self.write_aside(SERIES, |out| tables::write_series(&self.trials, out))?;
        self.write_aside(TRIALS, |out| tables::write_trials(&self.trials, out))
    }

    /// Writes a file of the run directory aside and renames it into place.
    fn write_aside(
        &self,
        name: &str,
        write: impl FnOnce(&mut File) -> Result<(), String>,
    ) -> Result<(), Error> {
        let path = self.dir.join(name);
        let mut aside = Aside::create(&path).map_err(Error::io(&path))?;
        let file = aside.file();
        write(file).map_err(|e| Error::io(&path)(std::io::Error::other(e)))?;
        file.sync_data().map_err(Error::io(&path))?;
        aside.finish().map_err(Error::io(&path))
    }

    /// Goes on in this environment. If it is not the one in which the run began, the trials that are added have the warning
    /// `machine_changed`, because figures from before and after may differ for that reason alone.
    pub fn go_on_in(&mut self, environment: &Value) {
        self.changed = machine_changed(&self.environment, environment);
    }

    /// Takes on the plan `run_toml` where it differs from this run's in more `repeats` alone, with the command that gives all of
    /// them. Otherwise nothing is changed.
    ///
    /// # Errors
    /// [`Error::Corrupt`] where either plan is no TOML; where the files cannot be written.
    pub fn take_more_repeats(&mut self, run_toml: &str, command: &str) -> Result<(), Error> {
        const REPEATS: &str = "repeats";
        let (mut kept, new) = (self.plan(&self.run_toml)?, self.plan(run_toml)?);
        let repeats = |plan: &toml::Table| plan.get(REPEATS).and_then(toml::Value::as_integer);
        if repeats(&new) <= repeats(&kept) {
            return Ok(());
        }
        kept.extend(new.get(REPEATS).map(|repeats| (REPEATS.into(), repeats.clone())));
        if kept != new {
            return Ok(());
        }
        self.environment["command"] = command.into();
        run_toml.clone_into(&mut self.run_toml);
        self.write_plan()
    }

    /// Checks that `run_toml` is the plan of this run: the same keys and values, whatever the layout,
    /// order and comments.
    ///
    /// # Errors
    /// [`Error::OtherPlan`] with the first difference; [`Error::Corrupt`] where either is no TOML.
    pub fn same_plan(&self, run_toml: &str) -> Result<(), Error> {
        let (kept, new) = (self.plan(&self.run_toml)?, self.plan(run_toml)?);
        match difference("", &toml::Value::Table(kept), &toml::Value::Table(new)) {
            None => Ok(()),
            Some(difference) => Err(Error::OtherPlan { path: self.dir.join(RUN), difference }),
        }
    }

    fn plan(&self, text: &str) -> Result<toml::Table, Error> {
        toml::from_str(text).map_err(|e| Error::corrupt(&self.dir.join(RUN), e.to_string()))
    }

    /// The folder.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The experiment as executed: the text of `run.toml`.
    pub fn run_toml(&self) -> &str {
        &self.run_toml
    }

    /// The name of the experiment, as `run.toml` has it; none where it has none.
    pub fn planned_name(&self) -> Option<String> {
        let plan: toml::Table = toml::from_str(&self.run_toml).ok()?;
        plan.get("name")?.as_str().map(str::to_owned)
    }

    /// The machine and its software: `environment.json`.
    pub fn environment(&self) -> &Value {
        &self.environment
    }

    /// When the run began, by its machine's clock: seconds since 1970. None of a run directory that does not say so.
    pub fn started(&self) -> Option<i64> {
        self.environment.get("machine")?.get("unix_time")?.as_i64()
    }

    /// The trials, in the order in which they finished.
    pub fn trials(&self) -> &[TrialRecord] {
        &self.trials
    }

    /// Where the configurations and logs of a trial's servers are kept: `servers/<trial>`. Not created here.
    pub fn servers_dir(&self, trial: u32) -> PathBuf {
        self.dir.join("servers").join(trial.to_string())
    }
}

/// How often the lock is tried for, and the time between: whoever looks whether a run is at work holds it for a moment.
const TRIES: u32 = 6;
const BETWEEN: Duration = Duration::from_millis(20);

/// Takes the folder's lock, which the system gives back when the process ends, however it ends.
fn lock(dir: &Path) -> Result<File, Error> {
    let file = File::open(dir).map_err(Error::io(dir))?;
    for attempt in 0..TRIES {
        if attempt > 0 {
            std::thread::sleep(BETWEEN);
        }
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::WouldBlock) => {}
            Err(TryLockError::Error(cause)) => return Err(Error::Io { path: dir.to_owned(), cause }),
        }
    }
    Err(Error::InUse { path: dir.to_owned() })
}

/// The first key at which two values differ, with both values.
fn difference(key: &str, kept: &toml::Value, new: &toml::Value) -> Option<String> {
    let (toml::Value::Table(a), toml::Value::Table(b)) = (kept, new) else {
        return (kept != new).then(|| format!("{key} was {kept}, is {new}"));
    };
    let inner = |k: &str| if key.is_empty() { k.to_owned() } else { format!("{key}.{k}") };
    let missing = |k: &String| !b.contains_key(k);
    if let Some(k) = a.keys().find(|k| missing(k)) {
        return Some(format!("{} is not given any more", inner(k)));
    }
    if let Some(k) = b.keys().find(|k| !a.contains_key(*k)) {
        return Some(format!("{} was not given", inner(k)));
    }
    a.iter().find_map(|(k, v)| difference(&inner(k), v, &b[k]))
}
