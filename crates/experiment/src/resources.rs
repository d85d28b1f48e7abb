//! Does a trial fit into this machine?

use crate::family_spec::{self, Denial, FamilySpec};
use crate::plan::plan;
use crate::planned::{self, ZonePlan};
use crate::{Experiment, Measure, Trial, measures};
use serde::Serialize;
use server::Kind;

/// Memory of a server before it has a zone, and of the generator and coordinator beside it, in bytes.
const BASE: u64 = 300_000_000;

/// Bytes of memory that a server takes for a delegation; of no kind, the most that any takes.
fn per_delegation(kind: Option<Kind>, family: &str) -> u64 {
    let signed = family.parse::<FamilySpec>().ok().and_then(|family_spec| family_spec.signed);
    let bytes_of = |memory: server::MemoryPerDelegation| match signed {
        _ if family == "U-4-DS0" => memory.sparse,
        None => memory.full,
        Some(Denial::Nsec) => memory.nsec,
        Some(Denial::Nsec3 | Denial::OptOut) => memory.nsec3,
    };
    let memory = |kind| server::driver(kind).facts().memory.map(bytes_of);
    kind.and_then(memory).or_else(|| Kind::ours().filter_map(memory).max()).unwrap_or_default()
}

/// Memory in bytes that a trial needs at its peak, about, and how that was reckoned.
pub fn memory(e: &Experiment, trial: &Trial) -> (u64, String) {
    let servers = u64::from(measures::servers(e, trial.measure, trial.variant.as_deref()));
    // Of several the greatest counts for all.
    let kind = e.kind(&trial.server).ok().filter(|_| servers == 1);
    let (zone, how) = match &trial.zone {
        ZonePlan::Family { family, delegations } => {
            let each = per_delegation(kind, family);
            let count = measure::units::grouped(*delegations);
            (delegations * each, format!("{count} delegations × {:.1} kB", each as f64 / 1e3))
        }
        ZonePlan::File(_) | ZonePlan::Scenario(_) => {
            let bytes = planned::weight(e, &trial.zone);
            (bytes * 12, format!("{:.1} MB of zone file × 12", bytes as f64 / 1e6))
        }
    };
    let (times, why) = match trial.measure {
        // Both zones are there until the new one is served.
        Measure::Load => (2, " × 2 for the reload".to_owned()),
        _ if servers > 1 => (servers, format!(" × {servers} servers")),
        _ => (1, String::new()),
    };
    (zone * times + BASE, format!("{how}{why} + {} MB", BASE / 1_000_000))
}

/// Seconds of a plan, about: loads at their full length, and for each trial what a server takes to start and to end, and
/// for each zone what it takes to be made (from rates measured on one core of a machine of 2024).
fn seconds(e: &Experiment) -> u64 {
    let trial = |t: &Trial| {
        let starts = 1.0 + planned::weight(e, &t.zone) as f64 / 5e7;
        let starts = starts * f64::from(measures::servers(e, t.measure, t.variant.as_deref()));
        starts + (measures::of(t.measure).seconds)(e, t, starts)
    };
    let signed = |zone: &ZonePlan| match zone {
        ZonePlan::Family { family, .. } => family_spec::is_signed(family),
        ZonePlan::File(_) => e.zone.sign_file,
        ZonePlan::Scenario(name) => e.zone.scenarios.get(name).is_some_and(|s| s.sign),
    };
    let zone = |z: &ZonePlan| planned::weight(e, z) as f64 / if signed(z) { 5e6 } else { 2e8 };
    (plan(e).iter().map(trial).sum::<f64>() + planned::zones(e).iter().map(zone).sum::<f64>()).ceil() as u64
}

/// The memory and disk space that an experiment needs, and how much of it this machine has.
#[derive(Clone, Debug, Serialize)]
pub struct Needs {
    /// Trials.
    pub trials: usize,
    /// Seconds, about.
    pub seconds: u64,
    /// Bytes of memory that its greatest trial needs, about.
    pub memory: u64,
    /// Bytes of its zone files together, about.
    pub disk: u64,
    /// Trials that do not fit into this machine's memory now, and would be skipped.
    pub skipped: usize,
    /// Labels of servers that are not installed.
    pub missing: Vec<String>,
}

/// Looks at an experiment and at this machine.
///
/// # Errors
/// [`crate::Error::Plan`] where a server cannot be used.
pub fn needs(e: &Experiment) -> Result<Needs, crate::Error> {
    let trials = plan(e);
    let available = available();
    let mut missing = Vec::new();
    for label in e.labels() {
        let (server, kind) = (e.server(label)?, e.kind(label)?);
        if kind != server::Kind::EXTERNAL && server.program.is_none() && server::installed(kind).is_none() {
            missing.push(label.clone());
        }
    }
    Ok(Needs {
        seconds: seconds(e),
        memory: trials.iter().map(|t| memory(e, t).0).max().unwrap_or(0),
        disk: planned::zones(e).iter().map(|zone| planned::weight(e, zone)).sum(),
        skipped: trials.iter().filter(|t| refused(e, t, available).is_some()).count(),
        trials: trials.len(),
        missing,
    })
}

/// Bytes of memory that are available now; where the kernel does not tell, no trial is refused for it.
pub fn available() -> u64 {
    rack::environment::memory_available().unwrap_or(u64::MAX)
}

/// Why a trial cannot fit into so many bytes of memory, with the sum; none where it may.
pub fn refused(e: &Experiment, trial: &Trial, available: u64) -> Option<String> {
    let (need, how) = memory(e, trial);
    (need > available).then(|| {
        format!(
            "needs about {:.1} GB of memory ({how}), and {:.1} GB are available",
            need as f64 / 1e9,
            available as f64 / 1e9
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_fit_is_refused_with_its_sum() {
        let (path, text) = crate::named("demo").unwrap();
        let e = crate::load(&path, &text, &[]).unwrap();
        let trial = |delegations, measure| Trial {
            id: 1,
            zone: ZonePlan::Family { family: "S-6-DS100".into(), delegations },
            server: "nsd".into(),
            measure,
            rate: None,
            updates: None,
            variant: None,
            repeat: 1,
        };
        assert_eq!(memory(&e, &trial(1_000_000, Measure::Memory)).0, 8_900_000_000);
        assert_eq!(memory(&e, &trial(1_000_000, Measure::Load)).0, 17_500_000_000);
        let bind = Trial { server: "bind".into(), ..trial(1_000_000, Measure::Memory) };
        assert_eq!(memory(&e, &bind).0, 5_000_000_000);
        assert_eq!(refused(&e, &trial(1_000, Measure::Load), 318_000_000), None);
        let why = refused(&e, &trial(1 << 40, Measure::Memory), available()).unwrap();
        assert!(why.contains("1,099,511,627,776 delegations × 8.6 kB + 300 MB"), "{why}");
    }
}
