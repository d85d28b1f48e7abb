//! What experiments measure beside latency and peaks, with a real server in a rack.

use crate::faults::bench::{Running, hog};
use crate::{dnsrack, has, output, stderr, stdout, write};
use serde_json::Value;

/// Memory, loading and two kinds of traffic, of zones of two kinds.
const ALL: &str = r#"
name = "all"
title = "Everything of seconds"
published = ["rzaia-2.2", "rzaia-4.4"]
measure = ["memory", "load", "latency"]
servers = ["nsd"]
order = "random"
settle = "0s"
attempts = 1

[zone]
families = ["U-4-DS0", "COM#2/2"]
delegations = [1000]

[latency]
rates = [300]
duration = "1s"
warmup = "100ms"
deadline = "1s"

[memory]
settle = "500ms"

[traffic]
transport = "udp+tcp"

[[variant]]
name = "alone"

[[variant]]
name = "flooded"
udp_size = 512
changes = { background = 0.5, do = 1.0, edns = 1.0 }
"#;

/// Runs an experiment; its trials as events.
pub fn done(file: &str, dir: &str) -> Vec<Value> {
    let ran = output(&["experiment", "run", file, "-o", dir, "--events"]);
    // A busy machine may leave trials invalid (3); none may fail.
    assert!(matches!(ran.status.code(), Some(0 | 3)), "{}\n{}", stderr(&ran), stdout(&ran));
    let told = stdout(&ran);
    let events = told.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON lines"));
    events.filter(|e| e["event"] == "done").collect()
}

/// A metric of such a trial.
pub fn metric(event: &Value, name: &str) -> Option<f64> {
    let all = event["metrics"].as_array().expect("metrics");
    all.iter().find(|m| m["name"] == name).and_then(|m| m["value"].as_f64())
}

#[test]
fn memory_loading_and_variants_have_their_tables() {
    if !has("nsd") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let file = write(&folder, "all.toml", ALL);
    let dir = folder.path().join("run");
    let dir = dir.to_str().expect("a path");
    let done = done(&file, dir);
    // Two zones × (memory, load, latency of two variants).
    assert_eq!(done.len(), 8, "{done:?}");
    let have = |name: &str| done.iter().filter(|e| metric(e, name).is_some()).count();
    assert!(done.iter().all(|e| e["error"].is_null()), "{done:?}");
    assert_eq!((have("pss_anonymous"), have("reload_seconds"), have("background_answered")), (2, 2, 2));
    for event in &done {
        if let Some(pss) = metric(event, "server_pss").filter(|_| metric(event, "pss_heap").is_some()) {
            let kinds = ["heap", "anonymous", "program", "file", "stack", "other"];
            let sum: f64 = kinds.iter().filter_map(|kind| metric(event, &format!("pss_{kind}"))).sum();
            assert_eq!(sum, pss, "every map is of one kind");
            assert!(metric(event, "server_virtual") > metric(event, "server_rss"));
        }
        if let Some(reloaded) = metric(event, "reload_seconds") {
            assert!(reloaded > 0.0 && metric(event, "loading_peak_pss") > Some(1e6));
            assert_eq!(metric(event, "served_answered_share"), Some(100.0));
            // A thousand delegations are reloaded in less time than queries wait for.
            assert!(metric(event, "reloading_answered_share") > Some(95.0), "{event}");
        }
    }
    let report = stdout(&output(&["report", dir]));
    for title in [
        "Time until a reloaded zone is served",
        "Queries answered while the zone was reloaded",
        "Virtual size of the server",
        "Memory while a server loads and reloads",
        "Truncated answers",
        "Mean size of answers",
        "Queries of the flood that were answered",
        "U-4-DS0, flooded",
        "COM#2/2, alone",
        "[rzaia-2.2 0.02 GB]",
    ] {
        assert!(report.contains(title), "{title} is missing:\n{report}");
    }
}

#[test]
fn what_cannot_fit_is_skipped_with_its_sum_and_the_rest_is_done() {
    if !has("nsd") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let file = write(&folder, "all.toml", ALL);
    let dir = folder.path().join("run");
    let mut command = dnsrack(&["experiment", "run", &file, "--json", "-o"]);
    command.arg(&dir).args(["--set", "measure=memory", "--set", "zone.families=U-4-DS0"]);
    command.args(["--set", "zone.delegations=300,1000000000"]);
    let ran = command.output().expect("the program starts");
    assert_eq!(ran.status.code(), Some(0), "{}", stderr(&ran));
    let told: Value = serde_json::from_slice(&ran.stdout).expect("one JSON object");
    assert_eq!((&told["valid"], &told["skipped"], &told["failed"]), (&1.into(), &1.into(), &0.into()));
    let sum = "needs about 6412.2 GB of memory (6411.98 GB for nsd with 6498.4M names, 11083.9M records; 250 MB beside)";
    assert!(stderr(&ran).contains(sum), "{}", stderr(&ran));
    let report = stdout(&output(&["report", dir.to_str().expect("a path")]));
    assert!(report.contains("skipped") && report.contains(sum), "{report}");
}

#[test]
fn a_run_of_which_no_trial_can_be_made_is_refused_before_it_begins() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = write(&folder, "all.toml", ALL);
    let dir = folder.path().join("run");
    let mut command = dnsrack(&["experiment", "run", &file, "-o"]);
    command.arg(&dir).args(["--set", "measure=memory", "--set", "zone.families=U-4-DS0"]);
    command.args(["--set", "zone.delegations=1000000000"]);
    let refused = command.output().expect("the program starts");
    assert_eq!(refused.status.code(), Some(1));
    let why =
        "no trial can be made here: nsd on U-4-DS0-1G, memory, repeat 1: needs about 6412.2 GB of memory";
    assert!(stderr(&refused).contains(why), "{}", stderr(&refused));
    assert!(!dir.exists());
}

#[test]
fn a_capture_is_missed_before_anything_is_started() {
    let folder = tempfile::tempdir().expect("a folder");
    let dir = folder.path().join("run");
    let mut command = dnsrack(&["experiment", "run", "rzaia-baseline", "-o"]);
    let ran = command.arg(&dir).output().expect("the program starts");
    assert_eq!(ran.status.code(), Some(1));
    let why = "its variant 'real' needs a capture: --set traffic.trace=FILE";
    assert!(stderr(&ran).contains(why) && !dir.exists(), "{}", stderr(&ran));
}

#[test]
fn several_generators_ask_at_several_addresses_and_a_capture_bears_witness() {
    if !has("nsd") || !has("tcpdump") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let text = r#"
name = "several"
title = "Several"
published = ["nominet-qps"]
measure = ["throughput", "latency"]
servers = ["nsd"]
settle = "0s"
attempts = 1

[zone]
families = ["U-4-DS0"]
delegations = [1000]

[traffic]
profile = "PROFILE"

[throughput]
window = 5
duration = "1s"
warmup = "100ms"

[latency]
rates = [500]
duration = "1s"
warmup = "200ms"
deadline = "1s"
witness = true

[[variant]]
name = "one"

[[variant]]
name = "three at two"
generators = 3
addresses = 2
"#;
    // A window would wait for the answers to wrong checksums, and come to a stand.
    let profile = "about = \"p\"\n[types]\nNS = 1\n[packets]\nbad-checksum = 0.2\n";
    let profile = write(&folder, "profile.toml", profile);
    let file = write(&folder, "several.toml", &text.replace("PROFILE", &profile));
    let dir = folder.path().join("run");
    let dir = dir.to_str().expect("a path");
    let done = done(&file, dir);
    assert_eq!(done.len(), 4, "{done:?}");
    for event in &done {
        assert!(event["error"].is_null(), "{event}");
        let each: Vec<f64> =
            (1..=4).filter_map(|n| metric(event, &format!("generator_{n}_answered_qps"))).collect();
        let all = metric(event, "answered_qps").expect("a rate");
        if event["params"]["variant"] == "three at two" {
            assert_eq!(each.len(), 3, "{event}");
            // Rates are each over its own time, which may differ by little.
            let sum: f64 = each.iter().sum();
            assert!((sum / all - 1.0).abs() < 0.1, "{sum} of {all}");
        } else {
            assert!(each.is_empty());
        }
        if event["params"]["measure"] == "latency" {
            let (sent, seen) = (metric(event, "sent"), metric(event, "witness_queries"));
            assert_eq!(metric(event, "witness_dropped"), Some(0.0));
            let (sent, seen) = (sent.expect("sent"), seen.expect("seen"));
            assert!((sent - seen).abs() <= 5.0, "sent {sent}, captured {seen}");
            assert!(metric(event, "witness_answers") > Some(0.9 * seen), "{event}");
            // What the server needs is part of what the generator waits for.
            let (there, here) = (metric(event, "witness_latency_p50"), metric(event, "service_latency_p50"));
            assert!(there > Some(0.0) && there < here, "{there:?} at the server, {here:?} at the generator");
        } else {
            assert_eq!(metric(event, "witness_queries"), None);
            assert!(metric(event, "lost") < Some(0.01 * metric(event, "sent").expect("sent")), "{event}");
        }
    }
    let report = stdout(&output(&["report", dir]));
    for title in ["Queries answered per second with a window", "three at two"] {
        assert!(report.contains(title), "{title} is missing:\n{report}");
    }
}

#[test]
fn queries_that_are_sent_with_a_wrong_checksum_are_lost_for_that() {
    if !has("nsd") {
        return;
    }
    if !rustix::process::geteuid().is_root() {
        return eprintln!("SKIPPED: AF_XDP, which sends wrong checksums, needs root");
    }
    let folder = tempfile::tempdir().expect("a folder");
    let profile = "about = \"p\"\n[types]\nNS = 1\n[packets]\nbad-checksum = 0.1\nno-checksum = 0.1\n";
    let profile = write(&folder, "profile.toml", profile);
    for backend in ["xdp", "socket"] {
        let traffic = format!("[traffic]\nprofile = \"{profile}\"\nbackend = \"{backend}\"\n");
        let text = crate::TINY.replace("settle", "attempts = 1\nsettle") + &traffic;
        let file = write(&folder, "checksums.toml", &text);
        let dir = folder.path().join(backend);
        let done = done(&file, dir.to_str().expect("a path"));
        let [event] = done.as_slice() else { panic!("{done:?}") };
        assert!(event["error"].is_null(), "{event}");
        let of = |name: &str| metric(event, name);
        let (bad, none) = (of("sent_bad_checksum"), of("sent_no_checksum"));
        // Sockets send right ones.
        let some = if backend == "xdp" { 20.0..100.0 } else { 0.0..1.0 };
        assert!([bad, none].iter().all(|n| some.contains(&n.unwrap_or(0.0))), "{bad:?}, {none:?} of 500");
        assert!(of("lost") >= bad, "{event}");
        // A machine that takes the server's core away loses queries, too, and may explain these.
        if of("lost_core_away").or(of("lost_other_program")).is_none() {
            assert_eq!((of("lost_bad_checksum"), of("server_drops")), (bad, Some(0.0)), "{event}");
        }
        assert_eq!(of("finding_bad_checksums_sent").is_some(), backend == "xdp", "{event}");
    }
}

#[test]
fn what_a_capture_cannot_do_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let capture = write(&folder, "day.pcap", "");
    for (sets, word) in [
        (["measure=throughput", "traffic.speed=1"], "times of its own"),
        (["measure=latency", "traffic.generators=2"], "replayed by one"),
        (["measure=latency", "traffic.addresses=99"], "from 1 to 32"),
    ] {
        let mut command = dnsrack(&["experiment", "run", "demo", "--set"]);
        command.arg(format!("traffic.trace={capture}"));
        for set in sets {
            command.args(["--set", set]);
        }
        let ran = command.output().expect("the program starts");
        assert_eq!(ran.status.code(), Some(1), "{}", stderr(&ran));
        assert!(stderr(&ran).contains(word), "{}", stderr(&ran));
    }
}

#[test]
fn a_server_that_answers_elsewhere_is_asked_by_several_generators_over_both_transports() {
    if !has("nsd") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).to_str().expect("a path").to_owned();
    let zone = path("zone");
    let made = output(&["zone", "generate", "--family", "U-4-DS0", "--delegations", "300", "-o", &zone]);
    assert!(made.status.success(), "{}", stderr(&made));
    let port = {
        let free = std::net::UdpSocket::bind("127.0.0.1:0").expect("a port");
        free.local_addr().expect("its address").port()
    };
    let conf = write(
        &folder,
        "nsd.conf",
        &format!(
            "server:\n ip-address: 127.0.0.1@{port}\n zonesdir: \"\"\n pidfile: \"\"\n username: \"\"\n database: \"\"\n xfrdfile: \
             \"\"\n zonelistfile: \"\"\n rrl-ratelimit: 0\n rrl-whitelist-ratelimit: 0\nremote-control:\n control-enable: \
             no\nzone:\n name: \".\"\n zonefile: \"{zone}\"\n"
        ),
    );
    let said = std::fs::File::create(path("said")).expect("a file");
    let nsd = std::process::Command::new("nsd").args(["-d", "-c", &conf]).stderr(said).spawn();
    let _live = Running(nsd.expect("nsd starts"));
    let text = format!(
        "name = \"live\"\ntitle = \"Of seconds\"\nmeasure = [\"latency\", \"throughput\"]\nservers = [\"live\"]\nsettle = \
         \"0s\"\nattempts = 1\n[server.live]\nkind = \"external\"\naddress = \"127.0.0.1:{port}\"\n[zone]\nfile = \
         \"{zone}\"\nvalidate = 0\n[latency]\nrates = [300]\nduration = \"1s\"\nwarmup = \"100ms\"\ndeadline = \
         \"1s\"\n[throughput]\nduration = \"1s\"\nwarmup = \"100ms\"\nwindow = 4\n[traffic]\ngenerators = \
         2\n[[variant]]\nname = \"udp\"\n[[variant]]\nname = \"tcp\"\ntransport = \"tcp\"\n"
    );
    let file = write(&folder, "live.toml", &text);
    let all = done(&file, &path("run"));
    assert_eq!(all.len(), 4);
    for event in &all {
        assert!(event["error"].is_null(), "{event}");
        assert_eq!(event["params"]["generators"], "2");
        assert!(metric(event, "answered") > Some(0.0), "{event}");
        // One of some hundreds was seen to stay without an answer in two of some twenty runs; why is not known.
        assert!(metric(event, "lost").is_some_and(|lost| lost <= 1.0), "{event}");
        // It was not started here, and its processes are not known: nothing is said of what it costs.
        for name in ["server_ready", "server_pss", "server_cpu", "server_cpu_per_query", "server_drops"] {
            assert_eq!(metric(event, name), None, "{name}");
        }
    }
    let at = |transport: &str| all.iter().filter(|e| e["params"]["transport"] == transport).count();
    assert_eq!((at("udp"), at("tcp")), (2, 2));
    for event in &all {
        assert!(metric(event, "checked") > Some(50.0), "{event}");
        assert_eq!(metric(event, "checked_wrong"), Some(0.0), "{event}");
    }
    // The same server against a zone file in which some name servers have other addresses than it gives.
    let served = std::fs::read_to_string(&zone).expect("the zone");
    let moved = served.replace("\tA\t6", "\tA\t7");
    assert_ne!(moved, served);
    let other = write(&folder, "other", &moved);
    let file = write(&folder, "lies.toml", &text.replace(&format!("\"{zone}\""), &format!("\"{other}\"")));
    let (dir, mut wrong) = (path("lies"), 0.0);
    for event in &done(&file, &dir) {
        wrong += metric(event, "checked_wrong").expect("a count");
        let folder = format!("{dir}/servers/{}", event["trial"]);
        let kept = std::fs::read_to_string(folder + "/wrong-answers.json").expect("the wrong answers");
        assert!(kept.contains("foreign_record"), "{kept}");
    }
    assert!(wrong > 0.0);
    let report = stdout(&output(&["report", &dir]));
    assert!(
        report.contains("wrong answers")
            && report.contains("answers that were compared with the zone are wrong"),
        "{report}"
    );
    let page = std::fs::read_to_string(dir + "/report.html").expect("its page");
    assert!(page.contains("Were the answers right?") && page.contains("WRONG"));
}

/// Two programs that compute on core 0 until they are dropped; none where a test with a BIND beside them cannot be made.
fn computing_on_core_0() -> Option<[Running; 2]> {
    if !(has("named") && has("taskset") && two_cores()) {
        eprintln!("SKIPPED: it needs named, taskset and two cores");
        return None;
    }
    Some([hog(0), hog(0)])
}

fn two_cores() -> bool {
    std::thread::available_parallelism().is_ok_and(|n| n.get() >= 2)
}

#[test]
fn what_a_server_does_beside_other_programs_on_its_core_is_not_valid() {
    let Some(_beside) = computing_on_core_0() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let text = crate::TINY
        .replace("\"latency\"", "\"load\", \"latency\", \"update\"")
        .replace("\"nsd\"", "\"bind\"")
        .replace("[300]", "[5000]")
        .replace("settle", "attempts = 1\nsettle")
        + "[updates]\ncount = 200\nwindow = 1\n[cpus]\nserver = [0]\ngenerator = [1]\n";
    let file = write(&folder, "beside.toml", &text);
    let dir = folder.path().join("run");
    done(&file, dir.to_str().expect("a path"));
    let run = results::RunDir::open(&dir).expect("the run directory is whole");
    assert_eq!(run.trials().len(), 3);
    for trial in run.trials() {
        let validity = &trial.outcome.validity;
        let has = |all: &[measure::Reason], code: &str| all.iter().any(|reason| reason.code == code);
        let measure = trial.param(measure::params::MEASURE).expect("what was measured");
        assert_eq!(trial.error, None, "{measure}");
        // A server that sleeps between queries or updates may get its core at once all the same.
        let percent = |name: &str| trial.outcome.metric_named(name);
        let held_up = match measure {
            "load" => true,
            _ => percent("server_waited") > Some(1.0) && percent("server_cores_others") > Some(5.0),
        };
        assert_eq!(has(&validity.reasons, "server_core_shared"), held_up, "{measure}: {validity:?}");
        // A trial of 'load' has the time, and is invalid.
        let ready = trial.outcome.metric_named("server_ready").is_some();
        assert_eq!(ready, measure == "load", "{measure}");
        assert_eq!(has(&validity.warnings, "start_disturbed"), measure != "load", "{measure}: {validity:?}");
    }
}

#[test]
fn a_transfer_to_a_server_beside_other_programs_on_its_core_is_not_valid() {
    let Some(_beside) = computing_on_core_0() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    // The server that is measured is the primary, and then the secondary; the secondary is on core 0.
    for (name, primary, server, others) in [("from", "", 1, 0), ("to", "primary = \"bind\"\n", 0, 1)] {
        let text = crate::TINY
            .replace("\"latency\"", "\"transfer\"")
            .replace("\"nsd\"", "\"bind\"")
            .replace("settle", "attempts = 1\nsettle")
            + &format!(
                "[distribution]\nsecondaries = 1\n{primary}[cpus]\nserver = [{server}]\nothers = [{others}]\ngenerator = [1]\n"
            );
        let file = write(&folder, &format!("{name}.toml"), &text);
        let dir = folder.path().join(name);
        done(&file, dir.to_str().expect("a path"));
        let run = results::RunDir::open(&dir).expect("the run directory is whole");
        let [trial] = run.trials() else { panic!("one trial: {name}") };
        assert_eq!(trial.error, None, "{name}");
        let reasons = &trial.outcome.validity.reasons;
        let at_secondary = |reason: &measure::Reason| {
            reason.code == "server_core_shared"
                && reason.text.contains("during the transfer at the secondary")
        };
        assert!(reasons.iter().any(at_secondary), "{name}: {reasons:?}");
        // What was sent is no question of time.
        assert!(trial.outcome.metric_named("transfer_bytes") > Some(0.0), "{name}");
    }
}

#[test]
fn batches_and_updates_to_servers_beside_other_programs_on_their_core_are_not_valid() {
    let Some(_beside) = computing_on_core_0() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let text = crate::TINY
        .replace("\"latency\"", "\"batches\", \"lag\"")
        .replace("\"nsd\"", "\"bind\"")
        .replace("[300]", "[5000]")
        .replace("settle", "attempts = 1\nsettle")
        + "[distribution]\nprimary = \"bind\"\nsecondaries = 1\ntimers = \"tuned\"\n\
           [batches]\nshare = 0.5\ncount = 4\nmessage = 100\nrate = 0\n\
           [updates]\nrates = [300]\nduration = \"3s\"\n\
           [cpus]\nserver = [0]\nothers = [0]\ngenerator = [1]\n";
    let file = write(&folder, "beside.toml", &text);
    let dir = folder.path().join("run");
    done(&file, dir.to_str().expect("a path"));
    let run = results::RunDir::open(&dir).expect("the run directory is whole");
    assert_eq!(run.trials().len(), 2);
    for trial in run.trials() {
        let measure = trial.param(measure::params::MEASURE).expect("what was measured");
        assert_eq!(trial.error, None, "{measure}");
        assert!(trial.outcome.metric_named("servers_waited") > Some(1.0), "{measure}");
        let reasons = &trial.outcome.validity.reasons;
        let what = if measure == "batches" { "during the batches at " } else { "during the updates at " };
        let held_up = |r: &measure::Reason| r.code == "server_core_shared" && r.text.starts_with(what);
        assert!(reasons.iter().any(held_up), "{measure}: {reasons:?}");
    }
    // Octets depend on it little: batches without times are valid.
    let text = text
        .replace(", \"lag\"", "")
        .replace("attempts", "batch_times = false\nattempts")
        .replace("\"tuned\"", "\"default\"");
    let file = write(&folder, "octets.toml", &text);
    let dir = folder.path().join("octets");
    let at = dir.to_str().expect("a path");
    done(&file, at);
    let report = stdout(&output(&["report", at]));
    assert!(report.contains("recorded no times of single batches (batch_times = false)"), "{report}");
    let run = results::RunDir::open(&dir).expect("the run directory is whole");
    let [trial] = run.trials() else { panic!("one trial") };
    let validity = &trial.outcome.validity;
    assert!(
        validity.valid && validity.warnings.iter().any(|r| r.code == "server_core_shared"),
        "{validity:?}"
    );
    assert!(trial.outcome.metric_named("batches_bytes") > Some(0.0));
    let times = trial.outcome.metrics.iter().filter(|metric| metric.is_time_or_rate());
    let times: Vec<&str> = times.map(|metric| metric.name.as_str()).collect();
    assert_eq!(times, ["others_cpu"], "CPU time is no matter of waiting");
}

#[test]
fn a_server_has_as_many_cpus_as_it_is_to_have_workers() {
    if !has("nsd") || !two_cores() {
        eprintln!("SKIPPED: it needs nsd and two cores");
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let text = crate::TINY
        .replace("\"latency\"", "\"memory\", \"throughput\"")
        .replace("settle", "workers = [1, 2, 3]\nsecond_count = true\nattempts = 1\nsettle")
        + "[throughput]\nduration = \"1s\"\nwarmup = \"100ms\"\nwindow = 4\n[cpus]\nserver = [0, 1]\ngenerator = [1]\n";
    let file = write(&folder, "workers.toml", &text);
    let dir = folder.path().join("run");
    let all = done(&file, dir.to_str().expect("a path"));
    // There are no three CPUs.
    assert_eq!(all.len(), 4);
    for event in &all {
        assert!(event["error"].is_null(), "{event}");
        let workers = event["params"]["workers"].as_str().expect("workers");
        let conf = dir.join("servers").join(event["trial"].to_string()).join("nsd.conf");
        let conf = std::fs::read_to_string(conf).expect("its configuration");
        assert!(conf.contains(&format!("server-count: {workers}\n")), "{conf}");
        if event["params"]["measure"] == "throughput" {
            assert!(metric(event, "answered") > Some(0.0), "{event}");
            let cpu = metric(event, "server_idle").expect("what its cores did");
            assert!((0.0..100.0).contains(&cpu), "{event}");
            // All that was sent arrived, and nothing else did.
            let sent = metric(event, "sent").expect("a count");
            let off = sent - metric(event, "arrived").expect("a second count");
            assert!(off.abs() <= 0.01 * sent + 20.0, "{event}");
        }
    }
    let report = stdout(&output(&["report", dir.to_str().expect("a path")]));
    assert!(report.contains("2 CPUs") && report.contains("needs 3 CPUs for the server"), "{report}");
    let page = std::fs::read_to_string(dir.join("report.html")).expect("its page");
    assert!(page.contains("Answers per second with a window over the CPUs of the server"));
}

#[test]
fn an_external_server_takes_updates_and_gives_its_zone_with_its_own_key() {
    if !has("named") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let at = folder.path().display().to_string();
    let path = |name: &str| format!("{at}/{name}");
    let made =
        output(&["zone", "generate", "--family", "U-4-DS0", "--delegations", "300", "-o", &path("zone")]);
    assert!(made.status.success(), "{}", stderr(&made));
    let port = {
        let free = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        free.local_addr().expect("its address").port()
    };
    let key = "key \"own\" { algorithm hmac-sha256; secret \"c2VjcmV0IHNlY3JldCBzZWNyZXQgc2VjcmV0\"; };\n";
    write(&folder, "key", key);
    write(
        &folder,
        "named.conf",
        &format!(
            "include \"{at}/key\";\ncontrols {{}};\noptions {{ directory \"{at}\"; pid-file \"{at}/pid\"; session-keyfile none; \
             lock-file none; recursion no; dnssec-validation no; listen-on-v6 {{ none; }}; \
             listen-on port {port} {{ 127.0.0.1; }}; }};\nzone \".\" {{ type primary; file \"{at}/served\"; \
             allow-update {{ key own; }}; allow-transfer {{ key own; }}; }};\n"
        ),
    );
    let stop = format!(
        "if [ -f {at}/pid ]; then pid=$(cat {at}/pid); kill $pid; while kill -0 $pid 2>/dev/null; do sleep 0.05; done; fi"
    );
    let reset =
        format!("{stop}\nrm -f {at}/served.jnl\ncp {at}/zone {at}/served\nexec named -c {at}/named.conf\n");
    let reset = write(&folder, "reset", &reset);
    let text = |reset: &str| {
        format!(
            "name = \"own\"\ntitle = \"Of seconds\"\nmeasure = [\"update\", \"transfer\"]\nservers = [\"own\"]\nsettle = \"0s\"\n\
             attempts = 1\nrepeats = 2\n[server.own]\nkind = \"external\"\naddress = \"127.0.0.1:{port}\"\ntsig = \"{at}/key\"\n\
             {reset}\n[zone]\nfile = \"{at}/zone\"\n[updates]\ncount = 100\n"
        )
    };
    let file = write(&folder, "own.toml", &text(&format!("reset = [\"sh\", \"{reset}\"]")));
    let all = done(&file, &path("run"));
    let _ = std::process::Command::new("sh").args(["-c", &stop]).status();
    assert_eq!(all.len(), 4);
    for event in &all {
        assert!(event["error"].is_null(), "{event}");
        if event["params"]["measure"] == "update" {
            // The second repeat begins with the same zone as the first.
            assert_eq!(metric(event, "update_accepted"), Some(100.0), "{event}");
        } else {
            let records = metric(event, "transfer_records").expect("records");
            assert!(records > 300.0 && metric(event, "transfer_tcp_bytes") > Some(records), "{event}");
        }
    }
    let file = write(&folder, "none.toml", &text(""));
    let ran = output(&["experiment", "run", &file, "-o", &path("none")]);
    assert_eq!(ran.status.code(), Some(1));
    assert!(stderr(&ran).contains("give server.own.tsig"), "{}", stderr(&ran));
}
