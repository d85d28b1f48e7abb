//! Work spread over threads, results in the order of the tasks, memory bounded.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

/// Tasks for each worker that may be under way: waiting, at work, or done before an earlier one.
const UNDER_WAY: usize = 16;

/// Threads worth starting for arithmetic here.
pub(crate) fn threads() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

/// Where a feeder puts its tasks.
pub(crate) struct Feed<T> {
    tasks: Sender<(u64, T)>,
    /// One for each task that may be under way; the consumer gives them back.
    permits: Receiver<()>,
    next: u64,
}

impl<T> Feed<T> {
    /// Hands on a task; waits while workers are busy. False where nobody wants tasks any more.
    #[must_use]
    pub fn push(&mut self, task: T) -> bool {
        let sent = self.permits.recv().is_ok() && self.tasks.send((self.next, task)).is_ok();
        self.next += 1;
        sent
    }
}

/// Runs `feed` on one thread, `work` on `threads` others, and `consume` here, in the order of `feed`. Whichever
/// worker is free takes the next task.
///
/// # Errors
/// The consumer's error, otherwise the feeder's.
pub(crate) fn ordered<T: Send, R: Send, E: Send>(
    threads: usize,
    feed: impl FnOnce(&mut Feed<T>) -> Result<(), E> + Send,
    work: impl Fn(T) -> R + Sync,
    mut consume: impl FnMut(R) -> Result<(), E>,
) -> Result<(), E> {
    let (send_task, tasks) = channel();
    let (send_permit, permits) = channel();
    let (send_result, results) = channel();
    let tasks = Mutex::new(tasks);
    // Given to the scope, so that a worker that is left behind by an error ends with the channel.
    let (work, tasks) = (&work, &tasks);
    thread::scope(|scope| {
        for _ in 0..threads.max(1) {
            let results: Sender<(u64, thread::Result<R>)> = send_result.clone();
            scope.spawn(move || {
                let take = || {
                    tasks
                        .lock()
                        .ok()
                        .and_then(|tasks: std::sync::MutexGuard<'_, Receiver<_>>| tasks.recv().ok())
                };
                while let Some((number, task)) = take() {
                    let result = catch_unwind(AssertUnwindSafe(|| work(task)));
                    if results.send((number, result)).is_err() {
                        return;
                    }
                }
            });
        }
        drop(send_result);
        for _ in 0..threads.max(1) * UNDER_WAY {
            // The receiver is at hand.
            let _ = send_permit.send(());
        }
        let feeder = scope.spawn(move || feed(&mut Feed { tasks: send_task, permits, next: 0 }));
        let (mut early, mut next, mut consumed) = (BTreeMap::new(), 0, Ok(()));
        'all: for (number, result) in results {
            early.insert(number, result);
            while let Some(result) = early.remove(&next) {
                next += 1;
                consumed = consume(result.unwrap_or_else(|panic| resume_unwind(panic)));
                if consumed.is_err() {
                    break 'all;
                }
                let _ = send_permit.send(());
            }
        }
        drop(send_permit);
        let fed = feeder.join().unwrap_or_else(|panic| resume_unwind(panic));
        consumed.and(fed)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(
        threads: usize,
        tasks: u64,
        fail_at: Option<u64>,
        feed_error: bool,
    ) -> Result<Vec<u64>, &'static str> {
        let mut got = Vec::new();
        ordered(
            threads,
            |feed| {
                for n in 0..tasks {
                    if !feed.push(n) {
                        return Ok(());
                    }
                }
                if feed_error { Err("fed") } else { Ok(()) }
            },
            |n| n * 2,
            |n| {
                got.push(n);
                if fail_at.is_some_and(|f| n >= f) { Err("consumed") } else { Ok(()) }
            },
        )?;
        Ok(got)
    }

    #[test]
    fn order_and_errors_survive_threads() {
        for threads in [1, 2, 5] {
            assert_eq!(run(threads, 1000, None, false), Ok((0..1000).map(|n| n * 2).collect()));
            assert_eq!(run(threads, 0, None, false), Ok(vec![]));
            assert_eq!(run(threads, 1000, Some(300), true), Err("consumed"));
            assert_eq!(run(threads, 10, None, true), Err("fed"));
        }
    }
}
