//! Queries of captures, to be sent again.

use measure::Seed;
use measure::clock::SECOND;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::path::{Path, PathBuf};
use trace::ReplaySpec;
use trace::write::{Route, SERVER_V4, SERVER_V6, Writer};
use traffic::clients::Clients;
use traffic::{Profile, Query, QuerySource};
use wire::Checksum;

const COUNT: u64 = 5_000;

/// A capture of queries of many clients, one each millisecond.
fn capture(folder: &Path) -> (PathBuf, Vec<Query>) {
    let mut profile = Profile::load("rzaia").unwrap();
    (profile.classes[0].ipv6, profile.classes[0].clients) = (0.3, 500);
    let mut clients = Clients::new(&profile, Seed(3)).unwrap();
    let path = folder.join("queries.pcap");
    let mut writer = Writer::new(File::create(&path).unwrap()).unwrap();
    let mut written = Vec::new();
    for n in 0..COUNT {
        let (from, id) = clients.get(&Query { index: n, ..Query::default() });
        let to = if from.is_ipv4() { (SERVER_V4, 53).into() } else { (SERVER_V6, 53).into() };
        let mut query = Query { df: n % 3 == 0 && from.is_ipv4(), ..Query::default() };
        if n % 7 == 0 && from.is_ipv4() {
            query.checksum = Checksum::Absent;
        }
        wire::query::write(&mut query.bytes, 0, b"\x03com\0", n as u16, None);
        writer.write(1_000_000_000 * SECOND + n * 1_000_000, Route { from, to, id }, &query).unwrap();
        (query.index, query.at, query.ipv6) = (n, Some(n * 1_000_000), Some(from.is_ipv6()));
        written.push(query);
    }
    (path, written)
}

fn all(source: &mut dyn QuerySource) -> Vec<Query> {
    let (mut all, mut query) =
        (Vec::new(), Query { background: true, nonexistent: true, ..Query::default() });
    while source.next(&mut query).unwrap() {
        all.push(query.clone());
    }
    all
}

#[test]
fn queries_come_back_as_they_were_written() {
    let folder = tempfile::tempdir().unwrap();
    let (path, written) = capture(folder.path());
    let spec = ReplaySpec::new(vec![path]);
    let survey = spec.check().unwrap();
    assert_eq!((survey.queries, survey.tcp, survey.disordered, survey.second_max), (COUNT, 0, 0, 1000));
    assert_eq!((survey.first, survey.duration), (1_000_000_000 * SECOND, (COUNT - 1) * 1_000_000));
    assert!((survey.rate() - 1000.0).abs() < 1e-9, "{}", survey.rate());
    let read = all(&mut spec.open(0, 1).unwrap());
    let without_clients: Vec<_> = read.iter().map(|q| Query { client: None, ..q.clone() }).collect();
    assert!(without_clients == written);
    let clients: BTreeSet<_> = read.iter().map(|q| q.client).collect();
    assert!(clients.len() > 4_900, "a port is as good as new each time: {}", clients.len());
}

#[test]
fn workers_share_the_clients() {
    let folder = tempfile::tempdir().unwrap();
    let (path, _) = capture(folder.path());
    let spec = ReplaySpec::new(vec![path]);
    let whole = all(&mut spec.open(0, 1).unwrap());
    for workers in [2, 3] {
        let shares: Vec<_> = spec.open_all(workers).unwrap().iter_mut().map(|s| all(s)).collect();
        let mut joined: Vec<_> = shares.concat();
        joined.sort_by_key(|q| q.index);
        assert!(joined == whole, "{workers} workers");
        let mut owner = BTreeMap::new();
        for (worker, share) in shares.iter().enumerate() {
            assert!(share.len() as u64 > COUNT / (u64::from(workers) + 1), "{worker}: {}", share.len());
            assert!(share.iter().all(|q| *owner.entry(q.client).or_insert(worker) == worker));
            // Of every 8 flows, each gets queries.
            let flows: BTreeSet<_> = share.iter().map(|q| q.client.unwrap() % 8).collect();
            assert_eq!(flows.len(), 8);
        }
    }
}

#[test]
fn the_live_capture_replays_with_its_connections() {
    let paths = super::captures::real();
    let Some(path) = paths.into_iter().find(|p| p.ends_with("nsd-live.pcap.xz")) else { return };
    let spec = ReplaySpec::new(vec![path]);
    let survey = spec.check().unwrap();
    assert_eq!((survey.queries, survey.tcp, survey.ipv6), (10_432, 106, 1_161));
    assert_eq!((survey.responses, survey.elsewhere, survey.cut_short), (10_432, 0, 0));
    assert_eq!((survey.counts.connections, survey.counts.connections_with_dns), (107, 106));
    let read = all(&mut spec.open(0, 1).unwrap());
    assert!(read.windows(2).all(|w| w[0].at <= w[1].at));
    assert_eq!((read[0].at, read.last().unwrap().at), (Some(0), Some(survey.duration)));
    assert_eq!(read.iter().filter(|q| q.tcp).count(), 106);
    assert!(read.iter().all(|q| q.bytes[..2] == [0, 0] && q.bytes[2] & 0x80 == 0));
    let one = ReplaySpec { to: vec!["192.0.2.1".parse().unwrap()], ..spec };
    assert!(
        one.check()
            .unwrap_err()
            .to_string()
            .contains("no query to replay: there are 10432 responses, 10432 queries to other")
    );
}

#[test]
fn what_cannot_be_replayed_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let text = folder.path().join("text");
    std::fs::write(&text, "no capture, but longer than 24 octets").unwrap();
    let error = ReplaySpec::new(vec![text]).check().unwrap_err().to_string();
    assert!(error.contains("not a capture that can be read: it begins with 6e6f2063"), "{error}");
    let error = ReplaySpec::new(vec![folder.path().to_owned()]).check().unwrap_err().to_string();
    assert!(error.contains("not a regular file"), "{error}");
    let error = ReplaySpec::new(vec!["/nonexistent".into()]).open(0, 1).err().unwrap().to_string();
    assert!(error.starts_with("/nonexistent: No such file"), "{error}");
}

#[test]
fn a_specification_travels_as_json() {
    let spec = ReplaySpec::new(vec!["a.pcap".into(), "b.pcap".into()]);
    let text = serde_json::to_string(&spec).unwrap();
    assert_eq!(text, r#"{"paths":["a.pcap","b.pcap"]}"#);
    assert_eq!(serde_json::from_str::<ReplaySpec>(&text).unwrap(), spec);
    let full = r#"{"paths": ["a"], "ports": [5353], "to": ["192.0.2.1", "2001:db8::1"]}"#;
    assert_eq!(serde_json::from_str::<ReplaySpec>(full).unwrap().to.len(), 2);
    assert!(serde_json::from_str::<ReplaySpec>(&full.replace("ports", "port")).is_err());
}
