//! Captures that we write, as tshark and capinfos read them; those that we read, beside tshark; replays.

mod captures;
mod edit;
mod facts;
mod files;
mod fit;
mod fragments;
mod fuzz;
mod import;
mod replay;
mod rows;
mod rssac002;
mod streams;
mod support;
mod transfers;

mod senders;

use measure::clock::SECOND;
use measure::{Arrivals, Seed};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::BufWriter;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use trace::write::{Route, SERVER_V4, SERVER_V6, Writer};
use traffic::clients::Clients;
use traffic::{Names, Profile, Query, QuerySource, Synthesis, Tally};

const COUNT: u64 = 20_000;

/// What a program prints; nothing, and loudly, where it is not installed.
fn output(program: &str, args: &[&str]) -> Option<String> {
    match Command::new(program).args(args).output() {
        Ok(out) => {
            assert!(out.status.success(), "{program}: {}", String::from_utf8_lossy(&out.stderr));
            Some(String::from_utf8(out.stdout).expect("ASCII output"))
        }
        Err(e) => {
            eprintln!("SKIPPED: {program} cannot be run ({e}): apt-get install tshark");
            None
        }
    }
}

/// A capture of the profile's queries at 5,000 a second, and what they were.
fn capture(path: &Path, profile: &Profile) -> Tally {
    let folder = tempfile::tempdir().unwrap();
    let list = folder.path().join("names");
    std::fs::write(&list, "com\nnet\norg\n").unwrap();
    let names = Arc::new(Names::from_file(&list, Seed(1)).unwrap().into());
    let mut source = Synthesis::new(profile, names, Seed(1), 0, 1).unwrap();
    let mut clients = Clients::new(profile, Seed(1)).unwrap();
    let mut writer = Writer::new(BufWriter::new(File::create(path).unwrap())).unwrap();
    let (mut query, mut tally) = (Query::default(), Tally::default());
    let mut times = Arrivals::Fixed { rate: 5000.0 }.times();
    for _ in 0..COUNT {
        assert!(source.next(&mut query).unwrap());
        tally.add(&query);
        let (from, id) = clients.get(&query);
        let to = if from.is_ipv4() { (SERVER_V4, 53).into() } else { (SERVER_V6, 53).into() };
        writer.write(1_000_000_000 * SECOND + times.next().unwrap(), Route { from, to, id }, &query).unwrap();
    }
    tally
}

/// The values of the fields, packet by packet.
fn fields(path: &Path, names: &[&str]) -> Option<Vec<Vec<String>>> {
    let path = path.to_str().unwrap();
    let mut args = vec![
        "-r",
        path,
        "-n",
        "-T",
        "fields",
        "-o",
        "udp.check_checksum:TRUE",
        "-o",
        "ip.check_checksum:TRUE",
    ];
    names.iter().for_each(|name| args.extend(["-e", name]));
    let text = output("tshark", &args)?;
    Some(text.lines().map(|line| line.split('\t').map(str::to_owned).collect()).collect())
}

/// tshark prints booleans as 0 and 1, newer ones as False and True.
fn truth(text: &str) -> bool {
    matches!(text, "1" | "True")
}

#[test]
fn tshark_counts_what_we_counted() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rzaia.pcap");
    let mut profile = Profile::load("rzaia").unwrap();
    // More of the rare kinds, so that a wrong count cannot hide.
    (profile.no_checksum, profile.bad_checksum) = (0.05, 0.03);
    let tally = capture(&path, &profile);
    let names = [
        "ip.flags.df",
        "udp.checksum",
        "udp.checksum.status",
        "dns.qry.type",
        "dns.rr.udp_payload_size",
        "dns.resp.z.do",
        "ip.checksum.status",
        "ip.dst",
        "udp.dstport",
        "dns.flags",
        "_ws.malformed",
    ];
    let Some(rows) = fields(&path, &names) else { return };
    // What a capture does not tell.
    let (nonexistent, lists) = (tally.nonexistent, tally.lists.clone());
    let mut seen = Tally { queries: rows.len() as u64, nonexistent, lists, ..Tally::default() };
    let mut wrong: BTreeMap<String, u64> = BTreeMap::new();
    for row in &rows {
        let [df, sum, status, qtype, size, do_bit, ip, to, port, flags, malformed] = &row[..] else {
            panic!("{row:?}")
        };
        seen.df += u64::from(truth(df));
        seen.no_checksum += u64::from(sum == "0x0000");
        seen.bad_checksum += u64::from(status == "0");
        *seen.types.entry(qtype.parse().unwrap()).or_default() += 1;
        if !size.is_empty() {
            seen.edns += 1;
            seen.do_bit += u64::from(truth(do_bit));
            *seen.edns_sizes.entry(size.parse().unwrap()).or_default() += 1;
        }
        if (&ip[..], &to[..], &port[..], &flags[..], &malformed[..])
            != ("1", "192.0.2.53", "53", "0x0000", "")
        {
            *wrong.entry(format!("{row:?}")).or_default() += 1;
        }
    }
    assert!(wrong.is_empty(), "{wrong:?}");
    assert_eq!(seen, tally);
}

#[test]
fn tshark_finds_both_families_right() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("both.pcap");
    let mut profile = Profile::load("isc").unwrap();
    (profile.classes[0].ipv6, profile.no_checksum) = (0.5, 0.5);
    capture(&path, &profile);
    let Some(rows) = fields(&path, &["ipv6.src", "ipv6.dst", "udp.checksum", "udp.checksum.status"]) else {
        return;
    };
    let v6: Vec<_> = rows.iter().filter(|row| !row[0].is_empty()).collect();
    assert!((9_500..10_500).contains(&v6.len()), "{}", v6.len());
    // IPv6 has no packets without a checksum: every one is right.
    assert!(
        v6.iter().all(|row| row[0].starts_with("fd53:c11e::") && row[1] == "2001:db8::53" && row[3] == "1")
    );
    assert!(rows.iter().filter(|row| row[0].is_empty()).any(|row| row[2] == "0x0000"));
}

#[test]
fn capinfos_finds_the_rate_and_nanoseconds() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("isc.pcap");
    capture(&path, &Profile::load("isc").unwrap());
    let Some(text) =
        output("capinfos", &["-M", "-T", "-r", "-t", "-E", "-c", "-u", "-a", "-S", path.to_str().unwrap()])
    else {
        return;
    };
    for part in ["nsecpcap", "ether", "20000", "1000000000.000000000", "3.999800000"] {
        assert!(text.contains(part), "{part} is not in {text}");
    }
}

#[test]
fn the_same_seed_gives_the_same_capture() {
    let folder = tempfile::tempdir().unwrap();
    let (a, b) = (folder.path().join("a"), folder.path().join("b"));
    let profile = Profile::load("rzaia").unwrap();
    assert_eq!(capture(&a, &profile), capture(&b, &profile));
    let a = std::fs::read(a).unwrap();
    assert!(a == std::fs::read(b).unwrap());
    // FNV-1a of the whole capture: pins addresses, ports, IDs, times and headers.
    let digest =
        a.iter().fold(0xcbf2_9ce4_8422_2325u64, |h, &b| (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3));
    assert_eq!(format!("{digest:016x}"), GOLDEN);
}

const GOLDEN: &str = "61dac1fecf39967e";
