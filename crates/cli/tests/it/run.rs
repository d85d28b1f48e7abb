//! A whole run, on real servers.

use crate::{TINY, dnsrack, has, stderr, stdout, write};
use measure::{params, series};
use std::path::{Path, PathBuf};
use std::process::Stdio;

fn run(folder: &Path, text: &str, sets: &[&str]) -> (Option<i32>, PathBuf, String, String) {
    let file = folder.join("experiment.toml");
    std::fs::write(&file, text).expect("written");
    let dir = folder.join("run");
    let mut command = dnsrack(&["experiment", "run"]);
    command.arg(&file).arg("-o").arg(&dir);
    for set in sets {
        command.args(["--set", set]);
    }
    let got = command.output().expect("the program starts");
    (got.status.code(), dir, stdout(&got), stderr(&got))
}

#[test]
fn a_run_ends_with_the_program_that_it_began_with() {
    if !has("nsd") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let program = crate::linked(folder.path());
    let mut command = std::process::Command::new(&program);
    command
        .args(["experiment", "run", &write(&folder, "tiny.toml", TINY), "-o"])
        .arg(folder.path().join("run"));
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the program starts");
    // A new build or release takes its place before the first role starts.
    std::fs::remove_file(&program).expect("removed");
    let got = child.wait_with_output().expect("it ends");
    assert!(matches!(got.status.code(), Some(0 | 3)), "{}", stderr(&got));
    let kept = results::RunDir::open(&folder.path().join("run")).expect("the run directory is whole");
    assert_eq!(kept.trials().len(), 1);
    assert_eq!(kept.trials()[0].error, None, "{}", stderr(&got));
}

#[test]
fn four_servers_answer_and_are_reported() {
    if !["named", "nsd", "knotd", "pdns_server"].iter().all(|p| has(p)) {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let sets = [
        "servers=bind,nsd,knot,powerdns",
        "measure=latency,peak",
        "zone.families=U-4-DS0,S-6-DS100",
        "zone.sign=ECDSAP256SHA256",
        "peak.trial=200ms",
        "peak.duration_sum=400ms",
        "peak.window_load=200ms",
        "peak.budget=8s",
        "peak.width=0.5",
    ];
    let (code, dir, tables, log) = run(folder.path(), TINY, &sets);
    assert!(matches!(code, Some(0 | 3)), "{log}");
    let kept = results::RunDir::open(&dir).expect("the run directory is whole");
    assert_eq!(kept.trials().len(), 16, "{log}");
    for trial in kept.trials() {
        assert_eq!(trial.error, None, "{log}");
        let metric = |name: &str| trial.outcome.metric_named(name);
        if trial.param(params::MEASURE) == Some("latency") {
            let offered = metric("offered").expect("offered");
            assert_eq!(offered, 500.0);
            assert_eq!(metric("sent").unwrap() + metric("unsent").unwrap(), offered);
            assert!(metric("answered").unwrap() > 0.0);
            assert_eq!(metric("mismatched"), Some(0.0));
            assert!(trial.outcome.histogram("latency").is_some_and(|h| h.count() > 0));
            assert!(trial.series.iter().any(|row| row.metric == "answered_qps"));
            assert!(trial.series.iter().any(|row| row.metric.starts_with("softirq_core")));
            assert!(metric("server_pss").is_some_and(|b| b > 1e6));
            if trial.param(params::FAMILY) == Some("S-6-DS100") && trial.repeat == 1 && has("delv") {
                assert_eq!(metric("answers_not_validated"), Some(0.0), "{:?}", trial.outcome.validity);
                assert_eq!(metric("answers_validated"), Some(12.0));
            }
        } else {
            // On a busy machine nothing may be known, and then a warning or a reason says so.
            let said = |code: &str| {
                let v = &trial.outcome.validity;
                v.warnings.iter().chain(&v.reasons).any(|r| r.code == code)
            };
            assert!(metric("capacity_qps").is_some() != said("capacity_not_known"), "{:?}", trial.outcome);
            assert!(metric("peak_lower").is_some() != said("no_lower_bound"), "{:?}", trial.outcome);
            assert!(metric("server_receive_buffer").is_some_and(|b| b > 1e5), "{:?}", trial.outcome.metrics);
        }
    }
    for server in ["bind", "nsd", "knot", "powerdns"] {
        assert!(tables.contains(server), "{tables}");
    }
    let page = std::fs::read_to_string(dir.join("report.html")).expect("the report");
    assert!(
        page.contains("<svg") && !page.contains("src=\"http"),
        "one file, with plots, without the network"
    );
    assert!(!dir.join("zones").exists(), "the zones of a run that is done take room for nothing");
}

#[test]
fn the_generator_takes_no_more_memory_as_a_trial_goes_on() {
    if !has("nsd") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let (_, dir, _, log) = run(folder.path(), TINY, &["latency.duration=6s", "latency.rates=5000"]);
    let kept = results::RunDir::open(&dir).expect("the run directory is whole");
    let memory = kept.trials()[0].series(series::GENERATOR.rss);
    let (first, last) = (memory.first().expect("a second").1, memory.last().expect("a second").1);
    // The table of ids is filled within the first second; pages of libraries may still be touched for the first time.
    assert!(memory.len() >= 5 && first > 1e6, "{memory:?} {log}");
    assert!(last - first < 512e3, "grew from {first} to {last} octets: {memory:?}");
}

#[test]
fn a_server_that_cannot_start_is_quoted_and_the_others_go_on() {
    if !has("nsd") || !has("knotd") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let config = folder.path().join("extra.conf");
    std::fs::write(&config, "    no-such-option: yes\n").expect("written");
    let set = format!("server.broken.config={}", config.display());
    let sets = ["servers=broken,knot", "server.broken.kind=nsd", set.as_str()];
    let (code, dir, _, log) = run(folder.path(), TINY, &sets);
    assert_eq!(code, Some(3), "{log}");
    let kept = results::RunDir::open(&dir).expect("the run directory is whole");
    let error = kept.trials()[0].error.clone().expect("the first trial failed");
    assert!(error.contains("broken") && error.contains("no-such-option"), "{error}");
    assert_eq!(kept.trials()[1].error, None);
}

#[test]
fn an_own_zone_an_own_query_file_and_two_configurations_side_by_side() {
    if !has("nsd") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let zone = write(
        &folder,
        "example.zone",
        "$ORIGIN example.\n$TTL 3600\n@ SOA ns root 7 1800 900 604800 86400\n@ NS ns\nns A 192.0.2.1\nwww A 192.0.2.2\n\
         zulu NS ns.zulu\nns.zulu A 192.0.2.3\n",
    );
    let queries = write(&folder, "q", "www.example A\nno.example A\nx.zulu.example AAAA\n");
    let config = write(&folder, "extra.conf", "    identity: \"the other\"\n");
    let sets = [
        format!("zone.file={zone}"),
        format!("traffic.queries={queries}"),
        "servers=nsd,other".into(),
        "server.other.kind=nsd".into(),
        format!("server.other.config={config}"),
        "latency.rates=300".into(),
    ];
    let sets: Vec<&str> = sets.iter().map(String::as_str).collect();
    let (code, dir, tables, log) = run(folder.path(), TINY, &sets);
    assert!(matches!(code, Some(0 | 3)), "{log}");
    assert!(tables.contains("other"), "{tables}");
    let kept = results::RunDir::open(&dir).expect("the run directory is whole");
    assert_eq!(kept.trials().len(), 2);
    for trial in kept.trials() {
        assert_eq!(trial.error, None, "{log}");
        // Two of three names exist; on a busy machine a query may stay unsent.
        let value_of = |name: &str| trial.outcome.metric_named(name).unwrap_or_default();
        assert_eq!(value_of("rcode_NOERROR") + value_of("rcode_NXDOMAIN"), value_of("answered"));
        assert!((150.0..=200.0).contains(&value_of("rcode_NOERROR")), "{:?}", trial.outcome.metrics);
        assert!((75.0..=100.0).contains(&value_of("rcode_NXDOMAIN")), "{:?}", trial.outcome.metrics);
    }
    let other = std::fs::read_to_string(dir.join("servers/2/nsd.conf")).expect("its configuration is kept");
    assert!(other.contains("the other"));
}

/// The newest real root zone, unpacked, where the data lie beside the checkout.
fn root_zone(folder: &Path) -> Option<PathBuf> {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/root-zone");
    let mut files: Vec<PathBuf> = std::fs::read_dir(&data).ok()?.flatten().map(|f| f.path()).collect();
    files.sort();
    let newest = files.pop()?;
    let unpacked = std::process::Command::new("xz").arg("-dc").arg(&newest).output().ok()?;
    let path = folder.join("root.zone");
    std::fs::write(&path, unpacked.stdout).ok()?;
    Some(path)
}

#[test]
fn the_real_root_zone_signed_by_us_validates_at_all_four_servers() {
    if !["named", "nsd", "knotd", "pdns_server", "delv"].iter().all(|p| has(p)) {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let Some(zone) = root_zone(folder.path()) else {
        eprintln!("SKIPPED: no real root zones in ../shared/data/root-zone");
        return;
    };
    let file = format!("zone.file={}", zone.display());
    let sets = ["servers=bind,nsd,knot,powerdns", file.as_str(), "zone.sign_file=true", "zone.validate=20"];
    let (code, dir, _, log) = run(folder.path(), TINY, &sets);
    assert!(matches!(code, Some(0 | 3)), "{log}");
    let kept = results::RunDir::open(&dir).expect("the run directory is whole");
    assert_eq!(kept.trials().len(), 4);
    for trial in kept.trials() {
        assert_eq!(trial.error, None, "{log}");
        assert_eq!(
            trial.outcome.metric_named("answers_validated"),
            Some(20.0),
            "{:?}",
            trial.outcome.validity
        );
    }
}
