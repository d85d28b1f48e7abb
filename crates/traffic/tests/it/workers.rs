//! The same stream for any number of workers, for ever.

use crate::{profile, take, write, zone};
use proptest::prelude::*;
use std::path::PathBuf;
use traffic::{QueriesSpec, Query, SourceSpec};

fn queries(path: PathBuf, cycle: bool) -> SourceSpec {
    SourceSpec::Queries(QueriesSpec { path, edns: None, cycle })
}

/// The stream as `workers` workers make it, in order.
fn together(spec: &SourceSpec, workers: u32, each: usize) -> Vec<Query> {
    let mut out: Vec<Query> =
        spec.open_all(workers).unwrap().iter_mut().flat_map(|source| take(&mut **source, each)).collect();
    out.sort_by_key(|q| q.index);
    out
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn workers_share_one_stream(workers in 1u32..9, each in 1usize..700, seed: u64, lines in 1usize..40) {
        let folder = tempfile::tempdir().unwrap();
        let text: String = (0..lines).map(|n| format!("; {n}\n\nq{n}.example A\n")).collect();
        let file = queries(write(folder.path(), "queries", &text), true);
        let made = profile("rzaia", zone(folder.path(), 20), seed);
        for spec in [file, made] {
            let one = take(&mut *spec.open(0, 1).unwrap(), each * workers as usize);
            prop_assert!(one.iter().enumerate().all(|(n, q)| q.index == n as u64));
            prop_assert_eq!(&together(&spec, workers, each), &one);
            let last = take(&mut *spec.open(workers - 1, workers).unwrap(), each);
            prop_assert!(last.iter().enumerate().all(|(n, q)| q == &one[n * workers as usize + workers as usize - 1]));
        }
    }
}

#[test]
fn a_file_ends_where_it_shall_not_cycle() {
    let folder = tempfile::tempdir().unwrap();
    let path = write(folder.path(), "queries", "a A\nb AAAA\nc TYPE65534\n");
    assert_eq!(together(&queries(path.clone(), false), 2, 100).len(), 3);
    assert_eq!(together(&queries(path, true), 2, 100).len(), 200);
}

#[test]
fn the_same_seed_gives_the_same_bytes_for_ever() {
    let folder = tempfile::tempdir().unwrap();
    let zone = zone(folder.path(), 1000);
    let digest = |name: &str, seed: u64| {
        let queries = take(&mut *profile(name, zone.clone(), seed).open(0, 1).unwrap(), 10_000);
        queries.iter().fold(0u64, |h, q| {
            // A hash of its own, so that a change of the program's hash does not hide one of the stream.
            let flags = [u8::from(q.df), q.checksum as u8, u8::from(q.nonexistent)];
            q.bytes.iter().chain(&flags).fold(h, |h, &b| (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3))
        })
    };
    let got: Vec<String> = ["rzaia", "isc", "nominet"].map(|p| format!("{p} {:016x}", digest(p, 1))).into();
    insta::assert_snapshot!(got.join("\n"));
    assert_ne!(digest("rzaia", 1), digest("rzaia", 2));
}

#[test]
fn a_specification_travels_as_json() {
    let texts = [
        r#"{"queries":{"path":"q","edns":{"udp_size":1232,"do_bit":true},"cycle":true}}"#,
        r#"{"profile":{"profile":"rzaia","names":"zone","seed":1}}"#,
    ];
    for text in texts {
        let spec: SourceSpec = serde_json::from_str(text).unwrap();
        assert_eq!(serde_json::to_string(&spec).unwrap(), text);
    }
    let short: SourceSpec = serde_json::from_str(r#"{"queries":{"path":"q"}}"#).unwrap();
    assert_eq!(short, queries("q".into(), true));
    assert!(serde_json::from_str::<SourceSpec>(r#"{"queries":{"path":"q","rate":1}}"#).is_err());
}
