//! The time from the waking of a sleeping thread, from another core, until it runs. A server sleeps between two queries where these are far apart, so its
//! latency at a low rate has this in it, and what the kernel and the hypervisor do with an idle core.

use crate::Error;
use measure::clock;
use measure::{Histogram, Nanos};
use net::scheduling::settle;
use rustix::event::{EventfdFlags, eventfd};
use serde::Serialize;
use std::sync::atomic::{AtomicU64, Ordering};

/// For how long the thread sleeps before it is woken, and how often that is done.
const SLEEPS: [(Nanos, u32); 4] = [(100_000, 400), (1_000_000, 200), (5_000_000, 100), (20_000_000, 40)];

/// A thread that does not run by then is not waited for.
const PATIENCE: Nanos = 1_000_000_000;

/// The times from the waking of a thread until it runs, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct WakeUp {
    /// For how long it slept before.
    pub slept_us: f64,
    /// Median.
    pub p50_us: f64,
    /// 99 % are within.
    pub p99_us: f64,
    /// How often it was woken.
    pub count: u32,
}

/// Wakes a thread on the core `sleeper` from the core `waker` after sleeps of 0.1, 1, 5 and 20 ms. It takes two seconds.
///
/// # Errors
/// [`Error::Sample`] where a core cannot be used, the kernel has no eventfd, or the thread does not wake.
pub fn wake_ups(sleeper: usize, waker: usize) -> Result<Vec<WakeUp>, Error> {
    let error = |message: String| Error::Sample { path: format!("cores {sleeper} and {waker}"), message };
    let event = eventfd(0, EventfdFlags::CLOEXEC).map_err(|e| error(e.to_string()))?;
    let ran = AtomicU64::new(0);
    let sleep = || -> Result<(), String> {
        settle(Some(sleeper)).map_err(|e| e.to_string())?;
        let mut count = [0; 8];
        loop {
            rustix::io::read(&event, &mut count).map_err(|e| e.to_string())?;
            let last = u64::from_ne_bytes(count) > 1;
            ran.store(clock::now(), Ordering::Release);
            if last {
                return Ok(());
            }
        }
    };
    let wake = |by: u64| rustix::io::write(&event, &by.to_ne_bytes()).map(drop).map_err(|e| e.to_string());
    let measure = || -> Result<Vec<WakeUp>, String> {
        settle(Some(waker)).map_err(|e| e.to_string())?;
        SLEEPS.iter().map(|&(slept, count)| one(slept, count, &ran, || wake(1))).collect()
    };
    std::thread::scope(|scope| {
        let sleeping = scope.spawn(sleep);
        let waking = scope.spawn(|| {
            let measured = measure();
            // More than one at once ends it.
            measured.and_then(|all| wake(2).map(|()| all)).inspect_err(|_| drop(wake(2)))
        });
        let measured = waking.join().expect("it returns its errors");
        sleeping.join().expect("it returns its errors").and(measured).map_err(error)
    })
}

/// Wakes the thread `count` times, each time when it has slept for `slept`. This thread polls meanwhile.
fn one(
    slept: Nanos,
    count: u32,
    ran: &AtomicU64,
    wake: impl Fn() -> Result<(), String>,
) -> Result<WakeUp, String> {
    let mut all = Histogram::default();
    for _ in 0..count {
        let at = clock::now() + slept;
        while clock::now() < at {}
        ran.store(0, Ordering::Release);
        let woken = clock::now();
        wake()?;
        let runs = loop {
            match ran.load(Ordering::Acquire) {
                0 if clock::now() > woken + PATIENCE => {
                    return Err("a thread that was woken does not run".into());
                }
                0 => std::hint::spin_loop(),
                at => break at,
            }
        };
        all.record(runs.saturating_sub(woken));
    }
    let us = |q: f64| all.quantile(q) as f64 / 1e3;
    Ok(WakeUp { slept_us: slept as f64 / 1e3, p50_us: us(0.5), p99_us: us(0.99), count })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_sleep_has_its_wake_ups() {
        let cores = crate::allowed_cpus();
        let (Some(&first), Some(&last)) = (cores.first(), cores.last()) else { return };
        if first == last {
            eprintln!("SKIPPED: a wake-up from another core needs two cores");
            return;
        }
        let all = wake_ups(first, last).unwrap();
        assert_eq!(all.iter().map(|w| w.slept_us).collect::<Vec<_>>(), [100.0, 1_000.0, 5_000.0, 20_000.0]);
        assert!(all.iter().all(|w| w.p50_us > 0.0 && w.p50_us <= w.p99_us && w.p99_us < 1e6), "{all:?}");
    }

    #[test]
    fn a_core_that_is_not_there_is_named() {
        let error = wake_ups(1023, crate::allowed_cpus()[0]).unwrap_err().to_string();
        assert!(error.contains("1023"), "{error}");
    }
}
