//! Zones that are carried over paths, and changes that are carried in batches, with real servers in a rack.

use crate::kill::{kill, processes};
use crate::measures::{done, metric};
use crate::{dnsrack, has, output, stderr, stdout, write};
use measure::params;
use results::RunDir;
use rustix::process::{Pid, getpgid};
use serde_json::Value;
use std::process::Stdio;
use std::time::{Duration, Instant};

/// What all of them have.
const COMMON: &str = r#"
title = "Of seconds"
settle = "0s"
attempts = 1

[zone]
families = ["U-4-DS0"]
delegations = [DELEGATIONS]
validate = 0

[updates]
mix = "rzaia"

[latency]
pacing = "1s"
"#;

/// An experiment, run: its folder, which is gone with it, and its trials.
fn run(head: &str, delegations: u32) -> (tempfile::TempDir, String, Vec<Value>) {
    let folder = tempfile::tempdir().expect("a folder");
    let (first, variants) = head.split_once("[[variant]]").map_or((head, ""), |(first, rest)| (first, rest));
    let variants = if variants.is_empty() { String::new() } else { format!("[[variant]]{variants}") };
    let text = format!("{first}{COMMON}{variants}").replace("DELEGATIONS", &delegations.to_string());
    let file = write(&folder, "carried.toml", &text);
    let dir = folder.path().join("run").to_str().expect("a path").to_owned();
    let all = done(&file, &dir);
    (folder, dir, all)
}

fn value_of(event: &Value, name: &str) -> f64 {
    metric(event, name).unwrap_or_else(|| panic!("no {name}: {event}"))
}

#[test]
fn all_secondaries_are_asked_and_their_answers_are_added_up() {
    if !(has("named") && has("nsd")) {
        return;
    }
    let head = "name = \"all\"\nmeasure = [\"throughput\"]\nservers = [\"nsd\"]\n\
                throughput = { window = 5, duration = \"2s\", warmup = \"200ms\" }\n\
                distribution = { primary = \"bind\", secondaries = 3, timers = \"tuned\", queried = \"all\" }\n";
    let (_folder, dir, all) = run(head, 300);
    assert_eq!(all.len(), 1);
    let trial = &all[0];
    assert!(trial["error"].is_null(), "{trial}");
    assert_eq!(trial["params"]["queried"], "all", "{trial}");
    let value_of = |name: &str| value_of(trial, name);
    let each = ["server", "secondary_2", "secondary_3"].map(|host| value_of(&format!("answered_{host}_qps")));
    assert!(each.iter().all(|qps| *qps > 100.0), "{trial}");
    assert_eq!(value_of("answered_qps"), each[0], "the trial's own figures are the measured secondary's");
    // Rates of all are over the longest load.
    let (sum, together) = (each.iter().sum::<f64>(), value_of("all_answered_qps"));
    assert!((together / sum - 1.0).abs() < 0.02, "{together} {each:?}");
    assert!(value_of("all_answer_rate") > 0.0 && value_of("markers_seen") > 0.0, "{trial}");
    let report = stdout(&output(&["report", &dir]));
    assert!(
        report.contains("Answered by all secondaries together") && report.contains("3 secondaries, each"),
        "{report}"
    );
}

#[test]
fn each_batch_waits_until_the_one_before_is_served() {
    if !(has("named") && has("knotd")) {
        return;
    }
    let head = "name = \"batches\"\nmeasure = [\"batches\"]\nservers = [\"knot\"]\npublished = [\"rzaia-5.2\"]\n\
                distribution = { primary = \"bind\", secondaries = 1, timers = \"tuned\", path = { delay = \"30ms\" } }\n\
                batches = { share = 0.1, count = 4, rate = 200 }\n";
    let (_folder, dir, all) = run(head, 300);
    assert_eq!(all.len(), 1);
    let trial = &all[0];
    assert!(trial["error"].is_null(), "{trial}");
    let value_of = |name: &str| value_of(trial, name);
    assert_eq!(
        (value_of("batches"), value_of("batches_served"), value_of("batches_lost")),
        (4.0, 4.0, 0.0),
        "{trial}"
    );
    assert_eq!(value_of("batches_bytes"), value_of("batches_bytes_out") + value_of("batches_bytes_back"));
    // Of 300 delegations with about eleven records each a tenth.
    assert!((200.0..600.0).contains(&value_of("batches_records")), "{trial}");
    assert!(value_of("ixfr_transfers") >= 4.0 && value_of("axfr_transfers") == 0.0, "{trial}");
    // A batch takes a connection over the path at least; queries at the secondary do not take it.
    assert!(value_of("batch_p50") > 60_000.0 && value_of("batches_seconds") > 0.24, "{trial}");
    assert!(value_of("answered") > 0.0 && value_of("latency_p50") < 30_000.0, "{trial}");
    assert_eq!((value_of("path_loss"), value_of("path_loss_asked")), (0.0, 0.0));
    let folder = std::path::Path::new(&dir);
    let environment = std::fs::read_to_string(folder.join("environment.json")).expect("it is there");
    assert!(environment.contains("\"user space\""), "{environment}");
    let kept = |name: &str| folder.join("servers/1").join(name).exists();
    assert!(kept("path.json") && kept("batches.csv"));
    assert!(
        !kept("transfers.pcap") || trial["valid"] == false,
        "a capture that was read is not needed any more"
    );
    let report = stdout(&output(&["report", &dir]));
    for title in [
        "Octets that carried all batches",
        "Time until a batch is served",
        "Queries while batches arrive",
        "What the paths did",
    ] {
        assert!(report.contains(title), "{title} is missing:\n{report}");
    }
    // Of what a busy machine made invalid no question is answered.
    let answered = report.contains("Are changes carried as differences?");
    assert!(answered || trial["valid"] == false, "{report}");
}

#[test]
fn trials_that_wait_for_timers_are_made_at_the_same_time_on_one_machine() {
    if !(has("named") && has("nsd")) {
        return;
    }
    let head = "name = \"waiting\"\nmeasure = [\"batches\"]\nservers = [\"nsd\"]\nrepeats = 3\npublished = [\"rzaia-5.2\"]\n\
                distribution = { primary = \"bind\", secondaries = 1, timers = \"default\" }\n\
                batches = { share = 0.1, count = 2, rate = 0 }\n";
    let folder = tempfile::tempdir().expect("a folder");
    let of =
        |head: &str| write(&folder, "waiting.toml", &format!("{head}{COMMON}").replace("DELEGATIONS", "300"));
    let dir = folder.path().join("run");
    let run = |file: &str| {
        // The marker is asked for seldom, as docs/machines.md advises: then a watcher that is late by some milliseconds is no reason.
        let seldom = ["--set", "updates.interval=50ms", "-o", dir.to_str().expect("a path")];
        output(&[&["experiment", "run", file, "--parallel", "3"], &seldom[..]].concat())
    };
    // Figures that depend on the cores are not measured by trials that share them.
    let got = run(&of(&head.replace("\"default\"", "\"tuned\"")));
    assert_eq!(got.status.code(), Some(1), "{}", stderr(&got));
    assert!(stderr(&got).contains("--parallel: without --rack its trials would share"), "{}", stderr(&got));
    assert!(!dir.exists());
    let got = run(&of(head));
    assert!(matches!(got.status.code(), Some(0 | 3)), "{}", stderr(&got));
    let kept = RunDir::open(&dir).expect("the run directory is whole");
    let mut sets: Vec<&str> = kept.trials().iter().map(|t| t.param(params::SET).expect("a set")).collect();
    sets.sort_unstable();
    assert_eq!(sets, ["1", "2", "3"], "each makes one of the three trials");
    let octets: Vec<f64> = kept
        .trials()
        .iter()
        .map(|trial| {
            assert_eq!(trial.error, None);
            // Only where other programs held the servers up may a trial be invalid.
            let reasons = &trial.outcome.validity.reasons;
            assert!(reasons.iter().all(|r| r.code == "server_core_shared"), "{reasons:?}");
            let value_of = |name: &str| trial.outcome.metric_named(name).expect(name);
            assert_eq!(value_of("batches_served"), 2.0);
            assert!(value_of("batches_seconds") > 5.0, "BIND waits for 5 s");
            assert_eq!(value_of("servers_waited") > 1.0, !reasons.is_empty());
            value_of("batches_bytes_out")
        })
        .collect();
    assert!(octets.iter().all(|one| (one / octets[0] - 1.0).abs() < 0.2), "{octets:?}");
    let says = stdout(&got).contains("3 trials at the same time shared the cores of one machine");
    assert!(says || kept.trials().iter().all(|t| !t.is_valid()), "{}", stdout(&got));
    let environment = std::fs::read_to_string(dir.join("environment.json")).expect("it is there");
    assert!(environment.contains("\"trials_at_once\": 3"), "{environment}");
}

#[test]
fn a_transfer_takes_the_path_and_its_delay() {
    if !has("named") {
        return;
    }
    let head = "name = \"far\"\nmeasure = [\"transfer\"]\nservers = [\"bind\"]\n\
                [[variant]]\nname = \"near\"\ndistribution = { primary = \"bind\", secondaries = 1, path = {} }\n\
                [[variant]]\nname = \"far\"\n\
                distribution = { primary = \"bind\", secondaries = 1, path = { delay = \"40ms\", duplicate = 0.5 } }\n";
    let (_folder, dir, all) = run(head, 300);
    assert!(all.len() == 2 && all.iter().all(|e| e["error"].is_null()), "{all:?}");
    let (near, far) = (&all[0], &all[1]);
    // The question comes there when it was captured, and the last message of the zone a round trip later, or more of them.
    assert!(value_of(far, "transfer_seconds") >= 0.08, "{far}");
    assert!(value_of(near, "transfer_seconds") < value_of(far, "transfer_seconds"), "{near}");
    assert!(value_of(near, "path_packets") > 10.0 && value_of(near, "path_duplicated") == 0.0);
    assert!(value_of(far, "path_duplicated") > 5.0, "{far}");
    assert_eq!((&far["params"]["path_rtt_ms"], &near["params"]["path_rtt_ms"]), (&Value::Null, &"0".into()));
    assert!(value_of(far, "transfer_bytes_out") > value_of(far, "transfer_bytes_back"));
    assert!(stdout(&output(&["report", &dir])).contains("Rate of a whole transfer over a path"));
}

#[test]
fn a_path_that_loses_a_third_is_told_and_the_run_goes_on() {
    if !has("named") {
        return;
    }
    let head = "name = \"lossy\"\nmeasure = [\"transfer\"]\nservers = [\"bind\"]\npatience = \"20s\"\n\
                [[variant]]\nname = \"lossy\"\ndistribution = { primary = \"bind\", secondaries = 1, path = { loss = 0.3 } }\n\
                [[variant]]\nname = \"clean\"\ndistribution = { primary = \"bind\", secondaries = 1, path = {} }\n";
    let (_folder, dir, all) = run(head, 300);
    assert_eq!(all.len(), 2, "{all:?}");
    let (lossy, clean) = (&all[0], &all[1]);
    // Whether the transfer ends in time or not, the trial says what became of the packets.
    let packets = value_of(lossy, "path_packets");
    assert!(packets > 10.0 && value_of(lossy, "path_lost") > 0.0, "{lossy}");
    assert!((value_of(lossy, "path_loss_asked") - 30.0).abs() < 1e-9, "{lossy}");
    assert!(
        value_of(lossy, "path_loss_low") < value_of(lossy, "path_loss")
            && value_of(lossy, "path_loss_high") > value_of(lossy, "path_loss")
    );
    let report = stdout(&output(&["report", &dir]));
    if let Some(error) = lossy["error"].as_str() {
        assert!(
            error.contains("its transfer of the zone") || error.contains("did not ask its primary"),
            "{error}"
        );
        assert!(report.contains("failed"), "{report}");
    } else {
        assert!(value_of(lossy, "transfer_seconds") > 0.0);
        assert!(report.contains("asked 30 %"), "{report}");
    }
    assert!(clean["error"].is_null() && value_of(clean, "path_loss") == 0.0, "{clean}");
}

#[test]
fn a_transfer_cut_half_way_is_told_and_the_run_goes_on() {
    if !has("named") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    // Ten seconds for the zone, of which it gets a few: the primary is killed.
    let variants = "[[variant]]\nname = \"cut\"\n\
                    distribution = { primary = \"bind\", secondaries = 1, path = { rate = \"100K\" } }\n\
                    [[variant]]\nname = \"whole\"\ndistribution = { primary = \"bind\", secondaries = 1, path = {} }\n";
    let head = "name = \"cut\"\nmeasure = [\"transfer\"]\nservers = [\"bind\"]\npatience = \"5s\"\n";
    let text = format!("{head}{COMMON}{variants}").replace("DELEGATIONS", "300");
    let file = write(&folder, "cut.toml", &text);
    let dir = folder.path().join("run");
    let mut command = dnsrack(&["experiment", "run", &file, "--events", "-o"]);
    let child = command.arg(&dir).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("it starts");
    let leads = |pid: i32| {
        let group = Pid::from_raw(pid).and_then(|pid| getpgid(Some(pid)).ok());
        group.is_some_and(|group| group.as_raw_nonzero().get() == pid)
    };
    let find = |what: &str| {
        let all = processes(folder.path());
        all.into_iter().find(|(pid, line)| line.contains(what) && leads(*pid)).map(|(pid, _)| pid)
    };
    let end = Instant::now() + Duration::from_secs(60);
    while find("servers/1/server/named.conf").is_none() {
        assert!(Instant::now() < end, "the secondary never started");
        std::thread::sleep(Duration::from_millis(50));
    }
    std::thread::sleep(Duration::from_millis(2500));
    kill(find("servers/1/primary/named.conf").expect("the primary is at work"));
    let ended = child.wait_with_output().expect("it ends");
    assert_eq!(ended.status.code(), Some(3), "{}", stdout(&ended));
    let told = stdout(&ended);
    let events = told.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON lines"));
    let all: Vec<Value> = events.filter(|e| e["event"] == "done").collect();
    assert_eq!(all.len(), 2, "{all:?}");
    let error = all[0]["error"].as_str().unwrap_or_default();
    assert!(error.contains("SIGKILL") && error.contains("its transfer of the zone"), "{error}");
    assert!(error.contains("cut after"), "{error}");
    assert!(
        value_of(&all[0], "transfers_broken") >= 1.0 && value_of(&all[0], "path_packets") > 0.0,
        "{}",
        all[0]
    );
    assert!(dir.join("servers/1/transfer.pcap").exists(), "the capture of a trial that failed is kept");
    assert!(all[1]["error"].is_null() && value_of(&all[1], "transfer_bytes") > 0.0, "{}", all[1]);
    assert!(!dir.join("servers/2/transfer.pcap").exists() || all[1]["valid"] == false);
}
