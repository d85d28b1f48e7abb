//! Tells what a run is doing: to the user, and in a file of its folder while it goes on.

use crate::RunEvent;
use results::{Doing, Progress};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// The shortest time between two writes for seconds of a load.
const SELDOM: Duration = Duration::from_millis(900);

/// After this time in which the user read nothing, a reminder is due.
const SILENCE: Duration = Duration::from_secs(60);

/// Tells the user, and keeps the file; it is removed when this is dropped.
pub struct Teller<'a> {
    dir: PathBuf,
    progress: Progress,
    written: Option<Instant>,
    tell: &'a mut dyn FnMut(RunEvent),
    /// When the user last read something of each set.
    said: BTreeMap<u32, Instant>,
}

impl<'a> Teller<'a> {
    /// For a run directory with so many trials done of so many.
    pub fn new(dir: PathBuf, done: usize, trials: usize, tell: &'a mut dyn FnMut(RunEvent)) -> Self {
        let progress = Progress { trials, done, ..Progress::default() };
        Self { dir, progress, written: None, tell, said: BTreeMap::new() }
    }

    /// Tells an event of the run.
    pub fn tell(&mut self, event: RunEvent) {
        self.note(&event, Instant::now());
        (self.tell)(event);
    }

    /// What to remind the user of, with the number of its set from 0: among the trials at work, given by their numbers, the one of
    /// which nothing was said for the longest time. It is due where nothing was said of any of them for a minute. So there is at
    /// most one line a minute, with however many sets.
    pub fn reminder(&self, at_work: &[u32], now: Instant) -> Option<(usize, RunEvent)> {
        let silent = |doing: &Doing| Some(now.saturating_duration_since(*self.said.get(&doing.set)?));
        let all = self.progress.doing.iter().filter(|doing| at_work.contains(&doing.id));
        let all: Vec<(Duration, &Doing)> = all.filter_map(|doing| Some((silent(doing)?, doing))).collect();
        let shortest = all.iter().map(|(silent, _)| *silent).min()?;
        let (_, doing) = all.into_iter().max_by_key(|(silent, _)| *silent)?;
        let seconds = measure::clock::wall().saturating_sub(doing.since) as f64 / 1e9;
        let event = RunEvent::Still { trial: doing.id, seconds, doing: doing.now.clone() };
        (shortest >= SILENCE).then_some((doing.set as usize - 1, event))
    }

    fn note(&mut self, event: &RunEvent, now: Instant) {
        let (several, set, event) = match event {
            RunEvent::OfSet { set, event } => (true, *set, &**event),
            event => (false, 1, event),
        };
        // The seconds of several sets are not shown to the user.
        if !(several && matches!(event, RunEvent::Second { .. })) {
            self.said.insert(set, now);
        }
        let seldom = matches!(event, RunEvent::Second { .. });
        if self.take(set, event) && !(seldom && self.written.is_some_and(|at| now - at < SELDOM)) {
            self.written = Some(now);
            // A full disk ends the run where it matters: at its tables.
            let _ = self.progress.write(&self.dir);
        }
    }

    /// Whether it changes anything.
    fn take(&mut self, set: u32, event: &RunEvent) -> bool {
        match event {
            RunEvent::Trial { trial, of, left } => {
                (self.progress.trials, self.progress.left_s) = (*of, *left);
                let doing = self.of(set);
                (doing.id, doing.trial) = (trial.id, trial.words());
                doing.since = measure::clock::wall();
                doing.now = "begins".into();
            }
            RunEvent::Skipped { .. } => self.progress.done += 1,
            RunEvent::Done { .. } => {
                self.progress.done += 1;
                self.of(set).now = "done".into();
            }
            _ => match event.doing() {
                Some(now) => self.of(set).now = now,
                None => return false,
            },
        }
        true
    }

    fn of(&mut self, set: u32) -> &mut Doing {
        let all = &mut self.progress.doing;
        let at = all.iter().position(|doing| doing.set == set).unwrap_or_else(|| {
            all.push(Doing { set, ..Doing::default() });
            all.len() - 1
        });
        &mut all[at]
    }
}

impl Drop for Teller<'_> {
    fn drop(&mut self) {
        Progress::remove(&self.dir);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan;
    use std::path::Path;

    #[test]
    fn the_file_follows_the_events_and_goes_with_the_run() {
        let folder = tempfile::tempdir().unwrap();
        let nobody = &mut |_| {};
        let mut teller = Teller::new(folder.path().to_owned(), 2, 9, nobody);
        let read = || Progress::read(folder.path());
        teller.tell(RunEvent::Remark { text: "nothing of this".into() });
        assert_eq!(read(), None);
        teller.tell(RunEvent::Ready { seconds: 0.5 });
        assert_eq!(read().unwrap().doing[0].now, "ready after 0.50 s");
        // Seconds are written once a second.
        teller.tell(RunEvent::Second { text: "4,999 answered/s".into() });
        assert_eq!(read().unwrap().doing[0].now, "ready after 0.50 s");
        let event = Box::new(RunEvent::Zone { label: "COM".into(), doing: "signing" });
        teller.written = None;
        teller.tell(RunEvent::OfSet { set: 2, event });
        let progress = read().unwrap();
        assert_eq!((progress.done, progress.trials, progress.doing.len()), (2, 9, 2));
        assert_eq!((progress.doing[1].set, progress.doing[1].now.as_str()), (2, "zone COM: signing"));
        drop(teller);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    /// A teller of two sets, which make the trials 1 and 2 of the catalogue's `demo` since then.
    fn with_two_sets<'a>(dir: &Path, nobody: &'a mut dyn FnMut(RunEvent), began: Instant) -> Teller<'a> {
        let trials = plan(&crate::open_with("demo", &["servers=nsd,knot"]).unwrap());
        let mut teller = Teller::new(dir.to_owned(), 0, trials.len(), nobody);
        for (set, trial) in (1..=2).zip(&trials) {
            let event = Box::new(RunEvent::Trial { trial: trial.clone(), of: trials.len(), left: None });
            teller.note(&RunEvent::OfSet { set, event }, began);
        }
        teller
    }

    #[test]
    fn a_minute_without_a_word_brings_a_reminder_of_the_set_that_was_silent_the_longest() {
        let (folder, began) = (tempfile::tempdir().unwrap(), Instant::now());
        let nobody = &mut |_| {};
        let mut teller = with_two_sets(folder.path(), nobody, began);
        let at = |seconds| began + Duration::from_secs(seconds);
        let of = |set, event| RunEvent::OfSet { set, event: Box::new(event) };
        let reminder = |teller: &Teller<'_>, ids: &[u32], seconds| match teller.reminder(ids, at(seconds)) {
            Some((set, RunEvent::Still { trial, doing, .. })) => Some((set, trial, doing)),
            None => None,
            other => panic!("{other:?}"),
        };
        teller.note(&of(2, RunEvent::Starting { servers: vec!["bind".into(), "nsd".into()] }), at(10));
        assert_eq!(reminder(&teller, &[1, 2], 69), None);
        assert_eq!(reminder(&teller, &[1, 2], 70), Some((0, 1, "begins".into())));
        // The seconds of several sets are not shown, but a reminder has the last one.
        teller.note(&of(1, RunEvent::Second { text: "batch 1 of 24".into() }), at(70));
        assert_eq!(reminder(&teller, &[1, 2], 71), Some((0, 1, "batch 1 of 24".into())));
        let still = RunEvent::Still { trial: 1, seconds: 71.0, doing: "batch 1 of 24".into() };
        teller.note(&of(1, still), at(71));
        assert_eq!(reminder(&teller, &[1, 2], 130), None);
        assert_eq!(reminder(&teller, &[1, 2], 131), Some((1, 2, "starting bind, nsd".into())));
        // A set that is lost or done is not remembered.
        assert_eq!(reminder(&teller, &[1], 131), Some((0, 1, "batch 1 of 24".into())));
        assert_eq!(reminder(&teller, &[], 1_000), None);
    }
}
