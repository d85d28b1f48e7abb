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

#[test]
fn a_secondary_that_waits_for_a_transfer_is_not_compared_with_times_of_loading() {
    let kept = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/runs/rzaia-paths-100K");
    let run = results::RunDir::open(kept.as_ref()).unwrap();
    let pairs = report::pairs(&run).unwrap();
    let of = |id| pairs.iter().filter(|pair| pair.table.id == id).count();
    assert_eq!((of("rzaia-4.1"), of("rzaia-text-path")), (0, 4));
}
