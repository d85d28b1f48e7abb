//! Fit, generate, fit again: the profile comes back within sampling error.
//!
//! A generated query is drawn alone, so every share of queries is binomial: six standard deviations, and one query for
//! rounding, are the bounds, unless a test says otherwise.

use crate::captures::{plain, real};
use measure::clock::SECOND;
use measure::{Nanos, Seed};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use trace::fit::{Error, Fitted, fit};
use trace::write::{Route, SERVER_V4, SERVER_V6, Writer};
use traffic::Port;
use traffic::clients::Clients;
use traffic::{Found, Law, Lists, NameList, Names, Profile, Query, QuerySource, Synthesis, Want};
use wire::{header, name::Name, question, rtype};

fn names(zone: &Path) -> Names {
    Names::from_zone(zone, Seed(1), Want::Names, &mut |_| {}).unwrap()
}

/// A capture of so many queries of a profile over a zone; with answers as the zone's server would give them, as far as they
/// say which names exist.
fn generate(path: &Path, profile: &Profile, zone: &Path, count: u64, seed: u64, answers: bool) {
    let lists = Lists::open(&[NameList::new(zone)], Seed(1), Want::Names, &mut |_| {}).unwrap();
    let known = names(zone);
    let mut source = Synthesis::new(profile, Arc::new(lists), Seed(seed), 0, 1).unwrap();
    let mut clients = Clients::new(profile, Seed(seed)).unwrap();
    let mut writer = Writer::new(BufWriter::new(File::create(path).unwrap())).unwrap();
    let mut query = Query::default();
    let times = profile.law.arrivals(profile.rate().unwrap_or(5000.0), Seed(seed)).times();
    for (_, at) in (0..count).zip(times) {
        assert!(source.next(&mut query).unwrap());
        let (from, id) = clients.get(&query);
        let to = if from.is_ipv4() { (SERVER_V4, 53).into() } else { (SERVER_V6, 53).into() };
        let at: Nanos = 1_000_000_000 * SECOND + at;
        writer.write(at, Route { from, to, id }, &query).unwrap();
        if answers {
            query.bytes = answer(&query.bytes, &known);
            writer.write(at, Route { from: to, to: from, id }, &query).unwrap();
        }
    }
}

/// What a server of the zone answers: a referral, a denial, or that there is no such type.
fn answer(query: &[u8], zone: &Names) -> Vec<u8> {
    let asked = question::parse(query).unwrap();
    let Found { octets, exists, cut } = zone.locate(asked.qname).unwrap();
    let mut out = query[..question::end(query).unwrap()].to_vec();
    header::set_qr(&mut out);
    out[8..12].copy_from_slice(&[0, 1, 0, 0]);
    let whole = octets == asked.qname.len();
    let at = if !exists || !cut || whole && asked.qtype == rtype::DS {
        out[3] |= if exists { 0 } else { 3 };
        let origin = 12 + asked.qname.len() - zone.origin().len();
        (origin, rtype::SOA)
    } else {
        (12 + asked.qname.len() - octets, rtype::NS)
    };
    out.extend_from_slice(&(0xc000 | at.0 as u16).to_be_bytes());
    out.extend_from_slice(&at.1.to_be_bytes());
    out.extend_from_slice(&[0, 1, 0, 0, 0, 60, 0, 1, 0]);
    out
}

fn fitted(capture: &Path, zone: Option<&Names>) -> Fitted {
    fit(&[capture.to_owned()], &[53], zone, "a test", &mut |_| {}).unwrap()
}

/// How a query uses EDNS, and whether it is a hit.
type Cell = (bool, Option<(u16, bool)>, bool);

/// The shares of queries by family, EDNS and miss that a profile asks for.
fn joint(profile: &Profile) -> BTreeMap<Cell, f64> {
    let total: f64 = profile.classes.iter().map(|c| c.share).sum();
    let mut cells = BTreeMap::new();
    for class in &profile.classes {
        let with_do = if class.edns_sizes_do.is_empty() { &class.edns_sizes } else { &class.edns_sizes_do };
        let mut manners = vec![(None, 1.0 - class.edns)];
        for (sizes, do_bit, share) in
            [(&class.edns_sizes, false, class.edns - class.do_bit), (with_do, true, class.do_bit)]
        {
            let sum: f64 = sizes.values().sum();
            manners.extend(sizes.iter().map(|(&size, w)| (Some((size, do_bit)), share * w / sum)));
        }
        for (manner, share) in manners {
            for (v6, of_v6) in [(false, 1.0 - class.ipv6), (true, class.ipv6)] {
                for (miss, of_miss) in [(false, 1.0 - class.nonexistent), (true, class.nonexistent)] {
                    *cells.entry((v6, manner, miss)).or_default() +=
                        class.share / total * share * of_v6 * of_miss;
                }
            }
        }
    }
    cells
}

/// The cells added up by what is left of their keys.
fn by<K: Ord>(cells: &BTreeMap<Cell, f64>, key: impl Fn(&Cell) -> K) -> BTreeMap<K, f64> {
    let mut sums = BTreeMap::new();
    cells.iter().for_each(|(cell, share)| *sums.entry(key(cell)).or_default() += share);
    sums
}

fn normal<K: Ord + Clone>(weights: &BTreeMap<K, f64>) -> BTreeMap<K, f64> {
    let sum: f64 = weights.values().sum();
    weights.iter().map(|(key, weight)| (key.clone(), weight / sum)).collect()
}

/// Shares of `n` queries: those found are those expected, within six standard deviations and `more`.
fn assert_shares<K: Ord + std::fmt::Debug>(
    what: &str,
    expected: &BTreeMap<K, f64>,
    found: &BTreeMap<K, f64>,
    n: f64,
    more: f64,
) {
    for key in expected.keys().chain(found.keys()) {
        let share_in = |shares: &BTreeMap<K, f64>| shares.get(key).copied().unwrap_or(0.0);
        let (e, f) = (share_in(expected), share_in(found));
        let bound = 6.0 * (e * (1.0 - e) / n).sqrt() + 1.0 / n + 2e-5 + more;
        assert!((e - f).abs() <= bound, "{what} {key:?}: {f}, expected {e} ± {bound} (of {n})");
    }
}

/// Weights of the numbers of labels before those of the zone, nine and more together.
fn by_count(profile: &Profile, misses: bool) -> BTreeMap<usize, f64> {
    let shapes = if misses { &profile.shapes_nonexistent } else { &profile.shapes };
    let mut sums: BTreeMap<usize, f64> = BTreeMap::new();
    for (shape, weight) in shapes {
        *sums.entry(shape.lengths().len().min(9)).or_default() += weight;
    }
    normal(&sums)
}

/// Weights of the lengths of the last of these labels, 16 and more octets together.
fn by_length(profile: &Profile, misses: bool) -> BTreeMap<usize, f64> {
    let shapes = if misses { &profile.shapes_nonexistent } else { &profile.shapes };
    let mut sums: BTreeMap<usize, f64> = BTreeMap::new();
    for (shape, weight) in shapes {
        *sums.entry(shape.lengths().last().map_or(0, |&length| usize::from(length.min(16)))).or_default() +=
            weight;
    }
    normal(&sums)
}

fn mean(profile: &Profile, of: impl Fn(&traffic::Class) -> f64) -> BTreeMap<(), f64> {
    [((), profile.mean(of))].into()
}

/// That a profile came back from `n` queries over `zone`. `within`: how much more than by chance a cell of family, EDNS and
/// miss may be off where classes mix such clients.
fn assert_same(expected: &Profile, found: &Fitted, zone: &Names, n: f64, within: f64) {
    let got = &found.profile;
    let (cells, other) = (joint(expected), joint(got));
    assert_shares("EDNS", &by(&cells, |c| (c.0, c.1)), &by(&other, |c| (c.0, c.1)), n, 0.0);
    assert_shares("misses", &by(&cells, |c| c.2), &by(&other, |c| c.2), n, 0.0);
    assert_shares("cells", &cells, &other, n, within);
    assert_shares("RD", &mean(expected, |c| c.rd), &mean(got, |c| c.rd), n, 0.0);
    assert_shares("TCP", &mean(expected, |c| c.tcp), &mean(got, |c| c.tcp), n, 0.0);
    let df = |c: &traffic::Class| c.df * (1.0 - c.ipv6);
    assert_shares("DF", &mean(expected, df), &mean(got, df), n, 0.0);
    let misses = expected.mean(|c| c.nonexistent);
    let (of_hits, of_misses) = (n * (1.0 - misses), n * misses);
    // Labels go below delegations, not below the apex.
    let apex = expected.popular.get(&Name::root()).copied().unwrap_or(0.0);
    let bare = by_count(expected, false).get(&0).copied().unwrap_or(0.0);
    let itself = apex + (1.0 - apex) * bare;
    let below = if itself < 1.0 { 1.0 - itself } else { 1.0 };
    assert_shares("types", &normal(&expected.types), &normal(&got.types), of_hits * below, 0.0);
    if !got.types_itself.is_empty() {
        let types = if expected.types_itself.is_empty() { &expected.types } else { &expected.types_itself };
        assert_shares("types of names", &normal(types), &normal(&got.types_itself), of_hits * itself, 0.0);
    }
    let types =
        if expected.types_nonexistent.is_empty() { &expected.types } else { &expected.types_nonexistent };
    assert_shares("types of misses", &normal(types), &normal(&got.types_nonexistent), of_misses, 0.0);
    // What a name has no room for it loses from the left, and what is rare is known from a sample.
    for (what, was, is, of) in [
        ("shapes", by_count(expected, false), by_count(got, false), of_hits * (1.0 - apex)),
        ("shapes of misses", by_count(expected, true), by_count(got, true), of_misses),
        ("lengths", by_length(expected, false), by_length(got, false), of_hits * (1.0 - apex)),
        ("lengths of misses", by_length(expected, true), by_length(got, true), of_misses),
    ] {
        assert_shares(what, &was, &is, of, if expected.shapes.len() > 400 { 0.01 } else { 0.0 });
    }
    // The other names are drawn among all of the zone, and hit popular ones too.
    let rest = 1.0 - expected.popular.values().sum::<f64>();
    for (name, &share) in &expected.popular {
        let hit = if name.as_wire().len() > 1 { rest / zone.len() as f64 } else { 0.0 };
        let share = share + hit;
        let Some(&found) = got.popular.get(name) else {
            assert!(share * of_hits < 100.0 || share < 3.0 * hit, "{name} is missing: {share}");
            continue;
        };
        assert_shares(&name.to_string(), &[((), share)].into(), &[((), found)].into(), of_hits, 0.0);
    }
    for (name, &share) in &expected.popular_nonexistent {
        let Some(&found) = got.popular_nonexistent.get(name) else {
            assert!(share * of_misses < 100.0, "{name} is missing: {share}");
            continue;
        };
        assert_shares(&name.to_string(), &[((), share)].into(), &[((), found)].into(), of_misses, 0.0);
    }
    assert_eq!(std::mem::discriminant(&expected.law), std::mem::discriminant(&got.law));
    let rates = (expected.rate().unwrap(), found.sample.rate.unwrap());
    assert!((rates.0 / rates.1 - 1.0).abs() < 6.0 / n.sqrt(), "{rates:?}");
}

/// A zone with `count` delegations whose names no draw makes.
fn zone(folder: &Path, count: usize) -> PathBuf {
    let mut text = ". 60 IN SOA a. b. 1 2 3 4 5\n. 60 IN NS ns.d0x.\n".to_owned();
    (0..count).for_each(|n| text += &format!("d{n}x. 60 IN NS ns.d{n}x.\n"));
    let path = folder.join("zone");
    std::fs::write(&path, text).unwrap();
    path
}

const PROFILE: &str = r#"about = "three kinds of clients"
[names]
[names.shapes]
none = 1
3 = 2
12 = 2
3-12 = 1
12-3-3 = 1
[names.shapes-nonexistent]
8 = 2
9 = 4
20 = 2
5 = 1
3-5 = 2
12-9 = 1
[names.popular]
"d1x." = 0.3
"." = 0.05
"d2x." = 0.1
[names.popular-nonexistent]
"local." = 0.25
[types]
A = 5
NS = 1
DS = 2
[types-nonexistent]
PTR = 2
A = 1
[packets]
no-checksum = 0.01
bad-checksum = 0.02
[clients.ports]
random = 6
own = 3
53 = 1
[arrivals]
law = "poisson"
rate = 2000
[[class]]
share = 5
count = 800
zipf = 0.9
edns = 1
do = 1
sizes = { 4096 = 1 }
nonexistent = 0.2
df = 0.25
tcp = 0.01
[[class]]
share = 3
count = 60
zipf = 0.5
nonexistent = 0.9
rd = 0.5
[[class]]
share = 2
count = 300
zipf = 0
ipv6 = 1
edns = 1
sizes = { 1232 = 1 }
nonexistent = 0.5
tcp = 1
"#;

#[test]
fn a_generated_trace_gives_its_profile_back() {
    const COUNT: u64 = 60_000;
    let folder = tempfile::tempdir().unwrap();
    let file = zone(folder.path(), 400);
    let known = names(&file);
    let (first, second) = (folder.path().join("1.pcap"), folder.path().join("2.pcap"));
    let profile = Profile::parse(PROFILE, "p").unwrap();
    generate(&first, &profile, &file, COUNT, 1, false);
    let once = fitted(&first, Some(&known));
    assert_same(&profile, &once, &known, COUNT as f64, 0.0);
    // What was put in comes out: the classes, ...
    let classes: Vec<_> = once.profile.classes.iter().map(|c| (c.ipv6, c.edns, c.do_bit)).collect();
    assert_eq!(classes, [(0.0, 1.0, 1.0), (0.0, 0.0, 0.0), (1.0, 1.0, 0.0)]);
    for (was, is) in profile.classes.iter().zip(&once.profile.classes) {
        let off = f64::from(is.clients) / f64::from(was.clients);
        assert!((0.85..1.15).contains(&off), "{} clients, {}", is.clients, was.clients);
        assert!((was.zipf - is.zipf).abs() < 0.1, "{} {}", was.zipf, is.zipf);
    }
    // ... the lengths and checksums, ...
    let n = COUNT as f64;
    assert_eq!(once.profile.shapes.len(), profile.shapes.len());
    let sums = |p: &Profile| [(false, p.no_checksum), (true, p.bad_checksum)].into();
    assert_shares("checksums", &sums(&profile), &sums(&once.profile), n, 0.0);
    // ... and the ports, of clients.
    let clients: f64 = once.profile.ports.values().sum();
    assert_shares("ports", &normal(&profile.ports), &normal(&once.profile.ports), clients, 0.0);
    assert!(once.profile.ports.contains_key(&Port::Number(53)));
    assert_eq!((once.sample.queries, once.sample.neither, once.sample.left_out.sum()), (COUNT, 0, 0));
    // Again.
    generate(&second, &once.profile, &file, COUNT, 2, false);
    let twice = fitted(&second, Some(&known));
    assert_same(&once.profile, &twice, &known, n, 0.0);
    let clients = (once.sample.clients as f64, twice.sample.clients as f64);
    assert!((clients.0 - clients.1).abs() < 6.0 * clients.0.sqrt(), "{clients:?}");
    // What is written is read as the same, warnings and all.
    let mut read = Profile::parse(&twice.to_toml(), "p").unwrap();
    assert_eq!(read, twice.profile);
    read.law = Law::Even;
    assert_ne!(read, twice.profile);
}

#[test]
fn answers_say_what_the_zone_says() {
    let folder = tempfile::tempdir().unwrap();
    let file = zone(folder.path(), 400);
    let known = names(&file);
    let capture = folder.path().join("answered.pcap");
    let mut profile = Profile::parse(PROFILE, "p").unwrap();
    // Here an answer would be a connection of its own.
    profile.classes.iter_mut().for_each(|class| class.tcp = 0.0);
    // Responses have their queries' checksums here, and servers drop what has a wrong one; not of interest here.
    generate(&capture, &profile, &file, 20_000, 3, true);
    let (by_answers, by_zone) = (fitted(&capture, None), fitted(&capture, Some(&known)));
    assert_eq!(by_answers.profile, by_zone.profile);
    let sample = &by_answers.sample;
    assert_eq!((sample.answered, sample.unanswered, sample.neither), (20_000, 0, 0));
    assert_eq!(sample.hits + sample.misses, 20_000);
    let codes: Vec<&str> = by_answers.warnings.iter().map(|w| w.code.as_str()).collect();
    assert_eq!(codes, ["clients_of_one_net"], "all are within 10.0.0.0/8");
}

#[test]
fn what_a_capture_cannot_tell_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let file = zone(folder.path(), 10);
    let capture = folder.path().join("queries.pcap");
    let mut profile = Profile::load("isc").unwrap();
    profile.ports = [(Port::Number(4000), 1.0)].into();
    profile.bad_checksum = 0.5;
    // Without answers nobody can tell which types were asked for names that do not exist.
    profile.types_nonexistent.clear();
    generate(&capture, &profile, &file, 2_000, 1, false);
    let codes = |found: &Fitted| found.warnings.iter().map(|w| w.code.clone()).collect::<Vec<_>>();
    let found = fitted(&capture, None);
    assert_eq!(
        codes(&found),
        ["hits_unknown", "checksums_bad", "clients_of_one_net", "one_source_port", "few_queries"]
    );
    assert_eq!((found.sample.hits, found.sample.misses, found.sample.unanswered), (0, 0, 2_000));
    assert_eq!((found.profile.bad_checksum, found.profile.classes[0].nonexistent), (0.0, 0.0));
    assert!(found.profile.popular.is_empty() && found.profile.types_nonexistent.is_empty());
    assert_shares("types", &normal(&profile.types), &normal(&found.profile.types), 2_000.0, 0.0);
    assert!(found.to_toml().starts_with("# there are no answers in the capture"), "{}", found.to_toml());
    // With a snap length, and of responses alone.
    let mut bytes = std::fs::read(&capture).unwrap();
    let (mut at, mut cut) = (24, bytes[..24].to_vec());
    while let Some(record) = bytes.get_mut(at..at + 16) {
        let length = u32::from_le_bytes(record[8..12].try_into().unwrap()) as usize;
        record[8..12].copy_from_slice(&56u32.to_le_bytes());
        cut.extend_from_slice(record);
        cut.extend_from_slice(&bytes[at + 16..at + 16 + 56]);
        at += 16 + length;
    }
    let short = folder.path().join("short.pcap");
    std::fs::write(&short, cut).unwrap();
    let error = fit(&[short], &[53], None, "", &mut |_| {}).unwrap_err();
    assert!(matches!(error, Error::Nothing { messages: 2_000, responses: 0, left_out: 2_000 }), "{error}");
}

/// The root zone that lies beside the project; loudly none where it is absent.
fn root_zone(folder: &Path) -> Option<PathBuf> {
    let packed =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/root-zone/root-2026082000.zone.xz");
    if !packed.exists() {
        eprintln!("SKIPPED: no root zone in ../shared/data/root-zone");
        return None;
    }
    let path = folder.join("root");
    let xz = Command::new("xz").arg("-dc").arg(packed).stdout(File::create(&path).unwrap()).status();
    assert!(xz.expect("xz, of xz-utils").success());
    Some(path)
}

#[test]
fn a_real_trace_gives_its_profile_back() {
    let folder = tempfile::tempdir().unwrap();
    let live = real().into_iter().find(|p| p.to_str().is_some_and(|p| p.contains("nsd-live")));
    let (Some(live), Some(root)) = (live, root_zone(folder.path())) else { return };
    let known = names(&root);
    let live = fitted(plain(&live).path(), None);
    assert!(
        live.profile.classes.len() >= 5 && live.profile.classes.len() <= 12,
        "{}",
        live.profile.classes.len()
    );
    assert!(live.sample.misses * 10 > (live.sample.hits + live.sample.misses) * 6, "{:?}", live.sample);
    // The server had more zones than the root, and the root has other names now: what was cut elsewhere then is left out.
    let mut profile = live.profile.clone();
    profile
        .popular
        .retain(|name, _| known.locate(name.as_wire()).is_some_and(|f| f.exists) && name.label_count() < 2);
    profile.popular_nonexistent.retain(|name, _| known.locate(name.as_wire()).is_some_and(|f| !f.exists));
    let again = folder.path().join("again.pcap");
    // As many as there were, so that as many clients are to be seen.
    generate(&again, &profile, &root, live.sample.queries, 1, false);
    let found = fitted(&again, Some(&known));
    assert_same(&profile, &found, &known, live.sample.queries as f64, 0.01);
    let clients = (live.sample.clients as f64, found.sample.clients as f64);
    assert!((clients.0 - clients.1).abs() < 6.0 * clients.0.sqrt(), "{clients:?}");
    // And many more, so that chance hides little.
    const COUNT: u64 = 200_000;
    generate(&again, &profile, &root, COUNT, 2, false);
    let found = fitted(&again, Some(&known));
    assert_same(&profile, &found, &known, COUNT as f64, 0.01);
    assert!(found.profile.popular_nonexistent[&"local.".parse().unwrap()] > 0.1, "as in the trace: .local");
}
