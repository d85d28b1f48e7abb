//! Signed zones that change: whoever signs, all of the zone stays signed, and so do its secondaries.

use crate::lab::{Lab, TIMEOUT};
use measure::{Pace, Seed};
use server::{Kind, Problem, Replication, Server, ServerSpec, Timers, ZoneRef, driver};
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};
use update::TsigKey;
use update::generate::{Mix, Signing, Spec, generate};
use zone::sign::{Algorithm, Options};

for_each_server! { signs_what_changes, takes_what_others_signed }

/// A zone that is signed with keys that stay in a folder, from an hour ago on for 30 days.
struct Signed {
    zone: PathBuf,
    keys: PathBuf,
    inception: u32,
}

const VALIDITY: u32 = 30 * 86_400;

fn signed(lab: &Lab) -> Signed {
    let (zone, keys) = (lab.dir.path().join("root.signed"), lab.dir.path().join("keys"));
    std::fs::create_dir(&keys).unwrap();
    let inception = (measure::clock::wall() / measure::clock::SECOND) as u32 - 3600;
    let options = Options {
        keys: Some(keys.clone()),
        validity: VALIDITY,
        ..Options::new(Algorithm::EcdsaP256Sha256, inception)
    };
    let mut source = zone::order::canonical(&lab.zone(7), &mut |_| {}).unwrap();
    let mut text = Vec::new();
    zone::sign(&mut source, &options, &mut text, &mut |_| {}).unwrap();
    std::fs::write(&zone, text).unwrap();
    Signed { zone, keys, inception }
}

fn spec(lab: &Lab, kind: Kind, label: &str, zone: &Path, part: Replication) -> ServerSpec {
    let zone = ZoneRef { origin: ".".into(), file: zone.into(), signed: true };
    ServerSpec { label: label.into(), zone, distribution: Some(part), ..lab.spec(kind, &lab.zone(7)) }
}

fn at(spec: &ServerSpec) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], spec.port))
}

/// What a server has, record by record, from dig's AXFR.
fn transferred(at: SocketAddr, key: &TsigKey) -> BTreeSet<String> {
    let secret = format!("hmac-sha256:{}:{}", key.name, key.secret);
    let port = at.port().to_string();
    let args = ["-p", &port, "@127.0.0.1", "-y", &secret, ".", "AXFR", "+noall", "+answer", "+onesoa"];
    let output = Command::new("dig").args(args).output().expect("dig (apt-get install bind9-dnsutils)");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let lines =
        text.lines().filter(|line| !line.is_empty() && !line.starts_with(';') && !line.contains("\tTSIG\t"));
    lines.map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
}

/// The serial that a server answers with.
fn serial(at: SocketAddr) -> u32 {
    let port = at.port().to_string();
    let args = ["-p", &port, "@127.0.0.1", ".", "SOA", "+short", "+norec", "+time=5"];
    let output = Command::new("dig").args(args).output().expect("dig (apt-get install bind9-dnsutils)");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.split(' ').nth(2).and_then(|word| word.parse().ok()).unwrap_or_else(|| panic!("no SOA: {text}"))
}

/// A delegation with DS came, and one of the zone's own went.
fn changed(zone: &BTreeSet<String>) {
    let added = |line: &String| line.contains(" IN DS ") && !line.starts_with("tld");
    assert!(zone.iter().any(added), "no delegation with DS was added");
    let here = |name: &str| zone.iter().any(|line| line.starts_with(name));
    assert!((0..50).any(|n| !here(&format!("tld{n:03}. "))), "no delegation was deleted");
}

/// BIND's and NLnet Labs' checkers of a whole zone, where they are installed.
fn verified(lab: &Lab, zone: &BTreeSet<String>) {
    let file = lab.dir.path().join("transferred");
    std::fs::write(&file, zone.iter().map(|line| format!("{line}\n")).collect::<String>()).unwrap();
    let file = file.to_str().unwrap();
    for (program, args) in [("dnssec-verify", &["-o", ".", file][..]), ("ldns-verify-zone", &[file])] {
        match Command::new(program).args(args).output() {
            Err(e) => {
                eprintln!("SKIPPED: {program} cannot be run ({e}); apt-get install bind9-utils ldnsutils")
            }
            Ok(output) => {
                let said = [output.stdout, output.stderr].concat();
                assert!(output.status.success(), "{program}: {}", String::from_utf8_lossy(&said));
            }
        }
    }
}

fn ready(server: &mut Server, zone: &Path) {
    server.ready(&zone::probe(zone).unwrap(), TIMEOUT).unwrap_or_else(|e| panic!("{e}"));
}

/// A primary takes a stream of updates, its secondary follows, and both have a zone that is wholly signed.
fn follows(lab: &Lab, kind: Kind, online: bool) {
    let key = TsigKey::sha256("rack", "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=");
    let made = signed(lab);
    let tuned = Replication { timers: Timers::Tuned, ..Replication::new(key.clone()) };
    // By a path that is relative to us, as a run's may be.
    let keys = online.then(|| {
        let up = std::env::current_dir().unwrap().components().skip(1).map(|_| "../").collect::<String>();
        PathBuf::from(up).join(made.keys.strip_prefix("/").unwrap())
    });
    let mut primary =
        spec(lab, kind, "primary", &made.zone, Replication { updates: true, keys, ..tuned.clone() });
    if kind == Kind::POWERDNS {
        primary.config = Some("cache-ttl=0\nquery-cache-ttl=0\nnegquery-cache-ttl=0".into());
    }
    let mut secondary = spec(lab, Kind::KNOT, "secondary", &made.zone, tuned);
    primary.distribution.as_mut().unwrap().secondaries = vec![at(&secondary)];
    secondary.distribution.as_mut().unwrap().primaries = vec![at(&primary)];
    let mut first = lab.start(&primary).unwrap_or_else(|e| panic!("{e}"));
    ready(&mut first, &made.zone);
    let followed = server::installed(Kind::KNOT).is_some();
    let mut second = followed.then(|| lab.start(&secondary).unwrap_or_else(|e| panic!("{e}")));
    if let Some(second) = &mut second {
        ready(second, &made.zone);
    }
    let log = |server: &Server| std::fs::read_to_string(server.log_path()).unwrap_or_default();
    let mut text = Vec::new();
    let sign = Signing { keys: made.keys.clone(), inception: made.inception, validity: VALIDITY };
    let stream = Spec {
        zone: made.zone.clone(),
        mix: Mix::ISC,
        count: 60,
        batch: 0,
        prerequisites: false,
        seed: Seed(1),
        sign: (!online).then_some(sign),
    };
    let changes = generate(&stream, &mut text, &mut |_| ()).unwrap();
    let file = lab.dir.path().join("updates");
    std::fs::write(&file, &text).unwrap();
    let send = update::SendSpec {
        key: Some(key.clone()),
        deadline: 20 * measure::clock::SECOND,
        ..update::SendSpec::new(at(&primary), &file, Pace::Closed { window: 1 })
    };
    let sent = update::send::run(&send, measure::clock::now, &AtomicBool::new(false), &mut |_| ()).unwrap();
    assert_eq!(sent.accepted, changes.transactions, "{:?}\n{}", sent.rcodes, log(&first));
    // A serial each; PowerDNS puts the date first.
    let last = serial(at(&primary));
    assert!(last >= 7 + 60, "serial {last}\n{}", log(&first));
    // YADIFA answers an AXFR from a file that it wrote earlier.
    let served = (kind != Kind::YADIFA).then(|| transferred(at(&primary), &key));
    if let Some(served) = &served {
        changed(served);
        verified(lab, served);
    }
    if let Some(mut second) = second {
        let until = Instant::now() + TIMEOUT;
        while serial(at(&secondary)) != serial(at(&primary)) {
            second.alive().unwrap_or_else(|e| panic!("{e}"));
            assert!(Instant::now() < until, "at serial {}\n{}", serial(at(&secondary)), log(&second));
            std::thread::sleep(Duration::from_millis(100));
        }
        let copy = transferred(at(&secondary), &key);
        changed(&copy);
        verified(lab, &copy);
        if driver(kind).facts().can.ixfr_out {
            assert!(log(&second).contains("IXFR, incoming"), "no IXFR: {}", log(&second));
            assert!(served.is_none_or(|served| copy == served), "the copies differ");
        }
        second.stop().unwrap_or_else(|e| panic!("{e}"));
    }
    first.stop().unwrap_or_else(|e| panic!("{e}"));
}

/// Why a primary of a signed zone is refused before it is started.
fn refused(lab: &Lab, kind: Kind, keys: Option<PathBuf>) -> String {
    let key = TsigKey::sha256("rack", "AAAA");
    let part = Replication { updates: true, keys, ..Replication::new(key) };
    match *server::check(&spec(lab, kind, "one", &lab.zone(7), part)).unwrap_err().problem {
        Problem::Spec { field: "distribution", why } => why,
        other => panic!("{other:?}"),
    }
}

fn signs_what_changes(lab: &Lab, kind: Kind) {
    match driver(kind).facts().can.signs {
        true => follows(lab, kind, true),
        false => assert!(refused(lab, kind, Some("/keys".into())).contains("takes no updates")),
    }
}

fn takes_what_others_signed(lab: &Lab, kind: Kind) {
    let can = driver(kind).facts().can;
    match can.takes_signatures {
        true => follows(lab, kind, false),
        false if can.update => assert!(refused(lab, kind, None).contains("takes no signatures")),
        false => assert!(refused(lab, kind, None).contains("takes no updates")),
    }
}
