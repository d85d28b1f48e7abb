//! The monitor host's part: what a capture at the server's end of the link says of a load, beside what the generator says
//! (RZAIA measured its latencies there).

use crate::Error;
use crate::system_under_test::SystemUnderTest;
use agent::{Agent, Capture, StartCapture};
use load::Latency;
use measure::metrics;
use measure::{Histogram, Named, Nanos, Reason};
use results::TrialRecord;
use std::path::{Path, PathBuf};
use trace::pair::Pairs;
use trace::read::{Options, Reader};

/// Queries that the two counts may differ by: those at the ends of the window, whose clocks are two.
const AT_THE_ENDS: f64 = 5.0;

/// A capture while a load goes on.
pub struct Witness {
    capture: Capture,
    file: PathBuf,
}

/// The measurements of the witness.
#[derive(Debug, Default, PartialEq)]
struct Seen {
    queries: u64,
    answers: u64,
    latency: Histogram,
}

impl SystemUnderTest<'_> {
    /// Begins to capture at the server, where the experiment asks for it; what stands in the way is a warning.
    pub fn witness(&self, record: &mut TrialRecord) -> Option<Witness> {
        let context = self.context;
        if !context.experiment.latency.witness {
            return None;
        }
        let file = self.dir.join("witness.pcap");
        let started = match self.spec.external {
            Some(_) => Err("the server is on no host of the rack".to_owned()),
            None => {
                let what = StartCapture {
                    device: context.server.host.device.clone(),
                    filter: "udp port 53".into(),
                    cpus: context.monitor_cpus.to_vec(),
                    file: file.clone(),
                    said: self.dir.join("tcpdump.log"),
                };
                Capture::start(context.server, what).map_err(|e| e.to_string())
            }
        };
        match started {
            Ok(capture) => Some(Witness { capture, file }),
            Err(why) => {
                record
                    .outcome
                    .validity
                    .warn(Reason::new("no_witness", format!("no capture at the server: {why}")));
                None
            }
        }
    }
}

impl Witness {
    /// Ends the capture, and adds what it says of the queries of a window (the generator's wall clock) to the record: how many, from
    /// each to its answer how long. A count other than the generator's is a warning. The capture is not kept.
    pub fn testify(
        self,
        generator: &Agent,
        (from, to): (Nanos, Nanos),
        record: &mut TrialRecord,
    ) -> Result<(), Error> {
        let captured = self.capture.finish(generator)?;
        let seen = read(&self.file, from, to)?;
        std::fs::remove_file(&self.file).map_err(Error::io(&self.file))?;
        let outcome = &mut record.outcome;
        outcome.metrics.extend([
            metrics::WITNESS_QUERIES.count(seen.queries),
            metrics::WITNESS_ANSWERS.count(seen.answers),
            metrics::WITNESS_DROPPED.count(captured.dropped),
        ]);
        if captured.dropped > 0 {
            outcome.validity.warn(Reason::new(
                "witness_incomplete",
                format!("the capture at the server lacks {} packets", captured.dropped),
            ));
        } else if let Some(sent) =
            outcome.metric(metrics::SENT).filter(|sent| differs(*sent, seen.queries as f64))
        {
            outcome.validity.warn(Reason::new(
                "witness_differs",
                format!(
                    "the generator says that it sent {sent} queries, the capture at the server has {}",
                    seen.queries
                ),
            ));
        }
        if seen.latency.count() > 0 {
            outcome.metrics.extend(metrics::WITNESS_LATENCY.of(&Latency::of(&seen.latency)));
        }
        outcome.histograms.push(Named::new("witness_latency", seen.latency));
        Ok(())
    }
}

fn differs(sent: f64, seen: f64) -> bool {
    (sent - seen).abs() > AT_THE_ENDS.max(sent / 10_000.0)
}

/// The queries captured in a window, and the answers to them whenever.
fn read(file: &Path, from: Nanos, to: Nanos) -> Result<Seen, Error> {
    let mut reader = Reader::open(&[file.to_owned()], &Options::default())?;
    let (mut pairs, mut seen) = (Pairs::default(), Seen::default());
    while let Some(message) = reader.next()? {
        pairs.expire(message.at, |()| {});
        if message.header().qr() {
            if let Some(((), after)) = pairs.answer(&message) {
                seen.answers += 1;
                seen.latency.record(after);
            }
        } else if (from..to).contains(&message.at) {
            seen.queries += 1;
            pairs.query(&message, ());
        }
    }
    Ok(seen)
}
