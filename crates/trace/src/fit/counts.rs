//! How often each of many things came, in bounded memory.

use hashbrown::HashMap;

/// The most names that are counted one by one.
pub(super) const NAMES_MAX: usize = 1 << 17;

/// Counts names. Beyond [`NAMES_MAX`] the lower half is forgotten, and what the middle one had is taken from all (Misra
/// and Gries, 1982): a count that is left is too low by at most [`Self::error`].
#[derive(Default)]
pub(super) struct NameCounts {
    counts: HashMap<Box<[u8]>, u64>,
    /// Of all names.
    pub total: u64,
    pub error: u64,
}

impl NameCounts {
    pub fn add(&mut self, name: &[u8]) {
        self.total += 1;
        if let Some(count) = self.counts.get_mut(name) {
            *count += 1;
            return;
        }
        self.counts.insert(name.into(), 1);
        if self.counts.len() > NAMES_MAX {
            let mut counts: Vec<u64> = self.counts.values().copied().collect();
            let (_, &mut middle, _) = counts.select_nth_unstable(NAMES_MAX / 2);
            self.counts.retain(|_, count| {
                *count = count.saturating_sub(middle);
                *count > 0
            });
            self.error += middle;
        }
    }

    /// Everything with its weight, where that is no more than `most` things. Otherwise the more frequent half of so many;
    /// for all others stands a sample of them, in the order of their octets: each as often as its count.
    pub fn thinned(&self, most: usize) -> Vec<(&[u8], f64)> {
        let mut all: Vec<(&[u8], u64)> = self.counts.iter().map(|(name, &count)| (&**name, count)).collect();
        all.sort_unstable_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(b.0)));
        let kept = if all.len() <= most { all.len() } else { most / 2 };
        let rest = &mut all[kept..];
        rest.sort_unstable();
        let (total, sample) = (rest.iter().map(|r| r.1).sum::<u64>() as f64, (most - most / 2) as f64);
        let step = total / sample;
        let (mut sum, mut next, mut drawn) = (0.0, step / 2.0, Vec::new());
        for &mut (name, count) in rest {
            sum += count as f64;
            let times = if next < sum { ((sum - next) / step).ceil() } else { 0.0 };
            if times > 0.0 {
                next += times * step;
                drawn.push((name, times * step));
            }
        }
        all.truncate(kept);
        all.into_iter().map(|(name, count)| (name, count as f64)).chain(drawn).collect()
    }

    /// Names that came more often than others by no accident, the most frequent first, at most `most`: ten times at
    /// least, and more than six standard deviations above the mean of all that come after.
    pub fn popular(&self, most: usize) -> Vec<(&[u8], u64)> {
        let mut sorted: Vec<(&[u8], u64)> =
            self.counts.iter().map(|(name, &count)| (&**name, count)).collect();
        sorted.sort_unstable_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(b.0)));
        let (mut left, mut names) = (self.total, sorted.len() as u64);
        let is_popular = |&(_, count): &(&[u8], u64)| {
            left -= count;
            names -= 1;
            let mean = left as f64 / names.max(1) as f64;
            count >= 10 && (names == 0 || count as f64 > mean + 6.0 * mean.sqrt())
        };
        let count = sorted.iter().take(most).map(is_popular).take_while(|&popular| popular).count();
        sorted.truncate(count);
        sorted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_popular_by_no_accident() {
        let mut counts = NameCounts::default();
        for n in 0..10_000u32 {
            counts.add(format!("usual{}", n % 500).as_bytes());
            if n % 3 == 0 {
                counts.add(b"first");
            }
            if n % 100 == 0 {
                counts.add(b"second");
            }
        }
        assert_eq!(counts.popular(200), [(&b"first"[..], 3334), (b"second", 100)]);
        assert_eq!(counts.popular(1).len(), 1);
        let mut few = NameCounts::default();
        (0..9).for_each(|_| few.add(b"few"));
        assert!(few.popular(200).is_empty());
        few.add(b"few");
        assert_eq!(few.popular(200), [(&b"few"[..], 10)]);
    }

    #[test]
    fn a_sample_stands_for_what_is_rare() {
        let mut counts = NameCounts::default();
        for n in 0u32..10_000 {
            counts.add(&(n % 1000).to_be_bytes());
            counts.add(b"often");
        }
        assert_eq!(counts.thinned(1001).len(), 1001);
        let few = counts.thinned(100);
        assert!(few.len() <= 100 && few[0] == (b"often", 10_000.0));
        let weight = |low: u32| {
            let of = few.iter().filter(|(name, _)| **name >= low.to_be_bytes()[..] && **name < b"o"[..]);
            of.map(|w| w.1).sum::<f64>()
        };
        assert!(
            (weight(0) - 10_000.0).abs() < 1e-6 && (weight(500) - 5_000.0).abs() < 250.0,
            "{}",
            weight(500)
        );
    }

    #[test]
    fn memory_is_bounded_and_the_error_stated() {
        let mut counts = NameCounts::default();
        let total = 4 * NAMES_MAX as u64;
        for n in 0..total {
            counts.add(&n.to_le_bytes());
            if n % 10 == 0 {
                counts.add(b"often");
            }
        }
        assert!(counts.counts.len() <= NAMES_MAX && counts.error > 0);
        let (name, count) = counts.popular(200)[0];
        assert!(name == b"often" && count <= total / 10 + 1 && count + counts.error >= total / 10);
    }
}
