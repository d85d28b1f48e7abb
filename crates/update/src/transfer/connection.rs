//! The TCP connection of a transfer: messages with their length before them, until a deadline.

use measure::Nanos;
use measure::clock;
use net::tcp::split;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Room for what comes: a message of any length, and more, so that little is moved.
const BUFFER: usize = 256 << 10;
/// The longest message with its length.
const LONGEST: usize = 2 + u16::MAX as usize;
/// How long a read waits before it is looked whether the time is over.
const TURN: Duration = Duration::from_millis(50);

/// Why there are no more messages.
pub(super) enum Broken {
    /// The server sent FIN.
    Closed,
    /// Anything else that TCP tells.
    Lost(io::Error),
    Timeout,
    Stopped,
}

pub(super) struct Connection {
    stream: TcpStream,
    pub buffer: Box<[u8]>,
    /// The part of the buffer that was not given yet.
    held: Range<usize>,
    octets: u64,
    first: Option<Nanos>,
    last: Option<Nanos>,
}

impl Connection {
    pub fn open(target: SocketAddr, deadline: Nanos) -> io::Result<Self> {
        let left = Duration::from_nanos(deadline.saturating_sub(clock::now()).max(1));
        let stream = TcpStream::connect_timeout(&target, left)?;
        // Where nobody listens at one of our own ports, the kernel may connect us to ourselves.
        if stream.local_addr().is_ok_and(|local| local == target) {
            return Err(ErrorKind::ConnectionRefused.into());
        }
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(TURN))?;
        stream.set_write_timeout(Some(left))?;
        Ok(Self { stream, buffer: vec![0; BUFFER].into(), held: 0..0, octets: 0, first: None, last: None })
    }

    /// Sends a message with its length: how many octets that took.
    pub fn send(&mut self, message: &[u8]) -> io::Result<u64> {
        let length = u16::try_from(message.len()).map_err(|_| ErrorKind::InvalidInput)?;
        let framed = [&length.to_be_bytes()[..], message].concat();
        self.stream.write_all(&framed)?;
        Ok(framed.len() as u64)
    }

    /// Waits for the next message: where it is in the buffer.
    pub fn message(&mut self, deadline: Nanos, stop: &AtomicBool) -> Result<Range<usize>, Broken> {
        loop {
            if let Some((message, _)) = split(&self.buffer[self.held.clone()]) {
                let at = self.held.start + 2..self.held.start + 2 + message.len();
                self.held.start = at.end;
                return Ok(at);
            }
            if self.buffer.len() - self.held.start < LONGEST {
                self.buffer.copy_within(self.held.clone(), 0);
                self.held = 0..self.held.len();
            }
            match self.stream.read(&mut self.buffer[self.held.end..]) {
                Ok(0) => return Err(Broken::Closed),
                Ok(n) => {
                    let now = clock::now();
                    self.first.get_or_insert(now);
                    self.last = Some(now);
                    self.octets += n as u64;
                    self.held.end += n;
                }
                Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return Err(Broken::Lost(e)),
            }
            if stop.load(Ordering::Relaxed) {
                return Err(Broken::Stopped);
            }
            // Also while octets trickle in.
            if clock::now() >= deadline {
                return Err(Broken::Timeout);
            }
        }
    }

    /// Octets that came after the last message that was given.
    pub fn left(&self) -> usize {
        self.held.len()
    }

    /// Octets that came, and when the first and the last of them did.
    pub fn seen(&self) -> (u64, Option<Nanos>, Option<Nanos>) {
        (self.octets, self.first, self.last)
    }
}
