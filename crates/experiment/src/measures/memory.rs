//! The memory of a server that has loaded the zone and answers from it (RZAIA, chapter 2).

use super::{Measurement, Part, Run, ZoneChanges};
use crate::Error;
use crate::system_under_test::SystemUnderTest;
use agent::{Mapped, Server};
use measure::Reason;
use measure::clock::SECOND;
use measure::metrics;
use rack::memory::{self, Kind};
use results::{SeriesRow, TrialRecord};
use std::time::{Duration, Instant};

/// How often memory is looked at while it settles.
const PERIOD: Duration = Duration::from_millis(500);

/// A relative difference in memory above this is a change.
const CHANGE: f64 = 0.01;

pub const MEASUREMENT: Measurement = Measurement {
    part: Part::Alone,
    changes: ZoneChanges::None,
    has_variants: false,
    params: |_, _| Vec::new(),
    seconds: |e, _, _| e.memory.settle.as_seconds(),
    known_by: Some((metrics::SERVER_PSS, |precision| precision.rate)),
    run: Run::Ready(|ready, record, _| ready.sut.memory(&mut ready.server, record)),
};

impl SystemUnderTest<'_> {
    /// From the first right answer on: how memory settles, and then what every map has.
    fn memory(&self, server: &mut Server, record: &mut TrialRecord) -> Result<(), Error> {
        let e = self.context.experiment;
        let (settle, patience) = (Duration::from(e.memory.settle), Duration::from(e.memory.patience));
        let began = Instant::now();
        let first = server.pss()?;
        let (mut level, mut since) = (first, began);
        let mut next = began + PERIOD;
        loop {
            self.context.pause(next.saturating_duration_since(Instant::now()))?;
            next += PERIOD;
            server.alive()?;
            let now = server.pss()?;
            // Half a second to a row: the series counts rows, not seconds.
            let second = (began.elapsed().as_nanos() as u64 / SECOND) as u32 + 1;
            record.series.push(SeriesRow::new(second, metrics::SERVER_PSS.of(now as f64)));
            if now.abs_diff(level) as f64 > CHANGE * level as f64 {
                (level, since) = (now, Instant::now());
            }
            if since.elapsed() >= settle {
                break;
            }
            if began.elapsed() >= patience {
                record.outcome.validity.warn(Reason::new(
                    "memory_unsettled",
                    format!("memory still changed {} s after the first right answer", patience.as_secs()),
                ));
                break;
            }
        }
        let Mapped { maps, processes, cpu } = server.maps()?;
        let path = self.dir.join("maps.txt");
        std::fs::write(&path, memory::text(&maps)).map_err(Error::io(&path))?;
        let metrics = &mut record.outcome.metrics;
        let sum = |of: fn(&memory::Map) -> u64| maps.iter().map(of).sum::<u64>();
        metrics.push(metrics::SERVER_VIRTUAL.count(sum(|map| map.size)));
        metrics.push(metrics::SERVER_RSS.count(sum(|map| map.rss)));
        let settled = sum(|map| map.pss);
        metrics.push(metrics::SERVER_PSS.count(settled));
        for kind in Kind::ALL {
            let of_kind = || maps.iter().filter(|map| map.kind == kind);
            let sum = |of: fn(&memory::Map) -> u64| of_kind().map(of).sum::<u64>() as f64;
            metrics.push(metrics::VIRTUAL_OF_MAPS.of(kind.word(), sum(|map| map.size)));
            metrics.push(metrics::PSS_OF_MAPS.of(kind.word(), sum(|map| map.pss)));
        }
        metrics.push(metrics::SERVER_PSS_AT_FIRST_ANSWER.count(first));
        metrics.push(metrics::SERVER_PROCESSES.of(processes as f64));
        metrics.push(metrics::SETTLED_AFTER.of((since - began).as_secs_f64()));
        let delegations = self.zone.probe.delegations.max(1) as f64;
        metrics.push(metrics::PSS_PER_DELEGATION.of(settled as f64 / delegations));
        metrics.push(metrics::SERVER_CPU.of(cpu.as_secs_f64()));
        Ok(())
    }
}
