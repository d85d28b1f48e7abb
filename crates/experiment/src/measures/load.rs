//! Starting and reloading, watched by queries (RZAIA, chapter 4).
//!
//! A generator asks from before the start on. What was answered is counted by the second, so a phase's share is of the
//! seconds that it touches.

use super::{Measurement, Part, Run, ZoneChanges, changed_zone};
use crate::meter::{AtWork, reject_disturbed};
use crate::replication::running_updates;
use crate::run_context::{self, RunContext};
use crate::second_count::Counting;
use crate::system_under_test::SystemUnderTest;
use crate::{Error, RunEvent};
use ::load::LoadResult;
use agent::{Agent, Server};
use measure::clock::{self, SECOND};
use measure::metrics::{self, Phase};
use measure::{Arrivals, Definition, Event, Metric, Nanos, Pace, Reason, params, series};
use rack::Role;
use results::TrialRecord;
use serde_json::Value;
use server::{ServerSpec, ZoneRef};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How long queries go on before the start, between loading and reloading, and after it: more than two seconds, so that
/// whole ones are in it, and what was lost is known.
const PAUSE: Duration = Duration::from_millis(2_200);

/// A query that waited for longer was not answered.
const DEADLINE: Nanos = SECOND;

/// How often the generator's thread looks whether it is to end.
const LOOK: Duration = Duration::from_millis(50);

/// How long the generator may take to tell its last second.
const LAST_WORDS: Duration = Duration::from_secs(10);

/// The begin and end of a phase, monotonic.
type Span = (Nanos, Nanos);

pub const MEASUREMENT: Measurement = Measurement {
    part: Part::Alone,
    changes: ZoneChanges::None,
    has_variants: false,
    params: |e, _| vec![(params::RATE, e.load.rate.to_string())],
    seconds: |_, _, of| 4.0 + of.start,
    known_by: Some((metrics::SERVER_READY, |precision| precision.rate)),
    // Loading is watched from before the start, and changes the zone.
    run: Run::Start(|sut, record, tell| sut.loading(record, tell)),
};

impl SystemUnderTest<'_> {
    /// Start, first right answer, reload of the changed zone, right answer.
    fn loading(&self, record: &mut TrialRecord, tell: &mut dyn FnMut(RunEvent)) -> Result<(), Error> {
        let (context, e) = (self.context, self.context.experiment);
        // The zone's file is to change, and other trials have it too.
        let file = self.dir.join("served.zone");
        std::fs::hard_link(&self.zone.file, &file)
            .or_else(|_| std::fs::copy(&self.zone.file, &file).map(drop))
            .map_err(Error::io(&file))?;
        let spec = ServerSpec {
            zone: ZoneRef { file: file.clone(), ..self.spec.zone.clone() },
            ..self.spec.clone()
        };
        let patience = context.patience(self.zone);
        let pace = Pace::Open(Arrivals::Fixed { rate: e.load.rate });
        let mut load = self.load(pace, (2 * patience + 4 * PAUSE).as_nanos() as Nanos)?;
        load.deadline = DEADLINE;
        let log = self.dir.join("generator.log");
        let mut role = context.generators[0].role("load", &load, &load.cpus, &log)?;
        role.ready(Duration::from_secs(60))?;
        let generator = (&context.generators[0], role.pid());
        let counted = Counting::queries(e, context.server)?;
        let delay = context.start_delay();
        let began = clock::now() + delay;
        role.start_at(clock::wall() + delay)?;
        let (finish, over) = (AtomicBool::new(false), Arc::new(AtomicBool::new(false)));
        // Without its generator the wait would show nothing, so all of it ends with the generator.
        let server = context.server.heeding(&over);
        let context = &RunContext { stop: &over, server: &server, ..*context };
        let sut = SystemUnderTest { context, traffic: self.traffic.clone(), beside: Vec::new(), ..*self };
        let (watched, seconds) = std::thread::scope(|scope| {
            let asking = scope.spawn(|| seconds_of(role, &finish, self.context.stop, &over));
            let watched = context
                .pause(PAUSE)
                .and_then(|()| sut.watched(&spec, generator, patience, record, tell))
                .and_then(|phases| context.pause(PAUSE).map(|()| phases));
            finish.store(true, Ordering::Relaxed);
            (watched, asking.join().expect("it returns its errors"))
        });
        let _ = std::fs::remove_file(&file);
        self.context.goes_on()?;
        // Without a generator the server was left alone: that explains the rest.
        let (seconds, result) = seconds?;
        let phases = watched?;
        counted.end_of_queries(&result.counts, true, &mut record.outcome)?;
        for (second, values) in &seconds {
            record.series.extend(crate::sampling::rows(*second, values));
        }
        for (phase, span) in phases {
            record.outcome.metrics.extend(figures(phase, span, began, &seconds));
        }
        Ok(())
    }

    /// The server's life while it is watched; the phases, with their times.
    fn watched(
        &self,
        spec: &ServerSpec,
        generator: (&Agent, u32),
        patience: Duration,
        record: &mut TrialRecord,
        tell: &mut dyn FnMut(RunEvent),
    ) -> Result<Vec<(Phase, Span)>, Error> {
        let (context, e) = (self.context, self.context.experiment);
        let dir = self.dir.join("server");
        let started = clock::now();
        let mut server = Server::start(context.server, spec, &dir)?;
        record.add_param(params::VERSION, server.version());
        let at_work = AtWork::watch(&server, Some(generator))?;
        let (took, peak) = server.while_watching(|server| server.ready(&self.zone.probe, patience))?;
        let took = took?;
        let mut phases = vec![(metrics::LOADING, (started, clock::now()))];
        reject_disturbed(at_work, "start", &mut record.outcome.validity)?;
        tell(RunEvent::Ready { seconds: took.as_secs_f64() });
        let metrics = &mut record.outcome.metrics;
        metrics.push(metrics::SERVER_READY.of(took.as_secs_f64()));
        metrics.push(metrics::LOADING_PEAK_PSS.of(peak as f64));
        context.pause(PAUSE)?;
        phases.push((metrics::SERVED, (phases[0].1.1, clock::now())));
        metrics.extend(server.memory()?);
        if e.load.reload && server::driver(spec.kind).facts().can.reload {
            let changed = self.dir.join("changed.zone");
            changed_zone::write(&self.zone.file, &changed)?;
            std::fs::rename(&changed, &spec.zone.file).map_err(Error::io(&changed))?;
            let probe = zone::probe(&spec.zone.file)?;
            let at_work = AtWork::watch(&server, Some(generator))?;
            let asked = clock::now();
            let (reloaded, peak) = server.while_watching(|server| {
                server.reload()?;
                server.ready(&probe, patience)
            })?;
            phases.push((metrics::RELOADING, (asked, clock::now())));
            reject_disturbed(at_work, "reload", &mut record.outcome.validity)?;
            record.outcome.metrics.push(metrics::RELOADING_PEAK_PSS.of(peak as f64));
            match reloaded {
                Ok(took) => {
                    tell(RunEvent::Second { text: format!("reloaded after {:.2} s", took.as_secs_f64()) });
                    record.outcome.metrics.push(metrics::RELOAD_SECONDS.of(took.as_secs_f64()));
                }
                // The table's "unable to reload" is a result, not a failure of ours.
                Err(why) => record.outcome.validity.warn(Reason::new("unable_to_reload", why.to_string())),
            }
            // Queries of the last second are to find it there.
            context.pause(PAUSE)?;
        }
        record.outcome.metrics.extend(run_context::end(context, server, spec, Ok(()))?);
        Ok(phases)
    }
}

/// Takes the generator's seconds until it is to finish, and its result. Sets `over` as soon as it is gone, or the run is to stop.
fn seconds_of(
    mut role: Role,
    finish: &AtomicBool,
    stop: &AtomicBool,
    over: &AtomicBool,
) -> Result<(Vec<(u32, Value)>, LoadResult), Error> {
    let (mut seconds, mut until) = (Vec::new(), None);
    loop {
        if stop.load(Ordering::Relaxed) {
            over.store(true, Ordering::Relaxed);
        }
        if until.is_none() && finish.load(Ordering::Relaxed) {
            role.stop();
            until = Some(Instant::now() + LAST_WORDS);
        }
        if until.is_some_and(|until| Instant::now() > until) {
            return Err(Error::Machine("the generator does not end".into()));
        }
        match role.next(LOOK) {
            Ok(Some(Event::Progress { second, values })) => seconds.push((second as u32, values)),
            // Also where the server took so long that its time was over.
            Ok(Some(Event::Done { result })) => return Ok((seconds, running_updates::read(result)?)),
            Ok(_) => {}
            Err(gone) => {
                over.store(true, Ordering::Relaxed);
                return Err(gone.into());
            }
        }
    }
}

/// How the queries of a phase were answered, over the seconds that it touches; of the time between, of its whole seconds. A query is
/// given up in the second after the one in which it was sent: that is the deadline. SERVFAIL and REFUSED are no answers here:
/// a server that loads may say so to everything.
fn figures(phase: Phase, (from, to): Span, began: Nanos, seconds: &[(u32, Value)]) -> Vec<Metric> {
    let of_phase = |second: u32| {
        let end = began + u64::from(second) * SECOND;
        if phase == metrics::SERVED {
            end <= to && end >= from + SECOND
        } else {
            end > from && end < to + SECOND
        }
    };
    let value_of = |values: &Value, figure: Definition| figure.among(values).unwrap_or(0.0);
    let (mut offered, mut answered, mut failed, mut lost, mut slowest) = (0.0, 0.0, 0.0, 0.0, 0.0f64);
    let (mut silent, mut longest) = (0u32, 0u32);
    for (second, values) in seconds {
        if of_phase(second - 1) {
            lost += value_of(values, metrics::LOST);
        }
        if of_phase(*second) {
            let here = value_of(values, metrics::ANSWERED_QPS) - value_of(values, series::FAILED);
            failed += value_of(values, series::FAILED);
            offered += value_of(values, metrics::OFFERED_QPS);
            answered += here;
            slowest = slowest.max(value_of(values, metrics::LATENCY.p99));
            silent = if here == 0.0 { silent + 1 } else { 0 };
            longest = longest.max(silent);
        }
    }
    let mut all = vec![phase.silent.of(f64::from(longest))];
    if offered > 0.0 {
        let share = |part: f64| 100.0 * (part / offered).clamp(0.0, 1.0);
        all.push(phase.answered_share.of(share(offered - lost - failed)));
        all.push(phase.failed_share.of(share(failed)));
    }
    if answered > 0.0 {
        all.push(phase.latency_p99_worst.of(slowest));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_phase_has_the_seconds_that_it_touches() {
        let second = |n: u32, (answered, failed): (f64, f64), p99: f64, lost: u32| {
            let rates = json!({ "offered_qps": 100.0, "answered_qps": answered, "failed": failed,
                "latency_p99": p99, "lost": lost });
            (n, rates)
        };
        let seconds = [
            second(1, (0.0, 0.0), 0.0, 0),
            second(2, (10.0, 10.0), 40.0, 100),
            second(3, (50.0, 0.0), 900.0, 90),
            second(4, (100.0, 0.0), 100.0, 40),
            second(5, (100.0, 0.0), 90.0, 7),
        ];
        let times = |from: u64, to: u64| (from * SECOND / 2, to * SECOND / 2);
        let value_of = |got: &[Metric], name: &str| got.iter().find(|m| m.name == name).unwrap().value;
        // Two and a half seconds from the middle of the first on.
        let got = figures(metrics::LOADING, times(21, 25), 10 * SECOND, &seconds);
        assert_eq!(
            (value_of(&got, "loading_silent"), value_of(&got, "loading_latency_p99_worst")),
            (2.0, 900.0)
        );
        assert!((value_of(&got, "loading_answered_share") - 20.0).abs() < 1e-9, "{got:?}");
        assert!(
            (value_of(&got, "loading_failed_share") - 10.0 / 3.0).abs() < 1e-9,
            "SERVFAIL is no answer: {got:?}"
        );
        // From the middle of the third on, whole seconds alone.
        let got = figures(metrics::SERVED, times(25, 30), 10 * SECOND, &seconds);
        assert_eq!(
            (value_of(&got, "served_answered_share"), value_of(&got, "served_latency_p99_worst")),
            (96.5, 100.0)
        );
    }
}
