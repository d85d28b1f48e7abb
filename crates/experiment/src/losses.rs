//! Why queries of a load were lost: the machine's pauses are separated from the server's limits, burst by burst.

use agent::Counted;
use measure::limits::{AWAY_INSTANTS_LIMIT, AWAY_INSTANTS_LIMIT_UNPACED};
use measure::metrics::{self, Definition};
use measure::{Burst, Metric, Nanos, Reason, units::grouped};
use rack::core_watch::{Absence, PERIOD};
use rack::server_watch::OtherPrograms;
use std::net::SocketAddr;

/// Losses less than this apart belong to one burst, in nanoseconds. The meter waits as long for the last losses.
pub const GAP: Nanos = agent::LATER;

/// After a core was away, its queues are full until the backlog is worked off, and drop packets meanwhile: for at most as long as the
/// core was away, and this much, in nanoseconds.
const AFTER: Nanos = 20_000_000;

/// Absences explain a burst if they, and the time after them, are at least this share of it: a server that is overloaded for a second loses
/// no less because its core was also away for a millisecond.
const EXPLAINED: f64 = 0.5;

/// At most this many sockets are named in a sentence.
const SOCKETS_SHOWN: usize = 4;

/// A load of which a core was away for more than this share says nothing about rates.
const AWAY_LIMIT: f64 = 0.1;

/// Cores that were away at fewer instants were not away too often, however short the time was.
const MISSED_LEAST: u64 = 3;

/// Everything that was observed of the machine during a load. Times are nanoseconds after its first query was due.
#[derive(Clone, Debug, Default)]
pub struct Observed {
    /// Absences of the server's cores.
    pub away: Vec<(Absence, Nanos)>,
    /// Drops at several instants, in order.
    pub counted: Vec<Counted>,
    /// What other programs took of the server's cores. No rate can be believed if they held the server up.
    pub others: OtherPrograms,
    /// The length of the load.
    pub length: Nanos,
}

/// Why a burst was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// A core of the server's was away.
    CoreAway,
    /// Another program ran on the server's cores.
    OtherProgram,
    /// The server's socket was full while the server ran.
    SocketFull,
    /// The backlog of a core was full.
    Backlog,
    /// An interface of the server's host dropped packets.
    Interface,
    /// The server's host dropped it for a wrong UDP checksum: it was sent so, or spoiled on the way.
    BadChecksum,
    /// Nothing was dropped on the way in: the server read all, and did not answer.
    NotAnswered,
}

impl Cause {
    const ALL: [Self; 7] = [
        Self::CoreAway,
        Self::OtherProgram,
        Self::SocketFull,
        Self::Backlog,
        Self::Interface,
        Self::BadChecksum,
        Self::NotAnswered,
    ];

    /// The metric that counts queries lost for this reason.
    fn metric(self) -> Definition {
        match self {
            Self::CoreAway => metrics::LOST_CORE_AWAY,
            Self::OtherProgram => metrics::LOST_OTHER_PROGRAM,
            Self::SocketFull => metrics::LOST_SOCKET_FULL,
            Self::Backlog => metrics::LOST_BACKLOG_FULL,
            Self::Interface => metrics::LOST_INTERFACE,
            Self::BadChecksum => metrics::LOST_BAD_CHECKSUM,
            Self::NotAnswered => metrics::LOST_NOT_ANSWERED,
        }
    }

    fn words(self) -> &'static str {
        match self {
            Self::CoreAway => "while a core of the server's was away",
            Self::OtherProgram => "while another program ran on the server's cores",
            Self::SocketFull => "as the server's socket was full while the server ran",
            Self::Backlog => "as the backlog of a core was full",
            Self::Interface => "at an interface of the server's host",
            Self::BadChecksum => "as their UDP checksum was wrong, so that the server's host dropped them",
            Self::NotAnswered => "though the server's host took them all in: the server did not answer",
        }
    }

    /// The machine's doing, and so no evidence about the server.
    fn is_machine(self) -> bool {
        matches!(self, Self::CoreAway | Self::OtherProgram)
    }
}

/// The losses of a load, explained.
#[derive(Clone, Debug, Default)]
pub struct Losses {
    /// Each burst with its cause.
    pub bursts: Vec<(Burst, Cause)>,
    /// Sockets of the server's that dropped datagrams, and how many.
    pub sockets: Vec<(SocketAddr, u64)>,
    /// How the machine disturbed the load, where its losses or its rate say nothing about the server.
    pub disturbed: Option<String>,
}

impl Observed {
    /// Explains `bursts` of a load that sent `sent` queries, of which the share `allowed` may be lost.
    pub fn explain(&self, bursts: Vec<Burst>, sent: u64, allowed: f64) -> Losses {
        let bursts: Vec<_> = bursts.into_iter().map(|burst| (burst, self.cause(&burst))).collect();
        let lost = |machine: bool| -> u64 {
            bursts
                .iter()
                .filter(|(_, cause)| !machine || cause.is_machine())
                .map(|(burst, _)| burst.lost)
                .sum()
        };
        let (all, machine) = (lost(false), lost(true));
        let allowed = sent as f64 * allowed;
        let disturbed = if self.others.disturbed() {
            Some(self.others.text())
        } else if all as f64 > allowed && (all - machine) as f64 <= allowed {
            Some(format!(
                "{}; {} of {} lost queries were lost for that",
                self.away_text(),
                grouped(machine),
                grouped(all)
            ))
        } else if self.away_share() > AWAY_LIMIT {
            Some(self.away_text())
        } else {
            None
        };
        Losses { bursts, sockets: Vec::new(), disturbed }
    }

    fn lengths(&self) -> impl Iterator<Item = Nanos> {
        self.away.iter().map(|(away, _)| away.to - away.from)
    }

    /// The share of the load during which a core of the server's was away.
    pub fn away_share(&self) -> f64 {
        self.lengths().sum::<Nanos>() as f64 / self.length.max(1) as f64
    }

    /// The number of the watch's instants at which a core of the server's was away.
    fn missed(&self) -> u64 {
        self.lengths().map(|length| 1 + length / PERIOD).sum()
    }

    /// The share of the watch's instants, [`PERIOD`] apart, at which a core of the server's was away.
    pub fn away_instants(&self) -> f64 {
        (self.missed() * PERIOD) as f64 / self.length.max(1) as f64
    }

    /// Why cores were away too often for the figures of a load, with a pace or without, where they were.
    pub fn away_too_often(&self, paced: bool) -> Option<Reason> {
        let (limit, wrong) = match paced {
            true => (AWAY_INSTANTS_LIMIT, "high percentiles of the latency are the machine's"),
            false => (AWAY_INSTANTS_LIMIT_UNPACED, "rates and times are wrong by about as much"),
        };
        let away = self.away_instants();
        let text = || {
            format!(
                "at {:.1} % of the instants looked at, a core of the server's was away for a millisecond or more, so {wrong}: {}; run it \
                 again on a quieter machine, or with --set idle=poll",
                100.0 * away,
                self.away_text()
            )
        };
        (away > limit && self.missed() >= MISSED_LEAST).then(|| Reason::new("server_core_away", text()))
    }

    /// The longest absence of a core of the server's, in nanoseconds.
    pub fn away_longest(&self) -> Nanos {
        self.lengths().max().unwrap_or(0)
    }

    /// How long cores were away, and why.
    pub fn away_text(&self) -> String {
        let Some((longest, _)) = self.away.iter().max_by_key(|(away, _)| away.to - away.from) else {
            return "no core was away".into();
        };
        let why = if longest.ready {
            "interrupts, or a higher priority"
        } else {
            "the hypervisor, or interrupts were off"
        };
        format!(
            "core {} was away for {:.0} ms ({why}), cores of the server's were away {} times, for {:.0} ms in all",
            longest.core,
            (longest.to - longest.from) as f64 / 1e6,
            self.away.len(),
            self.lengths().sum::<Nanos>() as f64 / 1e6
        )
    }

    /// The share of a burst's time at which a core of the server's was away, or worked off what had come meanwhile.
    fn away_during(&self, burst: &Burst) -> f64 {
        // A burst of one query takes no time.
        let (from, to) = (burst.from, burst.to.max(burst.from + 1));
        let mut spans: Vec<_> = self
            .away
            .iter()
            .map(|(away, at)| (at.saturating_sub(PERIOD), at + 2 * (away.to - away.from) + AFTER))
            .filter(|&(begin, end)| begin < to && end > from)
            .collect();
        spans.sort_unstable();
        let (mut covered, mut until) = (0, from);
        for (begin, end) in spans {
            let (begin, end) = (begin.max(until), end.min(to));
            covered += end.saturating_sub(begin);
            until = until.max(end);
        }
        covered as f64 / (to - from) as f64
    }

    fn cause(&self, burst: &Burst) -> Cause {
        if self.away_during(burst) >= EXPLAINED {
            return Cause::CoreAway;
        }
        if self.others.disturbed() {
            return Cause::OtherProgram;
        }
        let before = self.counted.iter().rev().find(|c| c.at <= burst.from).or(self.counted.first());
        let after = self.counted.iter().find(|c| c.at >= burst.to + GAP).or(self.counted.last());
        let (Some(before), Some(after)) = (before, after) else { return Cause::NotAnswered };
        let server = after.server.since(&before.server);
        // An interface of a veth pair counts what its core's backlog dropped as well.
        let backlog = after.backlog.saturating_sub(before.backlog);
        let places = [
            (server.udp_receive_buffer_errors, Cause::SocketFull),
            (backlog, Cause::Backlog),
            (server.received_dropped, Cause::Interface),
            (server.udp_checksum_errors, Cause::BadChecksum),
        ];
        let most = places.into_iter().max_by_key(|(dropped, _)| *dropped).expect("there are four");
        if most.0 * 2 >= burst.lost { most.1 } else { Cause::NotAnswered }
    }
}

impl Losses {
    /// Lost queries by cause.
    pub fn metrics(&self) -> Vec<Metric> {
        let count =
            |cause| self.bursts.iter().filter(|(_, c)| *c == cause).map(|(burst, _)| burst.lost).sum::<u64>();
        let counts = Cause::ALL.map(|cause| (cause, count(cause)));
        let some = counts.into_iter().filter(|(_, lost)| *lost > 0);
        some.map(|(cause, lost)| cause.metric().count(lost)).collect()
    }

    /// Which sockets dropped datagrams, as the end of a list; empty where that is not known.
    fn sockets_text(&self) -> String {
        let all = self.sockets.iter().map(|(at, drops)| format!("; {at} dropped {}", grouped(*drops)));
        let text: String = all.take(SOCKETS_SHOWN).collect();
        if self.sockets.len() > SOCKETS_SHOWN { format!("{text}; …") } else { text }
    }

    /// Where and why queries were lost, in a sentence; none where none was.
    pub fn sentence(&self) -> Option<Reason> {
        if self.bursts.is_empty() {
            return None;
        }
        let parts = Cause::ALL.into_iter().filter_map(|cause| {
            let mine: Vec<_> =
                self.bursts.iter().filter(|(_, c)| *c == cause).map(|(burst, _)| burst).collect();
            let first = mine.first()?;
            let lost: u64 = mine.iter().map(|burst| burst.lost).sum();
            let bursts = if mine.len() == 1 {
                "one burst".into()
            } else {
                format!("{} bursts, the first", mine.len())
            };
            let sockets = if cause == Cause::SocketFull { self.sockets_text() } else { String::new() };
            Some(format!(
                "{} {} ({bursts} at second {:.2}{sockets})",
                grouped(lost),
                cause.words(),
                first.from as f64 / 1e9
            ))
        });
        let lost: u64 = self.bursts.iter().map(|(burst, _)| burst.lost).sum();
        let parts: Vec<_> = parts.collect();
        Some(Reason::new("lost", format!("{} queries were lost: {}", grouped(lost), parts.join("; "))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rack::resource_counters::Counters;
    use std::time::Duration;

    const MS: Nanos = 1_000_000;

    fn burst(from: u64, to: u64, lost: u64) -> Burst {
        Burst { from: from * MS, to: to * MS, lost, sent: 10 * lost }
    }

    fn away(from: u64, length: u64) -> (Absence, Nanos) {
        (Absence { core: 0, from: from * MS, to: (from + length) * MS, ready: false }, from * MS)
    }

    fn counted(at: u64, socket: u64, backlog: u64) -> Counted {
        let server = Counters { udp_receive_buffer_errors: socket, ..Counters::default() };
        Counted { at: at * MS, server, backlog, ran: Duration::ZERO }
    }

    fn seen() -> Observed {
        let counted = vec![
            counted(0, 5, 7),
            counted(50, 5, 7),
            counted(100, 45, 7),
            counted(150, 45, 57),
            counted(900, 45, 57),
        ];
        Observed { counted, length: 1000 * MS, ..Observed::default() }
    }

    #[test]
    fn each_burst_has_its_cause() {
        let mut o = seen();
        o.away = vec![away(300, 12)];
        let cause = |from, to, lost| o.cause(&burst(from, to, lost));
        assert_eq!(cause(60, 80, 40), Cause::SocketFull);
        assert_eq!(cause(110, 120, 50), Cause::Backlog);
        assert_eq!(cause(500, 520, 9), Cause::NotAnswered);
        assert_eq!(cause(310, 330, 90), Cause::CoreAway);
        assert_eq!(cause(335, 350, 9), Cause::CoreAway, "it works its queue off");
        assert_eq!(cause(400, 420, 9), Cause::NotAnswered);
        assert_eq!(
            cause(310, 900, 900),
            Cause::NotAnswered,
            "it was away for a small part of the time alone"
        );
        assert_eq!(cause(310, 310, 1), Cause::CoreAway);
        o.away.push(away(340, 40));
        assert_eq!(o.cause(&burst(310, 500, 90)), Cause::CoreAway, "it was away twice");
        o.others = OtherPrograms { used: 0.5, waited: 0.4, exact: true };
        assert_eq!(o.cause(&burst(500, 520, 9)), Cause::OtherProgram);
    }

    #[test]
    fn losses_of_the_machine_are_no_evidence_and_the_servers_are() {
        let mut o = seen();
        o.away = vec![away(300, 12)];
        let machine = o.explain(vec![burst(310, 330, 90)], 10_000, 0.001);
        assert!(machine.disturbed.as_ref().unwrap().contains("core 0 was away for 12 ms"), "{machine:?}");
        let both = o.explain(vec![burst(60, 80, 40), burst(310, 330, 90)], 10_000, 0.001);
        assert_eq!(both.disturbed, None, "the server alone lost more than is allowed");
        let names: Vec<_> = both.metrics().iter().map(|m| (m.name.clone(), m.value)).collect();
        assert_eq!(names, [("lost_core_away".to_owned(), 90.0), ("lost_socket_full".to_owned(), 40.0)]);
        let text = both.sentence().unwrap().text;
        let mut named = both;
        named.sockets = vec![("10.53.0.2:53".parse().unwrap(), 1234)];
        assert!(
            named.sentence().unwrap().text.contains("second 0.06; 10.53.0.2:53 dropped 1,234)"),
            "{named:?}"
        );
        assert!(
            text.starts_with(
                "130 queries were lost: 90 while a core of the server's was away (one burst at second 0.31)"
            ),
            "{text}"
        );
        let few = o.explain(vec![burst(310, 330, 5)], 10_000, 0.001);
        assert_eq!(few.disturbed, None, "within what is allowed");
        assert_eq!(o.explain(vec![], 10_000, 0.001).sentence(), None);
    }

    #[test]
    fn another_program_disturbs_whatever_is_lost() {
        let mut o = Observed { others: OtherPrograms { used: 0.4, waited: 0.3, exact: true }, ..seen() };
        assert!(o.explain(vec![], 100, 0.001).disturbed.unwrap().contains("40.0 % of the server's cores"));
        o.others.waited = 0.0;
        assert_eq!(o.explain(vec![], 100, 0.001).disturbed, None, "the server did not wait for it");
        let away = Observed { away: vec![away(100, 150)], ..seen() };
        assert!(away.explain(vec![], 100, 0.001).disturbed.is_some());
    }

    #[test]
    fn an_absence_covers_the_instants_within_it() {
        let three = Observed { away: vec![away(100, 2), away(200, 7), away(300, 8)], ..seen() };
        // One, two and three of 250.
        assert_eq!((three.away_instants(), seen().away_instants()), (6.0 / 250.0, 0.0));
        // More than one in a hundred is too often for latencies, and more than three for a rate.
        let paced = three.away_too_often(true).unwrap().text;
        assert!(
            paced.starts_with("at 2.4 % of the instants") && paced.contains("high percentiles"),
            "{paced}"
        );
        assert_eq!(three.away_too_often(false), None);
        let four = Observed { away: [three.away, vec![away(400, 8)]].concat(), ..seen() };
        let unpaced = four.away_too_often(false).unwrap().text;
        let start = Observed { away: vec![away(10, 5)], length: 40 * MS, ..seen() };
        assert_eq!(start.away_too_often(false), None, "two of ten, but only two");
        assert!(
            unpaced.starts_with("at 3.6 % of the instants") && unpaced.contains("rates and times"),
            "{unpaced}"
        );
    }
}
