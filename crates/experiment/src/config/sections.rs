//! The sections of an experiment file, each with its defaults; those of zones that change are in `distribution.rs`.

use super::{Signing, Syncs};
use measure::{Time, units};
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::path::PathBuf;
use traffic::ProfileChanges;

/// How memory is looked at.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Memory {
    /// Memory has settled when it changed by less than 1 % for this long after the first right answer.
    #[serde(deserialize_with = "Time::positive")]
    pub settle: Time,
    /// Longest wait for memory to settle.
    #[serde(deserialize_with = "Time::positive")]
    pub patience: Time,
}

impl Default for Memory {
    fn default() -> Self {
        Self { settle: Time::seconds(2), patience: Time::seconds(60) }
    }
}

/// How loading and reloading are watched.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Load {
    /// Queries per second from before the start to after the reload.
    pub rate: f64,
    /// Change the zone (serial and last record) and have it reloaded.
    pub reload: bool,
}

impl Default for Load {
    fn default() -> Self {
        Self { rate: 500.0, reload: true }
    }
}

/// Where the queries come from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Traffic {
    /// A built-in profile or a profile file, over the names of the zone served.
    pub profile: String,
    /// A query file (dnsperf's `name type` lines) instead of a profile.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queries: Option<PathBuf>,
    /// A capture instead of a profile: its queries at their times, over the transports that they had. Rates are of no
    /// effect on it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trace: Option<PathBuf>,
    /// How much faster than captured.
    pub speed: f64,
    /// Values that replace those of the profile.
    pub changes: ProfileChanges,
    /// `udp`; `udp+tcp`: truncated answers are asked again; `tcp`.
    pub transport: load::Transport,
    /// The share of truncated answers that is asked again; the profile's, or 1, where absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry: Option<f64>,
    /// Hosts that ask together, each an equal part.
    pub generators: u32,
    /// Addresses of the server that queries go to, in turn.
    pub addresses: u32,
    /// How packets are sent: `auto`, `socket` or `xdp`.
    pub backend: load::Backend,
    /// Answers of a load, drawn at random, that are compared with the zone file in full once it is over: records, referral, denial,
    /// signatures (docs/trust.md). 0: none. Answers of a zone that changes meanwhile are not compared.
    pub check: u32,
}

impl Default for Traffic {
    fn default() -> Self {
        Self {
            profile: "rzaia".into(),
            queries: None,
            trace: None,
            speed: 1.0,
            changes: ProfileChanges::default(),
            transport: load::Transport::Udp,
            retry: None,
            generators: 1,
            addresses: 1,
            backend: load::Backend::Auto,
            check: 1000,
        }
    }
}

/// A trial at a fixed rate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Latency {
    /// Queries per second; a trial each.
    pub rates: Vec<f64>,
    /// Length of the measured part: `60s`.
    #[serde(deserialize_with = "Time::positive")]
    pub duration: Time,
    /// Load before the measured part, which is not recorded.
    pub warmup: Time,
    /// An answer that takes longer is late, and counts as lost.
    #[serde(deserialize_with = "Time::positive")]
    pub deadline: Time,
    /// How late queries may leave at the 99th percentile in a valid trial. More than usual is fine where answers are counted
    /// rather than timed.
    #[serde(deserialize_with = "Time::positive")]
    pub pacing: Time,
    /// Capture at the server's end of the link as well, as RZAIA's monitor host did, and say what that saw: how many
    /// queries, and from each to its answer how long. The capture takes time of the server's cores that nobody wants.
    pub witness: bool,
}

impl Default for Latency {
    fn default() -> Self {
        Self {
            rates: vec![5000.0],
            duration: Time::seconds(60),
            warmup: Time::seconds(1),
            deadline: Time::seconds(4),
            pacing: Time(measure::limits::PACING_LIMIT),
            witness: false,
        }
    }
}

/// A trial with a closed window.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Throughput {
    /// Queries of each generator that wait for their answers: 20 were queryperf's default.
    pub window: u32,
    /// Queries of the measured part, of all generators together, where it ends with the last of them, as a stream that is timed to its end.
    /// It ends after `duration` all the same.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
    /// Length of the measured part.
    #[serde(deserialize_with = "Time::positive")]
    pub duration: Time,
    /// Load before the measured part, which is not recorded.
    pub warmup: Time,
    /// A query without an answer after this time is lost, and the next takes its place.
    #[serde(deserialize_with = "Time::positive")]
    pub deadline: Time,
}

impl Default for Throughput {
    fn default() -> Self {
        Self {
            window: 20,
            count: None,
            duration: Time::seconds(60),
            warmup: Time::seconds(1),
            deadline: Time::seconds(5),
        }
    }
}

/// A search for the highest rate (RFC 9971).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Peak {
    /// The goal's loss ratio.
    pub loss: f64,
    /// Length of the goal's trials.
    #[serde(deserialize_with = "Time::positive")]
    pub trial: Time,
    /// Time of trials after which RFC 9971 classes a rate; at least two trials.
    #[serde(deserialize_with = "Time::positive")]
    pub duration_sum: Time,
    /// Relative distance of the bounds at which the search ends.
    pub width: f64,
    /// Time for the whole search of one server on one zone.
    #[serde(deserialize_with = "Time::positive")]
    pub budget: Time,
    /// An answer that takes longer counts as lost.
    #[serde(deserialize_with = "Time::positive")]
    pub deadline: Time,
    /// Queries that wait for their answers while the capacity is measured.
    pub window: u32,
    /// Length of one load with a window.
    #[serde(deserialize_with = "Time::positive")]
    pub window_load: Time,
    /// Loads with a window, from which the capacity is taken.
    pub window_loads: u32,
}

impl Default for Peak {
    fn default() -> Self {
        Self {
            loss: 0.001,
            trial: Time::seconds(1),
            duration_sum: Time::seconds(3),
            width: 0.05,
            budget: Time::seconds(30),
            deadline: Time::millis(200),
            window: 250,
            window_load: Time::seconds(1),
            window_loads: 6,
        }
    }
}

/// The receive buffer of a server's sockets, in bytes; none: as the server makes it. In files `"default"`, a number, or `"4M"`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReceiveBuffer(pub Option<usize>);

impl Serialize for ReceiveBuffer {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            None => s.serialize_str("default"),
            Some(bytes) => s.collect_str(&bytes),
        }
    }
}

impl<'de> Deserialize<'de> for ReceiveBuffer {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Given {
            Bytes(usize),
            Text(String),
        }
        let text = match Given::deserialize(d)? {
            Given::Bytes(bytes) => return Ok(Self(Some(bytes))),
            Given::Text(text) => text,
        };
        if text == "default" {
            return Ok(Self(None));
        }
        let wrong =
            |_| de::Error::custom(format!("'{text}' is neither 'default' nor a number of bytes such as 4M"));
        units::count(&text).map(|bytes| Self(Some(bytes as usize))).map_err(wrong)
    }
}

/// Cores of the parts of an experiment. Where a key is empty, parts have cores of their own as long as there are enough: half to the
/// servers, the measured one first, and half to the generators.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Cpus {
    /// Cores of the server's host.
    pub server: Vec<usize>,
    /// Cores of the generators.
    pub generator: Vec<usize>,
    /// Cores of the other servers of a distribution, its primary among them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub others: Vec<usize>,
    /// Cores of the path emulator, where there are paths; the generators' where there are too few.
    pub router: Vec<usize>,
    /// Cores of the captures that are made during loads; the server's where there are too few.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub monitor: Vec<usize>,
}

/// A server under test that is more than a kind: another build or another configuration.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Server {
    /// `bind`, `nsd`, `knot`, `powerdns`, `yadifa`, `hickory` or `external`; the label where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub kind: Option<server::Kind>,
    /// The program instead of the one on PATH. Its tools are taken from beside it, or from `sbin` and `bin` next to its folder. Its version
    /// is asked for and stands in the report.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<PathBuf>,
    /// The root folder of another distribution or release that its program, tools and libraries are taken from, as `scripts/server-root.sh`
    /// makes it. The kernel is this machine's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub root: Option<PathBuf>,
    /// A file with extra configuration in the server's own syntax (for BIND the inside of `options`, for NSD of `server:`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config: Option<PathBuf>,
    /// Threads or processes that answer; as many as the server has cores where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workers: Option<u32>,
    /// As `signing` of `[distribution]`, where it is the primary.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signing: Option<Signing>,
    /// Where an `external` server answers already: `ADDR:PORT`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<std::net::SocketAddr>,
    /// Of an `external` server: the file with the TSIG key for its updates and transfers, as `tsig-keygen` writes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tsig: Option<PathBuf>,
    /// Of an `external` server: a command, with its arguments, that restores the zone file on the server. It is run before each trial and
    /// must end within five minutes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reset: Vec<String>,
    /// Whether it syncs where it is under updates: `on`, `off`, `preload`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub syncs: Option<Syncs>,
}
