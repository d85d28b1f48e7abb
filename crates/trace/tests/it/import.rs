//! Parquet files: every value of the real captures as tshark has it, every option of a made one, and how files are laid out.

use super::captures::{plain, real};
use super::output;
use super::support::{self, CLIENT, RAW_IP, SERVER};
use arrow::array::{ArrayRef, TimestampMicrosecondArray};
use arrow::datatypes::Int64Type;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use etherparse::PacketBuilder;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use std::collections::{BTreeMap, HashMap};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::slice::from_ref;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use trace::import::apart::{Event, Fault, Folder, MANIFEST, Outcome, Task, Worker};
use trace::import::{Error, SCHEMA, Spec, Summary, import};
use trace::rows::{Kind, columns};

/// A row: its columns as text, `NULL` where there is nothing.
type Row = HashMap<String, String>;

/// All files of a folder, in order.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut paths: Vec<_> = fs::read_dir(folder).unwrap().map(|e| e.unwrap().path()).collect();
    paths.sort();
    paths
}

fn rows(folder: &Path) -> Vec<Row> {
    let mut rows = Vec::new();
    for path in files(folder) {
        let reader = ParquetRecordBatchReaderBuilder::try_new(File::open(path).unwrap()).unwrap();
        let metadata = reader.metadata().file_metadata().key_value_metadata().unwrap();
        assert!(metadata.iter().any(|e| e.key == "dnsrack.schema" && e.value.as_deref() == Some(SCHEMA)));
        for batch in reader.build().unwrap() {
            let batch = batch.unwrap();
            let (schema, options) = (batch.schema(), FormatOptions::default().with_null("NULL"));
            // Timestamps as the microseconds that they are.
            let plain = |array: &ArrayRef| match array.as_any().downcast_ref::<TimestampMicrosecondArray>() {
                Some(times) => Arc::new(times.clone().reinterpret_cast::<Int64Type>()),
                None => array.clone(),
            };
            let arrays: Vec<ArrayRef> = batch.columns().iter().map(plain).collect();
            let columns: Vec<_> = schema
                .fields()
                .iter()
                .zip(&arrays)
                .map(|(field, array)| (field.name(), ArrayFormatter::try_new(array, &options).unwrap()))
                .collect();
            let row =
                |n| columns.iter().map(|(name, of)| ((*name).clone(), of.value(n).to_string())).collect();
            rows.extend((0..batch.num_rows()).map(row));
        }
    }
    rows
}

fn imported(captures: &[PathBuf], spec: &Spec) -> (Vec<Row>, Summary) {
    let folder = tempfile::tempdir().unwrap();
    let summary = import(captures, &folder.path().join("table"), spec, &mut |_| {}).unwrap();
    let rows = rows(&folder.path().join("table"));
    assert_eq!(rows.len() as u64, summary.rows);
    (rows, summary)
}

/// Fields of a frame with a DNS message, by tshark's names.
type Frame = HashMap<&'static str, String>;

const FIELDS: &[&str] = &[
    "frame.time_epoch",
    "ip.src",
    "ip.dst",
    "ipv6.src",
    "ipv6.dst",
    "udp.srcport",
    "udp.dstport",
    "udp.length",
    "udp.checksum.status",
    "tcp.srcport",
    "tcp.dstport",
    "tcp.stream",
    "ip.ttl",
    "ipv6.hlim",
    "ip.flags.df",
    "ip.fragment.count",
    "dns.length",
    "dns.id",
    "dns.flags",
    "dns.flags.response",
    "dns.flags.opcode",
    "dns.flags.authoritative",
    "dns.flags.truncated",
    "dns.flags.recdesired",
    "dns.flags.recavail",
    "dns.flags.z",
    "dns.flags.authenticated",
    "dns.flags.checkdisable",
    "dns.flags.rcode",
    "dns.count.queries",
    "dns.count.answers",
    "dns.count.auth_rr",
    "dns.count.add_rr",
    "dns.count.zones",
    "dns.count.prerequisites",
    "dns.count.updates",
    "dns.qry.name",
    "dns.qry.type",
    "dns.qry.class",
    "dns.rr.udp_payload_size",
    "dns.resp.edns0_version",
    "dns.resp.z.do",
    "dns.opt.code",
    "dns.opt.client.addr4",
    "dns.opt.client.netmask",
];

/// What tshark says of each message, where each is in a frame of its own.
fn frames(path: &Path) -> Option<Vec<Frame>> {
    let filter = "dns and not icmp and not icmpv6 and (udp.port == 53 or tcp.port == 53)";
    let mut args =
        vec!["-r", path.to_str().unwrap(), "-n", "-Y", filter, "-T", "fields", "-E", "aggregator=|"];
    args.extend(["-o", "udp.check_checksum:TRUE"]);
    FIELDS.iter().for_each(|name| args.extend(["-e", name]));
    let text = output("tshark", &args)?;
    let frame = |line: &str| -> Frame {
        let mut values: Vec<_> = line.split('\t').map(str::to_owned).collect();
        values.resize(FIELDS.len(), String::new());
        FIELDS.iter().copied().zip(values).collect()
    };
    Some(text.lines().map(frame).collect())
}

/// A number in decimal, `NULL` for none.
fn number(text: &str) -> String {
    match text.strip_prefix("0x") {
        _ if text.is_empty() => "NULL".into(),
        Some(hex) => u64::from_str_radix(hex, 16).unwrap().to_string(),
        None => text.parse::<u64>().unwrap().to_string(),
    }
}

fn flag(text: &str) -> String {
    match text {
        "" => "NULL".into(),
        text => matches!(text, "1" | "True").to_string(),
    }
}

fn nanos(epoch: &str) -> u64 {
    let (seconds, rest) = epoch.split_once('.').unwrap();
    seconds.parse::<u64>().unwrap() * 1_000_000_000 + format!("{rest:0<9}")[..9].parse::<u64>().unwrap()
}

/// A name as tshark writes it, from ours; nothing where it has octets that are not to be printed, which tshark shows in
/// ways of its own, or as others.
fn printable(ours: &str) -> Option<String> {
    if ours == "." {
        return Some("<Root>".into());
    }
    let mut out = String::new();
    let mut chars = ours.strip_suffix('.').unwrap_or(ours).chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next()? {
                c if c.is_ascii_digit() => {
                    let octet: u8 = String::from_iter([c, chars.next()?, chars.next()?]).parse().ok()?;
                    out.push(Some(octet).filter(|octet| matches!(octet, b' '..=b'~'))?.into());
                }
                c => out.push(c),
            },
            c => out.push(c),
        }
    }
    Some(out)
}

/// What both messages have in common, but for the question.
fn conversation(f: &Frame) -> [String; 6] {
    let mut ends = [("src", "srcport"), ("dst", "dstport")].map(|(address, port)| {
        let either = |a: String, b: String| {
            if f[a.as_str()].is_empty() { f[b.as_str()].clone() } else { f[a.as_str()].clone() }
        };
        (
            either(format!("ip.{address}"), format!("ipv6.{address}")),
            either(format!("udp.{port}"), format!("tcp.{port}")),
        )
    });
    if flag(&f["dns.flags.response"]) == "true" {
        ends.reverse();
    }
    let [(src, srcp), (dst, dstp)] = ends;
    [src, srcp, dst, dstp, f["tcp.stream"].clone(), number(&f["dns.id"])]
}

/// The row that a query and its answer should be, of the columns that tshark knows of.
fn expected(query: &Frame, answer: Option<&Frame>) -> Row {
    let mut row = Row::new();
    let mut put = |name: &str, value: String| assert!(row.insert(name.into(), value).is_none());
    let [src, srcp, dst, dstp, stream, id] = conversation(query);
    let tcp = !stream.is_empty();
    let length = |f: &Frame| match tcp {
        true => number(&f["dns.length"]),
        false => (f["udp.length"].parse::<u64>().unwrap() - 8).to_string(),
    };
    let ttl = |f: &Frame| number(if f["ip.ttl"].is_empty() { &f["ipv6.hlim"] } else { &f["ip.ttl"] });
    let df = |f: &Frame| if tcp { "NULL".into() } else { flag(&f["ip.flags.df"]) };
    put("ipv", if src.contains(':') { "6" } else { "4" }.into());
    put("prot", if tcp { "6" } else { "17" }.into());
    for (name, value) in [("src", src), ("srcp", srcp), ("dst", dst), ("dstp", dstp), ("id", id)] {
        put(name, value);
    }
    put("time_ns", nanos(&query["frame.time_epoch"]).to_string());
    put("ttl", ttl(query));
    put("req_len", length(query));
    put("req_ip_df", df(query));
    put("frag", number(&query["ip.fragment.count"]));
    put(
        "qname",
        if query["dns.qry.type"].is_empty() { "NULL".into() } else { query["dns.qry.name"].clone() },
    );
    // Of a query tshark tells RA and AD in the word of all flags alone.
    let flags = u16::from_str_radix(query["dns.flags"].trim_start_matches("0x"), 16).unwrap();
    for (name, bit) in
        [("q_tc", 0x200), ("rd", 0x100), ("q_ra", 0x80), ("z", 0x40), ("q_ad", 0x20), ("cd", 0x10)]
    {
        put(name, (flags & bit != 0).to_string());
    }
    let numbers = [
        ("opcode", "dns.flags.opcode"),
        ("qtype", "dns.qry.type"),
        ("qclass", "dns.qry.class"),
        ("edns_udp", "dns.rr.udp_payload_size"),
        ("edns_version", "dns.resp.edns0_version"),
    ];
    numbers.into_iter().for_each(|(name, field)| put(name, number(&query[field])));
    // Of an UPDATE they have other names.
    let either = |f: &Frame, names: [&str; 2]| {
        number(if f[names[0]].is_empty() { &f[names[1]] } else { &f[names[0]] })
    };
    put("qdcount", either(query, ["dns.count.queries", "dns.count.zones"]));
    put("edns_do", flag(&query["dns.resp.z.do"]));
    put(
        "edns_client_subnet",
        match query["dns.opt.client.addr4"].as_str() {
            "" => "NULL".into(),
            address => format!("{address}/{}", query["dns.opt.client.netmask"]),
        },
    );
    let known = ["5", "6", "7", "8", "12", "14"];
    let other: Vec<_> =
        query["dns.opt.code"].split('|').filter(|c| !c.is_empty() && !known.contains(c)).collect();
    put("edns_other", if other.is_empty() { "NULL".into() } else { other.join(",") });

    let from_answer = |get: &dyn Fn(&Frame) -> String| answer.map_or_else(|| "NULL".into(), get);
    for (name, field) in
        [("aa", "authoritative"), ("tc", "truncated"), ("ra", "recavail"), ("ad", "authenticated")]
    {
        put(name, from_answer(&|a| flag(&a[format!("dns.flags.{field}").as_str()])));
    }
    let numbers = [
        ("arcount", "dns.count.add_rr"),
        ("rcode", "dns.flags.rcode"),
        ("res_edns_udp", "dns.rr.udp_payload_size"),
        ("resp_frag", "ip.fragment.count"),
    ];
    numbers.into_iter().for_each(|(name, field)| put(name, from_answer(&|a| number(&a[field]))));
    put("ancount", from_answer(&|a| either(a, ["dns.count.answers", "dns.count.prerequisites"])));
    put("nscount", from_answer(&|a| either(a, ["dns.count.auth_rr", "dns.count.updates"])));
    put("res_edns_do", from_answer(&|a| flag(&a["dns.resp.z.do"])));
    put("res_len", from_answer(&length));
    put("res_ttl", from_answer(&ttl));
    put("res_ip_df", from_answer(&df));
    let at = |f: &Frame| nanos(&f["frame.time_epoch"]);
    put("res_time_ns", from_answer(&|a| at(a).to_string()));
    put("proc_time_ns", from_answer(&|a| (at(a) - at(query)).to_string()));
    put("proc_time", from_answer(&|a| ((at(a) - at(query)) / 1_000_000).to_string()));
    row
}

#[test]
fn every_value_is_tsharks() {
    let (mut compared, mut not_compared) = (0, 0);
    for path in real() {
        let file = plain(&path);
        let Some(frames) = frames(file.path()) else { return };
        if frames.iter().any(|f| f["dns.id"].contains('|')) {
            // Several messages in a frame, all of them answers without queries.
            let (rows, summary) = imported(&[path], &Spec::default());
            assert_eq!((rows.len(), summary.unsolicited), (0, 6));
            continue;
        }
        // By hand, and without a bound on time: the first query of the same conversation and question that has no answer.
        let mut pairs: Vec<(&Frame, Option<&Frame>)> = Vec::new();
        let mut waiting: HashMap<[String; 6], Vec<usize>> = HashMap::new();
        let mut unsolicited = 0;
        let question =
            |f: &Frame| [&f["dns.qry.name"], &f["dns.qry.type"], &f["dns.qry.class"]].map(String::clone);
        for frame in &frames {
            let open = waiting.entry(conversation(frame)).or_default();
            if flag(&frame["dns.flags.response"]) == "false" {
                open.push(pairs.len());
                pairs.push((frame, None));
                continue;
            }
            let asked = (!frame["dns.qry.type"].is_empty()).then(|| question(frame));
            let first =
                open.iter().position(|&n| asked.is_none() || asked.as_ref() == Some(&question(pairs[n].0)));
            match first {
                Some(at) => pairs[open.remove(at)].1 = Some(frame),
                None => unsolicited += 1,
            }
        }
        let (rows, summary) = imported(from_ref(&path), &Spec::default());
        assert_eq!((summary.rows, summary.unsolicited), (pairs.len() as u64, unsolicited));
        let key = |row: &Row| ["time_ns", "src", "srcp", "id"].map(|name| row[name].clone());
        let mut ours: BTreeMap<_, Vec<Row>> = BTreeMap::new();
        rows.into_iter().for_each(|row| ours.entry(key(&row)).or_default().push(row));
        for (query, answer) in pairs {
            let mut wanted = expected(query, answer);
            let got = ours.get_mut(&key(&wanted)).and_then(|rows| (!rows.is_empty()).then(|| rows.remove(0)));
            let got = got.unwrap_or_else(|| panic!("{}: no row for {query:?}", path.display()));
            let theirs = wanted.remove("qname").unwrap();
            if theirs == "<Name too long>" {
                // More than 255 octets: to us it is no name, nor what follows it a type (RFC 1035, section 2.3.4).
                for column in ["qname", "qtype", "qclass"] {
                    wanted.remove(column);
                    assert_eq!(got[column], "NULL");
                }
            }
            match printable(&got["qname"]) {
                _ if theirs == "<Name too long>" => {}
                Some(ours) => assert_eq!(ours, theirs, "{query:?}"),
                None => not_compared += 1,
            }
            for (column, value) in wanted {
                assert_eq!(got[&column], value, "{column} of {query:?}, {answer:?}");
                compared += 1;
            }
            // What must agree with the columns that were compared.
            assert_eq!(got["time"].parse::<u64>().unwrap(), got["time_ns"].parse::<u64>().unwrap() / 1000);
            assert_eq!(got["res_time"] == "NULL", got["rcode"] == "NULL");
        }
    }
    assert!(compared > 400_000 || real().is_empty(), "{compared}");
    assert!(not_compared < 400, "{not_compared} names are not to be printed");
}

/// A message from the client, or to it, in a packet of its own.
fn packet(up: bool, message: &[u8]) -> Vec<u8> {
    let (from, to) = if up { (CLIENT, SERVER) } else { (SERVER, CLIENT) };
    let mut packet = Vec::new();
    PacketBuilder::ipv4(from.0, to.0, 64).udp(from.1, to.1).write(&mut packet, message).unwrap();
    packet
}

/// A query or response with an OPT record that holds these options.
fn with_options(id: u16, response: bool, options: &[(u16, &[u8])]) -> Vec<u8> {
    let mut message = Vec::new();
    let edns = wire::query::Edns { udp_size: 1232, do_bit: true };
    wire::query::write(&mut message, id, b"\x03a.b\x02\xff!\x00", 28, Some(edns));
    let data: Vec<u8> = options
        .iter()
        .flat_map(|(code, data)| [&code.to_be_bytes()[..], &(data.len() as u16).to_be_bytes(), data].concat())
        .collect();
    let at = message.len() - 2;
    message[at..].copy_from_slice(&(data.len() as u16).to_be_bytes());
    message.extend_from_slice(&data);
    if response {
        wire::header::set_qr(&mut message);
    }
    message
}

fn capture(folder: &Path, packets: &[Vec<u8>]) -> PathBuf {
    let path = folder.join("capture.pcap");
    fs::write(&path, support::pcap(RAW_IP, packets)).unwrap();
    path
}

#[test]
fn every_option_has_its_column_and_no_answer_is_null() {
    let folder = tempfile::tempdir().unwrap();
    let mut badvers = with_options(1, true, &[(3, b"\x00\xfe"), (15, b"\x00\x16text"), (15, b"\x00\x17")]);
    // The upper bits of BADVERS.
    let rcode = badvers.windows(3).position(|w| w == [0, 0, 41]).unwrap() + 5;
    badvers[rcode] = 1;
    let formerr = vec![0, 2, 0x80, 1, 0, 0, 0, 0, 0, 0, 0, 0];
    let packets = [
        packet(
            true,
            &with_options(
                1,
                false,
                &[
                    (3, b""),
                    (5, &[8, 13]),
                    (6, &[2]),
                    (7, &[1]),
                    (8, &[0, 1, 24, 0, 198, 51, 100]),
                    (10, b"eightoct"),
                    (12, &[0; 9]),
                    (14, &[0x4a, 0x5c, 0x96, 0x43]),
                ],
            ),
        ),
        packet(false, &badvers),
        packet(true, &with_options(2, false, &[(8, &[0, 2, 32, 0, 0x20, 1, 0xd, 0xb8])])),
        packet(false, &formerr),
        packet(true, &with_options(3, false, &[(8, &[0, 1, 24, 0, 1, 2, 3, 4, 5])])),
        packet(false, &with_options(9, true, &[])),
        packet(true, &[&[0, 4, 1, 0, 0, 1][..], &[0; 6]].concat()),
        packet(false, &with_options(3, true, &[(3, b"ns1.example")])),
    ];
    let path = capture(folder.path(), &packets);
    let (rows, summary) = imported(&[path], &Spec::default());
    assert_eq!((summary.rows, summary.answered, summary.unanswered, summary.unsolicited), (4, 3, 1, 1));
    assert_eq!((summary.packets, summary.start_ns, summary.duration_s), (8, Some(1_000_000_000), 0.007));
    let column = |name: &str| rows.iter().map(|row| row[name].as_str()).collect::<Vec<_>>();
    assert_eq!(column("id"), ["1", "2", "3", "4"]);
    assert_eq!(column("qname"), ["a\\.b.\\255!.", "a\\.b.\\255!.", "a\\.b.\\255!.", "NULL"]);
    assert_eq!(column("labels"), ["2", "2", "2", "NULL"]);
    assert_eq!(column("rcode"), ["16", "1", "0", "NULL"]);
    assert_eq!(column("edns_nsid"), ["0x00fe", "NULL", "ns1.example", "NULL"]);
    assert_eq!(column("edns_ext_error"), ["22,23", "NULL", "NULL", "NULL"]);
    assert_eq!(column("edns_client_subnet"), ["198.51.100.0/24", "2001:db8::/32", "NULL", "NULL"]);
    assert_eq!(column("edns_dnssec_dau"), ["8,13", "NULL", "NULL", "NULL"]);
    assert_eq!(column("edns_dnssec_dhu")[0], "2");
    assert_eq!(column("edns_dnssec_n3u")[0], "1");
    assert_eq!(column("edns_padding"), ["9", "NULL", "NULL", "NULL"]);
    assert_eq!((column("edns_keytag_count")[0], column("edns_keytag_list")[0]), ("2", "19036,38467"));
    assert_eq!(column("edns_other"), ["3,10", "NULL", "NULL", "NULL"]);
    assert_eq!(column("time_ns"), ["1000000000", "1002000000", "1004000000", "1006000000"]);
    assert_eq!(column("time")[1], "1002000");
    assert_eq!(column("proc_time_ns"), ["1000000", "1000000", "3000000", "NULL"]);
    assert_eq!(column("proc_time"), ["1", "1", "3", "NULL"]);
    assert_eq!(column("req_checksum"), ["right"; 4]);
    let of_answer =
        ["aa", "tc", "ra", "ad", "ancount", "arcount", "nscount", "res_time", "res_time_ns", "res_len"];
    let of_answer =
        of_answer.iter().chain(&["resp_frag", "res_ttl", "res_ip_df", "res_checksum", "res_edns_udp"]);
    of_answer.for_each(|name| assert_eq!(rows[3][*name], "NULL", "{name}"));
}

/// A capture of so many queries, each with its answer.
fn many(folder: &Path, count: u16) -> PathBuf {
    let pair =
        |id| [packet(true, &with_options(id, false, &[])), packet(false, &with_options(id, true, &[]))];
    capture(folder, &(0..count).flat_map(pair).collect::<Vec<_>>())
}

#[test]
fn files_are_the_same_whatever_the_number_of_threads() {
    let folder = tempfile::tempdir().unwrap();
    let path = many(folder.path(), 1000);
    let mut first: Option<Vec<Vec<u8>>> = None;
    for threads in [1, 2, 5] {
        let table = folder.path().join(threads.to_string());
        let spec = Spec { threads, rows_per_group: 90, rows_per_file: 300, ..Spec::default() };
        let summary = import(from_ref(&path), &table, &spec, &mut |_| {}).unwrap();
        let paths = files(&table);
        // Three groups of 90 rows go into 300.
        let names: Vec<_> = paths.iter().map(|p| p.file_name().unwrap().to_str().unwrap()).collect();
        let wanted = ["part-00000.parquet", "part-00001.parquet", "part-00002.parquet", "part-00003.parquet"];
        assert_eq!(names, wanted);
        let ids: Vec<_> = rows(&table).iter().map(|row| row["id"].parse::<u64>().unwrap()).collect();
        assert_eq!(ids, (0..1000).collect::<Vec<_>>());
        let octets: Vec<_> = paths.iter().map(|p| fs::read(p).unwrap()).collect();
        assert_eq!(summary.octets, octets.iter().map(|o| o.len() as u64).sum::<u64>());
        assert_eq!((summary.files, summary.rows), (4, 1000));
        assert_eq!(first.get_or_insert_with(|| octets.clone()), &octets);
    }
}

#[test]
fn a_folder_in_use_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = many(folder.path(), 3);
    let run =
        |captures: &Path, table: &Path| import(&[captures.to_owned()], table, &Spec::default(), &mut |_| {});
    // Before anything is read: there is no such capture.
    let absent = folder.path().join("absent.pcap");
    let error = run(&absent, folder.path()).unwrap_err();
    assert!(matches!(error, Error::Occupied { .. }), "{error}");
    let error = run(&absent, &path).unwrap_err();
    assert!(matches!(error, Error::Occupied { .. }), "{error}");
    assert!(matches!(run(&absent, &folder.path().join("new")), Err(Error::Read(_))));
    assert!(matches!(run(&path, &folder.path().join("no/where")), Err(Error::Io { .. })));
    let broken = folder.path().join("broken.pcap");
    let mut octets = fs::read(&path).unwrap();
    octets[24 + 8] = 0xff;
    fs::write(&broken, octets).unwrap();
    assert!(matches!(run(&broken, &folder.path().join("new")), Err(Error::Read(_))));
    assert_eq!(files(folder.path()), [broken, path.clone()], "something was left");
    let empty = folder.path().join("empty");
    fs::create_dir(&empty).unwrap();
    assert_eq!(run(&path, &empty).unwrap().rows, 3);
    assert_eq!(rows(&empty).len(), 3);
}

#[test]
fn a_trace_without_queries_is_a_table_without_rows() {
    let folder = tempfile::tempdir().unwrap();
    let path = capture(folder.path(), &[packet(false, &with_options(1, true, &[]))]);
    let table = folder.path().join("table");
    let summary = import(&[path], &table, &Spec::default(), &mut |_| {}).unwrap();
    assert_eq!((summary.rows, summary.unsolicited, summary.files), (0, 1, 1));
    let reader = ParquetRecordBatchReaderBuilder::try_new(File::open(&files(&table)[0]).unwrap()).unwrap();
    let names: Vec<_> = reader.schema().fields().iter().map(|f| f.name().clone()).collect();
    assert_eq!(names, columns().map(|(name, ..)| name).collect::<Vec<_>>());
}

/// A worker that imports here; it is lost over captures of this name.
fn worker(lost_over: &str) -> Box<Worker<'_>> {
    Box::new(move |task: &Task, progress| {
        if task.capture.ends_with(lost_over) {
            return Err("it is gone".into());
        }
        Ok(task.run(&AtomicBool::new(false), progress).map_err(|e| e.to_string()))
    })
}

/// Has everything done that is to be done for these captures, and gives what came of it with what was told.
fn work(folder: &mut Folder, captures: &[PathBuf], workers: Vec<Box<Worker<'_>>>) -> (Outcome, Vec<String>) {
    let tasks = folder.tasks(captures).unwrap();
    let mut told = Vec::new();
    let mut tell = |event: Event<'_>| match event {
        Event::Progress { .. } => {}
        Event::Failed { capture, why } => told.push(format!("{}: {why}", capture.display())),
        Event::Lost { why } => told.push(why.to_owned()),
    };
    (folder.work(tasks, workers, &AtomicBool::new(false), &mut tell).unwrap(), told)
}

/// The counts of `many` captures, each in a folder of its own and with the same name.
fn of_the_same_name(folder: &Path, counts: &[u16]) -> Vec<PathBuf> {
    let one = |(n, &count): (usize, &u16)| {
        let place = folder.join(n.to_string());
        fs::create_dir(&place).unwrap();
        let path = place.join("a day.pcap");
        fs::rename(many(&place, count), &path).unwrap();
        path
    };
    counts.iter().enumerate().map(one).collect()
}

#[test]
fn captures_apart_go_on_where_they_were_cut_off_and_no_row_is_there_twice() {
    let place = tempfile::tempdir().unwrap();
    let captures = of_the_same_name(place.path(), &[50, 400, 30]);
    let (table, spec) = (place.path().join("table"), Spec { rows_per_group: 90, ..Spec::default() });
    let mut folder = Folder::open(&table, &spec, false).unwrap();
    // One that is named twice is read once.
    let twice = [&captures[..2], &captures[..1]].concat();
    let (outcome, told) = work(&mut folder, &twice, vec![worker("none"), worker("none")]);
    assert_eq!((outcome, told), (Outcome { imported: 2, ..Outcome::default() }, vec![]));
    let folders = ["capture=a%20day.pcap", "capture=1%2Fa%20day.pcap", "capture=2%2Fa%20day.pcap"];
    let as_alone = |folders: &[&str]| {
        for (folder, capture) in folders.iter().zip(&captures) {
            assert_eq!(rows(&table.join(folder)), imported(from_ref(capture), &spec).0, "{folder}");
        }
        let names =
            files(&table).into_iter().map(|path| path.file_name().unwrap().to_str().unwrap().to_owned());
        let mut wanted = [folders, &[MANIFEST]].concat();
        wanted.sort_unstable();
        assert_eq!(names.collect::<Vec<_>>(), wanted);
    };
    as_alone(&folders[..2]);
    // Hashes as another program has them.
    for done in folder.done() {
        let parts = done.files.iter().map(|part| (table.join(&done.folder).join(&part.name), &part.sha256));
        for (path, hash) in parts.chain([(done.capture.clone(), &done.sha256)]) {
            let said = Command::new("sha256sum").arg(&path).output().unwrap().stdout;
            assert!(
                String::from_utf8_lossy(&said).trim_start_matches('\\').starts_with(hash.as_str()),
                "{path:?}"
            );
        }
    }
    assert!(matches!(Folder::open(&table, &spec, true), Err(Error::Apart(Fault::AtWork { .. }))));
    drop(folder);
    assert!(matches!(Folder::open(&table, &spec, false), Err(Error::Apart(Fault::Begun { .. }))));
    let other = Spec { ports: vec![53, 5353], ..spec.clone() };
    assert!(matches!(Folder::open(&table, &other, true), Err(Error::Apart(Fault::OtherSettings { .. }))));
    // Cut off while a line was written, with a folder that has no line yet and one that is not whole.
    let manifest = table.join(MANIFEST);
    let text = fs::read(&manifest).unwrap();
    fs::write(&manifest, &text[..text.len() - 7]).unwrap();
    fs::create_dir(table.join(".dnsrack-x")).unwrap();
    let mut folder = Folder::open(&table, &spec, true).unwrap();
    assert_eq!(folder.tasks(&captures).unwrap().len(), 2, "one whose line is cut, and a new one");
    let (outcome, _) = work(&mut folder, &captures, vec![worker("none")]);
    assert_eq!(outcome, Outcome { imported: 2, ..Outcome::default() });
    as_alone(&folders);
    // Files that are gone are made again.
    fs::remove_file(table.join(folders[1]).join("part-00000.parquet")).unwrap();
    let (outcome, _) = work(&mut folder, &captures, vec![worker("none")]);
    assert_eq!(outcome.imported, 1);
    drop(folder);
    let folder = Folder::open(&table, &spec, true).unwrap();
    assert!(folder.tasks(&captures).unwrap().is_empty());
    as_alone(&folders);
    // A capture that is another one by now.
    let mut octets = fs::read(&captures[2]).unwrap();
    octets.extend_from_within(24..);
    fs::write(&captures[2], octets).unwrap();
    assert!(matches!(folder.tasks(&captures), Err(Error::Apart(Fault::Changed { .. }))));
    // A path that no line of the manifest could have.
    let odd = place.path().join(OsStr::from_bytes(b"\xff.pcap"));
    fs::copy(&captures[0], &odd).unwrap();
    assert!(matches!(folder.tasks(&[odd]), Err(Error::Apart(Fault::NotUtf8 { .. }))));
    // A line that is none.
    drop(folder);
    let text = fs::read_to_string(&manifest).unwrap();
    fs::write(&manifest, text.replacen("\"capture\":", "\"catpure\":", 1)).unwrap();
    let error = Folder::open(&table, &spec, true).unwrap_err().to_string();
    assert!(
        error.contains("_manifest.jsonl:2: no line of a manifest of this version: unknown field"),
        "{error}"
    );
}

#[test]
fn captures_of_workers_that_are_lost_are_read_by_others_until_three_are() {
    let place = tempfile::tempdir().unwrap();
    let captures = of_the_same_name(place.path(), &[10, 40, 20, 30]);
    let spec = Spec::default();
    let mut folder = Folder::open(&place.path().join("one"), &spec, false).unwrap();
    let (outcome, told) =
        work(&mut folder, &captures, vec![worker("1/a day.pcap"), worker("none"), worker("none")]);
    assert_eq!(outcome, Outcome { imported: 4, ..Outcome::default() });
    assert_eq!(folder.done().map(|done| done.summary.rows).sum::<u64>(), 100);
    assert!(told.len() <= 1, "{told:?}");
    // No worker survives one capture: that one fails, and the others are there.
    let mut folder = Folder::open(&place.path().join("two"), &spec, false).unwrap();
    let workers = || (0..4).map(|_| worker("1/a day.pcap")).collect();
    let (outcome, told) = work(&mut folder, &captures, workers());
    assert_eq!((outcome.imported, outcome.undone), (3, 0), "{told:?}");
    assert_eq!(outcome.failed.len(), 1);
    assert!(outcome.failed[0].why.starts_with("3 processes ended that read it"), "{outcome:?}");
    // Without a worker nothing is imported, and all captures are reported as undone.
    let mut folder = Folder::open(&place.path().join("three"), &spec, false).unwrap();
    let (outcome, _) = work(&mut folder, &captures, vec![worker("a day.pcap")]);
    assert_eq!((outcome.imported, outcome.undone), (0, 4));
}

/// Asks DuckDB: its rows as JSON; nothing, and loudly, where it is not installed.
fn duckdb(query: &str) -> Option<serde_json::Value> {
    let script = "import duckdb, json, sys\n\
                  rows = duckdb.sql(sys.argv[1]).fetchall()\n\
                  print(json.dumps(rows))";
    let out = Command::new("python3").args(["-c", script, query]).output().ok()?;
    let error = String::from_utf8_lossy(&out.stderr);
    if error.contains("No module named 'duckdb'") {
        eprintln!("SKIPPED: python3 has no duckdb: pip install duckdb");
        return None;
    }
    assert!(out.status.success(), "{error}");
    Some(serde_json::from_slice(&out.stdout).unwrap())
}

#[test]
fn duckdb_reads_the_same() {
    for path in real() {
        let folder = tempfile::tempdir().unwrap();
        let table = folder.path().join("table");
        import(&[path], &table, &Spec::default(), &mut |_| {}).unwrap();
        let from = format!("'{}/*.parquet'", table.display());
        let Some(described) = duckdb(&format!("DESCRIBE SELECT * FROM {from}")) else { return };
        let described: Vec<_> = described
            .as_array()
            .unwrap()
            .iter()
            .map(|row| (row[0].as_str().unwrap(), row[1].as_str().unwrap()))
            .collect();
        let wanted: Vec<_> = columns()
            .map(|(name, kind, _)| {
                let kind = match kind {
                    Kind::Int => "INTEGER",
                    Kind::Long => "BIGINT",
                    Kind::Bool => "BOOLEAN",
                    Kind::Time => "TIMESTAMP WITH TIME ZONE",
                    Kind::Text => "VARCHAR",
                };
                (name, kind)
            })
            .collect();
        assert_eq!(described, wanted);
        let texts: Vec<_> = columns()
            .map(|(name, kind, _)| match kind {
                Kind::Time => format!("coalesce(epoch_us({name})::VARCHAR, 'NULL')"),
                _ => format!("coalesce({name}::VARCHAR, 'NULL')"),
            })
            .collect();
        let theirs = duckdb(&format!("SELECT {} FROM {from}", texts.join(", "))).unwrap();
        let ours = rows(&table);
        let theirs = theirs.as_array().unwrap();
        assert_eq!(ours.len(), theirs.len());
        for (ours, theirs) in ours.iter().zip(theirs) {
            for (n, (name, _, required)) in columns().enumerate() {
                assert_eq!(theirs[n], ours[name].as_str(), "{name}");
                assert!(!required || ours[name] != "NULL", "{name}");
            }
        }
    }
}
