//! Differences between versions of zones, against a difference of sets by brute force.

use crate::generate::zone_of;
use crate::support::{checker, records, root_zones, unxz};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use wire::rtype;
use zone::{Diff, Error, Family, diff};

fn diff_of(old: &[u8], new: &[u8]) -> Result<Diff, Error> {
    let folder = tempfile::tempdir().unwrap();
    let paths = ["old", "new"].map(|name| folder.path().join(name));
    std::fs::write(&paths[0], old).unwrap();
    std::fs::write(&paths[1], new).unwrap();
    let mut heard = 0;
    let found = diff(&paths[0], &paths[1], &mut |n| heard = n)?;
    assert_eq!(heard, (old.len() + new.len()) as u64);
    Ok(found)
}

type Rr = (Vec<u8>, u16, u32, Vec<u8>);

/// Records as a set: owners as small letters, and the data of NS records too.
fn set(text: &[u8]) -> BTreeSet<Rr> {
    let small = |b: Vec<u8>| b.to_ascii_lowercase();
    let records = records(text).unwrap().into_iter();
    records.map(|(o, ttl, t, d)| (small(o), t, ttl, if t == rtype::NS { small(d) } else { d })).collect()
}

fn is_dnssec(t: u16) -> bool {
    [rtype::RRSIG, rtype::NSEC, rtype::NSEC3, rtype::NSEC3PARAM, rtype::DNSKEY, rtype::ZONEMD].contains(&t)
}

/// True at or below a name.
fn under(name: &[u8], top: &[u8]) -> bool {
    wire::name::is_under(name, top)
}

/// What the difference must be: record counts by type, delegations added, deleted and changed, octets of the IXFR.
fn check(old: &[u8], new: &[u8], found: &Diff) {
    let (a, b) = (set(old), set(new));
    let count = |rrs: &[&Rr], dnssec: bool| -> BTreeMap<String, u64> {
        let mut counts = BTreeMap::new();
        for rr in rrs.iter().filter(|rr| rr.1 != rtype::SOA && is_dnssec(rr.1) == dnssec) {
            *counts.entry(rtype::to_text(rr.1)).or_default() += 1;
        }
        counts
    };
    let (deleted, added): (Vec<&Rr>, Vec<&Rr>) = (a.difference(&b).collect(), b.difference(&a).collect());
    assert_eq!(
        (&found.records.deleted, &found.records.added),
        (&count(&deleted, false), &count(&added, false))
    );
    assert_eq!((&found.dnssec.deleted, &found.dnssec.added), (&count(&deleted, true), &count(&added, true)));
    let octets = |rr: &Rr| (rr.0.len() + 10 + rr.3.len()) as u64;
    let soa = |s: &BTreeSet<Rr>| {
        s.iter().find(|rr| rr.1 == rtype::SOA).map(|rr| (rr.0.clone(), octets(rr))).unwrap()
    };
    let ((apex, old_soa), (_, new_soa)) = (soa(&a), soa(&b));
    let touched: Vec<&Rr> = deleted.iter().chain(&added).copied().filter(|rr| rr.1 != rtype::SOA).collect();
    assert_eq!(found.ixfr.octets, old_soa + 3 * new_soa + touched.iter().map(|rr| octets(rr)).sum::<u64>());
    assert_eq!(found.ixfr.records, 4 + touched.len() as u64);
    assert!(
        found.ixfr.message_octets <= found.ixfr.octets + 14 * found.ixfr.messages + apex.len() as u64 + 4
    );
    let plain: Vec<&Rr> = touched.into_iter().filter(|rr| !is_dnssec(rr.1)).collect();
    assert_eq!(found.ixfr_without_dnssec.records, 4 + plain.len() as u64);
    // Delegations that lie below no other one of either version.
    let cuts = |s: &BTreeSet<Rr>| -> BTreeSet<Vec<u8>> {
        s.iter().filter(|rr| rr.1 == rtype::NS && rr.0 != apex).map(|rr| rr.0.clone()).collect()
    };
    let (old_cuts, new_cuts) = (cuts(&a), cuts(&b));
    let all: Vec<&Vec<u8>> = old_cuts.union(&new_cuts).collect();
    let top = |cut: &&&Vec<u8>| !all.iter().any(|other| *other != **cut && under(cut, other));
    let (mut added, mut deleted, mut changed, mut ns) = (0, 0, 0, 0);
    for cut in all.iter().filter(top) {
        match (old_cuts.contains(*cut), new_cuts.contains(*cut)) {
            (true, true) => {
                changed += u64::from(plain.iter().any(|rr| under(&rr.0, cut)));
                ns += u64::from(plain.iter().any(|rr| rr.0 == **cut && rr.1 == rtype::NS));
            }
            (true, false) => deleted += 1,
            _ => added += 1,
        }
    }
    let d = found.delegations;
    assert_eq!((d.added, d.deleted, d.changed, found.changed_in.ns), (added, deleted, changed, ns));
    let names = |s: &BTreeSet<Rr>| -> BTreeSet<Vec<u8>> {
        s.iter().filter(|rr| !is_dnssec(rr.1)).map(|rr| rr.0.clone()).collect()
    };
    let (old_names, new_names) = (names(&a), names(&b));
    let changed: BTreeSet<&Vec<u8>> = plain.iter().map(|rr| &rr.0).collect();
    let stay = |n: &&&Vec<u8>| old_names.contains(**n) && new_names.contains(**n);
    assert_eq!(found.names.added, new_names.difference(&old_names).count() as u64);
    assert_eq!(found.names.deleted, old_names.difference(&new_names).count() as u64);
    assert_eq!(found.names.changed, changed.iter().filter(stay).count() as u64);
}

#[test]
fn all_successive_root_zones_differ_as_sets_do() {
    let zones: Vec<Vec<u8>> = root_zones().iter().map(|path| unxz(path)).collect();
    let mut steps = Vec::new();
    for pair in zones.windows(2) {
        let found = diff_of(&pair[0], &pair[1]).unwrap();
        check(&pair[0], &pair[1], &found);
        assert!(found.is_newer() && found.old.delegations == 1438);
        steps.push(found);
    }
    if let Some((first, last)) = zones.first().zip(zones.last()) {
        let found = diff_of(first, last).unwrap();
        check(first, last, &found);
        let days = zone::diff::days_between(found.old.serial, found.new.serial);
        let churn = zone::diff::churn(&steps, days);
        assert_eq!(days, Some(11.0));
        // Nothing came or went, and less than 1 % of the root changes in a day.
        assert_eq!((churn.entries.added, churn.entries.deleted), (0, 0));
        assert!(churn.share_a_day.is_some_and(|s| (0.00001..0.01).contains(&s)), "{churn:?}");
    }
}

#[test]
fn other_seeds_make_other_zones() {
    let (old, _) = zone_of(Family::S6Ds50, 800, 1);
    let (new, _) = zone_of(Family::S6Ds50, 900, 2);
    check(&old, &new, &diff_of(&old, &new).unwrap());
    check(&new, &old, &diff_of(&new, &old).unwrap());
    let same = diff_of(&old, &old).unwrap();
    assert_eq!((same.records.sums(), same.ixfr.records, same.is_newer()), ((0, 0), 4, false));
}

/// ldns-compare-zones counts the same names.
#[test]
fn ldns_counts_the_same_names() {
    let (old, _) = zone_of(Family::U4Ds0, 500, 1);
    let (new, _) = zone_of(Family::U4Ds0, 520, 1);
    let folder = tempfile::tempdir().unwrap();
    let paths = ["old", "new"].map(|name| folder.path().join(name).to_str().unwrap().to_owned());
    std::fs::write(&paths[0], &old).unwrap();
    std::fs::write(&paths[1], &new).unwrap();
    let Some(out) = checker("ldns-compare-zones", &["-s", &paths[0], &paths[1]]) else { return };
    let found = diff_of(&old, &new).unwrap().names;
    let expected = format!("+{}\t-{}\t~{}", found.added, found.deleted, found.changed);
    let said = String::from_utf8_lossy(&out.stdout).into_owned();
    assert!(said.trim_end().ends_with(&expected), "{said} is not {expected}");
}

#[test]
fn order_and_letters_do_not_matter_but_ttls_do() {
    let old = "$TTL 9\nt. SOA a. b. 1 2 3 4 5\nt. NS ns.a.t.\na.t. NS ns.a.t.\na.t. NS x.\nns.a.t. A 192.0.2.1\n\
               b.t. NS NS.A.T.\nb.t. DS 1 8 2 00\nc.t. NS x.\n";
    let new = "$TTL 9\nT. SOA a. b. 3 2 3 4 5\nc.t. NS y.\nb.t. 7 DS 1 8 2 00\nb.t. NS ns.a.t.\na.T. NS X.\nd.t. NS x.\n\
               a.T. NS ns.a.t.\nns.a.t. A 192.0.2.2\nns.a.t. A 192.0.2.2\nt. NS ns.a.t.\n";
    let found = diff_of(old.as_bytes(), new.as_bytes()).unwrap();
    let counts =
        |pairs: &[(&str, u64)]| pairs.iter().map(|(t, n)| ((*t).to_owned(), *n)).collect::<BTreeMap<_, _>>();
    assert_eq!(found.records.deleted, counts(&[("NS", 1), ("A", 1), ("DS", 1)]));
    assert_eq!(found.records.added, counts(&[("NS", 2), ("A", 1), ("DS", 1)]));
    assert_eq!((found.delegations.added, found.delegations.changed), (1, 3));
    let c = found.changed_in;
    assert_eq!((c.ns, c.ds, c.glue), (1, 1, 1));
    check(old.as_bytes(), new.as_bytes(), &found);
}

#[test]
fn other_zones_are_refused() {
    let text = |name: &str| format!("{name} 1 SOA a. b. 1 2 3 4 5\n").into_bytes();
    let error = diff_of(&text("a."), &text("b.")).unwrap_err().to_string();
    assert!(error.contains("is the zone a.,") && error.contains("expected versions of one zone"), "{error}");
    let error = diff_of(&text("a."), b"a. 1 SOA a. b. 1 2 3 4 5\na. 1 A 1.2.3\n").unwrap_err().to_string();
    assert!(error.contains("new:2:8: "), "{error}");
}

fn zone(serial: u32, lines: &[(&str, u8, &str, bool)]) -> Vec<u8> {
    let mut text = format!("$TTL 5\nt. SOA a.t. a.t. {serial} 2 3 4 5\n$ORIGIN t.\n@ NS c.b\n");
    for (owner, kind, target, long) in lines {
        let ttl = if *long { "8" } else { "" };
        text += &match kind {
            0 | 1 => format!("{owner} {ttl} NS {target}\n"),
            2 => format!("{owner} {ttl} A 192.0.2.{}\n", target.len()),
            _ => format!("{owner} {ttl} DS 1 8 2 0{}\n", target.len()),
        };
    }
    text.into_bytes()
}

proptest! {
    #[test]
    fn any_two_small_zones_differ_as_sets_do(versions in prop::array::uniform2(prop::collection::vec((
        prop::sample::select(vec!["a", "B", "c.b", "0", "x-1", "d.c.b", "zz", "e.a", "@"]),
        0u8..4,
        prop::sample::select(vec!["a", "b", "C.b"]),
        any::<bool>(),
    ), 0..25))) {
        let (old, new) = (zone(1, &versions[0]), zone(2, &versions[1]));
        check(&old, &new, &diff_of(&old, &new).unwrap());
    }
}
