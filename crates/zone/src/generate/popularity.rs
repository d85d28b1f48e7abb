//! A heavy tail: the k-th of `n` is chosen in proportion to k^-exponent.

/// Ranks in ranges of nearly the same chance: each power of two has eight ranges.
pub(super) struct Popularity {
    /// First rank (from 0), number of ranks, and the end of the range's share of 2^63.
    ranges: Vec<(u64, u64, u64)>,
}

const PER_OCTAVE: u64 = 8;
const WHOLE: f64 = (1u64 << 63) as f64;

impl Popularity {
    /// For `n` ranks, at least one.
    pub fn new(n: u64, exponent: f64) -> Self {
        let (mut ranges, mut weights, mut from) = (Vec::new(), Vec::new(), 1u64);
        while from <= n {
            let octave = 1u64 << from.ilog2();
            let len = (octave / PER_OCTAVE).max(1).min(n - from + 1);
            ranges.push((from - 1, len, 0));
            let middle = from as f64 + (len - 1) as f64 / 2.0;
            weights.push(len as f64 * power(middle, exponent));
            from += len;
        }
        let sum: f64 = weights.iter().sum();
        let mut so_far = 0.0;
        for (range, weight) in ranges.iter_mut().zip(weights) {
            so_far += weight;
            range.2 = (so_far / sum * WHOLE) as u64;
        }
        Self { ranges }
    }

    /// The rank (from 0) that 64 random bits choose.
    pub fn choose(&self, bits: u64) -> u64 {
        let at = self.ranges.partition_point(|r| r.2 <= bits >> 1).min(self.ranges.len() - 1);
        let (first, len, _) = self.ranges[at];
        // The range took the upper bits.
        first + ((u128::from(super::labels::mix(bits)) * u128::from(len)) >> 64) as u64
    }
}

/// `x`^-`exponent` for `x` from 1, of additions, multiplications and square roots alone: those give the
/// same bits everywhere, which a system's `pow` does not promise.
fn power(x: f64, exponent: f64) -> f64 {
    let (mut mantissa, mut log2) = (x, 0.0);
    while mantissa >= 2.0 {
        mantissa /= 2.0;
        log2 += 1.0;
    }
    let mut digit = 0.5;
    for _ in 0..40 {
        mantissa *= mantissa;
        if mantissa >= 2.0 {
            mantissa /= 2.0;
            log2 += digit;
        }
        digit /= 2.0;
    }
    let mut rest = log2 * exponent;
    let mut result = 1.0;
    while rest >= 1.0 {
        result /= 2.0;
        rest -= 1.0;
    }
    let mut root = 2.0f64;
    for _ in 0..40 {
        root = root.sqrt();
        rest *= 2.0;
        if rest >= 1.0 {
            result /= root;
            rest -= 1.0;
        }
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;
    use measure::Seed;

    #[test]
    fn powers_are_powers() {
        for x in [1.0, 2.0, 3.0, 17.5, 1e6] {
            for e in [0.0, 0.5, 1.0, 1.37, 4.0] {
                assert!((power(x, e) / x.powf(-e) - 1.0).abs() < 1e-9, "{x} {e}");
            }
        }
    }

    #[test]
    fn ranks_are_chosen_by_their_power() {
        let mut draw = Seed(1).draw("test", 0);
        for (n, exponent) in [(1u64, 1.0), (5, 1.0), (1000, 1.2), (1000, 0.0), (100_000, 0.7)] {
            let p = Popularity::new(n, exponent);
            let sum: f64 = (1..=n).map(|k| (k as f64).powf(-exponent)).sum();
            let (mut first, mut low, mut tail) = (0, 0, 0);
            for _ in 0..100_000 {
                let k = p.choose(draw.bits());
                assert!(k < n);
                first += u64::from(k == 0);
                low += u64::from(k < n.div_ceil(10));
                tail += u64::from(k >= n - n / 10);
            }
            let share =
                |from: u64, to: u64| (from..to).map(|k| (k as f64 + 1.0).powf(-exponent)).sum::<f64>() / sum;
            for (hits, share) in
                [(first, share(0, 1)), (low, share(0, n.div_ceil(10))), (tail, share(n - n / 10, n))]
            {
                let bound = 5.0 * (share * (1.0 - share) / 1e5).sqrt() + 0.003 * share;
                assert!((hits as f64 / 1e5 - share).abs() <= bound, "{n} {exponent}: {hits} for {share}");
            }
        }
    }
}
