//! Durability: whether what was acknowledged is on the disk (RFC 2136, section 3.5; ISC-TN-2008-1, section 6.3.2), and what
//! secondaries serve after they were killed.
//!
//! Three measures: `syncs` (a trace of the server's syncs, and its rate beside the disk's own syncs), `power-cut` (a disk that
//! drops what was not synced) and `kill` (secondaries under IXFR). How they judge: docs/durability.md.

mod acks;
mod cuts;
mod kills;
mod pairs;
mod stream;
mod traced;

use crate::fleet::Fleet;
use crate::stage::Stage;
use crate::trial::PORT;
use crate::{Error, Experiment, Measure, RunEvent};
use measure::clock;
use measure::{Nanos, Pace, Time};
use rack::Host;
use results::TrialRecord;
use serde::{Deserialize, Serialize};
use server::ServerSpec;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use update::send::{SendResult, SendSpec};

/// How durability is looked at.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Durability {
    /// Updates that are traced one at a time, and as many again with the window.
    pub updates: u64,
    /// Updates that wait for their answers at once, where the load is to be full.
    pub window: u32,
    /// How long updates are sent one at a time without a trace: the rate beside the disk's own syncs.
    pub timed: Time,
    /// How long the disk's own syncs are counted, before that and after it.
    pub calibrate: Time,
    /// How often the power is cut.
    pub cuts: u32,
    /// How often a secondary is killed.
    pub kills: u32,
    /// The longest time under load before a cut or a kill; each is drawn, from a fifth of it.
    pub life: Time,
    /// Updates per second while secondaries are killed.
    pub rate: f64,
    /// A rename over a file flushes the contents of what is renamed, as on ext4 and btrfs; otherwise as POSIX and XFS have it.
    pub replace_by_rename: bool,
}

impl Default for Durability {
    fn default() -> Self {
        Self {
            updates: 300,
            window: 16,
            timed: Time::seconds(3),
            calibrate: Time::seconds(1),
            cuts: 20,
            kills: 20,
            life: Time::seconds(1),
            rate: 50.0,
            replace_by_rename: true,
        }
    }
}

impl Durability {
    /// So that run.toml says nothing of it where it is of no effect.
    pub(crate) fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// Seconds of a trial, about.
    pub(crate) fn seconds(&self, measure: Measure) -> f64 {
        match measure {
            Measure::Syncs => {
                self.timed.as_seconds() + 2.0 * self.calibrate.as_seconds() + self.updates as f64 / 50.0
            }
            Measure::PowerCut => f64::from(self.cuts) * (0.6 * self.life.as_seconds() + 2.0),
            Measure::Kill => f64::from(self.kills) * (0.6 * self.life.as_seconds() + 2.0),
            _ => 0.0,
        }
    }
}

/// Whether a server under updates syncs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Syncs {
    /// As it does.
    #[default]
    On,
    /// Not: by its own setting where it has one (Knot DNS, PowerDNS), otherwise as with `preload`.
    Off,
    /// Not: a library (eatmydata) is put in front of it that takes its syncs away.
    Preload,
}

/// The library that takes syncs away.
const PRELOAD: &str = "libeatmydata.so";

impl Syncs {
    /// The word in files and tables.
    pub fn word(self) -> &'static str {
        match self {
            Self::On => "on",
            Self::Off => "off",
            Self::Preload => "preload",
        }
    }

    /// Extra configuration of a kind of server, where it has a setting for it.
    fn setting(self, kind: server::Kind) -> Option<&'static str> {
        if self == Self::Off { server::driver(kind).without_syncs() } else { None }
    }

    /// Whether the library is needed.
    fn preloads(self, kind: server::Kind) -> bool {
        self != Self::On && self.setting(kind).is_none()
    }

    /// Takes a server's syncs away, where that is meant.
    pub fn apply(self, spec: &mut ServerSpec) {
        if let Some(text) = self.setting(spec.kind) {
            let given = spec.config.take().unwrap_or_default();
            spec.config = Some(format!("{}\n{text}", given.trim_end()).trim_start().to_owned());
        }
        if self.preloads(spec.kind) {
            spec.env.push(("LD_PRELOAD".into(), PRELOAD.into()));
        }
    }
}

impl Experiment {
    /// Whether a server syncs in a variant: as the variant says, or the server.
    pub fn syncs_of(&self, label: &str, variant: Option<&str>) -> Syncs {
        let of_variant = self.variant.iter().find(|v| Some(v.name.as_str()) == variant);
        let of_server = || self.server.get(label).and_then(|s| s.syncs);
        of_variant.and_then(|v| v.syncs).or_else(of_server).unwrap_or_default()
    }

    /// Whether what it says of durability makes sense.
    pub(crate) fn check_durability(&self) -> Result<(), Error> {
        let d = &self.durability;
        for (key, time) in [("timed", d.timed), ("calibrate", d.calibrate), ("life", d.life)] {
            if time < Time::millis(100) {
                return Err(self.refuse(format!("durability.{key}: at least 100 ms")));
            }
        }
        if d.updates == 0 || d.window == 0 || d.cuts == 0 || d.kills == 0 || d.cuts > 1000 {
            return Err(self.refuse("durability: updates, window, kills and cuts from 1, cuts up to 1000"));
        }
        if !(d.rate.is_finite() && (0.1..=10_000.0).contains(&d.rate)) {
            return Err(self.refuse("durability.rate: updates per second, from 0.1 to 10,000"));
        }
        let variants: Vec<Option<&str>> = match self.variant.as_slice() {
            [] => vec![None],
            all => all.iter().map(|v| Some(v.name.as_str())).collect(),
        };
        let off = |v: &Option<&str>| self.servers.iter().any(|s| self.syncs_of(s, *v) != Syncs::On);
        if let (Some(measure), true) =
            (self.measure.iter().find(|m| !m.is_of_updates()), variants.iter().any(off))
        {
            return Err(self.refuse(format!(
                "syncs: taken away where a server is under updates (measures update, syncs, power-cut), not for '{}'",
                measure.word()
            )));
        }
        for v in variants {
            let distribution = self.distribution_of(v);
            let on_disk = [Measure::Syncs, Measure::PowerCut];
            if let Some(m) = self.measure.iter().find(|m| on_disk.contains(m) && distribution.secondaries > 0)
            {
                return Err(
                    self.refuse(format!("measure {}: it is of one server, without secondaries", m.word()))
                );
            }
            if self.measure.contains(&Measure::Kill) && distribution.primary.is_none() {
                return Err(
                    self.refuse("measure kill: it needs distribution.primary, whose secondary is killed")
                );
            }
        }
        Ok(())
    }

    /// Whether this machine can do what it asks: looked at before anything is started.
    pub(crate) fn check_durability_here(&self) -> Result<(), Error> {
        let without = |measure: Measure, why: String| {
            Error::Machine(format!("measure {}: {why}; or leave it out with --set measure=…", measure.word()))
        };
        if self.measure.contains(&Measure::Syncs) {
            rack::syncs::check().map_err(|e| without(Measure::Syncs, e.to_string()))?;
        }
        if self.measure.contains(&Measure::PowerCut) {
            rack::disk::check().map_err(|e| without(Measure::PowerCut, e.to_string()))?;
        }
        let variants = self.variant.iter().map(|v| Some(v.name.as_str())).chain([None]);
        for variant in variants {
            for label in &self.servers {
                if self.syncs_of(label, variant).preloads(self.kind(label)?) {
                    return preload_works();
                }
            }
        }
        Ok(())
    }
}

/// Whether the library can be loaded; the loader only says so where not, and goes on.
fn preload_works() -> Result<(), Error> {
    let tried = Command::new("true").env("LD_PRELOAD", PRELOAD).output();
    let said = tried.map_or_else(|e| e.to_string(), |o| String::from_utf8_lossy(&o.stderr).into_owned());
    if said.trim().is_empty() {
        return Ok(());
    }
    Err(Error::Machine(format!(
        "syncs off: {PRELOAD} cannot be put in front of a server ({}): apt-get install eatmydata",
        said.trim()
    )))
}

/// How long a sender may take until it begins.
const BEGIN: Duration = Duration::from_secs(60);

/// How long from being ready to the first update, in nanoseconds.
const DELAY: Nanos = 20_000_000;

impl Stage<'_> {
    /// One of the three measures.
    pub fn durability(
        &self,
        measure: Measure,
        fleet: &Fleet<'_>,
        record: &mut TrialRecord,
        tell: &mut dyn FnMut(RunEvent),
    ) -> Result<(), Error> {
        match measure {
            Measure::PowerCut => self.power_cuts(fleet, record, tell),
            Measure::Kill => self.kills(fleet, record, tell),
            _ => self.syncs(fleet, record, tell),
        }
    }

    /// The updates for the primary: a file that we made, signed with the run's key.
    fn updates(&self, fleet: &Fleet<'_>, file: PathBuf, pace: Pace) -> SendSpec {
        let spec = SendSpec::new((fleet.primary().v4, PORT).into(), file, pace);
        SendSpec { key: Some(fleet.key.clone()), ..spec }
    }

    /// A time under load, drawn.
    fn life(&self, draw: &mut measure::Draw) -> Duration {
        let longest = self.bench.experiment.durability.life.0;
        Duration::from_nanos(longest / 5 + draw.below(longest - longest / 5))
    }
}

/// Sends updates from a host until the file, the duration or the count is over, or `stop` is set; `began` is told
/// the instant (monotonic) from which the sender's times count.
fn send(
    host: &Host,
    spec: &SendSpec,
    began: impl FnOnce(Nanos) + Send,
    stop: &AtomicBool,
) -> Result<SendResult, Error> {
    let start = || {
        let at = clock::now() + DELAY;
        began(at);
        at
    };
    Ok(host.run_in(|| update::send::run(spec, start, stop, &mut |_| {}))??)
}

#[cfg(test)]
mod tests {
    use super::*;
    use server::{Kind, ZoneRef};

    #[test]
    fn syncs_go_by_a_servers_setting_or_by_the_library() {
        let of = |kind: Kind, syncs: Syncs| {
            let zone = ZoneRef { origin: ".".into(), file: "/z".into(), signed: false };
            let mut spec = ServerSpec { config: Some("a=1\n".into()), ..ServerSpec::new(kind, zone) };
            syncs.apply(&mut spec);
            (spec.config.unwrap(), spec.env.len())
        };
        assert_eq!(of(Kind::Powerdns, Syncs::Off), ("a=1\ngsqlite3-pragma-synchronous=0\n".into(), 0));
        assert_eq!(of(Kind::Powerdns, Syncs::Preload), ("a=1\n".into(), 1));
        assert_eq!(of(Kind::Bind, Syncs::Off), ("a=1\n".into(), 1));
        assert_eq!(of(Kind::Bind, Syncs::On), ("a=1\n".into(), 0));
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        let load = |sets: &[&str]| {
            let (path, text) = crate::named("isc-durability").unwrap();
            let sets: Vec<_> = sets.iter().map(|s| s.parse().unwrap()).collect();
            crate::load(&path, &text, &sets).map(|_| ()).map_err(|e| e.to_string())
        };
        load(&["durability.cuts=3", "servers=bind", "measure=power-cut"]).unwrap();
        for (sets, part) in [
            (&["durability.life=1ms"][..], "durability.life: at least"),
            (&["durability.cuts=0"], "from 1"),
            (&["durability.rate=0"], "durability.rate"),
            (&["servers=nsd"], "nsd takes no updates"),
            (&["measure=memory"], "syncs: taken away"),
            (&["distribution.secondaries=1", "measure=syncs"], "without secondaries"),
        ] {
            let error = load(sets).unwrap_err();
            assert!(error.contains(part), "{sets:?}: {error}");
        }
    }
}
