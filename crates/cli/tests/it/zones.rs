//! Slices of zones as a user meets them.

use crate::{has, output, stderr, write};
use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

const SMALL: &str = "example. 60 IN SOA ns.a.example. x.example. 7 2 3 4 5\nexample. 60 NS ns.a.example.\n\
    a.example. 60 NS ns.a.example.\nns.a.example. 60 A 192.0.2.1\nn.example. 60 NS ns.a.example.\n\
    z.example. 60 NS ns.other.\n";

fn files(folder: &Path) -> BTreeSet<String> {
    let names = std::fs::read_dir(folder).expect("a folder");
    names.map(|f| f.expect("a file").file_name().to_string_lossy().into_owned()).collect()
}

#[test]
fn zones_and_queries_are_cut_alike() {
    let folder = tempfile::tempdir().expect("a folder");
    let zone = write(&folder, "zone", SMALL);
    let queries = write(&folder, "q", "a.example A\nwww.N.example A\nelsewhere A\n0.example TXT\n");
    let out = folder.path().join("slices");
    let to = out.to_str().expect("a path");
    let args = ["--json", "zone", "slice", &zone, "--ranges", "a-m,n-z", "-o", to, "--queries", &queries];
    let got = output(&args);
    assert!(got.status.success(), "{}", stderr(&got));
    assert_eq!(files(&out), ["a-m.queries", "a-m.zone", "n-z.queries", "n-z.zone"].map(String::from).into());
    let said: serde_json::Value = serde_json::from_slice(&got.stdout).expect("one JSON object");
    assert_eq!((&said["schema"], &said["origin"]), (&"dnsrack.zone.slice/1".into(), &"example.".into()));
    assert_eq!(said["queries_outside"], 1);
    let counts_of = |field: &str| -> Vec<u64> {
        said["slices"].as_array().expect("a list").iter().filter_map(|s| s[field].as_u64()).collect()
    };
    assert_eq!(
        ["records", "delegations", "copied", "queries"].map(counts_of),
        [vec![4, 5], vec![1, 2], vec![0, 1], vec![2, 1]]
    );
    let text = std::fs::read_to_string(out.join("a-m.queries")).expect("queries");
    assert_eq!(text, "a.example A\n0.example TXT\n");
}

#[test]
fn signed_slices_verify_with_one_key() {
    let folder = tempfile::tempdir().expect("a folder");
    let zone = write(&folder, "zone", SMALL);
    let path = |name: &str| folder.path().join(name).to_str().expect("a path").to_owned();
    let (signed, out) = (path("signed"), path("slices"));
    let got = output(&["zone", "sign", &zone, "-o", &signed]);
    assert!(got.status.success(), "{}", stderr(&got));
    // Refused as it is, before anything is made.
    let got = output(&["zone", "slice", &signed, "--parts", "2", "-o", &out]);
    assert_eq!(got.status.code(), Some(1));
    assert!(stderr(&got).contains("the zone is signed") && !Path::new(&out).exists(), "{}", stderr(&got));
    let args = ["zone", "slice", &signed, "--parts", "2", "-o", &out, "--sign", "ED25519"];
    let got = output(&args);
    assert!(got.status.success(), "{}", stderr(&got));
    assert_eq!(files(Path::new(&out)), ["1-of-2.zone", "2-of-2.zone"].map(String::from).into());
    let keys: BTreeSet<String> = ["1-of-2.zone", "2-of-2.zone"]
        .iter()
        .map(|name| {
            let file = Path::new(&out).join(name);
            if has("dnssec-verify") {
                let checker = Command::new("dnssec-verify").args(["-o", "example."]).arg(&file).output();
                let checker = checker.expect("it runs");
                assert!(checker.status.success(), "{}", String::from_utf8_lossy(&checker.stderr));
            }
            let text = std::fs::read_to_string(file).expect("a zone");
            text.lines().filter(|l| l.contains("DNSKEY\t257")).collect()
        })
        .collect();
    assert_eq!(keys.len(), 1);
    let got = output(&["zone", "slice", &signed, "--parts", "4", "-o", &path("none"), "--unsigned"]);
    assert!(stderr(&got).contains("3 names directly below its apex"), "{}", stderr(&got));
    assert!(!Path::new(&path("none")).exists());
}

/// A root zone as BIND reads it, one record a line, in its own order. Without `-i none` BIND asks the resolver for the addresses of servers.
fn as_bind_reads_it(zone: &str) -> String {
    let read = Command::new("named-compilezone")
        .args(["-q", "-i", "none", "-k", "ignore", "-s", "full", "-o", "-", ".", zone])
        .output()
        .expect("it runs");
    assert!(read.status.success(), "{}", String::from_utf8_lossy(&read.stderr));
    String::from_utf8(read.stdout).expect("text")
}

#[test]
fn a_partly_signed_zone_is_told_from_a_signed_one() {
    let folder = tempfile::tempdir().expect("a folder");
    let zone = write(&folder, "zone", SMALL);
    let path = |name: &str| folder.path().join(name).to_str().expect("a path").to_owned();
    let (signed, partly) = (path("signed"), path("partly"));
    assert!(output(&["zone", "sign", &zone, "-o", &signed]).status.success());
    let text = std::fs::read_to_string(&signed).expect("a zone");
    let mut signatures = 0;
    let some = text.lines().filter(|line| {
        signatures += usize::from(line.contains("\tRRSIG\t"));
        !line.contains("\tRRSIG\t") || signatures <= 2
    });
    std::fs::write(&partly, some.map(|line| format!("{line}\n")).collect::<String>())
        .expect("it can be written");
    let said = |zone: &str| {
        let got = output(&["zone", "info", zone]);
        assert!(got.status.success(), "{}", stderr(&got));
        String::from_utf8_lossy(&got.stdout)
            .lines()
            .find(|l| l.starts_with("signed"))
            .expect("the line")
            .to_owned()
    };
    assert!(said(&signed).contains("yes; denial with NSEC"), "{}", said(&signed));
    assert!(said(&partly).contains("partly: 2 signatures for"), "{}", said(&partly));
}

#[test]
fn a_signed_zone_is_stripped_to_what_it_was() {
    if !has("named-compilezone") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).to_str().expect("a path").to_owned();
    let (plain, signed, stripped) = (path("plain"), path("signed"), path("stripped"));
    let run = |args: &[&str]| {
        let got = output(args);
        assert!(got.status.success(), "{}", stderr(&got));
        got
    };
    run(&["zone", "generate", "--family", "S-6-DS100", "--delegations", "200", "-o", &plain]);
    for more in [&["--zonemd"][..], &["--nsec3", "--opt-out"]] {
        run(&[&["zone", "sign", &plain, "-o", &signed][..], more].concat());
        let got = run(&["--json", "zone", "strip", &signed, "-o", &stripped]);
        let said: serde_json::Value = serde_json::from_slice(&got.stdout).expect("one JSON object");
        let lines = |file: &str| {
            std::fs::read_to_string(file).expect("a zone").lines().filter(|l| !l.starts_with(';')).count()
        };
        assert_eq!(said["left_out"], lines(&signed) - lines(&stripped));
        assert_eq!(as_bind_reads_it(&stripped), as_bind_reads_it(&plain));
    }
    run(&["zone", "generate", "--family", "S-6-DS100", "--delegations", "500", "--sign", "-o", &signed]);
    let ds =
        || as_bind_reads_it(&stripped).lines().filter(|l| l.split_whitespace().nth(3) == Some("DS")).count();
    run(&["zone", "strip", &signed, "-o", &stripped]);
    assert!(ds() > 0);
    run(&["zone", "strip", &signed, "--ds", "-o", &stripped]);
    assert_eq!(ds(), 0);
}

#[test]
fn versions_are_compared() {
    let folder = tempfile::tempdir().expect("a folder");
    let version = |serial: &str, more: &str| {
        let text = SMALL.replace(" 7 2 3", &format!(" {serial} 2 3")) + more;
        write(&folder, serial, &text)
    };
    let old = version("2026080900", "y.example. 60 NS ns.other.\n");
    let new = version("2026081100", "x.example. 60 NS ns.other.\nz.example. 60 NS ns.second.\n");
    let newest = version("2026081101", "x.example. 60 NS ns.other.\nz.example. 60 NS ns.second.\n");
    let json = |args: &[&str]| -> serde_json::Value {
        let got = output(&[&["--json", "zone", "diff"], args].concat());
        assert_eq!(got.status.code(), Some(0), "{}", stderr(&got));
        serde_json::from_slice(&got.stdout).expect("one JSON object")
    };
    let said = json(&[&old, &new, &newest]);
    assert_eq!((&said["schema"], &said["origin"]), (&"dnsrack.zone.diff/1".into(), &"example.".into()));
    let step = &said["steps"][0];
    assert_eq!(step["records"]["deleted"]["NS"], 1);
    assert_eq!(step["records"]["added"]["NS"], 2);
    assert_eq!(step["delegations"], serde_json::json!({ "added": 1, "deleted": 1, "changed": 1 }));
    assert_eq!(said["spread"]["records"]["max"], 3);
    // Three of four delegations in two days, over two steps.
    assert_eq!(said["churn"]["share_a_day"], 0.375);
    assert_eq!(json(&[&old, &new, "--interval", "12h"])["churn"]["share_a_day"], 1.5);
    let plot = folder.path().join("plot.svg");
    json(&[&old, &new, &newest, "--plot", plot.to_str().expect("a path")]);
    assert!(std::fs::read_to_string(&plot).expect("a plot").contains("serial 2026080900 to 2026081101"));
    assert!(json(&[&new, &newest])["churn"]["days"].is_null());
    let got = output(&["zone", "diff", &new, &old]);
    assert!(
        got.status.success() && stderr(&got).contains("is not newer than 2026081100"),
        "{}",
        stderr(&got)
    );
    let text = String::from_utf8_lossy(&got.stdout).into_owned();
    assert!(text.contains("1 added, 1 deleted, 1 changed, of 4"), "{text}");
}

#[test]
fn a_zone_grows_by_names_that_nobody_asked_for() {
    if !has("named-checkzone") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).to_str().expect("a path").to_owned();
    let (zone, larger, list, queries) = (path("zone"), path("larger"), path("list"), path("queries.pcap"));
    let run = |args: &[&str]| {
        let got = output(args);
        assert!(got.status.success(), "{}", stderr(&got));
        got
    };
    let delegations = |file: &str| -> std::collections::BTreeSet<String> {
        as_bind_reads_it(file)
            .lines()
            .filter(|l| l.split_whitespace().nth(3) == Some("NS"))
            .map(|l| l.split_whitespace().next().expect("an owner").to_owned())
            .collect()
    };
    run(&["zone", "generate", "--family", "ROOT", "--delegations", "300", "-o", &zone]);
    run(&["zone", "grow", &zone, "--to", "3x", "-o", &larger]);
    let before = delegations(&zone);
    let made: Vec<String> = delegations(&larger).difference(&before).cloned().collect();
    assert_eq!((before.len(), made.len()), (301, 600));
    // The half of them that a list has, and the half that a capture asks for.
    let (listed, asked) = made.split_at(300);
    std::fs::write(&list, listed.iter().map(|n| format!("{n}\n")).collect::<String>()).expect("a list");
    let asked: String = asked.iter().map(|n| format!("www.{n}\n")).collect();
    std::fs::write(path("asked"), asked).expect("a list");
    let each_in_turn = ["--order", "sequential", "--nonexistent", "0", "--count", "300"];
    run(&[&["traffic", "generate", "rzaia", "--names", &path("asked"), "-o", &queries][..], &each_in_turn]
        .concat());
    run(&["zone", "grow", &zone, "--to", "3x", "--not", &list, "--trace", &queries, "-o", &larger]);
    let after = delegations(&larger);
    assert_eq!(after.len(), 901);
    assert!(listed.iter().all(|name| !after.contains(name)));
    let checked =
        Command::new("named-checkzone").args(["-i", "local", ".", &larger]).output().expect("it runs");
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stdout));
}
