//! A server in a process of its own, which tests stop and kill.

use rustix::process::{Pid, kill_process};
use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};

/// Answers each query with itself, over UDP and TCP at one port. Killed when dropped.
pub struct Server {
    pub addr: SocketAddr,
    child: Child,
}

impl Server {
    pub fn start() -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "child::server", "--ignored", "--nocapture", "--test-threads=1"])
            .env("DNSRACK_TEST_SERVER", "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        let addr = { lines }.find_map(|l| l.strip_prefix("LISTENS ").map(|a| a.parse().unwrap()));
        Self { addr: addr.expect("the server listens"), child }
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub fn signal(pid: u32, signal: rustix::process::Signal) {
    kill_process(Pid::from_raw(pid as i32).unwrap(), signal).unwrap();
}

/// Not a test: the server of other tests in a process of its own, until its standard input ends.
#[test]
#[ignore = "the server of other tests, run by them"]
fn server() {
    if std::env::var_os("DNSRACK_TEST_SERVER").is_none() {
        return;
    }
    use rustix::process::{Resource, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, rustix::process::Rlimit { current: limit.maximum, ..limit }).unwrap();
    let mut tcp = net::tcp::Responder::open("127.0.0.1:0".parse().unwrap()).unwrap();
    let addr = tcp.local_addr().unwrap();
    let mut udp = net::udp::Responder::open(addr, 4 << 20).unwrap();
    println!("\nLISTENS {addr}");
    std::io::stdout().flush().unwrap();
    std::thread::spawn(|| {
        let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
        std::process::exit(0);
    });
    std::thread::spawn(move || {
        loop {
            udp.wait(1_000_000_000).unwrap();
            udp.turn(&mut |msg| {
                wire::header::set_qr(msg);
                Some(msg.len())
            })
            .unwrap();
        }
    });
    loop {
        tcp.wait(1_000_000_000).unwrap();
        tcp.turn(&mut |query, out| {
            let at = out.len();
            out.extend_from_slice(query);
            wire::header::set_qr(&mut out[at..]);
            true
        })
        .unwrap();
    }
}
