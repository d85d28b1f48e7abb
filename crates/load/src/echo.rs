//! The other end for calibration: answers every query with itself and QR set, as fast as the machine allows.

use crate::Error;
use crate::worker::settle;
use measure::Nanos;
use measure::clock;
use net::udp::Responder;
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};

/// No echo runs for longer than this unless it is told to.
pub const DEFAULT_DURATION: Nanos = 3600 * clock::SECOND;

/// An echo.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EchoSpec {
    /// Where it answers; port 0: the kernel chooses one.
    pub addr: SocketAddr,
    /// For how long, in nanoseconds.
    pub duration: Nanos,
    /// The core it is pinned to.
    #[serde(default)]
    pub cpu: Option<usize>,
    /// Its receive buffer, in bytes of the kernel's accounting.
    pub recv_buffer: usize,
}

impl EchoSpec {
    /// An echo with defaults for everything else.
    pub fn new(addr: SocketAddr) -> Self {
        Self { addr, duration: DEFAULT_DURATION, cpu: None, recv_buffer: 16 << 20 }
    }
}

/// What an echo did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EchoResult {
    /// Datagrams received.
    pub received: u64,
    /// Answers sent.
    pub answered: u64,
    /// Datagrams that are no DNS queries (shorter than a header, or answers themselves), left unanswered.
    pub ignored: u64,
    /// Datagrams that the kernel dropped because the receive buffer was full.
    pub drops: u64,
}

/// An echo that listens but does not yet answer.
pub struct Echo {
    spec: EchoSpec,
    responder: Responder,
    addr: SocketAddr,
}

impl Echo {
    /// Binds it.
    ///
    /// # Errors
    /// [`Error::Echo`]: the address is in use or not available.
    pub fn open(spec: &EchoSpec) -> Result<Self, Error> {
        let refuse = |error| Error::Echo { addr: spec.addr, error };
        let responder = Responder::open(spec.addr, spec.recv_buffer).map_err(refuse)?;
        let addr = responder.local_addr().map_err(refuse)?;
        Ok(Self { spec: spec.clone(), responder, addr })
    }

    /// Where it listens.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Answers in the calling thread until `stop` is set or its time is over. `each_second` learns once a second what it
    /// did so far.
    ///
    /// # Errors
    /// [`Error::Pin`]; [`Error::Echo`] where the socket breaks.
    pub fn run(
        mut self,
        stop: &AtomicBool,
        each_second: &mut dyn FnMut(&EchoResult),
    ) -> Result<EchoResult, Error> {
        settle(self.spec.cpu)?;
        let refuse = |error| Error::Echo { addr: self.addr, error };
        let start = clock::now();
        let mut next = start + clock::SECOND;
        let mut result = EchoResult::default();
        loop {
            let (received, answered) = self.responder.turn(&mut answer).map_err(refuse)?;
            result.received += received as u64;
            result.answered += answered as u64;
            let now = clock::now();
            if now >= next {
                next = now + clock::SECOND;
                result.drops = self.responder.drops();
                result.ignored = result.received - result.answered;
                each_second(&result);
            }
            if now - start >= self.spec.duration || stop.load(Ordering::Relaxed) {
                break;
            }
            if received == 0 {
                self.responder.wait(20_000_000).map_err(refuse)?;
            }
        }
        result.drops = self.responder.drops();
        result.ignored = result.received - result.answered;
        Ok(result)
    }
}

/// Turns a query into its echo; an answer is left alone, so that two echoes cannot feed each other for ever.
fn answer(msg: &mut [u8]) -> bool {
    let query = wire::header::Header::new(msg).is_some_and(|h| !h.qr());
    if query {
        wire::header::set_qr(msg);
    }
    query
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;
    use std::time::Duration;

    #[test]
    fn queries_come_back_and_answers_do_not() {
        let echo = Echo::open(&EchoSpec::new("127.0.0.1:0".parse().unwrap())).unwrap();
        let addr = echo.addr();
        let stop = AtomicBool::new(false);
        let result = std::thread::scope(|scope| {
            let running = scope.spawn(|| echo.run(&stop, &mut |_| ()).unwrap());
            let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
            socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
            let mut query = Vec::new();
            wire::query::write(&mut query, 7, b"\x01a\x00", 1, None);
            let mut reply = [0; 512];
            socket.send_to(&query[..11], addr).unwrap();
            socket.send_to(&query, addr).unwrap();
            let len = socket.recv(&mut reply).unwrap();
            wire::header::set_qr(&mut query);
            assert_eq!(&reply[..len], query);
            socket.send_to(&query, addr).unwrap();
            socket.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
            assert!(socket.recv(&mut reply).is_err(), "an answer was answered");
            stop.store(true, Ordering::Relaxed);
            running.join().unwrap()
        });
        assert_eq!(result, EchoResult { received: 3, answered: 1, ignored: 2, drops: 0 });
    }

    #[test]
    fn an_occupied_port_is_named() {
        let taken = UdpSocket::bind("127.0.0.1:0").unwrap();
        let addr = taken.local_addr().unwrap();
        let error = Echo::open(&EchoSpec::new(addr)).err().unwrap().to_string();
        assert!(error.contains(&addr.to_string()), "{error}");
    }
}
