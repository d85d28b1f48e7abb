//! The experiment file: TOML, lists and one `[quick]` override, nothing cleverer.

use crate::Error;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
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

/// One `--set KEY=VALUE`.
#[derive(Clone, Debug, PartialEq)]
pub struct Set {
    /// Dotted: `zone.file`.
    pub key: String,
    /// As typed.
    pub value: String,
}

impl FromStr for Set {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once('=') {
            Some((key, value)) if !key.is_empty() => Ok(Self { key: key.into(), value: value.into() }),
            _ => Err(format!("'{text}' is not KEY=VALUE, such as zone.file=root.zone")),
        }
    }
}

/// The seeds' experiments: name and file.
pub const CATALOGUE: [(&str, &str); 3] = [
    ("demo", include_str!("../catalogue/demo.toml")),
    ("rzaia-latency", include_str!("../catalogue/rzaia-latency.toml")),
    ("isc-peak", include_str!("../catalogue/isc-peak.toml")),
];

/// The text of an experiment of the catalogue, or of a file, with the name to use in errors.
///
/// # Errors
/// [`Error::Unknown`], [`Error::Read`].
pub fn named(name_or_file: &str) -> Result<(String, String), Error> {
    if let Some((name, text)) = CATALOGUE.iter().find(|(name, _)| *name == name_or_file) {
        return Ok((format!("{name}.toml"), (*text).to_owned()));
    }
    let path = Path::new(name_or_file);
    if !path.exists() {
        return Err(Error::Unknown(name_or_file.into()));
    }
    let text = std::fs::read_to_string(path).map_err(|source| Error::Read { path: path.into(), source })?;
    Ok((name_or_file.into(), text))
}

/// Reads an experiment, puts `[quick]` in place where `size=quick` is set, then every other `--set`.
///
/// # Errors
/// [`Error::Syntax`] with line and column, [`Error::Set`], [`Error::Plan`].
pub fn load(path: &str, text: &str, sets: &[Set]) -> Result<Experiment, Error> {
    let syntax = |text: &str, e: &toml::de::Error| {
        let at = e.span().map_or(0, |s| s.start.min(text.len()));
        let line = text[..at].matches('\n').count() + 1;
        let column = at - text[..at].rfind('\n').map_or(0, |n| n + 1) + 1;
        Error::Syntax { path: path.into(), line, column, message: e.message().into() }
    };
    let checked: Experiment = toml::from_str(text).map_err(|e| syntax(text, &e))?;
    let mut table: toml::Table = toml::from_str(text).map_err(|e| syntax(text, &e))?;
    let quick = table.remove("quick");
    let mut experiment = Experiment { quick: None, ..checked };
    let refuse =
        |set: &Set, message: String| Error::Set { key: set.key.clone(), value: set.value.clone(), message };
    for set in sets {
        let attempt = if set.key == "size" {
            match (set.value.as_str(), &quick) {
                ("full", _) => continue,
                ("quick", Some(toml::Value::Table(quick))) => overlay(table.clone(), quick),
                ("quick", _) => return Err(refuse(set, "this experiment has no [quick] size".into())),
                _ => return Err(refuse(set, "sizes are 'full' and 'quick'".into())),
            }
        } else {
            let mut attempt = table.clone();
            put(&mut attempt, &set.key, &set.value).map_err(|m| refuse(set, m))?;
            attempt
        };
        experiment =
            Experiment::deserialize(attempt.clone()).map_err(|e| refuse(set, e.message().to_owned()))?;
        table = attempt;
    }
    experiment.check()?;
    Ok(experiment)
}

fn overlay(mut base: toml::Table, over: &toml::Table) -> toml::Table {
    for (key, value) in over {
        let merged = match (base.remove(key), value) {
            (Some(toml::Value::Table(inner)), toml::Value::Table(over)) => overlay(inner, over).into(),
            _ => value.clone(),
        };
        base.insert(key.clone(), merged);
    }
    base
}

/// Sets a dotted key. A value is a list where the key is one or it has commas, else TOML, else a string.
fn put(table: &mut toml::Table, key: &str, text: &str) -> Result<(), String> {
    const LISTS: [&str; 8] = [
        "servers",
        "measure",
        "published",
        "zone.families",
        "zone.delegations",
        "latency.rates",
        "cpus.server",
        "cpus.generator",
    ];
    let value = if LISTS.contains(&key) {
        toml::Value::Array(text.trim_matches(['[', ']']).split(',').map(|v| scalar(v.trim())).collect())
    } else {
        scalar(text)
    };
    let (folders, last) = key.rsplit_once('.').map_or((None, key), |(f, l)| (Some(f), l));
    let mut at = table;
    for folder in folders.into_iter().flat_map(|f| f.split('.')) {
        at = at
            .entry(folder)
            .or_insert_with(|| toml::Table::new().into())
            .as_table_mut()
            .ok_or_else(|| format!("'{folder}' is not a table"))?;
    }
    at.insert(last.into(), value);
    Ok(())
}

/// A number (also `10K`), a truth value, or a string.
fn scalar(text: &str) -> toml::Value {
    let unquoted = text.trim_matches('"');
    match (unquoted.parse::<bool>(), measure::units::number(unquoted)) {
        _ if unquoted.len() < text.len() => unquoted.into(),
        (Ok(truth), _) => truth.into(),
        (_, Ok(n)) if n.fract() == 0.0 => (n as i64).into(),
        (_, Ok(n)) => n.into(),
        _ => text.into(),
    }
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

    fn check(&self) -> Result<(), Error> {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn demo(sets: &[&str]) -> Result<Experiment, Error> {
        let (path, text) = named("demo").unwrap();
        load(&path, &text, &sets.iter().map(|s| s.parse().unwrap()).collect::<Vec<_>>())
    }

    #[test]
    fn the_catalogue_is_sound() {
        for (name, text) in CATALOGUE {
            let full = load(name, text, &[]).unwrap();
            assert_eq!(full.name, name);
            if toml::from_str::<Experiment>(text).unwrap().quick.is_some() {
                load(name, text, &["size=quick".parse().unwrap()]).unwrap();
            }
        }
    }

    #[test]
    fn sets_reach_every_depth() {
        let e =
            demo(&["zone.file=my.zone", "servers=nsd,new", "server.new.kind=nsd", "latency.rates=1K,500"])
                .unwrap();
        assert_eq!(e.zone.file.as_deref(), Some(Path::new("my.zone")));
        assert_eq!(e.servers, ["nsd", "new"]);
        assert_eq!(e.latency.rates, [1000.0, 500.0]);
        let again: Experiment = toml::from_str(&toml::to_string(&e).unwrap()).unwrap();
        assert_eq!(again, e);
    }

    #[test]
    fn typing_errors_are_found_where_they_are() {
        let text = CATALOGUE[0].1;
        let at = |text: &str| load("x.toml", text, &[]).unwrap_err().to_string();
        let broken = text.replace("[traffic]", "[trafic]");
        assert!(broken != text, "the demo has a [traffic] section");
        let line = broken.lines().position(|l| l == "[trafic]").unwrap() + 1;
        assert!(
            at(&broken).starts_with(&format!("x.toml:{line}:2: unknown field `trafic`")),
            "{}",
            at(&broken)
        );
        let quick = format!("{text}\n[quick.zone]\nfamilys = []\n");
        assert!(at(&quick).contains("unknown field `familys`"), "{}", at(&quick));
        for (set, part) in [
            ("zone.fiel=x", "--set zone.fiel=x: unknown field"),
            ("servers=bind,bnid", "'bnid' is no kind"),
            ("size=huge", "sizes are"),
            ("latency.duration=60x", "latency.duration: '60x' is not a duration"),
            ("zone.families=U-5", "zone.families"),
        ] {
            let error = demo(&[set]).unwrap_err().to_string();
            assert!(error.contains(part), "{set}: {error}");
        }
    }
}
