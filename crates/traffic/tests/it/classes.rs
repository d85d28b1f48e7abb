//! Classes of clients, popular names, and what else goes together in real traffic.

use crate::{profile, take, write, zone};
use measure::Seed;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;
use traffic::clients::Clients;
use traffic::{Lists, Profile, ProfileChanges, Query, SourceSpec, Synthesis, Tally, Want};
use wire::{header::Header, name, name::Name, question, rtype};

const COUNT: usize = 100_000;

const CLASSES: &str = r#"about = "two kinds of clients"
[edns.sizes]
4096 = 1
[names]
nonexistent = 0.25
below = [1, 1]
[types]
A = 1
[types-nonexistent]
PTR = 1
[packets]
df = 0.5
[[class]]            # modern
share = 3
count = 100
edns = 1
do = 0.5
sizes = { 1232 = 3, 512 = 1 }
rd = 0.2
[[class]]            # old
share = 1
count = 10
zipf = 0
ipv6 = 0.5
nonexistent = 0.75
df = 0
[[class]]
share = 1
edns = 0.5
"#;

/// Six standard deviations of a share's count, and one for rounding.
fn near(count: usize, of: usize, share: f64) -> bool {
    let n = of as f64;
    (count as f64 - n * share).abs() <= 6.0 * (n * share * (1.0 - share)).sqrt() + 1.0
}

fn spec(folder: &Path, text: &str, changes: ProfileChanges) -> SourceSpec {
    let path = write(folder, "profile.toml", text);
    let SourceSpec::Profile(spec) = profile(path.to_str().unwrap(), zone(folder, 50), 1) else {
        unreachable!()
    };
    SourceSpec::Profile(traffic::ProfileSpec { changes, ..spec })
}

fn edns(query: &Query) -> Option<(u16, bool)> {
    let opt = &query.bytes[question::end(&query.bytes).unwrap()..];
    (!opt.is_empty()).then(|| (u16::from_be_bytes([opt[3], opt[4]]), opt[7] & 0x80 != 0))
}

#[test]
fn what_clients_of_a_class_do_goes_together() {
    let folder = tempfile::tempdir().unwrap();
    let spec = spec(folder.path(), CLASSES, ProfileChanges::default());
    let queries = take(&mut *spec.open(0, 1).unwrap(), COUNT);
    let parsed = Profile::parse(CLASSES, "p").unwrap();
    let mut clients = Clients::new(&parsed, Seed(1)).unwrap();
    let mut of_class: [Vec<&Query>; 3] = Default::default();
    let mut addresses: [HashSet<IpAddr>; 3] = Default::default();
    for query in &queries {
        let sender = clients.sender(query.index);
        let class = usize::from(sender.class);
        of_class[class].push(query);
        addresses[class].insert(clients.address(&sender).ip());
        assert_eq!(query.ipv6, Some(sender.ipv6));
    }
    for (n, share) in [0.6, 0.2, 0.2].into_iter().enumerate() {
        assert!(near(of_class[n].len(), COUNT, share), "class {n}: {}", of_class[n].len());
    }
    // What is not said is as for all.
    type Is = fn(&Query) -> bool;
    let kinds: [(&str, Is); 7] = [
        ("EDNS", |q| edns(q).is_some()),
        ("DO", |q| edns(q).is_some_and(|e| e.1)),
        ("nonexistent", |q| q.nonexistent),
        ("RD", |q| Header::new(&q.bytes).unwrap().rd()),
        ("DF", |q| q.df),
        ("IPv6", |q| q.ipv6 == Some(true)),
        ("1232", |q| edns(q).is_some_and(|e| e.0 == 1232)),
    ];
    let shares = [
        [1.0, 0.5, 0.25, 0.2, 0.5, 0.0, 0.75],
        [0.0, 0.0, 0.75, 0.0, 0.0, 0.5, 0.0],
        [0.5, 0.0, 0.25, 0.0, 0.5, 0.0, 0.0],
    ];
    for (n, (queries, shares)) in of_class.iter().zip(shares).enumerate() {
        for ((what, is), share) in kinds.iter().zip(shares) {
            let count = queries.iter().filter(|q| is(q)).count();
            assert!(near(count, queries.len(), share), "class {n}, {what}: {count} of {}", queries.len());
        }
    }
    // Each class has its own clients.
    assert!(addresses[0].len() <= 100 && addresses[1].len() <= 20 && addresses[2].len() == 1);
    let together: HashSet<_> = addresses.iter().flatten().collect();
    assert_eq!(together.len(), addresses.iter().map(HashSet::len).sum::<usize>());
    // Types go with hit and miss.
    for query in &queries {
        let expected = if query.nonexistent { rtype::PTR } else { rtype::A };
        assert_eq!(question::parse(&query.bytes).unwrap().qtype, expected);
    }
}

#[test]
fn workers_share_the_stream_of_classes() {
    let folder = tempfile::tempdir().unwrap();
    let spec = spec(folder.path(), CLASSES, ProfileChanges::default());
    let one = take(&mut *spec.open(0, 1).unwrap(), 12_000);
    let mut all: Vec<Query> =
        spec.open_all(3).unwrap().iter_mut().flat_map(|s| take(&mut **s, 4_000)).collect();
    all.sort_by_key(|q| q.index);
    assert_eq!(all, one);
    assert_eq!(
        take(&mut *spec.open(2, 3).unwrap(), 4),
        [&one[2], &one[5], &one[8], &one[11]].map(Clone::clone)
    );
}

#[test]
fn a_change_is_one_of_all_classes() {
    let folder = tempfile::tempdir().unwrap();
    let changed = |changes: ProfileChanges| {
        let mut profile = Profile::parse(CLASSES, "p").unwrap();
        changes.apply(&mut profile).map(|()| profile.classes)
    };
    let shares = ProfileChanges {
        edns: Some(1.0),
        do_bit: Some(1.0),
        nonexistent: Some(0.5),
        ipv6: Some(0.1),
        clients: Some("220:0.5".parse().unwrap()),
        ..ProfileChanges::default()
    };
    let classes = changed(shares.clone()).unwrap();
    assert!(
        classes
            .iter()
            .all(|c| (c.edns, c.do_bit, c.nonexistent, c.ipv6, c.zipf) == (1.0, 1.0, 0.5, 0.1, 0.5))
    );
    // As they were divided before: 100, 10 and 1.
    assert_eq!(classes.iter().map(|c| c.clients).collect::<Vec<_>>(), [198, 20, 2]);
    let mut tally = Tally::default();
    let mut source = spec(folder.path(), CLASSES, shares).open(0, 1).unwrap();
    take(&mut *source, 1000).iter().for_each(|q| tally.add(q));
    assert_eq!((tally.edns, tally.do_bit), (1000, 1000));
    let crowd =
        |text: &str| ProfileChanges { clients: Some(text.parse().unwrap()), ..ProfileChanges::default() };
    assert!(changed(crowd("1")).unwrap().iter().all(|c| c.clients == 1));
    let error = |changes| changed(changes).unwrap_err().to_string();
    assert!(
        error(ProfileChanges { edns: Some(0.25), ..ProfileChanges::default() })
            .contains("only 0.25 of the queries")
    );
    let addresses = ProfileChanges { addresses: Some("a".into()), ..ProfileChanges::default() };
    assert!(error(addresses).contains("3 classes of clients"));
}

#[test]
fn addresses_of_a_file_send_by_their_weights() {
    let folder = tempfile::tempdir().unwrap();
    let file = write(
        folder.path(),
        "addresses",
        "# querygen's\n192.0.2.1 5\n 198.51.100.7\t0.5\n\n2001:db8::1 2\n192.0.2.9\n2001:db8::1 1.5\n",
    );
    let text = "about = \"a\"\n[types]\nA = 1\n[clients]\naddresses = \"addresses\"\n";
    let path = write(folder.path(), "p.toml", text);
    let by_flag = ProfileChanges { addresses: Some(file), ..ProfileChanges::default() };
    let mut changed = Profile::load("isc").unwrap();
    by_flag.apply(&mut changed).unwrap();
    let loaded = Profile::load(path.to_str().unwrap()).unwrap();
    for profile in [&loaded, &changed] {
        let mut clients = Clients::new(profile, Seed(1)).unwrap();
        let mut hits = HashMap::new();
        for index in 0..COUNT as u64 {
            let sender = clients.sender(index);
            let ip = clients.address(&sender).ip();
            assert_eq!(sender.ipv6, ip.is_ipv6());
            *hits.entry(ip).or_insert(0usize) += 1;
        }
        assert_eq!(hits.len(), 4);
        for (ip, weight) in
            [("192.0.2.1", 5.0), ("198.51.100.7", 0.5), ("2001:db8::1", 3.5), ("192.0.2.9", 1.0)]
        {
            let got = hits[&ip.parse::<IpAddr>().unwrap()];
            assert!(near(got, COUNT, weight / 10.0), "{ip}: {got}");
        }
    }
    let refused = |lines: &str| {
        write(folder.path(), "addresses", lines);
        let error = Clients::new(&loaded, Seed(1)).expect_err(lines).to_string();
        error.replace(&folder.path().display().to_string(), "F")
    };
    assert_eq!(
        [refused("192.0.2.1\nfoo 1\n"), refused("::1 -1\n"), refused("\n ::1  x\n"), refused("#\n")],
        [
            "F/p.toml:5:13: F/addresses:2:1: 'foo' is no address: expected 'ADDRESS WEIGHT'",
            "F/p.toml:5:13: F/addresses:1:5: '-1' is no weight: give a number above 0, up to 1e15",
            "F/p.toml:5:13: F/addresses:2:7: 'x' is no weight: give a number above 0, up to 1e15",
            "F/p.toml:5:13: F/addresses: no address in it: every line is blank or a comment",
        ]
    );
}

/// The name's labels at its end, so many.
fn end(query: &Query, labels: usize) -> String {
    let mut name = question::parse(&query.bytes).unwrap().qname;
    while name::label_count(name) > labels {
        name = name::parent(name);
    }
    Name::from_wire(name).unwrap().to_string()
}

fn synthesis(profile: &Profile, folder: &Path) -> Synthesis {
    let zone = zone(folder, 50);
    let lists = Lists::open(&[traffic::NameList::new(zone)], Seed(1), Want::Names, &mut |_| {}).unwrap();
    Synthesis::new(profile, Arc::new(lists), Seed(1), 0, 1).unwrap()
}

#[test]
fn popular_names_have_their_shares() {
    let folder = tempfile::tempdir().unwrap();
    let text = r#"about = "popular"
[names]
nonexistent = 0.5
below = [1, 3]
below-nonexistent = [1, 1]
[names.popular]
"D7." = 0.3
"." = 0.1
"www.d8" = 0.05
"gone." = 0.2
[names.popular-nonexistent]
"local." = 0.4
"home.arpa" = 0.1
"d9." = 0.1
[names.lengths]
7 = 1
63 = 3
[types]
A = 1
"#;
    let mut source = synthesis(&Profile::parse(text, "p").unwrap(), folder.path());
    let left: BTreeMap<String, bool> =
        source.left_out().iter().map(|left| (left.name.to_string(), left.exist)).collect();
    assert_eq!(left, [("gone.".to_owned(), true), ("d9.".to_owned(), false)].into());
    let queries = take(&mut source, COUNT);
    let (misses, hits): (Vec<&Query>, Vec<&Query>) = queries.iter().partition(|q| q.nonexistent);
    assert!(near(misses.len(), COUNT, 0.5));
    let count = |of: &[&Query], labels: usize, name: &str| {
        of.iter().filter(|q| end(q, labels).eq_ignore_ascii_case(name)).count()
    };
    // What the lists draw may be a popular name too: one in fifty of the 55 % left.
    assert!(near(count(&hits, 1, "d7."), hits.len(), 0.3 + 0.55 / 50.0));
    assert!(near(count(&hits, 1, "."), hits.len(), 0.1));
    assert!(near(count(&hits, 1, "d8."), hits.len(), 0.05 + 0.55 / 50.0));
    assert_eq!(count(&hits, 1, "gone."), 0);
    let www = hits.iter().filter(|q| end(q, 9) == "www.d8.").count();
    assert!(near(www, hits.len(), 0.05), "no label goes before it: {www}");
    // Labels go before a popular delegation as before others.
    let d7 = hits.iter().filter(|q| end(q, 1).eq_ignore_ascii_case("d7.")).count();
    let with =
        hits.iter().filter(|q| end(q, 1).eq_ignore_ascii_case("d7.") && end(q, 2) != end(q, 1)).count();
    assert!(near(with, d7, 0.75), "{with} of {d7}");
    assert!(near(count(&misses, 1, "local."), misses.len(), 0.4));
    assert!(near(count(&misses, 2, "home.arpa."), misses.len(), 0.1));
    assert_eq!(count(&misses, 1, "d9."), 0);
    let made: Vec<usize> =
        misses.iter().map(|q| end(q, 1).len() - 1).filter(|n| ![4, 5].contains(n)).collect();
    assert!(near(made.len(), misses.len(), 0.5) && made.iter().all(|n| [7, 63].contains(n)));
    assert!(near(made.iter().filter(|n| **n == 7).count(), made.len(), 0.25));
}

#[test]
fn names_have_their_shapes() {
    let folder = tempfile::tempdir().unwrap();
    let text = "about = \"b\"\n[types]\nA = 1\n[names]\nnonexistent = 0.5\n[names.shapes]\nnone = 2\n1-40 = 1\n3 = 1\n\
                [names.shapes-nonexistent]\n9 = 5\n2-5 = 4\n5 = 1\n[names.popular-nonexistent]\n\"local.\" = 0.25\n\"six666.\" = 0.1\n";
    let queries = take(&mut synthesis(&Profile::parse(text, "p").unwrap(), folder.path()), 40_000);
    let (mut hits, mut misses, mut local) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
    for query in &queries {
        let asked = question::parse(&query.bytes).unwrap();
        let labels: Vec<&[u8]> = name::labels(asked.qname).collect();
        let mut lengths: Vec<usize> = labels.iter().map(|label| label.len()).collect();
        if query.nonexistent {
            if labels.last().unwrap().eq_ignore_ascii_case(b"local") {
                *local.entry(lengths.clone()).or_insert(0) += 1;
            }
            *misses.entry(lengths).or_insert(0) += 1;
        } else {
            // The delegation itself.
            lengths.pop();
            *hits.entry(lengths).or_insert(0) += 1;
        }
    }
    let sum = |counts: &BTreeMap<Vec<usize>, usize>| counts.values().sum::<usize>();
    let (n, m) = (sum(&hits), sum(&misses));
    for (lengths, share) in [(vec![], 0.5), (vec![1, 40], 0.25), (vec![3], 0.25)] {
        assert!(near(hits[&lengths], n, share), "{lengths:?}");
    }
    // The popular one of six octets has a shape of its own: a tenth of all.
    for (lengths, share) in [(vec![9], 0.45), (vec![2, 5], 0.36), (vec![5], 0.09), (vec![6], 0.1)] {
        assert!(near(misses[&lengths], m, share), "{lengths:?}: {misses:?}");
    }
    // Labels go before the popular one as before others of its length.
    assert!(near(sum(&local), m, 0.25) && near(local[&vec![2, 5]], sum(&local), 0.8), "{local:?}");
    assert_eq!(local.len(), 2);
}

#[test]
fn classes_ask_over_tcp() {
    let folder = tempfile::tempdir().unwrap();
    let text = "about = \"b\"\n[types]\nA = 1\n[packets]\ndf = 1\n[[class]]\nshare = 3\ncount = 50\ntcp = 0.1\n\
                [[class]]\nshare = 1\ncount = 50\nedns = 1\nsizes = { 512 = 1 }\ntcp = 0.9\n";
    let queries = take(&mut synthesis(&Profile::parse(text, "p").unwrap(), folder.path()), 20_000);
    let with_opt = |query: &&Query| query.bytes[11] == 1;
    let tcp = |queries: &[&Query]| queries.iter().filter(|q| q.tcp).count();
    let (with, without): (Vec<&Query>, Vec<&Query>) = queries.iter().partition(with_opt);
    assert!(near(tcp(&with), with.len(), 0.9) && near(tcp(&without), without.len(), 0.1));
    assert!(queries.iter().all(|q| q.tcp != q.df && q.client.is_some() == q.tcp));
}

#[test]
fn profiles_without_popular_names_ask_as_before() {
    let folder = tempfile::tempdir().unwrap();
    let mut profile = Profile::load("rzaia").unwrap();
    let plain = take(&mut synthesis(&profile, folder.path()), 10_000);
    profile.popular.insert("d1.".parse().unwrap(), 0.5);
    let popular = take(&mut synthesis(&profile, folder.path()), 10_000);
    let same = plain.iter().zip(&popular).filter(|(a, b)| a == b).count();
    assert!(near(same, 10_000, 0.3 + 0.7 * 0.51), "all but those for the popular name: {same}");
    assert!(plain.iter().zip(&popular).all(|(a, b)| a.nonexistent == b.nonexistent && a.df == b.df));
}
