//! The help texts are part of the contract.

use crate::{output, stderr, stdout};

#[test]
fn every_help_text_is_as_reviewed() {
    let nouns: &[&[&str]] = &[
        &["--help"],
        &["zone", "generate", "--help"],
        &["zone", "sign", "--help"],
        &["zone", "info", "--help"],
        &["zone", "diff", "--help"],
        &["zone", "slice", "--help"],
        &["zone", "fit", "--help"],
        &["traffic", "generate", "--help"],
        &["trace", "edit", "--help"],
        &["trace", "fit", "--help"],
        &["trace", "info", "--help"],
        &["trace", "import", "--help"],
        &["load", "run", "--help"],
        &["load", "replay", "--help"],
        &["load", "search", "--help"],
        &["load", "echo", "--help"],
        &["load", "calibrate", "--help"],
        &["update", "generate", "--help"],
        &["update", "send", "--help"],
        &["update", "echo", "--help"],
        &["update", "watch", "--help"],
        &["transfer", "--help"],
        &["rack", "up", "--help"],
        &["rack", "exec", "--help"],
        &["rack", "list", "--help"],
        &["rack", "down", "--help"],
        &["experiment", "list", "--help"],
        &["experiment", "show", "--help"],
        &["experiment", "run", "--help"],
        &["report", "--help"],
        &["compare", "--help"],
        &["doctor", "--help"],
    ];
    let mut all = String::new();
    for args in nouns {
        let got = output(args);
        assert!(got.status.success(), "{args:?}: {}", stderr(&got));
        all += &format!("$ dnsrack {}\n{}\n", args.join(" "), stdout(&got));
    }
    insta::assert_snapshot!(all);
}

#[test]
fn wrong_usage_is_exit_status_two() {
    for args in [&["zone"][..], &["frobnicate"], &["load", "run"], &["zone", "generate", "--family", "U-5"]] {
        let got = output(args);
        assert_eq!(got.status.code(), Some(2), "{args:?}: {}", stderr(&got));
        assert!(stdout(&got).is_empty(), "{args:?} prints its error on standard output");
    }
}

#[test]
fn the_catalogue_is_listed_and_shown() {
    let list = output(&["--json", "experiment", "list"]);
    let list: serde_json::Value = serde_json::from_slice(&list.stdout).expect("one JSON object");
    assert_eq!(list["schema"], "dnsrack.experiment.list/1");
    for experiment in list["experiments"].as_array().expect("a list") {
        let name = experiment["name"].as_str().expect("a name");
        let shown = output(&["experiment", "show", name]);
        assert!(shown.status.success(), "{}", stderr(&shown));
        // What is shown can be run: it is an experiment file itself.
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("again.toml");
        std::fs::write(&file, &shown.stdout).expect("written");
        let again = output(&["experiment", "show", file.to_str().expect("a path")]);
        assert_eq!(stdout(&again), stdout(&shown));
    }
}
