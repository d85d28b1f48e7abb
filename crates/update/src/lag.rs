//! Markers joined with where they were seen: the lag of each change at each server.

use crate::send::Marker;
use crate::watch::WatchResult;
use measure::limits::LAG_LIMIT;
use measure::{Histogram, Nanos};
use serde::{Deserialize, Serialize};

/// When a marker was sent, for [`lags`]; none where it was not, or the primary refused it.
pub fn sent(marker: &Marker) -> Option<Nanos> {
    marker.sent.filter(|_| marker.rcode.as_deref().is_none_or(|rcode| rcode == "NOERROR"))
}

/// When a marker was acknowledged, for [`lags`]; none where it was not.
pub fn acknowledged(marker: &Marker) -> Option<Nanos> {
    marker.acknowledged.filter(|_| marker.rcode.as_deref() == Some("NOERROR"))
}

/// The lags at one server.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Lags {
    /// As the watcher calls it.
    pub name: String,
    /// Nanoseconds from each marker to the first answer that showed it or a later one; the closing marker apart.
    pub lag: Histogram,
    /// The least and the greatest, exactly; 0 where there is none.
    pub least: Nanos,
    /// As above.
    pub greatest: Nanos,
    /// Markers that were seen.
    pub seen: u64,
    /// Of them, those that became visible together with a later one.
    pub coalesced: u64,
    /// Of them, those whose lag is known worse than to 5 ms.
    pub uncertain: u64,
    /// The worst of these errors, in nanoseconds.
    pub error_max: Nanos,
    /// Of them, those that were seen before the time that the sender gives: their lag counts as zero.
    pub before: u64,
    /// Markers that were never seen, though the watch went on for at least as long after them as any lag lasted.
    pub lost: u64,
    /// Markers that were not seen as the watch ended soon after them.
    pub cut_off: u64,
    /// Markers that were there when the watch began.
    pub earlier: u64,
}

/// Joins the sender's markers, in ascending order of their numbers, with what was seen at each server. `since` says from when
/// on a lag is counted, wall clock: [`sent`], [`acknowledged`]; markers without that are left out.
pub fn lags(markers: &[Marker], since: fn(&Marker) -> Option<Nanos>, watch: &WatchResult) -> Vec<Lags> {
    let end = watch.start_ns + watch.duration_ns;
    (0u16..)
        .zip(&watch.servers)
        .map(|(number, server)| {
            let mut of = Lags { name: server.name.clone(), least: Nanos::MAX, ..Lags::default() };
            let mut sightings = watch.sightings.iter().filter(|s| s.server == number).peekable();
            let mut missing = Vec::new();
            for (marker, at) in markers.iter().filter_map(|marker| Some((marker, since(marker)?))) {
                if server.marker_first.is_some_and(|first| marker.number <= first) {
                    of.earlier += 1;
                    continue;
                }
                // A change that was shown, withdrawn and shown again counts from the first time.
                while sightings.next_if(|s| s.last < marker.number).is_some() {}
                match sightings.peek().filter(|s| s.first <= marker.number) {
                    None => missing.push(at),
                    Some(seen) => {
                        let lag = seen.seen_at.saturating_sub(at);
                        // Not hidden for longer than it was there to be seen.
                        let error = seen.uncertainty().min(lag);
                        if !marker.closing {
                            of.lag.record(lag.max(1));
                            (of.least, of.greatest) = (of.least.min(lag), of.greatest.max(lag));
                        }
                        of.seen += 1;
                        of.coalesced += u64::from(marker.number < seen.last);
                        of.uncertain += u64::from(error > LAG_LIMIT);
                        of.error_max = of.error_max.max(error);
                        of.before += u64::from(seen.seen_at < at);
                    }
                }
            }
            if of.lag.count() == 0 {
                of.least = 0;
            }
            for at in missing {
                match at.saturating_add(of.greatest) > end {
                    true => of.cut_off += 1,
                    false => of.lost += 1,
                }
            }
            of
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::watch::{OwnLoad, ServerResult, Sighting};
    use measure::Validity;

    const MS: Nanos = 1_000_000;

    /// Sightings at two servers: (server, first, last, hidden, seen), in milliseconds; the watch goes from 1000 to 3000.
    fn watch(sightings: &[(u16, u64, u64, u64, u64)]) -> WatchResult {
        let server = |name: &str, first| ServerResult {
            name: name.into(),
            marker_first: first,
            ..ServerResult::default()
        };
        let sighting = |&(server, first, last, hidden, seen): &(u16, u64, u64, u64, u64)| Sighting {
            server,
            first,
            last,
            hidden_at: hidden * MS,
            seen_at: seen * MS,
        };
        WatchResult {
            start_ns: 1000 * MS,
            duration_ns: 2000 * MS,
            marker: "_dnsrack.".into(),
            servers: vec![server("a", Some(2)), server("b", None)],
            sightings: sightings.iter().map(sighting).collect(),
            serials: Vec::new(),
            went_back: Vec::new(),
            not_kept: 0,
            latency: Histogram::default(),
            own: OwnLoad::default(),
            validity: Validity::default(),
        }
    }

    fn markers(at: &[u64]) -> Vec<Marker> {
        let marker = |(number, at): (u64, &u64)| {
            let rcode = Some("NOERROR".to_owned());
            Marker { number, sent: Some(at * MS), rcode, ..Marker::default() }
        };
        (1..).zip(at).map(marker).collect()
    }

    #[test]
    fn every_marker_is_seen_coalesced_or_missing() {
        let watch = watch(&[(0, 3, 3, 1100, 1102), (0, 4, 6, 1300, 1310), (0, 7, 7, 1399, 1401)]);
        let all = lags(&markers(&[900, 950, 1090, 1200, 1250, 1305, 1402, 1500, 2950]), sent, &watch);
        let a = &all[0];
        assert_eq!((a.name.as_str(), a.earlier, a.seen, a.coalesced), ("a", 2, 5, 2));
        assert_eq!((a.least, a.greatest, a.lag.count()), (0, 110 * MS, 5));
        assert_eq!(a.before, 1, "7 was seen before it was said to be sent");
        // 4 and 5 became visible some time in ten milliseconds; 6 was sent five before it was seen.
        assert_eq!((a.uncertain, a.error_max), (2, 10 * MS));
        assert_eq!((a.lost, a.cut_off), (1, 1), "8 was lost; 9 came as the watch ended");
        let b = &all[1];
        assert_eq!((b.seen, b.least, b.greatest, b.earlier), (0, 0, 0, 0));
        assert_eq!(b.lost, 9, "a server that shows nothing has lost all");
    }

    #[test]
    fn what_the_primary_refused_is_nobodys_loss() {
        let watch = watch(&[]);
        let mut refused = markers(&[1100, 1200]);
        (refused[0].rcode, refused[1].sent) = (Some("REFUSED".to_owned()), None);
        assert_eq!(lags(&refused, sent, &watch)[1], Lags { name: "b".into(), ..Lags::default() });
        assert_eq!(lags(&markers(&[1100]), acknowledged, &watch)[1].lost, 0);
    }

    #[test]
    fn the_closing_marker_is_seen_and_has_no_lag() {
        let watch = watch(&[(0, 3, 4, 1100, 1102)]);
        let mut all = markers(&[900, 950, 1090, 1095]);
        all[3].closing = true;
        let a = &lags(&all, sent, &watch)[0];
        assert_eq!((a.seen, a.lag.count(), a.least, a.greatest), (2, 1, 12 * MS, 12 * MS));
        all[2].closing = true;
        let a = &lags(&all, sent, &watch)[0];
        assert_eq!((a.seen, a.lag.count(), a.least, a.greatest), (2, 0, 0, 0));
    }

    #[test]
    fn what_is_shown_again_counts_once() {
        let watch = watch(&[(0, 3, 4, 1000, 1010), (0, 4, 5, 1100, 1110)]);
        let a = &lags(&markers(&[900, 900, 1000, 1000, 1050]), sent, &watch)[0];
        assert_eq!((a.seen, a.coalesced, a.greatest), (3, 1, 60 * MS));
    }
}
