//! Queries from any zone: signed, unsorted, without delegations, with wildcards.

use crate::{profile, take, write};
use measure::Seed;
use std::path::Path;
use traffic::{Kind, Names, ProfileChanges, ProfileSpec, Query, SourceSpec, Want};
use wire::{name, question, rtype};

const SOA: &str = "e. 60 IN SOA a. b. 1 2 3 4 5\n";

fn names(path: &Path, want: Want) -> Names {
    Names::from_zone(path, Seed(1), want, &mut |_| {}).unwrap()
}

fn texts(names: &Names) -> Vec<String> {
    (0..names.len()).map(|n| name::Name::from_wire(names.get(n)).unwrap().to_string()).collect()
}

fn asked(query: &Query) -> String {
    let asked = question::parse(&query.bytes).unwrap();
    format!("{} {}", name::Name::from_wire(asked.qname).unwrap(), rtype::to_text(asked.qtype))
}

fn changed(base: &str, zone: &Path, changes: ProfileChanges) -> SourceSpec {
    let SourceSpec::Profile(spec) = profile(base, zone.to_owned(), 1) else { unreachable!() };
    SourceSpec::Profile(ProfileSpec { changes, ..spec })
}

/// Zone text in another order: every third line, then the others backwards; the SOA stays first.
fn shuffled(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let (third, others): (Vec<_>, Vec<_>) = lines.iter().enumerate().partition(|(n, _)| n % 3 == 0);
    third.into_iter().chain(others.into_iter().rev()).map(|(_, line)| format!("{line}\n")).collect()
}

#[test]
fn the_order_of_records_changes_only_the_order_of_names() {
    let folder = tempfile::tempdir().unwrap();
    let mut text = SOA.to_owned() + "e. 60 IN NS ns.d0.e.\ne. 60 IN MX 1 m.e.\nm.e. 60 IN A 192.0.2.1\n";
    for n in 0..50 {
        text += &format!("d{n}.e. 60 IN NS ns.d{n}.e.\nd{n}.e. 60 IN NS ns.d{}.e.\n", n / 2);
        text +=
            &format!("d{n}.e. 60 IN DS 1 8 2 00\nns.d{n}.e. 60 IN A 192.0.2.1\nns.d{n}.e. 60 IN AAAA ::1\n");
    }
    let sorted = names(&write(folder.path(), "sorted", &text), Want::Names);
    let mixed = names(&write(folder.path(), "mixed", &shuffled(&text)), Want::Names);
    let (mut a, mut b) = (texts(&sorted), texts(&mixed));
    assert_ne!(a, b);
    a.sort();
    b.sort();
    assert_eq!(a, b);
    for names in [&sorted, &mixed] {
        assert_eq!((names.kind(), names.len(), names.total()), (Kind::Delegations, 50, 50));
        let known = |text: &str| names.contains(name::Name::parse_text(text, None).unwrap().as_wire());
        assert_eq!((known("m.e."), known("d7.e."), known("n.e.")), (Some(true), Some(true), Some(false)));
    }
    // A zone of hosts with a few delegations is asked for its hosts; glue is none of them.
    let hosts: String =
        (0..20).map(|n| format!("h{n}.e. 60 IN A 192.0.2.1\nh{n}.e. 60 IN AAAA ::1\n")).collect();
    let text = SOA.to_owned()
        + "c.e. 60 IN NS ns.c.e.\n*.w.e. 60 IN A 192.0.2.1\n"
        + &hosts
        + "ns.c.e. 60 IN A 192.0.2.1\n";
    let mut expected: Vec<String> =
        (0..20).map(|n| format!("h{n}.e.")).chain(["*.w.e.".into(), "e.".into()]).collect();
    expected.sort();
    for text in [shuffled(&text), text] {
        let names = names(&write(folder.path(), "hosts", &text), Want::Names);
        let mut got = texts(&names);
        got.sort();
        assert_eq!((names.kind(), &got), (Kind::Owners, &expected));
        assert_eq!(names.contains(b"\x01c\x01e\0"), Some(true));
        // As a file they are the same names, and what is not among them may exist.
        let mut out = Vec::new();
        names.write(&mut out).unwrap();
        let copy = write(folder.path(), "names", std::str::from_utf8(&out).unwrap());
        let copy = Names::open(&copy, Seed(1), Want::Names).unwrap();
        assert_eq!((texts(&copy), copy.total(), copy.kind()), (texts(&names), 22, Kind::Owners));
        assert_eq!(copy.contains(b"\x01c\x01e\0"), None);
    }
}

#[test]
fn a_zone_tells_which_part_of_a_name_is_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let tail =
        "e. 60 IN NS ns.c.e.\nc.e. 60 IN NS ns.c.e.\nns.c.e. 60 IN A 192.0.2.1\na.b.e. 60 IN A 192.0.2.1\n";
    let few = write(folder.path(), "few", &(SOA.to_owned() + tail + "d.e. 60 IN NS ns.c.e.\n"));
    let hosts: String = (0..9).map(|n| format!("h{n}.e. 60 IN A 192.0.2.1\n")).collect();
    let many = write(folder.path(), "many", &(SOA.to_owned() + tail + &hosts));
    for (zone, kind) in [(few, Kind::Delegations), (many, Kind::Owners)] {
        let zone = names(&zone, Want::Names);
        assert_eq!(zone.kind(), kind);
        let locate = |text: &str| {
            let name = name::Name::parse_text(text, Some(name::ROOT)).unwrap();
            zone.locate(name.as_wire()).map(|f| (f.octets, f.exists, f.cut))
        };
        assert_eq!(locate("e"), Some((3, true, false)));
        assert_eq!(locate("C.e"), Some((5, true, true)));
        assert_eq!(locate("www.x.c.e"), Some((5, true, true)));
        assert_eq!(locate("ns.c.e"), Some((5, true, true)), "glue is below the delegation");
        assert_eq!(locate("b.e"), Some((5, true, false)), "above a name");
        assert_eq!(locate("a.b.e"), Some((7, true, false)));
        assert_eq!(locate("x.y.b.e"), Some((7, false, true)));
        assert_eq!(locate("x.nic.e"), Some((7, false, true)));
        assert_eq!(locate("f"), None);
    }
}

#[test]
fn records_are_asked_for_as_a_transfer_lists_them() {
    let folder = tempfile::tempdir().unwrap();
    let text = SOA.to_owned()
        + "e. 60 IN NS ns.c.e.\nz.e. 60 IN A 192.0.2.1\nz.e. 60 IN A 192.0.2.2\nc.e. 60 IN NS ns.c.e.\n\
           ns.c.e. 60 IN A 192.0.2.1\na.e. 60 IN TYPE65280 \\# 0\n";
    let nsec3 = "vs.e. 60 IN NSEC3 1 0 0 - VS A\nvs.e. 60 IN RRSIG NSEC3 8 2 60 20300101000000 20200101000000 1 e. AAAA\n";
    let zone = write(folder.path(), "zone", &(text + nsec3));
    let expected = ["e. SOA", "e. NS", "z.e. A", "z.e. A", "c.e. NS", "ns.c.e. A", "a.e. TYPE65280"];
    let spec = profile("nominet", zone.clone(), 1);
    for workers in [1, 3] {
        let mut got: Vec<Query> = Vec::new();
        spec.open_all(workers).unwrap().iter_mut().for_each(|s| got.extend(take(&mut **s, 21)));
        got.sort_by_key(|q| q.index);
        for (n, query) in got.iter().enumerate() {
            assert_eq!(asked(query), expected[n % expected.len()]);
        }
    }
    // The same through a file of names, as experiments do.
    let mut out = Vec::new();
    names(&zone, Want::Records).write(&mut out).unwrap();
    let file = write(folder.path(), "names", std::str::from_utf8(&out).unwrap());
    let again = take(&mut *profile("nominet", file, 1).open(0, 1).unwrap(), 7);
    assert_eq!(again.iter().map(asked).collect::<Vec<_>>(), expected);
    // Misses have the types of the zone too, and the other changes hold.
    let changes = ProfileChanges {
        types: Some("zone".parse().unwrap()),
        nonexistent: Some(0.5),
        edns: Some(1.0),
        do_bit: Some(1.0),
        ..ProfileChanges::default()
    };
    let queries = take(&mut *changed("isc", &zone, changes).open(0, 1).unwrap(), 4000);
    let mut tally = traffic::Tally::default();
    queries.iter().for_each(|q| tally.add(q));
    let types: Vec<u16> = tally.types.keys().copied().collect();
    assert_eq!(types, [rtype::A, rtype::NS, rtype::SOA, 65280]);
    assert_eq!((tally.do_bit, tally.edns_sizes[&1232]), (4000, 4000));
    assert!((1800..2200).contains(&tally.nonexistent), "{}", tally.nonexistent);
}

#[test]
fn what_cannot_be_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let hosts = write(folder.path(), "hosts", &(SOA.to_owned() + "a.e. 60 IN A 192.0.2.1\n"));
    let list = write(folder.path(), "list", "a.e\nb.e\n");
    let dname =
        write(folder.path(), "dname", &(SOA.to_owned() + "e. 60 IN DNAME f.\na.e. 60 IN A 192.0.2.1\n"));
    let error = |zone: &Path, changes: ProfileChanges| {
        changed("rzaia", zone, changes).open(0, 1).err().expect("an error").to_string()
    };
    let types = Some("zone".parse().unwrap());
    insta::assert_snapshot!(
        [
            error(&hosts, ProfileChanges { below: Some(vec![0.0, 1.0]), ..ProfileChanges::default() }),
            error(&list, ProfileChanges { types, ..ProfileChanges::default() }),
            error(&dname, ProfileChanges::default()),
            error(&hosts, ProfileChanges { do_bit: Some(1.0), ..ProfileChanges::default() }),
        ]
        .join("\n")
    );
}

#[test]
fn mutated_names_files_never_panic() {
    let seeds: [&[u8]; 3] = [
        b" kind=records of=12 wildcard=yes known=no origin=example.",
        b"\\097.www.example.com.",
        b"a.example.com TYPE65000",
    ];
    let mut draw = Seed(1).draw("fuzz", 0);
    for round in 0..200_000 {
        let mut line = seeds[round % 3].to_vec();
        for _ in 0..=draw.below(4) {
            let at = draw.below(line.len() as u64) as usize;
            line[at] = draw.bits() as u8;
        }
        traffic::fuzz_names(&line);
    }
}

#[test]
fn mutated_profiles_never_panic() {
    let mut draw = Seed(2).draw("fuzz", 0);
    for round in 0..4_000 {
        let mut text = traffic::BUILT_IN[round % 3].1.as_bytes().to_vec();
        for _ in 0..=draw.below(4) {
            let at = draw.below(text.len() as u64) as usize;
            match draw.below(3) {
                0 => text[at] = draw.bits() as u8,
                1 => drop(text.remove(at)),
                _ => text.insert(at, b"=[]\"\n-.19"[draw.below(9) as usize]),
            }
        }
        traffic::fuzz_profile(&text);
    }
}
