//! Batches that wait for each other.

use super::sender::Sender;
use crate::Error;
use crate::watch::Shown;
use engine::Engine;
use measure::Nanos;
use measure::clock::{self, SECOND};
use std::sync::atomic::{AtomicU64, Ordering};

/// A run ends after this number of batches in a row that are not served in time.
pub(crate) const MISSES_MAX: u32 = 3;

/// How often is looked whether a batch is served.
const LOOK: Nanos = SECOND / 1000;

/// The condition for the next batch: that all servers show the marker of the last one.
#[derive(Debug)]
pub(crate) struct Gate<'a> {
    /// Messages of each batch.
    pub sizes: &'a [u64],
    /// The markers that the servers show.
    pub shown: &'a Shown,
    /// For so long it is waited for.
    pub patience: Nanos,
    /// The batch at work, from 1.
    pub at_work: &'a AtomicU64,
}

/// A batch that was begun. Times are wall clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SentBatch {
    pub marker: u64,
    pub messages: u64,
    pub accepted: u64,
    pub began: Nanos,
    pub taken: Nanos,
}

impl Sender<'_> {
    /// Batch after batch, each as much as fits into the window. How long it took, the waiting with it.
    pub(super) fn batches(
        &mut self,
        engine: &mut Engine<'_>,
        window: u64,
        gate: &Gate<'_>,
    ) -> Result<Nanos, Error> {
        let mut misses = 0;
        for (n, &messages) in (1..).zip(gate.sizes) {
            self.hold_markers();
            gate.at_work.store(n, Ordering::Relaxed);
            let (offered, accepted) = (self.flight.tally.offered, self.flight.tally.accepted);
            let began = clock::now().max(engine.start());
            self.heard_at(began);
            engine.unpaced(self, window, offered + messages)?;
            self.settle(engine)?;
            let taken = self.heard().max(began);
            let (sent, accepted) =
                (self.flight.tally.offered - offered, self.flight.tally.accepted - accepted);
            if sent == 0 {
                break;
            }
            let marker = if engine.cut_short { None } else { Some(self.mark()?) };
            let wall = engine.wall();
            self.did.batches.push(SentBatch {
                // A batch without a marker is never seen.
                marker: marker.unwrap_or(u64::MAX),
                messages: sent,
                accepted,
                began: wall.to_wall(began),
                taken: wall.to_wall(taken),
            });
            let Some(marker) = marker else { break };
            self.settle(engine)?;
            misses = if self.wait_for(engine, gate, marker)? { 0 } else { misses + 1 };
            if engine.cut_short || misses >= MISSES_MAX {
                break;
            }
        }
        Ok(clock::now().saturating_sub(engine.start()))
    }

    /// Receives until every message is answered or given up.
    fn settle(&mut self, engine: &mut Engine<'_>) -> Result<(), Error> {
        while self.flight.in_flight() > 0 && !engine.cut_short {
            let now = engine.turn(self)?;
            engine.cut_short |= engine.stopped();
            engine.sleep(self, now, now + LOOK)?;
        }
        Ok(())
    }

    /// Waits until all servers show a marker; false where they do not in time.
    fn wait_for(&mut self, engine: &mut Engine<'_>, gate: &Gate<'_>, marker: u64) -> Result<bool, Error> {
        let until = clock::now() + gate.patience;
        while gate.shown.least() < marker {
            let now = engine.turn(self)?;
            engine.cut_short |= engine.stopped() || gate.shown.has_left();
            if engine.cut_short || now >= until {
                return Ok(false);
            }
            engine.sleep(self, now, now + LOOK)?;
        }
        Ok(true)
    }
}
