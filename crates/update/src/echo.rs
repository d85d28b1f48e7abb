//! The other end for calibration: acknowledges every update and does nothing else, as fast as the machine allows.
//!
//! The answer is the request's header and zone section with QR and NOERROR, signed where the request was and a key is known; the
//! request's own signature is not checked. Over UDP and TCP at the same address.

use crate::message::is_update;
use crate::tsig::{Signer, mac_of};
use crate::{Error, TsigKey};
use measure::Nanos;
use measure::clock::{self, SECOND};
use net::{tcp, udp};
use serde::{Deserialize, Serialize};
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use wire::header::{self, Header};
use wire::question;

/// How many ports the kernel is asked for until one is free for both transports.
const PORTS: usize = 64;

/// No echo runs for longer than this unless it is told to.
pub const DEFAULT_DURATION: Nanos = 3600 * SECOND;

/// How long it waits for datagrams before it looks at connections again.
const WAIT: Nanos = 1_000_000;

/// A responder to updates.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EchoSpec {
    /// Where it answers; port 0: the kernel chooses one.
    pub addr: SocketAddr,
    /// For how long, in nanoseconds.
    pub duration: Nanos,
    /// The key that signs its answers to signed requests; none: they stay unsigned.
    #[serde(default)]
    pub key: Option<TsigKey>,
    /// The core it is pinned to.
    #[serde(default)]
    pub cpu: Option<usize>,
    /// Its receive buffer, in bytes of the kernel's accounting.
    pub recv_buffer: usize,
}

impl EchoSpec {
    /// With defaults for everything else.
    pub fn new(addr: SocketAddr) -> Self {
        Self { addr, duration: DEFAULT_DURATION, key: None, cpu: None, recv_buffer: 16 << 20 }
    }
}

/// The counters of an echo.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EchoResult {
    /// Messages received.
    pub received: u64,
    /// Updates acknowledged.
    pub acknowledged: u64,
    /// Messages that are no updates, left unanswered.
    pub ignored: u64,
    /// Datagrams that the kernel dropped because the receive buffer was full.
    pub drops: u64,
}

/// An echo that listens but does not yet answer.
pub struct Echo {
    spec: EchoSpec,
    udp: udp::Responder,
    tcp: tcp::Responder,
    addr: SocketAddr,
    answerer: Answerer,
}

impl Echo {
    /// Binds it.
    ///
    /// # Errors
    /// [`Error::Echo`]: the address is in use or not available. [`Error::Spec`]: the key cannot be used.
    pub fn open(spec: &EchoSpec) -> Result<Self, Error> {
        let refuse = |error| Error::Echo { addr: spec.addr, error };
        let signer = spec.key.as_ref().map(Signer::new).transpose()?;
        let (udp, tcp) = at_one_port(spec).map_err(refuse)?;
        let addr = udp.local_addr().map_err(refuse)?;
        let answerer = Answerer { signer, time: 0, answer: Vec::new(), result: EchoResult::default() };
        Ok(Self { spec: spec.clone(), udp, tcp, addr, answerer })
    }

    /// Where it listens.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Answers in the calling thread until `stop` is set or its time is over. `each_second` learns once a second what it did so far.
    ///
    /// # Errors
    /// [`Error::Pin`]; [`Error::Echo`] where a socket breaks.
    pub fn run(
        mut self,
        stop: &AtomicBool,
        each_second: &mut dyn FnMut(&EchoResult),
    ) -> Result<EchoResult, Error> {
        net::scheduling::settle(self.spec.cpu)?;
        let refuse = |error| Error::Echo { addr: self.addr, error };
        let start = clock::now();
        let (mut next_second, mut next_look, mut connected) = (start + SECOND, start, false);
        loop {
            let now = clock::now();
            self.answerer.time = clock::wall() / SECOND;
            let answerer = &mut self.answerer;
            let (received, _) = self.udp.turn(&mut |message| answerer.in_place(message)).map_err(refuse)?;
            if connected || now >= next_look {
                next_look = now + WAIT;
                self.tcp.turn(&mut |message, out| answerer.append(message, out)).map_err(refuse)?;
                connected = self.tcp.connections().1 > 0;
            }
            if now >= next_second {
                next_second = now + SECOND;
                answerer.result.drops = self.udp.drops();
                each_second(&answerer.result);
            }
            if now - start >= self.spec.duration || stop.load(Ordering::Relaxed) {
                answerer.result.drops = self.udp.drops();
                return Ok(answerer.result);
            }
            if received == 0 {
                match connected {
                    true => self.tcp.wait(WAIT).map_err(refuse)?,
                    false => self.udp.wait(WAIT).map_err(refuse)?,
                }
            }
        }
    }
}

/// The sockets of both transports. A port that the kernel chose for UDP may be some connection's over TCP: then the next.
fn at_one_port(spec: &EchoSpec) -> io::Result<(udp::Responder, tcp::Responder)> {
    let mut last = io::Error::from(io::ErrorKind::AddrInUse);
    for _ in 0..if spec.addr.port() == 0 { PORTS } else { 1 } {
        let udp = udp::Responder::open(spec.addr, spec.recv_buffer)?;
        match tcp::Responder::open(udp.local_addr()?) {
            Ok(tcp) => return Ok((udp, tcp)),
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => last = error,
            Err(error) => return Err(error),
        }
    }
    Err(last)
}

/// Makes answers.
struct Answerer {
    signer: Option<Signer>,
    /// Seconds since 1970.
    time: u64,
    answer: Vec<u8>,
    result: EchoResult,
}

impl Answerer {
    /// The answer to a message, in `self.answer`; false: none, for it is no update.
    fn make(&mut self, message: &[u8]) -> bool {
        self.result.received += 1;
        let update = Header::new(message).is_some_and(|h| !h.qr()) && is_update(message);
        let Some(end) = question::end(message).filter(|_| update) else {
            self.result.ignored += 1;
            return false;
        };
        self.answer.clear();
        self.answer.extend_from_slice(&message[..end]);
        header::set_qr(&mut self.answer);
        // NOERROR, one zone, nothing else.
        self.answer[3] = 0;
        self.answer[4..12].copy_from_slice(&[0, 1, 0, 0, 0, 0, 0, 0]);
        if let (Some(signer), Some(mac)) = (&mut self.signer, mac_of(message)) {
            signer.sign(&mut self.answer, self.time, Some(&mac));
        }
        self.result.acknowledged += 1;
        true
    }

    /// Puts the answer where the request was. It is never longer: it has no records but the signature, which the request has too.
    fn in_place(&mut self, message: &mut [u8]) -> Option<usize> {
        let made = self.make(message);
        let room = message.get_mut(..self.answer.len()).filter(|_| made)?;
        room.copy_from_slice(&self.answer);
        Some(self.answer.len())
    }

    fn append(&mut self, message: &[u8], out: &mut Vec<u8>) -> bool {
        let made = self.make(message);
        if made {
            out.extend_from_slice(&self.answer);
        }
        made
    }
}
