//! One load at a server, and what it cost both sides.

use crate::system_under_test::{Driven, SystemUnderTest, take};
use crate::witness::Witness;
use crate::{Error, RunEvent};
use agent::Server;
use load::LoadSpec;
use measure::Pace;
use measure::metrics;
use results::TrialRecord;

impl SystemUnderTest<'_> {
    /// Puts one load at the server, and records what it cost both.
    pub fn one_load(
        &self,
        load: &LoadSpec,
        witness: Option<Witness>,
        server: &mut Server,
        record: &mut TrialRecord,
        tell: &mut dyn FnMut(RunEvent),
    ) -> Result<(), Error> {
        let Driven { result, each, began, series, drops, machine, losses, second } =
            self.drive(&self.checked(load), 0.0, server, &mut |values| {
                tell(RunEvent::Second { text: crate::sampling::sentence(values) });
            })?;
        record.series = series;
        record.outcome.metrics.extend(drops);
        record.outcome.metrics.extend(each);
        record.outcome.metrics.extend(losses.metrics());
        record.outcome.metrics.extend(machine.metrics());
        let sent = result.counts.sent.max(1) as f64;
        if let Pace::Closed { .. } = load.pace {
            let sustained = load::search::sustained_qps(&result);
            record.outcome.metrics.push(metrics::SUSTAINED_QPS.of(sustained));
        }
        let calm = machine.calm_per_query(&result.timeline);
        take(&mut record.outcome, result.outcome());
        self.note_wrong(result.checked.as_ref(), record)?;
        record.outcome.validity.reject_for(machine.disturbed(load.is_paced()));
        record.outcome.validity.warn_for(losses.sentence());
        second.iter().for_each(|count| count.note(&mut record.outcome));
        if let Some(witness) = witness {
            let generator = &self.context.generators[0];
            let from = self.context.at_generator(began)? + load.warmup;
            witness.testify(generator, (from, from + load.duration.unwrap_or(load::LONGEST)), record)?;
        }
        let spent = server.memory()?;
        let per_query = [
            (metrics::SERVER_CPU_PER_QUERY, machine.server_ran.map(|seconds| seconds / sent)),
            (metrics::CALM_SERVER_CPU_PER_QUERY, calm),
            (metrics::SERVER_CORE_TIME_PER_QUERY, machine.server_busy.map(|seconds| seconds / sent)),
        ];
        for (metric, seconds) in per_query {
            record.outcome.metrics.extend(seconds.map(|seconds| metric.of(seconds * 1e6)));
        }
        if let Some(counted) = machine.hardware {
            let figures = [
                (metrics::SERVER_INSTRUCTIONS_PER_QUERY, counted.instructions),
                (metrics::SERVER_CYCLES_PER_QUERY, counted.cycles),
            ];
            record.outcome.metrics.extend(figures.map(|(metric, count)| metric.of(count as f64 / sent)));
        }
        // The cost of watching, as a share of one core.
        let own = crate::sampling::mean(&record.series, metrics::COORDINATOR_CPU);
        record.outcome.metrics.extend(own.map(|percent| metrics::COORDINATOR_CPU.of(percent)));
        record.outcome.metrics.extend(spent);
        Ok(())
    }
}
