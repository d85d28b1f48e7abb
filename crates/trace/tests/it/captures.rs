//! Real captures, as we read them and as tshark does.

use super::output;
use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;
use trace::{Options, Reader};

/// The captures beside the project, and loudly none where they are absent.
pub fn real() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/captures");
    let Ok(entries) = std::fs::read_dir(&folder) else {
        eprintln!("SKIPPED: no real captures in ../shared/data/captures");
        return Vec::new();
    };
    let mut paths: Vec<_> = entries.map(|e| e.expect("a readable folder").path()).collect();
    paths.retain(|p| p.to_str().is_some_and(|p| p.ends_with(".pcap") || p.ends_with(".pcap.xz")));
    paths.sort();
    paths
}

/// A capture without compression: tshark reads no xz.
pub fn plain(path: &Path) -> tempfile::NamedTempFile {
    let plain = tempfile::NamedTempFile::new().unwrap();
    let mut out = plain.reopen().unwrap();
    if path.extension().is_some_and(|e| e == "xz") {
        let xz = Command::new("xz").arg("-dc").arg(path).stdout(out).status();
        assert!(xz.expect("xz, of xz-utils").success());
    } else {
        std::io::copy(&mut File::open(path).unwrap(), &mut out).unwrap();
    }
    plain
}

/// Messages by (from, to, TCP, response, ID), and how often they occur; `None` where a field is not what it should be.
type Seen = BTreeMap<(String, String, bool, bool, u16), u64>;

fn ours(path: &Path) -> (Seen, Reader) {
    let mut reader = Reader::open(&[path.to_owned()], &Options::default()).unwrap();
    let mut seen = Seen::new();
    while let Some(m) = reader.next().unwrap() {
        let (from, to) =
            (format!("{} {}", m.from.ip(), m.from.port()), format!("{} {}", m.to.ip(), m.to.port()));
        *seen.entry((from, to, m.tcp.is_some(), m.header().qr(), m.header().id())).or_default() += 1;
    }
    (seen, reader)
}

/// What tshark sees: a row a frame, with the frame's messages.
fn theirs(path: &Path) -> Option<Seen> {
    let names = [
        "ip.src",
        "ip.dst",
        "ipv6.src",
        "ipv6.dst",
        "udp.srcport",
        "udp.dstport",
        "tcp.srcport",
        "tcp.dstport",
        "dns.flags.response",
        "dns.id",
    ];
    let filter = "dns and not icmp and not icmpv6 and (udp.port == 53 or tcp.port == 53)";
    let mut args = vec!["-r", path.to_str().unwrap(), "-n", "-Y", filter, "-T", "fields"];
    names.iter().for_each(|name| args.extend(["-e", name]));
    let mut seen = Seen::new();
    for line in output("tshark", &args)?.lines() {
        let row: Vec<&str> = line.split('\t').collect();
        let end = |ip: usize, port: usize| {
            let address = if row[ip].is_empty() { row[ip + 2] } else { row[ip] };
            let port = if row[port].is_empty() { row[port + 2] } else { row[port] };
            // Fragments make tshark tell an address as often as there are fragments.
            format!("{} {port}", address.split(',').next().unwrap())
        };
        for (response, id) in row[8].split(',').zip(row[9].split(',')) {
            let id = u16::from_str_radix(id.trim_start_matches("0x"), 16).unwrap();
            let response = matches!(response, "1" | "True");
            *seen.entry((end(0, 4), end(1, 5), !row[6].is_empty(), response, id)).or_default() += 1;
        }
    }
    Some(seen)
}

#[test]
fn we_see_the_messages_that_tshark_sees() {
    for path in real() {
        let (seen, reader) = ours(&path);
        let plain = plain(&path);
        let Some(tshark) = theirs(plain.path()) else { return };
        assert_eq!(seen, tshark, "{}", path.display());
        let messages: u64 = seen.values().sum();
        assert_eq!(reader.counts().queries + reader.counts().responses, messages);
        assert!(messages > 0, "{}", path.display());
    }
}

#[test]
fn what_is_skipped_is_counted() {
    let expected = |name: &str| match name {
        "nsd-live.pcap.xz" => vec![("ICMP packets that quote no DNS", 37), ("packets of other ports", 4)],
        "dns.pcap" | "vlan11.pcap" => {
            vec![("packets that are not IP", 10), ("ICMP packets that quote no DNS", 41)]
        }
        _ => vec![],
    };
    for path in real() {
        let (_, reader) = ours(&path);
        let skipped: Vec<_> = reader.skipped().iter().collect();
        assert_eq!(skipped, expected(path.file_name().unwrap().to_str().unwrap()), "{}", path.display());
    }
}
