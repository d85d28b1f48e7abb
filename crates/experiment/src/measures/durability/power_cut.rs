//! The power is cut under full load, again and again, and whatever was acknowledged before is looked for.

use super::acks::{self, Ack};
use crate::measures::{Measurement, Part, Run, ZoneChanges};
use crate::replication::fleet::Fleet;
use crate::replication::running_updates::finish;
use crate::run_context::PORT;
use crate::system_under_test::SystemUnderTest;
use crate::{Error, RunEvent};
use agent::{Disk, FindAdditions, Server};
use measure::clock::{self, SECOND};
use measure::metrics;
use measure::{Draw, Nanos, Pace, Reason, Seed, params};
use rack::disk::{Cut, Options};
use results::{SeriesRow, TrialRecord};
use serde::Serialize;
use std::fs;
use std::time::Duration;
use update::TransferSpec;
use update::additions::{self, Halves, WHOLE};
use update::send::{SendResult, SendSpec};

/// Updates that there are for one cut: more than a server takes meanwhile.
const LOAD: u64 = 50_000;

/// An answer that came so shortly before the cut does not count: the kernel stamps answers by the wall clock, which may be slewed by
/// 125 µs in the quarter of a second between two looks at it.
const NEAR: Nanos = 250_000;

/// A wall clock may be slewed by so much (adjtimex(2): 500 ppm): the sender's times count from its start, the cut's is read then.
const SLEW: f64 = 500e-6;

/// A server that is back may refuse a transfer for a moment.
const TRANSFERS: u32 = 10;

/// How long a transfer may take, in nanoseconds.
const TRANSFER: Nanos = 60 * SECOND;

/// How many lost updates are named.
const EXAMPLES: usize = 5;

/// The result of one cut.
#[derive(Clone, Debug, Default, Serialize)]
struct CutSeen {
    /// From 1.
    number: u32,
    /// The number of the fresh server and disk that it was of, from 1.
    server: u32,
    /// Some of what was not synced survived, at random.
    survivors: bool,
    /// Updates offered to it before.
    offered: u64,
    /// Acknowledged before the cut.
    acknowledged: u64,
    /// Acknowledged so shortly before it, or after it, that they do not count.
    near: u64,
    /// Answered with another code than NOERROR.
    refused: u64,
    /// Acknowledged before this cut, or before an earlier one and found after that, and gone now.
    lost: u64,
    /// The first of them, by their numbers.
    first_lost: Vec<u64>,
    /// Updates of which one half is there, whether acknowledged or not.
    half: u64,
    /// Seconds until it served its zone again; null: it did not.
    back_s: Option<f64>,
    /// Why not.
    why: Option<String>,
    /// It said that it refuses the zone.
    zone_refused: bool,
    /// The pages that the cut dropped.
    cut: Cut,
}

/// A server on its disk.
struct OnDisk {
    // Dropped in this order: a server keeps its disk busy.
    server: Server,
    disk: Disk,
    survivors: bool,
    /// Acknowledged, and there when last looked for.
    known: Vec<u64>,
    /// The number of the next update.
    next: u64,
}

pub const MEASUREMENT: Measurement = Measurement {
    part: Part::LonePrimary,
    changes: ZoneChanges::None,
    has_variants: true,
    params: |e, _| {
        vec![(params::CUTS, e.durability.cuts.to_string()), (params::WINDOW, e.durability.window.to_string())]
    },
    seconds: |e, _, of| {
        of.start + f64::from(e.durability.cuts) * (0.6 * e.durability.life.as_seconds() + 2.0)
    },
    // A count does not get more precise by repeats.
    known_by: None,
    run: Run::StartAll(|sut, fleet, record, tell| sut.power_cuts(fleet, record, tell)),
};

impl SystemUnderTest<'_> {
    /// All cuts that the experiment asks for, the first half of them on a disk on which nothing survives that was not synced.
    fn power_cuts(
        &self,
        fleet: &Fleet<'_>,
        record: &mut TrialRecord,
        tell: &mut dyn FnMut(RunEvent),
    ) -> Result<(), Error> {
        let cuts = self.context.experiment.durability.cuts;
        let mut draw = Seed(self.context.experiment.seed).draw("times of cuts", u64::from(record.id));
        let mut seen: Vec<CutSeen> = Vec::new();
        let mut on: Option<OnDisk> = None;
        let mut servers = 0;
        for number in 1..=cuts {
            let survivors = number > cuts.div_ceil(2);
            if on.as_ref().is_none_or(|on| on.survivors != survivors) {
                put_away(on.take())?;
                servers += 1;
                on = Some(self.put_on_disk(servers, survivors, record, tell)?);
            }
            let this = on.as_mut().expect("it was just started");
            let one = CutSeen { number, server: servers, survivors, ..self.cut(fleet, this, &mut draw)? };
            tell(RunEvent::Second { text: one.text(cuts) });
            if one.back_s.is_none() {
                // The next cut is of a fresh one.
                put_away(on.take())?;
            }
            seen.push(one);
        }
        put_away(on)?;
        let path = self.dir.join("cuts.json");
        let text = serde_json::to_string_pretty(&seen).map_err(|e| Error::Machine(e.to_string()))?;
        fs::write(&path, text).map_err(Error::io(&path))?;
        add_metrics(&seen, record);
        Ok(())
    }

    /// Starts a fresh server with all its files on a fresh disk. What it has written until it serves its zone is made durable,
    /// as it would be a minute later on a disk that is written back now and then.
    fn put_on_disk(
        &self,
        number: u32,
        survivors: bool,
        record: &mut TrialRecord,
        tell: &mut dyn FnMut(RunEvent),
    ) -> Result<OnDisk, Error> {
        let (context, e) = (self.context, self.context.experiment);
        let folder = self.dir.join(format!("server-{number}"));
        let [backing, at] = ["kept", "disk"].map(|name| folder.join(name));
        let options = Options {
            survivors: survivors.then_some(Seed(e.seed ^ u64::from(number) << 32)),
            replace_by_rename: e.durability.replace_by_rename,
            ..Options::default()
        };
        let disk = Disk::mount(context.server, &backing, &at, options)?;
        let mut server = Server::start(context.server, self.spec, &at.join("server"))?;
        if number == 1 {
            record.add_param(params::VERSION, server.version());
        }
        let took = server.ready(&self.zone.probe, context.patience(self.zone))?;
        tell(RunEvent::Ready { seconds: took.as_secs_f64() });
        disk.sync()?;
        Ok(OnDisk { server, disk, survivors, known: Vec::new(), next: 0 })
    }

    /// One cut: load, power off, power on, and what is there.
    fn cut(&self, fleet: &Fleet<'_>, on: &mut OnDisk, draw: &mut Draw) -> Result<CutSeen, Error> {
        let (context, d) = (self.context, &self.context.experiment.durability);
        let [file, answers] = ["updates.txt", "acknowledged.csv"].map(|name| self.dir.join(name));
        let first = on.next;
        additions::write(&file, &self.zone.origin, first, LOAD)?;
        let spec = fleet.sending(file.clone(), Pace::Closed { window: d.window });
        let spec = SendSpec { latencies: Some(answers.clone()), ..spec };
        let life = self.life(draw);
        let mut sender = self.role("update", &spec)?;
        let began = clock::wall() + context.start_delay();
        sender.start_at(began)?;
        let paused = context.pause(life + Duration::from_nanos(began.saturating_sub(clock::wall())));
        let cut = on.disk.cut();
        on.server.kill()?;
        // The sender's error explains more.
        let result: SendResult = finish(sender)?;
        paused?;
        let cut = cut?;
        context.generators[0].fetch(&answers)?;
        let acks = acks::read(&answers, began)?;
        for path in [&file, &answers] {
            fs::remove_file(path).map_err(Error::io(path))?;
        }
        // The time of the cut is by the clock of the server's machine, those of the answers by that of the generator's.
        let clocks = [context.server.clock()?, context.generators[0].clock()?];
        let at = cut.at.saturating_add_signed(-clocks[0].ahead);
        let slewed = (SLEW * at.saturating_sub(began) as f64) as Nanos;
        let near = NEAR + slewed + clocks.iter().map(|clock| clock.bound).sum::<Nanos>();
        let before = |ack: &&Ack| ack.at + near <= at;
        let acknowledged = acks.iter().filter(before).count();
        on.known.extend(acks.iter().filter(before).map(|ack| first + ack.number));
        on.next = first + LOAD;
        let mut seen = CutSeen {
            offered: result.offered,
            acknowledged: acknowledged as u64,
            near: (acks.len() - acknowledged) as u64,
            refused: result.acknowledged - result.accepted,
            cut,
            ..CutSeen::default()
        };
        on.disk.remount()?;
        on.server.start_again()?;
        match on.server.back(context.patience(self.zone)) {
            Err(e) => {
                context.goes_on()?;
                seen.zone_refused = e.is_zone_refused();
                seen.why = Some(e.to_string());
            }
            Ok((took, _)) => match self.halves(fleet)? {
                Err(why) => seen.why = Some(why),
                Ok(halves) => {
                    seen.back_s = Some(took.as_secs_f64());
                    let gone = |number: &u64| halves.get(number) != Some(&WHOLE);
                    let lost: Vec<u64> = on.known.iter().copied().filter(gone).collect();
                    seen.lost = lost.len() as u64;
                    seen.first_lost = lost.into_iter().take(EXAMPLES).collect();
                    seen.half = halves.values().filter(|halves| **halves != WHOLE).count() as u64;
                    // An update that was lost once is not looked for again.
                    on.known.retain(|number| !gone(number));
                }
            },
        }
        Ok(seen)
    }

    /// Which halves of which updates the server has, by a transfer of its zone; else why it cannot be transferred.
    fn halves(&self, fleet: &Fleet<'_>) -> Result<Result<Halves, String>, Error> {
        let (context, target) = (self.context, (self.context.server.host.v4, PORT).into());
        let spec = TransferSpec {
            key: Some(fleet.key.clone()),
            timeout: TRANSFER,
            // It is a host of the rack.
            allow_external: context.server.is_elsewhere(),
            ..TransferSpec::new(target, &self.zone.origin)
        };
        let mut why = String::new();
        for attempt in 0..TRANSFERS {
            if attempt > 0 {
                context.pause(Duration::from_millis(300))?;
            }
            match context.generators[0].ask(FindAdditions { spec: spec.clone() })? {
                Ok(halves) => return Ok(Ok(halves)),
                Err(reason) => {
                    why = format!("it serves the zone's SOA, but not a transfer of it: {}", reason.text)
                }
            }
        }
        Ok(Err(why))
    }
}

/// Ends a server and its disk; its logs and configuration stay.
fn put_away(on: Option<OnDisk>) -> Result<(), Error> {
    let Some(OnDisk { server, disk, .. }) = on else { return Ok(()) };
    drop(server);
    Ok(disk.put_away()?)
}

impl CutSeen {
    fn text(&self, of: u32) -> String {
        let Self { number, acknowledged, lost, .. } = self;
        match &self.why {
            None => format!("cut {number} of {of}: {acknowledged} acknowledged before it, {lost} lost"),
            Some(why) => format!("cut {number} of {of}: not served again: {why}"),
        }
    }
}

/// Adds up the results of all cuts.
fn add_metrics(seen: &[CutSeen], record: &mut TrialRecord) {
    let sum = |of: fn(&CutSeen) -> u64| seen.iter().map(of).sum::<u64>() as f64;
    let count = |of: fn(&&CutSeen) -> bool| seen.iter().filter(of).count() as f64;
    let (acknowledged, not_back) = (sum(|c| c.acknowledged), count(|c| c.back_s.is_none()));
    // With a server that does not come back all is lost, and none of it is counted twice.
    let gone = sum(|c| if c.back_s.is_none() { c.acknowledged } else { 0 });
    let lost = sum(|c| c.lost);
    let metrics = [
        (metrics::CUTS, seen.len() as f64),
        (metrics::CUTS_WITH_SURVIVORS, count(|c| c.survivors)),
        (metrics::CUT_ACKNOWLEDGED, acknowledged),
        (metrics::CUT_FOUND, (acknowledged - lost - gone).max(0.0)),
        (metrics::CUT_LOST, lost),
        (metrics::CUT_GONE_WITH_SERVER, gone),
        (metrics::CUT_HALF, sum(|c| c.half)),
        (metrics::CUT_NEAR, sum(|c| c.near)),
        (metrics::CUT_REFUSED, sum(|c| c.refused)),
        (metrics::CUTS_WITH_LOSS, count(|c| c.lost > 0 || c.back_s.is_none())),
        (metrics::CUTS_NOT_BACK, not_back),
        (metrics::CUTS_ZONE_REFUSED, count(|c| c.zone_refused)),
        (metrics::CUT_SYNCS, sum(|c| c.cut.syncs)),
        (metrics::CUT_LOST_PAGES, sum(|c| c.cut.lost_pages)),
    ];
    if let Some(why) = seen.iter().find_map(|c| c.why.clone()) {
        record.add_param(params::NOT_BACK, why);
    }
    let outcome = &mut record.outcome;
    outcome.metrics.extend(metrics.map(|(metric, value)| metric.of(value)));
    if let Some(longest) = seen.iter().filter_map(|c| c.back_s).max_by(f64::total_cmp) {
        outcome.metrics.push(metrics::CUT_BACK_MAX.of(longest));
    }
    for one in seen {
        let figures = [metrics::CUT_ACKNOWLEDGED.count(one.acknowledged), metrics::CUT_LOST.count(one.lost)];
        record.series.extend(figures.map(|metric| SeriesRow::new(one.number, metric)));
    }
    let idle = count(|c| c.acknowledged == 0);
    if idle > 0.0 {
        let text = format!(
            "nothing was acknowledged before {idle:.0} of {} cuts: a longer durability.life gives time for it",
            seen.len()
        );
        let reason = Reason::new("nothing_acknowledged", text);
        match 2.0 * idle > seen.len() as f64 {
            true => outcome.validity.reject(reason),
            false => outcome.validity.warn(reason),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use measure::Definition;

    #[test]
    fn a_server_that_does_not_come_back_has_lost_what_it_acknowledged() {
        let one = CutSeen { acknowledged: 10, back_s: Some(0.1), ..CutSeen::default() };
        let lossy = CutSeen { lost: 3, ..one.clone() };
        let dead = CutSeen { back_s: None, zone_refused: true, why: Some("refused".into()), ..one.clone() };
        let mut record = TrialRecord::default();
        add_metrics(&[one.clone(), lossy, dead], &mut record);
        let value_of = |which: Definition| record.outcome.metric(which).unwrap();
        assert_eq!(
            (value_of(metrics::CUT_ACKNOWLEDGED), value_of(metrics::CUT_FOUND), value_of(metrics::CUT_LOST)),
            (30.0, 17.0, 3.0)
        );
        assert_eq!(
            (
                value_of(metrics::CUTS_WITH_LOSS),
                value_of(metrics::CUTS_NOT_BACK),
                value_of(metrics::CUTS_ZONE_REFUSED)
            ),
            (2.0, 1.0, 1.0)
        );
        assert_eq!(record.param(params::NOT_BACK), Some("refused"));
        assert!(record.outcome.validity.valid);
        let idle = CutSeen { acknowledged: 0, ..one };
        add_metrics(&[idle], &mut record);
        assert!(!record.outcome.validity.valid);
    }
}
