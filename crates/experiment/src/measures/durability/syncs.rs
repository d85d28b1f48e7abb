//! Does each answer follow a sync that covers it? A trace of the server; and its rate beside the disk's own syncs.

use super::{send, stream};
use crate::measures::{Measurement, Part, Run, ZoneChanges};
use crate::replication::fleet::Fleet;
use crate::run_context;
use crate::system_under_test::SystemUnderTest;
use crate::{Error, RunEvent};
use agent::Server;
use measure::clock::SECOND;
use measure::metrics::{self, Definition};
use measure::{Named, Nanos, Pace, Reason, params};
use rack::syncs::{self, Answer, Calibration, Report, Scope, SyncVerdict};
use rack::{Local, Substitute};
use results::TrialRecord;
use serde::Serialize;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;
use update::send::{SendResult, SendSpec};

/// Updates for each second of the timed part: more than a server answers one after the other.
const TIMED: u64 = 20_000;

/// How long strace may take to end after its server.
const SETTLE: Duration = Duration::from_secs(60);

/// How many answers that are not covered are kept.
const EXAMPLES: usize = 10;

/// How much of a trace's line is kept as evidence.
const WIDTH: usize = 300;

/// How many lines of it.
const LINES: usize = 200;

/// The parts of a trace that are written to `syncs.json`.
#[derive(Serialize)]
struct Kept<'a> {
    #[serde(flatten)]
    report: &'a Report,
    not_covered_examples: Vec<Answer>,
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
        let before = syncs::calibrate(self.dir, syncs::Way::Fdatasync, calibrate, 1)?;
        let mut server = Server::start(context.server, self.spec, &folder)?;
        record.add_param(params::VERSION, server.version());
        let took = server.ready(&self.zone.probe, run_context::patience(context.experiment, self.zone))?;
        tell(RunEvent::Ready { seconds: took.as_secs_f64() });
        stream::write_additions(&file, &self.zone.origin, 0, TIMED * timed.div_ceil(SECOND))?;
        let spec = fleet.sending(file.clone(), Pace::Closed { window: 1 });
        let spec = SendSpec { duration: Some(timed), ..spec };
        let result = send(&context.generators[0].host, &spec, |_| {}, context.stop)?;
        fs::remove_file(&file).map_err(Error::io(&file))?;
        server.alive()?;
        server.stop()?;
        let after = syncs::calibrate(self.dir, syncs::Way::Fdatasync, calibrate, 1)?;
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
                format!("{} is in memory (tmpfs): its syncs say nothing of a disk", self.dir.display()),
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
        let (folder, file) = (self.dir.join("traced"), self.dir.join("updates.txt"));
        // The program is also asked for its version, and perhaps to check its configuration: a trace each, the last of the server.
        let starts = Arc::new(AtomicU32::new(0));
        let dir = self.dir.to_owned();
        let trace = move |number: u32| dir.join(format!("trace-{number}"));
        let with = {
            let (starts, trace) = (starts.clone(), trace.clone());
            move |cmd: &rack::Cmd| syncs::traced(cmd, &trace(starts.fetch_add(1, Ordering::Relaxed) + 1))
        };
        let program = self
            .spec
            .program
            .clone()
            .unwrap_or_else(|| server::driver(self.spec.kind).facts().program.into());
        let program = program.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let launcher = Substitute { launcher: Local, program, with };
        let mut accepted = 0;
        let scope;
        {
            let mut server = server::start_heeding(
                Some(context.stop.clone()),
                launcher,
                &context.server.host,
                self.spec,
                &folder,
            )?;
            server.ready(&self.zone.probe, 3 * run_context::patience(context.experiment, self.zone))?;
            // Log files need not be durable.
            let logs = vec![server.log_path(), server.dir().join("output.log")];
            scope = Scope { folders: vec![server.dir().to_owned()], except: logs };
            for (part, window) in [(0, 1), (1, d.window)] {
                stream::write_additions(&file, &self.zone.origin, part * d.updates, d.updates)?;
                let spec = fleet.sending(file.clone(), Pace::Closed { window });
                let result = send(&context.generators[0].host, &spec, |_| {}, &AtomicBool::new(false))?;
                accepted += result.accepted;
                context.goes_on()?;
            }
            server.alive()?;
            server.stop()?;
        }
        fs::remove_file(&file).map_err(Error::io(&file))?;
        let last = starts.load(Ordering::Relaxed);
        let trace_file = trace(last);
        syncs::settle(&trace_file, SETTLE)?;
        let mut examples = Vec::new();
        let report = syncs::analyse(&trace_file, &scope, |answer| {
            if examples.len() < EXAMPLES
                && !matches!(answer.verdict, SyncVerdict::Covered | SyncVerdict::Refused)
            {
                examples.push(answer);
            }
        })?;
        if let Some(first) = examples.first() {
            evidence(&trace_file, first.lines, &self.dir.join("not-covered.txt"))?;
        }
        for trace_file in (1..=last).map(trace).filter(|path| path.exists()) {
            fs::remove_file(&trace_file).map_err(Error::io(&trace_file))?;
        }
        let path = self.dir.join("syncs.json");
        let kept = Kept { report: &report, not_covered_examples: examples };
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

/// Writes the trace's lines between two, shortened: from the update to its answer.
fn evidence(trace: &Path, (from, to): (u64, u64), path: &Path) -> Result<(), Error> {
    let copy = || -> std::io::Result<()> {
        let mut out = File::create(path)?;
        let skip = from.saturating_sub(1) as usize;
        let lines = BufReader::new(File::open(trace)?).split(b'\n').skip(skip);
        for line in lines.take((to.saturating_sub(from) as usize + 1).min(LINES)) {
            let line = line?;
            out.write_all(&line[..line.len().min(WIDTH)])?;
            out.write_all(if line.len() > WIDTH { b"...\n" } else { b"\n" })?;
        }
        Ok(())
    };
    copy().map_err(Error::io(path))
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

    #[test]
    fn evidence_is_the_lines_between() {
        let folder = tempfile::tempdir().unwrap();
        let [trace, path] = ["trace", "kept"].map(|name| folder.path().join(name));
        let long = "x".repeat(2 * WIDTH);
        std::fs::write(&trace, format!("one\ntwo\n{long}\nfour\nfive\n")).unwrap();
        evidence(&trace, (2, 4), &path).unwrap();
        let kept = std::fs::read_to_string(&path).unwrap();
        assert_eq!(kept, format!("two\n{}...\nfour\n", "x".repeat(WIDTH)));
    }
}
