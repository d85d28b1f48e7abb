//! Compares the facts of a zone with what a published table or a profile says.
//!
//! Every figure has a bound that is as wide as chance makes it at the zone's size, and never narrower than
//! 1 %: a bound that 99.9 % of zones drawn by the same rules stay within.

mod profile;
mod published;
mod sharing;

pub use profile::profile;
pub(crate) use profile::usual_ttl;
pub use published::{Published, published};
pub(crate) use sharing::Sharers;

use serde::Serialize;

/// Normal deviates stay within this many standard deviations in 99.9 % of all cases.
const DEVIATIONS: f64 = 3.29;
/// The narrowest bound, as a share.
const LEAST: f64 = 0.01;

/// One characteristic of a zone.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Finding {
    /// The property that was compared.
    pub what: String,
    /// Its value in the profile or the table.
    pub expected: f64,
    /// Its value in the zone.
    pub found: f64,
    /// The least and the most that are accepted.
    pub bound: [f64; 2],
    /// True where it lies within.
    pub within: bool,
    /// Where the bound comes from.
    pub basis: String,
}

/// How far a zone conforms to a profile or a published table.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Conformance {
    /// The profile or the table that it was compared with.
    pub against: String,
    /// True where all findings are within their bounds.
    pub within: bool,
    /// One for each characteristic.
    pub findings: Vec<Finding>,
    /// Properties that are known and not compared.
    pub notes: Vec<String>,
}

impl Conformance {
    fn new(against: String, findings: Vec<Finding>, notes: Vec<String>) -> Self {
        Self { against, within: findings.iter().all(|f| f.within), findings, notes }
    }
}

/// `expected` give or take `margin`.
fn finding(what: &str, expected: f64, found: f64, margin: f64, basis: impl Into<String>) -> Finding {
    // A rounding error in sums of shares is not a difference.
    let within = (found - expected).abs() <= margin + 1e-9;
    let bound = [(expected - margin).max(0.0), expected + margin];
    Finding { what: what.to_owned(), expected, found, bound, within, basis: basis.into() }
}

/// A number that must be met exactly.
fn exactly(what: &str, expected: u64, found: u64) -> Finding {
    finding(what, expected as f64, found as f64, 0.0, "must be equal")
}

/// A share of `n` things.
fn share(what: &str, expected: f64, found: f64, n: f64) -> Finding {
    let chance = DEVIATIONS * (expected * (1.0 - expected) / n.max(1.0)).sqrt();
    let least = LEAST * expected;
    finding(what, expected, found, chance.max(least), basis("binomial", chance, least, LEAST))
}

/// The margin that was used: what chance makes, or the `share` that is always left.
fn basis(chance: &str, margin: f64, least: f64, share: f64) -> String {
    match margin.max(least) {
        0.0 => "must be equal".to_owned(),
        _ if margin > least => format!("{chance}, 99.9 %"),
        _ => format!("{:.0} %", share * 100.0),
    }
}

/// How far two distributions are apart: the share that would have to move (their total variation distance),
/// for `n` things found.
///
/// Of n draws it is (1/2) sum sqrt(2 p (1 - p) / (pi n)) in the mean, and passes that by t with a probability
/// below exp(-2 n t^2) (McDiarmid): t = sqrt(ln(1000) / 2n) for 99.9 %.
fn distance<K: Ord + Clone>(
    what: &str,
    expected: impl IntoIterator<Item = (K, f64)>,
    found: impl IntoIterator<Item = (K, f64)>,
    n: f64,
    least: f64,
) -> Finding {
    let mut shares = std::collections::BTreeMap::<K, [f64; 2]>::new();
    expected.into_iter().for_each(|(k, w)| shares.entry(k).or_default()[0] += w);
    found.into_iter().for_each(|(k, w)| shares.entry(k).or_default()[1] += w);
    let sums = [0, 1].map(|i| shares.values().map(|s| s[i]).sum::<f64>().max(f64::MIN_POSITIVE));
    let (mut apart, mut chance) = (0.0, 0.0);
    for [p, q] in shares.values() {
        let (p, q) = (p / sums[0], q / sums[1]);
        apart += (p - q).abs() / 2.0;
        chance += (2.0 * p * (1.0 - p) / (std::f64::consts::PI * n.max(1.0))).sqrt() / 2.0;
    }
    chance += (1000f64.ln() / (2.0 * n.max(1.0))).sqrt();
    finding(what, 0.0, apart, chance.max(least), basis("draws of the distribution", chance, least, least))
}
