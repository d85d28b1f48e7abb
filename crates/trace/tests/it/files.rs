//! Capture files in all their forms, and packets under all their links.

use super::support::{RAW_IP, Read, drain, message, pcap, read, udp, udp6};
use std::path::{Path, PathBuf};
use std::process::Command;
use trace::{Options, Reader};

fn packets(count: u16) -> Vec<Vec<u8>> {
    (0..count)
        .map(
            |id| if id % 2 == 0 { udp(&message(id, false, "even")) } else { udp6(&message(id, true, "odd")) },
        )
        .collect()
}

fn open(paths: &[&Path]) -> Result<Read, trace::read::Error> {
    let paths: Vec<PathBuf> = paths.iter().map(|p| p.to_path_buf()).collect();
    drain(Reader::open(&paths, &Options::default())?)
}

/// Runs a program that makes `out` of its standard input; false, and loudly, where it is not installed.
fn make(program: &str, args: &[&str], from: &Path, out: &Path) -> bool {
    let (from, out) = (std::fs::File::open(from).unwrap(), std::fs::File::create(out).unwrap());
    match Command::new(program).args(args).stdin(from).stdout(out).status() {
        Ok(status) => {
            assert!(status.success(), "{program}");
            true
        }
        Err(e) => {
            eprintln!("SKIPPED: {program} cannot be run ({e}): apt-get install {program}");
            false
        }
    }
}

/// The capture in the other byte order and with microseconds, as asked.
fn rewritten(capture: &[u8], little: bool, micros: bool) -> Vec<u8> {
    let field = |at: usize| u32::from_be_bytes(capture[at..at + 4].try_into().unwrap());
    let order = |n: u32| if little { n.to_le_bytes() } else { n.to_be_bytes() };
    let mut out = order(if micros { 0xa1b2_c3d4 } else { 0xa1b2_3c4d }).to_vec();
    (4..24).step_by(4).for_each(|at| out.extend(order(field(at))));
    let mut at = 24;
    while at < capture.len() {
        let part = field(at + 4) / if micros { 1000 } else { 1 };
        [field(at), part, field(at + 8), field(at + 12)].iter().for_each(|&n| out.extend(order(n)));
        let length = field(at + 8) as usize;
        out.extend_from_slice(&capture[at + 16..at + 16 + length]);
        at += 16 + length;
    }
    out
}

#[test]
fn byte_orders_and_resolutions_read_alike() {
    let capture = pcap(RAW_IP, &packets(50));
    let expected = read(&capture).unwrap();
    assert_eq!((expected.0.len(), expected.1.queries, expected.1.responses), (50, 25, 25));
    assert_eq!((expected.0[0].at, expected.0[49].at), (1_000_000_000, 1_049_000_000));
    for (little, micros) in [(false, true), (true, false), (true, true)] {
        assert_eq!(read(&rewritten(&capture, little, micros)).unwrap(), expected, "{little} {micros}");
    }
}

#[test]
fn compressed_captures_read_alike() {
    let folder = tempfile::tempdir().unwrap();
    let (plain, packed) = (folder.path().join("plain"), folder.path().join("packed"));
    // Names that do not compress well.
    let name = |n: u64| format!("{:x}", measure::Seed(n).draw("name", n).bits());
    let packets: Vec<_> = (0..5000).map(|n| udp(&message(n as u16, false, &name(n)))).collect();
    let capture = pcap(RAW_IP, &packets);
    let expected = read(&capture).unwrap();
    std::fs::write(&plain, &capture).unwrap();
    for (program, args) in [
        ("gzip", &["-c"][..]),
        ("zstd", &["-c", "-q"]),
        ("xz", &["-c"]),
        ("lz4", &["-c", "-q"]),
        ("lz4", &["-c", "-q", "-l"]),
    ] {
        if !make(program, args, &plain, &packed) {
            continue;
        }
        assert_eq!(open(&[&packed]).unwrap(), expected, "{program} {args:?}");
        // Cut near its end: the packets before it are read, and the damage is reported. A block of lz4 holds more than the whole file.
        let octets = std::fs::read(&packed).unwrap();
        std::fs::write(&packed, &octets[..octets.len() * 9 / 10]).unwrap();
        match open(&[&packed]) {
            Ok((all, _, skipped)) => {
                assert!(
                    all[..] == expected.0[..all.len()] && (1000..5000).contains(&all.len()),
                    "{program}: {}",
                    all.len()
                );
                assert_eq!(skipped.count("files that end within a packet"), 1, "{program} {args:?}");
            }
            Err(e) => assert!(
                program == "lz4" && e.to_string().contains("ends within its first 24 octets"),
                "{program}: {e}"
            ),
        }
    }
}

#[test]
fn files_that_were_put_together_read_as_one() {
    let folder = tempfile::tempdir().unwrap();
    let capture = pcap(RAW_IP, &packets(100));
    let expected = read(&capture).unwrap();
    let half = folder.path().join("half");
    for (program, args) in
        [("gzip", &["-c"][..]), ("zstd", &["-c", "-q"]), ("xz", &["-c"]), ("lz4", &["-c", "-q"])]
    {
        let (mut whole, packed) = (Vec::new(), folder.path().join(program));
        for part in [&capture[..1000], &capture[1000..]] {
            std::fs::write(&half, part).unwrap();
            if !make(program, args, &half, &packed) {
                continue;
            }
            whole.extend(std::fs::read(&packed).unwrap());
        }
        if !whole.is_empty() {
            assert_eq!(read(&whole).unwrap(), expected, "{program}");
        }
    }
}

#[test]
fn pcapng_reads_as_pcap() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let capture = pcap(RAW_IP, &packets(50));
    std::fs::write(path("a.pcap"), &capture).unwrap();
    let (a, ng) = (path("a.pcap"), path("a.pcapng"));
    if super::output("editcap", &["-F", "pcapng", &a, &ng]).is_none() {
        return;
    }
    let expected = read(&capture).unwrap();
    assert_eq!(open(&[Path::new(&ng)]).unwrap(), expected);
    // Sections of both files one after the other, each with an interface of its own.
    let twice = std::fs::read(&ng).unwrap().repeat(2);
    let (all, counts, skipped) = read(&twice).unwrap();
    assert_eq!((all.len(), counts.packets, skipped.is_empty()), (100, 100, true));
    for cut in [30, 200, twice.len() - 1] {
        let (all, _, skipped) = read(&twice[..cut]).unwrap();
        assert!(all.len() < 100);
        assert_eq!(skipped.count("files that end within a packet"), 1, "{cut}");
    }
}

/// A block of pcapng, big-endian.
fn block(kind: u32, body: &[u8]) -> Vec<u8> {
    let mut body = body.to_vec();
    body.resize(body.len().next_multiple_of(4), 0);
    let length = (body.len() as u32 + 12).to_be_bytes();
    [&kind.to_be_bytes()[..], &length, &body, &length].concat()
}

#[test]
fn pcapng_knows_resolutions_offsets_and_old_blocks() {
    let words = |words: &[u32]| words.iter().flat_map(|w| w.to_be_bytes()).collect::<Vec<u8>>();
    let packet = udp(&message(1, false, "a"));
    let length = packet.len() as u32;
    let section = block(0x0a0d_0d0a, &words(&[0x1a2b_3c4d, 0x0001_0000, u32::MAX, u32::MAX]));
    let interface = |options: &[u8]| block(1, &[&words(&[RAW_IP << 16, 0]), options].concat());
    // if_tsresol 2^-10, if_tsoffset 1000 s.
    let odd = [&[0, 9, 0, 1, 0x8a, 0, 0, 0, 0, 14, 0, 8, 0, 0, 0, 0, 0, 0, 3, 0xe8][..], &[0; 4]].concat();
    let enhanced = |interface: u32, ticks: u32| {
        block(6, &[words(&[interface, 0, ticks, length, length]), packet.clone()].concat())
    };
    let file = [
        section,
        interface(&[]),
        interface(&odd),
        enhanced(0, 1_500_000),
        enhanced(1, 1024 + 512),
        // Statistics, and what nobody knows.
        block(5, &[0; 20]),
        block(0x0bad_0bad, &[0; 8]),
        enhanced(2, 0),
        // The obsolete block, and the one without a time.
        block(2, &[words(&[0, 0, 2_000_000, length, length]), packet.clone()].concat()),
        block(3, &[words(&[length]), packet.clone()].concat()),
    ]
    .concat();
    let (all, counts, skipped) = read(&file).unwrap();
    let at: Vec<_> = all.iter().map(|m| m.at).collect();
    assert_eq!(at, [1_500_000_000, 1_001_500_000_000, 2_000_000_000, 2_000_000_000]);
    assert_eq!((counts.packets, counts.untimed), (5, 1));
    assert_eq!(
        skipped.iter().collect::<Vec<_>>(),
        [("packets of an interface that pcapng did not describe", 1)]
    );
}

#[test]
fn every_link_type_leads_to_the_same_messages() {
    let (v4, v6) = (udp(&message(1, false, "a")), udp6(&message(2, false, "b")));
    let ether = |tags: &[u8], kind: [u8; 2], ip: &[u8]| [&[2; 12], tags, &kind, ip].concat();
    let (four, six) = ([8, 0], [0x86, 0xdd]);
    let tag = [0x81, 0, 0, 11];
    let qinq = [0x88, 0xa8, 0, 5, 0x81, 0, 0, 11];
    let cooked = |kind: [u8; 2], ip: &[u8]| [&[0; 14], &kind[..], ip].concat();
    let cooked2 = |kind: [u8; 2], ip: &[u8]| [&kind[..], &[0; 18], ip].concat();
    let tagged2 = |kind: [u8; 2], ip: &[u8]| {
        [&[0x81, 0][..], &[0, 0, 8, 0, 8, 6], &[0; 12], &[0, 11], &kind, ip].concat()
    };
    let expected = read(&pcap(RAW_IP, &[v4.clone(), v6.clone()])).unwrap();
    assert_eq!(expected.0.len(), 2);
    for (link, a, b) in [
        (1, ether(&[], four, &v4), ether(&[], six, &v6)),
        (1, ether(&tag, four, &v4), ether(&qinq, six, &v6)),
        // Padding after the packet is no part of it.
        (1, [ether(&[], four, &v4), vec![0; 20]].concat(), [ether(&[], six, &v6), vec![7; 3]].concat()),
        (113, cooked(four, &v4), cooked(six, &v6)),
        (276, cooked2(four, &v4), cooked2(six, &v6)),
        (276, tagged2(four, &v4), tagged2(six, &v6)),
        (0, [&[2, 0, 0, 0], &v4[..]].concat(), [&[0, 0, 0, 30], &v6[..]].concat()),
        (108, [&[0, 0, 0, 2], &v4[..]].concat(), [&[0, 0, 0, 24], &v6[..]].concat()),
        (12, v4.clone(), v6.clone()),
    ] {
        assert_eq!(read(&pcap(link, &[a, b])).unwrap(), expected, "link type {link}");
    }
    let (all, _, skipped) = read(&pcap(147, &[v4])).unwrap();
    assert!(all.is_empty());
    assert_eq!(skipped.iter().collect::<Vec<_>>(), [("packets of a link type that is not known", 1)]);
}

#[test]
fn extension_headers_are_passed() {
    let plain = udp6(&message(2, false, "b"));
    let expected = read(&pcap(RAW_IP, std::slice::from_ref(&plain))).unwrap();
    let with = |first: u8, headers: &[u8]| {
        let mut packet = [&plain[..40], headers, &plain[40..]].concat();
        packet[6] = first;
        let length = (packet.len() - 40) as u16;
        packet[4..6].copy_from_slice(&length.to_be_bytes());
        packet
    };
    // Hop-by-hop, destination options of 16 octets, routing, an atomic fragment, authentication.
    let chain = [
        &[60, 0, 1, 4, 0, 0, 0, 0][..],
        &[43, 1, 1, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
        &[44, 0, 4, 0, 0, 0, 0, 0],
        &[51, 0, 0, 0, 0, 0, 0, 9],
        &[17, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
    ]
    .concat();
    assert_eq!(read(&pcap(RAW_IP, &[with(0, &chain)])).unwrap(), expected);
    // A chain that leads nowhere, and one without an end.
    let (_, _, skipped) =
        read(&pcap(RAW_IP, &[with(0, &[60, 200, 0, 0, 0, 0, 0, 0]), with(0, &[0; 160])])).unwrap();
    let expected =
        [("packets of other protocols than UDP, TCP and ICMP", 1), ("packets cut short by the capture", 1)];
    assert_eq!(skipped.iter().collect::<Vec<_>>(), expected);
}

#[test]
fn packets_that_were_cut_short_are_told_apart() {
    let packet = udp(&message(1, false, "a-name-of-some-length"));
    // Within the message after its header, within its header, within the UDP header, within the IP header.
    let cut: Vec<_> = [45, 30, 22, 10].iter().map(|&n| packet[..n].to_vec()).collect();
    let (all, counts, skipped) = read(&pcap(RAW_IP, &cut)).unwrap();
    assert_eq!((all.len(), counts.queries, counts.cut_short), (1, 1, 1));
    assert_eq!((all[0].bytes.len(), all[0].len), (45 - 28, packet.len() - 28));
    assert_eq!(skipped.iter().collect::<Vec<_>>(), [("packets cut short by the capture", 3)]);
}

#[test]
fn a_capture_cut_anywhere_gives_its_whole_packets() {
    let capture = pcap(RAW_IP, &packets(3));
    let whole = read(&capture).unwrap().0;
    for cut in 24..capture.len() {
        let (all, _, skipped) = read(&capture[..cut]).unwrap();
        assert_eq!(all[..], whole[..all.len()]);
        let between = [24, 24 + 16 + packets(1)[0].len(), 24 + 32 + packets(2).concat().len()].contains(&cut);
        assert_eq!(skipped.count("files that end within a packet"), u64::from(!between), "{cut}");
    }
}

#[test]
fn several_files_are_one_trace_by_time() {
    let folder = tempfile::tempdir().unwrap();
    let all = packets(60);
    let expected = read(&pcap(RAW_IP, &all)).unwrap();
    let record = |n: usize| {
        let file = pcap(RAW_IP, &all[..=n]);
        let before = pcap(RAW_IP, &all[..n]).len();
        file[before..].to_vec()
    };
    let file = |name: &str, which: &dyn Fn(usize) -> bool| {
        let path = folder.path().join(name);
        let records: Vec<u8> = (0..60).filter(|&n| which(n)).flat_map(record).collect();
        std::fs::write(&path, [pcap(RAW_IP, &[]), records].concat()).unwrap();
        path
    };
    // Two that overlap, one that follows them, one without a packet; in no order.
    let c = file("c", &|n| n >= 40);
    let a = file("a", &|n| n < 40 && n % 3 == 0);
    let none = file("none", &|_| false);
    let b = file("b", &|n| n < 40 && n % 3 != 0);
    assert_eq!(open(&[&c, &a, &none, &b]).unwrap(), expected);
}

#[test]
fn what_is_no_capture_is_refused_by_name_and_place() {
    let error = |bytes: &[u8]| read(bytes).unwrap_err().to_string();
    assert_eq!(error(b""), "memory: not a capture that can be read: it is empty");
    assert!(error(&[0xa1, 0xb2, 0xc3, 0xd4]).contains("ends within its first 24 octets"));
    assert!(error(&[7; 24]).contains("begins with 07070707: expected pcap or pcapng"));
    let mut long = pcap(RAW_IP, &packets(2));
    let second = 24 + 16 + packets(1)[0].len();
    long[second + 8] = 1;
    assert!(
        error(&long)
            .starts_with(&format!("memory: damaged at octet {second} (decompressed): a packet of 16777"))
    );
    let mut modified = pcap(RAW_IP, &[]);
    modified[..4].copy_from_slice(&0xa1b2_cd34u32.to_be_bytes());
    assert!(error(&modified).contains("editcap -F pcap"));
}
