//! How fast a primary takes updates: so many of them, each as soon as there is room in the window (ISC 6.3.2).

use super::{Measurement, Part, Run, ZoneChanges};
use crate::meter::Machine;
use crate::replication::fleet::Fleet;
use crate::replication::running_updates::{progress, read, sent};
use crate::resources::TimeBasis;
use crate::second_count::Counting;
use crate::system_under_test::SystemUnderTest;
use crate::{Error, Experiment, RunEvent, Trial};
use agent::Server;
use measure::metrics::{self, Scope};
use measure::{Event, Nanos, Pace, params};
use results::TrialRecord;
use std::time::Duration;
use update::send::{LONGEST, SendResult};

pub const MEASUREMENT: Measurement = Measurement {
    part: Part::Primary,
    changes: ZoneChanges::None,
    has_variants: true,
    params: |e, _| {
        vec![
            (params::WINDOW, e.updates.window.to_string()),
            (params::COUNT, e.updates.count.to_string()),
            (params::MIX, e.updates.mix.clone()),
        ]
    },
    seconds,
    known_by: Some((metrics::ACKNOWLEDGED_UPS.within(Scope::Updates), |precision| precision.rate)),
    run: Run::Ready(|ready, record, tell| {
        ready.sut.updates_taken(ready.fleet.expect("it is distributed"), &mut ready.server, record, tell)
    }),
};

/// Updates one after another, or as many together as the server commits at once. A server that signs what changes takes twice the time.
fn seconds(e: &Experiment, trial: &Trial, of: &TimeBasis) -> f64 {
    let commit = e
        .kind(&trial.server)
        .ok()
        .map_or(server::Commit::UNKNOWN, |kind| server::driver(kind).facts().commit);
    let together = if commit.together { u64::from(e.updates.window.max(1)) } else { 1 };
    let signing = if of.zone.signatures > 0 { 2.0 } else { 1.0 };
    e.updates.count.div_ceil(together) as f64 * commit.seconds(&of.zone) * signing
}

impl SystemUnderTest<'_> {
    /// ISC 6.3.2: so many updates as fast as they are acknowledged.
    fn updates_taken(
        &self,
        fleet: &Fleet<'_>,
        server: &mut Server,
        record: &mut TrialRecord,
        tell: &mut dyn FnMut(RunEvent),
    ) -> Result<(), Error> {
        let given = &self.context.experiment.updates;
        let spec = self.sending(fleet, given.count, Pace::Closed { window: given.window })?;
        let mut role = self.role("update", &spec)?;
        let sending = (&*self.context.generators[0].host.name, role.pid());
        let mut sampling = crate::sampling::Sampling::start(self.context, server, &[sending])?;
        // The host of an external server is not at hand.
        let counted = match server.is_ours() {
            true => Counting::updates(self.context.experiment, fleet.primary())?,
            false => Counting::default(),
        };
        let began = measure::clock::wall() + self.context.start_delay();
        let meter = sampling.meter(began, LONGEST)?;
        role.start_at(began)?;
        let result: SendResult = loop {
            match role.next(Duration::from_millis(100))? {
                Some(Event::Progress { second, values }) => {
                    let second = second as u32;
                    record.series.extend(crate::sampling::rows(second, &values));
                    if self.context.experiment.sampling {
                        record.series.extend(sampling.rows(second)?);
                    }
                    tell(RunEvent::Second { text: progress(&values) });
                }
                Some(Event::Done { result }) => break read(result)?,
                Some(_) => {}
                None => {
                    server.alive()?;
                    self.context.goes_on()?;
                }
            }
        };
        let machine = Machine::new(meter.end()?, (result.duration_s * 1e9) as Nanos);
        record.outcome.metrics.extend(machine.metrics());
        record.outcome.metrics.extend(sampling.drops()?);
        record.outcome.metrics.extend(server.memory()?);
        sent(&result, &mut record.outcome);
        record.outcome.validity.reject_for(machine.disturbed(false));
        counted.end_of_updates(&result, &mut record.outcome)
    }
}
