//! The terminal's tables of the made-up run.

use crate::fixture;

#[test]
fn the_terminal_shows_every_figure_and_every_fault() {
    let folder = tempfile::tempdir().unwrap();
    let run = fixture::write(&folder.path().join("run"));
    let text = report::terminal(&run).unwrap();
    insta::assert_snapshot!(text);
}

#[test]
fn an_empty_run_says_so_and_does_not_fail() {
    let folder = tempfile::tempdir().unwrap();
    let run = results::RunDir::create(folder.path(), "name = \"none\"", &serde_json::json!({})).unwrap();
    let text = report::terminal(&run).unwrap();
    assert!(text.contains("Of 0 trials, 0 valid"), "{text}");
    assert!(report::html(&[run]).unwrap().contains("No trial gave a figure"));
}

/// The number of values from each of these published tables that the report of a kept run compares with its own.
fn pairs_of<const N: usize>(kept: &str, tables: [&str; N]) -> [usize; N] {
    let folder = std::path::Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/runs")).join(kept);
    let pairs = report::pairs(&results::RunDir::open(&folder).unwrap()).unwrap();
    tables.map(|id| pairs.iter().filter(|pair| pair.table.id == id).count())
}

#[test]
fn a_secondary_that_waits_for_a_transfer_is_not_compared_with_times_of_loading() {
    assert_eq!(pairs_of("rzaia-paths-100K", ["rzaia-4.1", "rzaia-text-path"]), [0, 4]);
}

#[test]
fn figures_of_both_halves_stand_beside_those_of_both_linux_systems_in_the_note_and_in_the_talk() {
    assert_eq!(pairs_of("isc-peak", ["isc-6.3.1", "isc-6.3.1-talk"]), [4, 4]);
    // The experiment has the first half alone in its quick size.
    assert_eq!(pairs_of("isc-updates-repeated", ["isc-6.3.2", "isc-6.3.2-talk"]), [2, 2]);
}

#[test]
fn a_stream_to_its_end_stands_beside_rates_packets_and_octets_of_the_note() {
    let tables = ["isc-3.3", "isc-3.3-talk", "isc-3.3-packets", "isc-3.3-bytes"];
    assert_eq!(pairs_of("isc-platform-59K", tables), [2, 2, 2, 2]);
    // Rates were published of the unsigned zone alone.
    assert_eq!(pairs_of("isc-platform-59K-signed", tables), [0, 0, 2, 2]);
}

#[test]
fn transfers_of_zones_with_ds_stand_beside_the_share_of_the_file_before_signing() {
    // Three families of two sizes, to two kinds of secondary.
    assert_eq!(pairs_of("rzaia-axfr-unsigned-file", ["rzaia-text-axfr"]), [12]);
}
