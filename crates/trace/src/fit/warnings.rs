//! Properties that a capture cannot tell, and the signs of that.

use super::Sample;
use super::clients::Crowd;
use super::collect::Collector;
use crate::read::{ChecksumState, Reader};
use measure::Reason;
use measure::units::grouped;
use std::collections::BTreeMap;

/// More wrong checksums than this are made by the capture, not by clients: RZAIA saw 0.01 %.
const BAD_MAX: f64 = 0.05;

/// Wrong checksums of which this share is offloaded are no fault of clients.
pub(super) fn doubts_checksums(checksums: &BTreeMap<ChecksumState, u64>) -> bool {
    let count = |state| checksums.get(&state).copied().unwrap_or(0) as f64;
    let known = count(ChecksumState::Right) + count(ChecksumState::Absent) + count(ChecksumState::Bad);
    count(ChecksumState::Bad) > BAD_MAX * known
}

/// Half the width of the interval that holds the truth 19 times of 20, of a share near a half among so many.
pub(super) fn sampling_error(count: u64) -> f64 {
    1.96 * (0.25 / count.max(1) as f64).sqrt()
}

pub(super) fn of(collector: &Collector<'_>, crowd: &Crowd, reader: &Reader) -> Vec<Reason> {
    let mut out = Vec::new();
    let mut warn = |code: &str, text: String| out.push(Reason::new(code, text));
    let sample = &collector.sample;
    let Sample { queries, hits, misses, answered, .. } = *sample;
    let percent = |part: u64, of: u64| format!("{:.1} %", part as f64 * 100.0 / of.max(1) as f64);
    let known = hits + misses;
    if known == 0 {
        let why = if collector.zone().is_some() {
            "none of the names is of the zone"
        } else if sample.responses == 0 {
            "there are no answers in the capture"
        } else {
            "no answer in the capture says so"
        };
        warn(
            "hits_unknown",
            format!(
                "{why}: whether names exist is not known, and every name counts as one that does; types are of all \
                 queries, popular names are not known. Capture the answers too, or use the zone (--zone)"
            ),
        );
    } else if collector.zone().is_none() && answered * 10 < queries * 9 {
        warn(
            "unanswered",
            format!(
                "{} of the queries have no answer in the capture: whether names exist is known of the others only",
                percent(queries - answered, queries)
            ),
        );
    }
    if known > 0 && sample.neither * 100 > queries {
        warn(
            "names_unknown",
            format!(
                "of {} queries it is not known whether the name exists (refused, failed, or of no zone): they are in no \
                 figure about names",
                grouped(sample.neither)
            ),
        );
    }
    let count = |state| collector.checksums.get(&state).copied().unwrap_or(0);
    let offloaded = count(ChecksumState::Offloaded);
    if offloaded > 0 {
        warn(
            "checksums_offloaded",
            format!(
                "{} of the queries were captured on the machine that sent them, before its network card completed their \
                 UDP checksums: the shares of absent and wrong checksums are of the others",
                percent(offloaded, queries)
            ),
        );
    }
    if doubts_checksums(&collector.checksums) {
        warn(
            "checksums_bad",
            format!(
                "{} of the UDP checksums are wrong: more than clients make, so the capture did (offload, or rewriting); \
                 the profile has none",
                percent(count(ChecksumState::Bad), queries)
            ),
        );
    }
    if reader.counts().cut_short > 0 {
        warn(
            "cut_short",
            format!(
                "{} messages were not captured in full: the queries among them ({}) are left out. Capture whole packets \
                 (tcpdump -s 0)",
                grouped(reader.counts().cut_short),
                grouped(sample.left_out.cut_short)
            ),
        );
    }
    let left = sample.left_out.sum() - sample.left_out.cut_short;
    if left * 100 > queries + left {
        warn(
            "left_out",
            format!(
                "{} queries are of no profile and left out: {} asked again over TCP, as the answer was truncated, {} of other \
                 opcodes, {} of other classes than IN, {} damaged",
                grouped(left),
                grouped(sample.left_out.retries),
                grouped(sample.left_out.opcodes),
                grouped(sample.left_out.classes),
                grouped(sample.left_out.damaged)
            ),
        );
    }
    if sample.tcp > 0 && sample.responses == 0 {
        warn(
            "tcp_without_answers",
            format!(
                "{} queries over TCP, and no answer in the capture: which of them asked again after a truncated one cannot \
                 be told, and all count as asked over TCP at once (set packets.retry, and tcp lower, if you know better)",
                grouped(sample.tcp)
            ),
        );
    }
    if let Some(net) = one_net(crowd) {
        warn(
            "clients_of_one_net",
            format!(
                "all clients have addresses within {net}: the addresses were changed (anonymised, translated, generated), \
                 so how many clients there are and how unlike they are may not be as it was"
            ),
        );
    }
    if let Some(port) = collector.ports.filter(|_| crowd.count() >= 10 && queries >= 100) {
        warn(
            "one_source_port",
            format!(
                "all queries come from port {port}: the ports were changed, or a translator stands before the server"
            ),
        );
    }
    if crowd.is_sketch() {
        warn(
            "clients_estimated",
            format!(
                "more than {} clients: those that asked least were added up on the way and may count several times, so that \
                 there seem to be more clients, and these more alike, than there were (about {} did ask)",
                grouped(super::clients::CLIENTS_MAX as u64),
                grouped(crowd.count())
            ),
        );
    }
    let fewest = if known == 0 { queries } else { known.min(queries) };
    if fewest < 10_000 {
        warn(
            "few_queries",
            format!(
                "{} queries: a share near 50 % is known to ± {:.1} % (19 times of 20)",
                grouped(fewest),
                sampling_error(fewest) * 100.0
            ),
        );
    }
    out
}

/// The net that a hundred clients and more are all in: no real server has such clients.
fn one_net(crowd: &Crowd) -> Option<String> {
    let (mut v4, mut v6) = (Net::default(), Net::default());
    for key in crowd.keys() {
        if key >> 32 == 0xffff { v4.add(key) } else { v6.add(key) }
    }
    let v4 = v4
        .common(96, 8)
        .map(|(key, length)| format!("{}/{length}", std::net::Ipv4Addr::from_bits(key as u32)));
    let v6 = v6.common(0, 32).map(|(key, length)| format!("{}/{length}", std::net::Ipv6Addr::from_bits(key)));
    match (v4, v6) {
        (Some(v4), Some(v6)) => Some(format!("{v4} and {v6}")),
        (one, other) => one.or(other),
    }
}

/// The common prefix of some addresses.
#[derive(Default)]
struct Net {
    count: u64,
    first: u128,
    /// The bits that are not the same in all.
    differ: u128,
}

impl Net {
    fn add(&mut self, key: u128) {
        if self.count == 0 {
            self.first = key;
        }
        self.count += 1;
        self.differ |= self.first ^ key;
    }

    /// The common beginning and its length, where that is `least` bits at least; addresses begin after so many.
    fn common(&self, after: u32, least: u32) -> Option<(u128, u32)> {
        let length = self.differ.leading_zeros();
        let common = length.saturating_sub(after);
        let mask = if length == 128 { u128::MAX } else { !(u128::MAX >> length) };
        (self.count >= 100 && common >= least).then_some((self.first & mask, common))
    }
}
