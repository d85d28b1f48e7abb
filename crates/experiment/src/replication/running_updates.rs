//! A distribution at work: updates to its primary, each secondary watched for them, transfers captured.

use super::fleet::Fleet;
use super::outage::Outage;
use super::paths;
use super::steps::Steps;
use super::versions::Versions;
use crate::run_context::{PORT, RunContext};
use crate::second_count::Counting;
use crate::system_under_test::SystemUnderTest;
use crate::{Error, RunEvent};
use agent::Capture;
use measure::clock::SECOND;
use measure::metrics::{self, Definition, Scope};
use measure::{Arrivals, Event, Files, Histogram, Latency, Named, Nanos, Outcome, Pace, Reason, Seed};
use rack::{Captured, Role};
use results::TrialRecord;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use trace::transfers::Transfers;
use update::generate;
use update::send::{MarkerSpec, SendResult, SendSpec};
use update::watch::{WatchResult, WatchSpec, Watched};
use update::{Lags, lags};

/// How long a role may take to be ready: a stream of updates is read first.
const READY: Duration = Duration::from_secs(60);

/// The steps of a lag are seen by two clocks, which may be wrong by so many nanoseconds beside each other.
const CLOCKS: Nanos = 1_000_000;

/// How long a role may take to tell its results once it was asked to.
const RESULTS: Duration = Duration::from_secs(30);

/// A capture filter for the traffic between servers: transfers over TCP, and NOTIFY (opcode 4) over UDP.
const BETWEEN_SERVERS: &str = "tcp port 53 or (udp port 53 and udp[10] & 0x78 = 0x20)";

/// Updates under way.
pub struct RunningUpdates {
    /// None: the zone stays as it is.
    sender: Option<Role>,
    /// The updates that arrive at the primary.
    counted: Counting,
    watcher: Role,
    capture: Capture,
    file: PathBuf,
    /// Where the servers are that are watched.
    secondaries: Vec<SocketAddr>,
    /// Whether the capture stays.
    keep: bool,
    /// How long the last marker is waited for.
    patience: Duration,
    /// Where versions are sent.
    versions: Option<Versions>,
}

impl SystemUnderTest<'_> {
    /// Makes a stream of so many updates for the zone, or those of the experiment's series of zones.
    fn stream(&self, sign: Option<generate::Signing>, count: u64) -> Result<PathBuf, Error> {
        let (given, file) = (&self.context.experiment.updates, self.dir.join("updates.txt"));
        let (zone, batch) = (self.zone.file.clone(), given.batch);
        let mut out = BufWriter::new(File::create(&file).map_err(Error::io(&file))?);
        match given.series.as_slice() {
            [] => {
                let mix = given.mix()?;
                let seed = self.zone.seed;
                let spec = generate::Spec { zone, mix, count, batch, prerequisites: false, seed, sign };
                generate::generate(&spec, &mut out, &mut |_| {})?;
            }
            to => {
                let spec = generate::SeriesSpec { batch, ..generate::SeriesSpec::new(zone, to.to_vec()) };
                generate::series(&spec, &mut out, &mut |_| {})?;
            }
        }
        out.flush().map_err(Error::io(&file))?;
        Ok(file)
    }

    /// A role on the first generator, ready to begin.
    pub fn role(&self, name: &str, spec: &(impl serde::Serialize + Files + Clone)) -> Result<Role, Error> {
        let (context, log) = (self.context, self.dir.join(format!("{name}.log")));
        let generator = &context.generators[0];
        let mut role = generator.role(name, spec, &generator.host.cpus, &log)?;
        role.ready(READY)?;
        Ok(role)
    }

    /// So many updates for a primary, at a pace.
    pub fn sending(&self, fleet: &Fleet<'_>, count: u64, pace: Pace) -> Result<SendSpec, Error> {
        Ok(fleet.sending(self.stream(fleet.signed_by_sender(), count)?, pace))
    }

    /// Begins to capture at the primary what passes between servers.
    pub fn between_servers(&self, fleet: &Fleet<'_>, file: &Path) -> Result<Capture, Error> {
        paths::capture(self.context, fleet.primary(), BETWEEN_SERVERS, file, &self.dir.join("tcpdump.log"))
    }

    /// Begins to send updates at a rate (at 0 none), to watch all secondaries and to capture what passes between servers. Beside
    /// another load they go on until they are ended. `seed`: of the instants of its markers, another one in each trial.
    ///
    /// # Errors
    /// The errors of the roles and of the capture.
    pub fn start_updates(
        &self,
        fleet: &Fleet<'_>,
        rate: f64,
        alone: bool,
        seed: Seed,
    ) -> Result<RunningUpdates, Error> {
        let e = self.context.experiment;
        let mut spec = None;
        if rate > 0.0 {
            // A load beside it may go on for longer than the updates alone would.
            let given = e.updates.duration.0;
            let longest = if alone { given } else { 10 * given };
            let count = (rate * longest as f64 / SECOND as f64).ceil() as u64 + 1;
            let pace = Pace::Open(Arrivals::Fixed { rate: rate / f64::from(e.updates.batch) });
            let every = e.updates.marker.0;
            spec = Some(SendSpec {
                marker: Some(MarkerSpec { name: None, every, first: 1, scattered: Some(seed) }),
                duration: Some(longest),
                // Lags count from the sending itself, and updates are few.
                pacing_limit: measure::limits::LAG_LIMIT,
                ..self.sending(fleet, count, pace)?
            });
        }
        self.begin(fleet, spec.as_ref(), None)
    }

    /// Begins to send what there is to send, to watch and to capture.
    pub fn begin(
        &self,
        fleet: &Fleet<'_>,
        spec: Option<&SendSpec>,
        mut versions: Option<Versions>,
    ) -> Result<RunningUpdates, Error> {
        let e = self.context.experiment;
        let file = self.dir.join("transfers.pcap");
        let capture = self.between_servers(fleet, &file)?;
        let named = |(name, address): (String, _)| Watched { name, address };
        let servers: Vec<Watched> = fleet.secondaries().into_iter().map(named).collect();
        let secondaries = servers.iter().map(|s| s.address).collect();
        let mut watch = WatchSpec::new(servers, &self.zone.origin);
        watch.interval = e.updates.interval.0;
        // They are hosts of the rack.
        watch.allow_external = self.context.generators[0].is_elsewhere();
        let mut roles = vec![self.role("watch", &watch)?];
        if let Some(spec) = spec {
            roles.push(self.role("update", spec)?);
        }
        let counted = Counting::updates(e, fleet.primary())?;
        let at = measure::clock::wall() + self.context.start_delay();
        if let Some(versions) = &mut versions {
            versions.began = self.context.at_generator(at)?;
        }
        for role in &mut roles {
            role.start_at(at)?;
        }
        let sender = (roles.len() > 1).then(|| roles.pop()).flatten();
        let watcher = roles.pop().expect("it was just started");
        let patience = Duration::from(e.updates.patience);
        let keep = fleet.plan().keep_capture;
        Ok(RunningUpdates { sender, counted, watcher, capture, file, secondaries, keep, patience, versions })
    }
}

impl RunningUpdates {
    /// Ends the updates, waits until each secondary has shown the last of them, and adds what came of it to the record.
    pub fn end(
        mut self,
        context: &RunContext<'_>,
        absence: Option<&Outage>,
        record: &mut TrialRecord,
        tell: &mut dyn FnMut(RunEvent),
    ) -> Result<(), Error> {
        let mut result: Option<SendResult> = self.sender.map(finish).transpose()?;
        if let (Some(versions), Some(result)) = (&self.versions, &mut result) {
            result.markers = versions.markers(context)?;
        }
        let markers = result.iter().flat_map(|r| &r.markers);
        let last = markers.filter(|m| m.acknowledged.is_some()).map(|m| m.number).max();
        let until = Instant::now() + self.patience;
        let (mut told, secondaries) = (None, self.secondaries.len());
        while let (Some(last), true) = (last, Instant::now() < until) {
            context.goes_on()?;
            if let Some(Event::Progress { values, .. }) = self.watcher.next(Duration::from_millis(200))? {
                let newest: Vec<u64> = newest(&values);
                let missing = newest.iter().filter(|n| **n < last).count();
                if missing == 0 {
                    break;
                }
                // They usually need a moment, and the line is of use only where their number changes.
                if told.replace(missing) != Some(missing) {
                    let text =
                        format!("waiting for {missing} of {secondaries} secondaries to show the last update");
                    tell(RunEvent::Second { text });
                }
            }
        }
        let watched: WatchResult = finish(self.watcher)?;
        let clock_error = context.generators[0].clock_error(self.capture.agent())?;
        let captured = self.capture.finish(&context.generators[0])?;
        let found = trace::transfers::collect(std::slice::from_ref(&self.file), &[PORT], 1, &mut |_| {})?;
        let updates = result.as_ref().map_or(0, |r| r.accepted);
        if let Some(result) = &result {
            let markers = taken(result);
            sent(result, &mut record.outcome);
            self.counted.end_of_updates(result, &mut record.outcome)?;
            let mut all = lags(&markers, |marker| marker.sent, &watched);
            if let Some(absence) = absence {
                absence.tell(&markers, &watched, &found, &mut record.outcome);
                // Its lags are those of its absence.
                all.retain(|lags| lags.name != absence.name);
            }
            lagged(&all, &mut record.outcome);
            if clock_error <= CLOCKS {
                let steps = Steps::of(&markers, &watched, &self.secondaries, &found);
                record.outcome.metrics.extend(steps.metrics());
            } else {
                let text = format!(
                    "the clocks of the primary's and the generator's machine are known beside each other within {:.1} ms only: the steps \
                     of the lag are left out",
                    clock_error as f64 / 1e6
                );
                record.outcome.validity.warn(Reason::new("clocks_apart", text));
            }
            if let Some(versions) = &self.versions {
                versions.tell(context, &markers, &watched, &found, &mut record.outcome)?;
            }
        }
        seen(&watched, &mut record.outcome);
        carried(&found, &captured, updates, &mut record.outcome);
        forget(&self.file, self.keep, record)
    }
}

/// Removes a capture that was read: it is kept where that is asked for, and where the trial is invalid.
pub fn forget(capture: &Path, keep: bool, record: &TrialRecord) -> Result<(), Error> {
    match keep || !record.outcome.validity.valid {
        true => Ok(()),
        false => std::fs::remove_file(capture).map_err(Error::io(capture)),
    }
}

/// Asks a role to stop, and takes what it says at last.
pub fn finish<T: DeserializeOwned>(mut role: Role) -> Result<T, Error> {
    role.stop();
    let until = Instant::now() + RESULTS;
    while Instant::now() < until {
        if let Some(Event::Done { result }) = role.next(Duration::from_millis(200))? {
            return read(result);
        }
    }
    Err(Error::Machine("a role does not end".into()))
}

/// A role's result.
pub fn read<T: DeserializeOwned>(result: Value) -> Result<T, Error> {
    serde_json::from_value(result)
        .map_err(|e| Error::Machine(format!("a role's result is not of this version of dnsrack: {e}")))
}

/// A second of sending, in words.
pub fn progress(values: &Value) -> String {
    let value_of = |figure: Definition| figure.among(values).unwrap_or(0.0);
    format!(
        "{:.0} updates accepted/s, p99 {:.1} ms",
        value_of(metrics::ACCEPTED_UPS),
        value_of(metrics::LATENCY.p99) / 1e3
    )
}

/// The newest marker of each server that is watched.
fn newest(values: &Value) -> Vec<u64> {
    let servers = values["servers"].as_array().into_iter().flatten();
    servers.map(|server| server["marker"].as_u64().unwrap_or(0)).collect()
}

/// The markers that a server took.
fn taken(result: &SendResult) -> Vec<update::Marker> {
    result.markers.iter().filter(|m| m.rcode.as_deref() == Some("NOERROR")).cloned().collect()
}

/// Records how the updates were answered. Names begin with `update_`, as a load's own figures may stand beside them.
pub fn sent(result: &SendResult, outcome: &mut Outcome) {
    let Outcome { metrics, histograms, validity } = result.outcome();
    outcome.metrics.extend(metrics.into_iter().map(|m| m.within(Scope::Updates)));
    let named = |h: Named<Histogram>| Named::new(format!("{}{}", Scope::Updates.prefix(), h.name), h.value);
    outcome.histograms.extend(histograms.into_iter().map(named));
    // We end it ourselves, where it goes on beside a load.
    let mut validity = validity;
    validity.warnings.retain(|reason| reason.code != "cut_short");
    outcome.validity.merge(validity);
}

/// Lags over all secondaries, and of each.
fn lagged(all: &[Lags], outcome: &mut Outcome) {
    let mut together = Histogram::default();
    let mut own = Vec::new();
    let mut add = |metric: Definition, value: f64| outcome.metrics.push(metric.of(value));
    let sum = |of: fn(&Lags) -> u64| all.iter().map(of).sum::<u64>() as f64;
    add(metrics::MARKERS_SEEN, sum(|l| l.seen));
    add(metrics::MARKERS_COALESCED, sum(|l| l.coalesced));
    add(metrics::MARKERS_LOST, sum(|l| l.lost));
    add(metrics::MARKERS_CUT_OFF, sum(|l| l.cut_off));
    add(metrics::MARKERS_UNCERTAIN, sum(|l| l.uncertain));
    add(metrics::LAG_ERROR_MAX, all.iter().map(|l| l.error_max).max().unwrap_or(0) as f64 / 1e3);
    for one in all.iter().filter(|l| l.lag.count() > 0) {
        own.push(metrics::LAG_OF_SECONDARY_P50.of(&one.name, one.lag.quantile(0.5) as f64 / 1e3));
        own.push(metrics::LAG_OF_SECONDARY_MAX.of(&one.name, one.greatest as f64 / 1e3));
        together.merge(&one.lag);
    }
    outcome.metrics.extend(own);
    if together.count() > 0 {
        outcome.metrics.extend(metrics::LAG.of(&Latency::of(&together)));
        outcome.metrics.push(metrics::LAG_MEAN.of(together.mean() / 1e3));
    }
    outcome.histograms.push(Named::new("lag", together));
}

/// Records how well the watcher kept its pace, and which serials went back.
pub fn seen(watched: &WatchResult, outcome: &mut Outcome) {
    let mut add = |metric: Definition, value: f64| outcome.metrics.push(metric.of(value));
    let sum =
        |of: fn(&update::watch::ServerResult) -> u64| watched.servers.iter().map(of).sum::<u64>() as f64;
    add(metrics::SERIAL_WENT_BACK, sum(|s| s.serial_went_back));
    add(metrics::MARKER_WENT_BACK, sum(|s| s.marker_went_back));
    add(metrics::WATCH_QPS_PER_SERVER, watched.own.qps_per_server);
    add(metrics::WATCH_LOST, watched.own.lost as f64);
    add(metrics::WATCH_CPU, watched.own.cpu * 100.0);
    outcome.validity.merge(watched.validity.clone());
}

/// Records the transfers and NOTIFYs between the primary and its secondaries.
pub fn carried(found: &Transfers, captured: &Captured, updates: u64, outcome: &mut Outcome) {
    use wire::transfer::Kind;
    let transfers_of = |kind: Kind| found.transfers.iter().filter(move |t| t.kind == Some(kind));
    let whole = transfers_of(Kind::Axfr).count() + transfers_of(Kind::AxfrForIxfr).count();
    let bytes: u64 = found.transfers.iter().filter_map(|t| Some(t.ip_bytes? / t.on_connection.max(1))).sum();
    let versions: u64 = transfers_of(Kind::Ixfr).map(|t| t.deltas).sum();
    let mut add = |metric: Definition, value: f64| outcome.metrics.push(metric.of(value));
    add(metrics::IXFR_TRANSFERS, transfers_of(Kind::Ixfr).count() as f64);
    add(metrics::AXFR_TRANSFERS, whole as f64);
    add(metrics::AXFR_INSTEAD_OF_IXFR, transfers_of(Kind::AxfrForIxfr).count() as f64);
    add(metrics::TRANSFERS_BROKEN, found.transfers.iter().filter(|t| !t.complete).count() as f64);
    add(metrics::TRANSFER_BYTES, bytes as f64);
    add(metrics::NOTIFIES, found.notifies.len() as f64);
    if transfers_of(Kind::Ixfr).count() > 0 {
        add(metrics::VERSIONS_PER_TRANSFER, versions as f64 / transfers_of(Kind::Ixfr).count() as f64);
    }
    if updates > 0 {
        add(metrics::TRANSFER_BYTES_PER_UPDATE, bytes as f64 / updates as f64);
    }
    if captured.dropped > 0 || found.holes > 0 {
        outcome.validity.warn(Reason::new(
            "capture_incomplete",
            format!(
                "the capture at the primary lacks {} packets and has {} holes: transfers and their bytes are more than it says",
                captured.dropped, found.holes
            ),
        ));
    }
}
