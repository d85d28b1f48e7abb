//! When queries were sent, answered and lost, in slices of some milliseconds: fine enough to see a pause of a core, and bounded
//! in memory whatever the length of a load.

use crate::Nanos;
use crate::calm::StretchLatencies;
use serde::{Deserialize, Serialize};

/// The length of a slice at the beginning, in nanoseconds.
pub const SLICE: Nanos = 10_000_000;

/// The most slices. A longer load has longer slices: each time it would need more, they double.
const MOST: usize = 4096;

/// Counts by slice. Slice `n` covers the time from `n` to `n + 1` times [`Timeline::slice`] after the first query was due.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Timeline {
    /// The length of a slice in nanoseconds.
    pub slice: Nanos,
    /// Queries by the time of their sending.
    pub sent: Vec<u32>,
    /// Answers within the deadline by the time of their arrival.
    pub answered: Vec<u32>,
    /// Queries that were never answered in time, by the time of their sending.
    pub lost: Vec<u32>,
    /// How long answers took, in longer stretches.
    #[serde(default)]
    pub latencies: StretchLatencies,
}

impl Default for Timeline {
    fn default() -> Self {
        Self {
            slice: SLICE,
            sent: Vec::new(),
            answered: Vec::new(),
            lost: Vec::new(),
            latencies: StretchLatencies::default(),
        }
    }
}

/// Queries that were lost shortly after each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Burst {
    /// The beginning of the first slice with a loss, in nanoseconds after the first query was due.
    pub from: Nanos,
    /// The end of the last one.
    pub to: Nanos,
    /// How many queries were lost.
    pub lost: u64,
    /// How many were sent meanwhile.
    pub sent: u64,
}

impl Timeline {
    /// A query was sent at `at` nanoseconds after the first was due.
    pub fn sent(&mut self, at: Nanos) {
        let slice = self.index(at);
        add(&mut self.sent, slice, 1);
    }

    /// An answer arrived at `at` nanoseconds after the first query was due, `latency` nanoseconds after its own query was.
    pub fn answered(&mut self, at: Nanos, latency: Nanos) {
        let slice = self.index(at);
        self.latencies.record(at, latency);
        add(&mut self.answered, slice, 1);
    }

    /// A query that was sent `at` nanoseconds after the first was due was lost.
    pub fn lost(&mut self, at: Nanos) {
        let slice = self.index(at);
        add(&mut self.lost, slice, 1);
    }

    fn index(&mut self, at: Nanos) -> usize {
        while at / self.slice >= MOST as u64 {
            self.double();
        }
        (at / self.slice) as usize
    }

    fn double(&mut self) {
        self.slice *= 2;
        for counts in [&mut self.sent, &mut self.answered, &mut self.lost] {
            *counts = counts.chunks(2).map(|pair| pair.iter().sum()).collect();
        }
    }

    /// Adds the counts of another sender that began at the same instant.
    pub fn merge(&mut self, mut other: Self) {
        while self.slice < other.slice {
            self.double();
        }
        while other.slice < self.slice {
            other.double();
        }
        for (to, from) in
            [(&mut self.sent, other.sent), (&mut self.answered, other.answered), (&mut self.lost, other.lost)]
        {
            from.into_iter().enumerate().for_each(|(slice, count)| add(to, slice, count));
        }
        self.latencies.merge(other.latencies);
    }

    /// The losses, put together where they are less than `gap` nanoseconds apart.
    pub fn bursts(&self, gap: Nanos) -> Vec<Burst> {
        let mut bursts: Vec<Burst> = Vec::new();
        for (n, &lost) in self.lost.iter().enumerate().filter(|(_, lost)| **lost > 0) {
            let (from, to) = (n as u64 * self.slice, (n as u64 + 1) * self.slice);
            match bursts.last_mut().filter(|burst| from < burst.to + gap) {
                Some(burst) => (burst.to, burst.lost) = (to, burst.lost + u64::from(lost)),
                None => bursts.push(Burst { from, to, lost: lost.into(), sent: 0 }),
            }
        }
        for burst in &mut bursts {
            burst.sent = self.sent_within(burst.from, burst.to);
        }
        bursts
    }

    /// Queries sent per second from `from` to `to`, over the whole slices that are nearest; none where these are none.
    pub fn sent_qps(&self, from: Nanos, to: Nanos) -> Option<f64> {
        let [first, end] = [from, to].map(|at| ((at + self.slice / 2) / self.slice) as usize);
        let sent: u64 = self.sent.get(first..end)?.iter().map(|&n| u64::from(n)).sum();
        (first < end).then(|| sent as f64 * 1e9 / ((end - first) as u64 * self.slice) as f64)
    }

    /// Queries sent from `from` to `to`, whole slices of it.
    pub fn sent_within(&self, from: Nanos, to: Nanos) -> u64 {
        let slices = (from / self.slice) as usize..to.div_ceil(self.slice) as usize;
        self.sent.iter().skip(slices.start).take(slices.len()).map(|&n| u64::from(n)).sum()
    }

    /// Answers per second in each whole stretch of about `stretch` nanoseconds (a multiple of the slice) of the first `length`
    /// nanoseconds.
    pub fn answered_qps(&self, stretch: Nanos, length: Nanos) -> Vec<f64> {
        let slices = (stretch / self.slice).max(1) as usize;
        let stretches = (length / self.slice) as usize / slices;
        let seconds = slices as f64 * self.slice as f64 / 1e9;
        let count = |n: usize| -> u64 {
            self.answered.iter().skip(n * slices).take(slices).map(|&n| u64::from(n)).sum()
        };
        (0..stretches).map(|n| count(n) as f64 / seconds).collect()
    }
}

fn add(counts: &mut Vec<u32>, slice: usize, count: u32) {
    if counts.len() <= slice {
        counts.resize(slice + 1, 0);
    }
    counts[slice] += count;
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MS: Nanos = 1_000_000;

    #[test]
    fn losses_near_each_other_are_one_burst() {
        let mut t = Timeline::default();
        (0..100).for_each(|n| t.sent(n * MS));
        for at in [12, 13, 25, 70, 71] {
            t.lost(at * MS);
        }
        let bursts = t.bursts(20 * MS);
        let seen: Vec<_> = bursts.iter().map(|b| (b.from / MS, b.to / MS, b.lost, b.sent)).collect();
        assert_eq!(seen, [(10, 30, 3, 20), (70, 80, 2, 10)]);
        assert_eq!(t.bursts(60 * MS).len(), 1);
        assert!(Timeline::default().bursts(MS).is_empty());
    }

    #[test]
    fn the_sent_rate_is_of_the_nearest_slices() {
        let mut t = Timeline::default();
        (0..200).for_each(|n| t.sent(n * MS));
        assert_eq!(t.sent_qps(100 * MS + 1, 196 * MS), Some(1000.0));
        assert_eq!((t.sent_qps(100 * MS, 104 * MS), t.sent_qps(100 * MS, 300 * MS)), (None, None));
    }

    #[test]
    fn answers_per_second_are_of_whole_stretches() {
        let mut t = Timeline::default();
        (0..250).for_each(|n| t.answered(n * MS, MS));
        assert_eq!(t.answered_qps(100 * MS, 250 * MS), [1000.0, 1000.0]);
        assert_eq!(t.answered_qps(100 * MS, 400 * MS), [1000.0, 1000.0, 500.0, 0.0], "nothing came later");
    }

    proptest! {
        #[test]
        fn nothing_is_lost_in_long_loads_and_sums(
            a in prop::collection::vec(0u64..90_000_000_000_000, 0..50),
            b in prop::collection::vec(0u64..60_000_000_000, 0..50),
        ) {
            let fill = |times: &[u64]| {
                let mut t = Timeline::default();
                times.iter().for_each(|&at| { t.sent(at); t.lost(at); });
                t
            };
            let (mut ab, mut ba) = (fill(&a), fill(&b));
            ab.merge(fill(&b));
            ba.merge(fill(&a));
            prop_assert!(ab.sent.len() <= MOST);
            let all = (a.len() + b.len()) as u64;
            prop_assert_eq!(ab.sent_within(0, u64::MAX / 2), all);
            prop_assert_eq!(ab.bursts(0).iter().map(|burst| burst.lost).sum::<u64>(), all);
            let counts = |t: &Timeline| t.lost.iter().copied().filter(|n| *n > 0).collect::<Vec<_>>();
            prop_assert_eq!(counts(&ab), counts(&ba));
        }
    }
}
