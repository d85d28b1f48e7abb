//! Batches of updates in a closed loop: each is sent when all who are watched serve the one before (RZAIA, section 5.3).
//!
//! After the messages of a batch a marker is sent. The watcher, in a thread of its own, asks every server for it all the time; the next
//! batch begins as soon as all servers show it, and no sooner. A batch that a server does not show within the patience is reported as
//! not served, and the next one begins. After three such batches in a row the loop ends.

use crate::send::{self, Gate, SentBatch};
use crate::watch::{self, Shown};
use crate::{Error, SendResult, SendSpec, WatchResult, WatchSpec};
use measure::files::Named;
use measure::{Event, Files, Nanos, Reason, series};
use serde::{Deserialize, Serialize};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::channel;

/// The updates to send, in which batches, and the servers to watch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BatchesSpec {
    /// The sender; it must have a window and a marker.
    pub send: SendSpec,
    /// The watcher, of the same marker.
    pub watch: WatchSpec,
    /// Messages of the file in each batch, in order.
    pub batches: Vec<u64>,
    /// How long a batch may take to be served, nanoseconds.
    pub patience: Nanos,
}

impl Files for BatchesSpec {
    fn files<E>(&mut self, visit: &mut dyn FnMut(Named<'_>) -> Result<(), E>) -> Result<(), E> {
        self.send.files(visit)
    }
}

/// A batch. Times are wall clock, nanoseconds since 1970.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Batch {
    /// The number of the marker at its end.
    pub marker: u64,
    /// Messages that were sent.
    pub messages: u64,
    /// Of them, those that were taken: answered with NOERROR.
    pub accepted: u64,
    /// When its first message was sent.
    pub began: Nanos,
    /// When its last message was answered, or given up.
    pub taken: Nanos,
    /// When each server that is watched showed its marker, or a later one, for the first time.
    pub seen: Vec<Option<Nanos>>,
}

impl Batch {
    /// When the last of the servers showed it; none where one never did.
    pub fn served(&self) -> Option<Nanos> {
        self.seen.iter().copied().collect::<Option<Vec<_>>>()?.into_iter().max()
    }
}

/// The result of the batches.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct BatchesResult {
    /// Of the sender.
    pub send: SendResult,
    /// Of the watcher.
    pub watch: WatchResult,
    /// The batches that were begun.
    pub batches: Vec<Batch>,
}

/// Sends all batches from the calling thread's network namespace. `start`, `stop` and `events` are as [`send::run`]'s; in a second's
/// values `batch` is the number of the one at work, from 1.
///
/// # Errors
/// [`Error::Spec`], and those of the sender and of the watcher.
pub fn batches(
    spec: &BatchesSpec,
    start: impl FnOnce() -> Nanos,
    stop: &AtomicBool,
    events: &mut dyn FnMut(Event),
) -> Result<BatchesResult, Error> {
    if !matches!(spec.send.pace, measure::Pace::Closed { .. }) || spec.send.marker.is_none() {
        return Err(Error::Spec("batches are sent by a window, with a marker after each".into()));
    }
    let shown = Shown::of(spec.watch.servers.len());
    let (ended, at_work) = (AtomicBool::new(false), AtomicU64::new(0));
    let watch = watch::prepare(&spec.watch, &shown)?;
    let gate = Gate { sizes: &spec.batches, shown: &shown, patience: spec.patience, at_work: &at_work };
    let (sent, watched) = std::thread::scope(|scope| {
        let (at_in, at) = channel::<Nanos>();
        let (shown, ended) = (&shown, &ended);
        let watcher = scope.spawn(move || {
            let watched = match at.recv() {
                Ok(at) => watch.run(at, ended).map(Some),
                // The sender never began.
                Err(_) => Ok(None),
            };
            shown.leave();
            watched
        });
        let begin = move || {
            let at = start();
            let _ = at_in.send(at);
            at
        };
        let sent = send::run_gated(&spec.send, Some(gate), begin, stop, &mut |event| {
            events(match event {
                Event::Progress { second, mut values } => {
                    values[series::BATCH.stem()] = at_work.load(Ordering::Relaxed).into();
                    Event::Progress { second, values }
                }
                other => other,
            });
        });
        // Where it never began nobody waits for the instant any more, as that went with `begin`.
        ended.store(true, Ordering::Relaxed);
        (sent, watcher.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    });
    let (mut send, sent) = sent?;
    let Some(watch) = watched? else {
        return Err(Error::Spec("the sender began, and the watcher did not".into()));
    };
    if sent.len() < spec.batches.len() && !send.cut_short {
        let text = format!(
            "{} batches in a row were not served within {:.0} s, so it ended after {} of {}",
            send::MISSES_MAX,
            spec.patience as f64 / 1e9,
            sent.len(),
            spec.batches.len()
        );
        send.validity.warn(Reason::new("batches_given_up", text));
    }
    let batches = sent.into_iter().map(|batch| join(batch, &watch)).collect();
    Ok(BatchesResult { send, watch, batches })
}

/// A batch with when its marker was seen at each server.
fn join(sent: SentBatch, watch: &WatchResult) -> Batch {
    let SentBatch { marker, messages, accepted, began, taken } = sent;
    let at = |server: u16| {
        watch.sightings.iter().find(|s| s.server == server && s.last >= marker).map(|s| s.seen_at)
    };
    let seen = (0u16..).zip(&watch.servers).map(|(server, _)| at(server)).collect();
    Batch { marker, messages, accepted, began, taken, seen }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_is_served_when_the_last_server_shows_it() {
        let served = |seen: &[Option<Nanos>]| Batch { seen: seen.to_vec(), ..Batch::default() }.served();
        assert_eq!(served(&[Some(7), Some(9), Some(8)]), Some(9));
        assert_eq!(served(&[Some(7), None]), None);
        assert_eq!(served(&[]), None);
    }
}
