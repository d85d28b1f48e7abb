//! What a run is doing, in a file of its folder while it goes on.

use crate::RunEvent;
use results::{Doing, Progress};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// The shortest time between two writes for seconds of a load.
const SELDOM: Duration = Duration::from_millis(900);

/// Keeps the file; it is removed when this is dropped.
pub struct Watched {
    dir: PathBuf,
    progress: Progress,
    written: Option<Instant>,
}

impl Watched {
    /// For a run directory with so many trials done of so many.
    pub fn new(dir: PathBuf, done: usize, trials: usize) -> Self {
        Self { dir, progress: Progress { trials, done, ..Progress::default() }, written: None }
    }

    /// Takes an event of the run.
    pub fn note(&mut self, event: &RunEvent) {
        let (set, event) = match event {
            RunEvent::OfSet { set, event } => (*set, &**event),
            event => (1, event),
        };
        let seldom = matches!(event, RunEvent::Second { .. });
        if self.take(set, event) && !(seldom && self.written.is_some_and(|at| at.elapsed() < SELDOM)) {
            self.written = Some(Instant::now());
            // A full disk ends the run where it matters: at its tables.
            let _ = self.progress.write(&self.dir);
        }
    }

    /// Whether it changes anything.
    fn take(&mut self, set: u32, event: &RunEvent) -> bool {
        match event {
            // A set has no sets.
            RunEvent::OfSet { .. } | RunEvent::Remark { .. } => return false,
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
            RunEvent::Zone { label, doing } => self.of(set).now = format!("zone {label}: {doing}"),
            RunEvent::Starting { servers } => self.of(set).now = format!("starting {}", servers.join(", ")),
            RunEvent::Ready { seconds } => self.of(set).now = format!("ready after {seconds:.2} s"),
            RunEvent::Second { text } => self.of(set).now.clone_from(text),
            RunEvent::Again { reason } => self.of(set).now = format!("again: {reason}"),
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

impl Drop for Watched {
    fn drop(&mut self) {
        Progress::remove(&self.dir);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_follows_the_events_and_goes_with_the_run() {
        let folder = tempfile::tempdir().unwrap();
        let mut watched = Watched::new(folder.path().to_owned(), 2, 9);
        let read = || Progress::read(folder.path());
        watched.note(&RunEvent::Remark { text: "nothing of this".into() });
        assert_eq!(read(), None);
        watched.note(&RunEvent::Ready { seconds: 0.5 });
        assert_eq!(read().unwrap().doing[0].now, "ready after 0.50 s");
        // Seconds are written once a second.
        watched.note(&RunEvent::Second { text: "4,999 answered/s".into() });
        assert_eq!(read().unwrap().doing[0].now, "ready after 0.50 s");
        let event = Box::new(RunEvent::Zone { label: "COM".into(), doing: "signing" });
        watched.written = None;
        watched.note(&RunEvent::OfSet { set: 2, event });
        let progress = read().unwrap();
        assert_eq!((progress.done, progress.trials, progress.doing.len()), (2, 9, 2));
        assert_eq!((progress.doing[1].set, progress.doing[1].now.as_str()), (2, "zone COM: signing"));
        drop(watched);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
