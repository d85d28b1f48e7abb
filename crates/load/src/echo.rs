//! The other end for calibration: answers every query with itself and QR set, as fast as the machine allows.

use crate::{Backend, Error};
use measure::Nanos;
use measure::clock;
use net::udp::Responder;
use serde::{Deserialize, Serialize};
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

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
    /// Who answers: a thread with a socket (also for `auto`), or an XDP program in the kernel on the interface that
    /// has the address (see [`net::xdp::Echo`] for what that wants of the other end).
    #[serde(default)]
    pub backend: Backend,
}

impl EchoSpec {
    /// An echo with defaults for everything else.
    pub fn new(addr: SocketAddr) -> Self {
        Self { addr, duration: DEFAULT_DURATION, cpu: None, recv_buffer: 16 << 20, backend: Backend::Socket }
    }
}

/// The counters of an echo.
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
    end: End,
    addr: SocketAddr,
}

enum End {
    Socket(Responder),
    Xdp(net::xdp::Echo),
}

impl End {
    /// Brings the counts up to date; how many datagrams were dealt with (by the kernel: none by us).
    fn turn(&mut self, result: &mut EchoResult) -> io::Result<usize> {
        match self {
            Self::Socket(responder) => {
                let (received, answered) = responder.turn(&mut answer)?;
                result.received += received as u64;
                result.answered += answered as u64;
                Ok(received)
            }
            Self::Xdp(echo) => {
                (result.received, result.answered) = echo.counts().map_err(io::Error::other)?;
                Ok(0)
            }
        }
    }

    fn wait(&self) -> io::Result<()> {
        const TIMEOUT: Nanos = 20_000_000;
        match self {
            Self::Socket(responder) => responder.wait(TIMEOUT),
            Self::Xdp(_) => {
                std::thread::sleep(Duration::from_nanos(TIMEOUT));
                Ok(())
            }
        }
    }

    fn drops(&self) -> u64 {
        match self {
            Self::Socket(responder) => responder.drops(),
            Self::Xdp(_) => 0,
        }
    }
}

impl Echo {
    /// Binds it.
    ///
    /// # Errors
    /// [`Error::Echo`]: the address is in use or not available. [`Error::Xdp`]: the interface has no XDP for us.
    pub fn open(spec: &EchoSpec) -> Result<Self, Error> {
        let refuse = |error| Error::Echo { addr: spec.addr, error };
        if spec.backend == Backend::Xdp {
            let error =
                || io::Error::new(io::ErrorKind::InvalidInput, "an XDP echo chooses no port: name one");
            if spec.addr.port() == 0 {
                return Err(refuse(error()));
            }
            let echo = net::xdp::Echo::open(spec.addr, net::xdp::Mode::Auto).map_err(Error::Xdp)?;
            return Ok(Self { spec: spec.clone(), end: End::Xdp(echo), addr: spec.addr });
        }
        let responder = Responder::open(spec.addr, spec.recv_buffer).map_err(refuse)?;
        let addr = responder.local_addr().map_err(refuse)?;
        Ok(Self { spec: spec.clone(), end: End::Socket(responder), addr })
    }

    /// The backend that answers: `socket`, `xdp-native` or `xdp-generic`.
    pub fn backend(&self) -> &'static str {
        match &self.end {
            End::Socket(_) => "socket",
            End::Xdp(echo) => echo.backend(),
        }
    }

    /// Where it listens.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Answers in the calling thread until `stop` is set or its time is over. `each_second` learns once a second what
    /// it did so far.
    ///
    /// # Errors
    /// [`Error::Pin`]; [`Error::Echo`] where the socket breaks.
    pub fn run(
        mut self,
        stop: &AtomicBool,
        each_second: &mut dyn FnMut(&EchoResult),
    ) -> Result<EchoResult, Error> {
        net::scheduling::settle(self.spec.cpu)?;
        let refuse = |error| Error::Echo { addr: self.addr, error };
        let start = clock::now();
        let mut next = start + clock::SECOND;
        let mut result = EchoResult::default();
        loop {
            let received = self.end.turn(&mut result).map_err(refuse)?;
            let now = clock::now();
            if now >= next {
                next = now + clock::SECOND;
                result.drops = self.end.drops();
                result.ignored = result.received - result.answered;
                each_second(&result);
            }
            if now - start >= self.spec.duration || stop.load(Ordering::Relaxed) {
                break;
            }
            if received == 0 {
                self.end.wait().map_err(refuse)?;
            }
        }
        result.drops = self.end.drops();
        result.ignored = result.received - result.answered;
        Ok(result)
    }
}

/// Turns a query into its echo, as long as itself; an answer is left alone, so that two echoes cannot feed each other for
/// ever.
fn answer(msg: &mut [u8]) -> Option<usize> {
    let query = wire::header::Header::new(msg).is_some_and(|h| !h.qr());
    if query {
        wire::header::set_qr(msg);
    }
    query.then_some(msg.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;

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
