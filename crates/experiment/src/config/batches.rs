//! The `[batches]` section: how much of a zone changes, and in how many batches.

use super::Timers;
use crate::{Experiment, Measure};
use measure::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How much of a zone changes, and in how many batches.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Batches {
    /// Records deleted and added, as a share of those that the zone has.
    pub share: f64,
    /// Number of batches; fewer where there are fewer changes.
    pub count: u32,
    /// Changes of one message: about six records each.
    pub message: u32,
    /// How long a batch may take to be served; after three in a row that do not it ends.
    #[serde(deserialize_with = "Time::positive")]
    pub patience: Time,
    /// Queries per second at the secondary meanwhile; 0 for none.
    pub rate: f64,
}

impl Default for Batches {
    fn default() -> Self {
        Self { share: 0.01, count: 24, message: 10, patience: Time::seconds(60), rate: 1000.0 }
    }
}

impl Experiment {
    /// True if its trials spend nearly all of their time waiting for the servers' timers. Such trials can run at the same time on the same
    /// cores.
    pub fn waits_for_timers(&self) -> bool {
        let default_timers = self.distributions().iter().all(|d| d.timers == Timers::Default);
        self.measure.iter().all(|measure| *measure == Measure::Batches) && default_timers
    }

    /// The batches of a variant: as the experiment says, or the variant.
    pub fn batches_of(&self, variant: Option<&str>) -> &Batches {
        let of_variant = self.variant.iter().find(|v| Some(v.name.as_str()) == variant);
        of_variant.and_then(|v| v.batches.as_ref()).unwrap_or(&self.batches)
    }
}
