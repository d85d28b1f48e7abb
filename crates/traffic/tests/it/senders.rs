//! Who sends, and what is sent beside the good queries.

use crate::{profile, take, write, zone};
use std::collections::HashMap;
use std::path::Path;
use traffic::{Profile, ProfileChanges, ProfileSpec, Query, SourceSpec, Tally};
use wire::{name, question, rtype};

const COUNT: usize = 100_000;

fn spec(zone: &Path, changes: ProfileChanges) -> SourceSpec {
    let SourceSpec::Profile(spec) = profile("rzaia", zone.to_owned(), 1) else { unreachable!() };
    SourceSpec::Profile(ProfileSpec { changes, ..spec })
}

fn stream(zone: &Path, changes: ProfileChanges) -> Vec<Query> {
    take(&mut *spec(zone, changes).open(0, 1).unwrap(), COUNT)
}

fn flood(share: f64, under: &str) -> ProfileChanges {
    ProfileChanges {
        background: Some(share),
        under: Some(under.parse().unwrap()),
        ..ProfileChanges::default()
    }
}

fn qname(query: &Query) -> &[u8] {
    question::parse(&query.bytes).expect("a question").qname
}

#[test]
fn a_flood_leaves_good_queries_as_they_are() {
    let folder = tempfile::tempdir().unwrap();
    let zone = zone(folder.path(), 280);
    let good = stream(&zone, ProfileChanges::default());
    assert!(good.iter().all(|q| !q.background && q.client.is_none() && q.ipv6.is_none()));
    for (share, text) in [(0.5, "1:1"), (10.0 / 11.0, "1:10"), (1.0, "0:1")] {
        assert_eq!(traffic::nonexistent(text), Ok(share));
        let mixed = stream(&zone, flood(share, "apex"));
        let kept = mixed.iter().zip(&good).filter(|(m, _)| !m.background);
        assert!(kept.clone().all(|(m, g)| m == g), "{text}");
        let count = COUNT - kept.count();
        let deviation = (COUNT as f64 * share * (1.0 - share)).sqrt();
        assert!((count as f64 - COUNT as f64 * share).abs() <= 6.0 * deviation, "{text}: {count}");
        let mut tally = Tally::default();
        mixed.iter().for_each(|q| tally.add(q));
        assert_eq!((tally.queries, tally.background), (COUNT as u64, count as u64));
        assert_eq!(tally.types.values().sum::<u64>(), (COUNT - count) as u64);
    }
}

#[test]
fn labels_of_a_flood_go_where_they_are_said_to() {
    let folder = tempfile::tempdir().unwrap();
    let zone = zone(folder.path(), 280);
    type IsParent = fn(&[u8]) -> bool;
    let cases: [(&str, usize, IsParent); 3] = [
        ("apex", 1, |parent| parent == name::ROOT),
        ("names", 2, |parent| parent[1] == b'd' && name::label_count(parent) == 1),
        ("victim.d7.", 3, |parent| parent == b"\x06victim\x02d7\0"),
    ];
    for (under, labels, is_parent) in cases {
        let (mut parents, mut seen) = (HashMap::new(), HashMap::new());
        let queries = stream(&zone, flood(0.75, under));
        for query in queries.iter().filter(|q| q.background) {
            let asked = question::parse(&query.bytes).unwrap();
            assert_eq!((asked.qtype, asked.qname[0], query.nonexistent), (rtype::A, 12, false));
            let parent = name::parent(asked.qname);
            assert!(name::label_count(asked.qname) == labels && is_parent(parent), "{under}: {parent:?}");
            *parents.entry(parent.to_vec()).or_insert(0u32) += 1;
            *seen.entry(asked.qname.to_vec()).or_insert(0u32) += 1;
        }
        assert_eq!(parents.len(), if under == "names" { 280 } else { 1 });
        assert!(seen.values().all(|n| *n == 1), "each name is asked for once");
    }
}

#[test]
fn a_profile_says_what_its_flood_is() {
    let folder = tempfile::tempdir().unwrap();
    let text = "about = \"a\"\n[types]\nA = 1\n[background]\nshare = 1.0\nunder = \"com\"\nlabel = 63\n\
                types = { TXT = 1, TYPE65280 = 3 }\n";
    let path = write(folder.path(), "flood.toml", text);
    let zone = zone(folder.path(), 10);
    let queries = take(&mut *profile(path.to_str().unwrap(), zone, 1).open(0, 1).unwrap(), 4_000);
    assert!(queries.iter().all(|q| q.background && qname(q).len() == 1 + 63 + 5));
    let txt = queries.iter().filter(|q| question::parse(&q.bytes).unwrap().qtype == rtype::TXT).count();
    assert!((850..1150).contains(&txt), "{txt}");
}

#[test]
fn clients_with_one_port_are_told_to_senders() {
    let folder = tempfile::tempdir().unwrap();
    let zone = zone(folder.path(), 10);
    let changes = ProfileChanges {
        clients: Some("1000:1".parse().unwrap()),
        ports: Some("own=3,53=1,random=4".parse().unwrap()),
        ipv6: Some(0.25),
        ..ProfileChanges::default()
    };
    let mut hits = HashMap::new();
    let (mut none, mut v6) = (0, 0);
    let queries = stream(&zone, changes.clone());
    for query in &queries {
        match query.client {
            Some(rank) => *hits.entry(rank).or_insert(0u32) += 1,
            None => none += 1,
        }
        v6 += usize::from(query.ipv6.expect("the profile says over which family"));
    }
    // Half of the clients, which may be among those that send most or not.
    assert!((400..600).contains(&hits.len()) && hits.keys().all(|&rank| rank < 1000), "{}", hits.len());
    assert!((COUNT / 4..COUNT * 3 / 4).contains(&none), "{none}");
    assert!((24_000..26_000).contains(&v6), "{v6}");
    // Captures have the same clients, and the queries are the same whoever sends them.
    let mut expected = Profile::load("rzaia").unwrap();
    changes.apply(&mut expected).unwrap();
    let mut clients = traffic::clients::Clients::new(&expected, measure::Seed(1)).unwrap();
    let plain = stream(&zone, ProfileChanges::default());
    for (query, plain) in queries.iter().zip(&plain).take(10_000) {
        let sender = clients.sender(query.index);
        assert_eq!((query.client, query.ipv6), (sender.flow(), Some(sender.ipv6)));
        assert_eq!(query.bytes, plain.bytes);
    }
}

#[test]
fn workers_share_floods_and_clients() {
    let folder = tempfile::tempdir().unwrap();
    let changes = ProfileChanges {
        clients: Some("50".parse().unwrap()),
        ports: Some("own".parse().unwrap()),
        ..flood(0.5, "names")
    };
    let spec = spec(&zone(folder.path(), 30), changes);
    let one = take(&mut *spec.open(0, 1).unwrap(), 12_000);
    let mut all: Vec<Query> =
        spec.open_all(3).unwrap().iter_mut().flat_map(|source| take(&mut **source, 4_000)).collect();
    all.sort_by_key(|q| q.index);
    assert_eq!(all, one);
}

#[test]
fn what_makes_no_sense_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let zone = zone(folder.path(), 10);
    let error = |changes| spec(&zone, changes).open(0, 1).err().expect("an error").to_string();
    assert_eq!(error(flood(1.5, "apex")), "background: 1.5 is not a share: give a number from 0 to 1");
    assert_eq!(
        error(ProfileChanges { under: Some("apex".parse().unwrap()), ..ProfileChanges::default() }),
        "the name of a flood, but no flood: give its share too"
    );
    assert!("a..b".parse::<traffic::Under>().is_err());
    for text in ["apex", "names", "a.b."] {
        assert_eq!(String::from(text.parse::<traffic::Under>().unwrap()), text);
    }
}
