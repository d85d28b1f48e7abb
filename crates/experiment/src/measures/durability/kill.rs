//! A secondary is killed (SIGKILL) at random, again and again, while changes stream to it by IXFR.
//!
//! A killed secondary may start with what it had written last. Reported is what was served: serials that went back, while
//! it ran and over its restarts, and zones in which half a change was.

use crate::measures::{Measurement, Part, Run, ZoneChanges};
use crate::replication::fleet::{Fleet, OtherServers};
use crate::replication::running_updates::{self, carried};
use crate::run_context::{self, PORT};
use crate::second_count::Counting;
use crate::system_under_test::SystemUnderTest;
use crate::{Error, RunEvent};
use agent::{Counters, Server};
use measure::metrics::{self, Definition, Scope};
use measure::{Arrivals, Event, Pace, Reason, Seed, clock, params};
use rack::Role;
use results::TrialRecord;
use std::net::Ipv4Addr;
use std::time::{Duration, Instant};
use update::pairs::{Asked, Back, Pair, Transferred};
use update::{PairsResult, PairsSpec, SendResult};

/// Seconds of updates that there are for each kill beside the time that it lives: for its restart.
const RESTART: f64 = 10.0;

/// How long the watcher of the secondary may take to know of a new life.
const KNOWN: Duration = Duration::from_secs(5);

/// Lives of a secondary.
#[derive(Debug, Default)]
struct Lives {
    kills: u32,
    /// Seconds until it served its zone again, of those that did.
    back: Vec<f64>,
    /// Why it did not, of the others.
    why: Vec<String>,
}

pub const MEASUREMENT: Measurement = Measurement {
    part: Part::OneOfSeveral,
    changes: ZoneChanges::Own { markers: false },
    has_variants: true,
    params: |e, _| vec![(params::KILLS, e.durability.kills.to_string())],
    seconds: |e, _, of| {
        of.start + f64::from(e.durability.kills) * (0.6 * e.durability.life.as_seconds() + 2.0)
    },
    // A count does not get more precise by repeats.
    known_by: None,
    run: Run::StartAll(|sut, fleet, record, tell| sut.kills(fleet, record, tell)),
};

impl SystemUnderTest<'_> {
    /// A primary under updates, and as many kills of the first secondary as the experiment asks for.
    fn kills(
        &self,
        fleet: &Fleet<'_>,
        record: &mut TrialRecord,
        tell: &mut dyn FnMut(RunEvent),
    ) -> Result<(), Error> {
        let (context, e) = (self.context, self.context.experiment);
        let d = &e.durability;
        let mut others = OtherServers { primary: fleet.start_primary()?, ..OtherServers::default() };
        let captured_in = self.dir.join("transfers.pcap");
        let capture = self.between_servers(fleet, &captured_in)?;
        let mut server = Server::start(context.server, self.spec, &self.dir.join("server"))?;
        record.add_param(params::VERSION, server.version());
        let took = server.ready(&self.zone.probe, context.patience(self.zone))?;
        tell(RunEvent::Ready { seconds: took.as_secs_f64() });
        others.secondaries = fleet.start_secondaries(&self.spec.label)?;

        let watched = |target: Ipv4Addr, records: Option<u64>| PairsSpec {
            target: (target, PORT).into(),
            origin: self.zone.origin.clone(),
            key: fleet.key.clone(),
            records,
            // They are hosts of the rack.
            allow_external: context.generators[0].is_elsewhere(),
        };
        let primary = watched(fleet.primary().host.v4, None);
        let before = self.counters(&primary)?.ok_or_else(|| {
            Error::Machine("the primary's zone cannot be transferred before the first update".into())
        })?;
        let secondary = watched(context.server.host.v4, self.zone.signed.is_none().then_some(before.1));
        let file = self.dir.join("updates.txt");
        let life_s = d.life.as_seconds();
        let count = (d.rate * f64::from(d.kills) * (life_s + RESTART)).ceil() as u64;
        update::pairs::write(&file, &self.zone.origin, count)?;
        let spec = fleet.sending(file.clone(), Pace::Open(Arrivals::Fixed { rate: d.rate }));
        let (mut sender, mut watcher) = (self.role("update", &spec)?, self.role("pairs", &secondary)?);
        let counted = Counting::updates(e, fleet.primary())?;
        let at = clock::wall() + context.start_delay();
        sender.start_at(at)?;
        watcher.start_at(at)?;
        let lives = self.kill_often(&mut server, &mut watcher, record.id, tell);
        let sent: SendResult = running_updates::finish(sender)?;
        let PairsResult { asked, transferred } = running_updates::finish(watcher)?;
        let lives = lives?;
        counted.end_of_updates(&sent, &mut record.outcome)?;
        std::fs::remove_file(&file).map_err(Error::io(&file))?;
        let caught_up = if lives.why.is_empty() { self.caught_up(&secondary, &primary)? } else { None };
        let captured = capture.finish(&context.generators[0])?;
        let found = trace::transfers::collect(std::slice::from_ref(&captured_in), &[PORT], 1, &mut |_| {})?;
        std::fs::remove_file(&captured_in).map_err(Error::io(&captured_in))?;
        record.outcome.metrics.push(metrics::ACCEPTED.within(Scope::Updates).of(sent.accepted as f64));
        carried(&found, &captured, 0, &mut record.outcome);
        add_metrics(&lives, &asked, &transferred, caught_up, record);
        others.stop()?;
        match lives.why.is_empty() {
            true => record.outcome.metrics.extend(run_context::end(context, server, self.spec, Ok(()))?),
            // It may not be there.
            false => drop(server),
        }
        Ok(())
    }

    /// Lets it live for a while, kills it, and starts it again; until that does not help any more.
    fn kill_often(
        &self,
        server: &mut Server,
        watcher: &mut Role,
        trial: u32,
        tell: &mut dyn FnMut(RunEvent),
    ) -> Result<Lives, Error> {
        let (context, e) = (self.context, self.context.experiment);
        let (mut draw, mut lives) = (Seed(e.seed).draw("times of kills", u64::from(trial)), Lives::default());
        let patience = context.patience(self.zone);
        for number in 1..=e.durability.kills {
            context.pause(self.life(&mut draw))?;
            server.alive()?;
            server.kill()?;
            lives.kills += 1;
            another_life(watcher, lives.kills)?;
            server.start_again()?;
            match server.back(patience) {
                Ok((took, serial)) => {
                    lives.back.push(took.as_secs_f64());
                    let text = format!(
                        "kill {number} of {}: back after {:.2} s with serial {serial}",
                        e.durability.kills,
                        took.as_secs_f64()
                    );
                    tell(RunEvent::Second { text });
                }
                Err(error) => {
                    context.goes_on()?;
                    lives.why.push(error.to_string());
                    break;
                }
            }
        }
        Ok(lives)
    }

    /// What a transfer to the generator has at the two names; none where it breaks off.
    fn counters(&self, spec: &PairsSpec) -> Result<Option<(Pair, u64)>, Error> {
        Ok(self.context.generators[0].ask(Counters { spec: spec.clone() })?)
    }

    /// Whether the secondary has what the primary has, in the end; none: the primary could not be asked. With default timers a
    /// change may take a while.
    fn caught_up(&self, secondary: &PairsSpec, primary: &PairsSpec) -> Result<Option<bool>, Error> {
        let e = self.context.experiment;
        let until = Instant::now() + Duration::from(e.updates.patience);
        loop {
            let wanted = self.counters(primary)?;
            if wanted.is_none() {
                return Ok(None);
            }
            if self.counters(secondary)? == wanted {
                return Ok(Some(true));
            }
            if Instant::now() >= until {
                return Ok(Some(false));
            }
            self.context.pause(Duration::from_millis(200))?;
        }
    }
}

/// Tells the watcher that the server lives for another time, and waits until it knows.
fn another_life(watcher: &mut Role, life: u32) -> Result<(), Error> {
    watcher.tell(&format!("{{\"life\":{life}}}"))?;
    let until = Instant::now() + KNOWN;
    while Instant::now() < until {
        match watcher.next(KNOWN)? {
            Some(Event::Progress { second, .. }) if second == u64::from(life) => return Ok(()),
            _ => {}
        }
    }
    Err(Error::Machine("the watcher of the secondary does not answer".into()))
}

/// How many serials it went back at most.
fn farthest(all: &[Back]) -> f64 {
    all.iter().map(|(from, to)| f64::from(from.wrapping_sub(*to))).fold(0.0, f64::max)
}

fn add_metrics(
    lives: &Lives,
    asked: &Asked,
    transferred: &Transferred,
    caught_up: Option<bool>,
    record: &mut TrialRecord,
) {
    let outcome = &mut record.outcome;
    let mut add = |metric: Definition, value: f64| outcome.metrics.push(metric.of(value));
    add(metrics::KILLS, f64::from(lives.kills));
    add(metrics::KILLS_BACK, lives.back.len() as f64);
    if let Some(longest) = lives.back.iter().copied().max_by(f64::total_cmp) {
        add(metrics::KILL_BACK_MAX, longest);
    }
    add(metrics::SERIAL_BACK_RUNNING, asked.back_running.len() as f64);
    add(metrics::SERIAL_BACK_RESTARTED, asked.back_restarted.len() as f64);
    add(metrics::SERIAL_BACK_MOST, farthest(&asked.back_running).max(farthest(&asked.back_restarted)));
    add(metrics::SERIALS_SEEN, asked.serials as f64);
    add(metrics::PAIRS_ASKED, asked.compared as f64);
    add(metrics::MIXED_BY_QUERY, asked.half as f64);
    add(metrics::ZONES_TRANSFERRED, transferred.compared as f64);
    add(metrics::ZONES_BROKEN_OFF, transferred.broken as f64);
    add(metrics::HALF_BY_TRANSFER, transferred.half as f64);
    if let Some(caught_up) = caught_up {
        add(metrics::CAUGHT_UP, f64::from(u8::from(caught_up)));
    }
    let words = [
        (params::NOT_BACK, lives.why.first().cloned()),
        (params::FIRST_MIXED_BY_QUERY, asked.first_half.clone()),
        (params::FIRST_HALF_BY_TRANSFER, transferred.first_half.clone()),
    ];
    for (parameter, text) in words {
        text.into_iter().for_each(|text| record.add_param(parameter, text));
    }
    // Few serials say little of what happens between two.
    if asked.serials < u64::from(lives.kills) || transferred.compared == 0 {
        let text = format!(
            "{} serials and {} whole zones were seen in {} lives: changes came too seldom to be cut off by kills",
            asked.serials, transferred.compared, lives.kills
        );
        record.outcome.validity.reject(Reason::new("few_changes", text));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_went_back_is_counted_and_few_changes_say_nothing() {
        let lives = Lives { kills: 3, back: vec![0.1, 0.3, 0.2], ..Lives::default() };
        let asked = Asked {
            compared: 9,
            serials: 30,
            back_restarted: vec![(20, 15), (1, u32::MAX)],
            ..Asked::default()
        };
        let transferred = Transferred { compared: 4, ..Transferred::default() };
        let mut record = TrialRecord::default();
        add_metrics(&lives, &asked, &transferred, Some(true), &mut record);
        let value_of = |which: Definition| record.outcome.metric(which);
        assert_eq!(
            (value_of(metrics::KILLS_BACK), value_of(metrics::SERIAL_BACK_RESTARTED)),
            (Some(3.0), Some(2.0))
        );
        assert_eq!(
            (value_of(metrics::SERIAL_BACK_MOST), value_of(metrics::KILL_BACK_MAX)),
            (Some(5.0), Some(0.3))
        );
        assert!(record.outcome.validity.valid);
        add_metrics(&lives, &Asked::default(), &transferred, None, &mut record);
        assert_eq!(record.outcome.validity.reasons[0].code, "few_changes");
    }
}
