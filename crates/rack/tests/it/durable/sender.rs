//! A small sender of updates over UDP, and of questions whether they are still there.

use measure::{Nanos, clock};
use std::collections::HashMap;
use std::io::ErrorKind;
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The origin `example.` as a name in a message, with type SOA and class IN.
const ZONE: &[u8] = b"\x07example\0\0\x06\0\x01";

/// An update that was acknowledged with NOERROR.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Acknowledged {
    /// Its name is `uNNNNNN`.
    pub number: u32,
    /// When the answer came, by the wall clock, as [`rack::disk::Cut::at`] is.
    pub at: Nanos,
}

/// What came of the updates.
#[derive(Debug, Default)]
pub struct Sent {
    pub acknowledged: Vec<Acknowledged>,
    pub refused: u32,
    pub silent: u32,
}

pub fn name(number: u32) -> String {
    format!("u{number:06}")
}

/// Adds an address for one new name.
fn add(number: u32) -> Vec<u8> {
    let mut message = (number as u16).to_be_bytes().to_vec();
    message.extend(b"\x28\0\0\x01\0\0\0\x01\0\0");
    message.extend(ZONE);
    message.push(7);
    message.extend(name(number).into_bytes());
    message.extend(b"\xc0\x0c\0\x01\0\x01\0\0\0\x3c\0\x04\xc0\0\x02\x09");
    message
}

fn socket(server: SocketAddr) -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.connect(server).unwrap();
    socket.set_read_timeout(Some(Duration::from_millis(5))).unwrap();
    socket
}

/// Something that was sent away must be here again within this time, or never.
const PATIENCE: Duration = Duration::from_secs(3);

/// Sends updates from `first` on, at most `window` of them unanswered, until `count` were sent or `stop` is set.
pub fn updates(server: SocketAddr, first: u32, count: u32, window: usize, stop: &AtomicBool) -> Sent {
    let socket = socket(server);
    let mut waiting: HashMap<u16, (u32, Instant)> = HashMap::new();
    let (mut sent, mut next) = (Sent::default(), first);
    let mut buffer = [0; 2048];
    while !stop.load(Ordering::Relaxed) && (next < first + count || !waiting.is_empty()) {
        while waiting.len() < window && next < first + count {
            let _ = socket.send(&add(next)); // refused: the server is gone, and so it will be told
            waiting.insert(next as u16, (next, Instant::now()));
            next += 1;
        }
        match socket.recv(&mut buffer) {
            Ok(n) if n >= 12 => {
                let at = clock::wall();
                let id = u16::from_be_bytes([buffer[0], buffer[1]]);
                if let Some((number, _)) = waiting.remove(&id) {
                    match buffer[3] & 0xf {
                        0 => sent.acknowledged.push(Acknowledged { number, at }),
                        _ => sent.refused += 1,
                    }
                }
            }
            Ok(_) => (),
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => (),
            Err(_) => std::thread::sleep(Duration::from_millis(1)),
        }
        let before = waiting.len();
        waiting.retain(|_, (_, since)| since.elapsed() < PATIENCE);
        sent.silent += (before - waiting.len()) as u32;
    }
    sent
}

/// The serial that a server serves for the zone; none: no answer within `patience`, or no zone.
pub fn serial(server: SocketAddr, patience: Duration) -> Option<u32> {
    let socket = socket(server);
    socket.set_read_timeout(Some(patience)).unwrap();
    let mut query = b"\x12\x34\0\0\0\x01\0\0\0\0\0\0".to_vec();
    query.extend(ZONE);
    socket.send(&query).ok()?;
    let mut answer = [0; 2048];
    let n = socket.recv(&mut answer).ok()?;
    let answer = &answer[..n];
    (n > 12 && answer[3] & 0xf == 0 && answer[7] > 0 && answer[2] & 4 != 0).then_some(())?;
    // Header, question, then the first record: owner, type, class, TTL, length, two names, the serial.
    let mut at = 12 + ZONE.len();
    at = skip(answer, at)? + 10;
    at = skip(answer, at)?;
    at = skip(answer, at)?;
    Some(u32::from_be_bytes(answer.get(at..at + 4)?.try_into().ok()?))
}

fn skip(message: &[u8], mut at: usize) -> Option<usize> {
    loop {
        match *message.get(at)? {
            0 => return Some(at + 1),
            len if len < 64 => at += 1 + usize::from(len),
            _ => return Some(at + 2),
        }
    }
}

/// Waits until the zone is served.
pub fn ready(server: SocketAddr, patience: Duration) -> Option<u32> {
    let until = Instant::now() + patience;
    while Instant::now() < until {
        if let Some(serial) = serial(server, Duration::from_millis(50)) {
            return Some(serial);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    None
}

/// Which of these names the server does not have.
pub fn missing(server: SocketAddr, numbers: &[u32]) -> Vec<String> {
    let socket = socket(server);
    let mut missing = Vec::new();
    let mut buffer = [0; 2048];
    for chunk in numbers.chunks(64) {
        let mut left: Vec<u32> = chunk.to_vec();
        for attempt in 0.. {
            assert!(attempt < 200, "{server} does not answer");
            for &number in &left {
                let mut query = (number as u16).to_be_bytes().to_vec();
                query.extend(b"\0\0\0\x01\0\0\0\0\0\0\x07");
                query.extend(name(number).into_bytes());
                query.extend(b"\x07example\0\0\x01\0\x01");
                let _ = socket.send(&query);
            }
            let until = Instant::now() + Duration::from_millis(500);
            while !left.is_empty() && Instant::now() < until {
                let Ok(n) = socket.recv(&mut buffer) else { continue };
                let id = u16::from_be_bytes([buffer[0], buffer[1]]);
                let Some(at) = left.iter().position(|&number| number as u16 == id).filter(|_| n >= 12) else {
                    continue;
                };
                match buffer[3] & 0xf {
                    0 if buffer[7] > 0 => drop(left.swap_remove(at)),
                    0 | 3 => missing.push(name(left.swap_remove(at))),
                    _ => (), // SERVFAIL: it is not ready; asked again
                }
            }
            if left.is_empty() {
                break;
            }
        }
    }
    missing.sort();
    missing
}
