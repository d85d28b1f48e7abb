//! `transfer` and `update watch` as a user meets them; what they find in real servers is tested beside their room.

use crate::{output, stderr};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};

/// A server that answers one question for the AXFR of "zz." with these messages, and closes.
fn serve(messages: &'static [&'static [u8]]) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut query = [0; 2 + 12 + 4 + 4];
        stream.read_exact(&mut query).unwrap();
        for message in messages {
            let length = (message.len() as u16 + 2).to_be_bytes();
            stream.write_all(&[&length[..], &query[2..4], message].concat()).unwrap();
        }
    });
    address
}

/// A message without its id: one SOA of "zz.", serial 7.
const SOA: &[u8] =
    b"\x84\0\0\0\0\x01\0\0\0\0\x02zz\0\0\x06\0\x01\0\0\0\x3c\0\x16\0\0\0\0\0\x07\0\0\0\x01\0\0\0\x01\0\0\0\x01\0\0\0\x01";

#[test]
fn a_zone_is_written_and_what_it_took_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("zone");
    let address = serve(&[SOA, SOA]).to_string();
    let got = output(&["transfer", &address, "zz", "-o", file.to_str().unwrap(), "--json"]);
    assert_eq!(got.status.code(), Some(0), "{}", stderr(&got));
    let json: serde_json::Value = serde_json::from_slice(&got.stdout).expect("one JSON object");
    assert_eq!(json["schema"], "dnsrack.transfer/1");
    assert_eq!((&json["kind"], &json["serial_to"], &json["records"]), (&"axfr".into(), &7.into(), &2.into()));
    assert_eq!(json["tcp_bytes"], 2 * (SOA.len() + 4));
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "zz.\t60\tIN\tSOA\t. . 7 1 1 1 1\n");
}

#[test]
fn what_breaks_off_is_an_error_and_writes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("zone");
    let address = serve(&[SOA]).to_string();
    let got = output(&["transfer", &address, "zz", "-o", file.to_str().unwrap(), "--json"]);
    assert_eq!(got.status.code(), Some(1));
    assert!(stderr(&got).contains("after 1 message, 1 record, before the final SOA"), "{}", stderr(&got));
    let json: serde_json::Value = serde_json::from_slice(&got.stdout).expect("one JSON object");
    assert_eq!((&json["failed"]["code"], &json["complete"]), (&"cut".into(), &false.into()));
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn others_are_not_asked_without_leave() {
    for args in [&["transfer", "192.0.2.1", "zz"][..], &["update", "watch", "127.0.0.1", "192.0.2.1", "zz"]] {
        let got = output(args);
        assert_eq!(got.status.code(), Some(2), "{}", stderr(&got));
        assert!(
            stderr(&got).contains("192.0.2.1:53") && stderr(&got).contains("--allow-external"),
            "{}",
            stderr(&got)
        );
    }
}

#[test]
fn who_is_watched_is_told_by_event() {
    let port = std::net::UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let got = output(&["update", "watch", &port, ".", "--duration", "1200ms", "--events"]);
    let lines: Vec<serde_json::Value> = got
        .stdout
        .split(|&b| b == b'\n')
        .filter(|l| !l.is_empty())
        .map(|l| serde_json::from_slice(l).unwrap())
        .collect();
    let kinds: Vec<_> = lines.iter().map(|l| l["event"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["started", "progress", "done"]);
    let result = &lines[2]["result"];
    assert_eq!((&result["marker"], &result["own"]["answered"]), (&"_dnsrack.".into(), &0.into()));
    assert!(result["own"]["sent"].as_u64().unwrap() > 0);
}
