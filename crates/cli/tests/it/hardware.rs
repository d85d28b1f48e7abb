//! `dnsrack hardware` as a user meets it.

use crate::{output, stderr, stdout};

#[test]
fn a_machine_is_measured_into_a_run_directory_that_reports_read() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("run");
    let dir = dir.to_str().unwrap();
    let out = output(&["hardware", "--repeats", "1", "-o", dir, "--json"]);
    // 3: the machine was not quiet, and then its figures are invalid.
    assert!(matches!(out.status.code(), Some(0 | 3)), "{}", stderr(&out));
    let said: serde_json::Value = serde_json::from_str(&stdout(&out)).unwrap();
    assert_eq!(said["schema"], "dnsrack.hardware/1");
    let figures = said["valid"].as_u64().unwrap() + said["invalid"].as_u64().unwrap();
    assert!(figures > 50, "{said}");
    for why in said["left_out"].as_array().unwrap() {
        eprintln!("left out: {why}");
    }
    let report = stdout(&output(&["report", dir]));
    for part in
        ["Memory latency", "Memory bandwidth (STREAM)", "Copies of memory", "Operations", "[isc-2.2 72 ns]"]
    {
        assert!(report.contains(part), "no '{part}' in: {report}");
    }
    let page = std::fs::read_to_string(folder.path().join("run/report.html")).unwrap();
    // Latency and copies by size, and the bandwidth by threads where there are several cores.
    assert!(page.matches("<figure").count() >= 2);
    let again = output(&["hardware", "--repeats", "1", "-o", dir]);
    assert_eq!(again.status.code(), Some(1));
    assert!(stderr(&again).contains("is not empty"), "{}", stderr(&again));
}

#[test]
fn a_folder_that_is_not_there_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("run");
    let out = output(&["hardware", "--folder", "/no/such/folder", "-o", dir.to_str().unwrap()]);
    assert_eq!(out.status.code(), Some(2));
    assert!(stderr(&out).contains("--folder /no/such/folder: no such folder"), "{}", stderr(&out));
    assert!(!dir.exists());
}
