//! A server from start to stop.

use crate::lab::{Answer, How, Lab, PLAIN, TIMEOUT, ask, lives};
use domain::base::iana::{Rcode, Rtype};
use server::{Kind, Problem, ServerSpec, driver};
use std::net::UdpSocket;
use std::time::Instant;

for_each_server! {
    answers_and_stops, reloads, takes_extra_configuration, keeps_to_the_cap, works_in_a_deep_folder,
    stands_beside_another, is_ended_by_a_panic, counts, is_killed_and_comes_back,
}

fn answers_and_stops(lab: &Lab, kind: Kind) {
    let spec = ServerSpec { workers: 2, ..lab.spec(kind, &lab.zone(7)) };
    let mut server = lab.start(&spec).unwrap();
    let probe = zone::probe(&spec.zone.file).unwrap();
    let took = server.ready(&probe, TIMEOUT).unwrap();
    assert!(took < TIMEOUT);
    assert!(server.version().starts_with(|c: char| c.is_ascii_digit()), "{}", server.version());
    assert_eq!(server.targets().len(), 2);
    for &target in server.targets() {
        for tcp in [false, true] {
            let how = How { tcp, ..PLAIN };
            let referral = ask(target, "www.tld007.", Rtype::A, how);
            assert_eq!((referral.rcode, referral.aa, referral.answer.len()), (Rcode::NOERROR, false, 0));
            assert_eq!(referral.authority, [Rtype::NS, Rtype::NS]);
            assert_eq!(referral.additional.len(), 2, "{referral:?}");
            let none = ask(target, "tld0077.", Rtype::A, how);
            assert_eq!((none.rcode, none.aa, none.answer.len()), (Rcode::NXDOMAIN, true, 0));
            assert_eq!(none.authority, [Rtype::SOA]);
        }
    }
    server.alive().unwrap();
    let pids = server.pids();
    // NSD: the one for transfers and control, the main one, and two that answer. YADIFA: one opens the sockets.
    let processes = match kind {
        Kind::NSD => 4,
        Kind::YADIFA => 2,
        _ => 1,
    };
    assert_eq!(pids.len(), processes, "{pids:?}");
    assert!(pids.iter().all(|&pid| lives(pid)));
    assert!(server.log_path().metadata().unwrap().len() > 0);
    let targets = server.targets().to_vec();
    server.stop().unwrap();
    assert!(!pids.iter().any(|&pid| lives(pid)));
    for target in targets {
        UdpSocket::bind(target).unwrap();
    }
}

fn is_killed_and_comes_back(lab: &Lab, kind: Kind) {
    let mut server = lab.serve(&lab.spec(kind, &lab.zone(7)));
    for _ in 0..2 {
        let pids = server.pids();
        server.kill().unwrap();
        assert!(!pids.iter().any(|&pid| lives(pid)));
        server.start_again().unwrap();
        let (took, serial) = server.back(TIMEOUT).unwrap();
        assert!(took < TIMEOUT && serial == 7, "{took:?}, {serial}");
        assert_ne!(server.pids()[0], pids[0]);
    }
    server.kill().unwrap();
    let gone = server.back(TIMEOUT).unwrap_err();
    assert!(matches!(*gone.problem, Problem::Died { .. }), "{gone}");
}

/// The configuration without caches: a cached answer of the old zone would be the server's right, for 20 s.
pub fn without_caches(kind: Kind) -> Option<String> {
    (kind == Kind::POWERDNS).then(|| "cache-ttl=0\nquery-cache-ttl=0\nnegquery-cache-ttl=0".into())
}

fn reloads(lab: &Lab, kind: Kind) {
    let mut spec = lab.spec(kind, &lab.zone_of("root.zone", 1, 50));
    spec.config = without_caches(kind);
    let mut server = lab.serve(&spec);
    for (serial, delegations) in [(2, 51), (4_000_000, 49)] {
        let file = lab.zone_of("root.zone", serial, delegations);
        server.reload().unwrap();
        server.ready(&zone::probe(&file).unwrap(), TIMEOUT).unwrap();
        server.alive().unwrap();
    }
    let pids = server.pids();
    // A zone file that cannot be read is reported. All servers but NSD go on serving the old zone.
    std::fs::write(&spec.zone.file, ". 1 IN SOA a. b. 4000005 1 1 1 1\n. 1 IN NS a.\n. 1 IN NSX a.\n")
        .unwrap();
    let good = zone::probe(&lab.zone_of("other.zone", 4_000_005, 10)).unwrap();
    let reloaded = server.reload();
    let failed = reloaded.and_then(|()| server.ready(&good, TIMEOUT).map(drop)).unwrap_err();
    assert!(matches!(*failed.problem, Problem::Refused { .. } | Problem::Tool { .. }), "{failed}");
    // YADIFA quotes the line instead of naming the file.
    let word = if kind == Kind::YADIFA { ". 1 IN NSX a." } else { "root.zone" };
    assert!(failed.to_string().contains(word), "{failed}");
    server.alive().unwrap();
    let until = Instant::now() + TIMEOUT;
    loop {
        let old = ask(server.targets()[0], "tld048.", Rtype::NS, PLAIN);
        match (kind, old.rcode) {
            (Kind::NSD, Rcode::SERVFAIL) => break,
            (Kind::NSD, _) => assert!(Instant::now() < until, "{old:?}"),
            _ => break assert_eq!(old.authority.len(), 2),
        }
    }
    server.stop().unwrap();
    assert!(!pids.iter().any(|&pid| lives(pid)));
}

/// The cap can be raised by extra configuration: so it is taken in, and wins over ours.
fn takes_extra_configuration(lab: &Lab, kind: Kind) {
    let config = match kind {
        Kind::BIND => "max-udp-size 4096; // ours is left out\nminimal-responses yes;",
        Kind::NSD => "\tipv4-edns-size: 4096\nkey:\n\tname: k\n\talgorithm: hmac-sha256\n\tsecret: c2VjcmV0",
        Kind::KNOT => {
            "server:\n    udp-max-payload: 4096\ntemplate:\n  - id: default\n    semantic-checks: off"
        }
        Kind::YADIFA => "<main>\n\tedns0-max-size 4096\n</main>",
        _ => "udp-truncation-threshold=4096",
    };
    let spec = ServerSpec { config: Some(config.into()), ..lab.spec(kind, &lab.zone(7)) };
    let server = lab.serve(&spec);
    let big = ask(server.targets()[0], "big.", Rtype::TXT, How { udp_size: 4096, ..PLAIN });
    assert_eq!((big.tc, big.answer.len()), (false, 10), "{big:?}");
}

fn keeps_to_the_cap(lab: &Lab, kind: Kind) {
    let spec = lab.spec(kind, &lab.zone(7));
    let server = lab.serve(&spec);
    let wide = How { udp_size: 4096, ..PLAIN };
    let big = ask(server.targets()[0], "big.", Rtype::TXT, wide);
    assert_eq!(big.tc, driver(kind).facts().can.udp_cap, "{big:?}");
    let usual = ask(server.targets()[0], "big.", Rtype::TXT, PLAIN);
    assert!(usual.tc, "{usual:?}");
    assert_eq!(ask(server.targets()[1], "big.", Rtype::TXT, How { tcp: true, ..wide }).answer.len(), 10);
    // The cap asked for, not just the default: 2,000 octets fit below 3,000.
    let spec = ServerSpec { udp_size: 3000, label: "wide".into(), ..lab.spec(kind, &lab.zone(7)) };
    let server = lab.serve(&spec);
    let big = ask(server.targets()[0], "big.", Rtype::TXT, wide);
    assert_eq!((big.tc, Answer::count(&big.answer, Rtype::TXT)), (false, 10), "{big:?}");
}

/// Paths of control sockets end at 107 bytes.
fn works_in_a_deep_folder(lab: &Lab, kind: Kind) {
    let label = format!("{}/{}", "deep".repeat(20), "deeper".repeat(20));
    let spec = ServerSpec { label, ..lab.spec(kind, &lab.zone(7)) };
    let mut server = lab.serve(&spec);
    assert!(!server.stats().unwrap().is_empty());
    server.reload().unwrap();
    server.stop().unwrap();
}

fn stands_beside_another(lab: &Lab, kind: Kind) {
    let one = ServerSpec { label: "one".into(), ..lab.spec(kind, &lab.zone(1)) };
    let other = ServerSpec { label: "other".into(), ..lab.spec(kind, &lab.zone(2)) };
    let (mut one, mut other) = (lab.serve(&one), lab.serve(&other));
    assert!(!one.pids().iter().any(|pid| other.pids().contains(pid)));
    one.stats().unwrap();
    other.stats().unwrap();
    one.stop().unwrap();
    other.alive().unwrap();
    assert_eq!(ask(other.targets()[0], ".", Rtype::SOA, PLAIN).answer, [Rtype::SOA]);
}

fn is_ended_by_a_panic(lab: &Lab, kind: Kind) {
    let spec = lab.spec(kind, &lab.zone(7));
    let pids = std::sync::Mutex::new(Vec::new());
    let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let server = lab.serve(&spec);
        pids.lock().unwrap().extend(server.pids());
        std::panic::resume_unwind(Box::new("a test fails"));
    }));
    assert!(result.is_err());
    let pids = pids.into_inner().unwrap();
    assert!(!pids.is_empty() && !pids.iter().any(|&pid| lives(pid)), "{pids:?}");
}

fn counts(lab: &Lab, kind: Kind) {
    let mut server = lab.serve(&lab.spec(kind, &lab.zone(7)));
    let says = |text: &str| match kind {
        Kind::BIND => text.contains("queries resulted in"),
        Kind::NSD => text.contains("num.queries="),
        Kind::KNOT => text.contains("zone-count = 1"),
        Kind::YADIFA => text.contains("udp (in="),
        _ => text.contains("udp-queries="),
    };
    for n in 1..3 {
        let text = server.stats().unwrap();
        assert!(says(&text), "{text}");
        // Two addresses were asked for readiness, over UDP. Knot does not count without its module.
        let counted = driver(kind).counted(&text);
        assert!(
            if kind == Kind::KNOT { counted.queries().is_none() } else { counted.udp >= Some(2) },
            "{text}"
        );
        assert_eq!(std::fs::read_to_string(server.dir().join(format!("stats-{n}.txt"))).unwrap(), text);
    }
}
