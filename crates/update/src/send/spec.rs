//! The specification of a run of updates; it travels as JSON to the role that sends it.

use crate::{Error, TsigKey};
use measure::clock::SECOND;
use measure::files::Named;
use measure::{Files, Nanos, Pace, Seed};
use net::target::Prefix;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;

pub use engine::LONGEST;

/// How messages travel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SendTransport {
    /// In UDP datagrams.
    #[default]
    Udp,
    /// Over TCP, a connection for each client (RFC 7766).
    Tcp,
}

impl fmt::Display for SendTransport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Udp => "udp",
            Self::Tcp => "tcp",
        })
    }
}

/// Marker updates, by which it can be seen when changes are served elsewhere: each replaces the TXT RRset (TTL 0) of one name by
/// a number that goes up by one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MarkerSpec {
    /// The name; none: `_dnsrack` below the zone of the file's first update.
    #[serde(default)]
    pub name: Option<String>,
    /// The time between two of them, in nanoseconds.
    pub every: Nanos,
    /// The first number.
    #[serde(default = "one")]
    pub first: u64,
    /// Where a seed is given, each is due at a random instant of its interval: markers in step with a timer, such as the 5 s after which
    /// BIND tells its secondaries, would all see the same part of its waits.
    #[serde(default)]
    pub scattered: Option<Seed>,
}

fn one() -> u64 {
    1
}

/// Updates to be sent. Durations are nanoseconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SendSpec {
    /// The server.
    pub target: SocketAddr,
    /// The updates, in `nsupdate`'s format.
    pub file: PathBuf,
    /// When messages are sent: open loop, closed window or flood; nothing here is recorded.
    pub pace: Pace,
    /// The key that signs (TSIG).
    #[serde(default)]
    pub key: Option<TsigKey>,
    /// How messages travel.
    #[serde(default)]
    pub transport: SendTransport,
    /// Clients: sockets, or connections; 0: one, or as many as the ids in flight need.
    #[serde(default)]
    pub clients: u32,
    /// Local addresses to send from, and networks of such, in turn; none: whichever the system takes.
    #[serde(default)]
    pub sources: Vec<Prefix>,
    /// Transactions of the file that are merged into each message; 0 and 1: each is one.
    #[serde(default)]
    pub merge: u32,
    /// An answer later than this after its message was first sent is late, and counts as lost.
    #[serde(default = "four_seconds")]
    pub deadline: Nanos,
    /// How often a message without an answer is sent again, at even distances within its deadline.
    #[serde(default)]
    pub retries: u32,
    /// For how long messages are offered; none: until the end of the file.
    #[serde(default)]
    pub duration: Option<Nanos>,
    /// How many messages are offered at most.
    #[serde(default)]
    pub count: Option<u64>,
    /// The most messages sent at once; 0: what is due in a millisecond, 1 to 32 (flood: 512).
    #[serde(default)]
    pub burst: u32,
    /// Window or flood: without any valid answer for so long, while messages wait for one, the run ends.
    #[serde(default = "a_minute")]
    pub patience: Nanos,
    /// The core that the sender is pinned to.
    #[serde(default)]
    pub cpu: Option<usize>,
    /// Receive buffer of each client in bytes of the kernel's accounting.
    #[serde(default = "buffer")]
    pub recv_buffer: usize,
    /// A pacing error above this at the 99th percentile makes the trial invalid.
    #[serde(default = "pacing_limit")]
    pub pacing_limit: Nanos,
    /// A file for what became of each message, one a line (see [`crate::send`]).
    #[serde(default)]
    pub latencies: Option<PathBuf>,
    /// Markers between the updates.
    #[serde(default)]
    pub marker: Option<MarkerSpec>,
    /// Networks that belong to the rack.
    #[serde(default)]
    pub allowed: Vec<Prefix>,
    /// A target beyond this machine is meant.
    #[serde(default)]
    pub allow_external: bool,
}

fn four_seconds() -> Nanos {
    4 * SECOND
}

fn a_minute() -> Nanos {
    60 * SECOND
}

fn buffer() -> usize {
    4 << 20
}

fn pacing_limit() -> Nanos {
    measure::limits::PACING_LIMIT
}

/// How a run is spread over clients and ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Plan {
    pub clients: u32,
    /// Ids of each client that may be in flight.
    pub slots: usize,
    /// Ids of the client that sends markers.
    pub marker_slots: usize,
    pub burst: u32,
}

impl Files for SendSpec {
    fn files<E>(&mut self, visit: &mut dyn FnMut(Named<'_>) -> Result<(), E>) -> Result<(), E> {
        visit(Named::Read(&mut self.file))?;
        self.latencies.iter_mut().try_for_each(|file| visit(Named::Written(file)))
    }
}

impl SendSpec {
    /// With defaults for everything else.
    pub fn new(target: SocketAddr, file: impl Into<PathBuf>, pace: Pace) -> Self {
        Self {
            target,
            file: file.into(),
            pace,
            key: None,
            transport: SendTransport::default(),
            clients: 0,
            sources: Vec::new(),
            merge: 0,
            deadline: four_seconds(),
            retries: 0,
            duration: None,
            count: None,
            burst: 0,
            patience: a_minute(),
            cpu: None,
            recv_buffer: buffer(),
            pacing_limit: pacing_limit(),
            latencies: None,
            marker: None,
            allowed: Vec::new(),
            allow_external: false,
        }
    }

    /// Whether messages are due at instants of their own.
    pub(super) fn is_paced(&self) -> bool {
        matches!(self.pace, Pace::Open(_))
    }

    /// Checks all that can be checked without touching the world, and derives the plan.
    pub(super) fn plan(&self) -> Result<Plan, Error> {
        let refuse = |text: &str| Err(Error::Spec(text.into()));
        if self.deadline == 0 || self.deadline > 3600 * SECOND {
            return refuse("--deadline: it must be above 0 and at most an hour");
        }
        if self.duration == Some(0) || self.count == Some(0) {
            return refuse("a run of nothing: give a --duration and --count above zero");
        }
        if self.duration.is_some_and(|d| d > LONGEST) {
            return refuse("--duration: at most 24 hours");
        }
        if self.marker.as_ref().is_some_and(|m| m.every < 1_000_000) {
            return refuse("--marker-every: at least a millisecond");
        }
        if self.retries > 100 {
            return refuse("--retries: at most 100");
        }
        if !self.sources.is_empty() && !self.sources.iter().any(|s| s.ip.is_ipv4() == self.target.is_ipv4()) {
            return refuse("--source: no address of the target's family");
        }
        let (ids, burst) = match &self.pace {
            Pace::Open(arrivals) => {
                arrivals.check().map_err(Error::Spec)?;
                let ids = 2.0 * arrivals.peak() * self.deadline as f64 / SECOND as f64;
                (ids, (arrivals.peak() / 1000.0).clamp(1.0, 32.0) as u32)
            }
            Pace::Closed { window: 0 } => return refuse("--window: a window of 0 sends nothing"),
            Pace::Closed { window } => (2.0 * f64::from(*window), 32),
            Pace::Flood => (65_536.0, net::udp::FLOOD_BATCH as u32),
            Pace::Recorded { .. } => {
                return refuse("updates have no times of their own: give --rate, --window or --flood");
            }
        };
        let clients = match self.clients {
            0 => (ids / 65_536.0).ceil().max(1.0) as u32,
            n => n,
        };
        if clients > 16_384 {
            return Err(Error::Spec(format!(
                "{clients} clients: at most 16384; give a lower --rate or a shorter --deadline"
            )));
        }
        // Names are not dealt quite evenly.
        let share = if clients > 1 { 2.0 * ids / f64::from(clients) } else { ids };
        let slots = |n: f64| (n.ceil().clamp(64.0, 65_536.0) as usize).next_power_of_two();
        let markers = self.marker.as_ref().map_or(1.0, |m| 2.0 * self.deadline as f64 / m.every as f64);
        let burst = if self.burst == 0 { burst } else { self.burst };
        Ok(Plan { clients, slots: slots(share), marker_slots: slots(markers), burst })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use measure::Arrivals;

    fn spec(pace: Pace) -> SendSpec {
        SendSpec::new("127.0.0.1:53".parse().unwrap(), "updates", pace)
    }

    fn rate(rate: f64) -> Pace {
        Pace::Open(Arrivals::Fixed { rate })
    }

    #[test]
    fn ids_suffice_for_any_rate() {
        for (r, clients) in [(1.0, 1), (8000.0, 1), (100_000.0, 13), (400_000.0, 49)] {
            let plan = spec(rate(r)).plan().unwrap();
            assert_eq!(plan.clients, clients, "{r}");
            assert!(f64::from(plan.clients) * plan.slots as f64 >= 8.0 * r);
        }
        let many = SendSpec { clients: 1000, ..spec(rate(100.0)) }.plan().unwrap();
        assert_eq!((many.clients, many.slots), (1000, 64));
    }

    #[test]
    fn nonsense_is_refused_with_a_flag_to_change() {
        let marker = Some(MarkerSpec { name: None, every: 10, first: 1, scattered: None });
        for (bad, word) in [
            (spec(rate(0.0)), "rate"),
            (spec(Pace::Closed { window: 0 }), "--window"),
            (spec(Pace::Recorded { speed: 1.0 }), "--rate"),
            (SendSpec { deadline: 0, ..spec(Pace::Flood) }, "--deadline"),
            (SendSpec { count: Some(0), ..spec(Pace::Flood) }, "--count"),
            (SendSpec { marker, ..spec(Pace::Flood) }, "--marker-every"),
            (SendSpec { sources: vec!["::1".parse().unwrap()], ..spec(Pace::Flood) }, "--source"),
            (SendSpec { clients: 99_999, ..spec(Pace::Flood) }, "clients"),
        ] {
            let error = bad.plan().unwrap_err().to_string();
            assert!(error.contains(word), "{error}");
        }
    }

    #[test]
    fn a_specification_travels_as_json() {
        let full = SendSpec {
            key: Some(TsigKey::random("k").unwrap()),
            marker: Some(MarkerSpec { name: None, every: SECOND, first: 1, scattered: None }),
            ..spec(rate(5.0))
        };
        let text = serde_json::to_string(&full).unwrap();
        assert_eq!(serde_json::from_str::<SendSpec>(&text).unwrap(), full);
        let short = r#"{"target": "127.0.0.1:53", "file": "f", "pace": {"closed": {"window": 1}}, "marker": {"every": 5}}"#;
        assert_eq!(serde_json::from_str::<SendSpec>(short).unwrap().marker.unwrap().first, 1);
        assert!(serde_json::from_str::<SendSpec>(&short.replace("pace", "peace")).is_err());
    }
}
