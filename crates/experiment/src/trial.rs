//! One trial: a fresh server, ready, measured, stopped; and what came of it.

use crate::plan::ZonePlan;
use crate::stage::Stage;
use crate::zones::Prepared;
use crate::{Error, Experiment, Happening, Measure, Trial, recipe};
use measure::{Metric, Reason};
use rack::{Host, Launcher};
use results::TrialRecord;
use server::{Server, ServerSpec, ZoneRef};
use std::path::Path;
use std::str::FromStr;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// What all trials of a run share.
pub struct Bench<'a> {
    pub experiment: &'a Experiment,
    pub launcher: &'a dyn Launcher,
    pub server: &'a Host,
    /// As many as any traffic has.
    pub generators: &'a [Host],
    pub server_cpus: &'a [usize],
    pub generator_cpus: &'a [usize],
    pub stop: &'a AtomicBool,
}

/// Port that servers listen on: hosts are ours alone, so it is DNS's own.
const PORT: u16 = 53;

/// Does one trial. Whatever goes wrong with server or generator becomes the record's error.
pub fn run(
    bench: &Bench,
    trial: &Trial,
    zone: &Prepared,
    dir: &Path,
    tell: &mut dyn FnMut(Happening),
) -> TrialRecord {
    let mut record = TrialRecord {
        id: trial.id,
        repeat: trial.repeat,
        params: params(bench.experiment, trial, Some(zone)),
        ..TrialRecord::default()
    };
    if let Err(error) = measure(bench, trial, zone, dir, &mut record, tell) {
        record.error = Some(error.to_string());
    }
    record
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

/// What was fixed, for tables: the key of a cell. Without a zone it is known by its plan.
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
            let signed = if recipe::is_signed(family) { e.zone.sign.clone() } else { "no".into() };
            params.push(("signed", signed));
        }
        (None, ZonePlan::File(_)) => {}
    }
    params.push(("published", e.published.join(",")));
    if trial.measure == Measure::Memory {
        return params.into_iter().map(|(k, v)| (k.into(), v)).collect();
    }
    let (traffic, udp_size) = e.traffic_of(trial.variant.as_deref());
    let file = traffic.queries.as_ref().or(traffic.trace.as_ref());
    params.push(("traffic", file.map_or(traffic.profile.clone(), |file| file.display().to_string())));
    params.push(("transport", traffic.transport.to_string()));
    params.push(("udp_size", udp_size.to_string()));
    params.push(("generators", traffic.generators.to_string()));
    params.push(("addresses", traffic.addresses.to_string()));
    params.extend(trial.variant.clone().map(|variant| ("variant", variant)));
    match trial.measure {
        Measure::Memory => {}
        Measure::Load => params.push(("rate", e.load.rate.to_string())),
        Measure::Latency => {
            params.push(("rate", trial.rate.map_or_else(|| "recorded".into(), |rate| rate.to_string())));
            params.push(("duration", e.latency.duration.clone()));
            params.push(("deadline", e.latency.deadline.clone()));
        }
        Measure::Throughput => {
            params.push(("window", e.throughput.window.to_string()));
            params.push(("duration", e.throughput.duration.clone()));
            params.push(("deadline", e.throughput.deadline.clone()));
        }
        Measure::Peak => {
            params.push(("loss_goal", e.peak.loss.to_string()));
            params.push(("trial_duration", e.peak.trial.clone()));
            params.push(("duration_sum", e.peak.duration_sum.clone()));
            params.push(("budget", e.peak.budget.clone()));
            params.push(("deadline", e.peak.deadline.clone()));
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
    tell: &mut dyn FnMut(Happening),
) -> Result<(), Error> {
    let (traffic, udp_size) = bench.experiment.traffic_of(trial.variant.as_deref());
    let mut spec = server_spec(bench, trial, zone)?;
    spec.udp_size = udp_size;
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
    let mut server = server::start(bench.launcher, bench.server, &spec, dir)?;
    record.params.push(("version".into(), server.version().into()));
    let took = server.ready(&zone.probe, patience(zone))?;
    tell(Happening::Ready { seconds: took.as_secs_f64() });
    record.outcome.metrics.push(Metric::new("server_ready", "s", took.as_secs_f64()));
    let stage = Stage { bench, spec: &spec, zone, traffic, dir };
    if trial.repeat == 1 && zone.trust_anchor.is_some() {
        stage.validate(record)?;
    }
    let measured = match trial.measure {
        Measure::Latency => stage.latency(trial.rate.unwrap_or(1.0), &mut server, record, tell),
        Measure::Throughput => stage.throughput(&mut server, record, tell),
        Measure::Peak => stage.peak(&mut server, record, tell),
        Measure::Memory => stage.memory(&mut server, record),
        Measure::Load => unreachable!("it went its own way above"),
    };
    record.outcome.metrics.extend(counted_end(server, &spec, measured)?);
    Ok(())
}

/// How long a server may take until it answers: a minute, and a second more for each megabyte; the slowest loaders of
/// the seeds took 5 s per megabyte on machines of 2009.
pub fn patience(zone: &Prepared) -> Duration {
    Duration::from_secs(60 + zone.probe.bytes / 1_000_000)
}

/// Keeps the server's own counters, and stops it.
pub fn end(server: Server<'_>, spec: &ServerSpec, measured: Result<(), Error>) -> Result<(), Error> {
    counted_end(server, spec, measured).map(drop)
}

/// The same, with what it counted.
fn counted_end(
    mut server: Server<'_>,
    spec: &ServerSpec,
    measured: Result<(), Error>,
) -> Result<Vec<Metric>, Error> {
    // A server that died explains a role's odd end better than the role does.
    server.alive()?;
    measured?;
    let driver = server::driver(spec.kind);
    let counted = match spec.external.is_none() && driver.can().stats {
        true => driver.counted(&server.stats()?),
        false => server::Counted::default(),
    };
    server.stop()?;
    Ok(counted.named().map(|(name, value)| Metric::new(name, "1", value as f64)).collect())
}

fn server_spec(bench: &Bench, trial: &Trial, zone: &Prepared) -> Result<ServerSpec, Error> {
    let e = bench.experiment;
    let given = e.server(&trial.server)?;
    let config = match &given.config {
        Some(path) => Some(std::fs::read_to_string(path).map_err(Error::io(path))?),
        None => None,
    };
    Ok(ServerSpec {
        label: trial.server.clone(),
        kind: server::Kind::from_str(&given.kind).map_err(|m| e.refuse(m.to_string()))?,
        program: given.program,
        config,
        workers: given.workers.unwrap_or(bench.server_cpus.len() as u32),
        udp_size: e.udp_size,
        port: PORT,
        addresses: if bench.server.extra_addrs.is_empty() { Vec::new() } else { bench.server.addresses() },
        zone: ZoneRef { origin: zone.origin.clone(), file: zone.file.clone(), signed: zone.signed.is_some() },
        cpus: bench.server_cpus.to_vec(),
        external: given.address,
    })
}
