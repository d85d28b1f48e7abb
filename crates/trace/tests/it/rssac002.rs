//! RSSAC002 beside tshark's counts, and as YAML.

use super::captures::{plain, real};
use super::output;
use super::support::{RAW_IP, framed, message, tcp, udp, udp6};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::net::{IpAddr, Ipv6Addr};
use std::path::Path;
use std::process::Command;
use trace::facts::collect_rssac002;

fn yaml(path: &Path, threads: u32) -> String {
    collect_rssac002(&[path.to_owned()], &[53], threads, &mut |_| {}).unwrap().yaml("test.example")
}

/// Documents by metric; each its lines `key: value`, those of a map as `map/key`.
fn documents(yaml: &str) -> Vec<BTreeMap<String, String>> {
    let mut documents = Vec::new();
    for text in yaml.split("---\n").skip(1) {
        let (mut document, mut map) = (BTreeMap::new(), String::new());
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let (key, value) = line.split_once(':').unwrap();
            match key.strip_prefix("  ") {
                Some(key) => document.insert(format!("{map}/{key}"), value.trim().to_owned()),
                None if value.is_empty() => {
                    map = key.to_owned();
                    None
                }
                None => document.insert(key.to_owned(), value.trim().to_owned()),
            };
        }
        documents.push(document);
    }
    documents
}

#[test]
fn every_count_is_tsharks() {
    for path in real() {
        let file = plain(&path);
        let fields = [
            "dns.flags.response",
            "dns.flags.rcode",
            "udp.length",
            "dns.length",
            "ip.src",
            "ipv6.src",
            "frame.time_epoch",
        ];
        let filter = "dns and not icmp and not icmpv6 and (udp.port == 53 or tcp.port == 53)";
        let mut args = vec!["-r", file.path().to_str().unwrap(), "-n", "-Y", filter, "-T", "fields"];
        fields.iter().for_each(|name| args.extend(["-e", name]));
        let Some(text) = output("tshark", &args) else { return };
        let mut wanted: BTreeMap<String, u64> = BTreeMap::new();
        let mut sources: [BTreeSet<IpAddr>; 3] = Default::default();
        let mut days = BTreeSet::new();
        for line in text.lines() {
            let row: Vec<&str> = line.split('\t').collect();
            days.insert(row[6].split('.').next().unwrap().parse::<u64>().unwrap() / 86_400);
            let lengths: Vec<&str> =
                if row[2].is_empty() { row[3].split(',').collect() } else { vec![row[2]] };
            let (transport, header) = if row[2].is_empty() { ("tcp", 0) } else { ("udp", 8) };
            let address: IpAddr =
                if row[4].is_empty() { row[5] } else { row[4].split(',').next().unwrap() }.parse().unwrap();
            let version = if address.is_ipv4() { "ipv4" } else { "ipv6" };
            // An RCODE only in responses: those of several messages in a frame are responses here.
            let mut rcodes = row[1].split(',').filter(|code| !code.is_empty());
            for (response, length) in row[0].split(',').zip(lengths) {
                let size = length.parse::<u64>().unwrap() - header;
                let response = matches!(response, "1" | "True");
                let (kind, what, end) = if response {
                    ("response", "responses-sent", 4096)
                } else {
                    ("request", "queries-received", 288)
                };
                let mut count = |key: String| *wanted.entry(key).or_default() += 1;
                count(format!("dns-{transport}-{what}-{version}"));
                let from = size.min(end) / 16 * 16;
                let to = if from == end { String::new() } else { (from + 15).to_string() };
                count(format!("{transport}-{kind}-sizes/{from}-{to}"));
                if response {
                    count(rcodes.next().unwrap().to_owned());
                    continue;
                }
                sources[usize::from(address.is_ipv6())].insert(address);
                if let IpAddr::V6(a) = address {
                    sources[2].insert(Ipv6Addr::from_bits(a.to_bits() >> 64 << 64).into());
                }
            }
        }
        for (name, sources) in ["ipv4", "ipv6", "ipv6-aggregate"].iter().zip(&sources) {
            wanted.insert(format!("num-sources-{name}"), sources.len() as u64);
        }
        assert_eq!(days.len(), 1, "captures of one day");
        let ours = yaml(file.path(), 2);
        let documents = documents(&ours);
        let metrics: Vec<_> = documents.iter().map(|d| d["metric"].as_str()).collect();
        assert_eq!(metrics, ["traffic-volume", "traffic-sizes", "rcode-volume", "unique-sources"]);
        let head = ["version", "service", "start-period", "metric"];
        let got: BTreeMap<String, u64> = documents
            .into_iter()
            .flatten()
            .filter(|(key, value)| !head.contains(&key.as_str()) && value != "{}" && value != "0")
            .map(|(key, value)| (key, value.parse().unwrap()))
            .collect();
        wanted.retain(|_, n| *n > 0);
        assert_eq!(got, wanted, "{}", path.display());
        for threads in [1, 3, 7] {
            assert_eq!(yaml(file.path(), threads), ours);
        }
    }
}

/// A pcap of raw IP in nanoseconds, of packets at these seconds.
fn at_times(packets: &[(u32, Vec<u8>)]) -> Vec<u8> {
    let mut file =
        [&0xa1b2_3c4du32.to_be_bytes()[..], &[0, 2, 0, 4], &[0; 12], &RAW_IP.to_be_bytes()].concat();
    for (second, packet) in packets {
        let length = packet.len() as u32;
        file.extend([*second, 7, length, length].iter().flat_map(|field| field.to_be_bytes()));
        file.extend_from_slice(packet);
    }
    file
}

/// 2026-03-01T00:00:00Z.
const MIDNIGHT: u32 = 1_772_323_200;

fn two_days(folder: &Path) -> std::path::PathBuf {
    let mut badvers = message(4, true, "example");
    badvers[3] |= 5;
    let query = message(9, false, "over-tcp");
    let packets = [
        (MIDNIGHT - 60, udp(&message(1, false, "a"))),
        (MIDNIGHT - 1, udp6(&message(2, false, "b"))),
        (MIDNIGHT - 1, udp(&message(3, false, &"x".repeat(40)))),
        (MIDNIGHT, udp(&badvers)),
        (MIDNIGHT + 3, tcp(true, 100, "SA", 0, b"")),
        (MIDNIGHT + 3, tcp(true, 101, "A", 1, &framed(&query))),
        (MIDNIGHT + 3, udp6(&[&message(2, false, "b")[..], &[0; 400]].concat())),
        (MIDNIGHT + 100, udp(&[&message(1, true, "a")[..], &[0; 5000]].concat())),
    ];
    let path = folder.join("midnight.pcap");
    fs::write(&path, at_times(&packets)).unwrap();
    path
}

const TWO_DAYS: &str = "\
# Counted in captures; load-time and zone-size are not visible in them, and are left out.
---
# Not the whole day: the captures go from 2026-02-28T23:59:00Z to 2026-03-01T00:00:00Z.
version: rssac002v4
service: test.example
start-period: 2026-02-28T00:00:00Z
metric: traffic-volume
dns-udp-queries-received-ipv4: 2
dns-udp-queries-received-ipv6: 1
dns-tcp-queries-received-ipv4: 0
dns-tcp-queries-received-ipv6: 0
dns-udp-responses-sent-ipv4: 0
dns-udp-responses-sent-ipv6: 0
dns-tcp-responses-sent-ipv4: 0
dns-tcp-responses-sent-ipv6: 0
---
# Not the whole day: the captures go from 2026-02-28T23:59:00Z to 2026-03-01T00:00:00Z.
version: rssac002v4
service: test.example
start-period: 2026-02-28T00:00:00Z
metric: traffic-sizes
udp-request-sizes:
  16-31: 2
  48-63: 1
udp-response-sizes: {}
tcp-request-sizes: {}
tcp-response-sizes: {}
---
# Not the whole day: the captures go from 2026-02-28T23:59:00Z to 2026-03-01T00:00:00Z.
version: rssac002v4
service: test.example
start-period: 2026-02-28T00:00:00Z
metric: rcode-volume
---
# Not the whole day: the captures go from 2026-02-28T23:59:00Z to 2026-03-01T00:00:00Z.
version: rssac002v4
service: test.example
start-period: 2026-02-28T00:00:00Z
metric: unique-sources
num-sources-ipv4: 1
num-sources-ipv6: 1
num-sources-ipv6-aggregate: 1
---
# Not the whole day: the captures go from 2026-03-01T00:00:00Z to 2026-03-01T00:01:40Z.
version: rssac002v4
service: test.example
start-period: 2026-03-01T00:00:00Z
metric: traffic-volume
dns-udp-queries-received-ipv4: 0
dns-udp-queries-received-ipv6: 1
dns-tcp-queries-received-ipv4: 1
dns-tcp-queries-received-ipv6: 0
dns-udp-responses-sent-ipv4: 2
dns-udp-responses-sent-ipv6: 0
dns-tcp-responses-sent-ipv4: 0
dns-tcp-responses-sent-ipv6: 0
---
# Not the whole day: the captures go from 2026-03-01T00:00:00Z to 2026-03-01T00:01:40Z.
version: rssac002v4
service: test.example
start-period: 2026-03-01T00:00:00Z
metric: traffic-sizes
udp-request-sizes:
  288-: 1
udp-response-sizes:
  16-31: 1
  4096-: 1
tcp-request-sizes:
  16-31: 1
tcp-response-sizes: {}
---
# Not the whole day: the captures go from 2026-03-01T00:00:00Z to 2026-03-01T00:01:40Z.
version: rssac002v4
service: test.example
start-period: 2026-03-01T00:00:00Z
metric: rcode-volume
0: 1
5: 1
---
# Not the whole day: the captures go from 2026-03-01T00:00:00Z to 2026-03-01T00:01:40Z.
version: rssac002v4
service: test.example
start-period: 2026-03-01T00:00:00Z
metric: unique-sources
num-sources-ipv4: 1
num-sources-ipv6: 1
num-sources-ipv6-aggregate: 1
";

#[test]
fn each_day_has_its_documents() {
    let folder = tempfile::tempdir().unwrap();
    let path = two_days(folder.path());
    for threads in [1, 2, 5] {
        assert_eq!(yaml(&path, threads), TWO_DAYS);
    }
}

#[test]
fn yaml_reads_as_yaml() {
    let folder = tempfile::tempdir().unwrap();
    let path = two_days(folder.path());
    let facts = collect_rssac002(&[path], &[53], 1, &mut |_| {}).unwrap();
    let file = folder.path().join("report.yaml");
    fs::write(&file, facts.yaml("no: 'such' service")).unwrap();
    let script = "import json, sys, yaml\n\
                  print(json.dumps(list(yaml.safe_load_all(open(sys.argv[1]))), default=str))";
    let Ok(out) = Command::new("python3").args(["-c", script, file.to_str().unwrap()]).output() else {
        eprintln!("SKIPPED: no python3");
        return;
    };
    let error = String::from_utf8_lossy(&out.stderr);
    if error.contains("No module named 'yaml'") {
        eprintln!("SKIPPED: python3 has no yaml: pip install pyyaml");
        return;
    }
    assert!(out.status.success(), "{error}");
    let read: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
    let documents: Vec<_> = read.as_array().unwrap().iter().filter(|d| !d.is_null()).collect();
    assert_eq!(documents.len(), 8);
    for (n, document) in documents.iter().enumerate() {
        let metrics = ["traffic-volume", "traffic-sizes", "rcode-volume", "unique-sources"];
        assert_eq!(
            (&document["version"], &document["metric"]),
            (&"rssac002v4".into(), &metrics[n % 4].into())
        );
        assert_eq!(document["service"], "no: 'such' service");
        let day = if n < 4 { "2026-02-28 00:00:00+00:00" } else { "2026-03-01 00:00:00+00:00" };
        assert_eq!(document["start-period"], day);
    }
    assert_eq!(documents[0]["dns-udp-queries-received-ipv4"], 2);
    assert_eq!(documents[1]["udp-response-sizes"], serde_json::json!({}));
    assert_eq!(documents[5]["udp-response-sizes"]["4096-"], 1);
    assert_eq!(documents[5]["udp-request-sizes"]["288-"], 1);
    assert_eq!(documents[6]["5"], 1);
    assert_eq!(documents[7]["num-sources-ipv4"], 1);
}
