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
