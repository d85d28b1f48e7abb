//! The capacity with a window, and the knee, a search over rates (ISC 6.3.1, RFC 9971).

use super::{Measurement, Part, Run, ZoneChanges};
use crate::system_under_test::{Driven, SystemUnderTest, take};
use crate::{Error, RunEvent};
use agent::Server;
use load::check::CheckResult;
use load::search::{CapacityGoal, Goal, Offered, Search};
use load::{LoadResult, LoadSpec};
use measure::clock::SECOND;
use measure::metrics::{self, Scope};
use measure::units::grouped;
use measure::{Arrivals, Pace, params, series};
use results::{SeriesRow, TrialRecord};

/// Seconds that a load takes besides its warm-up and its length: the generator starts, and waits for late answers. A load with a window
/// has a quarter of its length as warm-up (`load::search::capacity`), one of the search a tenth (`load::search::drive`).
const LOAD_OVERHEAD: f64 = 0.25;

pub const MEASUREMENT: Measurement = Measurement {
    part: Part::Any,
    changes: ZoneChanges::AtRates { alone: false },
    has_variants: true,
    params: |e, _| {
        vec![
            (params::LOSS_GOAL, e.peak.loss.to_string()),
            (params::TRIAL_DURATION, e.peak.trial.to_string()),
            (params::DURATION_SUM, e.peak.duration_sum.to_string()),
            (params::BUDGET, e.peak.budget.to_string()),
            (params::DEADLINE, e.peak.deadline.to_string()),
        ]
    },
    seconds: |e, _, of| {
        let windows =
            f64::from(e.peak.window_loads) * (1.25 * e.peak.window_load.as_seconds() + LOAD_OVERHEAD);
        of.check(e) + windows + e.peak.budget.as_seconds() * (1.1 + LOAD_OVERHEAD / e.peak.trial.as_seconds())
    },
    known_by: Some((metrics::CAPACITY_QPS, |precision| precision.rate)),
    run: Run::Ready(|ready, record, tell| ready.sut.peak(&mut ready.server, record, tell)),
};

impl SystemUnderTest<'_> {
    /// ISC 6.3.1: the capacity with a window, and the knee by RFC 9971, a search over rates.
    fn peak(
        &self,
        server: &mut Server,
        record: &mut TrialRecord,
        tell: &mut dyn FnMut(RunEvent),
    ) -> Result<(), Error> {
        let e = self.context.experiment;
        let goal = Goal {
            loss_ratio: e.peak.loss,
            final_trial: e.peak.trial.0,
            duration_sum: e.peak.duration_sum.0,
            width: e.peak.width,
            ..Goal::default()
        };
        let capacity_goal =
            CapacityGoal { window: e.peak.window, load: e.peak.window_load.0, loads: e.peak.window_loads };
        let mut load = self.load(Pace::Open(Arrivals::Fixed { rate: 1.0 }), SECOND)?;
        load.deadline = e.peak.deadline.0;
        // Of the load that was measured last: datagrams dropped in the server's host, and each place by itself.
        let seen = std::cell::RefCell::new((0.0, Vec::new()));
        // The answers of the first load are compared with the zone: each time takes a pass over its file.
        let checked = std::cell::RefCell::new(None);
        // The queries of all loads, as the server's host counted them.
        let (arrived, contradicted) = (std::cell::RefCell::new(None), std::cell::RefCell::default());
        let mut measure = |load: &LoadSpec| -> Result<Offered, Error> {
            let first = checked.borrow().is_none().then(|| self.checked(load));
            let Driven { mut result, drops, machine, losses, second, .. } =
                self.drive(first.as_ref().unwrap_or(load), e.peak.loss, server, &mut |_| {})?;
            if first.is_some() {
                *checked.borrow_mut() = Some(result.checked.take());
            }
            let dropped =
                drops.iter().find(|m| m.name == metrics::HOST_DROPS.name("server")).map_or(0.0, |m| m.value);
            *seen.borrow_mut() = (dropped, losses.metrics());
            if let Some(count) = second {
                *arrived.borrow_mut().get_or_insert(0) += count.arrived;
                count.reject("queries", &mut contradicted.borrow_mut());
            }
            Ok(Offered { result, server_idle: machine.server_idle, disturbed: losses.disturbed })
        };
        let mut number = 0;
        let mut capacity = load::search::capacity(&load, &capacity_goal, &mut measure, &mut |seen, _| {
            number += 1;
            let why =
                seen.not_counted.as_ref().map_or(String::new(), |why| format!("; it does not count: {why}"));
            tell(RunEvent::Second {
                text: format!(
                    "window of {}: answered {}/s{why}",
                    capacity_goal.window,
                    grouped(seen.sustained_qps.round() as u64)
                ),
            });
            let counts = f64::from(u8::from(seen.not_counted.is_none()));
            let idle = seen.server_idle.map(|idle| series::WINDOW_SERVER_IDLE.of(100.0 * idle));
            let figures =
                [series::WINDOW_ANSWERED_QPS.of(seen.sustained_qps), series::WINDOW_COUNTS.of(counts)];
            record
                .series
                .extend(figures.into_iter().chain(idle).map(|metric| SeriesRow::new(number, metric)));
        })?;
        let mut search = Search::new(goal, e.peak.budget.0);
        if let Some(qps) = capacity.qps {
            // Above the knee at first: what is answered there leads to it, and is a part of the response curve.
            search = search.start(1.5 * qps);
        }
        let mut best: Option<LoadResult> = None;
        let mut found = load::search::drive(&load, search, &mut measure, &mut |n, trial, result| {
            let (dropped, ref losses) = *seen.borrow();
            tell(RunEvent::Second {
                text: format!(
                    "offered {}/s: answered {}/s, loss {:.3} %{}",
                    grouped(trial.rate.round() as u64),
                    grouped(result.counts.answered_qps.round() as u64),
                    trial.loss_ratio * 100.0,
                    match result.validity.reasons.first() {
                        _ if trial.disturbed => ", disturbed by the machine".to_owned(),
                        Some(reason) if !trial.valid => format!("; it does not count: {}", reason.text),
                        None if !trial.valid => "; it does not count: too little was sent".to_owned(),
                        _ => String::new(),
                    }
                ),
            });
            let latency = &result.latency_us;
            let figures = [
                metrics::OFFERED_QPS.within(Scope::Search).of(trial.rate),
                metrics::ANSWERED_QPS.within(Scope::Search).of(result.counts.answered_qps),
                metrics::LATENCY.p50.within(Scope::Search).of(latency.p50),
                metrics::LATENCY.p99.within(Scope::Search).of(latency.p99),
                metrics::LOSS_RATIO.within(Scope::Search).of(trial.loss_ratio),
                series::SEARCH_DURATION.of(trial.duration as f64 / SECOND as f64),
                series::SEARCH_SERVER_DROPS.of(dropped),
                series::SEARCH_VALID.of(f64::from(u8::from(trial.valid))),
                series::SEARCH_DISTURBED.of(f64::from(u8::from(trial.disturbed))),
            ];
            let causes = losses.iter().map(|lost| lost.clone().within(Scope::Search));
            record
                .series
                .extend(figures.into_iter().chain(causes).map(|figure| SeriesRow::new(n as u32, figure)));
            // A load that lost nothing although it left late proves its rate, but its latencies are not the server's.
            let within = trial.loss_ratio <= e.peak.loss && trial.is_evidence() && result.validity.valid;
            if within && best.as_ref().is_none_or(|b| result.counts.answered_qps > b.counts.answered_qps) {
                best = Some(result.clone());
            }
        })?;
        capacity.take_open(&found.trials);
        found.capacity = Some(capacity);
        if let Some(best) = best {
            take(&mut record.outcome, best.outcome());
        }
        record.outcome.metrics.extend(found.metrics());
        record.outcome.validity.merge(found.validity());
        record.outcome.metrics.extend(arrived.into_inner().map(|count| metrics::ARRIVED.count(count)));
        record.outcome.validity.merge(contradicted.into_inner());
        let checked = checked.into_inner().flatten();
        record.outcome.metrics.extend(checked.iter().flat_map(CheckResult::metrics));
        self.note_wrong(checked.as_ref(), record)?;
        record.outcome.metrics.extend(server.memory()?);
        let detail = self.dir.join("search.json");
        let text = serde_json::to_string_pretty(&found).map_err(|e| Error::Machine(e.to_string()))?;
        std::fs::write(&detail, text).map_err(Error::io(&detail))
    }
}
