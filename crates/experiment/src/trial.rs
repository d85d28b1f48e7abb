//! One trial: a fresh server, ready, measured, stopped; and what came of it.

use crate::fleet::{Fleet, Others, note_urged};
use crate::plan::ZonePlan;
use crate::stage::Stage;
use crate::zones::Prepared;
use crate::{Error, Experiment, Measure, RunEvent, Trial, family_spec, paths};
use measure::clock::{SECOND, Wall};
use measure::metrics;
use measure::{Metric, Reason};
use rack::{Host, Launcher, Rack};
use results::TrialRecord;
use server::{Server, ServerSpec, ZoneRef};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use trace::Survey;

/// Everything that all trials of a run share.
pub struct Bench<'a> {
    pub experiment: &'a Experiment,
    pub launcher: &'a dyn Launcher,
    pub server: &'a Host,
    /// The most that any traffic has.
    pub generators: &'a [Host],
    /// The other servers of a distribution: the primary first, where it is not the server measured.
    pub peers: &'a [Host],
    /// None where the server answers elsewhere.
    pub rack: Option<&'a Rack>,
    /// The captures that are replayed, each with what a first reading of it said.
    pub captures: &'a [(PathBuf, Survey)],
    pub server_cpus: &'a [usize],
    pub generator_cpus: &'a [usize],
    pub stop: &'a AtomicBool,
}

impl<'a> Bench<'a> {
    /// Starts a server; neither that nor a wait for it goes on once the run is to stop.
    ///
    /// # Errors
    /// The errors of the server's start.
    pub fn start(&self, host: &'a Host, spec: &ServerSpec, dir: &Path) -> Result<Server<'a>, server::Error> {
        server::start_heeding(Some(self.stop), self.launcher, host, spec, dir)
    }

    /// Waits, as long as the run goes on.
    ///
    /// # Errors
    /// As [`Self::goes_on`], within a twentieth of a second.
    pub fn pause(&self, length: Duration) -> Result<(), Error> {
        let end = Instant::now() + length;
        loop {
            self.goes_on()?;
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            std::thread::sleep(left.min(Duration::from_millis(50)));
        }
    }

    /// The names of the peers.
    pub fn peer_names(&self) -> Vec<String> {
        self.peers.iter().map(|host| host.name.clone()).collect()
    }

    /// An error once the run is to stop: the trial is dropped then, and its server killed.
    pub fn goes_on(&self) -> Result<(), Error> {
        if self.stop.load(Ordering::Relaxed) {
            return Err(Error::Machine("the run was stopped".into()));
        }
        Ok(())
    }
}

/// Port that servers listen on: hosts are ours alone, so it is DNS's own.
pub const PORT: u16 = 53;

/// Does one trial. Whatever goes wrong with server or generator becomes the record's error.
pub fn run(
    bench: &Bench,
    trial: &Trial,
    zone: &Prepared,
    dir: &Path,
    tell: &mut dyn FnMut(RunEvent),
) -> TrialRecord {
    let mut record = TrialRecord {
        id: trial.id,
        repeat: trial.repeat,
        params: params(bench.experiment, trial, Some(zone)),
        ..TrialRecord::default()
    };
    let clock = Wall::read();
    let mut measured = |record: &mut TrialRecord| measure(bench, trial, zone, dir, record, &mut *tell);
    if let Err(error) = paths::around(bench, trial, dir, &mut record, &mut measured) {
        record.error = Some(error.to_string());
    }
    clock_stepped(clock.drift(Wall::read()), trial.measure, &mut record);
    record
}

/// Notes that the wall clock was set during a trial, by so many nanoseconds. Times are taken from the monotonic clock; only
/// the kernel's receive stamps are of the other, and the generator looks at it each second, and rejects its own figures.
fn clock_stepped(by: i64, measure: Measure, record: &mut TrialRecord) {
    const CODE: &str = "clock_stepped";
    let validity = &mut record.outcome.validity;
    let known = validity.reasons.iter().chain(&validity.warnings).any(|reason| reason.code == CODE);
    if known || by.unsigned_abs() <= load::CLOCK_LIMIT {
        return;
    }
    let text = format!(
        "the wall clock was set {} by {:.3} s during the trial",
        if by < 0 { "back" } else { "forward" },
        by.unsigned_abs() as f64 / SECOND as f64
    );
    // Of a generator that watches a server's life only the seconds are kept, not its verdict.
    if measure == Measure::Load {
        let text = format!("{text}: queries of about a second pass for lost; run it again");
        validity.reject(Reason::new(CODE, text));
    } else {
        validity.warn(Reason::new(CODE, format!("{text}: no figure depends on it")));
    }
}

/// The record of a trial that was not tried.
pub fn skipped(e: &Experiment, trial: &Trial, reason: String) -> TrialRecord {
    TrialRecord {
        id: trial.id,
        repeat: trial.repeat,
        params: params(e, trial, None),
        skipped: Some(reason),
        ..TrialRecord::default()
    }
}

/// The fixed parameters of a trial, for tables: the key of its cell. Without a zone it is known by its plan.
fn params(e: &Experiment, trial: &Trial, zone: Option<&Prepared>) -> Vec<(String, String)> {
    let family = match &trial.zone {
        ZonePlan::Family { family, .. } => family.clone(),
        ZonePlan::File(_) => trial.zone.label(),
    };
    let kind = e.server(&trial.server).map_or_else(|_| String::new(), |s| s.kind);
    let mut params = vec![
        ("experiment", e.name.clone()),
        ("measure", trial.measure.word().into()),
        ("server", trial.server.clone()),
        ("kind", kind),
        ("family", family),
    ];
    match (zone, &trial.zone) {
        (Some(zone), _) => {
            params.push(("zone_size", zone.probe.delegations.to_string()));
            params.push(("zone_bytes", zone.probe.bytes.to_string()));
            params.push(("signed", zone.signed.clone().unwrap_or_else(|| "no".into())));
        }
        (None, ZonePlan::Family { family, delegations }) => {
            params.push(("zone_size", delegations.to_string()));
            let signed = if family_spec::is_signed(family) { e.zone.sign.clone() } else { "no".into() };
            params.push(("signed", signed));
        }
        (None, ZonePlan::File(_)) => {}
    }
    params.push(("published", e.published.join(",")));
    let d = e.distribution_of(trial.variant.as_deref());
    if zone.is_some_and(|zone| zone.keys.is_some())
        && e.is_distributed(trial.measure, trial.variant.as_deref())
    {
        let primary = d.primary.as_ref().unwrap_or(&trial.server);
        params.push(("signing", e.signing_of(d, primary).word().into()));
    }
    if d.secondaries > 0 && e.is_distributed(trial.measure, trial.variant.as_deref()) {
        params.push(("primary", d.primary.clone().unwrap_or_else(|| trial.server.clone())));
        params.push(("secondaries", d.secondaries.to_string()));
        let label = d.primary.as_ref().unwrap_or(&trial.server);
        params.extend(e.kind(label).ok().map(|kind| ("primary_kind", kind.name().to_owned())));
        params.push(("timers", d.timers.word().into()));
        params.extend(paths::params(d));
        params.extend(trial.updates.map(|rate| ("updates", rate.to_string())));
        params.extend(d.away.map(|away| ("away", away.to_string())));
    }
    if trial.measure.is_of_updates() {
        params.push(("syncs", e.syncs_of(&trial.server, trial.variant.as_deref()).word().into()));
    }
    if trial.measure == Measure::Memory {
        return params.into_iter().map(|(k, v)| (k.into(), v)).collect();
    }
    let (traffic, udp_size) = e.traffic_of(trial.variant.as_deref());
    let file = traffic.queries.as_ref().or(traffic.trace.as_ref());
    params.push(("traffic", file.map_or(traffic.profile.clone(), |file| file.display().to_string())));
    params.push(("transport", traffic.transport.to_string()));
    params.push(("udp_size", udp_size.to_string()));
    if let Some(bytes) = e.receive_buffer_of(trial.variant.as_deref()) {
        params.push(("receive_buffer", bytes.to_string()));
    }
    params.push(("generators", traffic.generators.to_string()));
    params.push(("addresses", traffic.addresses.to_string()));
    params.extend(trial.variant.clone().map(|variant| ("variant", variant)));
    match trial.measure {
        Measure::Memory | Measure::Transfer => {}
        Measure::Batches => {
            let b = e.batches_of(trial.variant.as_deref());
            params.push(("share", b.share.to_string()));
            params.push(("batches", b.count.to_string()));
            params.push(("mix", e.updates.mix.clone()));
            params.push(("window", e.updates.window.to_string()));
            params.push(("queries", b.rate.to_string()));
            params.push(("deadline", e.latency.deadline.to_string()));
        }
        Measure::Syncs => params.push(("count", e.durability.updates.to_string())),
        Measure::PowerCut => {
            params.push(("cuts", e.durability.cuts.to_string()));
            params.push(("window", e.durability.window.to_string()));
        }
        Measure::Kill => params.push(("kills", e.durability.kills.to_string())),
        Measure::Lag => {
            params.push(("duration", e.updates.duration.to_string()));
            params.push(("mix", e.updates.mix.clone()));
        }
        Measure::Churn => {
            params.push(("versions", e.updates.series.len().to_string()));
            params.push(("every", e.updates.every.to_string()));
        }
        Measure::Update => {
            params.push(("window", e.updates.window.to_string()));
            params.push(("count", e.updates.count.to_string()));
            params.push(("mix", e.updates.mix.clone()));
        }
        Measure::Load => params.push(("rate", e.load.rate.to_string())),
        Measure::Latency => {
            params.push(("rate", trial.rate.map_or_else(|| "recorded".into(), |rate| rate.to_string())));
            params.push(("duration", e.latency.duration.to_string()));
            params.push(("deadline", e.latency.deadline.to_string()));
        }
        Measure::Throughput => {
            params.push(("window", e.throughput.window.to_string()));
            params.push(("duration", e.throughput.duration.to_string()));
            params.push(("deadline", e.throughput.deadline.to_string()));
        }
        Measure::Peak => {
            params.push(("loss_goal", e.peak.loss.to_string()));
            params.push(("trial_duration", e.peak.trial.to_string()));
            params.push(("duration_sum", e.peak.duration_sum.to_string()));
            params.push(("budget", e.peak.budget.to_string()));
            params.push(("deadline", e.peak.deadline.to_string()));
        }
    }
    params.into_iter().map(|(k, v)| (k.into(), v)).collect()
}

fn measure(
    bench: &Bench,
    trial: &Trial,
    zone: &Prepared,
    dir: &Path,
    record: &mut TrialRecord,
    tell: &mut dyn FnMut(RunEvent),
) -> Result<(), Error> {
    let (traffic, udp_size) = bench.experiment.traffic_of(trial.variant.as_deref());
    let mut spec = server_spec(bench, &trial.server, zone)?;
    spec.udp_size = udp_size;
    if trial.measure.is_of_updates() {
        bench.experiment.syncs_of(&trial.server, trial.variant.as_deref()).apply(&mut spec);
    }
    if spec.external.is_none() && !server::driver(spec.kind).can().udp_cap {
        record.outcome.validity.warn(Reason::new(
            "no_udp_cap",
            format!(
                "{} does not cap its UDP answers: the {udp_size} octets asked for are without effect",
                spec.kind
            ),
        ));
    }
    // Loading is watched from before the start, and changes the zone: it has its own way through all this.
    if trial.measure == Measure::Load {
        return Stage { bench, spec: &spec, zone, traffic, dir }.loading(record, tell);
    }
    let fleet = match bench.experiment.is_distributed(trial.measure, trial.variant.as_deref()) {
        true => Some(Fleet::new(bench, trial, zone, dir)?),
        false => None,
    };
    if let (Measure::Transfer, Some(fleet)) = (trial.measure, &fleet) {
        spec.distribution = Some(fleet.measured(spec.kind));
        return Stage { bench, spec: &spec, zone, traffic, dir }.transfer(fleet, record, tell);
    }
    if let (true, Some(fleet)) = (trial.measure.is_of_durability(), &fleet) {
        spec.distribution = Some(fleet.measured(spec.kind));
        return Stage { bench, spec: &spec, zone, traffic, dir }.durability(
            trial.measure,
            fleet,
            record,
            tell,
        );
    }
    let mut others = Others::default();
    let mut folder = dir.to_owned();
    if let Some(fleet) = &fleet {
        others.primary = fleet.start_primary()?;
        spec.distribution = Some(fleet.measured(spec.kind));
        // Its folder is one of several.
        folder = dir.join("server");
    }
    let mut server = bench.start(bench.server, &spec, &folder)?;
    record.params.push(("version".into(), server.version().into()));
    let took = server.ready(&zone.probe, patience(bench.experiment, zone))?;
    tell(RunEvent::Ready { seconds: took.as_secs_f64() });
    // What answers already was not started here.
    if spec.external.is_none() {
        record.outcome.metrics.push(metrics::SERVER_READY.of(took.as_secs_f64()));
    }
    if let Some(fleet) = &fleet {
        others.secondaries = fleet.start_secondaries(&trial.server)?;
        let all = others.secondaries.iter().chain([&server]);
        all.for_each(|server| note_urged(server, &mut record.outcome));
    }
    let stage = Stage { bench, spec: &spec, zone, traffic, dir };
    if trial.repeat == 1 && zone.trust_anchor.is_some() {
        stage.validate(record)?;
    }
    let changing = match (&fleet, trial.updates) {
        (Some(fleet), _) if trial.measure == Measure::Churn => Some(stage.send_versions(fleet)?),
        (Some(fleet), Some(rate)) => Some(stage.change(fleet, rate, trial.measure == Measure::Lag)?),
        _ => None,
    };
    if spec.external.is_none() {
        stage.receive_buffers(&server, bench.experiment.receive_buffer_of(trial.variant.as_deref()), record);
    }
    let mut absence = None;
    let measured = match trial.measure {
        Measure::Latency => stage.latency(trial.rate.unwrap_or(1.0), &mut server, record, tell),
        Measure::Throughput => stage.throughput(&mut server, record, tell),
        Measure::Peak => stage.peak(&mut server, record, tell),
        Measure::Memory => stage.memory(&mut server, record),
        Measure::Update => match &fleet {
            Some(fleet) => stage.updates_taken(fleet, &mut server, record, tell),
            None => unreachable!("it is made for this measure"),
        },
        Measure::Lag | Measure::Churn => {
            let away = bench.experiment.distribution_of(trial.variant.as_deref()).away.map(Duration::from);
            let changes = stage.go_on(stage.changes_for(trial.measure), away, &mut others);
            changes.map(|away| absence = away)
        }
        Measure::Batches => match &fleet {
            Some(fleet) => {
                let servers = (&mut server, &mut others);
                stage.batches(fleet, trial.variant.as_deref(), servers, record, tell)
            }
            None => unreachable!("it is made for this measure"),
        },
        Measure::Load | Measure::Transfer | Measure::Syncs | Measure::PowerCut | Measure::Kill => {
            unreachable!("they went their own way above")
        }
    };
    // A server that died explains a role's odd end better than the role does.
    server.alive()?;
    others.alive()?;
    measured?;
    if let Some(changing) = changing {
        changing.end(bench, absence.as_ref(), record, tell)?;
    }
    record.outcome.metrics.extend(others.memory());
    others.stop()?;
    record.outcome.metrics.extend(end(bench, server, &spec, Ok(()))?);
    Ok(())
}

/// How long a server may take until it answers: a minute, where the experiment says nothing else, and a second more for
/// each megabyte; the slowest loaders of the papers took 5 s per megabyte on machines of 2009.
pub fn patience(e: &Experiment, zone: &Prepared) -> Duration {
    Duration::from(e.patience) + Duration::from_secs(zone.probe.bytes / 1_000_000)
}

/// Keeps the server's own counters, and stops it; what it counted.
pub fn end(
    bench: &Bench,
    mut server: Server<'_>,
    spec: &ServerSpec,
    measured: Result<(), Error>,
) -> Result<Vec<Metric>, Error> {
    // A server that died explains a role's odd end better than the role does.
    server.alive()?;
    measured?;
    bench.goes_on()?;
    let driver = server::driver(spec.kind);
    let counted = match spec.external.is_none() && driver.can().stats {
        true => driver.counted(&server.stats()?),
        false => server::Counted::default(),
    };
    server.stop()?;
    Ok(counted.metrics().collect())
}

/// The server of a label, as one that serves its file.
pub fn server_spec(bench: &Bench, label: &str, zone: &Prepared) -> Result<ServerSpec, Error> {
    let e = bench.experiment;
    let given = e.server(label)?;
    let config = match &given.config {
        Some(path) => Some(std::fs::read_to_string(path).map_err(Error::io(path))?),
        None => None,
    };
    Ok(ServerSpec {
        label: label.into(),
        kind: e.kind(label)?,
        program: given.program,
        config,
        workers: given.workers.unwrap_or(bench.server_cpus.len() as u32),
        udp_size: e.udp_size,
        port: PORT,
        addresses: if bench.server.extra_addrs.is_empty() { Vec::new() } else { bench.server.addresses() },
        zone: ZoneRef { origin: zone.origin.clone(), file: zone.file.clone(), signed: zone.signed.is_some() },
        cpus: bench.server_cpus.to_vec(),
        env: Vec::new(),
        external: given.address,
        distribution: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_step_is_told_once_and_spoils_what_a_generator_did_not_judge() {
        let hour = 3600 * SECOND as i64;
        let after = |by: i64, measure: Measure, known: bool| {
            let mut record = TrialRecord::default();
            if known {
                record.outcome.validity.reject(Reason::new("clock_stepped", "the generator saw it"));
            }
            clock_stepped(by, measure, &mut record);
            let validity = record.outcome.validity;
            let text = |all: &[Reason]| all.iter().map(|r| r.text.clone()).collect::<Vec<_>>();
            (text(&validity.warnings), text(&validity.reasons))
        };
        let (warnings, reasons) = after(-hour, Measure::Latency, false);
        assert_eq!(reasons, [""; 0]);
        assert_eq!(
            warnings,
            ["the wall clock was set back by 3600.000 s during the trial: no figure depends on it"]
        );
        let (warnings, reasons) = after(hour, Measure::Load, false);
        assert_eq!((warnings.len(), reasons.len()), (0, 1));
        assert!(reasons[0].contains("set forward by 3600.000 s"), "{reasons:?}");
        assert_eq!(after(hour, Measure::Latency, true).1, ["the generator saw it"]);
        assert_eq!(after(load::CLOCK_LIMIT as i64, Measure::Load, false), (vec![], vec![]));
    }
}
