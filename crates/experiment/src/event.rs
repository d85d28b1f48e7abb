//! The events of a run: its progress.

use crate::Trial;
use results::TrialRecord;

/// An event of a run, for the code that shows its progress.
#[derive(Clone, Debug)]
pub enum RunEvent {
    /// An event of one of several sets of hosts, which make trials at the same time.
    OfSet {
        /// The number of the set, from 1.
        set: u32,
        /// The event.
        event: Box<RunEvent>,
    },
    /// What should be known before the first trial.
    Remark {
        /// A sentence.
        text: String,
    },
    /// A zone is being made.
    Zone {
        /// The zone.
        label: String,
        /// `generating`, `signing`, `reading`.
        doing: &'static str,
    },
    /// A trial begins.
    Trial {
        /// The trial.
        trial: Trial,
        /// Of how many.
        of: usize,
        /// Seconds until the end of the plan, as those done before took; none until one is done.
        left: Option<f64>,
    },
    /// A trial is not tried.
    Skipped {
        /// The trial.
        trial: Trial,
        /// Why.
        reason: String,
    },
    /// The servers of a trial are started. A large zone takes minutes.
    Starting {
        /// Their labels: that of the server measured alone, or the primary's and then those of its secondaries.
        servers: Vec<String>,
    },
    /// A server answers right, this many seconds after its start.
    Ready {
        /// Seconds.
        seconds: f64,
    },
    /// A second of load went by: a plain sentence of its figures.
    Second {
        /// `4,999 answered/s, p99 120 µs`.
        text: String,
    },
    /// A trial goes on, and nothing was said for a while.
    Still {
        /// Its number.
        trial: u32,
        /// Seconds since it began.
        seconds: f64,
        /// What is done for it: `starting bind`, `batch 12 of 288, 120 messages accepted/s`.
        doing: String,
    },
    /// A trial was invalid and is done again with a fresh server.
    Again {
        /// Why.
        reason: String,
    },
    /// A trial is done and kept.
    Done {
        /// Its record.
        record: Box<TrialRecord>,
    },
}

impl RunEvent {
    /// What is done for a trial from this event on, in words; none where the event says something else.
    pub fn doing(&self) -> Option<String> {
        Some(match self {
            Self::Zone { label, doing } => format!("zone {label}: {doing}"),
            Self::Starting { servers } => format!("starting {}", servers.join(", ")),
            Self::Ready { seconds } => format!("ready after {seconds:.2} s"),
            Self::Second { text } => text.clone(),
            Self::Again { reason } => format!("again: {reason}"),
            _ => return None,
        })
    }
}
