//! Clients and their rates: exact while there are few clients, a sketch with a stated error beyond.

use hashbrown::HashMap;
use measure::distinct::Distinct;
use measure::seed::mix;
use std::net::{IpAddr, Ipv6Addr};

/// Clients that are counted one by one.
pub const CLIENTS_MAX: usize = 1 << 20;

/// Queries that are counted at once.
const FRESH: usize = 64;

/// Queries by client.
///
/// Beyond [`CLIENTS_MAX`] clients the lower half is forgotten, and what the middle one had is taken from all (Misra and
/// Gries, 1982): a count that is left is too low by at most [`Self::error`].
#[derive(Clone, Debug, Default)]
pub struct Clients {
    counts: HashMap<u128, u64>,
    /// Queries that are not counted yet: many at once, as each is likely a miss of the caches, and misses that do not wait
    /// for each other cost little more than one.
    fresh: Vec<u128>,
    queries: u64,
    error: u64,
    /// From when the first were forgotten.
    all: Option<Distinct>,
}

/// An address as a number, those of IPv4 as mapped ones (RFC 4291, section 2.5.5.2).
pub(crate) fn key(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(a) => a.to_ipv6_mapped().to_bits(),
        IpAddr::V6(a) => a.to_bits(),
    }
}

/// A number of an address for sketches.
pub(crate) fn number(address: u128) -> u64 {
    mix((address >> 64) as u64) ^ address as u64
}

impl Clients {
    /// A query from `client`.
    pub fn add(&mut self, client: IpAddr) {
        let key = key(client);
        self.queries += 1;
        self.fresh.push(key);
        if self.fresh.len() == FRESH {
            self.settle();
        }
    }

    /// Counts what is fresh: to be done before anything is asked for.
    pub fn settle(&mut self) {
        let mut fresh = std::mem::take(&mut self.fresh);
        fresh.drain(..).for_each(|key| self.add_many(key, 1));
        self.fresh = fresh;
    }

    fn add_many(&mut self, key: u128, count: u64) {
        if let Some(all) = &mut self.all {
            all.add(number(key));
        }
        *self.counts.entry(key).or_default() += count;
        if self.counts.len() > CLIENTS_MAX {
            self.forget_half();
        }
    }

    fn forget_half(&mut self) {
        if self.all.is_none() {
            let mut all = Distinct::default();
            self.counts.keys().for_each(|&key| all.add(number(key)));
            self.all = Some(all);
        }
        let mut counts: Vec<u64> = self.counts.values().copied().collect();
        let middle = counts.len() / 2;
        let (_, &mut middle, _) = counts.select_nth_unstable(middle);
        self.counts.retain(|_, count| {
            *count = count.saturating_sub(middle);
            *count > 0
        });
        self.error += middle;
    }

    /// Adds all of another.
    pub fn merge(&mut self, other: &Self) {
        if other.all.is_some() && self.all.is_none() {
            let mut all = Distinct::default();
            self.counts.keys().for_each(|&key| all.add(number(key)));
            self.all = Some(all);
        }
        if let (Some(all), Some(theirs)) = (&mut self.all, &other.all) {
            all.merge(theirs);
        }
        self.error += other.error;
        self.queries += other.queries;
        // In order, so that what is forgotten does not hang on how a table is laid out.
        let mut theirs: Vec<_> = other.counts.iter().map(|(&key, &count)| (key, count)).collect();
        theirs.sort_unstable();
        theirs.into_iter().for_each(|(key, count)| self.add_many(key, count));
    }

    /// Queries of all clients.
    pub fn queries(&self) -> u64 {
        self.queries
    }

    /// How many clients there were.
    pub fn count(&self) -> u64 {
        self.all.as_ref().map_or(self.counts.len() as u64, Distinct::count)
    }

    /// The numbers are estimates.
    pub fn is_sketch(&self) -> bool {
        self.all.is_some()
    }

    /// By how much the count of a client can be too low.
    pub fn error(&self) -> u64 {
        self.error
    }

    /// The counts of the clients that are known one by one, the greatest first.
    pub fn counts(&self) -> Vec<u64> {
        let mut counts: Vec<_> = self.counts.values().copied().collect();
        counts.sort_unstable_by(|a, b| b.cmp(a));
        counts
    }

    /// The fewest clients that send half of the queries; `None` where those that are known one by one do not.
    pub fn half(&self) -> Option<u64> {
        let mut left = self.queries.div_ceil(2);
        let counts = self.counts();
        let needed = counts.iter().position(|&count| {
            left = left.saturating_sub(count);
            left == 0
        });
        needed.map(|last| last as u64 + 1)
    }

    /// The clients with most queries, the first first; of equals the lower address.
    pub fn top(&self, count: usize) -> Vec<(IpAddr, u64)> {
        let mut all: Vec<_> = self.counts.iter().map(|(&key, &n)| (std::cmp::Reverse(n), key)).collect();
        if all.len() > count {
            all.select_nth_unstable(count);
            all.truncate(count);
        }
        all.sort_unstable();
        all.into_iter().map(|(n, key)| (Ipv6Addr::from_bits(key).to_canonical(), n.0)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(n: u64) -> IpAddr {
        Ipv6Addr::from_bits(0x2001_0db8 << 96 | u128::from(n)).into()
    }

    #[test]
    fn few_are_exact() {
        let mut one = Clients::default();
        let mut other = Clients::default();
        for n in 0..10_000u64 {
            one.add(address(n % 100));
            other.add("192.0.2.1".parse().unwrap());
        }
        one.settle();
        other.settle();
        one.merge(&other);
        assert_eq!((one.count(), one.is_sketch(), one.error(), one.queries()), (101, false, 0, 20_000));
        assert_eq!(one.top(2), [("192.0.2.1".parse().unwrap(), 10_000), (address(0), 100)]);
    }

    #[test]
    fn many_keep_those_that_dominate() {
        let mut clients = Clients::default();
        let total = 3 * CLIENTS_MAX as u64;
        for n in 0..total {
            clients.add(address(n));
            if n % 4 == 0 {
                clients.add("192.0.2.1".parse().unwrap());
            }
        }
        clients.settle();
        assert!(clients.is_sketch() && clients.counts.len() <= CLIENTS_MAX);
        let off = clients.count().abs_diff(total + 1) as f64;
        assert!(off <= 4.0 * Distinct::ERROR * total as f64, "{}", clients.count());
        let (top, count) = clients.top(1)[0];
        assert_eq!(top, "192.0.2.1".parse::<IpAddr>().unwrap());
        assert!(count <= total / 4 && count + clients.error() >= total / 4, "{count}, {}", clients.error());
    }
}
