//! One trial: a fresh server, ready, measured, stopped; and what came of it.

use crate::planned::ZonePlan;
use crate::replication::fleet::Fleet;
use crate::replication::paths;
use crate::run_context::{self, RunContext};
use crate::system_under_test::SystemUnderTest;
use crate::zones::Prepared;
use crate::{Error, Experiment, Measure, RunEvent, Trial, family_spec, measures, resources};
use measure::clock::{SECOND, Wall};
use measure::{Parameter, Reason, metrics, params};
use results::TrialRecord;
use std::path::Path;

/// Does one trial. Whatever goes wrong with server or generator becomes the record's error.
pub fn run(
    context: &RunContext,
    trial: &Trial,
    zone: &Prepared,
    dir: &Path,
    tell: &mut dyn FnMut(RunEvent),
) -> TrialRecord {
    let mut record = new_record(context.experiment, trial, Some(zone));
    let clock = Wall::read();
    if let Err(error) = made(context, trial, zone, dir, &mut record, tell) {
        record.error = Some(error.to_string());
    }
    clock_stepped(clock.drift(Wall::read()), trial.measure, &mut record);
    record
}

/// Gives the server its CPUs, opens the paths of a distribution, and measures.
fn made(
    context: &RunContext,
    trial: &Trial,
    zone: &Prepared,
    dir: &Path,
    record: &mut TrialRecord,
    tell: &mut dyn FnMut(RunEvent),
) -> Result<(), Error> {
    let on_fewer = trial.workers.map(|cpus| context.server_on(cpus)).transpose()?;
    let context = &RunContext { server: on_fewer.as_ref().unwrap_or(context.server), ..*context };
    let mut measured = |record: &mut TrialRecord| measure(context, trial, zone, dir, record, &mut *tell);
    match measures::is_distributed(context.experiment, trial.measure, trial.variant.as_deref()) {
        true => paths::around(context, trial, dir, record, &mut measured),
        false => measured(record),
    }
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
    TrialRecord { skipped: Some(reason), ..new_record(e, trial, None) }
}

/// The parameters that a trial of a plan will have, as far as the plan says them.
pub fn planned_params(e: &Experiment, trial: &Trial) -> Vec<(Parameter, String)> {
    params(e, trial, None)
}

/// A record that has the fixed parameters of a trial alone.
fn new_record(e: &Experiment, trial: &Trial, zone: Option<&Prepared>) -> TrialRecord {
    let mut record = TrialRecord { id: trial.id, repeat: trial.repeat, ..TrialRecord::default() };
    for (parameter, value) in params(e, trial, zone) {
        record.add_param(parameter, value);
    }
    let signing = zone.and_then(|zone| zone.signing_seconds);
    record.outcome.metrics.extend(signing.map(|seconds| metrics::ZONE_SIGNING_SECONDS.of(seconds)));
    record
}

/// The fixed parameters of a trial, for tables: the key of its cell. Without a zone it is known by its plan.
fn params(e: &Experiment, trial: &Trial, zone: Option<&Prepared>) -> Vec<(Parameter, String)> {
    let family = match &trial.zone {
        ZonePlan::Family { family, .. } => family.clone(),
        ZonePlan::File(_) if e.zone.sign_file => format!("{}+signed", trial.zone.label()),
        ZonePlan::File(_) | ZonePlan::Scenario(_) => trial.zone.label(),
    };
    let kind = e.kind(&trial.server).map_or_else(|_| String::new(), |kind| kind.name().into());
    let mut params = vec![
        (params::EXPERIMENT, e.name.clone()),
        (params::MEASURE, trial.measure.word().into()),
        (params::SERVER, trial.server.clone()),
        (params::KIND, kind),
        (params::FAMILY, family),
    ];
    match (zone, &trial.zone) {
        (Some(zone), _) => {
            params.push((params::ZONE_SIZE, zone.probe.delegations.to_string()));
            params.push((params::ZONE_BYTES, zone.probe.bytes.to_string()));
            params.push((params::SIGNED, zone.signed.clone().unwrap_or_else(|| "no".into())));
        }
        (None, ZonePlan::Family { family, delegations }) => {
            // A slice has a part of them, and the zone of Nominet's test none.
            let made = resources::contents(e, &trial.zone).map_or(*delegations, |zone| zone.delegations);
            params.push((params::ZONE_SIZE, made.to_string()));
            let signed = if family_spec::is_signed(family) { e.zone.sign.clone() } else { "no".into() };
            params.push((params::SIGNED, signed));
        }
        (None, ZonePlan::File(_) | ZonePlan::Scenario(_)) => {}
    }
    if let ZonePlan::Scenario(name) = &trial.zone
        && let Some(scenario) = e.zone.scenarios.get(name)
    {
        params.push((params::ZONE_MADE, scenario.words(&e.zone)));
    }
    params.push((params::PUBLISHED, e.published.join(",")));
    params.extend(trial.workers.map(|workers| (params::WORKERS, workers.to_string())));
    let d = e.distribution_of(trial.variant.as_deref());
    if zone.is_some_and(|zone| zone.keys.is_some())
        && measures::is_distributed(e, trial.measure, trial.variant.as_deref())
    {
        let primary = d.primary.as_ref().unwrap_or(&trial.server);
        params.push((params::SIGNING, e.signing_of(d, primary).word().into()));
    }
    if d.secondaries > 0 && measures::is_distributed(e, trial.measure, trial.variant.as_deref()) {
        params.push((params::PRIMARY, d.primary.clone().unwrap_or_else(|| trial.server.clone())));
        params.push((params::SECONDARIES, d.secondaries.to_string()));
        let label = d.primary.as_ref().unwrap_or(&trial.server);
        params.extend(e.kind(label).ok().map(|kind| (params::PRIMARY_KIND, kind.name().to_owned())));
        params.push((params::TIMERS, d.timers.word().into()));
        params.extend(paths::params(d));
        params.extend(trial.updates.map(|rate| (params::UPDATES, rate.to_string())));
        params.extend(d.away.map(|away| (params::AWAY, away.to_string())));
    }
    if measures::of(trial.measure).takes_updates() {
        params.push((params::SYNCS, e.syncs_of(&trial.server, trial.variant.as_deref()).word().into()));
    }
    if trial.measure == Measure::Memory {
        return params;
    }
    let (traffic, udp_size) = e.traffic_of(trial.variant.as_deref());
    let file = traffic.queries.as_ref().or(traffic.trace.as_ref());
    params.push((params::TRAFFIC, file.map_or(traffic.profile.clone(), |file| file.display().to_string())));
    params.push((params::TRANSPORT, traffic.transport.to_string()));
    params.push((params::UDP_SIZE, udp_size.to_string()));
    if let Some(bytes) = e.receive_buffer_of(trial.variant.as_deref()) {
        params.push((params::RECEIVE_BUFFER, bytes.to_string()));
    }
    if measures::asks_all(e, trial.measure, trial.variant.as_deref()) {
        params.push((params::QUERIED, d.queried.word().into()));
    }
    params.push((params::GENERATORS, traffic.generators.to_string()));
    params.push((params::ADDRESSES, traffic.addresses.to_string()));
    params.extend(trial.variant.clone().map(|variant| (params::VARIANT, variant)));
    params.extend((measures::of(trial.measure).params)(e, trial));
    params
}

fn measure(
    context: &RunContext,
    trial: &Trial,
    zone: &Prepared,
    dir: &Path,
    record: &mut TrialRecord,
    tell: &mut dyn FnMut(RunEvent),
) -> Result<(), Error> {
    let (traffic, udp_size) = context.experiment.traffic_of(trial.variant.as_deref());
    let mut spec = run_context::server_spec(context, &context.server.host, &trial.server, zone)?;
    spec.udp_size = udp_size;
    if measures::of(trial.measure).takes_updates() {
        context.experiment.syncs_of(&trial.server, trial.variant.as_deref()).apply(&mut spec);
    }
    if spec.external.is_none() && !server::driver(spec.kind).facts().can.udp_cap {
        record.outcome.validity.warn(Reason::new(
            "no_udp_cap",
            format!(
                "{} does not cap its UDP answers: the {udp_size} octets asked for are without effect",
                spec.kind
            ),
        ));
    }
    let distributed = measures::is_distributed(context.experiment, trial.measure, trial.variant.as_deref());
    let fleet = distributed.then(|| Fleet::new(context, trial, zone, dir)).transpose()?;
    spec.distribution = fleet.as_ref().map(|fleet| fleet.measured(spec.kind));
    let all = measures::asks_all(context.experiment, trial.measure, trial.variant.as_deref());
    let beside = fleet.as_ref().filter(|_| all).map(Fleet::beside).unwrap_or_default();
    let sut = SystemUnderTest { context, spec: &spec, zone, traffic, beside, dir };
    measures::run(sut, trial, fleet.as_ref(), record, tell)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_step_is_told_once_and_spoils_what_a_generator_did_not_see() {
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
