//! One trial: a fresh server, ready, loaded, stopped; and what came of it.

use crate::anchor;
use crate::run::START_DELAY;
use crate::sampling::Sampling;
use crate::zones::Prepared;
use crate::{Error, Experiment, Happening, Measure, Trial};
use load::search::{Goal, Search};
use load::{LoadResult, LoadSpec};
use measure::clock::SECOND;
use measure::{Arrivals, Event, Metric, Nanos, Outcome, Pace, Reason, Seed};
use rack::{Host, Launcher, Role};
use results::{SeriesRow, TrialRecord};
use server::{Server, ServerSpec, ZoneRef};
use std::path::Path;
use std::str::FromStr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use traffic::{NameList, ProfileSpec, QueriesSpec, SourceSpec};

/// What all trials of a run share.
pub struct Bench<'a> {
    pub experiment: &'a Experiment,
    pub launcher: &'a dyn Launcher,
    pub server: &'a Host,
    pub generator: &'a Host,
    pub server_cpus: &'a [usize],
    pub generator_cpus: &'a [usize],
    pub stop: &'a AtomicBool,
}

/// One server on one zone, ready to be measured.
struct Stage<'a> {
    bench: &'a Bench<'a>,
    spec: &'a ServerSpec,
    zone: &'a Prepared,
    /// Where the trial's files go.
    dir: &'a Path,
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
        params: params(bench, trial, zone),
        ..TrialRecord::default()
    };
    if let Err(error) = measure(bench, trial, zone, dir, &mut record, tell) {
        record.error = Some(error.to_string());
    }
    record
}

/// What was fixed, for tables: the key of a cell.
fn params(bench: &Bench, trial: &Trial, zone: &Prepared) -> Vec<(String, String)> {
    let e = bench.experiment;
    let family = match &trial.zone {
        crate::plan::ZonePlan::Family { family, .. } => family.clone(),
        crate::plan::ZonePlan::File(_) => trial.zone.label(),
    };
    let kind = e.server(&trial.server).map_or_else(|_| String::new(), |s| s.kind);
    let mut params = vec![
        ("experiment", e.name.clone()),
        ("measure", trial.measure.word().into()),
        ("server", trial.server.clone()),
        ("kind", kind),
        ("family", family),
        ("zone_size", zone.probe.delegations.to_string()),
        ("zone_bytes", zone.probe.bytes.to_string()),
        ("signed", zone.signed.clone().unwrap_or_else(|| "no".into())),
        ("published", e.published.join(",")),
    ];
    params.push((
        "traffic",
        e.traffic.queries.as_ref().map_or(e.traffic.profile.clone(), |q| q.display().to_string()),
    ));
    match trial.measure {
        Measure::Latency => {
            params.push(("rate", trial.rate.unwrap_or_default().to_string()));
            params.push(("duration", e.latency.duration.clone()));
            params.push(("deadline", e.latency.deadline.clone()));
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
    let spec = server_spec(bench, trial, zone)?;
    let mut server = server::start(bench.launcher, bench.server, &spec, dir)?;
    // A minute, and a second more for each megabyte: the slowest loaders of the seeds took 5 s per megabyte on
    // machines of 2009.
    let patience = Duration::from_secs(60 + zone.probe.bytes / 1_000_000);
    record.params.push(("version".into(), server.version().into()));
    let took = server.ready(&zone.probe, patience)?;
    tell(Happening::Ready { seconds: took.as_secs_f64() });
    record.outcome.metrics.push(Metric::new("server_ready", "s", took.as_secs_f64()));
    let stage = Stage { bench, spec: &spec, zone, dir };
    if trial.repeat == 1 && zone.trust_anchor.is_some() {
        stage.validate(record)?;
    }
    let measured = match trial.rate {
        Some(rate) => stage.latency(rate, &mut server, record, tell),
        None => stage.peak(&mut server, record, tell),
    };
    // A server that died explains a role's odd end better than the role does.
    server.alive()?;
    measured?;
    if spec.external.is_none() {
        server.stats()?;
    }
    server.stop()?;
    Ok(())
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
        udp_size: 1232,
        port: PORT,
        addresses: Vec::new(),
        zone: ZoneRef { origin: zone.origin.clone(), file: zone.file.clone(), signed: zone.signed.is_some() },
        cpus: bench.server_cpus.to_vec(),
        external: given.address,
    })
}

/// What one load gave.
struct Driven {
    result: LoadResult,
    series: Vec<SeriesRow>,
    /// Datagrams lost inside each host.
    drops: Vec<Metric>,
}

impl Stage<'_> {
    /// Has an independent judge validate a sample of answers.
    fn validate(&self, record: &mut TrialRecord) -> Result<(), Error> {
        let at = self.spec.targets(self.bench.server)[0];
        let (bench, count) = (self.bench, self.bench.experiment.zone.validate);
        let verdict = anchor::validate(bench.launcher, bench.generator, at, self.zone, count, self.dir)?;
        record.outcome.metrics.push(Metric::new("answers_validated", "1", f64::from(verdict.validated)));
        record.outcome.metrics.push(Metric::new("answers_not_validated", "1", verdict.refused.len() as f64));
        if let Some(first) = verdict.refused.first() {
            record.outcome.validity.warn(Reason::new(
            "answers_not_validated",
            format!(
                "delv could not validate {} of {} answers from the trust anchor, first {first}; all in delv.txt",
                verdict.refused.len(),
                verdict.refused.len() + verdict.validated as usize
            ),
        ));
        }
        Ok(())
    }

    /// What to send at a server.
    fn load(&self, rate: f64, duration: Nanos) -> LoadSpec {
        let Stage { bench, spec, zone, .. } = self;
        let e = bench.experiment;
        let source = match &e.traffic.queries {
            Some(path) => SourceSpec::Queries(QueriesSpec { path: path.clone(), edns: None, cycle: true }),
            None => SourceSpec::Profile(ProfileSpec {
                profile: e.traffic.profile.clone(),
                names: vec![NameList::new(&zone.names)],
                seed: Seed(e.seed),
                changes: traffic::Changes::default(),
            }),
        };
        LoadSpec {
            workers: bench.generator_cpus.len() as u32,
            cpus: bench.generator_cpus.to_vec(),
            allow_external: spec.external.is_some_and(|a| !a.ip().is_loopback()),
            ..LoadSpec::new(
                vec![spec.targets(bench.server)[0]],
                source,
                Pace::Open(Arrivals::Fixed { rate }),
                duration,
            )
        }
    }

    /// Runs the generator once, sampling both sides each second.
    fn drive(
        &self,
        load: &LoadSpec,
        server: &mut Server<'_>,
        tell: &mut dyn FnMut(&serde_json::Value),
    ) -> Result<Driven, Error> {
        let bench = self.bench;
        let log = self.dir.join("generator.log");
        let mut role = Role::start(bench.launcher, bench.generator, "load", load, &load.cpus, &log)?;
        role.ready(Duration::from_secs(60))?;
        let mut sampling = Sampling::start(bench, server.pids(), role.pid());
        role.start_at(measure::clock::wall() + START_DELAY)?;
        let mut series = Vec::new();
        loop {
            if bench.stop.load(Ordering::Relaxed) {
                role.stop();
            }
            match role.next(Duration::from_secs(1))? {
                Some(Event::Progress { second, values }) => {
                    let second = second as u32;
                    series.extend(crate::sampling::rows(second, &values));
                    series.extend(sampling.rows(second));
                    tell(&values);
                }
                Some(Event::Done { result }) => {
                    let result = serde_json::from_value(result).map_err(|e| {
                        Error::Machine(format!(
                            "the generator's result is not of this version of dnsrack: {e}"
                        ))
                    })?;
                    return Ok(Driven { result, series, drops: sampling.drops() });
                }
                Some(_) | None => {}
            }
            server.alive()?;
        }
    }

    /// RZAIA 3.2: a fixed rate.
    fn latency(
        &self,
        rate: f64,
        server: &mut Server<'_>,
        record: &mut TrialRecord,
        tell: &mut dyn FnMut(Happening),
    ) -> Result<(), Error> {
        let e = self.bench.experiment;
        let mut load = self.load(rate, e.duration("latency.duration", &e.latency.duration)?);
        load.warmup = e.duration("latency.warmup", &e.latency.warmup)?;
        load.deadline = e.duration("latency.deadline", &e.latency.deadline)?;
        let Driven { result, series, drops } = self.drive(&load, server, &mut |values| {
            tell(Happening::Second { text: crate::sampling::sentence(values) });
        })?;
        record.series = series;
        record.outcome.metrics.extend(drops);
        take(&mut record.outcome, result.outcome());
        record.outcome.metrics.extend(crate::sampling::memory(&server.pids()));
        Ok(())
    }

    /// ISC 6.3.1 by RFC 9971: a search over rates.
    fn peak(
        &self,
        server: &mut Server<'_>,
        record: &mut TrialRecord,
        tell: &mut dyn FnMut(Happening),
    ) -> Result<(), Error> {
        let e = self.bench.experiment;
        let goal = Goal {
            loss_ratio: e.peak.loss,
            final_trial: e.duration("peak.trial", &e.peak.trial)?,
            duration_sum: e.duration("peak.duration_sum", &e.peak.duration_sum)?,
            width: e.peak.width,
            ..Goal::default()
        };
        let search = Search::new(goal, e.duration("peak.budget", &e.peak.budget)?);
        let mut load = self.load(0.0, 0);
        load.deadline = e.duration("peak.deadline", &e.peak.deadline)?;
        let mut best: Option<LoadResult> = None;
        let dropped = std::cell::Cell::new(0.0);
        let mut measure = |load: &LoadSpec| -> Result<LoadResult, Error> {
            let Driven { result, drops, .. } = self.drive(load, server, &mut |_| {})?;
            dropped.set(drops.iter().find(|m| m.name == "server_drops").map_or(0.0, |m| m.value));
            Ok(result)
        };
        let found = load::search::drive(&load, search, &mut measure, &mut |n, trial, result| {
            tell(Happening::Second {
                text: format!(
                    "offered {:.0}/s: answered {:.0}/s, loss {:.3} %",
                    trial.rate,
                    result.counts.answered_qps,
                    trial.loss_ratio * 100.0
                ),
            });
            for (metric, unit, value) in [
                ("search_offered_qps", "1/s", trial.rate),
                ("search_loss_ratio", "1", trial.loss_ratio),
                ("search_duration", "s", trial.duration as f64 / SECOND as f64),
                ("search_server_drops", "1", dropped.get()),
                ("search_valid", "1", f64::from(u8::from(trial.valid))),
            ] {
                let (metric, unit) = (metric.into(), unit.into());
                record.series.push(SeriesRow { second: n as u32, metric, unit, value });
            }
            let within = trial.loss_ratio <= e.peak.loss && trial.valid;
            if within && best.as_ref().is_none_or(|b| result.counts.answered_qps > b.counts.answered_qps) {
                best = Some(result.clone());
            }
        })?;
        if let Some(best) = best {
            take(&mut record.outcome, best.outcome());
        }
        record.outcome.metrics.extend(found.metrics());
        record.outcome.validity.merge(found.validity());
        record.outcome.metrics.extend(crate::sampling::memory(&server.pids()));
        let detail = self.dir.join("search.json");
        let text = serde_json::to_string_pretty(&found).map_err(|e| Error::Machine(e.to_string()))?;
        std::fs::write(&detail, text).map_err(Error::io(&detail))
    }
}

fn take(into: &mut Outcome, from: Outcome) {
    into.metrics.extend(from.metrics);
    into.histograms.extend(from.histograms);
    into.validity.merge(from.validity);
}
