//! Zones that change: updates to a primary, and what its secondaries serve of them.

use crate::lab::{Answer, How, Lab, PLAIN, TIMEOUT, ask, free_port, try_ask};
use domain::base::iana::{Rcode, Rtype};
use server::{Kind, Problem, Replication, Server, ServerSpec, Timers, driver};
use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::time::Instant;
use update::TsigKey;

for_each_server! {
    has_the_zone_from_a_primary, tells_a_secondary, hands_on_what_it_got, drops_no_update_where_tuned,
}

fn key() -> TsigKey {
    TsigKey::sha256("rack", "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=")
}

/// A server in a distribution at an address of its own.
fn spec(lab: &Lab, kind: Kind, label: &str, part: Replication) -> ServerSpec {
    let zone = lab.zone(7);
    ServerSpec { label: label.into(), distribution: Some(part), ..lab.spec(kind, &zone) }
}

fn at(spec: &ServerSpec) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], spec.port))
}

fn tuned() -> Replication {
    Replication { timers: Timers::Tuned, ..Replication::new(key()) }
}

fn ready(server: &mut Server, lab: &Lab) {
    let probe = zone::probe(&lab.zone(7)).unwrap();
    server.ready(&probe, TIMEOUT).unwrap_or_else(|e| panic!("{e}"));
}

/// Has nsupdate send these lines; what it says where that fails.
fn nsupdate(target: SocketAddr, secret: &str, lines: &str) -> Result<(), String> {
    let mut child = Command::new("nsupdate")
        .args(["-t", "10", "-y", &format!("hmac-sha256:rack:{secret}")])
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("nsupdate (apt-get install bind9-dnsutils)");
    let text = format!("server {} {}\nzone .\n{lines}\nsend\n", target.ip(), target.port());
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), text.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    if output.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&output.stderr).into_owned()) }
}

/// Waits until a name has a TXT record here. A connection that the server resets is opened again: the processes of NSD
/// that a reload replaces may reset one while they end.
fn appears(server: &mut Server, name: &str) {
    let until = Instant::now() + TIMEOUT;
    let target = server.targets()[0];
    loop {
        let answer = try_ask(target, name, Rtype::TXT, How { tcp: true, ..PLAIN });
        if answer.as_ref().is_ok_and(|answer| Answer::count(&answer.answer, Rtype::TXT) == 1) {
            return;
        }
        server.alive().unwrap_or_else(|e| panic!("{e}"));
        let log = || std::fs::read_to_string(server.log_path()).unwrap_or_default();
        assert!(Instant::now() < until, "{name} does not appear at {target}: {answer:?}\n{}", log());
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
}

/// Servers whose zone is not changed where they answer from a cache for a while.
fn without_cache(kind: Kind) -> Option<String> {
    (kind == Kind::POWERDNS).then(|| "cache-ttl=0\nquery-cache-ttl=0\nnegquery-cache-ttl=0".into())
}

fn has_the_zone_from_a_primary(lab: &Lab, kind: Kind) {
    if server::installed(Kind::BIND).is_none() {
        return eprintln!("SKIPPED: no bind");
    }
    for dump in [false, true] {
        let (one, other) = (format!("primary-{dump}"), format!("secondary-{dump}"));
        let mut primary = spec(lab, Kind::BIND, &one, Replication { updates: true, ..tuned() });
        let mut secondary = spec(lab, kind, &other, tuned());
        secondary.config = without_cache(kind);
        primary.distribution.as_mut().unwrap().secondaries = vec![at(&secondary)];
        let part = secondary.distribution.as_mut().unwrap();
        (part.primaries, part.dump) = (vec![at(&primary)], dump);
        let mut first = lab.start(&primary).unwrap_or_else(|e| panic!("{e}"));
        ready(&mut first, lab);
        let mut second = lab.start(&secondary).unwrap_or_else(|e| panic!("{e}"));
        ready(&mut second, lab);
        nsupdate(at(&primary), &key().secret, "update add new. 300 TXT one").unwrap();
        appears(&mut first, "new.");
        appears(&mut second, "new.");
        // Who has another key changes nothing.
        let wrong = nsupdate(at(&primary), "AAAA", "update add wrong. 300 TXT one").unwrap_err();
        assert!(wrong.contains("BADSIG") || wrong.contains("NOTAUTH"), "{wrong}");
        let none = ask(second.targets()[0], "wrong.", Rtype::TXT, PLAIN);
        assert_eq!(none.rcode, Rcode::NXDOMAIN);
        second.stop().unwrap_or_else(|e| panic!("{e}"));
        first.stop().unwrap_or_else(|e| panic!("{e}"));
    }
}

/// Each as a primary of an NSD; updated where it can be.
fn tells_a_secondary(lab: &Lab, kind: Kind) {
    if server::installed(Kind::NSD).is_none() {
        return eprintln!("SKIPPED: no nsd");
    }
    let updates = driver(kind).facts().can.update;
    let mut primary = spec(lab, kind, "primary", Replication { updates, ..tuned() });
    let mut secondary = spec(lab, Kind::NSD, "secondary", tuned());
    primary.distribution.as_mut().unwrap().secondaries = vec![at(&secondary)];
    secondary.distribution.as_mut().unwrap().primaries = vec![at(&primary)];
    let mut first = lab.start(&primary).unwrap_or_else(|e| panic!("{e}"));
    ready(&mut first, lab);
    let mut second = lab.start(&secondary).unwrap_or_else(|e| panic!("{e}"));
    ready(&mut second, lab);
    if updates {
        nsupdate(at(&primary), &key().secret, "update add new. 300 TXT one").unwrap();
        appears(&mut first, "new.");
        appears(&mut second, "new.");
    }
    second.stop().unwrap_or_else(|e| panic!("{e}"));
    first.stop().unwrap_or_else(|e| panic!("{e}"));
}

/// More updates wait at once than BIND takes by default, which are 100; the kernel keeps some 190 small datagrams for a socket.
fn drops_no_update_where_tuned(lab: &Lab, kind: Kind) {
    if !driver(kind).facts().can.update {
        return;
    }
    let primary = spec(lab, kind, "primary", Replication { updates: true, ..tuned() });
    let mut server = lab.start(&primary).unwrap_or_else(|e| panic!("{e}"));
    ready(&mut server, lab);
    let file = lab.dir.path().join("updates");
    let lines = (0..300).map(|n| format!("update add w{n}. 300 TXT x\nsend\n"));
    std::fs::write(&file, format!("zone .\n{}", lines.collect::<String>())).unwrap();
    let send = update::SendSpec {
        key: Some(key()),
        deadline: 100 * measure::clock::SECOND,
        ..update::SendSpec::new(at(&primary), &file, measure::Pace::Closed { window: 150 })
    };
    let stop = std::sync::atomic::AtomicBool::new(false);
    let sent = update::send::run(&send, measure::clock::now, &stop, &mut |_| ()).unwrap();
    assert_eq!((sent.accepted, sent.lost), (300, 0), "{:?}", sent.rcodes);
    server.stop().unwrap_or_else(|e| panic!("{e}"));
}

/// A chain: each between a BIND primary and a Knot secondary.
fn hands_on_what_it_got(lab: &Lab, kind: Kind) {
    if server::installed(Kind::BIND).is_none() || server::installed(Kind::KNOT).is_none() {
        return eprintln!("SKIPPED: no bind or no knot");
    }
    let mut primary = spec(lab, Kind::BIND, "primary", Replication { updates: true, ..tuned() });
    let mut middle = spec(lab, kind, "middle", tuned());
    middle.config = without_cache(kind);
    let mut last = spec(lab, Kind::KNOT, "last", tuned());
    primary.distribution.as_mut().unwrap().secondaries = vec![at(&middle)];
    let part = middle.distribution.as_mut().unwrap();
    (part.primaries, part.secondaries) = (vec![at(&primary)], vec![at(&last)]);
    last.distribution.as_mut().unwrap().primaries = vec![at(&middle)];
    let mut servers = Vec::new();
    for spec in [&primary, &middle, &last] {
        let mut server = lab.start(spec).unwrap_or_else(|e| panic!("{e}"));
        ready(&mut server, lab);
        servers.push(server);
    }
    nsupdate(at(&primary), &key().secret, "update add new. 300 TXT one").unwrap();
    servers.iter_mut().for_each(|server| appears(server, "new."));
    for server in servers.into_iter().rev() {
        server.stop().unwrap_or_else(|e| panic!("{e}"));
    }
}

#[test]
fn what_a_server_cannot_is_refused_before_it_starts() {
    let lab = Lab::new();
    let why = |kind: Kind, part: Replication| {
        let spec = ServerSpec { port: free_port(), ..spec(&lab, kind, "one", part) };
        match *server::check(&spec).unwrap_err().problem {
            Problem::Spec { field: "distribution", why } => why,
            other => panic!("{other:?}"),
        }
    };
    let primaries = vec![SocketAddr::from(([127, 0, 0, 1], 53))];
    assert!(why(Kind::NSD, Replication { updates: true, ..tuned() }).contains("nsd takes no updates"));
    let both = Replication { updates: true, primaries: primaries.clone(), ..tuned() };
    assert!(why(Kind::BIND, both).contains("send them to its primary"));
    let signs = Replication { keys: Some("/keys".into()), primaries, ..tuned() };
    assert!(why(Kind::BIND, signs).contains("does not sign"));
    let odd = Replication::new(TsigKey::sha256("a\"b", "AAAA"));
    assert!(why(Kind::KNOT, odd).contains("give it a name of letters"));
}
