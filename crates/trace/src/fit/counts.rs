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
