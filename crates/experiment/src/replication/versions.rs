//! The versions of a real zone as updates: what each costs on its way to the secondaries, and how soon it is there.
//!
//! Each version is one message, its SOA in it; what is served after it has the version's own serial. A marker goes with it, two
//! records more, by which it is seen at each secondary.

use super::fleet::Fleet;
use super::running_updates::RunningUpdates;
use crate::Error;
use crate::config::Signing;
use crate::run_context::RunContext;
use crate::system_under_test::SystemUnderTest;
use agent::Axfr;
use measure::clock::SECOND;
use measure::metrics::{self, Definition};
use measure::{Arrivals, Histogram, Nanos, Outcome, Pace, Reason};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::net::SocketAddr;
use std::path::PathBuf;
use trace::transfers::Transfers;
use update::generate::{SeriesSpec, Step, series};
use update::send::SendSpec;
use update::{Marker, SendTransport, TransferSpec, WatchResult, lags};
use wire::transfer::Kind;

/// How long an AXFR may take.
const TRANSFER: Nanos = 60 * SECOND;

/// Versions on their way.
pub struct Versions {
    /// When the first was due: the wall clock of the generator's machine.
    pub began: Nanos,
    /// The zone files, the one that is served first among them.
    files: Vec<PathBuf>,
    dnssec: bool,
    steps: Vec<Step>,
    /// The file with each message's outcome.
    fates: PathBuf,
    /// The secondaries' hosts and servers.
    secondaries: Vec<(String, String, SocketAddr)>,
    primary: SocketAddr,
    key: update::TsigKey,
    origin: String,
    /// Where the lags of all versions go.
    table: PathBuf,
}

impl SystemUnderTest<'_> {
    /// Begins to send the experiment's versions, one per interval, to watch and to capture.
    pub fn send_versions(&self, fleet: &Fleet<'_>) -> Result<RunningUpdates, Error> {
        let e = self.context.experiment;
        let given = &e.updates;
        let file = self.dir.join("updates.txt");
        let mut out = BufWriter::new(File::create(&file).map_err(Error::io(&file))?);
        let dnssec = fleet.signing() == Signing::Sent;
        let spec = SeriesSpec {
            whole: true,
            dnssec,
            marker: true,
            ..SeriesSpec::new(&self.zone.file, given.series.clone())
        };
        let made = series(&spec, &mut out, &mut |_| {})?;
        out.flush().map_err(Error::io(&file))?;
        let every = given.every.0;
        let primary = fleet.primary_address();
        let fates = self.dir.join("messages.csv");
        let spec = SendSpec {
            key: Some(fleet.key.clone()),
            // Any version fits, and none is cut into fragments.
            transport: SendTransport::Tcp,
            deadline: (10 * SECOND).min(every.max(4 * SECOND)),
            pacing_limit: measure::limits::LAG_LIMIT,
            latencies: Some(fates.clone()),
            allowed: self.context.allowed(),
            ..SendSpec::new(primary, file, pace(&made.steps, every))
        };
        let labels = fleet.labels(&self.spec.label);
        let named = |((name, at), label): ((String, SocketAddr), String)| (name, label, at);
        let versions = Versions {
            began: 0,
            files: std::iter::once(self.zone.file.clone()).chain(given.series.clone()).collect(),
            dnssec,
            steps: made.steps,
            fates,
            secondaries: fleet.secondaries().into_iter().zip(labels).map(named).collect(),
            primary,
            key: fleet.key.clone(),
            origin: self.zone.origin.clone(),
            table: self.dir.join("versions.csv"),
        };
        self.begin(fleet, Some(&spec), Some(versions))
    }
}

/// A version each `every`; the messages of one that takes several are evenly spread over its time.
fn pace(steps: &[Step], every: Nanos) -> Pace {
    let rate = |n: u64| n as f64 * SECOND as f64 / every as f64;
    Pace::Open(match steps.iter().all(|step| step.transactions == 1) {
        true => Arrivals::Fixed { rate: rate(1) },
        false => Arrivals::Steps { rates: steps.iter().map(|s| rate(s.transactions)).collect(), each: every },
    })
}

impl Versions {
    /// A marker for each version, as its last message was sent and answered.
    pub fn markers(&self, context: &RunContext<'_>) -> Result<Vec<Marker>, Error> {
        context.generators[0].fetch(&self.fates)?;
        let text = std::fs::read_to_string(&self.fates).map_err(Error::io(&self.fates))?;
        let mut fates = BTreeMap::new();
        for line in text.lines().skip(1) {
            let fields: Vec<&str> = line.split(',').collect();
            let field = |n: usize| fields.get(n).copied().unwrap_or_default();
            let at = |us: Option<f64>| us.map(|us| self.began.saturating_add_signed((us * 1e3) as i64));
            let us = |n: usize| field(n).parse::<f64>().ok();
            let Ok(number) = field(0).parse::<u64>() else { continue };
            let answered = us(3).zip(us(5)).map(|(sent, took)| sent + took);
            let rcode = Some(field(6).to_owned()).filter(|code| !code.is_empty());
            let marker = Marker {
                intended: at(us(2)).unwrap_or(0),
                sent: at(us(3)),
                acknowledged: at(answered),
                rcode,
                ..Marker::default()
            };
            fates.insert(number, marker);
        }
        let mut messages = 0;
        let last = |step: &Step| {
            messages += step.transactions;
            messages - 1
        };
        let markers = (1..).zip(self.steps.iter().map(last));
        Ok(markers
            .map(|(number, message)| Marker { number, ..fates.remove(&message).unwrap_or_default() })
            .collect())
    }

    /// Records the octets that carried each version, beside the size of the difference, and the lag of each version.
    /// `markers` are those of the versions that the primary took.
    pub fn tell(
        &self,
        context: &RunContext<'_>,
        markers: &[Marker],
        watched: &WatchResult,
        found: &Transfers,
        outcome: &mut Outcome,
    ) -> Result<(), Error> {
        let (versions, taken) = (self.steps.len() as f64, markers.len() as f64);
        let mut add = |metric: Definition, value: f64| outcome.metrics.push(metric.of(value));
        let records: u64 = self.steps.iter().map(|s| s.deleted + s.added).sum();
        add(metrics::VERSIONS, versions);
        add(metrics::VERSIONS_TAKEN, taken);
        add(metrics::VERSION_RECORDS, records as f64 / versions);
        let calculated = self.calculated()?;
        add(metrics::VERSION_IXFR_RECKONED, calculated as f64 / versions);
        let ixfr = || found.transfers.iter().filter(|t| t.kind == Some(Kind::Ixfr) && t.complete);
        let followed = self.secondaries.iter().filter(|(_, _, at)| ixfr().any(|t| t.client.ip() == at.ip()));
        let followed = followed.count() as f64;
        if followed > 0.0 && taken > 0.0 {
            let each = |sum: u64| sum as f64 / followed / taken;
            add(metrics::IXFR_BYTES_PER_VERSION, each(ixfr().map(|t| t.tcp_bytes).sum()));
            add(metrics::IXFR_RECORDS_PER_VERSION, each(ixfr().map(|t| t.deletions + t.additions).sum()));
        }
        add(metrics::IXFR_SECONDARIES, followed);
        if let Some(axfr) = self.axfr(context)? {
            add(metrics::AXFR_BYTES, axfr as f64);
            add(metrics::VERSION_TO_AXFR, 100.0 * calculated as f64 / versions / axfr as f64);
        }
        for (label, lag) in self.by_server(markers, watched) {
            outcome.metrics.push(metrics::LAG_OF_KIND_P50.of(label, lag.quantile(0.5) as f64 / 1e3));
            outcome.metrics.push(metrics::LAG_OF_KIND_MAX.of(label, lag.max() as f64 / 1e3));
        }
        self.write(markers, watched)?;
        if taken < versions {
            let text = format!(
                "{} of {} versions were not taken by the primary: see update_rcode_… and its log; a server may refuse records of DNSSEC in \
                 updates",
                versions - taken,
                versions
            );
            outcome.validity.warn(Reason::new("versions_refused", text));
        }
        Ok(())
    }

    /// Octets of IXFRs that carry all steps, as they would be made in a perfect world.
    fn calculated(&self) -> Result<u64, Error> {
        let mut sum = 0;
        for pair in self.files.windows(2) {
            let diff = zone::diff(&pair[0], &pair[1], &mut |_| {})?;
            let ixfr = if self.dnssec { diff.ixfr } else { diff.ixfr_without_dnssec };
            sum += ixfr.message_octets;
        }
        Ok(sum)
    }

    /// TCP payload of a whole transfer of what the primary has now; none where it gives none.
    fn axfr(&self, context: &RunContext<'_>) -> Result<Option<u64>, Error> {
        let spec = TransferSpec {
            key: Some(self.key.clone()),
            timeout: TRANSFER,
            allow_external: true,
            ..TransferSpec::new(self.primary, &self.origin)
        };
        let result = context.generators[0].ask(Axfr { spec })?;
        Ok(result.complete.then_some(result.tcp_bytes))
    }

    /// Lags by kind of server.
    fn by_server(&self, markers: &[Marker], watched: &WatchResult) -> BTreeMap<&str, Histogram> {
        let mut all: BTreeMap<&str, Histogram> = BTreeMap::new();
        for lags in lags(markers, |m| m.sent, watched).iter().filter(|l| l.seen > 0) {
            if let Some((_, label, _)) = self.secondaries.iter().find(|(name, ..)| *name == lags.name) {
                all.entry(label).or_default().merge(&lags.lag);
            }
        }
        all
    }

    /// A line for each version at each secondary.
    fn write(&self, markers: &[Marker], watched: &WatchResult) -> Result<(), Error> {
        let mut text = "serial,deleted,added,messages,secondary,server,lag_us,known_to_us\n".to_owned();
        for marker in markers {
            let step = &self.steps[marker.number as usize - 1];
            let seen = lags(std::slice::from_ref(marker), |m| m.sent, watched);
            for (lags, (name, label, _)) in seen.iter().zip(&self.secondaries) {
                let us =
                    |ns: Nanos| if lags.seen > 0 { format!("{:.1}", ns as f64 / 1e3) } else { String::new() };
                let Step { to, deleted, added, transactions, .. } = step;
                text += &format!(
                    "{to},{deleted},{added},{transactions},{name},{label},{},{}\n",
                    us(lags.greatest),
                    us(lags.error_max)
                );
            }
        }
        std::fs::write(&self.table, text).map_err(Error::io(&self.table))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(transactions: u64) -> Step {
        Step { transactions, ..Step::default() }
    }

    #[test]
    fn a_version_has_its_time_whatever_its_messages() {
        assert_eq!(pace(&[step(1), step(1)], 2 * SECOND), Pace::Open(Arrivals::Fixed { rate: 0.5 }));
        let uneven = Arrivals::Steps { rates: vec![0.5, 2.0], each: 2 * SECOND };
        assert_eq!(pace(&[step(1), step(4)], 2 * SECOND), Pace::Open(uneven));
    }
}
