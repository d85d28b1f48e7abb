//! How long a run will still take, by the trials that it has done.

use std::time::{Duration, Instant};

/// The time that the sets of a run have spent on trials.
pub struct TimeLeft {
    began: Instant,
    /// When the trial that a set makes now was given to it.
    at_work: Vec<(usize, Instant)>,
    done: u32,
    of_done: Duration,
}

impl TimeLeft {
    /// Of a run that begins now.
    pub fn new(now: Instant) -> Self {
        Self { began: now, at_work: Vec::new(), done: 0, of_done: Duration::ZERO }
    }

    /// A set begins a trial.
    pub fn begins(&mut self, set: usize, now: Instant) {
        self.at_work.push((set, now));
    }

    /// A set no longer makes its trial, which is done or lost.
    pub fn ends(&mut self, set: usize, done: bool, now: Instant) {
        let Some(at) = self.at_work.iter().position(|(one, _)| *one == set) else { return };
        let (_, began) = self.at_work.swap_remove(at);
        if done {
            self.done += 1;
            self.of_done += now.duration_since(began);
        }
    }

    /// The seconds until so many trials are done, which are at work or not begun; none before a trial is done. They are taken to be as long
    /// as those before, and as many to be made at the same time as until now.
    pub fn left(&self, todo: usize, now: Instant) -> Option<f64> {
        let since = |from| now.duration_since(from).as_secs_f64();
        let (all, of_done) = (since(self.began), self.of_done.as_secs_f64());
        if of_done == 0.0 {
            return None;
        }
        let length = of_done / f64::from(self.done);
        let so_far = || self.at_work.iter().map(|(_, began)| since(*began));
        let rest: f64 = so_far().map(|at| (length - at).max(0.0)).sum();
        let not_begun = todo.saturating_sub(self.at_work.len()) as f64 * length;
        let at_once = (of_done + so_far().sum::<f64>()) / all;
        Some((rest + not_begun) / at_once)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is left of `trials` of a minute each, on so many sets, whenever a trial begins after the first is done.
    fn said(sets: usize, trials: usize) -> Vec<f64> {
        let start = Instant::now();
        let mut time = TimeLeft::new(start);
        let mut said = Vec::new();
        for round in 0..trials / sets {
            let now = start + Duration::from_secs(60 * round as u64);
            for set in 0..sets {
                time.ends(set, true, now);
                said.extend(time.left(trials - round * sets + sets - 1 - set, now));
                time.begins(set, now);
            }
        }
        said
    }

    #[test]
    fn trials_that_follow_each_other_take_what_those_before_took() {
        assert_eq!(said(1, 4), [180.0, 120.0, 60.0]);
    }

    /// The first set that is done says nothing else than the second, which is about to be done.
    #[test]
    fn trials_at_the_same_time_share_the_time() {
        assert_eq!(said(2, 6), [120.0, 120.0, 60.0, 60.0]);
    }

    #[test]
    fn nothing_is_said_before_a_trial_is_done() {
        let start = Instant::now();
        let later = start + Duration::from_secs(60);
        let mut time = TimeLeft::new(start);
        time.begins(0, start);
        time.ends(0, false, later);
        assert_eq!(time.left(3, later), None);
        // A trial that takes longer than those before has no time left.
        time.begins(0, later);
        time.ends(0, true, later + Duration::from_secs(10));
        time.begins(0, later + Duration::from_secs(10));
        assert_eq!(time.left(1, later + Duration::from_secs(90)), Some(0.0));
    }
}
