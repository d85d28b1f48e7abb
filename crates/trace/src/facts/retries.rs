//! Truncated answers, and the queries over TCP that follow them.

use crate::read::Message;
use hashbrown::HashMap;
use measure::Nanos;
use measure::clock::SECOND;
use std::collections::VecDeque;
use std::net::IpAddr;
use wire::question;

/// Within which time a query over TCP for the same name, type and class from the same client to the same
/// address counts as a retry.
pub const RETRY_WINDOW: Nanos = 10 * SECOND;

/// Truncated answers that are remembered at once; where there are more, the older half is forgotten.
const REMEMBERED_MAX: usize = 1 << 18;

/// Truncated answers that were not asked for again yet.
#[derive(Default)]
pub struct Retries {
    /// When they were captured and what will be reported of them, by client, server and question; the oldest first. A client may get
    /// several before it asks again.
    waiting: HashMap<u64, VecDeque<(Nanos, usize)>>,
    /// Of all together.
    count: usize,
}

/// A hash of a client, the server and the question in lower case; `None` without one.
fn key(client: IpAddr, server: IpAddr, message: &[u8]) -> Option<u64> {
    let question = &message[wire::header::LEN..question::end(message)?];
    let mut octets = [0; 32 + 255 + 4];
    for (at, address) in [(0, client), (16, server)] {
        match address {
            IpAddr::V4(a) => octets[at..at + 4].copy_from_slice(&a.octets()),
            IpAddr::V6(a) => octets[at..at + 16].copy_from_slice(&a.octets()),
        }
    }
    let all = &mut octets[..32 + question.len()];
    all[32..].copy_from_slice(question);
    let name = all.len() - 4;
    wire::name::lowercase(&mut all[32..name]);
    Some(question::hash_octets(all))
}

impl Retries {
    /// A truncated answer; `kind` is what will be reported of it.
    pub fn truncated(&mut self, answer: &Message<'_>, kind: usize) {
        let Some(key) = key(answer.to.ip(), answer.from.ip(), answer.bytes) else { return };
        if self.count == REMEMBERED_MAX {
            let mut times: Vec<_> = self.waiting.values().flatten().map(|&(at, _)| at).collect();
            let (_, &mut middle, _) = times.select_nth_unstable(REMEMBERED_MAX / 2);
            self.waiting.retain(|_, waiting| {
                waiting.retain(|&(at, _)| at > middle);
                !waiting.is_empty()
            });
            self.count = self.waiting.values().map(VecDeque::len).sum();
        }
        self.waiting.entry(key).or_default().push_back((answer.at, kind));
        self.count += 1;
    }

    /// A query over TCP: the kind of the truncated answer that it follows, if it does. Each answer is followed by one query at most.
    pub fn over_tcp(&mut self, query: &Message<'_>) -> Option<usize> {
        if self.waiting.is_empty() {
            return None;
        }
        let key = key(query.from.ip(), query.to.ip(), query.bytes)?;
        let waiting = self.waiting.get_mut(&key)?;
        let before = waiting.len();
        let too_old = |&(at, _): &(Nanos, usize)| query.at.saturating_sub(at) > RETRY_WINDOW;
        while waiting.front().is_some_and(too_old) {
            waiting.pop_front();
        }
        let followed = waiting.pop_front();
        self.count -= before - waiting.len();
        if waiting.is_empty() {
            self.waiting.remove(&key);
        }
        followed.map(|(_, kind)| kind)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLIENT: &str = "192.0.2.1:4000";
    const SERVER: &str = "192.0.2.53:53";

    fn message<'a>(at: Nanos, from: &str, to: &str, bytes: &'a [u8]) -> Message<'a> {
        Message::over_udp(at, from.parse().unwrap(), to.parse().unwrap(), bytes)
    }

    #[test]
    fn each_truncated_answer_is_followed_by_one_query_of_its_client() {
        let bytes = [&[0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0][..], b"\x03big\0\0\x10\0\x01"].concat();
        let mut retries = Retries::default();
        let answer = |retries: &mut Retries, at, kind| {
            retries.truncated(&message(at, SERVER, CLIENT, &bytes), kind);
        };
        let asked =
            |retries: &mut Retries, at, client| retries.over_tcp(&message(at, client, SERVER, &bytes));
        // Two answers before the first query.
        answer(&mut retries, 1, 0);
        answer(&mut retries, 2, 1);
        assert_eq!(asked(&mut retries, 3, "192.0.2.2:4000"), None, "another client");
        assert_eq!([0; 3].map(|_| asked(&mut retries, 3, CLIENT)), [Some(0), Some(1), None]);
        // One that is too old is followed by none.
        answer(&mut retries, 1, 0);
        answer(&mut retries, SECOND, 1);
        assert_eq!([0; 2].map(|_| asked(&mut retries, 2 + RETRY_WINDOW, CLIENT)), [Some(1), None]);
        assert_eq!((retries.count, retries.waiting.len()), (0, 0));
        // Of too many the older half is forgotten.
        (0..=REMEMBERED_MAX).for_each(|at| answer(&mut retries, at as Nanos, 0));
        assert_eq!(retries.count, REMEMBERED_MAX / 2);
        assert_eq!(retries.waiting.values().next().unwrap()[0].0, REMEMBERED_MAX as Nanos / 2 + 1);
    }
}
