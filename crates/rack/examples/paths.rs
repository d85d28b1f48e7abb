//! Sends packets over paths and looks at what arrives, for the tests and for scripts/path-emulator.sh. It confines itself, makes a
//! rack of hosts a, b and c, and prints one JSON object. `paths MODE SPEC`, SPEC as JSON: `{"paths": [...], ...}`:
//!
//! - `udp`: `count` datagrams of `octets` from a to b, each `gap_us` after the one before, over IPv6 where `v6` is true.
//! - `tcp`: `octets` over one connection from a to b.
//! - `capture`: as `udp`, with captures at the router's ports of both hosts.
//! - `busy`: as many captures as `count`, one after the other, on a's device while b sends a others datagrams.
//! - `overflow`: a capture that stands still while `count` datagrams of `octets` go from a to b, and one that is killed.
//! - `elsewhere`: whether hosts without a path reach each other while all paths are cut.

use measure::Event;
use measure::clock::{now, sleep_until};
use net::packet::PacketSocket;
use rack::path::{Report, run};
use rack::{Capture, Cmd, Host, HostSpec, Launcher, Local, Output, PathSpec, Paths, Rack, RackSpec, confine};
use rustix::process::{Pid, Signal};
use serde::Deserialize;
use serde_json::json;
use std::io::{BufRead, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Spec {
    paths: Vec<PathSpec>,
    #[serde(default)]
    router: Option<rack::RouterSpec>,
    /// The CPUs of a and b; empty: any.
    #[serde(default)]
    cpus: [Vec<usize>; 2],
    #[serde(default)]
    v6: bool,
    #[serde(default)]
    count: u64,
    #[serde(default)]
    octets: usize,
    #[serde(default)]
    gap_us: u64,
    /// How long to wait for the last, in milliseconds.
    #[serde(default)]
    wait_ms: u64,
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().collect();
    let args: Vec<&str> = args.iter().skip(1).map(String::as_str).collect();
    if args == ["role", "path"] {
        role();
        return ExitCode::SUCCESS;
    }
    if let Err(error) = confine() {
        eprintln!("{error}");
        return ExitCode::from(99);
    }
    let spec: Spec = serde_json::from_str(args[1]).unwrap_or_else(|e| panic!("{e}"));
    let folder = tempfile::tempdir().unwrap();
    let [a, b] = &spec.cpus;
    let hosts = vec![HostSpec::new("a", a), HostSpec::new("b", b), HostSpec::new("c", &[])];
    let wanted = RackSpec { paths: spec.paths.clone(), router: spec.router.clone(), ..RackSpec::new(hosts) };
    let rack = Rack::up(&wanted).unwrap_or_else(|e| panic!("{e}"));
    let open = || {
        Paths::start(&Local, &rack, &wanted.paths, &folder.path().join("log"))
            .unwrap_or_else(|e| panic!("{e}"))
    };
    let result = match args[0] {
        "udp" => {
            let paths = open();
            let seen = datagrams(&rack, &spec);
            json!({"seen": seen, "report": finish(paths), "emulation": rack.emulation()})
        }
        "tcp" => {
            let paths = open();
            let seen = stream(&rack, &spec);
            json!({"seen": seen, "report": finish(paths)})
        }
        "capture" => captures(&rack, &spec, open(), folder.path()),
        "busy" => captures_of_a_busy_device(&rack, &spec, folder.path()),
        "overflow" => captures_that_fail(&rack, &spec, folder.path()),
        "elsewhere" => {
            let (a, b, c) = (&rack.hosts()[0], &rack.hosts()[1], &rack.hosts()[2]);
            let cut = reaches(a, b);
            let paths = open();
            let opened = reaches(a, b);
            drop(paths);
            let other = rack.plan(&[PathSpec::between("a", "c")]).unwrap_err().to_string();
            json!({"cut": cut, "open": opened, "cut_again": reaches(a, b), "elsewhere": reaches(a, c), "other": other})
        }
        other => panic!("no mode {other}"),
    };
    println!("{result}");
    ExitCode::SUCCESS
}

/// What `dnsrack role path` is: the coordinator starts its own program on the router.
fn role() {
    let say = |event: &Event| println!("{}", serde_json::to_string(event).unwrap());
    let mut plan = String::new();
    std::io::stdin().lock().read_line(&mut plan).unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let watched = stop.clone();
    let ready = move || {
        say(&Event::Ready);
        std::thread::spawn(move || {
            let _ = std::io::stdin().lock().read_line(&mut String::new());
            watched.store(true, Ordering::Relaxed);
        });
    };
    let plan = serde_json::from_str(&plan).unwrap();
    let mut tell =
        |second, r: &Report| say(&Event::Progress { second, values: serde_json::to_value(r).unwrap() });
    match run(&plan, ready, &stop, &mut tell) {
        Ok(report) => say(&Event::Done { result: serde_json::to_value(report).unwrap() }),
        Err(e) => say(&Event::Error { message: e.to_string() }),
    }
}

fn finish(paths: Paths) -> Report {
    paths.finish().unwrap_or_else(|e| panic!("{e}"))
}

fn addresses(rack: &Rack, v6: bool) -> [IpAddr; 2] {
    let (a, b) = (&rack.hosts()[0], &rack.hosts()[1]);
    if v6 { [a.v6.into(), b.v6.into()] } else { [a.v4.into(), b.v4.into()] }
}

/// Whether one of a few datagrams arrives.
fn reaches(from: &Host, to: &Host) -> bool {
    let receiver = to.udp_socket((to.v4, 0).into()).unwrap();
    let sender = from.udp_socket((from.v4, 0).into()).unwrap();
    receiver.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    (0..3).any(|_| {
        let _ = sender.send_to(b"there?", receiver.local_addr().unwrap());
        receiver.recv(&mut [0; 16]).is_ok()
    })
}

/// Sends datagrams with their index and the time, each not before it is due.
fn send(from: UdpSocket, to: SocketAddr, spec: &Spec) {
    let mut payload = vec![0; spec.octets.max(16)];
    let begin = now();
    for index in 0..spec.count {
        let at = begin + index * spec.gap_us * 1000;
        if now() < at {
            sleep_until(at);
        }
        payload[..8].copy_from_slice(&index.to_be_bytes());
        payload[8..16].copy_from_slice(&now().to_be_bytes());
        while from.send_to(&payload, to).is_err() {
            std::thread::yield_now();
        }
    }
}

/// Datagrams from a to b: which arrived, in which order, how long they took, by the kernel's stamps at b's device.
fn datagrams(rack: &Rack, spec: &Spec) -> serde_json::Value {
    let [from, to] = addresses(rack, spec.v6);
    let (a, b) = (&rack.hosts()[0], &rack.hosts()[1]);
    // Bound, so that b does not answer that nobody is there; and never read.
    let bound = b.udp_socket((to, 0).into()).unwrap();
    let target = bound.local_addr().unwrap();
    let mut socket =
        b.run_in(|| PacketSocket::open("eth0", 2000, 64 << 20)).unwrap().unwrap_or_else(|e| panic!("{e}"));
    let sender = a.udp_socket((from, 0).into()).unwrap();
    let header = if spec.v6 { 40 } else { 20 } + 14;
    let mut arrived: Vec<(u64, u64)> = Vec::new();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            send(sender, target, spec);
            done.store(true, Ordering::Relaxed);
        });
        let mut quiet = Instant::now();
        let wait = Duration::from_millis(spec.wait_ms.max(300));
        while !done.load(Ordering::Relaxed) || quiet.elapsed() < wait {
            let got = socket.receive(&mut |frame| {
                let udp = frame.bytes.get(header..).unwrap_or_default();
                if udp.len() >= 24 && udp[2..4] == target.port().to_be_bytes() {
                    let number = |at: usize| u64::from_be_bytes(udp[at..at + 8].try_into().unwrap());
                    arrived.push((number(8), frame.arrived.saturating_sub(number(16))));
                }
            });
            if got.unwrap() > 0 || !done.load(Ordering::Relaxed) {
                quiet = Instant::now();
            }
            socket.wait(10_000_000).unwrap();
        }
    });
    let mut indices: Vec<u64> = arrived.iter().map(|a| a.0).collect();
    let out_of_order = indices.windows(2).filter(|w| w[1] < w[0]).count();
    indices.sort_unstable();
    indices.dedup();
    let lost_runs = (0..spec.count)
        .scan(false, |before, index| {
            let lost = indices.binary_search(&index).is_err();
            Some(!std::mem::replace(before, lost) && lost)
        })
        .filter(|&begins| begins)
        .count();
    let mut took: Vec<u64> = arrived.iter().map(|a| a.1).collect();
    took.sort_unstable();
    let at = |q: f64| took.get(((took.len() as f64 * q) as usize).min(took.len().saturating_sub(1)));
    let quantiles: Vec<_> =
        [0.0, 0.01, 0.1, 0.5, 0.9, 0.99, 1.0].iter().map(|&q| at(q).map(|&ns| ns as f64 / 1e3)).collect();
    json!({"received": arrived.len(), "different": indices.len(), "out_of_order": out_of_order,
        "lost_runs": lost_runs, "took_us": quantiles, "unread": socket.dropped().unwrap()})
}

/// Octet `i` of a stream: no two parts of it are alike.
fn octet(i: usize) -> u8 {
    ((i as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8
}

fn stream(rack: &Rack, spec: &Spec) -> serde_json::Value {
    let [_, to] = addresses(rack, spec.v6);
    let (a, b) = (&rack.hosts()[0], &rack.hosts()[1]);
    let listener = b.run_in(|| TcpListener::bind((to, 0))).unwrap().unwrap();
    let target = listener.local_addr().unwrap();
    let (mut whole, mut count) = (true, 0);
    let mut begun = Instant::now();
    let mut control = String::new();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut connection = a.run_in(|| TcpStream::connect(target)).unwrap().expect("it connects");
            let mut room = vec![0; 256 << 10];
            let mut at = 0;
            while at < spec.octets {
                let length = room.len().min(spec.octets - at);
                room[..length].iter_mut().enumerate().for_each(|(i, o)| *o = octet(at + i));
                connection.write_all(&room[..length]).unwrap();
                at += length;
            }
        });
        let (mut connection, _) = listener.accept().unwrap();
        begun = Instant::now();
        control = output(a, Cmd::new("ss").args(["-t", "-i", "-n"]));
        let mut room = vec![0; 256 << 10];
        loop {
            match connection.read(&mut room).unwrap() {
                0 => break,
                n => {
                    whole &= room[..n].iter().enumerate().all(|(i, &o)| o == octet(count + i));
                    count += n;
                }
            }
        }
    });
    let seconds = begun.elapsed().as_secs_f64();
    json!({"octets": count, "whole": whole && count == spec.octets, "seconds": seconds,
        "mbit_s": count as f64 * 8.0 / 1e6 / seconds, "cubic": control.contains("cubic")})
}

fn output(host: &Host, cmd: Cmd) -> String {
    let mut text = String::new();
    if let Ok(mut process) = Local.spawn(host, &cmd.stdout(Output::Pipe)) {
        let _ = process.take_stdout().map(|mut out| out.read_to_string(&mut text));
    }
    text
}

/// What captures at both ports of the router count of the same datagrams.
fn captures(rack: &Rack, spec: &Spec, paths: Paths, folder: &Path) -> serde_json::Value {
    let [from, _] = addresses(rack, spec.v6);
    let router = rack.router().expect("there are paths");
    let filter = format!("udp and src host {from}");
    let captures = ["a", "b"].map(|port| {
        let (file, said) = (folder.join(port), folder.join(format!("{port}.said")));
        Capture::start_on(&Local, router, port, &filter, &[], &file, &said).unwrap_or_else(|e| panic!("{e}"))
    });
    let seen = datagrams(rack, spec);
    let captured = captures.map(|capture| {
        let captured = capture.finish().unwrap_or_else(|e| panic!("{e}"));
        json!({"packets": captured.packets, "dropped": captured.dropped})
    });
    json!({"seen": seen, "captured": captured, "report": finish(paths)})
}

/// Each capture is of three datagrams, and begins and ends among others that its filter does not let through.
fn captures_of_a_busy_device(rack: &Rack, spec: &Spec, folder: &Path) -> serde_json::Value {
    let (a, b) = (&rack.hosts()[0], &rack.hosts()[1]);
    let [sender, other] = [(); 2].map(|()| b.udp_socket((b.v4, 0).into()).unwrap());
    let [to, elsewhere] =
        [a.udp_socket((a.v4, 53).into()), a.udp_socket((a.v4, 0).into())].map(Result::unwrap);
    let ends = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let until = Instant::now() + Duration::from_secs(60);
            while !ends.load(Ordering::Relaxed) && Instant::now() < until {
                let _ = other.send_to(&[0; 20], elsewhere.local_addr().unwrap());
            }
        });
        let captured = (0..spec.count).map(|_| {
            let (file, said) = (folder.join("pcap"), folder.join("said"));
            let capture =
                Capture::start(&Local, a, "udp port 53", &[], &file, &said).unwrap_or_else(|e| panic!("{e}"));
            for _ in 0..3 {
                sender.send_to(&[0; 20], to.local_addr().unwrap()).unwrap();
            }
            let captured = capture.finish().unwrap_or_else(|e| panic!("{e}"));
            json!({"packets": captured.packets, "dropped": captured.dropped})
        });
        let captured: Vec<_> = captured.collect();
        ends.store(true, Ordering::Relaxed);
        json!(captured)
    })
}

/// The first capture's ring overflows, as it stands still; the second one is killed.
fn captures_that_fail(rack: &Rack, spec: &Spec, folder: &Path) -> serde_json::Value {
    let (a, b) = (&rack.hosts()[0], &rack.hosts()[1]);
    let [from, to] = [a.udp_socket((a.v4, 0).into()), b.udp_socket((b.v4, 53).into())].map(Result::unwrap);
    let (file, said) = (folder.join("pcap"), folder.join("said"));
    let start =
        || Capture::start(&Local, a, "udp port 53", &[], &file, &said).unwrap_or_else(|e| panic!("{e}"));
    // The confined run sees its own processes alone.
    let signal = |signal| {
        let mut all = procfs::process::all_processes().unwrap().flatten();
        let tcpdump = all.find(|process| process.stat().unwrap().comm == "tcpdump").unwrap();
        rustix::process::kill_process(Pid::from_raw(tcpdump.pid).unwrap(), signal).unwrap();
    };
    let capture = start();
    signal(Signal::STOP);
    let datagram = vec![0; spec.octets];
    for _ in 0..spec.count {
        from.send_to(&datagram, to.local_addr().unwrap()).unwrap();
    }
    signal(Signal::CONT);
    let captured = capture.finish().unwrap_or_else(|e| panic!("{e}"));
    let capture = start();
    signal(Signal::KILL);
    let killed = capture.finish().unwrap_err().to_string();
    json!({"packets": captured.packets, "dropped": captured.dropped, "killed": killed})
}
