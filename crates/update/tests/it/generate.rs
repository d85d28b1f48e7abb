//! Streams over a model of their zone.

use crate::model::Model;
use crate::support::{spec, stream, zone_file};
use measure::Seed;
use proptest::prelude::*;
use std::collections::BTreeSet;
use update::generate::{Mix, SeriesSpec, Signing, Spec, generate, series};
use wire::rtype;
use zone::Family;
use zone::sign::verify::{NsecData, Rrsig, Verification, verify};

const FAMILIES: [Family; 4] = [Family::U4Ds0, Family::U6Ds0, Family::S6Ds50, Family::Com];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn what_is_deleted_exists_and_what_is_added_does_not(
        family in 0usize..FAMILIES.len(),
        parts in (0u32..4, 0u32..3, 1u32..5),
        count in 1u64..400,
        batch in 1u32..12,
        prerequisites: bool,
        seed: u64,
    ) {
        let dir = tempfile::tempdir().unwrap();
        let zone = zone_file(dir.path(), FAMILIES[family], 500);
        let mix = Mix { add: parts.0, delete: parts.1, modify: parts.2 };
        let spec = Spec { batch, prerequisites, seed: Seed(seed), ..spec(&zone, mix, count) };
        let before = Model::read(&std::fs::read(&zone).unwrap());
        let mut text = Vec::new();
        match generate(&spec, &mut text, &mut |_| ()) {
            Ok(made) => {
                let mut after = before.clone();
                let transactions = after.play(&text[..]);
                prop_assert_eq!((made.adds + made.deletes + made.modifies, made.transactions), (count, transactions));
                after.check_glue(&before);
                prop_assert!(prerequisites || transactions == count.div_ceil(batch.into()));
            }
            // More was to be deleted than there is.
            Err(e) => prop_assert!(e.to_string().contains("no delegation left"), "{}", e),
        }
    }
}

#[test]
fn the_mix_is_what_the_seeds_say() {
    let dir = tempfile::tempdir().unwrap();
    let zone = zone_file(dir.path(), Family::U4Ds0, 1000);
    let (_, made) = stream(&spec(&zone, Mix::ISC, 300));
    assert_eq!((made.adds, made.deletes, made.modifies, made.transactions), (100, 100, 100, 300));
    assert_eq!((made.origin.as_str(), made.delegations, made.signed), (".", 1000, false));
    let (text, made) = stream(&spec(&zone, Mix::RZAIA, 500));
    assert_eq!((made.adds, made.deletes, made.modifies, made.transactions), (50, 50, 400, 50));
    // Each transaction has the whole mix: one name is added, with its NS records.
    let text = String::from_utf8(text).unwrap();
    for transaction in text.split("send\n").filter(|t| t.contains("update")) {
        let deleted =
            transaction.lines().filter(|l| l.starts_with("update delete") && l.ends_with(" NS")).count();
        assert_eq!(deleted, 1, "{transaction}");
    }
}

#[test]
fn one_seed_is_one_stream() {
    let dir = tempfile::tempdir().unwrap();
    let zone = zone_file(dir.path(), Family::S6Ds50, 600);
    let hash = |spec: &Spec| wire::question::hash_octets(&stream(spec).0);
    let isc = spec(&zone, Mix::ISC, 200);
    assert_eq!(hash(&isc), hash(&isc));
    assert_ne!(hash(&isc), hash(&Spec { seed: Seed(2), ..isc.clone() }));
    let rzaia = Spec { prerequisites: true, ..spec(&zone, Mix::RZAIA, 200) };
    assert_eq!([hash(&isc), hash(&rzaia)], GOLDEN, "a change that alters streams must be meant");
}

const GOLDEN: [u64; 2] = [14_329_148_745_088_302_959, 12_530_089_830_196_152_069];

/// The keys verify what is signed, and NSEC records are one ring through all names that the zone has.
fn is_whole(model: &Model) {
    let set = |owner: &[u8], rtype: u16| model.0.get(&(owner.to_vec(), rtype));
    let keys: Vec<&[u8]> = set(b"\0", rtype::DNSKEY).unwrap().iter().map(Vec::as_slice).collect();
    let mut names: Vec<&Vec<u8>> =
        model.0.keys().filter(|(_, t)| *t == rtype::NS).map(|(name, _)| name).collect();
    names.sort_by(|a, b| wire::name::canonical_cmp(a, b));
    let denied: BTreeSet<&Vec<u8>> = model
        .0
        .keys()
        .filter(|(_, t)| matches!(*t, rtype::NSEC | rtype::RRSIG))
        .map(|(name, _)| name)
        .collect();
    assert_eq!(denied, names.iter().copied().collect(), "names with NSEC, or signatures alone");
    for (n, name) in names.iter().enumerate() {
        let nsec: Vec<&Vec<u8>> = set(name, rtype::NSEC).unwrap().iter().collect();
        let [nsec] = nsec[..] else { panic!("{name:?} has {} NSEC records", nsec.len()) };
        let nsec = NsecData::parse(nsec).unwrap();
        assert!(
            wire::name::equal(nsec.next, names[(n + 1) % names.len()]),
            "{name:?} is followed by {:?}",
            nsec.next
        );
        // What is signed: at the apex all, at a delegation what the zone answers for.
        let here: Vec<u16> = model.0.keys().filter(|(owner, _)| owner == *name).map(|(_, t)| *t).collect();
        let own =
            |t: &u16| **name == b"\0" || matches!(*t, rtype::NS | rtype::DS | rtype::RRSIG | rtype::NSEC);
        assert_eq!(nsec.types, here.iter().copied().filter(own).collect::<Vec<_>>(), "{name:?}");
        let signed = |t: &u16| *t != rtype::RRSIG && (**name == b"\0" || *t != rtype::NS);
        let mut covered = Vec::new();
        for rrsig in set(name, rtype::RRSIG).unwrap() {
            let rrsig = Rrsig::parse(rrsig).unwrap();
            let rdatas: Vec<&[u8]> = set(name, rrsig.covered).unwrap().iter().map(Vec::as_slice).collect();
            assert_eq!(
                verify(name, 1, &rdatas, &rrsig, &keys),
                Verification::Valid,
                "{name:?} {}",
                rrsig.covered
            );
            covered.push(rrsig.covered);
        }
        covered.sort_unstable();
        assert_eq!(covered, nsec.types.iter().copied().filter(signed).collect::<Vec<_>>(), "{name:?}");
    }
}

#[test]
fn a_stream_with_signatures_leaves_a_zone_that_is_wholly_signed() {
    let dir = tempfile::tempdir().unwrap();
    let (keys, zone) = (dir.path().join("keys"), dir.path().join("signed"));
    std::fs::create_dir(&keys).unwrap();
    let options = zone::sign::Options {
        keys: Some(keys.clone()),
        ..zone::sign::Options::new(zone::sign::Algorithm::Ed25519, 1_000)
    };
    let plain = zone_file(dir.path(), Family::S6Ds50, 400);
    let mut text = Vec::new();
    zone::sign(&mut zone::Scanner::open(&plain).unwrap(), &options, &mut text, &mut |_| {}).unwrap();
    std::fs::write(&zone, &text).unwrap();
    let before = Model::read_whole(&text);
    is_whole(&before);
    let serial = |model: &Model| {
        let soa = &model.0[&(b"\0".to_vec(), rtype::SOA)];
        zone::probe::soa_serial(soa.first().unwrap())
    };
    let sign = Some(Signing { keys, inception: 1_000, validity: 500 });
    for (mix, count, batch) in
        [(Mix::ISC, 300, 1), (Mix::RZAIA, 300, 10), (Mix { add: 1, delete: 3, modify: 0 }, 200, 7)]
    {
        let (stream, made) = stream(&Spec { batch, sign: sign.clone(), ..spec(&zone, mix, count) });
        let mut after = before.clone();
        assert_eq!(after.play(&stream[..]), made.transactions);
        is_whole(&after);
        assert_eq!(u64::from(serial(&after)), u64::from(serial(&before)) + made.transactions);
    }
    let unsigned = Spec { sign: sign.clone(), ..spec(&plain, Mix::ISC, 3) };
    let error = generate(&unsigned, &mut Vec::new(), &mut |_| ()).unwrap_err().to_string();
    assert!(error.contains("no NSEC records"), "{error}");
}

#[test]
fn zones_out_of_order_and_shared_servers_are_understood() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("zone");
    let mut text = "$ORIGIN test.\n$TTL 60\n@ SOA a b 7 1 1 1 1\n@ NS ns.elsewhere.\n".to_owned();
    // Glue apart from its delegation, as in the COM zone; all use the servers inside the first.
    for n in 0..40 {
        text += &format!("d{n} NS ns.d0\nd{n} NS ns.d{n}\n");
    }
    for n in 0..40 {
        text += &format!("ns.d{n} A 10.0.0.{n}\n");
    }
    std::fs::write(&path, &text).unwrap();
    let only_deletes = Spec { ..spec(&path, Mix { add: 0, delete: 1, modify: 0 }, 39) };
    let (stream, made) = stream(&only_deletes);
    let before = Model::read(text.as_bytes());
    let mut after = before.clone();
    after.play(&stream[..]);
    assert!(after.has_name(b"\x02d0\x04test\x00") && after.has_name(b"\x02ns\x02d0\x04test\x00"));
    assert_eq!((after.0.len(), made.deletes, made.kept), (3, 39, 1), "the apex, d0 and its server stay");
    let error =
        generate(&Spec { count: 40, ..only_deletes }, &mut Vec::new(), &mut |_| ()).unwrap_err().to_string();
    assert!(
        error.starts_with("after 39 changes the zone has no delegation left that can be deleted"),
        "{error}"
    );
}

#[test]
fn nothing_to_change_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("zone");
    std::fs::write(&path, "test. 60 SOA a. b. 7 1 1 1 1\ntest. 60 NS a.\n").unwrap();
    let error = |spec: &Spec| generate(spec, &mut Vec::new(), &mut |_| ()).unwrap_err().to_string();
    assert!(error(&spec(&path, Mix::ISC, 5)).ends_with("no delegation in it: there is nothing to change"));
    assert!(error(&spec(&path, Mix::ISC, 0)).contains("--count"));
    assert!(error(&spec(&dir.path().join("none"), Mix::ISC, 1)).contains("none: "));
    assert!(error(&spec(std::path::Path::new("/dev/null"), Mix::ISC, 1)).contains("a regular file"));
}

#[test]
fn a_series_turns_each_version_into_the_next() {
    let dir = tempfile::tempdir().unwrap();
    let first = zone_file(dir.path(), Family::S6Ds50, 500);
    // A second and a third version: what a stream and some more make of the first.
    let mut versions = vec![std::fs::read_to_string(&first).unwrap()];
    for (n, extra) in
        [". 518400 IN NS z.root-servers.net.\n", "aaa. 5 IN NS ns.aaa.\nns.aaa. 5 IN A 10.1.1.1\n"]
            .iter()
            .enumerate()
    {
        let last = versions.last().unwrap();
        let mut lines: Vec<String> = last.lines().map(str::to_owned).collect();
        // Leaves out some delegations' lines and changes the serial.
        lines.retain(|l| !(l.contains("\tDS\t") && l.len() % 3 == n));
        let text = lines.join("\n") + "\n" + extra;
        versions.push(text);
    }
    let paths: Vec<_> = versions
        .iter()
        .enumerate()
        .map(|(n, text)| {
            let path = dir.path().join(format!("version-{n}"));
            std::fs::write(&path, text).unwrap();
            path
        })
        .collect();
    for (batch, prerequisites) in [(0, false), (7, true)] {
        let spec = SeriesSpec { batch, prerequisites, ..SeriesSpec::new(&paths[0], paths[1..].to_vec()) };
        let mut text = Vec::new();
        let made = series(&spec, &mut text, &mut |_| ()).unwrap();
        let mut model = Model::read(versions[0].as_bytes());
        let transactions = model.play(&text[..]);
        assert_eq!((made.versions, made.transactions), (2, transactions));
        assert_eq!(model, Model::read(versions[2].as_bytes()));
    }
}

#[test]
fn the_real_root_zones_follow_each_other() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/root-zone");
    let mut packed: Vec<_> = std::fs::read_dir(&folder)
        .map(|entries| {
            entries
                .filter_map(|e| Some(e.ok()?.path()))
                .filter(|p| p.extension().is_some_and(|e| e == "xz"))
                .collect()
        })
        .unwrap_or_default();
    packed.sort();
    if packed.is_empty() {
        eprintln!("SKIPPED: no real root zones in {}", folder.display());
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let paths: Vec<_> = packed
        .iter()
        .map(|packed| {
            let out =
                std::process::Command::new("xz").arg("-dc").arg(packed).output().expect("xz is installed");
            let path = dir.path().join(packed.file_stem().unwrap());
            std::fs::write(&path, out.stdout).unwrap();
            path
        })
        .collect();
    let spec = SeriesSpec { prerequisites: true, ..SeriesSpec::new(&paths[0], paths[1..].to_vec()) };
    let mut text = Vec::new();
    let made = series(&spec, &mut text, &mut |_| ()).unwrap();
    let read = |n: usize| Model::read(&std::fs::read(&paths[n]).unwrap());
    let mut model = read(0);
    model.play(&text[..]);
    assert!(model == read(paths.len() - 1), "after {made:?}");
    assert_eq!(made.versions as usize, paths.len() - 1);
    // With DNSSEC's records each version differs, and is one transaction; what differs is what `zone diff` counts.
    let mut text = Vec::new();
    let made = series(&SeriesSpec { dnssec: true, ..spec }, &mut text, &mut |_| ()).unwrap();
    assert!(made.steps.iter().all(|step| step.transactions == 1), "{:?}", made.steps);
    for (step, pair) in made.steps.iter().zip(paths.windows(2)) {
        let diff = zone::diff(&pair[0], &pair[1], &mut |_| ()).unwrap();
        let ((d, a), (dd, da)) = (diff.records.sums(), diff.dnssec.sums());
        assert_eq!((step.deleted, step.added), (d + dd, a + da), "{step:?}");
        assert_eq!((step.from, step.to), (diff.old.serial, diff.new.serial));
    }
    let count =
        |what: &str| String::from_utf8_lossy(&text).lines().filter(|line| line.contains(what)).count();
    assert_eq!(count(" SOA a.root-servers.net."), paths.len() - 1);
    assert_eq!((count("update add . 86400 ZONEMD"), count("_dnsrack")), (paths.len() - 1, 0));
}

#[test]
fn whole_versions_have_their_soa_and_markers_and_follow_each_other() {
    let dir = tempfile::tempdir().unwrap();
    let zone = |serial: u32, rest: &str| {
        let path = dir.path().join(format!("{serial}"));
        let text =
            format!("test. 60 SOA a. b. {serial} 1 1 1 1\ntest. 60 NS a.\na.test. 60 A 10.0.0.1\n{rest}");
        std::fs::write(&path, text).unwrap();
        path
    };
    let many = |from: u32| -> String {
        (from..from + 3000).map(|n| format!("n{n}.test. 60 A 10.1.{}.{}\n", n / 256 % 256, n % 256)).collect()
    };
    let (one, two, three) = (zone(1, ""), zone(5, ""), zone(6, &many(0)));
    let spec =
        SeriesSpec { whole: true, marker: true, ..SeriesSpec::new(&one, vec![two.clone(), three.clone()]) };
    let mut text = Vec::new();
    let made = series(&spec, &mut text, &mut |_| ()).unwrap();
    let text = String::from_utf8(text).unwrap();
    assert_eq!(
        made.steps[0],
        update::generate::Step { from: 1, to: 5, transactions: 1, deleted: 0, added: 0 }
    );
    // Too much for a message: its SOA would be older than what the server counts on to.
    assert_eq!((made.steps[1].transactions, made.steps[1].added), (2, 3000));
    let soa: Vec<_> = text.lines().filter(|line| line.contains(" SOA ")).collect();
    assert_eq!(soa, ["update add test. 60 SOA a. b. 5 1 1 1 1"]);
    let markers: Vec<_> = text.lines().filter(|line| line.contains("_dnsrack")).collect();
    let marker = |n: u32| format!("update add _dnsrack.test. 0 TXT \"{n}\"");
    let gone = "update delete _dnsrack.test. TXT".to_owned();
    assert_eq!(markers, [gone.clone(), marker(1), gone, marker(2)]);
    let backwards = SeriesSpec { whole: true, ..SeriesSpec::new(&three, vec![two]) };
    let error = series(&backwards, &mut Vec::new(), &mut |_| ()).unwrap_err().to_string();
    assert!(error.ends_with("give versions in their order") && error.contains("serial 5"), "{error}");
    let same = SeriesSpec::new(&one, vec![one.clone()]);
    let error = series(&same, &mut Vec::new(), &mut |_| ()).unwrap_err().to_string();
    assert!(error.contains("--dnssec"), "{error}");
}
