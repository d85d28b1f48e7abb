//! Everything that goes wrong is named, most of it before anything is started.

use crate::lab::{Lab, TIMEOUT, lives};
use rack::Local;
use server::{Kind, Problem, Replication, ServerSpec};
use std::net::{TcpListener, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use update::TsigKey;

for_each_server! {
    wrong_serial_is_named, wrong_answer_is_named, broken_zone_is_quoted, missing_zone_file_is_refused,
    occupied_port_is_refused, foreign_address_is_refused, missing_program_is_refused, typing_error_is_quoted,
    death_is_noticed, used_folder_is_refused,
}

fn wrong_serial_is_named(lab: &Lab, kind: Kind) {
    let mut server = lab.start(&lab.spec(kind, &lab.zone(7))).unwrap();
    let probe = zone::probe(&lab.zone(2_147_483_653)).unwrap();
    let error = server.ready(&probe, TIMEOUT).unwrap_err();
    match *error.problem {
        Problem::WrongSerial { expected, got, .. } => assert_eq!((expected, got), (2_147_483_653, 7)),
        _ => panic!("{error}"),
    }
    assert_eq!(error.label, kind.name());
}

fn wrong_answer_is_named(lab: &Lab, kind: Kind) {
    let spec = lab.spec(kind, &lab.zone(7));
    let mut server = lab.serve(&spec);
    let good = zone::probe(&spec.zone.file).unwrap();
    let mut other = good.clone();
    *other.rdata[0].iter_mut().rev().nth(3).unwrap() ^= 1;
    let mut more = good.clone();
    more.rdata.pop();
    let mut none = good.clone();
    none.name = "tld999.".parse_name();
    for (probe, why) in [(other, "other record data"), (more, "2 records"), (none, "NXDOMAIN")] {
        let error = server.ready(&probe, TIMEOUT).unwrap_err();
        assert!(matches!(*error.problem, Problem::WrongAnswer { .. }), "{error}");
        assert!(error.to_string().contains(why), "{error}");
    }
    server.ready(&good, TIMEOUT).unwrap();
}

trait ParseName {
    fn parse_name(&self) -> wire::name::Name;
}

impl ParseName for str {
    fn parse_name(&self) -> wire::name::Name {
        wire::name::Name::parse_text(self, None).unwrap()
    }
}

fn broken_zone_is_quoted(lab: &Lab, kind: Kind) {
    let good = lab.zone(7);
    let broken = lab.dir.path().join("broken.zone");
    let text = std::fs::read_to_string(&good).unwrap() + "tld999. 172800 IN NSX ns1.tld999.\n";
    std::fs::write(&broken, text).unwrap();
    let mut server = lab.start(&lab.spec(kind, &broken)).unwrap();
    let error = server.ready(&zone::probe(&good).unwrap(), TIMEOUT).unwrap_err();
    let Problem::Refused { cause } = &*error.problem else { panic!("{error}") };
    // YADIFA quotes the line instead of naming the file.
    let word = if kind == Kind::YADIFA { "tld999. 172800 IN NSX" } else { "broken.zone" };
    assert!(cause.errors && cause.lines.iter().any(|line| line.contains(word)), "{error}");
    assert_eq!(cause.file, server.log_path());
    let pids = server.pids();
    drop(server);
    assert!(!pids.iter().any(|&pid| lives(pid)));
}

/// The problem of a start that must fail and leave nothing, not even the folder.
fn refused(lab: &Lab, spec: &ServerSpec) -> server::Error {
    let error = lab.start(spec).unwrap_err();
    assert!(!lab.folder(spec).exists(), "{error}");
    error
}

fn missing_zone_file_is_refused(lab: &Lab, kind: Kind) {
    let spec = lab.spec(kind, &lab.dir.path().join("nowhere.zone"));
    let error = refused(lab, &spec);
    assert!(matches!(*error.problem, Problem::Zone { .. }), "{error}");
    assert!(error.to_string().contains("nowhere.zone"), "{error}");
}

fn occupied_port_is_refused(lab: &Lab, kind: Kind) {
    let spec = lab.spec(kind, &lab.zone(7));
    let targets = spec.targets(&lab.host);
    let udp = UdpSocket::bind(targets[1]).unwrap();
    let error = refused(lab, &spec);
    assert!(
        matches!(*error.problem, Problem::PortInUse { transport: "UDP", address, .. } if address == targets[1])
    );
    assert!(error.to_string().contains("occupied"), "{error}");
    drop(udp);
    let tcp = TcpListener::bind(targets[0]).unwrap();
    let error = refused(lab, &spec);
    assert!(
        matches!(*error.problem, Problem::PortInUse { transport: "TCP", address, .. } if address == targets[0])
    );
    drop(tcp);
    lab.serve(&spec);
}

fn foreign_address_is_refused(lab: &Lab, kind: Kind) {
    let spec = ServerSpec { addresses: vec!["192.0.2.77".parse().unwrap()], ..lab.spec(kind, &lab.zone(7)) };
    let error = refused(lab, &spec);
    assert!(matches!(*error.problem, Problem::Address { .. }), "{error}");
}

fn missing_program_is_refused(lab: &Lab, kind: Kind) {
    for program in ["/nowhere/sbin/server", "dnsrack-no-such-program"] {
        let spec = ServerSpec { program: Some(program.into()), ..lab.spec(kind, &lab.zone(7)) };
        let error = refused(lab, &spec);
        assert!(matches!(*error.problem, Problem::Missing { .. }), "{error}");
        let text = error.to_string();
        assert!(text.contains(program) && text.contains("apt-get install "), "{text}");
    }
}

fn typing_error_is_quoted(lab: &Lab, kind: Kind) {
    let config = match kind {
        Kind::BIND => "minimal-respnses yes;",
        Kind::NSD => "\ttcp-cuont: 5",
        Kind::KNOT => "server:\n    tcp-max-cleints: 5",
        Kind::YADIFA => "<main>\n\tmax-tcp-quieres 5\n</main>",
        _ => "max-tcp-conections=5",
    };
    let spec = ServerSpec { config: Some(config.into()), ..lab.spec(kind, &lab.zone(7)) };
    let error = lab.start(&spec).unwrap_err();
    let Problem::Config { said, path, .. } = &*error.problem else { panic!("{error}") };
    let word = config.split_whitespace().find(|w| w.contains('-')).unwrap();
    let word = word.trim_end_matches([':', ';']).split('=').next().unwrap();
    assert!(said.contains(word), "{error}");
    assert!(path.exists());
}

fn death_is_noticed(lab: &Lab, kind: Kind) {
    let mut server = lab.serve(&lab.spec(kind, &lab.zone(7)));
    let pids = server.pids();
    let pid = rustix::process::Pid::from_raw(pids[0] as i32).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    let until = Instant::now() + TIMEOUT;
    let error = loop {
        match server.alive() {
            Err(error) => break error,
            Ok(()) => assert!(Instant::now() < until),
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    let Problem::Died { status, cause, .. } = &*error.problem else { panic!("{error}") };
    assert!(status.contains("SIGKILL"), "{error}");
    assert!(!cause.lines.is_empty());
    let probe = zone::probe(&lab.zone(7)).unwrap();
    let error = server.ready(&probe, TIMEOUT).unwrap_err();
    assert!(matches!(*error.problem, Problem::Died { .. }), "{error}");
    assert!(matches!(*server.reload().unwrap_err().problem, Problem::Died { .. }));
    // None of its other processes goes on answering.
    assert!(!pids.iter().any(|&pid| lives(pid)), "{pids:?}");
    assert!(matches!(*server.stop().unwrap_err().problem, Problem::Died { .. }));
}

fn used_folder_is_refused(lab: &Lab, kind: Kind) {
    let spec = lab.spec(kind, &lab.zone(7));
    lab.serve(&spec).stop().unwrap();
    let error = lab.start(&spec).unwrap_err();
    assert!(matches!(*error.problem, Problem::DirectoryNotEmpty(_)), "{error}");
}

/// A configuration that the checker passes, but not the server.
#[test]
fn early_death_is_quoted() {
    let bad = [
        (Kind::NSD, "\tip-address: 192.0.2.77", "192.0.2.77"),
        (Kind::POWERDNS, "local-address=192.0.2.77", "192.0.2.77"),
    ];
    for (kind, config, word) in bad {
        if server::installed(kind).is_none() {
            eprintln!("SKIPPED: {kind} is not installed");
            continue;
        }
        let lab = Lab::new();
        let spec = ServerSpec { config: Some(config.into()), ..lab.spec(kind, &lab.zone(7)) };
        let probe = zone::probe(&spec.zone.file).unwrap();
        // It may die before or after the start looks for it.
        let error = server::start(Local, &lab.host, &spec, &lab.folder(&spec))
            .and_then(|mut server| server.ready(&probe, TIMEOUT))
            .unwrap_err();
        assert!(matches!(*error.problem, Problem::Died { .. }), "{error}");
        assert!(error.to_string().contains(word), "{error}");
    }
}

/// PowerDNS as a primary loads its zone into a database before it starts, with a tool that takes its time.
#[test]
fn tools_end_when_the_run_does() {
    if server::installed(Kind::POWERDNS).is_none() {
        eprintln!("SKIPPED: powerdns is not installed");
        return;
    }
    let lab = Lab::new();
    let file = lab.zone(7);
    let mut text = std::fs::read_to_string(&file).unwrap();
    text.extend((0..300_000).map(|n| format!("x{n}. 172800 IN NS ns1.x{n}.\n")));
    std::fs::write(&file, text).unwrap();
    let key = TsigKey::sha256("rack", "c2VjcmV0");
    let part = Replication { updates: true, ..Replication::new(key) };
    let spec = ServerSpec { distribution: Some(part), ..lab.spec(Kind::POWERDNS, &file) };
    let stop = Arc::new(AtomicBool::new(false));
    let folder = lab.folder(&spec);
    std::thread::scope(|scope| {
        let heeded = Some(stop.clone());
        let starting =
            scope.spawn(|| server::start_heeding(heeded, Local, &lab.host, &spec, &folder).map(drop));
        let until = Instant::now() + TIMEOUT;
        while !folder.join("zone.db").exists() {
            if starting.is_finished() || Instant::now() > until {
                panic!("its tool was never seen: {:?}", starting.join().unwrap());
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        stop.store(true, Ordering::Relaxed);
        let error = starting.join().unwrap().unwrap_err();
        assert!(matches!(*error.problem, Problem::Stopped), "{error}");
    });
}
