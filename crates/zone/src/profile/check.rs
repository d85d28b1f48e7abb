//! Checks of zone profiles.

use super::{Fault, MAX_DELEGATIONS, Profile};
use std::collections::BTreeMap;
use std::fmt::Display;
use wire::name::Name;

/// The most name servers of a delegation, and DS records: a referral must fit a message.
const MOST: u32 = 64;

fn fault<T>(path: &[&str], what: impl Into<String>) -> Result<T, Fault> {
    Err(Fault { path: path.iter().map(|&p| p.to_owned()).collect(), what: what.into() })
}

/// As [`Profile::check`].
pub(super) fn check(p: &Profile) -> Result<(), Fault> {
    if !(1..=MAX_DELEGATIONS).contains(&p.delegations) {
        return fault(&["delegations"], "give a number from 1 to 1G");
    }
    let origin = apex(p)?;
    weights(&["labels", "lengths"], &p.labels.lengths, 1..=63, "a length of labels, 1 to 63 octets")?;
    share(&["labels", "idn"], p.labels.idn)?;
    weights(&["ns", "counts"], &p.ns.counts, 1..=MOST, "a number of name servers, 1 to 64")?;
    ttl(&["ns", "ttl"], p.ns.ttl)?;
    servers(p, &origin)?;
    share(&["glue", "a"], p.glue.a)?;
    share(&["glue", "aaaa"], p.glue.aaaa)?;
    if p.glue.a + p.glue.aaaa < 1.0 - 1e-9 {
        let what = "'a' and 'aaaa' are less than 1 together, and every server has an address";
        return fault(&["glue", "aaaa"], what);
    }
    ttl(&["glue", "ttl"], p.glue.ttl)?;
    share(&["ds", "share"], p.ds.share)?;
    weights(&["ds", "counts"], &p.ds.counts, 1..=MOST, "a number of DS records, 1 to 64")?;
    weights(&["ds", "algorithms"], &p.ds.algorithms, 1..=254, "an algorithm, 1 to 254")?;
    let digests = "a digest type with a known length: 1 (SHA-1), 2 (SHA-256) or 4 (SHA-384)";
    weights(&["ds", "digests"], &p.ds.digests, 1..=4, digests)?;
    if p.ds.digests.contains_key(&3) {
        return fault(&["ds", "digests", "3"], format!("expected {digests}"));
    }
    ttl(&["ds", "ttl"], p.ds.ttl)
}

/// Gives the zone's name.
fn apex(p: &Profile) -> Result<Name, Fault> {
    let origin = name(&["apex", "origin"], &p.apex.origin)?;
    if let Some(mailbox) = &p.apex.mailbox {
        name(&["apex", "mailbox"], mailbox)?;
    }
    ttl(&["apex", "soa-ttl"], p.apex.soa_ttl)?;
    ttl(&["apex", "ns-ttl"], p.apex.ns_ttl)?;
    if p.apex.servers.is_empty() {
        return fault(&["apex", "servers"], "a zone needs at least one server");
    }
    let mut seen: Vec<Name> = Vec::new();
    for text in &p.apex.servers {
        let server = name(&["apex", "servers"], text)?;
        if seen.contains(&server) {
            return fault(&["apex", "servers"], format!("'{text}' stands there twice"));
        }
        seen.push(server);
    }
    Ok(origin)
}

fn servers(p: &Profile, origin: &Name) -> Result<(), Fault> {
    let s = &p.servers;
    share(&["servers", "inside"], s.inside)?;
    share(&["servers", "own"], s.own)?;
    share(&["servers", "providers"], s.providers)?;
    let shared = 1.0 - s.inside - s.own;
    if shared < -1e-9 {
        return fault(&["servers", "own"], "'inside' and 'own' are more than 1 together");
    }
    if !(0.0..=10.0).contains(&s.exponent) {
        return fault(&["servers", "exponent"], format!("{} is no exponent: give 0 to 10", s.exponent));
    }
    let mut seen: Vec<Name> = Vec::new();
    for (text, &w) in &s.under {
        let path = ["servers", "under", text.as_str()];
        let under = name(&path, text)?;
        weight(&path, w)?;
        if seen.contains(&under) {
            return fault(&path, format!("'{text}' is there twice under different spellings"));
        }
        if under.is_under(origin.as_wire()) && under.label_count() > origin.label_count() + 1 {
            let what = format!("'{text}' is too deep: in the zone, only {origin} and names just below it");
            return fault(&path, what);
        }
        seen.push(under);
    }
    if shared <= 1e-9 && s.own == 0.0 {
        return Ok(());
    }
    if s.under.values().sum::<f64>() <= 0.0 {
        let what = "servers outside their delegations need names that they lie under: give [servers.under]";
        return fault(&["servers", "inside"], what);
    }
    if shared > 1e-9 && s.providers <= 0.0 {
        let what = format!(
            "'inside' and 'own' leave {shared:.3} of the name servers to providers: give 'providers', \
             their number for each delegation"
        );
        return fault(&["servers", "inside"], what);
    }
    Ok(())
}

fn name(path: &[&str], text: &str) -> Result<Name, Fault> {
    match text.parse::<Name>() {
        Ok(name) if text.ends_with('.') => Ok(name),
        Ok(_) => fault(path, format!("'{text}' is not absolute: names end with a dot")),
        Err(e) => fault(path, format!("'{text}' is no name: {e}")),
    }
}

fn share(path: &[&str], share: f64) -> Result<(), Fault> {
    if (0.0..=1.0).contains(&share) {
        return Ok(());
    }
    fault(path, format!("{share} is not a share: give a number from 0 to 1"))
}

fn weight(path: &[&str], weight: f64) -> Result<(), Fault> {
    // An upper bound, so that no sum overflows.
    if (0.0..=1e15).contains(&weight) {
        return Ok(());
    }
    fault(path, format!("{weight} is not a weight: give a number from 0 to 1e15"))
}

fn weights<K: Ord + Display>(
    path: &[&str],
    weights: &BTreeMap<K, f64>,
    range: std::ops::RangeInclusive<K>,
    expected: &str,
) -> Result<(), Fault> {
    for (key, &w) in weights {
        let shown = key.to_string();
        let path = [path, &[&shown]].concat();
        if !range.contains(key) {
            return fault(&path, format!("{key} is not {expected}"));
        }
        weight(&path, w)?;
    }
    if weights.values().sum::<f64>() <= 0.0 {
        return fault(path, "no weights, or all are zero");
    }
    Ok(())
}

/// TTLs have 31 bits (RFC 2181 section 8).
fn ttl(path: &[&str], ttl: u32) -> Result<(), Fault> {
    if ttl < 1 << 31 {
        return Ok(());
    }
    fault(path, format!("{ttl} is no TTL: give 0 to 2147483647 seconds"))
}
