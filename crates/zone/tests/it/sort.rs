//! Zones in any order.

use crate::generate::zone_of;
use std::io::Cursor;
use zone::order::{Canonical, canonical, is_sorted};
use zone::sort::sorted;
use zone::{Error, Family, RecordSource, Scanner};

/// Owner, type and data of RRsets.
type Set = (Vec<u8>, u16, Vec<Vec<u8>>);

fn sets(source: &mut impl RecordSource) -> Vec<Set> {
    let mut all: Vec<Set> = Vec::new();
    while let Some(r) = source.next().unwrap() {
        match all.last_mut().filter(|set| set.0 == r.owner && set.1 == r.rtype) {
            Some(set) => set.2.push(r.rdata.to_vec()),
            None => all.push((r.owner.to_vec(), r.rtype, vec![r.rdata.to_vec()])),
        }
    }
    all
}

fn scanner(text: &str) -> Scanner {
    Scanner::new(Cursor::new(text.to_owned()), "test.zone")
}

#[test]
fn a_shuffled_zone_comes_back_in_order() {
    let text = String::from_utf8(zone_of(Family::S6Ds50, 2000, 3).0).unwrap();
    // Every line with its owner, so that lines can change places; the SOA stays first.
    let (mut owner, mut lines) = (String::new(), Vec::new());
    for line in text.lines().filter(|l| !l.starts_with(';')) {
        let (name, rest) = line.split_at(line.find(char::is_whitespace).unwrap());
        if !name.is_empty() {
            owner = name.to_owned();
        }
        lines.push(format!("{owner}{rest}\n"));
    }
    let first = lines.iter().position(|l| l.contains("SOA")).unwrap();
    let head: String = lines.drain(..=first).collect();
    lines.sort_by_key(|l| l.bytes().rev().fold(7u32, |h, b| h.wrapping_mul(16_777_619) ^ u32::from(b)));
    let shuffled = head + &lines.concat();
    assert!(!is_sorted(&mut scanner(&shuffled)).unwrap() && is_sorted(&mut scanner(&text)).unwrap());

    let mut heard = 0;
    let mut expected = sets(&mut scanner(&text));
    let mut got = sets(&mut sorted(scanner(&shuffled), &mut |n| heard = n).unwrap());
    assert_eq!(heard, shuffled.len() as u64);
    assert!(got.windows(2).all(|w| {
        let order = wire::name::canonical_cmp(&w[0].0, &w[1].0);
        order.is_lt() || order.is_eq() && w[0].1 != w[1].1
    }));
    for all in [&mut expected, &mut got] {
        for set in all.iter_mut() {
            set.2.sort();
        }
        all.sort();
    }
    assert!(got == expected, "the same RRsets, each in one piece");

    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("zone");
    for (text, streams) in [(&text, true), (&shuffled, false)] {
        std::fs::write(&file, text).unwrap();
        let mut source = canonical(&file, &mut |_| {}).unwrap();
        assert_eq!(matches!(source, Canonical::Stream(_)), streams);
        assert_eq!(sets(&mut source).len(), expected.len());
    }
}

#[test]
fn pieces_are_joined_and_errors_have_places() {
    let text = "$TTL 9\nexample. SOA . . 1 1 1 1 1\nb.example. A 192.0.2.1\nB.Example. AAAA ::1\nb.example. A 192.0.2.2\n\
                a.b.example. TXT x\nexample. NS b.example.\n";
    assert!(!is_sorted(&mut scanner(text)).unwrap());
    let got = sets(&mut sorted(scanner(text), &mut |_| {}).unwrap());
    assert_eq!(
        got.iter().map(|s| (s.1, s.2.len())).collect::<Vec<_>>(),
        [(6, 1), (2, 1), (1, 2), (28, 1), (16, 1)]
    );
    let error = sorted(scanner("$TTL 9\n. SOA . . 1 1 1 1 1\na. A 1.2.3\n"), &mut |_| {}).err().unwrap();
    assert!(matches!(&error, Error::Syntax { place, .. } if place.line == 3), "{error}");
    assert!(canonical(std::path::Path::new("/nonexistent"), &mut |_| {}).is_err());
}
