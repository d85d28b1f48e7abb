//! Sets of hosts that make trials at the same time. Each set makes one trial after another, on a thread of its own; a run without
//! `--parallel` has one.

use crate::planned::{Trial, ZonePlan};
use crate::run_context::RunContext;
use crate::shared_cores::Share;
use crate::zones::{self, Prepared};
use crate::{Error, RunEvent, measures, run};
use results::TrialRecord;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Mutex, PoisonError, TryLockError};
use std::thread::{Scope, ScopedJoinHandle};
use std::time::Duration;

/// How often it is checked whether a thread has ended without a word.
const LOOK: Duration = Duration::from_secs(1);

/// The run directory, as all sets need it.
pub struct Place {
    /// The run directory.
    pub dir: PathBuf,
    /// The folder of its zones. It is locked while a zone is made, because several sets may need the same one.
    pub zones: Mutex<PathBuf>,
}

/// The message of a set about its trial.
pub enum Word {
    /// The trial goes on.
    Event(RunEvent),
    /// The trial is done.
    Record(Box<TrialRecord>),
    /// The trial was dropped, because the run is to stop.
    Dropped,
    /// The set makes no more trials.
    Lost(Error),
}

/// A trial to be made, and the folder for its servers' configurations and logs.
type Order = (Trial, PathBuf);

/// The sets of a run.
pub struct Sets<'scope> {
    all: Vec<Set<'scope>>,
    words: Receiver<(usize, Word)>,
}

struct Set<'scope> {
    /// Where it takes its trials from; none once it is lost.
    orders: Option<Sender<Order>>,
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
        let all = contexts.iter().enumerate().map(|(n, context)| {
            let (orders, given) = channel();
            let words = sender.clone();
            let thread = scope.spawn(move || work(n, context, place, &given, &words));
            Set { orders: Some(orders), at: None, before: None, thread }
        });
        Self { all: all.collect(), words }
    }

    /// The sets that wait for a trial, each with the trial that it made before.
    pub fn idle(&self) -> impl Iterator<Item = (usize, Option<&Trial>)> {
        let idle = |set: &&Set| set.orders.is_some() && set.at.is_none();
        self.all.iter().enumerate().filter(move |(_, set)| idle(set)).map(|(n, set)| (n, set.before.as_ref()))
    }

    /// The trials that are being made.
    pub fn at_work(&self) -> impl Iterator<Item = &Trial> {
        self.all.iter().filter_map(|set| set.at.as_ref())
    }

    /// The trials that are being made, and those that were made before by sets that go on.
    pub fn trials(&self) -> impl Iterator<Item = (usize, &Trial)> {
        let going = self.all.iter().enumerate().filter(|(_, set)| set.orders.is_some());
        going.flat_map(|(n, set)| set.at.iter().chain(&set.before).map(move |trial| (n, trial)))
    }

    /// Whether any set makes a trial now.
    pub fn are_busy(&self) -> bool {
        self.at_work().next().is_some()
    }

    /// Whether any set can still make trials.
    pub fn are_left(&self) -> bool {
        self.all.iter().any(|set| set.orders.is_some())
    }

    /// Gives a set that waits its next trial, and the folder for its servers' files.
    pub fn give(&mut self, set: usize, trial: Trial, dir: PathBuf) {
        let set = &mut self.all[set];
        // If its thread has ended, `next` finds that out.
        if let Some(orders) = &set.orders {
            let _ = orders.send((trial.clone(), dir));
        }
        set.at = Some(trial);
    }

    /// Waits for the next message of a set, and gives it with the set's number; none where there is no message for a second.
    ///
    /// # Panics
    /// Where the thread of a set panicked.
    pub fn next(&mut self) -> Option<(usize, Word)> {
        match self.words.recv_timeout(LOOK) {
            Ok((n, word)) => {
                let set = &mut self.all[n];
                match &word {
                    Word::Event(_) => {}
                    Word::Record(_) | Word::Dropped => set.before = set.at.take(),
                    Word::Lost(_) => (set.at, set.before, set.orders) = (None, None, None),
                }
                Some((n, word))
            }
            Err(RecvTimeoutError::Timeout) => {
                let ended = |set: &Set| set.at.is_some() && set.thread.is_finished();
                assert!(!self.all.iter().any(ended), "the thread of a set of hosts panicked");
                None
            }
            Err(RecvTimeoutError::Disconnected) => panic!("the threads of all sets of hosts panicked"),
        }
    }
}

/// Makes the trials that come, one after another.
fn work(
    n: usize,
    context: &RunContext<'_>,
    place: &Place,
    orders: &Receiver<Order>,
    words: &Sender<(usize, Word)>,
) {
    let mut zone: Option<(ZonePlan, Prepared)> = None;
    // When nobody listens any more, the run is over.
    let say = |word| drop(words.send((n, word)));
    for order in orders {
        let word = match make(context, &order, &mut zone, place, &mut |event| say(Word::Event(event))) {
            Ok(Some(record)) => Word::Record(Box::new(record)),
            Ok(None) => Word::Dropped,
            Err(error) => Word::Lost(error),
        };
        say(word);
    }
}

/// Makes a trial, and its zone before it where that is another one. None: the run is to stop.
fn make(
    context: &RunContext<'_>,
    (trial, dir): &Order,
    zone: &mut Option<(ZonePlan, Prepared)>,
    place: &Place,
    tell: &mut dyn FnMut(RunEvent),
) -> Result<Option<TrialRecord>, Error> {
    let (e, stops) = (context.experiment, || context.stop.load(Ordering::Relaxed));
    let _in_trial = context.shared_cores.map(Share::in_trial);
    if context.may_set_up().is_err() {
        return Ok(None);
    }
    if zone.as_ref().is_none_or(|(at, _)| *at != trial.zone) {
        if let Err(TryLockError::WouldBlock) = place.zones.try_lock() {
            tell(RunEvent::Zone {
                label: trial.zone.label(),
                doing: "waiting, because another set makes a zone",
            });
        }
        let zones = place.zones.lock().unwrap_or_else(PoisonError::into_inner);
        let made = zones::prepare(e, &trial.zone, measures::zones_change(e), &zones, context.stop, tell);
        if stops() {
            return Ok(None);
        }
        let failed = |e| Error::Machine(format!("zone {} cannot be made: {e}", trial.zone.label()));
        *zone = Some((trial.zone.clone(), made.map_err(failed)?));
    }
    let (_, prepared) = zone.as_ref().expect("it was just prepared");
    let lost = |why| Error::Machine(format!("trial {} ({}) is lost: {why}", trial.id, trial.words()));
    let record = run::attempts(context, trial, prepared, dir, tell);
    if stops() {
        return Ok(None);
    }
    let record = record.map_err(|e| lost(e.to_string()))?;
    if let Some(why) = record.error.as_ref().and_then(|_| run::unwritable(&place.dir)) {
        let error = record.error.unwrap_or_default();
        return Err(lost(format!("{why} ({error})")));
    }
    Ok(Some(record))
}
