//! The specification of a load; it travels as JSON to the role that sends it.

use crate::check::CheckSpec;
use crate::{Prefix, Source};
use engine::{LONGEST_SPIN, SPIN};
use measure::clock::SECOND;
use measure::files::Named;
use measure::{Files, Nanos, Pace, Seed};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::net::SocketAddr;

pub use engine::LONGEST;

/// How queries travel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Transport {
    /// In UDP datagrams.
    #[default]
    #[serde(rename = "udp")]
    Udp,
    /// Over TCP connections (RFC 7766).
    #[serde(rename = "tcp")]
    Tcp,
    /// In UDP datagrams; what is answered truncated is asked again over TCP.
    #[serde(rename = "udp+tcp")]
    UdpTcp,
}

impl Transport {
    /// Whether truncated answers are asked again.
    pub fn retries(self) -> bool {
        self == Self::UdpTcp
    }
}

impl fmt::Display for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Udp => "udp",
            Self::Tcp => "tcp",
            Self::UdpTcp => "udp+tcp",
        })
    }
}

/// How packets are sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Backend {
    /// AF_XDP for rates that sockets do not reach, where it can be had; otherwise sockets. A flood and a window go over sockets:
    /// the one is faster there (UDP GSO), the other is compared with dnsperf, which uses them.
    #[default]
    Auto,
    /// AF_XDP, or an error.
    Xdp,
    /// Sockets.
    Socket,
}

/// The life of a TCP connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Connections {
    /// How many each worker may have open; 0: as many as there are flows, or 64.
    pub most: u32,
    /// Queries on each before we close it; 0: no limit.
    pub queries: u32,
    /// We close a connection that was idle for longer, in nanoseconds; 0: never.
    pub idle: Nanos,
    /// The most queries waiting for their answers on one connection; more wait on our side. 0: no limit.
    pub pipeline: u32,
    /// We close with RST instead of FIN: no port waits in TIME_WAIT then, of which a source address has enough for
    /// about 470 connections a second to one target.
    pub reset: bool,
}

impl Default for Connections {
    fn default() -> Self {
        Self { most: 0, queries: 0, idle: 10 * SECOND, pipeline: 0, reset: false }
    }
}

/// A load. Durations are nanoseconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LoadSpec {
    /// The servers' addresses; the flows are spread over them evenly.
    pub targets: Vec<SocketAddr>,
    /// The queries.
    pub source: Source,
    /// When they are sent.
    pub pace: Pace,
    /// How long queries are offered, after the warm-up.
    #[serde(default)]
    pub duration: Option<Nanos>,
    /// How many queries are offered at most, after the warm-up.
    #[serde(default)]
    pub count: Option<u64>,
    /// For how long queries are offered before they count.
    #[serde(default)]
    pub warmup: Nanos,
    /// An answer later than this after its query was sent is late, and counts as lost.
    #[serde(default = "four_seconds")]
    pub deadline: Nanos,
    /// Flows (source addresses and ports); 0: as many as the ids in flight need, at least 16 for each worker.
    #[serde(default)]
    pub flows: u32,
    /// Local addresses to send from, and networks of such, in turn; none: whichever the system takes.
    #[serde(default)]
    pub sources: Vec<Prefix>,
    /// Sending threads; 0: one for each of `cpus`, or one.
    #[serde(default)]
    pub workers: u32,
    /// Cores that the workers are pinned to, in turn; none: not pinned.
    #[serde(default)]
    pub cpus: Vec<usize>,
    /// Other generators of the same load have these cores too: that they wait for each other does not make it invalid.
    #[serde(default)]
    pub shared_cpus: bool,
    /// The most queries that a worker sends at once; 0: what is due in a millisecond, 1 to 32, and at least `group`
    /// (flood: 512).
    #[serde(default)]
    pub burst: u32,
    /// The number of queries that are due together, at the same mean rate; 0 and 1: each by itself.
    #[serde(default)]
    pub group: u32,
    /// For how long a worker polls before a deadline instead of sleeping, in nanoseconds. A shorter time leaves more of its core to
    /// others, and queries leave as late as the machine wakes a thread; with 0 it only sleeps. None: see [`Self::spins`].
    #[serde(default)]
    pub spin: Option<Nanos>,
    /// How queries travel.
    #[serde(default)]
    pub transport: Transport,
    /// The share (0 to 1) of truncated answers that is asked again, with [`Transport::UdpTcp`]; `None`: what the
    /// queries' profile says, otherwise 1.
    #[serde(default)]
    pub retry: Option<f64>,
    /// How packets are sent.
    #[serde(default)]
    pub backend: Backend,
    /// With [`Backend::Auto`]: AF_XDP whatever the rate, where it can be had.
    #[serde(default)]
    pub prefer_xdp: bool,
    /// The life of TCP connections.
    #[serde(default)]
    pub connections: Connections,
    /// Receive buffer of each flow in bytes of the kernel's accounting; the result says what was granted.
    #[serde(default = "buffer")]
    pub recv_buffer: usize,
    /// The server's processes where they are on this machine: they and their descendants are watched, so that findings can
    /// tell the server from the way to it, and reasons what held it up.
    #[serde(default)]
    pub server_pids: Vec<u32>,
    /// Checks a sample of the answers in full, after the run.
    #[serde(default)]
    pub check: Option<CheckSpec>,
    /// A pacing error above this at the 99th percentile makes the trial invalid, in nanoseconds:
    /// [`crate::PACING_LIMIT`], or more where only rates and losses matter ([`crate::search::PACING_LIMIT`]).
    #[serde(default = "pacing_limit")]
    pub pacing_limit: Nanos,
    /// For the ids; the queries have the seed of their source.
    #[serde(default)]
    pub seed: Seed,
    /// Networks that belong to the rack.
    #[serde(default)]
    pub allowed: Vec<Prefix>,
    /// Targets beyond this machine are meant.
    #[serde(default)]
    pub allow_external: bool,
}

fn four_seconds() -> Nanos {
    4 * SECOND
}

fn pacing_limit() -> Nanos {
    crate::PACING_LIMIT
}

fn buffer() -> usize {
    4 << 20
}

impl Files for LoadSpec {
    fn files<E>(&mut self, visit: &mut dyn FnMut(Named<'_>) -> Result<(), E>) -> Result<(), E> {
        self.source.files(visit)?;
        self.check.iter_mut().try_for_each(|check| visit(Named::Read(&mut check.zone)))
    }
}

impl LoadSpec {
    /// A load with defaults for everything else.
    pub fn new(targets: Vec<SocketAddr>, source: impl Into<Source>, pace: Pace, duration: Nanos) -> Self {
        Self {
            targets,
            source: source.into(),
            pace,
            duration: Some(duration),
            count: None,
            warmup: 0,
            deadline: four_seconds(),
            flows: 0,
            sources: Vec::new(),
            workers: 0,
            cpus: Vec::new(),
            shared_cpus: false,
            burst: 0,
            recv_buffer: buffer(),
            group: 0,
            spin: None,
            transport: Transport::default(),
            retry: None,
            backend: Backend::default(),
            prefer_xdp: false,
            connections: Connections::default(),
            check: None,
            server_pids: Vec::new(),
            pacing_limit: pacing_limit(),
            seed: Seed::default(),
            allowed: Vec::new(),
            allow_external: false,
        }
    }

    /// For how long a worker polls before a deadline: at the beginning, and at most. Both are in nanoseconds. Without [`Self::spin`] it
    /// begins with [`SPIN`], and polls for up to [`LONGEST_SPIN`] where the machine wakes it late. It does not where other generators
    /// have the same cores. A recording begins with the longest, as its timing is the point: after a sleep a query leaves several
    /// microseconds later, because nothing of the way is in the processor's caches any more.
    pub(crate) fn spins(&self) -> (Nanos, Nanos) {
        match self.spin {
            Some(given) => (given, given),
            None if matches!(self.pace, Pace::Recorded { .. }) => (LONGEST_SPIN, LONGEST_SPIN),
            None if self.shared_cpus => (SPIN, SPIN),
            None => (SPIN, LONGEST_SPIN),
        }
    }

    /// Whether the same load may go over AF_XDP instead of sockets: it is left to us, and has not been tried.
    pub(crate) fn can_go_past_sockets(&self) -> bool {
        let loopback = self.targets.iter().any(|target| target.ip().is_loopback());
        self.backend == Backend::Auto && !self.prefer_xdp && !loopback && self.transport == Transport::Udp
    }

    /// Whether queries are due at instants of their own.
    pub fn is_paced(&self) -> bool {
        matches!(self.pace, Pace::Open(_) | Pace::Recorded { .. })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use measure::Arrivals;

    #[test]
    fn a_specification_travels_as_json() {
        let source: Source = serde_json::from_str(r#"{"traffic": {"queries": {"path": "q"}}}"#).unwrap();
        let pace = Pace::Open(Arrivals::Fixed { rate: 5000.0 });
        let spec = LoadSpec {
            allowed: vec!["10.53.0.0/24".parse().unwrap()],
            ..LoadSpec::new(vec!["127.0.0.1:53".parse().unwrap()], source, pace, 60 * SECOND)
        };
        let text = serde_json::to_string(&spec).unwrap();
        assert_eq!(serde_json::from_str::<LoadSpec>(&text).unwrap(), spec);
        let short = r#"{"targets": ["127.0.0.1:53"], "source": {"traffic": {"queries": {"path": "q"}}}, "pace": "flood", "count": 5}"#;
        assert_eq!(serde_json::from_str::<LoadSpec>(short).unwrap().deadline, 4 * SECOND);
        assert!(serde_json::from_str::<LoadSpec>(&short.replace("count", "cuont")).is_err());
    }
}
