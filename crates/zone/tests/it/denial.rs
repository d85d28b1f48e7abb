//! Denial of existence and zone digests, before independent checkers.

use crate::generate::zone_of;
use crate::sign::{CHECKERS, SPECIAL, an_hour_ago, count, run_checkers, sign_text};
use crate::support::{checker, records, root_zones, unxz};
use std::collections::BTreeSet;
use wire::rtype;
use zone::Family;
use zone::sign::{Algorithm, Nsec3, Options};

/// More that is out of the ordinary: names, a DNAME with nothing but itself, delegations only below an empty
/// non-terminal, and one that is signed there.
const ODD: &str = r#"a\.b.Odd TXT "a dot in a label"
\000.odd TXT "a zero octet" "and \"quotes\" \200"
\001.odd MX 5 X.Odd.EXAMPLE.
Y.ODD PTR X.Odd
only.insecure.below NS ns.elsewhere.org.
secure.other.below NS ns.elsewhere.org.
secure.other.below DS 12345 13 2 89F7670AFC091B199B47900E4CE4135B9463B7F74D3D19A1C732E78C345D4DE6
*.wild AAAA 2001:db8::7
*.deep.wild MX 10 mail
mail A 192.0.2.9
ptr PTR Some.Where.
"#;

fn special() -> String {
    // In canonical order no more: that is the sorter's work.
    let text = format!("{SPECIAL}{ODD}");
    // kzonecheck refuses whatever is below a DNAME.
    let text: String = text.split_inclusive('\n').filter(|l| !l.starts_with("below.dn")).collect();
    let scanner = zone::Scanner::new(std::io::Cursor::new(text), "special");
    let mut sorted = zone::sort::sorted(scanner, &mut |_| {}).unwrap();
    let mut out = Vec::new();
    while let Some(record) = zone::RecordSource::next(&mut sorted).unwrap() {
        zone::text::write_record(&record, &mut out);
    }
    String::from_utf8(out).unwrap()
}

/// NSEC, NSEC3 as RFC 9276 wants it, NSEC3 with all there is, opt-out.
fn denials() -> [Option<Nsec3>; 4] {
    let salted = Nsec3 { iterations: 5, salt: vec![0xab, 0xcd], opt_out: false };
    [None, Some(Nsec3::default()), Some(salted), Some(Nsec3 { opt_out: true, ..Nsec3::default() })]
}

#[test]
fn every_algorithm_denial_and_digest_verifies() {
    let zone = special();
    for algorithm in Algorithm::ALL {
        let keys = tempfile::tempdir().unwrap();
        for nsec3 in denials() {
            for zonemd in [false, true] {
                let options = Options {
                    keys: Some(keys.path().into()),
                    nsec3: nsec3.clone(),
                    zonemd,
                    ..Options::new(algorithm, an_hour_ago())
                };
                if algorithm == Algorithm::RsaSha1 && nsec3.is_some() {
                    let refused = sign_text(zone.as_bytes(), &options).err().unwrap().to_string();
                    assert!(refused.contains("RFC 5155 section 2"), "{refused}");
                    continue;
                }
                let (signed, summary) = sign_text(zone.as_bytes(), &options).unwrap();
                let opt_out = nsec3.as_ref().is_some_and(|n| n.opt_out);
                let ldns: &[&str] = match (opt_out, zonemd) {
                    // "It will error on opted-out delegations": then it looks at the digest alone.
                    (true, false) => &[],
                    (true, true) => &["-V", "1", "-ZZ"],
                    (false, false) => &["-V", "1"],
                    (false, true) => &["-V", "1", "-Z"],
                };
                run_checkers(&signed, "example.", &CHECKERS, ldns);
                assert_eq!(count(&signed, rtype::RRSIG) as u64, summary.signatures);
                assert_eq!(count(&signed, rtype::ZONEMD), usize::from(zonemd));
                assert_eq!(count(&signed, rtype::NSEC) == 0, nsec3.is_some());
                assert_eq!(count(&signed, rtype::NSEC3) == 0, nsec3.is_none());
            }
        }
    }
}

/// Hashes that RFC 5155 asks for, counted by hand in another way: from a set of all names.
#[test]
fn every_name_of_the_zone_and_no_other_has_its_hash() {
    let zone = special();
    let [plain, opted] = [false, true].map(|opt_out| {
        let nsec3 = Some(Nsec3 { opt_out, ..Nsec3::default() });
        let options = Options { nsec3, ..Options::new(Algorithm::Ed25519, an_hour_ago()) };
        records(&sign_text(zone.as_bytes(), &options).unwrap().0).unwrap()
    });
    let lower = |owner: &[u8]| owner.to_ascii_lowercase();
    let all = records(zone.as_bytes()).unwrap();
    let apex = lower(&all[0].0);
    let has = |owner: &[u8], t: u16| all.iter().any(|r| lower(&r.0) == owner && r.2 == t);
    for (opt_out, signed) in [(false, plain), (true, opted)] {
        let mut names = BTreeSet::new();
        'records: for record in &all {
            let owner = lower(&record.0);
            let mut above = wire::name::parent(&owner);
            while above.len() > apex.len() {
                if has(above, rtype::NS) || has(above, rtype::DNAME) {
                    continue 'records;
                }
                above = wire::name::parent(above);
            }
            if opt_out && owner != apex && has(&owner, rtype::NS) && !has(&owner, rtype::DS) {
                continue;
            }
            let mut name = &owner[..];
            while name.len() >= apex.len() {
                names.insert(name.to_vec());
                name = wire::name::parent(name);
            }
        }
        let hashed = signed.iter().filter(|r| r.2 == rtype::NSEC3).count();
        assert_eq!(hashed, names.len(), "opt-out {opt_out}");
    }
}

#[test]
fn all_real_root_zones_sign_and_verify() {
    // Each with another algorithm, denial and checker, so that all of them meet real data in little time.
    for (i, path) in root_zones().iter().enumerate() {
        let algorithm = match i {
            1 => Algorithm::EcdsaP384Sha384,
            _ => [Algorithm::EcdsaP256Sha256, Algorithm::Ed25519][i / 2 % 2],
        };
        let nsec3 = denials()[i % 4].clone();
        // ldns takes minutes for an NSEC3 chain of this length: its time grows with the square.
        let checker = match nsec3 {
            None => "ldns-verify-zone",
            Some(_) => ["dnssec-verify", "kzonecheck"][i / 4 % 2],
        };
        let options = Options { nsec3, zonemd: true, ..Options::new(algorithm, an_hour_ago()) };
        let (signed, summary) = sign_text(&unxz(path), &options).unwrap();
        run_checkers(&signed, ".", &[checker], &["-V", "1", "-Z"]);
        assert_eq!(summary.denial, ["NSEC", "NSEC3", "NSEC3", "NSEC3 with opt-out"][i % 4]);
    }
}

#[test]
fn a_digest_of_another_zone_does_not_verify() {
    let options = Options { zonemd: true, ..Options::new(Algorithm::Ed25519, an_hour_ago()) };
    let (signed, _) = sign_text(&zone_of(Family::S6Ds50, 300, 1).0, &options).unwrap();
    let text = String::from_utf8(signed).unwrap();
    run_checkers(text.as_bytes(), ".", &CHECKERS, &["-V", "1", "-ZZ"]);
    // Glue is signed by nobody, but digested.
    let at = text.find("\tAAAA\t").unwrap() + 6;
    let digit = if text.as_bytes()[at] == b'2' { "3" } else { "2" };
    let changed = format!("{}{digit}{}", &text[..at], &text[at + 1..]);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("changed");
    std::fs::write(&file, changed).unwrap();
    let Some(out) = checker("ldns-verify-zone", &["-V", "1", "-ZZ", file.to_str().unwrap()]) else { return };
    assert!(!out.status.success());
}
