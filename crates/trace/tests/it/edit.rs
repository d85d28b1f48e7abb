//! Edited traces, as we read them and as tshark, tcpdump and tcprewrite do.

use super::captures::real;
use super::output;
use super::support::{self, CLIENT, Owned, RAW_IP, SERVER, framed, message, pcap, tcp, udp, udp6};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{Cursor, Read};
use std::net::IpAddr;
use std::path::Path;
use trace::anonymize::{Anonymizer, Key};
use trace::edit::{Edit, Input, Kind, Output, Summary, When};
use trace::{Options, Reader};

/// The octets of a file, decompressed where it is of xz.
fn octets(path: &Path) -> Vec<u8> {
    let mut octets = Vec::new();
    let file = std::fs::File::open(path).unwrap();
    if path.extension().is_some_and(|e| e == "xz") {
        liblzma::read::XzDecoder::new(file).read_to_end(&mut octets).unwrap();
    } else {
        std::io::BufReader::new(file).read_to_end(&mut octets).unwrap();
    }
    octets
}

pub fn edited(edit: &Edit, capture: &[u8]) -> (Vec<u8>, Summary) {
    let mut out = Vec::new();
    let input = Input::From(Box::new(Cursor::new(capture.to_vec())));
    let summary = edit.run(input, Output::One(&mut out), &mut |_| {}).unwrap();
    (out, summary)
}

fn messages(capture: &[u8]) -> Vec<Owned> {
    support::read(capture).unwrap().0
}

fn anonymous() -> Edit {
    Edit { anonymize: Some(Key::new([7; 32])), ..Edit::default() }
}

fn readdressed() -> Edit {
    Edit {
        set_dst_v4: Some("192.0.2.53".parse().unwrap()),
        set_dst_v6: Some("2001:db8::53".parse().unwrap()),
        set_src_nets: ["10.0.0.0/8", "fd00::/64"].map(|net| net.parse().unwrap()).into(),
        set_mac: Some(([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2])),
        ..Edit::default()
    }
}

/// Everything, but message by message.
fn by_message(edit: Edit) -> Edit {
    Edit { if_query: true, if_response: true, ..edit }
}

fn is_response(m: &Owned) -> bool {
    m.bytes[2] & 0x80 != 0
}

/// What of messages stays when their addresses change.
fn content(messages: &[Owned]) -> Vec<(u64, bool, bool, usize, Vec<u8>)> {
    let part = |m: &Owned| (m.at, m.tcp.is_some(), is_response(m), m.len, m.bytes.clone());
    messages.iter().map(part).collect()
}

/// New addresses for old: one for one.
fn pairs(before: &[Owned], after: &[Owned]) -> BTreeMap<IpAddr, IpAddr> {
    let mut pairs = BTreeMap::new();
    for (a, b) in before.iter().zip(after) {
        for (old, new) in [(a.from, b.from), (a.to, b.to)] {
            assert_eq!(old.port(), new.port());
            assert_eq!(*pairs.entry(old.ip()).or_insert(new.ip()), new.ip(), "{old}");
        }
    }
    pairs
}

/// Frames with sums that tshark finds wrong: of IPv4 headers, UDP, TCP. ICMP quotes packets with sums that nobody sees
/// whole.
fn wrong(capture: &[u8]) -> Option<BTreeMap<String, u64>> {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), capture).unwrap();
    let fields = ["ip", "udp", "tcp"].map(|p| format!("{p}.checksum.status"));
    let checks = ["ip", "udp", "tcp"].map(|p| format!("{p}.check_checksum:TRUE"));
    let mut args =
        vec!["-r", file.path().to_str().unwrap(), "-n", "-Y", "not icmp and not icmpv6", "-T", "fields"];
    checks.iter().for_each(|check| args.extend(["-o", check]));
    fields.iter().for_each(|field| args.extend(["-e", field]));
    let mut wrong = BTreeMap::new();
    for line in output("tshark", &args)?.lines() {
        for (name, _) in fields.iter().zip(line.split('\t')).filter(|(_, status)| *status == "0") {
            *wrong.entry(name.clone()).or_default() += 1;
        }
    }
    Some(wrong)
}

/// All sums are right; but fragments, of which the capture has some that were never right, stay as they are where they
/// are not put together.
fn assert_sums(path: &Path, edit: &Edit, after: &[u8]) {
    let fragments = path.ends_with("frags.pcap") && !edit.is_by_message();
    let expected = fragments.then(|| ("udp.checksum.status".to_owned(), 41)).into_iter().collect();
    assert!(wrong(after).is_none_or(|wrong| wrong == expected), "{}: {:?}", path.display(), wrong(after));
}

#[test]
fn without_flags_packets_stay_as_they_are() {
    for path in real() {
        let before = octets(&path);
        for kind in [Kind::Pcap, Kind::Pcapng] {
            let (after, summary) = edited(&Edit { kind, keep_checksums: true, ..Edit::default() }, &before);
            assert_eq!((summary.written, summary.dropped.total()), (summary.read, 0));
            assert_eq!(summary.bytes, after.len() as u64);
            assert!(messages(&before) == messages(&after), "{}", path.display());
            let packets = |capture: &[u8]| {
                let file = tempfile::NamedTempFile::new().unwrap();
                std::fs::write(file.path(), capture).unwrap();
                let tcpdump =
                    output("tcpdump", &["-r", file.path().to_str().unwrap(), "-nn", "-tttt", "-xx"]);
                // Microseconds are not told as nanoseconds.
                tcpdump.map(|text| text.lines().filter(|l| l.starts_with('\t')).collect::<String>())
            };
            assert!(packets(&before) == packets(&after), "{}", path.display());
        }
    }
}

#[test]
fn readdressing_keeps_messages_and_structure() {
    for path in real() {
        let before = octets(&path);
        let old = messages(&before);
        for edit in [readdressed(), by_message(readdressed())] {
            let (after, summary) = edited(&edit, &before);
            let new = messages(&after);
            assert_eq!(content(&old), content(&new), "{}", path.display());
            let clients: BTreeSet<IpAddr> =
                old.iter().map(|m| if is_response(m) { m.to.ip() } else { m.from.ip() }).collect();
            let pairs = pairs(&old, &new);
            let new_clients: BTreeSet<_> = clients.iter().map(|c| pairs[c]).collect();
            assert_eq!(new_clients.len(), clients.len(), "one client, one address");
            assert!(summary.clients >= clients.len() as u64);
            for m in &new {
                let server = if is_response(m) { m.from } else { m.to };
                let expected = if server.is_ipv4() { "192.0.2.53" } else { "2001:db8::53" };
                assert_eq!(server.ip().to_string(), expected);
            }
            assert_sums(&path, &edit, &after);
        }
    }
}

#[test]
fn anonymising_keeps_messages_and_prefixes() {
    for path in real() {
        let before = octets(&path);
        let old = messages(&before);
        for edit in [anonymous(), by_message(anonymous())] {
            let (after, summary) = edited(&edit, &before);
            let new = messages(&after);
            // Client subnets are of the same length.
            let lengths =
                |all: &[Owned]| all.iter().map(|m| (m.at, m.tcp.is_some(), m.len)).collect::<Vec<_>>();
            assert_eq!(lengths(&old), lengths(&new), "{}", path.display());
            let changed = old.iter().zip(&new).filter(|(a, b)| a.bytes != b.bytes).count() as u64;
            assert!(changed <= summary.subnets, "{changed} {}", summary.subnets);
            let mut reference = Anonymizer::new(&Key::new([7; 32]));
            for (old, new) in pairs(&old, &new) {
                assert_eq!(reference.ip(old), new);
            }
            assert_sums(&path, &edit, &after);
        }
    }
}

/// No address of the trace is left anywhere in what tshark tells.
#[test]
fn no_address_is_left() {
    for path in real() {
        let before = octets(&path);
        let old = messages(&before);
        let addresses: BTreeSet<String> =
            old.iter().flat_map(|m| [m.from, m.to]).map(|end| end.ip().to_string()).collect();
        let (after, _) = edited(&anonymous(), &before);
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), &after).unwrap();
        let fields =
            ["ip.addr", "ipv6.addr", "dns.opt.client.addr4", "dns.opt.client.addr6", "arp.src.proto_ipv4"];
        let mut args = vec!["-r", file.path().to_str().unwrap(), "-n", "-T", "fields"];
        fields.iter().for_each(|field| args.extend(["-e", field]));
        let Some(text) = output("tshark", &args) else { return };
        let left: BTreeSet<_> =
            text.split(['\t', '\n', ',']).filter(|a| !a.is_empty() && addresses.contains(*a)).collect();
        assert!(left.is_empty(), "{}: {left:?}", path.display());
    }
}

#[test]
fn tcprewrite_reads_what_is_written() {
    for path in real() {
        let (after, summary) = edited(&readdressed(), &octets(&path));
        let folder = tempfile::tempdir().unwrap();
        let [from, to] = ["from", "to"].map(|name| folder.path().join(name));
        std::fs::write(&from, after).unwrap();
        let args = ["-i", from.to_str().unwrap(), "-o", to.to_str().unwrap(), "--ttl=9"];
        if output("tcprewrite", &args).is_none() {
            return;
        }
        let Some(count) = output("capinfos", &["-c", "-M", "-T", "-r", to.to_str().unwrap()]) else { return };
        assert!(count.contains(&summary.written.to_string()), "{count}");
    }
}

#[test]
fn tshark_puts_connections_made_anew_together() {
    for path in real() {
        let before = octets(&path);
        let (after, _) = edited(&by_message(Edit::default()), &before);
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), &after).unwrap();
        let args =
            |field| ["-r", file.path().to_str().unwrap(), "-n", "-Y", "tcp", "-T", "fields", "-e", field];
        let Some(ids) = output("tshark", &args("dns.id")) else { return };
        let theirs = ids.split(['\n', ',']).filter(|id| !id.is_empty()).count();
        let ours = messages(&before).iter().filter(|m| m.tcp.is_some()).count();
        assert_eq!(theirs, ours, "{}", path.display());
        let analysis = output("tshark", &args("tcp.analysis.flags")).unwrap();
        let flags: BTreeSet<_> = analysis.lines().filter(|line| !line.is_empty()).collect();
        assert!(flags.is_empty(), "{}: {flags:?}", path.display());
    }
}

/// A packet of raw IP in which one octet is another.
fn changed(packet: Vec<u8>, at: usize, to: u8) -> Vec<u8> {
    let mut packet = packet;
    packet[at] = to;
    packet
}

#[test]
fn wrong_sums_are_made_right_or_stay_wrong_and_absent_ones_absent() {
    let right = udp(&message(1, false, "a"));
    let absent = changed(changed(right.clone(), 26, 0), 27, 0);
    let wrong = changed(right.clone(), 27, right[27] ^ 1);
    let segment = tcp(true, 9, "S", 0, &[]);
    let wrong_tcp = changed(segment.clone(), 37, segment[37] ^ 1);
    let capture = pcap(RAW_IP, &[right, absent, wrong, segment, wrong_tcp]);
    let states = |edit: &Edit| {
        let (after, summary) = edited(edit, &capture);
        let mut reader =
            Reader::from_read(Path::new("memory"), Cursor::new(after.clone()), &Options::default()).unwrap();
        let mut states = Vec::new();
        while let Some(m) = reader.next().unwrap() {
            states.push(format!("{:?}", m.checksum));
        }
        (
            states.join(" "),
            summary.checksums_made_right,
            self::wrong(&after).map(|w| w.get("tcp.checksum.status").copied()),
        )
    };
    for edit in [Edit::default(), anonymous(), readdressed()] {
        let (found, made, tcp) = states(&edit);
        assert_eq!((&found[..], made), ("Right Absent Right", 2));
        assert!(tcp.is_none_or(|wrong| wrong.is_none()));
        let (found, made, tcp) = states(&Edit { keep_checksums: true, ..edit });
        assert_eq!((&found[..], made), ("Right Absent Bad", 0));
        assert!(tcp.is_none_or(|wrong| wrong == Some(1)));
    }
}

#[test]
fn icmp_errors_are_changed_with_what_they_quote() {
    let query = udp(&message(1, false, "a"));
    // From a router, to the client: time exceeded, with all of the query.
    let router = [203, 0, 113, 9];
    let builder = etherparse::PacketBuilder::ipv4(router, CLIENT.0, 60).icmpv4(
        etherparse::Icmpv4Type::TimeExceeded(etherparse::icmpv4::TimeExceededCode::TtlExceededInTransit),
    );
    let mut error = Vec::new();
    builder.write(&mut error, &query).unwrap();
    let capture = pcap(RAW_IP, &[query, error]);
    let (after, summary) = edited(&anonymous(), &capture);
    assert_eq!((summary.written, summary.dropped.total()), (2, 0));
    let mut all = Anonymizer::new(&Key::new([7; 32]));
    let mut new = |octets: [u8; 4]| all.v4(octets.into()).octets();
    let errors = after.windows(4).filter(|w| *w == new(router)).count();
    assert_eq!(errors, 1);
    assert_eq!(after.windows(4).filter(|w| *w == new(CLIENT.0)).count(), 3, "two headers and a quotation");
    assert_eq!(after.windows(4).filter(|w| *w == new(SERVER.0)).count(), 2);
    for old in [router, CLIENT.0, SERVER.0] {
        assert!(after.windows(4).all(|w| w != old));
    }
    let (after, summary) = edited(&readdressed(), &capture);
    assert_eq!((summary.written, summary.clients), (2, 2), "the router gets an address as clients do");
    assert!(wrong(&after).is_none_or(|wrong| wrong.is_empty()));
}

/// A response with a client's subnet of 20 bits in its OPT record.
fn with_subnet(name: &str) -> Vec<u8> {
    let mut bytes = message(5, true, name);
    bytes[11] = 1;
    bytes.extend([0, 0, 41, 16, 0, 0, 0, 0, 0, 0, 11, 0, 8, 0, 7, 0, 1, 20, 20, 198, 51, 96]);
    bytes
}

/// What it becomes.
fn subnet_anonymised() -> [u8; 3] {
    let [a, b, c, _] = Anonymizer::new(&Key::new([7; 32])).v4([198, 51, 96, 0].into()).octets();
    [a, b, c & 0xf0]
}

#[test]
fn client_subnets_are_anonymised_wherever_they_are() {
    let bytes = with_subnet("aaaa");
    let expected = [&bytes[..bytes.len() - 3], &subnet_anonymised()].concat();
    let whole = pcap(RAW_IP, &[udp(&bytes), udp6(&bytes)]);
    let stream = framed(&bytes);
    for (up, edit) in [(false, anonymous()), (true, by_message(anonymous()))] {
        let (after, summary) = edited(&edit, &whole);
        assert_eq!(summary.subnets, 2);
        assert!(messages(&after).iter().all(|m| m.bytes == expected));
        // Over TCP, cut anywhere.
        for cut in 1..stream.len() {
            let mut segments = vec![tcp(up, 9, "S", 0, &[]), tcp(up, 10, "A", 1, &stream[..cut])];
            segments.push(tcp(up, 10 + cut as u32, "A", 1, &stream[cut..]));
            let (after, summary) = edited(&edit, &pcap(RAW_IP, &segments));
            let messages = messages(&after);
            assert_eq!(messages.len(), 1, "{cut}: {summary:?}");
            assert_eq!(messages[0].bytes, expected, "cut at {cut}");
        }
    }
    // In fragments, cut anywhere.
    let datagram = udp(&bytes);
    for cut in (8..datagram.len() - 20).step_by(8) {
        let mut first = datagram[..20 + cut].to_vec();
        first[2..4].copy_from_slice(&(20 + cut as u16).to_be_bytes());
        first[6] = 0x20;
        let mut last = [&datagram[..20], &datagram[20 + cut..]].concat();
        let length = last.len() as u16;
        last[2..4].copy_from_slice(&length.to_be_bytes());
        (last[6], last[7]) = (0, (cut / 8) as u8);
        let (after, _) = edited(&anonymous(), &pcap(RAW_IP, &[first, last]));
        let messages = messages(&after);
        assert_eq!((messages.len(), &messages[0].bytes), (1, &expected), "cut at {cut}");
    }
}

#[test]
fn what_cannot_be_read_is_dropped_where_it_could_leak() {
    let other = {
        let mut packet = udp(&message(1, false, "a"));
        (packet[20], packet[21], packet[22], packet[23]) = (0, 123, 0, 123);
        packet
    };
    let routed = {
        // A loose source route of one address, in a header of 28 octets.
        let mut packet = udp(&message(1, false, "a"));
        packet.splice(20..20, [131, 7, 4, 192, 0, 2, 7, 0]);
        packet[0] = 0x47;
        packet[3] += 8;
        packet
    };
    let junk = vec![0x45, 0, 0];
    let capture = pcap(RAW_IP, &[other, routed, junk, udp(&message(1, false, "a"))]);
    let (_, plain) = edited(&Edit::default(), &capture);
    assert_eq!((plain.written, plain.dropped.total()), (4, 0));
    let (_, summary) = edited(&anonymous(), &capture);
    let dropped: Vec<_> = summary.dropped.iter().collect();
    assert_eq!(summary.written, 1);
    let expected = [
        ("packets that cannot be read, so that their addresses cannot be changed", 1),
        ("packets with a route or other addresses in their IP or TCP options", 1),
        ("packets whose content may have addresses, and cannot be read", 1),
    ];
    assert_eq!(dropped, expected);
}

#[test]
fn families_without_an_address_are_left_out() {
    let capture = pcap(RAW_IP, &[udp(&message(1, false, "a")), udp6(&message(2, false, "b"))]);
    let edit = Edit { set_dst_v4: Some("192.0.2.99".parse().unwrap()), ..Edit::default() };
    let (after, summary) = edited(&edit, &capture);
    assert_eq!(messages(&after)[0].to.to_string(), "192.0.2.99:53");
    assert_eq!(
        summary.dropped.iter().collect::<Vec<_>>(),
        [("of a family for which no address was given", 1)]
    );
}

#[test]
fn too_many_clients_are_named() {
    let packets: Vec<_> = (1..=5).map(|n| changed(udp(&message(1, false, "a")), 15, n)).collect();
    let edit = Edit { set_src_nets: vec!["10.0.0.0/30".parse().unwrap()], ..Edit::default() };
    let input = Input::From(Box::new(Cursor::new(pcap(RAW_IP, &packets))));
    let error = edit.run(input, Output::One(&mut Vec::new()), &mut |_| {}).unwrap_err().to_string();
    let expected =
        "10.0.0.0/30 has addresses for 2 clients, and the trace has 5: a block of /29 or larger has enough";
    assert_eq!(error, expected);
}

/// Queries of RZAIA's kinds with their responses: ids from 0, each a millisecond after the one before it.
fn conversation() -> Vec<u8> {
    let mut packets = Vec::new();
    for id in 0..40u16 {
        let mut query = message(id, false, ["a", "m", "z", "M"][usize::from(id) % 4]);
        if id % 2 == 0 {
            let size = if id % 4 == 0 { 512 } else { 4096u16 };
            let flags = if id % 8 == 0 { 0x80 } else { 0 };
            query[11] = 1;
            query.extend([&[0, 0, 41][..], &size.to_be_bytes(), &[0, 0, flags, 0, 0, 0]].concat());
        }
        let mut response = query.clone();
        wire::header::set_qr(&mut response);
        let back = {
            let mut packet = udp(&response);
            packet[12..16].copy_from_slice(&SERVER.0);
            packet[16..20].copy_from_slice(&CLIENT.0);
            packet[20..22].copy_from_slice(&SERVER.1.to_be_bytes());
            packet[22..24].copy_from_slice(&CLIENT.1.to_be_bytes());
            packet
        };
        packets.extend([udp(&query), back]);
    }
    pcap(RAW_IP, &packets)
}

/// The ids of the queries and of the responses that are kept.
fn kept(edit: Edit) -> (Vec<u16>, Vec<u16>) {
    let (after, summary) = edited(&edit, &conversation());
    let messages = messages(&after);
    assert_eq!(summary.kept, messages.len() as u64);
    assert_eq!(summary.kept + summary.dropped.total(), summary.messages);
    let ids = |response| {
        let of = messages.iter().filter(|m| (m.bytes[2] & 0x80 != 0) == response);
        of.map(|m| u16::from_be_bytes([m.bytes[0], m.bytes[1]])).collect()
    };
    (ids(false), ids(true))
}

#[test]
fn filters_keep_responses_with_their_queries() {
    let base = Edit::default;
    let all: Vec<u16> = (0..40).collect();
    let every = |n: usize| all.iter().copied().step_by(n).collect::<Vec<_>>();
    assert_eq!(kept(Edit { if_query: true, ..base() }), (all.clone(), vec![]));
    assert_eq!(kept(Edit { if_response: true, ..base() }), (vec![], all.clone()));
    assert_eq!(kept(Edit { every: Some(10), ..base() }), (every(10), every(10)));
    assert_eq!(kept(Edit { if_edns_size: Some(512), ..base() }), (every(4), every(4)));
    assert_eq!(kept(Edit { if_do: true, ..base() }), (every(8), every(8)));
    assert_eq!(kept(Edit { if_do: true, if_response: true, ..base() }), (vec![], every(8)));
    // Every second of those with DO.
    assert_eq!(kept(Edit { if_do: true, every: Some(2), ..base() }), (every(16), every(16)));
    let named = |ranges: &[&str]| Edit {
        if_under: Some(wire::name::Name::parse_text("com", Some(wire::name::ROOT)).unwrap()),
        if_names: ranges.iter().map(|r| r.parse().unwrap()).collect(),
        if_query: true,
        ..base()
    };
    let ids_of =
        |which: &[u16]| all.iter().copied().filter(|id| which.contains(&(id % 4))).collect::<Vec<_>>();
    assert_eq!(kept(named(&["g-n"])), (ids_of(&[1, 3]), vec![]));
    assert_eq!(kept(named(&["a", "z"])), (ids_of(&[0, 2]), vec![]));
    assert_eq!(kept(named(&[])), (all.clone(), vec![]));
    let blocks = |net: &str| vec![net.parse().unwrap()];
    assert_eq!(kept(Edit { if_clients: blocks("192.0.2.0/30"), if_query: true, ..base() }).0, all);
    assert_eq!(kept(Edit { not_clients: blocks("192.0.2.0/30"), if_query: true, ..base() }).0, [0u16; 0]);
    // Two packets a millisecond apart: queries at 0, 2, 4 ms.
    let times = |from, to| kept(Edit { from, to, if_query: true, ..base() }).0;
    assert_eq!(times(Some(When::After(4_000_000)), Some(When::After(8_000_000))), [2, 3]);
    assert_eq!(times(None, Some(When::At(1_000_000_001))), [0]);
}

#[test]
fn rzaias_extraction_sets_sizes() {
    let edit = Edit {
        if_query: true,
        if_edns_size: Some(512),
        if_do: true,
        set_edns_size: Some(65_535),
        ..readdressed()
    };
    let (after, summary) = edited(&edit, &conversation());
    assert_eq!((summary.kept, summary.edns_sizes_set), (5, 5));
    for m in messages(&after) {
        let opt = wire::opt::find(&m.bytes).unwrap();
        assert_eq!((opt.udp_size, opt.do_bit(), m.to.to_string()), (65_535, true, "192.0.2.53:53".into()));
    }
    assert!(wrong(&after).is_none_or(|wrong| wrong.is_empty()));
}

#[test]
fn queries_become_lines() {
    let edit = Edit { kind: Kind::Queries, every: Some(2), ..Edit::default() };
    let (after, summary) = edited(&edit, &conversation());
    assert_eq!((summary.written, summary.bytes), (20, after.len() as u64));
    assert!(
        after.starts_with(b"a.com A\nz.com A\na.com A\n")
            || after.starts_with(b"a.com. A\nz.com. A\na.com. A\n")
    );
}

#[test]
fn slots_are_outputs_of_their_own() {
    let mut outputs: BTreeMap<u64, u32> = BTreeMap::new();
    let folder = tempfile::tempdir().unwrap();
    let mut open = |start: u64, again: bool| -> std::io::Result<Box<dyn std::io::Write>> {
        *outputs.entry(start).or_default() += 1;
        let path = folder.path().join(start.to_string());
        let file = std::fs::File::options().append(true).create_new(!again).open(path)?;
        Ok(Box::new(file))
    };
    // 80 packets in 80 ms; slots of 5 ms: more than are open at once. A late packet belongs to the first.
    let mut capture = conversation();
    let late = pcap(RAW_IP, &[udp(&message(99, false, "late"))]);
    capture.extend_from_slice(&late[24..]);
    let length = 5_000_000;
    let output = Output::Slots { length, open: &mut open };
    let input = Input::From(Box::new(Cursor::new(capture)));
    let summary = Edit::default().run(input, output, &mut |_| {}).unwrap();
    assert_eq!((summary.written, summary.slots.len()), (81, 16));
    assert_eq!(outputs[&1_000_000_000], 2, "opened again");
    for (n, slot) in summary.slots.iter().enumerate() {
        assert_eq!(
            (slot.start, slot.written),
            (1_000_000_000 + n as u64 * length, if n == 0 { 6 } else { 5 })
        );
        let octets = std::fs::read(folder.path().join(slot.start.to_string())).unwrap();
        assert_eq!((octets.len() as u64, messages(&octets).len() as u64), (slot.bytes, slot.written));
    }
}

#[test]
fn links_of_several_kinds_need_pcapng_or_ethernet() {
    let folder = tempfile::tempdir().unwrap();
    let [raw, sll] = ["raw", "sll"].map(|name| folder.path().join(name));
    let cooked =
        [&[0, 0, 0, 1, 0, 6, 2, 3, 4, 5, 6, 7, 0, 0, 8, 0][..], &udp(&message(2, false, "b"))].concat();
    std::fs::write(&raw, pcap(RAW_IP, &[udp(&message(1, false, "a"))])).unwrap();
    std::fs::write(&sll, pcap(113, &[cooked])).unwrap();
    let run = |edit: Edit| {
        let mut out = Vec::new();
        let done = edit.run(Input::Files(&[raw.clone(), sll.clone()]), Output::One(&mut out), &mut |_| {});
        (done.map_err(|e| e.to_string()), out)
    };
    let error = run(Edit::default()).0.unwrap_err();
    assert!(error.contains("link type 113") && error.contains("--set-mac"), "{error}");
    let (done, out) = run(Edit { kind: Kind::Pcapng, ..Edit::default() });
    assert_eq!((done.unwrap().written, messages(&out).len()), (2, 2));
    let (done, out) = run(readdressed());
    assert_eq!((done.unwrap().written, out[20], messages(&out).len()), (2, 1, 2));
    // MAC addresses in cooked headers are addresses too.
    let (done, out) = run(Edit { kind: Kind::Pcapng, ..anonymous() });
    assert_eq!(done.unwrap().written, 2);
    assert!(out.windows(6).all(|w| w != [2, 3, 4, 5, 6, 7]));
}

#[test]
fn original_lengths_stay() {
    let mut capture = pcap(RAW_IP, &[udp(&message(1, false, "a"))]);
    let length = capture.len() as u32 - 40;
    // Six octets were not captured.
    capture.truncate(capture.len() - 6);
    capture[32..36].copy_from_slice(&(length - 6).to_be_bytes());
    for edit in [Edit::default(), anonymous(), readdressed(), by_message(readdressed())] {
        let (after, _) = edited(&edit, &capture);
        let [old, new] = [&capture, &after].map(|c| messages(c)[0].clone());
        assert_eq!((old.len, old.bytes.len()), (new.len, new.bytes.len()));
        let mut fields = after[32..40].chunks(4).map(|f| u32::from_le_bytes(f.try_into().unwrap()));
        assert_eq!(fields.next().unwrap() + 6, fields.next().unwrap());
    }
}
