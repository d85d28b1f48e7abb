//! Truncated answers, and the queries over TCP that follow them.

use crate::read::Message;
use hashbrown::HashMap;
use measure::Nanos;
use measure::clock::SECOND;
use std::net::IpAddr;
use wire::question;

/// Within which time a query over TCP for the same name, type and class from the same client to the same
/// address counts as a retry.
pub const RETRY_WINDOW: Nanos = 10 * SECOND;

/// Truncated answers that are remembered at once; where there are more, the older half is forgotten.
const REMEMBERED_MAX: usize = 1 << 18;

/// Truncated answers that were not asked for again yet.
#[derive(Default)]
pub struct Retries(HashMap<u64, (Nanos, usize)>);

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
        if self.0.len() == REMEMBERED_MAX {
            let mut times: Vec<_> = self.0.values().map(|&(at, _)| at).collect();
            let (_, &mut middle, _) = times.select_nth_unstable(REMEMBERED_MAX / 2);
            self.0.retain(|_, &mut (at, _)| at > middle);
        }
        self.0.insert(key, (answer.at, kind));
    }

    /// A query over TCP: the kind of the truncated answer that it follows, if it does.
    pub fn over_tcp(&mut self, query: &Message<'_>) -> Option<usize> {
        if self.0.is_empty() {
            return None;
        }
        let (at, kind) = self.0.remove(&key(query.from.ip(), query.to.ip(), query.bytes)?)?;
        (query.at.saturating_sub(at) <= RETRY_WINDOW).then_some(kind)
    }
}
