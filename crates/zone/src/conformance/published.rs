//! Against a row of RZAIA's table 1.1.

use super::{Conformance, DEVIATIONS, Finding, LEAST, basis, exactly, finding};
use crate::{Family, Info};
use measure::units::grouped;

/// The properties of a zone by its row in table 1.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Published {
    /// The zone family.
    pub family: Family,
    /// Delegations.
    pub delegations: u64,
    /// NS, A, AAAA and DS records.
    pub records: [u64; 4],
    /// File size in octets.
    pub bytes: u64,
}

/// Of the root zone of 2009, which the study's zones start from: TLDs, and AAAA records.
const BASE_TLDS: u64 = 280;
const BASE_AAAA: f64 = 197.0;

/// Judges a zone against a row. The study drew the name servers of each new TLD (and in some families who
/// has AAAA or DS records) at random, and printed what came out: the bounds hold 99.9 % of such draws.
pub fn published(info: &Info, row: &Published) -> Conformance {
    let new = row.delegations.saturating_sub(BASE_TLDS) as f64;
    let servers = deviation(&info.ns_per_delegation) * new.sqrt();
    let binomial = |n: f64, p: f64| (n * p.clamp(0.0, 1.0) * (1.0 - p.clamp(0.0, 1.0))).sqrt();
    let [ns, a, aaaa, ds] = row.records.map(|n| n as f64);
    let aaaa_chance = match row.family {
        // Some servers have AAAA, each by itself.
        Family::U4Ds0 => binomial(a, (aaaa - BASE_AAAA) / a),
        _ => servers,
    };
    // A signed TLD has two.
    let signed = match row.family {
        Family::S6Ds10 => 0.1,
        Family::S6Ds50 => 0.5,
        _ => 0.0,
    };
    let ds_chance = 2.0 * binomial(new, signed);
    let of = "numbers of name servers";
    let counts = [
        ("NS", ns, servers, of),
        ("A", a, servers, of),
        ("AAAA", aaaa, aaaa_chance, if row.family == Family::U4Ds0 { "who has AAAA" } else { of }),
        ("DS", ds, ds_chance, "who is signed"),
    ];
    let mut findings = vec![exactly("delegations", row.delegations, info.delegations)];
    findings.extend(counts.map(|(name, expected, chance, drawn)| -> Finding {
        let (margin, least) = (DEVIATIONS * chance, LEAST * expected);
        let why = basis(&format!("draw of {drawn}"), margin, least, LEAST);
        finding(&format!("{name} records"), expected, info.count(name) as f64, margin.max(least), why)
    }));
    let size = format!(
        "file size: {} published, {} here; not compared: it depends on the layout (spaces, owners repeated, lengths of \
         names). In uncompressed wire format the zone has {} octets",
        grouped(row.bytes),
        grouped(info.bytes),
        grouped(info.wire_bytes)
    );
    let against = format!("RZAIA table 1.1, {}, {} TLDs", row.family, grouped(row.delegations));
    Conformance::new(against, findings, vec![size])
}

/// Standard deviation of what was counted.
fn deviation(counts: &std::collections::BTreeMap<u32, u64>) -> f64 {
    let n = counts.values().sum::<u64>().max(1) as f64;
    let mean = counts.iter().map(|(&k, &c)| f64::from(k) * c as f64).sum::<f64>() / n;
    (counts.iter().map(|(&k, &c)| (f64::from(k) - mean).powi(2) * c as f64).sum::<f64>() / n).sqrt()
}
