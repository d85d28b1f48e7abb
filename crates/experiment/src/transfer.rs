//! A secondary's first transfer of the whole zone (RZAIA 5.1).

use crate::fleet::{Fleet, Others, note_urged};
use crate::stage::Stage;
use crate::{Error, Happening, trial};
use measure::clock::SECOND;
use measure::{Metric, Reason};
use results::TrialRecord;
use std::time::Instant;
use trace::transfers::{self, ZoneTransfer};

impl Stage<'_> {
    /// Starts the primary, captures there, starts one secondary without data, and waits until that serves the zone.
    pub fn transfer(
        &self,
        fleet: &Fleet<'_>,
        record: &mut TrialRecord,
        tell: &mut dyn FnMut(Happening),
    ) -> Result<(), Error> {
        let bench = self.bench;
        let patience = trial::patience(bench.experiment, self.zone)?;
        let primary_is_measured = fleet.primary().name == bench.server.name;
        let start = || -> Result<_, Error> {
            let mut server =
                server::start(bench.launcher, bench.server, self.spec, &self.dir.join("server"))?
                    .heeding(bench.stop);
            let took = server.ready(&self.zone.probe, patience)?;
            Ok((server, took))
        };
        let mut others = Others { primary: fleet.start_primary()?, ..Others::default() };
        let early = if primary_is_measured { Some(start()?) } else { None };
        let file = self.dir.join("transfer.pcap");
        let capture = self.between_servers(fleet, &file)?;
        let began = Instant::now();
        let (server, ready) = match early {
            Some(early) => {
                others.secondaries = fleet.start_secondaries(self.spec.label.as_str())?;
                early
            }
            None => start()?,
        };
        let served = began.elapsed();
        tell(Happening::Ready { seconds: served.as_secs_f64() });
        others.secondaries.iter().chain([&server]).for_each(|server| note_urged(server, &mut record.outcome));
        let captured = capture.finish()?;
        record.params.push(("version".into(), server.version().into()));
        let found = transfers::collect(std::slice::from_ref(&file), &[trial::PORT], 1, &mut |_| {})?;
        std::fs::remove_file(&file).map_err(Error::io(&file))?;
        let whole = |t: &&ZoneTransfer| t.complete && t.records > 2;
        let metrics = &mut record.outcome.metrics;
        metrics.push(Metric::new("server_ready", "s", ready.as_secs_f64()));
        metrics.push(Metric::new("transfer_served", "s", served.as_secs_f64()));
        metrics.extend(crate::sampling::memory(&server.pids()));
        match found.transfers.iter().find(whole) {
            Some(transfer) => metrics.extend(figures(transfer, self.zone.probe.bytes)),
            None => {
                let text = format!(
                    "the secondary serves the zone, but the capture at the primary has no whole transfer of it ({} dropped)",
                    captured.dropped
                );
                record.outcome.validity.reject(Reason::new("no_transfer_captured", text));
            }
        }
        if captured.dropped > 0 {
            let text =
                format!("the capture at the primary lacks {} packets: bytes are more", captured.dropped);
            record.outcome.validity.reject(Reason::new("capture_incomplete", text));
        }
        others.stop()?;
        record.outcome.metrics.extend(trial::end(bench, server, self.spec, Ok(()))?);
        Ok(())
    }
}

/// What a transfer was, beside a zone file of so many bytes.
fn figures(transfer: &ZoneTransfer, file: u64) -> Vec<Metric> {
    let seconds = |ns: u64| ns as f64 / SECOND as f64;
    let end = transfer.end_ns.unwrap_or(transfer.start_ns);
    let mut all = vec![
        Metric::new("transfer_seconds", "s", seconds(end.saturating_sub(transfer.start_ns))),
        Metric::new("transfer_messages", "1", transfer.messages as f64),
        Metric::new("transfer_records", "1", transfer.records as f64),
        Metric::new("transfer_dns_bytes", "B", transfer.dns_bytes as f64),
        Metric::new("transfer_tcp_bytes", "B", transfer.tcp_bytes as f64),
    ];
    if let Some(bytes) = transfer.ip_bytes {
        all.push(Metric::new("transfer_bytes", "B", bytes as f64));
        if file > 0 {
            all.push(Metric::new("transfer_to_file", "%", 100.0 * bytes as f64 / file as f64));
        }
    }
    all
}
