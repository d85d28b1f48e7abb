//! The experiment file: TOML, lists and one `[quick]` override, nothing cleverer.

use crate::Error;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::str::FromStr;

/// An experiment: what to measure, of which servers, with which zones and traffic.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Experiment {
    /// Its name in the catalogue and in reports.
    pub name: String,
    /// One line.
    pub title: String,
    /// What it repeats, and how it differs from the seed.
    #[serde(default)]
    pub about: String,
    /// Published tables to set beside the measured ones: `rzaia-3.1`.
    #[serde(default)]
    pub published: Vec<String>,
    /// What each server is measured for on each zone.
    pub measure: Vec<Measure>,
    /// Labels of the servers, in order; a label without a `[server.LABEL]` is a kind.
    pub servers: Vec<String>,
    /// How often each trial is done, each time with a fresh server.
    #[serde(default = "one")]
    pub repeats: u32,
    /// How often a trial is tried before it stands as invalid: another program may disturb the generator.
    #[serde(default = "three")]
    pub attempts: u32,
    /// Of the zones and of the traffic.
    #[serde(default = "one_seed")]
    pub seed: u64,
    /// The zones.
    #[serde(default)]
    pub zone: Zone,
    /// The queries.
    #[serde(default)]
    pub traffic: Traffic,
    /// Trials at a fixed rate.
    #[serde(default)]
    pub latency: Latency,
    /// Searches for the highest rate.
    #[serde(default)]
    pub peak: Peak,
    /// Which cores serve whom.
    #[serde(default)]
    pub cpus: Cpus,
    /// Servers that are more than a kind.
    #[serde(default)]
    pub server: BTreeMap<String, Server>,
    /// What `--set size=quick` puts in place of the above.
    #[serde(default, skip_serializing)]
    pub quick: Option<Quick>,
}

fn one() -> u32 {
    1
}

fn three() -> u32 {
    3
}

fn one_seed() -> u64 {
    1
}

/// What a trial measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Measure {
    /// Response latency at a fixed rate (RZAIA 3.2).
    Latency,
    /// The highest rate within the loss goal (ISC 6.3.1), by RFC 9971.
    Peak,
}

impl Measure {
    /// The word in files and reports.
    pub fn word(self) -> &'static str {
        match self {
            Self::Latency => "latency",
            Self::Peak => "peak",
        }
    }
}

/// Which zones are served: every family at every size, or the user's own file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Zone {
    /// RZAIA's families: `U-4-DS0` … `S-6-DS100`; S families are signed.
    pub families: Vec<String>,
    /// Delegations of each.
    pub delegations: Vec<u64>,
    /// A zone file of one's own instead of families.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<PathBuf>,
    /// How S families, and the zone file where `sign_file` says so, are signed: `rzaia` or an algorithm.
    pub sign: String,
    /// Sign the zone file first (any signatures in it are replaced).
    pub sign_file: bool,
    /// Ask `delv` to validate this many answers of each signed zone from its trust anchor.
    pub validate: u32,
    /// Keep the generated zones in the run directory when the run is done.
    pub keep: bool,
}

impl Default for Zone {
    fn default() -> Self {
        Self {
            families: Vec::new(),
            delegations: Vec::new(),
            file: None,
            sign: "rzaia".into(),
            sign_file: false,
            validate: 12,
            keep: false,
        }
    }
}

/// Where the queries come from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Traffic {
    /// A built-in profile or a profile file, over the names of the zone served.
    pub profile: String,
    /// A query file (dnsperf's `name type` lines) instead of a profile.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queries: Option<PathBuf>,
}

impl Default for Traffic {
    fn default() -> Self {
        Self { profile: "rzaia".into(), queries: None }
    }
}

/// A trial at a fixed rate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Latency {
    /// Queries per second; a trial each.
    pub rates: Vec<f64>,
    /// Length of the measured part: `60s`.
    pub duration: String,
    /// Offered before it, and not recorded.
    pub warmup: String,
    /// An answer after it is late, and counts as lost.
    pub deadline: String,
}

impl Default for Latency {
    fn default() -> Self {
        Self { rates: vec![5000.0], duration: "60s".into(), warmup: "1s".into(), deadline: "4s".into() }
    }
}

/// A search for the highest rate (RFC 9971).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Peak {
    /// The goal's loss ratio.
    pub loss: f64,
    /// Length of the goal's trials.
    pub trial: String,
    /// How much trial time must speak for a bound.
    pub duration_sum: String,
    /// Relative distance of the bounds at which the search ends.
    pub width: f64,
    /// Time for the whole search of one server on one zone.
    pub budget: String,
    /// An answer after it counts as lost.
    pub deadline: String,
}

impl Default for Peak {
    fn default() -> Self {
        Self {
            loss: 0.001,
            trial: "1s".into(),
            duration_sum: "3s".into(),
            width: 0.05,
            budget: "30s".into(),
            deadline: "200ms".into(),
        }
    }
}

/// Cores; empty means that the machine's are halved, first half to the server.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Cpus {
    /// Of the server's host.
    pub server: Vec<usize>,
    /// Of the generator's host.
    pub generator: Vec<usize>,
}

/// A server under test that is more than a kind: another build or another configuration.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Server {
    /// `bind`, `nsd`, `knot`, `powerdns` or `external`.
    pub kind: String,
    /// Instead of the program that is found on PATH.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<PathBuf>,
    /// A file with extra configuration in the server's own syntax.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config: Option<PathBuf>,
    /// Threads or processes that answer; as many as the server has cores where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workers: Option<u32>,
    /// Where an external server answers already.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<std::net::SocketAddr>,
}

/// The override for a small machine and little time: the same keys, all optional.
///
/// Typed only so that a typing error is found with its line; the merge works on the TOML itself.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Quick {
    measure: Option<Vec<Measure>>,
    servers: Option<Vec<String>>,
    repeats: Option<u32>,
    zone: Option<Zone>,
    latency: Option<Latency>,
    peak: Option<Peak>,
}

impl Experiment {
    /// The server behind a label.
    ///
    /// # Errors
    /// [`Error::Plan`] where the label is neither a `[server.LABEL]` nor a kind.
    pub fn server(&self, label: &str) -> Result<Server, Error> {
        if let Some(server) = self.server.get(label) {
            return Ok(server.clone());
        }
        server::Kind::from_str(label).map_err(|_| {
            self.refuse(format!(
                "servers: '{label}' is no kind (bind, nsd, knot, powerdns, external) and there is no [server.{label}]"
            ))
        })?;
        Ok(Server { kind: label.into(), program: None, config: None, workers: None, address: None })
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

    /// A duration field.
    pub(crate) fn duration(&self, key: &str, text: &str) -> Result<measure::Nanos, Error> {
        measure::units::duration(text).map_err(|m| self.refuse(format!("{key}: {m}")))
    }

    pub(crate) fn refuse(&self, message: impl Into<String>) -> Error {
        Error::Plan { name: self.name.clone(), message: message.into() }
    }

    /// Whether it makes sense as a whole.
    pub(crate) fn check(&self) -> Result<(), Error> {
        let named: [(&str, bool); 3] = [
            ("measure", self.measure.is_empty()),
            ("servers", self.servers.is_empty()),
            ("repeats", self.repeats == 0),
        ];
        if let Some((key, _)) = named.iter().find(|(_, empty)| *empty) {
            return Err(self.refuse(format!("{key}: at least one is needed")));
        }
        for (i, label) in self.servers.iter().enumerate() {
            let server = self.server(label)?;
            let kind = server::Kind::from_str(&server.kind).map_err(|_| {
                self.refuse(format!("server.{label}.kind: '{}' is no kind of server", server.kind))
            })?;
            if self.servers[..i].contains(label) {
                return Err(self.refuse(format!("servers: '{label}' stands there twice")));
            }
            if (kind == server::Kind::External) != server.address.is_some() {
                return Err(self.refuse(format!(
                    "server.{label}.address: an external server needs one (ADDR:PORT), and no other takes one"
                )));
            }
        }
        self.is_external()?;
        for family in &self.zone.families {
            zone::Family::from_str(family).map_err(|e| self.refuse(format!("zone.families: {e}")))?;
        }
        if self.zone.sign != "rzaia" {
            let known: Result<zone::sign::Algorithm, String> = self.zone.sign.parse();
            known.map_err(|m| self.refuse(format!("zone.sign: {m}, or 'rzaia' for the seed's keys")))?;
        }
        if self.zone.file.is_none() && (self.zone.families.is_empty() || self.zone.delegations.is_empty()) {
            return Err(self.refuse("zone: give families and delegations, or a file"));
        }
        if self.zone.file.is_none() && self.zone.delegations.contains(&0) {
            return Err(self.refuse("zone.delegations: a zone without delegations cannot be generated"));
        }
        for (key, text) in [
            ("latency.duration", &self.latency.duration),
            ("latency.warmup", &self.latency.warmup),
            ("latency.deadline", &self.latency.deadline),
            ("peak.trial", &self.peak.trial),
            ("peak.duration_sum", &self.peak.duration_sum),
            ("peak.budget", &self.peak.budget),
            ("peak.deadline", &self.peak.deadline),
        ] {
            let zero = self.duration(key, text)? == 0;
            if zero && key != "latency.warmup" {
                return Err(self.refuse(format!("{key}: must be longer than nothing")));
            }
        }
        if !self.latency.rates.iter().all(|r| r.is_finite() && *r > 0.0 && *r <= 1e8) {
            return Err(self.refuse("latency.rates: queries per second, above 0 and at most 100M"));
        }
        let width = self.peak.width;
        if !((0.0..1.0).contains(&self.peak.loss) && width > 0.0 && width < 1.0) {
            return Err(self.refuse("peak: loss is a ratio from 0 to below 1, width one between 0 and 1"));
        }
        Ok(())
    }
}
