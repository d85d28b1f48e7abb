//! One trial of a plan, and its zone.

use crate::{Experiment, Measure};
use std::path::PathBuf;

/// One zone of the plan.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ZonePlan {
    /// A generated zone.
    Family {
        /// `U-4-DS0` …
        family: String,
        /// Its size.
        delegations: u64,
    },
    /// The user's own zone file.
    File(PathBuf),
    /// A `[zone.LABEL]` of the experiment.
    Scenario(String),
}

impl ZonePlan {
    /// A name for files, tables and messages: `U-4-DS0-10K`, or the file's.
    pub fn label(&self) -> String {
        match self {
            Self::Family { family, delegations } => {
                // No comma, no slash in the name of a file.
                let family = family.replace('/', "of");
                format!("{family}-{}", measure::units::short(*delegations).replace(',', ""))
            }
            Self::File(path) => {
                path.file_name().map_or_else(|| "zone".into(), |n| n.to_string_lossy().into_owned())
            }
            Self::Scenario(name) => name.clone(),
        }
    }
}

/// One measurement at fixed parameters, with a fresh server.
#[derive(Clone, Debug, PartialEq)]
pub struct Trial {
    /// Its place in the plan, from 1; the key of resume.
    pub id: u32,
    /// The zone served.
    pub zone: ZonePlan,
    /// The server's label.
    pub server: String,
    /// The kind of measurement.
    pub measure: Measure,
    /// Queries per second; none where the rate is what is searched for, or a capture's.
    pub rate: Option<f64>,
    /// Updates per second; none where there are none, or where they are sent as fast as they are acknowledged.
    pub updates: Option<f64>,
    /// The number of the server's CPUs, and of its workers; none: it has all CPUs of its host.
    pub workers: Option<u32>,
    /// The traffic, where there are several.
    pub variant: Option<String>,
    /// From 1.
    pub repeat: u32,
}

impl Trial {
    /// Whether it is the same but for its repeat.
    pub fn is_like(&self, other: &Self) -> bool {
        let cell = |t: &Self| Self { id: 0, repeat: 0, ..t.clone() };
        cell(self) == cell(other)
    }

    /// Whether the two trials differ only in their server. Such trials are made in turn where the order is interleaved.
    pub fn is_in_turn_of(&self, other: &Self) -> bool {
        let turn = |t: &Self| Self { id: 0, server: String::new(), ..t.clone() };
        turn(self) == turn(other)
    }

    /// In words: `nsd on U-4-DS0-10K, latency at 5000 queries/s, repeat 2`.
    pub fn words(&self) -> String {
        let mut rates: Vec<String> = self.rate.iter().map(|r| format!("{r} queries/s")).collect();
        rates.extend(self.updates.map(|u| format!("{u} updates/s")));
        let rate = if rates.is_empty() { String::new() } else { format!(" at {}", rates.join(" and ")) };
        let variant = self.variant.as_ref().map_or_else(String::new, |v| format!(" ({v})"));
        let workers = self.workers.map_or_else(String::new, |n| format!(" with {n} workers"));
        let Self { server, measure, repeat, .. } = self;
        format!(
            "{server}{workers} on {}{variant}, {}{rate}, repeat {repeat}",
            self.zone.label(),
            measure.word()
        )
    }
}

/// The zones of the plan, in the file's order.
pub fn zones(e: &Experiment) -> Vec<ZonePlan> {
    let generated = |family: &String, delegations| ZonePlan::Family { family: family.clone(), delegations };
    if !e.zone.scenarios.is_empty() {
        return e.zone.scenarios.keys().cloned().map(ZonePlan::Scenario).collect();
    }
    match &e.zone.file {
        Some(file) => vec![ZonePlan::File(file.clone())],
        None => {
            let sizes = e.zone.delegations.iter();
            sizes.flat_map(|&n| e.zone.families.iter().map(move |f| generated(f, n))).collect()
        }
    }
}
