//! Work spread over threads, results in the order of the tasks, memory bounded.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

/// Tasks (and results) that may wait at each worker.
const WAITING: usize = 4;

/// Threads worth starting for arithmetic here.
pub(crate) fn threads() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

/// Where a feeder puts its tasks.
pub(crate) struct Feed<T> {
    workers: Vec<SyncSender<T>>,
    next: usize,
}

impl<T> Feed<T> {
    /// Hands on a task; waits while workers are busy. False where nobody wants tasks any more.
    #[must_use]
    pub fn push(&mut self, task: T) -> bool {
        let worker = self.next % self.workers.len();
        self.next += 1;
        self.workers[worker].send(task).is_ok()
    }
}

/// Runs `feed` on one thread, `work` on `threads` others, and `consume` here, in the order of `feed`.
///
/// # Errors
/// The consumer's error, otherwise the feeder's.
pub(crate) fn ordered<T: Send, R: Send, E: Send>(
    threads: usize,
    feed: impl FnOnce(&mut Feed<T>) -> Result<(), E> + Send,
    work: impl Fn(T) -> R + Sync,
    mut consume: impl FnMut(R) -> Result<(), E>,
) -> Result<(), E> {
    thread::scope(|scope| {
        let mut workers = Vec::new();
        let mut results: Vec<Receiver<R>> = Vec::new();
        let work = &work;
        for _ in 0..threads.max(1) {
            let (send_task, tasks) = sync_channel(WAITING);
            let (send_result, result) = sync_channel(WAITING);
            workers.push(send_task);
            results.push(result);
            scope.spawn(move || {
                for task in tasks {
                    if send_result.send(work(task)).is_err() {
                        return;
                    }
                }
            });
        }
        let feeder = scope.spawn(move || feed(&mut Feed { workers, next: 0 }));
        // Round robin on both sides keeps the order; the first worker without a result is the end.
        let mut consumed = Ok(());
        for k in 0.. {
            let Ok(result) = results[k % results.len()].recv() else { break };
            consumed = consume(result);
            if consumed.is_err() {
                break;
            }
        }
        drop(results);
        let fed = feeder.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
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
