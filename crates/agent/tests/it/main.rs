//! Agents with a real server: on this machine, and reached over a connection as one elsewhere is.
//!
//! A test whose server is not installed says SKIPPED on standard error and passes.

use agent::{Agent, Here, Meter, Readings, Server, Watched};
use measure::clock::{self, SECOND};
use rack::Host;
use server::{Kind, ServerSpec, ZoneRef};
use std::io::BufReader;
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU16, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const TIMEOUT: Duration = Duration::from_secs(30);

const ZONE: &str = ". 86400 IN SOA a.root-servers.test. h.root-servers.test. 7 1800 900 604800 86400\n\
    . 518400 IN NS a.root-servers.test.\na.root-servers.test. 518400 IN A 192.0.2.53\n\
    tld. 172800 IN NS ns.tld.\nns.tld. 172800 IN A 192.0.2.1\n";

/// An agent of this machine.
fn here(stop: &Arc<AtomicBool>) -> Agent {
    Agent::new(&Arc::new(Here::default()), Host::loopback(), stop)
}

/// An agent that is reached over a connection and keeps files in a folder of `folder`, and the thread that it is at work on.
fn over(stop: &Arc<AtomicBool>, folder: &Path) -> (Agent, JoinHandle<Result<(), agent::Error>>) {
    let (orders, order) = std::io::pipe().unwrap();
    let (words, word) = std::io::pipe().unwrap();
    let there = folder.join(THERE);
    let serving =
        std::thread::spawn(move || agent::serve(&there, BufReader::new(orders), word, TIMEOUT, lost));
    (Agent::connect(order, words, folder, Host::loopback(), stop).unwrap(), serving)
}

/// Panics: the coordinators of these tests are there.
fn lost() {
    panic!("the coordinator is there");
}

/// The folder of an agent over a connection.
const THERE: &str = "there";

/// Files below a folder, without folders.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

/// Does a test with both kinds of agents, in a folder each.
fn both(test: fn(&Agent, &Arc<AtomicBool>, &Path)) {
    if server::installed(Kind::NSD).is_none() {
        eprintln!("SKIPPED: NSD is not installed (apt-get install nsd)");
        return;
    }
    let stop = Arc::new(AtomicBool::new(false));
    let folder = tempfile::tempdir().unwrap();
    test(&here(&stop), &stop, folder.path());
    let (stop, folder) = (Arc::new(AtomicBool::new(false)), tempfile::tempdir().unwrap());
    let (agent, serving) = over(&stop, folder.path());
    test(&agent, &stop, folder.path());
    drop(agent);
    serving.join().unwrap().unwrap();
    let left = files(&folder.path().join(THERE));
    assert!(left.iter().all(|file| file.parent().unwrap().ends_with("files")), "{left:?}");
}

/// A server of a small zone on a free port.
fn spec(folder: &Path) -> ServerSpec {
    let file = folder.join("root.zone");
    std::fs::write(&file, ZONE).unwrap();
    let free = |port: &u16| {
        ["127.0.0.1", "::1"].iter().all(|ip| {
            let address = SocketAddr::new(ip.parse().unwrap(), *port);
            UdpSocket::bind(address).is_ok() && TcpListener::bind(address).is_ok()
        })
    };
    // Each once, as tests run side by side.
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let start = 30_000 - (std::process::id() % 1_000) as u16 * 10;
    let port = std::iter::repeat_with(|| start + NEXT.fetch_add(1, Ordering::Relaxed)).find(free).unwrap();
    let zone = ZoneRef { origin: ".".into(), file, signed: false };
    ServerSpec { port, ..ServerSpec::new(Kind::NSD, zone) }
}

#[test]
fn a_server_is_started_asked_watched_and_ended() {
    both(|agent, _, folder| {
        let spec = spec(folder);
        let probe = zone::probe(&spec.zone.file).unwrap();
        let mut server = Server::start(agent, &spec, &folder.join("nsd")).unwrap();
        assert!(server.version().starts_with(|c: char| c.is_ascii_digit()), "{}", server.version());
        assert_eq!(server.targets(), spec.targets(&agent.host));
        let (took, peak) = server.while_watching(|server| server.ready(&probe, TIMEOUT)).unwrap();
        assert!(took.unwrap() < TIMEOUT && peak > 0);
        server.alive().unwrap();
        let memory = server.memory().unwrap();
        let pss = memory.iter().find(|m| m.name == "server_pss").unwrap();
        assert!(pss.value > 1e5, "{memory:?}");
        let mapped = server.maps().unwrap();
        assert!(mapped.processes > 1 && mapped.maps.iter().map(|m| m.pss).sum::<u64>() > 100_000);
        assert!(server.pss().unwrap() > 100_000);
        assert!(server.receive_buffer(None).unwrap().unwrap() > 1000);

        let mut watched = Watched::default();
        watched.server(&server, false);
        watched.generator(agent, [std::process::id()]);
        let readings = Readings::open(agent, watched).unwrap();
        let first = readings.read().unwrap();
        assert!(first.server.unwrap().usage.rss > 100_000 && first.generators.usage.rss > 100_000);
        let meter = Meter::start(&readings, clock::wall() + SECOND / 20, SECOND / 5).unwrap();
        server.reload().unwrap();
        server.ready(&probe, TIMEOUT).unwrap();
        std::thread::sleep(Duration::from_millis(400));
        let metered = meter.end().unwrap();
        assert!(metered.counted.len() >= 2 && metered.server.is_some(), "{metered:?}");
        assert!(readings.read().unwrap().at > first.at);

        assert!(server.stats().unwrap().contains("num.queries"));
        server.kill().unwrap();
        server.start_again().unwrap();
        assert_eq!(server.back(TIMEOUT).unwrap().1, 7);
        server.stop().unwrap();
        UdpSocket::bind(spec.targets(&agent.host)[0]).unwrap();
    });
}

#[test]
fn a_wait_is_given_up_when_that_is_asked_for() {
    both(|agent, stop, folder| {
        let spec = spec(folder);
        let probe = zone::probe(&spec.zone.file).unwrap();
        let mut server = Server::start(agent, &spec, &folder.join("nsd")).unwrap();
        server.ready(&probe, TIMEOUT).unwrap();
        // After a reload an old serial is waited for.
        server.reload().unwrap();
        let never = zone::Probe { serial: 8, ..probe };
        let began = Instant::now();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(Duration::from_millis(100));
                stop.store(true, Ordering::Relaxed);
            });
            let error = server.ready(&never, Duration::from_secs(600)).unwrap_err().to_string();
            assert!(error.contains("the run was stopped"), "{error}");
        });
        assert!(began.elapsed() < Duration::from_secs(60));
    });
}

#[test]
fn errors_say_the_same_from_elsewhere() {
    let stop = Arc::new(AtomicBool::new(false));
    let folder = tempfile::tempdir().unwrap();
    let (there, _serving) = over(&stop, folder.path());
    let spec = ServerSpec { udp_size: 100, ..spec(folder.path()) };
    let said = [&here(&stop), &there].map(|agent| {
        let error = Server::start(agent, &spec, &folder.path().join("nsd")).err().unwrap();
        assert!(!error.is_zone_refused());
        error.to_string()
    });
    assert_eq!(said[0], said[1]);
    assert!(said[0].contains("100"), "{said:?}");
}

#[test]
fn what_was_started_ends_with_the_orders() {
    if server::installed(Kind::NSD).is_none() {
        eprintln!("SKIPPED: NSD is not installed (apt-get install nsd)");
        return;
    }
    let stop = Arc::new(AtomicBool::new(false));
    let folder = tempfile::tempdir().unwrap();
    let (agent, serving) = over(&stop, folder.path());
    let spec = spec(folder.path());
    let mut server = Server::start(&agent, &spec, &folder.path().join("nsd")).unwrap();
    server.ready(&zone::probe(&spec.zone.file).unwrap(), TIMEOUT).unwrap();
    // As where the coordinator dies: nobody says that the server is not needed any more.
    std::mem::forget(server);
    let targets = spec.targets(&agent.host);
    agent.hang_up();
    serving.join().unwrap().unwrap();
    targets.iter().for_each(|at| drop(UdpSocket::bind(at).unwrap()));
}

#[test]
fn files_go_there_once_and_come_back() {
    let stop = Arc::new(AtomicBool::new(false));
    let folder = tempfile::tempdir().unwrap();
    let (agent, serving) = over(&stop, folder.path());
    let trial = folder.path().join("servers/7");
    std::fs::create_dir_all(&trial).unwrap();
    let zone = trial.join("zone");
    // More than one piece of it.
    let text: Vec<u8> = (0u32..700_000).flat_map(u32::to_le_bytes).collect();
    std::fs::write(&zone, &text).unwrap();
    let there = agent.put(&zone).unwrap();
    assert_ne!(there, zone);
    assert_eq!(std::fs::read(&there).unwrap(), text);
    // Another name of what is there: nothing is sent, so a fault that the store has shows.
    let kept = files(&folder.path().join(THERE).join("files"));
    assert_eq!(kept.len(), 1);
    let (again, outside) = (trial.join("again"), tempfile::tempdir().unwrap());
    std::fs::copy(&zone, &again).unwrap();
    std::fs::write(outside.path().join("queries"), "a.example A\n").unwrap();
    assert_eq!(std::fs::read(agent.put(&again).unwrap()).unwrap(), text);
    let queries = agent.put(&outside.path().join("queries")).unwrap();
    assert_eq!(std::fs::read_to_string(queries).unwrap(), "a.example A\n");
    assert_eq!(files(&folder.path().join(THERE).join("files")).len(), 2);
    // What changed is sent again.
    std::fs::write(&again, "changed").unwrap();
    let at = agent.put(&again).unwrap();
    assert_eq!(std::fs::read_to_string(&at).unwrap(), "changed");
    // What is written there comes back, and nothing is left of it.
    let log = trial.join("nsd/nsd.log");
    std::fs::write(agent.place(&log).unwrap(), "started\n").unwrap();
    std::fs::write(agent.place(&trial.join("large")).unwrap(), vec![0; 17 << 20]).unwrap();
    agent.collect(&trial).unwrap();
    assert_eq!(std::fs::read_to_string(&log).unwrap(), "started\n");
    assert!(!trial.join("large").exists() && !there.exists());
    assert_eq!(std::fs::read(&zone).unwrap(), text, "what is here stays as it is");
    assert_eq!(std::fs::read(agent.put(&zone).unwrap()).unwrap(), text);
    let offset = agent.clock().unwrap();
    assert!(offset.ahead.unsigned_abs() <= offset.bound + 1_000_000, "it is one clock: {offset:?}");
    drop(agent);
    serving.join().unwrap().unwrap();
    assert_eq!(files(&folder.path().join(THERE)).len(), 3, "what was sent is kept, and nothing else");
}

#[test]
fn a_coordinator_that_is_silent_is_taken_for_lost() {
    let folder = tempfile::tempdir().unwrap();
    let (orders, order) = std::io::pipe().unwrap();
    let (mut words, word) = std::io::pipe().unwrap();
    let there = folder.path().join(THERE);
    let (tell, told) = std::sync::mpsc::channel();
    let serving = std::thread::spawn(move || {
        let lost = move || tell.send(()).unwrap();
        agent::serve(&there, BufReader::new(orders), word, Duration::from_millis(50), lost)
    });
    // It says that it is there, and hears nothing.
    std::io::Read::read_exact(&mut words, &mut [0; 8]).unwrap();
    told.recv_timeout(TIMEOUT).unwrap();
    drop(order);
    serving.join().unwrap().unwrap();
}
