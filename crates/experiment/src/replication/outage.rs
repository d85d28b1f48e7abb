//! A secondary that is away for a while: how soon it has caught up, and by what.

use super::fleet::OtherServers;
use crate::Error;
use crate::system_under_test::SystemUnderTest;
use measure::clock::{SECOND, wall};
use measure::metrics::{self, Definition};
use measure::{Nanos, Outcome, Reason};
use std::net::SocketAddr;
use std::time::Duration;
use trace::transfers::Transfers;
use update::{Marker, WatchResult};
use wire::transfer::Kind;

/// When a secondary was away. Times are those of the wall clock.
pub struct Outage {
    /// As its host is called.
    pub name: String,
    /// As its server is.
    label: String,
    address: SocketAddr,
    from: Nanos,
    until: Nanos,
}

impl SystemUnderTest<'_> {
    /// Waits while changes go on; in the middle of them the last secondary is away for as long as is asked.
    pub fn go_on(
        &self,
        length: Duration,
        away: Option<Duration>,
        others: &mut OtherServers,
    ) -> Result<Option<Outage>, Error> {
        let context = self.context;
        let (Some(away), Some(server)) = (away, others.secondaries.last_mut()) else {
            return context.pause(length).map(|()| None);
        };
        let before = length.saturating_sub(away) / 2;
        context.pause(before)?;
        server.end()?;
        let from = context.at_generator(wall())?;
        context.pause(away)?;
        server.start_again()?;
        let until = context.at_generator(wall())?;
        let address = server.targets()[0];
        let host = context.peers.iter().find(|peer| peer.host.v4 == address.ip());
        let name = host.map_or_else(String::new, |peer| peer.host.name.clone());
        let absence = Outage { name, label: server.label().to_owned(), address, from, until };
        context.pause(length.saturating_sub(before + away))?;
        server.alive()?;
        Ok(Some(absence))
    }
}

impl Outage {
    /// Records how long the secondary was stopped, how soon it had caught up, and whether by IXFR or AXFR.
    pub fn tell(&self, markers: &[Marker], watched: &WatchResult, found: &Transfers, outcome: &mut Outcome) {
        let mut add = |metric: Definition, value: f64| outcome.metrics.push(metric.of(value));
        let seconds = |ns: Nanos| ns as f64 / SECOND as f64;
        let sent_by = |at: Nanos| markers.iter().filter(move |m| m.sent.is_some_and(|sent| sent <= at));
        let newest = sent_by(self.until).map(|m| m.number).max().unwrap_or(0);
        let missed = sent_by(self.until).filter(|m| m.sent >= Some(self.from)).count();
        add(metrics::AWAY_SECONDS, seconds(self.until.saturating_sub(self.from)));
        add(metrics::AWAY_MARKERS_MISSED, missed as f64);
        let number = watched.servers.iter().position(|s| s.name == self.name);
        let back = watched
            .sightings
            .iter()
            .find(|s| Some(usize::from(s.server)) == number && s.seen_at > self.until && s.last >= newest);
        let after = |t: &&trace::transfers::ZoneTransfer| {
            t.client.ip() == self.address.ip()
                && t.start_ns >= self.until
                && back.is_none_or(|back| t.start_ns <= back.seen_at)
        };
        let transfers_of = |kinds: &[Kind]| {
            found
                .transfers
                .iter()
                .filter(after)
                .filter(|t| t.kind.is_some_and(|k| kinds.contains(&k)))
                .count()
        };
        add(metrics::AWAY_IXFR, transfers_of(&[Kind::Ixfr]) as f64);
        add(metrics::AWAY_AXFR, transfers_of(&[Kind::Axfr, Kind::AxfrForIxfr]) as f64);
        let bytes: u64 = found.transfers.iter().filter(after).map(|t| t.tcp_bytes).sum();
        add(metrics::AWAY_BYTES, bytes as f64);
        match back {
            Some(back) => {
                add(metrics::AWAY_CAUGHT_UP, seconds(back.seen_at.saturating_sub(self.until)));
            }
            None => outcome.validity.warn(Reason::new(
                "not_caught_up",
                format!(
                    "{} ({}) was away for {:.1} s and did not show until the end what it had missed: its log is in the folder {}",
                    self.name,
                    self.label,
                    seconds(self.until.saturating_sub(self.from)),
                    self.name
                ),
            )),
        }
    }
}
