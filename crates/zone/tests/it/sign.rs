//! Signed zones against independent checkers.

use crate::generate::zone_of;
use crate::support::{checker, records, root_zones, sha256, unxz};
use measure::{Nanos, Seed, clock};
use std::io::Cursor;
use std::path::Path;
use wire::name::{self, Name};
use wire::rtype;
use zone::sign::{Algorithm, Options, Summary};
use zone::{Error, Family, Scanner, generate_signed, sign};

pub fn an_hour_ago() -> u32 {
    let now: Nanos = clock::wall();
    (now / clock::SECOND) as u32 - 3600
}

pub fn sign_text(text: &[u8], options: &Options) -> Result<(Vec<u8>, Summary), Error> {
    let mut source = Scanner::new(Cursor::new(text.to_vec()), "test.zone");
    let mut out = Vec::new();
    let summary = sign(&mut source, options, &mut out, &mut |_| {})?;
    assert_eq!((summary.source_bytes, summary.bytes), (text.len() as u64, out.len() as u64));
    Ok((out, summary))
}

/// A family's zone, made and signed in one pass.
fn one_pass(
    family: Family,
    delegations: u64,
    seed: u64,
    options: &Options,
    out: &mut impl std::io::Write,
) -> Result<(zone::generate::Summary, Summary), Error> {
    let (made, signed) = generate_signed(
        family.name(),
        |out, progress| zone::generate(family, delegations, Seed(seed), out, progress),
        options,
        out,
        &mut |_| {},
    )?;
    assert_eq!(signed.source_bytes, made.bytes);
    Ok((made, signed))
}

/// dnssec-verify, ldns-verify-zone, kzonecheck and named-checkzone all take the zone.
pub fn verify(text: &[u8], origin: &str) {
    run_checkers(text, origin, &CHECKERS, &["-V", "1"]);
}

/// All checkers.
pub const CHECKERS: [&str; 4] = ["dnssec-verify", "kzonecheck", "named-checkzone", "ldns-verify-zone"];

/// Some of them, with arguments for ldns-verify-zone; none where it is not to be asked.
pub fn run_checkers(text: &[u8], origin: &str, programs: &[&str], ldns: &[&str]) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("signed");
    std::fs::write(&file, text).unwrap();
    let file = file.to_str().unwrap();
    for (program, args) in [
        ("dnssec-verify", vec!["-q", "-x", "-o", origin, file]),
        ("kzonecheck", vec!["-d", "on", "-o", origin, file]),
        ("named-checkzone", vec!["-q", "-i", "local", origin, file]),
        ("ldns-verify-zone", [ldns, &[file]].concat()),
    ] {
        let refused = program == "kzonecheck" && text.windows(8).any(|w| w == b"below.dn");
        if !programs.contains(&program) || args.len() == 1 || refused {
            continue;
        }
        let Some(out) = checker(program, &args) else { continue };
        let said = [out.stdout, out.stderr].concat();
        assert!(
            out.status.success(),
            "{program} {args:?}: {}",
            String::from_utf8_lossy(&said[..said.len().min(2000)])
        );
    }
}

pub fn count(text: &[u8], wanted: u16) -> usize {
    records(text).unwrap().iter().filter(|r| r.2 == wanted).count()
}

/// Everything that makes signing other than copying.
pub const SPECIAL: &str = r#"$ORIGIN Example.
$TTL 3600
@ SOA Ns1 Host.Master 7 1h 15m 1w 600
@ NS Ns1
@ NS ns2.Deleg
@ MX 10 Mail.Sub.Example.
@ DNSKEY 256 3 8 AwEAAaz/
@ ZONEMD 7 1 1 5EECFE70FD07ADC33BC8F863090797200D9BFC20673DE752FECE9D668D12D36E5529DEEE33781F8AF54604ED4DF83586
@ NSEC a.Example. SOA NSEC
@ RRSIG SOA 8 1 3600 20260902050000 20260820040000 57780 @ ehDz/goJiEywIXCsnosaWg==
b.c.d.deep TXT "two empty non-terminals above"
deleg NS ns2.deleg
deleg NS Ns.Elsewhere.Org.
deleg A 192.0.2.77
deleg DS 12345 13 2 89F7670AFC091B199B47900E4CE4135B9463B7F74D3D19A1C732E78C345D4DE6
ns2.deleg A 192.0.2.2
sub.ns2.deleg NS occluded.example.
txt.deleg TXT "occluded"
dn DNAME Elsewhere.Org.
below.dn TXT "occluded by the DNAME"
hosts A 192.0.2.3
hosts A 192.0.2.1
hosts A 192.0.2.3
hosts 60 A 192.0.2.2
hosts AAAA 2001:db8::1
ns1 A 192.0.2.4
_s._tcp.srv SRV 1 2 53 Target.EXAMPLE.
naptr.srv NAPTR 100 10 "u" "E2U+sip" "!^.*$!sip:I@example.!" Repl.Example.
unknown TYPE65280 \# 4 0A00BEEF
unsigned NS ns.unsigned
ns.unsigned A 192.0.2.5
*.wild TXT "wildcard"
"#;

#[test]
fn special_zones_verify_with_every_algorithm() {
    let named = |name| Options::named(name, an_hour_ago()).unwrap();
    assert!(Options::named("rzaia-2010", 0).unwrap_err().contains("RSASHA1, rzaia or rzaia-2009"));
    let mut all = vec![named("rzaia"), named("rzaia-2009")];
    for algorithm in ["ECDSAP256SHA256", "ED25519", "RSASHA512"] {
        all.push(Options::new(algorithm.parse().unwrap(), an_hour_ago()));
    }
    for options in all {
        let (signed, summary) = sign_text(SPECIAL.as_bytes(), &options).unwrap();
        verify(&signed, "example.");
        // DNSKEY, ZONEMD, NSEC, RRSIG of the input.
        assert_eq!((summary.dropped, summary.delegations, summary.serial), (4, 2, 7));
        assert_eq!(summary.records, records(&signed).unwrap().len() as u64);
        assert_eq!(count(&signed, rtype::RRSIG) as u64, summary.signatures);
        assert_eq!(count(&signed, rtype::ZONEMD), 0);
        let owners: Vec<String> = records(&signed)
            .unwrap()
            .iter()
            .filter(|r| r.2 == rtype::NSEC)
            .map(|r| Name::from_wire(&r.0).unwrap().to_string().to_lowercase())
            .collect();
        let expected = [
            "",
            "b.c.d.deep.",
            "deleg.",
            "dn.",
            "hosts.",
            "ns1.",
            "_s._tcp.srv.",
            "naptr.srv.",
            "unknown.",
            "unsigned.",
            "*.wild.",
        ];
        assert_eq!(owners, expected.map(|o| format!("{o}example.")));
    }
}

#[test]
fn families_verify_signed_in_one_pass_or_two() {
    for (family, options) in [
        (Family::S6Ds10, Options::rzaia(an_hour_ago())),
        (Family::S6Ds100, Options::new(Algorithm::EcdsaP256Sha256, an_hour_ago())),
        (Family::U4Ds0, Options::new(Algorithm::Ed25519, an_hour_ago())),
    ] {
        let (unsigned, _) = zone_of(family, 600, 5);
        let (signed, summary) = sign_text(&unsigned, &options).unwrap();
        verify(&signed, ".");
        assert_eq!(summary.delegations, 600);
        // SOA, NS, DNSKEY; an NSEC at the apex and every delegation; DS where there are some.
        let signed_tlds = if family == Family::U4Ds0 { 0 } else { count(&signed, rtype::DS) as u64 / 2 };
        assert_eq!(summary.signatures, 3 + 1 + 600 + signed_tlds);
        let mut out = Vec::new();
        let (made, again) = one_pass(family, 600, 5, &options, &mut out).unwrap();
        verify(&out, ".");
        assert_eq!(
            (made.delegations, again.signatures, again.records),
            (600, summary.signatures, summary.records)
        );
    }
}

#[test]
fn keys_and_time_make_the_bytes() {
    let keys = tempfile::tempdir().unwrap();
    let options =
        Options { keys: Some(keys.path().into()), ..Options::new(Algorithm::Ed25519, 1_800_000_000) };
    let (zone, _) = zone_of(Family::S6Ds50, 400, 1);
    let (one, summary) = sign_text(&zone, &options).unwrap();
    let (two, _) = sign_text(&zone, &options).unwrap();
    assert_eq!(sha256(&one), sha256(&two));
    let mut out = Vec::new();
    one_pass(Family::S6Ds50, 400, 1, &options, &mut out).unwrap();
    assert_eq!(sha256(&one), sha256(&out), "in one pass as in two");
    let key = std::fs::read_dir(keys.path()).unwrap().count();
    assert_eq!(key, 4, "two key pairs");
    assert!(summary.trust_anchor.contains("static-key 257 3 15"), "{}", summary.trust_anchor);
    let text = String::from_utf8(one).unwrap();
    assert!(text.contains(" 20270122080000 20270115080000 "), "seven days from the inception");
}

#[test]
fn keys_of_bind_are_taken() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path().to_str().unwrap();
    for (algorithm, number) in [("ECDSAP256SHA256", 13), ("RSASHA256", 8), ("ED25519", 15)] {
        for ksk in [true, false] {
            let mut args = vec!["-a", algorithm, "-K", at];
            args.extend(if number == 8 { &["-b", "2048"][..] } else { &[] });
            args.extend(if ksk { &["-f", "KSK", "."][..] } else { &["."] });
            let Some(out) = checker("dnssec-keygen", &args) else { return };
            assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
        }
        let mut options = Options::new(algorithm.parse().unwrap(), an_hour_ago());
        options.keys = Some(folder.path().into());
        let (signed, summary) = sign_text(&zone_of(Family::S6Ds50, 300, 1).0, &options).unwrap();
        verify(&signed, ".");
        let name = format!("K.+{number:03}+{:05}.key", summary.key_tags[0]);
        assert!(folder.path().join(&name).exists(), "{name} signs");
        // The DS that BIND makes of the same key.
        let file = folder.path().join(&name);
        let ds = checker("dnssec-dsfromkey", &["-2", file.to_str().unwrap()]).unwrap();
        let ds = String::from_utf8(ds.stdout).unwrap();
        assert_eq!(ds.split_whitespace().last(), summary.ds.split_whitespace().last());
    }
}

#[test]
fn the_newest_real_root_zone_signs_and_verifies() {
    let Some(path) = root_zones().pop() else { return };
    let text = unxz(&path);
    let (signed, summary) =
        sign_text(&text, &Options::new(Algorithm::EcdsaP256Sha256, an_hour_ago())).unwrap();
    verify(&signed, ".");
    let dropped = [rtype::RRSIG, rtype::NSEC, rtype::DNSKEY, rtype::ZONEMD]
        .map(|t| count(&text, t))
        .iter()
        .sum::<usize>();
    assert_eq!(summary.dropped, dropped as u64);
    assert_eq!(count(&signed, rtype::NSEC) as u64, summary.delegations + 1);
}

#[test]
fn much_glue_goes_through_temporary_storage() {
    // About 13 MB of glue below one delegation.
    let mut zone = String::from("$TTL 60\n. SOA . . 1 1 1 1 1\n. NS a.org.\ncom. NS a.com.\n");
    for i in 0..300_000 {
        zone += &format!("a{i:07}.com. A 192.0.2.1\n");
    }
    zone += "org. NS a.org.\na.org. A 192.0.2.2\n";
    let (signed, summary) =
        sign_text(zone.as_bytes(), &Options::new(Algorithm::Ed25519, an_hour_ago())).unwrap();
    assert_eq!(summary.records, 300_005 + 2 + 3 + summary.signatures);
    let all = records(&signed).unwrap();
    let glue: Vec<&[u8]> = all.iter().filter(|r| r.2 == rtype::A).map(|r| &r.0[..]).collect();
    assert_eq!(glue.len(), 300_001);
    assert!(glue.windows(2).all(|w| name::canonical_cmp(w[0], w[1]).is_lt()), "in order");
}

#[test]
fn what_cannot_be_signed_says_why() {
    let options = Options::new(Algorithm::Ed25519, 1_800_000_000);
    let unsorted = "$TTL 1\n. SOA . . 1 1 1 1 1\nb. NS a.\n; comment\na. NS a.\n";
    let error = sign_text(unsorted.as_bytes(), &options).unwrap_err().to_string();
    assert!(error.starts_with("test.zone:5: a. comes after b., out of canonical order"), "{error}");
    assert!(error.contains("sort the zone first"), "{error}");
    let broken = "$TTL 1\n. SOA . . 1 1 1 1 1\nb. NS a.\na. A 1.2.3\n";
    let error = sign_text(broken.as_bytes(), &options).unwrap_err().to_string();
    assert!(error.starts_with("test.zone:4:6: '1.2.3': expected an IPv4 address"), "{error}");
    let missing = Options { keys: Some("/nonexistent".into()), ..options.clone() };
    let error = sign_text(SPECIAL.as_bytes(), &missing).unwrap_err().to_string();
    assert!(error.contains("/nonexistent: No such file"), "{error}");

    let (zone, _) = zone_of(Family::U6Ds0, 3000, 1);
    let mut source = Scanner::new(Cursor::new(zone), "test.zone");
    let mut full = std::fs::File::options().write(true).open(Path::new("/dev/full")).unwrap();
    let error = sign(&mut source, &options, &mut full, &mut |_| {}).unwrap_err();
    assert!(matches!(error, Error::Write(_)), "{error}");
    let error = one_pass(Family::U6Ds0, 3000, 1, &options, &mut full).unwrap_err();
    assert!(error.to_string().contains("No space left"), "{error}");
    let error = one_pass(Family::U6Ds0, 0, 1, &options, &mut Vec::new()).unwrap_err();
    assert!(error.to_string().contains("give a number from 1"), "{error}");
}
