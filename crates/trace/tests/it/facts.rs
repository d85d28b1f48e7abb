//! Facts of real captures, counted by us and by tshark.

use super::captures::{plain, real};
use super::output;
use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use trace::facts::{Facts, Report, collect};

const SECOND: u64 = 1_000_000_000;

fn ours(path: &Path, threads: u32) -> Facts {
    collect(&[PathBuf::from(path)], &[53], SECOND, threads, &mut |_| {}).unwrap()
}

/// Rows of tshark's fields: of each frame the values of each field, in order.
fn rows(path: &Path, filter: &str, fields: &[&str]) -> Option<Vec<Vec<Vec<String>>>> {
    let mut args = vec!["-r", path.to_str().unwrap(), "-n", "-Y", filter, "-T", "fields"];
    args.extend(["-o", "udp.check_checksum:TRUE", "-o", "tcp.analyze_sequence_numbers:TRUE"]);
    fields.iter().for_each(|name| args.extend(["-e", name]));
    let split = |cell: &str| cell.split(',').filter(|v| !v.is_empty()).map(str::to_owned).collect();
    let row = |line: &str| {
        let mut row: Vec<Vec<String>> = line.split('\t').map(split).collect();
        row.resize(fields.len(), Vec::new());
        row
    };
    Some(output("tshark", &args)?.lines().map(row).collect())
}

const DNS: &str = "dns and not icmp and not icmpv6 and (udp.port == 53 or tcp.port == 53)";

fn counted(rows: &[Vec<Vec<String>>], field: usize) -> BTreeMap<String, u64> {
    let mut counts = BTreeMap::new();
    rows.iter().flat_map(|row| &row[field]).for_each(|v| *counts.entry(v.clone()).or_default() += 1);
    counts
}

/// A number as tshark writes it: decimal, or hexadecimal with 0x.
fn number(text: &str) -> u64 {
    text.strip_prefix("0x").map_or_else(|| text.parse(), |hex| u64::from_str_radix(hex, 16)).unwrap()
}

fn by_number<V>(counts: BTreeMap<String, V>) -> BTreeMap<u64, V> {
    counts.into_iter().map(|(key, n)| (number(&key), n)).collect()
}

fn is_set(text: &str) -> bool {
    matches!(text, "1" | "True")
}

#[test]
fn we_count_what_tshark_counts() {
    for path in real() {
        let file = plain(&path);
        let (path, facts) = (file.path(), ours(file.path(), 2));
        let report = facts.report();
        let fields = [
            "dns.flags.opcode",
            "dns.qry.type",
            "dns.rr.udp_payload_size",
            "dns.resp.z.do",
            "ip.flags.df",
            "udp.checksum.status",
            "dns.flags.recdesired",
            "dns.qry.name",
        ];
        let Some(queries) = rows(path, &format!("{DNS} and dns.flags.response == 0"), &fields) else {
            return;
        };
        let total = |field: usize| queries.iter().map(|row| row[field].len() as u64).sum::<u64>();
        assert_eq!(report.queries, total(0));
        let opcodes: BTreeMap<u64, u64> =
            (0u64..).zip(facts.queries.opcodes).filter(|&(_, n)| n > 0).collect();
        assert_eq!(opcodes, by_number(counted(&queries, 0)));
        let mut types: BTreeMap<u64, u64> = BTreeMap::new();
        for (&asked, a) in &facts.types {
            // What has no question is nothing to tshark.
            asked.into_iter().for_each(|(_, kind)| *types.entry(kind.into()).or_default() += a.count);
        }
        // tshark reads on behind a name of more than 255 octets, which is none to us (RFC 1035, section 2.3.4).
        let asked: Vec<_> = queries.iter().filter(|r| r[7] != ["<Name too long>"]).cloned().collect();
        assert_eq!(types, by_number(counted(&asked, 1)));
        assert_eq!(report.edns.present, total(2));
        let sizes: BTreeMap<u64, u64> = report.edns.sizes.iter().map(|(&s, &n)| (s.into(), n)).collect();
        assert_eq!(sizes, by_number(counted(&queries, 2)));
        let set =
            |field: usize| queries.iter().flat_map(|row| &row[field]).filter(|v| is_set(v)).count() as u64;
        assert_eq!((report.edns.do_bit, report.recursive.count), (set(3), set(6)));
        // Fragments make several of one bit, of which we take any.
        let df = |row: &&Vec<Vec<String>>| !row[5].is_empty() && row[4].iter().any(|v| is_set(v));
        assert_eq!(report.df, queries.iter().filter(df).count() as u64);

        let fields = ["dns.flags.rcode", "dns.flags.truncated", "dns.flags.authoritative", "dns.time"];
        let answers = rows(path, &format!("{DNS} and dns.flags.response == 1"), &fields).unwrap();
        let total = |field: usize| answers.iter().map(|row| row[field].len() as u64).sum::<u64>();
        assert_eq!(report.responses, total(0));
        let rcodes: BTreeMap<u64, u64> =
            facts.responses.rcodes.iter().map(|(&c, s)| (u64::from(c & 15), s.count())).collect();
        assert_eq!(rcodes, by_number(counted(&answers, 0)));
        let set =
            |field: usize| answers.iter().flat_map(|row| &row[field]).filter(|v| is_set(v)).count() as u64;
        assert_eq!((report.truncated, report.authoritative), (set(1), set(2)));
        // tshark takes a query that was sent again for the first one, whose answer it has already: it pairs those less.
        let paired = report.responses - report.unsolicited;
        assert!(paired >= total(3) && paired - total(3) <= 20, "{paired} {}", total(3));
        // Its latencies are those of ours that it has.
        let mut latency: Vec<f64> =
            answers.iter().flat_map(|row| &row[3]).map(|v| v.parse::<f64>().unwrap() * 1e6).collect();
        latency.sort_by(f64::total_cmp);
        if let Some(&median) = latency.get(latency.len().saturating_sub(1) / 2) {
            let off = (report.latency_us.all.p50 - median).abs();
            assert!(off <= median * 0.002 + 1.0, "{} {median}", report.latency_us.all.p50);
        }

        checksums(path, &report);
        connections(path, &facts, &report);
        errors(path, &report);
        retries(path, &report);
    }
}

/// tshark: 0 bad, 1 good, 2 not verified, 3 absent.
fn checksums(path: &Path, report: &Report) {
    let rows = rows(path, DNS, &["udp.checksum.status", "dns.flags.response"]).unwrap();
    let mut theirs: BTreeMap<(&str, u64), u64> = BTreeMap::new();
    for row in rows.iter().filter(|row| !row[0].is_empty()) {
        let side = if is_set(&row[1][0]) { "responses" } else { "queries" };
        *theirs.entry((side, number(&row[0][0]))).or_default() += 1;
    }
    for (side, states) in [("queries", &report.checksums.queries), ("responses", &report.checksums.responses)]
    {
        use trace::ChecksumState::{Absent, Bad, Offloaded, Right, Unknown};
        let ours = |state| states.get(&state).copied().unwrap_or(0);
        let theirs = |status| theirs.get(&(side, status)).copied().unwrap_or(0);
        let got = [ours(Bad) + ours(Offloaded), ours(Right), ours(Unknown), ours(Absent)];
        assert_eq!(got, [0, 1, 2, 3].map(theirs), "{side} of {}", path.display());
    }
}

fn connections(path: &Path, facts: &Facts, report: &Report) {
    let fields = ["tcp.stream", "tcp.len", "tcp.flags.fin", "tcp.flags.reset", "tcp.srcport", "dns.id"];
    let rows = rows(path, "tcp.port == 53 and not icmp and not icmpv6", &fields).unwrap();
    #[derive(Default)]
    struct Stream {
        octets: u64,
        /// From port 53, and from elsewhere.
        fin: [bool; 2],
        reset: bool,
        dns: u64,
    }
    let mut streams: BTreeMap<u64, Stream> = BTreeMap::new();
    for row in &rows {
        let stream = streams.entry(number(&row[0][0])).or_default();
        stream.octets += number(&row[1][0]);
        stream.fin[usize::from(row[4][0] == "53")] |= is_set(&row[2][0]);
        stream.reset |= is_set(&row[3][0]);
        stream.dns += row[5].len() as u64;
    }
    let count = |which: &dyn Fn(&Stream) -> bool| streams.values().filter(|s| which(s)).count() as u64;
    assert_eq!(report.tcp.packets, rows.len() as u64);
    assert_eq!(report.tcp.connections, streams.len() as u64);
    assert_eq!(report.tcp.with_dns, count(&|s| s.dns > 0));
    assert_eq!(report.tcp.no_op, count(&|s| s.octets == 0));
    assert_eq!(report.tcp.unclosed, count(&|s| !s.reset && s.fin != [true; 2]));
    assert_eq!(report.tcp.reset, count(&|s| s.reset));
    let messages: u64 = facts.tcp.messages.iter().map(|(messages, n)| messages * n).sum();
    assert_eq!(messages, streams.values().map(|s| s.dns).sum::<u64>());
}

fn errors(path: &Path, report: &Report) {
    // Both the error's and the quoted packet's ports are seen: those of the latter alone, as ICMP has none.
    let filter = "(icmp.type == 3 or icmp.type == 11 or icmpv6.type in {1 .. 4}) and (udp.port == 53 or tcp.port == 53)";
    let rows = rows(path, filter, &["icmp.type", "icmp.code", "icmpv6.type", "icmpv6.code"]).unwrap();
    let mut theirs: BTreeMap<String, u64> = BTreeMap::new();
    for row in rows {
        let (version, at) = if row[0].is_empty() { (6, 2) } else { (4, 0) };
        *theirs.entry(format!("ICMPv{version} {}/{}", row[at][0], row[at + 1][0])).or_default() += 1;
    }
    let mut ours: BTreeMap<String, u64> = BTreeMap::new();
    for (what, n) in &report.icmp {
        *ours.entry(what.splitn(3, ' ').take(2).collect::<Vec<_>>().join(" ")).or_default() += n;
    }
    assert_eq!(ours, theirs, "{}", path.display());
}

/// RZAIA's figure 6.11 by hand: truncated answers over UDP, and queries over TCP for the same from the same client.
fn retries(path: &Path, report: &Report) {
    let fields = [
        "frame.time_epoch",
        "ip.src",
        "ipv6.src",
        "ip.dst",
        "ipv6.dst",
        "dns.flags.response",
        "dns.flags.truncated",
        "tcp.stream",
        "dns.qry.name",
        "dns.qry.type",
    ];
    let mut truncated: HashMap<([IpAddr; 2], String, String), Vec<f64>> = HashMap::new();
    let mut retried = 0;
    for row in rows(path, DNS, &fields).unwrap() {
        let at: f64 = row[0][0].parse().unwrap();
        let end = |at: usize| -> IpAddr { row[at].first().or(row[at + 1].first()).unwrap().parse().unwrap() };
        let (Some(name), Some(kind)) = (row[8].first(), row[9].first()) else { continue };
        let (name, kind) = (name.to_lowercase(), kind.clone());
        let response = is_set(&row[5][0]);
        if response && row[7].is_empty() && is_set(&row[6][0]) {
            truncated.entry(([end(3), end(1)], name, kind)).or_default().push(at);
        } else if !response && !row[7].is_empty() {
            let Some(before) = truncated.get_mut(&([end(1), end(3)], name, kind)) else { continue };
            before.retain(|before| at - before <= 10.0);
            retried += u64::from(!before.is_empty());
            before.drain(..before.len().min(1));
        }
    }
    assert_eq!(report.truncated_then_tcp, retried, "{}", path.display());
}

#[test]
fn the_facts_are_the_same_whatever_the_number_of_threads() {
    for path in real() {
        let one = serde_json::to_value(ours(&path, 1).report()).unwrap();
        for threads in [2, 3, 7] {
            assert_eq!(
                serde_json::to_value(ours(&path, threads).report()).unwrap(),
                one,
                "{}",
                path.display()
            );
        }
    }
}

#[test]
fn octets_are_those_that_tshark_reads_in_ip_headers() {
    for path in real() {
        let file = plain(&path);
        let Some(rows) = rows(file.path(), "ip or ipv6", &["ip.len", "ipv6.plen"]) else { return };
        // What an error quotes, or a tunnel carries, comes after the packet's own.
        let own = |row: &Vec<Vec<String>>| match (row[0].first(), row[1].first()) {
            (Some(length), _) => number(length),
            (None, length) => 40 + number(length.expect("one of both")),
        };
        let (packets, expected) = (rows.len() as u64, rows.iter().map(own).sum::<u64>());
        let (mut count, mut sum) = (0, 0);
        trace::octets::packets(&[file.path().to_owned()], &mut |packet| {
            count += 1;
            sum += packet.octets;
        })
        .unwrap();
        assert_eq!((count, sum), (packets, expected), "{}", path.display());
    }
}
