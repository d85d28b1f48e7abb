//! A page for Prometheus: HTTP/1.1 on one thread, one connection after the other.

use super::exposition::Format;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// A request's head is at most this long, in octets.
const LONGEST: usize = 8192;
/// A client has so long to say its request, and to take its answer.
const PATIENCE: Duration = Duration::from_secs(2);

/// Serves `/metrics` until it is dropped.
#[derive(Debug)]
pub struct Exporter {
    at: SocketAddr,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Exporter {
    /// Listens at `at` (port 0: any that is free) and asks `text` for each page.
    ///
    /// # Errors
    /// `PermissionDenied` where the address is not a loopback one: everybody who reaches it may read it. Those of the listening
    /// socket.
    pub fn start(at: SocketAddr, text: impl Fn(Format) -> String + Send + 'static) -> io::Result<Self> {
        if !at.ip().is_loopback() {
            let why = format!(
                "{at} is not a loopback address, and there is no access control: give 127.0.0.1 or [::1]"
            );
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
        }
        let listener = TcpListener::bind(at)?;
        let at = listener.local_addr()?;
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let thread = std::thread::Builder::new().name("metrics".into()).spawn(move || {
            for stream in listener.incoming() {
                if stopped.load(Ordering::Relaxed) {
                    return;
                }
                match stream {
                    // A client may go away before it has its answer: that is no error.
                    Ok(stream) => drop(answer(stream, &text)),
                    // There are no more file descriptors, for example. Do not try again at once.
                    Err(_) => std::thread::sleep(Duration::from_millis(100)),
                }
            }
        })?;
        Ok(Self { at, stop, thread: Some(thread) })
    }

    /// Where the figures are.
    pub fn url(&self) -> String {
        format!("http://{}/metrics", self.at)
    }
}

impl Drop for Exporter {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        // It waits for a connection: this is one.
        let woken = TcpStream::connect_timeout(&self.at, PATIENCE).is_ok();
        if let Some(thread) = self.thread.take().filter(|_| woken) {
            let _ = thread.join();
        }
    }
}

/// Reads one request, answers it, and closes.
fn answer(mut stream: TcpStream, text: &dyn Fn(Format) -> String) -> io::Result<()> {
    stream.set_write_timeout(Some(PATIENCE))?;
    let head = head(&mut stream)?;
    let format = Format::asked(&String::from_utf8_lossy(&head));
    let (status, body) = respond(&head, &|| text(format));
    let length = body.len();
    // A head that cannot be read may be one for HEAD; everything else gets its body.
    let body = if head.starts_with(b"HEAD ") { String::new() } else { body };
    let allow = if status.starts_with("405") { "Allow: GET, HEAD\r\n" } else { "" };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {}\r\nContent-Length: {length}\r\n{allow}Connection: close\r\n\r\n",
        if status.starts_with("200") { format.media_type() } else { Format::Text.media_type() }
    );
    stream.write_all((head + &body).as_bytes())?;
    stream.shutdown(std::net::Shutdown::Write)
}

/// The octets up to the empty line, or as many as there are within patience and [`LONGEST`].
fn head(stream: &mut TcpStream) -> io::Result<Vec<u8>> {
    let end = Instant::now() + PATIENCE;
    let mut head = Vec::new();
    let mut chunk = [0; 1024];
    while !head.windows(4).any(|w| w == b"\r\n\r\n") && head.len() < LONGEST {
        let left = end.saturating_duration_since(Instant::now());
        stream.set_read_timeout(Some(left.max(Duration::from_millis(1))))?;
        match stream.read(&mut chunk) {
            Ok(0) => break,
            Ok(n) => head.extend_from_slice(&chunk[..n]),
            Err(e) if left.is_zero() || e.kind() != io::ErrorKind::Interrupted => return Err(e),
            Err(_) => {}
        }
    }
    Ok(head)
}

/// Status and body for a request's head.
fn respond(head: &[u8], text: &dyn Fn() -> String) -> (&'static str, String) {
    let line = head.split(|b| *b == b'\r' || *b == b'\n').next().unwrap_or_default();
    let line = String::from_utf8_lossy(line);
    let mut words = line.split(' ');
    let (Some(method), Some(target), Some(version)) = (words.next(), words.next(), words.next()) else {
        return ("400 Bad Request", "not a request of HTTP/1.1\n".into());
    };
    let path = target.split('?').next().unwrap_or_default();
    match (method, path) {
        _ if !version.starts_with("HTTP/1.") || words.next().is_some() => {
            ("400 Bad Request", "not a request of HTTP/1.1\n".into())
        }
        ("GET" | "HEAD", "/metrics") => ("200 OK", text()),
        ("GET" | "HEAD", _) => ("404 Not Found", "the figures are at /metrics\n".into()),
        _ => ("405 Method Not Allowed", "only GET and HEAD\n".into()),
    }
}

/// For fuzzing: any request's head has an answer with a known status.
pub fn fuzz_request(data: &[u8]) {
    let (status, body) = respond(data, &|| "figures".into());
    assert!(["200 ", "400 ", "404 ", "405 "].iter().any(|s| status.starts_with(s)) && !body.is_empty());
}
