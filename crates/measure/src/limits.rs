//! Limits beyond which a trial is invalid, whatever is sent in it.

use crate::Nanos;

/// More than this share of the offered queries unsent makes a trial invalid.
pub const UNSENT_LIMIT: f64 = 0.001;
/// A pacing error above this at the 99th percentile makes a trial invalid (the specification may allow more), in
/// nanoseconds; where at least
/// [`PACING_COUNT`] queries were late by more, as a single hiccup is 1 % of a short trial.
pub const PACING_LIMIT: Nanos = 100_000;
/// See [`PACING_LIMIT`].
pub const PACING_COUNT: f64 = 10.0;
/// The same for a trial of a search, in nanoseconds: it measures losses over a second or more and no latencies. What
/// counts is that all was sent, in bursts of the stated size.
pub const SEARCH_PACING_LIMIT: Nanos = 1_000_000;
/// The same for updates whose lags are measured, in nanoseconds, and how exactly the sighting of a change has to be known:
/// within one interval of the questions, and what a server takes for an answer.
pub const LAG_LIMIT: Nanos = 5_000_000;
/// More than this share of sightings that are known worse than [`LAG_LIMIT`] because of us makes lags invalid.
pub const UNCERTAIN_LIMIT: f64 = 0.01;
/// A loop that stood still for longer than this makes a trial invalid, in nanoseconds.
pub const STALL_LIMIT: Nanos = 50_000_000;
/// A worker that waited for its core for more than this share of the time makes a trial invalid.
pub const PREEMPTED_LIMIT: f64 = 0.01;
/// The same where queries have no times to keep, or only rates and losses matter: the rate is lower by as much at most.
pub const PREEMPTED_LIMIT_UNPACED: f64 = 0.03;
/// A thread that sends without a pace and slept has to run again within this, in nanoseconds. What it waits longer for its core
/// counts as such; a shorter wait is what waking costs: the kernel receives the answers on the same core before it runs the thread.
pub const WAKING_LIMIT: Nanos = PACING_LIMIT;
/// Cores of the server's that were away, for a millisecond or more, at more than this share of instants make a trial with a pace invalid:
/// the latency within which 99 % of the answers came would be the machine's.
pub const AWAY_INSTANTS_LIMIT: f64 = 0.01;
/// The same for what a server does as fast as it can, as for its generator ([`PREEMPTED_LIMIT_UNPACED`]): rates and times are wrong by as
/// much.
pub const AWAY_INSTANTS_LIMIT_UNPACED: f64 = 0.03;
/// A machine on which some program waited for memory for more than this share of the time makes a trial invalid.
pub const MEMORY_LIMIT: f64 = 0.01;
/// More than this share of stolen time is a warning.
pub const STEAL_LIMIT: f64 = 0.01;
/// A wall clock that moved by more than this within a second makes a trial invalid, in nanoseconds: the kernel's
/// stamps are taken from it.
pub const CLOCK_LIMIT: Nanos = 5_000_000;
