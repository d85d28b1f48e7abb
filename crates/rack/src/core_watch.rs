//! A watch on cores: when was one away, so that nothing ran there that was ready to?
//!
//! On each core a thread of real-time priority sleeps to absolute instants, [`PERIOD`] apart, and records how late it wakes. No
//! ordinary program can delay it, so when it is late, the core itself was away: the hypervisor ran something else,
//! interrupts were off, or the kernel handled interrupts. Its instants are those of the kernel's own timer tick
//! (multiples of the period on the monotonic clock), so they cost a wake-up but no interrupt of their own, and the tick's
//! accounting of CPU time does not find the watch running.
//!
//! Without the privilege for real-time priority the thread waits like any other. Then an ordinary program on the
//! core makes it late as well, and [`Seen::first`] says so.

use measure::Nanos;
use measure::clock;
use net::scheduling::{WaitMeter, run_before_all, settle};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

/// The distance of the instants, in nanoseconds. An absence that is shorter can be missed.
pub const PERIOD: Nanos = 4_000_000;

/// A thread that wakes later than this was kept from its core, in nanoseconds.
pub const LEAST: Nanos = 1_000_000;

/// The most absences of a core that are kept; more are only counted.
const MOST: usize = 100_000;

/// An absence of a core. Times are nanoseconds of the monotonic clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Absence {
    /// The core's number.
    pub core: usize,
    /// When the watch was to wake: the core was away from here on, and at most [`PERIOD`] longer.
    pub from: Nanos,
    /// When it woke.
    pub to: Nanos,
    /// The thread was ready in time and could not run: the kernel handled interrupts, or something of a higher priority ran.
    /// Otherwise even its timer was late: the hypervisor had the core, or interrupts were off.
    pub ready: bool,
}

/// The observations of a watch.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Seen {
    /// Absences in order of time, core by core.
    pub away: Vec<Absence>,
    /// Absences beyond those that are kept.
    pub more: u64,
    /// Every thread had real-time priority.
    pub first: bool,
    /// The share (0 to 1) of one core that the watch took on the core where it took most.
    pub cost: f64,
}

/// Threads that watch.
#[derive(Debug)]
pub struct CoreWatch {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<Seen>>,
}

impl CoreWatch {
    /// Watches these cores from now on.
    pub fn start(cores: &[usize]) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let mut cores = cores.to_vec();
        cores.sort_unstable();
        cores.dedup();
        let thread = |&core: &usize| {
            let stop = Arc::clone(&stop);
            std::thread::spawn(move || look(core, &stop))
        };
        let threads = cores.iter().map(thread).collect();
        Self { stop, threads }
    }

    /// Ends the watch.
    pub fn end(mut self) -> Seen {
        self.stop.store(true, Ordering::Relaxed);
        let mut all = Seen { first: !self.threads.is_empty(), ..Seen::default() };
        for thread in self.threads.drain(..) {
            let seen = thread.join().expect("a watch does not panic");
            all.away.extend(seen.away);
            all.more += seen.more;
            all.first &= seen.first;
            all.cost = all.cost.max(seen.cost);
        }
        all
    }
}

impl Drop for CoreWatch {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// Watches one core until it is told to stop.
fn look(core: usize, stop: &AtomicBool) -> Seen {
    // A core that this process may not use cannot be watched; the thread that sleeps anywhere sees other cores' absences.
    if settle(Some(core)).is_err() {
        return Seen::default();
    }
    let mut seen = Seen { first: run_before_all().is_ok(), ..Seen::default() };
    let (began, cpu) = (clock::now(), clock::cpu());
    let meter = WaitMeter::of_this_thread();
    let mut waited = meter.waited();
    let mut at = (began / PERIOD + 1) * PERIOD;
    while !stop.load(Ordering::Relaxed) {
        clock::sleep_until(at);
        let now = clock::now();
        if now > at + LEAST {
            let all = meter.waited();
            let ready = (all - waited) * 2 > now - at;
            waited = all;
            if seen.away.len() < MOST {
                seen.away.push(Absence { core, from: at, to: now, ready });
            } else {
                seen.more += 1;
            }
        }
        at = at.max(now / PERIOD * PERIOD) + PERIOD;
    }
    seen.cost = (clock::cpu() - cpu) as f64 / (clock::now() - began).max(1) as f64;
    seen
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_core_that_is_there_is_seen_as_such() {
        let core = crate::allowed_cpus()[0];
        let watch = CoreWatch::start(&[core, core]);
        std::thread::sleep(Duration::from_millis(200));
        let seen = watch.end();
        assert!(seen.cost > 0.0 && seen.cost < 0.2, "{seen:?}");
        let away: Nanos = seen.away.iter().map(|a| a.to - a.from).sum();
        assert!(away < 200_000_000, "{seen:?}");
        assert!(seen.away.iter().all(|a| a.core == core && a.to > a.from));
    }

    /// A thread of the same priority or above takes the core: what a hypervisor does, as far as a test can.
    #[test]
    fn a_core_that_is_taken_is_seen_to_be_away() {
        let core = *crate::allowed_cpus().last().unwrap();
        let hog = std::thread::spawn(move || {
            settle(Some(core)).unwrap();
            if run_before_all().is_err() {
                return None;
            }
            std::thread::sleep(Duration::from_millis(60));
            let (from, mut to) = (clock::now(), 0);
            while to < from + 30_000_000 {
                to = clock::now();
            }
            Some((from, to))
        });
        let watch = CoreWatch::start(&[core]);
        let taken = hog.join().unwrap();
        std::thread::sleep(Duration::from_millis(20));
        let seen = watch.end();
        let Some((from, to)) = taken else {
            eprintln!("SKIPPED: real-time priority needs root");
            assert!(!seen.first);
            return;
        };
        let longest = seen.away.iter().max_by_key(|a| a.to - a.from).expect("it was away");
        assert!(longest.ready, "{longest:?}: its timer was on time");
        assert!(
            longest.from >= from.saturating_sub(PERIOD) && longest.to >= to,
            "{longest:?}, taken {from} to {to}"
        );
    }
}
