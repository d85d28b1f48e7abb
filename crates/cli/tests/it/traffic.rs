//! Query files checked by others: servers with the zone, asked by dnsperf; BIND's own list of a zone's records.

use crate::{has, output, stderr, stdout};
use server::{Kind, ServerSpec, ZoneRef};
use std::collections::BTreeMap;
use std::net::{TcpListener, UdpSocket};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

fn text(path: &Path) -> &str {
    path.to_str().expect("a path")
}

/// Runs it; its JSON object.
fn json(args: &[&str]) -> serde_json::Value {
    let got = output(&[&["--json"], args].concat());
    assert!(got.status.success(), "{args:?}: {}", stderr(&got));
    serde_json::from_slice(&got.stdout).expect("JSON")
}

fn zone(path: &Path) {
    json(&["zone", "generate", "--family", "S-6-DS50", "--delegations", "400", "-o", text(path)]);
}

/// A port free for UDP and TCP, below those that the kernel gives to clients.
fn port() -> u16 {
    let free = |&port: &u16| {
        UdpSocket::bind(("127.0.0.1", port)).is_ok() && TcpListener::bind(("127.0.0.1", port)).is_ok()
    };
    (8_000..9_900).find(free).expect("a free port")
}

#[test]
fn servers_answer_with_the_hits_and_misses_that_were_asked_for() {
    let folder = tempfile::tempdir().expect("a folder");
    let (file, queries) = (folder.path().join("zone"), folder.path().join("queries"));
    zone(&file);
    let asked = ["traffic", "generate", "rzaia", "--zone", text(&file), "-o", text(&queries)];
    let changes = ["--nonexistent", "1:3", "--types", "A=3,AAAA=1,DS=1", "--below", "1,2", "--count", "4000"];
    let made = json(&[&asked[..], &changes].concat());
    let misses = made["nonexistent"].as_u64().expect("a count");
    assert!((2800..3200).contains(&misses), "{misses} of 4000, expected 3 in 4");
    if !has("dnsperf") {
        return;
    }
    let host = rack::Host::loopback();
    for (kind, program) in [(Kind::NSD, "nsd"), (Kind::KNOT, "knotd")] {
        if !has(program) {
            continue;
        }
        let zone = ZoneRef { origin: ".".into(), file: file.clone(), signed: false };
        let spec = ServerSpec { port: port(), ..ServerSpec::new(kind, zone) };
        let probe = zone::probe(&file).expect("a zone");
        let dir = folder.path().join(program);
        let mut server = server::start(rack::Local, &host, &spec, &dir).unwrap_or_else(|e| panic!("{e}"));
        server.ready(&probe, Duration::from_secs(30)).unwrap_or_else(|e| panic!("{e}"));
        let got = Command::new("dnsperf")
            .args(["-s", "127.0.0.1", "-p", &spec.port.to_string(), "-n", "1", "-q", "20", "-d"])
            .arg(&queries)
            .output()
            .expect("dnsperf runs");
        server.stop().unwrap_or_else(|e| panic!("{e}"));
        let said = String::from_utf8_lossy(&got.stdout).into_owned();
        let codes = said.lines().find(|l| l.contains("Response codes:")).unwrap_or_else(|| panic!("{said}"));
        let expected = [format!("NOERROR {} (", 4000 - misses), format!("NXDOMAIN {misses} (")];
        assert!(expected.iter().all(|e| codes.contains(e)), "{program}: {codes}, expected {expected:?}");
    }
}

#[test]
fn nominets_step_lists_the_records_that_bind_lists() {
    if !has("named-compilezone") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let (file, queries) = (folder.path().join("zone"), folder.path().join("queries"));
    zone(&file);
    json(&["traffic", "generate", "nominet", "--zone", text(&file), "-o", text(&queries)]);
    let listed = Command::new("named-compilezone")
        .args(["-q", "-i", "none", "-k", "ignore", "-s", "full", "-o", "-", "."])
        .arg(&file)
        .output()
        .expect("named-compilezone runs");
    assert!(listed.status.success(), "{}", stderr(&listed));
    // The seed's awk '{ print $1 " " $4 }'; dnsperf takes names with and without their last dot.
    let count = |lines: &str, rtype: usize| {
        let mut counts: BTreeMap<String, u32> = BTreeMap::new();
        for line in lines.lines() {
            let words: Vec<&str> = line.split_ascii_whitespace().collect();
            let name = words[0].trim_end_matches('.').to_ascii_lowercase();
            *counts.entry(format!("{name} {}", words[rtype])).or_default() += 1;
        }
        counts
    };
    let ours = std::fs::read_to_string(&queries).expect("the queries");
    assert!(ours.lines().count() > 2000);
    assert_eq!(count(&ours, 1), count(&String::from_utf8_lossy(&listed.stdout), 3));
}

#[test]
fn names_come_from_several_weighted_lists() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name);
    std::fs::write(path("a"), "a1.example\na2.example\n").expect("space");
    std::fs::write(path("b"), "b1.example\nb2.example\nb3.example\n").expect("space");
    let (a, b, queries) = (format!("{}=2", text(&path("a"))), path("b"), path("queries"));
    let b = text(&b);
    let made = json(&["traffic", "generate", "nominet", "--names", &a, "--names", b, "-o", text(&queries)]);
    // In turns, two to one, until each name was asked for.
    let expected = "a1 b1 a2 a1 b2 a2 a1 b3";
    let asked = std::fs::read_to_string(&queries).expect("the queries");
    let asked: Vec<&str> = asked.lines().map(|line| &line[..2]).collect();
    assert_eq!(asked.join(" "), expected);
    let list = |n: usize, key: &str| made["lists"][n][key].clone();
    assert_eq!((list(0, "queries"), list(0, "weight"), list(0, "names")), (5.into(), 2.0.into(), 2.into()));
    assert_eq!((list(1, "queries"), list(1, "weight"), list(1, "names")), (3.into(), 1.0.into(), 3.into()));
    assert_eq!((&made["names"], &made["names_total"]), (&5.into(), &5.into()));
    let refused = |args: &[&str], code: i32, word: &str| {
        let got = output(args);
        assert_eq!(got.status.code(), Some(code), "{args:?}: {}", stderr(&got));
        assert!(stderr(&got).contains(word), "{}", stderr(&got));
    };
    refused(&["traffic", "generate", "rzaia", "-o", text(&queries)], 2, "[[names.list]]");
    refused(
        &["traffic", "generate", "rzaia", "--names", "b=x", "-o", text(&queries)],
        2,
        "'x' is not a weight",
    );
    refused(&["traffic", "generate", "rzaia", "--names", &a, "--names", b, "-o", b], 2, "overwritten");
    let load = ["load", "run", "127.0.0.1:9", "--rate", "1"];
    refused(&[&load[..], &["--queries", text(&queries), "--names", b]].concat(), 2, "are for --profile");
    refused(&[&load[..], &["--profile", "rzaia"]].concat(), 2, "[[names.list]]");
}

/// What querygen could be told (RZAIA, section 3.1), told to us and read back from the capture.
#[test]
fn queries_have_all_of_querygens_parameters() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name);
    let write = |name: &str, lines: &str| std::fs::write(path(name), lines).expect("space");
    write("names", "com\nnet\n");
    write("sources", "192.0.2.1 6\n198.51.100.9 3\n2001:db8::7\n");
    // A quarter each: between 0 and 100 us, up to 1,000, up to 2,000, and 2,000: the mean is 1,025 us.
    write("intervals", "0\n100\n1000\n2000\n2000\n");
    write(
        "p.toml",
        "about = \"p\"\n[types]\nA = 1\nMX = 3\n[packets]\nrd = 0.25\ndf = 0.5\nno-checksum = 0.1\nbad-checksum = 0.1\n\
         [edns]\nshare = 0.5\ndo = 0.25\nsizes = { 1232 = 1 }\n[clients.ports]\n53 = 1\n\
         [names.popular]\n\"com.\" = 0.8\n\"gone.\" = 0.1\n",
    );
    let (profile, names, sources, intervals) =
        (path("p.toml"), path("names"), path("sources"), path("intervals"));
    let capture = path("out.pcap");
    let asked = ["traffic", "generate", text(&profile), "--names", text(&names), "-o", text(&capture)];
    let more = [
        "--clients-file",
        text(&sources),
        "--arrivals",
        text(&intervals),
        "--rate",
        "2K",
        "--nonexistent",
        "0",
    ];
    let window = ["--at", "2026-08-20T04:00:00Z", "--end", "2026-08-20T04:00:10Z"];
    let made = json(&[&asked[..], &more, &window].concat());
    let begin = 1_787_198_400_000_000_000u64;
    let mut reader =
        trace::Reader::open(std::slice::from_ref(&capture), &trace::Options::default()).expect("a capture");
    let (mut times, mut counts) = (Vec::new(), BTreeMap::<&str, u64>::new());
    while let Some(message) = reader.next().expect("a capture") {
        times.push(message.at);
        let client = message.from.ip().to_string();
        let asked = wire::question::parse(message.bytes).expect("a question");
        assert_eq!(message.from.port(), 53);
        let more = &message.bytes[wire::question::end(message.bytes).expect("a question")..];
        for (what, is) in [
            ("192.0.2.1", client == "192.0.2.1"),
            ("198.51.100.9", client == "198.51.100.9"),
            ("2001:db8::7", client == "2001:db8::7"),
            ("com", asked.qname == b"\x03com\0"),
            ("MX", asked.qtype == wire::rtype::MX),
            ("RD", message.header().rd()),
            ("EDNS", !more.is_empty()),
            ("DO", more.get(7).is_some_and(|flags| flags & 0x80 != 0)),
        ] {
            *counts.entry(what).or_default() += u64::from(is);
        }
    }
    let n = times.len() as f64;
    // Of 10 s at 2,000 per second; the intervals are spread less than exponential ones.
    assert!((n - 20_000.0).abs() < 6.0 * n.sqrt(), "{n}");
    assert_eq!(made["queries"], times.len());
    assert!(times[0] >= begin && times[times.len() - 1] < begin + 10_000_000_000, "{times:?}");
    for (what, share) in [
        ("192.0.2.1", 0.6),
        ("198.51.100.9", 0.3),
        ("2001:db8::7", 0.1),
        ("com", 0.9),
        ("MX", 0.75),
        ("RD", 0.25),
        ("EDNS", 0.5),
        ("DO", 0.25),
    ] {
        let off = (counts[what] as f64 - n * share).abs();
        assert!(off <= 6.0 * (n * share * (1.0 - share)).sqrt(), "{what}: {counts:?} of {n}");
    }
    // Scaled to the rate: 500 us on average.
    let below = |us: f64| {
        let least = us * 1000.0 * 500.0 / 1025.0;
        times.windows(2).filter(|w| ((w[1] - w[0]) as f64) < least).count() as f64 / n
    };
    for (us, share) in [(50.0, 0.125), (100.0, 0.25), (550.0, 0.375), (1000.0, 0.5), (1500.0, 0.625)] {
        assert!((below(us) - share).abs() < 6.0 * (share * (1.0 - share) / n).sqrt(), "{us}: {}", below(us));
    }
    assert_eq!(made["popular_left_out"][0]["name"], "gone.");
    // An end is as good as a beginning.
    let last = ["--end", "2026-08-20T04:00:10Z", "--duration", "10s"];
    let before = std::fs::read(&capture).expect("a capture");
    json(&[&asked[..], &more, &window].concat());
    let again = std::fs::read(&capture).expect("a capture");
    json(&[&asked[..], &more, &last].concat());
    assert!(before == again && again == std::fs::read(&capture).expect("a capture"));
    let told = output(&[&asked[..], &more, &["--count", "10"]].concat());
    assert!(
        stdout(&told).contains("1 popular names that are not in the zone: left out"),
        "{}",
        stdout(&told)
    );
    for (args, word) in [
        (&["--end", "2026-08-20T04:00:10Z", "--count", "5"][..], "cannot be used with"),
        (&["--end", "2026-08-20T04:00:00Z", "--at", "2026-08-20T04:00:00Z"], "--end is not after --at"),
        (&["--clients", "5"], "cannot be used with"),
        (&["--end", "1970-01-01T00:00:05Z"], "before 1970"),
    ] {
        let got = output(&[&asked[..], &more, args].concat());
        assert_eq!(got.status.code(), Some(2), "{args:?}");
        assert!(stderr(&got).contains(word), "{}", stderr(&got));
    }
}

#[test]
fn a_profile_is_fitted_and_generates_its_like() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name);
    let (file, capture, profile, queries) = (path("zone"), path("a.pcap"), path("p.toml"), path("queries"));
    zone(&file);
    let made = json(&[
        "traffic",
        "generate",
        "rzaia",
        "--zone",
        text(&file),
        "--count",
        "20K",
        "-o",
        text(&capture),
    ]);
    let fit = ["trace", "fit", text(&capture), "--zone", text(&file), "-o", text(&profile)];
    let fitted = json(&fit);
    assert_eq!(fitted["schema"], "dnsrack.trace.fit/1");
    assert_eq!(
        (&fitted["sample"]["queries"], &fitted["sample"]["misses"]),
        (&made["queries"], &made["nonexistent"])
    );
    assert_eq!(fitted["warnings"][0]["code"], "clients_of_one_net");
    let share = |of: &serde_json::Value| of["edns"].as_u64().expect("a count") as f64 / 20e3;
    let classes = fitted["profile"]["class"].as_array().expect("classes");
    let edns: f64 = classes
        .iter()
        .map(|c| c["share"].as_f64().expect("a share") * c["edns"].as_f64().unwrap_or(0.0))
        .sum();
    assert!((edns - share(&made)).abs() < 1e-4, "{edns} {made}");
    assert_eq!(fitted["profile"]["arrivals"]["law"], "even");
    let again = json(&[
        "traffic",
        "generate",
        text(&profile),
        "--zone",
        text(&file),
        "--count",
        "20K",
        "-o",
        text(&queries),
    ]);
    assert!((share(&again) - share(&made)).abs() < 0.03, "{again}");
    let told = output(&fit);
    assert!(
        stderr(&told).contains("warning: all clients have addresses within 10.0.0.0/8"),
        "{}",
        stderr(&told)
    );
    assert!(stdout(&told).contains("profile of 20,000 queries, 5000.0 a second"), "{}", stdout(&told));
    let nothing = output(&["trace", "fit", text(&capture), "--port", "54", "-o", text(&path("none"))]);
    assert_eq!(nothing.status.code(), Some(1));
    assert!(
        stderr(&nothing).contains("no query to fit a profile to") && !path("none").exists(),
        "{}",
        stderr(&nothing)
    );
}
