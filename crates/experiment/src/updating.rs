//! The keys of an experiment file for zones that change and are transferred to other servers.

use crate::paths::{self, PathList};
use crate::{Error, Experiment, Measure, family_spec, run};
use measure::Time;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// The primary, the secondaries, and who transfers from whom.
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
    /// The number of secondaries, the last ones, that have the zone from the first secondary instead of from the primary.
    pub chained: u32,
    /// `default`, or `tuned`: every wait that can be switched off is.
    pub timers: Timers,
    /// Secondaries write the zone to disk as they do by default (ISC's finding: BIND 9.4 paused for it).
    pub dump: bool,
    /// Differences (IXFR); otherwise whole zones alone.
    pub ixfr: bool,
    /// Who signs what changes in a signed zone: `online`, the primary itself with the zone's keys; `sent`, whoever sends the updates,
    /// with signatures and denials among them, to servers that take these. `[server.LABEL] signing` says so for one primary.
    pub signing: Signing,
    /// Largest journal in bytes; so large that nothing is cut off where absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub journal: Option<u64>,
    /// For so long the last secondary is stopped in the middle of the changes (`lag`, `churn`), and is then started again on
    /// what it has written, which with `dump = true` may be the zone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub away: Option<Time>,
    /// Keep the capture of what passed between the servers; otherwise it is kept where a trial failed or is invalid.
    pub keep_capture: bool,
    /// The path between each secondary and the server that it has the zone from, both ways; none where absent.
    #[serde(skip_serializing_if = "PathList::is_empty")]
    pub path: PathList,
}

impl Distribution {
    /// How many servers have a part in it.
    pub fn servers(&self) -> u32 {
        self.secondaries + 1
    }
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

/// Who signs what changes in a signed zone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Signing {
    /// The primary.
    #[default]
    Online,
    /// Whoever sends the updates.
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
    #[serde(deserialize_with = "Time::positive")]
    pub duration: Time,
    /// How often a marker update is among them, by which lag is seen.
    #[serde(deserialize_with = "Time::positive")]
    pub marker: Time,
    /// How often each secondary is asked for it.
    #[serde(deserialize_with = "Time::positive")]
    pub interval: Time,
    /// After the last update, so long is waited for the last marker to be seen everywhere.
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
    /// [`update::Error`] where it is none.
    pub fn mix(&self) -> Result<update::generate::Mix, Error> {
        self.mix.parse().map_err(|m| Error::Machine(format!("updates.mix: {m}")))
    }
}

/// The most secondaries that a rack may have.
const MOST: u32 = 64;

impl Experiment {
    /// The distribution of a variant: the experiment's, or its own.
    pub fn distribution_of(&self, variant: Option<&str>) -> &Distribution {
        let of_variant = self.variant.iter().find(|v| Some(v.name.as_str()) == variant);
        of_variant.and_then(|v| v.distribution.as_ref()).unwrap_or(&self.distribution)
    }

    /// Whether the server has a part in a distribution while this is measured.
    pub fn is_distributed(&self, measure: Measure, variant: Option<&str>) -> bool {
        match measure {
            Measure::Update | Measure::Lag | Measure::Churn | Measure::Transfer | Measure::Batches => true,
            Measure::Syncs | Measure::PowerCut | Measure::Kill => true,
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

    /// Who signs what changes where this server is the primary of this distribution.
    pub fn signing_of(&self, distribution: &Distribution, primary: &str) -> Signing {
        self.server.get(primary).and_then(|server| server.signing).unwrap_or(distribution.signing)
    }

    /// Whether it has a zone that is signed here.
    fn signs(&self) -> bool {
        let family = self.zone.file.is_none() && self.zone.families.iter().any(|f| family_spec::is_signed(f));
        family || self.zone.file.is_some() && self.zone.sign_file
    }

    /// Whether a primary can do what is asked of it while a signed zone changes.
    fn check_signing(&self, d: &Distribution, label: &str) -> Result<(), Error> {
        let (kind, signing) = (self.kind(label)?, self.signing_of(d, label));
        let can = server::driver(kind).can();
        if !self.signs() {
            return Ok(());
        }
        if signing == Signing::Online && !can.signs {
            return Err(self.refuse(format!("'{label}': {kind} does not sign what changes")));
        }
        if signing == Signing::Sent {
            if !can.takes_signatures {
                let why = format!(
                    "'{label}': {kind} takes no signatures with updates: set signing = \"online\" for it"
                );
                return Err(self.refuse(why));
            }
            if let Some(m) = self.measure.iter().find(|m| d.secondaries > 0 && m.has_markers()) {
                let why = "markers are changes that nobody signs: signing = \"sent\" goes with measure 'update' alone";
                return Err(self.refuse(format!("measure {}: {why}", m.word())));
            }
            if !self.updates.series.is_empty() {
                return Err(
                    self.refuse("updates.series: its versions are not signed: set signing = \"online\"")
                );
            }
            if let Some(family) =
                self.zone.families.iter().find(|f| f.contains("+nsec3") || f.contains("+opt-out"))
            {
                return Err(
                    self.refuse(format!("zone.families: {family}: signing = \"sent\" is for NSEC alone"))
                );
            }
        }
        Ok(())
    }

    /// Whether zones change in any of its trials.
    pub fn changes(&self) -> bool {
        let carried = self.distributions().iter().any(|d| d.secondaries > 0);
        let follow = |m: &Measure| m.has_markers() || matches!(m, Measure::Kill | Measure::Churn);
        self.measure.iter().any(|m| m.is_of_updates() || carried && follow(m))
    }

    /// How many servers a trial of this measure has.
    pub fn servers_of(&self, measure: Measure, variant: Option<&str>) -> u32 {
        if self.is_distributed(measure, variant) { self.distribution_of(variant).servers() } else { 1 }
    }

    /// Whether what it says of changes makes sense.
    pub(crate) fn check_changes(&self) -> Result<(), Error> {
        paths::check(self, &run::peer_names(self))?;
        let u = &self.updates;
        let with_secondaries =
            [Measure::Lag, Measure::Churn, Measure::Transfer, Measure::Batches, Measure::Kill];
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
            if self.is_external()? && (d.secondaries > 0 || self.measure.iter().any(|m| m.is_of_updates())) {
                return Err(self.refuse("distribution: an external server is not set up here"));
            }
        }
        for d in self.distributions() {
            let under = d.secondaries > 0 && self.measure.iter().any(|m| m.has_markers());
            let taken = match &d.primary {
                Some(label)
                    if under || self.measure.iter().any(|m| matches!(m, Measure::Kill | Measure::Churn)) =>
                {
                    vec![label]
                }
                None if under || self.measure.iter().any(|m| m.is_of_updates() || *m == Measure::Churn) => {
                    self.servers.iter().collect()
                }
                _ => Vec::new(),
            };
            for label in taken {
                let kind = self.kind(label)?;
                if !server::driver(kind).can().update {
                    return Err(self.refuse(format!("'{label}': {kind} takes no updates (RFC 2136)")));
                }
                self.check_signing(d, label)?;
            }
        }
        if !u.rates.iter().all(|r| r.is_finite() && (0.0..=1e6).contains(r)) || u.rates.is_empty() {
            return Err(self.refuse("updates.rates: updates per second, from 0 to 1M, at least one"));
        }
        if u.batch == 0 || u.count == 0 || u.window == 0 {
            return Err(self.refuse("updates: batch, count and window from 1"));
        }
        self.updates.mix().map_err(|e| self.refuse(e.to_string()))?;
        self.check_batches()?;
        self.check_away()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(name: &str, sets: &[&str]) -> String {
        let (path, text) = crate::named(name).unwrap();
        let sets: Vec<_> = sets.iter().map(|s| s.parse().unwrap()).collect();
        crate::load(&path, &text, &sets).expect_err(&format!("{sets:?}")).to_string()
    }

    #[test]
    fn who_cannot_sign_is_refused_before_anything_starts() {
        let sent = "distribution.signing=sent";
        for (name, sets, why) in [
            ("isc-updates", &[sent][..], "'bind': bind takes no signatures with updates"),
            ("isc-updates", &["servers=knot,yadifa", sent], "'yadifa': yadifa takes no signatures"),
            ("isc-updates", &["servers=nsd"], "'nsd': nsd takes no updates"),
            ("isc-updates", &["servers=knot", sent, "zone.families=COM+nsec3"], "is for NSEC alone"),
            (
                "isc-query-under-update",
                &["distribution.primary=knot", sent],
                "measure throughput: markers are changes that nobody signs",
            ),
        ] {
            let said = refused(name, sets);
            assert!(said.contains(why), "{sets:?}: {said}");
        }
        // One server's own setting goes before the distribution's.
        let sets = ["servers=knot,b", "server.b.kind=bind", sent, "server.b.signing=online"];
        let (path, text) = crate::named("isc-updates").unwrap();
        let sets: Vec<_> = sets.iter().map(|s| s.parse().unwrap()).collect();
        let e = crate::load(&path, &text, &sets).unwrap();
        let d = e.distribution_of(None);
        assert_eq!((e.signing_of(d, "knot"), e.signing_of(d, "b")), (Signing::Sent, Signing::Online));
        // Without a signed zone nothing is said of it.
        let (path, text) = crate::named("isc-updates").unwrap();
        crate::load(&path, &text, &[sent.parse().unwrap(), "zone.families=COM".parse().unwrap()]).unwrap();
    }
}
