//! Zone profiles: as TOML, and the zones that they make.

use crate::support::{checker, sha256};
use measure::Seed;
use proptest::prelude::*;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::io::Cursor;
use wire::name::{self, Name};
use wire::rtype;
use zone::generate::generate_with;
use zone::profile::BUILT_IN;
use zone::{Error, Family, Profile, Scanner, Shape, generate};

/// A small profile that says everything; tests break one line of it at a time.
pub const SMALL: &str = r#"about = "test"
delegations = 100

[apex]
origin = "example."
serial = 7
timers = [1, 2, 3, 4]
soa-ttl = 60
ns-ttl = 70
servers = ["ns1.example.", "a.nic.example.", "ns.elsewhere.org."]

[labels]
model = "words"
idn = 0.1
[labels.lengths]
8 = 1
9 = 1.5

[ns]
ttl = 300
[ns.counts]
2 = 3
3 = 1

[servers]
inside = 0.25
own = 0.25
providers = 0.05
[servers.under]
"example." = 1
"nic.example." = 1
"org." = 1

[glue]
aaaa = 0.5
ttl = 400

[ds]
share = 0.5
counts = { 1 = 1, 2 = 1 }
algorithms = { 8 = 1, 13 = 1 }
digests = { 2 = 3, 4 = 1 }
ttl = 500
"#;

#[test]
fn what_is_written_is_read_again() {
    let small = Profile::parse(SMALL, "small").unwrap();
    assert_eq!((small.servers.exponent, small.glue.a, small.apex.mailbox.as_deref()), (1.0, 1.0, None));
    for profile in BUILT_IN.map(|(name, _)| Profile::load(name).unwrap()).into_iter().chain([small]) {
        let text = profile.to_toml();
        assert_eq!(Profile::parse(&text, "again").unwrap(), profile, "{text}");
    }
    let mut odd = Profile::load("com").unwrap();
    odd.about = "a \"quoted\"\n\\ line".into();
    odd.glue.aaaa = 1.0 / 3.0;
    odd.apex.mailbox = None;
    assert_eq!(Profile::parse(&odd.to_toml(), "odd").unwrap(), odd);
}

#[test]
fn a_bad_knob_is_refused_with_its_place() {
    // A line of SMALL, what stands there instead, and the error.
    let cases = [
        ("aaaa = 0.5", "aaaa = 1.5", "p.toml:35:8: 1.5 is not a share"),
        ("aaaa = 0.5", "a = 0.5\naaaa = 0.25", "p.toml:36:8: 'a' and 'aaaa' are less than 1"),
        ("aaaa = 0.5", "aaaa = nan", "p.toml:35:8: NaN is not a share"),
        ("aaaa = 0.5", "aaaa = \"x\"", "p.toml:35:8: invalid type: string"),
        ("aaaa = 0.5", "aaa = 0.5", "p.toml:35:1: unknown field `aaa`"),
        ("inside = 0.25", "inside = 0.8", "p.toml:27:7: 'inside' and 'own' are more than 1"),
        ("providers = 0.05", "providers = 0", "p.toml:26:10: 'inside' and 'own' leave 0.500"),
        ("9 = 1.5", "64 = 1.5", "p.toml:17:6: 64 is not a length of labels"),
        ("9 = 1.5", "9 = -1", "p.toml:17:5: -1 is not a weight"),
        ("9 = 1.5", "nine = 1", "p.toml:17:1: "),
        ("2 = 3\n3 = 1", "2 = 0", "p.toml:21:1: no weights, or all are zero"),
        ("digests = { 2 = 3, 4 = 1 }", "digests = { 3 = 1 }", "p.toml:42:17: expected a digest type"),
        ("delegations = 100", "delegations = 0", "p.toml:2:15: give a number from 1 to 1G"),
        ("origin = \"example.\"", "origin = \"example\"", "p.toml:5:10: 'example' is not absolute"),
        ("origin = \"example.\"", "origin = \"e..x.\"", "p.toml:5:10: 'e..x.' is no name"),
        ("\"ns1.example.\", ", "\"A.nic.example.\", ", "p.toml:10:11: 'a.nic.example.' stands there twice"),
        ("\"org.\" = 1", "\"a.b.example.\" = 1", "p.toml:32:18: 'a.b.example.' is too deep"),
        ("\"org.\" = 1", "\"EXAMPLE.\" = 1", "is there twice under different spellings"),
        ("soa-ttl = 60", "soa-ttl = 3000000000", "p.toml:8:11: 3000000000 is no TTL"),
        ("about = \"test\"\n", "", "missing field `about`"),
        ("[glue]", "[glue", "p.toml:34:6: "),
    ];
    let mut wrong = Vec::new();
    for (line, instead, expected) in cases {
        assert!(SMALL.contains(line), "{line}");
        let error = Profile::parse(&SMALL.replacen(line, instead, 1), "p.toml").unwrap_err().to_string();
        if !error.contains(expected) {
            wrong.push(format!("{instead:?}: {error}"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn a_profile_that_is_not_there_is_named() {
    let error = Profile::load("nowhere.toml").unwrap_err();
    assert!(matches!(error, Error::NoProfile { .. }), "{error}");
    assert!(error.to_string().contains("'nowhere.toml': give COM, PT, ROOT or the path"), "{error}");
    let error = Profile::load("/").unwrap_err();
    assert!(matches!(error, Error::Read { .. }), "{error}");
}

/// What a zone of a profile must be: sorted, without duplicates, with glue for just what its NS records name
/// in it, and like the profile in numbers.
fn check(profile: &Profile, delegations: u64) -> Vec<u8> {
    let mut text = Vec::new();
    let made = generate(profile.clone(), delegations, Seed(7), &mut text, &mut |_| {}).unwrap();
    let what = format!("{}: {delegations}", profile.about);
    assert_eq!((made.delegations, made.bytes), (delegations, text.len() as u64), "{what}");
    let origin: Name = profile.apex.origin.parse().unwrap();
    let mut scanner = Scanner::new(Cursor::new(text.clone()), "made");
    let (mut last, mut seen) = (Vec::new(), HashSet::new());
    let (mut addressed, mut named): (HashMap<Name, [bool; 2]>, HashSet<Name>) = Default::default();
    let (mut counts, mut ds) = (BTreeMap::<Name, (u32, u32)>::new(), 0);
    while let Some(r) = scanner.next().unwrap() {
        assert!(seen.insert((r.owner.to_vec(), r.rtype, r.rdata.to_vec())), "{what}: a record twice");
        if r.owner != last {
            assert!(last.is_empty() || name::canonical_cmp(&last, r.owner).is_lt(), "{what}: order");
            last = r.owner.to_vec();
        }
        let owner = Name::from_wire(r.owner).unwrap();
        match r.rtype {
            rtype::A => addressed.entry(owner).or_default()[0] = true,
            rtype::AAAA => addressed.entry(owner).or_default()[1] = true,
            rtype::DS => ds += 1,
            rtype::NS => {
                let server = Name::from_wire(r.rdata).unwrap();
                if owner != origin {
                    let count = counts.entry(owner.clone()).or_default();
                    *count = (count.0 + 1, count.1 + u32::from(server.is_under(owner.as_wire())));
                }
                if server.is_under(origin.as_wire()) {
                    named.insert(server);
                }
            }
            _ => {}
        }
    }
    assert_eq!(addressed.keys().cloned().collect::<HashSet<_>>(), named, "{what}: glue and NS records");
    let below = |n: &Name| n.label_count() > origin.label_count() + 1;
    for server in named.iter().filter(|n| below(n)) {
        let mut above = server.as_wire();
        while name::label_count(above) > origin.label_count() + 1 {
            above = name::parent(above);
        }
        let above = Name::from_wire(above).unwrap();
        assert!(counts.contains_key(&above), "{what}: {server} is below no delegation");
    }
    // Numbers: what is apportioned to whole delegations, to a server or two for each block and border.
    let near = |found: f64, share: f64, of: f64, slack: f64| {
        assert!((found - share * of).abs() <= slack, "{what}: {found} for {}", share * of);
    };
    let n = delegations as f64;
    let ns: u32 = counts.values().map(|c| c.0).sum();
    let weights = &profile.ns.counts;
    let mean = weights.iter().map(|(&k, w)| f64::from(k) * w).sum::<f64>() / weights.values().sum::<f64>();
    near(f64::from(ns), mean, n, 0.01 * mean * n + 3.0);
    let inside: u32 = counts.values().map(|c| c.1).sum();
    near(f64::from(inside), profile.servers.inside, f64::from(ns), 0.01 * f64::from(ns) + 6.0);
    near(
        addressed.values().filter(|a| a[1]).count() as f64,
        profile.glue.aaaa,
        addressed.len() as f64,
        0.02 * addressed.len() as f64 + 25.0,
    );
    assert!(addressed.values().all(|a| a[0] || a[1]));
    let idns = counts.keys().filter(|d| d.as_wire()[1..].starts_with(b"xn--")).count() as f64;
    near(idns, profile.labels.idn, n, 0.01 * n + 4.0);
    let ds_mean = profile.ds.counts.iter().map(|(&k, w)| f64::from(k) * w).sum::<f64>()
        / profile.ds.counts.values().sum::<f64>();
    near(f64::from(ds), profile.ds.share * ds_mean, n, 0.01 * n + 2.0);
    text
}

#[test]
fn zones_are_whole_sorted_and_like_their_profile() {
    let small = Profile::parse(SMALL, "small").unwrap();
    for size in [2, 3, 10, 500, 20_000] {
        check(&small, size);
    }
    check(&Profile::load("ROOT").unwrap(), 1438);
    check(&Profile::load("ROOT").unwrap(), 12_000);
    check(&Profile::load("PT").unwrap(), 9_000);
    check(&Profile::load("COM").unwrap(), 30_000);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn any_profile_makes_a_whole_zone(
        n in 3u64..600, inside in 0.0f64..=1.0, own in 0.0f64..=1.0, providers in 0.001f64..=1.0, most in 1u32..20,
        under in prop::sample::subsequence(vec!["example.", "nic.example.", "b.example.", "org."], 1..4),
        a in 0.0f64..=1.0, aaaa in 0.0f64..=1.0, letters in any::<bool>(), length in 1u8..=63,
    ) {
        let mut p = Profile::parse(SMALL, "small").unwrap();
        p.servers.inside = inside;
        p.servers.own = own * (1.0 - inside);
        p.servers.providers = providers;
        p.servers.under = under.into_iter().map(|u| (u.to_owned(), 1.0)).collect();
        p.ns.counts = [(1, 1.0), (most, 1.0)].into();
        (p.glue.a, p.glue.aaaa) = (a.max(1.0 - aaaa), aaaa);
        p.labels.model = if letters { zone::profile::Model::Letters } else { zone::profile::Model::Words };
        p.labels.lengths = [(length, 1.0)].into();
        // Few providers with few servers cannot serve all: numbers are not checked here, wholeness is.
        let mut text = Vec::new();
        generate(p.clone(), n, Seed(1), &mut text, &mut |_| {}).unwrap();
        let (mut scanner, mut last) = (Scanner::new(Cursor::new(text), "made"), Vec::new());
        let (mut addressed, mut named, mut seen) = (HashSet::new(), HashSet::new(), HashSet::new());
        while let Some(r) = scanner.next().unwrap() {
            prop_assert!(seen.insert((r.owner.to_vec(), r.rtype, r.rdata.to_vec())), "a record twice");
            if r.owner != last {
                prop_assert!(last.is_empty() || name::canonical_cmp(&last, r.owner).is_lt());
                last = r.owner.to_vec();
            }
            match r.rtype {
                rtype::A | rtype::AAAA => { addressed.insert(r.owner.to_vec()); }
                rtype::NS if name::is_under(r.rdata, b"\x07example\0") => { named.insert(r.rdata.to_vec()); }
                _ => {}
            }
        }
        prop_assert_eq!(addressed, named);
    }
}

#[test]
fn threads_do_not_change_a_byte() {
    for shape in [Shape::from(Profile::load("COM").unwrap()), Shape::from(Family::Nominet)] {
        let with = |threads| {
            let mut text = Vec::new();
            generate_with(threads, shape.clone(), 20_000, Seed(2), &mut text, &mut |_| {}).unwrap();
            text
        };
        assert!(with(1) == with(3), "three threads write something else");
    }
}

#[test]
fn checkers_take_them() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("zone");
    let path = file.to_str().unwrap();
    for (origin, text) in [
        (".", check(&Profile::load("ROOT").unwrap(), 2000)),
        ("com.", check(&Profile::load("COM").unwrap(), 5000)),
        ("pt.", check(&Profile::load("PT").unwrap(), 5000)),
        ("example.", check(&Profile::parse(SMALL, "small").unwrap(), 900)),
        ("jadjadjad.example.com.", {
            let mut text = Vec::new();
            generate(Family::Nominet, 129_032, Seed(1), &mut text, &mut |_| {}).unwrap();
            text
        }),
    ] {
        std::fs::write(&file, text).unwrap();
        for (program, args) in
            [("named-checkzone", vec!["-i", "local", origin, path]), ("kzonecheck", vec!["-o", origin, path])]
        {
            let Some(out) = checker(program, &args) else { continue };
            let said = [out.stdout, out.stderr].concat();
            assert!(out.status.success(), "{program} {origin}: {}", String::from_utf8_lossy(&said));
        }
    }
}

#[test]
fn nominet_is_that_of_the_seed() {
    let mut text = Vec::new();
    let made = generate(Family::Nominet, 129_032, Seed(1), &mut text, &mut |_| {}).unwrap();
    assert_eq!((made.a, made.records, made.bytes), (129_033, 129_035, text.len() as u64));
    let mut scanner = Scanner::new(Cursor::new(text), "made");
    let mut tests = HashSet::new();
    while let Some(r) = scanner.next().unwrap() {
        let owner = Name::from_wire(r.owner).unwrap().to_string();
        let Some(rest) = owner.strip_prefix("test-") else { continue };
        let label = rest.strip_suffix(".jadjadjad.example.com.").unwrap();
        let octets: Vec<u8> = label.split('-').map(|o| o.parse().unwrap()).collect();
        assert_eq!(r.rdata, octets);
        assert!(tests.insert(octets));
    }
    assert_eq!(tests.len(), 2 * 254 * 254);
    let error = generate(Family::Nominet, 0, Seed(1), &mut Vec::new(), &mut |_| {}).unwrap_err();
    assert!(error.to_string().contains("give a number"), "{error}");
}

#[test]
fn a_zone_too_small_for_its_names_is_refused() {
    let error =
        generate(Profile::load("ROOT").unwrap(), 3, Seed(1), &mut Vec::new(), &mut |_| {}).unwrap_err();
    assert!(error.to_string().contains("names 9 (au, cn, com,"), "{error}");
    let mut bad = Profile::load("PT").unwrap();
    bad.glue.aaaa = 2.0;
    let error = generate(bad, 100, Seed(1), &mut Vec::new(), &mut |_| {}).unwrap_err();
    assert!(error.to_string().contains("glue.aaaa: 2 is not a share"), "{error}");
}

/// As in `generate::golden_zones_never_change`.
#[test]
fn golden_profiles_never_change() {
    let hash = |family: Family| {
        let mut text = Vec::new();
        generate(family, 9000, Seed(42), &mut text, &mut |_| {}).unwrap();
        format!("{family} {}", &sha256(&text)[..32])
    };
    assert_eq!([Family::Com, Family::Pt, Family::Root, Family::Nominet].map(hash), GOLDEN);
}

const GOLDEN: [&str; 4] = [
    "COM 6fd2a76541248bde65ba902af5eb5b97",
    "PT c845ed27ace5496fd7f0bfaad6df33a3",
    "ROOT ab8dc1acf05a2b379b215628cc023a19",
    "NOMINET c7a109f3a24449d949937de82b026213",
];
