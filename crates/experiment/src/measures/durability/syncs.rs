//! Does each answer follow a sync that covers it? A trace of the server; and its rate beside the disk's own syncs.

use crate::measures::{Measurement, Part, Run, ZoneChanges};
use crate::replication::fleet::Fleet;
use crate::system_under_test::SystemUnderTest;
use crate::{Error, RunEvent};
use agent::{Judged, Server};
use measure::clock::SECOND;
use measure::metrics::{self, Definition};
use measure::{Named, Nanos, Pace, Reason, params};
use rack::syncs::{Answer, Calibration, Report, SyncVerdict};
use results::TrialRecord;
use serde::Serialize;
use std::fs;
use std::time::Duration;
use update::additions;
use update::send::{SendResult, SendSpec};

/// Updates for each second of the timed part: more than a server answers one after the other.
const TIMED: u64 = 20_000;

/// The parts of a trace that are written to `syncs.json`.
#[derive(Serialize)]
struct Kept<'a> {
    #[serde(flatten)]
    report: &'a Report,
    not_covered_examples: &'a [Answer],
}

pub const MEASUREMENT: Measurement = Measurement {
    part: Part::LonePrimary,
    changes: ZoneChanges::None,
    has_variants: true,
    params: |e, _| vec![(params::COUNT, e.durability.updates.to_string())],
    seconds: |e, _, of| {
        let d = &e.durability;
        of.start + d.timed.as_seconds() + 2.0 * d.calibrate.as_seconds() + d.updates as f64 / 50.0
    },
    known_by: Some((metrics::ACCEPTED_UPS.within(metrics::Scope::Updates), |precision| precision.rate)),
    run: Run::StartAll(|sut, fleet, record, tell| sut.syncs(fleet, record, tell)),
};

impl SystemUnderTest<'_> {
    /// The rate first, without a trace, between two looks at the disk; then a fresh server under strace.
    fn syncs(
        &self,
        fleet: &Fleet<'_>,
        record: &mut TrialRecord,
        tell: &mut dyn FnMut(RunEvent),
    ) -> Result<(), Error> {
        let e = self.context.experiment;
        let (timed, calibrate) = (e.durability.timed.0, e.durability.calibrate.into());
        self.beside_the_disk(fleet, timed, calibrate, record, tell)?;
        self.context.goes_on()?;
        self.traced(fleet, record, tell)
    }

    /// Updates one at a time, each sent when the one before is acknowledged, and the disk's own syncs right before and after.
    fn beside_the_disk(
        &self,
        fleet: &Fleet<'_>,
        timed: Nanos,
        calibrate: Duration,
        record: &mut TrialRecord,
        tell: &mut dyn FnMut(RunEvent),
    ) -> Result<(), Error> {
        let (context, folder) = (self.context, self.dir.join("server"));
        let file = self.dir.join("updates.txt");
        let before = context.server.count_syncs(self.dir, calibrate)?;
        let mut server = Server::start(context.server, self.spec, &folder)?;
        record.add_param(params::VERSION, server.version());
        let took = server.ready(&self.zone.probe, context.patience(self.zone))?;
        tell(RunEvent::Ready { seconds: took.as_secs_f64() });
        additions::write(&file, &self.zone.origin, 0, TIMED * timed.div_ceil(SECOND))?;
        let spec = fleet.sending(file.clone(), Pace::Closed { window: 1 });
        let spec = SendSpec { duration: Some(timed), ..spec };
        let result = self.send(&spec)?;
        context.goes_on()?;
        fs::remove_file(&file).map_err(Error::io(&file))?;
        server.alive()?;
        server.stop()?;
        let after = context.server.count_syncs(self.dir, calibrate)?;
        tell(RunEvent::Second {
            text: format!(
                "{:.0} updates acknowledged/s, the disk syncs {:.0} and {:.0} times a second",
                result.accepted_ups,
                before.rate(),
                after.rate()
            ),
        });
        disk_figures(&before, &after, &result, record);
        if before.in_memory {
            record.outcome.validity.warn(Reason::new(
                "disk_in_memory",
                "the server's files are in memory (tmpfs): its syncs say nothing of a disk",
            ));
        }
        Ok(())
    }

    /// A fresh server under strace, updates one at a time and then many at a time, and what the trace says.
    fn traced(
        &self,
        fleet: &Fleet<'_>,
        record: &mut TrialRecord,
        tell: &mut dyn FnMut(RunEvent),
    ) -> Result<(), Error> {
        let (context, d) = (self.context, &self.context.experiment.durability);
        let [folder, file, trace] = ["traced", "updates.txt", "trace"].map(|name| self.dir.join(name));
        let mut server = Server::start_traced(context.server, self.spec, &folder, &trace)?;
        server.ready(&self.zone.probe, 3 * context.patience(self.zone))?;
        let scope = server.durable()?;
        let mut accepted = 0;
        for (part, window) in [(0, 1), (1, d.window)] {
            additions::write(&file, &self.zone.origin, part * d.updates, d.updates)?;
            accepted += self.send(&fleet.sending(file.clone(), Pace::Closed { window }))?.accepted;
            context.goes_on()?;
        }
        server.alive()?;
        server.stop()?;
        fs::remove_file(&file).map_err(Error::io(&file))?;
        let Judged { report, not_covered, evidence } = context.server.judge_syncs(&trace, scope)?;
        if !evidence.is_empty() {
            let path = self.dir.join("not-covered.txt");
            fs::write(&path, evidence).map_err(Error::io(&path))?;
        }
        let path = self.dir.join("syncs.json");
        let kept = Kept { report: &report, not_covered_examples: &not_covered };
        let text = serde_json::to_string_pretty(&kept).map_err(|e| Error::Machine(e.to_string()))?;
        fs::write(&path, text).map_err(Error::io(&path))?;
        let checked = report.covered + report.not_covered + report.nothing_written;
        tell(RunEvent::Second {
            text: format!("{} of {checked} traced answers follow a sync that covers them", report.covered),
        });
        trace_figures(&report, accepted, record);
        Ok(())
    }
}

/// How many times a rate is above what the disk synced, where it is beyond both: of one alone the disk may have been slow in
/// another second. 0: it is not.
fn beyond(before: &Calibration, after: &Calibration, rate: f64) -> f64 {
    before.beyond(rate).zip(after.beyond(rate)).map_or(0.0, |(a, b)| a.min(b))
}

/// The rate and the disk.
fn disk_figures(before: &Calibration, after: &Calibration, result: &SendResult, record: &mut TrialRecord) {
    let outcome = &mut record.outcome;
    let mut add = |metric: Definition, value: f64| outcome.metrics.push(metric.of(value));
    let rate = result.accepted_ups;
    add(metrics::ACCEPTED_UPS.within(metrics::Scope::Updates), rate);
    add(metrics::ACCEPTED.within(metrics::Scope::Updates), result.accepted as f64);
    add(metrics::LATENCY.p50.within(metrics::Scope::Updates), result.latency_us.p50);
    add(metrics::LATENCY.p99.within(metrics::Scope::Updates), result.latency_us.p99);
    add(metrics::DISK_SYNCS_BEFORE, before.rate());
    add(metrics::DISK_SYNCS_AFTER, after.rate());
    add(metrics::UPDATES_PER_DISK_SYNC, rate / before.rate().max(after.rate()).max(f64::MIN_POSITIVE));
    add(metrics::BEYOND_DISK, beyond(before, after, rate));
    let mut latency = before.latency.clone();
    latency.merge(&after.latency);
    add(metrics::DISK_SYNC_P50, latency.quantile(0.5) as f64 / 1e3);
    add(metrics::DISK_SYNC_P99, latency.quantile(0.99) as f64 / 1e3);
    outcome.histograms.push(Named::new("disk_sync", latency));
    if result.accepted == 0 {
        let text = format!("no update was acknowledged with NOERROR: {:?}", result.rcodes);
        outcome.validity.reject(Reason::new("nothing_acknowledged", text));
    }
}

/// Records the trace's figures, and rejects the trial where a part of the trace is missing.
fn trace_figures(report: &Report, accepted: u64, record: &mut TrialRecord) {
    let outcome = &mut record.outcome;
    let mut add = |metric: Definition, value: f64| outcome.metrics.push(metric.of(value));
    let checked = report.covered + report.not_covered + report.nothing_written;
    add(metrics::TRACED, checked as f64);
    add(metrics::TRACED_COVERED, report.covered as f64);
    add(metrics::TRACED_NOT_COVERED, report.not_covered as f64);
    add(metrics::TRACED_NOTHING_WRITTEN, report.nothing_written as f64);
    add(metrics::TRACED_REFUSED, report.refused as f64);
    add(metrics::TRACED_UNANSWERED, report.unanswered as f64);
    add(metrics::TRACED_BY_ORDER, report.by_order as f64);
    add(metrics::TRACED_SYNCS, report.syncs as f64);
    add(metrics::TRACED_SYNCS_FAILED, report.syncs_failed as f64);
    if let Some(per) = report.syncs_per_answer() {
        add(metrics::SYNCS_PER_ANSWER, per);
    }
    outcome.histograms.push(Named::new("traced_sync", report.sync_latency.clone()));
    if let Some(Answer { verdict: SyncVerdict::NotCovered { file, missing }, name, .. }) =
        &report.first_not_covered
    {
        let file = file.file_name().unwrap_or_default().to_string_lossy();
        let what = serde_json::to_value(missing).ok().and_then(|v| Some(v.as_str()?.to_owned()));
        let text = format!("{name}: {file} lacked {}", what.unwrap_or_default());
        record.add_param(params::FIRST_NOT_COVERED, text);
    }
    let validity = &mut record.outcome.validity;
    if checked < accepted {
        let text = format!("the trace has {checked} of the {accepted} answers that acknowledged an update");
        validity.reject(Reason::new("trace_incomplete", text));
    }
    let unseen = report.foreign_lines + report.cut_off;
    if unseen > 0 || !report.blind.is_empty() {
        let text = format!(
            "{unseen} lines of the trace were not understood or cut off; {}",
            report.blind.join("; ")
        );
        validity.reject(Reason::new("trace_blind", text));
    }
    if report.by_order > 0 {
        let text = format!(
            "{} answers were checked by the first write after the update, which may be another's: no write held their names",
            report.by_order
        );
        validity.warn(Reason::new("judged_by_order", text));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(covered: u64, not_covered: u64) -> Report {
        Report { covered, not_covered, ..Report::default() }
    }

    #[test]
    fn a_trace_with_a_hole_is_invalid_and_a_dishonest_server_is_not() {
        let mut record = TrialRecord::default();
        trace_figures(&report(0, 60), 60, &mut record);
        assert!(record.outcome.validity.valid);
        assert_eq!(record.outcome.metric(metrics::TRACED_NOT_COVERED), Some(60.0));
        trace_figures(&report(50, 0), 60, &mut record);
        assert_eq!(record.outcome.validity.reasons[0].code, "trace_incomplete");
        let mut blind = TrialRecord::default();
        trace_figures(&Report { foreign_lines: 1, ..report(60, 0) }, 60, &mut blind);
        assert_eq!(blind.outcome.validity.reasons[0].code, "trace_blind");
    }

    #[test]
    fn a_rate_beyond_the_disk_is_beyond_it_before_and_after() {
        let disk = |syncs| Calibration {
            threads: 1,
            syncs,
            elapsed: SECOND,
            latency: measure::Histogram::default(),
            in_memory: false,
        };
        // As in ISC-TN-2008-1: 471 updates/s on a disk that does 93.
        assert!((beyond(&disk(93), &disk(90), 471.0) - 471.0 / 93.0).abs() < 0.01);
        assert_eq!(beyond(&disk(93), &disk(400), 471.0), 0.0);
        assert_eq!(beyond(&disk(93), &disk(93), 90.0), 0.0);
    }
}
