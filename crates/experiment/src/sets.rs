//! Sets of hosts that make trials at the same time. Each set makes one trial after another, on a thread of its own; a run without
//! `--parallel` has one.

use crate::planned::{Trial, ZonePlan};
use crate::run_context::RunContext;
use crate::zones::{self, Prepared};
use crate::{Error, RunEvent, measures, run};
use measure::params;
use results::TrialRecord;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Mutex, PoisonError};
use std::thread::{Scope, ScopedJoinHandle};
use std::time::Duration;

/// How often it is checked whether a thread has ended without a word.
const LOOK: Duration = Duration::from_secs(1);

/// What all sets need of the run directory.
pub struct Place {
    /// The run directory.
    pub dir: PathBuf,
    /// Held while a zone is made, as several sets may want the same one.
    pub zones: Mutex<()>,
}

impl Place {
    /// Where zones are.
    pub fn zones_dir(&self) -> PathBuf {
        self.dir.join("zones")
    }

    /// Where the configurations and logs of a trial's servers go.
    fn servers_dir(&self, trial: &Trial) -> PathBuf {
        self.dir.join("servers").join(trial.id.to_string())
    }
}

/// What a set says of its trial.
pub enum Word {
    /// Its progress.
    Event(RunEvent),
    /// It is done.
    Record(Box<TrialRecord>),
    /// It was dropped, as the run is to stop.
    Dropped,
    /// The set makes no more trials.
    Lost(Error),
}

/// The sets of a run.
pub struct Sets<'scope> {
    all: Vec<Set<'scope>>,
    words: Receiver<(usize, Word)>,
}

struct Set<'scope> {
    /// Where it takes its trials from; none once it is lost.
    trials: Option<Sender<Trial>>,
    /// The trial that it makes now.
    at: Option<Trial>,
    /// The one before.
    before: Option<Trial>,
    thread: ScopedJoinHandle<'scope, ()>,
}

impl<'scope> Sets<'scope> {
    /// Starts a thread for each set.
    pub fn start(
        scope: &'scope Scope<'scope, '_>,
        contexts: &'scope [RunContext<'scope>],
        place: &'scope Place,
    ) -> Self {
        let (sender, words) = channel();
        let several = contexts.len() > 1;
        let all = contexts.iter().enumerate().map(|(n, context)| {
            let (trials, given) = channel();
            let words = sender.clone();
            let thread = scope.spawn(move || work(n, several, context, place, &given, &words));
            Set { trials: Some(trials), at: None, before: None, thread }
        });
        Self { all: all.collect(), words }
    }

    /// The sets that wait for a trial, each with the trial that it made before.
    pub fn idle(&self) -> impl Iterator<Item = (usize, Option<&Trial>)> {
        let idle = |set: &&Set| set.trials.is_some() && set.at.is_none();
        self.all.iter().enumerate().filter(move |(_, set)| idle(set)).map(|(n, set)| (n, set.before.as_ref()))
    }

    /// The trials that are being made, and those that were made before by sets that go on.
    pub fn trials(&self) -> impl Iterator<Item = (usize, &Trial)> {
        let going = self.all.iter().enumerate().filter(|(_, set)| set.trials.is_some());
        going.flat_map(|(n, set)| set.at.iter().chain(&set.before).map(move |trial| (n, trial)))
    }

    /// Whether any set makes a trial now.
    pub fn are_busy(&self) -> bool {
        self.all.iter().any(|set| set.at.is_some())
    }

    /// Whether any set can still make trials.
    pub fn are_left(&self) -> bool {
        self.all.iter().any(|set| set.trials.is_some())
    }

    /// Gives a set that waits its next trial.
    pub fn give(&mut self, set: usize, trial: Trial) {
        let set = &mut self.all[set];
        // A thread that is gone says so by its end.
        if let Some(trials) = &set.trials {
            let _ = trials.send(trial.clone());
        }
        set.at = Some(trial);
    }

    /// Waits for what a set says next, and gives its number with that.
    ///
    /// # Panics
    /// Where the thread of a set panicked.
    pub fn next(&mut self) -> (usize, Word) {
        loop {
            match self.words.recv_timeout(LOOK) {
                Ok((n, word)) => {
                    let set = &mut self.all[n];
                    match &word {
                        Word::Event(_) => {}
                        Word::Record(_) | Word::Dropped => set.before = set.at.take(),
                        Word::Lost(_) => (set.at, set.before, set.trials) = (None, None, None),
                    }
                    return (n, word);
                }
                Err(RecvTimeoutError::Timeout) => {
                    let ended = |set: &Set| set.at.is_some() && set.thread.is_finished();
                    assert!(!self.all.iter().any(ended), "the thread of a set of hosts panicked");
                }
                Err(RecvTimeoutError::Disconnected) => panic!("the threads of all sets of hosts panicked"),
            }
        }
    }
}

/// Makes the trials that come, one after another.
fn work(
    n: usize,
    several: bool,
    context: &RunContext<'_>,
    place: &Place,
    trials: &Receiver<Trial>,
    words: &Sender<(usize, Word)>,
) {
    let mut zone: Option<(ZonePlan, Prepared)> = None;
    // Where nobody listens any more, the run is over.
    let say = |word| drop(words.send((n, word)));
    for trial in trials {
        let word = match make(context, &trial, &mut zone, place, &mut |event| say(Word::Event(event))) {
            Ok(Some(mut record)) => {
                if several {
                    record.add_param(params::SET, (n + 1).to_string());
                }
                Word::Record(Box::new(record))
            }
            Ok(None) => Word::Dropped,
            Err(error) => Word::Lost(error),
        };
        say(word);
    }
}

/// Makes a trial, and its zone before it where that is another one. None: the run is to stop.
fn make(
    context: &RunContext<'_>,
    trial: &Trial,
    zone: &mut Option<(ZonePlan, Prepared)>,
    place: &Place,
    tell: &mut dyn FnMut(RunEvent),
) -> Result<Option<TrialRecord>, Error> {
    let (e, stops) = (context.experiment, || context.stop.load(Ordering::Relaxed));
    if zone.as_ref().is_none_or(|(at, _)| *at != trial.zone) {
        let _made_by_one = place.zones.lock().unwrap_or_else(PoisonError::into_inner);
        let changes = measures::zones_change(e);
        let made = zones::prepare(e, &trial.zone, changes, &place.zones_dir(), context.stop, tell);
        if stops() {
            return Ok(None);
        }
        let what = || format!("zone {} cannot be made", trial.zone.label());
        *zone = Some((trial.zone.clone(), made.map_err(|e| lost(what(), &place.dir, e.to_string()))?));
    }
    let (_, prepared) = zone.as_ref().expect("it was just prepared");
    let what = || format!("trial {} ({}) is lost", trial.id, trial.words());
    let record = run::attempts(context, trial, prepared, &place.servers_dir(trial), tell);
    let record = record.map_err(|e| lost(what(), &place.dir, e.to_string()))?;
    if stops() {
        return Ok(None);
    }
    if let Some(why) = record.error.as_ref().and_then(|_| run::unwritable(&place.dir)) {
        let error = record.error.unwrap_or_default();
        return Err(lost(what(), &place.dir, format!("{why} ({error})")));
    }
    Ok(Some(record))
}

/// The error that ends a run: a trial that cannot be kept, or a zone that cannot be made.
pub fn lost(what: String, dir: &Path, why: String) -> Error {
    Error::Machine(format!(
        "{what}: {why}; the trials before it are kept: mend that, and go on with --resume -o {}",
        dir.display()
    ))
}
