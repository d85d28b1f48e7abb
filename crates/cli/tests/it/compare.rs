//! `dnsrack compare` on runs with MADE-UP figures, for what it says and how it ends.

use crate::{output, stderr, stdout};
use measure::{Metric, Outcome, Reason};
use results::{RunDir, TrialRecord};
use serde_json::{Value, json};
use std::path::Path;

/// Six repeats of a peak and of a start by each server, the figures scattered by 1 %, B's by these factors.
fn made(folder: &Path, name: &str, servers: &[(&str, f64, f64)]) -> String {
    let path = folder.join(name);
    let environment =
        json!({ "machine": { "cpu_model": "made up", "unix_time": servers.len() }, "command": name });
    let mut run = RunDir::create(&path, "name = \"made up\"", &environment).expect("made");
    let mut id = 0;
    for repeat in 1..=6u32 {
        for (server, peak, ready) in servers {
            id += 1;
            let scatter = |by: u32| 1.0 + 0.01 * (f64::from(repeat * by * id % 5) - 2.0) / 2.0;
            let params = [
                ("experiment", "made up"),
                ("measure", "peak"),
                ("server", server),
                ("kind", "nsd"),
                ("family", "U-4-DS0"),
                ("zone_size", "10000"),
                ("signed", "no"),
                ("version", "4.6.1"),
            ];
            let metrics = vec![
                Metric::new("peak_qps", "1/s", 50_000.0 * peak * scatter(1)),
                Metric::new("server_ready", "s", 0.5 * ready * scatter(3)),
            ];
            let mut outcome = Outcome { metrics, ..Outcome::default() };
            if (*server, repeat) == ("nsd-new", 6) {
                outcome.validity.reject(Reason::new("late", "for a test"));
            }
            let params = params.iter().map(|(k, v)| ((*k).into(), (*v).into())).collect();
            run.append(TrialRecord { id, params, repeat, outcome, ..TrialRecord::default() }).expect("kept");
        }
    }
    path.to_str().expect("a path").to_owned()
}

#[test]
fn a_slower_server_is_told_in_a_sentence_and_ends_with_status_3() {
    let folder = tempfile::tempdir().expect("a folder");
    let run = made(folder.path(), "run", &[("nsd", 1.0, 1.0), ("nsd-new", 0.88, 0.9)]);
    let got = output(&["compare", &run]);
    assert_eq!(got.status.code(), Some(3), "{}", stderr(&got));
    insta::assert_snapshot!(stdout(&got).replace(folder.path().to_str().expect("a path"), "TMP"), @r#"
B is slower: peak query rate of U-4-DS0-10K in the search 11.6 % lower (10.6 to 12.5 %) (1 of 2 figures worse, 1 better).

A: TMP/run, nsd (nsd 4.6.1): 6 trials, all valid
B: TMP/run, nsd-new (nsd 4.6.1): 6 trials, 1 invalid and 0 failed left out

┌───────────────────────────┬───────────────────────┬──────────┬───────────────────┬────────────────────────────┬────────────────────────┐
│ cell                      ┆ figure                ┆        A ┆                 B ┆                     B to A ┆ verdict                │
╞═══════════════════════════╪═══════════════════════╪══════════╪═══════════════════╪════════════════════════════╪════════════════════════╡
│ U-4-DS0-10K in the search ┆ peak query rate       ┆ 49,800/s ┆ 44,000/s (5 of 6) ┆ -11.6 % (-12.5 to -10.6 %) ┆ WORSE by more than 5 % │
│                           ┆ start to right answer ┆   502 ms ┆   448 ms (5 of 6) ┆    -10 % (-12.2 to -7.8 %) ┆ better                 │
└───────────────────────────┴───────────────────────┴──────────┴───────────────────┴────────────────────────────┴────────────────────────┘
B to A: of geometric means, with the interval at 95 % of each figure by itself. A difference is shown where chance makes such a one among all 2 figures in at most 5 % of comparisons (Benjamini and Hochberg).
Repeats were made in turn and are compared pair by pair, where enough pairs are whole.
"#);
    let got = output(&["--json", "compare", &run, "--between", "nsd,nsd-new"]);
    assert_eq!(got.status.code(), Some(3));
    let got: Value = serde_json::from_slice(&got.stdout).expect("one JSON object");
    assert_eq!(got["schema"], "dnsrack.compare/1");
    assert_eq!((&got["worse"], &got["better"], &got["regressions"]), (&json!(1), &json!(1), &json!(1)));
    assert_eq!((&got["interleaved"], &got["b"]["invalid"]), (&json!(true), &json!(1)));
    let figure = &got["cells"][0]["figures"][0];
    assert_eq!(
        (&figure["name"], &figure["verdict"], &figure["pairs"]),
        (&json!("peak_qps"), &json!("worse"), &json!(5))
    );
    let of = |name: &str| figure["change"][name].as_f64().expect("a number");
    assert!(
        (of("value") + 0.12).abs() < 0.01
            && of("low") < -0.12
            && of("high") > -0.12
            && of("by_chance") < 0.001
    );
    // A server is judged against the one that the run names so.
    let against =
        made(folder.path(), "experiment run x --against nsd", &[("nsd-new", 0.88, 1.0), ("nsd", 1.0, 1.0)]);
    let got = output(&["compare", &against]);
    assert!(stdout(&got).starts_with("B is slower: peak query rate"), "{}", stdout(&got));
    // The threshold decides about the status, not about what is shown.
    let got = output(&["compare", &run, "--threshold", "0.2"]);
    assert_eq!(got.status.code(), Some(0));
    assert!(stdout(&got).contains("None of it is more than 20 % for certain."), "{}", stdout(&got));
    // The other way round it is faster.
    let got = output(&["compare", &run, "--between", "nsd-new,nsd", "--threshold", "0.2"]);
    assert!(stdout(&got).starts_with("B is slower: start to right answer"), "{}", stdout(&got));
}

#[test]
fn equal_runs_show_no_difference_and_a_comparison_of_nothing_is_not_sound() {
    let folder = tempfile::tempdir().expect("a folder");
    let a = made(folder.path(), "a", &[("nsd", 1.0, 1.0)]);
    let b = made(folder.path(), "b", &[("nsd", 1.001, 0.999)]);
    let got = output(&["compare", &a, &b]);
    assert_eq!(got.status.code(), Some(0), "{}", stderr(&got));
    let text = stdout(&got);
    assert!(
        text.starts_with("No difference can be shown in any of 2 figures; in half of them one of "),
        "{text}"
    );
    assert!(text.contains("Two runs, one after the other"), "{text}");
    // Nothing in common.
    let other = made(folder.path(), "other", &[("knot", 1.0, 1.0)]);
    let got = output(&["compare", &a, &other]);
    assert_eq!(got.status.code(), Some(3));
    let text = stdout(&got);
    assert!(text.starts_with("Nothing can be compared"), "{text}");
    assert!(text.contains("knot on U-4-DS0-10K in the search: only B has it"), "{text}");
    // By their labels they are.
    let got = output(&["compare", &a, &other, "--between", "nsd,knot"]);
    assert_eq!(got.status.code(), Some(0), "{}", stderr(&got));
}

#[test]
fn what_cannot_be_compared_is_wrong_usage() {
    let folder = tempfile::tempdir().expect("a folder");
    let one = made(folder.path(), "one", &[("nsd", 1.0, 1.0)]);
    for (args, says) in [
        (&["compare", &one][..], "one run with 1 servers (nsd)"),
        (&["compare", &one, &one], "one run with 1 servers (nsd)"),
        (&["compare", &one, "--between", "nsd,nsd"], "cannot differ from itself"),
        (&["compare", &one, "--between", "nsd,new"], "no server 'new'"),
        (&["compare", &one, "--between", "nsd"], "give two servers' labels"),
        (&["compare", &one, &one, &one], "unexpected"),
        (&["compare"], "required"),
    ] {
        let got = output(args);
        assert_eq!(got.status.code(), Some(2), "{args:?}: {}", stderr(&got));
        assert!(stderr(&got).contains(says) && stdout(&got).is_empty(), "{args:?}: {}", stderr(&got));
    }
    let got = output(&["compare", &one, folder.path().to_str().expect("a path")]);
    assert_eq!(got.status.code(), Some(1));
    assert!(stderr(&got).contains("not a run directory"), "{}", stderr(&got));
}
