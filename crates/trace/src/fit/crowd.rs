//! How many clients there are and how unlike they are, from how often each was seen.

use traffic::clients::ranges;

/// The greatest exponent that is looked for.
const ZIPF_MAX: f64 = 4.0;

/// The most clients that are assumed for each that was seen.
const UNSEEN_MAX: u64 = 20;

/// How often each client of a class was seen.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Seen {
    /// Queries.
    pub queries: u64,
    /// Clients.
    pub clients: u64,
    /// Ordered pairs of queries by the same client.
    pub pairs: f64,
}

/// How many clients there are, at most `most`, and the exponent of their law, so that as many queries as were seen are
/// expected to come from as many clients, and two of them from the same with the same probability.
pub(super) fn law(seen: Seen, most: u32) -> (u32, f64) {
    let n = seen.queries as f64;
    if seen.clients <= 1 || seen.queries < 2 {
        return (1, 0.0);
    }
    // Of clients that were seen once each, or where one sends nearly all, nobody knows how many there are.
    let most = seen.clients.saturating_mul(UNSEEN_MAX).min(most.into()) as u32;
    let together = seen.pairs / (n * (n - 1.0));
    let (mut low, mut high) = (0.0, ZIPF_MAX);
    for _ in 0..30 {
        let zipf = (low + high) / 2.0;
        let count = count(seen.clients as f64, n, zipf, most);
        if chance(count, zipf) < together { low = zipf } else { high = zipf }
    }
    let zipf = ((low + high) / 2.0 * 1000.0).round() / 1000.0;
    (count(seen.clients as f64, n, zipf, most), zipf)
}

/// The number of clients of which so many are expected to be seen.
fn count(clients: f64, n: f64, zipf: f64, most: u32) -> u32 {
    let (mut low, mut high) = ((clients as u32).min(most), most);
    while low < high {
        let middle = low + (high - low) / 2;
        if expected(middle, n, zipf) < clients { low = middle + 1 } else { high = middle }
    }
    low
}

/// Clients that are expected to be seen in `n` queries.
fn expected(count: u32, n: f64, zipf: f64) -> f64 {
    let total: f64 = ranges(count, zipf).map(|r| r.weight).sum();
    ranges(count, zipf)
        .map(|r| {
            let width = f64::from(r.width);
            let each = r.weight / total / width;
            width * -(n * (-each).ln_1p()).exp_m1()
        })
        .sum()
}

/// How likely two queries are by the same client.
fn chance(count: u32, zipf: f64) -> f64 {
    let total: f64 = ranges(count, zipf).map(|r| r.weight).sum();
    ranges(count, zipf)
        .map(|r| {
            let each = r.weight / total / f64::from(r.width);
            each * each * f64::from(r.width)
        })
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use measure::Seed;
    use std::collections::HashMap;
    use traffic::Profile;
    use traffic::clients::Clients;

    fn seen(count: u32, zipf: f64, queries: u64) -> Seen {
        let mut profile = Profile::load("rzaia").unwrap();
        (profile.classes[0].clients, profile.classes[0].zipf) = (count, zipf);
        let mut clients = Clients::new(&profile, Seed(5)).unwrap();
        let mut hits = HashMap::new();
        (0..queries).for_each(|n| *hits.entry(clients.sender(n).client).or_insert(0u64) += 1);
        let pairs = hits.values().map(|&n| (n * (n - 1)) as f64).sum();
        Seen { queries, clients: hits.len() as u64, pairs }
    }

    #[test]
    fn a_law_comes_back() {
        for (count, zipf) in [(1_000, 1.0), (20_000, 0.8), (300, 0.0), (5_000, 1.3), (20, 2.0), (2, 0.0)] {
            let was = seen(count, zipf, 100_000);
            let (count_again, zipf_again) = law(was, 1 << 20);
            assert!((zipf - zipf_again).abs() < 0.05, "{count} {zipf}: {zipf_again}");
            let off = f64::from(count_again) / f64::from(count);
            assert!((0.8..1.25).contains(&off), "{count} {zipf}: {count_again} {zipf_again}");
            // The estimate reproduces the number of clients that was seen.
            let again = seen(count_again, zipf_again, 100_000);
            let off = again.clients as f64 / was.clients as f64;
            assert!((0.97..1.03).contains(&off), "{was:?} {again:?}");
        }
    }

    #[test]
    fn little_is_made_of_little() {
        assert_eq!(law(Seen { queries: 1, clients: 1, pairs: 0.0 }, 1000), (1, 0.0));
        assert_eq!(law(Seen { queries: 9, clients: 1, pairs: 72.0 }, 1000), (1, 0.0));
        let (count, zipf) = law(Seen { queries: 3, clients: 3, pairs: 0.0 }, 1000);
        assert!((3..=60).contains(&count) && zipf < 0.01, "{count} {zipf}");
        let (count, _) = law(Seen { queries: 100, clients: 100, pairs: 0.0 }, 1000);
        assert_eq!(count, 1000, "no more than wanted");
        // One sends nearly all.
        let (count, zipf) = law(Seen { queries: 1000, clients: 5, pairs: 990.0 * 989.0 }, 10_000);
        assert!(count <= 100 && zipf > 3.0, "{count} {zipf}");
    }
}
