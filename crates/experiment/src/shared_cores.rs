//! Trials that are made at the same time on the cores of one machine: none of them is set up while another one is timed.
//!
//! A server that loads a zone takes a whole core for seconds. What is timed there meanwhile would stand still, and would be invalid.
//! So all trials are set up first, and then timed together. A trial that ends early waits for the others before the next one is set up.

use crate::Error;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// A waiting trial checks this often whether the run was stopped.
const LOOK: Duration = Duration::from_millis(200);

/// BIND waits for so long before it tells its secondaries of a change. The work of a trial comes once in this time.
const BIND_WAITS: Duration = Duration::from_secs(5);

/// The phase of a set of hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// It makes no trial, or waits until one can be set up.
    Idle,
    /// Its zone is made, or its servers load it.
    SettingUp,
    /// Its trial is set up, and others are not.
    Ready,
    /// Its trial is timed.
    Timed,
}

/// The phases of all sets of a run.
pub struct SharedCores {
    phases: Mutex<Vec<Phase>>,
    changed: Condvar,
}

/// The share of one set.
#[derive(Clone, Copy)]
pub struct Share<'a> {
    all: &'a SharedCores,
    set: usize,
}

/// A set that makes a trial. It is idle as soon as this is dropped, also after a failure.
pub struct InTrial<'a>(Share<'a>);

impl SharedCores {
    pub fn new(sets: usize) -> Self {
        Self { phases: Mutex::new(vec![Phase::Idle; sets]), changed: Condvar::new() }
    }

    pub fn share(&self, set: usize) -> Share<'_> {
        Share { all: self, set }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Phase>> {
        self.phases.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<'a> Share<'a> {
    /// The number of sets that share the cores.
    pub fn sets(self) -> u32 {
        self.all.lock().len() as u32
    }

    /// Begins a trial.
    pub fn in_trial(self) -> InTrial<'a> {
        InTrial(self)
    }

    /// Waits until no other trial is timed: then this one is set up. `goes_on` fails where the run is to stop.
    ///
    /// # Errors
    /// That of `goes_on`.
    pub fn set_up(self, goes_on: &dyn Fn() -> Result<(), Error>) -> Result<(), Error> {
        self.change(Phase::Idle, Phase::Timed, Phase::SettingUp, goes_on)
    }

    /// Waits until all others are set up, too: then they are timed. How long the set waits before it begins its work: the sets
    /// divide the time between two of BIND's messages to its secondaries, so that they do not all work at the same moment.
    ///
    /// # Errors
    /// That of `goes_on`.
    pub fn timed(self, goes_on: &dyn Fn() -> Result<(), Error>) -> Result<Duration, Error> {
        self.change(Phase::Ready, Phase::SettingUp, Phase::Timed, goes_on)?;
        Ok(BIND_WAITS.mul_f64(self.set as f64 / f64::from(self.sets())))
    }

    /// Is `at` while any set is in the phase `other`, and then `to`.
    fn change(
        self,
        at: Phase,
        other: Phase,
        to: Phase,
        goes_on: &dyn Fn() -> Result<(), Error>,
    ) -> Result<(), Error> {
        let Self { all, set } = self;
        let mut phases = all.lock();
        phases[set] = at;
        all.changed.notify_all();
        while phases.contains(&other) {
            goes_on()?;
            phases = all.changed.wait_timeout(phases, LOOK).unwrap_or_else(PoisonError::into_inner).0;
        }
        phases[set] = to;
        Ok(())
    }
}

impl Drop for InTrial<'_> {
    fn drop(&mut self) {
        let Share { all, set } = self.0;
        all.lock()[set] = Phase::Idle;
        all.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};

    #[test]
    fn no_trial_is_set_up_while_another_one_is_timed() {
        let (cores, setting_up, timed) = (SharedCores::new(4), AtomicU32::new(0), AtomicU32::new(0));
        let most_timed = AtomicU32::new(0);
        let go_on = || Ok(());
        std::thread::scope(|scope| {
            for set in 0..4 {
                let (cores, setting_up, timed, most_timed) = (&cores, &setting_up, &timed, &most_timed);
                scope.spawn(move || {
                    for trial in 0..20 {
                        let share = cores.share(set);
                        let _in_trial = share.in_trial();
                        share.set_up(&go_on).unwrap();
                        setting_up.fetch_add(1, Ordering::SeqCst);
                        assert_eq!(timed.load(Ordering::SeqCst), 0);
                        std::thread::sleep(Duration::from_micros(100 * set as u64));
                        setting_up.fetch_sub(1, Ordering::SeqCst);
                        // One of them fails before it is timed.
                        if (set, trial) == (1, 3) {
                            continue;
                        }
                        share.timed(&go_on).unwrap();
                        most_timed.fetch_max(timed.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                        assert_eq!(setting_up.load(Ordering::SeqCst), 0);
                        std::thread::sleep(Duration::from_micros(300));
                        timed.fetch_sub(1, Ordering::SeqCst);
                    }
                });
            }
        });
        assert!(most_timed.into_inner() > 1, "they are timed at the same time");
    }

    #[test]
    fn a_trial_that_waits_ends_with_the_run_and_others_begin_at_other_moments() {
        let cores = SharedCores::new(2);
        let [first, second] = [0, 1].map(|set| cores.share(set));
        first.set_up(&|| Ok(())).unwrap();
        let stopped = || Err(Error::Machine("the run was stopped".into()));
        second.set_up(&|| Ok(())).unwrap();
        assert!(second.timed(&stopped).is_err(), "the first is not set up yet");
        let delays = [first, second].map(|share| share.timed(&stopped).unwrap());
        assert_eq!(delays, [Duration::ZERO, Duration::from_millis(2500)]);
        assert!(first.set_up(&stopped).is_err(), "the second is timed");
    }
}
