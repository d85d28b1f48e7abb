//! Faults of a server that no real one has by itself: a forwarder in front of a real server, in a process of its own on the
//! server's host, that drops, changes, delays, doubles or readdresses what the server answers.

use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::io::Write;
use std::net::{SocketAddr, UdpSocket};
use std::process::{Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// One answer of so many has the fault.
const ONE_OF: u64 = 20;

/// The fault that the proxy makes.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Spends a millisecond on each query, one after the other.
    Slow,
    /// Does not answer.
    Drop,
    /// Turns a bit of the last record's data.
    Lie,
    /// Answers so many milliseconds later.
    Late(u64),
    /// Answers twice.
    Twice,
    /// Answers from this address instead.
    Address(SocketAddr),
    /// Turns a bit of the question's name in the answer.
    Question,
}

/// Where it listens, and where the real server does.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Proxy {
    pub listen: SocketAddr,
    pub server: SocketAddr,
    pub kind: Kind,
}

const SPEC: &str = "DNSRACK_TEST_FAULT_PROXY";

impl Proxy {
    /// Makes `command`, which runs a program on the server's host, run this proxy there.
    pub fn command(&self, mut command: Command) -> Command {
        command.arg(std::env::current_exe().expect("this test program"));
        command.args(["--exact", "faults::proxy::child", "--ignored", "--nocapture", "--test-threads=1"]);
        command.env(SPEC, serde_json::to_string(self).expect("JSON")).stdout(Stdio::null());
        command
    }

    fn run(self) -> ! {
        let socket = UdpSocket::bind(self.listen).expect("the address to listen on");
        let server = UdpSocket::bind(SocketAddr::new(self.listen.ip(), 0)).expect("a socket");
        server.connect(self.server).expect("the server's address");
        server.set_read_timeout(Some(Duration::from_millis(200))).expect("a timeout");
        let other = match self.kind {
            Kind::Address(address) => Some(UdpSocket::bind(address).expect("the other address")),
            _ => None,
        };
        let later = later(socket.try_clone().expect("a socket"));
        let mut bytes = [0; 4096];
        for n in 0_u64.. {
            let Ok((len, from)) = socket.recv_from(&mut bytes) else { continue };
            let faulty = n % ONE_OF == ONE_OF - 1;
            if matches!(self.kind, Kind::Slow) {
                std::thread::sleep(Duration::from_millis(1));
            }
            if matches!(self.kind, Kind::Drop) && faulty || server.send(&bytes[..len]).is_err() {
                continue;
            }
            let id = [bytes[0], bytes[1]];
            // An answer that came too late for an earlier query is left out.
            let len = loop {
                match server.recv(&mut bytes) {
                    Ok(len) if bytes[..2] == id => break len,
                    Ok(_) => {}
                    Err(_) => break 0,
                }
            };
            let answer = &mut bytes[..len];
            match self.kind {
                _ if !faulty || len < 14 => {}
                Kind::Lie => answer[len - 1] ^= 1,
                Kind::Question => answer[13] ^= 1,
                Kind::Late(ms) => {
                    let due = Instant::now() + Duration::from_millis(ms);
                    let _ = later.send((due, answer.to_vec(), from));
                    continue;
                }
                Kind::Twice => drop(socket.send_to(answer, from)),
                Kind::Address(_) => {
                    let _ = other.as_ref().expect("it is bound").send_to(answer, from);
                    continue;
                }
                Kind::Slow | Kind::Drop => {}
            }
            let _ = socket.send_to(answer, from);
        }
        std::process::exit(0);
    }
}

type Delayed = (Instant, Vec<u8>, SocketAddr);

/// A thread that sends what it is given when it is due; all are delayed by the same time, so they are due in order.
fn later(socket: UdpSocket) -> std::sync::mpsc::Sender<Delayed> {
    let (sender, receiver) = channel::<Delayed>();
    std::thread::spawn(move || {
        let mut waiting = VecDeque::<Delayed>::new();
        loop {
            let wait = waiting
                .front()
                .map_or(Duration::from_secs(3600), |(due, ..)| due.saturating_duration_since(Instant::now()));
            match receiver.recv_timeout(wait) {
                Ok(next) => waiting.push_back(next),
                Err(RecvTimeoutError::Timeout) => {
                    if let Some((_, answer, to)) = waiting.pop_front() {
                        let _ = socket.send_to(&answer, to);
                    }
                }
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    });
    sender
}

/// Not a test: the proxy of other tests in a process of its own.
#[test]
#[ignore = "the proxy of other tests, run by them"]
fn child() {
    let Ok(text) = std::env::var(SPEC) else { return };
    let proxy: Proxy = serde_json::from_str(&text).expect("a proxy");
    let _ = std::io::stdout().flush();
    proxy.run();
}
