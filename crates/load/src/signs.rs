//! Observations in answers that counts alone do not show: pauses, answers from elsewhere, answers that overtook others. [`Gather`]
//! notes them while answers come.

use measure::Nanos;
use serde::{Deserialize, Serialize};

/// For how long no answer may come to queries that are sent, before it is a pause.
const PAUSE: Nanos = 30_000_000;

/// A pause counts only if so many queries were sent in it.
const PAUSE_QUERIES: u64 = 10;

/// The longest pauses are kept.
const PAUSES: usize = 16;

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

#[cfg(test)]
mod tests {
    use super::*;
    use measure::clock::SECOND;

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
}
