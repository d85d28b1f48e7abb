//! Transfers from the real servers, their bytes beside tshark's, and what a capture says of them.

use super::lab::{
    Capture, Lab, RUN, Running, free_port, get, has, nsupdate, records, tshark, wait_for, zone_text,
};
use std::path::Path;
use std::process::Command;
use trace::transfers::{Transfers, collect};
use update::{TransferResult, TransferSpec, TsigKey, transfer};
use wire::transfer::{Asked, Kind};

const NAMES: usize = 1500;
const ZONE: &str = "example.";

/// A change: one delegation goes, two records come.
const CHANGE: &str = "update delete child0007.example. NS\nupdate delete child0007.example. DS\n\
                      update add new.example. 60 IN A 192.0.2.1\nupdate add new.example. 60 IN TXT \"a;b\"\n";

/// Transfers to text.
fn write(spec: &TransferSpec) -> (TransferResult, String) {
    let mut text = Vec::new();
    let result = transfer(spec, Some(&mut text), &RUN, &mut |_| ()).unwrap();
    (result, String::from_utf8(text).unwrap())
}

/// The text of a transferred zone has the records of the zone file.
fn is_the_same(lab: &Lab, text: &str, zone: &Path) {
    let got = lab.write("got", "zone", text);
    let diff = zone::diff(zone, &got, &mut |_| ()).unwrap();
    assert_eq!((diff.records.sums(), diff.dnssec.sums()), ((0, 0), (0, 0)), "{}", zone.display());
}

/// The one server of a test: an AXFR, an IXFR where it can, and a question that leads to nothing new. What we count, what
/// tshark counts and what `trace` finds in the capture must be the same.
fn check(lab: &Lab, server: &Running, zone: &Path, change: Option<&dyn Fn()>) {
    let port = server.address.port();
    let axfr = TransferSpec::new(server.address, ZONE);
    wait_for(&axfr, 1);
    let Some(capture) = Capture::start(lab, &format!("tcp port {port}")) else { return };
    let (whole, text) = write(&axfr);
    assert_eq!((whole.kind, whole.serial_to, whole.failed.as_ref()), (Some(Kind::Axfr), Some(1), None));
    assert_eq!(whole.records, records(NAMES) + 1, "the SOA comes twice");
    assert!(whole.messages > 1 && whole.uncompressed_bytes > whole.record_bytes, "{whole:?}");
    is_the_same(lab, &text, zone);
    let mut results = vec![whole];
    let mut ixfr = TransferSpec { ixfr: Some(1), ..axfr.clone() };
    if let Some(change) = change {
        change();
        // Waiting opens connections of its own: what they took is checked too.
        let end = std::time::Instant::now() + super::lab::TIMEOUT;
        let (differences, text) = loop {
            let (result, text) = write(&ixfr);
            if result.serial_to == Some(2) {
                break (result, text);
            }
            assert_eq!(result.kind, Some(Kind::UpToDate));
            assert!(std::time::Instant::now() < end, "{result:?}");
            results.push(result);
            std::thread::sleep(std::time::Duration::from_millis(50));
        };
        assert_eq!(differences.kind, Some(Kind::Ixfr), "{differences:?}");
        assert_eq!((differences.serial_from, differences.serial_to), (Some(1), Some(2)));
        let deltas = differences.deltas;
        assert_eq!((deltas.count, deltas.deletions, deltas.additions), (1, 2, 2), "{text}");
        assert_eq!(differences.records, 8, "and four SOA");
        let lines = |start: &str| text.lines().filter(|line| line.starts_with(start)).count();
        assert_eq!((lines("update delete"), lines("update add"), lines("send")), (2, 3, 1), "{text}");
        assert!(text.contains("update add new.example.\t60\tIN\tTXT\t\"a;b\""), "{text}");
        results.push(differences);
        ixfr.ixfr = Some(2);
    }
    if change.is_some() {
        let nothing = get(&ixfr);
        assert_eq!((nothing.kind, nothing.records), (Some(Kind::UpToDate), 1), "{nothing:?}");
        results.push(nothing);
    }
    let file = capture.stop();
    agree(&file, port, &results);
}

/// Our counts beside tshark's and beside those of `trace`, transfer by transfer.
fn agree(file: &Path, port: u16, results: &[TransferResult]) {
    let streams = tshark(file, port);
    assert_eq!(streams.len(), results.len(), "a connection each");
    let found: Transfers = collect(&[file.to_owned()], &[port], 2, &mut |_| ()).unwrap();
    assert_eq!((found.transfers.len(), found.holes), (results.len(), 0));
    for ((ours, theirs), seen) in results.iter().zip(&streams).zip(&found.transfers) {
        assert_eq!(ours.tcp_bytes, theirs.from_server, "payload from the server: {ours:?}");
        assert_eq!(ours.query_bytes, theirs.to_server, "payload to the server");
        assert_eq!(ours.tcp_bytes, ours.dns_bytes + 2 * ours.messages);
        assert_eq!((seen.packets, seen.ip_bytes), (Some(theirs.packets), Some(theirs.ip)), "{seen:?}");
        assert_eq!(
            (seen.tcp_bytes, seen.dns_bytes, seen.messages),
            (ours.tcp_bytes, ours.dns_bytes, ours.messages)
        );
        assert_eq!((seen.kind, seen.asked, seen.complete), (ours.kind, ours.asked, true));
        assert_eq!((seen.serial_from, seen.serial_to), (ours.serial_from, ours.serial_to));
        let deltas = (seen.deltas, seen.deletions, seen.additions);
        assert_eq!(deltas, (ours.deltas.count, ours.deltas.deletions, ours.deltas.additions));
        assert_eq!(
            (seen.server, seen.zone.as_str(), seen.on_connection),
            (ours.target, ours.zone.as_str(), 1)
        );
    }
}

const TOOLS: [&str; 2] = ["tcpdump", "tshark"];

fn can(programs: &[&str]) -> bool {
    has(&TOOLS) && has(programs)
}

#[test]
fn every_byte_from_bind_agrees() {
    if !can(&["named", "nsupdate"]) {
        return;
    }
    let (lab, port) = (Lab::new(), free_port());
    let zone = lab.write("", "zone", &zone_text(ZONE, 1, NAMES));
    lab.write("bind", "zone", &zone_text(ZONE, 1, NAMES));
    let zones = format!(
        "zone \"{ZONE}\" {{ type master; file \"zone\"; allow-update {{ 127.0.0.1; }}; allow-transfer {{ any; }}; }};\n"
    );
    let server = lab.bind("bind", port, "", &zones);
    check(&lab, &server, &zone, Some(&|| nsupdate(&server, ZONE, CHANGE)));
    // A version that its journal does not have.
    let silent = get(&TransferSpec { ixfr: Some(4_294_967_000), ..TransferSpec::new(server.address, ZONE) });
    assert_eq!((silent.kind, silent.complete), (Some(Kind::AxfrForIxfr), true), "{silent:?}");
    assert_eq!(silent.asked, Asked::Ixfr(Some(4_294_967_000)));
}

#[test]
fn every_byte_from_knot_agrees() {
    if !can(&["knotd", "nsupdate"]) {
        return;
    }
    let (lab, port) = (Lab::new(), free_port());
    let zone = lab.write("", "zone", &zone_text(ZONE, 1, NAMES));
    let sections = format!(
        "acl:\n  - id: all\n    address: 127.0.0.0/8\n    action: [transfer, update]\nzone:\n  - domain: {ZONE}\n    \
         file: \"{}\"\n    acl: all\n    zonefile-sync: -1\n    journal-content: changes\n",
        zone.display()
    );
    let server = lab.knot("knot", port, &sections);
    check(&lab, &server, &zone, Some(&|| nsupdate(&server, ZONE, CHANGE)));
}

#[test]
fn every_byte_from_nsd_agrees() {
    if !can(&["nsd", "nsd-control"]) {
        return;
    }
    let (lab, port) = (Lab::new(), free_port());
    let zone = lab.write("", "zone", &zone_text(ZONE, 1, NAMES));
    let file = lab.write("nsd", "zone", &zone_text(ZONE, 1, NAMES));
    let clauses = format!(
        "zone:\n\tname: \"{ZONE}\"\n\tzonefile: \"{}\"\n\tprovide-xfr: 127.0.0.0/8 NOKEY\n\tstore-ixfr: yes\n\
         \tcreate-ixfr: yes\n",
        file.display()
    );
    let server = lab.nsd("nsd", port, &clauses);
    let change = || {
        let mut text = zone_text(ZONE, 2, NAMES);
        text = text
            .lines()
            .filter(|line| !line.starts_with("child0007.example. "))
            .map(|line| format!("{line}\n"))
            .collect();
        text += "new.example. 60 IN A 192.0.2.1\nnew.example. 60 IN TXT \"a;b\"\n";
        lab.write("nsd", "zone", &text);
        let config = lab.dir.path().join("nsd/nsd.conf");
        let status =
            Command::new("nsd-control").arg("-c").arg(&config).args(["reload", ZONE]).status().unwrap();
        assert!(status.success());
    };
    check(&lab, &server, &zone, Some(&change));
}

#[test]
fn every_byte_from_powerdns_agrees() {
    if !can(&["pdns_server"]) {
        return;
    }
    let (lab, port) = (Lab::new(), free_port());
    let zone = lab.write("", "zone", &zone_text(ZONE, 1, NAMES));
    let server = lab.powerdns("pdns", port, ZONE, &zone);
    check(&lab, &server, &zone, None);
}

/// Servers that want the key: what is signed, what another key and none get.
fn wants_key(server: &Running, key: &TsigKey) {
    let plain = TransferSpec::new(server.address, ZONE);
    let signed = TransferSpec { key: Some(key.clone()), ..plain.clone() };
    let result = wait_for(&signed, 1);
    let tsig = result.tsig.unwrap();
    assert_eq!(tsig.signed + tsig.unsigned, result.messages);
    assert!(tsig.signed > 0 && result.records == records(NAMES) + 1, "{result:?}");
    let refused = get(&plain);
    let reason = refused.failed.expect("refused");
    assert_eq!((reason.code.as_str(), refused.complete, refused.records), ("refused", false, 0), "{reason}");
    for other in [
        TsigKey { name: "other".into(), ..key.clone() },
        TsigKey { name: key.name.clone(), ..TsigKey::random("x").unwrap() },
    ] {
        let refused = get(&TransferSpec { key: Some(other), ..plain.clone() });
        let reason = refused.failed.expect("refused");
        assert!(["refused", "tsig"].contains(&reason.code.as_str()), "{reason}");
        assert_eq!((refused.complete, refused.records), (false, 0));
    }
}

#[test]
fn bind_signs_its_messages() {
    if !has(&["named"]) {
        return;
    }
    let (lab, key) = (Lab::new(), TsigKey::random("lab").unwrap());
    lab.write("bind", "zone", &zone_text(ZONE, 1, NAMES));
    let zones = format!(
        "{}zone \"{ZONE}\" {{ type master; file \"zone\"; allow-transfer {{ key lab; }}; }};\n",
        key.bind()
    );
    wants_key(&lab.bind("bind", free_port(), "", &zones), &key);
}

#[test]
fn nsd_signs_its_messages() {
    if !has(&["nsd"]) {
        return;
    }
    let (lab, key) = (Lab::new(), TsigKey::random("lab").unwrap());
    let file = lab.write("nsd", "zone", &zone_text(ZONE, 1, NAMES));
    let clauses = format!(
        "key:\n\tname: \"lab\"\n\talgorithm: hmac-sha256\n\tsecret: \"{}\"\nzone:\n\tname: \"{ZONE}\"\n\tzonefile: \"{}\"\n\
         \tprovide-xfr: 127.0.0.0/8 lab\n",
        key.secret,
        file.display()
    );
    wants_key(&lab.nsd("nsd", free_port(), &clauses), &key);
}

#[test]
fn knot_signs_its_messages() {
    if !has(&["knotd"]) {
        return;
    }
    let (lab, key) = (Lab::new(), TsigKey::random("lab").unwrap());
    let file = lab.write("knot", "zone", &zone_text(ZONE, 1, NAMES));
    let sections = format!(
        "key:\n  - id: lab\n    algorithm: hmac-sha256\n    secret: {}\nacl:\n  - id: lab\n    key: lab\n    action: \
         transfer\nzone:\n  - domain: {ZONE}\n    file: \"{}\"\n    acl: lab\n",
        key.secret,
        file.display()
    );
    wants_key(&lab.knot("knot", free_port(), &sections), &key);
}
