//! A client of HTTP/1.1 that keeps no connection.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// An answer.
pub struct Answer {
    pub status: u16,
    /// The head, in lower case.
    pub head: String,
    pub body: String,
}

fn ask(at: SocketAddr, path: &str, host: &str) -> BufReader<TcpStream> {
    let mut stream = TcpStream::connect(at).expect("a connection");
    stream.set_read_timeout(Some(Duration::from_secs(20))).expect("a timeout");
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n").expect("a request");
    BufReader::new(stream)
}

fn head(stream: &mut impl BufRead) -> String {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        assert!(stream.read_line(&mut head).expect("a head") > 0, "{head}");
    }
    head.to_lowercase()
}

/// Asks for a path by a name of the host.
pub fn get(at: SocketAddr, path: &str, host: &str) -> Answer {
    let mut stream = ask(at, path, host);
    let head = head(&mut stream);
    let mut body = String::new();
    stream.read_to_string(&mut body).expect("a body");
    let status = head.split(' ').nth(1).and_then(|word| word.parse().ok()).expect("a status");
    assert!(!head.contains("transfer-encoding"), "{head}");
    Answer { status, head, body }
}

/// Events that the server sends, each with its data, until there are none.
pub fn events(at: SocketAddr, path: &str) -> impl Iterator<Item = (String, String)> {
    let mut stream = ask(at, path, &at.to_string());
    let head = head(&mut stream);
    assert!(head.contains("text/event-stream"), "{head}");
    let mut name = String::new();
    stream.lines().map_while(Result::ok).filter_map(move |line| {
        if let Some(text) = line.strip_prefix("event: ") {
            name = text.to_owned();
        }
        Some((name.clone(), line.strip_prefix("data: ")?.to_owned()))
    })
}
