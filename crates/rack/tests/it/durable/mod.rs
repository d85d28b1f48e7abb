//! Whether what a server acknowledged is there after the power went: traced, and tried on a disk whose power is cut.
//!
//! Needs root (the disk), strace, eatmydata and PowerDNS's SQLite backend; what is missing is said.

mod power;
mod secondaries;
mod sender;
mod setting;
mod traced;

use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, AtomicU16, Ordering};
use std::time::Duration;

/// Long enough for the slowest start on a busy machine; no test waits for it where all is well.
const TIMEOUT: Duration = Duration::from_secs(60);

/// A port that nobody uses, below the range of which the kernel gives ports to clients, and each once.
fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let start = 10_000 + (std::process::id() % 20_000) as u16;
    loop {
        let port = start + NEXT.fetch_add(1, Ordering::Relaxed) % 2_000;
        if UdpSocket::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}

/// Stops a thread when it goes, also with a panic.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
