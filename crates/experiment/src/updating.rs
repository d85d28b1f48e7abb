//! What an experiment file says of zones that change and are carried to others.

use crate::{Error, Experiment, Measure};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Who has the zone from whom.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Distribution {
    /// The label of the stealth primary's server; then the server measured is its first secondary. Where absent the server
    /// measured is the primary itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub primary: Option<String>,
    /// How many secondaries there are: ISC had 13.
    pub secondaries: u32,
    /// Labels of the other secondaries' servers, in turn; the measured one's where empty.
    pub others: Vec<String>,
    /// So many of them, the last ones, have the zone from the first secondary instead of from the primary.
    pub chained: u32,
    /// `default`, or `tuned`: every wait that can be switched off is.
    pub timers: Timers,
    /// Secondaries write the zone to disk as they do by default (ISC's finding: BIND 9.4 paused for it).
    pub dump: bool,
    /// Differences (IXFR); otherwise whole zones alone.
    pub ixfr: bool,
    /// Largest journal in bytes; so large that nothing is cut off where absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub journal: Option<u64>,
}

/// Waits of servers before they tell, take and serve a change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Timers {
    /// As the servers have them.
    #[default]
    Default,
    /// Switched off where they can be.
    Tuned,
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
            others: Vec::new(),
            chained: 0,
            timers: Timers::Default,
            dump: false,
            ixfr: true,
            journal: None,
        }
    }
}

/// What changes, and how fast.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
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
    /// Messages that wait for their acknowledgement then; nsupdate waits for each.
    pub window: u32,
    /// Length of the measured part at a rate.
    pub duration: String,
    /// How often a marker update is among them, by which lag is seen.
    pub marker: String,
    /// How often each secondary is asked for it.
    pub interval: String,
    /// After the last update, so long is waited for the last marker to be seen everywhere.
    pub patience: String,
    /// Versions of the zone, in order, instead of a mix: the updates are what turns one into the next, beginning with the zone
    /// itself.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub series: Vec<PathBuf>,
}

impl Default for Updates {
    fn default() -> Self {
        Self {
            mix: "isc".into(),
            batch: 1,
            rates: vec![1.0],
            count: 10_000,
            window: 1,
            duration: "60s".into(),
            marker: "1s".into(),
            interval: "2ms".into(),
            patience: "30s".into(),
            series: Vec::new(),
        }
    }
}

impl Updates {
    /// The mix.
    ///
    /// # Errors
    /// [`update::Error`] where it is none.
    pub fn mix(&self) -> Result<update::generate::Mix, Error> {
        self.mix.parse().map_err(|m| Error::Machine(format!("updates.mix: {m}")))
    }
}

/// As many secondaries as a rack may have.
const MOST: u32 = 64;

impl Experiment {
    /// Who has the zone from whom in a variant: as the experiment says, or the variant.
    pub fn distribution_of(&self, variant: Option<&str>) -> &Distribution {
        let of_variant = self.variant.iter().find(|v| Some(v.name.as_str()) == variant);
        of_variant.and_then(|v| v.distribution.as_ref()).unwrap_or(&self.distribution)
    }

    /// Whether the server has a part in a distribution while this is measured.
    pub fn is_distributed(&self, measure: Measure, variant: Option<&str>) -> bool {
        match measure {
            Measure::Update | Measure::Lag | Measure::Transfer => true,
            Measure::Memory | Measure::Load => false,
            Measure::Latency | Measure::Throughput | Measure::Peak => {
                self.distribution_of(variant).secondaries > 0
            }
        }
    }

    /// Of all variants, the experiment's own where there is none.
    pub fn distributions(&self) -> Vec<&Distribution> {
        match self.variant.as_slice() {
            [] => vec![&self.distribution],
            all => all.iter().map(|v| self.distribution_of(Some(&v.name))).collect(),
        }
    }

    /// Whether zones change in any of its trials.
    pub fn changes(&self) -> bool {
        let carried = self.distributions().iter().any(|d| d.secondaries > 0);
        self.measure.iter().any(|m| *m == Measure::Update || carried && m.is_under_updates())
    }

    /// Whether what it says of changes makes sense.
    pub(crate) fn check_changes(&self) -> Result<(), Error> {
        let u = &self.updates;
        let with_secondaries = [Measure::Lag, Measure::Transfer];
        for d in self.distributions() {
            if d.primary.is_some() && d.secondaries == 0 {
                return Err(self.refuse(
                    "distribution.secondaries: the server measured is one of the primary's: at least 1",
                ));
            }
            if d.secondaries > MOST {
                return Err(self.refuse(format!("distribution.secondaries: at most {MOST}")));
            }
            if d.chained >= d.secondaries.max(1) {
                return Err(self.refuse("distribution.chained: fewer than there are secondaries"));
            }
            for label in d.primary.iter().chain(&d.others) {
                if self.server(label)?.address.is_some() {
                    let why = format!("distribution: '{label}' is external, and all of it is on the rack");
                    return Err(self.refuse(why));
                }
            }
            if let Some(m) = self.measure.iter().find(|m| with_secondaries.contains(m) && d.secondaries == 0)
            {
                return Err(self.refuse(format!("measure {}: it needs distribution.secondaries", m.word())));
            }
            if self.is_external()? && (d.secondaries > 0 || self.measure.contains(&Measure::Update)) {
                return Err(self.refuse("distribution: an external server is not set up here"));
            }
        }
        for d in self.distributions() {
            let taken = match &d.primary {
                Some(label) if self.measure.iter().any(|m| m.is_under_updates()) => vec![label],
                None if self.measure.contains(&Measure::Update) => self.servers.iter().collect(),
                _ => Vec::new(),
            };
            for label in taken {
                let kind = self.kind(label)?;
                if !server::driver(kind).can().update {
                    return Err(self.refuse(format!("'{label}': {kind} takes no updates (RFC 2136)")));
                }
            }
        }
        if !u.rates.iter().all(|r| r.is_finite() && (0.0..=1e6).contains(r)) || u.rates.is_empty() {
            return Err(self.refuse("updates.rates: updates per second, from 0 to 1M, at least one"));
        }
        if u.batch == 0 || u.count == 0 || u.window == 0 {
            return Err(self.refuse("updates: batch, count and window from 1"));
        }
        self.updates.mix().map_err(|e| self.refuse(e.to_string()))?;
        for (key, text) in [
            ("updates.duration", &u.duration),
            ("updates.marker", &u.marker),
            ("updates.interval", &u.interval),
            ("updates.patience", &u.patience),
        ] {
            if self.duration(key, text)? == 0 {
                return Err(self.refuse(format!("{key}: must be longer than nothing")));
            }
        }
        Ok(())
    }
}
