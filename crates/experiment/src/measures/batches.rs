//! Batches of updates in a closed loop (RZAIA 5.3): each is sent to the primary when the secondary serves the one before, while
//! queries are asked there.
//!
//! The paper changed 10 % or 1 % of "the zone contents" in a day's batches, one for every five minutes (288) or every hour (24), and did
//! not say what it counts. Its traffic does: at 100K unsigned, 4.6 MB for 10 % and 0.45 MB for 1 % in hourly batches are 40 octets for
//! each of 10 % and 1 % of the zone's records, deletions and additions counted alike. So are they here.

use super::{Measurement, Part, Run, ZoneChanges};
use crate::config::{Batches, Distribution, Timers};
use crate::replication::core_waits::CoreWaits;
use crate::replication::fleet::{Fleet, OtherServers};
use crate::replication::{paths, running_updates};
use crate::run_context::PORT;
use crate::second_count::Counting;
use crate::system_under_test::{SystemUnderTest, take};
use crate::{Error, RunEvent, sampling};
use agent::Server;
use load::LoadResult;
use measure::clock::SECOND;
use measure::metrics::{self, Definition};
use measure::units::grouped;
use measure::{Arrivals, Event, Histogram, Latency, Named, Nanos, Outcome, Pace, Reason, params, series};
use rack::Role;
use results::{SeriesRow, TrialRecord};
use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;
use trace::{octets, transfers};
use update::generate;
use update::send::{MarkerSpec, SendSpec};
use update::watch::{Sighting, WatchSpec, Watched};
use update::{Batch, BatchesResult, BatchesSpec};

/// Changes that are looked at to know how many records each has.
const SAMPLE: u64 = 200;

/// A time is known well enough if at most this share of it is uncertain.
const UNCERTAIN: f64 = 0.01;

/// Why a trial with `batch_times = false` is valid although something was late.
const NO_TIMES: &str = "it has no times of single batches";

/// BIND's `notify-delay` with default timers, in seconds: two NOTIFYs for a zone are at least so far apart.
const NOTIFY_DELAY: f64 = 5.0;

pub const MEASUREMENT: Measurement = Measurement {
    part: Part::OneOfSeveral,
    changes: ZoneChanges::Own { markers: true },
    has_variants: true,
    params: |e, trial| {
        let b = e.batches_of(trial.variant.as_deref());
        vec![
            (params::SHARE, b.share.to_string()),
            (params::BATCHES, b.count.to_string()),
            (params::MIX, e.updates.mix.clone()),
            (params::WINDOW, e.updates.window.to_string()),
            (params::QUERIES, b.rate.to_string()),
            (params::DEADLINE, e.latency.deadline.to_string()),
        ]
    },
    seconds: |e, trial, of| {
        let variant = trial.variant.as_deref();
        // The estimate takes the primary for a BIND.
        let waits = e.distribution_of(variant).timers == Timers::Default;
        of.start + f64::from(e.batches_of(variant).count) * if waits { NOTIFY_DELAY + 1.0 } else { 0.2 }
    },
    known_by: Some((metrics::BATCHES_SECONDS, |precision| precision.rate)),
    run: Run::Ready(|ready, record, tell| {
        let fleet = ready.fleet.expect("it is distributed");
        let servers = (&mut ready.server, &mut ready.others);
        ready.sut.batches(fleet, ready.trial.variant.as_deref(), servers, record, tell)
    }),
};

/// The messages of each batch, and the file that they are in.
#[derive(Debug, PartialEq)]
struct Stream {
    file: PathBuf,
    messages: Vec<u64>,
    /// Of update sections.
    records: u64,
}

impl SystemUnderTest<'_> {
    /// Sends batch after batch to the primary while the measured secondary is asked.
    ///
    /// # Errors
    /// The errors of the roles, of the servers and of the capture.
    fn batches(
        &self,
        fleet: &Fleet<'_>,
        variant: Option<&str>,
        (server, others): (&mut Server, &mut OtherServers),
        record: &mut TrialRecord,
        tell: &mut dyn FnMut(RunEvent),
    ) -> Result<(), Error> {
        let (context, e) = (self.context, self.context.experiment);
        let given = e.batches_of(variant);
        let stream = self.in_batches(given)?;
        let spec = self.specification(fleet, given, &stream)?;
        let mut role = self.role("batches", &spec)?;
        let mut queries = self.queries(given)?;
        let secondaries: Vec<IpAddr> = fleet.secondaries().iter().map(|(_, at)| at.ip()).collect();
        let primary = IpAddr::from(fleet.primary().host.v4);
        let (file, said) = (self.dir.join("transfers.pcap"), self.dir.join("tcpdump.log"));
        // Senders and clients are on other hosts, so only the transfers between the servers are left.
        let hosts: Vec<String> = secondaries.iter().map(|at| format!("host {at}")).collect();
        let filter = format!("host {primary} and ({})", hosts.join(" or "));
        let capture = paths::capture(context, fleet.primary(), &filter, &file, &said)?;
        let asking: Vec<_> =
            queries.iter().map(|role| (&*context.generators[0].host.name, role.pid())).collect();
        let mut sampling = sampling::Sampling::start(context, server, &asking)?;
        let counted = (Counting::queries(e, context.server)?, Counting::updates(e, fleet.primary())?);
        context.may_time()?;
        let waits = CoreWaits::begin(server, others)?;
        let at = measure::clock::wall() + context.start_delay();
        for role in queries.iter_mut().chain([&mut role]) {
            role.start_at(at)?;
        }
        let result: BatchesResult = loop {
            match role.next(Duration::from_millis(50))? {
                Some(Event::Done { result }) => break running_updates::read(result)?,
                Some(Event::Progress { second, values }) => {
                    let batch = series::BATCH.among(&values).unwrap_or(0.0);
                    let text = format!(
                        "batch {batch:.0} of {}, {:.0} messages accepted/s",
                        stream.messages.len(),
                        metrics::ACCEPTED_UPS.among(&values).unwrap_or(0.0)
                    );
                    tell(RunEvent::Second { text });
                    record.series.push(SeriesRow::new(second as u32, series::BATCH.of(batch)));
                    if e.sampling {
                        record.series.extend(sampling.rows(second as u32)?);
                    }
                }
                Some(_) | None => {}
            }
            while let Some(event) = queries.as_mut().map_or(Ok(None), |role| role.next(Duration::ZERO))? {
                if let Event::Progress { second, values } = event {
                    record.series.extend(sampling::rows(second as u32, &values));
                }
            }
            server.alive()?;
            others.alive()?;
            context.goes_on()?;
        };
        let advice = match e.batch_times {
            true => {
                "give a smaller --parallel, or record the octets of batches alone with --set batch_times=false"
            }
            false => "octets hardly depend on that, and no times that do are recorded (docs/machines.md)",
        };
        waits.end("batches", context.shared_cores.map(|_| advice), &mut record.outcome)?;
        if let Some(queries) = queries {
            let result: LoadResult = running_updates::finish(queries)?;
            counted.0.end_of_queries(&result.counts, false, &mut record.outcome)?;
            asked(result, record);
        }
        paths::come_to_rest(context, fleet.plan())?;
        let captured = capture.finish(&context.generators[0])?;
        record.outcome.metrics.extend(sampling.drops()?);
        record.outcome.metrics.extend(server.memory()?);
        let found = transfers::collect(std::slice::from_ref(&file), &[PORT], 1, &mut |_| {})?;
        // Of changes that are still on their way the octets are not known.
        let accepted =
            if all_served(&result.batches, &stream.messages) { result.send.transactions.accepted } else { 0 };
        running_updates::carried(&found, &captured, accepted, &mut record.outcome);
        record.outcome.metrics.extend(paths::round_trip(context, &file)?);
        let bytes = octets_of(&file, primary, &result.batches)?;
        figures(&result, &bytes, &stream, record);
        self.keep(&result.batches, &bytes)?;
        let mut sent = Outcome::default();
        running_updates::sent(&result.send, &mut sent);
        counted.1.end_of_updates(&result.send, &mut sent)?;
        sent.validity.only_warn(
            "generator_preempted",
            "the time of a batch counts from when the sender really began it",
        );
        if !e.batch_times {
            // Not a stall of the generator that asks queries meanwhile: what was answered depends on that.
            sent.validity.only_warn("generator_stalled", NO_TIMES);
        }
        take(&mut record.outcome, sent);
        running_updates::seen(&result.watch, &mut record.outcome);
        let outcome = &mut record.outcome;
        if !e.batch_times {
            let total = outcome.metric(metrics::BATCHES_SECONDS);
            let total = total
                .filter(|total| self.delays_notify(fleet.plan()) && is_of_timer(*total, &result.batches));
            outcome.leave_out_times();
            outcome.metrics.extend(total.map(|total| metrics::BATCHES_SECONDS.of(total)));
            for code in ["server_core_shared", "watcher_stalled"] {
                outcome.validity.only_warn(code, NO_TIMES);
            }
        } else if times_are_known(&result.batches, &result.watch.sightings) {
            outcome.validity.only_warn("watcher_stalled", "the time of each batch is known to 1 % of it");
        }
        running_updates::forget(&file, fleet.plan().keep_capture, record)
    }

    /// Whether the primary is a BIND with default timers. Such a BIND waits for [`NOTIFY_DELAY`] between two NOTIFYs for a zone.
    fn delays_notify(&self, of: &Distribution) -> bool {
        let kind = of.primary.as_deref().and_then(|label| self.context.experiment.kind(label).ok());
        of.timers == Timers::Default && kind == Some(server::Kind::BIND)
    }

    /// Queries for as long as batches go on.
    fn queries(&self, given: &Batches) -> Result<Option<Role>, Error> {
        let (context, e) = (self.context, self.context.experiment);
        if given.rate == 0.0 {
            return Ok(None);
        }
        let mut load = self.load(Pace::Open(Arrivals::Fixed { rate: given.rate }), load::LONGEST)?;
        load.deadline = e.latency.deadline.0;
        // It shares its core with what sends and watches, and its answers are counted rather than timed.
        load.spin = Some(0);
        load.pacing_limit = e.latency.pacing.0;
        let log = self.dir.join("generator.log");
        let mut role = context.generators[0].role("load", &load, &load.cpus, &log)?;
        role.ready(Duration::from_secs(60))?;
        Ok(Some(role))
    }

    fn specification(
        &self,
        fleet: &Fleet<'_>,
        given: &Batches,
        stream: &Stream,
    ) -> Result<BatchesSpec, Error> {
        let e = self.context.experiment;
        let named = |(name, address): (String, _)| Watched { name, address };
        let servers = fleet.secondaries().into_iter().map(named).collect();
        let mut watch = WatchSpec::new(servers, &self.zone.origin);
        watch.interval = e.updates.interval.0;
        watch.duration = update::send::LONGEST;
        watch.allow_external = self.context.generators[0].is_elsewhere();
        let pace = Pace::Closed { window: e.updates.window };
        let patience = given.patience.0;
        // The primary signs what changes: one message may take as long as a batch.
        let send = SendSpec {
            marker: Some(MarkerSpec { name: None, every: SECOND, first: 1, scattered: None }),
            deadline: patience,
            patience,
            ..fleet.sending(&stream.file, pace)
        };
        Ok(BatchesSpec { send, watch, batches: stream.messages.clone(), patience })
    }

    /// Makes the updates, a message for so many changes.
    fn in_batches(&self, given: &Batches) -> Result<Stream, Error> {
        let file = self.dir.join("updates.txt");
        let make = |count: u64| -> Result<generate::Made, Error> {
            let mut out = BufWriter::new(File::create(&file).map_err(Error::io(&file))?);
            let spec = generate::Spec {
                zone: self.zone.file.clone(),
                mix: self.context.experiment.updates.mix()?,
                count,
                batch: 1,
                prerequisites: false,
                seed: self.zone.seed,
                // Whoever signs with the updates cannot sign the markers: the primary does.
                sign: None,
            };
            let made = generate::generate(&spec, &mut out, &mut |_| {})?;
            out.flush().map_err(Error::io(&file))?;
            Ok(made)
        };
        let mut scanner = zone::Scanner::open(&self.zone.file)?;
        let mut records = 0u64;
        while scanner.next()?.is_some() {
            records += 1;
        }
        let sampled = SAMPLE.min(self.zone.probe.delegations / 2).max(1);
        let made = make(sampled)?;
        let each = made.records as f64 / sampled as f64;
        let changes = ((given.share * records as f64 / each).round() as u64).max(1);
        let made = make(changes)?;
        let sizes = divided(changes, given.count.into());
        let alone = self.dir.join("changes.txt");
        std::fs::rename(&file, &alone).map_err(Error::io(&file))?;
        let messages = together(&alone, &file, &sizes, given.message.into())?;
        std::fs::remove_file(&alone).map_err(Error::io(&alone))?;
        Ok(Stream { file, messages, records: made.records })
    }

    /// Writes one line a batch to the trial's folder: its serial, times and octets.
    fn keep(&self, batches: &[Batch], bytes: &[(u64, u64)]) -> Result<(), Error> {
        let file = self.dir.join("batches.csv");
        let mut text =
            String::from("batch,messages,accepted,began_ns,taken_ns,served_ns,bytes_out,bytes_back\n");
        for ((n, batch), (out, back)) in (1..).zip(batches).zip(bytes) {
            let served = batch.served().map_or_else(String::new, |at| at.to_string());
            let Batch { messages, accepted, began, taken, .. } = batch;
            text += &format!("{n},{messages},{accepted},{began},{taken},{served},{out},{back}\n");
        }
        std::fs::write(&file, text).map_err(Error::io(&file))
    }
}

/// Cuts the changes into batches of about the same size, as many as asked for at most.
fn divided(changes: u64, batches: u64) -> Vec<u64> {
    let batches = batches.min(changes).max(1);
    (0..batches).map(|n| (n + 1) * changes / batches - n * changes / batches).collect()
}

/// Puts changes that are a transaction each together: those of a batch into messages of so many. The messages of each batch.
fn together(from: &Path, to: &Path, sizes: &[u64], message: u64) -> Result<Vec<u64>, Error> {
    let input = BufReader::new(File::open(from).map_err(Error::io(from))?);
    let mut out = BufWriter::new(File::create(to).map_err(Error::io(to))?);
    let (mut batch, mut in_batch, mut messages) = (0, 0, Vec::with_capacity(sizes.len()));
    let mut of_batch = 0;
    for line in input.lines() {
        let line = line.map_err(Error::io(from))?;
        if line != "send" {
            writeln!(out, "{line}").map_err(Error::io(to))?;
            continue;
        }
        in_batch += 1;
        let ends = sizes.get(batch) == Some(&in_batch);
        if ends || in_batch % message == 0 {
            of_batch += 1;
            writeln!(out, "send").map_err(Error::io(to))?;
        }
        if ends {
            messages.push(of_batch);
            (batch, in_batch, of_batch) = (batch + 1, 0, 0);
        }
    }
    out.flush().map_err(Error::io(to))?;
    Ok(messages)
}

/// Octets of IP packets from the primary and to it in the time of each batch: until the next begins.
fn octets_of(file: &Path, primary: IpAddr, batches: &[Batch]) -> Result<Vec<(u64, u64)>, Error> {
    let mut all = vec![(0, 0); batches.len()];
    octets::packets(&[file.to_owned()], &mut |packet| {
        let at = batches.partition_point(|batch| batch.began <= packet.at);
        if let Some((out, back)) = at.checked_sub(1).and_then(|at| all.get_mut(at)) {
            *if packet.from == primary { out } else { back } += packet.octets;
        }
    })?;
    Ok(all)
}

/// Records how the queries meanwhile were answered. We ended this load ourselves, so that it was cut short is no news.
fn asked(result: LoadResult, record: &mut TrialRecord) {
    let mut outcome = result.outcome();
    outcome.validity.warnings.retain(|reason| reason.code != "cut_short");
    // That others took a core now and then spoils no time of a batch, which is known as well as the watcher knows it, and no
    // count of answers. A core that was gone for long still is a reason.
    outcome.validity.only_warn("generator_preempted", "no time of a batch is taken from these queries");
    take(&mut record.outcome, outcome);
}

/// Whether the time of each batch that was served is known to [`UNCERTAIN`]. The watcher judges its pauses by the lag of one update, which
/// takes milliseconds; a batch may take seconds.
fn times_are_known(batches: &[Batch], sightings: &[Sighting]) -> bool {
    let of = |batch: &Batch, seen: &Sighting| (seen.first..=seen.last).contains(&batch.marker);
    batches.iter().all(|batch| {
        sightings.iter().filter(|seen| of(batch, seen)).all(|seen| {
            seen.uncertainty() as f64 <= UNCERTAIN * seen.seen_at.saturating_sub(batch.began) as f64
        })
    })
}

/// Whether the primary's timer explains all but [`UNCERTAIN`] of `total`, the seconds that all batches took. A batch is sent when the one before
/// it is served. So each batch needs its own NOTIFY, and two NOTIFYs are at least [`NOTIFY_DELAY`] apart. Other trials on the same cores can
/// have prolonged the batches only by what the timer does not explain.
fn is_of_timer(total: f64, batches: &[Batch]) -> bool {
    let least = NOTIFY_DELAY * batches.len().saturating_sub(1) as f64;
    (least..=least / (1.0 - UNCERTAIN)).contains(&total)
}

/// Whether the secondaries serve all changes at the end. We look whether the primary accepted every message and the secondaries serve the last
/// batch. A batch that was not served in time came with a later one. `planned` has the number of messages of each batch.
fn all_served(batches: &[Batch], planned: &[u64]) -> bool {
    batches.iter().map(|batch| batch.accepted).eq(planned.iter().copied())
        && batches.last().is_some_and(|last| last.served().is_some())
}

/// Figures over all batches.
fn figures(result: &BatchesResult, bytes: &[(u64, u64)], stream: &Stream, record: &mut TrialRecord) {
    let batches = &result.batches;
    let served: Vec<Option<Nanos>> =
        batches.iter().map(|b| Some(b.served()?.saturating_sub(b.began).max(1))).collect();
    let (mut until_served, mut until_taken) = (Histogram::default(), Histogram::default());
    served.iter().flatten().for_each(|&took| until_served.record(took));
    batches.iter().for_each(|b| until_taken.record(b.taken.saturating_sub(b.began).max(1)));
    let outcome = &mut record.outcome;
    let mut add = |metric: Definition, value: f64| outcome.metrics.push(metric.of(value));
    let sum = |of: fn(&(u64, u64)) -> u64| bytes.iter().map(of).sum::<u64>() as f64;
    add(metrics::BATCHES_PLANNED, stream.messages.len() as f64);
    add(metrics::BATCHES, batches.len() as f64);
    add(metrics::BATCHES_SERVED, until_served.count() as f64);
    add(metrics::BATCHES_LOST, (stream.messages.len() as u64 - until_served.count()) as f64);
    add(metrics::BATCHES_RECORDS, result.send.records.accepted as f64);
    add(metrics::BATCHES_MESSAGES, result.send.accepted as f64);
    // Of a run that did not get to its end the octets, and below the time, would be of something else.
    if all_served(batches, &stream.messages) {
        add(metrics::BATCHES_BYTES, sum(|(out, back)| out + back));
        add(metrics::BATCHES_BYTES_OUT, sum(|(out, _)| *out));
        add(metrics::BATCHES_BYTES_BACK, sum(|(_, back)| *back));
        let each: Vec<f64> = bytes.iter().map(|(out, back)| (out + back) as f64).collect();
        if let Some(median) = stats::median(&each) {
            add(metrics::BATCH_BYTES_P50, median);
        }
    }
    let last = batches.iter().filter_map(Batch::served).max();
    if let (Some(first), Some(last), true) =
        (batches.first(), last, until_served.count() == stream.messages.len() as u64)
    {
        add(metrics::BATCHES_SECONDS, last.saturating_sub(first.began) as f64 / SECOND as f64);
    }
    for (percentiles, histogram) in [(metrics::BATCH, &until_served), (metrics::BATCH_TAKEN, &until_taken)] {
        if histogram.count() > 0 {
            outcome.metrics.extend(percentiles.of(&Latency::of(histogram)));
        }
    }
    if until_served.count() < stream.messages.len() as u64 {
        outcome.validity.warn(Reason::new(
            "batches_lost",
            format!(
                "{} of {} batches were not served in time ({} were begun): their updates may have come with a later one",
                grouped(stream.messages.len() as u64 - until_served.count()),
                grouped(stream.messages.len() as u64),
                grouped(batches.len() as u64)
            ),
        ));
    }
    outcome.histograms.push(Named::new("batch", until_served));
    outcome.histograms.push(Named::new("batch_taken", until_taken));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_divided_evenly_and_none_is_missing() {
        assert_eq!(divided(10, 4), [2, 3, 2, 3]);
        assert_eq!(divided(3, 288), [1, 1, 1]);
        assert_eq!(divided(1, 1), [1]);
        let many = divided(18_400, 288);
        assert_eq!((many.len(), many.iter().sum::<u64>()), (288, 18_400));
        assert!(many.iter().all(|n| (63..=64).contains(n)));
    }

    #[test]
    fn the_octets_of_batches_are_known_once_all_changes_are_served() {
        let batch =
            |accepted, seen| Batch { marker: 1, messages: 2, accepted, began: 0, taken: 1, seen: vec![seen] };
        let (served, late) = (Some(5), None);
        assert!(all_served(&[batch(2, served), batch(2, served)], &[2, 2]));
        assert!(all_served(&[batch(2, late), batch(2, served)], &[2, 2]), "it came with the second");
        assert!(!all_served(&[batch(2, served), batch(2, late)], &[2, 2]));
        assert!(!all_served(&[batch(1, served), batch(2, served)], &[2, 2]), "a message was lost");
        assert!(!all_served(&[batch(2, served)], &[2, 2]), "one was not begun");
        assert!(!all_served(&[], &[2, 2]));
    }

    #[test]
    fn a_total_is_that_of_the_timer_if_little_is_left_beside_it() {
        let batch =
            |marker| Batch { marker, messages: 1, accepted: 1, began: 0, taken: 1, seen: vec![Some(2)] };
        let batches: Vec<Batch> = (0..288).map(batch).collect();
        assert!(is_of_timer(1435.0, &batches) && is_of_timer(1449.4, &batches));
        assert!(!is_of_timer(1449.6, &batches), "more than 1 % may come from other trials");
        assert!(!is_of_timer(1434.9, &batches), "some batch did not wait for a NOTIFY");
        assert!(!is_of_timer(120.0, &batches[..24]), "a first batch that waits is too much of these");
        assert!(!is_of_timer(0.1, &batches[..1]) && !is_of_timer(0.1, &[]));
    }

    #[test]
    fn a_pause_of_the_watcher_matters_by_the_time_of_the_batch() {
        let batch =
            |marker, began| Batch { marker, messages: 1, accepted: 1, began, taken: began, seen: Vec::new() };
        let batches = [batch(1, 0), batch(2, 10 * SECOND)];
        let seen = |server, first, last, seen_at, late| Sighting {
            server,
            first,
            last,
            hidden_at: seen_at - late,
            seen_at,
        };
        let second = seen(0, 2, 2, 15 * SECOND, SECOND / 20);
        assert!(times_are_known(&batches, &[seen(0, 1, 1, 5 * SECOND, SECOND / 20), second]));
        assert!(!times_are_known(&batches, &[seen(0, 1, 1, 5 * SECOND, SECOND / 19), second]));
        // Of two batches that one transfer carried, the second took half the time.
        assert!(!times_are_known(&batches, &[seen(1, 1, 2, 12 * SECOND, SECOND / 20)]));
        assert!(times_are_known(&batches, &[]), "none was served");
    }

    #[test]
    fn changes_of_a_batch_share_messages_and_batches_share_none() {
        let folder = tempfile::tempdir().unwrap();
        let (from, to) = (folder.path().join("from"), folder.path().join("to"));
        let changes: String = (1..=7).map(|n| format!("update delete {n}. NS\nsend\n")).collect();
        std::fs::write(&from, format!("; a stream\nzone .\n{changes}")).unwrap();
        assert_eq!(together(&from, &to, &[3, 4], 2).unwrap(), [2, 2]);
        let text = std::fs::read_to_string(&to).unwrap();
        let numbers = |message: &str| -> Vec<u32> {
            message
                .lines()
                .filter_map(|l| l.strip_prefix("update delete ")?.strip_suffix(". NS")?.parse().ok())
                .collect()
        };
        let messages: Vec<_> = text.split("send\n").map(numbers).filter(|m| !m.is_empty()).collect();
        assert_eq!(messages, [vec![1, 2], vec![3], vec![4, 5], vec![6, 7]]);
    }
}
