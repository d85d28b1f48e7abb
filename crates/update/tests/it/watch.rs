//! Convergence with the real servers: one primary, secondaries of three kinds, markers by nsupdate.

use super::lab::{Lab, RUN, Running, free_port, has, nsupdate, wait_for, zone_text};
use measure::Event;
use measure::clock::{self, SECOND};
use std::fmt::Write as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use update::lag::sent;
use update::watch::Watched;
use update::{Marker, TransferSpec, WatchResult, WatchSpec, lags, watch};

const ZONE: &str = "example.";
const MARKERS: u64 = 8;

/// A BIND primary that takes updates and tells the secondaries at these ports.
fn primary(lab: &Lab, port: u16, secondaries: &[u16]) -> Running {
    lab.write("primary", "zone", &zone_text(ZONE, 1, 200));
    let notify = secondaries.iter().fold(String::new(), |mut text, port| {
        let _ = write!(text, "127.0.0.1 port {port}; ");
        text
    });
    let zones = format!(
        "zone \"{ZONE}\" {{ type master; file \"zone\"; allow-update {{ 127.0.0.1; }}; allow-transfer {{ 127.0.0.1; }}; \
         also-notify {{ {notify} }}; notify-source 127.0.0.1; }};\n"
    );
    lab.bind("primary", port, "", &zones)
}

fn secondary(lab: &Lab, kind: &str, port: u16, primary: u16) -> Running {
    match kind {
        "named" => {
            let zones = format!(
                "zone \"{ZONE}\" {{ type slave; masters {{ 127.0.0.1 port {primary}; }}; allow-notify {{ 127.0.0.1; }}; \
                 allow-transfer {{ 127.0.0.1; }}; file \"copy\"; }};\n"
            );
            lab.bind("bind", port, "", &zones)
        }
        "nsd" => {
            let clauses = format!(
                "zone:\n\tname: \"{ZONE}\"\n\tzonefile: \"copy\"\n\trequest-xfr: 127.0.0.1@{primary} NOKEY\n\
                 \tallow-notify: 127.0.0.1 NOKEY\n\tprovide-xfr: 127.0.0.1 NOKEY\n"
            );
            lab.nsd("nsd", port, &clauses)
        }
        _ => {
            let sections = format!(
                "remote:\n  - id: primary\n    address: 127.0.0.1@{primary}\nacl:\n  - id: all\n    address: 127.0.0.1\n    \
                 action: [notify, transfer]\nzone:\n  - domain: {ZONE}\n    master: primary\n    acl: all\n    \
                 zonefile-sync: -1\n"
            );
            lab.knot("knot", port, &sections)
        }
    }
}

#[test]
fn every_marker_is_seen_at_every_secondary() {
    if !has(&["named", "nsupdate"]) {
        return;
    }
    let lab = Lab::new();
    let kinds: Vec<&str> = ["named", "nsd", "knotd"].into_iter().filter(|kind| has(&[kind])).collect();
    let ports: Vec<u16> = kinds.iter().map(|_| free_port()).collect();
    let first = primary(&lab, free_port(), &ports);
    wait_for(&TransferSpec::new(first.address, ZONE), 1);
    let secondaries: Vec<Running> = kinds
        .iter()
        .zip(&ports)
        .map(|(kind, &port)| secondary(&lab, kind, port, first.address.port()))
        .collect();
    secondaries.iter().for_each(|s| drop(wait_for(&TransferSpec::new(s.address, ZONE), 1)));

    let name = |name: &str, server: &Running| Watched { name: name.into(), address: server.address };
    let mut servers = vec![name("primary", &first)];
    servers.extend(kinds.iter().zip(&secondaries).map(|(kind, server)| name(kind, server)));
    let spec = WatchSpec { duration: 60 * SECOND, ..WatchSpec::new(servers, ZONE) };
    let (stop, begun) = (AtomicBool::new(false), AtomicBool::new(false));
    let (mut started, mut seconds) = (0, 0);
    let (markers, result) = std::thread::scope(|scope| {
        let sender = scope.spawn(|| {
            let wait = |what: &dyn Fn() -> bool| {
                let end = Instant::now() + Duration::from_secs(30);
                while !what() && Instant::now() < end {
                    std::thread::sleep(Duration::from_millis(5));
                }
            };
            wait(&|| begun.load(Ordering::Relaxed));
            let markers = send(&first);
            // All have the last one, or the checks below say who has not.
            let last = |server: &Running| {
                let result = super::lab::get(&TransferSpec::new(server.address, ZONE));
                result.serial_to == Some(1 + MARKERS as u32)
            };
            wait(&|| secondaries.iter().all(last));
            std::thread::sleep(Duration::from_millis(500));
            stop.store(true, Ordering::Relaxed);
            markers
        });
        let result = watch(&spec, clock::now, &stop, &mut |event| match event {
            Event::Started { .. } => started += 1,
            Event::Progress { values, .. } => {
                let servers = values["servers"].as_array().expect("a list");
                assert_eq!(servers.len(), spec.servers.len());
                seconds += 1;
                // What there is at the beginning is known of all.
                let known = servers.iter().all(|s| s["marker"].is_u64() && s["serial"].is_u64());
                begun.fetch_or(known, Ordering::Relaxed);
            }
            other => panic!("{other:?}"),
        });
        (sender.join().unwrap(), result.unwrap())
    });
    assert_eq!((started, seconds > 0), (1, true));
    check(&markers, &result);
}

/// Sends the markers, one after the other, each replacing the one before.
fn send(server: &Running) -> Vec<Marker> {
    let mark = |number: u64| {
        let at = clock::wall();
        let name = format!("_dnsrack.{ZONE}");
        nsupdate(
            server,
            ZONE,
            &format!("update delete {name} TXT\nupdate add {name} 0 IN TXT \"{number}\"\n"),
        );
        std::thread::sleep(Duration::from_millis(150));
        let rcode = Some("NOERROR".to_owned());
        Marker { number, intended: at, sent: Some(at), rcode, ..Marker::default() }
    };
    (1..=MARKERS).map(mark).collect()
}

fn check(markers: &[Marker], result: &WatchResult) {
    for (server, of) in result.servers.iter().zip(lags(markers, sent, result)) {
        let context = format!("{server:?} lag {} to {}, {} seen", of.least, of.greatest, of.seen);
        assert_eq!((server.marker_first, server.marker_last), (Some(0), Some(MARKERS)), "{context}");
        assert_eq!(
            (server.serial_first, server.serial_last),
            (Some(1), Some(1 + MARKERS as u32)),
            "{context}"
        );
        // NSD's old and new processes answer side by side for a moment of each reload (docs/findings.md), so it may show the
        // version before once more.
        let back = server.marker_went_back + server.serial_went_back;
        assert!(back == 0 || server.name == "nsd", "{context}");
        assert_eq!(server.failed, 0, "{context}");
        assert_eq!((of.seen, of.lost, of.cut_off, of.earlier, of.before), (MARKERS, 0, 0, 0, 0), "{context}");
        assert!(of.least > 0 && of.greatest < 30 * SECOND, "{context}");
        assert!(server.answered > 0 && server.sent >= server.answered, "{context}");
        assert_eq!(server.lost, server.sent - server.answered);
    }
    let is_nsd = |server: u16| result.servers[usize::from(server)].name == "nsd";
    assert!(result.went_back.iter().all(|back| is_nsd(back.server)) && result.not_kept == 0);
    assert_eq!(result.marker, format!("_dnsrack.{ZONE}"));
    let own = &result.own;
    assert_eq!(own.sent, result.servers.iter().map(|s| s.sent).sum::<u64>());
    assert!(own.bytes_sent > 0 && own.bytes_received > 0 && own.qps_per_server > 0.0);
    // What became visible did so after it was hidden, and in order of time at each server.
    for number in 0..result.servers.len() as u16 {
        let of: Vec<_> = result.sightings.iter().filter(|s| s.server == number).collect();
        assert!(of.iter().all(|s| s.hidden_at < s.seen_at && s.first <= s.last));
        assert!(of.windows(2).all(|w| w[0].seen_at <= w[1].seen_at && w[0].last < w[1].first));
    }
}

#[test]
fn what_cannot_be_watched_is_refused() {
    let server = |address: &str| Watched { name: "a".into(), address: address.parse().unwrap() };
    let refused = |spec: WatchSpec| watch(&spec, clock::now, &RUN, &mut |_| ()).unwrap_err().to_string();
    let good = WatchSpec::new(vec![server("127.0.0.1:1")], ZONE);
    assert!(refused(WatchSpec { servers: Vec::new(), ..good.clone() }).contains("give 1 to 64"));
    assert!(refused(WatchSpec { interval: 1, ..good.clone() }).contains("100us"));
    assert!(refused(WatchSpec { deadline: 3600 * SECOND, ..good.clone() }).contains("shorter deadline"));
    assert!(
        refused(WatchSpec { marker: Some("m.other.".into()), ..good.clone() }).contains("not in the zone")
    );
    let far = WatchSpec { servers: vec![server("192.0.2.1:53")], ..good };
    assert!(refused(far).contains("--allow-external"));
}

#[test]
fn a_server_that_is_not_there_is_lost_and_not_ours_to_answer_for() {
    let server = Watched { name: "nobody".into(), address: ([127, 0, 0, 1], free_port()).into() };
    let spec = WatchSpec { duration: SECOND / 2, ..WatchSpec::new(vec![server], ".") };
    let result = watch(&spec, clock::now, &RUN, &mut |_| ()).unwrap();
    let nobody = &result.servers[0];
    assert!(nobody.sent > 0 && nobody.lost == nobody.sent && nobody.marker_first.is_none());
    assert!(result.validity.valid, "{:?}", result.validity);
    assert_eq!(result.marker, "_dnsrack.");
}
