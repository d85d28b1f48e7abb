//! One server on one zone, ready to be measured, and what a generator does to it.

use crate::run::START_DELAY;
use crate::sampling::Sampling;
use crate::sections::Traffic;
use crate::trial::Bench;
use crate::zones::Prepared;
use crate::{Error, anchor};
use load::hosts::{Generators, Member, divide};
use load::{LoadResult, LoadSpec, Source};
use measure::{Metric, Named, Nanos, Outcome, Pace, Reason, Seed};
use rack::{Host, Role};
use results::{SeriesRow, TrialRecord};
use server::{Server, ServerSpec};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
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
    /// Of all generators together.
    pub result: LoadResult,
    /// Answers per second at each generator, where there are several.
    pub each: Vec<Metric>,
    /// When it began, its warm-up included: wall clock.
    pub began: Nanos,
    pub series: Vec<SeriesRow>,
    /// Datagrams lost inside each host.
    pub drops: Vec<Metric>,
}

impl Stage<'_> {
    /// Has an independent judge validate a sample of answers.
    pub fn validate(&self, record: &mut TrialRecord) -> Result<(), Error> {
        let at = self.spec.targets(self.bench.server)[0];
        let (bench, count) = (self.bench, self.bench.experiment.zone.validate);
        let verdict = anchor::validate(bench.launcher, &bench.generators[0], at, self.zone, count, self.dir)?;
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

    /// What to send at the server: at a pace, or as captured.
    pub fn load(&self, pace: Pace, duration: Nanos) -> Result<LoadSpec, Error> {
        let Stage { bench, spec, traffic, .. } = self;
        let source = self.source();
        let read = |trace: &PathBuf| bench.captures.iter().find(|(path, _)| path == trace).map(|(_, s)| s);
        let recorded = traffic.trace.as_ref().and_then(read);
        let mut targets = spec.targets(bench.server);
        let (pace, duration) = match recorded {
            Some(survey) => {
                let length = survey.length(traffic.speed).min(load::LONGEST);
                (Pace::Recorded { speed: traffic.speed }, length)
            }
            None => {
                let first = targets[0];
                targets.retain(|target| target.is_ipv4() == first.is_ipv4());
                targets.truncate(traffic.addresses as usize);
                (pace, duration)
            }
        };
        let mut load = LoadSpec {
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

    /// Runs the generators once, sampling both sides each second.
    pub fn drive(
        &self,
        load: &LoadSpec,
        server: &mut Server<'_>,
        tell: &mut dyn FnMut(&serde_json::Value),
    ) -> Result<Driven, Error> {
        let bench = self.bench;
        let hosts = &bench.generators[..self.traffic.generators as usize];
        let members: Vec<Member> = hosts.iter().map(|h| Member { name: &h.name, cpus: &[] }).collect();
        let mut parts = divide(load, &members)?;
        // A client asks at one address of the server's, as the seed's did (Nominet).
        if let (2.., targets) = (hosts.len(), &load.targets) {
            let all = parts.iter_mut().zip(targets.iter().cycle());
            all.for_each(|(part, &target)| part.spec.targets = vec![target]);
        }
        let mut generators = Generators::start(parts, &mut |part| {
            let host: &Host =
                hosts.iter().find(|h| h.name == part.name).expect("parts are named after hosts");
            let log = self.dir.join(format!("{}.log", part.name));
            Role::start(bench.launcher, host, "load", &part.spec, &part.spec.cpus, &log)
        })?;
        let mut sampling = Sampling::start(bench, server.pids(), generators.pids());
        let began = measure::clock::wall() + START_DELAY;
        generators.start_at(began)?;
        let mut series = Vec::new();
        while !generators.are_done() {
            if bench.stop.load(Ordering::Relaxed) {
                generators.stop();
            }
            while let Some((second, values)) = generators.second()? {
                let second = second as u32;
                series.extend(crate::sampling::rows(second, &values));
                if bench.experiment.sampling {
                    series.extend(sampling.rows(second));
                }
                tell(&values);
            }
            server.alive()?;
        }
        let results = generators.results();
        let answered = |r: &Named<LoadResult>| {
            Metric::new(
                format!("{}_answered_qps", r.name.replace('-', "_")),
                "1/s",
                r.value.counts.answered_qps,
            )
        };
        let each = if results.len() > 1 { results.iter().map(answered).collect() } else { Vec::new() };
        Ok(Driven { result: LoadResult::merge(results), each, began, series, drops: sampling.drops() })
    }
}

pub fn take(into: &mut Outcome, from: Outcome) {
    into.metrics.extend(from.metrics);
    into.histograms.extend(from.histograms);
    into.validity.merge(from.validity);
}
