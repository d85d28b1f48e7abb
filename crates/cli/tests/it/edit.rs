//! `trace edit`: RZAIA's tools as commands, keys, slots, and what is refused.

use crate::{output, stderr, stdout};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

fn text(path: &Path) -> &str {
    path.to_str().expect("a path")
}

/// Runs it; its JSON object.
fn json(args: &[&str]) -> serde_json::Value {
    let got = output(&[&["--json"], args].concat());
    assert!(got.status.success(), "{args:?}: {}", stderr(&got));
    serde_json::from_slice(&got.stdout).expect("JSON")
}

/// 20,000 queries of RZAIA's in 4 s, from a second before an hour begins.
fn capture(folder: &Path) -> String {
    let names = folder.join("names");
    std::fs::write(&names, "com\nnet\norg\n").expect("written");
    let path = folder.join("ditl.pcap");
    let made = ["traffic", "generate", "rzaia", "--names", text(&names), "-o", text(&path)];
    json(&[&made[..], &["--count", "20000", "--at", "2009-03-30T23:59:59Z", "--do", "0.6"]].concat());
    text(&path).to_owned()
}

#[test]
fn rzaias_tools_are_commands() {
    let folder = tempfile::tempdir().expect("a folder");
    let [from, out, slots] = ["", "out.pcap", "hours"].map(|name| folder.path().join(name));
    let from = capture(&from);
    // pcap_extract_queries -S 100 -s ... -e ..., an hour a file.
    let extract =
        ["trace", "edit", &from, "-o", text(&slots), "--if-query", "--every", "100", "--slot", "1h"];
    let made = json(&[&extract[..], &["--from", "2009-03-30T00:00:00Z", "--to", "+3s"]].concat());
    assert_eq!(made["schema"], "dnsrack.trace.edit/1");
    assert_eq!((&made["kept"], &made["written"]), (&150.into(), &150.into()));
    assert_eq!(made["slots"].as_array().map(Vec::len), Some(2));
    let hours: Vec<_> =
        made["files"].as_array().expect("files").iter().map(|f| f.as_str().unwrap()).collect();
    assert!(hours[0].ends_with("2009-03-30T2300Z.pcap") && hours[1].ends_with("2009-03-31T0000Z.pcap"));
    assert_eq!(std::fs::read_dir(&slots).expect("a folder").count(), 2, "nothing else is left");
    // pcap_rewrite -e -E -i.
    let rewrite = ["trace", "edit", hours[0], hours[1], "-o", text(&out), "--set-dst", "10.9.8.7"];
    let made = json(&[&rewrite[..], &["--set-mac", "02:00:00:00:00:01,02:00:00:00:00:02"]].concat());
    assert_eq!((&made["written"], made["dropped"].as_object().map(|d| d.len())), (&150.into(), Some(0)));
    // pcap_extract_512do.
    let extract =
        ["trace", "edit", &from, "-o", text(&out), "--if-query", "--if-do", "--if-edns-size", "512"];
    let made = json(&[&extract[..], &["--set-edns-size", "65535"]].concat());
    assert!(made["kept"].as_u64().expect("a count") > 0, "{made}");
    assert_eq!((&made["kept"], &made["kept"]), (&made["written"], &made["edns_sizes_set"]));
    let again = ["trace", "edit", text(&out), "-o", "-", "--if-edns-size", "65535", "--format", "queries"];
    let got = output(&again);
    assert_eq!(stdout(&got).lines().count() as u64, made["kept"].as_u64().expect("a count"));
    assert!(stderr(&got).contains("DNS messages kept"), "{}", stderr(&got));
}

#[test]
fn keys_are_made_once_and_never_told() {
    let folder = tempfile::tempdir().expect("a folder");
    let [key, a, b] = ["key", "a.pcap", "b.pcapng"].map(|name| folder.path().join(name));
    let from = capture(folder.path());
    let run = |out: &Path| output(&["trace", "edit", &from, "-o", text(out), "--anonymize", text(&key)]);
    let (first, second) = (run(&a), run(&b));
    assert!(first.status.success() && second.status.success(), "{}", stderr(&second));
    assert!(stderr(&first).contains("a new key was made") && !stderr(&second).contains("key"));
    assert_eq!(std::fs::metadata(&key).expect("a key").permissions().mode() & 0o777, 0o600);
    let digits = std::fs::read_to_string(&key).expect("a key");
    assert_eq!(digits.trim().len(), 64);
    for got in [&first, &second] {
        assert!(!(stderr(got) + &stdout(got)).contains(digits.trim()));
    }
    let [a, b] = [a, b].map(|p| {
        let addresses = folder.path().join("again.pcap");
        let made = json(&["trace", "edit", text(&p), "-o", text(&addresses)]);
        assert_eq!(made["written"], 20_000);
        std::fs::read(&addresses).expect("written")
    });
    assert!(a == b, "the same key gives the same addresses");
    std::fs::write(&key, "not a key\n").expect("written");
    let bad = run(&folder.path().join("c.pcap"));
    assert!(
        bad.status.code() == Some(1) && stderr(&bad).contains("64 hexadecimal digits"),
        "{}",
        stderr(&bad)
    );
}

#[test]
fn contradictions_are_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let from = capture(folder.path());
    let out = folder.path().join("out.pcap");
    for (flags, says) in [
        (&["--set-dst", "10.0.0.1", "--set-dst", "10.0.0.2"][..], "twice for one family"),
        (&["--format", "queries", "--set-dst", "10.0.0.1"], "change nothing in it"),
        (&["--format", "queries", "--if-response"], "leaves nothing"),
        (&["--if-client", "10.1.0.0/8"], "the block is 10.0.0.0/8"),
        (&["--every", "0"], "--every"),
        (&["--from", "later"], "+30s"),
        (&["--set-mac", "1:2:3:4:5:6"], "two MAC addresses"),
        (&["--if-names", "n-g"], "empty"),
    ] {
        let got = output(&[&["trace", "edit", &from, "-o", text(&out)], flags].concat());
        assert_eq!(got.status.code(), Some(2), "{flags:?}: {}", stderr(&got));
        assert!(stderr(&got).contains(says), "{flags:?}: {}", stderr(&got));
        assert!(!out.exists());
    }
    let same = output(&["trace", "edit", &from, "-o", &from]);
    assert!(same.status.code() == Some(2) && stderr(&same).contains("overwritten"), "{}", stderr(&same));
    let small = output(&["trace", "edit", &from, "-o", text(&out), "--set-src-net", "10.0.0.0/30"]);
    assert!(
        small.status.code() == Some(1) && stderr(&small).contains("or larger has enough"),
        "{}",
        stderr(&small)
    );
    assert!(!out.exists());
}
