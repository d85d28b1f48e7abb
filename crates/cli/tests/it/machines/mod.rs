//! Experiments whose hosts are other machines, each with an agent.

mod kills;
mod lab;
mod queries;

use crate::durable;
use crate::kill::{processes, wait_until};
use crate::{TINY, has, stderr, write};
use lab::{Lab, Way};
use measure::{metrics, params};
use results::RunDir;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

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
    // The machine of the server has a core beside those of its host, and the agent keeps to that one.
    let text = std::fs::read_to_string(&lab.rack).unwrap();
    let text = text.replace("\"server\"]", "\"server\", \"taskset\", \"-c\", \"0,1\"]");
    assert!(text.contains("taskset"), "{text}");
    std::fs::write(&lab.rack, text).unwrap();
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
    // So is an interface that is not the one named, and a processor that there is no build for.
    let text = std::fs::read_to_string(&lab.rack).unwrap();
    let text = text.replace("name = \"server\"\n", "name = \"server\"\ninterface = \"eth7\"\n");
    write(&lab.user.folder, "wrong.toml", &text);
    let got = lab.on("control", &words).arg(&none).output().expect("it runs");
    let said = stderr(&got);
    assert!(said.contains("the interface eth7 of") && said.contains("10.53.0.1: eth0 has it"), "{said}");
    assert!(!said.contains("host generator"), "{said}");
    let other = lab.user.folder.path().join("other");
    std::fs::create_dir(&other).unwrap();
    write_program(&other, "uname", "echo mips");
    let text = text.replace(
        &format!("\"{program}\", \"rack\""),
        &format!("\"env\", \"PATH={}:/usr/bin:/bin\", \"{program}\", \"rack\"", other.display()),
    );
    write(&lab.user.folder, "wrong.toml", &text);
    let got = lab.on("control", &words).arg(&none).output().expect("it runs");
    let said = stderr(&got);
    assert_eq!(got.status.code(), Some(1), "{said}");
    assert!(said.contains("its processor is mips: put a build for it beside"), "{said}");
    lab.assert_tidy();
}

#[test]
fn captures_are_read_on_hosts_of_which_one_dies_and_a_killed_import_goes_on() {
    if !possible(&["sshd"]) {
        return;
    }
    let lab = Lab::up("i", &[("one", 0), ("two", 1)], Way::Ssh);
    let program = lab.user.program_path();
    let at = |name: &str| lab.runs.path().join(name).display().to_string();
    let names = write(&lab.user.folder, "names", "com\nnet\norg\n");
    let captures: Vec<String> = (0..6).map(|n| at(&format!("{n}.pcap"))).collect();
    for capture in &captures {
        let made = ["traffic", "generate", "rzaia", "--names", &names, "--count", "300K", "-o", capture];
        assert!(crate::output(&made).status.success());
    }
    let import = |folder: &str, more: &[&str]| {
        let words = [&program, "--json", "trace", "import", "--apart", "--rack", &lab.rack, "-o", folder];
        let all: Vec<&str> = captures.iter().map(String::as_str).chain(more.iter().copied()).collect();
        let mut command = lab.on("control", &[&words[..], &all].concat());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().expect("it starts")
    };
    let lines = |folder: &str| {
        let manifest = Path::new(folder).join("_manifest.jsonl");
        std::fs::read_to_string(manifest).unwrap_or_default().lines().count()
    };
    // The captures now imported, after all of them are in the folder, each row once.
    let whole = |folder: &str, got: &std::process::Output| {
        assert!(got.status.success(), "{}", stderr(got));
        let json: serde_json::Value = serde_json::from_slice(&got.stdout).expect("JSON");
        let count = |name: &str| json[name].as_u64().unwrap_or_else(|| panic!("no {name} in {json}"));
        assert_eq!((count("rows"), count("captures"), count("undone")), (1_800_000, 6, 0), "{json}");
        let entries = std::fs::read_dir(folder).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        let each = (0..6).map(|n| format!("capture={n}.pcap"));
        assert_eq!(names, std::iter::once("_manifest.jsonl".to_owned()).chain(each).collect::<Vec<_>>());
        if let Some(query) = crate::query_program() {
            let sql = "SELECT count(*) AS rows FROM queries GROUP BY source";
            let rows =
                Command::new(query).args([sql, folder, "--apart", "--format", "csv"]).output().unwrap();
            assert_eq!(crate::stdout(&rows), format!("rows\n{}", "300000\n".repeat(6)), "{}", stderr(&rows));
        }
        count("imported")
    };
    // Everything on one host, while it imports.
    let folder = at("lost");
    let running = import(&folder, &[]);
    wait_until("a capture that is done", || lines(&folder) > 1);
    assert!(kills::kill(&["role host --folder", &lab.files.path().join("one").display().to_string()]));
    let got = running.wait_with_output().expect("it ends");
    assert_eq!(whole(&folder, &got), 6);
    assert!(stderr(&got).contains("host one"), "{}", stderr(&got));
    wait_until("the end of the agents", || !lab.is_at_work());
    // A process that imports, so that its capture is given to the other host; then the command itself.
    let folder = at("killed");
    let mut first = import(&folder, &[]);
    wait_until("a capture that is done", || lines(&folder) > 1);
    kills::kill(&[&lab.files.path().display().to_string(), "role import"]);
    first.kill().and_then(|()| first.wait()).expect("it is killed");
    wait_until("the end of the agents", || !lab.is_at_work());
    assert!(lines(&folder) < 7, "it was done before it was killed");
    let got = import(&folder, &["--resume"]).wait_with_output().expect("it runs");
    assert!((1..6).contains(&whole(&folder, &got)), "{}", stderr(&got));
    lab.assert_tidy();
}

/// An executable script.
fn write_program(folder: &Path, name: &str, text: &str) -> PathBuf {
    use std::os::unix::fs::PermissionsExt;
    let path = folder.join(name);
    std::fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    path
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
            assert_eq!(metric("update_offered"), Some(12.0), "4 a second for 3 s: {:?}", trial.outcome);
            assert!(metric("ixfr_transfers").is_some_and(|n| n > 0.0), "{:?}", trial.outcome);
        } else {
            assert!(metric("transfer_records").is_some_and(|n| n > 300.0), "{:?}", trial.outcome);
            assert!(metric("path_rtt").is_some_and(|us| us > 0.0), "{:?}", trial.outcome);
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
fn hosts_by_a_command_tell_who_syncs() {
    if !possible(&["knotd"]) || !durable::servers().contains(&"knot") {
        return;
    }
    let lab = Lab::up("d", &[("server", 0), ("generator", 1)], Way::Command);
    let head = "name = \"durable\"\nmeasure = [\"syncs\", \"power-cut\"]\nservers = [\"knot\"]\nvariant = [{ name = \"on\" }, \
                { name = \"off\", syncs = \"preload\" }]\n";
    let dir = lab.runs.path().join("run");
    let got = lab.run(&dir, &format!("{head}{}", durable::COMMON), &[]);
    let said = stderr(&got);
    assert!(matches!(got.status.code(), Some(0 | 3)), "{said}");
    let kept = RunDir::open(&dir).expect("the run directory is whole");
    assert_eq!(kept.trials().len(), 4, "{said}");
    for trial in kept.trials() {
        assert_eq!(trial.error, None, "{said}");
        let value_of = |name: &str| trial.outcome.metric_named(name).unwrap_or_else(|| panic!("no {name}"));
        let folder = dir.join("servers").join(trial.id.to_string());
        let syncs = trial.param(params::VARIANT) == Some("on");
        match trial.param(params::MEASURE) {
            Some("syncs") => {
                assert!(value_of("traced") >= 60.0 && value_of("disk_syncs_before") > 0.0, "{said}");
                let covered = if syncs { value_of("traced") } else { 0.0 };
                assert_eq!(value_of("traced_covered"), covered, "{said}");
                assert_eq!(folder.join("not-covered.txt").exists(), !syncs);
            }
            _ => {
                assert_eq!((value_of("cuts"), value_of("cuts_with_survivors")), (4.0, 2.0), "{said}");
                assert!(value_of("cut_acknowledged") > 0.0, "{said}");
                let lost = value_of("cut_lost") + value_of("cut_gone_with_server");
                assert_eq!(lost > 0.0, !syncs, "{said}");
                assert!(folder.join("server-1/kept/server").is_dir(), "the server's log has come");
            }
        }
    }
    lab.assert_tidy();
}

#[test]
fn sets_of_hosts_share_the_trials_and_one_goes_on_without_the_other() {
    if !possible(&["nsd"]) {
        return;
    }
    let hosts = [("server", 0), ("generator", 1), ("server-b", 0), ("generator-b", 1)];
    let lab = Lab::up("p", &hosts, Way::Command);
    // A folder for each set: what is on one machine has one program. These machines have IPv4 alone.
    let text = std::fs::read_to_string(&lab.rack).unwrap();
    let v4 = |line: &str| match line.split_once(", \"fd53::") {
        Some((before, _)) => format!("{before}]\n"),
        None => format!("{line}\n"),
    };
    let text: String = text.lines().map(v4).collect();
    assert!(!text.contains("fd53"));
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

/// CPU seconds, user and system, that the processes of each agent, by its folder, and of the coordinator have taken so far.
fn cpu_seconds(lab: &Lab) -> BTreeMap<String, f64> {
    let mut all = BTreeMap::new();
    // The shells that start an agent have its words, too.
    let files = lab.files.path().to_str().expect("a path");
    for (pid, line) in processes(lab.files.path()).into_iter().chain(processes(lab.runs.path())) {
        let who = match line.split_once(" role host --folder ") {
            Some((program, folder)) if program.starts_with(files) => folder.trim().to_owned(),
            None if line.contains(" experiment run ") && !line.contains("rack exec") => {
                COORDINATOR.to_owned()
            }
            _ => continue,
        };
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        // After the name, which may have spaces: 11 further fields, then both times in hundredths of a second.
        let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
        let ticks = |at: usize| fields.get(at).and_then(|text| text.parse::<f64>().ok()).unwrap_or(0.0);
        *all.entry(who).or_insert(0.0) += (ticks(11) + ticks(12)) / 100.0;
    }
    all
}

const COORDINATOR: &str = "coordinator";

/// CPU seconds by process at some times, which are in seconds since `began`.
type Seen = Vec<(f64, BTreeMap<String, f64>)>;

/// Looks at the CPU time of all twice a second until it is over.
fn watch(lab: &Lab, began: Instant, over: &AtomicBool) -> Seen {
    let mut seen = Vec::new();
    while !over.load(Ordering::Relaxed) {
        seen.push((began.elapsed().as_secs_f64(), cpu_seconds(lab)));
        std::thread::sleep(Duration::from_millis(500));
    }
    seen
}

/// The share of a core, in per cent, that each process took between two times: of the agents by their folders, and of the coordinator.
fn shares(seen: &Seen, from: f64, to: f64) -> (BTreeMap<String, f64>, f64) {
    let at = |time: f64| seen.iter().min_by(|a, b| (a.0 - time).abs().total_cmp(&(b.0 - time).abs()));
    let ((from, before), (to, after)) = (at(from).unwrap(), at(to).unwrap());
    let percent = |who: &String| Some((who.clone(), 100.0 * (after.get(who)? - before[who]) / (to - from)));
    let mut all: BTreeMap<String, f64> = before.keys().filter_map(percent).collect();
    let coordinator = all.remove(COORDINATOR).expect("the coordinator");
    (all, coordinator)
}

/// What an agent takes of a core while its host is measured: a load of 20 s at 5,000 queries/s, with both sides sampled. Prints a line for each
/// of five runs.
#[test]
#[ignore = "it takes long: scripts/machines.sh"]
fn agents_take_little_of_a_core_in_a_load() {
    if !possible(&["sshd", "nsd"]) {
        return;
    }
    let lab = Lab::up("c", &[("server", 0), ("generator", 1)], Way::Ssh);
    println!("| agent of the server | of the generator | coordinator | valid |\n|---|---|---|---|");
    for n in 0..5 {
        let dir = lab.runs.path().join(format!("run-{n}"));
        let sets = [
            "servers=nsd",
            "zone.families=U-4-DS0",
            "zone.delegations=10K",
            "repeats=1",
            "latency.duration=20s",
        ];
        let began = Instant::now();
        let mut command = lab.experiment(&dir, "rzaia-latency", &sets);
        let run = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("it starts");
        let over = AtomicBool::new(false);
        let (got, seen) = std::thread::scope(|scope| {
            let watch = scope.spawn(|| watch(&lab, began, &over));
            let got = run.wait_with_output().unwrap();
            over.store(true, Ordering::Relaxed);
            (got, watch.join().expect("it does not panic"))
        });
        let (done, said) = (began.elapsed().as_secs_f64(), stderr(&got));
        assert!(matches!(got.status.code(), Some(0 | 3)), "{said}");
        // What follows the load takes about two seconds.
        let (agents, coordinator) = shares(&seen, done - 18.0, done - 6.0);
        let of = |host: &str| {
            agents.iter().find(|(folder, _)| folder.ends_with(host)).map(|(_, percent)| *percent).expect(host)
        };
        let valid = RunDir::open(&dir).expect("the run directory is whole").trials()[0].is_valid();
        println!("| {:.2} % | {:.2} % | {coordinator:.2} % | {valid} |", of("server"), of("generator"));
    }
    lab.assert_tidy();
}

/// The secondaries beside the one that is measured, as many as 16 hosts have room for.
const SECONDARIES: [&str; 13] = [
    "secondary-2",
    "secondary-3",
    "secondary-4",
    "secondary-5",
    "secondary-6",
    "secondary-7",
    "secondary-8",
    "secondary-9",
    "secondary-10",
    "secondary-11",
    "secondary-12",
    "secondary-13",
    "secondary-14",
];

/// How long it takes until an experiment on so many hosts makes its first trial, and what share of a core the agents and the coordinator take
/// in the ten seconds in its middle. Prints a table in Markdown.
#[test]
#[ignore = "it takes long: scripts/machines.sh"]
fn many_hosts_by_ssh_start_soon() {
    if !possible(&["sshd", "nsd", "named"]) {
        return;
    }
    let names = ["server", "generator", "primary"].into_iter().chain(SECONDARIES);
    let hosts: Vec<(&str, u32)> = names.zip(0..).map(|(name, n)| (name, n % 2)).collect();
    let lab = Lab::up("m", &hosts, Way::Ssh);
    println!(
        "| hosts | program | seconds until all hosts were reached | until a trial of 15 s was done | CPU of an agent, median and most | of the coordinator | clocks known within |\n|---|---|---|---|---|---|---|"
    );
    for (count, program) in [
        (16, "is copied"),
        (16, "is there"),
        (16, "is there"),
        (16, "is there"),
        (8, "is there"),
        (4, "is there"),
        (3, "is there"),
    ] {
        let dir = lab.runs.path().join("run");
        let secondaries = format!("distribution.secondaries={}", count - 2);
        let sets = [
            "measure=lag",
            "distribution.primary=bind",
            "updates.rates=4",
            "updates.duration=15s",
            &secondaries,
        ];
        let experiment = write(&lab.user.folder, "experiment.toml", TINY);
        let began = Instant::now();
        let mut command = lab.experiment(&dir, &experiment, &sets);
        let mut run = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("it starts");
        // The run says of each machine what it is once all were reached.
        let mut said = String::new();
        let mut reached = None;
        let over = AtomicBool::new(false);
        let seen = std::thread::scope(|scope| {
            let watch = scope.spawn(|| watch(&lab, began, &over));
            for line in BufReader::new(run.stderr.take().expect("a pipe")).lines().map_while(Result::ok) {
                if line.contains("its clock") {
                    reached.get_or_insert_with(|| began.elapsed());
                }
                said += &(line + "\n");
            }
            over.store(true, Ordering::Relaxed);
            watch.join().expect("it does not panic")
        });
        let done = began.elapsed().as_secs_f64();
        assert!(matches!(run.wait().unwrap().code(), Some(0 | 3)), "{said}");
        let reached = reached.expect("it says of each machine what it is").as_secs_f64();
        let kept = RunDir::open(&dir).expect("the run directory is whole");
        let machines = kept.environment()["machines"].as_array().expect("machines");
        assert_eq!(machines.len(), count, "{said}");
        let bounds = machines.iter().filter_map(|m| m["clock"]["bound"].as_u64());
        let bound = bounds.max().expect("each has a clock") as f64 / 1e3;
        // What follows the load takes about two seconds.
        let (agents, coordinator) = shares(&seen, done - 14.0, done - 4.0);
        let mut agents: Vec<f64> = agents.into_values().collect();
        agents.sort_by(f64::total_cmp);
        assert_eq!(agents.len(), count, "{said}");
        println!(
            "| {count} | {program} | {reached:.1} | {done:.1} | {:.1} %, {:.1} % | {coordinator:.1} % | {bound:.0} µs |",
            agents[count / 2],
            agents[count - 1]
        );
        std::fs::remove_dir_all(&dir).unwrap();
    }
    lab.assert_tidy();
}

/// The rack of ISC's note, on 16 hosts by ssh: a primary, thirteen secondaries that all have the load, and two generators. The run
/// directory is kept as `DNSRACK_KEEP` where that is given.
#[test]
#[ignore = "it takes long: scripts/machines.sh"]
fn thirteen_secondaries_by_ssh_all_serve() {
    if !possible(&["sshd", "nsd", "named"]) {
        return;
    }
    let secondaries = &SECONDARIES[..12];
    let names = ["server", "generator-1", "generator-2", "primary"].iter().chain(secondaries).copied();
    // All share two cores, the generators one of them.
    let hosts: Vec<(&str, u32)> =
        names.map(|name| (name, u32::from(name.starts_with("generator")))).collect();
    let lab = Lab::up("t", &hosts, Way::Ssh);
    let dir = std::env::var_os("DNSRACK_KEEP").map_or_else(|| lab.runs.path().join("run"), PathBuf::from);
    let sets = [
        "servers=nsd",
        "repeats=1",
        "measure=throughput",
        "traffic.generators=2",
        "zone.delegations=30K",
        "updates.rates=0,8,32",
        "throughput.duration=10s",
    ];
    let got = lab.experiment(&dir, "isc-query-under-update", &sets).output().expect("it runs");
    let said = stderr(&got);
    assert!(matches!(got.status.code(), Some(0 | 3)), "{said}");
    let kept = RunDir::open(&dir).expect("the run directory is whole");
    assert_eq!(kept.environment()["machines"].as_array().map(Vec::len), Some(16), "{said}");
    assert_eq!(kept.trials().len(), 6, "unsigned and signed at three rates: {said}");
    for trial in kept.trials() {
        assert_eq!(trial.error, None, "{said}");
        let metric = |name: &str| trial.outcome.metric_named(name);
        let hosts = std::iter::once("server").chain(secondaries.iter().copied());
        let each: Vec<f64> =
            hosts.map(|host| metric(&metrics::ANSWERED_BY_SECONDARY.name(host)).expect(host)).collect();
        assert!(each.len() == 13 && each.iter().all(|rate| *rate > 0.0), "{each:?}");
        let all = metric("all_answered_qps").expect("of all together");
        assert!((all / each.iter().sum::<f64>() - 1.0).abs() < 0.01, "{all}: {each:?}");
        assert!(metric("all_answer_rate").is_some_and(|rate| rate > 0.0));
        println!(
            "{} at {} updates/s: {all:.0} answers/s of all, {:.0} to {:.0} of each, valid {}",
            trial.param(params::FAMILY).unwrap_or_default(),
            trial.param(params::UPDATES).unwrap_or_default(),
            each.iter().copied().fold(f64::INFINITY, f64::min),
            each.iter().copied().fold(0.0, f64::max),
            trial.outcome.validity.valid
        );
    }
    let size = |name: &str| std::fs::metadata(dir.join(name)).map_or(0, |file| file.len());
    println!("series.parquet {} octets, trials.parquet {}", size("series.parquet"), size("trials.parquet"));
    lab.assert_tidy();
}

/// A static build runs where the distribution is another one: the server's host has the root folder `DNSRACK_ROOT`, with NSD, and
/// `DNSRACK_STATIC` is the build.
#[test]
#[ignore = "it needs another distribution's root: scripts/machines.sh"]
fn a_static_build_runs_on_another_distribution() {
    let (Ok(root), Ok(build)) = (std::env::var("DNSRACK_ROOT"), std::env::var("DNSRACK_STATIC")) else {
        eprintln!("SKIPPED: scripts/machines.sh makes DNSRACK_ROOT and DNSRACK_STATIC");
        return;
    };
    if !possible(&["nsd"]) {
        return;
    }
    let lab = Lab::up("d", &[("server", 0), ("generator", 1)], Way::Command);
    let text = std::fs::read_to_string(&lab.rack).unwrap();
    // The mounts go with the agent. The root is one, as that of a machine is; it has a /tmp of its own.
    let mounts = format!(
        "mount --bind {root} {root} && mount --rbind /proc {root}/proc && mount --rbind /dev {root}/dev"
    );
    let enter =
        write_program(lab.user.folder.path(), "enter", &format!("{mounts} && exec chroot {root} \"$@\""));
    let entered = format!("\"server\", \"unshare\", \"-m\", \"{}\"]", enter.display());
    let text = text.replacen("\"server\"]", &entered, 1);
    std::fs::write(&lab.rack, text).unwrap();
    let dir = lab.runs.path().join("run");
    let experiment = write(&lab.user.folder, "experiment.toml", TINY);
    let run = |program: &str| {
        let dir = dir.display().to_string();
        let words = [program, "experiment", "run", &experiment, "--rack", &lab.rack, "-o", &dir];
        lab.on("control", &words).output().expect("it runs")
    };
    let got = run(&build);
    let said = stderr(&got);
    assert!(matches!(got.status.code(), Some(0 | 3)), "{said}");
    let kept = RunDir::open(&dir).expect("the run directory is whole");
    assert!(kept.trials().iter().all(|trial| trial.error.is_none()), "{said}");
    let systems: Vec<String> = kept.environment()["machines"]
        .as_array()
        .expect("machines")
        .iter()
        .map(|m| m["described"]["environment"]["os"].to_string())
        .collect();
    println!("{systems:?}, {}", kept.environment()["servers"]);
}

/// The experiments that are tried, what is left out of each, and the counts that have to be alike.
const ALIKE: [(&str, &[&str]); 6] = [
    ("rzaia-latency", &["servers=nsd,knot"]),
    ("rzaia-memory", &["servers=nsd,knot"]),
    ("isc-peak", &["servers=nsd,knot", "zone.families=COM#1/2,COM#1/3"]),
    ("isc-updates", &["servers=bind,knot"]),
    ("isc-distribution", &["servers=nsd,knot"]),
    ("secondary-kill", &["servers=nsd,knot"]),
];

/// Counts that a trial gives whatever machine it is on.
const COUNTS: [&str; 4] = ["offered", "answers_validated", "update_offered", "transfer_records"];

/// Figures that are shown beside each other.
const SHOWN: [&str; 7] = [
    "latency_p50",
    "capacity_qps",
    "answered_qps",
    "server_pss",
    "update_accepted_ups",
    "lag_p50",
    "coordinator_cpu",
];

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
    let wanted = std::env::var("DNSRACK_EXPERIMENTS").unwrap_or_default();
    for (name, sets) in ALIKE.into_iter().filter(|(name, _)| wanted.is_empty() || wanted.contains(name)) {
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
            // With a window, and in a search, the server decides how many queries are offered.
            let at_a_rate = cell(one)[0] == "latency";
            for count in COUNTS.into_iter().filter(|count| at_a_rate || *count != "offered") {
                assert_eq!(metric(one, count), metric(other, count), "{name} {:?}: {count}", cell(one));
            }
            for figure in SHOWN {
                if let (Some(a), Some(b)) = (metric(one, figure), metric(other, figure)) {
                    println!("| {name} | {} | {figure} | {a:.1} | {b:.1} |", cell(one).join(" "));
                }
            }
        }
    }
    lab.assert_tidy();
}
