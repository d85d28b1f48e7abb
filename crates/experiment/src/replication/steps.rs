//! Where a lag goes: from the update to the NOTIFY (RFC 1996), to the secondary's request, to the transfer's end, to the first
//! answer that shows it. This separates timers, which are most of it by default, from work.

use measure::metrics;
use measure::{Histogram, Metric, Nanos};
use std::net::{IpAddr, SocketAddr};
use trace::transfers::{Exchange, Transfers, ZoneTransfer};
use update::Marker;
use update::watch::WatchResult;
use wire::transfer::Kind;

/// The steps of all lags that a transfer seen at the primary explains. They add up to these lags.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Steps {
    /// Lags that were taken apart: a marker at a secondary each.
    pub explained: u64,
    /// Markers shown for which no transfer was captured: the secondary has the zone from another one.
    pub unexplained: u64,
    /// From the marker's sending to the first NOTIFY after it; 0 where one before it was still waiting to be followed.
    pub until_notify: Nanos,
    /// From there to the request of the transfer that brought it.
    pub until_request: Nanos,
    /// From there to the last message of that.
    pub transfer: Nanos,
    /// From there to the first answer that shows it.
    pub until_served: Nanos,
    /// From a NOTIFY that tells a serial to the first answer for the SOA that has it.
    pub serial_after_notify: Histogram,
}

impl Steps {
    /// Takes lags apart. `secondaries` are where the watched servers are, in the watcher's order; `markers` those that the
    /// primary took.
    pub fn of(
        markers: &[Marker],
        watched: &WatchResult,
        secondaries: &[SocketAddr],
        found: &Transfers,
    ) -> Self {
        let mut steps = Self::default();
        for (number, address) in (0u16..).zip(secondaries) {
            let came = |t: &&ZoneTransfer| t.client.ip() == address.ip() && t.complete && brings(t);
            let transfers: Vec<&ZoneTransfer> = found.transfers.iter().filter(came).collect();
            let notifies_to: Vec<&Exchange> = notifies(found, address.ip()).collect();
            let earlier = watched.servers.get(usize::from(number)).and_then(|s| s.marker_first).unwrap_or(0);
            let mut shown = earlier;
            for seen in watched.sightings.iter().filter(|s| s.server == number) {
                // A change that was withdrawn and is shown again was explained at its first showing.
                let of_lags = |m: &&Marker| !m.closing && (shown + 1..=seen.last).contains(&m.number);
                let new = markers.iter().filter(of_lags);
                for sent in new.filter_map(|marker| marker.sent) {
                    steps.add(sent, seen.seen_at, &transfers, &notifies_to);
                }
                shown = shown.max(seen.last);
            }
            for seen in watched.serials.iter().filter(|s| s.server == number && s.hidden_at.is_some()) {
                let first = notifies_to.iter().find(|n| n.serial == Some(seen.serial));
                if let Some(after) = first.and_then(|n| seen.seen_at.checked_sub(n.at_ns)) {
                    steps.serial_after_notify.record(after.max(1));
                }
            }
        }
        steps
    }

    /// A marker sent, and seen.
    fn add(&mut self, sent: Nanos, seen: Nanos, transfers: &[&ZoneTransfer], notifies_to: &[&Exchange]) {
        let ended = |t: &&&ZoneTransfer| t.end_ns.is_some_and(|end| (sent..=seen).contains(&end));
        let Some(by) = transfers.iter().rev().find(ended) else {
            self.unexplained += 1;
            return;
        };
        let request = by.start_ns.max(sent);
        // Without any NOTIFY the secondary asked by itself: all of it was waiting for a NOTIFY.
        let notify = match notifies_to.iter().find(|n| (sent..=request).contains(&n.at_ns)) {
            Some(notify) => notify.at_ns,
            None if notifies_to.iter().any(|n| n.at_ns < sent) => sent,
            None => request,
        };
        let end = by.end_ns.unwrap_or(request).max(request);
        self.explained += 1;
        self.until_notify += notify - sent;
        self.until_request += request - notify;
        self.transfer += end - request;
        self.until_served += seen - end;
    }

    /// The means of the steps, which add up to the mean of these lags; none where nothing was explained.
    pub fn metrics(&self) -> Vec<Metric> {
        let mut metrics = vec![metrics::LAGS_UNEXPLAINED.of(self.unexplained as f64)];
        if self.explained > 0 {
            let steps = [
                (metrics::LAG_UNTIL_NOTIFY_MEAN, self.until_notify),
                (metrics::LAG_UNTIL_REQUEST_MEAN, self.until_request),
                (metrics::LAG_TRANSFER_MEAN, self.transfer),
                (metrics::LAG_UNTIL_SERVED_MEAN, self.until_served),
            ];
            let mean = |sum: Nanos| sum as f64 / self.explained as f64 / 1e3;
            metrics.extend(steps.map(|(metric, sum)| metric.of(mean(sum))));
        }
        if self.serial_after_notify.count() > 0 {
            let quantile_us = |q| self.serial_after_notify.quantile(q) as f64 / 1e3;
            metrics.push(metrics::SERIAL_AFTER_NOTIFY_P50.of(quantile_us(0.5)));
            metrics.push(metrics::SERIAL_AFTER_NOTIFY_P99.of(quantile_us(0.99)));
        }
        metrics
    }
}

/// Whether a transfer brought a new version, in contrast to the answer that there is no newer one.
fn brings(transfer: &ZoneTransfer) -> bool {
    matches!(transfer.kind, Some(Kind::Ixfr | Kind::Axfr | Kind::AxfrForIxfr))
}

fn notifies(found: &Transfers, to: IpAddr) -> impl Iterator<Item = &Exchange> {
    found.notifies.iter().filter(move |n| n.to.ip() == to)
}

#[cfg(test)]
mod tests {
    use super::*;
    use update::watch::{OwnLoad, SerialSeen, ServerResult, Sighting};
    use wire::transfer::Asked;

    const MS: Nanos = 1_000_000;

    fn at(host: u8) -> SocketAddr {
        SocketAddr::from(([10, 0, 0, host], 53))
    }

    fn notify(to: u8, ms: u64, serial: Option<u32>) -> Exchange {
        Exchange {
            at_ns: ms * MS,
            from: at(1),
            to: at(to),
            zone: ".".into(),
            tcp: false,
            serial,
            answered_after_ns: None,
            rcode: None,
        }
    }

    fn transfer(client: u8, start: u64, end: u64, kind: Kind) -> ZoneTransfer {
        ZoneTransfer {
            client: at(client),
            server: at(1),
            zone: ".".into(),
            tcp: true,
            asked: Asked::Axfr,
            kind: Some(kind),
            complete: true,
            fault: None,
            serial_from: None,
            serial_to: None,
            start_ns: start * MS,
            first_ns: None,
            end_ns: Some(end * MS),
            messages: 1,
            dns_bytes: 100,
            tcp_bytes: 102,
            records: 4,
            deltas: 1,
            deletions: 0,
            additions: 1,
            packets: None,
            ip_bytes: None,
            on_connection: 1,
        }
    }

    fn marker(number: u64, ms: u64) -> Marker {
        Marker { number, sent: Some(ms * MS), ..Marker::default() }
    }

    fn watched(sightings: &[(u64, u64, u64)]) -> WatchResult {
        let sighting = |&(first, last, ms): &(u64, u64, u64)| Sighting {
            server: 0,
            first,
            last,
            hidden_at: (ms - 2) * MS,
            seen_at: ms * MS,
        };
        WatchResult {
            start_ns: 0,
            duration_ns: 10_000 * MS,
            marker: "_dnsrack.".into(),
            servers: vec![ServerResult { name: "server".into(), ..ServerResult::default() }],
            sightings: sightings.iter().map(sighting).collect(),
            serials: vec![
                SerialSeen { server: 0, serial: 1, hidden_at: None, seen_at: MS },
                SerialSeen { server: 0, serial: 2, hidden_at: Some(600 * MS), seen_at: 620 * MS },
            ],
            went_back: Vec::new(),
            not_kept: 0,
            latency: Histogram::default(),
            own: OwnLoad::default(),
            validity: measure::Validity::default(),
        }
    }

    #[test]
    fn the_steps_add_up_to_the_lag() {
        // Two markers come with one transfer, whose NOTIFY came after the first; another host's does not matter.
        let found = Transfers {
            transfers: vec![
                transfer(3, 200, 210, Kind::Ixfr),
                transfer(2, 560, 600, Kind::Ixfr),
                transfer(2, 650, 700, Kind::Ixfr),
            ],
            notifies: vec![notify(3, 150, Some(2)), notify(2, 500, Some(2)), notify(2, 900, None)],
            ..Transfers::default()
        };
        let steps = Steps::of(
            &[marker(1, 100), marker(2, 520), marker(3, 5000)],
            &watched(&[(1, 2, 610)]),
            &[at(2)],
            &found,
        );
        assert_eq!((steps.explained, steps.unexplained), (2, 0));
        assert_eq!(steps.until_notify, 400 * MS, "the second came by the NOTIFY before it");
        assert_eq!(steps.until_request, (60 + 40) * MS);
        assert_eq!(steps.transfer, 80 * MS);
        assert_eq!(steps.until_served, 20 * MS);
        let sum = steps.until_notify + steps.until_request + steps.transfer + steps.until_served;
        assert_eq!(sum, (610 - 100 + 610 - 520) * MS);
        assert_eq!(steps.serial_after_notify.count(), 1);
        let after = steps.serial_after_notify.max();
        assert!((120 * MS..121 * MS).contains(&after), "a histogram rounds: {after}");
        assert_eq!(steps.metrics().len(), 7);
    }

    #[test]
    fn what_no_transfer_explains_is_counted() {
        let found =
            Transfers { transfers: vec![transfer(2, 10, 20, Kind::UpToDate)], ..Transfers::default() };
        let steps = Steps::of(&[marker(1, 5)], &watched(&[(1, 1, 30)]), &[at(2)], &found);
        assert_eq!((steps.explained, steps.unexplained), (0, 1));
        // There was no NOTIFY: the secondary asked by itself.
        let found = Transfers { transfers: vec![transfer(2, 10, 20, Kind::Axfr)], ..Transfers::default() };
        let steps = Steps::of(&[marker(1, 5)], &watched(&[(1, 1, 30)]), &[at(2)], &found);
        assert_eq!((steps.until_notify, steps.until_request), (5 * MS, 0));
    }
}
