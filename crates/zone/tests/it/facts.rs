//! Verdicts on zones, and profiles fitted from zones.

use crate::generate::zone_of;
use crate::support::{root_zones, unxz};
use zone::conformance::{self, Published};
use zone::{Family, Info, Profile, fit, info};

fn info_of(text: &[u8]) -> Info {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), text).unwrap();
    info(file.path(), &mut |_| {}).unwrap()
}

/// Rows of table 1.1.
const ROWS: [(Family, u64, [u64; 4]); 5] = [
    (Family::U4Ds0, 1_000, [5_577, 5_114, 233, 0]),
    (Family::U4Ds0, 10_000, [55_222, 54_759, 727, 0]),
    (Family::U6Ds0, 10_000, [55_121, 54_658, 53_766, 0]),
    (Family::S6Ds10, 1_000, [5_521, 5_058, 4_166, 172]),
    (Family::S6Ds100, 10_000, [55_519, 55_056, 54_164, 19_440]),
];

#[test]
fn a_zone_is_within_the_bounds_of_its_row_alone() {
    let rows =
        ROWS.map(|(family, delegations, records)| Published { family, delegations, records, bytes: 1 });
    for row in rows {
        let info = info_of(&zone_of(row.family, row.delegations, 5).0);
        for other in &rows {
            let verdict = conformance::published(&info, other);
            assert_eq!(verdict.within, *other == row, "{row:?}: {verdict:?}");
        }
        for record in 0..4 {
            // A third more than published is out.
            let mut wrong = row;
            wrong.records[record] += row.records[record] / 3 + 20;
            let verdict = conformance::published(&info, &wrong);
            let out: Vec<usize> = (0..5).filter(|&i| !verdict.findings[i].within).collect();
            assert_eq!(out, [record + 1], "{verdict:?}");
        }
    }
}

#[test]
fn bounds_are_those_of_the_draws() {
    let info = info_of(&zone_of(Family::U4Ds0, 1000, 5).0);
    let row =
        Published { family: Family::U4Ds0, delegations: 1000, records: [5_577, 5_114, 233, 0], bytes: 1 };
    let verdict = conformance::published(&info, &row);
    let half = |i: usize| (verdict.findings[i].bound[1] - verdict.findings[i].bound[0]) / 2.0;
    // 720 TLDs with 1.6 servers more or less; 36 of 4,900 servers have AAAA; nothing is drawn for DS.
    assert!((100.0..200.0).contains(&half(1)), "{verdict:?}");
    assert!((15.0..25.0).contains(&half(3)), "{verdict:?}");
    assert_eq!(half(4), 0.0);
}

#[test]
fn a_real_root_zone_fits_its_own_profile_and_no_other() {
    let Some(path) = root_zones().pop() else { return };
    let text = unxz(&path);
    let info = info_of(&text);
    let fitted = fit(&info).unwrap();
    let again = Profile::parse(&fitted.to_toml(), "fitted.toml").unwrap();
    assert_eq!(again, fitted, "what is written can be read");
    let verdict = conformance::profile(&info, &fitted, "itself");
    assert!(verdict.within, "{verdict:#?}");
    assert_eq!((fitted.delegations, fitted.apex.servers.len()), (1438, 13));
    assert_eq!((fitted.apex.origin.as_str(), fitted.ns.ttl, fitted.ds.ttl), (".", 172_800, 86_400));
    assert!((0.02..0.2).contains(&fitted.servers.providers), "{:?}", fitted.servers);

    // Every property is checked.
    type Change = fn(&mut Profile);
    let wrong: [(&str, Change); 13] = [
        ("zone is the profile's", |p| p.apex.origin = "org.".to_owned()),
        ("IDN share", |p| p.labels.idn = 0.3),
        ("label lengths", |p| p.labels.lengths = [(7, 1.0)].into()),
        ("NS per delegation", |p| p.ns.counts = [(4, 1.0)].into()),
        ("NS inside their delegation", |p| p.servers.inside = 0.5),
        ("delegations of the busiest server", |p| p.servers.exponent = 0.0),
        ("servers elsewhere by name above", |p| {
            p.servers.under = [("com.", 9.0), ("net.", 1.0)].map(|(n, w)| (n.to_owned(), w)).into()
        }),
        ("glue with A", |p| p.glue.a = 0.9),
        ("glue with AAAA", |p| p.glue.aaaa = 0.5),
        ("DS share", |p| p.ds.share = 0.5),
        ("DS per delegation", |p| p.ds.counts = [(2, 1.0)].into()),
        ("DS algorithms", |p| p.ds.algorithms = [(13, 1.0)].into()),
        ("TTL of DS", |p| p.ds.ttl = 1),
    ];
    for (what, change) in wrong {
        let mut profile = fitted.clone();
        change(&mut profile);
        let verdict = conformance::profile(&info, &profile, what);
        let found = verdict.findings.iter().find(|f| f.what == what).unwrap();
        assert!(!verdict.within && !found.within, "{what}: {found:?}");
    }
}

#[test]
fn all_root_zones_are_like_each_other() {
    let zones: Vec<Info> = root_zones().iter().map(|path| info_of(&unxz(path))).collect();
    let Some(first) = zones.first() else { return };
    let profile = fit(first).unwrap();
    for info in &zones {
        assert!(info.in_order && info.signed && info.denial == "NSEC");
        let verdict = conformance::profile(info, &profile, "the first");
        assert!(verdict.within, "{}: {verdict:#?}", info.serial);
    }
}

#[test]
fn a_signed_zone_gives_the_profile_of_the_unsigned_one() {
    use zone::sign::{Algorithm, Options};
    use zone::{Scanner, sign};
    let text = zone_of(Family::S6Ds50, 2000, 3).0;
    let mut signed = Vec::new();
    let mut source = Scanner::new(std::io::Cursor::new(text.clone()), "zone");
    sign(&mut source, &Options::new(Algorithm::Ed25519, 0), &mut signed, &mut |_| {}).unwrap();
    let signed = info_of(&signed);
    assert!(signed.signed);
    assert_eq!(fit(&signed), fit(&info_of(&text)));
}

#[test]
fn nothing_passes_for_a_zone_of_delegations() {
    let info = info_of(b"$TTL 1\n. SOA a. b. 1 1 1 1 1\n");
    let verdict = conformance::profile(&info, &Profile::load("ROOT").unwrap(), "ROOT");
    assert!(!verdict.within, "{verdict:?}");
}

/// Fitted from the real root zone, generated at its size and at others, checked, and fitted again.
#[test]
fn what_is_fitted_can_be_generated_and_checked() {
    let generated = |profile: &Profile, delegations: u64| {
        let mut text = Vec::new();
        zone::generate(profile.clone(), delegations, measure::Seed(9), &mut text, &mut |_| {}).unwrap();
        info_of(&text)
    };
    let real = root_zones().pop().map(|path| fit(&info_of(&unxz(&path))).unwrap());
    let profiles = ["COM", "PT", "ROOT"].map(|name| Profile::load(name).unwrap());
    for profile in profiles.iter().chain(&real) {
        for delegations in [1_438, 10_000, 60_000] {
            let info = generated(profile, delegations);
            let verdict = conformance::profile(&info, profile, &profile.about);
            let out: Vec<_> = verdict.findings.iter().filter(|f| !f.within).collect();
            assert!(verdict.within, "{delegations}, {}: {out:?}", profile.about);
            let again = fit(&info).unwrap();
            let verdict = conformance::profile(&info, &again, "again");
            let out: Vec<_> = verdict.findings.iter().filter(|f| !f.within).collect();
            assert!(verdict.within, "{delegations}: {out:?} {:?}", again.servers);
        }
    }
}
