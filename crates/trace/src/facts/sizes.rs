//! How often each number of octets occurred: exact, as there are only 65,536.

/// Counts by size.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sizes {
    counts: Vec<u64>,
    total: u64,
}

impl Sizes {
    /// Adds one of `octets`; more than 65,535 count as so many.
    pub fn add(&mut self, octets: usize) {
        let octets = octets.min(65_535);
        if octets >= self.counts.len() {
            self.counts.resize((octets + 1).next_power_of_two(), 0);
        }
        self.counts[octets] += 1;
        self.total += 1;
    }

    /// Adds all of another.
    pub fn merge(&mut self, other: &Self) {
        if self.counts.len() < other.counts.len() {
            self.counts.resize(other.counts.len(), 0);
        }
        self.counts.iter_mut().zip(&other.counts).for_each(|(sum, count)| *sum += count);
        self.total += other.total;
    }

    /// How many were added.
    pub fn count(&self) -> u64 {
        self.total
    }

    /// Sizes that occurred with their counts, in order.
    pub fn iter(&self) -> impl Iterator<Item = (u16, u64)> + '_ {
        self.counts.iter().enumerate().filter(|&(_, &n)| n > 0).map(|(size, &n)| (size as u16, n))
    }

    /// The smallest size at or below which the share `q` (0 to 1) lies; 0 where there is none.
    pub fn quantile(&self, q: f64) -> u16 {
        let wanted = ((self.total as f64 * q).ceil() as u64).max(1);
        let mut sum = 0;
        let reached = self.iter().find(|&(_, n)| {
            sum += n;
            sum >= wanted
        });
        reached.map_or(0, |(size, _)| size)
    }

    /// The greatest; 0 where there is none.
    pub fn max(&self) -> u16 {
        self.iter().last().map_or(0, |(size, _)| size)
    }

    /// The mean; 0 where there is none.
    pub fn mean(&self) -> f64 {
        let sum: u64 = self.iter().map(|(size, n)| u64::from(size) * n).sum();
        sum as f64 / self.total.max(1) as f64
    }

    /// How many are greater than `size`.
    pub fn above(&self, size: u16) -> u64 {
        self.iter().filter(|&(s, _)| s > size).map(|(_, n)| n).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_exact() {
        let mut sizes = Sizes::default();
        assert_eq!((sizes.quantile(0.5), sizes.max(), sizes.mean()), (0, 0, 0.0));
        (1..=100).for_each(|n| sizes.add(n));
        sizes.add(1_000_000);
        let mut twice = sizes.clone();
        twice.merge(&sizes);
        for s in [&sizes, &twice] {
            assert_eq!([0.0, 0.5, 0.99, 1.0].map(|q| s.quantile(q)), [1, 51, 100, 65_535]);
        }
        assert_eq!((twice.count(), twice.above(100), twice.max()), (202, 2, 65_535));
    }
}
