//! Names of several weighted lists.

use crate::{take, write, zone};
use measure::Seed;
use proptest::prelude::*;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use traffic::{
    Error, Lists, NameList, Order, Profile, ProfileChanges, ProfileSpec, Query, SourceSpec, Tally, Want,
};
use wire::{name, question, rtype};

fn weighted(file: PathBuf, weight: f64) -> NameList {
    NameList { weight, ..NameList::new(file) }
}

fn spec(profile: &str, names: Vec<NameList>, changes: ProfileChanges) -> SourceSpec {
    SourceSpec::Profile(ProfileSpec { profile: profile.to_owned(), names, seed: Seed(1), changes })
}

fn in_order(order: Order) -> ProfileChanges {
    ProfileChanges { order: Some(order), nonexistent: Some(0.0), ..ProfileChanges::default() }
}

/// A file of `count` names such as `a7.example`.
fn names(folder: &Path, letter: char, count: usize) -> PathBuf {
    let text: String = (0..count).map(|n| format!("{letter}{n}.example\n")).collect();
    write(folder, &format!("names-{letter}-{count}"), &text)
}

fn qname(query: &Query) -> String {
    name::Name::from_wire(question::parse(&query.bytes).unwrap().qname).unwrap().to_string()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn each_list_has_its_share_and_each_of_its_names_too(
        sizes in proptest::collection::vec((1usize..12, 0.1f64..9.0), 1..6),
        sequential: bool,
    ) {
        const COUNT: usize = 20_000;
        let folder = tempfile::tempdir().unwrap();
        let letter = |n: usize| char::from(b'a' + n as u8);
        let lists = sizes.iter().enumerate().map(|(n, &(count, weight))| {
            weighted(names(folder.path(), letter(n), count), weight)
        });
        let order = if sequential { Order::Sequential } else { Order::Uniform };
        let spec = spec("nominet", lists.collect(), in_order(order));
        let queries = take(&mut *spec.open(0, 1).unwrap(), COUNT);
        let (mut hits, mut tally) = (HashMap::new(), Tally::default());
        for query in &queries {
            *hits.entry(qname(query)).or_insert(0u32) += 1;
            tally.add(query);
        }
        let total: f64 = sizes.iter().map(|s| s.1).sum();
        for (n, &(count, weight)) in sizes.iter().enumerate() {
            let list: Vec<u32> =
                (0..count).map(|i| hits.get(&format!("{}{i}.example.", letter(n))).copied().unwrap_or(0)).collect();
            let expected = COUNT as f64 * weight / total;
            prop_assert_eq!(u64::from(list.iter().sum::<u32>()), tally.lists[n]);
            // Six standard deviations of a draw; of turns, their rounding alone.
            let bound = |p: f64| if sequential { 10.0 } else { 6.0 * (COUNT as f64 * p * (1.0 - p)).sqrt() + 1.0 };
            let off = (tally.lists[n] as f64 - expected).abs();
            prop_assert!(off <= bound(weight / total), "{sizes:?} {:?}", tally.lists);
            let each = expected / count as f64;
            let worst = list.iter().map(|&h| (f64::from(h) - each).abs()).fold(0.0, f64::max);
            prop_assert!(worst <= bound(each / COUNT as f64), "{each} {list:?}");
        }
        prop_assert_eq!(tally.lists.iter().sum::<u64>(), COUNT as u64);
    }

    #[test]
    fn workers_share_the_stream_of_lists(workers in 1u32..9, each in 1usize..200, sequential: bool) {
        let folder = tempfile::tempdir().unwrap();
        let lists = vec![
            weighted(names(folder.path(), 'a', 7), 5.0),
            weighted(zone(folder.path(), 20), 2.5),
            NameList { exist: false, ..NameList::new(names(folder.path(), 'x', 3)) },
        ];
        let order = if sequential { Order::Sequential } else { Order::Uniform };
        let spec = spec("rzaia", lists, ProfileChanges { order: Some(order), ..ProfileChanges::default() });
        let one = take(&mut *spec.open(0, 1).unwrap(), each * workers as usize);
        let mut together: Vec<Query> =
            spec.open_all(workers).unwrap().iter_mut().flat_map(|source| take(&mut **source, each)).collect();
        together.sort_by_key(|q| q.index);
        prop_assert_eq!(together, one);
    }
}

#[test]
fn a_list_alone_gives_the_same_queries_whatever_its_weight() {
    let folder = tempfile::tempdir().unwrap();
    let zone = zone(folder.path(), 1000);
    for profile in ["rzaia", "nominet"] {
        let stream = |weight| {
            let spec = spec(profile, vec![weighted(zone.clone(), weight)], ProfileChanges::default());
            take(&mut *spec.open(0, 1).unwrap(), 5000)
        };
        assert_eq!(stream(1.0), stream(0.37));
    }
}

#[test]
fn lists_take_turns_by_weight_and_each_goes_round_by_itself() {
    let folder = tempfile::tempdir().unwrap();
    let lists =
        vec![weighted(names(folder.path(), 'a', 2), 2.0), weighted(names(folder.path(), 'b', 3), 6.0)];
    let source = |lists| spec("nominet", lists, in_order(Order::Sequential)).open(0, 1).unwrap();
    let asked: Vec<String> = take(&mut *source(lists.clone()), 12).iter().map(qname).collect();
    let expected = ["b0", "b1", "a0", "b2", "b0", "b1", "a1", "b2", "b0", "b1", "a0", "b2"];
    assert_eq!(asked, expected.map(|n| format!("{n}.example.")));
    let open = |lists: &[NameList]| Lists::open(lists, Seed(1), Want::Names, &mut |_| {}).unwrap();
    // After seven queries the last of the four names of `a` and `b` that was missing, a1, was asked for.
    assert_eq!((open(&lists).round(), open(&lists[..1]).round(), open(&lists[1..]).round()), (7, 2, 3));
}

#[test]
fn names_of_a_list_may_be_said_not_to_exist() {
    let folder = tempfile::tempdir().unwrap();
    let text = "about = \"a test\"\n[names]\nnonexistent = 0.25\n[[names.list]]\nfile = \"names-a-5\"\nweight = 3\n\
                [[names.list]]\nfile = \"names-b-5\"\n[[names.list]]\nfile = \"names-x-2\"\nexist = false\n\
                [types]\nA = 1\n";
    for (letter, count) in [('a', 5), ('b', 5), ('x', 2)] {
        names(folder.path(), letter, count);
    }
    let path = write(folder.path(), "lists.toml", text);
    let profile = path.to_str().unwrap();
    let tally = |queries: &[Query]| {
        let mut tally = Tally::default();
        queries.iter().for_each(|q| tally.add(q));
        tally
    };
    let queries = take(&mut *spec(profile, vec![], ProfileChanges::default()).open(0, 1).unwrap(), 40_000);
    assert!(queries.iter().all(|q| q.nonexistent == qname(q).starts_with('x')));
    let got = tally(&queries);
    assert_eq!(got.lists[2], got.nonexistent);
    for (count, expected) in got.lists.iter().zip([22_500u64, 7_500, 10_000]) {
        assert!(count.abs_diff(expected) < 600, "{:?}", got.lists);
    }
    // Other names that exist take the place of the profile's; those that do not stay.
    let zone = zone(folder.path(), 20);
    let other = spec(profile, vec![NameList::new(&zone)], ProfileChanges::default());
    let queries = take(&mut *other.open(0, 1).unwrap(), 1000);
    assert!(queries.iter().all(|q| qname(q).starts_with(if q.nonexistent { 'x' } else { 'd' })));
    assert_eq!(tally(&queries).lists.len(), 2);
}

#[test]
fn lists_of_one_zone_leave_names_that_do_not_exist() {
    let folder = tempfile::tempdir().unwrap();
    let zone = zone(folder.path(), 500);
    // Of the zone's names two are wanted often; what they have in common at their end is a delegation.
    let often = write(folder.path(), "often", "www.d7\nmail.d7\n");
    let spec = spec("rzaia", vec![weighted(often, 9.0), NameList::new(&zone)], ProfileChanges::default());
    let queries = take(&mut *spec.open(0, 1).unwrap(), 20_000);
    let lists = Lists::open(&[NameList::new(&zone)], Seed(1), Want::Names, &mut |_| {}).unwrap();
    let known = lists.lists()[0].names();
    let mut misses = 0;
    for query in queries.iter().filter(|q| q.nonexistent) {
        let mut last = question::parse(&query.bytes).unwrap().qname;
        while name::label_count(last) > 1 {
            last = name::parent(last);
        }
        assert_eq!((known.contains(last), query.list), (Some(false), None), "{}", qname(query));
        misses += 1;
    }
    assert!((5_500..6_500).contains(&misses), "{misses}");
}

#[test]
fn names_with_a_type_of_their_own_and_others_go_together() {
    let folder = tempfile::tempdir().unwrap();
    let zone = write(folder.path(), "zone", "e. 60 IN SOA a. b. 1 2 3 4 5\nm.e. 60 IN MX 1 m.e.\n");
    let lists = vec![NameList::new(zone), NameList::new(write(folder.path(), "list", "a.e\nb.e\n"))];
    let (without, with) = (
        "about = \"t\"\n[names]\ntypes = \"zone\"\n",
        "about = \"t\"\n[names]\ntypes = \"zone\"\n[types]\nTXT = 1\n",
    );
    let open = |name: &str, text: &str| {
        let path = write(folder.path(), name, text);
        spec(path.to_str().unwrap(), lists.clone(), ProfileChanges::default()).open(0, 1)
    };
    let error = open("without.toml", without).err().expect("an error").to_string();
    assert!(error.contains("a file of names has none"), "{error}");
    for query in take(&mut *open("with.toml", with).unwrap(), 1000) {
        let asked = question::parse(&query.bytes).unwrap();
        let expected: &[u16] = if query.list == Some(0) { &[rtype::SOA, rtype::MX] } else { &[rtype::TXT] };
        assert!(expected.contains(&asked.qtype), "{} {}", qname(&query), asked.qtype);
    }
}

#[test]
fn lists_share_the_room_for_names() {
    let folder = tempfile::tempdir().unwrap();
    let long = names(folder.path(), 'a', 400_000);
    let lists = [&long, &long, &long].map(NameList::new);
    let open = |lists: &[NameList]| Lists::open(lists, Seed(1), Want::Names, &mut |_| {}).unwrap();
    for list in open(&lists).lists() {
        let names = list.names();
        assert_eq!((names.len(), names.total(), names.is_sample()), ((1 << 20) / 3, 400_000, true));
    }
    assert!(open(&lists[..2]).lists().iter().all(|list| !list.names().is_sample()));
}

#[test]
fn what_is_wrong_with_a_list_is_named_by_place() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "good", "a.example\n");
    write(folder.path(), "empty", "; nothing\n");
    write(folder.path(), "bad", "a.example\nb..example\n");
    let shown = |list: &str| {
        let text = format!(
            "about = \"t\"\ntypes = {{ A = 1 }}\n[names]\nnonexistent = 0.5\n[[names.list]]\nfile = \"good\"\n{list}\n"
        );
        let path = write(folder.path(), "my.toml", &text);
        let error =
            spec(path.to_str().unwrap(), vec![], ProfileChanges::default()).open(0, 1).err().expect(list);
        error.to_string().replace(&format!("{}/", folder.path().display()), "")
    };
    let cases = [
        "weight = 0",
        "weight = -1",
        "weight = 1e16",
        "weight = \"much\"",
        "wight = 1",
        "[[names.list]]\nweight = 1",
        "[[names.list]]\nfile = \"absent\"",
        "[[names.list]]\nfile = \"empty\"",
        "[[names.list]]\nfile = \"bad\"",
        "[[names.list]]\nfile = \"good\"\nexist = false",
        "exist = false",
    ];
    let all: Vec<String> =
        cases.iter().map(|c| format!("{}\n    {}", c.replace('\n', " | "), shown(c))).collect();
    insta::assert_snapshot!(all.join("\n"));
    let none = "about = \"t\"\ntypes = { A = 1 }\n[[names.list]]\nfile = \"x\"\nexist = false\n";
    let error = Profile::parse(none, "my.toml").unwrap_err().to_string();
    assert!(error.starts_with("my.toml:3:1: names that do not exist, but 'nonexistent' is 0"), "{error}");
    let open =
        |lists: &[NameList]| Lists::open(lists, Seed(1), Want::Names, &mut |_| {}).err().expect("an error");
    let good = NameList::new(folder.path().join("good"));
    assert!(open(&[]).to_string().contains("no names that exist"));
    assert!(open(&vec![good.clone(); 257]).to_string().contains("257 lists of names"));
    assert!(matches!(open(&[NameList { weight: f64::NAN, ..good }]), Error::Spec(_)));
}

#[test]
fn lists_travel_as_json() {
    let texts = [
        r#"{"profile":{"profile":"rzaia","seed":1}}"#,
        r#"{"profile":{"profile":"rzaia","names":{"file":"a","weight":3.0,"exist":true},"seed":1}}"#,
        r#"{"profile":{"profile":"rzaia","names":["a",{"file":"b","weight":3.0,"exist":false}],"seed":1}}"#,
    ];
    for text in texts {
        let spec: SourceSpec = serde_json::from_str(text).unwrap();
        assert_eq!(serde_json::to_string(&spec).unwrap(), text);
    }
    let bad = r#"{"profile":{"profile":"rzaia","names":{"file":"a","wight":3.0}}}"#;
    assert!(serde_json::from_str::<SourceSpec>(bad).is_err());
}
