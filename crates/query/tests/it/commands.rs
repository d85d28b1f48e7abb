//! The program as users call it.

use crate::{kept_runs, made};
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

fn program() -> Command {
    Command::new(env!("CARGO_BIN_EXE_dnsrack-query"))
}

fn run(args: &[&str]) -> Output {
    program().args(args).output().expect("it runs")
}

fn stdout(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout.clone()).expect("UTF-8")
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn help_and_lists_are_as_reviewed() {
    let mut all = String::new();
    for args in [
        &["--help"][..],
        &["scheduler", "--help"],
        &["executor", "--help"],
        &["--list"],
        &["--functions"],
        &["--show", "types"],
    ] {
        all += &format!("$ dnsrack query {}\n{}\n", args.join(" "), stdout(&run(args)));
    }
    insta::assert_snapshot!(all);
}

#[test]
fn every_form_has_the_same_rows() {
    let (folder, path) = made(300);
    let path = path.to_str().unwrap();
    let sql = "SELECT qname, qtype, count(*) AS queries FROM queries GROUP BY 1, 2 ORDER BY 3 DESC, 1, 2";
    let csv = stdout(&run(&[sql, path, "--format", "csv"]));
    assert!(csv.starts_with("qname,qtype,queries\n"), "{csv}");
    assert!(csv.contains(r#""a,b.\""q\""\..org.""#), "a name with a comma and quotes is quoted: {csv}");
    let rows: Vec<Value> = serde_json::from_str(&stdout(&run(&[sql, path, "--format", "json"]))).unwrap();
    assert_eq!(rows.len() + 1, csv.lines().count());
    let object: Value = serde_json::from_str(&stdout(&run(&[sql, path, "--json"]))).unwrap();
    assert_eq!(object["schema"], "dnsrack.query/1");
    assert_eq!(object["rows"].as_array().unwrap(), &rows);
    assert_eq!(object["columns"][2]["name"], "queries");
    let table = stdout(&run(&[sql, path]));
    assert!(table.trim_end().ends_with(&format!("{} rows", rows.len())), "{table}");
    let file = folder.path().join("rows.parquet");
    let said = run(&[sql, path, "--format", "parquet", "-o", file.to_str().unwrap()]);
    assert!(stderr(&said).contains(&format!("{} rows", rows.len())));
    let reader = parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder::try_new(
        std::fs::File::open(&file).unwrap(),
    )
    .unwrap();
    assert_eq!(reader.metadata().file_metadata().num_rows() as usize, rows.len());
    // No row at all.
    let none = "SELECT qname, qtype FROM queries WHERE qtype = 999";
    assert_eq!(stdout(&run(&[none, path, "--format", "csv"])), "qname,qtype\n");
    assert_eq!(stdout(&run(&[none, path, "--format", "json"])), "[]\n");
}

#[test]
fn statements_come_from_files_and_by_name() {
    let (folder, path) = made(100);
    let file = folder.path().join("mine.sql");
    std::fs::write(&file, "-- mine\nSELECT count(*) AS n\nFROM queries WHERE qtype = $type").unwrap();
    let args = [file.to_str().unwrap(), path.to_str().unwrap(), "--set", "type=28", "--format", "csv"];
    assert!(stdout(&run(&args)).starts_with("n\n"));
    std::fs::write(&file, "SELECT 1\nFRM queries").unwrap();
    let said = run(&args);
    assert_eq!(said.status.code(), Some(1));
    assert!(stderr(&said).contains("mine.sql:2:"), "{}", stderr(&said));
    let said = run(&["@type", path.to_str().unwrap()]);
    assert!(stderr(&said).contains("did you mean @types?"), "{}", stderr(&said));
    let top = stdout(&run(&["@clients", path.to_str().unwrap(), "--set", "top=3", "--format", "csv"]));
    assert_eq!(top.lines().count(), 4);
    assert_eq!(run(&[]).status.code(), Some(2));
}

#[test]
fn a_failed_statement_leaves_the_output_as_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out.csv");
    std::fs::write(&out, "before").unwrap();
    let runs = kept_runs().join("demo");
    // It fails when it is run, not when it is planned.
    let sql = "SELECT CAST(value / 0 AS INT) / 0 FROM metrics WHERE 1 / (trial - trial) = 1";
    let said = run(&[sql, runs.to_str().unwrap(), "--format", "csv", "-o", out.to_str().unwrap()]);
    assert_eq!(said.status.code(), Some(1), "{}", stderr(&said));
    assert_eq!(std::fs::read_to_string(&out).unwrap(), "before");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "nothing is left beside it");
}

/// Statements that never end on their own in reasonable time.
const LONG: &str =
    "SELECT count(*) FROM queries a, queries b, queries c WHERE a.time_ns + b.time_ns > c.time_ns";

#[test]
fn it_can_be_stopped_and_leaves_nothing() {
    let (folder, path) = made(5000);
    let spill = folder.path().join("spill");
    std::fs::create_dir(&spill).unwrap();
    let mut child = program()
        .args([LONG, path.to_str().unwrap(), "--spill", spill.to_str().unwrap()])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    std::thread::sleep(Duration::from_secs(1));
    assert!(child.try_wait().unwrap().is_none(), "it is at work");
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    let start = Instant::now();
    let status = child.wait().unwrap();
    assert_eq!(status.code(), Some(130));
    assert!(start.elapsed() < Duration::from_secs(20));
    assert_eq!(std::fs::read_dir(&spill).unwrap().count(), 0);
}

#[test]
fn a_closed_pipe_is_no_error() {
    let (_folder, path) = made(20_000);
    let command = format!(
        "{} 'SELECT * FROM queries' {} --format csv | head -1 >/dev/null; echo ${{PIPESTATUS[0]}}",
        env!("CARGO_BIN_EXE_dnsrack-query"),
        path.display()
    );
    let said = Command::new("bash").args(["-c", &command]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&said.stdout), "0\n", "{}", stderr(&said));
}

/// Groups that do not fit go on in files; where the disk for them fills, that is said.
#[test]
fn groups_go_on_in_files_until_the_disk_is_full() {
    let (folder, path) = made(60_000);
    let spill = folder.path().join("spill");
    std::fs::create_dir(&spill).unwrap();
    let sql = "SELECT * FROM queries ORDER BY qname, src, time_ns";
    let args =
        [sql, path.to_str().unwrap(), "--memory", "16M", "--threads", "1", "--format", "csv", "--spill"];
    let free = program().args(args).arg(&spill).output().unwrap();
    assert_eq!(stdout(&free).lines().count() as u64, 1 + queries(&path));
    assert_eq!(std::fs::read_dir(&spill).unwrap().count(), 0, "its files are gone");
    let full = "mount -t tmpfs -o size=2m none \"$0\" && exec \"$@\"";
    let mounted = Command::new("unshare")
        .args(["-rm", "sh", "-c", full, spill.to_str().unwrap(), env!("CARGO_BIN_EXE_dnsrack-query")])
        .args(args)
        .arg(&spill)
        .output()
        .expect("unshare, of util-linux");
    let said = stderr(&mounted);
    if said.contains("unshare failed") || said.contains("mount:") {
        eprintln!("SKIPPED: no user namespaces here, so no disk that is full: {said}");
        return;
    }
    assert_eq!(mounted.status.code(), Some(1), "{said}");
    assert!(said.contains("No space left on device"), "{said}");
    assert_eq!(said.lines().count(), 1, "one sentence: {said}");
}

fn queries(path: &Path) -> u64 {
    let rows: Vec<Value> =
        serde_json::from_str(&stdout(&run(&["@edns", path.to_str().unwrap(), "--format", "json"]))).unwrap();
    rows[0]["queries"].as_u64().unwrap()
}

#[test]
fn the_prompt_answers_and_goes_on_after_an_error() {
    use std::io::Write;
    let (folder, path) = made(100);
    let mut child = program()
        .arg(&path)
        .env("XDG_STATE_HOME", folder.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = "SELECT count(*) AS first\nFROM queries;\nSELECT nothing;\n@edns\nSELECT 7 AS last;\n";
    child.stdin.take().unwrap().write_all(lines.as_bytes()).unwrap();
    let said = child.wait_with_output().unwrap();
    let out = stdout(&said);
    for part in ["queries (", "first", "authoritative", "last"] {
        assert!(out.contains(part), "{part}: {out}");
    }
    assert!(stderr(&said).contains("SQL:1:8"), "{}", stderr(&said));
    assert!(
        std::fs::read_to_string(folder.path().join("dnsrack/query-history")).unwrap().contains("SELECT 7")
    );
}
