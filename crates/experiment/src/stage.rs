//! One server on one zone, ready to be measured, and what a generator does to it.

use crate::file::Traffic;
use crate::run::START_DELAY;
use crate::sampling::Sampling;
use crate::trial::Bench;
use crate::zones::Prepared;
use crate::{Error, anchor};
use load::{LoadResult, LoadSpec, Source};
use measure::{Arrivals, Event, Metric, Nanos, Outcome, Pace, Reason, Seed};
use rack::Role;
use results::{SeriesRow, TrialRecord};
use server::{Server, ServerSpec};
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::Duration;
use trace::ReplaySpec;
use traffic::{EdnsSpec, NameList, ProfileSpec, QueriesSpec, SourceSpec};

/// One server on one zone, ready to be measured.
pub struct Stage<'a> {
    pub bench: &'a Bench<'a>,
    pub spec: &'a ServerSpec,
    pub zone: &'a Prepared,
    pub traffic: Traffic,
    /// Where the trial's files go.
    pub dir: &'a Path,
}

/// What one load gave.
pub struct Driven {
    pub result: LoadResult,
    pub series: Vec<SeriesRow>,
    /// Datagrams lost inside each host.
    pub drops: Vec<Metric>,
}

impl Stage<'_> {
    /// Has an independent judge validate a sample of answers.
    pub fn validate(&self, record: &mut TrialRecord) -> Result<(), Error> {
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

    /// The queries.
    fn source(&self) -> Source {
        let (traffic, e) = (&self.traffic, self.bench.experiment);
        if let Some(trace) = &traffic.trace {
            return ReplaySpec { paths: vec![trace.clone()], ports: Vec::new(), to: Vec::new() }.into();
        }
        let source = match &traffic.queries {
            Some(path) => {
                // A file of queries says nothing of EDNS; the experiment may.
                let edns = (traffic.changes.edns.unwrap_or(0.0) > 0.0).then(|| EdnsSpec {
                    udp_size: 1232,
                    do_bit: traffic.changes.do_bit.unwrap_or(0.0) > 0.0,
                });
                SourceSpec::Queries(QueriesSpec { path: path.clone(), edns, cycle: true })
            }
            None => SourceSpec::Profile(ProfileSpec {
                profile: traffic.profile.clone(),
                names: vec![NameList::new(&self.zone.names)],
                seed: Seed(e.seed),
                changes: traffic.changes.clone(),
            }),
        };
        source.into()
    }

    /// What to send at the server: at a rate, or as captured.
    pub fn load(&self, rate: f64, duration: Nanos) -> Result<LoadSpec, Error> {
        let Stage { bench, spec, traffic, .. } = self;
        let source = self.source();
        let recorded = source.check()?.recorded;
        let targets = spec.targets(bench.server);
        let (pace, duration, targets) = match &recorded {
            Some(survey) => {
                let length = survey.length(traffic.speed).min(load::LONGEST);
                (Pace::Recorded { speed: traffic.speed }, length, targets)
            }
            None => (Pace::Open(Arrivals::Fixed { rate }), duration, vec![targets[0]]),
        };
        let mut load = LoadSpec {
            workers: bench.generator_cpus.len() as u32,
            cpus: bench.generator_cpus.to_vec(),
            allow_external: spec.external.is_some_and(|a| !a.ip().is_loopback()),
            transport: traffic.transport,
            retry: traffic.retry,
            ..LoadSpec::new(targets, source, pace, duration)
        };
        if let Some(survey) = recorded {
            load.connections.queries = survey.queries_per_connection();
        }
        Ok(load)
    }

    /// Runs the generator once, sampling both sides each second.
    pub fn drive(
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
}

pub fn take(into: &mut Outcome, from: Outcome) {
    into.metrics.extend(from.metrics);
    into.histograms.extend(from.histograms);
    into.validity.merge(from.validity);
}
