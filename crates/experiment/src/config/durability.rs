//! The `[durability]` section, and whether a server syncs.

use crate::Experiment;
use agent::PRELOAD;
use measure::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use server::ServerSpec;

/// How durability is looked at.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
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
}

/// Whether a server under updates syncs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
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
        if self == Self::Off { server::driver(kind).facts().without_syncs } else { None }
    }

    /// Whether the library is needed.
    pub fn preloads(self, kind: server::Kind) -> bool {
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
}

#[cfg(test)]
mod tests {
    use super::*;
    use server::{Kind, ZoneRef};

    #[test]
    fn syncs_go_by_a_servers_setting_or_by_the_library() {
        let applied = |kind: Kind, syncs: Syncs| {
            let zone = ZoneRef { origin: ".".into(), file: "/z".into(), signed: false };
            let mut spec = ServerSpec { config: Some("a=1\n".into()), ..ServerSpec::new(kind, zone) };
            syncs.apply(&mut spec);
            (spec.config.unwrap(), spec.env.len())
        };
        assert_eq!(applied(Kind::POWERDNS, Syncs::Off), ("a=1\ngsqlite3-pragma-synchronous=0\n".into(), 0));
        assert_eq!(applied(Kind::POWERDNS, Syncs::Preload), ("a=1\n".into(), 1));
        assert_eq!(applied(Kind::BIND, Syncs::Off), ("a=1\n".into(), 1));
        assert_eq!(applied(Kind::BIND, Syncs::On), ("a=1\n".into(), 0));
    }
}
