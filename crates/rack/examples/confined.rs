//! A program that confines itself, for the tests: they run on many threads, and confinement must come before
//! the first. `confined MODE [ARG]`; what it did goes to standard output as JSON lines.

use rack::resource_counters::{HostCounters, Softnet, softnet};
use rack::{Cmd, Host, HostSpec, Launcher, Local, Output, Rack, RackSpec, confine};
use serde_json::json;
use std::fs;
use std::io::Read;
use std::net::{IpAddr, SocketAddr};
use std::process::ExitCode;
use std::time::{Duration, Instant};

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().collect();
    // Looked at from outside: the process ids there.
    let outer = std::process::id();
    let confinement = match confine() {
        Ok(confinement) => confinement,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::from(99);
        }
    };
    match args[1].as_str() {
        "exit" => return ExitCode::from(args[2].parse::<u8>().unwrap()),
        "signal" => {
            rustix::process::kill_process(
                rustix::process::getpid(),
                rustix::process::Signal::from_named_raw(args[2].parse().unwrap()).unwrap(),
            )
            .unwrap();
            std::thread::sleep(Duration::from_secs(5));
        }
        "sleep" => {
            println!("{}", json!({"outer": outer}));
            std::thread::sleep(Duration::from_secs(60));
        }
        "ping" => {
            let rack = up("ping", &[]);
            let steering = serde_json::to_value(rack.steering()).unwrap();
            let user = confinement.user_namespace;
            println!("{}", json!({"user_namespace": user, "steering": steering, "pings": pings(&rack)}));
        }
        "switch" => {
            let hosts = ["a", "b", "c"].map(|name| HostSpec::new(name, &[])).to_vec();
            let rack = Rack::up(&RackSpec::new(hosts)).unwrap_or_else(|e| panic!("{e}"));
            println!("{}", json!({"switch": rack.has_switch(), "pings": pings(&rack)}));
        }
        "orphans" => println!("{}", json!({"zombies": orphans()})),
        "run" => println!("{}", json!(run())),
        "environment" => {
            let rack = up("env", &[]);
            println!("{}", serde_json::to_string(&rack::environment(rack.steering())).unwrap());
        }
        "flood" => println!("{}", flood()),
        "hold" => hold(&args[2]),
        other => panic!("no mode {other}"),
    }
    ExitCode::SUCCESS
}

fn up(name: &str, extra: &[IpAddr]) -> Rack {
    let cpus = rack::process::allowed_cpus();
    let mut a = HostSpec::new(format!("{name}-a"), &cpus[..1]);
    a.extra_addrs = extra.to_vec();
    let b = HostSpec::new(format!("{name}-b"), &cpus[cpus.len() - 1..]);
    Rack::up(&RackSpec::new(vec![a, b])).unwrap_or_else(|e| panic!("{e}"))
}

/// One datagram from the first host to the last and back, never repeated: the first packet must not be lost.
fn pings(rack: &Rack) -> Vec<String> {
    let (a, b) = (&rack.hosts()[0], &rack.hosts()[rack.hosts().len() - 1]);
    let mut done = Vec::new();
    for (from, to) in [(IpAddr::from(a.v4), IpAddr::from(b.v4)), (a.v6.into(), b.v6.into())] {
        let server = b.udp_socket(SocketAddr::new(to, 53)).unwrap();
        let client = a.udp_socket(SocketAddr::new(from, 0)).unwrap();
        for socket in [&server, &client] {
            socket.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
        }
        let mut buffer = [0; 2000];
        client.send_to(&[7; 1400], server.local_addr().unwrap()).unwrap();
        let (size, peer) = server.recv_from(&mut buffer).expect("the query arrives");
        server.send_to(&buffer[..size], peer).unwrap();
        let (size, peer) = client.recv_from(&mut buffer).expect("the answer arrives");
        assert_eq!((size, peer.ip()), (1400, to));
        done.push(to.to_string());
    }
    done
}

/// A shell leaves two children behind; what is left of them as zombies after they ended, which their reaper did not reap.
fn orphans() -> usize {
    let cmd = Cmd::new("sh").args(["-c", "sleep 0.1 & sleep 0.1 & exit 0"]);
    let mut shell = Local.spawn(&Host::loopback(), &cmd).unwrap();
    assert!(shell.wait_timeout(Duration::from_secs(5)).unwrap().unwrap().success());
    std::thread::sleep(Duration::from_millis(500));
    let reaper = rustix::process::getppid().map_or(0, |pid| pid.as_raw_nonzero().get());
    let states = fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| fs::read_to_string(entry.ok()?.path().join("stat")).ok());
    states.filter(|stat| stat.contains(&format!(") Z {reaper} "))).count()
}

/// What a process on a host finds out about itself.
fn run() -> serde_json::Value {
    let rack = up("run", &["10.53.0.77".parse().unwrap()]);
    let host = &rack.hosts()[0];
    let script = "grep Cpus_allowed_list /proc/self/status; cat /proc/self/net/dev; echo to-stderr >&2";
    let cmd = Cmd::new("sh").args(["-c", script]).cpus(&host.cpus).stdout(Output::Pipe).stderr(Output::Pipe);
    let mut process = Local.spawn(host, &cmd).unwrap();
    let (mut out, mut err) = (String::new(), String::new());
    process.take_stdout().unwrap().read_to_string(&mut out).unwrap();
    process.take_stderr().unwrap().read_to_string(&mut err).unwrap();
    let status = process.wait_timeout(Duration::from_secs(5)).unwrap().unwrap();
    let extra = host.udp_socket("10.53.0.77:0".parse().unwrap()).is_ok();
    let here = fs::read_to_string("/proc/thread-self/net/dev").unwrap();
    json!({"out": out, "err": err, "status": status.code(), "cpus": host.cpus, "extra": extra, "here": here})
}

/// Many datagrams at once to a socket that nobody reads meanwhile: where each of them went.
fn flood() -> serde_json::Value {
    const SENT: u64 = 60_000;
    let rack = up("flood", &[]);
    let (a, b) = (&rack.hosts()[0], &rack.hosts()[1]);
    let (from, to) = (HostCounters::open(a).unwrap(), HostCounters::open(b).unwrap());
    let (from_before, to_before) = (from.read().unwrap(), to.read().unwrap());
    let receiver = b.udp_socket(SocketAddr::new(b.v4.into(), 53)).unwrap();
    let sender = a.udp_socket(SocketAddr::new(a.v4.into(), 0)).unwrap();
    let mut own = rustix::thread::CpuSet::new();
    own.set(a.cpus[0]);
    rustix::thread::sched_setaffinity(None, &own).unwrap();
    let cores_before = softnet().unwrap();
    for _ in 0..SENT {
        sender.send_to(&[0; 45], receiver.local_addr().unwrap()).unwrap();
    }
    // On a busy machine what is in the receiver's backlog may wait for its core for longer than any silence: all is over when
    // every datagram has ended somewhere.
    receiver.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
    let (mut read, until) = (0, Instant::now() + Duration::from_secs(30));
    loop {
        while receiver.recv(&mut [0; 64]).is_ok() {
            read += 1;
        }
        let (from, to) = (from.read().unwrap().since(&from_before), to.read().unwrap().since(&to_before));
        let ended = read + to.udp_receive_buffer_errors + to.received_dropped + from.sent_dropped;
        if ended >= SENT || Instant::now() >= until {
            break;
        }
    }
    let at = |cores: &[Softnet]| cores.iter().find(|c| c.core == b.cpus[0]).unwrap().processed;
    let steered = at(&softnet().unwrap()) - at(&cores_before);
    let (from, to) = (from.read().unwrap().since(&from_before), to.read().unwrap().since(&to_before));
    json!({"offered": SENT, "sent": from.udp_sent, "not_sent": from.sent_dropped, "read": read,
        "received": to.udp_received, "buffer_full": to.udp_receive_buffer_errors,
        "backlog_full": to.received_dropped, "taken_in_by_core_of_b": steered, "cpus": [a.cpus[0], b.cpus[0]]})
}

/// A rack with a server on it (marked by an argument), then sleep until killed.
fn hold(mark: &str) {
    let rack = up(mark, &[]);
    // A shell with a child, which has closed everything and left its process group: the hardest to catch.
    let script = format!("setsid sh -c 'exec sleep 1000 # {mark}' & exec sleep 1000 # {mark}");
    let cmd = Cmd::new("sh").args(["-c", &script]).env("DNSRACK_TEST_MARK", mark);
    let server = Local.spawn(&rack.hosts()[0], &cmd).unwrap();
    let links: Vec<String> = rack
        .hosts()
        .iter()
        .map(|host| host.run_in(|| fs::read_link("/proc/thread-self/ns/net").unwrap()).unwrap())
        .chain(
            ["net", "pid", "mnt", "ipc"].map(|kind| fs::read_link(format!("/proc/self/ns/{kind}")).unwrap()),
        )
        .map(|link| link.display().to_string())
        .collect();
    println!("{}", json!({"namespaces": links, "server": server.pid()}));
    std::thread::sleep(Duration::from_secs(600));
}
