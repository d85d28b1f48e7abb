//! One server on one zone, ready to be measured, and what a generator does to it.

use crate::config::Traffic;
use crate::losses::Losses;
use crate::meter::Machine;
use crate::run_context::RunContext;
use crate::sampling::Sampling;
use crate::second_count::SecondCount;
use crate::zones::Prepared;
use crate::{Error, anchor};
use agent::{Server, Tool};
use load::hosts::{Generators, Member, Part, divide, repeat};
use load::{LoadResult, LoadSpec, Source};
use measure::metrics;
use measure::{Metric, Named, Nanos, Outcome, Pace, Reason, Seed};
use rack::Host;
use results::{SeriesRow, TrialRecord};
use server::ServerSpec;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::Duration;
use trace::ReplaySpec;
use traffic::{EdnsSpec, NameList, ProfileSpec, QueriesSpec, SourceSpec};

/// How long the command that puts an external server back may take.
const RESET: Duration = Duration::from_secs(300);

/// One server on one zone, ready to be measured.
pub struct SystemUnderTest<'a> {
    pub context: &'a RunContext<'a>,
    pub spec: &'a ServerSpec,
    pub zone: &'a Prepared,
    pub traffic: Traffic,
    /// The hosts of the secondaries that have the same load at the same time, where all are asked.
    pub beside: Vec<&'a Host>,
    /// Where the trial's files go.
    pub dir: &'a Path,
}

/// The result of one load.
pub struct Driven {
    /// Of all generators together; where several secondaries were asked, of the measured one's.
    pub result: LoadResult,
    /// Answers per second at each generator, where there are several; of each secondary and of all, where several were asked.
    pub each: Vec<Metric>,
    /// When it began, its warm-up included: wall clock.
    pub began: Nanos,
    pub series: Vec<SeriesRow>,
    /// Datagrams lost inside each host.
    pub drops: Vec<Metric>,
    /// The machine during the load.
    pub machine: Machine,
    /// Why queries were lost.
    pub losses: Losses,
    /// The queries as the server's host counted them; none where it could not.
    pub second: Option<SecondCount>,
}

impl SystemUnderTest<'_> {
    /// Notes the receive buffers of the server's UDP sockets, and makes them as large as `wanted` (bytes) first, where that is said.
    pub fn receive_buffers(&self, server: &Server, wanted: Option<usize>, record: &mut TrialRecord) {
        match server.receive_buffer(wanted) {
            Ok(least) => {
                let metric = least.map(|bytes| metrics::SERVER_RECEIVE_BUFFER.of(bytes as f64));
                record.outcome.metrics.extend(metric);
            }
            Err(error) if wanted.is_some() => record.outcome.validity.reject(Reason::new(
                "receive_buffer_not_set",
                format!("the server's receive buffers are as the server made them: {error}"),
            )),
            // To know them is not needed for any figure.
            Err(_) => {}
        }
    }

    /// Has an independent validator check a sample of answers.
    pub fn validate(&self, record: &mut TrialRecord) -> Result<(), Error> {
        let at = self.spec.targets(&self.context.server.host)[0];
        let (context, count) = (self.context, self.context.experiment.zone.validate);
        let verdict = anchor::validate(&context.generators[0], at, self.zone, count, self.dir)?;
        record.outcome.metrics.push(metrics::ANSWERS_VALIDATED.of(f64::from(verdict.validated)));
        record.outcome.metrics.push(metrics::ANSWERS_NOT_VALIDATED.of(verdict.refused.len() as f64));
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

    /// Whether the server is external and on another machine.
    pub fn is_outside(&self) -> bool {
        self.spec.external.is_some_and(|at| !at.ip().is_loopback())
    }

    /// Runs the user's command that puts an external server back to its zone file. Its words go to `reset.log`.
    ///
    /// # Errors
    /// The command cannot be run, fails, or does not end.
    pub fn reset(&self) -> Result<(), Error> {
        let words = self.context.experiment.server(&self.spec.label)?.reset;
        let Some((program, args)) = words.split_first() else { return Ok(()) };
        let tool = Tool { program: program.into(), args: args.to_vec(), patience: RESET };
        let ran = self.context.generators[0].ask(tool)?;
        let log = self.dir.join("reset.log");
        std::fs::write(&log, ran.said).map_err(Error::io(&log))?;
        let error = |why| {
            let label = &self.spec.label;
            Error::Machine(format!("server.{label}.reset: {program}: {why}; see {}", log.display()))
        };
        ran.failed.map_or(Ok(()), |why| Err(error(why)))
    }

    /// The queries.
    fn source(&self) -> Source {
        let (traffic, e) = (&self.traffic, self.context.experiment);
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

    /// The load for the server: at a pace, or as captured.
    pub fn load(&self, pace: Pace, duration: Nanos) -> Result<LoadSpec, Error> {
        let SystemUnderTest { context, spec, traffic, .. } = self;
        let source = self.source();
        let read = |trace: &PathBuf| context.captures.iter().find(|(path, _)| path == trace).map(|(_, s)| s);
        let recorded = traffic.trace.as_ref().and_then(read);
        let mut targets = spec.targets(&context.server.host);
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
            cpus: context.generators[0].host.cpus.clone(),
            allowed: context.allowed(),
            allow_external: self.is_outside(),
            transport: traffic.transport,
            backend: traffic.backend,
            retry: traffic.retry,
            ..LoadSpec::new(targets, source, pace, duration)
        };
        if let Some(survey) = recorded {
            load.connections.queries = survey.queries_per_connection();
        }
        Ok(load)
    }

    /// A load for the server, divided among the generators.
    fn divided(&self, load: &LoadSpec, members: &[Member]) -> Result<Vec<Part>, Error> {
        let mut parts = divide(load, members)?;
        // A client asks at one address of the server's, as the paper's did (Nominet).
        if let (2.., targets) = (members.len(), &load.targets) {
            let all = parts.iter_mut().zip(targets.iter().cycle());
            all.for_each(|(part, &target)| part.spec.targets = vec![target]);
        }
        Ok(parts)
    }

    /// The servers that have a load together, the measured one first: the names of their hosts, and where they are asked.
    fn asked(&self, load: &LoadSpec) -> Vec<(String, Vec<SocketAddr>)> {
        let at = |host: &Host| {
            let same = |target: &SocketAddr| match target.is_ipv4() {
                true => SocketAddr::new(host.v4.into(), target.port()),
                false => SocketAddr::new(host.v6.into(), target.port()),
            };
            let mut targets: Vec<SocketAddr> = load.targets.iter().map(same).collect();
            targets.dedup();
            (host.name.clone(), targets)
        };
        let measured = (self.context.server.host.name.clone(), load.targets.clone());
        std::iter::once(measured).chain(self.beside.iter().map(|host| at(host))).collect()
    }

    /// Runs the generators once, sampling both sides each second. Of its queries the share `allowed` (0 to 1) may be lost.
    pub fn drive(
        &self,
        load: &LoadSpec,
        allowed: f64,
        server: &mut Server,
        tell: &mut dyn FnMut(&serde_json::Value),
    ) -> Result<Driven, Error> {
        let context = self.context;
        let agents = &context.generators[..self.traffic.generators as usize];
        let members: Vec<Member> =
            agents.iter().map(|agent| Member { name: &agent.host.name, cpus: &agent.host.cpus }).collect();
        let parts = match self.beside.as_slice() {
            [] => self.divided(load, &members)?,
            _ => repeat(load, &self.asked(load), &members),
        };
        let mut generators = Generators::start(parts, &mut |part| {
            let agent = agents.iter().find(|agent| agent.host.name == part.host);
            let log = self.dir.join(format!("{}.log", part.name));
            agent.expect("it is one of the members").role("load", &part.spec, &part.spec.cpus, &log)
        })?;
        let mut sampling = Sampling::start(context, server, &generators.pids())?;
        let began = measure::clock::wall() + context.start_delay();
        let meter = sampling.meter(began + load.warmup, load.duration.unwrap_or(load::LONGEST))?;
        generators.start_at(began)?;
        let mut series = Vec::new();
        while !generators.are_done() {
            if context.stop.load(Ordering::Relaxed) {
                generators.stop();
            }
            while let Some((second, values)) = generators.second()? {
                let second = second as u32;
                series.extend(crate::sampling::rows(second, &values));
                if context.experiment.sampling {
                    series.extend(sampling.rows(second)?);
                }
                tell(&values);
            }
            server.alive()?;
        }
        let metered = meter.end()?;
        let results = generators.results();
        let (each, result) = if self.beside.is_empty() { generated(results) } else { answered(results) };
        // A capture has its own mix of transports, and servers of a distribution ask each other.
        let alone = self.spec.distribution.is_none();
        let arrived = metered.arrived.filter(|_| self.traffic.trace.is_none());
        let machine = Machine::new(metered, (result.duration_s * 1e9) as Nanos);
        let losses = machine.explain(&result, allowed);
        let second = SecondCount::of_load(&result, arrived, self.traffic.transport, alone);
        Ok(Driven { result, each, began, series, drops: sampling.drops()?, machine, losses, second })
    }
}

/// The result of a load that one server had, and the answers per second at each generator, where there are several.
fn generated(results: Vec<Named<LoadResult>>) -> (Vec<Metric>, LoadResult) {
    let of_one =
        |r: &Named<LoadResult>| metrics::ANSWERED_BY_GENERATOR.of(&r.name, r.value.counts.answered_qps);
    let each = if results.len() > 1 { results.iter().map(of_one).collect() } else { Vec::new() };
    (each, LoadResult::merge(results))
}

/// The result of the first of several servers that had the same load; the answers per second of each and of all, and the octets of
/// these. A generator that was not in order spoils it, whichever it was: the load beside is a part of what was asked for.
fn answered(results: Vec<Named<LoadResult>>) -> (Vec<Metric>, LoadResult) {
    let of_one =
        |r: &Named<LoadResult>| metrics::ANSWERED_BY_SECONDARY.of(&r.name, r.value.counts.answered_qps);
    let mut each: Vec<Metric> = results.iter().map(of_one).collect();
    let measured = results.first().map(|first| first.value.clone()).unwrap_or_default();
    let all = LoadResult::merge(results);
    each.push(metrics::ALL_ANSWERED_QPS.of(all.counts.answered_qps));
    if all.duration_s > 0.0 {
        let bits = 8.0 * all.counts.bytes.received as f64;
        each.push(metrics::ALL_ANSWER_RATE.of(bits / 1e6 / all.duration_s));
    }
    (each, LoadResult { validity: all.validity, ..measured })
}

pub fn take(into: &mut Outcome, from: Outcome) {
    into.metrics.extend(from.metrics);
    into.histograms.extend(from.histograms);
    into.validity.merge(from.validity);
}
