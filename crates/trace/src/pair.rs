//! Pairs each answer with its query.
//!
//! An answer belongs to a query that went the other way between the same addresses and ports, over the same transport
//! (and TCP connection), with the same ID and the same question in the same case. An answer without a question
//! (FORMERR, say) belongs to a query with the same of all else. Of a query that was sent again, the first answer belongs
//! to the first. An answer captured before its query belongs to none.

use crate::read::Message;
use hashbrown::HashTable;
use measure::Nanos;
use measure::clock::SECOND;
use std::net::IpAddr;
use wire::question;

/// How long an answer is waited for: longer than resolvers do.
pub const WINDOW: Nanos = 10 * SECOND;

/// Queries that can wait at once; where there are more, the older half is given up.
const WAITING_MAX: usize = 1 << 20;

/// Queries that wait for their answers, each with what is remembered of it.
pub struct Pairs<T> {
    waiting: HashTable<Asked<T>>,
    window: Nanos,
    /// The time of the last look for queries that waited for too long.
    swept: Nanos,
    asked: u64,
    /// Queries that waited for too long, in order.
    expired: Vec<Asked<T>>,
}

/// A query that waits.
struct Asked<T> {
    hash: u64,
    /// [`question::hash`].
    question: Option<u64>,
    at: Nanos,
    /// Its number among all queries, from 1.
    number: u64,
    what: T,
}

/// A hash of what a message and its answer have in common but for the question.
fn hash(message: &Message<'_>) -> u64 {
    let (client, server) =
        if message.header().qr() { (message.to, message.from) } else { (message.from, message.to) };
    let mut key = [0; 48];
    for (at, ip) in [(0, client.ip()), (16, server.ip())] {
        match ip {
            IpAddr::V4(ip) => key[at..at + 4].copy_from_slice(&ip.octets()),
            IpAddr::V6(ip) => key[at..at + 16].copy_from_slice(&ip.octets()),
        }
    }
    key[32..34].copy_from_slice(&client.port().to_le_bytes());
    key[34..36].copy_from_slice(&server.port().to_le_bytes());
    key[36..38].copy_from_slice(&message.header().id().to_le_bytes());
    key[40..48].copy_from_slice(&message.tcp.map_or(0, |n| n + 1).to_le_bytes());
    question::hash_octets(&key)
}

impl<T> Default for Pairs<T> {
    /// With the usual window.
    fn default() -> Self {
        Self::new(WINDOW)
    }
}

impl<T> Pairs<T> {
    /// Answers are waited for as long as `window`, in nanoseconds.
    pub fn new(window: Nanos) -> Self {
        Self { waiting: HashTable::new(), window, swept: 0, asked: 0, expired: Vec::new() }
    }

    /// A query, of which `what` is to be remembered.
    pub fn query(&mut self, message: &Message<'_>, what: T) {
        let (hash, at) = (hash(message), message.at);
        if self.waiting.len() == WAITING_MAX {
            let mut times: Vec<_> = self.waiting.iter().map(|asked| asked.number).collect();
            let (_, &mut middle, _) = times.select_nth_unstable(WAITING_MAX / 2);
            self.give_up(|asked| asked.number <= middle);
        }
        let asked = Asked { hash, question: question::hash(message.bytes), at, number: self.asked, what };
        self.asked += 1;
        self.waiting.insert_unique(hash, asked, |asked| asked.hash);
    }

    /// The data of the query that this is the answer to, and how long it was before, in nanoseconds; `None`
    /// where no query waits for it.
    pub fn answer(&mut self, message: &Message<'_>) -> Option<(T, Nanos)> {
        let hash = hash(message);
        let question = question::hash(message.bytes);
        let fits = |asked: &Asked<T>| {
            asked.hash == hash && (question.is_none() || asked.question == question) && asked.at <= message.at
        };
        let first =
            self.waiting.iter_hash(hash).filter(|asked| fits(asked)).map(|asked| asked.number).min()?;
        let entry = self.waiting.find_entry(hash, |asked| asked.number == first).ok()?;
        let (asked, _) = entry.remove();
        Some((asked.what, message.at - asked.at))
    }

    /// Now and then: gives up those that have waited for too long, in order.
    pub fn expire(&mut self, now: Nanos, mut each: impl FnMut(T)) {
        if now.saturating_sub(self.swept) > self.window / 4 {
            self.swept = now;
            let window = self.window;
            self.give_up(|asked| now.saturating_sub(asked.at) > window);
        }
        self.expired.drain(..).for_each(|asked| each(asked.what));
    }

    /// The trace is over: gives up all, in order.
    pub fn finish(&mut self, mut each: impl FnMut(T)) {
        self.give_up(|_| true);
        self.expired.drain(..).for_each(|asked| each(asked.what));
    }

    fn give_up(&mut self, which: impl Fn(&Asked<T>) -> bool) {
        let before = self.expired.len();
        self.expired.extend(self.waiting.extract_if(|asked| which(asked)));
        self.expired[before..].sort_unstable_by_key(|asked| asked.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(at: Nanos, bytes: &[u8], response: bool) -> Message<'_> {
        let (client, server) = ("192.0.2.1:4000".parse().unwrap(), "192.0.2.53:53".parse().unwrap());
        let (from, to) = if response { (server, client) } else { (client, server) };
        Message::over_udp(at, from, to, bytes)
    }

    fn query(id: u16, name: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        wire::query::write(&mut bytes, id, name, 1, None);
        bytes
    }

    fn answer(id: u16, name: &[u8]) -> Vec<u8> {
        let mut bytes = query(id, name);
        wire::header::set_qr(&mut bytes);
        bytes
    }

    #[test]
    fn answers_belong_to_their_queries() {
        let mut pairs = Pairs::default();
        pairs.query(&message(100, &query(1, b"\x01a\0"), false), "a");
        pairs.query(&message(200, &query(1, b"\x01b\0"), false), "b");
        pairs.query(&message(300, &query(1, b"\x01b\0"), false), "b again");
        pairs.query(&message(400, &query(2, b"\x01c\0"), false), "c");
        let mut got = |at, id, name: &[u8]| pairs.answer(&message(at, &answer(id, name), true));
        assert_eq!(got(500, 1, b"\x01b\0"), Some(("b", 300)));
        assert_eq!(got(500, 1, b"\x01b\0"), Some(("b again", 200)));
        assert_eq!(got(500, 1, b"\x01b\0"), None);
        assert_eq!(got(500, 2, b"\x01a\0"), None);
        assert_eq!(got(500, 1, b"\x01A\0"), None, "in the same case");
        assert_eq!(got(50, 1, b"\x01a\0"), None, "an answer before its query");
        let mut bare = answer(2, b"\0");
        bare.truncate(12);
        bare[5] = 0;
        assert_eq!(pairs.answer(&message(600, &bare, true)), Some(("c", 200)), "without a question");
        let mut left = Vec::new();
        pairs.finish(|what| left.push(what));
        assert_eq!(left, ["a"]);
    }

    #[test]
    fn queries_without_answers_are_given_up_in_order() {
        let mut pairs = Pairs::new(SECOND);
        for n in 0..100u16 {
            pairs.query(&message(u64::from(n) * SECOND / 10, &query(n, b"\x01a\0"), false), n);
        }
        let mut given = Vec::new();
        pairs.expire(5 * SECOND, |n| given.push(n));
        assert_eq!(given, (0..40).collect::<Vec<_>>());
        pairs.finish(|n| given.push(n));
        assert_eq!(given, (0..100).collect::<Vec<_>>());
    }

    #[test]
    fn memory_is_bounded() {
        let mut pairs = Pairs::default();
        let bytes = query(1, b"\x01a\0");
        let mut given = 0;
        for n in 0..WAITING_MAX as u64 + 10 {
            let mut query = message(n, &bytes, false);
            query.tcp = Some(n);
            pairs.query(&query, ());
            pairs.expire(n, |()| given += 1);
        }
        assert_eq!(given, WAITING_MAX / 2 + 1);
        assert!(pairs.waiting.len() <= WAITING_MAX);
    }
}
