use super::*;
use std::fs;

fn file(text: &str) -> tempfile::NamedTempFile {
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), text).unwrap();
    file
}

fn zone() -> tempfile::NamedTempFile {
    let mut text =
        "$ORIGIN example.\n$TTL 60\n@ SOA ns hostmaster 1 2 3 4 5\n@ NS ns\nns A 192.0.2.1\n".to_owned();
    for n in 0..1000 {
        text += &format!("d{n} NS ns.d{n}\nns.d{n} A 192.0.2.2\n");
    }
    file(&(text + "x.y.z TXT a\nDEEP.cut NS ns\n"))
}

fn all(names: &Names) -> Vec<String> {
    (0..names.len()).map(|n| name::Name::from_wire(names.get(n)).unwrap().to_string()).collect()
}

fn wire(text: &str) -> Vec<u8> {
    name::Name::parse_text(text, None).unwrap().as_wire().to_vec()
}

#[test]
fn a_zone_gives_its_delegations() {
    let zone = zone();
    let names = Names::open(zone.path(), Seed(1), Want::Names).unwrap();
    assert_eq!((names.len(), names.total(), names.is_sample()), (1001, 1001, false));
    assert_eq!((names.kind(), names.origin()), (Kind::Delegations, &wire("example.")[..]));
    let list = all(&names);
    assert_eq!(
        (&list[0][..], &list[999][..], &list[1000][..]),
        ("d0.example.", "d999.example.", "DEEP.cut.example.")
    );
    for there in ["d7.example.", "D7.EXAMPLE.", "ns.example.", "y.z.example.", "z.example.", "cut.example."] {
        assert_eq!(names.contains(&wire(there)), Some(true), "{there}");
    }
    for absent in ["d1000.example.", "w.z.example.", "nns.example.", "d7.example.net."] {
        assert_eq!(names.contains(&wire(absent)), Some(false), "{absent}");
    }
}

#[test]
fn a_zone_without_delegations_gives_its_owners() {
    let text = "example. 60 IN SOA ns.example. h.example. 1 2 3 4 5\nexample. 60 IN NS ns.example.net.\n";
    let names = Names::open(
        file(&format!("{text}a.example. 60 IN A 192.0.2.1\na.example. 60 IN TXT x\n")).path(),
        Seed(1),
        Want::Names,
    );
    let names = names.unwrap();
    assert_eq!(names.kind(), Kind::Owners);
    assert_eq!(all(&names), ["example.", "a.example."]);
}

#[test]
fn a_sample_is_fair_seeded_and_in_order() {
    let zone = zone();
    let mut hits = vec![0u32; 1001];
    let number =
        |text: &str| text.trim_start_matches('d').split('.').next().unwrap().parse().unwrap_or(1000usize);
    for seed in 0..200 {
        let names = Names::from_zone_limited(zone.path(), Seed(seed), Want::Names, 100, &mut |_| {}).unwrap();
        assert_eq!((names.len(), names.total(), names.is_sample()), (100, 1001, true));
        assert_eq!(names.contains(&wire("d1.example.")), None);
        let picked: Vec<usize> = all(&names).iter().map(|t| number(t)).collect();
        assert!(picked.is_sorted());
        picked.iter().for_each(|&n| hits[n] += 1);
    }
    // Each name is in a sample with p = 0.1: of 200 samples 20, standard deviation 4.2.
    assert!(hits.iter().all(|&h| (1..=44).contains(&h)), "{hits:?}");
    let mean = |part: &[u32]| f64::from(part.iter().sum::<u32>()) / part.len() as f64;
    assert!((mean(&hits[..100]) - 20.0).abs() < 2.5 && (mean(&hits[901..]) - 20.0).abs() < 2.5);
    let one = Names::from_zone_limited(zone.path(), Seed(5), Want::Names, 100, &mut |_| {}).unwrap();
    let again = Names::from_zone_limited(zone.path(), Seed(5), Want::Names, 100, &mut |_| {}).unwrap();
    assert_eq!(all(&one), all(&again));
}

#[test]
fn written_names_are_read_again() {
    let zone = zone();
    for limit in [100, NAMES_MAX] {
        let names = Names::from_zone_limited(zone.path(), Seed(1), Want::Names, limit, &mut |_| {}).unwrap();
        let mut out = Vec::new();
        names.write(&mut out).unwrap();
        let copy =
            Names::open(file(std::str::from_utf8(&out).unwrap()).path(), Seed(9), Want::Names).unwrap();
        assert_eq!(all(&copy), all(&names));
        assert_eq!(
            (copy.total(), copy.is_sample(), copy.kind(), copy.origin()),
            (names.total(), names.is_sample(), names.kind(), names.origin())
        );
    }
}

#[test]
fn plain_files_of_names_are_delegations_of_what_they_share() {
    let names =
        Names::open(file("# a comment\n\n a.example.com\nb.example.com.\n").path(), Seed(1), Want::Names)
            .unwrap();
    assert_eq!(names.origin(), wire("example.com."));
    assert_eq!(
        (names.kind(), all(&names)),
        (Kind::Delegations, vec!["a.example.com.".into(), "b.example.com.".into()])
    );
    assert_eq!(Names::open(file("com\nnet\n").path(), Seed(1), Want::Names).unwrap().origin(), wire("."));
    assert_eq!(
        Names::open(file("a.example.com\n").path(), Seed(1), Want::Names).unwrap().origin(),
        wire("example.com.")
    );
}

#[test]
fn bad_files_of_names_are_refused_by_line_and_column() {
    let error = |text: &str| {
        let file = file(text);
        let error = Names::from_file(file.path(), Seed(1)).err().expect("an error");
        error.to_string().replace(&file.path().display().to_string(), "FILE")
    };
    let long = format!("ok\n  a.{}\n", "x".repeat(64));
    assert_eq!(error(&long), "FILE:2:5: a label of more than 63 octets");
    assert_eq!(error("a b\n"), "FILE:1:2: more than a name: expected one name a line");
    assert_eq!(error("; only\n\n"), "FILE: no name in it: every line is blank or a comment");
    assert!(error("; dnsrack-names kind=other\n").starts_with("FILE:1:16: expected 'kind="));
    assert!(error(&"x".repeat(5000)).contains("FILE:1:4096: a line of more than"));
}
