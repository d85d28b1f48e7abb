//! Each page, its data, and what it follows.

use crate::http::{events, get};
use crate::{Pages, run, trial};
use results::{Doing, Progress};
use serde_json::Value;
use std::time::{Duration, Instant};

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|e| panic!("{e}: {text}"))
}

#[test]
fn runs_are_found_again_when_they_change() {
    let folder = tempfile::tempdir().unwrap();
    run(&folder.path().join("night/1"), 1, &["nsd"], 3, 1000.0);
    let pages = Pages::of(&[folder.path()]);
    let page = pages.page("/");
    assert!(
        page.contains("href=\"/run?name=night&#x2f;1\"")
            && page.contains("3 valid")
            && page.contains("nsd 4.6.1")
    );
    let listed = |count: usize| {
        let until = Instant::now() + Duration::from_secs(10);
        loop {
            let all = json(&pages.page("/runs.json"));
            if all.as_array().unwrap().len() == count {
                return all;
            }
            assert!(Instant::now() < until, "{all}");
            std::thread::sleep(Duration::from_millis(100));
        }
    };
    let mut second = run(&folder.path().join("night/2"), 2, &["nsd"], 2, 1000.0);
    let all = listed(2);
    // The newest first.
    assert_eq!(
        (&all[0]["name"], &all[0]["valid"], &all[0]["state"]),
        (&"night/2".into(), &2.into(), &"running".into())
    );
    let mut bad = trial(9, "nsd", 3, 1.0);
    bad.outcome.validity.reject(measure::Reason::new("late", "late"));
    second.append(bad).unwrap();
    second.note_undone(4).unwrap();
    drop(second);
    std::thread::sleep(Duration::from_millis(1100));
    let all = listed(2);
    assert_eq!((&all[0]["invalid"], &all[0]["undone"]), (&1.into(), &4.into()));
    assert_eq!(all[0]["state"], "cut short");
    std::fs::write(folder.path().join("night/1/trials.parquet"), "broken").unwrap();
    std::thread::sleep(Duration::from_millis(1100));
    let all = listed(2);
    assert_eq!(all[1]["state"], "cannot be read");
    assert!(all[1]["now"].as_str().unwrap().contains("trials.parquet"), "{all}");
    assert!(pages.page("/").contains("cannot be read"));
    let csv = pages.page("/runs.csv");
    assert_eq!(csv.lines().count(), 3, "{csv}");
    assert!(csv.starts_with("name,experiment,started,"), "{csv}");
    std::fs::remove_dir_all(folder.path().join("night/2")).unwrap();
    listed(1);
}

#[test]
fn a_run_has_its_report_and_its_trials_as_data() {
    let folder = tempfile::tempdir().unwrap();
    run(&folder.path().join("a b"), 1, &["nsd"], 3, 1000.0);
    let pages = Pages::of(&[folder.path()]);
    let page = pages.page("/run?name=a%20b");
    assert!(page.contains("<main id=\"report\">") && page.contains("id=\"r0-t3\""), "{page}");
    assert!(!page.contains("<style") && !page.contains("id=\"live\""), "nothing inline, and nobody is at it");
    let data = json(&pages.page("/run.json?name=a%20b"));
    assert_eq!(data["trials"][2]["metrics"][0]["name"], "answered_qps");
    assert_eq!(data["trials"][2]["params"]["server"], "nsd");
    let csv = pages.page("/run.csv?name=a%20b");
    assert!(csv.contains("a b,3,3,true,") && csv.lines().count() == 4, "{csv}");
    let none = pages.answer("/run?name=none");
    assert_eq!(
        (none.status, none.body.contains("there is no run &#x27;none&#x27;") || none.body.contains("no run")),
        (404, true)
    );
    assert_eq!(pages.answer("/run.json").status, 400);
    assert_eq!(pages.answer("/../etc/passwd").status, 404);
    assert_eq!(pages.answer("/run?name=../../etc").status, 404);
}

#[test]
fn a_run_is_followed_while_it_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("now");
    let mut going = run(&dir, 1, &["nsd"], 1, 1000.0);
    let progress = |done: usize, now: &str| Progress {
        trials: 3,
        done,
        left_s: Some(9.0),
        doing: vec![Doing { set: 1, trial: "nsd".into(), id: 2, since: 1, now: now.into() }],
    };
    progress(1, "begins").write(&dir).unwrap();
    let pages = Pages::of(&[folder.path()]);
    let page = pages.page("/run?name=now");
    assert!(
        page.contains("id=\"live\"") && page.contains("1 of 3 trials done") && page.contains("nsd: begins")
    );
    let mut all = events(pages.at, "/run/events?name=now");
    let (name, data) = all.next().unwrap();
    assert_eq!((name.as_str(), json(&data)["done"].as_u64()), ("progress", Some(1)));
    progress(1, "4,999 answered/s").write(&dir).unwrap();
    let (name, data) = all.next().unwrap();
    assert_eq!((name.as_str(), &json(&data)["doing"][0]["now"]), ("progress", &"4,999 answered/s".into()));
    going.append(trial(2, "nsd", 2, 1000.0)).unwrap();
    assert_eq!(all.next().unwrap().0, "trials");
    Progress::remove(&dir);
    drop(going);
    assert_eq!(all.next().unwrap().0, "end");
    assert!(all.next().is_none());
    assert_eq!(pages.answer("/run/events?name=none").status, 404);
}

#[test]
fn a_history_marks_what_is_certain() {
    let folder = tempfile::tempdir().unwrap();
    for day in 0..16 {
        let rate = if day < 12 { 1000.0 } else { 900.0 } * (1.0 + (day * 5 % 7) as f64 * 0.003);
        run(&folder.path().join(format!("n{day:02}")), day, &["nsd", "other"], 3, rate);
    }
    let pages = Pages::of(&[folder.path()]);
    let page = pages.page("/history");
    assert!(page.contains("From n12 on: -10.") && page.contains("2 changes marked"), "{page}");
    assert!(page.contains("<svg") && page.contains("href=\"/run?name=n12#r0-t1\""));
    let data = json(&pages.page("/history.json?experiment=tiny&figure=answered_qps&server=nsd"));
    let all = data["histories"].as_array().unwrap();
    assert_eq!((all.len(), all[0]["points"].as_array().unwrap().len()), (1, 16));
    assert_eq!(all[0]["changes"][0]["run"], "n12");
    let csv = pages.page("/history.csv?server=nsd");
    assert_eq!(csv.lines().filter(|line| line.ends_with(",true")).count(), 1, "{csv}");
    let none = pages.page("/history?figure=nothing");
    assert!(none.contains("No run has a valid trial with this figure"));
}

#[test]
fn runs_are_compared_as_by_the_command() {
    let folder = tempfile::tempdir().unwrap();
    run(&folder.path().join("a"), 1, &["nsd", "new"], 6, 1000.0);
    run(&folder.path().join("b"), 2, &["nsd"], 6, 800.0);
    let pages = Pages::of(&[folder.path()]);
    assert!(pages.page("/compare").contains("Compare two runs"));
    let page = pages.page("/compare?a=a&b=b");
    assert!(page.contains("The candidate") && page.contains("comparison worse"), "{page}");
    let data = json(&pages.page("/compare.json?a=a&b=b"));
    assert_eq!(data["outcome"], "worse");
    let csv = pages.page("/compare.csv?a=a&b=b&threshold=30");
    assert!(csv.contains(",no_worse"), "{csv}");
    // Two servers of one run.
    assert!(pages.page("/compare?a=a&b=a&base=nsd&candidate=new").contains("comparison no_worse"));
    let asked = pages.page("/compare?a=a&b=a");
    assert!(asked.contains("name two of its servers"), "{asked}");
    assert_eq!(pages.answer("/compare.json?a=a&b=a").status, 400);
    assert_eq!(pages.answer("/compare.json?a=a&b=b&threshold=x").status, 400);
}

#[test]
fn pages_of_other_names_are_refused_and_all_have_a_policy() {
    let folder = tempfile::tempdir().unwrap();
    let pages = Pages::of(&[folder.path()]);
    let refused = get(pages.at, "/runs.json", "evil.example");
    assert_eq!((refused.status, refused.body.contains("Host")), (403, true));
    for path in ["/", "/nothing", "/style.css", "/pages.js", "/runs.csv"] {
        let answer = pages.answer(path);
        for part in ["default-src 'none'", "script-src 'self'", "frame-ancestors 'none'"] {
            assert!(answer.head.contains(part), "{path}: {}", answer.head);
        }
        assert!(answer.head.contains("nosniff") && answer.head.contains("no-store"), "{path}");
    }
    assert!(pages.page("/").contains("There is no run directory"));
    assert_eq!(pages.page("/runs.json").trim(), "[]");
}

#[test]
fn another_address_must_be_allowed() {
    let folder = tempfile::tempdir().unwrap();
    let options = serve::Options {
        dirs: vec![folder.path().to_owned()],
        at: "0.0.0.0:0".parse().unwrap(),
        allow_external: false,
    };
    let stop = std::sync::Arc::default();
    let refused = serve::serve(&options, |_| panic!("it listens"), &stop).unwrap_err();
    assert!(refused.to_string().contains("--allow-external"), "{refused}");
    let none =
        serve::Options { dirs: vec!["/nowhere".into()], at: "127.0.0.1:0".parse().unwrap(), ..options };
    let missing = serve::serve(&none, |_| panic!("it listens"), &stop).unwrap_err();
    assert!(missing.to_string().starts_with("/nowhere: "), "{missing}");
}
