//! Slices of zones.

use crate::generate::zone_of;
use crate::support::{Owned, checker, records, root_zones, unxz};
use proptest::prelude::*;
use std::collections::BTreeSet;
use std::path::Path;
use wire::name::Name;
use wire::rtype;
use zone::slice::{Cut, Slice, plan};
use zone::{Error, Family};

/// Cuts a zone; gives the slices and their texts.
fn slice(text: &[u8], cut: Cut, unsign: bool) -> Result<(Vec<Slice>, Vec<Vec<u8>>), Error> {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), text).unwrap();
    let plan = plan(file.path(), cut, unsign, &mut |_| {})?;
    let mut outputs = vec![Vec::new(); plan.partition.ranges().len()];
    let slices = plan.write(&mut outputs, &mut |_| {})?;
    Ok((slices, outputs))
}

fn ranges(text: &str) -> Cut {
    Cut::Ranges(text.parse().unwrap())
}

/// Owners as small letters.
fn folded(text: &[u8]) -> Vec<Owned> {
    let small = |(owner, ttl, rtype, rdata): Owned| (owner.to_ascii_lowercase(), ttl, rtype, rdata);
    records(text).unwrap().into_iter().map(small).collect()
}

fn is_dnssec(t: u16) -> bool {
    [rtype::RRSIG, rtype::NSEC, rtype::NSEC3, rtype::NSEC3PARAM, rtype::DNSKEY, rtype::ZONEMD].contains(&t)
}

/// All that must hold for the slices of a zone.
fn check(text: &[u8], slices: &[Slice], outputs: &[Vec<u8>]) {
    let whole: BTreeSet<Owned> = folded(text).into_iter().filter(|r| !is_dnssec(r.2)).collect();
    let apex = records(text).unwrap()[0].0.to_ascii_lowercase();
    let mut merged = BTreeSet::new();
    for (slice, output) in slices.iter().zip(outputs) {
        let all = folded(output);
        assert_eq!((all.len() as u64, output.len() as u64), (slice.records, slice.bytes));
        let owners: Vec<Name> = all.iter().map(|r| Name::from_wire(&r.0).unwrap()).collect();
        assert!(owners.is_sorted(), "canonical order stays");
        let here: BTreeSet<Owned> = all.iter().cloned().collect();
        for record in whole.iter().filter(|r| r.0 == apex) {
            assert!(here.contains(record), "the apex is in each");
        }
        // By brute force: the addresses of every server are where the delegation is.
        let targets: BTreeSet<Vec<u8>> =
            all.iter().filter(|r| r.2 == rtype::NS).map(|r| r.3.to_ascii_lowercase()).collect();
        for record in whole.iter().filter(|r| matches!(r.2, rtype::A | rtype::AAAA) && targets.contains(&r.0))
        {
            assert!(here.contains(record), "{:?} is needed in {}", record, slice.range);
        }
        let range: wire::ranges::Range = slice.range.parse().unwrap();
        let foreign = all.iter().filter(|r| r.0 != apex && !range.contains(&r.0, &apex));
        let foreign: Vec<&Owned> = foreign.collect();
        assert!(foreign.iter().all(|r| matches!(r.2, rtype::A | rtype::AAAA) && targets.contains(&r.0)));
        assert_eq!(foreign.len() as u64, slice.copied);
        let cuts: BTreeSet<&Vec<u8>> =
            all.iter().filter(|r| r.2 == rtype::NS && r.0 != apex).map(|r| &r.0).collect();
        assert_eq!(cuts.len() as u64, slice.delegations);
        merged.extend(here);
    }
    assert_eq!(merged, whole, "slice, then merge, gives the zone back");
}

#[test]
fn slices_of_a_generated_zone_are_the_zone() {
    let (text, made) = zone_of(Family::S6Ds10, 3000, 8);
    for cut in
        [Cut::Parts(3), Cut::Parts(7), Cut::Parts(1), ranges("a-f,g-n,o-z"), ranges("..com,com..net,net..")]
    {
        let parts = matches!(cut, Cut::Parts(_));
        let (slices, outputs) = slice(&text, cut, false).unwrap();
        check(&text, &slices, &outputs);
        assert_eq!(slices.iter().map(|s| s.delegations).sum::<u64>(), made.delegations);
        // Equal by their own records, up to the largest delegation (the glue below com).
        let own: Vec<u64> = slices.iter().map(|s| s.records - s.copied).collect();
        let apart = own.iter().max().unwrap() - own.iter().min().unwrap();
        assert!(!parts || apart < made.records / 5, "{own:?} of {}", made.records);
    }
}

#[test]
fn every_real_root_zone_is_its_slices() {
    for (i, path) in root_zones().into_iter().enumerate() {
        let text = unxz(&path);
        let signed = slice(&text, Cut::Parts(2), false).unwrap_err().to_string();
        assert!(signed.contains(":2: RRSIG record: the zone is signed"), "{signed}");
        let (slices, outputs) = slice(&text, Cut::Parts(2 + i % 3), true).unwrap();
        check(&text, &slices, &outputs);
        let own: Vec<u64> = slices.iter().map(|s| s.records - s.copied).collect();
        assert!(own.iter().max().unwrap() - own.iter().min().unwrap() < 100, "{own:?}");
        if i > 2 {
            continue;
        }
        for output in &outputs {
            let file = tempfile::NamedTempFile::new().unwrap();
            std::fs::write(file.path(), output).unwrap();
            check_slice(file.path());
        }
    }
}

/// named-checkzone misses no address of a server in the zone.
fn check_slice(path: &Path) {
    let file = path.to_str().unwrap();
    let Some(out) = checker("named-checkzone", &["-i", "local", "-k", "ignore", ".", file]) else { return };
    let said = String::from_utf8_lossy(&out.stdout).into_owned();
    assert!(out.status.success() && !said.contains("has no address"), "{said}");
}

#[test]
fn glue_goes_with_its_users_only() {
    let text = "$TTL 1\nt. SOA ns.a.t. x.t. 9 2 3 4 5\n NS ns.a.t.\nb.t. NS ns.x.t.\n NS ns.other.\n DS 1 8 2 00\n\
                ns.x.t. AAAA ::1\na.t. NS ns.a.t.\nns.a.t. A 192.0.2.1\nx.t. NS NS.X.T.\nns.X.t. 7 A 192.0.2.2\n\
                www.z.t. TXT \"x\"\nunused.x.t. A 192.0.2.3\n";
    let (slices, outputs) = slice(text.as_bytes(), ranges("a-m,n-w,x-z"), false).unwrap();
    let lines = |n: usize| String::from_utf8(outputs[n].clone()).unwrap();
    check(text.as_bytes(), &slices, &outputs);
    assert_eq!(slices.iter().map(|s| s.copied).collect::<Vec<_>>(), [2, 1, 1]);
    assert!(lines(0).ends_with("ns.X.t.\t7\tIN\tA\t192.0.2.2\nns.x.t.\t1\tIN\tAAAA\t::1\n"), "{}", lines(0));
    assert!(lines(1).contains("ns.a.t.") && !lines(1).contains("ns.x.t."));
    assert!(lines(2).contains("www.z.t.") && lines(2).contains("unused.x.t."));
}

#[test]
fn what_cannot_be_cut_is_refused() {
    let text = b"t. 1 SOA a. a. 9 2 3 4 5\nt. 1 NS a.\na.t. 1 NS a.\nb.t. 1 NS a.\n";
    let error = slice(text, Cut::Parts(3), false).unwrap_err().to_string();
    assert!(error.contains("3 parts: it has 2 names directly below its apex"), "{error}");
    let signed = b"t. 1 SOA a. a. 9 2 3 4 5\nt. 1 ZONEMD 9 1 1 00\n";
    let error = slice(signed, Cut::Parts(1), false).unwrap_err().to_string();
    assert!(error.contains(":2: ZONEMD record: the zone is signed"), "{error}");
}

proptest! {
    #[test]
    fn any_small_zone_is_its_slices(
        lines in prop::collection::vec(
            (prop::sample::select(vec!["a", "B", "c.b", "0", "x-1", "d.c.b", "zz", "_a"]), 0u8..4, prop::sample::select(
                vec!["a", "b", "c.b", "x-1", "d.c.b", "zz", "t2."])),
            0..30,
        ),
        cut in prop::sample::select(vec!["a-f,g-z", "..b,b..zz,zz..", "a,b..c,c-z"]),
    ) {
        let mut text = "$TTL 5\nt. SOA a.t. a.t. 9 2 3 4 5\n$ORIGIN t.\n@ NS c.b\n".to_owned();
        for (owner, kind, target) in lines {
            text += &match kind {
                0 | 1 => format!("{owner} NS {target}\n"),
                2 => format!("{owner} A 192.0.2.{}\n", target.len()),
                _ => format!("{owner} AAAA ::{}\n", target.len()),
            };
        }
        let (slices, outputs) = slice(text.as_bytes(), ranges(cut), false).unwrap();
        check(text.as_bytes(), &slices, &outputs);
    }
}
