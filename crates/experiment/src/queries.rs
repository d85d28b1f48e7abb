//! What is measured with queries: latency at a rate, and the highest rate.

use crate::stage::{Driven, Stage, take};
use crate::witness::Witness;
use crate::{Error, Happening};
use load::search::{Goal, Search};
use load::{LoadResult, LoadSpec};
use measure::clock::SECOND;
use measure::{Arrivals, Metric, Pace, Reason};
use results::{SeriesRow, TrialRecord};
use server::Server;

/// A server whose cores had less to do is not what limits a load with a window, in percent of the time.
const IDLE_LIMIT: f64 = 10.0;

impl Stage<'_> {
    /// RZAIA 3.2: a fixed rate.
    pub fn latency(
        &self,
        rate: f64,
        server: &mut Server<'_>,
        record: &mut TrialRecord,
        tell: &mut dyn FnMut(Happening),
    ) -> Result<(), Error> {
        let e = self.bench.experiment;
        let pace = Pace::Open(Arrivals::Fixed { rate });
        let mut load = self.load(pace, e.duration("latency.duration", &e.latency.duration)?)?;
        // What was recorded has no beginning that may be left out.
        if self.traffic.trace.is_none() {
            load.warmup = e.duration("latency.warmup", &e.latency.warmup)?;
        }
        load.deadline = e.duration("latency.deadline", &e.latency.deadline)?;
        load.pacing_limit = e.duration("latency.pacing", &e.latency.pacing)?;
        let witness = self.witness(record);
        self.once(&load, witness, server, record, tell)
    }

    /// ISC 6.3.1 and Nominet: as fast as answers come, each generator with a window of queries that wait for theirs.
    pub fn throughput(
        &self,
        server: &mut Server<'_>,
        record: &mut TrialRecord,
        tell: &mut dyn FnMut(Happening),
    ) -> Result<(), Error> {
        let (e, given) = (self.bench.experiment, &self.bench.experiment.throughput);
        let window = given.window.saturating_mul(self.traffic.generators);
        let duration = e.duration("throughput.duration", &given.duration)?;
        let mut load = self.load(Pace::Closed { window }, duration)?;
        load.warmup = e.duration("throughput.warmup", &given.warmup)?;
        load.deadline = e.duration("throughput.deadline", &given.deadline)?;
        self.once(&load, None, server, record, tell)?;
        let idle = 100.0 - crate::sampling::busy(&record.series, self.bench.server_cpus);
        if idle > IDLE_LIMIT && e.sampling && self.spec.external.is_none() {
            record.outcome.validity.warn(Reason::new(
                "server_not_busy",
                format!(
                    "the server's cores had nothing to do for {idle:.0} % of the time: the window, or the generator, is the \
                     limit; try a larger throughput.window, or more generators"
                ),
            ));
        }
        Ok(())
    }

    /// One load at the server, and what it cost both.
    fn once(
        &self,
        load: &LoadSpec,
        witness: Option<Witness>,
        server: &mut Server<'_>,
        record: &mut TrialRecord,
        tell: &mut dyn FnMut(Happening),
    ) -> Result<(), Error> {
        let Driven { result, each, began, series, drops } = self.drive(load, server, &mut |values| {
            tell(Happening::Second { text: crate::sampling::sentence(values) });
        })?;
        record.series = series;
        record.outcome.metrics.extend(drops);
        record.outcome.metrics.extend(each);
        let sent = result.counts.sent.max(1) as f64;
        take(&mut record.outcome, result.outcome());
        if let Some(witness) = witness {
            let from = began + load.warmup;
            witness.testify((from, from + load.duration.unwrap_or(load::LONGEST)), record)?;
        }
        let spent = crate::sampling::memory(&server.pids());
        // From the start of the program, so loading is in it: what queries cost is in the series.
        if self.bench.experiment.sampling && self.spec.external.is_none() {
            let cpu = crate::sampling::server_seconds(&record.series);
            record.outcome.metrics.push(Metric::new("server_cpu_per_query", "us", cpu * 1e6 / sent));
        }
        // What watching costs, of one core.
        let own = crate::sampling::mean(&record.series, "coordinator_cpu");
        record.outcome.metrics.extend(own.map(|percent| Metric::new("coordinator_cpu", "%", percent)));
        record.outcome.metrics.extend(spent);
        Ok(())
    }

    /// ISC 6.3.1 by RFC 9971: a search over rates.
    pub fn peak(
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
        let mut load = self.load(Pace::Open(Arrivals::Fixed { rate: 1.0 }), SECOND)?;
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
