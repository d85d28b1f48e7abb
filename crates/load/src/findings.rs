//! The outcome in words: what the server, or the way to it, did to the queries of a load, each with a code of its own.
//!
//! Validity is about the generator and the machine; nothing here makes a trial invalid. While answers come, [`Gather`]
//! notes what counts alone do not show (pauses, answers from elsewhere, answers that overtook others); [`name`] then says
//! what the whole amounts to. A load without a fault has no finding.

use crate::LoadResult;
use measure::own::ms;
use measure::units::grouped;
use measure::{Nanos, Reason};
use rack::server_watch::Seen;
use serde::{Deserialize, Serialize};

/// For how long no answer may come to queries that are sent, before it is a pause.
const PAUSE: Nanos = 30_000_000;

/// A pause counts only if so many queries were sent in it.
const PAUSE_QUERIES: u64 = 10;

/// The longest pauses are kept.
const PAUSES: usize = 16;

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

/// A time in which queries were sent and no answer came.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pause {
    /// When it began, in seconds of the measured part.
    pub at_s: f64,
    /// How long it was, in seconds.
    pub length_s: f64,
    /// Queries sent in it.
    pub queries: u64,
    /// No answer came after it.
    pub until_end: bool,
}

/// Observations in the answers beside their counts.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Signs {
    /// Datagrams with a query's id that came from another address or port than the query went to; among the mismatched.
    pub other_address: u64,
    /// Answers with a query's id and another question; among the mismatched.
    pub other_question: u64,
    /// Answers that came after the answer to a later query of the same flow.
    pub reordered: u64,
    /// The lowest service latency, the warm-up included, in microseconds; 0 without an answer.
    pub quickest_us: f64,
    /// The longest pauses, in order of time.
    pub pauses: Vec<Pause>,
}

impl Signs {
    /// Adds those of another generator.
    pub(crate) fn merge(&mut self, other: Self) {
        let Self { other_address, other_question, reordered, quickest_us, pauses } = other;
        self.other_address += other_address;
        self.other_question += other_question;
        self.reordered += reordered;
        if self.quickest_us == 0.0 || (quickest_us > 0.0 && quickest_us < self.quickest_us) {
            self.quickest_us = quickest_us;
        }
        self.pauses.extend(pauses);
        self.pauses.sort_by(|a, b| a.at_s.total_cmp(&b.at_s));
    }
}

/// A pause by the monotonic clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Silence {
    from: Nanos,
    to: Nanos,
    queries: u64,
    open: bool,
}

/// How a datagram that is not the answer differs from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stray {
    Address,
    Question,
    Other,
}

/// Notes the signs of one recorder, later of all.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Gather {
    other_address: u64,
    other_question: u64,
    reordered: u64,
    quickest: Option<Nanos>,
    silences: Vec<Silence>,
    /// When something was last received; 0: never.
    heard: Nanos,
    /// Queries sent since then: the first, the last, how many.
    since: Nanos,
    last: Nanos,
    waiting: u64,
}

impl Gather {
    /// A query was sent.
    #[inline]
    pub(crate) fn sent(&mut self, at: Nanos) {
        if self.waiting == 0 {
            self.since = at;
        }
        self.last = at;
        self.waiting += 1;
    }

    /// An answer arrived at `at` to a query sent at `sent`; `newest` is when the latest query of its flow was sent whose
    /// answer came before. A `quiet` one is not counted.
    #[inline]
    pub(crate) fn answered(&mut self, at: Nanos, sent: Nanos, newest: &mut Nanos, quiet: bool) {
        let service = at.saturating_sub(sent);
        self.quickest = Some(self.quickest.map_or(service, |q| q.min(service)));
        if sent < *newest {
            self.reordered += u64::from(!quiet);
        } else {
            *newest = sent;
        }
        self.hear(at, sent);
    }

    /// Something arrived that has the id of a query sent at `sent`, and is not its answer.
    pub(crate) fn stray(&mut self, stray: Stray, at: Nanos, sent: Nanos, quiet: bool) {
        match stray {
            _ if quiet => {}
            Stray::Address => self.other_address += 1,
            Stray::Question => self.other_question += 1,
            Stray::Other => {}
        }
        self.hear(at, sent);
    }

    #[inline]
    fn hear(&mut self, at: Nanos, sent: Nanos) {
        // Before the first answer nothing is known of how long the way is.
        if self.waiting >= PAUSE_QUERIES && self.heard > 0 {
            let from = self.heard.max(self.since.min(sent));
            if at.saturating_sub(from) >= PAUSE {
                self.keep(Silence { from, to: at, queries: self.waiting, open: false });
            }
        }
        self.heard = self.heard.max(at);
        self.waiting = 0;
    }

    /// Nothing more will come.
    pub(crate) fn end(&mut self) {
        let from = self.heard.max(self.since);
        if self.waiting >= PAUSE_QUERIES && self.last.saturating_sub(from) >= PAUSE {
            self.keep(Silence { from, to: self.last, queries: self.waiting, open: true });
        }
        self.waiting = 0;
    }

    #[cold]
    fn keep(&mut self, silence: Silence) {
        self.silences.push(silence);
        if self.silences.len() > PAUSES {
            let length = |s: &Silence| s.to - s.from;
            if let Some(shortest) = (0..self.silences.len()).min_by_key(|&i| length(&self.silences[i])) {
                self.silences.remove(shortest);
            }
        }
    }

    /// Takes in what another recorder noted. Both must have ended.
    pub(crate) fn merge(&mut self, other: &Self) {
        self.other_address += other.other_address;
        self.other_question += other.other_question;
        self.reordered += other.reordered;
        self.quickest = [self.quickest, other.quickest].into_iter().flatten().min();
        other.silences.iter().for_each(|s| self.keep(*s));
        self.heard = self.heard.max(other.heard);
    }

    /// For the result; the measured part began at `base`, and the generator's longest stall was this one (its begin and
    /// length): a pause that lies mostly in it is the generator's.
    pub(crate) fn signs(&self, base: Nanos, stall: (Nanos, Nanos)) -> Signs {
        let (stalled, woke) = (stall.0, stall.0 + stall.1);
        let ours = |s: &Silence| 2 * s.to.min(woke).saturating_sub(s.from.max(stalled)) > s.to - s.from;
        let mut silences: Vec<Silence> = self.silences.iter().copied().filter(|s| !ours(s)).collect();
        silences.sort_by_key(|s| s.from);
        // Each worker saw the same pause.
        silences.dedup_by(|later, first| {
            let same = later.from < first.to;
            if same {
                first.to = first.to.max(later.to);
                first.queries += later.queries;
                first.open |= later.open;
            }
            same
        });
        let pause = |s: Silence| Pause {
            at_s: (s.from as f64 - base as f64) / 1e9,
            length_s: (s.to - s.from) as f64 / 1e9,
            queries: s.queries,
            until_end: s.open && self.heard <= s.from,
        };
        Signs {
            other_address: self.other_address,
            other_question: self.other_question,
            reordered: self.reordered,
            quickest_us: self.quickest.map_or(0.0, |q| q as f64 / 1e3),
            pauses: silences.into_iter().map(pause).collect(),
        }
    }
}

/// Facts about a load beside its result.
#[derive(Clone, Debug, Default)]
pub(crate) struct Known {
    /// Queries have times of their own, whatever the answers.
    pub paced: bool,
    /// Packets with a wrong checksum that our network namespace received.
    pub corrupted: u64,
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
    measure::own::share(part, whole)
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
    let corrupted = k.corrupted + k.server.as_ref().map_or(0, |s| s.corrupted);
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
    let (reordered, c) = (r.signs.reordered, &r.counts);
    if reordered >= LEAST && share(reordered, c.answered) >= REORDERED_SHARE {
        let text = format!(
            "{} answers came after the answer to a later query of the same flow: the server, or the way, does not keep their order",
            percent(reordered, c.answered)
        );
        found.push(Reason::new("answers_reordered", text));
    }
    corrupted + k.incomplete
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
    // What is counted of the causes may be a few more or less.
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
    let of = |faults: &[&str]| faults.iter().filter_map(|f| checked.wrong.get(*f)).sum::<u64>();
    let all: u64 = checked.wrong.values().sum();
    let (serial, record) = (of(&["old_serial", "serial_went_back"]), of(&["foreign_record"]));
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
    let rest = all - serial - record;
    if rest > 0 && record == 0 && !refused && !fails {
        let kinds: Vec<&str> = checked.wrong.keys().map(String::as_str).collect();
        let text = format!(
            "{} of {whole} checked answers are wrong: {}",
            grouped(whole - checked.right),
            kinds.join(", ")
        );
        found.push(Reason::new("wrong_answers", text));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::CheckResult;
    use crate::{Counts, Tally};
    use measure::clock::SECOND;
    use rack::server_watch::Others;

    const MS: Nanos = 1_000_000;

    /// Queries every millisecond from second 1 on, each answered after 0.1 ms, but for those in `silent` (milliseconds).
    fn gather(silent: std::ops::Range<u64>, answered_after_all: bool) -> Gather {
        let (mut g, mut newest, mut held) = (Gather::default(), 0, Vec::new());
        for n in 0..1000 {
            let at = SECOND + n * MS;
            if n == silent.end {
                held.drain(..).for_each(|sent| g.answered(at, sent, &mut newest, false));
            }
            g.sent(at);
            match silent.contains(&n) {
                true if answered_after_all => held.push(at),
                true => {}
                false => g.answered(at + MS / 10, at, &mut newest, false),
            }
        }
        g.end();
        g
    }

    #[test]
    fn a_pause_is_seen_with_its_begin_and_length_whether_its_queries_are_answered_or_lost() {
        assert_eq!(gather(0..0, true).signs(SECOND, (0, 0)).pauses, []);
        for answered in [true, false] {
            let signs = gather(400..450, answered).signs(SECOND, (0, 0));
            let [pause] = signs.pauses[..] else { panic!("{signs:?}") };
            assert!((pause.at_s - 0.4).abs() < 0.002 && (pause.length_s - 0.05).abs() < 0.002, "{pause:?}");
            assert!((50..=51).contains(&pause.queries) && !pause.until_end, "{pause:?}");
            assert_eq!((signs.quickest_us, signs.reordered), (100.0, 0));
        }
        assert_eq!(gather(400..420, true).signs(SECOND, (0, 0)).pauses, [], "20 ms is none");
        let end = gather(900..2000, false).signs(SECOND, (0, 0));
        assert!(end.pauses[0].until_end && end.pauses[0].queries == 100, "{end:?}");
    }

    #[test]
    fn a_stall_of_the_generator_is_no_pause_of_the_server() {
        let g = gather(400..450, true);
        assert_eq!(g.signs(SECOND, (SECOND + 395 * MS, 60 * MS)).pauses, []);
        assert_eq!(g.signs(SECOND, (SECOND + 100 * MS, 60 * MS)).pauses.len(), 1);
        // Stopped for 200 ms: the answer to its last query was stamped while it stood still, then it caught up.
        let (mut g, mut newest) = (Gather::default(), 0);
        for n in 0..100 {
            g.sent(n * MS + 1);
            g.answered(n * MS + MS / 10, n * MS + 1, &mut newest, false);
        }
        g.sent(100 * MS);
        (0..20).for_each(|n| g.sent(300 * MS + n));
        g.answered(100 * MS + MS / 10, 100 * MS, &mut newest, false);
        (0..20).for_each(|n| g.answered(300 * MS + MS / 10 + n, 300 * MS + n, &mut newest, false));
        g.end();
        assert_eq!(g.signs(0, (0, 0)).pauses, []);
    }

    #[test]
    fn both_workers_see_the_same_pause_once() {
        let mut g = gather(400..450, true);
        g.merge(&gather(400..450, false));
        let signs = g.signs(SECOND, (0, 0));
        assert!(signs.pauses.len() == 1 && signs.pauses[0].queries >= 100, "{signs:?}");
        let mut sum = signs.clone();
        sum.merge(Signs { quickest_us: 50.0, reordered: 3, ..Signs::default() });
        assert_eq!((sum.quickest_us, sum.reordered, sum.pauses), (50.0, 3, signs.pauses));
    }

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
        ];
        for (n, (r, k, wanted)) in cases.iter().enumerate() {
            assert_eq!(codes(r, k), *wanted, "case {n}: {:?}", name(r, k));
        }
    }

    #[test]
    fn what_other_programs_did_is_no_finding() {
        let others = Others { waited: 0.5, used: 0.5 };
        let known = Known { server: Some(Seen { others, ..Seen::default() }), ..Known::default() };
        assert_eq!(codes(&result(0), &known), [""; 0]);
    }
}
