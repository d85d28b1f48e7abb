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
