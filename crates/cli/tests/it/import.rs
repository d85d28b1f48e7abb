//! Captures as Parquet files, and as RSSAC002's YAML.

use crate::{output, stderr, stdout};
use std::fs;

#[test]
fn a_capture_becomes_a_table() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).to_str().expect("a path").to_owned();
    let (names, capture, table) = (path("names"), path("capture.pcap"), path("table"));
    fs::write(&names, "com\nnet\n").expect("written");
    let made = output(&["traffic", "generate", "rzaia", "--names", &names, "--count", "500", "-o", &capture]);
    assert!(made.status.success(), "{}", stderr(&made));
    let got = output(&["--json", "trace", "import", &capture, "-o", &table, "--rows-per-file", "1"]);
    assert!(got.status.success(), "{}", stderr(&got));
    let json: serde_json::Value = serde_json::from_slice(&got.stdout).expect("JSON");
    assert_eq!(json["schema"], "dnsrack.trace.import/1");
    let counts =
        ["rows", "answered", "unanswered", "unsolicited", "files", "packets"].map(|name| &json[name]);
    assert_eq!(counts, [500, 0, 500, 0, 1, 500], "{json}");
    assert_eq!(json["ignored"], serde_json::json!({}));
    let file = fs::metadata(path("table/part-00000.parquet")).expect("a file");
    assert_eq!(json["octets"], file.len());

    let again = output(&["trace", "import", &capture, "-o", &table]);
    assert_eq!(again.status.code(), Some(1));
    let error = stderr(&again);
    assert!(error.contains(&table) && error.contains("give a folder that does not exist yet"), "{error}");
    let got = output(&["trace", "import", &capture, "-o", &path("other")]);
    assert!(stdout(&got).starts_with("500 rows in 1 file, "), "{}", stdout(&got));
    assert!(stdout(&got).contains("500  queries without an answer"), "{}", stdout(&got));
    assert_eq!(output(&["trace", "import", &capture, "-o", "-"]).status.code(), Some(2));
}

#[test]
fn captures_apart_have_a_folder_each_and_more_can_be_added() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).to_str().expect("a path").to_owned();
    let (names, table, bad) = (path("names"), path("table"), path("bad.pcap"));
    fs::write(&names, "com\nnet\n").expect("written");
    fs::write(&bad, "no capture").expect("written");
    let capture = |name: &str, count: &str| {
        let capture = path(name);
        let made = ["traffic", "generate", "rzaia", "--names", &names, "--count", count, "-o", &capture];
        assert!(output(&made).status.success());
        capture
    };
    let (monday, tuesday) = (capture("monday.pcap", "500"), capture("tuesday.pcap", "300"));
    let import =
        |more: &[&str]| output(&[&["--json", "trace", "import", "--apart", "-o", &table][..], more].concat());
    // What is not there is said before anything is written.
    let got = import(&[&monday, &path("absent")]);
    assert_eq!(got.status.code(), Some(1));
    assert!(stderr(&got).contains("absent: No such file"), "{}", stderr(&got));
    assert!(!folder.path().join("table").exists());
    let got = import(&[&monday, "--jobs", "2"]);
    assert!(got.status.success(), "{}", stderr(&got));
    let counts = |got: &std::process::Output| {
        let json: serde_json::Value = serde_json::from_slice(&got.stdout).expect("JSON");
        ["rows", "captures", "imported", "undone"].map(|name| json[name].as_u64().expect("a count"))
    };
    assert_eq!(counts(&got), [500, 1, 1, 0]);
    let got = import(&[&monday, &tuesday]);
    assert_eq!(got.status.code(), Some(1));
    assert!(stderr(&got).contains("an import was begun here: go on with it (--resume)"), "{}", stderr(&got));
    // One that cannot be read keeps no other one from being read.
    let got = import(&[&bad, &monday, &tuesday, "--resume"]);
    assert_eq!(got.status.code(), Some(1));
    assert!(stderr(&got).contains("bad.pcap: not a capture that can be read"), "{}", stderr(&got));
    assert_eq!(counts(&got), [800, 2, 1, 0]);
    for folder in ["table/capture=monday.pcap", "table/capture=tuesday.pcap"] {
        assert!(fs::metadata(path(folder)).expect("a folder").is_dir());
    }
    assert_eq!(output(&["trace", "import", "--resume", &monday, "-o", &table]).status.code(), Some(2));
}

#[test]
fn a_capture_becomes_yaml() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).to_str().expect("a path").to_owned();
    let (names, capture) = (path("names"), path("capture.pcap"));
    fs::write(&names, "com\nnet\n").expect("written");
    let made = output(&["traffic", "generate", "rzaia", "--names", &names, "--count", "500", "-o", &capture]);
    assert!(made.status.success(), "{}", stderr(&made));
    let got = output(&["trace", "info", "--rssac002", "--service", "k.example", &capture]);
    assert!(got.status.success(), "{}", stderr(&got));
    let text = stdout(&got);
    for line in
        ["version: rssac002v4", "service: k.example", "metric: unique-sources", "# Not the whole day: "]
    {
        assert!(text.contains(&format!("\n{line}")), "{text}");
    }
    let queries = |line: &str| line.strip_prefix("dns-udp-queries-received-ipv")?[3..].parse::<u64>().ok();
    assert_eq!(text.lines().filter_map(queries).sum::<u64>(), 500, "{text}");
    for wrong in [&["--json", "trace", "info", "--rssac002"][..], &["trace", "info", "--service", "a"]] {
        let got = output(&[wrong, &[&capture]].concat());
        assert_eq!(got.status.code(), Some(2), "{wrong:?}");
        assert!(stdout(&got).is_empty());
    }
}
