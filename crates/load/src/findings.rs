//! The outcome in words: what the server, or the way to it, did to the queries of a load, each with a code of its own.
//!
//! Validity is about the generator and the machine; nothing here makes a trial invalid. [`name`] says what the counts and the
//! [`Signs`](crate::Signs) of a load amount to. A load without a fault has no finding.

use crate::LoadResult;
use crate::check::GLUE;
use measure::sender_faults::ms;
use measure::units::grouped;
use measure::{Nanos, Reason};
use rack::server_watch::Seen;

/// Fewer of anything are not named, as they may be chance.
const LEAST: u64 = 3;

/// Lost or late queries below this share are not named.
const LOST_SHARE: f64 = 0.0005;

/// Overtaken answers below this share are not named.
const REORDERED_SHARE: f64 = 0.001;

/// Response codes below this share of the answers are not named.
const RCODE_SHARE: f64 = 0.01;

/// Where queries are lost, and the median latency is at least this and so many times the quickest answer's, they waited in a
/// queue.
const QUEUED: Nanos = 1_000_000;
const QUEUED_TIMES: f64 = 8.0;

/// Facts about a load beside its result.
#[derive(Clone, Debug, Default)]
pub(crate) struct Known {
    /// Queries have times of their own, whatever the answers.
    pub paced: bool,
    /// Packets with a wrong checksum that our network namespace received.
    pub corrupted: u64,
    /// Queries that we sent with a wrong checksum, as the traffic has it; those of the warm-up included.
    pub bad_checksums: u64,
    /// IP fragments that it received, and datagrams that could not be put together.
    pub fragments: u64,
    pub incomplete: u64,
    /// A query was refused as too long.
    pub too_long: bool,
    /// Observations of the server's processes, where they are known.
    pub server: Option<Seen>,
}

/// Names what the server, or the way to it, did.
pub(crate) fn name(r: &LoadResult, k: &Known) -> Vec<Reason> {
    let mut found = Vec::new();
    if r.counts.sent > 0 {
        let explained = silence(r, k, &mut found) + way(r, k, &mut found) + strays(r, &mut found);
        losses(r, k, explained, &mut found);
        contents(r, &mut found);
    }
    found
}

fn share(part: u64, whole: u64) -> f64 {
    measure::sender_faults::share(part, whole)
}

fn percent(part: u64, whole: u64) -> String {
    format!("{} of {} ({:.2} %)", grouped(part), grouped(whole), 100.0 * share(part, whole))
}

/// Times without an answer. Gives how many queries they lost at most.
fn silence(r: &LoadResult, k: &Known, found: &mut Vec<Reason>) -> u64 {
    let mut tell = |code, text: String| found.push(Reason::new(code, text));
    let (c, pauses) = (&r.counts, &r.signs.pauses);
    let ended = k.server.as_ref().is_some_and(|s| s.ended);
    let unreachable = format!("{} ICMP errors came back", grouped(r.icmp));
    if c.answered == 0 && c.late == 0 && r.mismatched == 0 {
        if r.icmp > 0 {
            tell(
                "icmp_unreachable",
                format!(
                    "no query was answered, and {unreachable}: nothing listens at the target, or there is no way to it"
                ),
            );
        } else {
            tell(
                "server_silent",
                format!("none of {} queries was answered, and no error came back", grouped(c.sent)),
            );
        }
        return c.sent;
    }
    let Some(longest) = pauses.iter().max_by(|a, b| a.length_s.total_cmp(&b.length_s)) else {
        if ended {
            tell("server_restarted", "one of the server's processes ended, and answers went on".to_owned());
        } else if r.icmp >= LEAST {
            tell("icmp_unreachable", format!("{unreachable}, while other queries were answered"));
        }
        return r.icmp;
    };
    let asked = grouped(longest.queries);
    let when = format!(
        "from second {:.3} no answer came for {:.1} ms, while {asked} queries were sent",
        longest.at_s,
        longest.length_s * 1e3
    );
    let end = pauses.iter().any(|p| p.until_end);
    let why = match (ended, r.icmp > 0) {
        (true, _) => Some("its process ended".to_owned()),
        (false, true) => Some(unreachable),
        (false, false) => None,
    };
    match why {
        Some(why) if end => tell("server_gone", format!("{when}, and none after that; {why}")),
        Some(why) => tell(
            "server_restarted",
            format!("the server was restarted: {when}; {why}, and answers came again"),
        ),
        None => {
            let more = match pauses.len() {
                1 => String::new(),
                n => format!("; there were {n} such pauses"),
            };
            tell(
                "server_stopped_answering",
                format!("the server, or the way to it, stood still: {when}{more}"),
            );
        }
    }
    pauses.iter().map(|p| p.queries).sum()
}

/// Findings about the way: packets that were lost, corrupted or too large. Returns how many queries it lost.
fn way(r: &LoadResult, k: &Known, found: &mut Vec<Reason>) -> u64 {
    let (bad, c) = (k.bad_checksums, &r.counts);
    if c.bad_checksum >= LEAST && share(c.bad_checksum, c.sent) >= LOST_SHARE {
        let text = format!(
            "{} queries were sent with a wrong UDP checksum, as the traffic has it: the server's host drops them, and they count as lost",
            percent(c.bad_checksum, c.sent)
        );
        found.push(Reason::new("bad_checksums_sent", text));
    }
    // The server's host counts ours among those that were changed on the way.
    let corrupted = k.corrupted + k.server.as_ref().map_or(0, |s| s.corrupted.saturating_sub(bad));
    if corrupted >= LEAST {
        let text = format!(
            "{} packets arrived with a wrong checksum and were dropped: they were changed on the way",
            grouped(corrupted)
        );
        found.push(Reason::new("packets_corrupted", text));
    }
    if k.too_long || k.fragments >= LEAST || k.incomplete >= LEAST {
        let text = if k.too_long {
            "queries were longer than the link's MTU, and were not sent".to_owned()
        } else {
            format!(
                "answers were longer than the MTU of a link: {} fragments arrived, {} datagrams could not be put together",
                grouped(k.fragments),
                grouped(k.incomplete)
            )
        };
        found.push(Reason::new("too_large_for_link", text));
    }
    let reordered = r.signs.reordered;
    if reordered >= LEAST && share(reordered, c.answered) >= REORDERED_SHARE {
        let text = format!(
            "{} answers came after the answer to a later query of the same flow: the server, or the way, does not keep their order",
            percent(reordered, c.answered)
        );
        found.push(Reason::new("answers_reordered", text));
    }
    corrupted + bad + k.incomplete
}

/// Findings about datagrams that are no answers, or one too many. Returns how many queries they leave unanswered.
fn strays(r: &LoadResult, found: &mut Vec<Reason>) -> u64 {
    let mut tell = |code, count: u64, what: &str| {
        if count >= LEAST {
            found.push(Reason::new(code, format!("{} {what}", grouped(count))));
        }
    };
    let (address, question) = (r.signs.other_address, r.signs.other_question);
    let rest = r.mismatched.saturating_sub(address + question);
    tell("duplicate_answers", r.duplicates, "answers came a second time");
    tell("other_address", address, "answers came from another address or port than their queries went to");
    tell("other_question", question, "answers were to another question than was asked under their id");
    tell("malformed_answers", rest, "datagrams with a query's id were no answers: too short, or without QR");
    tell("unexpected_datagrams", r.unexpected, "datagrams had the id of no query");
    r.mismatched + r.unexpected
}

/// Lost and late queries, beyond the ones that are explained.
fn losses(r: &LoadResult, k: &Known, explained: u64, found: &mut Vec<Reason>) {
    let c = &r.counts;
    let (lost, late) = (c.lost, c.late);
    if lost < LEAST || share(lost, c.sent) < LOST_SHARE {
        return;
    }
    let median = r.service_latency_us.p50;
    let queued = median * 1e3 >= QUEUED as f64 && median >= QUEUED_TIMES * r.signs.quickest_us;
    if k.paced && queued && c.answered > 0 {
        let text = format!(
            "the server answered {:.0} of {:.0} queries a second: {} were lost, and half of the others waited {:.1} ms or longer, \
             where the quickest answer took {:.3} ms",
            c.answered_qps,
            c.offered_qps,
            percent(lost, c.sent),
            median / 1e3,
            r.signs.quickest_us / 1e3
        );
        return found.push(Reason::new("server_too_slow", text));
    }
    if late >= LEAST && 2 * late >= lost {
        let text = format!(
            "{} queries were answered after the deadline of {}",
            percent(late, c.sent),
            ms((r.deadline_s * 1e9) as Nanos)
        );
        return found.push(Reason::new("late_answers", text));
    }
    let own = r.drops.get("socket").copied().unwrap_or(0);
    // The counts of the causes may be off by a few.
    if lost.saturating_sub(late) <= explained + explained / 5 + own + LEAST {
        return;
    }
    let lost_ones = format!("{} queries got no answer", percent(lost, c.sent));
    let (code, text) = match &k.server {
        None => (
            "unanswered",
            format!(
                "{lost_ones}: the server dropped them, or they or their answers were lost on the way (--server-pid tells which)"
            ),
        ),
        Some(s) if 2 * (s.missing_there + s.missing_back) >= lost => (
            "packets_lost",
            format!(
                "{lost_ones}: {} packets that left here did not reach the server's host, and {} that left there did not come back",
                grouped(s.missing_there),
                grouped(s.missing_back)
            ),
        ),
        Some(s) if 2 * s.buffer_drops >= lost => (
            "server_buffer_full",
            format!(
                "{lost_ones}: full socket buffers on the server's side dropped {} datagrams",
                grouped(s.buffer_drops)
            ),
        ),
        Some(_) => {
            ("server_drops", format!("{lost_ones}: they reached the server, and it did not answer them"))
        }
    };
    found.push(Reason::new(code, text));
}

/// Findings about the contents of answers.
fn contents(r: &LoadResult, found: &mut Vec<Reason>) {
    let c = &r.counts;
    let mut rcode = |code, name: &str, what: &str| {
        let n = c.rcodes.get(name).copied().unwrap_or(0);
        let named = n >= LEAST && share(n, c.answered) >= RCODE_SHARE;
        if named {
            found.push(Reason::new(code, format!("{} answers were {name}: {what}", percent(n, c.answered))));
        }
        named
    };
    let refused = rcode("other_zone", "REFUSED", "the server does not have the zone that was asked for");
    let fails = rcode("server_fails", "SERVFAIL", "the server has the zone and cannot answer from it");
    let Some(checked) = &r.checked else { return };
    let count_of = |faults: &[&str]| faults.iter().filter_map(|f| checked.wrong.get(*f)).sum::<u64>();
    let all: u64 = checked.wrong.values().sum();
    let glue = count_of(&GLUE);
    let (serial, record) = (count_of(&["old_serial", "serial_went_back"]), count_of(&["foreign_record"]));
    let whole = checked.checked;
    if serial > 0 {
        let text = format!(
            "{} checked answers have a serial that is older than the zone's, or than one before",
            percent(serial, whole)
        );
        found.push(Reason::new("stale_serial", text));
    }
    if record > 0 {
        let text =
            format!("{} checked answers have records that are not in the zone", percent(record, whole));
        found.push(Reason::new("wrong_rdata", text));
    }
    if glue > 0 {
        let text = format!(
            "{} checked answers lack glue, although TC is clear: a resolver has to ask for it apart (RFC 9471)",
            percent(glue, whole)
        );
        found.push(Reason::new("glue_left_out", text));
    }
    let rest = all - serial - record - glue;
    if rest > 0 && record == 0 && !refused && !fails {
        let kinds = checked.wrong.keys().map(String::as_str).filter(|kind| !GLUE.contains(kind));
        let kinds: Vec<&str> = kinds.collect();
        let text = format!(
            "{} of {whole} checked answers are wrong: {}",
            grouped(checked.wrong()),
            kinds.join(", ")
        );
        found.push(Reason::new("wrong_answers", text));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::CheckResult;
    use crate::{Counts, Pause, Tally};
    use measure::clock::SECOND;
    use rack::server_watch::OtherPrograms;

    fn result(lost: u64) -> LoadResult {
        let mut tally = Tally { sent: 10_000, answered: 10_000 - lost, lost, ..Tally::default() };
        tally.latency.record_n(60_000, 10_000 - lost);
        tally.service_latency.record_n(60_000, 10_000 - lost);
        tally.rcodes[0] = 10_000 - lost;
        let mut r = LoadResult::new(tally, 10_000, 2 * SECOND, SECOND);
        r.signs.quickest_us = 30.0;
        r
    }

    fn codes(r: &LoadResult, k: &Known) -> Vec<String> {
        name(r, k).into_iter().map(|reason| reason.code).collect()
    }

    #[test]
    fn each_fault_of_the_server_or_the_way_has_its_name() {
        let paced = Known { paced: true, ..Known::default() };
        let seen = |seen: Seen| Known { server: Some(seen), ..paced.clone() };
        let with = |lost: u64, f: fn(&mut LoadResult)| {
            let mut r = result(lost);
            f(&mut r);
            r
        };
        fn pause(until_end: bool) -> Vec<Pause> {
            vec![Pause { at_s: 0.5, length_s: 0.2, queries: 1000, until_end }]
        }
        fn checked(faults: &[(&str, u64)]) -> Option<CheckResult> {
            let wrong = faults.iter().map(|(f, n)| ((*f).to_owned(), *n)).collect();
            Some(CheckResult { checked: 1000, right: 900, wrong, ..CheckResult::default() })
        }
        fn counts(r: &mut LoadResult, rcode: &str) {
            r.counts = Counts { rcodes: [(rcode.to_owned(), 500)].into(), ..r.counts.clone() };
        }
        let cases: Vec<(LoadResult, Known, &[&str])> = vec![
            (result(0), paced.clone(), &[]),
            (result(2), paced.clone(), &[]),
            (result(100), paced.clone(), &["unanswered"]),
            (result(100), seen(Seen::default()), &["server_drops"]),
            (result(100), seen(Seen { missing_there: 90, ..Seen::default() }), &["packets_lost"]),
            (result(100), seen(Seen { buffer_drops: 90, ..Seen::default() }), &["server_buffer_full"]),
            (with(100, |r| r.drops.extend([("socket".into(), 100)])), paced.clone(), &[]),
            (with(1000, |r| r.service_latency_us.p50 = 6000.0), paced.clone(), &["server_too_slow"]),
            (with(1000, |r| r.service_latency_us.p50 = 6000.0), Known::default(), &["unanswered"]),
            (with(100, |r| r.counts.late = 90), paced.clone(), &["late_answers"]),
            (with(0, |r| r.signs.pauses = pause(false)), paced.clone(), &["server_stopped_answering"]),
            (
                with(900, |r| (r.signs.pauses, r.icmp) = (pause(false), 9)),
                paced.clone(),
                &["server_restarted"],
            ),
            (
                with(900, |r| r.signs.pauses = pause(false)),
                seen(Seen { ended: true, ..Seen::default() }),
                &["server_restarted"],
            ),
            (with(900, |r| (r.signs.pauses, r.icmp) = (pause(true), 9)), paced.clone(), &["server_gone"]),
            (result(0), seen(Seen { ended: true, ..Seen::default() }), &["server_restarted"]),
            (with(10_000, |r| r.icmp = 3), paced.clone(), &["icmp_unreachable"]),
            (result(10_000), paced.clone(), &["server_silent"]),
            (with(90, |r| r.icmp = 90), paced.clone(), &["icmp_unreachable"]),
            (with(0, |r| r.duplicates = 50), paced.clone(), &["duplicate_answers"]),
            (
                with(500, |r| (r.mismatched, r.signs.other_address) = (500, 500)),
                paced.clone(),
                &["other_address"],
            ),
            (
                with(500, |r| (r.mismatched, r.signs.other_question) = (500, 500)),
                paced.clone(),
                &["other_question"],
            ),
            (with(500, |r| r.mismatched = 500), paced.clone(), &["malformed_answers"]),
            (with(0, |r| r.signs.reordered = 100), paced.clone(), &["answers_reordered"]),
            (result(100), Known { corrupted: 100, ..paced.clone() }, &["packets_corrupted"]),
            (
                with(100, |r| r.counts.bad_checksum = 100),
                Known { bad_checksums: 120, ..seen(Seen { corrupted: 120, ..Seen::default() }) },
                &["bad_checksums_sent"],
            ),
            (
                with(4, |r| r.counts.bad_checksum = 4),
                Known { bad_checksums: 5, ..seen(Seen { corrupted: 5, ..Seen::default() }) },
                &[],
            ),
            (
                with(400, |r| r.counts.bad_checksum = 4),
                Known { bad_checksums: 5, ..seen(Seen { corrupted: 5, ..Seen::default() }) },
                &["server_drops"],
            ),
            (result(0), Known { fragments: 100, ..paced.clone() }, &["too_large_for_link"]),
            (result(0), Known { too_long: true, ..paced.clone() }, &["too_large_for_link"]),
            (with(0, |r| counts(r, "REFUSED")), paced.clone(), &["other_zone"]),
            (with(0, |r| counts(r, "SERVFAIL")), paced.clone(), &["server_fails"]),
            (with(0, |r| r.checked = checked(&[("old_serial", 9)])), paced.clone(), &["stale_serial"]),
            (
                with(0, |r| r.checked = checked(&[("foreign_record", 9), ("answer_missing", 9)])),
                paced.clone(),
                &["wrong_rdata"],
            ),
            (with(0, |r| r.checked = checked(&[("ttl", 100)])), paced.clone(), &["wrong_answers"]),
            (with(0, |r| r.checked = checked(&[("glue_missing", 9)])), paced.clone(), &["glue_left_out"]),
        ];
        for (n, (r, k, wanted)) in cases.iter().enumerate() {
            assert_eq!(codes(r, k), *wanted, "case {n}: {:?}", name(r, k));
        }
    }

    #[test]
    fn what_other_programs_did_is_no_finding() {
        let others = OtherPrograms { waited: 0.5, used: 0.5, exact: true };
        let known = Known { server: Some(Seen { others, ..Seen::default() }), ..Known::default() };
        assert_eq!(codes(&result(0), &known), [""; 0]);
    }
}
