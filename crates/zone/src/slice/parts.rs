//! Where to cut a zone so that the parts have equally many records.

use crate::error::Error;
use wire::name;
use wire::ranges::Partition;

/// The most labels that are kept.
const POINTS: usize = 1 << 16;

/// Records by the label directly below the apex, in canonical order. Of more than 65,536 labels every second is kept,
/// of more than twice as many every fourth, and so on: a cut is off by at most 1/32,768 of the labels.
#[derive(Default)]
pub(super) struct Parts {
    /// Labels as small letters, and how many records come before each.
    points: Vec<(Vec<u8>, u64)>,
    last: Vec<u8>,
    labels: u64,
    /// Every `1 << shift`-th label is kept.
    shift: u32,
    records: u64,
}

impl Parts {
    /// Counts a record below this label.
    pub fn count(&mut self, label: &[u8]) {
        if !name::equal(label, &self.last) {
            self.last.clear();
            self.last.extend_from_slice(label);
            if self.labels.trailing_zeros() >= self.shift {
                if self.points.len() == POINTS {
                    let mut n = 0;
                    self.points.retain(|_| {
                        n += 1;
                        n % 2 == 1
                    });
                    self.shift += 1;
                }
                if self.labels.trailing_zeros() >= self.shift {
                    self.points.push((label.to_ascii_lowercase(), self.records));
                }
            }
            self.labels += 1;
        }
        self.records += 1;
    }

    /// The ranges of `n` parts.
    pub fn cut(&self, n: usize) -> Result<Partition, Error> {
        let unable = |e: &dyn std::fmt::Display| Error::Unable(e.to_string());
        if n == 0 || n > self.points.len() {
            return Err(unable(&format!(
                "cannot cut the zone into {n} parts: it has {} names directly below its apex, and a part needs one",
                self.labels
            )));
        }
        let mut cuts = Vec::new();
        let mut least = 1;
        for k in 1..n {
            let wanted = self.records as u128 * k as u128 / n as u128;
            let before = |i: usize| u128::from(self.points[i].1);
            let mut at = self.points.partition_point(|p| u128::from(p.1) < wanted);
            if at == self.points.len() || at > 0 && wanted - before(at - 1) <= before(at) - wanted {
                at -= 1;
            }
            // Each part gets a label.
            let at = at.clamp(least, self.points.len() - (n - k));
            cuts.push(self.points[at].0.clone());
            least = at + 1;
        }
        Partition::at(&cuts).map_err(|e| unable(&e))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(counts: impl Iterator<Item = u32>) -> Parts {
        let mut parts = Parts::default();
        for (i, records) in counts.enumerate() {
            (0..records).for_each(|_| parts.count(format!("N{i:07}").as_bytes()));
        }
        parts
    }

    fn cuts(parts: &Parts, n: usize) -> Vec<String> {
        parts.cut(n).unwrap().ranges().iter().map(ToString::to_string).collect()
    }

    #[test]
    fn cuts_lie_where_the_records_are() {
        let few = parts([1, 1, 10, 1, 1].into_iter());
        assert_eq!(cuts(&few, 2), ["..n0000002", "n0000002.."]);
        assert_eq!(cuts(&few, 3), ["..n0000002", "n0000002..n0000003", "n0000003.."]);
        assert_eq!(cuts(&few, 5).len(), 5);
        assert_eq!(cuts(&few, 1), [".."]);
        assert!(few.cut(6).unwrap_err().to_string().contains("5 names directly below"));
    }

    #[test]
    fn many_labels_are_thinned_out() {
        let many = parts((0..300_000).map(|i| 1 + i % 2));
        assert!(many.points.len() <= POINTS && many.shift == 3);
        let cut: u64 = cuts(&many, 3)[0].strip_prefix("..n").unwrap().parse().unwrap();
        assert!(cut.abs_diff(100_000) <= 300_000 / 32_768, "{cut}");
    }
}
