//! The experiment file: TOML, lists and one `[quick]` override, nothing cleverer.

mod batches;
mod distribution;
mod durability;
mod sections;
mod zone;

pub use self::zone::Scenario;
pub use batches::Batches;
pub use distribution::{Distribution, Queried, Signing, Timers, Updates};
pub use durability::{Durability, Syncs};
pub use sections::{Server, Traffic};

use self::zone::Zone;
use crate::Error;
use crate::keys::nearest;
use measure::Time;
use results::compare::Gates;
use schemars::JsonSchema;
pub use sections::Cpus;
use sections::{Latency, Load, Memory, Peak, ReceiveBuffer, Throughput};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::str::FromStr;
use traffic::ProfileChanges;

/// An experiment: what to measure, of which servers, with which zones and traffic.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Experiment {
    /// Its name in the catalogue and in reports.
    pub name: String,
    /// One line that says what it measures.
    pub title: String,
    /// Which published experiment this repeats, and how it differs from it.
    #[serde(default)]
    pub about: String,
    /// Published tables to set beside the measured ones: `rzaia-3.1`.
    #[serde(default)]
    pub published: Vec<String>,
    /// The measurements to make of each server on each zone.
    pub measure: Vec<Measure>,
    /// Labels of the servers, in order; a label without a `[server.LABEL]` is a kind.
    pub servers: Vec<String>,
    /// Numbers of CPUs for the server. Each trial is made with each of them, and with as many workers. Without, the server has all CPUs of
    /// its host.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub workers: Vec<u32>,
    /// How often each trial is done, each time with a fresh server.
    #[serde(default = "one")]
    pub repeats: u32,
    /// How often a trial is tried before it stands as invalid: another program may disturb the generator.
    #[serde(default = "three")]
    pub attempts: u32,
    /// How long to wait before each trial for cores that are quiet; with none a trial begins at once.
    #[serde(default = "ten_seconds")]
    pub settle: Time,
    /// What the idle cores of its machines do. With `system` the kernel and the hypervisor decide when they sleep. With `poll` they are
    /// kept awake; this needs root.
    #[serde(default, skip_serializing_if = "Idle::is_system")]
    #[schemars(extend("default" = "system"))]
    pub idle: Idle,
    /// Look each second at what both sides use (CPU, memory, switches, disk, drops); without, nothing is known of it, and
    /// what looking costs can be measured.
    #[serde(default = "yes")]
    pub sampling: bool,
    /// Record times and rates of batches. Without them a trial has counts and octets, and is valid however long its servers waited for
    /// a core: trials at the same time (`--parallel`) may keep the cores busy then. It needs default timers. The time of all batches is
    /// still recorded where the wait of a BIND primary between two NOTIFYs (5 s) explains 99 % of it, as a busy core cannot matter then.
    #[serde(default = "yes", skip_serializing_if = "Clone::clone")]
    #[schemars(extend("default" = true))]
    pub batch_times: bool,
    /// Count queries and updates a second time: in the kernel of the host at which they arrive. A trial whose two counts contradict each
    /// other is invalid. Counting takes time of the server's cores (docs/trust.md).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub second_count: bool,
    /// In which order trials are done.
    #[serde(default)]
    pub order: Order,
    /// Further repeats until figures are known well enough.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub precision: Option<Precision>,
    /// Which of two servers is the base of a comparison and which the candidate, and what decides.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comparison: Option<Comparison>,
    /// Seed of zones and traffic: the same seed gives the same zones and queries.
    #[serde(default = "one_seed")]
    pub seed: u64,
    /// How long a server may take to its first right answer, and as long again after a reload: this, and a second more
    /// for each megabyte of zone; K times as long where K trials share the cores (`--parallel K`).
    #[serde(default = "one_minute", deserialize_with = "Time::positive")]
    pub patience: Time,
    /// The zones.
    #[serde(default)]
    pub zone: Zone,
    /// The queries.
    #[serde(default)]
    pub traffic: Traffic,
    /// The cap on UDP answers that servers are given, in octets.
    #[serde(default = "default_udp_size")]
    pub udp_size: u16,
    /// The receive buffer of each of the server's UDP sockets, in bytes: `default`, as the server makes it, or the same for every
    /// server.
    #[serde(default)]
    #[schemars(with = "String")]
    pub receive_buffer: ReceiveBuffer,
    /// Other traffic, or another cap: with any, trials with queries are done for each of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub variant: Vec<Variant>,
    /// Trials at a fixed rate.
    #[serde(default)]
    pub latency: Latency,
    /// Trials with a window.
    #[serde(default)]
    pub throughput: Throughput,
    /// Searches for the highest rate.
    #[serde(default)]
    pub peak: Peak,
    /// How memory is looked at.
    #[serde(default)]
    pub memory: Memory,
    /// How loading and reloading are watched.
    #[serde(default)]
    pub load: Load,
    /// The primary, the secondaries, and who transfers from whom.
    #[serde(default)]
    pub distribution: Distribution,
    /// Which updates are sent, and how fast.
    #[serde(default)]
    pub updates: Updates,
    /// How durability is looked at.
    #[serde(default, skip_serializing_if = "Durability::is_default")]
    pub durability: Durability,
    /// How much of a zone changes in batches, and how many these are.
    #[serde(default)]
    pub batches: Batches,
    /// The cores of the generators and of the server.
    #[serde(default)]
    pub cpus: Cpus,
    /// Servers that are more than a kind.
    #[serde(default)]
    pub server: BTreeMap<String, Server>,
    /// The values that `--set size=quick` puts in place of those above.
    #[serde(default, skip_serializing)]
    #[schemars(skip)]
    pub quick: Option<Quick>,
}

fn one() -> u32 {
    1
}

fn three() -> u32 {
    3
}

fn yes() -> bool {
    true
}

fn ten_seconds() -> Time {
    Time::seconds(10)
}

fn one_minute() -> Time {
    Time::seconds(60)
}

fn forty() -> u32 {
    40
}

fn ten_minutes() -> Time {
    Time::seconds(600)
}

fn one_seed() -> u64 {
    1
}

fn default_udp_size() -> u16 {
    server::DEFAULT_UDP_SIZE
}

/// A kind of measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Measure {
    /// Response latency at a fixed rate (RZAIA 3.2).
    Latency,
    /// The rate of answers where each generator keeps a window of queries waiting (queryperf's way: ISC 3.3 and 6.3.1,
    /// Nominet).
    Throughput,
    /// The highest rate within the loss goal (ISC 6.3.1), by RFC 9971.
    Peak,
    /// The memory of a server that has loaded the zone and answers from it (RZAIA, chapter 2).
    Memory,
    /// Time from the start, and from a reload with a changed zone, to the right answer (RZAIA 4), and what queries are
    /// answered meanwhile.
    Load,
    /// How fast a primary takes updates (ISC 6.3.2).
    Update,
    /// From an update to the first answer of each secondary that shows it.
    Lag,
    /// The octets and the lag of each version of a real zone on its way to each secondary.
    Churn,
    /// A secondary's first transfer of the whole zone (RZAIA 5.1).
    Transfer,
    /// Whether a primary's answers to updates follow a sync, by a trace; and its rate beside the disk's own syncs (ISC 6.3.2).
    Syncs,
    /// Whether what a primary acknowledged survives a power cut (RFC 2136, section 3.5).
    #[serde(rename = "power-cut")]
    PowerCut,
    /// The zone that a secondary serves when it is killed while changes come.
    Kill,
    /// Batches of updates, each sent when the secondary serves the one before, with queries there meanwhile (RZAIA 5.3).
    Batches,
}

impl Measure {
    /// The word in files and reports.
    pub fn word(self) -> &'static str {
        match self {
            Self::Latency => "latency",
            Self::Throughput => "throughput",
            Self::Peak => "peak",
            Self::Memory => "memory",
            Self::Load => "load",
            Self::Update => "update",
            Self::Lag => "lag",
            Self::Churn => "churn",
            Self::Transfer => "transfer",
            Self::Syncs => "syncs",
            Self::PowerCut => "power-cut",
            Self::Kill => "kill",
            Self::Batches => "batches",
        }
    }
}

/// What idle cores do while a run goes on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Idle {
    /// They sleep, as the kernel and the hypervisor have it.
    #[default]
    System,
    /// They poll, so that no time is lost with waking (as with the kernel's `idle=poll`).
    Poll,
}

impl Idle {
    fn is_system(&self) -> bool {
        *self == Self::System
    }
}

/// In which order the trials are done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Order {
    /// Repeat by repeat, zone by zone, servers fastest: a slow drift of the machine falls on all servers alike.
    #[default]
    Blocked,
    /// Within each repeat, zones and the trials on each in an order drawn from the seed: no drift can pass for a
    /// difference.
    Random,
    /// Cell by cell, its repeats one after the other, servers in turn and back (A B, B A, A B …): for the difference
    /// between two servers.
    Interleaved,
}

/// When there are enough repeats.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Precision {
    /// Half the width of the 95 % interval of a rate, a time or a size, relative to the median, at most.
    pub rate: f64,
    /// Half the width of the 95 % interval of a median latency, relative to the median, at most.
    pub latency: f64,
    /// No more repeats than these.
    pub repeats: u32,
    /// No further repeat is begun after this time.
    #[serde(deserialize_with = "Time::positive")]
    pub budget: Time,
}

impl Default for Precision {
    fn default() -> Self {
        Self { rate: 0.05, latency: 0.15, repeats: 30, budget: Time::seconds(3600) }
    }
}

/// A comparison of a candidate with a base. Their repeats are pairs, and there are further ones until each figure that
/// decides is known at its threshold.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Comparison {
    /// The label of the server that the other is compared with.
    #[serde(default)]
    pub base: String,
    /// The label of the server that is compared with the base.
    #[serde(default)]
    pub candidate: String,
    /// The figures that decide, by name or group, each with its threshold as a share of change.
    #[serde(default)]
    #[schemars(with = "BTreeMap<String, f64>")]
    pub gates: Gates,
    /// No more repeats of a cell than these.
    #[serde(default = "forty")]
    pub repeats: u32,
    /// No further repeat is begun after this time.
    #[serde(default = "ten_minutes", deserialize_with = "Time::positive")]
    pub budget: Time,
}

/// The most generators, or addresses of a server, that a rack may have.
pub(crate) const MANY: u32 = 32;

/// Other traffic than the experiment's: what it does not say is as there.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Variant {
    /// Its name in tables.
    pub name: String,
    /// As [`Traffic::profile`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<String>,
    /// As [`Traffic::queries`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queries: Option<PathBuf>,
    /// As [`Traffic::trace`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<PathBuf>,
    /// As [`Traffic::changes`], all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changes: Option<ProfileChanges>,
    /// As [`Traffic::transport`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transport: Option<load::Transport>,
    /// As [`Traffic::generators`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generators: Option<u32>,
    /// As [`Traffic::addresses`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub addresses: Option<u32>,
    /// As [`Experiment::udp_size`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub udp_size: Option<u16>,
    /// As [`Experiment::receive_buffer`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub receive_buffer: Option<ReceiveBuffer>,
    /// As [`Latency::rates`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rates: Option<Vec<f64>>,
    /// Of the experiment's sources, this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<SourceKind>,
    /// As [`Experiment::distribution`], all of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub distribution: Option<Distribution>,
    /// Whether servers under updates sync: `on`, `off`, `preload`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub syncs: Option<Syncs>,
    /// As [`Experiment::batches`], all of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub batches: Option<Batches>,
}

/// Where queries come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum SourceKind {
    /// [`Traffic::profile`].
    Profile,
    /// [`Traffic::queries`].
    Queries,
    /// [`Traffic::trace`].
    Trace,
}

/// The override for a small machine and little time: the same keys, all optional.
///
/// Typed only so that a typing error is found with its line; the merge works on the TOML itself.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Quick {
    measure: Option<Vec<Measure>>,
    servers: Option<Vec<String>>,
    workers: Option<Vec<u32>>,
    repeats: Option<u32>,
    zone: Option<Zone>,
    latency: Option<Latency>,
    throughput: Option<Throughput>,
    peak: Option<Peak>,
    precision: Option<Precision>,
    traffic: Option<Traffic>,
    distribution: Option<Distribution>,
    updates: Option<Updates>,
    durability: Option<Durability>,
    batches: Option<Batches>,
    variant: Option<Vec<Variant>>,
}

impl Experiment {
    /// The server behind a label.
    ///
    /// # Errors
    /// Those of [`Experiment::kind`].
    pub fn server(&self, label: &str) -> Result<Server, Error> {
        self.kind(label)?;
        Ok(self.server.get(label).cloned().unwrap_or_default())
    }

    /// The program of a server.
    ///
    /// # Errors
    /// [`Error::Plan`] where the label is no server.
    pub fn program(&self, label: &str) -> Result<server::Program, Error> {
        let Server { program, root, .. } = self.server(label)?;
        Ok(server::Program { kind: self.kind(label)?, path: program, root })
    }

    /// The scenarios by name, and how the zone of each is made.
    pub fn scenarios(&self) -> Vec<(&str, String)> {
        self.zone
            .scenarios
            .iter()
            .map(|(name, scenario)| (name.as_str(), scenario.words(&self.zone)))
            .collect()
    }

    /// The kind behind a label: that of its `[server.LABEL]`, or the label itself.
    ///
    /// # Errors
    /// [`Error::Plan`] where there is no such kind.
    pub fn kind(&self, label: &str) -> Result<server::Kind, Error> {
        if let Some(kind) = self.server.get(label).and_then(|server| server.kind) {
            return Ok(kind);
        }
        let kinds = server::Kind::ALL.map(server::Kind::name);
        server::Kind::from_str(label).map_err(|_| {
            self.refuse(format!(
                "servers: '{label}' is no kind ({}) and there is no server.{label}.kind{}",
                kinds.join(", "),
                nearest(label, kinds.into_iter().chain(self.server.keys().map(String::as_str)))
            ))
        })
    }

    /// The labels of all servers that it starts, each once.
    pub fn labels(&self) -> Vec<&String> {
        let beside = self.distributions().into_iter().flat_map(|d| d.primary.iter().chain(&d.others));
        let mut all: Vec<&String> = Vec::new();
        for label in self.servers.iter().chain(beside) {
            if !all.contains(&label) {
                all.push(label);
            }
        }
        all
    }

    /// The experiment as a file, all defaults written out.
    ///
    /// # Errors
    /// [`Error::Plan`] where a value has no form in TOML.
    pub fn to_toml(&self) -> Result<String, Error> {
        toml::to_string(self).map_err(|m| self.refuse(m.to_string()))
    }

    /// Whether its servers answer already, somewhere outside the rack.
    ///
    /// # Errors
    /// [`Error::Plan`] where only some do: they cannot be reached from the same network as the others.
    pub fn is_external(&self) -> Result<bool, Error> {
        let mut external = 0;
        for label in &self.servers {
            external += usize::from(self.server(label)?.address.is_some());
        }
        if external > 0 && external < self.servers.len() {
            return Err(self.refuse(
                "servers: those that answer already are measured over the machine's own network, the others on the \
                 rack: put them into experiments of their own",
            ));
        }
        Ok(external > 0)
    }

    /// The traffic of a variant: the experiment's, with what the variant says; and the cap on UDP answers.
    pub fn traffic_of(&self, variant: Option<&str>) -> (Traffic, u16) {
        let mut traffic = self.traffic.clone();
        let mut udp_size = self.udp_size;
        if let Some(v) = self.variant.iter().find(|v| Some(v.name.as_str()) == variant) {
            traffic.profile = v.profile.clone().unwrap_or(traffic.profile);
            // One kind of source takes the place of the other.
            if v.profile.is_some() || v.queries.is_some() || v.trace.is_some() {
                (traffic.queries, traffic.trace) = (v.queries.clone(), v.trace.clone());
            }
            if let Some(source) = v.source {
                traffic.queries = traffic.queries.filter(|_| source == SourceKind::Queries);
                traffic.trace = traffic.trace.filter(|_| source == SourceKind::Trace);
            }
            traffic.changes = v.changes.clone().unwrap_or(traffic.changes);
            traffic.transport = v.transport.unwrap_or(traffic.transport);
            traffic.generators = v.generators.unwrap_or(traffic.generators);
            traffic.addresses = v.addresses.unwrap_or(traffic.addresses);
            udp_size = v.udp_size.unwrap_or(udp_size);
        }
        (traffic, udp_size)
    }

    /// The receive buffer that the server's sockets are to have in a variant, in bytes; none: as the server makes them.
    pub fn receive_buffer_of(&self, variant: Option<&str>) -> Option<usize> {
        let of_variant = self.variant.iter().find(|v| Some(v.name.as_str()) == variant);
        of_variant.and_then(|v| v.receive_buffer).unwrap_or(self.receive_buffer).0
    }

    /// All traffics, the experiment's own where there is no variant.
    pub fn traffics(&self) -> Vec<Traffic> {
        match self.variant.as_slice() {
            [] => vec![self.traffic.clone()],
            all => all.iter().map(|v| self.traffic_of(Some(&v.name)).0).collect(),
        }
    }

    pub(crate) fn refuse(&self, message: impl Into<String>) -> Error {
        Error::Plan { name: self.name.clone(), message: message.into() }
    }
}
