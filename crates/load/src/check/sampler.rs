//! Which answers are kept: a uniform sample of bounded size, drawn while they come in.

use measure::seed::{STEP, mix};
use measure::{Nanos, Seed};
use std::collections::BinaryHeap;
use std::net::SocketAddr;

/// One answer that was chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sample {
    /// The server.
    pub target: SocketAddr,
    /// When it was received, monotonic nanoseconds.
    pub at: Nanos,
    /// The message, or what the receive buffer had room for.
    pub bytes: Vec<u8>,
    /// Its length on the wire in octets; more than `bytes` has where the buffer was too small.
    pub len: usize,
}

/// Draws a uniform sample of the answers offered to it.
///
/// Each answer gets a pseudorandom 64-bit rank from the seed and its number, and those of the lowest ranks are kept
/// (bottom-k sampling). So samplers of several workers merge into what one sampler of all would have kept, and an
/// answer that is not chosen costs a multiplication or two and no memory. At most `most` answers are held, 1 MB for
/// each 1,000 where answers have 1 KB.
#[derive(Debug)]
pub struct Sampler {
    seed: u64,
    most: usize,
    offered: u64,
    /// Answers of this rank and above are not kept.
    limit: u64,
    /// The rank and the place of each sample, the highest rank on top.
    ranks: BinaryHeap<(u64, u32)>,
    samples: Vec<Sample>,
}

impl Sampler {
    /// A sampler of at most `most` answers; workers give different `worker` numbers.
    pub fn new(most: u32, seed: Seed, worker: u32) -> Self {
        Self {
            seed: seed.draw("check", worker.into()).bits(),
            most: most as usize,
            offered: 0,
            limit: if most == 0 { 0 } else { u64::MAX },
            ranks: BinaryHeap::new(),
            samples: Vec::new(),
        }
    }

    /// Offers an answer of `len` octets on the wire, of which `answer` holds the first; copies it where it is chosen.
    #[inline]
    pub fn offer(&mut self, target: SocketAddr, answer: &[u8], len: usize, at: Nanos) {
        let rank = mix(self.seed.wrapping_add(self.offered.wrapping_mul(STEP)));
        self.offered += 1;
        if rank < self.limit {
            self.keep(rank, target, answer, len, at);
        }
    }

    #[cold]
    fn keep(&mut self, rank: u64, target: SocketAddr, answer: &[u8], len: usize, at: Nanos) {
        if self.samples.len() < self.most {
            self.ranks.push((rank, self.samples.len() as u32));
            self.samples.push(Sample { target, at, bytes: answer.to_vec(), len });
        } else if let Some(mut top) = self.ranks.peek_mut() {
            // The heap finds its order again when the top is let go.
            let sample = &mut self.samples[top.1 as usize];
            top.0 = rank;
            (sample.target, sample.at, sample.len) = (target, at, len);
            sample.bytes.clear();
            sample.bytes.extend_from_slice(answer);
        }
        self.close();
    }

    /// Once full, only ranks below the highest are of interest.
    fn close(&mut self) {
        if self.samples.len() == self.most {
            self.limit = self.ranks.peek().map_or(0, |top| top.0);
        }
    }

    /// Takes what another worker's sampler, of the same `most`, has drawn.
    pub fn merge(&mut self, other: Self) {
        self.offered += other.offered;
        let place: Vec<(u64, u32)> = other.ranks.into_vec();
        let mut theirs: Vec<Option<Sample>> = other.samples.into_iter().map(Some).collect();
        let mut all: Vec<(u64, Sample)> =
            place.into_iter().filter_map(|(rank, at)| Some((rank, theirs[at as usize].take()?))).collect();
        let ours = std::mem::take(&mut self.ranks).into_vec();
        let mut kept: Vec<Option<Sample>> = std::mem::take(&mut self.samples).into_iter().map(Some).collect();
        all.extend(ours.into_iter().filter_map(|(rank, at)| Some((rank, kept[at as usize].take()?))));
        all.sort_unstable_by_key(|(rank, _)| *rank);
        all.truncate(self.most);
        for (rank, sample) in all {
            self.ranks.push((rank, self.samples.len() as u32));
            self.samples.push(sample);
        }
        self.close();
    }

    /// How many answers were offered.
    pub fn offered(&self) -> u64 {
        self.offered
    }

    /// The sample, in no order.
    pub fn finish(self) -> Vec<Sample> {
        self.samples
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn offer(sampler: &mut Sampler, numbers: impl Iterator<Item = u32>) {
        let target = "127.0.0.1:53".parse().unwrap();
        for n in numbers {
            sampler.offer(target, &n.to_be_bytes(), 4, n.into());
        }
    }

    fn numbers(sampler: Sampler) -> Vec<u32> {
        let number = |s: Sample| u32::from_be_bytes(s.bytes.try_into().unwrap());
        let mut numbers: Vec<u32> = sampler.finish().into_iter().map(number).collect();
        numbers.sort_unstable();
        numbers
    }

    #[test]
    fn every_answer_is_as_likely() {
        // 200 samplers of 100 of 1,000: in each tenth of the answers 2,000 are expected, with a deviation of 40.
        let mut hits = [0u32; 10];
        for seed in 0..200 {
            let mut sampler = Sampler::new(100, Seed(seed), 0);
            offer(&mut sampler, 0..1000);
            let kept = numbers(sampler);
            assert_eq!(kept.len(), 100);
            kept.into_iter().for_each(|n| hits[n as usize / 100] += 1);
        }
        assert!(hits.iter().all(|h| (1800..2200).contains(h)), "{hits:?}");
    }

    #[test]
    fn few_answers_are_all_kept_and_none_where_none_is_wanted() {
        let mut sampler = Sampler::new(1000, Seed(1), 0);
        offer(&mut sampler, 0..700);
        assert_eq!(sampler.offered(), 700);
        assert_eq!(numbers(sampler), (0..700).collect::<Vec<_>>());
        let mut none = Sampler::new(0, Seed(1), 0);
        offer(&mut none, 0..700);
        assert!(none.finish().is_empty());
    }

    proptest! {
        /// Whatever is kept has lower ranks than what is not, however answers are spread over workers.
        #[test]
        fn merged_samplers_keep_the_lowest_ranks(most in 1u32..50, a in 0u32..300, b in 0u32..300, seed: u64) {
            let mut samplers = [0, 1].map(|worker| Sampler::new(most, Seed(seed), worker));
            offer(&mut samplers[0], 0..a);
            offer(&mut samplers[1], 1000..1000 + b);
            let rank = |s: &Sampler, n: u32| mix(s.seed.wrapping_add(u64::from(n).wrapping_mul(STEP)));
            let mut ranks: Vec<(u64, u32)> = (0..a).map(|n| (rank(&samplers[0], n), n)).collect();
            ranks.extend((0..b).map(|n| (rank(&samplers[1], n), 1000 + n)));
            ranks.sort_unstable();
            let mut expected: Vec<u32> = ranks.into_iter().take(most as usize).map(|(_, n)| n).collect();
            expected.sort_unstable();
            let [mut first, second] = samplers;
            first.merge(second);
            prop_assert_eq!(first.offered(), u64::from(a + b));
            prop_assert_eq!(numbers(first), expected);
        }
    }
}
