//! The keys of an experiment file for zones that change and are transferred to other servers.

use crate::{Error, Experiment, Measure, family_spec};
use measure::Time;
use rack::path::PathSpec;
use schemars::JsonSchema;
use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{Deserializer, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

/// The primary, the secondaries, and who transfers from whom.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Distribution {
    /// The label of the stealth primary's server; then the server measured is its first secondary. Where absent the server
    /// measured is the primary itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub primary: Option<String>,
    /// How many secondaries there are: ISC had 13.
    pub secondaries: u32,
    /// The measurements that are made of a server with a primary and secondaries: where empty, all that can be. The others are
    /// made of a server that is alone.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub measures: Vec<Measure>,
    /// Which secondaries have the queries of `latency` and `throughput`: `measured`, the one that is measured alone, or `all`, the
    /// same load for each, from generators that take them in turn (as many `traffic.generators` as secondaries: each has its own).
    /// The figures are those of the measured one; the answers of each and of all together stand beside them.
    #[serde(skip_serializing_if = "Queried::is_measured")]
    #[schemars(extend("default" = "measured"))]
    pub queried: Queried,
    /// Labels of the other secondaries' servers, in turn; the measured one's where empty.
    pub others: Vec<String>,
    /// The number of secondaries, the last ones, that have the zone from the first secondary instead of from the primary.
    pub chained: u32,
    /// `default`, or `tuned`: every wait that can be switched off is.
    pub timers: Timers,
    /// Secondaries write the zone to disk as they do by default (ISC's finding: BIND 9.4 paused for it).
    pub dump: bool,
    /// Differences (IXFR); otherwise whole zones alone.
    pub ixfr: bool,
    /// Who signs what changes in a signed zone: `online`, the primary itself with the zone's keys; `sent`, the sender of the updates,
    /// with signatures and denials among them, to servers that take these. `[server.LABEL] signing` says so for one primary.
    pub signing: Signing,
    /// Largest journal in bytes; so large that nothing is cut off where absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub journal: Option<u64>,
    /// Time for which the last secondary is stopped in the middle of the changes (`lag`, `churn`). It is then started again on
    /// what it has written, which with `dump = true` may be the zone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub away: Option<Time>,
    /// Keep the capture of what passed between the servers; otherwise it is kept where a trial failed or is invalid.
    pub keep_capture: bool,
    /// The path between each secondary and the server that it has the zone from, both ways; none where absent.
    #[serde(skip_serializing_if = "PathList::is_empty")]
    #[schemars(with = "BTreeMap<String, String>")]
    pub path: PathList,
}

impl Distribution {
    /// The labels of the secondaries' servers; `measured` is that of the server measured, which is the first of them where there is
    /// a primary beside it.
    pub fn labels(&self, measured: &str) -> Vec<String> {
        let first = usize::from(self.primary.is_some());
        let label = |n: usize| match (n.checked_sub(first), self.others.is_empty()) {
            (Some(n), false) => self.others[n % self.others.len()].clone(),
            _ => measured.to_owned(),
        };
        (0..self.secondaries as usize).map(label).collect()
    }
}

/// `[distribution.path]`: one path for every secondary, or a list that the secondaries take from in turn.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PathList(pub Vec<PathSpec>);

impl PathList {
    /// Whether nothing is said.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The path of the nth secondary, from 0.
    pub fn of(&self, secondary: usize) -> Option<&PathSpec> {
        self.0.get(secondary % self.0.len().max(1))
    }
}

impl Serialize for PathList {
    fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        match self.0.as_slice() {
            [one] => one.serialize(s),
            many => many.serialize(s),
        }
    }
}

impl<'de> Deserialize<'de> for PathList {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct OneOrMore;
        impl<'de> Visitor<'de> for OneOrMore {
            type Value = PathList;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a path such as { delay = \"50ms\", loss = 0.01 }, or a list of them")
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<PathList, A::Error> {
                PathSpec::deserialize(MapAccessDeserializer::new(map)).map(|path| PathList(vec![path]))
            }
            fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<PathList, A::Error> {
                Vec::deserialize(SeqAccessDeserializer::new(seq)).map(PathList)
            }
        }
        d.deserialize_any(OneOrMore)
    }
}

/// Which secondaries are asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Queried {
    /// The one that is measured.
    #[default]
    Measured,
    /// Each of them.
    All,
}

impl Queried {
    /// Whether the one that is measured is asked alone.
    pub fn is_measured(&self) -> bool {
        *self == Self::Measured
    }

    /// The word in files and tables.
    pub fn word(self) -> &'static str {
        match self {
            Self::Measured => "measured",
            Self::All => "all",
        }
    }
}

/// Waits of servers before they tell, take and serve a change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Timers {
    /// As the servers have them.
    #[default]
    Default,
    /// Switched off where they can be.
    Tuned,
}

/// Who signs what changes in a signed zone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Signing {
    /// The primary.
    #[default]
    Online,
    /// The sender of the updates.
    Sent,
}

impl Signing {
    /// The word in files and tables.
    pub fn word(self) -> &'static str {
        match self {
            Self::Online => "online",
            Self::Sent => "sent",
        }
    }
}

impl From<Timers> for server::Timers {
    fn from(timers: Timers) -> Self {
        match timers {
            Timers::Default => Self::Default,
            Timers::Tuned => Self::Tuned,
        }
    }
}

impl Timers {
    /// The word in files and tables.
    pub fn word(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::Tuned => "tuned",
        }
    }
}

impl Default for Distribution {
    fn default() -> Self {
        Self {
            primary: None,
            secondaries: 0,
            measures: Vec::new(),
            queried: Queried::Measured,
            others: Vec::new(),
            chained: 0,
            timers: Timers::Default,
            dump: false,
            ixfr: true,
            signing: Signing::Online,
            journal: None,
            keep_capture: false,
            path: PathList::default(),
            away: None,
        }
    }
}

/// Which updates are sent, and how fast.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Updates {
    /// `isc` (a third each of changed NS, added and deleted delegations), `rzaia` (10 % added, 10 % deleted, 80 % changed),
    /// or shares `A:D:M`.
    pub mix: String,
    /// Updates of one message.
    pub batch: u32,
    /// Updates per second, a trial each; 0 is a trial without any.
    pub rates: Vec<f64>,
    /// How many updates are sent as fast as they are acknowledged, where the measure is `update` (ISC 6.3.2: 10,000).
    pub count: u64,
    /// Messages that wait for their acknowledgement, where updates are sent as fast as they are acknowledged; nsupdate waits for each.
    pub window: u32,
    /// Length of the measured part at a rate.
    #[serde(deserialize_with = "Time::positive")]
    pub duration: Time,
    /// How often a marker update is among them, by which lag is seen; each interval has one, at a random instant.
    #[serde(deserialize_with = "Time::positive")]
    pub marker: Time,
    /// How often each secondary is asked for the marker.
    #[serde(deserialize_with = "Time::positive")]
    pub interval: Time,
    /// Longest wait after the last update for every secondary to show the last marker.
    #[serde(deserialize_with = "Time::positive")]
    pub patience: Time,
    /// Versions of the zone, in order, instead of a mix: the updates are what turns one into the next, beginning with the zone
    /// itself.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub series: Vec<PathBuf>,
    /// How often a version of them is sent, where the measure is `churn`.
    #[serde(deserialize_with = "Time::positive")]
    pub every: Time,
}

impl Default for Updates {
    fn default() -> Self {
        Self {
            mix: "isc".into(),
            batch: 1,
            rates: vec![1.0],
            count: 10_000,
            window: 1,
            duration: Time::seconds(60),
            marker: Time::seconds(1),
            interval: Time::millis(2),
            patience: Time::seconds(30),
            series: Vec::new(),
            every: Time::seconds(10),
        }
    }
}

impl Updates {
    /// The mix.
    ///
    /// # Errors
    /// [`update::Error`] where it is not a key.
    pub fn mix(&self) -> Result<update::generate::Mix, Error> {
        self.mix.parse().map_err(|m| Error::Machine(format!("updates.mix: {m}")))
    }
}

impl Experiment {
    /// The distribution of a variant: the experiment's, or its own.
    pub fn distribution_of(&self, variant: Option<&str>) -> &Distribution {
        let of_variant = self.variant.iter().find(|v| Some(v.name.as_str()) == variant);
        of_variant.and_then(|v| v.distribution.as_ref()).unwrap_or(&self.distribution)
    }

    /// Of all variants, the experiment's own where there is none.
    pub fn distributions(&self) -> Vec<&Distribution> {
        match self.variant.as_slice() {
            [] => vec![&self.distribution],
            all => all.iter().map(|v| self.distribution_of(Some(&v.name))).collect(),
        }
    }

    /// Who signs what changes where this server is the primary of this distribution.
    pub fn signing_of(&self, distribution: &Distribution, primary: &str) -> Signing {
        self.server.get(primary).and_then(|server| server.signing).unwrap_or(distribution.signing)
    }

    /// Whether it has a zone that is signed here.
    pub fn signs(&self) -> bool {
        if !self.zone.scenarios.is_empty() {
            return self.zone.scenarios.values().any(|s| s.sign);
        }
        let family = self.zone.file.is_none() && self.zone.families.iter().any(|f| family_spec::is_signed(f));
        family || self.zone.file.is_some() && self.zone.sign_file
    }
}
