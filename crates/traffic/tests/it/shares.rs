//! The shares of a profile, measured over 100,000 queries.

use crate::{profile, take, write, zone};
use measure::Seed;
use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use traffic::{Names, Profile, Query, Tally, Want};
use wire::{name, question};

const COUNT: usize = 100_000;

/// Six standard deviations of a share's count, and one for rounding.
fn near(count: u64, share: f64) -> bool {
    let n = COUNT as f64;
    (count as f64 - n * share).abs() <= 6.0 * (n * share * (1.0 - share)).sqrt() + 1.0
}

fn tally(queries: &[Query]) -> Tally {
    let mut tally = Tally::default();
    queries.iter().for_each(|q| tally.add(q));
    tally
}

fn stream(profile_name: &str, names: &Path) -> Vec<Query> {
    let spec = profile(profile_name, names.to_owned(), 1);
    spec.check().unwrap();
    take(&mut *spec.open(0, 1).unwrap(), COUNT)
}

fn assert_shares(tally: &Tally, profile: &Profile) {
    let [class] = &profile.classes[..] else { panic!("one class") };
    for (what, count, share) in [
        ("EDNS", tally.edns, class.edns),
        ("DO", tally.do_bit, class.do_bit),
        ("DF", tally.df, class.df),
        ("nonexistent", tally.nonexistent, class.nonexistent),
        ("no checksum", tally.no_checksum, profile.no_checksum),
        ("bad checksum", tally.bad_checksum, profile.bad_checksum),
    ] {
        assert!(near(count, share), "{what}: {count} of {COUNT}, expected {share}");
    }
    let drawn = !profile.types_of_zone;
    assert!(!drawn || tally.types.keys().all(|t| profile.types.contains_key(t)));
    // Names that do not exist may be asked for with types of their own.
    let missed =
        if profile.types_nonexistent.is_empty() { &profile.types } else { &profile.types_nonexistent };
    let of = |types: &BTreeMap<u16, f64>, kind: &u16| {
        types.get(kind).unwrap_or(&0.0) / types.values().sum::<f64>()
    };
    for kind in profile.types.keys().filter(|_| drawn) {
        let count = tally.types.get(kind).copied().unwrap_or(0);
        let share =
            (1.0 - class.nonexistent) * of(&profile.types, kind) + class.nonexistent * of(missed, kind);
        assert!(near(count, share), "type {kind}: {count} of {COUNT}, expected {share}");
    }
    let weight: f64 = class.edns_sizes.values().sum();
    assert_eq!(tally.edns_sizes.values().sum::<u64>(), tally.edns);
    for (size, w) in &class.edns_sizes {
        let (count, share) = (tally.edns_sizes.get(size).copied().unwrap_or(0), class.edns * w / weight);
        assert!(near(count, share), "EDNS size {size}: {count} of {COUNT}, expected {share}");
    }
}

#[test]
fn the_built_in_profiles_are_what_they_say() {
    let folder = tempfile::tempdir().unwrap();
    let zone = zone(folder.path(), 280);
    for name in ["rzaia", "isc", "nominet"] {
        let profile = Profile::load(name).unwrap();
        assert_shares(&tally(&stream(name, &zone)), &profile);
    }
    let rzaia = Profile::load("rzaia").unwrap();
    let class = &rzaia.classes[0];
    assert_eq!((class.edns, class.do_bit, class.df, class.nonexistent), (0.75, 0.70, 0.77, 0.30));
    assert_eq!((rzaia.no_checksum, rzaia.bad_checksum), (0.0008, 0.0001));
    assert_eq!(Profile::load("isc").unwrap().classes[0].nonexistent, 0.3859);
}

#[test]
fn any_profile_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    let text = r#"about = "odd"
[edns]
share = 0.4
do = 0.1
sizes = { 512 = 1, 65535 = 3 }
[names]
nonexistent = 0.9
[types]
AAAA = 1
TYPE65280 = 2
[packets]
df = 0.01
no-checksum = 0.5
bad-checksum = 0.5
"#;
    let path = write(folder.path(), "odd.toml", text);
    let queries = stream(path.to_str().unwrap(), &zone(folder.path(), 10));
    assert_shares(&tally(&queries), &Profile::parse(text, "odd").unwrap());
}

#[test]
fn queries_with_do_may_have_sizes_of_their_own() {
    let folder = tempfile::tempdir().unwrap();
    let zone = zone(folder.path(), 10);
    let text = |sizes_do: &str| {
        format!(
            "about = \"joint\"\ntypes = {{ A = 1 }}\n[edns]\nshare = 0.8\ndo = 0.3\n\
             sizes = {{ 512 = 3, 1232 = 1 }}\n{sizes_do}"
        )
    };
    let sizes = |sizes_do: &str| {
        let path = write(folder.path(), "joint.toml", &text(sizes_do));
        let mut counts = HashMap::new();
        for query in stream(path.to_str().unwrap(), &zone) {
            // The OPT record's class and flags, after the question.
            let opt = &query.bytes[question::end(&query.bytes).unwrap()..];
            if !opt.is_empty() {
                let size = u16::from_be_bytes([opt[3], opt[4]]);
                *counts.entry((opt[7] & 0x80 != 0, size)).or_insert(0u64) += 1;
            }
        }
        counts
    };
    let joint = sizes("sizes-do = { 1232 = 1, 4096 = 4 }\n");
    let expected =
        [((false, 512), 0.375), ((false, 1232), 0.125), ((true, 1232), 0.06), ((true, 4096), 0.24)];
    assert_eq!(joint.len(), expected.len());
    for (which, share) in expected {
        assert!(near(joint[&which], share), "{which:?}: {joint:?}, expected {share}");
    }
    // Without them all have the same.
    let alike = sizes("");
    for (which, share) in
        [((false, 512), 0.375), ((false, 1232), 0.125), ((true, 512), 0.225), ((true, 1232), 0.075)]
    {
        assert!(near(alike[&which], share), "{which:?}: {alike:?}, expected {share}");
    }
}

/// The name's last labels as in the zone, and how many labels there are before them.
fn split(query: &Query) -> (Vec<u8>, usize) {
    let qname = question::parse(&query.bytes).expect("every query has a question").qname;
    assert_eq!(name::wire_len(qname), Some(qname.len()));
    let mut last = qname;
    while name::label_count(last) > 1 {
        last = name::parent(last);
    }
    (last.to_vec(), name::label_count(qname) - 1)
}

#[test]
fn names_that_exist_are_uniform_and_have_labels_below() {
    let folder = tempfile::tempdir().unwrap();
    let zone = zone(folder.path(), 100);
    let profile = Profile::load("rzaia").unwrap();
    let names = Names::from_zone(&zone, Seed(1), Want::Names, &mut |_| {}).unwrap();
    let (mut hits, mut below, mut exist) = (HashMap::new(), [0u64; 5], 0u64);
    for query in stream("rzaia", &zone).iter().filter(|q| !q.nonexistent) {
        let (tld, labels) = split(query);
        assert_eq!(names.contains(&tld), Some(true));
        *hits.entry(tld).or_insert(0u64) += 1;
        below[labels] += 1;
        exist += 1;
    }
    assert_eq!(hits.len(), 100);
    assert!(hits.values().all(|&n| near(n, 0.7 / 100.0)), "{hits:?}");
    let weight: f64 = profile.below.iter().sum();
    for (count, w) in below.iter().zip(&profile.below) {
        assert!(near(*count, 0.7 * w / weight), "{below:?} of {exist}");
    }
}

#[test]
fn names_made_not_to_exist_do_not() {
    let folder = tempfile::tempdir().unwrap();
    // Most short labels exist here, so that a careless generator would hit them.
    let letters = b"abcdefghijklmnopqrstuvwxyz";
    let mut text = String::from(". 60 IN SOA a. b. 1 2 3 4 5\n");
    for a in letters {
        for b in letters {
            for c in letters {
                let (a, b, c) = (*a as char, *b as char, *c as char);
                text += &format!("{a}{b}{c}. 60 IN NS ns.{a}{b}{c}.\n");
            }
        }
    }
    let zone = write(folder.path(), "dense", &text);
    let names = Names::from_zone(&zone, Seed(1), Want::Names, &mut |_| {}).unwrap();
    let mut lengths = HashMap::new();
    for query in stream("rzaia", &zone).iter().filter(|q| q.nonexistent) {
        let (tld, _) = split(query);
        assert_eq!(names.contains(&tld), Some(false), "{tld:?}");
        *lengths.entry(tld[0]).or_insert(0u32) += 1;
    }
    assert!(lengths.len() >= 12, "a variety of lengths: {lengths:?}");
}

#[test]
fn of_a_sample_names_that_do_not_exist_are_made_by_construction() {
    let folder = tempfile::tempdir().unwrap();
    let names = write(
        folder.path(),
        "names",
        "; dnsrack-names kind=delegations of=10000000 origin=example.\na.example.\nb.example.\n",
    );
    for query in stream("rzaia", &names).iter().filter(|q| q.nonexistent) {
        let qname = question::parse(&query.bytes).unwrap().qname;
        let labels: Vec<&[u8]> = name::labels(qname).collect();
        let made = labels[labels.len() - 2];
        assert_eq!((labels[labels.len() - 1], &made[2..4]), (&b"example"[..], &b"--"[..]));
        assert_ne!(&made[..2], b"xn");
    }
}

#[test]
fn nominet_asks_for_the_names_as_they_are() {
    let folder = tempfile::tempdir().unwrap();
    let names = write(folder.path(), "names", "t1.example.\nt2.example.\nt3.example.\n");
    let queries = stream("nominet", &names);
    for (n, query) in queries.iter().enumerate() {
        let asked = question::parse(&query.bytes).unwrap();
        assert_eq!((asked.qname[2], asked.qtype), (b'1' + (n % 3) as u8, wire::rtype::A));
        assert_eq!(question::end(&query.bytes), Some(query.bytes.len()), "no EDNS");
    }
}

#[test]
fn a_wildcard_leaves_nothing_that_does_not_exist() {
    let folder = tempfile::tempdir().unwrap();
    let text = "e. 60 IN SOA a. b. 1 2 3 4 5\n*.e. 60 IN A 192.0.2.1\n";
    let zone = write(folder.path(), "wild", text);
    let error = profile("rzaia", zone, 1).open(0, 1).err().expect("an error").to_string();
    assert!(error.contains("wildcard"), "{error}");
}
