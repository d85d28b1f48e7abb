//! Convergence: when each of many servers shows each change.
//!
//! The sender of updates replaces, now and then, the TXT record at one name by a counter: a marker. The watcher asks every
//! server for it every few milliseconds. A server that shows counter 7 has all that was sent before marker 7, and servers
//! that put several updates into one serial are distinguished from those that lose some. The counter became visible between
//! the sending of the last question whose answer did not show it and the arrival of the first answer that did: that interval is
//! what is recorded, and how long it is is the error of every lag.

mod run;
mod server;
mod shown;

use measure::clock::SECOND;
use measure::files::Named;
use measure::{Files, Histogram, Nanos, Validity};
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;

pub(crate) use run::prepare;
pub use run::watch;
pub use server::fuzz_answer;
pub(crate) use shown::Shown;

/// The first label of a marker's name.
pub const MARKER_LABEL: &str = "_dnsrack";
/// Servers that one watcher asks at most.
pub const SERVERS_MAX: usize = 64;

/// A server that is watched.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Watched {
    /// Its name in results.
    pub name: String,
    /// Where it answers.
    pub address: SocketAddr,
}

/// Which servers to watch, and for how long. Times are nanoseconds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WatchSpec {
    /// The servers, 1 to [`SERVERS_MAX`].
    pub servers: Vec<Watched>,
    /// The zone.
    pub origin: String,
    /// The name of the markers; [`MARKER_LABEL`] in the zone where there is none.
    #[serde(default)]
    pub marker: Option<String>,
    /// Each server is asked once in so long.
    pub interval: Nanos,
    /// After so many questions each server is asked for its SOA too; 0: never.
    pub serial_every: u32,
    /// An answer later than this is lost.
    pub deadline: Nanos,
    /// It ends by itself after so long.
    pub duration: Nanos,
    /// Run on this core.
    #[serde(default)]
    pub cpu: Option<usize>,
    /// The servers may be on other machines.
    #[serde(default)]
    pub allow_external: bool,
}

impl Files for WatchSpec {
    fn files<E>(&mut self, _: &mut dyn FnMut(Named<'_>) -> Result<(), E>) -> Result<(), E> {
        Ok(())
    }
}

impl WatchSpec {
    /// Every 2 ms, the serial with every tenth, for an hour at most.
    pub fn new(servers: Vec<Watched>, origin: &str) -> Self {
        Self {
            servers,
            origin: origin.to_owned(),
            marker: None,
            interval: 2_000_000,
            serial_every: 10,
            deadline: 200_000_000,
            duration: 3600 * SECOND,
            cpu: None,
            allow_external: false,
        }
    }
}

/// Counters that became visible at a server together. Times are wall clock, nanoseconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sighting {
    /// The server, as numbered in the specification.
    pub server: u16,
    /// The first of these counters.
    pub first: u64,
    /// The last of them: what was shown.
    pub last: u64,
    /// When the last question was sent whose answer did not show them.
    pub hidden_at: Nanos,
    /// When the kernel received the first answer that did.
    pub seen_at: Nanos,
}

impl Sighting {
    /// How well is known when it became visible, in nanoseconds.
    pub fn uncertainty(&self) -> Nanos {
        self.seen_at.saturating_sub(self.hidden_at)
    }
}

/// A serial that a server had for the first time. Times as in [`Sighting`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SerialSeen {
    /// The server.
    pub server: u16,
    /// Its SOA's serial.
    pub serial: u32,
    /// When the last question was sent whose answer had another; null for the first one.
    pub hidden_at: Option<Nanos>,
    /// When the kernel received the first answer with it.
    pub seen_at: Nanos,
}

/// A value that goes forwards only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Forwards {
    /// The marker's counter.
    Marker,
    /// The SOA's serial.
    Serial,
}

/// A server showed something older than it had shown before, to a question that was sent after that.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WentBack {
    /// The server.
    pub server: u16,
    /// The value that went back.
    pub what: Forwards,
    /// From what.
    pub from: u64,
    /// To what; a marker that is gone is 0.
    pub to: u64,
    /// Wall clock: when the kernel received that answer.
    pub at: Nanos,
}

/// The result of one server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerResult {
    /// As in the specification.
    pub name: String,
    /// Questions.
    pub sent: u64,
    /// Answers in time.
    pub answered: u64,
    /// Questions without an answer in time.
    pub lost: u64,
    /// Of those, answered later.
    pub late: u64,
    /// Datagrams that are no answer to a question of ours.
    pub mismatched: u64,
    /// Answers that are neither NOERROR nor NXDOMAIN, or hold no counter.
    pub failed: u64,
    /// The counter of the first answer and of the last; 0 without a marker, null without an answer.
    pub marker_first: Option<u64>,
    /// As above.
    pub marker_last: Option<u64>,
    /// The serial of the first answer and of the last.
    pub serial_first: Option<u32>,
    /// As above.
    pub serial_last: Option<u32>,
    /// How often the counter went back.
    pub marker_went_back: u64,
    /// How often the serial went back.
    pub serial_went_back: u64,
    /// How often we left more than 5 ms (or two intervals, where these are longer) between two questions.
    pub stalls: u64,
    /// Sightings known worse than to 5 ms (or two intervals), because of ourselves and because the server did not answer.
    pub uncertain_by_us: u64,
    /// As above.
    pub uncertain_by_server: u64,
}

/// The watcher's own load.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct OwnLoad {
    /// Questions by the second to each server.
    pub qps_per_server: f64,
    /// Questions in all, answers in time, and those lost.
    pub sent: u64,
    /// As above.
    pub answered: u64,
    /// As above.
    pub lost: u64,
    /// Questions that were due while we stood still, and were left out.
    pub skipped: u64,
    /// Octets of DNS messages, sent and received.
    pub bytes_sent: u64,
    /// As above.
    pub bytes_received: u64,
    /// The share of a core that it took.
    pub cpu: f64,
}

/// The result of a watch.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct WatchResult {
    /// Wall clock, nanoseconds since 1970, when it began.
    pub start_ns: Nanos,
    /// For how long.
    pub duration_ns: Nanos,
    /// The marker's name.
    pub marker: String,
    /// By server, in the order of the specification.
    pub servers: Vec<ServerResult>,
    /// In order of time.
    pub sightings: Vec<Sighting>,
    /// In order of time.
    pub serials: Vec<SerialSeen>,
    /// The first thousand.
    pub went_back: Vec<WentBack>,
    /// Sightings and serials that were not kept, as there were more than four million.
    pub not_kept: u64,
    /// How long answers took, nanoseconds.
    pub latency: Histogram,
    /// The watcher's own load and pace.
    pub own: OwnLoad,
    /// Whether the lags can be believed.
    pub validity: Validity,
}
