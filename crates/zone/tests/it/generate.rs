//! Generated families against table 1.1, BIND and themselves.

use crate::support::{checker, sha256};
use measure::Seed;
use std::collections::{HashMap, HashSet};
use std::io::Cursor;
use wire::name::{self, Name};
use wire::rtype;
use zone::generate::{Summary, generate_with};
use zone::{Error, Family, Scanner, generate};

/// A zone of a family.
pub fn zone_of(family: Family, delegations: u64, seed: u64) -> (Vec<u8>, Summary) {
    let mut text = Vec::new();
    let summary = generate(family, delegations, Seed(seed), &mut text, &mut |_| {}).unwrap();
    assert_eq!(summary.bytes, text.len() as u64);
    (text, summary)
}

/// Table 1.1 of seed 003: NS, A, AAAA, DS at 1K, 10K and 100K.
const TABLE: [(Family, [[u64; 4]; 3]); 5] = [
    (Family::U4Ds0, [[5577, 5114, 233, 0], [55222, 54759, 727, 0], [551910, 551447, 5873, 0]]),
    (Family::U6Ds0, [[5564, 5101, 4209, 0], [55121, 54658, 53766, 0], [552350, 551887, 550995, 0]]),
    (Family::S6Ds10, [[5521, 5058, 4166, 172], [55425, 54962, 54070, 1950], [552103, 551640, 550748, 20036]]),
    (Family::S6Ds50, [[5464, 5001, 4109, 728], [55079, 54616, 53724, 9766], [551800, 551337, 550445, 99654]]),
    (
        Family::S6Ds100,
        [[5510, 5047, 4155, 1440], [55519, 55056, 54164, 19440], [552447, 551984, 551092, 199440]],
    ),
];

#[test]
fn counts_are_those_of_table_1_1() {
    for (family, rows) in TABLE {
        for (row, size) in rows.into_iter().zip([1_000, 10_000, 100_000]) {
            for seed in [1, 2] {
                let (_, s) = zone_of(family, size, seed);
                let ours = [s.ns, s.a, s.aaaa, s.ds];
                for (&ours, published) in ours.iter().zip(row) {
                    // At 1K the published row is one draw of few: four standard deviations of its DS.
                    let bound = if size == 1_000 { (published / 25).max(36) } else { published / 100 };
                    assert!(ours.abs_diff(published) <= bound, "{family} {size}: {ours} for {published}");
                }
                assert_eq!((s.delegations, s.ns - s.a), (size, 463));
                assert_eq!(s.records, s.ns + s.a + s.aaaa + s.ds + 1);
                if family != Family::U4Ds0 {
                    assert_eq!(s.a - s.aaaa, 892);
                }
            }
        }
    }
}

#[test]
fn zones_are_in_canonical_order_and_whole() {
    for (family, size) in [
        (Family::U4Ds0, 5000),
        (Family::S6Ds50, 3000),
        (Family::U6Ds0, 280),
        (Family::U4Ds0, 40),
        (Family::U6Ds0, 1),
    ] {
        let (text, summary) = zone_of(family, size, 7);
        let mut scanner = Scanner::new(Cursor::new(text), "generated");
        let (mut last, mut records) = (Vec::new(), 0);
        let (mut addressed, mut wanted): (HashSet<Name>, HashMap<Name, u64>) = Default::default();
        while let Some(r) = scanner.next().unwrap() {
            records += 1;
            if r.owner != last {
                assert!(last.is_empty() || name::canonical_cmp(&last, r.owner).is_lt());
                last = r.owner.to_vec();
            }
            match r.rtype {
                rtype::A => assert!(addressed.insert(Name::from_wire(r.owner).unwrap()), "one A each"),
                rtype::NS => *wanted.entry(Name::from_wire(r.rdata).unwrap()).or_default() += 1,
                _ => {}
            }
        }
        assert_eq!(records, summary.records);
        let wanted_names: HashSet<Name> = wanted.keys().cloned().collect();
        assert_eq!(addressed, wanted_names, "{family} {size}: every server is named and has its address");
        if size > 280 {
            let single = wanted.values().filter(|&&n| n == 1).count() as u64;
            assert!(single >= summary.ns - 1552, "new servers serve one TLD each");
            let under = |tld: &str| {
                let tld: Name = tld.parse().unwrap();
                addressed.iter().filter(|n| n.is_under(tld.as_wire())).count() as u64
            };
            let concentrated = under("com") + under("net") + under("org");
            assert!(concentrated * 10 > summary.a * 7, "{concentrated} of {} under three TLDs", summary.a);
        }
    }
}

#[test]
fn threads_do_not_change_a_byte_and_seeds_do() {
    let with = |threads, seed| {
        let mut text = Vec::new();
        let mut heard = Vec::new();
        generate_with(threads, Family::S6Ds10, 4000, Seed(seed), &mut text, &mut |n| heard.push(n)).unwrap();
        assert!(heard.is_sorted() && heard.last() == Some(&4000));
        text
    };
    let one = with(1, 1);
    assert!(one == with(3, 1), "three threads write something else");
    assert!(one != with(1, 2), "another seed writes the same");
}

/// The bytes of small zones, pinned for ever: whoever changes one changes every published result.
#[test]
fn golden_zones_never_change() {
    let hashes: Vec<String> =
        Family::RZAIA.iter().map(|&f| format!("{f} {}", &sha256(&zone_of(f, 1200, 42).0)[..32])).collect();
    assert_eq!(hashes, GOLDEN);
}

const GOLDEN: [&str; 5] = [
    "U-4-DS0 8744e558a15b08b8012c5c54e66538b5",
    "U-6-DS0 503abec50fd8ea2d5b34de1db85cd1d4",
    "S-6-DS10 6d4549db0bdb39f72d6325f5bc344dea",
    "S-6-DS50 ba62cb894f4b31dafefd3eccd7033ab0",
    "S-6-DS100 4377260d6c208388555d709aded9f9f1",
];

#[test]
fn bind_takes_every_family() {
    let folder = tempfile::tempdir().unwrap();
    for family in Family::RZAIA {
        for size in [30, 280, 2000] {
            let file = folder.path().join("zone");
            std::fs::write(&file, zone_of(family, size, 3).0).unwrap();
            // Not -i full, the default: that asks the Internet about every server.
            let Some(out) = checker("named-checkzone", &["-i", "local", ".", file.to_str().unwrap()]) else {
                return;
            };
            assert!(out.status.success(), "{family} {size}: {}", String::from_utf8_lossy(&out.stdout));
        }
    }
}

#[test]
fn what_cannot_be_made_or_written_is_an_error() {
    let error = generate(Family::U4Ds0, 0, Seed(1), &mut Vec::new(), &mut |_| {}).unwrap_err();
    assert!(error.to_string().contains("give a number from 1"), "{error}");
    let mut full = std::fs::File::options().write(true).open("/dev/full").unwrap();
    let error = generate(Family::U4Ds0, 5000, Seed(1), &mut full, &mut |_| {}).unwrap_err();
    assert!(matches!(error, Error::Write(_)) && error.to_string().contains("No space left"), "{error}");
}
