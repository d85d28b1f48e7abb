//! Secondaries that are killed (SIGKILL) again and again while changes stream to them by IXFR.
//!
//! What each may do, and does: BIND and Knot keep what they got (a journal, and a zone file or a dump of the zone), and go on
//! from the last serial that they served. NSD has the zone in memory and writes its zone file now and then (`zonefiles-write`,
//! by default once an hour): it starts again from that, so its serial goes back until a transfer brings it up to date.

use super::sender;
use super::setting::{Kind, ZONE};
use super::{Stop, TIMEOUT, free_port};
use measure::Seed;
use rack::{Cmd, Host, Launcher, Local, Output, Process};
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// The life of most.
const SHORT: Duration = Duration::from_millis(150);

fn address(port: u16) -> SocketAddr {
    ([127, 0, 0, 1], port).into()
}

fn spawn(cmd: Cmd, folder: &Path) -> Process {
    let output = Output::File(folder.join("output.log"));
    Local.spawn(&Host::loopback(), &cmd.cwd(folder).stdout(output.clone()).stderr(output)).unwrap()
}

fn folder(dir: &Path, name: &str, config: &str) -> std::path::PathBuf {
    let folder = dir.join(name);
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(folder.join("conf"), config).unwrap();
    folder
}

// Changes go by IXFR, however many there are at once: a BIND that takes an AXFR removes its journal, and when it is killed before it has
// written the zone, it starts with an older one.
fn primary(dir: &Path, port: u16, secondary: u16) -> Process {
    let path = folder(
        dir,
        "primary",
        &format!(
            "options {{ directory \"{0}/primary\"; pid-file none; session-keyfile none; listen-on port {port} {{ 127.0.0.1; }};\n\
             listen-on-v6 {{ none; }}; recursion no; dnssec-validation no; allow-transfer {{ any; }}; notify-delay 0;\n\
             notify explicit; also-notify {{ 127.0.0.1 port {secondary}; }}; max-ixfr-ratio unlimited; }};\ncontrols {{ }};\n\
             zone \"example\" {{ type master; file \"z\"; allow-update {{ any; }}; }};\n",
            dir.display()
        ),
    );
    std::fs::write(path.join("z"), ZONE).unwrap();
    let program = Kind::Bind.program().unwrap();
    spawn(Cmd::new(program).args(["-f", "-n", "2", "-c", "conf", "-L", "named.log"]), &path)
}

/// The command of a secondary, whose folder is made once.
fn secondary(kind: Kind, more: &str, dir: &Path, port: u16, primary: u16) -> (Cmd, std::path::PathBuf) {
    let d = dir.join("secondary").display().to_string();
    let config = match kind {
        Kind::Bind => format!(
            "options {{ directory \"{d}\"; pid-file none; session-keyfile none; listen-on port {port} {{ 127.0.0.1; }};\n\
             listen-on-v6 {{ none; }}; recursion no; dnssec-validation no; notify no; allow-transfer {{ any; }}; }};\n\
             controls {{ }};\nzone \"example\" {{ type slave; masters {{ 127.0.0.1 port {primary}; }}; file \"s\"; }};\n"
        ),
        Kind::Knot => format!(
            "server:\n    rundir: \"{d}\"\n    listen: [ \"127.0.0.1@{port}\" ]\ncontrol:\n    listen: \"{d}/sock\"\n\
             log:\n  - target: \"{d}/knot.log\"\n    any: info\ndatabase:\n    storage: \"{d}/db\"\n    journal-db-max-size: 100M\n\
             remote:\n  - id: p\n    address: 127.0.0.1@{primary}\n\
             acl:\n  - id: any\n    address: 127.0.0.1\n    action: [notify, transfer]\n\
             zone:\n  - domain: example.\n    file: \"{d}/s\"\n    master: p\n    acl: any\n"
        ),
        _ => format!(
            "server:\n\tport: {port}\n\tip-address: 127.0.0.1\n\tusername: \"\"\n\tchroot: \"\"\n\tzonesdir: \"{d}\"\n\tdatabase: \"\"\n\
             \tpidfile: \"{d}/pid\"\n\tlogfile: \"{d}/nsd.log\"\n\txfrdfile: \"{d}/xfrd.state\"\n\txfrdir: \"{d}\"\n\
             \tzonelistfile: \"{d}/zone.list\"\n\tcookie-secret-file: \"{d}/cookies\"\n{more}remote-control:\n\tcontrol-enable: no\n\
             zone:\n\tname: \"example\"\n\tzonefile: \"s\"\n\trequest-xfr: 127.0.0.1@{primary} NOKEY\n\
             \tallow-notify: 127.0.0.1 NOKEY\n\tprovide-xfr: 127.0.0.1 NOKEY\n"
        ),
    };
    let path = folder(dir, "secondary", &config);
    let program = Cmd::new(kind.program().unwrap());
    let cmd = match kind {
        Kind::Bind => program.args(["-f", "-n", "2", "-c", "conf", "-L", "named.log"]),
        Kind::Knot => {
            std::fs::create_dir(path.join("db")).unwrap();
            program.args(["-c", "conf"])
        }
        _ => program.args(["-d", "-c", "conf"]),
    };
    (cmd, path)
}

/// The zone as a server transfers it: its serial and all other records, sorted.
fn transferred(server: SocketAddr) -> Option<(u32, BTreeSet<String>)> {
    let port = server.port().to_string();
    let dig = Command::new("dig")
        .args([
            "@127.0.0.1",
            "-p",
            &port,
            "+noall",
            "+answer",
            "+onesoa",
            "+time=5",
            "+tries=1",
            "AXFR",
            "example.",
        ])
        .output()
        .expect("dig");
    let text = String::from_utf8(dig.stdout).unwrap();
    let lines = text.lines().filter(|line| !line.starts_with(';') && !line.is_empty());
    let (soa, rest): (Vec<&str>, Vec<&str>) = lines.partition(|line| line.contains("\tSOA\t"));
    let serial = soa.first()?.split_whitespace().nth(6)?.parse().ok()?;
    Some((serial, rest.into_iter().map(str::to_owned).collect()))
}

/// What the primary had at a serial: each update makes one, and adds one name.
fn expected(serial: u32) -> BTreeSet<String> {
    let fixed =
        ["example.\t\t60\tIN\tNS\tns.example.", "ns.example.\t\t60\tIN\tA\t192.0.2.1"].map(str::to_owned);
    let added = (1..serial).map(|n| format!("{}.example.\t60\tIN\tA\t192.0.2.9", sender::name(n)));
    fixed.into_iter().chain(added).collect()
}

/// Serials that a secondary served.
#[derive(Debug, Default)]
struct Seen {
    /// The last before each kill, and the first after it.
    kills: Vec<(u32, u32)>,
    /// Those that went back while it ran.
    back: Vec<(u32, u32)>,
}

/// Serials of a secondary around each of its deaths, which come after `life` or up to 0.4 s later: the last one served, and
/// the first one after it came back.
fn killed(kind: Kind, more: &str, kills: u64, life: Duration) -> Option<Seen> {
    for needed in [kind, Kind::Bind] {
        if needed.program().is_none() {
            eprintln!("SKIPPED: {needed:?} is not installed (apt-get install {})", needed.package());
            return None;
        }
    }
    let dir = tempfile::tempdir().unwrap();
    let (at, from) = (free_port(), free_port());
    let _primary = primary(dir.path(), from, at);
    assert!(sender::ready(address(from), TIMEOUT).is_some());
    let (cmd, path) = secondary(kind, more, dir.path(), at, from);
    let mut process = spawn(cmd.clone(), &path);
    assert!(sender::ready(address(at), TIMEOUT).is_some(), "{kind:?} does not come up");
    let mut draw = Seed(7).draw("kills", 0);
    let (stop, served, mut seen) = (AtomicBool::new(false), AtomicU32::new(0), Seen::default());
    let whole = |server: SocketAddr| {
        let (serial, records) = transferred(server).unwrap_or_else(|| panic!("{kind:?}: no transfer"));
        assert_eq!(records, expected(serial), "{kind:?}: what is served at serial {serial}");
        serial
    };
    std::thread::scope(|scope| {
        let stream = scope.spawn(|| {
            // One at a time, with pauses, so that each is a change of its own.
            for number in 1.. {
                if stop.load(Ordering::Relaxed) {
                    return number - 1;
                }
                let sent = sender::updates(address(from), number, 1, 1, &AtomicBool::new(false));
                assert_eq!(sent.acknowledged.len(), 1, "{sent:?}");
                std::thread::sleep(Duration::from_millis(4));
            }
            unreachable!("the loop above has no end")
        });
        let _ends = Stop(&stop);
        for _ in 0..kills {
            let until = Instant::now() + life + Duration::from_millis(draw.below(400));
            let mut last = served.load(Ordering::Relaxed);
            while Instant::now() < until {
                if let Some(serial) = sender::serial(address(at), Duration::from_millis(50)) {
                    if serial < last {
                        seen.back.push((last, serial));
                    }
                    last = serial;
                }
                std::thread::sleep(Duration::from_millis(1));
            }
            process.kill().unwrap();
            let until = Instant::now() + TIMEOUT;
            process = spawn(cmd.clone(), &path);
            let first = loop {
                if let Some(first) = sender::ready(address(at), Duration::from_millis(500)) {
                    break first;
                }
                assert!(Instant::now() < until, "{kind:?} does not come back");
                // One of its processes may have kept the port a moment longer.
                if process.try_wait().unwrap().is_some() {
                    process = spawn(cmd.clone(), &path);
                }
            };
            seen.kills.push((last, first));
            served.store(first, Ordering::Relaxed);
            whole(address(at));
        }
        stop.store(true, Ordering::Relaxed);
        let changes = stream.join().unwrap();
        let until = Instant::now() + TIMEOUT;
        while sender::serial(address(at), Duration::from_millis(50)) != Some(changes + 1) {
            assert!(Instant::now() < until, "{kind:?} does not catch up with {changes} changes");
            std::thread::sleep(Duration::from_millis(10));
        }
        assert_eq!(whole(address(at)), changes + 1);
        assert_eq!(transferred(address(at)), transferred(address(from)));
    });
    if std::env::var_os("DNSRACK_KEEP").is_some() {
        eprintln!("{kind:?}: {seen:?}");
    }
    assert!(seen.kills.last().unwrap().0 > 10, "{kind:?}: changes came: {seen:?}");
    Some(seen)
}

#[test]
fn bind_goes_on_where_it_was() {
    let Some(seen) = killed(Kind::Bind, "", 10, SHORT) else { return };
    assert!(seen.kills.iter().all(|(before, after)| after >= before) && seen.back.is_empty(), "{seen:?}");
}

#[test]
fn knot_goes_on_where_it_was() {
    let Some(seen) = killed(Kind::Knot, "", 10, SHORT) else { return };
    assert!(seen.kills.iter().all(|(before, after)| after >= before) && seen.back.is_empty(), "{seen:?}");
}

/// What it serves is whole, at whatever serial.
#[test]
fn nsd_serves_whole_zones() {
    let Some(without) = killed(Kind::Nsd, "", 6, SHORT) else { return };
    // Before it has written a zone file, it does not answer until a transfer is done.
    assert!(without.kills.iter().all(|(before, after)| after >= before), "{without:?}");
    assert!(killed(Kind::Nsd, "\tzonefiles-write: 1\n", 4, Duration::from_secs(2)).is_some());
}
