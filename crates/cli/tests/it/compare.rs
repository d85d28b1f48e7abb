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
    let text = stdout(&got);
    let answer = "The candidate is slower: peak query rate of U-4-DS0-10K in the search 11.6 % lower (10.6 to 12.5 %) (1 of 2 \
                  figures worse by more than the threshold).\n\n\
                  base: nsd of run (nsd 4.6.1): 6 trials, all valid\n\
                  candidate: nsd-new of run (nsd 4.6.1): 6 trials, 1 invalid and 0 failed left out\n\n";
    assert!(text.starts_with(answer), "{text}");
    let row = |title: &str| {
        text.lines().find(|l| l.contains(title)).unwrap_or_else(|| panic!("no {title}: {text}"))
    };
    let cells = |title: &str| {
        row(title).trim_matches('│').split('┆').map(|c| c.trim().to_owned()).collect::<Vec<_>>()
    };
    let [_, _, _, candidate, medians, difference, threshold, outcome] = &cells("peak query rate  ")[..]
    else {
        panic!("{text}");
    };
    assert!(candidate.ends_with("/s (5 of 6)") && medians == "49,800/s, 44,000/s", "{text}");
    assert_eq!(
        (difference.as_str(), threshold.as_str(), outcome.as_str()),
        ("-11.6 % (-12.5 to -10.6 %)", "5 %", "WORSE by more than 5 %")
    );
    assert_eq!(cells("start to right answer")[7], "better");
    assert!(text.contains(
        "A difference is shown at a false discovery rate of 5 % among 2 figures (Benjamini and Hochberg)"
    ));
    assert!(
        text.contains(
            "Repeats were made in turn and are compared pair by pair, where enough pairs are whole."
        )
    );
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
    let value_of = |name: &str| figure["change"][name].as_f64().expect("a number");
    assert!(
        (value_of("value") + 0.12).abs() < 0.01
            && value_of("low") < -0.12
            && value_of("high") > -0.12
            && value_of("by_chance") < 0.001
    );
    // A server is compared with the one that the run names so.
    let against =
        made(folder.path(), "experiment run x --against nsd", &[("nsd-new", 0.88, 1.0), ("nsd", 1.0, 1.0)]);
    let got = output(&["compare", &against]);
    assert!(stdout(&got).starts_with("The candidate is slower: peak query rate"), "{}", stdout(&got));
    // The threshold decides about the status, not about what is shown.
    let got = output(&["compare", &run, "--threshold", "0.2"]);
    assert_eq!(got.status.code(), Some(0));
    let within = "Shown, but within its threshold or not deciding: peak query rate of U-4-DS0-10K in the search 11.6 % lower";
    assert!(stdout(&got).contains(within), "{}", stdout(&got));
    // The other way round it is faster, and starts later.
    let got = output(&["compare", &run, "--base", "nsd-new", "--candidate", "nsd", "--threshold", "20%"]);
    assert_eq!(got.status.code(), Some(0), "{}", stdout(&got));
    // What decides can be chosen.
    let got = output(&["compare", &run, "--gate", "start=20%"]);
    assert_eq!(got.status.code(), Some(0), "{}", stdout(&got));
    assert!(
        stdout(&got).starts_with("The candidate is no worse: the one figure that decides"),
        "{}",
        stdout(&got)
    );
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
        text.starts_with("The candidate is no worse: all 2 figures that decide are within their thresholds."),
        "{text}"
    );
    assert!(text.contains("Two runs, one after the other"), "{text}");
    // Nothing in common.
    let other = made(folder.path(), "other", &[("knot", 1.0, 1.0)]);
    let got = output(&["compare", &a, &other]);
    assert_eq!(got.status.code(), Some(4));
    let text = stdout(&got);
    assert!(text.starts_with("Not known: nothing can be compared"), "{text}");
    assert!(text.contains("knot on U-4-DS0-10K in the search: only the candidate has it"), "{text}");
    // By their labels they are.
    let got = output(&["compare", &a, &other, "--between", "nsd,knot"]);
    assert_eq!(got.status.code(), Some(0), "{}", stderr(&got));
}

/// A run of pairs by `old` and `new`, its plan naming them, with these throughputs of the candidate and one trial's error.
fn in_pairs(folder: &Path, name: &str, candidate: &[f64], error: Option<usize>) -> String {
    let path = folder.join(name);
    let plan = "name = \"made up\"\n[comparison]\nbase = \"old\"\ncandidate = \"new\"\n[comparison.gates]\nthroughput = 0.05\n";
    let mut run = RunDir::create(&path, plan, &json!({ "command": "made up" })).expect("made");
    for (repeat, value) in candidate.iter().enumerate() {
        for (n, (server, qps)) in [("old", 50_000.0), ("new", *value)].into_iter().enumerate() {
            let params = [
                ("measure", "throughput"),
                ("server", server),
                ("family", "COM"),
                ("kind", "nsd"),
                ("version", "4"),
            ];
            let metrics = vec![Metric::new("sustained_qps", "1/s", qps)];
            let trial = TrialRecord {
                id: (repeat * 2 + n) as u32 + 1,
                params: params.iter().map(|(k, v)| ((*k).into(), (*v).into())).collect(),
                repeat: repeat as u32 + 1,
                outcome: Outcome { metrics, ..Outcome::default() },
                error: (server == "new" && error == Some(repeat)).then(|| "nsd ended with signal 11".into()),
                ..TrialRecord::default()
            };
            run.append(trial).expect("kept");
        }
    }
    path.to_str().expect("a path").to_owned()
}

#[test]
fn each_outcome_has_its_own_exit_status() {
    let folder = tempfile::tempdir().expect("a folder");
    let even = [50_000.0, 50_300.0, 49_800.0, 50_100.0, 49_900.0, 50_000.0];
    let by = |factor: f64| even.map(|v| v * factor);
    let wide = [45_500.0, 55_000.0, 42_000.0, 52_000.0, 38_000.0, 50_500.0];
    for (name, values, error, status, outcome, says) in [
        (
            "same",
            even,
            None,
            0,
            "no_worse",
            "The candidate is no worse: the one figure that decides is within its threshold.",
        ),
        (
            "faster",
            by(1.2),
            None,
            0,
            "better",
            "The candidate is faster: throughput of COM, throughput 20 % higher",
        ),
        (
            "slower",
            by(0.8),
            None,
            3,
            "worse",
            "The candidate is slower: throughput of COM, throughput 20 % lower",
        ),
        ("wide", wide, None, 4, "not_known", "Not known for 1 of 1 figure: throughput of COM, throughput -6"),
        (
            "dead",
            even,
            Some(2),
            5,
            "candidate_failed",
            "The candidate failed in 1 trial where the base did not.",
        ),
    ] {
        let run = in_pairs(folder.path(), name, &values, error);
        let got = output(&["compare", &run]);
        assert_eq!(got.status.code(), Some(status), "{name}: {}{}", stdout(&got), stderr(&got));
        assert!(stdout(&got).starts_with(says), "{name}: {}", stdout(&got));
        let got = output(&["--json", "compare", &run]);
        let got: Value = serde_json::from_slice(&got.stdout).expect("one JSON object");
        assert_eq!(
            (&got["outcome"], &got["base"]["server"], &got["candidate"]["server"]),
            (&json!(outcome), &json!("old"), &json!("new"))
        );
        // The page begins with it.
        let page = folder.path().join("page.html");
        assert!(output(&["report", &run, "-o", page.to_str().expect("a path")]).status.success());
        let page = std::fs::read_to_string(page).expect("a page");
        let at = |text: &str| page.find(text).unwrap_or_else(|| panic!("{name}: no {text}"));
        assert!(at(&format!("class=\"comparison {outcome}\"")) < at("class=\"summary\""));
    }
    let wide = folder.path().join("wide");
    let got = output(&["compare", wide.to_str().expect("a path")]);
    assert!(stdout(&got).contains("repeats of each side would tell"), "{}", stdout(&got));
    // A run that was ended before its plan was done, whatever it says so far.
    RunDir::open(&wide).expect("a run").note_undone(3).expect("written");
    let got = output(&["compare", wide.to_str().expect("a path")]);
    assert_eq!(got.status.code(), Some(6));
    assert!(
        stdout(&got).starts_with("Cut short: 3 trials were not done. So far: Not known"),
        "{}",
        stdout(&got)
    );
    let got = output(&["compare", "--markdown", folder.path().join("slower").to_str().expect("a path")]);
    let text = stdout(&got);
    assert!(
        text.starts_with("**Worse.** The candidate is slower: throughput of COM, throughput 20 % lower"),
        "{text}"
    );
    assert!(
        text.contains("\n- base: old of slower (nsd 4): 6 trials, all valid\n- candidate: new of slower"),
        "{text}"
    );
    let head = "| cell | figure | base | candidate | medians | difference | threshold | outcome |\n|---|---|---:|---:|---:|---:|---:|---|\n";
    assert!(text.contains(head), "{text}");
    assert!(
        text.contains("| COM, throughput | throughput | 50,000/s | 40,000/s | 50,000/s, 40,000/s | -20 % ("),
        "{text}"
    );
    assert!(text.contains("| 5 % | WORSE by more than 5 % |\n"), "{text}");
}

#[test]
fn what_cannot_be_compared_is_wrong_usage() {
    let folder = tempfile::tempdir().expect("a folder");
    let one = made(folder.path(), "one", &[("nsd", 1.0, 1.0)]);
    let two = made(folder.path(), "two", &[("nsd", 1.0, 1.0)]);
    for (args, says) in [
        (&["compare", &one][..], "one run with 1 server (nsd)"),
        (&["compare", &one, &one], "one run with 1 server (nsd)"),
        (&["compare", &one, "--between", "nsd,nsd"], "cannot differ from itself"),
        (&["compare", &one, "--between", "nsd,new"], "no server 'new'"),
        (&["compare", &one, "--between", "nsd"], "give two servers' labels"),
        (&["compare", &one, "--base", "nsd"], "--candidate"),
        (&["compare", &one, &two, "--gate", "sped=3%"], "'sped' is no figure that can decide"),
        (&["compare", &one, &two, "--gate", "cpu=3"], "no share above 0 and below 1"),
        (&["compare", &one, "--build", "nsd"], "cannot be used with"),
        (&["compare", "--build", "/bin/true"], "give it twice"),
        (&["compare", "--build", "/bin/true", "--build", "/bin/true"], "add --kind"),
        (&["compare", "--build", "/nsd", "--build", "/nsd"], "no program of nsd"),
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
