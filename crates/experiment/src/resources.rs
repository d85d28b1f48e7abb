//! Does a trial fit into this machine? How long does an experiment take? Estimated from what its zones have.

use crate::family_spec::FamilySpec;
use crate::plan::plan;
use crate::planned::{self, ZonePlan};
use crate::{Error, Experiment, Measure, Trial, measures, zones};
use serde::Serialize;
use std::collections::{BTreeMap, HashMap};
use std::str::FromStr;
use zone::Contents;

/// Memory of the generator and the coordinator, in bytes.
const BASE: u64 = 250_000_000;

/// The contents of an experiment's zones, of which its memory, disk space and time are estimated.
#[derive(Debug)]
pub struct Sums<'a> {
    e: &'a Experiment,
    zones: HashMap<ZonePlan, Contents>,
}

impl<'a> Sums<'a> {
    /// Reads the zone files that the experiment has, and makes small zones of its families.
    ///
    /// # Errors
    /// [`Error::Plan`] where a family or a way to sign does not exist, [`Error::Zone`] where a file is no zone.
    pub fn of(e: &'a Experiment) -> Result<Self, Error> {
        let zones = planned::zones(e).into_iter().map(|zone| contents(e, &zone).map(|c| (zone, c)));
        Ok(Self { e, zones: zones.collect::<Result<_, _>>()? })
    }

    /// The contents of a zone of the plan.
    fn zone(&self, zone: &ZonePlan) -> Contents {
        self.zones.get(zone).copied().unwrap_or_default()
    }

    /// Octets of a zone's file, about.
    pub fn bytes(&self, zone: &ZonePlan) -> u64 {
        self.zone(zone).bytes
    }

    /// Memory in bytes that a trial needs at its peak, about, and how that was estimated.
    pub fn memory(&self, trial: &Trial) -> (u64, String) {
        self.memory_of(trial, measures::labels(self.e, trial))
    }

    /// The same for some of its servers, which are on one machine.
    fn memory_of(&self, trial: &Trial, servers: Vec<String>) -> (u64, String) {
        let (e, zone) = (self.e, self.zone(&trial.zone));
        let mut labels: BTreeMap<String, u64> = BTreeMap::new();
        for label in servers {
            *labels.entry(label).or_default() += 1;
        }
        // Both zones are there until the new one is served.
        let times = if trial.measure == Measure::Load { 2 } else { 1 };
        let (mut sum, mut words) = (BASE, Vec::new());
        for (label, count) in labels {
            let memory = e.kind(&label).ok().and_then(|kind| server::driver(kind).facts().memory);
            let Some(memory) = memory else { continue };
            let each = memory.empty + times * (memory.of(&zone) - memory.empty);
            sum += count * each;
            let many = if count > 1 { format!("{count} × ") } else { String::new() };
            words.push(format!("{many}{:.2} GB for {label}", each as f64 / 1e9));
        }
        let zone = format!("{} names, {} records", short(zone.names), short(zone.records));
        let why = if times == 2 { ", twice for the reload" } else { "" };
        (sum, format!("{} with {zone}{why}; {} MB beside", words.join(" and "), BASE / 1_000_000))
    }

    /// Why a trial cannot be made: a server that cannot do what it is to do, or the memory of a machine, with the sum; none where it may.
    pub fn refused(&self, trial: &Trial, machines: &[Memory]) -> Option<String> {
        let servers = measures::servers(self.e, trial);
        let signed = self.zone(&trial.zone).signatures > 0;
        let distributed = measures::is_distributed(self.e, trial.measure, trial.variant.as_deref());
        let lacking = |(_, label): &(String, String)| {
            let kind = self.e.kind(label).ok()?;
            let lacking = server::driver(kind).facts().can.lacking(signed, distributed)?;
            Some(format!("{kind} {lacking}"))
        };
        if let Some(why) = servers.iter().find_map(lacking) {
            return Some(why);
        }
        machines.iter().find_map(|machine| {
            let on_it = servers.iter().filter(|(host, _)| machine.has(host)).map(|(_, label)| label.clone());
            let (need, how) = self.memory_of(trial, on_it.collect());
            let place = machine.name.as_ref().map_or_else(String::new, |name| format!(" on {name}"));
            (need > machine.available).then(|| {
                format!(
                    "needs about {:.1} GB of memory{place} ({how}), and {:.1} GB are available",
                    need as f64 / 1e9,
                    machine.available as f64 / 1e9
                )
            })
        })
    }

    /// Whether this machine has enough memory for the trial beside the `others` that are running on it. The machines of a rack file run one
    /// trial at a time, so they always have enough.
    pub fn fits_beside<'t>(
        &self,
        trial: &'t Trial,
        others: impl Iterator<Item = &'t Trial>,
        machines: &[Memory],
    ) -> bool {
        let need: u64 = others.chain([trial]).map(|t| self.memory(t).0).sum();
        machines.iter().all(|machine| machine.name.is_some() || need <= machine.available)
    }

    /// Seconds of a plan, about: loads at their full length, and for each trial what its servers take to start, and
    /// for each zone what it takes to be made (from rates measured on one core of a machine of 2024).
    fn seconds(&self, plan: &[Trial]) -> u64 {
        let e = self.e;
        let trial = |t: &Trial| {
            let zone = self.zone(&t.zone);
            let labels = measures::labels(e, t);
            let start = |label: &String| {
                let kind = e.kind(label).ok();
                1.0 + kind.map_or(0.0, |kind| server::driver(kind).facts().start_per_record)
                    * zone.all_records() as f64
            };
            let start = labels.iter().map(start).sum();
            start + (measures::of(t.measure).seconds)(e, t, &TimeBasis { start, zone })
        };
        let made = |zone: &Contents| zone.bytes as f64 / READ + zone.signatures as f64 / SIGNATURES;
        (plan.iter().map(trial).sum::<f64>() + self.zones.values().map(made).sum::<f64>()).ceil() as u64
    }
}

/// The memory of a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Memory {
    /// How a user calls it; none: this machine.
    pub name: Option<String>,
    /// The names of its hosts; none: all.
    pub hosts: Option<Vec<String>>,
    /// Bytes that are available to its trials.
    pub available: u64,
}

impl Memory {
    /// That of this machine, now; where the kernel does not tell, no trial is refused for it.
    pub fn here() -> Self {
        let available = rack::environment::memory_available().unwrap_or(u64::MAX);
        Self { name: None, hosts: None, available }
    }

    fn has(&self, host: &str) -> bool {
        self.hosts.as_ref().is_none_or(|hosts| hosts.iter().any(|name| name == host))
    }
}

/// The figures from which the time of a trial is estimated.
pub struct TimeBasis {
    /// Seconds that all its servers take to start.
    pub start: f64,
    /// The contents of its zone.
    pub zone: Contents,
}

impl TimeBasis {
    /// Seconds in which a sample of a load's answers is compared with the zone: its file is read once.
    pub fn check(&self, e: &Experiment) -> f64 {
        if e.traffic.check > 0 { self.zone.bytes as f64 / READ } else { 0.0 }
    }
}

/// Octets of a zone file that are read in a second, about.
const READ: f64 = 2e8;

/// Signatures a second, with reading and writing: RSA with 1,024 bits on one core.
const SIGNATURES: f64 = 4_000.0;

fn short(count: u64) -> String {
    match count {
        0..1_000 => count.to_string(),
        1_000..1_000_000 => format!("{:.1}K", count as f64 / 1e3),
        _ => format!("{:.1}M", count as f64 / 1e6),
    }
}

/// The contents of a zone of the plan, before it is made.
pub(crate) fn contents(e: &Experiment, zone: &ZonePlan) -> Result<Contents, Error> {
    match zone {
        ZonePlan::Family { family, delegations } => {
            let spec = FamilySpec::from_str(family).map_err(|m| e.refuse(m))?;
            let whole = Contents::of_family(spec.family, *delegations)?;
            let part = spec.slice.map_or(whole, |(_, parts)| whole.times(1.0 / f64::from(parts)));
            match spec.signed {
                Some(_) => Ok(part.signed(&spec.sign(zones::signing(e, &e.zone.sign, &None)?))),
                None => Ok(part),
            }
        }
        ZonePlan::File(path) if e.zone.sign_file => {
            let options = zones::signing(e, &e.zone.sign, &None)?;
            let options = zone::sign::Options { nsec3: e.zone.denial.nsec3(), ..options };
            Ok(Contents::of_file(path)?.signed(&options))
        }
        ZonePlan::File(path) => Ok(Contents::of_file(path)?),
        ZonePlan::Scenario(name) => {
            let scenario =
                e.zone.scenarios.get(name).ok_or_else(|| e.refuse(format!("there is no [zone.{name}]")))?;
            let mut zone = match (&scenario.family, scenario.file.as_ref().or(e.zone.file.as_ref())) {
                (Some(family), _) => {
                    let family = FamilySpec::from_str(family).map_err(|m| e.refuse(m))?.family;
                    Contents::of_family(family, scenario.delegations.unwrap_or_default())?
                }
                (None, Some(file)) => Contents::of_file(file)?,
                (None, None) => return Err(e.refuse("a scenario begins with nothing: give zone.file")),
            };
            if scenario.strip {
                zone = zone.stripped();
            }
            match scenario.grow.as_ref().map(|size| size.parse()).transpose().map_err(|m| e.refuse(m))? {
                Some(zone::Size::Times(times)) => zone = zone.times(times),
                Some(zone::Size::Delegations(n)) => {
                    zone = zone.times(n as f64 / zone.delegations.max(1) as f64);
                }
                None => {}
            }
            if let Some(share) = scenario.ds {
                zone = zone.with_ds(share);
            }
            if scenario.sign {
                zone = zone.signed(&zones::scenario_signing(e, scenario, &None)?);
            }
            Ok(zone)
        }
    }
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
    /// Trials that do not fit into this machine's memory now, or need more CPUs than the server gets, and would be skipped.
    pub skipped: usize,
    /// Labels of servers that are not installed.
    pub missing: Vec<String>,
    /// The cores that its parts get on this machine, in words.
    pub placement: String,
    /// The parts that share cores here, as there are too few.
    pub sharing: Vec<String>,
}

/// Looks at an experiment and at this machine.
///
/// # Errors
/// [`Error::Plan`] where a server or a zone cannot be used, [`Error::Zone`] where a file is no zone.
pub fn needs(e: &Experiment) -> Result<Needs, Error> {
    let (trials, sums) = (plan(e), Sums::of(e)?);
    let here = [Memory::here()];
    let mut missing = Vec::new();
    for label in e.labels() {
        let program = e.program(label)?;
        if program.kind != server::Kind::EXTERNAL && !server::is_there(&program) {
            missing.push(label.clone());
        }
    }
    let placed = crate::hosts::placement(e);
    let skipped = |t: &&Trial| sums.refused(t, &here).is_some() || placed.refused(t).is_some();
    Ok(Needs {
        placement: placed.words(),
        sharing: placed.shared(),
        seconds: sums.seconds(&trials),
        memory: trials.iter().map(|t| sums.memory(t).0).max().unwrap_or(0),
        disk: planned::zones(e).iter().map(|zone| sums.bytes(zone)).sum(),
        skipped: trials.iter().filter(skipped).count(),
        trials: trials.len(),
        missing,
    })
}

/// Whether an experiment fits into a given amount of memory, and how long it takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fit {
    /// Seconds, about, of the trials that fit.
    pub seconds: u64,
    /// Why the first trial that does not fit is refused.
    pub refused: Option<String>,
}

/// Looks whether an experiment fits into so many bytes of memory.
///
/// # Errors
/// As [`needs`].
pub fn fit(e: &Experiment, available: u64) -> Result<Fit, Error> {
    let sums = Sums::of(e)?;
    let memory = [Memory { name: None, hosts: None, available }];
    let (fits, not): (Vec<Trial>, Vec<Trial>) =
        plan(e).into_iter().partition(|t| sums.refused(t, &memory).is_none());
    Ok(Fit {
        seconds: if fits.is_empty() { 0 } else { sums.seconds(&fits) },
        refused: not.first().and_then(|t| sums.refused(t, &memory)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use measure::{metrics, params};

    #[test]
    fn what_cannot_fit_is_refused_with_its_sum() {
        let sets = ["zone.families=S-6-DS100", "zone.delegations=1K,1M", "servers=nsd"];
        let e = crate::open_with("demo", &sets).unwrap();
        let sums = Sums::of(&e).unwrap();
        let trial = |delegations, measure| Trial {
            zone: ZonePlan::Family { family: "S-6-DS100".into(), delegations },
            measure,
            ..plan(&e)[0].clone()
        };
        let (once, twice) = (
            sums.memory(&trial(1_000_000, Measure::Memory)).0,
            sums.memory(&trial(1_000_000, Measure::Load)).0,
        );
        assert_eq!((once, twice), (6_235_741_420, 12_173_482_840));
        let of = |available| [Memory { name: None, hosts: None, available }];
        assert_eq!(sums.refused(&trial(1_000, Measure::Load), &of(500_000_000)), None);
        let why = sums.refused(&trial(1_000_000, Measure::Load), &of(1 << 30)).unwrap();
        assert!(why.contains("GB for nsd with 6.5M names") && why.contains("twice for the reload"), "{why}");
        // Trials at the same time share the memory of this machine.
        let (small, large) = (trial(1_000, Measure::Memory), trial(1_000_000, Measure::Memory));
        let both = sums.memory(&small).0 + once;
        let beside = |machines: &[Memory]| sums.fits_beside(&small, [&large].into_iter(), machines);
        assert!(beside(&of(both)) && !beside(&of(both - 1)));
        assert!(beside(&[Memory { name: Some("server.example".into()), ..of(0)[0].clone() }]));
    }

    #[test]
    fn trials_with_more_cpus_than_the_server_gets_are_counted_as_skipped() {
        let sets = ["workers=1,100000", "zone.delegations=100", "servers=nsd", "repeats=2"];
        let needs = needs(&crate::open_with("isc-peak", &sets).unwrap()).unwrap();
        assert!(needs.skipped > 0 && needs.skipped * 2 == needs.trials, "{needs:?}");
    }

    #[test]
    fn every_server_of_a_distribution_counts_with_its_own_zone() {
        let e = crate::open_with("isc-query-under-update", &["servers=nsd"]).unwrap();
        let sums = Sums::of(&e).unwrap();
        let (memory, how) = sums.memory(&plan(&e)[0]);
        // A third of three million names each, and COM has hardly any glue.
        assert!(how.contains("GB for bind and 13 × ") && how.contains("1.0M names"), "{how}");
        assert!(memory < 40_000_000_000, "{how}");
        // On machines of their own each has to fit by itself.
        let of = |host: &str, available| Memory {
            name: Some(format!("{host}.example")),
            hosts: Some(vec![host.into()]),
            available,
        };
        let enough = ["server", "primary", "secondary-13"].map(|host| of(host, memory / 5));
        assert_eq!(sums.refused(&plan(&e)[0], &enough), None);
        let why = sums.refused(&plan(&e)[0], &[of("server", memory / 5), of("secondary-13", memory / 50)]);
        let why = why.unwrap();
        assert!(
            why.contains("on secondary-13.example (") && why.contains("GB for nsd") && !why.contains("×"),
            "{why}"
        );
    }

    /// A valid trial of a kept run in docs/runs that has one of our zones, by server.
    struct Kept {
        label: String,
        kind: Option<server::Kind>,
        family: String,
        delegations: u64,
        zone: Contents,
        measure: String,
        pss: Option<f64>,
        ready: Option<f64>,
    }

    /// All such trials.
    fn kept() -> Vec<Kept> {
        let runs = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/runs");
        let (mut kept, mut zones) = (Vec::new(), HashMap::new());
        for run in std::fs::read_dir(runs).unwrap() {
            let run = results::RunDir::open(&run.unwrap().path()).unwrap();
            for trial in run.trials().iter().filter(|t| t.is_valid()) {
                let (Some(measure), Some(family), Some(delegations), Some(label)) = (
                    trial.param(params::MEASURE),
                    trial.param(params::FAMILY).filter(|f| f.parse::<FamilySpec>().is_ok()),
                    trial
                        .param(params::ZONE_SIZE)
                        .and_then(|size| measure::units::count(size).ok())
                        .filter(|n| *n > 0),
                    trial.param(params::SERVER),
                ) else {
                    continue;
                };
                let zone = zones.entry((family.to_owned(), delegations)).or_insert_with(|| {
                    let sets = [format!("zone.families={family}"), format!("zone.delegations={delegations}")];
                    let e = crate::open_with("rzaia-memory", &sets).unwrap();
                    Sums::of(&e).unwrap().zone(&planned::zones(&e)[0])
                });
                kept.push(Kept {
                    label: label.into(),
                    kind: label.parse().ok(),
                    family: family.into(),
                    delegations,
                    zone: *zone,
                    measure: measure.into(),
                    pss: trial.outcome.metric(metrics::SERVER_PSS),
                    ready: trial.outcome.metric(metrics::SERVER_READY),
                });
            }
        }
        kept
    }

    #[test]
    fn sums_of_memory_are_right_to_a_fifth() {
        let (mut checked, mut wrong) = (0, Vec::new());
        for Kept { label, kind, family, delegations, zone, pss, .. } in
            kept().iter().filter(|k| k.measure == "memory")
        {
            let Some(pss) = pss else { continue };
            let sum = server::driver(kind.unwrap()).facts().memory.unwrap().of(zone) as f64;
            checked += 1;
            if (sum / pss - 1.0).abs() > 0.2 {
                wrong.push(format!(
                    "{label} {family} {delegations}: {:.2} GB estimated, {:.2} measured",
                    sum / 1e9,
                    pss / 1e9
                ));
            }
        }
        assert!(checked > 40 && wrong.is_empty(), "{checked} checked; {}", wrong.join("\n"));
    }

    /// The machines of the kept runs differ by that much themselves.
    #[test]
    fn starts_with_large_zones_are_estimated_right_to_a_factor_of_two_and_a_half() {
        let mut starts: BTreeMap<(String, String, u64), (f64, Vec<f64>)> = BTreeMap::new();
        for k in kept().into_iter().filter(|k| k.delegations >= 1_000_000) {
            let (Some(kind), Some(ready)) = (k.kind, k.ready) else { continue };
            let estimated = server::driver(kind).facts().start_per_record * k.zone.all_records() as f64;
            starts.entry((k.label, k.family, k.delegations)).or_insert((estimated, Vec::new())).1.push(ready);
        }
        let (mut checked, mut wrong) = (0, Vec::new());
        for ((label, family, delegations), (estimated, measured)) in starts {
            let median = stats::median(&measured).unwrap();
            // A start of a few seconds may be estimated too long: COM with a million delegations has a sixth of the others' names.
            if median < 30.0 {
                continue;
            }
            checked += 1;
            if !(0.4..2.5).contains(&(estimated / median)) {
                wrong.push(format!(
                    "{label} {family} {delegations}: {estimated:.0} s estimated, {median:.0} measured"
                ));
            }
        }
        assert!(checked > 20 && wrong.is_empty(), "{checked} checked; {}", wrong.join("\n"));
    }
}
