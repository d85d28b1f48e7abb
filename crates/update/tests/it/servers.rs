//! Real servers on loopback ports: what a stream makes of their zone, and what they refuse.

use crate::model::Model;
use crate::support::{MS, brief, free_port, only_noise, rate, send, spec, stream, updates, zone_file};
use measure::Pace;
use measure::clock::SECOND;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use update::generate::{Mix, Spec};
use update::{MarkerSpec, SendSpec, SendTransport, TsigKey};
use zone::Family;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Bind,
    Knot,
}

impl Kind {
    fn program(self) -> &'static str {
        match self {
            Self::Bind => "named",
            Self::Knot => "knotd",
        }
    }
}

/// A server with one zone that takes updates signed with a key; killed when dropped.
struct Primary {
    kind: Kind,
    dir: tempfile::TempDir,
    addr: SocketAddr,
    child: Child,
}

fn find(program: &str) -> Option<PathBuf> {
    let found = ["/usr/sbin", "/usr/bin", "/usr/local/sbin", "/usr/local/bin"]
        .iter()
        .map(|f| Path::new(f).join(program))
        .find(|p| p.exists());
    if found.is_none() {
        eprintln!("SKIPPED: {program} is not installed");
    }
    found
}

impl Primary {
    /// Starts it with a copy of the zone file, and waits until it answers. None, and said so, where it is not installed.
    fn start(kind: Kind, origin: &str, zone: &Path, key: &TsigKey) -> Option<Self> {
        find(kind.program())?;
        let dir = tempfile::tempdir().unwrap();
        std::fs::copy(zone, dir.path().join("zone")).unwrap();
        std::fs::create_dir(dir.path().join("db")).unwrap();
        let addr = SocketAddr::from(([127, 0, 0, 1], free_port()));
        let config = configuration(kind, dir.path(), addr, origin, key);
        std::fs::write(dir.path().join("conf"), config).unwrap();
        let child = launch(kind, dir.path());
        let primary = Self { kind, dir, addr, child };
        primary.wait(origin);
        Some(primary)
    }

    fn wait(&self, origin: &str) {
        let deadline = Instant::now() + Duration::from_secs(30);
        while !self.dig(&[origin, "SOA", "+time=1", "+tries=1"]).contains("status: NOERROR") {
            assert!(Instant::now() < deadline, "{:?} does not answer: {}", self.kind, self.log());
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn log(&self) -> String {
        let log = std::fs::read_to_string(self.dir.path().join("log")).unwrap_or_default();
        let lines: Vec<_> = log.lines().collect();
        lines[lines.len().saturating_sub(12)..].join("\n")
    }

    fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    fn start_again(&mut self, origin: &str) {
        self.child = launch(self.kind, self.dir.path());
        self.wait(origin);
    }

    fn dig(&self, args: &[&str]) -> String {
        let (at, port) = (format!("@{}", self.addr.ip()), self.addr.port().to_string());
        let out = Command::new("dig")
            .args([&at, "-p", &port, "+norec"])
            .args(args)
            .output()
            .expect("dig is installed");
        String::from_utf8_lossy(&out.stdout).into_owned()
    }

    /// What it serves now, by an AXFR of dig's.
    fn zone(&self, origin: &str) -> Model {
        let text = self.dig(&[origin, "AXFR", "+noall", "+answer", "+onesoa"]);
        assert!(text.contains("SOA"), "no AXFR: {text} {}", self.log());
        Model::read(text.as_bytes())
    }
}

impl Drop for Primary {
    fn drop(&mut self) {
        self.kill();
    }
}

fn launch(kind: Kind, dir: &Path) -> Child {
    let log = std::fs::File::options().create(true).append(true).open(dir.join("log")).unwrap();
    let config = dir.join("conf");
    let config = config.to_str().unwrap();
    let args = match kind {
        Kind::Bind => vec!["-g", "-n", "1", "-c", config],
        Kind::Knot => vec!["-c", config],
    };
    let program = find(kind.program()).expect("it was there");
    Command::new(program)
        .args(args)
        .current_dir(dir)
        .stdin(Stdio::null())
        .stdout(log.try_clone().unwrap())
        .stderr(log)
        .spawn()
        .unwrap()
}

fn configuration(kind: Kind, dir: &Path, addr: SocketAddr, origin: &str, key: &TsigKey) -> String {
    let (dir, port, TsigKey { name, algorithm, secret, .. }) = (dir.display(), addr.port(), key);
    match kind {
        Kind::Bind => format!(
            "{key}options {{ directory \"{dir}\"; listen-on port {port} {{ 127.0.0.1; }}; listen-on-v6 {{ none; }}; recursion no;\n\
             allow-transfer {{ any; }}; notify no; pid-file none; session-keyfile \"{dir}/session\"; dnssec-validation no;\n\
             check-names primary ignore; }};\ncontrols {{ }};\n\
             zone \"{origin}\" {{ type primary; file \"zone\"; allow-update {{ key \"{name}\"; }}; }};\n",
            key = key.bind()
        ),
        Kind::Knot => format!(
            "server:\n    rundir: \"{dir}\"\n    pidfile: \"{dir}/pid\"\n    listen: [ \"127.0.0.1@{port}\" ]\n\
             control:\n    listen: \"{dir}/control\"\nlog:\n  - target: stderr\n    any: info\n\
             database:\n    storage: \"{dir}/db\"\nkey:\n  - id: \"{name}\"\n    algorithm: {algorithm}\n    secret: \"{secret}\"\n\
             acl:\n  - id: update\n    action: update\n    key: \"{name}\"\n  - id: transfer\n    action: transfer\n    address: 127.0.0.1\n\
             zone:\n  - domain: \"{origin}\"\n    file: \"{dir}/zone\"\n    zonefile-sync: -1\n    acl: [ update, transfer ]\n"
        ),
    }
}

/// Plays a stream over our sender into a server, and sets what the server then has beside the model.
fn plays(kind: Kind, mix: Mix, count: u64, transport: SendTransport, prerequisites: bool) {
    let dir = tempfile::tempdir().unwrap();
    let key = TsigKey::random("lab").unwrap();
    let zone = zone_file(dir.path(), Family::S6Ds50, 400);
    let Some(primary) = Primary::start(kind, ".", &zone, &key) else { return };
    let before = Model::read(&std::fs::read(&zone).unwrap());
    assert_eq!(primary.zone("."), before, "{kind:?} serves something else");
    let (text, made) = stream(&Spec { prerequisites, ..spec(&zone, mix, count) });
    let file = dir.path().join("updates");
    std::fs::write(&file, &text).unwrap();
    let marker = Some(MarkerSpec { name: None, every: 200 * MS, first: 1, scattered: None });
    let r = send(&SendSpec {
        key: Some(key),
        transport,
        marker,
        deadline: 20 * SECOND,
        ..SendSpec::new(primary.addr, &file, Pace::Closed { window: 1 })
    });
    only_noise(&r);
    assert_eq!(
        (r.accepted, r.bad_tsig, r.lost),
        (made.transactions, 0, 0),
        "{kind:?}: {:?}\n{}",
        r.rcodes,
        primary.log()
    );
    let mut after = before;
    after.play(&text[..]);
    let mut served = primary.zone(".");
    let marker = served.0.remove(&(b"\x08_dnsrack\x00".to_vec(), 16)).expect("the marker");
    let last = r.markers.last().unwrap();
    let digits = last.number.to_string();
    assert_eq!(marker.into_iter().collect::<Vec<_>>(), [[&[digits.len() as u8], digits.as_bytes()].concat()]);
    assert_eq!(last.rcode.as_deref(), Some("NOERROR"));
    for (key, set) in &after.0 {
        assert_eq!(served.0.get(key), Some(set), "{kind:?} {key:?}");
    }
    assert_eq!(served.0.len(), after.0.len(), "{kind:?} has more");
}

#[test]
fn bind_has_what_the_stream_says() {
    plays(Kind::Bind, Mix::ISC, 300, SendTransport::Udp, true);
    plays(Kind::Bind, Mix::RZAIA, 300, SendTransport::Tcp, false);
}

#[test]
fn knot_has_what_the_stream_says() {
    plays(Kind::Knot, Mix::ISC, 300, SendTransport::Tcp, true);
    plays(Kind::Knot, Mix::RZAIA, 300, SendTransport::Udp, false);
}

/// The file is nsupdate's and knsupdate's too.
#[test]
fn others_play_the_very_file() {
    for (program, arguments) in [("nsupdate", &["-v"][..]), ("knsupdate", &["-v"][..])] {
        let Some(program) = find(program) else { continue };
        let dir = tempfile::tempdir().unwrap();
        let key = TsigKey::random("lab").unwrap();
        let zone = zone_file(dir.path(), Family::U6Ds0, 300);
        let Some(primary) = Primary::start(Kind::Bind, ".", &zone, &key) else { return };
        let (text, _) = stream(&Spec { prerequisites: true, ..spec(&zone, Mix::ISC, 60) });
        let file = dir.path().join("updates");
        let server = format!("server {} {}\n", primary.addr.ip(), primary.addr.port()).into_bytes();
        std::fs::write(&file, [server, text.clone()].concat()).unwrap();
        let secret = format!("{}:{}:{}", key.algorithm, key.name, key.secret);
        let out = Command::new(&program).args(arguments).args(["-y", &secret]).arg(&file).output().unwrap();
        let said = String::from_utf8_lossy(&out.stderr) + String::from_utf8_lossy(&out.stdout);
        assert!(out.status.success(), "{}: {said}", program.display());
        let mut after = Model::read(&std::fs::read(&zone).unwrap());
        after.play(&text[..]);
        assert!(primary.zone(".") == after, "{}: {said} {}", program.display(), primary.log());
    }
}

/// A small zone, `example.`
fn example(dir: &Path) -> PathBuf {
    let path = dir.join("example.zone");
    std::fs::write(&path, "example. 60 IN SOA ns. host. 1 3600 600 86400 60\nexample. 60 IN NS ns.\n")
        .unwrap();
    path
}

#[test]
fn what_servers_refuse_is_named() {
    for kind in [Kind::Bind, Kind::Knot] {
        let dir = tempfile::tempdir().unwrap();
        let key = TsigKey::random("lab").unwrap();
        let Some(primary) = Primary::start(kind, "example.", &example(dir.path()), &key) else { continue };
        let file = updates(dir.path(), 20);
        let run = |file: &Path, key: Option<TsigKey>| {
            send(&SendSpec { key, ..SendSpec::new(primary.addr, file, Pace::Closed { window: 1 }) })
        };
        let r = run(&file, Some(key.clone()));
        assert_eq!((r.accepted, r.bad_tsig), (20, 0), "{kind:?} {:?} {}", r.rcodes, primary.log());
        // Of another zone.
        let other = dir.path().join("other");
        std::fs::write(&other, "zone elsewhere.\nupdate add a.elsewhere. 60 A 10.0.0.1\nsend\n").unwrap();
        let r = run(&other, Some(key.clone()));
        assert_eq!((r.accepted, r.rcodes.get("NOTAUTH")), (0, Some(&1)), "{kind:?} {:?}", r.rcodes);
        // A key that it does not know, and another secret under the name of one that it does.
        let r = run(&file, Some(TsigKey { name: "stranger".into(), ..key.clone() }));
        assert_eq!(
            (r.accepted, r.rcodes.get("BADKEY"), r.bad_tsig),
            (0, Some(&20), 20),
            "{kind:?} {:?}",
            r.rcodes
        );
        let r = run(&file, Some(TsigKey::random("lab").unwrap()));
        assert_eq!(
            (r.accepted, r.rcodes.get("BADSIG"), r.bad_tsig),
            (0, Some(&20), 20),
            "{kind:?} {:?}",
            r.rcodes
        );
        assert_eq!(r.tsig_faults.get("BADSIG"), Some(&20));
        // None at all.
        let r = run(&file, None);
        let refused = ["REFUSED", "NOTAUTH"].iter().filter_map(|code| r.rcodes.get(*code)).sum::<u64>();
        assert_eq!((r.accepted, refused), (0, 20), "{kind:?} {:?}", r.rcodes);
        // A prerequisite that does not hold.
        let careful = dir.path().join("careful");
        std::fs::write(
            &careful,
            "zone example.\nprereq nxdomain n1.example.\nupdate delete n1.example.\nsend\n",
        )
        .unwrap();
        let r = run(&careful, Some(key.clone()));
        assert_eq!(r.rcodes.get("YXDOMAIN"), Some(&1), "{kind:?} {:?}", r.rcodes);
        only_noise(&r);
    }
}

#[test]
fn a_primary_that_dies_and_comes_back_costs_what_was_under_way() {
    for (kind, transport) in
        [(Kind::Bind, SendTransport::Udp), (Kind::Bind, SendTransport::Tcp), (Kind::Knot, SendTransport::Udp)]
    {
        let dir = tempfile::tempdir().unwrap();
        let key = TsigKey::random("lab").unwrap();
        let Some(mut primary) = Primary::start(kind, "example.", &example(dir.path()), &key) else {
            continue;
        };
        let spec = SendSpec {
            key: Some(key),
            transport,
            deadline: 500 * MS,
            ..SendSpec::new(primary.addr, updates(dir.path(), 800), rate(100.0))
        };
        let running = std::thread::spawn(move || send(&spec));
        std::thread::sleep(Duration::from_secs(2));
        primary.kill();
        std::thread::sleep(Duration::from_secs(1));
        primary.start_again("example.");
        let r = running.join().unwrap();
        only_noise(&r);
        assert!(!r.cut_short && r.sent == 800, "{kind:?} {}", brief(&r));
        // A second's worth and what the restart took; before and after it was served.
        assert!(
            (40..600).contains(&r.lost) && r.accepted > 200,
            "{kind:?} {transport}: lost {}, {:?}",
            r.lost,
            r.rcodes
        );
        let names: Vec<_> = primary.zone("example.").0.into_keys().filter(|(_, rtype)| *rtype == 1).collect();
        // What was acknowledged is there; of the lost ones perhaps some.
        assert!(names.len() as u64 >= r.accepted, "{kind:?}: {} names, {} accepted", names.len(), r.accepted);
    }
}
