//! Experiments whose hosts are other machines, each with an agent.

mod kills;
mod lab;

use crate::kill::wait_until;
use crate::{TINY, has, stderr, write};
use lab::{Lab, Way};
use measure::params;
use results::RunDir;
use std::path::Path;
use std::process::Stdio;

/// Whether machines can be made here; says loudly why not.
fn possible(programs: &[&str]) -> bool {
    let root = rustix::process::geteuid().is_root();
    if !root {
        eprintln!("SKIPPED: it needs root");
    }
    let cores = std::thread::available_parallelism().is_ok_and(|n| n.get() >= 2);
    if !cores {
        eprintln!("SKIPPED: it needs two cores");
    }
    root && cores && programs.iter().all(|program| has(program))
}

#[test]
fn hosts_by_a_command_measure_the_same() {
    if !possible(&["nsd"]) {
        return;
    }
    let lab = Lab::up("c", &[("server", 0), ("generator", 1)], Way::Command);
    let dir = lab.runs.path().join("run");
    let sets = [
        "measure=memory,load,latency",
        "latency.witness=true",
        "zone.sign=ECDSAP256SHA256",
        "zone.families=S-6-DS100",
    ];
    let got = lab.run(&dir, TINY, &sets);
    let said = stderr(&got);
    assert!(matches!(got.status.code(), Some(0 | 3)), "{said}");
    assert!(said.contains("its clock"), "{said}");
    let kept = RunDir::open(&dir).expect("the run directory is whole");
    assert_eq!(kept.trials().len(), 3, "{said}");
    for trial in kept.trials() {
        assert_eq!(trial.error, None, "{said}");
        let metric = |name: &str| trial.outcome.metric_named(name);
        assert!(metric("server_pss").is_some_and(|b| b > 1e6), "{:?}", trial.outcome.metrics);
        match trial.param(params::MEASURE) {
            Some("latency") => {
                assert_eq!(metric("offered"), Some(500.0));
                assert_eq!(metric("sent").unwrap() + metric("unsent").unwrap(), 500.0);
                assert!(metric("answered").unwrap() > 0.0 && metric("mismatched") == Some(0.0));
                // The capture at the server has the same queries, read by another clock.
                let queries = metric("witness_queries").expect("a witness");
                assert!((queries - metric("sent").unwrap()).abs() <= 5.0, "{queries}");
                assert!(trial.series.iter().any(|row| row.metric == "server_cpu"), "{:?}", trial.series);
                if has("delv") {
                    assert_eq!(metric("answers_not_validated"), Some(0.0), "{:?}", trial.outcome.validity);
                }
            }
            Some("load") => assert!(metric("reload_seconds").is_some(), "{:?}", trial.outcome),
            _ => {}
        }
        let log = dir.join("servers").join(trial.id.to_string());
        assert!(std::fs::read_dir(&log).is_ok_and(|mut files| files.next().is_some()), "no logs in {log:?}");
    }
    let environment = kept.environment();
    assert_eq!(environment["co_located"], false);
    let machines = environment["machines"].as_array().expect("machines");
    assert_eq!(machines.len(), 2, "{environment}");
    // The interface is that of the host, and not one of the machine that the test is on.
    let interface = &machines[0]["described"]["interfaces"][0];
    assert_eq!((&interface["driver"], &interface["mtu"]), (&"veth".into(), &1500.into()), "{interface}");
    lab.assert_tidy();
    // What is not there is said before anything starts.
    let text = std::fs::read_to_string(&lab.rack).unwrap().replace("10.53.0.1\"", "10.53.0.77\"");
    let wrong = write(&lab.user.folder, "wrong.toml", &text.replace("fd53::2", "fd53::78"));
    let none = lab.runs.path().join("none");
    let program = lab.user.program_path();
    let words = [program.as_str(), "experiment", "run", "demo", "--rack", &wrong, "-o"];
    let got = lab.on("control", &words).arg(&none).output().expect("it runs");
    let said = stderr(&got);
    assert_eq!(got.status.code(), Some(1), "{said}");
    assert!(said.contains("host server: no interface of") && said.contains("10.53.0.77"), "{said}");
    assert!(said.contains("host generator: no interface of") && said.contains("fd53::78"), "{said}");
    assert!(!none.exists());
}

#[test]
fn hosts_by_ssh_carry_updates_to_a_secondary() {
    if !possible(&["sshd", "nsd", "named"]) {
        return;
    }
    let lab = Lab::up("s", &[("server", 0), ("generator", 1), ("primary", 0)], Way::Ssh);
    let sets = [
        "measure=transfer,lag",
        "distribution.primary=bind",
        "distribution.secondaries=1",
        "updates.rates=4",
        "updates.duration=3s",
    ];
    let dir = lab.runs.path().join("run");
    let got = lab.run(&dir, TINY, &sets);
    let said = stderr(&got);
    assert!(matches!(got.status.code(), Some(0 | 3)), "{said}");
    let kept = RunDir::open(&dir).expect("the run directory is whole");
    assert_eq!(kept.trials().len(), 2, "{said}");
    for trial in kept.trials() {
        assert_eq!(trial.error, None, "{said}");
        let metric = |name: &str| trial.outcome.metric_named(name);
        if trial.param(params::MEASURE) == Some("lag") {
            assert!(metric("markers_seen").is_some_and(|n| n > 0.0), "{:?}", trial.outcome);
            assert!(metric("ixfr_transfers").is_some_and(|n| n > 0.0), "{:?}", trial.outcome);
        } else {
            assert!(metric("transfer_records").is_some_and(|n| n > 300.0), "{:?}", trial.outcome);
        }
    }
    lab.assert_tidy();
    // A key that is not taken is said, and nothing waits for a password.
    std::fs::remove_file(lab.user.folder.path().join("id.pub")).unwrap();
    let got = lab.run(&lab.runs.path().join("none"), TINY, &sets);
    assert_eq!(got.status.code(), Some(1));
    assert!(stderr(&got).contains("Permission denied"), "{}", stderr(&got));
}

#[test]
fn sets_of_hosts_share_the_trials_and_one_goes_on_without_the_other() {
    if !possible(&["nsd"]) {
        return;
    }
    let hosts = [("server", 0), ("generator", 1), ("server-b", 0), ("generator-b", 1)];
    let lab = Lab::up("p", &hosts, Way::Command);
    // A folder for each set: what is on one machine has one program.
    let text = std::fs::read_to_string(&lab.rack).unwrap();
    let of_set = |name: &str| format!("name = \"{name}\"\nset = 2");
    let text = text
        .replace("name = \"server-b\"", &of_set("server"))
        .replace("name = \"generator-b\"", &of_set("generator"));
    std::fs::write(&lab.rack, text).unwrap();
    let experiment = write(&lab.user.folder, "experiment.toml", TINY);
    let sets = ["repeats=4", "attempts=1", "measure=memory,latency"];
    let run = |name: &str| {
        let dir = lab.runs.path().join(name);
        let mut command = lab.experiment(&dir, &experiment, &sets);
        command.args(["--parallel", "2"]).stdout(Stdio::null()).stderr(Stdio::piped());
        (dir, command.spawn().expect("it starts"))
    };
    let sets_of = |dir: &Path| -> Vec<String> {
        let kept = RunDir::open(dir).expect("the run directory is whole");
        kept.trials().iter().map(|t| t.param(params::SET).expect("a set").to_owned()).collect()
    };
    let (dir, child) = run("both");
    let got = child.wait_with_output().unwrap();
    let said = stderr(&got);
    assert!(matches!(got.status.code(), Some(0 | 3)), "{said}");
    let made = sets_of(&dir);
    assert_eq!(made.len(), 8, "{said}");
    assert!(["1", "2"].iter().all(|set| made.iter().any(|s| s == set)), "{made:?}");
    assert!(said.contains("set 2: trial "), "{said}");
    let report = lab.user.program(&["report"]).arg(&dir).output().unwrap();
    let report = String::from_utf8_lossy(&report.stdout).into_owned();
    assert!(report.contains("Trials were made by 2 sets of hosts at the same time"), "{report}");
    // A set that is not there is named before anything starts.
    let none = lab.runs.path().join("none");
    let got = lab.experiment(&none, &experiment, &sets).args(["--parallel", "3"]).output().unwrap();
    assert_eq!(got.status.code(), Some(1));
    assert!(stderr(&got).contains("host server of set 3: it is needed"), "{}", stderr(&got));
    assert!(!none.exists());
    lab.assert_tidy();
    // One set is lost while trials are made.
    let (dir, child) = run("one");
    let folder = lab.files.path().join("server-b").display().to_string();
    wait_until("a trial that is done", || RunDir::open(&dir).is_ok_and(|run| !run.trials().is_empty()));
    assert!(kills::kill(&["role host --folder", &folder]));
    let got = child.wait_with_output().unwrap();
    let said = stderr(&got);
    assert!(matches!(got.status.code(), Some(0 | 3)), "{said}");
    assert!(said.contains("set 2 is lost, the others make its trials"), "{said}");
    assert_eq!(sets_of(&dir).len(), 8, "{said}");
}

/// The experiments that are tried, what is left out of each, and the counts that have to be alike.
const ALIKE: [(&str, &[&str]); 6] = [
    ("rzaia-latency", &["servers=nsd,knot"]),
    ("rzaia-memory", &["servers=nsd,knot"]),
    ("isc-peak", &["servers=nsd,knot"]),
    ("isc-updates", &["servers=bind,knot"]),
    ("isc-distribution", &["servers=nsd,knot"]),
    ("secondary-kill", &["servers=nsd,knot"]),
];

/// Counts that a trial gives whatever machine it is on; with a window, the server decides how many queries are offered.
const COUNTS: [&str; 4] = ["offered", "answers_validated", "update_offered", "transfer_records"];

/// Figures that are shown beside each other.
const SHOWN: [&str; 5] = ["latency_p50", "capacity_qps", "server_pss", "accepted_ups", "lag_p50"];

/// Prints a table in Markdown: each figure here, and by ssh in the rack's namespaces.
#[test]
#[ignore = "it takes long: scripts/machines.sh"]
fn experiments_count_the_same_here_and_by_ssh() {
    if !possible(&["sshd", "nsd", "named", "knotd"]) {
        return;
    }
    let hosts = [
        ("server", 0),
        ("generator", 1),
        ("primary", 0),
        ("secondary-1", 0),
        ("secondary-2", 0),
        ("secondary-3", 0),
    ];
    let lab = Lab::up("a", &hosts, Way::Ssh);
    println!("| experiment | trial | figure | here | by ssh |\n|---|---|---|---|---|");
    for (name, sets) in ALIKE {
        let sets = [sets, &["size=quick", "repeats=1"][..]].concat();
        let (here, there) = (lab.runs.path().join(format!("{name}-here")), lab.runs.path().join(name));
        let mut local = lab.user.program(&["experiment", "run", name, "-o"]);
        local.arg(&here).args(sets.iter().flat_map(|set| ["--set", set]));
        for mut command in [local, lab.experiment(&there, name, &sets)] {
            let got = command.output().expect("it runs");
            assert!(matches!(got.status.code(), Some(0 | 3)), "{name}: {}", stderr(&got));
        }
        let [here, there] = [here, there].map(|dir| RunDir::open(&dir).expect("the run directory is whole"));
        assert_eq!(here.trials().len(), there.trials().len(), "{name}");
        for (one, other) in here.trials().iter().zip(there.trials()) {
            let cell = |t: &results::TrialRecord| {
                [params::MEASURE, params::SERVER, params::FAMILY, params::ZONE_SIZE]
                    .map(|p| t.param(p).unwrap_or("").to_owned())
            };
            assert_eq!((cell(one), &one.error), (cell(other), &other.error), "{name}");
            let metric = |t: &results::TrialRecord, metric: &str| t.outcome.metric_named(metric);
            let with_window = cell(one)[0] == "throughput";
            for count in COUNTS.into_iter().filter(|count| !(with_window && *count == "offered")) {
                assert_eq!(metric(one, count), metric(other, count), "{name} {:?}: {count}", cell(one));
            }
            for figure in SHOWN {
                if let (Some(a), Some(b)) = (metric(one, figure), metric(other, figure)) {
                    println!("| {name} | {} | {figure} | {a:.0} | {b:.0} |", cell(one).join(" "));
                }
            }
        }
    }
    lab.assert_tidy();
}
