//! A secondary's first transfer of the whole zone (RZAIA 5.1).

use super::{Measurement, Part, Run, ZoneChanges};
use crate::meter::{AtWork, reject_disturbed};
use crate::replication::fleet::{Fleet, OtherServers, note_urged};
use crate::replication::{paths, running_updates};
use crate::run_context;
use crate::system_under_test::SystemUnderTest;
use crate::zones::Prepared;
use crate::{Error, RunEvent};
use agent::{Axfr, Server};
use measure::clock::SECOND;
use measure::metrics;
use measure::units::grouped;
use measure::{Metric, Reason, params};
use results::TrialRecord;
use std::net::IpAddr;
use std::path::Path;
use std::time::Instant;
use trace::octets;
use trace::transfers::{self, Transfers, ZoneTransfer};
use update::TransferSpec;

pub const MEASUREMENT: Measurement = Measurement {
    part: Part::OneOfSeveral,
    changes: ZoneChanges::None,
    has_variants: true,
    params: |_, _| Vec::new(),
    seconds: |e, trial, of| {
        of.start + paths::transfer_seconds(e.distribution_of(trial.variant.as_deref()), of.zone.bytes)
    },
    known_by: Some((metrics::TRANSFER_SECONDS, |precision| precision.rate)),
    run: Run::StartAll(|sut, fleet, record, tell| sut.transfer(fleet, record, tell)),
};

impl SystemUnderTest<'_> {
    /// Starts the primary, captures there, starts one secondary without data, and waits until that serves the zone.
    fn transfer(
        &self,
        fleet: &Fleet<'_>,
        record: &mut TrialRecord,
        tell: &mut dyn FnMut(RunEvent),
    ) -> Result<(), Error> {
        if self.spec.external.is_some() {
            return self.transfer_from_outside(fleet, record, tell);
        }
        let context = self.context;
        let patience = context.patience(self.zone);
        let primary_is_measured = fleet.primary().host.name == context.server.host.name;
        let start = |watch: fn(&Server) -> Result<Option<AtWork>, Error>| -> Result<_, Error> {
            let mut server = Server::start(context.server, self.spec, &self.dir.join("server"))?;
            let at_work = watch(&server)?;
            let took = server.ready(&self.zone.probe, patience)?;
            Ok((server, took, at_work))
        };
        let mut others = OtherServers { primary: fleet.start_primary()?, ..OtherServers::default() };
        let early = if primary_is_measured { Some(start(|_| Ok(None))?) } else { None };
        let primary = early.as_ref().map(|(server, ..)| server).or(others.primary.as_ref());
        let at_primary = primary.map_or(Ok(None), AtWork::watch_one_of_several)?;
        let file = self.dir.join("transfer.pcap");
        let capture = self.between_servers(fleet, &file)?;
        let began = Instant::now();
        // A primary that died explains more than a secondary that waits for it.
        let started = match early {
            None => start(AtWork::watch_one_of_several).map_err(|why| others.alive().err().unwrap_or(why)),
            Some((mut server, took, _)) => {
                let transferred = || -> Result<_, Error> {
                    let mut secondaries = fleet.begin_secondaries(&self.spec.label)?;
                    let at_work = secondaries.first().map_or(Ok(None), AtWork::watch_one_of_several)?;
                    fleet.wait_for(&mut secondaries)?;
                    Ok((secondaries, at_work))
                };
                match transferred() {
                    Ok((secondaries, at_work)) => {
                        others.secondaries = secondaries;
                        Ok((server, took, at_work))
                    }
                    Err(why) => Err(server.alive().err().map_or(why, Error::from)),
                }
            }
        };
        let served = began.elapsed();
        let started = started.and_then(|(server, ready, at_secondary)| {
            let validity = &mut record.outcome.validity;
            reject_disturbed(at_primary, "transfer at the primary", validity)?;
            reject_disturbed(at_secondary, "transfer at the secondary", validity)?;
            Ok((server, ready))
        });
        paths::come_to_rest(context, fleet.plan())?;
        let captured = capture.finish(&context.generators[0])?;
        let found = transfers::collect(std::slice::from_ref(&file), &[run_context::PORT], 1, &mut |_| {})?;
        let broken = found.transfers.iter().filter(|t| !t.complete).count();
        record.outcome.metrics.push(metrics::TRANSFERS_BEGUN.of(found.transfers.len() as f64));
        record.outcome.metrics.push(metrics::TRANSFERS_BROKEN.of(broken as f64));
        let (server, ready) = started.map_err(|why| Error::Machine(format!("{why}; {}", halfway(&found))))?;
        tell(RunEvent::Ready { seconds: served.as_secs_f64() });
        record.add_param(params::VERSION, server.version());
        let metrics = &mut record.outcome.metrics;
        let whole = |t: &&ZoneTransfer| t.complete && t.records > 2;
        metrics.push(metrics::SERVER_READY.of(ready.as_secs_f64()));
        metrics.push(metrics::TRANSFER_SERVED.of(served.as_secs_f64()));
        metrics.extend(directions(fleet, &file)?);
        metrics.extend(paths::round_trip(context, &file)?);
        metrics.extend(server.memory()?);
        match found.transfers.iter().find(whole) {
            Some(transfer) => metrics.extend(figures(transfer, self.zone)),
            None => {
                let text = format!(
                    "the secondary serves the zone, but the capture at the primary has no whole transfer of it ({} dropped)",
                    captured.dropped
                );
                record.outcome.validity.reject(Reason::new("no_transfer_captured", text));
            }
        }
        others.secondaries.iter().chain([&server]).for_each(|server| note_urged(server, &mut record.outcome));
        if captured.dropped > 0 {
            let text =
                format!("the capture at the primary lacks {} packets: bytes are more", captured.dropped);
            record.outcome.validity.reject(Reason::new("capture_incomplete", text));
        }
        running_updates::forget(&file, fleet.plan().keep_capture, record)?;
        others.stop()?;
        record.outcome.metrics.extend(run_context::end(context, server, self.spec, Ok(()))?);
        Ok(())
    }
}

impl SystemUnderTest<'_> {
    /// Transfers the zone from an external server to the generator, by a client of our own, which counts what comes.
    fn transfer_from_outside(
        &self,
        fleet: &Fleet<'_>,
        record: &mut TrialRecord,
        tell: &mut dyn FnMut(RunEvent),
    ) -> Result<(), Error> {
        let context = self.context;
        self.reset()?;
        let mut server = Server::start(context.server, self.spec, &self.dir.join("server"))?;
        server.ready(&self.zone.probe, context.patience(self.zone))?;
        let spec = TransferSpec {
            key: context.experiment.server(&self.spec.label)?.tsig.map(|_| fleet.key.clone()),
            allow_external: self.is_outside(),
            ..TransferSpec::new(fleet.primary_address(), &self.zone.origin)
        };
        let got = context.generators[0].ask(Axfr { spec })?;
        context.goes_on()?;
        record.add_param(params::VERSION, server.version());
        if let Some(why) = got.failed {
            return Err(Error::Machine(format!("the zone was not transferred: {}", why.text)));
        }
        tell(RunEvent::Ready { seconds: got.duration_s });
        record
            .outcome
            .metrics
            .extend(counts(got.duration_s, [got.messages, got.records, got.dns_bytes, got.tcp_bytes]));
        run_context::end(context, server, self.spec, Ok(()))?;
        Ok(())
    }
}

/// How far a transfer came that did not arrive, by its capture.
fn halfway(found: &Transfers) -> String {
    let Some(last) = found.transfers.iter().rfind(|t| !t.complete) else {
        return match found.transfers.is_empty() {
            true => "it did not ask its primary for the zone".into(),
            false => "its transfer of the zone had come to the end".into(),
        };
    };
    let before = match found.transfers.iter().filter(|t| !t.complete).count() {
        1 => String::new(),
        many => format!(", the last of {many} attempts,"),
    };
    let octets = last
        .ip_bytes
        .map_or_else(String::new, |n| format!(" ({} octets of IP packets both ways)", grouped(n)));
    let fault = last.fault.as_ref().map_or_else(String::new, |fault| format!(": {fault}"));
    format!(
        "its transfer of the zone{before} was cut after {} messages with {} records{octets}{fault}",
        grouped(last.messages),
        grouped(last.records)
    )
}

/// Octets of all packets that were captured, by direction.
fn directions(fleet: &Fleet<'_>, file: &Path) -> Result<[Metric; 2], Error> {
    let primary = IpAddr::from(fleet.primary().host.v4);
    let (mut out, mut back) = (0, 0);
    octets::packets(&[file.to_owned()], &mut |packet| {
        *if packet.from == primary { &mut out } else { &mut back } += packet.octets;
    })?;
    Ok([metrics::TRANSFER_BYTES_OUT.count(out), metrics::TRANSFER_BYTES_BACK.count(back)])
}

/// The figures of a transfer, some of them beside the zone file.
fn figures(transfer: &ZoneTransfer, zone: &Prepared) -> Vec<Metric> {
    let seconds = |ns: u64| ns as f64 / SECOND as f64;
    let end = transfer.end_ns.unwrap_or(transfer.start_ns);
    let took = seconds(end.saturating_sub(transfer.start_ns));
    let mut all = counts(took, [transfer.messages, transfer.records, transfer.dns_bytes, transfer.tcp_bytes]);
    if let Some(bytes) = transfer.ip_bytes {
        all.push(metrics::TRANSFER_BYTES.of(bytes as f64));
        let files = [
            (metrics::TRANSFER_TO_FILE, Some(zone.probe.bytes)),
            (metrics::TRANSFER_TO_UNSIGNED_FILE, zone.unsigned_bytes),
        ];
        for (share, file) in files {
            all.extend(file.filter(|n| *n > 0).map(|n| share.of(100.0 * bytes as f64 / n as f64)));
        }
    }
    all
}

/// The time of a transfer, how much came, and how fast.
fn counts(seconds: f64, [messages, records, dns_bytes, tcp_bytes]: [u64; 4]) -> Vec<Metric> {
    let mut all = vec![
        metrics::TRANSFER_SECONDS.of(seconds),
        metrics::TRANSFER_MESSAGES.count(messages),
        metrics::TRANSFER_RECORDS.count(records),
        metrics::TRANSFER_DNS_BYTES.count(dns_bytes),
        metrics::TRANSFER_TCP_BYTES.count(tcp_bytes),
    ];
    if seconds > 0.0 {
        all.push(metrics::TRANSFER_RATE.of(tcp_bytes as f64 * 8.0 / 1e6 / seconds));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::transfer::Asked;

    #[test]
    fn what_did_not_arrive_is_told_with_what_there_was_of_it() {
        let one = |complete, messages| ZoneTransfer {
            client: "10.53.0.1:4000".parse().unwrap(),
            server: "10.53.0.3:53".parse().unwrap(),
            zone: ".".into(),
            tcp: true,
            asked: Asked::Axfr,
            kind: None,
            complete,
            fault: None,
            serial_from: None,
            serial_to: None,
            start_ns: 0,
            first_ns: None,
            end_ns: None,
            messages,
            dns_bytes: 0,
            tcp_bytes: 0,
            records: 100 * messages,
            deltas: 0,
            deletions: 0,
            additions: 0,
            packets: None,
            ip_bytes: Some(12_345),
            on_connection: 1,
        };
        let halfway_of =
            |all: Vec<ZoneTransfer>| halfway(&Transfers { transfers: all, ..Transfers::default() });
        assert_eq!(halfway_of(vec![]), "it did not ask its primary for the zone");
        assert_eq!(halfway_of(vec![one(true, 9)]), "its transfer of the zone had come to the end");
        let cut = "was cut after 12 messages with 1,200 records (12,345 octets of IP packets both ways)";
        assert_eq!(halfway_of(vec![one(false, 12)]), format!("its transfer of the zone {cut}"));
        let twice = halfway_of(vec![one(false, 1), one(false, 12)]);
        assert_eq!(twice, format!("its transfer of the zone, the last of 2 attempts, {cut}"));
    }
}
