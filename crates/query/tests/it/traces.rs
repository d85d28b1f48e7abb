//! Queries on captures and imported traces give what `trace info` gives.

use crate::{ask, made, shipped, two_threads};
use query::Options;
use query::shipped::ALL;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use trace::import::apart::Folder;
use trace::import::{Spec, import};

/// What `trace info --json` says.
fn info(path: &Path) -> Value {
    let facts = trace::facts::collect(&[path.to_owned()], &[53], 1_000_000_000, 1, &mut |_| {}).unwrap();
    serde_json::to_value(facts.report()).unwrap()
}

/// The captures beside the project, and loudly none where they are absent.
fn real() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/captures");
    let Ok(entries) = std::fs::read_dir(&folder) else {
        eprintln!("SKIPPED: no real captures in ../shared/data/captures");
        return Vec::new();
    };
    let mut paths: Vec<_> = entries.map(|e| e.unwrap().path()).collect();
    paths.retain(|p| p.to_str().is_some_and(|p| p.ends_with(".pcap") || p.ends_with(".pcap.xz")));
    paths.sort();
    paths
}

fn sum(rows: &[Value], column: &str) -> u64 {
    rows.iter().map(|row| row[column].as_u64().unwrap()).sum()
}

/// The row whose first column has this value; zeros where there is none.
fn row<'a>(rows: &'a [Value], column: &str, value: &str) -> &'a Value {
    static NONE: Value = Value::Null;
    rows.iter().find(|row| row[column] == value).unwrap_or(&NONE)
}

fn count(row: &Value, column: &str) -> u64 {
    row[column].as_u64().unwrap_or(0)
}

#[test]
fn each_query_gives_what_trace_info_gives() {
    let (_folder, path) = made(4000);
    for path in real().into_iter().chain([path]) {
        let name = path.display().to_string();
        let (info, options) = (info(&path), two_threads());
        let of = |query| shipped(std::slice::from_ref(&path), &options, query);
        let unsolicited = count(&info, "unsolicited");

        let types = of("types");
        let theirs = info["types"].as_object().unwrap();
        assert_eq!(types.len(), theirs.len(), "{name}");
        for row in &types {
            let outcome =
                json!({ "count": row["queries"], "failed": row["failed"], "unanswered": row["unanswered"] });
            assert_eq!(outcome, theirs[row["type"].as_str().unwrap()], "{name}: {row}");
        }
        let opcodes = of("opcodes");
        for row in &opcodes {
            assert_eq!(row["queries"], info["opcodes"][row["opcode"].as_str().unwrap()], "{name}");
        }
        assert_eq!(opcodes.len(), info["opcodes"].as_object().unwrap().len(), "{name}");
        assert_eq!(sum(&of("rcodes"), "answers") + unsolicited, count(&info, "responses"), "{name}");

        let transports = of("transports");
        let by = |column: &str, value: Value| -> u64 {
            transports.iter().filter(|row| row[column] == value).map(|row| count(row, "queries")).sum()
        };
        assert_eq!(json!(by("transport", json!("UDP"))), info["transport"]["udp"], "{name}");
        assert_eq!(json!(by("transport", json!("TCP"))), info["transport"]["tcp"], "{name}");
        assert_eq!(json!(by("ip_version", json!(6))), info["family"]["ipv6"], "{name}");
        assert_eq!(json!(sum(&transports, "df")), info["df"], "{name}");

        let edns = &of("edns")[0];
        assert_eq!(edns["queries"], info["queries"], "{name}");
        assert_eq!((&edns["edns"], &edns["do"]), (&info["edns"]["present"], &info["edns"]["do"]), "{name}");
        assert_eq!(edns["rd"], info["recursive"]["count"], "{name}");
        let sizes = of("edns-sizes");
        for row in &sizes {
            assert_eq!(row["queries"], info["edns"]["sizes"][row["edns_udp"].to_string()], "{name}");
            let with_do = &info["edns"]["sizes_do"][row["edns_udp"].to_string()];
            assert_eq!(count(row, "with_do"), with_do.as_u64().unwrap_or(0), "{name}");
        }
        assert_eq!(sum(&sizes, "queries"), count(&info["edns"], "present"), "{name}");

        let checksums = of("checksums");
        for row in &checksums {
            assert_eq!(
                row["queries"],
                info["checksums"]["queries"][row["checksum"].as_str().unwrap()],
                "{name}"
            );
        }
        for (transport, theirs) in [("UDP", "udp"), ("TCP", "tcp")] {
            let (all, theirs) = (of("query-sizes"), &info["query_size"][theirs]);
            let ours = row(&all, "transport", transport);
            for key in ["count", "p50", "p90", "p99", "max"] {
                assert_eq!(count(ours, key), count(theirs, key), "{name}: {transport} {key}");
            }
            let means = [ours, theirs].map(|of| of["mean"].as_f64().unwrap_or(0.0));
            assert!((means[0] - means[1]).abs() < 1e-9, "{name}: {means:?}");
        }

        let truncation = of("truncation");
        for (edns, theirs) in [("without EDNS", "without_edns"), ("with EDNS", "edns"), ("with DO", "do")] {
            let (ours, theirs) = (row(&truncation, "edns", edns), &info["truncation"][theirs]);
            for key in ["answers", "truncated", "retried"] {
                assert_eq!(count(ours, key), count(theirs, key), "{name}: {edns} {key}");
            }
        }

        let latency = of("latency");
        for (transport, theirs) in [("UDP", "udp"), ("TCP", "tcp")] {
            let (ours, theirs) = (row(&latency, "transport", transport), &info["latency_us"][theirs]);
            assert_eq!(count(ours, "count"), count(theirs, "count"), "{name}");
            for (key, their_key) in [("p50_us", "p50"), ("p99_us", "p99"), ("max_us", "max")] {
                let [a, b] = [&ours[key], &theirs[their_key]].map(|v| v.as_f64().unwrap_or(0.0));
                // Their histogram's buckets are that wide.
                assert!((a - b).abs() <= b * 0.01, "{name}: {transport} {key}: {a}, {b}");
            }
        }
        let labels = of("labels");
        for row in &labels {
            assert_eq!(row["queries"], info["labels"][row["labels"].to_string()], "{name}");
        }
        let clients = of("clients");
        let listed = info["top_clients"].as_array().unwrap();
        assert_eq!(clients.len(), listed.len(), "{name}");
        let most = |rows: &[Value]| rows.iter().map(|row| count(row, "queries")).collect::<Vec<_>>();
        assert_eq!(most(&clients), most(listed), "{name}");
    }
}

#[test]
fn rssac002_is_that_of_trace_info() {
    let (_folder, path) = made(4000);
    let counted = trace::facts::collect_rssac002(std::slice::from_ref(&path), &[53], 1, &mut |_| {})
        .unwrap()
        .yaml("a.example");
    let unsolicited = count(&info(&path), "unsolicited");
    assert!(unsolicited > 0);
    let of = |query| shipped(std::slice::from_ref(&path), &two_threads(), query);
    // All values of a key, day by day.
    let theirs = |key: &str| -> Vec<u64> {
        let lines = counted.lines().filter_map(|line| line.trim().strip_prefix(key)?.strip_prefix(": "));
        lines.map(|value| value.parse().unwrap()).collect()
    };
    let volume = of("rssac002-traffic-volume");
    assert_eq!(volume.len(), 2, "it has two days");
    let mut short = 0;
    for key in volume[0].as_object().unwrap().keys().filter(|key| *key != "day") {
        let ours: Vec<_> = volume.iter().map(|day| count(day, key)).collect();
        let theirs = theirs(key);
        match key.contains("responses") {
            false => assert_eq!(ours, theirs, "{key}"),
            true => short += theirs.iter().sum::<u64>() - ours.iter().sum::<u64>(),
        }
    }
    assert_eq!(short, unsolicited, "answers without a query have no row");
    let sources = of("rssac002-unique-sources");
    for key in ["num-sources-ipv4", "num-sources-ipv6", "num-sources-ipv6-aggregate"] {
        assert_eq!(sources.iter().map(|day| count(day, key)).collect::<Vec<_>>(), theirs(key), "{key}");
    }
    // Bins of requests as "32-47: 12" below the name of the metric.
    let sizes = of("rssac002-traffic-sizes");
    let requests: u64 = sizes
        .iter()
        .filter(|row| row["metric"] == "udp-request-sizes")
        .map(|row| count(row, "messages"))
        .sum();
    let udp: u64 = ["dns-udp-queries-received-ipv4", "dns-udp-queries-received-ipv6"]
        .iter()
        .flat_map(|key| theirs(key))
        .sum();
    assert_eq!(requests, udp);
    assert!(sizes.iter().all(|row| count(row, "from_octets").is_multiple_of(16)));
    assert_eq!(sum(&of("rssac002-rcode-volume"), "answers"), sum(&of("rcodes"), "answers"));
}

#[test]
fn a_capture_and_its_import_give_the_same_rows() {
    let (folder, path) = made(4000);
    let table = folder.path().join("table");
    import(
        std::slice::from_ref(&path),
        &table,
        &Spec { rows_per_file: 1000, rows_per_group: 500, ..Spec::default() },
        &mut |_| {},
    )
    .unwrap();
    assert!(std::fs::read_dir(&table).unwrap().count() > 1, "several files");
    let one = Options::default();
    for query in ALL.iter().filter(|query| !query.is_of_runs()) {
        let captured = shipped(std::slice::from_ref(&path), &one, query.name);
        assert!(!captured.is_empty(), "@{}", query.name);
        assert_eq!(
            captured,
            shipped(std::slice::from_ref(&path), &two_threads(), query.name),
            "@{}: parts",
            query.name
        );
        assert_eq!(
            captured,
            shipped(std::slice::from_ref(&table), &two_threads(), query.name),
            "@{}: import",
            query.name
        );
    }
}

#[test]
fn sources_add_up_and_can_be_kept_apart() {
    let (folder, first) = made(500);
    let second = folder.path().join("second.pcap");
    crate::capture::write(&second, 300, 2);
    let table = folder.path().join("table");
    import(std::slice::from_ref(&second), &table, &Spec::default(), &mut |_| {}).unwrap();
    let sources = [first.clone(), table.clone()];
    let all = ask(&sources, &two_threads(), "SELECT count(*) AS n FROM queries", &[]).unwrap();
    let alone = |path: &PathBuf| info(path)["queries"].as_u64().unwrap();
    assert_eq!(all, [json!({ "n": alone(&first) + alone(&second) })]);
    let apart = Options { apart: true, ..two_threads() };
    let by_source = "SELECT source, count(*) AS n FROM queries GROUP BY source ORDER BY n DESC";
    let rows = ask(&[first.clone(), second.clone()], &apart, by_source, &[]).unwrap();
    let expected =
        [&first, &second].map(|path| json!({ "source": path.display().to_string(), "n": alone(path) }));
    assert_eq!(rows, expected);
    let rows = ask(&sources, &apart, "SELECT DISTINCT source FROM queries ORDER BY source", &[]).unwrap();
    assert_eq!(rows.len(), 2);
}

#[test]
fn filters_give_the_rows_that_they_say_however_they_are_written() {
    let (folder, path) = made(2000);
    let table = folder.path().join("table");
    import(std::slice::from_ref(&path), &table, &Spec::default(), &mut |_| {}).unwrap();
    let conditions = [
        "time >= '2009-04-01'",
        "time < '2009-04-01'",
        "time BETWEEN '2009-03-31T23:59:30Z' AND '2009-03-31T23:59:40.5Z'",
        "time_ns > 1238544000123456789",
        "1238544000123456789 >= time_ns",
        "src = '198.51.100.7'",
        "src = '198.51.100.07'",
        "under(qname, 'CoM')",
        "under(qname, 'example.com.') AND time >= '2009-04-01' AND NOT tc",
        "under(qname, 'com') OR under(qname, 'se')",
        "under(qname, 'com') AND under(qname, 'example.com')",
        "qname = 'example.se.'",
        "qname = 'EXAMPLE.se.'",
        "lower(qname) = 'com.'",
        "tld(qname) = 'local.' AND rcode = 3",
        "qname IS NULL",
        "ip_prefix(src, 24, 48) = '2001:db8:1::/48'",
    ];
    let mut some = 0;
    for condition in conditions {
        let sql = format!(
            "SELECT time_ns, src, qname, rcode, proc_time_ns FROM queries WHERE {condition} ORDER BY time_ns, src, qname"
        );
        let captured = ask(std::slice::from_ref(&path), &two_threads(), &sql, &[]).unwrap();
        // In Parquet the engine alone filters.
        let imported = ask(std::slice::from_ref(&table), &two_threads(), &sql, &[]).unwrap();
        assert_eq!(captured, imported, "{condition}");
        some += usize::from(!captured.is_empty());
    }
    assert_eq!(some, conditions.len() - 2, "two of them hold for no row");
}

#[test]
fn functions_of_dns() {
    let (_folder, path) = made(1);
    let cases = [
        ("type_name(28)", json!("AAAA")),
        ("type_name(65280)", json!("TYPE65280")),
        ("type_name(70000)", Value::Null),
        ("class_name(3)", json!("CH")),
        ("rcode_name(3)", json!("NXDOMAIN")),
        ("rcode_name(16)", json!("BADVERS")),
        ("rcode_name(-1)", Value::Null),
        ("opcode_name(5)", json!("UPDATE")),
        ("under('www.Example.COM.', 'example.com')", json!(true)),
        ("under('example.com.', 'www.example.com')", json!(false)),
        ("under('notexample.com.', 'example.com')", json!(false)),
        ("under('com.', '.')", json!(true)),
        ("under('a..b', 'com')", Value::Null),
        ("under(NULL, 'com')", Value::Null),
        ("tld('www.Example.COM.')", json!("com.")),
        ("tld('.')", json!(".")),
        ("tld('a.b\\.c.')", json!("b\\.c.")),
        ("labels('a.b.c.')", json!(3)),
        ("labels('.')", json!(0)),
        ("ip_prefix('192.0.2.77', 24)", json!("192.0.2.0/24")),
        ("ip_prefix('192.0.2.77', 0)", json!("0.0.0.0/0")),
        ("ip_prefix('192.0.2.77', 33)", Value::Null),
        ("ip_prefix('2001:db8:1:2::3', 24, 48)", json!("2001:db8:1::/48")),
        ("ip_prefix('2001:db8:1:2::3', 128)", json!("2001:db8:1:2::3/128")),
        ("ip_prefix('nowhere', 24)", Value::Null),
        ("reverse_name('192.0.2.1')", json!("1.2.0.192.in-addr.arpa.")),
        (
            "reverse_name('2001:db8::1')",
            json!("1.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.8.b.d.0.1.0.0.2.ip6.arpa."),
        ),
    ];
    let sql: Vec<_> = cases.iter().enumerate().map(|(n, (call, _))| format!("{call} AS c{n}")).collect();
    let rows = ask(&[path], &Options::default(), &format!("SELECT {}", sql.join(", ")), &[]).unwrap();
    for (n, (call, expected)) in cases.iter().enumerate() {
        assert_eq!(&rows[0][format!("c{n}")], expected, "{call}");
    }
}

#[test]
fn captures_that_were_imported_apart_are_one_table_or_one_each() {
    let (place, path) = made(300);
    let other = place.path().join("other.pcap");
    crate::capture::write(&other, 200, 2);
    let (table, spec, stop) = (place.path().join("table"), Spec::default(), AtomicBool::new(false));
    let folder = Folder::open(&table, &spec, false).unwrap();
    let none = ask(std::slice::from_ref(&table), &two_threads(), "SELECT 1", &[]).unwrap_err();
    assert!(none.to_string().contains("table"), "{none}");
    for task in folder.tasks(&[path, other]).unwrap() {
        task.run(&stop, &mut |_| {}).unwrap();
    }
    // One that is not whole is no part of it.
    std::fs::create_dir(table.join(".dnsrack-x")).unwrap();
    let count = |options: &Options, sql: &str| ask(std::slice::from_ref(&table), options, sql, &[]).unwrap();
    let all = count(&two_threads(), "SELECT count(*) AS n FROM queries");
    let apart = Options { apart: true, ..two_threads() };
    let each = count(&apart, "SELECT source, count(*) AS n FROM queries GROUP BY source ORDER BY source");
    assert_eq!(sum(&each, "n"), sum(&all, "n"));
    let sources: Vec<_> =
        each.iter().map(|row| row["source"].as_str().unwrap().rsplit('/').next().unwrap()).collect();
    assert_eq!(sources, ["capture=made.pcap", "capture=other.pcap"]);
    drop(folder);
}
