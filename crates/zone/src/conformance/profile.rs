//! Against a zone profile.

use super::sharing::is;
use super::{Conformance, DEVIATIONS, Finding, LEAST, Sharers, distance, exactly, finding, share};
use crate::{Info, Profile};
use std::collections::BTreeMap;
use wire::name::{self, Name};

/// The narrowest bounds for how servers are shared, which is a model and no law, and where they lie.
const MODEL: f64 = 0.05;
const SHARING: f64 = 0.02;
/// The same for lengths of labels: they are made of words and syllables, which do not come in all lengths.
const LENGTHS: f64 = 0.15;

/// Judges a zone against a profile; `against` is what it is called. The number of delegations is not
/// compared: a profile is for any.
pub fn profile(info: &Info, p: &Profile, against: &str) -> Conformance {
    let d = info.delegations as f64;
    let mut findings = vec![exactly("zone is the profile's", 1, u64::from(info.origin == p.apex.origin))];
    if info.delegations == 0 {
        findings.push(finding("delegations", 1.0, 0.0, 0.0, "a profile is of a zone with delegations"));
        return Conformance::new(format!("profile {against}"), findings, Vec::new());
    }
    findings.push(share("IDN share", p.labels.idn, info.idn_share, d));
    let plain = info.label_length.iter().map(|(&l, &n)| (l, (n - idns(info, l)) as f64));
    findings.push(distance("label lengths", lengths(p, d), plain, d, LENGTHS));
    findings.push(distance(
        "NS per delegation",
        weights(&p.ns.counts),
        counts(&info.ns_per_delegation),
        d,
        LEAST,
    ));
    servers(info, p, d, &mut findings);
    let g = &info.glue;
    if g.names > 0 {
        let names = g.names as f64;
        findings.push(share("glue with A", p.glue.a, g.names_with_a as f64 / names, names));
        findings.push(share("glue with AAAA", p.glue.aaaa, g.names_with_aaaa as f64 / names, names));
    }
    findings.push(share("DS share", p.ds.share, info.ds_share, d));
    let ds = info.ds_algorithms.values().sum::<u64>() as f64;
    if ds > 0.0 && p.ds.share > 0.0 {
        let signed = info.ds_share * d;
        findings.push(distance(
            "DS per delegation",
            weights(&p.ds.counts),
            counts(&info.ds_per_delegation),
            signed,
            LEAST,
        ));
        findings.push(distance(
            "DS algorithms",
            weights(&p.ds.algorithms),
            counts(&info.ds_algorithms),
            ds,
            LEAST,
        ));
        findings.push(distance(
            "DS digest types",
            weights(&p.ds.digests),
            counts(&info.ds_digests),
            ds,
            LEAST,
        ));
    }
    for (name, ttl) in [("NS", p.ns.ttl), ("A", p.glue.ttl), ("AAAA", p.glue.ttl), ("DS", p.ds.ttl)] {
        if let Some(usual) = usual_ttl(info, name) {
            findings.push(exactly(&format!("TTL of {name}"), ttl.into(), usual.into()));
        }
    }
    Conformance::new(format!("profile {against}"), findings, Vec::new())
}

/// The TTL that most records of a type have, in seconds.
pub(crate) fn usual_ttl(info: &Info, name: &str) -> Option<u32> {
    let most = info.ttl.get(name)?.iter().max_by_key(|(_, n)| **n)?;
    most.0.parse().ok()
}

fn idns(info: &Info, length: u8) -> u64 {
    info.idn_label_length.get(&length).copied().unwrap_or(0)
}

fn weights<K: Ord + Copy>(weights: &BTreeMap<K, f64>) -> impl Iterator<Item = (K, f64)> {
    weights.iter().map(|(&k, &w)| (k, w))
}

fn counts<K: Ord + Copy>(counts: &BTreeMap<K, u64>) -> impl Iterator<Item = (K, f64)> {
    counts.iter().map(|(&k, &n)| (k, n as f64))
}

/// The lengths of labels to expect: short names are few, and where they are used up longer ones are made
/// instead. Of those of three octets and more half can be read at best.
fn lengths(p: &Profile, delegations: f64) -> Vec<(u8, f64)> {
    let mut weight: f64 = p.labels.lengths.values().sum();
    let mut left = delegations * (1.0 - p.labels.idn);
    let mut expected = Vec::new();
    for (&length, &w) in &p.labels.lengths {
        let there = 26f64.powi(length.into()) / if length > 2 { 2.0 } else { 1.0 };
        let made = (left * w / weight.max(f64::MIN_POSITIVE)).min(there);
        expected.push((length, made));
        (left, weight) = (left - made, weight - w);
    }
    expected
}

/// Why servers' figures have the bounds that they have.
fn model() -> String {
    format!("{:.0} %: what the model of sharing leaves open; and the sample's error", MODEL * 100.0)
}

/// How servers lie and are shared.
fn servers(info: &Info, p: &Profile, d: f64, findings: &mut Vec<Finding>) {
    let (s, sharing) = (&info.servers, &info.servers.sharing);
    let records = (s.inside + s.in_zone + s.out_of_zone) as f64;
    if records == 0.0 {
        return;
    }
    let size = records / d;
    let sharers = Sharers::of(p, d);
    findings.push(share("NS inside their delegation", p.servers.inside, s.inside as f64 / records, d));

    let distinct = p.servers.inside + p.servers.own + sharers.apart / d;
    let found = sharing.servers as f64 / records;
    let few = DEVIATIONS * (distinct / records).sqrt();
    let margin = MODEL * distinct + few + DEVIATIONS * sharing.standard_error * found;
    findings.push(finding("distinct servers per NS record", distinct, found, margin, model()));

    let provided = (1.0 - p.servers.inside - p.servers.own).max(0.0);
    let used = provided - sharers.apart * sharers.alone / d + sharers.lodged * (1.0 - sharers.alone) / d;
    // A sample shows servers of one delegation well; those of many are too few in it.
    let single = sharing.delegations_per_server.get(&1).copied().unwrap_or(0) as f64 / records;
    let margin = (MODEL * used).max(LEAST) + DEVIATIONS * sharing.standard_error * single;
    findings.push(finding("NS with a shared server", used, 1.0 - single, margin, model()));

    let most = sharing.largest.values().max().copied().unwrap_or(0) as f64;
    let most = most + sharing.largest_error as f64 / 2.0;
    // The tail of a small zone comes out one way or the other.
    if sharers.largest.max(most / 2.0) >= 10.0 {
        let bound = [sharers.largest / 2.0, sharers.largest * 2.0];
        findings.push(Finding {
            what: "delegations of the busiest server".to_owned(),
            expected: sharers.largest,
            found: most,
            bound,
            within: (bound[0]..=bound[1]).contains(&most),
            basis: "half to twice: users look for a provider with servers enough".to_owned(),
        });
    }

    let all: f64 = p.servers.under.values().sum();
    let origin = p.apex.origin.parse::<Name>().unwrap_or_else(|_| Name::root());
    // How many lie under the zone's own name hangs on what is a provider: left out.
    let elsewhere = |(name, _): &(String, f64)| !is(name, &p.apex.origin);
    let expected: Vec<_> =
        p.servers.under.iter().map(|(name, w)| (group(name, &origin, p), *w)).filter(elsewhere).collect();
    let found: Vec<_> = sharing
        .under
        .iter()
        .map(|(name, &n)| (group(name, &origin, p), n as f64))
        .filter(elsewhere)
        .collect();
    let n: f64 = found.iter().map(|(_, n)| n).sum();
    if n > 0.0 && all > 0.0 {
        // Servers of one delegation lie together.
        findings.push(distance("servers elsewhere by name above", expected, found, n / size, SHARING));
    }
}

/// The name that stands for those that servers lie under: in the zone what the profile does not list is
/// the zone's own; out of it the top-level domain.
fn group(text: &str, origin: &Name, p: &Profile) -> String {
    let Ok(name) = text.parse::<Name>() else { return text.to_owned() };
    if name.is_under(origin.as_wire()) {
        return if p.servers.under.contains_key(text) { text.to_owned() } else { origin.to_string() };
    }
    let last = name::labels(name.as_wire()).last().unwrap_or_default();
    String::from_utf8_lossy(last).into_owned() + "."
}
