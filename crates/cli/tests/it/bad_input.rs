//! Bad input: a clear message before anything is started, nothing half-made, the right exit status.

use crate::{TINY, dnsrack, has, output, stderr, write};
use std::path::Path;

/// Runs the tiny experiment with changes; gives exit status, message, and whether the run directory exists.
fn refused(text: &str, sets: &[&str]) -> (Option<i32>, String, bool) {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("tiny.toml");
    std::fs::write(&file, text).expect("written");
    let run = folder.path().join("run");
    let mut command = dnsrack(&["experiment", "run"]);
    command.arg(&file).arg("-o").arg(&run);
    for set in sets {
        command.args(["--set", set]);
    }
    let got = command.output().expect("the program starts");
    (got.status.code(), stderr(&got), run.exists())
}

#[test]
fn an_experiment_that_cannot_be_run_leaves_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let zone = write(
        &folder,
        "bad.zone",
        "example. 3600 IN SOA ns.example. root.example. 1 2 3 4 5\nexample. 3600 IN A 1.2.3\n",
    );
    let queries = write(&folder, "bad.queries", "example.com A\nexample.net\n");
    let cases: &[(String, Vec<String>, &str)] = &[
        (
            TINY.replace("servers", "servrs"),
            vec![],
            "tiny.toml:5:1: unknown key 'servrs'; nearest: 'servers'",
        ),
        (
            TINY.replace("\"1s\"\nwarmup", "\"1 parsec\"\nwarmup"),
            vec![],
            "tiny.toml:14:12: '1 parsec' is not a duration",
        ),
        (TINY.into(), vec!["servers=nsd,unbound".into()], "'unbound' is no kind"),
        (
            TINY.into(),
            vec!["server.nsd.kind=nsd".into(), "server.nsd.program=/no/such/nsd".into()],
            "needs the program '/no/such/nsd', which is not a program that can be run",
        ),
        (
            TINY.into(),
            vec!["server.nsd.kind=nsd".into(), "server.nsd.root=/no/such/root".into()],
            "server 'nsd': root folder /no/such/root: No such file",
        ),
        (
            TINY.into(),
            vec!["server.nsd.kind=nsd".into(), "server.nsd.root=/proc".into()],
            "root folder /proc: it has no folder /usr: name the root folder of a distribution",
        ),
        (TINY.into(), vec![format!("zone.file={zone}")], "bad.zone:2:"),
        (TINY.into(), vec!["zone.file=/no/such.zone".into()], "/no/such.zone"),
        (TINY.into(), vec![format!("traffic.queries={queries}")], "bad.queries:2:"),
        (TINY.into(), vec!["cpus.server=4096".into()], "core 4096"),
    ];
    for (text, sets, part) in cases {
        let sets: Vec<&str> = sets.iter().map(String::as_str).collect();
        let (code, message, left) = refused(text, &sets);
        assert!(message.contains(part), "{sets:?}: expected '{part}' in: {message}");
        assert!(matches!(code, Some(1 | 2)), "{sets:?}: exit status {code:?}");
        assert!(!left, "{sets:?}: a run directory was left behind");
    }
}

#[test]
fn a_full_disk_is_said_and_leaves_nothing_half_made() {
    let args = ["zone", "generate", "--family", "U-4-DS0", "--delegations", "20K", "-o"];
    let device = dnsrack(&args).arg("/dev/full").output().expect("the program starts");
    assert_eq!(device.status.code(), Some(1), "{}", stderr(&device));
    assert!(stderr(&device).contains("No space left on device"), "{}", stderr(&device));

    // A small file system of its own, in namespaces of its own.
    let folder = tempfile::tempdir().expect("a folder");
    let script = format!(
        "mount -t tmpfs -o size=1M none {0} && {1} {2} {0}/big.zone; echo status $?; ls -A {0}",
        folder.path().display(),
        env!("CARGO_BIN_EXE_dnsrack"),
        args.join(" ")
    );
    let got = std::process::Command::new("unshare")
        .args(["--user", "--map-root-user", "--mount", "sh", "-c", &script])
        .output()
        .expect("unshare is there");
    let said = String::from_utf8_lossy(&got.stdout).into_owned();
    if !said.contains("status") {
        eprintln!("SKIPPED: no user namespace for a small file system: {}", stderr(&got));
        return;
    }
    assert_eq!(said.trim(), "status 1", "something half-made is left: {said}{}", stderr(&got));
    assert!(stderr(&got).contains("No space left on device"), "{}", stderr(&got));
}

#[test]
fn names_of_compressed_files_are_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).to_str().expect("UTF-8").to_owned();
    let [zone, queries] = ["zone", "queries.pcap"].map(path);
    let [no_zone, no_queries, no_edit] = ["zone.gz", "queries.pcap.zst", "again.pcap.xz"].map(path);
    let make_zone =
        |to: &str| output(&["zone", "generate", "--family", "U-4-DS0", "--delegations", "1K", "-o", to]);
    let make_queries =
        |to: &str| output(&["traffic", "generate", "rzaia", "--zone", &zone, "--count", "100", "-o", to]);
    for got in [make_zone(&zone), make_queries(&queries)] {
        assert!(got.status.success(), "{}", stderr(&got));
    }
    let edit = output(&["trace", "edit", &queries, "-o", &no_edit]);
    for (got, to) in
        [(make_zone(&no_zone), no_zone), (make_queries(&no_queries), no_queries), (edit, no_edit)]
    {
        assert_eq!(got.status.code(), Some(2), "{to}: {}", stderr(&got));
        assert!(stderr(&got).contains("outputs are not compressed"), "{}", stderr(&got));
        assert!(!Path::new(&to).exists(), "{to}");
    }
}

#[test]
fn targets_outside_the_machine_need_a_word() {
    let folder = tempfile::tempdir().expect("a folder");
    let queries = folder.path().join("q");
    std::fs::write(&queries, "example.com A\n").expect("written");
    let got = dnsrack(&["load", "run", "192.0.2.1", "--rate", "1", "--duration", "1s", "--queries"])
        .arg(&queries)
        .output()
        .expect("the program starts");
    assert!(matches!(got.status.code(), Some(1 | 2)), "{}", stderr(&got));
    assert!(stderr(&got).contains("--allow-external"), "{}", stderr(&got));
}

#[test]
fn a_bad_rack_file_is_refused_at_its_line() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("rack.toml");
    std::fs::write(&file, "[[hosts]]\nname = \"a\"\ncolour = \"blue\"\n").expect("written");
    let got = output(&["rack", "up", file.to_str().expect("a path")]);
    assert!(!got.status.success());
    assert!(stderr(&got).contains("rack.toml:3:1"), "{}", stderr(&got));
    assert!(!Path::new("/run/dnsrack/rack").exists());
}

#[test]
fn a_run_without_privileges_works_or_says_what_is_missing() {
    if !has("setpriv") || !has("nsd") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("tiny.toml");
    std::fs::write(&file, TINY).expect("written");
    // The program where an ordinary user can reach it.
    let program = folder.path().join("dnsrack");
    std::fs::copy(env!("CARGO_BIN_EXE_dnsrack"), &program).expect("copied");
    let open = |path: &Path, mode: u32| {
        std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(mode)).expect("set");
    };
    open(&program, 0o755);
    open(folder.path(), 0o777);
    let got = std::process::Command::new("setpriv")
        .args(["--reuid", "65534", "--regid", "65534", "--clear-groups"])
        .arg(&program)
        .args(["experiment", "run"])
        .arg(&file)
        .arg("-o")
        .arg(folder.path().join("run"))
        .output()
        .expect("setpriv starts");
    let said = stderr(&got);
    if got.status.success() || got.status.code() == Some(3) {
        assert!(folder.path().join("run/report.html").exists(), "{said}");
    } else {
        assert!(said.contains("user namespace"), "neither works nor says why: {said}");
        eprintln!("SKIPPED: no user namespaces here: {said}");
    }
}
