//! What is wrong is said in one sentence, with its place; nothing is lost.

use crate::{ask, kept_runs, made, two_threads};
use query::Options;
use std::fs;
use std::path::PathBuf;

fn error(sources: &[PathBuf], sql: &str, set: &[(&str, &str)]) -> String {
    ask(sources, &two_threads(), sql, set).expect_err(sql).to_string()
}

#[test]
fn a_wrong_statement_is_told_with_its_place() {
    let (_folder, path) = made(10);
    let cases = [
        ("SELEC qtype FROM queries", "SQL:1:1: "),
        ("SELECT qtype,\n  qtpe FROM queries", "SQL:2:3: "),
        ("SELECT count(* FROM queries", "SQL:1:16: "),
        ("SELECT qtype FROM querys", "SQL:1:19: "),
        ("SELECT type_nam(qtype) FROM queries", "SQL:1:8: "),
        ("SELECT qtype FROM queries WHERE", "SQL:1:32: "),
    ];
    for (sql, place) in cases {
        let said = error(std::slice::from_ref(&path), sql, &[]);
        assert!(said.starts_with(place), "{sql}: {said}");
        assert_eq!(said.lines().count(), 3, "a sentence, the line, and a mark: {said}");
    }
    let said = error(&[path], "SELECT count(*) FROM trials", &[]);
    assert!(said.contains("table 'trials' not found; of these sources there are queries\n"), "{said}");
}

#[test]
fn nothing_can_be_changed() {
    let (folder, path) = made(10);
    let out = folder.path().join("out.csv");
    let copy = format!("COPY (SELECT 1) TO '{}'", out.display());
    for sql in [
        copy.as_str(),
        "CREATE TABLE t AS SELECT 1",
        "DROP TABLE queries",
        "INSERT INTO queries SELECT * FROM queries",
    ] {
        let said = error(std::slice::from_ref(&path), sql, &[]);
        assert!(said.contains("not supported"), "{sql}: {said}");
    }
    assert!(!out.exists());
}

#[test]
fn parameters_are_given_exactly() {
    let (_folder, path) = made(10);
    let sql = "SELECT count(*) AS n FROM queries LIMIT $top";
    let said = error(std::slice::from_ref(&path), sql, &[]);
    assert_eq!(said, "$top has no value: give one with --set top=…");
    let said = error(std::slice::from_ref(&path), sql, &[("top", "3"), ("tip", "3")]);
    assert_eq!(said, "--set tip: the statement has no parameter $tip");
    assert_eq!(ask(&[path], &two_threads(), sql, &[("top", "3")]).unwrap().len(), 1);
}

#[test]
fn a_damaged_source_is_named() {
    let (folder, path) = made(200);
    let at = |name: &str| folder.path().join(name);
    let count = "SELECT count(*) AS n, count(rcode) AS answers FROM queries";
    let whole = fs::read(&path).unwrap();

    // A capture that ends in the middle of a packet has the packets before.
    fs::write(at("cut.pcap"), &whole[..whole.len() - 10]).unwrap();
    let of = |path: &PathBuf| {
        let rows = ask(std::slice::from_ref(path), &two_threads(), count, &[]).unwrap();
        rows[0]["n"].as_u64().unwrap() + rows[0]["answers"].as_u64().unwrap()
    };
    assert_eq!(of(&at("cut.pcap")) + 1, of(&path));
    // One that goes on as none can is damaged, and gives no figure.
    let mut damaged = whole.clone();
    let middle = damaged.len() / 2;
    damaged[middle..middle + 400].fill(0xff);
    fs::write(at("damaged.pcap"), &damaged).unwrap();
    let said = error(&[at("damaged.pcap")], count, &[]);
    assert!(
        said.starts_with(at("damaged.pcap").to_str().unwrap()) && said.contains("damaged at octet"),
        "{said}"
    );

    fs::write(at("text.pcap"), "this is no capture at all").unwrap();
    let said = error(&[at("text.pcap")], count, &[]);
    assert!(said.contains("text.pcap: not a capture"), "{said}");
    fs::create_dir(at("empty")).unwrap();
    assert!(error(&[at("empty")], count, &[]).contains("empty: it is no run directory"));
    assert!(error(&[at("absent")], count, &[]).contains("absent: No such file"));

    let table = at("table");
    trace::import::import(&[path], &table, &trace::import::Spec::default(), &mut |_| {}).unwrap();
    let part = table.join("part-00000.parquet");
    let octets = fs::read(&part).unwrap();
    fs::write(&part, &octets[..octets.len() / 2]).unwrap();
    let said = error(&[table], count, &[]);
    assert!(
        said.contains("part-00000.parquet: no Parquet file that can be read, or one that is cut"),
        "{said}"
    );
    let other = kept_runs().join("demo/trials.parquet");
    fs::copy(&other, at("other.parquet")).unwrap();
    let said = error(&[at("other.parquet")], count, &[]);
    assert!(said.contains("other.parquet: it has no column id"), "{said}");
}

#[test]
fn a_run_directory_of_another_version_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("run");
    fs::create_dir(&run).unwrap();
    for file in fs::read_dir(kept_runs().join("demo")).unwrap() {
        let file = file.unwrap();
        fs::copy(file.path(), run.join(file.file_name())).unwrap();
    }
    fs::copy(run.join("series.parquet"), run.join("trials.parquet")).unwrap();
    let said = error(&[run], "SELECT 1", &[]);
    assert!(said.contains("trials.parquet") && said.contains("other columns than expected"), "{said}");
}

#[test]
fn memory_that_is_not_enough_is_told_and_more_of_it_is() {
    let (_folder, path) = made(20_000);
    let sql =
        "SELECT count(*) AS n FROM (SELECT qname, src, time_ns, count(*) FROM queries GROUP BY 1, 2, 3)";
    let of = |memory| ask(std::slice::from_ref(&path), &Options { memory, ..two_threads() }, sql, &[]);
    let said = of(10_000).expect_err("it is too little").to_string();
    assert!(said.contains("allow more with --memory"), "{said}");
    assert!(of(1_000_000_000).is_ok());
}
